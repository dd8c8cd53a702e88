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

/* Fill in the exponents of factors of this type. */
void sums_prepare_rows(lanes_rows *rows, int k_count, const lanes_set *set, ptx_number a);
void sums_prepare_columns(lanes_columns *columns, int k_count, const lanes_set *set, ptx_number b);

/* One row of the product, any numbers; slow. */
void sums_row(lanes_product *p, int row);

#endif
