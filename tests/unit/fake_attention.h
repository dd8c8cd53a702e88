/* Attention by the launch's own parameters, on host memory: what a pretended kernel computes. */
#ifndef TESTS_FAKE_ATTENTION_H
#define TESTS_FAKE_ATTENTION_H

#include "base/convert.h"
#include "fake_launch.h"
#include "verify/reference.h"

#include <stdlib.h>

typedef struct fake_tensor {
    uint16_t *first;
    int64_t strides[4]; /* batch, head, row, 1 */
} fake_tensor;

static fake_tensor fake_find(const ftl_plan *plan, const unsigned char *parameters,
                             const char *name) {
    fake_tensor out = {.strides = {0, 0, 0, 1}};
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        if (strcmp(tensor->name, name) != 0) continue;
        memcpy(&out.first, parameters + tensor->pointer_offset, sizeof out.first);
        for (int32_t i = 0; i < tensor->axis_count && i < 4; i++) {
            if (tensor->axes[i].stride_offset < 0) continue;
            memcpy(&out.strides[i], parameters + tensor->axes[i].stride_offset, sizeof(int64_t));
        }
    }
    return out;
}

static double *fake_load(const fake_tensor *t, int64_t batch, int64_t head, int64_t rows,
                         int64_t columns) {
    double *values = calloc((size_t)(rows * columns + 1), sizeof *values);
    const uint16_t *at = t->first + batch * t->strides[0] + head * t->strides[1];
    for (int64_t i = 0; i < rows; i++) {
        convert_load(CONVERT_F16, at, i * t->strides[2], 1, (size_t)columns, values + i * columns);
    }
    return values;
}

/* f16, causal. */
static void fake_attention(const ftl_plan *plan, const unsigned char *parameters, int64_t d) {
    int64_t batch = fake_size(plan, parameters, "batch");
    int64_t q_heads = fake_size(plan, parameters, "q_heads");
    int64_t kv_heads = fake_size(plan, parameters, "kv_heads");
    int64_t q_len = fake_size(plan, parameters, "q_len"),
            kv_len = fake_size(plan, parameters, "kv_len");
    fake_tensor q = fake_find(plan, parameters, "Q"), k = fake_find(plan, parameters, "K");
    fake_tensor v = fake_find(plan, parameters, "V"), o = fake_find(plan, parameters, "O");
    float scale = 1;
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        memcpy(&scale, parameters + plan->scalars[i].offset, sizeof scale);
    }
    arena scratch;
    arena_init(&scratch, 256 << 20);
    double *out = calloc((size_t)(q_len * d + 1), sizeof *out);
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < q_heads; h++) {
            int64_t kv = h / (q_heads / kv_heads);
            double *rows[3] = {fake_load(&q, b, h, q_len, d), fake_load(&k, b, kv, kv_len, d),
                               fake_load(&v, b, kv, kv_len, d)};
            reference_attention formula = {.q = rows[0],
                                           .k = rows[1],
                                           .v = rows[2],
                                           .q_len = q_len,
                                           .kv_len = kv_len,
                                           .d = d,
                                           .dv = d,
                                           .scale = (double)scale,
                                           .is_causal = true};
            reference_attention_rows(&formula, 0, q_len, CONVERT_F64, out, NULL, &scratch);
            for (int64_t i = 0; i < q_len; i++) {
                convert_store(CONVERT_F16, out + i * d, (size_t)d, o.first,
                              b * o.strides[0] + h * o.strides[1] + i * o.strides[2], 1);
            }
            for (int i = 0; i < 3; i++) free(rows[i]);
        }
    }
    free(out);
    arena_done(&scratch);
}

#endif
