/* What FlashTL adds around a kernel: the time to load one that is in the cache; and, for kernels of
 * warps and of warpgroups, the compiler's time, and the host time of a launch against the driver's
 * own cuLaunchKernelEx with parameters that are ready.
 *
 *     overhead FOLDER [GPU [HEAD_DIM]]     FOLDER: for the cache; the first run fills it
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

enum {
    ROUNDS = 41,
    LAUNCHES = 200,
    COMPILATIONS = 3,
    LENGTH = 64,
    HEAD_DIM_MAX = 256,
    TENSORS = 4,
    SHARED_ATTRIBUTE = 8, /* CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES */
};

/* CUlaunchConfig. */
typedef struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
} launch_config;

/* What a launch needs of the driver itself. */
typedef struct driver {
    int (*load)(void **module, const void *image);
    int (*get)(void **function, void *module, const char *name);
    int (*set)(void *function, int attribute, int value);
    int (*launch)(const launch_config *config, void *function, void **parameters, void **extra);
    int (*encode)(void *map, int type, uint32_t rank, void *address, const uint64_t *extents,
                  const uint64_t *stride_bytes, const uint32_t *box, const uint32_t *steps,
                  int interleave, int swizzle, int promotion, int fill);
} driver;

typedef struct bench {
    ftl_context *context;
    ftl_runtime *runtime;
    ftl_product *product;
    ftl_module *module;
    int head_dim;
    ftl_tensor tensors[TENSORS];
    ftl_scalar scale;
    ftl_arguments arguments;
    ftl_attention attention;
    uint64_t memory, counters;
    driver driver;
    launch_config config;
    void *function;
    ftl_launch resolved;
} bench;

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, ascending);
    return values[count / 2];
}

static void must(ftl_status status, ftl_context *context, const char *what) {
    if (status == FTL_OK) return;
    char *diagnostics = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
    fprintf(stderr, "%s: %s %s\n", what, ftl_context_error(context),
            diagnostics ? diagnostics : "");
    exit(3);
}

static void must_be(bool holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "%s failed\n", what);
    exit(3);
}

/* --- arguments -------------------------------------------------------------------------------- */

/* One head of 64 rows: the work is small, so that the queue never fills. After the four tensors,
 * room to move them by LAUNCHES lines.
 */
static void set_arguments(bench *b) {
    static const char *const names[] = {"Q", "K", "V", "O"};
    int64_t d = b->head_dim;
    size_t bytes = (size_t)(LENGTH * d * 2), room = (size_t)LAUNCHES * 128;
    must(ftl_device_allocate(b->context, b->runtime, TENSORS * bytes + room, &b->memory),
         b->context, "memory");
    for (int i = 0; i < TENSORS; i++) {
        b->tensors[i] = (ftl_tensor){.name = names[i],
                                     .address = b->memory + (size_t)i * bytes,
                                     .type = FTL_F16,
                                     .axis_count = 4,
                                     .extents = {1, 1, LENGTH, d},
                                     .strides = {LENGTH * d, LENGTH * d, d, 1}};
    }
    b->scale = (ftl_scalar){"scale", 0.125};
    b->arguments = (ftl_arguments){b->tensors, TENSORS, &b->scale, 1};
    ftl_attention a = FTL_ATTENTION_INIT;
    a.dtype = FTL_F16, a.batch = 1, a.q_len = a.kv_len = LENGTH, a.q_heads = a.kv_heads = 1;
    a.head_dim = d, a.scale = 0.125;
    ftl_attention_tensor *places[] = {&a.q, &a.k, &a.v, &a.o};
    for (int i = 0; i < TENSORS; i++) {
        *places[i] = (ftl_attention_tensor){b->tensors[i].address, LENGTH * d, d, LENGTH * d};
    }
    b->attention = a;
}

/* Other addresses for the n-th launch of a round. */
static void move_arguments(bench *b, int n) {
    for (int i = 0; i < TENSORS; i++) {
        uint64_t bytes = (uint64_t)(LENGTH * b->head_dim * 2);
        b->tensors[i].address = b->memory + (uint64_t)i * bytes + (uint64_t)n * 128;
    }
}

/* --- kernels ---------------------------------------------------------------------------------- */

