/* Ragged ends: what a tile's elements behind an end hold, and who may take them in. */
#include "check/machine.h"

#include <math.h>

/* --- where the end is ------------------------------------------------------------------------- */

bool ends_length(machine *mc, machine_process *p, int tile, int axis, int64_t *length) {
    int id = mc->model->tiles[tile].axes[axis].id;
    const tl_symbol *symbol = id >= 0 ? mc->model->axis_symbols[id] : NULL;
    return symbol && symbol->extent && extents_integer(&p->values, symbol->extent, length);
}

/* Do the tile's elements lie partly behind the end of the axis? */
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
        int64_t holds;
        if (!extents_integer(c->values, e, &holds) || !holds) return false;
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

/* --- arithmetic on what lies behind ----------------------------------------------------------- */

static machine_end either(machine_end a, machine_end b) {
    if (a == b) return a;
    if (a == END_ANY || b == END_ANY) return END_ANY;
    bool low = a == END_LOW || b == END_LOW || a == END_MIXED || b == END_MIXED;
    return low ? END_MIXED : END_FINITE;
}

static bool is_finite(machine_end e) {
    return e == END_FINITE || e == END_ZERO;
}

static machine_end add(machine_end a, machine_end b) {
    if (a == END_ANY || b == END_ANY) return END_ANY;
    if (a == END_ZERO) return b;
    if (b == END_ZERO) return a;
    if (is_finite(a) && is_finite(b)) return END_FINITE;
    return a == END_LOW || b == END_LOW ? END_LOW : END_MIXED;
}

static machine_end multiply(machine_end a, machine_end b) {
    if (is_finite(a) && is_finite(b)) return a == END_ZERO || b == END_ZERO ? END_ZERO : END_FINITE;
    /* Factors of masked scores are taken to be positive, as RowMax before a scaling takes them. */
    if (a == END_LOW && b == END_FINITE) return END_LOW;
    if (a == END_MIXED && b == END_FINITE) return END_MIXED;
    return END_ANY;
}

static machine_end larger(machine_end a, machine_end b) {
    if (a == END_ANY || b == END_ANY) return END_ANY;
    if (a == END_LOW) return b;
    if (b == END_LOW) return a;
    if (a == END_ZERO && b == END_ZERO) return END_ZERO;
    return a == END_MIXED && b == END_MIXED ? END_MIXED : END_FINITE;
}

static machine_end unary(tl_operation operation, machine_end a) {
    switch (operation) {
    case TL_CAST: return a;
    case TL_EXP:
    case TL_EXP2: return a == END_LOW ? END_ZERO : a == END_ANY ? END_ANY : END_FINITE;
    case TL_TANH:
    case TL_ERF: return a == END_ZERO ? END_ZERO : a == END_ANY ? END_ANY : END_FINITE;
    case TL_ERFC: return a == END_ANY ? END_ANY : END_FINITE; /* from 0 to 2 */
    case TL_ABS: return is_finite(a) ? a : END_ANY;
    case TL_SQRT: return a == END_ZERO ? END_ZERO : END_ANY;
    case TL_RECIPROCAL: return a == END_FINITE ? a : END_ANY; /* as a quotient by it is */
    default: return END_ANY;                                  /* Log, Rsqrt: of 0 infinite */
    }
}

static machine_end value_of(const tl_expr *e) {
    double number;
    if (!e || !tl_known_number(e, &number)) return END_FINITE;
    if (!isfinite(number)) return number < 0 ? END_LOW : END_ANY;
    return number == 0 ? END_ZERO : END_FINITE;
}

static machine_end combine(tl_operation operation, const machine_end *e, int count) {
    switch (operation) {
    case TL_ADD: return add(e[0], e[1]);
    case TL_SUBTRACT: return is_finite(e[1]) ? add(e[0], e[1]) : END_ANY;
    case TL_MULTIPLY: {
        machine_end one = multiply(e[0], e[1]);
        return one == END_ANY ? multiply(e[1], e[0]) : one;
    }
    case TL_MULTIPLY_ADD: return add(multiply(e[0], e[1]), e[2]);
    case TL_DIVIDE: return is_finite(e[1]) ? multiply(e[0], END_FINITE) : END_ANY;
    case TL_MAX: return larger(e[0], e[1]);
    case TL_MIN: return either(e[0], e[1]);
    default: return count ? unary(operation, e[0]) : END_FINITE;
    }
}

/* --- one statement ---------------------------------------------------------------------------- */

typedef struct judged {
    machine *mc;
    machine_process *p;
    const model_step *step;
    const machine_origin *const *origins;
} judged;

static const char *end_name(machine_end e) {
    switch (e) {
    case END_ZERO: return "0";
    case END_LOW: return "-inf";
    case END_FINITE: return "finite values";
    case END_MIXED: return "finite values or -inf";
    default: return "anything";
    }
}

static void report(judged *j, const model_use *use, int axis, machine_end held,
                   const char *wanted) {
    events_finding *f = machine_report(j->mc, FAULT_END, j->step, -1, use->name);
    if (!f) return;
    const model_axis *a = &j->mc->model->tiles[use->tile].axes[axis];
    if (use->range.end) f->range = use->range;
    f->axis = a->name;
    f->held = end_name(held);
    f->wanted = wanted;
    f->extent = j->mc->model->axis_symbols[a->id]->extent;
}

