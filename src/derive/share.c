/* Inputs that several tiles share: keys of a group of heads, weights of a whole batch. Each tile
 * has a gradient of its own, and kernels that walk one index after the other sum them up.
 */
#include "derive/write.h"

typedef struct share_axis {
    str index, extent;
    int own; /* the Input's axis that it chooses on; -1: none */
} share_axis;

enum { SHARE_AXES = TL_AXES_MAX };

/* What a gradient is before a step: an index for each axis before its matrix. */
typedef struct shared {
    tape *t;
    const tl_parameter *of;
    share_axis axes[SHARE_AXES];
    int count;
    str tensor; /* that has it so far */
} shared;

/* Does a condition demand that two lengths are equal? */
static bool demands_equal(const tl_expr *e, str a, str b) {
    if (!e || e->kind != TL_BINARY) return false;
    if (e->operator== TL_AND) return demands_equal(e->left, a, b) || demands_equal(e->right, a, b);
    bool is_of_names =
        e->operator== TL_EQUAL && e->left->kind == TL_NAME && e->right->kind == TL_NAME;
    return is_of_names && ((str_equal(e->left->text, a) && str_equal(e->right->text, b)) ||
                           (str_equal(e->left->text, b) && str_equal(e->right->text, a)));
}

/* Is each block of the axis one index? */
static bool is_one_each(const tape *t, str index, const tl_axis *axis) {
    const tl_axis *all = tape_axis(t, index);
    bool is_of_names = all && all->extent->kind == TL_NAME && axis->extent->kind == TL_NAME;
    for (const tl_statement *s = t->kernel->body.first; is_of_names && s; s = s->next) {
        if (tl_is_parameter(s) &&
            demands_equal(s->parameter.condition, all->extent->text, axis->extent->text))
            return true;
    }
    return false;
}

/* The axis of the Input that an index chooses on, as it is or (then *size) a block of so many; -1:
 * none.
 */
static int own_axis(const tape *t, const tl_parameter *of, str index, const tl_expr **size) {
    *size = NULL;
    for (int i = 0; i < tl_matrix_begin(&of->axes); i++) {
        const tl_axis *axis = &of->axes.items[i];
        const tl_expr *e = axis->coordinate;
        if (str_equal(tl_axis_index(&of->axes, i), index)) return i;
        bool is_block = e->kind == TL_BINARY && e->operator== TL_OVER && e->left->kind == TL_NAME;
        if (!is_block || !str_equal(e->left->text, index)) continue;
        *size = is_one_each(t, index, axis) ? NULL : e->right;
        return i;
    }
    return -1;
}

/* All indices of a tile. Returns how many steps are to be taken. */
static int open_shared(shared *s, tape *t, const tl_parameter *of) {
    const tl_axes *all = &t->stores.items[0].output->parameter.axes;
    int steps = 0;
    *s = (shared){.t = t, .of = of};
    for (int i = 0; i < tl_matrix_begin(all); i++) {
        const tl_expr *size;
        str index = tl_axis_index(all, i), extent = tl_expr_text(t->memory, all->items[i].extent);
        int own = own_axis(t, of, index, &size);
        s->axes[s->count++] = (share_axis){index, extent, own};
        steps += own < 0 || size;
    }
    return steps;
}

bool share_is_known(tape *t, const tl_statement *at, const tl_parameter *of) {
    shared s;
    int found = 0;
    open_shared(&s, t, of);
    for (int i = 0; i < s.count; i++) found += s.axes[i].own >= 0;
    return found == tl_matrix_begin(&of->axes) ||
           tape_refuse(t, at,
                       "which matrix of %.*s a tile takes is said in a way that has no rule yet",
                       STR_ARGS(of->name));
}

bool share_is_whole(tape *t, const tl_parameter *of) {
    shared s;
    return open_shared(&s, t, of) == 0;
}

