/* GPU descriptions, as the public API shows them. */
#include "base/needs.h"
#include "compile/compile.h"
#include "compile/measured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 16 << 20 };

static void put_text(char *to, size_t capacity, str text) {
    snprintf(to, capacity, "%.*s", STR_ARGS(text));
}

/* Is it begun? Then all but its size becomes 0. */
static bool is_begun(ftl_context *context, ftl_gpu *out) {
    enum { FIRST_BYTES = sizeof(ftl_gpu), MOST = 4096 };
    if (out->struct_bytes >= FIRST_BYTES && out->struct_bytes <= MOST) {
        memset((char *)out + sizeof out->struct_bytes, 0,
               out->struct_bytes - sizeof out->struct_bytes);
        return true;
    }
    ftl_context_fail(context, FTL_INVALID_ARGUMENT, "the GPU was not begun with FTL_GPU_INIT");
    return false;
}

static void show(const gpu *g, ftl_gpu *out) {
    *out = (ftl_gpu){.struct_bytes = out->struct_bytes,
                     .capability = (int32_t)g->capability,
                     .multiprocessors = (int32_t)g->sms,
                     .shared_bytes = g->block_shared,
                     .l2_bytes = g->l2,
                     .memory_gb_per_s = g->memory,
                     .tensor_tflops = gpu_tensor_tflops(g),
                     .mma_tflops = gpu_mma_tflops(g)};
    put_text(out->name, sizeof out->name, g->name);
    put_text(out->title, sizeof out->title, g->title);
    put_text(out->target, sizeof out->target, g->target);
}

/* A name that is none, or a file that is not there, is the caller's word and one sentence; a
 * description with mistakes has diagnostics.
 */
ftl_status compile_find_gpu(ftl_context *context, const char *name, gpu *out) {
    diag_list problems;
    arena *memory = &context->memory;
    if (gpu_find(memory, str_copy(memory, str_from(name)), out, &problems)) return FTL_OK;
    const diag *first = problems.first;
    if (first->id == DIAG_GPU_FILE) {
        return ftl_context_fail(context, FTL_NO_FILE, "%.*s", STR_ARGS(first->message));
    }
    if (first->id == DIAG_GPU_UNKNOWN) {
        const diag *more = first->attached; /* all names; after it the nearest, when there is one */
        if (more->next) more = more->next;
        return ftl_context_fail(context, FTL_NOT_FOUND, "%.*s; %.*s", STR_ARGS(first->message),
                                STR_ARGS(more->message));
    }
    context->diags = problems;
    return compile_verdict(context);
}

ftl_status compile_gpu_of(ftl_context *context, const tl_kernel *kernel, const char *name,
                          gpu *out) {
    if (name) return compile_find_gpu(context, name, out);
    if (!kernel->gpu.length) {
        diag_report(&context->diags, DIAG_GPU_UNSAID, kernel->range, kernel->name);
        return compile_verdict(context);
    }
    ftl_status status = compile_find_gpu(context, str_copy_z(&context->memory, kernel->gpu), out);
    if (status != FTL_NOT_FOUND) return status;
    diag_report(&context->diags, DIAG_GPU_UNKNOWN, kernel->range, kernel->gpu);
    str nearest;
    if (gpu_nearest(&context->memory, kernel->gpu, &nearest)) {
        diag_report(&context->diags, DIAG_GPU_NEAREST, kernel->range, nearest);
    }
    diag_add(&context->diags, DIAG_GPU_ITS_FILE, kernel->range, NULL);
    return compile_verdict(context);
}

ftl_status compile_gpu_if_said(ftl_context *context, const tl_kernel *kernel, const char *name,
                               gpu *target, const gpu **known) {
    bool is_said = name || kernel->gpu.length;
    *known = is_said ? target : NULL;
    return is_said ? compile_gpu_of(context, kernel, name, target) : FTL_OK;
}

typedef struct gpu_arguments {
    const char *name;
    int32_t index;
    ftl_gpu *out;
    text_buffer text;
} gpu_arguments;

static ftl_status describe(ftl_context *context, void *arguments) {
    gpu_arguments *a = arguments;
    gpu found;
    ftl_status status = compile_find_gpu(context, a->name, &found);
    if (!status && a->out) show(&found, a->out);
    if (!status && !a->out) gpu_print(&found, &a->text);
    return status;
}

