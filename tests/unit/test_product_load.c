/* Kernels that the library makes of a program are verified before they are loaded and cached. The
 * GPU and its compiler are fakes; the PTX that is verified is a real compiler's, of the kernel that
 * was asked for or of another one. Without a compiler there is nothing to test.
 */
#include "base/os.h"
#include "fake_scaled.h"
#include "flashtl/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#define OTHER_SKETCH                                                                               \
    "kernel scaled\n"                                                                              \
    "Input  A (i in n, j in m)\n"                                                                  \
    "Input  factor f32\n"                                                                          \
    "Output B (i in n, j in m)\n"                                                                  \
    "Copy A from global to register\n"                                                             \
    "Compute Add A, factor and get B\n"                                                            \
    "Copy B from register to global\n"

static fake_record *driver;
static fake_compiler *compiler;
static ftl_context *context;
static ftl_product *product, *other;
static char *right, *wrong; /* PTX of the product, and of the other one */
static char folder[256];

static ftl_product *build(const char *sketch) {
    ftl_product *made;
    ftl_source source = {"scaled", sketch, strlen(sketch)};
    assert_int_equal(ftl_build(context, &source, &scaled_options, &made), FTL_OK);
    return made;
}

static int set_up_all(void **state) {
    (void)state;
    driver = record_of(FAKE_CUDA, "fake_cuda");
    compiler = record_of(FAKE_NVRTC, "fake_nvrtc");
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    product = build(SCALED_SKETCH), other = build(OTHER_SKETCH);
    right = scaled_ptx(context, product), wrong = scaled_ptx(context, other);
    return 0;
}

static int tear_down_all(void **state) {
    (void)state;
    free(right);
    free(wrong);
    ftl_product_free(product);
    ftl_product_free(other);
    ftl_context_free(context);
    return 0;
}

static int set_up(void **state) {
    (void)state;
    os_error why;
    assert_true(os_temporary_folder(folder, &why));
    scaled_set_up(driver, compiler, product, right, NULL, NULL);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    os_remove_folder(folder);
    assert_int_equal(driver->loads, driver->unloads);
    return 0;
}

/* Loads from a runtime of its own, as a process would. */
static ftl_status load(const ftl_product *of, const char *ptx, bool is_unverified) {
    ftl_runtime *runtime;
    ftl_module *module = NULL;
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = FAKE_CUDA,
                                   .nvrtc_library = FAKE_NVRTC,
                                   .cache_folder = folder,
                                   .is_unverified = is_unverified};
    if (!right) skip();
    compiler->ptx = ptx;
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    ftl_status status = ftl_product_load(context, runtime, of, &module);
    assert_true((status == FTL_OK) == (module != NULL));
    ftl_module_free(module);
    ftl_runtime_close(runtime);
    return status;
}

typedef struct seen {
    int entries, verified;
} seen;

static void see(void *user, const ftl_cache_entry *entry) {
    seen *all = user;
    assert_false(entry->is_damaged);
    all->entries++;
    all->verified += entry->is_verified;
}

static void cache_is(int entries, int verified) {
    seen all = {0};
    assert_int_equal(ftl_cache_list(context, folder, see, &all), FTL_OK);
    assert_int_equal(all.entries, entries);
    assert_int_equal(all.verified, verified);
}

/* --- once ------------------------------------------------------------------------------------- */

static void right_kernels_are_verified_once(void **state) {
    (void)state;
    enum { IMAGE_AND_PTX = 2 };
    assert_int_equal(load(product, right, false), FTL_OK);
    assert_int_equal(compiler->compiles, IMAGE_AND_PTX);
    cache_is(1, 1);
    /* The second time nothing is compiled, and nothing run: it would be found wrong. */
    assert_int_equal(load(product, wrong, false), FTL_OK);
    assert_int_equal(compiler->compiles, IMAGE_AND_PTX);
    assert_int_equal(driver->loads, 2);
    assert_string_equal(ftl_context_take_warning(context), "");
}

static void wrong_kernels_are_refused_and_not_cached(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(load(product, wrong, false), FTL_CHECK_FAILED);
        const char *said = ftl_context_error(context);
        assert_non_null(strstr(said, "kernel 'scaled' for a100 is wrong on "));
        assert_non_null(strstr(said, "B: "));
        assert_int_equal(driver->loads, 0);
        cache_is(0, 0);
    }
}

/* PTX that the emulator does not know proves nothing. */
static void what_cannot_run_is_refused(void **state) {
    (void)state;
    assert_int_equal(load(product, "no PTX at all", false), FTL_REJECTED);
    assert_non_null(strstr(ftl_context_error(context), "kernel 'scaled' cannot be verified: "));
    assert_int_equal(driver->loads, 0);
    cache_is(0, 0);
}

static void compilers_failures_come_first(void **state) {
    (void)state;
    compiler->compile_result = 6;
    assert_int_equal(load(product, wrong, false), FTL_COMPILER_FAILED);
    assert_null(strstr(ftl_context_error(context), "verified"));
    cache_is(0, 0);
}

/* --- the option ------------------------------------------------------------------------------- */

