/* What a block takes of an SM: shared memory, threads, registers. */
#include "check/rules.h"
#include "tl/tl.h"

enum {
    REGISTER_BITS = 32,
    OVERHEAD_REGISTERS = 24, /* addresses, loop counters, fragments on their way: at the least */
    WARPGROUP_OVERHEAD_REGISTERS = 16, /* products take addresses, not fragments */
    ESTIMATE_REGISTERS = 40,           /* the same, as kernels of this class have it */
    LIVE_WORDS = MODEL_TILES_MAX / 64,
    BARRIERS_PER_SLOT = 2, /* full and empty */
};

static str number(arena *memory, int64_t value) {
    return str_format(memory, "%lld", (long long)value);
}

/* --- shared memory ---------------------------------------------------------------------------- */

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int64_t slot_bytes(const model_tile *t) {
    const tl_allocation *a = &t->allocation->allocate;
    int64_t line_bits = tl_type_bits(t->type), lines = 1;
    int along = a->by_columns ? 0 : t->axis_count - 1;
    for (int i = 0; i < t->axis_count; i++) {
        if (i == along) line_bits *= t->axes[i].extent;
        else lines *= t->axes[i].extent;
    }
    int64_t line_bytes = line_bits / 8;
    if (t->in_panels) line_bytes = round_up(line_bytes, a->swizzle_bytes);
    return round_up(line_bytes * lines, CHECK_SHARED_ALIGNMENT_BYTES);
}

static int64_t alignment_of(const model_tile *t) {
    /* TMA and wgmma repeat a swizzle of N bytes every 8*N. */
    enum { SWIZZLE_LINES = 8 };
    return t->in_panels ? t->allocation->allocate.swizzle_bytes * SWIZZLE_LINES
                        : CHECK_SHARED_ALIGNMENT_BYTES;
}

static const model_tile *tile_at(const model *m, const check_shared *place) {
    return &m->tiles[model_find_tile(m, place->tile, TL_SHARED)];
}

/* Matrices, then vectors. */
static check_shared *list_shared(arena *memory, const model *m, check_facts *facts) {
    check_shared *shared = arena_array(memory, check_shared, m->tile_count + 1);
    facts->shared = shared;
    for (int vectors = 0; vectors < 2; vectors++) {
        for (int t = 0; t < m->tile_count; t++) {
            const model_tile *tile = &m->tiles[t];
            if (tile->space != TL_SHARED || (tile->axis_count == 1) != vectors) continue;
            int64_t slot = slot_bytes(tile);
            shared[facts->shared_count++] = (check_shared){.tile = tile->symbol,
                                                           .allocation = tile->allocation,
                                                           .slot_bytes = slot,
                                                           .bytes = slot * tile->stages};
        }
    }
    return shared;
}

static void place_shared(arena *memory, const model *m, check_facts *facts) {
    check_shared *shared = list_shared(memory, m, facts);
    int64_t offset = 0;
    for (int i = 0; i < facts->shared_count; i++) {
        int64_t bytes = 0, alignment = CHECK_SHARED_ALIGNMENT_BYTES;
        int group = tile_at(m, &shared[i])->group;
        if (m->tiles[group].symbol != shared[i].tile) continue; /* in place of another one */
        for (int k = 0; k < facts->shared_count; k++) {
            const model_tile *tile = tile_at(m, &shared[k]);
            if (tile->group != group) continue;
            if (shared[k].bytes > bytes) bytes = shared[k].bytes;
            if (alignment_of(tile) > alignment) alignment = alignment_of(tile);
        }
        offset = round_up(offset, alignment);
        for (int k = 0; k < facts->shared_count; k++) {
            if (tile_at(m, &shared[k])->group == group) shared[k].offset_bytes = offset;
        }
        offset += bytes;
    }
    for (int i = 0; i < facts->shared_count; i++) {
        const model_tile *tile = tile_at(m, &shared[i]);
        if (!tile->frees) continue;
        shared[i].full_offset = offset;
        shared[i].empty_offset = offset + tile->stages * CHECK_MBARRIER_BYTES;
        offset += (int64_t)tile->stages * BARRIERS_PER_SLOT * CHECK_MBARRIER_BYTES;
    }
    facts->shared_bytes = offset;
}

