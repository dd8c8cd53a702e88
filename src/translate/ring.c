/* Channels by mbarrier in kernels whose warps issue and wait for each product themselves: a full
 * and an empty barrier per slot. Both count threads: each lane arrives for what it has read itself.
 * One lane could speak for its warp after a barrier of the warp, but is not faster (decision 009),
 * and racecheck follows no order through that barrier.
 *
 * Where one generation at a time is held and each Copy fills a slot at a known distance, a ring is
 * *counted*: the slot held and the parity of its barrier say where everything lies. The generation
 * n steps ahead (1 to as many as there are slots) lies n slots on, and its barrier is in another
 * phase once that has come round. Both are one number, the slot's *place*: its address, which is
 * even, and the parity in bit 0. Else each generation has numbers of its own.
 */
#include "translate/emit.h"

static const char *name_of(emit *t, const emit_tile *tile) {
    return str_copy_z(t->memory, tile->name);
}

static bool fills(const tl_statement *s, const emit_tile *tile) {
    return s->kind == TL_COPY && s->copy.to == TL_SHARED &&
           tl_copy_target(s).symbol == tile->symbol;
}

/* Does some Copy into a ring take a slot whose distance from the held one varies? */
bool emit_fills_vary(const emit *t, const emit_tile *tile) {
    for (int i = 0; i < t->facts->sync_count; i++) {
        const check_sync *sync = &t->facts->syncs[i];
        if (fills(sync->statement, tile) && sync->slots_ahead < 0) return true;
    }
    return false;
}

/* --- variables -------------------------------------------------------------------------------- */

bool emit_is_counted(emit *t, const emit_tile *tile) {
    return !emit_fills_vary(t, tile) && !tile->bound->holds_several;
}

void emit_declare_ring(emit *t, const emit_tile *tile) {
    const char *name = name_of(t, tile);
    if (tile->is_counted) {
        if (tile->stages == 1)
            emit_text(t, "unsigned %s_parity = 1; // of its barrier, the last time", name);
        return;
    }
    emit_text(t, "unsigned %s_landed = %d, %s_landed_parity = 1; // barrier of the generation held",
              name, (tile->stages - 1) * 8, name);
    emit_text(t, "unsigned %s_oldest = 0; // and of the oldest one", name);
    emit_text(t, "unsigned %s_free = 0, %s_free_parity = 1; // and of the slot to fill", name,
              name);
}

static void advance(emit *t, const char *variable, int count) {
    emit_text(t, "%s = %s == %d ? 0 : %s + 8;", variable, variable, 8 * (count - 1), variable);
}

/* Generations that a Copy is ahead of the one held: 1 to the number of slots. */
static int steps_ahead(emit *t, const tl_statement *copy) {
    return check_sync_of(t->facts, copy)->slots_ahead + 1;
}

/* The place some generations ahead of the one held. */
static str place_ahead(emit *t, const emit_tile *tile, int steps) {
    int back = tile->stages - steps;
    const char *name = name_of(t, tile);
    str step = emit_fact_of(t, tile, FACT_SLOT);
    if (back == 0) return emit_format(t, "%s ^ 1", name);
    str on = steps == 1 ? step : emit_format(t, "%d * %.*s", steps, STR_ARGS(step));
    str off = back == 1 ? step : emit_format(t, "%d * %.*s", back, STR_ARGS(step));
    return emit_format(t, "%s < shared + %.*s ? %s + %.*s : (%s ^ 1) - %.*s", name,
                       STR_ARGS(emit_slot_place(t, tile, back)), name, STR_ARGS(on), name,
                       STR_ARGS(off));
}

static str place_of_copy(emit *t, const tl_statement *copy, const emit_tile *tile) {
    if (tile->stages == 1) return tile->name;
    return emit_format(t, "(%.*s)", STR_ARGS(place_ahead(t, tile, steps_ahead(t, copy))));
}

str emit_ring_slot(emit *t, str place) {
    return emit_format(t, "(%.*s & ~1u)", STR_ARGS(place));
}

str emit_ring_target(emit *t, const tl_statement *copy, const emit_tile *tile) {
    return emit_ring_slot(t, place_of_copy(t, copy, tile));
}

/* The barrier of a slot, 8 bytes each, by the slot's place. */
static str barrier_of(emit *t, const emit_tile *tile, str place, emit_fact which) {
    str first = emit_fact_of(t, tile, which);
    if (tile->stages == 1) return emit_format(t, "shared + %.*s", STR_ARGS(first));
    return emit_format(t, "shared + %.*s + (%.*s - shared - %.*s) / %.*s", STR_ARGS(first),
                       STR_ARGS(place), STR_ARGS(emit_slot_place(t, tile, 0)),
                       STR_ARGS(emit_slot_step(t, tile, 8)));
}

/* --- statements ------------------------------------------------------------------------------- */

