/* Sums of names and of what is not linear itself (tl/linear.h), in the passes: names are unbound.
 */
#ifndef FLASHTL_REASON_LINEAR_H
#define FLASHTL_REASON_LINEAR_H

#include "reason/tiles.h"
#include "tl/linear.h"

/* 'expand': lets are replaced by what they stand for, as far as that is linear. */
tl_linear linear_of(reason *r, const tl_expr *e, bool expand);
int64_t linear_coefficient(const tl_linear *l, str name);
/* Is it linear in the name, which then is in no other atom, and with which factor? */
bool linear_factor(const tl_linear *l, str name, int64_t *factor);
void linear_drop(tl_linear *l, str name); /* the term of that name */

/* Positive terms first, then the others, the constant last. */
tl_expr *linear_expr(reason *r, const tl_linear *l);

#endif
