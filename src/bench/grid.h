/* Grids of attention: rows of heads and options, each at several lengths. */
#ifndef FLASHTL_BENCH_GRID_H
#define FLASHTL_BENCH_GRID_H

#include "base/text.h"
#include "flashtl/plan.h"

enum { GRID_TOKENS = 16384, GRID_SHORTEST = 512 };
enum { GRID_DECODE_SHORTEST = 1 << 10, GRID_DECODE_LONGEST = 1 << 16, GRID_DECODE_KEYS = 1 << 19 };

typedef struct grid_cell {
    char name[48];
    int64_t batch, length;
    int32_t q_heads, kv_heads, head_dim, value_dim;
    bool is_causal;
    bool is_decode; /* a query of each sequence, over 'length' keys */
} grid_cell;

/* The cells of a grid: a name of grids.def, or lines of a text, each
 * "NAME BATCH LENGTH Q_HEADS KV_HEADS D[:DV] causal|full" ('#' begins a comment). Fills at most
 * 'most'; returns how many, or -1 with one sentence in 'why'.
 */
int grid_read(const char *grid, str text, grid_cell *cells, int most, char why[FTL_WHY_BYTES]);

#endif
