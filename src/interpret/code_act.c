/* What one executor does: Copy, Compute, Reshape on its share of the tiles. */
#include "interpret/code.h"

#include <string.h>

/* --- register tiles ----------------------------------------------------------------------------- */

static void split(int64_t count, int part, int parts, int64_t *first, int64_t *end) {
    *first = count * part / parts;
    *end = count * (part + 1) / parts;
}

/* How a layout puts the executors on rows and columns. */
static void groups_of(const code_executor *e, const tl_layout *layout, int *rows, int *columns) {
    int count = e->code->roles.items[e->role].executor_count;
    bool is_said = layout->over_rows > 0 && layout->over_columns > 0 &&
                   layout->over_rows * layout->over_columns == count;
    *rows = is_said ? layout->over_rows : count;
    *columns = is_said ? layout->over_columns : 1;
}

static bool is_vector_layout(const tl_layout *layout) {
    return layout->kind == TL_ROWS || layout->kind == TL_COLUMNS;
}

/* A vector's values lie where the rows (or columns) of its matrix lie, once per group of the others. */
static void share_vector(code_executor *e, code_register *r, tile *t, const tl_layout *layout) {
    const code_register *of = layout->of && layout->of->symbol
                                  ? e->registers[layout->of->symbol->position] : NULL;
    int rows, columns;
    groups_of(e, of ? &of->symbol->in_register.allocation->allocate.layout : layout, &rows, &columns);
    int row = e->number / columns, column = e->number % columns;
    bool is_rows = layout->kind == TL_ROWS;
    split(t->count[0], is_rows ? row : column, is_rows ? rows : columns, &t->share.first[0],
          &t->share.end[0]);
    r->stores_alone = is_rows ? column == 0 : row == 0;
}

static void share_matrix(code_executor *e, code_register *r, tile *t, const tl_layout *layout) {
    int rows, columns;
    r->stores_alone = true;
    if (layout->kind == TL_MMA_B) {
        r->stores_alone = e->number == 0; /* every executor holds all of it */
        return;
    }
    groups_of(e, layout, &rows, &columns);
    split(t->count[0], e->number / columns, rows, &t->share.first[0], &t->share.end[0]);
    if (t->axis_count < 2) return;
    split(t->count[1], e->number % columns, columns, &t->share.first[1], &t->share.end[1]);
}

static bool make_register(code_executor *e, const tl_symbol *symbol) {
    machine *m = e->code->m;
    const tl_tile *known = &symbol->in_register;
    const tl_allocation *a = &known->allocation->allocate;
    /* A tile that nothing is ever written to has no axes. */
    bool fits = (known->axis_count == a->shape.count || !known->axis_count) &&
                a->shape.count <= MACHINE_AXES_MAX;
    if (!fits) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, known->allocation->range,
                     STR("tiles of more than two axes"));
        return false;
    }
    int64_t count[MACHINE_AXES_MAX], stages = 1;
    str index[MACHINE_AXES_MAX];
    for (int i = 0; i < a->shape.count; i++) {
        if (!scope_integer(&e->scope, a->shape.items[i], &count[i])) return false;
        index[i] = i < known->axis_count ? known->axes[i].index : (str){NULL, 0};
    }
    if (a->stages && !scope_integer(&e->scope, a->stages, &stages)) return false;
    if (stages < 1 || stages > CODE_STAGES_MAX) stages = 1;
    code_register *r = arena_new(m->memory, code_register);
    r->symbol = symbol;
    r->stages = (int)stages;
    r->slots = arena_array(m->memory, tile, r->stages);
    r->layout = a->layout;
    r->layout_since = known->allocation;
    for (int i = 0; i < r->stages; i++) {
        tile *t = &r->slots[i];
        t->format = m->is_exact ? CONVERT_F64 : interpret_format(known->type);
        tile_shape(m, t, a->shape.count, count, index);
        if (is_vector_layout(&a->layout)) share_vector(e, r, t, &a->layout);
        else share_matrix(e, r, t, &a->layout);
    }
    e->registers[symbol->position] = r;
    return !m->has_failed;
}

bool code_make_registers(code_executor *e) {
    code *k = e->code;
    const tl_statement *role = k->roles.items[e->role].statement;
    /* Matrices first: vectors lie as their matrices do. */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < k->m->kernel->symbol_count; i++) {
            const tl_symbol *symbol = k->m->kernel->symbols[i];
            const tl_statement *at = symbol->in_register.allocation;
            if (symbol->kind != TL_SYMBOL_VARIABLE || !symbol->in_register.exists || !at) continue;
            const tl_statement *its = tl_role_of(at);
            if ((its && its != role) || is_vector_layout(&at->allocate.layout) != (pass == 1)) continue;
            if (!make_register(e, symbol)) return false;
        }
    }
    return true;
}

/* --- use of register tiles ---------------------------------------------------------------------- */

static void note(code_executor *e, const tl_statement *s) {
    if (s) diag_add(e->code->m->diags, DIAG_INTERPRET_MADE_HERE, s->range, NULL);
}

static code_register *register_of(code_executor *e, const tl_expr *name) {
    return name && name->symbol ? e->registers[name->symbol->position] : NULL;
}

