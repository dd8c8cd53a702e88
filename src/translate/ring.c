/* Rings: where the generations of a shared tile lie, and their barriers. Their statements have one
 * text (channels.c); what carries a ring on from statement to statement is one of these:
 *
 *   RING     roles, mbarriers: an ftl_ring for the generation held, one for the next copy
 *   SLOT     roles, barriers among threads: the numbers of their slots
 *   ADDRESS  one role of warps, barriers of the block: the address of the slot held
 *   PLACE    the same with mbarriers, in a *counted* ring: one generation at a time is held and
 * each Copy fills a slot at a known distance. The generation n steps ahead (1 to as many as there
 * are slots) is n slots on, and its barrier is in another phase once that has come round. Both are
 * one number: the slot's address, which is even, and the parity in bit 0 BARRIER  the same, not
 * counted: offset and parity of the barrier of each generation
 *
 * Between the warps of one role, barriers count threads: each lane arrives for what it has read
 * itself. One lane could speak for its warp after a barrier of the warp, but is not faster
 * (decision 009), and racecheck follows no order through that barrier.
 */
#include "translate/emit.h"

static const char *name_of(emit *t, const emit_tile *tile) {
    return str_copy_z(t->memory, tile->name);
}

/* --- which ------------------------------------------------------------------------------------ */

/* Does some Copy into a ring take a slot whose distance from the held one varies? */
static bool fills_vary(const emit *t, const emit_tile *tile) {
    for (int i = 0; i < t->facts->sync_count; i++) {
        const check_sync *sync = &t->facts->syncs[i];
        const tl_statement *s = sync->statement;
        bool fills = s->kind == TL_COPY && s->copy.to == TL_SHARED &&
                     tl_copy_target(s).symbol == tile->symbol;
        if (fills && sync->slots_ahead < 0) return true;
    }
    return false;
}

void emit_find_carriers(emit *t) {
    for (int i = 0; i < t->tiles.count; i++) {
        emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        bool has_barriers = tile->bound->uses_mbarrier;
        if (t->is_async) {
            tile->carrier = has_barriers ? CARRIER_RING : CARRIER_SLOT;
            continue;
        }
        bool varies = fills_vary(t, tile), is_counted = !varies && !tile->bound->holds_several;
        tile->carrier = !has_barriers ? CARRIER_ADDRESS
                        : is_counted  ? CARRIER_PLACE
                                      : CARRIER_BARRIER;
        tile->has_fill_slot = tile->stages > 1 && varies;
    }
}

/* --- variables -------------------------------------------------------------------------------- */

str emit_ring_part(emit *t, const emit_tile *tile, const char *what) {
    return emit_format(t, "%.*s_%s", STR_ARGS(tile->symbol->name), what);
}

static str fill_address(emit *t, const emit_tile *tile) {
    return emit_format(t, "%.*s_fill", STR_ARGS(tile->name));
}

static void declare_address(emit *t, const emit_tile *tile) {
    bool is_packed = tile->carrier == CARRIER_PLACE;
    int first = t->is_async || tile->stages == 1 ? 0 : tile->stages - 1;
    const char *note = "";
    if (first) note = " // slot of the generation held";
    if (first && is_packed)
        note = " // slot of the generation held; bit 0: the parity of its barrier";
    emit_declare(t, tile->name, "%sunsigned %.*s = shared + %.*s%s;%s",
                 tile->stages == 1 ? "const " : "", STR_ARGS(tile->name),
                 STR_ARGS(emit_slot_place(t, tile, first)), first && is_packed ? " + 1" : "", note);
}

static void declare_barriers(emit *t, const emit_tile *tile) {
    const char *name = name_of(t, tile);
    if (tile->carrier == CARRIER_PLACE && tile->stages == 1)
        emit_text(t, "unsigned %s_parity = 1; // of its barrier, the last time", name);
    if (tile->carrier != CARRIER_BARRIER) return;
    emit_text(t, "unsigned %s_landed = %d, %s_landed_parity = 1; // barrier of the generation held",
              name, (tile->stages - 1) * 8, name);
    emit_text(t, "unsigned %s_oldest = 0; // and of the oldest one", name);
    emit_text(t, "unsigned %s_free = 0, %s_free_parity = 1; // and of the slot to fill", name,
              name);
}

