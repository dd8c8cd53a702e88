#include "emulate/lanes.h"

#include "emulate/number.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* One expression serves signed and unsigned types, and stores cut to the result's width. */
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed"
#pragma GCC diagnostic ignored "-Wtautological-compare"
#pragma GCC diagnostic ignored "-Wtautological-unsigned-zero-compare"
#pragma STDC FP_CONTRACT OFF
/* The result may be one of the inputs, lane by lane: no lane depends on another. */
#define LANES_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES_LOOP _Pragma("GCC ivdep")
#endif

__extension__ typedef unsigned __int128 wide_unsigned;
__extension__ typedef __int128 wide_signed;

/* A type's cell in a row, its value in an expression, and the ways in and out. */
#define TYPE(t, cell, value, in, out)                                                              \
    typedef cell cell_##t;                                                                         \
    typedef value value_##t;                                                                       \
    NUMBER_INLINE value get_##t(cell c) {                                                          \
        return in;                                                                                 \
    }                                                                                              \
    __attribute__((unused)) NUMBER_INLINE cell put_##t(value v) { /* nobody writes f32z */         \
        return out;                                                                                \
    }
#define INTEGER(t, cell, value, out, least, most)                                                  \
    TYPE(t, cell, value, (value)c, out)                                                            \
    static const value least_##t = least, most_##t = most;
/* Bytes fill the word by their sign: a wider read of the register sees the number. */
INTEGER(u8, uint32_t, uint8_t, v, 0, UINT8_MAX)
INTEGER(s8, uint32_t, int8_t, (uint32_t)v, INT8_MIN, INT8_MAX)
INTEGER(u16, uint32_t, uint16_t, v, 0, UINT16_MAX)
INTEGER(s16, uint32_t, int16_t, (uint16_t)v, INT16_MIN, INT16_MAX)
INTEGER(u32, uint32_t, uint32_t, v, 0, UINT32_MAX)
INTEGER(s32, uint32_t, int32_t, (uint32_t)v, INT32_MIN, INT32_MAX)
INTEGER(u64, uint64_t, uint64_t, v, 0, UINT64_MAX)
INTEGER(s64, uint64_t, int64_t, (uint64_t)v, INT64_MIN, INT64_MAX)
TYPE(f16, uint32_t, float, number_from_f16(c & 0xffffu), number_to_f16(v))
TYPE(bf16, uint32_t, float, number_from_bf16(c), number_to_bf16(v))
TYPE(f32, float, float, c, v)
TYPE(f32z, float, float, number_flush(c), v)
TYPE(f64, double, double, c, v)
#undef TYPE
#undef INTEGER
#define FORMAT_f16 NUMBER_F16
#define FORMAT_bf16 NUMBER_BF16
#define ROUND_f32(x, how) how##f(x)
#define ROUND_f16(x, how) how##f(x)
#define ROUND_bf16(x, how) how##f(x)
#define ROUND_f64(x, how) how(x)
#define LOW_f16(x) number_from_f16((x)&0xffffu)
#define HIGH_f16(x) number_from_f16((x) >> 16)
#define PACK_f16(low, high) (number_to_f16(low) | number_to_f16(high) << 16)
#define LOW_bf16(x) number_from_bf16(x)
#define HIGH_bf16(x) number_f32((x)&0xffff0000u)
#define PACK_bf16(low, high) (number_to_bf16(low) | number_to_bf16(high) << 16)

NUMBER_INLINE int32_t clamp_s32(int64_t x) {
    return x > INT32_MAX ? INT32_MAX : x < INT32_MIN ? INT32_MIN : (int32_t)x;
}

NUMBER_INLINE uint64_t high_u64(uint64_t x, uint64_t y) {
    return (uint64_t)(((wide_unsigned)x * y) >> 64);
}

NUMBER_INLINE int64_t high_s64(int64_t x, int64_t y) {
    return (int64_t)(((wide_signed)x * y) >> 64);
}

NUMBER_INLINE int64_t signed24(uint32_t x) {
    return (int64_t)(int32_t)(x << 8) >> 8;
}

