/* Register layouts: which element of a tile is in which register of which thread.
 *
 * A layout is an *atom*, linear over GF(2), from the bits of (element, lane) to the bits of
 * (row, column), placed again and again: 'repeats' inside a thread (digits of the element index
 * above the atom's bits), 'spread' over the warps (digits of the warp index). Repetitions need not
 * be powers of two. The pieces do not overlap, so a place is always a sum:
 *
 *     place(warp, lane, element) = spread(warp) + atom(lane) + [repeat(element) + atom(element)]
 *                                  `---- layout_own ------'    `------ layout_step ---------'
 *
 * and an emitted kernel computes a thread's own place once and adds constants.
 *
 * Fragments of 16-bit mma.m16n8k8 and m16n8k16 are one layout: the k16 fragments of A and B are two
 * k8 ones, one after the other, and two neighbouring n8 tiles of C are one k16 fragment of A. So
 * layouts are built of k8 pieces, and a contracted extent of 8 mod 16 ends in one k8 product.
 * Element order: mma_C, mma_A: [row tiles of 16][column tiles of 8][4]; mma_B: [n tiles of 8]
 * [k tiles of 8][2]; in each piece as the instruction numbers them.
 *
 * Fragments of 8 bits (mma.m16n8k32) are built of pieces of k16: a byte is where 16-bit fragments
 * have half an element, so a lane has four neighbours of k. Element order: mma_A [row tiles of 16]
 * [k tiles of 16][8], mma_B [n tiles of 8][k tiles of 16][4]. *Permuted* mma_A has instead of four
 * neighbours what a lane of mma_C has of 16 columns: 2t, 2t + 1, 8 + 2t, 8 + 2t + 1. A right
 * operand of 8 bits that lies across (its contracted axis is not the contiguous one) comes two
 * columns at a time, so the sums are in mma_C permuted: of two column tiles the first has the even
 * columns of 16, the second the odd ones, and a lane has columns 4t ... 4t + 3. Its element order:
 * [row tiles of 16][columns of 16][8].
 *
 * Vectors ("rows of X": X's layout without its columns) are layouts of one column (or one row);
 * lanes that shared a row then hold copies. Plain values, no ownership, thread safe.
 */
#ifndef FLASHTL_LAYOUT_LAYOUT_H
#define FLASHTL_LAYOUT_LAYOUT_H

#include "layout/bitmatrix.h"

enum {
    LAYOUT_LANE_BITS = 5,
    LAYOUT_LANES = 32,
    LAYOUT_REPEATS_MAX = 4,
    LAYOUT_EXTENT_MAX = 65536,
    LAYOUT_WARPS_MAX = 32,
};

typedef enum layout_kind { LAYOUT_MMA_A, LAYOUT_MMA_B, LAYOUT_MMA_C, LAYOUT_LINES } layout_kind;
typedef enum layout_axis { LAYOUT_ROWS, LAYOUT_COLUMNS } layout_axis;

typedef struct layout_point {
    int row, column;
} layout_point;

/* 'count' pieces, each 'step' from the one before. A step of {0, 0}: copies. */
typedef struct layout_repeat {
    int count;
    layout_point step;
} layout_repeat;

typedef struct layout {
    int rows, columns; /* of the tile */
    bool partial;      /* a vector whose value is the sum over the lanes that hold copies */
    bitmatrix atom;    /* element bits, then 5 lane bits -> row bits, then column bits */
    int element_bits, row_bits, column_bits; /* of the atom */
    int repeat_count;
    layout_repeat repeats[LAYOUT_REPEATS_MAX]; /* fastest digit first */
    layout_repeat spread[2];                   /* over warps: fastest digit first */
} layout;

/* Why a layout does not exist for a tile: 'found' is no multiple of 'multiple' (or out of range
 * when multiple is 0).
 */
typedef enum layout_status {
    LAYOUT_OK,
    LAYOUT_BAD_ROWS,
    LAYOUT_BAD_COLUMNS,
    LAYOUT_BAD_WARPS,
    LAYOUT_BAD_BYTES, /* of an element, a pitch or a swizzle */
    LAYOUT_BAD_ORDER, /* the contracted axis of 8-bit elements must be the contiguous one */
    LAYOUT_BAD_CARRY, /* thread and step share address bits: no constants exist */
    LAYOUT_UNKNOWN,   /* the tile, or what its layout is to be, is not known */
} layout_status;

