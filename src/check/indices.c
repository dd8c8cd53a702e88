/* Indices: what counts the elements of a tensor, a view or a table is an integer, and so is what it
 * runs over.
 */
#include "check/rules.h"

#include "tl/tl.h"

typedef struct indices {
    diag_list *diags;
    const tl_symbol *told; /* a length that is wrong for every axis it is given to */
    bool is_right;
} indices;

/* What makes a value no integer, as far as its text says; NULL: nothing does. The types of tiles
 * are known later.
 */
static const tl_expr *find_real(const tl_expr *e, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return NULL;
    const tl_symbol *s = e->symbol;
    /* Its value says it: what serves as a length is taken for an integer (names_settle). */
    if (e->kind == TL_NAME && s && s->kind == TL_SYMBOL_CONSTANT)
        return find_real(s->value, depth + 1);
    if (!tl_expr_is_real(e)) return NULL;
    const bool is_tensor = e->kind == TL_ELEMENT && s && s->parameter;
    const bool is_scalar = e->kind == TL_NAME && s && s->kind == TL_SYMBOL_SCALAR;
    if (e->kind == TL_NUMBER || is_tensor || is_scalar) return e;
    if (e->kind == TL_ELEMENT) return s && s->view ? find_real(s->view->value, depth + 1) : NULL;
    const tl_expr *found = NULL;
    const int first = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    for (int i = first; i < e->item_count && !found; i++) found = find_real(e->items[i], depth + 1);
    if (!found) found = find_real(e->left, depth + 1);
    if (!found) found = find_real(e->right, depth + 1);
    return found || e->kind != TL_CALL ? found : e;
}

static str describe(arena *memory, const tl_expr *e, const char *what) {
    const tl_symbol *s = e->symbol;
    if (!s || !s->parameter)
        return str_format(memory, "%.*s is none", STR_ARGS(tl_expr_text(memory, e)));
    tl_type type = s->parameter->parameter.type;
    if (type == TL_OPEN)
        return str_format(memory, "'%.*s' has no type, and %s is i32", STR_ARGS(s->name), what);
    return str_format(memory, "'%.*s' is %s, and %s is i32", STR_ARGS(s->name), tl_type_name(type),
                      what);
}

static void check_index(indices *all, const tl_expr *index, str of) {
    const tl_expr *real = find_real(index, 0);
    if (!real) return;
    all->is_right = false;
    diag_report(all->diags, DIAG_INDEX_NOT_WHOLE, index->range, of,
                describe(all->diags->memory, real, "an index"));
}

static void check_extent(indices *all, const tl_expr *length, str index) {
    const tl_expr *real = find_real(length, 0);
    if (!real || (length->symbol && length->symbol == all->told)) return;
    all->is_right = false;
    all->told = length->symbol;
    diag_report(all->diags, DIAG_LENGTH_NOT_WHOLE, length->range, index,
                describe(all->diags->memory, real, "a length"));
}

static void check_element(void *context, tl_expr *e) {
    for (int i = 0; e->kind == TL_ELEMENT && i < e->item_count; i++)
        check_index(context, e->items[i], e->text);
}

static void check_axes(indices *all, const tl_axes *axes, str tensor) {
    for (int i = 0; i < axes->count; i++) {
        const tl_axis *axis = &axes->items[i];
        if (!axis->is_bare) check_index(all, axis->coordinate, tensor);
        check_extent(all, axis->extent, tl_expr_text(all->diags->memory, axis->coordinate));
    }
}

static void check_place(indices *all, const tl_place *place, const tl_expr *of) {
    for (int i = 0; i < place->count; i++) check_index(all, place->items[i].at, of->text);
}

static void check_statement(indices *all, const tl_statement *s) {
    switch (s->kind) {
    case TL_INPUT:
    case TL_OUTPUT: check_axes(all, &s->parameter.axes, s->parameter.name); break;
    case TL_LET:
        for (int i = 0; i < s->let.count; i++)
            check_axes(all, &s->let.items[i].axes, s->let.items[i].name);
        break;
    case TL_GRID:
        for (int i = 0; i < s->grid.count; i++)
            check_extent(all, s->grid.items[i].extent, s->grid.items[i].name);
        break;
    case TL_FOR:
        check_extent(all, s->loop.from, s->loop.name);
        check_extent(all, s->loop.to, s->loop.name);
        break;
    case TL_COPY: check_place(all, &s->copy.place, s->copy.what); break;
    default: break;
    }
}

bool rules_indices(tl_kernel *kernel, diag_list *diags) {
    indices all = {.diags = diags, .is_right = true};
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        tl_each_expr(s, check_element, &all);
        check_statement(&all, s);
    }
    return all.is_right;
}
