/* The steps that a model can do, and the rungs that its texts climb. */
#ifndef FLASHTL_THINK_STEPS_H
#define FLASHTL_THINK_STEPS_H

/* STEP(id, name, what comes out) */
#define THINK_STEP_LIST(STEP)                                                                      \
    STEP(SKETCH, "sketch", "a sketch")                                                             \
    STEP(REASON, "reason", "TL Code")                                                              \
    STEP(TRANSLATE, "translate", "CUDA")

typedef enum think_step {
#define STEP(id, name, what) THINK_##id,
    THINK_STEP_LIST(STEP)
#undef STEP
        THINK_STEP_COUNT
} think_step;

/* RUNG(id, name, what passing it means), cheapest first. */
#define THINK_RUNG_LIST(RUNG)                                                                      \
    RUNG(READ, "read", "the answer holds one whole program")                                       \
    RUNG(CHECK, "check", "it follows the rules of the language")                                   \
    RUNG(MEANING, "meaning", "it means what it should, by the interpreter")                        \
    RUNG(BUILD, "build", "a kernel can be made of it")                                             \
    RUNG(COMPILE, "compile", "the CUDA compiler takes it")                                         \
    RUNG(EMULATE, "emulate", "the kernel is right, and breaks no rule of the machine")             \
    RUNG(GPU, "gpu", "the kernel is right on the GPU")

typedef enum think_rung {
#define RUNG(id, name, meaning) THINK_RUNG_##id,
    THINK_RUNG_LIST(RUNG)
#undef RUNG
        THINK_RUNG_COUNT
} think_rung;

const char *think_step_name(think_step step);
const char *think_step_result(think_step step);
const char *think_rung_name(think_rung rung);
const char *think_rung_meaning(think_rung rung);

#endif
