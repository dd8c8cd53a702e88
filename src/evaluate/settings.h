/* How a model works in a trial: which steps are its own, and what it gets. */
#ifndef FLASHTL_EVALUATE_SETTINGS_H
#define FLASHTL_EVALUATE_SETTINGS_H

#include "base/text.h"
#include "think/steps.h"

enum { SETTING_NAME_BYTES = 48, SETTINGS_MAX = 24 };

/* STAGES(id, name, what the model writes) */
#define SETTING_STAGES_LIST(STAGES)                                                                \
    STAGES(SKETCH, "sketch", "the sketch; the compiler makes the TL Code")                         \
    STAGES(TWO, "two", "the sketch, then TL Code of it")                                           \
    STAGES(ONE, "one", "TL Code straight from the request")

typedef enum setting_stages {
#define STAGES(id, name, what) SETTING_##id,
    SETTING_STAGES_LIST(STAGES)
#undef STAGES
        SETTING_STAGES_COUNT
} setting_stages;

/* PART(id, name, what is missing without it) */
#define SETTING_PART_LIST(PART)                                                                    \
    PART(GRAMMAR, "grammar", "no grammar is sent")                                                 \
    PART(CHECKER, "checker",                                                                       \
         "of a text that breaks a rule a model hears only that it is not right")                   \
    PART(INTERPRETER, "interpreter",                                                               \
         "of a text that means something else a model hears only that it is not right")

typedef enum setting_part {
#define PART(id, name, what) SETTING_##id,
    SETTING_PART_LIST(PART)
#undef PART
        SETTING_PART_COUNT
} setting_part;

typedef struct evaluate_setting {
    setting_stages stages;
    uint32_t without;              /* bit per setting_part */
    char name[SETTING_NAME_BYTES]; /* "two-grammar-checker" */
} evaluate_setting;

/* "STAGES", "STAGES-PART-PART": parts that are taken away, in any order. False when it is none. */
bool setting_read(str text, evaluate_setting *out);
/* All, the full ones first; without those that take away a grammar that is not sent. */
int32_t settings_all(bool has_grammar, evaluate_setting out[SETTINGS_MAX]);
/* The usual ones: each of the stages, and the first without one part at a time. */
int32_t settings_usual(bool has_grammar, evaluate_setting out[SETTINGS_MAX]);

const char *setting_stages_meaning(setting_stages stages);
const char *setting_part_meaning(setting_part part);
const char *setting_part_name(setting_part part);
const char *setting_stages_name(setting_stages stages);
/* The rungs whose findings are withheld: think_run.muted_rungs. */
uint32_t setting_muted_rungs(const evaluate_setting *s);

#endif
