/* What each warp has seen of the others: clocks that tick, releases and acquires that carry them
 * from warp to warp, proxy fences, and agents (mbarriers, threads with bulk copies) beside the
 * warps.
 */
#include "emulate/machine.h"

#include <string.h>

/* Two partial views of a warp become one that says too much rather than too little: then a race may
 * be missed, but none is invented.
 */
static void merge_views(uint32_t *into_all, uint32_t *into_some, uint32_t *into_lanes,
                        const uint32_t *from_all, const uint32_t *from_some,
                        const uint32_t *from_lanes) {
    for (int v = 0; v < MACHINE_WARPS_MAX; v++) {
        uint32_t all = from_all[v] > into_all[v] ? from_all[v] : into_all[v];
        bool mine = into_some[v] > all, theirs = from_some[v] > all;
        uint32_t lanes = (mine ? into_lanes[v] : 0u) | (theirs ? from_lanes[v] : 0u);
        uint32_t some = mine ? into_some[v] : 0u;
        if (theirs && from_some[v] > some) some = from_some[v];
        into_all[v] = all;
        into_some[v] = some;
        into_lanes[v] = lanes;
    }
}

void shadow_merge(machine_seen *into, const machine_seen *from) {
    merge_views(into->all, into->some, into->lanes, from->all, from->some, from->lanes);
    merge_views(into->fenced_all, into->fenced_some, into->fenced_lanes, from->fenced_all,
                from->fenced_some, from->fenced_lanes);
    for (int n = 0; n < MACHINE_AGENTS_MAX; n++)
        if (from->agents[n] > into->agents[n]) into->agents[n] = from->agents[n];
}
void shadow_fence(machine *m, machine_warp *w, uint32_t lanes) {
    machine_seen seen;
    shadow_release(m, w, lanes, &seen);
    merge_views(w->seen.fenced_all, w->seen.fenced_some, w->seen.fenced_lanes, seen.all, seen.some,
                seen.lanes);
}

void shadow_check_clock(machine *m, uint32_t clock) {
    if (clock < STAMP_AGENT_CLOCK_MAX) return;
    machine_limit(m, NULL, -1,
                  "a block may pass about 500,000 phases, and groups of copies and wgmma");
}

int shadow_new_agent(machine *m, machine_warp *w, machine_agent agent, bool reads) {
    if (m->agent_count == MACHINE_AGENTS_MAX) {
        machine_limit(m, w, w->pc, "more than 128 mbarriers and threads with bulk copies");
        return -1;
    }
    agent.reader = -1;
    if (reads && m->reader_count < MACHINE_READERS) {
        agent.reader = m->reader_count++;
        m->row_used[m->read_rows++] = true;
    }
    m->agents[m->agent_count] = agent;
    return m->agent_count++;
}

void shadow_tick(machine *m, machine_warp *w) {
    if (++w->clock >= STAMP_CLOCK_MAX)
        machine_limit(m, w, w->pc, "a block may pass about two million barriers and arrivals");
}

/* Lanes of a warp order themselves (bar.warp.sync); the caller lets the clock tick. */
void shadow_join_warp(machine_warp *w, uint32_t lanes) {
    if ((lanes & w->live) == w->live) {
        w->synced = w->clock;
        w->part_lanes = 0;
    } else {
        w->part_synced = w->clock;
        w->part_lanes = lanes;
    }
    if (!(w->acquired_lanes & lanes)) return;
    if ((lanes & w->live) == w->live) {
        shadow_merge(&w->seen, &w->acquired);
        w->acquired_lanes = 0;
    } else {
        w->acquired_lanes |= lanes;
    }
}

void shadow_release(machine *m, machine_warp *w, uint32_t lanes, machine_seen *out) {
    *out = w->seen;
    if (w->acquired_lanes & lanes) shadow_merge(out, &w->acquired);
    bool whole = (lanes & w->live) == w->live;
    uint32_t ordered = w->synced > out->all[w->index] ? w->synced : out->all[w->index];
    out->all[w->index] = whole ? w->clock : ordered;
    out->some[w->index] = whole ? 0u : w->clock;
    out->lanes[w->index] = whole ? 0u : w->part_lanes & lanes ? w->part_lanes | lanes : lanes;
    shadow_tick(m, w);
}

void shadow_acquire(machine_warp *w, uint32_t lanes, const machine_seen *from) {
    if ((lanes & w->live) == w->live) {
        shadow_merge(&w->seen, from);
        return;
    }
    if (!w->acquired_lanes) memset(&w->acquired, 0, sizeof w->acquired);
    shadow_merge(&w->acquired, from);
    w->acquired_lanes |= lanes;
}
