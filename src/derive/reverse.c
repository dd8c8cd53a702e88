/* Gradients of what a tape computes, statement by statement from its end. */
#include "derive/reverse.h"

#include "derive/table.h"
#include "derive/write.h"

/* --- what is active --------------------------------------------------------------------------- */

static bool is_passive(void *context, const tl_expr *e) {
    const reversal *r = context;
    int value = tape_is_element(e) ? tape_element(r->t, e) : TAPE_NONE;
    return value == TAPE_NONE || !r->is_active[value];
}

static bool has_active_operand(const reversal *r, const tape_item *item) {
    for (int i = 0; i < item->operand_count; i++) {
        int value = item->operands[i].value;
        if (value >= 0 && value < r->value_count && r->is_active[value]) return true;
        if (!tl_visit(item->operands[i].expression, is_passive, (void *)r)) return true;
    }
    return false;
}

/* A softmax changes with its scores, and with what its m and l begin with. */
static bool is_normalised_active(const reversal *r) {
    bool is_active = r->is_active[r->t->scores];
    for (int i = 0; i < 2; i++)
        is_active |= r->t->starts[i] != TAPE_NONE && r->is_active[r->t->starts[i]];
    return is_active;
}

static void find_active(reversal *r) {
    for (int i = 0; i < r->t->items.count; i++) {
        const tape_item *item = &r->t->items.items[i];
        bool is_active = tape_wanted(r->t, item) || has_active_operand(r, item) ||
                         (item->value == r->t->lse && is_normalised_active(r));
        int start = item->kind == TAPE_LOAD && item->sum ? r->t->sums.items[item->sum - 1].start
                                                         : TAPE_NONE;
        is_active |= start != TAPE_NONE && r->is_active[start];
        for (int k = 0; item->kind == TAPE_LOAD && item->sum && k < i; k++)
            is_active |= r->t->items.items[k].sum == item->sum &&
                         has_active_operand(r, &r->t->items.items[k]);
        r->is_active[item->value] |= is_active;
    }
}

/* --- statements ------------------------------------------------------------------------------- */

/* g over the one operand of a product gives the other's. */
static bool reverse_product(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    g = reverse_spread(t, item->from, g, item->value);
    for (int i = 0; i < 2 && g != TAPE_NONE; i++) {
        int own = item->operands[i].value, other = item->operands[1 - i].value;
        if (own >= r->value_count || !r->is_active[own]) continue;
        const tape_value v = t->values.items[own], w = t->values.items[other];
        tape_item product = {
            .kind = TAPE_COMPUTE, .operation = TL_GEMM, .operand_count = 2, .from = item->from};
        product.operands[i] = reverse_of(g), product.operands[1 - i] = reverse_of(other);
        product.over = w.axes[str_equal(w.axes[0], item->over)];
        product.value = tape_new_value(t, STR(""), v.axes, v.axis_count);
        if (!reverse_gain(r, item->from, own, tape_add(t, product))) return false;
    }
    return g != TAPE_NONE;
}

/* Where minus infinity was written and only exponentials are taken of it, gradients are 0 already.
 */
static bool ends_in_weights(const tape *t, int value) {
    bool is_used = false;
    if (reverse_is_stored(t, value)) return false;
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
    if (!item->fill.length && ends_in_weights(t, item->value)) {
        tape_hide(t, g, tape_maker(t, item->value));
        return reverse_gain(r, item->from, item->operands[0].value, g);
    }
    int wide = reverse_spread(t, item->from, g, item->value);
    if (wide == TAPE_NONE) return false;
    tape_item mask = *item;
    mask.fill = STR("0");
    mask.operands[0] = reverse_of(wide);
    return reverse_gain(r, item->from, item->operands[0].value,
                        reverse_elements(t, mask, item->from));
}

/* The gradient of an extreme where it is none of a tile but what that begins with: 0 else, or the
 * other way round.
 */
