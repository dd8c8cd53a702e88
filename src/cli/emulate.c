/* flashtl emulate: a kernel on the CPU with all checks: any PTX or CUDA file with a launch plan. */
#include "cli/arrays.h"
#include "cli/cli.h"
#include "flashtl/execute.h"
#include "verify/plan_find.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES_MAX = 64 << 20 };

typedef struct emulation {
    cli *c;
    text_buffer file; /* CUDA text or PTX */
    ftl_plan *plan;
    ftl_image image; /* PTX made of CUDA text */
    arrays arrays;
} emulation;

/* --- inputs ----------------------------------------------------------------------------------- */

static int refuse_name(const emulation *e, const char *name) {
    const ftl_plan *plan = e->plan;
    text_buffer names;
    text_init(&names, 1 << 14);
    for (int32_t i = 0; i < plan->size_count; i++) {
        text_format(&names, "%s%s", i ? ", " : "", plan->sizes[i].name);
    }
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        text_format(&names, "%s%s", names.length ? ", " : "", plan->scalars[i].name);
    }
    int exit_status = cli_say(EXIT_USAGE, "kernel '%s' has no length or scalar '%s'; it has %s",
                              plan->kernel, name,
                              names.length   ? names.data
                              : names.failed ? "others"
                                             : "none");
    text_done(&names);
    return exit_status;
}

static int check_let(const emulation *e, const char *name, double value) {
    bool is_length = plan_find_size(e->plan, name) >= 0;
    if (!is_length && plan_find_scalar(e->plan, name) < 0) return refuse_name(e, name);
    if (arrays_has_scalar(&e->arrays, name))
        return cli_say(EXIT_USAGE, "'%s' is given twice", name);
    if (is_length && !(value >= 0 && value <= INT32_MAX && value == floor(value))) {
        return cli_say(EXIT_USAGE, "'%s' is a whole number from 0 to %d; found '%g'", name,
                       INT32_MAX, value);
    }
    return EXIT_DONE;
}

static int check_tensors(const emulation *e) {
    for (int i = 0; i < e->arrays.count; i++) {
        const char *name = e->arrays.items[i].name;
        if (plan_find_tensor(e->plan, name) < 0) {
            return cli_say(EXIT_USAGE, "kernel '%s' has no tensor '%s'", e->plan->kernel, name);
        }
    }
    return EXIT_DONE;
}

static int read_lets(emulation *e) {
    for (int i = 0; i < e->c->options.let.count; i++) {
        char *item = (char *)(uintptr_t)e->c->options.let.items[i]; /* a word of argv */
        char *equals = strchr(item, '=');
        double value;
        if (!equals || !str_to_number(str_from(equals + 1), &value)) {
            return cli_say(EXIT_USAGE, "'--let' is NAME=VALUE; found '%s'", item);
        }
        *equals = 0;
        int exit_status = check_let(e, item, value);
        if (exit_status) return exit_status;
        arrays_give(&e->arrays, item, value);
    }
    return EXIT_DONE;
}

/* --- the kernel ------------------------------------------------------------------------------- */

