/* Inside the walk of resident blocks over the tiles of the grid: what its files share. */
#ifndef FLASHTL_TRANSLATE_WALK_H
#define FLASHTL_TRANSLATE_WALK_H

#include "translate/emit.h"

/* walk_decode.c: functions in the text that find a tile's place, its indices and the lets that need
 * nothing else: tile_at by its number, tile_of by its indices. A role has this tile's in the
 * variable `tile` and the next one's in `next`.
 */
void walk_define_tiles(emit *t);
/* Declares the indices of the walks [from, to), from 'number', a variable. */
void walk_decode(emit *t, str number, int from, int to);
str walk_quotient(emit *t, str number, int index); /* number / the walk's length */
void walk_close_function(emit *t);

/* walk_search.c: are tiles counted one after the other though a table says how many there are? Then
 * tile_find of the text, which the fetching thread calls with growing numbers, takes the place of
 * tile_at.
 */
bool walk_is_searched(emit *t);
void walk_define_search(emit *t);

/* walk_fetch.c: do blocks fetch the numbers of their tiles? Does the role that is being written? */
bool walk_is_dynamic(const emit *t);
bool walk_fetches(const emit *t);
/* Writes `tile_next`, the number of the block's next tile, and publishes it where others wait. */
void walk_fetch_next(emit *t);
/* Does the role that is being written publish the tile's indices, too? If so, after decoding
 * them, with walk_publish.
 */
bool walk_publishes_indices(emit *t);
void walk_publish(emit *t);
/* 16 bytes each of what is published with the indices; 0: the number alone. */
int walk_units(emit *t);
/* Of a searched grid: finds the block's first tile, as `tile_number`; the next one, as
 * `tile_known`, by one thread of the role.
 */
void walk_begin_search(emit *t);
void walk_fetch_known(emit *t);
/* The indices that came with the number: arguments of tile_of. */
str walk_taken_indices(emit *t);
/* Reads the next number that was published into 'target'. Where it is read early, the value is made
 * one for the warp where it is used, so that the compiler knows branches on it to be the same for
 * all lanes.
 */
void walk_read_number(emit *t, const char *target);
void walk_end_fetching(emit *t); /* after the block's last tile */

/* walk.c: does a statement of the block ask that? */
bool walk_asks(const tl_block *body, tl_function function);

/* grid.c: is a walk as long as a table says, and numbered as the longest? Then its part of a tile's
 * number, of so many, is its index once the others are known, and some numbers are nobody's.
 */
bool walk_is_ragged(emit *t);
bool walk_is_open(emit *t, int index);
str walk_part_of(emit *t, int index);
str walk_numbers(emit *t, int index);
void walk_place_ragged(emit *t);
/* The condition that there is the tile at hand: the function tile_exists of the text answers it. */
str walk_existence(emit *t);

#endif
