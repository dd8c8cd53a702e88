/* The printer: canonical texts print to themselves, and reading what was printed prints the same.
 */
#include "base/os.h"
#include "tl/tl.h"

#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct printed {
    str text;
    int error_count;
} printed;

static printed print_of(arena *memory, str source) {
    diag_list diags;
    diag_init(&diags, memory, STR("test.tl"), source);
    tl_program *program = tl_parse(memory, STR("test.tl"), source, &diags);
    text_buffer out;
    text_init(&out, 1 << 22);
    diag_render_text(&diags, false, &out);
    if (diags.error_count) fprintf(stderr, "%s", out.data);
    text_done(&out);
    tl_print(program, &out);
    assert_false(out.failed);
    printed result = {str_copy(memory, text_str(&out)), diags.error_count};
    text_done(&out);
    return result;
}

static void assert_prints(const char *source, const char *expected) {
    arena memory;
    arena_init(&memory, 1 << 24);
    printed once = print_of(&memory, str_from(source));
    assert_int_equal(once.error_count, 0);
    assert_string_equal(once.text.data, expected);
    printed again = print_of(&memory, once.text);
    assert_int_equal(again.error_count, 0);
    assert_string_equal(again.text.data, expected);
    arena_done(&memory);
}

static void expression(const char *source, const char *expected) {
    char text[512], wanted[512];
    snprintf(text, sizeof text, "kernel k\nif %s\nend\n", source);
    snprintf(wanted, sizeof wanted, "kernel k\nif %s\nend\n", expected);
    assert_prints(text, wanted);
}

static void brackets_are_the_fewest(void **state) {
    (void)state;
    expression("(a*b) + (c)", "a*b + c");
    expression("a - (b - c)", "a - (b - c)");
    expression("(a - b) - c", "a - b - c");
    expression("a/(b/c)", "a/(b/c)");
    expression("a % b*c", "a % b*c");
    expression("-(a*b)", "-(a*b)");
    expression("(-a)*b", "-a*b");
    expression("-(-a)", "--a");
    expression("not (not a)", "not not a");
    expression("a*-b", "a*-b");
    expression("2*-(b + 1)", "2*-(b + 1)");
    expression("not (a < b and b < c)", "not (a < b and b < c)");
    expression("not (a < b) or c", "not a < b or c");
    expression("(not a) == b", "(not a) == b");
    expression("a and (b and c)", "a and (b and c)");
    expression("(a or b) and c", "(a or b) and c");
    expression("(a < b) == (c < d)", "(a < b) == (c < d)");
    expression("any(x >= 2 and y < 1)", "any(x >= 2 and y < 1)");
    expression("select(a < b, T[i, j + 1], 1.50) > 0", "select(a < b, T[i, j + 1], 1.50) > 0");
    expression("MAX(a, 1e-30) > .5", "max(a, 1e-30) > .5");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(brackets_are_the_fewest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
