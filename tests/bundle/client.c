/* Bundles on the driver without a GPU: which kernel is chosen, and that a launch by a bundle hands
 * the driver the bytes that a launch by the library does. Three bundles are in this program.
 * client FOLDER: that of `flashtl build --bundle`.
 */
#include "big.h"
#include "few.h"
#include "small.h"

#include "fake_cuda.h"
#include "flashtl/runtime.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static fake_record *fake;
static int failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            printf("line %d: %s does not hold: %s\n", __LINE__, #condition, why);                  \
        }                                                                                          \
    } while (0)

static void become(const char *name, int capability) {
    fake->device_name = name;
    fake->capability = capability;
}

/* --- what the library does with the same kernel ------------------------------------------------
 */

static ftl_context *context;
static ftl_runtime *runtime;
static const char *folder;

static char *read_file(const char *name, const char *ending, size_t *length) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, ending);
    FILE *file = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 20);
    if (!file || !bytes) exit(3);
    *length = fread(bytes, 1, (1 << 20) - 1, file);
    fclose(file);
    return bytes;
}

static ftl_module *load(const char *name) {
    size_t length;
    char why[FTL_WHY_BYTES] = "", *facts = read_file(name, ".json", &length);
    char *start = strstr(facts, "\"plan\": "), *end = strrchr(facts, '}');
    ftl_plan *plan = ftl_plan_read(start + 8, (size_t)(end - start - 8), why);
    if (!plan) {
        printf("%s: %s\n", name, why);
        exit(3);
    }
    free(facts);
    char *image = read_file(name, ".cubin", &length);
    ftl_module *module = NULL;
    if (ftl_module_load_image(context, runtime, plan, image, length, &module)) exit(3);
    fake->parameter_bytes = (size_t)plan->parameter_bytes; /* those that a launch sets */
    free(image);
    ftl_plan_free(plan);
    return module;
}

typedef struct launched {
    unsigned grid, threads, shared_bytes;
    int launches;
    unsigned char parameters[4096];
} launched;

static launched taken(void) {
    launched l = {fake->grid, fake->threads, fake->shared_bytes, fake->launches, {0}};
    memcpy(l.parameters, fake->parameters, sizeof l.parameters);
    fake->launches = 0;
    fake->grid = fake->threads = fake->shared_bytes = 0;
    memset(fake->parameters, 0, sizeof fake->parameters);
    return l;
}

/* Addresses of memory that each loader has of its own. */
static void forget(const ftl_plan *plan, launched *l) {
    if (plan->grid_kind == FTL_GRID_DYNAMIC) {
        uint64_t address;
        uint32_t counters[2];
        memcpy(&address, l->parameters + plan->counters_offset, sizeof address);
        memcpy(counters, (const void *)(uintptr_t)address, sizeof counters);
        if (counters[0] || counters[1]) l->grid = 0;
        memset(l->parameters + plan->counters_offset, 0, 8);
    }
}

/* --- attention, through both -------------------------------------------------------------------
 */

enum { D_MOST = 128 };
typedef struct shape {
    int64_t batch, heads, groups, q_len, kv_len, d;
} shape;

static uint64_t memory;

static void lay_out(int64_t d, int64_t heads, int64_t length, int64_t batch, int64_t extents[8],
                    int64_t strides[8]) {
    int64_t e[] = {batch, heads, length, d}, s[] = {length * heads * d, d, heads * d, 1};
    memset(extents, 0, 8 * sizeof *extents);
    memset(strides, 0, 8 * sizeof *strides);
    memcpy(extents, e, sizeof e);
    memcpy(strides, s, sizeof s);
}

static ftl_status by_library(const char *kernel, const shape *s, double scale, void *stream,
                             launched *out) {
    ftl_module *module = load(kernel);
    ftl_tensor tensors[4] = {{.name = "Q"}, {.name = "K"}, {.name = "V"}, {.name = "O"}};
    for (int i = 0; i < 4; i++) {
        bool is_key = i == 1 || i == 2;
        lay_out(s->d, is_key ? s->heads / s->groups : s->heads, is_key ? s->kv_len : s->q_len,
                s->batch, tensors[i].extents, tensors[i].strides);
        tensors[i].type = FTL_F16, tensors[i].axis_count = 4;
        tensors[i].address = memory + (uint64_t)i * 4096;
    }
    ftl_scalar scalar = {"scale", scale};
    ftl_arguments arguments = {tensors, 4, &scalar, 1};
    taken();
    ftl_status status = ftl_module_launch(context, module, &arguments, stream);
    *out = taken();
    if (out->launches) forget(ftl_module_plan(module), out);
    ftl_module_free(module);
    return status;
}

