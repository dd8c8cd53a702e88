/* Cases of programs whose tables say how long things are, or where they lie: what such a case
 * costs, and which are long enough to decide. The lengths are no sizes of the program, so all is
 * counted with the most that the tables may hold.
 */
#include "verify/cases.h"

#include <math.h>
#include <string.h>

bool cases_is_table(const ftl_plan_tensor *tensor) {
    return tensor->role == FTL_INPUT && tensor->use > FTL_TABLE_FREE;
}

bool cases_have_tables(const ftl_plan *plan) {
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        if (cases_is_table(&plan->tensors[t])) return true;
    }
    return false;
}

/* --- sets of sizes ---------------------------------------------------------------------------- */

uint32_t cases_sizes_in(const ftl_formula *formula) {
    uint32_t set = 0;
    for (int32_t i = 0; i < formula->step_count; i++) {
        if (formula->steps[i].op == FTL_PUSH_SIZE) set |= 1u << formula->steps[i].index;
    }
    return set;
}

static uint32_t sizes_of(const ftl_plan_tensor *tensor) {
    uint32_t set = 0;
    for (int32_t i = 0; i < tensor->axis_count; i++) set |= cases_sizes_in(&tensor->axes[i].extent);
    return set;
}

/* The table whose entries are places on this axis: its limit is the axis' length. NULL: none. */
static const ftl_plan_tensor *table_of_axis(const ftl_plan *plan, const ftl_plan_axis *axis) {
    uint32_t own = cases_sizes_in(&axis->extent);
    for (int32_t t = 0; own && t < plan->tensor_count; t++) {
        const ftl_plan_tensor *table = &plan->tensors[t];
        bool is_of_places = cases_is_table(table) && table->use == FTL_TABLE_INDEX;
        if (is_of_places && cases_sizes_in(&table->limit) == own) return table;
    }
    return NULL;
}

/* Those of what a loop sees of a tensor: where a table names the places, those of the table. */
static uint32_t seen_of(const ftl_plan *plan, const ftl_plan_tensor *tensor) {
    uint32_t set = 0;
    for (int32_t i = 0; i < tensor->axis_count; i++) {
        const ftl_plan_tensor *table = table_of_axis(plan, &tensor->axes[i]);
        set |= table ? sizes_of(table) : cases_sizes_in(&tensor->axes[i].extent);
    }
    return set;
}

static double product_of(const listing *l, const verify_case *c, uint32_t set) {
    bool has_heads = l->q_heads >= 0 && (set >> l->q_heads & 1);
    double product = 1;
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        bool is_counted = has_heads && s == l->kv_heads; /* a head of queries has one of keys */
        if ((set >> s & 1) && !is_counted) product *= (double)c->sizes[s];
    }
    return product;
}

/* --- what a case costs ------------------------------------------------------------------------ */

/* A warp multiplies 16 rows at once, whether there are as many or not. */
static double rows_of_block(const ftl_plan *plan) {
    enum { WARP = 32, ROWS = 16, USUAL = 64 };
    return plan->threads > 0 ? fmax(plan->threads / WARP * ROWS, ROWS) : USUAL;
}

/* The largest block of rows that a loop or the grid takes of anything. */
static int64_t longest_block(const ftl_plan *plan) {
    enum { UNKNOWN = 128, MOST = 256 };
    int64_t longest = 0;
    for (int32_t i = 0; i < plan->tile_count; i++) {
        if (plan->tiles[i].rows > longest) longest = plan->tiles[i].rows;
    }
    for (int32_t w = 0; w < plan->walk_count; w++) {
        const ftl_formula *walk = &plan->walks[w];
        for (int32_t i = 1; i < walk->step_count; i++) {
            const ftl_formula_step *s = &walk->steps[i - 1];
            bool is_divisor = s[0].op == FTL_PUSH_INTEGER && s[1].op == FTL_DIVIDE_UP;
            if (is_divisor && s->integer > longest) longest = s->integer;
        }
    }
    return longest < 1 ? UNKNOWN : longest < MOST ? longest : MOST;
}