/* The generation that a name of a register tile means: of a ring the one held. */
static bool held_generation(code_executor *e, const tl_expr *name, const code_register *r,
                            int64_t *generation) {
    *generation = 0;
    if (r->stages == 1) return true;
    *generation = r->waited - 1;
    if (r->waited > r->released) return true;
    machine_stop(e->code->m, DIAG_INTERPRET_READ_EARLY, name->range, name->text);
    return false;
}

static tile *slot_of(const code_register *r, int64_t generation) {
    return &r->slots[generation % r->stages];
}

static const code_flight *product_into(const code_executor *e, const tl_symbol *symbol,
                                       int64_t generation) {
    for (int i = 0; i < e->flights.count; i++) {
        const code_flight *f = &e->flights.items[i];
        if (!f->is_store && f->target == symbol && f->generation == generation) return f;
    }
    return NULL;
}

static const code_flight *product_reading(const code_executor *e, const tl_symbol *symbol,
                                          int64_t generation) {
    for (int i = 0; i < e->flights.count; i++) {
        const code_flight *f = &e->flights.items[i];
        for (int o = 0; o < f->operand_count; o++) {
            const code_operand *operand = &f->operands[o];
            bool is_it = operand->channel < 0 && operand->symbol == symbol &&
                         operand->generation == generation;
            if (is_it) return f;
        }
    }
    return NULL;
}

static bool stop_in_flight(code_executor *e, const tl_expr *name, const code_flight *f, diag_id id) {
    machine_stop(e->code->m, id, name->range, name->text);
    note(e, f->statement);
    return false;
}

static tile *read_register(code_executor *e, const tl_expr *name, int64_t *generation) {
    code_register *r = register_of(e, name);
    if (!r || !held_generation(e, name, r, generation)) return NULL;
    const code_flight *f = product_into(e, r->symbol, *generation);
    if (f) {
        stop_in_flight(e, name, f, DIAG_INTERPRET_IN_FLIGHT);
        return NULL;
    }
    tile *t = slot_of(r, *generation);
    if (t->is_defined) return t;
    machine_stop(e->code->m, DIAG_INTERPRET_POISON, name->range, name->text);
    return NULL;
}

/* The tile to write; 'is_product' lets an asynchronous product follow another into the same tile. */
static tile *write_register(code_executor *e, const tl_expr *name, bool is_product) {
    code_register *r = register_of(e, name);
    int64_t generation;
    if (!r || !held_generation(e, name, r, &generation)) return NULL;
    const code_flight *into = product_into(e, r->symbol, generation);
    const code_flight *reading = product_reading(e, r->symbol, generation);
    if (into && !is_product) {
        stop_in_flight(e, name, into, DIAG_INTERPRET_IN_FLIGHT);
        return NULL;
    }
    if (reading) {
        stop_in_flight(e, name, reading, DIAG_INTERPRET_OPERAND_WRITTEN);
        return NULL;
    }
    return slot_of(r, generation);
}

static void set_written(code_executor *e, const tl_expr *name, tile *t, const tl_statement *s) {
    (void)e, (void)name;
    t->is_defined = true;
    t->writer = s;
}

static void set_layout(code_register *r, const tl_layout *layout, const tl_statement *s) {
    r->layout = *layout;
    r->layout_since = s;
}

static void set_fresh_layout(code_register *r, const tl_statement *s) {
    set_layout(r, &r->symbol->in_register.allocation->allocate.layout, s);
}

/* --- layouts ------------------------------------------------------------------------------------ */

static str layout_text(machine *m, const tl_layout *layout) {
    return str_format(m->memory, "%s%s%s", layout->is_partial ? "partial " : "",
                      tl_layout_kind_name(layout->kind), layout->is_permuted ? " permuted" : "");
}

static bool stop_layout(code_executor *e, const tl_expr *name, const code_register *r, str rule,
                        const char *wanted) {
    machine *m = e->code->m;
    machine_stop(m, DIAG_INTERPRET_LAYOUT, name->range, rule, name->text, layout_text(m, &r->layout));
    if (r->layout_since) {
        diag_report(m->diags, DIAG_INTERPRET_LAYOUT_SINCE, r->layout_since->range, name->text);
    }
    if (wanted) {
        diag_report(m->diags, DIAG_INTERPRET_RESHAPE, name->range, name->text,
                    layout_text(m, &r->layout), str_from(wanted));
    }
    return false;
}

static bool check_whole(code_executor *e, const tl_expr *name, const code_register *r) {
    if (!r->layout.is_partial) return true;
    machine_stop(e->code->m, DIAG_INTERPRET_PARTIAL, name->range, name->text);
    if (r->layout_since) {
        diag_report(e->code->m->diags, DIAG_INTERPRET_LAYOUT_SINCE, r->layout_since->range,
                    name->text);
    }
    return false;
}

/* The elements that the target's share needs must be the executor's own. */
static bool check_share(code_executor *e, const tl_expr *name, const tile *operand,
                        const tile *target) {
    for (int i = 0; i < operand->axis_count; i++) {
        for (int k = 0; k < target->axis_count; k++) {
            if (!str_equal(operand->index[i], target->index[k])) continue;
            bool covers = operand->share.first[i] <= target->share.first[k] &&
                          operand->share.end[i] >= target->share.end[k];
            if (covers) continue;
            machine_stop(e->code->m, DIAG_INTERPRET_SHARE, name->range, name->text);
            return false;
        }
    }
    return true;
}

