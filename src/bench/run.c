/* The protocol: contenders in turns, judged before and after. docs/benchmarks.md says why. */
#include "base/hash.h"
#include "base/number.h"
#include "base/os.h"
#include "bench/set.h"
#include "verify/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROUNDS = 7,
    ROUNDS_MAX = 64,
    REPEATS_MAX = 2,
    WARM_LAUNCHES = 3,
    LAUNCHES_MAX = 10000,
    WAIT_MS = 60000
};
static const double BURST_MS = 8, SPREAD_LIMIT = 0.1;
/* Device clocks and data sheets agree within a percent or two. */
static const double ROOF_SLACK = 1.02;

typedef struct contender {
    const bench_rival *rival; /* NULL: our module */
    bench_figure *figure;
    bool is_open, is_running;
    int launches; /* of a burst */
    int32_t next; /* copy */
    hash128 output;
    double times_ms[ROUNDS_MAX];
} contender;

typedef struct bench {
    ftl_context *context;
    ftl_runtime *runtime;
    const bench_options *options;
    ftl_timer *timer;
    set_noise noise;
    const bench_program *loaded; /* whose modules these are */
    ftl_module *modules[BENCH_KERNELS_MAX];
    bench_set *set;
    set_sample sample;
    unsigned char *output; /* of the case at hand, on the host */
    size_t output_bytes;
    int32_t output_tensor;
    contender contenders[BENCH_CONTENDERS_MAX];
    int count;
    int64_t start_ns;
} bench;

const char *bench_verdict_name(bench_verdict verdict) {
    static const char *const names[] = {"fine", "wrong", "unstable", "impossible", "absent"};
    return names[verdict];
}

static bool is_stopped(const bench *b) {
    return b->options->stop && *b->options->stop;
}

/* --- launching -------------------------------------------------------------------------------- */

static ftl_status launch(bench *b, contender *c) {
    int32_t copy = c->next;
    c->next = (c->next + 1) % b->set->copies;
    if (c->rival) return c->rival->launch(c->rival->user, b->context, copy);
    const verify_program *text = &b->loaded->text;
    ftl_arguments all = set_arguments(b->set, copy);
    ftl_status status = FTL_OK;
    for (int32_t i = 0; i < program_kernel_count(text) && !status; i++) {
        ftl_tensor tensors[SET_TENSORS_MAX];
        ftl_scalar scalars[SET_TENSORS_MAX];
        ftl_arguments own =
            text->kernels ? program_arguments(text->kernels[i].plan, &all, tensors, scalars) : all;
        status = ftl_module_launch(b->context, b->modules[i], &own, NULL);
    }
    return status;
}

static ftl_status time_burst(bench *b, contender *c, int launches, double *each_ms) {
    double total_ms = 0;
    ftl_status status = ftl_timer_start(b->context, b->timer, NULL);
    for (int i = 0; !status && i < launches; i++) status = launch(b, c);
    if (!status) status = ftl_timer_stop(b->context, b->timer, NULL, &total_ms);
    *each_ms = total_ms / launches;
    return status;
}

/* Runs on the first copy, poisoned, and brings the output to the host. */
static ftl_status run_once(bench *b, contender *c) {
    ftl_status status = set_poison(b->context, b->runtime, b->set, 0);
    c->next = 0;
    if (!status) status = launch(b, c);
    if (!status) status = ftl_stream_wait(b->context, b->runtime, NULL, WAIT_MS);
    if (status) return status;
    uint64_t address = b->set->arguments[0][b->output_tensor].address;
    return ftl_device_read(b->context, b->runtime, b->output, address, b->output_bytes);
}

/* --- judging ---------------------------------------------------------------------------------- */

/* What the world did to one contender leaves the others alone; a lost device does not. */
static bool is_fatal(ftl_status status) {
    return status == FTL_KERNEL_FAULT || status == FTL_TIMEOUT || status == FTL_NO_DRIVER;
}

static ftl_status leave(bench *b, contender *c, ftl_status status) {
    c->is_running = false;
    c->figure->verdict = BENCH_ABSENT;
    snprintf(c->figure->why, sizeof c->figure->why, "%s", ftl_context_error(b->context));
    return is_fatal(status) ? status : FTL_OK;
}

static void judge(bench *b, contender *c, double *error) {
    ftl_type type = b->set->tensors[b->output_tensor].of->type;
    *error = set_sample_error(b->set, &b->sample, b->output);
    if (*error <= set_bound(type)) return; /* not true of NaN */
    c->figure->verdict = BENCH_WRONG;
    if (isnan(*error)) {
        snprintf(c->figure->why, sizeof c->figure->why,
                 "the output has elements that are no number");
        return;
    }
    number_print(c->figure->why, sizeof c->figure->why, "relative rms %.2g, allowed are %.2g",
                 *error, set_bound(type));
}

static hash128 hash_output(const bench *b) {
    return hash_bytes((str){(const char *)b->output, b->output_bytes});
}

