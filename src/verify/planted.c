#include "verify/planted.h"

#include "verify/cases.h"
#include "verify/expected.h"
#include "verify/random.h"

#include <math.h>
#include <string.h>

/* --- which tensors ---------------------------------------------------------------------------- */

static bool is_matrix(const ftl_plan *plan, int32_t t) {
    const ftl_plan_tensor *tensor = &plan->tensors[t];
    return tensor->role == FTL_INPUT && tensor->type != FTL_I32 && tensor->axis_count >= 2;
}

static const char *name_of(const ftl_plan *plan, int32_t t, int axis) {
    return plan->tensors[t].axes[axis].name;
}

/* The axis of a tensor's matrix that is called so; -1: none is. */
static int find_axis(const ftl_plan *plan, int32_t t, const char *name) {
    int count = plan->tensors[t].axis_count;
    for (int i = count - 1; i >= 0 && i >= count - 2; i--) {
        if (strcmp(name_of(plan, t, i), name) == 0) return i;
    }
    return -1;
}

static bool is_stored(const ftl_plan *plan, const char *name) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (plan->tensors[t].role == FTL_OUTPUT && find_axis(plan, t, name) >= 0) return true;
    }
    return false;
}

/* The other axis of the matrix. */
static int other_axis(const ftl_plan *plan, int32_t t, int axis) {
    int last = plan->tensors[t].axis_count - 1;
    return axis == last ? last - 1 : last;
}

/* The last axis is as long, whatever it is called: views give axes other names. */
static bool is_as_long(const ftl_plan *plan, int32_t a, int32_t b) {
    const ftl_plan_tensor *one = &plan->tensors[a], *other = &plan->tensors[b];
    const ftl_formula *first = &one->axes[one->axis_count - 1].extent;
    const ftl_formula *second = &other->axes[other->axis_count - 1].extent;
    if (first->step_count != 1 || second->step_count != 1) return false;
    const ftl_formula_step *left = first->steps, *right = second->steps;
    if (left->op != right->op) return false;
    return left->op == FTL_PUSH_INTEGER ? left->integer == right->integer
                                        : left->op == FTL_PUSH_SIZE && left->index == right->index;
}

/* Do rows of a and of b meet along an axis that no Output has? */
static bool meet(const ftl_plan *plan, int32_t a, int32_t b, bool by_length, planted *p) {
    int last = plan->tensors[a].axis_count - 1, last_of_b = plan->tensors[b].axis_count - 1;
    for (int i = last; i >= last - 1; i--) {
        int k = find_axis(plan, b, name_of(plan, a, i));
        if (by_length && k < 0 && i == last && is_as_long(plan, a, b)) k = last_of_b;
        if (k < 0 || is_stored(plan, name_of(plan, a, i))) continue;
        p->left = (planted_matrix){a, other_axis(plan, a, i), i};
        p->right = (planted_matrix){b, other_axis(plan, b, k), k};
        const char *row = name_of(plan, b, p->right.row);
        return strcmp(name_of(plan, a, p->left.row), row) != 0;
    }
    return false;
}

static planted_matrix find_values(const ftl_plan *plan, const planted *p) {
    const char *keys = name_of(plan, p->right.tensor, p->right.row);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (!is_matrix(plan, t) || t == p->left.tensor || t == p->right.tensor) continue;
        int axis = find_axis(plan, t, keys);
        if (axis >= 0) return (planted_matrix){t, axis, other_axis(plan, t, axis)};
    }
    return (planted_matrix){.tensor = -1};
}

/* Rows of queries are rows of an Output. */
static bool is_row_of_output(const ftl_plan *plan, const char *name) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        int row = tensor->axis_count - 2;
        if (tensor->role == FTL_OUTPUT && row >= 0 && strcmp(name_of(plan, t, row), name) == 0)
            return true;
    }
    return false;
}

/* A product that weighs nothing is better than none, a chain from the wrong end better than that.
 */
static int merit(const ftl_plan *plan, const planted *p) {
    if (!planted_has_scores(p)) return 0;
    if (!planted_has_values(p)) return 1;
    return is_row_of_output(plan, name_of(plan, p->left.tensor, p->left.row)) ? 3 : 2;
}

static void find(const ftl_plan *plan, bool by_length, planted *found) {
    for (int32_t a = 0; a < plan->tensor_count; a++) {
        for (int32_t b = 0; b < plan->tensor_count; b++) {
            planted p;
            if (a == b || !is_matrix(plan, a) || !is_matrix(plan, b)) continue;
            if (!meet(plan, a, b, by_length, &p)) continue;
            p.values = find_values(plan, &p);
            if (merit(plan, &p) > merit(plan, found)) *found = p;
        }
    }
}

