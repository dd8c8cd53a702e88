#include "check/synchronise.h"

#include "check/ways.h"

#include <limits.h>

typedef struct slot_state {
    int commit;         /* number of its cp.async group; 0: a plain copy */
    int landed_epoch;   /* barriers passed when this thread's part had landed; -1: not yet */
    int released_epoch; /* ... when this thread released it; -1: not yet */
} slot_state;

/* Tile -1: an empty group. */
typedef struct commit_place {
    int tile, generation;
} commit_place;

typedef struct replay {
    arena *memory;
    const model *model;
    const model_role *role;
    decision *decisions;
    const bool *is_warp_local; /* by tile */
    slot_state **states;       /* by tile, then generation */
    int *counts, *capacities;
    int *last_release;         /* by tile: barriers passed at its latest Release */
    LIST(commit_place) groups; /* by number, from 1 on: what it brings */
    int commits, landed_commits, epoch;
    bool adds; /* put in what is missing; else only judge */
    bool changed, is_valid;
    int run_pending[MODEL_TILES_MAX], run_count; /* tiles of the run of Waits that is open */
    int run_generation[MODEL_TILES_MAX];
} replay;

static slot_state *state_of(replay *r, int tile, int generation) {
    while (generation >= r->capacities[tile]) {
        list_grow(r->memory, (void **)&r->states[tile], &r->capacities[tile], sizeof(slot_state));
    }
    return &r->states[tile][generation];
}

static void barrier(replay *r) {
    r->epoch++;
}

static bool was_released_lately(replay *r, int tile, int generation) {
    if (generation < 0 || generation >= r->counts[tile]) return false;
    return state_of(r, tile, generation)->released_epoch == r->epoch;
}

/* Is a release of the bytes that this Copy takes not followed by a barrier yet? */
static bool fill_needs_barrier(replay *r, int tile, int generation) {
    const model *m = r->model;
    if (was_released_lately(r, tile, generation - m->tiles[tile].stages)) return true;
    for (int k = 0; k < m->tiles[tile].partner_count; k++) {
        if (r->last_release[m->tiles[tile].partners[k]] == r->epoch) return true;
    }
    return false;
}

static void add_group(replay *r, int tile, int generation) {
    commit_place place = {tile, generation};
    list_push(r->memory, &r->groups, place);
}

static void replay_fill(replay *r, const events_record *e) {
    decision *d = &r->decisions[e->step];
    bool is_mbarrier = r->model->tiles[e->tile].uses_mbarrier;
    bool needs = fill_needs_barrier(r, e->tile, e->generation) && !is_mbarrier;
    if (needs && !d->barrier) {
        r->is_valid = false;
        if (r->adds) d->barrier = r->changed = true;
    }
    if (d->barrier) barrier(r);
    slot_state *state = state_of(r, e->tile, e->generation);
    *state = (slot_state){.landed_epoch = r->epoch, .released_epoch = -1};
    if (e->generation >= r->counts[e->tile]) r->counts[e->tile] = e->generation + 1;
    if (r->role->steps[e->step].commits && !is_mbarrier) {
        state->commit = ++r->commits;
        state->landed_epoch = -1;
        add_group(r, e->tile, e->generation);
    }
}

static void land_groups(replay *r, int pending) {
    if (pending == INT_MAX) return;
    for (; r->landed_commits < r->commits - pending; r->landed_commits++) {
        const commit_place *group = &r->groups.items[r->landed_commits];
        if (group->tile >= 0) state_of(r, group->tile, group->generation)->landed_epoch = r->epoch;
    }
}