static void verification_can_be_turned_off(void **state) {
    (void)state;
    assert_int_equal(load(product, wrong, true), FTL_OK);
    assert_int_equal(compiler->compiles, 1);
    cache_is(1, 0);
    assert_int_equal(load(product, wrong, true), FTL_OK); /* cached for those who do not ask */
    assert_int_equal(compiler->compiles, 1);
}

static void unverified_entries_are_verified_when_asked(void **state) {
    (void)state;
    assert_int_equal(load(product, right, true), FTL_OK);
    cache_is(1, 0);
    assert_int_equal(load(product, wrong, false), FTL_CHECK_FAILED);
    cache_is(1, 0);
    assert_int_equal(load(product, right, false), FTL_OK);
    cache_is(1, 1);
    assert_string_equal(ftl_context_take_warning(context), "");
    int compiles = compiler->compiles;
    assert_int_equal(load(product, wrong, true), FTL_OK); /* a verdict is no hindrance */
    assert_int_equal(compiler->compiles, compiles);
    cache_is(1, 1);
}

/* The same text is another kernel when it is to mean something else. */
static void verdicts_are_about_a_meaning(void **state) {
    (void)state;
    ftl_product mistaken = *product;
    mistaken.sketch = other->sketch;
    assert_int_equal(load(product, right, false), FTL_OK);
    assert_int_equal(load(&mistaken, right, false), FTL_CHECK_FAILED);
    cache_is(1, 1);
}

/* Where no sizes fulfil the program's own conditions, nothing can be compared: said, not cached as
 * verified.
 */
static void what_was_not_compared_is_told(void **state) {
    (void)state;
    ftl_product *none = build("kernel scaled\n"
                              "Input  A (i in n, j in m) where n % 7 == 8\n"
                              "Input  factor f32\n"
                              "Output B (i in n, j in m)\n"
                              "Copy A from global to register\n"
                              "Compute Multiply A, factor and get B\n"
                              "Copy B from register to global\n");
    ftl_status status = load(none, right, false);
    ftl_product_free(none);
    assert_int_equal(status, FTL_OK);
    assert_non_null(strstr(ftl_context_take_warning(context), "was not verified"));
    cache_is(1, 0);
}

/* --- others ----------------------------------------------------------------------------------- */

typedef struct worker {
    ftl_runtime *runtime;
    ftl_status expected;
} worker;

static int load_often(void *of) {
    const worker *w = of;
    ftl_context *own;
    if (ftl_context_new(&own) != FTL_OK) return 1;
    int failures = 0;
    for (int i = 0; i < 3; i++) {
        ftl_module *module;
        failures += ftl_product_load(own, w->runtime, product, &module) != w->expected;
        ftl_module_free(module);
    }
    ftl_context_free(own);
    return failures;
}

static void threads_verify_beside_one_another(void **state) {
    (void)state;
    enum { THREADS = 4 };
    if (!right) skip();
    for (int is_wrong = 0; is_wrong < 2; is_wrong++) {
        thrd_t threads[THREADS];
        worker w = {.expected = is_wrong ? FTL_CHECK_FAILED : FTL_OK};
        ftl_runtime_options options = {
            .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
        compiler->ptx = is_wrong ? wrong : right;
        assert_int_equal(ftl_runtime_open(context, &options, &w.runtime), FTL_OK);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(thrd_create(&threads[i], load_often, &w), thrd_success);
        for (int i = 0; i < THREADS; i++) {
            int failures = 1;
            thrd_join(threads[i], &failures);
            assert_int_equal(failures, 0);
        }
        ftl_runtime_close(w.runtime);
    }
    driver->loads = driver->unloads = 0; /* four threads count in turns of their own */
}

/* ftl_attention_forward asks as others do: a kernel that is none of those that ship. */
static void attention_is_verified(void **state) {
    (void)state;
    ftl_attention a = FTL_ATTENTION_INIT;
    ftl_runtime *runtime;
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = FAKE_CUDA,
                                   .nvrtc_library = FAKE_NVRTC,
                                   .cache_folder = folder};
    if (!right) skip();
    compiler->ptx = "no PTX at all";
    a.dtype = FTL_F16, a.head_dim = 88, a.q_len = a.kv_len = 2000;
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    assert_int_equal(ftl_attention_prepare(context, runtime, &a), FTL_REJECTED);
    assert_non_null(strstr(ftl_context_error(context), "kernel 'attention' cannot be verified: "));
    ftl_runtime_close(runtime);
    cache_is(0, 0);
    assert_int_equal(driver->loads, 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(right_kernels_are_verified_once),   TEST(wrong_kernels_are_refused_and_not_cached),
        TEST(what_cannot_run_is_refused),        TEST(compilers_failures_come_first),
        TEST(verification_can_be_turned_off),    TEST(unverified_entries_are_verified_when_asked),
        TEST(verdicts_are_about_a_meaning),      TEST(what_was_not_compared_is_told),
        TEST(threads_verify_beside_one_another), TEST(attention_is_verified),
    };
    return cmocka_run_group_tests(tests, set_up_all, tear_down_all);
}
