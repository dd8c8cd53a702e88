/* Every way through a role: what Copies and Waits must do in whatever order its parts follow.
 *
 * Runs over small lengths (check/extents.h) meet each thing that a loop or `if` can do, but not
 * each together with each of another one: the loop after it may have run nowhere but where it did
 * not. Here the parts of a role's body, its outermost loops and `if`s, do what they did in any run,
 * each whatever the others did, as long as the channels allow it. All that is kept is what the
 * role's threads have filled, waited for and released since their last barrier, of which there are
 * few states. What a Copy or Wait needs in one of them, and needed in no run, is added: a kernel
 * may wait for more than it must, never for less.
 */
#ifndef FLASHTL_CHECK_WAYS_H
#define FLASHTL_CHECK_WAYS_H

#include "check/events.h"

/* What the emitted code does at a step of a role (check_sync says it of its statement). */
typedef struct decision {
    int pending;  /* Wait that ends a run: groups that may stay in flight; INT_MAX: no group wait */
    bool barrier; /* of the block (of the role) */
    bool warp;    /* of the warp */
    bool joins;   /* Wait: the next step is a Wait of the same kind */
    bool seen;    /* some run has come to it */
    int ahead;    /* Copy into a ring: check_sync.slots_ahead, or AHEAD_UNSEEN */
} decision;

enum { AHEAD_UNSEEN = -2, AHEAD_VARIES = -1 };

typedef struct ways ways;

/* Of a role: 'decisions', by step, say already which Waits join. */
ways *ways_new(arena *memory, const model *m, const events_result *events, int role,
               const bool *is_warp_local, decision *decisions);
/* Goes through the runs again: do the decisions suffice for all of them? With 'adds', what is
 * missing where they do not is added.
 */
bool ways_replay(ways *w, bool adds);
/* Adds what some way needs beside them. */
void ways_complete(ways *w);

#endif
