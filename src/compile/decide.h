/* What the pipeline hands to tuners. */
#ifndef FLASHTL_COMPILE_DECIDE_H
#define FLASHTL_COMPILE_DECIDE_H

#include "flashtl/flashtl.h"
#include "reason/reason.h"
#include "tl/names.h"

/* A copy that outlives the result; NULL without memory. */
ftl_decisions *decide_copy(const reason_result *result, str problem);

/* Whether a pin gives a length or constant of the sketch; else it is a decision, or nothing. */
bool decide_is_length(const tl_program *sketch, str name);

/* "attention 5f0c2e8112345678 f16 d=128 dv=128": a sketch (measured_sketch), a type, and the pins
 * that are lengths.
 */
str decide_problem(arena *memory, const tl_program *sketch, str identity, str dtype,
                   const reason_pin *pins, int pin_count);

#endif