/* The last Wait of a run: the group wait for all of them, then one barrier. */
static void end_run(replay *r, int step) {
    decision *d = &r->decisions[step];
    bool needs_block = false, needs_warp = false;
    land_groups(r, d->pending);
    for (int i = 0; i < r->run_count; i++) {
        int tile = r->run_pending[i];
        slot_state *state = state_of(r, tile, r->run_generation[i]);
        if (state->landed_epoch < 0) {
            r->is_valid = false; /* a group wait is missing */
            continue;
        }
        if (state->landed_epoch != r->epoch) continue;
        if (r->is_warp_local[tile]) needs_warp = true;
        else needs_block = true;
    }
    r->run_count = 0;
    if ((needs_block && !d->barrier) || (needs_warp && !d->barrier && !d->warp)) {
        r->is_valid = false;
        if (r->adds) {
            if (needs_block) d->barrier = true;
            else d->warp = true;
            r->changed = true;
        }
    }
    if (d->barrier) barrier(r);
}

static void replay_wait(replay *r, const events_record *e) {
    if (r->model->tiles[e->tile].uses_mbarrier) return;
    if (r->run_count < MODEL_TILES_MAX) {
        r->run_pending[r->run_count] = e->tile;
        r->run_generation[r->run_count++] = e->generation;
    }
    if (!r->decisions[e->step].joins) end_run(r, e->step);
}

static void replay_trace(replay *r, const events_trace *trace) {
    r->commits = r->landed_commits = r->epoch = r->run_count = 0;
    r->groups.count = 0;
    for (int t = 0; t < r->model->tile_count; t++) r->counts[t] = 0, r->last_release[t] = -1;
    for (int i = 0; i < trace->count; i++) {
        const events_record *e = &trace->records[i];
        switch (e->kind) {
        case EVENT_FILL: replay_fill(r, e); break;
        case EVENT_WAIT: replay_wait(r, e); break;
        case EVENT_RELEASE:
            if (r->model->tiles[e->tile].role == r->model->cursors[e->cursor].role) {
                state_of(r, e->tile, e->generation)->released_epoch = r->epoch;
                r->last_release[e->tile] = r->epoch;
            }
            break;
        case EVENT_SKIP:
            r->commits += e->generation;
            for (int k = 0; k < e->generation; k++) add_group(r, -1, 0);
            break;
        case EVENT_TILE: break;
        }
    }
}

static bool replay_all(replay *r, const events_result *events, int role) {
    r->changed = false;
    r->is_valid = true;
    for (int i = 0; i < events->trace_count; i++) {
        if (events->traces[i].role == role) replay_trace(r, &events->traces[i]);
    }
    return r->is_valid;
}

/* --- decisions -------------------------------------------------------------------------------- */

/* Where a Copy's slot lies relative to the next Wait's, when that is always the same. */
static void note_slots(replay *r, const events_trace *trace) {
    int *waited = arena_array(r->memory, int, r->model->tile_count + 1);
    for (int i = 0; i < trace->count; i++) {
        const events_record *e = &trace->records[i];
        r->decisions[e->step].seen = true;
        if (e->kind == EVENT_WAIT && e->generation >= waited[e->tile])
            waited[e->tile] = e->generation + 1;
        if (e->kind != EVENT_FILL) continue;
        int ahead = (e->generation - waited[e->tile]) % r->model->tiles[e->tile].stages;
        decision *d = &r->decisions[e->step];
        if (d->ahead == AHEAD_UNSEEN) d->ahead = ahead;
        if (ahead < 0 || d->ahead != ahead) d->ahead = AHEAD_VARIES;
    }
}

/* Is the role that fills a ring its only reader, under no other name? */
static bool is_private(const model *m, int tile) {
    const model_tile *t = &m->tiles[tile];
    return t->cursor_count == 1 && m->cursors[t->cursors[0]].role == t->role;
}