/* --- origins ------------------------------------------------------------------------------------ */

static str number_text(machine *m, int64_t value) {
    return str_format(m->memory, "%lld", (long long)value);
}

static bool check_origin(code_executor *e, const tl_expr *at, const tile *a, int axis_a, str name_a,
                         const tile *b, int axis_b, str name_b) {
    bool differs = a->has_start[axis_a] && b->has_start[axis_b] &&
                   a->start[axis_a] != b->start[axis_b];
    if (!differs) return true;
    machine *m = e->code->m;
    machine_stop(m, DIAG_INTERPRET_ORIGIN, at->range, a->index[axis_a],
                 number_text(m, a->start[axis_a]), name_a, number_text(m, b->start[axis_b]), name_b);
    note(e, a->writer);
    note(e, b->writer);
    return false;
}

static void take_origin(tile *to, int axis, const tile *from, int from_axis) {
    if (!from->has_start[from_axis]) return;
    to->start[axis] = from->start[from_axis];
    to->has_start[axis] = true;
}

static void forget_origin(tile *t) {
    t->has_start[0] = t->has_start[1] = false;
}

/* --- shared tiles ------------------------------------------------------------------------------- */

/* Where a view's part of the base's tile begins on axis k: as the base, where it is the same axis. */
static void part_origin(const tl_symbol *view, const tile *base, tile *part) {
    const tl_expr *element = view->view->value;
    const tl_axes *axes = view->view_base->axes;
    for (int k = 0; k < part->axis_count; k++) {
        part->start[k] = 0;
        part->has_start[k] = true;
        for (int i = 0; i < element->item_count && axes && i < axes->count; i++) {
            const tl_expr *item = element->items[i];
            if (item->kind != TL_NAME || !str_equal(item->text, part->index[k])) continue;
            for (int b = 0; b < base->axis_count; b++) {
                if (!str_equal(base->index[b], tl_axis_index(axes, i))) continue;
                part->start[k] = base->start[b];
                part->has_start[k] = base->has_start[b];
            }
        }
    }
}

/* One row of a part: the view's own expression says which elements of the base's tile they are. */
static bool part_row(code_executor *e, const tl_symbol *view, const tile *base, tile *part,
                     int64_t row) {
    scope *s = &e->scope;
    const tl_expr *element = view->view->value;
    int lane_axis = part->axis_count - 1, width = (int)part->count[lane_axis];
    scope_bind_axis(s, part->index[lane_axis],
                    (lanes){.kind = LANES_RAMP, .value = (double)part->start[lane_axis]});
    if (lane_axis == 1) {
        scope_bind_axis(s, part->index[0],
                        (lanes){.kind = LANES_ONE, .value = (double)(part->start[0] + row)});
    }
    const double *at[MACHINE_AXES_MAX] = {NULL, NULL};
    bool is_done = true;
    for (int b = 0; b < base->axis_count && is_done; b++) {
        for (int i = 0; i < element->item_count; i++) {
            if (!str_equal(base->index[b], tl_axis_index(view->view_base->axes, i))) continue;
            lanes value;
            is_done = scope_lanes(s, element->items[i], NULL, 0, width, NULL, &value);
            if (is_done) at[b] = lanes_items(e->code->m, value, width);
        }
        is_done = is_done && at[b];
    }
    for (int k = 0; k < part->axis_count; k++) scope_unbind_axis(s, part->index[k]);
    double *to = part->data + row * (lane_axis == 1 ? part->count[1] : 0);
    for (int i = 0; i < width && is_done; i++) {
        int64_t y = (int64_t)at[0][i] - (base->has_start[0] ? base->start[0] : 0);
        int64_t x = base->axis_count == 2
                        ? (int64_t)at[1][i] - (base->has_start[1] ? base->start[1] : 0) : 0;
        bool is_inside = y >= 0 && y < base->count[0] && x >= 0 && x < base->count[1];
        to[i] = is_inside ? base->data[y * base->count[1] + x] : 0;
    }
    return is_done;
}

static tile *read_part(code_executor *e, const tl_expr *name, const tile *base) {
    machine *m = e->code->m;
    const tl_symbol *view = name->symbol;
    const tl_tile *known = &view->shared;
    bool is_simple = view->view && view->view->value->kind == TL_ELEMENT && known->axis_count &&
                     known->axis_count <= MACHINE_AXES_MAX && view->view_base->axes;
    if (!is_simple || view->view_base->shared.part_of) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, name->range, STR("a part of a tile of this form"));
        return NULL;
    }
    tile **part = &e->parts[view->position];
    if (!*part) {
        *part = arena_new(m->memory, tile);
        int64_t count[MACHINE_AXES_MAX];
        str index[MACHINE_AXES_MAX];
        for (int i = 0; i < known->axis_count; i++) {
            if (!scope_integer(&e->scope, known->axes[i].extent, &count[i])) return NULL;
            index[i] = i < known->axis_count ? known->axes[i].index : (str){NULL, 0};
        }
        tile_shape(m, *part, known->axis_count, count, index);
        if (m->has_failed) return NULL;
    }
    part_origin(view, base, *part);
    (*part)->is_defined = true;
    (*part)->writer = base->writer;
    int64_t rows = (*part)->axis_count == 2 ? (*part)->count[0] : 1;
    for (int64_t row = 0; row < rows; row++) {
        int used = m->scratch_used;
        if (!part_row(e, view, base, *part, row)) return NULL;
        m->scratch_used = used;
    }
    return *part;
}

