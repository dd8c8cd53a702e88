#include "verify/drawn.h"

#include "verify/constants.h"
#include "verify/limits.h"
#include "verify/program.h"
#include "verify/random.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What is drawn for a case at its inputs; each has a number of its own. */
typedef enum purpose {
    FOR_STEP = 1,
    FOR_PLACE,
    FOR_ROW,
    FOR_BASE,
    FOR_DISTANCE,
    FOR_SCALAR,
    FOR_TENSOR,
    FOR_POWER,
    FOR_ORDER,
    FOR_EVEN,
    FOR_FACTORS,
    FOR_NAN
} purpose;

static int64_t drawn(const verify_draw *d, purpose what, uint64_t index, int64_t count) {
    return (int64_t)random_below(d->seed, (uint64_t)what, index, (uint64_t)count);
}

enum { FOUND_MOST = 64 };

/* --- scores ----------------------------------------------------------------------------------- */

enum { WAYS = 2 };

/* Elements along what is summed belong by turns to the two patterns; few to the first alone. */
static int way_of(int64_t contracted, int64_t summed) {
    return summed < 2 * WAYS ? 0 : (int)(contracted % WAYS);
}

static bool sees_first(const verify_draw *d, int64_t row) {
    int64_t own = drawn(d, FOR_ROW, 0, 64);
    switch ((drawn_rows)d->rows) {
    case DRAWN_ALL_ROWS: return true;
    case DRAWN_ONE_OF_8: return row % 8 == own % 8;
    case DRAWN_UPPER_8: return row % 16 >= 8;
    case DRAWN_LOWER_8: return row % 16 < 8;
    case DRAWN_OTHER_16: return row / 16 % 2 == own % 2;
    default: return row == own;
    }
}

static double gain_of_queries(const verify_draw *d) {
    static const double MUCH = 8;
    return d->gain == DRAWN_LARGE_QUERIES ? MUCH : 1;
}

/* Larger keys alone make larger scores, also of queries that a program divides by their length and
 * multiplies by small numbers; larger queries meet smaller keys.
 */
static double gain_of_keys(const verify_draw *d) {
    static const double much[] = {8, 64, 512};
    if (d->gain != DRAWN_LARGE_KEYS) return 1 / gain_of_queries(d);
    return much[drawn(d, FOR_POWER, 1, sizeof much / sizeof *much)];
}

/* The key that weighs as much as all before it: what happens to their sum when a maximum moves is
 * seen in a result that is made of both alike. Half of the time it is in the last block; of one
 * block there is none.
 */
static int64_t even_key(const verify_draw *d, int64_t keys, int64_t matrix) {
    int64_t block = d->block > 0 ? d->block : 1, last = keys > 0 ? (keys - 1) / block : 0;
    if (!last) return -1;
    int64_t at = drawn(d, FOR_EVEN, (uint64_t)(2 * matrix), 2)
                     ? last
                     : 1 + drawn(d, FOR_EVEN, (uint64_t)(2 * matrix + 1), last);
    int64_t left = keys - at * block;
    return at * block + planted_match(at + matrix, left < block ? left : block);
}

/* Queries by turns have a third of a score up to three times as much, of both signs: for some of
 * them a key weighs as much as it should, whatever factor a program has.
 */
static double even_share(int64_t query) {
    enum { TURNS = 16 };
    static const double MOST = 3;
    double share = pow(MOST, (double)(2 * (query % TURNS) - TURNS) / TURNS);
    return query / TURNS % 2 ? -share : share;
}

double drawn_share(const case_data *data, int64_t query, int64_t contracted, int64_t summed) {
    const verify_draw *d = &data->of->draw;
    int own = sees_first(d, query) ? 0 : 1;
    bool is_own = summed < 2 * WAYS || way_of(contracted, summed) == own;
    uint8_t pattern = way_of(contracted, summed) ? d->other_pattern : d->pattern;
    if (!is_own) return 0;
    return gain_of_queries(d) * (pattern == DRAWN_EVEN ? even_share(query) : 1);
}

double drawn_mean(const case_data *data, int64_t key, int64_t keys, int64_t matrix) {
    const verify_draw *d = &data->of->draw;
    bool is_even = d->pattern == DRAWN_EVEN || d->other_pattern == DRAWN_EVEN;
    return is_even && key == even_key(d, keys, matrix) ? -2 : 1;
}

