/* What a plan's formulas give: whether its conditions hold, the tiles of its grid, and derived
 * parameters. All follows from sizes and scalars, so that it can be kept by them. Runs at every
 * launch, so it neither allocates nor formats anything unless it fails.
 */
#include "base/number.h"
#include "plan/fields.h"
#include "plan/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { KEPT = 16 }; /* choices of lengths that a kernel is launched with in turns */
static const int64_t GRID_MAX = INT32_MAX; /* blocks along x that every GPU takes */
/* Where tiles are counted past the last one by each block. */
static const int64_t COUNTED_MAX = INT32_MAX / 2;

typedef struct numbers {
    const ftl_plan *plan;
    const int64_t *sizes;
    const double *scalars;
    char *why;
} numbers;

__attribute__((format(printf, 2, 3))) static bool refuse(const numbers *n, const char *format,
                                                         ...) {
    va_list arguments;
    va_start(arguments, format);
    number_print_list(n->why, FTL_WHY_BYTES, format, arguments);
    va_end(arguments);
    return false;
}

static bool count_blocks(const numbers *n, int64_t *blocks) {
    *blocks = 1;
    for (int32_t i = 0; i < n->plan->walk_count; i++) {
        const ftl_formula *walk = &n->plan->walks[i];
        double tiles;
        if (!ftl_formula_evaluate(walk, n->sizes, n->scalars, &tiles) || tiles < 0) {
            return refuse(n, "the walk '%s' of the grid cannot be computed", walk->text);
        }
        int64_t most = n->plan->grid_kind == FTL_GRID_DYNAMIC ? COUNTED_MAX : GRID_MAX;
        if (tiles * (double)*blocks > (double)most) {
            return refuse(n, "the grid has more than %" PRId64 " blocks", most);
        }
        *blocks *= (int64_t)tiles;
    }
    return true;
}

/* 2n * multiplier >> 32 >> shift is n / divisor for 0 <= n < 2^31: with 2^shift >= divisor the
 * multiplier is 2^(31 + shift) / divisor, rounded up, at most 2^32 - 1.
 */
static void write_divisor(uint64_t divisor, uint64_t *word) {
    uint32_t words[2] = {0, 0}; /* multiplier, shift */
    while (((uint64_t)1 << words[1]) < divisor) words[1]++;
    words[0] = (uint32_t)((((uint64_t)1 << (31 + words[1])) + divisor - 1) / divisor);
    memcpy(word, words, sizeof words);
}

/* Parameters that the kernel need not compute, as their bytes. */
static bool derive(const numbers *n, int64_t blocks, uint64_t *words) {
    for (int32_t i = 0; i < n->plan->derived_count; i++) {
        const ftl_plan_derived *d = &n->plan->derived[i];
        double value = (double)blocks;
        if (d->kind != FTL_DERIVED_TILES &&
            (!ftl_formula_evaluate(&d->formula, n->sizes, n->scalars, &value) ||
             fabs(value) > INT32_MAX || (d->kind == FTL_DERIVED_DIVISOR && value < 1))) {
            return refuse(n, "kernel '%s' cannot work with %s", n->plan->kernel, d->formula.text);
        }
        int32_t integer = (int32_t)value;
        if (d->kind == FTL_DERIVED_DIVISOR) write_divisor((uint64_t)value, &words[i]);
        else memcpy(&words[i], &integer, sizeof integer);
    }
    return true;
}

/* The sizes and scalars that a formula reads, for a message: "q_heads = 6, kv_heads = 4". */
static void describe_operands(const numbers *n, const ftl_formula *formula, char *out,
                              size_t capacity) {
    size_t length = 0;
    *out = 0;
    for (int32_t i = 0; i < formula->step_count && length < capacity; i++) {
        const ftl_formula_step *step = &formula->steps[i];
        const char *comma = length ? ", " : "";
        int wrote = 0;
        if (step->op == FTL_PUSH_SIZE) {
            wrote = snprintf(out + length, capacity - length, "%s%s = %" PRId64, comma,
                             n->plan->sizes[step->index].name, n->sizes[step->index]);
        } else if (step->op == FTL_PUSH_SCALAR) {
            wrote = number_print(out + length, capacity - length, "%s%s = %g", comma,
                                 n->plan->scalars[step->index].name, n->scalars[step->index]);
        }
        length += (size_t)wrote;
    }
}

static bool check_conditions(const numbers *n) {
    for (int32_t i = 0; i < n->plan->condition_count; i++) {
        const ftl_formula *condition = &n->plan->conditions[i];
        double holds;
        bool is_known = ftl_formula_evaluate(condition, n->sizes, n->scalars, &holds);
        if (is_known && holds != 0) continue;
        char operands[FTL_WHY_BYTES / 2];
        describe_operands(n, condition, operands, sizeof operands);
        return refuse(n, "kernel '%s' demands %s; %s%s", n->plan->kernel, condition->text,
                      is_known ? "here " : "it cannot be computed from ", operands);
    }
    return true;
}

static bool compute(const numbers *n, uint64_t *found) {
    int64_t blocks;
    memset(found, 0, (PLAN_DERIVED + (size_t)n->plan->derived_count) * sizeof *found);
    if (!check_conditions(n) || !count_blocks(n, &blocks)) return false;
    found[PLAN_TILES] = (uint64_t)blocks;
    return blocks == 0 || derive(n, blocks, found + PLAN_DERIVED);
}

kept *plan_numbers_new(const ftl_plan *plan) {
    return kept_new(KEPT, (size_t)plan->size_count + (size_t)plan->scalar_count,
                    PLAN_DERIVED + (size_t)plan->derived_count);
}

bool plan_numbers(const ftl_plan *plan, kept *table, const int64_t *sizes, const double *scalars,
                  uint64_t found[PLAN_NUMBERS_MAX], char why[FTL_WHY_BYTES]) {
    const numbers n = {plan, sizes, scalars, why};
    if (!table) return compute(&n, found);
    uint64_t key[2 * PLAN_ITEMS_MAX];
    memcpy(key, sizes, (size_t)plan->size_count * sizeof *key);
    memcpy(key + plan->size_count, scalars, (size_t)plan->scalar_count * sizeof *key);
    if (kept_find(table, key, found)) return true;
    if (!compute(&n, found)) return false;
    kept_put(table, key, found);
    return true;
}
