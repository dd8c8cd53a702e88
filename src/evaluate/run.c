/* Trials in child processes, as many at a time as wished, until all are judged. */
#include "evaluate/trial.h"

#include "think/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SHARED_BYTES = 1 << 20, /* of a result: a few figures and one text */
    JOBS_MAX = 64,
    FAILURES_MOST = 3, /* in a row: then a model is given up */
    PAUSE_NS = 3000000,
    WAIT_NS = 200000000, /* for other evaluations */
    /* At most what a question, and an answer with what is said about it, have in tokens. */
    QUESTION_TOKENS = 10000,
    ROUND_TOKENS = 20000
};

/* A job: a trial, or the judgement of a reference. */
typedef struct item {
    int64_t id; /* of the trial's row */
    int32_t task, model, setting, sample;
    bool is_over;
} item;

typedef enum slot_phase { SLOT_FREE, SLOT_WORKS, SLOT_WAITS_FOR_GPU, SLOT_MEASURES } slot_phase;

typedef struct slot {
    slot_phase phase;
    os_worker worker;
    trial_work work;
    item *item;
    json_t *result; /* of a trial that waits to be measured */
    int64_t begun_ns;
    int64_t allotted_tokens;
    double allotted_price;
    bool is_limited; /* allotted less than a trial may need */
} slot;

typedef struct evaluation {
    ftl_context *context;
    const evaluate_request *request;
    results *database;
    int64_t experiment;
    slot slots[JOBS_MAX];
    int32_t jobs;
    item *items;
    int32_t count, next; /* the first that may not be over */
    bool is_of_references;
    int32_t done, done_before, passed;
    int64_t begun_ns;
    int64_t tokens;
    double price;
    bool is_budget_spent;
    int32_t failures[EVALUATE_MODELS_MAX]; /* in a row */
    int32_t failed;
    char why[RESULTS_WHY_BYTES]; /* of the last that failed */
    bool is_rejected;
} evaluation;

/* --- talk ------------------------------------------------------------------------------------- */

static ftl_status database_failure(evaluation *e) {
    return ftl_context_fail(e->context, FTL_NO_FILE, "%s", results_error(e->database));
}

__attribute__((format(printf, 2, 3))) static void notice(const evaluation *e, const char *format,
                                                         ...) {
    char text[RESULTS_WHY_BYTES + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (e->request->on_notice) e->request->on_notice(e->request->user, text);
}

static int32_t running(const evaluation *e) {
    int32_t count = 0;
    for (int32_t i = 0; i < e->jobs; i++) count += e->slots[i].phase != SLOT_FREE;
    return count;
}

static void tell(const evaluation *e) {
    if (!e->request->on_progress) return;
    double seconds = (double)(os_time_ns() - e->begun_ns) / 1e9;
    int32_t done_now = e->done - e->done_before;
    evaluate_progress p = {.is_of_references = e->is_of_references,
                           .done = e->done,
                           .total = e->count,
                           .running = running(e),
                           .passed = e->passed,
                           .tokens = e->tokens,
                           .price = e->price,
                           .seconds_left =
                               done_now ? seconds / done_now * (e->count - e->done) : -1};
    e->request->on_progress(e->request->user, &p);
}

static bool is_stopped(const evaluation *e) {
    return e->request->stop && *e->request->stop;
}

/* --- the budget ------------------------------------------------------------------------------- */

static int64_t most_tokens(const evaluation *e, const evaluate_setting *s) {
    int64_t rounds = e->request->answers, steps = s->stages == SETTING_TWO ? 2 : 1;
    return steps * rounds * (QUESTION_TOKENS + rounds * ROUND_TOKENS);
}

/* What is left and promised to nobody goes to a trial, at most what one may need. False when it has
 * to wait, or nothing is left.
 */
static bool allot(evaluation *e, slot *s, const item *it) {
    const evaluate_request *r = e->request;
    const evaluate_model *m = &r->models[it->model];
    int64_t tokens = r->tokens_most - e->tokens, most = most_tokens(e, &r->settings[it->setting]);
    double price = r->cost_most - e->price;
    double most_price = (double)most *
                        (m->prompt_price > m->answer_price ? m->prompt_price : m->answer_price) /
                        1e6;
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase == SLOT_FREE) continue;
        tokens -= e->slots[i].allotted_tokens;
        price -= e->slots[i].allotted_price;
    }
    s->is_limited = false;
    s->work.tokens_most = s->allotted_tokens = 0;
    s->work.cost_most = s->allotted_price = 0;
    if (r->tokens_most > 0) {
        if (tokens <= 0) return false;
        s->is_limited |= tokens < most;
        s->work.tokens_most = s->allotted_tokens = tokens < most ? tokens : most;
    }
    if (r->cost_most > 0) {
        if (price <= 0) return false;
        s->is_limited |= price < most_price;
        s->work.cost_most = s->allotted_price = price < most_price ? price : most_price;
    }
    return true;
}

