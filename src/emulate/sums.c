#include "emulate/sums.h"

#include "emulate/number.h"

sums_rule sums_rule_of(int processor, ptx_number inputs, int k_count) {
    bool is_fp8 = inputs == PTX_E4M3 || inputs == PTX_E5M2;
    if (processor >= 90) return (sums_rule){k_count, 25, 23};
    /* Earlier units take 16 bytes of A's row at a time. */
    int most = is_fp8 ? 16 : inputs == PTX_TF32 ? 4 : 8;
    int group = k_count < most ? k_count : most;
    if (is_fp8) return (sums_rule){group, 13, 13};
    return (sums_rule){group, 24, 23};
}

sums_rule sums_rule_of_group(ptx_number inputs, int k_count) {
    bool is_fp8 = inputs == PTX_E4M3 || inputs == PTX_E5M2;
    return is_fp8 ? (sums_rule){k_count, 13, 13} : (sums_rule){k_count, 25, 23};
}

/* The exponent of the smallest normal number: subnormal factors are aligned by it. */
static int sums_least_exponent(ptx_number number) {
    switch (number) {
    case PTX_F16:
    case PTX_E5M2: return -14;
    case PTX_E4M3: return -6;
    default: return -126;
    }
}

static sums_range range_of(const int16_t *exponents, int count) {
    int least = SUMS_NOT_FINITE, most = SUMS_ZERO;
    for (int n = 0; n < count; n++) {
        int exponent = exponents[n], low = exponent == SUMS_ZERO ? SUMS_NOT_FINITE : exponent;
        least = low < least ? low : least;
        most = exponent > most ? exponent : most;
    }
    return (sums_range){least, most};
}

void sums_prepare_rows(sums_rows *rows, int k_count, const sums_set *set, ptx_number a) {
    int count = 16 * k_count;
    set->exponents(rows->a[0], count, sums_least_exponent(a), rows->exponents[0], rows->codes[0]);
    rows->range = range_of(rows->exponents[0], count);
}

void sums_prepare_columns(sums_columns *columns, int k_count, const sums_set *set, ptx_number b) {
    int count = 8 * k_count;
    set->exponents(columns->b[0], count, sums_least_exponent(b), columns->exponents[0],
                   columns->codes[0]);
    columns->range = range_of(columns->exponents[0], count);
}

/* What infinities and NaNs make of a group; 0 when there are none. */
static float special_sum(const sums_product *p, int row, int column, int first, float sum) {
    float infinity = 0.0f;
    for (int n = 0, group = p->rule.group; n <= group; n++) {
        float x = n < group ? p->rows->a[first + n][row] : sum;
        float y = n < group ? p->columns->b[first + n][column] : 1.0f;
        if (isfinite(x) && isfinite(y)) continue;
        float product = x * y;
        if (isnan(product) || (infinity != 0.0f && product != infinity)) return NAN;
        infinity = product;
    }
    return infinity;
}

/* That of a group and the sum so far; 'column' counts as the factor's columns lie. */
static int top_of(const sums_product *p, int row, int column, int first, float sum) {
    int top = sums_exponent(number_f32_bits(sum), p->sum_least);
    for (int k = first; k < first + p->rule.group; k++) {
        int exponent = p->rows->exponents[k][row] + p->columns->exponents[k][column];
        if (exponent > top) top = exponent;
    }
    return top;
}

uint32_t sums_exact_tops(const sums_product *p, int first, int e, int place, int count,
                         const float *sum, int32_t *top) {
    uint32_t wild = 0;
    for (int n = 0; n < count; n++) {
        int row = (place + n) / 4, column = 4 * e + (place + n) % 4;
        top[n] = top_of(p, row, column, first, sum[n]);
        bool only_zeros = top[n] < SUMS_ONLY_ZEROS;
        if (!only_zeros && (top[n] > SUMS_TOP_MOST || top[n] < SUMS_TOP_LEAST)) wild |= 1u << row;
        if (only_zeros || wild >> row & 1u) top[n] = 0;
    }
    return wild;
}

static float add_group(const sums_product *p, int row, int column, int first, float sum) {
    float special = special_sum(p, row, column, first, sum);
    if (special != 0.0f) return number_canonical(special);
    int top = top_of(p, row, column, first, sum);
    if (top < SUMS_ONLY_ZEROS) return 0.0f;
    int shift = p->rule.fraction_bits - top;
    double total = trunc(ldexp(sum, shift));
    for (int k = first; k < first + p->rule.group; k++)
        total += trunc(ldexp((double)p->rows->a[k][row] * p->columns->b[k][column], shift));
    double value = ldexp(total, -shift);
    if (p->halves) return number_from_f16(number_round(value, NUMBER_F16, NUMBER_NEAREST, false));
    if (fabs(value) >= 0x1p128) return value < 0 ? -INFINITY : INFINITY;
    number_format format = {8, p->rule.result_bits, true};
    uint32_t bits = number_round(value, format, NUMBER_ZERO, false) << (23 - p->rule.result_bits);
    return bits << 1 ? number_f32(bits) : 0.0f; /* what is too small is +0 whatever its sign */
}

void sums_row(sums_product *p, int row) {
    for (int column = 0; column < 8; column++) {
        float *at = &p->sum[column / 4][4 * row + column % 4], sum = *at;
        for (int first = 0; first < p->k_count; first += p->rule.group)
            sum = add_group(p, row, column, first, sum);
        *at = sum;
    }
}

void sums_multiply(sums_product *p, const sums_set *set) {
    for (uint32_t left = set->multiply(p); left; left &= left - 1u)
        sums_row(p, __builtin_ctz(left));
}
