/* What a search among tile sizes found: the best candidates, and the best of each way to cut a
 * kernel into tiles.
 */
#ifndef FLASHTL_REASON_WAYS_H
#define FLASHTL_REASON_WAYS_H

#include "reason/cost_model.h"
#include "reason/pass.h"

enum { WAYS_KEPT_MAX = 6 }; /* candidates that are shown */

typedef struct ways_candidate {
    cost_choice choice;
    cost_result result;
} ways_candidate;

typedef struct ways_list {
    ways_candidate kept[WAYS_KEPT_MAX]; /* best first */
    int kept_count, fitting;
    /* The best of those that have the same sizes, warps and warpgroups; best first. Kept only where
     * another one than the very best is wanted.
     */
    bool wants_cuts;
    ways_candidate cuts[REASON_WAYS];
    int cut_count;
} ways_list;

void ways_keep(ways_list *w, const ways_candidate *c);

/* Puts the cut number n first, and those after it next. False: there are not so many. */
bool ways_choose(ways_list *w, int n);

/* ways_explain.c: "BM = 128, BN = 64, 4 warps of 32 rows, K in 2, V in 1 slots". */
const char *ways_describe(reason *r, const cost_model *m, const ways_candidate *c);
/* Writes down what was chosen, beside the candidates that come next. */
void ways_explain(reason *r, const cost_model *m, const ways_list *w);

#endif
