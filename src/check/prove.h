/* What bounds alone prove of an expression: each name is taken for itself, from least to most, as
 * far as differences do not cancel it. A length is no less than 0, and an index of the grid or a
 * loop is where its walk allows it.
 */
#ifndef FLASHTL_CHECK_PROVE_H
#define FLASHTL_CHECK_PROVE_H

#include "check/check.h"
#include "model/model.h"

/* From least to most; INT64_MIN and INT64_MAX stand for what is beyond all numbers. */
typedef struct prove_span {
    int64_t least, most;
} prove_span;

typedef struct prover {
    const model *model;
    prove_span *spans; /* of names, by tl_symbol.position */
    unsigned char *states;
    int depth, branches;
} prover;

prover prove_start(arena *memory, const model *m);
prove_span prove_span_of(prover *p, const tl_expr *e);

/* Does the condition never hold, does the loop run at most so many times, whatever the lengths? */
bool prove_never(prover *p, const tl_expr *condition);
bool prove_at_most(prover *p, const tl_for *loop, int64_t count);

#endif
