/* Element formats, exhaustively: every bit pattern, every midpoint and its neighbours. */
#include "base/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t pattern_count(convert_format format) {
    return convert_bits(format) == 16 ? 65536 : 256;
}

static const convert_format small_formats[] = {CONVERT_F16, CONVERT_BF16, CONVERT_E4M3,
                                               CONVERT_E5M2};

static void patterns_come_back(void **state) {
    (void)state;
    for (int f = 0; f < 4; f++) {
        convert_format format = small_formats[f];
        for (uint32_t bits = 0; bits < pattern_count(format); bits++) {
            double value = convert_from_bits(format, bits);
            uint32_t again = convert_to_bits(format, value);
            if (isnan(value)) {
                assert_true(isnan(convert_from_bits(format, again)));
                continue;
            }
            uint32_t expected = bits;
            /* e5m2 has infinities, but conversions into it saturate. */
            if (format == CONVERT_E5M2 && isinf(value)) expected = bits - 1;
            assert_int_equal(again, expected);
            assert_true(isinf(value) || convert_round(format, value) == value);
        }
    }
}

/* Between each two neighbours: just below the middle goes down, just above up, the middle to even.
 */
static void midpoints_go_to_even(void **state) {
    (void)state;
    for (int f = 0; f < 4; f++) {
        convert_format format = small_formats[f];
        uint32_t half = pattern_count(format) / 2;
        for (uint32_t bits = 0; bits + 1 < half; bits++) {
            double low = convert_from_bits(format, bits),
                   high = convert_from_bits(format, bits + 1);
            if (!isfinite(low) || !isfinite(high)) break;
            double middle = low + (high - low) / 2;
            for (int sign = 0; sign < 2; sign++) {
                double s = sign ? -1 : 1;
                uint32_t top = sign ? half : 0;
                assert_int_equal(convert_to_bits(format, s * nextafter(middle, 0)), bits | top);
                assert_int_equal(convert_to_bits(format, s * nextafter(middle, 1e300)),
                                 (bits + 1) | top);
                assert_int_equal(convert_to_bits(format, s * middle), (bits + (bits & 1)) | top);
                double all[2] = {s * middle, s * nextafter(middle, 0)};
                convert_round_all(format, all, 2);
                assert_true(all[0] == convert_round(format, s * middle));
                assert_true(all[1] == s * low);
            }
        }
    }
}

static void known_values(void **state) {
    (void)state;
    assert_int_equal(convert_to_bits(CONVERT_F16, 1.0), 0x3c00);
    assert_int_equal(convert_to_bits(CONVERT_F16, 65519.99), 0x7bff);
    assert_int_equal(convert_to_bits(CONVERT_F16, 65520.0), 0x7c00);
    assert_int_equal(convert_to_bits(CONVERT_F16, -0.0), 0x8000);
    assert_int_equal(convert_to_bits(CONVERT_F16, 0x1p-24), 1);
    assert_int_equal(convert_to_bits(CONVERT_F16, 0x1p-25), 0);
    assert_int_equal(convert_to_bits(CONVERT_BF16, 1.0), 0x3f80);
    assert_int_equal(convert_to_bits(CONVERT_BF16, 3.3895313892515355e38), 0x7f7f);
    assert_int_equal(convert_to_bits(CONVERT_BF16, 1e39), 0x7f80);
    assert_int_equal(convert_to_bits(CONVERT_E4M3, 1.0), 0x38);
    assert_int_equal(convert_to_bits(CONVERT_E4M3, 1e9), 0x7e);
    assert_int_equal(convert_to_bits(CONVERT_E4M3, -INFINITY), 0xfe);
    assert_int_equal(convert_to_bits(CONVERT_E5M2, 1e9), 0x7b);
    assert_int_equal(convert_to_bits(CONVERT_E4M3, NAN) & 0x7f, 0x7f);
    assert_int_equal(convert_to_bits(CONVERT_I32, -2.5), (uint32_t)-2);
    assert_int_equal(convert_to_bits(CONVERT_I32, 1e20), INT32_MAX);
}

