/* Does a kernel multiply 8-bit floats, and weigh with them? Its TL Code says so. */
#ifndef FLASHTL_VERIFY_NARROW_H
#define FLASHTL_VERIFY_NARROW_H

#include "verify/verify.h"

typedef struct narrow {
    bool products;         /* some product takes 8-bit floats: few bits of its sums are kept */
    bool weights;          /* the left one is computed, and rounded to 8 bits: */
    bool has_e5m2;         /* those of e5m2, else e4m3 */
    bool is_linear;        /* on the line between powers of two */
    bool is_voted;         /* the maximum moves by a vote */
    double largest_weight; /* of a row, at least */
} narrow;

narrow narrow_of(const verify_program *program);

#endif
