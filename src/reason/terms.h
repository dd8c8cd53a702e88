/* Results that are made once, and the terms that they are made of. */
#ifndef FLASHTL_REASON_TERMS_H
#define FLASHTL_REASON_TERMS_H

#include "reason/tiles.h"

/* Is it a matrix of 16 bits in memory that no statement names but those from 'first' to 'last', and
 * Copies to tensors of its type?
 */
bool terms_only_leave(reason *r, const tiles_tile *tile, const tl_statement *first,
                      const tl_statement *last);
void terms_merge(reason *r);

#endif
