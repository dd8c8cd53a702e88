/* How products are added: known sums of each generation of matrix units, and the fast way against
 * the plain one, bit for bit.
 */
#include "emulate/number.h"
#include "emulate/sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void prepare(sums_product *p, int processor, ptx_number number, int k_count) {
    memset(p, 0, sizeof *p);
    p->k_count = k_count;
    p->rule = sums_rule_of(processor, number, k_count);
    p->sum_least = -126;
}

/* sum + 'count' times x * y, from place 'first' on, as all elements of a product: the same in
 * all ways.
 */
static float sum_and(int processor, ptx_number number, int k_count, float sum, int first, int count,
                     float x, float y) {
    float result = NAN;
    for (int n = 0; sums_set_of(n); n++) {
        const sums_set *set = sums_set_of(n);
        sums_product p;
        sums_rows rows = {0};
        sums_columns columns = {0};
        prepare(&p, processor, number, k_count);
        p.rows = &rows;
        p.columns = &columns;
        for (int i = 0; i < 2 * SUMS_PLACES; i++) p.sum[i / SUMS_PLACES][i % SUMS_PLACES] = sum;
        for (int k = first; k < first + count; k++) {
            for (int row = 0; row < 16; row++) rows.a[k][row] = x;
            for (int column = 0; column < 8; column++) columns.b[k][column] = y;
        }
        sums_prepare_rows(&rows, k_count, set, number);
        sums_prepare_columns(&columns, k_count, set, number);
        assert_int_equal(set->multiply(&p), 0);
        if (n) assert_memory_equal(&p.sum[0][0], &result, sizeof result);
        result = p.sum[0][0];
        for (int i = 1; i < 2 * SUMS_PLACES; i++)
            assert_memory_equal(&p.sum[i / SUMS_PLACES][i % SUMS_PLACES], &result, sizeof result);
    }
    return result;
}

static float one_and(int processor, int k_count, int first, int count, float x, float y) {
    return sum_and(processor, PTX_F16, k_count, 1.0f, first, count, x, y);
}

