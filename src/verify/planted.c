#include "verify/planted.h"

#include "verify/cases.h"
#include "verify/drawn.h"
#include "verify/expected.h"
#include "verify/random.h"

#include <math.h>

static int64_t extent(const case_data *data, const planted_matrix *m, int axis) {
    return data->tensors[m->tensor].argument.extents[axis];
}

static int64_t summed_by(const case_data *data, const planted_chain *c) {
    return extent(data, &c->left, c->left.contracted);
}

double planted_scale(const case_data *data, const planted *p) {
    int64_t summed = planted_has_scores(p) ? summed_by(data, &p->chains[0]) : 4;
    double spread = 1;
    if (planted_has_scores(p)) {
        const ftl_plan_tensor *tensors = data->program->plan->tensors;
        spread = buffer_spread(tensors[p->chains[0].left.tensor].type) *
                 buffer_spread(tensors[p->chains[0].right.tensor].type);
    }
    return 1 / sqrt((double)(summed > 0 ? summed : 1)) / spread;
}

/* --- which places ----------------------------------------------------------------------------- */

static int64_t tile_along(const case_data *data, const planted_matrix *m) {
    const ftl_plan *plan = data->program->plan;
    int64_t tile[1] = {64};
    inputs_tiles(plan, plan->tensors[m->tensor].axes[m->row].size, tile, 1);
    return tile[0];
}

