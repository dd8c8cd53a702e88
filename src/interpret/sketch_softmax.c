/* Softmax in a sketch: over the whole axis that a loop walks, by going through the loop twice. */
#include "interpret/sketch.h"

#include <math.h>
#include <string.h>

static bool is_multiplied(const machine *m, const tl_symbol *weights) {
    for (int i = 0; i < m->statement_count; i++) {
        const tl_statement *s = m->statements[i];
        bool is_product =
            s->kind == TL_COMPUTE && tl_operation_shape(s->compute.operation) == TL_SHAPE_PRODUCT;
        for (int k = 0; is_product && k < s->compute.operand_count; k++)
            if (s->compute.operands[k].value->symbol == weights) return true;
    }
    return false;
}

void sketch_find_softmaxes(sketch *k) {
    machine *m = k->m;
    int count = 0;
    for (int i = 0; i < m->statement_count; i++) {
        const tl_statement *s = m->statements[i];
        count += s->kind == TL_COMPUTE && s->compute.operation == TL_SOFTMAX;
    }
    k->softmaxes = arena_array(m->memory, sketch_softmax, count + 1);
    for (int i = 0; i < m->statement_count; i++) {
        const tl_statement *s = m->statements[i];
        if (s->kind != TL_COMPUTE || s->compute.operation != TL_SOFTMAX) continue;
        sketch_softmax *softmax = &k->softmaxes[k->softmax_count++];
        softmax->statement = s;
        softmax->is_multiplied = is_multiplied(m, s->compute.operands[0].value->symbol);
        tl_softmax_axis(m->kernel, s, &softmax->loop, &softmax->axis);
    }
}

static sketch_softmax *softmax_of(sketch *k, const tl_statement *s) {
    for (int i = 0; i < k->softmax_count; i++) {
        if (k->softmaxes[i].statement == s) return &k->softmaxes[i];
    }
    return NULL;
}

/* A tile as lines along the normalised axis: 'rows' lines of 'count' elements. */
typedef struct lines {
    double *data;
    const machine *m;
    const tile *of;
    int64_t rows, row_step, count, step, start;
} lines;

static lines lines_of(const machine *m, const sketch_softmax *softmax, const tile *t) {
    lines l = {.data = t->data, .m = m, .of = t, .count = 1, .step = 1};
    int axis = softmax->axis;
    int64_t columns = t->axis_count == 2 ? t->count[1] : 1;
    if (axis < 0) {
        l.rows = tile_size(t);
        l.row_step = 1;
        l.start = t->start[0];
    } else if (t->axis_count == 1) {
        l.rows = 1;
        l.count = t->count[0];
    } else {
        int kept = 1 - axis;
        l.rows = t->count[kept];
        l.row_step = kept == 0 ? columns : 1;
        l.count = t->count[axis];
        l.step = axis == 0 ? columns : 1;
        l.start = t->start[kept];
    }
    return l;
}

static double value_before(const tile *t, int64_t row, double otherwise) {
    return t->is_defined && row < tile_size(t) ? t->data[row] : otherwise;
}

static sketch_rows *rows_at(sketch *k, sketch_softmax *softmax, const lines *l) {
    for (int i = 0; i < softmax->rows.count; i++) {
        sketch_rows *rows = &softmax->rows.items[i];
        if (rows->start == l->start && rows->count == l->rows) return rows;
    }
    sketch_rows rows = {.start = l->start, .count = l->rows};
    rows.maximum = machine_block(k->m, (size_t)l->rows, sizeof(double));
    rows.sum = machine_block(k->m, (size_t)l->rows, sizeof(double));
    rows.off = machine_block(k->m, (size_t)l->rows, sizeof(double));
    rows.squares = machine_block(k->m, (size_t)l->rows, sizeof(double));
    for (int64_t i = 0; i < l->rows; i++) {
        rows.maximum[i] = value_before(&softmax->first_maximum, i, -INFINITY);
        rows.sum[i] = value_before(&softmax->first_sum, i, 0);
    }
    list_push(k->m->memory, &softmax->rows, rows);
    return &softmax->rows.items[softmax->rows.count - 1];
}

/* Relative; of a score that is anything, a weight is anything. */
static double weight_off(const double *errors, int64_t i) {
    static const double OFF_MOST = 50;
    return errors[i] < OFF_MOST ? expm1(errors[i]) : (double)INFINITY;
}

static void gather_errors(const lines *l, sketch_rows *rows, int64_t r, double moved, double most) {
    const double *errors = tile_errors(l->m, l->of);
    if (!errors) return;
    rows->off[r] *= moved, rows->squares[r] *= moved * moved;
    for (int64_t i = 0; i < l->count; i++) {
        int64_t at = r * l->row_step + i * l->step;
        double weight = exp(l->data[at] - most);
        if (errors[at] != 0) rows->off[r] += weight > 0 ? weight * weight_off(errors, at) : 0;
        rows->squares[r] += weight * weight;
    }
}

