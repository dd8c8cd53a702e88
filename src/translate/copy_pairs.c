/* Fragments move in pairs of elements, which lie side by side in one row. */
#include "translate/copy.h"

void pairs_open(emit *t, const emit_tile *tile) {
    emit_loop(t, "m16", tile->shape.down);
    emit_loop(t, "n8", tile->shape.across);
    emit_loop(t, "half", 2);
}

void pairs_close(emit *t) {
    for (int i = 0; i < 3; i++) emit_close(t);
}

/* An element of the pair in hand; of alternating column tiles a pair is of both. */
static str pairs_element(emit *t, const emit_tile *tile, int e) {
    if (!tile->shape.alternates) return emit_element(t, tile, &tile->shape, e);
    return emit_format(t,
                       e ? "%.*s[m16][n8 | 1][2 * half + n8 %% 2]"
                         : "%.*s[m16][n8 / 2 * 2][2 * half + n8 %% 2]",
                       STR_ARGS(tile->name));
}

static bool pairs_fit(const emit_tile *tile) {
    return !emit_is_bytes(tile) && !(tile->shape.alternates && tile->is_packed);
}

str pairs_packed(emit *t, const emit_tile *tile, tl_type type) {
    if (tile->is_packed && tile->type == type)
        return emit_format(t, "%.*s[m16][n8][half]", STR_ARGS(tile->name));
    return emit_format(t, "ftl_pack_%s(%.*s, %.*s)", emit_type_word(type),
                       STR_ARGS(pairs_element(t, tile, 0)), STR_ARGS(pairs_element(t, tile, 1)));
}

void pairs_unpack(emit *t, const emit_tile *to, tl_type type, str word) {
    str name = to->name;
    if (to->is_packed && to->type == type) {
        emit_text(t, "%.*s[m16][n8][half] = %.*s;", STR_ARGS(name), STR_ARGS(word));
        return;
    }
    emit_text(t, "const unsigned pair = %.*s;", STR_ARGS(word));
    emit_text(t, "%.*s = ftl_low_%s(pair);", STR_ARGS(pairs_element(t, to, 0)),
              emit_type_word(type));
    emit_text(t, "%.*s = ftl_high_%s(pair);", STR_ARGS(pairs_element(t, to, 1)),
              emit_type_word(type));
}

/* --- the global side -------------------------------------------------------------------------- */

static str pair_row(emit *t, const emit_tile *tile) {
    return emit_format(t, "%.*s + %.*s", STR_ARGS(tile->own_row),
                       STR_ARGS(emit_fragment_row(&tile->shape)));
}

static const char *pair_step(const emit_tile *tile) {
    return tile->shape.alternates ? "(n8 / 2 * 16 + n8 % 2 * 2)" : "8 * n8";
}

static str pair_column(emit *t, const emit_tile *tile) {
    return emit_format(t, "%.*s + %s", STR_ARGS(tile->own_column), pair_step(tile));
}

static str pair_pointer(emit *t, const emit_tile *tile, const emit_address *a) {
    if (!a->row_affine) return emit_pointer(t, a, pair_row(t, tile), pair_column(t, tile));
    return emit_format(t, "matrix + (%.*s) * %.*s + %s", STR_ARGS(emit_fragment_row(&tile->shape)),
                       STR_ARGS(copy_factor(t, a->row_stride)), pair_step(tile));
}

static void loop_over_pairs(pairs *x, bool cut_columns, pairs_action *action) {
    emit *t = x->t;
    str guard = {0};
    pairs_open(t, x->tile);
    if (!x->address.rows_complete)
        guard = emit_format(t, "%.*s < rows_left", STR_ARGS(pair_row(t, x->tile)));
    if (cut_columns) {
        str column = emit_format(t, "%.*s < columns_left", STR_ARGS(pair_column(t, x->tile)));
        guard = copy_both(t, guard, column);
    }
    x->is_guarded = guard.length > 0;
    x->both_inside = (str){0};
    if (cut_columns && x->address.columns_multiple % 2) {
        x->both_inside =
            emit_format(t, "%.*s + 1 < columns_left", STR_ARGS(pair_column(t, x->tile)));
    }
    if (x->is_guarded) emit_open(t, "if (%.*s) {", STR_ARGS(guard));
    action(x);
    if (x->is_guarded) emit_close(t);
    pairs_close(t);
}

void pairs_move(emit *t, const tl_statement *s, const emit_tile *tile, pairs_action *action) {
    pairs x = {.t = t, .s = s, .tile = tile};
    emit_address *a = &x.address;
    if (!emit_address_of(t, s, tile, a) || !copy_is_aligned(t, s, a, 2)) return;
    if (a->is_selected) {
        copy_refuse(t, s, "a view that leaves elements out is copied to shared memory or by lines");
        return;
    }
    if (!pairs_fit(tile)) {
        copy_refuse(t, s, "its fragments are not in pairs of neighbours");
        return;
    }
    x.low = pairs_element(t, tile, 0);
    x.high = pairs_element(t, tile, 1);
    x.pointer = pair_pointer(t, tile, a);
    emit_open(t, "{");
    emit_fresh_place(t, s);
    emit_declare_own(t, tile);
    copy_declare_rest(t, a);
    if (a->row_affine) {
        str pointer = emit_pointer(t, a, tile->own_row, tile->own_column);
        emit_text(t, "%.*smatrix = %.*s;", STR_ARGS(a->pointer_type), STR_ARGS(pointer));
    }
    if (!a->columns_complete) {
        emit_open(t, "if (columns_left >= %d) {", tile->columns);
        loop_over_pairs(&x, false, action);
        t->indent--;
        emit_open(t, "} else {");
    }
    loop_over_pairs(&x, !a->columns_complete, action);
    if (!a->columns_complete) emit_close(t);
    emit_close(t);
}
