/* What the recorder (on a GPU) and the comparison (on the emulator) share: the list of kernels,
 * their inputs, and the shape of the results: for each kernel BLOCKS x outputs x 32 words, little
 * endian. Inputs depend on the place in the list: new kernels go to its end.
 */
#ifndef FLASHTL_TESTS_CONFORMANCE_H
#define FLASHTL_TESTS_CONFORMANCE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
    CONFORMANCE_BLOCKS = 16, /* for products: the first half exact, the other half random */
    CONFORMANCE_INPUTS = 12,
    CONFORMANCE_OUTPUTS = 4,
    CONFORMANCE_INPUT_WORDS = CONFORMANCE_BLOCKS * CONFORMANCE_INPUTS * 32,
    CONFORMANCE_OUTPUT_WORDS = CONFORMANCE_BLOCKS * CONFORMANCE_OUTPUTS * 32
};

/* How a kernel's words are made. */
typedef enum conformance_form {
    BITS,
    ANGLE, /* f32 between -2 pi and 2 pi */
    F16,
    BF16,
    TF32,
    S8,
    F16_WIDE, /* all exponents, infinities and NaNs too; sums are f32 */
    F16_WIDE_F16,
    BF16_WIDE,
    TF32_WIDE
} conformance_form;

/* How far results may be apart: by units in the last place, or by a fraction of 2^k. */
typedef struct conformance_kernel {
    const char *name;  /* of the case */
    const char *entry; /* in kernels.ptx */
    conformance_form form;
    int outputs; /* words of a lane */
    int units;
    double absolute;
} conformance_kernel;

/* Outputs of a lane by how the kernel is made. */
enum {
    UNARY_OUTPUTS = 1,
    BINARY_OUTPUTS = 1,
    TERNARY_OUTPUTS = 1,
    UNARY_F_OUTPUTS = 1,
    BINARY_F_OUTPUTS = 1,
    TERNARY_F_OUTPUTS = 1,
    TO_INT_OUTPUTS = 1,
    FROM_INT_OUTPUTS = 1,
    PACK_OUTPUTS = 1,
    COMPARE_OUTPUTS = 1,
    SHUFFLE_OUTPUTS = 2,
    REDUCE_OUTPUTS = 1,
    BINARY_16_OUTPUTS = 1,
    BINARY_64_OUTPUTS = 2
};

#define EXACT(form, name, spelling) {#name, #name, BITS, form##_OUTPUTS, 0, 0.0},
#define CLOSE(form, name, spelling, units) {#name, #name, BITS, form##_OUTPUTS, units, 0.0},
#define NEAR(form, name, spelling, absolute) {#name, #name, ANGLE, form##_OUTPUTS, 0, absolute},
#define MATRIX(name, entry, form, outputs) {#name, #entry, form, outputs, 0, 0.0},
static const conformance_kernel conformance_kernels[] = {
#include "instructions.def"

#include "matrices.def"

#include "further.def"
};
#undef EXACT
#undef CLOSE
#undef NEAR
#undef MATRIX

enum { CONFORMANCE_KERNELS = sizeof conformance_kernels / sizeof *conformance_kernels };

static inline uint32_t conformance_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) ^ (uint32_t)*state;
}

/* Values that break things beside random ones. */
static inline uint32_t conformance_bits(uint64_t *state) {
    static const uint32_t words[] = {
        0,          1,          2,          3,          31,         32,         33,
        40,         255,        256,        0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000,
        0xbf800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7fa17fa1, 0x00000001, 0x80000001,
        0x007fffff, 0x00800000, 0x7f7fffff, 0x3c003c00, 0x7c00fc00, 0x00010001, 0x4b000001,
        0x4f000000, 0xcf000000, 0x4f800000, 0x42fe0000, 0xc3160000, 0x3fc00000, 0x40200000,
        0x477fe000, 0x477ff000, 0x38800000, 0x33000000, 0x33800000,
    };
    uint32_t r = conformance_random(state);
    if (r % 3 == 0) return words[r / 3 % (sizeof words / sizeof *words)];
    if (r % 3 == 1) { /* floats of a moderate size */
        float x = ((float)(conformance_random(state) % 2000001) - 1e6f) * 1e-4f;
        memcpy(&r, &x, sizeof r);
        return r;
    }
    return conformance_random(state);
}

/* A small whole number, or (random half) one of 11 bits between -1 and 1, as an f32. */
static inline float conformance_value(uint64_t *state, int exact) {
    int32_t n = (int32_t)(conformance_random(state) % 17) - 8;
    if (!exact) n = (int32_t)(conformance_random(state) % 257) - 128;
    return exact ? (float)n : (float)n / 128.0f;
}

