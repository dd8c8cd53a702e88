/* What `flashtl evaluate` was asked for, and what it works with. */
#ifndef FLASHTL_CLI_EVALUATE_H
#define FLASHTL_CLI_EVALUATE_H

#include "cli/agents.h"
#include "cli/progress.h"
#include "evaluate/report.h"

typedef struct evaluating {
    cli *c;
    agents agents;
    cli_request request; /* GPU and element type */
    text_buffer file;
    task_list all;
    const evaluate_task *tasks[TASKS_MAX];
    evaluate_setting settings[CLI_LIST_MAX];
    evaluate_model models[CLI_LIST_MAX];
    char names[CLI_LIST_MAX][PROVIDER_NAME_BYTES];
    evaluate_request what;
    char cache[CLI_PATH_BYTES], database[CLI_PATH_BYTES], device[256];
    results *results;
    progress progress;
} evaluating;

/* Reads tasks, models, settings and numbers off the command line. */
int evaluating_read(evaluating *e);

#endif