/* Of all products: each two Inputs of numbers that meet (or any two), with whole blocks of rows. */
static double count_products(const listing *l, const verify_case *c, bool must_meet) {
    const ftl_plan *plan = l->plan;
    double sum = 0, rows = rows_of_block(plan);
    for (int32_t i = 0; i < plan->tensor_count; i++) {
        const ftl_plan_tensor *one = &plan->tensors[i];
        if (one->role != FTL_INPUT || one->type == FTL_I32 || one->axis_count < 2) continue;
        for (int32_t k = 0; k < i; k++) {
            const ftl_plan_tensor *other = &plan->tensors[k];
            if (other->role != FTL_INPUT || other->type == FTL_I32 || other->axis_count < 2)
                continue;
            if (must_meet && !cases_do_meet(one, other)) continue;
            uint32_t a = seen_of(plan, one), b = seen_of(plan, other);
            double alone = fmax(product_of(l, c, a), product_of(l, c, b));
            sum += 2 * fmax(product_of(l, c, a | b), rows * alone);
        }
    }
    return sum;
}

/* Each block of a grid computes one block of something at least. */
static double count_blocks(const listing *l, const verify_case *c) {
    const verify_program *program = l->program;
    int32_t kernels = program->kernel_count > 1 ? program->kernel_count : 1, w = 0;
    double sum = 0;
    for (int32_t k = 0; k < kernels; k++) { /* the walks of several stand one after the other */
        int32_t own = kernels > 1 ? program->kernels[k].plan->walk_count : l->plan->walk_count;
        double blocks = own > 0;
        for (; own > 0 && w < l->plan->walk_count; own--, w++)
            blocks *= cases_value(&l->plan->walks[w], c);
        sum += blocks;
    }
    return sum * 2 * rows_of_block(l->plan) * (double)longest_block(l->plan);
}

double cases_table_flops(const listing *l, const verify_case *c) {
    double sum = count_products(l, c, true);
    if (sum <= 0) sum = count_products(l, c, false);
    return fmax(sum, count_blocks(l, c)) * cases_fixed_lengths(l->plan);
}

/* --- long cases ------------------------------------------------------------------------------- */

/* How long the stretches are that a table speaks of, at most. Where its entries are places, there
 * are as many as entries, times what is at a place, if only one axis could say how much that is.
 */
static double stretch_of(const listing *l, const ftl_plan_tensor *table, const verify_case *c) {
    const ftl_plan *plan = l->plan;
    double columns = cases_value(&table->axes[table->axis_count - 1].extent, c);
    if (table->use == FTL_TABLE_LENGTH) return cases_value(&table->limit, c);
    if (table->use == FTL_TABLE_STARTS) return cases_value(&table->limit, c) / fmax(columns - 1, 1);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            if (table_of_axis(plan, &tensor->axes[i]) != table) continue;
            uint32_t beside = sizes_of(tensor) & ~cases_sizes_in(&tensor->axes[i].extent);
            beside &= ~sizes_of(table);
            bool is_one = beside && (beside & (beside - 1)) == 0;
            return is_one ? columns * product_of(l, c, beside) : columns;
        }
    }
    return columns;
}

/* Is its number of entries told by the lengths that another table may hold? */
static bool is_bounded(const ftl_plan *plan, const ftl_plan_tensor *table) {
    uint32_t own = cases_sizes_in(&table->axes[table->axis_count - 1].extent);
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *other = &plan->tensors[t];
        if (cases_is_table(other) && other->use == FTL_TABLE_LENGTH &&
            cases_sizes_in(&other->limit) & own)
            return true;
    }
    return false;
}

/* Sizes that tables, or what they are looked up in, have to do with. */
static uint32_t sizes_of_tables(const ftl_plan *plan) {
    uint32_t set = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *tensor = &plan->tensors[t];
        if (cases_is_table(tensor)) set |= sizes_of(tensor) | cases_sizes_in(&tensor->limit);
        for (int32_t i = 0; i < tensor->axis_count; i++) {
            if (table_of_axis(plan, &tensor->axes[i])) set |= sizes_of(tensor);
        }
    }
    return set;
}

/* How much of what should be long is: a share of each, those of tables counted for more; and how
 * much of what counts matrices, sequences and places is more than one.
 */
