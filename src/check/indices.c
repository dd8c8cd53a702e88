/* Indices: what counts the elements of a tensor, a view or a table is an integer. */
#include "check/rules.h"

#include "tl/tl.h"

typedef struct indices {
    diag_list *diags;
    bool is_right;
} indices;

/* What makes a value no integer, as far as its text says; NULL: nothing does. The types of tiles
 * are known later.
 */
static const tl_expr *find_real(const tl_expr *e, int depth) {
    if (!e || depth > TL_HEIGHT_MAX || !tl_expr_is_real(e)) return NULL;
    const tl_symbol *s = e->symbol;
    const bool is_tensor = e->kind == TL_ELEMENT && s && s->parameter;
    const bool is_scalar = e->kind == TL_NAME && s && s->kind == TL_SYMBOL_SCALAR;
    const bool is_constant = e->kind == TL_NAME && s && s->kind == TL_SYMBOL_CONSTANT;
    if (e->kind == TL_NUMBER || is_tensor || is_scalar) return e;
    if (e->kind == TL_ELEMENT) return s && s->view ? find_real(s->view->value, depth + 1) : NULL;
    if (is_constant) return find_real(s->value, depth + 1);
    const tl_expr *found = NULL;
    const int first = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    for (int i = first; i < e->item_count && !found; i++) found = find_real(e->items[i], depth + 1);
    if (!found) found = find_real(e->left, depth + 1);
    if (!found) found = find_real(e->right, depth + 1);
    return found || e->kind != TL_CALL ? found : e;
}

static str describe(arena *memory, const tl_expr *e) {
    const tl_symbol *s = e->symbol;
    if (e->kind == TL_NUMBER || e->kind == TL_CALL)
        return str_format(memory, "%.*s is none", STR_ARGS(tl_expr_text(memory, e)));
    tl_type type = s->parameter->parameter.type;
    if (type == TL_OPEN)
        return str_format(memory, "'%.*s' has no type, and an index is i32", STR_ARGS(s->name));
    return str_format(memory, "'%.*s' is %s, and an index is i32", STR_ARGS(s->name),
                      tl_type_name(type));
}

static void check_element(void *context, tl_expr *e) {
    indices *all = context;
    for (int i = 0; e->kind == TL_ELEMENT && i < e->item_count; i++) {
        const tl_expr *real = find_real(e->items[i], 0);
        if (!real) continue;
        all->is_right = false;
        diag_report(all->diags, DIAG_INDEX_NOT_WHOLE, e->items[i]->range, e->text,
                    describe(all->diags->memory, real));
    }
}

bool rules_indices(tl_kernel *kernel, diag_list *diags) {
    indices all = {diags, true};
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        tl_each_expr(s, check_element, &all);
    return all.is_right;
}
