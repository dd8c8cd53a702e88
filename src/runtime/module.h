/* What the files that make, keep and launch kernels share: modules by the source that decides them.
 */
#ifndef FLASHTL_RUNTIME_MODULE_H
#define FLASHTL_RUNTIME_MODULE_H

#include "runtime/cache.h"
#include "runtime/driver.h"

/* module.c: loads an image into the current CUDA context; takes the plan over, also on failure. */
ftl_status module_load(ftl_context *context, ftl_runtime *runtime, ftl_plan *plan,
                       const char *image, ftl_module **out);
ftl_plan *module_copy_plan(const ftl_plan *plan); /* NULL without memory */

/* kernels.c, from here on. A kernel that a product has a meaning for counts as cached only with a
 * verdict, unless the runtime's options say otherwise.
 */

/* A program has one kernel or a few, which are in the cache as entries of their own. */
enum { MODULE_KERNELS_MAX = 4 };

/* From the cache alone; false when it has nothing usable: then all are NULL. */
bool module_load_cached(ftl_context *context, ftl_runtime *runtime, str source, int32_t count,
                        ftl_module **out);

/* Puts what the cache has for one source there for another one, too, which gives the same kernels.
 */
void module_cache_also(ftl_context *context, ftl_runtime *runtime, str source, str other,
                       int32_t count);

/* Makes the product when the cache has no kernel; it stays the callee's. */
typedef ftl_status module_build(ftl_context *context, void *user, const ftl_product **product);

/* Makes the kernels that 'source' (everything that decides their texts) names, and that the cache
 * lacks, for the current device: by 'build', the compiler and a verification.
 */
ftl_status module_make_source(ftl_context *context, ftl_runtime *runtime, str source,
                              module_build *build, void *user, int32_t count, ftl_module **out);

#endif
