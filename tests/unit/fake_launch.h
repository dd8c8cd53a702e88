/* What a launch was given, as a pretended kernel reads it from its parameters. */
#ifndef TESTS_FAKE_LAUNCH_H
#define TESTS_FAKE_LAUNCH_H

#include "flashtl/plan.h"

#include <stdint.h>
#include <string.h>

/* A size by its name; 1 when the kernel does not take it. */
static inline int64_t fake_size(const ftl_plan *plan, const unsigned char *parameters,
                                const char *name) {
    int32_t value = 1;
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (strcmp(plan->sizes[i].name, name) != 0 || plan->sizes[i].offset < 0) continue;
        memcpy(&value, parameters + plan->sizes[i].offset, sizeof value);
    }
    return value;
}

#endif
