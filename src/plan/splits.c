#include "plan/splits.h"

#include <string.h>

enum { SPLITS_MAX = 256, SPLIT_KEYS_MIN = 128, SIZES_MAX = 64 };

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

int64_t plan_splits(const ftl_plan *plan, int64_t multiprocessors, const plan_work *work,
                    int64_t keys) {
    int64_t most = keys / SPLIT_KEYS_MIN < SPLITS_MAX ? keys / SPLIT_KEYS_MIN : SPLITS_MAX;
    int64_t splits =
        work->batch > 0 ? plan_splits_at_once(plan, multiprocessors, work) / work->batch : 1;
    return even_splits(splits < most ? splits : most);
}
