/* Gradients of what several places share, entry by entry. */
#ifndef FLASHTL_DERIVE_TABLE_H
#define FLASHTL_DERIVE_TABLE_H

#include "derive/tape.h"

/* Can the gradient of what is loaded be made entry by entry? '*by_entries', unless NULL, is the
 * item that has it.
 */
bool table_can_be(const tape *t, const tape_item *load, tape_item *by_entries);
/* The gradient of a load becomes that of such an item, where it is one for it. False: reported. */
bool table_reverse(tape *t, int item);

#endif
