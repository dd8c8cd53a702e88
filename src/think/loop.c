#include "think/workflow.h"

#include "base/hash.h"
#include "base/json.h"
#include "think/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIED_MOST = 24 };

static const char *const BUILT_IN = "the built-in agent";

ftl_status workflow_out_of_memory(workflow *w) {
    return ftl_context_fail(w->context, FTL_NO_MEMORY, "out of memory");
}

static char *copied(const char *text) {
    return text ? str_new(str_from(text)) : NULL;
}

void workflow_tell(const workflow *w, const think_news *news) {
    if (w->run->on_news) w->run->on_news(w->run->user, news);
}

/* --- the record ------------------------------------------------------------------------------- */

ftl_status workflow_add_event(workflow *w, const char *event, json_t *fields) {
    if (w->run->record) return record_add(w->context, w->run->record, event, fields);
    json_decref(fields);
    return FTL_OK;
}

static json_t *agents_of(const think_run *run) {
    json_t *agents = json_object();
    for (int i = 0; i < THINK_STEP_COUNT; i++) {
        if (!run->agents[i]) continue;
        json_object_set_new(agents, think_step_name((think_step)i),
                            json_string(provider_model(run->agents[i])));
    }
    return agents;
}

static json_t *pins_of(const ftl_options *o) {
    json_t *pins = json_object();
    for (int32_t i = 0; i < o->pin_count; i++) {
        json_object_set_new(pins, o->pins[i].name, json_string(o->pins[i].value));
    }
    return pins;
}

json_t *workflow_text(const char *text, size_t length) {
    json_t *s = json_stringn(text, length);
    return s ? s : json_string("(no UTF-8)");
}

/* What was asked, of whom, under which name. */
static ftl_status begin_record(workflow *w) {
    const think_run *run = w->run;
    const judge_task *t = run->task;
    const ftl_options *o = t->options;
    json_t *fields =
        json_pack("{s:s,s:s,s:s,s:o,s:o,s:I}", "request", run->words ? run->words : "", "gpu",
                  o->gpu ? o->gpu : "", "dtype", ftl_type_name(o->dtype ? o->dtype : FTL_F16),
                  "pins", pins_of(o), "agents", agents_of(run), "seed", (json_int_t)t->seed);
    if (!fields) return workflow_out_of_memory(w);
    json_object_set_new(fields, "highest", json_string(think_rung_name(t->highest)));
    if (t->form == FTL_CUTE) json_object_set_new(fields, "form", json_string("cute"));
    if (run->sketch.text)
        json_object_set_new(fields, "sketch", workflow_text(run->sketch.text, run->sketch.length));
    if (t->reference.text) {
        json_object_set_new(fields, "reference",
                            workflow_text(t->reference.text, t->reference.length));
    }
    char *meaning = json_write(NULL, fields, JSON_COMPACT);
    if (!meaning) {
        json_decref(fields);
        return workflow_out_of_memory(w);
    }
    hash_digits(hash_bytes(str_from(meaning)), w->result->id);
    free(meaning);
    json_t *line = json_pack("{s:s,s:s}", "id", w->result->id, "version", ftl_version());
    json_object_update(line, fields);
    json_decref(fields);
    ftl_status status = workflow_add_event(w, "run", line);
    if (!status && run->machine)
        status = workflow_add_event(w, "machine", json_deep_copy(run->machine));
    return status;
}

/* Times are inputs of a run: a replay takes them from where its answers come from. */
static double time_of_verdict(workflow *w, double measured_ms) {
    int32_t number = w->verdicts++, at = 0;
    for (int32_t i = 0; w->recording && i < record_count(w->recording); i++) {
        const json_t *event = record_at(w->recording, i);
        if (strcmp(json_text(event, "event"), "verdict") != 0) continue;
        if (at++ == number) return json_number(event, "ms");
    }
    return measured_ms;
}

