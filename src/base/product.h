/* Dense products in fp64, for whoever says what a program means: the interpreter and the
 * references.
 *
 * An element's terms are added in the order of the contracted axis, each product and each sum
 * rounded once, on every processor: blocks and vectors only say which elements are computed side by
 * side.
 */
#ifndef FLASHTL_BASE_PRODUCT_H
#define FLASHTL_BASE_PRODUCT_H

#include <stdint.h>

/* Element (i, j) is at data[i * row + j * column]. */
typedef struct product_matrix {
    const double *data;
    int64_t row, column;
} product_matrix;

/* to[i * to_row + j] += sum over k < inner of a(i, k) * b(k, j). 'to' overlaps neither operand. */
void product_add(int64_t rows, int64_t inner, int64_t columns, product_matrix a, product_matrix b,
                 double *to, int64_t to_row);

/* The same by one of the ways that this processor may take, the best one last. */
int product_ways(void);
void product_add_by(int way, int64_t rows, int64_t inner, int64_t columns, product_matrix a,
                    product_matrix b, double *to, int64_t to_row);

#endif
