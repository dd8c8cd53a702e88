/* Whether the loops of a kernel's text stay within the arrays that they walk. */
#ifndef FLASHTL_THINK_DEVICE_ARRAYS_H
#define FLASHTL_THINK_DEVICE_ARRAYS_H

#include "diag/diag.h"

/* An index past an array of known lengths is undefined, and a compiler that unrolls the loop may
 * leave the access out: nothing that runs shows it. Followed are loops with constant bounds and
 * indices made of their variables; what a condition may skip, or what is not understood, passes.
 * False with findings in 'diags'.
 */
bool device_arrays_check(str text, diag_list *diags);

#endif
