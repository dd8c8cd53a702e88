/* A plan of a small causal attention with a log-sum-exp, and a CPU "kernel" for it that works as
 * those of GPUs do (blocks of keys, an online softmax in f32, weights in f16) and can be told to be
 * wrong.
 */
#ifndef TESTS_VERIFY_SAMPLE_H
#define TESTS_VERIFY_SAMPLE_H

#include "base/convert.h"
#include "flashtl/execute.h"
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH, Q_HEADS, KV_HEADS, Q_LEN, KV_LEN, SIZES };
enum { D = 32, DV = 48, BM = 64, BN = 64 };

#define SIZE(n)                                                                                    \
    { .op = FTL_PUSH_SIZE, .index = (n) }
#define INTEGER(n)                                                                                 \
    { .op = FTL_PUSH_INTEGER, .integer = (n) }
#define OP(o)                                                                                      \
    { .op = (o) }
#define FORMULA(t, s)                                                                              \
    { .text = (t), .steps = (s), .step_count = sizeof(s) / sizeof *(s) }

static const ftl_formula_step batch_steps[] = {SIZE(BATCH)}, q_heads_steps[] = {SIZE(Q_HEADS)},
                              kv_heads_steps[] = {SIZE(KV_HEADS)}, q_len_steps[] = {SIZE(Q_LEN)},
                              kv_len_steps[] = {SIZE(KV_LEN)}, d_steps[] = {INTEGER(D)},
                              dv_steps[] = {INTEGER(DV)},
                              blocks_steps[] = {SIZE(Q_LEN), INTEGER(BM), OP(FTL_DIVIDE_UP)},
                              divides_steps[] = {SIZE(Q_HEADS), SIZE(KV_HEADS), OP(FTL_MODULO),
                                                 INTEGER(0), OP(FTL_EQUAL)};

#define AXIS(n, f, s, o)                                                                           \
    { .name = (n), .extent = FORMULA((n), f), .size = (s), .stride_offset = (o) }
#define MATRIX(n, t, r, p, heads, heads_steps, row, row_steps, row_size, column, column_steps)     \
    {                                                                                              \
        .name = (n), .type = (t), .role = (r), .axis_count = 4, .pointer_offset = (p),             \
        .alignment_bytes = 16,                                                                     \
        .axes = {AXIS("b", batch_steps, BATCH, (p) + 8),                                           \
                 AXIS("head", heads_steps, heads, (p) + 16),                                       \
                 AXIS(row, row_steps, row_size, (p) + 24), AXIS(column, column_steps, -1, -1)},    \
    }

#define TENSORS(TYPE)                                                                              \
    {                                                                                              \
        MATRIX("Q", TYPE, FTL_INPUT, 0, Q_HEADS, q_heads_steps, "q", q_len_steps, Q_LEN, "d",      \
               d_steps),                                                                           \
            MATRIX("K", TYPE, FTL_INPUT, 32, KV_HEADS, kv_heads_steps, "kv", kv_len_steps, KV_LEN, \
                   "d", d_steps),                                                                  \
            MATRIX("V", TYPE, FTL_INPUT, 64, KV_HEADS, kv_heads_steps, "kv", kv_len_steps, KV_LEN, \
                   "dv", dv_steps),                                                                \
            MATRIX("O", TYPE, FTL_OUTPUT, 96, Q_HEADS, q_heads_steps, "q", q_len_steps, Q_LEN,     \
                   "dv", dv_steps),                                                                \
            {.name = "lse",                                                                        \
             .type = FTL_F32,                                                                      \
             .role = FTL_OUTPUT,                                                                   \
             .axis_count = 3,                                                                      \
             .pointer_offset = 128,                                                                \
             .alignment_bytes = 4,                                                                 \
             .axes = {AXIS("b", batch_steps, BATCH, 136),                                          \
                      AXIS("head", q_heads_steps, Q_HEADS, 144),                                   \
                      AXIS("q", q_len_steps, Q_LEN, 152)}},                                        \
    }

static const ftl_plan_tensor f16_tensors[] = TENSORS(FTL_F16), bf16_tensors[] = TENSORS(FTL_BF16);
static const ftl_plan_size sizes[] = {
    {"batch", 160}, {"q_heads", 164}, {"kv_heads", 168}, {"q_len", 172}, {"kv_len", 176}};
static const ftl_plan_scalar scalars[] = {{"scale", FTL_F32, 180}};
static const ftl_formula walks[] = {FORMULA("q_heads", q_heads_steps),
                                    FORMULA("batch", batch_steps),
                                    FORMULA("q_len/64", blocks_steps)};
