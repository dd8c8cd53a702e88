/* How far a condition is from being true.
 *
 * The plain distance is the difference of the two sides. Where a min or max is between it and
 * what can be changed, changing any one value may have no effect; the deep distance looks into the
 * expressions, and adds up what each argument of a min lacks.
 */
#include "check/extents_search.h"

#include <math.h>

enum { NODES_MAX = 60 };

typedef struct looker {
    extents_values *values;
    const tl_expr *from; /* where the loop around it begins: no way, for all of the loop follows */
    int nodes;
} looker;

/* How far e, which is 'value', is from being at least 'bound', or at most; INFINITY where no value
 * of it can be chosen.
 */
static double lack_of(looker *l, const tl_expr *e, int64_t value, double bound, bool at_least);

static double lack(looker *l, const tl_expr *e, double bound, bool at_least) {
    int64_t value;
    return extents_integer(l->values, e, &value) ? lack_of(l, e, value, bound, at_least) : 0;
}

static bool is_number(const tl_expr *e) {
    int64_t value;
    if (e->kind == TL_NAME && e->symbol) return e->symbol->is_known && e->symbol->is_integer;
    if (e->kind == TL_BINARY && e->operator<TL_LESS)
        return is_number(e->left) && is_number(e->right);
    return tl_known_integer(e, &value);
}

static bool begins(const looker *l, const tl_expr *e) {
    const tl_expr *from = l->from;
    bool is_most = from->kind == TL_CALL && from->function == TL_FUNCTION_MAX;
    for (int i = 0; is_most && i < from->item_count; i++) {
        if (tl_expr_equal(e, from->items[i])) return true;
    }
    return tl_expr_equal(e, from);
}

static double lack_of_choice(looker *l, const tl_expr *e, double bound, bool at_least) {
    bool all = (e->function == TL_FUNCTION_MIN) == at_least;
    double result = all ? 0 : INFINITY;
    for (int i = 0; i < e->item_count; i++) {
        double one = lack(l, e->items[i], bound, at_least);
        result = all ? result + one : fmin(result, one);
    }
    return result;
}

static double lack_of_binary(looker *l, const tl_expr *e, double bound, bool at_least) {
    int64_t left, right;
    if (!extents_integer(l->values, e->left, &left) ||
        !extents_integer(l->values, e->right, &right))
        return 0;
    double a = (double)left, b = (double)right;
    switch (e->operator) {
    case TL_PLUS:
        return fmin(lack_of(l, e->left, left, bound - b, at_least),
                    lack_of(l, e->right, right, bound - a, at_least));
    case TL_MINUS:
        return fmin(lack_of(l, e->left, left, bound + b, at_least),
                    lack_of(l, e->right, right, a - bound, !at_least));
    case TL_TIMES:
        return fmin(b > 0 ? lack_of(l, e->left, left, bound / b, at_least) : INFINITY,
                    a > 0 ? lack_of(l, e->right, right, bound / a, at_least) : INFINITY);
    case TL_OVER: return b > 0 ? lack_of(l, e->left, left, bound * b, at_least) : INFINITY;
    default: return INFINITY;
    }
}

/* A loop's index can be less where the loop can begin earlier, in its first iteration. */
static double lack_of_index(looker *l, const tl_symbol *s, int64_t now, double bound,
                            bool at_least) {
    bool is_loop = s->statement && s->statement->kind == TL_FOR && !s->statement->loop.is_grid_walk;
    int64_t first;
    if (at_least || !is_loop) return INFINITY;
    const tl_for *loop = &s->statement->loop;
    bool is_first = extents_integer(l->values, loop->from, &first) && now == first;
    return is_first ? lack_of(l, loop->from, first, bound, false) : INFINITY;
}

static double lack_of(looker *l, const tl_expr *e, int64_t value, double bound, bool at_least) {
    double plain = at_least ? bound - (double)value : (double)value - bound;
    if (plain <= 0) return 0;
    if (is_number(e) || (at_least && begins(l, e))) return INFINITY;
    if (l->nodes++ >= NODES_MAX) return plain;
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    if (s && s->kind == TL_SYMBOL_LOOP) return lack_of_index(l, s, value, bound, at_least);
    bool is_let = s && s->kind == TL_SYMBOL_CONSTANT && s->value;
    if (is_let) return lack_of(l, s->value, value, bound, at_least);
    if (e->kind == TL_BINARY) return lack_of_binary(l, e, bound, at_least);
    if (e->kind != TL_CALL) return plain;
    bool chooses = e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX;
    bool rounds = e->function == TL_FUNCTION_CEIL || e->function == TL_FUNCTION_FLOOR;
    if (chooses) return lack_of_choice(l, e, bound, at_least);
    return rounds && e->item_count == 1 ? lack(l, e->items[0], bound, at_least) : plain;
}

/* left - right is at least 'least'. */
static double lack_of_difference(extents_values *v, const tl_expr *left, const tl_expr *right,
                                 double least, const tl_expr *from) {
    looker l = {.values = v, .from = from};
    int64_t a, b;
    if (!extents_integer(v, left, &a) || !extents_integer(v, right, &b)) return 1;
    double deep = fmin(lack_of(&l, left, a, (double)b + least, true),
                       lack_of(&l, right, b, (double)a - least, false));
    double plain = (double)b + least - (double)a;
    return isinf(deep) ? plain : fmax(deep, 1); /* rounding may hide what is missing */
}

double search_lack(extents_values *v, const tl_for *loop, int count) {
    return lack_of_difference(v, loop->to, loop->from, count, loop->from);
}

static double distance_of_comparison(tl_operator operator, double a, double b) {
    double gap = fabs(a - b);
    switch (operator) {
    case TL_LESS: return a < b ? 0 : gap + 1;
    case TL_LESS_EQUAL: return a <= b ? 0 : gap;
    case TL_GREATER: return a > b ? 0 : gap + 1;
    case TL_GREATER_EQUAL: return a >= b ? 0 : gap;
    case TL_EQUAL: return gap;
    default: return gap > 0 ? 0 : 1;
    }
}

static double deep_distance(extents_values *v, tl_operator operator, const tl_expr * a,
                            const tl_expr *b, const tl_expr *from) {
    switch (operator) {
    case TL_LESS: return lack_of_difference(v, b, a, 1, from);
    case TL_LESS_EQUAL: return lack_of_difference(v, b, a, 0, from);
    case TL_GREATER: return lack_of_difference(v, a, b, 1, from);
    case TL_GREATER_EQUAL: return lack_of_difference(v, a, b, 0, from);
    default: return INFINITY;
    }
}

double search_distance(extents_values *v, const tl_expr *e, bool wanted, const tl_expr *deep) {
    int64_t a, b;
    if (e->kind == TL_NOT) return search_distance(v, e->left, !wanted, deep);
    if (e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR)) {
        double left = search_distance(v, e->left, wanted, deep);
        double right = search_distance(v, e->right, wanted, deep);
        bool both = (e->operator== TL_AND) == wanted;
        return both ? left + right : fmin(left, right);
    }
    bool compares = e->kind == TL_BINARY && e->operator>= TL_LESS;
    if (compares && extents_integer(v, e->left, &a) && extents_integer(v, e->right, &b)) {
        tl_operator operator= wanted ? e->operator: tl_opposite(e->operator);
        double plain = distance_of_comparison(operator,(double) a, (double)b);
        double looked = plain;
        if (deep && plain > 0) looked = deep_distance(v, operator, e->left, e->right, deep);
        return isinf(looked) ? plain : looked;
    }
    return extents_integer(v, e, &a) && (a != 0) == wanted ? 0 : 1;
}
