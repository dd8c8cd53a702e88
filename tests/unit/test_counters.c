/* Launches that hand out tiles by counters, any number of them at once: every tile of each is done
 * exactly once, whatever streams, threads and graphs they come from, and in whatever order the
 * device takes their steps.
 */
#include "fake_device.h"
#include "flashtl/runtime.h"
#include "plan_sample.h"
#include "runtime/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { COUNTERS = 152, TILES_OFFSET = 160, PARAMETER_BYTES = 168, RESIDENT = 4, TILES = 15 };
#define PER_THREAD ((void *)2)

static fake_record *driver;
static ftl_context *context;
static ftl_runtime *runtime;
static ftl_module *module;
static void (*end_graph)(fake_graph *graph);

/* Numbers of streams, as the driver gives them: of a handle, and of each thread's default stream.
 */
static _Thread_local uint64_t thread_number;
static uint64_t reborn; /* how often the streams with handles were destroyed and made again */

static uint64_t id_of(void *stream) {
    if (stream == PER_THREAD) return 1000000 + thread_number;
    return (uint64_t)(uintptr_t)stream + 100000000 * reborn;
}

static int setup(void **state) {
    (void)state;
    static const ftl_plan_derived tiles[] = {
        {.name = "tiles", .kind = FTL_DERIVED_TILES, .offset = TILES_OFFSET}};
    driver = record_of(FAKE_CUDA, "fake_cuda");
    void *end = record_of(FAKE_CUDA, "fake_graph_end");
    memcpy(&end_graph, &end, sizeof end);
    *driver = (fake_record){.capability = 80, .device_count = 1, .driver_version = 13000};
    ftl_plan plan = sample_plan;
    plan.grid_kind = FTL_GRID_DYNAMIC, plan.resident_blocks = RESIDENT;
    plan.counters_offset = COUNTERS, plan.parameter_bytes = PARAMETER_BYTES;
    plan.derived = tiles, plan.derived_count = 1;
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_runtime_options options = {
        .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    assert_int_equal(ftl_module_load_image(context, runtime, &plan, "image", 5, &module), FTL_OK);
    device_open(driver, (device_layout){COUNTERS, TILES_OFFSET, plan.tensors[3].pointer_offset},
                id_of);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    device_close();
    ftl_module_free(module);
    assert_int_equal(driver->allocations, 0);
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return 0;
}

/* The elements of one launch's O. */
typedef struct output {
    _Alignas(16) int tiles[TILES + 1];
} output;

static ftl_status launch_from(ftl_context *from, void *stream, output *out) {
    sample_call call = sample_arguments(1, TILES, TILES, 64, 64);
    call.tensors[3].address = (uint64_t)(uintptr_t)out->tiles;
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    return ftl_module_launch(from, module, &arguments, stream);
}

static void launch(void *stream, output *out) {
    assert_int_equal(launch_from(context, stream, out), FTL_OK);
}

static void assert_done(const output *outputs, size_t count, int times) {
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < TILES; k++) {
            if (outputs[i].tiles[k] != times)
                fail_msg("launch %zu, tile %d: done %d times, not %d", i, k, outputs[i].tiles[k],
                         times);
        }
    }
}

static output *new_outputs(size_t count) {
    output *outputs = aligned_alloc(16, count * sizeof *outputs);
    assert_non_null(outputs);
    memset(outputs, 0, count * sizeof *outputs);
    return outputs;
}

/* --- streams and threads ---------------------------------------------------------------------- */

static void streams_at_once(void **state) {
    (void)state;
    enum { STREAMS = 40, EACH = 5 };
    for (uint32_t seed = 1; seed <= 10; seed++) {
        output *outputs = new_outputs(STREAMS * EACH);
        for (int i = 0; i < STREAMS * EACH; i++)
            launch((void *)(uintptr_t)(i % STREAMS * 4096), &outputs[i]);
        device_run_all(seed);
        assert_done(outputs, STREAMS * EACH, 1);
        free(outputs);
    }
    assert_int_equal(the_device.full_grids, 0);
}

typedef struct launcher {
    uint64_t number;
    output *outputs;
    int count;
} launcher;

