/* Does a product or a row reduction take all of its axis?
 *
 * Where a loop brings the axis block by block, the machine follows what it leaves out (coverage.c).
 * Elsewhere the tile itself has to hold the axis: one of the grid's blocks, or the first elements
 * of a longer axis, are a part. What a kernel spreads over its grid on purpose it says: it stores
 * under the grid's index alone, or adds into memory.
 */
#include "check/rules.h"

#include "tl/tl.h"

/* What brings a tile's part of an axis. */
typedef struct part {
    bool is_spread; /* a loop, data, or the grid in a way that the stores follow */
    bool is_masked; /* a Mask goes by the axis: what it takes out need not be there */
} part;

typedef struct whole {
    const model *m;
    arena *memory;
    diag_list *diags;
    part (*parts)[MODEL_AXES_MAX]; /* by tile */
    bool *is_stored_index;         /* by tl_symbol.position: as an index of a store */
    bool adds_to_memory, has_changed, is_right;
} whole;

/* --- what the grid's indices are for ---------------------------------------------------------- */

static bool mark_grid(void *context, const tl_expr *e) {
    bool *marks = context;
    bool is_grid = e->symbol && e->symbol->kind == TL_SYMBOL_GRID;
    if (is_grid) marks[e->symbol->position] = true;
    return true;
}

static void read_places(whole *w, const model_step *step) {
    const tl_place *place = &step->statement->copy.place;
    for (int i = 0; i < place->count; i++) {
        const tl_spot *spot = &place->items[i];
        if (spot->is_all || !spot->at) continue;
        if (!spot->is_block && step->stores)
            model_visit_lets(w->m, spot->at, false, mark_grid, w->is_stored_index);
    }
    w->adds_to_memory |= step->stores && step->accumulates;
}

/* --- what brings each axis -------------------------------------------------------------------- */

static bool find_spread(void *context, const tl_expr *e) {
    const whole *w = ((void **)context)[0];
    part *p = ((void **)context)[1];
    const tl_symbol *s = e->symbol;
    if (e->kind == TL_ELEMENT || e->kind == TL_CALL) p->is_spread = true;
    if (s && s->kind == TL_SYMBOL_LOOP) p->is_spread = true;
    if (!s || s->kind != TL_SYMBOL_GRID) return true;
    bool is_plain = w->m->is_block_index[s->position] && !w->is_stored_index[s->position];
    p->is_spread |= !is_plain || w->adds_to_memory;
    return true;
}

static void join(whole *w, part *into, part from) {
    part before = *into;
    into->is_spread |= from.is_spread;
    into->is_masked |= from.is_masked;
    w->has_changed |= before.is_spread != into->is_spread || before.is_masked != into->is_masked;
}

static bool finds_no_name(void *context, const tl_expr *e) {
    const str *name = context;
    return !(e->kind == TL_NAME && str_equal(e->text, *name));
}

static void follow(whole *w, const model_step *step) {
    bool moves = step->kind == STEP_COPY || step->kind == STEP_COMPUTE;
    if (!moves || !step->has_target) return;
    const model_tile *target = &w->m->tiles[step->target.tile];
    for (int k = 0; k < target->axis_count; k++) {
        part *into = &w->parts[step->target.tile][k];
        if (step->kind == STEP_COPY && step->loads) {
            part loaded = {.is_spread = !step->origin_known[k]};
            void *context[2] = {w, &loaded};
            if (step->origins[k])
                model_visit_lets(w->m, step->origins[k]->at, true, find_spread, context);
            join(w, into, loaded);
        }
        for (int i = 0; i < step->read_count; i++) {
            int axis = model_axis_of(&w->m->tiles[step->reads[i].tile], target->axes[k].id);
            if (axis >= 0) join(w, into, w->parts[step->reads[i].tile][axis]);
        }
        const tl_expr *condition =
            step->kind == STEP_COMPUTE ? step->statement->compute.condition : NULL;
        str name = target->axes[k].name;
        if (condition && !tl_visit(condition, finds_no_name, &name))
            join(w, into, (part){.is_masked = true});
    }
}

