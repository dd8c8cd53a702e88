/* The tensor maps of a module's launches. The driver takes a while to encode one, and launches
 * repeat their tensors: so the maps of the last few are kept. A map is made of nothing but the
 * numbers that it is kept by, so it stays right when memory is freed and given out again.
 */
#ifndef FLASHTL_RUNTIME_MAPS_H
#define FLASHTL_RUNTIME_MAPS_H

#include "base/kept.h"
#include "runtime/driver.h"

#include "flashtl/plan.h"

/* How many maps are kept: those of 32 launches of a kernel with four. */
enum { MAPS_KEPT = 128 };

/* NULL without memory. */
kept *maps_new(void);

/* Writes each map of the launch into its parameters, in the GPU's encoding. A tensor without
 * elements becomes that of the 16 bytes of zeros at 'zeros'. Fails with NO_DRIVER where the driver
 * has no tensor maps, else as the driver says.
 */
ftl_status maps_write(ftl_context *context, const cuda_driver *cuda, kept *maps,
                      const ftl_plan *plan, uint64_t zeros, ftl_launch *launch);

#endif
