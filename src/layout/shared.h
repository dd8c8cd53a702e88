/* Shared-memory layouts: element (row, column) of a tile to a byte offset.
 *
 * A tile is stored in *lines*: its rows, or its columns when 'by_columns'. Lines start
 * 'pitch_bytes' apart. "swizzled N" exchanges the 16-byte units inside runs of N bytes of a line:
 * with k = log2(N/16), unit u of line r is at u xor ((r >> (3 - k)) & (2^k - 1)). For a pitch
 * of N bytes that is the swizzle of TMA and wgmma; for every pitch of N times an odd number, the 8
 * lines of an ldmatrix matrix are in distinct banks. N = 16: none.
 *
 * TMA and wgmma know lines of at most N bytes. Longer ones are cut into *panels*: the first N bytes
 * of all lines, then the next N bytes of all lines, and so on. The last panel may be *open*: lines
 * end inside it, and its bytes past their ends belong to no element.
 */
#ifndef FLASHTL_LAYOUT_SHARED_H
#define FLASHTL_LAYOUT_SHARED_H

#include "layout/layout.h"

enum { SHARED_UNIT_BYTES = 16, SHARED_SWIZZLE_MAX = 128 };

typedef struct shared_layout {
    int rows, columns, element_bits;
    int pitch_bytes;   /* in panels: of a panel's lines, which is swizzle_bytes */
    int swizzle_bytes; /* 16 (none), 32, 64 or 128 */
    bool by_columns;
    int panels; /* 0: lines are whole */
} shared_layout;

/* swizzle_bytes 0 means 16. The pitch is a line's bytes plus 'padding_bytes'; it must be a multiple
 * of 16 and of the swizzle.
 */
layout_fit shared_make(int rows, int columns, int element_bits, int swizzle_bytes, bool by_columns,
                       int padding_bytes, shared_layout *out);

/* The same in panels of swizzle_bytes, at least 32; lines are multiples of 16 bytes. */
layout_fit shared_make_panels(int rows, int columns, int element_bits, int swizzle_bytes,
                              bool by_columns, shared_layout *out);

int shared_lines(const shared_layout *l);
int shared_line_bytes(const shared_layout *l);  /* without padding */
bool shared_is_open(const shared_layout *l);    /* the last panel is not full */
int shared_bytes(const shared_layout *l);       /* of the tile */
int shared_panel_bytes(const shared_layout *l); /* from one panel to the next; 0: whole lines */
int shared_offset(const shared_layout *l, layout_point place);
/* What a line's number adds (by exclusive or) to the byte inside the line: a multiple of 16. */
int shared_line_xor(const shared_layout *l, int line);

#endif
