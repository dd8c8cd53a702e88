#include "base/product.h"

#include <stdbool.h>
#include <string.h>

/* A fused multiply-add rounds once where two operations round twice: never contract. (gcc does not
 * in its ISO mode.)
 */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

/* --- sums that registers hold ----------------------------------------------------------------- */

typedef void sums_function(const double *across, int64_t across_step, const double *s,
                           int64_t s_item, int64_t s_step, int64_t count, double *to,
                           int64_t to_item);

/* 'many' items side by side, or one, of as many lanes. */
typedef struct kernel {
    int lanes, items;
    sums_function *many, *one;
} kernel;

#define PRODUCT_NAME(x) plain_##x
#define PRODUCT_TARGET
#define PRODUCT_WIDTH 2
#define PRODUCT_LANES 4
#define PRODUCT_ITEMS 4
#include "base/product_kernel.inc"

#if defined(__x86_64__)
#define PRODUCT_NAME(x) avx2_##x
#define PRODUCT_TARGET __attribute__((target("avx2")))
#define PRODUCT_WIDTH 4
#define PRODUCT_LANES 8
#define PRODUCT_ITEMS 4
#include "base/product_kernel.inc"

#define PRODUCT_NAME(x) avx512_##x
#define PRODUCT_TARGET __attribute__((target("avx512f")))
#define PRODUCT_WIDTH 8
#define PRODUCT_LANES 16
#define PRODUCT_ITEMS 8
#include "base/product_kernel.inc"
#endif

enum { LANES_MOST = 16, ITEMS_MOST = 8 };

static const kernel kernels[] = {
    {4, 4, plain_many, plain_one},
#if defined(__x86_64__)
    {8, 4, avx2_many, avx2_one},
    {16, 8, avx512_many, avx512_one},
#endif
};

int product_ways(void) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return 3;
    if (__builtin_cpu_supports("avx2")) return 2;
#endif
    return 1;
}

/* --- blocks ----------------------------------------------------------------------------------- */

/* What caches hold: of the contracted axis, of rows, of columns. */
enum { INNER = 256, ROWS = 128, COLUMNS = 256 };

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* 'count' items, at most as many as registers hold. */
static void add_sums(const kernel *use, int64_t count, const double *across, int64_t across_step,
                     const double *s, int64_t s_item, int64_t s_step, int64_t inner, double *to,
                     int64_t to_item) {
    if (count == use->items) {
        use->many(across, across_step, s, s_item, s_step, inner, to, to_item);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        use->one(across, across_step, s + i * s_item, 0, s_step, inner, to + i * to_item, 0);
}

/* Rows of b are in one piece: its columns are the lanes, rows of a the items. */
static void along_columns(const kernel *use, int64_t rows, int64_t inner, int64_t columns,
                          product_matrix a, product_matrix b, double *to, int64_t to_row) {
    double across[INNER * LANES_MOST], sums[ITEMS_MOST * LANES_MOST] = {0};
    for (int64_t j = 0; j < columns; j += use->lanes) {
        int64_t width = least(columns - j, use->lanes), across_step = b.row;
        bool is_whole = width == use->lanes;
        size_t bytes = (size_t)width * sizeof *sums;
        const double *from = b.data + j;
        for (int64_t k = 0; !is_whole && k < inner; k++) {
            memset(across + k * use->lanes, 0, (size_t)use->lanes * sizeof *across);
            memcpy(across + k * use->lanes, from + k * b.row, bytes);
        }
        if (!is_whole) from = across, across_step = use->lanes;
        for (int64_t i = 0; i < rows; i += use->items) {
            int64_t count = least(rows - i, use->items);
            const double *s = a.data + i * a.row;
            double *at = to + i * to_row + j;
            if (is_whole) {
                add_sums(use, count, from, across_step, s, a.row, a.column, inner, at, to_row);
                continue;
            }
            for (int64_t n = 0; n < count; n++)
                memcpy(sums + n * use->lanes, at + n * to_row, bytes);
            add_sums(use, count, from, across_step, s, a.row, a.column, inner, sums, use->lanes);
            for (int64_t n = 0; n < count; n++)
                memcpy(at + n * to_row, sums + n * use->lanes, bytes);
        }
    }
}

/* Rows of b are not: rows of a are the lanes, side by side, b's columns the items. */
static void along_rows(const kernel *use, int64_t rows, int64_t inner, int64_t columns,
                       product_matrix a, product_matrix b, double *to, int64_t to_row) {
    double across[INNER * LANES_MOST], sums[ITEMS_MOST * LANES_MOST] = {0};
    int lanes = use->lanes;
    for (int64_t i = 0; i < rows; i += lanes) {
        int64_t height = least(rows - i, lanes);
        for (int64_t k = 0; k < inner; k++)
            for (int64_t n = 0; n < lanes; n++)
                across[k * lanes + n] = n < height ? a.data[(i + n) * a.row + k * a.column] : 0;
        for (int64_t j = 0; j < columns; j += use->items) {
            int64_t count = least(columns - j, use->items);
            double *at = to + i * to_row + j;
            for (int64_t n = 0; n < height; n++)
                for (int64_t x = 0; x < count; x++) sums[x * lanes + n] = at[n * to_row + x];
            add_sums(use, count, across, lanes, b.data + j * b.column, b.column, b.row, inner, sums,
                     lanes);
            for (int64_t n = 0; n < height; n++)
                for (int64_t x = 0; x < count; x++) at[n * to_row + x] = sums[x * lanes + n];
        }
    }
}

void product_add_by(int way, int64_t rows, int64_t inner, int64_t columns, product_matrix a,
                    product_matrix b, double *to, int64_t to_row) {
    const kernel *use = &kernels[way];
    for (int64_t k = 0; k < inner; k += INNER) {
        int64_t depth = least(inner - k, INNER);
        for (int64_t j = 0; j < columns; j += COLUMNS) {
            int64_t width = least(columns - j, COLUMNS);
            product_matrix right = {b.data + k * b.row + j * b.column, b.row, b.column};
            for (int64_t i = 0; i < rows; i += ROWS) {
                int64_t height = least(rows - i, ROWS);
                product_matrix left = {a.data + i * a.row + k * a.column, a.row, a.column};
                double *at = to + i * to_row + j;
                if (b.column == 1)
                    along_columns(use, height, depth, width, left, right, at, to_row);
                else along_rows(use, height, depth, width, left, right, at, to_row);
            }
        }
    }
}

void product_add(int64_t rows, int64_t inner, int64_t columns, product_matrix a, product_matrix b,
                 double *to, int64_t to_row) {
    product_add_by(product_ways() - 1, rows, inner, columns, a, b, to, to_row);
}
