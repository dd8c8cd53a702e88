/* wgmma: when a warpgroup's products run, and who may touch their registers meanwhile (PTX ISA,
 * "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
 *
 * A product runs when the first of its four warps waits for its group: then all of them must have
 * committed it. From issue on, its sums lie hidden and their registers hold poison until the warp's
 * own wait; first factors in registers are read when the product runs.
 */
#include "emulate/machine.h"

static machine_warpgroup *group_of(machine *m, const machine_warp *w) {
    return &m->warpgroups[w->index / MACHINE_GROUP_WARPS];
}

static machine_product *product_at(const machine_warpgroup *g, uint32_t number) {
    return &g->products[number % MACHINE_PRODUCTS];
}

void wgmma_start_block(machine *m) {
    int groups = m->warpgroups ? m->warp_count / MACHINE_GROUP_WARPS : 0;
    for (int n = 0; n < groups; n++) {
        machine_product *products = m->warpgroups[n].products;
        m->warpgroups[n] = (machine_warpgroup){.products = products, .agent = -1};
    }
}

static void fault(machine *m, machine_warp *w, int32_t pc, int32_t other, const char *what) {
    machine_found(m, w, EMULATE_WGMMA_USE, pc, other, -1, ": %s", what);
    machine_stop(m);
}

/* --- registers -------------------------------------------------------------------------------- */

static void report_register(machine *m, machine_warp *w, emulate_kind kind, int32_t pc,
                            int32_t other, const char *does, const char *note) {
    emulate_finding *f = machine_found(m, w, kind, pc, other, -1, " %s", does);
    if (f) f->note = str_from(note);
}

static void touch(machine *m, machine_warp *w, machine_register *r, int32_t pc, bool writes) {
    if (r->group)
        report_register(m, w, EMULATE_WGMMA_REGISTER, pc, r->group_pc,
                        writes ? "overwrites a sum" : "reads a sum",
                        "the wgmma was issued here; its wait is missing");
    else if (writes && r->factor_group > w->product_waited)
        report_register(m, w, EMULATE_WGMMA_REGISTER, pc, r->factor_pc,
                        "overwrites a register of the first factor",
                        "the wgmma was issued here; its wait is missing");
    if (writes) r->write_pc = pc, r->write_time = m->instructions;
    else r->read_pc = pc, r->read_time = m->instructions;
}

void wgmma_touch(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    if (!mask) return;
    for (const int32_t *t = m->function->touches.items + m->function->touch_of[pc]; *t >= 0; t++)
        touch(m, w, &w->registers[*t >> 1], pc, *t & 1);
}

void wgmma_fence(machine *m, machine_warp *w) {
    w->fence_time = m->instructions;
}

static const char *const no_fence = "accessed here, with no wgmma.fence after it";

/* Sums: any access before needs a fence; those of products of one shape follow each other. */
static void take_sum(machine *m, machine_warp *w, const ptx_instruction *i, int number,
                     uint32_t group) {
    int32_t pc = (int32_t)(i - m->code);
    machine_register *r = &w->registers[number];
    uint32_t *row = machine_words(m, w, m->function->tracked.items[number]);
    if (!r->group) {
        bool read_last = r->read_time > r->write_time;
        uint64_t last = read_last ? r->read_time : r->write_time;
        if (last > w->fence_time)
            report_register(m, w, EMULATE_WGMMA_FENCE, pc, read_last ? r->read_pc : r->write_pc,
                            "takes a sum", no_fence);
        memcpy(w->sums[number], row, sizeof w->sums[number]);
        for (int l = 0; l < LANES; l++) row[l] = MACHINE_POISON;
    } else if (m->function->wgmmas.items[m->code[r->group_pc].list].n_count !=
               m->function->wgmmas.items[i->list].n_count) {
        report_register(m, w, EMULATE_WGMMA_FENCE, pc, r->group_pc, "takes a sum",
                        "a wgmma of another shape is in flight with it");
    }
    r->group = group;
    r->group_pc = pc;
}

static void take_factor(machine *m, machine_warp *w, int32_t pc, int number, uint32_t group) {
    machine_register *r = &w->registers[number];
    if (r->group)
        report_register(m, w, EMULATE_WGMMA_REGISTER, pc, r->group_pc, "takes a first factor",
                        "it is a sum of this wgmma; its wait is missing");
    else if (r->write_time > w->fence_time)
        report_register(m, w, EMULATE_WGMMA_FENCE, pc, r->write_pc, "takes a first factor",
                        no_fence);
    r->factor_group = group;
    r->factor_pc = pc;
}

