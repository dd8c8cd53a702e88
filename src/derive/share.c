/* Where the elements of an Input's gradient are in memory, and Inputs that several tiles share:
 * keys of a group of heads, weights of a whole batch, slopes of heads. There each tile has a
 * gradient of its own, and kernels that go through one index after the other sum them up.
 */
#include "derive/share.h"

/* Does a condition demand that two lengths are equal? */
static bool demands_equal(const tl_expr *e, str a, str b) {
    if (!e || e->kind != TL_BINARY) return false;
    if (e->operator== TL_AND) return demands_equal(e->left, a, b) || demands_equal(e->right, a, b);
    bool is_of_names =
        e->operator== TL_EQUAL && e->left->kind == TL_NAME && e->right->kind == TL_NAME;
    return is_of_names && ((str_equal(e->left->text, a) && str_equal(e->right->text, b)) ||
                           (str_equal(e->left->text, b) && str_equal(e->right->text, a)));
}

/* Are both lengths equal by what the sketch demands? */
static bool are_demanded_equal(const tape *t, const tl_expr *a, const tl_expr *b) {
    bool is_of_names = a->kind == TL_NAME && b->kind == TL_NAME;
    for (const tl_statement *s = t->kernel->body.first; is_of_names && s; s = s->next) {
        if (tl_is_parameter(s) && demands_equal(s->parameter.condition, a->text, b->text))
            return true;
    }
    return false;
}

/* Is each block of the axis one index? */
static bool is_one_each(const tape *t, str index, const tl_axis *axis) {
    const tl_axis *all = tape_axis(t, index);
    return all && are_demanded_equal(t, all->extent, axis->extent);
}

/* x of x, or of x + 32, which begins at 32; NULL: it is another expression. */
static const tl_expr *index_of(const tl_expr *e, int64_t *begin) {
    *begin = 0;
    if (e->kind == TL_NAME) return e;
    if (e->kind != TL_BINARY || e->operator!= TL_PLUS) return NULL;
    for (int i = 0; i < 2; i++) {
        const tl_expr *name = i ? e->right : e->left, *rest = i ? e->left : e->right;
        if (name->kind == TL_NAME && tl_known_integer(rest, begin) && *begin >= 0) return name;
    }
    return NULL;
}

/* Finds the axis of the Input that an index chooses on, as it is or by blocks. */
static void find_own(const shared *s, share_axis *axis) {
    for (int i = 0; i < s->of->axes.count; i++) {
        const tl_expr *e = tape_index(s->load, s->of, i);
        int64_t begin;
        const tl_expr *name = index_of(e, &begin);
        bool is_itself = name && str_equal(name->text, axis->index);
        bool is_block = e->kind == TL_BINARY && e->operator== TL_OVER && e->left->kind == TL_NAME;
        is_block = is_block && str_equal(e->left->text, axis->index);
        if (!is_itself && !is_block) continue;
        axis->own = i;
        if (is_block && !is_one_each(s->t, axis->index, &s->of->axes.items[i]))
            axis->size = e->right;
        return;
    }
}

str share_extent(const tape *t, const tl_axis *axis) {
    return tl_expr_text(t->memory, axis->extent);
}

static int add_axis(shared *s, str index, const tl_axis *axis, bool is_tile) {
    share_axis made = {
        .index = index, .extent = share_extent(s->t, axis), .own = -1, .is_tile = is_tile};
    find_own(s, &made);
    s->axes[s->count++] = made;
    return made.own < 0 || made.size;
}

/* Does a tile lie along an axis that the Input lacks? */
static bool is_kept(const share_axis *axis) {
    return axis->is_tile && axis->own < 0;
}

/* Of elements those axes are a tile that were one, and the last one alone else: a tile's rows lie
 * in memory as they are.
 */
static int matrix_of(const shared *s) {
    int count = s->of->axes.count, tiles = 0;
    if (!s->load->element) return tl_matrix_begin(&s->of->axes);
    for (int i = 0; i < s->count; i++) tiles += s->axes[i].is_tile && s->axes[i].own >= count - 2;
    return count - (tiles == 2 ? 2 : 1);
}