static int launch_many(void *argument) {
    const launcher *l = argument;
    ftl_context *own;
    thread_number = l->number;
    if (ftl_context_new(&own)) return 1;
    int failed = 0;
    for (int i = 0; i < l->count; i++) failed |= launch_from(own, PER_THREAD, &l->outputs[i]) != 0;
    ftl_context_free(own);
    return failed;
}

/* Each thread's default stream has the same handle. */
static void threads_at_once(void **state) {
    (void)state;
    enum { THREADS = 8, EACH = 30 };
    for (uint32_t seed = 1; seed <= 10; seed++) {
        output *outputs = new_outputs(THREADS * EACH);
        launcher launchers[THREADS];
        thrd_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) {
            launchers[i] = (launcher){1 + (uint64_t)i, outputs + i * EACH, EACH};
            assert_int_equal(thrd_create(&threads[i], launch_many, &launchers[i]), thrd_success);
        }
        for (int i = 0; i < THREADS; i++) {
            int failed = 1;
            thrd_join(threads[i], &failed);
            assert_int_equal(failed, 0);
        }
        device_run_all(seed);
        assert_done(outputs, THREADS * EACH, 1);
        free(outputs);
    }
    assert_int_equal(the_device.full_grids, 0);
}

/* A stream that was destroyed while it works, and another that got its handle. */
static void handles_given_out_again(void **state) {
    (void)state;
    enum { LIVES = 30 };
    output *outputs = new_outputs(LIVES);
    for (reborn = 0; reborn < LIVES; reborn++) launch((void *)4096, &outputs[reborn]);
    reborn = 0;
    device_run_all(5);
    assert_done(outputs, LIVES, 1);
    free(outputs);
}

/* More streams than there are pairs: those without one get a block for each tile. */
static void more_streams_than_pairs(void **state) {
    (void)state;
    enum { STREAMS = COUNTERS_STREAMS + 200 };
    output *outputs = new_outputs(STREAMS);
    for (int i = 0; i < STREAMS; i++) launch((void *)(uintptr_t)(16 + i), &outputs[i]);
    assert_true(the_device.full_grids >= 200);
    device_run_all(9);
    assert_done(outputs, STREAMS, 1);
    free(outputs);
}

/* --- graphs ----------------------------------------------------------------------------------- */

static fake_graph *new_graph(void) {
    fake_graph *graph = calloc(1, sizeof *graph);
    assert_non_null(graph);
    return graph;
}

static void drop_graph(fake_graph *graph, device_stream *recorded) {
    end_graph(graph);
    free(graph);
    free(recorded->work);
}

static device_stream capture(void *stream, fake_graph *graph, output *outputs, int count) {
    device_begin_capture(stream, graph);
    for (int i = 0; i < count; i++) launch(stream, &outputs[i]);
    return device_end_capture();
}

/* Graphs captured on one stream, replayed on several, while the stream goes on with other work. */
static void graphs_at_once(void **state) {
    (void)state;
    enum { GRAPHS = 6, EACH = 4, REPLAYS = 5 };
    void *const stream = (void *)4096;
    for (uint32_t seed = 1; seed <= 10; seed++) {
        output *outputs = new_outputs(GRAPHS * EACH), *plain = new_outputs(REPLAYS);
        device_stream recorded[GRAPHS];
        fake_graph *graphs[GRAPHS];
        for (int g = 0; g < GRAPHS; g++) {
            graphs[g] = new_graph();
            recorded[g] = capture(stream, graphs[g], outputs + g * EACH, EACH);
        }
        for (int i = 0; i < REPLAYS; i++) {
            launch(stream, &plain[i]);
            for (int g = 0; g < GRAPHS; g++) device_replay(&recorded[g], 500 + (uint64_t)g);
        }
        device_run_all(seed);
        assert_done(outputs, GRAPHS * EACH, REPLAYS);
        assert_done(plain, REPLAYS, 1);
        for (int g = 0; g < GRAPHS; g++) drop_graph(graphs[g], &recorded[g]);
        free(outputs), free(plain);
    }
    assert_int_equal(the_device.full_grids, 0);
}

