/* A block: which warp runs next, what happens when none can, and what is left in the end. */
#include "emulate/machine.h"

/* Nobody can run: first copies land, then waiting tests fail once, then it is a deadlock. */
static bool unblock(machine *m, int *idle_rounds) {
    if (copy_step(m) || bulk_step(m)) return true;
    bool polls = false;
    if (++*idle_rounds <= MACHINE_IDLE_ROUNDS)
        for (int v = 0; v < m->warp_count; v++) {
            machine_warp *w = &m->warps[v];
            if (w->state != WARP_POLLING) continue;
            w->poll_fails = polls = true;
        }
    if (polls) machine_wake(m);
    return polls;
}

static void finish_block(machine *m) {
    copy_finish(m);
    bulk_finish(m);
    wgmma_finish(m);
    registers_finish(m);
    barrier_finish(m);
}

/* The warps that can run, one after the other. With a seed they take turns in some blocks; in the
 * others those of the largest number from some warp on run alone, as long as they can: what is out
 * of step by a whole slot of a ring shows there. Whether one ran; 'left': not all have ended.
 */
static bool run_warps(machine *m, int alone, bool *left) {
    bool ran = false;
    int first = alone >= 0  ? alone
                : m->random ? (int)(machine_draw(m) % (uint64_t)m->warp_count)
                            : 0;
    for (int n = 0; n < m->warp_count && !m->stopped; n++) {
        machine_warp *w = &m->warps[(n + first) % m->warp_count];
        if (w->state == WARP_READY) {
            machine_run_warp(m, w);
            ran = true;
        }
        *left |= w->state != WARP_DONE;
        if (ran && alone >= 0) return *left = true;
    }
    return ran;
}

void block_run(machine *m) {
    int idle_rounds = 0, alone = -1;
    uint64_t progress = m->progress;
    if (m->random && machine_draw(m) >> 32 & 1)
        alone = (int)(machine_draw(m) % (uint64_t)m->warp_count);
    while (!m->stopped) {
        bool left = false, ran = run_warps(m, alone, &left);
        if (!left && !m->stopped) finish_block(m);
        if (!left || m->stopped) return;
        if (m->progress != progress) idle_rounds = 0;
        progress = m->progress;
        if (!ran && !unblock(m, &idle_rounds)) {
            deadlock_report(m);
            machine_stop(m);
            return;
        }
    }
}
