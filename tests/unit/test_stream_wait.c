/* How late a wait for a stream is, on a clock that moves only by what things take here: a query of
 * the driver half a microsecond, a sleep what was asked for and 60 microseconds more.
 */
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/runtime.h"

enum { NOT_READY = 600 };
static const int64_t QUERY_NS = 500, LATE_NS = 60000;

static fake_record *driver;
static ftl_context *context;
static ftl_runtime *runtime;
static int64_t now_ns, ready_ns, asleep_ns;

int64_t __wrap_os_time_ns(void);
int64_t __wrap_os_time_ns(void) {
    return now_ns;
}

void __wrap_os_sleep_ns(int64_t time_ns);
void __wrap_os_sleep_ns(int64_t time_ns) {
    now_ns += time_ns + LATE_NS;
    asleep_ns += time_ns + LATE_NS;
}

static int query(void *user, void *stream) {
    (void)user, (void)stream;
    now_ns += QUERY_NS;
    return now_ns >= ready_ns ? 0 : NOT_READY;
}

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    *driver = (fake_record){.capability = 80, .device_count = 1, .driver_version = 13000};
    driver->on_query = query;
    ftl_runtime_options options = {.struct_bytes = sizeof options, .cuda_library = FAKE_CUDA};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    return ftl_runtime_open(context, &options, &runtime) != FTL_OK;
}

static int teardown(void **state) {
    (void)state;
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return 0;
}

static ftl_status wait_for(int64_t work_ns, int64_t most_ms, int64_t *late_ns) {
    now_ns = 1000000, asleep_ns = 0, ready_ns = now_ns + work_ns;
    ftl_status status = ftl_stream_wait(context, runtime, NULL, most_ms);
    *late_ns = now_ns - ready_ns;
    return status;
}

/* What most launches take: no sleep is in between. */
static void short_work_is_not_slept_over(void **state) {
    (void)state;
    int64_t late_ns;
    for (int64_t work_ns = 0; work_ns < 2000000; work_ns = 2 * work_ns + 700) {
        assert_int_equal(wait_for(work_ns, 100, &late_ns), FTL_OK);
        assert_int_equal(asleep_ns, 0);
        assert_true(late_ns <= QUERY_NS);
    }
}

/* Long work costs little of the processor, and is not waited for much longer than it takes. */
static void long_work_is_slept_through(void **state) {
    (void)state;
    int64_t late_ns;
    for (int64_t work_ns = 20000000; work_ns < 20000000000; work_ns *= 3) {
        assert_int_equal(wait_for(work_ns, 60000, &late_ns), FTL_OK);
        assert_true(late_ns <= work_ns / 50 && late_ns <= 1200000);
        assert_true(work_ns - asleep_ns <= 2100000 + work_ns / 100);
    }
}

static void limits_are_kept(void **state) {
    (void)state;
    int64_t late_ns;
    for (int64_t most_ms = 0; most_ms < 5000; most_ms = 3 * most_ms + 1) {
        assert_int_equal(wait_for(INT64_MAX / 2, most_ms, &late_ns), FTL_TIMEOUT);
        int64_t beyond_ns = now_ns - 1000000 - most_ms * 1000000;
        assert_true(beyond_ns >= 0 && beyond_ns <= 1200000);
        assert_int_equal(wait_for(0, most_ms, &late_ns), FTL_OK);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(short_work_is_not_slept_over),
        TEST(long_work_is_slept_through),
        TEST(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
