/* What a wrong row of an attention would be the right answer to. Each known mistake is computed for
 * that row alone, naively, and compared with what the kernel wrote.
 */
#include "base/number.h"
#include "verify/judge.h"
#include "verify/plan_find.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* A way to be wrong; all 0: none. */
typedef struct mistake {
    int64_t mask_shift;           /* this many keys more (or fewer) are seen at the causal end */
    int64_t window_shift;         /* the same at the far end of a window */
    int64_t drop_begin, drop_end; /* keys that are missing */
    int64_t stale_begin, stale_end, stale_by; /* keys whose V row is that of key - stale_by */
    int64_t zero_keys;                        /* keys of score 0 and value 0 past the end */
    int64_t rescale_tile; /* block of keys after which accumulators are not rescaled */
    bool is_unscaled, is_unmasked;
} mistake;

static bool is_seen(const reference_attention *p, const mistake *m, int64_t i, int64_t j) {
    int64_t place = i + p->kv_len - p->q_len;
    if (j >= m->drop_begin && j < m->drop_end) return false;
    if (p->is_causal && !m->is_unmasked && j > place + m->mask_shift) return false;
    if (p->window && j <= place - p->window + m->window_shift) return false;
    return !(p->window && !p->is_causal && j >= place + p->window + m->mask_shift);
}

static double score(const reference_attention *p, const mistake *m, int64_t i, int64_t j) {
    double s = 0;
    for (int64_t e = 0; e < p->d; e++) s += p->q[i * p->d + e] * p->k[j * p->d + e];
    if (!m->is_unscaled) s *= p->scale;
    if (p->softcap > 0) s = p->softcap * tanh(s / p->softcap);
    return s - p->slope * fabs((double)(j - (i + p->kv_len - p->q_len)));
}

static void mistaken_row(const reference_attention *p, const mistake *m, int64_t i, double *scores,
                         double *out) {
    for (int64_t j = 0; j < p->kv_len; j++)
        scores[j] = is_seen(p, m, i, j) ? score(p, m, i, j) : (double)-INFINITY;
    for (int64_t e = 0; e < p->dv; e++) out[e] = 0;
    double most = m->zero_keys ? 0 : -1e30, sum = 0;
    for (int64_t j = 0; j < p->kv_len && !m->rescale_tile; j++) most = fmax(most, scores[j]);
    for (int64_t j = 0; j < p->kv_len; j++) {
        if (m->rescale_tile && j % m->rescale_tile == 0) { /* the running maximum of this block */
            double before = most;
            for (int64_t x = j; x < p->kv_len && x < j + m->rescale_tile; x++)
                most = fmax(most, scores[x]);
            sum *= exp(before - most);
        }
        double weight = exp(scores[j] - most);
        bool is_stale = j >= m->stale_begin && j < m->stale_end;
        int64_t from = is_stale ? j - m->stale_by : j;
        bool is_there = from >= 0 && from < p->kv_len;
        sum += weight;
        for (int64_t e = 0; is_there && e < p->dv; e++) out[e] += weight * p->v[from * p->dv + e];
    }
    sum += (double)m->zero_keys * exp(-most);
    for (int64_t e = 0; e < p->dv; e++) out[e] = sum > 0 ? out[e] / sum : 0;
}

static double distance(const double *a, const double *b, int64_t count) {
    double error = 0, size = 0;
    for (int64_t e = 0; e < count; e++) {
        error += (a[e] - b[e]) * (a[e] - b[e]);
        size += a[e] * a[e];
    }
    return size > 0 ? sqrt(error / size) : error > 0 ? INFINITY : 0;
}

/* --- trying them ------------------------------------------------------------------------------ */

typedef struct search {
    const reference_attention *p;
    const double *got, *want;
    int64_t row;
    double *scores, *out;
    double best; /* distance of the nearest mistake so far */
    char *sentence;
} search;

enum { SENTENCE = 256 };

__attribute__((format(printf, 3, 4))) static void try(search *s, const mistake *m,
                                                      const char *format, ...) {
    mistaken_row(s->p, m, s->row, s->scores, s->out);
    double off = distance(s->out, s->got, s->p->dv);
    /* it must explain the row, and much better than no mistake does */
    if (!(off < s->best) || distance(s->out, s->want, s->p->dv) < 3 * off) return;
    s->best = off;
    va_list arguments;
    va_start(arguments, format);
    number_print_list(s->sentence, SENTENCE, format, arguments);
    va_end(arguments);
}