/* --- judging ---------------------------------------------------------------------------------- */

typedef struct longer {
    const tl_symbol *symbol;
    int64_t value;
} longer;

static bool look_up(void *context, const tl_expr *e, tl_value *value) {
    const longer *l = context;
    if (e->kind != TL_NAME || e->symbol != l->symbol) return false;
    *value = (tl_value){.integer = l->value};
    return true;
}

/* Can the axis be longer than so many elements? A launch condition may forbid it. */
static bool may_exceed(const whole *w, const tl_expr *length, int64_t elements) {
    int64_t known;
    if (tl_known_integer(length, &known)) return known > elements;
    if (length->kind != TL_NAME || !length->symbol) return true;
    longer l = {length->symbol, elements + 1};
    for (const tl_statement *s = w->m->kernel->body.first; s; s = s->next) {
        bool is_parameter = s->kind == TL_INPUT || s->kind == TL_OUTPUT;
        tl_value holds;
        bool is_known = is_parameter && s->parameter.condition &&
                        tl_evaluate(s->parameter.condition, look_up, &l, &holds);
        if (is_known && !(holds.is_real ? holds.real != 0 : holds.integer != 0)) return false;
    }
    return true;
}

static void judge_use(whole *w, const model_step *step, const model_use *use, int axis_id) {
    const model_tile *tile = &w->m->tiles[use->tile];
    int k = model_axis_of(tile, axis_id);
    if (k < 0 || !tile->axes[k].extent || w->parts[use->tile][k].is_spread ||
        w->parts[use->tile][k].is_masked)
        return;
    const tl_symbol *index = w->m->axis_symbols[axis_id];
    int64_t elements = tile->axes[k].extent;
    if (!index || !index->extent || !may_exceed(w, index->extent, elements)) return;
    diag_report(w->diags, DIAG_TAKEN_IN_PART, use->range.end ? use->range : step->statement->range,
                tile->axes[k].name, use->name, str_format(w->memory, "%lld", (long long)elements),
                tl_expr_text(w->memory, index->extent));
    w->is_right = false;
}

static void judge_step(whole *w, const model_step *step) {
    if (step->kind != STEP_COMPUTE || !step->read_count || !w->is_right) return;
    const tl_compute *c = &step->statement->compute;
    if (c->operation == TL_GEMM) {
        bool is_spread = false;
        for (int i = 0; i < step->read_count && step->contracted >= 0; i++) {
            int k = model_axis_of(&w->m->tiles[step->reads[i].tile], step->contracted);
            is_spread |= k >= 0 && w->parts[step->reads[i].tile][k].is_spread;
        }
        if (!is_spread && step->contracted >= 0)
            judge_use(w, step, &step->reads[0], step->contracted);
    } else if (tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION) {
        const model_tile *tile = &w->m->tiles[step->reads[0].tile];
        int axis = c->operands[0].is_transposed ? 0 : tile->axis_count - 1;
        if (axis >= 0 && tile->axes[axis].id >= 0)
            judge_use(w, step, &step->reads[0], tile->axes[axis].id);
    }
}

static void each_step(whole *w, void (*visit)(whole *w, const model_step *step)) {
    for (int r = 0; r < w->m->role_count; r++) {
        for (int i = 0; i < w->m->roles[r].step_count; i++) visit(w, &w->m->roles[r].steps[i]);
    }
}

static void read_copy(whole *w, const model_step *step) {
    if (step->kind == STEP_COPY) read_places(w, step);
}

bool rules_whole(const model *m, arena *memory, diag_list *diags) {
    whole w = {.m = m, .memory = memory, .diags = diags, .is_right = true};
    w.parts = arena_alloc_array(memory, (size_t)m->tile_count + 1, sizeof *w.parts, _Alignof(part));
    w.is_stored_index = arena_array(memory, bool, m->kernel->symbol_count + 1);
    each_step(&w, read_copy);
    do {
        w.has_changed = false;
        each_step(&w, follow);
    } while (w.has_changed);
    each_step(&w, judge_step);
    return w.is_right;
}
