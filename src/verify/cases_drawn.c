/* Cases drawn at random from what is decisive in a program's texts, all of it at once: a fault may
 * need a length, a number, a table and scores that no list has together. Which kinds a case has is
 * chosen among some sets of kinds: the one with most pairs that no case before it had.
 */
#include "verify/cases.h"

#include "verify/constants.h"
#include "verify/drawn.h"
#include "verify/plan_find.h"
#include "verify/random.h"

#include <math.h>
#include <string.h>

/* --- kinds ------------------------------------------------------------------------------------ */

/* Of a length. B is a block of some text, C another number of it, r a rest. */
typedef enum length_kind {
    LENGTH_NONE,
    LENGTH_ONE,
    LENGTH_BELOW, /* B - 1 */
    LENGTH_BLOCK,
    LENGTH_ABOVE,      /* B + 1 */
    LENGTH_TWO,        /* 2 B */
    LENGTH_TWO_REST,   /* 2 B + r */
    LENGTH_THREE,      /* 3 B */
    LENGTH_THREE_REST, /* 3 B + r, or 4 B + r */
    LENGTH_FEW,        /* 16..31 */
    LENGTH_SAME,       /* another axis' length */
    LENGTH_CONSTANT,   /* near C, and past it by blocks */
    LENGTH_BESIDE,     /* some steps of B or of C from it, on either side */
    LENGTH_KINDS
} length_kind;

/* What is chosen beside a kind for each size. */
typedef enum choice {
    OF_LAYOUT,
    OF_INPUT,
    OF_PATTERN,
    OF_ROWS,
    OF_TABLES,
    OF_SCALARS,
    OF_GAIN,
    CHOICES
} choice;

enum { DIMENSIONS = CHOICES + VERIFY_SIZES_MAX, KINDS = 16 };

typedef struct kinds {
    uint8_t of[DIMENSIONS];
} kinds;

typedef struct drawing {
    const listing *l;
    constants numbers;
    uint64_t seed, stream, next; /* of the next number */
    bool seen[DIMENSIONS][KINDS][DIMENSIONS][KINDS];
} drawing;

static int64_t below(drawing *d, int64_t count) {
    return (int64_t)random_below(d->seed, d->stream, d->next++, (uint64_t)count);
}

/* For what few cases have: a number that leaves those after it as they are. */
static int64_t below_apart(const drawing *d, uint64_t what, int64_t count) {
    enum { STREAM = 1 << 20 };
    return (int64_t)random_below(d->seed, STREAM + d->stream, 8 * d->next + what, (uint64_t)count);
}

/* --- lengths ---------------------------------------------------------------------------------- */

enum { TILES = 4 };

/* The rows of shared tiles that show no Input itself but a view, say; whatever axis that is. */
static int tiles_of_views(const ftl_plan *plan, int64_t *tiles) {
    int count = 0;
    for (int32_t i = 0; i < plan->tile_count && count < TILES; i++) {
        if (plan_find_tensor(plan, plan->tiles[i].name) < 0 && plan->tiles[i].rows > 1)
            tiles[count++] = plan->tiles[i].rows;
    }
    return count;
}

/* Mostly one of the size's own blocks; else a number of the text that may be one. */
static int64_t draw_block(drawing *d, int32_t size) {
    enum { LEAST = 8, MOST = 256 };
    int64_t tiles[TILES];
    int count = inputs_known_tiles(d->l->plan, size, tiles, TILES);
    if (!count) count = tiles_of_views(d->l->plan, tiles);
    if (count > 0 && below(d, 8) < 5) return tiles[below(d, count)];
    for (int tries = 0; tries < 8 && d->numbers.count > 0; tries++) {
        int64_t value = d->numbers.values[below(d, d->numbers.count)];
        if (value >= LEAST && value <= MOST) return value;
    }
    static const int64_t usual[] = {16, 32, 64, 128};
    return count > 0 ? tiles[below(d, count)] : usual[below(d, 4)];
}

static int64_t draw_constant(drawing *d) {
    return d->numbers.count > 0 ? d->numbers.values[below(d, d->numbers.count)] : 1 + below(d, 64);
}

