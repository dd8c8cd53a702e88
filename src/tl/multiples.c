/* What is known to be a multiple of what: of numbers, and of lengths that a launch condition speaks
 * of (`where page_len % BN == 0`); and which tiles surely end within a length.
 */
#include "tl/boxes.h"

#include "tl/tl.h"

enum {
    TILES_TOGETHER_MAX = 1 << 16, /* far more than an iteration brings: products are no overflow */
    NUMBER_MAX = 1 << 29,         /* of a tile that a bound says */
};

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

static bool launch_says(const tl_kernel *kernel, const tl_expr *e, int64_t n) {
    for (const tl_statement *s = kernel->body.first; s; s = s->next) {
        bool is_parameter = s->kind == TL_INPUT || s->kind == TL_OUTPUT;
        if (is_parameter && says_multiple(s->parameter.condition, e, n, 0)) return true;
    }
    return false;
}

static bool is_multiple(const tl_kernel *kernel, const tl_expr *e, int64_t n, int depth) {
    int64_t value;
    if (depth > TL_HEIGHT_MAX || n < 1) return false;
    if (n == 1) return true;
    if (tl_known_integer(e, &value)) return value % n == 0;
    if (e->kind == TL_BINARY && e->operator== TL_TIMES)
        return is_multiple(kernel, e->left, n, depth + 1) ||
               is_multiple(kernel, e->right, n, depth + 1);
    bool is_sum = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (is_sum)
        return is_multiple(kernel, e->left, n, depth + 1) &&
               is_multiple(kernel, e->right, n, depth + 1);
    bool is_let = e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT;
    if (is_let && e->symbol->value && is_multiple(kernel, e->symbol->value, n, depth + 1))
        return true;
    return launch_says(kernel, e, n);
}

bool tl_is_multiple(const tl_kernel *kernel, const tl_expr *e, int64_t n) {
    return is_multiple(kernel, e, n, 0);
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

/* Is the length surely n or more? By numbers, and by a `max` that has one. */
static bool is_at_least(const tl_expr *e, int64_t n, int depth) {
    int64_t value;
    if (tl_known_integer(e, &value)) return value >= n;
    if (depth > TL_HEIGHT_MAX) return false;
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT)
        return e->symbol->value && is_at_least(e->symbol->value, n, depth + 1);
    bool is_product = e->kind == TL_BINARY && e->operator== TL_TIMES;
    if (is_product && n > 0 && tl_known_integer(e->right, &value) && value > 0)
        return is_at_least(e->left, (n - 1) / value + 1, depth + 1);
    for (int i = 0; e->kind == TL_CALL && e->function == TL_FUNCTION_MAX && i < e->item_count; i++)
        if (is_at_least(e->items[i], n, depth + 1)) return true;
    return false;
}

/* A tile that is asked about: its number is 'factor' times an expression, and 'more'. */
typedef struct tile_end {
    const tl_kernel *kernel;
    int64_t size;
    const tl_expr *length;
    int64_t least; /* of its number; what is below is none, and nothing is copied from there */
} tile_end;

static bool ends_within(const tl_expr *e, int64_t factor, int64_t more, const tile_end *end,
                        int depth);

/* Of a quotient that is rounded: blocks of that size, all of which but the last are whole, and that
 * one, too, where the length is a multiple of them; or groups of so many tiles as the factor
 * counts.
 */
static bool quotient_ends_within(const tl_expr *e, int64_t factor, int64_t more,
                                 const tile_end *end, int depth) {
    int64_t known;
    bool rounds_up = e->function == TL_FUNCTION_CEIL;
    const tl_expr *q = rounds_up || e->function == TL_FUNCTION_FLOOR ? e->items[0] : NULL;
    bool divides = q && q->kind == TL_BINARY &&
                   q->operator== TL_OVER && tl_known_integer(q->right, &known) && known > 0;
    if (!divides) return false;
    bool counts_tiles = factor == 1 && known == end->size;
    bool may_be_cut = rounds_up && !tl_is_multiple(end->kernel, q->left, known);
    if (counts_tiles && more <= (may_be_cut ? -2 : -1) &&
        is_at_most(q->left, end->length, depth + 1))
        return true;
    return !rounds_up && factor % known == 0 &&
           ends_within(q->left, factor / known, more, end, depth + 1);
}

/* Does the largest of them end within? */
static bool all_end_within(const tl_expr *e, int64_t factor, int64_t more, const tile_end *end,
                           int depth) {
    int64_t known;
    for (int i = 0; i < e->item_count; i++) {
        bool is_none = tl_known_integer(e->items[i], &known) && known <= NUMBER_MAX &&
                       factor * known + more < end->least;
        if (!is_none && !ends_within(e->items[i], factor, more, end, depth)) return false;
    }
    return true;
}

/* Does tile number factor*e + more end within the length? What bounds a loop says so:
 * j < min(full, blocks) - 1 and full = floor(kv_len/BN), or 2*i and i < floor(full/2).
 */
