/* How far a right kernel's results may be from the exact ones: standard deviations of errors,
 * element by element beside the tiles, as a sketch is computed. They come from f32 arithmetic, from
 * what products round their operands to, and from the sizes of terms rather than of sums: where
 * large terms cancel, errors stay. An infinite error says that a result may be infinite, NaN that
 * it may be anything, and so may what is made of it. Errors of different elements count as
 * independent, but for what they have in common and are rounded alike by (errors_product.c,
 * errors_rounding.c).
 */
#include "base/wide.h"
#include "interpret/errors_operand.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { TILES_MOST = 6, ROOMS = 8 };

/* Of products of 8 bits: a weight is between the type's steps, and is 2^8 where it is largest. */
static const double OF_E4M3 = 0.026, OF_E5M2 = 0.052, LEAST_BYTE = 0x1p-18;
static const double ROUNDED = 0x1p-24; /* half a step of f32, relative */
static const double F32_MOST = 0x1.fffffep127, F32_LEAST = 0x1p-126;
enum { FAR = 16 }; /* as many errors as no right kernel's element is off by */
/* A uniform error's standard deviation, in steps. */
static const double OF_STEP = 0.29;

/* Stands for an operand that may be anything, NaN too, where an operation would pass over NaN. */
static const double ANYTHING = DBL_MAX;

struct errors {
    convert_format operand;        /* what products take */
    double of_byte;                /* of 8 bits: relative */
    const tile *tiles[TILES_MOST]; /* that the row reads */
    int count, next;
    const tile *on; /* the one that is off by its errors */
    bool is_all;    /* all of them are */
    double sign;    /* up, then down */
    int reach;      /* by how many of its errors: of a list */
    const double *reaches;
    bool turns;     /* the operation repeats itself along its operand */
    bool chooses;   /* one of its operands, and a number over NaN */
    int operations; /* inside of a row's expressions, so far */
    int rounded;    /* the one of them that is off, from 1 */
    double *open;   /* of each element: its operands' errors that are no number */
    double variance, common[MACHINE_AXES_MAX]; /* of a tile's elements, and what they share */
    struct with_signs {                        /* the same but for signs, by where it comes from */
        const tile *from;
        int axis;
        double common;
    } turned[MACHINE_AXES_MAX][TILES_MOST + 1];
    double *rooms[ROOMS];
    int64_t room_counts[ROOMS];
    int64_t products;         /* so far */
    struct errors_past *past; /* of sums that grow (errors_repeated.c) */
};

double *tile_errors(const machine *m, const tile *t) {
    return m->has_errors ? t->data + t->capacity : NULL;
}

double *tile_drift(const machine *m, const tile *t) {
    return m->has_errors ? t->data + 2 * t->capacity : NULL;
}

double *tile_counted(const machine *m, const tile *t) {
    return m->has_errors ? t->data + 3 * t->capacity : NULL;
}

double *tile_together(const machine *m, const tile *t) {
    return m->has_errors ? t->data + 4 * t->capacity : NULL;
}

size_t tile_parts(const machine *m) {
    return m->has_errors ? 5 : 1;
}

/* --- what elements have in common ------------------------------------------------------------- */

void errors_keep_signs(machine *m, tile *t, int axis, const double *signs, double share) {
    int64_t count = t->count[axis];
    if (count > t->sign_counts[axis]) {
        t->sign_counts[axis] = count;
        t->signs[axis] = machine_block(m, (size_t)count, sizeof(double));
    }
    if (t->signs[axis] && signs) memmove(t->signs[axis], signs, (size_t)count * sizeof(double));
    t->turned[axis] = t->signs[axis] && signs ? share : 0;
}

void tile_copy_errors(machine *m, tile *to, const tile *from) {
    if (!m->has_errors) return;
    memcpy(tile_errors(m, to), tile_errors(m, from), (size_t)tile_size(from) * sizeof *to->data);
    memcpy(tile_drift(m, to), tile_drift(m, from), (size_t)tile_size(from) * sizeof *to->data);
    memcpy(tile_counted(m, to), tile_counted(m, from), (size_t)tile_size(from) * sizeof *to->data);
    memcpy(tile_together(m, to), tile_together(m, from),
           (size_t)tile_size(from) * sizeof *to->data);
    to->product = from->product;
    memcpy(to->alike, from->alike, sizeof to->alike);
    for (int a = 0; a < from->axis_count; a++)
        errors_keep_signs(m, to, a, from->turned[a] > 0 ? from->signs[a] : NULL, from->turned[a]);
}

