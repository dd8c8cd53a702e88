/* flashtl think: from a request to a verified kernel, with models; and sketch, reason, translate by
 * a model.
 */
#include "cli/agents.h"
#include "cli/cute.h"

#include "base/number.h"
#include "think/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct thinking {
    cli *c;
    agents agents;
    cli_request request; /* of --op or --sketch; else only the options */
    text_buffer against, given;
    ftl_runtime *runtime;
    provider *providers[THINK_STEP_COUNT];
    judge_task task;
    think_run run;
    json_t *machine;
    const char *folder;
    char record[CLI_PATH_BYTES];
    char headers[CUTE_PATH_BYTES]; /* of CuTe */
} thinking;

static const char *const HOW_TO_NAME =
    "openai:NAME, anthropic:NAME, http://HOST:PORT/v1#NAME (vLLM, llama.cpp, Ollama, ...), "
    "exec:COMMAND or replay:FILE";

static int no_model(void) {
    cli_say(0, "which model writes the sketch? '--sketch-by MODEL' or FLASHTL_MODEL; a MODEL is %s",
            HOW_TO_NAME);
    return cli_say(EXIT_USAGE,
                   "without a model: 'flashtl sketch' lists operators that are there, 'flashtl "
                   "build FILE' makes kernels of a sketch of yours, and 'flashtl think REQUEST "
                   "--show-prompts' prints what a model would be told");
}

/* --- what is asked for ------------------------------------------------------------------------ */

static int read_against(cli *c, text_buffer *text, ftl_source *out) {
    if (!c->options.against) return EXIT_DONE;
    return cli_read_source(c, c->options.against, text, out) ? EXIT_DONE : EXIT_ENVIRONMENT;
}

/* The words of the request: one argument. Files are not read here, so the request opens without. */
static int read_words(thinking *t) {
    cli *c = t->c;
    if (c->options.file_count > 1) {
        return cli_say(EXIT_USAGE, "the request is one argument: put it into quotes");
    }
    t->run.words = c->options.file_count ? c->options.files[0] : NULL;
    c->options.file_count = 0;
    return EXIT_DONE;
}

/* With words, an operator or --against says what they should come to; without, it is the sketch. */
static int read_sketch(thinking *t) {
    cli *c = t->c;
    const char *file = c->options.sketch_file;
    if (file && c->options.op) return cli_say(EXIT_USAGE, "give '--sketch' or '--op', not both");
    if (file) c->options.files[c->options.file_count++] = file;
    bool has_text = file || c->options.op;
    int exit_status = request_open_options(c, &t->request, has_text);
    if (!exit_status) exit_status = read_against(c, &t->against, &t->task.reference);
    if (exit_status || !has_text) return exit_status;
    bool is_reference = c->options.op && t->run.words && !t->task.reference.text;
    if (is_reference) t->task.reference = t->request.source;
    if (!is_reference) t->run.sketch = t->request.source;
    if (c->options.op) {
        t->task.operator_name = t->request.family;
        t->task.settings = t->request.settings;
        t->task.setting_count = t->request.setting_count;
    }
    return EXIT_DONE;
}

/* What is only shown needs no headers. */
static int read_form(thinking *t) {
    int exit_status = cute_form(t->c, &t->task.form);
    bool is_needed = t->task.form == FTL_CUTE && !t->c->options.show_prompts;
    if (exit_status || !is_needed) return exit_status;
    t->task.include_folder = t->headers;
    return cute_headers(t->headers);
}

static int read_request(thinking *t) {
    int exit_status = read_words(t);
    if (!exit_status) exit_status = read_sketch(t);
    if (!exit_status) exit_status = cli_read_seed(t->c, &t->task.seed);
    if (!exit_status) exit_status = cli_read_more(t->c, &t->task.more);
    if (!exit_status) exit_status = agents_read_highest(t->c, &t->task.highest);
    t->task.options = &t->request.options;
    t->task.shapes = t->c->options.shapes;
    t->run.task = &t->task;
    return exit_status;
}

