/* Proofs by bounds: sums of names with factors, in which equal names cancel before the rest is
 * bounded. A loop's index is between its bounds, and max and min are each of their arguments in
 * turn.
 */
#include "check/prove.h"

#include "tl/linear.h"
#include "tl/tl.h"

enum { DEPTH_MAX = 60, BRANCHES_MAX = 400 };

static void add_expr(tl_linear *sum, const tl_expr *e, int64_t times) {
    tl_linear one = tl_linear_of(&(tl_linear_scope){.folds = true}, e);
    tl_linear_add(sum, &one, times);
}

/* --- the most that a sum can be --------------------------------------------------------------- */

static const tl_for *loop_of(const tl_expr *e) {
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    const tl_statement *t = s && s->kind == TL_SYMBOL_LOOP ? s->statement : NULL;
    return t && t->kind == TL_FOR && !t->loop.is_grid_walk ? &t->loop : NULL;
}

static bool is_let(const tl_expr *e) {
    const tl_symbol *s = e->kind == TL_NAME ? e->symbol : NULL;
    return s && s->kind == TL_SYMBOL_CONSTANT && !s->is_known && !s->is_real && s->value;
}

static bool is_choice(const tl_expr *e) {
    return e->kind == TL_CALL && e->item_count > 0 &&
           (e->function == TL_FUNCTION_MIN || e->function == TL_FUNCTION_MAX);
}

/* Of a choice whose every argument may be what counts; of the others the best argument is enough.
 */
static bool takes_most(const tl_linear_term *t) {
    return (t->atom->function == TL_FUNCTION_MAX) == (t->factor > 0);
}

/* Which term to look into next: loops first, then what is defined last, for it is made of what was
 * defined before, which then cancels; -1: none has anything in it. A choice of which every argument
 * counts comes before, and one of which the best is enough comes last: another may be best for
 * each.
 */
static int next_term(const tl_linear *sum) {
    int best = -1;
    int64_t best_rank = -1;
    for (int i = 0; i < sum->count; i++) {
        const tl_expr *e = sum->terms[i].atom;
        int64_t rank = loop_of(e)     ? INT64_MAX
                       : is_choice(e) ? (takes_most(&sum->terms[i]) ? INT64_MAX - 1 : 0)
                       : is_let(e)    ? (int64_t)e->symbol->value->range.begin
                                      : -1;
        if (rank > best_rank) best = i, best_rank = rank;
    }
    return best;
}

static int64_t most_of(prover *p, const tl_linear *sum, int depth);

/* Every argument of the max or min in turn. */
static int64_t most_of_choice(prover *p, const tl_linear *rest, const tl_linear_term *t,
                              int depth) {
    bool is_any = takes_most(t);
    int64_t most = is_any ? INT64_MIN : INT64_MAX;
    for (int i = 0; i < t->atom->item_count; i++) {
        tl_linear one = *rest;
        add_expr(&one, t->atom->items[i], t->factor);
        int64_t value = most_of(p, &one, depth);
        if (is_any ? value > most : value < most) most = value;
    }
    return most;
}

static int64_t most_by_spans(prover *p, const tl_linear *sum) {
    int64_t most = sum->constant;
    for (int i = 0; i < sum->count; i++) {
        const tl_linear_term *t = &sum->terms[i];
        prove_span s = prove_span_of(p, t->atom);
        int64_t end = t->factor > 0 ? s.most : s.least, part;
        if (end == INT64_MIN || end == INT64_MAX) return INT64_MAX;
        if (__builtin_mul_overflow(end, t->factor, &part)) return INT64_MAX;
        if (__builtin_add_overflow(most, part, &most)) return INT64_MAX;
    }
    return most;
}

/* A rounded quotient by a constant: of what, by what, and which way. */
typedef struct fraction {
    const tl_expr *of;
    int64_t by;
    bool is_up;
} fraction;

static bool is_fraction(const tl_expr *e, fraction *out) {
    bool rounds = e->kind == TL_CALL && e->item_count == 1 &&
                  (e->function == TL_FUNCTION_CEIL || e->function == TL_FUNCTION_FLOOR);
    if (rounds) e = e->items[0];
    if (e->kind != TL_BINARY || e->operator!= TL_OVER) return false;
    if (e->division != TL_DIVIDE_UP && e->division != TL_DIVIDE_DOWN) return false;
    *out = (fraction){.of = e->left, .is_up = e->division == TL_DIVIDE_UP};
    return tl_known_integer(e->right, &out->by) && out->by >= 1 && out->by <= INT32_MAX;
}

