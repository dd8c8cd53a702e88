/* Kernels that sum up the parts of what several tiles share, one index after the other. */
#include "derive/share.h"

static bool is_word_of(void *text, const tl_expr *e) {
    str rest = *(const str *)text, word;
    if (e->kind != TL_NAME) return true;
    while (word = str_cut_word(&rest), word.length)
        if (str_equal(word, e->text)) return true;
    return false;
}

/* What the sketch demands of the lengths that are here: a group of heads has as many everywhere. */
static void add_conditions(const shared *s, text_buffer *out) {
    const char *word = " where ";
    str lengths = text_str(out);
    for (const tl_statement *one = s->t->kernel->body.first; one; one = one->next) {
        bool is_tensor =
            (one->kind == TL_INPUT || one->kind == TL_OUTPUT) && one->parameter.axes.count;
        if (!is_tensor || !one->parameter.condition) continue;
        if (!tl_visit(one->parameter.condition, is_word_of, &lengths)) continue;
        text_format(out, "%s(%.*s)", word,
                    STR_ARGS(tl_expr_text(s->t->memory, one->parameter.condition)));
        word = " and ";
    }
}

typedef struct share_sum {
    str part, walked, count, element, into;
    str place; /* the view that it is stored by; empty: it is stored as it is */
} share_sum;

/* Of matrices one after the other. Vectors are the columns of one matrix, whose rows are summed:
 * tiles are of matrices.
 */
static void write_sum(const shared *s, share_sum sum, text_buffer *text) {
    int count;
    str matrix = share_matrix_text(s, &count), j = tape_free_name(s->t, "j");
    bool is_vector = count == 1;
    text_format(text, "\nlet %.*s (", STR_ARGS(sum.part));
    if (is_vector)
        text_format(text, "%.*s, %.*s in %.*s", STR_ARGS(matrix), STR_ARGS(sum.walked),
                    STR_ARGS(sum.count));
    else
        text_format(text, "%.*s in %.*s; %.*s", STR_ARGS(sum.walked), STR_ARGS(sum.count),
                    STR_ARGS(matrix));
    text_format(text, ") = %.*s[%.*s]\n\nfor %.*s = 0:", STR_ARGS(s->tensor), STR_ARGS(sum.element),
                STR_ARGS(j));
    if (is_vector)
        text_format(text, "(%.*s)/%.*s\n", STR_ARGS(sum.count),
                    STR_ARGS(tape_free_name(s->t, "BW")));
    else text_format(text, "%.*s\n", STR_ARGS(sum.count));
    text_format(text,
                "    Copy %.*s from global to register\n    Compute %s %.*s and accumulate %.*s\n"
                "end\nCopy %.*s from register to global%s%.*s\n\n",
                STR_ARGS(sum.part), is_vector ? "RowSum" : "Cast", STR_ARGS(sum.part),
                STR_ARGS(sum.into), STR_ARGS(sum.into), sum.place.length ? " and get " : "",
                STR_ARGS(sum.place));
}

/* Does the Input have other axes after some of a sum's tile? */
static bool is_matrix_within(const shared *s) {
    bool is_within = false;
    for (int i = 1; i < s->count; i++)
        is_within |= share_is_of_matrix(s, &s->axes[i - 1]) && !share_is_of_matrix(s, &s->axes[i]);
    return is_within;
}

static const char *gradient_type(const tl_parameter *of) {
    return of->type == TL_OPEN ? "" : tl_type_name(write_gradient_type(of->type));
}

/* Sums over one index, or over those of a block of it. */
static void write_step(shared *s, int summed, const tl_expr *size, str block, str extent, str into,
                       bool is_first, bool is_last, text_buffer *out) {
    arena *memory = s->t->memory;
    share_axis axis = s->axes[summed];
    str part = tape_free_name(s->t, "part");
    str walked = size ? str_format(memory, "%.*s_of_block", STR_ARGS(axis.index)) : axis.index;
    str count = size ? tl_expr_text(memory, size) : axis.extent;
    str at = size ? str_format(memory, "%.*s*(%.*s) + %.*s", STR_ARGS(block), STR_ARGS(count),
                               STR_ARGS(walked))
                  : axis.index;
    str parts = str_format(memory, "Input %.*s f32 (%.*s)", STR_ARGS(s->tensor),
                           STR_ARGS(share_axes_text(s, is_first)));
    str element = share_element_text(s, summed, at, is_first);
    if (size)
        s->axes[summed] = (share_axis){
            .index = block, .extent = extent, .own = axis.own, .is_tile = axis.is_tile};
    for (int i = summed; !size && i + 1 < s->count; i++) s->axes[i] = s->axes[i + 1];
    if (!size) s->count--;
    share_arrange(s, is_last);
    bool is_own = is_last && !s->load->reading;
    const char *type = is_own ? gradient_type(s->of) : "f32";
    text_buffer text;
    text_init_in(&text, memory);
    bool is_by_view = is_last && is_matrix_within(s);
    str place = is_by_view ? str_format(memory, "%.*s_tile", STR_ARGS(into)) : STR("");
    text_format(&text, "%.*s\nOutput %.*s %s (%.*s)", STR_ARGS(parts), STR_ARGS(into), type,
                STR_ARGS(is_by_view ? share_own_axes(s) : share_axes_text(s, false)));
    add_conditions(s, &text);
    if (is_by_view)
        text_format(&text, "\n%.*s", STR_ARGS(str_trim(share_view_text(s, false, place, into))));
    write_sum(s, (share_sum){part, walked, count, element, into, place}, &text);
    text_format(out, "kernel %.*s_sum_%.*s\n", STR_ARGS(s->t->kernel->name), STR_ARGS(into));
    write_declared(s->t, text_str(&text), out);
    text_add(out, text_str(&text));
    s->tensor = into;
}