/* How many groups are younger than the one a Wait is for: the fewest over all its occurrences. */
static void count_groups(replay *r, const events_trace *trace) {
    int commits = 0, run = INT_MAX;
    for (int i = 0; i < trace->count; i++) {
        const events_record *e = &trace->records[i];
        if (e->kind == EVENT_SKIP) {
            commits += e->generation;
        } else if (e->kind == EVENT_FILL) {
            bool is_group =
                r->role->steps[e->step].commits && !r->model->tiles[e->tile].uses_mbarrier;
            if (is_group) commits++;
            state_of(r, e->tile, e->generation)->commit = is_group ? commits : 0;
        } else if (e->kind == EVENT_WAIT && !r->model->tiles[e->tile].uses_mbarrier) {
            const slot_state *state = state_of(r, e->tile, e->generation);
            bool own = r->model->tiles[e->tile].role == r->model->cursors[e->cursor].role;
            if (own && state->commit && commits - state->commit < run)
                run = commits - state->commit;
            decision *d = &r->decisions[e->step];
            if (d->joins) continue;
            if (run < d->pending) d->pending = run;
            run = INT_MAX;
        }
    }
}

static void find_runs(replay *r) {
    for (int i = 0; i < r->role->step_count; i++) {
        const model_step *step = &r->role->steps[i];
        decision *d = &r->decisions[i];
        d->pending = INT_MAX;
        d->ahead = AHEAD_UNSEEN;
        bool waits = step->kind == STEP_WAIT && step->subject == SUBJECT_CHANNEL &&
                     !r->model->tiles[step->what.tile].uses_mbarrier;
        const model_step *next = step + 1;
        d->joins = waits && i + 1 < r->role->step_count && next->kind == STEP_WAIT &&
                   next->subject == SUBJECT_CHANNEL &&
                   !r->model->tiles[next->what.tile].uses_mbarrier;
    }
}

/* How much replaying a role's decisions one by one would cost. */
static int64_t thinning_cost(const replay *r, const events_result *events, int role) {
    int64_t records = 0, decisions = 0;
    for (int i = 0; i < events->trace_count; i++) {
        if (events->traces[i].role == role) records += events->traces[i].count;
    }
    for (int i = 0; i < r->role->step_count; i++) {
        decisions += (r->decisions[i].pending != INT_MAX) + r->decisions[i].barrier;
    }
    return records * decisions;
}

/* Takes away, one by one, what the rest makes superfluous. Left alone in huge kernels: more waits
 * and barriers than needed are no mistake.
 */
static void thin_out(replay *r, const events_result *events, int role) {
    enum { COST_MAX = 4000000 };
    if (thinning_cost(r, events, role) > COST_MAX) return;
    r->adds = false;
    for (int i = 0; i < r->role->step_count; i++) {
        decision *d = &r->decisions[i], was = *d;
        if (d->pending == INT_MAX) continue;
        d->pending = INT_MAX;
        if (!replay_all(r, events, role)) *d = was;
    }
    for (int copies = 1; copies >= 0; copies--) {
        for (int i = 0; i < r->role->step_count; i++) {
            decision *d = &r->decisions[i], was = *d;
            if (!d->barrier || (r->role->steps[i].kind == STEP_COPY) != (copies == 1)) continue;
            d->barrier = false;
            if (!replay_all(r, events, role)) *d = was;
        }
    }
}

/* A step that no run has come to does all that it could have to. */
static void expect_all(replay *r) {
    for (int i = 0; i < r->role->step_count; i++) {
        const model_step *step = &r->role->steps[i];
        decision *d = &r->decisions[i];
        bool waits = step->kind == STEP_WAIT && step->subject == SUBJECT_CHANNEL;
        bool fills = step->kind == STEP_COPY && step->has_target;
        int tile = waits ? step->what.tile : fills ? step->target.tile : -1;
        if (d->seen || tile < 0 || r->model->tiles[tile].space != TL_SHARED) continue;
        if (r->model->tiles[tile].uses_mbarrier) continue;
        if (waits) d->pending = 0;
        d->barrier = true;
    }
}

static void decide_role(replay *r, const events_result *events, int role) {
    enum { ROUNDS_MAX = 8 };
    find_runs(r);
    for (int i = 0; i < events->trace_count; i++) {
        if (events->traces[i].role != role) continue;
        count_groups(r, &events->traces[i]);
        note_slots(r, &events->traces[i]);
    }
    r->adds = true;
    for (int round = 0; round < ROUNDS_MAX; round++) {
        replay_all(r, events, role);
        if (!r->changed) break;
    }
    thin_out(r, events, role);
    ways_complete(r->memory, r->model, events, role, r->is_warp_local, r->decisions);
    expect_all(r);
}

