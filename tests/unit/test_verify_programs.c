/* From sketch to verified TL Code: programs that are not shipped, and attentions, reasoned for two
 * GPUs and run by the interpreter against their references.
 */
#include "base/os.h"
#include "sample.h"
#include "verify/verify.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void show(void *user, const verify_result *result) {
    (void)user;
    if (result->verdict != VERIFY_PASSED) print_message("%s: %s\n", result->name, result->what);
}

/* Builds 'source' and verifies the TL Code that came of it. */
static void verify(const char *operator_name, const char *const *settings, int count,
                   const ftl_source *source, const char *gpu, ftl_type dtype, const char *shapes) {
    if (!sample_takes()) return;
    ftl_context *context;
    ftl_product *product;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    const ftl_pin pins[] = {{"d", "64"}, {"dv", "40"}};
    bool has_heads = strstr(source->text, " dv)") != NULL;
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = gpu,
                           .dtype = dtype,
                           .pins = pins,
                           .pin_count = has_heads ? 2 : 0};
    ftl_status status = ftl_build(context, source, &options, &product);
    if (status) print_message("%s\n", ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT));
    assert_int_equal(status, FTL_OK);
    verify_program program = {.operator_name = operator_name,
                              .settings = settings,
                              .setting_count = count,
                              .sketch = *source,
                              .code = {"code.tl", product->code, strlen(product->code)},
                              .plan = product->kernels[0].plan};
    verify_machine *machine;
    status = verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine);
    assert_int_equal(status, FTL_OK);
    verify_options how = {.shapes = shapes, .seed = 3, .on_result = show};
    verify_summary summary;
    status = verify_run(context, &program, verify_machine_runner(machine), &how, &summary);
    if (status) print_message("%s: %s\n", gpu, ftl_context_error(context));
    assert_int_equal(status, FTL_OK);
    assert_true(summary.passed == summary.total && summary.total > 0);
    verify_machine_close(machine);
    ftl_product_free(product);
    ftl_context_free(context);
}

/* --- what a right kernel errs by -------------------------------------------------------------- */

static ftl_source read_judged(const char *name, text_buffer *text) {
    char path[512];
    os_error why;
    text_init(text, 1 << 20);
    snprintf(path, sizeof path, "%s/tests/exec/%s.tl", FLASHTL_SOURCE_FOLDER, name);
    assert_true(os_read_file(path, 1 << 20, text, &why));
    return (ftl_source){name, text->data, text->length};
}

/* Terms that cancel, one weight, operands and results beyond f16, bends, maxima far from 0. */
static void right_kernels_pass(void **state) {
    (void)state;
    static const char *const files[][2] = {
        {"judged/zero_sum", "33x200,70x64"},   {"judged/one_weight", "1x1x1x1,3x1,2x2"},
        {"judged/beyond_f16", "33x200,1x3"},   {"judged/powers_of_powers", "33x70"},
        {"judged/beyond_f16_below", "33x200"}, {"judged/maximum_begun_above", "33x200"},
        {"judged/bends", "65x200,decisive"},   {"judged/low_rows", "decisive"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        text_buffer text;
        ftl_source source = read_judged(files[i][0], &text);
        verify(NULL, NULL, 0, &source, "a100", FTL_F16, files[i][1]);
        verify(NULL, NULL, 0, &source, "a100", FTL_BF16, files[i][1]);
        text_done(&text);
    }
}

/* The kernel of one text against another text: what verify says. */
static ftl_status tell_apart(const ftl_source *kernel, const ftl_source *meaning,
                             const ftl_pin *pins, int pin_count, const char *shapes,
                             verify_summary *summary) {
    ftl_context *context;
    ftl_product *product;
    verify_machine *machine;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = "t4",
                           .dtype = FTL_F16,
                           .pins = pins,
                           .pin_count = pin_count};
    ftl_status status = ftl_build(context, kernel, &options, &product);
    if (status) print_message("%s\n", ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT));
    assert_int_equal(status, FTL_OK);
    verify_program program = {.sketch = *meaning,
                              .code = {"code.tl", product->code, strlen(product->code)},
                              .plan = product->kernels[0].plan};
    status = verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine);
    assert_int_equal(status, FTL_OK);
    verify_options how = {.shapes = shapes, .seed = 3};
    status = verify_run(context, &program, verify_machine_runner(machine), &how, summary);
    verify_machine_close(machine);
    ftl_product_free(product);
    ftl_context_free(context);
    return status;
}

