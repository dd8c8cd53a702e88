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
    bool is_taken = w->k->takes && w->k->takes[item - w->t->items.items];
    return item->kind == TAPE_LOAD || is_taken || (w->k->takes_delta && item->value == w->t->delta);
}

const tape_item *writer_masked_by(const writer *w, const tape_item *sum) {
    const tape_item *maker = &w->t->items.items[tape_maker(w->t, sum->operands[0].value)];
    return maker->kind == TAPE_MASK && maker->tables ? maker : NULL;
}

const tape_item *writer_sums_turned(const writer *w, const tape_item *item) {
    if (item->kind != TAPE_COMPUTE || item->operation == TL_GEMM || !item->over.length) return NULL;
    const tape_item *mask = writer_masked_by(w, item);
    int of = (mask ? mask : item)->operands[0].value;
    const tape_value *v = &w->t->values.items[of];
    const tape_item *maker = &w->t->items.items[tape_maker(w->t, of)];
    bool is_turned =
        v->axis_count == 2 && str_equal(v->axes[0], item->over) && writer_loads(w, maker);
    return is_turned ? maker : NULL;
}

static void need(writer *w, const tape_item *item, int value) {
    if (value == TAPE_NONE) return;
    shown *s = &w->values[value];
    s->is_live = true;
    if (item->operation == TL_GEMM) s->is_multiplied = true;
    else s->is_computed_with = true;
}

/* Of a sum of sums, too, each is a part of what is added. */
static void find_added(writer *w) {
    const tape *t = w->t;
    w->is_added = arena_array(t->memory, bool, t->items.count + 1);
    for (int i = 0; i < w->k->add_count; i++) w->is_added[w->k->adds[i]] = true;
    for (int i = t->items.count - 1; i >= 0; i--) {
        const tape_item *item = &t->items.items[i];
        for (int k = 0; w->is_added[i] && item->accumulates && k < 2; k++)
            w->is_added[tape_maker(t, item->operands[k].value)] = true;
    }
}

static void find_live(writer *w) {
    tape *t = w->t;
    for (int i = 0; i < w->k->load_count; i++) {
        shown *gradient = &w->values[tape_gradient(t, w->k->loads[i])];
        gradient->is_live = gradient->is_computed_with = true; /* (stored from registers) */
    }
    for (int i = 0; i < w->k->give_count; i++) {
        shown *given = &w->values[t->items.items[w->k->gives[i]].value];
        given->is_live = given->is_computed_with = true;
    }
    for (int i = 0; i < w->k->add_count; i++) {
        shown *added = &w->values[t->items.items[w->k->adds[i]].value];
        added->is_live = added->is_computed_with = true;
    }
    if (w->k->gives_delta)
        w->values[t->delta].is_live = w->values[t->delta].is_computed_with = true;
    for (int i = t->items.count - 1; i >= 0; i--) {
        const tape_item *item = &t->items.items[i];
        if (!w->values[item->value].is_live || writer_loads(w, item)) continue;
        const tape_item *turned = writer_sums_turned(w, item);
        if (turned) w->values[turned->value].is_live = true;
        for (int k = 0; k < item->operand_count + item->use_count && !turned; k++)
            need(w, item, tape_read_value(item, k));
    }
}

/* Is it a sum of products over the axis, or several that are added up? (Other sums over a tile's
 * first axis have no form in registers.)
 */
static bool is_sum_over(const tape *t, int i, str axis) {
    const tape_item *item = &t->items.items[i];
    if (item->kind != TAPE_COMPUTE) return false;
    if (item->accumulates && item->operation == TL_ADD)
        return is_sum_over(t, tape_maker(t, item->operands[0].value), axis) &&
               is_sum_over(t, tape_maker(t, item->operands[1].value), axis);
    return item->operation == TL_GEMM && str_equal(item->over, axis);
}

static writer live_in(tape *t, const write_kernel *k) {
    writer w = {.t = t, .k = k, .values = arena_array(t->memory, shown, t->values.count)};
    find_live(&w);
    return w;
}

