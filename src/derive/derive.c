#include "derive/derive.h"

#include "derive/derivation.h"

#include <string.h>

/* --- which kernels ---------------------------------------------------------------------------- */

static void add_tiled(derivation *d, str axis) {
    for (int i = 0; i < d->tiled.count; i++)
        if (str_equal(d->tiled.items[i], axis)) return;
    list_push(d->tape.memory, &d->tiled, axis);
}

static void find_tiled(derivation *d) {
    const tape *t = &d->tape;
    for (int i = 0; i < t->stores.count; i++) {
        const tl_axes *axes = &t->stores.items[i].output->parameter.axes;
        for (int k = tl_matrix_begin(axes); k < axes->count; k++)
            if (!axes->items[k].is_bare) add_tiled(d, tl_axis_index(axes, k));
    }
    for (int i = 0; i < t->loops.count; i++) add_tiled(d, t->loops.items[i].walked);
}

/* Each row of the Outputs: what a gradient sums along it, it takes whole. */
static str row_axis(const tape *t) {
    const tl_axes *axes = tape_output_axes(t);
    return axes->count - tl_matrix_begin(axes) > 1 ? tl_axis_index(axes, axes->count - 1) : STR("");
}

/* The axis that a gradient is summed over: the tiled one that its Input lacks. Of two, rows are
 * taken whole; else the last is walked, and kernels before it sum over the others.
 */
static void find_walk(derivation *d, int at, str *walk, bool *takes_rows) {
    const tape_item *load = &d->tape.items.items[at];
    str *lacking = arena_array(d->tape.memory, str, d->tiled.count + 1), row = row_axis(&d->tape);
    int count = 0;
    for (int i = 0; i < d->tiled.count; i++) {
        str axis = d->tiled.items[i];
        bool is_own = tape_has_axis(&d->tape, load->value, axis);
        if (!is_own && write_meets(&d->tape, at, axis)) lacking[count++] = axis;
    }
    *takes_rows =
        count == 2 && row.length && (str_equal(lacking[0], row) || str_equal(lacking[1], row));
    *walk = count > 1 && !*takes_rows ? write_last_summed(&d->tape, at, lacking, count)
            : count                   ? lacking[*takes_rows && str_equal(lacking[0], row)]
                                      : STR("");
}

/* Are both made of the same blocks? */
bool derivation_has_same_blocks(const derivation *d, int a, int b) {
    for (int i = 0; i < d->tiled.count; i++)
        if (tape_has_axis(&d->tape, a, d->tiled.items[i]) !=
            tape_has_axis(&d->tape, b, d->tiled.items[i]))
            return false;
    return true;
}

/* Where a gradient is made by this walk: 'of' is the Input's value, or delta. */
static group *group_of(derivation *d, str walk, int of, unsigned tables) {
    for (int i = 0; i < d->groups.count; i++) {
        group *g = &d->groups.items[i];
        int first = g->loads.count ? d->tape.items.items[g->loads.items[0]].value : d->tape.delta;
        bool is_one_tile = !g->is_delta_alone && !tables && !g->is_by_entries;
        if (is_one_tile && str_equal(g->walk, walk) && derivation_has_same_blocks(d, first, of))
            return g;
    }
    group made = {.walk = walk, .is_by_entries = tables != 0};
    list_push(d->tape.memory, &d->groups, made);
    return &d->groups.items[d->groups.count - 1];
}

/* Of the views of an Input either all have gradients or none has: what is stored is the whole. */
static bool is_whole(tape *t, const tape_item *load) {
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *other = &t->items.items[i];
        bool is_of_it = other->kind == TAPE_LOAD && !other->is_by_entries && !load->reading &&
                        str_equal(other->input, load->input);
        if (is_of_it && tape_gradient(t, i) == TAPE_NONE)
            return tape_refuse(t, other->from,
                               "there is no gradient of %.*s: nothing that is given out depends on "
                               "this part of it",
                               STR_ARGS(load->input));
    }
    return true;
}

