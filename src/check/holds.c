#include "check/holds.h"

#include "tl/tl.h"

#include <math.h>
#include <string.h>

enum { ATOMS = 6 };
static const unsigned signs = HOLDS_BELOW | HOLDS_ABOVE;

/* --- values ----------------------------------------------------------------------------------- */

holds_value holds_these(unsigned may) {
    if (may == HOLDS_ZERO) return holds_number(0);
    return (holds_value){.may = may ? may : HOLDS_ANY};
}

static unsigned atom_of(double x) {
    if (isnan(x)) return HOLDS_NAN;
    if (isinf(x)) return x < 0 ? HOLDS_LOW : HOLDS_HIGH;
    return x < 0 ? HOLDS_BELOW : x > 0 ? HOLDS_ABOVE : HOLDS_ZERO;
}

/* Do f16 and bf16 hold it exactly? Then a chain of statements does as its numbers do. */
static bool is_exact(double x) {
    float narrow = (float)x;
    unsigned bits;
    memcpy(&bits, &narrow, sizeof bits);
    double size = fabs(x);
    return x == 0 || ((double)narrow == x && !(bits & 0xffffu) && size >= 0x1p-14 && size <= 32768);
}

holds_value holds_number(double number) {
    return (holds_value){.may = atom_of(number), .is_number = is_exact(number), .number = number};
}

bool holds_only(holds_value h, unsigned may) {
    return !(h.may & ~may);
}

bool holds_equal(holds_value a, holds_value b) {
    return a.may == b.may && a.is_number == b.is_number && (!a.is_number || a.number == b.number);
}

holds_value holds_either(holds_value a, holds_value b) {
    return holds_equal(a, b) ? a : holds_these(a.may | b.may);
}

holds_value holds_existing(holds_value value) {
    return value.is_number
               ? value
               : holds_these(value.may & HOLDS_FINITE ? value.may & HOLDS_FINITE : HOLDS_FINITE);
}

/* --- operations ------------------------------------------------------------------------------- */

static const struct function {
    tl_operation operation;
    unsigned results[ATOMS]; /* in the order of their bits */
} functions[] = {
#define HOLDS_FUNCTION(operation, ...) {TL_##operation, {__VA_ARGS__}},
#include "check/holds.def"
};

static unsigned negated(unsigned may) {
    static const unsigned pairs[][2] = {{HOLDS_LOW, HOLDS_HIGH}, {HOLDS_BELOW, HOLDS_ABOVE}};
    unsigned out = may & (HOLDS_NAN | HOLDS_ZERO);
    for (int i = 0; i < 2; i++) {
        if (may & pairs[i][0]) out |= pairs[i][1];
        if (may & pairs[i][1]) out |= pairs[i][0];
    }
    return out;
}

static const unsigned infinite = HOLDS_LOW | HOLDS_HIGH;

/* Of one atom each. */
static unsigned add(unsigned a, unsigned b) {
    if ((a | b) & HOLDS_NAN) return HOLDS_NAN;
    if (a & infinite) return b & infinite && a != b ? HOLDS_NAN : a;
    if (b & infinite) return b;
    if (a == HOLDS_ZERO) return b;
    return b == HOLDS_ZERO || a == b ? a : HOLDS_FINITE;
}

static bool is_negative(unsigned a) {
    return a & (HOLDS_LOW | HOLDS_BELOW);
}

static unsigned multiply(unsigned a, unsigned b) {
    if ((a | b) & HOLDS_NAN) return HOLDS_NAN;
    bool is_infinite = (a | b) & infinite;
    if ((a | b) & HOLDS_ZERO) return is_infinite ? HOLDS_NAN : HOLDS_ZERO;
    bool is_below = is_negative(a) != is_negative(b);
    if (is_infinite) return is_below ? HOLDS_LOW : HOLDS_HIGH;
    return is_below ? HOLDS_BELOW : HOLDS_ABOVE;
}

static unsigned divide(unsigned a, unsigned b) {
    if ((a | b) & HOLDS_NAN) return HOLDS_NAN;
    if (b & infinite) return a & infinite ? HOLDS_NAN : HOLDS_ZERO;
    if (b == HOLDS_ZERO) return a == HOLDS_ZERO ? HOLDS_NAN : infinite;
    return multiply(a, b);
}

/* NaN is left out, by the instructions; which of both is one, nobody relies on. */
static unsigned larger(unsigned a, unsigned b) {
    if ((a | b) & HOLDS_NAN) return a | b;
    return a > b ? a : b; /* bits rise with the numbers */
}

static unsigned smaller(unsigned a, unsigned b) {
    if ((a | b) & HOLDS_NAN) return a | b;
    return a < b ? a : b;
}

