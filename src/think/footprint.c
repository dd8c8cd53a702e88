#include "think/footprint.h"

#include "base/os.h"
#include "verify/random.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 8, GROUPS = 12, SINGLES_MOST = 24 };

struct matrix;

typedef struct search {
    ftl_context *context;
    const footprint_case *c;
    arena *memory;
    text_buffer *out;
    trial *t;
    double **got, **want; /* on the unchanged inputs */
    int64_t end_ns;
    LIST(struct matrix *) differing;
    bool has_found;
} search;

static bool is_late(const search *s) {
    return os_cpu_time_ns() > s->end_ns;
}

static const ftl_plan_tensor *tensor_at(const search *s, int32_t t) {
    return &s->c->plan->tensors[t];
}

/* --- changing inputs -------------------------------------------------------------------------- */

/* Elements whose index along 'axis' is in [begin, end) get other values. */
static void change(buffer *b, int axis, int64_t begin, int64_t end, arena *memory) {
    double *values = arena_array(memory, double, b->columns + 1);
    int64_t index[FTL_AXES_MAX] = {0};
    bool is_last = axis == b->argument.axis_count - 1;
    for (int64_t row = 0; row < b->rows; row++) {
        buffer_row_index(b, row, index);
        if (!is_last && (index[axis] < begin || index[axis] >= end)) continue;
        buffer_load_row(b, row, values);
        for (int64_t e = 0; e < b->columns; e++) {
            if (is_last && (e < begin || e >= end)) continue;
            double other;
            random_normal(77, (uint64_t)row, (uint64_t)e, 1, &other);
            values[e] = 1.5 * other - values[e];
        }
        buffer_store_row(b, row, values);
    }
}

static double **keep_rows(const buffer *b, arena *memory) {
    double **rows = arena_array(memory, double *, b->rows + 1);
    for (int64_t row = 0; row < b->rows; row++) {
        rows[row] = arena_array(memory, double, b->columns + 1);
        buffer_load_row(b, row, rows[row]);
    }
    return rows;
}

static void restore_rows(buffer *b, double **rows) {
    for (int64_t row = 0; row < b->rows; row++) buffer_store_row(b, row, rows[row]);
}

/* --- what follows ----------------------------------------------------------------------------- */

/* Which indices of an output's axis hold an element that changed. */
static uint8_t *changed_along(const buffer *b, int axis, const double *before, const double *after,
                              arena *memory) {
    uint8_t *has = arena_array(memory, uint8_t, b->argument.extents[axis] + 1);
    int64_t index[FTL_AXES_MAX] = {0};
    double size = 0;
    int64_t count = trial_count(b);
    for (int64_t i = 0; i < count; i++) size += isfinite(before[i]) ? fabs(before[i]) : 0;
    double least = count ? 1e-6 * size / (double)count : 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_same = fabs(before[i] - after[i]) <= least || before[i] == after[i] ||
                       (isnan(before[i]) && isnan(after[i]));
        if (is_same) continue;
        buffer_row_index(b, i / b->columns, index);
        bool is_last = axis == b->argument.axis_count - 1;
        has[is_last ? i % b->columns : index[axis]] = 1;
    }
    return has;
}

/* Parts of one axis of an input, and for each part what it changes along one axis of an output. */
typedef struct matrix matrix;
struct matrix {
    int32_t input, output;
    int input_axis, output_axis;
    int64_t part, parts, extent,
        first; /* part: elements in one; first: element of the first part */
    uint8_t **got, **want;
};

static int64_t part_begin(const matrix *m, int64_t part) {
    return m->first + part * m->part;
}

static int64_t part_end(const search *s, const matrix *m, int64_t part) {
    int64_t extent = s->t->data.tensors[m->input].argument.extents[m->input_axis];
    int64_t end = part_begin(m, part) + m->part;
    return end < extent ? end : extent;
}