/* --- workers ---------------------------------------------------------------------------------- */

static int do_work(void *user, char *shared) {
    const trial_work *work = user;
    json_t *result = trial_do(work);
    char *text = result ? json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    if (text && strlen(text) >= SHARED_BYTES) { /* nobody reads so long a program */
        free(text);
        json_object_del(result, "text");
        text = json_dumps(result, JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    if (text && strlen(text) < SHARED_BYTES) memcpy(shared, text, strlen(text) + 1);
    free(text);
    json_decref(result);
    return text ? 0 : 1;
}

static ftl_status start(evaluation *e, slot *s, slot_phase phase) {
    os_error why;
    s->begun_ns = os_time_ns();
    if (!os_worker_start(&s->worker, SHARED_BYTES, do_work, &s->work, &why)) {
        return ftl_context_fail(e->context, FTL_NO_MEMORY, "%s", why.text);
    }
    s->phase = phase;
    return FTL_OK;
}

static void set_free(slot *s) {
    os_worker_done(&s->worker);
    json_decref(s->result);
    free((char *)(uintptr_t)s->work.text);
    *s = (slot){0};
}

/* Longer than any model and judge may take: something hangs. */
static double seconds_most(const evaluation *e) {
    static const double JUDGEMENT_S = 1000;
    return 2 * e->request->answers * (e->request->provider.total_timeout_s + JUDGEMENT_S);
}

/* Has the slot's worker ended, or is it to be ended? Its result, or NULL with a sentence. */
static bool has_ended(const evaluation *e, slot *s, json_t **result, char why[RESULTS_WHY_BYTES]) {
    int exit_code = 0;
    *result = NULL;
    if (os_worker_has_ended(&s->worker, &exit_code)) {
        s->worker.shared[SHARED_BYTES - 1] = 0;
        if (exit_code == 0) *result = json_loads(s->worker.shared, 0, NULL);
        snprintf(why, RESULTS_WHY_BYTES, "the trial's process ended with status %d", exit_code);
    } else if ((double)(os_time_ns() - s->begun_ns) / 1e9 > seconds_most(e)) {
        snprintf(why, RESULTS_WHY_BYTES, "the trial did not end and was stopped");
    } else {
        return false;
    }
    os_worker_done(&s->worker);
    return true;
}

/* --- results ---------------------------------------------------------------------------------- */

static void copy_text(char *to, size_t bytes, const char *text) {
    snprintf(to, bytes, "%s", text);
}

static results_row row_of(const json_t *result, int64_t id) {
    results_row row = {.id = id,
                       .passed = json_is_true(json_object_get(result, "passed")),
                       .first_passed = json_is_true(json_object_get(result, "first_passed")),
                       .read = json_is_true(json_object_get(result, "read")),
                       .checked = json_is_true(json_object_get(result, "checked")),
                       .answers = (int32_t)json_number(result, "answers"),
                       .question_tokens = (int64_t)json_number(result, "question_tokens"),
                       .answer_tokens = (int64_t)json_number(result, "answer_tokens"),
                       .price = json_number(result, "price"),
                       .model_ms = json_number(result, "model_ms"),
                       .judge_ms = json_number(result, "judge_ms"),
                       .tflops = json_number(result, "tflops"),
                       .relative = json_number(result, "relative"),
                       .launch_cost = json_number(result, "launch_cost")};
    copy_text(row.rung, sizeof row.rung, json_text(result, "rung"));
    copy_text(row.finding, sizeof row.finding, json_text(result, "finding"));
    copy_text(row.why, sizeof row.why, json_text(result, "error"));
    return row;
}

static ftl_status keep_reference(evaluation *e, slot *s, const json_t *result, const char *why) {
    const evaluate_task *t = s->work.task;
    results_row row = row_of(result, 0);
    s->item->is_over = true;
    results_reference reference = {
        .passed = row.passed, .tflops = row.tflops, .launch_cost = row.launch_cost};
    copy_text(reference.rung, sizeof reference.rung, row.rung);
    copy_text(reference.why, sizeof reference.why, result ? row.why : why);
    ftl_status status = (ftl_status)json_number(result, "status");
    if (status) return ftl_context_fail(e->context, status, "task '%s': %s", t->name, row.why);
    e->done++, e->passed += reference.passed;
    if (!reference.passed) {
        e->is_rejected = true;
        notice(e, "the reference of task '%s' (line %d) does not pass: %s", t->name, t->line,
               reference.why);
        return FTL_OK;
    }
    return results_put_reference(e->database, e->experiment, t->name, t->hash, &reference)
               ? FTL_OK
               : database_failure(e);
}

/* A trial that came to nothing: its model, or this machine, failed. */
static ftl_status keep_failure(evaluation *e, slot *s, const results_row *row, ftl_status status) {
    bool is_budget = s->is_limited && status == FTL_QUOTA;
    int32_t *failures = &e->failures[s->item->model];
    bool is_hopeless = status == FTL_REFUSED || status == FTL_QUOTA || status == FTL_NOT_FOUND ||
                       status == FTL_INVALID_ARGUMENT;
    if (!results_give_back(e->database, row, !is_budget)) return database_failure(e);
    if (is_budget) {
        e->is_budget_spent = true;
        return FTL_OK;
    }
    *failures = is_hopeless ? FAILURES_MOST : *failures + 1;
    copy_text(e->why, sizeof e->why, row->why);
    notice(e, "%s, task '%s': %s", s->work.model->name, s->work.task->name, row->why);
    if (*failures >= FAILURES_MOST) {
        notice(e, "%s is given up for this run", s->work.model->name);
    }
    return FTL_OK;
}

static ftl_status keep_trial(evaluation *e, slot *s, const json_t *result, const char *why) {
    results_row row = row_of(result, s->item->id);
    ftl_status status = (ftl_status)json_number(result, "status");
    if (!result) copy_text(row.why, sizeof row.why, why);
    if (!result || status) {
        return keep_failure(e, s, &row, result ? status : FTL_BAD_ANSWER);
    }
    e->failures[s->item->model] = 0;
    s->item->is_over = true;
    e->done++, e->passed += row.passed;
    return results_finish(e->database, &row) ? FTL_OK : database_failure(e);
}

/* A kernel that passed on the emulator is measured before it counts. */
static bool wants_measuring(const evaluation *e, const json_t *result) {
    bool is_right = json_number(result, "status") == 0 &&
                    json_is_true(json_object_get(result, "passed")) &&
                    json_object_get(result, "text");
    return is_right && e->request->device && e->request->highest == THINK_RUNG_GPU;
}

/* The figures of the GPU go into the trial's result. */
static void add_measured(json_t *result, const json_t *measured) {
    static const char *const taken[] = {"passed", "rung", "finding", "tflops", "relative"};
    for (size_t i = 0; measured && i < sizeof taken / sizeof *taken; i++) {
        json_object_set(result, taken[i], json_object_get(measured, taken[i]));
    }
    if (!json_is_true(json_object_get(result, "passed"))) {
        json_object_set_new(result, "first_passed", json_false());
    }
}

static ftl_status keep(evaluation *e, slot *s, const json_t *result, const char *why) {
    ftl_status status =
        e->is_of_references ? keep_reference(e, s, result, why) : keep_trial(e, s, result, why);
    bool has_spent = !e->is_of_references;
    set_free(s);
    if (!status && has_spent && !results_spent(e->database, e->experiment, &e->tokens, &e->price)) {
        status = database_failure(e);
    }
    tell(e);
    return status;
}

static ftl_status attend(evaluation *e, slot *s) {
    char why[RESULTS_WHY_BYTES];
    json_t *result;
    ftl_status status = FTL_OK;
    if ((s->phase != SLOT_WORKS && s->phase != SLOT_MEASURES) || !has_ended(e, s, &result, why)) {
        return FTL_OK;
    }
    if (s->phase == SLOT_MEASURES) {
        bool is_measured = result && json_number(result, "status") == 0;
        if (is_measured) add_measured(s->result, result);
        else
            notice(e, "%s was not measured: %s", s->work.task->name,
                   result ? json_text(result, "error") : why);
        json_t *whole = json_incref(s->result);
        status = keep(e, s, whole, why);
        json_decref(whole);
    } else if (result && wants_measuring(e, result)) {
        s->work.text = str_new(str_from(json_text(result, "text")));
        s->result = json_incref(result);
        s->phase = SLOT_WAITS_FOR_GPU;
    } else {
        status = keep(e, s, result, why);
    }
    json_decref(result);
    return status;
}

/* --- the schedule ----------------------------------------------------------------------------- */

static bool is_given_up(const evaluation *e, const item *it) {
    return !e->is_of_references && e->failures[it->model] >= FAILURES_MOST;
}

static bool is_being_done(const evaluation *e, const item *it) {
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase != SLOT_FREE && e->slots[i].item == it) return true;
    }
    return false;
}

