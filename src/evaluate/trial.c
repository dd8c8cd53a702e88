#include "evaluate/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct trial {
    const trial_work *work;
    ftl_context *context;
    ftl_context *other; /* for questions in between: the first is at work then */
    ftl_runtime *runtime;
    record_writer *record;
    ftl_options options;
    judge_task judge;
    /* what the conversations came to */
    int32_t answers;
    int64_t question_tokens, answer_tokens;
    double model_ms, judge_ms;
    bool is_first_step, first_passed, passed, read, checked;
    think_rung rung;
    double tflops, relative, launch_cost;
    char finding[RESULTS_ID_BYTES];
    char *text;
} trial;

ftl_options trial_options(const evaluate_request *request, const evaluate_task *task) {
    ftl_options options = request->options;
    options.pins = task->pins, options.pin_count = task->pin_count;
    return options;
}

static ftl_source reference_of(const evaluate_task *task) {
    return (ftl_source){"reference", task->sketch, strlen(task->sketch)};
}

/* Kernels are measured by one trial at a time, so this one ends below the GPU. */
static void prepare_judge(trial *t) {
    enum { TIMED_LAUNCHES = 5 }; /* inputs of each take longer to make than it to run */
    const evaluate_request *r = t->work->request;
    bool measures = t->work->text != NULL;
    think_rung highest = r->highest;
    if (!measures && highest > THINK_RUNG_EMULATE) highest = THINK_RUNG_EMULATE;
    t->options = trial_options(r, t->work->task);
    t->judge = (judge_task){.options = &t->options,
                            .reference = reference_of(t->work->task),
                            .seed = r->seed,
                            .shapes = r->shapes,
                            .highest = highest,
                            .has_gpu = measures,
                            .is_emulated = measures,
                            .timed_launches = TIMED_LAUNCHES,
                            .runtime = highest > THINK_RUNG_BUILD ? t->runtime : NULL,
                            .stop = r->stop};
}

/* --- what is seen of a conversation ----------------------------------------------------------- */

static bool can_be_read(trial *t, const char *text) {
    ftl_source source = {"answer", text, strlen(text)};
    char *canonical = NULL;
    bool is_read = *text && ftl_format(t->other, &source, &canonical) == FTL_OK;
    ftl_free(canonical);
    return is_read;
}

static void take_verdict(trial *t, const judge_verdict *v) {
    t->rung = v->rung;
    t->passed = v->passed;
    t->judge_ms += v->ms;
    t->checked = v->passed || v->rung > THINK_RUNG_CHECK;
    t->read = t->checked || (v->rung == THINK_RUNG_CHECK && can_be_read(t, v->text));
    t->tflops = v->passed ? v->tflops : 0;
    t->relative = v->passed ? v->relative : 0;
    t->launch_cost = v->passed ? v->cost : 0;
    const json_t *first = json_array_get(v->findings, 0);
    snprintf(t->finding, sizeof t->finding, "%s", v->passed ? "" : json_text(first, "id"));
}

static void on_news(void *user, const think_news *n) {
    trial *t = user;
    if (n->kind == THINK_NEWS_ANSWER) {
        t->answers++;
        t->question_tokens += n->question_tokens;
        t->answer_tokens += n->tokens;
        t->model_ms += n->ms;
    }
    if (n->kind != THINK_NEWS_VERDICT) return;
    take_verdict(t, n->verdict);
    if (t->is_first_step && n->round == 1) t->first_passed = n->verdict->passed;
    /* of two steps both first answers have to pass */
    if (!t->is_first_step && n->round == 1) t->first_passed &= n->verdict->passed;
}

/* --- asking ----------------------------------------------------------------------------------- */

static think_limits limits_left(const trial *t) {
    const evaluate_model *m = t->work->model;
    int64_t used = t->question_tokens + t->answer_tokens;
    double price = ((double)t->question_tokens * m->prompt_price +
                    (double)t->answer_tokens * m->answer_price) /
                   1e6;
    think_limits l = {.rounds = t->work->request->answers,
                      .prompt_price = m->prompt_price,
                      .answer_price = m->answer_price};
    int64_t tokens_left = t->work->tokens_most - used;
    double cost_left = t->work->cost_most - price;
    if (t->work->tokens_most > 0)
        l.tokens_most = tokens_left > 0 ? tokens_left : 1; /* 0: no limit */
    if (t->work->cost_most > 0) l.cost_most = cost_left > 0 ? cost_left : 1e-9;
    return l;
}