/* Fills in one matrix per output axis; they share the runs. */
static bool probe(search *s, matrix *all, int count) {
    matrix *m = &all[0];
    buffer *b = &s->t->data.tensors[m->input];
    double **rows = keep_rows(b, s->memory), **got, **want;
    for (int64_t part = 0; part < m->parts; part++) {
        if (is_late(s)) return false;
        change(b, m->input_axis, part_begin(m, part), part_end(s, m, part), s->memory);
        ftl_status status = trial_run(s->context, s->t, s->c->candidate, s->memory, &got);
        if (!status) status = trial_run(s->context, s->t, s->c->reference, s->memory, &want);
        restore_rows(b, rows);
        if (status) return false;
        for (int i = 0; i < count; i++) {
            const buffer *o = &s->t->data.tensors[all[i].output];
            all[i].got[part] = changed_along(o, all[i].output_axis, s->got[all[i].output],
                                             got[all[i].output], s->memory);
            all[i].want[part] = changed_along(o, all[i].output_axis, s->want[all[i].output],
                                              want[all[i].output], s->memory);
        }
    }
    return true;
}

/* --- sentences -------------------------------------------------------------------------------- */

static const char *axis_name(const search *s, int32_t tensor, int axis) {
    return tensor_at(s, tensor)->axes[axis].name;
}

static bool is_any(const uint8_t *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (row[i]) return true;
    }
    return false;
}

static bool is_equal(const matrix *m, int64_t part) {
    return memcmp(m->got[part], m->want[part], (size_t)m->extent) == 0;
}

static void add_range(text_buffer *out, const char *name, int64_t begin, int64_t end) {
    if (end == begin + 1) text_format(out, "%s %" PRId64, name, begin);
    else text_format(out, "%s %" PRId64 "..%" PRId64, name, begin, end - 1);
}

/* Parts that should matter and never do. */
static bool say_unused(search *s, const matrix *m) {
    int64_t first = -1, last = -1;
    for (int64_t p = 0; p < m->parts; p++) {
        if (!is_any(m->want[p], m->extent) || is_any(m->got[p], m->extent)) continue;
        if (first < 0) first = p;
        last = p;
    }
    if (first < 0) return false;
    const buffer *b = &s->t->data.tensors[m->input];
    int64_t extent = b->argument.extents[m->input_axis];
    const char *axis = axis_name(s, m->input, m->input_axis);
    bool is_all = first == 0 && last == m->parts - 1;
    text_format(s->out, "%s does not depend on %s", tensor_at(s, m->output)->name,
                tensor_at(s, m->input)->name);
    if (!is_all) {
        text_add_z(s->out, " at ");
        add_range(s->out, axis, part_begin(m, first), part_end(s, m, last));
        text_format(s->out, " of %" PRId64, extent);
    }
    text_add_z(s->out, ", and should");
    bool is_end = !is_all && part_end(s, m, last) == extent;
    text_add_z(s->out, is_end ? ": the last tile is left out\n" : "\n");
    return true;
}

static int64_t first_set(const uint8_t *row, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        if (row[i]) return i;
    }
    return -1;
}

static int64_t last_set(const uint8_t *row, int64_t count) {
    for (int64_t i = count - 1; i >= 0; i--) {
        if (row[i]) return i;
    }
    return -1;
}

/* The same edge of every row lies the same number of elements away: a mask's boundary. */
static bool say_boundary(search *s, const matrix *m) {
    for (int end = 0; end < 2; end++) {
        int64_t (*edge)(const uint8_t *, int64_t) = end ? last_set : first_set;
        int64_t shift = 0, seen = 0, shown = -1;
        bool is_constant = true;
        for (int64_t p = 0; p < m->parts && is_constant; p++) {
            int64_t got = edge(m->got[p], m->extent), want = edge(m->want[p], m->extent);
            bool is_cut = got <= 0 || want <= 0 || got == m->extent - 1 || want == m->extent - 1;
            if (is_cut) continue; /* the end of the axis hides the edge */
            if (seen++ == 0) shift = got - want, shown = p;
            is_constant = got - want == shift;
        }
        if (!is_constant || seen < 2 || !shift || m->part > 1) continue;
        const char *out_axis = axis_name(s, m->output, m->output_axis);
        int64_t got = edge(m->got[shown], m->extent), want = edge(m->want[shown], m->extent);
        text_format(s->out,
                    "the boundary between %s of %s and %s of %s is off by %" PRId64
                    ": %s at %s %" PRId64 " is the %s one that depends on %s at %s %" PRId64
                    ", and should be %s %" PRId64 " (a mask's condition)\n",
                    out_axis, tensor_at(s, m->output)->name, axis_name(s, m->input, m->input_axis),
                    tensor_at(s, m->input)->name, shift < 0 ? -shift : shift,
                    tensor_at(s, m->output)->name, out_axis, got, end ? "last" : "first",
                    tensor_at(s, m->input)->name, axis_name(s, m->input, m->input_axis),
                    part_begin(m, shown), out_axis, want);
        return true;
    }
    return false;
}

