/* Native sparse attention in one call: its steps, what each of them reads and writes, its
 * workspace, and what it refuses. A driver that pretends launches; what kernels compute is judged
 * elsewhere (tests/cli/sparse_programs.py).
 */
#include "base/os.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* Addresses of a sample's tensors; its workspace comes after all of them. */
enum {
    Q = 0x100000,
    K = 0x200000,
    V = 0x300000,
    O = 0x400000,
    GATES = 0x500000,
    MEANS = 0x600000,
    WORKSPACE = 0x1000000
};

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static ftl_runtime *runtime;

/* The parameters of each launch, and what may come after them in the struct's room. */
enum { LAUNCHES_MAX = 16, WORDS = FTL_PARAMETER_BYTES_MAX / sizeof(uint64_t) };
static uint64_t launched[LAUNCHES_MAX][WORDS];
static int launches;

static void note_launch(void *user, const unsigned char *parameters) {
    (void)user;
    assert_true(launches < LAUNCHES_MAX);
    memcpy(launched[launches++], parameters, sizeof launched[0]);
}

static int setup(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    *driver = (fake_record){.capability = 80,
                            .device_count = 1,
                            .driver_version = 13000,
                            .parameter_bytes = 8,
                            .on_launch = note_launch};
    *compiler = (fake_compiler){.major = 13};
    launches = 0;
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

/* The last q_len tokens of kv_len. */
static ftl_nsa sample(int64_t q_len, int64_t kv_len) {
    ftl_nsa n = FTL_NSA_INIT;
    n.dtype = FTL_F16;
    n.batch = 2, n.q_len = q_len, n.kv_len = kv_len, n.quad = q_len > 1 ? 4 : 0;
    n.q_heads = 32, n.kv_heads = 2, n.head_dim = 64;
    n.q = dense(Q, q_len, 32, 64), n.o = dense(O, q_len, 32, 64);
    n.k = dense(K, kv_len, 2, 64), n.v = dense(V, kv_len, 2, 64);
    n.gate_mean = (ftl_attention_tensor){GATES, 32 * q_len, 1, q_len};
    n.gate_chosen = n.gate_near = n.gate_mean;
    n.gate_chosen.address += 0x10000, n.gate_near.address += 0x20000;
    n.workspace = WORKSPACE;
    assert_int_equal(ftl_nsa_workspace(context, &n, &n.workspace_bytes), FTL_OK);
    return n;
}

static ftl_status attend(const ftl_nsa *n) {
    launches = 0;
    return ftl_nsa_attention(context, runtime, n, NULL);
}

/* The address of a result; 0: it is none of the workspace. */
static uint64_t result(const ftl_nsa *n, const char *name) {
    ftl_tensor results[FTL_NSA_RESULTS_MAX];
    int32_t count;
    assert_int_equal(ftl_nsa_results(context, n, results, &count), FTL_OK);
    for (int32_t i = 0; i < count; i++) {
        if (strcmp(results[i].name, name) == 0) return results[i].address;
    }
    return 0;
}

/* An address, not a stride, nor two numbers side by side. */
static bool is_address(uint64_t word) {
    return word >= Q && word < 2 * WORKSPACE;
}

/* Are these the launch's first addresses, in any order? It has no others. */
static void assert_given(int launch, const uint64_t *wanted, int count) {
    int found = 0;
    for (int w = 0; w < WORDS && found < count; w++) {
        uint64_t word = launched[launch][w];
        bool is_wanted = false;
        if (!is_address(word)) continue;
        for (int i = 0; i < count; i++) is_wanted |= wanted[i] == word;
        if (!is_wanted) fail_msg("launch %d: %llx", launch, (unsigned long long)word);
        found++;
    }
    assert_int_equal(found, count);
}

#define GIVEN(launch, ...)                                                                         \
    assert_given(launch, (uint64_t[]){__VA_ARGS__},                                                \
                 (int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)))

/* --- the steps -------------------------------------------------------------------------------- */

