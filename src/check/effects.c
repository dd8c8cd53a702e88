#include "check/machine.h"

#include <string.h>

/* --- channels --------------------------------------------------------------------------------- */

/* What the generation holds is the first executor's to say. */
static machine_outcome fill(machine *mc, machine_process *p, const model_step *step,
                            const machine_origin *origin) {
    int tile = step->target.tile;
    if (mc->model->tiles[tile].role != p->sync->role) {
        machine_report(mc, FAULT_TWO_FILLERS, step->statement, tile, mc->model->tiles[tile].name);
        return MACHINE_MOVED;
    }
    machine_contents *channel = &mc->contents[tile];
    int64_t generation = p->sync->fills[tile]++;
    p->counts.fills++;
    if (generation == channel->generations.count)
        list_push(mc->memory, &channel->generations, ((machine_generation){.by = step->statement}));
    if (!p->sync->executor) channel->generations.items[generation].origin = *origin;
    machine_trace(mc, p, EVENT_FILL, tile, -1, generation);
    return MACHINE_MOVED;
}

/* --- reading and writing ---------------------------------------------------------------------- */

/* Which rule an answer of the machine of channels breaks when it is asked for a read or a write. */
static events_fault fault_of(channels_answer answer, bool writes) {
    switch (answer.fault) {
    case CHANNELS_NOT_WAITED: return FAULT_NOT_WAITED;
    case CHANNELS_WRITTEN_IN_FLIGHT: return writes ? FAULT_WRITE_IN_FLIGHT : FAULT_READ_IN_FLIGHT;
    default: return FAULT_OPERAND_WRITTEN;
    }
}

/* Reports what 'answer' says of a use; false when it says nothing. */
static bool report_use(machine *mc, const model_step *step, const model_use *use,
                       channels_answer answer, bool writes) {
    if (answer.fault == CHANNELS_OK) return false;
    str name = writes ? mc->model->tiles[use->tile].name : use->name;
    events_finding *f =
        machine_report(mc, fault_of(answer, writes), step->statement, use->tile, name);
    if (!f) return true;
    f->range = use->range;
    f->by_view = mc->model->tiles[use->tile].space == TL_SHARED && use->cursor < 0;
    if (answer.flight) f->other = answer.flight->statement;
    return true;
}

/* Where the data of a use came from; NULL when it must not be read now (reported). */
static const machine_origin *read_use(machine *mc, machine_process *p, const model_step *step,
                                      const model_use *use, bool joins_queue) {
    channels_answer answer = {0};
    if (!channels_is_idle(mc->sync, p->sync, use->tile)) {
        answer = channels_read(mc->sync, p->sync, use->tile, use->cursor, joins_queue);
        if (report_use(mc, step, use, answer, false)) return NULL;
    }
    if (mc->model->tiles[use->tile].space == TL_SHARED)
        return &mc->contents[use->tile].generations.items[answer.generation].origin;
    machine_register *r = &p->registers[use->tile];
    if (r->is_defined) return &r->origin;
    events_finding *f = machine_report(mc, FAULT_UNDEFINED, step->statement, use->tile, use->name);
    if (f) f->range = use->range;
    return NULL;
}

/* May the register tile be written now? */
static void check_write(machine *mc, machine_process *p, const model_step *step) {
    const model_use *use = &step->target;
    if (channels_is_idle(mc->sync, p->sync, use->tile)) return;
    const model_tile *t = &mc->model->tiles[use->tile];
    bool joins_queue = step->is_async && step->kind == STEP_COMPUTE && step->accumulates;
    if (t->is_value_ring && tl_writes_afresh(step->statement, t->symbol))
        report_use(mc, step, use, channels_open_value(mc->sync, p->sync, use->tile), true);
    if (step->opens) return;
    report_use(mc, step, use, channels_write(mc->sync, p->sync, use->tile, joins_queue), true);
}

/* A product or store is under way from here on; a product into 'tile'. */
static void launch(machine *mc, machine_process *p, const model_step *step, int tile,
                   int64_t generation) {
    channels_flight f = {.statement = step->statement, .tile = tile, .generation = generation};
    if (tile < 0) f.stores = step->stores;
    for (int i = 0; i < step->read_count; i++) {
        const model_use *use = &step->reads[i];
        int64_t read = use->cursor >= 0 ? p->sync->waits[use->cursor] - 1
                                        : channels_meant(mc->sync, p->sync, use->tile);
        f.sources[f.source_count++] = (channels_source){use->tile, read};
    }
    channels_launch(mc->sync, p->sync, f);
}

