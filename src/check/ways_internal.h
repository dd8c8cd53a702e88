/* What the two halves of the ways share: ways_state.c knows what a role's steps make of a state,
 * ways.c which states there are.
 */
#ifndef FLASHTL_CHECK_WAYS_INTERNAL_H
#define FLASHTL_CHECK_WAYS_INTERNAL_H

#include "check/ways.h"

enum { NOT_MOVED = 255 };

/* A generation: the youngest of a tile first, as many as it has slots. A state is one after the
 * other of these, and of the counts of cursors and tiles, all of them bytes.
 */
typedef struct ways_slot {
    unsigned char landed, released; /* since, in barriers */
    unsigned char age;              /* cp.async groups younger than its own, while not landed */
} ways_slot;

typedef struct ways_count {
    unsigned char in_flight, held; /* filled and not waited for; waited for and not released */
} ways_count;

/* Where a state holds what it knows of a tile or cursor; -1: it is none of the role's channels. Of
 * what has the same bytes as one of them, and barrier objects, it knows the latest Release.
 */
typedef struct ways_places {
    int *slots, *last_release; /* by tile */
    int *counts;               /* by cursor */
    int bytes;
} ways_places;

/* What a part of a role did in some run, a stretch of its trace, and what was in flight and held
 * when it began, of the cursors that it moves: how often a loop runs and what was copied for it
 * before go together, and it can do the same only where that is the same.
 */
typedef struct ways_word {
    const events_record *records;
    int count;
    const ways_count *before; /* by cursor; in_flight NOT_MOVED: it may be anything */
} ways_word;

/* A statement of a role's body: a loop or `if` with all that is in it, a Copy, a Release, or a run
 * of Waits. The walk over tiles is none, but its beginning and its end are each a part.
 */
typedef struct ways_part {
    const model_step *step;
    LIST(ways_word) words;
    int other; /* of the end of the walk: its beginning */
} ways_part;

struct ways {
    arena *memory;
    const model *model;
    const model_role *role;
    LIST(events_trace) traces; /* of its own channels alone */
    const bool *is_warp_local;
    decision *decisions;
    ways_places at;
    ways_part *parts;
    int part_count;
    int *part_of; /* by step */
    unsigned char *states;
    int count, capacity;
    int *table; /* open hash, twice the capacity: 1 + number of a state */
    int64_t records;
    bool adds; /* what is missing; else only 'misses' says that there is something */
    bool misses, is_beyond;
};

/* Does the state hold slots of that tile? */
bool ways_is_own(const ways *w, int tile);
/* Are the cursors where they were when a part did that? */
bool ways_can_do(const ways *w, unsigned char *state, const ways_word *done);
/* Does a part's work as in a run: changes the state, and notes what decisions miss. */
void ways_repeat(ways *w, unsigned char *state, const ways_word *done);

#endif
