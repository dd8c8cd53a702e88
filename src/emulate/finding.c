/* What was found: grouped by kind and lines, named by tiles and variables. */
#include "emulate/machine.h"

#include <stdio.h>

static const char *const kind_names[] = {
#define FINDING(id, name, sentence) name,
#include "emulate/findings.def"
#undef FINDING
};

const char *emulate_kind_name(emulate_kind kind) {
    return kind_names[kind];
}

emulate_place machine_place(const machine *m, int32_t pc) {
    const ptx_instruction *i = &m->code[pc];
    emulate_frame *frames = arena_array(m->memory, emulate_frame, PTX_FRAMES_MAX);
    emulate_place place = {.frames = frames, .ptx_line = i->ptx_line};
    place.opcode = m->module->opcodes.items[i->opcode];
    for (int32_t p = i->place; p >= 0 && place.frame_count < PTX_FRAMES_MAX;) {
        const ptx_place *at = &m->module->places.items[p];
        frames[place.frame_count++] =
            (emulate_frame){ptx_file_name(m->module, at->file), at->function, at->line};
        p = at->parent;
    }
    if (!place.frame_count)
        frames[place.frame_count++] = (emulate_frame){STR(""), STR(""), (int)i->ptx_line};
    return place;
}

/* Instructions of one line are one place; without line information each is its own. */
static int32_t place_key(const machine *m, int32_t pc) {
    if (pc < 0) return INT32_MIN + ~pc; /* no instruction; other values tell buffers apart */
    const ptx_instruction *i = &m->code[pc];
    if (i->place < 0) return -2 - pc;
    const ptx_place *mine = &m->module->places.items[i->place];
    for (int32_t p = 0; p < i->place; p++) {
        const ptx_place *at = &m->module->places.items[p];
        if (at->line == mine->line && at->file == mine->file && at->parent == mine->parent)
            return p;
    }
    return i->place;
}

emulate_finding *machine_find(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                              int32_t other_pc, int lane) {
    m->block_found = true;
    /* The exact instructions first: cheap for cascades. */
    for (int i = 0; i < m->finding_count; i++) {
        const int32_t *key = m->finding_keys[2 * i];
        if (key[0] == (int32_t)kind && key[1] == pc && key[2] == other_pc) {
            m->findings[i].count++;
            return NULL;
        }
    }
    int32_t place = place_key(m, pc), other = place_key(m, other_pc);
    for (int i = 0; i < m->finding_count; i++) {
        const int32_t *key = m->finding_keys[2 * i + 1];
        if (key[0] == (int32_t)kind && key[1] == place && key[2] == other) {
            m->findings[i].count++;
            return NULL;
        }
    }
    if (m->finding_count == MACHINE_FINDINGS_MAX) {
        m->findings_left_out++;
        return NULL;
    }
    int32_t *exact = m->finding_keys[2 * m->finding_count];
    int32_t *lines = m->finding_keys[2 * m->finding_count + 1];
    exact[0] = lines[0] = (int32_t)kind;
    exact[1] = pc, exact[2] = other_pc;
    lines[1] = place, lines[2] = other;
    emulate_finding *f = &m->findings[m->finding_count++];
    *f = (emulate_finding){.kind = kind, .warp = w ? w->index : -1, .lane = lane, .count = 1};
    if (lane >= LANES) f->lane = -1;
    memcpy(f->block, m->block, sizeof f->block);
    if (pc >= 0) f->place = machine_place(m, pc);
    f->has_other = other_pc >= 0;
    if (f->has_other) f->other = machine_place(m, other_pc);
    return f;
}

emulate_finding *machine_found(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                               int32_t other_pc, int lane, const char *format, ...) {
    emulate_finding *f = machine_find(m, w, kind, pc, other_pc, lane);
    if (!f) return NULL;
    va_list arguments;
    va_start(arguments, format);
    str who = machine_who(m, w, pc, lane), what = str_format_list(m->memory, format, arguments);
    va_end(arguments);
    f->detail = str_format(m->memory, "%.*s%.*s", STR_ARGS(who), STR_ARGS(what));
    return f;
}

emulate_finding *machine_found_at(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                                  int32_t other_pc, int lane, const char *does, uint32_t offset) {
    emulate_finding *f = machine_find(m, w, kind, pc, other_pc, lane);
    if (!f) return NULL;
    str who = machine_who(m, w, pc, lane), name = machine_shared_name(m, offset);
    f->detail = str_format(m->memory, "%.*s%s %.*s", STR_ARGS(who), does, STR_ARGS(name));
    return f;
}