/* The same step every time, at the first blocks or up to the last one, whichever fit. */
static double climbed(const verify_draw *d, int64_t block, int64_t blocks, double step,
                      double highest) {
    int64_t most = (int64_t)(2 * highest / step), base = drawn(d, FOR_BASE, 0, 3);
    int64_t at = block;
    if (blocks - 1 > most) at = base ? block - (blocks - 1 - most) : block;
    if (at < 0) at = 0;
    if (at > most) at = most;
    double top = (double)(blocks - 1 < most ? blocks - 1 : most) * step;
    double least = base == 0 ? 0 : base == 1 ? -top : -top / 2;
    if (least < -highest) least = -highest;
    return fmin(least + (double)at * step, highest);
}

static double score_of(const verify_draw *d, drawn_pattern pattern, int64_t key, int64_t keys,
                       int64_t matrix, double highest) {
    static const double steps[] = {12, 20, 8, 40};
    int64_t block = d->block > 0 ? d->block : 1, at = key / block;
    int64_t blocks = (keys + block - 1) / block;
    double step = fmin(steps[drawn(d, FOR_STEP, 0, 4)], highest);
    int64_t chosen = drawn(d, FOR_PLACE, (uint64_t)matrix, blocks > 0 ? blocks : 1);
    switch (pattern) {
    case DRAWN_CLIMB: return climbed(d, at, blocks, step, highest);
    case DRAWN_FALL: return climbed(d, blocks - 1 - at, blocks, step, highest);
    case DRAWN_LAST_BLOCK: return at == blocks - 1 ? step : 0;
    case DRAWN_LAST_KEY: return key == keys - 1 ? step : 0;
    case DRAWN_ONE_BLOCK: return at == chosen ? step : -step;
    case DRAWN_COLUMNS:
        return climbed(d, at, blocks, step, highest) -
               (key % block == planted_match(at + matrix, block) ? 0 : step);
    case DRAWN_EVEN: return key == even_key(d, keys, matrix) ? log(2 * (double)key) : 0;
    case DRAWN_DEEP: return -highest + fmin((double)at, 2) * step / 2;
    default: return 0;
    }
}

double drawn_score(const case_data *data, int64_t key, int64_t keys, int64_t contracted,
                   int64_t summed, int64_t matrix, double highest) {
    const verify_draw *d = &data->of->draw;
    int way = way_of(contracted, summed);
    uint8_t pattern = way ? d->other_pattern : d->pattern;
    double score = score_of(d, (drawn_pattern)pattern, key, keys, matrix, highest);
    return score * planted_weight(way, WAYS, summed) * gain_of_keys(d);
}

/* Beside the diagonal, aligned at the first or at the last key, and where numbers of the text say:
 * what masks leave out, or give another value, begins there.
 */
int64_t drawn_distance(const case_data *data, int64_t rows, int64_t keys) {
    enum { NEAR = 4, KINDS = 5 };
    const verify_draw *d = &data->of->draw;
    constants numbers = constants_of(data->program);
    int64_t near = drawn(d, FOR_DISTANCE, 1, 2 * NEAR + 1) - NEAR;
    int64_t number =
        numbers.count ? numbers.values[drawn(d, FOR_DISTANCE, 2, numbers.count)] : d->block;
    switch (drawn(d, FOR_DISTANCE, 0, KINDS)) {
    case 0: return near;
    case 1: return keys - rows + near;
    case 2: return number + near / 2;
    case 3: return near / 2 - number;
    default: return keys > 0 ? drawn(d, FOR_DISTANCE, 3, keys) : 0;
    }
}

/* --- scalars ---------------------------------------------------------------------------------- */

bool drawn_is_bound(const ftl_plan *plan, int32_t scalar) {
    for (int32_t i = 0; i < plan->walk_count; i++)
        for (int32_t s = 0; s < plan->walks[i].step_count; s++) {
            const ftl_formula_step *step = &plan->walks[i].steps[s];
            if (step->op == FTL_PUSH_SCALAR && step->index == scalar) return true;
        }
    return false;
}

int32_t drawn_whole_scalars(const ftl_plan *plan) {
    int32_t count = 0;
    for (int32_t i = 0; i < plan->scalar_count; i++) count += plan->scalars[i].type == FTL_I32;
    return count;
}

int64_t drawn_longest(const case_data *data) {
    int64_t longest = 1;
    for (int32_t s = 0; s < data->program->plan->size_count; s++)
        if (data->of->sizes[s] > longest) longest = data->of->sizes[s];
    return longest;
}

