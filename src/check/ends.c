/* Ragged ends: what a tile's elements past an end hold, and which operations may include them. */
#include "check/machine.h"

#include <string.h>

/* --- where the end is ------------------------------------------------------------------------- */

bool ends_length(machine *mc, machine_process *p, int tile, int axis, int64_t *length) {
    int id = mc->model->tiles[tile].axes[axis].id;
    const tl_symbol *symbol = id >= 0 ? mc->model->axis_symbols[id] : NULL;
    return symbol && symbol->extent && extents_integer(&p->values, symbol->extent, length);
}

/* Do the tile's elements lie partly past the end of the axis? */
static bool ends_reach(machine *mc, machine_process *p, int tile, int axis,
                       const machine_origin *origin) {
    int64_t length, extent = mc->model->tiles[tile].axes[axis].extent;
    if (!origin->known[axis] || !extent) return false;
    return ends_length(mc, p, tile, axis, &length) && origin->at[axis] + extent > length;
}

/* --- masks ------------------------------------------------------------------------------------ */

typedef struct corners {
    extents_values *values;
    const tl_symbol *symbols[2];
    int64_t from[2], to[2]; /* inclusive */
    int count;
} corners;

/* Is the value of all that is mentioned chosen in this run, or the length of the tile's own axis?
 * Else a mask might hold by chance: for the one value that is taken of a scalar, say, that control
 * does not depend on.
 */
static bool finds_chosen(void *context, const tl_expr *e) {
    const corners *c = context;
    const extents *x = c->values->extents;
    const tl_symbol *s = e->symbol;
    bool varies = e->kind == TL_NAME && s && !s->is_known &&
                  (s->kind == TL_SYMBOL_SIZE || s->kind == TL_SYMBOL_SCALAR);
    if (!varies && e->kind != TL_ELEMENT) return true;
    for (int i = 0; i < x->variable_count; i++) {
        const extents_variable *v = &x->variables[i];
        bool is_chosen = v->symbol == s && v->uses > v->indexing;
        if (varies ? is_chosen : v->element && tl_expr_equal(v->element, e)) return true;
    }
    for (int i = 0; i < c->count; i++) {
        const tl_expr *length = c->symbols[i] ? c->symbols[i]->extent : NULL;
        if (varies && length && length->kind == TL_NAME && length->symbol == s) return true;
    }
    return false;
}

/* A comparison of linear expressions holds everywhere when it holds in the corners. */
static bool holds_in_corners(corners *c, const tl_expr *e) {
    if (!model_visit_lets(c->values->extents->model, e, false, finds_chosen, c)) return false;
    for (int corner = 0; corner < 1 << c->count; corner++) {
        for (int i = 0; i < c->count; i++) {
            int64_t at = corner >> i & 1 ? c->to[i] : c->from[i];
            if (c->symbols[i]) extents_values_set(c->values, c->symbols[i], at);
        }
        int64_t is_met;
        if (!extents_integer(c->values, e, &is_met) || !is_met) return false;
    }
    return true;
}

static bool implied(corners *c, const tl_expr *e) {
    if (e->kind == TL_BINARY && e->operator== TL_OR)
        return implied(c, e->left) || implied(c, e->right);
    if (e->kind == TL_BINARY && e->operator== TL_AND)
        return implied(c, e->left) && implied(c, e->right);
    return holds_in_corners(c, e);
}

bool ends_masked(machine *mc, machine_process *p, const model_step *mask,
                 const machine_origin *origin, int axis, int64_t begin, int64_t end) {
    const model_tile *tile = &mc->model->tiles[mask->reads[0].tile];
    corners c = {.values = &p->values};
    for (int k = 0; k < tile->axis_count && k < 2; k++) {
        int id = tile->axes[k].id;
        c.symbols[k] = id >= 0 ? mc->model->axis_symbols[id] : NULL;
        if (k == axis) {
            c.from[k] = begin;
            c.to[k] = end - 1;
        } else {
            int64_t length;
            c.from[k] = origin->known[k] ? origin->at[k] : 0;
            c.to[k] = c.from[k] + tile->axes[k].extent - 1;
            if (ends_length(mc, p, mask->reads[0].tile, k, &length) && c.to[k] >= length) {
                c.to[k] = length - 1;
            }
        }
        if (c.to[k] < c.from[k]) return true; /* no such element */
        c.count++;
    }
    const tl_expr *condition = mask->statement->compute.condition;
    bool all = condition && implied(&c, condition);
    for (int k = 0; k < c.count; k++) {
        if (c.symbols[k]) extents_values_forget(&p->values, c.symbols[k]);
    }
    return all;
}