static const ftl_formula conditions[] = {FORMULA("q_heads % kv_heads == 0", divides_steps)};
static const ftl_plan_tile tiles[] = {{"K", FTL_F16, 0, BN, 2 * D, 2}};

#define PLAN(t)                                                                                    \
    {                                                                                              \
        .kernel = "attention", .entry = "attention", .gpu = "a100", .target = "compute_80",        \
        .threads = 128, .blocks_per_sm = 1, .parameter_bytes = 184, .tensors = (t),                \
        .tensor_count = 5, .sizes = sizes, .size_count = SIZES, .scalars = scalars,                \
        .scalar_count = 1, .walks = walks, .walk_count = 3, .conditions = conditions,              \
        .condition_count = 1, .tiles = tiles, .tile_count = 1,                                     \
    }
/* What it should compute, for what is drawn by its statements. */
static const char sample_text[] =
    "Copy Q from global to shared\nfor j = 0:kv_len/BN\n    Copy K from global to shared\n"
    "    Compute GEMM Q, K.T and get S\n    Compute Softmax S\n    Copy V from global to shared\n"
    "    Compute GEMM S, V and accumulate O\nend\nCopy O from register to global\n";
#define SAMPLE_SKETCH                                                                              \
    { "attention", sample_text, sizeof sample_text - 1 }
static const ftl_plan f16_plan = PLAN(f16_tensors), bf16_plan = PLAN(bf16_tensors);

/* What the kernel does wrong. */
typedef enum fault {
    RIGHT,
    DROP_LAST_TILE,
    MASK_MORE,
    MASK_LESS,
    TOP_LEFT,
    NO_RESCALE,
    WRONG_HEAD,
    STALE_V,
    NO_END,
    READ_BEHIND,
    ROWS_UNWRITTEN,
    ONE_WARP,
    COLUMN_BLOCK,
    WRITE_BEHIND,
    WRITE_BEFORE,
    WRITE_GAP,
    WRITE_INPUT,
    UNSTEADY,
    WRONG_LSE,
    NO_SCALE,
    LATE_ROW,
    FROM_ZERO,
    FAULTS
} fault;

typedef struct kernel {
    fault fault;
    bool is_causal;
    int launches;
} kernel;

static const ftl_tensor *tensor_of(const ftl_arguments *a, const char *name) {
    for (int32_t i = 0; i < a->tensor_count; i++) {
        if (strcmp(a->tensors[i].name, name) == 0) return &a->tensors[i];
    }
    abort();
}

static convert_format sample_format(ftl_type type) {
    return type == FTL_F16 ? CONVERT_F16 : type == FTL_BF16 ? CONVERT_BF16 : CONVERT_F32;
}

static char *element(const ftl_tensor *t, int64_t b, int64_t h, int64_t r) {
    int64_t offset = b * t->strides[0] + h * t->strides[1] + r * t->strides[2];
    return (char *)(uintptr_t)t->address + offset * (int64_t)ftl_type_bytes(t->type);
}

/* Rows of a head as doubles; the caller frees them. */
static double *load_head(const ftl_tensor *t, int64_t b, int64_t h, int64_t rows) {
    int64_t columns = t->extents[3];
    double *out = calloc((size_t)(rows * columns) + 1, sizeof *out);
    for (int64_t r = 0; r < rows; r++) {
        convert_load(sample_format(t->type), element(t, b, h, r), 0, 1, (size_t)columns,
                     out + r * columns);
    }
    return out;
}

/* A head's matrices; one more row of keys and values where the kernel reads past the end. */
typedef struct head {
    double *q, *k, *v;
    int64_t q_len, kv_len;
    convert_format format;
    float scale;
} head;

