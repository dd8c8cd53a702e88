/* flashtl tune: which decisions make a kernel fastest on this machine's GPU? */
#include "cli/timed.h"

#ifndef FLASHTL_HAS_SQLITE

int cli_run_TUNE(cli *c) {
    (void)c;
    return cli_say(EXIT_ENVIRONMENT, "this flashtl was built without SQLite, which 'tune' needs");
}

#else

#include "base/number.h"
#include "tune/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 10, PATH_BYTES = CLI_PATH_BYTES };

typedef struct tuning_command {
    cli *c;
    cli_request request;
    tune_request tune;
    char database[PATH_BYTES], title[TUNE_TITLE_BYTES], cases[TUNE_TITLE_BYTES];
    bool shows_progress;
    int exit_status; /* of what was written at the end */
} tuning_command;

/* --- messages --------------------------------------------------------------------------------- */

static void on_progress(void *user, const tune_progress *p) {
    tuning_command *t = user;
    if (!t->shows_progress) return;
    double left = p->seconds_left > 0 ? p->seconds_left : 0;
    number_write(stderr,
                 "\r\033[Kround %d, %s: %d of %d; best %.3f times the model's choice%s%.60s%s; "
                 "%.0f s left at most",
                 p->round, p->doing, p->done, p->total, p->best_ratio, *p->best_pins ? " (" : "",
                 p->best_pins, *p->best_pins ? ")" : "", left);
}

static void on_failure(void *user, ftl_context *context, ftl_status status) {
    tuning_command *t = user;
    (void)context;
    if (t->shows_progress) fputs("\r\033[K", stderr);
    cli_finish(t->c, status);
}

static ftl_status make_cases(void *user, ftl_context *context, const bench_program *program,
                             bench_case *cases, int *count) {
    tuning_command *t = user;
    timed_kernel kernel = {.program = *program};
    if (timed_cases(t->c, &t->request, &kernel, cases, TUNE_CASES_MAX, count)) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "there is nothing to time");
    }
    for (int i = 0; i < *count; i++) cases[i].program = program;
    return FTL_OK;
}

/* --- the command line ------------------------------------------------------------------------- */

/* "--op gqa --causal": what was asked for, without what every request has. */
static void write_title(tuning_command *t) {
    size_t used = 0;
    t->title[0] = 0;
    for (int i = 2; i < t->c->argc; i++) {
        static const char *const dropped[] = {"--database", "--output", "-o",        "--seconds",
                                              "--jobs",     "--rounds", "--lengths", "--gpu"};
        bool is_dropped = false;
        for (size_t k = 0; k < sizeof dropped / sizeof *dropped; k++) {
            is_dropped = is_dropped || strncmp(t->c->argv[i], dropped[k], strlen(dropped[k])) == 0;
        }
        if (is_dropped && !strchr(t->c->argv[i], '=')) i++;
        if (is_dropped) continue;
        int more = snprintf(t->title + used, sizeof t->title - used, "%s%s", used ? " " : "",
                            t->c->argv[i]);
        if (more > 0 && (size_t)more < sizeof t->title - used) used += (size_t)more;
    }
    t->title[used] = 0;
}

static int read_command(tuning_command *t) {
    cli *c = t->c;
    int64_t seconds = 300, jobs = 0;
    int exit_status =
        cli_find_data_file(c->options.database, "FLASHTL_TUNING", "tuning.sqlite", t->database);
    if (!exit_status)
        exit_status = cli_read_integer("seconds", c->options.budget, 1, 1000000, &seconds);
    if (!exit_status) exit_status = cli_read_integer("jobs", c->options.jobs, 1, 64, &jobs);
    if (!exit_status) exit_status = cli_refuse_many_gpus(c);
    if (!exit_status) exit_status = timed_check(c);
    if (exit_status) return exit_status;
    t->tune.database = t->database;
    t->tune.seconds = (double)seconds;
    t->tune.jobs = (int32_t)jobs;
    return EXIT_DONE;
}

/* --- the end ---------------------------------------------------------------------------------- */

