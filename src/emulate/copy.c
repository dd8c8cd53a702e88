/* cp.async: copies land at the latest legal moment, which is the issuing thread's wait (or, through
 * an mbarrier, when nobody else can run). The bulk copies of later GPUs belong here too: they land
 * like arrivals do.
 */
#include "emulate/machine.h"

static machine_copy *new_copy(machine *m, machine_warp *w) {
    /* Arrivals in flight name copies by position. */
    if (w->copy_first == w->copy_count && !m->arrival_count) w->copy_first = w->copy_count = 0;
    if (w->copy_count == w->copy_capacity) {
        int capacity = w->copy_capacity ? 2 * w->copy_capacity : 64;
        if (capacity > MACHINE_COPIES_MAX) return NULL;
        machine_copy *copies = arena_array(m->memory, machine_copy, capacity);
        if (w->copy_count) memcpy(copies, w->copies, (size_t)w->copy_count * sizeof *copies);
        w->copies = copies;
        w->copy_capacity = capacity;
    }
    return &w->copies[w->copy_count++];
}

/* PTX ISA, cp.async: bytes past the source size are zero; with ignore-src, all are. */
static void source_sizes(const machine *m, const machine_warp *w, const ptx_instruction *i,
                         machine_copy *copy) {
    for (int l = 0; l < LANES; l++) copy->source_bytes[l] = i->bytes;
    if (i->in[2] != PTX_NONE) {
        const uint32_t *sizes = machine_words(m, w, i->in[2]);
        for (int l = 0; l < LANES; l++)
            copy->source_bytes[l] = (uint8_t)(sizes[l] < i->bytes ? sizes[l] : i->bytes);
    }
    if (i->r >= 0) {
        uint32_t ignored = w->predicates[i->r] ^ (i->second_negated ? ~0u : 0u);
        for (int l = 0; l < LANES; l++)
            if (ignored >> l & 1u) copy->source_bytes[l] = 0;
    }
}

void copy_issue(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    machine_copy *copy = new_copy(m, w);
    if (!copy) {
        emulate_finding *f = machine_find(m, w, EMULATE_LIMIT, pc, -1, -1);
        if (f) f->detail = STR("too many copies in flight");
        machine_stop(m);
        return;
    }
    copy->pc = pc;
    copy->bytes = i->bytes;
    copy->stamp = machine_stamp(w, 0);
    copy->is_counted = false;
    memcpy(copy->group, w->commits, sizeof copy->group);
    memory_addresses(m, w, i->in[1], i->register_bytes, i->function, copy->from);
    copy->pending = memory_shared_offsets(m, w, i, mask, i->bytes, copy->to);
    source_sizes(m, w, i, copy);
    machine_count *count = &m->counts[pc];
    uint32_t reads = 0;
    for (uint32_t rest = copy->pending; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        if (copy->source_bytes[l]) reads |= 1u << l;
        shadow_issue(m, w, l, copy->to[l], i->bytes, pc);
    }
    traffic_global(count, copy->from, reads, i->bytes);
    traffic_shared(count, copy->to, copy->pending, i->bytes);
    count->space = PTX_GLOBAL;
}

void copy_commit(machine_warp *w, uint32_t mask) {
    for (int l = 0; l < LANES; l++) w->commits[l] += mask >> l & 1u;
}

static void land_lane(machine *m, machine_warp *w, machine_copy *copy, int l, uint32_t stamp) {
    uint8_t *to = m->shared + copy->to[l];
    uint32_t bytes = copy->source_bytes[l];
    const uint8_t *from = NULL;
    copy->pending &= ~(1u << l);
    shadow_land(m, copy->to[l], copy->bytes, stamp, copy->pc);
    if (copy->from[l] & (copy->bytes - 1u)) {
        emulate_finding *f = machine_find(m, w, EMULATE_MISALIGNED, copy->pc, -1, l);
        if (f)
            f->detail = str_format(m->memory, "%.*s: the source of %u bytes",
                                   STR_ARGS(machine_who(m, w, copy->pc, l)), copy->bytes);
        return;
    }
    if (bytes) from = global_bytes(m, w, l, copy->from[l], bytes, GLOBAL_READ, copy->pc);
    if (bytes && !from) return; /* the poison stays */
    if (bytes) memcpy(to, from, bytes);
    memset(to + bytes, 0, copy->bytes - bytes);
}

static void forget_landed(machine_warp *w) {
    while (w->copy_first < w->copy_count && !w->copies[w->copy_first].pending) w->copy_first++;
}