ftl_status ftl_gpu_describe(ftl_context *context, const char *name, ftl_gpu *out) {
    NEEDS(context);
    NEEDS(name);
    NEEDS(out);
    gpu_arguments a = {.name = name, .out = out};
    if (!is_begun(context, out)) return FTL_INVALID_ARGUMENT;
    return compile_guarded(context, describe, &a);
}

/* What 'work' adds to the text of a GPU's name, handed over. */
static ftl_status text_of(ftl_context *context, compile_work *work, const char *name, char **out) {
    gpu_arguments a = {.name = name};
    text_init(&a.text, TEXT_BYTES_MAX);
    return compile_to_text(context, work, &a, &a.text, out);
}

ftl_status ftl_gpu_text(ftl_context *context, const char *name, char **out) {
    NEEDS_RESULT(out);
    NEEDS(name);
    return text_of(context, describe, name, out);
}

static ftl_status describe_at(ftl_context *context, void *arguments) {
    gpu_arguments *a = arguments;
    gpu_names all = gpu_list(&context->memory);
    if (a->index < 0 || a->index >= all.count) {
        return ftl_context_fail(context, FTL_NOT_FOUND, "there are %d GPUs", all.count);
    }
    gpu found;
    ftl_status status =
        compile_find_gpu(context, str_copy_z(&context->memory, all.names[a->index]), &found);
    if (!status) show(&found, a->out);
    return status;
}

ftl_status ftl_gpu_at(ftl_context *context, int32_t index, ftl_gpu *out) {
    NEEDS(context);
    NEEDS(out);
    gpu_arguments a = {.index = index, .out = out};
    if (!is_begun(context, out)) return FTL_INVALID_ARGUMENT;
    return compile_guarded(context, describe_at, &a);
}

/* --- what was measured ------------------------------------------------------------------------ */

static ftl_status find_measured(ftl_context *context, void *arguments) {
    gpu_arguments *a = arguments;
    gpu found;
    ftl_status status = compile_find_gpu(context, a->name, &found);
    if (!status) text_add(&a->text, measured_shipped(a->name, &found));
    return status;
}

ftl_status ftl_measured_text(ftl_context *context, const char *name, char **out) {
    NEEDS_RESULT(out);
    NEEDS(name);
    return text_of(context, find_measured, name, out);
}

/* --- which description fits a device ---------------------------------------------------------- */

typedef struct device_arguments {
    const char *name;
    int32_t capability, multiprocessors;
    ftl_gpu *out;
} device_arguments;

/* Whether the device's name ("NVIDIA A100-SXM4-80GB") begins with one of the GPU's names. */
static bool is_named(const gpu *g, str device) {
    str rest = g->aliases;
    for (str name = g->title; name.length; name = str_trim(str_cut(&rest, ','))) {
        bool is_it = str_starts(device, name) &&
                     (device.length == name.length || strchr(" -,", device.data[name.length]));
        if (is_it) return true;
        if (!rest.length) break;
    }
    return false;
}

/* Smaller is better; -1: does not fit at all. */
static int64_t misfit(const gpu *g, const device_arguments *device) {
    if (g->capability > device->capability) return -1;
    int64_t sms = llabs(g->sms - device->multiprocessors);
    int64_t distance = device->capability - g->capability;
    bool is_that = distance == 0 && is_named(g, str_from(device->name));
    return is_that ? sms : (1 + distance) * 1000000 + sms;
}

static ftl_status find_for_device(ftl_context *context, void *arguments) {
    const device_arguments *a = arguments;
    gpu_names all = gpu_list(&context->memory);
    int64_t least = -1;
    for (int i = 0; i < all.count; i++) {
        gpu found;
        const char *name = str_copy_z(&context->memory, all.names[i]);
        if (compile_find_gpu(context, name, &found) != FTL_OK) return FTL_REJECTED;
        int64_t distance = misfit(&found, a);
        if (distance < 0 || (least >= 0 && distance >= least)) continue;
        least = distance;
        show(&found, a->out);
    }
    if (least >= 0) return FTL_OK;
    return ftl_context_fail(context, FTL_NOT_FOUND,
                            "no GPU description fits '%s' (capability %d.%d)", a->name,
                            a->capability / 10, a->capability % 10);
}

ftl_status ftl_gpu_for_device(ftl_context *context, const char *device_name, int32_t capability,
                              int32_t multiprocessors, ftl_gpu *out) {
    NEEDS(context);
    NEEDS(device_name);
    NEEDS(out);
    device_arguments a = {device_name, capability, multiprocessors, out};
    if (!is_begun(context, out)) return FTL_INVALID_ARGUMENT;
    return compile_guarded(context, find_for_device, &a);
}
