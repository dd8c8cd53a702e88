/* Views: is every element of `let V (AXES) = T[E, ...]` in T?
 *
 * Nothing clips an element on its way through a view: a kernel would read whatever lies there. So
 * each E is evaluated at the ends of the view's own axes, for some lengths and grid indices that
 * the launch conditions allow; control is not followed, since a view may be copied from anywhere.
 * What tables and scalars decide is known at launch only: interpreter and emulator watch it.
 */
#include "check/rules.h"

#include "tl/tl.h"

#include <string.h>

enum {
    VARIABLES_MAX = 6,
    GUARDS_MAX = 8,
    ASSIGNMENTS_MAX = 4000, /* of one E */
};

/* A condition of `select` around the element. */
typedef struct guard {
    const tl_expr *condition;
    bool holds;
} guard;

typedef struct places {
    tl_kernel *kernel;
    const check_lengths *given; /* NULL: none */
    arena *memory;
    diag_list *diags;
    const tl_symbol *view;
    /* What is asked: is items[axis] of 'element' always on that axis? */
    const tl_expr *element;
    int axis;
    guard guards[GUARDS_MAX];
    int guard_count;
    /* Lengths and indices that have a value in this assignment */
    const tl_symbol *variables[VARIABLES_MAX];
    int variable_count;
    tl_values values;
    int tries;
    const tl_symbol *missing; /* a name that had no value in an evaluation */
} places;

/* --- values ----------------------------------------------------------------------------------- */

/* Notes what has none. */
static bool lookup(void *context, const tl_expr *e, tl_value *out) {
    places *p = context;
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    (void)out;
    if (s && s->kind != TL_SYMBOL_CONSTANT && !p->missing) p->missing = s;
    return false;
}

static bool integer(places *p, const tl_expr *e, int64_t *value) {
    return tl_values_integer(&p->values, e, value);
}

/* Forgets what lets were worth. */
static void begin_assignment(places *p) {
    memset(p->values.is_known, 0, sizeof(bool) * (size_t)p->kernel->symbol_count);
    for (int i = 0; i < p->variable_count; i++) {
        p->values.is_known[p->variables[i]->position] = true;
    }
    p->missing = NULL;
}

/* What a name's values are below: a grid index its walk, an index of the view the axis; else NULL.
 */
static const tl_expr *limit_of(const places *p, const tl_symbol *s) {
    for (int i = 0; s->kind == TL_SYMBOL_INDEX && i < p->view->axes->count; i++) {
        if (str_equal(tl_axis_index(p->view->axes, i), s->name)) {
            return p->view->axes->items[i].extent;
        }
    }
    return s->kind == TL_SYMBOL_GRID ? tl_walk_of(s)->extent : NULL;
}

/* --- one index -------------------------------------------------------------------------------- */

/* "row = 39, row_len = 40" */
static str assignment_text(const places *p) {
    str text = {NULL, 0};
    for (int i = 0; i < p->variable_count; i++) {
        const tl_symbol *s = p->variables[i];
        text = str_format(p->memory, "%.*s%s%.*s is %lld", STR_ARGS(text), i ? ", " : " where ",
                          STR_ARGS(s->name), (long long)p->values.integers[s->position]);
    }
    return text;
}

static bool report(const places *p, int64_t at, int64_t extent) {
    const tl_axes *axes = p->element->symbol->axes;
    const tl_expr *index = p->element->items[p->axis];
    str name = tl_axis_index(axes, p->axis);
    if (!name.length) name = tl_expr_text(p->memory, axes->items[p->axis].extent);
    diag_report(p->diags, DIAG_VIEW_OUTSIDE, index->range, p->view->name, p->element->text,
                str_format(p->memory, "%lld", (long long)at), assignment_text(p), name,
                str_format(p->memory, "%lld", (long long)extent));
    diag_add(p->diags, DIAG_VIEW_FIX, index->range, NULL);
    return false;
}

/* By the launch conditions, and by the `select`s around. */
static bool is_allowed(places *p) {
    for (const tl_statement *s = p->kernel->body.first; s; s = s->next) {
        bool is_parameter = s->kind == TL_INPUT || s->kind == TL_OUTPUT;
        int64_t holds;
        if (!is_parameter || !s->parameter.condition) continue;
        if (integer(p, s->parameter.condition, &holds) && !holds) return false;
    }
    for (int i = 0; i < p->guard_count; i++) {
        int64_t holds;
        bool is_known = integer(p, p->guards[i].condition, &holds);
        if (!is_known || (holds != 0) != p->guards[i].holds) return false;
    }
    return true;
}

/* Everything that decides is known, or p->missing is set. */
static bool check_assignment(places *p) {
    int64_t at = 0, extent = 0, ignored;
    bool is_known = integer(p, p->element->items[p->axis], &at);
    is_known &= integer(p, p->element->symbol->axes->items[p->axis].extent, &extent);
    for (int i = 0; i < p->guard_count; i++) integer(p, p->guards[i].condition, &ignored);
    if (p->missing || !is_known || (at >= 0 && at < extent) || !is_allowed(p)) return true;
    return report(p, at, extent);
}

