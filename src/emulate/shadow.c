/* The shadow of shared memory: cells of four bytes that know who wrote and read them when. */
#include "emulate/machine.h"

#include <stdio.h>

static bool seen_covers(const machine_seen *seen, uint32_t warp, uint32_t lane, uint32_t clock) {
    if (clock <= seen->all[warp]) return true;
    return clock <= seen->some[warp] && lane < LANES && seen->lanes[warp] >> lane & 1u;
}

/* Whether an earlier access is ordered before what 'lane' of w does now. */
bool shadow_ordered(const machine_warp *w, uint32_t lane, uint32_t stamp) {
    uint32_t clock = stamp >> 11, warp = stamp >> 6 & 31u, other = stamp & 63u;
    if (warp == (uint32_t)w->index) {
        if (clock <= w->synced || (other == lane && lane < LANES)) return true;
        return clock <= w->part_synced && other < LANES && lane < LANES &&
               (w->part_lanes >> other & w->part_lanes >> lane & 1u);
    }
    if (seen_covers(&w->seen, warp, other, clock)) return true;
    bool acquired = lane < LANES ? w->acquired_lanes >> lane & 1u : w->acquired_lanes == w->live;
    return acquired && seen_covers(&w->acquired, warp, other, clock);
}

static void describe_race(machine *m, machine_warp *w, emulate_kind kind, int32_t pc,
                          int32_t other_pc, int lane, uint32_t cell, uint32_t other_stamp) {
    emulate_finding *f = machine_find(m, w, kind, pc, other_pc, lane);
    if (!f) return;
    bool reads = kind == EMULATE_RACE_READ || kind == EMULATE_FLIGHT_READ ||
                 kind == EMULATE_UNINITIALISED;
    str who = machine_who(m, w, pc, lane), name = machine_shared_name(m, cell * 4u);
    f->detail = str_format(m->memory, "%.*s %s %.*s", STR_ARGS(who), reads ? "reads" : "overwrites",
                           STR_ARGS(name));
    if (kind == EMULATE_UNINITIALISED) return;
    str other = machine_stamp_who(m, other_stamp);
    bool flight = kind == EMULATE_FLIGHT_READ || kind == EMULATE_FLIGHT_WRITE;
    const char *verb = flight ? "the copy was issued" : kind == EMULATE_RACE_OVERREAD ? "read"
                                                                                     : "written";
    f->note = str_format(m->memory, "%s by %.*s%s", verb, STR_ARGS(other),
                         flight ? ", its wait is missing" : "");
}

static void describe_barrier_use(machine *m, machine_warp *w, int32_t pc, int lane, uint32_t cell) {
    emulate_finding *f = machine_find(m, w, EMULATE_BARRIER_USE, pc, m->write_pc[cell], lane);
    if (!f) return;
    str who = machine_who(m, w, pc, lane), name = machine_shared_name(m, cell * 4u);
    f->detail = str_format(m->memory, "%.*s touches an mbarrier object at %.*s", STR_ARGS(who),
                           STR_ARGS(name));
    f->note = STR("initialised here");
}

/* Bytes of the access that lie in the cell, as bits. */
static uint32_t bytes_in_cell(uint32_t cell, uint32_t offset, uint32_t bytes) {
    uint32_t begin = offset > cell * 4u ? offset - cell * 4u : 0u;
    uint32_t past = offset + bytes - cell * 4u;
    if (past > 4u) past = 4u;
    return (1u << past) - (1u << begin);
}

static void note_read(machine *m, const machine_warp *w, uint32_t cell, uint32_t stamp, int32_t pc) {
    size_t at = (size_t)w->index * m->cell_count + cell;
    uint32_t before = m->read_stamp[at];
    /* Another lane read at the same time: remember "several". */
    bool shared_time = before >> 6 == stamp >> 6 && before != stamp;
    m->read_stamp[at] = shared_time ? (stamp & ~63u) | STAMP_ANY_LANE : stamp;
    m->read_pc[at] = pc;
}

static void read_cell(machine *m, machine_warp *w, int lane, uint32_t cell, uint32_t wanted,
                      int32_t pc) {
    uint32_t state = m->cell_state[cell], stamp = m->write_stamp[cell];
    if (state & CELL_FLIGHT) {
        describe_race(m, w, EMULATE_FLIGHT_READ, pc, m->write_pc[cell], lane, cell, stamp);
    } else if (state & CELL_BARRIER) {
        describe_barrier_use(m, w, pc, lane, cell);
    } else if ((state & wanted) != wanted) {
        describe_race(m, w, EMULATE_UNINITIALISED, pc, -1, lane, cell, 0);
    } else if (!shadow_ordered(w, (uint32_t)lane, stamp)) {
        describe_race(m, w, EMULATE_RACE_READ, pc, m->write_pc[cell], lane, cell, stamp);
    }
}