static bool ends_within(const tl_expr *e, int64_t factor, int64_t more, const tile_end *end,
                        int depth) {
    int64_t known;
    if (depth > TL_HEIGHT_MAX) return false;
    if (tl_known_integer(e, &known))
        return known <= NUMBER_MAX && factor <= TILES_TOGETHER_MAX &&
               is_at_least(end->length, (factor * known + more + 1) * end->size, depth + 1);
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_LOOP) {
        const tl_statement *loop = e->symbol->statement;
        bool is_plain = loop && loop->kind == TL_FOR && !loop->loop.is_grid_walk;
        tile_end from = *end;
        if (is_plain && tl_known_integer(loop->loop.from, &known) && known >= 0 &&
            known <= NUMBER_MAX && factor * known + more > from.least)
            from.least = factor * known + more;
        return is_plain && ends_within(loop->loop.to, factor, more - factor, &from, depth + 1);
    }
    if (e->kind == TL_NAME && e->symbol && e->symbol->kind == TL_SYMBOL_CONSTANT)
        return e->symbol->value && ends_within(e->symbol->value, factor, more, end, depth + 1);
    bool is_sum = e->kind == TL_BINARY && (e->operator== TL_PLUS || e->operator== TL_MINUS);
    if (is_sum && tl_known_integer(e->right, &known) && known >= 0 && known <= NUMBER_MAX) {
        int64_t gain = e->operator== TL_PLUS ? factor * known : - factor * known;
        return ends_within(e->left, factor, more + gain, end, depth + 1);
    }
    if (e->kind == TL_BINARY && e->operator== TL_TIMES && tl_known_integer(e->left, &known))
        return known > 0 && known <= TILES_TOGETHER_MAX / factor &&
               ends_within(e->right, factor * known, more, end, depth + 1);
    if (e->kind != TL_CALL) return false;
    if (e->function == TL_FUNCTION_MAX) return all_end_within(e, factor, more, end, depth + 1);
    for (int i = 0; e->function == TL_FUNCTION_MIN && i < e->item_count; i++)
        if (ends_within(e->items[i], factor, more, end, depth + 1)) return true;
    return quotient_ends_within(e, factor, more, end, depth);
}

/* What an expression is in the tile that the end is one of: the next tile's names are in
 * `next(...)`; NULL: it mixes tiles.
 */
static const tl_expr *in_tile(const tl_expr *e, bool is_next) {
    int64_t known;
    if (!is_next || tl_known_integer(e, &known)) return e;
    return e->kind == TL_CALL && e->function == TL_FUNCTION_NEXT ? e->items[0] : NULL;
}

/* Does the condition, where it holds, say so of tile number 'at'? */
static bool condition_ends(const tl_expr *condition, const tl_expr *at, const tile_end *end,
                           bool is_next, int depth) {
    if (condition->kind != TL_BINARY || depth > TL_HEIGHT_MAX) return false;
    if (condition->operator== TL_AND)
        return condition_ends(condition->left, at, end, is_next, depth + 1) ||
               condition_ends(condition->right, at, end, is_next, depth + 1);
    bool is_less = condition->operator== TL_LESS || condition->operator== TL_LESS_EQUAL;
    const tl_expr *limit = is_less ? in_tile(condition->right, is_next) : NULL;
    return limit && tl_expr_equal(condition->left, at) &&
           ends_within(limit, 1, condition->operator== TL_LESS ? -1 : 0, end, 0);
}

/* Do the conditions around the statement? `if j < full`. */
static bool conditions_end(const tl_statement *s, const tl_expr *at, const tile_end *end,
                           bool is_next) {
    for (const tl_statement *up = s->parent; up; up = up->parent)
        if (up->kind == TL_IF && condition_ends(up->branch.condition, at, end, is_next, 0))
            return true;
    return false;
}

/* Does the grid count so many tiles of that size as the length has, all of them whole? */
static bool walks_whole(const tl_kernel *kernel, const tl_expr *e, int64_t size,
                        const tl_expr *length) {
    int64_t known;
    if (e->kind != TL_NAME || !e->symbol || e->symbol->kind != TL_SYMBOL_GRID) return false;
    const tl_expr *q = tl_walk_of(e->symbol)->extent;
    return q->kind == TL_BINARY && q->operator== TL_OVER && tl_known_integer(q->right, &known) &&
           known == size && tl_expr_equal(q->left, length) && tl_is_multiple(kernel, length, size);
}

bool tl_is_whole(const tl_kernel *kernel, const tl_statement *s, const tl_expr *at, int64_t size,
                 const tl_expr *length) {
    tile_end end = {.kernel = kernel, .size = size, .length = length};
    bool is_next = s->kind == TL_COPY && tl_copy_is_of_next(s);
    const tl_expr *own = in_tile(at, is_next);
    if (conditions_end(s, at, &end, is_next)) return true;
    return own && (ends_within(own, 1, 0, &end, 0) || walks_whole(kernel, own, size, length));
}
