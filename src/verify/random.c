#include "verify/random.h"
#include "base/wide.h"

#include "base/number.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A fused multiply-add rounds once where two operations round twice: never contract. (gcc does not
 * in its ISO mode.)
 */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* A bijection of 64 bits in which every output bit depends on every input bit (the finaliser of
 * MurmurHash3 with the constants of "variant 13").
 */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t key_of(uint64_t seed, uint64_t stream) {
    return mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ mix(stream + UINT64_C(0xd1b54a32d192ed03));
}

static uint64_t bits_at(uint64_t key, uint64_t index) {
    return mix(mix(key + index * UINT64_C(0x9e3779b97f4a7c15)) ^ key);
}

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
    return bits_at(key_of(seed, stream), index);
}

uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t count) {
    return (random_bits(seed, stream, index) >> 11) % count; /* the bias is below count / 2^53 */
}

/* Many numbers at a time, each step by itself: processors do several at once. */
enum { PAIRS = 32 };

/* Of a whole number below 2^52. */
static double from_whole(uint64_t value) {
    return number_of_bits(number_bits(0x1p52) | value) - 0x1p52;
}

/* ln x for normal x > 0, to about 1e-15: x = f 2^e with f near 1, and ln f = 2 artanh((f-1)/(f+1)).
 */
static double natural_logarithm(double x) {
    enum { FRACTION = 52, HALF = 1022 }; /* the exponent of 0.5 to 1 */
    uint64_t bits = number_bits(x), mask = (UINT64_C(1) << FRACTION) - 1;
    double exponent = from_whole(bits >> FRACTION) - HALF;
    double f = number_of_bits((bits & mask) | (uint64_t)HALF << FRACTION);
    bool is_low = f < 0.7071067811865476;
    f = is_low ? f * 2 : f;
    exponent = is_low ? exponent - 1 : exponent;
    double s = (f - 1) / (f + 1), square = s * s, sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return exponent * 0.6931471805599453 + 2 * s * sum;
}

/* Of the series of cos and sin of an angle in [0, pi/2], without their first term and that as a
 * factor: up to the power 'last'.
 */
static double series(double a, int last) {
    double square = a * a, sum = 0;
    for (int k = last; k >= 2; k -= 2) sum = (1 + sum) * -square / (double)(k * (k - 1));
    return 1 + sum;
}

/* The polar form: a radius from one half of the bits, an angle from the other. */
WIDE_VECTORS static void normal_pairs(const uint64_t bits[PAIRS], double out[2 * PAIRS]) {
    double radius[PAIRS], cosine[PAIRS], sine[PAIRS];
    for (int i = 0; i < PAIRS; i++)
        radius[i] = -2 * natural_logarithm((from_whole(bits[i] >> 32) + 0.5) * 0x1p-32);
    for (int i = 0; i < PAIRS; i++) radius[i] = sqrt(radius[i]);
    for (int i = 0; i < PAIRS; i++) {
        double angle = from_whole(bits[i] & (UINT32_MAX >> 2)) * 0x1p-30 * 1.5707963267948966;
        cosine[i] = radius[i] * series(angle, 18), sine[i] = radius[i] * angle * series(angle, 19);
    }
    for (int i = 0; i < PAIRS; i++) {
        uint64_t quadrant = bits[i] >> 30 & 3, c = number_bits(cosine[i]), s = number_bits(sine[i]);
        bool is_turned = quadrant & 1;
        uint64_t is_left = (quadrant ^ quadrant >> 1) & 1, is_below = quadrant >> 1;
        out[2 * i] = number_of_bits((is_turned ? s : c) ^ is_left << 63);
        out[2 * i + 1] = number_of_bits((is_turned ? c : s) ^ is_below << 63);
    }
}

void random_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t count, double *out) {
    uint64_t bits[PAIRS], key = key_of(seed, stream);
    double made[2 * PAIRS];
    for (size_t done = 0; done < count;) {
        size_t skipped = (first + done) % 2, taken = 2 * PAIRS - skipped;
        for (uint64_t i = 0; i < PAIRS; i++) bits[i] = bits_at(key, (first + done) / 2 + i);
        normal_pairs(bits, made);
        if (taken > count - done) taken = count - done;
        memcpy(out + done, made + skipped, taken * sizeof *out);
        done += taken;
    }
}
