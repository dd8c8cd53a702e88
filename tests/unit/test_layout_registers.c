/* Register layouts against the fragment tables of the PTX manual, and as bijections. */
#include "layout/reshape.h"
#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* needs those */

static layout make(layout_request r) {
    layout l;
    layout_fit fit = layout_make(&r, &l);
    if (fit.status) {
        fail_msg("no layout %d for (%d, %d) over (%d, %d): %d", r.kind, r.rows, r.columns,
                 r.warps_down, r.warps_across, fit.status);
    }
    return l;
}

static layout make_kind(layout_kind kind, int rows, int columns, int down, int across) {
    return make((layout_request){.kind = kind,
                                 .rows = rows,
                                 .columns = columns,
                                 .warps_down = down,
                                 .warps_across = across,
                                 .element_bits = 16});
}

static void assert_place(layout_point p, int row, int column) {
    assert_int_equal(p.row, row);
    assert_int_equal(p.column, column);
}

/* --- the manual's tables: groupID = lane >> 2, threadID_in_group = lane % 4 ------------------- */

static void left_operand_is_the_manuals(void **state) {
    (void)state;
    const int rows = 128, columns = 72, warps = 4; /* 4 k16 steps and one k8 step */
    layout l = make_kind(LAYOUT_MMA_A, rows, columns, warps, 1);
    for (int warp = 0; warp < warps; warp++) {
        for (int lane = 0; lane < 32; lane++) {
            int group = lane >> 2, in_group = lane % 4, element = 0;
            for (int m = 0; m < rows / warps / 16; m++) {
                int row0 = warp * 32 + 16 * m;
                for (int step = 0; step < 4; step++) { /* m16n8k16: a0..a7 */
                    for (int i = 0; i < 8; i++) {
                        int row = (i < 2 || (i >= 4 && i < 6)) ? group : group + 8;
                        int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
                        assert_place(layout_place(&l, warp, lane, element++), row0 + row,
                                     16 * step + column);
                    }
                }
                for (int i = 0; i < 4; i++) { /* m16n8k8: a0..a3 */
                    int row = i < 2 ? group : group + 8;
                    assert_place(layout_place(&l, warp, lane, element++), row0 + row,
                                 64 + in_group * 2 + (i & 1));
                }
            }
            assert_int_equal(element, layout_elements(&l));
        }
    }
}

static void right_operand_is_the_manuals(void **state) {
    (void)state;
    const int k = 40, n = 24; /* 2 k16 steps and one k8 step, 3 n tiles */
    for (int turn = 0; turn < 2; turn++) {
        layout l = make((layout_request){.kind = LAYOUT_MMA_B,
                                         .rows = turn ? n : k,
                                         .columns = turn ? k : n,
                                         .warps_down = 4,
                                         .warps_across = 1,
                                         .transposed = turn});
        for (int lane = 0; lane < 32; lane++) {
            int group = lane >> 2, in_group = lane % 4, element = 0;
            for (int tile = 0; tile < 3; tile++) {
                for (int i = 0; i < 10; i++) { /* b0..b3, b0..b3 of k16, b0, b1 of k8 */
                    int step = i / 4, b = i % 4;
                    int row = 16 * step + in_group * 2 + (b & 1) + (b < 2 ? 0 : 8);
                    int column = 8 * tile + group;
                    layout_point p = layout_place(&l, 3, lane, element++);
                    assert_place(p, turn ? column : row, turn ? row : column);
                }
            }
            assert_int_equal(element, layout_elements(&l));
        }
    }
}

static void accumulator_is_the_manuals(void **state) {
    (void)state;
    layout l = make_kind(LAYOUT_MMA_C, 64, 48, 2, 2);
    for (int warp = 0; warp < 4; warp++) {
        for (int lane = 0; lane < 32; lane++) {
            int group = lane >> 2, in_group = lane % 4, element = 0;
            for (int m = 0; m < 2; m++) {
                for (int n = 0; n < 3; n++) {
                    for (int i = 0; i < 4; i++) {
                        int row = 32 * (warp / 2) + 16 * m + (i < 2 ? group : group + 8);
                        int column = 24 * (warp % 2) + 8 * n + in_group * 2 + (i & 1);
                        assert_place(layout_place(&l, warp, lane, element++), row, column);
                    }
                }
            }
            assert_int_equal(element, layout_elements(&l));
        }
    }
}

