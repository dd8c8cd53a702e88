/* Attention on small tensors: inputs, a direct reference in fp64, and a run of a TL text. */
#ifndef FLASHTL_TESTS_INTERPRET_CASE_H
#define FLASHTL_TESTS_INTERPRET_CASE_H

#include "base/os.h"
#include "interpret/interpret.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct attention_case {
    int batch, q_heads, kv_heads, q_len, kv_len, d, dv;
    bool is_causal;
    double scale;
    double *q, *k, *v, *o, *lse, *expected, *expected_lse;
} attention_case;

#define CASE(batch_, q_heads_, kv_heads_, q_len_, kv_len_, d_, dv_, is_causal_)                    \
    {                                                                                              \
        .batch = batch_, .q_heads = q_heads_, .kv_heads = kv_heads_, .q_len = q_len_,              \
        .kv_len = kv_len_, .d = d_, .dv = dv_, .is_causal = is_causal_                             \
    }

static inline double *case_numbers(size_t count, uint64_t seed) {
    double *x = calloc(count ? count : 1, sizeof *x);
    for (size_t i = 0; i < count; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double uniform = (double)(seed >> 40) / (double)(1 << 24) - 0.5;
        x[i] = convert_round(CONVERT_F16, 3 * uniform);
    }
    return x;
}

static inline size_t case_count(int a, int b, int c, int d) {
    return (size_t)a * (size_t)b * (size_t)c * (size_t)d;
}

/* One row of attention, straight from the definition. */
static inline void case_row(attention_case *c, int b, int h, int i) {
    int group = c->q_heads / c->kv_heads, seen = c->kv_len;
    if (c->is_causal) seen = i + c->kv_len - c->q_len + 1;
    if (seen > c->kv_len) seen = c->kv_len;
    size_t head = (size_t)b * (size_t)c->q_heads + (size_t)h;
    size_t kv_head = (size_t)b * (size_t)c->kv_heads + (size_t)(h / group);
    size_t row = head * (size_t)c->q_len + (size_t)i;
    double *s = calloc((size_t)c->kv_len + 1, sizeof *s), most = -INFINITY, sum = 0;
    for (int j = 0; j < seen; j++) {
        for (int e = 0; e < c->d; e++) {
            s[j] += c->q[row * (size_t)c->d + (size_t)e] *
                    c->k[(kv_head * (size_t)c->kv_len + (size_t)j) * (size_t)c->d + (size_t)e];
        }
        s[j] *= c->scale;
        if (s[j] > most) most = s[j];
    }
    for (int j = 0; j < seen; j++) sum += s[j] = exp(s[j] - most);
    for (int e = 0; e < c->dv; e++) {
        double o = 0;
        for (int j = 0; j < seen; j++) {
            o += s[j] / sum *
                 c->v[(kv_head * (size_t)c->kv_len + (size_t)j) * (size_t)c->dv + (size_t)e];
        }
        c->expected[row * (size_t)c->dv + (size_t)e] = o;
    }
    c->expected_lse[row] = seen > 0 ? most + log(sum) : -INFINITY;
    free(s);
}

static inline void case_make(attention_case *c) {
    c->scale = 1 / sqrt(c->d);
    c->q = case_numbers(case_count(c->batch, c->q_heads, c->q_len, c->d), 1);
    c->k = case_numbers(case_count(c->batch, c->kv_heads, c->kv_len, c->d), 2);
    c->v = case_numbers(case_count(c->batch, c->kv_heads, c->kv_len, c->dv), 3);
    size_t rows = case_count(c->batch, c->q_heads, c->q_len, 1);
    c->o = case_numbers(rows * (size_t)c->dv, 4);
    c->lse = case_numbers(rows, 5);
    c->expected = case_numbers(rows * (size_t)c->dv, 6);
    c->expected_lse = case_numbers(rows, 7);
    for (int b = 0; b < c->batch; b++) {
        for (int h = 0; h < c->q_heads; h++) {
            for (int i = 0; i < c->q_len; i++) case_row(c, b, h, i);
        }
    }
}

static inline void case_done(attention_case *c) {
    free(c->q), free(c->k), free(c->v), free(c->o), free(c->lse);
    free(c->expected), free(c->expected_lse);
}

