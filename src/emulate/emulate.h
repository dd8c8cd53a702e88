/* A machine that executes PTX on the CPU and says what is wrong with the kernel.
 *
 * The PTX is what NVRTC, nvcc or clang make for sm_75 and later. Each thread block runs alone; a
 * warp is 32 lanes in step, apart where the program diverges. Shared memory has a shadow: who wrote
 * and read what when, what nothing wrote, what a copy still flies to. Asynchronous copies land at
 * the latest moment the rules allow. So a missing barrier, wait or fence is found whatever the luck
 * of a schedule would be, and is named with the source lines (from -lineinfo) of both accesses.
 *
 * Nothing here runs native code of the kernel's making. Functions are reentrant: a module is read
 * only and may serve several threads, each with its own arena.
 */
#ifndef FLASHTL_EMULATE_EMULATE_H
#define FLASHTL_EMULATE_EMULATE_H

#include "base/text.h"
#include "diag/diag.h"

enum {
    EMULATE_BUFFERS_MAX = 64,
    EMULATE_THREADS_MAX = 1024,
    EMULATE_SHARED_MAX = 232448 /* bytes a block, the most that any GPU has */
};

typedef struct emulate_module emulate_module;

/* Reads PTX text. NULL when there were errors, which 'diagnostics' then holds (its ranges count in
 * the PTX). The module lives in 'memory' and points into 'ptx'.
 */
emulate_module *emulate_read(arena *memory, str ptx, diag_list *diagnostics);

/* The module's variables in global memory, as they begin. NULL when it has none. */
uint8_t *emulate_variables(const emulate_module *module, arena *memory);

/* Global memory that the kernel may touch. Guard bands are infinite: any address outside a buffer
 * is found, also one that is in another buffer by chance.
 */
typedef struct emulate_buffer {
    str name;
    void *data; /* the caller's; written in place */
    size_t bytes;
    bool readable, writable;
    /* For outputs: reading what nothing wrote is an error, and so are elements that the launch
     * leaves unwritten ('whole') or writes more than once ('once').
     */
    bool output, whole, once;
    uint32_t element_bytes; /* of whole and once; 0 counts as 1 */
} emulate_buffer;

/* Where a pointer to a buffer goes into the parameter image. */
typedef struct emulate_pointer {
    uint32_t parameter_offset;
    int buffer;
    int64_t byte_offset;
} emulate_pointer;

/* A tensor map, for kernels that copy boxes of tensors. Dimension 0 is contiguous; what a box has
 * outside of the tensor is zero on load, and not stored.
 */
enum { EMULATE_RANK_MAX = 5, EMULATE_TENSOR_MAP_BYTES = 128 };

typedef struct emulate_tensor_map {
    int buffer; /* of the launch; the tensor begins at 'byte_offset' in it */
    int64_t byte_offset;
    uint32_t element_bytes, rank;
    bool is_f32;                                 /* else sums of its elements are not known */
    uint64_t extents[EMULATE_RANK_MAX];          /* elements */
    uint64_t stride_bytes[EMULATE_RANK_MAX - 1]; /* of dimensions 1 and later */
    uint32_t box[EMULATE_RANK_MAX];              /* elements */
    uint32_t element_strides[EMULATE_RANK_MAX];  /* 1: every element of the box */
    uint32_t swizzle_bytes;                      /* of shared memory: 0 (none), 32, 64, 128 */
} emulate_tensor_map;

/* Writes what the kernel takes for its CUtensorMap, to be put into the parameter image. Returns
 * NULL, or a sentence that names the limit which the map breaks.
 */
const char *emulate_tensor_map_encode(const emulate_tensor_map *map,
                                      uint8_t out[EMULATE_TENSOR_MAP_BYTES]);

/* Names a part of shared memory in reports: stage s, row r is at offset + s*stage_bytes +
 * r*row_bytes. Offsets count from the start of the dynamic block.
 */
typedef struct emulate_tile {
    str name;
    uint32_t offset, rows, row_bytes, stages, stage_bytes;
} emulate_tile;

