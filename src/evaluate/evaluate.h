/* How well do models write kernels? Tasks, models and settings, crossed; each trial is a
 * conversation of the workflow (think/think.h), judged against the task's reference on shapes that
 * the model never sees. docs/thinking.md explains it.
 *
 * A trial runs in a child process of its own, so that nothing it does (crash, hang, leak) is its
 * neighbours'; only the parent touches the database.
 */
#ifndef FLASHTL_EVALUATE_EVALUATE_H
#define FLASHTL_EVALUATE_EVALUATE_H

#include "evaluate/results.h"
#include "evaluate/settings.h"
#include "evaluate/tasks.h"
#include "think/think.h"

enum { EVALUATE_MODELS_MAX = 64, EVALUATE_SAMPLES_MAX = 1000, EVALUATE_TRIALS_MAX = 1000000 };

typedef struct evaluate_model {
    const char *spec;                  /* of provider.h */
    const char *name;                  /* in results: what it is told apart by */
    double prompt_price, answer_price; /* per million tokens; 0: unknown */
} evaluate_model;

typedef struct evaluate_progress {
    bool is_of_references;                /* else of trials */
    int32_t done, total, running, passed; /* of what was asked for, earlier runs included */
    int64_t tokens;                       /* of the experiment */
    double price;
    double seconds_left; /* below 0: unknown yet */
} evaluate_progress;

/* What to do; all of it the caller's. */
typedef struct evaluate_request {
    const evaluate_task *const *tasks;
    int32_t task_count;
    const evaluate_model *models; /* none: only the references are judged */
    int32_t model_count;
    const evaluate_setting *settings;
    int32_t setting_count;
    int32_t samples;     /* trials of each task, model and setting */
    int32_t jobs;        /* trials at a time */
    int32_t answers;     /* that a model may give in a step */
    int64_t tokens_most; /* of the whole experiment; 0: no limit */
    double cost_most;
    ftl_options options; /* GPU and element type; pins are the tasks' */
    uint64_t seed;       /* of hidden shapes and inputs */
    const char *shapes;  /* of kernels' cases, as of verify_cases; or NULL */
    think_rung highest;
    const char *device; /* this machine's GPU, that kernels for options.gpu run on; NULL: none */
    ftl_runtime_options runtime;
    provider_options provider; /* its grammar is sent unless the setting leaves it out */
    const char *records;       /* folder for the trials' records, which is there; NULL: none */
    const volatile sig_atomic_t *stop;
    void (*on_progress)(void *user, const evaluate_progress *progress); /* or NULL */
    void (*on_notice)(void *user, const char *sentence);                /* or NULL */
    void *user;
} evaluate_request;

/* Runs what the database does not have yet. OK: all trials were judged. CHECK_FAILED: a reference
 * does not pass. STOPPED; QUOTA: the budget is spent; BAD_ANSWER: some trials failed; NO_FILE: the
 * database. What was judged is kept in each case.
 */
ftl_status evaluate_run(ftl_context *context, const evaluate_request *request, results *database,
                        int64_t experiment);

/* What the figures are valid for: its hash, and the same for people as a JSON object. */
ftl_status evaluate_key(ftl_context *context, const evaluate_request *request, char key[33],
                        text_buffer *what);

/* --- before anything is spent ----------------------------------------------------------------- */

typedef struct evaluate_estimate {
    int64_t trials;
    int64_t least_tokens,
        most_tokens; /* when first answers pass; when each step takes all answers */
    double least_price, most_price;
} evaluate_estimate;
enum { EVALUATE_ANSWER_TOKENS = 1500 }; /* what an answer is taken to have */

ftl_status evaluate_guess(ftl_context *context, const evaluate_request *request,
                          evaluate_estimate *out);

#endif
