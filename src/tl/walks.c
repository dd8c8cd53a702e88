/* Which indices a loop of a sketch walks.
 *
 * `for j = 0:len/BN` says a length, and several indices may run over axes that long. Those that
 * are copied in the loop are meant, but not those that have a place of their own because a Copy
 * outside of all such loops has them, too: in a loop over the keys of a sequence, a bias (q in len,
 * kv in len) is at this tile's queries and at the loop's keys.
 */
#include "tl/names.h"
#include "tl/tl.h"

enum { INDICES_MAX = 32 };

typedef struct index_set {
    str names[INDICES_MAX];
    int copies[INDICES_MAX]; /* number of the Copy that has it, to tell axes of one tensor apart */
    int count;
} index_set;

typedef struct walk_search {
    const tl_kernel *kernel;
    const tl_statement *loop;
    const tl_expr *length;
    index_set inside, outside, all;
} walk_search;

static bool contains(const index_set *set, str name) {
    for (int i = 0; i < set->count; i++) {
        if (str_equal(set->names[i], name)) return true;
    }
    return false;
}

static void add(index_set *set, str name, int copy) {
    if (set->count == INDICES_MAX) return;
    set->names[set->count] = name;
    set->copies[set->count++] = copy;
}

/* --- the tree, bound or not ------------------------------------------------------------------- */

bool tl_next_tensor(const tl_kernel *kernel, tl_tensor *t) {
    tl_statement *s = t->statement ? t->statement : kernel->body.first;
    for (int at = t->at; s; s = s->next, at = 0) {
        if (tl_is_parameter(s) && at == 0) {
            *t = (tl_tensor){s, NULL, s->parameter.name, &s->parameter.axes, 1};
            return true;
        }
        for (; s->kind == TL_LET && at < s->let.count; at++) {
            tl_binding *view = &s->let.items[at];
            if (view->axes.count == 0) continue;
            *t = (tl_tensor){s, view, view->name, &view->axes, at + 1};
            return true;
        }
    }
    return false;
}

bool tl_find_tensor(const tl_kernel *kernel, str name, tl_tensor *out) {
    *out = (tl_tensor){0};
    while (tl_next_tensor(kernel, out)) {
        if (str_equal(out->name, name)) return true;
    }
    return false;
}

const tl_axes *tl_axes_of(const tl_kernel *kernel, str tensor) {
    tl_tensor t;
    return tl_find_tensor(kernel, tensor, &t) ? t.axes : NULL;
}

/* Wherever it begins: `first:length/size` walks the length, too. */
static bool walks_length(const tl_statement *loop, const tl_expr *length) {
    const tl_expr *to = loop->loop.to;
    if (!to) return false;
    if (to->kind == TL_CALL && to->function == TL_FUNCTION_CEIL) to = to->items[0];
    if (to->kind == TL_BINARY && to->operator== TL_OVER) to = to->left;
    return tl_expr_equal(to, length);
}

/* --- what is copied --------------------------------------------------------------------------- */

/* An axis of the tensor that a Copy reads or writes in global memory. A coordinate that is said
 * decides by itself.
 */
static void note_axis(walk_search *w, const tl_statement *s, const tl_axes *axes, int i, int copy) {
    str index = tl_axis_index(axes, i);
    if (!index.length || !tl_expr_equal(axes->items[i].extent, w->length)) return;
    const tl_place *place = &s->copy.place;
    const tl_statement *around = s;
    while (around && around != w->loop) around = around->parent;
    bool is_inside = around != NULL;
    if (place->is_given) {
        const tl_spot *spot = i < place->count ? &place->items[i] : NULL;
        bool follows =
            is_inside && spot && !spot->is_all && tl_expr_names(spot->at, w->loop->loop.name);
        add(follows ? &w->inside : &w->outside, index, copy);
    } else if (is_inside) {
        add(&w->inside, index, copy);
    } else {
        const tl_statement *p = s->parent; /* unless some loop around it walks the length */
        while (p && !(p->kind == TL_FOR && walks_length(p, w->length))) p = p->parent;
        if (!p) add(&w->outside, index, copy);
    }
}

