/* The tensor maps of a module's launches. The driver takes a while to encode one, and launches
 * repeat their tensors: so the maps of the last few are kept. A map is made of nothing but the
 * numbers that it is kept by, so it stays right when memory is freed and given out again.
 *
 * Any number of threads may use a store at once. None waits: who finds a place being written
 * encodes the map itself.
 */
#ifndef FLASHTL_RUNTIME_MAPS_H
#define FLASHTL_RUNTIME_MAPS_H

#include "runtime/driver.h"

#include "flashtl/plan.h"

/* How many maps a store holds: those of 32 launches of a kernel with four. */
enum { MAPS_KEPT = 128 };

typedef struct map_store map_store;

/* NULL without memory. */
map_store *map_store_new(void);
void map_store_free(map_store *store);

/* Writes each map of the launch into its parameters, in the GPU's encoding. A tensor without
 * elements becomes that of the 16 bytes of zeros at 'zeros'. Fails with NO_DRIVER where the driver
 * has no tensor maps, else as the driver says.
 */
ftl_status maps_write(ftl_context *context, const cuda_driver *cuda, map_store *store,
                      const ftl_plan *plan, uint64_t zeros, ftl_launch *launch);

#endif
