/* Places in a plan by name, or -1. */
#ifndef FLASHTL_VERIFY_PLAN_FIND_H
#define FLASHTL_VERIFY_PLAN_FIND_H

#include <flashtl/plan.h>

int32_t plan_find_size(const ftl_plan *plan, const char *name);
int32_t plan_find_scalar(const ftl_plan *plan, const char *name);
int32_t plan_find_tensor(const ftl_plan *plan, const char *name);

#endif
