/* A launch: checks it, lays out memory, goes through the grid, and collects what there is to say.
 */
#include "emulate/machine.h"

#include <stdlib.h>

static const ptx_function *find_entry(const emulate_module *module, str name) {
    if (!name.length) return module->entries.count == 1 ? &module->entries.items[0] : NULL;
    for (int i = 0; i < module->entries.count; i++)
        if (str_equal(module->entries.items[i].name, name)) return &module->entries.items[i];
    return NULL;
}

static uint64_t threads_of(const emulate_launch *launch) {
    return (uint64_t)launch->block[0] * launch->block[1] * launch->block[2];
}

static bool sizes_sane(const emulate_launch *launch) {
    for (int i = 0; i < 3; i++) {
        if (!launch->grid[i] || !launch->block[i]) return false;
        if (launch->block[i] > EMULATE_THREADS_MAX) return false;
    }
    return launch->grid[1] <= 65535 && launch->grid[2] <= 65535 && launch->grid[0] <= INT32_MAX &&
           launch->block[2] <= 64;
}

static str refuse_buffers(arena *memory, const emulate_launch *launch, uint32_t parameter_bytes) {
    if (launch->buffer_count < 0 || launch->buffer_count > EMULATE_BUFFERS_MAX)
        return str_format(memory, "at most %d buffers, not %d", EMULATE_BUFFERS_MAX,
                          launch->buffer_count);
    for (int i = 0; i < launch->buffer_count; i++) {
        const emulate_buffer *b = &launch->buffers[i];
        if (b->bytes >> 34 || (b->bytes && !b->data))
            return str_format(memory, "buffer %.*s has no memory, or is larger than 16 GiB",
                              STR_ARGS(b->name));
    }
    for (int i = 0; i < launch->pointer_count; i++) {
        const emulate_pointer *p = &launch->pointers[i];
        if (p->buffer < 0 || p->buffer >= launch->buffer_count)
            return str_format(memory, "pointer %d names buffer %d of %d", i, p->buffer,
                              launch->buffer_count);
        if ((uint64_t)p->parameter_offset + 8 > parameter_bytes)
            return str_format(memory, "pointer %d lies outside the %u bytes of parameters", i,
                              parameter_bytes);
    }
    return (str){NULL, 0};
}

static str refuse(arena *memory, const emulate_module *module, const emulate_launch *launch,
                  const ptx_function *f) {
    if (!f && !launch->entry.length)
        return str_format(memory, "the PTX has %d kernels: which one?", module->entries.count);
    if (!f) return str_format(memory, "the PTX has no kernel called %.*s", STR_ARGS(launch->entry));
    if (!sizes_sane(launch))
        return str_format(memory, "a grid of %u x %u x %u blocks of %u x %u x %u threads",
                          launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0],
                          launch->block[1], launch->block[2]);
    uint64_t threads = threads_of(launch);
    if (threads > EMULATE_THREADS_MAX)
        return str_format(memory, "%llu threads a block; at most %d", (unsigned long long)threads,
                          EMULATE_THREADS_MAX);
    if (f->threads_required && threads != f->threads_required)
        return str_format(memory, "the kernel wants %u threads a block, not %llu",
                          f->threads_required, (unsigned long long)threads);
    if (f->threads_most && threads > f->threads_most)
        return str_format(memory, "the kernel allows %u threads a block, not %llu", f->threads_most,
                          (unsigned long long)threads);
    uint32_t static_bytes = f->dynamic_shared - PTX_SHARED_BEGIN;
    if ((uint64_t)static_bytes + launch->dynamic_shared_bytes > EMULATE_SHARED_MAX)
        return str_format(memory, "%u + %u bytes of shared memory; at most %d", static_bytes,
                          launch->dynamic_shared_bytes, EMULATE_SHARED_MAX);
    if (launch->parameter_bytes != f->parameter_bytes)
        return str_format(memory, "%u bytes of parameters; the kernel takes %u",
                          launch->parameter_bytes, f->parameter_bytes);
    return refuse_buffers(memory, launch, f->parameter_bytes);
}

