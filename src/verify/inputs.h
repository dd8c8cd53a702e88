/* What a case's tensors and scalars hold. */
#ifndef FLASHTL_VERIFY_INPUTS_H
#define FLASHTL_VERIFY_INPUTS_H

#include "verify/buffer.h"

/* All that one case works on. */
typedef struct case_data {
    const verify_program *program;
    const verify_case *of;
    uint64_t seed;
    int32_t attempt; /* at tables whose uses do not say what they may hold: larger numbers first */
    buffer *tensors; /* by position in plan->tensors */
    ftl_scalar *scalars; /* by position in plan->scalars */
    ftl_tensor *arguments_of_tensors;
    ftl_arguments arguments;
} case_data;

/* Lays out and fills everything. False, with a sentence, when the program's conditions exclude the
 * case or its inputs cannot be made up (a table of integers whose uses are too involved).
 */
bool inputs_make(case_data *data, arena *memory, char why[FTL_WHY_BYTES]);

buffer *inputs_find(const case_data *data, const char *name); /* NULL when there is none */
double inputs_scalar(const case_data *data, const char *name, double otherwise);

/* How many elements of an axis a block of the kernel takes, as far as the plan says: up to 'most'
 * different values, ascending; 64 where it says nothing.
 */
int inputs_tiles(const ftl_plan *plan, int32_t size, int64_t *tiles, int most);
int inputs_known_tiles(const ftl_plan *plan, int32_t size, int64_t *tiles, int most); /* or none */

/* What one kernel leaves, another one may raise to a power: errors are known up to the first alone,
 * so inputs stay moderate.
 */
bool inputs_have_workspace(const ftl_plan *plan);

#endif