/* Whole numbers of 8 bits: all of them, halves to even, the ends, what is no number. */
static void bytes_are_whole(void **state) {
    (void)state;
    for (int i = -128; i <= 127; i++) {
        uint32_t bits = convert_to_bits(CONVERT_I8, i);
        assert_int_equal(bits, (uint8_t)(int8_t)i);
        assert_true(convert_from_bits(CONVERT_I8, bits) == i);
        assert_true(convert_round(CONVERT_I8, i + 0.5) == (i == 127 ? 127 : i + (i & 1)));
        assert_true(convert_round(CONVERT_I8, i - 0.25) == i);
        double all[2] = {i + 0.5, i * 1000.0};
        convert_round_all(CONVERT_I8, all, 2);
        assert_true(all[0] == convert_round(CONVERT_I8, i + 0.5));
        assert_true(all[1] == (i < 0 ? -128 : i > 0 ? 127 : 0));
    }
    assert_int_equal(convert_to_bits(CONVERT_I8, NAN), 0);
    assert_int_equal(convert_to_bits(CONVERT_I8, -INFINITY), 0x80);
    assert_true(convert_step(CONVERT_I8, 100) == 1);
}

static void memory_takes_strides(void **state) {
    (void)state;
    const double values[4] = {1, -2.5, 1000, 0.1};
    for (int f = 0; f <= CONVERT_F64; f++) {
        convert_format format = (convert_format)f;
        if (convert_bits(format) < 8) continue;
        unsigned char bytes[128];
        double back[4];
        memset(bytes, 0xee, sizeof bytes);
        convert_store(format, values, 4, bytes + 1, 0, 3); /* not aligned */
        convert_load(format, bytes + 1, 0, 3, 4, back);
        for (int i = 0; i < 4; i++) assert_true(back[i] == convert_round(format, values[i]));
        assert_int_equal(bytes[0], 0xee);
        assert_int_equal(bytes[1 + convert_size(format, 1)], 0xee);
    }
}

/* Every code, at even and odd places, with neighbours that stay; what is outside saturates. */
static void four_bits_share_bytes(void **state) {
    (void)state;
    static const convert_format packed[] = {CONVERT_I4, CONVERT_U4};
    for (int f = 0; f < 2; f++) {
        convert_format format = packed[f];
        double most = f ? 15 : 7, least = f ? 0 : -8;
        for (uint32_t code = 0; code < 16; code++) {
            double value = convert_from_bits(format, code), back;
            assert_true(value == (f || code < 8 ? code : (double)code - 16));
            assert_int_equal(convert_to_bits(format, value), code);
            for (int at = 0; at < 6; at++) {
                unsigned char bytes[3] = {0x5a, 0x5a, 0x5a};
                convert_store(format, &value, 1, bytes, at, 1);
                for (int other = 0; other < 6; other++) {
                    uint32_t kept = other & 1 ? 5 : 10;
                    convert_load(format, bytes, other, 1, 1, &back);
                    assert_int_equal(convert_to_bits(format, back), other == at ? code : kept);
                }
            }
        }
        assert_true(convert_round(format, 100) == most && convert_round(format, -100) == least);
        assert_true(convert_round(format, (double)NAN) == 0);
        assert_true(convert_round(format, 2.5) == 2 && convert_round(format, 3.5) == 4);
        assert_true(convert_most(format) == most && convert_size(format, 5) == 3);
        double many[5] = {1, 2, 3, 4, 5}, back[3];
        unsigned char bytes[8] = {0};
        convert_store(format, many, 5, bytes, 1, 3);
        convert_load(format, bytes, 1, 6, 3, back);
        assert_true(back[0] == 1 && back[1] == 3 && back[2] == 5);
    }
}

static bool is_same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b);
}

