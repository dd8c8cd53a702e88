/* The shadow of shared memory: cells of four bytes that know who wrote and read them when. Where an
 * access covers a part of a cell only, the cell is split: then each byte knows by itself, until a
 * whole write makes it one again.
 */
#include "emulate/machine.h"

#include <stdio.h>

static bool seen_covers(const machine_seen *seen, uint32_t warp, uint32_t lane, uint32_t clock) {
    if (clock <= seen->all[warp]) return true;
    return clock <= seen->some[warp] && lane < LANES && seen->lanes[warp] >> lane & 1u;
}

static bool acquired_by(const machine_warp *w, uint32_t lane) {
    return lane < LANES ? w->acquired_lanes >> lane & 1u : w->acquired_lanes == w->live;
}

static bool agent_seen(const machine_warp *w, uint32_t lane, uint32_t stamp) {
    uint32_t clock = stamp >> 13, agent = stamp >> 6 & (MACHINE_AGENTS_MAX - 1u);
    if (clock <= w->seen.agents[agent]) return true;
    return acquired_by(w, lane) && clock <= w->acquired.agents[agent];
}

/* Whether an earlier access is ordered before what 'lane' of w does now. */
bool shadow_ordered(const machine_warp *w, uint32_t lane, uint32_t stamp) {
    uint32_t clock = stamp >> 11, warp = stamp >> 6 & 31u, other = stamp & 63u;
    if (other == STAMP_AGENT) return agent_seen(w, lane, stamp);
    if (warp == (uint32_t)w->index) {
        if (clock <= w->synced || (other == lane && lane < LANES)) return true;
        if (clock <= w->part_synced && other < LANES && lane < LANES &&
            (w->part_lanes >> other & w->part_lanes >> lane & 1u))
            return true;
        /* Or by way of others: this lane waited for what that lane had arrived before. */
    }
    if (seen_covers(&w->seen, warp, other, clock)) return true;
    return acquired_by(w, lane) && seen_covers(&w->acquired, warp, other, clock);
}

static bool fence_covers(const machine_seen *seen, uint32_t warp, uint32_t lane, uint32_t clock) {
    if (clock <= seen->fenced_all[warp]) return true;
    return clock <= seen->fenced_some[warp] && lane < LANES &&
           seen->fenced_lanes[warp] >> lane & 1u;
}

/* Whether a proxy fence is between an access and now; agents need none. */
bool shadow_fenced(const machine_warp *w, uint32_t lane, uint32_t stamp) {
    uint32_t clock = stamp >> 11, warp = stamp >> 6 & 31u, other = stamp & 63u;
    if (other == STAMP_AGENT || fence_covers(&w->seen, warp, other, clock)) return true;
    return acquired_by(w, lane) && fence_covers(&w->acquired, warp, other, clock);
}

static void describe_race(machine *m, machine_warp *w, emulate_kind kind, int32_t pc,
                          int32_t other_pc, int lane, uint32_t cell, uint32_t other_stamp) {
    bool reads =
        kind == EMULATE_RACE_READ || kind == EMULATE_FLIGHT_READ || kind == EMULATE_UNINITIALISED;
    emulate_finding *f = machine_found_at(m, w, kind, pc, other_pc, lane,
                                          reads ? " reads" : " overwrites", cell * 4u);
    if (!f || kind == EMULATE_UNINITIALISED) return;
    str other = machine_stamp_who(m, other_stamp);
    bool flight = kind == EMULATE_FLIGHT_READ || kind == EMULATE_FLIGHT_WRITE;
    const char *verb = flight                          ? "the copy was issued"
                       : kind == EMULATE_RACE_OVERREAD ? "read"
                                                       : "written";
    bool agent = (other_stamp & 63u) == STAMP_AGENT;
    const char *why = flight                                   ? ", its wait is missing"
                      : agent && kind == EMULATE_RACE_OVERREAD ? ", no wait for it comes before"
                      : agent ? ", and the mbarrier was not waited for"
                              : "";
    f->note = str_format(m->memory, "%s by %.*s%s", verb, STR_ARGS(other), why);
}

