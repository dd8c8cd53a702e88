/* The ways of multiplying usual numbers: vectors of whatever the processor has. All give the same
 * bits.
 */
#include "emulate/sums.h"

#include "emulate/number.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* A sum of whole units to a float: towards zero; or, where one more rounding comes, so that the
 * last bit says whether anything was cut.
 */
NUMBER_INLINE float cut_sum(double x, bool sticky) {
    uint64_t bits = number_f64_bits(x), below = bits & 0x1fffffffu;
    bits -= below;
    if (sticky && below) bits |= 0x20000000u;
    return (float)number_f64(bits);
}

/* --- without anything special ----------------------------------------------------------------- */

#define SUMS_TARGET
#define SUMS_NAME(id) plain_##id
#define SUMS_WIDE 4
#define SUMS_CODES_OF_ROWS(to, from)                                                               \
    do {                                                                                           \
        uint32_t words[4];                                                                         \
        for (int i = 0; i < 4; i++) words[i] = 0x01010101u * (uint8_t)(from)[i];                   \
        memcpy(&(to), words, sizeof words);                                                        \
    } while (0)
#define SUMS_CODES_OF_COLUMNS(to, from)                                                            \
    do {                                                                                           \
        uint32_t words[4];                                                                         \
        for (int i = 0; i < 4; i++) memcpy(&words[i], from, sizeof *words);                        \
        memcpy(&(to), words, sizeof words);                                                        \
    } while (0)
#define SUMS_FACTORS_OF_ROWS(to, from)                                                             \
    (to) = *(from) - (plain_floats) {                                                              \
        0                                                                                          \
    }
#define SUMS_FACTORS_OF_COLUMNS(to, from) memcpy(&(to), from, sizeof(to))
#define SUMS_MAXIMUM(a, b)                                                                         \
    do {                                                                                           \
        plain_bytes less = (a) < (b);                                                              \
        (a) = ((a) & ~less) | ((b)&less);                                                          \
    } while (0)
#define SUMS_WIDEN(to, from)                                                                       \
    for (int i = 0; i < 4; i++) (to)[i] = (from)[i]
#define SUMS_ANY(x) ((x)[0] | (x)[1] | (x)[2] | (x)[3])
#define SUMS_NEGATIVE(x) (SUMS_ANY(x) < 0)
#define SUMS_TRUNCATE(x) __builtin_convertvector((x), plain_words)
#define SUMS_CUT(to, x)                                                                            \
    for (int i = 0; i < 4; i++) (to)[i] = cut_sum((x)[i], false)
#include "emulate/sums_fast.inc"

#if defined(__x86_64__)

/* --- AVX2 ------------------------------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2,fma,f16c")))

/* Sizes are rounded to nearest, and go one step back where that went too far. */
AVX2 NUMBER_INLINE __m256 avx2_cut(__m256i x) {
    __m256i size = _mm256_abs_epi32(x), sign = _mm256_set1_epi32(INT32_MIN);
    __m256 near = _mm256_cvtepi32_ps(size);
    __m256i past = _mm256_sub_epi32(_mm256_cvttps_epi32(near), size);
    __m256i back = _mm256_cmpgt_epi32(past, _mm256_setzero_si256());
    __m256i cut = _mm256_add_epi32(_mm256_castps_si256(near), back);
    return _mm256_castsi256_ps(_mm256_or_si256(cut, _mm256_and_si256(x, sign)));
}

/* Two rows, of four places each. */
AVX2 NUMBER_INLINE __m256 avx2_factors_of_rows(const float *from) {
    double two;
    memcpy(&two, from, sizeof two);
    return _mm256_permutevar_ps(_mm256_castpd_ps(_mm256_set1_pd(two)),
                                _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
}

AVX2 NUMBER_INLINE __m256i avx2_codes_of_rows(const int8_t *from) {
    int64_t eight;
    memcpy(&eight, from, sizeof eight);
    __m256i order = _mm256_setr_epi32(0, 0x01010101, 0x02020202, 0x03030303, 0x04040404, 0x05050505,
                                      0x06060606, 0x07070707);
    return _mm256_shuffle_epi8(_mm256_set1_epi64x(eight), order);
}

AVX2 NUMBER_INLINE __m256i avx2_codes_of_columns(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm256_set1_epi32(four);
}

#define SUMS_TARGET AVX2
#define SUMS_NAME(id) avx2_##id
#define SUMS_WIDE 8
#define SUMS_CODES_OF_ROWS(to, from) (to) = (avx2_bytes)avx2_codes_of_rows(from)
#define SUMS_CODES_OF_COLUMNS(to, from) (to) = (avx2_bytes)avx2_codes_of_columns(from)
#define SUMS_FACTORS_OF_ROWS(to, from) (to) = (avx2_floats)avx2_factors_of_rows(from)
#define SUMS_FACTORS_OF_COLUMNS(to, from)                                                          \
    (to) = (avx2_floats)_mm256_broadcast_ps((const __m128 *)(const void *)(from))
#define SUMS_MAXIMUM(a, b) (a) = (avx2_bytes)_mm256_max_epi8((__m256i)(a), (__m256i)(b))
#define SUMS_WIDEN(to, from)                                                                       \
    (to) = (avx2_words)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(from)))
