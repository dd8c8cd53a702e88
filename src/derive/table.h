/* Gradients of what several places share, entry by entry. */
#ifndef FLASHTL_DERIVE_TABLE_H
#define FLASHTL_DERIVE_TABLE_H

#include "derive/tape.h"

/* Why the gradient of what is loaded cannot be made entry by entry; NULL: it can, and
 * '*by_entries', unless that is NULL, is the item that has it.
 */
const char *table_why_not(const tape *t, const tape_item *load, tape_item *by_entries);
/* The gradient of a load becomes that of such an item, where it is one for it. False: reported. */
bool table_reverse(tape *t, int item);

#endif
