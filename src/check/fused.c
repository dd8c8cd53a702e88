/* Tiles that no register has to hold: an element of theirs is made and used up on its way through
 * one run of elementwise statements, which the translator writes as one loop.
 */
#include "check/rules.h"

static bool is_vector(const model *m, const model_use *use) {
    return use->tile >= 0 && m->tiles[use->tile].axis_count < 2;
}

/* Does the statement go element by element: may it share its loop with its neighbours? */
static bool is_fused(const model *m, const model_step *step) {
    if (step->kind != STEP_COMPUTE || !step->has_target || step->target.tile < 0) return false;
    return tl_is_fused(step->statement->compute.operation, !is_vector(m, &step->target),
                       m->tiles[step->target.tile].allocation->allocate.layout.is_partial);
}

static bool reads(const model_step *step, int tile) {
    for (int i = 0; i < step->read_count; i++)
        if (step->reads[i].tile == tile) return true;
    return false;
}

/* What it gives out is known after the run only, so nothing of the run goes on with it. */
static bool ends_run(const model *m, const model_step *step) {
    return step->kind == STEP_COMPUTE && step->has_target && step->target.tile >= 0 &&
           is_vector(m, &step->target) && tl_reduces_by_choice(step->statement->compute.operation);
}

bool rules_is_fused_away(const model *m, const model_role *role, int tile) {
    bool is_in_run = false; /* the run at hand has made it */
    for (int i = 0; i < role->step_count; i++) {
        const model_step *step = &role->steps[i];
        bool is_made = step->has_target && step->target.tile == tile;
        bool is_read = reads(step, tile) || (is_made && step->accumulates);
        if (ends_run(m, step)) {
            if (is_read && !is_in_run) return false;
            is_in_run = false;
        } else if (!is_fused(m, step)) {
            if (is_made || is_read) return false;
            is_in_run = false;
        } else if (is_read && !is_in_run) {
            return false;
        } else {
            is_in_run = is_in_run || is_made;
        }
    }
    return true;
}