/* --- prompts ---------------------------------------------------------------------------------- */

static int show_prompts(thinking *t) {
    cli *c = t->c;
    text_buffer parameters;
    text_init(&parameters, PROMPT_BYTES_MAX);
    const ftl_source *reference = &t->task.reference;
    if (reference->text) judge_parameters((str){reference->text, reference->length}, &parameters);
    prompt_task task = {.step = THINK_SKETCH,
                        .words = t->run.words,
                        .options = t->task.options,
                        .parameters = parameters.data};
    int exit_status = parameters.failed ? cli_say(EXIT_ENVIRONMENT, "out of memory") : EXIT_DONE;
    bool has_sketch = t->run.sketch.text != NULL;
    if (!exit_status && !has_sketch) exit_status = agents_show_prompt(&t->agents, &task);
    if (!exit_status && (c->options.reason_by || has_sketch)) {
        exit_status = request_one_gpu(c, &t->request);
        task.step = THINK_REASON;
        task.sketch = has_sketch ? t->run.sketch.text : NULL;
        if (!exit_status) exit_status = agents_show_prompt(&t->agents, &task);
    }
    text_done(&parameters);
    return exit_status;
}

/* --- models, machine, record ------------------------------------------------------------------ */

static int open_providers(thinking *t) {
    const cli_options *o = &t->c->options;
    const char *specs[THINK_STEP_COUNT] = {o->sketch_by, o->reason_by, o->translate_by};
    if (!specs[THINK_SKETCH] && !t->run.sketch.text) specs[THINK_SKETCH] = getenv("FLASHTL_MODEL");
    if (!t->run.sketch.text && (!specs[THINK_SKETCH] || !*specs[THINK_SKETCH])) return no_model();
    if (specs[THINK_SKETCH] && !t->run.sketch.text && (!t->run.words || !*t->run.words)) {
        return cli_say(EXIT_USAGE,
                       "what is the kernel to do? flashtl think 'REQUEST IN PLAIN WORDS'");
    }
    for (int i = 0; i < THINK_STEP_COUNT; i++) {
        bool is_needed = specs[i] && !(i == THINK_SKETCH && t->run.sketch.text &&
                                       !t->agents.limits.improvements);
        int exit_status =
            is_needed ? agents_provider(&t->agents, specs[i], (think_step)i, &t->providers[i])
                      : EXIT_DONE;
        if (exit_status) return exit_status;
        t->run.agents[i] = t->providers[i];
    }
    return EXIT_DONE;
}

static int look_for_device(thinking *t) {
    ftl_gpu gpu = FTL_GPU_INIT;
    bool is_wanted = t->task.highest == THINK_RUNG_GPU;
    t->machine = agents_find_device(t->c, is_wanted ? t->runtime : NULL);
    int capability = (int)json_number(t->machine, "capability");
    if (ftl_gpu_describe(t->c->context, t->task.options->gpu, &gpu))
        return cli_finish(t->c, FTL_REJECTED);
    t->task.has_gpu = capability >= gpu.capability;
    t->run.machine = t->machine;
    const char *wanted = t->c->options.on;
    if (wanted && strcmp(wanted, "gpu") == 0 && !t->task.has_gpu) {
        return cli_say(EXIT_ENVIRONMENT,
                       "'--on gpu': there is no GPU here that runs kernels for %s", gpu.name);
    }
    return EXIT_DONE;
}

static int open_record(thinking *t, const char *path) {
    return cli_finish(t->c, record_open(t->c->context, path, &t->agents.record));
}

/* Without a name it gets that of its hash in the end. */
static int open_named_record(thinking *t) {
    const char *wanted = t->c->options.record;
    if (wanted) snprintf(t->record, sizeof t->record, "%s", wanted);
    else snprintf(t->record, sizeof t->record, "%s/think-%d.part", t->folder, os_process_id());
    bool cannot_be_read = wanted && os_file_exists(wanted) && !os_file_is_plain(wanted);
    if (t->c->options.report && cannot_be_read) {
        return cli_say(EXIT_USAGE, "'--report' is made of the record, and '--record %s' keeps none",
                       wanted);
    }
    return open_record(t, t->record);
}

