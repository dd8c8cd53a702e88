/* Gradients of a sketch, as sketches: TL in, TL out, by rules that know statements alone.
 *
 * Values are taken one by one from the sketch (tape.c), their gradients from its end on (reverse.c,
 * rules.def), and each Input's gradient becomes the Output of a kernel that walks the axis which is
 * summed (write.c). What is needed of the forward pass is given out by it: a sum over its loop, the
 * log-sum-exp of a softmax. Everything inside a pair of blocks is computed again.
 */
#ifndef FLASHTL_DERIVE_DERIVE_H
#define FLASHTL_DERIVE_DERIVE_H

#include "diag/diag.h"
#include "tl/tl.h"

typedef struct derive_request {
    const str *of; /* the Inputs; count 0: all that numbers are copied from */
    int of_count;
    bool is_fused; /* kernels that compute the same products become one, which adds in memory */
} derive_request;

/* Appends a program: the forward kernel with what it has to leave, then the gradients' kernels in
 * their order. 'kernel' is bound, its axes inferred. False: reported.
 */
bool derive_gradients(tl_kernel *kernel, const derive_request *request, arena *memory,
                      diag_list *diags, text_buffer *out);

#endif
