#include "check/machine.h"

#include <string.h>

/* --- channels --------------------------------------------------------------------------------- */

/* How many generations of a channel have been filled by all executors of its filler. */
static int machine_landed(const machine *mc, int tile) {
    int filler = mc->model->tiles[tile].role;
    if (filler < 0) return 0;
    const model_role *role = &mc->model->roles[filler];
    int landed = mc->processes[role->first_process].fills[tile];
    for (int i = 1; i < role->processes; i++) {
        int fills = mc->processes[role->first_process + i].fills[tile];
        if (fills < landed) landed = fills;
    }
    return landed;
}

/* Have all readers released the first 'wanted' generations of the channel? */
static bool all_released(const machine *mc, int tile, int wanted) {
    const model_tile *t = &mc->model->tiles[tile];
    for (int k = 0; k < t->cursor_count; k++) {
        int c = t->cursors[k];
        const model_role *role = &mc->model->roles[mc->model->cursors[c].role];
        for (int i = 0; i < role->processes; i++) {
            if (mc->processes[role->first_process + i].releases[c] < wanted) return false;
        }
    }
    return true;
}

static bool has_reader(const machine *mc, int tile) {
    return mc->model->tiles[tile].cursor_count > 0;
}

bool machine_slot_is_free(const machine *mc, const machine_process *p, int tile, int *holder) {
    const model_tile *t = &mc->model->tiles[tile];
    *holder = tile;
    if (!has_reader(mc, tile)) return true; /* reported as never waited for */
    if (!all_released(mc, tile, p->fills[tile] - t->stages + 1)) return false;
    for (int k = 0; k < t->partner_count; k++) {
        int u = t->partners[k];
        const model_tile *partner = &mc->model->tiles[u];
        if (!has_reader(mc, u)) continue;
        int wanted = mc->channels[u].generations.count;
        if (partner->role >= 0 && partner->role != t->role) {
            /* Other roles fill the bytes in strict turns, in order of declaration. */
            wanted = p->fills[tile] + (u < tile ? 1 : 0);
        }
        *holder = u;
        if (!all_released(mc, u, wanted)) return false;
    }
    return true;
}

static void trace(machine *mc, machine_process *p, const model_step *step, events_kind kind,
                  int tile, int cursor, int generation) {
    if (p->executor) return;
    events_record record = {kind, (int)(step - mc->model->roles[p->role].steps), tile, cursor,
                            generation};
    list_push(mc->memory, &p->trace, record);
}

static machine_outcome fill(machine *mc, machine_process *p, const model_step *step,
                            const machine_origin *origin) {
    int tile = step->target.tile, holder;
    if (mc->model->tiles[tile].role != p->role) {
        machine_report(mc, FAULT_TWO_FILLERS, step, tile, mc->model->tiles[tile].name);
        return MACHINE_MOVED;
    }
    if (!machine_slot_is_free(mc, p, tile, &holder)) return MACHINE_BLOCKED;
    machine_channel *channel = &mc->channels[tile];
    int generation = p->fills[tile]++;
    if (generation == channel->generations.count) {
        machine_generation made = {.by = step->statement, .origin = *origin};
        list_push(mc->memory, &channel->generations, made);
    }
    trace(mc, p, step, EVENT_FILL, tile, -1, generation);
    return MACHINE_MOVED;
}

/* --- reading and writing ---------------------------------------------------------------------- */

static const machine_flight *flight_into(const machine_process *p, int tile, int generation) {
    for (int i = 0; i < p->flight_count; i++) {
        const machine_flight *f = &p->flights[i];
        if (f->tile == tile && (generation < 0 || f->generation == generation)) return f;
    }
    return NULL;
}

static const machine_flight *flight_reading(const machine_process *p, int tile, int generation) {
    for (int i = 0; i < p->flight_count; i++) {
        const machine_flight *f = &p->flights[i];
        for (int k = 0; k < f->source_count; k++) {
            bool same = generation < 0 || f->source_generations[k] == generation;
            if (f->sources[k] == tile && same) return f;
        }
    }
    return NULL;
}

/* A ring that products open, and that is waited for. */
static bool is_ring(const machine *mc, int tile) {
    const model_tile *t = &mc->model->tiles[tile];
    return t->space == TL_REGISTER && t->stages > 1 && !t->is_value_ring;
}

/* The generation of a register tile that names mean; -1 when there is but one. */
static int meant(const machine *mc, const machine_process *p, int tile) {
    const machine_register *r = &p->registers[tile];
    if (mc->model->tiles[tile].is_value_ring) return r->opened - 1;
    return is_ring(mc, tile) ? r->waited - 1 : -1;
}