/* An operand, wherever it is; with what it is for the queue of products. */
static tile *read_operand(code_executor *e, const tl_expr *name, code_operand *operand) {
    *operand = (code_operand){.symbol = name->symbol, .channel = -1};
    if (name->space == TL_REGISTER) return read_register(e, name, &operand->generation);
    if (name->space != TL_SHARED) return NULL;
    operand->channel = code_channel_of(e->code, name->symbol);
    tile *slot = code_slot(e, name, &operand->generation);
    return slot && name->symbol->shared.part_of ? read_part(e, name, slot) : slot;
}

const tile *code_tile(scope *s, const tl_expr *name, const tl_statement *at) {
    (void)at;
    code_operand unused;
    return read_operand(s->owner, name, &unused);
}

/* --- Copy --------------------------------------------------------------------------------------- */

/* Where a Copy's tile lies in its tensor; sets the tile's origin. */
static bool place_copy(code_executor *e, const tl_statement *s, const tl_symbol *tensor, tile *t,
                       tile_view *view) {
    machine *m = e->code->m;
    const tl_axes *axes = tensor->axes;
    const tl_place *place = &s->copy.place;
    int positions[TL_AXES_MAX], next = 0;
    int count = tl_copy_axes(s, axes, positions);
    if (count != t->axis_count) {
        machine_stop(m, DIAG_INTERPRET_UNSUPPORTED, s->range, STR("a tile of other axes than its Copy's"));
        return false;
    }
    *view = (tile_view){.tensor = tensor};
    for (int i = 0; i < axes->count; i++) {
        bool is_said = place->is_given && i < place->count && !place->items[i].is_all;
        bool is_tile = next < count && positions[next] == i;
        int64_t at = 0;
        if (is_said && !scope_integer(&e->scope, place->items[i].at, &at)) return false;
        view->axis_of[i] = is_tile ? next : -1;
        if (is_tile) {
            t->start[next] = is_said ? at * t->count[next] : 0;
            t->has_start[next] = true;
            next++;
            continue;
        }
        if (!is_said && !scope_integer(&e->scope, axes->items[i].coordinate, &at)) return false;
        view->fixed[i] = at;
    }
    return true;
}

/* An executor's part of work that belongs to no layout: rows in equal parts. */
static tile_share even_share(const code_executor *e, const tile *t) {
    tile_share share = tile_whole(t);
    int count = e->code->roles.items[e->role].executor_count;
    split(t->count[0], e->number, count, &share.first[0], &share.end[0]);
    return share;
}

/* Tiles of one shape: moves what the share says, rounded to the target's type. */
static bool move(code_executor *e, const tl_statement *s, const tile *from, tile *to,
                 const tile_share *share) {
    bool fits = from->axis_count == to->axis_count && from->count[0] == to->count[0] &&
                from->count[1] == to->count[1];
    if (!fits) {
        machine_stop(e->code->m, DIAG_INTERPRET_COUNTS, s->range, to->index[0],
                     number_text(e->code->m, from->count[0]), number_text(e->code->m, to->count[0]));
        return false;
    }
    int64_t width = share->end[1] - share->first[1];
    for (int64_t row = share->first[0]; row < share->end[0] && width > 0; row++) {
        int64_t at = row * to->count[1] + share->first[1];
        memcpy(to->data + at, from->data + at, (size_t)width * sizeof *to->data);
    }
    for (int i = 0; i < to->axis_count; i++) {
        to->start[i] = from->start[i];
        to->has_start[i] = from->has_start[i];
    }
    tile_round(e->code->m, to, share, to->format);
    return true;
}

static code_outcome copy_to_shared(code_executor *e, const tl_statement *s, tl_end source,
                                   tl_end target) {
    code *k = e->code;
    int at = code_channel_of(k, target.symbol);
    if (at < 0) return CODE_FAILED;
    if (!code_may_fill(k, e, at)) return CODE_BLOCKED;
    code_channel *c = &k->channels.items[at];
    tile *slot = &c->slots[c->filled[e->number] % c->stages];
    tile_share share;
    if (source.space == TL_GLOBAL) {
        tile_view view;
        if (!place_copy(e, s, source.symbol, slot, &view)) return CODE_FAILED;
        share = even_share(e, slot);
        if (!tile_load(&e->scope, slot, &share, &view, s->range)) return CODE_FAILED;
    } else {
        tl_expr name = *s->copy.what;
        name.symbol = source.symbol;
        name.space = source.space;
        code_operand unused;
        const tile *from = read_operand(e, &name, &unused);
        code_register *r = e->registers[source.symbol->position];
        if (!from || (r && source.space == TL_REGISTER && !check_whole(e, &name, r))) {
            return CODE_FAILED;
        }
        share = source.space == TL_REGISTER ? from->share : even_share(e, slot);
        if (!move(e, s, from, slot, &share)) return CODE_FAILED;
    }
    slot->is_defined = true;
    slot->writer = s;
    c->filled[e->number]++;
    return CODE_DONE;
}

