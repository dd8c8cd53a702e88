/* The walk, and the processes it runs in. */
#include "base/hash.h"
#include "tune/build.h"
#include "tune/tune.h"
#include "verify/verify.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WALK_ROUNDS_MAX = 12,
    COMPILED_MAX = 48, /* candidates of a round that are compiled, the most promising ones */
    CONFIRMED = 3,
    RESTARTS_MAX = 40,
    EXIT_AGAIN = 77,   /* of the child: the device is lost, start anew */
    EXIT_FAILED = 100, /* and the status on top */
    CONFIRMING_ROUNDS = 15
};
static const double SECONDS = 300, SILENCE_S = 60;
static const double LEAST_FORECAST = 0.6; /* of the model's choice */
static const double BETTER = 1.003;       /* what counts as faster */
/* Small cases that meet every edge, for programs with queries and keys. */
static const char edges[] = "1x1,113x203,128x64,65x129,70x3";

typedef struct tuning {
    tune_request *request;
    os_watch *watch;
    int64_t deadline_ns;
    ftl_context *context;
    ftl_runtime *runtime;
    store *database;
    int64_t problem;
    char owner[STORE_OWNER_BYTES];
    ftl_device device;
    ftl_gpu here;
    char target[32];
    ftl_decisions *decisions;
    search_space space;
    build_candidate model; /* the model's own choice: what all are compared with */
    bench_program model_program;
    bench_kernel rival;
    search_choice best;
    double best_ratio;
    char best_pins[STORE_PINS_BYTES];
} tuning;

static bool is_over(const tuning *t) {
    bool is_stopped = t->request->stop && *t->request->stop;
    return is_stopped || os_time_ns() > t->deadline_ns;
}

static void tell(tuning *t, int round, int done, int total, const char *doing) {
    if (t->watch) {
        t->watch->beats++;
        snprintf(t->watch->doing, sizeof t->watch->doing, "%s, candidate %d of %d", doing, done + 1,
                 total);
    }
    if (!t->request->on_progress) return;
    tune_progress progress = {.round = round,
                              .done = done,
                              .total = total,
                              .best_ratio = t->best_ratio,
                              .best_pins = t->best_pins,
                              .seconds_left = (double)(t->deadline_ns - os_time_ns()) / 1e9,
                              .doing = doing};
    t->request->on_progress(t->request->user, &progress);
}

/* --- opening ------------------------------------------------------------------------------------
 */

static ftl_status open_machine(tuning *t) {
    ftl_context *c = t->context;
    ftl_status status = ftl_runtime_open(c, &t->request->runtime, &t->runtime);
    if (!status) status = ftl_device_use(c, t->runtime, 0);
    if (!status) status = ftl_device_describe(c, t->runtime, 0, &t->device);
    const ftl_device *d = &t->device;
    if (!status) {
        status =
            ftl_gpu_for_device(c, d->name, 10 * d->major + d->minor, d->multiprocessors, &t->here);
    }
    if (!status && !t->request->options.gpu) t->request->options.gpu = t->here.name;
    return status;
}

static void fill_program(const tuning *t, const build_candidate *c, bench_program *out) {
    *out = t->request->shape;
    out->text.sketch = t->request->source;
    out->text.code =
        (ftl_source){t->request->source.name, c->product->code, strlen(c->product->code)};
    out->text.plan = c->product->kernels[0].plan;
    out->text.cuda = c->product->kernels[0].cuda;
    out->text.image = c->has_image ? &c->image : NULL;
}

static ftl_status open_model(tuning *t) {
    ftl_options options = t->request->options;
    ftl_gpu wanted;
    options.measured = "";
    ftl_status status = ftl_decide(t->context, &t->request->source, &options, &t->decisions);
    if (!status) status = ftl_gpu_describe(t->context, options.gpu, &wanted);
    if (status) return status;
    snprintf(t->target, sizeof t->target, "%s", wanted.target);
    search_open(&t->space, t->decisions);
    build_all(t->request, &t->space, &t->model, 1);
    if (t->model.row.state == STORE_OPEN) {
        build_compile(t->request, t->runtime, t->target, &t->model, 1);
    }
    if (!t->model.has_image) {
        return ftl_context_fail(t->context, FTL_COMPILER_FAILED, "the model's own choice: %s",
                                t->model.row.why);
    }
    if (t->model.product->kernel_count != 1) {
        return ftl_context_fail(t->context, FTL_INVALID_ARGUMENT,
                                "a program of one kernel is tuned; this one has %d",
                                t->model.product->kernel_count);
    }
    fill_program(t, &t->model, &t->model_program);
    t->rival = (bench_kernel){.program = &t->model_program};
    return FTL_OK;
}