static void try_masks(search *s) {
    const reference_attention *p = s->p;
    for (int64_t shift = -1; shift <= 1; shift += 2) {
        const char *how = shift > 0 ? "one key too many" : "one key too few";
        if (p->is_causal)
            try(s, &(mistake){.mask_shift = shift}, "the causal mask is off by one (%s)", how);
        if (p->window) {
            try(s, &(mistake){.window_shift = -shift},
                "the window is off by one (%s at its far end)", how);
        }
        if (p->window && !p->is_causal) {
            try(s, &(mistake){.mask_shift = shift}, "the window is off by one (%s at its near end)",
                how);
        }
    }
    if (p->is_causal && p->kv_len != p->q_len) {
        try(s, &(mistake){.mask_shift = p->q_len - p->kv_len},
            "the causal mask is aligned top left instead of bottom right");
    }
    if (p->is_causal) try(s, &(mistake){.is_unmasked = true}, "there is no causal mask");
    if (p->scale != 1) try(s, &(mistake){.is_unscaled = true}, "the scale is missing");
}

static void try_blocks(search *s, int64_t tile) {
    const reference_attention *p = s->p;
    int64_t rest = p->kv_len % tile;
    if (rest) {
        try(s, &(mistake){.zero_keys = tile - rest},
            "%" PRId64 " keys past the end were counted with score 0", tile - rest);
    }
    try(s, &(mistake){.rescale_tile = tile},
        "the output is not rescaled when the maximum moves "
        "(blocks of %" PRId64 " keys)",
        tile);
    int64_t seen_begin, seen_end;
    reference_attention_keys(p, s->row, &seen_begin, &seen_end);
    for (int64_t begin = 0; begin < p->kv_len; begin += tile) {
        int64_t end = begin + tile < p->kv_len ? begin + tile : p->kv_len;
        const char *which = end == p->kv_len  ? "the last tile"
                            : end >= seen_end ? "the last tile that "
                                                "the row sees"
                                              : "a tile";
        try(s, &(mistake){.drop_begin = begin, .drop_end = end},
            "keys %" PRId64 "..%" PRId64 " are missing (%s)", begin, end - 1, which);
        for (int64_t by = -tile; by <= 2 * tile; by += tile) {
            if (by == 0) continue;
            try(s, &(mistake){.stale_begin = begin, .stale_end = end, .stale_by = by},
                "keys %" PRId64 "..%" PRId64 " meet the values of the tile %" PRId64
                " %s (a stale or "
                "early V tile)",
                begin, end - 1, (by < 0 ? -by : by) / tile, by > 0 ? "before" : "after");
        }
    }
}

static void try_heads(search *s, const case_data *data, int64_t batch, int64_t head,
                      arena *memory) {
    expected_head own, other;
    expected_attention_head(data, batch, head, -1, memory, &own);
    for (int64_t h = 0; h < own.kv_heads; h++) {
        if (h == own.kv_head) continue;
        arena_mark mark = arena_here(memory);
        expected_attention_head(data, batch, head, h, memory, &other);
        s->p = &other.formula;
        try(s, &(mistake){0},
            "query head %" PRId64 " reads key head %" PRId64 " instead of %" PRId64
            " (a wrong map of heads)",
            head, h, own.kv_head);
        arena_reset(memory, mark);
    }
}

void judge_cause(const case_data *data, const judged *o, const judgement *j, arena *memory,
                 text_buffer *out) {
    const buffer *of = o->expected->of;
    bool is_output =
        expected_choose(data->program) == EXPECTED_ATTENTION && !o->expected->is_logarithm;
    if (!is_output || j->worst < 0) return;
    int64_t row = j->worst / of->columns, index[FTL_AXES_MAX];
    buffer_row_index(of, row, index);
    expected_head h;
    expected_attention_head(data, index[0], index[1], -1, memory, &h);
    char sentence[SENTENCE] = "";
    search s = {.p = &h.formula,
                .row = index[2],
                .got = o->got + row * of->columns,
                .want = o->expected->values + row * of->columns,
                .best = 3 * o->tolerance,
                .scores = arena_array(memory, double, h.formula.kv_len + 1),
                .out = arena_array(memory, double, h.formula.dv + 1),
                .sentence = sentence};
    try_masks(&s);
    int64_t tiles[4] = {64, 128, 32, 16};
    int32_t size = plan_find_size(data->program->plan, "kv_len");
    int count = size >= 0 ? inputs_tiles(data->program->plan, size, tiles, 4) : 4;
    for (int i = 0; i < count; i++) try_blocks(&s, tiles[i]);
    try_heads(&s, data, index[0], index[1], memory);
    if (sentence[0]) text_format(out, "; as if %s", sentence);
}
