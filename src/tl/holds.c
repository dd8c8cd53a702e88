#include "tl/holds.h"

#include "tl/tl.h"

#include <math.h>
#include <string.h>

enum { KINDS = 10 };
#define MEMO_STEP (UINT64_MAX / HOLDS_MEMO_SLOTS + 1) /* of hashes with one slot */
static const unsigned signs = HOLDS_FINITE & ~HOLDS_ZERO;

/* Where ranges begin: what f16 rounds to infinity, what a product of two f16 matrices with common
 * lengths stays below, what f32 rounds to infinity.
 */
#define FAR 65520.0
#define VAST 0x1p44
#define INFINITE 0x1.ffffffp127

/* --- values ----------------------------------------------------------------------------------- */

holds_value holds_these(unsigned may) {
    if (may == HOLDS_ZERO) return holds_number(0);
    return (holds_value){.may = may ? may : HOLDS_ANY};
}

holds_value holds_given(tl_type type) {
    return holds_these(type == TL_F16 || tl_is_narrow(type) ? HOLDS_F16 : HOLDS_GIVEN);
}

static unsigned kind_of(double x) {
    double size = fabs(x);
    if (isnan(x)) return HOLDS_NAN;
    if (x == 0) return HOLDS_ZERO;
    if (size >= INFINITE) return x < 0 ? HOLDS_LOW : HOLDS_HIGH;
    if (size >= VAST) return x < 0 ? HOLDS_VAST_BELOW : HOLDS_VAST_ABOVE;
    if (size >= FAR) return x < 0 ? HOLDS_FAR_BELOW : HOLDS_FAR_ABOVE;
    return x < 0 ? HOLDS_BELOW : HOLDS_ABOVE;
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
    return (holds_value){.may = kind_of(number), .is_number = is_exact(number), .number = number};
}

bool holds_only(holds_value h, unsigned may) {
    return !(h.may & ~may);
}

bool holds_equal(holds_value a, holds_value b) {
    if (a.may != b.may || a.is_number != b.is_number) return false;
    return !a.is_number || (a.number == b.number && !signbit(a.number) == !signbit(b.number));
}

holds_value holds_either(holds_value a, holds_value b) {
    return holds_equal(a, b) ? a : holds_these(a.may | b.may);
}

holds_value holds_existing(holds_value value) {
    if (value.is_number) return value;
    if (value.may & HOLDS_GIVEN) return holds_these(value.may & HOLDS_GIVEN);
    return holds_these(value.may & HOLDS_FINITE ? value.may & HOLDS_FINITE : HOLDS_GIVEN);
}

holds_value holds_rounded(holds_value value, tl_type type) {
    const unsigned beyond[][2] = {{HOLDS_VAST_BELOW | HOLDS_FAR_BELOW, HOLDS_BELOW | HOLDS_LOW},
                                  {HOLDS_VAST_ABOVE | HOLDS_FAR_ABOVE, HOLDS_ABOVE | HOLDS_HIGH}};
    bool saturates = tl_is_narrow(type);
    if (type != TL_F16 && !saturates) return value;
    for (int i = 0; i < 2; i++) {
        if (!(value.may & beyond[i][0])) continue;
        unsigned kept = value.may & ~beyond[i][0];
        value = holds_these(kept | (beyond[i][1] & (saturates ? HOLDS_F16 : ~(unsigned)HOLDS_F16)));
    }
    return value;
}

/* --- operations ------------------------------------------------------------------------------- */

/* Numbers of each kind that are furthest apart, as far as functions care: e to the largest of f16
 * overflows, a product of two that are far does not; and so that sums stay of their kind.
 */
#define LEAST 0x1p-24
#define MOST 65504.0
#define FAR_MOST 0x1p42
#define VAST_MOST 0x1p100

/* Both are the same of a point; a zero has a sign that nobody follows. */
static const double numbers[KINDS][2] = {{(double)NAN, (double)NAN},
                                         {-(double)INFINITY, -(double)INFINITY},
                                         {-VAST_MOST, -VAST},
                                         {-FAR_MOST, -FAR},
                                         {-MOST, -LEAST},
                                         {-0.0, 0.0},
                                         {LEAST, MOST},
                                         {FAR, FAR_MOST},
                                         {VAST, VAST_MOST},
                                         {(double)INFINITY, (double)INFINITY}};

static int count_of(unsigned kind) {
    return kind & (signs | HOLDS_ZERO) ? 2 : 1;
}

/* What a result passes through on its way from the least of these to the largest. */
static unsigned between(unsigned kinds) {
    unsigned known = kinds & ~(unsigned)HOLDS_NAN, filled = known;
    for (unsigned kind = HOLDS_LOW; kind <= HOLDS_HIGH; kind *= 2)
        if (known & (kind - 1) && known & ~(2 * kind - 1)) filled |= kind;
    return filled | (kinds & HOLDS_NAN);
}