/* The most that the next tiles' numbers need in a dynamic grid. */
static int64_t number_bytes(const model *m) {
    if (!m->grid || m->grid->grid.kind != TL_GRID_DYNAMIC) return 0;
    int64_t barriers = BARRIERS_PER_SLOT * CHECK_MBARRIER_BYTES;
    int64_t slot =
        round_up((int64_t)(1 + m->grid->grid.count) * CHECK_NUMBER_BYTES, CHECK_NUMBER_UNIT_BYTES);
    return CHECK_NUMBER_UNIT_BYTES + CHECK_NUMBER_SLOTS * (barriers + slot);
}

static bool check_shared_bytes(arena *memory, const model *m, const gpu *target, diag_list *diags,
                               const check_facts *facts) {
    int64_t bytes = facts->shared_bytes + number_bytes(m);
    if (!target || bytes <= target->block_shared) return true;
    str found = number(memory, bytes), most = number(memory, target->block_shared);
    diag_range at = facts->shared_count ? facts->shared[0].allocation->range : m->kernel->range;
    diag_expected(diag_report(diags, DIAG_BUDGET_SHARED, at, found, target->title, most),
                  str_format(memory, "at most %.*s bytes", STR_ARGS(most)), found);
    for (int i = 0; i < facts->shared_count; i++) {
        const check_shared *s = &facts->shared[i];
        int64_t stages = s->slot_bytes ? s->bytes / s->slot_bytes : 1;
        bool overlaps = s->allocation->allocate.in_place_of.length > 0;
        str each = stages > 1 ? str_format(memory, " (%lld slots of %lld)", (long long)stages,
                                           (long long)s->slot_bytes)
                              : STR("");
        diag_report(diags, overlaps ? DIAG_BUDGET_IN_PLACE : DIAG_BUDGET_TILE, s->allocation->range,
                    s->tile->name, number(memory, s->bytes), each,
                    s->allocation->allocate.in_place_of);
    }
    return false;
}

/* --- threads ---------------------------------------------------------------------------------- */

static bool check_threads(arena *memory, const model *m, const gpu *target, diag_list *diags) {
    int64_t threads = 0, registers = 0;
    bool said = true;
    for (int r = 0; r < m->role_count; r++) {
        int64_t own = 32 * m->roles[r].block_warps, each = m->roles[r].statement->role.registers;
        threads += own;
        registers += own * each;
        said &= each > 0;
    }
    if (!target || !m->role_count) return true;
    diag_range at = m->roles[m->role_count - 1].statement->range;
    if (threads > target->block_threads) {
        diag_report(diags, DIAG_BUDGET_THREADS, at, number(memory, threads), target->title,
                    number(memory, target->block_threads));
        return false;
    }
    /* What a block begins with is all that its roles hand to one another: if they ask for more,
     * some wait for ever.
     */
    int64_t most = threads * gpu_registers_for(target, (int)threads, 1);
    if (said && registers > most) {
        diag_report(diags, DIAG_BUDGET_ROLE_REGISTERS, at, number(memory, registers), target->title,
                    number(memory, most), number(memory, threads));
        return false;
    }
    return true;
}

/* --- registers -------------------------------------------------------------------------------- */

typedef struct live_set {
    uint64_t words[LIVE_WORDS];
} live_set;

static void put(live_set *s, int tile, bool in) {
    uint64_t bit = (uint64_t)1 << (tile % 64);
    if (in) s->words[tile / 64] |= bit;
    else s->words[tile / 64] &= ~bit;
}

static bool is_in(const live_set *s, int tile) {
    return s->words[tile / 64] >> (tile % 64) & 1;
}

static bool unite(live_set *into, const live_set *other) {
    bool changed = false;
    for (int i = 0; i < LIVE_WORDS; i++) {
        uint64_t both = into->words[i] | other->words[i];
        changed |= both != into->words[i];
        into->words[i] = both;
    }
    return changed;
}

