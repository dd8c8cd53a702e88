/* Global memory: named buffers with rights, what outputs have got, and races within a block.
 *
 * Blocks have no order among each other, and some kernels make one by atomics; so between blocks
 * only elements written twice are found ('once'). Inside a block the bytes of writable buffers know
 * their last writer and reader; of several readers only the last is remembered, so that a race may
 * be missed, but none is invented.
 */
#include "emulate/machine.h"

/* The buffer's place in m->buffers, or -1. */
static int buffer_of(const machine *m, uint64_t address, int64_t *offset) {
    uint64_t index = (address >> PTX_WINDOW_SHIFT) - 1u;
    *offset = (int64_t)(address & ((1ull << PTX_WINDOW_SHIFT) - 1u)) - (1ll << 35);
    if (index == EMULATE_BUFFERS_MAX || index < (uint64_t)m->buffer_count) return (int)index;
    return -1;
}

static void report_global(machine *m, machine_warp *w, emulate_kind kind, int lane, int32_t pc,
                          const machine_buffer *b, uint64_t address, int64_t offset,
                          uint32_t bytes) {
    emulate_finding *f =
        machine_found(m, w, kind, pc, -1, lane, " of block (%u,%u,%u) : %u bytes at ", m->block[0],
                      m->block[1], m->block[2], bytes);
    if (!f) return;
    if (!b)
        f->detail = str_format(m->memory, "%.*s0x%llx, which is in no buffer", STR_ARGS(f->detail),
                               (unsigned long long)address);
    else
        f->detail = str_format(m->memory, "%.*s%.*s%+lld, which has %zu bytes", STR_ARGS(f->detail),
                               STR_ARGS(b->name), (long long)offset, b->bytes);
}

/* Many may add to an element, atomically, but then nobody stores it. */
static void mark_written(const machine_buffer *b, int64_t offset, uint32_t bytes, bool adds) {
    size_t first = (size_t)offset / b->element_bytes;
    size_t last = ((size_t)offset + bytes - 1u) / b->element_bytes;
    for (size_t e = first; e <= last; e++) {
        uint8_t *now = &b->written[e];
        if (!*now) *now = adds ? MACHINE_ADDED : MACHINE_STORED;
        else if (!adds || *now != MACHINE_ADDED) *now = MACHINE_TWICE;
    }
}

static bool is_written(const machine_buffer *b, int64_t offset, uint32_t bytes) {
    size_t first = (size_t)offset / b->element_bytes;
    size_t last = ((size_t)offset + bytes - 1u) / b->element_bytes;
    for (size_t e = first; e <= last; e++)
        if (!b->written[e]) return false;
    return true;
}

/* --- races ------------------------------------------------------------------------------------ */

void global_start_block(machine *m) {
    for (int i = 0; i < m->pages.count; i++) *m->pages.items[i].user = 0;
    m->pages.count = 0;
}

static machine_page *page_of(machine *m, const machine_buffer *b, uint64_t offset) {
    uint32_t *user = &b->pages[offset / MACHINE_PAGE_BYTES];
    if (*user) return &m->pages.items[*user - 1u];
    list_push(m->memory, &m->pages, ((machine_page){.user = user}));
    *user = (uint32_t)m->pages.count;
    return &m->pages.items[*user - 1u];
}

static void report_race(machine *m, machine_warp *w, int lane, const machine_buffer *b,
                        uint64_t offset, const machine_byte *other, bool reads, bool other_read,
                        int32_t pc) {
    emulate_finding *f = machine_found(m, w, EMULATE_GLOBAL_RACE, pc, other->pc, lane,
                                       " %s %.*s+%llu", reads ? "reads" : "overwrites",
                                       STR_ARGS(b->name), (unsigned long long)offset);
    if (!f) return;
    f->note = str_format(m->memory, "%s by %.*s", other_read ? "read" : "written",
                         STR_ARGS(machine_stamp_who(m, other->stamp)));
}

static bool unordered(const machine *m, const machine_warp *w, int lane, const machine_byte *other,
                      bool atomic) {
    if (!other->stamp || shadow_ordered(w, (uint32_t)lane, other->stamp)) return false;
    const ptx_instruction *i = &m->code[other->pc];
    bool other_adds =
        i->kind == PTX_ATOMIC || (i->kind == PTX_BULK && m->function->bulks.items[i->list].adds);
    return !atomic || !other_adds;
}

static void check_races(machine *m, machine_warp *w, int lane, const machine_buffer *b,
                        uint64_t offset, uint32_t bytes, global_access access, int32_t pc) {
    bool atomic = access == GLOBAL_ATOMIC;
    machine_byte now = {machine_stamp(w, lane), pc};
    machine_page *page = NULL;
    for (uint64_t at = offset; at < offset + bytes; at++) {
        if (!page || at % MACHINE_PAGE_BYTES == 0) page = page_of(m, b, at);
        machine_byte *writer = &page->writes[at % MACHINE_PAGE_BYTES];
        machine_byte *reader = &page->reads[at % MACHINE_PAGE_BYTES];
        bool races = unordered(m, w, lane, writer, atomic);
        if (access == GLOBAL_READ) {
            if (races) report_race(m, w, lane, b, at, writer, true, false, pc);
            *reader = now;
            continue;
        }
        /* Lanes that write the same place by the same instruction: 'once' is there for those. */
        bool same = writer->pc == pc && writer->stamp >> 6 == now.stamp >> 6;
        if (races && !same) report_race(m, w, lane, b, at, writer, false, false, pc);
        if (unordered(m, w, lane, reader, atomic))
            report_race(m, w, lane, b, at, reader, false, true, pc);
        *writer = now;
    }
}

void global_touch(machine *m, machine_warp *w, uint32_t lanes, int32_t pc) {
    lanes &= w->early;
    if (lanes)
        machine_found(m, w, EMULATE_EARLY, pc, -1, machine_first_lane(lanes),
                      " of block (%u,%u,%u)", m->block[0], m->block[1], m->block[2]);
}

uint8_t *global_bytes(machine *m, machine_warp *w, int lane, uint64_t address, uint32_t bytes,
                      global_access access, int32_t pc) {
    int64_t offset;
    bool write = access != GLOBAL_READ;
    int index = buffer_of(m, address, &offset);
    global_touch(m, w, 1u << lane, pc);
    const machine_buffer *b = index < 0 ? NULL : &m->buffers[index];
    if (index < 0 || offset < 0 || (uint64_t)offset + bytes > b->bytes) {
        report_global(m, w, EMULATE_GLOBAL_BOUNDS, lane, pc, b, address, offset, bytes);
        return NULL;
    }
    bool allowed = write ? b->writable : b->readable;
    if (!allowed) {
        emulate_kind kind = write ? EMULATE_GLOBAL_WRITE : EMULATE_GLOBAL_READ;
        report_global(m, w, kind, lane, pc, b, address, offset, bytes);
        return NULL;
    }
    if (b->written && write) mark_written(b, offset, bytes, access == GLOBAL_ATOMIC);
    if (b->written && !write && !is_written(b, offset, bytes))
        report_global(m, w, EMULATE_GLOBAL_UNINITIALISED, lane, pc, b, address, offset, bytes);
    if (b->pages) check_races(m, w, lane, b, (uint64_t)offset, bytes, access, pc);
    return b->data + offset;
}