bool errors_open(machine *m) {
    if (!m->has_errors) return true;
    m->errors = machine_block(m, 1, sizeof *m->errors);
    m->errors->operand = CONVERT_F16;
    m->errors->of_byte = OF_E4M3;
    for (int i = 0; i < m->request->tensor_count; i++) {
        if (m->request->tensors[i].format == CONVERT_E5M2) m->errors->of_byte = OF_E5M2;
        if (m->request->tensors[i].format == CONVERT_BF16) m->errors->operand = CONVERT_BF16;
    }
    return true;
}

double *errors_room(machine *m, int which, int64_t count) {
    struct errors *e = m->errors;
    if (count > e->room_counts[which]) {
        e->room_counts[which] = count;
        e->rooms[which] = machine_block(m, (size_t)count, sizeof(double));
    }
    return e->rooms[which];
}

int64_t errors_next_product(machine *m) {
    return ++m->errors->products;
}

struct errors_past **errors_past_of(machine *m) {
    return &m->errors->past;
}

/* --- memory ----------------------------------------------------------------------------------- */

static bool is_narrow(convert_format format) {
    return convert_bits(format) <= 16;
}

/* What was passed on from kernel to kernel is in its declared type, whatever holds it here. */
static convert_format format_of(const machine *m, const machine_tensor *t) {
    const tl_statement *said = t->symbol->parameter;
    if (!t->memory.errors) return t->memory.format;
    if (!said || said->parameter.type == TL_OPEN) return m->errors->operand;
    return interpret_format(said->parameter.type);
}

void errors_of_load(machine *m, tile *t, const tl_symbol *tensor) {
    double *errors = tile_errors(m, t);
    memset(errors, 0, (size_t)tile_size(t) * sizeof *errors);
    memset(t->alike, 0, sizeof t->alike);
    memset(t->turned, 0, sizeof t->turned);
    t->is_narrow = is_narrow(format_of(m, memory_tensor(m, tensor)));
}

bool errors_are_stored(const machine *m, const tl_symbol *tensor) {
    return m->has_errors && !memory_tensor(m, tensor)->symbol->is_workspace;
}

void errors_of_store(const machine *m, const tl_symbol *tensor, const double *values,
                     const double *errors, int width, double *out) {
    convert_format format = format_of(m, memory_tensor(m, tensor));
    for (int i = 0; i < width; i++) {
        double step = OF_STEP * convert_step(format, values[i]);
        double most = fabs(values[i]) + (isfinite(errors[i]) ? FAR * errors[i] : 0);
        bool is_beyond = isfinite(values[i]) && !isfinite(convert_round(format, most));
        out[i] = is_beyond ? (double)INFINITY : errors[i];
        if (isfinite(values[i]) && isfinite(out[i])) out[i] = sqrt(out[i] * out[i] + step * step);
    }
}

/* --- one element ------------------------------------------------------------------------------ */

WIDE_VECTORS void errors_own(tl_operation operation, const double *results, const double *firsts,
                             int width, double *out) {
    bool is_power = operation == TL_EXP || operation == TL_EXP2;
    tl_facts(operation)->errors(results, firsts, width, out);
    for (int i = 0; i < width; i++) {
        double size = fabs(results[i]), first = fabs(firsts[i]);
        bool is_number = size <= DBL_MAX, is_infinite = size > DBL_MAX;
        /* of a power, also by f32 */
        bool has_overflown = is_power & is_infinite & (first <= DBL_MAX);
        bool is_small = (size != 0) & (size < F32_LEAST);
        bool is_masked = (first > DBL_MAX) & (size == 0); /* not 0 times infinity */
        double own = out[i] + (is_small ? F32_LEAST : 0);
        own = is_number ? own : 0;
        own = is_masked ? 0 : own;
        has_overflown |= is_number & (size > F32_MOST);
        out[i] = has_overflown ? (double)INFINITY : own;
    }
}

/* By chance each sum is rounded in its own direction. But terms that are equal are rounded alike,
 * and what is small beside the sum is lost whole: so the roundings are also added up as they are.
 */
