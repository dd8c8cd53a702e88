/* The tiles of a grid: how many there are, and which indices a tile's number means. */
#ifndef FLASHTL_INTERPRET_GRID_H
#define FLASHTL_INTERPRET_GRID_H

#include "interpret/machine.h"

enum { GRID_WALKS_MAX = TL_AXES_MAX * 2 };

typedef struct grid_walk {
    const tl_symbol *symbols[2]; /* the grid's own and the axis index of that name; may be NULL */
    const tl_expr *extent, *section;
    int64_t count;
    bool is_reversed;
    bool is_ragged; /* 'count' is another one for each tuple of the walks that are not */
} grid_walk;

typedef struct grid_tiles {
    grid_walk items[GRID_WALKS_MAX];
    int count;
    int64_t total;
    int64_t section;     /* tuples of the walks up to the one with `sections`; 0: none */
    int64_t inner;       /* tuples of these walks in all */
    int64_t tuple_count; /* with ragged walks: tuples of the others */
    int64_t *firsts,
        *counts; /* by tuple: its first tile's number; of each ragged walk, its count */
    int ragged_count;
} grid_tiles;

/* Adds a walk; one of the same symbols stands once. */
void grid_add(grid_tiles *g, grid_walk walk);
/* The walks of a statement `grid`. */
void grid_add_all(grid_tiles *g, const tl_kernel *kernel, const tl_statement *grid);
/* Counts the tiles; false, with a report, where that cannot be done. */
bool grid_measure(grid_tiles *g, machine *m, scope *s);
/* Gives the walks' indices the values that they have in a tile. */
void grid_set(const grid_tiles *g, scope *s, int64_t number);

#endif
