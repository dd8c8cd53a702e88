/* From least to most: the bounds of expressions, each name taken for itself. */
#include "check/prove.h"

enum { STATE_OPEN, STATE_BEGUN, STATE_KNOWN, DEPTH_MAX = 200 };

static const prove_span ANYTHING = {INT64_MIN, INT64_MAX}, A_TRUTH = {0, 1};

static prove_span exactly(int64_t value) {
    return (prove_span){value, value};
}

static bool is_open(int64_t bound) {
    return bound == INT64_MIN || bound == INT64_MAX;
}

/* --- arithmetic ------------------------------------------------------------------------------- */

/* An end of a sum; what is beyond all numbers stays there, as does what leaves them. */
static int64_t add(int64_t a, int64_t b, int64_t beyond) {
    int64_t sum;
    return is_open(a) || is_open(b) || __builtin_add_overflow(a, b, &sum) ? beyond : sum;
}

static int64_t opposite(int64_t bound) {
    return bound == INT64_MAX ? INT64_MIN : bound == INT64_MIN ? INT64_MAX : -bound;
}

static prove_span negative(prove_span a) {
    return (prove_span){opposite(a.most), opposite(a.least)};
}

static prove_span sum(prove_span a, prove_span b) {
    return (prove_span){add(a.least, b.least, INT64_MIN), add(a.most, b.most, INT64_MAX)};
}

static int64_t times(int64_t a, int64_t b, int64_t beyond) {
    int64_t product;
    return is_open(a) || is_open(b) || __builtin_mul_overflow(a, b, &product) ? beyond : product;
}

/* Of what is not negative; a constant may be the left one. */
static prove_span product(prove_span a, prove_span b) {
    if (a.least < 0 && a.least != a.most && b.least >= 0) return product(b, a);
    if (a.least == a.most && a.least < 0 && !is_open(a.least))
        return negative(product(exactly(-a.least), b));
    if (a.least < 0) return ANYTHING;
    if (b.least >= 0)
        return (prove_span){times(a.least, b.least, 0), times(a.most, b.most, INT64_MAX)};
    if (a.least != a.most) return ANYTHING;
    return (prove_span){times(a.least, b.least, INT64_MIN), times(a.least, b.most, INT64_MAX)};
}

static int64_t divided(int64_t a, int64_t b, bool up) {
    if (is_open(a)) return a;
    int64_t quotient = a / b, rest = a % b;
    if (rest > 0 && up) quotient++;
    if (rest < 0 && !up) quotient--;
    return quotient;
}

static prove_span quotient(tl_division division, prove_span a, prove_span b) {
    bool rounds = division == TL_DIVIDE_UP || division == TL_DIVIDE_DOWN;
    if (!rounds || b.least < 1) return ANYTHING;
    bool up = division == TL_DIVIDE_UP;
    if (b.least == b.most)
        return (prove_span){divided(a.least, b.least, up), divided(a.most, b.least, up)};
    return a.least >= 0 ? (prove_span){0, divided(a.most, b.least, up)} : ANYTHING;
}

static prove_span remainder_of(prove_span b) {
    return b.least >= 1 ? (prove_span){0, b.most == INT64_MAX ? b.most : b.most - 1} : ANYTHING;
}

static prove_span smaller(prove_span a, prove_span b) {
    return (prove_span){a.least < b.least ? a.least : b.least, a.most < b.most ? a.most : b.most};
}

