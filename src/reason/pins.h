/* What the pass bind and the list of passes share about pins. */
#ifndef FLASHTL_REASON_PINS_H
#define FLASHTL_REASON_PINS_H

#include "reason/pass.h"

/* Puts each pin into the kernel as a let; false when it reported a value that is no number. */
bool pins_apply(reason *r);
/* Takes out the lets of pins that this kernel has no use for, and marks those that it has. */
void pins_drop(reason *r);
/* After all kernels: a sentence about the first pin that none has a use for; empty: there is none.
 */
str pins_unused(reason *r);

#endif