/* The common case at once: 16 bytes that one access wrote, ordered before. */
static bool read_sixteen(machine *m, machine_warp *w, int lane, uint32_t offset, int32_t pc) {
    uint32_t cell = offset >> 2, state, stamps[4];
    memcpy(&state, m->cell_state + cell, sizeof state);
    memcpy(stamps, m->write_stamp + cell, sizeof stamps);
    bool alike = stamps[0] == stamps[1] && stamps[1] == stamps[2] && stamps[2] == stamps[3];
    if (state != 0x0f0f0f0fu || !alike || !shadow_ordered(w, (uint32_t)lane, stamps[0]))
        return false;
    uint32_t stamp = machine_stamp(w, lane);
    size_t at = (size_t)w->index * m->cell_count + cell;
    uint32_t *reads = m->read_stamp + at;
    if (lane != STAMP_ANY_LANE)
        for (int n = 0; n < 4; n++)
            if (reads[n] >> 6 == stamp >> 6 && reads[n] != stamp) return false;
    for (int n = 0; n < 4; n++) reads[n] = stamp, m->read_pc[at + (size_t)n] = pc;
    return true;
}

void shadow_read(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                 int32_t pc) {
    if (bytes == 16 && read_sixteen(m, w, lane, offset, pc)) return;
    uint32_t first = offset >> 2, last = (offset + bytes - 1u) >> 2;
    uint32_t stamp = machine_stamp(w, lane), good = UINT32_MAX;
    for (uint32_t cell = first; cell <= last; cell++) {
        uint32_t wanted = bytes_in_cell(cell, offset, bytes);
        bool plain = (m->cell_state[cell] & (CELL_FLIGHT | CELL_BARRIER | wanted)) == wanted;
        uint32_t written = m->write_stamp[cell];
        if (plain && (written == good || shadow_ordered(w, (uint32_t)lane, written)))
            good = written;
        else
            read_cell(m, w, lane, cell, wanted, pc);
        note_read(m, w, cell, stamp, pc);
    }
}

static bool both_atomic(uint32_t a, int lane) {
    return lane == STAMP_ATOMIC_LANE && (a & 63u) == STAMP_ATOMIC_LANE;
}

/* Lanes of one instruction that write the same value do no harm. */
static bool same_value(const machine *m, const machine_warp *w, uint32_t cell, uint32_t offset,
                       uint32_t bytes, int32_t pc, const void *data) {
    if (!data || m->write_pc[cell] != pc || m->write_stamp[cell] >> 6 != machine_stamp(w, 0) >> 6)
        return false;
    return memcmp(m->shared + offset, data, bytes) == 0;
}

static void check_readers(machine *m, machine_warp *w, int lane, uint32_t cell, int32_t pc) {
    for (int v = 0; v < m->warp_count; v++) {
        size_t at = (size_t)v * m->cell_count + cell;
        uint32_t stamp = m->read_stamp[at];
        if (shadow_ordered(w, (uint32_t)lane, stamp) || both_atomic(stamp, lane)) continue;
        describe_race(m, w, EMULATE_RACE_OVERREAD, pc, m->read_pc[at], lane, cell, stamp);
    }
}

static void check_write(machine *m, machine_warp *w, int lane, uint32_t cell, uint32_t offset,
                        uint32_t bytes, int32_t pc, const void *data) {
    uint32_t stamp = m->write_stamp[cell], state = m->cell_state[cell];
    if (state & CELL_FLIGHT) {
        describe_race(m, w, EMULATE_FLIGHT_WRITE, pc, m->write_pc[cell], lane, cell, stamp);
    } else if (state & CELL_BARRIER) {
        describe_barrier_use(m, w, pc, lane, cell);
    } else if (!shadow_ordered(w, (uint32_t)lane, stamp) && !both_atomic(stamp, lane)) {
        /* A cell remembers its last writer only; another part of it may be somebody else's. */
        bool part = bytes_in_cell(cell, offset, bytes) != CELL_WRITTEN;
        bool other_part = part && !(state & bytes_in_cell(cell, offset, bytes));
        if (!other_part && !same_value(m, w, cell, offset, bytes, pc, data))
            describe_race(m, w, EMULATE_RACE_OVERWRITE, pc, m->write_pc[cell], lane, cell, stamp);
    }
    check_readers(m, w, lane, cell, pc);
}