/* One row by blocks of keys. */
static void sample_row(const kernel *k, const head *at, int64_t i, double *o, double *lse) {
    int64_t q_len = at->q_len, kv_len = at->kv_len;
    float m = k->fault == FROM_ZERO ? 0 : -1e30f, l = 0, acc[DV] = {0};
    const double *q = at->q + i * D, *row;
    int64_t place = i + (k->fault == TOP_LEFT ? 0 : kv_len - q_len);
    place += k->fault == MASK_MORE ? 1 : k->fault == MASK_LESS ? -1 : 0;
    int64_t tiles_seen = (kv_len + BN - 1) / BN;
    if (k->fault == DROP_LAST_TILE && tiles_seen > 1) tiles_seen--;
    for (int64_t t = 0; t < tiles_seen; t++) {
        float s[BN], before = m;
        for (int64_t x = 0; x < BN; x++) {
            int64_t j = t * BN + x;
            s[x] = -INFINITY;
            bool is_behind = j >= kv_len, is_read = !is_behind || k->fault == READ_BEHIND;
            if (is_behind && k->fault == NO_END) s[x] = 0;
            if ((k->is_causal && j > place) || !is_read || (is_behind && j > kv_len)) continue;
            row = at->k + j * D;
            float sum = 0;
            for (int e = 0; e < D; e++) sum += (float)q[e] * (float)row[e];
            s[x] = sum * at->scale;
        }
        for (int x = 0; x < BN; x++) m = s[x] > m || isnan(s[x]) ? s[x] : m;
        float alpha = expf(before - m);
        l *= alpha;
        for (int e = 0; e < DV; e++) acc[e] *= k->fault == NO_RESCALE ? 1 : alpha;
        for (int64_t x = 0; x < BN; x++) {
            int64_t j = t * BN + x, from = k->fault == STALE_V && t == 1 ? j - BN : j;
            float p = expf(s[x] - m);
            l += p;
            if (p == 0 || from >= kv_len) continue;
            row = at->v + from * DV;
            float rounded = (float)convert_round(at->format, (double)p);
            for (int e = 0; e < DV; e++) acc[e] += rounded * (float)row[e];
        }
    }
    *lse = (double)(logf(l) + m);
    if (l == 0) *lse = -INFINITY;
    if (k->fault == WRONG_LSE) *lse += 0.01;
    for (int e = 0; e < DV; e++) o[e] = (double)(acc[e] / fmaxf(l, 1e-30f));
    if (k->fault == ONE_WARP && i % BM / 16 == 2) o[5] += 0.5;
    if (k->fault == COLUMN_BLOCK)
        for (int e = 16; e < 24; e++) o[e] = 0;
    if (k->fault == LATE_ROW && i == q_len - 1)
        for (int e = 0; e < DV; e++) o[e] *= 1.02;
    if (k->fault == UNSTEADY && k->launches % 2 == 0 && i == 3) o[0] *= 1 + 0x1p-9;
}

static void sample_damage(const kernel *k, const ftl_arguments *a) {
    const ftl_tensor *o = tensor_of(a, "O"), *q = tensor_of(a, "Q");
    int64_t b = o->extents[0] - 1, h = o->extents[1] - 1, r = o->extents[2] - 1;
    if (b < 0 || h < 0 || r < 0) return;
    int64_t span = (b * o->strides[0] + h * o->strides[1] + r * o->strides[2] + DV) * 2;
    if (k->fault == WRITE_BEHIND) memset((char *)(uintptr_t)o->address + span, 0, 6);
    if (k->fault == WRITE_BEFORE) memset((char *)(uintptr_t)o->address - 2, 0, 2);
    if (k->fault == WRITE_GAP) memset(element(o, 0, 0, 0) + 2 * DV, 0, 2);
    if (k->fault == WRITE_INPUT) memset(element(q, 0, 0, 0), 0, 2);
}

static void sample_head(const kernel *k, const ftl_arguments *a, int64_t b, int64_t h) {
    const ftl_tensor *o = tensor_of(a, "O"), *lse = tensor_of(a, "lse"), *q = tensor_of(a, "Q");
    const ftl_tensor *keys = tensor_of(a, "K"), *values = tensor_of(a, "V");
    int64_t kv_heads = keys->extents[1], kv_len = keys->extents[2];
    int64_t kv_head = k->fault == WRONG_HEAD ? h % kv_heads : h / (q->extents[1] / kv_heads);
    int64_t rows = kv_len + (k->fault == READ_BEHIND);
    head at = {load_head(q, b, h, q->extents[2]),
               load_head(keys, b, kv_head, rows),
               load_head(values, b, kv_head, rows),
               q->extents[2],
               kv_len,
               sample_format(o->type),
               k->fault == NO_SCALE ? 1 : (float)a->scalars[0].value};
    for (int64_t i = 0; i < at.q_len; i++) {
        double row[DV], sum;
        if (k->fault == ROWS_UNWRITTEN && i >= at.q_len / BM * BM) continue;
        sample_row(k, &at, i, row, &sum);
        convert_store(at.format, row, DV, element(o, b, h, i), 0, 1);
        convert_store(CONVERT_F32, &sum, 1, element(lse, b, h, i), 0, 1);
    }
    free(at.q), free(at.k), free(at.v);
}

static ftl_status sample_launch(void *user, ftl_context *context, const ftl_arguments *a,
                                double *milliseconds, text_buffer *detail) {
    (void)context, (void)detail;
    kernel *k = user;
    const ftl_tensor *o = tensor_of(a, "O");
    k->launches++;
    *milliseconds = 1;
    for (int64_t b = 0; b < o->extents[0]; b++) {
        for (int64_t h = 0; h < o->extents[1]; h++) sample_head(k, a, b, h);
    }
    sample_damage(k, a);
    return FTL_OK;
}

#endif
