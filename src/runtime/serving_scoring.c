/* What decides scores beside products: slopes, biases, sinks, padding, windows, chunks. */
#include "runtime/serving.h"

/* A window that leaves nothing out; sums with places stay within 32 bits. */
enum { WIDE = 1 << 30 };

ftl_status serving_check_scoring(ftl_context *context, const ftl_scoring *s) {
    if (s->window_before < 0 || s->window_after < 0 || s->chunk < 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "window_before, window_after and chunk are 0 or positive");
    if (!s->bias) return FTL_OK;
    if (s->bias % sizeof(float) != 0)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "the bias is at an address that is no multiple of 4");
    if (s->bias_columns < 0 || s->bias_columns > INT32_MAX)
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "bias_columns may not be negative, or 2^31 or more");
    return FTL_OK;
}

void serving_choose(const ftl_scoring *s, attention_key *key) {
    key->has_sinks = s->sinks != 0;
    key->has_alibi = s->alibi_slopes != 0;
    key->has_bias = s->bias != 0;
    key->is_padded = s->padding != 0;
    key->chunk = s->chunk;
    /* What comes after a query is not seen where it is causal. */
    key->has_sides = s->window_before > 0 || (s->window_after > 0 && !key->causal);
}

static double width_of(int32_t window) {
    return window > 0 && window < WIDE ? window : WIDE;
}

void serving_give_scoring(given *g, const ftl_scoring *s, const attention_key *key,
                          scoring_shape shape) {
    if (key->has_alibi) given_vector(g, "slope", s->alibi_slopes, shape.heads);
    if (key->is_padded) given_list(g, "padding", s->padding, shape.batch);
    if (key->has_sides) given_scalar(g, "before", width_of(s->window_before));
    if (key->has_sides && !key->causal) given_scalar(g, "after", width_of(s->window_after));
    if (!key->has_bias) return;
    ftl_tensor *bias = given_add(g, "bias", s->bias, FTL_F32, shape.has_batch ? 4 : 3);
    int32_t axis = 0;
    if (shape.has_batch) given_axis(bias, axis++, shape.batch, s->bias_batch_stride);
    given_axis(bias, axis++, shape.heads, s->bias_head_stride);
    given_axis(bias, axis++, shape.queries, s->bias_query_stride);
    given_axis(bias, axis, s->bias_columns, 1);
}

void serving_give_sinks(given *g, const ftl_scoring *s, int64_t heads) {
    given_vector(g, "sink", s->sinks, heads);
}
