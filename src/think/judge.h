/* The rungs that a text climbs, whoever wrote it, and what is said about the first that fails.
 *
 * Findings are objects as the diagnostics' JSON lines have them (id, severity, line, column,
 * message, expected, found, notes, hints), and "statement", the line's text.
 */
#ifndef FLASHTL_THINK_JUDGE_H
#define FLASHTL_THINK_JUDGE_H

#include "base/text.h"
#include "flashtl/flashtl.h"
#include "flashtl/runtime.h"
#include "think/steps.h"

#include <jansson.h>
#include <signal.h>

/* What texts are compared with, and where they run. All of it is the caller's. */
typedef struct judge_task {
    const ftl_options *options; /* GPU, element type, pins */
    /* What a sketch should mean; without text, nothing but itself. For a shipped operator its name
     * and settings choose the formula that judges kernels, too (verify.h).
     */
    ftl_source reference;
    const char *operator_name;
    const char *const *settings;
    int32_t setting_count;
    uint64_t seed;              /* of hidden shapes and inputs */
    const char *shapes;         /* for kernels, as of verify_cases; NULL: "small" */
    int32_t more;               /* cases drawn after those */
    think_rung highest;         /* where climbing ends */
    ftl_text_form form;         /* of the CUDA that models write; 0: plain */
    const char *include_folder; /* CuTe: CUTLASS's headers */
    bool has_gpu;           /* the runtime's current device runs what is made for 'options->gpu' */
    bool is_emulated;       /* it was before: after compiling comes the GPU */
    int32_t timed_launches; /* on the GPU; 0: 15 */
    ftl_runtime *runtime;   /* NULL: nothing is compiled */
    double seconds_most;    /* of one kernel's cases on the emulator, about; 0: 10 */
    const volatile sig_atomic_t *stop; /* or NULL */
    /* Told some times a second what a kernel's child is at, while it is; may be NULL. */
    void (*on_doing)(void *user, const char *what, double seconds_left); /* 0: unknown */
    void *user;
} judge_task;

typedef struct judge_verdict {
    bool passed;      /* every rung up to the highest that can be climbed here */
    think_rung rung;  /* the one that failed, or the last that passed */
    json_t *findings; /* array; empty when passed */
    json_t *facts; /* object: sizes, registers, counts, speed, "skipped": why rungs were left out */
    char *text;    /* what was judged: canonical TL, or CUDA */
    char *code;    /* TL Code, once it was made */
    ftl_product *product; /* once there is a kernel */
    double cost;          /* of a launch on the emulator: instructions and wavefronts; 0: unknown */
    double tflops;        /* measured; 0: not */
    double relative;      /* and as a multiple of the built-in agent's kernel's; 0: not */
    double ms;            /* it took */
} judge_verdict;

/* Each judges one text; 'out' is filled in on OK, also when the text did not pass. OK, STOPPED,
 * NO_MEMORY. Free it with judge_done.
 */
ftl_status judge_sketch(ftl_context *context, const judge_task *task, str text, judge_verdict *out);
/* 'sketch' is what the code should mean. */
ftl_status judge_code(ftl_context *context, const judge_task *task, const char *sketch, str text,
                      judge_verdict *out);
/* 'base' has the plan that the text must fit, and the code that it should mean. */
ftl_status judge_cuda(ftl_context *context, const judge_task *task, const char *sketch,
                      const ftl_product *base, str text, judge_verdict *out);
void judge_done(judge_verdict *verdict);

/* An answer without a program. */
ftl_status judge_nothing(ftl_context *context, think_step step, bool is_cut_off,
                         judge_verdict *out);

/* Lines "Input ..." and "Output ..." of a canonical text. */
void judge_parameters(str canonical, text_buffer *out);

#endif