/* Takes a trial for us. Without success it may be over: another evaluation has run it. */
static ftl_status claim(evaluation *e, item *it, bool *claimed) {
    results_state state;
    *claimed = true;
    if (e->is_of_references) return FTL_OK;
    if (!results_claim(e->database, it->id, claimed)) return database_failure(e);
    if (*claimed) return FTL_OK;
    if (!results_state_of(e->database, it->id, &state)) return database_failure(e);
    it->is_over = results_is_over(state);
    e->done += state == RESULTS_DONE;
    return FTL_OK;
}

/* What the search for the next item found. */
typedef enum next_item { NEXT_FOUND, NEXT_LATER, NEXT_NONE } next_item;

/* Gives a free slot the next item that nobody is at. LATER: others are at what is left, or the
 * budget is promised to trials that run.
 */
static ftl_status find_next(evaluation *e, slot *s, next_item *found) {
    *found = NEXT_NONE;
    while (e->next < e->count && e->items[e->next].is_over) e->next++;
    for (int32_t i = e->next; i < e->count; i++) {
        item *it = &e->items[i];
        bool claimed;
        if (it->is_over || is_being_done(e, it) || is_given_up(e, it)) continue;
        if (!e->is_of_references && !allot(e, s, it)) {
            e->is_budget_spent = running(e) == 0;
            *found = e->is_budget_spent ? NEXT_NONE : NEXT_LATER;
            return FTL_OK;
        }
        ftl_status status = claim(e, it, &claimed);
        if (status) return status;
        if (claimed) {
            s->item = it;
            *found = NEXT_FOUND;
            return FTL_OK;
        }
        if (!it->is_over) *found = NEXT_LATER;
    }
    return FTL_OK;
}