static ftl_status database_failure(const tuning *t) {
    return ftl_context_fail(t->context, FTL_NO_FILE, "%s", store_error(t->database));
}

static ftl_status open_problem(tuning *t) {
    char software[160];
    snprintf(software, sizeof software, "driver %d.%d, %s, flashtl %s",
             t->device.driver_version / 1000, t->device.driver_version / 10 % 100,
             t->model.image.compiler, ftl_version());
    store_key key = {.problem = t->decisions->problem,
                     .title = t->request->title,
                     .gpu = t->request->options.gpu,
                     .device = t->device.name,
                     .software = software,
                     .cases = t->request->cases_text};
    if (!store_recover(t->database)) return database_failure(t);
    t->problem = store_problem(t->database, &key);
    return t->problem ? FTL_OK : database_failure(t);
}

/* --- measuring ----------------------------------------------------------------------------------
 */

static bool has_size(const ftl_plan *plan, const char *name) {
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (strcmp(plan->sizes[i].name, name) == 0) return true;
    }
    return false;
}

/* The first case that failed; a fault or a hang is more than a wrong result. */
typedef struct first_failure {
    ftl_status status;
    char what[STORE_WHY_BYTES];
} first_failure;

static void keep_failure(void *user, const verify_result *result) {
    first_failure *f = user;
    if (result->verdict != VERIFY_FAILED || f->what[0]) return;
    const char *rule = result->rule ? result->rule : "";
    f->status = strcmp(rule, ftl_status_name(FTL_KERNEL_FAULT)) == 0 ? FTL_KERNEL_FAULT
                : strcmp(rule, ftl_status_name(FTL_TIMEOUT)) == 0    ? FTL_TIMEOUT
                                                                     : FTL_CHECK_FAILED;
    snprintf(f->what, sizeof f->what, "%.100s: %.120s", result->name, result->what);
}

static ftl_status verify(tuning *t, const bench_program *program, store_row *row) {
    verify_machine *machine = NULL;
    verify_summary summary = {0};
    bool has_edges =
        has_size(program->text.plan, "q_len") && has_size(program->text.plan, "kv_len");
    first_failure failure = {.what = ""};
    verify_options options = {.shapes = has_edges ? edges : NULL,
                              .seed = 1,
                              .stop = t->request->stop,
                              .on_result = keep_failure,
                              .user = &failure};
    ftl_status status =
        verify_machine_open(t->context, &program->text, VERIFY_GPU, t->runtime, &machine);
    if (!status) {
        status = verify_run(t->context, &program->text, verify_machine_runner(machine), &options,
                            &summary);
    }
    verify_machine_close(machine);
    if (status != FTL_CHECK_FAILED) return status;
    if (failure.status != FTL_CHECK_FAILED) {
        return ftl_context_fail(t->context, failure.status, "%s", failure.what);
    }
    row->state = STORE_WRONG;
    snprintf(row->why, sizeof row->why, "%d of %d small cases are wrong: %.180s", summary.failed,
             summary.total, failure.what);
    return FTL_OK;
}

