/* Barriers of the block, and mbarrier objects in shared memory. */
#include "emulate/machine.h"

static uint32_t warps_not_done(const machine *m) {
    uint32_t warps = 0;
    for (int v = 0; v < m->warp_count; v++)
        if (m->warps[v].state != WARP_DONE) warps |= 1u << v;
    return warps;
}

static void write_votes(machine *m, machine_warp *w, const machine_barrier *b) {
    const ptx_instruction *i = &m->code[w->pc];
    if (i->kind != PTX_BARRIER_REDUCE) return;
    if (i->operation == PTX_BALLOT) {
        uint32_t *row = machine_words(m, w, i->d);
        for (int l = 0; l < LANES; l++)
            if (w->live >> l & 1u) row[l] = b->votes;
        return;
    }
    bool truth = i->operation == PTX_ALL ? b->all : b->any;
    machine_set_predicate(w, i->p, truth ? ~0u : 0u, w->live);
}

static void complete(machine *m, int number) {
    machine_barrier *b = &m->barriers[number];
    for (int v = 0; v < m->warp_count; v++) {
        machine_warp *w = &m->warps[v];
        if (!(b->waiting >> v & 1u)) continue;
        shadow_merge(&w->seen, &b->seen);
        w->synced = w->clock - 1u; /* the clock ticked at the arrival */
        w->part_lanes = 0;
        w->acquired_lanes = 0;
        write_votes(m, w, b);
        w->state = WARP_READY;
        w->pc++;
    }
    *b = (machine_barrier){.all = true, .last_pc = -1};
    m->progress++;
}

/* Threads that ended before a barrier of the whole block: the hardware lets the others go, the
 * language does not allow it.
 */
static void check_all_came(machine *m, const machine_barrier *b) {
    if (b->expected_threads) return;
    for (int v = 0; v < m->warp_count; v++) {
        const machine_warp *w = &m->warps[v];
        if (w->live == w->first_live) continue;
        uint32_t ended = w->first_live & ~w->live;
        emulate_finding *f =
            machine_find(m, w, EMULATE_BARRIER_EXITED, b->last_pc, -1, machine_first_lane(ended));
        if (f)
            f->detail = str_format(m->memory, "warp %d lane %d has ended", w->index,
                                   machine_first_lane(ended));
        return;
    }
}

static void try_complete(machine *m, int number) {
    machine_barrier *b = &m->barriers[number];
    if (!b->arrived) return;
    uint32_t count = (uint32_t)__builtin_popcount(b->arrived) * LANES;
    uint32_t needed = warps_not_done(m);
    bool whole =
        b->expected_threads ? count >= b->expected_threads : (b->arrived & needed) == needed;
    if (!whole) return;
    check_all_came(m, b);
    complete(m, number);
}

void barrier_recheck(machine *m) {
    for (int n = 0; n < MACHINE_BARRIERS; n++)
        if (m->barriers[n].arrived && !m->barriers[n].expected_threads) try_complete(m, n);
}

static void barrier_fault(machine *m, machine_warp *w, const ptx_instruction *i, int lane,
                          const char *what) {
    machine_found(m, w, EMULATE_BARRIER_USE, (int32_t)(i - m->code), -1, lane, ": %s", what);
    machine_stop(m);
}

static void vote(machine *m, const machine_warp *w, const ptx_instruction *i, machine_barrier *b) {
    (void)m;
    if (i->kind != PTX_BARRIER_REDUCE) return;
    uint32_t truth = machine_truth(w, i) & w->live;
    b->votes += (uint32_t)__builtin_popcount(truth);
    b->all = b->all && truth == w->live;
    b->any = b->any || truth;
}

