#include "verify/judge.h"

#include <math.h>
#include <string.h>

/* Bounds beside the tolerance of the relative rms error. A row has fewer elements than the whole, a
 * single one is one: the same honest error reaches further from its mean.
 */
static const double ROW_FACTOR = 4, ELEMENT_FACTOR = 16;
/* Rows much smaller than the whole are what cancellation left (the tail of GELU): their error is
 * measured against this share of the whole's rms.
 */
static const double ROW_FLOOR = 1e-3;
static const double LOGARITHM_ABSOLUTE = 1e-4, LOGARITHM_RELATIVE = 1e-5;

static double type_tolerance(ftl_type type) {
    switch (type) {
    case FTL_F16: return 1e-3;
    case FTL_BF16: return 3e-3;
    case FTL_E4M3: return 4e-2;
    case FTL_E5M2: return 8e-2;
    case FTL_I8: return 1e-3; /* beside its own step */
    case FTL_I32: return 0;
    case FTL_F32:
    case FTL_I4:
    case FTL_U4: break; /* no type of Outputs; whole numbers are exact */
    }
    return 1e-5;
}

double judge_tolerance(const ftl_plan *plan, const ftl_plan_tensor *output) {
    double tolerance = type_tolerance(output->type);
    if (output->type != FTL_F32) return tolerance;
    for (int32_t t = 0; t < plan->tensor_count; t++) { /* products of 16-bit operands */
        double other = type_tolerance(plan->tensors[t].type);
        if (plan->tensors[t].role == FTL_INPUT && other > tolerance) tolerance = other;
    }
    return tolerance;
}

/* --- sums over known elements ----------------------------------------------------------------- */

typedef struct sums {
    double error, size; /* of squares */
    int64_t count;
} sums;

static void add(sums *s, double got, double want) {
    s->error += (got - want) * (got - want);
    s->size += want * want;
    s->count++;
}

static bool is_compared(const judged *o, int64_t i) {
    return (o->expected->state[i] & EXPECTED_KNOWN) && isfinite(o->expected->values[i]) &&
           isfinite(o->got[i]);
}

static sums row_sums(const judged *o, int64_t row) {
    sums s = {0};
    int64_t columns = o->expected->of->columns;
    for (int64_t i = row * columns; i < (row + 1) * columns; i++) {
        if (is_compared(o, i)) add(&s, o->got[i], o->expected->values[i]);
    }
    return s;
}

/* The smallest step of the type: below it errors mean nothing. */
static double resolution(convert_format format) {
    if (format == CONVERT_F16) return 0x1p-24;
    if (format == CONVERT_E4M3) return 0x1p-9;
    if (format == CONVERT_E5M2) return 0x1p-16;
    if (format == CONVERT_I8) return 1;
    return 1e-30;
}

/* --- the rules -------------------------------------------------------------------------------- */

/* Keeps the rule that is furthest beyond, or nearest to, its bound. */
static void apply(judgement *j, const char *rule, double error, double bound) {
    bool is_broken = !(error <= bound);
    double ratio = bound > 0 ? error / bound : is_broken ? INFINITY : 0;
    double before = j->bound > 0 ? j->error / j->bound : j->rule && !j->is_right ? INFINITY : 0;
    if (!j->rule || (j->is_right && is_broken) || (is_broken == !j->is_right && ratio > before)) {
        j->rule = rule, j->error = error, j->bound = bound;
    }
    if (is_broken) j->is_right = false;
}

/* Is a write missing, or one too many? A byte that was written may rightly look like poison. */
static bool is_miswritten(const judged *o, int64_t i) {
    if (!o->unwritten) return false;
    if (o->expected->state[i] & EXPECTED_KEPT) return !o->unwritten[i];
    return o->unwritten[i] && convert_bits(o->expected->of->format) > 8;
}

/* Rules that no measure of error can replace, most telling first: their failure ends the judgement.
 */
static bool check_written(const judged *o, int64_t count, judgement *j) {
    int64_t missing = 0, touched = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!is_miswritten(o, i)) continue;
        if (o->expected->state[i] & EXPECTED_KEPT) touched++;
        else missing++;
    }
    if (missing) apply(j, "elements not written", (double)missing, 0);
    else if (touched) apply(j, "elements written that stay as they were", (double)touched, 0);
    return !missing && !touched;
}

static bool is_misclassed(const judged *o, int64_t i) {
    double got = o->got[i], want = o->expected->values[i];
    if (o->expected->state[i] & (EXPECTED_OPEN | EXPECTED_KEPT)) return false;
    if (!(o->expected->state[i] & EXPECTED_KNOWN)) return isnan(got);
    if (isfinite(got) && isfinite(want)) return false;
    if (isnan(want)) return !isnan(got);
    /* a finite value beyond the type's largest one is rightly stored as infinity */
    return got != convert_round(o->expected->of->format, want);
}