/* --- what comes out --------------------------------------------------------------------------- */

static int put_file(const thinking *t, const char *name, const char *ending, const char *text) {
    char path[4096];
    os_error why;
    snprintf(path, sizeof path, "%s/%s%s", t->folder, name, ending);
    if (!text || os_write_file(path, str_from(text), &why)) return EXIT_DONE;
    return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
}

/* "attention_rtx_4090" */
static void name_files(const ftl_plan *plan, char name[200]) {
    snprintf(name, 200, "%s_%s", plan->kernel, plan->gpu);
    for (char *c = name; *c; c++) {
        bool is_letter =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!is_letter) *c = '_';
    }
}

static bool is_taken(const thinking *t, const char *name) {
    static const char *const endings[] = {".sketch.tl", ".tl", ".cu", ".h", ".json"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s%s", t->folder, name, endings[i]);
        if (os_file_exists(path)) return true;
    }
    return false;
}

/* Where no folder was named, nothing that is there is written over: "attention_t4_2". */
static void choose_name(const thinking *t, const ftl_plan *plan, char name[200]) {
    char first[180];
    name_files(plan, name);
    snprintf(first, sizeof first, "%s", name);
    for (int i = 2; !t->c->options.output && is_taken(t, name) && i < 10000; i++)
        snprintf(name, 200, "%s_%d", first, i);
}

static int put_kernel(const thinking *t, const think_result *r, const char *name) {
    char *header = NULL, *plan = NULL;
    if (!r->plan) return EXIT_DONE;
    header = ftl_plan_header(r->plan, name);
    plan = ftl_plan_write(r->plan);
    int exit_status = put_file(t, name, ".sketch.tl", r->sketch);
    if (!exit_status) exit_status = put_file(t, name, ".tl", r->code);
    if (!exit_status) exit_status = put_file(t, name, ".cu", r->cuda);
    if (!exit_status) exit_status = put_file(t, name, ".h", header);
    if (!exit_status) exit_status = put_file(t, name, ".json", plan);
    free(header);
    free(plan);
    return exit_status;
}

static int put_record(thinking *t, const think_result *r) {
    os_error why;
    char path[CLI_PATH_BYTES];
    if (t->c->options.record || !os_file_exists(t->record)) return EXIT_DONE;
    snprintf(path, sizeof path, "%s/think-%.12s.jsonl", t->folder, r->id);
    for (int i = 2; !t->c->options.output && os_file_exists(path) && i < 10000; i++)
        snprintf(path, sizeof path, "%s/think-%.12s_%d.jsonl", t->folder, r->id, i);
    if (!os_rename_file(t->record, path, &why)) return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    memcpy(t->record, path, sizeof path);
    return EXIT_DONE;
}

static int put_report(const thinking *t) {
    const char *path = t->c->options.report;
    os_error why;
    if (!path) return EXIT_DONE;
    text_buffer record, page;
    text_init(&record, RECORD_BYTES_MAX + 1);
    text_init(&page, 64 << 20);
    bool is_done = os_read_file(t->record, RECORD_BYTES_MAX, &record, &why);
    int exit_status = EXIT_DONE;
    if (is_done) {
        exit_status = cli_finish(t->c, report_write(t->c->context, text_str(&record), &page));
        is_done = exit_status || os_write_file(path, text_str(&page), &why);
    }
    text_done(&record);
    text_done(&page);
    return is_done ? exit_status : cli_say(EXIT_ENVIRONMENT, "%s", why.text);
}

