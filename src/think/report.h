/* A run's record as a page that needs nothing but itself. */
#ifndef FLASHTL_THINK_REPORT_H
#define FLASHTL_THINK_REPORT_H

#include "base/text.h"
#include "flashtl/context.h"

/* OK, INVALID_ARGUMENT (it is no record), NO_MEMORY. */
ftl_status report_write(ftl_context *context, str record, text_buffer *page);

#endif