static void build(bench *b, const char *gpu, bool has_warpgroups) {
    char *sketch, head_dim[16];
    snprintf(head_dim, sizeof head_dim, "%d", b->head_dim);
    must(ftl_sketch(b->context, "attention", NULL, 0, &sketch), b->context, "sketch");
    ftl_source source = {"attention", sketch, strlen(sketch)};
    /* As the attention call has it for so few rows. */
    ftl_pin pins[] = {
        {"d", head_dim}, {"dv", head_dim}, {"nominal_length", "1024"}, {"warpgroups", "0"}};
    ftl_options options = {.struct_bytes = sizeof(ftl_options),
                           .gpu = gpu,
                           .dtype = FTL_F16,
                           .pins = pins,
                           .pin_count = has_warpgroups ? 3 : 4};
    must(ftl_build(b->context, &source, &options, &b->product), b->context, "build");
    ftl_free(sketch);
}

static const ftl_plan *plan_of(const bench *b) {
    return b->product->kernels[0].plan;
}

/* The compiler's time, and its image into the driver as anyone would put it there. */
static double compile_ms(bench *b) {
    const ftl_plan *plan = plan_of(b);
    char target[64];
    double times[COMPILATIONS];
    ftl_image image;
    snprintf(target, sizeof target, "sm_%s", strchr(plan->target, '_') + 1);
    for (int i = 0; i < COMPILATIONS; i++) {
        double start = now_us();
        must(ftl_compile_cuda(b->context, b->runtime, b->product->kernels[0].cuda, "kernel.cu",
                              target, &image),
             b->context, "compile");
        times[i] = (now_us() - start) * 1e-3;
        if (i + 1 < COMPILATIONS) ftl_image_done(&image);
    }
    void *module;
    must_be(b->driver.load(&module, image.bytes) == 0, "cuModuleLoadData");
    must_be(b->driver.get(&b->function, module, plan->entry) == 0, "cuModuleGetFunction");
    must_be(b->driver.set(b->function, SHARED_ATTRIBUTE, plan->shared_bytes) == 0,
            "cuFuncSetAttribute");
    printf("  %s: %d registers, %d bytes spilled\n", image.compiler, image.registers,
           image.spill_bytes);
    ftl_image_done(&image);
    return median(times, COMPILATIONS);
}

/* Parameters as the driver takes them: resolved, with tensor maps and counters. */
static void prepare(bench *b) {
    const ftl_plan *plan = plan_of(b);
    static const uint32_t steps[FTL_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    char why[FTL_WHY_BYTES];
    ftl_launch *r = &b->resolved;
    must_be(ftl_plan_resolve(plan, &b->arguments, r, why), "ftl_plan_resolve");
    for (int i = 0; i < r->map_count; i++) {
        const ftl_tensor_map *m = &r->maps[i];
        _Alignas(64) unsigned char map[FTL_MAP_BYTES];
        int swizzle = 0; /* 32, 64, 128 bytes: 1, 2, 3 */
        for (int bytes = m->swizzle_bytes; bytes > 16; bytes /= 2) swizzle++;
        int result = b->driver.encode(map, 6, (uint32_t)m->rank, (void *)(uintptr_t)m->address,
                                      m->extents, m->stride_bytes, m->box, steps, 0, swizzle, 3, 0);
        must_be(result == 0, "cuTensorMapEncodeTiled");
        memcpy(r->parameters + m->offset, map, sizeof map);
    }
    if (plan->grid_kind == FTL_GRID_DYNAMIC) {
        static const uint32_t zeros[2];
        must(ftl_device_allocate(b->context, b->runtime, sizeof zeros, &b->counters), b->context,
             "counters");
        must(ftl_device_write(b->context, b->runtime, b->counters, zeros, sizeof zeros), b->context,
             "counters");
        memcpy(r->parameters + plan->counters_offset, &b->counters, sizeof b->counters);
    }
    b->config = (launch_config){.grid = {r->grid, 1, 1},
                                .block = {(unsigned)plan->threads, 1, 1},
                                .shared_bytes = (unsigned)plan->shared_bytes};
}

/* --- launches --------------------------------------------------------------------------------- */

typedef void launch_once(bench *b, int n);

static void by_driver(bench *b, int n) {
    (void)n;
    void *parameters[] = {b->resolved.parameters};
    must_be(b->driver.launch(&b->config, b->function, parameters, NULL) == 0, "cuLaunchKernelEx");
}

static void by_module(bench *b, int n) {
    (void)n;
    must(ftl_module_launch(b->context, b->module, &b->arguments, NULL), b->context, "launch");
}

static void by_module_elsewhere(bench *b, int n) {
    move_arguments(b, n);
    by_module(b, n);
}

static void by_attention(bench *b, int n) {
    (void)n;
    must(ftl_attention_forward(b->context, b->runtime, &b->attention, NULL), b->context, "launch");
}

static double launch_us(bench *b, launch_once *launch) {
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start = now_us();
        for (int i = 0; i < LAUNCHES; i++) launch(b, i);
        times[round] = (now_us() - start) / LAUNCHES;
        must(ftl_stream_wait(b->context, b->runtime, NULL, 10000), b->context, "wait");
    }
    move_arguments(b, 0);
    return median(times, ROUNDS);
}