static slot *find_free(evaluation *e) {
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase == SLOT_FREE) return &e->slots[i];
    }
    return NULL;
}

/* Fills free slots; *found tells why it ended. */
static ftl_status start_more(evaluation *e, next_item *found) {
    const evaluate_request *r = e->request;
    *found = NEXT_LATER;
    for (slot *s; (s = find_free(e));) {
        if (e->is_budget_spent) {
            *found = NEXT_NONE;
            return FTL_OK;
        }
        ftl_status status = find_next(e, s, found);
        if (status || *found != NEXT_FOUND) return status;
        const item *it = s->item;
        s->work.request = r, s->work.task = r->tasks[it->task], s->work.sample = it->sample;
        if (!e->is_of_references) {
            s->work.model = &r->models[it->model];
            s->work.setting = &r->settings[it->setting];
        }
        status = start(e, s, SLOT_WORKS);
        if (status) return status;
    }
    return FTL_OK;
}

static ftl_status measure_next(evaluation *e) {
    slot *next = NULL;
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase == SLOT_MEASURES) return FTL_OK;
        if (e->slots[i].phase == SLOT_WAITS_FOR_GPU) next = &e->slots[i];
    }
    return next ? start(e, next, SLOT_MEASURES) : FTL_OK;
}

/* Whatever still runs is ended and given back. */
static void drop_all(evaluation *e) {
    for (int32_t i = 0; i < e->jobs; i++) os_worker_interrupt(&e->slots[i].worker);
    for (int32_t i = 0; i < e->jobs; i++) {
        slot *s = &e->slots[i];
        if (s->phase == SLOT_FREE) continue;
        results_row back = {.id = s->item->id};
        set_free(s);
        if (!e->is_of_references) results_give_back(e->database, &back, false);
    }
}

static ftl_status work_off(evaluation *e) {
    ftl_status status = FTL_OK;
    int64_t again_ns = 0; /* when it makes sense to look for more */
    e->begun_ns = os_time_ns();
    tell(e);
    while (!status && !is_stopped(e)) {
        next_item found = NEXT_LATER;
        if (os_time_ns() >= again_ns) {
            status = start_more(e, &found);
            again_ns = os_time_ns() + WAIT_NS;
        }
        if (!status) status = measure_next(e);
        if (!status && found == NEXT_NONE && !running(e)) break;
        int32_t before = running(e);
        for (int32_t i = 0; !status && i < e->jobs; i++) status = attend(e, &e->slots[i]);
        if (running(e) < before) again_ns = 0;
        os_sleep_ns(PAUSE_NS);
    }
    drop_all(e);
    if (!status && is_stopped(e)) status = ftl_context_fail(e->context, FTL_STOPPED, "stopped");
    return status;
}

