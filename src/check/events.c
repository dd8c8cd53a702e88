#include "check/machine.h"

#include <string.h>

enum { EVENTS_IN_RUN_MAX = 20000, EVENTS_MAX = 800000, FINDINGS_MAX = 64 };

events_finding *machine_report(machine *mc, events_fault fault, const tl_statement *at, int tile,
                               str name) {
    bool was_tainted = mc->is_tainted;
    mc->is_tainted = true;
    for (int i = 0; i < mc->findings.count; i++) {
        const events_finding *f = &mc->findings.items[i];
        bool same = tile >= 0 ? str_equal(f->name, name) : f->at == at;
        if (f->fault == fault && same) return NULL;
    }
    /* One mistake often makes several rules fail in a run; the first one names it. */
    bool follows = fault == FAULT_DEADLOCK || fault == FAULT_NOTHING_COMES ||
                   fault == FAULT_NEVER_WAITED || fault == FAULT_CONTRACTED ||
                   fault == FAULT_MEETING || fault == FAULT_PLACE ||
                   fault == FAULT_UNFINISHED_AT_END || fault == FAULT_TURN_AT_END ||
                   fault == FAULT_HELD_AT_END || fault == FAULT_END || fault == FAULT_NOT_COVERED;
    if ((follows && was_tainted) || mc->findings.count == FINDINGS_MAX) return NULL;
    events_finding finding = {.fault = fault, .name = name, .at = at};
    if (tile >= 0) finding.left_out = mc->left_out[tile];
    if (at) {
        bool names_tile = (at->kind == TL_WAIT || at->kind == TL_RELEASE) && at->sync.what;
        finding.range = names_tile ? at->sync.what->range : at->range;
    }
    list_push(mc->memory, &mc->findings, finding);
    return &mc->findings.items[mc->findings.count - 1];
}

void machine_trace(machine *mc, machine_process *p, events_kind kind, int tile, int cursor,
                   int64_t generation) {
    if (p->sync->executor) return;
    events_record record = {kind, p->at, tile, cursor, (int)generation};
    list_push(mc->memory, &p->trace, record);
}

/* --- starting a run --------------------------------------------------------------------------- */

/* Of a condition that holds a vote, elements may have no value here: whether one stands for them
 * would hang on how the condition is written.
 */
static bool finds_chosen(void *context, const tl_expr *e) {
    const extents *x = context;
    return e->kind != TL_ELEMENT || e->space == TL_REGISTER || e->space == TL_SHARED ||
           extents_table_of(x, e) || extents_variable_of(x, e);
}

static bool is_own(const model *m, const model_step *step) {
    switch (step->kind) {
    case STEP_COMPUTE:
    case STEP_RESHAPE: return true;
    case STEP_COPY: return !step->has_target || m->tiles[step->target.tile].space != TL_SHARED;
    default: return step->subject == SUBJECT_REGISTER || step->subject == SUBJECT_STORES;
    }
}

static void make_steps(machine *mc, const model_role *role, machine_step *steps) {
    void *chosen = (void *)(uintptr_t)mc->extents;
    for (int i = 0; i < role->step_count; i++) {
        const model_step *step = &role->steps[i];
        steps[i].is_own = is_own(mc->model, step);
        if (step->kind != STEP_IF) continue;
        const tl_expr *condition = step->statement->branch.condition;
        steps[i].chooses = extents_chooses(mc->extents, condition);
        steps[i].is_open = step->depends_on_data && !tl_visit(condition, finds_chosen, chosen);
    }
}

static void make_processes(machine *mc) {
    const model *m = mc->model;
    mc->sync = channels_new(mc->memory, m, false);
    mc->contents = arena_array(mc->memory, machine_contents, m->tile_count + 1);
    mc->left_out = arena_array(mc->memory, const tl_statement *, m->tile_count + 1);
    mc->steps = arena_array(mc->memory, machine_step *, m->role_count + 1);
    mc->processes = arena_array(mc->memory, machine_process, mc->sync->process_count + 1);
    list_push(mc->memory, &mc->helds, ((machine_held){0}));
    for (int r = 0; r < m->role_count; r++) {
        mc->steps[r] = arena_array(mc->memory, machine_step, m->roles[r].step_count + 1);
        make_steps(mc, &m->roles[r], mc->steps[r]);
    }
    for (int i = 0; i <= mc->tiles_to_walk; i++)
        mc->tiles[i] = extents_values_new(mc->memory, mc->extents);
    for (int i = 0; i < mc->sync->process_count; i++) {
        machine_process *p = &mc->processes[i];
        p->sync = &mc->sync->processes[i];
        p->values = extents_values_new(mc->memory, mc->extents);
        p->waited_at = arena_array(mc->memory, const tl_statement *, m->cursor_count + 1);
        p->registers = arena_array(mc->memory, machine_register, m->tile_count + 1);
    }
}