/* wait_group N: all but the N latest groups of each thread are complete; wait_all: everything. */
void copy_wait(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    if (i->operation) copy_commit(w, mask);
    for (int c = w->copy_first; c < w->copy_count; c++) {
        machine_copy *copy = &w->copies[c];
        for (uint32_t rest = copy->pending & mask; rest; rest &= rest - 1u) {
            int l = machine_first_lane(rest);
            int64_t younger = (int64_t)w->commits[l] - 1 - (int64_t)copy->group[l];
            if (i->operation ? younger < 0 : younger < i->immediate) continue;
            land_lane(m, w, copy, l, machine_stamp(w, l));
        }
    }
    forget_landed(w);
}

/* --- arrival on an mbarrier when the copies have landed --------------------------------------- */

static machine_arrival *new_arrival(machine *m) {
    if (m->arrival_count == m->arrival_capacity) {
        int capacity = m->arrival_capacity ? 2 * m->arrival_capacity : 64;
        machine_arrival *arrivals = arena_array(m->memory, machine_arrival, capacity);
        if (m->arrival_count)
            memcpy(arrivals, m->arrivals, (size_t)m->arrival_count * sizeof *arrivals);
        m->arrivals = arrivals;
        m->arrival_capacity = capacity;
    }
    return &m->arrivals[m->arrival_count++];
}

/* Copies that an mbarrier speaks for land after the first arrival that does, and so after all
 * fences before it.
 */
static void note_arrival(machine_warp *w) {
    for (int c = w->copy_count - 1; c >= w->copy_first && !w->copies[c].is_counted; c--) {
        w->copies[c].stamp = machine_stamp(w, 0);
        w->copies[c].is_counted = true;
    }
}

void copy_arrive(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    uint32_t offsets[LANES];
    uint32_t left = memory_shared_offsets(m, w, i, mask, 8, offsets);
    note_arrival(w);
    while (left && !m->stopped) {
        int first = machine_first_lane(left);
        uint32_t same = 0;
        for (int l = first; l < LANES; l++)
            if (left >> l & 1u && offsets[l] == offsets[first]) same |= 1u << l;
        left &= ~same;
        int barrier = barrier_find(m, w, i, offsets[first], first);
        if (barrier < 0) continue;
        if (!i->operation) m->mbarriers[barrier].pending += (uint32_t)__builtin_popcount(same);
        machine_arrival *a = new_arrival(m);
        *a = (machine_arrival){.warp = w->index,
                               .lanes = same,
                               .pc = pc,
                               .mbarrier = barrier,
                               .copy_end = w->copy_count};
        shadow_release(m, w, same, &a->seen);
    }
}

uint64_t machine_draw(machine *m) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random;
}

bool copy_step(machine *m) {
    if (!m->arrival_count) return false;
    int pick = m->random ? (int)(machine_draw(m) % (uint64_t)m->arrival_count) : 0;
    machine_arrival a = m->arrivals[pick];
    memmove(m->arrivals + pick, m->arrivals + pick + 1,
            (size_t)(--m->arrival_count - pick) * sizeof a);
    machine_warp *w = &m->warps[a.warp];
    for (int c = w->copy_first; c < w->copy_count && c < a.copy_end; c++) {
        machine_copy *copy = &w->copies[c];
        for (uint32_t rest = copy->pending & a.lanes; rest; rest &= rest - 1u) {
            int l = machine_first_lane(rest);
            land_lane(m, w, copy, l, copy->stamp | (uint32_t)l);
        }
    }
    for (uint32_t rest = a.lanes; rest && !m->stopped; rest &= rest - 1u)
        barrier_count_arrival(m, w, a.pc, a.mbarrier, machine_first_lane(rest), 1, &a.seen);
    m->progress++;
    return true;
}

void copy_finish(machine *m) {
    for (int v = 0; v < m->warp_count; v++) {
        machine_warp *w = &m->warps[v];
        for (int c = w->copy_first; c < w->copy_count; c++) {
            machine_copy *copy = &w->copies[c];
            for (uint32_t rest = copy->pending; rest; rest &= rest - 1u) {
                int l = machine_first_lane(rest);
                emulate_finding *f = machine_find(m, w, EMULATE_COPY_UNWAITED, copy->pc, -1, l);
                if (f) {
                    str name = machine_shared_name(m, copy->to[l]);
                    f->detail =
                        str_format(m->memory, "%.*s, to %.*s",
                                   STR_ARGS(machine_who(m, w, copy->pc, l)), STR_ARGS(name));
                }
                land_lane(m, w, copy, l, copy->stamp | (uint32_t)l);
            }
        }
    }
}
