/* Copies and arithmetic on whole tiles, or on the share of one executor. */
#include "base/product.h"
#include "base/wide.h"
#include "interpret/machine.h"

#include <math.h>
#include <string.h>

/* --- shapes ----------------------------------------------------------------------------------- */

int64_t tile_size(const tile *t) {
    return t->count[0] * t->count[1];
}

void tile_shape(machine *m, tile *t, int axis_count, const int64_t *count, const str *index) {
    t->axis_count = axis_count;
    t->count[0] = t->count[1] = 1;
    for (int i = 0; i < axis_count; i++) {
        t->count[i] = count[i] > 0 ? count[i] : 0;
        t->index[i] = index[i];
    }
    bool is_too_large =
        t->count[0] > MACHINE_TILE_ELEMENTS || t->count[1] > MACHINE_TILE_ELEMENTS ||
        tile_size(t) > MACHINE_TILE_ELEMENTS || t->count[axis_count - 1] > MACHINE_LANES_MAX;
    if (is_too_large) {
        machine_stop(
            m, DIAG_INTERPRET_TILE_TOO_LARGE, (diag_range){0},
            str_format(m->memory, "%lld x %lld", (long long)t->count[0], (long long)t->count[1]));
        t->count[0] = t->count[1] = 0;
    }
    if (tile_size(t) > t->capacity || !t->data) {
        t->capacity = tile_size(t);
        t->data = machine_block(m, tile_parts(m) * (size_t)t->capacity, sizeof *t->data);
    }
    t->is_narrow = false;
    t->product = 0;
    memset(t->alike, 0, sizeof t->alike);
    memset(t->turned, 0, sizeof t->turned);
    if (m->has_errors) {
        memset(tile_errors(m, t), 0, (size_t)tile_size(t) * sizeof *t->data);
        memset(tile_drift(m, t), 0, (size_t)tile_size(t) * sizeof *t->data);
        memset(tile_counted(m, t), 0, (size_t)tile_size(t) * sizeof *t->data);
        memset(tile_together(m, t), 0, (size_t)tile_size(t) * sizeof *t->data);
    }
    t->share = tile_whole(t);
    machine_reserve(m, t->count[axis_count - 1]);
}

tile_share tile_whole(const tile *t) {
    return (tile_share){.end = {t->count[0], t->count[1]}};
}

/* A share as rows of lanes: a vector is one row, its lanes run along its only axis. */
typedef struct row_range {
    int64_t first_row, end_row, first_lane;
    int width;
    int64_t stride; /* from row to row */
} row_range;

static row_range rows_of(const tile *t, const tile_share *share) {
    int lane_axis = t->axis_count - 1;
    row_range r = {.first_lane = share->first[lane_axis],
                   .width = (int)(share->end[lane_axis] - share->first[lane_axis]),
                   .end_row = 1};
    if (t->axis_count == 2) {
        r.first_row = share->first[0];
        r.end_row = share->end[0];
        r.stride = t->count[1];
    }
    if (r.width <= 0) r.end_row = r.first_row;
    return r;
}

/* Long rows part by part, so that a statement's intermediate rows stay in the cache. */
static row_range part_from(const row_range *all, int64_t lane) {
    enum { LANES = 512 };
    row_range part = *all;
    int64_t left = all->first_lane + all->width - lane;
    part.first_lane = lane;
    part.width = (int)(left < LANES ? left : LANES);
    return part;
}

static row_range first_part(const row_range *all) {
    return part_from(all, all->first_lane);
}

static row_range next_part(const row_range *all, const row_range *part) {
    return part_from(all, part->first_lane + part->width);
}

static double *row_at(const tile *t, const row_range *r, int64_t row) {
    return t->data + row * r->stride + r->first_lane;
}

void tile_round(machine *m, tile *t, const tile_share *share, convert_format format) {
    if (m->is_exact || format == CONVERT_F64) return;
    row_range r = rows_of(t, share);
    for (int64_t row = r.first_row; row < r.end_row; row++) {
        convert_round_all(format, row_at(t, &r, row), (size_t)r.width);
    }
}

