/* What a kernel needs of a tape, and where each item stands: before its loop, in it, or after it.
 */
#include "derive/writer.h"

/* --- axes ------------------------------------------------------------------------------------- */

bool writer_same_axes(const tape_value *a, const tape_value *b) {
    if (a->axis_count != b->axis_count) return false;
    if (a->axis_count == 1) return str_equal(a->axes[0], b->axes[0]);
    bool is_turned = str_equal(a->axes[0], b->axes[1]) && str_equal(a->axes[1], b->axes[0]);
    return is_turned || (str_equal(a->axes[0], b->axes[0]) && str_equal(a->axes[1], b->axes[1]));
}

/* --- what is needed --------------------------------------------------------------------------- */

bool writer_loads(const writer *w, const tape_item *item) {
    return item->kind == TAPE_LOAD || (w->k->takes_delta && item->value == w->t->delta);
}

static void need(writer *w, const tape_item *item, int value) {
    if (value == TAPE_NONE) return;
    shown *s = &w->values[value];
    s->is_live = true;
    if (item->operation == TL_GEMM) s->is_multiplied = true;
    else s->is_computed_with = true;
}

static void find_live(writer *w) {
    tape *t = w->t;
    for (int i = 0; i < w->k->load_count; i++) {
        shown *gradient = &w->values[tape_gradient(t, w->k->loads[i])];
        gradient->is_live = gradient->is_computed_with = true; /* (stored from registers) */
    }
    if (w->k->gives_delta)
        w->values[t->delta].is_live = w->values[t->delta].is_computed_with = true;
    for (int i = t->items.count - 1; i >= 0; i--) {
        const tape_item *item = &t->items.items[i];
        if (!w->values[item->value].is_live || writer_loads(w, item)) continue;
        for (int k = 0; k < item->operand_count + item->use_count; k++)
            need(w, item, tape_read_value(item, k));
    }
}

bool write_meets(tape *t, int load, str axis) {
    write_kernel k = {.loads = &load, .load_count = 1, .takes_delta = t->delta != TAPE_NONE};
    writer w = {.t = t, .k = &k, .values = arena_array(t->memory, shown, t->values.count)};
    find_live(&w);
    for (int i = 0; i < t->values.count; i++)
        if (w.values[i].is_live && tape_has_axis(t, i, axis)) return true;
    return false;
}

static bool is_summed_over(const tape_item *item, str axis) {
    return item->kind == TAPE_COMPUTE && item->over.length && str_equal(item->over, axis);
}

static section ready_of(const writer *w, const tape_item *item) {
    section latest = BEFORE;
    for (int k = 0; k < item->operand_count + item->use_count; k++) {
        int value = tape_read_value(item, k);
        if (value != TAPE_NONE && w->values[value].ready > latest) latest = w->values[value].ready;
    }
    return latest;
}

static bool reads_inside(const writer *w, const tape_item *item) {
    for (int k = 0; k < item->operand_count; k++) {
        int value = item->operands[k].value;
        if (value != TAPE_NONE && w->values[value].ready == INSIDE) return true;
    }
    return false;
}

/* Where each item stands: before the loop, in it, or after it. */
static bool find_sections(writer *w) {
    tape *t = w->t;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        if (!w->values[item->value].is_live) continue;
        bool is_loaded = writer_loads(w, item),
             is_summed = !is_loaded && is_summed_over(item, w->k->walk);
        for (int n = 0; n < w->k->tiled_count && !is_loaded; n++)
            if (is_summed_over(item, w->k->tiled[n]) && !is_summed)
                return tape_refuse(t, item->from,
                                   "its gradient is a sum over %.*s and over %.*s: two walks, for "
                                   "which there is no rule yet",
                                   STR_ARGS(item->over), STR_ARGS(w->k->walk));
        section ready = is_loaded ? BEFORE : ready_of(w, item);
        if (ready == BEFORE && (is_summed || tape_has_axis(t, item->value, w->k->walk)))
            ready = INSIDE;
        if (ready == AFTER &&
            (reads_inside(w, item) || is_summed || tape_has_axis(t, item->value, w->k->walk)))
            return tape_refuse(
                t, item->from,
                "its gradient needs a second walk over %.*s, for which there is no rule yet",
                STR_ARGS(w->k->walk));
        w->sections[i] = ready;
        w->values[item->value].ready = is_summed ? AFTER : ready;
    }
    return true;
}

int writer_key(const writer *w, int item) {
    return (int)w->sections[item] * w->t->items.count + item;
}

static void find_last_uses(writer *w) {
    tape *t = w->t;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        if (!w->values[item->value].is_live || writer_loads(w, item)) continue;
        for (int k = 0; k < item->operand_count + item->use_count; k++) {
            int value = tape_read_value(item, k);
            if (value != TAPE_NONE && w->values[value].last_use < writer_key(w, i))
                w->values[value].last_use = writer_key(w, i);
        }
    }
    int end = SECTIONS * t->items.count;
    for (int i = 0; i < w->k->load_count; i++)
        w->values[tape_gradient(t, w->k->loads[i])].last_use = end;
    if (w->k->gives_delta) w->values[t->delta].last_use = end;
}

/* --- orders of axes ----------------------------------------------------------------------------
 */

/* A product may have either axis first: as what is stored of it has; as other tiles with these axes
 * lie in memory; else the grid's axis, then the walked one.
 */
static str first_of_product(const writer *w, int value) {
    const tape *t = w->t;
    const tape_value *v = &t->values.items[value];
    for (int i = 0; i < w->k->load_count; i++) {
        if (tape_gradient(t, w->k->loads[i]) == value)
            return t->values.items[t->items.items[w->k->loads[i]].value].axes[0];
    }
    for (int i = 0; i < w->k->load_count; i++) {
        const tape_value *of = &t->values.items[t->items.items[w->k->loads[i]].value];
        if (writer_same_axes(of, v)) return of->axes[0];
    }
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        const tape_value *other = &t->values.items[item->value];
        bool is_loaded = item->kind == TAPE_LOAD && w->values[item->value].is_live;
        if (is_loaded && writer_same_axes(other, v)) return other->axes[0];
    }
    bool is_second = str_equal(v->axes[1], w->k->grid) ||
                     (str_equal(v->axes[1], w->k->walk) && !str_equal(v->axes[0], w->k->grid));
    return v->axes[is_second];
}

/* An elementwise result lies as the first of its widest operands does. */
static void find_orders(writer *w) {
    const tape *t = w->t;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        shown *s = &w->values[item->value];
        if (!s->is_live) continue;
        s->first = t->values.items[item->value].axes[0];
        bool is_product = item->operation == TL_GEMM && !writer_loads(w, item);
        if (is_product) s->first = first_of_product(w, item->value);
        for (int k = 0; k < item->operand_count && !is_product && !writer_loads(w, item); k++) {
            int value = item->operands[k].value;
            if (value == TAPE_NONE || t->values.items[value].axis_count < 2) continue;
            s->first = w->values[value].first;
            break;
        }
    }
}

bool writer_plan(writer *w) {
    find_live(w);
    find_orders(w);
    if (!find_sections(w)) return false;
    find_last_uses(w);
    return true;
}
