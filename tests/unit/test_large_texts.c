/* Texts that are long, deep, or ask for much: each is taken within a bounded amount of work, or
 * refused by a sentence that says what there is too much of. Work is counted in bytes that a call
 * takes from its context's arena, which the searches of the compiler use at every step; no clock is
 * asked.
 */
#include "compile/context.h"
#include "flashtl/execute.h"
#include "flashtl/flashtl.h"
#include "sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ftl_context *context;
static text_buffer text;

static int set_up(void **state) {
    (void)state;
    text_init(&text, 1 << 20);
    return ftl_context_new(&context) != FTL_OK;
}

static int tear_down(void **state) {
    (void)state;
    text_done(&text);
    ftl_context_free(context);
    return 0;
}

static ftl_source source(void) {
    return (ftl_source){"large.tl", text.data, text.length};
}

static ftl_status reason(const char *gpu) {
    const ftl_pin pins[] = {{"d", "64"}};
    ftl_options options = FTL_OPTIONS_INIT;
    ftl_source from = source();
    char *code = NULL;
    options.gpu = gpu, options.dtype = FTL_F16, options.pins = pins, options.pin_count = 1;
    ftl_status status = ftl_reason(context, &from, &options, &code);
    ftl_free(code);
    return status;
}

static void says(const char *sentence) {
    char *said = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
    if (!strstr(said, sentence)) fail_msg("no '%s' in:\n%s", sentence, said);
    ftl_free(said);
}

static void works_within(size_t megabytes) {
    if (context->memory.used_bytes > megabytes << 20)
        fail_msg("%zu MiB, more than %zu", context->memory.used_bytes >> 20, megabytes);
}

static void begin(const char *more) {
    text_done(&text);
    text_format(&text,
                "kernel large\nInput X f32 (r in n, d)\n%sOutput Y f32 (r in n, d)\n"
                "Copy X from global to register\n",
                more);
}

static void end(const char *factor) {
    text_format(&text, "Compute Multiply X, %s and get Y\nCopy Y from register to global\n",
                factor);
}

/* --- definitions ------------------------------------------------------------------------------ */

/* x1 = x0 + x0, x2 = x1 + x1: written out, twice as much each time. */
static void add_doubled(int count) {
    text_add_z(&text, "kernel large\nInput X f32 (r in n, d)\nOutput Y f32 (r in n, d)\n"
                      "let x0 = n\n");
    for (int i = 1; i <= count; i++) text_format(&text, "let x%d = x%d + x%d\n", i, i - 1, i - 1);
    text_add_z(&text, "Copy X from global to register\n");
    text_format(&text, "Compute Multiply X, x%d and get Y\nCopy Y from register to global\n",
                count);
}

static void definitions_are_bounded_as_written_out(void **state) {
    (void)state;
    static const char *const gpus[] = {"t4", "a100", "h200"};
    for (int i = 0; i < 3; i++) {
        text_done(&text);
        add_doubled(60);
        assert_int_equal(reason(gpus[i]), FTL_REJECTED);
        says("with its definitions written out, this expression has more than 4096 "
             "terms");
        works_within(4);
        text_done(&text);
        add_doubled(9);
        assert_int_equal(reason(gpus[i]), FTL_OK);
        works_within(64);
    }
}

static void chain(int count) {
    text_done(&text);
    text_add_z(&text, "kernel large\nInput X f32 (r in n, d)\nOutput Y f32 (r in n, d)\n"
                      "let x0 = n\n");
    for (int i = 1; i <= count; i++) text_format(&text, "let x%d = x%d + 1\n", i, i - 1);
    text_add_z(&text, "Copy X from global to register\n");
    text_format(&text, "Compute Multiply X, x%d and get Y\nCopy Y from register to global\n",
                count);
}

static void chains_are_bounded_in_height(void **state) {
    (void)state;
    chain(100);
    assert_int_equal(reason("a100"), FTL_OK);
    chain(300);
    assert_int_equal(reason("a100"), FTL_REJECTED);
    says("with its definitions written out, this expression nests more than 256 deep");
}

/* --- lengths ---------------------------------------------------------------------------------- */

static void kernels_have_a_length(void **state) {
    (void)state;
    begin("");
    for (int i = 0; i < 1001; i++) text_add_z(&text, "Compute Multiply X, 2 and get X\n");
    end("2");
    assert_int_equal(reason("a100"), FTL_REJECTED);
    says("this kernel has more than 1000 statements: divide it into several");
    works_within(16);
}

