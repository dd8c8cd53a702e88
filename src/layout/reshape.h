/* What it takes to bring a tile from one register layout to another. */
#ifndef FLASHTL_LAYOUT_RESHAPE_H
#define FLASHTL_LAYOUT_RESHAPE_H

#include "base/arena.h"
#include "layout/layout.h"

typedef enum reshape_kind {
    RESHAPE_FREE,      /* the same registers: a renaming */
    RESHAPE_REGISTERS, /* the same thread, other registers: a renaming by 'source' */
    RESHAPE_LANES,     /* inside each warp: shuffles */
    RESHAPE_SUM,       /* partial to whole: add over the lanes of 'masks' */
    RESHAPE_SHARED,    /* between warps: through shared memory */
    RESHAPE_NONE,      /* no such map: other extents, other warps, or whole to partial */
} reshape_kind;

typedef struct reshape {
    reshape_kind kind;
    int elements;   /* per thread, of the target */
    int *source;    /* FREE, REGISTERS: target element e is source element source[e]; else NULL */
    int shuffles;   /* LANES, SUM: shuffle instructions a thread (32 bits each) */
    int mask_count; /* SUM */
    int masks[LAYOUT_LANE_BITS];
    int shared_bytes; /* SHARED: room for the tile */
} reshape;

/* 'source' lives in the arena. */
reshape reshape_plan(arena *memory, const layout *from, const layout *to, int element_bits);

/* Where target's (warp, lane, element) comes from; the thread itself where it holds the value.
 * False when the place is outside the tile.
 */
bool reshape_source(const layout *from, const layout *to, layout_holder target,
                    layout_holder *source);

#endif
