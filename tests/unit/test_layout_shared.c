/* Swizzled tiles, bank conflicts, and ldmatrix executed by the PTX manual's rules. */
#include "layout_banks.h"
#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h> /* needs those */

static shared_layout tile_of(int rows, int columns, int swizzle, bool by_columns) {
    shared_layout tile;
    layout_fit fit = shared_make(rows, columns, 16, swizzle, by_columns, 0, &tile);
    assert_int_equal(fit.status, LAYOUT_OK);
    return tile;
}

/* The largest swizzle that the pitch allows. */
static int widest(int pitch) {
    int swizzle = 16;
    while (swizzle < 128 && pitch % (2 * swizzle) == 0) swizzle *= 2;
    return swizzle;
}

/* --- the map ---------------------------------------------------------------------------------- */

static void offsets_are_a_bijection(void **state) {
    (void)state;
    static bool used[128 * 256];
    for (int columns = 16; columns <= 256; columns += 8) {
        for (int swizzle = 16; swizzle <= widest(columns * 2); swizzle *= 2) {
            shared_layout tile = tile_of(40, columns, swizzle, columns % 16 == 8);
            if (tile.by_columns) tile = tile_of(columns, 40, swizzle, true);
            memset(used, 0, sizeof used);
            for (int row = 0; row < tile.rows; row++) {
                for (int column = 0; column < tile.columns; column++) {
                    layout_point p = {row, column};
                    int offset = shared_offset(&tile, p);
                    assert_true(offset >= 0 && offset < shared_bytes(&tile) && offset % 2 == 0);
                    assert_false(used[offset / 2]);
                    used[offset / 2] = true;
                }
            }
        }
    }
}

/* Bits [4, 4 + k) of an address xor bits [7, 7 + k). */
static int hardware_swizzle(int address, int swizzle) {
    int units = swizzle / 16 - 1;
    return address ^ (address >> 7 & units) << 4;
}

static void swizzle_of_the_pitch_is_the_hardwares(void **state) {
    (void)state;
    for (int swizzle = 32; swizzle <= 128; swizzle *= 2) {
        shared_layout plain = tile_of(64, swizzle / 2, 16, false);
        shared_layout swizzled = tile_of(64, swizzle / 2, swizzle, false);
        for (int row = 0; row < 64; row++) {
            for (int column = 0; column < swizzle / 2; column++) {
                layout_point p = {row, column};
                assert_int_equal(shared_offset(&swizzled, p),
                                 hardware_swizzle(shared_offset(&plain, p), swizzle));
            }
        }
    }
}

static void impossible_tiles(void **state) {
    (void)state;
    shared_layout tile;
    assert_int_equal(shared_make(64, 24, 16, 32, false, 0, &tile).status, LAYOUT_BAD_BYTES);
    assert_int_equal(shared_make(64, 20, 16, 0, false, 0, &tile).status, LAYOUT_BAD_BYTES);
    assert_int_equal(shared_make(64, 64, 16, 48, false, 0, &tile).status, LAYOUT_BAD_BYTES);
    assert_int_equal(shared_make(64, 64, 16, 256, false, 0, &tile).status, LAYOUT_BAD_BYTES);
    assert_int_equal(shared_make(0, 64, 16, 0, false, 0, &tile).status, LAYOUT_BAD_ROWS);
    assert_int_equal(shared_make(64, 64, 16, 0, false, 16, &tile).status, LAYOUT_OK);
    assert_int_equal(tile.pitch_bytes, 144);
}

/* --- banks ------------------------------------------------------------------------------------ */

static int wavefronts_at_stride(int stride, int bytes) {
    banks_access a = {.active = ~0u, .bytes = bytes};
    for (int lane = 0; lane < 32; lane++) a.offset[lane] = (uint32_t)(lane * stride);
    return banks_wavefronts(&a);
}

static void known_conflicts(void **state) {
    (void)state;
    assert_int_equal(wavefronts_at_stride(4, 4), 1);
    assert_int_equal(wavefronts_at_stride(0, 4), 1); /* one word for all */
    assert_int_equal(wavefronts_at_stride(8, 4), 2);
    assert_int_equal(wavefronts_at_stride(128, 4), 32);
    assert_int_equal(wavefronts_at_stride(132, 4), 1);
    assert_int_equal(wavefronts_at_stride(2, 2), 1);
    assert_int_equal(wavefronts_at_stride(8, 8), 2);
    assert_int_equal(wavefronts_at_stride(16, 16), 4);
    assert_int_equal(wavefronts_at_stride(32, 16), 8);
    assert_int_equal(wavefronts_at_stride(128, 16), 32);
    assert_int_equal(wavefronts_at_stride(144, 16), 4);
    banks_access half = {.active = 0xffff, .bytes = 16};
    for (int lane = 0; lane < 32; lane++) half.offset[lane] = (uint32_t)(lane * 16);
    assert_int_equal(banks_wavefronts(&half), 2);
    assert_int_equal(banks_ideal(&half), 2);
}