/* Relative rms error of the output; 1e9 where something is no number. */
static inline double case_error(const attention_case *c) {
    double difference = 0, size = 0;
    size_t count = case_count(c->batch, c->q_heads, c->q_len, c->dv);
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(c->o[i])) return 1e9;
        difference += (c->o[i] - c->expected[i]) * (c->o[i] - c->expected[i]);
        size += c->expected[i] * c->expected[i];
    }
    return size > 0 ? sqrt(difference / size) : sqrt(difference);
}

static inline double case_lse_error(const attention_case *c) {
    double worst = 0;
    size_t rows = case_count(c->batch, c->q_heads, c->q_len, 1);
    for (size_t i = 0; i < rows; i++) {
        if (isinf(c->expected_lse[i])) {
            if (c->lse[i] != c->expected_lse[i]) return 1e9;
            continue;
        }
        double difference = fabs(c->lse[i] - c->expected_lse[i]);
        if (!(difference <= worst)) worst = difference;
    }
    return worst;
}

/* A dense tensor (a, b, c, d); extents of 0 at the end are left out. */
static inline interpret_tensor case_tensor(const char *name, double *data, int a, int b, int c,
                                           int d) {
    interpret_tensor t = {.name = str_from(name), .data = data, .format = CONVERT_F64};
    int extents[4] = {a, b, c, d};
    t.axis_count = d < 0 ? 3 : 4;
    int64_t stride = 1;
    for (int i = t.axis_count - 1; i >= 0; i--) {
        t.extents[i] = extents[i];
        t.strides[i] = stride;
        stride *= extents[i];
    }
    return t;
}

typedef struct tl_text {
    arena memory;
    diag_list diags;
    tl_program *program;
} tl_text;

static inline bool text_read(tl_text *t, str source) {
    arena_init(&t->memory, (size_t)1 << 31);
    diag_init(&t->diags, &t->memory, STR("test.tl"), source);
    t->program = tl_parse(&t->memory, STR("test.tl"), source, &t->diags);
    if (t->diags.error_count || !tl_bind(t->program, &t->diags)) return false;
    for (tl_kernel *k = t->program->first; k; k = k->next) {
        tl_infer_axes(k, &t->memory, &t->diags);
    }
    return !t->diags.error_count;
}

static inline void text_show(const tl_text *t) {
    text_buffer out;
    text_init(&out, 1 << 20);
    diag_render_text(&t->diags, false, &out);
    if (out.data) fprintf(stderr, "%s", out.data);
    text_done(&out);
}

static inline void case_run_kernel(attention_case *c, tl_text *t, interpret_mode mode) {
    interpret_tensor tensors[] = {case_tensor("Q", c->q, c->batch, c->q_heads, c->q_len, c->d),
                                  case_tensor("K", c->k, c->batch, c->kv_heads, c->kv_len, c->d),
                                  case_tensor("V", c->v, c->batch, c->kv_heads, c->kv_len, c->dv),
                                  case_tensor("O", c->o, c->batch, c->q_heads, c->q_len, c->dv),
                                  case_tensor("lse", c->lse, c->batch, c->q_heads, c->q_len, -1)};
    interpret_scalar scalars[] = {{STR("scale"), c->scale}};
    interpret_request request = {.tensors = tensors,
                                 .tensor_count = 5,
                                 .scalars = scalars,
                                 .scalar_count = 1,
                                 .mode = mode,
                                 .most_steps = 1 << 24};
    interpret_kernel(t->program->first, &request, &t->memory, &t->diags, NULL);
}

/* Runs the first kernel of a text; the number of findings. The text is shown on unexpected ones. */
static inline int case_run(attention_case *c, str source, interpret_mode mode, bool is_shown) {
    tl_text t;
    if (text_read(&t, source)) case_run_kernel(c, &t, mode);
    int findings = t.diags.error_count;
    if (findings && is_shown) text_show(&t);
    arena_done(&t.memory);
    return findings;
}

static inline str case_file(const char *name, text_buffer *buffer) {
    char path[512];
    os_error why;
    snprintf(path, sizeof path, "%s/tests/golden/tl/%s.tl", FLASHTL_SOURCE_FOLDER, name);
    text_init(buffer, 1 << 20);
    assert_true(os_read_file(path, 1 << 20, buffer, &why));
    return text_str(buffer);
}

#endif
