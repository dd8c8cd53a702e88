/* Where kernels run: interpreter, emulator, GPU. */
#include "flashtl/execute.h"
#include "verify/program.h"

#include "base/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double INTERPRETER_FLOPS = 1.5e9, EMULATOR_FLOPS = 1.5e9, GPU_FLOPS = 2e12;
static const double REPEATED_FLOPS = 2e8;         /* on the CPU, where launches repeat themselves */
static const int64_t LAUNCH_MILLISECONDS = 10000; /* a kernel that runs longer hangs */

enum { KERNELS_MAX = 64 };

struct verify_machine {
    verify_runner runner;
    const verify_program *program;
    int32_t kernel_count;
    ftl_emulator *emulators[KERNELS_MAX];
    ftl_module *modules[KERNELS_MAX];
    ftl_runtime *runtime;
    ftl_timer *timer;
    bool is_hung; /* a kernel still runs: whatever is asked of the device now would wait for it */
    char title[96];
};

/* --- interpreter ------------------------------------------------------------------------------ */

/* The first line of the diagnostics, for a one-line report. */
static void add_first_line(const char *text, text_buffer *detail) {
    str rest = str_from(text);
    text_add(detail, str_cut(&rest, '\n'));
}

static ftl_status interpret(void *user, ftl_context *context, const ftl_arguments *arguments,
                            double *milliseconds, text_buffer *detail) {
    const verify_machine *m = user;
    const ftl_source *code = &m->program->code;
    if (!code->text) code = &m->program->sketch;
    int64_t begin = os_time_ns();
    ftl_status status = ftl_interpret(context, code, FTL_ROUNDED, arguments);
    *milliseconds = (double)(os_time_ns() - begin) / 1e6;
    if (status == FTL_REJECTED) {
        char *text = ftl_context_diagnostics(context, FTL_DIAGNOSTICS_TEXT);
        add_first_line(text, detail);
        ftl_free(text);
    }
    return status;
}

/* --- GPU -------------------------------------------------------------------------------------- */

/* A tensor's bytes with its guard bands, here and on the device. The device's copy begins at the
 * same remainder of 256, so that its alignment is neither better nor worse.
 */
typedef struct region {
    unsigned char *host;
    size_t bytes;
    uint64_t allocation, device;
} region;

static region region_of(const ftl_tensor *t) {
    int64_t below = 0, above = 1;
    bool has_elements = true;
    for (int32_t i = 0; i < t->axis_count; i++) has_elements &= t->extents[i] > 0;
    for (int32_t i = 0; i < t->axis_count && has_elements; i++) {
        int64_t reach = (t->extents[i] - 1) * t->strides[i];
        if (reach < 0) below += reach;
        else above += reach;
    }
    int64_t bits = (int64_t)ftl_type_bits(t->type);
    below = (below * bits - 7) / 8, above = (above * bits + 7) / 8;
    unsigned char *first = (unsigned char *)(uintptr_t)t->address + below - VERIFY_GUARD_BYTES;
    return (region){.host = first, .bytes = (size_t)(above - below) + 2 * VERIFY_GUARD_BYTES};
}

static ftl_status send(verify_machine *m, ftl_context *context, const ftl_arguments *arguments,
                       region *regions, ftl_tensor *there) {
    for (int32_t i = 0; i < arguments->tensor_count; i++) {
        region *r = &regions[i];
        *r = region_of(&arguments->tensors[i]);
        ftl_status status =
            ftl_device_allocate(context, m->runtime, r->bytes + 256, &r->allocation);
        if (status) return status;
        r->device = r->allocation + (uint64_t)(uintptr_t)r->host % 256;
        status = ftl_device_write(context, m->runtime, r->device, r->host, r->bytes);
        if (status) return status;
        there[i] = arguments->tensors[i];
        there[i].address = r->device + (there[i].address - (uint64_t)(uintptr_t)r->host);
    }
    return FTL_OK;
}

