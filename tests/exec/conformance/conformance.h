/* What the recorder (on a GPU) and the comparison (on the emulator) share: the list of kernels, their
 * inputs, and the shape of the results: KERNELS x BLOCKS x OUTPUTS x 32 words, little endian.
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
    F16,
    BF16,
    TF32,
    S8,
    BINARY = BITS, UNARY = BITS, TERNARY = BITS, BINARY_F = BITS, UNARY_F = BITS, TERNARY_F = BITS,
    TO_INT = BITS, FROM_INT = BITS, PACK = BITS, COMPARE = BITS, SHUFFLE = BITS, REDUCE = BITS
} conformance_form;

typedef struct conformance_kernel {
    const char *name;
    conformance_form form;
    int units;        /* in the last place that may differ */
    double tolerance; /* of the random half of products, absolute */
} conformance_kernel;

#define EXACT(form, name, spelling) {#name, form, 0, 0.0},
#define CLOSE(form, name, spelling, units) {#name, form, units, 0.0},
static const conformance_kernel conformance_kernels[] = {
#include "instructions.h"
    {"ldmatrix_x1", BITS, 0, 0.0},     {"ldmatrix_x2", BITS, 0, 0.0},
    {"ldmatrix_x4", BITS, 0, 0.0},     {"ldmatrix_x4_trans", BITS, 0, 0.0},
    {"movmatrix", BITS, 0, 0.0},       {"cp_async_zero_fill", BITS, 0, 0.0},
    {"vote_ballot", BITS, 0, 0.0},     {"mma_k8_f16", F16, 0, 1e-4},
    {"mma_k16_f16", F16, 0, 1e-4},     {"mma_k8_bf16", BF16, 0, 1e-4},
    {"mma_k16_bf16", BF16, 0, 1e-4},   {"mma_k4_tf32", TF32, 0, 1e-4},
    {"mma_k8_tf32", TF32, 0, 1e-4},    {"mma_k16_f16_f16", F16, 0, 3e-2},
    {"mma_k32_s8", S8, 0, 0.0},
};
#undef EXACT
#undef CLOSE

enum { CONFORMANCE_KERNELS = sizeof conformance_kernels / sizeof *conformance_kernels };

static inline uint32_t conformance_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33) ^ (uint32_t)*state;
}

/* Values that break things beside random ones. */
static inline uint32_t conformance_bits(uint64_t *state) {
    static const uint32_t words[] = {
        0, 1, 2, 3, 31, 32, 33, 40, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff, 0x3f800000,
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

static inline void conformance_inputs(int kernel, uint32_t words[CONFORMANCE_INPUT_WORDS]) {
    const conformance_kernel *k = &conformance_kernels[kernel];
    uint64_t state = 0x9e3779b97f4a7c15u * (uint64_t)(kernel + 1);
    int f32_sums = strncmp(k->name, "mma_", 4) == 0 && strcmp(k->name, "mma_k16_f16_f16") != 0;
    for (int b = 0; b < CONFORMANCE_BLOCKS; b++)
        for (int n = 0; n < CONFORMANCE_INPUTS; n++)
            for (int l = 0; l < 32; l++) {
                int exact = b < CONFORMANCE_BLOCKS / 2;
                uint32_t *word = &words[(b * CONFORMANCE_INPUTS + n) * 32 + l];
                *word = conformance_word(k->form, n, &state, exact);
                if (n < 8 || !f32_sums || k->form == S8) continue;
                float x = conformance_value(&state, exact);
                memcpy(word, &x, sizeof x);
            }
}

#endif
