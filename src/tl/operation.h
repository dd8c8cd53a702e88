/* What is known of the operations of Compute: the one table that checks, passes, interpreter,
 * translator and documents ask. Its rows are in operations.def.
 */
#ifndef FLASHTL_TL_OPERATION_H
#define FLASHTL_TL_OPERATION_H

#include <stdbool.h>

typedef enum tl_operation {
#define OPERATION(id, ...) TL_##id,
#include "tl/operations.def"
    TL_OPERATION_UNKNOWN
} tl_operation;

/* How the axes of a result follow from the operands': see docs/language.md. */
typedef enum tl_shape_rule {
    TL_SHAPE_PRODUCT,     /* (i, k) x (k, j) -> (i, j) */
    TL_SHAPE_ELEMENTWISE, /* the widest operand's */
    TL_SHAPE_REDUCTION,   /* the operand's without its last */
    TL_SHAPE_CHOICE,      /* the operand's, with the second operand's name for its last */
    TL_SHAPE_FILL,        /* the target's own */
    TL_SHAPE_MASK,        /* the first operand's, which is also the target */
    TL_SHAPE_SOFTMAX
} tl_shape_rule;

/* What RowTopK gives where a row has no further element, and how many places it gives at most. */
enum { TL_NO_PLACE = -1, TL_TOP_MAX = 64 };

typedef enum tl_side { TL_NEITHER, TL_RIGHT, TL_EITHER } tl_side;

/* In which operands together a result is linear, the others being as they are: a bit per set. */
enum {
    TL_IN_FIRST = 1 << 1,
    TL_IN_SECOND = 1 << 2,
    TL_IN_BOTH = 1 << 3,
    TL_IN_FIRST_AND_THIRD = 1 << 5,
    TL_IN_SECOND_AND_THIRD = 1 << 6
};

/* How a kernel's instructions for it end. */
typedef enum tl_ending {
    TL_ARITHMETIC, /* the compiler sees through it */
    TL_ASSEMBLY,   /* of a known operand comes no known result */
    TL_CHOICE      /* between two values, which the compiler may hold where it pleases */
} tl_ending;

typedef struct tl_operation_facts {
    const char *name;
    int operands;
    tl_shape_rule shape;

    /* Of one element; NULL where it is not made element by element. Each result rises or falls all
     * along where an operand is above 0, and all along where it is below, or 'waves'.
     */
    double (*of)(double a, double b, double c);
    void (*row)(const double *a, const double *b, const double *c, int count, double *out);
    bool (*is_exact)(double a, double b, double result);
    void (*errors)(const double *results, const double *firsts, int count, double *out);
    unsigned waves; /* what it may be of a finite operand other than 0: HOLDS_... (tl/holds.h) */
    double neutral; /* the operand that leaves the other as it is... */
    tl_side neutral_side;     /* ... on this side */
    bool chooses;             /* the result is one of the operands */
    tl_operation first, then; /* of three operands: then(first(a, b), c) */
    bool is_identity;
    bool levels_off; /* flat far out */
    unsigned linear; /* TL_IN_... */

    tl_operation combines_by; /* of a reduction: puts two results together */
    bool gives_place;         /* of a reduction: where it is, not what it is */

    const char *wrapper; /* in src/device; "": the operand itself; NULL: there is none */
    tl_ending ends_in;
    bool is_chain;                  /* of instructions that wait for each other */
    double fp32, exp2, conversions; /* instructions an element: plain, special function, rounding */
} tl_operation_facts;

const tl_operation_facts *tl_facts(tl_operation operation);

/* By what `accumulate` puts the old value and the result together; a reduction, two results. */
tl_operation tl_combining(tl_operation operation);
double tl_neutral(tl_operation operation);   /* what leaves a reduction as it is */
double tl_start(tl_operation operation);     /* what an accumulator starts from */
const char *tl_neutral_text(double neutral); /* as an expression: infinity has no word of its own */
bool tl_reduces_by_sum(tl_operation operation);    /* a reduction that may leave parts of sums */
bool tl_reduces_by_choice(tl_operation operation); /* a reduction to one of its operands */

/* Is the result linear in these operands (a bit each) together? Then what is done to summands is
 * done to their sum, and a factor may come later.
 */
bool tl_is_linear(tl_operation operation, unsigned operands);

/* Does the statement go element by element, so that it shares its loop with its neighbours? */
bool tl_is_fused(tl_operation operation, bool has_matrix, bool has_partial_target);

#endif
