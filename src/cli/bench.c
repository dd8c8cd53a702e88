/* flashtl bench: kernels on this machine's GPU, timed as docs/benchmarks.md says. */
#include "base/number.h"
#include "bench/cudnn.h"
#include "cli/machine.h"
#include "cli/timed.h"
#include "verify/expected.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KERNELS_MAX = 64 };

typedef struct benching {
    cli *c;
    cli_request request;
    bool has_request; /* else a grid */
    grid_cell cells[TIMED_CASES_MAX];
    int cell_count;
    ftl_type dtype;
    timed_machine machine;
    timed_kernel kernels[KERNELS_MAX];
    int kernel_count;
    bench_case cases[TIMED_CASES_MAX];
    bench_result results[TIMED_CASES_MAX];
    int count;
    bench_scores scores[CLI_LIST_MAX];
    int scores_count; /* at least 1 */
    cudnn *rival;
    char rival_name[48];
    os_watch *watch;
    bool shows_progress;
    volatile sig_atomic_t stop_small;
} benching;

/* --- what is asked for ------------------------------------------------------------------------ */

static int read_grid(benching *b) {
    cli *c = b->c;
    const char *grid = c->options.grid ? c->options.grid : "paper";
    const char *wanted = c->options.dtype ? c->options.dtype : "f16";
    b->dtype = strcmp(wanted, "bf16") == 0 ? FTL_BF16 : FTL_F16;
    if (b->dtype == FTL_F16 && strcmp(wanted, "f16") != 0) {
        return cli_say(EXIT_USAGE, "'--dtype' is f16 or bf16; found '%s'", wanted);
    }
    text_buffer text;
    os_error why;
    char reason[FTL_WHY_BYTES];
    text_init(&text, 1 << 20);
    bool is_file = os_file_exists(grid);
    if (is_file && !os_read_file(grid, (1 << 20) - 1, &text, &why)) {
        text_done(&text);
        return cli_say(EXIT_ENVIRONMENT, "%s", why.text);
    }
    str lines = is_file ? text_str(&text) : (str){NULL, 0};
    if (is_file && !lines.data) lines = STR("");
    b->cell_count = grid_read(grid, lines, b->cells, TIMED_CASES_MAX, reason);
    text_done(&text);
    return b->cell_count < 0 ? cli_say(EXIT_USAGE, "%s", reason) : EXIT_DONE;
}

static int read_scores(benching *b) {
    const cli_list *list = &b->c->options.scores;
    b->scores_count = list->count ? list->count : 1;
    for (int i = 0; i < list->count; i++) {
        if (scores_read(str_trim(str_from(list->items[i])), &b->scores[i])) continue;
        text_buffer kinds;
        text_init(&kinds, 1 << 10);
        scores_list(&kinds);
        int exit_status = cli_say(EXIT_USAGE,
                                  "'--scores' takes %s, with a NUMBER above 0 and below %d; found "
                                  "'%s'",
                                  kinds.data, SCORES_LIMIT, list->items[i]);
        text_done(&kinds);
        return exit_status;
    }
    return EXIT_DONE;
}

static int read_command(benching *b) {
    const cli_options *o = &b->c->options;
    if (o->rival && strcmp(o->rival, "cudnn") != 0) {
        return cli_say(EXIT_USAGE, "'--against' is cudnn; found '%s'", o->rival);
    }
    if (cli_refuse_many_gpus(b->c) || timed_check(b->c) || read_scores(b)) return EXIT_USAGE;
    b->has_request = o->op || o->file_count;
    if (!b->has_request) {
        bool is_stray = o->causal || o->window || o->softcap || o->alibi || o->lse ||
                        o->with.count || o->head_dim || o->lengths || o->heads || o->batch ||
                        o->let.count || o->measured;
        if (is_stray)
            return cli_say(EXIT_USAGE, "a grid says itself what is timed; the options of "
                                       "a sketch need a file or '--op'");
        return read_grid(b);
    }
    if (o->grid) return cli_say(EXIT_USAGE, "give a grid, a file or '--op', not two of them");
    return request_open(b->c, &b->request);
}

