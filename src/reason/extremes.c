#include "reason/extremes.h"

#include "reason/scalar.h"

enum { EXTREMES_DEPTH_MAX = 16 };

/* Where the tile begins along an axis (is_last: its last element), as an expression. */
static tl_expr *extreme_index(const extremes_tile *t, str index, bool is_last) {
    reason *r = t->r;
    const tiles_span *e = tiles_extent(t->tiles, index);
    if (!e) return NULL;
    tl_spot spot = {.is_all = true};
    tiles_tile one = {.axis_count = 1, .axes = {index}};
    tl_place place = tiles_place(r, &one, t->at);
    if (place.count == 1) spot = place.items[0];
    const char *size = edit_factor_text(r->memory, e->extent);
    if (spot.is_all)
        return is_last ? tl_quote_expr(r->memory, "%s - 1", size) : tl_quote_expr(r->memory, "0");
    const char *at = edit_text(r->memory, spot.at);
    return is_last ? tl_quote_expr(r->memory, "(%s + 1)*%s - 1", at, size)
                   : tl_quote_expr(r->memory, "%s*%s", edit_factor_text(r->memory, spot.at), size);
}

static bool is_index(const extremes_tile *t, str name) {
    const tiles_span *e = tiles_extent(t->tiles, name);
    return e && !(e->length->kind == TL_NAME && str_equal(e->length->text, name));
}

bool extremes_has_index(const extremes_tile *t, const tl_expr *e) {
    for (int i = 0; i < t->tiles->extents.count; i++) {
        str index = t->tiles->extents.items[i].index;
        if (is_index(t, index) && tl_expr_names(e, index)) return true;
    }
    return false;
}

static tl_expr *extreme(const extremes_tile *t, const tl_expr *e, bool is_largest, int depth);

/* A sum is greatest where what it adds is greatest, and what it takes away least. */
static tl_expr *extreme_sum(const extremes_tile *t, const tl_expr *e, bool is_largest, int depth) {
    tl_linear sum = linear_of(t->r, e, false), found = {.constant = sum.constant};
    for (int i = 0; i < sum.count; i++) {
        bool is_added = sum.terms[i].factor > 0;
        tl_expr *value = extreme(t, sum.terms[i].atom, is_largest == is_added, depth + 1);
        if (!value) return NULL;
        tl_linear_add_atom(&found, value, sum.terms[i].factor);
    }
    return sum.is_broken || found.is_broken ? NULL : linear_expr(t->r, &found);
}

/* A quotient of an index, or of a sum with one, by a number rounds down, as these do not. */
static tl_expr *extreme_quotient(const extremes_tile *t, const tl_expr *e, bool is_largest,
                                 int depth) {
    arena *memory = t->r->memory;
    if (!scalar_is_positive(t->r, e->right) || extremes_has_index(t, e->right)) return NULL;
    tl_expr *value = e->left->kind == TL_NAME ? extreme_index(t, e->left->text, is_largest)
                                              : extreme_sum(t, e->left, is_largest, depth);
    return value ? tl_quote_expr(memory, "floor(%s/%s)", edit_factor_text(memory, value),
                                 edit_factor_text(memory, e->right))
                 : NULL;
}

/* The greatest of several is greatest where each of them is, and so is the least. */
static tl_expr *extreme_call(const extremes_tile *t, const tl_expr *e, bool is_largest, int depth) {
    if (e->function != TL_FUNCTION_MIN && e->function != TL_FUNCTION_MAX) return NULL;
    str list = {"", 0};
    for (int i = 0; i < e->item_count; i++) {
        tl_expr *value = extreme_sum(t, e->items[i], is_largest, depth);
        if (!value) return NULL;
        reason_list(t->r, &list, ", ", "%s", edit_text(t->r->memory, value));
    }
    return tl_quote_expr(t->r->memory, "%s(%.*s)", e->function == TL_FUNCTION_MIN ? "min" : "max",
                         STR_ARGS(list));
}

static tl_expr *extreme(const extremes_tile *t, const tl_expr *e, bool is_largest, int depth) {
    if (depth > EXTREMES_DEPTH_MAX) return NULL;
    if (!extremes_has_index(t, e)) return tl_expr_copy(t->r->memory, e);
    if (e->kind == TL_NAME) return extreme_index(t, e->text, is_largest);
    if (e->kind == TL_BINARY && e->operator== TL_OVER)
        return extreme_quotient(t, e, is_largest, depth);
    return e->kind == TL_CALL ? extreme_call(t, e, is_largest, depth) : NULL;
}

bool extremes_find(const extremes_tile *t, const tl_linear *sum, bool is_largest, tl_linear *out) {
    *out = (tl_linear){.constant = sum->constant, .is_broken = sum->is_broken};
    for (int i = 0; i < sum->count; i++) {
        const tl_expr *atom = sum->terms[i].atom;
        int64_t c = sum->terms[i].factor;
        if (!extremes_has_index(t, atom)) {
            tl_linear_add_atom(out, atom, c);
            continue;
        }
        tl_expr *value = extreme(t, atom, is_largest == (c > 0), 0);
        if (!value) return false;
        /* Kept as one atom, so that it prints as it is read: (q_block + 1)*BM. */
        if (value->kind == TL_BINARY && value->operator== TL_MINUS &&
                                        value->right->kind == TL_INTEGER) {
            tl_linear_add_atom(out, value->left, c);
            tl_linear_add_constant(out, value->right->integer, -c);
        } else if (value->kind == TL_INTEGER) {
            tl_linear_add_constant(out, value->integer, c);
        } else {
            tl_linear_add_atom(out, value, c);
        }
    }
    return !out->is_broken;
}