typedef struct pressure {
    const model *model;
    const model_role *role;
    int *registers;   /* by tile: of a thread */
    live_set *before; /* by step */
    live_set *ways;   /* by step: of `if not C` after `if C`, what lives where its body begins */
    int most;
    const model_step *at;
    live_set tiles; /* live there */
} pressure;

static bool is_register(const pressure *p, int tile) {
    return tile >= 0 && p->model->tiles[tile].space == TL_REGISTER;
}

/* What lives before a step, given what lives after it. */
static live_set live_before(const pressure *p, const model_step *step, live_set live) {
    bool to_register = step->has_target && is_register(p, step->target.tile);
    if (to_register && !step->accumulates && step->kind != STEP_RESHAPE) {
        put(&live, step->target.tile, false);
    }
    if (to_register && (step->accumulates || step->kind == STEP_RESHAPE)) {
        put(&live, step->target.tile, true);
    }
    for (int i = 0; i < step->read_count; i++) {
        if (is_register(p, step->reads[i].tile)) put(&live, step->reads[i].tile, true);
    }
    return live;
}

static int count_registers(const pressure *p, const live_set *live) {
    int total = 0;
    for (int t = 0; t < p->model->tile_count; t++) {
        if (is_in(live, t)) total += p->registers[t];
    }
    return total;
}

static void measure(pressure *p, const model_step *step, const live_set *before,
                    const live_set *after) {
    /* A product reads while it writes. Elementwise runs go element by element: what they read ends
     * as what they write begins, so the larger side counts.
     */
    live_set widest = *before;
    bool at_once = step->kind == STEP_COMPUTE && step->statement->compute.operation == TL_GEMM;
    if (at_once) unite(&widest, after);
    else if (count_registers(p, after) > count_registers(p, before)) widest = *after;
    int registers = count_registers(p, &widest);
    if (registers <= p->most) return;
    p->most = registers;
    p->at = step;
    p->tiles = widest;
}

/* `if not C` right after `if C`: its index, from that of the first; -1: there is none. One of both
 * is taken.
 */
static int alternative_of(const model_role *role, int first) {
    int second = role->steps[first].other + 1;
    if (second >= role->step_count || role->steps[second].kind != STEP_IF) return -1;
    const tl_expr *one = role->steps[first].statement->branch.condition;
    const tl_expr *other = role->steps[second].statement->branch.condition;
    return other->kind == TL_NOT && tl_expr_equal(other->left, one) ? second : -1;
}

static bool is_alternative(const model_role *role, int second) {
    if (second < 1 || role->steps[second - 1].kind != STEP_END_IF) return false;
    return alternative_of(role, role->steps[second - 1].other) == second;
}

static void flow_back(pressure *p, bool measures) {
    live_set live = {{0}};
    for (int i = p->role->step_count - 1; i >= 0; i--) {
        const model_step *step = &p->role->steps[i];
        live_set after = live;
        switch (step->kind) {
        case STEP_END_FOR: unite(&live, &p->before[step->other]); break; /* once more, or out */
        case STEP_END_IF: break;
        case STEP_IF:
            if (is_alternative(p->role, i)) {
                p->ways[i] = live; /* past the first one */
                live = p->before[step->other];
            } else if (alternative_of(p->role, i) >= 0) {
                unite(&live, &p->ways[alternative_of(p->role, i)]);
            } else {
                unite(&live, &p->before[step->other]); /* or past it */
            }
            break;
        case STEP_FOR: unite(&live, &p->before[step->other]); break; /* or past it */
        default: live = live_before(p, step, live);
        }
        if (step->kind == STEP_IF) {
            for (int k = 0; k < step->read_count; k++) {
                if (is_register(p, step->reads[k].tile)) put(&live, step->reads[k].tile, true);
            }
        }
        if (measures && (step->read_count || step->has_target)) measure(p, step, &live, &after);
        unite(&p->before[i], &live);
        live = p->before[i];
    }
}

/* --- arithmetic with places ------------------------------------------------------------------- */

