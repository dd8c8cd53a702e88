/* From a Compute of the sketch to items of the tape. */
#include "derive/read.h"

/* --- operands ----------------------------------------------------------------------------------
 */

static bool names_no_tile(void *context, const tl_expr *e) {
    (void)context;
    bool is_name = e->kind == TL_NAME || e->kind == TL_ELEMENT;
    const tl_symbol *symbol = is_name ? e->symbol : NULL;
    if (e->kind == TL_NAME && tl_tile_of(e)) return false;
    return !symbol || symbol->kind != TL_SYMBOL_VARIABLE || symbol->parameter || symbol->view;
}

static bool read_operand(reading *r, const tl_statement *s, const tl_operand *operand,
                         tape_operand *out) {
    const tl_expr *e = operand->value;
    bool is_tile = e->kind == TL_NAME && tl_tile_of(e);
    *out = (tape_operand){.value = TAPE_NONE, .text = tl_expr_text(r->t->memory, e)};
    if (is_tile) return (out->value = read_meaning(r, s, e)) != TAPE_NONE;
    out->expression = e;
    if (tl_visit(e, names_no_tile, NULL)) return true;
    return tape_refuse(r->t, s, "an expression of tiles' elements, %.*s, has no rule yet",
                       STR_ARGS(out->text));
}

typedef struct element_reading {
    reading *r;
    const tl_statement *s;
    const tape_item *item; /* its value is there, and not the item itself */
} element_reading;

/* The axes of a tile that an element goes by. Where it goes by none of them it keeps one, along
 * which it is summed later: an axis of the Outputs, which no loop walks, for choice.
 */
static int axes_of_element(const tape *t, const tape_value *v, const tl_expr *element,
                           str axes[TAPE_AXES]) {
    int count = 0, kept = 0;
    for (int i = 0; i < element->item_count; i++)
        for (int k = 0; k < v->axis_count; k++) {
            bool is_there = count && str_equal(axes[0], v->axes[k]);
            if (!is_there && count < TAPE_AXES && tl_expr_names(element->items[i], v->axes[k]))
                axes[count++] = v->axes[k];
        }
    if (count) return count;
    for (int k = v->axis_count - 1; k >= 0; k--)
        if (tape_is_of_outputs(t, v->axes[k])) kept = k;
    axes[0] = v->axes[kept];
    return 1;
}

static bool note_element(void *context, const tl_expr *e) {
    element_reading *c = context;
    tape *t = c->r->t;
    if (!tape_is_element(e) || tape_element(t, e) != TAPE_NONE) return true;
    str axes[TAPE_AXES];
    int count = axes_of_element(t, &t->values.items[c->item->value], e, axes);
    int value = tape_new_value(t, e->text, axes, count);
    tape_add(t, (tape_item){.kind = TAPE_LOAD,
                            .value = value,
                            .tensor = e->text,
                            .input = e->text,
                            .element = e,
                            .is_expression = true,
                            .from = c->s});
    return true;
}

/* Elements of Inputs in the expressions of an item have gradients as what is copied has. */
static void note_elements(reading *r, const tl_statement *s, const tape_item *item) {
    element_reading c = {r, s, item};
    for (int i = 0; i < item->operand_count; i++)
        tl_visit(item->operands[i].expression, note_element, &c);
}

typedef struct condition_names {
    reading *r;
    const tl_statement *s;
    tape_item *item;
} condition_names;

static bool note_name(void *context, const tl_expr *e) {
    condition_names *c = context;
    const tl_symbol *symbol = e->kind == TL_NAME ? e->symbol : NULL;
    bool is_tile = symbol && symbol->kind == TL_SYMBOL_VARIABLE && tl_tile_of(e);
    if (!is_tile) return e->kind != TL_ELEMENT || names_no_tile(NULL, e);
    if (c->item->use_count == TAPE_USES) return false;
    int value = read_meaning(c->r, c->s, e);
    c->item->uses[c->item->use_count++] = (tape_use){e->text, value};
    return value != TAPE_NONE;
}

static bool read_condition(reading *r, const tl_statement *s, tape_item *item) {
    condition_names c = {r, s, item};
    item->condition = s->compute.condition;
    if (tl_visit(item->condition, note_name, &c)) return true;
    return diag_has_errors(r->t->diags) ||
           tape_refuse(r->t, s, "the condition names more of tiles than there is a rule for");
}