/* Another length, and some steps from it: what is between two lengths is rounded, too. */
static int64_t draw_beside(drawing *d, int64_t other, int64_t block) {
    int64_t much = below(d, 3) ? block * below(d, 3) : draw_constant(d);
    int64_t near = below(d, 3) ? below(d, 5) - 2 : 0;
    int64_t length = other + (below(d, 2) ? much : -much) + near;
    return length > 0 ? length : 0;
}

static int64_t draw_length(drawing *d, int32_t size, length_kind kind, int64_t other) {
    int64_t block = draw_block(d, size), rest = 1 + below(d, block > 1 ? block - 1 : 1);
    switch (kind) {
    case LENGTH_NONE: return 0;
    case LENGTH_ONE: return 1;
    case LENGTH_BELOW: return block - 1;
    case LENGTH_BLOCK: return block;
    case LENGTH_ABOVE: return block + 1;
    case LENGTH_TWO: return 2 * block;
    case LENGTH_TWO_REST: return 2 * block + rest;
    case LENGTH_THREE: return 3 * block;
    case LENGTH_THREE_REST: return (3 + below(d, 2)) * block + rest;
    case LENGTH_FEW: return 16 + below(d, 16);
    case LENGTH_SAME: return other < 0 ? 2 * block + rest : other;
    case LENGTH_CONSTANT:
        return draw_constant(d) + (below(d, 2) ? below(d, 3) - 1 : below(d, 3) * block + rest);
    default: return other < 0 ? 2 * block + rest : draw_beside(d, other, block);
    }
}

/* Of what counts matrices a kind is their number, mostly. Lengths that are told by another one come
 * last.
 */
static void draw_sizes(drawing *d, const kinds *k, verify_case *c) {
    static const int64_t counts[LENGTH_KINDS] = {1, 1, 2, 2, 3, 2, 1, 3, 2, 4, 5, 2, 1};
    const listing *l = d->l;
    int64_t other = -1;
    int32_t first = l->plan->size_count ? (int32_t)below(d, l->plan->size_count) : 0;
    for (int32_t i = 0; i < 2 * l->plan->size_count; i++) {
        int32_t s = (first + i) % l->plan->size_count;
        length_kind kind = (length_kind)k->of[CHOICES + s];
        bool is_relative = kind == LENGTH_SAME || kind == LENGTH_BESIDE;
        if (is_relative != (i >= l->plan->size_count)) continue;
        bool is_count = cases_counts_matrices(l, s);
        c->sizes[s] = is_count ? counts[kind] : draw_length(d, s, kind, other);
        if (!is_count && c->sizes[s] > 1) other = c->sizes[s];
    }
}

/* --- kinds of a case -------------------------------------------------------------------------- */

static verify_input input_of(const listing *l, uint8_t kind) {
    static const verify_input scored[KINDS] = {VERIFY_BLOCKS,   VERIFY_NORMAL,   VERIFY_BLOCKS,
                                               VERIFY_CLIMBING, VERIFY_BLOCKS,   VERIFY_MATCHED,
                                               VERIFY_BLOCKS,   VERIFY_DOMINANT, VERIFY_BLOCKS,
                                               VERIFY_LOW,      VERIFY_ENDS,     VERIFY_ROWS};
    static const verify_input plain[] = {VERIFY_NORMAL, VERIFY_ENDS, VERIFY_ROWS};
    return l->has_values || l->has_scores ? scored[kind] : plain[kind % 3];
}

static int kinds_in(choice which) {
    static const uint8_t counts[CHOICES] = {[OF_LAYOUT] = 4,
                                            [OF_INPUT] = 12,
                                            [OF_PATTERN] = DRAWN_PATTERNS,
                                            [OF_ROWS] = DRAWN_ROWS,
                                            [OF_TABLES] = DRAWN_TABLES,
                                            [OF_SCALARS] = DRAWN_SCALARS,
                                            [OF_GAIN] = DRAWN_GAINS};
    return counts[which];
}

static int dimensions(const drawing *d) {
    return CHOICES + d->l->plan->size_count;
}

