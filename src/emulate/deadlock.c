/* Who waits where when nobody can run. The text grows in the arena: what happens here may run out
 * of memory, and then jumps away.
 */
#include "emulate/machine.h"

enum { DEADLOCK_LINES = 3 };

/* "line 229/185": where it is in the kernel, then in the functions inlined there. */
static str line_of(const machine *m, int32_t pc) {
    emulate_place place = machine_place(m, pc);
    str text = STR("line");
    for (int n = place.frame_count - 1, shown = 0; n >= 0 && shown < DEADLOCK_LINES; n--, shown++)
        text = str_format(m->memory, "%.*s%s%d", STR_ARGS(text), shown ? "/" : " ",
                          place.frames[n].line);
    return text;
}

static str describe_group(const machine *m, const machine_warp *w, const machine_group *group) {
    str opcode = m->module->opcodes.items[m->code[group->pc].opcode];
    str line = line_of(m, group->pc), barrier = barrier_awaited(m, w, group);
    return str_format(m->memory, "lanes 0x%08x at %.*s%.*s, %.*s", group->mask, STR_ARGS(opcode),
                      STR_ARGS(barrier), STR_ARGS(line));
}

/* What a warp waits for, without its number. */
static str describe_wait(const machine *m, const machine_warp *w) {
    str text = STR(""), line = line_of(m, w->pc);
    switch (w->state) {
    case WARP_AT_BARRIER:
        return str_format(m->memory, "at barrier %d, %.*s", w->barrier, STR_ARGS(line));
    case WARP_AT_PRODUCTS:
        return str_format(m->memory, "waits for other warps of its warpgroup to commit, %.*s",
                          STR_ARGS(line));
    case WARP_AT_REGISTERS:
        return str_format(m->memory, "waits for registers that no warp gives back, %.*s",
                          STR_ARGS(line));
    default: break;
    }
    for (int g = 0; g < w->group_count; g++) {
        str group = describe_group(m, w, &w->groups[g]);
        text = str_format(m->memory, "%.*s%s%.*s", STR_ARGS(text), g ? ", " : "", STR_ARGS(group));
    }
    return text;
}

static str describe_warps(const machine *m, int first, int last, str wait) {
    if (first == last) return str_format(m->memory, "warp %d %.*s", first, STR_ARGS(wait));
    return str_format(m->memory, "warps %d to %d %.*s", first, last, STR_ARGS(wait));
}

/* Neighbours that wait for the same are one. */
static str describe_all(const machine *m) {
    str text = STR(""), wait = STR("");
    int first = -1;
    for (int v = 0; v <= m->warp_count; v++) {
        bool waits = v < m->warp_count && m->warps[v].state != WARP_DONE;
        str next = waits ? describe_wait(m, &m->warps[v]) : STR("");
        if (first >= 0 && waits && str_equal(next, wait)) continue;
        if (first >= 0) {
            str warps = describe_warps(m, first, v - 1, wait);
            text = str_format(m->memory, "%.*s%s%.*s", STR_ARGS(text), text.length ? "; " : "",
                              STR_ARGS(warps));
        }
        first = waits ? v : -1;
        wait = next;
    }
    return text;
}

static str describe_mbarriers(const machine *m, str text) {
    for (int n = 0; n < m->mbarrier_count; n++) {
        const machine_mbarrier *b = &m->mbarriers[n];
        if (!b->valid) continue;
        str name = machine_shared_name(m, b->address);
        text = str_format(
            m->memory, "%.*s; mbarrier at %.*s: phase %llu, %u of %u arrivals missing",
            STR_ARGS(text), STR_ARGS(name), (unsigned long long)b->phase, b->pending, b->expected);
        if (b->transfer_bytes)
            text = str_format(m->memory, "%.*s, %lld bytes missing", STR_ARGS(text),
                              (long long)b->transfer_bytes);
    }
    return text;
}

void deadlock_report(machine *m) {
    const machine_warp *first = NULL;
    for (int v = 0; v < m->warp_count; v++) {
        const machine_warp *w = &m->warps[v];
        if (w->state == WARP_DONE) continue;
        if (!first || (w->state == WARP_AT_REGISTERS && first->state != w->state)) first = w;
    }
    if (!first) return;
    bool polls = first->state == WARP_POLLING && first->group_count;
    int32_t pc = polls ? first->groups[0].pc : first->pc;
    emulate_finding *f = machine_find(m, first, EMULATE_DEADLOCK, pc, -1, -1);
    if (f) f->detail = describe_mbarriers(m, describe_all(m));
}