/* --- memory ----------------------------------------------------------------------------------- */

uint8_t *emulate_variables(const emulate_module *module, arena *memory) {
    if (!module->global_bytes) return NULL;
    uint8_t *variables = arena_array(memory, uint8_t, module->global_bytes);
    memcpy(variables, module->global_image, module->global_bytes);
    return variables;
}

static void make_buffers(machine *m, const emulate_launch *launch) {
    m->buffer_count = launch->buffer_count;
    for (int i = 0; i < launch->buffer_count; i++) {
        const emulate_buffer *b = &launch->buffers[i];
        machine_buffer *to = &m->buffers[i];
        *to = (machine_buffer){.name = b->name,
                               .data = b->data,
                               .bytes = b->bytes,
                               .readable = b->readable,
                               .writable = b->writable,
                               .once = b->once};
        to->element_bytes = b->element_bytes ? b->element_bytes : 1;
        if (b->writable)
            to->pages = arena_array(m->memory, uint32_t, b->bytes / MACHINE_PAGE_BYTES + 1u);
        if (!b->output && !b->once && !b->whole) continue;
        size_t elements = (b->bytes + to->element_bytes - 1u) / to->element_bytes;
        to->written = arena_array(m->memory, uint8_t, elements + 1u);
    }
    machine_buffer *own = &m->buffers[EMULATE_BUFFERS_MAX];
    size_t bytes = m->module->global_bytes;
    *own = (machine_buffer){.name = STR("module variables"),
                            .bytes = bytes,
                            .readable = true,
                            .writable = true,
                            .element_bytes = 1};
    own->data = launch->variables ? launch->variables : emulate_variables(m->module, m->memory);
    own->pages = arena_array(m->memory, uint32_t, bytes / MACHINE_PAGE_BYTES + 1u);
}

static void make_parameters(machine *m, const emulate_launch *launch) {
    m->parameter_bytes = launch->parameter_bytes;
    m->parameters = arena_array(m->memory, uint8_t, launch->parameter_bytes + 16u);
    if (launch->parameter_bytes && launch->parameters)
        memcpy(m->parameters, launch->parameters, launch->parameter_bytes);
    for (int i = 0; i < launch->pointer_count; i++) {
        const emulate_pointer *p = &launch->pointers[i];
        uint64_t address = PTX_BUFFER(p->buffer) + (uint64_t)p->byte_offset;
        memcpy(m->parameters + p->parameter_offset, &address, sizeof address);
    }
}

static void make_wgmma(machine *m) {
    int groups = m->warp_count / MACHINE_GROUP_WARPS, tracked = m->function->tracked.count + 1;
    m->warpgroups = arena_array(m->memory, machine_warpgroup, groups + 1);
    m->wgmma_columns = arena_array(m->memory, sums_columns, WGMMA_COLUMNS_MAX);
    for (int n = 0; n < groups; n++)
        m->warpgroups[n].products = arena_array(m->memory, machine_product, MACHINE_PRODUCTS);
    for (int v = 0; v < m->warp_count; v++) {
        m->warps[v].registers = arena_array(m->memory, machine_register, tracked);
        m->warps[v].sums = arena_alloc_array(m->memory, (size_t)tracked, PTX_ROW_BYTES, 64);
    }
}

