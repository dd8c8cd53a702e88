/* The walk over a block's tiles, `for tile in grid`, in the role that computes. */
#ifndef FLASHTL_REASON_WALK_H
#define FLASHTL_REASON_WALK_H

#include "reason/pass.h"

/* Lets the next tile's first block run beside this tile's last product, where that may be and is
 * worth it; else only says why not. 'loads' is the walk of the role that loads.
 */
void walk_flatten(reason *r, tl_statement *loads, tl_statement *walk);

/* Releases of tiles with one slot, after the loop of a walk, move to the last iteration (the
 * beginning, where that is the only one), after the Wait for the products that read them.
 */
void walk_release_early(reason *r, tl_block *beginning, tl_statement *loop, tl_block *releases);

/* Do lengths of what is copied differ from tile to tile of the grid? */
bool walk_goes_by_tile(reason *r, const tl_statement *copy);

/* Is the block's next tile known, whatever tables say? Where tiles of several lengths are counted
 * one after the other, it is.
 */
bool walk_is_counted(reason *r, const tl_statement *grid);

bool walk_has_one_slot(const reason *r, str name);

/* How the number of a loop's iterations moves with an index of the grid: 1 up, -1 down, 0 not known
 * or not at all. uneven.c
 */
int walk_direction(reason *r, const tl_statement *loop, str walk);
/* Does a table say for each tile how many iterations the loop has? uneven.c */
bool walk_is_listed(reason *r, const tl_statement *loop);

#endif