static void steps_pass_on_what_they_make(void **state) {
    (void)state;
    ftl_nsa n = sample(101, 300);
    assert_int_equal(attend(&n), FTL_OK);
    assert_int_equal(launches, 9);
#define R(name) result(&n, name)
    GIVEN(0, K, R("K_mean"));
    GIVEN(1, V, R("V_mean"));
    GIVEN(2, Q, R("K_mean"), R("V_mean"), R("O_mean"), R("lse"));
    GIVEN(3, Q, R("K_mean"), R("lse"), R("score"));
    GIVEN(4, R("score"), R("chosen"));
    GIVEN(5, R("chosen"), R("list"), R("seen"), R("count"));
    GIVEN(6, Q, K, V, R("list"), R("seen"), R("count"), R("O_chosen"));
    GIVEN(7, Q, K, V, R("O_near"));
    GIVEN(8, R("O_mean"), R("O_chosen"), R("O_near"), GATES, GATES + 0x10000, GATES + 0x20000, O);
    n = sample(1, 300); /* a query alone shares nothing */
    assert_int_equal(attend(&n), FTL_OK);
    assert_int_equal(launches, 8);
    assert_int_equal(R("list"), 0);
    GIVEN(5, Q, K, V, R("chosen"), R("O_chosen"));
    n.quad = 2;
    assert_int_equal(ftl_nsa_workspace(context, &n, &n.workspace_bytes), FTL_OK);
    assert_int_equal(attend(&n), FTL_OK);
    assert_int_equal(launches, 9);
    n.q_len = n.kv_len = 0;
    assert_int_equal(attend(&n), FTL_OK);
    assert_int_equal(launches, 0);
}

static void means_that_are_there_stay(void **state) {
    (void)state;
    ftl_nsa n = sample(1, 300); /* four blocks and a part of one */
    n.k_mean = dense(MEANS, 5, 2, 64), n.v_mean = dense(MEANS + 0x10000, 5, 2, 64);
    n.mean_blocks = 3;
    size_t less;
    assert_int_equal(ftl_nsa_workspace(context, &n, &less), FTL_OK);
    assert_true(less < n.workspace_bytes);
    assert_int_equal(attend(&n), FTL_OK);
    assert_int_equal(launches, 8);
    assert_int_equal(R("K_mean"), 0);
    uint64_t row = 2 * 64 * 2; /* bytes of a key, or of a mean, of all heads */
    GIVEN(0, K + 3 * 64 * row, MEANS + 3 * row);
    GIVEN(1, V + 3 * 64 * row, MEANS + 0x10000 + 3 * row);
    GIVEN(2, Q, MEANS, MEANS + 0x10000, R("O_mean"), R("lse"));
    n.kv_len = 256, n.mean_blocks = 4;
    assert_int_equal(attend(&n), FTL_OK);
    assert_int_equal(launches, 6);
    GIVEN(0, Q, MEANS, MEANS + 0x10000, R("O_mean"), R("lse"));
}

/* After it no call makes a kernel, whatever its lengths: calls may be captured. */
static void what_is_prepared_is_not_made_again(void **state) {
    (void)state;
    ftl_nsa n = sample(101, 300);
    assert_int_equal(ftl_nsa_prepare(context, runtime, &n), FTL_OK);
    int compiles = compiler->compiles, loads = driver->loads, allocations = driver->allocations;
    const int64_t lengths[][2] = {{101, 300}, {1, 300}, {7, 9}, {1, 1}, {16, 4000}, {2000, 5001}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        n = sample(lengths[i][0], lengths[i][1]);
        assert_int_equal(attend(&n), FTL_OK);
    }
    assert_int_equal(compiler->compiles, compiles);
    assert_int_equal(driver->loads, loads);
    assert_int_equal(driver->allocations, allocations);
    n.value_dim = 32; /* values have a compression of their own */
    n.v = dense(V, 5001, 2, 32), n.o = dense(O, 2000, 32, 32);
    assert_int_equal(attend(&n), FTL_OK);
    assert_true(compiler->compiles > compiles);
}

