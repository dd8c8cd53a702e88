/* From the statements of a sketch to a tape. */
#include "derive/tape.h"

/* --- reading ---------------------------------------------------------------------------------- */

enum { OUTSIDE = -1 };

/* What a tile's name means at a place of the sketch. */
typedef struct named {
    str name;
    int value;
    int made;                /* in this loop, or OUTSIDE; a sum's end, too, is made outside */
    bool is_filled, is_zero; /* with a number, 0 */
    bool is_statistic;       /* made of a softmax's m and l */
} named;

typedef struct reading {
    tape *t;
    int loop; /* where statements are read; or OUTSIDE */
    LIST(named) names;
} reading;

static named *find_name(reading *r, str name) {
    for (int i = 0; i < r->names.count; i++)
        if (str_equal(r->names.items[i].name, name)) return &r->names.items[i];
    return NULL;
}

static void set_name(reading *r, named what) {
    named *old = find_name(r, what.name);
    what.made = r->loop;
    if (old) *old = what;
    else list_push(r->t->memory, &r->names, what);
}

static bool writes_name(const tl_statement *s, str name) {
    const tl_expr *written = tl_written_name(s);
    return written && str_equal(written->text, name);
}

static const tl_statement *first_in_loop(const reading *r) {
    return r->loop == OUTSIDE ? NULL : r->t->loops.items[r->loop].statement->loop.body.first;
}

/* The loop's own sum of that name; NULL: there is none. */
static tape_sum *sum_of_loop(const reading *r, str name) {
    for (int i = 0; i < r->t->sums.count; i++) {
        tape_sum *sum = &r->t->sums.items[i];
        if (sum->loop == r->loop && str_equal(sum->name, name)) return sum;
    }
    return NULL;
}

/* After a loop, a tile that was made in it is that of one block; a sum is named anew at the end,
 * and what was copied without the walked axis is the same in each block.
 */
static bool is_of_last_block(const reading *r, const named *n) {
    if (n->made == OUTSIDE || n->made == r->loop || n->is_statistic) return false;
    const tape_item *made = &r->t->items.items[tape_maker(r->t, n->value)];
    return made->kind != TAPE_LOAD ||
           tape_has_axis(r->t, n->value, r->t->loops.items[n->made].walked);
}

/* The value of a name here; TAPE_NONE: reported. */
static int value_of(reading *r, const tl_statement *s, const tl_expr *name) {
    tape *t = r->t;
    const named *n = find_name(r, name->text);
    bool is_changed = false; /* by the loop, from what the name meant before it */
    for (const tl_statement *other = first_in_loop(r); other; other = other->next)
        is_changed |= writes_name(other, name->text);
    bool is_carried = (n && n->made == OUTSIDE && is_changed) ||
                      (r->loop != OUTSIDE && sum_of_loop(r, name->text));
    if (is_carried)
        tape_refuse(t, s, "%.*s goes on from block to block, for which there is no rule yet",
                    STR_ARGS(name->text));
    else if (!n) tape_refuse(t, s, "%.*s is read before it is written", STR_ARGS(name->text));
    bool is_last_block = n && is_of_last_block(r, n);
    if (is_last_block)
        tape_refuse(t, s,
                    "%.*s is what the last block of the loop left here, for which there is no rule "
                    "yet",
                    STR_ARGS(name->text));
    return n && !is_carried && !is_last_block ? n->value : TAPE_NONE;
}

static bool axes_of_name(reading *r, const tl_statement *s, const tl_expr *name, str out[2],
                         int *count) {
    const tl_tile *tile = s->kind == TL_COPY ? tl_copy_target(s).tile : tl_tile_of(name);
    *count = tile ? tile->axis_count : 0;
    if (*count < 1 || *count > TAPE_AXES)
        return tape_refuse(r->t, s,
                           "%.*s has %d axes here: gradients are derived for tiles of one or two",
                           STR_ARGS(name->text), *count);
    for (int i = 0; i < *count; i++) out[i] = tile->axes[i].index;
    return true;
}

