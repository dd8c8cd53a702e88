/* Bulk copies between global and shared memory, of boxes of tensors or bytes in a row (PTX ISA,
 * "cp.async.bulk", "cp.async.bulk.tensor").
 *
 * They belong to the asynchronous proxy: what threads wrote needs a proxy fence first. A copy into
 * shared memory lands when nobody can run, one at a time, and counts its bytes at an mbarrier. A
 * copy out of it reads when its thread waits for that, and writes when it waits for the whole.
 */
#include "emulate/machine.h"

static uint64_t address_of(const machine *m, const machine_warp *w, const ptx_address *a, int l) {
    const uint8_t *row = machine_row(m, w, a->row);
    uint64_t value = 0;
    memcpy(&value, row + l * a->row_bytes, a->row_bytes);
    return value + (uint64_t)a->offset;
}

static uint32_t shared_of(const machine *m, const machine_warp *w, const ptx_address *a, int l) {
    uint64_t address = address_of(m, w, a, l);
    if (a->row_bytes == 8 && ptx_space_of(address) == PTX_SHARED) address -= ptx_window(PTX_SHARED);
    return address > UINT32_MAX ? UINT32_MAX : (uint32_t)address;
}

/* False: the kernel dies of it. */
static bool fault(machine *m, machine_warp *w, int32_t pc, int lane, str what) {
    machine_found(m, w, EMULATE_TENSOR, pc, -1, lane, ": %.*s", STR_ARGS(what));
    machine_stop(m);
    return false;
}

/* --- issue ------------------------------------------------------------------------------------ */

static bool find_map(machine *m, machine_warp *w, const ptx_bulk *form, int lane, int32_t pc,
                     tensor_copy *what) {
    uint64_t at = address_of(m, w, &form->global, lane);
    if (form->global.space == PTX_PARAM) at += ptx_window(PTX_PARAM);
    if (at % 64) return fault(m, w, pc, lane, STR("the tensor map's address is no multiple of 64"));
    const uint8_t *bytes = memory_generic(m, w, lane, at, EMULATE_TENSOR_MAP_BYTES, pc);
    if (!bytes) return false;
    if (!tensor_decode(bytes, what))
        return fault(m, w, pc, lane, STR("there is no tensor map at this address"));
    if ((int)what->rank != form->rank)
        return fault(m, w, pc, lane,
                     str_format(m->memory, "the tensor map has %u dimensions, the instruction %d",
                                what->rank, form->rank));
    const int32_t *list = m->function->lists.items + form->coordinates;
    for (int d = 0; d < form->rank; d++)
        what->coordinates[d] = (int32_t)machine_words(m, w, list[d])[lane];
    const char *wrong = tensor_wrong_place(what, form->loads);
    return !wrong || fault(m, w, pc, lane, str_from(wrong));
}

static bool find_bytes(machine *m, machine_warp *w, const ptx_bulk *form, int lane, int32_t pc,
                       tensor_copy *what) {
    uint32_t bytes = machine_words(m, w, form->size)[lane];
    *what = (tensor_copy){.row_bytes = 16, .pitch_bytes = 16, .bytes = bytes, .element_bytes = 1};
    what->base = address_of(m, w, &form->global, lane);
    if (bytes % 16 == 0 && bytes && what->base % 16 == 0) return true;
    return fault(m, w, pc, lane,
                 str_format(m->memory,
                            "%u bytes at an address ...%02x: both must be multiples of 16", bytes,
                            (unsigned)(what->base & 255u)));
}

/* Alignment and bounds of the shared side. */
static bool check_shared(machine *m, machine_warp *w, const machine_bulk *b) {
    uint32_t aligned = b->what.rank ? 128 : 16;
    if (b->shared % aligned)
        return fault(
            m, w, b->pc, b->lane,
            str_format(m->memory, "shared address %u is no multiple of %u", b->shared, aligned));
    return memory_is_shared(m, w, b->lane, b->shared, tensor_shared_bytes(&b->what), b->pc);
}

/* A store that has read its source may write at any moment: the oldest does where there are many. A
 * block that walks over thousands of tiles waits for none of them before it ends.
 */
static bool write_oldest(machine *m);

static bool append(machine *m, machine_warp *w, const machine_bulk *b) {
    if (m->bulks.count == MACHINE_BULKS_MAX && !write_oldest(m)) {
        machine_limit(m, w, b->pc, "too many bulk copies in flight");
        return false;
    }
    list_push(m->memory, &m->bulks, *b);
    return true;
}