static void start_run(machine *mc, const extents_run *run) {
    const model *m = mc->model;
    mc->run = run;
    mc->is_tainted = mc->is_stopped = mc->is_left_out = false;
    mc->events_in_run = 0;
    channels_reset(mc->sync);
    for (int t = 0; t < m->tile_count; t++) mc->contents[t].generations.count = 0;
    memset(mc->left_out, 0, sizeof *mc->left_out * (size_t)m->tile_count);
    for (int i = 0; i <= mc->tiles_to_walk; i++)
        extents_values_start_tile(mc->tiles[i], run, i, mc->tiles_to_walk);
    for (int i = 0; i < mc->sync->process_count; i++) {
        machine_process *p = &mc->processes[i];
        p->at = p->nest_count = p->data_branches = 0;
        p->counts = (machine_counts){0};
        p->is_done = p->is_blocked = false;
        memset(p->registers, 0, sizeof(machine_register) * (size_t)m->tile_count);
        p->trace.items = NULL;
        p->trace.count = p->trace.capacity = 0;
        extents_values_take(p->values, mc->tiles[0], mc->tiles[1]);
    }
}

/* --- the ends --------------------------------------------------------------------------------- */

/* H7: what an executor must have given back when its tile ends. */
static void check_tile_end(machine *mc, machine_process *p, const tl_statement *at) {
    const model *m = mc->model;
    const channels_process *sync = p->sync;
    if (sync->flights.count) {
        const channels_flight *flight = &sync->flights.items[0];
        str name = flight->tile >= 0 ? m->tiles[flight->tile].name : flight->stores->name;
        machine_report(mc, FAULT_UNFINISHED_AT_END, flight->statement, flight->tile, name);
        channels_forget_flights(p->sync);
    }
    for (int c = 0; c < m->cursor_count; c++) {
        if (m->cursors[c].role != p->sync->role || sync->waits[c] == sync->releases[c]) continue;
        events_finding *f =
            machine_report(mc, FAULT_HELD_AT_END, at, m->cursors[c].tile, m->cursors[c].name);
        if (f) f->at = p->waited_at[c], f->range = p->waited_at[c]->range;
    }
    for (int t = 0; t < m->turn_count; t++) {
        if (sync->has_turn[t]) machine_report(mc, FAULT_TURN_AT_END, at, -1, m->turns[t].name);
    }
    for (int t = 0; t < m->tile_count; t++) {
        bool is_open = sync->rings[t].opened != sync->rings[t].released;
        if (!channels_is_ring(&m->tiles[t]) || !is_open) continue;
        machine_report(mc, FAULT_HELD_AT_END, at, t, m->tiles[t].name);
    }
}

/* H7: at the end of a run every generation was waited for by every reader. */
static void check_run_end(machine *mc) {
    const model *m = mc->model;
    for (int t = 0; t < m->tile_count; t++) {
        int64_t filled = mc->contents[t].generations.count, waited = filled, readers = 0;
        if (m->tiles[t].space != TL_SHARED || !filled) continue;
        str name = m->tiles[t].name;
        for (int c = 0; c < m->cursor_count; c++) {
            if (m->cursors[c].tile != t) continue;
            int role = m->cursors[c].role;
            for (int i = 0; i < mc->sync->count[role]; i++) {
                int64_t waits = mc->sync->processes[mc->sync->first[role] + i].waits[c];
                readers++;
                if (waits < waited) waited = waits, name = m->cursors[c].name;
            }
        }
        if (readers && waited == filled) continue;
        const machine_generation *left = &mc->contents[t].generations.items[readers ? waited : 0];
        events_finding *f = machine_report(mc, FAULT_NEVER_WAITED, NULL, t, name);
        if (!f) continue;
        f->at = left->by;
        f->range = left->by->range;
        f->by_view = !readers;
    }
}

/* --- steps ------------------------------------------------------------------------------------ */

static machine_counts counts_now(const machine_process *p) {
    machine_counts now = p->counts;
    now.flights = p->sync->flights.count;
    return now;
}

