/* examples/engine.c on a pretended GPU: each call is fine, tables are right, and once its kernels
 * are there a step makes and allocates nothing. Launches do nothing here but for what is noted.
 */
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/serving.h"

#include <string.h>

static ftl_status open_pretended(ftl_context *context, const ftl_runtime_options *options,
                                 ftl_runtime **out);
static int engine_main(void);

#define ftl_runtime_open open_pretended
#define main engine_main
#include "../../examples/engine.c"
#undef main
#undef ftl_runtime_open

static fake_record *driver;
static fake_compiler *compiler;

enum { LAUNCHES_MAX = 64 };
static struct { int compiles, allocations; } at[LAUNCHES_MAX];
static int launches;

static void note(void *user, const unsigned char *parameters) {
    (void)user, (void)parameters;
    assert_true(launches < LAUNCHES_MAX);
    at[launches].compiles = compiler->compiles;
    at[launches++].allocations = driver->allocations;
}

static ftl_status open_pretended(ftl_context *context, const ftl_runtime_options *options,
                                 ftl_runtime **out) {
    assert_null(options);
    ftl_runtime_options pretended = FTL_RUNTIME_OPTIONS_INIT;
    pretended.cuda_library = FAKE_CUDA, pretended.nvrtc_library = FAKE_NVRTC;
    pretended.cache_folder = "", pretended.is_unverified = pretended.checks_tables = true;
    return ftl_runtime_open(context, &pretended, out);
}

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){
        .capability = 80, .device_count = 1, .driver_version = 13000, .parameter_bytes = 8};
    *compiler = (fake_compiler){.major = 13};
    driver->on_launch = note;
    launches = 0;
    return 0;
}

/* Prompts: keys, queries, attention. A token of each: keys, queries, splits, their combination;
 * made beforehand are the kernel for sequences of one split and the four of stretches, too.
 */
static void steps(void **state) {
    (void)state;
    enum { PROMPT = 3, TOKEN = 4 };
    assert_int_equal(engine_main(), 1); /* nothing was computed: no result is 1 */
    assert_int_equal(launches, PROMPT + STEPS * TOKEN);
    int last = PROMPT + STEPS * TOKEN - 1;
    assert_int_equal(at[PROMPT].compiles, at[last].compiles);
    assert_int_equal(at[0].allocations, at[last].allocations);
    assert_int_equal(at[last].compiles, 10);
}

/* A launch that fails, and no GPU at all. */
static void faults_end_it(void **state) {
    (void)state;
    driver->launch_result = 719;
    assert_int_equal(engine_main(), 1);
    driver->launch_result = 0;
    driver->init_result = 100; /* no device */
    assert_int_equal(engine_main(), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(steps, setup),
        cmocka_unit_test_setup(faults_end_it, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
