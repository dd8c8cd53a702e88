#include "derive/writer.h"

#include <string.h>

/* --- lines ------------------------------------------------------------------------------------ */

static str fresh(writer *w, str wanted) {
    arena *memory = w->t->memory;
    str name = wanted.length ? wanted : STR("t");
    for (int n = 2; words_have(&w->taken, name); n++)
        name = str_format(memory, "%.*s_%d", STR_ARGS(wanted.length ? wanted : STR("t")), n);
    words_add(memory, &w->taken, name);
    return name;
}

static void add_line(writer *w, section where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add_line(writer *w, section where, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    str line = str_format_list(w->t->memory, format, arguments);
    va_end(arguments);
    if (where == INSIDE) text_add_z(&w->lines[where], "    ");
    text_add(&w->lines[where], line);
    text_add_z(&w->lines[where], "\n");
}

static void write_copy(writer *w, section where, str tensor, const char *space, str name) {
    if (str_equal(tensor, name))
        add_line(w, where, "Copy %.*s from global to %s", STR_ARGS(tensor), space);
    else
        add_line(w, where, "Copy %.*s from global to %s and get %.*s", STR_ARGS(tensor), space,
                 STR_ARGS(name));
}

/* May the item write over this operand, the last to read it? A matrix that was copied keeps the
 * type that it has in memory, which is not that of results.
 */
static bool may_replace(const writer *w, int i, const tape_item *item, int value) {
    if (value == TAPE_NONE || item->operation == TL_GEMM || item->over.length) return false;
    const shown *s = &w->values[value];
    const tape_value *own = &w->t->values.items[item->value];
    bool is_here = s->last_use == writer_key(w, i) && s->ready == w->sections[i] && s->name.length;
    return is_here && !(s->is_copied && own->axis_count > 1) &&
           writer_same_axes(own, &w->t->values.items[value]);
}

static const tape_item *find_accumulation(const writer *w, int i);

static str name_of(writer *w, int i, const tape_item *item) {
    const tape_item *add = item->over.length ? find_accumulation(w, i) : NULL;
    if (add) return w->values[add->operands[0].value].name;
    int operands = item->kind == TAPE_MASK ? 1 : item->operand_count;
    for (int k = 0; k < operands; k++)
        if (may_replace(w, i, item, item->operands[k].value))
            return w->values[item->operands[k].value].name;
    return fresh(w, w->t->values.items[item->value].name);
}

static str operand_text(const writer *w, const tape_operand *operand) {
    return operand->value == TAPE_NONE ? operand->text : w->values[operand->value].name;
}

static tl_expr *renamed(const writer *w, const tape_item *item, tl_expr *e) {
    if (!e) return e;
    for (int k = 0; k < item->use_count && e->kind == TL_NAME; k++)
        if (str_equal(e->text, item->uses[k].name)) {
            e->text = w->values[item->uses[k].value].name;
            break;
        }
    renamed(w, item, e->left);
    renamed(w, item, e->right);
    for (int i = 0; i < e->item_count; i++) renamed(w, item, e->items[i]);
    return e;
}

static void write_mask(writer *w, int i, const tape_item *item, str of, str name) {
    tape *t = w->t;
    str condition =
        item->compares
            ? str_format(t->memory, "%.*s %s %.*s", STR_ARGS(operand_text(w, &item->operands[1])),
                         item->compares, STR_ARGS(operand_text(w, &item->operands[2])))
            : tl_expr_text(t->memory, renamed(w, item, tl_expr_copy(t->memory, item->condition)));
    if (!str_equal(of, name))
        add_line(w, w->sections[i], "Compute Multiply %.*s, 1 and get %.*s", STR_ARGS(of),
                 STR_ARGS(name));
    add_line(w, w->sections[i], "Compute Mask %.*s%s%.*s where %.*s", STR_ARGS(name),
             item->fill.length ? ", " : "", STR_ARGS(item->fill), STR_ARGS(condition));
}

/* A product's operand, its axes in this order. */
static str turned(const writer *w, int value, str first) {
    const shown *s = &w->values[value];
    str name = s->shared.length ? s->shared : s->name;
    if (str_equal(w->values[value].first, first)) return name;
    return str_format(w->t->memory, "%.*s.T", STR_ARGS(name));
}

static str other_axis(const tape *t, int value, str axis) {
    const tape_value *v = &t->values.items[value];
    return v->axes[str_equal(v->axes[0], axis)];
}

/* The Add that a product or a sum is made for, where it can go right into the tile that it adds to.
 */
static const tape_item *find_accumulation(const writer *w, int i) {
    const tape *t = w->t;
    for (int k = i + 1; k < t->items.count; k++) {
        const tape_item *add = &t->items.items[k];
        bool is_of = add->accumulates && w->values[add->value].is_live &&
                     add->operands[1].value == t->items.items[i].value;
        if (!is_of) continue;
        bool is_only = w->values[t->items.items[i].value].last_use == writer_key(w, k) &&
                       w->sections[k] == w->sections[i];
        return is_only && may_replace(w, k, add, add->operands[0].value) ? add : NULL;
    }
    return NULL;
}

static const tl_axes *axes_of_tensor(const tape *t, str tensor) {
    const tl_axes *found = tape_output_axes(t); /* of what is made here */
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        bool is_tensor = tl_is_parameter(s);
        bool is_gradient = s->kind == TL_OUTPUT && tensor.length > 1 && tensor.data[0] == 'd' &&
                           str_equal(s->parameter.name, (str){tensor.data + 1, tensor.length - 1});
        if (is_tensor && str_equal(s->parameter.name, tensor)) return &s->parameter.axes;
        if (is_gradient) found = &s->parameter.axes;
    }
    return found;
}

