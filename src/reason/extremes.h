/* The largest and the smallest value of an expression over a tile. */
#ifndef FLASHTL_REASON_EXTREMES_H
#define FLASHTL_REASON_EXTREMES_H

#include "reason/linear.h"

/* Of a statement's tile. */
typedef struct extremes_tile {
    reason *r;
    const tiles_list *tiles;
    const tl_statement *at;
} extremes_tile;

/* Does an index of the tile take part? */
bool extremes_has_index(const extremes_tile *t, const tl_expr *e);

/* No element of the tile has a larger (smaller) one; some may not come to it. Sums, and least and
 * greatest of such, and quotients of indices; false: it is something else.
 */
bool extremes_find(const extremes_tile *t, const tl_linear *sum, bool is_largest, tl_linear *out);

#endif
