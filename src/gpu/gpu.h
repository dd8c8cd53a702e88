/* GPU descriptions: what the reasoner, the checks and the translator know of a GPU.
 *
 * A description is a text file, one line "key = value unit  // source of the figure" per row of
 * gpu/fields.def, and "features = word, word ...". The shipped ones are built in; a user's own is
 * read by path. Names are compared without regard to case, '-', '_' and blanks.
 * No other layer compares capabilities: what a kernel may use is a feature or a figure here.
 */
#ifndef FLASHTL_GPU_GPU_H
#define FLASHTL_GPU_GPU_H

#include "base/arena.h"
#include "base/text.h"
#include "diag/diag.h"

typedef enum gpu_feature {
#define FEATURE(word, meaning) GPU_FEATURE_##word,
#include "gpu/features.def"
#undef FEATURE
    GPU_FEATURE_COUNT
} gpu_feature;

typedef struct gpu {
    str name; /* of the file: "rtx-4090" */
    str word; /* the name as TL writes it, an identifier: "rtx_4090" */
#define GPU_TEXT(key, meaning) str key;
#define GPU_INTEGER(key, unit, least, most, meaning) int64_t key; /* the unit is in fields.def */
#define GPU_REAL(key, unit, least, most, meaning) double key;
#include "gpu/fields.def"
#undef GPU_TEXT
#undef GPU_INTEGER
#undef GPU_REAL
    uint64_t features; /* bit per gpu_feature */
} gpu;

/* Finds a GPU by name, title or alias, or, when 'name' holds a '/' or ends in ".gpu", reads that
 * file. Sets up 'problems' (source name and text are those of the file). False with one or more
 * errors in it: an unknown name (with the nearest known ones as a hint), an unreadable file, a bad
 * line. 'out' and what it points to live in 'memory'.
 */
bool gpu_find(arena *memory, str name, gpu *out, diag_list *problems);

/* The shipped GPU whose name, title or alias is nearest to 'name'; false when none is near. */
bool gpu_nearest(arena *memory, str name, str *nearest);

/* Reads a description. 'problems' has been set up with 'text' as its source. */
bool gpu_read(arena *memory, str name, str text, gpu *out, diag_list *problems);

/* The shipped GPUs in the order of their capability, then of their names. */
typedef struct gpu_names {
    int count;
    str *names;
} gpu_names;
gpu_names gpu_list(arena *memory);

bool gpu_has(const gpu *g, gpu_feature feature);
/* The feature of that name; false when there is none. */
bool gpu_feature_named(str word, gpu_feature *feature);
const char *gpu_feature_word(gpu_feature feature);

/* Prints a description in the files' own form, without comments: what it reads, it would write. */
void gpu_print(const gpu *g, text_buffer *out);

/* --- derived figures -------------------------------------------------------------------------- */

double gpu_tensor_tflops(const gpu *g); /* by the widest instruction */
double gpu_mma_tflops(const gpu *g);    /* by mma.sync */
/* Operations a clock of an SM by mma.sync, or by asynchronous products, of operands so wide; 0: it
 * has no unit for them.
 */
double gpu_product_rate(const gpu *g, int operand_bytes, bool is_async);
/* Are sums of 8-bit products so short that long ones lose terms, and f32 has to take them over? */
enum { GPU_SHORT_SUM_MOST = 512 /* terms of one sign, before that can be seen */ };
bool gpu_cuts_byte_sums(const gpu *g);

/* What one block takes. */
typedef struct gpu_block {
    int threads;
    int registers; /* per thread, as the compiler reports them */
    int64_t shared_bytes;
} gpu_block;

typedef enum gpu_limit {
    GPU_LIMIT_THREADS,
    GPU_LIMIT_REGISTERS,
    GPU_LIMIT_SHARED,
    GPU_LIMIT_BLOCKS,
} gpu_limit;

/* Blocks resident on an SM; 0 when one does not fit. *limit (may be NULL): what stops at that many.
 */
int gpu_occupancy(const gpu *g, gpu_block block, gpu_limit *limit);
/* The most registers a thread may have so that 'blocks' blocks of 'threads' fit an SM. */
int gpu_registers_for(const gpu *g, int threads, int blocks);
/* The most shared bytes a block may have so that 'blocks' blocks fit an SM. */
int64_t gpu_shared_for(const gpu *g, int blocks);

#endif
