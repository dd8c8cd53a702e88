/* flashtl evaluate: how well do models write kernels? */
#include "cli/agents.h"

#ifndef FLASHTL_HAS_SQLITE

int cli_run_EVALUATE(cli *c) {
    (void)c;
    return cli_say(EXIT_ENVIRONMENT,
                   "this flashtl was built without SQLite, which 'evaluate' needs");
}

#else

#include "cli/evaluate.h"

#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPORT_BYTES_MAX = 64 << 20 };

/* --- messages --------------------------------------------------------------------------------- */

static void on_progress(void *user, const evaluate_progress *p) {
    evaluating *e = user;
    char tokens[48] = "", price[48] = "", left[48] = "...";
    if (!progress_is_due(&e->progress)) return;
    if (!p->is_of_references)
        snprintf(tokens, sizeof tokens, "%lld tokens, ", (long long)p->tokens);
    if (p->price > 0) number_print(price, sizeof price, "%.4g, ", p->price);
    if (p->seconds_left >= 120)
        number_print(left, sizeof left, "%.0f min left", p->seconds_left / 60);
    else if (p->seconds_left >= 0) number_print(left, sizeof left, "%.0f s left", p->seconds_left);
    progress_show(&e->progress, "%d of %d %s, %d passed; %s%s%s", (int)p->done, (int)p->total,
                  p->is_of_references ? "references" : "trials", (int)p->passed, tokens, price,
                  left);
}

static void on_notice(void *user, const char *sentence) {
    evaluating *e = user;
    progress_clear(&e->progress);
    cli_say(0, "%s", sentence);
}

/* --- this machine ----------------------------------------------------------------------------- */

static int find_device(evaluating *e) {
    cli *c = e->c;
    ftl_runtime *runtime = NULL;
    ftl_gpu gpu = FTL_GPU_INIT;
    e->what.runtime = cli_runtime_options(c, e->cache);
    if (ftl_gpu_describe(c->context, e->what.options.gpu, &gpu)) return cli_finish(c, FTL_REJECTED);
    if (e->what.highest < THINK_RUNG_GPU) return EXIT_DONE;
    int exit_status = cli_finish(c, ftl_runtime_open(c->context, &e->what.runtime, &runtime));
    if (exit_status) return exit_status;
    json_t *device = agents_find_device(c, runtime);
    bool fits = (int)json_number(device, "capability") >= gpu.capability;
    snprintf(e->device, sizeof e->device, "%s", json_text(device, "gpu"));
    if (fits) e->what.device = e->device;
    json_decref(device);
    ftl_runtime_close(runtime);
    bool is_needed = c->options.on && strcmp(c->options.on, "gpu") == 0;
    if (fits || !is_needed) return EXIT_DONE;
    return cli_say(EXIT_ENVIRONMENT, "'--on gpu': there is no GPU here that runs kernels for %s",
                   gpu.name);
}

static int make_records(evaluating *e) {
    os_error why;
    e->what.records = e->c->options.records;
    if (!e->what.records || os_make_folders(e->what.records, &why)) return EXIT_DONE;
    return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
}

/* --- what comes out --------------------------------------------------------------------------- */

static int plot(const figures_table *table, const char *path) {
    const char *const argv[] = {"gnuplot", NULL};
    text_buffer script, out, err;
    os_error why;
    int code = 0, exit_status = EXIT_DONE;
    text_init(&script, 4 << 20);
    text_init(&out, 1 << 20);
    text_init(&err, 1 << 20);
    report_plot(table, path, &script);
    if (!os_run(argv, text_str(&script), 60, &out, &err, &code, &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "no plot: %s", why.text);
    } else if (code) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "gnuplot: %s", err.data ? err.data : "failed");
    }
    text_done(&script);
    text_done(&out);
    text_done(&err);
    return exit_status;
}

static int put_page(const figures_table *table, const char *what, const char *path) {
    text_buffer page;
    text_init(&page, REPORT_BYTES_MAX);
    report_page(table, what, &page);
    return cli_write(path, &page);
}