/* --- references ------------------------------------------------------------------------------- */

static ftl_status judge_references(evaluation *e) {
    const evaluate_request *r = e->request;
    e->is_of_references = true;
    e->count = 0;
    for (int32_t i = 0; i < r->task_count; i++) {
        results_reference known;
        bool found;
        if (!results_find_reference(e->database, e->experiment, r->tasks[i]->hash, &known,
                                    &found)) {
            return database_failure(e);
        }
        if (!found) e->items[e->count++] = (item){.task = i};
    }
    if (!e->count) return FTL_OK;
    /* items are over once they have been started: none is tried twice */
    ftl_status status = work_off(e);
    if (!status && e->is_rejected) {
        status = ftl_context_fail(e->context, FTL_CHECK_FAILED,
                                  "a task whose reference does not pass evaluates nothing");
    }
    return status;
}

/* --- trials ----------------------------------------------------------------------------------- */

/* All tasks once, then all once more: what is there after a while says something of each. */
static ftl_status list_trials(evaluation *e) {
    const evaluate_request *r = e->request;
    e->count = e->next = e->done = e->passed = 0;
    for (int32_t sample = 0; sample < r->samples; sample++) {
        for (int32_t task = 0; task < r->task_count; task++) {
            for (int32_t i = 0; i < r->model_count * r->setting_count; i++) {
                int32_t model = i / r->setting_count, setting = i % r->setting_count;
                results_trial trial = {r->tasks[task]->hash, r->tasks[task]->name,
                                       r->models[model].name, r->settings[setting].name, sample};
                results_row row;
                if (!results_add(e->database, e->experiment, &trial, &row)) {
                    return database_failure(e);
                }
                bool is_over = row.state == RESULTS_DONE;
                e->items[e->count++] = (item){row.id, task, model, setting, sample, is_over};
                e->done += is_over, e->passed += is_over && row.passed;
            }
        }
    }
    e->done_before = e->done;
    return FTL_OK;
}

static ftl_status prepare_trials(evaluation *e) {
    e->is_of_references = false;
    if (!results_recover(e->database, e->experiment) || !results_begin(e->database)) {
        return database_failure(e);
    }
    ftl_status status = list_trials(e);
    if (!status && !results_commit(e->database)) status = database_failure(e);
    if (!status && !results_spent(e->database, e->experiment, &e->tokens, &e->price)) {
        status = database_failure(e);
    }
    return status;
}

static ftl_status run_trials(evaluation *e) {
    ftl_status status = prepare_trials(e);
    if (!status) status = work_off(e);
    if (status == FTL_STOPPED) {
        return ftl_context_fail(e->context, FTL_STOPPED,
                                "stopped: %d of %d trials are done; the same command goes on",
                                (int)e->done, (int)e->count);
    }
    if (!status && e->is_budget_spent) {
        return ftl_context_fail(e->context, FTL_QUOTA,
                                "the budget is spent (%lld tokens, %g): %d of %d trials are done",
                                (long long)e->tokens, e->price, (int)e->done, (int)e->count);
    }
    if (!status && e->done < e->count) {
        return ftl_context_fail(e->context, FTL_BAD_ANSWER,
                                "%d of %d trials could not be run, the last one because: %s",
                                (int)(e->count - e->done), (int)e->count, e->why);
    }
    return status;
}

ftl_status evaluate_run(ftl_context *context, const evaluate_request *request, results *database,
                        int64_t experiment) {
    int64_t trials = (int64_t)request->task_count * request->model_count * request->setting_count *
                     request->samples;
    if (trials > EVALUATE_TRIALS_MAX) {
        return ftl_context_fail(context, FTL_INVALID_ARGUMENT, "%lld trials are more than %d",
                                (long long)trials, EVALUATE_TRIALS_MAX);
    }
    evaluation e = {.context = context,
                    .request = request,
                    .database = database,
                    .experiment = experiment,
                    .jobs = request->jobs > JOBS_MAX ? JOBS_MAX : request->jobs};
    e.items = calloc((size_t)(trials + request->task_count), sizeof *e.items);
    if (!e.items) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    ftl_status status = judge_references(&e);
    if (!status && trials) status = run_trials(&e);
    free(e.items);
    return status;
}