/* All living lanes of w stand here. */
void barrier_arrive(machine *m, machine_warp *w, const ptx_instruction *i) {
    uint32_t number = machine_words(m, w, i->in[0])[machine_first_lane(w->mask)];
    if (number >= MACHINE_BARRIERS) {
        barrier_fault(m, w, i, -1, "the barrier's number is above 15");
        return;
    }
    machine_barrier *b = &m->barriers[number];
    uint32_t threads = 0;
    if (i->in[1] != PTX_NONE) {
        threads = machine_words(m, w, i->in[1])[machine_first_lane(w->mask)];
        if (!threads || threads % LANES || threads > (uint32_t)m->warp_count * LANES) {
            barrier_fault(m, w, i, -1,
                          "the thread count is no multiple of 32, or more than the block has");
            return;
        }
        if (threads == (uint32_t)m->warp_count * LANES) threads = 0;
    }
    if (b->arrived && b->expected_threads != threads) {
        barrier_fault(m, w, i, -1, "warps disagree about the number of threads");
        return;
    }
    if (b->arrived >> w->index & 1u) {
        barrier_fault(m, w, i, -1, "the warp arrives twice in one phase");
        return;
    }
    machine_seen seen;
    shadow_release(m, w, w->live, &seen);
    if (!b->arrived) *b = (machine_barrier){.all = true};
    shadow_merge(&b->seen, &seen);
    b->expected_threads = threads;
    b->arrived |= 1u << w->index;
    b->last_pc = w->pc;
    vote(m, w, i, b);
    if (i->kind != PTX_BARRIER_ARRIVE) {
        b->waiting |= 1u << w->index;
        w->state = WARP_AT_BARRIER;
        w->barrier = (int32_t)number;
    } else {
        w->pc++;
        m->progress++;
    }
    try_complete(m, (int)number);
}

/* --- mbarriers -------------------------------------------------------------------------------- */

/* PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier". */

static int find_mbarrier(const machine *m, uint32_t offset) {
    for (int n = 0; n < m->mbarrier_count; n++)
        if (m->mbarriers[n].valid && m->mbarriers[n].address == offset) return n;
    return -1;
}

static void mbarrier_fault(machine *m, machine_warp *w, int32_t pc, int32_t other, int lane,
                           uint32_t offset, const char *what) {
    emulate_finding *f =
        machine_found_at(m, w, EMULATE_BARRIER_USE, pc, other, lane, ", mbarrier at", offset);
    if (!f) return;
    f->detail = str_format(m->memory, "%.*s: %s", STR_ARGS(f->detail), what);
    if (other >= 0) f->note = STR("initialised here");
}

static void init(machine *m, machine_warp *w, int32_t pc, int lane, uint32_t offset,
                 uint32_t count) {
    if (!count || count >= 1u << 20) {
        mbarrier_fault(m, w, pc, -1, lane, offset, "the count is not in 1 to 2^20 - 1");
        return;
    }
    int n = find_mbarrier(m, offset);
    if (n >= 0) {
        mbarrier_fault(m, w, pc, m->mbarriers[n].init_pc, lane, offset,
                       "it is initialised already");
        return;
    }
    for (n = 0; n < m->mbarrier_count && m->mbarriers[n].valid; n++) continue;
    if (n == MACHINE_MBARRIERS_MAX) {
        mbarrier_fault(m, w, pc, -1, lane, offset, "more than 256 mbarriers");
        machine_stop(m);
        return;
    }
    if (n == m->mbarrier_count) m->mbarrier_count++;
    shadow_write(m, w, lane, offset, 8, pc, NULL);
    m->cell_state[offset >> 2] = m->cell_state[(offset >> 2) + 1] = CELL_BARRIER | CELL_WRITTEN;
    m->mbarriers[n] = (machine_mbarrier){
        .address = offset, .valid = true, .expected = count, .pending = count, .init_pc = pc};
    m->mbarriers[n].agent = -1;
    for (int a = 0; a < m->agent_count; a++)
        if (m->agents[a].kind == AGENT_TRANSFERS && m->agents[a].address == offset)
            m->mbarriers[n].agent = a;
}

/* fence.mbarrier_init: what these lanes have initialised so far. */
void barrier_fence_inits(machine *m, const machine_warp *w, uint32_t lanes) {
    for (int n = 0; n < m->mbarrier_count; n++) {
        uint32_t stamp = m->write_stamp[m->mbarriers[n].address >> 2];
        if (m->mbarriers[n].valid && (stamp >> 6 & 31u) == (uint32_t)w->index &&
            lanes >> (stamp & 31u) & 1u)
            m->mbarriers[n].fenced = true;
    }
}

/* The mbarrier at an offset, which must be there and its initialisation ordered before. */
int barrier_at(machine *m, machine_warp *w, int32_t pc, uint32_t offset, int lane) {
    int n = find_mbarrier(m, offset);
    if (n < 0) {
        mbarrier_fault(m, w, pc, -1, lane, offset, "it is not initialised, or not yet");
        machine_stop(m);
        return -1;
    }
    if (!shadow_ordered(w, (uint32_t)lane, m->write_stamp[offset >> 2]))
        mbarrier_fault(m, w, pc, m->mbarriers[n].init_pc, lane, offset,
                       "its initialisation is not visible yet: a barrier is missing");
    return n;
}

