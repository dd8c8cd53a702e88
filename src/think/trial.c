#include "think/trial.h"

#include "verify/conditions.h"
#include "verify/random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- cases ------------------------------------------------------------------------------------ */

/* Of integers that are only compared and calculated with, nothing says what they may be. */
static bool is_free_table(const ftl_plan_tensor *t) {
    bool is_free = t->use == FTL_TABLE_FREE || t->use == FTL_TABLE_UNKNOWN;
    return t->role == FTL_INPUT && t->type == FTL_I32 && is_free;
}

/* Those are laid out as f32, which verify can fill, and given their numbers and their type
 * afterwards.
 */
static const ftl_plan *without_tables(const ftl_plan *plan, arena *memory) {
    ftl_plan *copy = arena_new(memory, ftl_plan);
    ftl_plan_tensor *tensors = arena_array(memory, ftl_plan_tensor, plan->tensor_count + 1);
    *copy = *plan;
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        tensors[i] = plan->tensors[i];
        if (is_free_table(&tensors[i])) tensors[i].type = FTL_F32;
    }
    copy->tensors = tensors;
    return copy;
}

/* They may be flags (0 and 1, for every other seed) or places along the longest axis. */
static uint64_t table_limit(const trial *t) {
    int64_t longest = 1;
    for (int32_t i = 0; i < t->program.plan->size_count && i < VERIFY_SIZES_MAX; i++) {
        if (t->of.sizes[i] > longest) longest = t->of.sizes[i];
    }
    return t->data.seed % 2 ? (uint64_t)longest + 1 : 2;
}

static void fill_tables(const ftl_plan *plan, trial *t, arena *memory) {
    uint64_t limit = table_limit(t);
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        buffer *b = &t->data.tensors[i];
        if (!is_free_table(&plan->tensors[i])) continue;
        double *values = arena_array(memory, double, b->columns + 1);
        b->format = CONVERT_I32;
        for (int64_t row = 0; row < b->rows; row++) {
            for (int64_t e = 0; e < b->columns; e++) {
                values[e] = (double)random_below(t->data.seed, (uint64_t)i,
                                                 (uint64_t)(row * b->columns + e), limit);
            }
            buffer_store_row(b, row, values);
        }
        b->of = &plan->tensors[i];
        b->argument.type = FTL_I32;
        t->data.arguments_of_tensors[i].type = FTL_I32;
    }
}

bool trial_make_case(const ftl_plan *plan, const verify_case *c, uint64_t seed, arena *memory,
                     trial *out, char why[FTL_WHY_BYTES]) {
    out->program = (verify_program){.plan = without_tables(plan, memory)};
    out->of = *c;
    out->of.layout = VERIFY_DENSE;
    out->data = (case_data){.program = &out->program, .of = &out->of, .seed = seed};
    if (!inputs_make(&out->data, memory, why)) return false;
    out->program.plan = plan;
    fill_tables(plan, out, memory);
    return true;
}

bool trial_make(const ftl_plan *plan, const int64_t *sizes, uint64_t seed, arena *memory,
                trial *out, char why[FTL_WHY_BYTES]) {
    verify_case c = {.input = VERIFY_NORMAL};
    memcpy(c.sizes, sizes, sizeof c.sizes);
    return trial_make_case(plan, &c, seed, memory, out, why);
}

/* A size that is in front of some matrix counts matrices; else it is a length of rows when it
 * is an axis of a matrix but not its last one, and of columns when it is only ever last.
 */
static int64_t size_for(const ftl_plan *plan, int32_t size, int64_t rows, int64_t columns,
                        int64_t count) {
    bool is_row = false, is_last = false, is_count = false;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            if (tensor->axes[i].size != size || tensor->axis_count < 2) continue;
            is_count |= i < tensor->axis_count - 2;
            is_row |= i == tensor->axis_count - 2;
            is_last |= i == tensor->axis_count - 1;
        }
    }
    if (is_count) return count;
    if (is_row)
        return rows + 3 * (size % 3); /* lengths differ, so that none is taken for another */
    return is_last ? columns : count;
}

