/* Native sparse attention in one call: what is asked for, and where its steps leave what the next
 * ones read.
 */
#include "runtime/nsa.h"

#include "base/needs.h"
#include "runtime/serving.h"

#include <stddef.h>

enum {
    TOP_USUAL = 16,
    TOP_MAX = 64, /* of RowTopK, whose counts are multiples of TOP_UNIT */
    TOP_UNIT = 8,
    GROUP_UNIT = 8, /* columns of nsa_scores' products */
    WINDOW_USUAL = 512,
    QUAD_USUAL = 8,
    QUAD_MAX = 8,
    SPAN = 16,                /* queries that nsa_scores takes together */
    KEYS_SHARED_MAX = 1 << 23 /* of nsa_union */
};

_Static_assert((int)NSA_RESULTS == (int)FTL_NSA_RESULTS_MAX, "a row of ftl_nsa_results each");

/* --- what is asked for ------------------------------------------------------------------------ */

static ftl_status check(ftl_context *context, const ftl_nsa *n) {
    if (n->batch < 0 || n->q_len < 0 || n->kv_len < n->q_len || n->kv_len > INT32_MAX)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "neither batch nor q_len may be negative, and kv_len is from q_len "
                                "to 2^31 - 1: queries are the last keys' ones");
    bool is_grouped = n->kv_heads > 0 && n->q_heads > 0 && n->q_heads % n->kv_heads == 0 &&
                      n->q_heads / n->kv_heads <= INT16_MAX;
    if (!is_grouped)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "q_heads must be a multiple of kv_heads, both above 0");
    if (n->q_heads / n->kv_heads % GROUP_UNIT)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "%d, %d, ... query heads share a key head here, not %lld: products "
                                "have them as columns",
                                GROUP_UNIT, 2 * GROUP_UNIT, (long long)(n->q_heads / n->kv_heads));
    if (n->top < 0 || n->top > TOP_MAX || n->top % TOP_UNIT)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "a query reads %d, %d, ... %d blocks, or 0 for %d; not %d",
                                TOP_UNIT, 2 * TOP_UNIT, TOP_MAX, TOP_USUAL, n->top);
    if (n->quad < 0 || n->quad > QUAD_MAX)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "1 to %d queries share the blocks that they read, not %d", QUAD_MAX,
                                n->quad);
    if (!n->k_mean.address != !n->v_mean.address)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "k_mean and v_mean are both the caller's, or neither");
    bool is_there = n->mean_blocks == 0 || n->k_mean.address != 0;
    if (n->mean_blocks < 0 || n->mean_blocks > n->kv_len / NSA_BLOCK || !is_there)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "mean_blocks counts whole blocks of kv_len that k_mean and v_mean "
                                "have: 0 to %lld, not %lld",
                                n->k_mean.address ? (long long)(n->kv_len / NSA_BLOCK) : 0LL,
                                (long long)n->mean_blocks);
    return FTL_OK;
}

static ftl_status begin(ftl_context *context, const ftl_nsa *from, nsa_call *c) {
    *c = (nsa_call){.bytes = 0};
    ftl_nsa *n = &c->own;
    ftl_status status = serving_take(context, from, sizeof(ftl_nsa), n, sizeof *n, "FTL_NSA_INIT");
    if (!status) status = check(context, n);
    if (status) return status;
    if (!n->top) n->top = TOP_USUAL;
    if (!n->window) n->window = WINDOW_USUAL;
    if (!n->quad) n->quad = n->q_len == 1 ? 1 : QUAD_USUAL;
    if (!n->value_dim) n->value_dim = n->head_dim;
    c->blocks = (n->kv_len + NSA_BLOCK - 1) / NSA_BLOCK;
    c->group = (int32_t)(n->q_heads / n->kv_heads);
    c->span = n->q_len < SPAN ? 1 : SPAN;
    c->is_shared = n->quad > 1 && n->kv_len <= KEYS_SHARED_MAX;
    c->has_means = n->k_mean.address != 0;
    return FTL_OK;
}

/* --- the workspace ---------------------------------------------------------------------------- */

/* A row of whole 16 bytes, so that all strides but the last are such; tensors begin at whole lines
 * of the level-2 cache.
 */
static bool place(nsa_call *c, nsa_result which, const char *name, ftl_type type,
                  const int64_t *extents, int32_t count) {
    enum { ROW = 16, LINE = 128 };
    int64_t bytes = type == FTL_F16 || type == FTL_BF16 ? 2 : 4, room = ROW / bytes, stride = 1;
    ftl_tensor *t = &c->results[which];
    *t = (ftl_tensor){.name = name, .type = type, .axis_count = count};
    for (int32_t i = count - 1; i >= 0; i--) {
        int64_t extent = i == count - 1 ? (extents[i] + room - 1) / room * room : extents[i];
        t->extents[i] = extents[i], t->strides[i] = stride;
        if (__builtin_mul_overflow(stride, extent, &stride)) return false;
    }
    if (__builtin_mul_overflow(stride, bytes, &stride) || stride > INT64_MAX - LINE) return false;
    t->address = c->own.workspace + c->bytes;
    c->is_result[which] = true;
    return !__builtin_add_overflow(c->bytes, (size_t)(stride + LINE - 1) / LINE * LINE, &c->bytes);
}