static void check_logarithm(const judged *o, int64_t count, judgement *j) {
    double worst = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!is_compared(o, i)) continue;
        double want = o->expected->values[i], error = fabs(o->got[i] - want);
        double relative = error / (LOGARITHM_ABSOLUTE + LOGARITHM_RELATIVE * fabs(want));
        if (j->worst < 0 || relative > worst) worst = relative, j->worst = i;
    }
    if (j->worst < 0) return;
    double want = o->expected->values[j->worst];
    apply(j, "log-sum-exp", fabs(o->got[j->worst] - want),
          LOGARITHM_ABSOLUTE + LOGARITHM_RELATIVE * fabs(want));
}

static sums whole_sums(const judged *o) {
    sums s = {0};
    for (int64_t i = 0; i < o->expected->of->rows * o->expected->of->columns; i++) {
        if (is_compared(o, i)) add(&s, o->got[i], o->expected->values[i]);
    }
    return s;
}

static double rms(const sums *s) {
    return s->count ? sqrt(s->size / (double)s->count) : 0;
}

/* What errors in a row are measured against; 0 only where all of the row should be 0. */
static double row_scale(const sums *row, double whole) {
    double size = rms(row);
    return size > 0 ? fmax(size, ROW_FLOOR * whole) : 0;
}

/* Denormal numbers have fewer digits: half a step of the type is what correct rounding itself errs
 * there. */
static double error_beyond_rounding(const judged *o) {
    int64_t count = o->expected->of->rows * o->expected->of->columns;
    double half = resolution(o->expected->of->format) / 2, sum = 0;
    for (int64_t i = 0; i < count; i++) {
        if (!is_compared(o, i)) continue;
        double beyond = fmax(fabs(o->got[i] - o->expected->values[i]) - half, 0);
        sum += beyond * beyond;
    }
    return sum;
}

/* --- with known errors ------------------------------------------------------------------------ */

/* Of what is right: a uniform error of half a step by the type, and those of the arithmetic. */
static double variance(const judged *o, int64_t i) {
    const expected *e = o->expected;
    double step = convert_step(e->of->format, e->values[i]);
    return step * step / 12 + e->errors[i] * e->errors[i];
}

/* A whole of few rows may have errors that all come of one; so may a row. */
static const double WHOLE_ERRORS = 3, FEW_ERRORS = 6, ELEMENT_ERRORS = 16, ELEMENT_STEPS = 2;
static const double WHOLE_SLACK = 0x1p-20; /* of f32, below 128 */
enum { FEW_ROWS = 16 };

/* The noise of 8-bit weights is known to a tenth; what few elements or rows it is taken from add. A
 * weight's rounding is at most 2.4 times its standard deviation: where one or two keys carry a row
 * no error averages out.
 */
static const double NOISE_WHOLE = 1.1, NOISE_ROW = 1.6, NOISE_ALONE = 2.6, NOISE_ELEMENT = 6;
/* Weights right above a power of two err by 3.6 %, and where those of a row are alike, all of them
 * may be there, unless the largest is a power of two.
 */
static const double NOISE_ANYWHERE = 0.036 / 0.026;
enum { MANY_KEYS = 12 };

static double noise_of_few(double count, double times) {
    return count > 0 ? times / sqrt(2 * count) : 0;
}

/* A whole number is the nearest one; of others the rounding may come twice. */
static double element_bound(const judged *o, int64_t i) {
    const expected *e = o->expected;
    bool is_whole = convert_is_whole(e->of->format);
    double steps = is_whole ? 0.5 + WHOLE_SLACK : ELEMENT_STEPS;
    return steps * convert_step(e->of->format, e->values[i]) + ELEMENT_ERRORS * e->errors[i];
}

static double noise_bound(const judged *o, int64_t i) {
    return NOISE_ELEMENT * sqrt(variance(o, i));
}

/* Of a row's elements that are compared: their errors, and what these may be. */
typedef struct row_errors {
    double variance, error, size; /* sums of squares */
    int64_t count;
} row_errors;

/* The worst element so far is noted, and how far beyond its bound it is. */
static row_errors errors_of_row(const judged *o, int64_t row,
                                double bound_of(const judged *, int64_t), judgement *j,
                                double *worst) {
    const buffer *of = o->expected->of;
    row_errors own = {0};
    for (int64_t i = row * of->columns; i < (row + 1) * of->columns; i++) {
        if (!is_compared(o, i)) continue;
        double want = o->expected->values[i], off = fabs(o->got[i] - want), bound = bound_of(o, i);
        double ratio = bound > 0 ? off / bound : off > 0 ? INFINITY : 0;
        own.variance += variance(o, i), own.error += off * off, own.size += want * want;
        own.count++;
        if (j->worst < 0 || ratio > *worst) *worst = ratio, j->worst = i;
    }
    return own;
}