str share_gradient(tape *t, const tl_parameter *of) {
    return str_format(t->memory, share_is_whole(t, of) ? "d%.*s" : "d%.*s_parts",
                      STR_ARGS(of->name));
}

/* --- a step ----------------------------------------------------------------------------------- */

static str axes_text(const shared *s) {
    str text = STR("");
    arena *memory = s->t->memory;
    for (int i = 0; i < s->count; i++)
        text = str_format(memory, "%.*s%.*s in %.*s%s", STR_ARGS(text), STR_ARGS(s->axes[i].index),
                          STR_ARGS(s->axes[i].extent), i + 1 < s->count ? ", " : "; ");
    return text;
}

/* When nothing is left to be summed: in the Input's order. */
static void take_own_order(shared *s) {
    share_axis ordered[SHARE_AXES];
    int count = 0;
    for (int own = 0; own < tl_matrix_begin(&s->of->axes); own++)
        for (int i = 0; i < s->count; i++)
            if (s->axes[i].own == own) ordered[count++] = s->axes[i];
    for (int i = 0; i < count; i++) s->axes[i] = ordered[i];
    s->count = count;
}

static str matrix_text(const shared *s, bool indices_alone) {
    str text = STR("");
    arena *memory = s->t->memory;
    const tl_axes *axes = &s->of->axes;
    for (int i = tl_matrix_begin(axes); i < axes->count; i++) {
        str index = tl_axis_index(axes, i);
        text = str_format(memory, "%.*s%s%.*s", STR_ARGS(text), text.length ? ", " : "",
                          STR_ARGS(indices_alone ? index : write_axis(s->t, index)));
    }
    return text;
}

static str element_text(const shared *s, int summed, str at) {
    str text = STR("");
    arena *memory = s->t->memory;
    for (int i = 0; i < s->count; i++)
        text = str_format(memory, "%.*s%.*s, ", STR_ARGS(text),
                          STR_ARGS(i == summed ? at : s->axes[i].index));
    return text;
}

/* What the sketch demands of its lengths: a group of heads has as many everywhere. */
static void add_conditions(const shared *s, text_buffer *out) {
    const char *word = " where ";
    for (const tl_statement *one = s->t->kernel->body.first; one; one = one->next) {
        bool is_tensor =
            (one->kind == TL_INPUT || one->kind == TL_OUTPUT) && one->parameter.axes.count;
        if (!is_tensor || !one->parameter.condition) continue;
        text_format(out, "%s(%.*s)", word,
                    STR_ARGS(tl_expr_text(s->t->memory, one->parameter.condition)));
        word = " and ";
    }
}

typedef struct share_sum {
    str part, walked, count, element, into;
} share_sum;

/* Of matrices one after the other. Vectors are the columns of one matrix, whose rows are summed:
 * tiles are of matrices.
 */
static void write_sum(const shared *s, share_sum sum, text_buffer *text) {
    const tl_axes *axes = &s->of->axes;
    bool is_vector = axes->count - tl_matrix_begin(axes) == 1;
    str matrix = matrix_text(s, false), j = tape_free_name(s->t, "j");
    text_format(text, "\nlet %.*s (", STR_ARGS(sum.part));
    if (is_vector)
        text_format(text, "%.*s, %.*s in %.*s", STR_ARGS(matrix), STR_ARGS(sum.walked),
                    STR_ARGS(sum.count));
    else
        text_format(text, "%.*s in %.*s; %.*s", STR_ARGS(sum.walked), STR_ARGS(sum.count),
                    STR_ARGS(matrix));
    text_format(text, ") = %.*s[%.*s%.*s]\n\nfor %.*s = 0:", STR_ARGS(s->tensor),
                STR_ARGS(sum.element), STR_ARGS(matrix_text(s, true)), STR_ARGS(j));
    if (is_vector)
        text_format(text, "(%.*s)/%.*s\n", STR_ARGS(sum.count),
                    STR_ARGS(tape_free_name(s->t, "BW")));
    else text_format(text, "%.*s\n", STR_ARGS(sum.count));
    text_format(text,
                "    Copy %.*s from global to register\n    Compute %s %.*s and accumulate %.*s\n"
                "end\nCopy %.*s from register to global\n\n",
                STR_ARGS(sum.part), is_vector ? "RowSum" : "Cast", STR_ARGS(sum.part),
                STR_ARGS(sum.into), STR_ARGS(sum.into));
}