static void make_memory(machine *m, const emulate_launch *launch) {
    const ptx_function *f = m->function;
    m->thread_count = (int)threads_of(launch);
    m->warp_count = (m->thread_count + LANES - 1) / LANES;
    for (int v = 0; v < m->warp_count; v++) {
        machine_warp *w = &m->warps[v];
        w->index = v;
        w->rows = arena_alloc_array(m->memory, (size_t)f->row_count + 2u, PTX_ROW_BYTES, 64);
        w->predicates = arena_array(m->memory, uint32_t, f->predicate_count + 1);
    }
    size_t constant_bytes = (size_t)f->constants.count * sizeof(uint32_t);
    uint8_t *constants = arena_alloc(m->memory, constant_bytes + PTX_ROW_BYTES, 64);
    if (constant_bytes) memcpy(constants, f->constants.items, constant_bytes);
    m->constants = constants;
    m->shared_end = f->dynamic_shared + launch->dynamic_shared_bytes;
    m->cell_count = m->shared_end / 4u + 1u;
    m->shared = arena_alloc(m->memory, (size_t)m->cell_count * 4u + 64u, 64);
    m->cell_state = arena_array(m->memory, uint8_t, m->cell_count);
    m->write_stamp = arena_array(m->memory, uint32_t, m->cell_count);
    m->write_pc = arena_array(m->memory, int32_t, m->cell_count);
    bool async = f->bulks.count || f->wgmmas.count;
    size_t reads = (size_t)m->cell_count * (size_t)(m->warp_count + (async ? MACHINE_READERS : 0));
    m->read_stamp = arena_array(m->memory, uint32_t, reads);
    m->read_pc = arena_array(m->memory, int32_t, reads);
    m->split_of = arena_array(m->memory, uint32_t, m->cell_count);
    m->local = arena_array(m->memory, uint8_t,
                           (size_t)f->local_bytes * (size_t)m->warp_count * LANES + 1u);
    m->mbarriers = arena_array(m->memory, machine_mbarrier, MACHINE_MBARRIERS_MAX + 1);
    if (f->wgmmas.count) make_wgmma(m);
    m->factors = arena_array(m->memory, machine_factor, MACHINE_FACTORS);
    m->columns = arena_array(m->memory, machine_columns, MACHINE_COLUMNS);
    m->counts = arena_array(m->memory, machine_count, f->code.count);
    m->findings = arena_array(m->memory, emulate_finding, MACHINE_FINDINGS_MAX);
    m->finding_keys = arena_alloc_array(m->memory, 2 * MACHINE_FINDINGS_MAX,
                                        sizeof *m->finding_keys, _Alignof(int32_t));
}

/* --- one block -------------------------------------------------------------------------------- */

static void poison(void *at, size_t bytes) {
    uint32_t *words = at;
    for (size_t i = 0; i < bytes / 4u; i++) words[i] = MACHINE_POISON;
}

static uint32_t special_value(const machine *m, const machine_warp *w, ptx_special special, int l) {
    const uint32_t *block = m->launch->block, *grid = m->launch->grid;
    uint32_t thread = (uint32_t)(w->index * LANES + l), bit = 1u << l;
    switch (special) {
#define SPECIAL(id, name, value)                                                                   \
    case PTX_SPECIAL_##id:                                                                         \
        return (value);
#include "emulate/specials.def"
#undef SPECIAL
    case PTX_SPECIAL_COUNT: break;
    }
    return 0;
}

static void start_warp(machine *m, machine_warp *w) {
    const ptx_function *f = m->function;
    int left = m->thread_count - w->index * LANES;
    uint32_t live = left >= LANES ? ~0u : (1u << left) - 1u;
    *w = (machine_warp){.index = w->index,
                        .rows = w->rows,
                        .predicates = w->predicates,
                        .copies = {w->copies.items, 0, w->copies.capacity},
                        .registers = w->registers,
                        .sums = w->sums,
                        .register_pc = -1,
                        .live = live,
                        .first_live = live,
                        .early = m->launch->is_early ? live : 0,
                        .mask = live,
                        .clock = 1};
    if (w->registers) memset(w->registers, 0, (size_t)f->tracked.count * sizeof *w->registers);
    poison(w->rows, (size_t)f->row_count * PTX_ROW_BYTES);
    memset(w->predicates, 0, (size_t)f->predicate_count * sizeof *w->predicates);
    for (int s = 0; s < PTX_SPECIAL_COUNT; s++) {
        if (f->specials[s] == PTX_NONE) continue;
        uint32_t *row = machine_words(m, w, f->specials[s]);
        for (int l = 0; l < LANES; l++) row[l] = special_value(m, w, (ptx_special)s, l);
    }
}

