/* What the rules found in TL Code that the reasoner made, said about the sketch. */
#ifndef FLASHTL_COMPILE_BLAME_H
#define FLASHTL_COMPILE_BLAME_H

#include "gpu/gpu.h"
#include "tl/names.h"

typedef struct blame_case {
    const tl_program *sketch; /* bound */
    const tl_program *made;   /* by the reasoner: its statements know theirs of the sketch */
    tl_program *read;         /* the same from its text: where the finding lies */
    const diag *finding;
    const gpu *target;
} blame_case;

/* One error at a statement of the sketch: what cannot be done there, and what to do. It has no word
 * about the TL Code, nor names that only that has.
 */
typedef struct blame_verdict {
    diag_range range;
    str cannot, advice;
} blame_verdict;

blame_verdict blame_sketch(const blame_case *c, arena *memory);
void blame_report(const blame_verdict *verdict, diag_list *diags);

/* Which kernel of 'read' an offset is in. */
int blame_kernel(const tl_program *read, uint32_t offset);

#endif
