/* Every public function, called wrongly: whatever is null, empty, made of zeros or a number that
 * names nothing. Each gives a status and a sentence, or the answer that its header says; none
 * crashes. The list of functions is that of the headers: one that is not called here fails the
 * test.
 */
#include "base/os.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/attention.h"
#include "flashtl/execute.h"
#include "flashtl/flashtl.h"
#include "flashtl/serving.h"
#include "plan_sample.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const char sketch[] = "kernel twice\n"
                             "Input X f32 (row in row_len, d)\n"
                             "Output Y f32 (row in row_len, d)\n"
                             "Copy X from global to register and get Y\n"
                             "Compute Multiply Y, 2 and get Y\n"
                             "Copy Y from register to global\n";

static ftl_context *c;
static ftl_runtime *runtime; /* on a driver that pretends */
static const ftl_source good = {"twice.tl", sketch, sizeof sketch - 1};

enum { FUNCTIONS_MAX = 128 };
static const char *called[FUNCTIONS_MAX];
static int called_count;

static void note(const char *name) {
    for (int i = 0; i < called_count; i++) {
        if (strcmp(called[i], name) == 0) return;
    }
    assert_true(called_count < FUNCTIONS_MAX);
    called[called_count++] = name;
}

/* A call that is the caller's mistake. */
#define BAD(function, ...)                                                                         \
    do {                                                                                           \
        note(#function);                                                                           \
        ftl_context_fail(c, FTL_OK, "%s", "");                                                     \
        int status_ = (int)function(__VA_ARGS__);                                                  \
        if (status_ != FTL_INVALID_ARGUMENT)                                                       \
            fail_msg("%s(%s): status %d", #function, #__VA_ARGS__, status_);                       \
        if (!*ftl_context_error(c)) fail_msg("%s(%s): no sentence", #function, #__VA_ARGS__);      \
    } while (0)

/* A call that returns something else. */
#define CALL(function, ...) (note(#function), function(__VA_ARGS__))

static int open_all(void **state) {
    (void)state;
    fake_record *driver = record_of(FAKE_CUDA, "fake_cuda");
    *driver = (fake_record){.capability = 80, .device_count = 1, .driver_version = 13000};
    ftl_runtime_options options = {
        .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    return CALL(ftl_context_new, &c) || CALL(ftl_runtime_open, c, &options, &runtime);
}

static int close_all(void **state) {
    (void)state;
    ftl_runtime_close(runtime);
    ftl_context_free(c);
    return 0;
}

/* --- compiling -------------------------------------------------------------------------------- */

static void sources(void **state) {
    (void)state;
    char *text, family[64];
    ftl_product *product;
    double flops;
    BAD(ftl_sketch, c, NULL, NULL, 0, &text);
    BAD(ftl_sketch, c, "mha", NULL, 3, &text);
    assert_int_equal(CALL(ftl_sketch, c, "", NULL, 0, &text), FTL_NOT_FOUND);
    BAD(ftl_operator_family, c, NULL, family);
    ftl_pin types[] = {{"K", "e4m3"}, {NULL, NULL}};
    BAD(ftl_set_types, c, NULL, types, 1, &text);
    BAD(ftl_set_types, c, &good, NULL, 1, &text);
    BAD(ftl_set_types, c, &good, types, 2, &text);
    BAD(ftl_set_types, c, &good, types, -1, &text);
    assert_int_equal(CALL(ftl_set_types, c, &good, types, 1, &text), FTL_NOT_FOUND);
    assert_null(text);
    BAD(ftl_operators, c, NULL);
    BAD(ftl_format, c, NULL, &text);
    BAD(ftl_grammar, c, (ftl_grammar_form)77, &text);
    BAD(ftl_grammar, c, (ftl_grammar_form)0, &text);
    BAD(ftl_check, c, NULL, NULL);
    BAD(ftl_passes, c, NULL);
    BAD(ftl_flops, c, &good, NULL, 2, &flops);
    BAD(ftl_translate, c, NULL, NULL, &product);
    BAD(ftl_translate_to, c, &good, "a100", (ftl_text_form)77, &product);
    BAD(ftl_translate_to, c, &good, "a100", (ftl_text_form)0, &product);
    assert_int_equal(ftl_translate(c, &good, "no such GPU", &product), FTL_NOT_FOUND);
    assert_null(product);
    assert_int_equal(ftl_check(c, &good, ""), FTL_NOT_FOUND);
    ftl_product_free(NULL);
    note("ftl_product_free");
}

/* Options that were not begun, of a type that is none, of a library that is to come. */
static void options_of_all_kinds(void **state) {
    (void)state;
    struct {
        ftl_options known;
        void *later;
    } future = {.known = FTL_OPTIONS_INIT};
    ftl_options bad[4] = {FTL_OPTIONS_INIT, FTL_OPTIONS_INIT, FTL_OPTIONS_INIT, FTL_OPTIONS_INIT};
    char *text;
    ftl_product *product;
    ftl_decisions *decisions;
    bad[0].struct_bytes = 0;
    bad[1].struct_bytes = SIZE_MAX;
    bad[2].dtype = (ftl_type)77;
    bad[3].dtype = (ftl_type)-1;
    for (int i = 0; i < 4; i++) {
        bad[i].gpu = "a100";
        BAD(ftl_build, c, &good, &bad[i], &product);
        BAD(ftl_reason, c, &good, &bad[i], &text);
        BAD(ftl_trace, c, &good, &bad[i], &text);
        BAD(ftl_explain, c, &good, &bad[i], &text);
        BAD(ftl_decide, c, &good, &bad[i], &decisions);
        BAD(ftl_check_pins, c, &good, &bad[i]);
    }
    future.known.gpu = "a100";
    future.known.struct_bytes = sizeof future;
    assert_int_equal(ftl_reason(c, &good, &future.known, &text), FTL_OK);
    ftl_free(text);
    BAD(ftl_derive, c, &good, NULL, 1, false, &text);
    future.later = &future;
    BAD(ftl_reason, c, &good, &future.known, &text);
    static const char *const symbols[] = {"", "1st", "a b", "a-b", "x); evil("};
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        ftl_options named = FTL_OPTIONS_INIT;
        named.gpu = "a100", named.entry = symbols[i];
        BAD(ftl_build, c, &good, &named, &product);
    }
    ftl_options nameless = FTL_OPTIONS_INIT;
    assert_int_not_equal(ftl_reason(c, &good, &nameless, &text), FTL_OK); /* no GPU */
    assert_true(*ftl_context_error(c) || ftl_context_error_count(c));
    nameless.gpu = "a100", nameless.stop_after = "no such pass";
    assert_int_not_equal(ftl_reason(c, &good, &nameless, &text), FTL_OK);
    CALL(ftl_decisions_free, NULL);
}

static void gpus(void **state) {
    (void)state;
    ftl_gpu gpu = FTL_GPU_INIT, unbegun = {0};
    struct {
        ftl_gpu known;
        char later[16];
    } future = {.known = FTL_GPU_INIT, .later = "not zeroed"};
    char *text;
    BAD(ftl_gpu_describe, c, "a100", &unbegun);
    BAD(ftl_gpu_describe, c, NULL, &gpu);
    BAD(ftl_gpu_at, c, 0, &unbegun);
    BAD(ftl_gpu_for_device, c, "NVIDIA A100", 80, 108, &unbegun);
    BAD(ftl_gpu_for_device, c, NULL, 80, 108, &gpu);
    BAD(ftl_gpu_text, c, NULL, &text);
    BAD(ftl_measured_text, c, NULL, &text);
    assert_int_equal(ftl_gpu_describe(c, "", &gpu), FTL_NOT_FOUND);
    assert_int_equal(ftl_gpu_at(c, INT32_MAX, &gpu), FTL_NOT_FOUND);
    assert_int_equal(ftl_gpu_for_device(c, "", 0, 0, &gpu), FTL_NOT_FOUND);
    assert_int_equal(ftl_gpu_for_device(c, "", INT32_MIN, INT32_MIN, &gpu), FTL_NOT_FOUND);
    future.known.struct_bytes = sizeof future;
    assert_int_equal(ftl_gpu_describe(c, "a100", &future.known), FTL_OK);
    assert_string_equal(future.known.name, "a100");
    assert_int_equal(future.known.struct_bytes, sizeof future);
    assert_int_equal(future.later[0], 0);
}

/* --- plans ------------------------------------------------------------------------------------ */

/* Whatever takes a plan refuses it. */
static void refuse_plan(const ftl_plan *plan, const char *what) {
    char why[FTL_WHY_BYTES] = "";
    ftl_module *module;
    ftl_emulator *emulator;
    if (CALL(ftl_plan_check, plan, why)) fail_msg("%s: taken for a plan", what);
    assert_true(*why);
    assert_null(CALL(ftl_plan_write, plan));
    assert_null(CALL(ftl_plan_header, plan, "it"));
    BAD(ftl_module_load, c, runtime, plan, "text", &module);
    ftl_kernel kernels[] = {{(char *)(uintptr_t) "text", (ftl_plan *)(uintptr_t)plan}};
    ftl_product product = {.sketch = (char *)(uintptr_t) "kernel a", .kernels = kernels};
    BAD(ftl_product_load, c, runtime, &product, &module);
    product.kernel_count = 1;
    BAD(ftl_product_load, c, runtime, &product, &module);
    BAD(ftl_module_load_image, c, runtime, plan, "image", 5, &module);
    BAD(ftl_emulator_open, c, plan, "ptx", 3, "it", &emulator);
    sample_call call = sample_arguments(1, 2, 2, 64, 64);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    ftl_launch launch;
    CALL(ftl_plan_resolve, plan, &arguments, &launch, why); /* some of it may not matter to it */
}

static void plans(void **state) {
    (void)state;
    static ftl_plan_tensor tensors[4];
    static ftl_plan_size sizes[SAMPLE_SIZES];
    static ftl_plan_scalar scalars[1];
    ftl_plan p;
    refuse_plan(NULL, "null");
    refuse_plan(&(ftl_plan){0}, "zeros");
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        p = sample_plan;                                                                           \
        memcpy(tensors, p.tensors, sizeof tensors), p.tensors = tensors;                           \
        memcpy(sizes, p.sizes, sizeof sizes), p.sizes = sizes;                                     \
        memcpy(scalars, p.scalars, sizeof scalars), p.scalars = scalars;                           \
        assert_true(ftl_plan_check(&p, NULL));                                                     \
        change;                                                                                    \
        refuse_plan(&p, #change);                                                                  \
    } while (0)
    static const ftl_formula_step past_sizes[] = {{.op = FTL_PUSH_SIZE, .index = SAMPLE_SIZES}},
                                  before_sizes[] = {{.op = FTL_PUSH_SIZE, .index = -1}},
                                  before_scalars[] = {{.op = FTL_PUSH_SCALAR, .index = -1}},
                                  unknown[] = {{.op = (ftl_formula_op)77}};
    static const ftl_formula bad[] = {FORMULA("past", past_sizes),
                                      FORMULA("before", before_sizes),
                                      FORMULA("before", before_scalars),
                                      FORMULA("unknown", unknown),
                                      {.text = "none", .step_count = 3},
                                      {.text = "negative", .step_count = -3},
                                      {.text = NULL}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSED((p.walks = &bad[i], p.walk_count = 1));
        REFUSED((p.conditions = &bad[i], p.condition_count = 1));
        REFUSED(tensors[0].axes[0].extent = bad[i]);
        double value;
        if (i == 1 || i == 2)
            assert_false(
                CALL(ftl_formula_evaluate, &bad[i], (int64_t[]){1}, (double[]){1}, &value));
        assert_false(ftl_formula_evaluate(&bad[i], NULL, NULL, &value));
    }
    REFUSED(p.kernel = NULL);
    REFUSED(p.entry = NULL);
    REFUSED(p.gpu = NULL);
    REFUSED(p.target = NULL);
    REFUSED(p.threads = 0);
    REFUSED(p.threads = 4096);
    REFUSED(p.shared_bytes = -1);
    REFUSED(p.parameter_bytes = -8);
    REFUSED(p.parameter_bytes = FTL_PARAMETER_BYTES_MAX + 8);
    REFUSED(p.parameter_bytes = 8);
    REFUSED(p.tensors = NULL);
    REFUSED(p.tensor_count = 65);
    REFUSED(p.tensor_count = -1);
    REFUSED(p.size_count = -1);
    REFUSED(p.sizes = NULL);
    REFUSED(p.scalars = NULL);
    REFUSED(p.walks = NULL);
    REFUSED(p.condition_count = 65);
    REFUSED(p.tiles = NULL);
    REFUSED(p.derived_count = 1);
    REFUSED(p.map_count = 1);
    REFUSED(p.map_count = FTL_MAPS_MAX + 1);
    REFUSED(p.grid_kind = (ftl_grid_kind)77);
    REFUSED((p.grid_kind = FTL_GRID_DYNAMIC, p.resident_blocks = 0));
    REFUSED((p.grid_kind = FTL_GRID_DYNAMIC, p.resident_blocks = 4, p.counters_offset = -1));
    REFUSED(tensors[1].name = NULL);
    REFUSED(tensors[1].type = (ftl_type)0);
    REFUSED(tensors[1].role = (ftl_tensor_role)77);
    REFUSED(tensors[1].axis_count = FTL_AXES_MAX + 1);
    REFUSED(tensors[1].axis_count = -1);
    REFUSED(tensors[1].pointer_offset = 1 << 20);
    REFUSED(tensors[1].pointer_offset = -8);
    REFUSED(tensors[1].axes[0].name = NULL);
    REFUSED(tensors[1].axes[0].size = SAMPLE_SIZES);
    REFUSED(tensors[1].axes[0].stride_offset = 4000);
    REFUSED(sizes[2].name = NULL);
    REFUSED(sizes[2].offset = -2);
    REFUSED(scalars[0].name = NULL);
    REFUSED(scalars[0].type = (ftl_type)77);
#undef REFUSED
    assert_null(CALL(ftl_plan_read, NULL, 5, NULL));
    assert_null(ftl_plan_read("{}", 2, NULL));
    CALL(ftl_plan_free, NULL);
}

static void names_for_headers(void **state) {
    (void)state;
    static const char *const bad[] = {NULL,  "",     "1st",      "a-b",           "a b",
                                      "a.h", "a\nb", "\xc3\xa4", "x */ int evil", "a\"b"};
    static const char *const right[] = {"a", "_", "A9_z"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_null(ftl_plan_header(&sample_plan, bad[i]));
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        char *header = ftl_plan_header(&sample_plan, right[i]);
        assert_non_null(header);
        ftl_free(header);
    }
}

/* --- machines --------------------------------------------------------------------------------- */

static void machines(void **state) {
    (void)state;
    ftl_plan *plan;
    ftl_emulation result;
    const ftl_arguments none = {0};
    BAD(ftl_parameters, c, &good, (ftl_type)0, &plan);
    BAD(ftl_parameters, c, &good, (ftl_type)77, &plan);
    BAD(ftl_interpret, c, &good, (ftl_arithmetic)0, &none);
    BAD(ftl_interpret, c, &good, FTL_EXACT, NULL);
    BAD(ftl_emulate, c, NULL, &none, NULL, &result);
    CALL(ftl_emulation_done, NULL);
    CALL(ftl_emulator_close, NULL);
    assert_string_equal(CALL(ftl_type_name, (ftl_type)77), "unknown");
    assert_int_equal(CALL(ftl_type_bytes, (ftl_type)77), 0);
    assert_int_equal(CALL(ftl_type_bits, (ftl_type)77), 0);
}

static void launches(void **state) {
    (void)state;
    sample_call call = sample_arguments(1, 2, 2, 64, 64);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1}, none = {0},
                  absent = {NULL, 4, NULL, 1};
    ftl_module *module;
    assert_int_equal(ftl_module_load_image(c, runtime, &sample_plan, "image", 5, &module), FTL_OK);
    BAD(ftl_module_launch, c, module, NULL, NULL);
    BAD(ftl_module_launch, c, module, &none, NULL);
    BAD(ftl_module_launch, c, module, &absent, NULL);
    call.tensors[0].type = (ftl_type)77;
    BAD(ftl_module_launch, c, module, &arguments, NULL);
    call.tensors[0].type = FTL_F16, call.tensors[0].axis_count = -1;
    BAD(ftl_module_launch, c, module, &arguments, NULL);
    call.tensors[0].axis_count = 4, call.scalars[0].name = NULL;
    BAD(ftl_module_launch, c, module, &arguments, NULL);
    call.scalars[0] = (ftl_scalar){"scale", NAN};
    BAD(ftl_module_launch, c, module, &arguments, NULL);
    assert_non_null(CALL(ftl_module_plan, module));
    CALL(ftl_module_free, module);
}

static void runtimes(void **state) {
    (void)state;
    ftl_runtime *unopened;
    ftl_timer *timer;
    ftl_image image;
    ftl_device device;
    uint64_t address;
    int32_t count;
    double milliseconds;
    ftl_runtime_options zeros = {0};
    BAD(ftl_runtime_open, c, &zeros, &unopened);
    assert_int_equal(ftl_runtime_open(c, NULL, &unopened), FTL_OK);
    BAD(ftl_device_count, c, NULL, &count);
    BAD(ftl_device_describe, c, NULL, 0, &device);
    assert_int_equal(ftl_device_describe(c, runtime, 99, &device), FTL_NO_DEVICE);
    BAD(ftl_device_use, c, NULL, 0);
    assert_int_equal(ftl_device_use(c, runtime, -1), FTL_NO_DEVICE);
    BAD(ftl_device_allocate, c, NULL, 1, &address);
    BAD(ftl_device_write, c, runtime, 4096, NULL, 1);
    BAD(ftl_device_read, c, runtime, NULL, 4096, 1);
    BAD(ftl_device_fill, c, NULL, 1, 0, 4);
    BAD(ftl_stream_wait, c, runtime, NULL, -1);
    BAD(ftl_stream_wait, c, runtime, NULL, INT64_MAX);
    BAD(ftl_timer_new, c, NULL, &timer);
    BAD(ftl_timer_start, c, NULL, NULL);
    BAD(ftl_timer_stop, c, NULL, NULL, &milliseconds);
    BAD(ftl_compile_cuda, c, NULL, "x", "n", "sm_80", &image);
    BAD(ftl_compile_cuda_with, c, runtime, "x", "n", NULL, NULL, &image);
    CALL(ftl_device_free, unopened, 4096); /* which has no driver yet */
    CALL(ftl_device_free, NULL, 4096);
    CALL(ftl_timer_free, NULL);
    CALL(ftl_image_done, NULL);
    CALL(ftl_runtime_close, unopened);
    ftl_runtime_close(NULL);
}

static void visit(void *user, const ftl_cache_entry *entry) {
    (void)user, (void)entry;
}

static void caches(void **state) {
    (void)state;
    int64_t removed;
    ftl_runtime *cacheless;
    ftl_module *module;
    BAD(ftl_cache_list, c, NULL, visit, NULL);
    BAD(ftl_cache_list, c, "", visit, NULL);
    BAD(ftl_cache_list, c, "/tmp", NULL, NULL);
    BAD(ftl_cache_clear, c, NULL, &removed);
    BAD(ftl_cache_clear, c, "", &removed);
    BAD(ftl_cache_clear, c, "/tmp", NULL);
    /* "": no cache, not the root of the file system */
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = FAKE_CUDA,
                                   .nvrtc_library = FAKE_NVRTC,
                                   .cache_folder = ""};
    assert_int_equal(ftl_runtime_open(c, &options, &cacheless), FTL_OK);
    assert_int_equal(ftl_module_load(c, cacheless, &sample_plan, "text", &module), FTL_OK);
    assert_string_equal(ftl_context_take_warning(c), "");
    assert_false(os_file_exists("/nvrtc"));
    ftl_module_free(module);
    ftl_runtime_close(cacheless);
}

static void attention(void **state) {
    (void)state;
    ftl_attention right = FTL_ATTENTION_INIT, a, zeros = {0};
    right.dtype = FTL_F16, right.head_dim = 64, right.batch = 1, right.q_len = right.kv_len = 64;
    right.q_heads = right.kv_heads = 2;
    BAD(ftl_attention_forward, c, NULL, &right, NULL);
    BAD(ftl_attention_prepare, c, NULL, &right);
    BAD(ftl_attention_prepare, c, runtime, &zeros);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        a = right;                                                                                 \
        change;                                                                                    \
        BAD(ftl_attention_forward, c, runtime, &a, NULL);                                          \
        BAD(ftl_attention_prepare, c, runtime, &a);                                                \
    } while (0)
    REFUSED(a.struct_bytes = 8);
    REFUSED(a.dtype = (ftl_type)0);
    REFUSED(a.dtype = (ftl_type)77);
    REFUSED(a.dtype = FTL_I32);
    REFUSED(a.head_dim = 0);
    REFUSED(a.head_dim = INT64_MAX);
    REFUSED(a.value_dim = -1);
    REFUSED(a.scale = NAN);
    REFUSED(a.scale = INFINITY);
    REFUSED(a.scale = -1);
    REFUSED(a.window = -1);
    REFUSED(a.softcap = NAN);
    REFUSED(a.softcap = -1);
#undef REFUSED
    ftl_sparse sparse = FTL_SPARSE_INIT, none = {0};
    BAD(ftl_sparse_attention, c, NULL, &sparse, NULL);
    BAD(ftl_sparse_attention, c, runtime, &none, NULL);
    BAD(ftl_sparse_attention, c, runtime, &sparse, NULL);
    ftl_nsa nsa = FTL_NSA_INIT, no_nsa = {0};
    ftl_tensor results[FTL_NSA_RESULTS_MAX];
    int32_t count;
    size_t bytes;
    BAD(ftl_nsa_attention, c, NULL, &nsa, NULL);
    BAD(ftl_nsa_attention, c, runtime, NULL, NULL);
    BAD(ftl_nsa_attention, c, runtime, &no_nsa, NULL);
    BAD(ftl_nsa_attention, c, runtime, &nsa, NULL);
    BAD(ftl_nsa_prepare, c, NULL, &nsa);
    BAD(ftl_nsa_prepare, c, runtime, NULL);
    BAD(ftl_nsa_prepare, c, runtime, &nsa);
    BAD(ftl_nsa_workspace, c, NULL, &bytes);
    BAD(ftl_nsa_workspace, c, &nsa, NULL);
    BAD(ftl_nsa_workspace, c, &nsa, &bytes);
    BAD(ftl_nsa_results, c, NULL, results, &count);
    BAD(ftl_nsa_results, c, &nsa, NULL, &count);
    BAD(ftl_nsa_results, c, &nsa, results, NULL);
    BAD(ftl_nsa_results, c, &nsa, results, &count);
    ftl_varlen varlen = FTL_VARLEN_INIT, no_varlen = {0};
    BAD(ftl_attention_varlen, c, NULL, &varlen, NULL);
    BAD(ftl_attention_varlen, c, runtime, NULL, NULL);
    BAD(ftl_attention_varlen, c, runtime, &no_varlen, NULL);
    BAD(ftl_attention_varlen, c, runtime, &varlen, NULL);
    BAD(ftl_attention_varlen_prepare, c, NULL, &varlen);
    BAD(ftl_attention_varlen_prepare, c, runtime, &varlen);
    ftl_decode decode = FTL_DECODE_INIT, no_decode = {0};
    BAD(ftl_attention_decode, c, NULL, &decode, NULL);
    BAD(ftl_attention_decode, c, runtime, NULL, NULL);
    BAD(ftl_attention_decode, c, runtime, &no_decode, NULL);
    BAD(ftl_attention_decode, c, runtime, &decode, NULL);
    BAD(ftl_attention_decode_prepare, c, NULL, &decode);
    BAD(ftl_attention_decode_prepare, c, runtime, &decode);
    BAD(ftl_attention_decode_workspace, c, NULL, &decode, &bytes);
    BAD(ftl_attention_decode_workspace, c, runtime, &decode, NULL);
    BAD(ftl_attention_decode_workspace, c, runtime, &decode, &bytes);
    ftl_mla mla = FTL_MLA_INIT, no_mla = {0};
    BAD(ftl_mla_decode, c, NULL, &mla, NULL);
    BAD(ftl_mla_decode, c, runtime, NULL, NULL);
    BAD(ftl_mla_decode, c, runtime, &no_mla, NULL);
    BAD(ftl_mla_decode, c, runtime, &mla, NULL);
    BAD(ftl_mla_decode_prepare, c, NULL, &mla);
    BAD(ftl_mla_decode_prepare, c, runtime, &mla);
    BAD(ftl_mla_decode_workspace, c, NULL, &mla, &bytes);
    BAD(ftl_mla_decode_workspace, c, runtime, &mla, NULL);
    BAD(ftl_mla_decode_workspace, c, runtime, &mla, &bytes);
    ftl_append append = FTL_APPEND_INIT, no_append = {0};
    BAD(ftl_attention_append, c, NULL, &append, NULL);
    BAD(ftl_attention_append, c, runtime, NULL, NULL);
    BAD(ftl_attention_append, c, runtime, &no_append, NULL);
    BAD(ftl_attention_append, c, runtime, &append, NULL);
    BAD(ftl_attention_append_prepare, c, NULL, &append);
    BAD(ftl_attention_append_prepare, c, runtime, &append);
}

