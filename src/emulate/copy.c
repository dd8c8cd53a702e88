/* cp.async: copies land at the latest legal moment, which is the issuing thread's wait (or, through
 * an mbarrier, when nobody else can run). The bulk copies of later GPUs belong here too: they land
 * like arrivals do.
 */
#include "emulate/machine.h"

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
        uint32_t ignored = machine_truth(w, i);
        for (int l = 0; l < LANES; l++)
            if (ignored >> l & 1u) copy->source_bytes[l] = 0;
    }
}

void copy_issue(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    global_touch(m, w, mask, pc);
    /* Arrivals in flight name copies by position. */
    if (w->copy_first == w->copies.count && !m->arrivals.count) w->copy_first = w->copies.count = 0;
    if (w->copies.count == MACHINE_COPIES_MAX) {
        machine_limit(m, w, pc, "too many copies in flight");
        return;
    }
    list_push(m->memory, &w->copies,
              ((machine_copy){.pc = pc, .bytes = i->bytes, .stamp = machine_stamp(w, 0)}));
    machine_copy *copy = &w->copies.items[w->copies.count - 1];
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
        machine_found(m, w, EMULATE_MISALIGNED, copy->pc, -1, l, ": the source of %u bytes",
                      copy->bytes);
        return;
    }
    if (bytes) from = global_bytes(m, w, l, copy->from[l], bytes, GLOBAL_READ, copy->pc);
    if (bytes && !from) return; /* the poison stays */
    if (bytes) memcpy(to, from, bytes);
    memset(to + bytes, 0, copy->bytes - bytes);
}

/* wait_group N: all but the N latest groups of each thread are complete; wait_all: everything. */
void copy_wait(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    if (i->operation) copy_commit(w, mask);
    for (int c = w->copy_first; c < w->copies.count; c++) {
        machine_copy *copy = &w->copies.items[c];
        for (uint32_t rest = copy->pending & mask; rest; rest &= rest - 1u) {
            int l = machine_first_lane(rest);
            int64_t younger = (int64_t)w->commits[l] - 1 - (int64_t)copy->group[l];
            if (i->operation ? younger < 0 : younger < i->immediate) continue;
            land_lane(m, w, copy, l, machine_stamp(w, l));
        }
    }
    while (w->copy_first < w->copies.count && !w->copies.items[w->copy_first].pending)
        w->copy_first++;
}

/* --- arrival on an mbarrier when the copies have landed --------------------------------------- */

/* Copies that an mbarrier speaks for land after the first arrival that does, and so after all
 * fences before it.
 */
static void note_arrival(machine_warp *w) {
    for (int c = w->copies.count - 1; c >= w->copy_first && !w->copies.items[c].is_counted; c--) {
        w->copies.items[c].stamp = machine_stamp(w, 0);
        w->copies.items[c].is_counted = true;
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
        int barrier = barrier_at(m, w, pc, offsets[first], first);
        if (barrier < 0) continue;
        if (!i->operation) m->mbarriers[barrier].pending += (uint32_t)__builtin_popcount(same);
        list_push(m->memory, &m->arrivals,
                  ((machine_arrival){.warp = w->index,
                                     .lanes = same,
                                     .pc = pc,
                                     .mbarrier = barrier,
                                     .copy_end = w->copies.count}));
        shadow_release(m, w, same, &m->arrivals.items[m->arrivals.count - 1].seen);
    }
}

uint64_t machine_draw(machine *m) {
    m->random ^= m->random << 13;
    m->random ^= m->random >> 7;
    m->random ^= m->random << 17;
    return m->random;
}

bool copy_step(machine *m) {
    if (!m->arrivals.count) return false;
    int pick = m->random ? (int)(machine_draw(m) % (uint64_t)m->arrivals.count) : 0;
    machine_arrival a = m->arrivals.items[pick];
    memmove(m->arrivals.items + pick, m->arrivals.items + pick + 1,
            (size_t)(--m->arrivals.count - pick) * sizeof a);
    machine_warp *w = &m->warps[a.warp];
    for (int c = w->copy_first; c < w->copies.count && c < a.copy_end; c++) {
        machine_copy *copy = &w->copies.items[c];
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
        for (int c = w->copy_first; c < w->copies.count; c++) {
            machine_copy *copy = &w->copies.items[c];
            for (uint32_t rest = copy->pending; rest; rest &= rest - 1u) {
                int l = machine_first_lane(rest);
                machine_found_at(m, w, EMULATE_COPY_UNWAITED, copy->pc, -1, l, ", to", copy->to[l]);
                land_lane(m, w, copy, l, copy->stamp | (uint32_t)l);
            }
        }
    }
}
