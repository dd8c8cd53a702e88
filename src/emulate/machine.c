/* Warps: which instruction next, which lanes, and what is in one warp alone. */
#include "emulate/machine.h"

void machine_stop(machine *m) {
    m->stopped = true;
}

/* Lanes that failed a test of an mbarrier may try again. */
void machine_wake(machine *m) {
    for (int v = 0; v < m->warp_count; v++) {
        machine_warp *w = &m->warps[v];
        for (int g = 0; g < w->group_count; g++)
            if (w->groups[g].wait == WAIT_POLL) w->groups[g].wait = WAIT_NONE;
        if (w->state == WARP_POLLING) w->state = WARP_READY;
    }
}

/* --- keeping lanes together ------------------------------------------------------------------- */

static void report_diverged(machine *m, machine_warp *w) {
    const machine_group *a = &w->groups[0], *b = w->group_count > 1 ? &w->groups[1] : a;
    int lane = machine_first_lane(a->mask);
    emulate_finding *f = machine_find(m, w, EMULATE_DIVERGED, a->pc, b == a ? -1 : b->pc, lane);
    if (f)
        f->detail = str_format(m->memory, "%.*s, lanes 0x%08x of 0x%08x",
                               STR_ARGS(machine_who(m, w, a->pc, -1)), a->mask, w->live);
    if (f && b != a)
        f->note = str_format(m->memory, "lanes 0x%08x stand here, at %.*s", b->mask,
                             STR_ARGS(m->module->opcodes.items[m->code[b->pc].opcode]));
    machine_stop(m);
}

/* Ended lanes are missed by no collective: those that waited for them may go on. */
static bool retry_collectives(machine *m, machine_warp *w) {
    bool any = false;
    for (int g = 0; g < w->group_count; g++) {
        machine_group *group = &w->groups[g];
        const ptx_instruction *i = &m->code[group->pc];
        if (collective_members(m, w, i, group->mask) & ~group->mask) continue;
        group->wait = WAIT_NONE;
        any = true;
    }
    return any;
}

/* Takes the group with the smallest pc among those that may run. False when the warp cannot. */
static bool choose(machine *m, machine_warp *w) {
    int best = -1;
    bool polls = false;
    for (int g = 0; g < w->group_count; g++) {
        polls |= w->groups[g].wait == WAIT_POLL;
        if (w->groups[g].wait != WAIT_NONE) continue;
        if (best < 0 || w->groups[g].pc < w->groups[best].pc) best = g;
    }
    if (best >= 0) {
        w->pc = w->groups[best].pc;
        w->mask = w->groups[best].mask;
        w->groups[best] = w->groups[--w->group_count];
        return true;
    }
    w->mask = 0;
    if (!polls && retry_collectives(m, w)) return choose(m, w);
    if (!w->group_count) {
        w->state = WARP_DONE;
        m->progress++;
        barrier_recheck(m);
    } else if (polls) {
        w->state = WARP_POLLING;
    } else {
        report_diverged(m, w);
    }
    return false;
}

static void merge_here(machine_warp *w) {
    for (int g = 0; g < w->group_count; g++)
        if (w->groups[g].pc == w->pc) {
            w->mask |= w->groups[g].mask;
            w->groups[g--] = w->groups[--w->group_count];
        }
}

static void suspend(machine_warp *w, int32_t pc, uint32_t mask, machine_wait wait) {
    if (!mask) return;
    for (int g = 0; g < w->group_count; g++)
        if (w->groups[g].pc == pc && w->groups[g].wait == wait) {
            w->groups[g].mask |= mask;
            return;
        }
    w->groups[w->group_count++] = (machine_group){pc, mask, wait};
}

/* At the start of a basic block: the smallest pc goes first, and equal ones go on together. */
static bool reconverge(machine *m, machine_warp *w) {
    bool other_first = false;
    for (int g = 0; g < w->group_count; g++)
        other_first |= w->groups[g].wait == WAIT_NONE && w->groups[g].pc < w->pc;
    if (other_first) {
        suspend(w, w->pc, w->mask, WAIT_NONE);
        if (!choose(m, w)) return false;
    }
    merge_here(w);
    return true;
}

/* Makes sure that all members are at this collective; otherwise these lanes wait for them. */
static bool gather(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    if (mask != w->mask) {
        /* The guard keeps some lanes out: they go on. */
        suspend(w, w->pc + 1, w->mask & ~mask, WAIT_NONE);
        w->mask = mask;
    }
    if (w->group_count) merge_here(w);
    uint32_t members = collective_members(m, w, i, w->mask);
    if ((members & ~w->mask) == 0) return true;
    suspend(w, w->pc, w->mask, WAIT_COLLECTIVE);
    return false;
}