static void start_block(machine *m, uint64_t number) {
    const uint32_t *grid = m->launch->grid;
    m->block[0] = (uint32_t)(number % grid[0]);
    m->block[1] = (uint32_t)(number / grid[0] % grid[1]);
    m->block[2] = (uint32_t)(number / grid[0] / grid[1]);
    m->mbarrier_count = m->arrivals.count = m->split_count = 0;
    m->agent_count = m->reader_count = m->bulks.count = 0;
    for (int v = 0; v < m->read_rows; v++) {
        size_t row = (size_t)v * m->cell_count;
        if (m->row_used[v]) memset(m->read_stamp + row, 0, m->cell_count * sizeof *m->read_stamp);
        m->row_used[v] = false;
    }
    m->read_rows = m->warp_count;
    wgmma_start_block(m);
    registers_start_block(m);
    global_start_block(m);
    m->stopped = m->block_found = false;
    for (int n = 0; n < MACHINE_BARRIERS; n++) m->barriers[n] = (machine_barrier){.all = true};
    for (int v = 0; v < m->warp_count; v++) start_warp(m, &m->warps[v]);
    poison(m->shared, (size_t)m->cell_count * 4u);
    memset(m->cell_state, 0, m->cell_count);
    memset(m->write_stamp, 0, m->cell_count * sizeof *m->write_stamp);
    poison(m->local, (size_t)m->function->local_bytes * (size_t)m->warp_count * LANES);
}

/* --- what there is to say --------------------------------------------------------------------- */

static void report_elements(machine *m, emulate_kind kind, int buffer, size_t count,
                            size_t elements, size_t first) {
    if (!count) return;
    emulate_finding *f = machine_find(m, NULL, kind, -1, -2 - buffer, -1);
    if (f)
        f->detail = str_format(m->memory, "%zu of %zu elements of %.*s, the first is %zu", count,
                               elements, STR_ARGS(m->buffers[buffer].name), first);
}

static void check_outputs(machine *m) {
    for (int i = 0; i < m->buffer_count; i++) {
        const machine_buffer *b = &m->buffers[i];
        if (!b->written) continue;
        size_t elements = b->bytes / b->element_bytes, missing = 0, twice = 0;
        size_t first_missing = 0, first_twice = 0;
        for (size_t e = elements; e-- > 0;) {
            if (!b->written[e]) missing++, first_missing = e;
            if (b->written[e] == MACHINE_TWICE) twice++, first_twice = e;
        }
        if (m->launch->buffers[i].whole)
            report_elements(m, EMULATE_OUTPUT_UNWRITTEN, i, missing, elements, first_missing);
        if (b->once) report_elements(m, EMULATE_OUTPUT_TWICE, i, twice, elements, first_twice);
    }
}

static uint32_t access_bytes(const ptx_instruction *i) {
    switch (i->kind) {
    case PTX_LOAD:
    case PTX_STORE: return (uint32_t)i->bytes * i->count;
    case PTX_LOAD_MATRIX:
    case PTX_STORE_MATRIX:
    case PTX_BULK: return 16;
    default: return i->bytes;
    }
}

static void collect_traffic(machine *m, emulate_result *result) {
    const ptx_function *f = m->function;
    LIST(emulate_traffic) list = {0};
    for (int pc = 0; pc < f->code.count; pc++) {
        const ptx_instruction *i = &f->code.items[pc];
        const machine_count *c = &m->counts[pc];
        bool memory = i->kind == PTX_LOAD || i->kind == PTX_STORE || i->kind == PTX_ATOMIC ||
                      i->kind == PTX_COPY_ASYNC || i->kind == PTX_BULK ||
                      i->kind == PTX_LOAD_MATRIX || i->kind == PTX_STORE_MATRIX;
        if (!memory || !c->executed) continue;
        bool matrix = i->kind == PTX_LOAD_MATRIX || i->kind == PTX_STORE_MATRIX;
        ptx_space space = matrix ? PTX_SHARED : (ptx_space)c->space;
        if (space == PTX_PARAM || space == PTX_CONST || space == PTX_GENERIC) continue;
        emulate_traffic t = {.place = machine_place(m, pc),
                             .bytes_per_lane = access_bytes(i),
                             .executed = c->executed,
                             .wavefronts = c->wavefronts,
                             .least_wavefronts = c->least_wavefronts,
                             .sectors = c->sectors,
                             .least_sectors = c->least_sectors};
        t.space = space == PTX_SHARED  ? STR("shared")
                  : space == PTX_LOCAL ? STR("local")
                                       : STR("global");
        list_push(m->memory, &list, t);
    }
    result->traffic = list.items;
    result->traffic_count = list.count;
}

