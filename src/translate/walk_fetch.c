/* Dynamic grids: who fetches the next tile's number, and how the other roles learn of it.
 *
 * A dynamic grid has a counter in global memory. One thread of the block fetches a number when it
 * needs it and publishes it through two slots in shared memory with a full and an empty barrier
 * each. It runs ahead of the others as far as tiles have slots; fetching earlier would give long
 * tiles to blocks that are busy. Where it works out the next tile's indices anyway, and products
 * leave the other roles no time for them, it publishes them, too. The last block to end
 * sets the counters back.
 */
#include "translate/walk.h"

enum {
    SLOTS = CHECK_NUMBER_SLOTS,
    NUMBER_BYTES = CHECK_NUMBER_BYTES,
    BARRIER_BYTES = CHECK_MBARRIER_BYTES,
    UNIT_BYTES = CHECK_NUMBER_UNIT_BYTES,
    UNIT_NUMBERS = UNIT_BYTES / NUMBER_BYTES,
    /* An element: from there on products take longer than what is made of their results, and hide
     * how indices are worked out; it is not worth the loading thread's time then. */
    MULTIPLICATIONS_MOST = 256,
};

bool walk_is_dynamic(const emit *t) {
    return t->model->grid && t->model->grid->grid.kind == TL_GRID_DYNAMIC;
}

