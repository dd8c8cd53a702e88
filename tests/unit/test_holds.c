/* The algebra of what elements may hold (check/holds.h), each row against doubles: whatever comes
 * of numbers of the operands' kinds is in the row, and nothing is in it that never comes.
 */
#include "check/holds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Small and large enough for functions to end in 0 and in infinity, but not for sums and products.
 */
static const double samples[] = {NAN, -INFINITY, -1e5, -300, -3,  -1,  -0.25,   -0.0,
                                 0.0, 0.25,      1,    3,    300, 1e5, INFINITY};
enum { SAMPLES = sizeof samples / sizeof *samples };

static unsigned kind_of(double x) {
    if (isnan(x)) return HOLDS_NAN;
    if (isinf(x)) return x < 0 ? HOLDS_LOW : HOLDS_HIGH;
    return x < 0 ? HOLDS_BELOW : x > 0 ? HOLDS_ABOVE : HOLDS_ZERO;
}

typedef struct operation {
    tl_operation id;
    int operands;
    double (*of)(double a, double b, double c);
} operation;

#define OF(name, expression)                                                                       \
    static double name(double a, double b, double c) {                                             \
        (void)b, (void)c;                                                                          \
        return expression;                                                                         \
    }
OF(of_add, a + b)
OF(of_subtract, a - b)
OF(of_multiply, a *b)
OF(of_divide, a / b)
OF(of_max, fmax(a, b))
OF(of_min, fmin(a, b))
OF(of_multiply_add, fma(a, b, c))
OF(of_exp, exp(a))
OF(of_exp2, exp2(a))
OF(of_log, log(a))
OF(of_log2, log2(a))
OF(of_tanh, tanh(a))
OF(of_erf, erf(a))
OF(of_erfc, erfc(a))
OF(of_sqrt, sqrt(a))
OF(of_rsqrt, 1 / fabs(sqrt(a))) /* of -0, too, plus infinity */
OF(of_reciprocal, 1 / a)
OF(of_abs, fabs(a))
OF(of_cast, a)

static const operation operations[] = {
    {TL_ADD, 2, of_add},
    {TL_SUBTRACT, 2, of_subtract},
    {TL_MULTIPLY, 2, of_multiply},
    {TL_DIVIDE, 2, of_divide},
    {TL_MAX, 2, of_max},
    {TL_MIN, 2, of_min},
    {TL_EXP, 1, of_exp},
    {TL_EXP2, 1, of_exp2},
    {TL_LOG, 1, of_log},
    {TL_LOG2, 1, of_log2},
    {TL_TANH, 1, of_tanh},
    {TL_ERF, 1, of_erf},
    {TL_ERFC, 1, of_erfc},
    {TL_SQRT, 1, of_sqrt},
    {TL_RSQRT, 1, of_rsqrt},
    {TL_RECIPROCAL, 1, of_reciprocal},
    {TL_ABS, 1, of_abs},
    {TL_CAST, 1, of_cast},
    {TL_MULTIPLY_ADD, 3, of_multiply_add},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* Every elementwise operation of the language is here. */
static void all_are_here(void **state) {
    (void)state;
    static const tl_operation named[] = {
#define OPERATION(id, spelling, operands, shape, doc) TL_##id,
#include "tl/operations.def"
    };
    for (size_t i = 0; i < sizeof named / sizeof *named; i++) {
        if (tl_operation_shape(named[i]) != TL_SHAPE_ELEMENTWISE) continue;
        bool is_here = false;
        for (int k = 0; k < OPERATIONS; k++) is_here |= operations[k].id == named[i];
        if (!is_here) fail_msg("operation %d is not tested", (int)named[i]);
    }
}

static unsigned found(const operation *o, unsigned a, unsigned b, unsigned c) {
    unsigned out = 0;
    for (int i = 0; i < SAMPLES; i++)
        for (int k = 0; k < (o->operands > 1 ? SAMPLES : 1); k++)
            for (int m = 0; m < (o->operands > 2 ? SAMPLES : 1); m++) {
                if (!(kind_of(samples[i]) & a)) continue;
                if (o->operands > 1 && !(kind_of(samples[k]) & b)) continue;
                if (o->operands > 2 && !(kind_of(samples[m]) & c)) continue;
                out |= kind_of(o->of(samples[i], samples[k], samples[m]));
            }
    return out;
}

/* Sets of kinds, not only single ones; which of a NaN and a number a maximum gives is left open. */
static void rows_are_right(void **state) {
    (void)state;
    for (int n = 0; n < OPERATIONS; n++) {
        const operation *o = &operations[n];
        unsigned most_b = o->operands > 1 ? HOLDS_ANY : 1, most_c = o->operands > 2 ? HOLDS_ANY : 1;
        unsigned step = o->operands > 2 ? 5 : 1; /* a sample of the sets */
        for (unsigned a = 1; a <= HOLDS_ANY; a += step)
            for (unsigned b = 1; b <= most_b; b += step)
                for (unsigned c = 1; c <= most_c; c += 3) {
                    holds_value e[] = {{.may = a}, {.may = b}, {.may = c}};
                    unsigned said = holds_apply(o->id, e, o->operands).may;
                    unsigned seen = found(o, a, b, c);
                    bool is_open = (o->id == TL_MAX || o->id == TL_MIN) && (a | b) & HOLDS_NAN;
                    bool right = !(seen & ~said) && (is_open || said == seen);
                    if (!right)
                        fail_msg("operation %d of %u, %u, %u: %u is said, %u comes", (int)o->id, a,
                                 b, c, said, seen);
                }
    }
}

/* Numbers that every type holds are followed exactly, and none is claimed that a type would round.
 */
static void numbers_are_right(void **state) {
    (void)state;
    static const double exact[] = {0, 1, -1, 2, -3, 0.5, 255, 0.25};
    enum { EXACT = sizeof exact / sizeof *exact };
    int followed = 0;
    for (int n = 0; n < OPERATIONS; n++)
        for (int i = 0; i < EXACT; i++)
            for (int k = 0; k < EXACT; k++) {
                const operation *o = &operations[n];
                holds_value e[] = {holds_number(exact[i]), holds_number(exact[k]), holds_number(1)};
                holds_value made = holds_apply(o->id, e, o->operands);
                double want = o->of(exact[i], exact[k], 1);
                assert_true(kind_of(want) & made.may);
                if (!made.is_number) continue;
                assert_true(made.number == want);
                followed++;
            }
    assert_true(followed > 400);
    assert_false(holds_number(0.1).is_number);
    assert_false(holds_number(257).is_number); /* bf16 has 8 bits */
    assert_false(holds_number(1e30).is_number);
    holds_value three[] = {holds_number(1), holds_number(3)};
    assert_false(holds_apply(TL_DIVIDE, three, 2).is_number);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_are_here),
                                       cmocka_unit_test(rows_are_right),
                                       cmocka_unit_test(numbers_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
