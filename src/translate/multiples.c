/* What is known to be a multiple of what: of numbers, and of lengths that a launch condition speaks
 * of (`where page_len % BN == 0`).
 */
#include "translate/emit.h"

/* Does the condition say that e is a multiple of n? It is, where each part of an `and` holds. */
static bool says_multiple(const tl_expr *condition, const tl_expr *e, int64_t n, int depth) {
    int64_t divisor, rest;
    if (!condition || condition->kind != TL_BINARY || depth > TL_NESTING_MAX) return false;
    if (condition->operator== TL_AND)
        return says_multiple(condition->left, e, n, depth + 1) ||
               says_multiple(condition->right, e, n, depth + 1);
    const tl_expr *left = condition->left;
    return condition->operator== TL_EQUAL && left->kind == TL_BINARY && left->operator==
           TL_MODULO && tl_expr_equal(left->left, e) &&
           tl_known_integer(left->right, &divisor) && tl_known_integer(condition->right, &rest) &&
           rest == 0 && divisor > 0 && divisor % n == 0;
}

static bool launch_says(const emit *t, const tl_expr *e, int64_t n) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        bool is_parameter = s->kind == TL_INPUT || s->kind == TL_OUTPUT;
        if (is_parameter && says_multiple(s->parameter.condition, e, n, 0)) return true;
    }
    return false;
}

bool emit_is_multiple(const emit *t, const tl_expr *e, int64_t n, int depth) {
    int64_t value;
    if (depth > TL_NESTING_MAX || n < 1) return false;
    if (n == 1) return true;
    if (tl_known_integer(e, &value)) return value % n == 0;
    if (e->kind == TL_BINARY && e->operator== TL_TIMES)
        return emit_is_multiple(t, e->left, n, depth + 1) ||
               emit_is_multiple(t, e->right, n, depth + 1);
    bool is_sum = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (is_sum)
        return emit_is_multiple(t, e->left, n, depth + 1) &&
               emit_is_multiple(t, e->right, n, depth + 1);
    bool is_let = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT;
    if (is_let && e->symbol->value && emit_is_multiple(t, e->symbol->value, n, depth + 1))
        return true;
    return launch_says(t, e, n);
}