static double whole_value(const case_data *data, uint64_t i, drawn_scalar kind) {
    static const double few[] = {3, 1, 0, 7, -2, 2, 5, -1};
    enum { FEW = sizeof few / sizeof *few, FAR = 4000 };
    const verify_draw *d = &data->of->draw;
    const ftl_plan *plan = data->program->plan;
    int64_t longest = drawn_longest(data), near = drawn(d, FOR_SCALAR, 16 * i + 1, 5) - 2;
    int64_t size = plan->size_count
                       ? data->of->sizes[drawn(d, FOR_SCALAR, 16 * i + 2, plan->size_count)]
                       : longest;
    const int64_t half = size / 2;
    double sign = drawn(d, FOR_SCALAR, 16 * i + 3, 3) ? 1 : -1;
    double inside;
    if (drawn_is_bound(plan, (int32_t)i) && drawn(d, FOR_SCALAR, 16 * i + 8, 2))
        return (double)longest;
    if (kind == DRAWN_INSIDE && limits_inside_block(data, plan->scalars[i].name, i, &inside))
        return inside;
    switch (kind) {
    case DRAWN_HALF: return sign * (double)(half + near);
    case DRAWN_BEYOND: return (double)(longest + drawn(d, FOR_SCALAR, 16 * i + 4, FAR));
    case DRAWN_BELOW: return -(double)(longest + drawn(d, FOR_SCALAR, 16 * i + 4, FAR));
    case DRAWN_BLOCKS:
        return sign * (double)(d->block * (1 + drawn(d, FOR_SCALAR, 16 * i + 5, 3)) + near);
    default: return few[drawn(d, FOR_SCALAR, 16 * i + 6, FEW)];
    }
}

/* Does a line say a name after a begin such as "Compute Max "? */
static bool says(str line, str begin, str name) {
    if (!str_starts(line, begin)) return false;
    str rest = {line.data + begin.length, line.length - begin.length};
    return str_find_word(rest, name) != NULL;
}

/* Does a statement that begins in one of two ways say a name? */
static bool is_said(const verify_program *program, str begin, str other, const char *name) {
    str text = program_text(program);
    while (text.length) {
        str line = str_trim(str_cut(&text, '\n'));
        if (says(line, begin, str_from(name)) || says(line, other, str_from(name))) return true;
    }
    return false;
}

static double limit_value(const verify_draw *d, uint64_t i, drawn_scalar kind) {
    static const double near[] = {0, 1, -1, 0.125, 8, -8};
    static const double FAR = 30000;
    if (kind == DRAWN_BEYOND) return FAR;
    if (kind == DRAWN_BELOW) return -FAR;
    return near[drawn(d, FOR_SCALAR, 16 * i + 7, 6)];
}

/* A running maximum begins at -1e30, of which factors as small as that leave a number like others:
 * who counts on nothing or everything being left of it is then wrong. Now and then; 0: not here.
 */
static double tiny_factor(const case_data *data, uint64_t i) {
    static const double sizes[] = {1e-30, 3e-30, 3e-31};
    enum { SIZES = sizeof sizes / sizeof *sizes, SELDOM = 12 };
    const verify_draw *d = &data->of->draw;
    if (drawn(d, FOR_SCALAR, 16 * i + 11, SELDOM)) return 0;
    if (!is_said(data->program, STR("Compute Multiply "), STR("Compute MultiplyAdd "),
                 data->program->plan->scalars[i].name))
        return 0;
    double size = sizes[drawn(d, FOR_SCALAR, 16 * i + 12, SIZES)];
    return drawn(d, FOR_SCALAR, 16 * i + 13, 4) ? size : -size;
}

/* One number brings scores to what they should be; of several the others are near 1. */
static double real_value(const case_data *data, uint64_t i, drawn_scalar kind, double usual) {
    static const double factors[] = {1, -1, 4, -0.25, 8, 0.01, -3, 2};
    enum { FACTORS = sizeof factors / sizeof *factors };
    const verify_draw *d = &data->of->draw;
    const ftl_plan *plan = data->program->plan;
    bool is_one = (int64_t)i == drawn(d, FOR_SCALAR, 1 << 20, plan->scalar_count) ||
                  drawn(d, FOR_SCALAR, 1 << 21, 2);
    double value = is_one ? usual : 1;
    bool is_normal = data->of->input == VERIFY_NORMAL;
    bool is_planted =
        !is_normal && data->of->input != VERIFY_ENDS && data->of->input != VERIFY_ROWS;
    if (inputs_have_workspace(plan) && !is_normal) return usual;
    if (kind == DRAWN_USUAL) return value;
    double tiny = tiny_factor(data, i);
    if (tiny != 0) return tiny;
    if (is_planted) return drawn(d, FOR_SCALAR, 16 * i + 8, 4) ? value : -value;
    return value * factors[drawn(d, FOR_SCALAR, 16 * i + 9, FACTORS)];
}

