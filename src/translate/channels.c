/* Channels in kernels of asynchronous units: a shared tile that crosses from one role to another,
 * or comes by TMA, has two mbarriers per slot, "full" and "empty". A tile that a role keeps to
 * itself (an epilogue through shared memory) needs barriers among the threads that share it, and
 * tells others when it is free only where one of them wants its bytes.
 */
#include "translate/emit.h"

#include <string.h>

static const tl_statement *role_of(const tl_statement *s) {
    return tl_role_of(s);
}

static emit_role *role_named(emit *t, const tl_statement *role) {
    for (int i = 0; i < t->roles.count; i++) {
        if (t->roles.items[i].statement == role) return &t->roles.items[i];
    }
    return NULL;
}

static bool is_of(emit *t, const tl_expr *name, const emit_tile *tile) {
    return emit_tile_of(t, name) == tile;
}

/* The tile, or a part of it. */
static bool is_within(emit *t, const tl_expr *name, const emit_tile *tile) {
    emit_tile *named = emit_tile_of(t, name);
    return named && emit_whole(named) == tile;
}

/* --- what the statements do with a tile ------------------------------------------------------- */

static void note_copy(emit *t, const tl_statement *s, emit_tile *tile) {
    tl_end from = tl_copy_source(s), to = tl_copy_target(s);
    bool by_tma = str_is(s->copy.atom, "tma");
    if (to.space == TL_SHARED && to.symbol == tile->symbol) {
        tile->filler = role_named(t, role_of(s));
        if (by_tma) tile->by_tma = true;
        else tile->by_threads = true;
        if (!by_tma && s->copy.is_async) tile->lands_late = true;
        bool by_rows = false;
        const emit_tile *source =
            from.space == TL_REGISTER ? emit_tile_in(t, from.symbol, TL_REGISTER) : NULL;
        if (source && !source->is_vector && !source->shape.is_lines)
            by_rows =
                layout_warp_copies(&source->layout) == 1 && source->layout.spread[0].count == 1;
        tile->is_shared_out = by_rows;
        tile->is_by_warps = by_rows && source->shape.down == 1;
    }
    if (s->copy.from == TL_SHARED && emit_is_in(from.symbol, tile)) {
        if (by_tma) tile->goes_async = true;
        else tile->is_loaded = true;
    }
}

/* Does each executor take the rows alone that it writes itself? A left operand is divided as the
 * result's rows are; turned, or on the right, or for executors side by side, all of it is read by
 * all.
 */
static bool takes_own_rows(emit *t, const tl_statement *s, int operand) {
    const tl_expr *written = tl_written_name(s);
    const emit_tile *result = written ? emit_tile_in(t, written->symbol, TL_REGISTER) : NULL;
    if (!result || operand != 0 || s->compute.operands[0].is_transposed) return false;
    const tl_layout *said = &result->tile->allocation->allocate.layout;
    return !said->over_rows || said->over_columns <= 1;
}

static void note_product(emit *t, const tl_statement *s, int operand, emit_tile *tile) {
    tile->is_multiplied = true;
    if (s->compute.is_async) tile->goes_async = true;
    else tile->is_loaded = true;
    if (!takes_own_rows(t, s, operand)) tile->is_read_by_all = true;
}

static void note_uses(emit *t, emit_tile *tile) {
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COPY) note_copy(t, s, tile);
        if (s->kind != TL_COMPUTE) continue;
        for (int i = 0; i < s->compute.operand_count; i++) {
            if (s->compute.operands[i].value->kind != TL_NAME) continue;
            if (!is_within(t, s->compute.operands[i].value, tile)) continue;
            note_product(t, s, i, tile);
        }
    }
    if (tile->is_loaded || tile->by_tma || tile->is_read_by_all) tile->is_shared_out = false;
    /* A warpgroup multiplies the rows of all its warps. */
    if (tile->is_multiplied) tile->is_by_warps = false;
}

bool emit_waits_for(emit *t, const emit_role *role, const emit_tile *tile) {
    tl_statement *within = (tl_statement *)(uintptr_t)role->statement;
    for (tl_statement *s = within->role.body.first; s; s = tl_next(s, within)) {
        if (s->kind == TL_WAIT && is_of(t, s->sync.what, tile)) return true;
    }
    return false;
}

