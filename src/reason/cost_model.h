/* The cost model's inside: what was read off the statements, for the files that evaluate it. */
#ifndef FLASHTL_REASON_COST_MODEL_H
#define FLASHTL_REASON_COST_MODEL_H

#include "reason/cost.h"

enum { COST_ITEMS_MAX = 512, WARP_LANES = 32 };

typedef enum cost_item_kind { COST_PRODUCT, COST_ELEMENTS, COST_COPY } cost_item_kind;

/* An extent: a number, or an open size. */
typedef struct cost_extent {
    int64_t value; /* 0: open */
    int open;
} cost_extent;

typedef struct cost_item {
    cost_item_kind kind;
    cost_extent a, b, c; /* PRODUCT: rows, columns, contracted. ELEMENTS, COPY: rows, columns */
    int tile;            /* PRODUCT: the left operand. COPY: the tile */
    double fp32, exp2, conversions; /* ELEMENTS: per element */
    double
        near_fp32;  /* ELEMENTS: instead, where warpgroups work a polynomial out; 0: they do not */
    bool is_turned; /* PRODUCT: the left operand */
    bool is_vector, to_shared, is_load;
    bool is_twin;       /* COPY: from a slot of shared memory, into which another one brings it */
    bool is_columns;    /* a vector with a value for each column: every warp has all of them */
    bool is_mask;       /* ELEMENTS: of a Mask */
    bool is_of_maximum; /* ELEMENTS: finds the running maximum, or rescales by its move */
    int element_bits;
    bool has_even_rows;          /* COPY: they begin at multiples of 32 bytes */
    const tl_statement *of_view; /* COPY: of a view's tile into shared memory; else NULL */
    int loop_count;
    cost_extent loop_sizes[COST_LOOPS_MAX];
    double loop_lengths[COST_LOOPS_MAX];
    double share; /* of the iterations in which it runs */
} cost_item;

/* A register tile and the stretch of statements in which it lives. */
typedef struct cost_life {
    int first, last;
} cost_life;

struct cost_model {
    reason *r;
    place_plan plan;
    cost_item *items;
    int item_count;
    str open_names[COST_OPEN_MAX];
    bool open_is_rows[COST_OPEN_MAX], open_is_inner[COST_OPEN_MAX];
    int64_t open_parts[COST_OPEN_MAX]; /* it cuts a short axis of this length; 0: it does not */
    int open_count;
    cost_extent (*extents)[2];     /* by tile: rows, columns */
    cost_life *lives, *loops;      /* by tile; of the loop that has a use of it, first -1: none */
    bool may_open[COST_TILES_MAX]; /* by tile: may its last panel be open? */
    bool may_open_panels;          /* is there such a tile, that wide panels do not divide? */
    int point_count;
    int channels[COST_TILES_MAX];
    bool channel_is_head[COST_TILES_MAX];
    int channel_count;
    bool is_read_last[COST_TILES_MAX]; /* by tile: by products at both ends of an iteration */
    int sums_left;                     /* products that the next iteration may issue */
    cost_extent grid_sizes[TL_AXES_MAX];
    double grid_lengths[TL_AXES_MAX];
    int grid_count;
    bool walks_rows; /* a loop goes through the rows of a result: tiles are long, and few */
    double pieces;   /* then: of how many that the grid goes through a matrix is made */
    bool can_hold, has_products, is_async;
    bool makes_rows; /* some row that a loop copies is looked up in a table, or widened */
    /* A Mask leaves each tile of so many rows more blocks than the one before. */
    bool is_triangular;
    cost_extent triangle_rows;
    bool is_guarded; /* the running maximum moves only when it must */
    bool may_pair;   /* warpgroups: two may share rows */
    bool is_pair_sum[COST_TILES_MAX], is_pair_held[COST_TILES_MAX]; /* then; see pair.h */
    bool is_loose;                /* warpgroups: a result leaves from registers, by decision */
    bool uses_indices, is_curved; /* in elementwise operands; see check_elements */
    cost_extent index_columns;
    int mask_tests; /* comparisons in conditions of masks */
    bool failed;
};

/* With what is chosen: a length; registers a thread of a tile; bytes of one slot; how often an item
 * runs for a tile of the grid; elements of such a tile.
 */
int cost_tile_index(const cost_model *m, str name); /* among the plan's; -1: no tile */
double cost_value(const cost_choice *c, cost_extent e);
double cost_tile_registers(const cost_model *m, const cost_choice *c, int tile);
int cost_raw_bits(const cost_model *m, int tile);
bool cost_is_widened(const cost_model *m, int tile);
double cost_tile_bytes(const cost_model *m, const cost_choice *c, int tile);
double cost_runs(const cost_choice *c, const cost_item *it);
double cost_grid_elements(const cost_model *m, const cost_choice *c);
/* Is the tile, which comes through shared memory, held in registers for its products? */
bool cost_is_held(const cost_model *m, const cost_choice *c, int tile);

/* The most registers of a thread that tiles take at a time, and what the compiler takes beside
 * them.
 */
typedef struct cost_demand {
    double tiles, beside;
} cost_demand;
cost_demand cost_registers(const cost_model *m, const cost_choice *c, double rows_per_warp);

void cost_read_panels(cost_model *m); /* of the tiles, once their extents are known */
void cost_read_pair(cost_model *m);   /* cost_pair.c */
/* May two warpgroups share rows, with these sizes? */
bool cost_may_pair(const cost_model *m, const cost_choice *c);
/* Where they do: is the left operand in registers of both; what they hand each other, in bytes;
 * what a tile takes of each one's registers, where it would take 'own' alone.
 */
bool cost_is_pair_held(const cost_model *m, const cost_choice *c, int tile);
double cost_pair_bytes(const cost_model *m, const cost_choice *c);
double cost_pair_registers(const cost_model *m, const cost_choice *c, int tile, double own);

#endif