/* m16n8k32 of 8 bits: a0..a15, b0..b7. Permuted: the left operand has the places of the accumulator
 * of the same 16 columns.
 */
static void operands_of_bytes_are_the_manuals(void **state) {
    (void)state;
    layout_request r = {.kind = LAYOUT_MMA_A, .rows = 64, .columns = 96, .element_bits = 8};
    r.warps_down = 2, r.warps_across = 1;
    layout plain = make(r);
    r.permuted = true;
    layout permuted = make(r);
    for (int lane = 0; lane < 32; lane++) {
        int group = lane >> 2, in_group = lane % 4, element = 0;
        for (int i = 0; i < 2 * 3 * 16; i++, element++) {
            int m = i / 48, step = i / 16 % 3, a = i % 16;
            int row = 32 + 16 * m + ((a / 4) % 2 ? group + 8 : group);
            int column = 32 * step + (a < 8 ? 0 : 16);
            assert_place(layout_place(&plain, 1, lane, element), row,
                         column + 4 * in_group + (a & 3));
            assert_place(layout_place(&permuted, 1, lane, element), row,
                         column + 2 * in_group + (a & 1) + 8 * (a >> 1 & 1));
        }
        assert_int_equal(element, layout_elements(&plain));
    }
    for (int turn = 0; turn < 2; turn++) {
        r = (layout_request){.kind = LAYOUT_MMA_B,
                             .rows = turn ? 16 : 64,
                             .columns = turn ? 64 : 16,
                             .element_bits = 8,
                             .transposed = turn,
                             .warps_down = 1,
                             .warps_across = 1};
        layout b = make(r);
        for (int i = 0; i < 32 * 32; i++) {
            int lane = i / 32, element = i % 32, n = element / 16, step = element / 8 % 2;
            int k = 32 * step + (element % 8 < 4 ? 0 : 16) + 4 * (lane % 4) + (element & 3);
            layout_point p = layout_place(&b, 0, lane, element);
            assert_place(p, turn ? 8 * n + lane / 4 : k, turn ? k : 8 * n + lane / 4);
        }
    }
}

/* Of a right operand that lies across, n of two column tiles are columns 2n and 2n + 1. */
static void accumulator_of_two_columns_at_a_time(void **state) {
    (void)state;
    layout_request r = {.kind = LAYOUT_MMA_C, .rows = 32, .columns = 48, .permuted = true};
    r.warps_down = 2, r.warps_across = 1, r.element_bits = 32;
    layout across = make(r);
    layout plain = make_kind(LAYOUT_MMA_C, 32, 48, 2, 1);
    for (int i = 0; i < 32 * 24; i++) {
        int lane = i / 24, element = i % 24;
        layout_point p = layout_place(&plain, 1, lane, element);
        int pair = p.column / 16, is_odd = p.column / 8 % 2;
        assert_place(layout_place(&across, 1, lane, element), p.row,
                     16 * pair + 2 * (p.column % 8) + is_odd);
    }
    layout rows = layout_vector(&plain, LAYOUT_ROWS), same = layout_vector(&across, LAYOUT_ROWS);
    assert_true(layout_equal(&rows, &same));
}

/* Two warpgroups with half of the columns each: a warp's rows go by its place in the group. */
static void groups_stand_side_by_side(void **state) {
    (void)state;
    layout_request r = {.kind = LAYOUT_MMA_C,
                        .rows = 64,
                        .columns = 48,
                        .warps_down = 1,
                        .warps_across = 2,
                        .group = 4};
    layout across = make(r);
    layout rows = layout_vector(&across, LAYOUT_ROWS);
    assert_int_equal(layout_warp_copies(&across), 1);
    assert_int_equal(layout_warp_copies(&rows), 2);
    for (int warp = 0; warp < 8; warp++) {
        layout_point first = layout_place(&across, warp, 0, 0);
        assert_place(first, 16 * (warp % 4), 24 * (warp / 4));
        assert_int_equal(layout_place(&rows, warp, 0, 0).row, 16 * (warp % 4));
    }
    r = (layout_request){.kind = LAYOUT_MMA_C,
                         .rows = 128,
                         .columns = 48,
                         .warps_down = 2,
                         .warps_across = 1,
                         .group = 4};
    layout down = make(r), same = make_kind(LAYOUT_MMA_C, 128, 48, 8, 1);
    assert_true(layout_equal(&down, &same));
}