/* A case with a length of 0 has little else to tell: one in some. */
static uint8_t draw_kind_of_length(drawing *d) {
    uint8_t kind = (uint8_t)below(d, LENGTH_KINDS);
    bool is_short = kind <= LENGTH_ONE;
    uint8_t other = (uint8_t)(below(d, 2) ? LENGTH_BESIDE : LENGTH_TWO + below(d, 4));
    return is_short && below(d, 3) ? other : kind;
}

static kinds draw_kinds(drawing *d) {
    kinds k = {{0}};
    for (int i = 0; i < CHOICES; i++) k.of[i] = (uint8_t)below(d, kinds_in((choice)i));
    for (int i = CHOICES; i < dimensions(d); i++) k.of[i] = draw_kind_of_length(d);
    if (below(d, 2)) k.of[OF_GAIN] = below_apart(d, 0, 6) ? DRAWN_PLAIN : DRAWN_ONE_SIGN;
    return k;
}

static int count_unseen(const drawing *d, const kinds *k) {
    int count = 0;
    for (int a = 0; a < dimensions(d); a++)
        for (int b = 0; b < a; b++) count += !d->seen[a][k->of[a]][b][k->of[b]];
    return count;
}

/* Along which keys' scores go; -1: the program has none. */
static int32_t size_of_keys(const listing *l, int32_t turn) {
    const planted *p = &l->chains.turns[turn];
    if (!p->count) return -1;
    const planted_matrix *keys = &p->chains[0].right;
    return l->plan->tensors[keys->tensor].axes[keys->row].size;
}

/* A mask's limit inside a block decides most where scores rise there, and blocks come after it. */
static void put_inside(const drawing *d, int32_t keys, kinds *k) {
    k->of[OF_SCALARS] = DRAWN_INSIDE;
    k->of[CHOICES + keys] = below_apart(d, 4, 2) ? LENGTH_THREE : LENGTH_THREE_REST;
    if (below_apart(d, 2, 2)) k->of[OF_TABLES] = DRAWN_LONGEST;
    if (below_apart(d, 3, 2))
        k->of[OF_PATTERN] = below_apart(d, 5, 2) ? DRAWN_CLIMB : DRAWN_COLUMNS;
}

/* Scores by blocks take several of them to tell. */
static void lengthen(drawing *d, int32_t keys, kinds *k) {
    static const uint8_t several[] = {LENGTH_TWO, LENGTH_TWO_REST, LENGTH_THREE, LENGTH_THREE_REST};
    bool is_planted = input_of(d->l, k->of[OF_INPUT]) == VERIFY_BLOCKS && keys >= 0;
    if (is_planted && below(d, 6)) k->of[CHOICES + keys] = several[below(d, 4)];
    if (is_planted && drawn_whole_scalars(d->l->plan) && below_apart(d, 1, 2))
        put_inside(d, keys, k);
}

/* Their sizes are those of scores, and weights that are alike are rounded alike: where scores are
 * made small again, what all have in common adds up.
 */
static bool has_keys_as_values(const planted *p) {
    for (int32_t i = 0; i < p->count; i++) {
        const planted_chain *c = &p->chains[i];
        if (c->right.tensor >= 0 && c->right.tensor == c->values.tensor) return true;
    }
    return false;
}

/* What is computed of queries or keys before they meet (divided by their length, say) leaves scores
 * too near 0 for anything to hang on them, unless keys are large. So does what is kept moderate
 * since it is added up, too.
 */
static void enlarge(drawing *d, const planted *p, kinds *k) {
    bool is_changed = has_keys_as_values(p);
    for (int32_t i = 0; i < p->count; i++) is_changed |= p->chains[i].is_changed;
    if (is_changed && below(d, 2)) k->of[OF_GAIN] = DRAWN_LARGE_KEYS;
}

/* No sequence has anything, and there is nothing to name. */
static void empty_tables(const listing *l, verify_case *c) {
    for (int32_t t = 0; t < l->plan->tensor_count; t++) {
        const ftl_plan_tensor *table = &l->plan->tensors[t];
        if (!cases_is_table(table) || table->use != FTL_TABLE_INDEX) continue;
        int32_t entries = table->axes[table->axis_count - 1].size;
        for (int32_t s = 0; s < l->plan->size_count; s++)
            if (cases_sizes_in(&table->limit) >> s & 1) c->sizes[s] = 0;
        if (entries >= 0) c->sizes[entries] = 0;
    }
}

