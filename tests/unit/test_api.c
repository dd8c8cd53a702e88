/* The C API called wrongly: null pointers, counts that do not fit, arrays that overflow or lie
 * askew. Each call is one sentence and a status, leaves nothing to free, and the context works on.
 */
#include "flashtl/attention.h"
#include "flashtl/execute.h"
#include "flashtl/flashtl.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static const char sketch[] = "kernel twice\n"
                             "Input X f32 (row in row_len, d)\n"
                             "Output Y f32 (row in row_len, d)\n"
                             "Copy X from global to register and get Y\n"
                             "Compute Multiply Y, 2 and get Y\n"
                             "Copy Y from register to global\n";

static ftl_context *c;
static ftl_runtime *runtime; /* of libraries that are not there */
static ftl_plan *plan;
static ftl_source good = {"twice.tl", sketch, sizeof sketch - 1};
static ftl_options options = {.struct_bytes = sizeof(ftl_options), .gpu = "a100"};

static int open_all(void **state) {
    (void)state;
    ftl_runtime_options none = {.struct_bytes = sizeof none,
                                .cuda_library = "/no/such/libcuda.so.1",
                                .nvrtc_library = "/no/such/libnvrtc.so"};
    if (ftl_context_new(&c) || ftl_runtime_open(c, &none, &runtime)) return 1;
    return ftl_parameters(c, &good, FTL_F16, &plan) != FTL_OK;
}

static int close_all(void **state) {
    (void)state;
    ftl_plan_free(plan);
    ftl_runtime_close(runtime);
    ftl_context_free(c);
    return 0;
}

