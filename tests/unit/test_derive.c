/* Rules of differentiation, each against differences of the operation itself. */
#include "base/text.h"
#include "tl/operation.h"
#include "tl/tree.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct rule {
    tl_operation operation;
    int operand;
    const char *steps;
} rule;

static const rule rules[] = {
#define RULE(operation, operand, steps) {TL_##operation, operand, steps},
#include "derive/rules.def"
#undef RULE
};

enum { RULES = sizeof rules / sizeof *rules };

/* What the words of a step mean. */
typedef struct state {
    double g, y, of[3], last;
} state;

static double word_value(const state *s, str word) {
    double number = NAN;
    if (str_is(word, "g")) return s->g;
    if (str_is(word, "y")) return s->y;
    if (str_is(word, "_")) return s->last;
    if (word.length == 1 && word.data[0] >= 'a' && word.data[0] <= 'c')
        return s->of[word.data[0] - 'a'];
    assert_true(str_to_number(word, &number));
    return number;
}

/* "g, 0 where a < b" */
static double masked(const state *s, str step) {
    assert_true(str_starts(step, STR("g, 0 where ")));
    str rest = {step.data + 11, step.length - 11};
    double left = word_value(s, str_cut(&rest, ' '));
    str compares = str_cut(&rest, ' ');
    double right = word_value(s, rest);
    bool holds = str_is(compares, "<")    ? left < right
                 : str_is(compares, ">")  ? left > right
                 : str_is(compares, "<=") ? left <= right
                                          : left >= right;
    return holds ? 0 : s->g;
}

static double by_rule(const rule *r, state s) {
    str rest = str_from(r->steps);
    if (str_is(rest, "g")) return s.g;
    while (rest.length) {
        str step = str_trim(str_cut(&rest, ';'));
        tl_operation operation = tl_operation_named(str_cut(&step, ' '));
        double of[3] = {0};
        assert_int_not_equal(operation, TL_OPERATION_UNKNOWN);
        if (operation == TL_MASK) {
            s.last = masked(&s, step);
            continue;
        }
        for (int i = 0; step.length; i++) of[i] = word_value(&s, str_trim(str_cut(&step, ',')));
        s.last = tl_facts(operation)->of(of[0], of[1], of[2]);
    }
    return s.last;
}

static double difference(const rule *r, const double of[3]) {
    const double step = 1e-5;
    double up[3], down[3];
    memcpy(up, of, sizeof up), memcpy(down, of, sizeof down);
    up[r->operand] += step, down[r->operand] -= step;
    double (*f)(double, double, double) = tl_facts(r->operation)->of;
    return (f(up[0], up[1], up[2]) - f(down[0], down[1], down[2])) / (2 * step);
}

static void rules_are_derivatives(void **state_) {
    (void)state_;
    static const double values[] = {0.3, 0.71, 1.9, 2.6, -0.4, -1.3, -2.2};
    enum { VALUES = sizeof values / sizeof *values };
    for (int n = 0; n < RULES; n++) {
        int compared = 0;
        for (int i = 0; i < VALUES * VALUES; i++) {
            double of[3] = {values[i % VALUES], values[i / VALUES] + 0.05, 0.9};
            double want = 1.7 * difference(&rules[n], of);
            double y = tl_facts(rules[n].operation)->of(of[0], of[1], of[2]);
            if (isnan(want) || isnan(y)) continue; /* (the root of a negative number) */
            double found = by_rule(&rules[n], (state){1.7, y, {of[0], of[1], of[2]}, 0});
            if (fabs(found - want) > 1e-6 * (1 + fabs(want)))
                fail_msg("%s, operand %d of %g, %g: %g, not %g",
                         tl_operation_name(rules[n].operation), rules[n].operand, of[0], of[1],
                         found, want);
            compared++;
        }
        assert_in_range(compared, 12, VALUES * VALUES);
    }
}

/* Elementwise operations have a rule for each operand, or are named here. */
static void no_operation_is_forgotten(void **state_) {
    (void)state_;
    for (int i = 0; i < TL_OPERATION_UNKNOWN; i++) {
        tl_operation operation = (tl_operation)i;
        bool is_left_out =
            operation == TL_FROM_CODE; /* flat between codes: it has no gradient of use */
        if (tl_operation_shape(operation) != TL_SHAPE_ELEMENTWISE || is_left_out) continue;
        for (int k = 0; k < tl_operation_operands(operation); k++) {
            int found = 0;
            for (int n = 0; n < RULES; n++)
                found += rules[n].operation == operation && rules[n].operand == k;
            if (found != 1)
                fail_msg("%s, operand %d: %d rules", tl_operation_name(operation), k, found);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_derivatives),
        cmocka_unit_test(no_operation_is_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