/* --- what the statements need ----------------------------------------------------------------- */

/* Is every generation written from registers, and copied on to global memory, by rows of which each
 * warp has a consecutive share? mma_C with all warps on the rows has, and a copy to global memory
 * can.
 */
static bool is_warp_local(const model *m, int tile) {
    int fills = 0, uses = 0;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->has_target && step->target.tile == tile) {
                if (step->kind != STEP_COPY || !step->read_count) return false;
                const model_tile *source = &m->tiles[step->reads[0].tile];
                const tl_layout *said = &source->allocation->allocate.layout;
                if (!model_is_by_rows(source) || said->kind != TL_MMA_C) return false;
                fills++;
            }
            for (int k = 0; k < step->read_count; k++) {
                if (step->reads[k].tile != tile) continue;
                if (step->kind != STEP_COPY || !step->stores || step->is_async) return false;
                if (m->tiles[tile].role != r) return false;
                uses++;
            }
        }
    }
    return fills && uses;
}

static void add_syncs(replay *r, arena *memory, check_facts *facts, int *capacity) {
    for (int i = 0; i < r->role->step_count; i++) {
        const model_step *step = &r->role->steps[i];
        const decision *d = &r->decisions[i];
        int tile = step->kind == STEP_COPY            ? (step->has_target ? step->target.tile : -1)
                   : step->subject == SUBJECT_CHANNEL ? step->what.tile
                                                      : -1;
        bool is_shared = tile >= 0 && r->model->tiles[tile].space == TL_SHARED;
        bool is_branch = step->kind == STEP_IF && step->commits;
        if (!is_branch && !is_shared) continue;
        check_sync sync = {
            .statement = step->statement, .groups_pending = -1, .slots_ahead = AHEAD_VARIES};
        if (is_branch) {
            sync.commits_otherwise = step->commits;
        } else {
            sync.uses_mbarrier = r->model->tiles[tile].uses_mbarrier;
            sync.barrier_before = d->barrier || d->warp;
            sync.is_warp_scope = d->warp && !d->barrier;
            sync.commits =
                step->kind == STEP_COPY && step->commits && !r->model->tiles[tile].uses_mbarrier;
            sync.joins_next_wait = d->joins;
            if (d->pending != INT_MAX) sync.groups_pending = d->pending;
            if (d->ahead >= 0 && is_private(r->model, tile)) sync.slots_ahead = d->ahead;
        }
        if (facts->sync_count == *capacity) {
            list_grow(memory, (void **)&facts->syncs, capacity, sizeof(check_sync));
        }
        ((check_sync *)facts->syncs)[facts->sync_count++] = sync;
    }
}

void synchronise(arena *memory, const model *m, const events_result *events, check_facts *facts) {
    bool *warp_local = arena_array(memory, bool, m->tile_count + 1);
    for (int t = 0; t < m->tile_count; t++)
        warp_local[t] = m->tiles[t].space == TL_SHARED && is_warp_local(m, t);
    int capacity = 0;
    facts->syncs = NULL;
    facts->sync_count = 0;
    for (int role = 0; role < m->role_count; role++) {
        replay r = {
            .memory = memory, .model = m, .role = &m->roles[role], .is_warp_local = warp_local};
        r.decisions = arena_array(memory, decision, r.role->step_count);
        r.states = arena_array(memory, slot_state *, m->tile_count + 1);
        r.counts = arena_array(memory, int, m->tile_count + 1);
        r.capacities = arena_array(memory, int, m->tile_count + 1);
        r.last_release = arena_array(memory, int, m->tile_count + 1);
        decide_role(&r, events, role);
        add_syncs(&r, memory, facts, &capacity);
    }
}