/* One input index where another is meant: an axis in front of the matrix. */
static bool say_map(search *s, const matrix *m) {
    bool is_matrix_axis = m->input_axis >= tensor_at(s, m->input)->axis_count - 2;
    if (is_matrix_axis || m->part > 1) return false;
    for (int64_t i = 0; i < m->extent; i++) {
        int64_t got = -1, want = -1;
        for (int64_t p = m->parts - 1; p >= 0; p--) {
            if (m->got[p][i]) got = p;
            if (m->want[p][i]) want = p;
        }
        if (got == want || got < 0 || want < 0) continue;
        const char *in_axis = axis_name(s, m->input, m->input_axis);
        text_format(s->out,
                    "%s at %s %" PRId64 " reads %s at %s %" PRId64 ", and should read %s %" PRId64
                    " (a wrong map of %s)\n",
                    tensor_at(s, m->output)->name, axis_name(s, m->output, m->output_axis), i,
                    tensor_at(s, m->input)->name, in_axis, got, in_axis, want,
                    strstr(in_axis, "head") ? "heads" : in_axis);
        return true;
    }
    return false;
}

static bool say_pair(search *s, const matrix *m) {
    for (int64_t p = 0; p < m->parts; p++) {
        for (int64_t i = 0; i < m->extent; i++) {
            if (m->got[p][i] == m->want[p][i]) continue;
            text_format(s->out, "%s at %s %" PRId64 " %s on %s at ", tensor_at(s, m->output)->name,
                        axis_name(s, m->output, m->output_axis), i,
                        m->got[p][i] ? "depends" : "does not depend", tensor_at(s, m->input)->name);
            add_range(s->out, axis_name(s, m->input, m->input_axis), part_begin(m, p),
                      part_end(s, m, p));
            text_format(s->out, ", and should%s\n", m->got[p][i] ? " not" : "");
            return true;
        }
    }
    return false;
}

static bool differs(const matrix *m) {
    for (int64_t p = 0; p < m->parts; p++) {
        if (!is_equal(m, p)) return true;
    }
    return false;
}

/* --- the search ------------------------------------------------------------------------------- */

/* Is in front of a matrix: batch, head. */
static bool is_front(const ftl_plan_tensor *t, int axis) {
    return t->axis_count > 2 && axis < t->axis_count - 2;
}

static matrix *new_matrices(search *s, int32_t input, int axis, int64_t first, int64_t part,
                            int64_t parts, int *count) {
    const ftl_plan *plan = s->c->plan;
    matrix *all = arena_array(s->memory, matrix, plan->tensor_count * FTL_AXES_MAX + 1);
    *count = 0;
    for (int32_t o = 0; o < plan->tensor_count; o++) {
        if (plan->tensors[o].role != FTL_OUTPUT) continue;
        for (int x = 0; x < plan->tensors[o].axis_count; x++) {
            /* what chooses matrices is compared with that, rows and columns with those */
            if (is_front(&plan->tensors[input], axis) != is_front(&plan->tensors[o], x)) continue;
            matrix *m = &all[(*count)++];
            *m = (matrix){.input = input,
                          .output = o,
                          .input_axis = axis,
                          .output_axis = x,
                          .part = part,
                          .parts = parts,
                          .first = first,
                          .extent = s->t->data.tensors[o].argument.extents[x]};
            m->got = arena_array(s->memory, uint8_t *, parts + 1);
            m->want = arena_array(s->memory, uint8_t *, parts + 1);
        }
    }
    return all;
}

static void keep_differing(search *s, matrix *all, int count) {
    for (int i = 0; i < count; i++) {
        if (differs(&all[i])) list_push(s->memory, &s->differing, &all[i]);
    }
}

