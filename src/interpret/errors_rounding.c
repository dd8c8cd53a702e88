/* What a product's operands are rounded by, where roundings do not average out: elements that are
 * nearly equal are rounded alike, and so are those on one grid that is shifted by a number.
 */
#include "base/wide.h"
#include "interpret/errors_operand.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct element {
    double value;
    int64_t place; /* along the contracted axis */
} element;

/* In an order of bits that is that of the numbers. */
static uint64_t key_of(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

/* By value, byte after byte from the least; equal ones stay in their order. 'items' has room for
 * as many again.
 */
static void sort_by_value(element *items, int64_t count) {
    enum { BYTES = 8, VALUES = 256 };
    uint32_t counts[BYTES][VALUES] = {{0}};
    element *from = items, *to = items + count;
    for (int64_t i = 0; i < count; i++) {
        uint64_t key = key_of(items[i].value);
        for (int b = 0; b < BYTES; b++) counts[b][key >> 8 * b & (VALUES - 1)]++;
    }
    for (int b = 0; b < BYTES && count; b++) {
        if (counts[b][key_of(items->value) >> 8 * b & (VALUES - 1)] == count) continue;
        uint32_t places[VALUES], place = 0;
        for (int v = 0; v < VALUES; v++) places[v] = place, place += counts[b][v];
        for (int64_t i = 0; i < count; i++)
            to[places[key_of(from[i].value) >> 8 * b & (VALUES - 1)]++] = from[i];
        element *other = from;
        from = to, to = other;
    }
    if (from != items) memcpy(items, from, (size_t)count * sizeof *items);
}

static int by_place(const void *a, const void *b) {
    const element *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* One operand's elements along the contracted axis, and what they are multiplied by: 'width'
 * vectors.
 */
typedef struct contraction {
    element *sorted; /* with room for as many again */
    double *steps;   /* of the type at each of them */
    const double *by;
    int64_t count, along, across, width;
    double *to;           /* variances */
    int64_t stride;       /* from one to the next */
    double *sum, *square; /* of each vector */
} contraction;

/* How alike the elements of a group are rounded, from 0 to 1. At a distance of d steps, wherever
 * the numbers of the type lie, the correlation of two roundings is 1 - 6 d (1 - d). A kernel may
 * hold the elements multiplied by a factor, and so up to twice as near to one another in steps.
 */
static double alike(const element *group, int64_t count, double step) {
    double before = 0, squares = 0, apart = 0, pairs = (double)count * (double)(count - 1) / 2;
    for (int64_t i = 0; i < count; i++) {
        double x = (group[i].value - group[0].value) / (2 * step);
        apart += x * (double)i - before;
        before += x, squares += x * x;
    }
    double apart_squared = (double)count * squares - before * before;
    return fmin(1, fmax(0, 1 - 6 * (apart - apart_squared) / pairs));
}

WIDE_VECTORS static void add_vector(const double *y, int64_t step, int64_t width,
                                    double *restrict sum) {
    if (step == 1)
        for (int64_t t = 0; t < width; t++) sum[t] += y[t];
    else
        for (int64_t t = 0; t < width; t++) sum[t] += y[t * step];
}

WIDE_VECTORS static void take_squares(double *restrict sum, int64_t width,
                                      double *restrict square) {
    for (int64_t t = 0; t < width; t++) square[t] += sum[t] * sum[t], sum[t] = 0;
}

WIDE_VECTORS static void keep_most(const double *square, int64_t width, double *restrict most) {
    for (int64_t t = 0; t < width; t++) most[t] = square[t] > most[t] ? square[t] : most[t];
}

static int64_t block_count(const element *group, int64_t count, int64_t block) {
    int64_t blocks = 1;
    for (int64_t i = 1; i < count; i++)
        blocks += group[i].place / block != group[i - 1].place / block;
    return blocks;
}

/* Squares of what the vectors' elements at a group's places add up to, block by block of places:
 * what is summed so may have another factor in each.
 */
static void add_sums(const contraction *c, const element *group, int64_t count, int64_t block) {
    memset(c->sum, 0, (size_t)c->width * sizeof *c->sum);
    for (int64_t i = 0; i < count; i++) {
        add_vector(c->by + group[i].place * c->along, c->across, c->width, c->sum);
        if (i + 1 < count && group[i + 1].place / block == group[i].place / block) continue;
        take_squares(c->sum, c->width, c->square);
    }
}

/* Blocks of a few lengths stand for any: the worst of them counts. Each parts the places further
 * than the next, or just as it does.
 */
static void add_group(const contraction *c, element *group, int64_t count, double variance) {
    static const int64_t lengths[] = {32, 128, INT64_MAX};
    enum { LENGTHS = sizeof lengths / sizeof *lengths };
    double *most = c->square + c->width;
    int64_t before = 0;
    qsort(group, (size_t)count, sizeof *group, by_place);
    memset(most, 0, (size_t)c->width * sizeof *most);
    for (int i = 0; i < LENGTHS; i++) {
        int64_t blocks = block_count(group, count, lengths[i]);
        if (blocks == before) continue;
        before = blocks;
        memset(c->square, 0, (size_t)c->width * sizeof *c->square);
        add_sums(c, group, count, lengths[i]);
        keep_most(c->square, c->width, most);
    }
    for (int64_t t = 0; t < c->width; t++) c->to[t * c->stride] += variance * most[t];
}

/* Equal elements are rounded alike, whatever lies beside them: what their errors make together
 * takes the place of what each makes alone. Returns how many different ones there are, of which
 * 'different' gets one each.
 */
static int64_t add_equal(const contraction *c, element *group, int64_t count, double variance,
                         element *different) {
    static const double EQUAL = 1e-9;
    int64_t found = 0;
    for (int64_t first = 0, end; first < count; first = end) {
        double value = group[first].value;
        different[found++] = group[first];
        for (end = first + 1; end < count; end++)
            if (!(group[end].value - value <= EQUAL * fabs(value))) break;
        if (end - first == 1 || end - first == count) continue;
        for (int64_t i = first; i < end; i++) {
            const double *y = c->by + group[i].place * c->along;
            for (int64_t t = 0; t < c->width; t++) {
                double *to = c->to + t * c->stride, alone = y[t * c->across] * y[t * c->across];
                *to = *to < variance * alone ? 0 : *to - variance * alone;
            }
        }
        add_group(c, group + first, end - first, variance);
    }
    return found;
}

/* Elements within a step of the smallest are a group. */
static void add_line(const machine *m, const contraction *c) {
    sort_by_value(c->sorted, c->count);
    for (int64_t i = 0; i < c->count; i++) c->steps[i] = c->sorted[i].value;
    errors_steps(m, c->steps, c->count, c->steps);
    for (int64_t first = 0, end; first < c->count; first = end) {
        element *group = c->sorted + first;
        double value = group->value, step = c->steps[first];
        for (end = first + 1; end < c->count; end++)
            if (!(c->sorted[end].value - value < step)) break;
        int64_t count = end - first;
        if (count == 1) continue;
        double off = 0;
        errors_of_rounding(m, &value, 1, &off);
        if (!(off > 0)) continue;
        element *different = c->sorted + c->count;
        int64_t found = add_equal(c, group, count, off * off, different);
        double share = found > 1 ? alike(different, found, step) : 1;
        if (share > 0) add_group(c, group, count, share * off * off);
    }
}

void errors_add_roundings(machine *m, const operand *o, const operand *by, bool is_left,
                          double *to) {
    if (o->t->is_narrow) return;
    meeting of = errors_meeting(o, by, is_left);
    contraction c = {.by = by->t->data,
                     .along = of.along,
                     .across = of.across,
                     .width = of.width,
                     .stride = is_left ? 1 : of.lines};
    c.sorted = (element *)(void *)errors_room(m, 2, 5 * of.count);
    c.steps = (double *)(void *)(c.sorted + 2 * of.count);
    c.sum = errors_room(m, 3, 3 * c.width);
    c.square = c.sum + c.width;
    for (int64_t i = 0; i < of.lines; i++) {
        c.count = 0;
        for (int64_t k = 0; k < of.count; k++) {
            double value = o->t->data[i * of.line + k * of.step];
            if (value != 0 && isfinite(value)) c.sorted[c.count++] = (element){value, k};
        }
        c.to = to + (is_left ? i * of.width : i);
        add_line(m, &c);
    }
}

/* --- elements rounded as they are ------------------------------------------------------------- */

/* Elements need not be near to one another to be rounded alike: numbers of 16 bits plus another one
 * lie on a grid that is shifted against the type's own, and what is small beside the other one is
 * lost whole. So their roundings go with what they are multiplied by. A right kernel that rounds
 * them as they are is off by just what their roundings make together, NULL: they are not rounded.
 */
static const double *as_rounded(machine *m, const operand *o, const operand *by, meeting of) {
    if (o->t->is_narrow || m->multiplies_bytes) return NULL;
    int64_t count = tile_size(o->t);
    double *off = errors_room(m, 6, count), *sums = errors_room(m, 3, of.lines * of.width);
    memcpy(off, o->t->data, (size_t)count * sizeof *off);
    errors_round(m, off, count);
    for (int64_t i = 0; i < count; i++) off[i] = isfinite(off[i]) ? off[i] - o->t->data[i] : 0;
    errors_sum(&of, off, by, sums);
    return sums;
}

/* By chance that is a few standard deviations; where it is more, it is what it is. */
static bool is_no_chance(double off, double variance) {
    static const double NO_CHANCE = 4;
    return off * off > NO_CHANCE * NO_CHANCE * variance;
}

void errors_add_as_rounded(machine *m, const operand *o, const operand *by, bool is_left,
                           double *to) {
    meeting of = errors_meeting(o, by, is_left);
    const double *sums = as_rounded(m, o, by, of);
    for (int64_t i = 0; i < of.lines && sums; i++) {
        for (int64_t t = 0; t < of.width; t++) {
            double *at = to + (is_left ? i * of.width + t : t * of.lines + i);
            double off = sums[i * of.width + t];
            if (is_no_chance(off, *at)) *at += off * off;
        }
    }
}

void errors_drift(machine *m, const operand *o, const operand *by, bool is_left, double *drift) {
    meeting of = errors_meeting(o, by, is_left);
    const double *sums = as_rounded(m, o, by, of);
    for (int64_t i = 0; i < of.lines && sums; i++) {
        for (int64_t t = 0; t < of.width; t++) {
            double off = sums[i * of.width + t];
            if (isfinite(off)) drift[is_left ? i * of.width + t : t * of.lines + i] += off;
        }
    }
}

void errors_settle(int64_t count, const double *drift, const double *together, double *counted,
                   double *variances) {
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(variances[i])) continue;
        double apart = fmax(0, variances[i] - counted[i]), chance = apart + fmax(0, together[i]);
        variances[i] = chance + (is_no_chance(drift[i], chance) ? drift[i] * drift[i] : 0);
        counted[i] = variances[i] - apart;
    }
}