static void launches_have_a_room(void **state) {
    (void)state;
    text_buffer inputs;
    text_init(&inputs, 1 << 16);
    for (int i = 0; i < 200; i++) text_format(&inputs, "Input s%d f32 where s%d > 0\n", i, i);
    begin(inputs.data);
    end("s0");
    text_done(&inputs);
    assert_int_equal(reason("a100"), FTL_REJECTED);
    says("the plan's 'scalars' has more");
    ftl_source from = source();
    ftl_plan *plan = NULL;
    assert_int_equal(ftl_parameters(context, &from, FTL_F16, &plan), FTL_INVALID_ARGUMENT);
    assert_non_null(strstr(ftl_context_error(context), "'scalars' has more"));
}

static void brackets_have_a_depth(void **state) {
    (void)state;
    static const int depths[] = {20, 60, 64, 65, 5000};
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        text_buffer factor;
        text_init(&factor, 1 << 16);
        text_repeat(&factor, '(', (size_t)depths[i]);
        text_add_z(&factor, "2");
        text_repeat(&factor, ')', (size_t)depths[i]);
        begin("");
        end(factor.data);
        text_done(&factor);
        ftl_status status = reason("a100");
        assert_int_equal(status, depths[i] < 64 ? FTL_OK : FTL_REJECTED);
        if (status) says("expressions nest at most 64 deep");
    }
}

/* --- searches --------------------------------------------------------------------------------- */

/* Each of twelve forms is refused, after a choice among thousands of candidates: what is the same
 * for all of them is asked for once.
 */
static void choices_are_bounded(void **state) {
    (void)state;
    if (sample_every() > 1) skip(); /* the same steps thousands of times */
    text_add_z(&text, "kernel two_products\n"
                      "Input  Q (q in q_len, d)\n"
                      "Input  K (kv in kv_len, d)\n"
                      "Input  V (kv in kv_len, x in e)\n"
                      "Input  K1 (n in n_len, d)\n"
                      "Input  V1 (n in n_len, y in e1)\n"
                      "Output Y (q in q_len, x in e)\n"
                      "Output Z (q in q_len, y in e1)\n"
                      "Copy Q from global to shared\n"
                      "for j = 0:kv_len/BN\n"
                      "    Copy K from global to shared\n"
                      "    Compute GEMM Q, K.T and get S\n"
                      "    Compute Softmax S\n"
                      "    Copy V from global to shared\n"
                      "    Compute GEMM S, V and accumulate A\n"
                      "end\n"
                      "for i = 0:n_len/BN\n"
                      "    Copy K1 from global to shared\n"
                      "    Compute GEMM Q, K1.T and get T\n"
                      "    Compute Softmax T\n"
                      "    Copy V1 from global to shared\n"
                      "    Compute GEMM T, V1 and accumulate C\n"
                      "end\n"
                      "Copy A from register to global and get Y\n"
                      "Copy C from register to global and get Z\n");
    reason("h200");
    works_within(64);
}

/* --- masks ------------------------------------------------------------------------------------ */

/* Ends that differ all, so that the bounds of the loop are the least and the largest of many. */
static void add_masked(int count, const char *condition) {
    text_done(&text);
    text_add_z(&text,
               "kernel masked\nInput Q (b in batch; q in q_len, d)\n"
               "Input K (b in batch; kv in kv_len, d)\nInput V (b in batch; kv in kv_len, d)\n"
               "Output O (b in batch; q in q_len, d)\nCopy Q from global to shared\n"
               "for j = 0:kv_len/BN\nCopy K from global to shared\n"
               "Compute GEMM Q, K.T and get S\n");
    for (int i = 0; i < count; i++)
        text_format(&text, "Compute Mask S where kv %s %d\n", condition, i);
    text_add_z(&text, "Compute Softmax S\nCopy V from global to shared\n"
                      "Compute GEMM S, V and accumulate O\nend\nCopy O from register to global\n");
}

static void many_masks_of_a_tile(void **state) {
    (void)state;
    static const char *const conditions[] = {"> q + kv_len - q_len +", "<= q -"};
    static const char *const gpus[] = {"t4", "h200"};
    static const int counts[] = {1, 6, 7, 8, 9, 12, 13, 14, 17, 50, 100, 300, 980};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int k = 0; k < 4; k++) {
            if (!sample_takes()) continue;
            add_masked(counts[i], conditions[k & 1]);
            if (reason(gpus[k >> 1]) != FTL_OK) {
                char *said = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
                fail_msg("%d masks for %s: %s", counts[i], gpus[k >> 1], said);
            }
            works_within(256);
        }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(definitions_are_bounded_as_written_out),
        TEST(chains_are_bounded_in_height),
        TEST(kernels_have_a_length),
        TEST(launches_have_a_room),
        TEST(brackets_have_a_depth),
        TEST(choices_are_bounded),
        TEST(many_masks_of_a_tile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