/* Runs all kernels, each on its share of the arguments. */
typedef ftl_status one_kernel(verify_machine *m, ftl_context *context, int32_t kernel,
                              const ftl_arguments *own, text_buffer *detail);
static ftl_status run_kernels(verify_machine *m, ftl_context *context, one_kernel *run,
                              const ftl_arguments *arguments, text_buffer *detail) {
    ftl_tensor *tensors = calloc((size_t)arguments->tensor_count + 1, sizeof *tensors);
    ftl_scalar *scalars = calloc((size_t)arguments->scalar_count + 1, sizeof *scalars);
    ftl_status status =
        tensors && scalars ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    for (int32_t i = 0; !status && i < m->kernel_count; i++) {
        ftl_plan *plan = program_kernel(m->program, i).plan;
        ftl_arguments own = program_arguments(plan, arguments, tensors, scalars);
        status = run(m, context, i, &own, detail);
    }
    free(tensors);
    free(scalars);
    return status;
}

static ftl_status launch_one(verify_machine *m, ftl_context *context, int32_t kernel,
                             const ftl_arguments *own, text_buffer *detail) {
    (void)detail;
    return ftl_module_launch(context, m->modules[kernel], own, NULL);
}

static ftl_status launch_there(verify_machine *m, ftl_context *context,
                               const ftl_arguments *arguments, double *milliseconds) {
    ftl_status status = ftl_timer_start(context, m->timer, NULL);
    if (!status) status = run_kernels(m, context, launch_one, arguments, NULL);
    if (!status) status = ftl_stream_wait(context, m->runtime, NULL, LAUNCH_MILLISECONDS);
    if (!status) status = ftl_timer_stop(context, m->timer, NULL, milliseconds);
    return status;
}

static ftl_status run_on_gpu(void *user, ftl_context *context, const ftl_arguments *arguments,
                             double *milliseconds, text_buffer *detail) {
    (void)detail;
    verify_machine *m = user;
    size_t count = (size_t)arguments->tensor_count + 1;
    region *regions = calloc(count, sizeof *regions);
    ftl_tensor *there = calloc(count, sizeof *there);
    ftl_status status =
        regions && there ? FTL_OK : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (!status) status = send(m, context, arguments, regions, there);
    if (!status) {
        ftl_arguments moved = *arguments;
        moved.tensors = there;
        status = launch_there(m, context, &moved, milliseconds);
    }
    for (int32_t i = 0; !status && i < arguments->tensor_count; i++) {
        status = ftl_device_read(context, m->runtime, regions[i].host, regions[i].device,
                                 regions[i].bytes);
    }
    m->is_hung |= status == FTL_TIMEOUT;
    for (int32_t i = 0; regions && !m->is_hung && i < arguments->tensor_count; i++) {
        if (regions[i].allocation) ftl_device_free(m->runtime, regions[i].allocation);
    }
    free(regions);
    free(there);
    return status;
}

/* --- emulator --------------------------------------------------------------------------------- */

/* Every other case has blocks, warps and landing copies in an order of its own. */
static uint64_t order_of(const ftl_arguments *arguments) {
    uint64_t sum = 0;
    for (int32_t i = 0; i < arguments->tensor_count; i++)
        for (int32_t a = 0; a < arguments->tensors[i].axis_count; a++)
            sum += (uint64_t)arguments->tensors[i].extents[a];
    return sum % 2 ? sum : 0;
}

static ftl_status emulate_one(verify_machine *m, ftl_context *context, int32_t kernel,
                              const ftl_arguments *own, text_buffer *detail) {
    ftl_emulation result;
    ftl_emulation_options options = {.struct_bytes = sizeof options, .seed = order_of(own)};
    ftl_status status = ftl_emulate(context, m->emulators[kernel], own, &options, &result);
    if (status == FTL_CHECK_FAILED) add_first_line(result.findings, detail);
    ftl_emulation_done(&result);
    return status;
}