/* Sums over one index, or over those of a block of it. */
static void write_step(shared *s, int summed, const tl_expr *size, str block, str extent, str into,
                       bool is_last, text_buffer *out) {
    arena *memory = s->t->memory;
    share_axis axis = s->axes[summed];
    str part = tape_free_name(s->t, "part");
    str walked = size ? str_format(memory, "%.*s_of_block", STR_ARGS(axis.index)) : axis.index;
    str count = size ? tl_expr_text(memory, size) : axis.extent;
    str at = size ? str_format(memory, "%.*s*(%.*s) + %.*s", STR_ARGS(block), STR_ARGS(count),
                               STR_ARGS(walked))
                  : axis.index;
    str parts = str_format(memory, "Input %.*s f32 (%.*s%.*s)", STR_ARGS(s->tensor),
                           STR_ARGS(axes_text(s)), STR_ARGS(matrix_text(s, false)));
    str element = element_text(s, summed, at);
    if (size) s->axes[summed] = (share_axis){block, extent, axis.own};
    for (int i = summed; !size && i + 1 < s->count; i++) s->axes[i] = s->axes[i + 1];
    if (!size) s->count--;
    if (is_last) take_own_order(s);
    bool is_open = is_last && s->of->type == TL_OPEN;
    const char *type = is_open   ? ""
                       : is_last ? tl_type_name(write_gradient_type(s->of->type))
                                 : "f32";
    text_buffer text;
    text_init_in(&text, memory);
    text_format(&text, "%.*s\nOutput %.*s %s (%.*s%.*s)", STR_ARGS(parts), STR_ARGS(into), type,
                STR_ARGS(axes_text(s)), STR_ARGS(matrix_text(s, false)));
    add_conditions(s, &text);
    write_sum(s, (share_sum){part, walked, count, element, into}, &text);
    text_format(out, "kernel %.*s_sum_%.*s\n", STR_ARGS(s->t->kernel->name), STR_ARGS(into));
    write_declared(s->t, text_str(&text), out);
    text_add(out, text_str(&text));
    s->tensor = into;
}

str share_axes(tape *t, const tl_parameter *of) {
    shared s;
    if (!open_shared(&s, t, of)) take_own_order(&s);
    return str_format(t->memory, "%.*s%.*s", STR_ARGS(axes_text(&s)),
                      STR_ARGS(matrix_text(&s, false)));
}

void share_write(tape *t, const tl_parameter *of, text_buffer *out) {
    shared s;
    int steps = open_shared(&s, t, of);
    s.tensor = share_gradient(t, of);
    for (int i = s.count - 1; i >= 0 && steps; i--) {
        const tl_expr *size;
        int own = own_axis(t, of, s.axes[i].index, &size);
        if (own >= 0 && !size) continue;
        str extent = own < 0 ? STR("") : tl_expr_text(t->memory, of->axes.items[own].extent);
        str block = own < 0 ? STR("")
                    : str_ends(extent, STR("s")) /* "kv_head" of "kv_heads" */
                        ? (str){extent.data, extent.length - 1}
                        : str_format(t->memory, "%.*s_block", STR_ARGS(s.axes[i].index));
        str into = --steps ? str_format(t->memory, "d%.*s_parts_%d", STR_ARGS(of->name), steps)
                           : str_format(t->memory, "d%.*s", STR_ARGS(of->name));
        write_step(&s, i, size, block, extent, into, !steps, out);
    }
}