/* "pair[head, q, kv]" */
static str element_of(const writer *w, const tape_item *load) {
    const tape *t = w->t;
    str tensor = writer_tensor(w, load), text = STR("");
    const tl_axes *all = axes_of_tensor(t, tensor);
    for (int i = 0; i < all->count; i++)
        text = str_format(t->memory, "%.*s%s%.*s", STR_ARGS(text), i ? ", " : "",
                          STR_ARGS(tl_expr_text(t->memory, all->items[i].coordinate)));
    return str_format(t->memory, "%.*s[%.*s]", STR_ARGS(tensor), STR_ARGS(text));
}

/* A view of what is loaded, its columns first, and the tile that is copied of it. */
static str write_turned(writer *w, int i, const tape_item *load) {
    tape *t = w->t;
    str tensor = writer_tensor(w, load), axes = STR(""), element = STR("");
    str name = fresh(w, str_format(t->memory, "%.*s_turned", STR_ARGS(tensor)));
    const tl_axes *all = axes_of_tensor(t, tensor);
    const tape_value *v = &t->values.items[load->value];
    for (int k = 0; k < tl_matrix_begin(all); k++) {
        str at = tl_expr_text(t->memory, all->items[k].coordinate);
        str extent = tl_expr_text(t->memory, all->items[k].extent);
        axes = str_format(t->memory, "%.*s%s%.*s in %.*s", STR_ARGS(axes), k ? ", " : "",
                          STR_ARGS(at), STR_ARGS(extent));
        element = str_format(t->memory, "%.*s%.*s, ", STR_ARGS(element), STR_ARGS(at));
    }
    if (load->sum) w->reads_sum[load->sum - 1] = true;
    text_format(&w->views, "let %.*s (%.*s%s%.*s, %.*s) = %.*s[%.*s%.*s, %.*s]\n", STR_ARGS(name),
                STR_ARGS(axes), axes.length ? "; " : "", STR_ARGS(write_axis(t, v->axes[1])),
                STR_ARGS(write_axis(t, v->axes[0])), STR_ARGS(tensor), STR_ARGS(element),
                STR_ARGS(v->axes[0]), STR_ARGS(v->axes[1]));
    write_copy(w, w->sections[i], name, "register", name);
    return name;
}

static void write_load(writer *w, int i, const tape_item *item) {
    shown *s = &w->values[item->value];
    s->is_copied = true;
    if (item->sum) w->reads_sum[item->sum - 1] = true;
    if (writer_reads_elements(w, item)) {
        s->name = element_of(w, item);
        return;
    }
    str tensor = writer_tensor(w, item);
    bool is_named = words_have(&w->taken, tensor);
    str name = is_named ? fresh(w, tensor) : tensor;
    words_add(w->t->memory, &w->taken, name);
    if (s->is_multiplied) s->shared = name, write_copy(w, w->sections[i], tensor, "shared", name);
    if (!s->is_computed_with) return; /* a product's, or copied otherwise */
    s->name =
        s->is_multiplied ? fresh(w, str_format(w->t->memory, "%.*s_r", STR_ARGS(name))) : name;
    write_copy(w, w->sections[i], tensor, "register", s->name);
}

static void write_contraction(writer *w, int i, const tape_item *item, str name) {
    tape *t = w->t;
    bool is_added = str_equal(item->over, w->k->walk) || find_accumulation(w, i);
    const char *into = is_added ? "accumulate" : "get";
    if (item->operation != TL_GEMM) {
        int of = item->operands[0].value;
        if (writer_sums_turned(w, item)) {
            str turned_name = write_turned(w, i, writer_sums_turned(w, item));
            const tape_item *mask = writer_masked_by(w, item);
            if (mask) write_mask(w, i, mask, turned_name, turned_name);
            add_line(w, w->sections[i], "Compute %s %.*s and %s %.*s",
                     tl_operation_name(item->operation), STR_ARGS(turned_name), into,
                     STR_ARGS(name));
            return;
        }
        bool is_first = str_equal(w->values[of].first, item->over);
        add_line(w, w->sections[i], "Compute %s %.*s%s and %s %.*s",
                 tl_operation_name(item->operation), STR_ARGS(w->values[of].name),
                 is_first ? ".T" : "", into, STR_ARGS(name));
        return;
    }
    int a = item->operands[0].value, b = item->operands[1].value;
    if (!str_equal(w->values[item->value].first, other_axis(t, a, item->over))) {
        int other = a;
        a = b, b = other;
    }
    add_line(w, w->sections[i], "Compute GEMM %.*s, %.*s and %s %.*s",
             STR_ARGS(turned(w, a, other_axis(t, a, item->over))),
             STR_ARGS(turned(w, b, item->over)), into, STR_ARGS(name));
}