static void merge_origin(const machine *mc, const model_step *step, const model_use *use,
                         machine_origin *into, const machine_origin *origin) {
    int axis_count = mc->model->tiles[step->target.tile].axis_count;
    for (int k = 0; origin && k < axis_count; k++) {
        int i = use->axes[k];
        if (i < 0 || !origin->known[i] || into->known[k]) continue;
        into->known[k] = true;
        into->walked = origin->walked;
        into->at[k] = origin->at[i];
    }
}

/* --- the actions ------------------------------------------------------------------------------ */

static machine_origin origin_of_load(machine *mc, machine_process *p, const model_step *step) {
    machine_origin origin = {.walked = ends_walked(p, &step->statement->copy.place)};
    const model_tile *tile = &mc->model->tiles[step->target.tile];
    for (int k = 0; k < tile->axis_count; k++) {
        const tl_spot *spot = step->origins[k];
        int64_t at = 0;
        if (!step->origin_known[k]) continue;
        if (spot && !extents_integer(p->values, spot->at, &at)) continue;
        if (spot && spot->is_block && !tile->axes[k].extent) continue;
        origin.known[k] = true;
        origin.at[k] = spot && spot->is_block ? at * tile->axes[k].extent : at;
    }
    origin.held = ends_load(mc, p, step, origin.known);
    return origin;
}

/* Past the end a Copy is clipped; before the beginning nothing is. */
static void check_beginning(machine *mc, machine_process *p, const model_step *step) {
    const tl_symbol *tensor = step->loads ? step->loads : step->stores;
    const tl_place *place = &step->statement->copy.place;
    for (int k = 0; tensor && k < place->count && k < tensor->axes->count; k++) {
        int64_t at;
        if (place->items[k].is_all || !extents_integer(p->values, place->items[k].at, &at))
            continue;
        if (at >= 0) continue;
        events_finding *f = machine_report(mc, FAULT_BEFORE, step->statement, -1, tensor->name);
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
    if (to_channel && mc->model->tiles[step->target.tile].role == p->sync->role &&
        !channels_may_fill(mc->sync, p->sync, step->target.tile, &holder)) {
        return MACHINE_BLOCKED;
    }
    if (p->sync->executor) return fill(mc, p, step, &origin);
    for (int i = 0; i < step->read_count; i++) {
        const machine_origin *from = read_use(mc, p, step, &step->reads[i], false);
        if (i == 0 && step->has_target) {
            merge_origin(mc, step, &step->reads[i], &origin, from);
            if (from) origin.held = ends_copy(mc, p, step, from->held);
        }
    }
    check_beginning(mc, p, step);
    if (step->loads && step->has_target) origin = origin_of_load(mc, p, step);
    if (to_channel) return fill(mc, p, step, &origin);
    if (step->has_target) {
        check_write(mc, p, step);
        machine_register *r = &p->registers[step->target.tile];
        r->is_defined = true;
        r->origin = origin;
    }
    if (step->stores && step->is_async) launch(mc, p, step, -1, 0);
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
    events_finding *f =
        machine_report(mc, FAULT_CONTRACTED, step->statement, -1, step->reads[0].name);
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
            events_finding *f =
                machine_report(mc, FAULT_MEETING, step->statement, -1, step->reads[0].name);
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
        if (!origin->known[k] || (spot && !extents_integer(p->values, spot->at, &at))) continue;
        if (spot && spot->is_block) at *= tile->axes[k].extent;
        if (at == origin->at[k]) continue;
        events_finding *f =
            machine_report(mc, FAULT_PLACE, step->statement, -1, step->reads[0].name);
        if (!f) return;
        f->range = place->range;
        f->axis = tile->axes[k].name;
        f->expected = origin->at[k];
        f->found = at;
        return;
    }
}

/* What a Compute makes of its operands. */
static void write_origin(machine *mc, machine_process *p, const model_step *step,
                         const machine_origin **origins) {
    machine_register *r = &p->registers[step->target.tile];
    machine_origin origin = {0}, before = r->origin;
    for (int i = 0; i < step->read_count; i++) {
        merge_origin(mc, step, &step->reads[i], &origin, origins[i]);
        if (origins[i] == &r->origin) origins[i] = &before; /* it is written over */
    }
    if (step->accumulates) {
        for (int k = 0; k < MODEL_AXES_MAX; k++) {
            if (origin.known[k])
                r->origin.known[k] = true, r->origin.at[k] = origin.at[k],
                r->origin.walked = origin.walked;
        }
    } else {
        r->origin = origin;
    }
    r->origin.held = ends_compute(mc, p, step, origins, before.held);
    r->is_defined = true;
}

