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

void sums_prepare_rows(lanes_rows *rows, int k_count, const lanes_set *set, ptx_number a) {
    set->exponents(rows->exponents, rows->a, 16 * k_count, sums_least_exponent(a));
}

void sums_prepare_columns(lanes_columns *columns, int k_count, const lanes_set *set, ptx_number b) {
    int16_t once[LANES_K_MAX][8];
    set->exponents(once[0], columns->b[0], 8 * k_count, sums_least_exponent(b));
    for (int k = 0; k < k_count; k++) {
        memcpy(columns->exponents[k], once[k], sizeof once[k]);
        memcpy(columns->exponents[k] + 8, once[k], sizeof once[k]);
    }
}

/* What infinities and NaNs make of a group; 0 when there are none. */
static float special_sum(const lanes_product *p, const float *a, int column, int first, float sum) {
    float infinity = 0.0f;
    for (int n = 0; n <= p->group; n++) {
        float x = n < p->group ? a[first + n] : sum;
        float y = n < p->group ? p->columns->b[first + n][column] : 1.0f;
        if (isfinite(x) && isfinite(y)) continue;
        float product = x * y;
        if (isnan(product) || (infinity != 0.0f && product != infinity)) return NAN;
        infinity = product;
    }
    return infinity;
}

static float add_group(const lanes_product *p, int row, int column, int first, float sum) {
    const float *a = p->rows->a + row * p->k_count;
    const int16_t *exponents = p->rows->exponents + row * p->k_count;
    float special = special_sum(p, a, column, first, sum);
    if (special != 0.0f) return number_canonical(special);
    int top = lanes_exponent(number_f32_bits(sum), p->sum_least);
    for (int k = first; k < first + p->group; k++) {
        int exponent = exponents[k] + p->columns->exponents[k][column];
        if (exponent > top) top = exponent;
    }
    if (top < LANES_ONLY_ZEROS) return 0.0f;
    int shift = p->fraction_bits - top;
    double total = trunc(ldexp(sum, shift));
    for (int k = first; k < first + p->group; k++)
        total += trunc(ldexp((double)a[k] * p->columns->b[k][column], shift));
    double value = ldexp(total, -shift);
    if (p->halves) return number_from_f16(number_round(value, NUMBER_F16, NUMBER_NEAREST, false));
    if (fabs(value) >= 0x1p128) return value < 0 ? -INFINITY : INFINITY;
    number_format format = {8, p->result_bits, true};
    uint32_t bits = number_round(value, format, NUMBER_ZERO, false) << (23 - p->result_bits);
    return bits << 1 ? number_f32(bits) : 0.0f; /* what is too small is +0 whatever its sign */
}

void sums_row(lanes_product *p, int row) {
    for (int column = 0; column < 8; column++) {
        float sum = p->sum[row][column];
        for (int first = 0; first < p->k_count; first += p->group)
            sum = add_group(p, row, column, first, sum);
        p->sum[row][column] = sum;
    }
}