/* --- global memory ---------------------------------------------------------------------------- */

static void place_lanes(const tile *t, const row_range *r, const tile_view *view, int64_t row,
                        lanes *at) {
    int lane_axis = t->axis_count - 1;
    for (int k = 0; k < view->tensor->axes->count; k++) {
        int axis = view->axis_of[k];
        if (axis < 0) {
            at[k] = (lanes){.kind = LANES_ONE, .value = (double)view->fixed[k]};
        } else if (axis == lane_axis) {
            at[k] = (lanes){.kind = LANES_RAMP, .value = (double)(t->start[axis] + r->first_lane)};
        } else {
            at[k] = (lanes){.kind = LANES_ONE, .value = (double)(t->start[axis] + row)};
        }
    }
}

bool tile_load(scope *s, tile *t, const tile_share *share, const tile_view *view,
               diag_range range) {
    row_range r = rows_of(t, share);
    lanes at[TL_AXES_MAX] = {0};
    machine *m = s->machine;
    bool has_errors = m->has_errors && memory_tensor(m, view->tensor)->memory.errors;
    if (!memory_check_fixed(s, view->tensor, view, t->start, range)) return false;
    if (m->has_errors) errors_of_load(m, t, view->tensor);
    for (int64_t row = r.first_row; row < r.end_row; row++) {
        int used = s->machine->scratch_used;
        place_lanes(t, &r, view, row, at);
        double *to = row_at(t, &r, row);
        if (!memory_read_clipped(s, view->tensor, at, r.width, NULL, to, range)) return false;
        if (has_errors &&
            !memory_read_errors(s, view->tensor, at, r.width, NULL, to + t->capacity, range))
            return false;
        m->scratch_used = used;
    }
    bool is_kept =
        !view->tensor->view && memory_tensor(m, view->tensor)->memory.format == t->format;
    if (!is_kept) tile_round(m, t, share, t->format);
    return true;
}

/* What a kernel passes on is stored with what it errs by. */
static bool store_errors(scope *s, const tile_view *view, const lanes *at, int width,
                         const double *from, const double *errors, bool accumulates,
                         const tl_statement *writer) {
    machine *m = s->machine;
    if (!m->has_errors || !memory_tensor(m, view->tensor)->memory.errors) return true;
    double *off = machine_vector(m);
    if (!off) return false;
    errors_of_store(m, view->tensor, from, errors, width, off);
    return memory_write_errors(s, view->tensor, at, width, off, accumulates, writer);
}

bool tile_store(scope *s, const tile *t, const tile_share *share, const tile_view *view,
                bool accumulates, const tl_statement *writer) {
    row_range r = rows_of(t, share);
    lanes at[TL_AXES_MAX] = {0};
    int64_t errors = errors_are_stored(s->machine, view->tensor) ? t->capacity : 0;
    if (!memory_check_fixed(s, view->tensor, view, t->start, writer->range)) return false;
    for (int64_t row = r.first_row; row < r.end_row; row++) {
        int used = s->machine->scratch_used;
        place_lanes(t, &r, view, row, at);
        const double *from = row_at(t, &r, row) + errors;
        if (!memory_write(s, view->tensor, at, r.width, from, accumulates, writer) ||
            !store_errors(s, view, at, r.width, from, from + t->capacity, accumulates, writer))
            return false;
        s->machine->scratch_used = used;
    }
    return true;
}

/* --- products --------------------------------------------------------------------------------- */

static product_matrix matrix_of(const tile *t, bool is_turned) {
    int64_t row = t->count[1];
    return is_turned ? (product_matrix){t->data, 1, row} : (product_matrix){t->data, row, 1};
}

