/* Whether a kernel's text stays within its arrays, and reads what it has written. */
#ifndef FLASHTL_THINK_DEVICE_ARRAYS_H
#define FLASHTL_THINK_DEVICE_ARRAYS_H

#include "diag/diag.h"

/* An index past an array of known lengths is undefined, and so is what a variable holds before
 * anything is written to it. A compiler that unrolls the loop may leave the access out, or take
 * what is right by chance: nothing that runs shows it. Loops with constant bounds are gone through
 * step by step, with the conditions that are known there. What a run-time condition may skip passes
 * where the index is of a loop around it; so does what is not understood.
 * False with findings in 'diags'.
 */
bool device_arrays_check(str text, diag_list *diags);

#endif
