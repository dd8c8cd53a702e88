#include "verify/plan_find.h"

#include <string.h>

int32_t plan_find_size(const ftl_plan *plan, const char *name) {
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (strcmp(plan->sizes[i].name, name) == 0) return i;
    }
    return -1;
}

int32_t plan_find_scalar(const ftl_plan *plan, const char *name) {
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        if (strcmp(plan->scalars[i].name, name) == 0) return i;
    }
    return -1;
}

int32_t plan_find_tensor(const ftl_plan *plan, const char *name) {
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        if (strcmp(plan->tensors[i].name, name) == 0) return i;
    }
    return -1;
}
