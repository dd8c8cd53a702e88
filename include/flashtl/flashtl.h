/* flashtl/flashtl.h: the compiler, from sketch to CUDA text. Pure: no file is written, nothing is
 * printed, no environment and no locale is read, and the same input gives the same bytes. Running
 * kernels is flashtl/runtime.h's part; both live in the same library.
 *
 *     request -> sketch -> TL Code -> CUDA
 *
 * Each arrow is a function here, and each text can be printed, edited and read back. Functions that
 * return text through 'char **out' hand it over: free it with ftl_free; on failure it is NULL.
 * Texts end in NUL and in a newline. A context belongs to one thread; any number of threads may
 * work at once, each with a context of its own.
 */
#ifndef FLASHTL_FLASHTL_H
#define FLASHTL_FLASHTL_H

#include "flashtl/context.h"
#include "flashtl/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A text to read. 'name' is in messages ("attention.tl"); 'text' need not end in NUL. Both may
 * be freed on return.
 */
typedef struct ftl_source {
    const char *name;
    const char *text;
    size_t length;
} ftl_source;

/* NAME=VALUE, a decision that is taken from the reasoner: BN=64, d=128, stages=3. */
typedef struct ftl_pin {
    const char *name;
    const char *value;
} ftl_pin;

/* Start from FTL_OPTIONS_INIT: fields that are added later mean "not used" when they are 0. */
typedef struct ftl_options {
    size_t struct_bytes; /* sizeof(ftl_options) */
    const char *gpu;     /* "a100", or the path of a description (it holds '/' or ends in .gpu) */
    ftl_type dtype;      /* of tensors whose type the sketch leaves open; 0: f16 */
    const ftl_pin *pins;
    int32_t pin_count;
    const char *stop_after; /* name of the last pass to run; NULL: all */
    const char *measured; /* a tuner's decisions (docs/tuning.md); "": none, NULL: those shipped */
    const char *entry;    /* symbol of the kernel, an identifier of C; of several kernels this and
                             "_KERNEL" for each. NULL: the kernel's name in TL */
} ftl_options;

#define FTL_OPTIONS_INIT FTL_STRUCT_INIT(ftl_options)

/* --- sketches --------------------------------------------------------------------------------- */

/* Writes the sketch of a shipped operator. Settings choose its options: "causal", "window=128".
 * OK, NOT_FOUND (with the nearest name), INVALID_ARGUMENT, NO_MEMORY.
 */
FTL_API ftl_status ftl_sketch(ftl_context *context, const char *operator_name,
                              const char *const *settings, int32_t setting_count, char **out);
/* Instead of a name: every Input that the sketch leaves open and of which nothing is computed but
 * products.
 */
#define FTL_EVERY_OPERAND "*"
/* Writes the sketch with element types for Inputs and Outputs that it leaves open: {"K", "e4m3"}.
 * OK, REJECTED, INVALID_ARGUMENT (no such type, or the text says another), NOT_FOUND (no such
 * tensor, with the nearest), NO_MEMORY.
 */
FTL_API ftl_status ftl_set_types(ftl_context *context, const ftl_source *source,
                                 const ftl_pin *types, int32_t type_count, char **out);
/* The file that has an operator's sketch: "attention" for "gqa". OK, NOT_FOUND. */
FTL_API ftl_status ftl_operator_family(ftl_context *context, const char *operator_name,
                                       char family[64]);
/* Lists the operators and their options. OK, NO_MEMORY. */
FTL_API ftl_status ftl_operators(ftl_context *context, char **out);

/* --- texts ------------------------------------------------------------------------------------ */

/* Prints a program in the one canonical form. OK, REJECTED, NO_MEMORY. */
FTL_API ftl_status ftl_format(ftl_context *context, const ftl_source *source, char **out);

typedef enum ftl_grammar_form { FTL_EBNF = 1, FTL_GBNF = 2, FTL_LARK = 3 } ftl_grammar_form;
FTL_API ftl_status ftl_grammar(ftl_context *context, ftl_grammar_form form, char **out);

/* --- the steps -------------------------------------------------------------------------------- */

/* Judges a program: names, axes, spaces, types; TL Code also against its GPU: layouts, budgets,
 * hazards, and whether everything is decided. 'gpu' overrules what the kernels say; NULL: as they
 * say. OK, REJECTED, NO_MEMORY.
 */
