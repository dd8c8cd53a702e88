/* One trial at a time of an evaluation: its process, and what is kept of what it found. */
#include "evaluate/run.h"

#include "base/json.h"
#include "base/number.h"
#include "think/record.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARED_BYTES = 1 << 20 }; /* of a result: a few figures and one text */

__attribute__((format(printf, 2, 3))) static void notice(const evaluation *e, const char *format,
                                                         ...) {
    char text[RESULTS_WHY_BYTES + 256];
    va_list arguments;
    va_start(arguments, format);
    number_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    if (e->request->on_notice) e->request->on_notice(e->request->user, text);
}

/* --- workers ---------------------------------------------------------------------------------- */

static int do_work(void *user, char *shared) {
    const trial_work *work = user;
    json_t *result = trial_do(work);
    char *text = json_write(NULL, result, JSON_COMPACT | JSON_REAL_PRECISION(9));
    if (text && strlen(text) >= SHARED_BYTES) { /* nobody reads so long a program */
        free(text);
        json_object_del(result, "text");
        text = json_write(NULL, result, JSON_COMPACT | JSON_REAL_PRECISION(9));
    }
    if (text && strlen(text) < SHARED_BYTES) memcpy(shared, text, strlen(text) + 1);
    free(text);
    json_decref(result);
    return text ? 0 : 1;
}

ftl_status run_start(evaluation *e, run_slot *s, run_phase phase) {
    os_error why;
    s->begun_ns = os_time_ns();
    if (!os_worker_start(&s->worker, SHARED_BYTES, do_work, &s->work, &why)) {
        return ftl_context_fail(e->context, FTL_NO_MEMORY, "%s", why.text);
    }
    s->phase = phase;
    return FTL_OK;
}

void run_set_free(run_slot *s) {
    os_worker_done(&s->worker);
    json_decref(s->result);
    free((char *)(uintptr_t)s->work.text);
    *s = (run_slot){0};
}

/* Longer than any model and judge may take: something hangs. */
static double seconds_most(const evaluation *e) {
    static const double JUDGEMENT_S = 1000;
    return 2 * e->request->answers * (e->request->provider.total_timeout_s + JUDGEMENT_S);
}

/* Has the slot's worker ended, or is it to be ended? Its result, or NULL with a sentence. */
static bool has_ended(const evaluation *e, run_slot *s, json_t **result,
                      char why[RESULTS_WHY_BYTES]) {
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

static ftl_status keep_reference(evaluation *e, run_slot *s, const json_t *result,
                                 const char *why) {
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
               : run_database_failure(e);
}

/* A trial that came to nothing: its model, or this machine, failed. */
static ftl_status keep_failure(evaluation *e, run_slot *s, const results_row *row,
                               ftl_status status) {
    bool is_budget = s->is_limited && status == FTL_QUOTA;
    int32_t *failures = &e->failures[s->item->model];
    bool is_hopeless = status == FTL_REFUSED || status == FTL_QUOTA || status == FTL_NOT_FOUND ||
                       status == FTL_INVALID_ARGUMENT;
    if (!results_give_back(e->database, row, !is_budget)) return run_database_failure(e);
    if (is_budget) {
        e->is_budget_spent = true;
        return FTL_OK;
    }
    *failures = is_hopeless ? RUN_FAILURES_MOST : *failures + 1;
    copy_text(e->why, sizeof e->why, row->why);
    notice(e, "%s, task '%s': %s", s->work.model->name, s->work.task->name, row->why);
    if (*failures >= RUN_FAILURES_MOST) {
        notice(e, "%s is given up for this run", s->work.model->name);
    }
    return FTL_OK;
}

static ftl_status keep_trial(evaluation *e, run_slot *s, const json_t *result, const char *why) {
    results_row row = row_of(result, s->item->id);
    ftl_status status = (ftl_status)json_number(result, "status");
    if (!result) copy_text(row.why, sizeof row.why, why);
    if (!result || status) {
        return keep_failure(e, s, &row, result ? status : FTL_BAD_ANSWER);
    }
    e->failures[s->item->model] = 0;
    s->item->is_over = true;
    e->done++, e->passed += row.passed;
    return results_finish(e->database, &row) ? FTL_OK : run_database_failure(e);
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

static ftl_status keep(evaluation *e, run_slot *s, const json_t *result, const char *why) {
    ftl_status status =
        e->is_of_references ? keep_reference(e, s, result, why) : keep_trial(e, s, result, why);
    bool has_spent = !e->is_of_references;
    run_set_free(s);
    if (!status && has_spent && !results_spent(e->database, e->experiment, &e->tokens, &e->price)) {
        status = run_database_failure(e);
    }
    run_tell(e);
    return status;
}

ftl_status run_attend(evaluation *e, run_slot *s) {
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