/* a/c - b/c is near (a - b)/c: each of the two is less than 1 off, one way. */
static int64_t most_of_fractions(prover *p, const fraction *a, const fraction *b, int depth) {
    tl_linear sum = {.constant = (a->is_up ? a->by - 1 : 0) + (b->is_up ? 0 : b->by - 1)};
    add_expr(&sum, a->of, 1);
    add_expr(&sum, b->of, -1);
    int64_t most = most_of(p, &sum, depth);
    if (most == INT64_MAX || most == INT64_MIN) return most;
    return most / a->by - (most % a->by < 0);
}

/* Takes one of each of two quotients with the same divisor and opposite signs out of the sum. */
static int64_t most_by_fractions(prover *p, const tl_linear *sum, int depth) {
    for (int i = 0; i < sum->count; i++) {
        for (int k = 0; k < sum->count; k++) {
            fraction a, b;
            bool opposed = sum->terms[i].factor > 0 && sum->terms[k].factor < 0;
            if (!opposed || !is_fraction(sum->terms[i].atom, &a)) continue;
            if (!is_fraction(sum->terms[k].atom, &b) || a.by != b.by) continue;
            tl_linear rest = *sum;
            tl_linear_add_atom(&rest, sum->terms[i].atom, -1);
            tl_linear_add_atom(&rest, sum->terms[k].atom, 1);
            int64_t most = most_of_fractions(p, &a, &b, depth + 1), other, whole;
            if (most == INT64_MAX) return most;
            other = most_of(p, &rest, depth + 1);
            if (other == INT64_MAX || __builtin_add_overflow(most, other, &whole)) return INT64_MAX;
            return whole;
        }
    }
    return INT64_MAX;
}

/* INT64_MAX: not known. */
static int64_t most_of(prover *p, const tl_linear *sum, int depth) {
    if (sum->is_broken || depth >= DEPTH_MAX || p->branches >= BRANCHES_MAX) return INT64_MAX;
    p->branches++;
    int at = next_term(sum);
    if (at < 0) {
        int64_t most = most_by_spans(p, sum), other = most_by_fractions(p, sum, depth);
        return other < most ? other : most;
    }
    tl_linear rest = *sum;
    tl_linear_term t = rest.terms[at];
    tl_linear_drop(&rest, at);
    if (is_choice(t.atom)) return most_of_choice(p, &rest, &t, depth + 1);
    const tl_for *loop = loop_of(t.atom);
    if (loop) {
        add_expr(&rest, t.factor > 0 ? loop->to : loop->from, t.factor);
        if (t.factor > 0) tl_linear_add_constant(&rest, -1, t.factor);
    } else {
        add_expr(&rest, t.atom->symbol->value, t.factor);
    }
    return most_of(p, &rest, depth + 1);
}

/* The most that a - b can be. */
static int64_t most_difference(prover *p, const tl_expr *a, const tl_expr *b) {
    tl_linear sum = {.count = 0};
    if (tl_expr_is_real(a) || tl_expr_is_real(b)) return INT64_MAX;
    add_expr(&sum, a, 1);
    add_expr(&sum, b, -1);
    p->branches = 0;
    return most_of(p, &sum, 0);
}

/* --- conditions ------------------------------------------------------------------------------- */

static bool fails(prover *p, const tl_expr *e, bool wanted);

static bool comparison_fails(prover *p, tl_operator operator, const tl_expr * a, const tl_expr *b) {
    switch (operator) {
    case TL_LESS: return most_difference(p, b, a) <= 0;
    case TL_LESS_EQUAL: return most_difference(p, b, a) < 0;
    case TL_GREATER: return most_difference(p, a, b) <= 0;
    case TL_GREATER_EQUAL: return most_difference(p, a, b) < 0;
    case TL_EQUAL: return most_difference(p, a, b) < 0 || most_difference(p, b, a) < 0;
    case TL_NOT_EQUAL: return most_difference(p, a, b) <= 0 && most_difference(p, b, a) <= 0;
    default: return false;
    }
}

/* Is the condition never what is wanted? */
static bool fails(prover *p, const tl_expr *e, bool wanted) {
    if (e->kind == TL_NOT) return fails(p, e->left, !wanted);
    if (e->kind == TL_BINARY && (e->operator== TL_AND || e->operator== TL_OR)) {
        bool left = fails(p, e->left, wanted), right = fails(p, e->right, wanted);
        bool needs_both = (e->operator== TL_AND) == wanted;
        return needs_both ? left || right : left && right;
    }
    if (e->kind == TL_BINARY && e->operator>= TL_LESS) {
        tl_operator operator= wanted ? e->operator: tl_opposite(e->operator);
        return comparison_fails(p, operator, e->left, e->right);
    }
    prove_span s = prove_span_of(p, e);
    return wanted ? s.least == 0 && s.most == 0 : s.least > 0 || s.most < 0;
}

bool prove_never(prover *p, const tl_expr *condition) {
    return fails(p, condition, true);
}

bool prove_at_most(prover *p, const tl_for *loop, int64_t count) {
    return most_difference(p, loop->to, loop->from) <= count;
}
