/* Any bytes: a program goes the whole way, to TL Code and CUDA for a GPU that its length chooses
 * and through the interpreter on small arrays, within a bounded time and without harm; and a
 * rejection has a diagnostic.
 */
#include "base/os.h"
#include "flashtl/execute.h"
#include "flashtl/flashtl.h"

#include <stdio.h>
#include <stdlib.h>

enum { TIME_MS_MAX = 20000, TENSORS_MAX = 16, ELEMENTS_MAX = 4096, BYTES_MAX = 65536 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static double now_ms(void) {
    return (double)os_cpu_time_ns() / 1e6; /* of this process, whatever else the machine does */
}

static void judge(const ftl_context *context, ftl_status status, const char *step) {
    bool has_errors = ftl_context_error_count(context) > 0;
    bool is_told = status == FTL_REJECTED || *ftl_context_error(context);
    if (status == FTL_OK ? !has_errors : is_told && (has_errors || status != FTL_REJECTED)) return;
    fprintf(stderr, "%s: status %d with %d diagnostics: %s\n", step, (int)status,
            (int)ftl_context_error_count(context), ftl_context_error(context));
    abort();
}

static void build(ftl_context *context, const ftl_source *source) {
    static const char *const gpus[] = {"t4", "a100", "h200"};
    static const ftl_pin pins[] = {{"d", "64"}, {"dv", "64"}};
    ftl_options options = {
        .gpu = gpus[source->length % 3], .dtype = FTL_F16, .pins = pins, .pin_count = 2};
    ftl_product *product = NULL;
    ftl_status status = ftl_build(context, source, &options, &product);
    judge(context, status, "build");
    ftl_product_free(product);
}

/* Lengths of 1 to 7, and arrays of numbers that are valid table elements, too. */
static void interpret(ftl_context *context, const ftl_source *source) {
    static uint64_t memory[TENSORS_MAX][ELEMENTS_MAX];
    ftl_plan *plan = NULL;
    ftl_status status = ftl_parameters(context, source, FTL_F32, &plan);
    judge(context, status, "parameters");
    if (status) return;
    int64_t sizes[64] = {0};
    for (int32_t i = 0; i < plan->size_count && i < 64; i++) sizes[i] = 1 + (i * 3 + 2) % 7;
    ftl_tensor tensors[TENSORS_MAX];
    bool fits = plan->tensor_count <= TENSORS_MAX;
    for (int32_t t = 0; fits && t < plan->tensor_count; t++) {
        const ftl_plan_tensor *wanted = &plan->tensors[t];
        ftl_tensor *tensor = &tensors[t];
        *tensor = (ftl_tensor){.name = wanted->name,
                               .address = (uintptr_t)memory[t],
                               .type = wanted->type,
                               .axis_count = wanted->axis_count};
        int64_t stride = 1;
        for (int32_t i = wanted->axis_count - 1; i >= 0; i--) {
            double extent = 0;
            fits &= ftl_formula_evaluate(&wanted->axes[i].extent, sizes, NULL, &extent) &&
                    extent >= 0 && extent <= ELEMENTS_MAX;
            tensor->extents[i] = fits ? (int64_t)extent : 0;
            tensor->strides[i] = stride;
            stride *= tensor->extents[i] > 0 ? tensor->extents[i] : 1;
            fits &= stride <= ELEMENTS_MAX;
        }
        for (int64_t i = 0; i < ELEMENTS_MAX; i++) memory[t][i] = 0;
    }
    ftl_scalar scalars[TENSORS_MAX];
    int32_t scalar_count = plan->scalar_count < TENSORS_MAX ? plan->scalar_count : TENSORS_MAX;
    for (int32_t i = 0; i < scalar_count; i++)
        scalars[i] = (ftl_scalar){plan->scalars[i].name, i % 2 ? 1 : 0.5};
    ftl_arguments arguments = {tensors, plan->tensor_count, scalars, scalar_count};
    if (fits) judge(context, ftl_interpret(context, source, FTL_ROUNDED, &arguments), "interpret");
    ftl_plan_free(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ftl_context *context;
    double start = now_ms();
    if (size > BYTES_MAX || ftl_context_new(&context) != FTL_OK) return 0;
    ftl_source source = {"fuzz", (const char *)data, size};
    build(context, &source);
    interpret(context, &source);
    ftl_context_free(context);
    double took = now_ms() - start;
    if (took > TIME_MS_MAX) {
        fprintf(stderr, "%zu bytes took %.0f ms\n", size, took);
        abort();
    }
    return 0;
}