/* --- ldmatrix --------------------------------------------------------------------------------- */

enum { CODE = 1024 }; /* an element's value: row * CODE + column */

static int memory_of_tile[256 * 256];

static void fill(const shared_layout *tile) {
    for (int i = 0; i < shared_bytes(tile) / 2; i++) memory_of_tile[i] = -1;
    for (int row = 0; row < tile->rows; row++) {
        for (int column = 0; column < tile->columns; column++) {
            int offset = shared_offset(tile, (layout_point){row, column});
            memory_of_tile[offset / 2] = row * CODE + column;
        }
    }
}

/* The manual: lane 8*j + r gives the address of row r of matrix j; lane L receives of matrix j the
 * elements 2*(L % 4) + {0, 1} of row L/4, or with .trans of column L/4.
 */
static int received(const access_operand *o, const access_load *load, int warp, int lane,
                    int matrix, int half) {
    int row = o->transposed ? 2 * (lane % 4) + half : lane / 4;
    int column = o->transposed ? lane / 4 : 2 * (lane % 4) + half;
    int offset = access_offset(&o->threads, load->step, warp, 8 * matrix + row);
    assert_true(offset % 16 == 0 && offset >= 0 && offset + 16 <= shared_bytes(&o->tile));
    return memory_of_tile[offset / 2 + column];
}

static void check_load(const access_operand *o, const access_load *load, int warp,
                       uint8_t *loaded) {
    assert_true(load->variant >= 0 && load->variant < o->variants);
    assert_int_equal(load->step.xor_bytes, load->variant * o->variant_bytes);
    int share = o->right ? warp % o->threads.shares[0].count : warp / o->threads.shares[0].divisor;
    for (int m = 0; m < load->matrices; m++) {
        loaded[load->mn8[m] * o->k8 + load->k8[m]]++;
        for (int lane = 0; lane < 32; lane++) {
            for (int half = 0; half < 2; half++) {
                int mn = 8 * (share * o->mn8 + load->mn8[m]) + lane / 4;
                int k = 8 * load->k8[m] + 2 * (lane % 4) + half;
                int expected = o->contracted_is_rows ? k * CODE + mn : mn * CODE + k;
                assert_int_equal(received(o, load, warp, lane, m, half), expected);
            }
        }
    }
}

static int check_operand(const access_operand_request *request, const shared_layout *tile) {
    access_operand o;
    layout_fit fit = access_operand_make(request, tile, &o);
    if (fit.status) {
        fail_msg("no operand of (%d, %d): status %d, %d", tile->rows, tile->columns, fit.status,
                 fit.found);
    }
    fill(tile);
    int instructions = 0;
    for (int warp = 0; warp < o.threads.warps; warp++) {
        uint8_t loaded[32 * 32] = {0};
        for (int mn8 = 0; mn8 < o.mn8; mn8 += 2) {
            for (int k8 = 0; k8 < o.k8; k8 += 2) {
                access_load loads[ACCESS_LOADS_MAX];
                int count = access_operand_loads(&o, mn8, k8, loads);
                for (int i = 0; i < count; i++) check_load(&o, &loads[i], warp, loaded);
                instructions += count;
            }
        }
        for (int i = 0; i < o.mn8 * o.k8; i++) assert_int_equal(loaded[i], 1);
    }
    access_cost cost = access_operand_cost(&o);
    assert_int_equal(cost.instructions, instructions);
    if (tile->swizzle_bytes == widest(tile->pitch_bytes)) {
        assert_int_equal(cost.wavefronts, cost.ideal); /* no conflict */
    }
    return o.variants;
}

