/* One trial, in the child process that runs it. Each function returns an object: "status" and
 * "error" of the world, and what was found. NULL without memory.
 */
#ifndef FLASHTL_EVALUATE_TRIAL_H
#define FLASHTL_EVALUATE_TRIAL_H

#include "evaluate/evaluate.h"

typedef struct trial_work {
    const evaluate_request *request;
    const evaluate_task *task;
    const evaluate_model *model; /* NULL: the task's reference is judged */
    const evaluate_setting *setting;
    int32_t sample;
    int64_t tokens_most; /* of this trial; 0: no limit */
    double cost_most;
    /* Instead: measure this text, which a trial (or, without a model, the reference) ended with, on
     * the GPU.
     */
    const char *text;
} trial_work;

json_t *trial_do(const trial_work *work);

/* What judge and reasoner are told of a task: 'pins' has room for TASK_PINS_MAX. */
ftl_options trial_options(const evaluate_request *request, const evaluate_task *task);

#endif
