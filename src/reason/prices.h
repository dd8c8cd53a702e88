/* What a statement costs by itself, in clocks of a multiprocessor: the figures that the cost model
 * adds up for a tile (cost.c, cost_warpgroups.c) and that a timeline puts one after the other
 * (src/timeline). docs/cost-model.md says what they were fitted to.
 */
#ifndef FLASHTL_REASON_PRICES_H
#define FLASHTL_REASON_PRICES_H

#include "gpu/gpu.h"

enum {
    PRICES_BARRIER_CLOCKS = 50,  /* a block barrier, with the wait for the slowest warp */
    PRICES_LANDING_CLOCKS = 700, /* from the start of a copy from memory until it is in place */
    PRICES_LANDING_ASYNC_CLOCKS = 1000, /* the same of warpgroups' copies, by TMA */
    PRICES_CACHE_BYTES = 24,  /* a clock, of the level-2 cache: a multiprocessor's share */
    PRICES_LOOSE_BYTES = 10,  /* a clock, of warpgroups' results that leave from registers */
    PRICES_STEP_CLOCKS = 510, /* of an iteration: what all warpgroups issue beside elements */
    PRICES_MASK_CLOCKS = 5,   /* an element of a block that a triangle cuts, by warpgroups */
    PRICES_NEAR_FP32 =
        5, /* of a polynomial near 0, and of the vote on the arguments: translate/near.c */
};

#define PRICES_BUSY_SHARE 0.91     /* of all clocks, in which warpgroups' products run at best */
#define PRICES_TOGETHER_SHARE 0.75 /* several warps a scheduler fill one another's gaps */

/* --- elementwise work ------------------------------------------------------------------------- */

/* Instructions of an element, as tl_facts has them. */
typedef struct prices_element {
    double fp32, exp2, conversions;
} prices_element;

/* By warps that have the multiprocessor to themselves: each unit alone. */
typedef struct prices_units {
    double fp32, exp2, conversions;
} prices_units;
prices_units prices_of_elements(const gpu *g, double elements, prices_element of);

/* By warpgroups, beside running products: instructions that each scheduler issues for so many
 * elements, and clocks of one of them. */
double prices_of_issue(const gpu *g, double elements);
double prices_of_element(prices_element of);

/* --- products --------------------------------------------------------------------------------- */

typedef struct prices_product {
    double rows, columns, contracted;
    int operand_bytes;
    bool reads_left; /* the left operand is in shared memory */
    double warps;    /* of those that are no warpgroups: each reads the right operand */
    double times;
} prices_product;

/* Of warps: of the tensor cores, and of shared memory, which are busy together. */
typedef struct prices_pair {
    double tensor, shared;
} prices_pair;
prices_pair prices_of_product(const gpu *g, prices_product p);
/* Units that are busy together, but not perfectly. */
double prices_together(double a, double b);
/* Of warpgroups. */
double prices_of_async_product(const gpu *g, prices_product p);

/* --- copies ----------------------------------------------------------------------------------- */

typedef struct prices_lines {
    double rows;
    int64_t bytes; /* of a row */
    int swizzle;   /* of the panels that it is in; 0: none */
    bool is_even;  /* rows begin at multiples of what memory moves at once */
    bool is_load;
    double boxes; /* of rows, where a tile lies in several pages; 0: it is one */
} prices_lines;

/* Of warpgroups' copies: what the bytes take, or their requests; and for how much of that the
 * beginning or end of a tile waits beside what it takes by itself. */
typedef struct prices_copy {
    double all, late;
} prices_copy;
prices_copy prices_of_lines(prices_lines lines);

#endif
