/* Sets of tiles' names. A copy names a variable, other statements its place: places do not count.
 */
#ifndef FLASHTL_REASON_NAMES_H
#define FLASHTL_REASON_NAMES_H

#include "reason/edit.h"

enum { NAMES_MAX = 64 }; /* what goes beyond is left out */

typedef struct names {
    str items[NAMES_MAX];
    int count;
} names;

bool names_have(const names *n, str name);
void names_add(names *n, str name);
bool names_meet(const names *a, const names *b); /* have they a name in common? */
/* What a statement and its body read and write. */
void names_add_uses(const tl_statement *s, names *reads, names *writes);

#endif
