/* Sketches, literally: one tile of the outputs after the other, statement by statement. */
#include "interpret/sketch.h"
#include "interpret/grid.h"

#include <math.h>
#include <string.h>

/* --- Compute ---------------------------------------------------------------------------------- */

static void shape_like(sketch *k, tile *t, const tile *like, bool turned) {
    int64_t count[MACHINE_AXES_MAX];
    str index[MACHINE_AXES_MAX];
    for (int i = 0; i < like->axis_count; i++) {
        int from = turned ? like->axis_count - 1 - i : i;
        count[i] = like->count[from];
        index[i] = like->index[from];
    }
    tile_shape(k->m, t, like->axis_count, count, index);
    for (int i = 0; i < like->axis_count; i++) {
        int from = turned ? like->axis_count - 1 - i : i;
        t->start[i] = like->start[from];
        t->has_start[i] = like->has_start[from];
    }
}

static void take_axis(tile *t, int to, const tile *from, int axis) {
    t->start[to] = from->start[axis];
    t->has_start[to] = from->has_start[axis];
}

static bool shape_product(sketch *k, const tl_compute *c, tile *t, const tile **a, const tile **b) {
    *a = sketch_tile(&k->scope, c->operands[0].value, NULL);
    *b = *a ? sketch_tile(&k->scope, c->operands[1].value, NULL) : NULL;
    if (!*a || !*b) return false;
    bool ta = c->operands[0].is_transposed, tb = c->operands[1].is_transposed;
    int row = ta, column = !tb;
    if ((*a)->count[!ta] != (*b)->count[tb]) {
        machine_stop(k->m, DIAG_INTERPRET_COUNTS, c->operands[1].range, (*b)->index[tb],
                     str_format(k->m->memory, "%lld", (long long)(*b)->count[tb]),
                     str_format(k->m->memory, "%lld", (long long)(*a)->count[!ta]));
        return false;
    }
    int64_t count[2] = {(*a)->count[row], (*b)->count[column]};
    str index[2] = {(*a)->index[row], (*b)->index[column]};
    tile_shape(k->m, t, 2, count, index);
    take_axis(t, 0, *a, row);
    take_axis(t, 1, *b, column);
    return !k->m->has_failed;
}

static bool shape_reduction(sketch *k, const tl_compute *c, tile *t, const tile **from) {
    *from = sketch_tile(&k->scope, c->operands[0].value, NULL);
    if (!*from) return false;
    int kept = c->operands[0].is_transposed ? 1 : 0;
    tile_shape(k->m, t, 1, &(*from)->count[kept], &(*from)->index[kept]);
    take_axis(t, 0, *from, kept);
    return !k->m->has_failed;
}

static bool shape_elementwise(sketch *k, const tl_compute *c, tile *t) {
    const tile *widest = NULL;
    bool is_turned = false;
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *e = c->operands[i].value;
        if (e->kind != TL_NAME || !tl_tile_of(e)) continue;
        const tile *operand = sketch_tile(&k->scope, e, NULL);
        if (!operand) return false;
        if (widest && operand->axis_count <= widest->axis_count) continue;
        widest = operand;
        is_turned = c->operands[i].is_transposed;
    }
    if (!widest) return sketch_shape(k, t, tl_tile_of(c->target), c->target->range);
    shape_like(k, t, widest, is_turned);
    return !k->m->has_failed;
}

/* An accumulator starts at zero unless given a value; a maximum, below everything. */
static void start_accumulator(machine *m, const tl_compute *c, tile *fresh, const tile *old) {
    size_t count = (size_t)tile_size(fresh);
    if (old->is_defined) {
        memcpy(fresh->data, old->data, count * sizeof *fresh->data);
        tile_copy_errors(m, fresh, old);
        return;
    }
    for (size_t i = 0; i < count; i++) fresh->data[i] = tl_start(c->operation);
}