/* The asynchronous proxy must see the mbarrier: fence.mbarrier_init or fence.proxy.async. */
static void check_initialised(machine *m, machine_warp *w, const machine_bulk *b) {
    const machine_mbarrier *barrier = &m->mbarriers[b->mbarrier];
    uint32_t stamp = m->write_stamp[barrier->address >> 2];
    if (barrier->fenced || shadow_fenced(w, (uint32_t)b->lane, stamp)) return;
    emulate_finding *f = machine_found_at(m, w, EMULATE_PROXY, b->pc, barrier->init_pc, b->lane,
                                          " counts at the mbarrier at", barrier->address);
    if (f) f->note = STR("initialised here, with no fence.mbarrier_init after it");
}

static void issue_load(machine *m, machine_warp *w, const ptx_bulk *form, machine_bulk *b) {
    b->mbarrier = barrier_at(m, w, b->pc, shared_of(m, w, &form->mbarrier, b->lane), b->lane);
    if (b->mbarrier < 0) return;
    machine_mbarrier *barrier = &m->mbarriers[b->mbarrier];
    check_initialised(m, w, b);
    if (barrier->agent < 0) {
        machine_agent agent = {.kind = AGENT_TRANSFERS, .address = barrier->address};
        barrier->agent = shadow_new_agent(m, w, agent, false);
    }
    if (form->multicast != PTX_NONE && machine_words(m, w, form->multicast)[b->lane] != 1)
        fault(m, w, b->pc, b->lane, STR("the block has no cluster to copy to"));
    if (m->stopped || !append(m, w, b)) return;
    if (b->what.row_bytes == b->what.pitch_bytes) {
        shadow_issue_async(m, w, b->lane, b->shared, b->bytes, b->pc);
        return;
    }
    for (uint32_t at = 0; at < b->bytes; at += 16)
        shadow_issue_async(m, w, b->lane, tensor_piece(&b->what, b->shared, at), 16, b->pc);
}

static int reads_agent(machine *m, machine_warp *w, int lane, bool make) {
    for (int a = 0; a < m->agent_count; a++) {
        const machine_agent *agent = &m->agents[a];
        if (agent->kind == AGENT_READS && agent->warp == w->index && agent->lane == lane) return a;
    }
    if (!make) return -1;
    machine_agent agent = {.kind = AGENT_READS, .warp = w->index, .lane = lane};
    return shadow_new_agent(m, w, agent, true);
}

/* Columns that are in no tensor go nowhere: whether they are written, and when, is all the same. */
static void issue_store(machine *m, machine_warp *w, machine_bulk *b) {
    int agent = reads_agent(m, w, b->lane, true);
    b->group = w->bulk_commits[b->lane] + 1;
    if (agent < 0 || !append(m, w, b)) return;
    uint32_t stamp = shadow_agent_stamp(agent, b->group);
    tensor_row inside = tensor_inside(&b->what);
    for (uint32_t byte = 0; byte < b->bytes; byte += 16) {
        uint32_t at = tensor_piece(&b->what, b->shared, byte), column = byte % b->what.row_bytes;
        if (column + 16 <= inside.first || column >= inside.past) continue;
        shadow_read_pieces(m, w, b->lane, &at, 1, b->pc, stamp);
        shadow_mark_pieces(m, &at, 1, b->pc, stamp);
    }
}

void bulk_issue(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    const ptx_bulk *form = &m->function->bulks.items[i->list];
    int32_t pc = (int32_t)(i - m->code);
    global_touch(m, w, mask, pc);
    for (uint32_t rest = mask; rest && !m->stopped; rest &= rest - 1u) {
        int l = machine_first_lane(rest);
        machine_bulk b = {
            .pc = pc, .warp = w->index, .lane = l, .loads = form->loads, .adds = form->adds};
        bool found = form->tensor ? find_map(m, w, form, l, pc, &b.what)
                                  : find_bytes(m, w, form, l, pc, &b.what);
        if (!found) continue;
        if (b.adds && !b.what.is_f32) {
            fault(m, w, pc, l, STR("sums are known of tensors of f32 alone"));
            continue;
        }
        b.stamp = machine_stamp(w, l);
        b.bytes = b.what.bytes;
        b.shared = shared_of(m, w, &form->shared, l);
        if (!check_shared(m, w, &b)) continue;
        if (b.loads) issue_load(m, w, form, &b);
        else issue_store(m, w, &b);
    }
}