/* The ways that are fast for many elements agree with those of one, special values among them. */
static void many_are_as_one(void **state) {
    (void)state;
    enum { COUNT = 1 << 16, SAMPLE = 1000 };
    uint16_t *bits = malloc(COUNT * sizeof *bits);
    double *values = malloc(COUNT * sizeof *values), sample[SAMPLE];
    assert_true(bits && values);
    for (int i = 0; i < COUNT; i++) bits[i] = (uint16_t)i;
    for (int f = CONVERT_F16; f <= CONVERT_BF16; f++) {
        convert_format format = (convert_format)f;
        convert_load(format, bits, 0, 1, COUNT, values);
        for (int i = 0; i < COUNT; i++) {
            assert_true(is_same(values[i], convert_from_bits(format, (uint32_t)i)));
        }
        for (int i = 0; i < SAMPLE; i++) {
            values[i] = sample[i] = i % 100 < 60    ? (i - 500) / 7.0
                                    : i % 100 < 70  ? (i & 1 ? -0.0 : 1e-6 / i)
                                    : i % 100 == 80 ? (double)INFINITY
                                    : i % 100 == 90 ? (double)NAN
                                                    : 1e30 * i;
        }
        convert_round_all(format, values, SAMPLE);
        for (int i = 0; i < SAMPLE; i++) {
            assert_true(is_same(values[i], convert_round(format, sample[i])));
        }
    }
    free(values);
    free(bits);
}

/* Of every two neighbours the middle, and what is beside it; of both signs, many in a row. */
static void many_middles_are_as_one(void **state) {
    (void)state;
    enum { HALF = 1 << 15, EACH = 3 };
    double *values = malloc(2 * EACH * HALF * sizeof *values),
           *many = malloc(2 * EACH * HALF * sizeof *many);
    assert_true(values && many);
    for (int f = CONVERT_F16; f <= CONVERT_E5M2; f++) {
        convert_format format = (convert_format)f;
        if (format == CONVERT_F32) continue;
        size_t count = 0;
        for (uint32_t bits = 0; bits + 1 < pattern_count(format) / 2; bits++) {
            double low = convert_from_bits(format, bits),
                   high = convert_from_bits(format, bits + 1);
            if (!isfinite(low)) break;
            double middle = isfinite(high) ? low + (high - low) / 2 : 2 * low;
            double sides[EACH] = {nextafter(middle, 0), middle, nextafter(middle, 1e300)};
            for (int i = 0; i < EACH; i++) values[count++] = sides[i], values[count++] = -sides[i];
        }
        memcpy(many, values, count * sizeof *many);
        convert_round_all(format, many, count);
        for (size_t i = 0; i < count; i++)
            assert_true(is_same(many[i], convert_round(format, values[i])));
        uint16_t *bits = malloc(count * sizeof *bits);
        assert_non_null(bits);
        convert_store(format, values, convert_bits(format) == 16 ? count : 0, bits, 0, 1);
        for (size_t i = 0; i < count && convert_bits(format) == 16; i++)
            assert_int_equal(bits[i], convert_to_bits(format, values[i]));
        free(bits);
        convert_steps(format, values, count, many);
        for (size_t i = 0; i < count; i++) assert_true(many[i] == convert_step(format, values[i]));
    }
    const double odd[] = {0, -0.0, (double)NAN, (double)INFINITY, -(double)INFINITY};
    double steps[5];
    convert_steps(CONVERT_F16, odd, 5, steps);
    for (int i = 0; i < 5; i++) assert_true(steps[i] == convert_step(CONVERT_F16, odd[i]));
    for (int f = CONVERT_F16; f <= CONVERT_BF16; f++) {
        uint16_t bits[5];
        convert_store((convert_format)f, odd, 5, bits, 0, 1);
        for (int i = 0; i < 5; i++)
            assert_int_equal(bits[i], convert_to_bits((convert_format)f, odd[i]));
    }
    free(values);
    free(many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_come_back),   cmocka_unit_test(midpoints_go_to_even),
        cmocka_unit_test(known_values),         cmocka_unit_test(bytes_are_whole),
        cmocka_unit_test(memory_takes_strides), cmocka_unit_test(four_bits_share_bytes),
        cmocka_unit_test(many_are_as_one),      cmocka_unit_test(many_middles_are_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