/* Does every Release follow the Wait before it, in the order of the text, on every way? */
static bool alternates(emit *t, const tl_block *block, const emit_tile *tile, int *held) {
    for (const tl_statement *s = block->first; s; s = s->next) {
        int before = *held;
        if (s->kind == TL_WAIT && is_of(t, s->sync.what, tile)) {
            if ((*held)++) return false;
        } else if (s->kind == TL_RELEASE && is_of(t, s->sync.what, tile)) {
            if (!(*held)--) return false;
        } else if (s->kind == TL_FOR || s->kind == TL_IF) {
            const tl_block *body = s->kind == TL_FOR ? &s->loop.body : &s->branch.body;
            if (!alternates(t, body, tile, held) || *held != before) return false;
        }
    }
    return true;
}

bool emit_holds_one(emit *t, const tl_block *block, const emit_tile *tile) {
    int held = 0;
    return alternates(t, block, tile, &held);
}

/* Are stores by TMA all that the role does with it? Then who issues them knows when they end. */
static bool is_only_stored(const emit_tile *tile, const emit_role *r) {
    return tile->goes_async && !tile->is_loaded && !tile->is_multiplied && r == tile->filler;
}

/* One who waits: a role, for the tile or a part of it by name. */
static void count_reader(emit *t, emit_tile *tile, const emit_role *r, const emit_tile *named) {
    if (!emit_waits_for(t, r, named)) return;
    if (r != tile->filler) tile->crosses = true;
    bool stores_only = is_only_stored(tile, r);
    tile->holds_several |= !emit_holds_one(t, &r->statement->role.body, named);
    tile->empty_arrivals += r->is_single          ? 1
                            : tile->is_loaded     ? r->threads
                            : !stores_only        ? r->warps
                            : tile->is_shared_out ? r->executors
                                                  : 1;
}

static void count_arrivals(emit *t, emit_tile *tile) {
    for (int i = 0; i < t->roles.count; i++) {
        const emit_role *r = &t->roles.items[i];
        count_reader(t, tile, r, tile);
        for (int k = 0; k < t->parts.count; k++) {
            emit_tile *part = t->parts.items[k];
            if (emit_whole(part) == tile) count_reader(t, tile, r, part);
        }
    }
    if (tile->by_tma) tile->crosses = true;
    tile->frees |= tile->crosses;
    bool alone = !tile->filler || (tile->by_tma && !tile->by_threads);
    tile->full_arrivals = alone ? 1 : tile->filler->threads;
}

static bool reads(emit *t, const emit_role *r, const emit_tile *tile) {
    bool found = emit_waits_for(t, r, tile);
    for (int k = 0; k < t->parts.count; k++) {
        emit_tile *part = t->parts.items[k];
        found |= emit_whole(part) == tile && emit_waits_for(t, r, part);
    }
    return found;
}

static void find_partner(emit *t, emit_tile *tile) {
    if (!tile->base || tile->base->filler == tile->filler || !tile->filler) return;
    emit_tile *other = tile->base;
    if (other->partner) {
        emit_unsupported(t, tile->tile->allocation->range, tile->name,
                         "at most two tiles of different roles take turns in one place");
        return;
    }
    tile->partner = other, other->partner = tile;
    tile->frees = other->frees = true;
    /* The one whose reader fills the other comes first. */
    tile->is_first_partner = reads(t, other->filler, tile);
    other->is_first_partner = !tile->is_first_partner;
}

/* Written by threads of the role that stores it by TMA, and in nobody's place. */
static bool is_stored_out(emit *t, const emit_tile *tile) {
    for (int i = 0; i < t->tiles.count; i++) {
        if (t->tiles.items[i]->base == tile) return false;
    }
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COPY && s->copy.from == TL_SHARED && s->copy.to == TL_GLOBAL &&
            tl_copy_source(s).symbol == tile->symbol && str_is(s->copy.atom, "tma"))
            return tile->filler && tl_role_of(s) == tile->filler->statement && !tile->by_tma;
    }
    return false;
}

