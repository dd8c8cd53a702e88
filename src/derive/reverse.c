/* Gradients of what a tape computes, statement by statement from its end. */
#include "derive/tape.h"

#include <string.h>

/* --- rules ------------------------------------------------------------------------------------ */

typedef struct rule {
    tl_operation operation;
    int operand;
    const char *steps;
} rule;

static const rule rules[] = {
#define RULE(operation, operand, steps) {TL_##operation, operand, steps},
#include "derive/rules.def"
#undef RULE
};

static const char *find_rule(tl_operation operation, int operand) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].operation == operation && rules[i].operand == operand) return rules[i].steps;
    return NULL;
}

/* --- what is active --------------------------------------------------------------------------- */

const tl_statement *tape_wanted(const tape *t, const tape_item *load) {
    if (load->kind != TAPE_LOAD || load->sum) return NULL;
    bool is_chosen = !t->of_count;
    for (int i = 0; i < t->of_count; i++) is_chosen |= str_equal(t->of[i], load->tensor);
    for (const tl_statement *s = t->kernel->body.first; is_chosen && s; s = s->next)
        if (tape_is_number(s) && str_equal(s->parameter.name, load->tensor))
            return tape_other_read(t, load->tensor) ? NULL : s;
    return NULL;
}

typedef struct reversal {
    tape *t;
    bool *is_active; /* by value: does a wanted Input change it? */
    int value_count; /* before the reversal */
} reversal;

static bool has_active_operand(const reversal *r, const tape_item *item) {
    for (int i = 0; i < item->operand_count; i++) {
        int value = item->operands[i].value;
        if (value >= 0 && value < r->value_count && r->is_active[value]) return true;
    }
    return false;
}

static void find_active(reversal *r) {
    for (int i = 0; i < r->t->items.count; i++) {
        const tape_item *item = &r->t->items.items[i];
        bool is_active = tape_wanted(r->t, item) || has_active_operand(r, item);
        int start = item->kind == TAPE_LOAD && item->sum ? r->t->sums.items[item->sum - 1].start
                                                         : TAPE_NONE;
        is_active |= start != TAPE_NONE && r->is_active[start];
        for (int k = 0; item->kind == TAPE_LOAD && item->sum && k < i; k++)
            is_active |= r->t->items.items[k].sum == item->sum &&
                         has_active_operand(r, &r->t->items.items[k]);
        r->is_active[item->value] |= is_active;
    }
}

/* --- new items -------------------------------------------------------------------------------- */

static bool covers(const tape_value *wide, const tape_value *narrow) {
    for (int i = 0; i < narrow->axis_count; i++) {
        bool is_there = false;
        for (int k = 0; k < wide->axis_count; k++)
            is_there |= str_equal(wide->axes[k], narrow->axes[i]);
        if (!is_there) return false;
    }
    return true;
}

static tape_operand of_value(int value) {
    return (tape_operand){.value = value};
}

static tape_operand of_text(const char *text) {
    return (tape_operand){TAPE_NONE, str_from(text), NULL};
}

/* An elementwise item; TAPE_NONE: reported. */
static int add_elementwise(tape *t, tape_item item, const tl_statement *at) {
    int widest = TAPE_NONE;
    for (int i = 0; i < item.operand_count; i++) {
        int value = item.operands[i].value;
        if (value == TAPE_NONE) continue;
        bool is_wider = widest == TAPE_NONE ||
                        t->values.items[value].axis_count > t->values.items[widest].axis_count;
        if (is_wider) widest = value;
    }
    tape_value v = t->values.items[widest];
    for (int i = 0; i < item.operand_count; i++) {
        int value = item.operands[i].value;
        if (value != TAPE_NONE && !covers(&v, &t->values.items[value]))
            return tape_refuse(t, at,
                               "its gradient joins a row and a column, which has no rule yet"),
                   TAPE_NONE;
    }
    item.from = at;
    item.value = tape_new_value(t, STR(""), v.axes, v.axis_count);
    return tape_add(t, item);
}