static matrix *first_differing(matrix *all, int count) {
    for (int i = 0; i < count; i++) {
        if (differs(&all[i])) return &all[i];
    }
    return NULL;
}

/* Parts first; then the elements around the first part that differs. */
static void search_axis(search *s, int32_t input, int axis) {
    int64_t extent = s->t->data.tensors[input].argument.extents[axis];
    if (extent < 1 || is_late(s)) return;
    int64_t part = extent <= SINGLES_MOST ? 1 : (extent + GROUPS - 1) / GROUPS;
    int count = 0, more = 0;
    matrix *all = new_matrices(s, input, axis, 0, part, (extent + part - 1) / part, &count);
    if (!count || !probe(s, all, count)) return;
    matrix *found = first_differing(all, count);
    if (!found) return;
    if (part > 1) {
        int64_t at = 0;
        while (is_equal(found, at)) at++;
        int64_t first = part_begin(found, at), last = first + part + 2;
        matrix *fine =
            new_matrices(s, input, axis, first, 1, (last < extent ? last : extent) - first, &more);
        bool is_unused =
            is_any(found->want[at], found->extent) && !is_any(found->got[at], found->extent);
        if (!is_unused && probe(s, fine, more)) keep_differing(s, fine, more);
    }
    keep_differing(s, all, count);
}

static int64_t difference_count(const matrix *m) {
    int64_t count = 0;
    for (int64_t p = 0; p < m->parts; p++) {
        for (int64_t i = 0; i < m->extent; i++) count += m->got[p][i] != m->want[p][i];
    }
    return count;
}