/* What a vote decides, by the run's pattern. */
static bool vote(machine *mc, machine_process *p) {
    unsigned number = (unsigned)p->data_branches++, pattern = (unsigned)mc->run->pattern;
    switch (pattern) {
    case 0: return false;
    case 1: return true;
    case 2: return number % 2 == 0;
    case 3: return number % 2 == 1;
    default: return (number * 0x9E3779B1u ^ pattern * 0x85EBCA77u) * 0xC2B2AE3Du >> 31;
    }
}

/* A vote that a let keeps has decided already, alone or with other conditions. */
static bool way_of(machine *mc, machine_process *p, const model_step *step, bool *is_voted) {
    int64_t value = 0;
    bool is_known = !mc->steps[p->sync->role][p->at].is_open &&
                    extents_integer(p->values, step->statement->branch.condition, &value);
    *is_voted = step->depends_on_data || !is_known;
    return is_known ? value != 0 : vote(mc, p);
}

/* What a table leaves out: of which tiles, and whether it is Copies that would bring them. */
static void leave_out(machine *mc, const machine_process *p, const model_step *step) {
    if (!mc->steps[p->sync->role][p->at].chooses) return;
    const model_step *steps = mc->model->roles[p->sync->role].steps;
    for (int i = p->at; i < step->other; i++) {
        const model_step *s = &steps[i];
        bool syncs = s->kind == STEP_WAIT || s->kind == STEP_RELEASE;
        int tile = s->kind == STEP_COPY ? s->target.tile : syncs ? s->what.tile : -1;
        if (tile >= 0) mc->left_out[tile] = step->statement;
        mc->is_left_out |= s->kind == STEP_COPY;
    }
}

static void enter_if(machine *mc, machine_process *p, const model_step *step) {
    bool is_voted, taken = way_of(mc, p, step, &is_voted);
    if (!taken) leave_out(mc, p, step);
    if (!taken) {
        if (step->commits) machine_trace(mc, p, EVENT_SKIP, -1, -1, step->commits);
        p->at = step->other + 1;
        return;
    }
    machine_loop *way = &p->nest[p->nest_count++];
    way->step = p->at;
    way->is_voted = is_voted;
    if (is_voted) way->before = counts_now(p);
    p->at++;
}

static void leave_if(machine *mc, machine_process *p, const model_step *step) {
    const model_step *begin = &mc->model->roles[p->sync->role].steps[step->other];
    const machine_loop *way = &p->nest[--p->nest_count];
    machine_counts now = counts_now(p);
    if (way->is_voted && memcmp(&now, &way->before, sizeof now) != 0)
        machine_report(mc, FAULT_BRANCH_DIFFERS, begin->statement, -1, (str){0});
    p->at++;
}

static void enter_for(machine *mc, machine_process *p, const model_step *step) {
    const tl_for *loop = &step->statement->loop;
    int64_t from, to;
    /* Bounds that only data decide: as often as the pattern says. */
    if (!extents_integer(p->values, loop->from, &from)) from = 0;
    if (!extents_integer(p->values, loop->to, &to)) to = from + (mc->run->pattern & 1);
    if (from >= to) {
        p->at = step->other + 1;
        return;
    }
    p->nest[p->nest_count++] = (machine_loop){.step = p->at, .value = from, .end = to};
    tl_values_set(&p->values->names, loop->symbol, from);
    p->at++;
}

static void repeat_for(machine *mc, machine_process *p, const model_step *step) {
    machine_loop *loop = &p->nest[p->nest_count - 1];
    const tl_symbol *symbol = step->statement->loop.symbol;
    if (++loop->value < loop->end) {
        tl_values_set(&p->values->names, symbol, loop->value);
        mc->steps[p->sync->role][loop->step].is_repeated = true;
        p->at = loop->step + 1;
        return;
    }
    tl_values_forget(&p->values->names, symbol);
    p->nest_count--;
    p->at++;
}

static void end_tile(machine *mc, machine_process *p, const model_step *step) {
    const model *m = mc->model;
    if (model_is_whole_body(step)) {
        check_tile_end(mc, p, step->statement);
        for (int t = 0; t < m->tile_count; t++) {
            p->registers[t].is_defined = false;
            p->registers[t].origin = (machine_origin){0};
        }
    }
    int following = p->values->tile + 1;
    bool goes_on = following < mc->tiles_to_walk;
    machine_trace(mc, p, EVENT_TILE, -1, -1, goes_on);
    if (!goes_on) {
        p->at++;
        return;
    }
    extents_values_take(p->values, mc->tiles[following], mc->tiles[following + 1]);
    p->at = step->other + 1;
}