ftl_status workflow_record_verdict(workflow *w, think_step step, int32_t round, const char *by,
                                   judge_verdict *v) {
    v->ms = time_of_verdict(w, v->ms);
    json_t *fields = json_pack(
        "{s:s,s:i,s:s,s:s,s:b,s:o,s:O,s:O,s:f,s:f,s:f}", "step", think_step_name(step), "round",
        (int)round, "by", by, "rung", think_rung_name(v->rung), "passed", v->passed, "text",
        workflow_text(v->text, strlen(v->text)), "findings", v->findings, "facts", v->facts, "cost",
        v->cost, "tflops", v->tflops, "ms", v->ms);
    return fields ? workflow_add_event(w, "verdict", fields) : workflow_out_of_memory(w);
}

/* --- candidates ------------------------------------------------------------------------------- */

static void candidate_done(candidate *c) {
    free(c->sketch);
    free(c->code);
    free(c->cuda);
    ftl_plan_free(c->plan);
    json_decref(c->facts);
    *c = (candidate){0};
}

/* Faster by more than noise, as a multiple of the built-in agent's kernel; where there is no GPU,
 * by fewer instructions and wavefronts.
 */
static bool is_faster(const candidate *a, const judge_verdict *v) {
    static const double LEAST_GAIN = 1.01, LEAST_MEASURED_GAIN = 1.02;
    if (a->relative > 0 && v->relative > 0) return v->relative > LEAST_MEASURED_GAIN * a->relative;
    return a->cost > 0 && v->cost > 0 && v->cost * LEAST_GAIN < a->cost;
}

static ftl_plan *copy_plan(const ftl_plan *plan) {
    char why[FTL_WHY_BYTES], *text = ftl_plan_write(plan);
    ftl_plan *copy = text ? ftl_plan_read(text, strlen(text), why) : NULL;
    free(text);
    return copy;
}

static void add_plan(json_t *row, const ftl_plan *plan) {
    json_object_set_new(row, "threads", json_integer(plan->threads));
    json_object_set_new(row, "shared_bytes", json_integer(plan->shared_bytes));
    json_object_set_new(row, "blocks", json_integer(plan->blocks_per_sm));
}

/* A row of the table of what was tried: many rounds leave no more rows than a model is shown. */
void workflow_add_tried(workflow *w, const judge_verdict *v, int32_t number, const char *by) {
    json_t *row = json_pack("{s:i,s:s,s:s,s:b,s:f,s:f}", "candidate", (int)number, "by", by, "rung",
                            think_rung_name(v->rung), "passed", v->passed, "cost", v->cost,
                            "tflops", v->tflops);
    const char *code = v->code ? v->code : v->text;
    if (row && code) json_object_set_new(row, "code", workflow_text(code, strlen(code)));
    if (row) json_object_set_new(row, "relative", json_real(v->relative));
    const char *why = json_text(json_array_get(v->findings, 0), "message");
    if (row) json_object_set_new(row, "why", workflow_text(why, strlen(why)));
    if (row && v->product) add_plan(row, v->product->kernels[0].plan);
    json_array_append_new(w->tried, row);
    if (json_array_size(w->tried) > TRIED_MOST) json_array_remove(w->tried, 1);
}

/* Takes a kernel that passed, if it is the first or faster. */
ftl_status workflow_consider(workflow *w, think_step step, const char *sketch,
                             const judge_verdict *v, const ftl_product *product, const char *cuda,
                             const char *by) {
    int32_t number = w->candidates++;
    workflow_add_tried(w, v, number, by);
    if (w->has_best && !is_faster(&w->best, v)) return FTL_OK;
    candidate c = {.sketch = copied(sketch),
                   .code = copied(v->code),
                   .cuda = copied(cuda),
                   .plan = copy_plan(product->kernels[0].plan),
                   .facts = json_deep_copy(v->facts),
                   .rung = v->rung,
                   .tflops = v->tflops,
                   .relative = v->relative,
                   .cost = v->cost,
                   .number = number};
    if (!c.code || !c.cuda || !c.plan) {
        candidate_done(&c);
        return workflow_out_of_memory(w);
    }
    snprintf(c.by, sizeof c.by, "%s", by);
    candidate_done(&w->best);
    w->best = c;
    w->has_best = true;
    char text[PROVIDER_NAME_BYTES + 64];
    snprintf(text, sizeof text, "candidate %d, by %s", (int)number, by);
    workflow_tell(w, &(think_news){.kind = THINK_NEWS_KEPT, .step = step, .text = text});
    return FTL_OK;
}