planted planted_find(const ftl_plan *plan) {
    planted found = {{.tensor = -1}, {.tensor = -1}, {.tensor = -1}};
    find(plan, false, &found);
    if (!planted_has_values(&found)) find(plan, true, &found);
    return found;
}

bool planted_has_scores(const planted *p) {
    return p->left.tensor >= 0;
}

bool planted_has_values(const planted *p) {
    return p->values.tensor >= 0;
}

static int64_t extent(const case_data *data, const planted_matrix *m, int axis) {
    return data->tensors[m->tensor].argument.extents[axis];
}

double planted_scale(const case_data *data, const planted *p) {
    int64_t summed = planted_has_scores(p) ? extent(data, &p->left, p->left.contracted) : 4;
    return 1 / sqrt((double)(summed > 0 ? summed : 1));
}

/* --- which places ----------------------------------------------------------------------------- */

static int64_t tile_along(const case_data *data, const planted_matrix *m) {
    const ftl_plan *plan = data->program->plan;
    int64_t tile[1] = {64};
    inputs_tiles(plan, plan->tensors[m->tensor].axes[m->row].size, tile, 1);
    return tile[0];
}

/* DOMINANT: the key that dominates in a matrix; matrices count over all heads and batches. */
static int64_t dominant_key(const case_data *data, const planted *p, int64_t matrix) {
    int64_t q_len = extent(data, &p->left, p->left.row);
    int64_t kv_len = extent(data, &p->right, p->right.row);
    int64_t m = tile_along(data, &p->left), n = tile_along(data, &p->right);
    int64_t first_masked = kv_len - q_len + 1;
    const int64_t places[] = {
        kv_len - 1, /* the last column */
        n - 1,
        n,
        2 * n - 1,
        2 * n,                /* edges of tiles */
        first_masked,         /* after the last key that query 0 sees */
        first_masked + m - 1, /* the same for the last query of the first block */
        first_masked + m,     /* and the first one of the second */
        kv_len / n * n,       /* the first key of the last, short tile */
        kv_len / n * n - 1,
        0,
        first_masked + q_len / 2,
    };
    int64_t count = (int64_t)(sizeof places / sizeof *places),
            at = (data->of->plant + matrix) % count;
    for (int64_t i = 0; i < count; i++, at = (at + 1) % count) {
        if (places[at] >= 0 && places[at] < kv_len) return places[at];
    }
    return 0;
}

/* --- scores ----------------------------------------------------------------------------------- */

/* CLIMBING: queries by turns of 16 rows see scores that rise from key to key, rise by a few steps,
 * fall, or are 0 but for one key, far on or near the end, that is just high enough for a maximum to
 * move where it may lag by 2^15: what came before then still weighs something.
 */
enum { WAYS = 5, ROWS_A_WAY = 16 };

static double climbing_score(int64_t at, int64_t keys, int64_t way, int64_t matrix,
                             double highest) {
    enum { LEVELS = 5 };
    static const double STEP = 0.5, JUST = 10.6;
    double step = STEP < 2 * highest / (double)keys ? STEP : 2 * highest / (double)keys;
    double middle = (double)(keys - 1) / 2;
    switch (way) {
    case 0: return at == keys - (matrix % 2 && keys > 64 ? 40 : 2) ? JUST : 0;
    case 1: return step * ((double)at - middle);
    case 2: return at == keys * 2 / 3 ? JUST : 0;
    case 3: return highest * (double)(at * LEVELS / keys - LEVELS / 2) / (LEVELS / 2);
    default: return step * (middle - (double)at);
    }
}

/* Each way has elements of its own along what is summed; of too few there is one way a matrix. */
static int64_t way_of_element(int64_t contracted, int64_t summed, int64_t matrix) {
    return (summed < 2 * WAYS ? matrix : contracted) % WAYS;
}

/* What the elements of a way stand for those of the others, too. */
static double weight_of_way(int64_t way, int64_t summed) {
    if (summed < 2 * WAYS) return 1;
    return (double)summed / (double)((summed - way + WAYS - 1) / WAYS);
}

/* A query's own way, and a little more than what is planted, so that a jump is just high enough for
 * some of them whatever is done to scores.
 */
static double climbing_share(int64_t query, int64_t contracted, int64_t summed, int64_t matrix) {
    int64_t own = (query / ROWS_A_WAY + matrix) % WAYS;
    if (way_of_element(contracted, summed, matrix) != own && summed >= 2 * WAYS) return 0;
    return 1 + (double)(query % ROWS_A_WAY) / (3 * ROWS_A_WAY);
}

