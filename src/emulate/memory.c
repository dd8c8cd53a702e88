/* Loads, stores and atomics in all spaces. */
#include "emulate/machine.h"

#include "emulate/number.h"

static const char *const space_names[] = {"memory", "global",    "shared",
                                          "local",  "parameter", "constant"};

void memory_addresses(const machine *m, const machine_warp *w, int32_t row, int row_bytes,
                      int64_t offset, uint64_t addresses[LANES]) {
    if (row_bytes == 4) {
        const uint32_t *base = machine_row(m, w, row);
        for (int l = 0; l < LANES; l++) addresses[l] = base[l] + (uint64_t)offset;
    } else {
        const uint64_t *base = machine_row(m, w, row);
        for (int l = 0; l < LANES; l++) addresses[l] = base[l] + (uint64_t)offset;
    }
}

/* Takes the lanes off *mask whose address is in the first lane's space, and strips its window. */
static uint32_t split_space(uint64_t addresses[LANES], uint32_t *mask, ptx_space *space) {
    *space = ptx_space_of(addresses[machine_first_lane(*mask)]);
    uint32_t same = 0;
    for (uint32_t rest = *mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        if (ptx_space_of(addresses[l]) != *space) continue;
        same |= 1u << l;
        if (*space != PTX_GLOBAL) addresses[l] &= (1ull << PTX_WINDOW_SHIFT) - 1u;
    }
    *mask &= ~same;
    return same;
}

static bool misaligned(machine *m, machine_warp *w, int lane, uint64_t address, uint32_t bytes,
                       ptx_space space, int32_t pc) {
    if (!(address & (bytes - 1u))) return false;
    machine_found(m, w, EMULATE_MISALIGNED, pc, -1, lane, ": %u bytes at %s address %s0x%llx",
                  bytes, space_names[space], space == PTX_GLOBAL ? "..." : "",
                  (unsigned long long)(address & 0xffffffu));
    return true;
}

static void report_bounds(machine *m, machine_warp *w, emulate_kind kind, int lane,
                          uint64_t address, uint32_t bytes, uint64_t limit, int32_t pc) {
    machine_found(m, w, kind, pc, -1, lane, ": %u bytes at byte %lld of %llu", bytes,
                  (long long)address, (unsigned long long)limit);
}

/* Where a lane's bytes are, or NULL after a finding. Shared accesses go through the shadow. */
static uint8_t *lane_bytes(machine *m, machine_warp *w, ptx_space space, int lane, uint64_t address,
                           uint32_t bytes, global_access access, int32_t pc) {
    emulate_kind kind = EMULATE_PARAMETER_BOUNDS;
    uint8_t *base = NULL;
    uint64_t limit = 0;
    switch (space) {
    case PTX_SHARED:
        base = m->shared + PTX_SHARED_BEGIN, limit = m->shared_end - PTX_SHARED_BEGIN;
        address -= PTX_SHARED_BEGIN, kind = EMULATE_SHARED_BOUNDS;
        break;
    case PTX_LOCAL:
        limit = m->function->local_bytes, kind = EMULATE_LOCAL_BOUNDS;
        base = m->local + (size_t)(w->index * LANES + lane) * limit;
        break;
    case PTX_PARAM: base = m->parameters, limit = m->parameter_bytes; break;
    case PTX_CONST: base = m->module->constant_image, limit = m->module->constant_bytes; break;
    default: return global_bytes(m, w, lane, address, bytes, access, pc);
    }
    bool read_only = space == PTX_PARAM || space == PTX_CONST;
    if (address >= limit || bytes > limit - address || (access != GLOBAL_READ && read_only)) {
        report_bounds(m, w, kind, lane, address, bytes, limit, pc);
        return NULL;
    }
    return base + address;
}

const uint8_t *memory_generic(machine *m, machine_warp *w, int lane, uint64_t address,
                              uint32_t bytes, int32_t pc) {
    ptx_space space = ptx_space_of(address);
    if (space != PTX_GLOBAL) address &= (1ull << PTX_WINDOW_SHIFT) - 1u;
    return lane_bytes(m, w, space, lane, address, bytes, GLOBAL_READ, pc);
}

static void note_traffic(machine *m, const ptx_instruction *i, ptx_space space,
                         const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes) {
    machine_count *count = &m->counts[i - m->code];
    if (space == PTX_SHARED) {
        uint32_t offsets[LANES];
        for (int l = 0; l < LANES; l++) offsets[l] = (uint32_t)addresses[l];
        traffic_shared(count, offsets, mask, bytes);
    } else if (space == PTX_GLOBAL) {
        traffic_global(count, addresses, mask, bytes);
    } else {
        count->space = (uint8_t)space;
    }
}

