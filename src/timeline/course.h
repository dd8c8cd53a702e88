/* The machine that a timeline is read off: executors with clocks, and what they share. Its files:
 * run.c moves executors and the clock, act.c says what one step does, durations.c how long it
 * takes.
 */
#ifndef FLASHTL_TIMELINE_COURSE_H
#define FLASHTL_TIMELINE_COURSE_H

#include "model/channels.h"
#include "timeline/timeline.h"
#include "timeline/values.h"
#include "tl/tl.h"

enum { COURSE_NESTING_MAX = TL_NESTING_MAX + 2, COURSE_BLOCKS = VALUES_TILES };

typedef struct course_loop {
    int step;
    int64_t value, end, rounds;
} course_loop;

typedef enum course_state {
    COURSE_READY,   /* the next step may be tried */
    COURSE_WAITING, /* until a clock */
    COURSE_ISSUING, /* shares the multiprocessor's issue slots with others */
    COURSE_DONE
} course_state;

/* When the asynchronous work on a tile ends, by generation modulo MODEL_STAGES_MAX. */
typedef struct course_ends {
    double at[MODEL_STAGES_MAX];
} course_ends;

typedef struct course_process {
    channels_process *sync;
    const model_role *role;
    struct course_block *block;
    int lane;
    course_state state;
    int at, tile; /* step; of the walk */
    course_loop nest[COURSE_NESTING_MAX];
    int nest_count;
    values *values;
    double arrived;         /* at the step at hand, which it could not make yet; below 0: it did */
    double until;           /* WAITING */
    double work, begun;     /* ISSUING: clocks that are left, by itself */
    const tl_statement *by; /* the same: whose */
    course_ends *products;  /* by register tile */
    double *loaded;         /* by register tile: copies from memory into it have landed */
    double stored;          /* its stores have left */
} course_process;

/* A block, with channels of its own. */
typedef struct course_block {
    channels *sync;
    course_process *processes;
    course_ends *landed; /* by shared tile */
    bool has_begun;
} course_block;

typedef struct course {
    arena *memory;
    const check_facts *facts;
    const model *model;
    const gpu *target;
    values_lengths lengths;
    timeline *out;
    bool walks, beside, records;
    course_block blocks[COURSE_BLOCKS];
    int block_count;
    double now, tensor_free, copies_free;
    double next;               /* clock at which something ends */
    int moves, issuing, steps; /* at this clock; processes; of all */
    int boxes;
    int64_t most_rounds; /* of a loop */
    int tensor_lane, copies_lane;
    str stuck; /* why it cannot go on */
} course;

typedef enum course_outcome { COURSE_MOVED, COURSE_BLOCKED } course_outcome;

/* One step that is no loop, branch or end. */
course_outcome course_act(course *mc, course_process *p, const model_step *step);

void course_run(course *mc); /* from the beginning to the end, or till it is stuck */
void course_box(course *mc, int lane, const course_process *p, const tl_statement *s, double begin,
                double end, bool waits);

/* The share of a multiprocessor's schedulers, and of their tensor cores, that a process's warps are
 * on. */
double course_schedulers(const course *mc, const course_process *p);

/* Clocks of a step of one process: its share of a role's work, on all schedulers, with nothing
 * beside it. */
double course_issue(const course *mc, const course_process *p, const model_step *step);
double course_product(const course *mc, const course_process *p, const model_step *step);
/* Of a Copy: how long it keeps busy what it goes through, and how long it is on its way at least.
 */
typedef struct course_copy {
    double busy, landing;
} course_copy;
course_copy course_copy_of(const course *mc, const course_process *p, const model_step *step);
/* What an iteration takes beside its statements. */
double course_round(const course *mc, const course_process *p, const model_step *end);

#endif