static machine_outcome act_compute(machine *mc, machine_process *p, const model_step *step) {
    const machine_origin *origins[MODEL_READS_MAX];
    int tile = step->target.tile;
    if (step->opens && !channels_may_open(mc->sync, p->sync, tile)) return MACHINE_BLOCKED;
    origins[0] = NULL;
    for (int i = 0; i < step->read_count; i++) {
        origins[i] = read_use(mc, p, step, &step->reads[i], false);
    }
    if (step->accumulates && step->has_target) {
        read_use(mc, p, step, &step->target, step->is_async);
    }
    if (step->statement->compute.operation == TL_GEMM) {
        for (int i = 0; i < step->read_count; i++) {
            channels_use(p->sync, step->reads[i].tile);
        }
    }
    check_contraction(mc, step, origins);
    check_meeting(mc, step, origins);
    check_place(mc, p, step, origins[0]);
    if (!step->has_target) return MACHINE_MOVED;
    check_write(mc, p, step);
    write_origin(mc, p, step, origins);
    if (!step->is_async) return MACHINE_MOVED;
    int64_t generation =
        step->opens ? p->sync->rings[tile].opened++ : channels_meant(mc->sync, p->sync, tile);
    launch(mc, p, step, tile, generation);
    return MACHINE_MOVED;
}

/* What a Wait or Release came to, reported where it broke a rule. */
static machine_outcome synced(machine *mc, const model_step *step, channels_answer answer, int tile,
                              str name) {
    bool is_turn = step->subject == SUBJECT_TURN;
    events_fault fault;
    switch (answer.fault) {
    case CHANNELS_OK: return MACHINE_MOVED;
    case CHANNELS_BLOCKED: return MACHINE_BLOCKED;
    case CHANNELS_HELD_ALREADY: fault = FAULT_TURN_HELD; break;
    case CHANNELS_NOT_HELD: fault = is_turn ? FAULT_TURN_NOT_HELD : FAULT_NOT_HELD; break;
    case CHANNELS_READ_IN_FLIGHT: fault = FAULT_RELEASE_READ; break;
    default: fault = FAULT_NOTHING_IN_FLIGHT; break;
    }
    events_finding *f = machine_report(mc, fault, step->statement, tile, name);
    if (f && answer.flight) f->other = answer.flight->statement;
    return MACHINE_MOVED;
}

static machine_outcome act_wait(machine *mc, machine_process *p, const model_step *step) {
    int cursor = step->what.cursor, tile = step->what.tile;
    channels_answer answer;
    switch (step->subject) {
    case SUBJECT_CHANNEL:
        if (cursor < 0) return MACHINE_MOVED;
        answer = channels_wait(mc->sync, p->sync, tile, cursor);
        if (answer.fault == CHANNELS_BLOCKED) return MACHINE_BLOCKED;
        machine_trace(mc, p, EVENT_WAIT, tile, cursor, answer.generation);
        p->waited_at[cursor] = step->statement;
        p->counts.waits++;
        return MACHINE_MOVED;
    case SUBJECT_REGISTER:
        return synced(mc, step, channels_wait(mc->sync, p->sync, tile, cursor), tile,
                      step->what.name);
    case SUBJECT_STORES:
        return synced(mc, step, channels_wait_stores(p->sync, step->stores), -1,
                      step->stores->name);
    case SUBJECT_TURN:
        return synced(mc, step, channels_wait_turn(mc->sync, p->sync, step->turn), -1,
                      mc->model->turns[step->turn].name);
    default: return MACHINE_MOVED;
    }
}

static void act_release(machine *mc, machine_process *p, const model_step *step) {
    int cursor = step->what.cursor, tile = step->what.tile;
    if (step->subject == SUBJECT_CHANNEL || step->subject == SUBJECT_REGISTER) {
        channels_answer answer = channels_release(mc->sync, p->sync, tile, cursor);
        bool is_gone = answer.fault == CHANNELS_OK || answer.fault == CHANNELS_READ_IN_FLIGHT;
        synced(mc, step, answer, tile, step->what.name);
        if (is_gone && step->subject == SUBJECT_CHANNEL) {
            p->counts.releases++;
            machine_trace(mc, p, EVENT_RELEASE, tile, cursor, answer.generation);
        }
    } else if (step->subject == SUBJECT_TURN) {
        synced(mc, step, channels_release_turn(mc->sync, p->sync, step->turn), -1,
               mc->model->turns[step->turn].name);
    }
}

machine_outcome machine_act(machine *mc, machine_process *p, const model_step *step) {
    switch (step->kind) {
    case STEP_COPY: return act_copy(mc, p, step);
    case STEP_COMPUTE: return act_compute(mc, p, step);
    case STEP_RESHAPE:
        if (step->has_target) {
            read_use(mc, p, step, &step->target, false);
            check_write(mc, p, step);
        }
        return MACHINE_MOVED;
    case STEP_WAIT: return act_wait(mc, p, step);
    case STEP_RELEASE: act_release(mc, p, step); return MACHINE_MOVED;
    default: return MACHINE_MOVED;
    }
}