static void redo_lets(machine *mc, machine_process *p, const model_step *step) {
    for (int i = 0; i < step->statement->let.count; i++) {
        const tl_binding *binding = &step->statement->let.items[i];
        const tl_symbol *symbol = binding->symbol;
        if (!symbol || symbol->kind != TL_SYMBOL_CONSTANT) continue;
        tl_values_forget(&p->values->names, symbol);
        if (model_is_vote(binding->value)) tl_values_set(&p->values->names, symbol, vote(mc, p));
    }
    p->at++;
}

static bool may_go_on(machine *mc, const model_step *step) {
    if (mc->events_in_run < EVENTS_IN_RUN_MAX && mc->events < EVENTS_MAX) return true;
    events_finding *f = machine_report(mc, FAULT_TOO_LONG, step->statement, -1, (str){0});
    if (f) f->found = EVENTS_IN_RUN_MAX;
    mc->is_stopped = true;
    return false;
}

/* Moves a process until it blocks or ends. Returns how many steps it made. */
static int advance(machine *mc, machine_process *p) {
    const model_role *role = &mc->model->roles[p->sync->role];
    machine_step *known = mc->steps[p->sync->role];
    p->is_blocked = false;
    for (int moves = 0;; moves++) {
        const model_step *step = &role->steps[p->at];
        if (!may_go_on(mc, step)) return moves;
        mc->events_in_run++, mc->events++;
        known[p->at].is_reached = true;
        switch (step->kind) {
        case STEP_LET: redo_lets(mc, p, step); break;
        case STEP_FOR: enter_for(mc, p, step); break;
        case STEP_END_FOR: repeat_for(mc, p, step); break;
        case STEP_IF: enter_if(mc, p, step); break;
        case STEP_END_IF: leave_if(mc, p, step); break;
        case STEP_END_TILES: end_tile(mc, p, step); break;
        case STEP_ALLOCATE:
        case STEP_TILES: p->at++; break;
        case STEP_END:
            p->is_done = true;
            if (!model_is_whole_body(&role->steps[0])) check_tile_end(mc, p, step->statement);
            return moves + 1;
        default:
            p->is_blocked = !(p->sync->executor && known[p->at].is_own) &&
                            machine_act(mc, p, step) == MACHINE_BLOCKED;
            if (p->is_blocked) return moves;
            p->at++;
        }
    }
}

/* --- no executor can move --------------------------------------------------------------------- */

/* The latest Wait of any reader that still holds a generation of the tile. */
static const tl_statement *holder_of(const machine *mc, int tile) {
    for (int c = 0; c < mc->model->cursor_count; c++) {
        if (mc->model->cursors[c].tile != tile) continue;
        int role = mc->model->cursors[c].role;
        for (int i = 0; i < mc->sync->count[role]; i++) {
            const machine_process *p = &mc->processes[mc->sync->first[role] + i];
            if (p->sync->waits[c] > p->sync->releases[c]) return p->waited_at[c];
        }
    }
    return NULL;
}

/* Will nobody fill the channel any more: is its filler at its end, or the one that waits? */
static bool filler_is_done(const machine *mc, int tile, const machine_process *waiting) {
    int filler = mc->model->tiles[tile].role;
    if (filler < 0 || filler == waiting->sync->role) return true;
    for (int i = 0; i < mc->sync->count[filler]; i++) {
        if (!mc->processes[mc->sync->first[filler] + i].is_done) return false;
    }
    return true;
}