static void print_references(const evaluating *e, const figures_table *table, text_buffer *out) {
    for (int32_t i = 0; i < e->what.task_count; i++) {
        const results_reference *r = &table->references[i];
        if (!r->passed) continue;
        text_format(out, "%-22s %-7s passes up to '%s'", e->tasks[i]->name,
                    task_level_name(e->tasks[i]->level), r->rung);
        if (r->tflops > 0) text_format(out, ", %.1f TFLOPS", r->tflops);
        text_add_z(out, "\n");
    }
}

static int show(evaluating *e, int64_t experiment, const char *what) {
    const cli_options *o = &e->c->options;
    figures_table table;
    text_buffer text;
    int exit_status = EXIT_DONE;
    if (!figures_read(&e->what, e->results, experiment, &table)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s",
                              table.is_out_of_memory ? "out of memory" : results_error(e->results));
        figures_done(&table);
        return exit_status;
    }
    text_init(&text, REPORT_BYTES_MAX);
    if (!e->what.model_count) print_references(e, &table, &text);
    else if (o->json) report_json(&table, &text);
    else report_table(&table, &text);
    exit_status = cli_print(&text);
    if (!exit_status && o->page) exit_status = put_page(&table, what, o->page);
    if (!exit_status && o->pass_plot && e->what.model_count) {
        exit_status = plot(&table, o->pass_plot);
    }
    figures_done(&table);
    return exit_status;
}

static int list(evaluating *e) {
    text_buffer text;
    text_init(&text, REPORT_BYTES_MAX);
    if (e->c->options.json) report_tasks_json(&e->what, &text);
    else report_tasks(&e->what, &text);
    return cli_print(&text);
}

static int guess(evaluating *e) {
    evaluate_estimate g;
    int exit_status = cli_finish(e->c, evaluate_guess(e->c->context, &e->what, &g));
    if (exit_status) return exit_status;
    if (e->c->options.json) {
        number_write(
            stdout,
            "{\"trials\":%lld,\"least_tokens\":%lld,\"most_tokens\":%lld,\"least_cost\":%.6g,"
            "\"most_cost\":%.6g}\n",
            (long long)g.trials, (long long)g.least_tokens, (long long)g.most_tokens, g.least_price,
            g.most_price);
        return EXIT_DONE;
    }
    printf("%lld trials: %d tasks, %d models, %d settings, %d samples\n", (long long)g.trials,
           (int)e->what.task_count, (int)e->what.model_count, (int)e->what.setting_count,
           (int)e->what.samples);
    printf("about %lld tokens if every first answer passes, %lld if every step takes %d answers "
           "(of %d tokens each)\n",
           (long long)g.least_tokens, (long long)g.most_tokens, (int)e->what.answers,
           EVALUATE_ANSWER_TOKENS);
    if (g.most_price > 0) number_write(stdout, "cost: %.4g to %.4g\n", g.least_price, g.most_price);
    return EXIT_DONE;
}

/* --- the command ------------------------------------------------------------------------------ */

static int finish(evaluating *e, ftl_status status) {
    if (!status) return EXIT_DONE;
    cli_say(0, "%s", ftl_context_error(e->c->context));
    return status == FTL_CHECK_FAILED       ? EXIT_REJECTED
           : status == FTL_INVALID_ARGUMENT ? EXIT_USAGE
                                            : EXIT_ENVIRONMENT;
}

static int work(evaluating *e, int64_t experiment, const char *what) {
    e->what.on_progress = on_progress;
    e->what.on_notice = on_notice;
    e->what.user = e;
    e->progress = progress_begin(false);
    ftl_status status = evaluate_run(e->c->context, &e->what, e->results, experiment);
    progress_clear(&e->progress);
    int exit_status = finish(e, status);
    int shown = status == FTL_NO_FILE ? EXIT_DONE : show(e, experiment, what);
    return exit_status ? exit_status : shown;
}