static void describe_barrier_use(machine *m, machine_warp *w, int32_t pc, int lane, uint32_t cell) {
    emulate_finding *f = machine_found_at(m, w, EMULATE_BARRIER_USE, pc, m->write_pc[cell], lane,
                                          " touches an mbarrier object at", cell * 4u);
    if (f) f->note = STR("initialised here");
}

/* Bytes of the access that are in the cell, as bits. */
static uint32_t bytes_in_cell(uint32_t cell, uint32_t offset, uint32_t bytes) {
    uint32_t begin = offset > cell * 4u ? offset - cell * 4u : 0u;
    uint32_t past = offset + bytes - cell * 4u;
    if (past > 4u) past = 4u;
    return (1u << past) - (1u << begin);
}

/* Another lane that reads at the same time makes "several". */
static void note_read(uint32_t *stamp_at, int32_t *pc_at, uint32_t stamp, int32_t pc) {
    uint32_t before = *stamp_at;
    bool several = before >> 6 == stamp >> 6 && before != stamp;
    *stamp_at = several ? (stamp & ~63u) | STAMP_ANY_LANE : stamp;
    *pc_at = pc;
}

/* --- cells in parts --------------------------------------------------------------------------- */

static machine_byte *split_reads(const machine *m, uint32_t cell, int warp) {
    size_t rows = (size_t)m->warp_count + MACHINE_READERS + 1;
    return m->split_bytes + 4u * (m->split_of[cell] * rows + (size_t)warp + 1);
}

static machine_byte *split_writes(const machine *m, uint32_t cell) {
    return split_reads(m, cell, -1);
}

static void split(machine *m, uint32_t cell) {
    if (m->cell_state[cell] & CELL_SPLIT) return;
    size_t each = 4u * (size_t)(m->warp_count + MACHINE_READERS + 1);
    if (m->split_count == m->split_capacity) {
        int capacity = m->split_capacity ? 2 * m->split_capacity : 64;
        machine_byte *bytes = arena_array(m->memory, machine_byte, (size_t)capacity * each);
        if (m->split_count)
            memcpy(bytes, m->split_bytes, (size_t)m->split_count * each * sizeof *bytes);
        m->split_bytes = bytes;
        m->split_capacity = capacity;
    }
    m->split_of[cell] = (uint32_t)m->split_count++;
    m->cell_state[cell] |= CELL_SPLIT;
    for (int v = -1; v < m->warp_count + MACHINE_READERS; v++) {
        machine_byte *bytes = split_reads(m, cell, v);
        size_t at = (size_t)(v < 0 ? 0 : v) * m->cell_count + cell;
        machine_byte whole = v < 0 ? (machine_byte){m->write_stamp[cell], m->write_pc[cell]}
                             : v < m->read_rows ? (machine_byte){m->read_stamp[at], m->read_pc[at]}
                                                : (machine_byte){0, -1};
        for (int n = 0; n < 4; n++) bytes[n] = whole;
    }
}

