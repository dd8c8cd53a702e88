/* What lanes of a warp do together: shuffles, votes, matches, reductions. */
#include "emulate/machine.h"

static uint32_t member_mask(const machine *m, const machine_warp *w, int32_t row, uint32_t mask) {
    return machine_words(m, w, row)[machine_first_lane(mask)];
}

/* The lanes that have to be at this instruction together with those of 'mask'. */
uint32_t collective_members(const machine *m, const machine_warp *w, const ptx_instruction *i,
                            uint32_t mask) {
    switch (i->kind) {
    case PTX_SHUFFLE:
    case PTX_VOTE:
    case PTX_MATCH:
    case PTX_REDUCE:
    case PTX_ELECT: return member_mask(m, w, i->in[3], mask) & w->live;
    case PTX_WARP_BARRIER: return member_mask(m, w, i->in[0], mask) & w->live;
    default: return w->live;
    }
}

static void check_members(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    int32_t row = i->kind == PTX_WARP_BARRIER ? i->in[0] : i->in[3];
    uint32_t members = member_mask(m, w, row, mask), strangers = mask & ~members;
    if (!strangers) return;
    int32_t pc = (int32_t)(i - m->code);
    int lane = machine_first_lane(strangers);
    machine_found(m, w, EMULATE_MASK_WRONG, pc, -1, lane, " with mask 0x%08x", members);
}

/* PTX ISA, shfl.sync: c holds the segment mask (bits 8-12) and the clamp (bits 0-4). */
static void shuffle(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    const uint32_t *a = machine_words(m, w, i->in[0]), *b = machine_words(m, w, i->in[1]);
    const uint32_t *c = machine_words(m, w, i->in[2]);
    uint32_t result[LANES], truth = 0, inactive = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        uint32_t offset = b[l] & 31u, clamp = c[l] & 31u, segment = c[l] >> 8 & 31u;
        uint32_t high = (l & segment) | (clamp & ~segment), low = l & segment;
        int64_t j = 0;
        bool in_range = false;
        switch ((ptx_shuffle)i->operation) {
        case PTX_UP: j = (int64_t)l - offset, in_range = j >= (int64_t)high; break;
        case PTX_DOWN: j = (int64_t)l + offset, in_range = j <= (int64_t)high; break;
        case PTX_BUTTERFLY: j = l ^ offset, in_range = j <= (int64_t)high; break;
        case PTX_INDEX: j = low | (offset & ~segment), in_range = j <= (int64_t)high; break;
        }
        uint32_t from = in_range ? (uint32_t)j & 31u : l;
        result[l] = a[from];
        truth |= (uint32_t)in_range << l;
        if (!(mask >> from & 1u)) inactive |= 1u << l;
    }
    inactive &= mask;
    if (inactive) {
        int32_t pc = (int32_t)(i - m->code);
        int lane = machine_first_lane(inactive);
        emulate_finding *f = machine_find(m, w, EMULATE_SHUFFLE_INACTIVE, pc, -1, lane);
        if (f) f->detail = machine_who(m, w, pc, lane);
    }
    m->set->select(machine_row(m, w, i->d), result, machine_row(m, w, i->d), mask, 4);
    machine_set_predicate(w, i->p, truth, mask);
}

static void fill(machine *m, machine_warp *w, int32_t row, uint32_t mask, uint32_t value) {
    uint32_t *words = machine_words(m, w, row);
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1u) words[l] = value;
}

static void vote(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint32_t truth = machine_truth(w, i) & mask;
    if (i->operation == PTX_BALLOT) {
        fill(m, w, i->d, mask, truth);
        return;
    }
    bool result = i->operation == PTX_ALL   ? truth == mask
                  : i->operation == PTX_ANY ? truth != 0
                                            : truth == 0 || truth == mask;
    machine_set_predicate(w, i->p, result ? mask : 0u, mask);
}

static uint64_t value_of(const machine *m, const machine_warp *w, const ptx_instruction *i, int l) {
    const uint8_t *row = machine_row(m, w, i->in[0]);
    uint64_t value = 0;
    memcpy(&value, row + i->bytes * l, i->bytes);
    return value;
}

static void match(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint32_t equal[LANES] = {0}, whole = 0;
    for (int l = 0; l < LANES; l++) {
        if (!(mask >> l & 1u)) continue;
        for (int k = 0; k < LANES; k++)
            if (mask >> k & 1u && value_of(m, w, i, l) == value_of(m, w, i, k)) equal[l] |= 1u << k;
        if (equal[l] == mask) whole = mask;
    }
    uint32_t *d = machine_words(m, w, i->d);
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1u) d[l] = i->operation == PTX_ALL ? whole : equal[l];
    machine_set_predicate(w, i->p, whole, mask);
}

static void reduce(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    const uint32_t *a = machine_words(m, w, i->in[0]);
    uint32_t total = a[machine_first_lane(mask)];
    bool is_signed = i->number == PTX_S32;
    for (uint32_t rest = mask & (mask - 1u); rest; rest &= rest - 1u) {
        uint32_t x = a[machine_first_lane(rest)];
        bool less = is_signed ? (int32_t)x < (int32_t)total : x < total;
        switch (i->operation) {
        case PTX_OP_ADD: total += x; break;
        case PTX_OP_MIN: total = less ? x : total; break;
        case PTX_OP_MAX: total = less ? total : x; break;
        case PTX_OP_AND: total &= x; break;
        case PTX_OP_OR: total |= x; break;
        default: total ^= x; break;
        }
    }
    fill(m, w, i->d, mask, total);
}

void collective_run(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    check_members(m, w, i, mask);
    switch (i->kind) {
    case PTX_SHUFFLE: shuffle(m, w, i, mask); break;
    case PTX_VOTE: vote(m, w, i, mask); break;
    case PTX_MATCH: match(m, w, i, mask); break;
    case PTX_REDUCE: reduce(m, w, i, mask); break;
    case PTX_ELECT:
        fill(m, w, i->d, mask, (uint32_t)machine_first_lane(mask));
        machine_set_predicate(w, i->p, mask & (0u - mask), mask);
        break;
    case PTX_WARP_BARRIER:
        shadow_join_warp(w, mask);
        shadow_tick(m, w);
        break;
    default: break;
    }
}