void emit_plan_channels(emit *t) {
    for (int i = 0; i < t->tiles.count; i++) {
        if (t->tiles.items[i]->space == TL_SHARED) note_uses(t, t->tiles.items[i]);
    }
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        count_arrivals(t, tile);
        find_partner(t, tile);
        tile->by_mbarrier = false;
    }
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        tile->waits_late = !tile->frees && tile->goes_async && tile->stages == 1 && !tile->base &&
                           is_stored_out(t, tile);
        /* A warp's rows pay as one box; in several panels they would be many small ones. */
        tile->is_by_warps =
            tile->is_by_warps && tile->is_shared_out && tile->waits_late && tile->store.panels <= 1;
    }
}

/* --- declarations ----------------------------------------------------------------------------- */

static void init(emit *t, const emit_tile *tile, emit_fact which, int arrivals, const char *what) {
    emit_text(t, "ftl_mbarriers_init<%d>(shared + %.*s, %d); // %.*s %s", tile->stages,
              STR_ARGS(emit_fact_of(t, tile, which)), arrivals, STR_ARGS(tile->symbol->name), what);
}

void emit_init_channels(emit *t) {
    bool any = t->grid && t->grid->grid.kind == TL_GRID_DYNAMIC;
    for (int i = 0; i < t->tiles.count; i++) any |= t->tiles.items[i]->frees;
    if (!any) return;
    emit_open(t, "if (threadIdx.x == 0) {");
    emit_init_walk(t);
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->crosses) init(t, tile, FACT_FULL, tile->full_arrivals, "has landed");
        if (tile->frees) init(t, tile, FACT_EMPTY, tile->empty_arrivals, "is free again");
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
    if (!emit_waits_for(t, t->now, tile)) return;
    if (tile->crosses) declare_ring(t, tile, "held", tile->stages - 1, 0, "the generation held");
    else if (rings) declare(t, tile, "slot", tile->stages - 1, "of the generation held");
    if (rings && tile->holds_several) declare(t, tile, "oldest", 0, "slot of the oldest one held");
}

void emit_declare_channels(emit *t) {
    for (int i = 0; i < t->parts.count; i++) declare_cursor(t, t->parts.items[i]);
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        bool rings = tile->stages > 1;
        declare_cursor(t, tile);
        if (tile->filler != t->now) continue;
        if (tile->crosses) declare_ring(t, tile, "fill", 0, 1, "the next copy");
        else if (rings) declare(t, tile, "fill", 0, "slot of the next copy");
        if (tile->partner)
            declare(t, tile, "place_parity", tile->is_first_partner, "of the other's barrier");
    }
}

/* Slots of a tile with full barriers are held and filled by an ftl_ring each; others have numbers.
 */
static bool is_in_ring(const emit_tile *tile, const char *which) {
    return tile->crosses && strcmp(which, "oldest") != 0;
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
    bool is_of_warp = tile->is_by_warps || t->now->executor_warps == 1;
    if (tile->is_shared_out && is_of_warp) emit_text(t, "ftl_warp_barrier();");
    else emit_text(t, "%.*s", STR_ARGS(emit_meeting(t, tile->is_shared_out)));
}

str emit_issuer(emit *t, const emit_tile *stored) {
    const emit_role *r = t->now;
    bool of_executor = stored && stored->is_shared_out;
    if (r->is_single) return (str){0};
    if (r->warps == 1 || (of_executor && r->executor_warps == 1)) return STR("lane == 0");
    if (of_executor && stored->is_by_warps) return STR("lane == 0");
    if (!of_executor || r->executors == 1) return STR("lane == 0 && warp == 0");
    return emit_format(t, "lane == 0 && warp %% %d == 0", r->executor_warps);
}

/* What threads write, an asynchronous unit sees past a proxy fence only. A Copy that has landed
 * when it ends has it behind it (emit_channel_fill); one by cp.async lands when nobody looks, so
 * there the fence stands behind the Wait, which is the first to know, and ordered behind the
 * landing.
 */
