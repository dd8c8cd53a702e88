/* Does a sketch mean what it should? With a reference, the same as that on hidden shapes; always,
 * the same whatever the blocks are, something finite, and something that its inputs decide.
 */
#include "think/footprint.h"
#include "think/judge_internal.h"
#include "think/trial.h"
#include "verify/judge.h"
#include "verify/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 37, COLUMNS = 48 };     /* of small cases: several of the smallest blocks */
static const double TOLERANCE = 1e-3; /* outputs are rounded to their type; sums are exact */
static const double EXPLAIN_SECONDS = 2;

typedef struct meaning {
    climb *c;
    ftl_plan *plan;
    ftl_source source;
    ftl_scalar small_blocks[TRIAL_OPEN_MAX]; /* every open size, as small as blocks get */
    int32_t open_count;
    bool is_beyond; /* a constant of the text is longer than any case */
    int64_t rows;   /* of the longest case: past every constant of the text, within reason */
} meaning;

static diag_range whole(void) {
    return (diag_range){0, 0};
}

static str text_of(climb *c, const char *z) {
    return str_copy(&c->memory, str_from(z));
}

/* --- cases ------------------------------------------------------------------------------------ */

static void prepare(meaning *m) {
    enum { SMALL_BLOCK = 16, PAST = 9, LONGEST = 400 };
    climb *c = m->c;
    str names[TRIAL_OPEN_MAX];
    m->open_count = trial_open_sizes(c->text, names);
    for (int32_t i = 0; i < m->open_count; i++) {
        m->small_blocks[i] = (ftl_scalar){str_copy_z(&c->memory, names[i]), SMALL_BLOCK};
    }
    str reference = {c->task->reference.text, c->task->reference.length};
    int64_t constant = verify_largest_constant(c->text);
    int64_t other = reference.length ? verify_largest_constant(reference) : 0;
    if (other > constant) constant = other;
    m->is_beyond = constant > LONGEST;
    if (m->is_beyond) constant = LONGEST;
    m->rows = constant + PAST > ROWS ? constant + PAST : ROWS;
}

static bool run_failed(climb *c, ftl_status status) {
    if (status == FTL_OK) return false;
    if (status == FTL_REJECTED) {
        climb_take_diagnostics(c);
    } else {
        diag_report(&c->diags, DIAG_MEANING_RUN, whole(),
                    text_of(c, ftl_context_error(c->context)));
    }
    return true;
}

/* --- consistent with itself ------------------------------------------------------------------- */

static void find_odd_values(climb *c, const trial *t, double **values) {
    const ftl_plan *plan = t->program.plan;
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        if (plan->tensors[i].role != FTL_OUTPUT) continue;
        int64_t count = trial_count(&t->data.tensors[i]), odd = 0;
        /* minus infinity is what a log-sum-exp of nothing is */
        for (int64_t k = 0; k < count; k++)
            odd += isnan(values[i][k]) || values[i][k] == (double)INFINITY;
        if (!odd) continue;
        diag_report(&c->diags, DIAG_MEANING_NOT_FINITE, whole(),
                    str_format(&c->memory, "%lld", (long long)odd),
                    str_format(&c->memory, "%lld", (long long)count),
                    text_of(c, plan->tensors[i].name));
    }
}

static void find_block_dependence(meaning *m, const trial *t, double **whole_values,
                                  double **small_values) {
    climb *c = m->c;
    for (int32_t i = 0; i < m->plan->tensor_count; i++) {
        if (m->plan->tensors[i].role != FTL_OUTPUT) continue;
        double off =
            trial_distance(small_values[i], whole_values[i], trial_count(&t->data.tensors[i]));
        if (off <= TOLERANCE) continue;
        diag_report(&c->diags, DIAG_MEANING_BLOCKS, whole(), text_of(c, m->plan->tensors[i].name),
                    text_of(c, m->small_blocks[0].name),
                    str_format(&c->memory, "%g", m->small_blocks[0].value),
                    str_format(&c->memory, "%.2g", off));
        diag_add(&c->diags, DIAG_MEANING_BLOCKS_WHY, whole(), NULL);
        return;
    }
}

