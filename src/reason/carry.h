/* What statements leave behind in tiles for others that run later: the next time round a loop, or
 * after it.
 */
#ifndef FLASHTL_REASON_CARRY_H
#define FLASHTL_REASON_CARRY_H

#include "reason/pass.h"

/* Does the loop write the tile, and may a time round read what one before left in it? */
bool carry_between(tl_statement *loop, str name);

/* May anything that runs after the loop read what its last time round left in the tile? */
bool carry_out(tl_statement *loop, str name);

/* Is the tile 0 each time that the loop begins? */
bool carry_starts_at_zero(reason *r, const tl_statement *loop, str name);

#endif