static ftl_status emulate(void *user, ftl_context *context, const ftl_arguments *arguments,
                          double *milliseconds, text_buffer *detail) {
    int64_t begin = os_time_ns();
    ftl_status status = run_kernels(user, context, emulate_one, arguments, detail);
    *milliseconds = (double)(os_time_ns() - begin) / 1e6;
    return status;
}

/* --- opening ---------------------------------------------------------------------------------- */

static ftl_status open_emulator(ftl_context *context, verify_machine *m, int32_t i) {
    ftl_kernel kernel = program_kernel(m->program, i);
    const ftl_plan *plan = kernel.plan;
    ftl_image image;
    ftl_status status =
        ftl_compile_cuda(context, m->runtime, kernel.cuda, plan->kernel, plan->target, &image);
    if (status) return status;
    const char *ptx = image.kind == FTL_PTX ? image.bytes : image.ptx;
    size_t length = image.kind == FTL_PTX ? image.length : ptx ? strlen(ptx) : 0;
    snprintf(m->title, sizeof m->title, "emulator (%s, %s)", plan->target, image.compiler);
    if (ptx) status = ftl_emulator_open(context, plan, ptx, length, plan->kernel, &m->emulators[i]);
    else status = ftl_context_fail(context, FTL_NO_COMPILER, "%s gave no PTX", image.compiler);
    ftl_image_done(&image);
    m->runner = (verify_runner){m->title, emulate, m, EMULATOR_FLOPS, REPEATED_FLOPS, false};
    return status;
}

static ftl_status open_gpu(ftl_context *context, verify_machine *m, int32_t i) {
    ftl_kernel kernel = program_kernel(m->program, i);
    const ftl_image *image = m->program->image;
    ftl_status status =
        image ? ftl_module_load_image(context, m->runtime, kernel.plan, image->bytes, image->length,
                                      &m->modules[i])
              : ftl_module_load(context, m->runtime, kernel.plan, kernel.cuda, &m->modules[i]);
    if (!status && !m->timer) status = ftl_timer_new(context, m->runtime, &m->timer);
    snprintf(m->title, sizeof m->title, "GPU (%s)", kernel.plan->target);
    m->runner = (verify_runner){m->title, run_on_gpu, m, GPU_FLOPS, 0, false};
    return status;
}

ftl_status verify_machine_open(ftl_context *context, const verify_program *program, verify_on on,
                               ftl_runtime *runtime, verify_machine **out) {
    *out = NULL;
    bool needs_kernel = on == VERIFY_EMULATOR || on == VERIFY_GPU;
    int32_t count = program_kernel_count(program);
    if (needs_kernel && (!runtime || count < 1 || count > KERNELS_MAX)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT,
                                "there is no kernel to run: only the "
                                "interpreter runs programs that were not translated");
    }
    verify_machine *m = calloc(1, sizeof *m);
    if (!m) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    m->program = program, m->runtime = runtime, m->kernel_count = count;
    m->runner =
        (verify_runner){"interpreter", interpret, m, INTERPRETER_FLOPS, REPEATED_FLOPS, true};
    ftl_status status = FTL_OK;
    for (int32_t i = 0; needs_kernel && i < count && !status; i++) {
        status = on == VERIFY_EMULATOR ? open_emulator(context, m, i) : open_gpu(context, m, i);
    }
    if (status) verify_machine_close(m);
    else *out = m;
    return status;
}

const verify_runner *verify_machine_runner(const verify_machine *machine) {
    return &machine->runner;
}

void verify_machine_close(verify_machine *m) {
    if (!m) return;
    for (int32_t i = 0; i < KERNELS_MAX; i++) {
        ftl_emulator_close(m->emulators[i]);
        if (!m->is_hung) ftl_module_free(m->modules[i]);
    }
    if (!m->is_hung) ftl_timer_free(m->timer);
    free(m);
}