/* Launches of one graph that do not follow one another: its branches run side by side. */
static void branches_of_a_graph(void **state) {
    (void)state;
    enum { BRANCHES = 7 };
    output *outputs = new_outputs(BRANCHES);
    fake_graph *graph = new_graph();
    device_stream recorded = capture((void *)4096, graph, outputs, BRANCHES);
    for (int i = 0; i < BRANCHES; i++) {
        device_stream branch = {.work = &recorded.work[i], .count = 1};
        device_replay(&branch, 700 + (uint64_t)i);
    }
    device_run_all(3);
    assert_done(outputs, BRANCHES, 1);
    drop_graph(graph, &recorded);
    free(outputs);
}

/* Launches of graphs that have ended give their counters back, and nobody else's. */
static void graphs_come_and_go(void **state) {
    (void)state;
    enum { ROUNDS = 2 * COUNTERS_CAPTURES / 1000, EACH = 1000 };
    for (int round = 0; round < ROUNDS; round++) {
        output *outputs = new_outputs(EACH);
        fake_graph *graph = new_graph();
        device_stream recorded = capture((void *)4096, graph, outputs, EACH);
        device_replay(&recorded, 900);
        device_run_all(7);
        assert_done(outputs, EACH, 1);
        drop_graph(graph, &recorded);
        free(outputs);
    }
    assert_int_equal(the_device.full_grids, 0);
}

/* More captured launches than there are pairs. */
static void more_captures_than_pairs(void **state) {
    (void)state;
    enum { LAUNCHES = COUNTERS_CAPTURES + 100 };
    output *outputs = new_outputs(LAUNCHES);
    fake_graph *graph = new_graph();
    device_stream recorded = capture((void *)4096, graph, outputs, LAUNCHES);
    assert_int_equal(the_device.full_grids, 100);
    for (int i = 0; i < 8; i++) { /* in eight branches at once */
        device_stream branch = {.work = &recorded.work[recorded.count / 8 * i],
                                .count = recorded.count / 8};
        device_replay(&branch, 700 + (uint64_t)i);
    }
    device_run_all(11);
    int whole = recorded.count / 8 * 8;
    for (int i = 0, seen = 0; i < whole; i++) {
        if (!recorded.work[i].is_fill) assert_done(&outputs[seen++], 1, 1);
    }
    drop_graph(graph, &recorded);
    free(outputs);
}

/* A graph may be destroyed after the module. */
static void graphs_outlive_modules(void **state) {
    (void)state;
    output outputs[3];
    memset(outputs, 0, sizeof outputs);
    fake_graph *graph = new_graph();
    device_stream recorded = capture((void *)4096, graph, outputs, 3);
    ftl_module_free(module);
    module = NULL;
    drop_graph(graph, &recorded);
}

/* --- drivers that say less -------------------------------------------------------------------- */

/* Whatever of it fails: the launches are right all the same. */
static void drivers_that_refuse(void **state) {
    (void)state;
    enum { EACH = 12 };
    int *const results[] = {&driver->stream_id_result, &driver->capture_result,
                            &driver->object_result, &driver->retain_result};
    for (size_t r = 0; r < sizeof results / sizeof *results; r++) {
        output *outputs = new_outputs(2 * EACH);
        *results[r] = 801; /* not supported */
        for (int i = 0; i < EACH; i++) launch((void *)(uintptr_t)(16 + 16 * i), &outputs[i]);
        fake_graph *graph = new_graph();
        device_stream recorded = capture((void *)4096, graph, outputs + EACH, EACH);
        *results[r] = 0;
        device_replay(&recorded, 40 + r);
        device_run_all(13);
        assert_done(outputs, (size_t)2 * EACH, 1);
        drop_graph(graph, &recorded);
        free(outputs);
    }
    assert_true(the_device.full_grids >= 4 * EACH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(streams_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(threads_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(handles_given_out_again, setup, teardown),
        cmocka_unit_test_setup_teardown(more_streams_than_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(graphs_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(branches_of_a_graph, setup, teardown),
        cmocka_unit_test_setup_teardown(graphs_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(more_captures_than_pairs, setup, teardown),
        cmocka_unit_test_setup_teardown(graphs_outlive_modules, setup, teardown),
        cmocka_unit_test_setup_teardown(drivers_that_refuse, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
