/* The last rung of the judgement, on a GPU that is none: kernels that are right wherever there is
 * no GPU and cheat on it. Each must be found out, and the honest one must pass.
 */
#include "base/convert.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/runtime.h"
#include "think/judge.h"
#include "think/record.h"

#include <stdlib.h>
#include <string.h>

static const char *const SKETCH = "kernel scaled\n"
                                  "Input  A (i in n, j in m)\n"
                                  "Input  factor f32\n"
                                  "Output B (i in n, j in m)\n"
                                  "Copy A from global to register\n"
                                  "Compute Multiply A, factor and get B\n"
                                  "Copy B from register to global\n";

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static ftl_runtime *runtime;
static ftl_product *product;
static char *ptx;

/* --- what kernels do on the GPU --------------------------------------------------------------- */

enum { CANDIDATE = 1 }; /* the first module that is loaded; the second is the built-in agent's */

typedef enum conduct {
    HONEST,
    WRITES_BESIDE, /* an element behind the last row */
    WRITES_AN_INPUT,
    LEAVES_A_ROW,   /* unwritten: what stood there before */
    REPEATS_ITSELF, /* the first launch's results, whatever the inputs are */
    IS_UNSTEADY,    /* other bits in every other launch */
    IS_IDLE_WHEN_LONG,
    IS_WRONG_LATER, /* once it was timed */
    CONDUCTS
} conduct;

typedef struct gpu {
    conduct conduct;
    int launches; /* of the candidate */
    double launch_ms;
    bool was_timed;
    uint16_t first; /* the element that its first launch wrote */
} gpu;

static int64_t number_at(const unsigned char *parameters, int32_t offset, int64_t otherwise) {
    int64_t value;
    if (offset < 0) return otherwise;
    memcpy(&value, parameters + offset, sizeof value);
    return value;
}

static int32_t size_at(const unsigned char *parameters, const char *name) {
    const ftl_plan *plan = product->kernels[0].plan;
    int32_t value = 0;
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (strcmp(plan->sizes[i].name, name) == 0)
            memcpy(&value, parameters + plan->sizes[i].offset, sizeof value);
    }
    return value;
}

static uint16_t *element(const ftl_plan_tensor *t, const unsigned char *parameters, int64_t row,
                         int64_t column) {
    uint16_t *base = (uint16_t *)(uintptr_t)number_at(parameters, t->pointer_offset, 0);
    int64_t along_rows = number_at(parameters, t->axes[0].stride_offset, 1);
    int64_t along_columns = number_at(parameters, t->axes[1].stride_offset, 1);
    return base + row * along_rows + column * along_columns;
}

static void cheat(gpu *g, const unsigned char *parameters, int32_t rows, int32_t columns) {
    const ftl_plan *plan = product->kernels[0].plan;
    uint16_t *last = element(&plan->tensors[1], parameters, rows - 1, columns - 1);
    uint16_t *top = element(&plan->tensors[1], parameters, 0, 0);
    switch (g->conduct) {
    case WRITES_BESIDE: last[8] = 0; break;
    case WRITES_AN_INPUT: *element(&plan->tensors[0], parameters, 0, 0) ^= 1; break;
    case REPEATS_ITSELF:
        if (g->launches == 1) g->first = *top;
        *top = g->first;
        break;
    case IS_UNSTEADY: *last = (uint16_t)(*last ^ (g->launches % 2)); break;
    case IS_WRONG_LATER:
        g->was_timed |= rows > 1000;
        if (g->was_timed && rows < 1000) *top ^= 0x4000;
        break;
    default: break;
    }
}

static void on_launch(void *user, const unsigned char *parameters) {
    gpu *g = user;
    const ftl_plan *plan = product->kernels[0].plan;
    bool is_candidate = driver->module == CANDIDATE;
    int32_t rows = size_at(parameters, "n"), columns = size_at(parameters, "m");
    float factor;
    memcpy(&factor, parameters + plan->scalars[0].offset, sizeof factor);
    driver->clock_ms += g->launch_ms;
    g->launches += is_candidate;
    if (is_candidate && g->conduct == IS_IDLE_WHEN_LONG && rows > 1000) return;
    for (int32_t i = 0; i < rows; i++) {
        if (is_candidate && g->conduct == LEAVES_A_ROW && i == rows / 2) continue;
        for (int32_t j = 0; j < columns; j++) {
            double value =
                convert_from_bits(CONVERT_F16, *element(&plan->tensors[0], parameters, i, j));
            *element(&plan->tensors[1], parameters, i, j) =
                (uint16_t)convert_to_bits(CONVERT_F16, (double)(float)(value * (double)factor));
        }
    }
    if (is_candidate) cheat(g, parameters, rows, columns);
}