/* Sectors of global memory that a row touches. */
static void count_row(machine *m, const machine_bulk *b, const tensor_row *t) {
    machine_count *count = &m->counts[b->pc];
    uint64_t bytes = t->past - t->first;
    count->space = PTX_GLOBAL;
    if (!bytes) return;
    count->sectors += (t->address % 32 + bytes + 31) / 32;
    count->least_sectors += (bytes + 31) / 32;
}

/* --- into shared memory ----------------------------------------------------------------------- */

static void fetch_row(machine *m, const machine_bulk *b, uint32_t row, uint8_t *to) {
    machine_warp *w = &m->warps[b->warp];
    const tensor_copy *what = &b->what;
    tensor_row t = tensor_row_at(what, row);
    memset(to, 0, what->row_bytes);
    count_row(m, b, &t);
    if (t.first == t.past) return;
    uint32_t bytes = t.past - t.first;
    const uint8_t *from = global_bytes(m, w, b->lane, t.address, bytes, GLOBAL_READ, b->pc);
    if (from) memcpy(to + t.first, from, bytes);
    for (uint32_t n = 0; !from && n + 4 <= bytes; n += 4)
        memcpy(to + t.first + n, &(uint32_t){MACHINE_POISON}, 4);
}

static void land(machine *m, machine_bulk *b, uint32_t bytes, uint32_t stamp) {
    uint8_t row[TENSOR_ROW_MAX];
    const tensor_copy *what = &b->what;
    bool whole = bytes == b->bytes && what->row_bytes == what->pitch_bytes;
    if (whole) shadow_land(m, b->shared, bytes, stamp, b->pc);
    for (uint32_t end = b->landed + bytes; b->landed < end;) {
        uint32_t number = b->landed / what->row_bytes;
        fetch_row(m, b, number, row);
        uint32_t past = (number + 1) * what->row_bytes;
        for (; b->landed < end && b->landed < past; b->landed += 16) {
            uint32_t at = tensor_piece(what, b->shared, b->landed);
            if (!whole) shadow_land(m, at, 16, stamp, b->pc);
            memcpy(m->shared + at, row + b->landed % what->row_bytes, 16);
        }
    }
}

static void forget(machine *m, int n) {
    machine_bulk b = m->bulks.items[n];
    m->bulks.count--;
    memmove(m->bulks.items + n, m->bulks.items + n + 1, (size_t)(m->bulks.count - n) * sizeof b);
    if (!b.held) return;
    for (size_t i = 0; i < sizeof m->spares / sizeof *m->spares; i++)
        if (m->spares[i].size < b.held_bytes) {
            m->spares[i].bytes = b.held;
            m->spares[i].size = b.held_bytes;
            return;
        }
}

bool bulk_counts_at(const machine *m, int mbarrier) {
    for (int n = 0; n < m->bulks.count; n++)
        if (m->bulks.items[n].loads && m->bulks.items[n].mbarrier == mbarrier) return true;
    return false;
}

/* Bytes beyond those that the mbarrier expects land later: a phase may complete on the way. */
bool bulk_step(machine *m) {
    int loads = 0, pick;
    for (int n = 0; n < m->bulks.count; n++) loads += m->bulks.items[n].loads;
    if (!loads) return false;
    int skip = m->random ? (int)(machine_draw(m) % (uint64_t)loads) : 0;
    for (pick = 0; !m->bulks.items[pick].loads || skip-- > 0;) pick++;
    machine_bulk *b = &m->bulks.items[pick];
    machine_mbarrier *barrier = &m->mbarriers[b->mbarrier];
    uint32_t left = b->bytes - b->landed;
    int64_t expected = barrier->transfer_bytes / 16 * 16;
    if (!barrier->pending && expected > 0 && expected < left) left = (uint32_t)expected;
    if (barrier->agent >= 0)
        land(m, b, left, shadow_agent_stamp(barrier->agent, m->agents[barrier->agent].clock + 1));
    int mbarrier = b->mbarrier;
    if (b->landed == b->bytes) forget(m, pick);
    barrier_transfer(m, mbarrier, left);
    m->progress++;
    return true;
}

/* --- out of shared memory --------------------------------------------------------------------- */

static uint8_t *find_memory(machine *m, uint32_t bytes, uint32_t *size) {
    for (size_t i = 0; i < sizeof m->spares / sizeof *m->spares; i++) {
        if (m->spares[i].size < bytes) continue;
        *size = m->spares[i].size;
        m->spares[i].size = 0;
        return m->spares[i].bytes;
    }
    *size = bytes;
    return arena_array(m->memory, uint8_t, bytes);
}

