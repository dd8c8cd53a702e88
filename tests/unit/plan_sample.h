/* The plan of a small attention kernel, as the translator would hand it over; for tests of
 * everything that launches. Q and O have their own last axis, K and V share kv_len; q_heads is a
 * multiple of kv_heads; lse has no fixed stride.
 */
#ifndef TESTS_PLAN_SAMPLE_H
#define TESTS_PLAN_SAMPLE_H

#include "flashtl/plan.h"

enum { SAMPLE_BATCH, SAMPLE_Q_HEADS, SAMPLE_KV_HEADS, SAMPLE_Q_LEN, SAMPLE_KV_LEN, SAMPLE_SIZES };

#define SIZE_STEP(n)                                                                               \
    { .op = FTL_PUSH_SIZE, .index = (n) }
#define INTEGER_STEP(n)                                                                            \
    { .op = FTL_PUSH_INTEGER, .integer = (n) }
#define OP_STEP(o)                                                                                 \
    { .op = (o) }
#define FORMULA(t, s)                                                                              \
    { .text = (t), .steps = (s), .step_count = sizeof(s) / sizeof *(s) }

static const ftl_formula_step sample_batch[] = {SIZE_STEP(SAMPLE_BATCH)};
static const ftl_formula_step sample_q_heads[] = {SIZE_STEP(SAMPLE_Q_HEADS)};
static const ftl_formula_step sample_kv_heads[] = {SIZE_STEP(SAMPLE_KV_HEADS)};
static const ftl_formula_step sample_q_len[] = {SIZE_STEP(SAMPLE_Q_LEN)};
static const ftl_formula_step sample_kv_len[] = {SIZE_STEP(SAMPLE_KV_LEN)};
static const ftl_formula_step sample_64[] = {INTEGER_STEP(64)};
static const ftl_formula_step sample_blocks[] = {SIZE_STEP(SAMPLE_Q_LEN), INTEGER_STEP(64),
                                                 OP_STEP(FTL_DIVIDE_UP)};
static const ftl_formula_step sample_divides[] = {SIZE_STEP(SAMPLE_Q_HEADS),
                                                  SIZE_STEP(SAMPLE_KV_HEADS), OP_STEP(FTL_MODULO),
                                                  INTEGER_STEP(0), OP_STEP(FTL_EQUAL)};
static const ftl_formula_step sample_positive[] = {
    {.op = FTL_PUSH_SCALAR, .index = 0}, INTEGER_STEP(0), OP_STEP(FTL_GREATER)};

#define SAMPLE_AXIS(n, f, s, o)                                                                    \
    { .name = (n), .extent = FORMULA((n), f), .size = (s), .stride_offset = (o) }
#define SAMPLE_MATRIX(n, r, p, heads_name, heads_steps, heads, len_name, len_steps, len)           \
    {                                                                                              \
        .name = (n), .type = FTL_F16, .role = (r), .axis_count = 4, .pointer_offset = (p),         \
        .alignment_bytes = 16,                                                                     \
        .axes = {SAMPLE_AXIS("b", sample_batch, SAMPLE_BATCH, (p) + 8),                            \
                 SAMPLE_AXIS(heads_name, heads_steps, heads, (p) + 16),                            \
                 {.name = (len_name),                                                              \
                  .extent = FORMULA((len_name), len_steps),                                        \
                  .size = (len),                                                                   \
                  .stride_offset = (p) + 24,                                                       \
                  .is_stride_short = true},                                                        \
                 SAMPLE_AXIS("d", sample_64, -1, -1)},                                             \
    }

static const ftl_plan_tensor sample_tensors[] = {
    SAMPLE_MATRIX("Q", FTL_INPUT, 0, "head", sample_q_heads, SAMPLE_Q_HEADS, "q", sample_q_len,
                  SAMPLE_Q_LEN),
    SAMPLE_MATRIX("K", FTL_INPUT, 32, "kv_head", sample_kv_heads, SAMPLE_KV_HEADS, "kv",
                  sample_kv_len, SAMPLE_KV_LEN),
    SAMPLE_MATRIX("V", FTL_INPUT, 64, "kv_head", sample_kv_heads, SAMPLE_KV_HEADS, "kv",
                  sample_kv_len, SAMPLE_KV_LEN),
    SAMPLE_MATRIX("O", FTL_OUTPUT, 96, "head", sample_q_heads, SAMPLE_Q_HEADS, "q", sample_q_len,
                  SAMPLE_Q_LEN),
};
static const ftl_plan_size sample_sizes[] = {
    {"batch", 128}, {"q_heads", 132}, {"kv_heads", 136}, {"q_len", 140}, {"kv_len", 144}};
static const ftl_plan_scalar sample_scalars[] = {{"scale", FTL_F32, 148}};
static const ftl_formula sample_walks[] = {FORMULA("q_heads", sample_q_heads),
                                           FORMULA("batch", sample_batch),
                                           FORMULA("q_len/64", sample_blocks)};
static const ftl_formula sample_conditions[] = {FORMULA("q_heads % kv_heads == 0", sample_divides),
                                                FORMULA("scale > 0", sample_positive)};
static const ftl_plan_tile sample_tiles[] = {{"K", FTL_F16, 0, 64, 128, 2}};

static const ftl_plan sample_plan = {
    .kernel = "attention",
    .entry = "attention_a100",
    .gpu = "a100",
    .target = "compute_80",
    .threads = 128,
    .shared_bytes = 65536,
    .blocks_per_sm = 2,
    .parameter_bytes = 152,
    .tensors = sample_tensors,
    .tensor_count = 4,
    .sizes = sample_sizes,
    .size_count = SAMPLE_SIZES,
    .scalars = sample_scalars,
    .scalar_count = 1,
    .walks = sample_walks,
    .walk_count = 3,
    .conditions = sample_conditions,
    .condition_count = 2,
    .tiles = sample_tiles,
    .tile_count = 1,
};

/* Contiguous arguments for it; change a copy to make them wrong. */
typedef struct sample_call {
    ftl_tensor tensors[4];
    ftl_scalar scalars[1];
} sample_call;

static inline void sample_dense(ftl_tensor *tensor) {
    int64_t stride = 1;
    for (int i = tensor->axis_count - 1; i >= 0; i--) {
        tensor->strides[i] = stride;
        stride *= tensor->extents[i];
    }
}

static inline sample_call sample_arguments(int64_t batch, int64_t q_heads, int64_t kv_heads,
                                           int64_t q_len, int64_t kv_len) {
    sample_call call = {.tensors = {{"Q", 0x10000, FTL_F16, {batch, q_heads, q_len, 64}, {0}, 4},
                                    {"K", 0x20000, FTL_F16, {batch, kv_heads, kv_len, 64}, {0}, 4},
                                    {"V", 0x30000, FTL_F16, {batch, kv_heads, kv_len, 64}, {0}, 4},
                                    {"O", 0x40000, FTL_F16, {batch, q_heads, q_len, 64}, {0}, 4}},
                        .scalars = {{"scale", 0.125}}};
    for (int i = 0; i < 4; i++) sample_dense(&call.tensors[i]);
    return call;
}

#endif
