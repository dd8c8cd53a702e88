/* The operators that are no attention. */
#include "verify/reference.h"

#include "base/product.h"

#include <math.h>
#include <string.h>

static void product(const double *a, product_matrix b, int64_t m, int64_t n, int64_t k, double *c) {
    memset(c, 0, (size_t)(m * n) * sizeof *c);
    product_add(m, k, n, (product_matrix){a, k, 1}, b, c, n);
}

void reference_gemm(const double *a, const double *b, const double *bias, int64_t m, int64_t n,
                    int64_t k, convert_format model, double *c) {
    product(a, (product_matrix){b, 1, k}, m, n, k, c);
    convert_round_all(model, c, (size_t)(m * n));
    for (int64_t i = 0; bias && i < m; i++) { /* GELU: 1 + erf cancels in the tail */
        for (int64_t j = 0; j < n; j++) {
            double sum = convert_round(model, c[i * n + j] + bias[j]);
            c[i * n + j] = convert_round(model, 0.5 * sum * erfc(sum * -0.70710678118654752440));
        }
    }
}

void reference_chained(const double *a, const double *b, const double *c, int64_t m, int64_t n,
                       int64_t d, int64_t dv, convert_format model, double *out, arena *scratch) {
    arena_mark mark = arena_here(scratch);
    enum { ROWS = 64 }; /* a strip of the first product at a time */
    double *strip = arena_array(scratch, double, ROWS *n + 1);
    for (int64_t i = 0; i < m; i += ROWS) {
        int64_t rows = m - i < ROWS ? m - i : ROWS;
        product(a + i * d, (product_matrix){b, 1, d}, rows, n, d, strip);
        convert_round_all(model, strip, (size_t)(rows * n));
        product(strip, (product_matrix){c, dv, 1}, rows, dv, n, out + i * dv);
    }
    convert_round_all(model, out, (size_t)(m * dv));
    arena_reset(scratch, mark);
}

void reference_softmax(const double *x, int64_t m, int64_t n, convert_format model, double *y) {
    for (int64_t i = 0; i < m; i++) {
        const double *row = x + i * n;
        double most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < n; j++) most = row[j] > most || isnan(row[j]) ? row[j] : most;
        for (int64_t j = 0; j < n; j++) sum += exp(row[j] - most);
        for (int64_t j = 0; j < n; j++)
            y[i * n + j] = convert_round(model, exp(row[j] - most) / sum);
    }
}