/* --- one contender ---------------------------------------------------------------------------- */

ftl_status bench_load(ftl_context *context, ftl_runtime *runtime, const bench_program *program,
                      ftl_module **out) {
    const verify_program *text = &program->text;
    if (!text->image) return ftl_module_load(context, runtime, text->plan, text->cuda, out);
    return ftl_module_load_image(context, runtime, text->plan, text->image->bytes,
                                 text->image->length, out);
}

static void free_modules(bench *b) {
    for (int32_t i = 0; i < BENCH_KERNELS_MAX; i++) ftl_module_free(b->modules[i]);
    memset(b->modules, 0, sizeof b->modules);
    b->loaded = NULL;
}

static ftl_status load_modules(bench *b, const bench_program *program) {
    if (b->loaded == program) return FTL_OK;
    free_modules(b);
    const verify_program *text = &program->text;
    ftl_status status = FTL_OK;
    if (!text->kernels) status = bench_load(b->context, b->runtime, program, &b->modules[0]);
    for (int32_t i = 0; text->kernels && i < text->kernel_count && !status; i++)
        status = ftl_module_load(b->context, b->runtime, text->kernels[i].plan,
                                 text->kernels[i].cuda, &b->modules[i]);
    if (!status) b->loaded = program;
    return status;
}

static ftl_status open_contender(bench *b, contender *c) {
    bench_memory memory = {.copies = b->set->copies,
                           .tensors = b->set->addresses,
                           .tensor_count = b->set->plan->tensor_count};
    c->is_open = true;
    ftl_status status =
        c->rival ? c->rival->open(c->rival->user, b->context, b->runtime, b->set->what, &memory)
                 : load_modules(b, b->set->what->program);
    if (!status) status = run_once(b, c);
    if (status) return leave(b, c, status);
    judge(b, c, &c->figure->error_before);
    c->output = hash_output(b);
    double each_ms = 1;
    status = time_burst(b, c, WARM_LAUNCHES, &each_ms);
    if (status) return leave(b, c, status);
    double burst_ms = b->options->burst_ms > 0 ? b->options->burst_ms : BURST_MS;
    double launches = ceil(burst_ms / (each_ms > 1e-4 ? each_ms : 1e-4));
    c->launches = launches < 1 ? 1 : launches > LAUNCHES_MAX ? LAUNCHES_MAX : (int)launches;
    c->is_running = c->figure->verdict == BENCH_FINE;
    return FTL_OK;
}

static ftl_status check_again(bench *b, contender *c) {
    ftl_status status = run_once(b, c);
    if (status) return leave(b, c, status);
    judge(b, c, &c->figure->error_after);
    hash128 after = hash_output(b);
    bool is_same = after.high == c->output.high && after.low == c->output.low;
    if (!c->rival && !is_same && c->figure->verdict == BENCH_FINE) {
        c->figure->verdict = BENCH_UNSTABLE;
        snprintf(c->figure->why, sizeof c->figure->why, "two launches differ");
    }
    return FTL_OK;
}

/* --- rounds ----------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static double conclude_rounds(contender *c, int rounds) {
    qsort(c->times_ms, (size_t)rounds, sizeof *c->times_ms, by_value);
    double median_ms = c->times_ms[rounds / 2];
    c->figure->milliseconds = median_ms;
    c->figure->spread = median_ms > 0 ? (c->times_ms[rounds - 1] - c->times_ms[0]) / median_ms : 0;
    return c->figure->spread;
}

/* Turns: each round begins with another contender. Gives the largest spread. */
static ftl_status run_rounds(bench *b, int rounds, double *spread) {
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < b->count; i++) {
            contender *c = &b->contenders[(i + round) % b->count];
            if (!c->is_running) continue;
            if (is_stopped(b)) return ftl_context_fail(b->context, FTL_STOPPED, "interrupted");
            ftl_status status = time_burst(b, c, c->launches, &c->times_ms[round]);
            if (status) status = leave(b, c, status);
            if (status) return status;
        }
    }
    *spread = 0;
    for (int i = 0; i < b->count; i++) {
        if (!b->contenders[i].is_running) continue;
        *spread = fmax(*spread, conclude_rounds(&b->contenders[i], rounds));
    }
    return FTL_OK;
}

static void keep_figures(bench *b, bench_figure *kept, bool restore) {
    for (int i = 0; i < b->count; i++) {
        bench_figure *now = b->contenders[i].figure;
        if (restore && b->contenders[i].is_running) {
            now->milliseconds = kept[i].milliseconds;
            now->spread = kept[i].spread;
        }
        if (!restore) kept[i] = *now;
    }
}

