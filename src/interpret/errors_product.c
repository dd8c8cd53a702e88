/* What products err by: what their operands do, what these are rounded by, and the sums themselves.
 * Elements that are nearly equal are rounded alike, so that their errors add up where others
 * average out.
 */
#include "base/product.h"
#include "base/wide.h"
#include "interpret/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEP = 8 }; /* terms that a product adds at a time, at least */
/* Of products of 8 bits: a sum is cut so far below its largest term; how many terms at most are
 * summed so.
 */
static const double CUT = 0x1p-13;
enum { CUT_TERMS = 256, CUT_GROUP = 16 };
static const double ROUNDED = 0x1p-24; /* half a step of f32, relative */

typedef struct operand {
    const tile *t;
    const double *errors;
    int64_t rows, columns, row_step, step; /* as it is in the product */
    double alike;                          /* of errors along the contracted axis */
} operand;

static operand operand_of(const machine *m, const tile *t, bool is_turned) {
    operand o = {t, tile_errors(m, t), t->count[0], t->count[1], t->count[1], 1, 0};
    if (is_turned) o = (operand){t, o.errors, o.columns, o.rows, 1, t->count[1], 0};
    return o;
}

static bool is_exact(const operand *o) {
    if (!o->t->is_narrow) return false;
    for (int64_t i = 0; i < tile_size(o->t); i++) {
        if (o->errors[i] != 0) return false;
    }
    return true;
}

/* Squares of an operand's elements, row by row. */
static double *squares(machine *m, int which, const operand *o) {
    double *to = errors_room(m, which, o->rows * o->columns);
    for (int64_t i = 0; i < o->rows; i++) {
        for (int64_t k = 0; k < o->columns; k++) {
            double x = o->t->data[i * o->row_step + k * o->step];
            to[i * o->columns + k] = x * x;
        }
    }
    return to;
}

/* Squares of an operand's errors, and of those that rounding adds, row by row. */
static double *squares_of_errors(machine *m, int which, const operand *o) {
    double *to = errors_room(m, which, o->rows * o->columns);
    bool is_rounded = !o->t->is_narrow;
    for (int64_t i = 0; i < o->rows; i++) {
        double *out = to + i * o->columns;
        for (int64_t k = 0; k < o->columns; k++) out[k] = o->t->data[i * o->row_step + k * o->step];
        if (is_rounded) errors_of_rounding(m, out, o->columns, out);
        for (int64_t k = 0; k < o->columns; k++) {
            double error = o->errors[i * o->row_step + k * o->step], off = is_rounded ? out[k] : 0;
            out[k] = error * error + off * off;
        }
    }
    return to;
}

/* Of what is beyond all numbers a factor of 0 takes nothing. */
static void add_open_products(const operand *a, const operand *b, const double *x, const double *y,
                              double *to) {
    for (int64_t i = 0; i < a->rows; i++) {
        for (int64_t k = 0; k < a->columns; k++) {
            double factor = x[i * a->columns + k];
            const double *from = y + k * b->columns;
            for (int64_t j = 0; j < b->columns && factor != 0; j++)
                to[i * b->columns + j] += factor * from[j];
        }
    }
}

static void add_products(const operand *a, const operand *b, const double *x, const double *y,
                         double *to) {
    bool is_open = false;
    for (int64_t i = 0; i < b->rows * b->columns; i++) is_open |= !isfinite(y[i]);
    if (is_open) {
        add_open_products(a, b, x, y, to);
        return;
    }
    product_add(a->rows, a->columns, b->columns, (product_matrix){x, a->columns, 1},
                (product_matrix){y, b->columns, 1}, to, b->columns);
}

/* --- what operands are rounded by ------------------------------------------------------------- */

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