/* A statement that writes a ring of values opens a generation once the newest has been used. Its
 * slot is that of the generation 'stages' before, which nothing may read any more.
 */
static void open_value(machine *mc, machine_process *p, const model_step *step, int tile) {
    const model_tile *t = &mc->model->tiles[tile];
    machine_register *r = &p->registers[tile];
    if (!t->is_value_ring || !tl_writes_afresh(step->statement, t->symbol)) return;
    if (r->opened && !r->is_used) return;
    const machine_flight *flight = flight_reading(p, tile, r->opened - t->stages);
    if (flight && r->opened >= t->stages) {
        events_finding *f = machine_report(mc, FAULT_OPERAND_WRITTEN, step, tile, t->name);
        if (f) f->other = flight->step->statement, f->range = step->target.range;
    }
    r->opened++;
    r->is_used = false;
}

/* Where the data of a use came from; NULL when it must not be read now (reported). */
static const machine_origin *read_use(machine *mc, machine_process *p, const model_step *step,
                                      const model_use *use, bool joins_queue) {
    const model_tile *tile = &mc->model->tiles[use->tile];
    events_finding *finding;
    if (tile->space == TL_SHARED) {
        bool held = use->cursor >= 0 && p->waits[use->cursor] > p->releases[use->cursor];
        if (held) {
            int generation = p->waits[use->cursor] - 1;
            return &mc->channels[use->tile].generations.items[generation].origin;
        }
        finding = machine_report(mc, FAULT_NOT_WAITED, step, use->tile, use->name);
        if (finding) finding->range = use->range, finding->by_view = use->cursor < 0;
        return NULL;
    }
    machine_register *r = &p->registers[use->tile];
    int held = meant(mc, p, use->tile);
    const machine_flight *flight = flight_into(p, use->tile, held);
    if (is_ring(mc, use->tile) && r->waited <= r->released) {
        finding = machine_report(mc, FAULT_NOT_WAITED, step, use->tile, use->name);
        if (finding) finding->range = use->range;
        return NULL;
    }
    if (flight && !joins_queue) {
        finding = machine_report(mc, FAULT_READ_IN_FLIGHT, step, use->tile, use->name);
        if (finding) finding->range = use->range, finding->other = flight->step->statement;
        return NULL;
    }
    if (!r->is_defined) {
        finding = machine_report(mc, FAULT_UNDEFINED, step, use->tile, use->name);
        if (finding) finding->range = use->range;
        return NULL;
    }
    return &r->origin;
}

/* May the register tile be written now? */
static void check_write(machine *mc, machine_process *p, const model_step *step, int tile) {
    const model_tile *t = &mc->model->tiles[tile];
    bool joins_queue = step->is_async && step->kind == STEP_COMPUTE && step->accumulates;
    bool opens = is_ring(mc, tile) && step->is_async && !step->accumulates;
    open_value(mc, p, step, tile);
    const machine_flight *flight = flight_into(p, tile, meant(mc, p, tile));
    events_finding *finding;
    if (flight && !joins_queue && !opens) {
        finding = machine_report(mc, FAULT_WRITE_IN_FLIGHT, step, tile, t->name);
        if (finding) finding->other = flight->step->statement, finding->range = step->target.range;
        return;
    }
    flight = opens ? NULL : flight_reading(p, tile, meant(mc, p, tile));
    if (flight) {
        finding = machine_report(mc, FAULT_OPERAND_WRITTEN, step, tile, t->name);
        if (finding) finding->other = flight->step->statement, finding->range = step->target.range;
    }
}

static void merge_origin(const machine *mc, int to, machine_origin *into, int from,
                         const machine_origin *origin) {
    const model_tile *target = &mc->model->tiles[to], *source = &mc->model->tiles[from];
    for (int k = 0; origin && k < target->axis_count; k++) {
        int i = model_axis_of(source, target->axes[k].id);
        if (i < 0 || !origin->known[i] || into->known[k]) continue;
        into->known[k] = true;
        into->at[k] = origin->at[i];
        into->ends[k] = origin->ends[i];
    }
}

/* --- the actions ------------------------------------------------------------------------------ */