static int64_t rounded_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/* Where results lie from 'workspace' on, and in all. */
static ftl_status lay_out(ftl_context *context, nsa_call *c) {
    const ftl_nsa *n = &c->own;
    int64_t b = n->batch, h = n->kv_heads, d = n->head_dim, dv = n->value_dim, q = n->q_len;
    int64_t most = (int64_t)n->top * n->quad, tiles = rounded_up(q, n->quad) / n->quad;
    int64_t room = c->is_shared ? tiles * n->quad : q;
    c->bytes = 0;
#define PLACE(which, name, type, ...)                                                              \
    place(c, which, name, type, (int64_t[]){__VA_ARGS__},                                          \
          sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t))
    bool fits = c->has_means || (PLACE(NSA_K_MEAN, "K_mean", n->dtype, b, h, c->blocks, d) &&
                                 PLACE(NSA_V_MEAN, "V_mean", n->dtype, b, h, c->blocks, dv));
    fits = fits && PLACE(NSA_O_MEAN, "O_mean", n->dtype, b, n->q_heads, q, dv) &&
           PLACE(NSA_LSE, "lse", FTL_F32, b, n->q_heads, q) &&
           PLACE(NSA_SCORE, "score", FTL_F32, b, h, rounded_up(q, c->span), c->blocks) &&
           PLACE(NSA_CHOSEN, "chosen", FTL_I32, b, h, q, n->top);
    if (c->is_shared)
        fits = fits && PLACE(NSA_LIST, "list", FTL_I32, b, h, tiles, most) &&
               PLACE(NSA_SEEN, "seen", FTL_I32, b, h, n->quad, tiles, most) &&
               PLACE(NSA_COUNT, "count", FTL_I32, b, h, tiles);
    fits = fits && PLACE(NSA_O_CHOSEN, "O_chosen", n->dtype, b, n->q_heads, room, dv) &&
           PLACE(NSA_O_NEAR, "O_near", n->dtype, b, n->q_heads, q, dv);
#undef PLACE
    if (fits) return FTL_OK;
    return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                            "batch, heads and lengths are too large together");
}

/* --- the calls -------------------------------------------------------------------------------- */

ftl_status ftl_nsa_attention(ftl_context *context, ftl_runtime *runtime, const ftl_nsa *nsa,
                             void *stream) {
    nsa_call c;
    NEEDS(runtime);
    ftl_status status = begin(context, nsa, &c);
    if (!status) status = lay_out(context, &c);
    if (!status) status = nsa_find(context, runtime, &c);
    if (status || !c.own.batch || !c.own.q_len) return status;
    uint64_t workspace = c.own.workspace;
    bool is_there = workspace && workspace % 16 == 0;
    if (!is_there || c.own.workspace_bytes < c.bytes)
        return ftl_context_fail(
            context, FTL_INVALID_ARGUMENT,
            "the workspace has %zu bytes at a multiple of 16; the call needs %zu "
            "(ftl_nsa_workspace)",
            is_there ? c.own.workspace_bytes : 0, c.bytes);
    return nsa_launch(context, runtime, &c, stream);
}

ftl_status ftl_nsa_prepare(ftl_context *context, ftl_runtime *runtime, const ftl_nsa *nsa) {
    nsa_call c;
    NEEDS(runtime);
    ftl_status status = begin(context, nsa, &c);
    int32_t quad = nsa && !status && nsa->quad ? nsa->quad : QUAD_USUAL;
    for (int few = 0; few < 2 && !status; few++) { /* a prompt, and single tokens */
        c.span = few ? 1 : SPAN;
        c.own.quad = quad;
        c.is_shared = !few && quad > 1;
        c.own.q_len = c.own.kv_len = few ? 1 : INT32_MAX;
        status = nsa_find(context, runtime, &c);
    }
    return status;
}

ftl_status ftl_nsa_workspace(ftl_context *context, const ftl_nsa *nsa, size_t *bytes) {
    nsa_call c;
    NEEDS(bytes);
    *bytes = 0;
    ftl_status status = begin(context, nsa, &c);
    if (!status) status = lay_out(context, &c);
    if (!status) *bytes = c.bytes;
    return status;
}

ftl_status ftl_nsa_results(ftl_context *context, const ftl_nsa *nsa,
                           ftl_tensor results[FTL_NSA_RESULTS_MAX], int32_t *count) {
    nsa_call c;
    NEEDS(results);
    NEEDS(count);
    *count = 0;
    ftl_status status = begin(context, nsa, &c);
    if (!status) status = lay_out(context, &c);
    for (int i = 0; i < NSA_RESULTS && !status; i++) {
        if (c.is_result[i]) results[(*count)++] = c.results[i];
    }
    return status;
}
