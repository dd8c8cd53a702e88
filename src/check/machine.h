/* The state of the event machine (check/events.c), shared by its two files: events.c walks the
 * steps, effects.c says what one action does.
 */
#ifndef FLASHTL_CHECK_MACHINE_H
#define FLASHTL_CHECK_MACHINE_H

#include "check/events.h"
#include "model/channels.h"
#include "tl/holds.h"
#include "tl/tl.h"

enum { MACHINE_NESTING_MAX = TL_NESTING_MAX + 2, MACHINE_TILES_MAX = 3 };

/* What a tile's elements are: those past the end of each axis, and those that exist. */
typedef struct machine_held {
    holds_value ends[MODEL_AXES_MAX];
    holds_value inside;
} machine_held;

/* Where a tile's data came from: its first element on each axis; and what they are. */
typedef struct machine_origin {
    int64_t at[MODEL_AXES_MAX];
    bool known[MODEL_AXES_MAX];
    int walked; /* the tile of the walk that it is of */
    int held;   /* a number of machine.helds; 0: nothing is known */
} machine_origin;

/* One generation of a channel. */
typedef struct machine_generation {
    const tl_statement *by;
    machine_origin origin;
} machine_generation;

typedef struct machine_contents {
    LIST(machine_generation) generations;
} machine_contents;

/* A register tile of one executor. */
typedef struct machine_register {
    bool is_defined;
    machine_origin origin;
} machine_register;

/* How much of each a process has done, or has under way. */
typedef struct machine_counts {
    int waits, releases, fills, flights;
} machine_counts;

typedef struct machine_loop {
    int step;
    int64_t value, end;
    bool is_voted;
    machine_counts before; /* an `if` that is voted on */
} machine_loop;

typedef struct machine_process {
    int at;
    bool is_done, is_blocked;
    int data_branches;
    machine_counts counts; /* but for flights */
    extents_values *values;
    channels_process *sync;         /* with its role, and which executor it is */
    const tl_statement **waited_at; /* by cursor: the latest Wait */
    machine_register *registers;    /* by tile */
    machine_loop nest[MACHINE_NESTING_MAX];
    int nest_count;
    LIST(events_record) trace;
} machine_process;

typedef struct machine_mask {
    const model_step *step;
    int role;
} machine_mask;

/* What a reduction or product must not include, if it is past an end. */
typedef struct machine_wrong {
    const model_use *use; /* NULL: nothing */
    int axis, reach;      /* of 'use'; of the first operand, which tells how far elements reach */
    holds_value held;
    const char *wanted;
} machine_wrong;

/* What a step's operands and its target hold: numbers of machine.helds; -1: the operand's tile has
 * no origin.
 */
enum { MACHINE_MADE_READS = 3, MACHINE_MADE_KEPT = 4 };
typedef struct machine_given {
    int reads[MACHINE_MADE_READS], before;
} machine_given;

/* What a step came to when it was last looked at: given the same it comes to the same again. */
typedef struct machine_made {
    bool is_known;
    int after;
    machine_given given;
    machine_wrong wrong;
} machine_made;

/* What runs have found out about a step. */
typedef struct machine_step {
    bool is_reached;  /* some run has come to it */
    bool is_repeated; /* a loop: some run has gone round it more than once */
    bool chooses;     /* an `if`: a table decides, and what it leaves out is meant */
    bool is_open;     /* an `if`: a vote decides, and elements that have no value here */
    bool is_own;      /* no other executor or role can tell that it was done */
    machine_made made[MACHINE_MADE_KEPT];
    unsigned latest;                      /* of those: written or found */
    holds_value scalars[TL_OPERANDS_MAX]; /* operands of a Compute that are no tiles; nothing: not
                                             asked yet */
} machine_step;

typedef struct machine {
    arena *memory;
    const model *model;
    const extents *extents;
    const extents_run *run;
    channels *sync;
    machine_contents *contents; /* by tile */
    machine_process *processes; /* as those of sync */
    int tiles_to_walk;
    extents_values *tiles[MACHINE_TILES_MAX + 1]; /* as each tile of a walk begins */
    machine_step **steps;                         /* by role and step */
    bool is_left_out;              /* a table has left out Copies of this run: they cover no axis */
    const tl_statement **left_out; /* by tile: the `if` on a table that left it out last */
    bool is_tainted;               /* this run broke a rule: what follows from it is not reported */
    bool is_stopped;
    bool (*is_walked)[MODEL_AXES_MAX];      /* by tile and axis: by a loop */
    bool (*is_shared_walk)[MODEL_AXES_MAX]; /* each block of the grid walks a part of it */
    const model_step **loaders;             /* by tile: a Copy into it inside a loop */
    LIST(machine_mask) masks;
    int events, events_in_run;
    LIST(events_finding) findings;
    LIST(machine_held) helds; /* all that tiles hold, each once */
    holds_memo memo;
} machine;

typedef enum machine_outcome { MACHINE_MOVED, MACHINE_BLOCKED } machine_outcome;

/* Executes one acting step (Copy, Compute, Reshape, Wait, Release) of a process. A role's executors
 * all do the same: what only concerns themselves, the first one does for all.
 */
machine_outcome machine_act(machine *mc, machine_process *p, const model_step *step);

/* Adds a finding: one of a kind for each tile, or, when 'tile' is -1, for each statement. NULL when
 * there is one already, or when it only follows from another one of this run.
 */
events_finding *machine_report(machine *mc, events_fault fault, const tl_statement *at, int tile,
                               str name);

/* Notes in the trace of a role's executor 0 what the step that it is at does. */
void machine_trace(machine *mc, machine_process *p, events_kind kind, int tile, int cursor,
                   int64_t generation);

/* The length of a tile's axis where that lies, in this run; false when it is not known. */
bool ends_length(machine *mc, const machine_origin *origin, int tile, int axis, int64_t *length);
/* Of a place: the tile of the walk that it is one of. */
int ends_walked(const machine_process *p, const tl_place *place);
/* Does the condition of a Mask hold for all elements of its tile whose index on 'axis' is one of
 * [begin, end), in all rows or columns that exist?
 */
bool ends_masked(machine *mc, machine_process *p, const model_step *mask,
                 const machine_origin *origin, int axis, int64_t begin, int64_t end);
/* What a Compute leaves in its target, given its operands' origins and what the target held before;
 * reports a reduction or product that includes what it must not.
 */
int ends_compute(machine *mc, machine_process *p, const model_step *step,
                 const machine_origin *const *origins, int before);
/* What a Copy leaves in its target: of a tile that holds 'from', or zeros past the ends that are
 * known.
 */
int ends_copy(machine *mc, machine_process *p, const model_step *step, int from);
int ends_load(machine *mc, machine_process *p, const model_step *step, const bool *known);

/* Are the axes that loops walk covered? Judges a finished run; prepared once. */
void coverage_prepare(machine *mc);
void coverage_judge(machine *mc);

/* Has every step been run that can be? */
bool reach_is_whole(const machine *mc);
/* Reports what no run has come to. */
void reach_judge(machine *mc);

#endif