/* GELU by tanh is within f16's tolerance of a row, and not of the elements near -2. */
static void formulas_are_told_apart(void **state) {
    (void)state;
    text_buffer exact_text, tanh_text;
    ftl_source exact = read_judged("judged/gelu", &exact_text);
    ftl_source tanh = read_judged("judged/gelu_by_tanh", &tanh_text);
    const ftl_source *const kernels[] = {&exact, &tanh};
    for (int i = 0; i < 2; i++) {
        verify_summary summary;
        ftl_status status = tell_apart(kernels[i], &exact, NULL, 0, "70x64x130", &summary);
        assert_int_equal(status, i ? FTL_CHECK_FAILED : FTL_OK);
        assert_int_equal(summary.failed, i ? summary.total : 0);
    }
    text_done(&exact_text);
    text_done(&tanh_text);
}

#define NORM(epsilon)                                                                              \
    "kernel k\nInput X (i in m, e)\nOutput Y (i in m, e)\nCopy X from global to register\n"        \
    "Compute Multiply X, X and get S\nCompute RowSum S and get r\nCompute Add r, " epsilon         \
    " and get r\nCompute Rsqrt r and get r\nCompute Multiply X, r and get X\n"                     \
    "Copy X from register to global and get Y\n"
#define QK_NORM(epsilon)                                                                           \
    "kernel k\nInput Q (i in m, e)\nInput K (j in n, e)\nInput V (j in n, f)\nOutput O (i in m, "  \
    "f)\nCopy Q from global to register\nCompute Multiply Q, Q and get T\n"                        \
    "Compute RowSum T and get r\nCompute Add r, " epsilon                                          \
    " and get r\nCompute Rsqrt r and get r\n"                                                      \
    "Compute Multiply Q, r and get Q\nfor t = 0:n/BN\n    Copy K from global to shared\n"          \
    "    Compute GEMM Q, K.T and get S\n    Copy V from global to shared\n"                        \
    "    Compute GEMM S, V and accumulate O\nend\nCopy O from register to global\n"

/* What is added to sums of squares decides in rows near zero. */
static void what_is_added_to_sums_is_told_apart(void **state) {
    (void)state;
    static const char *const texts[][2] = {{NORM("0.1"), NORM("0.101")},
                                           {NORM("1e-5"), NORM("1.1e-5")},
                                           {QK_NORM("0.1"), QK_NORM("0.101")}};
    static const ftl_pin pins[] = {{"e", "64"}, {"f", "64"}};
    for (int i = 0; i < 3; i++) {
        ftl_source meaning = {"k.tl", texts[i][0], strlen(texts[i][0])};
        for (int wrong = 0; wrong < 2; wrong++) {
            ftl_source kernel = {"k.tl", texts[i][wrong], strlen(texts[i][wrong])};
            verify_summary summary;
            ftl_status status =
                tell_apart(&kernel, &meaning, pins, i == 2 ? 2 : 1, "decisive", &summary);
            assert_int_equal(status, wrong ? FTL_CHECK_FAILED : FTL_OK);
        }
    }
}

static void programs_that_are_not_shipped(void **state) {
    (void)state;
    static const char *const files[][2] = {{"sigmoid_attention", "65x130,3x1"},
                                           {"relu_squared_window", "70x213"},
                                           {"gemm_row_scale", "129x70x96,1x1x3"},
                                           {"ragged_attention", "150x2x210x1x4,5x2x130x2x9"}};
    for (int i = 0; i < 4; i++) {
        char path[512];
        os_error why;
        text_buffer text;
        text_init(&text, 1 << 20);
        snprintf(path, sizeof path, "%s/tests/exec/odd/%s.tl", FLASHTL_SOURCE_FOLDER, files[i][0]);
        assert_true(os_read_file(path, 1 << 20, &text, &why));
        ftl_source source = {files[i][0], text.data, text.length};
        verify(NULL, NULL, 0, &source, "a100", FTL_F16, files[i][1]);
        verify(NULL, NULL, 0, &source, "t4", FTL_F16, files[i][1]);
        text_done(&text);
    }
}

static void attentions(void **state) {
    (void)state;
    static const char *const settings[][3] = {
        {"causal", "lse"}, {"causal", "window=30"}, {"softcap=15", "lse"}, {"causal", "alibi"}};
    for (int i = 0; i < 4; i++) {
        ftl_context *context;
        char *sketch;
        assert_int_equal(ftl_context_new(&context), FTL_OK);
        assert_int_equal(ftl_sketch(context, "attention", settings[i], 2, &sketch), FTL_OK);
        ftl_source source = {"attention.tl", sketch, strlen(sketch)};
        verify("attention", settings[i], 2, &source, "t4", FTL_F16, "70x131,65x1");
        verify("attention", settings[i], 2, &source, "a100", FTL_BF16, "70x131,130x65");
        ftl_free(sketch);
        ftl_context_free(context);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_pass),
        cmocka_unit_test(formulas_are_told_apart),
        cmocka_unit_test(what_is_added_to_sums_is_told_apart),
        cmocka_unit_test(programs_that_are_not_shipped),
        cmocka_unit_test(attentions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
