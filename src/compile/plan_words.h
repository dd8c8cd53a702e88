/* Plans in JSON: the words that the writer says and the reader understands, and the reading. */
#ifndef FLASHTL_COMPILE_PLAN_WORDS_H
#define FLASHTL_COMPILE_PLAN_WORDS_H

#include "flashtl/context.h"
#include "flashtl/plan.h"

enum { PLAN_FORMAT = 1 };

typedef struct plan_word {
    int value;
    const char *name; /* NULL: the list ends */
} plan_word;
extern const plan_word plan_operators[];
extern const plan_word plan_types[];
extern const plan_word plan_roles[];
extern const plan_word plan_grids[];
extern const plan_word plan_derivations[];
extern const plan_word plan_uses[];

/* "" and 0 where the list has none. */
const char *plan_word_name(const plan_word *words, int value);
int plan_word_value(const plan_word *words, const char *name);

/* ftl_plan_read with its status: OK, INVALID_ARGUMENT, NO_MEMORY. */
ftl_status plan_read_json(const char *json, size_t length, char why[FTL_WHY_BYTES], ftl_plan **out);

#endif
