/* Pass launch: which kernels begin while those before them end.
 *
 * A kernel of a program that follows another is short of nothing but the other's results, and
 * waits for these in the kernel. What it has to itself until then is its launch: blocks are placed
 * and know their tiles when the results are there. Blocks take no room from those before them, as
 * they are placed when these have ended. A program's first kernel follows what nobody knows here.
 */
#include "reason/scalar.h"

static const tl_kernel *kernel_before(const reason *r) {
    const tl_kernel *k = r->program->first;
    while (k && k->next != r->kernel) k = k->next;
    return k;
}

bool reason_launch(reason *r) {
    tl_statement *grid = scalar_grid(r->kernel);
    if (!grid || !gpu_has(r->target, GPU_FEATURE_early_launch)) return true;
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
