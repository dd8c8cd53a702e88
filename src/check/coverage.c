/* Do the loops cover their axes? What a run's copies brought, against the length of each axis. */
#include "check/machine.h"

typedef struct loop_search {
    const model *model;
    bool has_loop, has_free_grid;
    int depth;
} loop_search;

static bool is_block_index(const model *m, const tl_symbol *symbol) {
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind != STEP_COPY) continue;
            const tl_place *place = &step->statement->copy.place;
            for (int k = 0; k < place->count; k++) {
                const tl_spot *spot = &place->items[k];
                if (spot->is_block && spot->at && spot->at->symbol == symbol) return true;
            }
        }
    }
    return false;
}

static bool search(void *context, const tl_expr *e) {
    enum { LETS_DEEP = 48 };
    loop_search *s = context;
    const tl_symbol *symbol = e->symbol;
    if (!symbol) return true;
    if (symbol->kind == TL_SYMBOL_GRID && !is_block_index(s->model, symbol)) s->has_free_grid = true;
    bool follows = s->depth < LETS_DEEP;
    if (symbol->kind == TL_SYMBOL_LOOP) {
        s->has_loop = true;
        const tl_statement *loop = symbol->statement;
        if (loop && loop->kind == TL_FOR && follows) {
            s->depth++;
            model_visit(loop->loop.from, search, s);
            model_visit(loop->loop.to, search, s);
            s->depth--;
        }
    }
    if (symbol->kind == TL_SYMBOL_CONSTANT && !symbol->is_known && follows) {
        s->depth++;
        model_visit(symbol->value, search, s);
        s->depth--;
    }
    return true;
}

/* Is the axis of this tile walked by a loop, and by one that need not share the axis with other
 * blocks of the grid?
 */
static bool is_walked(const model *m, int tile, int axis) {
    loop_search s = {.model = m};
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind != STEP_COPY || !step->loads || !step->has_target) continue;
            if (step->target.tile != tile || !step->origins[axis]) continue;
            model_visit(step->origins[axis]->at, search, &s);
        }
    }
    return s.has_loop && !s.has_free_grid;
}

/* The same through registers: a Copy into them, and one on into the tile. */
static bool is_walked_through(const model *m, int tile, int axis) {
    if (is_walked(m, tile, axis)) return true;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            bool passes = step->kind == STEP_COPY && step->has_target && step->target.tile == tile &&
                          step->read_count > 0;
            if (!passes) continue;
            int from = step->reads[0].tile;
            int k = model_axis_of(&m->tiles[from], m->tiles[tile].axes[axis].id);
            if (k >= 0 && is_walked(m, from, k)) return true;
        }
    }
    return false;
}

static const machine_process *process_of_step(const machine *mc, int role) {
    return &mc->processes[mc->model->roles[role].first_process];
}

/* Where the masked tile lies along its other axes: as the coordinate says, for the tile itself may be
 * gone when its block has ended.
 */
static machine_origin mask_origin(machine *mc, machine_process *p, const model_step *step) {
    machine_origin origin = {0};
    const tl_place *place = &step->statement->compute.place;
    const model_tile *tile = &mc->model->tiles[step->reads[0].tile];
    for (int k = 0; k < tile->axis_count && k < place->count; k++) {
        const tl_spot *spot = &place->items[k];
        if (spot->is_all || !extents_integer(&p->values, spot->at, &origin.at[k])) continue;
        if (spot->is_block) origin.at[k] *= tile->axes[k].extent;
        origin.known[k] = true;
    }
    return origin;
}

/* Does some Mask take [begin, end) of the axis out, for the rows that this block has? */
static bool is_masked(machine *mc, int axis_id, int64_t begin, int64_t end) {
    for (int r = 0; r < mc->model->role_count; r++) {
        for (int i = 0; i < mc->model->roles[r].step_count; i++) {
            const model_step *step = &mc->model->roles[r].steps[i];
            bool masks = step->kind == STEP_COMPUTE && step->read_count &&
                         step->statement->compute.operation == TL_MASK;
            if (!masks) continue;
            int tile = step->reads[0].tile, axis = model_axis_of(&mc->model->tiles[tile], axis_id);
            if (axis < 0) continue;
            machine_process *p = (machine_process *)process_of_step(mc, r);
            machine_origin origin = mask_origin(mc, p, step);
            if (ends_masked(mc, p, step, &origin, axis, begin, end)) return true;
        }
    }
    return false;
}

/* The first element at or behind 'from' that no generation holds, and how far that gap goes. */
static int64_t next_gap(const machine_channel *channel, int axis, int64_t extent, int64_t length,
                        int64_t from, int64_t *end) {
    bool moved = true;
    while (moved && from < length) {
        moved = false;
        for (int g = 0; g < channel->generations.count; g++) {
            int64_t at = channel->generations.items[g].origin.at[axis];
            if (at <= from && from < at + extent) from = at + extent, moved = true;
        }
    }
    *end = length;
    for (int g = 0; g < channel->generations.count; g++) {
        int64_t at = channel->generations.items[g].origin.at[axis];
        if (at > from && at < *end) *end = at;
    }
    return from;
}

static const model_step *loader_of(const model *m, int tile) {
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            bool brings = step->kind == STEP_COPY && step->has_target && step->target.tile == tile;
            if (brings && step->depth > 0) return step;
        }
    }
    return NULL;
}

static void judge_axis(machine *mc, int tile, int axis) {
    const model_tile *t = &mc->model->tiles[tile];
    machine_channel *channel = &mc->channels[tile];
    machine_process *p = &mc->processes[0];
    int64_t length, end = 0;
    const model_step *loader = loader_of(mc->model, tile);
    if (!loader || !ends_length(mc, p, tile, axis, &length)) return;
    for (int g = 0; g < channel->generations.count; g++) {
        if (!channel->generations.items[g].origin.known[axis]) return;
    }
    for (int64_t at = 0; at < length; at = end) {
        at = next_gap(channel, axis, t->axes[axis].extent, length, at, &end);
        if (at >= length || is_masked(mc, t->axes[axis].id, at, end)) continue;
        events_finding *f = machine_report(mc, FAULT_NOT_COVERED, loader, -1, t->name);
        if (!f) return;
        f->axis = t->axes[axis].name;
        f->found = at;
        f->expected = end - 1;
        f->length = length;
        f->extent = mc->model->axis_symbols[t->axes[axis].id]->extent;
        return;
    }
}

void coverage_judge(machine *mc) {
    for (int t = 0; t < mc->model->tile_count; t++) {
        const model_tile *tile = &mc->model->tiles[t];
        if (tile->space != TL_SHARED) continue;
        for (int k = 0; k < tile->axis_count; k++) {
            if (tile->axes[k].id >= 0 && tile->axes[k].extent && mc->is_walked[t][k]) {
                judge_axis(mc, t, k);
            }
        }
    }
}

void coverage_prepare(machine *mc) {
    mc->is_walked = arena_alloc_array(mc->memory, (size_t)mc->model->tile_count + 1,
                                      sizeof *mc->is_walked, _Alignof(bool));
    for (int t = 0; t < mc->model->tile_count; t++) {
        for (int k = 0; k < mc->model->tiles[t].axis_count; k++) {
            mc->is_walked[t][k] = is_walked_through(mc->model, t, k);
        }
    }
}
