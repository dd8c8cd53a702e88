/* Copies of vectors, element by element. */
#include "translate/copy.h"

static str vector_place(emit *t, const emit_tile *v) {
    const emit_shape *s = &v->shape;
    if (s->part == PART_COLUMNS) {
        if (s->alternates)
            return emit_format(t, "%.*s + (n8 / 2 * 16 + n8 %% 2 + 2 * element)",
                               STR_ARGS(v->own_column));
        return s->is_lines ? emit_format(t, "%.*s + %d * across + element", STR_ARGS(v->own_column),
                                         s->column_step)
                           : emit_format(t, "%.*s + 8 * n8 + element", STR_ARGS(v->own_column));
    }
    if (!s->is_lines)
        return emit_format(t, "%.*s + %.*s", STR_ARGS(v->own_row), STR_ARGS(emit_fragment_row(s)));
    if (s->down == 1 || !s->row_step) return v->own_row;
    return emit_format(t, "%.*s + %d * down", STR_ARGS(v->own_row), s->row_step);
}

/* The element is in the tile: rows of `lines` may be fewer than the places of all warps. */
static str vector_inside(emit *t, const emit_tile *v) {
    if (layout_is_full(&v->layout)) return (str){0};
    return emit_format(t, "%.*s < %d", STR_ARGS(vector_place(t, v)), v->rows);
}

static str vector_element(emit *t, const emit_tile *v) {
    return emit_element(t, v, &v->shape, 0);
}

/* One of the lanes and warps that hold copies: the one whose bits that do not matter are 0. */
static str single_holder(emit *t, const emit_tile *v) {
    int masks[LAYOUT_LANE_BITS], count = layout_lane_copies(&v->layout, masks), bits = 0;
    for (int i = 0; i < count; i++) bits |= masks[i];
    str guard = bits ? emit_format(t, "(lane & %d) == 0", bits) : (str){0};
    int divisor = 1;
    for (int i = 0; i < 2; i++) {
        const layout_repeat *spread = &v->layout.spread[i];
        if (spread->count > 1 && spread->step.row == 0 && spread->step.column == 0) {
            guard =
                copy_both(t, guard, emit_format(t, "warp / %d %% %d == 0", divisor, spread->count));
        }
        divisor *= spread->count;
    }
    return guard;
}

static str vector_pointer(emit *t, const emit_tile *v, const emit_address *a) {
    str place = vector_place(t, v);
    if (!a->row_affine) return emit_pointer(t, a, place, (str){0});
    return emit_format(t, "vector + (%.*s) * %.*s", STR_ARGS(place),
                       STR_ARGS(copy_factor(t, a->row_stride)));
}

static void load_element(emit *t, const emit_tile *v, tl_type type, str pointer, str guard) {
    str load = emit_format(t, "ftl_load_global_%s(%.*s)", emit_type_word(type), STR_ARGS(pointer));
    const char *zero = v->type == TL_I32 ? "0" : "0.0f";
    if (guard.length)
        load = emit_format(t, "%.*s ? %.*s : %s", STR_ARGS(guard), STR_ARGS(load), zero);
    emit_text(t, "%.*s = %.*s;", STR_ARGS(vector_element(t, v)), STR_ARGS(load));
}

/* Do neighbours of a value per column lie in pairs, whose places a loop of n8 counts? */
static bool comes_in_pairs(const emit_tile *v, const emit_address *a) {
    bool is_plain = v->shape.part == PART_COLUMNS && !v->shape.is_lines && !v->shape.alternates;
    return is_plain && layout_is_full(&v->layout) && a->row_affine &&
           (a->type == TL_F32 || a->type == TL_I32) && a->type == v->type;
}

/* A whole block of neighbours in memory: an instruction a pair, whose places differ by constants.
 * Each element by itself has an address to be multiplied out, and a test.
 */