static void every_operand(void **state) {
    (void)state;
    for (int d = 16; d <= 256; d += 8) {
        for (int other = 16; other <= 256; other += d % 32 ? 120 : 80) {
            for (int swizzle = 16; swizzle <= widest(2 * d); swizzle *= 2) {
                shared_layout tile = tile_of(other, d, swizzle, false);
                access_operand_request k_transposed = {
                    .right = true, .warps_down = 4, .warps_across = 1};
                check_operand(&k_transposed, &tile);
                access_operand_request v = {
                    .right = true, .contracted_is_rows = true, .warps_down = 4, .warps_across = 1};
                check_operand(&v, &tile);
                if (d % 16) continue;
                access_operand_request left_turned = {
                    .contracted_is_rows = true, .warps_down = 1, .warps_across = 1};
                check_operand(&left_turned, &tile);
            }
        }
        for (int warps = 1; warps <= 8; warps *= 2) {
            shared_layout tile = tile_of(32 * warps, d, widest(2 * d), false);
            access_operand_request q = {.warps_down = warps, .warps_across = 1};
            int variants = check_operand(&q, &tile);
            assert_true(variants <= 4);
            access_operand_request turned = {
                .contracted_is_rows = true, .warps_down = warps, .warps_across = 1};
            tile = tile_of(d, 32 * warps, widest(2 * d), true); /* the same bytes */
            check_operand(&turned, &tile);
        }
    }
}

static void operands_over_rows_and_columns(void **state) {
    (void)state;
    for (int across = 1; across <= 4; across *= 2) {
        for (int contracted_is_rows = 0; contracted_is_rows < 2; contracted_is_rows++) {
            for (int by_columns = 0; by_columns < 2; by_columns++) {
                for (int right = 0; right < 2; right++) {
                    int rows = contracted_is_rows ? 48 : 128,
                        columns = contracted_is_rows ? 128 : 48;
                    int pitch = 2 * (by_columns ? rows : columns);
                    shared_layout tile = tile_of(rows, columns, widest(pitch), by_columns);
                    access_operand_request r = {.right = right,
                                                .contracted_is_rows = contracted_is_rows,
                                                .warps_down = 4 / across,
                                                .warps_across = across};
                    check_operand(&r, &tile);
                }
            }
        }
    }
    shared_layout tile = tile_of(64, 144, 32, false); /* 3 warps of 48 columns */
    access_operand_request uneven = {
        .right = true, .contracted_is_rows = true, .warps_down = 1, .warps_across = 3};
    check_operand(&uneven, &tile);
    tile = tile_of(64, 192, 128, false); /* 2 warps of 96 columns: 192 bytes against runs of 128 */
    uneven.warps_across = 2;
    access_operand o;
    assert_int_equal(access_operand_make(&uneven, &tile, &o).status, LAYOUT_BAD_CARRY);
}

/* --- copies ----------------------------------------------------------------------------------- */

static void check_copy(const layout *l, const shared_layout *tile, int bytes, bool no_conflict) {
    if (!sample_takes()) return;
    access_copy copy;
    layout_fit fit = access_copy_make(l, tile, 16, &copy);
    if (fit.status) {
        fail_msg("no copy of (%d, %d) over %d warps, swizzled %d: %d", tile->rows, tile->columns,
                 layout_warps(l), tile->swizzle_bytes, fit.status);
    }
    assert_int_equal(copy.bytes, bytes);
    assert_int_equal(copy.count * copy.elements, layout_elements(l));
    for (int warp = 0; warp < layout_warps(l); warp++) {
        for (int lane = 0; lane < 32; lane++) {
            for (int i = 0; i < copy.count; i++) {
                for (int e = 0; e < copy.elements; e++) {
                    layout_point p = layout_place(l, warp, lane, i * copy.elements + e);
                    if (!layout_inside(l, p)) continue;
                    int offset =
                        access_offset(&copy.threads, access_copy_step(&copy, i), warp, lane);
                    if (offset + e * tile->element_bits / 8 != shared_offset(tile, p)) {
                        fail_msg("(%d, %d) is at %d, not %d", p.row, p.column,
                                 shared_offset(tile, p), offset + e * tile->element_bits / 8);
                    }
                }
            }
        }
    }
    access_cost cost = access_copy_cost(&copy);
    if (no_conflict) assert_int_equal(cost.wavefronts, cost.ideal);
}

