#include "verify/random.h"

#include <math.h>

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

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index) {
    uint64_t key =
        mix(seed + UINT64_C(0x9e3779b97f4a7c15)) ^ mix(stream + UINT64_C(0xd1b54a32d192ed03));
    return mix(mix(key + index * UINT64_C(0x9e3779b97f4a7c15)) ^ key);
}

uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t count) {
    return (random_bits(seed, stream, index) >> 11) % count; /* the bias is below count / 2^53 */
}

/* ln x for normal x > 0, to about 1e-15: x = f 2^e with f near 1, and ln f = 2 artanh((f-1)/(f+1)).
 */
static double natural_logarithm(double x) {
    int exponent;
    double f = frexp(x, &exponent);
    if (f < 0.7071067811865476) f *= 2, exponent--;
    double s = (f - 1) / (f + 1), square = s * s, sum = 0;
    for (int k = 21; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
    return exponent * 0.6931471805599453 + 2 * s * sum;
}

/* cos and sin of an angle in [0, pi/2], by their series. */
static double short_cosine(double a) {
    double square = a * a, sum = 0;
    for (int k = 18; k >= 2; k -= 2) sum = (1 + sum) * -square / (double)(k * (k - 1));
    return 1 + sum;
}

static double short_sine(double a) {
    double square = a * a, sum = 0;
    for (int k = 19; k >= 3; k -= 2) sum = (1 + sum) * -square / (double)(k * (k - 1));
    return a * (1 + sum);
}

/* The polar form: a radius from one half of the bits, an angle from the other. */
static void normal_pair(uint64_t bits, double out[2]) {
    double radius_u = ((double)(bits >> 32) + 0.5) * 0x1p-32;
    double turns = (double)(bits & UINT32_MAX) * 0x1p-32 * 4;
    double radius = sqrt(-2 * natural_logarithm(radius_u));
    int quadrant = (int)turns;
    double angle = (turns - quadrant) * 1.5707963267948966;
    double c = radius * short_cosine(angle), s = radius * short_sine(angle);
    out[0] = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
    out[1] = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
}

void random_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t count, double *out) {
    double pair[2];
    for (size_t i = 0; i < count; i++) {
        uint64_t index = first + i;
        if (i == 0 || index % 2 == 0) normal_pair(random_bits(seed, stream, index / 2), pair);
        out[i] = pair[index % 2];
    }
}
