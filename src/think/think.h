/* Models write, the compiler judges: the workflow from a request in plain words to a verified
 * kernel, where each step is done by the built-in agent or by a model.
 *
 * The loop here is all of it: the command adds options, environment and terminal; an evaluation and
 * a tool server call the same functions (prompt.h, judge.h, provider.h, record.h). Nothing prints
 * or reads the environment. One run per context at a time. docs/decisions/017-thinking.md says why
 * it is as it is.
 */
#ifndef FLASHTL_THINK_THINK_H
#define FLASHTL_THINK_THINK_H

#include "think/judge.h"
#include "think/prompt.h"
#include "think/provider.h"
#include "think/record.h"

typedef struct think_limits {
    int32_t rounds;                    /* answers per step; 0: 5 */
    int32_t improvements;              /* answers that may make a verified kernel faster */
    int64_t tokens_most;               /* of the whole run; 0: no limit */
    double cost_most;                  /* in the currency of the prices; 0: no limit */
    double prompt_price, answer_price; /* per million tokens */
} think_limits;

/* Told while a run goes on; nothing in it outlives the call. */
typedef enum think_news_kind {
    THINK_NEWS_ASK,     /* a question goes out: step, round, model, about how many tokens */
    THINK_NEWS_ANSWER,  /* it was answered */
    THINK_NEWS_VERDICT, /* and judged */
    THINK_NEWS_KEPT     /* a candidate is the best so far */
} think_news_kind;

typedef struct think_news {
    think_news_kind kind;
    think_step step;
    int32_t round; /* from 1 */
    const char *model;
    int64_t tokens;          /* of the question; of the answer once it is there */
    int64_t question_tokens; /* ANSWER: as reported, else estimated */
    double ms;
    const judge_verdict *verdict;
    const char *text; /* what was kept: "candidate 0, by the built-in agent" */
} think_news;

typedef struct think_run {
    /* What is asked for. Texts are the caller's and outlive the run. */
    const char *words;                  /* of the user; needed when the sketch is a model's */
    ftl_source sketch;                  /* given: the step is left out; without text, it is made */
    const judge_task *task;             /* what is compared with what, where */
    provider *agents[THINK_STEP_COUNT]; /* NULL: built in */
    think_limits limits;
    /* For experiments, what models are kept from; nothing by default. Of a text that failed at a
     * muted rung (bit per think_rung) they hear only that it did; a hidden sketch is what TL Code
     * is compared with, but the model has the words alone.
     */
    uint32_t muted_rungs;
    bool hides_sketch;
    record_writer *record; /* may be NULL */
    json_t *machine;       /* for the record's line about this machine; borrowed, may be NULL */
    const volatile sig_atomic_t *stop;
    void (*on_news)(void *user, const think_news *news); /* may be NULL */
    void *user;
} think_run;

/* What a run ends with; free with think_result_done. */
typedef struct think_result {
    bool is_verified;           /* there is a kernel that passed every rung that could be climbed */
    think_rung rung;            /* the highest one that it passed */
    char *sketch, *code, *cuda; /* cuda: of the first kernel; NULL when there is none */
    ftl_plan *plan;
    char by[PROVIDER_NAME_BYTES]; /* whose kernel it is: "the built-in agent" or a model */
    int32_t kept;                 /* number of the candidate; 0: the built-in agent's own */
    double tflops, cost;          /* as of judge_verdict */
    char id[33];                  /* of the run: a hash of what was asked, of whom */
    int32_t questions;
    int64_t tokens; /* reported, else estimated */
    double price;
    json_t *skipped; /* rungs that could not be climbed here, and why; NULL: none */
    json_t *facts;   /* three sentences about what limits the kernel */
} think_result;

/* OK (there is a verified kernel), CHECK_FAILED (no answer passed within the limits; the result has
 * the best text so far), and the statuses of provider_ask, judge and record. The record is complete
 * in each case.
 */
ftl_status think(ftl_context *context, const think_run *run, think_result *result);
void think_result_done(think_result *result);

/* One step alone: the text of the last answer that passed, in *text (free with ftl_free). */
ftl_status think_step_alone(ftl_context *context, const think_run *run, think_step step,
                            char **text);

#endif