#define INVALID(call)                                                                              \
    do {                                                                                           \
        ftl_context_fail(c, FTL_OK, "%s", "");                                                     \
        int status_ = (int)(call);                                                                 \
        if (status_ != FTL_INVALID_ARGUMENT) fail_msg("%s: status %d", #call, status_);            \
        if (!*ftl_context_error(c)) fail_msg("%s: no sentence", #call);                            \
    } while (0)

/* --- null ------------------------------------------------------------------------------------- */

static void compiling(void **state) {
    (void)state;
    char *text, family[64];
    ftl_product *product;
    ftl_decisions *decisions;
    ftl_gpu gpu = FTL_GPU_INIT;
    double flops;
    INVALID(ftl_sketch(c, NULL, NULL, 0, &text));
    INVALID(ftl_sketch(c, "mha", NULL, 1, &text));
    INVALID(ftl_sketch(c, "mha", NULL, -1, &text));
    INVALID(ftl_sketch(c, "mha", (const char *const[]){NULL}, 1, &text));
    INVALID(ftl_sketch(c, "mha", NULL, 0, NULL));
    INVALID(ftl_operator_family(c, NULL, family));
    INVALID(ftl_operator_family(c, "mha", NULL));
    INVALID(ftl_operators(c, NULL));
    INVALID(ftl_format(c, NULL, &text));
    INVALID(ftl_format(c, &good, NULL));
    INVALID(ftl_grammar(c, (ftl_grammar_form)99, &text));
    INVALID(ftl_grammar(c, FTL_EBNF, NULL));
    INVALID(ftl_check(c, NULL, NULL));
    INVALID(ftl_reason(c, NULL, &options, &text));
    INVALID(ftl_reason(c, &good, NULL, &text));
    INVALID(ftl_reason(c, &good, &options, NULL));
    INVALID(ftl_derive(c, NULL, NULL, 0, false, &text));
    INVALID(ftl_derive(c, &good, NULL, 0, false, NULL));
    INVALID(ftl_derive(c, &good, NULL, 1, false, &text));
    INVALID(ftl_derive(c, &good, NULL, -1, false, &text));
    INVALID(ftl_derive(c, &good, (const char *const[]){NULL}, 1, false, &text));
    INVALID(ftl_explain(c, NULL, &options, &text));
    INVALID(ftl_explain(c, &good, NULL, &text));
    INVALID(ftl_explain(c, &good, &options, NULL));
    INVALID(ftl_passes(c, NULL));
    INVALID(ftl_decide(c, NULL, &options, &decisions));
    INVALID(ftl_decide(c, &good, NULL, &decisions));
    INVALID(ftl_decide(c, &good, &options, NULL));
    INVALID(ftl_flops(c, NULL, NULL, 0, &flops));
    INVALID(ftl_flops(c, &good, NULL, 1, &flops));
    INVALID(ftl_flops(c, &good, NULL, -1, &flops));
    INVALID(ftl_flops(c, &good, &(ftl_scalar){NULL, 1}, 1, &flops));
    INVALID(ftl_flops(c, &good, NULL, 0, NULL));
    INVALID(ftl_translate(c, NULL, NULL, &product));
    INVALID(ftl_translate(c, &good, NULL, NULL));
    INVALID(ftl_build(c, NULL, &options, &product));
    INVALID(ftl_build(c, &good, NULL, &product));
    assert_null(product);
    INVALID(ftl_build(c, &good, &options, NULL));
    INVALID(ftl_trace(c, NULL, &options, &text));
    INVALID(ftl_trace(c, &good, NULL, &text));
    INVALID(ftl_trace(c, &good, &options, NULL));
    ftl_options early = options;
    early.stop_after = "tile";
    INVALID(ftl_trace(c, &good, &early, &text));
    INVALID(ftl_gpu_describe(c, NULL, &gpu));
    INVALID(ftl_gpu_describe(c, "a100", NULL));
    INVALID(ftl_gpu_text(c, NULL, &text));
    INVALID(ftl_gpu_text(c, "a100", NULL));
    INVALID(ftl_measured_text(c, NULL, &text));
    INVALID(ftl_gpu_at(c, 0, NULL));
    INVALID(ftl_gpu_for_device(c, NULL, 80, 108, &gpu));
    INVALID(ftl_gpu_for_device(c, "NVIDIA A100", 80, 108, NULL));
    assert_int_equal(ftl_gpu_at(c, -1, &gpu), FTL_NOT_FOUND);
}

static void lists_of_pins(void **state) {
    (void)state;
    static const ftl_pin nameless = {NULL, "1"}, valueless = {"BM", NULL};
    char *text;
    INVALID(ftl_reason(
        c, &good,
        &(ftl_options){.struct_bytes = sizeof(ftl_options), .gpu = "a100", .pin_count = 1}, &text));
    INVALID(ftl_reason(
        c, &good,
        &(ftl_options){.struct_bytes = sizeof(ftl_options), .gpu = "a100", .pin_count = -1},
        &text));
    INVALID(ftl_reason(
        c, &good,
        &(ftl_options){
            .struct_bytes = sizeof(ftl_options), .gpu = "a100", .pins = &nameless, .pin_count = 1},
        &text));
    INVALID(ftl_reason(
        c, &good,
        &(ftl_options){
            .struct_bytes = sizeof(ftl_options), .gpu = "a100", .pins = &valueless, .pin_count = 1},
        &text));
}

/* A text of no bytes, or that says it has some where there are none, is an empty program. */
static void texts_without_bytes(void **state) {
    (void)state;
    const ftl_source texts[] = {{NULL, NULL, 0}, {"x", NULL, 5}, {"x", "", 0}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(ftl_check(c, &texts[i], NULL), FTL_REJECTED);
        assert_true(ftl_context_error_count(c) > 0);
    }
}

static void plans(void **state) {
    (void)state;
    double value;
    assert_null(ftl_plan_write(NULL));
    assert_null(ftl_plan_header(NULL, "x"));
    assert_null(ftl_plan_header(plan, NULL));
    assert_null(ftl_plan_read(NULL, 5, NULL));
    assert_false(ftl_formula_evaluate(NULL, NULL, NULL, &value));
    assert_false(ftl_plan_resolve(NULL, NULL, NULL, NULL));
    ftl_plan_free(NULL);
    INVALID(ftl_parameters(c, NULL, FTL_F16, &(ftl_plan *){NULL}));
    INVALID(ftl_parameters(c, &good, FTL_F16, NULL));
}

static void machines(void **state) {
    (void)state;
    ftl_emulator *emulator;
    ftl_emulation result;
    const ftl_arguments none = {0}, tensorless = {.tensor_count = 1},
                        scalarless = {.scalar_count = 1};
    INVALID(ftl_interpret(c, NULL, FTL_EXACT, &none));
    INVALID(ftl_interpret(c, &good, FTL_EXACT, NULL));
    INVALID(ftl_interpret(c, &good, (ftl_arithmetic)9, &none));
    INVALID(ftl_interpret(c, &good, FTL_EXACT, &tensorless));
    INVALID(ftl_interpret(c, &good, FTL_EXACT, &scalarless));
    INVALID(ftl_emulator_open(c, NULL, "x", 1, "k", &emulator));
    INVALID(ftl_emulator_open(c, plan, NULL, 1, "k", &emulator));
    assert_null(emulator);
    INVALID(ftl_emulator_open(c, plan, "", 0, "k", NULL));
    INVALID(ftl_emulate(c, NULL, &none, NULL, &result));
    INVALID(ftl_emulate(c, NULL, &none, NULL, NULL));
    ftl_emulation_done(NULL);
    ftl_emulator_close(NULL);
}

static void running(void **state) {
    (void)state;
    uint64_t address;
    ftl_timer *timer;
    ftl_module *module;
    ftl_image image;
    ftl_device device;
    int32_t count;
    int64_t removed;
    double milliseconds;
    const ftl_arguments none = {0};
    INVALID(ftl_runtime_open(c, NULL, NULL));
    INVALID(ftl_device_count(c, NULL, &count));
    INVALID(ftl_device_count(c, runtime, NULL));
    INVALID(ftl_device_describe(c, NULL, 0, &device));
    INVALID(ftl_device_describe(c, runtime, 0, NULL));
    INVALID(ftl_device_use(c, NULL, 0));
    INVALID(ftl_device_allocate(c, NULL, 1, &address));
    INVALID(ftl_device_allocate(c, runtime, 1, NULL));
    INVALID(ftl_device_write(c, NULL, 1, &count, 4));
    INVALID(ftl_device_read(c, NULL, &count, 1, 4));
    INVALID(ftl_device_fill(c, NULL, 1, 0, 4));
    INVALID(ftl_stream_wait(c, NULL, NULL, 1));
    INVALID(ftl_timer_new(c, NULL, &timer));
    INVALID(ftl_timer_new(c, runtime, NULL));
    INVALID(ftl_timer_start(c, NULL, NULL));
    INVALID(ftl_timer_stop(c, NULL, NULL, &milliseconds));
    INVALID(ftl_compile_cuda(c, NULL, "x", "n", "sm_80", &image));
    INVALID(ftl_compile_cuda(c, runtime, NULL, "n", "sm_80", &image));
    INVALID(ftl_compile_cuda(c, runtime, "x", NULL, "sm_80", &image));
    INVALID(ftl_compile_cuda(c, runtime, "x", "n", NULL, &image));
    INVALID(ftl_compile_cuda(c, runtime, "x", "n", "sm_80", NULL));
    INVALID(ftl_module_load(c, NULL, plan, "x", &module));
    INVALID(ftl_module_load(c, runtime, NULL, "x", &module));
    INVALID(ftl_module_load(c, runtime, plan, NULL, &module));
    INVALID(ftl_module_load(c, runtime, plan, "x", NULL));
    ftl_product empty = {0};
    INVALID(ftl_product_load(c, runtime, NULL, &module));
    INVALID(ftl_product_load(c, runtime, &empty, &module));
    INVALID(ftl_product_load(c, runtime, &empty, NULL));
    INVALID(ftl_product_load(c, NULL, &empty, &module));
    INVALID(ftl_module_load_image(c, NULL, plan, "x", 1, &module));
    INVALID(ftl_module_load_image(c, runtime, plan, NULL, 1, &module));
    INVALID(ftl_module_load_image(c, runtime, plan, "x", 0, &module));
    INVALID(ftl_module_launch(c, NULL, &none, NULL));
    INVALID(ftl_cache_list(c, NULL, NULL, NULL));
    INVALID(ftl_cache_clear(c, NULL, &removed));
    INVALID(ftl_attention_forward(c, NULL, NULL, NULL));
    INVALID(ftl_attention_forward(c, runtime, NULL, NULL));
    INVALID(ftl_attention_prepare(c, NULL, NULL));
    INVALID(ftl_sparse_attention(c, NULL, NULL, NULL));
    INVALID(ftl_sparse_attention(c, runtime, NULL, NULL));
    assert_int_equal(ftl_sparse_attention(NULL, NULL, NULL, NULL), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_attention_forward(NULL, NULL, NULL, NULL), FTL_INVALID_ARGUMENT);
    assert_null(ftl_module_plan(NULL));
    ftl_device_free(NULL, 1);
    ftl_timer_free(NULL);
    ftl_module_free(NULL);
    ftl_image_done(NULL);
    ftl_runtime_close(NULL);
}

static void without_a_context(void **state) {
    (void)state;
    char *text;
    ftl_product *product;
    assert_int_equal(ftl_context_new(NULL), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_format(NULL, &good, &text), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_check(NULL, &good, NULL), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_build(NULL, &good, &options, &product), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(NULL), "");
    assert_string_equal(ftl_context_take_warning(NULL), "");
    assert_int_equal(ftl_context_error_count(NULL), 0);
    assert_int_equal(ftl_context_warning_count(NULL), 0);
    char *nothing = ftl_context_diagnostics(NULL, FTL_DIAGNOSTICS_TEXT);
    assert_string_equal(nothing, "");
    ftl_free(nothing);
    ftl_context_free(NULL);
    ftl_context_warn(NULL, "nobody reads this");
    ftl_free(NULL);
}

/* --- arrays of the interpreter ---------------------------------------------------------------- */

enum { ROWS = 3, D = 4 };

typedef struct call {
    unsigned char bytes[2][ROWS * D * 4 + 8];
    ftl_tensor tensors[2];
} call;

static void prepare(call *x) {
    memset(x, 0, sizeof *x);
    for (int t = 0; t < 2; t++) {
        x->tensors[t] = (ftl_tensor){.name = t ? "Y" : "X",
                                     .address = (uint64_t)(uintptr_t)x->bytes[t],
                                     .type = FTL_F32,
                                     .extents = {ROWS, D},
                                     .strides = {D, 1},
                                     .axis_count = 2};
    }
}

static ftl_status interpret(call *x) {
    ftl_arguments arguments = {x->tensors, 2, NULL, 0};
    return ftl_interpret(c, &good, FTL_ROUNDED, &arguments);
}

static void arrays_that_cannot_be(void **state) {
    (void)state;
    call x;
    prepare(&x);
    x.tensors[0].address = 0;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[0].extents[0] = -1;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[0].strides[0] = INT64_MAX / 2;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[0].extents[0] = x.tensors[1].extents[0] = INT64_MAX;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[1].address = UINT64_MAX - 7;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[0].strides[0] = INT64_MIN / 16;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[1].name = NULL;
    INVALID(interpret(&x));
    prepare(&x);
    x.tensors[1].axis_count = FTL_AXES_MAX + 1;
    INVALID(interpret(&x));
}

/* On the CPU an array may begin anywhere, and have no elements. */
static void arrays_askew_and_empty(void **state) {
    (void)state;
    call x;
    prepare(&x);
    for (int t = 0; t < 2; t++) x.tensors[t].address++;
    for (int i = 0; i < ROWS * D; i++) {
        float value = (float)i;
        memcpy(x.bytes[0] + 1 + 4 * i, &value, 4);
    }
    assert_int_equal(interpret(&x), FTL_OK);
    for (int i = 0; i < ROWS * D; i++) {
        float value;
        memcpy(&value, x.bytes[1] + 1 + 4 * i, 4);
        assert_true(value == 2.0f * (float)i);
    }
    for (int axis = 0; axis < 2; axis++) {
        prepare(&x);
        for (int t = 0; t < 2; t++) x.tensors[t].extents[axis] = 0, x.tensors[t].address = 0;
        assert_int_equal(interpret(&x), FTL_OK);
    }
}

/* A condition of the program that does not hold is one status and one sentence, whoever runs it. */
static void conditions_are_told_alike(void **state) {
    (void)state;
    static const char text[] =
        "kernel grouped\nlet group = q_heads/kv_heads\n"
        "Input X f32 (head in q_heads; row in row_len, d)\n"
        "Input Z f32 (head/group in kv_heads; row in row_len, d) where q_heads % kv_heads == 0\n"
        "Input scale f32 where scale > 0\n"
        "Output Y f32 (head in q_heads; row in row_len, d)\n"
        "Copy X from global to register\nCopy Z from global to register\n"
        "Compute Multiply X, scale and get X\nCompute Add X, Z and get Y\n"
        "Copy Y from register to global\n";
    static const struct {
        int64_t heads;
        double scale;
        const char *said;
    } cases[] = {
        {4, 1, "kernel 'grouped' demands q_heads % kv_heads == 0; here q_heads = 6, kv_heads = 4"},
        {3, -2, "kernel 'grouped' demands scale > 0; here scale = -2"},
    };
    static _Alignas(16) float memory[3][6 * 5 * 64];
    const ftl_source source = {"grouped.tl", text, sizeof text - 1};
    const ftl_pin pins[] = {{"d", "64"}};
    const ftl_options a100 = {
        .struct_bytes = sizeof(ftl_options), .gpu = "a100", .pins = pins, .pin_count = 1};
    ftl_product *product;
    assert_int_equal(ftl_build(c, &source, &a100, &product), FTL_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ftl_tensor tensors[3];
        for (int t = 0; t < 3; t++) {
            tensors[t] = (ftl_tensor){.name = t == 0   ? "X"
                                              : t == 1 ? "Z"
                                                       : "Y",
                                      .address = (uint64_t)(uintptr_t)memory[t],
                                      .type = FTL_F32,
                                      .extents = {t == 1 ? cases[i].heads : 6, 5, 64},
                                      .strides = {5 * 64, 64, 1},
                                      .axis_count = 3};
        }
        ftl_scalar scale = {"scale", cases[i].scale};
        ftl_arguments arguments = {tensors, 3, &scale, 1};
        INVALID(ftl_interpret(c, &source, FTL_EXACT, &arguments));
        assert_string_equal(ftl_context_error(c), cases[i].said);
        ftl_launch launch; /* as emulator and runtime make theirs */
        char why[FTL_WHY_BYTES];
        assert_false(ftl_plan_resolve(product->kernels[0].plan, &arguments, &launch, why));
        assert_string_equal(why, cases[i].said);
    }
    ftl_product_free(product);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiling),
        cmocka_unit_test(lists_of_pins),
        cmocka_unit_test(texts_without_bytes),
        cmocka_unit_test(plans),
        cmocka_unit_test(machines),
        cmocka_unit_test(running),
        cmocka_unit_test(without_a_context),
        cmocka_unit_test(arrays_that_cannot_be),
        cmocka_unit_test(arrays_askew_and_empty),
        cmocka_unit_test(conditions_are_told_alike),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
