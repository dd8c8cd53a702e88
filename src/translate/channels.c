/* Channels: what happens where a shared tile is waited for, released and filled. One that crosses
 * from one role to another, comes by TMA, or is asked for so, has two mbarriers per slot, "full"
 * and "empty". A tile that a role keeps to itself needs barriers among the threads that share it,
 * and tells others when it is free only where one of them wants its bytes. Where its generations
 * are, and how their barriers are waited for: ring.c.
 */
#include "translate/emit.h"

bool emit_is_by_warps(const emit_tile *tile) {
    /* A warp's rows pay as one box; in several panels they would be many small ones. */
    return tile->bound->is_by_warps && tile->store.panels <= 1;
}

static const emit_tile *partner_of(emit *t, const emit_tile *tile) {
    const model_tile *bound = tile->bound;
    if (!bound->turn_partner_count) return NULL;
    if (bound->turn_partner_count > 1) {
        emit_unsupported(t, bound->allocation->range, tile->name,
                         "at most two tiles of different roles take turns in one place");
    }
    return emit_tile_in(t, t->model->tiles[bound->turn_partner].symbol, TL_SHARED);
}

static bool is_filled_here(const emit *t, const emit_tile *tile) {
    return tile->space == TL_SHARED && tile->bound->role == t->now - t->model->roles;
}

/* --- declarations ----------------------------------------------------------------------------- */

static void init(emit *t, const emit_tile *tile, emit_fact which, int arrivals, str what,
                 const char *happens) {
    emit_text(t, "ftl_mbarriers_init<%d>(shared + %.*s, %d); // %.*s %s", tile->stages,
              STR_ARGS(emit_fact_of(t, tile, which)), arrivals, STR_ARGS(what), happens);
}

void emit_init_channels(emit *t) {
    bool any = t->model->grid && t->model->grid->grid.kind == TL_GRID_DYNAMIC;
    for (int i = 0; i < t->model->tile_count; i++) any |= t->model->tiles[i].frees;
    if (!any) return;
    emit_open(t, "if (threadIdx.x == 0) {");
    if (t->is_async) emit_init_walk(t);
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        const model_tile *bound = tile->bound;
        str name = t->is_async ? tile->symbol->name : tile->name;
        str again = t->is_async ? name : STR("and");
        if (bound->uses_mbarrier)
            init(t, tile, FACT_FULL, bound->full_arrivals, name, "has landed");
        if (bound->frees) init(t, tile, FACT_EMPTY, bound->empty_arrivals, again, "is free again");
    }
    if (t->is_async) emit_text(t, "ftl_mbarrier_init_fence();");
    emit_close(t);
    emit_text(t, "ftl_block_barrier();");
}

void emit_declare_channels(emit *t) {
    for (int i = 0; i < t->parts.count; i++) emit_declare_cursor(t, t->parts.items[i]);
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        emit_declare_cursor(t, tile);
        if (!is_filled_here(t, tile)) continue;
        emit_declare_fill(t, tile);
        const emit_tile *partner = partner_of(t, tile);
        str parity = emit_ring_part(t, tile, "place_parity");
        if (partner)
            emit_declare(t, parity, "unsigned %.*s = %d; // of the other's barrier",
                         STR_ARGS(parity), tile->bound < partner->bound);
    }
}

/* --- statements ------------------------------------------------------------------------------- */

void emit_meet_block(emit *t) {
    emit_text(t, emit_has_lone_warp(t) ? "ftl_warp_barrier();" : "ftl_block_barrier();");
}

/* A barrier among those threads that share the tile: in a kernel of one role the warp's, where the
 * checks found that it is enough and lines are divided as they assume.
 */
static void meet(emit *t, const check_sync *sync, const emit_tile *tile) {
    if (!t->is_async) {
        bool is_enough = sync->is_warp_scope && emit_lines_stay_in_warp(t, tile);
        if (is_enough) emit_text(t, "ftl_warp_barrier();");
        else emit_meet_block(t);
        return;
    }
    bool is_of_warp = emit_is_by_warps(tile) || t->now->executor_warps == 1;
    if (tile->bound->is_shared_out && is_of_warp) emit_text(t, "ftl_warp_barrier();");
    else emit_text(t, "%.*s", STR_ARGS(emit_meeting(t, tile->bound->is_shared_out)));
}

str emit_issuer(emit *t, const emit_tile *stored) {
    const model_role *r = t->now;
    bool of_executor = stored && stored->bound->is_shared_out;
    if (r->is_single) return (str){0};
    if (r->warps == 1 || (of_executor && r->executor_warps == 1)) return STR("lane == 0");
    if (of_executor && emit_is_by_warps(stored)) return STR("lane == 0");
    if (!of_executor || r->executors == 1) return STR("lane == 0 && warp == 0");
    return emit_format(t, "lane == 0 && warp %% %d == 0", r->executor_warps);
}

/* What threads write, an asynchronous unit sees past a proxy fence only. A Copy that has landed
 * when it ends has it after it (emit_channel_fill); one by cp.async lands when nobody looks, so
 * there the fence is after the Wait, which is the first to know, and ordered after the
 * landing.
 */