static void take_figures(const bench_result *results, int count, store_row *row) {
    double sum = 0, tflops = 0, model = 0;
    row->state = STORE_MEASURED;
    row->spread = 0;
    for (int i = 0; i < count; i++) {
        const bench_figure *ours = &results[i].figures[0], *theirs = &results[i].figures[1];
        bool is_fine = ours->verdict == BENCH_FINE && theirs->verdict == BENCH_FINE &&
                       ours->milliseconds > 0 && theirs->milliseconds > 0;
        if (!is_fine) {
            row->state = ours->verdict == BENCH_ABSENT ? STORE_FAILED : STORE_WRONG;
            snprintf(row->why, sizeof row->why, "%.200s",
                     ours->verdict == BENCH_FINE ? theirs->why : ours->why);
            return;
        }
        sum += log(theirs->milliseconds / ours->milliseconds);
        tflops += log(fmax(ours->tflops, 1e-9));
        model += log(fmax(theirs->tflops, 1e-9));
        row->spread = fmax(row->spread, fmax(ours->spread, theirs->spread));
    }
    row->ratio = exp(sum / count);
    row->tflops = exp(tflops / count);
    row->model_tflops = exp(model / count);
}

static ftl_status time_candidate(tuning *t, const bench_program *program, int32_t rounds,
                                 store_row *row) {
    bench_case cases[TUNE_CASES_MAX];
    bench_result results[TUNE_CASES_MAX];
    int count = 0;
    ftl_status status =
        t->request->make_cases(t->request->user, t->context, program, cases, &count);
    if (status) return status;
    bench_rival rival = bench_kernel_rival(&t->rival, "model");
    bench_options options = t->request->timing;
    if (rounds) options.rounds = rounds;
    options.rivals = &rival;
    options.rival_count = 1;
    options.roofline_tflops = t->here.tensor_tflops;
    options.memory_gb_per_s = t->here.memory_gb_per_s;
    options.l2_bytes = t->device.l2_bytes;
    options.stop = t->request->stop;
    status = bench_run(t->context, t->runtime, cases, count, &options, results);
    if (!status) take_figures(results, count, row);
    return status;
}

static bool wait_for_device(tuning *t) {
    while (!store_take_device(t->database, t->device.name, t->owner)) {
        if (is_over(t)) return false;
        if (t->watch) t->watch->beats++;
        os_sleep_ns(100000000);
    }
    return true;
}

static bool is_lost(ftl_status status) {
    return status == FTL_KERNEL_FAULT || status == FTL_TIMEOUT;
}

/* Adds NAME=VALUE unless the name is there. */
static void add_pin(char text[SEARCH_TEXT_BYTES], const char *name, const char *value) {
    size_t used = strlen(text), length = strlen(name);
    for (const char *at = text; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL) {
        if (strncmp(at, name, length) == 0 && at[length] == '=') return;
    }
    if (used + length + strlen(value) + 3 > SEARCH_TEXT_BYTES) return;
    snprintf(text + used, SEARCH_TEXT_BYTES - used, "%s%s=%s", used ? " " : "", name, value);
}

/* Is a pin of the user's a part of the problem (d=128), or a decision? */
static bool is_length(const tuning *t, const ftl_pin *pin) {
    char words[SEARCH_TEXT_BYTES];
    snprintf(words, sizeof words, " %s=%s", pin->name, pin->value);
    const char *at = strstr(t->decisions->problem, words);
    return at && (at[strlen(words)] == ' ' || !at[strlen(words)]);
}

/* Every decision of a candidate, as pins that give the same kernel; else what it was pinned to. */
static void write_decided(tuning *t, build_candidate *c) {
    tune_request plain = *t->request; /* with the problem's lengths alone */
    ftl_pin lengths[256], pins[256];
    char storage[SEARCH_TEXT_BYTES], text[SEARCH_TEXT_BYTES] = "", kernel[33], value[24];
    ftl_decisions *all = NULL;
    ftl_product *product = NULL;
    ftl_options options = t->request->options;
    plain.options.pins = lengths;
    plain.options.pin_count = 0;
    options.pins = pins;
    options.measured = "";
    options.pin_count = build_pins(t->request, c->row.pins, pins, storage);
    if (ftl_decide(t->context, &t->request->source, &options, &all)) return;
    for (int32_t i = 0; i < options.pin_count; i++) {
        if (is_length(t, &pins[i])) lengths[plain.options.pin_count++] = pins[i];
        else add_pin(text, pins[i].name, pins[i].value);
    }
    snprintf(c->row.decided, sizeof c->row.decided, "%s", text);
    for (int32_t i = 0; i < all->count; i++) {
        snprintf(value, sizeof value, "%lld", (long long)all->items[i].value);
        add_pin(text, all->items[i].name, value);
    }
    ftl_decisions_free(all);
    options.pin_count = build_pins(&plain, text, pins, storage);
    if (ftl_build(t->context, &t->request->source, &options, &product)) return;
    hash_digits(hash_bytes(str_from(product->kernels[0].cuda)), kernel);
    bool is_same = strcmp(kernel, c->row.kernel) == 0;
    if (is_same) snprintf(c->row.decided, sizeof c->row.decided, "%s", text);
    ftl_product_free(product);
}

