#include "base/number.h"
#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void distances(void **state) {
    (void)state;
    assert_int_equal(str_distance(STR("Compute"), STR("Compute")), 0);
    assert_int_equal(str_distance(STR("Copmute"), STR("Compute")), 1);
    assert_int_equal(str_distance(STR("Cpy"), STR("Copy")), 1);
    assert_int_equal(str_distance(STR(""), STR("end")), 3);
}

static void numbers(void **state) {
    (void)state;
    int64_t value;
    assert_true(str_to_integer(STR("-12"), &value) && value == -12);
    assert_false(str_to_integer(STR("99999999999999999999"), &value));
    assert_false(str_to_integer(STR("1x"), &value));
    double number;
    assert_true(str_to_number(STR("1.5e-3"), &number) && number == 1.5e-3);
    assert_false(str_to_number(STR(" 1"), &number));
}

static void parts_are_found(void **state) {
    (void)state;
    str rest = STR("Copy K_shared, 12");
    assert_true(str_equal(str_cut_word(&rest), STR("Copy")));
    assert_true(str_equal(str_cut_word(&rest), STR("K_shared")));
    assert_true(str_equal(str_cut_word(&rest), STR("12")));
    assert_int_equal(str_cut_word(&rest).length, 0);
    assert_int_equal(str_find(STR("a // b // c"), STR("//")), 2);
    assert_int_equal(str_find(STR("a /"), STR("//")), 3);
    assert_int_equal(str_find(STR("/"), STR("//")), 1);
}

static void buffer_stops_at_its_limit(void **state) {
    (void)state;
    text_buffer buffer;
    text_init(&buffer, 8);
    text_add_z(&buffer, "12345");
    text_add_z(&buffer, "6789");
    assert_true(buffer.failed);
    assert_true(str_is(text_str(&buffer), "12345"));
    text_done(&buffer);
}

/* What is printed without the C library is what it prints, however little room there is. */
static void prints_as_the_c_library(void **state) {
    (void)state;
#define SAME(...)                                                                                  \
    for (size_t room = 0; room < 48; room++) {                                                     \
        char ours[64] = "before", theirs[64] = "before";                                           \
        int wanted = snprintf(theirs, room, __VA_ARGS__);                                          \
        assert_int_equal(number_print(ours, room, __VA_ARGS__), wanted);                           \
        assert_string_equal(ours, theirs);                                                         \
    }
    const char *sliced = "sliced here";
    SAME("plain");
    SAME("%d %d %d %d", 0, -7, INT32_MIN, INT32_MAX);
    SAME("%lld|%lld|%lld", (long long)INT64_MIN, (long long)INT64_MAX, -1LL);
    SAME("%s and %.*s, %.*s%s", "one", 6, sliced, 0, sliced, "");
    SAME("100%% of %s", "all");
    SAME("%5d %-4s %08x %g", 12, "ab", 48879u, 0.5);
    SAME("%.*s", -1, sliced);
#undef SAME
}

/* A text longer than what there is room for at once. */
static void long_texts_are_formatted(void **state) {
    (void)state;
    char word[700];
    memset(word, 'x', sizeof word - 1);
    word[sizeof word - 1] = 0;
    arena memory;
    arena_init(&memory, 1 << 20);
    str made = str_format(&memory, "%s-%d", word, 42);
    assert_int_equal(made.length, sizeof word + 2);
    assert_true(str_ends(made, STR("xx-42")));
    text_buffer buffer;
    text_init(&buffer, 1000);
    text_format(&buffer, "%s", word);
    text_format(&buffer, "%d", 12345);
    assert_int_equal(buffer.length, sizeof word - 1 + 5);
    text_format(&buffer, "%s", word); /* is over the limit: nothing of it is there */
    assert_true(buffer.failed);
    assert_true(str_ends(text_str(&buffer), STR("x12345")));
    assert_int_equal(buffer.data[buffer.length], 0);
    text_done(&buffer);
    arena_done(&memory);
}

static void foreign_text_is_shown(void **state) {
    (void)state;
    static const struct {
        const char *text, *kept, *shown;
    } cases[] = {
        {"plain, gr\xc3\xb6\xc3\x9f"
         "er \xe2\x82\xac \xf0\x9f\x99\x82",
         "",
         "plain, gr\xc3\xb6\xc3\x9f"
         "er \xe2\x82\xac \xf0\x9f\x99\x82"},
        {"\033[31mred\007", "", "\\x1b[31mred\\x07"},
        {"a\nb\tc\rd", "", "a\\nb\\tc\\x0dd"},
        {"a\nb\tc\rd", "\n\t", "a\nb\tc\\x0dd"},
        {"\x7f\xc2\x9b"
         "31m",
         "", "\\x7f\\u009b31m"}, /* DEL, the C1 form of ESC [ */
        {"\x9b"
         "31m \xc3",
         "", "\\x9b31m \\xc3"}, /* no UTF-8 */
        {"\xe2\x80\xae"
         "txt.exe\xe2\x81\xa9",
         "", "\\u202etxt.exe\\u2069"},
        {"\xc0\x8a\xed\xa0\x80\xf4\x90\x80\x80", "",
         "\\xc0\\x8a\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80"}, /* overlong, half a pair, too far */
        {"", "\n", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        text_buffer shown;
        text_init(&shown, 1000);
        text_add_shown(&shown, str_from(cases[i].text), cases[i].kept);
        text_add_z(&shown, "");
        assert_string_equal(shown.data, cases[i].shown);
        text_done(&shown);
    }
    text_buffer nul;
    text_init(&nul, 1000);
    text_add_shown(&nul, (str){"a\0b", 3}, "\n");
    assert_string_equal(nul.data, "a\\x00b");
    text_done(&nul);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prints_as_the_c_library),
        cmocka_unit_test(long_texts_are_formatted),
        cmocka_unit_test(foreign_text_is_shown),
        cmocka_unit_test(distances),
        cmocka_unit_test(numbers),
        cmocka_unit_test(parts_are_found),
        cmocka_unit_test(buffer_stops_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