/* PTX ISA, lop3: the table's bit (a, b, c) is the result where the inputs are a, b, c. */
NUMBER_INLINE uint32_t lop3(uint32_t x, uint32_t y, uint32_t z, uint32_t table) {
    uint32_t result = 0;
    for (uint32_t bit = 0; bit < 8; bit++) {
        uint32_t term = (bit & 4u ? x : ~x) & (bit & 2u ? y : ~y) & (bit & 1u ? z : ~z);
        result |= term & (0u - (table >> bit & 1u));
    }
    return result;
}

/* PTX ISA, cvt.pack: the second operand is the lowest byte; what was packed before goes above. */
NUMBER_INLINE uint32_t pack_u8(int32_t x, int32_t y, uint32_t z) {
    uint32_t a = x < 0     ? 0
                 : x > 255 ? 255
                           : (uint32_t)x,
             b = y < 0     ? 0
                 : y > 255 ? 255
                           : (uint32_t)y;
    return z << 16 | a << 8 | b;
}

/* PTX ISA, prmt in its default mode: bit 3 of a selector replicates the byte's sign. */
NUMBER_INLINE uint32_t permute(uint32_t x, uint32_t y, uint32_t selector) {
    uint64_t bytes = (uint64_t)y << 32 | x;
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t pick = selector >> 4 * i & 15u;
        uint32_t byte = (uint32_t)(bytes >> 8 * (pick & 7u)) & 0xffu;
        if (pick & 8u) byte = byte & 0x80u ? 0xffu : 0u;
        result |= byte << 8 * i;
    }
    return result;
}

/* PTX ISA, bfe: position and length are their low 8 bits; past the top, zeros or the sign. */
NUMBER_INLINE uint64_t field_u64(uint64_t x, uint32_t position, uint32_t length, uint32_t bits) {
    position &= 0xffu;
    length &= 0xffu;
    if (position >= bits || !length) return 0;
    uint64_t shifted = x >> position;
    return length >= 64 ? shifted : shifted & ((1ull << length) - 1u);
}

NUMBER_INLINE uint64_t field_s64(uint64_t x, uint32_t position, uint32_t length, uint32_t bits) {
    position &= 0xffu;
    length &= 0xffu;
    if (!length) return 0;
    uint32_t top = position + length - 1u < bits - 1u ? position + length - 1u : bits - 1u;
    bool sign = x >> top & 1u;
    uint64_t field = field_u64(bits == 32 ? (uint32_t)x : x, position, length, bits);
    uint32_t kept = position < bits ? top - position + 1u : 0u;
    return sign && kept < 64 ? field | ~0ull << kept : field;
}

/* PTX ISA, bfi: the low bits of x go into y. */
NUMBER_INLINE uint64_t insert_u64(uint64_t x, uint64_t y, uint32_t position, uint32_t length,
                                  uint32_t bits) {
    position &= 0xffu;
    length &= 0xffu;
    if (position >= bits || !length) return y;
    uint64_t field = length >= 64 ? ~0ull : (1ull << length) - 1u;
    return (y & ~(field << position)) | (x & field) << position;
}