static machine_origin origin_of_load(machine_process *p, const model *m, const model_step *step) {
    machine_origin origin = {0};
    const model_tile *tile = &m->tiles[step->target.tile];
    for (int k = 0; k < tile->axis_count; k++) {
        const tl_spot *spot = step->origins[k];
        int64_t at = 0;
        if (!step->origin_known[k]) continue;
        if (spot && !extents_integer(&p->values, spot->at, &at)) continue;
        if (spot && spot->is_block && !tile->axes[k].extent) continue;
        origin.known[k] = true;
        origin.at[k] = spot && spot->is_block ? at * tile->axes[k].extent : at;
        origin.ends[k] = holds_number(0); /* a Copy fills up with zeros */
    }
    return origin;
}

/* Behind the end a Copy is clipped; before the beginning nothing is. */
static void check_beginning(machine *mc, machine_process *p, const model_step *step) {
    const tl_symbol *tensor = step->loads ? step->loads : step->stores;
    const tl_place *place = &step->statement->copy.place;
    for (int k = 0; tensor && k < place->count && k < tensor->axes->count; k++) {
        int64_t at;
        if (place->items[k].is_all || !extents_integer(&p->values, place->items[k].at, &at))
            continue;
        if (at >= 0) continue;
        events_finding *f = machine_report(mc, FAULT_BEFORE, step, -1, tensor->name);
        if (!f) return;
        f->range = place->range;
        f->axis = tl_axis_index(tensor->axes, k);
        f->extent = place->items[k].at;
        f->found = at;
        return;
    }
}

static machine_outcome act_copy(machine *mc, machine_process *p, const model_step *step) {
    machine_origin origin = {0};
    int holder;
    bool to_channel = step->has_target && mc->model->tiles[step->target.tile].space == TL_SHARED;
    if (to_channel && mc->model->tiles[step->target.tile].role == p->role &&
        !machine_slot_is_free(mc, p, step->target.tile, &holder)) {
        return MACHINE_BLOCKED;
    }
    for (int i = 0; i < step->read_count; i++) {
        const machine_origin *from = read_use(mc, p, step, &step->reads[i], false);
        if (i == 0 && step->has_target) {
            merge_origin(mc, step->target.tile, &origin, step->reads[i].tile, from);
            if (from) origin.inside = from->inside;
        }
    }
    check_beginning(mc, p, step);
    if (step->loads && step->has_target) origin = origin_of_load(p, mc->model, step);
    if (to_channel) return fill(mc, p, step, &origin);
    if (step->has_target) {
        check_write(mc, p, step, step->target.tile);
        machine_register *r = &p->registers[step->target.tile];
        r->is_defined = true;
        r->origin = origin;
    }
    if (step->stores && step->is_async && p->flight_count < MACHINE_QUEUE_MAX) {
        machine_flight *f = &p->flights[p->flight_count++];
        *f = (machine_flight){.step = step, .tile = -1, .stores = step->stores};
        for (int i = 0; i < step->read_count; i++) {
            const model_use *use = &step->reads[i];
            f->sources[f->source_count] = use->tile;
            f->source_generations[f->source_count++] =
                use->cursor >= 0 ? p->waits[use->cursor] - 1 : -1;
        }
    }
    return MACHINE_MOVED;
}

static void check_contraction(machine *mc, const model_step *step,
                              const machine_origin *const *origins) {
    if (step->contracted < 0 || step->read_count < 2 || !origins[0] || !origins[1]) return;
    const model_tile *a = &mc->model->tiles[step->reads[0].tile];
    const model_tile *b = &mc->model->tiles[step->reads[1].tile];
    int i = model_axis_of(a, step->contracted), k = model_axis_of(b, step->contracted);
    if (i < 0 || k < 0 || !origins[0]->known[i] || !origins[1]->known[k]) return;
    if (origins[0]->at[i] == origins[1]->at[k]) return;
    events_finding *f = machine_report(mc, FAULT_CONTRACTED, step, -1, step->reads[0].name);
    if (!f) return;
    f->other_name = step->reads[1].name;
    f->axis = a->axes[i].name;
    f->expected = origins[0]->at[i];
    f->found = origins[1]->at[k];
}

/* Tiles that meet element by element are from one place on every axis that they share. Of a ring it
 * is open which generation is meant.
 */