void workflow_keep_failure(workflow *w, const judge_verdict *v) {
    bool is_further = !w->failed_text || v->rung >= w->failed_rung;
    if (v->passed || !*v->text || !is_further) return;
    free(w->failed_text);
    w->failed_text = copied(v->text);
    w->failed_rung = v->rung;
}

/* --- the steps -------------------------------------------------------------------------------- */

/* Candidate 0: what the built-in agent makes of a sketch that is there. */
static ftl_status try_built_in(workflow *w, const ftl_source *sketch, bool must_pass) {
    judge_verdict v;
    ftl_status status =
        judge_sketch(w->context, w->run->task, (str){sketch->text, sketch->length}, &v);
    if (status) return status;
    status = workflow_record_verdict(w, THINK_SKETCH, 0, BUILT_IN, &v);
    if (!status) {
        workflow_tell(w, &(think_news){.kind = THINK_NEWS_VERDICT,
                                       .step = THINK_SKETCH,
                                       .model = BUILT_IN,
                                       .verdict = &v,
                                       .ms = v.ms});
    }
    if (!status && v.passed && v.product) {
        status = workflow_consider(w, THINK_SKETCH, v.text, &v, v.product,
                                   v.product->kernels[0].cuda, BUILT_IN);
    } else if (!status && !v.passed && must_pass) {
        workflow_keep_failure(w, &v);
        char *line = json_write(NULL, json_array_get(v.findings, 0), JSON_COMPACT);
        status = ftl_context_fail(w->context, FTL_CHECK_FAILED, "the sketch does not pass '%s': %s",
                                  think_rung_name(v.rung), line ? line : "");
        free(line);
    }
    judge_done(&v);
    return status;
}

static ftl_status make_sketch(workflow *w, char **sketch) {
    judge_verdict v;
    *sketch = NULL;
    ftl_status status = converse_step(w, THINK_SKETCH, NULL, NULL, &v);
    if (status) return status;
    *sketch = copied(v.text);
    if (!*sketch) status = workflow_out_of_memory(w);
    else if (v.product) {
        status =
            workflow_consider(w, THINK_SKETCH, v.text, &v, v.product, v.product->kernels[0].cuda,
                              provider_model(w->run->agents[THINK_SKETCH]));
    }
    judge_done(&v);
    return status;
}

/* A model that fails where the built-in agent has a kernel costs nothing but its answers. */
static ftl_status unless_there_is_one(const workflow *w, ftl_status status) {
    return status == FTL_CHECK_FAILED && w->has_best ? FTL_OK : status;
}

static ftl_status make_code(workflow *w, const char *sketch) {
    judge_verdict v;
    ftl_status status = converse_step(w, THINK_REASON, sketch, NULL, &v);
    if (status) return unless_there_is_one(w, status);
    status = workflow_consider(w, THINK_REASON, sketch, &v, v.product, v.product->kernels[0].cuda,
                               provider_model(w->run->agents[THINK_REASON]));
    judge_done(&v);
    return status;
}

static ftl_status translate(workflow *w, const ftl_source *code, ftl_product **out) {
    const judge_task *t = w->run->task;
    ftl_text_form form = t->form ? t->form : FTL_PLAIN_CUDA;
    return ftl_translate_to(w->context, code, t->options->gpu, form, out);
}