void emit_ring_wait(emit *t, const emit_tile *tile) {
    const char *name = name_of(t, tile);
    if (!tile->is_counted) {
        advance(t, str_copy_z(t->memory, emit_format(t, "%s_landed", name)), tile->stages);
        emit_text(t, "%s_landed_parity ^= %s_landed == 0;", name, name);
        emit_text(t, "ftl_mbarrier_wait(shared + %.*s + %s_landed, %s_landed_parity);",
                  STR_ARGS(emit_fact_of(t, tile, FACT_FULL)), name, name);
        return;
    }
    if (tile->stages == 1) {
        /* Counted, not toggled, which the compiler takes for a truth value of each thread. */
        emit_text(t, "%s_parity = %s_parity == 1 ? 0 : %s_parity + 1;", name, name, name);
        emit_text(t, "ftl_mbarrier_wait(shared + %.*s, %s_parity);",
                  STR_ARGS(emit_fact_of(t, tile, FACT_FULL)), name);
        return;
    }
    emit_text(t, "%s = %.*s;", name, STR_ARGS(place_ahead(t, tile, 1)));
    emit_text(t, "ftl_mbarrier_wait(%.*s, %s & 1);",
              STR_ARGS(barrier_of(t, tile, tile->name, FACT_FULL)), name);
}

void emit_ring_release(emit *t, const emit_tile *tile) {
    const char *name = name_of(t, tile);
    if (tile->is_counted) {
        emit_text(t, "ftl_mbarrier_arrive(%.*s);",
                  STR_ARGS(barrier_of(t, tile, tile->name, FACT_EMPTY)));
        return;
    }
    emit_text(t, "ftl_mbarrier_arrive(shared + %.*s + %s_oldest);",
              STR_ARGS(emit_fact_of(t, tile, FACT_EMPTY)), name);
    advance(t, str_copy_z(t->memory, emit_format(t, "%s_oldest", name)), tile->stages);
}

static const tl_statement *outermost(const emit *t, const tl_statement *s) {
    while (s->parent && s->parent != t->role) s = s->parent;
    return s;
}

/* Has no slot been released yet? Then those that there are to fill have never been in use. */
static bool is_fresh(emit *t, const tl_statement *copy, const emit_tile *tile) {
    tl_statement *end = outermost(t, copy)->next, *role = (tl_statement *)(uintptr_t)t->role;
    for (tl_statement *s = t->role->role.body.first; s && s != end; s = tl_next(s, role)) {
        if (s->kind == TL_RELEASE && emit_tile_of(t, s->sync.what) == tile) return false;
    }
    return true;
}

void emit_ring_acquire(emit *t, const tl_statement *s, const emit_tile *tile) {
    const char *name = name_of(t, tile);
    if (is_fresh(t, s, tile)) return;
    if (!tile->is_counted) {
        emit_text(t, "ftl_mbarrier_wait(shared + %.*s + %s_free, %s_free_parity);",
                  STR_ARGS(emit_fact_of(t, tile, FACT_EMPTY)), name, name);
        return;
    }
    str place = place_of_copy(t, s, tile);
    str barrier = barrier_of(t, tile, place, FACT_EMPTY);
    if (tile->stages == 1)
        emit_text(t, "ftl_mbarrier_wait(%.*s, %s_parity);", STR_ARGS(barrier), name);
    else emit_text(t, "ftl_mbarrier_wait(%.*s, ~%.*s & 1);", STR_ARGS(barrier), STR_ARGS(place));
}

void emit_ring_filled(emit *t, const tl_statement *s, const emit_tile *tile) {
    const char *arrive =
        s->copy.is_async ? "ftl_mbarrier_arrive_after_copies" : "ftl_mbarrier_arrive";
    const char *name = name_of(t, tile);
    if (tile->is_counted) {
        str place = place_of_copy(t, s, tile);
        emit_text(t, "%s(%.*s);", arrive, STR_ARGS(barrier_of(t, tile, place, FACT_FULL)));
        return;
    }
    emit_text(t, "%s(shared + %.*s + %s_free);", arrive, STR_ARGS(emit_fact_of(t, tile, FACT_FULL)),
              name);
    advance(t, str_copy_z(t->memory, emit_format(t, "%s_free", name)), tile->stages);
    emit_text(t, "%s_free_parity ^= %s_free == 0;", name, name);
}

void emit_init_rings(emit *t) {
    bool any = false;
    for (int i = 0; i < t->tiles.count; i++)
        any |= t->tiles.items[i]->space == TL_SHARED && t->tiles.items[i]->bound->uses_mbarrier;
    if (!any) return;
    emit_open(t, "if (threadIdx.x == 0) {");
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED || !tile->bound->uses_mbarrier) continue;
        emit_text(t, "ftl_mbarriers_init<%d>(shared + %.*s, %d); // %.*s has landed", tile->stages,
                  STR_ARGS(emit_fact_of(t, tile, FACT_FULL)), t->threads, STR_ARGS(tile->name));
        emit_text(t, "ftl_mbarriers_init<%d>(shared + %.*s, %d); // and is free again",
                  tile->stages, STR_ARGS(emit_fact_of(t, tile, FACT_EMPTY)), t->threads);
    }
    emit_close(t);
    emit_text(t, "ftl_block_barrier();");
}
