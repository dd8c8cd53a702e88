/* What of ftl_plan_check every launch can afford: all but the formulas. */
#ifndef FLASHTL_COMPILE_PLAN_CHECK_H
#define FLASHTL_COMPILE_PLAN_CHECK_H

#include "flashtl/plan.h"

enum { PLAN_ITEMS_MAX = 64 };

bool plan_is_identifier(const char *name);

/* Whether everything but the steps of formulas is there and in range; false with one sentence. */
bool plan_parts_are_whole(const ftl_plan *plan, char why[FTL_WHY_BYTES]);

/* Whether a formula's text is there, and all numbers that its steps push. */
bool plan_formula_is_whole(const ftl_plan *plan, const ftl_formula *formula);

/* The value of a formula of this plan: an index outside of its lists makes it fail, too. */
bool plan_formula_value(const ftl_plan *plan, const ftl_formula *formula, const int64_t *sizes,
                        const double *scalars, double *value);

#endif