static ftl_status make_cuda(workflow *w) {
    ftl_source code = {"code", w->best.code, strlen(w->best.code)};
    ftl_product *product = NULL;
    ftl_status status = translate(w, &code, &product);
    if (status) return status;
    judge_verdict v;
    char *sketch = copied(w->best.sketch); /* the best may be replaced */
    status = converse_step(w, THINK_TRANSLATE, sketch, product, &v);
    if (status) {
        status = unless_there_is_one(w, status);
    } else {
        status = workflow_consider(w, THINK_TRANSLATE, sketch, &v, product, v.text,
                                   provider_model(w->run->agents[THINK_TRANSLATE]));
        judge_done(&v);
    }
    free(sketch);
    ftl_product_free(product);
    return status;
}

/* --- all of it -------------------------------------------------------------------------------- */

static ftl_status work(workflow *w) {
    const think_run *run = w->run;
    const judge_task *t = run->task;
    char *sketch = NULL;
    ftl_status status = FTL_OK;
    bool has_sketch = run->sketch.text != NULL;
    if (!has_sketch && !run->agents[THINK_SKETCH]) {
        return ftl_context_fail(w->context, FTL_INVALID_ARGUMENT, "nobody makes the sketch");
    }
    if (has_sketch) {
        status = try_built_in(w, &run->sketch, !run->agents[THINK_REASON]);
        if (!status) sketch = copied(w->has_best ? w->best.sketch : run->sketch.text);
    } else {
        if (t->reference.text) status = try_built_in(w, &t->reference, false);
        if (!status) status = unless_there_is_one(w, make_sketch(w, &sketch));
        if (!status && !sketch && w->has_best) sketch = copied(w->best.sketch);
    }
    if (!status && run->agents[THINK_REASON] && sketch) status = make_code(w, sketch);
    if (!status && run->limits.improvements > 0 && w->has_best) status = improve_best(w);
    if (!status && run->agents[THINK_TRANSLATE] && w->has_best) status = make_cuda(w);
    if (!w->has_best) w->result->sketch = sketch;
    else free(sketch);
    return status;
}

/* A kernel of a model's making names its record. */
static char *signed_text(const workflow *w, const char *author, const char *text) {
    text_buffer out;
    if (!text || strcmp(author, BUILT_IN) == 0) return copied(text);
    text_init(&out, 64 << 20);
    char by[PROVIDER_NAME_BYTES];
    snprintf(by, sizeof by, "%s", author);
    for (char *c = by; *c; c++) {
        if (*c == '\n' || *c == '\\') *c = ' ';
    }
    text_format(&out, "// By %s, judged by FlashTL; record %s.\n%s", by, w->result->id, text);
    return out.data;
}

static void take_best(workflow *w) {
    think_result *r = w->result;
    candidate *b = &w->best;
    r->is_verified = true;
    r->rung = b->rung, r->tflops = b->tflops, r->cost = b->cost, r->kept = b->number;
    r->sketch = copied(b->sketch);
    r->code = signed_text(w, b->by, b->code);
    r->cuda = signed_text(w, b->by, b->cuda);
    r->plan = b->plan;
    b->plan = NULL;
    snprintf(r->by, sizeof r->by, "%s", b->by);
    r->skipped = json_deep_copy(json_object_get(b->facts, "skipped"));
    r->facts = limits_of(w->context, r->plan, b->facts);
}

static ftl_status end_record(workflow *w, ftl_status status) {
    const think_result *r = w->result;
    json_t *fields = json_pack(
        "{s:s,s:b,s:s,s:s,s:i,s:i,s:I,s:f}", "status", ftl_status_name(status), "verified",
        r->is_verified, "rung", think_rung_name(r->rung), "by", r->by, "kept", (int)r->kept,
        "questions", (int)r->questions, "tokens", (json_int_t)r->tokens, "price", r->price);
    if (!fields) return workflow_out_of_memory(w);
    json_object_set_new(fields, "error", json_string(status ? ftl_context_error(w->context) : ""));
    if (r->sketch) json_object_set_new(fields, "sketch", json_string(r->sketch));
    if (r->code) json_object_set_new(fields, "code", json_string(r->code));
    if (r->cuda) json_object_set_new(fields, "cuda", json_string(r->cuda));
    if (r->facts) json_object_set(fields, "limits", r->facts);
    json_object_set_new(fields, "cost", json_real(r->cost));
    json_object_set_new(fields, "tflops", json_real(r->tflops));
    return workflow_add_event(w, "result", fields);
}