static int by_count(const void *a, const void *b) {
    const emulate_opcode_count *x = a, *y = b;
    if (x->executed != y->executed) return x->executed < y->executed ? 1 : -1;
    return x->opcode.data < y->opcode.data ? -1 : x->opcode.data > y->opcode.data;
}

static void collect_opcodes(machine *m, emulate_result *result) {
    int count = m->module->opcodes.count, used = 0;
    emulate_opcode_count *rows = arena_array(m->memory, emulate_opcode_count, count + 1);
    for (int pc = 0; pc < m->function->code.count; pc++)
        rows[m->code[pc].opcode].executed += m->counts[pc].executed;
    for (int i = 0; i < count; i++) {
        rows[i].opcode = m->module->opcodes.items[i];
        if (rows[i].executed) rows[used++] = rows[i];
    }
    qsort(rows, (size_t)used, sizeof *rows, by_count);
    result->opcodes = rows;
    result->opcode_count = used;
}

static machine *make_machine(const emulate_module *module, const ptx_function *f,
                             const emulate_launch *launch, arena *memory) {
    machine *m = arena_new(memory, machine);
    m->module = module;
    m->function = f;
    m->launch = launch;
    m->processor = launch->processor ? launch->processor : module->target;
    m->memory = memory;
    m->code = f->code.items;
    m->set = lanes_choose(launch->plain);
    m->sums = sums_choose(launch->plain);
    m->budget = launch->instruction_budget ? launch->instruction_budget : 1ull << 32;
    m->random = launch->seed;
    make_buffers(m, launch);
    make_parameters(m, launch);
    make_memory(m, launch);
    return m;
}

/* With a seed, blocks come in another order: number to number, by a step that shares no factor with
 * their count.
 */
typedef struct block_order {
    uint64_t count, step, shift;
} block_order;

static uint64_t common_factor(uint64_t a, uint64_t b) {
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static block_order make_order(machine *m, uint64_t count) {
    block_order order = {count, 1, 0};
    if (!m->random || count < 2) return order;
    order.shift = machine_draw(m) % count;
    order.step = machine_draw(m) % (count < 1u << 30 ? count : 1u << 30);
    while (common_factor(order.step, count) != 1) order.step++;
    return order;
}

emulate_outcome emulate_run(const emulate_module *module, const emulate_launch *launch,
                            arena *memory, emulate_result *result) {
    *result = (emulate_result){.outcome = EMULATE_REFUSED};
    const ptx_function *f = find_entry(module, launch->entry);
    result->refusal = refuse(memory, module, launch, f);
    if (result->refusal.length) return result->outcome;
    machine *m = make_machine(module, f, launch, memory);
    uint64_t blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
    uint64_t first = launch->first_block < blocks ? launch->first_block : blocks, last = blocks;
    bool all = !launch->block_count;
    if (!all && launch->block_count < blocks - first) last = first + launch->block_count;
    bool bad = false;
    block_order order = make_order(m, last - first);
    for (uint64_t number = 0; number < last - first; number++) {
        start_block(m, first + (number * order.step + order.shift) % order.count);
        block_run(m);
        result->blocks_run++;
        bad |= m->block_found;
        if (bad && !launch->go_on) break;
        if (m->instructions > m->budget) break;
    }
    if (!bad && result->blocks_run == blocks) check_outputs(m);
    result->findings = m->findings;
    result->finding_count = m->finding_count;
    result->findings_left_out = m->findings_left_out;
    result->instructions = m->instructions;
    collect_traffic(m, result);
    collect_opcodes(m, result);
    return result->outcome = m->finding_count ? EMULATE_FOUND : EMULATE_CLEAN;
}