static int add_two(tape *t, const tl_statement *at, tl_operation operation, tape_operand a,
                   tape_operand b) {
    return add_elementwise(
        t,
        (tape_item){
            .kind = TAPE_COMPUTE, .operation = operation, .operands = {a, b}, .operand_count = 2},
        at);
}

static int add_row_sum(tape *t, const tl_statement *at, int of, str over) {
    tape_item item = {.kind = TAPE_COMPUTE,
                      .operation = TL_ROW_SUM,
                      .operands = {of_value(of)},
                      .operand_count = 1,
                      .over = over,
                      .from = at};
    const tape_value v = t->values.items[of];
    str rest[TAPE_AXES];
    int count = 0;
    for (int i = 0; i < v.axis_count; i++)
        if (!str_equal(v.axes[i], over)) rest[count++] = v.axes[i];
    if (!count)
        return tape_refuse(t, at, "its gradient is one number a tile, which has no rule yet"),
               TAPE_NONE;
    item.value = tape_new_value(t, STR(""), rest, count);
    return tape_add(t, item);
}

/* g along all axes of 'like': 0 of any number, infinities among them, and g. */
static int spread(tape *t, const tl_statement *at, int g, int like) {
    if (covers(&t->values.items[g], &t->values.items[like])) return g;
    int zero = add_two(t, at, TL_MIN, of_value(like), of_text("0"));
    zero = add_two(t, at, TL_MAX, of_value(zero), of_text("0"));
    return add_two(t, at, TL_ADD, of_value(zero), of_value(g));
}

/* The gradient of a result, of an operand that has fewer axes: their sum. */
static int narrow(tape *t, const tl_statement *at, int g, int result, int operand) {
    const tape_value v = t->values.items[result], to = t->values.items[operand];
    for (int i = 0; i < v.axis_count && g != TAPE_NONE; i++) {
        tape_value one = {.axes = {v.axes[i]}, .axis_count = 1};
        if (covers(&to, &one)) continue;
        if (!tape_has_axis(t, g, v.axes[i])) g = spread(t, at, g, result);
        if (g != TAPE_NONE) g = add_row_sum(t, at, g, v.axes[i]);
    }
    return g;
}

/* x's gradient grows by g. */
static bool gain(reversal *r, const tl_statement *at, int x, int g) {
    tape *t = r->t;
    if (g == TAPE_NONE) return false;
    if (x >= r->value_count || !r->is_active[x]) return true;
    int old = t->values.items[x].adjoint;
    if (old != TAPE_NONE) g = add_two(t, at, TL_ADD, of_value(old), of_value(g));
    if (g == TAPE_NONE) return false;
    str name = t->values.items[x].name;
    if (!t->values.items[g].name.length && name.length)
        t->values.items[g].name = str_format(t->memory, "d%.*s", STR_ARGS(name));
    t->values.items[x].adjoint = g;
    return true;
}

/* --- steps of a rule -------------------------------------------------------------------------- */

static tape_operand step_operand(const tape_item *item, int g, int last, str word) {
    if (str_is(word, "g")) return of_value(g);
    if (str_is(word, "y")) return of_value(item->value);
    if (str_is(word, "_")) return of_value(last);
    if (str_is(word, "a")) return item->operands[0];
    if (str_is(word, "b")) return item->operands[1];
    if (str_is(word, "c")) return item->operands[2];
    return (tape_operand){TAPE_NONE, word, NULL};
}

/* "Mask g, 0 where a < b" */
static int mask_step(tape *t, const tape_item *item, int g, str step) {
    str words = step, sides[2];
    str_cut(&words, 'w');
    str_cut(&words, ' ');
    sides[0] = str_cut(&words, ' ');
    str compares = str_cut(&words, ' ');
    sides[1] = str_trim(words);
    int wide = spread(t, item->from, g, item->value);
    tape_item mask = {.kind = TAPE_MASK,
                      .operation = TL_MASK,
                      .operand_count = 3,
                      .fill = STR("0"),
                      .compares = str_copy_z(t->memory, compares)};
    mask.operands[0] = of_value(wide);
    for (int i = 0; i < 2; i++) mask.operands[1 + i] = step_operand(item, g, g, sides[i]);
    return wide == TAPE_NONE ? wide : add_elementwise(t, mask, item->from);
}

