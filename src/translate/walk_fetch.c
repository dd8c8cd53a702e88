/* Dynamic grids: who fetches the next tile's number, and how the other roles learn of it.
 *
 * A dynamic grid has a counter in global memory. One thread of the block fetches a number when it
 * needs it and hands it on through two slots in shared memory with a full and an empty barrier
 * each. It runs ahead of the others as far as tiles have slots; fetching earlier would give long
 * tiles to blocks that are busy. Where it works out the next tile's indices anyway, and products
 * leave the other roles no time for them, it hands them on beside the number. The last block to end
 * sets the counters back.
 */
#include "translate/walk.h"

enum {
    SLOTS = 2,
    NUMBER_BYTES = 4,
    BARRIER_BYTES = 8,
    UNIT_BYTES = 16,
    UNIT_NUMBERS = 4,
    /* An element: from there on products take longer than what is made of their results, and hide
     * how indices are worked out; it is not worth the loading thread's time then. */
    MULTIPLICATIONS_MOST = 256,
};

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

static bool is_in_loop(const tl_statement *s) {
    for (; s; s = s->parent)
        if (s->kind == TL_FOR && !s->loop.is_grid_walk) return true;
    return false;
}

/* Multiplications that a role's loops make for each element of their first product. */
static int64_t multiplications(emit *t, const emit_role *r) {
    tl_statement *role = (tl_statement *)(uintptr_t)r->statement;
    int64_t all = 0, first = 0;
    for (tl_statement *s = role->role.body.first; s; s = tl_next(s, role)) {
        bool is_product = s->kind == TL_COMPUTE && s->compute.operation == TL_GEMM && is_in_loop(s);
        const emit_tile *to = is_product ? emit_target_of(t, s) : NULL;
        const emit_tile *left = to ? emit_tile_of(t, s->compute.operands[0].value) : NULL;
        if (!left) continue;
        if (first == 0) first = to->columns;
        all += (int64_t)to->columns * left->columns;
    }
    return first > 0 ? all / first : 0;
}

int walk_units(emit *t) {
    const emit_role *r = fetcher(t);
    if (!walk_is_dynamic(t) || !r->is_single || t->roles.count < 2) return 0;
    bool asks = false;
    for (const tl_statement *s = r->statement->role.body.first; s; s = s->next)
        asks |=
            s->kind == TL_FOR && s->loop.is_grid_walk && walk_asks(&s->loop.body, TL_FUNCTION_NEXT);
    for (int i = 0; i < t->roles.count; i++)
        asks = asks && multiplications(t, &t->roles.items[i]) < MULTIPLICATIONS_MOST;
    return asks ? (1 + t->grid->grid.count + UNIT_NUMBERS - 1) / UNIT_NUMBERS : 0;
}

bool walk_hands_indices(emit *t) {
    return fetches_alone(t) && walk_units(t) > 0;
}

static int slot_bytes(emit *t) {
    int units = walk_units(t);
    return units ? units * UNIT_BYTES : NUMBER_BYTES;
}

