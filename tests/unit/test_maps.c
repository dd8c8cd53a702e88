/* Tensor maps of launches: each launch has the map of its own tensors, encoded anew or kept. */
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/runtime.h"
#include "plan_sample.h"
#include "runtime/maps.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <threads.h>

#include <cmocka.h>

enum { K_MAP = 192, V_MAP = 320, PARAMETER_BYTES = 448 };

#define SAMPLE_MAP(name, tensor, offset)                                                           \
    {                                                                                              \
        name, tensor, offset, 4, 128, {                                                            \
            {3, 64, 0, 0}, {2, 64, 0, 0}, {1, 1, 0, 0}, {                                          \
                0, 1, 0, 0                                                                         \
            }                                                                                      \
        }                                                                                          \
    }
static const ftl_plan_map sample_maps[] = {SAMPLE_MAP("K_map", 1, K_MAP),
                                           SAMPLE_MAP("V_map", 2, V_MAP)};

static fake_record *driver;
static ftl_context *context;
static ftl_runtime *runtime;
static ftl_module *module;

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    *driver = (fake_record){.capability = 80,
                            .device_count = 1,
                            .driver_version = 13000,
                            .parameter_bytes = PARAMETER_BYTES};
    ftl_plan plan = sample_plan;
    plan.maps = sample_maps, plan.map_count = 2, plan.parameter_bytes = PARAMETER_BYTES;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_runtime_options options = {
        .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    assert_int_equal(ftl_module_load_image(context, runtime, &plan, "image", 5, &module), FTL_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ftl_module_free(module);
    assert_int_equal(driver->allocations, 0);
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return 0;
}

static fake_map launched_map(int offset) {
    fake_map map;
    memcpy(&map, driver->parameters + offset, sizeof map);
    return map;
}

static void launch(const sample_call *call) {
    ftl_arguments arguments = {call->tensors, 4, call->scalars, 1};
    assert_int_equal(ftl_module_launch(context, module, &arguments, NULL), FTL_OK);
}

/* Launches, and compares both maps with the arguments. */
static void launch_right(const sample_call *call) {
    launch(call);
    for (int i = 0; i < 2; i++) {
        const ftl_tensor *tensor = &call->tensors[1 + i];
        fake_map map = launched_map(i ? V_MAP : K_MAP);
        assert_int_equal(map.address, tensor->address);
        for (int k = 0; k < 4; k++) assert_int_equal(map.extents[k], tensor->extents[3 - k]);
        for (int k = 0; k < 3; k++)
            assert_int_equal(map.stride_bytes[k], 2 * tensor->strides[2 - k]);
        assert_int_equal(map.swizzle, 3);
        assert_int_equal(map.type, 6);
    }
}

static void repeated_launches_encode_once(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    for (int i = 0; i < 10; i++) launch_right(&call);
    assert_int_equal(driver->encodings, 2);
    assert_int_equal(driver->launches, 10);
}

static void what_decides_a_map_makes_another(void **state) {
    (void)state;
    sample_call first = sample_arguments(2, 8, 4, 100, 200), other[5];
    for (int i = 0; i < 5; i++) other[i] = first;
    other[0].tensors[1].address += 16;
    other[1].tensors[2].strides[2] += 64;
    other[2] = sample_arguments(2, 8, 4, 100, 201);
    other[3].tensors[1].strides[0] += 8;
    /* The two maps have each other's numbers. */
    uint64_t address = other[4].tensors[1].address;
    other[4].tensors[1].address = other[4].tensors[2].address;
    other[4].tensors[2].address = address;
    const int encoded[] = {1, 1, 2, 1, 2};
    launch_right(&first);
    for (int i = 0; i < 5; i++) {
        driver->encodings = 0;
        launch_right(&other[i]);
        assert_int_equal(driver->encodings, encoded[i]);
    }
    driver->encodings = 0;
    launch_right(&first);
    for (int i = 0; i < 5; i++) launch_right(&other[i]);
    assert_int_equal(driver->encodings, 0);
    /* What is in no map makes none: queries, outputs, their number. */
    sample_call queries = sample_arguments(2, 8, 4, 7, 200);
    queries.tensors[0].address += 4096;
    launch_right(&queries);
    assert_int_equal(driver->encodings, 0);
}

static void many_arguments_stay_right(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    for (int i = 0; i < 10 * MAPS_KEPT; i++) {
        call.tensors[1].address += 4096;
        launch_right(&call);
        launch_right(&call);
    }
    assert_in_range(driver->encodings, 10 * MAPS_KEPT, 11 * MAPS_KEPT);
}

/* As many sets as a model has layers: all of them, or nearly, are found again. */
static void sets_of_layers_are_kept(void **state) {
    (void)state;
    enum { LAYERS = 24 };
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    for (int round = 0; round < 2; round++) {
        driver->encodings = 0;
        for (int layer = 0; layer < LAYERS; layer++) {
            call.tensors[1].address = 0x100000u * (unsigned)(2 * layer + 1);
            call.tensors[2].address = 0x100000u * (unsigned)(2 * layer + 2);
            launch_right(&call);
        }
    }
    assert_in_range(driver->encodings, 0, LAYERS / 2);
}

static void tensors_without_elements_are_zeros(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 8, 4, 100, 0);
    call.tensors[1].address = call.tensors[2].address = 0;
    launch(&call);
    fake_map map = launched_map(K_MAP);
    static const unsigned char zeros[16];
    assert_memory_equal((const void *)(uintptr_t)map.address, zeros, sizeof zeros);
    assert_int_equal(map.extents[0], 1);
    launch(&call);
    assert_int_equal(driver->encodings, 2);
}