/* The score of all keys, by query: rows without a score near 0, and rows between. */
static double low_share(int64_t query) {
    static const double shares[] = {1, 1, 0.5, 0};
    return shares[query % 4];
}

/* Queries have the direction of signs, and so has what a key has beside its noise: its score is
 * then what it was planted to be, times the scale's own ratio to planted_scale.
 */
static double sign_of(uint64_t seed, int64_t contracted) {
    return random_bits(seed, 1000, (uint64_t)contracted) & 1 ? 1 : -1;
}

/* A multiple of 1/8 that all 16-bit types hold, another one for most places; without a rule, so
 * that sums over neighbours do not cancel.
 */
static double code_of(int64_t row, int64_t matrix, int64_t column) {
    return ((double)random_below((uint64_t)row, (uint64_t)matrix, (uint64_t)column, 61) - 30) / 8;
}

/* An element, and what is the same for a row of them. */
typedef struct spot {
    int64_t row, contracted, matrix;
    int64_t rows, summed, dominant; /* of the matrix; the key that dominates, or -1 */
    double scale, highest;          /* planted_scale; of climbing scores */
    bool is_normalised;             /* weights are those of a softmax, as far as is known */
    bool is_page;                   /* matrices may be parts of one sequence, found by a table */
} spot;

static double query(const case_data *data, const spot *at, double noise) {
    double share = 1, least = 32;
    if (data->of->input == VERIFY_LOW) share = low_share(at->row);
    if (data->of->input == VERIFY_CLIMBING) {
        share = climbing_share(at->row, at->contracted, at->summed, at->matrix);
        least = 128; /* of the other ways' scores */
    }
    return share * sign_of(data->seed, at->contracted) + noise / least;
}

/* A score of its own, and what is left of the noise. */
static double key(const case_data *data, const spot *at, double noise) {
    static const double DOMINANT = 16, LOW = -128;
    double sign = sign_of(data->seed, at->contracted) * at->scale, score = 0;
    if (at->row == at->dominant) return sign * DOMINANT;
    if (data->of->input == VERIFY_LOW) score = LOW;
    if (data->of->input == VERIFY_CLIMBING) {
        int64_t way = way_of_element(at->contracted, at->summed, at->matrix);
        score = climbing_score(at->row, at->rows, way, at->matrix, at->highest);
        if (at->is_page) score += at->highest / 4 * (double)(at->matrix % 5 - 2);
        score *= weight_of_way(way, at->summed);
    }
    return sign * score + noise / 4;
}

static double value(const case_data *data, const spot *at, double noise) {
    if (data->of->input == VERIFY_DOMINANT) return code_of(at->row, at->matrix, at->contracted);
    /* A mean does not average out. Nor do the roundings of weights that rise and level off, which
     * have one sign for many keys: where weights are not divided by their sum, they add up.
     */
    bool adds_up = data->of->input == VERIFY_CLIMBING && !at->is_normalised;
    return adds_up ? noise : noise + 1;
}

void planted_row(const case_data *data, const planted *p, int32_t position, int64_t row,
                 double *values) {
    const planted_matrix *all[] = {&p->left, &p->right, &p->values}, *m = NULL;
    for (int i = 0; i < 3; i++) {
        if (all[i]->tensor == position) m = all[i];
    }
    if (data->of->input == VERIFY_NORMAL || data->of->input == VERIFY_ENDS || !m) return;
    const buffer *b = &data->tensors[position];
    int64_t index[FTL_AXES_MAX] = {0};
    int last = b->argument.axis_count - 1;
    buffer_row_index(b, row, index);
    /* A softmax takes what f32 can add; of a program that is not known scores may be results. */
    spot at = {.matrix = row / b->argument.extents[last - 1],
               .rows = b->argument.extents[m->row],
               .summed = b->argument.extents[m->contracted],
               .dominant = -1,
               .scale = planted_scale(data, p),
               .is_page = cases_have_tables(data->program->plan),
               .is_normalised = expected_choose(data->program) == EXPECTED_ATTENTION};
    at.highest = at.is_normalised ? 256 : 32;
    if (data->of->input == VERIFY_DOMINANT && m == &p->right)
        at.dominant = dominant_key(data, p, at.matrix);
    for (int64_t e = 0; e < b->columns; e++) {
        bool is_last = m->contracted == last;
        at.row = is_last ? index[last - 1] : e, at.contracted = is_last ? e : index[last - 1];
        if (m == &p->left) values[e] = query(data, &at, values[e]);
        else if (m == &p->right) values[e] = key(data, &at, values[e]);
        else values[e] = value(data, &at, values[e]);
    }
}
