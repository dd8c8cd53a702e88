/* Register tiles of an executor: its share, what is in flight, layouts and origins. */
#include "interpret/code.h"

/* --- register tiles --------------------------------------------------------------------------- */

void code_split(int64_t count, int part, int parts, int64_t *first, int64_t *end) {
    *first = count * part / parts;
    *end = count * (part + 1) / parts;
}

/* A vector's values lie where the rows (or columns) of its matrix lie, once per group of the
 * others. */
static void share_vector(code_executor *e, code_register *r, tile *t, const tl_layout *said) {
    const code_register *of =
        said->of && said->of->symbol ? e->registers[said->of->symbol->position] : NULL;
    model_spread spread =
        model_spread_of(e->role, of ? &of->symbol->in_register.allocation->allocate.layout : said);
    int row = e->sync->executor / spread.across, column = e->sync->executor % spread.across;
    bool is_rows = said->kind == TL_ROWS;
    code_split(t->count[0], is_rows ? row : column, is_rows ? spread.down : spread.across,
               &t->share.first[0], &t->share.end[0]);
    r->stores_alone = is_rows ? column == 0 : row == 0;
}

static void share_matrix(code_executor *e, code_register *r, tile *t, const tl_layout *said) {
    r->stores_alone = true;
    if (said->kind == TL_MMA_B) {
        r->stores_alone = e->sync->executor == 0; /* every executor holds all of it */
        return;
    }
    model_spread spread = model_spread_of(e->role, said);
    code_split(t->count[0], e->sync->executor / spread.across, spread.down, &t->share.first[0],
               &t->share.end[0]);
    if (t->axis_count < 2) return;
    if (said->kind == TL_MMA_A) { /* executors side by side hold the same rows */
        r->stores_alone = e->sync->executor % spread.across == 0;
        return;
    }
    code_split(t->count[1], e->sync->executor % spread.across, spread.across, &t->share.first[1],
               &t->share.end[1]);
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
    int64_t count[MACHINE_AXES_MAX];
    str index[MACHINE_AXES_MAX];
    for (int i = 0; i < a->shape.count; i++) {
        if (!scope_integer(&e->scope, a->shape.items[i], &count[i])) return false;
        index[i] = i < known->axis_count ? known->axes[i].index : (str){NULL, 0};
    }
    code_register *r = arena_new(m->memory, code_register);
    r->symbol = symbol;
    r->number = model_find_tile(e->code->model, symbol, TL_REGISTER);
    if (r->number < 0) return code_too_many_tiles(e->code, known->allocation);
    r->stages = e->code->model->tiles[r->number].stages;
    r->slots = arena_array(m->memory, tile, r->stages);
    r->layout = a->layout;
    r->layout_since = known->allocation;
    for (int i = 0; i < r->stages; i++) {
        tile *t = &r->slots[i];
        t->format = m->is_exact ? CONVERT_F64 : interpret_format(known->type);
        tile_shape(m, t, a->shape.count, count, index);
        if (tl_is_vector_layout(&a->layout)) share_vector(e, r, t, &a->layout);
        else share_matrix(e, r, t, &a->layout);
    }
    e->registers[symbol->position] = r;
    return !m->has_failed;
}

bool code_make_registers(code_executor *e) {
    code *k = e->code;
    const tl_statement *role = e->role->statement;
    /* Matrices first: vectors lie as their matrices do. */
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < k->m->kernel->symbol_count; i++) {
            const tl_symbol *symbol = k->m->kernel->symbols[i];
            const tl_statement *at = symbol->in_register.allocation;
            if (symbol->kind != TL_SYMBOL_VARIABLE || !symbol->in_register.exists || !at) continue;
            const tl_statement *its = tl_role_of(at);
            if ((its && its != role) || tl_is_vector_layout(&at->allocate.layout) != (pass == 1))
                continue;
            if (!make_register(e, symbol)) return false;
        }
    }
    return true;
}

/* --- use of register tiles -------------------------------------------------------------------- */

void code_note(code_executor *e, const tl_statement *s) {
    if (s) diag_add(e->code->m->diags, DIAG_INTERPRET_MADE_HERE, s->range, NULL);
}

code_register *code_register_of(code_executor *e, const tl_expr *name) {
    return name && name->symbol ? e->registers[name->symbol->position] : NULL;
}

tile *code_slot_of(const code_register *r, int64_t generation) {
    return &r->slots[generation % r->stages];
}