static void print_result(const thinking *t, const think_result *r, const char *name) {
    if (t->c->options.json) {
        str line = record_last(t->agents.record);
        printf("%.*s\n", STR_ARGS(line));
        return;
    }
    cli_tell(stdout, "%s: verified up to '%s' (%s), by %s", name, think_rung_name(r->rung),
             think_rung_meaning(r->rung), r->by);
    if (r->tflops > 0) number_write(stdout, ", %.1f TFLOPS", r->tflops);
    printf("\n%d answers, %lld tokens; record %.12s\n", (int)r->questions, (long long)r->tokens,
           r->id);
    for (size_t i = 0; i < json_array_size(r->facts); i++) {
        cli_tell(stdout, "- %s\n", json_string_value(json_array_get(r->facts, i)));
    }
    const char *rung;
    json_t *why;
    json_object_foreach(r->skipped, rung, why) {
        cli_tell(stdout, "not judged by '%s': %s\n", rung, json_string_value(why));
    }
    bool vouched = t->task.reference.text || t->run.sketch.text;
    if (!vouched) {
        puts("The sketch is the model's word for what was asked: nothing else was there to compare "
             "it with "
             "('--against FILE', '--op').");
    }
}

/* --- the command ------------------------------------------------------------------------------ */

static int think_through(thinking *t) {
    think_result result;
    agents_prepare(&t->agents, &t->run);
    agents_watch(&t->agents, &t->task);
    ftl_status status = think(t->c->context, &t->run, &result);
    int exit_status = EXIT_DONE;
    if (status) {
        cli_say(0, "%s", ftl_context_error(t->c->context));
        exit_status = status == FTL_CHECK_FAILED ? EXIT_REJECTED
                      : status == FTL_INVALID_ARGUMENT || status == FTL_NOT_FOUND
                          ? EXIT_USAGE
                          : EXIT_ENVIRONMENT;
    }
    /* what was verified before something went wrong is kept all the same */
    char name[200] = "";
    if (result.plan) choose_name(t, result.plan, name);
    int written = result.is_verified ? put_kernel(t, &result, name) : EXIT_DONE;
    int recorded = put_record(t, &result);
    if (!recorded) recorded = put_report(t);
    bool has_lines = t->c->options.json || result.is_verified;
    if (!written && has_lines) print_result(t, &result, name);
    think_result_done(&result);
    return exit_status ? exit_status : written ? written : recorded;
}

