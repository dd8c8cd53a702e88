/* What stands before a kernel's statements: its Inputs and Outputs, the definitions that these and
 * the statements name, and what tensors are called.
 */
#include "derive/writer.h"

#include <string.h>

/* --- words ------------------------------------------------------------------------------------ */

bool words_have(const words *w, str word) {
    for (int i = 0; i < w->count; i++)
        if (str_equal(w->items[i], word)) return true;
    return false;
}

void words_add(arena *memory, words *w, str word) {
    if (!words_have(w, word)) list_push(memory, w, word);
}

static void add_text(arena *memory, words *w, str text) {
    for (str word = str_cut_word(&text); word.length; word = str_cut_word(&text))
        words_add(memory, w, word);
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

/* --- tensors ---------------------------------------------------------------------------------- */

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

str writer_delta(const tape *t) {
    return tape_is_taken(t, STR("delta")) ? tape_free_name(t, "delta") : STR("delta");
}

str writer_tensor(const writer *w, const tape_item *item) {
    if (item->kind != TAPE_LOAD && w->k->takes && w->k->takes[item - w->t->items.items])
        return write_cut_tensor(w->t, (int)(item - w->t->items.items));
    if (item->kind != TAPE_LOAD) return writer_delta(w->t);
    return item->sum ? write_sum_tensor(w->t, item->sum - 1) : item->tensor;
}

/* --- declarations ----------------------------------------------------------------------------- */

static str type_text(const tape *t, tl_type type) {
    return type == TL_OPEN ? STR("") : str_format(t->memory, "%s ", tl_type_name(type));
}

tl_type write_gradient_type(tl_type type) {
    return type == TL_E4M3 || type == TL_E5M2 ? TL_F32 : type;
}

static str header_of(const tape *t, const tl_statement *s) {
    text_buffer text;
    text_init_in(&text, t->memory);
    tl_print_header(s, &text);
    return text_str(&text);
}

/* Of a load that no Input of the sketch is: the gradient of an Output, an Output, or what is saved.
 */
static str input_line(const writer *w, const tape_item *item) {
    const tape *t = w->t;
    str tensor = writer_tensor(w, item);
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_OUTPUT) continue;
        bool is_own = str_equal(s->parameter.name, tensor);
        bool is_gradient = tensor.length > 1 && tensor.data[0] == 'd' &&
                           str_equal(s->parameter.name, (str){tensor.data + 1, tensor.length - 1});
        if (!is_own && !is_gradient) continue;
        str header = header_of(t, s);
        str_cut(&header, '(');
        tl_type type = is_own ? s->parameter.type : write_gradient_type(s->parameter.type);
        return str_format(t->memory, "Input %.*s %.*s(%.*s", STR_ARGS(tensor),
                          STR_ARGS(type_text(t, type)), STR_ARGS(header));
    }
    return str_format(t->memory, "Input %.*s f32 (%.*s%.*s)", STR_ARGS(tensor),
                      STR_ARGS(write_prefix(t)), STR_ARGS(write_axes(t, item->value)));
}

static bool declares_any(const tl_statement *s, const words *needed) {
    if (s->kind == TL_INPUT) return words_have(needed, s->parameter.name);
    for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
        if (words_have(needed, s->let.items[i].name)) return true;
    return false;
}

/* Is the word all that its line says of a length? Of k_len/8 there is no telling k_len. */
static bool is_whole_length(str line, str word) {
    const char *after = word.data + word.length, *end = line.data + line.length;
    bool is_divided = after + 1 < end && after[0] == ')' && after[1] == '/';
    return after < end && strchr(",;)", *after) && !is_divided;
}

/* Lengths and indices of a text's tensors. */
static words words_of_tensors(const tape *t, str text) {
    words found = {0};
    while (text.length) {
        str line = str_cut(&text, '\n');
        bool is_tensor = str_starts(line, STR("Input ")) || str_starts(line, STR("Output "));
        line.length = str_find(line, STR(" where "));
        str rest = line;
        for (str word = str_cut_word(&rest); is_tensor && word.length; word = str_cut_word(&rest))
            if (is_whole_length(line, word)) words_add(t->memory, &found, word);
    }
    return found;
}

/* A length that is named comes with an Input that has it. NULL: some tensor here has, or it is
 * none. */
static const tl_statement *length_giver(const tape *t, str name, str text, const words *needed) {
    const tl_statement *giver = NULL;
    words here = words_of_tensors(t, text);
    const tl_symbol *length = tl_find_symbol(t->kernel, name);
    if (!length || length->kind != TL_SYMBOL_SIZE || words_have(&here, name)) return NULL;
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        for (int i = 0; s->kind == TL_INPUT && i < s->parameter.axes.count; i++) {
            if (!tl_expr_names(s->parameter.axes.items[i].extent, name)) continue;
            if (words_have(needed, s->parameter.name)) return NULL;
            if (!giver) giver = s;
        }
    return giver;
}

void write_declared(const tape *t, str text, text_buffer *out) {
    const tl_block *body = &t->kernel->body;
    words needed = {0};
    add_text(t->memory, &needed, text);
    for (bool is_more = true; is_more;) {
        int before = needed.count;
        for (const tl_statement *s = body->first; s; s = s->next)
            if (declares_any(s, &needed)) add_text(t->memory, &needed, header_of(t, s));
        for (int i = 0; i < before; i++) {
            const tl_statement *giver = length_giver(t, needed.items[i], text, &needed);
            if (giver) words_add(t->memory, &needed, giver->parameter.name);
        }
        is_more = needed.count > before;
    }
    for (const tl_statement *s = body->first; s; s = s->next) {
        if (!declares_any(s, &needed)) continue;
        text_add(out, header_of(t, s));
        text_add_z(out, "\n");
    }
}

/* Places of extremes that the text reads. */
static void write_places(tape *t, str text, text_buffer *out) {
    words needed = {0};
    bool is_sized = false;
    add_text(t->memory, &needed, text);
    for (int i = 0; i < t->places.count; i++) {
        tape_place *place = &t->places.items[i];
        if (!words_have(&needed, place->tensor)) continue;
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

static void declare_sums(const tape *t, const int *items, int count, const char *comment,
                         text_buffer *out) {
    for (int i = 0; i < count; i++)
        text_format(out, "Output %.*s f32 (%.*s%.*s)%s\n", STR_ARGS(write_cut_tensor(t, items[i])),
                    STR_ARGS(write_prefix(t)),
                    STR_ARGS(write_axes(t, t->items.items[items[i]].value)), comment);
}

void writer_declare(writer *w, text_buffer *out) {
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
    declare_sums(t, w->k->gives, w->k->give_count, "", &outputs);
    declare_sums(t, w->k->adds, w->k->add_count, " // by all tiles, in no order", &outputs);
    declare_sums(t, w->k->starts, w->k->start_count, "", &outputs);
    if (w->k->gives_delta)
        text_format(&outputs, "Output %.*s f32 (%.*s%.*s)\n", STR_ARGS(writer_delta(t)),
                    STR_ARGS(write_prefix(t)), STR_ARGS(write_axes(t, t->delta)));
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool is_here = w->values[item->value].is_live && writer_loads(w, item);
        words own = {.items = (str[]){writer_tensor(w, item)}, .count = 1};
        for (const tl_statement *s = t->kernel->body.first; s && is_here; s = s->next)
            is_here = !declares_any(s, &own);
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
