/* Cases by sizes alone, whatever these are called. */
#include "verify/cases.h"

#include "verify/drawn.h"
#include "verify/plan_find.h"
#include "verify/planted.h"
#include "verify/random.h"

#include <math.h>
#include <string.h>

enum { LENGTHS = 11 };

/* --- what a size is --------------------------------------------------------------------------- */

/* Is it a part of the length of one of the axes from 'begin'? */
static bool is_part(const ftl_plan_tensor *tensor, int begin, int32_t size) {
    for (int i = begin; i < tensor->axis_count; i++)
        if (cases_sizes_in(&tensor->axes[i].extent) >> size & 1) return true;
    return false;
}

/* Of rows or columns of some matrix, of a vector, or of what only Inputs have, which a loop walks;
 * others count matrices.
 */
bool cases_is_length(const ftl_plan *plan, int32_t size) {
    bool is_read = false, is_written = false, is_flat = false, is_leading = false;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        int begin = tensor->axis_count > 2 ? tensor->axis_count - 2 : 0;
        bool is_there = is_part(tensor, 0, size), is_last = is_part(tensor, begin, size);
        if (tensor->axis_count > 2 && is_last) return true;
        is_flat |= is_last; /* a vector for each matrix looks like one matrix */
        is_leading |= is_there && !is_last;
        if (tensor->role == FTL_INPUT) is_read |= is_there;
        else is_written |= is_there;
    }
    return (is_flat && !is_leading) || (is_read && !is_written);
}

/* A length of what the caller has; others (a number of splits) only multiply the work. */
static bool is_shown(const ftl_plan *plan, int32_t size) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        for (int32_t i = 0; i < plan->tensors[t].axis_count; i++) {
            bool is_own = plan->tensors[t].role != FTL_WORKSPACE;
            if (is_own && plan->tensors[t].axes[i].size == size) return true;
        }
    }
    return false;
}

/* --- what a case costs ------------------------------------------------------------------------ */

static bool is_cheap(const listing *l, const verify_case *c, bool is_all) {
    static const double FLOPS_MOST = 6e7, CLIMBING_MOST = 2e8;
    static const double TABLES_MOST = 4e8; /* a price that counts whole blocks */
    static const double ELEMENTS_MOST = 1 << 21, ELEMENTS_MOST_OF_ALL = 1 << 24;
    bool is_climbing = c->input == VERIFY_CLIMBING || c->input == VERIFY_BLOCKS;
    double most = cases_have_tables(l->plan) ? TABLES_MOST
                  : is_climbing              ? CLIMBING_MOST
                                             : FLOPS_MOST;
    double elements = cases_elements(l->plan, c);
    return elements <= (is_all ? ELEMENTS_MOST_OF_ALL : ELEMENTS_MOST) &&
           (is_all || cases_flops(l, c) <= most);
}

bool cases_are_cheap(const listing *l, const verify_case *c) {
    return is_cheap(l, c, false);
}

/* What goes first where a case is too dear: counts of matrices, lengths of columns alone, rows. */
static int worth_of(const ftl_plan *plan, int32_t size) {
    bool is_row = false;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        int row = plan->tensors[t].axis_count - 2;
        is_row |= row >= 0 && plan->tensors[t].axes[row].size == size;
    }
    return !cases_is_length(plan, size) ? 0 : is_row ? 2 : 1;
}

/* Halves the largest of what is worth least, until the case is cheap; 'kept' stays (-1: none). */
static void make_cheap(const listing *l, int32_t kept, bool is_all, verify_case *c) {
    enum { ROUNDS = 64, FEW = 16 };
    for (int round = 0; round < ROUNDS && !is_cheap(l, c, is_all); round++) {
        int32_t best = -1;
        int worth = 0;
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            int own = worth_of(l->plan, s);
            if (own > 0 && c->sizes[s] <= FEW) own = 3;
            if (s == kept || c->sizes[s] < 2 || (best >= 0 && own > worth)) continue;
            bool is_better = best < 0 || own < worth || c->sizes[s] > c->sizes[best];
            if (is_better) best = s, worth = own;
        }
        if (best < 0) return;
        c->sizes[best] /= 2;
    }
}

/* Of several ways to make the conditions hold, the cheapest. */
static bool solve_cheaply(const listing *l, uint64_t seed, int32_t kept, verify_case *c) {
    enum { WAYS = 24 };
    verify_case best = *c;
    double least = INFINITY;
    for (uint64_t way = 0; way < WAYS; way++) {
        verify_case solved = *c;
        if (!cases_solve(l, seed + way * 1000, kept, &solved)) return false;
        double cost = cases_flops(l, &solved) + cases_elements(l->plan, &solved);
        if (cost < least) least = cost, best = solved;
    }
    *c = best;
    return true;
}