int write_sums(tape *t, const write_kernel *k, int *items) {
    writer w = live_in(t, k);
    bool *is_part = arena_array(t->memory, bool, t->items.count + 1);
    int count = 0;
    for (int i = t->items.count - 1; i >= 0; i--) {
        const tape_item *item = &t->items.items[i];
        bool is_made = w.values[item->value].is_live && !writer_loads(&w, item);
        if (is_made && is_sum_over(t, i, k->walk)) {
            if (!is_part[i]) items[count++] = i;
            for (int n = 0; n < 2 && item->accumulates; n++)
                is_part[tape_maker(t, item->operands[n].value)] = true;
        } else if (is_made && item->over.length && str_equal(item->over, k->walk)) {
            return -1;
        }
    }
    return count;
}

int write_shared_products(tape *t, const write_kernel *a, const write_kernel *b) {
    writer one = live_in(t, a), other = live_in(t, b);
    int count = 0;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool is_product = item->kind == TAPE_COMPUTE && item->operation == TL_GEMM;
        count += is_product && one.values[item->value].is_live && !writer_loads(&one, item) &&
                 other.values[item->value].is_live && !writer_loads(&other, item);
    }
    return count;
}

static shown *live_of(tape *t, int load) {
    write_kernel k = {.loads = &load, .load_count = 1, .takes_delta = t->delta != TAPE_NONE};
    return live_in(t, &k).values;
}

bool write_meets(tape *t, int load, str axis) {
    const shown *values = live_of(t, load);
    for (int i = 0; i < t->values.count; i++)
        if (values[i].is_live && tape_has_axis(t, i, axis)) return true;
    return false;
}

static bool is_summed_over(const tape_item *item, str axis) {
    return item->kind == TAPE_COMPUTE && item->over.length && str_equal(item->over, axis);
}

str write_last_summed(tape *t, int load, const str *axes, int count) {
    const shown *values = live_of(t, load);
    for (int i = t->items.count - 1; i >= 0; i--)
        for (int k = 0; k < count; k++)
            if (values[t->items.items[i].value].is_live &&
                is_summed_over(&t->items.items[i], axes[k]))
                return axes[k];
    return axes[0];
}

static section ready_of(const writer *w, const tape_item *item) {
    section latest = BEFORE;
    for (int k = 0; k < item->operand_count + item->use_count; k++) {
        int value = tape_read_value(item, k);
        if (value != TAPE_NONE && w->values[value].ready > latest) latest = w->values[value].ready;
    }
    return latest;
}

/* A sum may be left in memory where it is no matrix of two blocked axes, which has no bound. */
static bool can_be_cut(const writer *w, int item) {
    const tape *t = w->t;
    int tiled = 0;
    for (int n = 0; n < w->k->tiled_count; n++)
        tiled += tape_has_axis(t, t->items.items[item].value, w->k->tiled[n]);
    for (int i = 0; i < w->k->give_count; i++)
        if (w->k->gives[i] == item) return false;
    return tiled < 2;
}

/* Of what is known after the loop alone, the sum over the loop. */
static int sum_before(const writer *w, int item) {
    const tape_item *of = &w->t->items.items[item];
    for (int k = 0; k < of->operand_count + of->use_count; k++) {
        int value = tape_read_value(of, k);
        if (value == TAPE_NONE || w->values[value].ready != AFTER) continue;
        int maker = tape_maker(w->t, value);
        return is_summed_over(&w->t->items.items[maker], w->k->walk) ? maker : sum_before(w, maker);
    }
    return TAPE_NONE;
}

static bool reads_inside(const writer *w, const tape_item *item) {
    for (int k = 0; k < item->operand_count; k++) {
        int value = item->operands[k].value;
        if (value != TAPE_NONE && w->values[value].ready == INSIDE) return true;
    }
    return false;
}

static bool wants_cut(writer *w, int item) {
    if (item == TAPE_NONE || !can_be_cut(w, item)) return false;
    w->cut = item;
    return true;
}