/* --- scalar operands -------------------------------------------------------------------------- */

static holds_name find_name(void *context, const tl_expr *e) {
    const tl_symbol *symbol = e->symbol;
    (void)context;
    if (e->kind != TL_NAME || !symbol) return (holds_name){HOLDS_UNKNOWN, NULL, NULL};
    switch (symbol->kind) {
    case TL_SYMBOL_CONSTANT: return (holds_name){HOLDS_DEFINED, symbol->value, NULL};
    case TL_SYMBOL_SCALAR:
        return (holds_name){HOLDS_INPUT, NULL,
                            symbol->statement ? symbol->statement->parameter.condition : NULL};
    case TL_SYMBOL_SIZE:
    case TL_SYMBOL_OPEN: return (holds_name){HOLDS_LENGTH, NULL, NULL};
    case TL_SYMBOL_INDEX: return (holds_name){HOLDS_PLACE, NULL, NULL};
    case TL_SYMBOL_GRID: return (holds_name){HOLDS_COUNTER, NULL, NULL};
    default: return (holds_name){HOLDS_UNKNOWN, NULL, NULL};
    }
}

/* --- one statement ---------------------------------------------------------------------------- */

typedef struct judged {
    machine *mc;
    machine_process *p;
    const model_step *step;
    const machine_origin *const *origins;
} judged;

/* What an operand that is no tile may be: the same in every run. */
static holds_value scalar(judged *j, int number) {
    machine *mc = j->mc;
    long step = j->step - mc->model->roles[j->p->sync->role].steps;
    holds_value *known = &mc->scalars[j->p->sync->role][step].operands[number];
    const holds_scope scope = {find_name, NULL, &mc->memo};
    const tl_expr *e = j->step->statement->compute.operands[number].value;
    if (!known->may) *known = e ? holds_expression(&scope, e) : holds_these(HOLDS_GIVEN);
    return *known;
}

static bool is_finite(holds_value h) {
    return holds_only(h, HOLDS_FINITE);
}

static const char *name_of(holds_value h) {
    if (holds_only(h, HOLDS_ZERO)) return "0";
    if (holds_only(h, HOLDS_LOW)) return "-inf";
    if (holds_only(h, HOLDS_HIGH)) return "+inf";
    if (is_finite(h)) return "finite values";
    if (!(h.may & HOLDS_NAN) && h.may & HOLDS_FINITE && h.may & HOLDS_LOW && h.may & HOLDS_HIGH)
        return "finite values or infinities";
    if (holds_only(h, HOLDS_FINITE | HOLDS_LOW)) return "finite values or -inf";
    return holds_only(h, HOLDS_FINITE | HOLDS_HIGH) ? "finite values or +inf" : "anything";
}

static void report(judged *j, const model_use *use, int axis, holds_value held,
                   const char *wanted) {
    events_finding *f = machine_report(j->mc, FAULT_END, j->step->statement, -1, use->name);
    if (!f) return;
    const model_axis *a = &j->mc->model->tiles[use->tile].axes[axis];
    if (use->range.end) f->range = use->range;
    f->axis = a->name;
    f->held = name_of(held);
    f->wanted = wanted;
    f->extent = j->mc->model->axis_symbols[a->id]->extent;
}

/* What operand 'number' holds past the end of an axis (with axis_id < 0, where elements exist);
 * one without the axis holds what it holds everywhere.
 */
static holds_value operand_end(judged *j, int number, int axis_id) {
    const tl_operand *operand = &j->step->statement->compute.operands[number];
    for (int i = 0; i < j->step->read_count; i++) {
        const model_use *use = &j->step->reads[i];
        if (use->operand != operand || !j->origins[i]) continue;
        const model_tile *tile = &j->mc->model->tiles[use->tile];
        int k = axis_id < 0 ? -1 : model_axis_of(tile, axis_id);
        holds_value held = k >= 0 ? j->origins[i]->held.ends[k] : j->origins[i]->held.inside;
        return held.may ? held : holds_given(tile->type); /* what comes from memory is finite */
    }
    return scalar(j, number);
}