static int run_steps(tape *t, const tape_item *item, int g, const char *steps) {
    str rest = str_from(steps);
    int last = g;
    if (str_equal(rest, STR("g"))) return g;
    while (rest.length && last != TAPE_NONE) {
        str step = str_trim(str_cut(&rest, ';'));
        if (str_starts(step, STR("Mask "))) {
            last = mask_step(t, item, g, step);
            continue;
        }
        tape_item one = {.kind = TAPE_COMPUTE,
                         .operation = tl_operation_named(str_cut(&step, ' '))};
        while (step.length)
            one.operands[one.operand_count++] =
                step_operand(item, g, last, str_trim(str_cut(&step, ',')));
        last = add_elementwise(t, one, item->from);
    }
    return last;
}

/* --- statements ------------------------------------------------------------------------------- */

/* g over the one operand of a product gives the other's. */
static bool reverse_product(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    g = spread(t, item->from, g, item->value);
    for (int i = 0; i < 2 && g != TAPE_NONE; i++) {
        int own = item->operands[i].value, other = item->operands[1 - i].value;
        if (own >= r->value_count || !r->is_active[own]) continue;
        const tape_value v = t->values.items[own], w = t->values.items[other];
        tape_item product = {
            .kind = TAPE_COMPUTE, .operation = TL_GEMM, .operand_count = 2, .from = item->from};
        product.operands[i] = of_value(g), product.operands[1 - i] = of_value(other);
        product.over = w.axes[str_equal(w.axes[0], item->over)];
        product.value = tape_new_value(t, STR(""), v.axes, v.axis_count);
        if (!gain(r, item->from, own, tape_add(t, product))) return false;
    }
    return g != TAPE_NONE;
}

static bool is_stored(const tape *t, int value) {
    for (int i = 0; i < t->stores.count; i++)
        if (!t->stores.items[i].is_statistic && t->stores.items[i].value == value) return true;
    return false;
}

/* Where minus infinity was written and only exponentials are taken of it, gradients are 0 already.
 */
static bool ends_in_weights(const tape *t, int value) {
    bool is_used = false;
    if (is_stored(t, value)) return false;
    for (int i = 0; i < t->forward_items; i++) {
        const tape_item *item = &t->items.items[i];
        for (int k = 0; k < item->operand_count; k++) {
            if (item->operands[k].value != value) continue;
            bool is_exponential = item->operation == TL_EXP || item->operation == TL_EXP2 ||
                                  item->value == t->shifted;
            bool is_mask =
                item->kind == TAPE_MASK && !item->fill.length && ends_in_weights(t, item->value);
            if (!is_exponential && !is_mask) return false;
            is_used = true;
        }
    }
    return is_used;
}

static bool reverse_mask(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    if (item->compares) return true; /* (of the log-sum-exp) */
    if (!item->fill.length && ends_in_weights(t, item->value))
        return gain(r, item->from, item->operands[0].value, g);
    int wide = spread(t, item->from, g, item->value);
    if (wide == TAPE_NONE) return false;
    tape_item mask = *item;
    mask.fill = STR("0");
    mask.operands[0] = of_value(wide);
    return gain(r, item->from, item->operands[0].value, add_elementwise(t, mask, item->from));
}

/* dS = P*(dP - delta) */
static bool reverse_softmax(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    if (t->delta == TAPE_NONE) { /* the whole row is here, or walked for it */
        int products = add_two(t, item->from, TL_MULTIPLY, of_value(t->weights), of_value(g));
        t->delta =
            products == TAPE_NONE ? products : add_row_sum(t, item->from, products, t->normalised);
        if (t->delta == TAPE_NONE) return false;
        t->values.items[t->delta].name = STR("delta");
    }
    int wide = spread(t, item->from, g, t->weights);
    if (wide == TAPE_NONE) return false;
    int rest = add_two(t, item->from, TL_SUBTRACT, of_value(wide), of_value(t->delta));
    if (rest == TAPE_NONE) return false;
    t->values.items[rest].name =
        str_format(t->memory, "d%.*s", STR_ARGS(t->values.items[t->scores].name));
    return gain(r, item->from, t->scores,
                add_two(t, item->from, TL_MULTIPLY, of_value(t->weights), of_value(rest)));
}