/* The measured text: to --output, else to standard output. */
static int write_text(tuning_command *t, const char *gpu) {
    cli *c = t->c;
    text_buffer text;
    text_init(&text, 16 << 20);
    ftl_status status = tune_export(c->context, t->database, gpu, &text);
    text_add_z(&text, "");
    if (!status && (text.failed || !text.data))
        status = ftl_context_fail(c->context, FTL_NO_MEMORY, "out of memory");
    if (status) {
        text_done(&text);
        return cli_finish(c, status);
    }
    return c->options.output ? cli_put(c, text.data) : cli_put_text(c, NULL, text.data);
}

static void on_done(void *user, ftl_context *context, const char *gpu, const char *problem) {
    tuning_command *t = user;
    text_buffer text;
    if (t->shows_progress) fputs("\r\033[K", stderr);
    text_init(&text, 1 << 20);
    ftl_status status = t->c->options.json
                            ? tune_report_json(context, t->database, gpu, problem, &text)
                            : tune_report(context, t->database, gpu, problem, SHOWN, &text);
    if (!status && text.failed) status = ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (!status && text.data) fwrite(text.data, 1, text.length, stdout);
    text_done(&text);
    int exit_status = cli_finish(t->c, status);
    if (!status && t->c->options.output) exit_status = write_text(t, gpu);
    if (exit_status) t->exit_status = exit_status;
}

static int tune(tuning_command *t) {
    cli *c = t->c;
    char folder[PATH_BYTES];
    bool is_attention = strcmp(t->request.family, "attention") == 0;
    if (!c->options.lengths) c->options.lengths = is_attention ? "512,2048,8192" : "1024,4096";
    write_title(t);
    snprintf(t->cases, sizeof t->cases, "lengths %s%s%s%s%s", c->options.lengths,
             c->options.heads ? ", heads " : "", c->options.heads ? c->options.heads : "",
             c->options.batch ? ", batch " : "", c->options.batch ? c->options.batch : "");
    t->tune.source = t->request.source;
    t->tune.options = t->request.options;
    t->tune.shape = timed_shape(&t->request);
    t->tune.runtime = cli_runtime_options(c, folder);
    int64_t rounds = 0;
    int exit_status = cli_read_integer("rounds", c->options.rounds, 1, 64, &rounds);
    if (exit_status) return exit_status;
    t->tune.timing.rounds = (int32_t)rounds;
    t->tune.timing.burst_ms = 5;
    t->tune.title = t->title;
    t->tune.cases_text = t->cases;
    t->tune.stop = cli_interrupted();
    t->tune.make_cases = make_cases;
    t->tune.on_progress = on_progress;
    t->tune.on_failure = on_failure;
    t->tune.on_done = on_done;
    t->tune.user = t;
    cli_catch_interrupts();
    ftl_status status = tune_run(c->context, &t->tune);
    if (!status) return t->exit_status;
    return status == FTL_REJECTED || status == FTL_CHECK_FAILED ? EXIT_REJECTED
           : status == FTL_INVALID_ARGUMENT                     ? EXIT_USAGE
                                                                : EXIT_ENVIRONMENT;
}

/* Without a program: what the database knows of the GPU. */
static int write_known(tuning_command *t) {
    cli *c = t->c;
    if (!c->options.gpu.count) {
        return cli_say(EXIT_USAGE,
                       "what is to be tuned? '--op OPERATOR' or a file; with '--gpu NAME' "
                       "alone, what is known of that GPU is written");
    }
    ftl_gpu known = FTL_GPU_INIT;
    ftl_status status = ftl_gpu_describe(c->context, c->options.gpu.items[0], &known);
    return status ? cli_finish(c, status) : write_text(t, c->options.gpu.items[0]);
}

int cli_run_TUNE(cli *c) {
    tuning_command *t = calloc(1, sizeof *t);
    if (!t) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    t->c = c;
    t->shows_progress = os_is_terminal(2);
    int exit_status = read_command(t);
    bool has_program = c->options.op || c->options.file_count;
    if (!exit_status && !has_program) exit_status = write_known(t);
    if (!exit_status && has_program) {
        exit_status = request_open(c, &t->request);
        if (!exit_status) exit_status = tune(t);
        request_done(&t->request);
    }
    free(t);
    return exit_status;
}

#endif
