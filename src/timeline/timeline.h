/* A kernel's two first tiles, statement by statement: what runs when, and which Wait waits how
 * long, by the prices that the cost model goes by (reason/prices.h) and the one machine of channels
 * (model/channels.h). A prediction: nothing here was measured, and no data decide anything
 * (docs/decisions/027-view.md).
 */
#ifndef FLASHTL_TIMELINE_TIMELINE_H
#define FLASHTL_TIMELINE_TIMELINE_H

#include "check/check.h"

typedef enum timeline_lane_kind {
    TIMELINE_EXECUTOR, /* a role's warps, or one of its warpgroups */
    TIMELINE_TENSOR,   /* the tensor cores */
    TIMELINE_COPIES    /* what is on its way to or from memory */
} timeline_lane_kind;

typedef struct timeline_lane {
    timeline_lane_kind kind;
    str name;
    int rows; /* boxes of copies lie over one another */
} timeline_lane;

/* A statement that works, or that waits, from one clock to another. */
typedef struct timeline_box {
    const tl_statement *statement;
    int lane, row, tile;
    double begin, end;
    bool waits;
} timeline_box;

/* A length that the statements asked for, and what it was taken for. */
typedef struct timeline_length {
    str name;
    int64_t value;
} timeline_length;

typedef struct timeline {
    bool walks;  /* one block goes from tile to tile; else each tile has its own block */
    bool beside; /* the two blocks are on a multiprocessor at once */
    double clocks;
    LIST(timeline_length) lengths;
    LIST(timeline_lane) lanes;
    LIST(timeline_box) boxes;
    str note; /* why there is none */
} timeline;

/* Of a checked kernel; as many blocks of it are on a multiprocessor. All lives in 'memory'. */
timeline timeline_of(arena *memory, const check_facts *facts, const gpu *target, int blocks);

#endif
