/* Sizes and scalars for which a program's launch conditions hold. */
#ifndef FLASHTL_VERIFY_CONDITIONS_H
#define FLASHTL_VERIFY_CONDITIONS_H

#include "flashtl/plan.h"

/* By position in plan->sizes and plan->scalars. */
typedef struct conditions_values {
    int64_t *sizes;
    double *scalars;
    const bool *is_pinned; /* sizes that must stay as they are; NULL: none */
} conditions_values;

/* All conditions hold, and no axis is negative. */
bool conditions_hold(const ftl_plan *plan, const int64_t *sizes, const double *scalars);

/* Changes as few values as it takes to make them hold, by solving each broken condition for one of
 * the names in it: "blocks == len/128" for blocks, "a % b == 0" for a, "scale > 0" for scale.
 * 'seed' decides which. False when none of some attempts succeeds; the values are then as they
 * were.
 */
bool conditions_solve(const ftl_plan *plan, uint64_t seed, conditions_values *v);

#endif
