/* flashtl verify: is a kernel right? A line per case, a command for each failure. */
#include "verify/verify.h"

#include "base/number.h"
#include "cli/machine.h"
#include "cli/request.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct verification {
    cli *c;
    cli_request request;
    machine_program made;
    verify_options options;
    verify_on on;
    char command[2048];
    os_watch *watch; /* of the parent, when this runs in a child; else NULL */
    int64_t start_ns, shown_ns;
    bool shows_progress;
    text_buffer against; /* text of --against */
} verification;

/* --- messages --------------------------------------------------------------------------------- */

static void clear_progress(verification *v) {
    if (v->shown_ns) fputs("\r\033[K", stderr);
    v->shown_ns = 0;
}

static void on_result(void *user, const verify_result *result) {
    verification *v = user;
    if (v->watch) v->watch->beats++;
    clear_progress(v);
    text_buffer line;
    text_init(&line, 1 << 16);
    if (v->c->options.json) verify_result_json(result, &line);
    else verify_result_text(result, &line);
    cli_print(&line);
}

/* After two seconds, on a terminal: how far, and how long still. */
static void on_progress(void *user, const verify_progress *progress) {
    verification *v = user;
    if (v->watch) {
        v->watch->beats++;
        snprintf(v->watch->doing, sizeof v->watch->doing, "case %d of %d of kernel '%s'",
                 progress->done + 1, progress->total, v->made.plan->kernel);
    }
    int64_t now_ns = os_time_ns();
    if (!v->shows_progress || now_ns - v->start_ns < 2000000000) return;
    v->shown_ns = now_ns;
    if (progress->seconds_left >= 0) {
        number_write(stderr, "\r\033[K%d of %d cases, about %.0f s left", progress->done,
                     progress->total, progress->seconds_left);
    } else {
        fprintf(stderr, "\r\033[K%d of %d cases", progress->done, progress->total);
    }
}

static void print_summary(const verification *v, const verify_summary *s) {
    if (v->c->options.json) {
        text_buffer line;
        text_init(&line, 1 << 16);
        verify_summary_json(s, &line);
        cli_print(&line);
        return;
    }
    number_write(
        stdout,
        "%d %s: %d passed, %d failed, %d skipped; worst relative rms %.2g of %.2g allowed; "
        "%.1f s\n",
        s->total, s->total == 1 ? "case" : "cases", s->passed, s->failed, s->skipped, s->worst_rms,
        s->rms_bound, s->seconds);
    if (s->left_out) {
        fprintf(stderr, "flashtl: %d longer %s left out; '--seconds' says how long\n", s->left_out,
                s->left_out == 1 ? "case was" : "cases were");
    }
}

static int list_cases(const verification *v, const verify_program *program) {
    arena memory;
    jmp_buf exhausted;
    const verify_case *cases;
    int32_t count = 0;
    char why[FTL_WHY_BYTES];
    text_buffer line;
    arena_init(&memory, 64 << 20);
    text_init(&line, 16 << 20);
    bool is_made = false;
    if (!setjmp(exhausted)) {
        memory.on_exhausted = &exhausted;
        verify_list list = {v->options.shapes, v->options.more, v->options.seed};
        is_made = verify_cases(program, &list, 0, &memory, &cases, &count, why);
    } else {
        snprintf(why, sizeof why, "the list is too long");
    }
    for (int32_t i = 0; is_made && i < count; i++) {
        if (!verify_cases_hold(v->options.cases, cases[i].number)) continue;
        if (v->c->options.json) verify_case_json(program, &cases[i], &line);
        else verify_case_text(program, &cases[i], &line);
    }
    arena_done(&memory);
    int printed = cli_print(&line);
    return is_made ? printed : cli_say(EXIT_USAGE, "%s", why);
}

/* The command line without what chooses cases: a failure's repro adds its own. */
static void keep_command(verification *v, int argc, char **argv) {
    static const char *const dropped[] = {"--shapes", "--more", "--case", "--seed", "--seconds"};
    size_t used = (size_t)snprintf(v->command, sizeof v->command, "flashtl");
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") == 0) continue;
        bool is_dropped = false, has_value = strchr(argv[i], '=') != NULL;
        for (size_t k = 0; k < sizeof dropped / sizeof *dropped; k++) {
            is_dropped |= strncmp(argv[i], dropped[k], strlen(dropped[k])) == 0;
        }
        if (is_dropped && !has_value) i++;
        if (is_dropped || used >= sizeof v->command) continue;
        bool needs_quotes = strpbrk(argv[i], " \t'\"$&;|<>()*?") != NULL;
        used += (size_t)snprintf(v->command + used, sizeof v->command - used,
                                 needs_quotes ? " '%s'" : " %s", argv[i]);
    }
}

/* --- options ---------------------------------------------------------------------------------- */