double drawn_scalar_value(const case_data *data, int32_t scalar, double usual) {
    const verify_draw *d = &data->of->draw;
    const ftl_plan_scalar *of = &data->program->plan->scalars[scalar];
    uint64_t i = (uint64_t)scalar;
    drawn_scalar kind = (drawn_scalar)d->scalars;
    bool is_mixed =
        drawn_whole_scalars(data->program->plan) > 1 && /* each decides with what the others are */
        drawn(d, FOR_SCALAR, 1 << 22, 2);
    bool is_kept = kind == DRAWN_INSIDE && drawn(d, FOR_SCALAR, 16 * i + 10, 2);
    if (kind == DRAWN_ODD || (is_mixed && !is_kept))
        kind = (drawn_scalar)drawn(d, FOR_SCALAR, 16 * i, DRAWN_ODD);
    if (of->type == FTL_I32) return whole_value(data, i, kind);
    bool is_free = kind != DRAWN_USUAL && !inputs_have_workspace(data->program->plan);
    if (is_free && is_said(data->program, STR("Compute Max "), STR("Compute Min "), of->name))
        return limit_value(d, i, kind);
    return real_value(data, i, kind, usual);
}

/* --- tables and sizes of values --------------------------------------------------------------- */

int64_t drawn_length(const case_data *data, uint64_t stream, uint64_t at, int64_t limit) {
    const verify_draw *d = &data->of->draw;
    int64_t block = d->block > 0 ? d->block : 64, blocks = limit / block, length = limit;
    int64_t turn = (int64_t)random_below(d->seed, stream, at, 1 << 20);
    const int64_t edges[] = {0, 1, block - 1, block, block + 1, limit - 1};
    switch ((drawn_table)d->tables) {
    case DRAWN_WHOLE_BLOCKS: length = (blocks ? turn % blocks + 1 : 0) * block; break;
    case DRAWN_RAGGED: length = turn % (blocks + 1) * block + turn / 7 % block; break;
    case DRAWN_EDGES: length = edges[turn % 6]; break;
    case DRAWN_ANY: length = turn % (limit + 1); break;
    default: break;
    }
    return length < 0 ? 0 : length < limit ? length : limit;
}

drawn_order drawn_order_of(const verify_case *c) {
    return (drawn_order)drawn(&c->draw, FOR_ORDER, 0, DRAWN_ORDERS);
}

static bool is_scored(const planted *p, int32_t tensor) {
    for (int32_t i = 0; i < p->count; i++) {
        if (p->chains[i].left.tensor == tensor || p->chains[i].right.tensor == tensor) return true;
    }
    return false;
}

/* The n-th Input of numbers that makes no scores, if there is one; else of all. -1: none. */
static int32_t nth_input(const ftl_plan *plan, const planted *p, int64_t n) {
    int32_t found[FOUND_MOST], count = 0;
    for (int all = 0; all < 2 && !count; all++) {
        for (int32_t t = 0; t < plan->tensor_count && count < FOUND_MOST; t++) {
            const ftl_plan_tensor *of = &plan->tensors[t];
            bool is_number = of->role == FTL_INPUT && of->type != FTL_I32;
            if (is_number && (all || !is_scored(p, t))) found[count++] = t;
        }
    }
    return count ? found[n % count] : -1;
}

double drawn_factor(const case_data *data, const planted *p, int32_t tensor) {
    enum { MANY = 1 << 20 };
    const verify_draw *d = &data->of->draw;
    bool is_changed = d->gain == DRAWN_ONE_LARGER || d->gain == DRAWN_ONE_SMALLER;
    if (!d->seed || !is_changed) return 1;
    if (nth_input(data->program->plan, p, drawn(d, FOR_TENSOR, 0, MANY)) != tensor) return 1;
    if (d->gain == DRAWN_ONE_SMALLER) return 0x1p-6;
    return drawn(d, FOR_POWER, 0, 2) ? 0x1p5 : 0x1p8;
}

