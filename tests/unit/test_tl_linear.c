/* Sums of names: what they come to, and when they say nothing. */
#include "tl/linear.h"
#include "tl/tl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* "b" stands for 2*a + 3, "z" for nothing known. */
static bool means(void *context, const tl_expr *name, tl_linear *out) {
    arena *memory = context;
    if (str_is(name->text, "b")) *out = tl_linear_of(NULL, tl_quote_expr(memory, "2*a + 3"));
    else if (str_is(name->text, "z")) out->is_broken = true;
    else return false;
    return true;
}

static void sums_are_put_together(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t constant;
        int count;
        const char *first;
        int64_t factor;
        bool is_broken;
    } rows[] = {
        {"7", 7, 0, NULL, 0, false},
        {"a + 3*a - 1", -1, 1, "a", 4, false},
        {"-(a - c) + a", 0, 1, "c", 1, false},
        {"a - a", 0, 0, NULL, 0, false},
        {"(a - a + 2)*c", 0, 1, "c", 2, false},
        {"3*(b - 1)*2", 12, 1, "a", 12, false},
        {"a*c + 1", 1, 1, "a*c", 1, false},
        {"2*t[a] - t[a]", 0, 1, "t[a]", 1, false},
        {"t[a] - t[c]", 0, 2, "t[a]", 1, false},
        {"a + z", 0, 1, "a", 1, true},
        {"z*2", 0, 0, NULL, 0, true},
        {"9000000000000000000 + 9000000000000000000", 0, 0, NULL, 0, true},
        {"9000000000000000000*a*2", 0, 0, NULL, 0, true},
        {"-(-9223372036854775807 - 1)", 0, 0, NULL, 0, true},
        {"a+c+d+e+f+g+h+i+j+k+l+m+n+o+p+q+r", 0, 16, "a", 1, true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        arena memory;
        arena_init(&memory, 1 << 20);
        tl_linear_scope scope = {means, &memory, false};
        tl_linear sum = tl_linear_of(&scope, tl_quote_expr(&memory, "%s", rows[i].text));
        if (sum.is_broken != rows[i].is_broken) fail_msg("%s", rows[i].text);
        if (!sum.is_broken || rows[i].count) {
            assert_int_equal(sum.count, rows[i].count);
            assert_int_equal(sum.constant, rows[i].constant);
        }
        if (rows[i].first) {
            str first = tl_expr_text(&memory, sum.terms[0].atom);
            if (!str_is(first, rows[i].first)) fail_msg("%s: %.*s", rows[i].text, STR_ARGS(first));
            assert_int_equal(sum.terms[0].factor, rows[i].factor);
        }
        arena_done(&memory);
    }
}

/* An index that goes through an axis is no name of its length, nor of another axis's index. */
static void indices_are_their_axes(void **state) {
    (void)state;
    arena memory;
    arena_init(&memory, 1 << 20);
    tl_expr *length = tl_quote_expr(&memory, "n");
    tl_axis axes[2] = {{.extent = length}, {.extent = length}};
    tl_linear sum = {0};
    tl_linear_add_index(&sum, &axes[0], 2);
    tl_linear_add_index(&sum, &axes[1], 1);
    tl_linear_add_atom(&sum, length, 1);
    assert_int_equal(sum.count, 3);
    tl_linear_add_index(&sum, &axes[0], -2);
    assert_int_equal(sum.count, 2);
    assert_ptr_equal(sum.terms[0].axis, &axes[1]);
    tl_linear_drop(&sum, 0);
    assert_ptr_equal(sum.terms[0].atom, length);
    arena_done(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_put_together),
        cmocka_unit_test(indices_are_their_axes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