#define BY_BUNDLE(bundle)                                                                          \
    static void fill_##bundle(const shape *s, double scale, bundle##_arguments *a) {               \
        bundle##_tensor *tensors[] = {&a->Q, &a->K, &a->V, &a->O};                                 \
        memset(a, 0, sizeof *a);                                                                   \
        for (int i = 0; i < 4; i++) {                                                              \
            bool is_key = i == 1 || i == 2;                                                        \
            lay_out(s->d, is_key ? s->heads / s->groups : s->heads, is_key ? s->kv_len : s->q_len, \
                    s->batch, tensors[i]->extents, tensors[i]->strides);                           \
            tensors[i]->address = memory + (uint64_t)i * 4096;                                     \
        }                                                                                          \
        a->scale = scale;                                                                          \
    }                                                                                              \
    /* A launch by the bundle and by the library: the same, refused in the same words. */          \
    static void compare_##bundle(bundle##_kernels *kernels, shape s, double scale, void *stream) { \
        char why[bundle##_WHY_BYTES], kernel[128];                                                 \
        bundle##_arguments a;                                                                      \
        launched ours, theirs;                                                                     \
        snprintf(kernel, sizeof kernel, #bundle "_%s", bundle##_gpu(kernels));                     \
        ftl_status wanted = by_library(kernel, &s, scale, stream, &theirs);                        \
        fill_##bundle(&s, scale, &a);                                                              \
        int status = (int)bundle##_launch(kernels, &a, stream, why);                               \
        ours = taken();                                                                            \
        ftl_module *module = load(kernel);                                                         \
        if (ours.launches) forget(ftl_module_plan(module), &ours);                                 \
        ftl_module_free(module);                                                                   \
        taken();                                                                                   \
        EXPECT(status == (int)wanted);                                                             \
        EXPECT(!status || strcmp(why, ftl_context_error(context)) == 0);                           \
        EXPECT(memcmp(&ours, &theirs, sizeof ours) == 0);                                          \
        if (!status && s.kv_len) EXPECT(ours.launches == (s.batch * s.q_len > 0));                 \
    }                                                                                              \
    static void walk_##bundle(const char *name, int capability, const char *gpu, int64_t d) {      \
        char why[bundle##_WHY_BYTES] = "";                                                         \
        bundle##_kernels *kernels;                                                                 \
        become(name, capability);                                                                  \
        EXPECT(bundle##_open(&kernels, why) == bundle##_OK);                                       \
        if (!kernels) return;                                                                      \
        printf("%s on %s: %s, %s\n", #bundle, name, bundle##_gpu(kernels), fake->image);           \
        EXPECT(strcmp(bundle##_gpu(kernels), gpu) == 0);                                           \
        void *streams[] = {NULL, (void *)2, (void *)0x1000, (void *)0x1000};                       \
        for (int i = 0; i < 4; i++) {                                                              \
            compare_##bundle(kernels, (shape){2, 8, 4, 300, 300, d}, 0.125, streams[i]);           \
            compare_##bundle(kernels, (shape){1, 6, 6, 1, 70000, d}, 1, streams[i]);               \
        }                                                                                          \
        compare_##bundle(kernels, (shape){64, 32, 1, 5000, 5000, d}, 1, NULL);                     \
        compare_##bundle(kernels, (shape){0, 8, 4, 300, 300, d}, 1, NULL);                         \
        compare_##bundle(kernels, (shape){2, 8, 4, 0, 300, d}, 1, NULL);                           \
        compare_##bundle(kernels, (shape){2, 8, 4, 30, 300, d + 8}, 1, NULL);                      \
        compare_##bundle(kernels, (shape){2, 8, 3, 30, 300, d}, 1, NULL);                          \
        compare_##bundle(kernels, (shape){2, 8, 4, -3, 300, d}, 1, NULL);                          \
        compare_##bundle(kernels, (shape){2, 8, 4, 30, 300, d}, -1, NULL);                         \
        compare_##bundle(kernels, (shape){2, 8, 4, 30, 300, d}, 1e300, NULL);                      \
        memory += 8;                                                                               \
        compare_##bundle(kernels, (shape){2, 8, 4, 30, 300, d}, 1, NULL);                          \
        memory -= 8;                                                                               \
        bundle##_close(kernels);                                                                   \
    }
BY_BUNDLE(small)
BY_BUNDLE(big)

/* --- what a bundle alone decides ---------------------------------------------------------------
 */

static void no_kernel_fits(void) {
    char why[small_WHY_BYTES] = "";
    small_kernels *kernels = (small_kernels *)&failures;
    int loads = fake->loads, allocations = fake->allocations;
    static const struct {
        const char *name;
        int capability;
    } others[] = {{"NVIDIA V100", 70}, {"NVIDIA B200", 100}, {"NVIDIA RTX 5090", 120}};
    for (int i = 0; i < 3; i++) {
        become(others[i].name, others[i].capability);
        EXPECT(small_open(&kernels, why) == small_NO_KERNEL);
        EXPECT(!kernels && fake->loads == loads && fake->allocations == allocations);
        printf("%s\n", why);
    }
    EXPECT(small_open(&kernels, NULL) == small_NO_KERNEL);
    EXPECT(small_open(NULL, why) == small_INVALID_ARGUMENT);
    EXPECT(small_launch(NULL, NULL, NULL, why) == small_INVALID_ARGUMENT);
}

static void the_driver_fails(void) {
    char why[small_WHY_BYTES] = "";
    small_kernels *kernels;
    small_arguments a;
    shape s = {2, 8, 4, 30, 300, 64};
    become("NVIDIA H200", 90);
    int allocations = fake->allocations, alive = fake->loads - fake->unloads;
    fake->load_result = 209;
    EXPECT(small_open(&kernels, why) == small_DRIVER_FAILED && !kernels);
    printf("%s\n", why);
    fake->load_result = 0, fake->allocate_result = 2;
    EXPECT(small_open(&kernels, why) == small_DRIVER_FAILED && !kernels);
    fake->allocate_result = 0;
    EXPECT(small_open(&kernels, why) == small_OK);
    fill_small(&s, 1, &a);
    fake->launch_result = 700;
    EXPECT(small_launch(kernels, &a, NULL, why) == small_DRIVER_FAILED);
    printf("%s\n", why);
    fake->launch_result = 0, fake->encode_result = 1;
    EXPECT(small_launch(kernels, &a, NULL, why) == small_DRIVER_FAILED);
    fake->encode_result = 0;
    EXPECT(small_launch(kernels, &a, NULL, NULL) == small_OK);
    small_close(kernels);
    small_close(NULL);
    EXPECT(fake->allocations == allocations && fake->loads - fake->unloads == alive);
}

static fake_graph *of_any_stream(void *user, void *stream) {
    (void)stream;
    return user;
}

/* Keys of length 0: the maps are of zeros. While a stream is captured, each tile has a block. */
static void empty_and_captured(void) {
    char why[small_WHY_BYTES] = "";
    static fake_graph graph;
    small_kernels *kernels;
    small_arguments a;
    shape s = {2, 8, 4, 300, 0, 64};
    become("NVIDIA H200", 90);
    EXPECT(small_open(&kernels, why) == small_OK);
    ftl_module *module = load("small_h200");
    const ftl_plan *plan = ftl_module_plan(module);
    fill_small(&s, 1, &a);
    a.K.address = a.V.address = 0;
    taken();
    EXPECT(small_launch(kernels, &a, NULL, why) == small_OK);
    launched l = taken();
    EXPECT(l.launches == 1 && plan->map_count > 0);
    for (int32_t i = 0; i < plan->map_count; i++) {
        fake_map map;
        static const unsigned char zeros[16];
        memcpy(&map, l.parameters + plan->maps[i].offset, sizeof map);
        if (strchr("KV", plan->tensors[plan->maps[i].tensor].name[0]))
            EXPECT(memcmp((const void *)(uintptr_t)map.address, zeros, sizeof zeros) == 0);
    }
    s = (shape){64, 32, 1, 5000, 5000, 64};
    fill_small(&s, 1, &a);
    EXPECT(small_launch(kernels, &a, (void *)0x1000, why) == small_OK);
    l = taken();
    EXPECT((int)l.grid == plan->resident_blocks);
    fake->stream_graph = of_any_stream, fake->user = &graph;
    EXPECT(small_launch(kernels, &a, (void *)0x1000, why) == small_OK);
    l = taken();
    EXPECT((int)l.grid > plan->resident_blocks);
    fake->stream_graph = NULL, fake->user = NULL;
    ftl_module_free(module);
    small_close(kernels);
}

static void tensor(few_tensor *t, int axes, const int64_t *extents) {
    t->address = memory;
    for (int i = axes - 1; i >= 0; i--) {
        t->extents[i] = extents[i];
        t->strides[i] = i == axes - 1 ? 1 : t->strides[i + 1] * extents[i + 1];
    }
}

/* A program of two kernels: both, in their order, or none. */
static void two_kernels(const char *gpu, int capability) {
    char why[few_WHY_BYTES] = "";
    few_kernels *kernels;
    few_arguments a;
    memset(&a, 0, sizeof a);
    become(gpu, capability);
    int loads = fake->loads, early = fake->early_launches;
    EXPECT(few_open(&kernels, why) == few_OK);
    EXPECT(fake->loads == loads + 2);
    tensor(&a.Q, 4, (const int64_t[]){2, 8, 1, 64});
    tensor(&a.K, 4, (const int64_t[]){2, 2, 900, 64});
    tensor(&a.V, 4, (const int64_t[]){2, 2, 900, 64});
    tensor(&a.O_part, 5, (const int64_t[]){2, 8, 1, 3, 64});
    tensor(&a.lse_part, 4, (const int64_t[]){2, 8, 1, 3});
    tensor(&a.O, 4, (const int64_t[]){2, 8, 1, 64});
    a.scale = 0.125;
    taken();
    EXPECT(few_launch(kernels, &a, NULL, why) == few_OK);
    EXPECT(fake->launches == 2 && fake->module == fake->loads);
    EXPECT(fake->early_launches == early + (capability >= 90)); /* the second */
    a.O.extents[2] = 2;                                         /* of the second kernel's */
    EXPECT(few_launch(kernels, &a, NULL, why) == few_INVALID_ARGUMENT);
    printf("%s\n", why);
    EXPECT(fake->launches == 2);
    few_close(kernels);
}

int main(int argc, char **argv) {
    char why[] = "";
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (argc != 2 || !driver) return 3;
    folder = argv[1];
    fake = (fake_record *)dlsym(driver, "fake_cuda");
    void *room = aligned_alloc(256, 1 << 20);
    memory = (uint64_t)(uintptr_t)room;
    ftl_runtime_options options = FTL_RUNTIME_OPTIONS_INIT;
    EXPECT(ftl_context_new(&context) == FTL_OK);
    EXPECT(ftl_runtime_open(context, &options, &runtime) == FTL_OK);
    walk_small("Tesla T4", 75, "t4", 64);
    walk_small("NVIDIA A100-SXM4-80GB", 80, "a100", 64);
    walk_small("NVIDIA RTX A4000", 86, "a100", 64); /* a later one of the generation */
    walk_small("NVIDIA L40S", 89, "l40s", 64);
    walk_small("NVIDIA H100 80GB HBM3", 90, "h100", 64);
    walk_small("NVIDIA H200", 90, "h200", 64);
    walk_small("NVIDIA GH900", 90, "h100", 64); /* neither by name: the first */
    walk_big("NVIDIA H200", 90, "h200", 128);
    walk_big("Tesla T4", 75, "t4", 128);
    no_kernel_fits();
    the_driver_fails();
    empty_and_captured();
    two_kernels("Tesla T4", 75);
    two_kernels("NVIDIA H200", 90);
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    free(room);
    dlclose(driver);
    if (!failures) printf("all as expected\n");
    return failures != 0;
}