/* Reports why a register tile must not be read, or written, now; false: it may. */
static bool stop_use(code_executor *e, const tl_expr *name, channels_answer answer) {
    diag_id id;
    switch (answer.fault) {
    case CHANNELS_OK: return false;
    case CHANNELS_NOT_WAITED: id = DIAG_INTERPRET_READ_EARLY; break;
    case CHANNELS_WRITTEN_IN_FLIGHT: id = DIAG_INTERPRET_IN_FLIGHT; break;
    default: id = DIAG_INTERPRET_OPERAND_WRITTEN; break;
    }
    machine_stop(e->code->m, id, name->range, name->text);
    if (answer.flight) code_note(e, answer.flight->statement);
    return true;
}

tile *code_read_register(code_executor *e, const tl_expr *name, channels_source *source) {
    code_register *r = code_register_of(e, name);
    if (!r) return NULL;
    channels_answer answer = channels_read(e->code->sync, e->sync, r->number, -1, false);
    if (stop_use(e, name, answer)) return NULL;
    *source = (channels_source){r->number, answer.generation};
    tile *t = code_slot_of(r, answer.generation);
    if (t->is_defined) return t;
    machine_stop(e->code->m, DIAG_INTERPRET_POISON, name->range, name->text);
    return NULL;
}

void code_open_value(code_executor *e, const tl_expr *name, const tl_statement *s) {
    const code_register *r = code_register_of(e, name);
    if (!r || !e->code->model->tiles[r->number].is_value_ring || !tl_writes_afresh(s, r->symbol))
        return;
    stop_use(e, name, channels_open_value(e->code->sync, e->sync, r->number));
}

tile *code_write_register(code_executor *e, const tl_expr *name, bool is_product) {
    code_register *r = code_register_of(e, name);
    if (!r) return NULL;
    channels_answer answer = channels_write(e->code->sync, e->sync, r->number, is_product);
    return stop_use(e, name, answer) ? NULL : code_slot_of(r, answer.generation);
}

void code_set_written(tile *t, const tl_statement *s) {
    t->is_defined = true;
    t->writer = s;
}

void code_set_layout(code_register *r, const tl_layout *said, const tl_statement *s) {
    r->layout = *said;
    r->layout_since = s;
}

void code_set_fresh_layout(code_register *r, const tl_statement *s) {
    code_set_layout(r, &r->symbol->in_register.allocation->allocate.layout, s);
}

/* --- layouts ---------------------------------------------------------------------------------- */

bool code_stop_layout(code_executor *e, const tl_expr *name, const code_register *r, str rule,
                      const char *wanted) {
    machine *m = e->code->m;
    machine_stop(m, DIAG_INTERPRET_LAYOUT, name->range, rule, name->text,
                 tl_layout_words(m->memory, &r->layout));
    if (r->layout_since) {
        diag_report(m->diags, DIAG_INTERPRET_LAYOUT_SINCE, r->layout_since->range, name->text);
    }
    if (wanted) {
        diag_report(m->diags, DIAG_INTERPRET_RESHAPE, name->range, name->text,
                    tl_layout_words(m->memory, &r->layout), str_from(wanted));
    }
    return false;
}

bool code_check_whole(code_executor *e, const tl_expr *name, const code_register *r) {
    if (!r->layout.is_partial) return true;
    machine_stop(e->code->m, DIAG_INTERPRET_PARTIAL, name->range, name->text);
    if (r->layout_since) {
        diag_report(e->code->m->diags, DIAG_INTERPRET_LAYOUT_SINCE, r->layout_since->range,
                    name->text);
    }
    return false;
}

/* The elements that the target's share needs must be the executor's own. */
bool code_check_share(code_executor *e, const tl_expr *name, const tile *operand,
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

/* --- origins ---------------------------------------------------------------------------------- */

str code_number_text(machine *m, int64_t value) {
    return str_format(m->memory, "%lld", (long long)value);
}

bool code_check_origin(code_executor *e, const tl_expr *at, const tile *a, int axis_a, str name_a,
                       const tile *b, int axis_b, str name_b) {
    bool differs =
        a->has_start[axis_a] && b->has_start[axis_b] && a->start[axis_a] != b->start[axis_b];
    if (!differs) return true;
    machine *m = e->code->m;
    machine_stop(m, DIAG_INTERPRET_ORIGIN, at->range, a->index[axis_a],
                 code_number_text(m, a->start[axis_a]), name_a,
                 code_number_text(m, b->start[axis_b]), name_b);
    code_note(e, a->writer);
    code_note(e, b->writer);
    return false;
}

void code_take_origin(tile *to, int axis, const tile *from, int from_axis) {
    if (!from->has_start[from_axis]) return;
    to->start[axis] = from->start[from_axis];
    to->has_start[axis] = true;
}

void code_forget_origin(tile *t) {
    t->has_start[0] = t->has_start[1] = false;
}
