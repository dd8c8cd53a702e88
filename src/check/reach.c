/* Has every step been run, and every loop's body twice in a row? What no run comes to, no rule has
 * judged; and what one iteration leaves to the next is judged only where there is a next. It is
 * refused, unless it is proved that it never runs.
 */
#include "check/machine.h"
#include "check/prove.h"

/* Does nothing in the body of a loop or `if` ever run, whatever the lengths? */
static bool never_runs(prover *p, const model_step *step) {
    if (step->kind == STEP_IF) return prove_never(p, step->statement->branch.condition);
    return prove_at_most(p, &step->statement->loop, 0);
}

/* The first step that should have been come to, and was not; NULL: there is none. */
static const model_step *first_missed(const machine *mc) {
    prover p = {0};
    for (int r = 0; r < mc->model->role_count; r++) {
        const model_role *role = &mc->model->roles[r];
        for (int i = 0; i < role->step_count; i++) {
            const model_step *step = &role->steps[i];
            if (!mc->steps[r][i].is_reached) return step;
            bool opens = step->kind == STEP_FOR || step->kind == STEP_IF;
            bool repeats = step->kind == STEP_FOR && !mc->steps[r][i].is_repeated;
            if (!opens || (mc->steps[r][i + 1].is_reached && !repeats)) continue;
            if (!p.model) p = prove_start(mc->memory, mc->model);
            if (never_runs(&p, step)) i = step->other;
            else if (repeats && !prove_at_most(&p, &step->statement->loop, 1)) return step;
        }
    }
    return NULL;
}

bool reach_is_whole(const machine *mc) {
    return !first_missed(mc);
}

void reach_judge(machine *mc) {
    if (mc->extents->is_cut) {
        events_finding *f = machine_report(mc, FAULT_TOO_MANY, NULL, -1, (str){0});
        if (f) f->found = EXTENTS_VARIABLES_MAX;
        return;
    }
    mc->is_tainted = false;
    const model_step *missed = first_missed(mc);
    if (missed) machine_report(mc, FAULT_UNREACHED, missed->statement, -1, (str){0});
}
