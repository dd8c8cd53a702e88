/* Decisions as data: what may be pinned, what a tuner measured, and how much a program computes. */
#include "flashtl/flashtl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const ftl_pin lengths[] = {{"d", "128"}, {"dv", "128"}, {"BN", "32"}};

typedef struct sketch {
    ftl_context *context;
    char *text;
    ftl_source source;
} sketch;

static sketch open_sketch(const char *operator_name) {
    sketch s = {0};
    assert_int_equal(ftl_context_new(&s.context), FTL_OK);
    static const char *const causal[] = {"causal"};
    bool is_plain = strcmp(operator_name, "gemm_bias_gelu") == 0;
    assert_int_equal(ftl_sketch(s.context, operator_name, causal, is_plain ? 0 : 1, &s.text),
                     FTL_OK);
    s.source = (ftl_source){"<sketch>", s.text, strlen(s.text)};
    return s;
}

static void close_sketch(sketch *s) {
    ftl_free(s->text);
    ftl_context_free(s->context);
}

static ftl_decisions *decide(sketch *s, const char *measured, int pin_count) {
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = "h200",
                           .pins = lengths,
                           .pin_count = pin_count,
                           .measured = measured};
    ftl_decisions *out = NULL;
    assert_int_equal(ftl_decide(s->context, &s->source, &options, &out), FTL_OK);
    return out;
}

static const ftl_decision *find(const ftl_decisions *decisions, const char *name) {
    for (int32_t i = 0; i < decisions->count; i++) {
        if (strcmp(decisions->items[i].name, name) == 0) return &decisions->items[i];
    }
    return NULL;
}

static char *explain(sketch *s, const char *measured, int pin_count) {
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = "h200",
                           .pins = lengths,
                           .pin_count = pin_count,
                           .measured = measured};
    char *out = NULL;
    assert_int_equal(ftl_explain(s->context, &s->source, &options, &out), FTL_OK);
    return out;
}

static void decisions_have_legal_values(void **state) {
    (void)state;
    sketch s = open_sketch("mha");
    ftl_decisions *d = decide(&s, "", 2);
    assert_true(d->count >= 6);
    for (int32_t i = 0; i < d->count; i++) {
        const ftl_decision *one = &d->items[i];
        bool is_listed = false;
        for (int32_t k = 0; k < one->value_count; k++) is_listed |= one->values[k] == one->value;
        assert_true(is_listed);
        assert_string_equal(one->kernel, "attention");
        assert_false(one->is_pinned);
        /* What was taken can be pinned, and is then no longer open. */
        char value[32];
        snprintf(value, sizeof value, "%lld", (long long)one->value);
        ftl_pin pins[] = {lengths[0], lengths[1], {one->name, value}};
        ftl_options options = {.struct_bytes = sizeof(ftl_options),
                               .gpu = "h200",
                               .pins = pins,
                               .pin_count = 3,
                               .measured = ""};
        char *code = NULL;
        assert_int_equal(ftl_reason(s.context, &s.source, &options, &code), FTL_OK);
        ftl_free(code);
    }
    assert_non_null(find(d, "BN"));
    assert_non_null(find(d, "warpgroups"));
    assert_non_null(find(d, "K_stages"));
    ftl_decisions_free(d);
    close_sketch(&s);
}

static void problem_is_what_is_computed(void **state) {
    (void)state;
    sketch mha = open_sketch("mha"), gqa = open_sketch("gqa"), gemm = open_sketch("gemm_bias_gelu");
    ftl_decisions *a = decide(&mha, "", 2), *b = decide(&gqa, "", 2), *c = decide(&mha, "", 3);
    ftl_decisions *other = decide(&gemm, "", 0);
    assert_string_equal(a->problem, b->problem);
    /* BN is a decision, not a part of the problem. */
    assert_non_null(strstr(a->problem, " f16 d=128 dv=128"));
    assert_string_equal(a->problem, c->problem);
    assert_string_not_equal(a->problem, other->problem);
    ftl_decisions_free(a);
    ftl_decisions_free(b);
    ftl_decisions_free(c);
    ftl_decisions_free(other);
    close_sketch(&mha);
    close_sketch(&gqa);
    close_sketch(&gemm);
}