static void put_element(uint8_t *row, int lane, int register_bytes, const uint8_t *from, int bytes,
                        bool is_signed) {
    uint64_t value = 0;
    memcpy(&value, from, (size_t)bytes);
    if (is_signed && bytes < 8 && value >> (8 * bytes - 1) & 1u) value |= ~0ull << (8 * bytes);
    if (register_bytes == 8) memcpy(row + 8 * lane, &value, 8);
    else memcpy(row + 4 * lane, &value, 4);
}

static void load_lanes(machine *m, machine_warp *w, const ptx_instruction *i, ptx_space space,
                       const uint64_t addresses[LANES], uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    uint32_t bytes = (uint32_t)i->bytes * i->count;
    const int32_t *list = m->function->lists.items + i->list;
    uint8_t *rows[8];
    for (int e = 0; e < i->count; e++) rows[e] = machine_row(m, w, list[e]);
    bool words = i->bytes == 4 && i->register_bytes == 4;
    note_traffic(m, i, space, addresses, mask, bytes);
    for (uint32_t rest = mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        uint8_t poison[32];
        for (int n = 0; n < 32; n += 4) memcpy(poison + n, &(uint32_t){MACHINE_POISON}, 4);
        const uint8_t *from = NULL;
        if (!misaligned(m, w, l, addresses[l], bytes, space, pc))
            from = lane_bytes(m, w, space, l, addresses[l], bytes, GLOBAL_READ, pc);
        if (from && space == PTX_SHARED) shadow_read(m, w, l, (uint32_t)addresses[l], bytes, pc);
        if (!from) from = poison;
        if (words) {
            for (int e = 0; e < i->count; e++) memcpy(rows[e] + 4 * l, from + 4 * e, 4);
            continue;
        }
        for (int e = 0; e < i->count; e++)
            put_element(rows[e], l, i->register_bytes, from + e * i->bytes, i->bytes,
                        i->flags & PTX_SIGNED);
    }
}

static void store_lanes(machine *m, machine_warp *w, const ptx_instruction *i, ptx_space space,
                        const uint64_t addresses[LANES], uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    uint32_t bytes = (uint32_t)i->bytes * i->count;
    const int32_t *list = m->function->lists.items + i->list;
    const uint8_t *rows[8];
    for (int e = 0; e < i->count; e++) rows[e] = machine_row(m, w, list[e]);
    note_traffic(m, i, space, addresses, mask, bytes);
    for (uint32_t rest = mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        uint8_t data[32];
        for (int e = 0; e < i->count; e++)
            memcpy(data + e * i->bytes, rows[e] + i->register_bytes * l, i->bytes);
        if (misaligned(m, w, l, addresses[l], bytes, space, pc)) continue;
        uint8_t *to = lane_bytes(m, w, space, l, addresses[l], bytes, GLOBAL_WRITE, pc);
        if (!to) continue;
        if (space == PTX_SHARED) shadow_write(m, w, l, (uint32_t)addresses[l], bytes, pc, data);
        memcpy(to, data, bytes);
    }
}

typedef void access_function(machine *m, machine_warp *w, const ptx_instruction *i, ptx_space space,
                             const uint64_t addresses[LANES], uint32_t mask);

static void each_space(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask,
                       access_function *access) {
    uint64_t addresses[LANES];
    memory_addresses(m, w, i->in[0], i->input_count, i->immediate, addresses);
    if (i->space != PTX_GENERIC) {
        if (mask) access(m, w, i, (ptx_space)i->space, addresses, mask);
        return;
    }
    while (mask) {
        ptx_space space;
        uint32_t same = split_space(addresses, &mask, &space);
        access(m, w, i, space, addresses, same);
    }
}

void memory_load(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    each_space(m, w, i, mask, load_lanes);
}

void memory_store(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    each_space(m, w, i, mask, store_lanes);
}

/* --- atomics (PTX ISA: atom, red) ------------------------------------------------------------- */

static uint64_t integer_result(ptx_operation operation, ptx_number number, uint64_t old, uint64_t b,
                               uint64_t c) {
    bool is_signed = number == PTX_S32 || number == PTX_S64;
    int64_t x = (int64_t)old, y = (int64_t)b;
    if (number == PTX_S32) x = (int32_t)old, y = (int32_t)b;
    bool less = is_signed ? y < x : b < old;
    switch (operation) {
    case PTX_OP_ADD: return old + b;
    case PTX_OP_MIN: return less ? b : old;
    case PTX_OP_MAX: return less ? old : b;
    case PTX_OP_AND: return old & b;
    case PTX_OP_OR: return old | b;
    case PTX_OP_XOR: return old ^ b;
    case PTX_OP_INC: return old >= b ? 0 : old + 1u;
    case PTX_OP_DEC: return old == 0 || old > b ? b : old - 1u;
    case PTX_OP_EXCHANGE: return b;
    case PTX_OP_CAS: return old == b ? c : old;
    }
    return old;
}