static void take_registers(machine *m, machine_warp *w, const ptx_instruction *i,
                           const ptx_wgmma *form) {
    const ptx_function *f = m->function;
    int32_t pc = (int32_t)(i - m->code);
    uint32_t group = w->product_commits + 1;
    if (!w->fence_time) machine_found(m, w, EMULATE_WGMMA_FENCE, pc, -1, -1, ", the first one");
    for (int n = 0; n < form->d_count; n++)
        take_sum(m, w, i, f->row_numbers[f->lists.items[form->d_list + n]], group);
    for (int n = 0; form->a_list >= 0 && n < 4; n++) {
        int32_t row = f->lists.items[form->a_list + n];
        if (row >= 0) take_factor(m, w, pc, f->row_numbers[row], group);
    }
}

/* --- issue ------------------------------------------------------------------------------------ */

static bool uniform(const machine *m, const machine_warp *w, int32_t row, uint64_t *value) {
    const uint8_t *from = machine_row(m, w, row);
    memcpy(value, from, sizeof *value);
    for (int l = 1; l < LANES; l++)
        if (memcmp(from + 8 * l, from, 8) != 0) return false;
    return true;
}

/* The four warps' n-th products are one: it is the same instruction with the same operands. */
static machine_product *find_product(machine *m, machine_warp *w, const machine_product *p) {
    machine_warpgroup *g = group_of(m, w);
    int member = w->index % MACHINE_GROUP_WARPS;
    uint32_t number = g->issued[member]++;
    if (number == g->end) {
        if (g->end - g->first == MACHINE_PRODUCTS) {
            fault(m, w, p->pc, -1, "more than 512 products in flight");
            return NULL;
        }
        *product_at(g, g->end++) = *p;
    }
    machine_product *found = product_at(g, number);
    if (found->pc != p->pc || found->a != p->a || found->b != p->b || found->adds != p->adds ||
        found->group != p->group) {
        fault(m, w, p->pc, found->pc,
              "the warps of a warpgroup disagree about instruction, group or operands");
        return NULL;
    }
    found->issued |= 1u << member;
    return found;
}

/* Every warp has to see the operand; the mark of the reader is one for all. */
static void read_operand(machine *m, machine_warp *w, const ptx_instruction *i, bool is_a,
                         const machine_product *p, uint32_t stamp) {
    uint32_t offsets[WGMMA_PIECES_MAX];
    int32_t pc = (int32_t)(i - m->code);
    const ptx_wgmma *form = &m->function->wgmmas.items[i->list];
    int member = w->index % MACHINE_GROUP_WARPS;
    int count = wgmma_pieces(form, is_a ? p->a : p->b, is_a, member, offsets);
    for (int n = 0; n < count; n++) {
        if (memory_is_shared(m, w, -1, offsets[n], 16, pc)) continue;
        machine_stop(m);
        return;
    }
    shadow_read_pieces(m, w, STAMP_ANY_LANE, offsets, count, pc, stamp);
    if (is_a || p->issued == 1u << member) shadow_mark_pieces(m, offsets, count, pc, stamp);
}

/* PTX ISA, "Matrix Descriptor Format": start, offsets, base and swizzle have their bits; what the
 * others do is said nowhere.
 */
static const uint64_t RESERVED = UINT64_C(0x3ff1c000c000c000);

/* Descriptors and scale-d; what is wrong with them, or NULL. */
static const char *take_operands(const machine *m, const machine_warp *w, const ptx_instruction *i,
                                 machine_product *p) {
    const ptx_wgmma *form = &m->function->wgmmas.items[i->list];
    uint32_t adds = machine_truth(w, i);
    p->adds = adds != 0;
    if ((form->a_list < 0 && !uniform(m, w, form->a_row, &p->a)) ||
        !uniform(m, w, form->b_row, &p->b) || (adds && adds != ~0u))
        return "descriptors and scale-d must be the same in all lanes";
    if (p->a & RESERVED) return "the first descriptor has bits set that are reserved";
    if (p->b & RESERVED) return "the second descriptor has bits set that are reserved";
    return NULL;
}