/* --- kernels and cases ------------------------------------------------------------------------ */

static int cell_kernel(benching *b, const grid_cell *cell, bool is_whole, timed_kernel **out) {
    for (int i = 0; i < b->kernel_count; i++) {
        const bench_program *p = &b->kernels[i].program;
        bool is_it = p->head_dim == cell->head_dim && p->value_dim == cell->value_dim;
        if (cell->is_decode) {
            is_it = is_it && b->kernels[i].is_whole == is_whole &&
                    strtol(b->kernels[i].group + strlen("group="), NULL, 10) ==
                        cell->q_heads / cell->kv_heads;
        } else {
            is_it = is_it && (p->text.setting_count == 1) == cell->is_causal &&
                    b->kernels[i].is_short == timed_is_short(cell);
        }
        *out = &b->kernels[i];
        if (is_it) return EXIT_DONE;
    }
    if (b->kernel_count == KERNELS_MAX) {
        return cli_say(EXIT_USAGE, "a grid has at most %d kernels", KERNELS_MAX);
    }
    *out = &b->kernels[b->kernel_count++];
    ftl_status status = cell->is_decode
                            ? timed_decode(b->c, &b->machine, cell, b->dtype, is_whole, *out)
                            : timed_attention(b->c, &b->machine, cell, b->dtype, *out);
    return cli_finish(b->c, status);
}

/* What the call would launch: for sequences of one split one kernel. */
static int grid_kernel(benching *b, const grid_cell *cell, timed_kernel **out) {
    int status = cell_kernel(b, cell, false, out);
    if (status || !cell->is_decode || timed_splits(&b->machine, cell, *out) > 1) return status;
    return cell_kernel(b, cell, true, out);
}

static int make_cases(benching *b) {
    cli *c = b->c;
    if (b->has_request) {
        b->kernel_count = 1;
        int exit_status = cli_finish(c, timed_request(c, &b->machine, &b->request, &b->kernels[0]));
        if (exit_status) return exit_status;
        return timed_cases(c, &b->request, &b->kernels[0], b->cases, TIMED_CASES_MAX, &b->count);
    }
    for (int i = 0; i < b->cell_count; i++) {
        timed_kernel *kernel = NULL;
        int exit_status = grid_kernel(b, &b->cells[i], &kernel);
        if (!exit_status) {
            ftl_status status =
                timed_cell(c, &b->machine, &b->cells[i], kernel, &b->cases[b->count++]);
            exit_status = cli_finish(c, status);
        }
        if (exit_status) return exit_status;
        b->watch->beats++; /* a kernel may have been made */
    }
    return EXIT_DONE;
}

/* Each case once for each distribution of scores. */
static int spread_scores(benching *b) {
    int times = b->scores_count;
    if (b->count * times > TIMED_CASES_MAX) {
        return cli_say(EXIT_USAGE, "at most %d cases are timed", TIMED_CASES_MAX);
    }
    for (int i = b->count - 1; i >= 0; i--) {
        bench_case one = b->cases[i];
        bench_attention attention;
        for (int k = times - 1; k >= 0; k--) {
            bench_case *c = &b->cases[i * times + k];
            *c = one;
            c->scores = b->scores[k];
            if (c->scores.kind == SCORES_NORMAL) continue;
            if (!bench_read_attention(&one, &attention)) {
                return cli_say(EXIT_USAGE,
                               "'--scores' is for attention as FlashTL ships it; '%s' "
                               "is timed with inputs of N(0,1)",
                               one.name);
            }
            char text[SCORES_TEXT_BYTES];
            size_t used = strlen(c->row);
            scores_print(c->scores, text);
            snprintf(c->row + used, sizeof c->row - used, ", %s", text);
        }
    }
    b->count *= times;
    return EXIT_DONE;
}