/* --- what is stored --------------------------------------------------------------------------- */

/* Models and settings that the command line does not name are those that there are results of. */
static void take_stored(void *user, const results_trial *trial, const results_row *row) {
    evaluating *e = user;
    evaluate_request *w = &e->what;
    bool is_known = e->c->options.models.count > 0;
    (void)row;
    for (int32_t i = 0; i < w->model_count; i++)
        is_known |= strcmp(w->models[i].name, trial->model) == 0;
    if (!is_known && w->model_count < CLI_LIST_MAX) {
        char *name = e->names[w->model_count];
        snprintf(name, PROVIDER_NAME_BYTES, "%s", trial->model);
        e->models[w->model_count++] = (evaluate_model){.spec = name, .name = name};
    }
    is_known = e->c->options.settings.count > 0;
    for (int32_t i = 0; i < w->setting_count; i++)
        is_known |= strcmp(w->settings[i].name, trial->setting) == 0;
    if (!is_known && w->setting_count < CLI_LIST_MAX &&
        setting_read(str_from(trial->setting), &e->settings[w->setting_count]))
        w->setting_count++;
    if (!e->c->options.samples && trial->sample >= w->samples) w->samples = trial->sample + 1;
}

static int show_stored(evaluating *e, const char *key, const char *what) {
    int64_t experiment = 0;
    bool is_read = results_find_experiment(e->results, key, &experiment);
    if (is_read && !experiment) {
        return cli_say(EXIT_ENVIRONMENT,
                       "'%s' has no results for these options: GPU, element type, answers, seed, "
                       "grammar, where kernels run and the prompts decide which they are (%s)",
                       e->database, what);
    }
    if (!e->c->options.settings.count) e->what.setting_count = 0;
    if (is_read) is_read = results_each(e->results, experiment, take_stored, e);
    if (!is_read) return cli_say(EXIT_ENVIRONMENT, "%s", results_error(e->results));
    return show(e, experiment, what);
}

static int evaluate(evaluating *e) {
    cli *c = e->c;
    os_error why;
    char key[33];
    text_buffer what;
    text_init(&what, 1 << 20);
    bool is_stored = c->options.stored;
    int exit_status = cli_finish(c, evaluate_key(c->context, &e->what, key, &what));
    if (!exit_status) {
        exit_status = cli_find_data_file(c->options.evaluations, "FLASHTL_EVALUATION",
                                         "evaluation.sqlite", e->database);
    }
    if (!exit_status && is_stored && !os_file_exists(e->database)) {
        exit_status =
            cli_say(EXIT_ENVIRONMENT, "there are no results: '%s' is not there", e->database);
    }
    if (!exit_status && !is_stored) exit_status = make_records(e);
    if (!exit_status && !results_open(e->database, &e->results, &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    if (!exit_status && is_stored) {
        exit_status = show_stored(e, key, what.data);
        text_done(&what);
        return exit_status;
    }
    int64_t experiment = exit_status ? 0 : results_experiment(e->results, key, what.data);
    if (!exit_status && !experiment) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "%s", results_error(e->results));
    }
    if (!exit_status) exit_status = work(e, experiment, what.data);
    text_done(&what);
    return exit_status;
}

static int run(evaluating *e) {
    int exit_status = evaluating_read(e);
    if (exit_status) return exit_status;
    if (e->c->options.list) return list(e);
    if (e->c->options.dry_run) return guess(e);
    exit_status = find_device(e);
    return exit_status ? exit_status : evaluate(e);
}

int cli_run_EVALUATE(cli *c) {
    evaluating *e = calloc(1, sizeof *e);
    if (!e) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    e->c = c;
    int exit_status = run(e);
    results_close(e->results);
    request_done(&e->request);
    agents_done(&e->agents);
    tasks_done(&e->all);
    text_done(&e->file);
    free(e);
    return exit_status;
}

#endif
