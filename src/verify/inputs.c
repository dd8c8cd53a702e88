#include "verify/inputs.h"

#include "verify/conditions.h"
#include "verify/drawn.h"
#include "verify/plan_find.h"
#include "verify/planted.h"
#include "verify/program.h"
#include "verify/random.h"
#include "verify/tables.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --- finding ---------------------------------------------------------------------------------- */

buffer *inputs_find(const case_data *data, const char *name) {
    int32_t i = plan_find_tensor(data->program->plan, name);
    return i >= 0 ? &data->tensors[i] : NULL;
}

double inputs_scalar(const case_data *data, const char *name, double otherwise) {
    for (int32_t i = 0; i < data->arguments.scalar_count; i++) {
        if (strcmp(data->scalars[i].name, name) == 0) return (double)(float)data->scalars[i].value;
    }
    return otherwise;
}

/* --- tiles ------------------------------------------------------------------------------------ */

static void add_tile(int64_t tile, int64_t *tiles, int *count, int most) {
    int at = 0;
    while (at < *count && tiles[at] < tile) at++;
    if (tile <= 1 || *count == most || (at < *count && tiles[at] == tile)) return;
    memmove(tiles + at + 1, tiles + at, (size_t)(*count - at) * sizeof *tiles);
    tiles[at] = tile;
    ++*count;
}

int inputs_known_tiles(const ftl_plan *plan, int32_t size, int64_t *tiles, int most) {
    int count = 0;
    for (int32_t w = 0; w < plan->walk_count; w++) { /* "q_len/64": size, 64, divide */
        const ftl_formula *walk = &plan->walks[w];
        for (int32_t i = 0; i + 2 < walk->step_count; i++) {
            const ftl_formula_step *s = &walk->steps[i];
            if (s[0].op == FTL_PUSH_SIZE && s[0].index == size && s[1].op == FTL_PUSH_INTEGER &&
                s[2].op == FTL_DIVIDE_UP) {
                add_tile(s[1].integer, tiles, &count, most);
            }
        }
    }
    /* a shared tile of a tensor whose axis has this length */
    for (int32_t i = 0; i < plan->tile_count; i++) {
        int32_t at = plan_find_tensor(plan, plan->tiles[i].name);
        if (at < 0 || plan->tensors[at].axis_count < 2) continue;
        const ftl_plan_tensor *tensor = &plan->tensors[at];
        if (tensor->axes[tensor->axis_count - 2].size == size) {
            add_tile(plan->tiles[i].rows, tiles, &count, most);
        }
        int64_t bits = (int64_t)ftl_type_bits(plan->tiles[i].type);
        if (tensor->axes[tensor->axis_count - 1].size == size && bits) {
            add_tile(8 * plan->tiles[i].row_bytes / bits, tiles, &count, most);
        }
    }
    return count;
}

int inputs_tiles(const ftl_plan *plan, int32_t size, int64_t *tiles, int most) {
    int count = inputs_known_tiles(plan, size, tiles, most);
    if (!count) add_tile(64, tiles, &count, most);
    return count;
}

bool inputs_have_workspace(const ftl_plan *plan) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].role == FTL_WORKSPACE) return true;
    }
    return false;
}

/* --- filling ---------------------------------------------------------------------------------- */

static bool is_edge(const ftl_plan *plan, const ftl_plan_axis *axis, int64_t index,
                    int64_t extent) {
    int64_t tiles[4];
    if (axis->size < 0) return false;
    if (index == extent - 1) return true;
    int count = inputs_tiles(plan, axis->size, tiles, 4);
    return count > 0 && index % tiles[0] == 0 && index > 0;
}

static void weigh_edges(const case_data *data, const buffer *b, int64_t row, double *values) {
    const ftl_plan *plan = data->program->plan;
    int64_t index[FTL_AXES_MAX] = {0};
    int last = b->argument.axis_count - 1;
    buffer_row_index(b, row, index);
    double weight = 1;
    for (int i = 0; i < last; i++) {
        if (is_edge(plan, &b->of->axes[i], index[i], b->argument.extents[i])) weight = 4;
    }
    for (int64_t e = 0; e < b->columns; e++) {
        bool is_column = is_edge(plan, &b->of->axes[last], e, b->columns);
        values[e] *= is_column ? 4 : weight;
    }
}