/* All indices of a tile's place, and its own. Returns how many steps are to be taken. */
int share_open(shared *s, const tape *t, const tape_item *load, const tl_parameter *of) {
    const tl_axes *all = tape_output_axes(t);
    const tape_value *tile = &t->values.items[load->value];
    int steps = 0;
    *s = (shared){.t = t, .load = load, .of = of};
    for (int i = 0; i < tl_matrix_begin(all); i++)
        steps += add_axis(s, tl_axis_index(all, i), &all->items[i], false);
    for (int i = 0; i < of->axes.count; i++)
        if (load->tables >> i & 1) {
            steps += add_axis(s, load->element->items[i]->text, &of->axes.items[i], false);
            if (!(load->tables >> (i + 1))) s->axes[s->count - 1].entries = load->entries;
        }
    for (int i = 0; i < tile->axis_count; i++)
        steps += add_axis(s, tile->axes[i], tape_axis(t, tile->axes[i]), true);
    s->matrix = matrix_of(s);
    s->by_tile = load->element && tile->axis_count == 2;
    for (int i = 0; i < s->count; i++) s->by_tile &= !is_kept(&s->axes[i]);
    return steps;
}

/* Does some tensor have this axis, chosen on in that way? */
static bool is_axis_of_tensor(const tape *t, const tl_expr *index, const tl_expr *extent) {
    for (const tl_statement *s = t->kernel->body.first; s; s = s->next)
        for (int i = 0; tl_is_parameter(s) && i < s->parameter.axes.count; i++)
            if (tl_expr_equal(s->parameter.axes.items[i].coordinate, index) &&
                tl_expr_equal(s->parameter.axes.items[i].extent, extent))
                return true;
    return false;
}

/* head/group, where group is as many as it takes: q_heads/kv_heads */
static bool is_block_of_all(const tape *t, const tl_expr *index, const tl_expr *extent) {
    bool is_block = index->kind == TL_BINARY && index->operator== TL_OVER &&
                                                index->left->kind == TL_NAME &&
                                                index->right->kind == TL_NAME;
    const tl_symbol *size = is_block ? index->right->symbol : NULL;
    const tl_axis *all = is_block ? tape_axis(t, index->left->text) : NULL;
    const tl_expr *value = size && size->kind == TL_SYMBOL_CONSTANT ? size->value : NULL;
    return all && value && value->kind == TL_BINARY &&
           value->operator== TL_OVER && tl_expr_equal(value->left, all->extent) &&
           tl_expr_equal(value->right, extent);
}

/* Is an axis gone through from end to end by the index that chooses on it? */
static bool is_whole_axis(const shared *s, int axis) {
    const tl_expr *index = tape_index(s->load, s->of, axis);
    const tl_expr *extent = s->of->axes.items[axis].extent;
    if (s->load->tables >> axis & 1) return true;
    if (is_axis_of_tensor(s->t, index, extent) || is_block_of_all(s->t, index, extent)) return true;
    const tl_axis *all = index->kind == TL_NAME ? tape_axis(s->t, index->text) : NULL;
    return all &&
           (tl_expr_equal(all->extent, extent) || are_demanded_equal(s->t, all->extent, extent));
}

/* Is each axis of the Input chosen on by one index, or (of a view) by a number? */
static bool is_chosen_once(const shared *s) {
    for (int axis = 0; axis < s->of->axes.count; axis++) {
        int found = 0;
        int64_t at;
        bool is_number = s->load->element && !s->load->is_expression &&
                         tl_known_integer(s->load->element->items[axis], &at);
        for (int i = 0; i < s->count; i++) found += s->axes[i].own == axis;
        if (found != !is_number) return false;
    }
    return true;
}

bool share_chooses_alone(const tape *t, const tape_item *load, int axis) {
    shared s;
    int64_t begin;
    share_open(&s, t, load, tape_tensor(t, load->input));
    const tl_expr *index = index_of(tape_index(load, s.of, axis), &begin);
    bool is_alone = is_whole_axis(&s, axis);
    for (int i = 0; i < axis && is_alone && index; i++)
        is_alone = !tl_expr_names(tape_index(load, s.of, i), index->text);
    return is_alone;
}