bool tile_product(scope *s, tile *target, const tile_share *share, const tile *a, bool a_turned,
                  const tile *b, bool b_turned, bool accumulates) {
    machine *m = s->machine;
    int64_t rows = share->end[0] - share->first[0], columns = share->end[1] - share->first[1];
    int64_t inner = a_turned ? a->count[0] : a->count[1];
    if (rows <= 0 || columns <= 0) return true;
    double *to = target->data + share->first[0] * target->count[1] + share->first[1];
    for (int64_t i = 0; i < rows && !accumulates; i++) {
        memset(to + i * target->count[1], 0, (size_t)columns * sizeof *to);
    }
    product_matrix left = matrix_of(a, a_turned), right = matrix_of(b, b_turned);
    left.data += share->first[0] * left.row, right.data += share->first[1] * right.column;
    product_add(rows, inner, columns, left, right, to, target->count[1]);
    tile_round(m, target, share, target->format);
    if (m->has_errors) errors_of_product(m, s->at, target, a, a_turned, b, b_turned, accumulates);
    return true;
}

/* --- elementwise ------------------------------------------------------------------------------ */

static void bind_rows(scope *s, const tile *t, const row_range *r, int64_t row) {
    int lane_axis = t->axis_count - 1;
    if (t->has_start[lane_axis]) {
        scope_bind_axis(
            s, t->index[lane_axis],
            (lanes){.kind = LANES_RAMP, .value = (double)(t->start[lane_axis] + r->first_lane)});
    }
    if (lane_axis == 1 && t->has_start[0]) {
        scope_bind_axis(s, t->index[0],
                        (lanes){.kind = LANES_ONE, .value = (double)(t->start[0] + row)});
    }
}

static void unbind_rows(scope *s, const tile *t) {
    for (int i = 0; i < t->axis_count; i++) scope_unbind_axis(s, t->index[i]);
}

/* 'first': the first operand's items. */
static bool compute_row(scope *s, const tl_compute *c, const tile *target, const row_range *r,
                        int64_t row, double *result, const double **first) {
    machine *m = s->machine;
    const double *operands[TL_OPERANDS_MAX] = {NULL};
    bind_rows(s, target, r, row);
    if (m->has_errors) errors_begin_expressions(m);
    for (int i = 0; i < c->operand_count; i++) {
        lanes value;
        if (!scope_lanes_at(s, c->operands[i].value, target, row, r->first_lane, r->width,
                            &value)) {
            return false;
        }
        operands[i] = lanes_items(m, value, r->width);
        if (!operands[i]) return false;
    }
    *first = operands[0];
    for (int i = c->operand_count; i < TL_OPERANDS_MAX; i++) operands[i] = operands[0];
    const tl_operation_facts *f = tl_facts(c->operation);
    if (f->row) f->row(operands[0], operands[1], operands[2], r->width, result);
    return f->row != NULL;
}

/* Adds the worst of an operation's reaches, and what its squares add up to. */
static double add_worst(const double *most, int width, double *errors) {
    double sum = 0;
    for (int i = 0; i < width; i++) {
        errors[i] += most[i] * most[i] / 2;
        sum += most[i] * most[i] / 2;
    }
    return sum;
}

/* No error of an operand moves what is infinite, or NaN: where one is open, so is this. */
static void open_what_is_no_number(const double *result, const double *open, int width,
                                   double *errors) {
    for (int i = 0; i < width; i++) {
        if (isfinite(result[i]) || open[i] == 0 || isnan(errors[i])) continue;
        errors[i] = isnan(result[i]) ? (double)NAN : open[i];
    }
}

/* The same row again, with each f32 operation inside of its expressions off by what it is rounded
 * by: where their results cancel, that is not what the statement's own result is.
 */
static bool add_roundings(scope *s, const tl_compute *c, const tile *target, const row_range *r,
                          int64_t row, const double *result, double *again, double *errors) {
    machine *m = s->machine;
    double sum = 0;
    int used = m->scratch_used;
    while (errors_next_rounding(m)) {
        const double *unused;
        if (!compute_row(s, c, target, r, row, again, &unused)) return false;
        m->scratch_used = used;
        for (int i = 0; i < r->width; i++) {
            double off = again[i] - result[i], variance = isfinite(off) ? off * off : 0;
            errors[i] += variance, sum += variance;
        }
    }
    errors_add_common(m, target, NULL, sum);
    return true;
}