/* What becomes 0: where the maximum that a softmax begins with is far above all scores, all weights
 * may.
 */
static double least_weight(const machine *m, const sketch_softmax *softmax) {
    return softmax->is_multiplied ? errors_of_least(m) : 0x1p-126;
}

/* Relative, of the sum of a row's weights. Those that are multiplied may be summed as they are
 * rounded for that.
 */
static double sum_off(const machine *m, const sketch_softmax *softmax, const sketch_rows *rows,
                      int64_t r) {
    if (rows->sum[r] == 0) return 0;
    double rounding = softmax->is_multiplied ? errors_of_weight(m) * sqrt(rows->squares[r]) : 0;
    return (rows->off[r] + rounding + least_weight(m, softmax)) / rows->sum[r] + 0x1p-22;
}

/* The maximum is taken off in units of log2, rounded once: weights of a row are off alike, but for
 * those of blocks that had another maximum.
 */
static double shift_off(const sketch_rows *rows, int64_t r) {
    return isfinite(rows->maximum[r]) ? 0x1p-24 * fabs(rows->maximum[r]) : 0;
}

/* M and L include the lines of this block. */
static void gather(const lines *l, sketch_rows *rows) {
    for (int64_t r = 0; r < l->rows; r++) {
        const double *line = l->data + r * l->row_step;
        double most = rows->maximum[r];
        for (int64_t i = 0; i < l->count; i++) {
            double x = line[i * l->step];
            if (x > most || isnan(x)) most = x;
        }
        if (most == -INFINITY) continue; /* nothing seen so far: the sum stays */
        double moved = rows->sum[r] == 0 ? 0 : exp(rows->maximum[r] - most);
        double sum = rows->sum[r] * moved;
        for (int64_t i = 0; i < l->count; i++) sum += exp(line[i * l->step] - most);
        gather_errors(l, rows, r, moved, most);
        rows->maximum[r] = most;
        rows->sum[r] = sum;
    }
}

static void normalise(const lines *l, const sketch_softmax *softmax, const sketch_rows *rows) {
    double *errors = tile_errors(l->m, l->of);
    for (int64_t r = 0; r < l->rows; r++) {
        double *line = l->data + r * l->row_step,
               off = errors ? sum_off(l->m, softmax, rows, r) + shift_off(rows, r) : 0;
        for (int64_t i = 0; i < l->count; i++) {
            double *x = &line[i * l->step];
            *x = rows->sum[r] == 0 ? 0 : exp(*x - rows->maximum[r]) / rows->sum[r];
            int64_t at = r * l->row_step + i * l->step;
            if (!errors) continue;
            double own = weight_off(errors, at) + off;
            double least = rows->sum[r] == 0 ? 0 : least_weight(l->m, softmax) / rows->sum[r];
            errors[at] = isfinite(own) ? *x * own + least : own;
        }
    }
}

/* What the scores of a line are all off by goes with its sum. */
static void forget_common(const sketch_softmax *softmax, tile *t) {
    int axis = t->axis_count == 1 ? 0 : softmax->axis;
    if (softmax->axis >= 0) t->alike[axis] = t->turned[axis] = 0;
}

static void remember_start(sketch *k, sketch_softmax *softmax) {
    const tl_compute *c = &softmax->statement->compute;
    softmax->rows.count = 0;
    softmax->first_maximum.is_defined = softmax->first_sum.is_defined = false;
    if (!c->maximum) return;
    softmax->first_maximum = k->tiles[c->maximum->symbol->position];
    softmax->first_sum = k->tiles[c->sum->symbol->position];
}

/* The names of maximum and sum get their values, in the shape their axes have. */
static bool name_result(sketch *k, sketch_softmax *softmax) {
    const tl_compute *c = &softmax->statement->compute;
    if (!c->maximum) return true;
    for (int which = 0; which < 2; which++) {
        const tl_expr *name = which ? c->sum : c->maximum;
        tile *t = &k->tiles[name->symbol->position];
        tile fresh = {.format = CONVERT_F64, .writer = softmax->statement, .is_defined = true};
        if (!sketch_shape(k, &fresh, tl_tile_of(name), name->range)) return false;
        double empty = which ? 0 : -INFINITY;
        const tile *first = which ? &softmax->first_sum : &softmax->first_maximum;
        for (int64_t i = 0; i < tile_size(&fresh); i++) {
            fresh.data[i] = value_before(first, i, empty);
        }
        for (int n = 0; n < softmax->rows.count; n++) {
            const sketch_rows *rows = &softmax->rows.items[n];
            int64_t offset = rows->start - fresh.start[0];
            for (int64_t i = 0; i < rows->count; i++) {
                bool fits = offset + i >= 0 && offset + i < tile_size(&fresh);
                if (!fits) continue;
                fresh.data[offset + i] = which ? rows->sum[i] : rows->maximum[i];
                if (!k->m->has_errors) continue;
                double off = sum_off(k->m, softmax, rows, i);
                tile_errors(k->m, &fresh)[offset + i] =
                    which ? rows->sum[i] * (off + shift_off(rows, i)) : off;
            }
        }
        if (!k->m->is_exact) convert_round_all(CONVERT_F32, fresh.data, (size_t)tile_size(&fresh));
        *t = fresh;
    }
    return true;
}