double errors_of_adding(const double *sums, const double *terms, int width, double *variances,
                        double *drift) {
    double all = 0;
    for (int i = 0; i < width; i++) {
        double sum = (float)sums[i], whole = sum + (float)terms[i];
        double off = (double)(float)whole - whole, before = drift[i];
        bool is_number = isfinite(sums[i]) && isfinite(terms[i]);
        if (is_number && fabs(sums[i] + terms[i]) > F32_MOST) variances[i] = INFINITY;
        if (sum == 0 || terms[i] == 0 || !isfinite(off)) continue; /* nothing is rounded */
        drift[i] += off;
        double chance = ROUNDED * fabs(whole), moved = drift[i] * drift[i] - before * before;
        double own = fmax(chance * chance + moved, -variances[i]);
        variances[i] += own;
        all += own;
    }
    return all;
}

static double reach_of(const machine *m) {
    return m->errors->reaches[m->errors->reach];
}

WIDE_VECTORS void errors_between(const machine *m, tl_operation operation, errors_results a,
                                 errors_results b, int width, double *out) {
    bool is_power = operation == TL_EXP || operation == TL_EXP2;
    bool is_reciprocal = operation == TL_RECIPROCAL, is_quotient = operation == TL_DIVIDE;
    double reach = reach_of(m);
    for (int i = 0; i < width; i++) {
        double x = a.results[i], y = b.results[i];
        bool is_one_beyond = is_power & ((fabs(x) > F32_MOST) != (fabs(y) > F32_MOST));
        bool is_turned = (copysign(1, x) != copysign(1, y)) & (x != 0) & (y != 0);
        bool is_kept = copysign(1, a.firsts[i]) == copysign(1, b.firsts[i]);
        /* a quotient's divisor passed 0 on the way */
        bool passes_pole = is_turned & (is_reciprocal | (is_quotient & is_kept));
        bool is_same = (x == y) | ((x != x) & (y != y));
        double off = is_same ? 0 : fabs(y - x) / reach;
        off = is_one_beyond | (m->errors->chooses & (fabs(y) == ANYTHING)) ? (double)NAN : off;
        out[i] = passes_pole ? (double)NAN : off;
    }
}

double errors_of_weight(const machine *m) {
    if (m->multiplies_bytes) return m->errors->of_byte;
    return 2 * OF_STEP * (m->errors->operand == CONVERT_BF16 ? 0x1p-8 : 0x1p-11);
}

void errors_steps(const machine *m, const double *values, int64_t count, double *out) {
    for (int64_t i = 0; i < count && m->multiplies_bytes; i++)
        out[i] = m->errors->of_byte / OF_STEP * fabs(values[i]);
    if (!m->multiplies_bytes) convert_steps(m->errors->operand, values, (size_t)count, out);
}

double errors_of_least(const machine *m) {
    if (m->multiplies_bytes) return LEAST_BYTE;
    return m->errors->operand == CONVERT_BF16 ? 0x1p-126 : 0x1p-25;
}

void errors_round(const machine *m, double *values, int64_t count) {
    convert_round_all(m->errors->operand, values, (size_t)count);
}

void errors_of_rounding(const machine *m, const double *values, int64_t count, double *out) {
    enum { CHUNK = 64 };
    double steps[CHUNK], kept[CHUNK];
    convert_format format = m->errors->operand;
    for (int64_t first = 0; first < count; first += CHUNK) {
        const double *x = values + first;
        int length = count - first < CHUNK ? (int)(count - first) : CHUNK;
        convert_steps(format, x, (size_t)length, steps);
        memcpy(kept, x, (size_t)length * sizeof *kept);
        convert_round_all(format, kept, (size_t)length);
        for (int i = 0; i < length; i++) {
            double off = isfinite(kept[i]) ? OF_STEP * steps[i] : (double)INFINITY;
            if (m->multiplies_bytes) off = m->errors->of_byte * fabs(x[i]);
            out[first + i] = isfinite(x[i]) ? off : 0;
        }
    }
}

/* --- rows of elements ------------------------------------------------------------------------- */

/* The larger of two is flat on one side of a bend, which an operand may lie past by more than one
 * of its errors, and a right kernel before it. What is neither linear nor such a choice curves: an
 * operand several errors away may change the result by far more than so many times what one does.
 * A list of reaches ends in 0.
 */