/* The same row again, with each tile that it reads off by its errors: up and down by the worst of
 * the operation's reaches.
 */
static bool errors_row(scope *s, const tl_compute *c, tile *target, const row_range *r, int64_t row,
                       const double *result, const double *first, const double *open,
                       bool accumulates) {
    machine *m = s->machine;
    double *errors = row_at(target, r, row) + target->capacity, *again = machine_vector(m);
    double *apart = machine_vector(m); /* what the first places of all tiles add up to */
    double *most = machine_vector(m);  /* of the reaches so far */
    double *off = machine_vector(m);
    if (!again || !apart || !most || !off) return false;
    memset(apart, 0, (size_t)r->width * sizeof *apart);
    memset(most, 0, (size_t)r->width * sizeof *most);
    double before = 0, own = 0; /* variances of the row */
    errors_own(c->operation, result, first, r->width, off);
    for (int i = 0; i < r->width; i++) {
        double old = accumulates ? errors[i] * errors[i] : 0;
        errors[i] = old + off[i] * off[i];
        before += old, own += off[i] * off[i];
    }
    if (accumulates)
        own += errors_of_adding(row_at(target, r, row), result, r->width, errors,
                                errors + target->capacity);
    errors_add_common(m, target, target, before);
    errors_add_common(m, target, NULL, own);
    if (!add_roundings(s, c, target, r, row, result, again, errors)) return false;
    int used = m->scratch_used;
    while (errors_next(m)) {
        const double *moved;
        if (!compute_row(s, c, target, r, row, again, &moved)) return false;
        m->scratch_used = used;
        errors_between(m, c->operation, (errors_results){result, first},
                       (errors_results){again, moved}, r->width, off);
        for (int i = 0; i < r->width; i++) most[i] = !(off[i] <= most[i]) ? off[i] : most[i];
        bool is_up = errors_are_up(m);
        for (int i = 0; i < r->width && is_up; i++) apart[i] += again[i] - result[i];
        if (!errors_are_last(m)) continue;
        errors_add_common(m, target, errors_off(m), add_worst(most, r->width, errors));
        memset(most, 0, (size_t)r->width * sizeof *most);
    }
    if (errors_all(m, c->operation)) { /* of two factors near 0 only what both are off by tells */
        const double *unused;
        if (!compute_row(s, c, target, r, row, again, &unused)) return false;
        m->scratch_used = used;
        for (int i = 0; i < r->width; i++) {
            double both = again[i] - result[i] - apart[i];
            errors[i] += isfinite(both) ? both * both : 0;
        }
    }
    for (int i = 0; i < r->width; i++) errors[i] = sqrt(errors[i]);
    open_what_is_no_number(result, open, r->width, errors);
    return true;
}

static bool elementwise_row(scope *s, const tl_compute *c, tile *target, const row_range *r,
                            int64_t row, bool accumulates) {
    machine *m = s->machine;
    const double *first;
    double *to = row_at(target, r, row), *result = accumulates ? machine_vector(m) : to;
    double *open = m->has_errors ? machine_vector(m) : NULL;
    if (m->has_errors && !open) return false;
    if (open) memset(open, 0, (size_t)r->width * sizeof *open);
    if (open) errors_begin(m, c->operation, open);
    if (!result || !compute_row(s, c, target, r, row, result, &first)) return false;
    if (open && !errors_row(s, c, target, r, row, result, first, open, accumulates)) return false;
    for (int i = 0; i < r->width && accumulates; i++) to[i] += result[i];
    return true;
}

bool tile_elementwise(scope *s, const tl_statement *at, tile *target, const tile_share *share,
                      bool accumulates) {
    row_range r = rows_of(target, share);
    s->at = at;
    bool is_done = true;
    bool has_errors = s->machine->has_errors;
    if (has_errors) errors_begin_common(s->machine, target);
    /* what rows with errors have in common is added up row by row */
    row_range part = has_errors ? r : first_part(&r);
    for (; part.width > 0 && is_done; part = next_part(&r, &part)) {
        for (int64_t row = r.first_row; row < r.end_row && is_done; row++) {
            int used = s->machine->scratch_used;
            is_done = elementwise_row(s, &at->compute, target, &part, row, accumulates);
            s->machine->scratch_used = used;
        }
    }
    unbind_rows(s, target);
    if (has_errors) errors_end_common(s->machine, target);
    if (is_done) tile_round(s->machine, target, share, target->format);
    return is_done;
}