/* One conversation. OK also when no answer passed: that is a result. */
static ftl_status converse(trial *t, think_step step, think_rung highest, const char *sketch,
                           bool hides_sketch) {
    const trial_work *w = t->work;
    provider_options options = w->request->provider;
    judge_task judge = t->judge;
    provider *p = NULL;
    options.step = think_step_name(step);
    if (w->setting->without >> SETTING_GRAMMAR & 1) options.grammar = PROVIDER_NO_GRAMMAR;
    if (judge.highest > highest) judge.highest = highest;
    ftl_status status = provider_open(t->context, w->model->spec, &options, &p);
    if (status) return status;
    think_run run = {.words = w->task->words,
                     .task = &judge,
                     .limits = limits_left(t),
                     .muted_rungs = setting_muted_rungs(w->setting),
                     .hides_sketch = hides_sketch,
                     .record = t->record,
                     .stop = w->request->stop,
                     .on_news = on_news,
                     .user = t};
    if (sketch) run.sketch = (ftl_source){"sketch", sketch, strlen(sketch)};
    run.agents[step] = p;
    char *text = NULL;
    status = think_step_alone(t->context, &run, step, &text);
    provider_close(p);
    free(t->text);
    t->text = text;
    return status == FTL_CHECK_FAILED ? FTL_OK : status;
}

static ftl_status ask_model(trial *t) {
    const evaluate_setting *s = t->work->setting;
    const char *reference = t->work->task->sketch;
    t->is_first_step = true;
    if (s->stages == SETTING_ONE) {
        return converse(t, THINK_REASON, THINK_RUNG_GPU, reference, true);
    }
    bool is_two = s->stages == SETTING_TWO;
    ftl_status status =
        converse(t, THINK_SKETCH, is_two ? THINK_RUNG_MEANING : THINK_RUNG_GPU, NULL, false);
    if (status || !is_two || !t->passed) return status;
    char *sketch = t->text;
    t->text = NULL;
    t->is_first_step = t->passed = false;
    status = converse(t, THINK_REASON, THINK_RUNG_GPU, sketch, false);
    free(sketch);
    return status;
}

/* --- judging alone ---------------------------------------------------------------------------- */

static ftl_status judge_text(trial *t) {
    const trial_work *w = t->work;
    judge_verdict v;
    bool is_sketch = !w->model || w->setting->stages == SETTING_SKETCH;
    const char *text = w->text ? w->text : w->task->sketch;
    ftl_status status =
        is_sketch ? judge_sketch(t->context, &t->judge, str_from(text), &v)
                  : judge_code(t->context, &t->judge, w->task->sketch, str_from(text), &v);
    if (status) return status;
    take_verdict(t, &v);
    t->text = str_new(str_from(text));
    if (!v.passed) {
        const json_t *first = json_array_get(v.findings, 0);
        int line = (int)json_number(first, "line");
        ftl_context_fail(t->context, FTL_OK, "'%s' fails: %s%.0d%s%s", think_rung_name(v.rung),
                         line ? "line " : "", line, line ? ": " : "", json_text(first, "message"));
    }
    judge_done(&v);
    return FTL_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

/* "TASK.MODEL.SETTING.SAMPLE.jsonl": characters that no file name should have become '_'. */
static ftl_status open_record(trial *t) {
    const trial_work *w = t->work;
    char model[64], path[4096];
    if (!w->model || w->text || !w->request->records) return FTL_OK;
    snprintf(model, sizeof model, "%s", w->model->name);
    for (char *c = model; *c; c++) {
        bool is_fine = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                       (*c >= '0' && *c <= '9') || *c == '-' || *c == '_';
        if (!is_fine) *c = '_';
    }
    snprintf(path, sizeof path, "%s/%s.%s.%s.%d.jsonl", w->request->records, w->task->name, model,
             w->setting->name, (int)w->sample + 1);
    return record_open(t->context, path, &t->record);
}

static json_t *report(trial *t, ftl_status status) {
    const evaluate_model *m = t->work->model;
    double price = m ? ((double)t->question_tokens * m->prompt_price +
                        (double)t->answer_tokens * m->answer_price) /
                           1e6
                     : 0;
    json_t *all = json_pack(
        "{s:i,s:s,s:b,s:b,s:b,s:b,s:s,s:s,s:i,s:I,s:I,s:f,s:f,s:f,s:f,s:f,s:f}", "status",
        (int)status, "error", t->context ? ftl_context_error(t->context) : "out of memory",
        "passed", t->passed, "first_passed", t->passed && t->first_passed, "read", t->read,
        "checked", t->checked, "rung", think_rung_name(t->rung), "finding", t->finding, "answers",
        (int)t->answers, "question_tokens", (json_int_t)t->question_tokens, "answer_tokens",
        (json_int_t)t->answer_tokens, "price", price, "model_ms", t->model_ms, "judge_ms",
        t->judge_ms, "tflops", t->tflops, "relative", t->relative, "launch_cost", t->launch_cost);
    if (all && t->text) json_object_set_new(all, "text", json_string(t->text));
    return all;
}

json_t *trial_do(const trial_work *work) {
    trial t = {.work = work};
    ftl_status status = ftl_context_new(&t.context);
    if (!status) status = ftl_context_new(&t.other);
    if (!status) status = ftl_runtime_open(t.context, &work->request->runtime, &t.runtime);
    if (!status) status = open_record(&t);
    prepare_judge(&t);
    if (!status) status = work->model && !work->text ? ask_model(&t) : judge_text(&t);
    json_t *result = report(&t, status);
    record_close(t.record);
    ftl_runtime_close(t.runtime);
    ftl_context_free(t.other);
    ftl_context_free(t.context);
    free(t.text);
    return result;
}