static void judge_reduction(judged *j) {
    const tl_compute *c = &j->step->statement->compute;
    const model_use *use = &j->step->reads[0];
    if (!j->step->read_count || !j->origins[0]) return;
    const model_tile *tile = &j->mc->model->tiles[use->tile];
    bool transposed = use->operand && use->operand->is_transposed;
    int axis = transposed ? 0 : tile->axis_count - 1;
    holds_value held = operand_end(j, 0, tile->axes[axis].id);
    holds_value wanted = holds_neutral(c->operation);
    if (holds_only(held, wanted.may) || !ends_reach(j->mc, j->p, use->tile, axis, j->origins[0]))
        return;
    report(j, use, axis, held, name_of(wanted));
}

static void judge_product(judged *j) {
    if (j->step->contracted < 0 || j->step->read_count < 2 || !j->origins[0] || !j->origins[1])
        return;
    const model_use *a = &j->step->reads[0], *b = &j->step->reads[1];
    int i = model_axis_of(&j->mc->model->tiles[a->tile], j->step->contracted);
    int k = model_axis_of(&j->mc->model->tiles[b->tile], j->step->contracted);
    if (i < 0 || k < 0) return;
    holds_value ea = operand_end(j, 0, j->step->contracted),
                eb = operand_end(j, 1, j->step->contracted);
    bool right = is_finite(ea) && is_finite(eb) &&
                 (holds_only(ea, HOLDS_ZERO) || holds_only(eb, HOLDS_ZERO));
    if (right || !ends_reach(j->mc, j->p, a->tile, i, j->origins[0])) return;
    bool left_is_wrong = !is_finite(ea) || is_finite(eb);
    report(j, left_is_wrong ? a : b, left_is_wrong ? i : k, left_is_wrong ? ea : eb, "0");
}

static holds_value mask_value(judged *j) {
    const tl_compute *c = &j->step->statement->compute;
    return c->operand_count > 1 ? scalar(j, 1) : holds_these(HOLDS_LOW);
}

static holds_value masked_end(judged *j, int axis, holds_value before) {
    const machine_origin *origin = j->origins[0];
    if (!origin || !ends_reach(j->mc, j->p, j->step->reads[0].tile, axis, origin)) return before;
    holds_value value = mask_value(j);
    int64_t length = 0, extent = j->mc->model->tiles[j->step->reads[0].tile].axes[axis].extent;
    ends_length(j->mc, j->p, j->step->reads[0].tile, axis, &length);
    int64_t begin = length > origin->at[axis] ? length : origin->at[axis];
    bool all = ends_masked(j->mc, j->p, j->step, origin, axis, begin, origin->at[axis] + extent);
    return all ? value : holds_either(before, value);
}

/* A sum over what exists, whose factors are finite there. */
static holds_value product_end(judged *j, int axis_id, const holds_value *e) {
    const model_use *left = j->step->read_count ? &j->step->reads[0] : NULL;
    bool in_left = left && model_axis_of(&j->mc->model->tiles[left->tile], axis_id) >= 0;
    holds_value outer = in_left ? e[0] : e[1];
    if (holds_only(outer, HOLDS_ZERO)) return outer;
    return holds_these(holds_only(outer, HOLDS_GIVEN) ? HOLDS_GIVEN : HOLDS_ANY);
}

