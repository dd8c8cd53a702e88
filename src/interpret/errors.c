/* How far a right kernel's results may be from the exact ones: standard deviations of errors,
 * element by element beside the tiles, as a sketch is computed. They come from f32 arithmetic, from
 * what products round their operands to, and from the sizes of terms rather than of sums: where
 * large terms cancel, errors stay. An infinite error says that a result may be infinite, NaN that
 * it may be anything, and so may what is made of it. Errors of different elements count as
 * independent.
 */
#include "interpret/machine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TILES_MOST = 6, ROOMS = 3 };

enum { STEP = 8 }; /* terms that a product adds at a time, at least */
/* Of products of 8 bits: a sum is cut so far below its largest term; how many terms at most are
 * summed so; a weight is between the type's steps, and is 2^8 where it is largest.
 */
static const double CUT = 0x1p-13, OF_E4M3 = 0.026, OF_E5M2 = 0.052, LEAST_BYTE = 0x1p-18;
enum { CUT_TERMS = 256, CUT_GROUP = 16 };
static const double ROUNDED = 0x1p-24; /* half a step of f32, relative */
static const double F32_MOST = 0x1.fffffep127, F32_LEAST = 0x1p-126;
/* A uniform error's standard deviation, in steps. */
static const double OF_STEP = 0.29;

struct errors {
    convert_format operand;        /* what products take */
    double of_byte;                /* of 8 bits: relative */
    const tile *tiles[TILES_MOST]; /* that the row reads */
    int count, next;
    const tile *on; /* the one that is off by its errors */
    bool is_all;    /* all of them are */
    double sign;    /* up, then down */
    double reach;   /* by how many of its errors */
    bool turns;     /* the operation repeats itself along its operand */
    double *rooms[ROOMS];
    int64_t room_counts[ROOMS];
};

double *tile_errors(const machine *m, const tile *t) {
    return m->has_errors ? t->data + t->capacity : NULL;
}

void tile_copy_errors(const machine *m, tile *to, const tile *from) {
    if (!m->has_errors) return;
    memcpy(tile_errors(m, to), tile_errors(m, from), (size_t)tile_size(from) * sizeof *to->data);
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

static double *room(machine *m, int which, int64_t count) {
    struct errors *e = m->errors;
    if (count > e->room_counts[which]) {
        e->room_counts[which] = count;
        e->rooms[which] = machine_block(m, (size_t)count, sizeof(double));
    }
    return e->rooms[which];
}

/* --- memory ----------------------------------------------------------------------------------- */

static bool is_narrow(convert_format format) {
    return convert_bytes(format) <= 2;
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
        bool is_beyond = isfinite(values[i]) && !isfinite(convert_round(format, values[i]));
        out[i] = is_beyond ? (double)INFINITY : errors[i];
        if (isfinite(values[i]) && isfinite(out[i])) out[i] = sqrt(out[i] * out[i] + step * step);
    }
}

/* --- one element ------------------------------------------------------------------------------ */

double errors_between(double result, double other) {
    bool is_same = result == other || (isnan(result) && isnan(other));
    return is_same ? 0 : fabs(other - result);
}

double errors_of_weight(const machine *m) {
    if (m->multiplies_bytes) return m->errors->of_byte;
    return 2 * OF_STEP * (m->errors->operand == CONVERT_BF16 ? 0x1p-8 : 0x1p-11);
}

double errors_of_least(const machine *m) {
    if (m->multiplies_bytes) return LEAST_BYTE;
    return m->errors->operand == CONVERT_BF16 ? 0x1p-126 : 0x1p-25;
}

/* What an operand errs by once it is rounded to what products take. */
static double rounded(const machine *m, double value) {
    if (!isfinite(value)) return 0;
    if (m->multiplies_bytes) return m->errors->of_byte * fabs(value);
    double kept = convert_round(m->errors->operand, value);
    return isfinite(kept) ? OF_STEP * convert_step(m->errors->operand, value) : (double)INFINITY;
}

double errors_own(tl_operation operation, double result, double operand) {
    double size = fabs(result);
    bool is_power = operation == TL_EXP || operation == TL_EXP2;
    bool has_overflown =
        is_power && isinf(result) && isfinite(operand); /* and others, too, by f32 */
    if (has_overflown || (isfinite(result) && size > F32_MOST)) return (double)INFINITY;
    if (!isfinite(result)) return 0;
    if (isinf(operand) && result == 0) return 0; /* the power of what is masked: not 0 times inf */
    return tl_facts(operation)->error(size, fabs(operand)) +
           (result != 0 && size < F32_LEAST ? F32_LEAST : 0);
}

/* --- rows of elements ------------------------------------------------------------------------- */

/* The larger of two is flat on one side of a bend, which an operand may lie past by more than one
 * of its errors, and a right kernel before it. All other operations are smooth, or steep on both
 * sides.
 */
double errors_reach(tl_operation operation) {
    static const double FAR = 16;
    return operation == TL_MAX || operation == TL_MIN ? FAR : 1;
}

void errors_begin(machine *m, tl_operation operation) {
    m->errors->count = m->errors->next = 0;
    m->errors->on = NULL;
    m->errors->is_all = false;
    m->errors->reach = errors_reach(operation);
    m->errors->turns = operation == TL_SIN;
}