static void try_next_phase(machine *m, machine_mbarrier *b) {
    if (b->pending || b->transfer_bytes) return;
    b->phase++;
    b->pending = b->expected;
    if (b->agent >= 0) {
        b->arriving.agents[b->agent] = ++m->agents[b->agent].clock;
        shadow_check_clock(m, m->agents[b->agent].clock);
    }
    b->done = b->arriving;
    memset(&b->arriving, 0, sizeof b->arriving);
    m->progress++;
    machine_wake(m);
}

void barrier_count_arrival(machine *m, machine_warp *w, int32_t pc, int mbarrier, int lane,
                           uint32_t count, const machine_seen *seen) {
    machine_mbarrier *b = &m->mbarriers[mbarrier];
    if (count > b->pending) {
        mbarrier_fault(m, w, pc, b->init_pc, lane, b->address,
                       "more arrivals in a phase than its count");
        machine_stop(m);
        return;
    }
    b->pending -= count;
    b->arrive_pc = pc;
    shadow_merge(&b->arriving, seen);
    try_next_phase(m, b);
}

/* The block has ended. Where some of those who arrive have done so, and others never did, the count
 * is not theirs: phases run ahead of the arrivals they are meant for, or fall back.
 */
void barrier_finish(machine *m) {
    for (int n = 0; n < m->mbarrier_count; n++) {
        const machine_mbarrier *b = &m->mbarriers[n];
        if (!b->valid || b->pending == b->expected || !b->pending) continue;
        emulate_finding *f =
            machine_find(m, NULL, EMULATE_BARRIER_USE, b->init_pc, b->arrive_pc, -1);
        if (!f) continue;
        f->detail = str_format(m->memory,
                               "the block ends in the midst of a phase of the mbarrier at %.*s: "
                               "%u of %u arrivals came",
                               STR_ARGS(machine_shared_name(m, b->address)),
                               b->expected - b->pending, b->expected);
        f->note = STR("the last one arrived here");
    }
}

/* PTX ISA, "Tracking asynchronous operations by the mbarrier object": the range of tx-count. */
static void barrier_expect(machine *m, machine_warp *w, int32_t pc, int mbarrier, int lane,
                           int64_t bytes) {
    machine_mbarrier *b = &m->mbarriers[mbarrier];
    b->transfer_bytes += bytes;
    if (b->transfer_bytes < 1 << 20 && b->transfer_bytes > -(1 << 20)) return;
    mbarrier_fault(m, w, pc, b->init_pc, lane, b->address,
                   "it expects 2^20 bytes or more, the most is 2^20 - 1");
    machine_stop(m);
}

void barrier_transfer(machine *m, int mbarrier, int64_t bytes) {
    m->mbarriers[mbarrier].transfer_bytes -= bytes;
    try_next_phase(m, &m->mbarriers[mbarrier]);
}

static void arrive(machine *m, machine_warp *w, const ptx_instruction *i, int n, int lane,
                   uint32_t operand, const machine_seen *seen) {
    machine_mbarrier *b = &m->mbarriers[n];
    int32_t pc = (int32_t)(i - m->code);
    uint64_t state = b->phase;
    bool drop = i->operation == PTX_MBARRIER_ARRIVE_DROP, expects = i->flags & PTX_EXPECTS;
    uint32_t count = expects ? 1 : operand;
    if (expects) barrier_expect(m, w, pc, n, lane, operand);
    if (drop) b->expected = b->expected > count ? b->expected - count : 0;
    barrier_count_arrival(m, w, pc, n, lane, count, seen);
    if (i->d != PTX_NONE) memcpy((uint8_t *)machine_row(m, w, i->d) + 8 * lane, &state, 8);
}

static bool passed(const machine *m, machine_warp *w, const ptx_instruction *i,
                   const machine_mbarrier *b, int lane) {
    if (i->operation == PTX_MBARRIER_TEST_PARITY)
        return (b->phase & 1u) != (machine_words(m, w, i->in[1])[lane] & 1u);
    uint64_t state;
    memcpy(&state, (const uint8_t *)machine_row(m, w, i->in[1]) + 8 * lane, 8);
    return b->phase != state;
}