/* Cheap sizes near the case's for which the conditions hold. */
static bool settle(const listing *l, uint64_t seed, int32_t kept, bool is_all, verify_case *c) {
    enum { ROUNDS = 8 };
    for (int round = 0; round < ROUNDS; round++) {
        if (!solve_cheaply(l, seed, kept, c)) return false;
        if (is_cheap(l, c, is_all)) return true;
        make_cheap(l, kept, is_all, c);
    }
    return false;
}

/* --- every length meets every size ------------------------------------------------------------ */

/* Sizes of programs with tables, in which pages and places have to suffice for what lies there. */
static void draw_sizes(const listing *l, int32_t n, bool is_all, verify_case *c) {
    enum { ATTEMPTS = 400 };
    static const double ELEMENTS_MOST = 1 << 19;
    for (uint64_t attempt = 0; attempt < ATTEMPTS; attempt++) {
        verify_case drawn = *c;
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            const int64_t lengths[] = {1, 2, 3, 4, 6, 8, 16, 24, 33, 64, 128, cases_tile(l, s) + 1};
            uint64_t stream = (uint64_t)n * ATTEMPTS + attempt;
            uint64_t few = 6, all = sizeof lengths / sizeof *lengths;
            drawn.sizes[s] =
                lengths[random_below(99, stream, (uint64_t)s, is_shown(l->plan, s) ? all : few)];
        }
        if (!cases_solve(l, (uint64_t)n * ATTEMPTS + attempt, -1, &drawn)) continue;
        if (cases_elements(l->plan, &drawn) > ELEMENTS_MOST) continue;
        if (!cases_have_room(l, &drawn) || !is_cheap(l, &drawn, is_all)) continue;
        *c = drawn;
        return;
    }
    for (int32_t s = 0; s < l->plan->size_count; s++) c->sizes[s] = 1;
    cases_solve(l, (uint64_t)n, -1, c);
}

/* Which of other sizes' lengths a length meets differs from round to round. (The odd steps are
 * coprime to their number.)
 */
void cases_add_sizes(listing *l, bool is_all) {
    int rounds = is_all ? 6 : 1;
    for (int32_t n = 0; n < rounds * LENGTHS; n++) {
        verify_case c = cases_blank(l);
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            int64_t t = cases_tile(l, s);
            const int64_t lengths[] = {t + 1, 1, t, 97, 3, 2 * t + 1, t - 1, 200, 2, 333, 0};
            static const int64_t counts[] = {2, 1, 3, 2, 5, 1, 4, 2, 3, 7, 0};
            int64_t step = 1 + (s * 2 + n / LENGTHS * (s + 1)) % (LENGTHS - 1);
            int64_t at = (n * step + s * 3) % LENGTHS;
            c.sizes[s] = cases_is_length(l->plan, s) ? lengths[at] : counts[at];
        }
        bool is_drawn = cases_have_tables(l->plan);
        if (is_drawn || !settle(l, (uint64_t)n, -1, is_all, &c)) draw_sizes(l, n, is_all, &c);
        bool is_none = cases_have_tables(l->plan) && n % LENGTHS == LENGTHS - 1;
        if (is_none) c.sizes[n / LENGTHS % l->plan->size_count] = 0;
        c.layout = (verify_layout)((n + n / 4) % 4);
        c.input = n % 2 ? VERIFY_ENDS : VERIFY_NORMAL;
        cases_add(l, c);
    }
}

/* --- decisive lengths ------------------------------------------------------------------------- */

static int64_t longest_tile(const listing *l, int32_t size) {
    int64_t tiles[4];
    int count = inputs_tiles(l->plan, size, tiles, 4);
    return count ? tiles[count - 1] : 64;
}

/* Past two blocks of any tile, and past what the text compares with. */
static int64_t decisive_length(const listing *l, int32_t size) {
    enum { TILE_MOST = 256, ODD = 37 };
    const ftl_source *sketch = &l->program->sketch, *code = &l->program->code;
    int64_t constant = 0, tile = longest_tile(l, size);
    if (sketch->text) constant = verify_largest_constant((str){sketch->text, sketch->length});
    if (code->text) {
        int64_t other = verify_largest_constant((str){code->text, code->length});
        if (other > constant) constant = other;
    }
    if (tile < TILE_MOST) tile = TILE_MOST;
    return (2 * tile > constant ? 2 * tile : constant) + ODD;
}

bool cases_is_fixed(const listing *l, int32_t size) {
    for (int32_t i = 0; i < l->program->pin_count; i++) {
        if (plan_find_size(l->plan, l->program->pins[i].name) == size) return true;
    }
    return false;
}

