/* Completions of the shells, from the tables. */
#ifndef FLASHTL_CLI_COMPLETE_H
#define FLASHTL_CLI_COMPLETE_H

#include "base/text.h"
#include "flashtl/context.h"

/* False when 'shell' is none of bash, zsh and fish. */
bool cli_print_completion(ftl_context *context, const char *shell, text_buffer *out);

#endif
