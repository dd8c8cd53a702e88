/* How many blocks of the grid share a loop, where a length that is known at launch says so. */
#ifndef FLASHTL_REASON_SHARES_H
#define FLASHTL_REASON_SHARES_H

#include "reason/cost_model.h"

/* Says, for numbers of tiles, which length is fastest by the cost model; nothing where no such
 * length cuts a loop of few rows. The nominal lengths are still in the kernel.
 */
void shares_explain(reason *r, const cost_choice *choice);

#endif