static void load_pairs(emit *t, const emit_tile *v, const emit_address *a) {
    str condition = emit_format(t, "%.*s == 1", STR_ARGS(copy_factor(t, a->row_stride)));
    condition = copy_both(t, condition, STR("(unsigned long long)vector % 8 == 0"));
    if (!a->rows_complete)
        condition = copy_both(t, condition, emit_format(t, "rows_left >= %d", v->rows));
    emit_open(t, "if (%.*s) {", STR_ARGS(condition));
    emit_loop(t, "n8", v->shape.across);
    emit_text(t, "ftl_load_global_%sx2(%.*s[n8][0], %.*s[n8][1], vector + %.*s + 8 * n8);",
              emit_type_word(a->type), STR_ARGS(v->name), STR_ARGS(v->name),
              STR_ARGS(v->own_column));
    emit_close(t);
    emit_else(t);
}

static void store_element(emit *t, const tl_statement *s, const emit_tile *v, tl_type type,
                          str pointer, str guard) {
    str element = vector_element(t, v);
    guard = copy_both(t, single_holder(t, v), guard);
    if (guard.length) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    if (s->copy.target_kind == TL_ACCUMULATE) {
        if (type != TL_F32) copy_refuse(t, s, "adding into global memory needs f32 there");
        emit_text(t, "ftl_add_global_f32(%.*s, %.*s);", STR_ARGS(pointer), STR_ARGS(element));
    } else {
        emit_text(t, "ftl_store_global_%s(%.*s, %.*s);", emit_type_word(type), STR_ARGS(pointer),
                  STR_ARGS(element));
    }
    if (guard.length) emit_close(t);
}

void copy_vector_global(emit *t, const tl_statement *s, const emit_tile *v, bool loads) {
    emit_address a;
    if (!emit_address_of(t, s, v, &a)) return;
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, v);
    copy_declare_rest(t, &a);
    if (a.row_affine)
        emit_text(t, "%.*svector = %.*s;", STR_ARGS(a.pointer_type), STR_ARGS(a.base));
    bool has_pairs = loads && comes_in_pairs(v, &a);
    if (has_pairs) load_pairs(t, v, &a);
    int opened = emit_open_frame(t, &v->shape);
    str guard = vector_inside(t, v), pointer = vector_pointer(t, v, &a), place = vector_place(t, v);
    if (!a.rows_complete)
        guard = copy_both(t, guard, emit_format(t, "%.*s < rows_left", STR_ARGS(place)));
    guard = copy_both(t, guard, emit_selected(t, &a, place));
    if (loads) load_element(t, v, a.type, pointer, guard);
    else store_element(t, s, v, a.type, pointer, guard);
    emit_close_frame(t, opened);
    if (has_pairs) emit_close(t);
    emit_close(t);
}

void copy_vector_shared(emit *t, const tl_statement *s, const emit_tile *v, const emit_tile *shared,
                        bool loads) {
    if (tl_type_bits(shared->type) != 32 || shared->type != v->type) {
        copy_refuse(t, s, "vectors in shared memory are f32 or i32");
        return;
    }
    const char *type = emit_type_word(shared->type);
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, v);
    str guard = vector_inside(t, v);
    if (!loads) guard = copy_both(t, single_holder(t, v), guard);
    int opened = emit_open_frame(t, &v->shape);
    str slot = loads ? emit_held(t, shared) : emit_fill_place(t, s, shared);
    str address =
        emit_format(t, "%.*s + 4 * (unsigned)(%.*s)", STR_ARGS(slot), STR_ARGS(vector_place(t, v)));
    if (guard.length) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    if (loads)
        emit_text(t, "%.*s = ftl_load_shared_%s(%.*s);", STR_ARGS(vector_element(t, v)), type,
                  STR_ARGS(address));
    else
        emit_text(t, "ftl_store_shared_%s(%.*s, %.*s);", type, STR_ARGS(address),
                  STR_ARGS(vector_element(t, v)));
    if (guard.length) emit_close(t);
    emit_close_frame(t, opened);
    emit_close(t);
}