void wgmma_issue(machine *m, machine_warp *w, const ptx_instruction *i) {
    const ptx_wgmma *form = &m->function->wgmmas.items[i->list];
    int32_t pc = (int32_t)(i - m->code);
    machine_warpgroup *g = group_of(m, w);
    machine_product p = {.pc = pc, .group = w->product_commits + 1};
    if (w->index / MACHINE_GROUP_WARPS >= m->warp_count / MACHINE_GROUP_WARPS || w->live != ~0u) {
        fault(m, w, pc, -1, "it needs four whole warps, the first of a number divisible by 4");
        return;
    }
    const char *wrong = take_operands(m, w, i, &p);
    if (wrong) {
        fault(m, w, pc, -1, wrong);
        return;
    }
    take_registers(m, w, i, form);
    const machine_product *product = find_product(m, w, &p);
    if (!product) return;
    if (g->agent < 0) {
        machine_agent agent = {.kind = AGENT_PRODUCTS,
                               .warp = w->index / MACHINE_GROUP_WARPS * MACHINE_GROUP_WARPS};
        g->agent = shadow_new_agent(m, w, agent, true);
        if (g->agent < 0) return;
    }
    uint32_t stamp = shadow_agent_stamp(g->agent, p.group);
    if (form->a_list < 0) read_operand(m, w, i, true, product, stamp);
    if (!m->stopped) read_operand(m, w, i, false, product, stamp);
}

/* --- groups ----------------------------------------------------------------------------------- */

static machine_warp *member(machine *m, const machine_warp *w, int n) {
    return &m->warps[w->index / MACHINE_GROUP_WARPS * MACHINE_GROUP_WARPS + n];
}

void wgmma_commit(machine *m, machine_warp *w) {
    shadow_check_clock(m, ++w->product_commits);
    for (int n = 0; n < MACHINE_GROUP_WARPS; n++) {
        int v = w->index / MACHINE_GROUP_WARPS * MACHINE_GROUP_WARPS + n;
        if (v < m->warp_count && m->warps[v].state == WARP_AT_PRODUCTS)
            m->warps[v].state = WARP_READY;
    }
    m->progress++;
}

static void return_registers(machine *m, machine_warp *w, uint32_t group) {
    for (int n = 0; n < m->function->tracked.count; n++) {
        machine_register *r = &w->registers[n];
        if (!r->group || r->group > group) continue;
        memcpy(machine_row(m, w, m->function->tracked.items[n]), w->sums[n], sizeof w->sums[n]);
        r->group = 0;
    }
}

/* The products up to a group; false after a finding. */
static bool run_products(machine *m, machine_warp *w, machine_warpgroup *g, uint32_t group) {
    while (g->first != g->end && product_at(g, g->first)->group <= group) {
        const machine_product *p = product_at(g, g->first);
        if (p->issued != (1u << MACHINE_GROUP_WARPS) - 1u) {
            fault(m, w, p->pc, -1, "not all warps of the warpgroup have issued it");
            return false;
        }
        wgmma_multiply(m, w->index / MACHINE_GROUP_WARPS, p);
        g->first++;
    }
    return true;
}

bool wgmma_wait(machine *m, machine_warp *w, const ptx_instruction *i) {
    if ((int64_t)w->product_commits <= i->immediate) return true;
    uint32_t group = w->product_commits - (uint32_t)i->immediate;
    if (group <= w->product_waited) return true;
    if (!m->warpgroups) { /* groups without a product */
        w->product_waited = group;
        return true;
    }
    machine_warpgroup *g = group_of(m, w);
    for (int n = 0; n < MACHINE_GROUP_WARPS; n++)
        if (member(m, w, n)->product_commits < group) {
            w->state = WARP_AT_PRODUCTS;
            return false;
        }
    if (!run_products(m, w, g, group)) return true;
    w->product_waited = group;
    return_registers(m, w, group);
    if (g->agent >= 0 && w->seen.agents[g->agent] < group) w->seen.agents[g->agent] = group;
    return true;
}

/* The block has ended. */
void wgmma_finish(machine *m) {
    for (int v = 0; m->warpgroups && v < m->warp_count; v++) {
        machine_warp *w = &m->warps[v];
        for (int n = 0; n < m->function->tracked.count; n++) {
            const machine_register *r = &w->registers[n];
            if (!r->group) continue;
            emulate_finding *f = machine_find(m, w, EMULATE_WGMMA_UNWAITED, r->group_pc, -1, -1);
            if (f) f->detail = machine_who(m, w, r->group_pc, -1);
        }
    }
}
