/* Does a sketch write an element of an Output twice?
 *
 * A Copy in a loop has to go to another place in each round, and two Copies to places that differ
 * on some axis: by their bounds, as two views of halves do, or by remainders, as views of even and
 * odd elements. Bounds are linear in lengths, which are not negative. What a condition, or a table
 * says is known at launch only: interpreter and emulator watch it.
 */
#include "check/rules.h"

#include "tl/linear.h"
#include "tl/tl.h"

enum { VIEWS_DEEP = 64 };

/* Where elements of a tensor lie, each axis in the indices of what the Copy writes. */
typedef struct whereabouts {
    const tl_symbol *written, *tensor;
    tl_linear axes[TL_AXES_MAX];
    const tl_expr *as_said[TL_AXES_MAX];
} whereabouts;

static tl_linear linear_of(const tl_expr *e, const whereabouts *of);

/* Names of the tensor's own indices stand for where they are; lets were found to end (names.h). */
static bool find_name(void *context, const tl_expr *name, tl_linear *out) {
    const whereabouts *of = context;
    const tl_axes *axes = of ? of->tensor->axes : NULL;
    const tl_symbol *s = name->symbol;
    for (int i = 0; axes && i < axes->count; i++) {
        if (!str_equal(tl_axis_index(axes, i), name->text)) continue;
        *out = of->axes[i];
        return true;
    }
    if (s && s->kind == TL_SYMBOL_CONSTANT && s->value) *out = linear_of(s->value, of);
    else if (s && !s->is_real) return false;
    else out->is_broken = true;
    return true;
}

static tl_linear linear_of(const tl_expr *e, const whereabouts *of) {
    tl_linear_scope scope = {find_name, (void *)(uintptr_t)of, .folds = true};
    tl_linear sum = tl_linear_of(&scope, e);
    for (int i = 0; i < sum.count; i++)
        sum.is_broken |= sum.terms[i].atom && sum.terms[i].atom->kind != TL_NAME;
    return sum;
}

/* --- places ----------------------------------------------------------------------------------- */

static tl_linear index_of(const whereabouts *w, int axis) {
    const tl_axis *a = &w->written->axes->items[axis];
    tl_linear own = {0};
    if (!tl_axis_index(w->written->axes, axis).length) return linear_of(a->coordinate, NULL);
    tl_linear_add_index(&own, a, 1);
    return own;
}

/* What a Copy writes, in the Output itself; false: by a condition. */
static bool find_whereabouts(const tl_statement *copy, whereabouts *w) {
    tl_end end = tl_copy_target(copy);
    *w = (whereabouts){.written = end.symbol, .tensor = end.symbol};
    for (int i = 0; i < end.symbol->axes->count; i++) {
        const tl_spot *spot = i < copy->copy.place.count ? &copy->copy.place.items[i] : NULL;
        bool is_said = spot && !spot->is_all;
        if (is_said && spot->is_block) return false;
        w->axes[i] = is_said ? linear_of(spot->at, NULL) : index_of(w, i);
        w->as_said[i] = is_said ? spot->at : NULL;
    }
    for (int deep = 0; w->tensor->view && deep < VIEWS_DEEP; deep++) {
        const tl_expr *element = w->tensor->view->value;
        whereabouts below = {.written = w->written, .tensor = w->tensor->view_base};
        if (element->kind != TL_ELEMENT || !below.tensor || !below.tensor->axes) return false;
        for (int i = 0; i < element->item_count && i < TL_AXES_MAX; i++) {
            below.axes[i] = linear_of(element->items[i], w);
            below.as_said[i] = element->items[i];
        }
        *w = below;
    }
    return true;
}

/* The first and the last of all these places. Not known where an index counts down, or is one of
 * the tile's, which the other Copy may have of another tile.
 */
static void find_ends(const tl_linear *at, tl_linear *first, tl_linear *last) {
    *first = *last = (tl_linear){.constant = at->constant, .is_broken = at->is_broken};
    for (int i = 0; i < at->count; i++) {
        const tl_linear_term *t = &at->terms[i];
        const tl_symbol *s = t->atom ? t->atom->symbol : NULL;
        if (t->axis && t->factor > 0) {
            tl_linear most = linear_of(t->axis->extent, NULL);
            tl_linear_add_constant(&most, -1, 1);
            tl_linear_add(last, &most, t->factor);
        } else if (s && (s->kind == TL_SYMBOL_SIZE || s->kind == TL_SYMBOL_SCALAR)) {
            tl_linear_add_atom(first, t->atom, t->factor);
            tl_linear_add_atom(last, t->atom, t->factor);
        } else {
            first->is_broken = last->is_broken = true;
        }
    }
}

/* Is a less than b, whatever the lengths? */
static bool is_below(const tl_linear *a, const tl_linear *b) {
    tl_linear apart = *b;
    tl_linear_add(&apart, a, -1);
    bool holds = !apart.is_broken && apart.constant > 0;
    for (int i = 0; i < apart.count && holds; i++) {
        const tl_linear_term *t = &apart.terms[i];
        holds =
            t->factor > 0 && t->atom && t->atom->symbol && t->atom->symbol->kind == TL_SYMBOL_SIZE;
    }
    return holds;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    while (b) {
        int64_t rest = a % b;
        a = b, b = rest;
    }
    return a < 0 ? -a : a;
}

