/* What products err by: what their operands do, what these are rounded by (errors_rounding.c), and
 * the sums themselves.
 */
#include "base/product.h"
#include "interpret/errors_operand.h"

#include <math.h>
#include <string.h>

enum { STEP = 8 }; /* terms that a product adds at a time, at least */
/* Of products of 8 bits: a sum is cut so far below its largest term; how many terms at most are
 * summed so.
 */
static const double CUT = 0x1p-13;
enum { CUT_TERMS = 256, CUT_GROUP = 16 };
static const double ROUNDED = 0x1p-24; /* half a step of f32, relative */

static operand operand_of(const machine *m, const tile *t, bool is_turned, bool is_left) {
    operand o = {.t = t, .errors = tile_errors(m, t)};
    int contracted = is_turned == is_left ? 0 : 1;
    o.rows = t->count[is_turned ? 1 : 0], o.columns = t->count[is_turned ? 0 : 1];
    o.row_step = is_turned ? 1 : t->count[1], o.step = is_turned ? t->count[1] : 1;
    o.alike = t->alike[contracted], o.turned = t->turned[contracted];
    o.signs = t->signs[contracted];
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

/* --- what errors have in common --------------------------------------------------------------- */

meeting errors_meeting(const operand *o, const operand *by, bool is_left) {
    return (meeting){.lines = is_left ? o->rows : o->columns,
                     .count = is_left ? o->columns : o->rows,
                     .width = is_left ? by->columns : by->rows,
                     .line = is_left ? o->row_step : o->step,
                     .step = is_left ? o->step : o->row_step,
                     .along = is_left ? by->row_step : by->step,
                     .across = is_left ? by->step : by->row_step};
}

void errors_sum(const meeting *of, const double *numbers, const operand *by, double *sums) {
    bool is_open = false;
    memset(sums, 0, (size_t)(of->lines * of->width) * sizeof *sums);
    for (int64_t i = 0; i < tile_size(by->t); i++) is_open |= !isfinite(by->t->data[i]);
    if (!is_open) {
        product_matrix a = {numbers, of->line, of->step};
        product_matrix b = {by->t->data, of->along, of->across};
        product_add(of->lines, of->count, of->width, a, b, sums, of->width);
        return;
    }
    for (int64_t i = 0; i < of->lines; i++) {
        for (int64_t k = 0; k < of->count; k++) {
            double off = numbers[i * of->line + k * of->step];
            const double *y = by->t->data + k * of->along;
            for (int64_t t = 0; t < of->width && off != 0; t++)
                sums[i * of->width + t] += off * y[t * of->across];
        }
    }
}

/* Errors of the left operand's row (of the right one's column) that go together add up, each in its
 * own direction where these are known.
 */
static void add_alike(machine *m, const operand *o, const operand *by, bool is_left, double *to) {
    meeting of = errors_meeting(o, by, is_left);
    int64_t count = of.lines * of.width;
    double *sums = errors_room(m, 3, 2 * count), *turned = sums + count;
    memset(sums, 0, (size_t)(2 * count) * sizeof *sums);
    if (o->alike > 0) errors_sum(&of, o->errors, by, sums);
    if (o->turned > 0) {
        double *signed_errors = errors_room(m, 6, tile_size(o->t));
        for (int64_t i = 0; i < of.lines; i++)
            for (int64_t k = 0; k < of.count; k++) {
                int64_t at = i * of.line + k * of.step;
                signed_errors[at] = o->signs[k] * o->errors[at];
            }
        errors_sum(&of, signed_errors, by, turned);
    }
    for (int64_t i = 0; i < of.lines; i++) {
        for (int64_t t = 0; t < of.width; t++) {
            double one = sums[i * of.width + t], other = turned[i * of.width + t];
            double both[] = {o->alike * one * one, o->turned * other * other};
            to[is_left ? i * of.width + t : t * of.lines + i] +=
                both[1] > both[0] ? both[1] : both[0];
        }
    }
}

/* What one operand's errors do to the sums: variances. */
static void add_operand(machine *m, const operand *o, const operand *by, bool is_left, double *to) {
    if (is_exact(o)) return;
    if (is_left) add_products(o, by, squares_of_errors(m, 0, o), squares(m, 1, by), to);
    else add_products(by, o, squares(m, 0, by), squares_of_errors(m, 1, o), to);
    errors_add_roundings(m, o, by, is_left, to);
    if (o->alike > 0 || o->turned > 0) add_alike(m, o, by, is_left, to);
}

/* An element of an operand is off by the same for all that it is multiplied by: what a line of the
 * target is off by together, with 'signs' or all in one direction, is what a product with their
 * mean would be. The share of it in the line's variance, of lines where it is most.
 */
static double common_of(machine *m, const operand *o, const operand *by, bool is_left,
                        const double *signs, const double *errors) {
    meeting of = errors_meeting(o, by, is_left);
    double *common = errors_room(m, 4, of.lines), *mean = errors_room(m, 5, of.count);
    if (is_exact(o) || of.width == 0) return 0;
    tile means = {
        .data = mean, .axis_count = 2, .count = {is_left ? of.count : 1, is_left ? 1 : of.count}};
    operand of_means = {.t = &means,
                        .rows = means.count[0],
                        .columns = means.count[1],
                        .row_step = means.count[1],
                        .step = 1};
    memset(common, 0, (size_t)of.lines * sizeof *common);
    for (int64_t k = 0; k < of.count; k++) {
        mean[k] = 0;
        for (int64_t t = 0; t < of.width; t++)
            mean[k] += (signs ? signs[t] : 1) * by->t->data[k * of.along + t * of.across];
        mean[k] /= (double)of.width;
    }
    add_operand(m, o, &of_means, is_left, common);
    errors_add_as_rounded(m, o, &of_means, is_left, common);
    double sum = 0, shares = 0;
    for (int64_t i = 0; i < of.lines; i++) {
        double all = 0;
        for (int64_t t = 0; t < of.width; t++) {
            double off = errors[is_left ? i * of.width + t : t * of.lines + i];
            all += off * off / (double)of.width;
        }
        if (!isfinite(all) || !isfinite(common[i]) || all == 0) continue;
        sum += common[i], shares += common[i] * fmin(1, common[i] / all);
    }
    return sum > 0 ? shares / sum : 0;
}

/* Variances of an operand's elements at each place of the contracted axis, over all lines. */
static void variances_at(machine *m, const operand *o, const meeting *of, bool is_left,
                         double *to) {
    const double *all = squares_of_errors(m, 0, o);
    for (int64_t k = 0; k < of->count; k++) {
        double sum = 0;
        for (int64_t i = 0; i < of->lines; i++)
            sum += all[is_left ? i * of->count + k : k * of->lines + i];
        to[k] = isfinite(sum) ? sum : 0;
    }
}

/* Of the contracted axis the place whose errors weigh most in sums; -1: none does. */
static int64_t heaviest(const meeting *of, const double *by, const double *variance) {
    int64_t best = -1;
    double most = 0;
    for (int64_t k = 0; k < of->count; k++) {
        double weight = 0;
        for (int64_t t = 0; t < of->width; t++) {
            double y = by[k * of->along + t * of->across];
            weight += variance[k] * y * y;
        }
        if (isfinite(weight) && weight > most) most = weight, best = k;
    }
    return best;
}

/* Signs with which sums of an operand's errors times lines of 'by' have most in common: the main
 * direction of their covariance, sought from the place that weighs most. Returns whether there are
 * both signs.
 */
static bool find_signs(machine *m, const operand *o, const operand *by, bool is_left,
                       double *signs) {
    enum { ROUNDS = 4 };
    meeting of = errors_meeting(o, by, is_left);
    double *variance = errors_room(m, 4, of.count), *drive = errors_room(m, 5, of.count);
    const double *data = by->t->data;
    variances_at(m, o, &of, is_left, variance);
    int64_t best = heaviest(&of, data, variance), below = 0;
    memset(drive, 0, (size_t)of.count * sizeof *drive);
    if (best >= 0) drive[best] = 1;
    for (int round = 0; round < ROUNDS && best >= 0; round++) {
        below = 0;
        for (int64_t t = 0; t < of.width; t++) {
            double sum = 0;
            for (int64_t k = 0; k < of.count; k++)
                if (drive[k] != 0) sum += drive[k] * data[k * of.along + t * of.across];
            signs[t] = sum < 0 ? -1 : 1;
            below += sum < 0;
        }
        for (int64_t k = 0; k < of.count; k++) {
            double sum = 0;
            for (int64_t t = 0; t < of.width; t++)
                sum += signs[t] * data[k * of.along + t * of.across];
            drive[k] = isfinite(sum) ? variance[k] * sum : 0;
        }
    }
    return below > 0 && below < of.width;
}

/* What lines of a target have in common along an axis, beside what they had. */
static void keep_common(machine *m, tile *target, int axis, const operand *o, const operand *by,
                        bool is_left, bool accumulates) {
    const double *errors = tile_errors(m, target);
    double alike = common_of(m, o, by, is_left, NULL, errors), turned = 0;
    double *signs = errors_room(m, 7, target->count[axis]);
    if (!is_exact(o) && find_signs(m, o, by, is_left, signs))
        turned = common_of(m, o, by, is_left, signs, errors);
    if (!accumulates) target->alike[axis] = target->turned[axis] = 0;
    target->alike[axis] = fmax(alike, target->alike[axis]);
    if (turned > target->turned[axis]) errors_keep_signs(m, target, axis, signs, turned);
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
void errors_of_product(machine *m, const tl_statement *at, tile *target, const tile *a,
                       bool a_turned, const tile *b, bool b_turned, bool accumulates) {
    operand left = operand_of(m, a, a_turned, true), right = operand_of(m, b, b_turned, false);
    double *errors = tile_errors(m, target);
    int64_t count = tile_size(target), columns = right.columns;
    for (int64_t i = 0; i < count; i++) errors[i] = accumulates ? errors[i] * errors[i] : 0;
    add_operand(m, &left, &right, true, errors);
    add_operand(m, &right, &left, false, errors);
    errors_drift(m, &left, &right, true, tile_drift(m, target));
    errors_drift(m, &right, &left, false, tile_drift(m, target));
    int64_t id = errors_next_product(m);
    double *together = tile_together(m, target);
    errors_add_repeated(m, at, target, id, &left, &right, true, accumulates, together);
    errors_add_repeated(m, at, target, id, &right, &left, false, accumulates, together);
    target->product = id;
    errors_settle(count, tile_drift(m, target), together, tile_counted(m, target), errors);
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
    keep_common(m, target, 0, &right, &left, false, accumulates);
    keep_common(m, target, 1, &left, &right, true, accumulates);
}
