#include "derive/writer.h"

#include <string.h>

/* --- names ------------------------------------------------------------------------------------ */

static str fresh(writer *w, str wanted) {
    arena *memory = w->t->memory;
    str name = wanted.length ? wanted : STR("t");
    for (int n = 2; writer_has_word(&w->taken, name); n++)
        name = str_format(memory, "%.*s_%d", STR_ARGS(wanted.length ? wanted : STR("t")), n);
    writer_add_word(memory, &w->taken, name);
    return name;
}

/* --- axes ------------------------------------------------------------------------------------- */

str write_axis(const tape *t, str index) {
    const tl_axis *axis = tape_axis(t, index);
    if (!axis || axis->is_bare) return index;
    return str_format(t->memory, "%.*s in %.*s", STR_ARGS(index),
                      STR_ARGS(tl_expr_text(t->memory, axis->extent)));
}

str write_prefix(const tape *t) {
    const tl_axes *axes = tape_output_axes(t);
    str text = STR("");
    for (int i = 0; i < tl_matrix_begin(axes); i++)
        text = str_format(t->memory, "%.*s%s%.*s", STR_ARGS(text), i ? ", " : "",
                          STR_ARGS(write_axis(t, tl_axis_index(axes, i))));
    return text.length ? str_format(t->memory, "%.*s; ", STR_ARGS(text)) : text;
}

str write_axes(const tape *t, int value) {
    const tape_value *v = &t->values.items[value];
    str text = write_axis(t, v->axes[0]);
    if (v->axis_count < 2) return text;
    return str_format(t->memory, "%.*s, %.*s", STR_ARGS(text), STR_ARGS(write_axis(t, v->axes[1])));
}

/* --- lines ------------------------------------------------------------------------------------ */

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

const tape_store *write_sum_store(const tape *t, int sum) {
    for (int i = 0; i < t->stores.count; i++) {
        const tape_store *store = &t->stores.items[i];
        bool is_exact = !t->sums.items[sum].is_extreme || store->output->parameter.type == TL_F32;
        if (!store->is_statistic && store->value == t->sums.items[sum].value && is_exact)
            return store;
    }
    return NULL;
}

str write_sum_tensor(const tape *t, int sum) {
    const tape_store *store = write_sum_store(t, sum);
    if (store) return store->output->parameter.name;
    str name = t->sums.items[sum].name;
    int before = 0; /* of other loops, and called so */
    for (int i = 0; i < sum; i++) before += str_equal(t->sums.items[i].name, name);
    str wanted = str_format(t->memory, "%.*s_saved", STR_ARGS(name));
    if (before) wanted = str_format(t->memory, "%.*s_%d", STR_ARGS(wanted), before + 1);
    return tape_free_name(t, str_copy_z(t->memory, wanted));
}

str write_cut_tensor(const tape *t, int item) {
    for (int i = 0; i < t->cuts.count; i++)
        if (t->cuts.items[i].item == item) return t->cuts.items[i].tensor;
    return STR("");
}

static str delta_tensor(const tape *t) {
    return tape_is_taken(t, STR("delta")) ? tape_free_name(t, "delta") : STR("delta");
}

static str tensor_of(const writer *w, const tape_item *item) {
    if (item->kind != TAPE_LOAD && w->k->takes && w->k->takes[item - w->t->items.items])
        return write_cut_tensor(w->t, (int)(item - w->t->items.items));
    if (item->kind != TAPE_LOAD) return delta_tensor(w->t);
    return item->sum ? write_sum_tensor(w->t, item->sum - 1) : item->tensor;
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
    str tensor = tensor_of(w, load), text = STR("");
    const tl_axes *all = axes_of_tensor(t, tensor);
    for (int i = 0; i < all->count; i++)
        text = str_format(t->memory, "%.*s%s%.*s", STR_ARGS(text), i ? ", " : "",
                          STR_ARGS(tl_expr_text(t->memory, all->items[i].coordinate)));
    return str_format(t->memory, "%.*s[%.*s]", STR_ARGS(tensor), STR_ARGS(text));
}

/* A view of what is loaded, its columns first, and the tile that is copied of it. */
static str write_turned(writer *w, int i, const tape_item *load) {
    tape *t = w->t;
    str tensor = tensor_of(w, load), axes = STR(""), element = STR("");
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
    str tensor = tensor_of(w, item);
    bool is_named = writer_has_word(&w->taken, tensor);
    str name = is_named ? fresh(w, tensor) : tensor;
    writer_add_word(w->t->memory, &w->taken, name);
    if (item->sum) w->reads_sum[item->sum - 1] = true;
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

static str type_text(const tape *t, tl_type type) {
    return type == TL_OPEN ? STR("") : str_format(t->memory, "%s ", tl_type_name(type));
}

tl_type write_gradient_type(tl_type type) {
    return type == TL_E4M3 || type == TL_E5M2 ? TL_F32 : type;
}

/* Of a load that no Input of the sketch is: the gradient of an Output, an Output, or what is saved.
 */
static str input_line(const writer *w, const tape_item *item) {
    const tape *t = w->t;
    str tensor = tensor_of(w, item);
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_OUTPUT) continue;
        bool is_own = str_equal(s->parameter.name, tensor);
        bool is_gradient = tensor.length > 1 && tensor.data[0] == 'd' &&
                           str_equal(s->parameter.name, (str){tensor.data + 1, tensor.length - 1});
        if (!is_own && !is_gradient) continue;
        str header = writer_header(t, s);
        str_cut(&header, '(');
        tl_type type = is_own ? s->parameter.type : write_gradient_type(s->parameter.type);
        return str_format(t->memory, "Input %.*s %.*s(%.*s", STR_ARGS(tensor),
                          STR_ARGS(type_text(t, type)), STR_ARGS(header));
    }
    return str_format(t->memory, "Input %.*s f32 (%.*s%.*s)", STR_ARGS(tensor),
                      STR_ARGS(write_prefix(t)), STR_ARGS(write_axes(t, item->value)));
}