bool share_is_known(const tape *t, const tape_item *load) {
    shared s;
    share_open(&s, t, load, tape_tensor(t, load->input));
    for (int axis = 0; load->element && axis < s.of->axes.count; axis++)
        if (!is_whole_axis(&s, axis)) return false;
    for (int i = 0; load->element && i < s.count; i++)
        if (!tape_is_length_known(t, s.axes[i].index)) return false;
    return is_chosen_once(&s);
}

/* The one axis of which a view shows a part, as numbers; -1: all are shown whole; -2: neither. */
static int part_of(const shared *s, int64_t *begin, int64_t *end) {
    int part = -1;
    for (int axis = 0; axis < s->of->axes.count; axis++) {
        if (is_whole_axis(s, axis)) continue;
        const tl_expr *what = tape_index(s->load, s->of, axis), *index = index_of(what, begin);
        const tl_axis *all = index ? tape_axis(s->t, index->text) : NULL;
        bool is_number = tl_known_integer(what, begin);
        *end = 1;
        if (part >= 0 || (!is_number && !(all && tl_known_integer(all->extent, end)))) return -2;
        *end += *begin, part = axis;
    }
    return part;
}

/* Views of parts follow one another along one axis, from its beginning to its end. */
bool share_covers(const tape *t, const tape_item *load) {
    shared s;
    int64_t begin, end, reached = 0, length;
    int steps = share_open(&s, t, load, tape_tensor(t, load->input)), count = 0;
    int axis = part_of(&s, &begin, &end), views = 0;
    for (int i = 0; i < t->items.count; i++)
        views +=
            t->items.items[i].kind == TAPE_LOAD && str_equal(t->items.items[i].input, load->input);
    if (!is_chosen_once(&s) || axis == -2) return false;
    if (axis == -1 || load->reading) return axis == -1 && (load->reading || views == 1);
    if (steps || !tl_known_integer(s.of->axes.items[axis].extent, &length)) return false;
    for (bool is_found = true; is_found && count < views;) {
        is_found = false;
        for (int i = 0; i < t->items.count && !is_found; i++) {
            const tape_item *other = &t->items.items[i];
            if (other->kind != TAPE_LOAD || !str_equal(other->input, load->input)) continue;
            if (share_open(&s, t, other, s.of) || !is_chosen_once(&s) ||
                part_of(&s, &begin, &end) != axis)
                return false;
            is_found = begin == reached && end > begin;
        }
        if (is_found) reached = end, count++;
    }
    return reached == length && count == views;
}

bool share_is_whole(const tape *t, const tape_item *load) {
    shared s;
    return share_open(&s, t, load, tape_tensor(t, load->input)) == 0;
}

str share_whole(const tape *t, const tape_item *load) {
    str name = str_format(t->memory, "d%.*s", STR_ARGS(load->input));
    if (!load->reading) return name;
    name = str_format(t->memory, "%.*s_%d", STR_ARGS(name), load->reading);
    return tape_free_name(t, str_copy_z(t->memory, name));
}

str share_gradient(const tape *t, const tape_item *load) {
    return str_format(t->memory, share_is_whole(t, load) ? "%.*s" : "%.*s_parts",
                      STR_ARGS(share_whole(t, load)));
}

/* --- texts ------------------------------------------------------------------------------------ */

/* Is the axis one of those that a sum's tile has? */
bool share_is_of_matrix(const shared *s, const share_axis *axis) {
    return s->by_tile ? axis->is_tile : axis->own >= s->matrix || is_kept(axis);
}

/* "n_of_block" */
static str entry_of_block(const shared *s, const share_axis *axis) {
    str wanted = str_format(s->t->memory, "%.*s_of_block", STR_ARGS(axis->index));
    return tape_free_name(s->t, str_copy_z(s->t->memory, wanted));
}

/* "n_block in (distances)/8", and "n_of_block in 8" */
static str entries_text(const shared *s, const share_axis *axis, bool is_whole) {
    str blocks = str_format(s->t->memory, "%.*s in (%.*s)/%d", STR_ARGS(axis->entries),
                            STR_ARGS(axis->extent), TAPE_ENTRIES);
    if (!is_whole) return blocks;
    return str_format(s->t->memory, "%.*s, %.*s in %d", STR_ARGS(blocks),
                      STR_ARGS(entry_of_block(s, axis)), TAPE_ENTRIES);
}