static const double *reaches_of(tl_operation operation) {
    static const double straight[] = {1, 0}, curved[] = {1, 6, 0}, far[] = {FAR, 0};
    const tl_operation_facts *f = tl_facts(operation);
    if (f->chooses) return far;
    return f->linear && operation != TL_DIVIDE ? straight : curved;
}

void errors_begin(machine *m, tl_operation operation, double *open) {
    m->errors->open = open;
    m->errors->count = m->errors->next = 0;
    m->errors->on = NULL;
    m->errors->is_all = false;
    m->errors->reaches = reaches_of(operation);
    m->errors->reach = 0;
    m->errors->turns = operation == TL_SIN;
    m->errors->chooses = tl_facts(operation)->chooses;
    m->errors->rounded = 0;
}

void errors_begin_expressions(machine *m) {
    m->errors->operations = 0;
}

bool errors_next_rounding(machine *m) {
    struct errors *e = m->errors;
    e->rounded = e->rounded < e->operations ? e->rounded + 1 : 0;
    return e->rounded > 0;
}

bool errors_rounds(machine *m) {
    return ++m->errors->operations == m->errors->rounded;
}

WIDE_VECTORS void errors_off_by_rounding(const double *values, int width, double *out) {
    for (int i = 0; i < width; i++) out[i] = values[i] * (1 + ROUNDED);
}

bool errors_next(machine *m) {
    struct errors *e = m->errors;
    if (e->on && e->reaches[++e->reach] > 0) return true;
    e->reach = 0;
    if (e->on && e->sign > 0) {
        e->sign = -1;
        return true;
    }
    e->sign = 1;
    e->on = e->next < e->count ? e->tiles[e->next++] : NULL;
    return e->on != NULL;
}

bool errors_are_up(const machine *m) {
    return m->errors->sign > 0 && m->errors->reach == 0;
}

bool errors_are_last(const machine *m) {
    return !(m->errors->reaches[m->errors->reach + 1] > 0);
}

const tile *errors_off(const machine *m) {
    return m->errors->on;
}

void errors_begin_common(machine *m, const tile *target) {
    m->errors->variance = 0;
    memset(m->errors->turned, 0, sizeof m->errors->turned);
    for (int a = 0; a < target->axis_count; a++) m->errors->common[a] = 0;
}

static void add_turned(struct errors *e, int axis, const tile *from, int from_axis,
                       double variance) {
    struct with_signs *of = e->turned[axis];
    int i = 0;
    while (i < TILES_MOST && of[i].from && of[i].from != from) i++;
    if (of[i].from && of[i].from != from) return;
    of[i].from = from, of[i].axis = from_axis;
    of[i].common += from->turned[from_axis] * variance;
}

/* A tile without an axis is off by the same all along it. */
void errors_add_common(machine *m, const tile *target, const tile *from, double variance) {
    if (!isfinite(variance)) return;
    m->errors->variance += variance;
    for (int a = 0; a < target->axis_count && from; a++) {
        double alike = 1;
        for (int k = 0; k < from->axis_count; k++) {
            if (!str_equal(from->index[k], target->index[a])) continue;
            alike = from->alike[k];
            if (from->turned[k] > 0 && from->count[k] == target->count[a])
                add_turned(m->errors, a, from, k, variance);
        }
        m->errors->common[a] += alike * variance;
    }
}

/* Of tiles that have signs, those of the one that errs most are kept. */
void errors_end_common(machine *m, tile *target) {
    const struct errors *e = m->errors;
    for (int a = 0; a < target->axis_count; a++) {
        const struct with_signs *best = e->turned[a];
        for (int i = 1; i <= TILES_MOST; i++)
            if (e->turned[a][i].common > best->common) best = &e->turned[a][i];
        double share = e->variance > 0 ? fmin(1, best->common / e->variance) : 0;
        target->alike[a] = e->variance > 0 ? fmin(1, e->common[a] / e->variance) : 0;
        errors_keep_signs(m, target, a, share > 0 ? best->from->signs[best->axis] : NULL, share);
    }
}

bool errors_all(machine *m, tl_operation operation) {
    struct errors *e = m->errors;
    e->is_all = operation == TL_MULTIPLY && e->count > 1;
    e->sign = 1;
    e->reach = 0;
    return e->is_all;
}

/* What has overflown did so to its own side. Where an angle may be anywhere on the circle, two
 * places tell nothing of what is between them.
 */
