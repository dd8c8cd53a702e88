/* What a number may be, as far as it matters past the end of an axis: its sign, 0, whether f16
 * holds it, an infinity, NaN; or which number it is. The one algebra of the checks (check/ends.c)
 * and of the passes (reason/ends.c), so that what a pass leaves out no check asks for. It follows
 * from the results that the table of operations gives.
 *
 * A number that is not known otherwise is taken to be below HOLDS_VAST_ABOVE, sums to stay in the
 * range of what they add, and products of small numbers to stay off 0.
 */
#ifndef FLASHTL_TL_HOLDS_H
#define FLASHTL_TL_HOLDS_H

#include "tl/tree.h"

#include <stdint.h>

/* But for NaN from the least to the largest. */
enum {
    HOLDS_NAN = 1,
    HOLDS_LOW = 2, /* minus infinity */
    HOLDS_VAST_BELOW = 4,
    HOLDS_FAR_BELOW = 8,
    HOLDS_BELOW = 16,
    HOLDS_ZERO = 32,
    HOLDS_ABOVE = 64,
    HOLDS_FAR_ABOVE = 128,  /* overflows in f16 */
    HOLDS_VAST_ABOVE = 256, /* products of two may overflow in f32 */
    HOLDS_HIGH = 512,       /* plus infinity */
    HOLDS_F16 = HOLDS_BELOW | HOLDS_ZERO | HOLDS_ABOVE,
    HOLDS_POSITIVE = HOLDS_ABOVE | HOLDS_FAR_ABOVE, /* of numbers that are not known otherwise */
    HOLDS_NEGATIVE = HOLDS_BELOW | HOLDS_FAR_BELOW,
    HOLDS_GIVEN = HOLDS_NEGATIVE | HOLDS_ZERO | HOLDS_POSITIVE,
    HOLDS_FINITE = HOLDS_GIVEN | HOLDS_VAST_BELOW | HOLDS_VAST_ABOVE,
    HOLDS_ANY = 1023
};

typedef struct holds_value {
    unsigned may;   /* HOLDS_..., at least one */
    bool is_number; /* it is 'number', which every type holds exactly */
    double number;
} holds_value;

holds_value holds_these(unsigned may);
holds_value holds_number(double number);
holds_value holds_given(tl_type type);          /* by a tensor of that type */
bool holds_only(holds_value h, unsigned may);   /* nothing but these */
bool holds_equal(holds_value a, holds_value b); /* 0 and -0 are two: Reciprocal tells them apart */
holds_value holds_either(holds_value a, holds_value b);

/* What operations came to, so that none is worked out twice. All zero at first. */
enum { HOLDS_MEMO_SLOTS = 1024 };
typedef struct holds_memo {
    uint64_t slots[HOLDS_MEMO_SLOTS]; /* by operation and kinds of operands: the kinds of results */
} holds_memo;

/* Of an elementwise operation; 'count' operands, all that it takes. 'memo' may be NULL. */
holds_value holds_apply(holds_memo *memo, tl_operation operation, const holds_value *operands,
                        int count);
holds_value holds_neutral(tl_operation reduction); /* what leaves it as it is */
/* Of any number of such elements, one at least. */
holds_value holds_reduced(holds_memo *memo, tl_operation reduction, holds_value element);
bool holds_leaves(tl_operation operation, int operand, holds_value value); /* the other as it is */
holds_value holds_existing(holds_value value); /* of elements that exist: taken to be finite */
holds_value holds_rounded(holds_value value, tl_type type); /* to what a tile of that type holds */

/* --- scalar expressions ----------------------------------------------------------------------- */

typedef enum holds_meaning {
    HOLDS_UNKNOWN,
    HOLDS_DEFINED, /* by 'value' */
    HOLDS_INPUT,   /* with 'condition', or NULL */
    HOLDS_LENGTH,  /* at least 1: where one is 0, nothing is computed */
    HOLDS_PLACE,   /* the index of an axis: from 0 on, and past its end */
    HOLDS_COUNTER  /* of tiles, from 0 on */
} holds_meaning;

typedef struct holds_name {
    holds_meaning meaning;
    const tl_expr *value, *condition;
} holds_name;

/* Finds out what a name, or an element of a tensor, means. */
typedef struct holds_scope {
    holds_name (*find)(void *context, const tl_expr *name);
    void *context;
    holds_memo *memo; /* may be NULL */
} holds_scope;

holds_value holds_expression(const holds_scope *scope, const tl_expr *e);

#endif
