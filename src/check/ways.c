#include "check/ways.h"

#include <limits.h>
#include <string.h>

enum {
    STATES_FIRST = 256, /* a power of two, as all capacities */
    STATES_MAX = 1 << 14,
    RECORDS_MAX = 4000000, /* that are gone through for one role */
    AGE_MOST = 200,
    KEY_PART_BYTES = 4,
    NOT_MOVED = 255,
};

/* How long ago something was, in barriers. */
typedef enum since { SINCE_NEVER, SINCE_NOW, SINCE_EARLIER } since;

/* A generation: the youngest of a tile first, as many as it has slots. A state is one after the
 * other of these, and of the counts of cursors and tiles, all of them bytes.
 */
typedef struct slot {
    unsigned char landed, released; /* since */
    unsigned char age;              /* cp.async groups younger than its own, while not landed */
} slot;

typedef struct cursor_count {
    unsigned char in_flight, held; /* filled and not waited for; waited for and not released */
} cursor_count;

/* Where a state holds what it knows of a tile or cursor; -1: it is none of the role's channels. Of
 * what has the same bytes as one of them, and barrier objects, it knows the latest Release.
 */
typedef struct places {
    int *slots, *last_release; /* by tile */
    int *counts;               /* by cursor */
    int bytes;
} places;

/* What a part of a role did in some run, a stretch of its trace, and what was in flight and held
 * when it began, of the cursors that it moves: how often a loop runs and what was copied for it
 * before go together, and it can do the same only where that is the same.
 */
typedef struct word {
    const events_record *records;
    int count;
    const cursor_count *before; /* by cursor; in_flight NOT_MOVED: it may be anything */
} word;

/* A statement of a role's body: a loop or `if` with all that is in it, a Copy, a Release, or a run
 * of Waits. The walk over tiles is none, but its beginning and its end are each a part.
 */
typedef struct part {
    const model_step *step;
    LIST(word) words;
    int other; /* of the end of the walk: its beginning */
} part;

struct ways {
    arena *memory;
    const model *model;
    const model_role *role;
    LIST(events_trace) traces; /* of its own channels alone */
    const bool *is_warp_local;
    decision *decisions;
    places at;
    part *parts;
    int part_count;
    int *part_of; /* by step */
    unsigned char *states;
    int count, capacity;
    int *table; /* open hash, twice the capacity: 1 + number of a state */
    int64_t records;
    bool adds; /* what is missing; else only 'misses' says that there is something */
    bool misses, is_beyond;
};

/* --- a state ---------------------------------------------------------------------------------- */

static bool is_own(const ways *w, int tile) {
    return tile >= 0 && w->at.slots[tile] >= 0;
}

static slot *slots_of(const ways *w, unsigned char *state, int tile) {
    return (slot *)(state + w->at.slots[tile]);
}

static cursor_count *count_of(const ways *w, unsigned char *state, int cursor) {
    return (cursor_count *)(state + w->at.counts[cursor]);
}

static void grow_older(unsigned char *age) {
    if (*age == SINCE_NOW) *age = SINCE_EARLIER;
}

/* Who waits for one another at a tile's barrier: all of the role, or those that share its rows. */
typedef enum scope { SCOPE_ROLE, SCOPE_EXECUTOR, SCOPE_WARP } scope;

static scope scope_of(const ways *w, int tile) {
    const model_tile *t = &w->model->tiles[tile];
    bool is_own_rows = w->model->is_async && w->role->executors > 1 && t->is_shared_out;
    return !is_own_rows ? SCOPE_ROLE : t->is_by_warps ? SCOPE_WARP : SCOPE_EXECUTOR;
}

/* At a tile's barrier, which says nothing of tiles that more threads share. */
static void meet(const ways *w, unsigned char *state, int at) {
    for (int t = 0; t < w->model->tile_count; t++) {
        if (scope_of(w, t) < scope_of(w, at)) continue;
        if (w->at.last_release[t] >= 0) grow_older(&state[w->at.last_release[t]]);
        if (!is_own(w, t)) continue;
        slot *slots = slots_of(w, state, t);
        for (int k = 0; k < w->model->tiles[t].stages; k++) {
            grow_older(&slots[k].landed);
            grow_older(&slots[k].released);
        }
    }
}

