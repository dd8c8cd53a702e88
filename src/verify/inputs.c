#include "verify/inputs.h"

#include "verify/expected.h"
#include "verify/plan_find.h"
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

static int64_t inputs_size(const verify_program *program, const verify_case *c, const char *name,
                           int64_t otherwise) {
    int32_t i = plan_find_size(program->plan, name);
    return i >= 0 ? c->sizes[i] : otherwise;
}

static bool ends_in_axes(const ftl_plan *plan, const char *name, const char *row,
                         const char *column) {
    int32_t at = plan_find_tensor(plan, name);
    const ftl_plan_tensor *tensor = &plan->tensors[at < 0 ? 0 : at];
    return at >= 0 && tensor->axis_count >= 2 &&
           strcmp(tensor->axes[tensor->axis_count - 2].name, row) == 0 &&
           (!column || strcmp(tensor->axes[tensor->axis_count - 1].name, column) == 0);
}

bool inputs_have_keys(const verify_program *program) {
    const ftl_plan *plan = program->plan;
    return ends_in_axes(plan, "Q", "q", "d") && ends_in_axes(plan, "K", "kv", "d") &&
           ends_in_axes(plan, "V", "kv", NULL);
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

int inputs_tiles(const ftl_plan *plan, int32_t size, int64_t *tiles, int most) {
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
        int64_t element = (int64_t)ftl_type_bytes(plan->tiles[i].type);
        if (tensor->axes[tensor->axis_count - 1].size == size && element) {
            add_tile(plan->tiles[i].row_bytes / element, tiles, &count, most);
        }
    }
    if (!count) add_tile(64, tiles, &count, most);
    return count;
}

/* DOMINANT: the key that dominates in a matrix of K; kv_head counts over all heads and batches. */
static int64_t inputs_dominant_key(const verify_program *program, const verify_case *c,
                                   int64_t kv_head) {
    int64_t q_len = inputs_size(program, c, "q_len", 1),
            kv_len = inputs_size(program, c, "kv_len", 1);
    int64_t q_tile[1] = {64}, kv_tile[1] = {64};
    inputs_tiles(program->plan, plan_find_size(program->plan, "q_len"), q_tile, 1);
    inputs_tiles(program->plan, plan_find_size(program->plan, "kv_len"), kv_tile, 1);
    int64_t m = q_tile[0], n = kv_tile[0], first_masked = kv_len - q_len + 1;
    const int64_t places[] = {
        kv_len - 1, /* the last column */
        n - 1,
        n,
        2 * n - 1,
        2 * n,                /* edges of tiles */
        first_masked,         /* behind the last key that query 0 sees */
        first_masked + m - 1, /* the same for the last query of the first block */
        first_masked + m,     /* and the first one of the second */
        kv_len / n * n,       /* the first key of the last, short tile */
        kv_len / n * n - 1,
        0,
        first_masked + q_len / 2,
    };
    int64_t count = (int64_t)(sizeof places / sizeof *places), at = (c->plant + kv_head) % count;
    for (int64_t i = 0; i < count; i++, at = (at + 1) % count) {
        if (places[at] >= 0 && places[at] < kv_len) return places[at];
    }
    return 0;
}

/* --- filling ---------------------------------------------------------------------------------- */

/* Q has the direction of signs; the dominant key has it, too, so that its score is 16 before the
 * scale of 1/sqrt(d) is varied; all other scores are small.
 */
static double sign_of(uint64_t seed, int64_t column) {
    return random_bits(seed, 1000, (uint64_t)column) & 1 ? 1 : -1;
}

/* A multiple of 1/8 that all 16-bit types hold, another one for most places; without a rule, so
 * that sums over neighbours do not cancel.
 */
static double code_of(int64_t row, int64_t matrix, int64_t column) {
    return ((double)random_below((uint64_t)row, (uint64_t)matrix, (uint64_t)column, 61) - 30) / 8;
}

static void dominant_row(const case_data *data, const buffer *b, int64_t row, double *values) {
    const char name = b->of->name[0];
    int64_t index[FTL_AXES_MAX] = {0}, rows = b->argument.extents[b->argument.axis_count - 2];
    buffer_row_index(b, row, index);
    int64_t at = index[b->argument.axis_count - 2], matrix = row / rows;
    bool dominates = name == 'K' && at == inputs_dominant_key(data->program, data->of, matrix);
    for (int64_t e = 0; e < b->columns; e++) {
        if (name == 'Q') values[e] = sign_of(data->seed, e) + values[e] / 32;
        else if (name == 'V') values[e] = code_of(at, matrix, e);
        else if (dominates) values[e] = sign_of(data->seed, e) * 16 / sqrt((double)b->columns);
        else values[e] /= 4;
    }
}

