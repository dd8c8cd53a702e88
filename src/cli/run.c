/* flashtl run: a program on the user's own arrays. */
#include "cli/arrays.h"
#include "cli/machine.h"
#include "cli/request.h"
#include "flashtl/execute.h"
#include "verify/plan_find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct opened {
    ftl_emulator *emulator;
    ftl_module *module;
} opened;

typedef struct running {
    cli *c;
    cli_request request;
    machine_program made;
    verify_on on;
    arrays arrays;
    text_buffer then[CLI_LIST_MAX]; /* texts of these files */
    ftl_runtime *runtime;
    opened *kernels; /* of the product */
    bool is_hung;    /* a kernel still runs: whatever is asked of the device would wait for it */
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
    int exit_status = fail(arrays_place(&r->arrays, r->made.plan, r->made.plan, &why), &why);
    if (exit_status) return exit_status;
    ftl_arguments arguments = arrays_arguments(&r->arrays, r->made.plan, tensors, scalars, false);
    ftl_arithmetic arithmetic = r->made.product ? FTL_ROUNDED : FTL_EXACT;
    ftl_status status = ftl_interpret(r->c->context, &r->made.code, arithmetic, &arguments);
    return finish(r, status);
}

/* What is made once for a kernel, for all arrays that it runs on. */
static ftl_status open_kernel(running *r, const ftl_kernel *kernel, opened *out) {
    ftl_context *context = r->c->context;
    if (r->on == VERIFY_GPU)
        return ftl_module_load(context, r->runtime, kernel->plan, kernel->cuda, &out->module);
    char file[256];
    ftl_image image;
    snprintf(file, sizeof file, "%s.cu", kernel->plan->entry);
    ftl_status status =
        ftl_compile_cuda(context, r->runtime, kernel->cuda, file, kernel->plan->target, &image);
    if (status) return status;
    status =
        ftl_emulator_open(context, kernel->plan, image.bytes, image.length, file, &out->emulator);
    ftl_image_done(&image);
    return status;
}

