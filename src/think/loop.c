#include "think/think.h"

#include "base/hash.h"
#include "base/os.h"
#include "think/extract.h"
#include "think/limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 5, ANSWER_TOKENS = 16000, TURNS_MAX = 128, LEAST_ANSWER_TOKENS = 500 };

/* A kernel that passed. */
typedef struct candidate {
    char *sketch, *code, *cuda;
    ftl_plan *plan;
    json_t *facts;
    think_rung rung;
    double tflops, cost;
    int32_t number;
    char by[PROVIDER_NAME_BYTES];
} candidate;

typedef struct workflow {
    ftl_context *context;
    const think_run *run;
    think_result *result;
    candidate best;
    bool has_best;
    int32_t candidates;
    const record_reader *recording; /* of a replay */
    int32_t verdicts;               /* judged so far: which recorded time is next */
    int64_t tokens;
    char *failed_text; /* the text that got furthest, when none passed */
    think_rung failed_rung;
    json_t *tried; /* rows of the table that improving shows */
} workflow;

static const char *const BUILT_IN = "the built-in agent";

static ftl_status out_of_memory(workflow *w) {
    return ftl_context_fail(w->context, FTL_NO_MEMORY, "out of memory");
}

static char *copied(const char *text) {
    return text ? str_new(str_from(text)) : NULL;
}

static void tell(const workflow *w, const think_news *news) {
    if (w->run->on_news) w->run->on_news(w->run->user, news);
}

/* --- the record ------------------------------------------------------------------------------- */