/* Of what one kernel leaves to another no errors are known. */
static void keep_moderate(const planted *p, verify_case *c) {
    bool has_softmax = p->count && p->chains[0].has_softmax;
    c->draw.gain = DRAWN_PLAIN;
    if (c->input == VERIFY_BLOCKS && !has_softmax) c->input = VERIFY_NORMAL;
}

static uint8_t draw_other_pattern(drawing *d) {
    switch (below(d, 5)) {
    case 0: return (uint8_t)below(d, DRAWN_PATTERNS);
    case 1:
    case 2: return DRAWN_FAINT;
    default: return DRAWN_EVEN;
    }
}

static verify_case case_of(drawing *d, kinds *k) {
    enum { EMPTY = 24 };
    const listing *l = d->l;
    verify_case c = cases_blank(l);
    c.turn = (int32_t)below(d, l->chains.count);
    int32_t keys = size_of_keys(l, c.turn);
    lengthen(d, keys, k);
    enlarge(d, &l->chains.turns[c.turn], k);
    c.layout = (verify_layout)k->of[OF_LAYOUT];
    c.input = input_of(l, k->of[OF_INPUT]);
    c.plant = (int32_t)below(d, 12);
    if (c.input != VERIFY_DOMINANT) c.plant = 1; /* as high as f32 holds */
    c.draw = (verify_draw){.seed = random_bits(d->seed, d->stream, d->next++) | 1,
                           .pattern = k->of[OF_PATTERN],
                           .other_pattern = draw_other_pattern(d),
                           .rows = k->of[OF_ROWS],
                           .tables = k->of[OF_TABLES],
                           .scalars = k->of[OF_SCALARS],
                           .gain = k->of[OF_GAIN]};
    if (has_keys_as_values(&l->chains.turns[c.turn])) c.plant = 0;
    if (inputs_have_workspace(l->plan)) keep_moderate(&l->chains.turns[c.turn], &c);
    draw_sizes(d, k, &c);
    c.draw.block = (int32_t)draw_block(d, keys);
    if (cases_have_tables(l->plan) && !below(d, EMPTY)) empty_tables(l, &c);
    return c;
}

/* --- cases ------------------------------------------------------------------------------------ */

/* A length for each axis of two tensors that are multiplied, those of one name once; rows are
 * computed 16 at least.
 */
static double product_of_axes(const ftl_plan_tensor *one, const ftl_plan_tensor *other,
                              const verify_case *c) {
    enum { ROWS = 16 };
    double product = 1;
    for (int32_t i = 0; i < one->axis_count + other->axis_count; i++) {
        bool is_first = i < one->axis_count, is_again = false;
        const ftl_plan_axis *axis = is_first ? &one->axes[i] : &other->axes[i - one->axis_count];
        for (int32_t k = 0; !is_first && k < one->axis_count; k++)
            is_again |= !strcmp(one->axes[k].name, axis->name);
        if (is_again) continue;
        bool is_row = is_first && i == one->axis_count - 2;
        product *= fmax(cases_value(&axis->extent, c), is_row ? ROWS : 0);
    }
    return product;
}

/* What all products of two Inputs take, about: never more than the price of a list's case. */
static double work_of(const listing *l, const verify_case *c) {
    double sum = 0, most = cases_flops(l, c);
    for (int32_t i = 0; i < l->plan->tensor_count; i++) {
        const ftl_plan_tensor *one = &l->plan->tensors[i];
        for (int32_t k = 0; k < i; k++) {
            const ftl_plan_tensor *other = &l->plan->tensors[k];
            if (cases_do_meet(one, other)) sum += 2 * product_of_axes(other, one, c);
        }
    }
    return sum > 0 && sum < most ? sum : most;
}

/* What a case may cost: a tenth of a second, where lengths are what they were drawn to be. One
 * instruction of a product does as much as many for single elements.
 */
