/* Scores so far from 0 that a rounded product with them is off by octaves. */
#ifndef FLASHTL_REASON_FAR_H
#define FLASHTL_REASON_FAR_H

#include "reason/tiles.h"

/* May what is added to the scores of that tile move a whole row far out: a number of the text, or
 * what memory holds in a type that goes so far?
 */
bool far_is_reached(reason *r, const tiles_list *tiles, str scores);

/* Is it a row's maximum, in a loop or of whole rows? */
bool far_is_maximum(const reason *r, str tile);

#endif
