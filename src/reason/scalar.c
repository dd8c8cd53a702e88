#include "reason/scalar.h"

#include <math.h>

enum { SCALAR_DEPTH_MAX = 64 };

tl_statement *scalar_grid(const tl_kernel *kernel) {
    for (tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_GRID) return s;
    return NULL;
}

static bool is_grid_walk(const tl_kernel *kernel, str name) {
    const tl_statement *grid = scalar_grid(kernel);
    for (int i = 0; grid && i < grid->grid.count; i++)
        if (str_equal(grid->grid.items[i].name, name)) return true;
    return false;
}

bool scalar_is_uniform(reason *r, const tiles_list *tiles, const tl_expr *e) {
    if (!e) return true;
    if (e->kind == TL_NAME) {
        if (tiles_find(tiles, e->text)) return false;
        if (tiles_extent(tiles, e->text) && !is_grid_walk(r->kernel, e->text)) {
            int64_t known; /* a bare axis is its own index; in an expression it means its length */
            return reason_known(r, e, &known);
        }
    }
    if (!scalar_is_uniform(r, tiles, e->left) || !scalar_is_uniform(r, tiles, e->right))
        return false;
    for (int i = 0; i < e->item_count; i++)
        if (!scalar_is_uniform(r, tiles, e->items[i])) return false;
    return true;
}

typedef struct values_of {
    reason *r;
    const tiles_list *tiles;
    int deep; /* in lets */
} values_of;

static bool name_is_real(void *context, const tl_expr *e) {
    const values_of *n = context;
    tl_tensor t;
    if (tl_find_tensor(n->r->kernel, edit_bare(e->text), &t))
        return tiles_tensor_type(n->r->kernel, e->text) != TL_I32;
    if (e->kind == TL_ELEMENT || (n->tiles && tiles_find(n->tiles, e->text))) return true;
    const tl_binding *let = edit_find_let(n->r->kernel, e->text, NULL);
    values_of below = {n->r, n->tiles, n->deep + 1};
    return let &&
           (n->deep >= SCALAR_DEPTH_MAX || tl_expr_is_real_by(let->value, name_is_real, &below));
}

bool scalar_is_real(reason *r, const tiles_list *tiles, const tl_expr *e) {
    return tl_expr_is_real_by(e, name_is_real, &(values_of){r, tiles, 0});
}

static bool is_no_real_name(void *context, const tl_expr *e) {
    return (e->kind != TL_NAME && e->kind != TL_ELEMENT) || !name_is_real(context, e);
}

bool scalar_names_real(reason *r, const tl_expr *e) {
    return !tl_visit(e, is_no_real_name, &(values_of){r, NULL, 0});
}

/* --- what it may be ----------------------------------------------------------------------------
 */

typedef struct names_of {
    reason *r;
    const tiles_tile *tile; /* whose axes index names walk; NULL: none is meant */
} names_of;

static bool is_length(const tl_kernel *kernel, str name) {
    for (tl_tensor t = {0}; tl_next_tensor(kernel, &t);)
        for (int i = 0; i < t.axes->count && !t.view; i++) {
            const tl_expr *extent = t.axes->items[i].extent;
            if (extent->kind == TL_NAME && str_equal(extent->text, name)) return true;
        }
    return false;
}

static holds_name find_name(void *context, const tl_expr *e) {
    const names_of *n = context;
    tl_kernel *kernel = n->r->kernel;
    if (e->kind == TL_NAME && n->tile && tiles_axis(n->tile, e->text) >= 0)
        return (holds_name){HOLDS_PLACE, NULL, NULL};
    tl_tensor t;
    if (tl_find_tensor(kernel, e->text, &t) && t.statement->kind == TL_INPUT)
        return (holds_name){e->kind == TL_NAME ? HOLDS_INPUT : HOLDS_UNKNOWN, NULL,
                            t.statement->parameter.condition};
    if (is_grid_walk(kernel, e->text)) return (holds_name){HOLDS_COUNTER, NULL, NULL};
    if (is_length(kernel, e->text)) return (holds_name){HOLDS_LENGTH, NULL, NULL};
    tl_binding *let = edit_find_let(kernel, e->text, NULL);
    if (let && let->axes.count == 0 && e->kind == TL_NAME)
        return (holds_name){HOLDS_DEFINED, let->value, NULL};
    return (holds_name){HOLDS_UNKNOWN, NULL, NULL};
}

holds_value scalar_holds(reason *r, const tiles_tile *tile, const tl_expr *e) {
    names_of names = {r, tile};
    const holds_scope scope = {find_name, &names, NULL};
    return holds_expression(&scope, e);
}

bool scalar_is_positive(reason *r, const tl_expr *e) {
    return e && holds_only(scalar_holds(r, NULL, e), HOLDS_POSITIVE | HOLDS_VAST_ABOVE);
}

