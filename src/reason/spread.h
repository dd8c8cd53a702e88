/* Products of a loop that is not rotated: issued early, waited for late. */
#ifndef FLASHTL_REASON_SPREAD_H
#define FLASHTL_REASON_SPREAD_H

#include "reason/leave.h"

/* Returns how many products run beside something else now; 0: the loop is as it was. Says which of
 * them the next iteration issues.
 */
int spread_products(reason *r, tl_statement *loop, leave_last *last);

#endif