/* Rows near zero, so that what is added to their sums decides; rows in which one element stands out
 * further than f32 has powers, each in another column; rows far below zero; rows like others.
 * Queries have rows near zero alone, keys and values none: other cases have scores of every size.
 */
static void spread_rows(const buffer *b, planted_part part, int64_t row, double *values) {
    enum { LIKE_OTHERS, PEAK, NEAR_ZERO, LOW, KINDS };
    static const double FAR = 128, SMALL = 0x1p-10;
    int64_t index[FTL_AXES_MAX] = {0};
    buffer_row_index(b, row, index);
    int64_t own = b->argument.axis_count > 1 ? index[b->argument.axis_count - 2] : 0;
    int64_t kind = planted_fold(own);
    bool is_left = part == PLANTED_LEFT, is_kept = part == PLANTED_VALUES;
    if (b->of->axis_count < 2 || is_kept || (is_left && kind != NEAR_ZERO)) return;
    for (int64_t e = 0; e < b->columns; e++) {
        if (kind == NEAR_ZERO) values[e] *= SMALL;
        if (kind == LOW) values[e] -= FAR;
        if (kind == PEAK && e == planted_match(own, b->columns)) values[e] = FAR;
    }
}

static void fill(const case_data *data, const planted *p, buffer *b, int32_t position,
                 arena *memory) {
    arena_mark mark = arena_here(memory);
    double *values = arena_array(memory, double, b->columns + 1);
    double factor = drawn_factor(data, p, position) * buffer_spread(b->of->type);
    /* A number for each head, say: as slopes are, and any numbers in every other case. */
    bool is_sequence = b->of->axis_count == 1 && b->of->type == FTL_F32 &&
                       (data->of->input != VERIFY_NORMAL || data->of->number % 2 == 0);
    for (int64_t row = 0; row < b->rows; row++) {
        if (!tables_reach(data, b, row)) continue; /* it stays NaN */
        random_normal(data->seed, (uint64_t)position, (uint64_t)(row * b->columns),
                      (size_t)b->columns, values);
        for (int64_t i = 0; i < b->columns && is_sequence; i++)
            values[i] = exp2(-8.0 * (double)(i + 1) / (double)b->columns);
        if (data->of->input == VERIFY_ENDS && !is_sequence) weigh_edges(data, b, row, values);
        else if (data->of->input == VERIFY_ROWS && !is_sequence)
            spread_rows(b, planted_part_of(p, position), row, values);
        else if (!is_sequence) planted_row(data, p, position, row, values);
        drawn_row(data, p, position, row, b->columns, values);
        for (int64_t e = 0; e < b->columns && factor != 1; e++) values[e] *= factor;
        buffer_store_row(b, row, values);
    }
    arena_reset(memory, mark);
}

/* --- scalars ---------------------------------------------------------------------------------- */

/* How long a walk of the grid may be at most: mostly as long as anything is, so that all of it is
 * run, by turns less.
 */
static double bound_value(const case_data *data) {
    static const int64_t parts[] = {1, 1, 2, 1, 0, 1, 1, 3}; /* of the longest; 0: nothing */
    enum { COUNT = sizeof parts / sizeof *parts };
    int64_t part = parts[data->of->number % COUNT], longest = drawn_longest(data);
    if (data->of->is_long || part == 1) return (double)longest;
    return part ? (double)(longest / part) : 0;
}

/* By turns of both signs and of every magnitude; where scores are planted, what makes them what
 * they are meant to be, as in the first cases of a list.
 */
static double scalar_value(const case_data *data, int32_t i, double usual) {
    static const double factors[] = {1, 1, -1, 4, 1, -0.25, 8, 0.01, -3, 2};
    static const double whole[] = {3, 3, 1, 0, 7, -2, 40, 2, 65, 1};
    enum { COUNT = sizeof factors / sizeof *factors };
    int32_t turn = (data->of->number + 3 * i) % COUNT;
    if (data->of->draw.seed) return drawn_scalar_value(data, i, usual);
    if (drawn_is_bound(data->program->plan, i)) return bound_value(data);
    if (data->program->plan->scalars[i].type == FTL_I32) return whole[turn];
    return data->of->input == VERIFY_NORMAL ? usual * factors[turn] : usual;
}