/* What operand 'number' holds behind the end of an axis; one without the axis is finite there. */
static machine_end operand_end(judged *j, int number, int axis_id) {
    const tl_operand *operand = &j->step->statement->compute.operands[number];
    for (int i = 0; i < j->step->read_count; i++) {
        const model_use *use = &j->step->reads[i];
        if (use->operand != operand || !j->origins[i]) continue;
        int k = model_axis_of(&j->mc->model->tiles[use->tile], axis_id);
        if (k >= 0) return j->origins[i]->ends[k];
        return END_FINITE;
    }
    return value_of(operand->value);
}

static void judge_reduction(judged *j) {
    const tl_compute *c = &j->step->statement->compute;
    const model_use *use = &j->step->reads[0];
    if (!j->step->read_count || !j->origins[0]) return;
    const model_tile *tile = &j->mc->model->tiles[use->tile];
    bool transposed = use->operand && use->operand->is_transposed;
    int axis = transposed ? 0 : tile->axis_count - 1;
    machine_end held = j->origins[0]->ends[axis];
    machine_end wanted = c->operation == TL_ROW_SUM ? END_ZERO : END_LOW;
    if (held == wanted || !ends_reach(j->mc, j->p, use->tile, axis, j->origins[0])) return;
    report(j, use, axis, held, end_name(wanted));
}

static void judge_product(judged *j) {
    if (j->step->contracted < 0 || j->step->read_count < 2 || !j->origins[0] || !j->origins[1])
        return;
    const model_use *a = &j->step->reads[0], *b = &j->step->reads[1];
    int i = model_axis_of(&j->mc->model->tiles[a->tile], j->step->contracted);
    int k = model_axis_of(&j->mc->model->tiles[b->tile], j->step->contracted);
    if (i < 0 || k < 0) return;
    machine_end ea = j->origins[0]->ends[i], eb = j->origins[1]->ends[k];
    bool right = is_finite(ea) && is_finite(eb) && (ea == END_ZERO || eb == END_ZERO);
    if (right || !ends_reach(j->mc, j->p, a->tile, i, j->origins[0])) return;
    bool left_is_wrong = !is_finite(ea) || is_finite(eb);
    report(j, left_is_wrong ? a : b, left_is_wrong ? i : k, left_is_wrong ? ea : eb, "0");
}

static machine_end masked_end(judged *j, int axis, machine_end before) {
    const tl_compute *c = &j->step->statement->compute;
    const machine_origin *origin = j->origins[0];
    if (!origin || !ends_reach(j->mc, j->p, j->step->reads[0].tile, axis, origin)) return before;
    machine_end value = c->operand_count > 1 ? value_of(c->operands[1].value) : END_LOW;
    int64_t length = 0, extent = j->mc->model->tiles[j->step->reads[0].tile].axes[axis].extent;
    ends_length(j->mc, j->p, j->step->reads[0].tile, axis, &length);
    int64_t begin = length > origin->at[axis] ? length : origin->at[axis];
    bool all = ends_masked(j->mc, j->p, j->step, origin, axis, begin, origin->at[axis] + extent);
    return all ? value : either(before, value);
}

void ends_compute(machine *mc, machine_process *p, const model_step *step,
                  const machine_origin *const *origins, const machine_origin *before,
                  machine_origin *result) {
    judged j = {mc, p, step, origins};
    const tl_compute *c = &step->statement->compute;
    const model_tile *target = &mc->model->tiles[step->target.tile];
    tl_shape_rule shape = tl_operation_shape(c->operation);
    if (shape == TL_SHAPE_REDUCTION) judge_reduction(&j);
    if (shape == TL_SHAPE_PRODUCT) judge_product(&j);
    for (int k = 0; k < target->axis_count; k++) {
        int id = target->axes[k].id;
        machine_end e[TL_OPERANDS_MAX] = {END_FINITE};
        int count = c->operand_count < TL_OPERANDS_MAX ? c->operand_count : TL_OPERANDS_MAX;
        for (int i = 0; i < count; i++) e[i] = operand_end(&j, i, id);
        machine_end made = END_FINITE;
        switch (shape) {
        case TL_SHAPE_PRODUCT: {
            int in_left =
                step->read_count ? model_axis_of(&mc->model->tiles[step->reads[0].tile], id) : -1;
            machine_end outer = in_left >= 0 ? e[0] : e[1];
            made = is_finite(outer) ? outer : END_ANY;
            break;
        }
        case TL_SHAPE_REDUCTION:
        case TL_SHAPE_FILL: made = e[0]; break;
        case TL_SHAPE_MASK: made = masked_end(&j, k, e[0]); break;
        default: made = combine(c->operation, e, count);
        }
        if (step->accumulates) {
            bool takes_largest = c->operation == TL_ROW_MAX;
            made = takes_largest ? larger(made, before->ends[k]) : add(made, before->ends[k]);
        }
        result->ends[k] = made;
    }
}
