/* Trials in child processes, as many at a time as wished, until all are judged. */
#include "evaluate/run.h"

#include <stdlib.h>

enum {
    PAUSE_NS = 3000000,
    WAIT_NS = 200000000, /* for other evaluations */
    /* At most what a question, and an answer with what is said about it, have in tokens. */
    QUESTION_TOKENS = 10000,
    ROUND_TOKENS = 20000
};

/* --- messages --------------------------------------------------------------------------------- */

ftl_status run_database_failure(evaluation *e) {
    return ftl_context_fail(e->context, FTL_NO_FILE, "%s", results_error(e->database));
}

static int32_t busy_slots(const evaluation *e) {
    int32_t count = 0;
    for (int32_t i = 0; i < e->jobs; i++) count += e->slots[i].phase != SLOT_FREE;
    return count;
}

void run_tell(const evaluation *e) {
    if (!e->request->on_progress) return;
    double seconds = (double)(os_time_ns() - e->begun_ns) / 1e9;
    int32_t done_now = e->done - e->done_before;
    evaluate_progress p = {.is_of_references = e->is_of_references,
                           .done = e->done,
                           .total = e->count,
                           .running = busy_slots(e),
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
static bool allot(evaluation *e, run_slot *s, const run_item *it) {
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

/* --- the schedule ----------------------------------------------------------------------------- */

static bool is_given_up(const evaluation *e, const run_item *it) {
    return !e->is_of_references && e->failures[it->model] >= RUN_FAILURES_MOST;
}

static bool is_being_done(const evaluation *e, const run_item *it) {
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase != SLOT_FREE && e->slots[i].item == it) return true;
    }
    return false;
}

/* Takes a trial for us. Without success it may be over: another evaluation has run it. */
static ftl_status claim(evaluation *e, run_item *it, bool *claimed) {
    results_state state;
    *claimed = true;
    if (e->is_of_references) return FTL_OK;
    if (!results_claim(e->database, it->id, claimed)) return run_database_failure(e);
    if (*claimed) return FTL_OK;
    if (!results_state_of(e->database, it->id, &state)) return run_database_failure(e);
    it->is_over = results_is_over(state);
    e->done += state == RESULTS_DONE;
    return FTL_OK;
}

/* What the search for the next item found. */
typedef enum next_item { NEXT_FOUND, NEXT_LATER, NEXT_NONE } next_item;

/* Gives a free slot the next item that nobody is at. LATER: others are at what is left, or the
 * budget is promised to trials that run.
 */
static ftl_status find_next(evaluation *e, run_slot *s, next_item *found) {
    *found = NEXT_NONE;
    while (e->next < e->count && e->items[e->next].is_over) e->next++;
    for (int32_t i = e->next; i < e->count; i++) {
        run_item *it = &e->items[i];
        bool claimed;
        if (it->is_over || is_being_done(e, it) || is_given_up(e, it)) continue;
        if (!e->is_of_references && !allot(e, s, it)) {
            e->is_budget_spent = busy_slots(e) == 0;
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

static run_slot *find_free(evaluation *e) {
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase == SLOT_FREE) return &e->slots[i];
    }
    return NULL;
}

/* Fills free slots; *found tells why it ended. */
static ftl_status start_more(evaluation *e, next_item *found) {
    const evaluate_request *r = e->request;
    *found = NEXT_LATER;
    for (run_slot *s; (s = find_free(e));) {
        if (e->is_budget_spent) {
            *found = NEXT_NONE;
            return FTL_OK;
        }
        ftl_status status = find_next(e, s, found);
        if (status || *found != NEXT_FOUND) return status;
        const run_item *it = s->item;
        s->work.request = r, s->work.task = r->tasks[it->task], s->work.sample = it->sample;
        if (!e->is_of_references) {
            s->work.model = &r->models[it->model];
            s->work.setting = &r->settings[it->setting];
        }
        status = run_start(e, s, SLOT_WORKS);
        if (status) return status;
    }
    return FTL_OK;
}

static ftl_status measure_next(evaluation *e) {
    run_slot *next = NULL;
    for (int32_t i = 0; i < e->jobs; i++) {
        if (e->slots[i].phase == SLOT_MEASURES) return FTL_OK;
        if (e->slots[i].phase == SLOT_WAITS_FOR_GPU) next = &e->slots[i];
    }
    return next ? run_start(e, next, SLOT_MEASURES) : FTL_OK;
}

/* Whatever still runs is ended and given back. */
static void drop_all(evaluation *e) {
    for (int32_t i = 0; i < e->jobs; i++) os_worker_interrupt(&e->slots[i].worker);
    for (int32_t i = 0; i < e->jobs; i++) {
        run_slot *s = &e->slots[i];
        if (s->phase == SLOT_FREE) continue;
        results_row back = {.id = s->item->id};
        run_set_free(s);
        if (!e->is_of_references) results_give_back(e->database, &back, false);
    }
}

static ftl_status work_off(evaluation *e) {
    ftl_status status = FTL_OK;
    int64_t again_ns = 0; /* when it makes sense to look for more */
    e->begun_ns = os_time_ns();
    run_tell(e);
    while (!status && !is_stopped(e)) {
        next_item found = NEXT_LATER;
        if (os_time_ns() >= again_ns) {
            status = start_more(e, &found);
            again_ns = os_time_ns() + WAIT_NS;
        }
        if (!status) status = measure_next(e);
        if (!status && found == NEXT_NONE && !busy_slots(e)) break;
        int32_t before = busy_slots(e);
        for (int32_t i = 0; !status && i < e->jobs; i++) status = run_attend(e, &e->slots[i]);
        if (busy_slots(e) < before) again_ns = 0;
        run_tell(e); /* also while nothing ends: time goes on */
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
            return run_database_failure(e);
        }
        if (!found) e->items[e->count++] = (run_item){.task = i};
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
                    return run_database_failure(e);
                }
                bool is_over = row.state == RESULTS_DONE;
                e->items[e->count++] = (run_item){row.id, task, model, setting, sample, is_over};
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
        return run_database_failure(e);
    }
    ftl_status status = list_trials(e);
    if (!status && !results_commit(e->database)) status = run_database_failure(e);
    if (!status && !results_spent(e->database, e->experiment, &e->tokens, &e->price)) {
        status = run_database_failure(e);
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
                    .jobs = request->jobs > RUN_JOBS_MAX ? RUN_JOBS_MAX : request->jobs};
    e.items = calloc((size_t)(trials + request->task_count), sizeof *e.items);
    if (!e.items) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    ftl_status status = judge_references(&e);
    if (!status && trials) status = run_trials(&e);
    free(e.items);
    return status;
}