/* What the target holds past the end of its axis k, or with k < 0 where its elements exist. */
static holds_value made_end(judged *j, int k, int axis_id, const holds_value *before) {
    const tl_compute *c = &j->step->statement->compute;
    holds_value e[TL_OPERANDS_MAX] = {{0}}, made;
    int count = c->operand_count < TL_OPERANDS_MAX ? c->operand_count : TL_OPERANDS_MAX;
    for (int i = 0; i < count; i++) e[i] = operand_end(j, i, axis_id);
    switch (tl_operation_shape(c->operation)) {
    case TL_SHAPE_PRODUCT:
        made = k < 0 ? holds_these(HOLDS_GIVEN) : product_end(j, axis_id, e);
        break;
    case TL_SHAPE_REDUCTION: made = holds_reduced(&j->mc->memo, c->operation, e[0]); break;
    case TL_SHAPE_FILL: made = e[0]; break;
    case TL_SHAPE_MASK:
        made = k < 0 ? holds_either(e[0], mask_value(j)) : masked_end(j, k, e[0]);
        break;
    default: made = holds_apply(&j->mc->memo, c->operation, e, count);
    }
    tl_type type = j->mc->model->tiles[j->step->target.tile].type;
    if (j->step->accumulates) {
        holds_value both[] = {before->may ? *before : holds_given(type), made};
        made = holds_apply(&j->mc->memo, tl_combining(c->operation), both, 2);
    }
    return holds_rounded(made, type);
}

static bool is_one(const holds_value *a, const holds_value *b) { /* bit by bit: of 0 and -0, too */
    return a->may == b->may && a->is_number == b->is_number &&
           memcmp(&a->number, &b->number, sizeof a->number) == 0;
}

static bool is_same(const machine_held *a, const machine_held *b, int axis_count) {
    bool is = is_one(&a->inside, &b->inside);
    for (int k = 0; k < axis_count && is; k++) is = is_one(&a->ends[k], &b->ends[k]);
    return is;
}

static bool came_of(const machine_made *made, const judged *j, const machine_held *before) {
    const model_tile *tiles = j->mc->model->tiles;
    const model_step *step = j->step;
    if (!made->is_known) return false;
    if (step->accumulates && !is_same(&made->before, before, tiles[step->target.tile].axis_count))
        return false;
    for (int i = 0; i < step->read_count; i++) {
        const machine_origin *origin = j->origins[i];
        if (made->is_there[i] != (origin != NULL)) return false;
        int axis_count = origin ? tiles[step->reads[i].tile].axis_count : 0;
        if (origin && !is_same(&made->reads[i], &origin->held, axis_count)) return false;
    }
    return true;
}

/* What the same operands came to before; or where to keep what they come to now. */
static machine_made *find_made(judged *j, const machine_held *before, bool *is_found) {
    const model_role *role = &j->mc->model->roles[j->p->sync->role];
    machine_known *known = &j->mc->known[j->p->sync->role][j->step - role->steps];
    *is_found = true;
    for (unsigned i = 0; i < MACHINE_MADE_KEPT; i++) { /* the latest first */
        unsigned at = (known->latest + i) % MACHINE_MADE_KEPT;
        if (!came_of(&known->made[at], j, before)) continue;
        known->latest = at;
        return &known->made[at];
    }
    *is_found = false;
    known->latest = (known->latest + 1) % MACHINE_MADE_KEPT;
    machine_made *made = &known->made[known->latest];
    *made = (machine_made){.is_known = true, .before = *before};
    for (int i = 0; i < j->step->read_count; i++) {
        made->is_there[i] = j->origins[i] != NULL;
        if (j->origins[i]) made->reads[i] = j->origins[i]->held;
    }
    return made;
}

static void make_ends(judged *j, const machine_held *before, machine_held *after) {
    const model_tile *target = &j->mc->model->tiles[j->step->target.tile];
    for (int k = 0; k < target->axis_count; k++)
        after->ends[k] = made_end(j, k, target->axes[k].id, &before->ends[k]);
    after->inside = holds_existing(made_end(j, -1, -1, &before->inside));
}

void ends_compute(machine *mc, machine_process *p, const model_step *step,
                  const machine_origin *const *origins, const machine_held *before,
                  machine_held *result) {
    judged j = {.mc = mc, .p = p, .step = step, .origins = origins};
    tl_shape_rule shape = tl_operation_shape(step->statement->compute.operation);
    if (shape == TL_SHAPE_REDUCTION) judge_reduction(&j);
    if (shape == TL_SHAPE_PRODUCT) judge_product(&j);
    if (shape == TL_SHAPE_MASK || step->read_count > MACHINE_MADE_READS) {
        make_ends(&j, before, result);
        return;
    }
    bool is_found;
    machine_made *made = find_made(&j, before, &is_found);
    if (!is_found) {
        made->after = *result;
        make_ends(&j, before, &made->after);
    }
    *result = made->after;
}
