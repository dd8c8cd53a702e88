#include "base/os.h"
#include "fake_cuda.h"
#include "fake_library.h"
#include "flashtl/runtime.h"
#include "plan_sample.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        .capability = 80, .device_count = 1, .driver_version = 13000, .parameter_bytes = 152};
    *compiler = (fake_compiler){.major = 13};
    assert_int_equal(ftl_context_new(&context), FTL_OK);
    ftl_runtime_options options = {
        .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
    assert_int_equal(ftl_runtime_open(context, &options, &runtime), FTL_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    ftl_runtime_close(runtime);
    ftl_context_free(context);
    return 0;
}

static ftl_module *load(void) {
    ftl_module *module = NULL;
    ftl_status status = ftl_module_load(context, runtime, &sample_plan, "text", &module);
    assert_string_equal(ftl_status_name(status), "OK");
    return module;
}

static void launches_what_the_plan_says(void **state) {
    (void)state;
    ftl_module *module = load();
    assert_int_equal(driver->shared_attribute, 65536);
    assert_string_equal(driver->image, "text");
    assert_non_null(strstr(compiler->options, "--gpu-architecture=sm_80 "));
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    int stream;
    assert_int_equal(ftl_module_launch(context, module, &arguments, &stream), FTL_OK);
    assert_int_equal(driver->launches, 1);
    assert_int_equal(driver->grid, 32);
    assert_int_equal(driver->threads, 128);
    assert_int_equal(driver->shared_bytes, 65536);
    assert_ptr_equal(driver->stream, &stream);
    int32_t kv_len;
    memcpy(&kv_len, driver->parameters + 144, 4);
    assert_int_equal(kv_len, 200);
    ftl_module_free(module);
    assert_int_equal(driver->unloads, 1);
}

/* Where the driver captures such launches, too; else as any other. */
static void kernels_that_wait_begin_early(void **state) {
    (void)state;
    static const int versions[] = {12020, 12030, 13000};
    ftl_plan plan = sample_plan;
    plan.is_early = true;
    for (int i = 0; i < 3; i++) {
        ftl_runtime *other;
        ftl_module *module;
        int stream;
        const ftl_runtime_options options = {
            .struct_bytes = sizeof options, .cuda_library = FAKE_CUDA, .nvrtc_library = FAKE_NVRTC};
        driver->driver_version = versions[i], driver->early_launches = driver->launches = 0;
        driver->stream = NULL, driver->grid = driver->threads = driver->shared_bytes = 0;
        assert_int_equal(ftl_runtime_open(context, &options, &other), FTL_OK);
        assert_int_equal(ftl_module_load(context, other, &plan, "text", &module), FTL_OK);
        sample_call call = sample_arguments(2, 8, 4, 100, 200);
        ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
        assert_int_equal(ftl_module_launch(context, module, &arguments, &stream), FTL_OK);
        assert_int_equal(driver->launches, 1);
        assert_int_equal(driver->early_launches, i > 0);
        assert_int_equal(driver->grid, 32);
        assert_int_equal(driver->threads, 128);
        assert_int_equal(driver->shared_bytes, 65536);
        assert_ptr_equal(driver->stream, &stream);
        driver->launch_result = 1;
        assert_int_equal(ftl_module_launch(context, module, &arguments, &stream),
                         FTL_DRIVER_FAILED);
        driver->launch_result = 0;
        ftl_module_free(module);
        ftl_runtime_close(other);
    }
}

static void nothing_to_do_is_no_launch(void **state) {
    (void)state;
    ftl_module *module = load();
    sample_call call = sample_arguments(0, 8, 4, 100, 200);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    assert_int_equal(ftl_module_launch(context, module, &arguments, NULL), FTL_OK);
    assert_int_equal(driver->launches, 0);
    ftl_module_free(module);
}

static void bad_arguments_reach_no_gpu(void **state) {
    (void)state;
    ftl_module *module = load();
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    call.tensors[1].address = 0;
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    assert_int_equal(ftl_module_launch(context, module, &arguments, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context), "the address of 'K' is null");
    assert_int_equal(ftl_module_launch(NULL, module, &arguments, NULL), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_module_launch(context, module, NULL, NULL), FTL_INVALID_ARGUMENT);
    assert_int_equal(ftl_module_launch(context, NULL, &arguments, NULL), FTL_INVALID_ARGUMENT);
    assert_int_equal(driver->launches, 0);
    ftl_module_free(module);
}

/* A kernel copies 16 bytes at a time: an address or a row that begins elsewhere is one sentence. */
static void misaligned_pointers_are_refused(void **state) {
    (void)state;
    ftl_module *module = load();
    for (int t = 0; t < 4; t++) {
        for (uint64_t offset = 1; offset < 16; offset++) {
            sample_call call = sample_arguments(2, 8, 4, 100, 200);
            call.tensors[t].address += offset;
            ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
            char expected[256];
            snprintf(expected, sizeof expected,
                     "the address of '%s' (0x%llx) must be a multiple of 16 bytes",
                     call.tensors[t].name, (unsigned long long)call.tensors[t].address);
            assert_int_equal(ftl_module_launch(context, module, &arguments, NULL),
                             FTL_INVALID_ARGUMENT);
            assert_string_equal(ftl_context_error(context), expected);
        }
    }
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    call.tensors[1].strides[2] += 4;
    assert_int_equal(ftl_module_launch(context, module, &arguments, NULL), FTL_INVALID_ARGUMENT);
    assert_string_equal(ftl_context_error(context),
                        "stride 68 of axis kv of 'K' must be a multiple of 8 elements (16 bytes)");
    assert_int_equal(driver->launches, 0);
    ftl_module_free(module);
}

static void code_fits_the_device(void **state) {
    (void)state;
    static const struct {
        int capability;
        const char *option, *image;
    } cases[] = {
        {80, "=sm_80 ", "text"},
        {86, "=sm_86 ", "text"},
        {90, "=compute_80 ", "ptx:text"}, /* a later generation: the driver finishes it */
        {87, "=compute_80 ", "ptx:text"}, /* one that this NVRTC does not know */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        driver->capability = cases[i].capability;
        ftl_module_free(load());
        assert_non_null(strstr(compiler->options, cases[i].option));
        assert_string_equal(driver->image, cases[i].image);
    }
    driver->capability = 75;
    ftl_module *module;
    assert_int_equal(ftl_module_load(context, runtime, &sample_plan, "text", &module),
                     FTL_NO_DEVICE);
    assert_string_equal(ftl_context_error(context),
                        "kernel 'attention' is for compute_80; this GPU has capability 7.5");
    assert_null(module);
}

static void missing_libraries_are_one_sentence(void **state) {
    (void)state;
    ftl_runtime *without;
    ftl_runtime_options options = {.struct_bytes = sizeof options,
                                   .cuda_library = "/no/libcuda.so",
                                   .nvrtc_library = "/no/nvrtc.so"};
    assert_int_equal(ftl_runtime_open(context, &options, &without), FTL_OK);
    int32_t count;
    assert_int_equal(ftl_device_count(context, without, &count), FTL_NO_DRIVER);
    assert_non_null(
        strstr(ftl_context_error(context), "no CUDA driver: cannot open the library: "));
    ftl_image image;
    assert_int_equal(ftl_compile_cuda(context, without, "text", "k.cu", "sm_80", &image),
                     FTL_NO_COMPILER);
    assert_non_null(strstr(ftl_context_error(context), "no NVRTC: "));
    ftl_runtime_close(without);
}

static void driver_failures_are_told(void **state) {
    (void)state;
    ftl_module *module;
    driver->load_result = 222;
    assert_int_equal(ftl_module_load(context, runtime, &sample_plan, "text", &module),
                     FTL_DRIVER_TOO_OLD);
    assert_non_null(
        strstr(ftl_context_error(context), "the kernel's PTX is newer than the driver"));
    driver->load_result = 0;
    module = load();
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    driver->launch_result = 700;
    assert_int_equal(ftl_module_launch(context, module, &arguments, NULL), FTL_KERNEL_FAULT);
    assert_string_equal(ftl_context_error(context),
                        "cannot launch kernel 'attention': an illegal memory access was "
                        "encountered (CUDA_ERROR_700)");
    driver->query_result = 719;
    assert_int_equal(ftl_stream_wait(context, runtime, NULL, 100), FTL_KERNEL_FAULT);
    driver->query_result = 600;
    assert_int_equal(ftl_stream_wait(context, runtime, NULL, 20), FTL_TIMEOUT);
    driver->query_result = 0;
    assert_int_equal(ftl_stream_wait(context, runtime, NULL, 0), FTL_OK);
    driver->allocate_result = 2;
    uint64_t address;
    assert_int_equal(ftl_device_allocate(context, runtime, 16, &address), FTL_NO_MEMORY);
    ftl_module_free(module);
}

static void driver_that_does_not_start(void **state) {
    (void)state;
    driver->init_result = 100;
    int32_t count;
    assert_int_equal(ftl_device_count(context, runtime, &count), FTL_NO_DRIVER);
    assert_string_equal(ftl_context_error(context),
                        "no CUDA driver: the CUDA driver does not start: some error "
                        "(CUDA_ERROR_100)");
}

static void compiler_speaks(void **state) {
    (void)state;
    ftl_image image;
    assert_int_equal(ftl_compile_cuda(context, runtime, "text", "k.cu", "sm_80", &image), FTL_OK);
    assert_int_equal(image.registers, 42);
    assert_int_equal(image.spill_bytes, 28);
    assert_int_equal(image.stack_bytes, 8);
    assert_string_equal(image.compiler, "NVRTC 13.0");
    assert_string_equal(image.ptx, "ptx:text");
    ftl_image_done(&image);
    assert_int_equal(ftl_compile_cuda(context, runtime, "PLANTED ERROR", "k.cu", "sm_80", &image),
                     FTL_COMPILER_FAILED);
    assert_string_equal(ftl_context_error(context),
                        "NVRTC 13.0 rejects k.cu for sm_80: kernel.cu(1): error: a planted one");
}

/* What NVRTC says of itself is no verdict on the text. */
static void compiler_fails_by_itself(void **state) {
    (void)state;
    static const struct {
        int result;
        ftl_status status;
    } cases[] = {
        {1, FTL_NO_MEMORY},
        {2, FTL_COMPILER_BROKEN},
        {5, FTL_COMPILER_BROKEN},
        {6, FTL_COMPILER_FAILED},
        {7, FTL_COMPILER_BROKEN},
        {11, FTL_COMPILER_FAILED},
        {0, FTL_OK},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ftl_image image;
        compiler->compile_result = cases[i].result;
        ftl_status status = ftl_compile_cuda(context, runtime, "text", "k.cu", "sm_80", &image);
        assert_int_equal(status, cases[i].status);
        ftl_image_done(&image);
    }
    compiler->compile_result = 5;
    ftl_module *module;
    assert_int_equal(ftl_module_load(context, runtime, &sample_plan, "text", &module),
                     FTL_COMPILER_BROKEN);
    assert_string_equal(
        ftl_context_error(context),
        "NVRTC 13.0 cannot compile attention_a100.cu for sm_80: nvrtc: error: a planted "
        "failure of its own");
    compiler->compile_result = 0;
}

static void targets_have_one_form(void **state) {
    (void)state;
    static const char *const none[] = {"",        "80",         "sm_",        "sm_8",   "sm_80x",
                                       "sm_9000", "compute-80", "sm_80 -I /", "sm_90af"};
    ftl_image image;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        assert_int_equal(ftl_compile_cuda(context, runtime, "text", "k.cu", none[i], &image),
                         FTL_INVALID_ARGUMENT);
    }
    assert_int_equal(ftl_compile_cuda(context, runtime, "text", "k.cu", "sm_90a", &image), FTL_OK);
    ftl_image_done(&image);
}

