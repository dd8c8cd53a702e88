/* flashtl view: a kernel's texts side by side, as a page. */
#include "view/view.h"
#include "cli/arrays.h"
#include "cli/progress.h"
#include "cli/request.h"
#include "flashtl/execute.h"

#include <stdlib.h>
#include <string.h>

typedef struct looking {
    cli *c;
    json_t *trace;
    ftl_runtime *runtime;
    progress progress;
} looking;

static int no_memory(void) {
    return cli_say(EXIT_ENVIRONMENT, "out of memory");
}

/* A page can do without PTX where nothing compiles it, and without counts where the invented arrays
 * are none that the kernel takes: the sentence stands on it, and is said. Everything else ends the
 * command.
 */
static int note(looking *v, size_t kernel, ftl_status status, const char *what) {
    switch (status) {
    case FTL_NO_COMPILER:
    case FTL_COMPILER_BROKEN:
    case FTL_TIMEOUT:
    case FTL_INVALID_ARGUMENT:
    case FTL_REJECTED: break;
    default: return cli_finish(v->c, status);
    }
    char sentence[2304];
    const char *advice = status == FTL_INVALID_ARGUMENT ? "; '--let' gives other lengths" : "";
    snprintf(sentence, sizeof sentence, "%s: %s%s", what, ftl_context_error(v->c->context), advice);
    progress_clear(&v->progress);
    cli_say(EXIT_DONE, "%s", sentence);
    return view_add_note(v->trace, kernel, str_from(sentence)) ? EXIT_DONE : no_memory();
}

/* --- what the emulator counts ----------------------------------------------------------------- */

static int add_counts(looking *v, size_t kernel, const ftl_emulation *report) {
    text_buffer found;
    text_init(&found, 1 << 10);
    bool is_whole = report->json && view_add_counts(v->trace, kernel, str_from(report->json));
    if (report->finding_count) {
        text_format(&found, "the emulator found %d faults; `flashtl verify` shows them",
                    report->finding_count);
        is_whole = is_whole && view_add_note(v->trace, kernel, text_str(&found)) && !found.failed;
    }
    text_done(&found);
    return is_whole ? EXIT_DONE : no_memory();
}

static ftl_status run(looking *v, arrays *all, const ftl_plan *plan, const ftl_image *image,
                      ftl_emulation *report) {
    ftl_tensor tensors[ARRAYS_MAX];
    ftl_scalar scalars[ARRAYS_MAX];
    ftl_emulator *emulator = NULL;
    ftl_emulation_options options = FTL_EMULATION_OPTIONS_INIT;
    options.wants_statistics = options.go_on = true;
    ftl_status status = ftl_emulator_open(v->c->context, plan, image->bytes, image->length,
                                          plan->kernel, &emulator);
    if (!status) {
        ftl_arguments arguments = arrays_arguments(all, plan, tensors, scalars, false);
        status = ftl_emulate(v->c->context, emulator, &arguments, &options, report);
    }
    ftl_emulator_close(emulator);
    return status;
}

static int emulate(looking *v, size_t kernel, const ftl_plan *plan, const ftl_image *image) {
    arrays *all = calloc(1, sizeof *all);
    ftl_emulation report = {0};
    os_error why;
    if (!all) return no_memory();
    arrays_invent_sizes(all, plan);
    int exit_status = arrays_invent(all, plan, &why);
    if (exit_status) {
        exit_status = cli_say(exit_status, "%s", why.text);
    } else {
        ftl_status status = run(v, all, plan, image, &report);
        bool has_run = status == FTL_OK || status == FTL_CHECK_FAILED;
        exit_status = has_run ? add_counts(v, kernel, &report)
                              : note(v, kernel, status, "nothing was counted");
    }
    ftl_emulation_done(&report);
    arrays_done(all);
    free(all);
    return exit_status;
}

/* --- PTX -------------------------------------------------------------------------------------- */

static int add_kernel(looking *v, size_t number, const ftl_kernel *kernel) {
    ftl_image image = {0};
    const ftl_plan *plan = kernel->plan;
    if (progress_is_due(&v->progress))
        progress_show(&v->progress, "compiling and emulating %s", plan->entry);
    ftl_status status = ftl_compile_cuda(v->c->context, v->runtime, kernel->cuda, plan->kernel,
                                         plan->target, &image);
    int exit_status;
    if (status) {
        exit_status = note(v, number, status, "there is no PTX");
    } else if (!view_add_ptx(v->trace, number, (str){image.bytes, image.length})) {
        exit_status = no_memory();
    } else {
        exit_status = emulate(v, number, plan, &image);
    }
    ftl_image_done(&image);
    return exit_status;
}

static int add_kernels(looking *v, const cli_request *r) {
    ftl_product *product = NULL;
    ftl_status status = ftl_build(v->c->context, &r->source, &r->options, &product);
    if (!status) status = cli_open_runtime(v->c, &v->runtime);
    int exit_status = status ? cli_finish(v->c, status) : EXIT_DONE;
    for (int32_t i = 0; !exit_status && i < product->kernel_count; i++)
        exit_status = add_kernel(v, (size_t)i, &product->kernels[i]);
    progress_clear(&v->progress);
    ftl_runtime_close(v->runtime);
    ftl_product_free(product);
    return exit_status;
}

/* --- the whole -------------------------------------------------------------------------------- */

static int put_page(looking *v) {
    text_buffer page;
    text_init(&page, 64 << 20);
    if (v->c->options.json) json_write_line(NULL, v->trace, JSON_COMPACT, &page);
    else view_page(v->trace, &page);
    if (!page.failed) return cli_put(v->c, page.data);
    text_done(&page);
    return no_memory();
}

static int look(cli *c, const cli_request *r) {
    looking v = {.c = c, .progress = progress_begin(c->options.json)};
    char *json = NULL;
    int exit_status = cli_finish(c, ftl_trace(c->context, &r->source, &r->options, &json));
    if (!exit_status) {
        v.trace = json_loads(json, 0, NULL);
        if (!v.trace) exit_status = no_memory();
    }
    ftl_free(json);
    if (!exit_status && !c->options.no_ptx) exit_status = add_kernels(&v, r);
    if (!exit_status) exit_status = put_page(&v);
    json_decref(v.trace);
    return exit_status;
}

int cli_run_VIEW(cli *c) {
    cli_request r;
    int exit_status = request_open(c, &r);
    if (!exit_status) exit_status = cli_refuse_many_gpus(c);
    if (!exit_status) exit_status = look(c, &r);
    request_done(&r);
    return exit_status;
}
