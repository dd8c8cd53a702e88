/* Attention, row by row: all scores of a row, its maximum, its sum. */
#include "base/product.h"
#include "verify/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void reference_attention_keys(const reference_attention *p, int64_t i, int64_t *begin,
                              int64_t *end) {
    int64_t place = i + p->kv_len - p->q_len;
    *begin = 0, *end = p->kv_len;
    if (p->is_causal && place + 1 < *end) *end = place + 1;
    if (p->window && !p->is_causal && place + p->window < *end) *end = place + p->window;
    if (p->window && place - p->window + 1 > *begin) *begin = place - p->window + 1;
    if (*end < *begin) *end = *begin;
}

/* Scores of row i from key 'first' on, after the product. A model rounds where a framework would
 * store the matrix; a bias is f32 there, and so is its sum with the scores.
 */
static void finish_scores(const reference_attention *p, int64_t i, int64_t first, int64_t count,
                          convert_format model, double *scores) {
    int64_t place = i + p->kv_len - p->q_len;
    convert_round_all(model, scores, (size_t)count);
    if (p->softcap > 0) {
        for (int64_t j = 0; j < count; j++) scores[j] = p->softcap * tanh(scores[j] / p->softcap);
        convert_round_all(model, scores, (size_t)count);
    }
    for (int64_t j = 0; p->slope != 0 && j < count; j++)
        scores[j] -= p->slope * fabs((double)(first + j - place));
}

/* Of a few rows: the keys [from, to) that any of them sees, and their scores, rows of to - from. */
typedef struct rows_work {
    int64_t from, to;
    double *scores;
} rows_work;

/* Scores to weights, in place; keys that a row does not see get 0. */
static void softmax_row(const reference_attention *p, int64_t i, const rows_work *w, int64_t row,
                        convert_format model, double *lse) {
    int64_t begin, end;
    reference_attention_keys(p, i, &begin, &end);
    double *scores = w->scores + row * (w->to - w->from), most = -INFINITY, sum = 0;
    if (begin >= end) begin = end = w->from;
    double *seen = scores + (begin - w->from);
    int64_t count = end - begin;
    finish_scores(p, i, begin, count, model, seen);
    for (int64_t j = 0; j < count; j++) most = seen[j] > most || isnan(seen[j]) ? seen[j] : most;
    for (int64_t j = 0; j < count; j++) seen[j] = exp(seen[j] - most);
    for (int64_t j = 0; j < count; j++) sum += seen[j];
    double inverse = count ? 1 / sum : 0;
    for (int64_t j = 0; j < count; j++) seen[j] *= inverse;
    convert_round_all(model, seen, (size_t)count);
    memset(scores, 0, (size_t)(begin - w->from) * sizeof *scores);
    memset(seen + count, 0, (size_t)(w->to - end) * sizeof *scores);
    if (lse) *lse = count ? most + log(sum) : -INFINITY;
}

/* 'keys': as the model stores them, or NULL. */
static void some_rows(const reference_attention *p, int64_t first, int64_t rows,
                      convert_format model, const double *keys, double *scores, double *out,
                      double *lse) {
    int64_t from = p->kv_len, to = 0, begin, end;
    for (int64_t r = 0; r < rows; r++) {
        reference_attention_keys(p, first + r, &begin, &end);
        if (begin >= end) continue;
        if (begin < from) from = begin;
        if (end > to) to = end;
    }
    if (from > to) from = to;
    int64_t count = to - from;
    product_matrix q = {p->q + first * p->d, p->d, 1}, v = {p->v + from * p->dv, p->dv, 1};
    product_matrix turned = {(keys ? keys : p->k) + from * p->d, 1, p->d};
    rows_work w = {from, to, scores};
    memset(scores, 0, (size_t)(rows * count) * sizeof *scores);
    product_add(rows, p->d, count, q, turned, scores, count);
    for (int64_t x = 0; x < rows * count && !keys; x++) scores[x] *= p->scale;
    for (int64_t r = 0; r < rows; r++)
        softmax_row(p, first + r, &w, r, model, lse ? &lse[r] : NULL);
    memset(out, 0, (size_t)(rows * p->dv) * sizeof *out);
    product_add(rows, count, p->dv, (product_matrix){scores, count, 1}, v, out, p->dv);
    convert_round_all(model, out, (size_t)(rows * p->dv));
}

void reference_attention_rows(const reference_attention *p, int64_t first, int64_t count,
                              convert_format model, double *out, double *lse, arena *scratch) {
    enum { ROWS = 32 }; /* share the loads of keys and values */
    arena_mark mark = arena_here(scratch);
    double *scores = arena_array(scratch, double, p->kv_len *ROWS + 1), *keys = NULL;
    if (model != CONVERT_F64) { /* the scale goes into the keys, another order of operations */
        keys = arena_array(scratch, double, p->kv_len * p->d + 1);
        for (int64_t x = 0; x < p->kv_len * p->d; x++) keys[x] = p->k[x] * p->scale;
        convert_round_all(model, keys, (size_t)(p->kv_len * p->d));
    }
    for (int64_t r = 0; r < count; r += ROWS) {
        int64_t rows = count - r < ROWS ? count - r : ROWS;
        some_rows(p, first + r, rows, model, keys, scores, out + r * p->dv, lse ? lse + r : NULL);
    }
    arena_reset(scratch, mark);
}

