/* flashtl run: a program on the user's own arrays. */
#include "cli/arrays.h"
#include "cli/machine.h"
#include "cli/request.h"
#include "flashtl/execute.h"
#include "verify/plan_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct running {
    cli *c;
    cli_request request;
    machine_program made;
    verify_on on;
    arrays arrays;
} running;

static int fail(int exit_status, const os_error *why) {
    return exit_status ? cli_say(exit_status, "%s", why->text) : EXIT_DONE;
}

/* Arguments that a kernel does not take (lengths that its condition excludes) are a check failed:
 * the command line was understood.
 */
static int finish(running *r, ftl_status status) {
    int exit_status = cli_finish(r->c, status);
    return status == FTL_INVALID_ARGUMENT ? EXIT_REJECTED : exit_status;
}

/* --- what the arrays decide ------------------------------------------------------------------- */

/* The element type that the first 16-bit input suggests, when --dtype says none. */
static void choose_dtype(running *r) {
    for (int i = 0; i < r->arrays.count && !r->request.options.dtype; i++) {
        const array *item = &r->arrays.items[i];
        if (!item->file.data) continue;
        if (item->file.type == NPY_F2) r->request.options.dtype = FTL_F16;
        if (item->file.type == NPY_U2) r->request.options.dtype = FTL_BF16;
    }
}

/* Lengths that a kernel fixes (a bare axis of a matrix: d) are taken from the arrays, unless they
 * are pinned.
 */
static int pin_lengths(running *r, const ftl_plan *parameters) {
    cli_request *request = &r->request;
    for (int32_t t = 0; t < parameters->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &parameters->tensors[t];
        const array *item = arrays_find(&r->arrays, tensor->name);
        if (!item || !item->file.data || item->file.axis_count != tensor->axis_count) continue;
        int32_t matrix = tensor->axis_count > 2 ? tensor->axis_count - 2 : 0;
        for (int32_t i = matrix; i < tensor->axis_count; i++) {
            int32_t size = tensor->axes[i].size;
            if (size < 0 || strcmp(parameters->sizes[size].name, tensor->axes[i].name) != 0)
                continue;
            request_pin(request, tensor->axes[i].name, item->file.extents[i]);
        }
    }
    return EXIT_DONE;
}

/* --let gives scalars and lengths to the launch, everything to the reasoner. */
static void collect_scalars(running *r) {
    const cli_request *request = &r->request;
    for (int i = 0; i < request->options.pin_count && r->arrays.scalar_count < ARRAYS_MAX; i++) {
        double value;
        if (!str_to_number(str_from(request->pins[i].value), &value)) continue;
        r->arrays.scalars[r->arrays.scalar_count++] = (ftl_scalar){request->pins[i].name, value};
    }
}

/* Every array has a tensor, and every scalar a value. */
static int check_names(const running *r, const ftl_plan *parameters) {
    for (int i = 0; i < r->arrays.count; i++) {
        const char *name = r->arrays.items[i].name;
        if (plan_find_tensor(parameters, name) < 0)
            return cli_say(EXIT_USAGE, "the program has no tensor '%s'", name);
    }
    for (int32_t i = 0; i < parameters->scalar_count; i++) {
        const char *name = parameters->scalars[i].name;
        bool is_given = false;
        for (int k = 0; k < r->arrays.scalar_count; k++) {
            is_given |= strcmp(r->arrays.scalars[k].name, name) == 0;
        }
        if (!is_given) return cli_say(EXIT_USAGE, "'%s' has no value: --let %s=X", name, name);
    }
    return EXIT_DONE;
}

/* The reasoner is not asked about scalars: they are known at launch only. */
static void drop_scalar_pins(running *r, const ftl_plan *parameters) {
    cli_request *request = &r->request;
    int32_t kept = 0;
    for (int32_t i = 0; i < request->options.pin_count; i++) {
        if (plan_find_scalar(parameters, request->pins[i].name) < 0)
            request->pins[kept++] = request->pins[i];
    }
    request->options.pin_count = kept;
}

/* --- the three machines ----------------------------------------------------------------------- */

static int interpret(running *r) {
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    os_error why;
    int exit_status = fail(arrays_place(&r->arrays, r->made.plan, &why), &why);
    if (exit_status) return exit_status;
    ftl_arguments arguments = arrays_arguments(&r->arrays, r->made.plan, tensors, scalars, false);
    ftl_arithmetic arithmetic = r->made.product ? FTL_ROUNDED : FTL_EXACT;
    ftl_status status = ftl_interpret(r->c->context, &r->made.code, arithmetic, &arguments);
    return finish(r, status);
}

static ftl_status emulate_kernel(running *r, ftl_runtime *runtime, const ftl_kernel *kernel) {
    ftl_context *context = r->c->context;
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    char file[256];
    ftl_image image;
    ftl_emulator *emulator = NULL;
    ftl_emulation report = {0};
    snprintf(file, sizeof file, "%s.cu", kernel->plan->entry);
    ftl_status status =
        ftl_compile_cuda(context, runtime, kernel->cuda, file, kernel->plan->target, &image);
    if (status) return status;
    status = ftl_emulator_open(context, kernel->plan, image.bytes, image.length, file, &emulator);
    if (!status) {
        ftl_arguments arguments =
            arrays_arguments(&r->arrays, kernel->plan, tensors, scalars, false);
        status = ftl_emulate(context, emulator, &arguments, NULL, &report);
        for (str rest = str_from(report.findings ? report.findings : ""); rest.length;) {
            str line = str_cut(&rest, '\n');
            cli_tell(stderr, "%.*s\n", STR_ARGS(line));
        }
        ftl_emulation_done(&report);
    }
    ftl_emulator_close(emulator);
    ftl_image_done(&image);
    return status;
}

