/* Elements of an Input of which several places share one: a bias by distance, rows that a table
 * names. Each entry's gradient is the sum over the places where it is read: there is a tile for
 * each entry, in which a Mask leaves its places alone. So sums have an order, and any expression
 * may say which entry is read; the price is a pass for each of them.
 */
#include "derive/table.h"

#include "derive/reverse.h"
#include "derive/write.h"

static bool names_no_element(void *context, const tl_expr *e) {
    (void)context;
    return e->kind != TL_ELEMENT;
}

static bool has_index(const tl_axes *axes, str name) {
    for (int i = 0; i < axes->count; i++)
        if (str_equal(tl_axis_index(axes, i), name)) return true;
    return false;
}

/* Does another tensor or a view have it? */
static bool is_index_elsewhere(const tape *t, str input, str name) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next) {
        bool is_other = tl_is_parameter(s) && !str_equal(s->parameter.name, input);
        if (is_other && has_index(&s->parameter.axes, name)) return true;
        for (int i = 0; s->kind == TL_LET && i < s->let.count; i++)
            if (has_index(&s->let.items[i].axes, name)) return true;
    }
    return false;
}

/* An index of its own for an axis that is gone through entry by entry. */
static str entry_name(const tape *t, const tape_item *load, int number) {
    const tl_axis *axis = &tape_tensor(t, load->input)->axes.items[number];
    str name = axis->coordinate->kind == TL_NAME ? axis->coordinate->text : STR("");
    bool is_taken = !name.length || axis->is_bare || is_index_elsewhere(t, load->input, name);
    for (int i = 0; i < load->element->item_count; i++)
        is_taken |= name.length && tl_expr_names(load->element->items[i], name);
    if (!is_taken) return name;
    return tape_free_name(t, str_copy_z(t->memory, str_format(t->memory, "entry_%d", number)));
}

const char *table_why_not(const tape *t, const tape_item *load, tape_item *by_entries) {
    const tl_parameter *of = tape_tensor(t, load->input);
    int axes = tl_matrix_begin(tape_output_axes(t)) + TAPE_AXES;
    tape_item made = *load;
    if (!load->element) return "it is copied as it is";
    tl_expr *element = tl_expr_copy(t->memory, load->element);
    made.element = element, made.is_expression = true;
    for (int axis = 0; axis < of->axes.count; axis++) {
        if (share_chooses_alone(t, load, axis)) continue;
        if (!tl_visit(of->axes.items[axis].extent, names_no_element, NULL))
            return "a table says how long it is, and its gradient would be made entry by entry";
        made.tables |= 1u << axis, axes++;
        element->items[axis] =
            tl_quote_expr(t->memory, "%.*s", STR_ARGS(entry_name(t, load, axis)));
    }
    if (by_entries) *by_entries = made;
    for (int i = 0; i < t->values.items[load->value].axis_count; i++)
        if (!tape_is_length_known(t, t->values.items[load->value].axes[i]))
            return "a table says how many places read it, for each of which its gradient has parts "
                   "in memory";
    if (axes > TL_AXES_MAX)
        return "its gradient's parts would have more axes than tensors may have";
    return made.tables && share_is_known(t, &made)
               ? NULL
               : "which of its elements a place reads is said in a way that has no rule yet";
}

/* Does the Input have an axis that this one of the tile chooses on by itself? */
static bool is_own(const tape_item *by_entries, str axis) {
    for (int i = 0; i < by_entries->element->item_count; i++) {
        const tl_expr *e = by_entries->element->items[i];
        if (!(by_entries->tables >> i & 1) && tl_expr_names(e, axis)) return true;
    }
    return false;
}

/* The axis of its tile that the gradient is summed along here; empty: none. Along what the Input
 * lacks it is summed later where nothing else is left of the tile: an axis of the Outputs.
 */
