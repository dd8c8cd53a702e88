/* The first iteration of a loop as a text of its own. */
#ifndef FLASHTL_REASON_PEEL_H
#define FLASHTL_REASON_PEEL_H

#include "reason/pass.h"

/* Does the loop `for j = A:B` hold an `if j == A` or an `if j > A`? */
bool peel_has_test(const tl_statement *loop);

/* Copies of the body's statements from 'from' up to, not including, 'to' (NULL: all after), for
 * the first iteration (its index put in) or a later one; such tests are gone from both.
 */
tl_block peel_iteration(reason *r, const tl_statement *loop, const tl_statement *from,
                        const tl_statement *to, bool is_first);

/* Puts the value in for the name, in all statements of a block that is no part of the kernel yet.
 */
void peel_put(tl_block *block, str name, const tl_expr *value);

/* The loop begins one later. */
void peel_advance(reason *r, tl_statement *loop);

#endif
