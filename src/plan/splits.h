/* How many splits the keys of a sequence are divided by where few queries see many of them
 * (decision 024): by sizes and the GPU, not by what tables hold.
 */
#ifndef FLASHTL_PLAN_SPLITS_H
#define FLASHTL_PLAN_SPLITS_H

#include "flashtl/plan.h"

/* A cut of keys; how many cuts kernels can count. */
enum { PLAN_CUT_KEYS = 64, PLAN_CUTS_MOST = 1 << 24 };

typedef struct plan_work {
    int64_t batch, q_len, q_heads, kv_heads;
} plan_work;

/* Splits, of all sequences together, that run at once: 'plan' is that of the kernel for them. */
int64_t plan_splits_at_once(const ftl_plan *plan, int64_t multiprocessors, const plan_work *work);

/* As many of each sequence as run at once, but none of few keys or without any, and a number that
 * the kernel that puts them together reads evenly. 'keys': as many as there is room for.
 */
int64_t plan_splits(const ftl_plan *plan, int64_t multiprocessors, const plan_work *work,
                    int64_t keys);

/* The least cuts of a split where sequences have as many splits as their lengths ask for: those of
 * a sequence of 'keys' that has as many splits as are worth combining.
 */
int64_t plan_cuts_least(int64_t keys);

#endif