static bool find_groups(derivation *d, bool is_delta_alone) {
    tape *t = &d->tape;
    str softmax_walk = tape_softmax_walk(t);
    bool needs_delta = t->delta != TAPE_NONE && softmax_walk.length;
    group delta = {.walk = softmax_walk, .gives_delta = true, .is_delta_alone = true};
    if (needs_delta && (t->delta_walks || is_delta_alone)) list_push(t->memory, &d->groups, delta);
    else if (needs_delta) group_of(d, softmax_walk, t->delta, 0)->gives_delta = true;
    for (int i = 0; i < t->items.count; i++) {
        const tape_item *item = &t->items.items[i];
        bool has_gradient = tape_wanted(t, item) && tape_gradient(t, i) != TAPE_NONE;
        str walk;
        bool takes_rows;
        if (!has_gradient) continue;
        str name = str_format(t->memory, "d%.*s", STR_ARGS(item->input));
        const tl_symbol *symbol = tl_find_symbol(t->kernel, name);
        bool is_output = symbol && symbol->is_output; /* of another kernel */
        if (tape_is_taken(t, name) && !is_output)
            return tape_refuse(t, item->from,
                               "the gradient of %.*s is given out as %.*s, which means something "
                               "else in the sketch: rename that",
                               STR_ARGS(item->input), STR_ARGS(name));
        if (!is_whole(t, item)) return false;
        if (!item->element && !share_is_known(t, item))
            return tape_refuse(t, item->from,
                               "which matrix of %.*s a tile takes is said in a way that has no "
                               "rule yet",
                               STR_ARGS(item->input));
        find_walk(d, i, &walk, &takes_rows);
        group *g = item->entry ? &d->groups.items[d->groups.count - 1] /* with the first */
                               : group_of(d, walk, item->value, item->tables);
        list_push(t->memory, &g->loads, i);
        g->takes_rows |= takes_rows;
    }
    return true;
}

int derivation_value(const derivation *d, const group *g) {
    if (g->starts.count) return d->tape.items.items[g->starts.items[0]].value;
    return g->loads.count ? d->tape.items.items[g->loads.items[0]].value : d->tape.delta;
}

static bool is_of_vectors(const derivation *d, const group *g) {
    bool is_vector = g->loads.count > 0 && !g->walk.length && !g->gives_delta && !g->is_by_entries;
    for (int i = 0; i < g->loads.count; i++)
        is_vector &=
            d->tape.values.items[d->tape.items.items[g->loads.items[i]].value].axis_count == 1;
    return is_vector;
}

/* What vectors alone make without a walk goes with what has the same blocks: rows of a matrix. */
static void join_vectors(derivation *d) {
    for (int i = d->groups.count - 1; i >= 0; i--) {
        group *g = &d->groups.items[i], *with = NULL;
        for (int k = 0; k < d->groups.count && is_of_vectors(d, g) && !with; k++) {
            group *other = &d->groups.items[k];
            bool is_like =
                !is_of_vectors(d, other) && !other->is_by_entries &&
                derivation_has_same_blocks(d, derivation_value(d, other), derivation_value(d, g));
            if (is_like) with = other;
        }
        if (!with) continue;
        for (int k = 0; k < g->loads.count; k++)
            list_push(d->tape.memory, &with->loads, g->loads.items[k]);
        for (int k = i; k + 1 < d->groups.count; k++) d->groups.items[k] = d->groups.items[k + 1];
        d->groups.count--;
    }
}

/* --- the program ------------------------------------------------------------------------------ */

/* Are both loads parts of one gradient? */
static bool is_of_same(const tape_item *a, const tape_item *b) {
    return str_equal(a->input, b->input) && a->reading == b->reading;
}

/* Does another kernel make the gradient of another view of the Input? */
static bool is_elsewhere(const derivation *d, const group *g, const tape_item *load) {
    for (const group *other = d->groups.items; other != d->groups.items + d->groups.count; other++)
        for (int i = 0; i < other->loads.count && other != g; i++)
            if (is_of_same(&d->tape.items.items[other->loads.items[i]], load)) return true;
    return false;
}

str derivation_input(const derivation *d, const tape_item *load) {
    str whole = share_whole(&d->tape, load); /* "dK" */
    return (str){whole.data + 1, whole.length - 1};
}

static str kernel_name(const derivation *d, const group *g) {
    const tape *t = &d->tape;
    int number = 1; /* among those that give sums */
    for (const group *other = d->groups.items; other != g; other++)
        number += other->gives.count > 0;
    if (g->gives.count)
        return str_format(t->memory, number > 1 ? "%.*s_sums_%d" : "%.*s_sums",
                          STR_ARGS(t->kernel->name), number);
    const char *does = g->loads.count ? "gradient" : g->gives_delta ? "delta" : "start";
    str name = str_format(t->memory, "%.*s_%s", STR_ARGS(t->kernel->name), does);
    for (int i = 0; i < g->fused.count; i++)
        name = str_format(t->memory, "%.*s_%.*s", STR_ARGS(name), STR_ARGS(g->fused.items[i]));
    for (int i = 0; i < g->loads.count; i++) {
        const tape_item *load = &t->items.items[g->loads.items[i]];
        bool is_named = false;
        for (int k = 0; k < i && !is_elsewhere(d, g, load); k++)
            is_named |= is_of_same(&t->items.items[g->loads.items[k]], load);
        str own = is_elsewhere(d, g, load) ? load->tensor : derivation_input(d, load);
        if (!is_named) name = str_format(t->memory, "%.*s_%.*s", STR_ARGS(name), STR_ARGS(own));
    }
    return name;
}