static bool is_another(void *axis, const tl_expr *e) {
    return e->kind != TL_NAME || !str_equal(e->text, *(const str *)axis);
}

/* An expression may differ along an axis that the gradient, the same everywhere on it, has lost. */
static bool meets_expression(const tape *t, const tape_item *item, int g) {
    const tape_value *v = &t->values.items[item->value];
    for (int i = 0; i < v->axis_count; i++) {
        str axis = v->axes[i];
        for (int k = 0; k < item->operand_count && !tape_has_axis(t, g, axis); k++)
            if (!tl_visit(item->operands[k].expression, is_another, &axis)) return true;
    }
    return false;
}

static bool reverse_elementwise(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    if (meets_expression(t, item, g)) g = spread(t, item->from, g, item->value);
    if (g == TAPE_NONE) return false;
    for (int i = 0; i < item->operand_count; i++) {
        int operand = item->operands[i].value;
        if (operand == TAPE_NONE || !r->is_active[operand]) continue;
        const char *steps = find_rule(item->operation, i);
        if (!steps)
            return tape_refuse(t, item->from, "there is no gradient of %s",
                               tl_operation_name(item->operation));
        int part = run_steps(t, item, g, steps);
        if (part == TAPE_NONE) return false;
        if (!gain(r, item->from, operand, narrow(t, item->from, part, item->value, operand)))
            return false;
    }
    return true;
}

static bool reverse_item(reversal *r, tape_item item) {
    tape *t = r->t;
    int of = item.sum && item.kind != TAPE_LOAD ? t->sums.items[item.sum - 1].value : item.value;
    int g = t->values.items[of].adjoint;
    if (g != TAPE_NONE && item.kind == TAPE_LOAD && item.sum) {
        int start = t->sums.items[item.sum - 1].start;
        return start == TAPE_NONE || gain(r, item.from, start, g);
    }
    if (g == TAPE_NONE || !has_active_operand(r, &item)) return true;
    if (item.value == t->weights) return reverse_softmax(r, &item, g);
    if (item.kind == TAPE_MASK) return reverse_mask(r, &item, g);
    if (item.operation == TL_GEMM) return reverse_product(r, &item, g);
    if (item.operation == TL_ROW_SUM) return gain(r, item.from, item.operands[0].value, g);
    return reverse_elementwise(r, &item, g);
}

/* --- delta ------------------------------------------------------------------------------------ */

/* In which operands (a bit each) is it linear in the weights, and does its result stay so, along
 * their axis still?
 */
static bool keeps_linear(const tape *t, const tape_item *item, const bool *is_linear,
                         unsigned *operands) {
    *operands = 0;
    for (int i = 0; i < item->operand_count; i++)
        if (item->operands[i].value >= 0 && is_linear[item->operands[i].value])
            *operands |= 1u << i;
    if (item->kind == TAPE_MASK) return *operands == 1 && str_is(item->fill, "0");
    bool is_along = tape_has_axis(t, item->value, t->normalised);
    return is_along && tl_is_linear(item->operation, *operands) && !item->sum;
}

/* sum over the row of P*dP = sum over A of dA*A, where the sums A are linear in P (Euler's
 * theorem): without a walk of its own. Where something else is made of the weights, it takes that
 * walk.
 */
