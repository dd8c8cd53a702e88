#include "check/ways_internal.h"

#include <string.h>

enum {
    STATES_FIRST = 256, /* a power of two, as all capacities */
    STATES_MAX = 1 << 14,
    RECORDS_MAX = 4000000, /* that are gone through for one role */
    KEY_PART_BYTES = 4,
};

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
    const ways_part *p = &w->parts[number];
    memcpy(copy, state_at(w, from), bytes);
    bool walks = w->model->grid && w->model->grid->grid.kind != TL_GRID_PLAIN;
    if (p->step->kind == STEP_END_TILES && walks) reach(w, copy, p->other);
    if (p->step->kind == STEP_TILES || p->step->kind == STEP_END_TILES) {
        reach(w, copy, number + 1);
        return;
    }
    for (int i = 0; i < p->words.count; i++) {
        memcpy(copy, state_at(w, from), bytes);
        if (!ways_can_do(w, copy, &p->words.items[i])) continue;
        ways_repeat(w, copy, &p->words.items[i]);
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
        if (is_own) bytes += (int)sizeof(ways_slot) * m->tiles[t].stages;
        w->at.last_release[t] = is_own || is_beside(m, w->role, t) ? bytes++ : -1;
    }
    for (int c = 0; c < m->cursor_count; c++) {
        bool is_own = w->at.slots[m->cursors[c].tile] >= 0;
        w->at.counts[c] = is_own ? bytes : -1;
        if (is_own) bytes += (int)sizeof(ways_count);
    }
    w->at.bytes = bytes;
}

static bool acts(const ways *w, const model_step *step) {
    switch (step->kind) {
    case STEP_COPY: return step->has_target && ways_is_own(w, step->target.tile);
    case STEP_WAIT:
    case STEP_RELEASE:
        if (step->subject != SUBJECT_CHANNEL || step->what.cursor < 0) return false;
        return step->kind == STEP_WAIT ? ways_is_own(w, step->what.tile)
                                       : w->at.last_release[step->what.tile] >= 0;
    default: return false;
    }
}

/* Returns how many steps act. */
static int find_parts(ways *w) {
    const model_role *role = w->role;
    int acting = 0, walk = -1;
    w->parts = arena_array(w->memory, ways_part, role->step_count + 1);
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
            w->parts[w->part_count++] = (ways_part){.step = step, .other = walk};
        i = last;
    }
    return acting;
}

static bool same_word(const ways *w, const ways_word *a, const ways_word *b) {
    size_t bytes = sizeof *a->before * (size_t)w->model->cursor_count;
    if (a->count != b->count || memcmp(a->before, b->before, bytes) != 0) return false;
    for (int i = 0; i < a->count; i++) {
        const events_record *x = &a->records[i], *y = &b->records[i];
        if (x->kind != y->kind || x->step != y->step) return false;
    }
    return true;
}

/* Moves the counts on by what a part did. Returns what those that it moved were before. */
static const ways_count *move(ways *w, ways_count *counts, const ways_word *done) {
    const model *m = w->model;
    ways_count *before = arena_array(w->memory, ways_count, m->cursor_count + 1);
    bool *moves = arena_array(w->memory, bool, m->cursor_count + 1);
    memcpy(before, counts, sizeof *before * (size_t)m->cursor_count);
    for (int i = 0; i < done->count; i++) {
        const events_record *e = &done->records[i];
        const model_tile *filled = e->kind == EVENT_FILL ? &m->tiles[e->tile] : NULL;
        for (int k = 0; filled && k < filled->cursor_count; k++) {
            counts[filled->cursors[k]].in_flight++;
            moves[filled->cursors[k]] = true;
        }
        if ((e->kind != EVENT_WAIT && e->kind != EVENT_RELEASE) || !ways_is_own(w, e->tile))
            continue;
        moves[e->cursor] = true;
        if (e->kind == EVENT_RELEASE) counts[e->cursor].held--;
        else counts[e->cursor].in_flight--, counts[e->cursor].held++;
    }
    for (int c = 0; c < m->cursor_count; c++)
        if (!moves[c]) before[c] = (ways_count){.in_flight = NOT_MOVED};
    return before;
}

static void add_word(ways *w, ways_part *p, ways_count *counts, const events_record *records,
                     int count) {
    ways_word met = {.records = records, .count = count};
    met.before = move(w, counts, &met);
    for (int i = 0; i < p->words.count; i++)
        if (same_word(w, &p->words.items[i], &met)) return;
    list_push(w->memory, &p->words, met);
}

/* Is it of the role's own channels, or where empty groups and tiles are? */
static bool is_kept(const ways *w, const events_record *e) {
    if (e->tile < 0 || ways_is_own(w, e->tile)) return true;
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
    ways_count *counts = arena_array(w->memory, ways_count, w->model->cursor_count + 1);
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
        ways_repeat(w, state, &(ways_word){run->records, run->count, NULL});
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