/* Where each item stands: before the loop, in it, or after it. */
static bool find_sections(writer *w) {
    tape *t = w->t;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        if (!w->values[item->value].is_live) continue;
        bool is_loaded = writer_loads(w, item),
             is_summed = !is_loaded && is_summed_over(item, w->k->walk);
        for (int n = 0; n < w->k->tiled_count && !is_loaded && !w->is_added[i]; n++)
            if (is_summed_over(item, w->k->tiled[n]) && !is_summed)
                return wants_cut(w, i) ||
                       tape_refuse(t, item->from,
                                   "a gradient needs a sum over %.*s here that is a matrix of two "
                                   "blocked axes, for which there is no rule yet",
                                   STR_ARGS(item->over));
        section ready = is_loaded ? BEFORE : ready_of(w, item);
        if (ready == BEFORE && (is_summed || tape_has_axis(t, item->value, w->k->walk)))
            ready = INSIDE;
        if (ready == AFTER &&
            (reads_inside(w, item) || is_summed || tape_has_axis(t, item->value, w->k->walk)))
            return wants_cut(w, sum_before(w, i)) ||
                   tape_refuse(
                       t, item->from,
                       "its gradient needs a second walk over %.*s, for which there is no rule yet",
                       STR_ARGS(w->k->walk));
        w->sections[i] = ready;
        w->values[item->value].ready = is_summed ? AFTER : ready;
    }
    return true;
}

bool writer_is_late(const writer *w, int item) {
    bool is_sum =
        w->sections[item] == INSIDE && w->values[w->t->items.items[item].value].ready == AFTER;
    return w->k->add_count > 0 && (is_sum || w->is_added[item]);
}

int writer_key(const writer *w, int item) {
    int part = 2 * (int)w->sections[item] + writer_is_late(w, item);
    return part * w->t->items.count + item;
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
    int end = 2 * SECTIONS * t->items.count;
    for (int i = 0; i < w->k->load_count; i++)
        w->values[tape_gradient(t, w->k->loads[i])].last_use = end;
    for (int i = 0; i < w->k->give_count; i++)
        w->values[t->items.items[w->k->gives[i]].value].last_use = end;
    for (int i = 0; i < w->k->add_count; i++)
        w->values[t->items.items[w->k->adds[i]].value].last_use = end;
    if (w->k->gives_delta) w->values[t->delta].last_use = end;
}

/* --- orders of axes ----------------------------------------------------------------------------
 */

/* Does a tile lie as a product was chosen to lie? Else it lies as in memory. */
static bool lies_as_product(const writer *w, int value) {
    const tape_item *maker = &w->t->items.items[tape_maker(w->t, value)];
    if (writer_loads(w, maker)) return false;
    if (maker->operation == TL_GEMM) return true;
    for (int k = 0; k < maker->operand_count; k++) {
        int operand = maker->operands[k].value;
        if (operand != TAPE_NONE && w->t->values.items[operand].axis_count == 2)
            return lies_as_product(w, operand);
    }
    return false;
}

/* An element has no axes: a tile beside it says them. */
static bool is_beside_tile(const writer *w, const tape_item *item, int load) {
    bool is_elementwise = item->kind == TAPE_COMPUTE && !item->over.length, is_beside = false;
    for (int k = 0; k < item->operand_count; k++) {
        int value = item->operands[k].value;
        is_beside |= value != TAPE_NONE && value != load &&
                     writer_same_axes(&w->t->values.items[value], &w->t->values.items[load]) &&
                     lies_as_product(w, value);
    }
    return is_elementwise && is_beside;
}

static bool reads(const tape_item *item, int value) {
    for (int k = 0; k < item->operand_count + item->use_count; k++)
        if (tape_read_value(item, k) == value) return true;
    return false;
}

bool writer_reads_elements(const writer *w, const tape_item *load) {
    const tape *t = w->t;
    const tape_value *v = &t->values.items[load->value];
    bool can_be = load->kind == TAPE_LOAD && !load->element && v->axis_count == 2 &&
                  str_equal(v->axes[0], w->k->walk);
    bool is_summed = false;
    for (int i = 0; i < t->items.count && can_be; i++) {
        const tape_item *item = &t->items.items[i];
        if (!w->values[item->value].is_live || writer_loads(w, item)) continue;
        if (reads(item, load->value)) can_be = is_beside_tile(w, item, load->value);
        int of = item->operands[0].value;
        is_summed |= item->operation == TL_ROW_SUM && str_equal(item->over, w->k->walk) &&
                     writer_same_axes(&t->values.items[of], v) && lies_as_product(w, of);
    }
    return can_be && is_summed;
}

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
    for (int i = 0; i < w->k->give_count; i++)
        if (t->items.items[w->k->gives[i]].value == value) return v->axes[0];
    if (w->is_added[tape_maker(t, value)]) return v->axes[0];
    for (int i = 0; i < w->k->load_count; i++) {
        const tape_value *of = &t->values.items[t->items.items[w->k->loads[i]].value];
        if (writer_same_axes(of, v)) return of->axes[0];
    }
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        const tape_value *other = &t->values.items[item->value];
        bool is_loaded = item->kind == TAPE_LOAD && w->values[item->value].is_live &&
                         !writer_reads_elements(w, item);
        if (is_loaded && writer_same_axes(other, v)) return other->axes[0];
    }
    bool is_second = str_equal(v->axes[1], w->k->grid) ||
                     (str_equal(v->axes[1], w->k->walk) && !str_equal(v->axes[0], w->k->grid));
    return v->axes[is_second];
}

