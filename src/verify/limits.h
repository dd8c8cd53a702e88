/* Numbers that put the limit of a Mask where it decides: inside a block of keys past the first, for
 * one of the first rows. Read from the conditions of the sketch that are sums: `kv <= q + win`.
 */
#ifndef FLASHTL_VERIFY_LIMITS_H
#define FLASHTL_VERIFY_LIMITS_H

#include "verify/inputs.h"

/* False: no condition of a Mask is a sum with this number. Of several the choice is 'turn'. */
bool limits_inside_block(const case_data *data, const char *scalar, uint64_t turn, double *value);

#endif
