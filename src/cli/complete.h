/* Completions of the shells, from the tables. */
#ifndef FLASHTL_CLI_COMPLETE_H
#define FLASHTL_CLI_COMPLETE_H

#include "base/text.h"

/* False when 'shell' is none of bash, zsh and fish. */
bool cli_print_completion(const char *shell, text_buffer *out);

#endif