/* Places of extremes that the text reads. */
static void write_places(tape *t, str text, text_buffer *out) {
    words needed = {0};
    bool is_sized = false;
    writer_add_words(t->memory, &needed, text);
    for (int i = 0; i < t->places.count; i++) {
        tape_place *place = &t->places.items[i];
        if (!writer_has_word(&needed, place->tensor)) continue;
        str size = tape_places_size(t);
        if (place->is_of_loop && !is_sized)
            text_format(out, "let %.*s = %d\n", STR_ARGS(size), TAPE_PLACES);
        text_format(out, "Input %.*s i32 (%.*s%.*s%s%.*s)\n", STR_ARGS(place->tensor),
                    STR_ARGS(write_prefix(t)), STR_ARGS(write_axis(t, place->axis)),
                    place->is_of_loop ? ", " : "", STR_ARGS(place->is_of_loop ? size : STR("")));
        is_sized |= place->is_of_loop;
        place->is_read = true;
    }
}

static void write_text(writer *w, text_buffer *out) {
    tape *t = w->t;
    text_buffer body, outputs, inputs;
    text_init_in(&body, t->memory);
    text_init_in(&outputs, t->memory);
    text_init_in(&inputs, t->memory);
    text_add(&body, text_str(&w->lines[BEFORE]));
    if (w->lines[INSIDE].length) {
        str extent = tl_expr_text(t->memory, tape_axis(t, w->k->walk)->extent);
        text_format(&body, "for %.*s = 0:%.*s/%.*s\n", STR_ARGS(tape_free_name(t, "j")),
                    STR_ARGS(extent), STR_ARGS(tape_free_name(t, "BW")));
        text_add(&body, text_str(&w->lines[INSIDE]));
        text_add_z(&body, "end\n");
    }
    text_add(&body, text_str(&w->lines[AFTER]));
    for (int i = 0; i < w->k->load_count; i++) {
        const tape_item *load = &t->items.items[w->k->loads[i]];
        const tl_parameter *of = tape_tensor(t, load->input);
        bool is_there = false; /* another view of it is stored there, too */
        for (int k = 0; k < i; k++)
            is_there |= str_equal(share_gradient(t, &t->items.items[w->k->loads[k]]),
                                  share_gradient(t, load));
        if (is_there) continue;
        bool is_last = share_is_whole(t, load) && !load->reading;
        tl_type type = is_last ? write_gradient_type(of->type) : TL_F32;
        text_format(&outputs, "Output %.*s %.*s(%.*s)%s\n", STR_ARGS(share_gradient(t, load)),
                    STR_ARGS(type_text(t, type)), STR_ARGS(share_axes(t, load)),
                    w->k->is_part[i] ? " kept" : "");
    }
    for (int i = 0; i < w->k->give_count; i++)
        text_format(&outputs, "Output %.*s f32 (%.*s%.*s)\n",
                    STR_ARGS(write_cut_tensor(t, w->k->gives[i])), STR_ARGS(write_prefix(t)),
                    STR_ARGS(write_axes(t, t->items.items[w->k->gives[i]].value)));
    if (w->k->gives_delta)
        text_format(&outputs, "Output %.*s f32 (%.*s%.*s)\n", STR_ARGS(delta_tensor(t)),
                    STR_ARGS(write_prefix(t)), STR_ARGS(write_axes(t, t->delta)));
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool is_here = w->values[item->value].is_live && writer_loads(w, item);
        words own = {.items = (str[]){tensor_of(w, item)}, .count = 1};
        for (const tl_statement *s = t->kernel->body.first; s && is_here; s = s->next)
            is_here = !writer_declares(s, &own);
        if (!is_here) continue;
        text_add(&inputs, input_line(w, item));
        text_add_z(&inputs, "\n");
    }
    write_places(t, text_str(&body), &inputs);
    text_add(&inputs, text_str(&outputs));
    text_add(&inputs, text_str(&w->views));
    text_add_z(&inputs, "\n");
    text_add(&inputs, text_str(&body));
    text_add_z(&inputs, "\n");
    text_format(out, "kernel %.*s\n", STR_ARGS(w->k->name));
    write_declared(t, text_str(&inputs), out);
    text_add(out, text_str(&inputs));
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
            writer_add_word(t->memory, &w.taken, symbol->name);
    }
    for (int i = 0; i < t->places.count; i++)
        writer_add_word(t->memory, &w.taken, t->places.items[i].tensor);
    if (!writer_plan(&w)) return false;
    for (int i = 0; i < t->items.count; i++) write_item(&w, i);
    for (int i = 0; i < k->load_count; i++) write_gradient(&w, k->loads[i]);
    for (int i = 0; i < k->give_count; i++)
        write_store(&w, t->items.items[k->gives[i]].value, write_cut_tensor(t, k->gives[i]));
    if (k->gives_delta) write_store(&w, t->delta, delta_tensor(t));
    write_text(&w, out);
    return true;
}