/* The axis that is summed next: from the last on; of elements, blocks of indices before what is
 * kept, so that tiles still have rows.
 */
static int next_step(const shared *s) {
    for (int i = s->count - 1; i >= 0 && s->load->element; i--)
        if (s->axes[i].size) return i;
    for (int i = s->count - 1; i >= 0; i--)
        if (s->axes[i].own < 0 || s->axes[i].size) return i;
    return -1;
}

void share_write(const tape *t, const tape_item *load, text_buffer *out) {
    shared s;
    const tl_parameter *of = tape_tensor(t, load->input);
    int steps = share_open(&s, t, load, of), i;
    bool is_first = true;
    s.tensor = share_gradient(t, load);
    while ((i = next_step(&s)) >= 0) {
        const share_axis axis = s.axes[i];
        str extent = axis.own < 0 ? STR("") : share_extent(t, &of->axes.items[axis.own]);
        str block = axis.own < 0 ? STR("")
                    : str_ends(extent, STR("s")) /* "kv_head" of "kv_heads" */
                        ? (str){extent.data, extent.length - 1}
                        : str_format(t->memory, "%.*s_block", STR_ARGS(axis.index));
        str into = share_whole(t, load);
        if (--steps) into = str_format(t->memory, "%.*s_parts_%d", STR_ARGS(into), steps);
        write_step(&s, i, axis.size, block, extent, into, is_first, !steps, out);
        is_first = false;
    }
}

/* --- what is read in several ways ------------------------------------------------------------- */

static bool is_reading(const tape *t, int item, str input) {
    const tape_item *load = &t->items.items[item];
    return load->kind == TAPE_LOAD && load->reading && !load->entry &&
           str_equal(load->input, input) && tape_gradient(t, item) != TAPE_NONE;
}

/* "b in batch, place_1 in heads, kv in kv_len, d" */
static str plain_axes(const tape *t, const tl_parameter *of) {
    str text = STR("");
    for (int i = 0; i < of->axes.count; i++) {
        const tl_axis *axis = &of->axes.items[i];
        str name = axis->coordinate->kind == TL_NAME
                       ? axis->coordinate->text
                       : str_format(t->memory, "%.*s_place_%d", STR_ARGS(of->name), i);
        text = str_format(t->memory, "%.*s%s%.*s", STR_ARGS(text), i ? ", " : "", STR_ARGS(name));
        if (!axis->is_bare)
            text = str_format(t->memory, "%.*s in %.*s", STR_ARGS(text),
                              STR_ARGS(share_extent(t, axis)));
    }
    return text;
}

static void write_readings(const tape *t, const tl_parameter *of, text_buffer *out) {
    str axes = plain_axes(t, of), into = str_format(t->memory, "d%.*s", STR_ARGS(of->name));
    text_buffer text, body;
    text_init_in(&text, t->memory);
    text_init_in(&body, t->memory);
    int count = 0;
    for (int i = 0; i < t->items.count; i++) {
        if (!is_reading(t, i, of->name)) continue;
        str part = share_whole(t, &t->items.items[i]);
        text_format(&text, "Input %.*s f32 (%.*s)\n", STR_ARGS(part), STR_ARGS(axes));
        text_format(&body, "Copy %.*s from global to register\n", STR_ARGS(part));
        if (count++)
            text_format(&body, "Compute Add %.*s, %.*s and get %.*s\n", STR_ARGS(into),
                        STR_ARGS(part), STR_ARGS(into));
        else text_format(&body, "Compute Cast %.*s and get %.*s\n", STR_ARGS(part), STR_ARGS(into));
    }
    text_format(&text, "Output %.*s %s (%.*s)\n\n", STR_ARGS(into), gradient_type(of),
                STR_ARGS(axes));
    text_add(&text, text_str(&body));
    text_format(&text, "Copy %.*s from register to global\n\n", STR_ARGS(into));
    text_format(out, "kernel %.*s_sum_%.*s\n", STR_ARGS(t->kernel->name), STR_ARGS(into));
    write_declared(t, text_str(&text), out);
    text_add(out, text_str(&text));
}

void share_write_readings(const tape *t, text_buffer *out) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        bool is_read = false;
        for (int i = 0; i < t->items.count && s->kind == TL_INPUT; i++)
            is_read |= is_reading(t, i, s->parameter.name);
        if (is_read) write_readings(t, &s->parameter, out);
    }
}