/* --- judging ---------------------------------------------------------------------------------- */

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_source source = {"scaled", SKETCH, strlen(SKETCH)};
    ftl_options options = {.gpu = "a100", .dtype = FTL_F16};
    assert_int_equal(ftl_build(context, &source, &options, &product), FTL_OK);
    const ftl_kernel *kernel = &product->kernels[0];
    ftl_runtime_options own = {.cuda_library = FAKE_CUDA, .nvrtc_library = ""};
    ftl_image image;
    assert_int_equal(ftl_runtime_open(context, &own, &runtime), FTL_OK);
    ftl_status status =
        ftl_compile_cuda(context, runtime, kernel->cuda, "kernel.cu", kernel->plan->target, &image);
    ftl_runtime_close(runtime);
    if (status == FTL_NO_COMPILER) return 0; /* the tests are skipped */
    assert_int_equal(status, FTL_OK);
    assert_int_equal(image.kind, FTL_PTX);
    ptx = image.bytes;
    image.bytes = NULL;
    ftl_image_done(&image);
    ftl_runtime_options fake = {.cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    assert_int_equal(ftl_runtime_open(context, &fake, &runtime), FTL_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    if (ptx) ftl_runtime_close(runtime);
    free(ptx);
    ftl_product_free(product);
    ftl_context_free(context);
    return 0;
}

/* The kernel's text is the built-in one; what it does on the GPU is not. */
static void judge(gpu *g, judge_verdict *verdict) {
    if (!ptx) skip();
    *driver = (fake_record){.capability = 80,
                            .device_count = 1,
                            .driver_version = 13000,
                            .parameter_bytes = (size_t)product->kernels[0].plan->parameter_bytes,
                            .on_launch = on_launch,
                            .user = g,
                            .clock_ms = 1};
    *compiler = (fake_compiler){.major = 13, .ptx = ptx};
    if (g->launch_ms <= 0) g->launch_ms = 0.5;
    ftl_options options = {.gpu = "a100", .dtype = FTL_F16};
    judge_task task = {.options = &options,
                       .seed = 3,
                       .highest = THINK_RUNG_GPU,
                       .has_gpu = true,
                       .runtime = runtime};
    const char *cuda = product->kernels[0].cuda;
    assert_int_equal(judge_cuda(context, &task, SKETCH, product, str_from(cuda), verdict), FTL_OK);
}

static char *said(const judge_verdict *verdict) {
    return json_dumps(verdict->findings, JSON_COMPACT);
}

static void honest_kernels_pass(void **state) {
    (void)state;
    gpu g = {.conduct = HONEST};
    judge_verdict verdict;
    judge(&g, &verdict);
    char *findings = said(&verdict);
    assert_string_equal(findings, "[]");
    assert_true(verdict.passed && verdict.rung == THINK_RUNG_GPU);
    assert_true(verdict.tflops > 0);
    free(findings);
    judge_done(&verdict);
}

static void cheats_are_found(void **state) {
    (void)state;
    static const char *const words[CONDUCTS] = {
        [WRITES_BESIDE] = "B",
        [WRITES_AN_INPUT] = "the Input 'A'",
        [LEAVES_A_ROW] = "not written",
        [REPEATS_ITSELF] = "B:",
        [IS_UNSTEADY] = "differ between two launches",
        [IS_IDLE_WHEN_LONG] = "while it is timed",
        [IS_WRONG_LATER] = "B:",
    };
    for (int i = WRITES_BESIDE; i < CONDUCTS; i++) {
        gpu g = {.conduct = (conduct)i};
        judge_verdict verdict;
        judge(&g, &verdict);
        char *findings = said(&verdict);
        bool is_found = !verdict.passed && verdict.rung == THINK_RUNG_GPU &&
                        strstr(findings, words[i]) && verdict.tflops >= 0;
        if (!is_found) fail_msg("conduct %d is not found: %s", i, findings);
        free(findings);
        judge_done(&verdict);
    }
}

static void no_speed_above_what_a_gpu_can_do(void **state) {
    (void)state;
    gpu g = {.conduct = HONEST, .launch_ms = 1e-9};
    judge_verdict verdict;
    judge(&g, &verdict);
    assert_true(verdict.passed);
    assert_true(verdict.tflops == 0);
    assert_non_null(strstr(json_text(verdict.facts, "untimed"), "more than this GPU can do"));
    judge_done(&verdict);
}

static void faults_end_a_kernel_not_the_run(void **state) {
    (void)state;
    gpu g = {.conduct = HONEST};
    judge_verdict verdict;
    if (!ptx) skip();
    judge(&g, &verdict);
    judge_done(&verdict);
    driver->launch_result = 700;
    ftl_options options = {.gpu = "a100", .dtype = FTL_F16};
    judge_task task = {.options = &options,
                       .seed = 3,
                       .highest = THINK_RUNG_GPU,
                       .has_gpu = true,
                       .runtime = runtime};
    const char *cuda = product->kernels[0].cuda;
    assert_int_equal(judge_cuda(context, &task, SKETCH, product, str_from(cuda), &verdict), FTL_OK);
    char *findings = said(&verdict);
    assert_false(verdict.passed);
    assert_int_equal(verdict.rung, THINK_RUNG_GPU);
    assert_non_null(strstr(findings, "illegal memory access"));
    free(findings);
    judge_done(&verdict);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_kernels_pass),
        cmocka_unit_test(cheats_are_found),
        cmocka_unit_test(no_speed_above_what_a_gpu_can_do),
        cmocka_unit_test(faults_end_a_kernel_not_the_run),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