/* Exponents that bytes hold, and the first that they do not. */
static void known_codes(void **state) {
    (void)state;
    for (int least = -70; least <= -58; least++)
        for (int most = 25; most <= 37; most++) {
            float x = ldexpf(1.0f, least), y = ldexpf(1.0f, most), fine = 1.0f + 0x1p-23f;
            assert_true(sum_and(90, PTX_BF16, 16, 0.0f, 3, 1, x, y) == x * y);
            /* A product that its codes make larger than it is, beside a small sum. */
            float small = ldexpf(fine, least + most - 8), tiny = ldexpf(1.0f, least - 40);
            assert_true(sum_and(90, PTX_BF16, 16, small, 3, 1, tiny, y) == small);
        }
    for (int exponent = -15; exponent >= -18; exponent--) {
        float x = ldexpf(1.0f, exponent);
        assert_true(sum_and(80, PTX_TF32, 8, 0.0f, 0, 8, x, x) == 8.0f * x * x);
    }
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

/* What is multiplied in a test. */
typedef struct kind {
    ptx_number number;
    number_format format;
    int k_count;
    bool halves, group; /* sums in f16; of wgmma */
} kind;

static const kind kinds[] = {
    {PTX_F16, {5, 10, true}, 8, false, false},   {PTX_F16, {5, 10, true}, 16, false, false},
    {PTX_F16, {5, 10, true}, 16, true, false},   {PTX_BF16, {8, 7, true}, 16, false, false},
    {PTX_TF32, {8, 10, true}, 4, false, false},  {PTX_TF32, {8, 10, true}, 8, false, false},
    {PTX_E4M3, {4, 3, false}, 32, false, false}, {PTX_E5M2, {5, 2, true}, 32, false, false},
    {PTX_E4M3, {4, 3, false}, 32, false, true},  {PTX_F16, {5, 10, true}, 16, false, true},
};

/* Numbers around 1 by 'spread', and where 'large' all at the top of their range and of one sign:
 * their sums fill words.
 */
static void fill(sums_product *p, sums_rows *rows, sums_columns *columns, const kind *k, int spread,
                 bool special, bool large, uint64_t *state) {
    number_format format = k->format;
    for (int i = 0; i < 16 * k->k_count; i++)
        rows->a[i / 16][i % 16] = draw_number(state, format, spread, special);
    for (int i = 0; i < 8 * k->k_count; i++)
        columns->b[i / 8][i % 8] = draw_number(state, format, spread, special);
    for (int i = 0; i < 128; i++)
        p->sum[i / 64][i % 64] =
            draw_number(state, k->halves ? NUMBER_F16 : NUMBER_F32, spread, special);
    /* Some rows and columns of nothing but zeros. */
    for (int i = 0; i < k->k_count; i++) {
        rows->a[i][3] = 0.0f;
        columns->b[i][5] = special ? 0.0f : columns->b[i][5];
    }
    for (int i = 12; i < 16; i++) p->sum[0][i] = i % 2 ? 0.0f : -0.0f;
    /* Some rows whose products are all tiny, with sums of any size or none. */
    for (int row = 6; format.exponent_bits == 8 && row < 12; row++) {
        float tiny = ldexpf(1.0f, -(int)(draw(state) % 56u));
        for (int i = 0; i < k->k_count; i++) rows->a[i][row] *= tiny;
        for (int i = 0; i < 4; i++) p->sum[0][4 * row + i] *= row % 2 ? 0.0f : tiny;
    }
    uint32_t ones = (1u << format.mantissa_bits) - (format.has_infinity ? 1u : 2u);
    uint32_t bias = (1u << (format.exponent_bits - 1)) - 1u;
    float most = number_expand(bias << format.mantissa_bits | ones, format);
    for (int i = 0; large && i < k->k_count; i++) {
        rows->a[i][0] = most;
        for (int c = 0; c < 8; c++) columns->b[i][c] = most;
    }
}

/* Returns the rows that the fast way left. */
static int same_both_ways(const sums_set *set, const kind *k, int processor) {
    static const int spreads[] = {0, 1, 3, 8, 14, 40, 126};
    uint64_t state = (uint64_t)(processor * 100 + k->k_count);
    int left_rows = 0;
    for (int round = 0; round < 84; round++) {
        sums_product fast, plain;
        sums_rows rows;
        sums_columns columns;
        prepare(&fast, processor, k->number, k->k_count);
        if (k->group) fast.rule = sums_rule_of_group(k->number, k->k_count);
        fast.rows = &rows;
        fast.columns = &columns;
        fast.halves = k->halves;
        if (k->halves) fast.sum_least = -14;
        fill(&fast, &rows, &columns, k, spreads[round % 7], round % 2, round % 3 == 0, &state);
        sums_prepare_rows(&rows, k->k_count, set, k->number);
        sums_prepare_columns(&columns, k->k_count, set, k->number);
        plain = fast;
        for (int row = 0; row < 16; row++) sums_row(&plain, row);
        uint32_t left = set->multiply(&fast);
        left_rows += __builtin_popcount(left);
        for (; left; left &= left - 1u) sums_row(&fast, __builtin_ctz(left));
        assert_memory_equal(fast.sum, plain.sum, sizeof plain.sum);
    }
    return left_rows;
}

static void fast_like_plain(void **state) {
    (void)state;
    for (int n = 0; sums_set_of(n); n++) {
        int left_rows = 0, count = sizeof kinds / sizeof *kinds;
        for (int processor = 80; processor <= 90; processor += 10)
            for (int i = 0; i < count; i++)
                left_rows += same_both_ways(sums_set_of(n), &kinds[i], processor);
        /* Numbers of usual sizes take the fast way. */
        assert_in_range(left_rows, 1, 2 * count * 84 * 16 / 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_sums), cmocka_unit_test(known_codes),
                                       cmocka_unit_test(fast_like_plain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