static bool same_shape(sketch *k, const tile *fresh, const tile *old, const tl_expr *name) {
    for (int i = 0; i < 2; i++) {
        if (fresh->count[i] == old->count[i]) continue;
        machine_stop(k->m, DIAG_INTERPRET_COUNTS, name->range,
                     fresh->index[i < fresh->axis_count ? i : 0],
                     str_format(k->m->memory, "%lld", (long long)old->count[i]),
                     str_format(k->m->memory, "%lld", (long long)fresh->count[i]));
        return false;
    }
    return true;
}

static bool run_operation(sketch *k, const tl_statement *s, tile *fresh, const tile *old,
                          bool accumulates) {
    const tl_compute *c = &s->compute;
    const tile *a = NULL, *b = NULL;
    bool is_shaped = false;
    tl_shape_rule rule = tl_operation_shape(c->operation);
    if (rule == TL_SHAPE_PRODUCT) is_shaped = shape_product(k, c, fresh, &a, &b);
    else if (rule == TL_SHAPE_REDUCTION) is_shaped = shape_reduction(k, c, fresh, &a);
    else is_shaped = shape_elementwise(k, c, fresh);
    if (!is_shaped) return false;
    if (accumulates) {
        if (old->is_defined && !same_shape(k, fresh, old, c->target)) return false;
        start_accumulator(k->m, c, fresh, old);
    }
    tile_share share = tile_whole(fresh);
    if (rule == TL_SHAPE_PRODUCT) {
        return tile_product(&k->scope, fresh, &share, a, c->operands[0].is_transposed, b,
                            c->operands[1].is_transposed, accumulates);
    }
    if (rule == TL_SHAPE_REDUCTION) {
        return tile_reduce(&k->scope, c->operation, fresh, &share, a, c->operands[0].is_transposed,
                           accumulates);
    }
    return tile_elementwise(&k->scope, s, fresh, &share, accumulates);
}

/* Masks in place; `Mask S ... and get T` writes T. */
static bool mask(sketch *k, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tile *from = sketch_tile(&k->scope, c->operands[0].value, s);
    if (!from) return false;
    tile *to = sketch_own_tile(k, c->target ? c->target : c->operands[0].value);
    if (to != from) {
        shape_like(k, to, from, false);
        if (k->m->has_failed) return false;
        memcpy(to->data, from->data, (size_t)tile_size(from) * sizeof *to->data);
        tile_copy_errors(k->m, to, from);
        to->is_defined = true;
        to->writer = s;
    }
    tile_share share = tile_whole(to);
    return tile_mask(&k->scope, s, to, &share);
}

static bool sketch_compute(sketch *k, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    k->scope.at = s;
    if (c->operation == TL_MASK) return mask(k, s);
    if (c->operation == TL_SOFTMAX) return sketch_softmax_run(k, s);
    if (c->operation == TL_ROW_TOP_K) return sketch_top_run(k, s);
    tile *target = sketch_own_tile(k, c->target);
    tile fresh = k->tiles[k->m->kernel->symbol_count]; /* the spare one */
    bool accumulates = c->target_kind == TL_ACCUMULATE;
    fresh.format = sketch_format(k, c->target, TL_F32);
    if (!run_operation(k, s, &fresh, target, accumulates)) return false;
    fresh.is_defined = true;
    fresh.writer = s;
    k->tiles[k->m->kernel->symbol_count] = *target;
    *target = fresh;
    return true;
}

/* --- blocks and loops ------------------------------------------------------------------------- */

static bool run_block(sketch *k, tl_block *block);

static bool run_if(sketch *k, const tl_statement *s) {
    tl_value value;
    k->scope.at = s;
    if (!scope_value(&k->scope, s->branch.condition, &value)) return false;
    bool holds = value.is_real ? value.real != 0 : value.integer != 0;
    return !holds || run_block(k, (tl_block *)&s->branch.body);
}