void emit_declare_addresses(emit *t) {
    for (int i = 0; t->is_async && i < t->parts.count; i++) declare_address(t, t->parts.items[i]);
    for (int i = 0; i < t->tiles.count; i++) {
        const emit_tile *tile = t->tiles.items[i];
        if (tile->space != TL_SHARED) continue;
        declare_address(t, tile);
        str fill = fill_address(t, tile);
        if (tile->has_fill_slot)
            emit_declare(t, fill, "unsigned %.*s = shared + %.*s; // slot of the next copy",
                         STR_ARGS(fill), STR_ARGS(emit_slot_place(t, tile, 0)));
        declare_barriers(t, tile);
    }
}

/* Does the role that is translated wait for the tile, or part, by its name? */
static bool waits_for(const emit *t, const emit_tile *tile) {
    const model *m = t->model;
    for (int c = 0; c < m->cursor_count; c++) {
        const model_cursor *cursor = &m->cursors[c];
        if (&m->roles[cursor->role] == t->now && cursor->symbol == tile->symbol) return true;
    }
    return false;
}

static void declare_slot(emit *t, const emit_tile *tile, const char *what, int value,
                         const char *comment) {
    str name = emit_ring_part(t, tile, what);
    emit_declare(t, name, "unsigned %.*s = %d; // %s", STR_ARGS(name), value, comment);
}

static void declare_ring(emit *t, const emit_tile *tile, const char *what, int slot, int parity,
                         const char *comment) {
    str name = emit_ring_part(t, tile, what);
    emit_declare(t, name, "ftl_ring<%d> %.*s = {%d, %d}; // %s", tile->stages, STR_ARGS(name), slot,
                 parity, comment);
}

void emit_declare_cursor(emit *t, const emit_tile *tile) {
    bool rings = tile->stages > 1;
    if (!waits_for(t, tile)) return;
    if (tile->carrier == CARRIER_RING)
        declare_ring(t, tile, "held", tile->stages - 1, 0, "the generation held");
    else if (rings) declare_slot(t, tile, "slot", tile->stages - 1, "of the generation held");
    if (rings && tile->bound->holds_several)
        declare_slot(t, tile, "oldest", 0, "slot of the oldest one held");
}

void emit_declare_fill(emit *t, const emit_tile *tile) {
    if (tile->carrier == CARRIER_RING) declare_ring(t, tile, "fill", 0, 1, "the next copy");
    else if (tile->stages > 1) declare_slot(t, tile, "fill", 0, "slot of the next copy");
}

/* --- from one generation to the next ---------------------------------------------------------- */

/* Numbers of slots are counted, not toggled: the compiler takes what is toggled for a truth value,
 * and keeps those in registers of their own for each thread.
 */
static void advance(emit *t, str variable, str last, str first, str step) {
    emit_text(t, "%.*s = %.*s == %.*s ? %.*s : %.*s + %.*s;", STR_ARGS(variable),
              STR_ARGS(variable), STR_ARGS(last), STR_ARGS(first), STR_ARGS(variable),
              STR_ARGS(step));
}

static void advance_number(emit *t, str variable, int last, int step) {
    advance(t, variable, emit_format(t, "%d", last), STR("0"), emit_format(t, "%d", step));
}

static void advance_address(emit *t, const emit_tile *tile, str variable) {
    if (tile->stages == 2) {
        emit_text(t, "%.*s = %.*s;", STR_ARGS(variable),
                  STR_ARGS(emit_other_slot(t, tile, variable)));
        return;
    }
    advance(t, variable,
            emit_format(t, "shared + %.*s", STR_ARGS(emit_slot_place(t, tile, tile->stages - 1))),
            emit_format(t, "shared + %.*s", STR_ARGS(emit_slot_place(t, tile, 0))),
            emit_fact_of(t, tile, FACT_SLOT));
}