void shadow_write(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc, const void *data) {
    uint32_t first = offset >> 2, last = (offset + bytes - 1u) >> 2;
    uint32_t stamp = machine_stamp(w, lane);
    for (uint32_t cell = first; cell <= last; cell++) {
        check_write(m, w, lane, cell, offset, bytes, pc, data);
        m->write_stamp[cell] = stamp;
        m->write_pc[cell] = pc;
        uint32_t state = m->cell_state[cell] & CELL_WRITTEN;
        m->cell_state[cell] = (uint8_t)(state | bytes_in_cell(cell, offset, bytes));
    }
}

/* A copy begins: from now to its landing the target is nobody's. */
void shadow_issue(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc) {
    for (uint32_t cell = offset >> 2; cell <= (offset + bytes - 1u) >> 2; cell++) {
        check_write(m, w, lane, cell, offset, bytes, pc, NULL);
        m->write_stamp[cell] = machine_stamp(w, lane);
        m->write_pc[cell] = pc;
        m->cell_state[cell] = CELL_FLIGHT;
        uint32_t poison = MACHINE_POISON;
        memcpy(m->shared + cell * 4u, &poison, sizeof poison);
    }
}

void shadow_land(machine *m, uint32_t offset, uint32_t bytes, uint32_t stamp, int32_t pc) {
    for (uint32_t cell = offset >> 2; cell <= (offset + bytes - 1u) >> 2; cell++) {
        m->write_stamp[cell] = stamp;
        m->write_pc[cell] = pc;
        m->cell_state[cell] = CELL_WRITTEN;
    }
}

/* Two partial views of a warp become one that says too much rather than too little: then a race may
 * be missed, but none is invented.
 */
void shadow_merge(machine_seen *into, const machine_seen *from) {
    for (int v = 0; v < MACHINE_WARPS_MAX; v++) {
        uint32_t all = from->all[v] > into->all[v] ? from->all[v] : into->all[v];
        bool mine = into->some[v] > all, theirs = from->some[v] > all;
        uint32_t lanes = (mine ? into->lanes[v] : 0u) | (theirs ? from->lanes[v] : 0u);
        uint32_t some = mine ? into->some[v] : 0u;
        if (theirs && from->some[v] > some) some = from->some[v];
        into->all[v] = all;
        into->some[v] = some;
        into->lanes[v] = lanes;
    }
}

void shadow_tick(machine *m, machine_warp *w) {
    if (++w->clock < STAMP_CLOCK_MAX) return;
    emulate_finding *f = machine_find(m, w, EMULATE_LIMIT, w->pc, -1, -1);
    if (f) f->detail = STR("a block may pass about two million barriers and arrivals");
    machine_stop(m);
}

/* Lanes of a warp order themselves (bar.warp.sync); the caller lets the clock tick. */
void shadow_join_warp(machine_warp *w, uint32_t lanes) {
    if ((lanes & w->live) == w->live) {
        w->synced = w->clock;
        w->part_lanes = 0;
    } else {
        w->part_synced = w->clock;
        w->part_lanes = lanes;
    }
    if (!(w->acquired_lanes & lanes)) return;
    if ((lanes & w->live) == w->live) {
        shadow_merge(&w->seen, &w->acquired);
        w->acquired_lanes = 0;
    } else {
        w->acquired_lanes |= lanes;
    }
}

void shadow_release(machine *m, machine_warp *w, uint32_t lanes, machine_seen *out) {
    *out = w->seen;
    if (w->acquired_lanes & lanes) shadow_merge(out, &w->acquired);
    bool whole = (lanes & w->live) == w->live;
    out->all[w->index] = whole ? w->clock : w->synced;
    out->some[w->index] = whole ? 0u : w->clock;
    out->lanes[w->index] = whole ? 0u : w->part_lanes & lanes ? w->part_lanes | lanes : lanes;
    shadow_tick(m, w);
}

void shadow_acquire(machine_warp *w, uint32_t lanes, const machine_seen *from) {
    if ((lanes & w->live) == w->live) {
        shadow_merge(&w->seen, from);
        return;
    }
    if (!w->acquired_lanes) memset(&w->acquired, 0, sizeof w->acquired);
    shadow_merge(&w->acquired, from);
    w->acquired_lanes |= lanes;
}
