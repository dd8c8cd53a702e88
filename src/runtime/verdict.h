/* A verification on its way: on a thread of its own, while the compiler makes the image. */
#ifndef FLASHTL_RUNTIME_VERDICT_H
#define FLASHTL_RUNTIME_VERDICT_H

#include "runtime/driver.h"

typedef struct verdict verdict;

/* Begins to verify a product, which must stay until verdict_end; at once right for a product that
 * ships. NULL without memory.
 */
verdict *verdict_begin(ftl_runtime *runtime, const ftl_product *product);

/* Waits for it. OK; CHECK_FAILED with what is wrong; what kept the kernel from running. Where there
 * was nothing to compare: OK, a warning, and not *is_verified. Takes NULL (NO_MEMORY).
 */
ftl_status verdict_end(ftl_context *context, verdict *v, bool *is_verified);

#endif