/* --- control ---------------------------------------------------------------------------------- */

static void branch(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    (void)m;
    uint32_t stays = w->mask & ~mask;
    if (!mask) {
        w->pc++;
    } else if (!stays) {
        w->pc = i->target;
    } else {
        suspend(w, i->target, mask, WAIT_NONE);
        w->mask = stays;
        w->pc++;
    }
}

static bool branch_indexed(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    const uint32_t *index = machine_words(m, w, i->in[0]);
    suspend(w, w->pc + 1, w->mask & ~mask, WAIT_NONE);
    for (uint32_t rest = mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        if (index[l] >= (uint64_t)i->immediate) {
            emulate_finding *f = machine_find(m, w, EMULATE_TRAP, w->pc, -1, l);
            if (f)
                f->detail = str_format(m->memory, "branch index %u of %lld", index[l],
                                       (long long)i->immediate);
            machine_stop(m);
            return false;
        }
        suspend(w, m->function->lists.items[i->list + (int32_t)index[l]], 1u << l, WAIT_NONE);
    }
    return choose(m, w);
}

static bool end_lanes(machine *m, machine_warp *w, uint32_t mask) {
    global_touch(m, w, mask, w->pc);
    w->live &= ~mask;
    uint32_t rest = w->mask & ~mask;
    if (rest) {
        w->mask = rest;
        w->pc++;
        return true;
    }
    return choose(m, w);
}

static void trap(machine *m, machine_warp *w, uint32_t mask) {
    int lane = machine_first_lane(mask);
    emulate_finding *f = machine_find(m, w, EMULATE_TRAP, w->pc, -1, lane);
    if (f) f->detail = machine_who(m, w, w->pc, lane);
    machine_stop(m);
}

/* --- instructions of single lanes ------------------------------------------------------------- */

static void put(machine *m, machine_warp *w, int32_t row, const void *value, uint32_t mask,
                int bytes) {
    void *to = machine_row(m, w, row);
    if (mask == ~0u) memcpy(to, value, (size_t)bytes * LANES);
    else m->set->select(to, value, to, mask, bytes);
}

static void run_lanes(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    const void *in[LANES_INPUTS] = {NULL, NULL, NULL, NULL};
    for (int n = 0; n < i->input_count; n++) in[n] = machine_row(m, w, i->in[n]);
    if (mask == ~0u) {
        m->set->functions[i->function](machine_row(m, w, i->d), in);
        return;
    }
    uint64_t result[LANES];
    m->set->functions[i->function](result, in);
    put(m, w, i->d, result, mask, i->bytes);
}

static uint32_t combine(ptx_boolean operation, uint32_t a, uint32_t b) {
    switch (operation) {
    case PTX_AND: return a & b;
    case PTX_OR: return a | b;
    case PTX_XOR: return a ^ b;
    case PTX_NOT: return ~a;
    case PTX_COPY: return a;
    }
    return a;
}

static uint32_t test(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t *inverse) {
    const void *in[LANES_INPUTS] = {NULL, NULL, NULL, NULL};
    int32_t result[LANES];
    for (int n = 0; n < i->input_count; n++) in[n] = machine_row(m, w, i->in[n]);
    m->set->functions[i->function](result, in);
    uint32_t truth = m->set->mask_of(result), other = 0;
    if (i->r >= 0) other = machine_truth(w, i);
    *inverse = combine((ptx_boolean)i->operation, ~truth, other);
    return combine((ptx_boolean)i->operation, truth, other);
}

static void run_test(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint32_t inverse, truth = test(m, w, i, &inverse);
    if (i->kind == PTX_TEST) {
        machine_set_predicate(w, i->p, truth, mask);
        machine_set_predicate(w, i->q, inverse, mask);
        return;
    }
    uint32_t row[LANES], yes = i->number == PTX_F32 ? 0x3f800000u : 0xffffffffu;
    for (int l = 0; l < LANES; l++) row[l] = truth >> l & 1u ? yes : 0u;
    put(m, w, i->d, row, mask, 4);
}

static void run_logic(machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint32_t a = w->predicates[i->q], b = 0;
    if (i->flags & PTX_FIRST_NEGATED) a = ~a;
    if (i->r >= 0) b = machine_truth(w, i);
    machine_set_predicate(w, i->p, combine((ptx_boolean)i->operation, a, b), mask);
}

static void run_select(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint64_t result[LANES];
    m->set->select(result, machine_row(m, w, i->in[0]), machine_row(m, w, i->in[1]),
                   machine_truth(w, i), i->register_bytes);
    put(m, w, i->d, result, mask, i->register_bytes);
}

