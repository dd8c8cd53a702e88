/* Whether the tables of a call are right, on request: serving_check.c. */
#ifndef FLASHTL_RUNTIME_SERVING_H
#define FLASHTL_RUNTIME_SERVING_H

#include "flashtl/serving.h"

/* Where the runtime checks tables: waits for the stream, reads them and says in one sentence what
 * is wrong (INVALID_ARGUMENT). A stream that is captured cannot be waited for: its calls are not
 * checked, with a warning. Also OK where nothing is to be checked; the statuses of reading.
 */
ftl_status serving_check_varlen(ftl_context *context, ftl_runtime *runtime, const ftl_varlen *v,
                                void *stream);
ftl_status serving_check_decode(ftl_context *context, ftl_runtime *runtime, const ftl_decode *c,
                                void *stream);

#endif
