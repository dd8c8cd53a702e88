/* Dense products in fp64, eight rows at a time. */
#include "verify/reference_product.h"

#include <string.h>

/* Four doubles with the alignment of one: lowered to whatever the processor has. */
typedef double lanes __attribute__((vector_size(32), aligned(8)));

#define REFERENCE_DOT dot_plain
#define REFERENCE_TARGET
#include "verify/reference_dot.inc"
#undef REFERENCE_DOT
#undef REFERENCE_TARGET

#if defined(__x86_64__)
#define REFERENCE_DOT dot_avx2
#define REFERENCE_TARGET __attribute__((target("avx2,fma")))
#include "verify/reference_dot.inc"
#undef REFERENCE_DOT
#undef REFERENCE_TARGET
#endif

typedef void dot_function(const double *a, const double *b, int64_t step_i, int64_t step_x,
                          int64_t count, double *sums);

static dot_function *choose(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return dot_avx2;
#endif
    return dot_plain;
}

void product_interleave(const double *a, int64_t row_step, int64_t rows, int64_t count,
                        double *out) {
    for (int64_t x = 0; x < count; x++) {
        for (int64_t r = 0; r < PRODUCT_ROWS; r++) {
            out[x * PRODUCT_ROWS + r] = r < rows ? a[r * row_step + x] : 0;
        }
    }
}

void product_rows(const double *a, const double *b, int64_t step_column, int64_t step_x,
                  int64_t columns, int64_t count, double *c) {
    dot_function *dot = choose();
    double sums[4 * PRODUCT_ROWS];
    int64_t j = 0;
    for (; j + 4 <= columns; j += 4) {
        dot(a, b + j * step_column, step_column, step_x, count, c + j * PRODUCT_ROWS);
    }
    for (; j < columns; j++) { /* the last ones one by one: four times the same column */
        dot(a, b + j * step_column, 0, step_x, count, sums);
        memcpy(c + j * PRODUCT_ROWS, sums, PRODUCT_ROWS * sizeof *sums);
    }
}