/* Exact in f16: whole numbers to 8, or multiples of 1/128 to 1. */
static inline uint32_t conformance_f16(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x == 0.0f) return 0;
    return (bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) - 0x38000000u) >> 13;
}

/* A float of any exponent: fields drawn by the block, so that sums round, cancel, overflow and
 * underflow, each in some blocks.
 */
static inline uint32_t conformance_wide(uint64_t *state, int block, int exponent_bits,
                                        int mantissa_bits) {
    static const int spreads[CONFORMANCE_BLOCKS] = {0, 0,  1,  2,  2,  4,  4,   8,
                                                    8, 12, 14, 14, 30, 60, 120, 120};
    int bias = (1 << (exponent_bits - 1)) - 1, last = 2 * bias, spread = spreads[block];
    uint32_t mantissa = conformance_random(state) & ((1u << mantissa_bits) - 1u);
    uint32_t sign = conformance_random(state) & 1u;
    uint32_t drawn = conformance_random(state) % (uint32_t)(2 * spread + 1);
    int exponent = bias + (int)drawn - spread;
    if (block == 0) sign = 0, mantissa |= (1u << mantissa_bits) - 8u; /* carries upwards */
    if (block == 11) exponent -= bias;                                /* subnormal numbers */
    if (exponent < 0) exponent = 0;
    if (exponent > last) exponent = last;
    uint32_t rare = conformance_random(state) % 64u;
    if (rare == 0 || (rare == 1 && block == 15)) exponent = 0, mantissa = 0;
    if (rare == 2 && block == 15) exponent = last + 1, mantissa = 0;
    if (rare == 3 && block == 15 && sign) exponent = last + 1;
    return (sign << exponent_bits | (uint32_t)exponent) << mantissa_bits | mantissa;
}

/* Operands of a wide product: inputs 0 to 7 are A and B, the others the sums. */
static inline uint32_t conformance_wide_word(conformance_form form, int input, int block,
                                             uint64_t *state) {
    if (form == TF32_WIDE || (input >= 8 && form != F16_WIDE_F16)) {
        uint32_t bits = conformance_wide(state, block, 8, 23);
        /* Sums of a size like the products', so that they do not hide them. */
        int low = form == F16_WIDE && block >= 10 && (bits & 0x7f800000u) > 0x4f800000u; /* 2^32 */
        return low ? bits - 0x10000000u : bits;
    }
    int exponent_bits = form == BF16_WIDE ? 8 : 5, mantissa_bits = form == BF16_WIDE ? 7 : 10;
    uint32_t low = conformance_wide(state, block, exponent_bits, mantissa_bits);
    return low | conformance_wide(state, block, exponent_bits, mantissa_bits) << 16;
}

static inline uint32_t conformance_word(conformance_form form, int input, uint64_t *state,
                                        int exact) {
    float x = conformance_value(state, exact), y = conformance_value(state, exact);
    uint32_t bits, other;
    memcpy(&bits, &x, sizeof bits);
    memcpy(&other, &y, sizeof other);
    if (form == BITS) return conformance_bits(state);
    if (form == S8) return conformance_random(state);
    if (form == TF32) return bits;
    if (input >= 8 && form == BF16) return bits;
    if (form == BF16) return bits >> 16 | (other & 0xffff0000u);
    return conformance_f16(x) | conformance_f16(y) << 16;
}

static inline uint32_t conformance_angle(uint64_t *state) {
    float x = ((float)(int32_t)(conformance_random(state) % 2000001) - 1e6f) * 6.2831e-6f;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline void conformance_inputs(int kernel, uint32_t words[CONFORMANCE_INPUT_WORDS]) {
    const conformance_kernel *k = &conformance_kernels[kernel];
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(kernel + 1);
    int f32_sums = strncmp(k->entry, "mma_", 4) == 0 && strcmp(k->entry, "mma_k16_f16_f16") != 0;
    for (int b = 0; b < CONFORMANCE_BLOCKS; b++)
        for (int n = 0; n < CONFORMANCE_INPUTS; n++)
            for (int l = 0; l < 32; l++) {
                int exact = b < CONFORMANCE_BLOCKS / 2;
                uint32_t *word = &words[(b * CONFORMANCE_INPUTS + n) * 32 + l];
                if (k->form >= F16_WIDE) {
                    *word = conformance_wide_word(k->form, n, b, &state);
                    continue;
                }
                if (k->form == ANGLE) {
                    *word = conformance_angle(&state);
                    continue;
                }
                *word = conformance_word(k->form, n, &state, exact);
                if (n < 8 || !f32_sums || k->form == S8) continue;
                float x = conformance_value(&state, exact);
                memcpy(word, &x, sizeof x);
            }
}

#endif