/* --- Copy ------------------------------------------------------------------------------------- */

static const tape_item *find_load(const tape *t, str tensor) {
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        if (item->kind == TAPE_LOAD && str_equal(item->tensor, tensor)) return item;
    }
    return NULL;
}

static bool read_load(reading *r, const tl_statement *s) {
    tape *t = r->t;
    const tl_expr *into = tl_copy_into(s);
    const tape_item *known = find_load(t, s->copy.what->text);
    str axes[TAPE_AXES];
    int count;
    if (!axes_of_name(r, s, into, axes, &count)) return false;
    bool is_walked = false;
    for (int i = 0; known && i < t->loops.count; i++)
        is_walked |= tape_has_axis(t, known->value, t->loops.items[i].walked);
    if (is_walked && !known->from->parent != !s->parent)
        return tape_refuse(t, s, "%.*s is copied in the loop and outside of it",
                           STR_ARGS(s->copy.what->text));
    int value = known ? known->value : TAPE_NONE;
    if (!known) {
        value = tape_new_value(t, into->text, axes, count);
        tape_add(t,
                 (tape_item){
                     .kind = TAPE_LOAD, .value = value, .tensor = s->copy.what->text, .from = s});
    }
    set_name(r, (named){.name = into->text, .value = value});
    return true;
}

static bool read_store(reading *r, const tl_statement *s) {
    tape *t = r->t;
    const tl_symbol *output = tl_copy_into(s)->symbol;
    if (s->copy.target_kind == TL_ACCUMULATE)
        return tape_refuse(
            t, s, "what is accumulated in memory has no rule yet: sum in a tile, and store that");
    if (!output || !output->parameter || !output->is_output)
        return tape_refuse(t, s,
                           "%.*s is a view: gradients are derived of sketches whose Outputs are "
                           "stored whole, as they are declared",
                           STR_ARGS(tl_copy_into(s)->text));
    const named *n = find_name(r, s->copy.what->text);
    bool is_statistic = n && n->is_statistic;
    int value = is_statistic ? TAPE_NONE : value_of(r, s, s->copy.what);
    if (!is_statistic && value == TAPE_NONE) return false;
    tape_store store = {s, output->parameter, value, is_statistic};
    list_push(t->memory, &t->stores, store);
    return true;
}

static bool read_copy(reading *r, const tl_statement *s) {
    if (s->copy.place.is_given)
        return tape_refuse(r->t, s,
                           "a Copy with a coordinate has no rule yet: a sketch needs none");
    if (s->copy.from == TL_GLOBAL) return read_load(r, s);
    if (s->copy.to == TL_GLOBAL) return read_store(r, s);
    return tape_refuse(r->t, s, "copies between shared memory and registers are for TL Code");
}

/* --- Compute ---------------------------------------------------------------------------------- */

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
    if (is_tile) return (out->value = value_of(r, s, e)) != TAPE_NONE;
    out->expression = e;
    if (tl_visit(e, names_no_tile, NULL)) return true;
    return tape_refuse(r->t, s, "an expression of tiles' elements, %.*s, has no rule yet",
                       STR_ARGS(out->text));
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
    int value = value_of(c->r, c->s, e);
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

static bool read_into_sum(reading *r, const tl_statement *s, tape_item item, str name,
                          const named *old) {
    tape *t = r->t;
    bool is_sum = item.operation == TL_GEMM || item.operation == TL_ROW_SUM ||
                  tl_combining(item.operation) == TL_ADD;
    if (!is_sum)
        return tape_refuse(t, s, "%s accumulated from block to block has no gradient",
                           tl_operation_name(item.operation));
    if (!is_over_walked(r, &item))
        return tape_refuse(t, s,
                           "%.*s gets this once for each block, however many there are: there is "
                           "no rule for it yet",
                           STR_ARGS(name));
    tape_sum *sum = sum_of_loop(r, name);
    if (!sum) return tape_refuse(t, s, "%.*s is written otherwise, too", STR_ARGS(name));
    item.sum = (int)(sum - t->sums.items) + 1;
    if (old && old->made == OUTSIDE) {
        sum->start = old->is_filled ? TAPE_NONE : old->value;
        sum->is_nonzero = old->is_filled && !old->is_zero;
    }
    tape_add(t, item);
    return true;
}