static bool make_tensor(case_data *data, int32_t t, arena *memory, char why[FTL_WHY_BYTES]) {
    const ftl_plan_tensor *of = &data->program->plan->tensors[t];
    static const double no_scalars[64] = {0}; /* lengths are made of sizes */
    int64_t extents[FTL_AXES_MAX] = {0};
    for (int i = 0; i < of->axis_count; i++) {
        double extent;
        bool is_known =
            ftl_formula_evaluate(&of->axes[i].extent, data->of->sizes, no_scalars, &extent);
        if (!is_known || extent < 0) {
            snprintf(why, FTL_WHY_BYTES, "the length '%s' of axis %s of '%s' cannot be computed",
                     of->axes[i].extent.text, of->axes[i].name, of->name);
            return false;
        }
        extents[i] = (int64_t)extent;
    }
    buffer_new(memory, of, extents, data->of->layout, &data->tensors[t]);
    data->arguments_of_tensors[t] = data->tensors[t].argument;
    if (of->role != FTL_INPUT || of->type != FTL_I32) return true;
    return tables_fill(data, &data->tensors[t], t, memory, why);
}

static bool is_an_axis(const ftl_plan *plan, int32_t size) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int i = 0; i < plan->tensors[t].axis_count; i++) {
            if (plan->tensors[t].axes[i].size == size) return true;
        }
    }
    return false;
}

/* Scalars that fit the conditions, and the sizes that no tensor shows, which are given like
 * scalars.
 */
static void make_scalars(case_data *data, const planted *p, arena *memory) {
    const ftl_plan *plan = data->program->plan;
    int64_t sizes[VERIFY_SIZES_MAX];
    double *values = arena_array(memory, double, plan->scalar_count + 1);
    bool *is_pinned = arena_array(memory, bool, plan->size_count + 1);
    int32_t count = 0;
    memcpy(sizes, data->of->sizes, sizeof sizes);
    for (int32_t i = 0; i < plan->size_count; i++) is_pinned[i] = true;
    for (int32_t i = 0; i < plan->scalar_count; i++)
        values[i] = scalar_value(data, i, planted_scale(data, p));
    conditions_solve(plan, data->seed, &(conditions_values){sizes, values, is_pinned});
    for (int32_t i = 0; i < plan->scalar_count; i++)
        data->scalars[count++] = (ftl_scalar){plan->scalars[i].name, values[i]};
    for (int32_t i = 0; i < plan->size_count; i++) {
        if (is_an_axis(plan, i)) continue;
        data->scalars[count++] = (ftl_scalar){plan->sizes[i].name, (double)data->of->sizes[i]};
    }
    data->arguments =
        (ftl_arguments){data->arguments_of_tensors, plan->tensor_count, data->scalars, count};
}

/* Each kernel's conditions hold, and its arguments are as it needs them. */
static bool is_launchable(const case_data *data, arena *memory, char why[FTL_WHY_BYTES]) {
    const verify_program *program = data->program;
    ftl_launch *launch = arena_new(memory, ftl_launch);
    int32_t count = program->kernels ? program->kernel_count : 1;
    ftl_tensor *tensors = arena_array(memory, ftl_tensor, data->arguments.tensor_count + 1);
    ftl_scalar *scalars = arena_array(memory, ftl_scalar, data->arguments.scalar_count + 1);
    for (int32_t i = 0; i < count; i++) {
        const ftl_plan *plan = program->kernels ? program->kernels[i].plan : program->plan;
        ftl_arguments own = program_arguments(plan, &data->arguments, tensors, scalars);
        if (!ftl_plan_resolve(plan, &own, launch, why)) return false;
    }
    return true;
}

bool inputs_make(case_data *data, arena *memory, char why[FTL_WHY_BYTES]) {
    const ftl_plan *plan = data->program->plan;
    data->tensors = arena_array(memory, buffer, plan->tensor_count + 1);
    data->arguments_of_tensors = arena_array(memory, ftl_tensor, plan->tensor_count + 1);
    data->scalars = arena_array(memory, ftl_scalar, plan->scalar_count + plan->size_count + 1);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (!make_tensor(data, t, memory, why)) return false;
    }
    planted_turns chains = planted_find(data->program);
    planted p = chains.turns[data->of->turn % chains.count];
    make_scalars(data, &p, memory);
    if (!is_launchable(data, memory, why)) return false;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        bool is_number = plan->tensors[t].role == FTL_INPUT && plan->tensors[t].type != FTL_I32;
        if (is_number) fill(data, &p, &data->tensors[t], t, memory);
    }
    return true;
}