void machine_limit(machine *m, const machine_warp *w, int32_t pc, const char *sentence) {
    emulate_finding *f = machine_find(m, w, EMULATE_LIMIT, pc, -1, -1);
    if (f) f->detail = str_from(sentence);
    machine_stop(m);
}

str machine_shared_name(const machine *m, uint32_t offset) {
    const ptx_function *f = m->function;
    for (int i = 0; i < f->shared.count; i++) {
        const ptx_variable *v = &f->shared.items[i];
        if (offset >= v->offset && offset - v->offset < v->bytes)
            return str_format(m->memory, "%.*s[byte %u]", STR_ARGS(v->name), offset - v->offset);
    }
    uint32_t base = f->dynamic_shared;
    for (int i = 0; i < m->launch->tile_count && offset >= base; i++) {
        const emulate_tile *t = &m->launch->tiles[i];
        uint32_t stages = t->stages ? t->stages : 1, at = offset - base;
        uint32_t stage_bytes = t->stage_bytes ? t->stage_bytes : t->rows * t->row_bytes;
        if (!t->row_bytes || !stage_bytes || at < t->offset) continue;
        uint32_t stage = (at - t->offset) / stage_bytes, inside = (at - t->offset) % stage_bytes;
        if (stage >= stages || inside / t->row_bytes >= t->rows) continue;
        str number = stages > 1 ? str_format(m->memory, " stage %u", stage) : STR("");
        return str_format(m->memory, "%.*s%.*s[row %u, byte %u]", STR_ARGS(t->name),
                          STR_ARGS(number), inside / t->row_bytes, inside % t->row_bytes);
    }
    if (offset >= base) return str_format(m->memory, "dynamic shared memory+%u", offset - base);
    return str_format(m->memory, "shared memory+%u", offset);
}

static str short_opcode(const machine *m, int32_t pc) {
    str opcode = m->module->opcodes.items[m->code[pc].opcode];
    if (str_starts(opcode, STR("cp.async.bulk.tensor"))) return STR("cp.async.bulk.tensor");
    if (str_starts(opcode, STR("cp.reduce"))) return STR("cp.reduce.async.bulk.tensor");
    if (str_starts(opcode, STR("cp.async.bulk"))) return STR("cp.async.bulk");
    static const char *const two_words[] = {"cp.async", "ld.",    "st.",
                                            "bar.",     "wgmma.", "mbarrier."};
    for (size_t i = 0; i < sizeof two_words / sizeof *two_words; i++) {
        if (!str_starts(opcode, str_from(two_words[i]))) continue;
        str rest = opcode, head = str_cut(&rest, '.');
        str second = str_cut(&rest, '.');
        return (str){opcode.data, head.length + 1 + second.length};
    }
    return str_cut(&opcode, '.');
}

str machine_who(const machine *m, const machine_warp *w, int32_t pc, int lane) {
    str opcode = short_opcode(m, pc);
    if (lane < 0 || lane >= LANES)
        return str_format(m->memory, "%.*s by warp %d", STR_ARGS(opcode), w->index);
    return str_format(m->memory, "%.*s by warp %d lane %d", STR_ARGS(opcode), w->index, lane);
}

static str agent_who(const machine *m, const machine_agent *a) {
    switch (a->kind) {
    case AGENT_PRODUCTS:
        return str_format(m->memory, "wgmma of warps %d to %d", a->warp,
                          a->warp + MACHINE_GROUP_WARPS - 1);
    case AGENT_READS:
        return str_format(m->memory, "a bulk copy of warp %d lane %d", a->warp, a->lane);
    case AGENT_TRANSFERS: break;
    }
    return str_format(m->memory, "a bulk copy that the mbarrier at %.*s counts",
                      STR_ARGS(machine_shared_name(m, a->address)));
}

str machine_stamp_who(const machine *m, uint32_t stamp) {
    uint32_t warp = stamp >> 6 & 31u, lane = stamp & 63u;
    if (lane == STAMP_AGENT)
        return agent_who(m, &m->agents[stamp >> 6 & (MACHINE_AGENTS_MAX - 1u)]);
    if (lane >= LANES) return str_format(m->memory, "warp %u", warp);
    return str_format(m->memory, "warp %u lane %u", warp, lane);
}
