/* What an evaluation would take, and what its figures would be valid for. */
#include "base/json.h"
#include "evaluate/trial.h"

#include "base/hash.h"

#include <stdlib.h>

/* --- tokens ----------------------------------------------------------------------------------- */

/* Of the prompt of a step. */
static ftl_status prompt_tokens(ftl_context *context, const evaluate_request *r,
                                const evaluate_task *t, think_step step, bool is_direct,
                                int64_t *tokens) {
    text_buffer text, parameters;
    ftl_options options = trial_options(r, t);
    text_init(&text, PROMPT_BYTES_MAX);
    text_init(&parameters, PROMPT_BYTES_MAX);
    judge_parameters(str_from(t->sketch), &parameters);
    prompt_task task = {.step = step,
                        .words = t->words,
                        .options = &options,
                        .parameters = parameters.data,
                        .sketch = step == THINK_REASON && !is_direct ? t->sketch : NULL,
                        .is_direct = is_direct};
    ftl_status status = FTL_OK;
    if (parameters.failed) status = ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    if (!status) status = prompt_system(context, &task, &text);
    if (!status) status = prompt_question(context, &task, &text);
    *tokens = provider_estimate_tokens(text_str(&text));
    text_done(&text);
    text_done(&parameters);
    return status;
}

/* A conversation of 'rounds' answers: what was said before is sent again each time. */
static void add_conversation(int64_t prompt, int64_t rounds, int64_t *questions, int64_t *answers) {
    enum { FINDINGS_TOKENS = 300 };
    int64_t earlier = EVALUATE_ANSWER_TOKENS + FINDINGS_TOKENS;
    *questions += rounds * prompt + earlier * rounds * (rounds - 1) / 2;
    *answers += rounds * EVALUATE_ANSWER_TOKENS;
}

typedef struct sums {
    int64_t least_questions, least_answers, most_questions, most_answers;
} sums;

static ftl_status add_task(ftl_context *context, const evaluate_request *r, const evaluate_task *t,
                           setting_stages stages, sums *out) {
    int64_t sketch = 0, code = 0;
    ftl_status status = FTL_OK;
    bool is_one = stages == SETTING_ONE;
    if (!is_one) status = prompt_tokens(context, r, t, THINK_SKETCH, false, &sketch);
    if (!status && stages != SETTING_SKETCH) {
        status = prompt_tokens(context, r, t, THINK_REASON, is_one, &code);
    }
    for (int i = 0; !status && i < 2; i++) {
        int64_t prompt = i ? code : sketch;
        if (!prompt) continue;
        add_conversation(prompt, 1, &out->least_questions, &out->least_answers);
        add_conversation(prompt, r->answers, &out->most_questions, &out->most_answers);
    }
    return status;
}

ftl_status evaluate_guess(ftl_context *context, const evaluate_request *r, evaluate_estimate *out) {
    *out = (evaluate_estimate){0};
    for (int32_t stages = 0; stages < SETTING_STAGES_COUNT; stages++) {
        int32_t settings = 0;
        for (int32_t i = 0; i < r->setting_count; i++) {
            settings += (int32_t)r->settings[i].stages == stages;
        }
        for (int32_t task = 0; settings && task < r->task_count; task++) {
            sums one = {0};
            ftl_status status = add_task(context, r, r->tasks[task], (setting_stages)stages, &one);
            if (status) return status;
            for (int32_t model = 0; model < r->model_count; model++) {
                const evaluate_model *m = &r->models[model];
                int64_t trials = (int64_t)settings * r->samples;
                double n = (double)trials / 1e6;
                out->trials += trials;
                out->least_tokens += trials * (one.least_questions + one.least_answers);
                out->most_tokens += trials * (one.most_questions + one.most_answers);
                out->least_price += n * ((double)one.least_questions * m->prompt_price +
                                         (double)one.least_answers * m->answer_price);
                out->most_price += n * ((double)one.most_questions * m->prompt_price +
                                        (double)one.most_answers * m->answer_price);
            }
        }
    }
    return FTL_OK;
}

/* --- validity --------------------------------------------------------------------------------- */

/* The stable parts of the prompts: figures of others are not compared. */
static ftl_status hash_prompts(ftl_context *context, const evaluate_request *r, char digits[33]) {
    text_buffer text;
    text_init(&text, 2 * PROMPT_BYTES_MAX);
    ftl_status status = FTL_OK;
    for (int step = THINK_SKETCH; !status && step <= THINK_REASON; step++) {
        prompt_task task = {.step = (think_step)step, .options = &r->options};
        status = prompt_system(context, &task, &text);
    }
    hash_digits(hash_bytes(text_str(&text)), digits);
    text_done(&text);
    return status;
}

ftl_status evaluate_key(ftl_context *context, const evaluate_request *r, char key[33],
                        text_buffer *what) {
    static const char *const grammars[] = {"", "gbnf", "structured", "lark"};
    char prompts[33];
    ftl_status status = hash_prompts(context, r, prompts);
    if (status) return status;
    prompts[12] = 0;
    json_t *all =
        json_pack("{s:s,s:s,s:s,s:s,s:i,s:I,s:s,s:s,s:s}", "gpu", r->options.gpu, "dtype",
                  ftl_type_name(r->options.dtype ? r->options.dtype : FTL_F16), "judged_up_to",
                  think_rung_name(r->highest), "on", r->device ? r->device : "", "answers",
                  (int)r->answers, "seed", (json_int_t)r->seed, "grammar",
                  grammars[r->provider.grammar], "prompts", prompts, "version", ftl_version());
    if (all && r->shapes) json_object_set_new(all, "shapes", json_string(r->shapes));
    char *text = json_write(NULL, all, JSON_COMPACT);
    json_decref(all);
    if (!text) return ftl_context_fail(context, FTL_NO_MEMORY, "out of memory");
    hash_digits(hash_bytes(str_from(text)), key);
    text_add_z(what, text);
    free(text);
    return FTL_OK;
}
