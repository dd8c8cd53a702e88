/* The inner loop of all references: eight rows, interleaved, times a matrix in any layout. */
#ifndef FLASHTL_VERIFY_REFERENCE_PRODUCT_H
#define FLASHTL_VERIFY_REFERENCE_PRODUCT_H

#include <stdint.h>

enum { PRODUCT_ROWS = 8 };

/* out[x][r] = a[r * row_step + x]; rows from 'rows' on are 0. */
void product_interleave(const double *a, int64_t row_step, int64_t rows, int64_t count,
                        double *out);

/* c[j][r] = sum over x < count of a[x][r] * b[j * step_column + x * step_x], for j < columns. */
void product_rows(const double *a, const double *b, int64_t step_column, int64_t step_x,
                  int64_t columns, int64_t count, double *c);

#endif
