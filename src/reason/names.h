/* Sets of tiles' names. A copy names a variable, other statements its place: places do not count.
 */
#ifndef FLASHTL_REASON_NAMES_H
#define FLASHTL_REASON_NAMES_H

#include "reason/edit.h"

typedef LIST(str) names; /* as they were added first */

bool names_have(const names *n, str name);
void names_add(arena *memory, names *n, str name); /* nothing, where it is empty */
bool names_meet(const names *a, const names *b);   /* have they a name in common? */
names names_of(arena *memory, str name);
/* What the statement itself reads, each as often as it is written there. */
names names_read(arena *memory, const tl_statement *s);
/* What it and its body read and write. */
void names_add_uses(arena *memory, const tl_statement *s, names *reads, names *writes);

#endif
