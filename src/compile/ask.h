/* What the reasoner is asked for: the sketch, the GPU, pins of the user and of measurements. */
#ifndef FLASHTL_COMPILE_ASK_H
#define FLASHTL_COMPILE_ASK_H

#include "compile/compile.h"
#include "compile/measured.h"
#include "reason/reason.h"

typedef struct ask {
    const tl_program *sketch;
    gpu target;
    reason_options options;
    str identity; /* of the sketch, as measured_sketch has it */
    measured_entry measured;
    bool has_measured, uses_measured;
} ask;

/* The user's pins, and after them those that were measured. */
ftl_status ask_open(ftl_context *context, const ftl_options *o, bool wants_decisions, ask *r);

/* The reasoner's answer. Measured pins that do not fit (the passes have changed since) are left
 * out.
 */
reason_result ask_reasoner(ftl_context *context, const ask *r);

#endif