typedef struct layout_fit {
    layout_status status;
    int found, multiple;
} layout_fit;

typedef struct layout_request {
    layout_kind kind;
    int rows, columns; /* of the tile, as stored: after 'transposed' */
    int warps_down;    /* warps on the rows of the product: each owns consecutive rows */
    int warps_across;  /* warps on its columns; neighbouring warps lie across */
    bool transposed;   /* mma_A: the tile is (k, m) instead of (m, k); mma_B: (n, k), not (k, n) */
    int element_bits;  /* lines: 4, 8, 16 or 32; mma_A, mma_B: 8 has pieces of its own */
    bool
        permuted; /* mma_A of 8 bits: as mma_C has it; mma_C: of a right operand that lies across */
    bool warp_rows; /* lines: each warp takes consecutive rows, not every n-th group of rows */
    int group;      /* warps that stand below one another in each place, as those of a warpgroup
                     * do, and are neighbours; 0, 1: one */
} layout_request;

/* mma_A is divided over the warps down (copies across), mma_B over those across (copies down),
 * mma_C over both; lines over all of them. Each warp's share must be a multiple of 16 rows (A, C)
 * or 8 columns (B, C), contracted axes a multiple of 8; of 8 bits, and of columns of a permuted C,
 * 16. Groups lie all down or all across.
 *
 * lines: 16 bytes a lane along the last axis. The power-of-two part of the 16-byte chunks of a row
 * (at most 32) goes to lanes along the row, the other lanes down the rows, then the warps, then
 * repetitions: first along the row, then down. Where rows do not fill the last group, some places
 * are outside the tile (layout_inside); layout_is_full tells.
 */
layout_fit layout_make(const layout_request *request, layout *out);

/* As lines, of consecutive rows of each warp where that leaves no place outside the tile, so that
 * what a warp wrote it reads; else of every n-th rows.
 */
layout_fit layout_lines(const layout_request *request, layout *out);

/* "rows of X", "columns of X": a vector over that axis of X. */
layout layout_vector(const layout *of, layout_axis axis);
/* "partial ..." of a vector. */
layout layout_partial(const layout *vector);

int layout_elements(const layout *l);                    /* per thread */
int layout_registers(const layout *l, int element_bits); /* 32-bit registers per thread */
int layout_warps(const layout *l);

/* A thread's elements of mma_A, mma_C and lines in order: pieces of 'elements', 'across' of them
 * along the row, 'down' times; from one to the next so many columns and rows, 0 where there is no
 * next one.
 */
typedef struct layout_pieces {
    int down, across, elements, row_step, column_step;
} layout_pieces;
layout_pieces layout_pieces_of(const layout *l);

layout_point layout_place(const layout *l, int warp, int lane, int element);
bool layout_inside(const layout *l, layout_point place);
bool layout_is_full(const layout *l); /* no place is outside the tile */

/* The two summands of layout_place. */
layout_point layout_own(const layout *l, int warp, int lane);
layout_point layout_step(const layout *l, int element);
/* layout_own without the warp's part: 5 lane bits to a row, or a column. */
bitmatrix layout_lane_map(const layout *l, layout_axis axis);

typedef struct layout_holder {
    int warp, lane, element;
} layout_holder;

/* Who holds an element of the tile: of several copies one in 'near's lane if there is one, else in
 * its warp, else the first. False outside the tile. near.element is not read.
 */
bool layout_find(const layout *l, layout_point place, layout_holder near, layout_holder *holder);

/* Lanes that hold the same elements, as a basis of xor masks, smallest first. Of a vector of X: the
 * shuffles that complete a reduction of X along the other axis (mma_C, rows: 1, 2). Returns how
 * many.
 */
int layout_lane_copies(const layout *l, int masks[LAYOUT_LANE_BITS]);
/* How many warps hold the same elements. Above 1, a reduction needs shared memory. */
int layout_warp_copies(const layout *l);

/* The same place for every (warp, lane, element), the same extents, the same 'partial'. */
bool layout_equal(const layout *a, const layout *b);

/* The widest access, in bytes (a power of two up to 16), at which each thread's elements in order
 * are runs that are contiguous along 'axis' (LAYOUT_COLUMNS: row-major memory) and aligned to
 * their own width, given that a line of the memory starts at multiples of 'alignment_bytes'.
 */
int layout_vector_bytes(const layout *l, layout_axis axis, int element_bits, int alignment_bytes);

#endif
