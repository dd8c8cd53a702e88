/* What the trials say: rates, means, and what went wrong. */
#ifndef FLASHTL_EVALUATE_FIGURES_H
#define FLASHTL_EVALUATE_FIGURES_H

#include "evaluate/evaluate.h"

enum { FIGURES_FINDINGS_MAX = 256 };

/* Of some trials: those of a model and setting, perhaps of one level or task. Rates and means are
 * of trials that were judged; pass@k is the mean over tasks of the unbiased estimate from the n
 * trials of each, of which c passed: 1 - C(n-c, k)/C(n, k).
 */
typedef struct figures {
    int32_t wanted, judged, passed;
    double read_rate, check_rate, first_rate; /* of last answers; of first answers that passed */
    double pass_1, pass_5;                    /* below 0: no task has so many trials */
    double answers, tokens, price;            /* a trial */
    double model_s, judge_s;
    double total_tokens, total_price;
    /* Speed over that of the built-in agent's kernel, geometric mean of those that passed:
     * measured in turns; by the emulator's counts. 0: none.
     */
    double speed, counted_speed;
} figures;

/* One trial, less its texts. */
typedef struct figures_trial {
    int32_t task, model, setting;
    results_row row;
} figures_trial;

typedef struct figures_table {
    const evaluate_request *request;
    figures_trial *trials; /* of what the request names */
    int32_t count, capacity;
    results_reference *references; /* of each task */
    bool is_out_of_memory;
} figures_table;

/* Reads what the database has of the request. False with the database's error, or without memory.
 */
bool figures_read(const evaluate_request *request, results *database, int64_t experiment,
                  figures_table *out);
void figures_done(figures_table *t);

/* Which trials; -1: all of them. */
typedef struct figures_cell {
    int32_t model, setting, level, task;
} figures_cell;
figures figures_of(const figures_table *t, figures_cell cell);

/* The chance that of k trials, drawn from n of which c passed, one passes; below 0 when n < k. */
double figures_pass_at(int32_t n, int32_t c, int32_t k);

/* Trials of a cell that did not pass, by the rung that their last answers failed. */
void figures_failures(const figures_table *t, figures_cell cell, int32_t by_rung[THINK_RUNG_COUNT]);

typedef struct figures_finding {
    const char *rung, *id;
    int32_t count;
} figures_finding;
/* The first findings of last answers, commonest first; returns how many. */
int32_t figures_findings(const figures_table *t, figures_finding out[FIGURES_FINDINGS_MAX]);

#endif
