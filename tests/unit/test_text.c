#include "base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(distances),
        cmocka_unit_test(numbers),
        cmocka_unit_test(buffer_stops_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