static void run_pack(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint8_t result[LANES * 8];
    const int32_t *list = m->function->lists.items + i->list;
    for (int e = 0; e < i->count; e++) {
        const uint8_t *from = machine_row(m, w, list[e]);
        int stride = i->bytes == 8 ? 8 : 4;
        for (int l = 0; l < LANES; l++)
            memcpy(result + l * i->register_bytes + e * i->bytes, from + l * stride, i->bytes);
    }
    if (i->bytes * i->count < i->register_bytes)
        for (int l = 0; l < LANES; l++)
            memset(result + l * i->register_bytes + i->bytes * i->count, 0,
                   (size_t)(i->register_bytes - i->bytes * i->count));
    put(m, w, i->d, result, mask, i->register_bytes);
}

static void run_unpack(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint8_t from[LANES * 8];
    memcpy(from, machine_row(m, w, i->in[0]), (size_t)i->register_bytes * LANES);
    const int32_t *list = m->function->lists.items + i->list;
    for (int e = 0; e < i->count; e++) {
        uint64_t wide[LANES] = {0};
        uint32_t result[LANES];
        for (int l = 0; l < LANES; l++)
            memcpy(&wide[l], from + l * i->register_bytes + e * i->bytes, i->bytes);
        for (int l = 0; l < LANES; l++) result[l] = (uint32_t)wide[l];
        if (i->bytes == 8) put(m, w, list[e], wide, mask, 8);
        else put(m, w, list[e], result, mask, 4);
    }
}

static void run_convert_address(machine *m, machine_warp *w, const ptx_instruction *i,
                                uint32_t mask) {
    uint64_t result[LANES];
    const uint64_t *from = machine_row(m, w, i->in[0]);
    for (int l = 0; l < LANES; l++) result[l] = from[l] + (uint64_t)i->immediate;
    put(m, w, i->d, result, mask, 8);
}

static void run_is_space(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    const uint64_t *from = machine_row(m, w, i->in[0]);
    uint32_t truth = 0;
    for (int l = 0; l < LANES; l++)
        truth |= (uint32_t)(ptx_space_of(from[l]) == (ptx_space)i->space) << l;
    machine_set_predicate(w, i->p, truth, mask);
}

static void run_clock(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint64_t wide[LANES];
    uint32_t words[LANES];
    for (int l = 0; l < LANES; l++) wide[l] = m->instructions, words[l] = (uint32_t)m->instructions;
    if (i->register_bytes == 8) put(m, w, i->d, wide, mask, 8);
    else put(m, w, i->d, words, mask, 4);
}

static void run_active_mask(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    uint32_t words[LANES];
    for (int l = 0; l < LANES; l++) words[l] = mask;
    put(m, w, i->d, words, mask, 4);
}

/* --- instructions of the whole warp ----------------------------------------------------------- */

static void report_missing_lanes(machine *m, machine_warp *w) {
    uint32_t missing = ~w->live;
    emulate_finding *f =
        machine_find(m, w, EMULATE_LANES_MISSING, w->pc, -1, machine_first_lane(missing));
    if (f)
        f->detail = str_format(m->memory, "%.*s, lanes 0x%08x have ended or never were",
                               STR_ARGS(machine_who(m, w, w->pc, -1)), missing);
}

static void run_matrix(machine *m, machine_warp *w, const ptx_instruction *i) {
    if (w->live != ~0u) report_missing_lanes(m, w);
    switch (i->kind) {
    case PTX_LOAD_MATRIX: product_load_matrix(m, w, i); break;
    case PTX_STORE_MATRIX: product_store_matrix(m, w, i); break;
    case PTX_MOVE_MATRIX: product_move_matrix(m, w, i); break;
    default: product_multiply(m, w, i); break;
    }
}

/* Runs one instruction that needs several lanes. False when the warp cannot go on now. */
static bool run_collective(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    if (!mask) {
        w->pc++;
        return true;
    }
    if (!gather(m, w, i, mask)) return choose(m, w);
    mask = w->mask;
    switch (i->kind) {
    case PTX_BARRIER:
    case PTX_BARRIER_ARRIVE:
    case PTX_BARRIER_REDUCE: barrier_arrive(m, w, i); return w->state == WARP_READY;
    case PTX_LOAD_MATRIX:
    case PTX_STORE_MATRIX:
    case PTX_MOVE_MATRIX:
    case PTX_PRODUCT: run_matrix(m, w, i); break;
    case PTX_WGMMA: wgmma_issue(m, w, i); break;
    case PTX_WGMMA_FENCE: wgmma_fence(m, w); break;
    case PTX_WGMMA_COMMIT: wgmma_commit(m, w); break;
    case PTX_WGMMA_WAIT:
        if (!wgmma_wait(m, w, i)) return false;
        break;
    case PTX_SET_REGISTERS:
        if (!registers_set(m, w, i)) return false;
        break;
    default: collective_run(m, w, i, mask); break;
    }
    w->pc++;
    return true;
}