/* What a key's score is: by head it rises from key to key, falls, or is 0 but for ever higher
 * jumps.
 */
static double climbing_score(int64_t at, int64_t keys, int64_t matrix, double highest) {
    enum { APART = 37 };
    static const double STEP = 0.5, JUMP = 14;
    double step = STEP < highest / (double)keys ? STEP : highest / (double)keys;
    int64_t jumps = keys / APART + 1;
    double jump = JUMP < highest / (double)jumps ? JUMP : highest / (double)jumps;
    switch (matrix % 3) {
    case 0: return step * (double)at;
    case 1: return step * (double)(keys - at);
    default: return at % APART == APART / 2 ? jump * (double)(at / APART + 1) : 0;
    }
}

static void climbing_row(const case_data *data, const buffer *b, int64_t row, double *values) {
    int64_t index[FTL_AXES_MAX] = {0}, rows = b->argument.extents[b->argument.axis_count - 2];
    buffer_row_index(b, row, index);
    /* A softmax takes what f32 can add; of a program that is not known scores may be results. */
    double highest = expected_choose(data->program) == EXPECTED_ATTENTION ? 256 : 32;
    double score = climbing_score(index[b->argument.axis_count - 2], rows, row / rows, highest);
    for (int64_t e = 0; e < b->columns && b->of->name[0] != 'V'; e++) {
        double sign = sign_of(data->seed, e);
        values[e] = b->of->name[0] == 'Q' ? sign + values[e] / 32
                                          : sign * score / sqrt((double)b->columns) + values[e] / 4;
    }
}

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

/* ALiBi's slopes are a geometric sequence over the heads. */
static void slope_row(const buffer *b, double *values) {
    for (int64_t i = 0; i < b->columns; i++)
        values[i] = exp2(-8.0 * (double)(i + 1) / (double)b->columns);
}

static void fill(const case_data *data, buffer *b, int32_t position, arena *memory) {
    arena_mark mark = arena_here(memory);
    double *values = arena_array(memory, double, b->columns + 1);
    bool has_keys = inputs_have_keys(data->program);
    bool is_key = has_keys && strchr("QKV", b->of->name[0]) && !b->of->name[1];
    bool is_slope = has_keys && strcmp(b->of->name, "slope") == 0;
    for (int64_t row = 0; row < b->rows; row++) {
        if (!tables_reach(data, b, row)) continue; /* it stays NaN */
        random_normal(data->seed, (uint64_t)position, (uint64_t)(row * b->columns),
                      (size_t)b->columns, values);
        if (is_slope) slope_row(b, values);
        else if (data->of->input == VERIFY_DOMINANT && is_key) dominant_row(data, b, row, values);
        else if (data->of->input == VERIFY_CLIMBING && is_key) climbing_row(data, b, row, values);
        else if (data->of->input == VERIFY_ENDS) weigh_edges(data, b, row, values);
        buffer_store_row(b, row, values);
    }
    arena_reset(memory, mark);
}

static double scalar_value(const verify_program *program, const ftl_plan_scalar *scalar,
                           const buffer *first) {
    if (scalar->type == FTL_I32) return 3;
    if (inputs_have_keys(program) && strcmp(scalar->name, "scale") == 0) {
        return 1 / sqrt((double)(first->columns > 0 ? first->columns : 1));
    }
    return 0.5;
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

/* Scalars, and the sizes that no tensor shows, which are given like scalars. */
static void make_scalars(case_data *data) {
    const ftl_plan *plan = data->program->plan;
    int32_t count = 0;
    for (int32_t i = 0; i < plan->scalar_count; i++) {
        data->scalars[count++] =
            (ftl_scalar){plan->scalars[i].name,
                         scalar_value(data->program, &plan->scalars[i], &data->tensors[0])};
    }
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
    make_scalars(data);
    if (!is_launchable(data, memory, why)) return false;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        bool is_number = plan->tensors[t].role == FTL_INPUT && plan->tensors[t].type != FTL_I32;
        if (is_number) fill(data, &data->tensors[t], t, memory);
    }
    return true;
}