static str axis_text(const shared *s, const share_axis *axis) {
    const tl_axis *known = tape_axis(s->t, axis->index);
    if (known && known->is_bare) return axis->index;
    return str_format(s->t->memory, "%.*s in %.*s", STR_ARGS(axis->index), STR_ARGS(axis->extent));
}

/* "b in batch, head in q_heads; q in q_len, d": a matrix is the tile, or the Input's. */
str share_axes_text(const shared *s, bool of_tile) {
    str text = STR("");
    bool is_in_matrix = false;
    for (int i = 0; i < s->count; i++) {
        const share_axis *axis = &s->axes[i];
        bool begins = !is_in_matrix && i && (of_tile ? axis->is_tile : share_is_of_matrix(s, axis));
        is_in_matrix |= of_tile ? axis->is_tile : share_is_of_matrix(s, axis);
        text = str_format(s->t->memory, "%.*s%s%.*s", STR_ARGS(text),
                          begins ? "; "
                          : i    ? ", "
                                 : "",
                          STR_ARGS(of_tile && axis->entries.length ? entries_text(s, axis, true)
                                                                   : axis_text(s, axis)));
    }
    return text;
}

/* The axes of a sum's tile, and how many they are. */
str share_matrix_text(const shared *s, int *count) {
    str text = STR("");
    *count = 0;
    for (int i = 0; i < s->count; i++)
        if (share_is_of_matrix(s, &s->axes[i]))
            text = str_format(s->t->memory, "%.*s%s%.*s", STR_ARGS(text), (*count)++ ? ", " : "",
                              STR_ARGS(axis_text(s, &s->axes[i])));
    return text;
}

str share_element_text(const shared *s, int summed, str at, bool of_tile) {
    str text = STR("");
    for (int i = 0; i < s->count; i++) {
        str own = i == summed ? at : s->axes[i].index;
        if (of_tile && s->axes[i].entries.length)
            own = str_format(s->t->memory, "%.*s/%d, %.*s %% %d", STR_ARGS(own), TAPE_ENTRIES,
                             STR_ARGS(own), TAPE_ENTRIES);
        text = str_format(s->t->memory, "%.*s%s%.*s", STR_ARGS(text), i ? ", " : "", STR_ARGS(own));
    }
    return text;
}

/* "let NAME (b in batch, n_block in (distances)/8; q in q_len) = dbias_parts[b, n_block, 3, q]" */
static str entry_view(const shared *s, str name) {
    str places = STR(""), tile = STR(""), element = STR("");
    arena *memory = s->t->memory;
    for (int i = 0; i < s->count; i++) {
        const share_axis *axis = &s->axes[i];
        str *into = axis->is_tile ? &tile : &places, at = axis->index;
        str text = axis->entries.length ? entries_text(s, axis, false) : axis_text(s, axis);
        if (axis->entries.length)
            at = str_format(memory, "%.*s, %d", STR_ARGS(axis->entries), s->load->entry);
        *into = str_format(memory, "%.*s%s%.*s", STR_ARGS(*into), into->length ? ", " : "",
                           STR_ARGS(text));
        element = str_format(memory, "%.*s%s%.*s", STR_ARGS(element), i ? ", " : "", STR_ARGS(at));
    }
    return str_format(memory, "let %.*s (%.*s; %.*s) = %.*s[%.*s]\n", STR_ARGS(name),
                      STR_ARGS(places), STR_ARGS(tile), STR_ARGS(share_gradient(s->t, s->load)),
                      STR_ARGS(element));
}

/* "b in batch, q in q_len, head in heads, d" */
str share_own_axes(const shared *s) {
    str text = STR("");
    for (int i = 0; i < s->of->axes.count; i++) {
        str axis = STR("");
        for (int k = 0; k < s->count; k++)
            if (s->axes[k].own == i) axis = axis_text(s, &s->axes[k]);
        if (!is_whole_axis(s, i))
            axis = str_format(s->t->memory, "%.*s in %.*s", STR_ARGS(tape_free_name(s->t, "place")),
                              STR_ARGS(share_extent(s->t, &s->of->axes.items[i])));
        text =
            str_format(s->t->memory, "%.*s%s%.*s", STR_ARGS(text), i ? ", " : "", STR_ARGS(axis));
    }
    return text;
}