static void measure(bench *b, const char *gpu, bool has_warpgroups) {
    build(b, gpu, has_warpgroups);
    const ftl_plan *plan = plan_of(b);
    printf("%s for %s: d %d, %d threads, %d tensor maps\n", plan->entry, plan->target, b->head_dim,
           plan->threads, plan->map_count);
    printf("  compile: %.0f ms\n", compile_ms(b));
    must(ftl_module_load(b->context, b->runtime, plan, b->product->kernels[0].cuda, &b->module),
         b->context, "load");
    prepare(b);
    double raw = launch_us(b, by_driver), module = launch_us(b, by_module);
    double elsewhere = launch_us(b, by_module_elsewhere);
    printf("  cuLaunchKernelEx: %.2f us; ftl_module_launch: %.2f us (+%.2f), with other tensors "
           "each time %.2f us (+%.2f)\n",
           raw, module, module - raw, elsewhere, elsewhere - raw);
    if (has_warpgroups) { /* what the call takes for this GPU itself */
        double attention = launch_us(b, by_attention);
        printf("  ftl_attention_forward: %.2f us (+%.2f)\n", attention, attention - raw);
    }
    ftl_module_free(b->module);
    ftl_product_free(b->product);
    if (b->counters) ftl_device_free(b->runtime, b->counters);
    b->counters = 0;
}

static void open_driver(driver *d) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    must_be(library, "opening libcuda.so.1");
    *(void **)&d->load = dlsym(library, "cuModuleLoadData");
    *(void **)&d->get = dlsym(library, "cuModuleGetFunction");
    *(void **)&d->set = dlsym(library, "cuFuncSetAttribute");
    *(void **)&d->launch = dlsym(library, "cuLaunchKernelEx");
    *(void **)&d->encode = dlsym(library, "cuTensorMapEncodeTiled");
    must_be(d->load && d->get && d->set && d->launch && d->encode, "finding the driver's calls");
}

/* From the start of the process to the first launch. */
static void start(bench *b, const char *folder, double start_us) {
    must(ftl_context_new(&b->context), b->context, "context");
    ftl_runtime_options options = {.struct_bytes = sizeof options, .cache_folder = folder};
    must(ftl_runtime_open(b->context, &options, &b->runtime), b->context, "runtime");
    double before_context = now_us();
    must(ftl_device_use(b->context, b->runtime, 0), b->context, "device");
    double after_context = now_us();
    set_arguments(b);
    double prepared = now_us();
    must(ftl_attention_forward(b->context, b->runtime, &b->attention, NULL), b->context,
         "first launch");
    double launched = now_us();
    printf("start to first launch, without the CUDA context: %.2f ms (context: %.0f ms; the call "
           "itself: %.2f ms)\n",
           (before_context - start_us + launched - after_context) * 1e-3,
           (after_context - before_context) * 1e-3, (launched - prepared) * 1e-3);
}

int main(int argc, char **argv) {
    double start_us = now_us();
    static bench b;
    b.head_dim = argc > 3 ? atoi(argv[3]) : 128;
    if (argc < 2 || b.head_dim < 8 || b.head_dim > HEAD_DIM_MAX) {
        fprintf(stderr, "usage: overhead CACHE_FOLDER [GPU [HEAD_DIM]]\n");
        return 2;
    }
    start(&b, argv[1], start_us);
    open_driver(&b.driver);
    const char *gpu = argc > 2 ? argv[2] : "h200";
    measure(&b, gpu, false);
    measure(&b, gpu, true);
    ftl_device_free(b.runtime, b.memory);
    ftl_runtime_close(b.runtime);
    ftl_context_free(b.context);
    return 0;
}