/* One more cp.async group: all others are older by one. */
static void commit(const ways *w, unsigned char *state) {
    for (int t = 0; t < w->model->tile_count; t++) {
        if (!is_own(w, t)) continue;
        slot *slots = slots_of(w, state, t);
        for (int k = 0; k < w->model->tiles[t].stages; k++) {
            bool counts = slots[k].landed == SINCE_NEVER && slots[k].age < AGE_MOST;
            if (counts) slots[k].age++;
        }
    }
}

static void land(const ways *w, unsigned char *state, int pending) {
    for (int t = 0; t < w->model->tile_count; t++) {
        if (!is_own(w, t)) continue;
        slot *slots = slots_of(w, state, t);
        for (int k = 0; k < w->model->tiles[t].stages; k++) {
            bool lands = slots[k].landed == SINCE_NEVER && slots[k].age >= pending;
            if (lands) slots[k].landed = SINCE_NOW;
        }
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

static bool was_released_lately(const ways *w, unsigned char *state, int tile) {
    const model_tile *t = &w->model->tiles[tile];
    if (slots_of(w, state, tile)[t->stages - 1].released == SINCE_NOW) return true;
    for (int p = 0; p < t->partner_count; p++) {
        int at = w->at.last_release[t->partners[p]];
        if (at >= 0 && state[at] == SINCE_NOW) return true;
    }
    return false;
}

static void note_slot(ways *w, unsigned char *state, int step, int tile) {
    const model_tile *t = &w->model->tiles[tile];
    decision *d = &w->decisions[step];
    if (t->cursor_count != 1 || d->ahead < 0) return;
    int ahead = count_of(w, state, t->cursors[0])->in_flight % t->stages;
    if (ahead != d->ahead) d->ahead = AHEAD_VARIES;
}

static void need(ways *w, bool *barrier) {
    w->misses = true;
    if (w->adds) *barrier = true;
}

static void fill(ways *w, unsigned char *state, const events_record *e) {
    int step = e->step, tile = e->tile;
    const model_tile *t = &w->model->tiles[tile];
    decision *d = &w->decisions[step];
    if (!d->barrier && was_released_lately(w, state, tile)) need(w, &d->barrier);
    if (d->barrier) meet(w, state, tile);
    note_slot(w, state, step, tile);
    bool commits = w->role->steps[step].commits > 0;
    if (commits) commit(w, state);
    slot *slots = slots_of(w, state, tile);
    memmove(slots + 1, slots, sizeof *slots * (size_t)(t->stages - 1));
    slots[0] = (slot){.landed = commits ? SINCE_NEVER : SINCE_NOW};
    for (int k = 0; k < t->cursor_count; k++) count_of(w, state, t->cursors[k])->in_flight++;
}

/* What a generation that is waited for asks of the Wait that ends the run. */
static void wait_for(ways *w, const slot *waited, int tile, int end, bool *needs_block,
                     bool *needs_warp) {
    decision *d = &w->decisions[end];
    if (waited->landed == SINCE_NEVER && waited->age < d->pending) {
        w->misses = true;
        if (w->adds) d->pending = waited->age;
    }
    if (waited->landed == SINCE_EARLIER) return;
    *(w->is_warp_local[tile] ? needs_warp : needs_block) = true;
}

/* A run of Waits, of which the last does it for all. Returns how many. */
static int wait(ways *w, unsigned char *state, const events_record *run) {
    bool needs_block = false, needs_warp = false;
    int count = 1;
    while (w->decisions[run[count - 1].step].joins) count++;
    int end = run[count - 1].step;
    decision *d = &w->decisions[end];
    if (d->pending != INT_MAX) land(w, state, d->pending);
    for (int i = 0; i < count; i++) {
        if (!is_own(w, run[i].tile)) continue;
        cursor_count *c = count_of(w, state, run[i].cursor);
        const slot *waited = &slots_of(w, state, run[i].tile)[--c->in_flight];
        c->held++;
        wait_for(w, waited, run[i].tile, end, &needs_block, &needs_warp);
    }
    if (needs_block && !d->barrier) need(w, &d->barrier);
    if (needs_warp && !d->barrier && !d->warp) need(w, &d->warp);
    if (d->barrier) meet(w, state, run[count - 1].tile);
    return count;
}

static void release(ways *w, unsigned char *state, const events_record *e) {
    if (is_own(w, e->tile)) {
        cursor_count *c = count_of(w, state, e->cursor);
        slots_of(w, state, e->tile)[c->in_flight + --c->held].released = SINCE_NOW;
    }
    state[w->at.last_release[e->tile]] = SINCE_NOW;
}

static bool can_do(const ways *w, unsigned char *state, const word *done) {
    for (int c = 0; c < w->model->cursor_count; c++) {
        const cursor_count *before = &done->before[c];
        if (before->in_flight == NOT_MOVED) continue;
        const cursor_count *now = count_of(w, state, c);
        if (now->in_flight != before->in_flight || now->held != before->held) return false;
    }
    return true;
}

/* Does a part's work as in a run. */
static void repeat(ways *w, unsigned char *state, const word *done) {
    w->records += done->count;
    for (int i = 0; i < done->count; i++) {
        const events_record *e = &done->records[i];
        switch (e->kind) {
        case EVENT_FILL: fill(w, state, e); break;
        case EVENT_WAIT: i += wait(w, state, e) - 1; break;
        case EVENT_RELEASE: release(w, state, e); break;
        case EVENT_SKIP:
            for (int k = 0; k < e->generation; k++) commit(w, state);
            break;
        case EVENT_TILE: break;
        }
    }
}

/* --- the states ------------------------------------------------------------------------------- */

static unsigned char *state_at(const ways *w, int number) {
    return w->states + (size_t)number * (size_t)w->at.bytes;
}

/* Where the table holds the state, or has room for it. */
static int *place_of(const ways *w, const unsigned char *state) {
    size_t bytes = (size_t)w->at.bytes;
    unsigned mask = 2u * (unsigned)w->capacity - 1;
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ state[i]) * 1099511628211u;
    unsigned place = (unsigned)(hash ^ hash >> 29) & mask;
    while (w->table[place] && memcmp(state_at(w, w->table[place] - 1), state, bytes) != 0)
        place = (place + 1) & mask;
    return &w->table[place];
}

static void make_room(ways *w, int capacity) {
    unsigned char *states = arena_array(w->memory, unsigned char, capacity * w->at.bytes);
    if (w->count) memcpy(states, w->states, (size_t)w->count * (size_t)w->at.bytes);
    w->states = states;
    w->capacity = capacity;
    w->table = arena_array(w->memory, int, 2 * capacity);
    for (int i = 0; i < w->count; i++) *place_of(w, state_at(w, i)) = i + 1;
}

/* Notes that a way comes to a part in this state. */
static void reach(ways *w, unsigned char *state, int32_t number) {
    if (number == w->part_count) return;
    memcpy(state, &number, KEY_PART_BYTES);
    if (*place_of(w, state)) return;
    if (w->count == w->capacity && w->capacity >= STATES_MAX) {
        w->is_beyond = true;
        return;
    }
    if (w->count == w->capacity) make_room(w, 2 * w->capacity);
    int *place = place_of(w, state);
    memcpy(state_at(w, w->count), state, (size_t)w->at.bytes);
    *place = ++w->count;
}

/* Every way on from a state; 'copy' has room for one. */
static void go_on(ways *w, int from, unsigned char *copy) {
    int32_t number;
    size_t bytes = (size_t)w->at.bytes;
    memcpy(&number, state_at(w, from), KEY_PART_BYTES);
    const part *p = &w->parts[number];
    memcpy(copy, state_at(w, from), bytes);
    bool walks = w->model->grid && w->model->grid->grid.kind != TL_GRID_PLAIN;
    if (p->step->kind == STEP_END_TILES && walks) reach(w, copy, p->other);
    if (p->step->kind == STEP_TILES || p->step->kind == STEP_END_TILES) {
        reach(w, copy, number + 1);
        return;
    }
    for (int i = 0; i < p->words.count; i++) {
        memcpy(copy, state_at(w, from), bytes);
        if (!can_do(w, copy, &p->words.items[i])) continue;
        repeat(w, copy, &p->words.items[i]);
        reach(w, copy, number + 1);
    }
}

static void explore(ways *w) {
    unsigned char *state = arena_array(w->memory, unsigned char, w->at.bytes);
    memset(w->table, 0, sizeof *w->table * 2 * (size_t)w->capacity);
    w->count = 0;
    w->misses = false;
    reach(w, state, 0);
    for (int i = 0; i < w->count && !w->misses && !w->is_beyond; i++) {
        go_on(w, i, state);
        w->is_beyond |= w->records > RECORDS_MAX;
    }
}

/* --- a role ----------------------------------------------------------------------------------- */

static bool is_channel(const model *m, const model_role *role, int tile) {
    const model_tile *t = &m->tiles[tile];
    return t->space == TL_SHARED && !t->uses_mbarrier && t->role == (int)(role - m->roles);
}

/* Has it the bytes of one of the role's channels, and does the role fill it, too? */
static bool is_beside(const model *m, const model_role *role, int tile) {
    const model_tile *t = &m->tiles[tile];
    bool is = false;
    for (int k = 0; k < t->partner_count; k++) is |= is_channel(m, role, t->partners[k]);
    return is && t->role == (int)(role - m->roles);
}

static void find_places(ways *w) {
    const model *m = w->model;
    w->at.slots = arena_array(w->memory, int, m->tile_count + 1);
    w->at.last_release = arena_array(w->memory, int, m->tile_count + 1);
    w->at.counts = arena_array(w->memory, int, m->cursor_count + 1);
    int bytes = KEY_PART_BYTES;
    for (int t = 0; t < m->tile_count; t++) {
        bool is_own = is_channel(m, w->role, t);
        w->at.slots[t] = is_own ? bytes : -1;
        if (is_own) bytes += (int)sizeof(slot) * m->tiles[t].stages;
        w->at.last_release[t] = is_own || is_beside(m, w->role, t) ? bytes++ : -1;
    }
    for (int c = 0; c < m->cursor_count; c++) {
        bool is_own = w->at.slots[m->cursors[c].tile] >= 0;
        w->at.counts[c] = is_own ? bytes : -1;
        if (is_own) bytes += (int)sizeof(cursor_count);
    }
    w->at.bytes = bytes;
}

static bool acts(const ways *w, const model_step *step) {
    switch (step->kind) {
    case STEP_COPY: return step->has_target && is_own(w, step->target.tile);
    case STEP_WAIT:
    case STEP_RELEASE:
        if (step->subject != SUBJECT_CHANNEL || step->what.cursor < 0) return false;
        return step->kind == STEP_WAIT ? is_own(w, step->what.tile)
                                       : w->at.last_release[step->what.tile] >= 0;
    default: return false;
    }
}

/* Returns how many steps act. */
static int find_parts(ways *w) {
    const model_role *role = w->role;
    int acting = 0, walk = -1;
    w->parts = arena_array(w->memory, part, role->step_count + 1);
    w->part_of = arena_array(w->memory, int, role->step_count + 1);
    for (int i = 0; i < role->step_count; i++) {
        const model_step *step = &role->steps[i];
        bool nests = step->kind == STEP_FOR || step->kind == STEP_IF;
        bool walks = step->kind == STEP_TILES || step->kind == STEP_END_TILES;
        int last = nests ? step->other : i, before = acting;
        while (w->decisions[last].joins) last++;
        for (int k = i; k <= last; k++) acting += acts(w, &role->steps[k]);
        for (int k = i; k <= last; k++) w->part_of[k] = w->part_count;
        bool skips = step->kind == STEP_IF && step->commits; /* empty groups */
        if (step->kind == STEP_TILES) walk = w->part_count;
        if (acting > before || walks || skips)
            w->parts[w->part_count++] = (part){.step = step, .other = walk};
        i = last;
    }
    return acting;
}

static bool same_word(const ways *w, const word *a, const word *b) {
    size_t bytes = sizeof *a->before * (size_t)w->model->cursor_count;
    if (a->count != b->count || memcmp(a->before, b->before, bytes) != 0) return false;
    for (int i = 0; i < a->count; i++) {
        const events_record *x = &a->records[i], *y = &b->records[i];
        if (x->kind != y->kind || x->step != y->step) return false;
    }
    return true;
}

/* Moves the counts on by what a part did. Returns what those that it moved were before. */
static const cursor_count *move(ways *w, cursor_count *counts, const word *done) {
    const model *m = w->model;
    cursor_count *before = arena_array(w->memory, cursor_count, m->cursor_count + 1);
    bool *moves = arena_array(w->memory, bool, m->cursor_count + 1);
    memcpy(before, counts, sizeof *before * (size_t)m->cursor_count);
    for (int i = 0; i < done->count; i++) {
        const events_record *e = &done->records[i];
        const model_tile *filled = e->kind == EVENT_FILL ? &m->tiles[e->tile] : NULL;
        for (int k = 0; filled && k < filled->cursor_count; k++) {
            counts[filled->cursors[k]].in_flight++;
            moves[filled->cursors[k]] = true;
        }
        if ((e->kind != EVENT_WAIT && e->kind != EVENT_RELEASE) || !is_own(w, e->tile)) continue;
        moves[e->cursor] = true;
        if (e->kind == EVENT_RELEASE) counts[e->cursor].held--;
        else counts[e->cursor].in_flight--, counts[e->cursor].held++;
    }
    for (int c = 0; c < m->cursor_count; c++)
        if (!moves[c]) before[c] = (cursor_count){.in_flight = NOT_MOVED};
    return before;
}

static void add_word(ways *w, part *p, cursor_count *counts, const events_record *records,
                     int count) {
    word met = {.records = records, .count = count};
    met.before = move(w, counts, &met);
    for (int i = 0; i < p->words.count; i++)
        if (same_word(w, &p->words.items[i], &met)) return;
    list_push(w->memory, &p->words, met);
}

/* Is it of the role's own channels, or where empty groups and tiles are? */
static bool is_kept(const ways *w, const events_record *e) {
    if (e->tile < 0 || is_own(w, e->tile)) return true;
    return e->kind == EVENT_RELEASE && w->at.last_release[e->tile] >= 0 &&
           &w->model->roles[w->model->cursors[e->cursor].role] == w->role;
}

static void keep_trace(ways *w, const events_trace *trace) {
    events_record *kept = arena_array(w->memory, events_record, trace->count + 1);
    int count = 0;
    for (int i = 0; i < trace->count; i++)
        if (is_kept(w, &trace->records[i])) kept[count++] = trace->records[i];
    if (count) list_push(w->memory, &w->traces, ((events_trace){trace->role, kept, count}));
}

/* What each part did in a run, from one tile to the next; nothing, where the trace has nothing. */
static void read_trace(ways *w, const events_trace *trace) {
    cursor_count *counts = arena_array(w->memory, cursor_count, w->model->cursor_count + 1);
    int at = 0, begin = 0;
    for (int i = 0; i <= trace->count; i++) {
        const events_record *e = i < trace->count ? &trace->records[i] : NULL;
        int next = e ? w->part_of[e->step] : w->part_count;
        for (; at < next; at++, begin = i)
            add_word(w, &w->parts[at], counts, &trace->records[begin], i - begin);
        if (!e || e->kind != EVENT_TILE) continue;
        at = e->generation ? w->parts[next].other : next;
        begin = i + 1;
    }
}

/* There are too many states: each Copy and Wait does all that it could have to. */
static void fear_all(ways *w) {
    for (int i = 0; i < w->role->step_count; i++) {
        const model_step *step = &w->role->steps[i];
        bool syncs = step->kind == STEP_COPY || step->kind == STEP_WAIT;
        if (!syncs || !acts(w, step)) continue;
        w->decisions[i].barrier = true;
        w->decisions[i].ahead = AHEAD_VARIES;
        if (step->kind == STEP_WAIT) w->decisions[i].pending = 0;
    }
}

ways *ways_new(arena *memory, const model *m, const events_result *events, int role,
               const bool *is_warp_local, decision *decisions) {
    ways *w = arena_new(memory, ways);
    *w = (ways){.memory = memory,
                .model = m,
                .role = &m->roles[role],
                .is_warp_local = is_warp_local,
                .decisions = decisions};
    find_places(w);
    for (int i = 0; i < events->trace_count; i++)
        if (events->traces[i].role == role) keep_trace(w, &events->traces[i]);
    return w;
}

bool ways_replay(ways *w, bool adds) {
    unsigned char *state = arena_array(w->memory, unsigned char, w->at.bytes);
    w->adds = adds;
    w->misses = false;
    for (int i = 0; i < w->traces.count && (adds || !w->misses); i++) {
        memset(state, 0, (size_t)w->at.bytes);
        const events_trace *run = &w->traces.items[i];
        repeat(w, state, &(word){run->records, run->count, NULL});
    }
    return !w->misses;
}

void ways_complete(ways *w) {
    if (!find_parts(w)) return;
    for (int i = 0; i < w->traces.count; i++) read_trace(w, &w->traces.items[i]);
    make_room(w, STATES_FIRST);
    w->adds = true;
    w->records = 0;
    do explore(w);
    while (w->misses && !w->is_beyond);
    if (w->is_beyond) fear_all(w);
}
