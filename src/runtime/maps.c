/* Tensor maps: encoded by the driver, or taken from those that were. */
#include "runtime/maps.h"
#include "base/kept.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What decides a map's encoding beside what the plan says of it: which of the plan's it is,
 * address, extents, strides.
 */
enum {
    KEY_WORDS = 2 + FTL_MAP_RANK_MAX + (FTL_MAP_RANK_MAX - 1),
    MAP_WORDS = FTL_MAP_BYTES / 8,
};

kept *maps_new(void) {
    return kept_new(MAPS_KEPT, KEY_WORDS, MAP_WORDS);
}

static void write_key(const ftl_tensor_map *map, int32_t number, uint64_t address,
                      uint64_t key[KEY_WORDS]) {
    key[0] = (uint64_t)number, key[1] = address;
    memcpy(key + 2, map->extents, sizeof map->extents);
    memcpy(key + 2 + FTL_MAP_RANK_MAX, map->stride_bytes, sizeof map->stride_bytes);
}

enum { MAP_PROMOTE_256 = 3 }; /* CUtensorMapL2promotion: L2 fetches 256 bytes at once */

static int map_swizzle(int bytes) {
    return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

static ftl_status encode(ftl_context *context, const cuda_driver *cuda, const ftl_plan *plan,
                         const ftl_tensor_map *m, uint64_t address, uint64_t out[MAP_WORDS]) {
    static const uint32_t steps[FTL_MAP_RANK_MAX] = {1, 1, 1, 1, 1};
    int result = cuda->map_encode(out, plan_map_type(m->type), (uint32_t)m->rank,
                                  (void *)(uintptr_t)address, m->extents, m->stride_bytes, m->box,
                                  steps, 0, map_swizzle(m->swizzle_bytes), MAP_PROMOTE_256, 0);
    if (!result) return FTL_OK;
    char what[256];
    snprintf(what, sizeof what, "describe '%s' to the copy unit for kernel '%s'",
             plan->tensors[m->tensor].name, plan->kernel);
    return runtime_cuda_status(context, cuda, result, what);
}

ftl_status maps_write(ftl_context *context, const cuda_driver *cuda, kept *maps,
                      const ftl_plan *plan, uint64_t zeros, ftl_launch *launch) {
    if (launch->map_count && !cuda->map_encode) {
        return ftl_context_fail(context, FTL_NO_DRIVER,
                                "the CUDA driver has no tensor maps: it is too old");
    }
    for (int32_t i = 0; i < launch->map_count; i++) {
        const ftl_tensor_map *m = &launch->maps[i];
        _Alignas(64) uint64_t words[MAP_WORDS];
        uint64_t address = m->is_empty ? zeros : m->address, key[KEY_WORDS];
        write_key(m, i, address, key);
        if (!kept_find(maps, key, words)) {
            ftl_status status = encode(context, cuda, plan, m, address, words);
            if (status) return status;
            kept_put(maps, key, words);
        }
        memcpy(launch->parameters + m->offset, words, sizeof words);
    }
    return FTL_OK;
}