static void enter_loop(sketch *k, const tl_statement *s) {
    for (int i = 0; i < k->m->kernel->symbol_count; i++) {
        if (k->zero_loops[i] == s) k->tiles[i].is_defined = false;
    }
}

/* An accumulator of a loop that never ran holds what it started with. */
static bool leave_loop(sketch *k, const tl_statement *s) {
    for (int i = 0; i < k->m->kernel->symbol_count; i++) {
        tile *t = &k->tiles[i];
        if (k->zero_loops[i] != s || t->is_defined) continue;
        const tl_symbol *symbol = k->m->kernel->symbols[i];
        if (!sketch_shape(k, t, &symbol->in_register, s->range)) return false;
        double start = k->starts[i];
        for (int64_t e = 0; e < tile_size(t); e++) t->data[e] = start;
        t->is_defined = true;
        t->writer = s;
    }
    return sketch_top_of_none(k, s);
}

/* In steps of one, the loop's value is that of the indices that it walks. */
static void set_indices(sketch *k, const tl_statement *s, const tl_walked *walked, int64_t value) {
    scope_set(&k->scope, s->loop.symbol, value);
    for (int i = 0; i < walked->count; i++) {
        const tl_symbol *index = tl_find_index(k->m->kernel, walked->names[i]);
        if (index) scope_set(&k->scope, index, value);
    }
}

bool sketch_loop_once(sketch *k, const tl_statement *s) {
    if (k->loop_count == SKETCH_LOOPS_MAX) return false;
    sketch_loop *loop = &k->loops[k->loop_count];
    *loop = (sketch_loop){.statement = s};
    const tl_expr *size;
    int64_t from, to, length;
    if (tl_loop_walks(s, &loop->length, &size) && size) {
        bool is_open = size->kind == TL_NAME && size->symbol &&
                       size->symbol->kind == TL_SYMBOL_OPEN &&
                       !k->m->has_launch_value[size->symbol->position];
        if (is_open) {
            /* Any size will do: the whole axis. */
            if (!scope_integer(&k->scope, loop->length, &length)) return false;
            scope_set(&k->scope, size->symbol, length > 0 ? length : 1);
        }
        if (!scope_integer(&k->scope, size, &loop->size)) return false;
    }
    if (!scope_integer(&k->scope, s->loop.from, &from)) return false;
    if (!scope_integer(&k->scope, s->loop.to, &to)) return false;
    enter_loop(k, s);
    tl_walked walked = {0};
    if (loop->length && !loop->size) walked = tl_loop_indices(k->m->kernel, s, loop->length);
    k->loop_count++;
    bool is_done = true;
    for (int64_t i = from; i < to && is_done; i++) {
        loop->value = i;
        set_indices(k, s, &walked, i);
        is_done = machine_step(k->m, s) && run_block(k, (tl_block *)&s->loop.body);
    }
    k->loop_count--;
    return is_done && leave_loop(k, s);
}

static bool run_lets(sketch *k, const tl_statement *s) {
    for (int i = 0; i < s->let.count && s->parent; i++) {
        const tl_binding *binding = &s->let.items[i];
        tl_value value;
        if (!scope_evaluate(&k->scope, binding->value, &value)) continue; /* depends on elements */
        scope_set_value(&k->scope, binding->symbol, value);
    }
    return true;
}

static bool run_block(sketch *k, tl_block *block) {
    for (tl_statement *s = block->first; s; s = s->next) {
        if (!machine_step(k->m, s)) return false;
        bool is_done = true;
        switch (s->kind) {
        case TL_COPY: is_done = sketch_copy(k, s); break;
        case TL_COMPUTE: is_done = sketch_compute(k, s); break;
        case TL_FOR: is_done = sketch_loop_passes(k, s); break;
        case TL_IF: is_done = run_if(k, s); break;
        case TL_LET: is_done = run_lets(k, s); break;
        case TL_RESHAPE: is_done = sketch_tile(&k->scope, s->reshape.what, s) != NULL; break;
        default: break; /* Wait and Release have nothing to do: everything is at once */
        }
        k->m->scratch_used = 0;
        if (!is_done) return false;
    }
    return true;
}

