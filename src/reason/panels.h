/* Panels: how wide the tensor memory accelerator and asynchronous products see a tile's lines.
 *
 * They take at most 128 bytes of a line at once, so tiles are in panels of 32, 64 or 128 bytes of
 * all lines (layout/shared.h): the swizzle says which. Every panel is a copy of its own, with a
 * request for each of its lines. Where a line is no multiple of a wide panel, either narrow ones
 * divide it (112 columns of 16 bits: seven of 32 bytes), or the last of the wide ones is open (two
 * of 128 bytes, the second holds 48 columns): fewer requests for more shared memory. Products take
 * the columns that are there, either way.
 *
 * `let panel_bytes = N` says how wide they may be, from pass tile to pass finish.
 */
#ifndef FLASHTL_REASON_PANELS_H
#define FLASHTL_REASON_PANELS_H

#include "reason/tiles.h"

enum { PANELS_LEAST_BYTES = 32, PANELS_MOST_BYTES = 128 };

/* The widest swizzle whose runs divide a line; 0: none does. */
int panels_dividing(int64_t line_bytes);

/* The swizzle of lines in panels of at most 'widest' bytes, the last of which may be open. 0:
 * lines are no multiples of 16 bytes.
 */
int panels_swizzle(int64_t line_bytes, int64_t widest);

/* The bytes that a line occupies in panels of the swizzle; swizzle 0: itself. */
int64_t panels_line_bytes(int64_t line_bytes, int swizzle);

/* May the last panel of the tile be open: does it take the whole of its contiguous axis? */
bool panels_may_be_open(reason *r, const tiles_list *tiles, const tiles_tile *tile);

#endif
