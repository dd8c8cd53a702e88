/* What trials came to, in an SQLite database that several evaluations may use at once
 * (tune/database.h): one statement per change, so that an evaluation may be killed at any moment
 * and only the trials in flight are lost.
 */
#ifndef FLASHTL_EVALUATE_RESULTS_H
#define FLASHTL_EVALUATE_RESULTS_H

#include "base/os.h"

enum {
    RESULTS_WHY_BYTES = 256,
    RESULTS_ATTEMPTS = 3,
    RESULTS_NAME_BYTES = 16,
    RESULTS_ID_BYTES = 64
};

typedef enum results_state {
#define STATE(id, name, is_over) RESULTS_##id,
#include "evaluate/states.def"
#undef STATE
    RESULTS_STATE_COUNT
} results_state;
bool results_is_over(results_state state);

/* What a trial came to. */
typedef struct results_row {
    int64_t id;
    results_state state;
    bool passed;        /* an answer passed every rung */
    bool first_passed;  /* the first one did */
    bool read, checked; /* the last answer could be read, and follows the rules of the language */
    char rung[RESULTS_NAME_BYTES];  /* that failed, or the last that passed */
    char finding[RESULTS_ID_BYTES]; /* the first one of the last answer; "" when it passed */
    int32_t answers;
    int64_t question_tokens, answer_tokens;
    double price;
    double model_ms, judge_ms;
    /* Of the kernel that passed. On the GPU: TFLOPS, and the speed over that of the built-in
     * agent's kernel, timed in turns; on the emulator: instructions and wavefronts of a launch. 0:
     * unknown.
     */
    double tflops, relative, launch_cost;
    char why[RESULTS_WHY_BYTES]; /* of one that failed */
} results_row;

/* Which trial a row is of; texts are valid during a visit. */
typedef struct results_trial {
    const char *task_hash, *task, *model, *setting;
    int32_t sample;
} results_trial;

/* What the built-in agent makes of a task's reference. */
typedef struct results_reference {
    bool passed;
    char rung[RESULTS_NAME_BYTES];
    double tflops, launch_cost;
    char why[RESULTS_WHY_BYTES];
} results_reference;

typedef struct results results;

/* Opens or creates the database. False with one sentence. */
bool results_open(const char *path, results **out, os_error *why);
void results_close(results *r); /* NULL is fine */
/* One sentence about the last failure. */
const char *results_error(const results *r);

/* The number of an experiment, made when it is new: 'key' names what its figures are valid for,
 * 'what' says it for people. 0 on failure.
 */
int64_t results_experiment(results *r, const char *key, const char *what);

/* The same of one that is there; *id is 0 where it is not. False on failure. */
bool results_find_experiment(results *r, const char *key, int64_t *id);

/* Changes between these become one. */
bool results_begin(results *r);
bool results_commit(results *r);

/* False on failure; *found tells whether it is known. */
bool results_find_reference(results *r, int64_t experiment, const char *task_hash,
                            results_reference *out, bool *found);
bool results_put_reference(results *r, int64_t experiment, const char *task, const char *task_hash,
                           const results_reference *reference);

/* The trial, made when it is new: of the row id, state and whether it passed. */
bool results_add(results *r, int64_t experiment, const results_trial *trial, results_row *out);
bool results_state_of(results *r, int64_t id, results_state *out);
/* Takes an open trial; *claimed is false when another evaluation has it. */
bool results_claim(results *r, int64_t id, bool *claimed);
bool results_finish(results *r, const results_row *row);
/* Gives back a trial that came to nothing, though it took tokens. With 'counts' that was an
 * attempt: after RESULTS_ATTEMPTS it has failed.
 */
bool results_give_back(results *r, const results_row *row, bool counts);
/* Opens again what failed, and what evaluations that are no more were at. */
bool results_recover(results *r, int64_t experiment);

/* Tokens and money that the experiment took, those of lost attempts included. */
bool results_spent(results *r, int64_t experiment, int64_t *tokens, double *price);
bool results_each(results *r, int64_t experiment,
                  void (*visit)(void *user, const results_trial *trial, const results_row *row),
                  void *user);

#endif
