/* What the pipeline hands to tuners. */
#ifndef FLASHTL_COMPILE_DECIDE_H
#define FLASHTL_COMPILE_DECIDE_H

#include "flashtl/flashtl.h"
#include "reason/reason.h"

/* A copy that outlives the result; NULL without memory. */
ftl_decisions *decide_copy(const reason_result *result, str problem);

/* "attention 5f0c2e8112345678 f16 d=128 dv=128": a sketch (measured_sketch), a type, and the pins
 * that are no decisions.
 */
str decide_problem(arena *memory, str sketch, str dtype, const reason_result *result,
                   const reason_pin *pins, int pin_count);

#endif