int check_element_registers(const check_elements *e) {
    enum { PLACE_VALUES = 33, LANES_OF_A_ROW = 4, CHAIN_VALUES = 9, CHAIN_VALUES_BESIDE = 20 };
    if (!e->uses_indices) return e->is_curved ? CHAIN_VALUES : 0;
    int own = (int)(e->columns / LANES_OF_A_ROW), chain = CHAIN_VALUES_BESIDE + own;
    return PLACE_VALUES + own + (e->is_curved ? chain : 0);
}

static void note_elements(const model *m, const model_step *step, check_elements *elements) {
    if (step->kind != STEP_COMPUTE || !step->has_target || step->target.tile < 0) return;
    const model_tile *tile = &m->tiles[step->target.tile];
    const tl_compute *c = &step->statement->compute;
    if (tile->axis_count < 2) return;
    if (tl_facts(c->operation)->is_chain) elements->is_curved = true;
    if (c->operation == TL_MASK || c->operation == TL_GEMM) return;
    for (int i = 0; i < c->operand_count; i++) {
        if (!tl_expr_mentions_index(c->operands[i].value)) continue;
        elements->uses_indices = true;
        if (tile->axes[1].extent > elements->columns) elements->columns = tile->axes[1].extent;
    }
}

static void count_tiles(pressure *p, int role) {
    for (int t = 0; t < p->model->tile_count; t++) {
        const model_tile *tile = &p->model->tiles[t];
        if (tile->space != TL_REGISTER || tile->role != role) continue;
        if (p->role->statement->role.is_warpgroups && tile->axis_count == 2 &&
            rules_is_fused_away(p->model, p->role, t))
            continue;
        if (!tile->layout) continue;
        int bits = tl_type_bits(tile->type);
        p->registers[t] =
            layout_registers(tile->layout, bits ? bits : REGISTER_BITS) * tile->stages;
    }
}

static bool check_registers(arena *memory, const model *m, int role, const gpu *target,
                            diag_list *diags, check_facts *facts) {
    pressure p = {.model = m, .role = &m->roles[role]};
    p.registers = arena_array(memory, int, m->tile_count + 1);
    p.before = arena_array(memory, live_set, p.role->step_count + 1);
    p.ways = arena_array(memory, live_set, p.role->step_count + 1);
    count_tiles(&p, role);
    flow_back(&p, false);
    flow_back(&p, false); /* the second round carries what lives around loops */
    flow_back(&p, true);
    check_elements elements = {0};
    for (int i = 0; i < p.role->step_count; i++) note_elements(m, &p.role->steps[i], &elements);
    int estimate = p.most + ESTIMATE_REGISTERS + check_element_registers(&elements);
    if (estimate > facts->registers_estimate) facts->registers_estimate = estimate;
    int64_t most = p.role->statement->role.registers;
    if (!most && target) {
        most = target->thread_registers;
        int64_t shares = target->registers / p.role->threads;
        if (shares < most) most = shares;
    }
    int overhead =
        p.role->statement->role.is_warpgroups ? WARPGROUP_OVERHEAD_REGISTERS : OVERHEAD_REGISTERS;
    if (!most || !p.at || p.most + overhead <= most) return true;
    str found = number(memory, p.most), limit = number(memory, most);
    diag_expected(diag_report(diags, DIAG_BUDGET_REGISTERS, p.at->statement->range, found, limit,
                              number(memory, overhead)),
                  limit, found);
    for (int t = 0; t < m->tile_count; t++) {
        if (!is_in(&p.tiles, t) || !p.registers[t]) continue;
        diag_report(diags, DIAG_BUDGET_LIVE, m->tiles[t].declared, m->tiles[t].name,
                    number(memory, p.registers[t]));
    }
    return false;
}

bool rules_budgets(arena *memory, const model *m, const gpu *target, diag_list *diags,
                   check_facts *facts) {
    place_shared(memory, m, facts);
    bool right = check_shared_bytes(memory, m, target, diags, facts);
    right &= check_threads(memory, m, target, diags);
    for (int r = 0; r < m->role_count; r++) {
        right &= check_registers(memory, m, r, target, diags, facts);
    }
    return right;
}