bool errors_next(machine *m) {
    struct errors *e = m->errors;
    if (e->on && e->sign > 0) {
        e->sign = -1;
        return true;
    }
    e->sign = 1;
    e->on = e->next < e->count ? e->tiles[e->next++] : NULL;
    return e->on != NULL;
}

bool errors_are_up(const machine *m) {
    return m->errors->sign > 0;
}

bool errors_all(machine *m, tl_operation operation) {
    struct errors *e = m->errors;
    e->is_all = operation == TL_MULTIPLY && e->count > 1;
    e->sign = 1;
    return e->is_all;
}

/* What has overflown did so to its own side. Where an angle may be anywhere on the circle, two
 * places tell nothing of what is between them.
 */
double errors_apart(const machine *m, double value, double error) {
    static const double ANYWHERE = 1;
    if (m->errors->turns && !(error < ANYWHERE)) return (double)NAN;
    return value +
           (isinf(error) ? copysign(error, value) : m->errors->sign * m->errors->reach * error);
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

/* --- products --------------------------------------------------------------------------------- */

typedef struct operand {
    const tile *t;
    const double *errors;
    int64_t rows, columns, row_step, step; /* as it is in the product */
} operand;

static operand operand_of(const machine *m, const tile *t, bool is_turned) {
    operand o = {t, tile_errors(m, t), t->count[0], t->count[1], t->count[1], 1};
    if (is_turned) o = (operand){t, o.errors, o.columns, o.rows, 1, t->count[1]};
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
    double *to = room(m, which, o->rows * o->columns);
    for (int64_t i = 0; i < o->rows; i++) {
        for (int64_t k = 0; k < o->columns; k++) {
            double x = o->t->data[i * o->row_step + k * o->step];
            to[i * o->columns + k] = x * x;
        }
    }
    return to;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Where 'value' would be in what is sorted, before its equals or after them. */
static int64_t place_of(const double *sorted, int64_t count, double value, bool is_after) {
    int64_t low = 0, high = count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        bool is_before = is_after ? sorted[middle] <= value : sorted[middle] < value;
        if (is_before) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* Squares of an operand's errors, row by row. What a sum contracts runs along its rows or, of the
 * right operand, its columns: equal elements of it are rounded alike, so their errors do not
 * average out (keys that a table repeats).
 */
static double *squares_of_errors(machine *m, int which, const operand *o, bool is_left) {
    double *to = room(m, which, o->rows * o->columns);
    int64_t lines = is_left ? o->rows : o->columns, count = is_left ? o->columns : o->rows;
    int64_t line = is_left ? o->row_step : o->step, step = is_left ? o->step : o->row_step;
    double *sorted = room(m, 2, count);
    for (int64_t i = 0; i < lines; i++) {
        const double *x = o->t->data + i * line, *e = o->errors + i * line;
        for (int64_t k = 0; k < count; k++) sorted[k] = x[k * step];
        if (!o->t->is_narrow) qsort(sorted, (size_t)count, sizeof *sorted, by_value);
        for (int64_t k = 0; k < count; k++) {
            double value = x[k * step], square = e[k * step] * e[k * step];
            if (!o->t->is_narrow && value != 0) {
                int64_t equal =
                    place_of(sorted, count, value, true) - place_of(sorted, count, value, false);
                square += rounded(m, value) * rounded(m, value) * (double)equal;
            }
            to[is_left ? i * o->columns + k : k * o->columns + i] = square;
        }
    }
    return to;
}

static void add_products(const operand *a, const operand *b, const double *x, const double *y,
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
    for (int64_t i = 0; i < count; i++) errors[i] = accumulates ? errors[i] * errors[i] : 0;
    if (!is_exact(&left)) {
        add_products(&left, &right, squares_of_errors(m, 0, &left, true), squares(m, 1, &right),
                     errors);
    }
    if (!is_exact(&right)) {
        add_products(&left, &right, squares(m, 0, &left), squares_of_errors(m, 1, &right, false),
                     errors);
    }
    double *sizes = room(m, 0, columns);
    double *tops = room(m, 1, columns);
    for (int64_t j = 0; j < columns; j++) sizes[j] = norm(&right, false, j);
    for (int64_t j = 0; j < columns && m->multiplies_bytes; j++)
        tops[j] = largest(&right, false, j);
    for (int64_t i = 0; i < left.rows; i++) {
        double size = norm(&left, true, i);
        double top = m->multiplies_bytes ? largest(&left, true, i) : 0;
        for (int64_t j = 0; j < columns; j++) {
            double value = target->data[i * columns + j], *e = &errors[i * columns + j];
            double sum = 2 * ROUNDED * size * sizes[j], own = errors_own(TL_CAST, value, 0);
            /* what is cut off at each step, rather than rounded, adds up where terms have one sign
             */
            if (isfinite(own)) own += ROUNDED * fabs(value) * (4 + (double)left.columns / STEP);
            double cut = m->multiplies_bytes ? cut_off(left.columns, top * tops[j], value) : 0;
            *e = sqrt(*e + sum * sum + own * own + cut * cut);
            if (!isfinite(*e)) *e = (double)NAN; /* infinities of both signs may have met */
        }
    }
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