/* Of a first operand of one kind and a second that is one number. A result that rises or falls all
 * along is between those at the ends; nothing is between those of both zeros.
 */
static unsigned along(const tl_operation_facts *f, unsigned kind, double b) {
    const double *a = numbers[__builtin_ctz(kind)];
    unsigned found = kind_of(f->of(a[0], b, 0));
    if (count_of(kind) == 1) return found;
    unsigned other = kind_of(f->of(a[1], b, 0));
    return found == other || kind == HOLDS_ZERO ? found | other : between(found | other);
}

static unsigned of_kinds(const tl_operation_facts *f, unsigned a, unsigned b) {
    if (f->waves && a & signs) return f->waves;
    /* NaN is left out, by the instructions; which of both is one, nobody relies on. */
    if (f->chooses && (a | b) & HOLDS_NAN) return a | b;
    const double *x = numbers[__builtin_ctz(b)];
    unsigned found = along(f, a, x[0]);
    if (f->operands < 2 || count_of(b) == 1) return found;
    unsigned other = along(f, a, x[1]);
    return found == other || b == HOLDS_ZERO ? found | other : between(found | other);
}

/* Of all kinds that the operands may be of; an operation of one operand takes any second. */
static unsigned of_sets(holds_memo *memo, tl_operation operation, unsigned a, unsigned b) {
    const tl_operation_facts *f = tl_facts(operation);
    uint64_t question = ((uint64_t)operation << KINDS | a) << KINDS | b;
    uint64_t *slot = memo ? &memo->slots[question * 0x9E3779B97F4A7C15u / MEMO_STEP] : NULL;
    if (slot && *slot >> KINDS == question && *slot & HOLDS_ANY)
        return (unsigned)(*slot & HOLDS_ANY);
    unsigned out = 0;
    for (unsigned left = a; left; left &= left - 1)
        for (unsigned right = b; right && out != HOLDS_ANY; right &= right - 1)
            out |= of_kinds(f, left & -left, right & -right);
    if (slot) *slot = question << KINDS | out;
    return out;
}

static unsigned set_of(holds_memo *memo, tl_operation operation, const holds_value *e) {
    const tl_operation_facts *f = tl_facts(operation);
    if (f->operands < 3)
        return of_sets(memo, operation, e[0].may, f->operands > 1 ? e[1].may : HOLDS_ZERO);
    return of_sets(memo, f->then, of_sets(memo, f->first, e[0].may, e[1].may), e[2].may);
}

holds_value holds_apply(holds_memo *memo, tl_operation operation, const holds_value *operands,
                        int count) {
    const tl_operation_facts *f = tl_facts(operation);
    double x[TL_OPERANDS_MAX] = {0};
    bool are_numbers = true;
    if (!f->of || count < f->operands) return holds_these(HOLDS_ANY);
    for (int i = 0; i < f->operands; i++) {
        x[i] = operands[i].number;
        are_numbers = are_numbers && operands[i].is_number;
    }
    double result = are_numbers ? f->of(x[0], x[1], x[2]) : 0;
    if (are_numbers && f->is_exact(x[0], x[1], result) && is_exact(result))
        return holds_number(result);
    return holds_these(set_of(memo, operation, operands));
}

holds_value holds_neutral(tl_operation reduction) {
    return holds_number(tl_neutral(reduction));
}

holds_value holds_reduced(holds_memo *memo, tl_operation reduction, holds_value element) {
    if (tl_facts(reduction)->gives_place) return holds_these(HOLDS_ZERO | HOLDS_POSITIVE);
    if (tl_reduces_by_choice(reduction) || holds_only(element, HOLDS_ZERO))
        return holds_these(element.may);
    holds_value both[] = {element, element};
    return holds_these(element.may | holds_apply(memo, tl_combining(reduction), both, 2).may);
}

