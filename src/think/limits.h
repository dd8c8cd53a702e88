/* What limits a kernel, in three sentences. */
#ifndef FLASHTL_THINK_LIMITS_H
#define FLASHTL_THINK_LIMITS_H

#include "flashtl/flashtl.h"

#include <jansson.h>

/* An array of up to three strings, the worst first; 'facts' are those of a verdict. */
json_t *limits_of(ftl_context *context, const ftl_plan *plan, const json_t *facts);

#endif
