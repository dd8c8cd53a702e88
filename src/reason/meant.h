/* What the axes of a sketch are meant as, read off its names and the axes of its tiles. */
#ifndef FLASHTL_REASON_MEANT_H
#define FLASHTL_REASON_MEANT_H

#include "reason/pass.h"

/* Binds the kernel as it stands and infers the axes of its tiles. False: stuck. */
bool meant_read(reason *r);

/* A bare axis `e` is an index and a length of one name. Where a Compute uses the index, the axis
 * gets one of its own, `e_index in e`, so that all passes tell the two apart. False: stuck.
 */
bool meant_name_indices(reason *r);

/* The statement that adds up, or looks for a largest element, along all of the axis at once, with
 * no loop around it that walks the axis: a tile has to have all of it. NULL: none does.
 * False: stuck.
 */
bool meant_whole_by(reason *r, str index, const tl_statement **by);

#endif
