/* Bounds of loops over blocks, and masks: the second half of pass tile. */
#ifndef FLASHTL_REASON_BOUNDS_H
#define FLASHTL_REASON_BOUNDS_H

#include "reason/pass.h"

/* Sizes are known. Masks what is past ends where that matters, takes blocks that are masked as
 * a whole out of the loops, and keeps masks for the blocks that need one.
 */
bool bounds_write(reason *r);

#endif