static void measured_decisions_overrule(void **state) {
    (void)state;
    sketch s = open_sketch("mha");
    ftl_decisions *model = decide(&s, "", 2);
    int64_t other = find(model, "BN")->value == 32 ? 64 : 32;
    char text[1024];
    snprintf(text, sizeof text,
             "# a comment\nproblem other 0 f16\n  pins BN=16\n"
             "problem %s # --op mha\n  pins BN=%lld overlap=0\n  measured 640 TFLOPS somewhere\n",
             model->problem, (long long)other);
    ftl_decisions *measured = decide(&s, text, 2);
    assert_null(find(measured, "BN")); /* it is taken */
    char *why = explain(&s, text, 2);
    assert_non_null(strstr(why, "measured (tuning)\n    BN = "));
    assert_non_null(strstr(why, "640 TFLOPS somewhere"));
    assert_non_null(strstr(why, "as measured"));
    ftl_free(why);
    /* A pin of the user's leaves the record unused, and says so. */
    why = explain(&s, text, 3);
    assert_non_null(strstr(why, "not used beside the pin BN"));
    ftl_free(why);
    ftl_decisions_free(model);
    ftl_decisions_free(measured);
    close_sketch(&s);
}

static void stale_record_is_passed_over(void **state) {
    (void)state;
    sketch s = open_sketch("mha");
    ftl_decisions *model = decide(&s, "", 2);
    static const char *const bad[] = {"BN=7", "no_such_decision=1", "BM=256 BN=256"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[1024];
        snprintf(text, sizeof text, "problem %s\npins %s\nmeasured x\n", model->problem, bad[i]);
        char *why = explain(&s, text, 2);
        assert_non_null(strstr(why, "do not fit any more"));
        assert_int_equal(ftl_context_error_count(s.context), 0);
        ftl_free(why);
    }
    ftl_decisions_free(model);
    close_sketch(&s);
}

/* A text that no tuner wrote is refused with the line, not passed over. */
static void other_texts_are_no_records(void **state) {
    (void)state;
    sketch s = open_sketch("mha");
    static const char *const noise[] = {"problem",
                                        "problem attention",
                                        "problem attention 0 f16 d\n",
                                        "pins BN=1",
                                        "measured 640 TFLOPS",
                                        "# a comment\nproblem attention 0 f16\npins BN=word",
                                        "problem attention 0 f16\npins",
                                        "problem attention 0 f16\nBN=1",
                                        "\x01\xff\n\n"};
    for (size_t i = 0; i < sizeof noise / sizeof *noise; i++) {
        ftl_options options = {.struct_bytes = sizeof(ftl_options),
                               .gpu = "h200",
                               .pins = lengths,
                               .pin_count = 2,
                               .measured = noise[i]};
        char *out;
        assert_int_equal(ftl_reason(s.context, &s.source, &options, &out), FTL_INVALID_ARGUMENT);
        assert_null(out);
        assert_non_null(strstr(ftl_context_error(s.context), "of the measured decisions is '"));
    }
    static const char *const empty[] = {"", "\n", "# nothing\n\n"};
    for (size_t i = 0; i < sizeof empty / sizeof *empty; i++) {
        char *why = explain(&s, empty[i], 2);
        assert_null(strstr(why, "(tuning)"));
        ftl_free(why);
    }
    close_sketch(&s);
}

static void products_are_counted_once(void **state) {
    (void)state;
    sketch s = open_sketch("gqa");
    const ftl_scalar sizes[] = {{"batch", 2},   {"q_heads", 8}, {"kv_heads", 2}, {"q_len", 100},
                                {"kv_len", 50}, {"d", 128},     {"dv", 64}};
    double flops = 0;
    assert_int_equal(ftl_flops(s.context, &s.source, sizes, 7, &flops), FTL_OK);
    assert_true(flops == 2.0 * 2 * 8 * 100 * 50 * (128 + 64));
    assert_int_equal(ftl_flops(s.context, &s.source, sizes, 6, &flops), FTL_INVALID_ARGUMENT);
    /* TL Code has its products several times: before the loop, in it, on the slow way. */
    const ftl_pin pins[] = {{"d", "128"}, {"dv", "64"}};
    ftl_options options = {
        .struct_bytes = sizeof(ftl_options), .gpu = "h200", .pins = pins, .pin_count = 2};
    char *code = NULL;
    assert_int_equal(ftl_reason(s.context, &s.source, &options, &code), FTL_OK);
    ftl_source source = {"<code>", code, strlen(code)};
    assert_int_equal(ftl_flops(s.context, &source, sizes, 5, &flops), FTL_OK);
    assert_true(flops == 2.0 * 2 * 8 * 100 * 50 * (128 + 64));
    ftl_free(code);
    close_sketch(&s);
    s = open_sketch("gemm_bias_gelu");
    const ftl_scalar gemm[] = {{"m_len", 100}, {"n_len", 200}, {"k_len", 300}};
    assert_int_equal(ftl_flops(s.context, &s.source, gemm, 3, &flops), FTL_OK);
    assert_true(flops == 2.0 * 100 * 200 * 300);
    close_sketch(&s);
}

