/* What the files share that store gradients of what several tiles share. */
#ifndef FLASHTL_DERIVE_SHARE_H
#define FLASHTL_DERIVE_SHARE_H

#include "derive/write.h"

typedef struct share_axis {
    str index, extent;
    int own;             /* the Input's axis that it chooses on; -1: none */
    const tl_expr *size; /* so many of it choose one; NULL: each does */
    bool is_tile;        /* of the tile that a kernel makes; else the tile's own place */
    str entries;         /* as tiles leave it: in blocks of this index; empty: one by one */
} share_axis;

enum { SHARE_AXES = TL_AXES_MAX + TAPE_AXES };

/* What a gradient is before a step. */
typedef struct shared {
    const tape *t;
    const tape_item *load;
    const tl_parameter *of;
    share_axis axes[SHARE_AXES]; /* in the order in which they are in memory */
    int count;
    int matrix;   /* the Input's axes from here on are what sums are tiles of, */
    bool by_tile; /* or those of the tile, wherever the Input has them */
    str tensor;   /* that has it so far */
} shared;

/* All indices of a tile's place, and its own. Returns how many steps are to be taken. */
int share_open(shared *s, const tape *t, const tape_item *load, const tl_parameter *of);
/* What is left to be summed, the Input's matrix, what is kept; of what is done, the Input's order.
 */
void share_arrange(shared *s, bool is_last);
/* Is the axis one of those that a sum's tile has? */
bool share_is_of_matrix(const shared *s, const share_axis *axis);

str share_extent(const tape *t, const tl_axis *axis);
/* "b in batch, head in q_heads; q in q_len, d": a matrix is the tile, or the Input's. */
str share_axes_text(const shared *s, bool of_tile);
/* The axes of a sum's tile, and how many they are. */
str share_matrix_text(const shared *s, int *count);
/* "b, head, q, d", where one that is summed is 'at' */
str share_element_text(const shared *s, int summed, str at, bool of_tile);
/* "b in batch, q in q_len, head in heads, d" */
str share_own_axes(const shared *s);
/* "let NAME (its place; a tile) = TENSOR[...]", where a tile has the axes that 'of_tile' or a sum
 * says.
 */
str share_view_text(const shared *s, bool of_tile, str name, str tensor);

#endif