FTL_API ftl_status ftl_check(ftl_context *context, const ftl_source *source, const char *gpu);

/* For who only interprets a program, what ftl_reason and ftl_build ask before anything else:
 * whether the pins are about something that it has, with numbers that it may have, and whether it
 * is right, as ftl_check judges it, with the lengths that they give. OK, REJECTED (the program),
 * INVALID_ARGUMENT with the names that there are, NO_MEMORY.
 */
FTL_API ftl_status ftl_check_pins(ftl_context *context, const ftl_source *source,
                                  const ftl_options *options);

/* Makes TL Code of a sketch: every decision becomes a statement. OK, REJECTED, INVALID_ARGUMENT (a
 * pin), NO_MEMORY.
 */
FTL_API ftl_status ftl_reason(ftl_context *context, const ftl_source *source,
                              const ftl_options *options, char **code);

/* Derives a sketch's gradients: a program of sketches, the forward pass (with what the gradients
 * need of it as further Outputs) first, then kernels that take the gradient dY of each Output Y and
 * give out the gradient dX of each Input X. 'of' names 'of_count' Inputs; 0: all tensors of numbers
 * that are copied as they are. 'is_fused': of two kernels that would compute the same products,
 * each walking the blocks that the other's tiles are, one is made, which adds the other's gradients
 * up in memory: fewer products, but sums in no order. '*out' is the caller's to free. OK, REJECTED
 * (what has no gradient, or that nothing can be fused, is said, with its place), INVALID_ARGUMENT,
 * NO_MEMORY.
 */
FTL_API ftl_status ftl_derive(ftl_context *context, const ftl_source *source, const char *const *of,
                              int32_t of_count, bool is_fused, char **out);

/* Explains: for a sketch each decision, its numbers and what lost; for TL Code (then only
 * options->gpu counts) its memory by tile, its registers and what each Wait does. Statuses as
 * above.
 */
FTL_API ftl_status ftl_explain(ftl_context *context, const ftl_source *source,
                               const ftl_options *options, char **text);
/* The passes of the reasoner in order, and the decisions that may be pinned, one a line. */
FTL_API ftl_status ftl_passes(ftl_context *context, char **text);

/* A decision of the reasoner that a pin may take instead. */
typedef struct ftl_decision {
    const char *kernel;    /* TL name */
    const char *name;      /* the pin's: "BN" */
    int64_t value;         /* what was taken */
    const int64_t *values; /* what a pin may say, 'value' among them; not every combination fits */
    int32_t value_count;
    bool is_pinned; /* by options->pins */
} ftl_decision;

/* A table of candidates that were compared for a decision; the first row was taken. */
typedef struct ftl_comparison {
    const char *kernel;         /* TL name */
    const char *subject;        /* "tile sizes" */
    const char *title;          /* "the best candidates" */
    const char *const *columns; /* their names, column_count of them; the first names the row */
    const char *const *units;   /* "" where a column has none */
    const char *const *cells;   /* row after row: row_count times column_count */
    int32_t column_count, row_count;
} ftl_comparison;

typedef struct ftl_decisions {
    const ftl_decision *items;
    int32_t count;
    const char *problem; /* names what was decided for: "attention 5f0c2e8112345678 f16 d=128" */
    double predicted_tflops;
    const ftl_comparison *comparisons;
    int32_t comparison_count;
} ftl_decisions;

/* The decisions taken for a sketch, and what each could be. Free with ftl_decisions_free. Statuses
 * as of ftl_reason; INVALID_ARGUMENT for TL Code, in which everything is decided.
 */
FTL_API ftl_status ftl_decide(ftl_context *context, const ftl_source *source,
                              const ftl_options *options, ftl_decisions **out);
FTL_API void ftl_decisions_free(ftl_decisions *decisions); /* NULL is fine */

/* The measured decisions that are shipped for a GPU, "" where there are none: with the description,
 * what decides its kernels. OK, REJECTED, NO_MEMORY.
 */
FTL_API ftl_status ftl_measured_text(ftl_context *context, const char *gpu, char **out);

/* Counts the operations of a program's products for given sizes, by name (d too): two for each
 * element of a product and each step of its contraction, over the whole axes; a product that stands
 * several times in the text (an iteration written before its loop) counts once, masks do not count.
 * 0 for a program without products. OK, REJECTED, INVALID_ARGUMENT (a size is missing), NO_MEMORY.
 */