void emit_channel_wait(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    if (tile->crosses) {
        emit_text(t, "%.*s.wait(shared + %.*s);", STR_ARGS(part(t, tile, "held")),
                  STR_ARGS(emit_fact_of(t, tile, FACT_FULL)));
    } else {
        advance(t, tile, "slot");
        if (sync && sync->groups_pending >= 0)
            emit_text(t, "ftl_cp_async_wait<%d>();", sync->groups_pending);
        if (!sync || sync->barrier_before) emit_meet(t, tile);
    }
    if (tile->goes_async && tile->lands_late) emit_text(t, "ftl_fence_async();");
    if (tile->stages > 1 && tile->is_loaded) {
        emit_text(t, "%.*s = shared + %.*s + %.*s;", STR_ARGS(tile->name),
                  STR_ARGS(emit_slot_place(t, tile, 0)),
                  STR_ARGS(emit_slot_bytes(t, tile, "slot", 1)));
    }
}

void emit_channel_release(emit *t, const tl_statement *s, const emit_tile *tile) {
    (void)s;
    const char *which = tile->holds_several ? "oldest" : "slot";
    bool stores_only = is_only_stored(tile, t->now);
    if (tile->frees) {
        /* What threads loaded themselves each of them releases: an order from lane to lane by way
         * of one that arrives for all is right, but tools that look for races do not see it.
         */
        str issuer = stores_only ? emit_issuer(t, tile) : STR("lane == 0");
        if (t->now->is_single || tile->is_loaded) issuer = (str){0};
        str barrier = emit_barrier_of(t, tile, FACT_EMPTY, which);
        if (issuer.length)
            emit_text(t, "if (%.*s) ftl_mbarrier_signal(%.*s);", STR_ARGS(issuer),
                      STR_ARGS(barrier));
        else emit_text(t, "ftl_mbarrier_signal(%.*s);", STR_ARGS(barrier));
    }
    if (tile->holds_several) advance(t, tile, "oldest");
}

static void wait_stores(emit *t, const emit_tile *tile);

/* Before a Copy fills the next slot: until it is free, and its bytes are not the other tile's. */
void emit_channel_acquire(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    if (tile->partner) {
        str parity = part(t, tile, "place_parity");
        emit_text(t, "ftl_mbarrier_try_wait(shared + %.*s, %.*s);",
                  STR_ARGS(emit_fact_of(t, tile->partner, FACT_EMPTY)), STR_ARGS(parity));
        emit_text(t, "%.*s ^= 1;", STR_ARGS(parity));
    }
    if (tile->crosses) {
        str empty = emit_fact_of(t, tile, FACT_EMPTY), announced = {0};
        if (str_is(s->copy.atom, "tma") && !tile->by_threads)
            announced =
                emit_format(t, ", shared + %.*s, %.*s", STR_ARGS(emit_fact_of(t, tile, FACT_FULL)),
                            STR_ARGS(emit_fact_of(t, tile, FACT_BYTES)));
        emit_text(t, "%.*s.acquire(shared + %.*s%.*s);", STR_ARGS(part(t, tile, "fill")),
                  STR_ARGS(empty), STR_ARGS(announced));
    } else if (tile->waits_late) {
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
    } else if (tile->waits_late) {
        emit_text(t, "// (before these bytes are written again)");
    } else {
        wait_stores(t, tile);
    }
}

void emit_end_stores(emit *t) {
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->space == TL_SHARED && tile->waits_late && tile->filler == t->now)
            wait_stores(t, tile);
    }
}

/* Behind it. Copies by TMA arrive by themselves. */
void emit_channel_fill(emit *t, const tl_statement *s, const emit_tile *tile) {
    const check_sync *sync = check_sync_of(t->facts, s);
    if (!str_is(s->copy.atom, "tma")) {
        if (tile->goes_async && !s->copy.is_async) emit_text(t, "ftl_fence_async();");
        if (tile->crosses) {
            emit_text(t, "%s(%.*s);",
                      s->copy.is_async ? "ftl_mbarrier_arrive_after_copies" : "ftl_mbarrier_signal",
                      STR_ARGS(emit_barrier_of(t, tile, FACT_FULL, "fill")));
        } else if (s->copy.is_async && sync && sync->commits) {
            emit_text(t, "ftl_cp_async_commit();");
        }
    }
    if (tile->crosses) emit_text(t, "%.*s.next();", STR_ARGS(part(t, tile, "fill")));
    else advance(t, tile, "fill");
}
