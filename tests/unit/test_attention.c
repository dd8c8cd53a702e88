#include "base/os.h"
#include "fake_cuda.h"
#include "flashtl/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include <cmocka.h>

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static ftl_runtime *runtime;

static void *record_of(const char *library, const char *symbol) {
    const char *names[] = {library, NULL};
    os_error why;
    return os_library_symbol(os_library_open(names, &why), symbol);
}

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){
        .capability = 80, .device_count = 1, .driver_version = 13000, .parameter_bytes = 8};
    *compiler = (fake_compiler){.major = 13};
    ftl_runtime_options options = {FAKE_CUDA, FAKE_NVRTC, NULL};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    return ftl_runtime_open(context, &options, &runtime) != FTL_OK;
}

static int teardown(void **state) {
    (void)state;
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    assert_int_equal(driver->loads, driver->unloads);
    return 0;
}

/* (batch, length, heads, d), dense. */
static ftl_attention_tensor dense(uint64_t address, int64_t length, int64_t heads, int64_t d) {
    return (ftl_attention_tensor){address, length * heads * d, heads * d, d};
}

static ftl_attention sample(void) {
    ftl_attention a = FTL_ATTENTION_INIT;
    a.dtype = FTL_F16;
    a.batch = 2, a.q_len = 100, a.kv_len = 200, a.q_heads = 8, a.kv_heads = 2, a.head_dim = 64;
    a.q = dense(0x100000, 100, 8, 64);
    a.k = dense(0x200000, 200, 2, 64);
    a.v = dense(0x300000, 200, 2, 64);
    a.o = dense(0x400000, 100, 8, 64);
    return a;
}

static ftl_status forward(const ftl_attention *a) {
    return ftl_attention_forward(context, runtime, a, NULL);
}

static void one_kernel_serves_all_sizes(void **state) {
    (void)state;
    ftl_attention a = sample();
    assert_int_equal(forward(&a), FTL_OK);
    unsigned grid = driver->grid;
    assert_true(grid > 0);
    a.batch = 1;
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(driver->grid, grid / 2);
    a.kv_len = 0;
    a.k.address = a.v.address = 0;
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(driver->launches, 3);
    a.q_len = 0;
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(driver->launches, 3);
    assert_int_equal(compiler->compiles, 1);
}

static void options_make_other_kernels(void **state) {
    (void)state;
    ftl_attention a = sample();
    assert_int_equal(ftl_attention_prepare(context, runtime, &a), FTL_OK);
    a.causal = true;
    assert_int_equal(ftl_attention_prepare(context, runtime, &a), FTL_OK);
    a.window = 64;
    assert_int_equal(ftl_attention_prepare(context, runtime, &a), FTL_OK);
    a.lse = (ftl_attention_tensor){0x500000, 800, 1, 100};
    assert_int_equal(forward(&a), FTL_OK);
    a.alibi_slopes = 0x600000;
    assert_int_equal(forward(&a), FTL_OK);
    a.dtype = FTL_BF16;
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(compiler->compiles, 6);
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(compiler->compiles, 6);
}

static void wrong_calls_are_told(void **state) {
    (void)state;
    ftl_attention a = sample();
    a.struct_bytes = 0;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_attention_forward(context, runtime, NULL, NULL), FTL_INVALID_ARGUMENT);
    a = sample();
    a.head_dim = 0;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a.head_dim = INT64_MAX;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a = sample();
    a.head_dim = 7;
    assert_int_equal(forward(&a), FTL_REJECTED);
    a = sample();
    a.softcap = -1;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a = sample();
    a.kv_heads = 3;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), "kernel 'attention' demands q_heads % kv_heads "
                                                    "== 0; here q_heads = 8, kv_heads = 3");
    a = sample();
    a.scale = -1;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a = sample();
    a.k.address = 0;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a = sample();
    a.q.address += 2;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a = sample();
    a.kv_len = INT64_MAX / 2;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a = sample();
    a.batch = -1;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    assert_int_equal(driver->launches, 0);
    driver->capability = 75;
    a = sample();
    a.dtype = FTL_BF16;
    assert_int_equal(forward(&a), FTL_REJECTED);
    assert_true(ftl_context_error_count(context) > 0);
}

static int call_often(void *attention) {
    ftl_context *own;
    if (ftl_context_new(&own) != FTL_OK) return 1;
    int failures = 0;
    for (int i = 0; i < 50; i++) {
        ftl_attention a = *(ftl_attention *)attention;
        a.causal = i % 2;
        failures += ftl_attention_prepare(own, runtime, &a) != FTL_OK;
    }
    ftl_context_free(own);
    return failures;
}

static void threads_share_a_runtime(void **state) {
    (void)state;
    enum { THREADS = 4 };
    ftl_attention a = sample();
    thrd_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(thrd_create(&threads[i], call_often, &a), thrd_success);
    }
    for (int i = 0; i < THREADS; i++) {
        int failures = 1;
        thrd_join(threads[i], &failures);
        assert_int_equal(failures, 0);
    }
    assert_int_equal(compiler->compiles, 2);
}

static void call_overhead(void **state) {
    (void)state;
    enum { CALLS = 20000 };
    ftl_attention a = sample();
    assert_int_equal(forward(&a), FTL_OK);
    int64_t start_ns = os_cpu_time_ns();
    for (int i = 0; i < CALLS; i++) forward(&a);
    print_message("a call takes %.3f us beyond the driver\n",
                  (double)(os_cpu_time_ns() - start_ns) / 1000 / CALLS);
    assert_int_equal(driver->launches, CALLS + 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(one_kernel_serves_all_sizes),
        TEST(options_make_other_kernels),
        TEST(wrong_calls_are_told),
        TEST(threads_share_a_runtime),
        TEST(call_overhead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
