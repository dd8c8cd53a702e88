/* Ragged ends: what a tile's elements past an end hold, and which operations may include them. */
#include "check/machine.h"

#include <string.h>

/* --- where the end is ------------------------------------------------------------------------- */

int ends_walked(const machine_process *p, const tl_place *place) {
    return p->values->tile + tl_place_is_of_next(place);
}

bool ends_length(machine *mc, const machine_origin *origin, int tile, int axis, int64_t *length) {
    int id = mc->model->tiles[tile].axes[axis].id;
    const tl_symbol *symbol = id >= 0 ? mc->model->axis_symbols[id] : NULL;
    return symbol && symbol->extent &&
           extents_integer(mc->tiles[origin->walked], symbol->extent, length);
}

/* Do the tile's elements lie partly past the end of the axis? */
static bool ends_reach(machine *mc, int tile, int axis, const machine_origin *origin) {
    int64_t length, extent = mc->model->tiles[tile].axes[axis].extent;
    if (!origin->known[axis] || !extent) return false;
    return ends_length(mc, origin, tile, axis, &length) && origin->at[axis] + extent > length;
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
    if (e->kind == TL_ELEMENT) return extents_variable_of(x, e);
    if (!varies) return true;
    for (int i = 0; i < x->variable_count; i++)
        if (x->variables[i].symbol == s && x->variables[i].uses > x->variables[i].indexing)
            return true;
    for (int i = 0; i < c->count; i++) {
        const tl_expr *length = c->symbols[i] ? c->symbols[i]->extent : NULL;
        if (length && length->kind == TL_NAME && length->symbol == s) return true;
    }
    return false;
}