static void change_input(const meaning *m, trial *t, int32_t i) {
    buffer *b = &t->data.tensors[i];
    double *row = arena_array(&m->c->memory, double, b->columns + 1);
    bool is_table = m->plan->tensors[i].type == FTL_I32;
    for (int64_t k = 0; k < b->rows; k++) {
        buffer_load_row(b, k, row);
        for (int64_t e = 0; is_table && e < b->columns; e++)
            row[e] = row[e] > 1 ? floor(row[e] / 2) : 1 - row[e];
        if (!is_table) {
            random_normal(91, (uint64_t)i, (uint64_t)(k * b->columns), (size_t)b->columns, row);
        }
        buffer_store_row(b, k, row);
    }
}

/* Inputs that 'is_open' names get other values in turn, and keep them; those that change an Output
 * are open no more. False when a run fails.
 */
static bool find_used(meaning *m, trial *t, const trial_machine *machine, bool *is_open) {
    climb *c = m->c;
    double **values, **changed;
    if (trial_run(c->context, t, machine, &c->memory, &values)) return false;
    for (int32_t i = 0; i < m->plan->tensor_count; i++) {
        if (!is_open[i] || !trial_count(&t->data.tensors[i])) continue;
        change_input(m, t, i);
        if (trial_run(c->context, t, machine, &c->memory, &changed)) return false;
        for (int32_t o = 0; o < m->plan->tensor_count; o++) {
            if (m->plan->tensors[o].role != FTL_OUTPUT) continue;
            double off = trial_distance(changed[o], values[o], trial_count(&t->data.tensors[o]));
            if (off > 0) is_open[i] = false;
        }
        values = changed;
    }
    return true;
}

/* What has no influence at small lengths may have it past the constants of the text (a window);
 * where those are too long to run, nothing is said.
 */
static void find_unused(meaning *m, trial *t, const trial_machine *machine) {
    climb *c = m->c;
    bool *is_open = arena_array(&c->memory, bool, m->plan->tensor_count + 1), is_any = false;
    for (int32_t i = 0; i < m->plan->tensor_count; i++) {
        const ftl_plan_tensor *tensor = &m->plan->tensors[i];
        bool says_where = tensor->use > FTL_TABLE_FREE; /* of other tensors' elements */
        is_open[i] = tensor->role == FTL_INPUT && !says_where;
    }
    if (m->is_beyond || !find_used(m, t, machine, is_open)) return;
    for (int32_t i = 0; i < m->plan->tensor_count; i++) is_any |= is_open[i];
    if (!is_any) return;
    int64_t sizes[VERIFY_SIZES_MAX] = {0};
    char why[FTL_WHY_BYTES];
    trial longer;
    bool is_there = trial_sizes(m->plan, m->rows, COLUMNS, &c->memory, sizes) &&
                    trial_make(m->plan, sizes, c->task->seed + 1, &c->memory, &longer, why);
    if (!is_there || !find_used(m, &longer, machine, is_open)) return;
    for (int32_t i = 0; i < m->plan->tensor_count; i++) {
        if (!is_open[i]) continue;
        diag_report(&c->diags, DIAG_MEANING_UNUSED, whole(), text_of(c, m->plan->tensors[i].name));
    }
}

static ftl_status check_itself(meaning *m) {
    climb *c = m->c;
    int64_t sizes[VERIFY_SIZES_MAX] = {0};
    char why[FTL_WHY_BYTES];
    trial t;
    bool is_there = trial_sizes(m->plan, ROWS, COLUMNS, &c->memory, sizes) &&
                    trial_make(m->plan, sizes, c->task->seed, &c->memory, &t, why);
    if (!is_there) {
        climb_skips(c, THINK_RUNG_MEANING, "no inputs can be made up for this program");
        return FTL_OK;
    }
    trial_machine all = {.source = &m->source, .arithmetic = FTL_EXACT};
    trial_machine small = all;
    small.pins = m->small_blocks, small.pin_count = m->open_count;
    double **whole_values, **small_values;
    ftl_status status = trial_run(c->context, &t, &all, &c->memory, &whole_values);
    if (run_failed(c, status)) return FTL_OK;
    find_odd_values(c, &t, whole_values);
    status = trial_run(c->context, &t, &small, &c->memory, &small_values);
    if (run_failed(c, status)) return FTL_OK;
    if (m->open_count) find_block_dependence(m, &t, whole_values, small_values);
    if (!diag_has_errors(&c->diags)) find_unused(m, &t, &all);
    return FTL_OK;
}