/* A program without a closed formula is proved at small sizes before it is timed at large ones. The
 * first that is wrong ends it.
 */
static void on_small_result(void *user, const verify_result *result) {
    benching *b = user;
    if (result->verdict == VERIFY_FAILED) b->stop_small = 1;
}

static void on_small_progress(void *user, const verify_progress *progress) {
    benching *b = user;
    (void)progress;
    b->watch->beats++;
    if (*cli_interrupted()) b->stop_small = 1;
}

static int verify_one(benching *b, verify_program *text) {
    expected_formula formula = expected_choose(text);
    bool is_sampled =
        formula == EXPECTED_ATTENTION || formula == EXPECTED_GEMM || formula == EXPECTED_SOFTMAX;
    if (is_sampled) return EXIT_DONE;
    verify_options options = {.seed = 1,
                              .stop = &b->stop_small,
                              .on_result = on_small_result,
                              .on_progress = on_small_progress,
                              .user = b};
    verify_summary summary = {0};
    verify_machine *machine = NULL;
    ftl_status status =
        verify_machine_open(b->c->context, text, VERIFY_GPU, b->machine.runtime, &machine);
    if (!status) {
        status =
            verify_run(b->c->context, text, verify_machine_runner(machine), &options, &summary);
    }
    verify_machine_close(machine);
    if (!summary.failed) return cli_finish(b->c, status);
    return cli_say(EXIT_REJECTED, "a small case is wrong; nothing is timed ('flashtl verify --on "
                                  "gpu' says which)");
}

static int verify_small(benching *b) {
    int exit_status = EXIT_DONE;
    for (int i = 0; i < b->kernel_count && !exit_status; i++)
        exit_status = verify_one(b, &b->kernels[i].program.text);
    return exit_status;
}

/* --- results ---------------------------------------------------------------------------------- */

static void on_result(void *user, const bench_result *result, int32_t done, int32_t total,
                      double seconds_left) {
    benching *b = user;
    if (b->watch) {
        b->watch->beats++;
        snprintf(b->watch->doing, sizeof b->watch->doing, "case %d of %d", done + 1, total);
    }
    (void)result;
    if (!b->shows_progress) return;
    if (done < total) {
        number_write(stderr, "\r\033[K%d of %d cases, about %.0f s left", done, total,
                     seconds_left);
    } else {
        fputs("\r\033[K", stderr);
    }
}

static int plot(const benching *b, const bench_names *names, const char *path) {
    const char *const argv[] = {"gnuplot", NULL};
    text_buffer script, out, err;
    os_error why;
    int code = 0;
    text_init(&script, 4 << 20);
    text_init(&out, 1 << 20);
    text_init(&err, 1 << 20);
    bench_plot(b->results, b->count, names, path, &script);
    int exit_status = EXIT_DONE;
    if (!os_run(argv, text_str(&script), 60, &out, &err, &code, &why)) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "no plot: %s", why.text);
    } else if (code != 0) {
        exit_status = cli_say(EXIT_ENVIRONMENT, "gnuplot: %s", err.data ? err.data : "failed");
    }
    text_done(&script);
    text_done(&out);
    text_done(&err);
    return exit_status;
}

/* A kernel of ours that is wrong is a failed check; a rival's trouble is not ours. */
static int judge(const benching *b) {
    for (int i = 0; i < b->count; i++) {
        bench_verdict verdict = b->results[i].figures[0].verdict;
        bool is_bad = verdict != BENCH_FINE && verdict != BENCH_ABSENT;
        if (b->results[i].is_done && is_bad) return EXIT_REJECTED;
    }
    return EXIT_DONE;
}