/* Noisy rounds are taken anew; what counts are the calmest. */
static ftl_status time_case(bench *b, bench_result *result) {
    int rounds = b->options->rounds > 0 ? b->options->rounds : ROUNDS;
    if (rounds > ROUNDS_MAX) rounds = ROUNDS_MAX;
    double limit = b->options->spread_limit > 0 ? b->options->spread_limit : SPREAD_LIMIT;
    bench_figure kept[BENCH_CONTENDERS_MAX];
    double spread = 0, least = 0;
    for (int attempt = 0; attempt <= REPEATS_MAX; attempt++) {
        ftl_status status = run_rounds(b, rounds, &spread);
        if (status) return status;
        bool is_calmer = attempt == 0 || spread < least;
        if (is_calmer) keep_figures(b, kept, false);
        if (is_calmer) least = spread;
        result->repeats = attempt;
        if (least <= limit) break;
    }
    keep_figures(b, kept, true);
    result->is_noisy = least > limit;
    return FTL_OK;
}

static void compute_rates(bench *b, const bench_case *what, bench_figure *figure) {
    if (!(figure->milliseconds > 0)) return;
    double seconds = figure->milliseconds * 1e-3;
    figure->tflops = what->flops / seconds / 1e12;
    figure->gigabytes_per_s = what->bytes / seconds / 1e9;
    double most_tflops = b->options->roofline_tflops, most_gb = b->options->memory_gb_per_s;
    bool is_possible = (most_tflops <= 0 || figure->tflops <= most_tflops * ROOF_SLACK) &&
                       (most_gb <= 0 || figure->gigabytes_per_s <= most_gb * ROOF_SLACK);
    if (is_possible || figure->verdict != BENCH_FINE) return;
    figure->verdict = BENCH_IMPOSSIBLE;
    number_print(figure->why, sizeof figure->why, "above the data sheet's %.0f TFLOPS, %.0f GB/s",
                 most_tflops, most_gb);
}

/* --- one case --------------------------------------------------------------------------------- */

static ftl_status make_room(bench *b) {
    const ftl_plan *plan = b->set->plan;
    b->output_tensor = 0;
    for (int32_t i = plan->tensor_count - 1; i >= 0; i--) {
        if (plan->tensors[i].role == FTL_OUTPUT) b->output_tensor = i;
    }
    const set_tensor *output = &b->set->tensors[b->output_tensor];
    b->output_bytes = (size_t)output->elements * ftl_type_bytes(output->of->type);
    free(b->output);
    b->output = malloc(b->output_bytes);
    if (b->output && set_sample_make(b->set, &b->sample)) return FTL_OK;
    return ftl_context_fail(b->context, FTL_NO_MEMORY, "out of memory");
}

static ftl_status run_contenders(bench *b, bench_result *result) {
    for (int i = 0; i < b->count; i++) {
        if (is_stopped(b)) return ftl_context_fail(b->context, FTL_STOPPED, "interrupted");
        ftl_status status = open_contender(b, &b->contenders[i]);
        if (status) return status;
    }
    ftl_status status = time_case(b, result);
    for (int i = 0; !status && i < b->count; i++) {
        if (b->contenders[i].is_running) status = check_again(b, &b->contenders[i]);
    }
    for (int i = 0; i < b->count; i++) compute_rates(b, &result->what, &result->figures[i]);
    return status;
}

static ftl_status run_case(bench *b, const bench_case *what, bench_result *result) {
    const bench_options *o = b->options;
    *result = (bench_result){.what = *what};
    b->count = 0;
    for (int32_t i = 0; i <= o->rival_count && b->count < BENCH_CONTENDERS_MAX; i++) {
        b->contenders[b->count++] =
            (contender){.rival = i ? &o->rivals[i - 1] : NULL, .figure = &result->figures[i]};
    }
    ftl_status status = set_open(b->context, b->runtime, what, &b->noise, o->l2_bytes, b->set);
    if (!status) status = make_room(b);
    if (!status) status = run_contenders(b, result);
    for (int i = 1; i < b->count; i++) {
        if (b->contenders[i].is_open) b->contenders[i].rival->close(b->contenders[i].rival->user);
    }
    set_sample_free(&b->sample);
    set_close(b->runtime, b->set);
    result->is_done = !status;
    return status;
}

ftl_status bench_run(ftl_context *context, ftl_runtime *runtime, const bench_case *cases,
                     int32_t count, const bench_options *options, bench_result *results) {
    bench b = {.context = context,
               .runtime = runtime,
               .options = options,
               .set = calloc(1, sizeof *b.set),
               .start_ns = os_time_ns()};
    ftl_status status = b.set && set_noise_make(&b.noise)
                            ? ftl_timer_new(context, runtime, &b.timer)
                            : ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    for (int32_t i = 0; i < count; i++) results[i] = (bench_result){.what = cases[i]};
    for (int32_t i = 0; !status && i < count; i++) {
        status = run_case(&b, &cases[i], &results[i]);
        double left_s = (double)(os_time_ns() - b.start_ns) / 1e9 / (i + 1) * (count - i - 1);
        if (!status && options->on_result) {
            options->on_result(options->user, &results[i], i + 1, count, left_s);
        }
    }
    free_modules(&b);
    ftl_timer_free(b.timer);
    set_noise_free(&b.noise);
    free(b.output);
    free(b.set);
    return status;
}