static const record_reader *find_recording(const think_run *run) {
    for (int i = 0; i < THINK_STEP_COUNT; i++) {
        if (run->agents[i] && provider_recording(run->agents[i]))
            return provider_recording(run->agents[i]);
    }
    return NULL;
}

/* Ends the record; neither that nor the best kernel's facts make us forget why the run ended. */
static ftl_status end_as(workflow *w, ftl_status status) {
    char error[1024];
    snprintf(error, sizeof error, "%s", ftl_context_error(w->context));
    if (w->has_best) take_best(w);
    else if (!w->result->sketch && status) w->result->sketch = copied(w->failed_text);
    if (status) ftl_context_fail(w->context, status, "%s", error);
    ftl_status recorded = end_record(w, status);
    if (status) ftl_context_fail(w->context, status, "%s", error);
    return recorded;
}

ftl_status think(ftl_context *context, const think_run *run, think_result *result) {
    *result = (think_result){0};
    workflow w = {.context = context,
                  .run = run,
                  .result = result,
                  .recording = find_recording(run),
                  .tried = json_array()};
    ftl_status status = w.tried ? begin_record(&w) : workflow_out_of_memory(&w);
    if (!status) status = work(&w);
    ftl_status recorded = end_as(&w, status);
    candidate_done(&w.best);
    free(w.failed_text);
    json_decref(w.tried);
    return status ? status : recorded;
}

void think_result_done(think_result *r) {
    free(r->sketch);
    free(r->code);
    free(r->cuda);
    ftl_plan_free(r->plan);
    json_decref(r->facts);
    json_decref(r->skipped);
    *r = (think_result){0};
}

/* --- one step --------------------------------------------------------------------------------- */

static ftl_status translate_given(workflow *w, judge_verdict *v) {
    ftl_product *product = NULL;
    ftl_status status = translate(w, &w->run->sketch, &product);
    if (status) return status;
    status = converse_step(w, THINK_TRANSLATE, product->code, product, v);
    ftl_product_free(product);
    return status;
}

/* What of a verdict's text becomes part of the result, and of the record's last line. */
static void take_text(workflow *w, think_step step, const judge_verdict *v) {
    think_result *r = w->result;
    const char *by = provider_model(w->run->agents[step]);
    r->is_verified = true;
    r->rung = v->rung, r->tflops = v->tflops, r->cost = v->cost;
    snprintf(r->by, sizeof r->by, "%s", by);
    char **place = step == THINK_SKETCH ? &r->sketch : step == THINK_REASON ? &r->code : &r->cuda;
    *place = step == THINK_SKETCH ? copied(v->text) : signed_text(w, by, v->text);
}

ftl_status think_step_alone(ftl_context *context, const think_run *run, think_step step,
                            char **text) {
    think_result result = {0};
    workflow w = {.context = context,
                  .run = run,
                  .result = &result,
                  .recording = find_recording(run),
                  .tried = json_array()};
    *text = NULL;
    judge_verdict v = {0};
    ftl_status status = w.tried ? begin_record(&w) : workflow_out_of_memory(&w);
    if (!status && step == THINK_TRANSLATE) status = translate_given(&w, &v);
    else if (!status) status = converse_step(&w, step, run->sketch.text, NULL, &v);
    if (!status) take_text(&w, step, &v);
    judge_done(&v);
    ftl_status recorded = end_as(&w, status);
    const char *made = result.sketch ? result.sketch : result.code ? result.code : result.cuda;
    if (!status) *text = copied(made);
    free(w.failed_text);
    json_decref(w.tried);
    think_result_done(&result);
    return status ? status : recorded;
}