/* --- the workspace ---------------------------------------------------------------------------- */

static void results_lie_apart(void **state) {
    (void)state;
    const int64_t lengths[][2] = {{101, 300}, {1, 1}, {16, 64}, {17, 65}, {3, 1000}};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        ftl_nsa n = sample(lengths[i][0], lengths[i][1]);
        ftl_tensor r[FTL_NSA_RESULTS_MAX];
        int32_t count;
        assert_int_equal(ftl_nsa_results(context, &n, r, &count), FTL_OK);
        uint64_t end = n.workspace;
        for (int32_t k = 0; k < count; k++) {
            int64_t last = 0, bytes = r[k].type == FTL_F16 ? 2 : 4;
            for (int32_t a = 0; a < r[k].axis_count; a++) {
                last += (r[k].extents[a] - 1) * r[k].strides[a];
                if (a < r[k].axis_count - 1) assert_int_equal(r[k].strides[a] * bytes % 16, 0);
            }
            assert_true(r[k].address >= end && r[k].address % 16 == 0);
            end = r[k].address + (uint64_t)((last + 1) * bytes);
        }
        assert_true(end <= n.workspace + n.workspace_bytes);
    }
}

/* --- what is refused -------------------------------------------------------------------------- */

static void wrong_calls_are_told(void **state) {
    (void)state;
    ftl_nsa n;
#define REFUSED(change, words)                                                                     \
    do {                                                                                           \
        n = sample(101, 300);                                                                      \
        change;                                                                                    \
        assert_int_equal(attend(&n), FTL_INVALID_ARGUMENT);                                        \
        if (!strstr(ftl_context_error(context), words))                                            \
            fail_msg("%s", ftl_context_error(context));                                            \
        assert_int_equal(launches, 0);                                                             \
    } while (0)
    REFUSED(n.struct_bytes = 8, "FTL_NSA_INIT");
    REFUSED(n.batch = -1, "may be negative");
    REFUSED(n.q_len = -1, "may be negative");
    REFUSED(n.kv_len = 100, "kv_len is from q_len to");
    REFUSED(n.q_heads = 33, "multiple of kv_heads");
    REFUSED(n.kv_heads = 0, "multiple of kv_heads");
    REFUSED(n.q_heads = 24, "8, 16, ... query heads share a key head here, not 12");
    REFUSED(n.top = 12, "8, 16, ... 64 blocks, or 0 for 16; not 12");
    REFUSED(n.top = 72, "not 72");
    REFUSED(n.top = -8, "not -8");
    REFUSED(n.quad = 9, "1 to 8 queries");
    REFUSED(n.quad = -1, "1 to 8 queries");
    REFUSED(n.window = -1, "window");
    REFUSED(n.scale = -1, "scale");
    REFUSED(n.dtype = FTL_F32, "FTL_F16 or FTL_BF16");
    REFUSED(n.k_mean.address = MEANS, "both the caller's, or neither");
    REFUSED(n.mean_blocks = 1, "0 to 0, not 1");
    REFUSED((n.k_mean = n.v_mean = dense(MEANS, 5, 2, 64), n.mean_blocks = 5), "0 to 4, not 5");
    REFUSED(n.workspace = 0, "ftl_nsa_workspace");
    REFUSED(n.workspace = WORKSPACE + 8, "the workspace has 0 bytes");
    REFUSED(n.workspace_bytes -= 1, "ftl_nsa_workspace");
    REFUSED((n.batch = INT64_MAX / 2, n.workspace_bytes = SIZE_MAX), "too large together");
#undef REFUSED
    n = sample(101, 300);
    n.o.length_stride = 7;
    assert_int_equal(attend(&n), FTL_INVALID_ARGUMENT);
    assert_non_null(strstr(ftl_context_error(context), "'O'"));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(steps_pass_on_what_they_make),
        TEST(means_that_are_there_stay),
        TEST(what_is_prepared_is_not_made_again),
        TEST(results_lie_apart),
        TEST(wrong_calls_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
