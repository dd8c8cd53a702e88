/* From the statements of a sketch to a tape. */
#include "derive/read.h"

/* --- reading ---------------------------------------------------------------------------------- */

named *read_find(reading *r, str name) {
    for (int i = 0; i < r->names.count; i++)
        if (str_equal(r->names.items[i].name, name)) return &r->names.items[i];
    return NULL;
}

void read_set(reading *r, named what) {
    named *old = read_find(r, what.name);
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

tape_sum *read_sum(const reading *r, str name) {
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
    if (n->made == OUTSIDE || n->made == r->loop || n->statistic) return false;
    const tape_item *made = &r->t->items.items[tape_maker(r->t, n->value)];
    return made->kind != TAPE_LOAD ||
           tape_has_axis(r->t, n->value, r->t->loops.items[n->made].walked);
}

int read_meaning(reading *r, const tl_statement *s, const tl_expr *name) {
    tape *t = r->t;
    const named *n = read_find(r, name->text);
    bool is_changed = false; /* by the loop, from what the name meant before it */
    for (const tl_statement *other = first_in_loop(r); other; other = other->next)
        is_changed |= writes_name(other, name->text);
    bool is_carried =
        (n && n->made == OUTSIDE && is_changed) || (r->loop != OUTSIDE && read_sum(r, name->text));
    if (is_carried)
        tape_refuse(t, s, "%.*s goes on from block to block, for which there is no rule yet",
                    STR_ARGS(name->text));
    else if (!n) tape_refuse(t, s, "%.*s is read before it is written", STR_ARGS(name->text));
    else if (n->statistic)
        tape_refuse(t, s,
                    "%.*s is made of a Softmax's maximum or sum: there is no rule for it here",
                    STR_ARGS(name->text));
    bool is_last_block = n && is_of_last_block(r, n);
    if (is_last_block)
        tape_refuse(t, s,
                    "%.*s is what the last block of the loop left here, for which there is no rule "
                    "yet",
                    STR_ARGS(name->text));
    return n && !is_carried && !is_last_block ? n->value : TAPE_NONE;
}

bool read_axes(reading *r, const tl_statement *s, const tl_expr *name, str out[2], int *count) {
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

/* Is it the element of the place that a tile is copied from, with the tile's axes? */
static bool is_of_copy(const tape *t, const tape_item *load, const str *axes, int count) {
    const tl_parameter *of = tape_tensor(t, load->input);
    bool is_same = t->values.items[load->value].axis_count == count;
    for (int i = 0; i < count && is_same; i++) is_same = tape_has_axis(t, load->value, axes[i]);
    for (int i = 0; i < of->axes.count && is_same; i++)
        is_same = tl_expr_equal(load->element->items[i], of->axes.items[i].coordinate);
    return is_same;
}

/* What was copied from a tensor already, or read as elements of the same place. */
static const tape_item *find_load(tape *t, str tensor, const str *axes, int count) {
    for (int i = 0; i < t->items.count; i++) {
        tape_item *item = &t->items.items[i];
        if (item->kind != TAPE_LOAD || !str_equal(item->tensor, tensor)) continue;
        if (item->is_expression && !is_of_copy(t, item, axes, count)) continue;
        if (item->is_expression) item->element = NULL, item->is_expression = false;
        return item;
    }
    return NULL;
}

static bool read_load(reading *r, const tl_statement *s) {
    tape *t = r->t;
    const tl_expr *into = tl_copy_into(s);
    str axes[TAPE_AXES];
    int count;
    if (!read_axes(r, s, into, axes, &count)) return false;
    const tape_item *known = find_load(t, s->copy.what->text, axes, count);
    bool is_walked = false;
    for (int i = 0; known && i < t->loops.count; i++)
        is_walked |= tape_has_axis(t, known->value, t->loops.items[i].walked);
    if (is_walked && !known->from->parent != !s->parent)
        return tape_refuse(t, s, "%.*s is copied in the loop and outside of it",
                           STR_ARGS(s->copy.what->text));
    int value = known ? known->value : TAPE_NONE;
    if (!known) {
        value = tape_new_value(t, into->text, axes, count);
        const tl_expr *what = s->copy.what, *shown = tape_view_element(what->symbol);
        tape_add(t, (tape_item){.kind = TAPE_LOAD,
                                .value = value,
                                .tensor = what->text,
                                .input = shown ? shown->text : what->text,
                                .element = shown,
                                .from = s});
    }
    read_set(r, (named){.name = into->text, .value = value});
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
    const named *n = read_find(r, s->copy.what->text);
    bool is_statistic = n && n->statistic;
    int value = is_statistic ? TAPE_NONE : read_meaning(r, s, s->copy.what);
    if (!is_statistic && value == TAPE_NONE) return false;
    const tl_parameter *into = &output->parameter->parameter;
    if (value != TAPE_NONE && value == t->lse && !t->lse_tensor.length && into->type == TL_F32)
        t->lse_tensor = into->name;
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

/* --- the kernel ------------------------------------------------------------------------------- */

static bool is_sum_of_loop(const reading *r, const tl_statement *s) {
    if (!tl_accumulates(s)) return false;
    for (const tl_statement *other = first_in_loop(r); other != s; other = other->next)
        if (writes_name(other, s->compute.target->text) && !tl_accumulates(other)) return false;
    return true;
}

/* Sums over the loop's blocks, each once; their ends are loaded where gradients need them. */
static bool find_sums(reading *r) {
    tape *t = r->t;
    for (const tl_statement *s = first_in_loop(r); s; s = s->next) {
        if (!is_sum_of_loop(r, s) || read_sum(r, s->compute.target->text)) continue;
        str axes[TAPE_AXES], name = s->compute.target->text;
        int count;
        if (!read_axes(r, s, s->compute.target, axes, &count)) return false;
        for (const tl_statement *other = s; other; other = other->next)
            if (writes_name(other, name) && !tl_accumulates(other))
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
        read_set(r, (named){.name = sum->name, .value = sum->value});
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

/* The Output that has the log-sum-exp, or will. */
static void name_lse(tape *t) {
    if (t->lse == TAPE_NONE) return;
    t->lse_is_output = t->lse_tensor.length > 0;
    if (!t->lse_is_output) t->lse_tensor = tape_free_name(t, "lse");
    t->items.items[tape_maker(t, t->lse)].tensor = t->lse_tensor;
}

bool tape_read(tape *t, tl_kernel *kernel, arena *memory, diag_list *diags) {
    *t = (tape){.memory = memory,
                .diags = diags,
                .kernel = kernel,
                .lse = TAPE_NONE,
                .starts = {TAPE_NONE, TAPE_NONE},
                .scores = TAPE_NONE,
                .shifted = TAPE_NONE,
                .softmax_loop = TAPE_NONE,
                .weights = TAPE_NONE,
                .delta = TAPE_NONE};
    reading r = {.t = t, .loop = OUTSIDE};
    if (!tape_outline(t) || !read_block(&r, &kernel->body)) return false;
    name_lse(t);
    t->forward_items = t->items.count;
    if (!t->stores.count) return tape_refuse(t, NULL, "the kernel stores nothing");
    return true;
}