/* One size 'times' so long, others short: the sizes that conditions tie to it follow. */
static bool add_long(listing *l, int32_t size, int times, verify_input input, int32_t turn) {
    verify_case c = cases_blank(l);
    c.input = input, c.turn = turn;
    c.plant = input == VERIFY_CLIMBING;
    for (int32_t s = 0; s < l->plan->size_count; s++)
        c.sizes[s] = cases_is_length(l->plan, s) ? 33 + 8 * s : 1 + s % 2;
    c.sizes[size] = times * decisive_length(l, size);
    if (!settle(l, (uint64_t)size, size, false, &c)) return false;
    cases_add_in_turn(l, c);
    return true;
}

/* All lengths past two blocks of their own tiles, and different from one another; but equal where
 * scores climb, so that masks leave the last queries all keys, wherever they begin to count. Where
 * rows differ, lengths are whole numbers of tiles: no last, short tile hides what the others lack.
 */
static void add_all_long(listing *l, verify_input input, int32_t turn) {
    verify_case c = cases_blank(l);
    int64_t longest = 0;
    bool is_whole = input == VERIFY_MATCHED || input == VERIFY_ROWS;
    c.input = input, c.turn = turn;
    c.plant = input == VERIFY_MATCHED;
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        int64_t past = is_whole ? 0 : 5 + 32 * (s % 3);
        c.sizes[s] = cases_is_length(l->plan, s) ? 2 * longest_tile(l, s) + past : 1 + s % 2;
        if (c.sizes[s] > longest) longest = c.sizes[s];
    }
    bool is_square = input == VERIFY_CLIMBING || input == VERIFY_MATCHED;
    for (int32_t s = 0; is_square && s < l->plan->size_count; s++) {
        if (cases_is_length(l->plan, s)) c.sizes[s] = longest;
    }
    if (l->q_heads >= 0) c.sizes[l->q_heads] = 2;
    if (!settle(l, (uint64_t)input, -1, false, &c)) return;
    cases_add_in_turn(l, c);
}

/* Three whole blocks of everything and a rest, in two matrices: one row of eight climbs in each
 * block of keys, and the others in the last, short one alone.
 */
static void add_blocks(listing *l) {
    enum { BLOCKS = 3, REST = 5 };
    verify_case c = cases_blank(l);
    c.input = VERIFY_BLOCKS, c.plant = 1;
    const planted_matrix *keys = &l->chains.turns[0].chains[0].right;
    int32_t key_size = l->plan->tensors[keys->tensor].axes[keys->row].size;
    c.draw = (verify_draw){.block = (int32_t)longest_tile(l, key_size),
                           .pattern = DRAWN_CLIMB,
                           .other_pattern = DRAWN_LAST_BLOCK,
                           .rows = DRAWN_ONE_OF_8};
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        int64_t blocks = s == key_size ? BLOCKS : 1;
        c.sizes[s] = cases_is_length(l->plan, s) ? blocks * longest_tile(l, s) + REST : 1;
    }
    if (l->batch >= 0) c.sizes[l->batch] = 2;
    if (!settle(l, 1, -1, false, &c)) return;
    cases_add_in_turn(l, c);
}

static void add_drawn(listing *l) {
    enum { CASES = 7, WITHOUT_VALUES = 4, FIRST = 500 };
    static const verify_input inputs[CASES] = {VERIFY_ENDS,   VERIFY_NORMAL,   VERIFY_ROWS,
                                               VERIFY_NORMAL, VERIFY_CLIMBING, VERIFY_LOW,
                                               VERIFY_MATCHED};
    for (int32_t n = 0; n < (l->has_values ? CASES : WITHOUT_VALUES); n++) {
        verify_case c = cases_blank(l);
        draw_sizes(l, FIRST + n, false, &c);
        c.input = inputs[n];
        c.turn = n % l->chains.count;
        c.plant = 1;
        cases_add_in_turn(l, c);
    }
}

/* The first turn in which weights run along that length; -1: none do. */
static int32_t turn_of_keys(const listing *l, int32_t size) {
    for (int32_t turn = 0; turn < l->chains.count; turn++) {
        const planted *p = &l->chains.turns[turn];
        for (int32_t i = 0; i < p->count; i++) {
            const planted_chain *c = &p->chains[i];
            bool is_so_long = l->plan->tensors[c->right.tensor].axes[c->right.row].size == size;
            if (is_so_long && c->values.tensor >= 0) return turn;
        }
    }
    return -1;
}

/* --- many tiles ------------------------------------------------------------------------------- */