static void report_stuck(machine *mc) {
    const machine_process *first = NULL;
    for (int i = 0; i < mc->sync->process_count; i++) {
        const machine_process *p = &mc->processes[i];
        if (!p->is_blocked) continue;
        const model_step *step = &mc->model->roles[p->sync->role].steps[p->at];
        const model_step *best =
            first ? &mc->model->roles[first->sync->role].steps[first->at] : NULL;
        if (!best || (best->kind == STEP_WAIT && step->kind != STEP_WAIT)) first = p;
    }
    if (!first || mc->is_tainted) return;
    const model_step *step = &mc->model->roles[first->sync->role].steps[first->at];
    events_finding *f = NULL;
    bool copies = step->kind == STEP_COPY;
    int tile = copies ? step->target.tile : step->what.tile;
    if (copies || step->kind == STEP_COMPUTE) {
        int holder = step->target.tile;
        if (copies) channels_may_fill(mc->sync, first->sync, tile, &holder);
        f = machine_report(mc, FAULT_SLOT_HELD, step->statement, step->target.tile,
                           mc->model->tiles[step->target.tile].name);
        if (!f) return;
        f->range = step->target.range.end ? step->target.range : f->range;
        f->other = copies ? holder_of(mc, holder) : NULL;
        f->other_name = mc->model->tiles[holder].name;
        if (!f->other && mc->contents[holder].generations.count) {
            int last = mc->contents[holder].generations.count - 1;
            f->other = mc->contents[holder].generations.items[last].by;
            f->by_view = true; /* filled, and not waited for yet */
        }
        return;
    }
    if (step->subject == SUBJECT_CHANNEL && filler_is_done(mc, tile, first)) {
        machine_report(mc, FAULT_NOTHING_COMES, step->statement, tile, step->what.name);
        return;
    }
    f = machine_report(mc, FAULT_DEADLOCK, step->statement, -1,
                       step->subject == SUBJECT_TURN ? mc->model->turns[step->turn].name
                                                     : step->what.name);
    if (!f) return;
    f->range = step->statement->range;
    for (int i = 0; i < mc->sync->process_count; i++) {
        const machine_process *p = &mc->processes[i];
        if (!p->is_blocked || p == first || p->sync->role == first->sync->role) continue;
        f->other = mc->model->roles[p->sync->role].steps[p->at].statement;
    }
}

static void run_once(machine *mc) {
    int moves = 1;
    while (moves && !mc->is_stopped) {
        moves = 0;
        for (int i = 0; i < mc->sync->process_count; i++) {
            if (!mc->processes[i].is_done && !mc->is_stopped)
                moves += advance(mc, &mc->processes[i]);
        }
    }
    if (mc->is_stopped) return;
    bool all_done = true;
    for (int i = 0; i < mc->sync->process_count; i++) all_done &= mc->processes[i].is_done;
    if (!all_done) report_stuck(mc);
    else check_run_end(mc);
    if (all_done && !mc->is_tainted && !mc->is_left_out) coverage_judge(mc);
}

typedef LIST(events_trace) trace_list;

static void run_and_trace(machine *mc, const extents_run *run, trace_list *traces) {
    start_run(mc, run);
    run_once(mc);
    if (mc->is_stopped) return;
    for (int r = 0; r < mc->model->role_count; r++) {
        const machine_process *p = &mc->processes[mc->sync->first[r]];
        events_trace trace = {r, p->trace.items, p->trace.count};
        if (trace.count) list_push(mc->memory, traces, trace);
    }
}

/* Which way several votes go that follow one another may decide whether a step is come to. */
static void try_more_votes(machine *mc, trace_list *traces) {
    enum { PATTERNS_FIRST = 2, PATTERNS = 10, RUNS_MAX = 200 };
    int runs = 0;
    for (int i = 0; i < mc->extents->run_count && !mc->is_stopped; i++) {
        if (mc->extents->runs[i].pattern) continue;
        for (int k = PATTERNS_FIRST; k < PATTERNS && !mc->is_stopped; k++) {
            if (runs++ == RUNS_MAX || reach_is_whole(mc)) return;
            extents_run *run = arena_new(mc->memory, extents_run);
            *run = mc->extents->runs[i];
            run->pattern = k;
            run_and_trace(mc, run, traces);
        }
    }
}

events_result events_run(arena *memory, const model *m, const extents *x) {
    machine mc = {.memory = memory, .model = m, .extents = x, .tiles_to_walk = 1};
    if (m->grid && m->grid->grid.kind != TL_GRID_PLAIN) mc.tiles_to_walk = MACHINE_TILES_MAX;
    make_processes(&mc);
    coverage_prepare(&mc);
    trace_list traces = {0};
    for (int i = 0; i < x->run_count && m->role_count && !mc.is_stopped; i++) {
        run_and_trace(&mc, &x->runs[i], &traces);
    }
    if (!mc.findings.count) try_more_votes(&mc, &traces);
    if (!mc.findings.count && !mc.is_stopped) reach_judge(&mc);
    return (events_result){mc.findings.items, mc.findings.count, traces.items, traces.count,
                           mc.events};
}
