/* Instructions that treat every lane alike: one function runs all 32 lanes of a warp.
 *
 * A register is a row of 32 words (4 bytes a lane) or of 32 doublewords (8 bytes a lane); 16-bit
 * and 8-bit values live zero-extended in words. Such a function reads up to four rows and writes
 * one; the result may be one of the inputs. Comparisons write words of 0 or -1. lanes.def is the
 * list; it is compiled for plain processors and for AVX2 (lanes.inc).
 */
#ifndef FLASHTL_EMULATE_LANES_H
#define FLASHTL_EMULATE_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 32, LANES_INPUTS = 4 };

typedef void lanes_function(void *result, const void *const inputs[LANES_INPUTS]);

typedef struct lanes_entry {
    const char *spelling; /* as canonical in ptx_decode.c: default roundings left out */
    uint8_t result_bytes; /* 4 or 8 a lane */
    uint8_t input_count;
    uint8_t input_bytes[LANES_INPUTS]; /* 4 or 8 */
    uint8_t is_test;                   /* writes 0 or -1, to become a predicate */
    uint8_t input_float;               /* an immediate is a float of the input's width */
} lanes_entry;

extern const lanes_entry lanes_entries[];
extern const int lanes_count;

enum {
    LANES_K_MAX = 32,
    /* Exponents that stand for zero, and for infinity and NaN: sums with them stay outside of the
     * exponents of numbers, whatever the other factor is.
     */
    LANES_ZERO = -10000,
    LANES_ONLY_ZEROS = -5000,
    LANES_NOT_FINITE = 12000
};

/* The first factor: [row * k_count + k]. */
typedef struct lanes_rows {
    float a[16 * LANES_K_MAX];
    int16_t exponents[16 * LANES_K_MAX + 8]; /* read by eights */
} lanes_rows;

/* The second factor: [k][column]. */
typedef struct lanes_columns {
    float b[LANES_K_MAX][8];
    int16_t exponents[LANES_K_MAX][16]; /* twice the eight columns */
} lanes_columns;

/* A product of 16 rows and 8 columns, added by the rule in sums.h. */
typedef struct lanes_product {
    float sum[16][8];
    const lanes_rows *rows;
    const lanes_columns *columns;
    int k_count, group, fraction_bits, result_bits;
    int sum_least; /* exponent of the smallest normal number of the sums' type */
    bool halves;   /* sums are f16 */
} lanes_product;

/* Of f32 bits; 'least' is that of the smallest normal number in the type they came from. */
static inline int lanes_exponent(uint32_t bits, int least) {
    int field = (int)(bits >> 23 & 255u), exponent = field - 127;
    if (!(bits & 0x7fffffffu)) return LANES_ZERO;
    return field == 255 ? LANES_NOT_FINITE : exponent > least ? exponent : least;
}

typedef struct lanes_set {
    lanes_function *const *functions; /* by index into lanes_entries */
    /* Of a multiple of 16 numbers. */
    void (*exponents)(int16_t *to, const float *from, int count, int least);
    /* Adds all rows that it can, and returns the others as bits: sums_row does those. */
    uint32_t (*multiply)(lanes_product *p);
    /* 32 words, 8 rows of 4, of two f16 or bf16 each: to rows of 8 floats, 'stride' apart. */
    void (*rows_f16)(float *to, int stride, const uint32_t *from);
    void (*rows_bf16)(float *to, int stride, const uint32_t *from);
    void (*transpose)(float (*to)[8], const float (*from)[8]); /* 8 by 8 */
    uint32_t (*mask_of)(const int32_t test[LANES]);            /* bit l = (test[l] != 0) */
    void (*select)(void *to, const void *a, const void *b, uint32_t mask, int bytes);
} lanes_set;

/* The best set for this processor. */
const lanes_set *lanes_choose(bool plain_only);

#endif
