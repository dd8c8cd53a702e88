/* The table of operations (tl/operations.def), each row against doubles, and the algebra of what
 * elements may hold (tl/holds.h): whatever comes of numbers of the operands' kinds is in it, and
 * nothing that never comes.
 */
#include "base/convert.h"
#include "tl/holds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Small and large enough for functions to end in 0 and in infinity, and for products to leave the
 * range of their factors; but for sums to stay in it.
 */
static const double samples[] = {NAN,    -INFINITY, -0x1p100, -0x1p44, -0x1p42, -1e5,     -65520,
                                 -65504, -300,      -3,       -1,      -0.25,   -0x1p-24, -0.0,
                                 0.0,    0x1p-24,   0.25,     1,       3,       300,      65504,
                                 65520,  1e5,       0x1p42,   0x1p44,  0x1p100, INFINITY};
enum { SAMPLES = sizeof samples / sizeof *samples };

static unsigned kind_of(double x) {
    double size = fabs(x);
    if (isnan(x)) return HOLDS_NAN;
    if (x == 0) return HOLDS_ZERO;
    if (isinf((float)x)) return x < 0 ? HOLDS_LOW : HOLDS_HIGH;
    if (size >= 0x1p44) return x < 0 ? HOLDS_VAST_BELOW : HOLDS_VAST_ABOVE;
    if (size >= 65520) return x < 0 ? HOLDS_FAR_BELOW : HOLDS_FAR_ABOVE;
    return x < 0 ? HOLDS_BELOW : HOLDS_ABOVE;
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
OF(of_sin, sin(a))
OF(of_sqrt, sqrt(a))
OF(of_rsqrt, 1 / sqrt(a))
OF(of_reciprocal, 1 / a)
OF(of_abs, fabs(a))
OF(of_cast, a)

/* By the definition of the type: three bits of significand below five of exponent. */
static double number_of(int code) {
    int exponent = code / 8, part = code % 8;
    return exponent ? ldexp(8 + part, exponent - 10) : ldexp(part, -9);
}

static double of_from_code(double a, double b, double c) {
    (void)b, (void)c;
    if (!(a > 0)) return 0;
    if (a >= 126) return 448;
    int code = (int)a;
    return number_of(code) + (a - code) * (number_of(code + 1) - number_of(code));
}

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
    {TL_SIN, 1, of_sin},
    {TL_SQRT, 1, of_sqrt},
    {TL_RSQRT, 1, of_rsqrt},
    {TL_RECIPROCAL, 1, of_reciprocal},
    {TL_ABS, 1, of_abs},
    {TL_CAST, 1, of_cast},
    {TL_FROM_CODE, 1, of_from_code},
    {TL_MULTIPLY_ADD, 3, of_multiply_add},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* Every elementwise operation of the language is here. */
static void all_are_here(void **state) {
    (void)state;
    static const tl_operation named[] = {
#define OPERATION(id, spelling, operands, shape, doc, ...) TL_##id,
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

/* With what is between the least of these and the largest: samples may leap over it. */
static unsigned filled(unsigned kinds) {
    unsigned out = kinds;
    for (unsigned kind = HOLDS_LOW; kind <= HOLDS_HIGH; kind *= 2)
        if (kinds & (kind - 1) & ~(unsigned)HOLDS_NAN && kinds & ~(2 * kind - 1)) out |= kind;
    return out;
}

/* Of three operands more may be said: what two of them may come to is all that the third meets. */
static void row_is_right(const operation *o, holds_memo *memo, unsigned a, unsigned b, unsigned c) {
    const tl_operation_facts *f = tl_facts(o->id);
    holds_value e[] = {{.may = a}, {.may = b}, {.may = c}};
    unsigned said = holds_apply(NULL, o->id, e, o->operands).may, seen = found(o, a, b, c);
    for (int again = 0; again < 2; again++)
        assert_int_equal(holds_apply(memo, o->id, e, o->operands).may, said);
    bool right = !(seen & ~said);
    if (o->operands == 3) {
        holds_value then[] = {holds_apply(NULL, f->first, e, 2), e[2]};
        right = right && said == holds_apply(NULL, f->then, then, 2).may;
    } else if (!(f->chooses && (a | b) & HOLDS_NAN)) { /* which one a maximum gives is left open */
        bool is_zero = a == HOLDS_ZERO || (o->operands == 2 && b == HOLDS_ZERO);
        right = right && !(said & ~(is_zero ? seen : filled(seen)));
    }
    if (!right) fail_msg("%s of %u, %u, %u: %u is said, %u comes", f->name, a, b, c, said, seen);
}

/* Single kinds, all of them with all; and of sets of kinds each step-th. */
static unsigned next_set(unsigned set, unsigned step) {
    do set++;
    while (set <= HOLDS_ANY && set & (set - 1) && set % step);
    return set;
}

static void rows_are_right(void **state) {
    (void)state;
    static holds_memo memo;
    static const unsigned steps[] = {1, 1, 29, 113}; /* by the number of operands */
    for (int n = 0; n < OPERATIONS; n++) {
        const operation *o = &operations[n];
        unsigned step = steps[o->operands];
        unsigned most_b = o->operands > 1 ? HOLDS_ANY : 1, most_c = o->operands > 2 ? HOLDS_ANY : 1;
        for (unsigned a = 1; a <= HOLDS_ANY; a = next_set(a, step))
            for (unsigned b = 1; b <= most_b; b = next_set(b, step))
                for (unsigned c = 1; c <= most_c; c = next_set(c, step))
                    row_is_right(o, &memo, a, b, c);
    }
}

/* What a type makes of a finite number is in what is said of its range, and is said of what comes
 * from memory; products of small numbers are taken to stay off 0.
 */
static void rounding_is_right(void **state) {
    (void)state;
    static const struct {
        tl_type type;
        convert_format format;
    } types[] = {{TL_F16, CONVERT_F16},
                 {TL_F32, CONVERT_F32},
                 {TL_E4M3, CONVERT_E4M3},
                 {TL_E5M2, CONVERT_E5M2},
                 {TL_I8, CONVERT_I8}};
    for (size_t t = 0; t < sizeof types / sizeof *types; t++)
        for (int i = 0; i < SAMPLES; i++) {
            if (!isfinite(samples[i]) || (samples[i] != 0 && fabs(samples[i]) < 1)) continue;
            double stored = convert_round(types[t].format, samples[i]);
            unsigned said = holds_rounded(holds_these(kind_of(samples[i])), types[t].type).may;
            if (said != kind_of(stored))
                fail_msg("%g in %s: %u is said, %g comes", samples[i], tl_type_name(types[t].type),
                         said, stored);
            if (isfinite(stored) && fabs(stored) < 0x1p44)
                assert_true(kind_of(stored) & holds_given(types[t].type).may);
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
                holds_value made = holds_apply(NULL, o->id, e, o->operands);
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
    assert_false(holds_apply(NULL, TL_DIVIDE, three, 2).is_number);
    holds_value zero = holds_either(holds_number(0), holds_number(-0.0));
    assert_int_equal(holds_apply(NULL, TL_RECIPROCAL, &zero, 1).may, HOLDS_LOW | HOLDS_HIGH);
}

/* --- the other facts of the rows (tl/operation.h) --------------------------------------------- */

static bool is_same(double a, double b) {
    return a == b || (isnan(a) && isnan(b));
}

static void results_are_right(void **state) {
    (void)state;
    for (int n = 0; n < OPERATIONS; n++)
        for (int i = 0; i < SAMPLES; i++)
            for (int k = 0; k < SAMPLES; k++) {
                const operation *o = &operations[n];
                const tl_operation_facts *f = tl_facts(o->id);
                double a = samples[i], b = samples[k];
                if (f->chooses && (isnan(a) || isnan(b))) continue;
                assert_int_equal(f->operands, o->operands);
                assert_true(is_same(f->of(a, b, 0.25), o->of(a, b, 0.25)));
                double row[3];
                f->row((double[]){a, b, a}, (double[]){b, a, a}, (double[]){1, 1, 1}, 3, row);
                assert_true(is_same(row[1], o->of(b, a, 1)));
            }
}

/* A row without 'waves' rises or falls all along where an operand is above 0, and where it is
 * below, whatever the others are; the others do give what 'waves' says.
 */
static void rows_are_monotone(void **state) {
    (void)state;
    enum { STEPS = 400 };
    for (int n = 0; n < OPERATIONS; n++)
        for (int at = 0; at < operations[n].operands; at++)
            for (int sign = -1; sign <= 1; sign += 2) {
                const operation *o = &operations[n];
                const tl_operation_facts *f = tl_facts(o->id);
                bool is_broken = false;
                unsigned kinds = 0;
                for (int other = 0; other < SAMPLES; other++) {
                    double x[3] = {samples[other], samples[other], samples[SAMPLES - 1 - other]};
                    bool rises = false, falls = false;
                    double last = (double)NAN;
                    for (int step = 0; step < STEPS; step++) {
                        x[at] = sign * pow(2, -20 + 40.0 * step / STEPS);
                        double y = o->of(x[0], x[1], x[2]);
                        rises |= y > last, falls |= y < last;
                        last = y, kinds |= kind_of(y);
                    }
                    is_broken |= rises && falls;
                }
                if (is_broken && !f->waves) fail_msg("%s waves", f->name);
                if (f->waves) assert_true(is_broken && kinds == f->waves);
            }
}

/* Of numbers whose sums and products are exact. */
static void linear_rows_are_linear(void **state) {
    (void)state;
    static const double values[] = {-8, -2, -1, 0.5, 1, 4};
    enum { VALUES = sizeof values / sizeof *values };
    for (int n = 0; n < OPERATIONS; n++)
        for (unsigned set = 1; set < 1u << operations[n].operands; set++) {
            const operation *o = &operations[n];
            bool is_linear = true;
            for (int i = 0; i < VALUES; i++)
                for (int k = 0; k < VALUES; k++)
                    for (int m = 0; m < VALUES; m++) {
                        double whole[3], parts[2][3];
                        for (int at = 0; at < 3; at++) {
                            double x = values[(i + at) % VALUES], y = values[(k + 2 * at) % VALUES];
                            bool is_parted = set >> at & 1;
                            parts[0][at] = is_parted ? x : values[m];
                            parts[1][at] = is_parted ? y : values[m];
                            whole[at] = is_parted ? x + y : values[m];
                        }
                        double sum = o->of(parts[0][0], parts[0][1], parts[0][2]) +
                                     o->of(parts[1][0], parts[1][1], parts[1][2]);
                        is_linear &= sum == o->of(whole[0], whole[1], whole[2]);
                    }
            if (is_linear != tl_is_linear(o->id, set))
                fail_msg("%s is %slinear in %u", tl_facts(o->id)->name, is_linear ? "" : "not ",
                         set);
        }
}

static bool leaves(const operation *o, double neutral, int side) {
    for (int i = 1; i < SAMPLES; i++) /* NaN is left out by maxima */
        if (!is_same(side ? o->of(samples[i], neutral, 0) : o->of(neutral, samples[i], 0),
                     samples[i]))
            return false;
    return true;
}

static void neutral_elements_are_neutral(void **state) {
    (void)state;
    static const double tried[] = {0, 1, -1, -INFINITY, INFINITY};
    for (int n = 0; n < OPERATIONS; n++) {
        const operation *o = &operations[n];
        const tl_operation_facts *f = tl_facts(o->id);
        if (o->operands != 2) continue;
        assert_true((f->neutral_side != TL_NEITHER) == leaves(o, f->neutral, 1));
        assert_true((f->neutral_side == TL_EITHER) == leaves(o, f->neutral, 0));
        for (int i = 0; i < 5; i++) {
            holds_value value = holds_number(tried[i]);
            assert_true(holds_leaves(o->id, 1, value) == leaves(o, tried[i], 1));
            assert_true(holds_leaves(o->id, 0, value) == leaves(o, tried[i], 0));
        }
        for (int i = 0; i < SAMPLES; i++)
            for (int k = 0; k < SAMPLES && f->chooses; k++) {
                double y = f->of(samples[i], samples[k], 0);
                assert_true(is_same(y, samples[i]) || is_same(y, samples[k]));
            }
    }
}

/* What is left out of a reduction changes nothing; what it may be, it may be of those it takes. */
static void reductions_are_right(void **state) {
    (void)state;
    for (int id = 0; id < TL_OPERATION_UNKNOWN; id++) {
        tl_operation reduction = (tl_operation)id;
        const tl_operation_facts *f = tl_facts(reduction), *by = tl_facts(tl_combining(reduction));
        assert_string_equal(f->name, tl_operation_name(reduction));
        if (f->shape != TL_SHAPE_REDUCTION) {
            assert_false(tl_reduces_by_sum(reduction) || tl_reduces_by_choice(reduction));
            continue;
        }
        double neutral = tl_neutral(reduction);
        assert_int_equal(by->neutral_side, TL_EITHER);
        assert_true(
            tl_reduces_by_sum(reduction) + tl_reduces_by_choice(reduction) + f->gives_place == 1);
        assert_true(holds_only(holds_neutral(reduction), kind_of(neutral)));
        for (int i = 1; i < SAMPLES; i++)
            for (int k = 1; k < SAMPLES && !f->gives_place; k++) {
                double two = by->of(by->of(neutral, samples[i], 0), samples[k], 0);
                holds_value terms = holds_these(kind_of(samples[i]) | kind_of(samples[k]));
                assert_true(holds_reduced(NULL, reduction, terms).may & kind_of(two));
                assert_true(is_same(two, by->of(samples[k], samples[i], 0)));
            }
    }
}

/* Every row that a kernel works out has an instruction, and errs. */
static void wrappers_are_there(void **state) {
    (void)state;
    for (int n = 0; n < OPERATIONS; n++) {
        const tl_operation_facts *f = tl_facts(operations[n].id);
        assert_non_null(f->wrapper);
        assert_true((*f->wrapper == 0) == f->is_identity);
        double error, size = 1;
        f->errors(&size, &size, 1, &error);
        assert_true(error >= 0x1p-24 && error < 1e-5);
        assert_true(f->fp32 + f->exp2 + f->conversions > 0);
        assert_true((f->then != f->first) == (f->operands == 3));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(all_are_here),
                                       cmocka_unit_test(results_are_right),
                                       cmocka_unit_test(rows_are_monotone),
                                       cmocka_unit_test(linear_rows_are_linear),
                                       cmocka_unit_test(neutral_elements_are_neutral),
                                       cmocka_unit_test(reductions_are_right),
                                       cmocka_unit_test(wrappers_are_there),
                                       cmocka_unit_test(rows_are_right),
                                       cmocka_unit_test(rounding_is_right),
                                       cmocka_unit_test(numbers_are_right)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
