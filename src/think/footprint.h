/* Why is a program wrong? Experiments that hold for any program: each Input is changed part by
 * part, in the program and in the reference, and what follows is compared.
 */
#ifndef FLASHTL_THINK_FOOTPRINT_H
#define FLASHTL_THINK_FOOTPRINT_H

#include "think/trial.h"

typedef struct footprint_case {
    const ftl_plan *plan;
    const trial_machine *candidate, *reference;
    const trial_machine
        *whole;       /* the candidate with all in one block; NULL: fewer rows are tried */
    int64_t rows;     /* of the lengths: more than a block */
    double tolerance; /* relative rms error that is none */
    double seconds_most;
} footprint_case;

/* Adds what was found, a sentence a line; nothing when the programs agree on the case, or it cannot
 * be made. OK, NO_MEMORY; failures of the candidate's runs end the search.
 */
ftl_status footprint_explain(ftl_context *context, const footprint_case *c, arena *memory,
                             text_buffer *out);

#endif