static int read_plan(emulation *e, const char *path) {
    text_buffer text;
    os_error why;
    char reason[FTL_WHY_BYTES];
    text_init(&text, FILE_BYTES_MAX);
    if (!os_read_file(path, FILE_BYTES_MAX - 1, &text, &why)) {
        text_done(&text);
        return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    /* The facts that `flashtl build` writes hold the plan, too. */
    str json = text_str(&text), key = STR("\"plan\": ");
    for (size_t i = 0; i + key.length < json.length; i++) {
        if (memcmp(json.data + i, key.data, key.length) != 0) continue;
        json = (str){json.data + i + key.length, json.length - i - key.length};
        json = str_trim(json);
        if (json.length) json.length--; /* the facts' own closing brace */
        break;
    }
    e->plan = ftl_plan_read(json.data, json.length, reason);
    text_done(&text);
    return e->plan ? EXIT_DONE : cli_say(EXIT_REJECTED, "'%s': %s", path, reason);
}

/* PTX is taken as it is, anything else is CUDA text. */
static ftl_status make_ptx(emulation *e, const char *path, str *ptx) {
    *ptx = text_str(&e->file);
    if (str_ends(str_from(path), STR(".ptx"))) return FTL_OK;
    ftl_runtime *runtime = NULL;
    ftl_status status = cli_open_runtime(e->c, &runtime);
    if (!status) {
        status = ftl_compile_cuda(e->c->context, runtime, e->file.data, path, e->plan->target,
                                  &e->image);
    }
    ftl_runtime_close(runtime);
    if (!status) *ptx = (str){e->image.bytes, e->image.length};
    return status;
}

static void print_report(const emulation *e, const ftl_emulation *report) {
    text_buffer text;
    text_init(&text, SIZE_MAX);
    if (e->c->options.json) {
        text_format(&text, "%s\n", report->json ? report->json : "{}");
        cli_print(&text);
        return;
    }
    text_add_z(&text, report->findings ? report->findings : "");
    text_add_z(&text, report->statistics ? report->statistics : "");
    cli_print(&text);
    printf(
        "%d findings; %llu instructions of warps in %llu blocks; shared memory: %llu wavefronts, "
        "%llu at best\n",
        report->finding_count, (unsigned long long)report->instructions,
        (unsigned long long)report->blocks, (unsigned long long)report->wavefronts,
        (unsigned long long)report->least_wavefronts);
}

static int emulate(emulation *e, const char *path) {
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    ftl_emulator *emulator = NULL;
    ftl_emulation report = {0};
    ftl_emulation_options options = {
        .struct_bytes = sizeof options, .wants_statistics = true, .go_on = true};
    str ptx;
    ftl_status status = make_ptx(e, path, &ptx);
    if (!status) {
        status = ftl_emulator_open(e->c->context, e->plan, ptx.data, ptx.length, path, &emulator);
    }
    if (!status) {
        ftl_arguments arguments = arrays_arguments(&e->arrays, e->plan, tensors, scalars, false);
        status = ftl_emulate(e->c->context, emulator, &arguments, &options, &report);
        if (status == FTL_OK || status == FTL_CHECK_FAILED) print_report(e, &report);
        ftl_emulation_done(&report);
    }
    ftl_emulator_close(emulator);
    if (status == FTL_CHECK_FAILED) return EXIT_REJECTED;
    int exit_status = cli_finish(e->c, status);
    return status == FTL_INVALID_ARGUMENT ? EXIT_REJECTED : exit_status;
}

/* Arrays that are given, and what is not given, invented. */
static int prepare(emulation *e) {
    const cli_options *o = &e->c->options;
    os_error why;
    int exit_status = read_plan(e, o->plan_file);
    if (!exit_status) exit_status = read_lets(e);
    if (exit_status) return exit_status;
    exit_status =
        arrays_read(&e->arrays, o->in.items, o->in.count, o->out.items, o->out.count, &why);
    if (exit_status) return cli_say(exit_status, "%s", why.text);
    exit_status = check_tensors(e);
    if (exit_status) return exit_status;
    arrays_invent_sizes(&e->arrays, e->plan);
    exit_status = arrays_invent(&e->arrays, e->plan, &why);
    return exit_status ? cli_say(exit_status, "%s", why.text) : EXIT_DONE;
}

int cli_run_EMULATE(cli *c) {
    static emulation e;
    os_error why;
    e.c = c;
    const char *path = cli_one_file(c);
    if (!path) return EXIT_USAGE;
    if (!c->options.plan_file)
        return cli_say(EXIT_USAGE, "how is it launched? '--plan FILE', as 'flashtl "
                                   "build' and 'flashtl translate --plan' write it");
    text_init(&e.file, FILE_BYTES_MAX);
    if (!os_read_file(path, FILE_BYTES_MAX - 1, &e.file, &why)) {
        return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    int exit_status = e.file.length ? prepare(&e) : cli_say(EXIT_REJECTED, "'%s' is empty", path);
    if (!exit_status) exit_status = emulate(&e, path);
    if (!exit_status && (exit_status = arrays_write(&e.arrays, &why)) != EXIT_DONE) {
        cli_say(exit_status, "%s", why.text);
    }
    arrays_done(&e.arrays);
    ftl_image_done(&e.image);
    ftl_plan_free(e.plan);
    text_done(&e.file);
    return exit_status;
}