static code_outcome copy_to_register(code_executor *e, const tl_statement *s, tl_end source,
                                     tl_end target) {
    tl_expr into = s->copy.target ? *s->copy.target : *s->copy.what;
    into.symbol = target.symbol;
    into.space = TL_REGISTER;
    tile *to = write_register(e, &into, false);
    code_register *r = register_of(e, &into);
    if (!to || !r) return CODE_FAILED;
    if (source.space == TL_GLOBAL) {
        tile_view view;
        if (!place_copy(e, s, source.symbol, to, &view)) return CODE_FAILED;
        if (!tile_load(&e->scope, to, &to->share, &view, s->range)) return CODE_FAILED;
        set_fresh_layout(r, s);
    } else {
        tl_expr name = *s->copy.what;
        name.symbol = source.symbol;
        name.space = source.space;
        code_operand unused;
        const tile *from = read_operand(e, &name, &unused);
        if (!from || !move(e, s, from, to, &to->share)) return CODE_FAILED;
        const code_register *other = source.space == TL_REGISTER ? register_of(e, &name) : NULL;
        if (other && !check_share(e, &name, from, to)) return CODE_FAILED;
        if (other) set_layout(r, &other->layout, s);
        else set_fresh_layout(r, s);
    }
    set_written(e, &into, to, s);
    return CODE_DONE;
}

static code_outcome copy_to_global(code_executor *e, const tl_statement *s, tl_end source,
                                   tl_end target) {
    tl_expr name = *s->copy.what;
    name.symbol = source.symbol;
    name.space = source.space;
    code_operand operand;
    tile *from = read_operand(e, &name, &operand);
    if (!from) return CODE_FAILED;
    const code_register *r = source.space == TL_REGISTER ? register_of(e, &name) : NULL;
    if (r && !check_whole(e, &name, r)) return CODE_FAILED;
    tile placed = *from;
    tile_view view;
    if (!place_copy(e, s, target.symbol, &placed, &view)) return CODE_FAILED;
    for (int i = 0; i < placed.axis_count; i++) {
        if (!check_origin(e, &name, from, i, name.text, &placed, i, STR("the coordinate"))) {
            return CODE_FAILED;
        }
    }
    tile_share share = r ? from->share : even_share(e, from);
    bool accumulates = s->copy.target_kind == TL_ACCUMULATE;
    bool stores = !r || r->stores_alone;
    if (stores && !tile_store(&e->scope, &placed, &share, &view, accumulates, s)) return CODE_FAILED;
    if (s->copy.is_async) {
        code_flight f = {.statement = s, .target = target.symbol, .is_store = true,
                         .operands = {operand}, .operand_count = 1};
        list_push(e->code->m->memory, &e->flights, f);
    }
    return CODE_DONE;
}

static code_outcome copy(code_executor *e, const tl_statement *s) {
    tl_end source = tl_copy_source(s), target = tl_copy_target(s);
    if (!source.symbol || !target.symbol) return CODE_FAILED;
    if (target.space == TL_SHARED) return copy_to_shared(e, s, source, target);
    if (target.space == TL_REGISTER) return copy_to_register(e, s, source, target);
    return copy_to_global(e, s, source, target);
}

/* --- products ----------------------------------------------------------------------------------- */

/* The slot a product writes: of a ring, `get` opens the next generation. */
static tile *product_target(code_executor *e, const tl_statement *s, int64_t *generation) {
    const tl_compute *c = &s->compute;
    code_register *r = register_of(e, c->target);
    *generation = 0;
    if (!r) return NULL;
    bool opens = r->stages > 1 && c->target_kind == TL_GET;
    if (!opens) {
        if (r->stages > 1) *generation = r->waited - 1;
        bool follows = c->is_async && c->target_kind == TL_ACCUMULATE;
        return write_register(e, c->target, follows);
    }
    if (r->opened - r->released >= r->stages) {
        machine_stop(e->code->m, DIAG_INTERPRET_RING_FULL, c->target->range, c->target->text);
        return NULL;
    }
    *generation = r->opened++;
    return slot_of(r, *generation);
}

static bool is_permuted(const code_executor *e, const tl_expr *name) {
    if (name->space == TL_REGISTER) return e->registers[name->symbol->position]->layout.is_permuted;
    const tl_statement *a = name->symbol->shared.allocation;
    return a && a->allocate.is_permuted;
}

