/* A launch that may begin while what its stream has before it ends: what cuLaunchKernelEx takes.
 *
 * The structs are CUlaunchConfig and CUlaunchAttribute of cuda.h, with the one attribute that is
 * needed, programmatic stream serialization. Without it, and on drivers that do not capture it into
 * graphs, the same kernel is launched as any other: its wait finds nothing to wait for.
 */
#ifndef FLASHTL_PLAN_EARLY_H
#define FLASHTL_PLAN_EARLY_H

#include "flashtl/plan.h"

enum { PLAN_EARLY_DRIVER = 12030 /* the first that captures it */, PLAN_EARLY_ATTRIBUTE = 6 };

typedef struct plan_launch_attribute {
    _Alignas(8) int32_t id;
    char pad[4];
    int32_t is_allowed;
    char rest[60]; /* of a union of 64 bytes */
} plan_launch_attribute;

typedef struct plan_launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    const plan_launch_attribute *attributes;
    unsigned attribute_count;
} plan_launch_config;

_Static_assert(sizeof(plan_launch_attribute) == 72 && sizeof(plan_launch_config) == 56,
               "as cuda.h has them");

/* 'attribute' lives as long as the config does. */
static inline plan_launch_config plan_early(const ftl_plan *plan, unsigned grid, void *stream,
                                            plan_launch_attribute *attribute) {
    *attribute = (plan_launch_attribute){.id = PLAN_EARLY_ATTRIBUTE, .is_allowed = 1};
    return (plan_launch_config){.grid = {grid, 1, 1},
                                .block = {(unsigned)plan->threads, 1, 1},
                                .shared_bytes = (unsigned)plan->shared_bytes,
                                .stream = stream,
                                .attributes = attribute,
                                .attribute_count = 1};
}

#endif
