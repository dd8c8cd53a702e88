/* Attention, row by row: all scores of a row, its maximum, its sum. Eight rows share the loads. */
#include "verify/reference.h"
#include "verify/reference_product.h"

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

/* One score, after the product. A model rounds where a framework would store the matrix; a bias is
 * f32 there, and so is its sum with the scores.
 */
static double finish_score(const reference_attention *p, double score, int64_t i, int64_t j,
                           convert_format model) {
    score = convert_round(model, score);
    if (p->softcap > 0) score = convert_round(model, p->softcap * tanh(score / p->softcap));
    if (p->slope != 0) {
        double distance = fabs((double)(j - (i + p->kv_len - p->q_len)));
        score -= p->slope * distance;
    }
    return score;
}

/* Scores (keys, 8) to weights, in place; keys that a row does not see get 0. */
static void softmax_row(const reference_attention *p, int64_t i, int r, int64_t from, int64_t to,
                        convert_format model, double *scores, double *lse) {
    int64_t begin, end;
    reference_attention_keys(p, i, &begin, &end);
    double most = -INFINITY, sum = 0;
    for (int64_t j = begin; j < end; j++) {
        double *score = &scores[(j - from) * PRODUCT_ROWS + r];
        *score = finish_score(p, *score, i, j, model);
        if (*score > most || isnan(*score)) most = *score;
    }
    for (int64_t j = from; j < to; j++) {
        double *score = &scores[(j - from) * PRODUCT_ROWS + r];
        *score = j >= begin && j < end ? exp(*score - most) : 0;
        sum += *score;
    }
    double inverse = begin < end ? 1 / sum : 0;
    for (int64_t j = begin; j < end; j++) {
        double *score = &scores[(j - from) * PRODUCT_ROWS + r];
        *score = convert_round(model, *score * inverse);
    }
    if (lse) *lse = begin < end ? most + log(sum) : -INFINITY;
}

typedef struct work {
    double *q, *k, *scores, *out; /* k: NULL, or the keys as the model stores them */
} work;

static void eight_rows(const reference_attention *p, int64_t first, int64_t rows,
                       convert_format model, const work *w, double *out, double *lse) {
    int64_t from = p->kv_len, to = 0, begin, end;
    for (int64_t r = 0; r < rows; r++) {
        reference_attention_keys(p, first + r, &begin, &end);
        if (begin >= end) continue;
        if (begin < from) from = begin;
        if (end > to) to = end;
    }
    if (from > to) from = to;
    product_interleave(p->q + first * p->d, p->d, rows, p->d, w->q);
    const double *k = w->k ? w->k : p->k;
    if (to > from) product_rows(w->q, k + from * p->d, p->d, 1, to - from, p->d, w->scores);
    if (!w->k) {
        for (int64_t x = 0; x < (to - from) * PRODUCT_ROWS; x++) w->scores[x] *= p->scale;
    }
    for (int64_t r = 0; r < rows; r++) {
        softmax_row(p, first + r, (int)r, from, to, model, w->scores, lse ? &lse[r] : NULL);
    }
    if (to > from) {
        product_rows(w->scores, p->v + from * p->dv, 1, p->dv, p->dv, to - from, w->out);
    } else {
        memset(w->out, 0, (size_t)(p->dv * PRODUCT_ROWS) * sizeof *w->out);
    }
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t e = 0; e < p->dv; e++) {
            out[r * p->dv + e] = convert_round(model, w->out[e * PRODUCT_ROWS + r]);
        }
    }
}

void reference_attention_rows(const reference_attention *p, int64_t first, int64_t count,
                              convert_format model, double *out, double *lse, arena *scratch) {
    arena_mark mark = arena_here(scratch);
    work w = {.q = arena_array(scratch, double, p->d *PRODUCT_ROWS + 1),
              .scores = arena_array(scratch, double, p->kv_len *PRODUCT_ROWS + 1),
              .out = arena_array(scratch, double, p->dv *PRODUCT_ROWS + 1)};
    if (model != CONVERT_F64) { /* the scale goes into the keys, another order of operations */
        w.k = arena_array(scratch, double, p->kv_len * p->d + 1);
        for (int64_t x = 0; x < p->kv_len * p->d; x++) w.k[x] = p->k[x] * p->scale;
        convert_round_all(model, w.k, (size_t)(p->kv_len * p->d));
    }
    for (int64_t r = 0; r < count; r += PRODUCT_ROWS) {
        int64_t rows = count - r < PRODUCT_ROWS ? count - r : PRODUCT_ROWS;
        eight_rows(p, first + r, rows, model, &w, out + r * p->dv, lse ? lse + r : NULL);
    }
    arena_reset(scratch, mark);
}

/* --- weights of 8 bits ------------------------------------------------------------------------ */

/* A weight's rounding, and what the smallest of them lose: steps of 2^-9 where the largest is 2^8.
 * What a sum of products loses: 13 bits are kept of the largest term, or of what is there.
 */
static const double WEIGHT = 0.026, LEAST_WEIGHT = 0.29 * 0x1p-17, CUT = 0x1p-13;
/* Of e5m2: a bit less, and a smaller step. */
static const double WEIGHT_E5M2 = 0.052, LEAST_E5M2 = 0.29 * 0x1p-24;
/* The weights of equal or close scores fall into one step, and are off alike: so far from all else
 * that it is no chance, the error of weights rounded once says what is.
 */
static const double NO_CHANCE = 4, LARGEST_WEIGHT = 256;

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
        weights[j] = finish_score(p, score * p->scale, i, j, CONVERT_F64);
        most = fmax(most, weights[j]);
    }
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
        double s = is_e4m3 ? WEIGHT : WEIGHT_E5M2, share = s * s + off * off;
        double least = (is_e4m3 ? LEAST_WEIGHT : LEAST_E5M2) * most;
        double sum = 0;
        for (int64_t j = begin; j < end; j++)
            sum += rounded[j] = convert_round(to->weight, weights[j] / most * LARGEST_WEIGHT);
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