void emit_plan_walk(emit *t, int64_t *offset_bytes) {
    if (!walk_is_dynamic(t)) return;
    int64_t unit = walk_units(t) ? UNIT_BYTES : BARRIER_BYTES;
    t->walk.offset_bytes = (*offset_bytes + unit - 1) / unit * unit;
    *offset_bytes = t->walk.offset_bytes + SLOTS * (2 * BARRIER_BYTES + slot_bytes(t));
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
        if (!alone) readers += r->is_single ? 1 : r->threads;
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

/* What the next tile's index is called. */
static str next_name_of(const emit *t, const tl_walk *walk) {
    const emit_walk *w = &t->walk;
    for (int i = 0; i < w->next_names.count; i++)
        if (w->next_names.items[i].of == walk->symbol) return w->next_names.items[i].name;
    return STR("0");
}

static void hand_on(emit *t, const char *number) {
    if (!hands_on(t)) return;
    emit_text(t, "ftl_mbarrier_try_wait(shared + %lld + 8 * tile_fill, tile_fill_parity);",
              empty_at(t));
    emit_text(t, "ftl_store_shared_i32(shared + %lld + %d * tile_fill, %s);", number_at(t),
              slot_bytes(t), number);
    for (int i = 0; walk_hands_indices(t) && i < t->grid->grid.count; i++) {
        emit_text(t, "ftl_store_shared_i32(shared + %lld + %d * tile_fill, %.*s);",
                  number_at(t) + NUMBER_BYTES * (1 + i), slot_bytes(t),
                  STR_ARGS(next_name_of(t, &t->grid->grid.items[i])));
    }
    /* Units are read whole. */
    for (int i = 1 + t->grid->grid.count; walk_hands_indices(t) && i % UNIT_NUMBERS; i++) {
        emit_text(t, "ftl_store_shared_i32(shared + %lld + %d * tile_fill, 0);",
                  number_at(t) + NUMBER_BYTES * i, slot_bytes(t));
    }
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
    for (int i = 0; early && i < walk_units(t); i++) {
        emit_text(t, "ftl_load_shared_16_i32(%s[%d], shared + %lld + %d * tile_slot);", target, i,
                  number_at(t) + UNIT_BYTES * i, slot_bytes(t));
    }
    if (!early || !walk_units(t)) {
        emit_text(t, "%s = %sftl_load_shared_i32(shared + %lld + %d * tile_slot)%s;", target,
                  early ? "" : "ftl_uniform(", number_at(t), slot_bytes(t), early ? "" : ")");
    }
    /* Each thread says that it has read, as for tiles that threads load (emit_channel_release). */
    emit_text(t, "ftl_mbarrier_signal(shared + %lld + 8 * tile_slot);", empty_at(t));
}

static bool mentions(const tl_expr *e, const tl_symbol *symbol, int depth) {
    if (!e || depth > TL_HEIGHT_MAX) return false;
    if (e->kind == TL_NAME && e->symbol == symbol) return true;
    if (mentions(e->left, symbol, depth + 1) || mentions(e->right, symbol, depth + 1)) return true;
    for (int i = 0; i < e->item_count; i++)
        if (mentions(e->items[i], symbol, depth + 1)) return true;
    return false;
}

static bool lets_mention(const emit *t, const tl_walk *walk) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
            if (mentions(s->let.items[i].value, walk->symbol, 0)) return true;
    return false;
}

/* What bounds of loops are made of is made one for the warp, as the number is: the compiler knows
 * then that branches on it are the same for all lanes.
 */
void walk_take_indices(emit *t, const char *suffix) {
    for (int i = 0; i < t->grid->grid.count; i++) {
        const tl_walk *walk = &t->grid->grid.items[i];
        emit_value extent = emit_walk_extent(t, walk);
        str name = emit_format(t, "%.*s%s", STR_ARGS(emit_clean(t, walk->name)), suffix);
        bool is_bound = lets_mention(t, walk);
        emit_declare(t, name, "const int %.*s = %stile_known[%d][%d]%s;", STR_ARGS(name),
                     is_bound ? "ftl_uniform(" : "", (1 + i) / UNIT_NUMBERS, (1 + i) % UNIT_NUMBERS,
                     is_bound ? ")" : "");
        emit_name_set(t, walk->symbol, name, 0, extent.high > 0 ? extent.high - 1 : 0);
    }
    emit_tile_lets(t, suffix);
}

void walk_hand_on(emit *t) {
    hand_on(t, "tile_next");
    if (hands_on(t)) turn_fill(t);
}

void walk_fetch_next(emit *t) {
    if (fetches_alone(t)) {
        emit_text(t, "const int tile_next = ftl_fetch_tile(args.tile_counters);");
        if (!walk_hands_indices(t)) walk_hand_on(t);
        return;
    }
    if (t->walk.reads_early) {
        emit_text(t, "const int tile_next = ftl_uniform(tile_known%s);",
                  walk_units(t) ? "[0][0]" : "");
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