/* A comparison of linear expressions holds everywhere when it holds in the corners. */
static bool holds_in_corners(corners *c, const tl_expr *e) {
    if (!model_visit_lets(c->values->extents->model, e, false, finds_chosen, c)) return false;
    for (int corner = 0; corner < 1 << c->count; corner++) {
        for (int i = 0; i < c->count; i++) {
            int64_t at = corner >> i & 1 ? c->to[i] : c->from[i];
            tl_values_set(&c->values->names, c->symbols[i], at);
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
    corners c = {.values = p->values};
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
            if (ends_length(mc, origin, mask->reads[0].tile, k, &length) && c.to[k] >= length) {
                c.to[k] = length - 1;
            }
        }
        if (c.to[k] < c.from[k]) return true; /* no such element */
        c.count++;
    }
    const tl_expr *condition = mask->statement->compute.condition;
    bool all = condition && implied(&c, condition);
    for (int k = 0; k < c.count; k++) {
        tl_values_forget(&p->values->names, c.symbols[k]);
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
    machine_made *made;
} judged;

/* What an operand that is no tile may be: the same in every run. */
static holds_value scalar(judged *j, int number) {
    machine *mc = j->mc;
    holds_value *known = &mc->steps[j->p->sync->role][j->p->at].scalars[number];
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

static void report(machine *mc, const model_step *step, const machine_wrong *wrong) {
    const model_use *use = wrong->use;
    events_finding *f = machine_report(mc, FAULT_END, step->statement, -1, use->name);
    if (!f) return;
    const model_axis *a = &mc->model->tiles[use->tile].axes[wrong->axis];
    if (use->range.end) f->range = use->range;
    f->axis = a->name;
    f->held = name_of(wrong->held);
    f->wanted = wrong->wanted;
    f->extent = mc->model->axis_symbols[a->id]->extent;
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
        const machine_held *all = &j->mc->helds.items[j->origins[i]->held];
        holds_value held = k >= 0 ? all->ends[k] : all->inside;
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
    if (holds_only(held, wanted.may)) return;
    j->made->wrong = (machine_wrong){use, axis, axis, held, name_of(wanted)};
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
    if (right) return;
    bool left_is_wrong = !is_finite(ea) || is_finite(eb);
    j->made->wrong =
        left_is_wrong ? (machine_wrong){a, i, i, ea, "0"} : (machine_wrong){b, k, i, eb, "0"};
}

static holds_value mask_value(judged *j) {
    const tl_compute *c = &j->step->statement->compute;
    return c->operand_count > 1 ? scalar(j, 1) : holds_these(HOLDS_LOW);
}

static holds_value masked_end(judged *j, int axis, holds_value before) {
    const machine_origin *origin = j->origins[0];
    if (!origin || !ends_reach(j->mc, j->step->reads[0].tile, axis, origin)) return before;
    holds_value value = mask_value(j);
    int64_t length = 0, extent = j->mc->model->tiles[j->step->reads[0].tile].axes[axis].extent;
    ends_length(j->mc, origin, j->step->reads[0].tile, axis, &length);
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

/* --- what steps came to ----------------------------------------------------------------------- */

static int number_of(machine *mc, const machine_held *held) {
    for (int i = 0; i < mc->helds.count; i++) {
        const machine_held *known = &mc->helds.items[i];
        bool is = holds_equal(known->inside, held->inside);
        for (int k = 0; k < MODEL_AXES_MAX && is; k++)
            is = holds_equal(known->ends[k], held->ends[k]);
        if (is) return i;
    }
    list_push(mc->memory, &mc->helds, *held);
    return mc->helds.count - 1;
}

/* What this step came to, given the same, before; else where to keep what it comes to. */
static machine_made *find_made(machine *mc, const machine_process *p, machine_given given) {
    machine_step *known = &mc->steps[p->sync->role][p->at];
    for (unsigned i = 0; i < MACHINE_MADE_KEPT; i++) { /* the latest first */
        unsigned at = (known->latest + i) % MACHINE_MADE_KEPT;
        machine_made *made = &known->made[at];
        if (!made->is_known || memcmp(&made->given, &given, sizeof given) != 0) continue;
        known->latest = at;
        return made;
    }
    known->latest = (known->latest + 1) % MACHINE_MADE_KEPT;
    known->made[known->latest] = (machine_made){.given = given};
    return &known->made[known->latest];
}

static int keep(machine *mc, machine_made *made, const machine_held *after) {
    made->after = number_of(mc, after);
    made->is_known = true;
    return made->after;
}

int ends_load(machine *mc, machine_process *p, const model_step *step, const bool *known) {
    machine_given given = {0};
    for (int k = 0; k < MODEL_AXES_MAX; k++) given.reads[0] |= known[k] << k;
    machine_made *made = find_made(mc, p, given);
    if (made->is_known) return made->after;
    machine_held after = {0};
    for (int k = 0; k < mc->model->tiles[step->target.tile].axis_count; k++)
        if (known[k]) after.ends[k] = holds_number(0); /* a Copy fills up with zeros */
    return keep(mc, made, &after);
}

/* Wherever it came from, rounded to the target's type. */
int ends_copy(machine *mc, machine_process *p, const model_step *step, int from) {
    machine_made *made = find_made(mc, p, (machine_given){.reads = {from}});
    if (made->is_known) return made->after;
    const model_tile *target = &mc->model->tiles[step->target.tile];
    machine_held held = mc->helds.items[from], after = {.inside = held.inside};
    for (int k = 0; k < target->axis_count; k++) {
        int i = step->reads[0].axes[k];
        if (i >= 0) after.ends[k] = holds_rounded(held.ends[i], target->type);
    }
    return keep(mc, made, &after);
}

static void make(judged *j, int before) {
    machine *mc = j->mc;
    tl_shape_rule shape = tl_operation_shape(j->step->statement->compute.operation);
    if (shape == TL_SHAPE_REDUCTION) judge_reduction(j);
    if (shape == TL_SHAPE_PRODUCT) judge_product(j);
    const model_tile *target = &mc->model->tiles[j->step->target.tile];
    machine_held held = mc->helds.items[before], after = {0};
    for (int k = 0; k < target->axis_count; k++)
        after.ends[k] = made_end(j, k, target->axes[k].id, &held.ends[k]);
    after.inside = holds_existing(made_end(j, -1, -1, &held.inside));
    keep(mc, j->made, &after);
}

int ends_compute(machine *mc, machine_process *p, const model_step *step,
                 const machine_origin *const *origins, int before) {
    machine_made once = {0};
    judged j = {mc, p, step, origins, &once};
    bool is_kept = step->statement->compute.operation != TL_MASK && /* which goes by the run */
                   step->read_count <= MACHINE_MADE_READS;
    if (is_kept) {
        machine_given given = {.before = step->accumulates ? before : 0};
        for (int i = 0; i < step->read_count; i++)
            given.reads[i] = origins[i] ? origins[i]->held : -1;
        j.made = find_made(mc, p, given);
    }
    if (!j.made->is_known) make(&j, before);
    const machine_wrong *wrong = &j.made->wrong;
    if (wrong->use && ends_reach(mc, step->reads[0].tile, wrong->reach, origins[0]))
        report(mc, step, wrong);
    return j.made->after;
}
