/* The meaning of TL, on the CPU.
 *
 * Runs one kernel of a bound program whose axes are inferred (tl_bind, tl_infer_axes), sketch or TL
 * Code, on tensors in memory. A sketch is run literally: whole tiles, Softmax in two passes,
 * elements past an end do not exist. TL Code is run by its executors as coroutines, asynchronous
 * effects at the latest legal moment; what goes wrong in time or place (a missing Wait, a deadlock,
 * an element written twice) is reported at the statement, with a note at the other one.
 *
 * Pure: no global state; one call per arena and diag_list at a time. All memory is the arena's:
 * tiles take 8 bytes an element, a map of what was written 2 bytes an element of the Outputs.
 */
#ifndef FLASHTL_INTERPRET_INTERPRET_H
#define FLASHTL_INTERPRET_INTERPRET_H

#include "base/convert.h"
#include "tl/names.h"
#include "tl/tl.h"

typedef enum interpret_mode {
    INTERPRET_EXACT,   /* fp64 everywhere, nothing rounded: the reference of any program */
    INTERPRET_ROUNDED, /* arithmetic in f32, storage in the declared types (language study 5.8) */
    INTERPRET_ERRORS, /* of a sketch: EXACT, with the errors of a kernel's arithmetic carried along;
                        it is they that Outputs get (errors.c) */
    INTERPRET_ERRORS_OF_BYTES /* ... of a kernel whose products take 8-bit operands */
} interpret_mode;

/* A tensor in memory, for the Input or Output of that name. Strides count elements and may be any.
 * 'format' is that of the memory, which need not be the declared type (fp64 results of EXACT).
 */
typedef struct interpret_tensor {
    str name;
    void *data;
    convert_format format;
    int axis_count;
    int64_t extents[TL_AXES_MAX];
    int64_t strides[TL_AXES_MAX];
    double *errors; /* ERRORS: what a kernel before this one erred by, dense; NULL: nothing */
} interpret_tensor;

/* A scalar Input; or a tile size that a sketch leaves open (without one: the whole axis). */
typedef struct interpret_scalar {
    str name;
    double value;
} interpret_scalar;

typedef struct interpret_request {
    const interpret_tensor *tensors;
    int tensor_count;
    const interpret_scalar *scalars;
    int scalar_count;
    interpret_mode mode;
    const int64_t *tiles; /* flat tile numbers of the grid (first walk fastest); NULL: all */
    int64_t tile_count;
    int resident_blocks; /* of persistent and dynamic grids; 0: two, or two thirds of the tiles */
    int64_t most_steps;  /* statements executed, all executors together; 0: 2^40 */
} interpret_request;

typedef struct interpret_report {
    int64_t tiles_run, tiles_total;
    int64_t steps;           /* statements executed */
    bool errors_are_unknown; /* ERRORS: an element that errs was taken by its index */
} interpret_report;

/* Returns false when an error was reported. 'report' may be NULL. Outputs are written even then, as
 * far as the run came.
 */
bool interpret_kernel(tl_kernel *kernel, const interpret_request *request, arena *memory,
                      diag_list *diags, interpret_report *report);

convert_format interpret_format(tl_type type); /* open: f32 */

#endif