/* What is summed from block to block: the sum's name means its end, after the loop. */
static bool is_over_walked(const reading *r, const tape_item *item) {
    return r->loop != OUTSIDE && item->over.length &&
           str_equal(item->over, r->t->loops.items[r->loop].walked);
}

static bool is_extreme(tl_operation operation) {
    return operation == TL_ROW_MAX || operation == TL_ROW_MIN;
}

/* Why the forward pass could not leave the place; NULL: it can. */
static const char *why_no_place(const reading *r, const tl_statement *s, int value,
                                bool is_of_loop) {
    bool is_alike = r->loop != OUTSIDE && !is_of_loop &&
                    !tape_has_axis(r->t, value, r->t->loops.items[r->loop].walked);
    if (is_alike) return "it is the same in each block: it is to be written before the loop";
    if (is_of_loop && s->compute.operands[0].is_transposed)
        return "in a loop it has no rule along a tile's first axis: the tile is to be made the "
               "other "
               "way round";
    return NULL;
}

/* The number of the place of what is largest or smallest here. */
static int add_place(reading *r, const tl_statement *s, str name, int value, bool is_of_loop) {
    tape *t = r->t;
    str wanted = str_format(t->memory, is_of_loop ? "%.*s_places" : "%.*s_place", STR_ARGS(name));
    int before = 0; /* of other statements, and called so */
    for (int i = 0; i < t->places.count; i++)
        before += tl_expr_names(t->places.items[i].at->compute.target, name);
    if (before) wanted = str_format(t->memory, "%.*s_%d", STR_ARGS(wanted), before + 1);
    tape_place place = {.tensor = tape_free_name(t, str_copy_z(t->memory, wanted)),
                        .at = s,
                        .axis = t->values.items[value].axes[0],
                        .is_of_loop = is_of_loop,
                        .why_not = why_no_place(r, s, value, is_of_loop)};
    list_push(t->memory, &t->places, place);
    return t->places.count;
}

/* What its tile has before the loop has to be the same number in the gradients' kernels. */
static void begin_extreme(reading *r, tape_sum *sum, const named *old) {
    tape *t = r->t;
    if (!old || old->made != OUTSIDE) return;
    const tape_item *maker = &t->items.items[tape_maker(t, old->value)];
    sum->start = old->is_filled ? TAPE_NONE : old->value;
    if (old->is_filled) sum->begins = maker->operands[0].text;
    if (!old->is_filled && maker->kind != TAPE_LOAD)
        sum->why_not = "it begins with what is computed: with a number, or with what is copied, "
                       "there is a rule";
}

static bool read_into_sum(reading *r, const tl_statement *s, tape_item item, str name,
                          const named *old) {
    tape *t = r->t;
    if (!is_over_walked(r, &item))
        return tape_refuse(t, s,
                           "%.*s gets this once for each block, however many there are: there is "
                           "no rule for it yet",
                           STR_ARGS(name));
    tape_sum *sum = read_sum(r, name);
    if (!sum) return tape_refuse(t, s, "%.*s is written otherwise, too", STR_ARGS(name));
    item.sum = (int)(sum - t->sums.items) + 1;
    sum->is_extreme = is_extreme(item.operation), sum->is_least = item.operation == TL_ROW_MIN;
    if (sum->is_extreme) {
        item.place = add_place(r, s, name, item.value, true);
        begin_extreme(r, sum, old);
    }
    if (!sum->is_extreme && old && old->made == OUTSIDE) {
        sum->start = old->is_filled ? TAPE_NONE : old->value;
        sum->is_nonzero = old->is_filled && !old->is_zero;
    }
    tape_add(t, item);
    return true;
}

static int add_sum(tape *t, int old, int part, tl_operation combining) {
    const tape_value *v = &t->values.items[old];
    tape_item sum = {.kind = TAPE_COMPUTE,
                     .operation = combining,
                     .operand_count = 2,
                     .operands = {{.value = old}, {.value = part}},
                     .accumulates = true};
    sum.value = tape_new_value(t, v->name, v->axes, v->axis_count);
    return tape_add(t, sum);
}

static bool is_no_element(void *context, const tl_expr *e) {
    (void)context;
    return !tape_is_element(e);
}

