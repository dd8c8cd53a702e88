/* Products of 8-bit floats as they are, instead of widened to 16 bits (decision 022).
 *
 * `let products = 8` says so from pass tile on, until the last pass takes it out.
 */
#ifndef FLASHTL_REASON_NARROW_H
#define FLASHTL_REASON_NARROW_H

#include "reason/place.h"

/* Does the kernel multiply elements of 8 bits, widened or as they are? */
bool narrow_are_multiplied(const place_plan *plan);

/* Why warpgroups cannot multiply them as they are; NULL: they can, as far as can be said before
 * sizes are known. 'plan' is that of widened ones.
 */
const char *narrow_refusal(reason *r, const place_plan *plan);

/* May operands widen, for this reason? Not what is permuted: reports it. */
bool narrow_may_widen(reason *r, const char *why);

/* Is the tile the target of products that add to it in a loop, so that another one takes their
 * sums before f32 does?
 */
bool narrow_is_promoted(reason *r, const tiles_tile *tile);

#endif
