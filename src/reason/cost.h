/* The cost model: how long a kernel would take with given tile sizes, and what it would occupy.
 *
 * Read off the statements once, evaluated for many candidates. Times are clocks of one
 * multiprocessor for one tile of the grid. docs/decisions/006-reasoning.md says where its constants
 * come from.
 */
#ifndef FLASHTL_REASON_COST_H
#define FLASHTL_REASON_COST_H

#include "reason/place.h"

enum { COST_OPEN_MAX = 4, COST_TILES_MAX = 64, COST_LOOPS_MAX = 4 };

/* What may be chosen. */
typedef struct cost_choice {
    int64_t sizes[COST_OPEN_MAX]; /* of the open sizes, in the model's order */
    int64_t warps;
    int64_t warpgroups;  /* that compute, beside a role that loads; 0: none, warps do all */
    bool is_paired;      /* two of them share 64 rows (pair.h) */
    int64_t casts;       /* warpgroups: places of a left operand that is made in registers */
    int64_t panel_bytes; /* warpgroups: of panels that need not divide lines (panels.h) */
    int64_t stages[COST_TILES_MAX]; /* by tile; of those a loop copies into shared memory */
    bool is_plain;                  /* no asynchronous copies: copies do not travel ahead, either */
    bool holds;                     /* left operands copied before a loop are held in registers */
} cost_choice;

typedef struct cost_result {
    bool fits;
    int64_t shared_bytes;
    int registers; /* a thread, estimated */
    bool is_tight; /* more than a thread has: the compiler may spill; only if nothing else fits */
    int resident;  /* blocks on a multiprocessor */
    int rows_per_warp;
    double tensor, shared, fp32, exp2, cache, barriers; /* clocks a tile, each alone */
    double elements, chain; /* warpgroups: what all issue; what one waits for in a row */
    double blocks;          /* warpgroups: iterations of a tile's loop, on average over the tiles */
    double alone, read;     /* few rows: of a block by itself; of its bytes from device memory */
    double clocks;          /* per tile, including overlap with other blocks */
    double tflops;          /* of the whole GPU, products only */
    double gigabytes_per_s; /* of device memory, where that is the limit */
    double per_element;     /* clocks per element of the results: what is compared */
} cost_result;

typedef struct cost_model cost_model;

/* NULL when it reported why the kernel can't be placed. */
cost_model *cost_read(reason *r);
/* A fixed length of a product that is no multiple of 8, as products need it; 0: there is none. */
int64_t cost_odd_length(const cost_model *m);
/* Bytes of a tile's line, and of the panels in which warpgroups have it; 0, 0: no such tile. */
typedef struct cost_line {
    int64_t bytes;
    int swizzle;
} cost_line;

cost_line cost_line_of(const cost_model *m, const cost_choice *choice, int tile);
/* Says how such lines lie. */
void cost_explain_panels(const cost_model *m, const cost_choice *choice);

/* Are rows known to be so few that one tile has them all? */
bool cost_has_few_rows(const cost_model *m);

cost_result cost_of(const cost_model *m, const cost_choice *choice);
cost_result cost_of_warpgroups(const cost_model *m, const cost_choice *choice);
/* Slots of the tile in shared memory; 0: it is not there. */
int64_t cost_slots(const cost_model *m, const cost_choice *choice, int tile);
/* Bytes: "Q 32768, K 2 x 16384, V 16384". */
const char *cost_shared_text(reason *r, const cost_model *m, const cost_choice *choice);

#endif