WIDE_VECTORS void errors_apart(const machine *m, const double *values, const double *errors,
                               int64_t step, int width, double *out) {
    static const double ANYWHERE = 1;
    double reach = m->errors->sign * reach_of(m);
    bool turns = m->errors->turns, chooses = m->errors->chooses;
    double anything = m->errors->sign * ANYTHING, *open = m->errors->open;
    for (int64_t i = 0; i < width; i++) {
        double value = values[i * step], error = errors[i * step];
        double off = isinf(error) ? copysign(error, value) : reach * error;
        bool is_anywhere = turns & !(error < ANYWHERE);
        double moved = is_anywhere ? (double)NAN : value + off;
        bool is_open = chooses & (error != error);
        out[i] = is_open ? anything : moved;
        open[i] = error <= DBL_MAX ? open[i] : open[i] + error;
    }
}

bool errors_are_on(machine *m, const tile *t) {
    struct errors *e = m->errors;
    if (e->is_all) return true;
    if (e->on) return e->on == t;
    for (int i = 0; i < e->count; i++) {
        if (e->tiles[i] == t) return false;
    }
    if (e->count < TILES_MOST) e->tiles[e->count++] = t;
    return false;
}

/* --- reductions ------------------------------------------------------------------------------- */

/* Which is the largest is open where another one is as large but for errors. */
static bool is_tied(const double *from, const double *errors, int64_t step, int64_t count) {
    static const double APART = 8;
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (from[i * step] > from[best * step]) best = i;
    for (int64_t i = 0; i < count; i++) {
        double apart = from[best * step] - from[i * step];
        if (i != best && !(apart > APART * (errors[best * step] + errors[i * step]))) return true;
    }
    return false;
}

/* Not so what is masked: it is infinite, and errs by nothing. */
static bool is_known_or_open(double value, double error) {
    return isfinite(value) || !isfinite(error);
}

/* What lies below the largest for certain is not seen: a start of -1e30 errs by 3e22. 'sign': 1, or
 * -1 for the smallest.
 */
static double off_of_extreme(const double *from, const double *errors, int64_t step, int64_t count,
                             double sign, double before, double before_off) {
    double least = sign * before - before_off, most = 0; /* the largest is not below 'least' */
    for (int64_t k = 0; k < count; k++)
        if (sign * from[k * step] - errors[k * step] > least)
            least = sign * from[k * step] - errors[k * step];
    if (isfinite(before) && !(sign * before + before_off < least)) most = before_off;
    for (int64_t k = 0; k < count && !isnan(most); k++) { /* one that may be anything decides */
        double off = errors[k * step];
        bool is_seen = is_known_or_open(from[k * step], off);
        if (is_seen && !(sign * from[k * step] + off < least) && !(off <= most)) most = off;
    }
    return most;
}

/* What the elements of a row err by may come of one scalar, as scores' errors do: it adds up.
 * 'before' is what the target held, where the reduction accumulates. */
void errors_of_reduction(machine *m, tl_operation operation, tile *target, const tile *from,
                         bool is_turned, const double *before) {
    bool accumulates = before != NULL;
    int64_t count = is_turned ? from->count[0] : from->count[1];
    int64_t step = is_turned ? from->count[1] : 1, line = is_turned ? 1 : from->count[1];
    double *errors = tile_errors(m, target), neutral = tl_neutral(operation);
    bool is_sum = tl_reduces_by_sum(operation), is_place = tl_facts(operation)->gives_place;
    int kept = is_turned ? 1 : 0;
    target->alike[0] = from->alike[kept];
    errors_keep_signs(m, target, 0, from->turned[kept] > 0 ? from->signs[kept] : NULL,
                      from->turned[kept]);
    for (int64_t i = 0; i < tile_size(target); i++) {
        const double *x = from->data + i * line, *off = tile_errors(m, from) + i * line;
        double sum = 0, old = accumulates ? errors[i] : 0;
        for (int64_t k = 0; is_sum && k < count; k++)
            if (is_known_or_open(x[k * step], off[k * step]))
                sum += off[k * step] + ROUNDED * fabs(x[k * step]);
        if (is_sum) errors[i] = sum + old;
        else if (is_place) errors[i] = is_tied(x, off, step, count) ? (double)INFINITY : 0;
        else
            errors[i] = off_of_extreme(x, off, step, count, neutral < 0 ? 1 : -1,
                                       before ? before[i] : neutral, old);
    }
}
