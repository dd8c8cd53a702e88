/* What is known of a role's channels at a point of its body, and what a Copy, Wait or Release makes
 * of it.
 */
#include "check/ways_internal.h"

#include <limits.h>
#include <string.h>

enum { AGE_MOST = 200 };

/* How long ago something was, in barriers. */
typedef enum since { SINCE_NEVER, SINCE_NOW, SINCE_EARLIER } since;

/* --- a state ---------------------------------------------------------------------------------- */

bool ways_is_own(const ways *w, int tile) {
    return tile >= 0 && w->at.slots[tile] >= 0;
}

static ways_slot *slots_of(const ways *w, unsigned char *state, int tile) {
    return (ways_slot *)(state + w->at.slots[tile]);
}

static ways_count *count_of(const ways *w, unsigned char *state, int cursor) {
    return (ways_count *)(state + w->at.counts[cursor]);
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
        if (!ways_is_own(w, t)) continue;
        ways_slot *slots = slots_of(w, state, t);
        for (int k = 0; k < w->model->tiles[t].stages; k++) {
            grow_older(&slots[k].landed);
            grow_older(&slots[k].released);
        }
    }
}

/* One more cp.async group: all others are older by one. */
static void commit(const ways *w, unsigned char *state) {
    for (int t = 0; t < w->model->tile_count; t++) {
        if (!ways_is_own(w, t)) continue;
        ways_slot *slots = slots_of(w, state, t);
        for (int k = 0; k < w->model->tiles[t].stages; k++) {
            bool counts = slots[k].landed == SINCE_NEVER && slots[k].age < AGE_MOST;
            if (counts) slots[k].age++;
        }
    }
}

static void land(const ways *w, unsigned char *state, int pending) {
    for (int t = 0; t < w->model->tile_count; t++) {
        if (!ways_is_own(w, t)) continue;
        ways_slot *slots = slots_of(w, state, t);
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
    ways_slot *slots = slots_of(w, state, tile);
    memmove(slots + 1, slots, sizeof *slots * (size_t)(t->stages - 1));
    slots[0] = (ways_slot){.landed = commits ? SINCE_NEVER : SINCE_NOW};
    for (int k = 0; k < t->cursor_count; k++) count_of(w, state, t->cursors[k])->in_flight++;
}

/* What a generation that is waited for asks of the Wait that ends the run. */
static void wait_for(ways *w, const ways_slot *waited, int tile, int end, bool *needs_block,
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
        if (!ways_is_own(w, run[i].tile)) continue;
        ways_count *c = count_of(w, state, run[i].cursor);
        const ways_slot *waited = &slots_of(w, state, run[i].tile)[--c->in_flight];
        c->held++;
        wait_for(w, waited, run[i].tile, end, &needs_block, &needs_warp);
    }
    if (needs_block && !d->barrier) need(w, &d->barrier);
    if (needs_warp && !d->barrier && !d->warp) need(w, &d->warp);
    if (d->barrier) meet(w, state, run[count - 1].tile);
    return count;
}

static void release(ways *w, unsigned char *state, const events_record *e) {
    if (ways_is_own(w, e->tile)) {
        ways_count *c = count_of(w, state, e->cursor);
        slots_of(w, state, e->tile)[c->in_flight + --c->held].released = SINCE_NOW;
    }
    state[w->at.last_release[e->tile]] = SINCE_NOW;
}

bool ways_can_do(const ways *w, unsigned char *state, const ways_word *done) {
    for (int c = 0; c < w->model->cursor_count; c++) {
        const ways_count *before = &done->before[c];
        if (before->in_flight == NOT_MOVED) continue;
        const ways_count *now = count_of(w, state, c);
        if (now->in_flight != before->in_flight || now->held != before->held) return false;
    }
    return true;
}

void ways_repeat(ways *w, unsigned char *state, const ways_word *done) {
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
