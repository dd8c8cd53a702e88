/* Pass launch: which kernels begin while those before them end.
 *
 * A kernel of a program that follows another is short of nothing but the other's results, and
 * waits for these in the kernel. What it has to itself until then is its launch: blocks are placed
 * and know their tiles when the results are there. A program's first kernel follows what nobody
 * knows here.
 *
 * By themselves blocks are placed when all before them have ended. A kernel that yields has them
 * placed when all of its own have begun: none of those waits for the room that they take.
 */
#include "reason/scalar.h"

static const tl_kernel *kernel_before(const reason *r) {
    const tl_kernel *k = r->program->first;
    while (k && k->next != r->kernel) k = k->next;
    return k;
}

/* A block with a tile, all of whose warps do the same. */
static bool may_yield(const reason *r, const tl_statement *grid) {
    int roles = 0;
    for (const tl_statement *s = r->kernel->body.first; s; s = s->next) {
        if (s->kind != TL_ROLE) continue;
        if (s->role.is_warpgroups || roles++) return false;
    }
    return grid->grid.kind == TL_GRID_PLAIN;
}

static void decide_yielding(reason *r, tl_statement *grid) {
    const tl_kernel *after = r->kernel->next;
    bool may = may_yield(r, grid);
    int64_t yields = reason_decided(r, grid->grid.is_yielding || (after && may), "yielding");
    grid->grid.is_yielding = yields != 0;
    if (!after || !may) return;
    reason_offers_switch(r, "yielding", yields != 0);
    if (yields)
        reason_decide(r, "yielding",
                      "blocks of %.*s are placed once all of this kernel's have begun, so that "
                      "they are there when it ends",
                      STR_ARGS(after->name));
}

bool reason_launch(reason *r) {
    tl_statement *grid = scalar_grid(r->kernel);
    if (!grid || !gpu_has(r->target, GPU_FEATURE_early_launch)) return true;
    decide_yielding(r, grid);
    const tl_kernel *before = kernel_before(r);
    int64_t early = reason_decided(r, grid->grid.is_early || before != NULL, "early");
    grid->grid.is_early = early != 0;
    if (before) reason_offers_switch(r, "early", early != 0);
    if (early && before)
        reason_decide(r, "early",
                      "blocks begin while %.*s ends, and wait for its end before they touch global "
                      "memory: its last results and this launch overlap",
                      STR_ARGS(before->name));
    else if (early)
        reason_decide(r, "early",
                      "blocks begin while what was launched before ends, and wait for its end "
                      "before they touch global memory");
    return true;
}
