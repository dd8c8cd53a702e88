#include "plan/splits.h"

#include <string.h>

enum { SPLITS_MAX = 256, SIZES_MAX = 64 };

/* The blocks that one split of one sequence has: all walks but those. */
static int64_t blocks_of_sequence(const ftl_plan *plan, const plan_work *work) {
    static const double no_scalars[SIZES_MAX] = {0};
    int64_t sizes[SIZES_MAX] = {0}, blocks = 1;
    for (int32_t i = 0; i < plan->size_count && i < SIZES_MAX; i++) {
        const char *name = plan->sizes[i].name;
        sizes[i] = strcmp(name, "q_len") == 0      ? work->q_len
                   : strcmp(name, "q_heads") == 0  ? work->q_heads
                   : strcmp(name, "kv_heads") == 0 ? work->kv_heads
                                                   : 1;
    }
    for (int32_t i = 0; i < plan->walk_count; i++) {
        double tiles;
        if (!ftl_formula_evaluate(&plan->walks[i], sizes, no_scalars, &tiles) || tiles < 1)
            tiles = 1;
        blocks = tiles < INT32_MAX && blocks < INT32_MAX ? blocks * (int64_t)tiles : INT32_MAX;
    }
    return blocks;
}

int64_t plan_splits_at_once(const ftl_plan *plan, int64_t multiprocessors, const plan_work *work) {
    return multiprocessors * plan->blocks_per_sm / blocks_of_sequence(plan, work);
}

/* The combination reads eight at a time. */
static int64_t even_splits(int64_t most) {
    enum { ROUND = 8 };
    if (most >= ROUND) return most / ROUND * ROUND;
    return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/* Of a cut's keys at least; and so many that what one split more takes off each block is more than
 * what it adds to the combination: a block goes through two keys in the time in which the
 * combination reads a split (0.025 and 0.045 us on an H200, 1,024 to 8,192 keys).
 */
static int64_t most_splits(int64_t keys) {
    enum { KEYS_A_SPLIT = 2 };
    int64_t most = keys / PLAN_CUT_KEYS < SPLITS_MAX ? keys / PLAN_CUT_KEYS : SPLITS_MAX;
    while (most > 1 && KEYS_A_SPLIT * most * most > keys) most--;
    return most;
}

int64_t plan_splits(const ftl_plan *plan, int64_t multiprocessors, const plan_work *work,
                    int64_t keys) {
    int64_t most = most_splits(keys), cuts = (keys + PLAN_CUT_KEYS - 1) / PLAN_CUT_KEYS;
    int64_t splits =
        work->batch > 0 ? plan_splits_at_once(plan, multiprocessors, work) / work->batch : 1;
    splits = even_splits(splits < most ? splits : most);
    int64_t share = (cuts + splits - 1) / splits, used = share ? (cuts + share - 1) / share : 1;
    while (splits > 1 && even_splits(splits - 1) >= used) splits = even_splits(splits - 1);
    return splits;
}

int64_t plan_cuts_least(int64_t keys) {
    int64_t most = most_splits(keys), cuts = (keys + PLAN_CUT_KEYS - 1) / PLAN_CUT_KEYS;
    return most > 1 ? (cuts + most - 1) / most : 1;
}