write_kernel derivation_kernel(const derivation *d, const group *g) {
    const tape *t = &d->tape;
    str *tiled = arena_array(t->memory, str, d->tiled.count + 1);
    bool *is_part = arena_array(t->memory, bool, g->loads.count + 1);
    for (int i = 0; i < g->loads.count; i++)
        is_part[i] = is_elsewhere(d, g, &t->items.items[g->loads.items[i]]);
    write_kernel k = {.name = kernel_name(d, g),
                      .loads = g->loads.items,
                      .load_count = g->loads.count,
                      .is_part = is_part,
                      .walk = g->walk,
                      .tiled = tiled,
                      .gives = g->gives.items,
                      .give_count = g->gives.count,
                      .adds = g->adds.items,
                      .add_count = g->adds.count,
                      .starts = g->starts.items,
                      .start_count = g->starts.count,
                      .takes = g->takes,
                      .gives_delta = g->gives_delta,
                      .takes_delta = d->groups.items[0].gives_delta && !g->gives_delta};
    for (int i = 0; i < d->tiled.count; i++) {
        str axis = d->tiled.items[i];
        bool is_walked = str_equal(axis, k.walk);
        bool takes_rows = g->takes_rows || g->gives_delta;
        if (takes_rows && str_equal(axis, row_axis(t)) && !is_walked) continue; /* taken whole */
        tiled[k.tiled_count++] = axis;
        if (!k.grid.length && !is_walked) k.grid = axis;
    }
    return k;
}

static bool write_group(derivation *d, const group *g) {
    tape *t = &d->tape;
    write_kernel k = derivation_kernel(d, g);
    if (!write_gradients(t, &k, d->reads_sum, d->out)) return false;
    for (int i = 0; i < g->loads.count; i++) {
        const tape_item *load = &t->items.items[g->loads.items[i]];
        if (!share_is_whole(t, load) && !load->entry) share_write(t, load, d->out);
    }
    return true;
}

/* --- sums that take kernels of their own ------------------------------------------------------ */

static bool has(const int *items, int count, int item) {
    for (int i = 0; i < count; i++)
        if (items[i] == item) return true;
    return false;
}

static group *giver_of(derivation *d, int item) {
    for (group *g = d->groups.items; g != d->groups.items + d->groups.count; g++)
        if (has(g->gives.items, g->gives.count, item) || has(g->adds.items, g->adds.count, item))
            return g;
    return NULL;
}

/* Another sum has that name, or the gradient of what it goes on with after a 'd'. */
static bool is_cut_named(const tape *t, str name) {
    str rest = {name.data + 1, name.length - 1};
    if (name.data[0] == 'd' && tape_is_taken(t, rest)) return true;
    for (int i = 0; i < t->cuts.count; i++)
        if (str_equal(t->cuts.items[i].tensor, name)) return true;
    return false;
}

bool derivation_cut(derivation *d, int item) {
    tape *t = &d->tape;
    const tape_value *v = &t->values.items[t->items.items[item].value];
    for (int i = 0; i < v->axis_count; i++)
        if (!tape_is_length_known(t, v->axes[i]))
            return tape_refuse(
                t, t->items.items[item].from,
                "a gradient needs a sum here that is left in memory along %.*s, whose "
                "length a table says: derive those of other Inputs (--of)",
                STR_ARGS(v->axes[i]));
    str of = t->values.items[t->items.items[item].value].name;
    bool is_sum = t->items.items[item].over.length > 0;
    str base = str_format(t->memory, is_sum ? "%.*s_sum" : "%.*s_tile",
                          STR_ARGS(of.length ? of : STR("part")));
    str name;
    const char *wanted = str_copy_z(t->memory, base);
    for (int n = 2; name = tape_free_name(t, wanted), is_cut_named(t, name); n++)
        wanted = str_copy_z(t->memory, str_format(t->memory, "%.*s_%d", STR_ARGS(base), n));
    tape_cut cut = {item, name};
    list_push(t->memory, &t->cuts, cut);
    return true;
}

static bool add_cut(derivation *d, int item) {
    tape *t = &d->tape;
    if (!derivation_cut(d, item)) return false;
    group g = {.walk = t->items.items[item].over};
    list_push(t->memory, &g.gives, item);
    list_push(t->memory, &d->groups, g);
    return true;
}