static int read_options(verification *v) {
    const cli_options *o = &v->c->options;
    uint64_t seed;
    int64_t seconds = 0;
    int32_t more = 0;
    int exit_status = cli_read_seed(v->c, &seed);
    if (!exit_status) exit_status = cli_read_integer("seconds", o->seconds, 1, INT64_MAX, &seconds);
    if (!exit_status) exit_status = cli_read_more(v->c, &more);
    if (!exit_status && !verify_cases_are_readable(o->cases)) {
        exit_status =
            cli_say(EXIT_USAGE, "'--case' is numbers such as 7 or 0..3,7; found '%s'", o->cases);
    }
    if (!exit_status) exit_status = machine_read_on(v->c, &v->request, &v->on);
    v->options = (verify_options){.shapes = o->shapes,
                                  .more = more,
                                  .seed = seed,
                                  .cases = o->cases,
                                  .seconds_most = (double)seconds,
                                  .command = v->command,
                                  .stop = cli_interrupted(),
                                  .on_result = on_result,
                                  .on_progress = on_progress,
                                  .user = v};
    return exit_status;
}

/* Cases that the command names may be without elements. */
static bool is_chosen(const verify_options *o) {
    static const char *const lists[] = {"small", "all", "decisive", "none"};
    bool is_list = !o->shapes;
    for (int i = 0; i < 4 && !is_list; i++) is_list = strcmp(o->shapes, lists[i]) == 0;
    return o->cases || !is_list;
}

/* --- the run ---------------------------------------------------------------------------------- */

static int run(verification *v, ftl_runtime *runtime) {
    ftl_context *context = v->c->context;
    verify_program program = machine_verify_program(&v->made, &v->request);
    if (v->against.data) {
        program.sketch = (ftl_source){v->c->options.against, v->against.data, v->against.length};
    }
    verify_machine *machine = NULL;
    verify_summary summary;
    ftl_status status = v->on == VERIFY_GPU ? ftl_device_use(context, runtime, 0) : FTL_OK;
    if (!status) status = verify_machine_open(context, &program, v->on, runtime, &machine);
    if (!status) {
        const verify_runner *runner = verify_machine_runner(machine);
        v->start_ns = os_time_ns();
        status = verify_run(context, &program, runner, &v->options, &summary);
        clear_progress(v);
        if (status == FTL_OK || status == FTL_CHECK_FAILED || status == FTL_STOPPED) {
            print_summary(v, &summary);
        }
    }
    verify_machine_close(machine);
    if (!status && summary.total && summary.skipped == summary.total) {
        return cli_say(EXIT_REJECTED, "nothing was verified: every case was skipped");
    }
    if (!status && summary.open && !is_chosen(&v->options)) {
        return cli_say(
            EXIT_REJECTED,
            "'%s' was not verified: no case could compare most of its elements, as they, or "
            "values on the way to them, may be beyond their types, or nothing writes them; "
            "`flashtl run` takes other "
            "inputs",
            summary.open);
    }
    if (!status && !summary.compared && !is_chosen(&v->options)) {
        return cli_say(EXIT_REJECTED,
                       "nothing was verified: no case had an element to compare; '--seconds' "
                       "admits longer cases, '--shapes' names some");
    }
    if (status == FTL_CHECK_FAILED) return EXIT_REJECTED;
    return cli_finish(v->c, status);
}

static int run_in_child(void *user, os_watch *watch) {
    verification *v = user;
    ftl_runtime *runtime = NULL;
    v->watch = watch;
    snprintf(watch->doing, sizeof watch->doing, "the start of kernel '%s'", v->made.plan->kernel);
    ftl_status status = cli_open_runtime(v->c, &runtime);
    int exit_status = status ? cli_finish(v->c, status) : run(v, runtime);
    ftl_runtime_close(runtime);
    return exit_status;
}

/* A kernel that hangs takes its CUDA context with it, so kernels run in a child that may be killed.
 */
static int run_on_gpu(verification *v) {
    static const double SILENCE_S = 60;
    int exit_status = EXIT_ENVIRONMENT;
    os_error why;
    if (os_run_watched(run_in_child, v, SILENCE_S, &exit_status, &why)) return exit_status;
    return cli_say(EXIT_REJECTED, "%s", why.text);
}

int cli_run_VERIFY(cli *c) {
    static verification v;
    v.c = c;
    v.shows_progress = os_is_terminal(2) && !c->options.json;
    keep_command(&v, c->argc, c->argv);
    ftl_runtime *runtime = NULL;
    int exit_status = request_open(c, &v.request);
    if (!exit_status) exit_status = read_options(&v);
    if (!exit_status) exit_status = machine_make(c, &v.request, v.on, &v.made);
    ftl_source against;
    bool lacks = !exit_status && c->options.against &&
                 !cli_read_source(c, c->options.against, &v.against, &against);
    if (lacks) exit_status = EXIT_ENVIRONMENT;
    if (!exit_status) cli_catch_interrupts();
    if (!exit_status && c->options.list) {
        verify_program program = machine_verify_program(&v.made, &v.request);
        exit_status = list_cases(&v, &program);
    } else if (!exit_status && v.on == VERIFY_GPU) {
        exit_status = run_on_gpu(&v);
    } else if (!exit_status) {
        exit_status = cli_finish(c, cli_open_runtime(c, &runtime));
        if (!exit_status) exit_status = run(&v, runtime);
        ftl_runtime_close(runtime);
    }
    if (v.against.limit_bytes) text_done(&v.against);
    machine_done(&v.made);
    request_done(&v.request);
    return exit_status;
}