/* Errors that are noise, against it: the whole, each row, each element. A tile of 64 keys of 8,192
 * that is left out is 3.5 times the noise.
 */
static void check_by_noise(const judged *o, judgement *j) {
    const buffer *of = o->expected->of;
    double size = 0, error = 0, all = 0, free = 0, worst_row = 0, worst = 0;
    for (int64_t row = 0; row < of->rows; row++) {
        row_errors own = errors_of_row(o, row, noise_bound, j, &worst);
        size += own.size;
        if (!own.count) continue;
        double keys = o->expected->effective ? o->expected->effective[row] : MANY_KEYS;
        double most = keys < MANY_KEYS ? NOISE_ALONE : NOISE_ROW;
        if (o->expected->is_anywhere) most *= NOISE_ANYWHERE;
        most += fmax(noise_of_few((double)own.count, 4) - 0.35, 0);
        worst_row = fmax(worst_row,
                         own.variance > 0 ? sqrt(own.error / own.variance) / most : own.error > 0);
        all += own.variance, error += own.error, free += fmin((double)own.count, keys);
    }
    if (all <= 0 && error <= 0) return;
    double bound = NOISE_WHOLE + noise_of_few(free, 3), root = sqrt(size);
    j->relative_rms = size > 0 ? sqrt(error) / root : INFINITY;
    j->rms_bound = size > 0 ? bound * sqrt(all) / root : 0;
    apply(j, "error over the noise of 8-bit weights", all > 0 ? sqrt(error / all) : INFINITY,
          bound);
    if (j->is_right) apply(j, "error of a row over what its noise explains", worst_row, 1);
    if (j->is_right) apply(j, "largest error over what noise explains", worst, 1);
}

/* Each measure against the root of the mean variance: where terms cancel, or a row is one weight,
 * that is more than the type's own tolerance; where there is nothing but the last rounding, less.
 */
static void check_by_errors(const judged *o, judgement *j) {
    const buffer *of = o->expected->of;
    double size = 0, error = 0, all = 0, worst_row = 0, worst = 0;
    int64_t compared = 0;
    for (int64_t row = 0; row < of->rows; row++) {
        row_errors own = errors_of_row(o, row, element_bound, j, &worst);
        if (own.count && own.variance > 0)
            worst_row = fmax(worst_row, sqrt(own.error / own.variance));
        size += own.size, all += own.variance, error += own.error, compared += own.count;
    }
    if (!compared) return;
    double factor = of->rows < FEW_ROWS ? FEW_ERRORS : WHOLE_ERRORS, root = sqrt(size);
    j->relative_rms = size > 0 ? sqrt(error) / root : error > 0 ? INFINITY : 0;
    j->rms_bound = size > 0 ? factor * sqrt(all) / root : o->tolerance;
    if (size > 0) apply(j, "relative rms", j->relative_rms, j->rms_bound);
    else apply(j, "rms", sqrt(error), factor * sqrt(all)); /* of what should be 0 */
    if (j->is_right)                                       /* else more has been said */
        apply(j, "relative rms of a row, in standard deviations", worst_row, FEW_ERRORS);
    if (j->is_right) apply(j, "largest error over what its terms explain", worst, 1);
}

static void check_whole(const judged *o, judgement *j) {
    sums s = whole_sums(o);
    if (!s.count) return;
    s.error = error_beyond_rounding(o);
    j->relative_rms = s.size > 0 ? sqrt(s.error / s.size) : s.error > 0 ? INFINITY : 0;
    j->rms_bound = o->tolerance;
    apply(j, "relative rms", j->relative_rms, j->rms_bound);
}

/* The same for every row alone, and for every element against its row: a fault in one tile of many
 * is lost in the whole. Where all of a row should be 0, it must be.
 */
