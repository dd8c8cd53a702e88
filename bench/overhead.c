/* What FlashTL adds around a kernel: the time to load one that is in the cache, and the host time
 * of a launch against the driver's own cuLaunchKernel with the same parameters.
 *
 *     overhead FOLDER [GPU]     FOLDER: for the cache; the first run fills it
 *
 * Needs a GPU. Prints one line per figure; times are the median of rounds.
 */
#define _POSIX_C_SOURCE 200809L
#include "flashtl/attention.h"
#include "flashtl/flashtl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 41, LAUNCHES = 200, LENGTH = 64, HEAD_DIM = 64 };

typedef int launch_function(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                            unsigned, void *, void **, void **);
typedef int load_function(void **, const void *);
typedef int get_function(void **, void *, const char *);

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values) {
    qsort(values, ROUNDS, sizeof *values, ascending);
    return values[ROUNDS / 2];
}

static void must(ftl_status status, ftl_context *context, const char *what) {
    if (status == FTL_OK) return;
    char *diagnostics = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
    fprintf(stderr, "%s: %s %s\n", what, ftl_context_error(context),
            diagnostics ? diagnostics : "");
    exit(3);
}

typedef struct bench {
    ftl_context *context;
    ftl_runtime *runtime;
    ftl_product *product;
    ftl_module *module;
    ftl_tensor tensors[4];
    ftl_scalar scale;
    ftl_arguments arguments;
    ftl_attention attention;
    uint64_t memory;
} bench;

/* One head of 64 x 64: the work is small, so that the queue never fills. */
static void set_arguments(bench *b) {
    static const char *const names[] = {"Q", "K", "V", "O"};
    size_t bytes = LENGTH * HEAD_DIM * 2;
    must(ftl_device_allocate(b->context, b->runtime, 4 * bytes, &b->memory), b->context, "memory");
    for (int i = 0; i < 4; i++) {
        b->tensors[i] =
            (ftl_tensor){.name = names[i],
                         .address = b->memory + (size_t)i * bytes,
                         .type = FTL_F16,
                         .axis_count = 4,
                         .extents = {1, 1, LENGTH, HEAD_DIM},
                         .strides = {LENGTH * HEAD_DIM, LENGTH * HEAD_DIM, HEAD_DIM, 1}};
    }
    b->scale = (ftl_scalar){"scale", 0.125};
    b->arguments = (ftl_arguments){b->tensors, 4, &b->scale, 1};
    ftl_attention a = FTL_ATTENTION_INIT;
    a.dtype = FTL_F16, a.batch = 1, a.q_len = a.kv_len = LENGTH, a.q_heads = a.kv_heads = 1;
    a.head_dim = HEAD_DIM, a.scale = 0.125;
    ftl_attention_tensor *places[] = {&a.q, &a.k, &a.v, &a.o};
    for (int i = 0; i < 4; i++) {
        *places[i] = (ftl_attention_tensor){b->tensors[i].address, LENGTH * HEAD_DIM, HEAD_DIM,
                                            LENGTH * HEAD_DIM};
    }
    b->attention = a;
}

static void build(bench *b, const char *gpu) {
    char *sketch, head_dim[] = "64";
    must(ftl_sketch(b->context, "attention", NULL, 0, &sketch), b->context, "sketch");
    ftl_source source = {"attention", sketch, strlen(sketch)};
    ftl_pin pins[] = {{"d", head_dim}, {"dv", head_dim}};
    ftl_options options = {.gpu = gpu, .dtype = FTL_F16, .pins = pins, .pin_count = 2};
    must(ftl_build(b->context, &source, &options, &b->product), b->context, "build");
    ftl_free(sketch);
}

typedef ftl_status launch_once(bench *b);

static ftl_status by_module(bench *b) {
    return ftl_module_launch(b->context, b->module, &b->arguments, NULL);
}

static ftl_status by_attention(bench *b) {
    return ftl_attention_forward(b->context, b->runtime, &b->attention, NULL);
}

static double launch_us(bench *b, launch_once *launch) {
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_us();
        for (int i = 0; i < LAUNCHES; i++) must(launch(b), b->context, "launch");
        times[round] = (now_us() - start) / LAUNCHES;
        must(ftl_stream_wait(b->context, b->runtime, NULL, 10000), b->context, "wait");
    }
    return median(times);
}

static double raw_launch_us(bench *b) {
    const ftl_plan *plan = b->product->kernels[0].plan;
    char target[64], why[FTL_WHY_BYTES];
    snprintf(target, sizeof target, "sm_%s", strchr(plan->target, '_') + 1);
    ftl_image image;
    must(ftl_compile_cuda(b->context, b->runtime, b->product->kernels[0].cuda, "kernel", target,
                          &image),
         b->context, "compile");
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver) exit(3);
    load_function *load;
    get_function *get;
    launch_function *launch;
    *(void **)&load = dlsym(driver, "cuModuleLoadData");
    *(void **)&get = dlsym(driver, "cuModuleGetFunction");
    *(void **)&launch = dlsym(driver, "cuLaunchKernel");
    void *module, *function;
    static ftl_launch resolved;
    bool is_ready = load(&module, image.bytes) == 0 && get(&function, module, plan->entry) == 0 &&
                    ftl_plan_resolve(plan, &b->arguments, &resolved, why);
    if (!is_ready) exit(3);
    void *parameters[] = {resolved.parameters};
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_us();
        for (int i = 0; i < LAUNCHES; i++) {
            if (launch(function, resolved.grid, 1, 1, (unsigned)plan->threads, 1, 1,
                       (unsigned)plan->shared_bytes, NULL, parameters, NULL))
                exit(3);
        }
        times[round] = (now_us() - start) / LAUNCHES;
        must(ftl_stream_wait(b->context, b->runtime, NULL, 10000), b->context, "wait");
    }
    ftl_image_done(&image);
    return median(times);
}

int main(int argc, char **argv) {
    double start = now_us();
    if (argc < 2) {
        fprintf(stderr, "usage: overhead CACHE_FOLDER [GPU]\n");
        return 2;
    }
    bench b = {0};
    must(ftl_context_new(&b.context), b.context, "context");
    ftl_runtime_options options = {.cache_folder = argv[1]};
    must(ftl_runtime_open(b.context, &options, &b.runtime), b.context, "runtime");
    double before_context = now_us();
    must(ftl_device_use(b.context, b.runtime, 0), b.context, "device");
    double after_context = now_us();
    set_arguments(&b);
    must(ftl_attention_forward(b.context, b.runtime, &b.attention, NULL), b.context,
         "first launch");
    double launched = now_us();
    printf("start to first launch, without the CUDA context: %.2f ms (context: %.0f ms)\n",
           (before_context - start + launched - after_context) * 1e-3,
           (after_context - before_context) * 1e-3);
    build(&b, argc > 2 ? argv[2] : "h200");
    must(ftl_module_load(b.context, b.runtime, b.product->kernels[0].plan,
                         b.product->kernels[0].cuda, &b.module),
         b.context, "load");
    double raw = raw_launch_us(&b), module = launch_us(&b, by_module);
    double attention = launch_us(&b, by_attention);
    printf("cuLaunchKernel: %.2f us; ftl_module_launch: %.2f us (+%.2f); ftl_attention_forward: "
           "%.2f us "
           "(+%.2f)\n",
           raw, module, module - raw, attention, attention - raw);
    ftl_module_free(b.module);
    ftl_product_free(b.product);
    ftl_device_free(b.runtime, b.memory);
    ftl_runtime_close(b.runtime);
    ftl_context_free(b.context);
    return 0;
}