static bool is_filled(const writer *w, int value) {
    return w->t->items.items[tape_maker(w->t, value)].operation == TL_FILL &&
           w->t->values.items[value].axis_count == 2;
}

/* An elementwise result lies as the first of its widest operands does. What is filled lies as what
 * it meets.
 */
static void find_order(writer *w, const tape_item *item) {
    const tape *t = w->t;
    shown *s = &w->values[item->value];
    s->first = t->values.items[item->value].axes[writer_reads_elements(w, item)];
    bool is_loaded = writer_loads(w, item);
    if (is_loaded) return;
    if (item->operation == TL_GEMM) {
        s->first = first_of_product(w, item->value);
        return;
    }
    for (int k = 0; k < item->operand_count; k++) {
        int value = item->operands[k].value;
        if (value == TAPE_NONE || t->values.items[value].axis_count < 2 || is_filled(w, value))
            continue;
        s->first = w->values[value].first;
        break;
    }
    for (int k = 0; k < item->operand_count && !item->over.length; k++) {
        int value = item->operands[k].value;
        if (value != TAPE_NONE && is_filled(w, value)) w->values[value].first = s->first;
    }
}

static bool find_orders(writer *w) {
    tape *t = w->t;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        const shown *s = &w->values[item->value];
        if (!s->is_live) continue;
        find_order(w, item);
        if (item->operation == TL_FILL && s->is_multiplied && !s->is_computed_with)
            return tape_refuse(t, item->from,
                               "a gradient takes this filled tile as an operand of products alone, "
                               "for which there is no rule yet");
    }
    return true;
}

/* A tile that is made of what lies in rows and summed along columns goes by memory: it is copied
 * from there the other way round.
 */
static bool find_turned(writer *w) {
    const tape *t = w->t;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        int of = item->operands[0].value;
        bool is_sum = w->values[item->value].is_live && !writer_loads(w, item) &&
                      item->operation == TL_ROW_SUM && str_equal(item->over, w->k->walk);
        if (!is_sum || t->values.items[of].axis_count != 2 || writer_sums_turned(w, item)) continue;
        if (!str_equal(w->values[of].first, item->over) || lies_as_product(w, of)) continue;
        const tape_item *mask = writer_masked_by(w, item);
        w->cut = tape_maker(t, mask ? mask->operands[0].value : of);
        return true;
    }
    return false;
}

bool writer_plan(writer *w) {
    w->cut = TAPE_NONE;
    find_added(w);
    find_live(w);
    if (!find_orders(w) || find_turned(w)) return false;
    if (!find_sections(w) || w->cut != TAPE_NONE) return false;
    find_last_uses(w);
    return true;
}

bool write_is_possible(tape *t, const write_kernel *k, write_needs *needs) {
    writer w = {.t = t, .k = k};
    w.values = arena_array(t->memory, shown, t->values.count);
    w.sections = arena_array(t->memory, section, t->items.count);
    bool is_possible = writer_plan(&w);
    *needs = (write_needs){.cut = w.cut};
    for (int i = 0; i < t->items.count; i++)
        needs->sums_turned |= w.values[t->items.items[i].value].is_live &&
                              writer_sums_turned(&w, &t->items.items[i]) != NULL;
    needs->uses_delta = k->takes_delta && w.values[t->delta].is_live;
    return is_possible;
}