bool holds_leaves(tl_operation operation, int operand, holds_value value) {
    const tl_operation_facts *f = tl_facts(operation);
    bool is_there = f->neutral_side == TL_EITHER || (f->neutral_side == TL_RIGHT && operand == 1);
    holds_value neutral = holds_number(f->neutral);
    return is_there && value.may == neutral.may &&
           (!neutral.is_number || (value.is_number && value.number == neutral.number));
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
    if (!condition || condition->kind != TL_BINARY) return HOLDS_GIVEN;
    const tl_expr *a = condition->left, *b = condition->right;
    tl_operator is = condition->operator;
    if (is == TL_AND) return said(a, name) & said(b, name);
    bool turned = b->kind == TL_NAME && str_equal(b->text, name);
    const tl_expr *limit = turned ? a : b, *other = turned ? b : a;
    if (other->kind != TL_NAME || !str_equal(other->text, name)) return HOLDS_GIVEN;
    bool minus = limit->kind == TL_NEGATE;
    if (minus) limit = limit->left;
    if (limit->kind != TL_INTEGER && limit->kind != TL_NUMBER) return HOLDS_GIVEN;
    double x = limit->kind == TL_INTEGER ? (double)limit->integer : limit->number;
    if (minus) x = -x;
    bool more = is == (turned ? TL_LESS : TL_GREATER),
         least = is == (turned ? TL_LESS_EQUAL : TL_GREATER_EQUAL);
    bool less = is == (turned ? TL_GREATER : TL_LESS),
         most = is == (turned ? TL_GREATER_EQUAL : TL_LESS_EQUAL);
    if ((more && x >= 0) || (least && x > 0)) return HOLDS_POSITIVE;
    if ((less && x <= 0) || (most && x < 0)) return HOLDS_NEGATIVE;
    if ((more || least) && x == 0) return HOLDS_ZERO | HOLDS_POSITIVE;
    if ((less || most) && x == 0) return HOLDS_NEGATIVE | HOLDS_ZERO;
    if (is == TL_NOT_EQUAL && x == 0) return HOLDS_NEGATIVE | HOLDS_POSITIVE;
    return HOLDS_GIVEN;
}

static holds_value name_of(walk *w, const tl_expr *e) {
    holds_name name = w->scope->find(w->scope->context, e);
    switch (name.meaning) {
    case HOLDS_DEFINED: return value_of(w, name.value);
    case HOLDS_INPUT: {
        unsigned may = said(name.condition, e->text);
        return holds_these(may ? may : HOLDS_GIVEN);
    }
    case HOLDS_LENGTH: return holds_these(HOLDS_POSITIVE);
    case HOLDS_PLACE: w->varies = true; return holds_these(HOLDS_ZERO | HOLDS_POSITIVE);
    case HOLDS_COUNTER: return holds_these(HOLDS_ZERO | HOLDS_POSITIVE);
    default: return holds_these(HOLDS_GIVEN);
    }
}

static holds_value two(walk *w, const tl_expr *e, tl_operation operation) {
    holds_value operands[] = {value_of(w, e->left), value_of(w, e->right)};
    return holds_apply(w->scope->memo, operation, operands, 2);
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
    default: return holds_these(HOLDS_GIVEN);
    }
}

static holds_value whole(holds_value x, unsigned toward) {
    return x.may & toward ? holds_these(x.may | HOLDS_ZERO) : holds_these(x.may);
}

static holds_value call(walk *w, const tl_expr *e) {
    holds_value x = value_of(w, e->items[e->function == TL_FUNCTION_SELECT ? 1 : 0]);
    switch (e->function) {
    case TL_FUNCTION_MIN:
    case TL_FUNCTION_MAX:
        for (int i = 1; i < e->item_count; i++) {
            holds_value operands[] = {x, value_of(w, e->items[i])};
            x = holds_apply(w->scope->memo, tl_function_operation(e->function), operands, 2);
        }
        return x;
    case TL_FUNCTION_CEIL: return whole(x, HOLDS_BELOW);
    case TL_FUNCTION_FLOOR: return whole(x, HOLDS_ABOVE);
    case TL_FUNCTION_SELECT:
        w->varies = true; /* past an end a place may choose what it chooses nowhere else */
        return holds_either(x, value_of(w, e->items[2]));
    case TL_FUNCTION_NEXT: return x;
    default: break;
    }
    tl_operation operation = tl_function_operation(e->function);
    return operation == TL_OPERATION_UNKNOWN ? holds_these(HOLDS_ZERO | HOLDS_POSITIVE)
                                             : holds_apply(w->scope->memo, operation, &x, 1);
}

static holds_value value_of(walk *w, const tl_expr *e) {
    if (!e || w->depth == DEPTH_MAX || ++w->steps > STEPS_MAX) return holds_these(HOLDS_GIVEN);
    holds_value out = holds_these(HOLDS_GIVEN);
    w->depth++;
    switch (e->kind) {
    case TL_INTEGER: out = holds_number((double)e->integer); break;
    case TL_NUMBER: out = holds_number(e->number); break;
    case TL_NEGATE: {
        holds_value operands[] = {holds_number(0), value_of(w, e->left)};
        out = operands[1].is_number ? holds_number(-operands[1].number)
                                    : holds_apply(w->scope->memo, TL_SUBTRACT, operands, 2);
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