/* The tiles that the blocks of a kernel walk; 0: each block has one. 'sizes' are the program's. */
static double tiles_walked(const listing *l, const ftl_plan *plan, const int64_t *sizes) {
    static const double scalars[64] = {0};
    int64_t own[VERIFY_SIZES_MAX] = {0};
    double product = 1, value;
    if (plan->grid_kind == FTL_GRID_PLAIN || plan->size_count > VERIFY_SIZES_MAX) return 0;
    for (int32_t s = 0; s < plan->size_count; s++) {
        int32_t at = plan_find_size(l->plan, plan->sizes[s].name);
        own[s] = at < 0 ? 1 : sizes[at];
    }
    for (int32_t i = 0; i < plan->walk_count; i++) {
        if (!ftl_formula_evaluate(&plan->walks[i], own, scalars, &value)) return 0;
        product *= value;
    }
    return product;
}

/* Of the kernel with the fewest, where blocks walk them. */
static double least_tiles(const listing *l, const verify_case *c) {
    double least = 0;
    if (!l->program->kernels) return tiles_walked(l, l->plan, c->sizes);
    for (int32_t i = 0; i < l->program->kernel_count; i++) {
        double tiles = tiles_walked(l, l->program->kernels[i].plan, c->sizes);
        if (tiles > 0 && (least == 0 || tiles < least)) least = tiles;
    }
    return least;
}

bool cases_counts_matrices(const listing *l, int32_t size) {
    bool is_named = size == l->batch || size == l->q_heads || size == l->kv_heads;
    return is_named || !cases_is_length(l->plan, size);
}

/* One size larger, that which costs least for a tile; false: none makes more tiles. */
static bool add_tiles(const listing *l, double flops_most, verify_case *c) {
    verify_case best = *c;
    double least = INFINITY, before = least_tiles(l, c);
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        verify_case larger = *c;
        if (cases_is_fixed(l, s)) continue;
        larger.sizes[s] += cases_counts_matrices(l, s) ? larger.sizes[s] : longest_tile(l, s);
        if (!cases_solve(l, (uint64_t)s, s, &larger)) continue;
        double tiles = least_tiles(l, &larger), cost = cases_flops(l, &larger);
        if (tiles <= before || cost > flops_most || cost / tiles >= least) continue;
        least = cost / tiles, best = larger;
    }
    *c = best;
    return least < INFINITY;
}

/* Rings of slots go on from tile to tile: a wait or a release that is missing shows where a block
 * comes back to the same slot, and a wrong parity where it does so twice; in tiles of one step, and
 * of several. The emulator gives each block several tiles of those that there are.
 */
static void add_many_tiles(listing *l, bool has_steps) {
    static const double FLOPS_MOST = 6e8;
    enum { ROUNDS = 16, TILES_MANY = 12 };
    verify_case c = cases_blank(l);
    for (int32_t s = 0; s < l->plan->size_count; s++)
        c.sizes[s] =
            cases_counts_matrices(l, s) ? 1 : 33 + 8 * s + (has_steps ? longest_tile(l, s) : 0);
    if (!cases_solve(l, 0, -1, &c) || least_tiles(l, &c) == 0) return;
    for (int round = 0; round < ROUNDS && least_tiles(l, &c) < TILES_MANY; round++)
        if (!add_tiles(l, FLOPS_MOST, &c)) break;
    cases_add_in_turn(l, c);
}

void cases_add_decisive(listing *l) {
    enum { LONGEST = 3 };
    if (cases_have_tables(l->plan)) { /* lengths are in the tables */
        add_drawn(l);
        add_all_long(l, VERIFY_NORMAL, 0); /* of axes that no table cuts */
        cases_add_long_tables(l, VERIFY_NORMAL);
        if (l->has_values) cases_add_long_tables(l, VERIFY_CLIMBING);
        return;
    }
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        bool is_counted = s == l->q_heads || s == l->kv_heads || s == l->batch || s == l->q_len;
        if (!cases_is_length(l->plan, s) || cases_is_fixed(l, s) || is_counted) continue;
        add_long(l, s, 1, VERIFY_NORMAL, 0);
        /* What many keys weigh together shows where they are scaled a little wrong: as many as are
         * cheap. */
        int32_t turn = turn_of_keys(l, s);
        for (int times = LONGEST; turn >= 0 && times > 0; times--)
            if (add_long(l, s, times, VERIFY_CLIMBING, turn)) break;
    }
    add_all_long(l, l->has_values ? VERIFY_CLIMBING : VERIFY_ENDS, 0);
    for (int32_t turn = 1; turn < l->chains.count; turn++) {
        if (planted_has_values(&l->chains.turns[turn])) add_all_long(l, VERIFY_CLIMBING, turn);
    }
    if (l->has_scores) {
        add_all_long(l, VERIFY_LOW, 0);
        add_all_long(l, VERIFY_MATCHED, l->chains.count - 1);
    }
    add_all_long(l, VERIFY_ROWS, 0);
    if (l->has_values) add_blocks(l);
    add_many_tiles(l, false);
    add_many_tiles(l, true);
}