static bool read_into(reading *r, const tl_statement *s, tape_item item, const tl_expr *target) {
    tape *t = r->t;
    str axes[TAPE_AXES];
    int count;
    if (!read_axes(r, s, target, axes, &count)) return false;
    item.value = tape_new_value(t, target->text, axes, count);
    const named *old = read_find(r, target->text);
    bool is_added = s->compute.target_kind == TL_ACCUMULATE;
    bool is_here = old && (old->made == r->loop || r->loop == OUTSIDE) &&
                   !(old->is_filled && r->loop != OUTSIDE);
    if (is_added && r->loop != OUTSIDE && !is_here)
        return read_into_sum(r, s, item, target->text, old);
    if (is_over_walked(r, &item))
        return tape_refuse(t, s,
                           "%.*s is a sum within each block, which depends on the block's size: "
                           "there is no rule for it, but for sums of the whole loop (accumulate)",
                           STR_ARGS(target->text));
    int before = is_added && is_here ? read_meaning(r, s, target) : TAPE_NONE;
    if (is_added && is_here && before == TAPE_NONE) return false;
    note_elements(r, s, &item);
    if (is_extreme(item.operation)) item.place = add_place(r, s, target->text, item.value, false);
    int value = tape_add(t, item);
    if (before != TAPE_NONE) value = add_sum(t, before, value, tl_combining(item.operation));
    bool is_filled =
        item.operation == TL_FILL && tl_visit(item.operands[0].expression, is_no_element, NULL);
    read_set(r, (named){.name = target->text,
                        .value = value,
                        .is_filled = is_filled,
                        .is_zero = is_filled && str_is(item.operands[0].text, "0")});
    return true;
}

/* Statements of a softmax's m and l alone make statistics, which have no gradient; they may join
 * what has none alone: numbers, and each other.
 */
static bool takes(reading *r, const tl_statement *s, bool statistics) {
    for (int i = 0; i < s->compute.operand_count; i++) {
        const tl_expr *e = s->compute.operands[i].value;
        const named *n = e->kind == TL_NAME ? read_find(r, e->text) : NULL;
        if (n && (n->statistic != NO_STATISTIC) == statistics) return true;
    }
    return false;
}

static bool joins_tile(reading *r, const tl_statement *s) {
    const tl_expr *into = s->compute.target;
    const named *old = into ? read_find(r, into->text) : NULL;
    bool is_added = s->compute.target_kind == TL_ACCUMULATE && old && !old->statistic;
    return is_added || takes(r, s, false);
}

static void set_statistic(reading *r, const tl_expr *target, statistic what) {
    read_set(r, (named){.name = target->text, .value = TAPE_NONE, .statistic = what});
}

static statistic statistic_of(reading *r, const tl_compute *c, int operand) {
    const tl_expr *e = operand < c->operand_count ? c->operands[operand].value : NULL;
    const named *n = e && e->kind == TL_NAME ? read_find(r, e->text) : NULL;
    return n ? n->statistic : NO_STATISTIC;
}

/* m + log l is a value as any other, which the forward pass leaves. */
static bool read_statistic(reading *r, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    if (joins_tile(r, s))
        return tape_refuse(r->t, s,
                           "this joins the maximum or the sum of a Softmax with a tile, for which "
                           "there is no rule but for the log-sum-exp, m + log l");
    statistic a = statistic_of(r, c, 0), b = statistic_of(r, c, 1);
    bool gets = c->target_kind == TL_GET, is_log = gets && c->operation == TL_LOG && a == SUM;
    bool is_lse = gets && c->operation == TL_ADD &&
                  ((a == LOG_OF_SUM && b == MAXIMUM) || (a == MAXIMUM && b == LOG_OF_SUM));
    if (is_lse) read_set(r, (named){.name = c->target->text, .value = r->t->lse});
    else set_statistic(r, c->target, is_log ? LOG_OF_SUM : OTHER_STATISTIC);
    return true;
}

static str contracted_axis(const tl_statement *s) {
    const tl_compute *c = &s->compute;
    tl_product_axes product;
    tl_tile_axis axes[4];
    if (c->operation == TL_GEMM)
        return tl_product_of(&c->operands[0], &c->operands[1], &product) ? product.contracted.index
                                                                         : STR("");
    int count = tl_operand_axes(&c->operands[0], axes);
    return count ? axes[count - 1].index : STR("");
}

