/* A kernel that multiplies a matrix by a factor, for a GPU that is none: its text is compiled, what
 * it does when it is launched a test says.
 */
#ifndef TESTS_FAKE_SCALED_H
#define TESTS_FAKE_SCALED_H

#include "base/convert.h"
#include "fake_cuda.h"
#include "fake_launch.h"
#include "fake_library.h"
#include "flashtl/flashtl.h"
#include "flashtl/runtime.h"

#define SCALED_SKETCH                                                                              \
    "kernel scaled\n"                                                                              \
    "Input  A (i in n, j in m)\n"                                                                  \
    "Input  factor f32\n"                                                                          \
    "Output B (i in n, j in m)\n"                                                                  \
    "Copy A from global to register\n"                                                             \
    "Compute Multiply A, factor and get B\n"                                                       \
    "Copy B from register to global\n"

static const ftl_options scaled_options = {
    .struct_bytes = sizeof(ftl_options), .gpu = "a100", .dtype = FTL_F16};

/* PTX of the kernel, malloc'd, for the compiler that is none; NULL where nothing compiles CUDA. */
static char *scaled_ptx(ftl_context *context, const ftl_product *product) {
    const ftl_kernel *kernel = &product->kernels[0];
    ftl_runtime_options own = {
        .struct_bytes = sizeof own, .cuda_library = FAKE_CUDA, .nvrtc_library = ""};
    ftl_runtime *runtime;
    ftl_image image;
    assert_int_equal(ftl_runtime_open(context, &own, &runtime), FTL_OK);
    ftl_status status =
        ftl_compile_cuda(context, runtime, kernel->cuda, "kernel.cu", kernel->plan->target, &image);
    ftl_runtime_close(runtime);
    if (status == FTL_NO_COMPILER) return NULL;
    assert_int_equal(status, FTL_OK);
    assert_int_equal(image.kind, FTL_PTX);
    char *ptx = image.bytes;
    image.bytes = NULL;
    ftl_image_done(&image);
    return ptx;
}

/* A GPU on which every launch is one of 'on_launch'. */
static inline void scaled_set_up(fake_record *driver, fake_compiler *compiler,
                                 const ftl_product *product, const char *ptx,
                                 void (*on_launch)(void *user, const unsigned char *parameters),
                                 void *user) {
    *driver = (fake_record){.capability = 80,
                            .device_count = 1,
                            .driver_version = 13000,
                            .parameter_bytes = (size_t)product->kernels[0].plan->parameter_bytes,
                            .on_launch = on_launch,
                            .user = user,
                            .clock_ms = 1};
    *compiler = (fake_compiler){.major = 13, .ptx = ptx};
}

static inline float scaled_factor(const ftl_plan *plan, const unsigned char *parameters) {
    float factor;
    memcpy(&factor, parameters + plan->scalars[0].offset, sizeof factor);
    return factor;
}

static inline int64_t scaled_number_at(const unsigned char *parameters, int32_t offset,
                                       int64_t otherwise) {
    int64_t value;
    if (offset < 0) return otherwise;
    memcpy(&value, parameters + offset, sizeof value);
    return value;
}

/* An element of A (0) or B (1). */
static inline uint16_t *scaled_element(const ftl_plan *plan, int tensor,
                                       const unsigned char *parameters, int64_t row,
                                       int64_t column) {
    const ftl_plan_tensor *t = &plan->tensors[tensor];
    uint16_t *base = (uint16_t *)(uintptr_t)scaled_number_at(parameters, t->pointer_offset, 0);
    return base + row * scaled_number_at(parameters, t->axes[0].stride_offset, 1) +
           column * scaled_number_at(parameters, t->axes[1].stride_offset, 1);
}

/* Element (row, column) of B, as it should be. */
static inline double scaled_value(const ftl_plan *plan, const unsigned char *parameters,
                                  int64_t row, int64_t column) {
    return convert_from_bits(CONVERT_F16, *scaled_element(plan, 0, parameters, row, column)) *
           (double)scaled_factor(plan, parameters);
}

static inline void scaled_put(const ftl_plan *plan, const unsigned char *parameters, int64_t row,
                              int64_t column, double value) {
    *scaled_element(plan, 1, parameters, row, column) =
        (uint16_t)convert_to_bits(CONVERT_F16, (double)(float)value);
}

#endif