static int run(thinking *t) {
    cli *c = t->c;
    os_error why;
    t->folder = c->options.output ? c->options.output : ".";
    int exit_status = agents_open(c, &t->agents);
    if (!exit_status) exit_status = read_request(t);
    if (!exit_status && c->options.show_prompts) return show_prompts(t);
    if (!exit_status) exit_status = open_providers(t);
    if (!exit_status) exit_status = request_one_gpu(c, &t->request);
    if (!exit_status && !os_make_folders(t->folder, &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    if (!exit_status) exit_status = cli_finish(c, cli_open_runtime(c, &t->runtime));
    if (!exit_status) exit_status = look_for_device(t);
    t->task.runtime = t->task.highest > THINK_RUNG_BUILD ? t->runtime : NULL;
    if (!exit_status) exit_status = open_named_record(t);
    return exit_status ? exit_status : think_through(t);
}

static void done(thinking *t) {
    for (int i = 0; i < THINK_STEP_COUNT; i++) provider_close(t->providers[i]);
    ftl_runtime_close(t->runtime);
    json_decref(t->machine);
    agents_done(&t->agents);
    request_done(&t->request);
    if (t->against.limit_bytes) text_done(&t->against);
}

int cli_run_THINK(cli *c) {
    static thinking t;
    t.c = c;
    int exit_status = run(&t);
    done(&t);
    return exit_status;
}

/* --- one step by a model ---------------------------------------------------------------------- */

static int show_step(thinking *t, think_step step) {
    ftl_product *product = NULL;
    prompt_task task = {.step = step,
                        .words = t->run.words,
                        .options = t->task.options,
                        .sketch = t->run.sketch.text};
    ftl_status status = FTL_OK;
    ftl_options options = *t->task.options;
    if (step == THINK_TRANSLATE) {
        status =
            ftl_translate_to(t->c->context, &t->run.sketch, options.gpu, t->task.form, &product);
        if (!status) options.gpu = product->kernels[0].plan->gpu;
        task.form = t->task.form;
    }
    task.product = product, task.options = &options;
    int exit_status = cli_finish(t->c, status);
    if (!exit_status) exit_status = agents_show_prompt(&t->agents, &task);
    ftl_product_free(product);
    return exit_status;
}

static int step_by_model(thinking *t, think_step step) {
    cli *c = t->c;
    char *text = NULL;
    if (c->options.show_prompts) return show_step(t, step);
    int exit_status = agents_provider(&t->agents, c->options.by, step, &t->providers[step]);
    if (!exit_status) exit_status = open_record(t, c->options.record);
    if (exit_status) return exit_status;
    t->run.agents[step] = t->providers[step];
    t->agents.tells_skipped = step == THINK_TRANSLATE;
    agents_prepare(&t->agents, &t->run);
    agents_watch(&t->agents, &t->task);
    ftl_status status = think_step_alone(c->context, &t->run, step, &text);
    return status ? cli_finish(c, status) : cli_put_text(c, NULL, text);
}

int sketch_by_model(cli *c) {
    static thinking t;
    t.c = c;
    int exit_status = agents_open(c, &t.agents);
    if (!exit_status) exit_status = read_words(&t);
    if (!exit_status && (!t.run.words || !*t.run.words)) {
        exit_status =
            cli_say(EXIT_USAGE, "what is the kernel to do? flashtl sketch --by MODEL 'REQUEST IN "
                                "PLAIN WORDS'");
    }
    if (!exit_status) exit_status = read_against(c, &t.against, &t.task.reference);
    if (!exit_status) exit_status = cli_read_seed(c, &t.task.seed);
    t.task.options = &t.request.options;
    t.task.highest = THINK_RUNG_MEANING;
    t.run.task = &t.task;
    if (!exit_status) exit_status = step_by_model(&t, THINK_SKETCH);
    done(&t);
    return exit_status;
}

int reason_by_model(cli *c, cli_request *r) {
    static thinking t;
    t.c = c;
    int exit_status = agents_open(c, &t.agents);
    if (!exit_status) exit_status = cli_read_seed(c, &t.task.seed);
    t.task.options = &r->options;
    t.task.highest = THINK_RUNG_BUILD;
    t.run.task = &t.task;
    t.run.sketch = r->source;
    if (!exit_status) exit_status = step_by_model(&t, THINK_REASON);
    done(&t);
    return exit_status;
}

enum { GPU_NAME_BYTES = 4096 }; /* names may be paths */

/* The GPU that TL Code names, where the user names none. */
static int name_gpu(cli *c, const ftl_source *source, char name[GPU_NAME_BYTES]) {
    ftl_product *product = NULL;
    const char *wanted = c->options.gpu.count ? c->options.gpu.items[0] : NULL;
    ftl_status status = ftl_translate(c->context, source, wanted, &product);
    if (!status)
        snprintf(name, GPU_NAME_BYTES, "%s", wanted ? wanted : product->kernels[0].plan->gpu);
    ftl_product_free(product);
    return cli_finish(c, status);
}

int translate_by_model(cli *c, const ftl_source *source) {
    static thinking t;
    char gpu[GPU_NAME_BYTES];
    ftl_options options = {.struct_bytes = sizeof(ftl_options), .gpu = gpu};
    t.c = c;
    int exit_status = agents_open(c, &t.agents);
    if (!exit_status) exit_status = name_gpu(c, source, gpu);
    if (!exit_status) exit_status = cli_read_seed(c, &t.task.seed);
    if (!exit_status) exit_status = read_form(&t);
    if (!exit_status) exit_status = cli_finish(c, cli_open_runtime(c, &t.runtime));
    t.task.options = &options;
    t.task.highest = THINK_RUNG_GPU;
    t.task.runtime = t.runtime;
    t.run.task = &t.task;
    t.run.sketch = *source;
    bool is_asked = !c->options.show_prompts;
    if (!exit_status && is_asked) exit_status = look_for_device(&t);
    if (!exit_status) exit_status = step_by_model(&t, THINK_TRANSLATE);
    done(&t);
    return exit_status;
}