static void failures_are_not_kept(void **state) {
    (void)state;
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    driver->encode_result = 1;
    assert_int_not_equal(ftl_module_launch(context, module, &arguments, NULL), FTL_OK);
    assert_string_equal(
        ftl_context_error(context),
        "cannot describe 'K' to the copy unit for kernel 'attention': some error (CUDA_ERROR_1)");
    assert_int_equal(driver->launches, 0);
    driver->encode_result = 0;
    launch_right(&call);
    assert_int_equal(driver->encodings, 2);
}

/* --- several threads -------------------------------------------------------------------------- */

enum { THREADS = 4, THREAD_LAUNCHES = 4000 };

/* Every word is the address, so that a map of two halves is seen. */
static int encode_repeated(void *map, int type, uint32_t rank, void *address,
                           const uint64_t *extents, const uint64_t *stride_bytes,
                           const uint32_t *box, const uint32_t *element_strides, int interleave,
                           int swizzle, int promotion, int fill) {
    (void)type, (void)rank, (void)extents, (void)stride_bytes, (void)box, (void)element_strides;
    (void)interleave, (void)swizzle, (void)promotion, (void)fill;
    uint64_t words[FTL_MAP_BYTES / 8];
    for (size_t i = 0; i < FTL_MAP_BYTES / 8; i++) words[i] = (uint64_t)(uintptr_t)address;
    memcpy(map, words, sizeof words);
    return 0;
}

typedef struct worker {
    kept *store;
    unsigned seed;
    int wrong;
} worker;

static int write_many(void *user) {
    worker *w = user;
    const cuda_driver cuda = {.map_encode = encode_repeated};
    static const ftl_plan plan;
    ftl_launch made = {.map_count = 1, .maps = {{.rank = 4, .extents = {64, 64, 1, 1}}}};
    for (int i = 0; i < THREAD_LAUNCHES; i++) {
        w->seed = w->seed * 1664525u + 1013904223u;
        made.maps[0].address = 4096u * (1 + (w->seed >> 16) % (3 * MAPS_KEPT));
        if (maps_write(NULL, &cuda, w->store, &plan, 0, &made)) w->wrong++;
        for (int k = 0; k < FTL_MAP_BYTES / 8; k++) {
            if (memcmp(made.parameters + 8 * k, &made.maps[0].address, 8) != 0) w->wrong++;
        }
    }
    return 0;
}

static void threads_share_a_store(void **state) {
    (void)state;
    thrd_t threads[THREADS];
    worker workers[THREADS];
    kept *store = maps_new();
    assert_non_null(store);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (worker){store, i, 0};
        assert_int_equal(thrd_create(&threads[i], write_many, &workers[i]), thrd_success);
    }
    for (int i = 0; i < THREADS; i++) {
        thrd_join(threads[i], NULL);
        assert_int_equal(workers[i].wrong, 0);
    }
    kept_free(store);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(repeated_launches_encode_once),      TEST(what_decides_a_map_makes_another),
        TEST(many_arguments_stay_right),          TEST(sets_of_layers_are_kept),
        TEST(tensors_without_elements_are_zeros), TEST(failures_are_not_kept),
        cmocka_unit_test(threads_share_a_store),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