NUMBER_INLINE uint32_t reverse32(uint32_t x) {
    x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
    x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
    x = (x >> 4 & 0x0f0f0f0fu) | (x & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(x);
}

NUMBER_INLINE int32_t top_bit(uint32_t x) {
    return x ? 31 - __builtin_clz(x) : -1;
}

NUMBER_INLINE uint32_t dot4(uint32_t x, uint32_t y, bool x_signed, bool y_signed) {
    int32_t sum = 0;
    for (int i = 0; i < 32; i += 8) {
        int32_t p = x_signed ? (int8_t)(x >> i) : (uint8_t)(x >> i);
        int32_t q = y_signed ? (int8_t)(y >> i) : (uint8_t)(y >> i);
        sum += p * q;
    }
    return (uint32_t)sum;
}

NUMBER_INLINE float nan_f32(void) {
    return number_f32(0x7fffffffu);
}

/* PTX ISA, min and max: a NaN loses against a number, and -0 is less than +0. */
NUMBER_INLINE float least(float x, float y) {
    float tie = number_f32(number_f32_bits(x) | number_f32_bits(y));
    float result = x < y ? x : x > y ? y : tie;
    return x != x ? number_canonical(y) : y != y ? x : result;
}

NUMBER_INLINE float greatest(float x, float y) {
    float tie = number_f32(number_f32_bits(x) & number_f32_bits(y));
    float result = x > y ? x : x < y ? y : tie;
    return x != x ? number_canonical(y) : y != y ? x : result;
}

/* Infinities and NaNs lose their low bits, as recorded on a GPU. */
NUMBER_INLINE uint32_t nearest_tf32(float x) {
    uint32_t bits = number_f32_bits(x);
    bool finite = (bits & 0x7f800000u) != 0x7f800000u;
    return (finite ? bits + 0x1000u : bits) & 0xffffe000u;
}

NUMBER_INLINE float relu(float x) {
    return x != x ? nan_f32() : x > 0.0f ? x : 0.0f;
}

NUMBER_INLINE float directed(double x, number_rounding rounding) {
    return number_f32(number_round(x, NUMBER_F32, rounding, false));
}

/* An exact zero sum is -0 when rounding down (IEEE 754, 6.3). */
NUMBER_INLINE float directed_sum(double x, double y, number_rounding rounding) {
    double sum = number_add_odd(x, y);
    if (sum == 0.0 && rounding == NUMBER_DOWN &&
        !(x == 0.0 && y == 0.0 && !signbit(x) && !signbit(y)))
        return -0.0f;
    return directed(sum, rounding);
}

NUMBER_INLINE float directed_add(float x, float y, number_rounding rounding) {
    return directed_sum(x, y, rounding);
}

NUMBER_INLINE float directed_fma(float x, float y, float z, number_rounding rounding) {
    return directed_sum((double)x * y, z, rounding);
}

/* PTX ISA, div.approx: for |y| above 2^126 the quotient is 0 (x infinite: NaN). */
NUMBER_INLINE float divide_approx(float x, float y) {
    float size = fabsf(y);
    if (size > 0x1p126f && size < INFINITY)
        return isinf(x) || x != x ? nan_f32() : x * copysignf(0.0f, y);
    return number_canonical(x / y);
}

/* 2^x within 1 ulp (exact for whole x): a polynomial on [-1/2, 1/2], scaled in two steps so that
 * subnormal results round once. No branch, so that it vectorises.
 */
NUMBER_INLINE float power_of_two(float x) {
    float limited = x < -160.0f ? -160.0f : x > 129.0f ? 129.0f : x;
    limited = x != x ? 0.0f : limited;
    float whole = (limited + 0x1.8p23f) - 0x1.8p23f, rest = limited - whole;
    float p = 1.52527338e-5f;
    p = p * rest + 1.54035304e-4f;
    p = p * rest + 1.33335581e-3f;
    p = p * rest + 9.61812911e-3f;
    p = p * rest + 5.55041087e-2f;
    p = p * rest + 2.40226507e-1f;
    p = p * rest + 6.93147181e-1f;
    p = p * rest + 1.0f;
    int32_t exponent = (int32_t)whole, half = exponent >> 1;
    float first = number_f32((uint32_t)(half + 127) << 23);
    float second = number_f32((uint32_t)(exponent - half + 127) << 23);
    return x != x ? nan_f32() : p * first * second;
}

/* A double to a float whose last bit remembers what was cut: safe to round once more. */
NUMBER_INLINE float narrow_odd(double x) {
    float near = (float)x;
    uint32_t bits = number_f32_bits(near);
    bool exact = (double)near == x || x != x, odd = bits & 1u;
    bool too_far = fabs((double)near) > fabs(x);
    uint32_t other = too_far ? bits - 1u : bits + 1u;
    bool keep = exact || odd || (bits & 0x7fffffffu) == 0x7f800000u;
    return keep ? near : number_f32(other);
}

NUMBER_INLINE uint32_t fused_f16(float x, float y, float z) {
    return number_to_f16(narrow_odd(number_add_odd((double)x * y, z)));
}

NUMBER_INLINE uint32_t fused_relu_f16(float x, float y, float z) {
    return number_to_f16(relu(number_from_f16(fused_f16(x, y, z))));
}

NUMBER_INLINE uint32_t fused_bf16(float x, float y, float z) {
    return number_to_bf16(narrow_odd(number_add_odd((double)x * y, z)));
}

NUMBER_INLINE uint32_t fused_relu_bf16(float x, float y, float z) {
    return number_to_bf16(relu(number_from_bf16(fused_bf16(x, y, z))));
}

/* PTX ISA, cvt: floats to integers clamp; NaN gives 0, or the sign bit for 64-bit results. */
NUMBER_INLINE int64_t to_signed(double x, double least_value, double past) {
    return x != x            ? 0
           : x < least_value ? (int64_t)least_value
           : x >= past       ? (int64_t)(past - 1.0)
                             : (int64_t)x;
}

#define TO(t, least_value, past)                                                                   \
    NUMBER_INLINE int64_t to_##t(double x) {                                                       \
        return to_signed(x, least_value, past);                                                    \
    }