static void devices(void **state) {
    (void)state;
    ftl_device device;
    assert_int_equal(ftl_device_describe(context, runtime, 0, &device), FTL_OK);
    assert_string_equal(device.name, "Fake GPU 0");
    assert_int_equal(device.major, 8);
    assert_int_equal(ftl_device_describe(context, runtime, 1, &device), FTL_NO_DEVICE);
    assert_int_equal(ftl_device_use(context, runtime, 0), FTL_OK);
    assert_int_equal(ftl_device_use(context, runtime, 0), FTL_OK);
    assert_int_equal(ftl_device_use(context, runtime, -1), FTL_NO_DEVICE);
    assert_int_equal(driver->retains - driver->releases, 1);
    ftl_timer *timer;
    double time_ms;
    assert_int_equal(ftl_timer_new(context, runtime, &timer), FTL_OK);
    assert_int_equal(ftl_timer_start(context, timer, NULL), FTL_OK);
    assert_int_equal(ftl_timer_stop(context, timer, NULL, &time_ms), FTL_OK);
    assert_true(time_ms == 1.0);
    ftl_timer_free(timer);
}

/* Time of a launch beyond the driver's own, which here does next to nothing. */
static void launch_overhead(void **state) {
    (void)state;
    enum { LAUNCHES = 20000 };
    ftl_module *module = load();
    sample_call call = sample_arguments(2, 8, 4, 100, 200);
    ftl_arguments arguments = {call.tensors, 4, call.scalars, 1};
    int64_t start_ns = os_cpu_time_ns();
    for (int i = 0; i < LAUNCHES; i++) ftl_module_launch(context, module, &arguments, NULL);
    double each_us = (double)(os_cpu_time_ns() - start_ns) / 1000 / LAUNCHES;
    print_message("a launch takes %.3f us beyond the driver\n", each_us);
    assert_int_equal(driver->launches, LAUNCHES);
    ftl_module_free(module);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(launches_what_the_plan_says),
        TEST(kernels_that_wait_begin_early),
        TEST(nothing_to_do_is_no_launch),
        TEST(bad_arguments_reach_no_gpu),
        TEST(misaligned_pointers_are_refused),
        TEST(code_fits_the_device),
        TEST(missing_libraries_are_one_sentence),
        TEST(driver_failures_are_told),
        TEST(driver_that_does_not_start),
        TEST(compiler_speaks),
        TEST(compiler_fails_by_itself),
        TEST(targets_have_one_form),
        TEST(devices),
        TEST(launch_overhead),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