/* DOMINANT: the key that dominates in a matrix; matrices count over all heads and batches. */
static int64_t dominant_key(const case_data *data, const planted_chain *p, int64_t matrix) {
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

double planted_weight(int64_t way, int64_t ways, int64_t summed) {
    if (summed < 2 * ways) return 1;
    return (double)summed / (double)((summed - way + ways - 1) / ways);
}

/* A query's own way, and a little more than what is planted, so that a jump is just high enough for
 * some of them whatever is done to scores.
 */
static double climbing_share(int64_t query, int64_t contracted, int64_t summed, int64_t matrix) {
    int64_t own = (query / ROWS_A_WAY + matrix) % WAYS;
    if (way_of_element(contracted, summed, matrix) != own && summed >= 2 * WAYS) return 0;
    return 1 + (double)(query % ROWS_A_WAY) / (3 * ROWS_A_WAY);
}

int64_t planted_fold(int64_t row) {
    int64_t digits = 0;
    for (; row > 0; row >>= 2) digits ^= row & 3;
    return digits;
}

int64_t planted_match(int64_t row, int64_t columns) {
    enum { STEP = 37 }; /* a prime that divides no tile */
    return columns > 0 ? STEP * row % columns : 0;
}

/* MATCHED: each query has the signs of a key of its own, whose score no other one comes near. */
static double sign_of_key(uint64_t seed, int64_t key, int64_t contracted) {
    return random_bits(seed, 2000 + (uint64_t)key, (uint64_t)contracted) & 1 ? 1 : -1;
}

/* Queries have the direction of signs, and so has what a key has beside its noise: its score is
 * then what it was planted to be, times the scale's own ratio to planted_scale.
 */
static double sign_of(uint64_t seed, int64_t contracted) {
    return random_bits(seed, 1000, (uint64_t)contracted) & 1 ? 1 : -1;
}

/* An element, and what is the same for a row of them. */
typedef struct spot {
    int64_t row, contracted, matrix;
    int64_t rows, summed, keys, queries; /* of the matrix; of its chain */
    int64_t matrices;
    double scale, highest; /* what makes a score of an element; of climbing scores */
    bool is_normalised;    /* weights are those of a softmax, as far as is known */
    bool is_page;          /* matrices may be parts of one sequence, found by a table */
} spot;

static int64_t matched_key(const case_data *data, const spot *at) {
    if (!data->of->draw.seed || at->keys < 1) return planted_match(at->row, at->keys);
    int64_t key = (at->row + drawn_distance(data, at->queries, at->keys)) % at->keys;
    return key < 0 ? key + at->keys : key;
}

static double query(const case_data *data, const spot *at, double noise) {
    /* LOW: the score of all keys, by query: further apart than 16 bits, or f32, can bridge, so that
     * a row with another one's maximum is lost.
     */
    static const double low_shares[] = {1, 0, 0.1, 0.9};
    double share = 1, least = 32;
    if (data->of->input == VERIFY_MATCHED)
        return sign_of_key(data->seed, matched_key(data, at), at->contracted);
    if (data->of->input == VERIFY_LOW) share = low_shares[planted_fold(at->row)];
    if (data->of->input == VERIFY_BLOCKS) {
        share = drawn_share(data, at->row, at->contracted, at->summed);
        least = 128;
    }
    if (data->of->input == VERIFY_CLIMBING) {
        share = climbing_share(at->row, at->contracted, at->summed, at->matrix);
        least = 128; /* of the other ways' scores */
    }
    return share * sign_of(data->seed, at->contracted) + noise / least;
}

/* Pages in turn are one sequence, where a table names them so. */
static double score_by_blocks(const case_data *data, const spot *at) {
    bool is_one = at->is_page && at->matrices > 1;
    int64_t first = is_one ? at->matrix * at->rows : 0;
    int64_t keys = is_one ? at->matrices * at->rows : at->rows;
    return drawn_score(data, first + at->row, keys, at->contracted, at->summed,
                       is_one ? 0 : at->matrix, at->highest);
}

/* A score of its own, and what is left of the noise. */
static double key(const case_data *data, const planted_chain *c, const spot *at, double noise) {
    static const double DOMINANT = 16, LOW = -128, LARGEST = 0x1p14; /* of 16 bits */
    double sign = sign_of(data->seed, at->contracted) * at->scale, score = 0;
    switch (data->of->input) {
    case VERIFY_DOMINANT:
        if (at->row == dominant_key(data, c, at->matrix)) return sign * DOMINANT;
        break;
    case VERIFY_MATCHED:
        return sign_of_key(data->seed, at->row, at->contracted) * at->scale * at->highest +
               noise / 32;
    case VERIFY_LOW: score = LOW; break;
    case VERIFY_CLIMBING: {
        int64_t way = way_of_element(at->contracted, at->summed, at->matrix);
        score = climbing_score(at->row, at->rows, way, at->matrix, at->highest);
        if (at->is_page) score += at->highest / 4 * (double)(at->matrix % 5 - 2);
        score *= planted_weight(way, WAYS, at->summed);
        break;
    }
    case VERIFY_BLOCKS: score = score_by_blocks(data, at); break;
    default: break;
    }
    return fmax(-LARGEST, fmin(LARGEST, sign * score)) + noise / 4;
}

static double value(const case_data *data, const spot *at, double noise) {
    bool is_coded = data->of->input == VERIFY_DOMINANT || data->of->input == VERIFY_MATCHED;
    /* A multiple of 1/8 that all 16-bit types hold, another one for most places; without a rule, so
     * that sums over neighbours do not cancel.
     */
    uint64_t code =
        random_below((uint64_t)at->row, (uint64_t)at->matrix, (uint64_t)at->contracted, 61);
    if (is_coded) return ((double)code - 30) / 8;
    /* A mean does not average out. Nor do the roundings of weights that are alike, or of the query
     * that all of them are made with, which have one sign for many keys: where weights are not
     * divided by their sum, they add up.
     */
    bool is_drawn = data->of->input == VERIFY_BLOCKS && !at->is_page;
    double mean = is_drawn ? drawn_mean(data, at->row, at->rows, at->matrix) : 1;
    return at->is_normalised ? noise + mean : noise;
}

/* Where an element of a chain's matrix lies; matrices count over all other axes. */
static void place(const buffer *b, const planted_matrix *m, const int64_t *index, spot *at) {
    at->row = index[m->row], at->contracted = index[m->contracted], at->matrix = 0;
    for (int i = 0; i < b->argument.axis_count; i++) {
        if (i != m->row && i != m->contracted)
            at->matrix = at->matrix * b->argument.extents[i] + index[i];
    }
}

/* A softmax takes what f32 can add; of a program that is not known scores may be results, or the
 * arguments of powers: they are that high where it has a softmax, in cases that say so.
 */
static spot spot_of(const case_data *data, const planted *p, const planted_chain *c,
                    const planted_matrix *m) {
    bool is_attention = expected_choose(data->program) == EXPECTED_ATTENTION;
    int64_t summed = summed_by(data, c);
    spot at = {.rows = extent(data, m, m->row),
               .summed = summed,
               .keys = extent(data, &c->right, c->right.row),
               .queries = extent(data, &c->left, c->left.row),
               .scale = 1 / ((double)(summed > 0 ? summed : 1) * planted_scale(data, p)),
               .is_page = cases_have_tables(data->program->plan),
               .is_normalised = is_attention || c->has_softmax};
    bool is_high = is_attention || (c->has_softmax && data->of->plant &&
                                    !inputs_have_workspace(data->program->plan));
    at.highest = is_high ? 256 : 32;
    return at;
}

static void plant(const case_data *data, const planted *p, const planted_chain *c,
                  const planted_matrix *m, int64_t row, double *values) {
    const buffer *b = &data->tensors[m->tensor];
    int64_t index[FTL_AXES_MAX] = {0};
    spot at = spot_of(data, p, c, m);
    buffer_row_index(b, row, index);
    if (at.rows > 0 && extent(data, m, m->contracted) > 0)
        at.matrices = b->rows * b->columns / (at.rows * extent(data, m, m->contracted));
    for (int64_t e = 0; e < b->columns; e++) {
        index[b->argument.axis_count - 1] = e;
        place(b, m, index, &at);
        if (m == &c->left) values[e] = query(data, &at, values[e]);
        else if (m == &c->right) values[e] = key(data, c, &at, values[e]);
        else values[e] = value(data, &at, values[e]);
    }
}

void planted_row(const case_data *data, const planted *p, int32_t position, int64_t row,
                 double *values) {
    verify_input input = data->of->input;
    if (input == VERIFY_NORMAL || input == VERIFY_ENDS || input == VERIFY_ROWS) return;
    for (int32_t i = 0; i < p->count; i++) {
        const planted_chain *c = &p->chains[i];
        const planted_matrix *all[] = {&c->left, &c->right, &c->values};
        for (int k = 0; k < 3; k++) {
            if (all[k]->tensor != position) continue;
            plant(data, p, c, all[k], row, values);
            return;
        }
    }
}