static bool read_mask(reading *r, const tl_statement *s) {
    tape *t = r->t;
    const tl_compute *c = &s->compute;
    tape_item item = {.kind = TAPE_MASK, .operation = TL_MASK, .operand_count = 1, .from = s};
    if (!read_operand(r, s, &c->operands[0], &item.operands[0])) return false;
    if (item.operands[0].value == TAPE_NONE) return tape_refuse(t, s, "no tile is masked here");
    if (!read_condition(r, s, &item)) return false;
    if (c->operand_count > 1 && !tl_visit(c->operands[1].value, names_no_tile, NULL))
        return tape_refuse(t, s, "a Mask that writes what a tile has, %.*s, has no rule yet",
                           STR_ARGS(tl_expr_text(t->memory, c->operands[1].value)));
    if (c->operand_count > 1) item.fill = tl_expr_text(t->memory, c->operands[1].value);
    const tape_value *v = &t->values.items[item.operands[0].value];
    item.value = tape_new_value(t, v->name, v->axes, v->axis_count);
    read_set(r, (named){.name = c->operands[0].value->text, .value = tape_add(t, item)});
    return true;
}

/* exp(S - lse), with what the forward pass leaves. A row that saw nothing has a log-sum-exp of
 * minus infinity: plus infinity makes its weights 0.
 */
static bool read_softmax(reading *r, const tl_statement *s) {
    tape *t = r->t;
    const tl_compute *c = &s->compute;
    const tl_statement *loop;
    int axis, scores = read_meaning(r, s, c->operands[0].value);
    if (scores == TAPE_NONE) return false;
    if (t->weights != TAPE_NONE)
        return tape_refuse(t, s, "this is the second Softmax, and there is a rule for one");
    tape_value v = t->values.items[scores];
    tl_softmax_axis(t->kernel, s, &loop, &axis);
    if (v.axis_count != 2 || axis < 0)
        return tape_refuse(t, s, "a Softmax of a vector has no rule yet");
    t->normalised = v.axes[axis];
    int loaded = t->lse = tape_new_value(t, STR("lse"), &v.axes[1 - axis], 1);
    tape_add(t, (tape_item){.kind = TAPE_LOAD, .value = loaded, .from = s});
    int lse = tape_new_value(t, STR("lse"), &v.axes[1 - axis], 1);
    tape_add(
        t, (tape_item){
               .kind = TAPE_MASK,
               .operation = TL_MASK,
               .value = lse,
               .operand_count = 3,
               .operands = {{.value = loaded}, {.value = loaded}, {TAPE_NONE, STR("-1e30"), NULL}},
               .compares = "<",
               .fill = STR("-log(0)"),
               .from = s});
    int less = tape_new_value(t, v.name, v.axes, 2);
    tape_add(t, (tape_item){.kind = TAPE_COMPUTE,
                            .operation = TL_SUBTRACT,
                            .value = less,
                            .operand_count = 2,
                            .operands = {{.value = scores}, {.value = lse}},
                            .from = s});
    t->weights = tape_new_value(t, v.name, v.axes, 2);
    tape_add(t, (tape_item){.kind = TAPE_COMPUTE,
                            .operation = TL_EXP,
                            .value = t->weights,
                            .operand_count = 1,
                            .operands = {{.value = less}},
                            .from = s});
    t->scores = scores, t->shifted = less, t->softmax_loop = r->loop;
    read_set(r, (named){.name = c->operands[0].value->text, .value = t->weights});
    if (!c->maximum) return true;
    const named *m = read_find(r, c->maximum->text), *l = read_find(r, c->sum->text);
    if (m && l) t->starts[0] = m->value, t->starts[1] = l->value;
    set_statistic(r, c->maximum, MAXIMUM), set_statistic(r, c->sum, SUM);
    return true;
}

bool read_compute(reading *r, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    if (c->operation == TL_SOFTMAX) return read_softmax(r, s);
    if (c->operation == TL_MASK && statistic_of(r, c, 0) &&
        (c->operand_count < 2 || tl_visit(c->operands[1].value, names_no_tile, NULL))) {
        set_statistic(r, c->operands[0].value, OTHER_STATISTIC);
        return true;
    }
    if (c->operation == TL_MASK) return read_mask(r, s);
    if (c->operation == TL_ROW_TOP_K || c->operation == TL_ROW_ARG_MAX)
        return tape_refuse(r->t, s, "%s gives places, which have no gradient",
                           tl_operation_name(c->operation));
    if (takes(r, s, true)) return read_statistic(r, s);
    tape_item item = {.kind = TAPE_COMPUTE,
                      .operation = c->operation,
                      .operand_count = c->operand_count,
                      .from = s};
    for (int i = 0; i < c->operand_count; i++)
        if (!read_operand(r, s, &c->operands[i], &item.operands[i])) return false;
    bool contracts =
        c->operation == TL_GEMM || tl_operation_shape(c->operation) == TL_SHAPE_REDUCTION;
    if (contracts) item.over = contracted_axis(s);
    return read_into(r, s, item, c->target);
}