static bool have_other_remainders(const tl_linear *a, const tl_linear *b) {
    int64_t by = 0, apart;
    for (int i = 0; i < a->count; i++) by = common_divisor(by, a->terms[i].factor);
    for (int i = 0; i < b->count; i++) by = common_divisor(by, b->terms[i].factor);
    if (__builtin_sub_overflow(a->constant, b->constant, &apart)) return false;
    return by > 1 && apart % by != 0;
}

/* Do these never meet on the axis, or only as a table decides? */
static bool is_apart_on(const whereabouts *a, const whereabouts *b, int axis) {
    const tl_linear *one = &a->axes[axis], *other = &b->axes[axis];
    tl_linear first[2], last[2];
    if (one->is_broken || other->is_broken) {
        const tl_expr *said[] = {a->as_said[axis], b->as_said[axis]};
        return !said[0] || !said[1] || !tl_expr_equal(said[0], said[1]);
    }
    find_ends(one, &first[0], &last[0]);
    find_ends(other, &first[1], &last[1]);
    return is_below(&last[0], &first[1]) || is_below(&last[1], &first[0]) ||
           have_other_remainders(one, other);
}

/* --- Copies ----------------------------------------------------------------------------------- */

/* A condition around a Copy, or a loop that does not begin at 0, may keep it from others' places.
 */
static bool is_told_apart(const tl_statement *s) {
    int64_t from;
    for (const tl_statement *p = s->parent; p; p = p->parent) {
        if (p->kind == TL_IF) return true;
        bool counts = p->kind == TL_FOR && !p->loop.is_grid_walk;
        if (counts && (!tl_known_integer(p->loop.from, &from) || from != 0)) return true;
    }
    return false;
}

static bool may_meet(const tl_statement *one, const tl_statement *other) {
    whereabouts a, b;
    if (is_told_apart(one) || is_told_apart(other)) return false;
    if (!find_whereabouts(one, &a) || !find_whereabouts(other, &b)) return false;
    if (a.tensor != b.tensor) return false;
    for (int i = 0; i < a.tensor->axes->count; i++)
        if (is_apart_on(&a, &b, i)) return false;
    return true;
}

static const tl_symbol *stored_by(const tl_statement *s) {
    if (s->kind != TL_COPY || s->copy.to != TL_GLOBAL) return NULL;
    tl_end end = tl_copy_target(s);
    return end.symbol && end.symbol->axes ? rules_output_of(end.symbol) : NULL;
}

static bool adds(const tl_statement *s) {
    return s->copy.target_kind == TL_ACCUMULATE;
}

static bool check_pair(tl_statement *one, tl_statement *other, diag_list *diags) {
    const tl_symbol *output = stored_by(one);
    bool is_same = output && output == stored_by(other) && !(adds(one) && adds(other));
    if (!is_same || !may_meet(one, other)) return true;
    diag_report(diags, DIAG_OUTPUT_TWICE, other->range, output->name);
    diag_report(diags, DIAG_OUTPUT_FIRST, one->range, output->name);
    return false;
}

/* Does the place of a Copy say which round of the loop it is? */
static bool follows(const tl_kernel *kernel, const tl_statement *copy, const tl_statement *loop) {
    const tl_expr *length, *size;
    const tl_symbol *tensor = tl_copy_target(copy).symbol;
    bool walks = tl_loop_walks(loop, &length, &size);
    for (int i = 0; i < copy->copy.place.count; i++)
        if (tl_expr_mentions(copy->copy.place.items[i].at, loop->loop.symbol)) return true;
    for (int deep = 0; tensor && tensor->axes && deep < VIEWS_DEEP; deep++) {
        for (int i = 0; walks && i < tensor->axes->count; i++) {
            str index = tl_axis_index(tensor->axes, i);
            if (index.length && tl_loop_walks_index(kernel, loop, length, index)) return true;
        }
        if (!tensor->view) return false;
        if (tl_expr_mentions(tensor->view->value, loop->loop.symbol)) return true;
        tensor = tensor->view_base;
    }
    return false;
}

static bool check_rounds(const tl_kernel *kernel, tl_statement *copy, diag_list *diags) {
    const tl_symbol *output = stored_by(copy);
    for (const tl_statement *p = output && !adds(copy) ? copy->parent : NULL; p; p = p->parent) {
        int64_t from, to;
        if (p->kind == TL_IF) return true;
        if (p->kind != TL_FOR || p->loop.is_grid_walk) continue;
        bool is_once = tl_known_integer(p->loop.from, &from) && tl_known_integer(p->loop.to, &to) &&
                       to - from <= 1;
        if (is_once || follows(kernel, copy, p)) continue;
        diag_report(diags, DIAG_OUTPUT_AGAIN, copy->range, output->name, p->loop.name);
        return false;
    }
    return true;
}

/* What stands in an Output before the kernel is nothing that the sketch says. */
static bool check_read(const tl_statement *s, diag_list *diags) {
    if (s->kind != TL_COPY || s->copy.from != TL_GLOBAL) return true;
    const tl_symbol *source = tl_copy_source(s).symbol;
    if (!source || !source->axes || !rules_output_of(source)) return true;
    diag_report(diags, DIAG_OUTPUT_READ, s->copy.what->range, s->copy.what->text);
    return false;
}

bool rules_sketch_outputs(tl_kernel *kernel, diag_list *diags) {
    for (tl_statement *s = kernel->body.first; s; s = tl_next(s, NULL)) {
        if (!check_read(s, diags)) return false;
        if (!stored_by(s)) continue;
        if (!check_rounds(kernel, s, diags)) return false;
        for (tl_statement *t = kernel->body.first; t != s; t = tl_next(t, NULL))
            if (!check_pair(t, s, diags)) return false;
    }
    return true;
}
