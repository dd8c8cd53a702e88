/* Channels in kernels of asynchronous units: a shared tile that crosses from one role to another,
 * or comes by TMA, has two mbarriers per slot, "full" and "empty". A tile that a role keeps to
 * itself (an epilogue through shared memory) needs barriers among the threads that share it, and
 * tells others when it is free only where one of them wants its bytes.
 */
#include "translate/emit.h"

#include <string.h>

/* Does the role that is translated wait for the tile, or part, by its name? */
static bool waits_for(const emit *t, const emit_tile *tile) {
    const model *m = t->model;
    for (int c = 0; c < m->cursor_count; c++) {
        const model_cursor *cursor = &m->cursors[c];
        if (&m->roles[cursor->role] == t->now && cursor->symbol == tile->symbol) return true;
    }
    return false;
}

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

static void init(emit *t, const emit_tile *tile, emit_fact which, int arrivals, const char *what) {
    emit_text(t, "ftl_mbarriers_init<%d>(shared + %.*s, %d); // %.*s %s", tile->stages,
              STR_ARGS(emit_fact_of(t, tile, which)), arrivals, STR_ARGS(tile->symbol->name), what);
}

void emit_init_channels(emit *t) {
    bool any = t->model->grid && t->model->grid->grid.kind == TL_GRID_DYNAMIC;
    for (int i = 0; i < t->model->tile_count; i++) any |= t->model->tiles[i].frees;
    if (!any) return;
    emit_open(t, "if (threadIdx.x == 0) {");
    emit_init_walk(t);
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        const model_tile *bound = tile->bound;
        if (bound->uses_mbarrier) init(t, tile, FACT_FULL, bound->full_arrivals, "has landed");
        if (bound->frees) init(t, tile, FACT_EMPTY, bound->empty_arrivals, "is free again");
    }
    emit_text(t, "ftl_mbarrier_init_fence();");
    emit_close(t);
    emit_text(t, "ftl_block_barrier();");
}

static str part(emit *t, const emit_tile *tile, const char *what) {
    return emit_format(t, "%.*s_%s", STR_ARGS(tile->symbol->name), what);
}

static void declare(emit *t, const emit_tile *tile, const char *what, int value,
                    const char *comment) {
    str name = part(t, tile, what);
    emit_declare(t, name, "unsigned %.*s = %d; // %s", STR_ARGS(name), value, comment);
}

static void declare_ring(emit *t, const emit_tile *tile, const char *what, int slot, int parity,
                         const char *comment) {
    str name = part(t, tile, what);
    emit_declare(t, name, "ftl_ring<%d> %.*s = {%d, %d}; // %s", tile->stages, STR_ARGS(name), slot,
                 parity, comment);
}

static void declare_cursor(emit *t, const emit_tile *tile) {
    bool rings = tile->stages > 1;
    if (!waits_for(t, tile)) return;
    if (tile->bound->uses_mbarrier)
        declare_ring(t, tile, "held", tile->stages - 1, 0, "the generation held");
    else if (rings) declare(t, tile, "slot", tile->stages - 1, "of the generation held");
    if (rings && tile->bound->holds_several)
        declare(t, tile, "oldest", 0, "slot of the oldest one held");
}

void emit_declare_channels(emit *t) {
    for (int i = 0; i < t->parts.count; i++) declare_cursor(t, t->parts.items[i]);
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        bool rings = tile->stages > 1;
        declare_cursor(t, tile);
        if (!is_filled_here(t, tile)) continue;
        if (tile->bound->uses_mbarrier) declare_ring(t, tile, "fill", 0, 1, "the next copy");
        else if (rings) declare(t, tile, "fill", 0, "slot of the next copy");
        const emit_tile *partner = partner_of(t, tile);
        if (partner)
            declare(t, tile, "place_parity", tile->bound < partner->bound,
                    "of the other's barrier");
    }
}

/* Slots of a tile with full barriers are held and filled by an ftl_ring each; others have numbers.
 */
static bool is_in_ring(const emit_tile *tile, const char *which) {
    return tile->bound->uses_mbarrier && strcmp(which, "oldest") != 0;
}

static str ring_name(emit *t, const emit_tile *tile, const char *which) {
    const char *word = strcmp(which, "slot") == 0 ? "held" : which;
    return part(t, emit_cursor(t, tile), word);
}

/* The number of a slot. */
static str slot_text(emit *t, const emit_tile *tile, const char *which) {
    if (is_in_ring(tile, which))
        return emit_format(t, "%.*s.slot", STR_ARGS(ring_name(t, tile, which)));
    return part(t, emit_cursor(t, tile), which);
}

str emit_slot_bytes(emit *t, const emit_tile *tile, const char *which, int divisor) {
    if (tile->stages == 1) return (str){0};
    return emit_format(t, "%.*s * %.*s", STR_ARGS(slot_text(t, tile, which)),
                       STR_ARGS(emit_slot_step(t, tile, divisor)));
}

