/* Limits of a Mask's tests: for each row, or for all of them, the columns from which on a test
 * holds.
 */
#include "translate/elements.h"

#include "tl/boxes.h"

#include <limits.h>

/* A tile's own elements are another one for each column, and so may a table's be. */
typedef struct column_use {
    emit *t;
    str column;
} column_use;

static bool is_alike_in_row(void *context, const tl_expr *e) {
    const column_use *of = context;
    if (e->kind == TL_ELEMENT) return !tl_uses_index(e, of->column);
    return e->kind != TL_NAME || !emit_tile_of(of->t, e);
}

/* Does the limit move by a constant from row to row? Then one limit serves all rows, and rows that
 * are 8 apart share their comparisons: those of one are the other's, 8 columns on.
 */
static bool is_slanted(emit *t, const elements_mask *m, const tl_expr *e, bool forward,
                       elements_limit *l) {
    str names[2];
    int64_t left, right;
    elements_index_names(m->x, names);
    if (!t->is_async || m->x->frame->shape.is_lines || !tl_index_factor(e->left, names[0], &left) ||
        !tl_index_factor(e->right, names[0], &right))
        return false;
    l->slant = forward ? right - left : left - right;
    return l->slant != 0;
}

/* Does the test compare columns from a constant on with a constant? The compiler then decides most
 * of them, which a limit, the difference, would hide from it.
 */
static bool is_constant(const elements_mask *m, const tl_expr *e) {
    const tl_place *place = &m->x->s->compute.place;
    int64_t unused;
    return place->count == 2 && !place->items[1].is_all &&
           tl_known_integer(place->items[1].at, &unused) &&
           (tl_known_integer(e->left, &unused) || tl_known_integer(e->right, &unused));
}

/* The difference of the sides, at the thread's first column and the row that 'row' says. */
static emit_value limit_value(emit *t, const elements_mask *m, const tl_expr *e, bool forward,
                              str row) {
    str names[2];
    elements_index_names(m->x, names);
    emit_index indices[2] = {
        {names[0], emit_named(row, 0, EMIT_SIZE_MAX)},
        {names[1], emit_named(elements_index_first(t, names[1]), 0, EMIT_SIZE_MAX)}};
    emit_scope scope = {.indices = indices, .index_count = 2, .reads = &m->x->once};
    emit_value a = emit_expression(t, e->left, &scope), b = emit_expression(t, e->right, &scope);
    return forward ? emit_difference(t, b, a) : emit_difference(t, a, b);
}

/* "[m16][half]", where there is one for each row. */
const char *elements_limit_row(const elements_mask *m, const elements_limit *l) {
    if (!l->by_row) return "";
    return m->x->frame->shape.is_lines ? "[down]" : "[m16][half]";
}

static void declare_limit(emit *t, const elements_mask *m, elements_limit *l, str value) {
    const emit_shape *s = &m->x->frame->shape;
    l->name = emit_format(t, "limit_%d", ++t->statement_number);
    if (!l->by_row) {
        emit_text(t, "const int %.*s = %.*s;", STR_ARGS(l->name), STR_ARGS(value));
        return;
    }
    emit_text(t, "int %.*s%.*s;", STR_ARGS(l->name), STR_ARGS(emit_row_dimensions(t, s)));
    emit_loop(t, s->is_lines ? "down" : "m16", s->down);
    if (!s->is_lines) emit_loop(t, "half", 2);
    emit_text(t, "%.*s%s = %.*s;", STR_ARGS(l->name), elements_limit_row(m, l), STR_ARGS(value));
    if (!s->is_lines) emit_close(t);
    emit_close(t);
}

static void find_limit(emit *t, elements_mask *m, const tl_expr *e) {
    str names[2];
    int64_t left, right;
    elements_index_names(m->x, names);
    if (m->count == LIMITS_MAX || !names[1].length ||
        !tl_visit(e, is_alike_in_row, &(column_use){t, names[1]}) || tl_expr_is_real(e->left) ||
        tl_expr_is_real(e->right) || !tl_index_factor(e->left, names[1], &left) ||
        !tl_index_factor(e->right, names[1], &right) || (left - right != 1 && left - right != -1) ||
        is_constant(m, e))
        return;
    elements_limit *l = &m->limits[m->count++];
    bool forward = left - right == 1;
    *l = (elements_limit){.test = e,
                          .operator= forward
                          ? e->operator: tl_turned(e->operator),
                          .by_row = tl_uses_index(e, names[0]) };
    str first = elements_index_first(t, names[0]);
    str row = emit_format(t, "(%.*s + %.*s)", STR_ARGS(first),
                          STR_ARGS(elements_row_offset(t, &m->x->frame->shape)));
    emit_value v = limit_value(t, m, e, forward, row);
    if (emit_is_wide(v)) {
        v.text = emit_format(t, "(int)ftl_max_wide(ftl_min_wide(%.*s, %dLL), -%dLL)",
                             STR_ARGS(v.text), INT_MAX, INT_MAX);
    }
    if (l->by_row && is_slanted(t, m, e, forward, l)) {
        emit_value at = limit_value(t, m, e, forward, first);
        if (!emit_is_wide(v) && !emit_is_wide(at)) v = at, l->by_row = false;
        else l->slant = 0;
    }
    declare_limit(t, m, l, v.text);
}

/* Of two tests on one side, of which one holds table elements, one comparison is left. */
static void join_limits(emit *t, elements_mask *m, const tl_expr *e, int before) {
    elements_limit *a = &m->limits[before], *b = a + 1;
    if (m->count != before + 2 || a->test != e->left || b->test != e->right || a->slant ||
        b->slant || a->operator!= b->operator|| !elements_has_table_or_tile(t, e))
        return;
    bool is_upper = a->operator== TL_GREATER || a->operator== TL_GREATER_EQUAL;
    if (!is_upper && a->operator!= TL_LESS && a->operator!= TL_LESS_EQUAL) return;
    bool takes_less = is_upper == (e->operator== TL_OR);
    str value = emit_format(t, "ftl_%s_integer(%.*s%s, %.*s%s)", takes_less ? "min" : "max",
                            STR_ARGS(a->name), elements_limit_row(m, a), STR_ARGS(b->name),
                            elements_limit_row(m, b));
    *a = (elements_limit){.test = e, .operator= a->operator, .by_row = a->by_row || b->by_row };
    m->count--;
    declare_limit(t, m, a, value);
}

void elements_find_limits(emit *t, elements_mask *m, const tl_expr *e) {
    if (e->kind == TL_NOT) elements_find_limits(t, m, e->left);
    if (e->kind != TL_BINARY) return;
    if (e->operator!= TL_AND && e->operator!= TL_OR) {
        find_limit(t, m, e);
        return;
    }
    int before = m->count;
    elements_find_limits(t, m, e->left);
    elements_find_limits(t, m, e->right);
    join_limits(t, m, e, before);
}