static bool find_delta(reversal *r) {
    tape *t = r->t;
    if (!tape_softmax_walk(t).length || !r->is_active[t->scores]) return true;
    bool *is_linear = arena_array(t->memory, bool, r->value_count);
    bool *is_counted = arena_array(t->memory, bool, t->sums.count + 1);
    is_linear[t->weights] = true;
    str row = t->values.items[t->weights]
                  .axes[str_equal(t->values.items[t->weights].axes[0], t->normalised)];
    t->delta_walks = is_stored(t, t->weights);
    if (t->delta_walks) return true;
    for (int i = 0; i < t->forward_items; i++) {
        tape_item item = t->items.items[i];
        unsigned operands;
        bool is_kept = keeps_linear(t, &item, is_linear, &operands);
        if (operands && is_kept) is_linear[item.value] = true;
        if (!operands || is_kept) continue;
        const tape_sum *into = item.sum ? &t->sums.items[item.sum - 1] : NULL;
        bool is_alone = into && into->start == TAPE_NONE && !into->is_nonzero;
        if (!is_alone || !str_equal(item.over, t->normalised) || (operands & (operands - 1))) {
            t->delta = TAPE_NONE, t->delta_walks = true;
            return true;
        }
        int sum = t->sums.items[item.sum - 1].value, g = t->values.items[sum].adjoint;
        if (g == TAPE_NONE || is_counted[item.sum]) continue;
        is_counted[item.sum] = true;
        int part = add_two(t, item.from, TL_MULTIPLY, of_value(g), of_value(sum));
        if (part == TAPE_NONE) return false;
        const tape_value v = t->values.items[part];
        for (int k = 0; k < v.axis_count && part != TAPE_NONE; k++)
            if (!str_equal(v.axes[k], row)) part = add_row_sum(t, item.from, part, v.axes[k]);
        if (part != TAPE_NONE && t->delta != TAPE_NONE)
            part = add_two(t, item.from, TL_ADD, of_value(t->delta), of_value(part));
        if (part == TAPE_NONE) return false;
        t->delta = part;
    }
    if (t->delta != TAPE_NONE) t->values.items[t->delta].name = STR("delta");
    return true;
}

/* --- the tape --------------------------------------------------------------------------------- */

static bool load_gradients(reversal *r) {
    tape *t = r->t;
    bool is_any = false;
    for (int i = 0; i < t->stores.count; i++) {
        const tape_store *store = &t->stores.items[i];
        if (store->is_statistic || !r->is_active[store->value]) continue;
        const tape_value v = t->values.items[store->value];
        str name = str_format(t->memory, "d%.*s", STR_ARGS(store->output->parameter.name));
        if (tape_is_taken(t, name))
            return tape_refuse(t, store->output,
                               "the gradient of %.*s comes in as %.*s, which means something else "
                               "in the sketch: rename that",
                               STR_ARGS(store->output->parameter.name), STR_ARGS(name));
        int g = tape_new_value(t, name, v.axes, v.axis_count);
        tape_add(t,
                 (tape_item){.kind = TAPE_LOAD, .value = g, .tensor = name, .from = store->copy});
        if (!gain(r, store->copy, store->value, g)) return false;
        is_any = true;
    }
    return is_any || tape_refuse(t, NULL, "no Output depends on an Input whose gradient is wanted");
}

/* What is stored has all axes. */
static bool widen_gradients(reversal *r, int item_count) {
    tape *t = r->t;
    for (int i = 0; i < item_count; i++) {
        const tape_item item = t->items.items[i];
        int g = t->values.items[item.value].adjoint;
        if (!tape_wanted(t, &item) || g == TAPE_NONE) continue;
        g = spread(t, item.from, g, item.value);
        if (g == TAPE_NONE) return false;
        t->values.items[item.value].adjoint = g;
    }
    return true;
}

bool tape_reverse(tape *t) {
    int item_count = t->items.count, value_count = t->values.count;
    reversal r = {.t = t, .value_count = value_count};
    r.is_active = arena_array(t->memory, bool, value_count);
    find_active(&r);
    if (!load_gradients(&r)) return false;
    int loop_end = t->softmax_loop == TAPE_NONE ? 0 : t->loops.items[t->softmax_loop].end;
    for (int i = item_count - 1; i >= 0; i--) {
        bool is_last_in_loop = i == loop_end - 1;
        if (is_last_in_loop && !find_delta(&r)) return false;
        if (!reverse_item(&r, t->items.items[i])) return false;
    }
    return widen_gradients(&r, item_count);
}
