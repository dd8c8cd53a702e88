/* What is known to be a multiple of what: of numbers, and of lengths that a launch condition speaks
 * of (`where page_len % BN == 0`); and which tiles surely end within a length.
 */
#include "translate/emit.h"

/* Does the condition say that e is a multiple of n? It is, where each part of an `and` holds. */
static bool says_multiple(const tl_expr *condition, const tl_expr *e, int64_t n, int depth) {
    int64_t divisor, rest;
    if (!condition || condition->kind != TL_BINARY || depth > TL_HEIGHT_MAX) return false;
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
    if (depth > TL_HEIGHT_MAX || n < 1) return false;
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

/* --- tiles that are before an end ------------------------------------------------------------- */

/* Is e, a value known at launch or later, at most the length, or surely the length itself? */
static bool is_at_most(const tl_expr *e, const tl_expr *length, int depth) {
    if (depth > TL_HEIGHT_MAX) return false;
    if (tl_expr_equal(e, length)) return true;
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT)
        return e->symbol->value && is_at_most(e->symbol->value, length, depth + 1);
    for (int i = 0; e->kind == TL_CALL && e->function == TL_FUNCTION_MIN && i < e->item_count; i++)
        if (is_at_most(e->items[i], length, depth + 1)) return true;
    return false;
}

/* Does tile number e + more of that size end within the length? What bounds a loop says so:
 * j < min(full, blocks) - 1 and full = floor(kv_len/BN).
 */
static bool ends_within(const tl_expr *e, int64_t more, int64_t size, const tl_expr *length,
                        int depth) {
    int64_t known;
    if (depth > TL_HEIGHT_MAX) return false;
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_LOOP) {
        const tl_statement *loop = e->symbol->statement;
        bool is_plain = loop && loop->kind == TL_FOR && !loop->loop.is_grid_walk;
        return is_plain && ends_within(loop->loop.to, more - 1, size, length, depth + 1);
    }
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT)
        return e->symbol->value && ends_within(e->symbol->value, more, size, length, depth + 1);
    bool is_sum = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (is_sum && tl_known_integer(e->right, &known) && known >= 0 && known <= EMIT_SIZE_MAX)
        return ends_within(e->left, e->operator== TL_PLUS ? more + known : more - known, size,
                           length, depth + 1);
    if (e->kind != TL_CALL) return false;
    for (int i = 0; e->function == TL_FUNCTION_MIN && i < e->item_count; i++)
        if (ends_within(e->items[i], more, size, length, depth + 1)) return true;
    /* floor(length/size) tiles are whole: the last of them has that number less one. */
    const tl_expr *q = e->function == TL_FUNCTION_FLOOR ? e->items[0] : NULL;
    return q && q->kind == TL_BINARY &&
           q->operator== TL_OVER && tl_known_integer(q->right, &known) && known == size &&
           more <= -1 && is_at_most(q->left, length, depth + 1);
}

/* Does the grid count so many tiles of that size as the length has, all of them whole? */
static bool walks_whole(const emit *t, const tl_expr *e, int64_t size, const tl_expr *length) {
    int64_t known;
    if (e->kind != TL_NAME || !e->symbol || e->symbol->kind != TL_SYMBOL_GRID) return false;
    const tl_expr *q = tl_walk_of(e->symbol)->extent;
    return q->kind == TL_BINARY && q->operator== TL_OVER && tl_known_integer(q->right, &known) &&
           known == size && tl_expr_equal(q->left, length) && emit_is_multiple(t, length, size, 0);
}

bool emit_is_whole(const emit *t, const tl_expr *at, int64_t size, const tl_expr *length) {
    return ends_within(at, 0, size, length, 0) || walks_whole(t, at, size, length);
}