static bool check_product_layouts(code_executor *e, const tl_compute *c) {
    static const struct {
        tl_layout_kind kind;
        const char *rule, *name;
    } wanted[2] = {{TL_MMA_A, "the left operand must be in mma_A", "mma_A"},
                   {TL_MMA_B, "the right operand must be in mma_B", "mma_B"}};
    for (int i = 0; i < 2; i++) {
        const tl_expr *name = c->operands[i].value;
        if (name->space != TL_REGISTER || c->operands[i].is_transposed) continue;
        const code_register *r = register_of(e, name);
        if (!r || r->layout.kind == wanted[i].kind || r->layout.kind == TL_LAYOUT_NONE) continue;
        return stop_layout(e, name, r, str_from(wanted[i].rule), wanted[i].name);
    }
    if (is_permuted(e, c->operands[0].value) != is_permuted(e, c->operands[1].value)) {
        machine_stop(e->code->m, DIAG_INTERPRET_LAYOUT, c->operands[1].range,
                     STR("both operands must hold the contracted axis in the same order"),
                     c->operands[0].value->text,
                     is_permuted(e, c->operands[0].value) ? STR("permuted order") : STR("plain order"));
        return false;
    }
    return true;
}

static bool check_product_target(code_executor *e, const tl_compute *c, const tile *t) {
    const code_register *r = register_of(e, c->target);
    if (c->target_kind != TL_ACCUMULATE) return true;
    if (!t->is_defined) {
        machine_stop(e->code->m, DIAG_INTERPRET_POISON, c->target->range, c->target->text);
        return false;
    }
    if (r->layout.kind == TL_MMA_C || r->layout.kind == TL_LAYOUT_NONE) return true;
    return stop_layout(e, c->target, r, STR("an accumulator must be in mma_C"), "mma_C");
}

/* Shapes, shares and origins of a, b and target. */
static bool check_product(code_executor *e, const tl_compute *c, const tile *a, const tile *b,
                          const tile *t) {
    machine *m = e->code->m;
    const tl_operand *x = &c->operands[0], *y = &c->operands[1];
    int row = x->is_transposed, inner_a = !row, column = !y->is_transposed, inner_b = !column;
    bool fits = a->count[inner_a] == b->count[inner_b] && a->count[row] == t->count[0] &&
                b->count[column] == t->count[1];
    if (!fits) {
        machine_stop(m, DIAG_INTERPRET_COUNTS, y->range, b->index[inner_b],
                     number_text(m, b->count[inner_b]), number_text(m, a->count[inner_a]));
        return false;
    }
    bool has_rows = a->share.first[row] <= t->share.first[0] && a->share.end[row] >= t->share.end[0];
    bool has_inner = a->share.first[inner_a] == 0 && a->share.end[inner_a] == a->count[inner_a];
    bool has_columns = b->share.first[column] <= t->share.first[1] &&
                       b->share.end[column] >= t->share.end[1] && b->share.first[inner_b] == 0 &&
                       b->share.end[inner_b] == b->count[inner_b];
    if (!has_rows || !has_inner || !has_columns) {
        const tl_operand *bad = has_rows && has_inner ? y : x;
        machine_stop(m, DIAG_INTERPRET_SHARE, bad->range, bad->value->text);
        return false;
    }
    if (!check_origin(e, y->value, a, inner_a, x->value->text, b, inner_b, y->value->text)) {
        return false;
    }
    bool adds = c->target_kind == TL_ACCUMULATE;
    return !adds || (check_origin(e, c->target, a, row, x->value->text, t, 0, c->target->text) &&
                     check_origin(e, c->target, b, column, y->value->text, t, 1, c->target->text));
}

static code_outcome product(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    code_flight f = {.statement = s, .target = c->target->symbol, .operand_count = 2};
    tile *a = read_operand(e, c->operands[0].value, &f.operands[0]);
    tile *b = a ? read_operand(e, c->operands[1].value, &f.operands[1]) : NULL;
    if (!a || !b || !check_product_layouts(e, c)) return CODE_FAILED;
    tile *t = product_target(e, s, &f.generation);
    if (!t || !check_product_target(e, c, t) || !check_product(e, c, a, b, t)) return CODE_FAILED;
    bool adds = c->target_kind == TL_ACCUMULATE;
    if (!tile_product(&e->scope, t, &t->share, a, c->operands[0].is_transposed, b,
                      c->operands[1].is_transposed, adds)) {
        return CODE_FAILED;
    }
    if (!adds) forget_origin(t);
    take_origin(t, 0, a, c->operands[0].is_transposed);
    take_origin(t, 1, b, !c->operands[1].is_transposed);
    if (!adds) set_fresh_layout(register_of(e, c->target), s);
    set_written(e, c->target, t, s);
    if (c->is_async) list_push(e->code->m->memory, &e->flights, f);
    return CODE_DONE;
}

/* --- elementwise, reductions, Mask -------------------------------------------------------------- */

/* The coordinate of a Compute says where the tile lies; it must agree with where its data came from. */
static bool place_compute(code_executor *e, const tl_statement *s, const tl_expr *name, tile *t) {
    machine *m = e->code->m;
    const tl_place *place = &s->compute.place;
    for (int i = 0; place->is_given && i < place->count && i < t->axis_count; i++) {
        const tl_spot *spot = &place->items[i];
        int64_t at = 0;
        if (!spot->is_all && !scope_integer(&e->scope, spot->at, &at)) return false;
        int64_t start = spot->is_block ? at * t->count[i] : at;
        if (t->has_start[i] && t->start[i] != start) {
            machine_stop(m, DIAG_INTERPRET_PLACE, place->range, t->index[i], number_text(m, start),
                         name->text, number_text(m, t->start[i]));
            note(e, t->writer);
            return false;
        }
        t->start[i] = start;
        t->has_start[i] = true;
    }
    return true;
}

