/* What attention.c shares with module.c: modules by the source that decides them. */
#ifndef FLASHTL_RUNTIME_MODULE_H
#define FLASHTL_RUNTIME_MODULE_H

#include "runtime/cache.h"
#include "runtime/driver.h"

/* Makes the CUDA text when the cache has no kernel; plan and text stay the callee's. */
typedef ftl_status module_build(ftl_context *context, void *user, const ftl_plan **plan,
                                const char **cuda);

/* From the cache alone; false when it has nothing usable. */
bool module_load_cached(ftl_context *context, ftl_runtime *runtime, str source, ftl_module **out);

/* Puts what the cache has for one source there for another one, too, which gives the same kernel.
 */
void module_cache_also(ftl_context *context, ftl_runtime *runtime, str source, str other);

/* Loads the kernel that 'source' (everything that decides its text) names, for the current device,
 * from the cache where there is one, else by 'build' and the compiler.
 */
ftl_status module_load_source(ftl_context *context, ftl_runtime *runtime, str source,
                              module_build *build, void *user, ftl_module **out);

#endif
