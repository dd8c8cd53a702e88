#include "reason/ways.h"

#include <string.h>

/* Tiles that fit come before those that may make the compiler spill; of these those that miss by
 * least. */
static bool is_better(const cost_result *a, const cost_result *b) {
    if (a->is_tight != b->is_tight) return b->is_tight;
    if (a->is_tight && a->registers != b->registers) return a->registers < b->registers;
    return a->per_element < b->per_element;
}

/* Puts 'c' in its place among the best 'most'. Returns how many there are. */
static int insert(ways_candidate *list, int count, int most, const ways_candidate *c) {
    int at = count;
    while (at > 0 && is_better(&c->result, &list[at - 1].result)) at--;
    if (at == most) return count;
    if (count < most) count++;
    for (int i = count - 1; i > at; i--) list[i] = list[i - 1];
    list[at] = *c;
    return count;
}

static bool is_same_cut(const cost_choice *a, const cost_choice *b) {
    return a->warps == b->warps && a->warpgroups == b->warpgroups && a->is_paired == b->is_paired &&
           !memcmp(a->sizes, b->sizes, sizeof a->sizes);
}

static void keep_cut(ways_list *w, const ways_candidate *c) {
    for (int i = 0; i < w->cut_count; i++) {
        if (!is_same_cut(&w->cuts[i].choice, &c->choice)) continue;
        if (!is_better(&c->result, &w->cuts[i].result)) return;
        w->cut_count--;
        for (int k = i; k < w->cut_count; k++) w->cuts[k] = w->cuts[k + 1];
    }
    w->cut_count = insert(w->cuts, w->cut_count, REASON_WAYS, c);
}

void ways_keep(ways_list *w, const ways_candidate *c) {
    w->fitting++;
    w->kept_count = insert(w->kept, w->kept_count, WAYS_KEPT_MAX, c);
    if (w->wants_cuts) keep_cut(w, c);
}

bool ways_choose(ways_list *w, int n) {
    if (n == 0) return w->kept_count > 0;
    if (n >= w->cut_count) return false;
    w->kept_count = w->cut_count - n;
    for (int i = 0; i < w->kept_count; i++) w->kept[i] = w->cuts[n + i];
    return true;
}