TO(u8, 0.0, 0x1p8)
TO(s8, -0x1p7, 0x1p7)
TO(u16, 0.0, 0x1p16)
TO(s16, -0x1p15, 0x1p15)
TO(u32, 0.0, 0x1p32)
TO(s32, -0x1p31, 0x1p31)
#undef TO

NUMBER_INLINE int64_t to_s64(double x) {
    return x != x || x < -0x1p63 ? INT64_MIN : x >= 0x1p63 ? INT64_MAX : (int64_t)x;
}

NUMBER_INLINE uint64_t to_u64(double x) {
    return x != x ? 1ull << 63 : x < 0.0 ? 0 : x >= 0x1p64 ? UINT64_MAX : (uint64_t)x;
}

#define LANES_TARGET
#define LANES_NAME(id) plain_##id
#define LANES_EIGHT_F16(to, from)                                                                  \
    for (int i = 0; i < 4; i++) {                                                                  \
        (to)[2 * i] = number_from_f16((from)[i] & 0xffffu);                                        \
        (to)[2 * i + 1] = number_from_f16((from)[i] >> 16);                                        \
    }
#define LANES_TRANSPOSE                                                                            \
    for (int i = 0; i < 8; i++)                                                                    \
        for (int j = 0; j < 8; j++) to[j * to_stride + i] = from[i * from_stride + j];
#define LANES_MASK_OF                                                                              \
    uint32_t mask = 0;                                                                             \
    for (int l = 0; l < LANES; l++) mask |= (test[l] ? 1u : 0u) << l;                              \
    return mask;
#include "emulate/lanes.inc"

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2,fma,f16c")))

AVX2 static void transpose_avx2(float *to, int to_stride, const float *from, int from_stride) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + i * from_stride);
    for (int i = 0; i < 8; i += 2) { /* pairs of rows */
        b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
        b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) { /* fours */
        a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
        a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
        a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
        a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) { /* halves */
        _mm256_storeu_ps(to + i * to_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
        _mm256_storeu_ps(to + (i + 4) * to_stride, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
    }
}

#define LANES_TARGET AVX2
#define LANES_NAME(id) avx2_##id
#define LANES_EIGHT_F16(to, from)                                                                  \
    _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from))));
#define LANES_TRANSPOSE transpose_avx2(to, to_stride, from, from_stride);
#define LANES_MASK_OF                                                                              \
    uint32_t mask = 0;                                                                             \
    for (int l = 0; l < LANES; l += 8)                                                             \
        mask |=                                                                                    \
            (uint32_t)_mm256_movemask_ps(_mm256_loadu_ps((const float *)(const void *)(test + l))) \
            << l;                                                                                  \
    return mask;
#include "emulate/lanes.inc"
#endif

const lanes_entry lanes_entries[] = {
#define IS_FLOAT(T) _Generic((value_##T)0, float : 1, double : 1, default : 0)
#define INPUT(n, name, T) sizeof(cell_##T),
#define LANE(spelling, id, count, is_test, D, A, inputs, e)                                        \
    {spelling, sizeof(cell_##D), count, {inputs}, is_test, IS_FLOAT(A)},
#include "emulate/lanes.def"
};

const int lanes_count = (int)(sizeof lanes_entries / sizeof *lanes_entries);

const lanes_set *lanes_choose(bool plain_only) {
#if defined(__x86_64__)
    if (!plain_only && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &avx2_set;
#endif
    (void)plain_only;
    return &plain_set;
}