/* "let NAME (its place; a tile) = TENSOR[...]", where a tile has the axes that 'of_tile' or a sum
 * says.
 */
str share_view_text(const shared *s, bool of_tile, str name, str tensor) {
    str element = STR(""), before = STR(""), tile = STR("");
    arena *memory = s->t->memory;
    for (int i = 0; i < s->of->axes.count; i++) {
        str at = tl_expr_text(memory, tape_index(s->load, s->of, i));
        for (int k = 0; k < s->count; k++) /* (of a block, its own name) */
            if (s->axes[k].own == i && is_whole_axis(s, i)) at = s->axes[k].index;
        element = str_format(memory, "%.*s%s%.*s", STR_ARGS(element), i ? ", " : "", STR_ARGS(at));
    }
    for (int i = 0; i < s->count; i++) {
        const share_axis *axis = &s->axes[i];
        str *into = (of_tile ? axis->is_tile : share_is_of_matrix(s, axis)) ? &tile : &before;
        bool comes_first = into == &tile && of_tile && tile.length &&
                           str_equal(s->t->values.items[s->load->value].axes[0], axis->index);
        *into = comes_first
                    ? str_format(memory, "%.*s, %.*s", STR_ARGS(axis_text(s, axis)), STR_ARGS(tile))
                    : str_format(memory, "%.*s%s%.*s", STR_ARGS(*into), into->length ? ", " : "",
                                 STR_ARGS(axis_text(s, axis)));
    }
    return str_format(memory, "let %.*s (%.*s%s%.*s) = %.*s[%.*s]\n", STR_ARGS(name),
                      STR_ARGS(before), before.length ? "; " : "", STR_ARGS(tile), STR_ARGS(tensor),
                      STR_ARGS(element));
}

/* --- where a tile is stored --------------------------------------------------------------------
 */

/* What is left to be summed, the Input's matrix, what is kept; of what is done, the Input's order.
 */
void share_arrange(shared *s, bool is_last) {
    share_axis ordered[SHARE_AXES];
    int count = 0;
    for (int i = 0; i < s->count && !is_last; i++)
        if (!share_is_of_matrix(s, &s->axes[i])) ordered[count++] = s->axes[i];
    for (int own = 0; own < s->of->axes.count; own++)
        for (int i = 0; i < s->count; i++)
            if (s->axes[i].own == own && (is_last || share_is_of_matrix(s, &s->axes[i])))
                ordered[count++] = s->axes[i];
    for (int i = 0; i < s->count; i++)
        if (is_kept(&s->axes[i])) ordered[count++] = s->axes[i];
    for (int i = 0; i < count; i++) s->axes[i] = ordered[i];
}

/* Has the Input the tile's axes in another order, or the tile's place after them? */
static bool is_turned(const shared *s) {
    const tape_value *tile = &s->t->values.items[s->load->value];
    int at = 0;
    for (int i = 0; i < s->count; i++) {
        bool is_next = at < tile->axis_count && str_equal(s->axes[i].index, tile->axes[at]);
        if (s->axes[i].is_tile ? !is_next : at > 0) return true;
        at += s->axes[i].is_tile;
    }
    return false;
}

/* Where a tile is stored: the Input's order, where nothing has to be summed. */
static bool open_stored(shared *s, const tape *t, const tape_item *load) {
    bool is_whole = !share_open(s, t, load, tape_tensor(t, load->input));
    int64_t begin, end;
    if (is_whole) share_arrange(s, true);
    return is_turned(s) || (load->element && part_of(s, &begin, &end) != -1 && is_whole);
}

str share_axes(const tape *t, const tape_item *load) {
    shared s;
    return open_stored(&s, t, load) ? share_own_axes(&s) : share_axes_text(&s, true);
}

str share_view(const tape *t, const tape_item *load, str name) {
    shared s;
    if (load->entries.length) {
        share_open(&s, t, load, tape_tensor(t, load->input));
        return entry_view(&s, name);
    }
    return open_stored(&s, t, load) ? share_view_text(&s, true, name, share_gradient(t, load))
                                    : STR("");
}
