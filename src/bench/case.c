/* What a case computes and moves. */
#include "bench/set.h"
#include "verify/expected.h"
#include "verify/plan_find.h"

#include <stdlib.h>
#include <string.h>

static int64_t size_named(const bench_case *c, const char *name) {
    int32_t i = plan_find_size(c->program->text.plan, name);
    return i >= 0 ? c->sizes[i] : 1;
}

bool bench_read_attention(const bench_case *c, bench_attention *out) {
    const verify_program *text = &c->program->text;
    if (expected_choose(text) != EXPECTED_ATTENTION) return false;
    const char *window = expected_setting(text, "window"),
               *softcap_text = expected_setting(text, "softcap");
    double softcap = 0;
    if (softcap_text) str_to_number(str_from(softcap_text), &softcap);
    *out = (bench_attention){.batch = size_named(c, "batch"),
                             .q_len = size_named(c, "q_len"),
                             .kv_len = size_named(c, "kv_len"),
                             .q_heads = size_named(c, "q_heads"),
                             .kv_heads = size_named(c, "kv_heads"),
                             .d = c->program->head_dim,
                             .dv = c->program->value_dim,
                             .window = window ? strtoll(window, NULL, 10) : 0,
                             .softcap = softcap,
                             .is_causal = expected_setting(text, "causal") != NULL,
                             .has_alibi = expected_setting(text, "alibi") != NULL,
                             .has_lse = expected_setting(text, "lse") != NULL};
    return out->d > 0 && out->dv > 0 && out->kv_heads > 0 && out->q_heads % out->kv_heads == 0;
}

/* Pairs of a query and a key that it sees; a causal mask alone counts as half of all. */
static double count_pairs(const bench_attention *a) {
    double all = (double)a->q_len * (double)a->kv_len;
    if (!a->window) return a->is_causal ? all / 2 : all;
    reference_attention formula = {
        .q_len = a->q_len, .kv_len = a->kv_len, .is_causal = a->is_causal, .window = a->window};
    double pairs = 0;
    for (int64_t i = 0; i < a->q_len; i++) {
        int64_t begin, end;
        reference_attention_keys(&formula, i, &begin, &end);
        pairs += (double)(end - begin);
    }
    return pairs;
}

static double count_bytes(const bench_case *c) {
    const ftl_plan *plan = c->program->text.plan;
    double bytes = 0, scalars[SET_TENSORS_MAX] = {0};
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        set_tensor tensor;
        if (plan->tensors[i].role == FTL_WORKSPACE) continue;
        if (!set_lay_out(plan, &plan->tensors[i], c->sizes, scalars, &tensor)) continue;
        bytes += (double)tensor.elements * (double)ftl_type_bits(plan->tensors[i].type) / 8;
    }
    return bytes;
}

static ftl_status count_flops(ftl_context *context, bench_case *c, const ftl_scalar *given,
                              int32_t given_count) {
    const ftl_plan *plan = c->program->text.plan;
    ftl_scalar sizes[VERIFY_SIZES_MAX + 32];
    int32_t count = 0;
    for (int32_t i = 0; i < plan->size_count && i < VERIFY_SIZES_MAX; i++) {
        sizes[count++] = (ftl_scalar){plan->sizes[i].name, (double)c->sizes[i]};
    }
    for (int32_t i = 0; i < given_count && i < 32; i++) sizes[count++] = given[i];
    const verify_program *text = &c->program->text;
    const ftl_source *source = text->sketch.text ? &text->sketch : &text->code;
    ftl_status status = ftl_flops(context, source, sizes, count, &c->flops);
    if (!status && expected_setting(text, "causal"))
        c->flops /= 2; /* as everybody counts a causal mask */
    return status;
}

ftl_status bench_case_set(ftl_context *context, bench_case *c, const bench_program *program,
                          const ftl_scalar *sizes, int32_t size_count, int64_t otherwise) {
    const ftl_plan *plan = program->text.plan;
    bench_attention attention;
    c->program = program;
    if (plan->size_count > VERIFY_SIZES_MAX) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "kernel '%s' has %d sizes; %d are "
                                "the most",
                                plan->kernel, plan->size_count, VERIFY_SIZES_MAX);
    }
    for (int32_t i = 0; i < plan->size_count; i++) {
        c->sizes[i] = otherwise;
        for (int32_t k = 0; k < size_count; k++) {
            if (strcmp(plan->sizes[i].name, sizes[k].name) != 0) continue;
            c->sizes[i] = (int64_t)sizes[k].value;
        }
    }
    c->bytes = count_bytes(c);
    if (!bench_read_attention(c, &attention)) return count_flops(context, c, sizes, size_count);
    c->flops = 2.0 * (double)attention.batch * (double)attention.q_heads *
               (double)(attention.d + attention.dv) * count_pairs(&attention);
    return FTL_OK;
}