/* Of several ways to make conditions hold, the one with the shortest lengths. */
static bool settle(const ftl_plan *plan, uint64_t seed, arena *memory,
                   int64_t sizes[VERIFY_SIZES_MAX]) {
    enum { WAYS = 24 };
    int64_t best[VERIFY_SIZES_MAX] = {0}, least = INT64_MAX;
    double *scalars = arena_array(memory, double, plan->scalar_count + 1);
    for (uint64_t way = 0; way < WAYS; way++) {
        int64_t solved[VERIFY_SIZES_MAX], longest = 0;
        memcpy(solved, sizes, sizeof solved);
        for (int32_t i = 0; i < plan->scalar_count; i++) scalars[i] = 1;
        conditions_values values = {solved, scalars, NULL};
        if (!conditions_solve(plan, seed + 100 * way, &values)) return false;
        for (int32_t i = 0; i < plan->size_count; i++)
            if (solved[i] > longest) longest = solved[i];
        if (longest >= least) continue;
        least = longest;
        memcpy(best, solved, sizeof best);
    }
    memcpy(sizes, best, sizeof best);
    return true;
}

bool trial_sizes(const ftl_plan *plan, int64_t rows, int64_t columns, arena *memory,
                 int64_t sizes[VERIFY_SIZES_MAX]) {
    enum { TRIES = 3, PARTS = 2 };
    static const int64_t counts[TRIES][PARTS] = {{2, 4}, {2, 2}, {1, 1}};
    if (plan->size_count > VERIFY_SIZES_MAX) return false;
    for (uint64_t try = 0; try < TRIES; try++) {
        int counted = 0; /* batches, heads, key heads: 2, 4, 2 */
        for (int32_t i = 0; i < plan->size_count && i < VERIFY_SIZES_MAX; i++) {
            sizes[i] = size_for(plan, i, rows, columns, 0);
            if (sizes[i] == 0) sizes[i] = counts[try][counted++ % PARTS];
        }
        if (!settle(plan, try, memory, sizes)) continue;
        trial t;
        char why[FTL_WHY_BYTES];
        arena_mark mark = arena_here(memory);
        bool fits = trial_make(plan, sizes, 1, memory, &t, why);
        arena_reset(memory, mark);
        if (fits) return true;
    }
    return false;
}

static void add_shape(const ftl_plan *plan, const int64_t *sizes, text_buffer *out) {
    text_add_z(out, ",");
    for (int32_t i = 0; i < plan->size_count; i++) {
        text_format(out, "%s%" PRId64, i ? "x" : "", sizes[i]);
    }
}

void trial_shapes(const ftl_plan *plan, uint64_t seed, arena *memory, text_buffer *out) {
    enum { SHAPES = 4, LENGTHS = 3 };
    static const int64_t rows[SHAPES] = {6, 66, 33, 130};
    text_add_z(out, "decisive");
    for (int k = 0; k < SHAPES; k++) {
        int64_t sizes[VERIFY_SIZES_MAX] = {0};
        int64_t few = rows[k] + (int64_t)random_below(seed, 7, (uint64_t)k, 5);
        const int64_t lengths[LENGTHS] = {few, few / 3 + 2, few * 3 / 2 + 1};
        if (!trial_sizes(plan, few, 24, memory, sizes)) return;
        for (int32_t i = 0, n = k; i < plan->size_count; i++) {
            if (sizes[i] >= few) sizes[i] = lengths[n++ % LENGTHS];
        }
        if (settle(plan, seed, memory, sizes)) add_shape(plan, sizes, out);
    }
}

/* --- running ---------------------------------------------------------------------------------- */

int64_t trial_count(const buffer *b) {
    return b->rows * b->columns;
}