static void check_rows(const judged *o, judgement *j) {
    const buffer *of = o->expected->of;
    sums all = whole_sums(o);
    double floor = resolution(of->format), whole = rms(&all), worst_row = 0, worst_element = 0;
    for (int64_t row = 0; row < of->rows; row++) {
        sums s = row_sums(o, row);
        if (!s.count) continue;
        double size = row_scale(&s, whole), error = sqrt(s.error / (double)s.count);
        double beyond = error > floor ? error - floor : 0;
        double relative = size > 0 ? beyond / size : error > 0 ? INFINITY : 0;
        if (relative > worst_row) worst_row = relative;
        for (int64_t i = row * of->columns; i < (row + 1) * of->columns; i++) {
            if (!is_compared(o, i)) continue;
            double want = fabs(o->expected->values[i]), scale = want > size ? want : size;
            double off = fabs(o->got[i] - o->expected->values[i]);
            double ratio = scale > 0 ? (off > floor ? off - floor : 0) / scale
                           : off > 0 ? INFINITY
                                     : 0;
            if (j->worst < 0 || ratio > worst_element) worst_element = ratio, j->worst = i;
        }
    }
    if (!all.count) return;
    apply(j, "relative rms of a row", worst_row, ROW_FACTOR * o->tolerance);
    apply(j, "largest error in its row", worst_element, ELEMENT_FACTOR * o->tolerance);
}

/* FlashAttention's own rule: twice what the same computation in the output's type errs. */
static void check_model(const judged *o, int64_t count, judgement *j) {
    const expected *e = o->expected;
    double worst = 0, model = 0, shifted = 0;
    convert_format format = e->of->format;
    bool is_any = false;
    for (int64_t i = 0; e->model && i < count; i++) {
        if (!is_compared(o, i)) continue;
        worst = fmax(worst, fabs(o->got[i] - e->values[i]));
        if (!(e->state[i] & EXPECTED_MODELLED) || !isfinite(e->model[i])) continue;
        is_any = true;
        model = fmax(model, fabs(e->model[i] - e->values[i]));
        double up = convert_round(format, convert_round(format, e->values[i]) + 0.3);
        shifted = fmax(shifted, fabs(convert_round(format, up - 0.3) - e->values[i]));
    }
    if (is_any) apply(j, "largest error", worst, 2 * model + 2 * shifted);
}

/* --- which elements --------------------------------------------------------------------------- */

static int64_t mark_bad(const judged *o, double factor, uint8_t *bad) {
    const buffer *of = o->expected->of;
    sums all = whole_sums(o);
    double whole = rms(&all);
    int64_t count = 0;
    for (int64_t row = 0; row < of->rows; row++) {
        sums s = row_sums(o, row);
        double size = row_scale(&s, whole);
        for (int64_t i = row * of->columns; i < (row + 1) * of->columns; i++) {
            double want = o->expected->values[i];
            double most = factor * o->tolerance * fmax(fabs(want), size) + resolution(of->format);
            if (o->expected->errors) most = element_bound(o, i) * factor / ROW_FACTOR;
            if (o->expected->is_logarithm)
                most = LOGARITHM_ABSOLUTE + LOGARITHM_RELATIVE * fabs(want);
            bad[i] = is_miswritten(o, i) || is_misclassed(o, i) ||
                     (is_compared(o, i) && fabs(o->got[i] - want) > most);
            count += bad[i];
        }
    }
    return count;
}

/* Anything may be right, or infinity is, as it is of whatever else is too large. */
static bool says_little(const judged *o, int64_t i) {
    double want = o->expected->values[i];
    if (o->expected->state[i] & EXPECTED_OPEN) return true;
    if (!(o->expected->state[i] & EXPECTED_KNOWN) || isnan(want) || want == -INFINITY) return false;
    return !isfinite(convert_round(o->expected->of->format, want));
}

void judge_output(const judged *o, arena *memory, judgement *out) {
    const buffer *of = o->expected->of;
    int64_t count = of->rows * of->columns;
    *out = (judgement){.is_right = true, .relative_rms = NAN, .worst = -1};
    for (int64_t i = 0; i < count; i++) {
        bool is_open = says_little(o, i);
        out->compared += !is_open && (o->expected->state[i] & EXPECTED_KNOWN);
        out->open += is_open;
    }
    int64_t misclassed = 0;
    bool is_written = check_written(o, count, out);
    for (int64_t i = 0; i < count && is_written; i++) misclassed += is_misclassed(o, i);
    if (misclassed) apply(out, "NaN or infinity out of place", (double)misclassed, 0);
    if (is_written && !misclassed) {
        if (o->expected->is_logarithm) {
            check_logarithm(o, count, out);
        } else if (o->expected->is_noise) {
            check_by_noise(o, out);
        } else if (o->expected->errors) {
            check_by_errors(o, out);
        } else {
            check_whole(o, out);
            check_rows(o, out);
            check_model(o, count, out);
        }
    }
    if (!out->rule) out->rule = "";
    if (out->is_right) return;
    out->bad = arena_array(memory, uint8_t, count + 1);
    out->bad_count = mark_bad(o, ROW_FACTOR, out->bad);
    if (!out->bad_count) out->bad_count = mark_bad(o, 1, out->bad);
}