static void check_meeting(machine *mc, const model_step *step,
                          const machine_origin *const *origins) {
    tl_shape_rule shape = tl_operation_shape(step->statement->compute.operation);
    if (shape != TL_SHAPE_ELEMENTWISE && shape != TL_SHAPE_MASK) return;
    for (int i = 1; i < step->read_count; i++) {
        const model_tile *a = &mc->model->tiles[step->reads[0].tile];
        const model_tile *b = &mc->model->tiles[step->reads[i].tile];
        if (!origins[0] || !origins[i] || a->stages > 1 || b->stages > 1) continue;
        for (int k = 0; k < a->axis_count; k++) {
            int other = model_axis_of(b, a->axes[k].id);
            if (other < 0 || !origins[0]->known[k] || !origins[i]->known[other] ||
                origins[0]->at[k] == origins[i]->at[other])
                continue;
            events_finding *f = machine_report(mc, FAULT_MEETING, step, -1, step->reads[0].name);
            if (!f) return;
            f->other_name = step->reads[i].name;
            f->axis = a->axes[k].name;
            f->expected = origins[0]->at[k];
            f->found = origins[i]->at[other];
            return;
        }
    }
}

/* `in coordinate` of a Compute says where its tile lies; compare with where its data came from. */
static void check_place(machine *mc, machine_process *p, const model_step *step,
                        const machine_origin *origin) {
    const tl_place *place = &step->statement->compute.place;
    if (!place->is_given || !origin || !step->read_count) return;
    const model_tile *tile = &mc->model->tiles[step->reads[0].tile];
    for (int k = 0; k < tile->axis_count; k++) {
        const tl_spot *spot = k < place->count && !place->items[k].is_all ? &place->items[k] : NULL;
        int64_t at = 0;
        if (!origin->known[k] || (spot && !extents_integer(&p->values, spot->at, &at))) continue;
        if (spot && spot->is_block) at *= tile->axes[k].extent;
        if (at == origin->at[k]) continue;
        events_finding *f = machine_report(mc, FAULT_PLACE, step, -1, step->reads[0].name);
        if (!f) return;
        f->range = place->range;
        f->axis = tile->axes[k].name;
        f->expected = origin->at[k];
        f->found = at;
        return;
    }
}

static machine_outcome act_compute(machine *mc, machine_process *p, const model_step *step) {
    const machine_origin *origins[MODEL_READS_MAX] = {0};
    int tile = step->target.tile;
    bool opens = step->has_target && is_ring(mc, tile) && step->is_async && !step->accumulates;
    if (opens &&
        p->registers[tile].opened - p->registers[tile].released >= mc->model->tiles[tile].stages) {
        return MACHINE_BLOCKED;
    }
    for (int i = 0; i < step->read_count; i++) {
        origins[i] = read_use(mc, p, step, &step->reads[i], false);
    }
    if (step->accumulates && step->has_target) {
        read_use(mc, p, step, &step->target, step->is_async);
    }
    if (step->statement->compute.operation == TL_GEMM) {
        for (int i = 0; i < step->read_count; i++) {
            if (step->reads[i].tile >= 0) p->registers[step->reads[i].tile].is_used = true;
        }
    }
    check_contraction(mc, step, origins);
    check_meeting(mc, step, origins);
    check_place(mc, p, step, origins[0]);
    if (!step->has_target) return MACHINE_MOVED;
    check_write(mc, p, step, tile);
    machine_register *r = &p->registers[tile];
    machine_origin origin = {0};
    for (int i = 0; i < step->read_count; i++) {
        merge_origin(mc, tile, &origin, step->reads[i].tile, origins[i]);
    }
    machine_origin before = r->origin;
    if (step->accumulates) {
        for (int k = 0; k < MODEL_AXES_MAX; k++) {
            if (origin.known[k]) r->origin.known[k] = true, r->origin.at[k] = origin.at[k];
        }
    } else {
        r->origin = origin;
    }
    ends_compute(mc, p, step, origins, &before, &r->origin);
    r->is_defined = true;
    if (!step->is_async || p->flight_count == MACHINE_QUEUE_MAX) return MACHINE_MOVED;
    if (opens) r->opened++;
    machine_flight *f = &p->flights[p->flight_count++];
    *f = (machine_flight){
        .step = step, .tile = tile, .generation = is_ring(mc, tile) ? r->opened - 1 : -1};
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        int at = f->source_count++;
        f->sources[at] = use->tile;
        f->source_generations[at] =
            use->cursor >= 0 ? p->waits[use->cursor] - 1 : meant(mc, p, use->tile);
    }
    return MACHINE_MOVED;
}

/* Products of an executor land in order: everything up to the last one into the tile. */
static bool land_products(machine_process *p, int tile, int generation) {
    int last = -1;
    for (int i = 0; i < p->flight_count; i++) {
        const machine_flight *f = &p->flights[i];
        if (f->tile == tile && (generation < 0 || f->generation == generation)) last = i;
    }
    if (last < 0) return false;
    int kept = 0;
    for (int i = 0; i < p->flight_count; i++) {
        bool lands = i <= last && p->flights[i].tile >= 0;
        if (!lands) p->flights[kept++] = p->flights[i];
    }
    p->flight_count = kept;
    return true;
}