static ftl_status launch(ftl_context *context, trial *t, const trial_machine *m,
                         text_buffer *detail) {
    ftl_scalar scalars[TRIAL_SCALARS_MAX];
    ftl_arguments arguments = t->data.arguments;
    if (m->runner) {
        double milliseconds = 0;
        return m->runner->launch(m->runner->user, context, &arguments, &milliseconds, detail);
    }
    int32_t count = 0;
    for (int32_t i = 0; i < arguments.scalar_count && count < TRIAL_SCALARS_MAX; i++) {
        scalars[count++] = arguments.scalars[i];
    }
    for (int32_t i = 0; i < m->pin_count && count < TRIAL_SCALARS_MAX; i++) {
        scalars[count++] = m->pins[i];
    }
    arguments.scalars = scalars, arguments.scalar_count = count;
    return ftl_interpret(context, m->source, m->arithmetic, &arguments);
}

ftl_status trial_run_telling(ftl_context *context, trial *t, const trial_machine *machine,
                             arena *memory, double ***values, text_buffer *detail) {
    text_buffer unheard;
    int32_t tensors = t->program.plan->tensor_count;
    *values = arena_array(memory, double *, tensors + 1);
    for (int32_t i = 0; i < tensors; i++) {
        if (t->data.tensors[i].of->role != FTL_INPUT)
            buffer_poison(&t->data.tensors[i], BUFFER_POISON);
    }
    text_init(&unheard, 1 << 16);
    ftl_status status = launch(context, t, machine, detail ? detail : &unheard);
    text_done(&unheard);
    if (status == FTL_NO_MEMORY) arena_give_up(memory);
    if (status) return status;
    for (int32_t i = 0; i < tensors; i++) {
        buffer *b = &t->data.tensors[i];
        if (b->of->role != FTL_INPUT) (*values)[i] = buffer_load(b, memory);
    }
    return FTL_OK;
}

ftl_status trial_run(ftl_context *context, trial *t, const trial_machine *machine, arena *memory,
                     double ***values) {
    return trial_run_telling(context, t, machine, memory, values, NULL);
}

/* --- texts ------------------------------------------------------------------------------------ */

static bool is_defined(str text, str name) {
    while (text.length) {
        str line = str_trim(str_cut(&text, '\n'));
        if (!str_starts(line, STR("let ")) && !str_starts(line, STR("Input "))) continue;
        for (size_t i = 4; i + name.length <= line.length; i++) {
            bool begins = !str_is_word(line.data[i - 1]);
            bool ends = i + name.length == line.length || !str_is_word(line.data[i + name.length]);
            if (begins && ends && memcmp(line.data + i, name.data, name.length) == 0) return true;
        }
    }
    return false;
}

/* "for j = 0:kv_len/BN": the divisor of a bound, where nothing defines it. */
int trial_open_sizes(str canonical, str names[TRIAL_OPEN_MAX]) {
    int count = 0;
    for (str rest = canonical; rest.length;) {
        str line = str_trim(str_cut(&rest, '\n'));
        if (!str_starts(line, STR("for "))) continue;
        for (size_t i = 0; i + 1 < line.length; i++) {
            if (line.data[i] != '/' || line.data[i + 1] == '/') continue;
            size_t begin = i + 1, end = begin;
            while (end < line.length && str_is_word(line.data[end])) end++;
            str name = {line.data + begin, end - begin};
            bool is_number = !name.length || (*name.data >= '0' && *name.data <= '9');
            bool is_known = is_number || is_defined(canonical, name);
            for (int k = 0; k < count; k++) is_known |= str_equal(names[k], name);
            if (!is_known && count < TRIAL_OPEN_MAX) names[count++] = name;
        }
    }
    return count;
}

double trial_distance(const double *a, const double *b, int64_t count) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_same = a[i] == b[i] || (isnan(a[i]) && isnan(b[i]));
        if (is_same) {
            size += isfinite(b[i]) ? b[i] * b[i] : 0;
            continue;
        }
        if (!isfinite(a[i]) || !isfinite(b[i])) return (double)INFINITY;
        error += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return error == 0 ? 0 : size > 0 ? sqrt(error / size) : (double)INFINITY;
}