/* A role of one thread, or the first warp of the first role. */
static const model_role *fetcher(const emit *t) {
    for (int i = 0; i < t->model->role_count; i++) {
        if (t->model->roles[i].is_single) return &t->model->roles[i];
    }
    return &t->model->roles[0];
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
static int64_t multiplications(emit *t, const model_role *r) {
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
    const model_role *r = fetcher(t);
    int numbers = t->model->grid ? 1 + t->model->grid->grid.count : 0;
    int units = (numbers + UNIT_NUMBERS - 1) / UNIT_NUMBERS;
    if (walk_is_searched(t)) return units;
    if (!walk_is_dynamic(t) || !r->is_single || t->model->role_count < 2) return 0;
    bool asks = false;
    for (const tl_statement *s = r->statement->role.body.first; s; s = s->next)
        asks |=
            s->kind == TL_FOR && s->loop.is_grid_walk && walk_asks(&s->loop.body, TL_FUNCTION_NEXT);
    for (int i = 0; i < t->model->role_count; i++)
        asks = asks && multiplications(t, &t->model->roles[i]) < MULTIPLICATIONS_MOST;
    return asks ? units : 0;
}

bool walk_publishes_indices(emit *t) {
    return fetches_alone(t) && walk_units(t) > 0 && !walk_is_searched(t);
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

/* Named so that no tile's fact is (emit_fact_of). */
void emit_walk_facts(emit *t, str kernel_text, text_buffer *out) {
    if (!emit_mentions(kernel_text, STR("at::numbers"))) return;
    long long full = t->walk.offset_bytes, empty = full + SLOTS * BARRIER_BYTES;
    text_format(out,
                "    numbers_there = %lld, numbers_read = %lld, numbers = %lld, // "
                "of the next tiles, %d slots of %d\n",
                full, empty, empty + SLOTS * BARRIER_BYTES, SLOTS, slot_bytes(t));
}

void emit_init_walk(emit *t) {
    if (!walk_is_dynamic(t)) return;
    int readers = 0;
    for (int i = 0; i < t->model->role_count; i++) {
        const model_role *r = &t->model->roles[i];
        bool alone = r == fetcher(t) && r->is_single;
        if (!alone) readers += r->is_single ? 1 : r->threads;
    }
    emit_text(t, "ftl_mbarriers_init<%d>(shared + at::numbers_there, 1); // the next tile's number",
              SLOTS);
    emit_text(t, "ftl_mbarriers_init<%d>(shared + at::numbers_read, %d); // and was read", SLOTS,
              readers ? readers : 1);
}

static bool hands_on(const emit *t) {
    return t->model->role_count > 1 || !fetcher(t)->is_single;
}

void emit_start_walk(emit *t) {
    if (!walk_is_dynamic(t) || !hands_on(t)) return;
    if (walk_fetches(t)) {
        emit_declare(t, STR("number_fill"), "ftl_ring<%d> number_fill = {0, 1};", SLOTS);
    }
    if (fetches_alone(t)) return;
    emit_declare(t, STR("number_held"), "ftl_ring<%d> number_held = {%d, 0};", SLOTS, SLOTS - 1);
}

/* What the index of the tile that is published is called. */
static str published_name(emit *t, int index) {
    const emit_walk *w = &t->walk;
    if (walk_is_searched(t)) return emit_format(t, "tile_found[%d]", index);
    for (int i = 0; i < w->next_names.count; i++)
        if (w->next_names.items[i].of == t->model->grid->grid.items[index].symbol)
            return w->next_names.items[i].name;
    return STR("0");
}

static void publish(emit *t, const char *number) {
    if (!hands_on(t)) return;
    bool has_indices = walk_publishes_indices(t) || walk_is_searched(t);
    emit_text(t, "number_fill.acquire(shared + at::numbers_read);");
    emit_text(t, "ftl_store_shared_i32(shared + at::numbers + %d * number_fill.slot, %s);",
              slot_bytes(t), number);
    for (int i = 0; has_indices && i < t->model->grid->grid.count; i++) {
        emit_text(
            t, "ftl_store_shared_i32(shared + (at::numbers + %d) + %d * number_fill.slot, %.*s);",
            NUMBER_BYTES * (1 + i), slot_bytes(t), STR_ARGS(published_name(t, i)));
    }
    /* Units are read whole. */
    for (int i = 1 + t->model->grid->grid.count; has_indices && i % UNIT_NUMBERS; i++) {
        emit_text(t,
                  "ftl_store_shared_i32(shared + (at::numbers + %d) + %d * number_fill.slot, 0);",
                  NUMBER_BYTES * i, slot_bytes(t));
    }
    emit_text(t, "ftl_mbarrier_signal(number_fill.of(shared + at::numbers_there));");
}

static void turn_fill(emit *t) {
    emit_text(t, "number_fill.next();");
}

void walk_read_number(emit *t, const char *target) {
    bool early = t->walk.reads_early || walk_is_searched(t);
    emit_text(t, "number_held.wait(shared + at::numbers_there);");
    for (int i = 0; early && i < walk_units(t); i++) {
        emit_text(
            t,
            "ftl_load_shared_16_i32(%s[%d], shared + (at::numbers + %d) + %d * number_held.slot);",
            target, i, UNIT_BYTES * i, slot_bytes(t));
    }
    if (!early || !walk_units(t)) {
        emit_text(t, "%s = %sftl_load_shared_i32(shared + at::numbers + %d * number_held.slot)%s;",
                  target, early ? "" : "ftl_uniform(", slot_bytes(t), early ? "" : ")");
    }
    /* Each thread says that it has read, as for tiles that threads load (emit_channel_release). */
    emit_text(t,
              t->now->is_single
                  ? "ftl_mbarrier_signal(number_held.of(shared + at::numbers_read));"
                  : "ftl_mbarrier_signal_each(number_held.of(shared + at::numbers_read), lane);");
}

static bool lets_mention(const emit *t, const tl_walk *walk) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
            if (tl_expr_mentions(s->let.items[i].value, walk->symbol)) return true;
    return false;
}

/* What bounds of loops are made of is made one for the warp, as the number is: the compiler knows
 * then that branches on it are the same for all lanes.
 */
str walk_taken_indices(emit *t) {
    str all = {0};
    for (int i = 0; i < t->model->grid->grid.count; i++) {
        bool is_bound = lets_mention(t, &t->model->grid->grid.items[i]);
        str index =
            emit_format(t, "tile_known[%d][%d]", (1 + i) / UNIT_NUMBERS, (1 + i) % UNIT_NUMBERS);
        if (fetches_alone(t)) index = published_name(t, i);
        else if (is_bound) index = emit_format(t, "ftl_uniform(%.*s)", STR_ARGS(index));
        all = emit_format(t, "%.*s%s%.*s", STR_ARGS(all), i ? ", " : "", STR_ARGS(index));
    }
    return all;
}

static void publish_and_turn(emit *t, const char *number) {
    publish(t, number);
    if (hands_on(t)) turn_fill(t);
}

void walk_publish(emit *t) {
    publish_and_turn(t, "tile_next");
}

/* Declares the number that comes next, or 'first', the block's first one, of a searched grid.
 * Numbers past the end of a walk that is shorter than others are nobody's.
 */
static void fetch(emit *t, const char *name, const char *first) {
    if (walk_is_searched(t)) {
        emit_text(t, "const int %s = tile_find(%s, searched, tile_found);", name,
                  first ? first : "ftl_fetch_tile(args.tile_counters)");
        return;
    }
    if (!walk_is_ragged(t)) {
        emit_text(t, "const int %s = ftl_fetch_tile(args.tile_counters);", name);
        return;
    }
    emit_text(t, "int %s = ftl_fetch_tile(args.tile_counters);", name);
    emit_text(t, "while (%s < args.tiles && !tile_exists(tile_at(%s)))", name, name);
    emit_text(t, "    %s = ftl_fetch_tile(args.tile_counters);", name);
}

/* By one thread of the role, for all of them. */
static void fetch_for_all(emit *t, const char *first) {
    emit_open(t, "if (lane == 0 && warp == 0) {");
    if (walk_is_searched(t)) emit_text(t, "int tile_found[%d] = {};", t->model->grid->grid.count);
    fetch(t, "tile_fetched", first);
    publish(t, "tile_fetched");
    emit_close(t);
    turn_fill(t);
}

void walk_begin_search(emit *t) {
    const char *first = "(int)blockIdx.x";
    if (walk_fetches(t)) emit_text(t, "tile_search searched = {0, 0};");
    if (fetches_alone(t)) {
        emit_text(t, "int tile_found[%d] = {};", t->model->grid->grid.count);
        fetch(t, "tile_first", first);
        publish_and_turn(t, "tile_first");
        emit_text(t, "int tile_number = tile_first;");
        return;
    }
    emit_text(t, "int tile_known[%d][4]; // the tile's number and indices", walk_units(t));
    if (walk_fetches(t)) fetch_for_all(t, first);
    walk_read_number(t, "tile_known");
    emit_text(t, "int tile_number = ftl_uniform(tile_known[0][0]);");
}

void walk_fetch_known(emit *t) {
    fetch_for_all(t, NULL);
    walk_read_number(t, "tile_known");
}

void walk_fetch_next(emit *t) {
    bool is_known = t->walk.reads_early || t->walk.fetches_early;
    if (fetches_alone(t)) {
        fetch(t, "tile_next", NULL);
        if (!walk_publishes_indices(t)) walk_publish(t);
        return;
    }
    if (!is_known && walk_fetches(t)) fetch_for_all(t, NULL);
    if (!is_known && !walk_is_searched(t)) {
        walk_read_number(t, "const int tile_next");
        return;
    }
    if (!is_known) walk_read_number(t, "tile_known");
    emit_text(t, "const int tile_next = ftl_uniform(tile_known%s);", walk_units(t) ? "[0][0]" : "");
}

void walk_end_fetching(emit *t) {
    if (!walk_is_dynamic(t) || !walk_fetches(t)) return;
    if (!t->now->is_single) emit_text(t, "if (lane == 0 && warp == 0)");
    emit_text(t, "%sftl_end_tiles(args.tile_counters);", t->now->is_single ? "" : "    ");
}