str emit_barrier_of(emit *t, const emit_tile *tile, emit_fact barriers, const char *which) {
    str first = emit_fact_of(t, tile, barriers);
    if (tile->stages == 1) return emit_format(t, "shared + %.*s", STR_ARGS(first));
    if (is_in_ring(tile, which))
        return emit_format(t, "%.*s.of(shared + %.*s)", STR_ARGS(ring_name(t, tile, which)),
                           STR_ARGS(first));
    return emit_format(t, "shared + %.*s + 8 * %.*s", STR_ARGS(first),
                       STR_ARGS(slot_text(t, tile, which)));
}

/* Numbers of slots are counted, not toggled: the compiler takes what is toggled for a truth value,
 * and keeps those in registers of their own for each thread.
 */
static void advance(emit *t, const emit_tile *tile, const char *which) {
    const char *name = str_copy_z(t->memory, part(t, tile, which));
    if (tile->stages == 1) return;
    emit_text(t, "%s = %s == %d ? 0 : %s + 1;", name, name, tile->stages - 1, name);
}

/* --- statements ------------------------------------------------------------------------------- */

/* A barrier among those threads that share the tile. */
static void emit_meet(emit *t, const emit_tile *tile) {
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
        emit_text(t, "%.*s.wait(shared + %.*s);", STR_ARGS(part(t, tile, "held")),
                  STR_ARGS(emit_fact_of(t, tile, FACT_FULL)));
    } else {
        advance(t, tile, "slot");
        if (sync && sync->groups_pending >= 0)
            emit_text(t, "ftl_cp_async_wait<%d>();", sync->groups_pending);
        if (!sync || sync->barrier_before) emit_meet(t, tile);
    }
    if (tile->bound->goes_async && tile->bound->lands_late) emit_text(t, "ftl_fence_async();");
    if (tile->stages > 1 && tile->bound->is_loaded) {
        emit_text(t, "%.*s = shared + %.*s + %.*s;", STR_ARGS(tile->name),
                  STR_ARGS(emit_slot_place(t, tile, 0)),
                  STR_ARGS(emit_slot_bytes(t, tile, "slot", 1)));
    }
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
    const model_tile *bound = tile->bound;
    const char *which = bound->holds_several ? "oldest" : "slot";
    if (bound->frees) {
        str issuer = releaser_of(t, s, tile);
        str barrier = emit_barrier_of(t, tile, FACT_EMPTY, which);
        if (issuer.length)
            emit_text(t, "if (%.*s) ftl_mbarrier_signal(%.*s);", STR_ARGS(issuer),
                      STR_ARGS(barrier));
        else emit_text(t, "ftl_mbarrier_signal(%.*s);", STR_ARGS(barrier));
    }
    if (bound->holds_several) advance(t, tile, "oldest");
}

static void wait_stores(emit *t, const emit_tile *tile);

/* Before a Copy fills the next slot: until it is free, and its bytes are not the other tile's. */
void emit_channel_acquire(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    const emit_tile *partner = partner_of(t, tile);
    if (partner) {
        str parity = part(t, tile, "place_parity");
        emit_text(t, "ftl_mbarrier_try_wait(shared + %.*s, %.*s);",
                  STR_ARGS(emit_fact_of(t, partner, FACT_EMPTY)), STR_ARGS(parity));
        emit_text(t, "%.*s ^= 1;", STR_ARGS(parity));
    }
    if (tile->bound->uses_mbarrier) {
        str empty = emit_fact_of(t, tile, FACT_EMPTY), announced = {0};
        if (str_is(s->copy.atom, "tma") && !tile->bound->by_threads)
            announced =
                emit_format(t, ", shared + %.*s, %.*s", STR_ARGS(emit_fact_of(t, tile, FACT_FULL)),
                            STR_ARGS(emit_fact_of(t, tile, FACT_BYTES)));
        emit_text(t, "%.*s.acquire(shared + %.*s%.*s);", STR_ARGS(part(t, tile, "fill")),
                  STR_ARGS(empty), STR_ARGS(announced));
    } else if (tile->bound->waits_late) {
        wait_stores(t, tile);
        emit_meet(t, tile);
    } else if (sync && sync->barrier_before) {
        emit_meet(t, tile);
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
        if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL || !str_is(s->copy.atom, "tma")) continue;
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
    if (!str_is(s->copy.atom, "tma")) {
        if (tile->bound->goes_async && !s->copy.is_async) emit_text(t, "ftl_fence_async();");
        if (tile->bound->uses_mbarrier) {
            emit_text(t, "%s(%.*s);",
                      s->copy.is_async ? "ftl_mbarrier_arrive_after_copies" : "ftl_mbarrier_signal",
                      STR_ARGS(emit_barrier_of(t, tile, FACT_FULL, "fill")));
        } else if (s->copy.is_async && sync && sync->commits) {
            emit_text(t, "ftl_cp_async_commit();");
        }
    }
    if (tile->bound->uses_mbarrier) emit_text(t, "%.*s.next();", STR_ARGS(part(t, tile, "fill")));
    else advance(t, tile, "fill");
}
