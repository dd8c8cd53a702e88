/* From an operator's name to the CUDA text of a kernel, and how it is launched, without a GPU:
 *
 *     cc make_kernel.c $(pkg-config --cflags --libs flashtl) -o make_kernel && ./make_kernel h200 >
 * gqa.cu
 */
#include <flashtl/flashtl.h>

#include <stdio.h>
#include <string.h>

static ftl_status make(ftl_context *context, const char *gpu) {
    char *sketch = NULL;
    ftl_product *product = NULL;
    const char *settings[] = {"gqa", "causal"};
    const ftl_pin pins[] = {{"d", "128"}, {"dv", "128"}};
    ftl_options options = FTL_OPTIONS_INIT;
    options.gpu = gpu, options.pins = pins, options.pin_count = 2;
    ftl_status status = ftl_sketch(context, "attention", settings, 2, &sketch);
    if (!status) {
        ftl_source source = {"gqa", sketch, strlen(sketch)};
        status = ftl_build(context, &source, &options, &product);
    }
    for (int32_t i = 0; !status && i < product->kernel_count; i++) {
        const ftl_plan *plan = product->kernels[i].plan;
        fputs(product->kernels[i].cuda, stdout);
        fprintf(stderr, "%s for %s: %d threads, %d bytes of shared memory\n", plan->entry,
                plan->gpu, (int)plan->threads, (int)plan->shared_bytes);
    }
    ftl_product_free(product);
    ftl_free(sketch);
    return status;
}

int main(int argc, char **argv) {
    ftl_context *context;
    if (ftl_context_new(&context)) return 1;
    ftl_status status = make(context, argc > 1 ? argv[1] : "a100");
    if (status) fprintf(stderr, "%s\n", ftl_context_error(context));
    ftl_context_free(context);
    return status != FTL_OK;
}