static void read_split(machine *m, machine_warp *w, int lane, uint32_t cell, uint32_t wanted,
                       int32_t pc) {
    const machine_byte *writes = split_writes(m, cell);
    machine_byte *reads = split_reads(m, cell, w->index);
    uint32_t written = m->cell_state[cell] & CELL_WRITTEN;
    if ((written & wanted) != wanted)
        describe_race(m, w, EMULATE_UNINITIALISED, pc, -1, lane, cell, 0);
    for (int n = 0; n < 4; n++) {
        if (!(wanted >> n & 1u)) continue;
        if (written >> n & 1u && !shadow_ordered(w, (uint32_t)lane, writes[n].stamp))
            describe_race(m, w, EMULATE_RACE_READ, pc, writes[n].pc, lane, cell, writes[n].stamp);
        note_read(&reads[n].stamp, &reads[n].pc, machine_stamp(w, lane), pc);
    }
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

static bool in_parts(machine *m, uint32_t cell, uint32_t bytes) {
    uint32_t state = m->cell_state[cell];
    if (state & (CELL_FLIGHT | CELL_BARRIER)) return false;
    if (bytes != CELL_WRITTEN) split(m, cell);
    return m->cell_state[cell] & CELL_SPLIT;
}

static bool all_alike(const uint32_t four[4]) {
    return four[0] == four[1] && four[1] == four[2] && four[2] == four[3];
}

/* The common case at once: 16 bytes that one access wrote, ordered before. */
static bool read_sixteen(machine *m, machine_warp *w, int lane, uint32_t offset, int32_t pc) {
    uint32_t cell = offset >> 2, state, stamps[4];
    memcpy(&state, m->cell_state + cell, sizeof state);
    memcpy(stamps, m->write_stamp + cell, sizeof stamps);
    if (state != 0x0f0f0f0fu || !all_alike(stamps) || !shadow_ordered(w, (uint32_t)lane, stamps[0]))
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
    m->row_used[w->index] = true;
    if (bytes == 16 && read_sixteen(m, w, lane, offset, pc)) return;
    uint32_t first = offset >> 2, last = (offset + bytes - 1u) >> 2;
    uint32_t stamp = machine_stamp(w, lane), good = UINT32_MAX;
    for (uint32_t cell = first; cell <= last; cell++) {
        uint32_t wanted = bytes_in_cell(cell, offset, bytes), written = m->write_stamp[cell];
        if (wanted != CELL_WRITTEN || m->cell_state[cell] != CELL_WRITTEN) {
            if (in_parts(m, cell, wanted)) {
                read_split(m, w, lane, cell, wanted, pc);
                continue;
            }
            read_cell(m, w, lane, cell, wanted, pc);
        } else if (written == good || shadow_ordered(w, (uint32_t)lane, written)) {
            good = written;
        } else {
            read_cell(m, w, lane, cell, wanted, pc);
        }
        size_t at = (size_t)w->index * m->cell_count + cell;
        note_read(&m->read_stamp[at], &m->read_pc[at], stamp, pc);
    }
}

static bool both_atomic(uint32_t a, int lane) {
    return lane == STAMP_ATOMIC_LANE && (a & 63u) == STAMP_ATOMIC_LANE;
}

/* What of an access is known about a cell when it is written. */
typedef struct cell_write {
    uint32_t cell, offset, bytes;
    int32_t pc;
    const uint8_t *data; /* of 'bytes' bytes at 'offset'; NULL when unknown */
} cell_write;

/* Lanes of one instruction that write the same value do no harm. */
static bool same_value(const machine *m, const machine_warp *w, const cell_write *to, uint32_t mask,
                       uint32_t stamp, int32_t pc) {
    if (!to->data || pc != to->pc || stamp >> 6 != machine_stamp(w, 0) >> 6) return false;
    for (uint32_t n = 0; n < 4; n++) {
        uint32_t at = to->cell * 4u + n;
        if (mask >> n & 1u && m->shared[at] != to->data[at - to->offset]) return false;
    }
    return true;
}

static void check_reader(machine *m, machine_warp *w, int lane, const cell_write *to,
                         uint32_t stamp, int32_t pc) {
    if (shadow_ordered(w, (uint32_t)lane, stamp) || both_atomic(stamp, lane)) return;
    describe_race(m, w, EMULATE_RACE_OVERREAD, to->pc, pc, lane, to->cell, stamp);
}

static void check_writer(machine *m, machine_warp *w, int lane, const cell_write *to, uint32_t mask,
                         uint32_t stamp, int32_t pc) {
    if (shadow_ordered(w, (uint32_t)lane, stamp) || both_atomic(stamp, lane)) return;
    if (same_value(m, w, to, mask, stamp, pc)) return;
    describe_race(m, w, EMULATE_RACE_OVERWRITE, to->pc, pc, lane, to->cell, stamp);
}

static void write_split(machine *m, machine_warp *w, int lane, const cell_write *to,
                        uint32_t mask) {
    uint32_t written = m->cell_state[to->cell] & CELL_WRITTEN;
    machine_byte *writes = split_writes(m, to->cell);
    for (int n = 0; n < 4; n++) {
        if (!(mask >> n & 1u)) continue;
        if (written >> n & 1u) check_writer(m, w, lane, to, 1u << n, writes[n].stamp, writes[n].pc);
        for (int v = 0; v < m->read_rows; v++) {
            const machine_byte *read = split_reads(m, to->cell, v) + n;
            check_reader(m, w, lane, to, read->stamp, read->pc);
        }
        writes[n] = (machine_byte){machine_stamp(w, lane), to->pc};
    }
    m->cell_state[to->cell] |= (uint8_t)mask;
}

static void check_write(machine *m, machine_warp *w, int lane, const cell_write *to) {
    uint32_t cell = to->cell, stamp = m->write_stamp[cell], state = m->cell_state[cell];
    if (state & CELL_FLIGHT)
        describe_race(m, w, EMULATE_FLIGHT_WRITE, to->pc, m->write_pc[cell], lane, cell, stamp);
    else if (state & CELL_BARRIER) describe_barrier_use(m, w, to->pc, lane, cell);
    else check_writer(m, w, lane, to, CELL_WRITTEN, stamp, m->write_pc[cell]);
    for (int v = 0; v < m->read_rows; v++) {
        if (!m->row_used[v]) continue;
        size_t at = (size_t)v * m->cell_count + cell;
        check_reader(m, w, lane, to, m->read_stamp[at], m->read_pc[at]);
    }
}

/* Checks a write of the whole cell or a part; the cell is one again after a whole one, as all that
 * happened to its parts was before.
 */
static void write_cell(machine *m, machine_warp *w, int lane, const cell_write *to, uint32_t mask,
                       uint8_t state) {
    if (in_parts(m, to->cell, mask)) {
        write_split(m, w, lane, to, mask);
        if (mask != CELL_WRITTEN) return;
    } else {
        check_write(m, w, lane, to);
    }
    m->write_stamp[to->cell] = machine_stamp(w, lane);
    m->write_pc[to->cell] = to->pc;
    m->cell_state[to->cell] = state;
}

/* The common case at once: 16 bytes that are all whole, written alike and read alike before. */
static bool write_sixteen(machine *m, const machine_warp *w, int lane, uint32_t offset, int32_t pc,
                          uint8_t new_state) {
    uint32_t cell = offset >> 2, state, stamps[4];
    memcpy(&state, m->cell_state + cell, sizeof state);
    memcpy(stamps, m->write_stamp + cell, sizeof stamps);
    if ((state && state != 0x0f0f0f0fu) || !all_alike(stamps) ||
        !shadow_ordered(w, (uint32_t)lane, stamps[0]))
        return false;
    for (int v = 0; v < m->read_rows; v++) {
        if (!m->row_used[v]) continue;
        memcpy(stamps, m->read_stamp + (size_t)v * m->cell_count + cell, sizeof stamps);
        if (!all_alike(stamps)) return false;
        if (stamps[0] && !shadow_ordered(w, (uint32_t)lane, stamps[0])) return false;
    }
    for (uint32_t n = 0; n < 4; n++) {
        m->write_stamp[cell + n] = machine_stamp(w, lane);
        m->write_pc[cell + n] = pc;
    }
    memset(m->cell_state + cell, new_state, 4);
    return true;
}

static void write_cells(machine *m, machine_warp *w, int lane, cell_write to, uint8_t state) {
    if (to.bytes == 16 && write_sixteen(m, w, lane, to.offset, to.pc, state)) return;
    for (to.cell = to.offset >> 2; to.cell <= (to.offset + to.bytes - 1u) >> 2; to.cell++)
        write_cell(m, w, lane, &to, bytes_in_cell(to.cell, to.offset, to.bytes), state);
}

void shadow_write(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc, const void *data) {
    const cell_write to = {.offset = offset, .bytes = bytes, .pc = pc, .data = data};
    write_cells(m, w, lane, to, CELL_WRITTEN);
}

/* A copy begins: from now to its landing the target is nobody's. */
void shadow_issue(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc) {
    const cell_write to = {.offset = offset, .bytes = bytes, .pc = pc};
    write_cells(m, w, lane, to, CELL_FLIGHT);
    for (uint32_t n = 0; n < bytes; n += 4)
        memcpy(m->shared + offset + n, &(uint32_t){MACHINE_POISON}, 4);
}

/* --- the asynchronous proxy ------------------------------------------------------------------- */

static void describe_proxy(machine *m, machine_warp *w, int32_t pc, int32_t other_pc, int lane,
                           uint32_t cell, uint32_t other_stamp, const char *does) {
    emulate_finding *f = machine_found_at(m, w, EMULATE_PROXY, pc, other_pc, lane, does, cell * 4u);
    if (f)
        f->note =
            str_format(m->memory, "written by %.*s", STR_ARGS(machine_stamp_who(m, other_stamp)));
}

static uint32_t *reader_row(machine *m, uint32_t stamp, size_t *at) {
    int agent = (int)(stamp >> 6 & (MACHINE_AGENTS_MAX - 1u)), reader = m->agents[agent].reader;
    if (reader < 0) return NULL;
    *at = (size_t)(m->warp_count + reader) * m->cell_count;
    return m->read_stamp + *at;
}

static void read_async_split(machine *m, machine_warp *w, int lane, uint32_t cell, int32_t pc,
                             uint32_t stamp) {
    const machine_byte *writes = split_writes(m, cell);
    int agent = (int)(stamp >> 6 & (MACHINE_AGENTS_MAX - 1u)), reader = m->agents[agent].reader;
    for (int n = 0; n < 4; n++) {
        if (!(m->cell_state[cell] >> n & 1u)) {
            describe_race(m, w, EMULATE_UNINITIALISED, pc, -1, lane, cell, 0);
            continue;
        }
        uint32_t other = writes[n].stamp;
        if (!shadow_ordered(w, (uint32_t)lane, other))
            describe_race(m, w, EMULATE_RACE_READ, pc, writes[n].pc, lane, cell, other);
        else if (!shadow_fenced(w, (uint32_t)lane, other))
            describe_proxy(m, w, pc, writes[n].pc, lane, cell, other, " reads");
        if (reader >= 0)
            split_reads(m, cell, m->warp_count + reader)[n] = (machine_byte){stamp, pc};
    }
}

static void read_async_cell(machine *m, machine_warp *w, int lane, uint32_t cell, int32_t pc,
                            uint32_t stamp) {
    if (m->cell_state[cell] & CELL_SPLIT) {
        read_async_split(m, w, lane, cell, pc, stamp);
        return;
    }
    uint32_t other = m->write_stamp[cell];
    if (m->cell_state[cell] != CELL_WRITTEN || !shadow_ordered(w, (uint32_t)lane, other))
        read_cell(m, w, lane, cell, CELL_WRITTEN, pc);
    else if (!shadow_fenced(w, (uint32_t)lane, other))
        describe_proxy(m, w, pc, m->write_pc[cell], lane, cell, other, " reads");
}

/* Whether 16 bytes are whole and all of one write. */
static inline bool all_of(const machine *m, uint32_t cell, uint32_t stamp) {
    uint64_t stamps[2], wanted = stamp | (uint64_t)stamp << 32;
    uint32_t state;
    memcpy(&state, m->cell_state + cell, sizeof state);
    memcpy(stamps, m->write_stamp + cell, sizeof stamps);
    return state == 0x0f0f0f0fu && stamps[0] == wanted && stamps[1] == wanted;
}

void shadow_read_pieces(machine *m, machine_warp *w, int lane, const uint32_t *offsets, int count,
                        int32_t pc, uint32_t stamp) {
    uint32_t good = UINT32_MAX;
    for (int i = 0; i < count; i++) {
        uint32_t cell = offsets[i] >> 2, first = m->write_stamp[cell];
        if (first != good && shadow_ordered(w, (uint32_t)lane, first) &&
            shadow_fenced(w, (uint32_t)lane, first))
            good = first;
        if (!all_of(m, cell, good))
            for (uint32_t n = 0; n < 4; n++) read_async_cell(m, w, lane, cell + n, pc, stamp);
    }
}

void shadow_mark_pieces(machine *m, const uint32_t *offsets, int count, int32_t pc,
                        uint32_t stamp) {
    size_t at = 0;
    uint32_t *reads = reader_row(m, stamp, &at);
    for (int i = 0; reads && i < count; i++)
        for (uint32_t n = 0; n < 4; n++) {
            reads[(offsets[i] >> 2) + n] = stamp;
            m->read_pc[at + (offsets[i] >> 2) + n] = pc;
        }
}

/* The common case: what lies there was written and read by what is ordered before. */
static bool may_overwrite(const machine *m, const machine_warp *w, uint32_t lane, uint32_t first,
                          uint32_t count) {
    uint32_t good = UINT32_MAX;
    for (uint32_t cell = first; cell < first + count; cell++) {
        uint32_t state = m->cell_state[cell], stamp = m->write_stamp[cell];
        if (state & ~(uint32_t)CELL_WRITTEN) return false;
        if (!state || stamp == good) continue;
        if (!shadow_ordered(w, lane, stamp) || !shadow_fenced(w, lane, stamp)) return false;
        good = stamp;
    }
    for (int v = 0; v < m->read_rows; v++) {
        if (!m->row_used[v]) continue;
        const uint32_t *reads = m->read_stamp + (size_t)v * m->cell_count + first;
        uint32_t any = 0;
        for (uint32_t n = 0; n < count; n++) any |= reads[n];
        good = 0;
        for (uint32_t n = 0; any && n < count; n++) {
            if (!reads[n] || reads[n] == good) continue;
            if (!shadow_ordered(w, lane, reads[n])) return false;
            good = reads[n];
        }
    }
    return true;
}

static void issue_pieces(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                         int32_t pc) {
    for (uint32_t at = offset; at < offset + bytes; at += 16) {
        for (uint32_t cell = at >> 2; cell < (at >> 2) + 4; cell++) {
            uint32_t stamp = m->write_stamp[cell];
            bool generic = m->cell_state[cell] & CELL_WRITTEN && !(m->cell_state[cell] & ~15u);
            if (generic && shadow_ordered(w, (uint32_t)lane, stamp) &&
                !shadow_fenced(w, (uint32_t)lane, stamp))
                describe_proxy(m, w, pc, m->write_pc[cell], lane, cell, stamp, " overwrites");
        }
        shadow_issue(m, w, lane, at, 16, pc);
    }
}

void shadow_issue_async(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                        int32_t pc) {
    uint32_t first = offset >> 2, count = bytes >> 2;
    if (!may_overwrite(m, w, (uint32_t)lane, first, count)) {
        issue_pieces(m, w, lane, offset, bytes, pc);
        return;
    }
    uint32_t stamp = machine_stamp(w, lane), *words = (uint32_t *)(void *)m->shared + first;
    memset(m->cell_state + first, CELL_FLIGHT, count);
    for (uint32_t n = 0; n < count; n++) m->write_stamp[first + n] = stamp;
    for (uint32_t n = 0; n < count; n++) m->write_pc[first + n] = pc;
    for (uint32_t n = 0; n < count; n++) words[n] = MACHINE_POISON;
}

void shadow_land(machine *m, uint32_t offset, uint32_t bytes, uint32_t stamp, int32_t pc) {
    for (uint32_t cell = offset >> 2; cell <= (offset + bytes - 1u) >> 2; cell++) {
        m->write_stamp[cell] = stamp;
        m->write_pc[cell] = pc;
        m->cell_state[cell] = CELL_WRITTEN;
    }
}