static bool explore(places *p);

static bool try_value(places *p, const tl_symbol *s, int64_t value) {
    tl_values_set(&p->values, s, value);
    p->variables[p->variable_count++] = s;
    bool is_right = explore(p);
    p->variable_count--;
    return is_right;
}

/* What the index is divided by: kv % page_len is largest at one less. */
static int64_t period_of(const tl_expr *e, int depth) {
    int64_t period = 0;
    if (!e || depth > TL_HEIGHT_MAX) return 0;
    bool divides = e->kind == TL_BINARY && (e->operator== TL_MODULO || e->operator== TL_OVER);
    if (divides && tl_known_integer(e->right, &period)) return period;
    for (int i = 0; i < e->item_count && !period; i++) period = period_of(e->items[i], depth + 1);
    if (!period) period = period_of(e->left, depth + 1);
    return period ? period : period_of(e->right, depth + 1);
}

/* Lengths: one element, a few, more than a block, many; indices: both ends and what is next to
 * them. */
static bool try_values(places *p, const tl_symbol *s, const tl_expr *limit, int64_t below) {
    for (int i = 0; !limit && p->given && i < p->given->count; i++)
        if (str_equal(p->given->items[i].name, s->name))
            return try_value(p, s, p->given->items[i].value);
    if (!limit) {
        return try_value(p, s, 1) && try_value(p, s, 3) && try_value(p, s, 8) &&
               try_value(p, s, 65) && try_value(p, s, 1000);
    }
    if (below < 1) return true;
    bool is_right = try_value(p, s, 0);
    if (is_right && below > 1) is_right = try_value(p, s, below - 1);
    if (is_right && below > 2) is_right = try_value(p, s, 1);
    if (is_right && below > 3) is_right = try_value(p, s, below - 2);
    int64_t period = period_of(p->element->items[p->axis], 0);
    if (is_right && below > period && period > 1) is_right = try_value(p, s, period - 1);
    int64_t end;
    begin_assignment(p);
    bool has_end = integer(p, p->element->symbol->axes->items[p->axis].extent, &end);
    if (is_right && has_end && end > 0 && end < below) is_right = try_value(p, s, end);
    return is_right;
}

/* Gives values to names that the question depends on, one after the other, until it is answered. An
 * index waits for the lengths that it runs below. False when an element outside was found.
 */
static bool explore(places *p) {
    if (++p->tries > ASSIGNMENTS_MAX) return true;
    begin_assignment(p);
    bool is_right = check_assignment(p);
    const tl_symbol *s = p->missing;
    if (!s || !is_right) return is_right;
    const tl_expr *limit;
    int64_t below = 0;
    for (int deep = 0;; deep++) {
        limit = limit_of(p, s);
        p->missing = NULL;
        if (!limit || integer(p, limit, &below)) break;
        if (!p->missing || deep == VARIABLES_MAX) return true; /* a table decides */
        s = p->missing;
    }
    bool varies = s->kind == TL_SYMBOL_SIZE || limit;
    if (!varies || p->variable_count == VARIABLES_MAX) return true;
    return try_values(p, s, limit, below);
}

/* --- the kernel ------------------------------------------------------------------------------- */

static bool check_value(places *p, const tl_expr *e, int depth);

static bool check_guarded(places *p, const tl_expr *e, const tl_expr *condition, bool holds,
                          int depth) {
    if (p->guard_count == GUARDS_MAX) return true;
    p->guards[p->guard_count++] = (guard){condition, holds};
    bool is_right = check_value(p, e, depth);
    p->guard_count--;
    return is_right;
}

/* The elements of tensors and views in the value of a view. */
static bool check_value(places *p, const tl_expr *e, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return true;
    if (e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT && e->item_count == 3) {
        return check_value(p, e->items[0], depth + 1) &&
               check_guarded(p, e->items[1], e->items[0], true, depth + 1) &&
               check_guarded(p, e->items[2], e->items[0], false, depth + 1);
    }
    bool has_axes = e->kind == TL_ELEMENT && e->symbol && e->symbol->axes &&
                    e->symbol->axes->count == e->item_count;
    for (int i = 0; i < e->item_count; i++) {
        if (!check_value(p, e->items[i], depth + 1)) return false;
        if (!has_axes) continue;
        p->element = e, p->axis = i, p->tries = 0;
        if (!explore(p)) return false;
    }
    return check_value(p, e->left, depth + 1) && check_value(p, e->right, depth + 1);
}

bool rules_views(tl_kernel *kernel, const check_lengths *given, arena *memory, diag_list *diags) {
    places p = {.kernel = kernel, .given = given, .memory = memory, .diags = diags};
    p.values = tl_values_new(memory, kernel, lookup, &p);
    bool is_right = true;
    for (int i = 0; i < kernel->symbol_count; i++) {
        p.view = kernel->symbols[i];
        bool is_view = p.view->kind == TL_SYMBOL_VARIABLE && p.view->view && p.view->axes;
        if (is_view) is_right &= check_value(&p, p.view->view->value, 0);
    }
    return is_right;
}
