/* The inside of an evaluation that runs: its items, and the slots that work them off. */
#ifndef FLASHTL_EVALUATE_RUN_H
#define FLASHTL_EVALUATE_RUN_H

#include "evaluate/trial.h"

enum {
    RUN_JOBS_MAX = 64,
    RUN_FAILURES_MOST = 3 /* in a row: then a model is given up */
};

/* A job: a trial, or the judgement of a reference. */
typedef struct run_item {
    int64_t id; /* of the trial's row */
    int32_t task, model, setting, sample;
    bool is_over;
} run_item;

typedef enum run_phase { SLOT_FREE, SLOT_WORKS, SLOT_WAITS_FOR_GPU, SLOT_MEASURES } run_phase;

typedef struct run_slot {
    run_phase phase;
    os_worker worker;
    trial_work work;
    run_item *item;
    json_t *result; /* of a trial that waits to be measured */
    int64_t begun_ns;
    int64_t allotted_tokens;
    double allotted_price;
    bool is_limited; /* allotted less than a trial may need */
} run_slot;

typedef struct evaluation {
    ftl_context *context;
    const evaluate_request *request;
    results *database;
    int64_t experiment;
    run_slot slots[RUN_JOBS_MAX];
    int32_t jobs;
    run_item *items;
    int32_t count, next; /* the first that may not be over */
    bool is_of_references;
    int32_t done, done_before, passed;
    int64_t begun_ns;
    int64_t tokens;
    double price;
    bool is_budget_spent;
    int32_t failures[EVALUATE_MODELS_MAX]; /* in a row */
    char why[RESULTS_WHY_BYTES];           /* of the last that failed */
    bool is_rejected;
} evaluation;

/* run.c */
ftl_status run_database_failure(evaluation *e);
void run_tell(const evaluation *e); /* how far it got */

/* run_slots.c: starts the slot's work in a process of its own. */
ftl_status run_start(evaluation *e, run_slot *s, run_phase phase);
/* Keeps the result of a slot whose process has ended, or lets it wait for the GPU. */
ftl_status run_attend(evaluation *e, run_slot *s);
void run_set_free(run_slot *s); /* ends its process */

#endif
