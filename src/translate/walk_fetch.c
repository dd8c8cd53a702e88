/* Dynamic grids: who fetches the next tile's number, and how the other roles learn of it.
 *
 * A dynamic grid has a counter in global memory. One thread of the block fetches a number when it
 * needs it and hands it on through two slots in shared memory with a full and an empty barrier
 * each. It runs ahead of the others as far as tiles have slots; fetching earlier would give long
 * tiles to blocks that are busy. The last block to end sets the counters back.
 */
#include "translate/walk.h"

enum { SLOTS = 2, NUMBER_BYTES = 4, BARRIER_BYTES = 8 };

bool walk_is_dynamic(const emit *t) {
    return t->grid && t->grid->grid.kind == TL_GRID_DYNAMIC;
}

/* A role of one thread, or the first warp of the first role. */
static const emit_role *fetcher(const emit *t) {
    for (int i = 0; i < t->roles.count; i++) {
        if (t->roles.items[i].is_single) return &t->roles.items[i];
    }
    return &t->roles.items[0];
}

bool walk_fetches(const emit *t) {
    return t->now == fetcher(t);
}

static bool fetches_alone(const emit *t) {
    return walk_fetches(t) && t->now->is_single;
}

void emit_plan_walk(emit *t, int64_t *offset_bytes) {
    if (!walk_is_dynamic(t)) return;
    t->walk.offset_bytes = (*offset_bytes + BARRIER_BYTES - 1) / BARRIER_BYTES * BARRIER_BYTES;
    *offset_bytes = t->walk.offset_bytes + SLOTS * (2 * BARRIER_BYTES + NUMBER_BYTES);
}

static long long full_at(const emit *t) {
    return (long long)t->walk.offset_bytes;
}

static long long empty_at(const emit *t) {
    return full_at(t) + SLOTS * BARRIER_BYTES;
}

static long long number_at(const emit *t) {
    return empty_at(t) + SLOTS * BARRIER_BYTES;
}

void emit_init_walk(emit *t) {
    if (!walk_is_dynamic(t)) return;
    int readers = 0;
    for (int i = 0; i < t->roles.count; i++) {
        const emit_role *r = &t->roles.items[i];
        bool alone = r == fetcher(t) && r->is_single;
        if (!alone) readers += r->is_single ? 1 : r->warps;
    }
    emit_open(t, "if (threadIdx.x == 0) {");
    for (int slot = 0; slot < SLOTS; slot++) {
        emit_text(t, "ftl_mbarrier_init(shared + %lld, 1); // the next tile's number is there",
                  full_at(t) + BARRIER_BYTES * slot);
        emit_text(t, "ftl_mbarrier_init(shared + %lld, %d); // and was read",
                  empty_at(t) + BARRIER_BYTES * slot, readers ? readers : 1);
    }
    emit_text(t, "ftl_mbarrier_init_fence();");
    emit_close(t);
}

static bool hands_on(const emit *t) {
    return t->roles.count > 1 || !fetcher(t)->is_single;
}

void emit_start_walk(emit *t) {
    if (!walk_is_dynamic(t) || !hands_on(t)) return;
    if (walk_fetches(t)) {
        emit_declare(t, STR("tile_fill"), "unsigned tile_fill = 0;");
        emit_declare(t, STR("tile_fill_parity"), "unsigned tile_fill_parity = 1;");
    }
    if (fetches_alone(t)) return;
    emit_declare(t, STR("tile_slot"), "unsigned tile_slot = 1;");
    emit_declare(t, STR("tile_parity"), "unsigned tile_parity = 1;");
}

static void hand_on(emit *t, const char *number) {
    if (!hands_on(t)) return;
    emit_text(t, "ftl_mbarrier_try_wait(shared + %lld + 8 * tile_fill, tile_fill_parity);",
              empty_at(t));
    emit_text(t, "ftl_store_shared_i32(shared + %lld + 4 * tile_fill, %s);", number_at(t), number);
    emit_text(t, "ftl_mbarrier_signal(shared + %lld + 8 * tile_fill);", full_at(t));
}

static void turn_fill(emit *t) {
    emit_text(t, "tile_fill ^= 1;");
    emit_text(t, "tile_fill_parity ^= tile_fill == 0;");
}

void walk_read_number(emit *t, const char *target) {
    bool early = t->walk.reads_early;
    emit_text(t, "tile_slot = tile_slot == 1 ? 0 : tile_slot + 1;");
    emit_text(t, "tile_parity ^= tile_slot == 0;");
    emit_text(t, "ftl_mbarrier_try_wait(shared + %lld + 8 * tile_slot, tile_parity);", full_at(t));
    emit_text(t, "%s = %sftl_load_shared_i32(shared + %lld + 4 * tile_slot)%s;", target,
              early ? "" : "ftl_uniform(", number_at(t), early ? "" : ")");
    str signal = emit_format(t, "ftl_mbarrier_signal(shared + %lld + 8 * tile_slot);", empty_at(t));
    if (t->now->is_single) emit_text(t, "%.*s", STR_ARGS(signal));
    if (t->now->is_single) return;
    emit_text(t, "ftl_warp_barrier();");
    emit_text(t, "if (lane == 0) %.*s", STR_ARGS(signal));
}

void walk_fetch_next(emit *t) {
    if (fetches_alone(t)) {
        emit_text(t, "const int tile_next = ftl_fetch_tile(args.tile_counters);");
        hand_on(t, "tile_next");
        if (hands_on(t)) turn_fill(t);
        return;
    }
    if (t->walk.reads_early) {
        emit_text(t, "const int tile_next = ftl_uniform(tile_known);");
        return;
    }
    if (walk_fetches(t)) {
        emit_open(t, "if (lane == 0 && warp == 0) {");
        emit_text(t, "const int tile_fetched = ftl_fetch_tile(args.tile_counters);");
        hand_on(t, "tile_fetched");
        emit_close(t);
        turn_fill(t);
    }
    walk_read_number(t, "const int tile_next");
}

void walk_end_fetching(emit *t) {
    if (!walk_is_dynamic(t) || !walk_fetches(t)) return;
    if (!t->now->is_single) emit_text(t, "if (lane == 0 && warp == 0)");
    emit_text(t, "%sftl_end_tiles(args.tile_counters);", t->now->is_single ? "" : "    ");
}