static void add_roundings(machine *m, const operand *o, const operand *by, bool is_left,
                          double *to) {
    if (o->t->is_narrow) return;
    int64_t lines = is_left ? o->rows : o->columns, columns = is_left ? by->columns : o->columns;
    int64_t line = is_left ? o->row_step : o->step, step = is_left ? o->step : o->row_step;
    int64_t terms = is_left ? o->columns : o->rows;
    contraction c = {.by = by->t->data,
                     .along = is_left ? by->row_step : by->step,
                     .across = is_left ? by->step : by->row_step,
                     .width = is_left ? by->columns : by->rows,
                     .stride = is_left ? 1 : columns};
    c.sorted = (element *)(void *)errors_room(m, 2, 5 * terms);
    c.steps = (double *)(void *)(c.sorted + 2 * terms);
    c.sum = errors_room(m, 3, 3 * c.width);
    c.square = c.sum + c.width;
    for (int64_t i = 0; i < lines; i++) {
        c.count = 0;
        for (int64_t k = 0; k < terms; k++) {
            double value = o->t->data[i * line + k * step];
            if (value != 0 && isfinite(value)) c.sorted[c.count++] = (element){value, k};
        }
        c.to = to + (is_left ? i * columns : i);
        add_line(m, &c);
    }
}

/* --- what errors have in common --------------------------------------------------------------- */

/* Sums of errors times what they are multiplied by, line by line. */
static void sum_errors(const operand *o, const operand *by, bool is_left, int64_t lines,
                       double *sums) {
    int64_t line = is_left ? o->row_step : o->step, step = is_left ? o->step : o->row_step;
    int64_t along = is_left ? by->row_step : by->step, across = is_left ? by->step : by->row_step;
    int64_t count = is_left ? o->columns : o->rows, width = is_left ? by->columns : by->rows;
    bool is_open = false;
    memset(sums, 0, (size_t)(lines * width) * sizeof *sums);
    for (int64_t i = 0; i < tile_size(by->t); i++) is_open |= !isfinite(by->t->data[i]);
    if (!is_open) {
        product_matrix a = {o->errors, line, step};
        product_add(lines, count, width, a, (product_matrix){by->t->data, along, across}, sums,
                    width);
        return;
    }
    for (int64_t i = 0; i < lines; i++) {
        for (int64_t k = 0; k < count; k++) {
            double off = o->errors[i * line + k * step];
            const double *y = by->t->data + k * along;
            for (int64_t t = 0; t < width && off != 0; t++)
                sums[i * width + t] += off * y[t * across];
        }
    }
}

/* Errors of the left operand's row (of the right one's column) that go together add up. */
static void add_alike(machine *m, const operand *o, const operand *by, bool is_left, double *to) {
    int64_t lines = is_left ? o->rows : o->columns, columns = is_left ? by->columns : o->columns;
    int64_t width = is_left ? by->columns : by->rows;
    double *sums = errors_room(m, 3, lines * width);
    sum_errors(o, by, is_left, lines, sums);
    for (int64_t i = 0; i < lines; i++) {
        for (int64_t t = 0; t < width; t++) {
            double sum = sums[i * width + t];
            to[is_left ? i * columns + t : t * columns + i] += o->alike * sum * sum;
        }
    }
}

/* What one operand's errors do to the sums: variances. */
static void add_operand(machine *m, const operand *o, const operand *by, bool is_left, double *to) {
    if (is_exact(o)) return;
    if (is_left) add_products(o, by, squares_of_errors(m, 0, o), squares(m, 1, by), to);
    else add_products(by, o, squares(m, 0, by), squares_of_errors(m, 1, o), to);
    add_roundings(m, o, by, is_left, to);
    if (o->alike > 0) add_alike(m, o, by, is_left, to);
}

/* An element of an operand is off by the same for all that it is multiplied by: what a line of the
 * target is off by together is what a product with their mean would be. The share of it in the
 * line's variance, of lines where it is most.
 */
static double common_of(machine *m, const operand *o, const operand *by, bool is_left,
                        const double *errors) {
    int64_t lines = is_left ? o->rows : o->columns, width = is_left ? by->columns : by->rows;
    int64_t count = is_left ? o->columns : o->rows;
    int64_t along = is_left ? by->row_step : by->step, across = is_left ? by->step : by->row_step;
    double *common = errors_room(m, 4, lines), *mean = errors_room(m, 5, count);
    if (is_exact(o) || width == 0) return 0;
    tile means = {
        .data = mean, .axis_count = 2, .count = {is_left ? count : 1, is_left ? 1 : count}};
    operand of_means = {.t = &means,
                        .rows = means.count[0],
                        .columns = means.count[1],
                        .row_step = means.count[1],
                        .step = 1};
    memset(common, 0, (size_t)lines * sizeof *common);
    for (int64_t k = 0; k < count; k++) {
        mean[k] = 0;
        for (int64_t t = 0; t < width; t++) mean[k] += by->t->data[k * along + t * across];
        mean[k] /= (double)width;
    }
    add_operand(m, o, &of_means, is_left, common);
    double sum = 0, shares = 0;
    for (int64_t i = 0; i < lines; i++) {
        double all = 0;
        for (int64_t t = 0; t < width; t++) {
            double off = errors[is_left ? i * width + t : t * lines + i];
            all += off * off / (double)width;
        }
        if (!isfinite(all) || !isfinite(common[i]) || all == 0) continue;
        sum += common[i], shares += common[i] * fmin(1, common[i] / all);
    }
    return sum > 0 ? shares / sum : 0;
}