typedef struct emulate_launch {
    str entry; /* empty: the only one */
    uint32_t grid[3], block[3];
    uint32_t dynamic_shared_bytes;
    const void *parameters;
    uint32_t parameter_bytes;
    const emulate_buffer *buffers;
    int buffer_count;
    const emulate_pointer *pointers;
    int pointer_count;
    const emulate_tile *tiles;
    int tile_count;
    uint64_t instruction_budget; /* warp instructions of the launch; 0: 2^32 */
    uint64_t seed;               /* order of blocks, warps and landing copies; 0: in order */
    bool go_on;                  /* run all blocks, also after one with findings */
    bool plain;                  /* use no extension of the host's processor (tests) */
    uint8_t *variables; /* the module's, of emulate_variables: what a launch leaves there the next
                           one finds, as on a GPU; NULL: every launch has fresh ones */
    bool is_early;      /* begins before what was launched earlier has ended: its threads wait for
                           that before they touch global memory */
    int processor;      /* compute capability whose matrix units add; 0: .target's */
    /* Runs blocks [first_block, first_block + block_count) only; 0 and 0: all. */
    uint64_t first_block, block_count;
} emulate_launch;

typedef enum emulate_kind {
#define FINDING(id, name, sentence) EMULATE_##id,
#include "emulate/findings.def"
#undef FINDING
} emulate_kind;

/* A source line, and through which functions it got there. */
typedef struct emulate_frame {
    str file;     /* empty without line information: then 'line' counts in the PTX */
    str function; /* the inlined function that holds the line; empty for the entry itself */
    int line;
} emulate_frame;

typedef struct emulate_place {
    const emulate_frame *frames; /* innermost first; the last one is in the kernel itself */
    int frame_count;
    uint32_t ptx_line;
    str opcode;
} emulate_place;

typedef struct emulate_finding {
    emulate_kind kind;
    emulate_place place;
    bool has_other;
    emulate_place other; /* the earlier access, or the issuing instruction */
    uint32_t block[3];
    int warp, lane; /* -1: none in particular */
    str detail;     /* who did what where: the first time */
    str note;       /* about 'other'; empty when there is none */
    uint64_t count;
} emulate_finding;

/* One memory instruction: wavefronts are passes of the shared memory's 32 banks, sectors the
 * 32-byte pieces of global memory. 'least' counts what the same bytes need at best.
 */
typedef struct emulate_traffic {
    emulate_place place;
    str space; /* "shared", "global", "local" */
    uint32_t bytes_per_lane;
    uint64_t executed; /* by warps */
    uint64_t wavefronts, least_wavefronts;
    uint64_t sectors, least_sectors;
} emulate_traffic;

typedef struct emulate_opcode_count {
    str opcode;
    uint64_t executed; /* by warps */
} emulate_opcode_count;

typedef enum emulate_outcome {
    EMULATE_CLEAN,  /* all blocks ran, nothing found */
    EMULATE_FOUND,  /* 'findings' has what was found */
    EMULATE_REFUSED /* the launch is wrong: 'refusal' is one sentence */
} emulate_outcome;

typedef struct emulate_result {
    emulate_outcome outcome;
    str refusal;
    const emulate_finding *findings;
    int finding_count;
    uint64_t findings_left_out; /* kinds of findings past the limit */
    const emulate_traffic *traffic;
    int traffic_count;
    const emulate_opcode_count *opcodes; /* most frequent first */
    int opcode_count;
    uint64_t instructions, blocks_run;
} emulate_result;

/* Runs a launch. The result lives in 'memory', which also serves as the machine's memory: give it
 * about 1 KiB a register of each warp, and 40 times the shared memory.
 */
emulate_outcome emulate_run(const emulate_module *module, const emulate_launch *launch,
                            arena *memory, emulate_result *result);

const char *emulate_kind_name(emulate_kind kind); /* "race_read": stable */

/* FILE:LINE: error: ..., then notes, in clang's manner. 'source_name' stands for a missing file. */
void emulate_render_text(const emulate_result *result, str source_name, text_buffer *out);
/* Memory instructions by source line, and opcodes. */
void emulate_render_statistics(const emulate_result *result, str source_name, text_buffer *out);
/* One JSON object: outcome, findings, traffic, opcodes. */
void emulate_render_json(const emulate_result *result, str source_name, text_buffer *out);

#endif
