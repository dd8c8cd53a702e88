/* What an ftl_context holds: an arena for the last call's diagnostics, and two sentences. Only the
 * compile layer looks inside.
 */
#ifndef FLASHTL_COMPILE_CONTEXT_H
#define FLASHTL_COMPILE_CONTEXT_H

#include "diag/diag.h"
#include "flashtl/context.h"

enum { CONTEXT_ERROR_BYTES = 2048, CONTEXT_ARENA_BYTES = 512 << 20 };

struct ftl_context {
    arena memory; /* of the last call that took a source: its text, tree, diagnostics */
    diag_list diags;
    bool is_compiling; /* a call is at work on them */
    char error[CONTEXT_ERROR_BYTES];
    char warning[CONTEXT_ERROR_BYTES];
    char taken_warning[CONTEXT_ERROR_BYTES];
};

/* Forgets the last call: frees its memory, empties the error. */
void context_begin(ftl_context *context);

#endif