static double coverage(const listing *l, const verify_case *c) {
    enum { TABLE = 4, STARTS = 3, ODD = 5 };
    static const double COUNT = 0.25, MATRICES = 2, PLACES = 16;
    const ftl_plan *plan = l->plan;
    double wanted = 2.0 * (double)longest_block(plan) + ODD, sum = 0;
    for (int32_t t = 0; t < plan->tensor_count; t++) {
        const ftl_plan_tensor *table = &plan->tensors[t];
        if (!cases_is_table(table)) continue;
        double columns = cases_value(&table->axes[table->axis_count - 1].extent, c);
        double limit = cases_value(&table->limit, c);
        if (table->use == FTL_TABLE_STARTS) sum += TABLE * fmin(1, columns / STARTS);
        if (table->use == FTL_TABLE_INDEX) sum += COUNT * fmin(1, limit / PLACES);
        if (table->use == FTL_TABLE_INDEX && is_bounded(plan, table)) continue;
        sum += TABLE * fmin(1, stretch_of(l, table, c) / wanted);
    }
    uint32_t tables = sizes_of_tables(plan);
    for (int32_t s = 0; s < plan->size_count; s++) {
        double size = (double)c->sizes[s];
        bool is_counted = s == l->q_heads || s == l->kv_heads || s == l->batch;
        bool is_long = !is_counted && !(tables >> s & 1) && cases_is_length(plan, s);
        sum += is_long ? fmin(1, size / wanted) : COUNT * fmin(1, size / MATRICES);
    }
    return sum;
}

/* Can the tables be filled, and has each tensor elements? */
bool cases_have_room(const listing *l, const verify_case *c) {
    for (int32_t s = 0; s < l->plan->size_count; s++) {
        if (c->sizes[s] < 1) return false;
    }
    for (int32_t t = 0; t < l->plan->tensor_count; t++) {
        const ftl_plan_tensor *table = &l->plan->tensors[t];
        double least = table->use == FTL_TABLE_STARTS ? 2 : 1;
        if (!cases_is_table(table)) continue;
        if (cases_value(&table->limit, c) < 1) return false;
        if (cases_value(&table->axes[table->axis_count - 1].extent, c) < least) return false;
    }
    return true;
}

/* Is 'one' the better of two? What is cheap goes before what covers more. */
static bool is_better(const listing *l, const verify_case *one, const verify_case *other) {
    static const double EQUAL = 1e-9;
    double cost = cases_flops(l, one) + cases_elements(l->plan, one);
    double before = cases_flops(l, other) + cases_elements(l->plan, other);
    bool is_cheap = cases_are_cheap(l, one), was_cheap = cases_are_cheap(l, other);
    if (is_cheap != was_cheap) return is_cheap;
    double more = is_cheap ? coverage(l, one) - coverage(l, other) : 0;
    return fabs(more) > EQUAL ? more > 0 : cost < before;
}

static bool try_size(const listing *l, int32_t size, int64_t value, verify_case *best) {
    verify_case tried = *best;
    tried.sizes[size] = value;
    if (!cases_solve(l, (uint64_t)value, size, &tried)) return false;
    if (!cases_have_room(l, &tried) || !is_better(l, &tried, best)) return false;
    *best = tried;
    return true;
}

/* One size after the other takes the value that is best with what the others are. */
void cases_add_long_tables(listing *l, verify_input input) {
    enum { ROUNDS = 4 };
    int64_t block = longest_block(l->plan);
    const int64_t values[] = {
        1, 2, 3, 4, 5, 8, 16, 24, 33, 64, block + 1, 2 * block + 5, 4 * block + 10};
    verify_case c = cases_blank(l);
    c.input = input, c.is_long = true;
    for (int32_t s = 0; s < l->plan->size_count; s++)
        c.sizes[s] = cases_is_length(l->plan, s) ? 33 + 8 * s : 1 + s % 2;
    cases_pin(l, &c);
    if (!cases_solve(l, (uint64_t)input, -1, &c)) return;
    bool is_moving = true;
    for (int round = 0; round < ROUNDS && is_moving; round++) {
        is_moving = false;
        for (int32_t s = 0; s < l->plan->size_count; s++) {
            if (cases_is_fixed(l, s)) continue;
            for (size_t v = 0; v < sizeof values / sizeof *values; v++)
                is_moving |= try_size(l, s, values[v], &c);
        }
    }
    if (!cases_are_cheap(l, &c)) return;
    cases_add_in_turn(l, c);
}