/* --- bijections ------------------------------------------------------------------------------- */

/* Every element of the tile is held by as many threads as 'copies', once by each; find inverts. */
static void check_cover(const layout *l, int copies, bool check_find) {
    if (!sample_takes()) return;
    static uint16_t holders[512 * 256];
    memset(holders, 0, sizeof *holders * (size_t)(l->rows * l->columns));
    int elements = layout_elements(l);
    bool full = layout_is_full(l);
    for (int warp = 0; warp < layout_warps(l); warp++) {
        for (int lane = 0; lane < LAYOUT_LANES; lane++) {
            for (int element = 0; element < elements; element++) {
                layout_point p = layout_place(l, warp, lane, element);
                if (!layout_inside(l, p)) {
                    assert_false(full);
                    continue;
                }
                holders[p.row * l->columns + p.column]++;
                if (!check_find) continue;
                layout_holder h = {-1, -1, -1};
                bool found = layout_find(l, p, (layout_holder){warp, lane, 0}, &h);
                if (!found || h.warp != warp || h.lane != lane || h.element != element) {
                    fail_msg("(%d, %d) is found in warp %d, lane %d, element %d", p.row, p.column,
                             h.warp, h.lane, h.element);
                }
            }
        }
    }
    for (int i = 0; i < l->rows * l->columns; i++) {
        if (holders[i] != copies) fail_msg("element %d is held %d times", i, holders[i]);
    }
}

/* The pieces of a thread, one after the other, are its elements in order. */
static void check_pieces(const layout *l) {
    layout_pieces p = layout_pieces_of(l);
    assert_int_equal(p.down * p.across * p.elements, layout_elements(l));
    for (int i = 0; i < layout_elements(l); i++) {
        int piece = i / p.elements;
        layout_point inside = layout_step(l, i % p.elements), step = layout_step(l, i);
        assert_int_equal(step.row, inside.row + piece / p.across * p.row_step);
        assert_int_equal(step.column, inside.column + piece % p.across * p.column_step);
    }
}

static void fragments_cover_each_element_once(void **state) {
    (void)state;
    for (int warps = 1; warps <= 8; warps *= 2) {
        for (int columns = 16; columns <= 256; columns += 8) {
            for (int rows = 16 * warps; rows <= 256; rows += (columns % 64 ? 48 : 16) * warps) {
                bool find = columns % 40 == 16 && rows <= 128;
                layout c = make_kind(LAYOUT_MMA_C, rows, columns, warps, 1);
                check_cover(&c, 1, find);
                check_pieces(&c);
                layout a = make_kind(LAYOUT_MMA_A, rows, columns, warps, 1);
                assert_true(layout_equal(&a, &c));
            }
            if (columns % (8 * warps)) continue;
            for (int rows = 16; rows <= 256; rows += 48) {
                layout b = make_kind(LAYOUT_MMA_B, rows, columns, 2, warps);
                check_cover(&b, 2, true);
                for (int kind = 0; kind < 4 && columns % 16 == 0; kind++) {
                    layout bytes = make((layout_request){.kind = kind == 3   ? LAYOUT_MMA_C
                                                                 : kind == 2 ? LAYOUT_MMA_B
                                                                             : LAYOUT_MMA_A,
                                                         .rows = rows,
                                                         .columns = columns,
                                                         .warps_down = 1,
                                                         .warps_across = 1,
                                                         .element_bits = 8,
                                                         .permuted = kind % 2});
                    check_cover(&bytes, 1, true);
                }
                layout c = make_kind(LAYOUT_MMA_C, rows, columns, 1, warps);
                check_cover(&c, 1, true);
                check_pieces(&c);
            }
        }
    }
}