static bool test(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask,
                 const uint32_t offsets[LANES]) {
    uint32_t truth = 0;
    for (uint32_t rest = mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest), n = barrier_at(m, w, w->pc, offsets[l], l);
        if (n < 0) return true;
        if (passed(m, w, i, &m->mbarriers[n], l)) truth |= 1u << l;
    }
    if (truth != mask && !w->poll_fails) return false;
    w->poll_fails = false;
    for (uint32_t rest = i->flags & PTX_RELAXED ? 0u : truth; rest;) {
        int l = machine_first_lane(rest), n = find_mbarrier(m, offsets[l]);
        uint32_t same = 0;
        for (int k = l; k < LANES; k++)
            if (rest >> k & 1u && offsets[k] == offsets[l]) same |= 1u << k;
        shadow_acquire(w, same, &m->mbarriers[n].done);
        rest &= ~same;
    }
    machine_set_predicate(w, i->p, truth, mask);
    return true;
}

static void one_lane(machine *m, machine_warp *w, const ptx_instruction *i, int l, uint32_t offset,
                     uint32_t operand, const machine_seen *seen) {
    int32_t pc = (int32_t)(i - m->code);
    if (i->operation == PTX_MBARRIER_INIT) {
        init(m, w, pc, l, offset, operand);
        return;
    }
    int n = barrier_at(m, w, pc, offset, l);
    if (n < 0) return;
    switch (i->operation) {
    case PTX_MBARRIER_INVALIDATE:
        if (bulk_counts_at(m, n))
            mbarrier_fault(m, w, pc, m->mbarriers[n].init_pc, l, offset,
                           "it is ended with copies in flight");
        m->mbarriers[n].valid = false;
        m->cell_state[offset >> 2] = m->cell_state[(offset >> 2) + 1] = 0;
        break;
    case PTX_MBARRIER_ARRIVE:
    case PTX_MBARRIER_ARRIVE_DROP: arrive(m, w, i, n, l, operand, seen); break;
    case PTX_MBARRIER_EXPECT: barrier_expect(m, w, pc, n, l, operand); break;
    case PTX_MBARRIER_COMPLETE: barrier_transfer(m, n, operand); break;
    default: break;
    }
}

bool barrier_mbarrier(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    if (i->operation == PTX_MBARRIER_PENDING) {
        uint32_t *row = machine_words(m, w, i->d);
        for (int l = 0; l < LANES; l++)
            if (mask >> l & 1u) row[l] = 0; /* the state here holds the phase only */
        return true;
    }
    uint32_t offsets[LANES];
    mask = memory_shared_offsets(m, w, i, mask, 8, offsets);
    if (i->operation == PTX_MBARRIER_TEST || i->operation == PTX_MBARRIER_TEST_PARITY)
        return test(m, w, i, mask, offsets);
    machine_seen seen = {0};
    bool arrives = i->operation == PTX_MBARRIER_ARRIVE || i->operation == PTX_MBARRIER_ARRIVE_DROP;
    if (arrives && mask && !(i->flags & PTX_RELAXED)) shadow_release(m, w, mask, &seen);
    const uint32_t *operands = i->in[1] != PTX_NONE ? machine_words(m, w, i->in[1]) : NULL;
    for (uint32_t rest = mask; rest && !m->stopped; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        one_lane(m, w, i, l, offsets[l], operands ? operands[l] : 1, &seen);
    }
    return true;
}

str barrier_awaited(const machine *m, const machine_warp *w, const machine_group *group) {
    const ptx_instruction *i = &m->code[group->pc];
    if (i->kind != PTX_MBARRIER || i->in[0] == PTX_NONE) return STR("");
    uint64_t addresses[LANES];
    int l = machine_first_lane(group->mask);
    memory_addresses(m, w, i->in[0], i->input_count, i->immediate, addresses);
    str name = machine_shared_name(m, (uint32_t)addresses[l]);
    if (i->operation != PTX_MBARRIER_TEST_PARITY)
        return str_format(m->memory, " (the mbarrier at %.*s)", STR_ARGS(name));
    return str_format(m->memory, " (the mbarrier at %.*s, parity %u)", STR_ARGS(name),
                      machine_words(m, w, i->in[1])[l] & 1u);
}
