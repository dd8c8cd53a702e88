/* What the cost model takes lengths for that are known at launch only.
 *
 * `let nominal_q_len = 1`, in the sketch or as an option, says what q_len usually is: the meaning
 * of the kernel does not change. An expression in which no name has such a number is taken for
 * nominal_length as a whole.
 */
#ifndef FLASHTL_REASON_NOMINAL_H
#define FLASHTL_REASON_NOMINAL_H

#include "reason/pass.h"

double nominal_value(reason *r, const tl_expr *e);
/* What it is worth where every length is a nominal one: 4 for len/1024. */
double nominal_worth(reason *r, const tl_expr *e);
/* The length that nominal_NAME is about; empty: the name is no such pin. */
str nominal_subject(str pin);
/* Takes the pins out of the kernel. */
void nominal_drop(reason *r);

#endif
