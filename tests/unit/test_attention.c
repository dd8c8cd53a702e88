#include "base/os.h"
#include "fake_cuda.h"
#include "fake_library.h"
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

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){
        .capability = 80, .device_count = 1, .driver_version = 13000, .parameter_bytes = 8};
    *compiler = (fake_compiler){.major = 13};
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = FAKE_CUDA,
                                   .nvrtc_library = FAKE_NVRTC,
                                   .is_unverified = true};
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

/* Where the reasoner decides otherwise for them. */
static void short_sequences_may_have_their_own(void **state) {
    (void)state;
    driver->capability = 90;
    ftl_attention a = sample();
    a.causal = true;
    assert_int_equal(ftl_attention_prepare(context, runtime, &a), FTL_OK);
    assert_int_equal(compiler->compiles, 2);
    a.head_dim = 128, a.causal = false;
    assert_int_equal(ftl_attention_prepare(context, runtime, &a), FTL_OK);
    assert_int_equal(compiler->compiles, 3);
    assert_int_equal(driver->loads, 3);
}

static void count_entry(void *user, const ftl_cache_entry *entry) {
    (void)entry;
    ++*(int *)user;
}

/* A kernel that serves both is in the cache for both: the next start finds it without reasoning. */
static void short_sequences_are_cached(void **state) {
    (void)state;
    char folder[256];
    os_error why;
    assert_true(os_temporary_folder(folder, &why));
    driver->capability = 90;
    ftl_attention a = sample();
    a.head_dim = 128;
    for (int start = 0; start < 2; start++) {
        ftl_runtime *other;
        ftl_runtime_options options = {.struct_bytes = sizeof options,
                                       .cuda_library = FAKE_CUDA,
                                       .nvrtc_library = FAKE_NVRTC,
                                       .cache_folder = folder,
                                       .is_unverified = true};
        assert_int_equal(ftl_runtime_open(context, &options, &other), FTL_OK);
        assert_int_equal(ftl_attention_prepare(context, other, &a), FTL_OK);
        ftl_runtime_close(other);
        int entries = 0;
        assert_int_equal(ftl_cache_list(context, folder, count_entry, &entries), FTL_OK);
        assert_int_equal(entries, 2);
        assert_int_equal(compiler->compiles, 1);
    }
    assert_int_equal(driver->loads, 3); /* one for both, then one of each from the cache */
    os_remove_folder(folder);
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

/* Every tensor: null where it has elements, askew by less than 16 bytes, strides that are no
 * multiple of 16 bytes or overflow; and nothing is launched.
 */
static void every_pointer_and_stride_is_checked(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        for (int fault = 0; fault < 6; fault++) {
            ftl_attention a = sample();
            ftl_attention_tensor *tensor = t == 0 ? &a.q : t == 1 ? &a.k : t == 2 ? &a.v : &a.o;
            switch (fault) {
            case 0: tensor->address = 0; break;
            case 1: tensor->address += 8; break;
            case 2: tensor->length_stride += 4; break;
            case 3: tensor->head_stride = INT64_MAX / 16 * 8; break;
            case 4: tensor->address = UINT64_MAX - 15; break;
            default: tensor->batch_stride = INT64_MIN / 16; break;
            }
            if (forward(&a) != FTL_INVALID_ARGUMENT) fail_msg("tensor %d, fault %d", t, fault);
            assert_true(strlen(ftl_context_error(context)) > 10);
        }
    }
    ftl_attention a = sample();
    a.lse = (ftl_attention_tensor){0x500002, 800, 1, 100};
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    a.lse.address = 0x500004; /* f32 alone needs no more */
    assert_int_equal(forward(&a), FTL_OK);
    a.alibi_slopes = 0x600002;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
    assert_int_equal(driver->launches, 1);
}

static void sizes_that_overflow_are_told(void **state) {
    (void)state;
    static const size_t sizes[] = {offsetof(ftl_attention, batch), offsetof(ftl_attention, q_len),
                                   offsetof(ftl_attention, kv_len),
                                   offsetof(ftl_attention, q_heads)};
    static const int64_t values[] = {INT64_MAX, INT64_MIN, (int64_t)1 << 32, -1};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            ftl_attention a = sample();
            memcpy((char *)&a + sizes[s], &values[v], sizeof values[v]);
            if (forward(&a) != FTL_INVALID_ARGUMENT) fail_msg("size %zu, value %zu", s, v);
        }
    }
    assert_int_equal(driver->launches, 0);
}

/* No batch, no queries, no heads: no launch, success, whatever the addresses are. Without keys the
 * outputs are zero, and somebody has to write them.
 */