FTL_API ftl_status ftl_flops(ftl_context *context, const ftl_source *source,
                             const ftl_scalar *sizes, int32_t size_count, double *flops);

typedef struct ftl_kernel {
    char *cuda; /* one self-contained file */
    ftl_plan *plan;
} ftl_kernel;

/* What became of a program: owns all it points to; free with ftl_product_free. */
typedef struct ftl_product {
    char *sketch;            /* canonical; NULL when the source was TL Code */
    char *code;              /* TL Code: what the kernels were made from */
    char *reasons;           /* as of ftl_explain; "" for TL Code */
    double predicted_tflops; /* of the first kernel at long lengths; 0: not modelled */
    ftl_kernel *kernels;
    int32_t kernel_count;
} ftl_product;

/* Makes CUDA of TL Code. 'gpu' overrules what the kernels say; NULL: as they say. OK, REJECTED
 * (also when something is still open), NO_MEMORY.
 */
FTL_API ftl_status ftl_translate(ftl_context *context, const ftl_source *source, const char *gpu,
                                 ftl_product **out);
/* The same with a choice of how instructions are written: as plain CUDA, or through CuTe's atoms,
 * with shared tiles as CuTe layouts; the file then includes headers of CUTLASS. CuTe has no atoms
 * for kernels of warpgroups here: REJECTED.
 */
typedef enum ftl_text_form { FTL_PLAIN_CUDA = 1, FTL_CUTE = 2 } ftl_text_form;
FTL_API ftl_status ftl_translate_to(ftl_context *context, const ftl_source *source, const char *gpu,
                                    ftl_text_form form, ftl_product **out);
/* All steps: a sketch is reasoned first, TL Code is taken as it is. */
FTL_API ftl_status ftl_build(ftl_context *context, const ftl_source *source,
                             const ftl_options *options, ftl_product **out);
FTL_API void ftl_product_free(ftl_product *product);

/* All steps, and where each line comes from: a JSON object with the texts, and for each statement
 * of TL Code its line, the lines of the sketch that it stands for or serves, the passes that wrote
 * it and its lines in the CUDA text; with the decisions and their numbers, where tiles lie in
 * shared memory, and what is predicted to run when in two tiles (docs/decisions/027-view.md).
 * '*json' is the caller's to free. Statuses as of ftl_build; INVALID_ARGUMENT with stop_after.
 */
FTL_API ftl_status ftl_trace(ftl_context *context, const ftl_source *source,
                             const ftl_options *options, char **json);

/* --- GPUs ------------------------------------------------------------------------------------- */

/* Start from FTL_GPU_INIT, which says how much of it a function may fill in. */
typedef struct ftl_gpu {
    size_t struct_bytes; /* sizeof(ftl_gpu) */
    char name[64];       /* "rtx-4090" */
    char title[64];      /* "NVIDIA GeForce RTX 4090" */
    char target[32];     /* "sm_89" */
    int32_t capability;  /* 10 * major + minor */
    int32_t multiprocessors;
    int64_t shared_bytes; /* most a block can have */
    int64_t l2_bytes;
    double memory_gb_per_s;
    double tensor_tflops; /* dense, 16-bit, by the widest instruction */
    double mma_tflops;    /* the same by mma.sync */
} ftl_gpu;

#define FTL_GPU_INIT FTL_STRUCT_INIT(ftl_gpu)

/* Describes a GPU by name, alias or path. OK, NOT_FOUND (with the nearest name), NO_FILE, REJECTED
 * (a description with mistakes). So do all functions that take a GPU.
 */
FTL_API ftl_status ftl_gpu_describe(ftl_context *context, const char *name, ftl_gpu *out);
/* The description's own text, as it is read: what decides a kernel of this GPU. */
FTL_API ftl_status ftl_gpu_text(ftl_context *context, const char *name, char **out);
/* The shipped GPUs, in the order of capability and name. 0 past the last: OK or NOT_FOUND. */
FTL_API ftl_status ftl_gpu_at(ftl_context *context, int32_t index, ftl_gpu *out);
/* The shipped description that fits a device best: by its name, else one of its capability, else
 * of the nearest lower one. OK, NOT_FOUND.
 */
FTL_API ftl_status ftl_gpu_for_device(ftl_context *context, const char *device_name,
                                      int32_t capability, int32_t multiprocessors, ftl_gpu *out);

#ifdef __cplusplus
}
#endif

#endif