/* --- the same as the reference ---------------------------------------------------------------- */

static void explain(meaning *m, const trial_machine *candidate, const trial_machine *reference,
                    int64_t rows) {
    climb *c = m->c;
    text_buffer lines;
    text_init(&lines, 1 << 16);
    trial_machine one_block = *candidate;
    one_block.pin_count = 0;
    footprint_case f = {.plan = m->plan,
                        .candidate = candidate,
                        .reference = reference,
                        .whole = m->open_count ? &one_block : NULL,
                        .rows = rows,
                        .tolerance = TOLERANCE,
                        .seconds_most = EXPLAIN_SECONDS};
    footprint_explain(c->context, &f, &c->memory, &lines);
    for (str rest = text_str(&lines); rest.length;) {
        str line = str_copy(&c->memory, str_cut(&rest, '\n'));
        diag_report(&c->diags, DIAG_MEANING_WHERE, whole(), line);
    }
    text_done(&lines);
}

/* Both are computed exactly and stored once: they differ by a step of the type, or in meaning. Sums
 * in another order differ by far less than 'ORDER' of a row.
 */
static int64_t mark_different(const buffer *b, const double *got, const double *want,
                              uint8_t *bad) {
    static const double ORDER = 1e-6;
    int64_t count = 0;
    for (int64_t row = 0; row < b->rows; row++) {
        double size = 0;
        for (int64_t k = row * b->columns; k < (row + 1) * b->columns; k++)
            size = isfinite(want[k]) ? fmax(size, fabs(want[k])) : size;
        for (int64_t k = row * b->columns; k < (row + 1) * b->columns; k++) {
            double allowed = convert_step(b->format, want[k]) + ORDER * size;
            bool is_same = got[k] == want[k] || (isnan(got[k]) && isnan(want[k]));
            bad[k] = !is_same && !(fabs(got[k] - want[k]) <= allowed);
            count += bad[k];
        }
    }
    return count;
}

static bool compare_output(meaning *m, const buffer *b, const double *got, const double *want) {
    climb *c = m->c;
    uint8_t *bad = arena_array(&c->memory, uint8_t, trial_count(b) + 1);
    if (!mark_different(b, got, want, bad)) return true;
    text_buffer where;
    text_init(&where, 4096);
    judge_pattern(m->plan, b, bad, &c->memory, &where);
    str what = str_format(&c->memory, "relative rms error %.2g; wrong at %s",
                          trial_distance(got, want, trial_count(b)),
                          where.length ? where.data : "some elements");
    text_done(&where);
    diag_report(&c->diags, DIAG_MEANING_WRONG, whole(), text_of(c, b->of->name), what);
    return false;
}

/* One case; true when it differs, and was reported. */
static bool compare_trial(meaning *m, const trial_machine *candidate,
                          const trial_machine *reference, trial *t, ftl_status *status) {
    climb *c = m->c;
    double **got, **want;
    *status = trial_run(c->context, t, reference, &c->memory, &want);
    if (*status) return false;
    *status = trial_run(c->context, t, candidate, &c->memory, &got);
    if (*status == FTL_REJECTED) {
        *status = FTL_OK;
        climb_take_diagnostics(c);
        return true;
    }
    for (int32_t i = 0; !*status && i < m->plan->tensor_count; i++) {
        if (m->plan->tensors[i].role != FTL_OUTPUT) continue;
        if (!compare_output(m, &t->data.tensors[i], got[i], want[i])) return true;
    }
    return false;
}

