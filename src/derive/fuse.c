/* One kernel of two that compute the same products: each walks the blocks that the other's tiles
 * are. Its tiles keep the sums of the one in registers, and add their parts of the other's in
 * memory, where a kernel before it sets them to 0 and one after it takes them.
 */
#include "derive/derivation.h"

/* May the tiles of 'host' add up the sums of 'guest'? */
typedef struct fusion {
    derivation *d;
    group *guest, *host;
    int *sums; /* items */
    int count;
} fusion;

static bool meet(const derivation *d, const group *a, const group *b) {
    return a->walk.length && tape_has_axis(&d->tape, derivation_value(d, b), a->walk);
}

static bool is_of_gradients(const group *g) {
    return g->loads.count && !g->gives_delta && !g->gives.count && !g->is_by_entries;
}

/* Nothing but these sums has an axis of the host's blocks in it. */
static bool lie_apart(const fusion *f) {
    for (int i = 0; i < f->count; i++)
        if (tape_has_axis(&f->d->tape, f->d->tape.items.items[f->sums[i]].value, f->guest->walk))
            return false;
    return f->count > 0;
}

static bool is_possible(const derivation *d, const group *g) {
    write_kernel k = derivation_kernel(d, g);
    write_needs needs;
    return write_is_possible((tape *)&d->tape, &k, &needs) && !needs.sums_turned;
}

/* The kernel that sets the sums to 0: that of delta, whose tiles are the same blocks, or its own.
 */
static group *starter_of(derivation *d, int item) {
    tape *t = &d->tape;
    int value = t->items.items[item].value;
    for (int i = 0; i < d->groups.count; i++) {
        group *g = &d->groups.items[i];
        bool may_start = g->starts.count || (g->is_delta_alone && !t->delta_walks);
        if (may_start && derivation_has_same_blocks(d, derivation_value(d, g), value)) return g;
    }
    group own = {.takes = arena_array(t->memory, bool, t->items.count)};
    list_push(t->memory, &d->groups, own);
    return &d->groups.items[d->groups.count - 1];
}

/* Another kernel leaves it already. */
static bool is_there(const fusion *f, int i) {
    return write_cut_tensor(&f->d->tape, f->sums[i]).length > 0;
}

/* As if it were so: is it possible then? Else all is as before. */
static bool try_fusion(const fusion *f) {
    tape *t = &f->d->tape;
    str walk = f->guest->walk;
    int before = f->host->adds.count;
    f->guest->walk = STR("");
    for (int i = 0; i < f->count; i++) {
        if (!is_there(f, i)) list_push(t->memory, &f->host->adds, f->sums[i]);
        f->guest->takes[f->sums[i]] = true;
    }
    if (is_possible(f->d, f->host) && is_possible(f->d, f->guest)) return true;
    f->guest->walk = walk;
    f->host->adds.count = before;
    for (int i = 0; i < f->count; i++) f->guest->takes[f->sums[i]] = false;
    return false;
}

static bool fuse(const fusion *f) {
    derivation *d = f->d;
    tape *t = &d->tape;
    for (int i = 0; i < f->guest->loads.count; i++)
        list_push(t->memory, &f->host->fused,
                  derivation_input(d, &t->items.items[f->guest->loads.items[i]]));
    for (int i = 0; i < f->count; i++) {
        if (is_there(f, i)) continue;
        if (!derivation_cut(d, f->sums[i])) return false;
        group *starter = starter_of(d, f->sums[i]); /* (groups may move) */
        list_push(t->memory, &starter->starts, f->sums[i]);
    }
    return true;
}

/* What the one would add in memory, where both compute some product. */
static fusion fusion_of(derivation *d, group *guest, group *host) {
    tape *t = &d->tape;
    fusion f = {d, guest, host, arena_array(t->memory, int, t->items.count + 1), 0};
    bool is_of_both = is_of_gradients(guest) && is_of_gradients(host) && !guest->adds.count &&
                      meet(d, guest, host) && meet(d, host, guest);
    if (!is_of_both) return f;
    write_kernel one = derivation_kernel(d, guest), other = derivation_kernel(d, host);
    if (write_shared_products(t, &one, &other)) f.count = write_sums(t, &one, f.sums);
    if (f.count > 0 && !lie_apart(&f)) f.count = 0;
    return f;
}

bool fuse_groups(derivation *d) {
    int groups = d->groups.count;
    bool is_any = false;
    for (int few = 1; few <= d->tape.items.count; few++) /* what adds least in memory, first */
        for (int i = 0; i < groups; i++)
            for (int k = 0; k < groups; k++) {
                if (i == k) continue;
                fusion f = fusion_of(d, &d->groups.items[i], &d->groups.items[k]);
                if (f.count != few || !try_fusion(&f)) continue;
                if (!fuse(&f)) return false;
                is_any = true;
            }
    return is_any ||
           tape_refuse(&d->tape, NULL,
                       "nothing can be fused here: two kernels of gradients become one where both "
                       "compute some product, each walks the blocks that the other's tiles are, "
                       "and one of them makes no sums over its walk but of products; derive "
                       "without --fused, or those of fewer Inputs (--of)");
}