static int masked_start(tape *t, const tape_item *item, int g, bool is_of_start) {
    const tape_sum *sum = &t->sums.items[item->sum - 1];
    tape_operand start = sum->start == TAPE_NONE ? (tape_operand){TAPE_NONE, sum->begins, NULL}
                                                 : reverse_of(sum->start);
    const char *within = sum->is_least ? ">=" : "<=", *past = sum->is_least ? "<" : ">";
    tape_item mask = {.kind = TAPE_MASK,
                      .operation = TL_MASK,
                      .operand_count = 3,
                      .fill = STR("0"),
                      .compares = is_of_start ? past : within};
    mask.operands[0] = reverse_of(g), mask.operands[1] = reverse_of(sum->value);
    mask.operands[2] = start;
    return reverse_elements(t, mask, item->from);
}

/* The first of the largest, or of the smallest, has the gradient. */
static bool reverse_extreme(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    tape_place *place = &t->places.items[item->place - 1];
    const tape_sum *sum = item->sum ? &t->sums.items[item->sum - 1] : NULL;
    const char *why_not = sum && sum->why_not ? sum->why_not : place->why_not;
    if (why_not)
        return tape_refuse(t, item->from, "%s has no gradient here: %s",
                           tl_operation_name(item->operation), why_not);
    if (sum && (sum->start != TAPE_NONE || sum->begins.length)) g = masked_start(t, item, g, false);
    if (g != TAPE_NONE) g = reverse_spread(t, item->from, g, item->operands[0].value);
    if (g == TAPE_NONE) return false;
    tape_item mask = {
        .kind = TAPE_MASK, .operation = TL_MASK, .fill = STR("0"), .operand_count = 1};
    mask.operands[0] = reverse_of(g);
    mask.condition = tl_quote_expr(t->memory, "%.*s != %.*s", STR_ARGS(item->over),
                                   STR_ARGS(tape_place_element(t, place)));
    return reverse_gain(r, item->from, item->operands[0].value,
                        reverse_elements(t, mask, item->from));
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

typedef struct element_reversal {
    reversal *r;
    const tape_item *item;
    const tl_expr *expression;
    int g;          /* of the whole expression */
    LIST(int) done; /* values */
} element_reversal;

/* A value, and what is made of it in the tile, by the element's axes. */
static int element_part(tape *t, const element_reversal *c, int value, str slope) {
    const tl_statement *at = c->item->from;
    int part = c->g, result = c->item->value;
    tape_operand factor = {TAPE_NONE, slope, tl_quote_expr(t->memory, "%.*s", STR_ARGS(slope))};
    if (!str_is(slope, "1")) part = reverse_times(t, at, part, factor);
    if (part == TAPE_NONE) return part;
    if (!reverse_covers(&t->values.items[result], &t->values.items[value]))
        return tape_refuse(
                   t, at,
                   "an element of %.*s stands beside tiles of other axes, too, and there is "
                   "a rule for one kind",
                   STR_ARGS(t->values.items[value].name)),
               TAPE_NONE;
    if (!reverse_covers(&t->values.items[part], &t->values.items[value]))
        part = reverse_spread(t, at, part, result);
    return reverse_narrow(t, at, part, result, value);
}

static bool reverse_element(void *context, const tl_expr *e) {
    element_reversal *c = context;
    tape *t = c->r->t;
    int value = tape_is_element(e) ? tape_element(t, e) : TAPE_NONE;
    if (value == TAPE_NONE || !c->r->is_active[value]) return true;
    for (int i = 0; i < c->done.count; i++)
        if (c->done.items[i] == value) return true;
    list_push(t->memory, &c->done, value);
    str slope;
    if (!tape_slope(t, c->item->from, c->expression, e, &slope)) return false;
    if (!slope.length) return true;
    return reverse_gain(c->r, c->item->from, value, element_part(t, c, value, slope));
}

/* What an expression's gradient gives the elements in it. */
static bool reverse_expression(reversal *r, const tape_item *item, int operand, int g) {
    const tl_expr *e = item->operands[operand].expression;
    if (tl_visit(e, is_passive, r)) return true;
    const char *steps = reverse_rule(item->operation, operand);
    if (!steps)
        return tape_refuse(r->t, item->from, "there is no gradient of %s",
                           tl_operation_name(item->operation));
    element_reversal c = {r, item, e, reverse_steps_masked(r->t, item, g, steps), {0}};
    return c.g != TAPE_NONE && tl_visit(e, reverse_element, &c);
}

static bool reverse_elementwise(reversal *r, const tape_item *item, int g) {
    tape *t = r->t;
    if (meets_expression(t, item, g)) g = reverse_spread(t, item->from, g, item->value);
    if (g == TAPE_NONE) return false;
    for (int i = 0; i < item->operand_count; i++) {
        int operand = item->operands[i].value;
        if (operand == TAPE_NONE && !reverse_expression(r, item, i, g)) return false;
        if (operand == TAPE_NONE || !r->is_active[operand]) continue;
        const char *steps = reverse_rule(item->operation, i);
        if (!steps)
            return tape_refuse(t, item->from, "there is no gradient of %s",
                               tl_operation_name(item->operation));
        int part = reverse_steps_masked(t, item, g, steps);
        if (part == TAPE_NONE) return false;
        if (!reverse_gain(r, item->from, operand,
                          reverse_narrow(t, item->from, part, item->value, operand)))
            return false;
    }
    return true;
}

/* What a sum or an extreme begins with. */
static bool reverse_start(reversal *r, const tape_item *end, int g) {
    const tape_sum *sum = &r->t->sums.items[end->sum - 1];
    if (sum->start == TAPE_NONE || !r->is_active[sum->start]) return true;
    if (sum->is_extreme && sum->why_not)
        return tape_refuse(r->t, end->from, "%.*s has no gradient here: %s", STR_ARGS(sum->name),
                           sum->why_not);
    if (sum->is_extreme) g = masked_start(r->t, end, g, true);
    return reverse_gain(r, end->from, sum->start, g);
}

static bool reverse_item(reversal *r, tape_item item) {
    tape *t = r->t;
    int of = item.sum && item.kind != TAPE_LOAD ? t->sums.items[item.sum - 1].value : item.value;
    int g = t->values.items[of].adjoint;
    if (g != TAPE_NONE && item.kind == TAPE_LOAD && item.sum) return reverse_start(r, &item, g);
    bool is_softmax = item.value == t->weights &&
                      (g != TAPE_NONE || t->values.items[t->lse].adjoint != TAPE_NONE);
    if ((g == TAPE_NONE && !is_softmax) || !has_active_operand(r, &item)) return true;
    if (is_softmax) return reverse_softmax(r, &item, g);
    if (item.kind == TAPE_MASK) return reverse_mask(r, &item, g);
    if (item.operation == TL_GEMM) return reverse_product(r, &item, g);
    if (item.place) return reverse_extreme(r, &item, g);
    if (item.operation == TL_ROW_SUM) return reverse_gain(r, item.from, item.operands[0].value, g);
    return reverse_elementwise(r, &item, g);
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
        if (!reverse_gain(r, store->copy, store->value, g)) return false;
        is_any = true;
    }
    return is_any || tape_refuse(t, NULL, "no Output depends on an Input whose gradient is wanted");
}

/* Are its elements each at one place? Else their gradients are made entry by entry. */
static bool stores_whole(const tape *t, const tape_item *load) {
    return load->is_expression ? share_is_known(t, load) : share_covers(t, load);
}

/* What is stored has all axes. */
static bool widen_gradients(reversal *r, int item_count) {
    tape *t = r->t;
    for (int i = 0; i < item_count; i++) {
        const tape_item item = t->items.items[i];
        int g = t->values.items[item.value].adjoint;
        if (!tape_wanted(t, &item) || g == TAPE_NONE) continue;
        g = reverse_spread(t, item.from, g, item.value);
        if (g == TAPE_NONE) return false;
        t->values.items[item.value].adjoint = g;
        bool is_stored_whole = !item.element || stores_whole(t, &item);
        if (!is_stored_whole && !table_reverse(t, i)) return false;
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
        if (is_last_in_loop && !reverse_delta(&r)) return false;
        if (!reverse_item(&r, t->items.items[i])) return false;
    }
    return widen_gradients(&r, item_count);
}
