/* Matrices over GF(2): linear maps between short words of bits.
 *
 * A map is stored by columns: columns[i] is the image of input bit i, and the image of a word is
 * the exclusive or of the columns of its set bits. Plain values, no ownership.
 */
#ifndef FLASHTL_LAYOUT_BITMATRIX_H
#define FLASHTL_LAYOUT_BITMATRIX_H

#include <stdbool.h>
#include <stdint.h>

enum { BITMATRIX_BITS_MAX = 24, BITMATRIX_TERMS_MAX = BITMATRIX_BITS_MAX };

typedef struct bitmatrix {
    int in_bits, out_bits;
    uint32_t columns[BITMATRIX_BITS_MAX];
} bitmatrix;

bitmatrix bitmatrix_zero(int in_bits, int out_bits);

uint32_t bitmatrix_apply(const bitmatrix *map, uint32_t word);

/* The input bits [first, first + count) alone, the others being 0. */
bitmatrix bitmatrix_inputs(const bitmatrix *map, int first, int count);
/* The output bits [first, first + count) alone. */
bitmatrix bitmatrix_outputs(const bitmatrix *map, int first, int count);
/* Low output bits from 'low', the following from 'high'; both take the same input. */
bitmatrix bitmatrix_stack(const bitmatrix *low, const bitmatrix *high);

/* A word with map(word) == image; false when the image is out of reach. */
bool bitmatrix_solve(const bitmatrix *map, uint32_t image, uint32_t *word);

/* A basis of the words with image 0, as rows in echelon form, least leading bit first.
 * Returns its size.
 */
int bitmatrix_kernel(const bitmatrix *map, uint32_t basis[BITMATRIX_BITS_MAX]);

/* The map as a sum of shifted bit fields: image = xor of ((word >> from) & mask) << to, the form
 * in which it is written into a kernel. Returns the number of terms, or -1 for more than fit.
 */
typedef struct bitmatrix_term {
    int from, to;
    uint32_t mask; /* 2^n - 1 */
} bitmatrix_term;

int bitmatrix_terms(const bitmatrix *map, bitmatrix_term terms[BITMATRIX_TERMS_MAX]);

#endif