/* Which sums each kernel takes; those that give them come to the groups' end. */
static bool plan_groups(derivation *d) {
    tape *t = &d->tape;
    for (int i = 0; i < d->groups.count; i++) {
        bool *takes = arena_array(t->memory, bool, t->items.count);
        d->groups.items[i].takes = takes;
        for (;;) {
            write_kernel k = derivation_kernel(d, &d->groups.items[i]);
            write_needs needs;
            bool is_possible = write_is_possible(t, &k, &needs);
            d->groups.items[i].uses_delta = needs.uses_delta;
            bool is_one = k.load_count < 2 || d->groups.items[i].is_by_entries;
            if (is_possible && needs.sums_turned && !is_one) {
                /* the last of its gradients gets a kernel of its own */
                group *g = &d->groups.items[i];
                group other = {.walk = g->walk, .takes_rows = g->takes_rows};
                list_push(t->memory, &other.loads, g->loads.items[--g->loads.count]);
                list_push(t->memory, &d->groups, other);
                continue;
            }
            if (is_possible) break;
            if (needs.cut == TAPE_NONE) return false;
            takes[needs.cut] = true;
            if (!giver_of(d, needs.cut) && !add_cut(d, needs.cut)) return false;
        }
    }
    return true;
}

/* How many kernels that give sums come before this one, at most. */
static int level_of(derivation *d, const group *g) {
    int level = 0;
    for (int i = 0; i < d->tape.items.count; i++) {
        int below = g->takes[i] ? level_of(d, giver_of(d, i)) + 1 : 0;
        if (below > level) level = below;
    }
    return level;
}

/* Sums that walk the same axis and need the same kernels before them, in one. */
static void join_givers(derivation *d) {
    tape *t = &d->tape;
    for (int i = 0; i < d->groups.count; i++)
        d->groups.items[i].level = level_of(d, &d->groups.items[i]);
    for (int i = 0; i < d->groups.count; i++)
        for (int k = i + 1; k < d->groups.count; k++) {
            group *a = &d->groups.items[i], *b = &d->groups.items[k];
            if (!a->gives.count || !b->gives.count) continue;
            bool is_like = derivation_has_same_blocks(d, t->items.items[a->gives.items[0]].value,
                                                      t->items.items[b->gives.items[0]].value) &&
                           str_equal(a->walk, b->walk);
            if (!is_like || a->level != b->level || a->uses_delta != b->uses_delta) continue;
            for (int n = 0; n < b->gives.count; n++)
                list_push(t->memory, &a->gives, b->gives.items[n]);
            for (int n = 0; n < t->items.count; n++) a->takes[n] |= b->takes[n];
            b->gives.count = 0, b->is_written = true;
        }
}

/* After those that give what it takes. */
static bool write_after_givers(derivation *d, group *g) {
    if (g->is_written) return true;
    g->is_written = true;
    for (int i = 0; i < d->tape.items.count; i++)
        if (g->takes[i] && !write_after_givers(d, giver_of(d, i))) return false;
    for (int i = 0; i < d->groups.count && g->adds.count; i++)
        if (d->groups.items[i].starts.count && !write_after_givers(d, &d->groups.items[i]))
            return false;
    if (g->uses_delta && !write_after_givers(d, &d->groups.items[0])) return false;
    return write_group(d, g);
}

/* Delta takes a kernel of its own where sums do, which may need it. */
static bool find_kernels(derivation *d) {
    if (!find_groups(d, d->is_fused)) return false;
    join_vectors(d);
    if (!plan_groups(d)) return false;
    if (d->tape.cuts.count && d->groups.items[0].gives_delta) {
        d->groups.count = d->tape.cuts.count = 0;
        if (!find_groups(d, true)) return false;
        join_vectors(d);
        if (!plan_groups(d)) return false;
    }
    if (d->is_fused && !fuse_groups(d)) return false;
    join_givers(d);
    return true;
}

bool derive_gradients(tl_kernel *kernel, const derive_request *request, arena *memory,
                      diag_list *diags, text_buffer *out) {
    derivation d = {.out = out, .is_fused = request->is_fused};
    tape *t = &d.tape;
    if (!tape_read(t, kernel, memory, diags)) return false;
    t->of = request->of, t->of_count = request->of_count;
    if (!wanted_can_be(t)) return false;
    d.reads_sum = arena_array(memory, bool, t->sums.count + 1);
    if (!tape_reverse(t)) return false;
    if (!wanted_are(t)) return false;
    find_tiled(&d);
    derivation_put_factors_last(&d);
    if (!find_kernels(&d)) return false;
    text_buffer gradients, *own = out;
    text_init_in(&gradients, memory);
    d.out = &gradients;
    wanted_notes(t, &gradients);
    for (int i = 0; i < d.groups.count; i++)
        if (!write_after_givers(&d, &d.groups.items[i])) return false;
    share_write_readings(t, &gradients);
    tl_print(forward_kernel(t, d.reads_sum), own);
    text_add_z(own, "\n");
    forward_apart(t, d.reads_sum, own);
    text_add(own, text_str(&gradients));
    return true;
}