bool sketch_softmax_run(sketch *k, const tl_statement *s) {
    sketch_softmax *softmax = softmax_of(k, s);
    const tile *known = sketch_tile(&k->scope, s->compute.operands[0].value, s);
    if (!softmax || !known) return false;
    tile *t = &k->tiles[s->compute.operands[0].value->symbol->position];
    lines l = lines_of(k->m, softmax, t);
    if (!softmax->loop) {
        remember_start(k, softmax);
        sketch_rows *rows = rows_at(k, softmax, &l);
        gather(&l, rows);
        normalise(&l, softmax, rows);
        forget_common(softmax, t);
        return name_result(k, softmax);
    }
    sketch_rows *rows = rows_at(k, softmax, &l);
    bool is_gathered = k->gathering >= 0 && &k->softmaxes[k->gathering] == softmax;
    if (is_gathered) gather(&l, rows);
    if (softmax->is_known) {
        normalise(&l, softmax, rows);
        forget_common(softmax, t);
        if (!k->m->is_exact) {
            tile_share share = tile_whole(t);
            tile_round(k->m, t, &share, CONVERT_F32);
        }
    }
    return true;
}

/* --- passes ----------------------------------------------------------------------------------- */

static tile *save(sketch *k) {
    int count = k->m->kernel->symbol_count;
    tile *saved = arena_array(k->m->memory, tile, count);
    for (int i = 0; i < count; i++) {
        const tile *t = &k->tiles[i];
        saved[i] = *t;
        if (!t->is_defined) continue;
        saved[i].data =
            machine_block(k->m, (size_t)tile_size(t) * tile_parts(k->m), sizeof *t->data);
        saved[i].capacity = tile_size(t);
        if (!t->data) continue;
        memcpy(saved[i].data, t->data, (size_t)tile_size(t) * sizeof *t->data);
        tile_copy_errors(k->m, &saved[i], t);
    }
    return saved;
}

static void restore(sketch *k, const tile *saved) {
    for (int i = 0; i < k->m->kernel->symbol_count; i++) {
        tile *t = &k->tiles[i];
        if (!saved[i].is_defined) {
            t->is_defined = false;
            continue;
        }
        double *data = t->data;
        int64_t capacity = t->capacity;
        *t = saved[i];
        if (capacity < tile_size(t) || !data) {
            data = machine_block(k->m, (size_t)tile_size(t) * tile_parts(k->m), sizeof *data);
            capacity = tile_size(t);
        }
        t->data = data;
        t->capacity = capacity;
        memcpy(data, saved[i].data, (size_t)tile_size(t) * sizeof *data);
        tile_copy_errors(k->m, t, &saved[i]);
    }
}

/* One silent pass for each Softmax over this loop, in order: a later one may depend on an earlier.
 */
static bool gather_pass(sketch *k, const tl_statement *s, int which) {
    tile *saved = save(k);
    bool was_silent = k->is_silent;
    int outer = k->gathering;
    k->is_silent = true;
    k->gathering = which;
    bool is_done = sketch_loop_once(k, s);
    k->gathering = outer;
    k->is_silent = was_silent;
    restore(k, saved);
    k->softmaxes[which].is_known = true;
    return is_done;
}

bool sketch_loop_passes(sketch *k, const tl_statement *s) {
    for (int i = 0; i < k->softmax_count; i++) {
        if (k->softmaxes[i].loop != s) continue;
        remember_start(k, &k->softmaxes[i]);
        k->softmaxes[i].is_known = false;
    }
    bool is_done = true;
    for (int i = 0; i < k->softmax_count && is_done; i++) {
        if (k->softmaxes[i].loop == s) is_done = gather_pass(k, s, i);
    }
    is_done = is_done && sketch_loop_once(k, s);
    for (int i = 0; i < k->softmax_count && is_done; i++) {
        if (k->softmaxes[i].loop == s) is_done = name_result(k, &k->softmaxes[i]);
    }
    return is_done;
}
