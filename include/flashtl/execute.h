/* flashtl/execute.h: running a program on the CPU, on the caller's arrays.
 *
 * Two machines: the interpreter gives TL its meaning (sketch or TL Code), the emulator executes the
 * PTX of an emitted kernel with all checks. Both take arguments as a launch on the GPU does, with
 * host addresses instead of device addresses. Neither runs native code of the program's making.
 */
#ifndef FLASHTL_EXECUTE_H
#define FLASHTL_EXECUTE_H

#include "flashtl/context.h"
#include "flashtl/flashtl.h"
#include "flashtl/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --- the interpreter -------------------------------------------------------------------------- */

typedef enum ftl_arithmetic {
    FTL_EXACT = 1,   /* fp64 throughout, nothing rounded: the reference of any program */
    FTL_ROUNDED = 2, /* f32, rounded to the declared types where TL says so */
    FTL_ERRORS = 3,  /* of a sketch: as EXACT, but Outputs get how far a right kernel's results may
                       be  from those before they are stored (about one standard deviation), where it
                       computes in f32 and multiplies 16-bit operands; infinite where what it holds
                       on the way is beyond its type */
    FTL_ERRORS_OF_BYTES = 4 /* the same where its products take 8-bit operands, of whose sums the
                               GPU may keep 13 bits, and computed left ones are rounded to e4m3 */
} ftl_arithmetic;

/* The parameters of a program as a plan without entry and grid, for callers that have no kernel
 * yet: tensors, sizes, scalars, conditions. 'dtype' is that of tensors whose type the text leaves
 * open. The caller frees it with ftl_plan_free. OK, REJECTED, NO_MEMORY.
 */
FTL_API ftl_status ftl_parameters(ftl_context *context, const ftl_source *source, ftl_type dtype,
                                  ftl_plan **out);

/* Runs all kernels of a program in order. Tensors and scalars are found by name; sizes come from
 * the extents. With EXACT and ERRORS, outputs may be given as F32 whatever their declared type:
 * results are then rounded to f32 only. A tile size that a sketch leaves open is the whole axis
 * unless a scalar of its name is given. Outputs are written as far as the run came. Safe from
 * several threads. OK, REJECTED (the text is wrong, or its run broke a rule: diagnostics),
 * INVALID_ARGUMENT (also where a condition of the program does not hold, as at a kernel's launch),
 * NO_MEMORY.
 */
FTL_API ftl_status ftl_interpret(ftl_context *context, const ftl_source *source,
                                 ftl_arithmetic arithmetic, const ftl_arguments *arguments);

/* --- the emulator ----------------------------------------------------------------------------- */

/* A kernel's PTX, read once. The module's variables keep what a launch leaves there, as on a GPU.
 */
typedef struct ftl_emulator ftl_emulator;

/* Reads PTX; 'plan' and 'ptx' are copied. 'name' is shown where a line has no file. Free it with
 * ftl_emulator_close. OK, REJECTED (the PTX has what the machine does not know), INVALID_ARGUMENT,
 * NO_MEMORY.
 */
FTL_API ftl_status ftl_emulator_open(ftl_context *context, const ftl_plan *plan, const char *ptx,
                                     size_t length, const char *name, ftl_emulator **out);
FTL_API void ftl_emulator_close(ftl_emulator *emulator); /* NULL is fine */

/* Start from FTL_EMULATION_OPTIONS_INIT: fields that are added later mean "not used" when they are
 * 0.
 */
typedef struct ftl_emulation_options {
    size_t struct_bytes;         /* sizeof(ftl_emulation_options) */
    uint64_t seed;               /* order of warps and landing copies; 0: in order */
    uint64_t instruction_budget; /* warp instructions; 0: 2^32 */
    bool go_on;                  /* run all blocks, also after one with findings */
    bool wants_statistics;
} ftl_emulation_options;

#define FTL_EMULATION_OPTIONS_INIT FTL_STRUCT_INIT(ftl_emulation_options)

/* Texts are the caller's: ftl_emulation_done frees them. */
typedef struct ftl_emulation {
    int32_t finding_count;
    char *findings;   /* FILE:LINE: error: ..., "" when clean */
    char *statistics; /* memory instructions by source line; NULL unless asked for */
    char *json;       /* all of it as one object; NULL unless statistics are asked for */
    uint64_t instructions, blocks;
    uint64_t wavefronts, least_wavefronts; /* of shared memory: needed, and at best */
} ftl_emulation;

/* Runs one launch. 'options' may be NULL. A launch with nothing to do is OK and runs nothing.
 * OK, CHECK_FAILED (findings; outputs hold what was computed), INVALID_ARGUMENT (the arguments do
 * not fit the plan; the options were not begun with FTL_EMULATION_OPTIONS_INIT), NO_MEMORY. One
 * call per emulator at a time.
 */
FTL_API ftl_status ftl_emulate(ftl_context *context, ftl_emulator *emulator,
                               const ftl_arguments *arguments, const ftl_emulation_options *options,
                               ftl_emulation *out);
FTL_API void ftl_emulation_done(ftl_emulation *emulation);

#ifdef __cplusplus
}
#endif

#endif