/* The variable of a generation's barrier. */
static str offset_of(emit *t, const emit_tile *tile, emit_generation which) {
    static const char *const words[] = {
        [GENERATION_HELD] = "landed", [GENERATION_NEXT] = "free", [GENERATION_OLDEST] = "oldest"};
    return emit_format(t, "%.*s_%s", STR_ARGS(tile->name), words[which]);
}

static const char *const slot_words[] = {
    [GENERATION_HELD] = "slot", [GENERATION_NEXT] = "fill", [GENERATION_OLDEST] = "oldest"};

void emit_ring_next(emit *t, const emit_tile *tile, emit_generation which) {
    str part = emit_ring_part(t, tile, slot_words[which]);
    switch (tile->carrier) {
    case CARRIER_RING:
    case CARRIER_SLOT:
        if (tile->carrier == CARRIER_RING && which == GENERATION_NEXT)
            emit_text(t, "%.*s.next();", STR_ARGS(part));
        else if (tile->stages > 1) advance_number(t, part, tile->stages - 1, 1);
        return;
    case CARRIER_BARRIER:
        part = offset_of(t, tile, which);
        advance_number(t, part, 8 * (tile->stages - 1), 8);
        if (which != GENERATION_OLDEST)
            emit_text(t, "%.*s_parity ^= %.*s == 0;", STR_ARGS(part), STR_ARGS(part));
        break;
    default: break;
    }
    if (which == GENERATION_NEXT && tile->has_fill_slot)
        advance_address(t, tile, fill_address(t, tile));
}

/* --- places ----------------------------------------------------------------------------------- */

/* Generations that a Copy is ahead of the one held: 1 to the number of slots. */
static int steps_ahead(emit *t, const tl_statement *copy) {
    return check_sync_of(t->facts, copy)->slots_ahead + 1;
}

/* In a counted ring, the place some generations ahead of the one held. */
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

static str address_in(emit *t, str place) {
    return emit_format(t, "(%.*s & ~1u)", STR_ARGS(place));
}

str emit_held(emit *t, const emit_tile *tile) {
    const emit_tile *cursor = emit_cursor(t, tile);
    bool is_place = cursor->carrier == CARRIER_PLACE && cursor->stages > 1;
    str held = is_place ? address_in(t, cursor->name) : cursor->name;
    if (cursor == tile) return held;
    return emit_format(t, "(%.*s + %lld)", STR_ARGS(held),
                       (long long)(tile->offset_bytes - cursor->offset_bytes));
}

str emit_fill_place(emit *t, const tl_statement *copy, const emit_tile *tile) {
    if (tile->stages == 1) return tile->name;
    if (t->is_async) {
        return emit_format(t, "(shared + %.*s + %.*s)", STR_ARGS(emit_slot_place(t, tile, 0)),
                           STR_ARGS(emit_slot_bytes(t, tile, GENERATION_NEXT, 1)));
    }
    if (tile->carrier == CARRIER_PLACE) return address_in(t, place_of_copy(t, copy, tile));
    if (tile->has_fill_slot) return fill_address(t, tile);
    int ahead = steps_ahead(t, copy) % tile->stages, back = tile->stages - ahead;
    if (ahead == 0) return tile->name;
    if (tile->stages == 2) return emit_other_slot(t, tile, tile->name);
    str step = emit_fact_of(t, tile, FACT_SLOT), name = tile->name;
    return emit_format(t, "(%.*s >= shared + %.*s ? %.*s - %d * %.*s : %.*s + %d * %.*s)",
                       STR_ARGS(name), STR_ARGS(emit_slot_place(t, tile, back)), STR_ARGS(name),
                       back, STR_ARGS(step), STR_ARGS(name), ahead, STR_ARGS(step));
}

/* The ftl_ring that has the slot; empty: a number of its own has it. */
static str ring_with(emit *t, const emit_tile *tile, emit_generation which) {
    if (tile->carrier != CARRIER_RING || which == GENERATION_OLDEST) return (str){0};
    return emit_ring_part(t, emit_cursor(t, tile), which == GENERATION_HELD ? "held" : "fill");
}

