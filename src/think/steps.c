#include "think/steps.h"

static const struct {
    const char *name, *what;
} steps[] = {
#define STEP(id, name, what) {name, what},
    THINK_STEP_LIST(STEP)
#undef STEP
};

static const struct {
    const char *name, *meaning;
} rungs[] = {
#define RUNG(id, name, meaning) {name, meaning},
    THINK_RUNG_LIST(RUNG)
#undef RUNG
};

const char *think_step_name(think_step step) {
    return steps[step].name;
}

const char *think_step_result(think_step step) {
    return steps[step].what;
}

const char *think_rung_name(think_rung rung) {
    return rungs[rung].name;
}

const char *think_rung_meaning(think_rung rung) {
    return rungs[rung].meaning;
}
