/* The tiles of a kernel on its way: which axes each has, how long they are, where they lie. */
#ifndef FLASHTL_REASON_TILES_H
#define FLASHTL_REASON_TILES_H

#include "reason/pass.h"
#include "tl/names.h"

enum {
    TILES_AXES_MAX = 3,
    TILES_WHOLE_MAX = 256 /* a known last axis up to this length is short: cut where rows are not */
};

typedef struct tiles_tile {
    str name;                 /* bare */
    str axes[TILES_AXES_MAX]; /* index names */
    int axis_count;           /* -1: not known yet */
    bool from_global;         /* a Copy from global memory writes it */
    bool from_register;       /* a Copy from registers does: an operand that is computed */
    bool to_global;
    tl_type storage;     /* of the tensor it comes from or goes to; TL_OPEN: none */
    tl_type narrow;      /* of a tensor of 8 bits: 'storage' is what it becomes; else TL_OPEN */
    bool is_moved;       /* copied from tensors to tensors of one type, and nothing else */
    tl_statement *first; /* the first statement that writes it */
} tiles_tile;

typedef struct tiles_span {
    str index;
    tl_expr *extent; /* of a tile along that axis: BM, d */
    tl_expr *length; /* of the tensor's axis: q_len, d */
} tiles_span;

typedef struct tiles_list {
    LIST(tiles_tile) tiles;
    LIST(tiles_span) extents;
} tiles_list;

/* Reads them off the statements; Copies to and from global memory have places (pass bind). */
tiles_list *tiles_read(reason *r);

tiles_tile *tiles_find(const tiles_list *t, str name); /* any suffix; NULL: no tile */
int tiles_axis(const tiles_tile *tile, str index);     /* its position, or -1 */
const tiles_span *tiles_extent(const tiles_list *t, str index);
/* "(BM, d)" without the parentheses. */
const char *tiles_shape_text(reason *r, const tiles_list *t, const tiles_tile *tile);

/* --- tensors ---------------------------------------------------------------------------------- */

/* Do products take elements of 8 bits as they are? Else these widen. See narrow.h. */
bool tiles_multiplies_bytes(const tl_kernel *kernel);
/* Do warps, on a GPU without products of warpgroups? Pass bytes decided. */
bool tiles_has_byte_warps(const reason *r);
/* Does a Copy bring elements of 8 bits, which widen in registers? */
bool tiles_widens(const tl_kernel *kernel, const tl_statement *copy);
/* Does a Copy bring the tile from a tensor that is permuted? */
bool tiles_is_permuted(tl_kernel *kernel, str tile);
/* An Input that is; empty: there is none. */
str tiles_permuted_input(const tl_kernel *kernel);
/* Do copies into shared memory run on their own? */
bool tiles_copy_async(reason *r);

/* Axes of a parameter or view. NULL when there is none of that name. */
const tl_axes *tiles_tensor(const tl_kernel *kernel, str name);
tl_type tiles_tensor_type(const tl_kernel *kernel, str name);
/* The first axis that has that index; NULL: none. */
const tl_axis *tiles_index(const tl_kernel *kernel, str name);
/* Has one that is not the length as well, as that of a bare axis is? */
bool tiles_has_index(const tl_kernel *kernel, str name);
/* Is the name in the length of an axis? No tile size is. */
bool tiles_is_length(const tl_kernel *kernel, str name);

/* The loop around s whose variable says where a tile lies along that axis, and the entry of the
 * coordinate; NULL when none does. 'spot' may be NULL.
 */
tl_statement *tiles_walk(reason *r, tl_statement *s, str index, tl_spot *spot);
/* Where a tile lies for a statement: by the loops around it, else as copies say. */
tl_place tiles_place(reason *r, const tiles_tile *tile, const tl_statement *at);

/* Axes of a product's operand as written: row and column, `.T` applied. False: not two axes. */
bool tiles_operand_axes(const tiles_list *t, const tl_operand *o, str *row, str *column);

#endif