void emit_channel_wait(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    if (tile->bound->uses_mbarrier) {
        emit_ring_wait(t, s, tile);
    } else {
        bool joins = !t->is_async && sync && sync->joins_next_wait;
        if (t->is_async) emit_ring_next(t, tile, GENERATION_HELD);
        if (sync && !joins && sync->groups_pending >= 0)
            emit_text(t, "ftl_cp_async_wait<%d>();", sync->groups_pending);
        if (sync ? sync->barrier_before && !joins : t->is_async) meet(t, sync, tile);
    }
    if (tile->bound->goes_async && tile->bound->lands_late) emit_text(t, "ftl_fence_async();");
    emit_ring_hold(t, s, tile);
}

static const char *arrival(const emit *t) {
    return t->is_async ? "ftl_mbarrier_signal" : "ftl_mbarrier_arrive";
}

/* Which threads arrive, as the slot's barrier counts them. */
static str releaser_of(emit *t, const tl_statement *release, const emit_tile *tile) {
    int role = (int)(t->now - t->model->roles), number = (int)(tile->bound - t->model->tiles);
    int cursor = model_find_cursor(t->model, role, number, release->sync.what->symbol);
    switch (t->model->cursors[cursor].released_by) {
    case RELEASE_BY_THREADS: return (str){0};
    case RELEASE_BY_WARPS: return STR("lane == 0");
    default: return emit_issuer(t, tile);
    }
}

void emit_channel_release(emit *t, const tl_statement *s, const emit_tile *tile) {
    bool several = tile->bound->holds_several || tile->carrier == CARRIER_BARRIER;
    emit_generation which = several ? GENERATION_OLDEST : GENERATION_HELD;
    if (tile->bound->frees) {
        str issuer = releaser_of(t, s, tile);
        str barrier = emit_barrier_of(t, s, tile, FACT_EMPTY, which);
        str chosen = issuer.length ? emit_format(t, "if (%.*s) ", STR_ARGS(issuer)) : (str){0};
        emit_text(t, "%.*s%s(%.*s);", STR_ARGS(chosen), arrival(t), STR_ARGS(barrier));
    }
    if (several) emit_ring_next(t, tile, GENERATION_OLDEST);
}

static void wait_stores(emit *t, const emit_tile *tile);

/* Before a Copy fills the next slot: until it is free, and its bytes are not the other tile's. */
void emit_channel_acquire(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    const emit_tile *partner = partner_of(t, tile);
    if (partner) {
        str parity = emit_ring_part(t, tile, "place_parity");
        emit_text(t, "ftl_mbarrier_try_wait(shared + %.*s, %.*s);",
                  STR_ARGS(emit_fact_of(t, partner, FACT_EMPTY)), STR_ARGS(parity));
        emit_text(t, "%.*s ^= 1;", STR_ARGS(parity));
    }
    if (tile->bound->uses_mbarrier) {
        emit_ring_acquire(t, s, tile);
    } else if (tile->bound->waits_late) {
        wait_stores(t, tile);
        meet(t, sync, tile);
    } else if (sync && sync->barrier_before) {
        meet(t, sync, tile);
    }
}

/* --- stores by TMA ---------------------------------------------------------------------------- */

static void wait_stores(emit *t, const emit_tile *tile) {
    str issuer = emit_issuer(t, tile);
    if (issuer.length) emit_text(t, "if (%.*s) ftl_tma_store_wait<0>();", STR_ARGS(issuer));
    else emit_text(t, "ftl_tma_store_wait<0>();");
}

/* The shared tile that the role stores into that tensor by TMA. */
static const emit_tile *stored_to(emit *t, const tl_symbol *tensor) {
    tl_statement *role = (tl_statement *)(uintptr_t)t->role;
    for (tl_statement *s = t->role->role.body.first; s; s = tl_next(s, role)) {
        if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL || !tl_is_by_tma(&s->copy)) continue;
        if (tl_copy_target(s).symbol == tensor)
            return emit_tile_in(t, tl_copy_source(s).symbol, TL_SHARED);
    }
    return NULL;
}

/* A store is waited for by the thread that issued it. Where nobody but this role wants its bytes,
 * it does so when they are written again, with a tile's work in between.
 */
void emit_wait_stores(emit *t, const tl_statement *s) {
    const emit_tile *tile = stored_to(t, s->sync.what->symbol);
    if (!tile) {
        emit_unsupported(t, s->range, STR("this Wait"), "only stores by tma are waited for");
    } else if (tile->bound->waits_late) {
        emit_text(t, "// (before these bytes are written again)");
    } else {
        wait_stores(t, tile);
    }
}

void emit_end_stores(emit *t) {
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (is_filled_here(t, tile) && tile->bound->waits_late) wait_stores(t, tile);
    }
}

/* After it. Copies by TMA arrive by themselves. */
void emit_channel_fill(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    if (!tl_is_by_tma(&s->copy)) {
        if (tile->bound->goes_async && !s->copy.is_async) emit_text(t, "ftl_fence_async();");
        if (tile->bound->uses_mbarrier) {
            emit_text(t, "%s(%.*s);",
                      s->copy.is_async ? "ftl_mbarrier_arrive_after_copies" : arrival(t),
                      STR_ARGS(emit_barrier_of(t, s, tile, FACT_FULL, GENERATION_NEXT)));
        } else if (s->copy.is_async && sync && sync->commits) {
            emit_text(t, "ftl_cp_async_commit();");
        }
    }
    emit_ring_next(t, tile, GENERATION_NEXT);
}