static str slot_text(emit *t, const emit_tile *tile, emit_generation which) {
    str ring = ring_with(t, tile, which);
    if (ring.length) return emit_format(t, "%.*s.slot", STR_ARGS(ring));
    return emit_ring_part(t, emit_cursor(t, tile), slot_words[which]);
}

str emit_slot_bytes(emit *t, const emit_tile *tile, emit_generation which, int divisor) {
    if (tile->stages == 1) return (str){0};
    return emit_format(t, "%.*s * %.*s", STR_ARGS(slot_text(t, tile, which)),
                       STR_ARGS(emit_slot_step(t, tile, divisor)));
}

str emit_barrier_of(emit *t, const tl_statement *s, const emit_tile *tile, emit_fact barriers,
                    emit_generation which) {
    str first = emit_fact_of(t, tile, barriers), ring = ring_with(t, tile, which);
    if (tile->carrier == CARRIER_BARRIER)
        return emit_format(t, "shared + %.*s + %.*s", STR_ARGS(first),
                           STR_ARGS(offset_of(t, tile, which)));
    if (tile->stages == 1) return emit_format(t, "shared + %.*s", STR_ARGS(first));
    if (tile->carrier == CARRIER_PLACE) {
        str place = which == GENERATION_NEXT ? place_of_copy(t, s, tile) : tile->name;
        return emit_format(t, "shared + %.*s + (%.*s - shared - %.*s) / %.*s", STR_ARGS(first),
                           STR_ARGS(place), STR_ARGS(emit_slot_place(t, tile, 0)),
                           STR_ARGS(emit_slot_step(t, tile, 8)));
    }
    if (ring.length)
        return emit_format(t, "%.*s.of(shared + %.*s)", STR_ARGS(ring), STR_ARGS(first));
    return emit_format(t, "shared + %.*s + 8 * %.*s", STR_ARGS(first),
                       STR_ARGS(slot_text(t, tile, which)));
}

/* --- waiting by mbarriers --------------------------------------------------------------------- */

static void wait_barrier(emit *t, str barrier, str parity) {
    emit_text(t, "ftl_mbarrier_wait(%.*s, %.*s);", STR_ARGS(barrier), STR_ARGS(parity));
}

void emit_ring_wait(emit *t, const tl_statement *s, const emit_tile *tile) {
    const char *name = name_of(t, tile);
    str parity = emit_format(t, "%s_parity", name);
    switch (tile->carrier) {
    case CARRIER_RING:
        emit_text(t, "%.*s.wait(shared + %.*s);", STR_ARGS(emit_ring_part(t, tile, "held")),
                  STR_ARGS(emit_fact_of(t, tile, FACT_FULL)));
        return;
    case CARRIER_BARRIER:
        emit_ring_next(t, tile, GENERATION_HELD);
        parity = emit_format(t, "%s_landed_parity", name);
        break;
    default:
        if (tile->stages == 1) {
            advance_number(t, parity, 1, 1);
            break;
        }
        emit_text(t, "%s = %.*s;", name, STR_ARGS(place_ahead(t, tile, 1)));
        parity = emit_format(t, "%s & 1", name);
    }
    wait_barrier(t, emit_barrier_of(t, s, tile, FACT_FULL, GENERATION_HELD), parity);
}

/* Has no slot been released yet? Then those that there are to fill have never been in use. */
static bool is_fresh(emit *t, const tl_statement *copy, const emit_tile *tile) {
    tl_statement *role = (tl_statement *)(uintptr_t)t->role;
    while (copy->parent && copy->parent != role) copy = copy->parent;
    const tl_statement *end = copy->next;
    for (tl_statement *s = t->role->role.body.first; s && s != end; s = tl_next(s, role)) {
        if (s->kind == TL_RELEASE && emit_tile_of(t, s->sync.what) == tile) return false;
    }
    return true;
}