/* Of two axes that one loop walks, a product sees a block of the one for each place of the other.
 */
static void chunks_are_counted_as_chunks(void **state) {
    (void)state;
    static const char text[] = "kernel chunks\n"
                               "let BT = 64\n"
                               "Input Q (b in batch; t in len, d)\n"
                               "Input K (b in batch; u in len, d)\n"
                               "Input V (b in batch; u in len, dv)\n"
                               "Output O (b in batch; t in len, dv)\n"
                               "Compute Fill 0 and get A\n"
                               "for j = 0:len/BT\n"
                               "    Copy Q from global to shared\n"
                               "    Copy K from global to shared\n"
                               "    Copy V from global to shared\n"
                               "    Compute GEMM Q, K.T and get S\n"
                               "    Compute Mask S, 0 where u > t\n"
                               "    Compute GEMM S, V and get O\n"
                               "    Compute GEMM Q, A and accumulate O\n"
                               "    Copy O from register to global\n"
                               "    Compute GEMM K.T, V and accumulate A\n"
                               "end\n";
    ftl_context *context = NULL;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    const ftl_scalar sizes[] = {{"batch", 3}, {"len", 1000}, {"d", 32}, {"dv", 16}};
    double flops = 0;
    ftl_source source = {"<chunks>", text, strlen(text)};
    assert_int_equal(ftl_flops(context, &source, sizes, 4, &flops), FTL_OK);
    assert_true(flops == 2.0 * 3 * 1000 * (64 * 32 + 64 * 16 + 2 * 32 * 16));
    ftl_context_free(context);
}

/* Every record that is shipped is used by its operator, as its comment has it: "# --op mha
 * --causal". */
static void shipped_records_fit(void **state) {
    (void)state;
    ftl_context *context = NULL;
    ftl_gpu gpu = FTL_GPU_INIT;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    for (int32_t g = 0; ftl_gpu_at(context, g, &gpu) == FTL_OK; g++) {
        char *text = NULL;
        assert_int_equal(ftl_measured_text(context, gpu.name, &text), FTL_OK);
        for (char *line = strstr(text, "problem "); line; line = strstr(line + 1, "\nproblem ")) {
            char op[64] = "", d[16] = "", dv[16] = "", type[8] = "";
            const char *at = strstr(line, "--op "), *sizes = strstr(line, " d=");
            if (!at || !sizes) continue; /* a sketch of somebody's own */
            sscanf(at, "--op %63s", op);
            sscanf(sizes, " d=%15[0-9] dv=%15[0-9]", d, dv);
            sscanf(strstr(line, "problem "), "problem %*s %*s %7s", type);
            const char *end = strchr(at, '\n');
            const char *causal = strstr(at, "--causal");
            const char *const options[] = {"causal"};
            char *sketch_text = NULL, *why = NULL;
            bool is_causal = causal && (!end || causal < end);
            assert_int_equal(ftl_sketch(context, op, options, is_causal, &sketch_text), FTL_OK);
            ftl_source source = {op, sketch_text, strlen(sketch_text)};
            const ftl_pin pins[] = {{"d", d}, {"dv", dv}};
            ftl_options wanted = {.struct_bytes = sizeof(ftl_options),
                                  .gpu = gpu.name,
                                  .dtype = strcmp(type, "bf16") == 0 ? FTL_BF16 : FTL_F16,
                                  .pins = pins,
                                  .pin_count = 2};
            assert_int_equal(ftl_explain(context, &source, &wanted, &why), FTL_OK);
            if (strstr(why, "do not fit") || !strstr(why, "measured (tuning)")) {
                fail_msg("the record of %s, %.100s, is stale", gpu.name, line);
            }
            ftl_free(why);
            ftl_free(sketch_text);
        }
        ftl_free(text);
    }
    ftl_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(decisions_have_legal_values),
                                       cmocka_unit_test(problem_is_what_is_computed),
                                       cmocka_unit_test(measured_decisions_overrule),
                                       cmocka_unit_test(stale_record_is_passed_over),
                                       cmocka_unit_test(other_texts_are_no_records),
                                       cmocka_unit_test(products_are_counted_once),
                                       cmocka_unit_test(chunks_are_counted_as_chunks),
                                       cmocka_unit_test(shipped_records_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