static void nothing_to_do_is_success(void **state) {
    (void)state;
    for (int none = 0; none < 4; none++) {
        ftl_attention a = sample();
        if (none == 0) a.batch = 0;
        if (none == 1) a.q_len = 0;
        if (none == 2) a.q_heads = a.kv_heads = 0;
        if (none == 3) a.batch = a.q_len = a.kv_len = 0;
        a.q.address = a.k.address = a.v.address = a.o.address = 0;
        if (forward(&a) != FTL_OK) fail_msg("%d: %s", none, ftl_context_error(context));
    }
    assert_int_equal(driver->launches, 0);
    ftl_attention a = sample();
    a.kv_len = 0;
    a.k.address = a.v.address = 0;
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(driver->launches, 1);
    a.o.address = 0;
    assert_int_equal(forward(&a), FTL_INVALID_ARGUMENT);
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

/* --- sparse attention
 * ------------------------------------------------------------------------- */

static ftl_sparse sparse_sample(void) {
    ftl_sparse s = FTL_SPARSE_INIT;
    s.dtype = FTL_F16, s.top = 16, s.first = 100;
    s.batch = 2, s.q_len = 100, s.kv_len = 200, s.q_heads = 32, s.kv_heads = 2, s.head_dim = 64;
    s.q = dense(0x100000, 100, 32, 64);
    s.k = dense(0x200000, 200, 2, 64);
    s.v = dense(0x300000, 200, 2, 64);
    s.o = dense(0x400000, 100, 32, 64);
    s.blocks = 0x500000;
    s.blocks_batch_stride = 2 * 100 * 16, s.blocks_head_stride = 100 * 16;
    s.blocks_query_stride = 16;
    return s;
}

static ftl_status attend_sparsely(const ftl_sparse *s) {
    return ftl_sparse_attention(context, runtime, s, NULL);
}

static void sparse_attention_has_kernels_by_group_and_top(void **state) {
    (void)state;
    ftl_sparse s = sparse_sample();
    assert_int_equal(attend_sparsely(&s), FTL_OK);
    assert_int_equal(driver->grid, 2 * 2 * 100); /* a tile for each query and key head */
    s.first = 0, s.q_len = 1, s.kv_len = 64;
    assert_int_equal(attend_sparsely(&s), FTL_OK);
    assert_int_equal(driver->grid, 2 * 2);
    assert_int_equal(compiler->compiles, 1);
    s.top = 8;
    assert_int_equal(attend_sparsely(&s), FTL_OK);
    s.q_heads = 8;
    assert_int_equal(attend_sparsely(&s), FTL_OK);
    assert_int_equal(compiler->compiles, 3);
    s.q_len = 0;
    assert_int_equal(attend_sparsely(&s), FTL_OK);
    assert_int_equal(driver->launches, 4);
    ftl_attention a = sample(); /* the same sizes, and all keys: a kernel of its own */
    assert_int_equal(forward(&a), FTL_OK);
    assert_int_equal(compiler->compiles, 4);
}

static void sparse_attention_says_what_is_wrong(void **state) {
    (void)state;
    ftl_sparse s;
#define REFUSED(change, words)                                                                     \
    do {                                                                                           \
        s = sparse_sample();                                                                       \
        change;                                                                                    \
        assert_int_equal(attend_sparsely(&s), FTL_INVALID_ARGUMENT);                               \
        assert_non_null(strstr(ftl_context_error(context), words));                                \
    } while (0)
    REFUSED(s.struct_bytes = 8, "FTL_SPARSE_INIT");
    REFUSED(s.top = 0, "1 to 1024 blocks");
    REFUSED(s.top = 1025, "1 to 1024 blocks");
    REFUSED(s.first = -1, "no negative place");
    REFUSED(s.q_heads = 33, "multiple of kv_heads");
    REFUSED(s.kv_heads = 0, "multiple of kv_heads");
    REFUSED(s.dtype = FTL_F32, "FTL_F16 or FTL_BF16");
    REFUSED(s.scale = -1, "scale");
    REFUSED(s.kv_len = 0, "kv_len > 0");
    REFUSED(s.blocks = 0x500001, "chosen");
    REFUSED(s.k.length_stride = 7, "K");
#undef REFUSED
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(sparse_attention_has_kernels_by_group_and_top),
        TEST(sparse_attention_says_what_is_wrong),
        TEST(one_kernel_serves_all_sizes),
        TEST(options_make_other_kernels),
        TEST(wrong_calls_are_told),
        TEST(every_pointer_and_stride_is_checked),
        TEST(sizes_that_overflow_are_told),
        TEST(nothing_to_do_is_success),
        TEST(threads_share_a_runtime),
        TEST(call_overhead),
        TEST(short_sequences_may_have_their_own),
        TEST(short_sequences_are_cached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