static void lines_cover_each_element_once(void **state) {
    (void)state;
    for (int element_bits = 4; element_bits <= 32; element_bits *= 2) {
        for (int warps = 1; warps <= 8; warps++) {
            int step = element_bits == 32 ? 40 : element_bits == 16 ? 8 : 128 / element_bits;
            for (int columns = element_bits == 4 ? 32 : 16; columns <= 256; columns += step) {
                for (int rows = 16; rows <= 256; rows += columns == 40 && warps < 4 ? 24 : 120) {
                    for (int stretch = 0; stretch < 2; stretch++) {
                        layout l = make((layout_request){.kind = LAYOUT_LINES,
                                                         .rows = rows,
                                                         .columns = columns,
                                                         .warps_down = warps,
                                                         .warps_across = 1,
                                                         .element_bits = element_bits,
                                                         .warp_rows = stretch});
                        check_cover(&l, 1, rows == 136 && stretch == 0);
                        check_pieces(&l);
                        assert_int_equal(layout_vector_bytes(&l, LAYOUT_COLUMNS, element_bits, 16),
                                         16);
                    }
                }
            }
        }
    }
}

static void lines_go_along_the_row_first(void **state) {
    (void)state;
    layout l = make_kind(LAYOUT_LINES, 64, 128, 4, 1); /* 16 lanes a row, 2 rows a warp */
    assert_int_equal(layout_elements(&l), 64);
    assert_place(layout_place(&l, 0, 1, 0), 0, 8);
    assert_place(layout_place(&l, 0, 16, 0), 1, 0);
    assert_place(layout_place(&l, 1, 0, 0), 2, 0);
    assert_place(layout_place(&l, 0, 0, 8), 8, 0);
    l = make_kind(LAYOUT_LINES, 64, 192, 4, 1); /* 24 chunks: 8 lanes, three times */
    assert_place(layout_place(&l, 0, 7, 0), 0, 56);
    assert_place(layout_place(&l, 0, 8, 0), 1, 0);
    assert_place(layout_place(&l, 0, 0, 8), 0, 64);
    assert_place(layout_place(&l, 0, 0, 24), 16, 0);
    l = make_kind(LAYOUT_LINES, 64, 24, 4, 1); /* a lane takes a row: two warps have nothing */
    assert_false(layout_is_full(&l));
    assert_false(layout_inside(&l, layout_place(&l, 2, 0, 0)));
}

/* --- vectors ---------------------------------------------------------------------------------- */

static void rows_drop_columns(void **state) {
    (void)state;
    layout s = make_kind(LAYOUT_MMA_C, 128, 64, 4, 1);
    layout rows = layout_vector(&s, LAYOUT_ROWS);
    assert_int_equal(layout_elements(&rows), 4);
    int masks[LAYOUT_LANE_BITS];
    assert_int_equal(layout_lane_copies(&rows, masks), 2);
    assert_int_equal(masks[0], 1);
    assert_int_equal(masks[1], 2);
    assert_int_equal(layout_warp_copies(&rows), 1);
    check_cover(&rows, 4, true);

    layout columns = layout_vector(&s, LAYOUT_COLUMNS);
    assert_int_equal(layout_elements(&columns), 16);
    assert_int_equal(layout_lane_copies(&columns, masks), 3);
    assert_int_equal(masks[0], 4);
    assert_int_equal(masks[1], 8);
    assert_int_equal(masks[2], 16);
    assert_int_equal(layout_warp_copies(&columns), 4);
    check_cover(&columns, 8 * 4, true);

    layout across = make_kind(LAYOUT_MMA_C, 64, 64, 2, 2);
    rows = layout_vector(&across, LAYOUT_ROWS);
    assert_int_equal(layout_warp_copies(&rows), 2); /* a row lies in two warps */
}

/* --- reshape ---------------------------------------------------------------------------------- */

