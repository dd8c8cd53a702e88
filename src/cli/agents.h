/* Models on the command line: their specs, keys, limits, and what is shown while they work. */
#ifndef FLASHTL_CLI_AGENTS_H
#define FLASHTL_CLI_AGENTS_H

#include "cli/request.h"
#include "think/think.h"

enum { AGENT_KEYS_MAX = 32 };

typedef struct agents {
    cli *c;
    provider_options options; /* the same for all */
    provider_key keys[AGENT_KEYS_MAX];
    text_buffer key_file; /* what the keys point into */
    think_limits limits;
    record_writer *record;
    bool shows_progress;
    int64_t begun_ns, shown_ns;
    bool has_progress_line;
    bool tells_skipped; /* what a verdict could not say */
} agents;

/* Reads the options that commands with models share. Returns EXIT_DONE, or the exit status after
 * saying what is wrong. Call agents_done in both cases.
 */
int agents_open(cli *c, agents *a);
void agents_done(agents *a);
/* Reads `--on` as the highest rung to judge on: the GPU unless told. Returns an exit status. */
int agents_read_highest(const cli *c, think_rung *highest);
/* Opens one model for a step. */
int agents_provider(agents *a, const char *spec, think_step step, provider **out);
/* Fills in what of a run is the same for all commands: limits, stop flag, news. */
void agents_prepare(agents *a, think_run *run);
/* Lets Ctrl-C reach what judges kernels, and shows what that is at. */
void agents_watch(agents *a, judge_task *task);
/* Prints the prompt of a step instead of sending it. */
int agents_show_prompt(agents *a, const prompt_task *task);

/* {"gpu": the name of this machine's GPU, "capability": 10*major + minor}; "" and 0 without a GPU
 * or a runtime. The driver is asked in a child process: one that has begun to use it cannot fork
 * workers that do.
 */
json_t *agents_find_device(const cli *c, ftl_runtime *runtime);

/* The commands' own ways to models. */
int sketch_by_model(cli *c);
int reason_by_model(cli *c, cli_request *r);
int translate_by_model(cli *c, const ftl_source *source);

#endif
