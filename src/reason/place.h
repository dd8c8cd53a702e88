/* Where tiles are held: what pass place decides, and what the cost model has to foresee. */
#ifndef FLASHTL_REASON_PLACE_H
#define FLASHTL_REASON_PLACE_H

#include "reason/tiles.h"

/* How a tile is used by the statements of a kernel. */
typedef struct place_role {
    tiles_tile *tile;
    bool is_left, is_right; /* operand of products */
    bool is_product;        /* target of products */
    bool is_computed;       /* written by Compute */
    bool is_changed;        /* given values that its tensor's type need not hold */
    bool is_elementwise;    /* read by Compute other than as an operand of products, or stored */
    bool is_loaded_in_loop;
    bool is_stored; /* products take it from shared memory, where a Copy from registers brings it */
    bool is_through; /* what a stored tile is computed of comes through shared memory, a block ahead
                      */
    const tiles_tile *twin; /* the same of its tensor, which its round brings to shared memory for
                               products: it is read from there; NULL: none */
    bool has_cast;          /* a 16-bit copy of a computed tile is the left operand */
    bool in_shared, in_register;
    bool is_rounded; /* a result of one statement that only leaves: in its tensor's type at once */
    tl_type type;    /* of the register tile */
    tl_layout_kind
        layout; /* of the register tile: MMA_A, MMA_C, LINES; ROWS, COLUMNS for vectors */
    str of;     /* ROWS, COLUMNS: of which tile */
    bool is_partial;
    bool alternates; /* sums of 8-bit products whose right operand lies across: mma_C permuted */
} place_role;

typedef struct place_plan {
    tiles_list *tiles;
    place_role *roles; /* one per tile, in the order of tiles->tiles */
    int count;
    int64_t warps, warpgroups; /* 0 warpgroups: warps issue products themselves */
    bool mixes_orders;         /* what meets such sums cannot have their order of columns */
} place_plan;

/* Reads uses and decides places. False when it reported what cannot be placed. */
bool place_plan_read(reason *r, place_plan *plan);
place_role *place_find(const place_plan *plan, str name);

/* place_layouts.c */
enum { PLACE_MET_MAX = 16 };
bool place_is_16_bit(tl_type type);
void place_choose_type(place_role *role);
/* The matrices that meet in a statement that works element by element, in expressions, too. */
int place_matrices_in(reason *r, const place_plan *plan, const tl_statement *s,
                      place_role *met[PLACE_MET_MAX]);
void place_spread_layouts(reason *r, place_plan *plan); /* they share one, until nothing changes */
tl_layout_kind place_free_layout(reason *r, place_plan *plan, place_role *role);

/* Does the statement leave values that the type of the tile's tensor need not hold? What a Mask
 * leaves or takes away does not; what it puts there may.
 */
bool place_makes_values(reason *r, const tl_statement *s);
/* May the tile, a left operand loaded before a loop, be held in registers during the loop? */
bool place_may_be_held(reason *r, const place_role *role);

#endif