static bool is_affordable(const listing *l, const verify_case *c) {
    static const double FLOPS_MOST = 8e7, TABLES_MOST = 2e8, ELEMENTS_MOST = 1 << 20, SINGLE = 32;
    bool has_tables = cases_have_tables(l->plan);
    double work = has_tables ? cases_flops(l, c) : work_of(l, c);
    if (!l->chains.turns[0].multiplied) work *= SINGLE;
    return work <= (has_tables ? TABLES_MOST : FLOPS_MOST) &&
           cases_elements(l->plan, c) <= ELEMENTS_MOST;
}

/* Each entry of a table has something to name. */
static bool can_be_filled(const ftl_plan *plan, const verify_case *c) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *table = &plan->tensors[t];
        double limit = cases_value(&table->limit, c), entries = 1;
        if (!cases_is_table(table)) continue;
        for (int32_t i = 0; i < table->axis_count; i++)
            entries *= cases_value(&table->axes[i].extent, c);
        double columns = cases_value(&table->axes[table->axis_count - 1].extent, c);
        if (table->use == FTL_TABLE_INDEX && entries > 0 && limit < 1) return false;
        if (table->use == FTL_TABLE_STARTS && columns < 2 && limit > 0) return false;
    }
    return true;
}

/* Where a text demands as many matrices as an axis is long, all else is short: only lengths of a
 * few would be cheap.
 */
static bool is_tied(const listing *l, const int64_t *before, verify_case *c) {
    enum { FEW = 17, MANY = 8 };
    int64_t most = 0;
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        bool is_raised =
            cases_counts_matrices(l, s) && c->sizes[s] > before[s] && c->sizes[s] > MANY;
        if (is_raised && c->sizes[s] > most) most = c->sizes[s];
    }
    for (int32_t s = 0; most && s < l->plan->size_count; s++) {
        int64_t few = cases_counts_matrices(l, s) ? 1 : FEW;
        bool is_part = c->sizes[s] == most || c->sizes[s] > before[s];
        if (!is_part && !cases_is_fixed(l, s) && c->sizes[s] > few) c->sizes[s] = few;
    }
    return most > 0;
}

/* Matrices go before lengths do. */
static bool fit(const listing *l, uint64_t seed, verify_case *c) {
    enum { ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        cases_pin(l, c);
        verify_case before = *c;
        if (!cases_solve(l, seed, -1, c)) return false;
        bool is_demanded = round == 0 && !is_affordable(l, c) && is_tied(l, before.sizes, c);
        if (is_demanded && (!cases_solve(l, seed, -1, c) || !is_affordable(l, c))) return false;
        if (cases_have_tables(l->plan) && !can_be_filled(l->plan, c)) return false;
        if (is_affordable(l, c)) return true;
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            bool is_less = cases_counts_matrices(l, s) && c->sizes[s] > 1 && !cases_is_fixed(l, s);
            if (is_less) c->sizes[s] = round ? 1 : (c->sizes[s] + 1) / 2;
        }
    }
    return false;
}

/* The best of some sets of kinds; of few that fit, the first. */
static bool draw_case(drawing *d, verify_case *out) {
    enum { WANTED = 16, ATTEMPTS = 300 };
    kinds best = {{0}};
    int most = -1, found = 0;
    for (int attempt = 0; attempt < ATTEMPTS && found < WANTED; attempt++) {
        kinds k = draw_kinds(d);
        verify_case c = case_of(d, &k);
        if (!fit(d->l, c.draw.seed, &c)) continue;
        int unseen = count_unseen(d, &k);
        found++;
        if (unseen > most) most = unseen, best = k, *out = c;
    }
    for (int a = 0; a < dimensions(d) && most >= 0; a++)
        for (int b = 0; b < a; b++) d->seen[a][best.of[a]][b][best.of[b]] = true;
    return most >= 0;
}

void cases_add_random(listing *l, uint64_t seed, int32_t count) {
    enum { STREAM = 9000 };
    if (count < 1 || l->plan->size_count < 1) return;
    drawing *d = arena_new(l->memory, drawing);
    *d = (drawing){.l = l, .numbers = constants_of(l->program), .seed = seed};
    for (int32_t n = 0; n < count; n++) {
        verify_case c;
        d->stream = STREAM + (uint64_t)n, d->next = 0;
        if (draw_case(d, &c)) cases_add(l, c);
        else l->next++; /* the numbers of the others stay */
    }
}