static void write_item(writer *w, int i) {
    const tape_item *item = &w->t->items.items[i];
    if (!w->values[item->value].is_live) return;
    if (writer_loads(w, item)) {
        write_load(w, i, item);
        return;
    }
    str name = name_of(w, i, item);
    w->values[item->value].name = name;
    bool is_done = item->accumulates && str_equal(operand_text(w, &item->operands[0]),
                                                  operand_text(w, &item->operands[1]));
    if (is_done) return;
    if (item->kind == TAPE_MASK) {
        write_mask(w, i, item, operand_text(w, &item->operands[0]), name);
        return;
    }
    if (item->over.length) {
        write_contraction(w, i, item, name);
        return;
    }
    str operands = STR("");
    for (int k = 0; k < item->operand_count; k++)
        operands = str_format(w->t->memory, "%.*s%s%.*s", STR_ARGS(operands), k ? ", " : "",
                              STR_ARGS(operand_text(w, &item->operands[k])));
    add_line(w, w->sections[i], "Compute %s %.*s and get %.*s", tl_operation_name(item->operation),
             STR_ARGS(operands), STR_ARGS(name));
}

/* --- the kernel ------------------------------------------------------------------------------- */

static void write_store(writer *w, int value, str tensor) {
    const shown *s = &w->values[value];
    str name = s->name.length ? s->name : s->shared;
    bool is_same = str_equal(name, tensor);
    add_line(w, s->ready, "Copy %.*s from register to global%s%.*s", STR_ARGS(name),
             is_same ? "" : " and get ", STR_ARGS(is_same ? STR("") : tensor));
}

static void write_addition(writer *w, int item) {
    const shown *s = &w->values[w->t->items.items[item].value];
    add_line(w, s->ready, "Copy %.*s from register to global and accumulate %.*s",
             STR_ARGS(s->name), STR_ARGS(write_cut_tensor(w->t, item)));
}

static void write_start(writer *w, int item) {
    str tensor = write_cut_tensor(w->t, item);
    add_line(w, BEFORE, "Compute Fill 0 and get %.*s // what it is added to", STR_ARGS(tensor));
    add_line(w, BEFORE, "Copy %.*s from register to global", STR_ARGS(tensor));
}

/* As it is, or by a view. */
static void write_gradient(writer *w, int item) {
    tape *t = w->t;
    const tape_item *load = &t->items.items[item];
    str name = share_gradient(t, load);
    str place = str_format(t->memory, "%.*s_tile", STR_ARGS(name));
    str view = share_view(t, load, place);
    if (view.length) {
        place = fresh(w, place);
        text_add(&w->views, share_view(t, load, place));
    }
    write_store(w, tape_gradient(t, item), view.length ? place : name);
}

/* When it is written: of tiles that add to memory, late sums after all else of the loop. */
static int round_of(const writer *w, int i) {
    if (!w->k->add_count) return 0;
    return w->sections[i] == AFTER ? 2 : writer_is_late(w, i);
}

bool write_gradients(tape *t, const write_kernel *k, bool *reads_sum, text_buffer *out) {
    writer w = {.t = t, .k = k, .reads_sum = reads_sum};
    w.values = arena_array(t->memory, shown, t->values.count);
    w.sections = arena_array(t->memory, section, t->items.count);
    for (int i = 0; i < SECTIONS; i++) text_init_in(&w.lines[i], t->memory);
    text_init_in(&w.views, t->memory);
    for (int i = 0; i < t->kernel->symbol_count; i++) {
        const tl_symbol *symbol = t->kernel->symbols[i];
        bool is_tile = symbol->kind == TL_SYMBOL_VARIABLE;
        if (!is_tile && symbol->kind != TL_SYMBOL_LOOP && symbol->kind != TL_SYMBOL_OPEN)
            words_add(t->memory, &w.taken, symbol->name);
    }
    for (int i = 0; i < t->places.count; i++)
        words_add(t->memory, &w.taken, t->places.items[i].tensor);
    if (!writer_plan(&w)) return false;
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < t->items.count; i++)
            if (round_of(&w, i) == round) write_item(&w, i);
    for (int i = 0; i < k->load_count; i++) write_gradient(&w, k->loads[i]);
    for (int i = 0; i < k->give_count; i++)
        write_store(&w, t->items.items[k->gives[i]].value, write_cut_tensor(t, k->gives[i]));
    for (int i = 0; i < k->add_count; i++) write_addition(&w, k->adds[i]);
    if (k->gives_delta) write_store(&w, t->delta, writer_delta(t));
    for (int i = 0; i < k->start_count; i++) write_start(&w, k->starts[i]);
    writer_declare(&w, out);
    return true;
}
