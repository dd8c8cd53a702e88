/* Small floating-point formats in portable C: f16, bf16, tf32, e4m3, e5m2, and float to integer.
 *
 * Functions take and return bit patterns or floats and set no status. Inline, so that loops over
 * lanes vectorise. NaN results have the pattern that PTX calls canonical (all ones but the sign).
 */
#ifndef FLASHTL_EMULATE_NUMBER_H
#define FLASHTL_EMULATE_NUMBER_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define NUMBER_INLINE static inline __attribute__((always_inline))

typedef enum number_rounding {
    NUMBER_NEAREST, /* ties to even: PTX .rn, .rni */
    NUMBER_ZERO,    /* .rz, .rzi */
    NUMBER_DOWN,    /* .rm, .rmi */
    NUMBER_UP,      /* .rp, .rpi */
    NUMBER_AWAY     /* ties away from zero: .rna, tf32 only */
} number_rounding;

NUMBER_INLINE uint32_t number_f32_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

NUMBER_INLINE float number_f32(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

NUMBER_INLINE uint64_t number_f64_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

NUMBER_INLINE double number_f64(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Every NaN that f32 arithmetic makes is 0x7fffffff (PTX ISA, floating point: canonical NaN). */
NUMBER_INLINE float number_canonical(float x) {
    uint32_t bits = number_f32_bits(x);
    return number_f32((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits);
}

/* Subnormals become zero of their sign: the .ftz modifier, on inputs and results. */
NUMBER_INLINE float number_flush(float x) {
    uint32_t bits = number_f32_bits(x);
    return number_f32((bits & 0x7f800000u) ? bits : bits & 0x80000000u);
}

/* [0, 1], NaN to +0: the .sat modifier. */
NUMBER_INLINE float number_saturate(float x) {
    return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f;
}

NUMBER_INLINE float number_from_f16(uint32_t half) {
    uint32_t magnitude = half & 0x7fffu;
    /* Re-biasing the exponent by a product also normalises subnormals. */
    uint32_t bits = number_f32_bits(number_f32(magnitude << 13) * 0x1p112f);
    bits |= magnitude >= 0x7c00u ? 0x7f800000u : 0u;
    return number_f32(bits | (half & 0x8000u) << 16);
}

NUMBER_INLINE uint32_t number_to_f16(float x) {
    uint32_t bits = number_f32_bits(x), sign = bits >> 16 & 0x8000u;
    uint32_t magnitude = bits & 0x7fffffffu;
    /* Normal: re-bias, round to even on 13 dropped bits; a carry into 0x7c00 is infinity. */
    uint32_t normal = (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
    /* Subnormal: adding 0.5 makes the FPU drop the right bits, rounded to even. */
    uint32_t tiny = number_f32_bits(number_f32(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t large = magnitude > 0x7f800000u ? 0x7fffu : 0x7c00u;
    uint32_t result = magnitude < 0x38800000u ? tiny : normal;
    result = magnitude >= 0x47800000u ? large : result;
    sign = magnitude > 0x7f800000u ? 0u : sign;
    return result | sign;
}

NUMBER_INLINE float number_from_bf16(uint32_t bits) {
    return number_f32(bits << 16);
}

NUMBER_INLINE uint32_t number_to_bf16(float x) {
    uint32_t bits = number_f32_bits(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded;
}

NUMBER_INLINE float number_from_tf32(uint32_t bits) {
    return number_f32(bits & 0xffffe000u);
}

/* a + b with the last bit set when the sum is inexact ("round to odd"), so that a second rounding
 * to a much narrower format is the only one that counts.
 */
static inline double number_add_odd(double a, double b) {
    double sum = a + b;
    if (!isfinite(sum)) return sum;
    double other = sum - a;
    double error = (a - (sum - other)) + (b - other);
    uint64_t bits = number_f64_bits(sum);
    if (error == 0.0 || (bits & 1u)) return sum;
    bool away = (error > 0.0) == (sum > 0.0);
    return number_f64(away ? bits + 1u : bits - 1u);
}

/* A float format by its field widths. */
typedef struct number_format {
    int exponent_bits, mantissa_bits;
    bool has_infinity; /* e4m3 has none: its largest pattern is NaN */
} number_format;

#define NUMBER_F16 ((number_format){5, 10, true})
#define NUMBER_BF16 ((number_format){8, 7, true})
#define NUMBER_TF32 ((number_format){8, 10, true})
#define NUMBER_F32 ((number_format){8, 23, true})
#define NUMBER_E4M3 ((number_format){4, 3, false})
#define NUMBER_E5M2 ((number_format){5, 2, true})

/* x rounded to the format, in one step; 'saturate' gives the largest finite value instead of
 * infinity. Slow and general.
 */
uint32_t number_round(double x, number_format format, number_rounding rounding, bool saturate);
float number_expand(uint32_t bits, number_format format);

#endif
