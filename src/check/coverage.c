/* Do the loops cover their axes? What a run's copies brought, against the length of each axis. */
#include "check/machine.h"

typedef struct loop_search {
    const model *model;
    bool has_loop, has_free_grid;
} loop_search;

static bool search(void *context, const tl_expr *e) {
    loop_search *s = context;
    const tl_symbol *symbol = e->symbol;
    if (!symbol) return true;
    if (symbol->kind == TL_SYMBOL_LOOP) s->has_loop = true;
    if (symbol->kind == TL_SYMBOL_GRID)
        s->has_free_grid |= !s->model->is_block_index[symbol->position];
    return true;
}

/* Which axes of which tiles are walked by a loop, and by one that need not share the axis with
 * other blocks of the grid? What is walked on its way through registers is walked after them.
 */
static void find_walked(machine *mc) {
    const model *m = mc->model;
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind != STEP_COPY || !step->has_target) continue;
            int tile = step->target.tile;
            for (int k = 0; k < m->tiles[tile].axis_count; k++) {
                if (step->loads && step->origins[k]) {
                    loop_search s = {.model = m};
                    model_visit_lets(m, step->origins[k]->at, true, search, &s);
                    mc->is_walked[tile][k] |= s.has_loop && !s.has_free_grid;
                    mc->is_shared_walk[tile][k] |= s.has_free_grid;
                }
                if (!step->read_count) continue;
                int from = step->reads[0].tile;
                int axis = model_axis_of(&m->tiles[from], m->tiles[tile].axes[k].id);
                if (axis < 0) continue;
                mc->is_walked[tile][k] |= mc->is_walked[from][axis];
                mc->is_shared_walk[tile][k] |= mc->is_shared_walk[from][axis];
            }
        }
    }
}

/* Where the masked tile lies along its other axes: as the coordinate says, for the tile itself may
 * be gone when its block has ended.
 */
static machine_origin mask_origin(machine *mc, machine_process *p, const model_step *step) {
    const tl_place *place = &step->statement->compute.place;
    machine_origin origin = {.walked = ends_walked(p, place)};
    const model_tile *tile = &mc->model->tiles[step->reads[0].tile];
    for (int k = 0; k < tile->axis_count && k < place->count; k++) {
        const tl_spot *spot = &place->items[k];
        if (spot->is_all || !extents_integer(p->values, spot->at, &origin.at[k])) continue;
        if (spot->is_block) origin.at[k] *= tile->axes[k].extent;
        origin.known[k] = true;
    }
    return origin;
}

/* Does some Mask take [begin, end) of the axis out, for the rows that this block has? */
static bool is_masked(machine *mc, int axis_id, int64_t begin, int64_t end) {
    for (int i = 0; i < mc->masks.count; i++) {
        const model_step *step = mc->masks.items[i].step;
        int tile = step->reads[0].tile, axis = model_axis_of(&mc->model->tiles[tile], axis_id);
        if (axis < 0) continue;
        machine_process *p = &mc->processes[mc->sync->first[mc->masks.items[i].role]];
        machine_origin origin = mask_origin(mc, p, step);
        if (ends_masked(mc, p, step, &origin, axis, begin, end)) return true;
    }
    return false;
}

/* The first element at or after 'from' that no generation holds, and how far that gap goes. */
static int64_t next_gap(const machine_contents *channel, int axis, int64_t extent, int64_t length,
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

/* Where one axis has no elements, no element of the others is left out: those of the tile, and
 * those of the tensor from which single indices choose.
 */
static bool is_empty(machine *mc, machine_process *p, int tile, const model_step *loader) {
    int64_t length;
    machine_origin here = {.walked = p->values->tile};
    for (int k = 0; k < mc->model->tiles[tile].axis_count; k++)
        if (ends_length(mc, &here, tile, k, &length) && length <= 0) return true;
    const tl_copy *c = &loader->statement->copy;
    const tl_symbol *tensor =
        c->from == TL_GLOBAL ? c->what->symbol : mc->model->tiles[tile].symbol;
    const tl_axes *axes = tensor ? tensor->axes : NULL;
    for (int i = 0; axes && i < axes->count; i++)
        if (extents_integer(p->values, axes->items[i].extent, &length) && length <= 0) return true;
    return false;
}

static void judge_axis(machine *mc, int tile, int axis) {
    enum { GENERATIONS_MAX = 256 };
    const model_tile *t = &mc->model->tiles[tile];
    machine_contents *channel = &mc->contents[tile];
    machine_process *p = &mc->processes[0];
    int64_t length, end = 0;
    const model_step *loader = mc->loaders[tile];
    machine_origin here = {.walked = p->values->tile};
    if (!loader || channel->generations.count > GENERATIONS_MAX ||
        !ends_length(mc, &here, tile, axis, &length) || is_empty(mc, p, tile, loader))
        return;
    for (int g = 0; g < channel->generations.count; g++) {
        if (!channel->generations.items[g].origin.known[axis]) return;
    }
    for (int64_t at = 0; at < length; at = end) {
        at = next_gap(channel, axis, t->axes[axis].extent, length, at, &end);
        if (at >= length || is_masked(mc, t->axes[axis].id, at, end)) continue;
        events_finding *f = machine_report(mc, FAULT_NOT_COVERED, loader->statement, -1, t->name);
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
            if (tile->axes[k].id >= 0 && tile->axes[k].extent && mc->is_walked[t][k] &&
                !mc->is_shared_walk[t][k]) {
                judge_axis(mc, t, k);
            }
        }
    }
}

void coverage_prepare(machine *mc) {
    const model *m = mc->model;
    size_t tiles = (size_t)m->tile_count + 1;
    mc->is_walked = arena_alloc_array(mc->memory, tiles, sizeof *mc->is_walked, _Alignof(bool));
    mc->is_shared_walk =
        arena_alloc_array(mc->memory, tiles, sizeof *mc->is_walked, _Alignof(bool));
    mc->loaders = arena_array(mc->memory, const model_step *, tiles);
    for (int r = 0; r < m->role_count; r++) {
        for (int i = 0; i < m->roles[r].step_count; i++) {
            const model_step *step = &m->roles[r].steps[i];
            if (step->kind == STEP_COPY) {
                if (step->has_target && step->depth > 0) mc->loaders[step->target.tile] = step;
            }
            bool masks = step->kind == STEP_COMPUTE && step->read_count &&
                         step->statement->compute.operation == TL_MASK;
            machine_mask mask = {step, r};
            if (masks) list_push(mc->memory, &mc->masks, mask);
        }
    }
    find_walked(mc);
    find_walked(mc); /* a Copy out of registers may stand above the one into them */
}