static uint32_t half_result(ptx_operation operation, bool brain, uint32_t old, uint32_t b) {
    float x = brain ? number_from_bf16(old) : number_from_f16(old & 0xffffu);
    float y = brain ? number_from_bf16(b) : number_from_f16(b & 0xffffu);
    float value = operation == PTX_OP_ADD   ? x + y
                  : operation == PTX_OP_MIN ? (x < y || y != y ? x : y)
                                            : (x > y || y != y ? x : y);
    return brain ? number_to_bf16(value) : number_to_f16(value);
}

static uint64_t atomic_result(const ptx_instruction *i, uint64_t old, uint64_t b, uint64_t c) {
    ptx_operation operation = (ptx_operation)i->operation;
    bool moves = operation == PTX_OP_EXCHANGE || operation == PTX_OP_CAS;
    if (moves) return integer_result(operation, PTX_U64, old, b, c);
    uint32_t x = (uint32_t)old, y = (uint32_t)b;
    bool brain = i->number == PTX_BF16 || i->number == PTX_BF16X2;
    switch (i->number) {
    case PTX_F32: {
        /* atom.add.f32 on global memory flushes no subnormals on sm_75 and later as spelled. */
        float sum = number_canonical(number_f32(x) + number_f32(y));
        return number_f32_bits(sum);
    }
    case PTX_F64: return number_f64_bits(number_f64(old) + number_f64(b));
    case PTX_F16:
    case PTX_BF16: return half_result(operation, brain, x & 0xffffu, y & 0xffffu);
    case PTX_F16X2:
    case PTX_BF16X2:
        return half_result(operation, brain, x & 0xffffu, y & 0xffffu) |
               half_result(operation, brain, x >> 16, y >> 16) << 16;
    default: return integer_result(operation, (ptx_number)i->number, old, b, c);
    }
}

static void atomic_lanes(machine *m, machine_warp *w, const ptx_instruction *i, ptx_space space,
                         const uint64_t addresses[LANES], uint32_t mask) {
    int32_t pc = (int32_t)(i - m->code);
    uint8_t *result = i->d != PTX_NONE ? machine_row(m, w, i->d) : NULL;
    const uint8_t *b = machine_row(m, w, i->in[1]);
    const uint8_t *c = i->in[2] != PTX_NONE ? machine_row(m, w, i->in[2]) : b;
    int stride = i->register_bytes;
    note_traffic(m, i, space, addresses, mask, i->bytes);
    for (uint32_t rest = mask; rest; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        if (misaligned(m, w, l, addresses[l], i->bytes, space, pc)) continue;
        uint8_t *at = lane_bytes(m, w, space, l, addresses[l], i->bytes, GLOBAL_ATOMIC, pc);
        if (!at) continue;
        if (space == PTX_SHARED) {
            uint32_t offset = (uint32_t)addresses[l];
            bool unwritten = (m->cell_state[offset >> 2] & CELL_WRITTEN) == 0;
            if (unwritten) shadow_read(m, w, l, offset, i->bytes, pc);
            shadow_write(m, w, STAMP_ATOMIC_LANE, offset, i->bytes, pc, NULL);
        }
        uint64_t old = 0, x = 0, y = 0;
        memcpy(&old, at, i->bytes);
        memcpy(&x, b + l * stride, i->bytes);
        memcpy(&y, c + l * stride, i->bytes);
        uint64_t value = atomic_result(i, old, x, y);
        memcpy(at, &value, i->bytes);
        if (result) memcpy(result + l * stride, &old, (size_t)stride);
    }
}

void memory_atomic(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    each_space(m, w, i, mask, atomic_lanes);
}

/* --- for instructions that know shared memory only -------------------------------------------- */

bool memory_is_shared(machine *m, machine_warp *w, int lane, uint64_t address, uint32_t bytes,
                      int32_t pc) {
    if (address >= PTX_SHARED_BEGIN && address < m->shared_end && bytes <= m->shared_end - address)
        return true;
    report_bounds(m, w, EMULATE_SHARED_BOUNDS, lane, address - PTX_SHARED_BEGIN, bytes,
                  m->shared_end - PTX_SHARED_BEGIN, pc);
    return false;
}

uint32_t memory_shared_offsets(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask,
                               uint32_t bytes, uint32_t offsets[LANES]) {
    uint64_t addresses[LANES];
    int32_t pc = (int32_t)(i - m->code);
    memory_addresses(m, w, i->in[0], i->input_count, i->immediate, addresses);
    uint32_t good = 0;
    for (int l = 0; l < LANES; l++) {
        uint64_t address = addresses[l];
        if (i->space == PTX_GENERIC && ptx_space_of(address) == PTX_SHARED)
            address -= ptx_window(PTX_SHARED);
        offsets[l] = (uint32_t)address;
        if (!(mask >> l & 1u)) continue;
        if (misaligned(m, w, l, address, bytes, PTX_SHARED, pc)) continue;
        if (memory_is_shared(m, w, l, address, bytes, pc)) good |= 1u << l;
    }
    return good;
}