static unsigned combine(unsigned (*of)(unsigned, unsigned), unsigned a, unsigned b) {
    unsigned out = 0;
    for (unsigned i = 1; i <= HOLDS_HIGH; i *= 2)
        for (unsigned k = 1; k <= HOLDS_HIGH; k *= 2)
            if (a & i && b & k) out |= of(i, k);
    return out;
}

static unsigned function_of(tl_operation operation, unsigned a) {
    unsigned out = 0;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        for (int atom = 0; functions[i].operation == operation && atom < ATOMS; atom++)
            if (a >> atom & 1) out |= functions[i].results[atom];
    return out ? out : HOLDS_ANY;
}

static unsigned set_of(tl_operation operation, const holds_value *e) {
    switch (operation) {
    case TL_ADD: return combine(add, e[0].may, e[1].may);
    case TL_SUBTRACT: return combine(add, e[0].may, negated(e[1].may));
    case TL_MULTIPLY: return combine(multiply, e[0].may, e[1].may);
    case TL_DIVIDE: return combine(divide, e[0].may, e[1].may);
    case TL_MAX: return combine(larger, e[0].may, e[1].may);
    case TL_MIN: return combine(smaller, e[0].may, e[1].may);
    case TL_MULTIPLY_ADD: return combine(add, combine(multiply, e[0].may, e[1].may), e[2].may);
    default: return function_of(operation, e[0].may);
    }
}

/* Those that are exact where the result is; false for the others. */
static bool number_of(tl_operation operation, const holds_value *e, double *out) {
    double a = e[0].number, b = e[1].number;
    switch (operation) {
    case TL_ADD: *out = a + b; return true;
    case TL_SUBTRACT: *out = a - b; return true;
    case TL_MULTIPLY: *out = a * b; return true;
    case TL_DIVIDE: *out = a / b; return b != 0 && floor(*out) == *out; /* else integers round */
    case TL_MAX: *out = fmax(a, b); return true;
    case TL_MIN: *out = fmin(a, b); return true;
    case TL_MULTIPLY_ADD: *out = a * b + e[2].number; return true;
    case TL_CAST: *out = a; return true;
    case TL_ABS: *out = fabs(a); return true;
    case TL_RECIPROCAL: *out = 1 / a; return fabs(a) == 1;
    case TL_EXP:
    case TL_EXP2: *out = 1; return a == 0;
    default: return false;
    }
}

holds_value holds_apply(tl_operation operation, const holds_value *operands, int count) {
    holds_value e[TL_OPERANDS_MAX] = {{0}};
    bool are_numbers = count > 0;
    double number;
    for (int i = 0; i < TL_OPERANDS_MAX; i++) {
        e[i] = i < count ? operands[i] : holds_number(0);
        are_numbers = are_numbers && e[i].is_number;
    }
    if (are_numbers && number_of(operation, e, &number) && is_exact(number))
        return holds_number(number);
    return holds_these(set_of(operation, e));
}

holds_value holds_sum(holds_value term) {
    if (holds_only(term, HOLDS_ZERO)) return term;
    return holds_these(term.may | combine(add, term.may, term.may));
}

/* --- scalar expressions ----------------------------------------------------------------------- */

enum { DEPTH_MAX = 64, STEPS_MAX = 1000 };

typedef struct walk {
    const holds_scope *scope;
    int depth, steps; /* lets that mention lets twice make an expression of any size */
    bool varies; /* with the place on an axis: past its end it may be what it is nowhere else */
} walk;

static holds_value value_of(walk *w, const tl_expr *e);

/* What the condition says of a name, compared with a number. */
static unsigned said(const tl_expr *condition, str name) {
    if (!condition || condition->kind != TL_BINARY) return HOLDS_FINITE;
    const tl_expr *a = condition->left, *b = condition->right;
    tl_operator is = condition->operator;
    if (is == TL_AND) return said(a, name) & said(b, name);
    bool turned = b->kind == TL_NAME && str_equal(b->text, name);
    const tl_expr *limit = turned ? a : b, *other = turned ? b : a;
    if (other->kind != TL_NAME || !str_equal(other->text, name)) return HOLDS_FINITE;
    bool minus = limit->kind == TL_NEGATE;
    if (minus) limit = limit->left;
    if (limit->kind != TL_INTEGER && limit->kind != TL_NUMBER) return HOLDS_FINITE;
    double x = limit->kind == TL_INTEGER ? (double)limit->integer : limit->number;
    if (minus) x = -x;
    bool more = is == (turned ? TL_LESS : TL_GREATER),
         least = is == (turned ? TL_LESS_EQUAL : TL_GREATER_EQUAL);
    bool less = is == (turned ? TL_GREATER : TL_LESS),
         most = is == (turned ? TL_GREATER_EQUAL : TL_LESS_EQUAL);
    if ((more && x >= 0) || (least && x > 0)) return HOLDS_ABOVE;
    if ((less && x <= 0) || (most && x < 0)) return HOLDS_BELOW;
    if ((more || least) && x == 0) return HOLDS_ZERO | HOLDS_ABOVE;
    if ((less || most) && x == 0) return HOLDS_BELOW | HOLDS_ZERO;
    if (is == TL_NOT_EQUAL && x == 0) return signs;
    return HOLDS_FINITE;
}

