/* The weights of a softmax in the online form, as products take them: one power per score. */
#ifndef FLASHTL_REASON_SOFTMAX_H
#define FLASHTL_REASON_SOFTMAX_H

#include "reason/edit.h"

typedef struct softmax_weights {
    str s, m, l;         /* scores, which become weights; their maximum and their sum, by rows */
    tl_statement *shift; /* what raises the exponents: -c times m, or a multiplied difference */
    tl_statement *power; /* Exp2 S and get S */
} softmax_weights;

/* Is the product's left operand such a tile? */
bool softmax_read(const tl_statement *product, softmax_weights *w);
/* Is it, once it is made, of no use but for products and its sum, l? */
bool softmax_has_sum(softmax_weights *w);

#endif
