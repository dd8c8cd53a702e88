/* How a GPU's matrix units add.
 *
 * Products are exact. A group of them and the running sum are aligned to the largest exponent among
 * them (that of a product being the sum of its factors' exponents, before any normalisation), cut
 * towards zero 'fraction_bits' below it, and added without further loss; the result is cut to f32
 * towards zero, or rounded to the nearest f16. So the order inside a group does not matter, and a
 * sum is never rounded up. Known from experiments of others (docs/emulator.md), and compared with a
 * GPU by tests/exec/conformance.
 */
#ifndef FLASHTL_EMULATE_SUMS_H
#define FLASHTL_EMULATE_SUMS_H

#include "emulate/ptx.h"

typedef struct sums_rule {
    int group;         /* products added at once */
    int fraction_bits; /* kept below the largest exponent */
    int result_bits;   /* fraction bits of an f32 result: 23, or 13 */
} sums_rule;

/* 'processor' is a compute capability: 75, 80, 86, 89, 90, 100, 120. */
sums_rule sums_rule_of(int processor, ptx_number inputs, int k_count);

/* Of wgmma. */
sums_rule sums_rule_of_group(ptx_number inputs, int k_count);

enum {
    SUMS_K_MAX = 32,
    SUMS_PLACES = 64,
    /* Exponents that stand for zero, and for infinity and NaN: sums with them stay outside of the
     * exponents of numbers, whatever the other factor is.
     */
    SUMS_ZERO = -10000,
    SUMS_ONLY_ZEROS = -5000,
    SUMS_NOT_FINITE = 12000,
    /* A code is an exponent in a byte: what is smaller has the least code, zero too, so that a sum
     * of two codes is the products' exponent, or at most SUMS_UNSURE.
     */
    SUMS_CODE_LEAST = -64,
    SUMS_CODE_MOST = 31,
    SUMS_UNSURE = SUMS_CODE_LEAST + SUMS_CODE_MOST,
    /* Groups that align to one of these exponents go through floats and 32-bit sums: a product too
     * small for a float is cut to nothing anyway.
     */
    SUMS_TOP_LEAST = -90,
    SUMS_TOP_MOST = 125
};

/* The least exponent of factors that are not zero, and the largest of all. */
typedef struct sums_range {
    int least, most;
} sums_range;

/* The first factor: [k][row]. */
typedef struct sums_rows {
    _Alignas(64) float a[SUMS_K_MAX][16];
    int16_t exponents[SUMS_K_MAX][16];
    int8_t codes[SUMS_K_MAX][16];
    sums_range range;
} sums_rows;

/* The second factor: [k][column], the columns in the order 0 2 4 6 1 3 5 7. */
typedef struct sums_columns {
    _Alignas(64) float b[SUMS_K_MAX][8];
    int16_t exponents[SUMS_K_MAX][8];
    int8_t codes[SUMS_K_MAX][8];
    sums_range range;
} sums_columns;

/* A product of 16 rows and 8 columns. sum[e] has the columns 2c + e, that of a row at 4 row + c:
 * one half of it after the other is what two accumulator registers hold.
 */
typedef struct sums_product {
    _Alignas(64) float sum[2][SUMS_PLACES];
    const sums_rows *rows;
    const sums_columns *columns;
    int k_count;
    sums_rule rule;
    int sum_least; /* exponent of the smallest normal number of the sums' type */
    bool halves;   /* sums are f16 */
} sums_product;

/* Of f32 bits; 'least' is that of the smallest normal number in the type they came from. */
static inline int sums_exponent(uint32_t bits, int least) {
    int field = (int)(bits >> 23 & 255u), exponent = field - 127;
    if (!(bits & 0x7fffffffu)) return SUMS_ZERO;
    return field == 255 ? SUMS_NOT_FINITE : exponent > least ? exponent : least;
}

/* One way of multiplying, for one kind of processor. */
typedef struct sums_set {
    void (*exponents)(const float *from, int count, int least, int16_t *exponents, int8_t *codes);
    /* Adds all rows that it can, and returns the others as bits: sums_row does those. */
    uint32_t (*multiply)(sums_product *p);
} sums_set;

/* Those that this processor runs: 0 is the plain one, the last the best; NULL past it. */
const sums_set *sums_set_of(int number);
const sums_set *sums_choose(bool plain_only);

/* Fill in the exponents of factors of this type. */
void sums_prepare_rows(sums_rows *rows, int k_count, const sums_set *set, ptx_number a);
void sums_prepare_columns(sums_columns *columns, int k_count, const sums_set *set, ptx_number b);

/* The product, any numbers. */
void sums_multiply(sums_product *p, const sums_set *set);

/* One row of it; slow. */
void sums_row(sums_product *p, int row);

/* For the ways of multiplying: the exponents to which 'count' places from 'place' on align where
 * the codes do not say it, and the rows that are too large or small, as bits. 0 for only zeros.
 */
uint32_t sums_exact_tops(const sums_product *p, int first, int e, int place, int count,
                         const float *sum, int32_t *top);

#endif