/* Verifies and times one candidate that this process has claimed; with 'rounds', one that has been
 * measured before. What the candidate did is its row's state; a status is the world's.
 */
static ftl_status measure(tuning *t, build_candidate *c, int32_t rounds) {
    bench_program program;
    store_row before = c->row;
    before.state = rounds ? before.state : STORE_BUILT;
    fill_program(t, c, &program);
    if (!wait_for_device(t)) {
        return store_finish(t->database, &before) ? FTL_OK : database_failure(t);
    }
    ftl_status status = rounds ? FTL_OK : verify(t, &program, &c->row);
    if (!status && c->row.state != STORE_WRONG)
        status = time_candidate(t, &program, rounds, &c->row);
    store_leave_device(t->database, t->device.name, t->owner);
    if (status == FTL_STOPPED) c->row = before;
    else if (status) {
        c->row.state = status == FTL_TIMEOUT        ? STORE_HANG
                       : status == FTL_KERNEL_FAULT ? STORE_FAULT
                                                    : STORE_FAILED;
        snprintf(c->row.why, sizeof c->row.why, "%.200s", ftl_context_error(t->context));
    }
    if (c->row.state == STORE_MEASURED && !rounds) write_decided(t, c);
    if (!store_finish(t->database, &c->row)) return database_failure(t);
    return is_lost(status) || status == FTL_STOPPED ? status : FTL_OK;
}

/* The model's own choice against itself: what the noise is, and the row that all others must beat.
 */
static ftl_status measure_model(tuning *t) {
    store_row *row = &t->model.row;
    row->state = STORE_BUILT;
    if (!store_put(t->database, t->problem, row)) return database_failure(t);
    if (row->state != STORE_BUILT || !store_claim(t->database, row->id, t->owner)) return FTL_OK;
    tell(t, 0, 0, 1, "measuring the model's choice");
    ftl_status status = measure(t, &t->model, 0);
    if (!status && row->state == STORE_MEASURED) {
        row->ratio = 1;
        if (!store_finish(t->database, row)) return database_failure(t);
    }
    if (!status && row->state != STORE_MEASURED && row->state != STORE_BUILT) {
        return ftl_context_fail(t->context, FTL_CHECK_FAILED, "the model's own choice: %s: %s",
                                store_state_sentence(row->state), row->why);
    }
    return status;
}

static void remember(tuning *t, const store_row *row, const search_choice *choice) {
    if (row->state != STORE_MEASURED || row->ratio <= t->best_ratio * BETTER) return;
    t->best = *choice;
    t->best_ratio = row->ratio;
    snprintf(t->best_pins, sizeof t->best_pins, "%s", row->pins);
}

/* --- one round ----------------------------------------------------------------------------------
 */

static int by_forecast(const void *a, const void *b) {
    const build_candidate *left = a, *right = b;
    bool is_left_open = left->row.state == STORE_OPEN,
         is_right_open = right->row.state == STORE_OPEN;
    if (is_left_open != is_right_open) return is_right_open - is_left_open;
    double difference = right->row.predicted_tflops - left->row.predicted_tflops;
    return (difference > 0) - (difference < 0);
}

static bool is_twin(const tuning *t, const build_candidate *candidates, int i) {
    if (store_knows_kernel(t->database, t->problem, &candidates[i].row)) return true;
    for (int k = 0; k < i; k++) {
        if (strcmp(candidates[k].row.kernel, candidates[i].row.kernel) == 0) return true;
    }
    return false;
}