static bool run_mbarrier(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    if (!mask || barrier_mbarrier(m, w, i, mask)) {
        w->pc++;
        return true;
    }
    suspend(w, w->pc, w->mask, WAIT_POLL);
    return choose(m, w);
}

static void report_budget(machine *m, machine_warp *w) {
    emulate_finding *f = machine_find(m, w, EMULATE_BUDGET, w->pc, -1, -1);
    if (f)
        f->detail = str_format(m->memory, "after %llu instructions warp %d is here",
                               (unsigned long long)m->instructions, w->index);
    machine_stop(m);
}

/* What concerns each lane by itself, and goes on with the next instruction. */
static inline bool run_single(machine *m, machine_warp *w, const ptx_instruction *i,
                              uint32_t mask) {
    switch ((ptx_kind)i->kind) {
    case PTX_LANES: run_lanes(m, w, i, mask); return true;
    case PTX_TEST:
    case PTX_SET: run_test(m, w, i, mask); return true;
    case PTX_MOVE:
        put(m, w, i->d, machine_row(m, w, i->in[0]), mask, i->register_bytes);
        return true;
    case PTX_SELECT: run_select(m, w, i, mask); return true;
    case PTX_LOGIC: run_logic(w, i, mask); return true;
    case PTX_PACK: run_pack(m, w, i, mask); return true;
    case PTX_UNPACK: run_unpack(m, w, i, mask); return true;
    case PTX_CLOCK: run_clock(m, w, i, mask); return true;
    case PTX_ISSPACE: run_is_space(m, w, i, mask); return true;
    case PTX_CONVERT_ADDRESS: run_convert_address(m, w, i, mask); return true;
    case PTX_ACTIVE_MASK: run_active_mask(m, w, i, mask); return true;
    case PTX_LOAD: memory_load(m, w, i, mask); return true;
    case PTX_STORE: memory_store(m, w, i, mask); return true;
    case PTX_ATOMIC: memory_atomic(m, w, i, mask); return true;
    case PTX_COPY_ASYNC: copy_issue(m, w, i, mask); return true;
    case PTX_COPY_COMMIT: copy_commit(w, mask); return true;
    case PTX_COPY_WAIT: copy_wait(m, w, i, mask); return true;
    case PTX_COPY_ARRIVE: copy_arrive(m, w, i, mask); return true;
    case PTX_BULK: bulk_issue(m, w, i, mask); return true;
    case PTX_BULK_COMMIT: bulk_commit(m, w, mask); return true;
    case PTX_BULK_WAIT: bulk_wait(m, w, i, mask); return true;
    case PTX_PROXY_FENCE:
        if (mask) shadow_fence(m, w, mask);
        return true;
    case PTX_INIT_FENCE:
        if (mask) barrier_fence_inits(m, w, mask);
        return true;
    case PTX_NOTHING: return true;
    case PTX_GRID_WAIT: w->early &= ~mask; return true;
    case PTX_TRAP:
        if (mask) trap(m, w, mask);
        return true;
    default: return false;
    }
}

/* What sets the program counter itself. False when the warp cannot go on now. */
static bool run_control(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    switch ((ptx_kind)i->kind) {
    case PTX_BRANCH: branch(m, w, i, mask); return true;
    case PTX_BRANCH_INDEXED:
        if (mask) return branch_indexed(m, w, i, mask);
        w->pc++;
        return true;
    case PTX_RETURN: return end_lanes(m, w, mask);
    case PTX_MBARRIER: return run_mbarrier(m, w, i, mask);
    default: return run_collective(m, w, i, mask);
    }
}

void machine_run_warp(machine *m, machine_warp *w) {
    const ptx_instruction *code = m->code;
    if (!w->mask && !choose(m, w)) return;
    while (!m->stopped) {
        const ptx_instruction *i = &code[w->pc];
        if (i->flags & PTX_BLOCK_START && w->group_count) {
            if (!reconverge(m, w)) return;
            i = &code[w->pc];
        }
        uint32_t mask = w->mask;
        if (i->guard >= 0)
            mask &= w->predicates[i->guard] ^ (i->flags & PTX_GUARD_NEGATED ? ~0u : 0u);
        m->counts[w->pc].executed++;
        if (++m->instructions > m->budget) {
            report_budget(m, w);
            return;
        }
        if (i->flags & PTX_TOUCHES) wgmma_touch(m, w, i, mask);
        if (run_single(m, w, i, mask)) w->pc++;
        else if (!run_control(m, w, i, mask)) return;
    }
}
