/* Products that end an iteration, left for the next one to issue. */
#ifndef FLASHTL_REASON_LEAVE_H
#define FLASHTL_REASON_LEAVE_H

#include "reason/names.h"
#include "reason/pass.h"

typedef struct leave_last {
    tl_block issue, landing; /* of these products: out of the loop now */
    names targets;           /* empty: none are left */
    names held;              /* their left operands, and what they add to */
    const char *why;         /* none are */
} leave_last;

/* Takes the products out of the loop, whose products are issued early, each with a Wait after it.
 */
leave_last leave_cut(reason *r, tl_statement *loop);
/* Writes them before the next iteration's, and after the loop; the first iteration's other
 * statements are before it.
 */
void leave_write(reason *r, tl_statement *loop, const leave_last *last);

#endif
