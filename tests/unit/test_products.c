/* Dense products: every way that a processor may take gives the sums of three plain loops, bit for
 * bit. */
#include "base/product.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 300 };

/* Of sizes so far apart that another order of additions has another sum. */
static void fill(double *to, int64_t count, unsigned seed) {
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int64_t i = 0; i < count; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        to[i] = ldexp((double)(int64_t)x * 0x1p-63, (int)(x >> 20 & 31) - 16);
    }
}

static void plain(int64_t rows, int64_t inner, int64_t columns, product_matrix a, product_matrix b,
                  double *to, int64_t to_row) {
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double sum = to[i * to_row + j];
            for (int64_t k = 0; k < inner; k++) {
                double term = a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column];
                sum = sum + term;
            }
            to[i * to_row + j] = sum;
        }
    }
}

/* Each operand as it is or turned, the result among other columns, which stay as they are. */
static void check(int64_t rows, int64_t inner, int64_t columns) {
    int64_t to_row = columns + 3, count = rows * to_row + 1;
    double *a = malloc((size_t)(rows * inner + 1) * sizeof *a);
    double *b = malloc((size_t)(inner * columns + 1) * sizeof *b);
    double *start = malloc((size_t)count * sizeof *start),
           *wanted = malloc((size_t)count * sizeof *wanted),
           *got = malloc((size_t)count * sizeof *got);
    assert_true(a && b && start && wanted && got);
    fill(a, rows * inner, 1);
    fill(b, inner * columns, 2);
    fill(start, count, 3);
    for (int turned = 0; turned < 4; turned++) {
        product_matrix x = {a, inner, 1}, y = {b, columns, 1};
        if (turned & 1) x = (product_matrix){a, 1, rows};
        if (turned & 2) y = (product_matrix){b, 1, inner};
        memcpy(wanted, start, (size_t)count * sizeof *start);
        plain(rows, inner, columns, x, y, wanted, to_row);
        for (int way = 0; way < product_ways(); way++) {
            memcpy(got, start, (size_t)count * sizeof *start);
            product_add_by(way, rows, inner, columns, x, y, got, to_row);
            assert_memory_equal(got, wanted, (size_t)count * sizeof *got);
        }
        memcpy(got, start, (size_t)count * sizeof *start);
        product_add(rows, inner, columns, x, y, got, to_row);
        assert_memory_equal(got, wanted, (size_t)count * sizeof *got);
    }
    free(a), free(b), free(start), free(wanted), free(got);
}

static void small_ones(void **state) {
    (void)state;
    for (int64_t rows = 0; rows <= 18; rows++)
        for (int64_t columns = 0; columns <= 18; columns++) check(rows, rows + columns, columns);
}

static void around_blocks(void **state) {
    static const int64_t lengths[] = {1, 17, 127, 129, 255, 257, MOST};
    (void)state;
    for (int i = 0; i < 7; i++) {
        check(lengths[i], 40, 24);
        check(24, lengths[i], 17);
        check(9, 40, lengths[i]);
    }
    check(129, 257, 257);
}

/* What is no number stays in its own sums. */
static void numbers_beyond(void **state) {
    (void)state;
    enum { N = 20 };
    double a[N * N], b[N * N], to[N * N] = {0};
    fill(a, N * N, 4);
    fill(b, N * N, 5);
    a[3 * N + 1] = (double)INFINITY, b[7 * N + 5] = (double)NAN;
    product_add(N, N, N, (product_matrix){a, N, 1}, (product_matrix){b, N, 1}, to, N);
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            if (j == 5) assert_true(isnan(to[i * N + j]));
            else if (i == 3) assert_true(isinf(to[i * N + j]));
            else assert_true(isfinite(to[i * N + j]));
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_ones),
                                       cmocka_unit_test(around_blocks),
                                       cmocka_unit_test(numbers_beyond)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