static void every_copy(void **state) {
    (void)state;
    for (int warps = 1; warps <= 8; warps++) {
        for (int d = 16; d <= 256; d += 8) {
            for (int rows = 16; rows <= 256; rows += d % 32 ? 208 : 120) {
                for (int stretch = 0; stretch < 2; stretch++) {
                    layout_request r = {.kind = LAYOUT_LINES,
                                        .rows = rows,
                                        .columns = d,
                                        .warps_down = warps,
                                        .warps_across = 1,
                                        .element_bits = 16,
                                        .warp_rows = stretch};
                    layout l;
                    assert_int_equal(layout_make(&r, &l).status, LAYOUT_OK);
                    for (int swizzle = 16; swizzle <= widest(2 * d); swizzle *= 2) {
                        shared_layout tile = tile_of(rows, d, swizzle, false);
                        check_copy(&l, &tile, 16, swizzle == widest(2 * d));
                    }
                }
            }
            layout_request r = {.kind = LAYOUT_MMA_C,
                                .rows = 32 * warps,
                                .columns = d,
                                .warps_down = warps,
                                .warps_across = 1};
            layout l;
            assert_int_equal(layout_make(&r, &l).status, LAYOUT_OK);
            for (int swizzle = 16; swizzle <= widest(2 * d); swizzle *= 2) {
                shared_layout tile = tile_of(32 * warps, d, swizzle, false);
                check_copy(&l, &tile, 4, swizzle == widest(2 * d));
            }
        }
    }
}

static void check_panels(int rows, int columns, int swizzle) {
    shared_layout tile;
    assert_int_equal(shared_make_panels(rows, columns, 16, swizzle, false, &tile).status,
                     LAYOUT_OK);
    access_operand_request left = {.warps_down = 4, .warps_across = 1};
    access_operand_request right = {.right = true, .warps_down = 2, .warps_across = 2};
    access_operand_request turned = {
        .right = true, .contracted_is_rows = true, .warps_down = 4, .warps_across = 1};
    check_operand(&left, &tile);
    check_operand(&right, &tile);
    check_operand(&turned, &tile);
    layout l;
    layout_request r = {.kind = LAYOUT_LINES,
                        .rows = rows,
                        .columns = columns,
                        .warps_down = 4,
                        .warps_across = 1,
                        .element_bits = 16};
    assert_int_equal(layout_make(&r, &l).status, LAYOUT_OK);
    check_copy(&l, &tile, 16, false);
    r.kind = LAYOUT_MMA_C;
    assert_int_equal(layout_make(&r, &l).status, LAYOUT_OK);
    check_copy(&l, &tile, 4, false);
}

static void threads_reach_panels(void **state) {
    (void)state;
    for (int swizzle = 32; swizzle <= 128; swizzle *= 2) {
        for (int panels = 1; panels <= 9 && panels * swizzle <= 512; panels++)
            check_panels(64, panels * swizzle / 2, swizzle);
    }
}

static void transposed_and_wide_copies(void **state) {
    (void)state;
    layout_request r = {
        .kind = LAYOUT_MMA_C, .rows = 64, .columns = 64, .warps_down = 4, .warps_across = 1};
    layout l;
    assert_int_equal(layout_make(&r, &l).status, LAYOUT_OK);
    for (int swizzle = 16; swizzle <= 128; swizzle *= 2) {
        shared_layout tile;
        assert_int_equal(shared_make(64, 64, 32, swizzle, false, 0, &tile).status, LAYOUT_OK);
        check_copy(&l, &tile, 8, false); /* f32 accumulators, two at a time */
    }
    shared_layout turned = tile_of(64, 64, 16, true);
    check_copy(&l, &turned, 2, false);
    access_copy copy;
    shared_layout other = tile_of(32, 64, 128, false);
    assert_int_equal(access_copy_make(&l, &other, 16, &copy).status, LAYOUT_BAD_ROWS);
}

static void registers_for_addresses_are_few(void **state) {
    (void)state;
    access_operand_request k = {.right = true, .warps_down = 4, .warps_across = 1};
    shared_layout tile = tile_of(64, 128, 128, false);
    assert_int_equal(check_operand(&k, &tile), 4);
    tile = tile_of(64, 16, 32, false);
    assert_int_equal(check_operand(&k, &tile), 1);
    tile = tile_of(64, 24, 16, false);
    assert_int_equal(check_operand(&k, &tile), 1);
    tile = tile_of(64, 96, 64, false);
    assert_int_equal(check_operand(&k, &tile), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offsets_are_a_bijection),
        cmocka_unit_test(swizzle_of_the_pitch_is_the_hardwares),
        cmocka_unit_test(impossible_tiles),
        cmocka_unit_test(known_conflicts),
        cmocka_unit_test(every_operand),
        cmocka_unit_test(operands_over_rows_and_columns),
        cmocka_unit_test(every_copy),
        cmocka_unit_test(threads_reach_panels),
        cmocka_unit_test(transposed_and_wide_copies),
        cmocka_unit_test(registers_for_addresses_are_few),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