/* --- the grid --------------------------------------------------------------------------------- */

static bool is_walked_by_loop(const tl_kernel *kernel, const tl_statement *s, str index,
                              const tl_expr *extent) {
    for (; s; s = s->parent) {
        const tl_expr *length, *size;
        bool walks_it = s->kind == TL_FOR && tl_loop_walks(s, &length, &size) && !size &&
                        tl_expr_equal(length, extent) &&
                        tl_loop_walks_index(kernel, s, length, index);
        if (walks_it) return true;
    }
    return false;
}

/* Without a grid: the indices before the matrices of what is copied, unless a loop walks them. */
static void implied_walks(sketch *k, grid_tiles *w) {
    for (int i = 0; i < k->m->statement_count; i++) {
        const tl_statement *s = k->m->statements[i];
        if (s->kind != TL_COPY) continue;
        tl_end ends[2] = {tl_copy_source(s), tl_copy_target(s)};
        for (int e = 0; e < 2; e++) {
            const tl_symbol *tensor = ends[e].symbol;
            if (ends[e].space != TL_GLOBAL || !tensor || !tensor->axes) continue;
            int begin = tl_matrix_begin(tensor->axes);
            for (int a = 0; a < begin; a++) {
                str name = tl_axis_index(tensor->axes, a);
                const tl_symbol *index = name.length ? tl_find_index(k->m->kernel, name) : NULL;
                const tl_expr *extent = tensor->axes->items[a].extent;
                if (!index || is_walked_by_loop(k->m->kernel, s, name, extent)) continue;
                grid_add(w, (grid_walk){.symbols = {NULL, index}, .extent = extent});
            }
        }
    }
}

static void find_walks(sketch *k, grid_tiles *w) {
    for (const tl_statement *s = k->m->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_GRID) continue;
        grid_add_all(w, k->m->kernel, s);
        return;
    }
    implied_walks(k, w);
}

static bool run_tile(sketch *k, const grid_tiles *w, int64_t number) {
    grid_set(w, &k->scope, number);
    for (int i = 0; i < k->m->kernel->symbol_count; i++) k->tiles[i].is_defined = false;
    k->loop_count = 0;
    k->gathering = -1;
    return run_block(k, &k->m->kernel->body);
}

bool sketch_run(machine *m) {
    sketch *k = arena_new(m->memory, sketch);
    k->m = m;
    scope_init(&k->scope, m);
    k->scope.owner = k;
    k->scope.tile_of = sketch_tile;
    k->gathering = -1;
    int count = m->kernel->symbol_count;
    k->tiles = arena_array(m->memory, tile, count + 1);
    k->zero_loops = arena_array(m->memory, const tl_statement *, count + 1);
    k->values = arena_array(m->memory, tile, count + 1);
    k->starts = arena_array(m->memory, double, count + 1);
    for (int i = 0; i < count; i++) {
        const tl_symbol *symbol = m->kernel->symbols[i];
        bool is_tile = symbol->kind == TL_SYMBOL_VARIABLE && !sketch_is_given_value(m, symbol);
        if (is_tile) k->zero_loops[i] = sketch_zero_loop(m, symbol, &k->starts[i]);
    }
    sketch_find_softmaxes(k);
    grid_tiles *w = arena_new(m->memory, grid_tiles);
    find_walks(k, w);
    if (!grid_measure(w, m, &k->scope)) return false;
    m->tiles_total = w->total;
    if (!machine_tiles_exist(m)) return false;
    int64_t run_count = m->request->tiles ? m->request->tile_count : m->tiles_total;
    for (int64_t i = 0; i < run_count; i++) {
        int64_t number = m->request->tiles ? m->request->tiles[i] : i;
        if (!run_tile(k, w, number)) return false;
        m->tiles_run++;
    }
    return true;
}
