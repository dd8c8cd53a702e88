/* What the files of the judgement share. */
#ifndef FLASHTL_THINK_JUDGE_INTERNAL_H
#define FLASHTL_THINK_JUDGE_INTERNAL_H

#include "base/os.h"
#include "diag/diag.h"
#include "think/judge.h"
#include "think/trial.h"
#include "verify/verify.h"

enum { JUDGE_MEMORY_BYTES = 1 << 30, JUDGE_TEXT_BYTES = 64 << 20 };

/* One text on its way up. */
typedef struct climb {
    ftl_context *context;
    const judge_task *task;
    judge_verdict *verdict;
    arena memory;
    diag_list diags; /* of our own; those of the compiler are taken from the context */
    str text;        /* that findings count lines in */
} climb;

/* Takes the context's diagnostics into the findings. */
void climb_take_diagnostics(climb *c);
/* Takes the climb's own, which are then forgotten. */
void climb_take_own(climb *c);
/* Ends the climb: the rung failed. */
ftl_status climb_fails(climb *c, think_rung rung);
bool climb_is_stopped(const climb *c);
void climb_skips(climb *c, think_rung rung, const char *why);

/* Reports what differs between the parameters that are declared and those that were asked for. */
void climb_parameters(climb *c, const ftl_plan *is, const ftl_plan *should);

ftl_status climb_meaning(climb *c); /* of a sketch; findings stay when it fails */
bool climb_has_findings(const climb *c);

/* Compiles, emulates, runs: 'program' has plan and text. Fills in facts, cost and speed. */
ftl_status climb_kernel(climb *c, const verify_program *program);

/* Compiles it, and makes it ready for the emulator; what is wrong with it is among the findings. */
ftl_status climb_compile(climb *c, const verify_program *program, ftl_image *image,
                         ftl_emulator **emulator);
/* Where the headers of its text are; NULL: it needs none but the compiler's own. */
const char *climb_headers(const climb *c, const verify_program *program);

/* Times a kernel on the GPU, where it runs by 'runner'. False, with the finding, when what it
 * computes while it is timed is wrong.
 */
bool climb_time(climb *c, const verify_program *program, const verify_runner *runner,
                os_watch *watch);

/* Why TL Code is wrong, as notes after the last finding. */
void climb_explain(climb *c, const verify_program *program);

/* For verify_options.on_result: keeps the first failure in a verify_result. */
void judge_keep_failure(void *user, const verify_result *result);

#endif