/* Scores are as planted where what is no operand of products, such as factors of theirs, is 1. */
static bool is_neutral(const case_data *data, const planted *p, int32_t tensor) {
    const ftl_plan_tensor *of = &data->program->plan->tensors[tensor];
    bool is_read = tensor < 64 && (p->multiplied >> tensor & 1);
    return data->of->input == VERIFY_BLOCKS && of->type == FTL_F32 && !is_read &&
           drawn(&data->of->draw, FOR_FACTORS, 0, 2);
}

/* Does a RowTopK look through elements that nothing before it has taken extremes of? Of NaN these
 * are what the machine makes of it.
 */
static bool has_top(const verify_program *program) {
    static const char *const extremes[] = {"Compute Max ", "Compute Min ", "Compute RowMax ",
                                           "Compute RowMin ", "Compute Softmax "};
    str text = program_text(program);
    while (text.length) {
        str line = str_trim(str_cut(&text, '\n'));
        for (size_t i = 0; i < sizeof extremes / sizeof *extremes; i++)
            if (str_starts(line, str_from(extremes[i]))) return false;
        if (str_starts(line, STR("Compute RowTopK "))) return true;
    }
    return false;
}

bool drawn_has_nan(const case_data *data) {
    const verify_draw *d = &data->of->draw;
    return d->seed && drawn(d, FOR_NAN, 0, 4) == 0 && has_top(data->program);
}

/* Most rows of a matrix, or most columns of all its rows: a RowTopK then asks for more places than
 * are left, of some lanes or of all.
 */
static void add_many_nan(const verify_draw *d, bool is_by_row, uint64_t own, int64_t count,
                         double *values) {
    enum { SOME = 4, OF_COLUMNS = 1 << 24 };
    if (is_by_row && drawn(d, FOR_NAN, 2 * own + 1, SOME))
        values[drawn(d, FOR_NAN, 2 * own + 2, count)] = NAN;
    for (int64_t e = 0; e < count && !is_by_row; e++)
        if (drawn(d, FOR_NAN, OF_COLUMNS + (uint64_t)e, SOME)) values[e] = NAN;
}

/* One element in one row of eight; of one of the matrices that products read, perhaps, many. */
static void add_nan(const case_data *data, const planted *p, int32_t tensor, int64_t row,
                    int64_t count, double *values) {
    enum { FEW = 8, KINDS = 1 << 25 };
    const verify_draw *d = &data->of->draw;
    uint64_t own = (uint64_t)row * 64 + (uint64_t)tensor;
    bool is_matrix = data->program->plan->tensors[tensor].axis_count > 1 && count > 0;
    if (!is_matrix) return;
    bool has_many = p->count > 0 && drawn(d, FOR_NAN, KINDS, 2);
    bool is_right = has_many && p->chains[0].right.tensor == tensor;
    if (is_right)
        add_many_nan(
            d, p->chains[0].right.contracted + 1 == data->program->plan->tensors[tensor].axis_count,
            own, count, values);
    else if (!has_many && drawn(d, FOR_NAN, 2 * own + 1, FEW) == 0)
        values[drawn(d, FOR_NAN, 2 * own + 2, count)] = NAN;
}

void drawn_row(const case_data *data, const planted *p, int32_t tensor, int64_t row, int64_t count,
               double *values) {
    const verify_draw *d = &data->of->draw;
    if (!d->seed) return;
    bool is_read = tensor < 64 && (p->multiplied >> tensor & 1);
    for (int64_t e = 0; e < count && d->gain == DRAWN_ONE_SIGN && is_read; e++)
        values[e] = fabs(values[e]);
    for (int64_t e = 0; e < count && is_neutral(data, p, tensor); e++) values[e] = 1;
    if (drawn_has_nan(data)) add_nan(data, p, tensor, row, count, values);
}

/* --- names ------------------------------------------------------------------------------------ */

void drawn_describe(const verify_case *c, char *out, size_t capacity) {
    static const char *const patterns[] = {"climbing",
                                           "falling",
                                           "the last one high",
                                           "the last key high",
                                           "one high",
                                           "one column each climbing",
                                           "near 0",
                                           "far below 0",
                                           "even sums"};
    static const char *const rows[] = {"all rows",        "one row of 8",        "rows 8..15 of 16",
                                       "rows 0..7 of 16", "every other 16 rows", "one row"};
    const verify_draw *d = &c->draw;
    size_t length = 0;
    *out = 0;
    if (c->input == VERIFY_BLOCKS)
        length = (size_t)snprintf(out, capacity, " of %d: %s, %s", (int)d->block,
                                  patterns[d->pattern], rows[d->rows]);
    if (d->seed && length < capacity) snprintf(out + length, capacity - length, ", drawn");
}