static void note_copy(walk_search *w, const tl_statement *s, int copy) {
    const tl_expr *ends[2] = {s->copy.from == TL_GLOBAL ? s->copy.what : NULL,
                              s->copy.to != TL_GLOBAL ? NULL : tl_copy_into(s)};
    for (int e = 0; e < 2; e++) {
        const tl_axes *axes = ends[e] ? tl_axes_of(w->kernel, ends[e]->text) : NULL;
        for (int i = 0; axes && i < axes->count; i++) note_axis(w, s, axes, i, copy);
    }
}

static void note_lengths(walk_search *w, const tl_axes *axes) {
    for (int i = 0; i < axes->count; i++) {
        str index = tl_axis_index(axes, i);
        bool fits = index.length && tl_expr_equal(axes->items[i].extent, w->length);
        if (fits && !contains(&w->all, index)) add(&w->all, index, 0);
    }
}

static void look(walk_search *w) {
    int copy = 0;
    for (tl_statement *s = w->kernel->body.first; s; s = tl_next(s, NULL)) {
        if (s->kind == TL_COPY) note_copy(w, s, copy++);
    }
    for (tl_tensor t = {0}; tl_next_tensor(w->kernel, &t);) note_lengths(w, t.axes);
}

/* --- the decision ----------------------------------------------------------------------------- */

/* Two axes of one tensor, of which a loop can walk one. */
static bool share_a_copy(const index_set *set, str a, str b) {
    for (int i = 0; i < set->count; i++) {
        for (int k = 0; k < set->count && str_equal(set->names[i], a); k++) {
            if (str_equal(set->names[k], b) && set->copies[i] == set->copies[k]) return true;
        }
    }
    return false;
}

static void keep(tl_walked *out, str name) {
    for (int i = 0; i < out->count; i++) {
        if (str_equal(out->names[i], name)) return;
    }
    if (out->count < TL_WALKED_MAX) out->names[out->count++] = name;
}

/* Indices that are copied in the loop and nowhere else; where there are none, the one that is
 * copied there at all.
 */
static void choose(const walk_search *w, tl_walked *out) {
    const index_set *from = w->inside.count ? &w->inside : &w->all;
    for (int i = 0; i < from->count; i++) {
        if (!contains(&w->outside, from->names[i])) keep(out, from->names[i]);
    }
    if (out->count) return;
    for (int i = 0; i < w->inside.count; i++) keep(out, w->inside.names[i]);
    out->is_unclear = out->count > 1;
}

tl_walked tl_loop_indices(const tl_kernel *kernel, const tl_statement *loop,
                          const tl_expr *length) {
    tl_walked out = {0};
    walk_search w = {.kernel = kernel, .loop = loop, .length = length};
    look(&w);
    choose(&w, &out);
    str own = loop->loop.name;
    if (contains(&w.all, own)) { /* said outright: `for g = 0:heads` */
        tl_walked chosen = {0};
        keep(&chosen, own);
        for (int i = 0; i < out.count && !out.is_unclear; i++) {
            if (!share_a_copy(&w.inside, own, out.names[i])) keep(&chosen, out.names[i]);
        }
        chosen.is_of_others = contains(&w.outside, own) && !contains(&w.inside, own);
        out = chosen;
    }
    for (int i = 0; i < out.count && !out.is_unclear; i++) {
        for (int k = i + 1; k < out.count && !out.is_unclear; k++) {
            out.is_unclear = share_a_copy(&w.inside, out.names[i], out.names[k]);
            str pair[2] = {out.names[i], out.names[k]};
            if (out.is_unclear) out.names[0] = pair[0], out.names[1] = pair[1];
        }
    }
    return out;
}

bool tl_loop_walks_index(const tl_kernel *kernel, const tl_statement *loop, const tl_expr *length,
                         str index) {
    if (!index.length) return false;
    tl_walked walked = tl_loop_indices(kernel, loop, length);
    for (int i = 0; i < walked.count; i++) {
        if (str_equal(walked.names[i], index)) return true;
    }
    return false;
}

const tl_walk *tl_walk_of(const tl_symbol *index) {
    const tl_walk *walk = index->statement->grid.items;
    while (walk->symbol != index) walk++;
    return walk;
}