#define SUMS_ANY(x) !_mm256_testz_si256((__m256i)(x), (__m256i)(x))
#define SUMS_NEGATIVE(x) _mm256_movemask_ps((__m256)(x))
#define SUMS_TRUNCATE(x) (avx2_words) _mm256_cvttps_epi32((__m256)(x))
#define SUMS_CUT(to, x) (to) = (avx2_floats)avx2_cut((__m256i)(x))
#include "emulate/sums_fast.inc"

/* --- AVX-512 ---------------------------------------------------------------------------------- */

#define AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))

/* Four rows, of four places each. */
AVX512 NUMBER_INLINE __m512 avx512_factors_of_rows(const float *from) {
    __m512i order =
        _mm512_inserti64x4(_mm512_castsi256_si512(_mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1)),
                           _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3), 1);
    return _mm512_permutevar_ps(_mm512_broadcast_f32x4(_mm_loadu_ps(from)), order);
}

AVX512 NUMBER_INLINE __m512i avx512_codes_of_rows(const int8_t *from) {
    __m512i order = _mm512_setr_epi32(0, 0x01010101, 0x02020202, 0x03030303, 0x04040404, 0x05050505,
                                      0x06060606, 0x07070707, 0x08080808, 0x09090909, 0x0a0a0a0a,
                                      0x0b0b0b0b, 0x0c0c0c0c, 0x0d0d0d0d, 0x0e0e0e0e, 0x0f0f0f0f);
    __m128i codes = _mm_loadu_si128((const __m128i *)(const void *)from);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(codes), order);
}

AVX512 NUMBER_INLINE __m512i avx512_codes_of_columns(const int8_t *from) {
    int32_t four;
    memcpy(&four, from, sizeof four);
    return _mm512_set1_epi32(four);
}

#define SUMS_TARGET AVX512
#define SUMS_NAME(id) avx512_##id
#define SUMS_WIDE 16
#define SUMS_CODES_OF_ROWS(to, from) (to) = (avx512_bytes)avx512_codes_of_rows(from)
#define SUMS_CODES_OF_COLUMNS(to, from) (to) = (avx512_bytes)avx512_codes_of_columns(from)
#define SUMS_FACTORS_OF_ROWS(to, from) (to) = (avx512_floats)avx512_factors_of_rows(from)
#define SUMS_FACTORS_OF_COLUMNS(to, from)                                                          \
    (to) = (avx512_floats)_mm512_broadcast_f32x4(_mm_loadu_ps(from))
#define SUMS_MAXIMUM(a, b) (a) = (avx512_bytes)_mm512_max_epi8((__m512i)(a), (__m512i)(b))
#define SUMS_WIDEN(to, from)                                                                       \
    (to) =                                                                                         \
        (avx512_words)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(from)))
#define SUMS_ANY(x) _mm512_test_epi32_mask((__m512i)(x), (__m512i)(x))
#define SUMS_NEGATIVE(x) _mm512_movepi32_mask((__m512i)(x))
#define SUMS_TRUNCATE(x) (avx512_words) _mm512_cvttps_epi32((__m512)(x))
#define SUMS_CUT(to, x)                                                                            \
    (to) = (avx512_floats)_mm512_cvt_roundepi32_ps((__m512i)(x),                                   \
                                                   _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#include "emulate/sums_fast.inc"
#endif

const sums_set *sums_set_of(int number) {
    const sums_set *sets[4] = {&plain_set};
    int count = 1;
#if defined(__x86_64__)
    bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (has_avx2) sets[count++] = &avx2_set;
    if (has_avx2 && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        sets[count++] = &avx512_set;
#endif
    return number < count ? sets[number] : NULL;
}

const sums_set *sums_choose(bool plain_only) {
    const sums_set *best = sums_set_of(0);
    for (int n = 1; !plain_only && sums_set_of(n); n++) best = sums_set_of(n);
    return best;
}
