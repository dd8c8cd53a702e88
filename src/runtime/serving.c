/* Attention whose lengths, starts and pages are tables in device memory. */
#include "flashtl/serving.h"

#include "base/needs.h"
#include "runtime/attention.h"
#include "runtime/serving.h"

#include <stddef.h>
#include <string.h>

enum { PAGE_LENGTH_MAX = 1024 };

/* --- what a launch is given ------------------------------------------------------------------- */

ftl_tensor *given_add(given *g, const char *name, uint64_t address, ftl_type type,
                      int32_t axis_count) {
    ftl_tensor *t = &g->tensors[g->count++];
    *t = (ftl_tensor){.name = name, .address = address, .type = type, .axis_count = axis_count};
    return t;
}

void given_axis(ftl_tensor *t, int32_t i, int64_t extent, int64_t stride) {
    t->extents[i] = extent, t->strides[i] = stride;
}

void given_matrix(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                  int64_t batch, int64_t heads, int64_t length, int64_t d) {
    ftl_tensor *to = given_add(g, name, t->address, type, d ? 4 : 3);
    given_axis(to, 0, batch, t->batch_stride);
    given_axis(to, 1, heads, t->head_stride);
    given_axis(to, 2, length, t->length_stride);
    if (d) given_axis(to, 3, d, 1);
}

void given_tokens(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                  int64_t tokens, int64_t heads, int64_t d) {
    ftl_tensor *to = given_add(g, name, t->address, type, d ? 3 : 2);
    given_axis(to, 0, tokens, t->length_stride);
    given_axis(to, 1, heads, t->head_stride);
    if (d) given_axis(to, 2, d, 1);
}

void given_pool(given *g, const char *name, const ftl_attention_tensor *t, ftl_type type,
                const ftl_pages *pages, int64_t heads, int64_t d) {
    ftl_tensor *to = given_add(g, name, t->address, type, 4);
    given_axis(to, 0, pages->count, t->batch_stride);
    given_axis(to, 1, pages->page_len, t->length_stride);
    given_axis(to, 2, heads, t->head_stride);
    given_axis(to, 3, d, 1);
}

void given_vector(given *g, const char *name, uint64_t address, int64_t count) {
    given_axis(given_add(g, name, address, FTL_F32, 1), 0, count, 1);
}

void given_list(given *g, const char *name, uint64_t address, int64_t count) {
    given_axis(given_add(g, name, address, FTL_I32, 1), 0, count, 1);
}

void given_table(given *g, const char *name, uint64_t address, ftl_type type, int64_t rows,
                 int64_t columns, int64_t stride) {
    ftl_tensor *to = given_add(g, name, address, type, 2);
    given_axis(to, 0, rows, stride);
    given_axis(to, 1, columns, 1);
}

void given_scalar(given *g, const char *name, double value) {
    g->scalars[g->scalar_count++] = (ftl_scalar){name, value};
}

ftl_arguments given_arguments(const given *g) {
    return (ftl_arguments){g->tensors, g->count, g->scalars, g->scalar_count};
}

ftl_status serving_take(ftl_context *context, const void *call, size_t least, void *to,
                        size_t bytes, const char *init) {
    size_t has = call ? *(const size_t *)call : 0; /* its first field */
    if (has < least)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the call is null, or not begun with %s", init);
    memset(to, 0, bytes);
    memcpy(to, call, has < bytes ? has : bytes);
    return FTL_OK;
}

ftl_status serving_check_page(ftl_context *context, int64_t page_len) {
    if (page_len >= 0 && page_len <= PAGE_LENGTH_MAX) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "a page has 1 to %d tokens, not %lld",
                            PAGE_LENGTH_MAX, (long long)page_len);
}

/* --- sequences one after the other ------------------------------------------------------------ */

static ftl_status take_varlen(ftl_context *context, const ftl_varlen *from, ftl_varlen *to) {
    return serving_take(context, from, offsetof(ftl_varlen, scoring), to, sizeof *to,
                        "FTL_VARLEN_INIT");
}

static ftl_status check_varlen(ftl_context *context, const ftl_varlen *v) {
    if (v->batch < 0 || v->batch >= INT32_MAX || v->max_q_len < 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "neither batch nor max_q_len may be negative, nor batch 2^31 - 1 "
                                "or more");
    if (v->pages.page_len > 0 && v->batch > 0 && !v->kv_used)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "kv_used is null: with pages it says how many keys there are");
    ftl_status status = serving_check_scoring(context, &v->scoring);
    return status ? status : serving_check_page(context, v->pages.page_len);
}

