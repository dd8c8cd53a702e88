/* A text that is run without any rounding says what its sketch says, to the last digits: what is
 * too little wrong to tell it from rounding shows.
 */
#ifndef FLASHTL_VERIFY_EXACT_H
#define FLASHTL_VERIFY_EXACT_H

#include "verify/judge.h"

/* Can the program's TL Code be compared so? Weights of 8 bits are made from bits of a number. */
bool exact_is_known(const case_data *data);

/* Runs it; with FTL_OK 'wide' has its Outputs. */
ftl_status exact_run(ftl_context *context, const case_data *data, arena *memory, buffer **wide);

/* Of one Output: false where an element is further from the sketch's than the constants' digits and
 * the order of sums explain.
 */
bool exact_is_right(const judged *o, arena *memory, judgement *out);

#endif