static machine_outcome act_wait(machine *mc, machine_process *p, const model_step *step) {
    int cursor = step->what.cursor;
    switch (step->subject) {
    case SUBJECT_CHANNEL:
        if (cursor < 0) return MACHINE_MOVED;
        if (machine_landed(mc, step->what.tile) <= p->waits[cursor]) return MACHINE_BLOCKED;
        trace(mc, p, step, EVENT_WAIT, step->what.tile, cursor, p->waits[cursor]);
        p->waits[cursor]++;
        p->waited_at[cursor] = step->statement;
        return MACHINE_MOVED;
    case SUBJECT_REGISTER: {
        int tile = step->what.tile;
        machine_register *r = &p->registers[tile];
        bool ring = is_ring(mc, tile);
        bool landed = land_products(p, tile, ring ? r->waited : -1);
        if (ring && r->opened > r->waited) r->waited++;
        else if (!landed) {
            machine_report(mc, FAULT_NOTHING_IN_FLIGHT, step, tile, step->what.name);
        }
        return MACHINE_MOVED;
    }
    case SUBJECT_STORES: {
        int kept = 0, before = p->flight_count;
        for (int i = 0; i < p->flight_count; i++) {
            bool ends = p->flights[i].stores == step->stores;
            if (!ends) p->flights[kept++] = p->flights[i];
        }
        p->flight_count = kept;
        if (kept == before) {
            machine_report(mc, FAULT_NOTHING_IN_FLIGHT, step, -1, step->stores->name);
        }
        return MACHINE_MOVED;
    }
    case SUBJECT_TURN:
        if (p->has_turn[step->turn]) {
            machine_report(mc, FAULT_TURN_HELD, step, -1, mc->model->turns[step->turn].name);
            return MACHINE_MOVED;
        }
        if (mc->turn_holder[step->turn] != p->executor) return MACHINE_BLOCKED;
        p->has_turn[step->turn] = true;
        return MACHINE_MOVED;
    default: return MACHINE_MOVED;
    }
}

static void release_channel(machine *mc, machine_process *p, const model_step *step) {
    int cursor = step->what.cursor, tile = step->what.tile;
    if (cursor < 0 || p->waits[cursor] <= p->releases[cursor]) {
        machine_report(mc, FAULT_NOT_HELD, step, tile, step->what.name);
        return;
    }
    const machine_flight *flight = flight_reading(p, tile, p->releases[cursor]);
    if (flight) {
        events_finding *f = machine_report(mc, FAULT_RELEASE_READ, step, tile, step->what.name);
        if (f) f->other = flight->step->statement;
    }
    trace(mc, p, step, EVENT_RELEASE, tile, cursor, p->releases[cursor]);
    p->releases[cursor]++;
}

static void act_release(machine *mc, machine_process *p, const model_step *step) {
    if (step->subject == SUBJECT_CHANNEL) {
        release_channel(mc, p, step);
    } else if (step->subject == SUBJECT_REGISTER) {
        machine_register *r = &p->registers[step->what.tile];
        if (r->waited > r->released) r->released++;
        else machine_report(mc, FAULT_NOT_HELD, step, step->what.tile, step->what.name);
    } else if (step->subject == SUBJECT_TURN) {
        if (!p->has_turn[step->turn]) {
            machine_report(mc, FAULT_TURN_NOT_HELD, step, -1, mc->model->turns[step->turn].name);
            return;
        }
        p->has_turn[step->turn] = false;
        mc->turn_holder[step->turn] = (p->executor + 1) % mc->model->roles[p->role].processes;
    }
}

machine_outcome machine_act(machine *mc, machine_process *p, const model_step *step) {
    switch (step->kind) {
    case STEP_COPY: return act_copy(mc, p, step);
    case STEP_COMPUTE: return act_compute(mc, p, step);
    case STEP_RESHAPE:
        if (step->has_target) {
            read_use(mc, p, step, &step->target, false);
            check_write(mc, p, step, step->target.tile);
        }
        return MACHINE_MOVED;
    case STEP_WAIT: return act_wait(mc, p, step);
    case STEP_RELEASE: act_release(mc, p, step); return MACHINE_MOVED;
    default: return MACHINE_MOVED;
    }
}