static prove_span larger(prove_span a, prove_span b) {
    return (prove_span){a.least > b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

static prove_span either(prove_span a, prove_span b) {
    return (prove_span){a.least < b.least ? a.least : b.least, a.most > b.most ? a.most : b.most};
}

static prove_span truth(bool always, bool never) {
    return always ? exactly(1) : never ? exactly(0) : A_TRUTH;
}

static prove_span compared(tl_operator operator, prove_span a, prove_span b) {
    switch (operator) {
    case TL_LESS: return truth(a.most < b.least, a.least >= b.most);
    case TL_LESS_EQUAL: return truth(a.most <= b.least, a.least > b.most);
    case TL_GREATER: return compared(TL_LESS, b, a);
    case TL_GREATER_EQUAL: return compared(TL_LESS_EQUAL, b, a);
    case TL_EQUAL:
        return truth(a.least == b.most && a.most == b.least && !is_open(a.least),
                     a.most < b.least || b.most < a.least);
    default:
        return truth(a.most < b.least || b.most < a.least,
                     a.least == b.most && a.most == b.least && !is_open(a.least));
    }
}

/* --- expressions ------------------------------------------------------------------------------ */

static prove_span below(prove_span end) {
    return (prove_span){0, add(end.most, -1, INT64_MAX)};
}

static prove_span span_of_symbol(prover *p, const tl_symbol *s) {
    switch (s->kind) {
    case TL_SYMBOL_SIZE: return (prove_span){0, INT64_MAX};
    case TL_SYMBOL_GRID: return below(prove_span_of(p, tl_walk_of(s)->extent));
    case TL_SYMBOL_LOOP: {
        bool is_walk = !s->statement || s->statement->kind != TL_FOR;
        if (is_walk || s->statement->loop.is_grid_walk) return ANYTHING;
        prove_span from = prove_span_of(p, s->statement->loop.from),
                   to = prove_span_of(p, s->statement->loop.to);
        return (prove_span){from.least, add(to.most, -1, INT64_MAX)};
    }
    case TL_SYMBOL_CONSTANT: return s->value && !s->is_real ? prove_span_of(p, s->value) : ANYTHING;
    default: return ANYTHING;
    }
}

static prove_span span_of_name(prover *p, const tl_symbol *s) {
    if (!s || s->is_real) return ANYTHING;
    if (s->is_known) return s->is_integer ? exactly(s->integer) : ANYTHING;
    int slot = s->position;
    if (p->states[slot] == STATE_BEGUN) return ANYTHING;
    if (p->states[slot] == STATE_KNOWN) return p->spans[slot];
    p->states[slot] = STATE_BEGUN;
    p->spans[slot] = span_of_symbol(p, s);
    p->states[slot] = STATE_KNOWN;
    return p->spans[slot];
}

static prove_span span_of_call(prover *p, const tl_expr *e) {
    bool least = e->function == TL_FUNCTION_MIN;
    switch (e->function) {
    case TL_FUNCTION_MIN:
    case TL_FUNCTION_MAX: {
        prove_span all = e->item_count ? prove_span_of(p, e->items[0]) : ANYTHING;
        for (int i = 1; i < e->item_count; i++) {
            prove_span one = prove_span_of(p, e->items[i]);
            all = least ? smaller(all, one) : larger(all, one);
        }
        return all;
    }
    case TL_FUNCTION_SELECT:
        return e->item_count == 3
                   ? either(prove_span_of(p, e->items[1]), prove_span_of(p, e->items[2]))
                   : ANYTHING;
    case TL_FUNCTION_CEIL:
    case TL_FUNCTION_FLOOR:
    case TL_FUNCTION_NEXT: return e->item_count == 1 ? prove_span_of(p, e->items[0]) : ANYTHING;
    case TL_FUNCTION_ANY:
    case TL_FUNCTION_FIRST:
    case TL_FUNCTION_MORE: return A_TRUTH;
    default: return ANYTHING;
    }
}

static bool is_never(prove_span s) {
    return s.least == 0 && s.most == 0;
}

static bool is_always(prove_span s) {
    return s.least > 0 || s.most < 0;
}

static prove_span span_of_binary(prover *p, const tl_expr *e) {
    prove_span a = prove_span_of(p, e->left), b = prove_span_of(p, e->right);
    switch (e->operator) {
    case TL_PLUS: return sum(a, b);
    case TL_MINUS: return sum(a, negative(b));
    case TL_TIMES: return product(a, b);
    case TL_OVER: return quotient(e->division, a, b);
    case TL_MODULO: return remainder_of(b);
    case TL_AND: return truth(is_always(a) && is_always(b), is_never(a) || is_never(b));
    case TL_OR: return truth(is_always(a) || is_always(b), is_never(a) && is_never(b));
    default: return compared(e->operator, a, b);
    }
}

prove_span prove_span_of(prover *p, const tl_expr *e) {
    if (!e || p->depth >= DEPTH_MAX || tl_expr_is_real(e)) return ANYTHING;
    prove_span result = ANYTHING;
    p->depth++;
    switch (e->kind) {
    case TL_INTEGER: result = exactly(e->integer); break;
    case TL_NAME: result = span_of_name(p, e->symbol); break;
    case TL_CALL: result = span_of_call(p, e); break;
    case TL_NEGATE: result = negative(prove_span_of(p, e->left)); break;
    case TL_NOT: {
        prove_span inner = prove_span_of(p, e->left);
        result = truth(is_never(inner), is_always(inner));
        break;
    }
    case TL_BINARY: result = span_of_binary(p, e); break;
    default: break;
    }
    p->depth--;
    return result;
}

prover prove_start(arena *memory, const model *m) {
    return (prover){.model = m,
                    .spans = arena_array(memory, prove_span, m->kernel->symbol_count),
                    .states = arena_array(memory, unsigned char, m->kernel->symbol_count)};
}
