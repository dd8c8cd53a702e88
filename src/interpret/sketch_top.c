/* RowTopK of a sketch: where the largest elements of each row are. */
#include "interpret/sketch.h"

#include <math.h>
#include <string.h>

/* An element of a row that may be among the largest. */
typedef struct candidate {
    double value, place, value_off, place_off;
} candidate;

/* The largest so far, the first place first among equals, and one more: who was just left out. */
typedef struct chosen {
    candidate items[TL_TOP_MAX + 1];
    int count, most;
    double reach, reach_off; /* of all others: how large one may be, and what it errs by */
} chosen;

static const double APART = 8;

/* Two elements that a kernel's arithmetic may change the order of. */
static bool are_close(const candidate *a, const candidate *b) {
    double off = a->value_off + b->value_off;
    return off != 0 && !(fabs(a->value - b->value) > APART * off);
}

static void leave_out(chosen *c, const candidate *x) {
    double reach = isnan(x->value_off) ? INFINITY : x->value + APART * x->value_off;
    if (reach < c->reach) return;
    c->reach_off = reach == c->reach ? fmax(c->reach_off, x->value_off) : x->value_off;
    c->reach = reach;
}

static void offer(chosen *c, candidate x) {
    if (!(x.value > -INFINITY)) return; /* neither is NaN an element */
    int at = c->count;
    while (at > 0 && c->items[at - 1].value < x.value) at--;
    if (at > c->most) {
        leave_out(c, &x);
        return;
    }
    if (c->count > c->most) leave_out(c, &c->items[c->most]);
    int moved = (c->count > c->most ? c->most : c->count) - at;
    memmove(&c->items[at + 1], &c->items[at], (size_t)moved * sizeof *c->items);
    c->items[at] = x;
    if (c->count <= c->most) c->count++;
}

static void open(candidate *x, double off) {
    x->place_off = INFINITY;
    if (!(x->value_off >= off)) x->value_off = off;
}

/* A place is judged where none that is close may pass it, however many lie between the two; a value
 * errs by what close ones do.
 */
static void judge(chosen *c) {
    candidate were[TL_TOP_MAX + 1];
    memcpy(were, c->items, (size_t)c->count * sizeof *were);
    for (int i = 0; i < c->count; i++) {
        for (int k = c->count - 1; k > i; k--) {
            if (!are_close(&were[i], &were[k])) continue;
            double off = fmax(were[i].value_off, were[k].value_off);
            for (int between = i; between <= k; between++) open(&c->items[between], off);
            break;
        }
        bool errs = c->reach_off != 0 || were[i].value_off != 0;
        bool is_below = c->reach < were[i].value - APART * were[i].value_off;
        if (errs && !is_below) open(&c->items[i], c->reach_off);
    }
}

typedef struct top {
    machine *m;
    const tile *from;
    tile *places, *values;
    int most;
    bool goes_on; /* with what earlier blocks gave */
} top;

static void choose_in_row(const top *t, int64_t row) {
    chosen c = {.most = t->most, .reach = -INFINITY};
    bool has_errors = t->m->has_errors;
    double *places = t->places->data + row * t->most, *values = t->values->data + row * t->most;
    double *places_off = has_errors ? tile_errors(t->m, t->places) + row * t->most : NULL;
    double *values_off = has_errors ? tile_errors(t->m, t->values) + row * t->most : NULL;
    for (int i = 0; i < t->most && t->goes_on; i++)
        offer(&c, (candidate){values[i], places[i], has_errors ? values_off[i] : 0,
                              has_errors ? places_off[i] : 0});
    int64_t width = t->from->count[1];
    const double *x = t->from->data + row * width;
    const double *off = has_errors ? tile_errors(t->m, t->from) + row * width : NULL;
    for (int64_t i = 0; i < width; i++)
        offer(&c, (candidate){x[i], (double)(t->from->start[1] + i), off ? off[i] : 0, 0});
    judge(&c);
    for (int i = 0; i < t->most; i++) {
        bool is_one = i < c.count;
        places[i] = is_one ? c.items[i].place : TL_NO_PLACE;
        values[i] = is_one ? c.items[i].value : -INFINITY;
        if (!has_errors) continue;
        places_off[i] = is_one ? c.items[i].place_off : 0;
        values_off[i] = is_one ? c.items[i].value_off : 0;
    }
}

static void shape(const top *t, tile *to, str index) {
    int64_t count[2] = {t->from->count[0], t->most};
    str names[2] = {t->from->index[0], index};
    tile_shape(t->m, to, 2, count, names);
    if (t->m->has_failed) return;
    to->start[0] = t->from->start[0];
    to->has_start[0] = t->from->has_start[0];
    to->start[1] = 0;
    to->has_start[1] = true;
}

/* The values under the name that the sketch gives them. */
static bool give_values(sketch *k, const tl_statement *s, const tile *values) {
    const tl_expr *name = s->compute.values;
    if (!name) return true;
    tile *to = sketch_own_tile(k, name);
    tile_shape(k->m, to, 2, values->count, values->index);
    if (k->m->has_failed) return false;
    memcpy(to->data, values->data, (size_t)tile_size(values) * sizeof *to->data);
    tile_copy_errors(k->m, to, values);
    memcpy(to->start, values->start, sizeof to->start);
    memcpy(to->has_start, values->has_start, sizeof to->has_start);
    to->format = sketch_format(k, name, TL_F32);
    tile_share share = tile_whole(to);
    tile_round(k->m, to, &share, to->format);
    to->is_defined = true;
    to->writer = s;
    return true;
}

static bool count_of(sketch *k, const tl_compute *c, int *most) {
    int64_t count;
    if (!scope_integer(&k->scope, c->operands[1].value, &count)) return false;
    if (count < 1 || count > TL_TOP_MAX) {
        machine_stop(k->m, DIAG_TOP_COUNT, c->operands[1].range,
                     str_format(k->m->memory, "%d", TL_TOP_MAX));
        return false;
    }
    *most = (int)count;
    return true;
}

bool sketch_top_run(sketch *k, const tl_statement *s) {
    const tl_compute *c = &s->compute;
    top t = {.m = k->m,
             .from = sketch_tile(&k->scope, c->operands[0].value, s),
             .places = sketch_own_tile(k, c->target),
             .values = &k->values[c->target->symbol->position]};
    if (!t.from || !count_of(k, c, &t.most)) return false;
    t.goes_on = c->target_kind == TL_ACCUMULATE && t.places->is_defined;
    if (!t.goes_on) {
        shape(&t, t.places, c->operands[1].value->text);
        shape(&t, t.values, c->operands[1].value->text);
        if (k->m->has_failed) return false;
    }
    for (int64_t row = 0; row < t.from->count[0]; row++) choose_in_row(&t, row);
    t.places->format = CONVERT_F64; /* a place is a whole number of any size */
    t.places->is_defined = true;
    t.places->writer = s;
    return give_values(k, s, t.values);
}

/* After a loop that never ran: no row has an element. */
bool sketch_top_of_none(sketch *k, const tl_statement *loop) {
    for (const tl_statement *s = loop->loop.body.first; s; s = s->next) {
        const tl_expr *name = s->kind == TL_COMPUTE ? s->compute.values : NULL;
        tile *t = name ? sketch_own_tile(k, name) : NULL;
        if (!t || t->is_defined || s->compute.target_kind != TL_ACCUMULATE) continue;
        if (!sketch_shape(k, t, tl_tile_of(name), loop->range)) return false;
        for (int64_t e = 0; e < tile_size(t); e++) t->data[e] = -INFINITY;
        t->is_defined = true;
        t->writer = loop;
    }
    return true;
}
