/* Number formats: every pattern there and back, fast forms against the slow general ones. */
#include "emulate/number.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool is_nan(uint32_t bits, uint32_t infinity) {
    return (bits & 0x7fffu) > infinity;
}

static void halves_there_and_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = number_from_f16(h);
        if (is_nan(h, 0x7c00)) {
            assert_true(isnan(x));
            assert_int_equal(number_to_f16(x), 0x7fff);
            continue;
        }
        assert_int_equal(number_to_f16(x), h);
        assert_true(number_expand(h, NUMBER_F16) == x);
        assert_int_equal(number_round(x, NUMBER_F16, NUMBER_NEAREST, false), h);
    }
}

static void brains_there_and_back(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 65536; h++) {
        float x = number_from_bf16(h);
        uint32_t back = number_to_bf16(x);
        if (is_nan(h, 0x7f80)) assert_int_equal(back, 0x7fff);
        else assert_int_equal(back, h);
    }
}

/* Around every half: the middle between neighbours goes to even, and a little beside it does not.
 */
static void halves_round_to_even(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x7bff; h++) {
        float low = number_from_f16(h), high = number_from_f16(h + 1);
        float middle = (low + high) / 2;
        assert_int_equal(number_to_f16(middle), h & 1 ? h + 1 : h);
        assert_int_equal(number_to_f16(nextafterf(middle, INFINITY)), h + 1);
        assert_int_equal(number_to_f16(nextafterf(middle, -INFINITY)), h);
        assert_int_equal(number_to_f16(-middle), (h & 1 ? h + 1 : h) | 0x8000);
    }
    assert_int_equal(number_to_f16(65519.996f), 0x7bff);
    assert_int_equal(number_to_f16(65520.0f), 0x7c00);
    assert_int_equal(number_to_f16(INFINITY), 0x7c00);
}

static uint32_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

static void fast_and_general_agree(void **state) {
    (void)state;
    uint64_t random = 7;
    for (int i = 0; i < 2000000; i++) {
        uint32_t bits = next(&random);
        float x = number_f32(bits);
        if (isnan(x)) continue;
        assert_int_equal(number_to_f16(x), number_round(x, NUMBER_F16, NUMBER_NEAREST, false));
        assert_int_equal(number_to_bf16(x), number_round(x, NUMBER_BF16, NUMBER_NEAREST, false));
        assert_int_equal(bits, number_round(x, NUMBER_F32, NUMBER_NEAREST, false));
    }
}

static void directed_roundings(void **state) {
    (void)state;
    double x = 1.0 + 0x1p-11; /* between 1 and its neighbour */
    assert_int_equal(number_round(x, NUMBER_F16, NUMBER_ZERO, false), 0x3c00);
    assert_int_equal(number_round(x, NUMBER_F16, NUMBER_UP, false), 0x3c01);
    assert_int_equal(number_round(-x, NUMBER_F16, NUMBER_UP, false), 0xbc00);
    assert_int_equal(number_round(-x, NUMBER_F16, NUMBER_DOWN, false), 0xbc01);
    assert_int_equal(number_round(x, NUMBER_F16, NUMBER_AWAY, false), 0x3c01);
    assert_int_equal(number_round(1e9, NUMBER_F16, NUMBER_ZERO, false), 0x7bff);
    assert_int_equal(number_round(-1e9, NUMBER_F16, NUMBER_UP, false), 0xfbff);
    assert_int_equal(number_round(-1e9, NUMBER_F16, NUMBER_DOWN, false), 0xfc00);
}

/* OCP 8-bit formats: e4m3 reaches 448 and has one NaN pattern; e5m2 is the top half of an f16. */
static void eight_bit_formats(void **state) {
    (void)state;
    for (uint32_t b = 0; b < 256; b++) {
        float x = number_expand(b, NUMBER_E4M3), y = number_expand(b, NUMBER_E5M2);
        if ((b & 0x7f) == 0x7f) assert_true(isnan(x));
        else assert_int_equal(number_round(x, NUMBER_E4M3, NUMBER_NEAREST, true), b);
        if ((b & 0x7f) > 0x7c) assert_true(isnan(y));
        else assert_true(y == number_from_f16(b << 8));
    }
    assert_true(number_expand(0x7e, NUMBER_E4M3) == 448.0f);
    assert_int_equal(number_round(1e6, NUMBER_E4M3, NUMBER_NEAREST, true), 0x7e);
    assert_int_equal(number_round(-1e6, NUMBER_E5M2, NUMBER_NEAREST, true), 0xfb);
    assert_int_equal(number_round(0x1p-9, NUMBER_E4M3, NUMBER_NEAREST, true), 1);
    assert_int_equal(number_round(0x1p-10, NUMBER_E4M3, NUMBER_NEAREST, true), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_there_and_back), cmocka_unit_test(brains_there_and_back),
        cmocka_unit_test(halves_round_to_even),  cmocka_unit_test(fast_and_general_agree),
        cmocka_unit_test(directed_roundings),    cmocka_unit_test(eight_bit_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
