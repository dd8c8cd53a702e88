/* How products are added: known sums of each generation of matrix units, and the fast way against
 * the plain one, bit for bit.
 */
#include "emulate/number.h"
#include "emulate/sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void prepare(lanes_product *p, int processor, ptx_number number, int k_count) {
    sums_rule rule = sums_rule_of(processor, number, k_count);
    memset(p, 0, sizeof *p);
    p->k_count = k_count;
    p->group = rule.group;
    p->fraction_bits = rule.fraction_bits;
    p->result_bits = rule.result_bits;
    p->sum_least = -126;
}

/* 1 + 'count' times x * y, from place 'first' on, as the first element of a product. */
static float one_and(int processor, int k_count, int first, int count, float x, float y) {
    lanes_product p;
    lanes_rows rows = {0};
    lanes_columns columns = {0};
    prepare(&p, processor, PTX_F16, k_count);
    p.rows = &rows;
    p.columns = &columns;
    p.sum[0][0] = 1.0f;
    for (int k = first; k < first + count; k++) {
        rows.a[k] = x;
        columns.b[k][0] = y;
    }
    sums_prepare_rows(&rows, k_count, lanes_choose(false), PTX_F16);
    sums_prepare_columns(&columns, k_count, lanes_choose(false), PTX_F16);
    uint32_t left = lanes_choose(false)->multiply(&p);
    assert_int_equal(left, 0);
    return p.sum[0][0];
}

static void known_sums(void **state) {
    (void)state;
    /* Below the largest exponent Hopper keeps 25 bits, the GPUs before it 24. */
    assert_true(one_and(90, 16, 0, 4, 0x1p-12f, 0x1p-13f) == 1.0f + 0x1p-23f);
    assert_true(one_and(80, 16, 0, 4, 0x1p-12f, 0x1p-13f) == 1.0f);
    assert_true(one_and(75, 8, 0, 4, 0x1p-12f, 0x1p-13f) == 1.0f);
    assert_true(one_and(75, 8, 0, 2, 0x1p-12f, 0x1p-12f) == 1.0f + 0x1p-23f);
    /* What is cut is cut towards zero, and the sum is never rounded up. */
    assert_true(one_and(90, 16, 0, 3, 0x1p-12f, 0x1p-13f) == 1.0f);
    assert_true(one_and(90, 16, 0, 1, -0x1p-12f, 0x1p-13f) == 1.0f - 0x1p-24f);
    /* Two groups of eight before Hopper: each is cut to f32 by itself. */
    assert_true(one_and(80, 16, 7, 2, 0x1p-12f, 0x1p-12f) == 1.0f);
    assert_true(one_and(90, 16, 7, 2, 0x1p-12f, 0x1p-12f) == 1.0f + 0x1p-23f);
}

static uint32_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 32);
}

/* A number of the format, exponents within 'spread' of 1, sometimes special. */
static float draw_number(uint64_t *state, number_format format, int spread, bool special) {
    int bias = (1 << (format.exponent_bits - 1)) - 1;
    int exponent = bias + (int)(draw(state) % (2u * (uint32_t)spread + 1u)) - spread;
    if (exponent < 0) exponent = 0;
    if (exponent > 2 * bias) exponent = 2 * bias;
    uint32_t rare = draw(state) % 64u, mantissa = draw(state) & ((1u << format.mantissa_bits) - 1u);
    if (rare < 3) exponent = 0;
    if (rare == 0) mantissa = 0;
    if (special && rare == 4) exponent = 2 * bias + 1;
    uint32_t sign = draw(state) & 1u;
    uint32_t bits = (sign << format.exponent_bits | (uint32_t)exponent) << format.mantissa_bits;
    return number_expand(bits | mantissa, format);
}

static void same_both_ways(const lanes_set *set, ptx_number number, number_format format,
                           int k_count, int processor, bool halves, int *slow) {
    static const int spreads[] = {0, 1, 3, 8, 14, 40, 126};
    uint64_t state = (uint64_t)(processor * 100 + k_count);
    for (int round = 0; round < 70; round++) {
        lanes_product fast, plain;
        lanes_rows rows;
        lanes_columns columns;
        int spread = spreads[round % 7];
        prepare(&fast, processor, number, k_count);
        fast.rows = &rows;
        fast.columns = &columns;
        fast.halves = halves;
        if (halves) fast.sum_least = -14;
        for (int i = 0; i < 16 * k_count; i++)
            rows.a[i] = draw_number(&state, format, spread, round % 2);
        for (int i = 0; i < 8 * k_count; i++)
            columns.b[i / 8][i % 8] = draw_number(&state, format, spread, round % 2);
        for (int i = 0; i < 128; i++)
            fast.sum[i / 8][i % 8] =
                draw_number(&state, halves ? NUMBER_F16 : NUMBER_F32, spread, round % 2);
        sums_prepare_rows(&rows, k_count, set, number);
        sums_prepare_columns(&columns, k_count, set, number);
        plain = fast;
        for (int row = 0; row < 16; row++) sums_row(&plain, row);
        uint32_t left = set->multiply(&fast);
        for (int row = 0; row < 16; row++) {
            if (left >> row & 1u) {
                ++*slow;
                continue;
            }
            assert_memory_equal(fast.sum[row], plain.sum[row], sizeof plain.sum[row]);
        }
    }
}

static void fast_like_plain(void **state) {
    (void)state;
    int slow = 0;
    for (int plain = 0; plain < 2; plain++) {
        const lanes_set *set = lanes_choose(plain);
        for (int processor = 80; processor <= 90; processor += 10) {
            same_both_ways(set, PTX_F16, NUMBER_F16, 8, processor, false, &slow);
            same_both_ways(set, PTX_F16, NUMBER_F16, 16, processor, false, &slow);
            same_both_ways(set, PTX_F16, NUMBER_F16, 16, processor, true, &slow);
            same_both_ways(set, PTX_BF16, NUMBER_BF16, 16, processor, false, &slow);
            same_both_ways(set, PTX_TF32, NUMBER_TF32, 8, processor, false, &slow);
        }
    }
    /* Numbers of usual sizes take the fast way. */
    assert_in_range(slow, 1, 2 * 2 * 5 * 70 * 16 / 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_sums),
                                       cmocka_unit_test(fast_like_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