static ftl_status upload(running *r, ftl_runtime *runtime) {
    for (int i = 0; i < r->arrays.count; i++) {
        array *item = &r->arrays.items[i];
        if (!item->memory || item->device) continue;
        ftl_status status = ftl_device_allocate(r->c->context, runtime, item->bytes, &item->device);
        if (!status) {
            status =
                ftl_device_write(r->c->context, runtime, item->device, item->memory, item->bytes);
        }
        if (status) return status;
    }
    return FTL_OK;
}

static ftl_status launch_kernel(running *r, ftl_runtime *runtime, const ftl_kernel *kernel) {
    enum { LIMIT_MS = 60000 };
    ftl_context *context = r->c->context;
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    ftl_module *module = NULL;
    ftl_status status = upload(r, runtime);
    if (!status) status = ftl_module_load(context, runtime, kernel->plan, kernel->cuda, &module);
    if (!status) {
        ftl_arguments arguments =
            arrays_arguments(&r->arrays, kernel->plan, tensors, scalars, true);
        status = ftl_module_launch(context, module, &arguments, NULL);
    }
    if (!status) status = ftl_stream_wait(context, runtime, NULL, LIMIT_MS);
    for (int i = 0; !status && i < r->arrays.count; i++) {
        array *item = &r->arrays.items[i];
        if (!item->device) continue;
        status = ftl_device_read(context, runtime, item->memory, item->device, item->bytes);
    }
    if (status != FTL_TIMEOUT && status != FTL_KERNEL_FAULT) ftl_module_free(module);
    return status;
}

static int run_kernels(running *r) {
    ftl_runtime *runtime = NULL;
    os_error why;
    int exit_status = EXIT_DONE;
    ftl_status status = cli_open_runtime(r->c, &runtime);
    if (!status && r->on == VERIFY_GPU) status = ftl_device_use(r->c->context, runtime, 0);
    for (int32_t i = 0; !status && !exit_status && i < r->made.product->kernel_count; i++) {
        const ftl_kernel *kernel = &r->made.product->kernels[i];
        exit_status = fail(arrays_place(&r->arrays, kernel->plan, &why), &why);
        if (exit_status) break;
        status = r->on == VERIFY_GPU ? launch_kernel(r, runtime, kernel)
                                     : emulate_kernel(r, runtime, kernel);
    }
    if (!exit_status) exit_status = finish(r, status);
    if (status != FTL_TIMEOUT && status != FTL_KERNEL_FAULT) ftl_runtime_close(runtime);
    return exit_status;
}

static int run_in_child(void *user, os_watch *watch) {
    running *r = user;
    os_error why;
    snprintf(watch->doing, sizeof watch->doing, "kernel '%s'", r->made.plan->kernel);
    int exit_status = run_kernels(r);
    if (!exit_status) exit_status = fail(arrays_write(&r->arrays, &why), &why);
    return exit_status;
}

/* --- the command ------------------------------------------------------------------------------ */

static int prepare(running *r) {
    const cli_options *o = &r->c->options;
    os_error why;
    ftl_plan *parameters = NULL;
    int exit_status =
        arrays_read(&r->arrays, o->in.items, o->in.count, o->out.items, o->out.count, &why);
    if (exit_status) return fail(exit_status, &why);
    choose_dtype(r);
    ftl_type dtype = r->request.options.dtype ? r->request.options.dtype : FTL_F16;
    ftl_status status = ftl_parameters(r->c->context, &r->request.source, dtype, &parameters);
    if (status) return cli_finish(r->c, status);
    collect_scalars(r);
    drop_scalar_pins(r, parameters);
    exit_status = check_names(r, parameters);
    if (!exit_status) exit_status = pin_lengths(r, parameters);
    ftl_plan_free(parameters);
    return exit_status ? exit_status : machine_make(r->c, &r->request, r->on, &r->made);
}

int cli_run_RUN(cli *c) {
    static const double LIMIT_S = 300;
    static running r;
    os_error why;
    r.c = c;
    int exit_status = request_open(c, &r.request);
    if (!exit_status) exit_status = machine_read_on(c, &r.request, &r.on);
    if (!exit_status) exit_status = prepare(&r);
    if (!exit_status && r.on == VERIFY_GPU) {
        if (!os_run_watched(run_in_child, &r, LIMIT_S, &exit_status, &why)) {
            exit_status = cli_say(EXIT_REJECTED, "%s", why.text);
        }
    } else if (!exit_status) {
        exit_status = r.on == VERIFY_EMULATOR ? run_kernels(&r) : interpret(&r);
        if (!exit_status) exit_status = fail(arrays_write(&r.arrays, &why), &why);
    }
    if (!exit_status && !c->options.out.count)
        cli_say(EXIT_DONE, "it ran, and its results are nowhere: '--out NAME=FILE' keeps them");
    arrays_done(&r.arrays);
    machine_done(&r.made);
    request_done(&r.request);
    return exit_status;
}