typedef struct elementwise_operands {
    const tl_operand *widest;
    const tile *widest_tile;
    code_register *layout_from;
    bool has_partial;
} elementwise_operands;

/* Two tiles of parts add up part by part. */
static bool adds_parts(code_executor *e, const tl_compute *c) {
    if (c->operation != TL_ADD || c->target_kind == TL_ACCUMULATE) return false;
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *name = c->operands[i].value;
        bool is_tile = name->kind == TL_NAME && tl_tile_of(name) && name->space == TL_REGISTER;
        if (!is_tile || !register_of(e, name)->layout.is_partial) return false;
    }
    return true;
}

static bool look_at_operands(code_executor *e, const tl_compute *c, const tile *target,
                             elementwise_operands *found) {
    *found = (elementwise_operands){0};
    for (int i = 0; i < c->operand_count; i++) {
        const tl_expr *name = c->operands[i].value;
        if (name->kind != TL_NAME || !tl_tile_of(name)) continue;
        code_operand operand;
        const tile *t = read_operand(e, name, &operand);
        if (!t || !check_share(e, name, t, target)) return false;
        code_register *r = name->space == TL_REGISTER ? register_of(e, name) : NULL;
        if (r && r->layout.is_partial) {
            bool is_linear = (c->operation == TL_MULTIPLY && !found->has_partial) || adds_parts(e, c);
            if (!is_linear && !check_whole(e, name, r)) return false;
            found->has_partial = true;
            found->layout_from = r;
        }
        bool is_other = found->layout_from && found->widest_tile && r && t->axis_count == 2 &&
                        found->widest_tile->axis_count == 2 &&
                        r->layout.kind != found->layout_from->layout.kind;
        if (is_other) {
            return stop_layout(e, name, r, STR("both operands must lie alike"),
                               tl_layout_kind_name(found->layout_from->layout.kind));
        }
        if (found->widest_tile && t->axis_count <= found->widest_tile->axis_count) continue;
        found->widest = &c->operands[i];
        found->widest_tile = t;
        if (r && !found->has_partial) found->layout_from = r;
    }
    return true;
}

static bool check_fill(code_executor *e, const tl_compute *c, const code_register *r) {
    tl_value value;
    bool is_part = c->operation == TL_FILL &&
                   r->symbol->in_register.allocation->allocate.layout.is_partial;
    if (!is_part || !scope_evaluate(&e->scope, c->operands[0].value, &value)) return true;
    bool is_zero = value.is_real ? value.real == 0 : value.integer == 0;
    if (is_zero) return true;
    machine_stop(e->code->m, DIAG_INTERPRET_PARTIAL, c->target->range, c->target->text);
    return false;
}

static code_outcome elementwise(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    tile *t = write_register(e, c->target, false);
    code_register *r = register_of(e, c->target);
    elementwise_operands found;
    bool adds = c->target_kind == TL_ACCUMULATE;
    if (!t || !r || !look_at_operands(e, c, t, &found) || !check_fill(e, c, r)) return CODE_FAILED;
    if (adds && (!t->is_defined || r->layout.is_partial)) {
        if (t->is_defined) check_whole(e, c->target, r);
        else machine_stop(e->code->m, DIAG_INTERPRET_POISON, c->target->range, c->target->text);
        return CODE_FAILED;
    }
    bool is_self = found.widest_tile == t;
    if (!adds && !is_self) forget_origin(t);
    for (int i = 0; found.widest_tile && !is_self && i < t->axis_count; i++) {
        int from = found.widest->is_transposed ? t->axis_count - 1 - i : i;
        if (from >= found.widest_tile->axis_count) continue;
        if (adds && !check_origin(e, c->target, found.widest_tile, from, found.widest->value->text, t,
                                  i, c->target->text)) {
            return CODE_FAILED;
        }
        take_origin(t, i, found.widest_tile, from);
    }
    if (!place_compute(e, s, c->target, t)) return CODE_FAILED;
    if (!tile_elementwise(&e->scope, s, t, &t->share, adds)) return CODE_FAILED;
    if (found.layout_from && found.layout_from != r) set_layout(r, &found.layout_from->layout, s);
    if (!found.layout_from && !adds) set_fresh_layout(r, s);
    set_written(e, c->target, t, s);
    return CODE_DONE;
}

