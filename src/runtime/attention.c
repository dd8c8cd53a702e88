/* Attention in one call: to all keys, and to the blocks that lists name. */
#include "runtime/attention.h"

#include "base/needs.h"
#include "runtime/serving.h"

#include <math.h>
#include <string.h>

/* Up to SHORT_LENGTH queries and keys, other tile sizes may be faster than those that are right for
 * long ones. Any kernel is right at any length.
 */
enum { SHORT_LENGTH = 1024 };

static ftl_status check_common(ftl_context *context, const attention_common *c) {
    int64_t value_dim = c->value_dim ? c->value_dim : c->head_dim;
    bool is_size = c->head_dim > 0 && c->head_dim <= 65536 && value_dim > 0 && value_dim <= 65536;
    if (!is_size) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "head sizes must be from 1 to 65536, not %lld and %lld",
                                (long long)c->head_dim, (long long)value_dim);
    }
    if (c->window < 0 || !(c->softcap >= 0) || !isfinite(c->softcap)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "window and softcap are 0 or positive");
    }
    if (c->dtype != FTL_F16 && c->dtype != FTL_BF16) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the element type is FTL_F16 or FTL_BF16");
    }
    if (!isfinite(c->scale) || c->scale < 0) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the scale is above 0, or 0 for 1 / sqrt(head_dim)");
    }
    return FTL_OK;
}

ftl_status attention_key_begin(ftl_context *context, ftl_runtime *runtime,
                               const attention_common *c, attention_key *key) {
    int device = 0;
    ftl_status status = check_common(context, c);
    if (!status) status = runtime_need_driver(context, runtime);
    if (status) return status;
    status = runtime_cuda_status(context, &runtime->cuda, runtime->cuda.context_device(&device),
                                 "find the current GPU");
    if (status) return status;
    memset(key, 0, sizeof *key);
    key->operator=(int32_t) c->operator;
    key->device = device;
    key->dtype = (int32_t)c->dtype;
    key->head_dim = (int32_t)c->head_dim;
    key->value_dim = (int32_t)(c->value_dim ? c->value_dim : c->head_dim);
    key->window = c->window;
    key->softcap = c->softcap;
    return FTL_OK;
}

bool attention_is_short(int64_t q_len, int64_t kv_len) {
    return q_len <= SHORT_LENGTH && kv_len <= SHORT_LENGTH;
}

double attention_scale(double scale, int64_t head_dim) {
    return scale > 0 ? scale : 1 / sqrt((double)head_dim);
}

/* --- all keys --------------------------------------------------------------------------------- */

static ftl_status make_key(ftl_context *context, ftl_runtime *runtime, const ftl_attention *a,
                           attention_key *key) {
    NEEDS(runtime);
    if (!a || a->struct_bytes < sizeof *a) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the attention is null, or not begun with FTL_ATTENTION_INIT");
    }
    const attention_common common = {.operator= ATTENTION_DENSE,
                                     .dtype = a->dtype,
                                     .head_dim = a->head_dim,
                                     .value_dim = a->value_dim,
                                     .scale = a->scale,
                                     .softcap = a->softcap,
                                     .window = a->window};
    ftl_status status = attention_key_begin(context, runtime, &common, key);
    if (status) return status;
    key->causal = a->causal;
    key->has_alibi = a->alibi_slopes != 0;
    key->has_lse = a->lse.address != 0;
    key->is_short = attention_is_short(a->q_len, a->kv_len);
    return FTL_OK;
}

ftl_status ftl_attention_prepare(ftl_context *context, ftl_runtime *runtime,
                                 const ftl_attention *attention) {
    ftl_module *module;
    attention_key key;
    ftl_status status = make_key(context, runtime, attention, &key);
    for (int is_short = 0; is_short < 2 && !status; is_short++) {
        key.is_short = is_short;
        status = attention_find(context, runtime, &key, &module);
    }
    return status;
}