/* --- numbers -----------------------------------------------------------------------------------
 */

static bool number_at(reason *r, const tl_expr *e, double *value, int depth) {
    double a, b;
    if (depth > SCALAR_DEPTH_MAX) return false;
    switch (e->kind) {
    case TL_INTEGER: *value = (double)e->integer; return true;
    case TL_NUMBER: *value = e->number; return true;
    case TL_NEGATE:
        if (!number_at(r, e->left, &a, depth + 1)) return false;
        *value = -a;
        return true;
    case TL_NAME: {
        tl_binding *binding = edit_find_let(r->kernel, e->text, NULL);
        return binding && binding->axes.count == 0 &&
               number_at(r, binding->value, value, depth + 1);
    }
    case TL_CALL:
        if (e->function != TL_FUNCTION_LOG || !number_at(r, e->items[0], &a, depth + 1))
            return false;
        *value = log(a); /* of 0, minus infinity, which has no word of its own */
        return true;
    case TL_BINARY:
        if (!number_at(r, e->left, &a, depth + 1) || !number_at(r, e->right, &b, depth + 1))
            return false;
        *value = e->operator== TL_TIMES ? a * b : e->operator== TL_PLUS ? a + b : a - b;
        return e->operator== TL_TIMES || e->operator== TL_PLUS || e->operator== TL_MINUS;
    default: return false;
    }
}

bool scalar_number(reason *r, const tl_expr *e, double *value) {
    return number_at(r, e, value, 0);
}

/* Names on the way through lets, which stand for one another. */
typedef struct resolving {
    reason *r;
    str sought; /* empty: walks of the grid */
    int depth;
} resolving;

static bool is_nothing_sought(void *context, const tl_expr *e) {
    resolving *of = context;
    if (e->kind != TL_NAME) return true;
    bool is_sought = of->sought.length > 0 ? str_equal(e->text, of->sought)
                                           : is_grid_walk(of->r->kernel, e->text);
    if (is_sought) return false;
    const tl_binding *let = edit_find_let(of->r->kernel, e->text, NULL);
    if (!let || let->axes.count || of->depth == SCALAR_DEPTH_MAX) return true;
    of->depth++;
    bool is_none = tl_visit(let->value, is_nothing_sought, of);
    of->depth--;
    return is_none;
}

bool scalar_depends_on(reason *r, const tl_expr *e, str name) {
    resolving of = {r, name, 0};
    return !tl_visit(e, is_nothing_sought, &of);
}

bool scalar_depends_on_tile(reason *r, const tl_expr *e) {
    return scalar_depends_on(r, e, STR(""));
}

static bool mentions_loop(reason *r, const tl_expr *e) {
    for (tl_statement *s = r->kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_FOR && tl_expr_names(e, s->loop.name)) return true;
    return false;
}

/* The last declaration before the actions start, so that lets follow what they need. */
static tl_statement *last_declaration(const tl_kernel *kernel) {
    tl_statement *last = kernel->body.first;
    for (tl_statement *s = kernel->body.first; s; s = s->next)
        if (s->kind == TL_INPUT || s->kind == TL_OUTPUT || s->kind == TL_LET || s->kind == TL_GRID)
            last = s;
    return last;
}

const char *scalar_name(reason *r, const tl_expr *e, const char *wanted, const char *comment) {
    if (e->kind == TL_NAME || e->kind == TL_INTEGER || e->kind == TL_NUMBER || mentions_loop(r, e))
        return edit_text(r->memory, e);
    for (tl_statement *s = r->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
            if (s->let.items[i].axes.count == 0 && tl_expr_equal(s->let.items[i].value, e))
                return edit_z(r->memory, s->let.items[i].name);
    const char *name = reason_fresh_z(r, "%s", wanted);
    tl_block let = tl_quote(r->memory, "let %s = %s // %s", name, edit_text(r->memory, e), comment);
    tl_statement *grid = scalar_grid(r->kernel);
    if (grid && !scalar_depends_on_tile(r, e)) edit_before(r->kernel, grid, let);
    else edit_after(r->kernel, last_declaration(r->kernel), let);
    return name;
}

tl_expr *scalar_product(reason *r, const tl_expr *a, const tl_expr *b) {
    double x, y;
    if (scalar_number(r, a, &x) && scalar_number(r, b, &y))
        return tl_quote_expr(r->memory, "%.9g", x * y);
    bool is_minus = a->kind == TL_NEGATE;
    if (is_minus) a = a->left;
    bool needs = a->kind == TL_BINARY && (a->operator== TL_PLUS || a->operator== TL_MINUS);
    return tl_quote_expr(r->memory, needs ? "%s(%s)*%s" : "%s%s*%s", is_minus ? "-" : "",
                         edit_text(r->memory, a), edit_factor_text(r->memory, b));
}
