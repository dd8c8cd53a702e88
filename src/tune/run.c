/* The walk, and the processes it runs in. */
#include "base/number.h"
#include "tune/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WALK_ROUNDS_MAX = 12,
    COMPILED_MAX = 48, /* candidates of a round that are compiled, the most promising ones */
    CONFIRMED_MAX = 8,
    RESTARTS_MAX = 40,
    EXIT_AGAIN = 77,   /* of the child: the device is lost, start anew */
    EXIT_FAILED = 100, /* and the status on top */
    CONFIRMING_ROUNDS = 15
};
static const double SECONDS = 300, SILENCE_S = 60;
static const double LEAST_FORECAST = 0.6; /* of the model's choice */
static const double BETTER = 1.005;       /* what counts as faster */

bool tuning_is_over(const tuning *t) {
    bool is_stopped = t->request->stop && *t->request->stop;
    return is_stopped || os_time_ns() > t->deadline_ns;
}

void tuning_tell(tuning *t, int round, int done, int total, const char *doing) {
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

ftl_status tuning_database_failure(const tuning *t) {
    return ftl_context_fail(t->context, FTL_NO_FILE, "%s", store_error(t->database));
}

bool tuning_is_lost(ftl_status status) {
    return status == FTL_KERNEL_FAULT || status == FTL_TIMEOUT;
}

/* --- opening ---------------------------------------------------------------------------------- */

static ftl_status open_machine(tuning *t) {
    ftl_context *c = t->context;
    ftl_status status = ftl_runtime_open(c, &t->request->runtime, &t->runtime);
    if (!status) status = ftl_device_use(c, t->runtime, 0);
    if (!status) status = ftl_device_describe(c, t->runtime, 0, &t->device);
    const ftl_device *d = &t->device;
    t->here = (ftl_gpu)FTL_GPU_INIT;
    if (!status) {
        status =
            ftl_gpu_for_device(c, d->name, 10 * d->major + d->minor, d->multiprocessors, &t->here);
    }
    if (!status && !t->request->options.gpu) t->request->options.gpu = t->here.name;
    return status;
}

static ftl_status open_model(tuning *t) {
    ftl_options options = t->request->options;
    ftl_gpu wanted = FTL_GPU_INIT;
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
    if (t->model.world) return ftl_context_fail(t->context, t->model.world, "%s", t->model.row.why);
    if (!t->model.has_image) {
        return ftl_context_fail(t->context, FTL_COMPILER_FAILED, "the model's own choice: %s",
                                t->model.row.why);
    }
    if (t->model.product->kernel_count != 1) {
        return ftl_context_fail(t->context, FTL_INVALID_ARGUMENT,
                                "a program of one kernel is tuned; this one has %d",
                                t->model.product->kernel_count);
    }
    measure_program(t, &t->model, &t->model_program);
    t->rival = (bench_kernel){.program = &t->model_program};
    return FTL_OK;
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
    if (!store_recover(t->database)) return tuning_database_failure(t);
    t->problem = store_problem(t->database, &key);
    return t->problem ? FTL_OK : tuning_database_failure(t);
}

static void remember(tuning *t, const store_row *row, const search_choice *choice) {
    if (row->state != STORE_MEASURED || row->ratio <= t->best_ratio * BETTER) return;
    t->best = *choice;
    t->best_ratio = row->ratio;
    snprintf(t->best_pins, sizeof t->best_pins, "%s", row->pins);
}

/* --- one round -------------------------------------------------------------------------------- */

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
            number_print(row->why, sizeof row->why, "forecast %.0f TFLOPS, the model's choice %.0f",
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
        if (tuning_is_over(t)) return FTL_OK;
        if (!c->has_image) continue;
        if (!store_put(t->database, t->problem, &c->row)) return tuning_database_failure(t);
        if (c->row.state != STORE_BUILT || !store_claim(t->database, c->row.id, t->owner)) continue;
        tuning_tell(t, round, i, count, "measuring");
        ftl_status status = measure_candidate(t, c, 0);
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
    tuning_tell(t, round, 0, count, "building");
    build_all(t->request, &t->space, candidates, count);
    bool is_stopped = t->request->stop && *t->request->stop; /* not all of them are built then */
    ftl_status status = is_stopped ? ftl_context_fail(t->context, FTL_STOPPED, "interrupted")
                        : sift(t, candidates, count) ? FTL_OK
                                                     : tuning_database_failure(t);
    qsort(candidates, (size_t)count, sizeof *candidates, by_forecast);
    int compiled = count < COMPILED_MAX ? count : COMPILED_MAX;
    for (int first = 0, step = 4 * os_processor_count();
         !status && first < compiled && !tuning_is_over(t); first += step) {
        int some = compiled - first < step ? compiled - first : step;
        tuning_tell(t, round, first, compiled, "compiling");
        build_compile(t->request, t->runtime, t->target, candidates + first, some);
        for (int i = first; i < first + some; i++) {
            if (candidates[i].world && !status)
                status =
                    ftl_context_fail(t->context, candidates[i].world, "%s", candidates[i].row.why);
            if (candidates[i].row.state == STORE_FAILED ||
                candidates[i].row.state == STORE_SPILLS) {
                store_put(t->database, t->problem, &candidates[i].row);
            }
        }
        if (!status) status = measure_all(t, round, candidates + first, some);
    }
    build_free(candidates, count);
    free(candidates);
    *moved = memcmp(&before, &t->best, sizeof before) != 0;
    return status;
}

/* --- the end ---------------------------------------------------------------------------------- */

static const char confirmed[] = "confirmed";

static void keep_best(void *user, const store_row *row) {
    store_row *best = user;
    if (row->state == STORE_MEASURED && best->state != STORE_MEASURED) *best = *row;
}

/* Measures one row again. One whose kernel is another by now is left to the next walk. */
static ftl_status confirm_row(tuning *t, const store_row *row) {
    build_candidate c = {.row = {.id = 0}};
    ftl_status status = FTL_OK;
    if (search_read(&t->space, row->pins, &c.choice)) {
        build_all(t->request, &t->space, &c, 1);
        build_compile(t->request, t->runtime, t->target, &c, 1);
    }
    if (c.world) {
        status = ftl_context_fail(t->context, c.world, "%s", c.row.why);
        build_free(&c, 1);
        return status;
    }
    bool is_same = c.has_image && strcmp(c.row.kernel, row->kernel) == 0;
    c.row = *row;
    snprintf(c.row.why, sizeof c.row.why, "%s", is_same ? confirmed : "another kernel by now");
    if (!is_same) c.row.state = STORE_SAME;
    if (is_same) status = measure_candidate(t, &c, CONFIRMING_ROUNDS);
    else if (!store_finish(t->database, &c.row)) status = tuning_database_failure(t);
    build_free(&c, 1);
    return status;
}

/* The largest of many noisy figures is too large: the best one is measured once more, with twice
 * the rounds, until the best one is one that was.
 */
static ftl_status confirm(tuning *t) {
    for (int i = 0; i < CONFIRMED_MAX; i++) {
        store_row best = {.state = STORE_OPEN};
        bool is_stopped = t->request->stop && *t->request->stop;
        if (is_stopped) return FTL_OK;
        if (!store_each(t->database, t->problem, keep_best, &best)) {
            return tuning_database_failure(t);
        }
        bool is_sure = !best.pins[0] || strcmp(best.why, confirmed) == 0;
        if (best.state != STORE_MEASURED || is_sure) return FTL_OK;
        t->deadline_ns = os_time_ns() + 60000000000; /* the budget is for the search */
        tuning_tell(t, 0, i, CONFIRMED_MAX, "confirming");
        ftl_status status = confirm_row(t, &best);
        if (status) return status;
    }
    return FTL_OK;
}

static ftl_status walk(tuning *t) {
    bool moved = true;
    t->best_ratio = 1;
    ftl_status first = measure_model(t);
    if (first) return first;
    for (int round = 1; moved && round <= WALK_ROUNDS_MAX && !tuning_is_over(t); round++) {
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
    bench_kernel_done(&t->rival);
    store_close(t->database);
    if (!status || status == FTL_STOPPED) {
        if (t->decisions && t->request->on_done) {
            t->request->on_done(t->request->user, t->context, t->request->options.gpu,
                                t->decisions->problem);
        }
        return 0;
    }
    if (tuning_is_lost(status)) return EXIT_AGAIN;
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
        goes_on = (!has_ended || code == EXIT_AGAIN) && !tuning_is_over(t);
        if (has_ended && code >= EXIT_FAILED) {
            status =
                ftl_context_fail(context, (ftl_status)(code - EXIT_FAILED), "tuning ended early");
        }
    }
    free(t);
    return status;
}