static ftl_status add_event(workflow *w, const char *event, json_t *fields) {
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

static json_t *text_of(const char *text, size_t length) {
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
    if (!fields) return out_of_memory(w);
    json_object_set_new(fields, "highest", json_string(think_rung_name(t->highest)));
    if (run->sketch.text)
        json_object_set_new(fields, "sketch", text_of(run->sketch.text, run->sketch.length));
    if (t->reference.text) {
        json_object_set_new(fields, "reference", text_of(t->reference.text, t->reference.length));
    }
    char *meaning = json_dumps(fields, JSON_COMPACT);
    if (!meaning) {
        json_decref(fields);
        return out_of_memory(w);
    }
    hash_digits(hash_bytes(str_from(meaning)), w->result->id);
    free(meaning);
    json_t *line = json_pack("{s:s,s:s}", "id", w->result->id, "version", ftl_version());
    json_object_update(line, fields);
    json_decref(fields);
    ftl_status status = add_event(w, "run", line);
    if (!status && run->machine) status = add_event(w, "machine", json_deep_copy(run->machine));
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

static ftl_status record_verdict(workflow *w, think_step step, int32_t round, const char *by,
                                 judge_verdict *v) {
    v->ms = time_of_verdict(w, v->ms);
    json_t *fields =
        json_pack("{s:s,s:i,s:s,s:s,s:b,s:o,s:O,s:O,s:f,s:f,s:f}", "step", think_step_name(step),
                  "round", (int)round, "by", by, "rung", think_rung_name(v->rung), "passed",
                  v->passed, "text", text_of(v->text, strlen(v->text)), "findings", v->findings,
                  "facts", v->facts, "cost", v->cost, "tflops", v->tflops, "ms", v->ms);
    return fields ? add_event(w, "verdict", fields) : out_of_memory(w);
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

/* Faster by more than noise; where there is no GPU, by fewer instructions and wavefronts. */
static bool is_faster(const candidate *a, const judge_verdict *v) {
    static const double LEAST_GAIN = 1.01;
    if (a->tflops > 0 && v->tflops > 0) return v->tflops > LEAST_GAIN * a->tflops;
    return a->cost > 0 && v->cost > 0 && v->cost * LEAST_GAIN < a->cost;
}

static ftl_plan *copy_plan(const ftl_plan *plan) {
    char why[FTL_WHY_BYTES], *text = ftl_plan_write(plan);
    ftl_plan *copy = text ? ftl_plan_read(text, strlen(text), why) : NULL;
    free(text);
    return copy;
}

/* A row of the table of what was tried. */
static void add_tried(workflow *w, const judge_verdict *v, int32_t number, const char *by) {
    json_t *row = json_pack("{s:i,s:s,s:s,s:b,s:f,s:f}", "candidate", (int)number, "by", by, "rung",
                            think_rung_name(v->rung), "passed", v->passed, "cost", v->cost,
                            "tflops", v->tflops);
    if (row && v->code) json_object_set_new(row, "code", text_of(v->code, strlen(v->code)));
    json_array_append_new(w->tried, row);
}

/* Takes a kernel that passed, if it is the first or faster. */
static ftl_status consider(workflow *w, think_step step, const char *sketch, const judge_verdict *v,
                           const ftl_product *product, const char *cuda, const char *by) {
    int32_t number = w->candidates++;
    add_tried(w, v, number, by);
    if (w->has_best && !is_faster(&w->best, v)) return FTL_OK;
    candidate c = {.sketch = copied(sketch),
                   .code = copied(v->code),
                   .cuda = copied(cuda),
                   .plan = copy_plan(product->kernels[0].plan),
                   .facts = json_deep_copy(v->facts),
                   .rung = v->rung,
                   .tflops = v->tflops,
                   .cost = v->cost,
                   .number = number};
    if (!c.code || !c.cuda || !c.plan) {
        candidate_done(&c);
        return out_of_memory(w);
    }
    snprintf(c.by, sizeof c.by, "%s", by);
    candidate_done(&w->best);
    w->best = c;
    w->has_best = true;
    char text[PROVIDER_NAME_BYTES + 64];
    snprintf(text, sizeof text, "candidate %d, by %s", (int)number, by);
    tell(w, &(think_news){.kind = THINK_NEWS_KEPT, .step = step, .text = text});
    return FTL_OK;
}

static void keep_failure(workflow *w, const judge_verdict *v) {
    bool is_further = !w->failed_text || v->rung >= w->failed_rung;
    if (v->passed || !*v->text || !is_further) return;
    free(w->failed_text);
    w->failed_text = copied(v->text);
    w->failed_rung = v->rung;
}

/* --- asking ----------------------------------------------------------------------------------- */

static double price_of(const workflow *w, int64_t prompt_tokens, int64_t answer_tokens) {
    const think_limits *l = &w->run->limits;
    return ((double)prompt_tokens * l->prompt_price + (double)answer_tokens * l->answer_price) /
           1e6;
}

static int64_t estimate(const provider_request *q) {
    int64_t tokens = provider_estimate_tokens(q->system);
    for (int32_t i = 0; i < q->turn_count; i++)
        tokens += provider_estimate_tokens(q->turns[i].text);
    return tokens;
}

/* What is left of the budget after the prompt is what the answer may take. */
static ftl_status check_budget(workflow *w, provider_request *q, int64_t prompt_tokens) {
    const think_limits *l = &w->run->limits;
    q->answer_tokens_most = ANSWER_TOKENS;
    if (l->tokens_most > 0) {
        int64_t left = l->tokens_most - w->tokens - prompt_tokens;
        if (left < LEAST_ANSWER_TOKENS) {
            return ftl_context_fail(w->context, FTL_QUOTA,
                                    "the budget of %lld tokens is spent: %lld were used, and the "
                                    "next question has about %lld",
                                    (long long)l->tokens_most, (long long)w->tokens,
                                    (long long)prompt_tokens);
        }
        if (left < q->answer_tokens_most) q->answer_tokens_most = left;
    }
    if (l->cost_most <= 0) return FTL_OK;
    double left = l->cost_most - w->result->price - price_of(w, prompt_tokens, 0);
    double answers = l->answer_price > 0 ? left / l->answer_price * 1e6
                     : left < 0          ? 0
                                         : ANSWER_TOKENS;
    if (left < 0 || answers < LEAST_ANSWER_TOKENS) {
        return ftl_context_fail(w->context, FTL_QUOTA, "the budget of %g is spent: %g were used",
                                l->cost_most, w->result->price);
    }
    if (answers < (double)q->answer_tokens_most) q->answer_tokens_most = (int64_t)answers;
    return FTL_OK;
}

static void count_tokens(workflow *w, const provider_request *q, provider_answer *a) {
    int64_t prompt = a->prompt_tokens, answer = a->answer_tokens;
    if (!prompt) prompt = estimate(q);
    if (!answer) answer = provider_estimate_tokens(text_str(&a->text));
    w->tokens += prompt + answer;
    w->result->tokens = w->tokens;
    w->result->price += price_of(w, prompt, answer);
}

static ftl_status record_ask(workflow *w, think_step step, int32_t round, provider *p,
                             const provider_request *q, const provider_answer *a) {
    char key[33];
    provider_request_key(p, q, key);
    str question = q->turns[q->turn_count - 1].text, answer = text_str(&a->text);
    json_t *fields = json_pack(
        "{s:s,s:i,s:s,s:s,s:o,s:o,s:b,s:I,s:I,s:I,s:i,s:f}", "step", think_step_name(step), "round",
        (int)round, "model", provider_model(p), "key", key, "question",
        text_of(question.data, question.length), "answer", text_of(answer.data, answer.length),
        "cut_off", a->is_cut_off, "prompt_tokens", (json_int_t)a->prompt_tokens, "answer_tokens",
        (json_int_t)a->answer_tokens, "cached_tokens", (json_int_t)a->cached_tokens, "retries",
        (int)a->retries, "ms", a->ms);
    return fields ? add_event(w, "ask", fields) : out_of_memory(w);
}

static ftl_status ask(workflow *w, think_step step, int32_t round, provider *p, provider_request *q,
                      provider_answer *a) {
    int64_t tokens = estimate(q);
    ftl_status status = check_budget(w, q, tokens);
    if (status) return status;
    think_news news = {.kind = THINK_NEWS_ASK,
                       .step = step,
                       .round = round,
                       .model = provider_model(p),
                       .tokens = tokens};
    tell(w, &news);
    status = provider_ask(w->context, p, q, a);
    if (status) return status;
    w->result->questions++;
    count_tokens(w, q, a);
    news.kind = THINK_NEWS_ANSWER, news.ms = a->ms;
    news.tokens =
        a->answer_tokens ? a->answer_tokens : provider_estimate_tokens(text_str(&a->text));
    tell(w, &news);
    return record_ask(w, step, round, p, q, a);
}

/* --- a conversation --------------------------------------------------------------------------- */

/* What is asked in a step, and of what its answers are judged against. */
typedef struct conversation {
    workflow *w;
    think_step step;
    provider *p;
    const char *sketch;         /* reason, translate */
    const ftl_product *product; /* translate */
    text_buffer system, gbnf, lark;
    text_buffer texts[TURNS_MAX]; /* of the turns */
    provider_turn turns[TURNS_MAX];
    int32_t turn_count;
} conversation;

static void add_turn(conversation *v, bool is_answer, str text) {
    if (v->turn_count == TURNS_MAX) return;
    text_buffer *copy = &v->texts[v->turn_count];
    text_init(copy, PROMPT_BYTES_MAX + PROVIDER_ANSWER_BYTES_MAX);
    text_add(copy, text);
    v->turns[v->turn_count] = (provider_turn){is_answer, text_str(copy)};
    v->turn_count++;
}

static void close_conversation(conversation *v) {
    for (int32_t i = 0; i < v->turn_count; i++) text_done(&v->texts[i]);
    text_done(&v->system);
    text_done(&v->gbnf);
    text_done(&v->lark);
    free(v);
}

static ftl_status open_conversation(workflow *w, think_step step, provider *p, const char *sketch,
                                    const ftl_product *product, conversation **out) {
    conversation *v = calloc(1, sizeof *v);
    *out = v;
    if (!v) return out_of_memory(w);
    v->w = w, v->step = step, v->p = p, v->sketch = sketch, v->product = product;
    const judge_task *t = w->run->task;
    text_buffer parameters, question;
    text_init(&parameters, PROMPT_BYTES_MAX);
    text_init(&question, PROMPT_BYTES_MAX);
    text_init(&v->system, PROMPT_BYTES_MAX);
    text_init(&v->gbnf, PROMPT_BYTES_MAX);
    text_init(&v->lark, PROMPT_BYTES_MAX);
    if (t->reference.text)
        judge_parameters((str){t->reference.text, t->reference.length}, &parameters);
    prompt_task task = {.step = step,
                        .words = w->run->words,
                        .options = t->options,
                        .parameters = parameters.data,
                        .sketch = sketch,
                        .product = product};
    ftl_status status = prompt_system(w->context, &task, &v->system);
    if (!status) status = prompt_question(w->context, &task, &question);
    if (!status && provider_takes_grammar(p) != PROVIDER_NO_GRAMMAR) {
        prompt_grammar(w->context, &task, FTL_GBNF, &v->gbnf);
        prompt_grammar(w->context, &task, FTL_LARK, &v->lark);
    }
    if (!status) {
        add_turn(v, false, text_str(&question));
        json_t *fields = json_pack("{s:s,s:o}", "step", think_step_name(step), "system",
                                   text_of(v->system.data, v->system.length));
        status = add_event(w, "prompt", fields);
    }
    text_done(&parameters);
    text_done(&question);
    if (status) {
        close_conversation(v);
        *out = NULL;
    }
    return status;
}

static ftl_status judge_answer(conversation *v, const provider_answer *a, judge_verdict *out) {
    workflow *w = v->w;
    str text;
    extract_kind kind = v->step == THINK_TRANSLATE ? EXTRACT_CUDA : EXTRACT_TL;
    extract_result found = extract_program(text_str(&a->text), kind, a->is_cut_off, &text);
    if (found != EXTRACT_FOUND) {
        return judge_nothing(w->context, v->step, found == EXTRACT_CUT_OFF, out);
    }
    switch (v->step) {
    case THINK_SKETCH: return judge_sketch(w->context, w->run->task, text, out);
    case THINK_REASON: return judge_code(w->context, w->run->task, v->sketch, text, out);
    default: break;
    }
    return judge_cuda(w->context, w->run->task, v->sketch, v->product, text, out);
}

static bool is_stopped(const workflow *w) {
    return w->run->stop && *w->run->stop;
}

/* One question and its verdict. */
static ftl_status converse_once(conversation *v, int32_t round, int32_t left,
                                judge_verdict *verdict) {
    workflow *w = v->w;
    provider_request q = {.system = text_str(&v->system),
                          .turns = v->turns,
                          .turn_count = v->turn_count,
                          .grammar_gbnf = text_str(&v->gbnf),
                          .grammar_lark = text_str(&v->lark)};
    provider_answer a = {0};
    *verdict = (judge_verdict){0};
    if (is_stopped(w)) return ftl_context_fail(w->context, FTL_STOPPED, "stopped");
    ftl_status status = ask(w, v->step, round, v->p, &q, &a);
    if (!status) status = judge_answer(v, &a, verdict);
    if (!status) status = record_verdict(w, v->step, round, provider_model(v->p), verdict);
    if (!status) {
        tell(w, &(think_news){.kind = THINK_NEWS_VERDICT,
                              .step = v->step,
                              .round = round,
                              .model = provider_model(v->p),
                              .verdict = verdict,
                              .ms = verdict->ms});
        keep_failure(w, verdict);
        text_buffer findings;
        text_init(&findings, PROMPT_BYTES_MAX);
        prompt_findings(verdict->rung, verdict->findings, left, &findings);
        add_turn(v, true, text_str(&a.text));
        add_turn(v, false, text_str(&findings));
        text_done(&findings);
    } else {
        judge_done(verdict);
    }
    provider_answer_done(&a);
    return status;
}

/* Asks until an answer passes. CHECK_FAILED when none did. */
static ftl_status converse(conversation *v, judge_verdict *verdict) {
    int32_t rounds = v->w->run->limits.rounds > 0 ? v->w->run->limits.rounds : ROUNDS;
    for (int32_t round = 1; round <= rounds; round++) {
        ftl_status status = converse_once(v, round, rounds - round, verdict);
        if (status || verdict->passed) return status;
        if (round < rounds) judge_done(verdict);
    }
    judge_done(verdict);
    return ftl_context_fail(
        v->w->context, FTL_CHECK_FAILED, "none of %d answers passed: the best one failed '%s' (%s)",
        (int)rounds, think_rung_name(v->w->failed_rung), think_rung_meaning(v->w->failed_rung));
}

static ftl_status do_step(workflow *w, think_step step, const char *sketch,
                          const ftl_product *product, judge_verdict *verdict) {
    conversation *v = NULL;
    *verdict = (judge_verdict){0};
    ftl_status status = open_conversation(w, step, w->run->agents[step], sketch, product, &v);
    if (status) return status;
    status = converse(v, verdict);
    close_conversation(v);
    return status;
}

/* --- the steps -------------------------------------------------------------------------------- */

/* Candidate 0: what the built-in agent makes of a sketch that is there. */
static ftl_status try_built_in(workflow *w, const ftl_source *sketch, bool must_pass) {
    judge_verdict v;
    ftl_status status =
        judge_sketch(w->context, w->run->task, (str){sketch->text, sketch->length}, &v);
    if (status) return status;
    status = record_verdict(w, THINK_SKETCH, 0, BUILT_IN, &v);
    if (!status) {
        tell(w, &(think_news){.kind = THINK_NEWS_VERDICT,
                              .step = THINK_SKETCH,
                              .model = BUILT_IN,
                              .verdict = &v,
                              .ms = v.ms});
    }
    if (!status && v.passed && v.product) {
        status =
            consider(w, THINK_SKETCH, v.text, &v, v.product, v.product->kernels[0].cuda, BUILT_IN);
    } else if (!status && !v.passed && must_pass) {
        keep_failure(w, &v);
        char *line = json_dumps(json_array_get(v.findings, 0), JSON_COMPACT);
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
    ftl_status status = do_step(w, THINK_SKETCH, NULL, NULL, &v);
    if (status) return status;
    *sketch = copied(v.text);
    if (!*sketch) status = out_of_memory(w);
    else if (v.product) {
        status = consider(w, THINK_SKETCH, v.text, &v, v.product, v.product->kernels[0].cuda,
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
    ftl_status status = do_step(w, THINK_REASON, sketch, NULL, &v);
    if (status) return unless_there_is_one(w, status);
    status = consider(w, THINK_REASON, sketch, &v, v.product, v.product->kernels[0].cuda,
                      provider_model(w->run->agents[THINK_REASON]));
    judge_done(&v);
    return status;
}

static ftl_status make_cuda(workflow *w) {
    ftl_source code = {"code", w->best.code, strlen(w->best.code)};
    ftl_product *product = NULL;
    ftl_status status = ftl_translate(w->context, &code, w->run->task->options->gpu, &product);
    if (status) return status;
    judge_verdict v;
    char *sketch = copied(w->best.sketch); /* the best may be replaced */
    status = do_step(w, THINK_TRANSLATE, sketch, product, &v);
    if (status) {
        status = unless_there_is_one(w, status);
    } else {
        status = consider(w, THINK_TRANSLATE, sketch, &v, product, v.text,
                          provider_model(w->run->agents[THINK_TRANSLATE]));
        judge_done(&v);
    }
    free(sketch);
    ftl_product_free(product);
    return status;
}

/* --- improving -------------------------------------------------------------------------------- */

/* What a model sees that may go on: the best code, what limits it, and what was tried. */
static void write_improve_question(workflow *w, text_buffer *out) {
    text_format(out,
                "# The kernel to make faster\n\nIt is verified, by %s.\n\n```tl\n%s```\n\n# What "
                "limits it\n\n",
                w->best.by, w->best.code);
    json_t *limits = limits_of(w->context, w->best.plan, w->best.facts);
    for (size_t i = 0; i < json_array_size(limits); i++) {
        text_format(out, "- %s\n", json_string_value(json_array_get(limits, i)));
    }
    json_decref(limits);
    text_add_z(out, "\n# What was tried\n\n| candidate | by | passed | TFLOPS | instructions and "
                    "wavefronts of a launch | tiles |\n|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < json_array_size(w->tried); i++) {
        const json_t *row = json_array_get(w->tried, i);
        str code = str_from(json_text(row, "code")), tiles = STR("");
        while (code.length && !tiles.length) {
            str line = str_cut(&code, '\n');
            if (str_starts(line, STR("let "))) tiles = line;
        }
        text_format(out, "| %d | %s | %s | ", (int)json_number(row, "candidate"),
                    json_text(row, "by"),
                    json_is_true(json_object_get(row, "passed")) ? "yes" : json_text(row, "rung"));
        if (json_number(row, "tflops") > 0) text_format(out, "%.1f | ", json_number(row, "tflops"));
        else text_add_z(out, "not measured | ");
        text_format(out, "%.0f | `%.*s` |\n", json_number(row, "cost"), STR_ARGS(tiles));
    }
    text_add_z(out,
               "\nPropose one change that makes it faster, and answer with the whole of the TL "
               "Code. It counts only if it passes everything and is faster.\n");
}

static ftl_status improve(workflow *w) {
    provider *p =
        w->run->agents[THINK_REASON] ? w->run->agents[THINK_REASON] : w->run->agents[THINK_SKETCH];
    conversation *v = NULL;
    char *sketch = copied(w->best.sketch);
    ftl_status status = p ? FTL_OK
                          : ftl_context_fail(w->context, FTL_INVALID_ARGUMENT,
                                             "improving needs a model: --reason-by MODEL");
    for (int32_t round = 1; !status && round <= w->run->limits.improvements; round++) {
        if (!v) status = open_conversation(w, THINK_REASON, p, sketch, NULL, &v);
        if (status) break;
        text_buffer question;
        judge_verdict verdict;
        text_init(&question, PROMPT_BYTES_MAX);
        write_improve_question(w, &question);
        while (v->turn_count)
            text_done(&v->texts[--v->turn_count]); /* each proposal stands alone */
        add_turn(v, false, text_str(&question));
        text_done(&question);
        status = converse_once(v, 100 + round, w->run->limits.improvements - round, &verdict);
        if (status) break;
        if (verdict.passed) {
            status = consider(w, THINK_REASON, sketch, &verdict, verdict.product,
                              verdict.product->kernels[0].cuda, provider_model(p));
        } else {
            add_tried(w, &verdict, w->candidates++, provider_model(p));
        }
        judge_done(&verdict);
    }
    if (v) close_conversation(v);
    free(sketch);
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
    if (!status && run->limits.improvements > 0 && w->has_best) status = improve(w);
    if (!status && run->agents[THINK_TRANSLATE] && w->has_best) status = make_cuda(w);
    if (!w->has_best) w->result->sketch = sketch;
    else free(sketch);
    return status;
}

/* A kernel of a model's making names its record. */
static char *signed_text(const workflow *w, const char *text) {
    text_buffer out;
    if (!text || strcmp(w->best.by, BUILT_IN) == 0) return copied(text);
    text_init(&out, 64 << 20);
    char by[PROVIDER_NAME_BYTES];
    snprintf(by, sizeof by, "%s", w->best.by);
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
    r->code = signed_text(w, b->code);
    r->cuda = signed_text(w, b->cuda);
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
    if (!fields) return out_of_memory(w);
    json_object_set_new(fields, "error", json_string(status ? ftl_context_error(w->context) : ""));
    if (r->sketch) json_object_set_new(fields, "sketch", json_string(r->sketch));
    if (r->code) json_object_set_new(fields, "code", json_string(r->code));
    if (r->cuda) json_object_set_new(fields, "cuda", json_string(r->cuda));
    if (r->facts) json_object_set(fields, "limits", r->facts);
    json_object_set_new(fields, "cost", json_real(r->cost));
    json_object_set_new(fields, "tflops", json_real(r->tflops));
    return add_event(w, "result", fields);
}

static const record_reader *find_recording(const think_run *run) {
    for (int i = 0; i < THINK_STEP_COUNT; i++) {
        if (run->agents[i] && provider_recording(run->agents[i]))
            return provider_recording(run->agents[i]);
    }
    return NULL;
}

ftl_status think(ftl_context *context, const think_run *run, think_result *result) {
    *result = (think_result){0};
    workflow w = {.context = context,
                  .run = run,
                  .result = result,
                  .recording = find_recording(run),
                  .tried = json_array()};
    ftl_status status = w.tried ? begin_record(&w) : out_of_memory(&w);
    if (!status) status = work(&w);
    if (w.has_best) take_best(&w);
    else if (!result->sketch) result->sketch = copied(w.failed_text);
    char error[1024]; /* recording must not forget why the run ended */
    snprintf(error, sizeof error, "%s", ftl_context_error(context));
    ftl_status recorded = end_record(&w, status);
    if (status) ftl_context_fail(context, status, "%s", error);
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

/* --- one step -----------------------------------------------------------------------------------
 */

static ftl_status translate_given(workflow *w, char **text) {
    ftl_product *product = NULL;
    ftl_status status =
        ftl_translate(w->context, &w->run->sketch, w->run->task->options->gpu, &product);
    if (status) return status;
    judge_verdict v;
    status = do_step(w, THINK_TRANSLATE, product->code, product, &v);
    if (!status) *text = copied(v.text);
    judge_done(&v);
    ftl_product_free(product);
    return status;
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
    ftl_status status = w.tried ? begin_record(&w) : out_of_memory(&w);
    if (!status && step == THINK_TRANSLATE) {
        status = translate_given(&w, text);
    } else if (!status) {
        judge_verdict v;
        status = do_step(&w, step, run->sketch.text, NULL, &v);
        if (!status) *text = copied(v.text);
        judge_done(&v);
    }
    free(w.failed_text);
    json_decref(w.tried);
    think_result_done(&result);
    return status;
}