static str summed_axis(const tape *t, const tape_item *by_entries, const tape_value *v) {
    if (v->axis_count < 2) return STR("");
    bool own[] = {is_own(by_entries, v->axes[0]), is_own(by_entries, v->axes[1])};
    if (own[0] && own[1]) return STR("");
    if (own[0] || own[1]) return v->axes[own[0]];
    return v->axes[tape_is_of_outputs(t, v->axes[0])];
}

/* Where an entry is not read. */
static tl_expr *elsewhere(const tape *t, const tape_item *load, const tape_item *by_entries) {
    str text = STR("");
    for (int i = 0; i < load->element->item_count; i++) {
        if (!(by_entries->tables >> i & 1)) continue;
        str entry = tl_expr_text(t->memory, by_entries->element->items[i]);
        if (by_entries->entries.length && !(by_entries->tables >> (i + 1)))
            entry = str_format(t->memory, "%d*%.*s + %d", TAPE_ENTRIES,
                               STR_ARGS(by_entries->entries), by_entries->entry);
        text =
            str_format(t->memory, "%.*s%s%.*s != %.*s", STR_ARGS(text), text.length ? " or " : "",
                       STR_ARGS(tl_expr_text(t->memory, load->element->items[i])), STR_ARGS(entry));
    }
    return tl_quote_expr(t->memory, "%.*s", STR_ARGS(text));
}

/* A value with the axes that are left of the load's. */
static int tile_of(tape *t, const tape_item *load, const tape_item *by_entries) {
    const tape_value v = t->values.items[load->value];
    str over = summed_axis(t, by_entries, &v), axes[TAPE_AXES];
    int count = 0;
    for (int i = 0; i < v.axis_count; i++)
        if (!str_equal(v.axes[i], over)) axes[count++] = v.axes[i];
    return tape_new_value(t, load->input, axes, count);
}

/* One entry, or one of a block's. False: reported. */
static bool reverse_entry(tape *t, const tape_item *load, tape_item by_entries, int g) {
    tape_item mask = {
        .kind = TAPE_MASK, .operation = TL_MASK, .fill = STR("0"), .operand_count = 1};
    mask.condition = elsewhere(t, load, &by_entries);
    mask.operands[0] = reverse_of(g), mask.tables = by_entries.tables;
    int part = reverse_elements(t, mask, load->from);
    str over = summed_axis(t, &by_entries, &t->values.items[load->value]);
    if (over.length && part != TAPE_NONE) part = reverse_row_sum(t, load->from, part, over);
    if (part == TAPE_NONE) return false;
    t->values.items[part].name = str_format(t->memory, "d%.*s", STR_ARGS(load->input));
    by_entries.value = tile_of(t, load, &by_entries);
    t->values.items[by_entries.value].adjoint = part;
    tape_add(t, by_entries);
    return true;
}

/* Of elements of a tile's places a pass over them makes several entries: the tile is here. */
bool table_reverse(tape *t, int item) {
    tape_item load = t->items.items[item], by_entries;
    int g = t->values.items[load.value].adjoint, count = 1;
    if (table_why_not(t, &load, &by_entries)) return true;
    const tl_expr *element = by_entries.element;
    int axes = tl_matrix_begin(tape_output_axes(t)) + TAPE_AXES + 1, last = 0; /* of parts */
    by_entries.value = tile_of(t, &load, &by_entries);
    for (int i = 0; i < element->item_count; i++)
        if (by_entries.tables >> i & 1) axes++, last = i;
    if (load.is_expression && !share_is_whole(t, &by_entries) && axes <= TL_AXES_MAX) {
        str wanted = str_format(t->memory, "%.*s_block", STR_ARGS(element->items[last]->text));
        by_entries.entries = tape_free_name(t, str_copy_z(t->memory, wanted));
        count = TAPE_ENTRIES;
    }
    for (; by_entries.entry < count; by_entries.entry++)
        if (!reverse_entry(t, &load, by_entries, g)) return false;
    t->values.items[load.value].adjoint = TAPE_NONE;
    t->items.items[item].is_by_entries = true;
    return true;
}
