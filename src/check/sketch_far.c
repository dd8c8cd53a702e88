/* Are scores moved so far from 0 that f32 loses their differences where a whole row is there?
 *
 * A number like -1e9 that is added for keys that do not count is harmless in a row with others, and
 * gives one without others equal weights (docs/language.md, Softmax). A Mask's number replaces
 * scores: those have no differences to lose. What memory adds nobody sees here.
 */
#include "check/rules.h"

#include <math.h>

/* The number in an expression that is far out; not in conditions, which choose. */
static const tl_expr *find_far(const tl_expr *e) {
    const double near_most = 1e7, masked_from = 2e30;
    if (!e) return NULL;
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT)
        return find_far(e->symbol->value) ? e : NULL;
    if (e->kind == TL_INTEGER || e->kind == TL_NUMBER) {
        double size = fabs(e->kind == TL_INTEGER ? (double)e->integer : e->number);
        return size > near_most && size < masked_from ? e : NULL;
    }
    const tl_expr *found = find_far(e->left);
    if (!found) found = find_far(e->right);
    bool selects = e->kind == TL_CALL && e->function == TL_FUNCTION_SELECT;
    for (int i = selects ? 1 : 0; i < e->item_count && !found && e->kind == TL_CALL; i++)
        found = find_far(e->items[i]);
    return found;
}

static bool is_scored(const tl_kernel *kernel, const tl_symbol *tile) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL))
        if (s->kind == TL_COMPUTE && s->compute.operation == TL_SOFTMAX &&
            s->compute.operands[0].value->symbol == tile)
            return true;
    return false;
}

void rules_sketch_far(tl_kernel *kernel, diag_list *diags) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind != TL_COMPUTE) continue;
        const tl_expr *written = tl_written_name(s);
        if (tl_operation_shape(s->compute.operation) != TL_SHAPE_ELEMENTWISE || !written ||
            !is_scored(kernel, written->symbol))
            continue;
        const tl_expr *far = NULL;
        for (int i = 0; i < s->compute.operand_count && !far; i++)
            far = find_far(s->compute.operands[i].value);
        if (far) diag_report(diags, DIAG_SKETCH_FAR_SCORES, far->range, written->text);
    }
}
