/* What shipped operators mean, in fp64, straight from their formulas. Nothing here knows TL, tiles
 * or GPUs; matrices are dense rows of doubles.
 *
 * Each function can also compute as a framework would that stores every intermediate in a 16-bit
 * type ('model'; CONVERT_F64: nothing is rounded). How far that is from the exact result says how
 * much error the type itself makes: the yardstick of FlashAttention's own tests.
 */
#ifndef FLASHTL_VERIFY_REFERENCE_H
#define FLASHTL_VERIFY_REFERENCE_H

#include "base/arena.h"
#include "base/convert.h"

#include <stdbool.h>

/* One head. Key j is seen by query i when, with p = i + kv_len - q_len (bottom right):
 *   causal:             j <= p
 *   causal and window:  p - window < j <= p
 *   window:             p - window < j < p + window
 */
typedef struct reference_attention {
    const double *q, *k, *v; /* (q_len, d), (kv_len, d), (kv_len, dv) */
    int64_t q_len, kv_len, d, dv;
    double scale;
    bool is_causal;
    int64_t window; /* 0: none */
    double softcap; /* 0: none; else scores become softcap * tanh(score / softcap) */
    double slope;   /* ALiBi: - slope * |j - p| is added to the scores */
} reference_attention;

/* What weights of 8 bits cannot but err by, one standard deviation: with p the weights of a row,
 *     sqrt(sum of (s p)^2 (v^2 + o^2))
 * with s of four bits, rounded to nearest, and of what scores lose in sums of 13 bits; and what the
 * smallest weights and such sums of the results lose. 'noise' is as 'out'; 'effective': of each
 * row, how many keys carry its weight.
 */
typedef struct reference_noise {
    convert_format weight; /* their type */
    bool is_linear;        /* on the line between powers of two */
    double largest;        /* what a row's largest is raised to, at least */
    double *noise, *effective;
} reference_noise;

void reference_attention_noise(const reference_attention *p, int64_t first, int64_t count,
                               const reference_noise *to, arena *scratch);
/* Rows [first, first + count) of the output (count, dv), and their log-sum-exp (NULL: not wanted).
 * A row that sees no key is 0, its log-sum-exp -inf. 'scratch' is reset on return.
 */
void reference_attention_rows(const reference_attention *p, int64_t first, int64_t count,
                              convert_format model, double *out, double *lse, arena *scratch);
/* Which keys query i sees: [*begin, *end). */
void reference_attention_keys(const reference_attention *p, int64_t i, int64_t *begin,
                              int64_t *end);

/* GELU(A B^T + bias) with the error function, A (m, k), B (n, k); without bias (NULL) just A B^T.
 */
void reference_gemm(const double *a, const double *b, const double *bias, int64_t m, int64_t n,
                    int64_t k, convert_format model, double *c);
/* (A B^T) C: A (m, d), B (n, d), C (n, dv). */
void reference_chained(const double *a, const double *b, const double *c, int64_t m, int64_t n,
                       int64_t d, int64_t dv, convert_format model, double *out, arena *scratch);
/* softmax along the rows of X (m, n). */
void reference_softmax(const double *x, int64_t m, int64_t n, convert_format model, double *y);

#endif
