/* Asking a model until its answer passes. */
#include "think/workflow.h"

#include "think/extract.h"

#include <stdlib.h>

enum { ROUNDS = 5, ANSWER_TOKENS = 16000, TURNS_MAX = 128, LEAST_ANSWER_TOKENS = 500 };

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

/* What the server reported, else an estimate. */
static void count_tokens(workflow *w, const provider_request *q, const provider_answer *a,
                         think_news *news) {
    int64_t question = a->prompt_tokens, answer = a->answer_tokens;
    if (!question) question = estimate(q);
    if (!answer) answer = provider_estimate_tokens(text_str(&a->text));
    w->tokens += question + answer;
    w->result->tokens = w->tokens;
    w->result->price += price_of(w, question, answer);
    news->question_tokens = question, news->tokens = answer;
}

static ftl_status record_ask(workflow *w, think_step step, int32_t round, provider *p,
                             const provider_request *q, const provider_answer *a) {
    char key[33];
    provider_request_key(p, q, key);
    str question = q->turns[q->turn_count - 1].text, answer = text_str(&a->text);
    json_t *fields = json_pack(
        "{s:s,s:i,s:s,s:s,s:o,s:o,s:b,s:I,s:I,s:I,s:i,s:f}", "step", think_step_name(step), "round",
        (int)round, "model", provider_model(p), "key", key, "question",
        workflow_text(question.data, question.length), "answer",
        workflow_text(answer.data, answer.length), "cut_off", a->is_cut_off, "prompt_tokens",
        (json_int_t)a->prompt_tokens, "answer_tokens", (json_int_t)a->answer_tokens,
        "cached_tokens", (json_int_t)a->cached_tokens, "retries", (int)a->retries, "ms", a->ms);
    return fields ? workflow_add_event(w, "ask", fields) : workflow_out_of_memory(w);
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
    workflow_tell(w, &news);
    status = provider_ask(w->context, p, q, a);
    if (status) return status;
    w->result->questions++;
    count_tokens(w, q, a, &news);
    news.kind = THINK_NEWS_ANSWER, news.ms = a->ms;
    workflow_tell(w, &news);
    return record_ask(w, step, round, p, q, a);
}

/* --- a conversation --------------------------------------------------------------------------- */

/* What is asked in a step, and of what its answers are judged against. */
struct conversation {
    workflow *w;
    think_step step;
    provider *p;
    const char *sketch;         /* reason, translate */
    const ftl_product *product; /* translate */
    text_buffer system, gbnf, lark;
    text_buffer texts[TURNS_MAX]; /* of the turns */
    provider_turn turns[TURNS_MAX];
    int32_t turn_count;
};

static void add_turn(conversation *v, bool is_answer, str text) {
    if (v->turn_count == TURNS_MAX) return;
    text_buffer *copy = &v->texts[v->turn_count];
    text_init(copy, PROMPT_BYTES_MAX + PROVIDER_ANSWER_BYTES_MAX);
    text_add(copy, text);
    v->turns[v->turn_count] = (provider_turn){is_answer, text_str(copy)};
    v->turn_count++;
}

void converse_close(conversation *v) {
    for (int32_t i = 0; i < v->turn_count; i++) text_done(&v->texts[i]);
    text_done(&v->system);
    text_done(&v->gbnf);
    text_done(&v->lark);
    free(v);
}

ftl_status converse_open(workflow *w, think_step step, provider *p, const char *sketch,
                         const ftl_product *product, conversation **out) {
    conversation *v = calloc(1, sizeof *v);
    *out = v;
    if (!v) return workflow_out_of_memory(w);
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
                        .sketch = w->run->hides_sketch ? NULL : sketch,
                        .is_direct = w->run->hides_sketch,
                        .form = t->form,
                        .product = product};
    ftl_status status = prompt_system(w->context, &task, &v->system);
    if (!status) status = prompt_question(w->context, &task, &question);
    if (!status && parameters.failed) status = workflow_out_of_memory(w);
    if (!status && provider_takes_grammar(p) != PROVIDER_NO_GRAMMAR) {
        status = prompt_grammar(w->context, &task, FTL_GBNF, &v->gbnf);
        if (!status) status = prompt_grammar(w->context, &task, FTL_LARK, &v->lark);
    }
    if (!status) {
        add_turn(v, false, text_str(&question));
        json_t *fields = json_pack("{s:s,s:o}", "step", think_step_name(step), "system",
                                   workflow_text(v->system.data, v->system.length));
        status = workflow_add_event(w, "prompt", fields);
    }
    text_done(&parameters);
    text_done(&question);
    if (status) {
        converse_close(v);
        *out = NULL;
    }
    return status;
}

void converse_begin_anew(conversation *v, str question) {
    while (v->turn_count) text_done(&v->texts[--v->turn_count]);
    add_turn(v, false, question);
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
ftl_status converse_once(conversation *v, int32_t round, int32_t left, judge_verdict *verdict) {
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
    if (!status) status = workflow_record_verdict(w, v->step, round, provider_model(v->p), verdict);
    if (!status) {
        workflow_tell(w, &(think_news){.kind = THINK_NEWS_VERDICT,
                                       .step = v->step,
                                       .round = round,
                                       .model = provider_model(v->p),
                                       .verdict = verdict,
                                       .ms = verdict->ms});
        workflow_keep_failure(w, verdict);
        text_buffer findings;
        text_init(&findings, PROMPT_BYTES_MAX);
        bool is_muted = w->run->muted_rungs >> verdict->rung & 1;
        if (is_muted) prompt_failure(left, &findings);
        else prompt_findings(verdict->rung, verdict->findings, left, &findings);
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

ftl_status converse_step(workflow *w, think_step step, const char *sketch,
                         const ftl_product *product, judge_verdict *verdict) {
    conversation *v = NULL;
    *verdict = (judge_verdict){0};
    ftl_status status = converse_open(w, step, w->run->agents[step], sketch, product, &v);
    if (status) return status;
    status = converse(v, verdict);
    converse_close(v);
    return status;
}