static ftl_status emulate_kernel(running *r, const ftl_kernel *kernel, ftl_emulator *emulator) {
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    ftl_emulation report = {0};
    ftl_arguments arguments = arrays_arguments(&r->arrays, kernel->plan, tensors, scalars, false);
    ftl_status status = ftl_emulate(r->c->context, emulator, &arguments, NULL, &report);
    for (str rest = str_from(report.findings ? report.findings : ""); rest.length;) {
        str line = str_cut(&rest, '\n');
        cli_tell(stderr, "%.*s\n", STR_ARGS(line));
    }
    ftl_emulation_done(&report);
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

static ftl_status launch_kernel(running *r, const ftl_kernel *kernel, ftl_module *module) {
    enum { LIMIT_MS = 60000 };
    ftl_context *context = r->c->context;
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    ftl_status status = upload(r, r->runtime);
    if (!status) {
        ftl_arguments arguments =
            arrays_arguments(&r->arrays, kernel->plan, tensors, scalars, true);
        status = ftl_module_launch(context, module, &arguments, NULL);
    }
    if (!status) status = ftl_stream_wait(context, r->runtime, NULL, LIMIT_MS);
    for (int i = 0; !status && i < r->arrays.count; i++) {
        array *item = &r->arrays.items[i];
        if (!item->device) continue;
        status = ftl_device_read(context, r->runtime, item->memory, item->device, item->bytes);
    }
    return status;
}

static int run_kernels(running *r) {
    os_error why;
    int exit_status = EXIT_DONE;
    ftl_status status = FTL_OK;
    for (int32_t i = 0; !status && !exit_status && i < r->made.product->kernel_count; i++) {
        const ftl_kernel *kernel = &r->made.product->kernels[i];
        opened *own = &r->kernels[i];
        exit_status = fail(arrays_place(&r->arrays, kernel->plan, r->made.plan, &why), &why);
        if (exit_status) break;
        if (!own->emulator && !own->module) status = open_kernel(r, kernel, own);
        if (status) break;
        status = own->module ? launch_kernel(r, kernel, own->module)
                             : emulate_kernel(r, kernel, own->emulator);
    }
    for (int i = 0; !status && i < r->arrays.count; i++) {
        array *item = &r->arrays.items[i];
        if (item->device) ftl_device_free(r->runtime, item->device);
        item->device = 0;
    }
    r->is_hung = status == FTL_TIMEOUT || status == FTL_KERNEL_FAULT;
    return exit_status ? exit_status : finish(r, status);
}

/* --- arrays after arrays ---------------------------------------------------------------------- */

static int run_once(running *r) {
    os_error why;
    int exit_status = r->on == VERIFY_INTERPRETER ? interpret(r) : run_kernels(r);
    return exit_status ? exit_status : fail(arrays_write(&r->arrays, &why), &why);
}

/* A number for the launch alone: the kernel is made. */
static bool set_scalar(arrays *all, const char *name, double value) {
    int i = 0;
    while (i < all->scalar_count && strcmp(all->scalars[i].name, name) != 0) i++;
    if (i == ARRAYS_MAX) return false;
    all->scalars[i] = (ftl_scalar){name, value};
    if (i == all->scalar_count) all->scalar_count++;
    return true;
}

/* A line of --then's file, ended by a NUL: --in NAME=FILE, --out NAME=FILE or --let NAME=VALUE. */
static int read_line(running *r, const char *path, char *line, os_error *why) {
    const char *const blank = strchr(line, ' '), *const text = blank ? blank + 1 : "";
    if (strncmp(line, "--in ", 5) == 0) return arrays_read(&r->arrays, &text, 1, NULL, 0, why);
    if (strncmp(line, "--out ", 6) == 0) return arrays_read(&r->arrays, NULL, 0, &text, 1, why);
    char *equals = strchr(line, '=');
    double number;
    if (strncmp(line, "--let ", 6) == 0 && equals && str_to_number(str_from(equals + 1), &number)) {
        *equals = 0;
        if (set_scalar(&r->arrays, text, number)) return EXIT_DONE;
        *equals = '=';
    }
    snprintf(why->text, sizeof why->text,
             "'%s' has lines '--in NAME=FILE', '--out NAME=FILE' and '--let NAME=VALUE'; found "
             "'%.200s'",
             path, line);
    return EXIT_REJECTED;
}

static int read_then(running *r, const char *path, text_buffer *text, os_error *why) {
    enum { FILE_BYTES_MAX = 1 << 20 };
    text_init(text, FILE_BYTES_MAX);
    if (!os_read_file(path, FILE_BYTES_MAX - 1, text, why)) return EXIT_ENVIRONMENT;
    arrays_done(&r->arrays);
    int exit_status = EXIT_DONE;
    for (str rest = text_str(text); !exit_status && rest.length;) {
        str line = str_trim(str_cut(&rest, '\n'));
        if (!line.length) continue;
        char *begin = text->data + (line.data - text->data);
        begin[line.length] = 0; /* a blank, the end of the line, or that of the text */
        exit_status = read_line(r, path, begin, why);
    }
    return exit_status;
}

static int run_then(running *r, const char *path, text_buffer *text) {
    os_error why;
    int exit_status = read_then(r, path, text, &why);
    if (exit_status) return fail(exit_status, &why);
    exit_status = check_names(r, r->made.plan);
    return exit_status ? exit_status : run_once(r);
}

static int run_all(running *r) {
    int exit_status = run_once(r);
    const cli_list *then = &r->c->options.then;
    for (int i = 0; !exit_status && i < then->count; i++)
        exit_status = run_then(r, then->items[i], &r->then[i]);
    return exit_status;
}

static int open_machine(running *r) {
    ftl_context *context = r->c->context;
    int32_t count = r->made.product ? r->made.product->kernel_count : 0;
    r->kernels = calloc((size_t)count + 1, sizeof *r->kernels);
    if (!r->kernels) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    ftl_status status = r->on == VERIFY_INTERPRETER ? FTL_OK : cli_open_runtime(r->c, &r->runtime);
    if (!status && r->on == VERIFY_GPU) status = ftl_device_use(context, r->runtime, 0);
    return finish(r, status);
}

static void close_machine(running *r) {
    int32_t count = r->kernels && r->made.product ? r->made.product->kernel_count : 0;
    for (int32_t i = 0; i < count; i++) {
        ftl_emulator_close(r->kernels[i].emulator);
        if (!r->is_hung) ftl_module_free(r->kernels[i].module);
    }
    if (!r->is_hung) ftl_runtime_close(r->runtime);
    free(r->kernels);
}

static int run_on_machine(running *r) {
    int exit_status = open_machine(r);
    if (!exit_status) exit_status = run_all(r);
    close_machine(r);
    return exit_status;
}

static int run_in_child(void *user, os_watch *watch) {
    running *r = user;
    snprintf(watch->doing, sizeof watch->doing, "kernel '%s'", r->made.plan->kernel);
    return run_on_machine(r);
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
        exit_status = run_on_machine(&r);
    }
    if (!exit_status && !c->options.out.count)
        cli_say(EXIT_DONE, "it ran, and its results are nowhere: '--out NAME=FILE' keeps them");
    arrays_done(&r.arrays);
    for (int i = 0; i < c->options.then.count; i++) text_done(&r.then[i]);
    machine_done(&r.made);
    request_done(&r.request);
    return exit_status;
}