static bool mask_row(scope *s, const tl_compute *c, tile *target, const row_range *r, int64_t row) {
    machine *m = s->machine;
    lanes holds, value = {.kind = LANES_ONE, .value = -INFINITY};
    bind_rows(s, target, r, row);
    if (!scope_lanes_at(s, c->condition, target, row, r->first_lane, r->width, &holds))
        return false;
    if (c->operand_count > 1 &&
        !scope_lanes_at(s, c->operands[1].value, target, row, r->first_lane, r->width, &value)) {
        return false;
    }
    if (holds.kind == LANES_ONE && holds.value == 0) return true;
    const double *condition = lanes_items(m, holds, r->width);
    const double *masked = lanes_items(m, value, r->width);
    if (!condition || !masked) return false;
    double *to = row_at(target, r, row), *errors = m->has_errors ? to + target->capacity : NULL;
    for (int i = 0; i < r->width; i++) to[i] = condition[i] != 0 ? masked[i] : to[i];
    double *drift = errors ? errors + target->capacity : NULL;
    double *counted = drift ? drift + target->capacity : NULL;
    double *together = counted ? counted + target->capacity : NULL;
    for (int i = 0; i < r->width && errors; i++)
        if (condition[i] != 0) errors[i] = drift[i] = counted[i] = together[i] = 0;
    return true;
}

bool tile_mask(scope *s, const tl_statement *at, tile *target, const tile_share *share) {
    row_range r = rows_of(target, share);
    s->at = at;
    bool is_done = true;
    for (row_range part = first_part(&r); part.width > 0 && is_done; part = next_part(&r, &part)) {
        for (int64_t row = r.first_row; row < r.end_row && is_done; row++) {
            int used = s->machine->scratch_used;
            is_done = mask_row(s, &at->compute, target, &part, row);
            s->machine->scratch_used = used;
        }
    }
    unbind_rows(s, target);
    if (is_done) tile_round(s->machine, target, share, target->format);
    return is_done;
}

/* --- reductions ------------------------------------------------------------------------------- */

static double reduce_line(tl_operation operation, const double *from, int64_t step, int64_t count) {
    double result = tl_neutral(operation);
    int64_t best = 0;
    bool rises = result < 0; /* the largest is looked for */
    if (tl_reduces_by_sum(operation)) {
        for (int64_t i = 0; i < count; i++) result += from[i * step];
        return result;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = from[i * step];
        if (rises ? x > result : x < result) {
            result = x;
            best = i;
        }
    }
    return tl_facts(operation)->gives_place ? (double)best : result;
}

bool tile_reduce(scope *s, tl_operation operation, tile *target, const tile_share *share,
                 const tile *from, bool is_turned, bool accumulates) {
    int64_t count = is_turned ? from->count[0] : from->count[1];
    int64_t step = is_turned ? from->count[1] : 1, line = is_turned ? 1 : from->count[1];
    if (s->machine->has_errors)
        errors_of_reduction(s->machine, operation, target, from, is_turned,
                            accumulates ? target->data : NULL);
    for (int64_t i = share->first[0]; i < share->end[0]; i++) {
        double value = reduce_line(operation, from->data + i * line, step, count);
        /* The index counts along the whole axis, not in this tile. */
        int axis = is_turned ? 0 : 1;
        if (tl_facts(operation)->gives_place && from->has_start[axis])
            value += (double)from->start[axis];
        if (accumulates) value = tl_facts(tl_combining(operation))->of(target->data[i], value, 0);
        target->data[i] = value;
    }
    tile_round(s->machine, target, share, target->format);
    return true;
}