static int by_differences(const void *a, const void *b) {
    int64_t x = difference_count(*(matrix *const *)a), y = difference_count(*(matrix *const *)b);
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The sentence that says most, about whichever Input. */
static void say_best(search *s) {
    static bool (*const sayings[])(search *, const matrix *) = {say_map, say_boundary, say_unused,
                                                                say_pair};
    if (s->differing.count) {
        qsort(s->differing.items, (size_t)s->differing.count, sizeof *s->differing.items,
              by_differences);
    }
    for (size_t i = 0; i < sizeof sayings / sizeof *sayings && !s->has_found; i++) {
        for (int k = 0; k < s->differing.count && !s->has_found; k++) {
            s->has_found = sayings[i](s, s->differing.items[k]);
        }
    }
}

/* Axes in front of the matrices first: they are short, and a wrong one explains all else. */
static void search_dependences(search *s) {
    const ftl_plan *plan = s->c->plan;
    for (int rows = 0; rows < 2 && !s->has_found; rows++) {
        for (int32_t t = 0; t < plan->tensor_count; t++) {
            if (plan->tensors[t].role != FTL_INPUT || plan->tensors[t].type == FTL_I32) continue;
            int count = plan->tensors[t].axis_count, front = count > 2 ? count - 2 : 0;
            /* columns of a matrix are alike: one sentence about its rows says enough */
            int begin = rows ? front : 0, end = rows ? (count > 1 ? count - 1 : count) : front;
            for (int axis = begin; axis < end; axis++) search_axis(s, t, axis);
        }
        say_best(s);
    }
}

/* --- right up to a factor --------------------------------------------------------------------- */

static double fit(const double *got, const double *want, int64_t count, double *rest) {
    double product = 0, size = 0, error = 0, total = 0;
    for (int64_t i = 0; i < count; i++) product += got[i] * want[i], size += want[i] * want[i];
    double factor = size > 0 ? product / size : 0;
    for (int64_t i = 0; i < count; i++) {
        double e = got[i] - factor * want[i];
        error += e * e, total += got[i] * got[i];
    }
    *rest = total > 0 ? sqrt(error / total) : 0;
    return factor;
}

static bool say_factor(search *s, int32_t t) {
    const buffer *b = &s->t->data.tensors[t];
    const double *got = s->got[t], *want = s->want[t];
    const char *name = tensor_at(s, t)->name;
    double rest, limit = 10 * s->c->tolerance, factor = fit(got, want, trial_count(b), &rest);
    if (rest < limit && fabs(factor - 1) > s->c->tolerance) {
        text_format(s->out,
                    "%s is %.4g times what it should be, everywhere (a factor is missing or "
                    "applied twice)\n",
                    name, factor);
        return true;
    }
    int64_t off = 0, good = 0;
    for (int64_t row = 0; row < b->rows && b->columns > 2; row++) {
        factor = fit(got + row * b->columns, want + row * b->columns, b->columns, &rest);
        if (!(rest < limit)) return false;
        off += fabs(factor - 1) > limit;
        good++;
    }
    if (!good || !off) return false;
    text_format(s->out,
                "each row of %s is right up to a factor of its own: what normalises the rows "
                "(a sum, a maximum, the rescaling between blocks) is wrong\n",
                name);
    return true;
}

/* Are the Outputs of two runs of a trial as far apart at most? */
static bool agree(const search *s, const trial *t, double **got, double **want, double tolerance) {
    for (int32_t i = 0; i < s->c->plan->tensor_count; i++) {
        if (tensor_at(s, i)->role != FTL_OUTPUT) continue;
        double off = trial_distance(got[i], want[i], trial_count(&t->data.tensors[i]));
        if (!(off <= tolerance)) return false;
    }
    return true;
}

/* The same program with all of the axis in one block: if that is right, the way from block to block
 * is wrong.
 */
static void say_blocks(search *s) {
    const footprint_case *c = s->c;
    double **got, **want;
    trial few, *t = s->t;
    int64_t sizes[VERIFY_SIZES_MAX];
    char why[FTL_WHY_BYTES];
    const trial_machine *machine = c->whole;
    if (!machine) {
        if (!trial_sizes(c->plan, 5, COLUMNS, s->memory, sizes) ||
            !trial_make(c->plan, sizes, 3, s->memory, &few, why))
            return;
        machine = c->candidate, t = &few;
    }
    if (trial_run(s->context, t, machine, s->memory, &got)) return;
    if (trial_run(s->context, t, c->reference, s->memory, &want)) return;
    if (!agree(s, t, got, want, 10 * c->tolerance)) return;
    text_add_z(s->out,
               "with one block it is right, with several it is wrong, though every element "
               "depends on the right inputs: what is carried from block to block is not "
               "rescaled when the running maximum moves, or is started or divided inside the "
               "loop\n");
    s->has_found = true;
}

/* Problems of a batch are alike: one of them says enough, in half of the time. */
static bool make_trial(const footprint_case *c, arena *memory, trial *out) {
    int64_t sizes[VERIFY_SIZES_MAX], few[VERIFY_SIZES_MAX];
    char why[FTL_WHY_BYTES];
    if (!trial_sizes(c->plan, c->rows, COLUMNS, memory, sizes)) return false;
    memcpy(few, sizes, sizeof few);
    for (int32_t i = 0; i < c->plan->size_count && i < VERIFY_SIZES_MAX; i++) {
        if (strstr(c->plan->sizes[i].name, "batch")) few[i] = 1;
    }
    return trial_make(c->plan, few, 5, memory, out, why) ||
           trial_make(c->plan, sizes, 5, memory, out, why);
}

ftl_status footprint_explain(ftl_context *context, const footprint_case *c, arena *memory,
                             text_buffer *out) {
    trial t;
    if (!make_trial(c, memory, &t)) return FTL_OK;
    search s = {.context = context,
                .c = c,
                .memory = memory,
                .out = out,
                .t = &t,
                .end_ns = os_cpu_time_ns() + (int64_t)(c->seconds_most * 1e9)};
    if (trial_run(context, &t, c->candidate, memory, &s.got)) return FTL_OK;
    if (trial_run(context, &t, c->reference, memory, &s.want)) return FTL_OK;
    if (agree(&s, &t, s.got, s.want, c->tolerance)) return FTL_OK;
    search_dependences(&s);
    if (!s.has_found) say_blocks(&s);
    for (int32_t i = 0; i < c->plan->tensor_count && !s.has_found; i++) {
        if (c->plan->tensors[i].role == FTL_OUTPUT) s.has_found = say_factor(&s, i);
    }
    if (!s.has_found && !is_late(&s)) {
        text_add_z(out,
                   "every element depends on the right inputs, so the formula differs: a factor, a "
                   "function, or a term that is missing or too many\n");
    }
    return FTL_OK;
}