/* Drops what the forecast and the database speak against; true when the database can be written. */
static bool sift(tuning *t, build_candidate *candidates, int count) {
    for (int i = 0; i < count; i++) {
        store_row *row = &candidates[i].row;
        if (row->state == STORE_OPEN && is_twin(t, candidates, i)) row->state = STORE_SAME;
        double least = LEAST_FORECAST * t->model.row.predicted_tflops;
        if (row->state == STORE_OPEN && row->predicted_tflops < least) {
            row->state = STORE_UNLIKELY;
            snprintf(row->why, sizeof row->why, "forecast %.0f TFLOPS, the model's choice %.0f",
                     row->predicted_tflops, t->model.row.predicted_tflops);
        }
        if (!store_put(t->database, t->problem, row)) return false;
        if (row->state == STORE_BUILT) row->state = STORE_OPEN; /* compiled by a tuner before */
        remember(t, row, &candidates[i].choice);
    }
    return true;
}

static ftl_status measure_all(tuning *t, int round, build_candidate *candidates, int count) {
    for (int i = 0; i < count; i++) {
        build_candidate *c = &candidates[i];
        if (is_over(t)) return FTL_OK;
        if (!c->has_image) continue;
        if (!store_put(t->database, t->problem, &c->row)) return database_failure(t);
        if (c->row.state != STORE_BUILT || !store_claim(t->database, c->row.id, t->owner)) continue;
        tell(t, round, i, count, "measuring");
        ftl_status status = measure(t, c, 0);
        if (status) return status;
        remember(t, &c->row, &c->choice);
    }
    return FTL_OK;
}

/* All neighbours of the best; 'moved' when one of them is better. */
static ftl_status run_round(tuning *t, int round, bool *moved) {
    static search_choice choices[SEARCH_CHOICES_MAX];
    search_choice before = t->best;
    int count = search_around(&t->space, &before, choices, SEARCH_CHOICES_MAX);
    build_candidate *candidates = calloc((size_t)count + 1, sizeof *candidates);
    if (!candidates) return ftl_context_fail(t->context, FTL_NO_MEMORY, "out of memory");
    for (int i = 0; i < count; i++) candidates[i].choice = choices[i];
    tell(t, round, 0, count, "building");
    build_all(t->request, &t->space, candidates, count);
    bool is_stopped = t->request->stop && *t->request->stop; /* not all of them are built then */
    ftl_status status = is_stopped ? ftl_context_fail(t->context, FTL_STOPPED, "interrupted")
                        : sift(t, candidates, count) ? FTL_OK
                                                     : database_failure(t);
    qsort(candidates, (size_t)count, sizeof *candidates, by_forecast);
    int compiled = count < COMPILED_MAX ? count : COMPILED_MAX;
    for (int first = 0, step = 4 * os_processor_count(); !status && first < compiled && !is_over(t);
         first += step) {
        int some = compiled - first < step ? compiled - first : step;
        tell(t, round, first, compiled, "compiling");
        build_compile(t->request, t->runtime, t->target, candidates + first, some);
        for (int i = first; i < first + some; i++) {
            if (candidates[i].row.state == STORE_FAILED ||
                candidates[i].row.state == STORE_SPILLS) {
                store_put(t->database, t->problem, &candidates[i].row);
            }
        }
        status = measure_all(t, round, candidates + first, some);
    }
    build_free(candidates, count);
    free(candidates);
    *moved = memcmp(&before, &t->best, sizeof before) != 0;
    return status;
}

/* --- the end ------------------------------------------------------------------------------------
 */

typedef struct top_rows {
    store_row rows[CONFIRMED];
    int count;
} top_rows;

static void keep_top(void *user, const store_row *row) {
    top_rows *top = user;
    if (row->state == STORE_MEASURED && top->count < CONFIRMED) top->rows[top->count++] = *row;
}

/* The best few are measured once more with twice the rounds: the largest of many noisy figures is
 * too large.
 */