/* --- the product ------------------------------------------------------------------------------ */

static double norm(const operand *o, bool is_row, int64_t at) {
    double sum = 0;
    for (int64_t k = 0; k < (is_row ? o->columns : o->rows); k++) {
        double x =
            o->t->data[is_row ? at * o->row_step + k * o->step : k * o->row_step + at * o->step];
        sum += x * x;
    }
    return sqrt(sum);
}

static double largest(const operand *o, bool is_row, int64_t at) {
    double most = 0;
    for (int64_t k = 0; k < (is_row ? o->columns : o->rows); k++) {
        double x =
            o->t->data[is_row ? at * o->row_step + k * o->step : k * o->row_step + at * o->step];
        most = fmax(most, fabs(x));
    }
    return most;
}

/* What products of 8 bits cut off: every term so far below the largest one or the sum, towards 0.
 * Terms of both signs do so by chance, those of one sign together.
 */
static double cut_off(int64_t terms, double most, double value) {
    double groups = (double)(terms < CUT_TERMS ? terms : CUT_TERMS) / CUT_GROUP;
    double chance = CUT * fmax(most, fabs(value)) * sqrt((double)terms);
    return chance + CUT * fabs(value) * groups;
}

/* Sums of many terms in f32 err by their terms' size, whatever is left of it. */
void errors_of_product(machine *m, tile *target, const tile *a, bool a_turned, const tile *b,
                       bool b_turned, bool accumulates) {
    operand left = operand_of(m, a, a_turned), right = operand_of(m, b, b_turned);
    double *errors = tile_errors(m, target);
    int64_t count = tile_size(target), columns = right.columns;
    left.alike = a->alike[a_turned ? 0 : 1], right.alike = b->alike[b_turned ? 1 : 0];
    for (int64_t i = 0; i < count; i++) errors[i] = accumulates ? errors[i] * errors[i] : 0;
    add_operand(m, &left, &right, true, errors);
    add_operand(m, &right, &left, false, errors);
    double *sizes = errors_room(m, 0, columns);
    double *tops = errors_room(m, 1, columns);
    for (int64_t j = 0; j < columns; j++) sizes[j] = norm(&right, false, j);
    for (int64_t j = 0; j < columns && m->multiplies_bytes; j++)
        tops[j] = largest(&right, false, j);
    double *own = errors_room(m, 2, columns);
    for (int64_t i = 0; i < left.rows; i++) {
        double size = norm(&left, true, i);
        double top = m->multiplies_bytes ? largest(&left, true, i) : 0;
        const double *values = target->data + i * columns;
        double *e = errors + i * columns;
        errors_own(TL_CAST, values, values, (int)columns, own);
        for (int64_t j = 0; j < columns; j++) {
            /* what is cut off at each step, rather than rounded, adds up where terms have one sign
             */
            double sum = 2 * ROUNDED * size * sizes[j],
                   drift = ROUNDED * fabs(values[j]) * (4 + (double)left.columns / STEP);
            double off = isfinite(own[j]) ? own[j] + drift : own[j];
            double cut = m->multiplies_bytes ? cut_off(left.columns, top * tops[j], values[j]) : 0;
            double all = sqrt(e[j] + sum * sum + off * off + cut * cut);
            e[j] = isfinite(all) ? all : (double)NAN; /* infinities of both signs may have met */
        }
    }
    double along[] = {common_of(m, &right, &left, false, errors),
                      common_of(m, &left, &right, true, errors)};
    for (int axis = 0; axis < 2; axis++)
        target->alike[axis] = fmax(along[axis], accumulates ? target->alike[axis] : 0);
}
