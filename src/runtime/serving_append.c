/* New keys and values for a cache in pages, and queries rotated like the keys. */
#include "runtime/serving.h"

#include "base/needs.h"
#include "runtime/attention.h"

static ftl_status check_append(ftl_context *context, const ftl_append *a) {
    if (!a || a->struct_bytes < sizeof *a)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the call is null, or not begun with FTL_APPEND_INIT");
    if (a->tokens < 0 || a->q_heads < 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "neither tokens nor q_heads may be negative");
    bool is_rotary = a->rotary_dim >= 0 && a->rotary_dim % 2 == 0 && a->rotary_dim <= a->head_dim;
    if (!is_rotary)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "rotary_dim is even, from 0 to head_dim, not %lld",
                                (long long)a->rotary_dim);
    if (!a->rotary_dim && a->q_heads)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "rotary_dim is 0: there is nothing to do with queries, q_heads "
                                "has to be 0");
    if (a->q_heads && a->tokens && a->q.address == a->q_rotated.address)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "q and q_rotated are in the same memory");
    if (!a->page_len)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "page_len is 0: keys and values lie in pages here");
    return serving_check_page(context, a->page_len);
}

/* The keys' kernel, and the queries'. */
static ftl_status make_keys(ftl_context *context, ftl_runtime *runtime, const ftl_append *a,
                            attention_key *keys, attention_key *queries) {
    NEEDS(runtime);
    ftl_status status = check_append(context, a);
    if (status) return status;
    attention_common common = {.operator= ATTENTION_APPEND,
                               .dtype = a->dtype,
                               .head_dim = a->head_dim,
                               .value_dim = a->value_dim};
    status = attention_key_begin(context, runtime, &common, keys);
    if (status) return status;
    keys->half = (int32_t)(a->rotary_dim / 2);
    keys->is_plain = !a->rotary_dim;
    keys->is_interleaved = a->is_interleaved && a->rotary_dim;
    *queries = *keys;
    queries->operator= ATTENTION_ROTATE;
    queries->value_dim = queries->head_dim;
    keys->page_len = (int32_t)a->page_len;
    return FTL_OK;
}

static ftl_status find_both(ftl_context *context, ftl_runtime *runtime, const ftl_append *a,
                            attention_key *keys, ftl_module *modules[2]) {
    attention_key queries;
    ftl_status status = make_keys(context, runtime, a, keys, &queries);
    if (!status) status = attention_find(context, runtime, keys, &modules[0]);
    if (!status && a->q_heads) status = attention_find(context, runtime, &queries, &modules[1]);
    return status;
}

ftl_status ftl_attention_append_prepare(ftl_context *context, ftl_runtime *runtime,
                                        const ftl_append *append) {
    ftl_module *modules[2];
    attention_key keys;
    return find_both(context, runtime, append, &keys, modules);
}

static void give_angles(const ftl_append *a, given *g) {
    if (!a->rotary_dim) return;
    int64_t half = a->rotary_dim / 2;
    given_table(g, "cosine", a->cosine, FTL_F32, a->places_count, half, a->angle_stride);
    given_table(g, "sine", a->sine, FTL_F32, a->places_count, half, a->angle_stride);
    given_list(g, "place", a->places, a->tokens);
}

static ftl_status launch_queries(ftl_context *context, ftl_module *module, const ftl_append *a,
                                 void *stream) {
    given g = {.count = 0};
    given_tokens(&g, "Q", &a->q, a->dtype, a->tokens, a->q_heads, a->head_dim);
    given_tokens(&g, "Q_rotated", &a->q_rotated, a->dtype, a->tokens, a->q_heads, a->head_dim);
    give_angles(a, &g);
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}

static ftl_status launch_keys(ftl_context *context, ftl_module *module, const ftl_append *a,
                              const attention_key *key, void *stream) {
    const ftl_pages pages = {.page_len = a->page_len, .count = a->pages};
    int64_t d = key->head_dim, dv = key->value_dim;
    given g = {.count = 0};
    given_tokens(&g, "K_new", &a->k, a->dtype, a->tokens, a->kv_heads, d);
    given_tokens(&g, "V_new", &a->v, a->dtype, a->tokens, a->kv_heads, dv);
    given_pool(&g, "K_pool", &a->k_pool, a->dtype, &pages, a->kv_heads, d);
    given_pool(&g, "V_pool", &a->v_pool, a->dtype, &pages, a->kv_heads, dv);
    given_list(&g, "slot", a->slots, a->tokens);
    give_angles(a, &g);
    const ftl_arguments arguments = given_arguments(&g);
    return ftl_module_launch(context, module, &arguments, stream);
}

/* The queries' kernel begins while the keys' ends: it comes second. */
ftl_status ftl_attention_append(ftl_context *context, ftl_runtime *runtime, const ftl_append *a,
                                void *stream) {
    ftl_module *modules[2];
    attention_key key;
    ftl_status status = find_both(context, runtime, a, &key, modules);
    if (!status) status = serving_check_append(context, runtime, a, stream);
    if (!status) status = launch_keys(context, modules[0], a, &key, stream);
    if (!status && a->q_heads) status = launch_queries(context, modules[1], a, stream);
    return status;
}