static int report(const benching *b) {
    cli *c = b->c;
    bench_names names = {.gpu = b->machine.device.name,
                         .contenders = {"flashtl", b->rival_name},
                         .count = b->rival ? 2 : 1};
    text_buffer text;
    text_init(&text, 16 << 20);
    for (int i = 0; c->options.json && i < b->count; i++) {
        bench_result_json(&b->results[i], &names, &text);
    }
    if (!c->options.json) bench_table(b->results, b->count, &names, &text);
    int exit_status = cli_print(&text);
    if (!exit_status && c->options.plot) exit_status = plot(b, &names, c->options.plot);
    return exit_status ? exit_status : judge(b);
}

/* --- the run ---------------------------------------------------------------------------------- */

static int open_rival(benching *b) {
    if (!b->c->options.rival) return EXIT_DONE;
    ftl_status status = cudnn_open(b->c->context, getenv("FLASHTL_CUDNN"), &b->rival);
    if (status) return cli_say(EXIT_ENVIRONMENT, "%s", ftl_context_error(b->c->context));
    long long version = cudnn_version(b->rival);
    snprintf(b->rival_name, sizeof b->rival_name, "cudnn %lld.%lld.%lld", version / 10000,
             version / 100 % 100, version % 100);
    return EXIT_DONE;
}

static int time_all(benching *b) {
    bench_options options;
    int exit_status = timed_options(b->c, &b->machine, &options);
    if (exit_status) return exit_status;
    bench_rival rival = {0};
    if (b->rival) rival = cudnn_rival(b->rival);
    options.rivals = &rival;
    options.rival_count = b->rival ? 1 : 0;
    options.stop = cli_interrupted();
    options.on_result = on_result;
    options.user = b;
    cli_tell(stderr, "%s, description %s: at most %.0f TFLOPS\n", b->machine.device.name,
             b->machine.gpu.name, options.roofline_tflops);
    ftl_status status =
        bench_run(b->c->context, b->machine.runtime, b->cases, b->count, &options, b->results);
    if (status && b->shows_progress) fputs("\r\033[K", stderr);
    bool has_results = !status || status == FTL_STOPPED || b->results[0].is_done;
    int failed = status ? cli_finish(b->c, status) : EXIT_DONE;
    exit_status = has_results ? report(b) : EXIT_DONE;
    return failed ? failed : exit_status;
}

static int run_in_child(void *user, os_watch *watch) {
    benching *b = user;
    b->watch = watch;
    snprintf(watch->doing, sizeof watch->doing, "the start");
    int exit_status = cli_finish(b->c, timed_open(b->c, b->request.options.gpu, &b->machine));
    if (!exit_status) exit_status = open_rival(b);
    if (!exit_status) exit_status = make_cases(b);
    if (!exit_status) exit_status = spread_scores(b);
    watch->beats++;
    if (!exit_status) exit_status = verify_small(b);
    watch->beats++;
    if (!exit_status) exit_status = time_all(b);
    cudnn_close(b->rival);
    for (int i = 0; i < b->kernel_count; i++) timed_kernel_done(&b->kernels[i]);
    timed_close(&b->machine);
    return exit_status;
}

int cli_run_BENCH(cli *c) {
    static const double SILENCE_S = 120;
    benching *b = calloc(1, sizeof *b);
    if (!b) return cli_say(EXIT_ENVIRONMENT, "out of memory");
    b->c = c;
    b->shows_progress = os_is_terminal(2);
    int exit_status = read_command(b);
    if (!exit_status && c->options.gpu.count) b->request.options.gpu = c->options.gpu.items[0];
    if (!exit_status) {
        os_error why;
        cli_catch_interrupts();
        /* A kernel that hangs takes its CUDA context with it: it runs in a child. */
        if (!os_run_watched(run_in_child, b, SILENCE_S, &exit_status, &why)) {
            exit_status = cli_say(EXIT_REJECTED, "%s", why.text);
        }
    }
    request_done(&b->request);
    free(b);
    return exit_status;
}