void emit_ring_acquire(emit *t, const tl_statement *s, const emit_tile *tile) {
    if (tile->carrier == CARRIER_RING) {
        str announced = {0};
        if (tl_is_by_tma(&s->copy) && !tile->bound->by_threads)
            announced =
                emit_format(t, ", shared + %.*s, %.*s", STR_ARGS(emit_fact_of(t, tile, FACT_FULL)),
                            STR_ARGS(emit_fact_of(t, tile, FACT_BYTES)));
        emit_text(t, "%.*s.acquire(shared + %.*s%.*s);", STR_ARGS(emit_ring_part(t, tile, "fill")),
                  STR_ARGS(emit_fact_of(t, tile, FACT_EMPTY)), STR_ARGS(announced));
        return;
    }
    if (is_fresh(t, s, tile)) return;
    const char *name = name_of(t, tile);
    str parity = emit_format(t, "%s_parity", name);
    if (tile->carrier == CARRIER_BARRIER) parity = emit_format(t, "%s_free_parity", name);
    else if (tile->stages > 1)
        parity = emit_format(t, "~%.*s & 1", STR_ARGS(place_of_copy(t, s, tile)));
    wait_barrier(t, emit_barrier_of(t, s, tile, FACT_EMPTY, GENERATION_NEXT), parity);
}

/* --- the slot held, by its address ------------------------------------------------------------ */

/* How many generations of a ring have come before a Wait: known where all its earlier Waits stand
 * outside of loops and branches, and the Wait does too or is the only one of a loop there. Then no
 * slot has to be carried from iteration to iteration. False where it is not known.
 */
static bool count_generations(emit *t, const tl_statement *wait, const emit_tile *tile,
                              emit_value *out) {
    const tl_statement *loop = wait->parent->kind == TL_FOR ? wait->parent : NULL;
    int before = 0;
    bool is_after = false;
    for (tl_statement *s = t->kernel->body.first; s; s = tl_next(s, NULL)) {
        is_after |= s == wait;
        if (s->kind != TL_WAIT || s == wait || emit_tile_of(t, s->sync.what) != tile) continue;
        if (is_after && !(loop && tl_is_inside(s, loop))) break;
        if (s->parent != t->role) return false;
        before++;
    }
    const tl_statement *outside = loop ? loop->parent : wait->parent;
    if (outside != t->role || (loop && loop->loop.is_grid_walk)) return false;
    *out = emit_constant(t, before);
    if (!loop) return true;
    emit_value j = emit_named(emit_clean(t, loop->loop.name), 0, EMIT_SIZE_MAX);
    emit_value from = emit_integer(t, loop->loop.from, NULL);
    *out = emit_sum(t, emit_difference(t, j, from), *out);
    return true;
}

void emit_ring_hold(emit *t, const tl_statement *wait, const emit_tile *tile) {
    if (tile->stages == 1 || tile->carrier == CARRIER_PLACE) return;
    str first = emit_slot_place(t, tile, 0);
    const char *name = name_of(t, tile);
    if (t->is_async) {
        if (tile->bound->is_loaded)
            emit_text(t, "%s = shared + %.*s + %.*s;", name, STR_ARGS(first),
                      STR_ARGS(emit_slot_bytes(t, tile, GENERATION_HELD, 1)));
        return;
    }
    emit_value passed;
    bool is_power = (tile->stages & (tile->stages - 1)) == 0;
    if (!is_power || !count_generations(t, wait, tile, &passed)) {
        advance_address(t, tile, tile->name);
    } else if (passed.low == passed.high) {
        int slot = (int)(passed.low % tile->stages);
        emit_text(t, "%s = shared + %.*s;", name, STR_ARGS(emit_slot_place(t, tile, slot)));
    } else {
        emit_text(t, "%s = shared + %.*s + (unsigned)(%.*s & %d) * %.*s;", name, STR_ARGS(first),
                  STR_ARGS(emit_within(t, passed, 15)), tile->stages - 1,
                  STR_ARGS(emit_fact_of(t, tile, FACT_SLOT)));
    }
}