static holds_value name_of(walk *w, const tl_expr *e) {
    holds_name name = w->scope->find(w->scope->context, e);
    switch (name.meaning) {
    case HOLDS_DEFINED: return value_of(w, name.value);
    case HOLDS_INPUT: {
        unsigned may = said(name.condition, e->text);
        return holds_these(may ? may : HOLDS_FINITE);
    }
    case HOLDS_LENGTH: return holds_these(HOLDS_ABOVE);
    case HOLDS_PLACE: w->varies = true; return holds_these(HOLDS_ZERO | HOLDS_ABOVE);
    case HOLDS_COUNTER: return holds_these(HOLDS_ZERO | HOLDS_ABOVE);
    default: return holds_these(HOLDS_FINITE);
    }
}

static holds_value two(walk *w, const tl_expr *e, tl_operation operation) {
    holds_value operands[] = {value_of(w, e->left), value_of(w, e->right)};
    return holds_apply(operation, operands, 2);
}

static holds_value binary(walk *w, const tl_expr *e) {
    switch (e->operator) {
    case TL_PLUS: return two(w, e, TL_ADD);
    case TL_MINUS: return two(w, e, TL_SUBTRACT);
    case TL_TIMES: return two(w, e, TL_MULTIPLY);
    case TL_OVER: {
        /* Integers round: down to 0 where an index takes part. */
        holds_value quotient = two(w, e, TL_DIVIDE);
        return w->varies ? holds_these(quotient.may | HOLDS_ZERO) : quotient;
    }
    default: return holds_these(HOLDS_FINITE);
    }
}

static holds_value rounded(holds_value x, unsigned toward) {
    return x.may & toward ? holds_these(x.may | HOLDS_ZERO) : holds_these(x.may);
}

static holds_value call(walk *w, const tl_expr *e) {
    holds_value x = value_of(w, e->items[e->function == TL_FUNCTION_SELECT ? 1 : 0]);
    switch (e->function) {
    case TL_FUNCTION_MIN:
    case TL_FUNCTION_MAX:
        for (int i = 1; i < e->item_count; i++) {
            holds_value operands[] = {x, value_of(w, e->items[i])};
            x = holds_apply(e->function == TL_FUNCTION_MAX ? TL_MAX : TL_MIN, operands, 2);
        }
        return x;
    case TL_FUNCTION_CEIL: return rounded(x, HOLDS_BELOW);
    case TL_FUNCTION_FLOOR: return rounded(x, HOLDS_ABOVE);
    case TL_FUNCTION_ABS: return holds_apply(TL_ABS, &x, 1);
    case TL_FUNCTION_EXP: return holds_apply(TL_EXP, &x, 1);
    case TL_FUNCTION_EXP2: return holds_apply(TL_EXP2, &x, 1);
    case TL_FUNCTION_LOG: return holds_apply(TL_LOG, &x, 1);
    case TL_FUNCTION_LOG2: return holds_apply(TL_LOG2, &x, 1);
    case TL_FUNCTION_SELECT: return holds_either(x, value_of(w, e->items[2]));
    case TL_FUNCTION_NEXT: return x;
    default: return holds_these(HOLDS_ZERO | HOLDS_ABOVE);
    }
}

static holds_value value_of(walk *w, const tl_expr *e) {
    if (!e || w->depth == DEPTH_MAX || ++w->steps > STEPS_MAX) return holds_these(HOLDS_FINITE);
    holds_value out = holds_these(HOLDS_FINITE);
    w->depth++;
    switch (e->kind) {
    case TL_INTEGER: out = holds_number((double)e->integer); break;
    case TL_NUMBER: out = holds_number(e->number); break;
    case TL_NEGATE: {
        holds_value operands[] = {holds_number(0), value_of(w, e->left)};
        out = operands[1].is_number ? holds_number(-operands[1].number)
                                    : holds_apply(TL_SUBTRACT, operands, 2);
        break;
    }
    case TL_NAME:
    case TL_ELEMENT: out = name_of(w, e); break;
    case TL_BINARY: out = binary(w, e); break;
    case TL_CALL: out = call(w, e); break;
    default: break;
    }
    w->depth--;
    return out;
}

/* What is the same everywhere is finite, or nothing that exists is. A literal infinity stays. */
holds_value holds_expression(const holds_scope *scope, const tl_expr *e) {
    walk w = {.scope = scope};
    holds_value out = value_of(&w, e);
    return w.varies || !(out.may & HOLDS_FINITE) ? out : holds_existing(out);
}