static int add_sum(tape *t, int old, int part) {
    const tape_value *v = &t->values.items[old];
    tape_item sum = {.kind = TAPE_COMPUTE,
                     .operation = TL_ADD,
                     .operand_count = 2,
                     .operands = {{.value = old}, {.value = part}},
                     .accumulates = true};
    sum.value = tape_new_value(t, v->name, v->axes, v->axis_count);
    return tape_add(t, sum);
}

static bool read_into(reading *r, const tl_statement *s, tape_item item, const tl_expr *target) {
    tape *t = r->t;
    str axes[TAPE_AXES];
    int count;
    if (!axes_of_name(r, s, target, axes, &count)) return false;
    item.value = tape_new_value(t, target->text, axes, count);
    const named *old = find_name(r, target->text);
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
    int before = is_added && is_here ? value_of(r, s, target) : TAPE_NONE;
    if (is_added && is_here && before == TAPE_NONE) return false;
    int value = tape_add(t, item);
    if (before != TAPE_NONE) value = add_sum(t, before, value);
    bool is_filled = item.operation == TL_FILL;
    set_name(r, (named){.name = target->text,
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
        const named *n = e->kind == TL_NAME ? find_name(r, e->text) : NULL;
        if (n && n->is_statistic == statistics) return true;
    }
    return false;
}

static bool joins_tile(reading *r, const tl_statement *s) {
    const tl_expr *into = s->compute.target;
    const named *old = into ? find_name(r, into->text) : NULL;
    bool is_added = s->compute.target_kind == TL_ACCUMULATE && old && !old->is_statistic;
    return is_added || takes(r, s, false);
}

static void read_statistic(reading *r, const tl_expr *target) {
    set_name(r, (named){.name = target->text, .value = TAPE_NONE, .is_statistic = true});
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
    set_name(r, (named){.name = c->operands[0].value->text, .value = tape_add(t, item)});
    return true;
}

/* exp(S - lse), with what the forward pass leaves. A row that saw nothing has a log-sum-exp of
 * minus infinity: plus infinity makes its weights 0.
 */
static bool read_softmax(reading *r, const tl_statement *s) {
    tape *t = r->t;
    const tl_compute *c = &s->compute;
    const tl_statement *loop;
    int axis, scores = value_of(r, s, c->operands[0].value);
    if (scores == TAPE_NONE) return false;
    if (t->weights != TAPE_NONE)
        return tape_refuse(t, s, "this is the second Softmax, and there is a rule for one");
    tape_value v = t->values.items[scores];
    tl_softmax_axis(t->kernel, s, &loop, &axis);
    if (v.axis_count != 2 || axis < 0)
        return tape_refuse(t, s, "a Softmax of a vector has no rule yet");
    t->normalised = v.axes[axis];
    int loaded = tape_new_value(t, STR("lse"), &v.axes[1 - axis], 1);
    tape_add(t,
             (tape_item){.kind = TAPE_LOAD, .value = loaded, .tensor = t->lse_tensor, .from = s});
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
    set_name(r, (named){.name = c->operands[0].value->text, .value = t->weights});
    if (c->maximum) read_statistic(r, c->maximum), read_statistic(r, c->sum);
    return true;
}

static bool read_compute(reading *r, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    if (c->operation == TL_SOFTMAX) return read_softmax(r, s);
    if (c->operation == TL_MASK) return read_mask(r, s);
    if (c->operation == TL_ROW_TOP_K || c->operation == TL_ROW_ARG_MAX)
        return tape_refuse(r->t, s, "%s gives places, which have no gradient",
                           tl_operation_name(c->operation));
    if (takes(r, s, true)) {
        if (joins_tile(r, s))
            return tape_refuse(r->t, s,
                               "this joins the maximum or the sum of a Softmax with a tile, for "
                               "which there is no rule yet");
        return read_statistic(r, c->target), true;
    }
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

/* --- the kernel ------------------------------------------------------------------------------- */

static bool is_accumulated(const tl_statement *s) {
    return s->kind == TL_COMPUTE && s->compute.target_kind == TL_ACCUMULATE;
}

static bool is_sum_of_loop(const reading *r, const tl_statement *s) {
    if (!is_accumulated(s)) return false;
    for (const tl_statement *other = first_in_loop(r); other != s; other = other->next)
        if (writes_name(other, s->compute.target->text) && !is_accumulated(other)) return false;
    return true;
}

/* Sums over the loop's blocks, each once; their ends are loaded where gradients need them. */
static bool find_sums(reading *r) {
    tape *t = r->t;
    for (const tl_statement *s = first_in_loop(r); s; s = s->next) {
        if (!is_sum_of_loop(r, s) || sum_of_loop(r, s->compute.target->text)) continue;
        str axes[TAPE_AXES], name = s->compute.target->text;
        int count;
        if (!axes_of_name(r, s, s->compute.target, axes, &count)) return false;
        for (const tl_statement *other = s; other; other = other->next)
            if (writes_name(other, name) && !is_accumulated(other))
                return tape_refuse(t, other, "%.*s is a sum over the loop, and written here, too",
                                   STR_ARGS(name));
        tape_sum sum = {.name = name, .loop = r->loop, .start = TAPE_NONE};
        sum.value = tape_new_value(t, sum.name, axes, count);
        list_push(t->memory, &t->sums, sum);
    }
    return true;
}

static void load_sums(reading *r, int loop) {
    tape *t = r->t;
    for (int i = 0; i < t->sums.count; i++) {
        tape_sum *sum = &t->sums.items[i];
        if (sum->loop != loop) continue;
        tape_add(t, (tape_item){.kind = TAPE_LOAD,
                                .value = sum->value,
                                .sum = i + 1,
                                .from = t->loops.items[loop].statement});
        set_name(r, (named){.name = sum->name, .value = sum->value});
    }
}

static bool read_block(reading *r, const tl_block *block);

static bool read_loop(reading *r, const tl_statement *s) {
    tape *t = r->t;
    int loop = 0;
    while (t->loops.items[loop].statement != s) loop++;
    r->loop = loop;
    if (!find_sums(r) || !read_block(r, &s->loop.body)) return false;
    r->loop = OUTSIDE;
    t->loops.items[loop].end = t->items.count;
    load_sums(r, loop);
    return true;
}

static bool read_block(reading *r, const tl_block *block) {
    for (const tl_statement *s = block->first; s; s = s->next) {
        if (s->kind == TL_FOR && !read_loop(r, s)) return false;
        if (s->kind == TL_COPY && !read_copy(r, s)) return false;
        if (s->kind == TL_COMPUTE && !read_compute(r, s)) return false;
    }
    return true;
}

bool tape_read(tape *t, tl_kernel *kernel, arena *memory, diag_list *diags) {
    *t = (tape){.memory = memory,
                .diags = diags,
                .kernel = kernel,
                .scores = TAPE_NONE,
                .shifted = TAPE_NONE,
                .softmax_loop = TAPE_NONE,
                .weights = TAPE_NONE,
                .delta = TAPE_NONE};
    reading r = {.t = t, .loop = OUTSIDE};
    if (!tape_outline(t) || !read_block(&r, &kernel->body)) return false;
    t->forward_items = t->items.count;
    if (!t->stores.count) return tape_refuse(t, NULL, "the kernel stores nothing");
    return true;
}