ftl_status ftl_attention_forward(ftl_context *context, ftl_runtime *runtime, const ftl_attention *a,
                                 void *stream) {
    ftl_module *module;
    attention_key key;
    ftl_status status = make_key(context, runtime, a, &key);
    if (!status) status = attention_find(context, runtime, &key, &module);
    if (status) return status;
    int64_t d = a->head_dim, dv = key.value_dim;
    given g;
    g.count = g.scalar_count = 0; /* the rest is not read, and costs time to clear */
    given_matrix(&g, "Q", &a->q, a->dtype, a->batch, a->q_heads, a->q_len, d);
    given_matrix(&g, "K", &a->k, a->dtype, a->batch, a->kv_heads, a->kv_len, d);
    given_matrix(&g, "V", &a->v, a->dtype, a->batch, a->kv_heads, a->kv_len, dv);
    given_matrix(&g, "O", &a->o, a->dtype, a->batch, a->q_heads, a->q_len, dv);
    if (key.has_lse) given_matrix(&g, "lse", &a->lse, FTL_F32, a->batch, a->q_heads, a->q_len, 0);
    if (key.has_alibi) given_vector(&g, "slope", a->alibi_slopes, a->q_heads);
    given_scalar(&g, "scale", attention_scale(a->scale, d));
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}

/* --- sparse attention ------------------------------------------------------------------------- */

enum { TOP_MOST = 1024 };

static ftl_status make_sparse_key(ftl_context *context, ftl_runtime *runtime, const ftl_sparse *s,
                                  attention_key *key) {
    NEEDS(runtime);
    if (!s || s->struct_bytes < sizeof *s)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the sparse attention is null, or not begun with FTL_SPARSE_INIT");
    if (s->top < 1 || s->top > TOP_MOST || s->first < 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a list has 1 to %d blocks, and the first query no negative place",
                                TOP_MOST);
    bool is_grouped = s->kv_heads > 0 && s->q_heads > 0 && s->q_heads % s->kv_heads == 0 &&
                      s->q_heads / s->kv_heads <= INT16_MAX;
    if (!is_grouped)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "q_heads must be a multiple of kv_heads, both above 0");
    const attention_common common = {.operator= ATTENTION_SPARSE,
                                     .dtype = s->dtype,
                                     .head_dim = s->head_dim,
                                     .value_dim = s->value_dim,
                                     .scale = s->scale};
    ftl_status status = attention_key_begin(context, runtime, &common, key);
    if (status) return status;
    key->group = (int32_t)(s->q_heads / s->kv_heads);
    key->top = s->top;
    return FTL_OK;
}

ftl_status ftl_sparse_attention(ftl_context *context, ftl_runtime *runtime, const ftl_sparse *s,
                                void *stream) {
    ftl_module *module;
    attention_key key = {0};
    ftl_status status = make_sparse_key(context, runtime, s, &key);
    if (!status) status = attention_find(context, runtime, &key, &module);
    if (status) return status;
    int64_t d = s->head_dim, dv = key.value_dim;
    const ftl_attention_tensor blocks = {.address = s->blocks,
                                         .batch_stride = s->blocks_batch_stride,
                                         .head_stride = s->blocks_head_stride,
                                         .length_stride = s->blocks_query_stride};
    given g;
    g.count = g.scalar_count = 0;
    given_matrix(&g, "Q", &s->q, s->dtype, s->batch, s->q_heads, s->q_len, d);
    given_matrix(&g, "K", &s->k, s->dtype, s->batch, s->kv_heads, s->kv_len, d);
    given_matrix(&g, "V", &s->v, s->dtype, s->batch, s->kv_heads, s->kv_len, dv);
    given_matrix(&g, "O_chosen", &s->o, s->dtype, s->batch, s->q_heads, s->q_len, dv);
    given_matrix(&g, "chosen", &blocks, FTL_I32, s->batch, s->kv_heads, s->q_len, s->top);
    given_scalar(&g, "scale", attention_scale(s->scale, d));
    given_scalar(&g, "first", s->first);
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}