/* --- weights of 8 bits ------------------------------------------------------------------------ */

/* A weight's rounding, and what the smallest of them lose, which lie in steps of 2^-9. What a sum
 * of products loses: 13 bits are kept of the largest term, or of what is there.
 */
static const double WEIGHT = 0.026, LEAST_WEIGHT = 0.29 * 0x1p-9, CUT = 0x1p-13;
/* Weights on the line between powers of two are off by the curve above it, too. */
static const double WEIGHT_LINEAR = 0.0315;
/* Of e5m2: a bit less, and a smaller step. */
static const double WEIGHT_E5M2 = 0.052, LEAST_E5M2 = 0.29 * 0x1p-16;
/* The weights of equal or close scores fall into one step, and are off alike: so far from all else
 * that it is no chance, the error of weights rounded once says what is.
 */
static const double NO_CHANCE = 4;

/* Scores of one row to its weights. Returns what scores are off by. */
static double one_row(const reference_attention *p, int64_t i, int64_t begin, int64_t end,
                      double *weights) {
    double most = -INFINITY, size = 0, sum = 0;
    for (int64_t j = begin; j < end; j++) {
        double score = 0;
        for (int64_t x = 0; x < p->d; x++) {
            double term = p->q[i * p->d + x] * p->k[j * p->d + x];
            score += term;
            size = fmax(size, fmax(fabs(term), fabs(score)));
        }
        weights[j] = score * p->scale;
    }
    finish_scores(p, i, begin, end - begin, CONVERT_F64, weights + begin);
    for (int64_t j = begin; j < end; j++) most = fmax(most, weights[j]);
    for (int64_t j = begin; j < end; j++) sum += weights[j] = exp(weights[j] - most);
    for (int64_t j = begin; j < end; j++) weights[j] /= sum;
    return CUT * size * fabs(p->scale) * (1 + 0.35 * sqrt((double)p->d));
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Where 'value' would be among 'count' sorted ones. */
static int64_t place_of(const double *sorted, int64_t count, double value) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sorted[middle] < value) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* How many keys have each key's weight: they are rounded alike, and errors do not average out. */
static void count_equal(const double *weights, int64_t count, double *sorted, double *equal) {
    static const double ALIKE = 1e-9;
    memcpy(sorted, weights, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, by_size);
    for (int64_t j = 0; j < count; j++)
        equal[j] = (double)(place_of(sorted, count, weights[j] * (1 + ALIKE)) -
                            place_of(sorted, count, weights[j] * (1 - ALIKE)));
}

void reference_attention_noise(const reference_attention *p, int64_t first, int64_t count,
                               const reference_noise *to, arena *scratch) {
    enum { SUMMED = 256 }; /* terms at most before a sum goes on in f32 */
    arena_mark mark = arena_here(scratch);
    double *weights = arena_array(scratch, double, p->kv_len + 1);
    double *sorted = arena_array(scratch, double, p->kv_len + 1);
    double *equal = arena_array(scratch, double, p->kv_len + 1);
    double *rounded = arena_array(scratch, double, p->kv_len + 1);
    for (int64_t r = 0; r < count; r++) {
        int64_t begin, end;
        reference_attention_keys(p, first + r, &begin, &end);
        double off = one_row(p, first + r, begin, end, weights), squares = 0, most = 0;
        for (int64_t j = begin; j < end; j++) most = fmax(most, weights[j]);
        count_equal(weights + begin, end - begin, sorted, equal + begin);
        for (int64_t j = begin; j < end; j++) squares += weights[j] * weights[j] * equal[j];
        to->effective[r] = squares > 0 ? 1 / squares : 0;
        bool is_e4m3 = to->weight == CONVERT_E4M3;
        double s = to->is_linear ? WEIGHT_LINEAR
                   : is_e4m3     ? WEIGHT
                                 : WEIGHT_E5M2,
               share = s * s + off * off;
        double least = (is_e4m3 ? LEAST_WEIGHT : LEAST_E5M2) * most / to->largest;
        double sum = 0;
        for (int64_t j = begin; j < end; j++)
            sum += rounded[j] = convert_round(to->weight, weights[j] / most * to->largest);
        double terms = (double)(end - begin < SUMMED ? end - begin : SUMMED);
        for (int64_t e = 0; e < p->dv; e++) {
            double own = 0, flat = 0, result = 0, largest = 0, once = 0;
            for (int64_t j = begin; j < end; j++) {
                double v = p->v[j * p->dv + e], term = weights[j] * v;
                result += term, once += rounded[j] * v, own += term * term * equal[j],
                    flat += v * v * equal[j];
                largest = fmax(largest, fabs(term));
            }
            double cut = CUT * largest * sqrt(terms);
            double noise =
                sqrt(share * (own + squares * result * result) + least * least * flat + cut * cut);
            double alike = sum > 0 ? fabs(once / sum - result) : 0;
            to->noise[r * p->dv + e] = alike > NO_CHANCE * noise ? alike : noise;
        }
    }
    arena_reset(scratch, mark);
}