static void accumulator_to_left_operand_is_free(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    layout c = make_kind(LAYOUT_MMA_C, 128, 72, 4, 1), a = make_kind(LAYOUT_MMA_A, 128, 72, 4, 1);
    reshape plan = reshape_plan(&memory, &c, &a, 16);
    assert_int_equal(plan.kind, RESHAPE_FREE);
    for (int i = 0; i < plan.elements; i++) assert_int_equal(plan.source[i], i);
    /* Over columns the product's rows lie in several warps: no left operand without memory. */
    c = make_kind(LAYOUT_MMA_C, 64, 64, 2, 2);
    a = make_kind(LAYOUT_MMA_A, 64, 64, 2, 2);
    plan = reshape_plan(&memory, &c, &a, 16);
    assert_int_equal(plan.kind, RESHAPE_SHARED);
    assert_int_equal(plan.shared_bytes, 64 * 64 * 2);
    arena_done(&memory);
}

/* Of bytes it is packing alone into the permuted order; into the plain one bytes change lanes. */
static void bytes_of_an_accumulator_are_packed(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    layout c = make_kind(LAYOUT_MMA_C, 64, 96, 4, 1), across = c;
    for (int permuted = 0; permuted < 2; permuted++) {
        layout_request r = {.kind = LAYOUT_MMA_C, .rows = 64, .columns = 96, .element_bits = 8};
        r.warps_down = 4, r.warps_across = 1, r.permuted = true;
        across = make(r);
        r.kind = LAYOUT_MMA_A, r.permuted = permuted;
        layout a = make(r);
        reshape_kind from_plain = reshape_plan(&memory, &c, &a, 8).kind;
        reshape_kind from_across = reshape_plan(&memory, &across, &a, 8).kind;
        assert_int_equal(from_plain, permuted ? RESHAPE_REGISTERS : RESHAPE_LANES);
        assert_int_equal(from_across, permuted ? RESHAPE_LANES : RESHAPE_REGISTERS);
    }
    arena_done(&memory);
}

static void reshape_costs(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    layout c = make_kind(LAYOUT_MMA_C, 16, 16, 1, 1);
    layout other = make_kind(LAYOUT_MMA_C, 32, 16, 1, 1);
    assert_int_equal(reshape_plan(&memory, &c, &other, 16).kind, RESHAPE_NONE);

    /* The same threads, columns before rows: a renaming. */
    layout swapped = make_kind(LAYOUT_MMA_C, 32, 16, 1, 1);
    layout_repeat first = swapped.repeats[0];
    swapped.repeats[0] = swapped.repeats[1];
    swapped.repeats[1] = first;
    reshape plan = reshape_plan(&memory, &other, &swapped, 16);
    assert_int_equal(plan.kind, RESHAPE_REGISTERS);
    for (int element = 0; element < plan.elements; element++) {
        layout_point p = layout_place(&swapped, 0, 9, element);
        assert_place(layout_place(&other, 0, 9, plan.source[element]), p.row, p.column);
    }
    /* One warp, other lanes. */
    layout lines = make_kind(LAYOUT_LINES, 16, 16, 1, 1);
    plan = reshape_plan(&memory, &c, &lines, 16);
    assert_int_equal(plan.kind, RESHAPE_LANES);
    assert_null(plan.source);
    layout_holder source;
    assert_true(reshape_source(&c, &lines, (layout_holder){0, 2, 5}, &source));
    layout_point p = layout_place(&lines, 0, 2, 5);
    assert_place(layout_place(&c, 0, source.lane, source.element), p.row, p.column);

    layout rows = layout_vector(&c, LAYOUT_ROWS), parts = layout_partial(&rows);
    plan = reshape_plan(&memory, &parts, &rows, 32);
    assert_int_equal(plan.kind, RESHAPE_SUM);
    assert_int_equal(plan.mask_count, 2);
    assert_int_equal(plan.shuffles, 4);
    assert_int_equal(reshape_plan(&memory, &rows, &parts, 32).kind, RESHAPE_NONE);
    assert_false(layout_equal(&rows, &parts));
    arena_done(&memory);
}

/* --- what does not fit ------------------------------------------------------------------------ */

