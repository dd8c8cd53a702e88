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

/* Terms that cancel, one weight, operands and results beyond f16. */
static void right_kernels_pass(void **state) {
    (void)state;
    static const char *const files[][2] = {{"judged/zero_sum", "33x200,70x64"},
                                           {"judged/one_weight", "1x1x1x1,3x1,2x2"},
                                           {"judged/beyond_f16", "33x200,1x3"},
                                           {"judged/powers_of_powers", "33x70"},
                                           {"judged/beyond_f16_below", "33x200"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        text_buffer text;
        ftl_source source = read_judged(files[i][0], &text);
        verify(NULL, NULL, 0, &source, "a100", FTL_F16, files[i][1]);
        verify(NULL, NULL, 0, &source, "a100", FTL_BF16, files[i][1]);
        text_done(&text);
    }
}

/* GELU by tanh is within f16's tolerance of a row, and not of the elements near -2. */
static void formulas_are_told_apart(void **state) {
    (void)state;
    text_buffer exact_text, tanh_text;
    ftl_source exact = read_judged("judged/gelu", &exact_text);
    ftl_source tanh = read_judged("judged/gelu_by_tanh", &tanh_text);
    const ftl_source *const kernels[] = {&exact, &tanh};
    for (int i = 0; i < 2; i++) {
        ftl_context *context;
        ftl_product *product;
        verify_machine *machine;
        verify_summary summary;
        assert_int_equal(ftl_context_new(&context), FTL_OK);
        ftl_options options = {.struct_bytes = sizeof(ftl_options), .gpu = "t4", .dtype = FTL_F16};
        assert_int_equal(ftl_build(context, kernels[i], &options, &product), FTL_OK);
        verify_program program = {.sketch = exact,
                                  .code = {"code.tl", product->code, strlen(product->code)},
                                  .plan = product->kernels[0].plan};
        assert_int_equal(verify_machine_open(context, &program, VERIFY_INTERPRETER, NULL, &machine),
                         FTL_OK);
        verify_options how = {.shapes = "70x64x130", .seed = 3};
        ftl_status status =
            verify_run(context, &program, verify_machine_runner(machine), &how, &summary);
        assert_int_equal(status, i ? FTL_CHECK_FAILED : FTL_OK);
        assert_int_equal(summary.failed, i ? summary.total : 0);
        verify_machine_close(machine);
        ftl_product_free(product);
        ftl_context_free(context);
    }
    text_done(&exact_text);
    text_done(&tanh_text);
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
        cmocka_unit_test(programs_that_are_not_shipped),
        cmocka_unit_test(attentions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
