/* Inputs that make scores what decides: one that dominates, scores that climb, very negative ones.
 * Which tensors meet in a product is seen from their axes.
 */
#ifndef FLASHTL_VERIFY_PLANTED_H
#define FLASHTL_VERIFY_PLANTED_H

#include "verify/inputs.h"

/* A matrix of an Input: its last two axes, one of which a product contracts. */
typedef struct planted_matrix {
    int32_t tensor;      /* of the plan; -1: there is none */
    int row, contracted; /* axes; of the values the row is what weights run along */
} planted_matrix;

/* Rows of 'left' (queries) meet rows of 'right' (keys) in scores, and those weigh rows of 'values'.
 */
typedef struct planted {
    planted_matrix left, right, values;
} planted;

planted planted_find(const ftl_plan *plan);

/* Are there scores? Do they weigh anything? */
bool planted_has_scores(const planted *p);
bool planted_has_values(const planted *p);

/* What brings scores of N(0,1) to a standard deviation of 1: one over the root of what is summed.
 */
double planted_scale(const case_data *data, const planted *p);

/* Changes a row of N(0,1) of the Input at 'position' of the plan into what the case asks for. */
void planted_row(const case_data *data, const planted *p, int32_t position, int64_t row,
                 double *values);

#endif