/* Lengths past every block and every constant of both texts, and scores of every kind. */
static ftl_status compare_decisive(meaning *m, const trial_machine *candidate,
                                   const trial_machine *reference) {
    climb *c = m->c;
    verify_program program = {
        .plan = m->plan, .sketch = c->task->reference, .code = {"", c->text.data, c->text.length}};
    const verify_case *cases;
    int32_t count = 0;
    char why[FTL_WHY_BYTES];
    ftl_status status = FTL_OK;
    if (!verify_cases(&program, &(verify_list){.shapes = "decisive"}, 0, &c->memory, &cases, &count,
                      why))
        return FTL_OK;
    for (int32_t i = 0; !status && i < count; i++) {
        trial t;
        arena_mark mark = arena_here(&c->memory);
        uint64_t seed = c->task->seed + 10 + (uint64_t)i;
        if (!trial_make_case(m->plan, &cases[i], seed, &c->memory, &t, why)) continue;
        if (compare_trial(m, candidate, reference, &t, &status)) {
            char name[VERIFY_NAME_BYTES];
            verify_case_name(&program, &cases[i], name);
            if (diag_has_errors(&c->diags)) {
                diag_report(&c->diags, DIAG_MEANING_WHERE, whole(),
                            str_format(&c->memory, "it was found with %s", name));
            }
            return FTL_OK;
        }
        if (!diag_has_errors(&c->diags)) arena_reset(&c->memory, mark);
    }
    return status;
}

static ftl_status compare_with_reference(meaning *m) {
    climb *c = m->c;
    trial_machine reference = {.source = &c->task->reference, .arithmetic = FTL_EXACT};
    trial_machine candidate = {.source = &m->source,
                               .arithmetic = FTL_EXACT,
                               .pins = m->small_blocks,
                               .pin_count = m->open_count};
    const int64_t rows[] = {ROWS, 1, 21, m->rows};
    ftl_status status = FTL_OK;
    for (size_t i = 0; !status && i < sizeof rows / sizeof *rows; i++) {
        if (i == 3 && rows[i] <= ROWS) break;
        int64_t sizes[VERIFY_SIZES_MAX] = {0};
        char why[FTL_WHY_BYTES];
        trial t;
        arena_mark mark = arena_here(&c->memory);
        bool is_there = trial_sizes(m->plan, rows[i], COLUMNS, &c->memory, sizes) &&
                        trial_make(m->plan, sizes, c->task->seed + i, &c->memory, &t, why);
        if (is_there && compare_trial(m, &candidate, &reference, &t, &status)) {
            if (diag_has_errors(&c->diags))
                explain(m, &candidate, &reference, rows[i] > 1 ? rows[i] : 21);
            return FTL_OK;
        }
        if (!diag_has_errors(&c->diags)) arena_reset(&c->memory, mark);
    }
    return status ? status : compare_decisive(m, &candidate, &reference);
}

/* --- all of it -------------------------------------------------------------------------------- */

static ftl_status judge(meaning *m, const ftl_plan *should) {
    climb *c = m->c;
    prepare(m);
    if (should) climb_parameters(c, m->plan, should);
    if (!diag_has_errors(&c->diags)) {
        ftl_status status = check_itself(m);
        bool goes_on = !status && should && !diag_has_errors(&c->diags) && !climb_has_findings(c);
        if (goes_on) status = compare_with_reference(m);
        if (status) return status;
    }
    climb_take_own(c);
    return FTL_OK;
}

ftl_status climb_meaning(climb *c) {
    ftl_type dtype = c->task->options->dtype ? c->task->options->dtype : FTL_F16;
    meaning m = {.c = c, .source = {"answer", c->text.data, c->text.length}};
    ftl_plan *should = NULL;
    ftl_status status = ftl_parameters(c->context, &m.source, dtype, &m.plan);
    if (status == FTL_REJECTED) {
        climb_take_diagnostics(c);
        return FTL_OK;
    }
    if (!status && c->task->reference.text) {
        status = ftl_parameters(c->context, &c->task->reference, dtype, &should);
    }
    if (!status) status = judge(&m, should);
    ftl_plan_free(m.plan);
    ftl_plan_free(should);
    return status;
}