/* What an earlier call said of a program is not said again of a launch. */
static void diagnostics_of_earlier_calls(void **state) {
    (void)state;
    static const char wrong[] = "kernel wrong\nCompute Nothing X\n";
    const ftl_source source = {"wrong.tl", wrong, sizeof wrong - 1};
    assert_int_equal(ftl_check(c, &source, NULL), FTL_REJECTED);
    assert_true(ftl_context_error_count(c) > 0);
    BAD(ftl_module_launch, c, NULL, NULL, NULL);
    assert_int_equal(ftl_context_error_count(c), 0);
    char *text = ftl_context_diagnostics(c, FTL_DIAGNOSTICS_TEXT);
    assert_string_equal(text, "");
    ftl_free(text);
}

static void contexts_that_are_none(void **state) {
    (void)state;
    note("ftl_context_new");
    assert_int_equal(ftl_context_new(NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(CALL(ftl_context_error, NULL), "");
    assert_string_equal(CALL(ftl_context_take_warning, NULL), "");
    assert_int_equal(CALL(ftl_context_error_count, NULL), 0);
    assert_int_equal(CALL(ftl_context_warning_count, NULL), 0);
    char *text = CALL(ftl_context_diagnostics, c, (ftl_diagnostics_form)77);
    assert_non_null(text);
    CALL(ftl_free, text);
    ftl_free(NULL);
    CALL(ftl_context_warn, NULL, "%s", "nobody reads this");
    assert_int_equal(CALL(ftl_context_fail, NULL, FTL_QUOTA, "%s", "nor this"), FTL_QUOTA);
    CALL(ftl_context_free, NULL);
    assert_string_equal(CALL(ftl_status_name, (ftl_status)77), "UNKNOWN");
    assert_non_null(CALL(ftl_status_text, (ftl_status)77));
    note("ftl_version");
    assert_non_null(ftl_version());
}

/* --- are these all? --------------------------------------------------------------------------- */

static void check_header(void *context, const char *name) {
    char path[512], function[64];
    text_buffer text;
    os_error why;
    (void)context;
    snprintf(path, sizeof path, FLASHTL_SOURCE_FOLDER "/include/flashtl/%s", name);
    text_init(&text, 1 << 20);
    if (!os_read_file(path, 1 << 20, &text, &why)) fail_msg("%s", why.text);
    for (const char *at = text.data; (at = strstr(at, "\nFTL_API "));) {
        at += sizeof "\nFTL_API " - 1;
        const char *begin = strstr(at, "ftl_");
        for (const char *open = strchr(at, '('); begin && begin < open;) {
            size_t length = strcspn(begin, "( *");
            if (begin + length == open) {
                snprintf(function, sizeof function, "%.*s", (int)length, begin);
                bool is_called = false;
                for (int i = 0; i < called_count; i++)
                    is_called |= strcmp(called[i], function) == 0;
                if (!is_called) fail_msg("%s: %s is not called wrongly here", name, function);
            }
            begin = strstr(begin + 1, "ftl_");
        }
    }
    text_done(&text);
}

static void no_function_is_left_out(void **state) {
    (void)state;
    os_error why;
    assert_true(called_count > 70);
    assert_true(os_list_folder(FLASHTL_SOURCE_FOLDER "/include/flashtl", check_header, NULL, &why));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sources),
        cmocka_unit_test(options_of_all_kinds),
        cmocka_unit_test(gpus),
        cmocka_unit_test(plans),
        cmocka_unit_test(names_for_headers),
        cmocka_unit_test(machines),
        cmocka_unit_test(launches),
        cmocka_unit_test(runtimes),
        cmocka_unit_test(caches),
        cmocka_unit_test(attention),
        cmocka_unit_test(diagnostics_of_earlier_calls),
        cmocka_unit_test(contexts_that_are_none),
        cmocka_unit_test(no_function_is_left_out),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