static ftl_status confirm(tuning *t) {
    top_rows top = {.count = 0};
    if (!store_each(t->database, t->problem, keep_top, &top)) return database_failure(t);
    for (int i = 0; i < top.count; i++) {
        bool is_stopped = t->request->stop && *t->request->stop;
        if (is_stopped) break;
        build_candidate c = {.row = {.id = 0}};
        if (!search_read(&t->space, top.rows[i].pins, &c.choice)) continue;
        build_all(t->request, &t->space, &c, 1);
        build_compile(t->request, t->runtime, t->target, &c, 1);
        bool is_same = c.has_image && strcmp(c.row.kernel, top.rows[i].kernel) == 0;
        c.row = top.rows[i];
        ftl_status status = FTL_OK;
        t->deadline_ns += 60000000000; /* the budget is for the search */
        tell(t, 0, i, top.count, "confirming");
        if (is_same && c.row.pins[0]) status = measure(t, &c, CONFIRMING_ROUNDS);
        build_free(&c, 1);
        if (status) return status;
    }
    return FTL_OK;
}

static ftl_status walk(tuning *t) {
    bool moved = true;
    t->best_ratio = 1;
    ftl_status first = measure_model(t);
    if (first) return first;
    for (int round = 1; moved && round <= WALK_ROUNDS_MAX && !is_over(t); round++) {
        ftl_status status = run_round(t, round, &moved);
        if (status) return status;
    }
    return confirm(t);
}

static int run_in_child(void *user, os_watch *watch) {
    tuning *t = user;
    os_error why;
    t->watch = watch;
    snprintf(watch->doing, sizeof watch->doing, "the start");
    ftl_status status = open_machine(t);
    if (!status && !store_open(t->request->database, &t->database, &why)) {
        status = ftl_context_fail(t->context, FTL_NO_FILE, "%s", why.text);
    }
    if (!status) status = open_model(t);
    if (!status) status = open_problem(t);
    if (!status) status = walk(t);
    store_close(t->database);
    if (!status || status == FTL_STOPPED) {
        if (t->decisions && t->request->on_done) {
            t->request->on_done(t->request->user, t->context, t->request->options.gpu,
                                t->decisions->problem);
        }
        return 0;
    }
    if (is_lost(status)) return EXIT_AGAIN;
    if (t->request->on_failure) t->request->on_failure(t->request->user, t->context, status);
    return EXIT_FAILED + (int)status;
}

/* The child is gone: what it was measuring is to blame. */
static ftl_status blame(tuning *t, const char *why) {
    os_error trouble;
    store *database = NULL;
    if (!store_open(t->request->database, &database, &trouble)) {
        return ftl_context_fail(t->context, FTL_NO_FILE, "%s", trouble.text);
    }
    bool is_hang = strstr(why, "did not end") != NULL;
    bool is_written = store_blame(database, t->owner, is_hang ? STORE_HANG : STORE_FAULT, why);
    store_close(database);
    return is_written ? FTL_OK : ftl_context_fail(t->context, FTL_NO_FILE, "cannot write results");
}

ftl_status tune_run(ftl_context *context, tune_request *request) {
    double seconds = request->seconds > 0 ? request->seconds : SECONDS;
    double silence_s = request->silence_seconds > 0 ? request->silence_seconds : SILENCE_S;
    tuning *t = calloc(1, sizeof *t);
    if (!t) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    t->request = request;
    t->context = context;
    t->deadline_ns = os_time_ns() + (int64_t)(seconds * 1e9);
    store_owner(t->owner);
    ftl_status status = FTL_OK;
    bool goes_on = true;
    for (int i = 0; goes_on && !status && i < RESTARTS_MAX; i++) {
        os_error why;
        int code = 0;
        bool has_ended = os_run_watched(run_in_child, t, silence_s, &code, &why);
        if (!has_ended) status = blame(t, why.text);
        goes_on = (!has_ended || code == EXIT_AGAIN) && !is_over(t);
        if (has_ended && code >= EXIT_FAILED) {
            status =
                ftl_context_fail(context, (ftl_status)(code - EXIT_FAILED), "tuning ended early");
        }
    }
    free(t);
    return status;
}
