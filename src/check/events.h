/* The event machine: a kernel's Copies, Waits, Releases, products and turns, without data.
 *
 * Channels have one filler and blocking ends, and executors never poll, so every interleaving gives
 * the same result and one schedule (round robin) decides. events_run executes the kernel for each
 * of the chosen small extents and collects what breaks the rules of docs/language.md, section
 * Hazards (H1 to H10), and, per role, a trace of what matters for barriers and copy groups.
 */
#ifndef FLASHTL_CHECK_EVENTS_H
#define FLASHTL_CHECK_EVENTS_H

#include "check/extents.h"

typedef enum events_fault {
    FAULT_NOT_WAITED,        /* H1: a shared tile is read while no generation is held */
    FAULT_UNDEFINED,         /* H9: a register tile is read before anything was written to it */
    FAULT_SLOT_HELD,         /* H2: a Copy needs a slot that its own role still holds */
    FAULT_DEADLOCK,          /* H2: no executor can move */
    FAULT_NOTHING_COMES,     /* H2: a Wait for a generation that no Copy brings */
    FAULT_NOT_HELD,          /* H3: Release of what is not held */
    FAULT_RELEASE_READ,      /* H3: Release while a product or store reads it */
    FAULT_READ_IN_FLIGHT,    /* H4: read while a product into it is unfinished */
    FAULT_WRITE_IN_FLIGHT,   /* H4: written while a product into it is unfinished */
    FAULT_OPERAND_WRITTEN,   /* H5 */
    FAULT_NOTHING_IN_FLIGHT, /* H6 */
    FAULT_NEVER_WAITED,      /* H7: a generation is left over */
    FAULT_HELD_AT_END,       /* H7 */
    FAULT_UNFINISHED_AT_END, /* H7: a product or store */
    FAULT_TURN_AT_END,       /* H7 */
    FAULT_TURN_NOT_HELD,
    FAULT_TURN_HELD,      /* Wait for a turn that one has */
    FAULT_TWO_FILLERS,    /* H8 */
    FAULT_BRANCH_DIFFERS, /* H9: an `if` on data leaves another state than going past it */
    FAULT_CONTRACTED,     /* H10: contracted axes of different blocks */
    FAULT_MEETING,        /* H10: elements of different blocks, as if they were of one */
    FAULT_BEFORE,         /* a Copy begins before the beginning of an axis */
    FAULT_PLACE,          /* H10: a coordinate clause that is not where the data came from */
    FAULT_END,            /* elements past an end reach a result (language, Ragged ends) */
    FAULT_NOT_COVERED,    /* a loop leaves out a part of an axis that nothing masks */
    FAULT_TOO_LONG,       /* the limit on events was met */
    FAULT_TOO_MANY,       /* control depends on more than extents.h follows */
    FAULT_UNREACHED       /* no run came here, though nothing says that none can */
} events_fault;

typedef struct events_finding {
    events_fault fault;
    const tl_statement *at;
    diag_range range;
    const tl_statement *other;    /* the other place; NULL when there is none */
    const tl_statement *left_out; /* the `if` on a table that left the tile out last; or NULL */
    str name, other_name;
    str axis;
    int64_t found, expected;   /* FAULT_CONTRACTED, FAULT_PLACE: elements from the start;
                                  FAULT_NOT_COVERED: first and last that is left out */
    int64_t length;            /* FAULT_NOT_COVERED: of the axis, in the run that shows it */
    const char *wanted, *held; /* FAULT_END: what the elements should be, and are */
    const tl_expr *extent;     /* FAULT_END, FAULT_NOT_COVERED: the length of the axis;
                                  FAULT_BEFORE: the coordinate */
    bool by_view;              /* FAULT_NOT_WAITED: no Wait in the role names it at all */
} events_finding;

typedef enum events_kind {
    EVENT_FILL,
    EVENT_WAIT,
    EVENT_RELEASE,
    EVENT_SKIP, /* an `if` not entered: so many groups, its 'generation', are empty */
    EVENT_TILE  /* the end of one; 'generation' 1: another one follows */
} events_kind;

typedef struct events_record {
    events_kind kind;
    int step; /* of the role */
    int tile; /* EVENT_SKIP, EVENT_TILE: -1 */
    int cursor;
    int generation;
} events_record;

/* What one role did in one run, seen by its executor 0. */
typedef struct events_trace {
    int role;
    const events_record *records;
    int count;
} events_trace;

typedef struct events_result {
    const events_finding *findings;
    int finding_count;
    const events_trace *traces;
    int trace_count;
    int event_count; /* of all runs */
} events_result;

events_result events_run(arena *memory, const model *m, const extents *x);

#endif