static code_outcome reduce(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tl_operand *operand = &c->operands[0];
    code_operand unused;
    const tile *from = read_operand(e, operand->value, &unused);
    tile *t = from ? write_register(e, c->target, false) : NULL;
    code_register *r = register_of(e, c->target);
    if (!t || !r || from->axis_count != 2) return CODE_FAILED;
    int kept = operand->is_transposed ? 1 : 0, gone = 1 - kept;
    bool is_own = from->share.first[gone] == 0 && from->share.end[gone] == from->count[gone] &&
                  from->share.first[kept] <= t->share.first[0] &&
                  from->share.end[kept] >= t->share.end[0] && from->count[kept] == t->count[0];
    if (!is_own) {
        machine_stop(e->code->m, DIAG_INTERPRET_SHARE, operand->range, operand->value->text);
        return CODE_FAILED;
    }
    bool adds = c->target_kind == TL_ACCUMULATE;
    if (adds && !t->is_defined) {
        machine_stop(e->code->m, DIAG_INTERPRET_POISON, c->target->range, c->target->text);
        return CODE_FAILED;
    }
    const tl_layout *fresh = &r->symbol->in_register.allocation->allocate.layout;
    bool is_partial = adds ? r->layout.is_partial : fresh->is_partial;
    if (is_partial && c->operation != TL_ROW_SUM) {
        machine_stop(e->code->m, DIAG_INTERPRET_PARTIAL, c->target->range, c->target->text);
        return CODE_FAILED;
    }
    if (adds && !check_origin(e, c->target, from, kept, operand->value->text, t, 0, c->target->text)) {
        return CODE_FAILED;
    }
    if (!tile_reduce(&e->scope, c->operation, t, &t->share, from, operand->is_transposed, adds)) {
        return CODE_FAILED;
    }
    if (!adds) forget_origin(t);
    take_origin(t, 0, from, kept);
    if (!adds) set_fresh_layout(r, s);
    set_written(e, c->target, t, s);
    return CODE_DONE;
}

static code_outcome mask(code_executor *e, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    const tl_expr *name = c->operands[0].value;
    int64_t generation;
    if (c->target && c->target->symbol != name->symbol) {
        machine_stop(e->code->m, DIAG_INTERPRET_UNSUPPORTED, s->range, STR("Mask into another tile"));
        return CODE_FAILED;
    }
    tile *t = read_register(e, name, &generation);
    if (!t || !write_register(e, name, false) || !place_compute(e, s, name, t)) return CODE_FAILED;
    if (!check_whole(e, name, register_of(e, name))) return CODE_FAILED;
    return tile_mask(&e->scope, s, t, &t->share) ? CODE_DONE : CODE_FAILED;
}

static code_outcome compute(code_executor *e, const tl_statement *s) {
    e->scope.at = s;
    switch (tl_operation_shape(s->compute.operation)) {
    case TL_SHAPE_PRODUCT: return product(e, s);
    case TL_SHAPE_REDUCTION: return reduce(e, s);
    case TL_SHAPE_MASK: return mask(e, s);
    case TL_SHAPE_SOFTMAX:
        machine_stop(e->code->m, DIAG_INTERPRET_UNSUPPORTED, s->range, STR("Softmax in TL Code"));
        return CODE_FAILED;
    default: return elementwise(e, s);
    }
}

/* --- the others --------------------------------------------------------------------------------- */

static code_outcome reshape(code_executor *e, const tl_statement *s) {
    const tl_expr *name = s->reshape.what;
    code_register *r = register_of(e, name);
    int64_t generation;
    if (!r || !read_register(e, name, &generation) || !write_register(e, name, false)) {
        return CODE_FAILED;
    }
    const tl_layout *from = &s->reshape.from, *to = &s->reshape.to;
    bool is_in_it = r->layout.kind == from->kind && r->layout.is_partial == from->is_partial &&
                    r->layout.is_permuted == from->is_permuted;
    if (!is_in_it) {
        str rule = str_format(e->code->m->memory, "this Reshape starts from %.*s",
                              STR_ARGS(layout_text(e->code->m, from)));
        stop_layout(e, name, r, rule, NULL);
        return CODE_FAILED;
    }
    bool is_kept = is_vector_layout(from) == is_vector_layout(to);
    tl_layout next = *to;
    if (is_kept && !next.of) next.of = r->layout.of;
    if (!next.over_rows) {
        next.over_rows = r->layout.over_rows;
        next.over_columns = r->layout.over_columns;
    }
    set_layout(r, &next, s);
    return CODE_DONE;
}

static code_outcome let(code_executor *e, const tl_statement *s) {
    for (int i = 0; i < s->let.count; i++) {
        const tl_binding *binding = &s->let.items[i];
        tl_value value;
        if (!scope_value(&e->scope, binding->value, &value)) return CODE_FAILED;
        scope_set_value(&e->scope, binding->symbol, value);
    }
    return CODE_DONE;
}

static code_outcome allocate(code_executor *e, const tl_statement *s) {
    for (int i = 0; i < s->allocate.name_count; i++) {
        code_register *r = e->registers[s->allocate.symbols[i]->position];
        if (s->allocate.space != TL_REGISTER || !r) continue;
        for (int n = 0; n < r->stages; n++) {
            r->slots[n].is_defined = false;
            forget_origin(&r->slots[n]);
        }
        r->opened = r->waited = r->released = 0;
    }
    return CODE_DONE;
}

code_outcome code_act(code_executor *e, const tl_statement *s) {
    switch (s->kind) {
    case TL_LET: return let(e, s);
    case TL_ALLOCATE: return allocate(e, s);
    case TL_COPY: return copy(e, s);
    case TL_COMPUTE: return compute(e, s);
    case TL_RESHAPE: return reshape(e, s);
    case TL_WAIT: return code_wait(e, s);
    case TL_RELEASE: return code_release(e, s);
    default: return CODE_DONE;
    }
}
