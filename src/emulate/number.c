#include "emulate/number.h"

static double round_steps(double steps, number_rounding rounding) {
    switch (rounding) {
    case NUMBER_NEAREST: return nearbyint(steps);
    case NUMBER_ZERO: return trunc(steps);
    case NUMBER_DOWN: return floor(steps);
    case NUMBER_UP: return ceil(steps);
    case NUMBER_AWAY: return round(steps);
    }
    return steps;
}

static bool overflows_to_largest(bool negative, number_rounding rounding) {
    if (rounding == NUMBER_ZERO) return true;
    return negative ? rounding == NUMBER_UP : rounding == NUMBER_DOWN;
}

uint32_t number_round(double x, number_format format, number_rounding rounding, bool saturate) {
    int bias = (1 << (format.exponent_bits - 1)) - 1, mantissa_bits = format.mantissa_bits;
    uint32_t exponent_all = (1u << format.exponent_bits) - 1u;
    uint32_t infinity = exponent_all << mantissa_bits;
    uint32_t nan = infinity | ((1u << mantissa_bits) - 1u);
    uint32_t largest = format.has_infinity ? infinity - 1u : nan - 1u;
    if (isnan(x)) return nan;
    bool negative = signbit(x);
    uint32_t sign = negative ? 1u << (format.exponent_bits + mantissa_bits) : 0u;
    if (isinf(x)) return sign | (saturate ? largest : format.has_infinity ? infinity : nan);
    if (x == 0.0) return sign;
    int exponent;
    frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
    int step = exponent - 1 - mantissa_bits, least_step = 1 - bias - mantissa_bits;
    if (step < least_step) step = least_step;
    double steps = fabs(round_steps(ldexp(x, -step), rounding));
    uint64_t whole = (uint64_t)steps; /* at most 2^(mantissa_bits+1) */
    uint64_t bits = whole + ((uint64_t)(step - least_step) << mantissa_bits);
    if (bits <= largest) return sign | (uint32_t)bits;
    if (saturate || overflows_to_largest(negative, rounding)) return sign | largest;
    return sign | (format.has_infinity ? infinity : nan);
}

float number_expand(uint32_t bits, number_format format) {
    int bias = (1 << (format.exponent_bits - 1)) - 1, mantissa_bits = format.mantissa_bits;
    uint32_t exponent_all = (1u << format.exponent_bits) - 1u;
    uint32_t mantissa = bits & ((1u << mantissa_bits) - 1u);
    uint32_t exponent = bits >> mantissa_bits & exponent_all;
    bool negative = bits >> (format.exponent_bits + mantissa_bits) & 1u;
    float value;
    bool is_nan = format.has_infinity
                      ? exponent == exponent_all && mantissa
                      : exponent == exponent_all && mantissa == (1u << mantissa_bits) - 1u;
    if (is_nan) return number_f32(0x7fffffffu);
    if (format.has_infinity && exponent == exponent_all) value = INFINITY;
    else if (!exponent) value = ldexpf((float)mantissa, 1 - bias - mantissa_bits);
    else
        value =
            ldexpf((float)(mantissa | 1u << mantissa_bits), (int)exponent - bias - mantissa_bits);
    return negative ? -value : value;
}
