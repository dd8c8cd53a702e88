/* setmaxnreg: warps hand registers to each other through the block's pool (PTX ISA,
 * "Miscellaneous Instructions: setmaxnreg").
 *
 * What a thread starts with is the assembler's choice, up to the launch bounds; the machine takes
 * all that they allow, as the assembler does for kernels with setmaxnreg.
 */
#include "emulate/machine.h"

enum { REGISTERS_OF_SM = 65536, REGISTERS_MOST = 255 };

static int registers_at_start(const machine *m) {
    const ptx_function *f = m->function;
    if (f->registers_most) return (int)f->registers_most;
    int blocks = f->blocks_least ? (int)f->blocks_least : 1;
    int each = REGISTERS_OF_SM / (m->warp_count * LANES * blocks) / 8 * 8;
    return each < REGISTERS_MOST ? each : REGISTERS_MOST;
}

void registers_start_block(machine *m) {
    m->free_registers = 0;
}

static void fault(machine *m, machine_warp *w, int32_t pc, int32_t other, const char *what) {
    machine_found(m, w, EMULATE_REGISTERS, pc, other, -1, ": %s; it has %d registers a thread",
                  what, w->register_count);
}

bool registers_set(machine *m, machine_warp *w, const ptx_instruction *i) {
    int32_t pc = (int32_t)(i - m->code);
    int wanted = (int)i->immediate;
    if (!w->register_count) w->register_count = registers_at_start(m);
    if (i->operation && wanted < w->register_count) fault(m, w, pc, -1, "inc to fewer registers");
    else if (!i->operation && wanted > w->register_count)
        fault(m, w, pc, -1, "dec to more registers");
    int64_t change = (int64_t)(wanted - w->register_count) * LANES;
    if (change > m->free_registers) {
        w->state = WARP_AT_REGISTERS;
        return false;
    }
    m->free_registers -= change;
    w->register_count = wanted;
    w->register_pc = pc;
    for (int v = 0; change < 0 && v < m->warp_count; v++)
        if (m->warps[v].state == WARP_AT_REGISTERS) m->warps[v].state = WARP_READY;
    m->progress++;
    return true;
}

/* All warps of a warpgroup must have executed the same setmaxnreg. */
void registers_finish(machine *m) {
    for (int v = 0; v < m->warp_count; v++) {
        machine_warp *w = &m->warps[v];
        int first = v / MACHINE_GROUP_WARPS * MACHINE_GROUP_WARPS;
        if (w->register_pc == m->warps[first].register_pc) continue;
        bool has = w->register_count != 0;
        const machine_warp *other = &m->warps[first];
        fault(m, has ? w : &m->warps[first], has ? w->register_pc : other->register_pc,
              has && other->register_count ? other->register_pc : -1,
              "the warps of its warpgroup do not execute the same one");
    }
}
