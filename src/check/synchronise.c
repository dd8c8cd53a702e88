#include "check/synchronise.h"

#include "check/ways.h"

#include <limits.h>

typedef struct role_sync {
    arena *memory;
    const model *model;
    const model_role *role;
    const events_result *events;
    decision *decisions; /* by step */
    ways *ways;
} role_sync;

/* --- decisions -------------------------------------------------------------------------------- */

/* Where a Copy's slot lies relative to the next Wait's, when that is always the same. */
static void note_slots(role_sync *r, const events_trace *trace) {
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

/* How many cp.async groups of their own a record of a trace makes. */
static int groups_of(const role_sync *r, const events_record *e) {
    if (e->kind == EVENT_SKIP) return e->generation;
    bool is_own = e->kind == EVENT_FILL && !r->model->tiles[e->tile].uses_mbarrier;
    return is_own ? r->role->steps[e->step].commits : 0;
}

/* How many groups are younger than the one that this Wait is for; INT_MAX: it has none. */
static int younger_groups(const role_sync *r, const events_record *first,
                          const events_record *wait) {
    int younger = 0;
    for (const events_record *e = wait; e-- > first;) {
        int groups = groups_of(r, e);
        bool is_it =
            e->kind == EVENT_FILL && e->tile == wait->tile && e->generation == wait->generation;
        if (is_it) return groups ? younger : INT_MAX;
        younger += groups;
    }
    return INT_MAX;
}

/* The fewest over all occurrences of a Wait, and of those that it does it for. */
static void count_groups(role_sync *r, const events_trace *trace) {
    int run = INT_MAX;
    for (int i = 0; i < trace->count; i++) {
        const events_record *e = &trace->records[i];
        if (e->kind != EVENT_WAIT || r->model->tiles[e->tile].uses_mbarrier) continue;
        int younger = younger_groups(r, trace->records, e);
        if (younger < run) run = younger;
        decision *d = &r->decisions[e->step];
        if (d->joins) continue;
        if (run < d->pending) d->pending = run;
        run = INT_MAX;
    }
}

static void find_runs(role_sync *r) {
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

static bool is_of(const role_sync *r, const events_trace *trace) {
    return &r->model->roles[trace->role] == r->role;
}

/* How much replaying a role's decisions one by one would cost. */
static int64_t thinning_cost(const role_sync *r) {
    int64_t records = 0, decisions = 0;
    for (int i = 0; i < r->events->trace_count; i++) {
        if (is_of(r, &r->events->traces[i])) records += r->events->traces[i].count;
    }
    for (int i = 0; i < r->role->step_count; i++) {
        decisions += (r->decisions[i].pending != INT_MAX) + r->decisions[i].barrier;
    }
    return records * decisions;
}

/* Takes away, one by one, what the rest makes superfluous. Left alone in huge kernels: more waits
 * and barriers than needed are no mistake.
 */
static void thin_out(role_sync *r) {
    enum { COST_MAX = 4000000 };
    if (thinning_cost(r) > COST_MAX) return;
    for (int i = 0; i < r->role->step_count; i++) {
        decision *d = &r->decisions[i], was = *d;
        if (d->pending == INT_MAX) continue;
        d->pending = INT_MAX;
        if (!ways_replay(r->ways, false)) *d = was;
    }
    for (int copies = 1; copies >= 0; copies--) {
        for (int i = 0; i < r->role->step_count; i++) {
            decision *d = &r->decisions[i], was = *d;
            if (!d->barrier || (r->role->steps[i].kind == STEP_COPY) != (copies == 1)) continue;
            d->barrier = false;
            if (!ways_replay(r->ways, false)) *d = was;
        }
    }
}

/* A step that no run has come to does all that it could have to. */
static void expect_all(role_sync *r) {
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

static void decide_role(role_sync *r) {
    enum { ROUNDS_MAX = 8 };
    for (int i = 0; i < r->events->trace_count; i++) {
        if (!is_of(r, &r->events->traces[i])) continue;
        count_groups(r, &r->events->traces[i]);
        note_slots(r, &r->events->traces[i]);
    }
    for (int round = 0; round < ROUNDS_MAX && !ways_replay(r->ways, true);) round++;
    thin_out(r);
    ways_complete(r->ways);
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

static void add_syncs(const role_sync *r, check_facts *facts, int *capacity) {
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
            list_grow(r->memory, (void **)&facts->syncs, capacity, sizeof(check_sync));
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
        decision *decisions = arena_array(memory, decision, m->roles[role].step_count);
        role_sync r = {memory, m, &m->roles[role], events, decisions, NULL};
        find_runs(&r);
        r.ways = ways_new(memory, m, events, role, warp_local, decisions);
        decide_role(&r);
        add_syncs(&r, facts, &capacity);
    }
}