static ftl_status make_varlen_key(ftl_context *context, ftl_runtime *runtime, const ftl_varlen *v,
                                  attention_key *key) {
    NEEDS(runtime);
    ftl_status status = check_varlen(context, v);
    if (status) return status;
    const attention_common common = {.operator= ATTENTION_VARLEN,
                                     .dtype = v->dtype,
                                     .head_dim = v->head_dim,
                                     .value_dim = v->value_dim,
                                     .scale = v->scale,
                                     .softcap = v->softcap,
                                     .window = v->window};
    status = attention_key_begin(context, runtime, &common, key);
    if (status) return status;
    key->is_paged = v->pages.page_len > 0;
    key->page_len = (int32_t)v->pages.page_len;
    key->causal = v->causal;
    key->has_lse = v->lse.address != 0;
    key->has_q_used = v->q_used != 0;
    key->has_kv_used = v->kv_used != 0 && !key->is_paged;
    serving_choose(&v->scoring, key);
    bool has_places = key->causal || key->window || key->chunk || key->has_sides || key->has_alibi;
    key->is_first = v->is_first && has_places;
    return FTL_OK;
}

ftl_status ftl_attention_varlen_prepare(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_varlen *varlen) {
    ftl_module *module;
    attention_key key;
    ftl_varlen v;
    ftl_status status = take_varlen(context, varlen, &v);
    if (!status) status = make_varlen_key(context, runtime, &v, &key);
    return status ? status : attention_find(context, runtime, &key, &module);
}

static void give_varlen(const ftl_varlen *v, const attention_key *key, given *g) {
    int64_t d = key->head_dim, dv = key->value_dim;
    const scoring_shape shape = {v->batch, v->q_heads, v->q_tokens, false};
    serving_give_scoring(g, &v->scoring, key, shape);
    if (key->has_sinks) serving_give_sinks(g, &v->scoring, v->q_heads);
    given_tokens(g, "Q_all", &v->q, v->dtype, v->q_tokens, v->q_heads, d);
    given_tokens(g, "O_all", &v->o, v->dtype, v->q_tokens, v->q_heads, dv);
    if (key->has_lse) given_tokens(g, "lse_all", &v->lse, FTL_F32, v->q_tokens, v->q_heads, 0);
    given_list(g, "q_start", v->q_start, v->batch + 1);
    if (key->has_q_used) given_list(g, "q_used", v->q_used, v->batch);
    if (key->is_paged) {
        given_pool(g, "K_pool", &v->k, v->dtype, &v->pages, v->kv_heads, d);
        given_pool(g, "V_pool", &v->v, v->dtype, &v->pages, v->kv_heads, dv);
        given_table(g, "table", v->pages.table, FTL_I32, v->batch, v->pages.columns,
                    v->pages.stride);
        given_list(g, "kv_lens", v->kv_used, v->batch);
        return;
    }
    given_tokens(g, "K_all", &v->k, v->dtype, v->kv_tokens, v->kv_heads, d);
    given_tokens(g, "V_all", &v->v, v->dtype, v->kv_tokens, v->kv_heads, dv);
    given_list(g, "kv_start", v->kv_start, v->batch + 1);
    if (key->has_kv_used) given_list(g, "kv_used", v->kv_used, v->batch);
}

ftl_status ftl_attention_varlen(ftl_context *context, ftl_runtime *runtime,
                                const ftl_varlen *varlen, void *stream) {
    ftl_module *module;
    attention_key key;
    ftl_varlen v;
    ftl_status status = take_varlen(context, varlen, &v);
    if (!status) status = make_varlen_key(context, runtime, &v, &key);
    if (!status) status = attention_find(context, runtime, &key, &module);
    if (!status) status = serving_check_varlen(context, runtime, &v, stream);
    if (status) return status;
    given g = {.count = 0};
    give_varlen(&v, &key, &g);
    given_scalar(&g, "scale", attention_scale(v.scale, v.head_dim));
    given_scalar(&g, "max_q_len", (double)(v.max_q_len < INT32_MAX ? v.max_q_len : INT32_MAX));
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}