static void read_shared(machine *m, machine_bulk *b) {
    if (b->held) return;
    b->held = find_memory(m, b->bytes, &b->held_bytes);
    for (uint32_t at = 0; at < b->bytes; at += 16)
        memcpy(b->held + at, m->shared + tensor_piece(&b->what, b->shared, at), 16);
}

/* As recorded on a GPU: the last 16 bytes of a row are stored whole, also where the tensor ends in
 * between.
 */
static uint32_t stored_bytes(machine *m, machine_warp *w, const machine_bulk *b,
                             const tensor_row *t) {
    uint32_t bytes = t->past - t->first, after = (16 - t->past % 16) % 16;
    if (!bytes || !after) return bytes;
    machine_found(m, w, EMULATE_TENSOR, b->pc, -1, b->lane,
                  ": stores are of whole 16 bytes, and the tensor ends between them: %u bytes "
                  "past its rows are overwritten",
                  after);
    return bytes + after;
}

static void add_row(uint8_t *to, const uint8_t *from, uint32_t bytes) {
    for (uint32_t at = 0; at < bytes; at += 4) {
        float old, more;
        memcpy(&old, to + at, 4);
        memcpy(&more, from + at, 4);
        old += more;
        memcpy(to + at, &old, 4);
    }
}

static void write_global(machine *m, const machine_bulk *b) {
    machine_warp *w = &m->warps[b->warp];
    const tensor_copy *what = &b->what;
    for (uint32_t row = 0; row < b->bytes / what->row_bytes; row++) {
        tensor_row t = tensor_row_at(what, row);
        count_row(m, b, &t);
        const uint8_t *from = b->held + (size_t)row * what->row_bytes;
        uint32_t bytes = stored_bytes(m, w, b, &t);
        if (!bytes) continue;
        global_access access = b->adds ? GLOBAL_ATOMIC : GLOBAL_WRITE;
        uint8_t *to = global_bytes(m, w, b->lane, t.address, bytes, access, b->pc);
        if (to && b->adds) add_row(to, from + t.first, bytes);
        else if (to) memcpy(to, from + t.first, bytes);
    }
}

static bool write_oldest(machine *m) {
    for (int n = 0; n < m->bulks.count; n++) {
        if (m->bulks.items[n].loads || !m->bulks.items[n].held) continue;
        write_global(m, &m->bulks.items[n]);
        forget(m, n);
        return true;
    }
    return false;
}

void bulk_commit(machine *m, machine_warp *w, uint32_t mask) {
    for (int l = 0; l < LANES; l++)
        if (mask >> l & 1u) shadow_check_clock(m, ++w->bulk_commits[l]);
}

/* All but the N latest groups of the thread have been read, and without .read also written. */
static void wait_lane(machine *m, machine_warp *w, int lane, int64_t pending, bool only_read) {
    int64_t done = (int64_t)w->bulk_commits[lane] - pending;
    for (int n = 0; n < m->bulks.count; n++) {
        machine_bulk *b = &m->bulks.items[n];
        if (b->loads || b->warp != w->index || b->lane != lane || b->group > done) continue;
        read_shared(m, b);
        if (only_read) continue;
        write_global(m, b);
        forget(m, n--);
    }
    int agent = reads_agent(m, w, lane, false);
    if (agent < 0 || done <= 0) return;
    machine_seen seen = {0};
    seen.agents[agent] = (uint32_t)done;
    shadow_acquire(w, 1u << lane, &seen);
}

void bulk_wait(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask) {
    for (uint32_t rest = mask; rest; rest &= rest - 1u)
        wait_lane(m, w, machine_first_lane(rest), i->immediate, i->operation);
}

/* The block has ended: what nobody waited for, and writes that the end completes. */
void bulk_finish(machine *m) {
    for (int n = 0; n < m->bulks.count; n++) {
        machine_bulk *b = &m->bulks.items[n];
        machine_warp *w = &m->warps[b->warp];
        if (!b->held)
            machine_found_at(m, w, EMULATE_COPY_UNWAITED, b->pc, -1, b->lane,
                             b->loads ? ", to" : ", from", b->shared);
        if (b->loads) continue;
        read_shared(m, b);
        write_global(m, b);
    }
    m->bulks.count = 0;
}