static void misfits_say_why(void **state) {
    (void)state;
    struct {
        layout_request request;
        layout_status status;
        int multiple;
    } cases[] = {
        {{LAYOUT_MMA_C, 40, 64, 1, 1, false, 16, false, false, 0}, LAYOUT_BAD_ROWS, 16},
        {{LAYOUT_MMA_C, 32, 64, 4, 1, false, 16, false, false, 0}, LAYOUT_BAD_ROWS, 64},
        {{LAYOUT_MMA_A, 16, 12, 1, 1, false, 16, false, false, 0}, LAYOUT_BAD_COLUMNS, 8},
        {{LAYOUT_MMA_A, 12, 16, 1, 1, true, 16, false, false, 0}, LAYOUT_BAD_ROWS, 8},
        {{LAYOUT_MMA_B, 16, 24, 1, 2, false, 16, false, false, 0}, LAYOUT_BAD_COLUMNS, 16},
        {{LAYOUT_MMA_A, 16, 24, 1, 1, false, 8, false, false, 0}, LAYOUT_BAD_COLUMNS, 16},
        {{LAYOUT_MMA_B, 24, 16, 1, 1, false, 8, false, false, 0}, LAYOUT_BAD_ROWS, 16},
        {{LAYOUT_MMA_C, 16, 24, 1, 1, false, 32, true, false, 0}, LAYOUT_BAD_COLUMNS, 16},
        {{LAYOUT_LINES, 16, 12, 1, 1, false, 16, false, false, 0}, LAYOUT_BAD_COLUMNS, 8},
        {{LAYOUT_LINES, 16, 16, 1, 1, false, 64, false, false, 0}, LAYOUT_BAD_BYTES, 2},
        {{LAYOUT_LINES, 0, 16, 1, 1, false, 16, false, false, 0}, LAYOUT_BAD_ROWS, 0},
        {{LAYOUT_LINES, 16, 16, 33, 1, false, 16, false, false, 0}, LAYOUT_BAD_WARPS, 0},
        {{LAYOUT_MMA_C, 128, 64, 2, 2, false, 16, false, false, 4}, LAYOUT_BAD_WARPS, 0},
        {{LAYOUT_MMA_C, 64, 64, 3, 4, false, 16, false, false, 4}, LAYOUT_BAD_WARPS, 0},
        {{LAYOUT_LINES, 1000000000, 16, 1, 1, false, 16, false, false, 0}, LAYOUT_BAD_ROWS, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        layout l;
        layout_fit fit = layout_make(&cases[i].request, &l);
        assert_int_equal(fit.status, cases[i].status);
        assert_int_equal(fit.multiple, cases[i].multiple);
    }
}

static void vector_widths(void **state) {
    (void)state;
    layout c = make_kind(LAYOUT_MMA_C, 64, 64, 4, 1);
    assert_int_equal(layout_vector_bytes(&c, LAYOUT_COLUMNS, 16, 16), 4);
    assert_int_equal(layout_vector_bytes(&c, LAYOUT_COLUMNS, 32, 16), 8);
    assert_int_equal(layout_vector_bytes(&c, LAYOUT_ROWS, 16, 16), 2);
    layout lines = make_kind(LAYOUT_LINES, 64, 64, 4, 1);
    assert_int_equal(layout_vector_bytes(&lines, LAYOUT_COLUMNS, 16, 8), 8);
    assert_int_equal(layout_vector_bytes(&lines, LAYOUT_COLUMNS, 16, 6), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(left_operand_is_the_manuals),
        cmocka_unit_test(right_operand_is_the_manuals),
        cmocka_unit_test(accumulator_is_the_manuals),
        cmocka_unit_test(operands_of_bytes_are_the_manuals),
        cmocka_unit_test(accumulator_of_two_columns_at_a_time),
        cmocka_unit_test(groups_stand_side_by_side),
        cmocka_unit_test(fragments_cover_each_element_once),
        cmocka_unit_test(lines_cover_each_element_once),
        cmocka_unit_test(lines_go_along_the_row_first),
        cmocka_unit_test(rows_drop_columns),
        cmocka_unit_test(accumulator_to_left_operand_is_free),
        cmocka_unit_test(bytes_of_an_accumulator_are_packed),
        cmocka_unit_test(reshape_costs),
        cmocka_unit_test(misfits_say_why),
        cmocka_unit_test(vector_widths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
