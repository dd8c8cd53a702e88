#include "think/limits.h"

#include "base/number.h"
#include "think/record.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIMITS_MAX = 8, SENTENCE_BYTES = 256, SHOWN = 3 };

typedef struct limit {
    double weight; /* how much there may be to gain: 0 to 1 */
    char sentence[SENTENCE_BYTES];
} limit;

typedef struct limit_list {
    limit items[LIMITS_MAX];
    int count;
} limit_list;

__attribute__((format(printf, 3, 4))) static void add(limit_list *l, double weight,
                                                      const char *format, ...) {
    if (l->count == LIMITS_MAX) return;
    limit *item = &l->items[l->count++];
    va_list arguments;
    va_start(arguments, format);
    number_print_list(item->sentence, sizeof item->sentence, format, arguments);
    va_end(arguments);
    item->weight = weight;
}

static void add_speed(limit_list *l, const ftl_gpu *gpu, const json_t *facts) {
    double tflops = json_number(facts, "tflops"), peak = json_number(facts, "mma_tflops");
    const char *untimed = json_text(facts, "untimed");
    if (*untimed) add(l, 2, "no speed is told: %s", untimed);
    if (!(peak > 0)) peak = gpu->mma_tflops;
    if (tflops > 0 && peak > 0) {
        add(l, 1.1 - tflops / peak,
            "%.0f TFLOPS are %.0f %% of what the matrix units reach by mma.sync (%.0f)", tflops,
            100 * tflops / peak, peak);
    }
}

static void add_occupancy(limit_list *l, const ftl_plan *plan, const ftl_gpu *gpu) {
    int warps = plan->threads / 32 * plan->blocks_per_sm;
    add(l,
        warps < 4   ? 0.9
        : warps < 8 ? 0.5
                    : 0.1,
        "%d warps are resident on a multiprocessor (%d blocks of %d threads): fewer than 8 hide "
        "little "
        "latency",
        warps, (int)plan->blocks_per_sm, (int)plan->threads);
    double share = gpu->shared_bytes ? (double)plan->shared_bytes / (double)gpu->shared_bytes : 0;
    add(l, share > 0.5 ? 0.4 : 0.15,
        "a block takes %d bytes of shared memory, %.0f %% of what it could have",
        (int)plan->shared_bytes, 100 * share);
}

static void add_counts(limit_list *l, const json_t *facts) {
    double wavefronts = json_number(facts, "wavefronts"),
           least = json_number(facts, "least_wavefronts");
    double instructions = json_number(facts, "instructions");
    if (least > 0) {
        add(l, 1 - least / wavefronts,
            "shared memory needs %.2f times the wavefronts that the same accesses take without "
            "bank conflicts",
            wavefronts / least);
    }
    if (instructions > 0) {
        add(l, 0.3,
            "a launch of middling size issues %.0f instructions of warps and %.0f wavefronts of "
            "shared memory",
            instructions, wavefronts);
    }
}

static int by_weight(const void *a, const void *b) {
    double x = ((const limit *)a)->weight, y = ((const limit *)b)->weight;
    return x < y ? 1 : x > y ? -1 : 0;
}

json_t *limits_of(ftl_context *context, const ftl_plan *plan, const json_t *facts) {
    limit_list l = {0};
    ftl_gpu gpu = FTL_GPU_INIT;
    bool is_known = ftl_gpu_describe(context, plan->gpu, &gpu) == FTL_OK;
    if (is_known) add_speed(&l, &gpu, facts);
    add_occupancy(&l, plan, &gpu);
    add_counts(&l, facts);
    qsort(l.items, (size_t)l.count, sizeof *l.items, by_weight);
    json_t *all = json_array();
    for (int i = 0; i < l.count && i < SHOWN; i++) {
        json_array_append_new(all, json_string(l.items[i].sentence));
    }
    return all;
}
