/* flashtl/plan.h: how to launch a kernel that FlashTL made.
 *
 * A plan is plain data beside the CUDA text: entry, threads, shared memory, parameters, grid,
 * conditions. It refers to nothing outside itself; ftl_plan_free frees all of it. Plans are
 * immutable once made and may be read by several threads.
 */
#ifndef FLASHTL_PLAN_H
#define FLASHTL_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef FTL_API
#define FTL_API __attribute__((visibility("default")))
#endif

enum { FTL_AXES_MAX = 8 };

/* Element types. Values are ABI. */
typedef enum ftl_type {
    FTL_F16 = 1,
    FTL_BF16 = 2,
    FTL_F32 = 3,
    FTL_E4M3 = 4,
    FTL_E5M2 = 5,
    FTL_I32 = 6,
    FTL_I8 = 7,
    FTL_I4 = 8, /* two elements share a byte, the one of the even index in its lower half */
    FTL_U4 = 9
} ftl_type;

FTL_API const char *ftl_type_name(ftl_type type);
FTL_API size_t ftl_type_bits(ftl_type type);  /* of an element; 0: there is no such type */
FTL_API size_t ftl_type_bytes(ftl_type type); /* of an element by itself: of 4 bits, 1 */

/* Postfix programs over 64-bit integers: operands are pushed, operators take the top ones. Reals
 * (scalars) are in conditions only. Overflow and division by zero make the formula fail.
 */
typedef enum ftl_formula_op {
    FTL_PUSH_INTEGER = 1, /* integer */
    FTL_PUSH_NUMBER = 2,  /* number */
    FTL_PUSH_SIZE = 3,    /* index: of ftl_plan.sizes */
    FTL_PUSH_SCALAR = 4,  /* index: of ftl_plan.scalars */
    FTL_ADD = 10,
    FTL_SUBTRACT,
    FTL_MULTIPLY,
    FTL_DIVIDE_UP,
    FTL_DIVIDE_DOWN,
    FTL_DIVIDE_REAL,
    FTL_MODULO,
    FTL_MIN,
    FTL_MAX,
    FTL_NEGATE,
    FTL_ABS,
    FTL_LESS = 30,
    FTL_LESS_EQUAL,
    FTL_GREATER,
    FTL_GREATER_EQUAL,
    FTL_EQUAL,
    FTL_NOT_EQUAL,
    FTL_AND,
    FTL_OR,
    FTL_NOT
} ftl_formula_op;

typedef struct ftl_formula_step {
    ftl_formula_op op;
    int32_t index;
    int64_t integer;
    double number;
} ftl_formula_step;

typedef struct ftl_formula {
    const char *text; /* as in TL, for messages */
    const ftl_formula_step *steps;
    int32_t step_count;
} ftl_formula;

typedef enum ftl_tensor_role { FTL_INPUT = 1, FTL_OUTPUT = 2, FTL_WORKSPACE = 3 } ftl_tensor_role;

/* One axis of a tensor, outermost first. */
typedef struct ftl_plan_axis {
    const char *name;      /* index name: "kv" */
    ftl_formula extent;    /* its length: a size, or arithmetic on sizes and constants */
    int32_t size;          /* index of the size that this axis alone defines; -1: none does */
    int32_t stride_offset; /* bytes into the parameters (int64, elements); -1: it must be 1 */
    bool is_stride_short;  /* the kernel reads the lower half of it: it must fit int32 */
} ftl_plan_axis;

/* What an Input's integers are to a program, as far as its uses of them say: anything else would
 * read or write beside a tensor. No launch looks at them: they are in device memory.
 */
typedef enum ftl_table_use {
    FTL_TABLE_UNKNOWN = 0, /* also of tensors that are no tables of integers */
    FTL_TABLE_FREE,        /* numbers to compare and calculate with */
    FTL_TABLE_LENGTH,      /* how long something is: from 0 to the limit */
    FTL_TABLE_INDEX,       /* where something lies: from 0, below the limit */
    FTL_TABLE_STARTS /* where one thing ends and the next begins: from 0 to the limit, never falling
                      */
} ftl_table_use;

typedef struct ftl_plan_tensor {
    const char *name; /* "Q" */
    ftl_type type;
    ftl_tensor_role role;
    ftl_plan_axis axes[FTL_AXES_MAX];
    int32_t axis_count;
    int32_t pointer_offset;  /* bytes into the parameter struct (64-bit device address) */
    int32_t alignment_bytes; /* of the base address, and of every stride but the last */
    ftl_table_use use;       /* of a table of integers */
    ftl_formula limit;       /* of LENGTH, INDEX and STARTS; else without steps */
    bool is_distinct;        /* an INDEX that says where results go: no two entries are equal */
    bool is_sum;             /* an Output that is only added to: to what is there */
    bool is_kept;            /* an Output of which elements may stay as they were */
} ftl_plan_tensor;

typedef struct ftl_plan_size {
    const char *name; /* "q_len" */
    int32_t offset;   /* bytes into the parameter struct (int32); -1: not a parameter */
} ftl_plan_size;

typedef struct ftl_plan_scalar {
    const char *name; /* "scale" */
    ftl_type type;    /* F32 or I32 */
    int32_t offset;
} ftl_plan_scalar;

/* A shared-memory tile, for reports of the emulator. */
typedef struct ftl_plan_tile {
    const char *name; /* "K" */
    ftl_type type;
    int32_t offset_bytes, rows, row_bytes, stages;
} ftl_plan_tile;

/* A 32-bit parameter (or two) that the launch computes, so that the kernel need not. */
typedef enum ftl_derived_kind {
    FTL_DERIVED_VALUE = 1,   /* int32: the formula */
    FTL_DERIVED_TILES = 2,   /* int32: tiles of the grid; no formula */
    FTL_DERIVED_DIVISOR = 3, /* two uint32, multiplier and shift: n / formula is
                                (2n * multiplier >> 32) >> shift for 0 <= n < 2^31 */
} ftl_derived_kind;

typedef struct ftl_plan_derived {
    const char *name;
    ftl_derived_kind kind;
    ftl_formula formula;
    int32_t offset;
} ftl_plan_derived;

enum { FTL_MAP_RANK_MAX = 5, FTL_MAP_BYTES = 128, FTL_MAPS_MAX = 16 };

/* A dimension of a tensor map, the contiguous one first: an axis of the tensor. The contiguous axis
 * may be cut into panels: then one dimension counts inside a panel and another counts panels.
 */
typedef struct ftl_map_dimension {
    int32_t axis;
    int32_t box;             /* elements that one copy takes */
    int32_t panel;           /* elements of a panel; 0: the axis is whole */
    int32_t is_panel_number; /* this dimension counts panels */
} ftl_map_dimension;

/* A tensor map (128 bytes, aligned to 64) that is in the parameters: boxes of a tensor, as bulk
 * copies of a GPU with such a unit take them.
 */
typedef struct ftl_plan_map {
    const char *name;
    int32_t tensor; /* index of ftl_plan.tensors */
    int32_t offset; /* bytes into the parameter struct */
    int32_t rank;
    int32_t swizzle_bytes; /* 0 (none), 32, 64 or 128 */
    ftl_map_dimension dimensions[FTL_MAP_RANK_MAX];
} ftl_plan_map;

/* How blocks share the tiles of the grid. */
typedef enum ftl_grid_kind {
    FTL_GRID_PLAIN = 0,      /* a block for each tile */
    FTL_GRID_PERSISTENT = 1, /* resident blocks, block n takes tiles n, n + blocks, ... */
    FTL_GRID_DYNAMIC = 2     /* resident blocks, each takes the next tile: needs counters */
} ftl_grid_kind;

typedef struct ftl_plan {
    const char *kernel; /* TL name: "attention" */
    const char *entry;  /* extern "C" symbol */
    const char *gpu;    /* description it was reasoned for */
    const char *target; /* PTX target: "compute_80" */
    int32_t threads;
    int32_t shared_bytes; /* dynamic */
    int32_t blocks_per_sm;
    int32_t parameter_bytes;
    const ftl_plan_tensor *tensors;
    int32_t tensor_count;
    const ftl_plan_size *sizes;
    int32_t size_count;
    const ftl_plan_scalar *scalars;
    int32_t scalar_count;
    ftl_grid_kind grid_kind;
    int32_t resident_blocks; /* of the GPU it was reasoned for; not for a plain grid */
    int32_t counters_offset; /* dynamic: of the 64-bit address of two 32-bit counters, zero before
                                a launch and after it; else -1 */
    const ftl_plan_derived *derived;
    int32_t derived_count;
    const ftl_plan_map *maps;
    int32_t map_count;
    const ftl_formula *walks; /* tiles along each walk of the grid, first fastest */
    int32_t walk_count;
    const ftl_formula *conditions; /* all must hold at launch */
    int32_t condition_count;
    const ftl_plan_tile *tiles;
    int32_t tile_count;
    bool is_early;     /* waits for earlier kernels by itself, before it touches global memory: may
                          be launched with programmatic stream serialization */
    double flops_hint; /* reserved: 0 */
} ftl_plan;

/* An argument: a tensor (device or host address as the caller needs), extents and strides in
 * elements per axis, in the order of the plan's axes; or a scalar.
 */
typedef struct ftl_tensor {
    const char *name;
    uint64_t address;
    ftl_type type;
    int64_t extents[FTL_AXES_MAX];
    int64_t strides[FTL_AXES_MAX];
    int32_t axis_count;
} ftl_tensor;

typedef struct ftl_scalar {
    const char *name;
    double value;
} ftl_scalar;

typedef struct ftl_arguments {
    const ftl_tensor *tensors;
    int32_t tensor_count;
    const ftl_scalar *scalars;
    int32_t scalar_count;
} ftl_arguments;

enum { FTL_PARAMETER_BYTES_MAX = 4096, FTL_WHY_BYTES = 512 };

/* A tensor map with its numbers. Whoever launches writes it in its own GPU's encoding into the
 * parameters at 'offset'. Zeros stand for what is outside.
 */
typedef struct ftl_tensor_map {
    int32_t offset;
    int32_t tensor; /* of the plan */
    uint64_t address;
    bool is_empty; /* the tensor has no elements: 'address' must become that of 16 bytes of zeros */
    ftl_type type;
    int32_t rank;
    uint64_t extents[FTL_MAP_RANK_MAX];          /* elements */
    uint64_t stride_bytes[FTL_MAP_RANK_MAX - 1]; /* of dimensions 1, 2, ... */
    uint32_t box[FTL_MAP_RANK_MAX];
    int32_t swizzle_bytes;
} ftl_tensor_map;

/* What a launch needs, resolved from a plan and arguments. */
typedef struct ftl_launch {
    int64_t sizes[64];
    uint32_t grid;  /* blocks; 0: nothing to do. Where blocks walk tiles, fewer may be launched */
    uint32_t tiles; /* of the grid */
    ftl_tensor_map maps[FTL_MAPS_MAX];
    int32_t map_count;
    int32_t parameter_bytes;
    unsigned char parameters[FTL_PARAMETER_BYTES_MAX] __attribute__((aligned(16)));
} ftl_launch;

/* Whether a plan is whole: texts, lists and counts, indices, offsets inside the parameters, known
 * types and operations; false with one sentence in 'why'. Plans that the library made are;
 * functions that take a plan ask first (a module once, when it is loaded: it keeps its own copy).
 */
FTL_API bool ftl_plan_check(const ftl_plan *plan, char why[FTL_WHY_BYTES]);

/* Checks arguments against a plan (every tensor there, types, extents that agree, strides,
 * alignment, conditions) and fills in the launch. Pure; false with one sentence in 'why'. Addresses
 * may be null for tensors without elements. No heap allocation; safe to call from several threads.
 */
FTL_API bool ftl_plan_resolve(const ftl_plan *plan, const ftl_arguments *arguments,
                              ftl_launch *launch, char why[FTL_WHY_BYTES]);

/* Evaluates one formula; false on overflow or division by zero, and where a step is none or has no
 * number to push: lists that are null, an index below 0. How long the lists are is the caller's
 * word.
 */
FTL_API bool ftl_formula_evaluate(const ftl_formula *formula, const int64_t *sizes,
                                  const double *scalars, double *value);

/* JSON, as stored in caches and beside built kernels. ftl_plan_write returns malloc'd text, NULL
 * without memory and for what ftl_plan_check does not take. ftl_plan_read returns NULL with one
 * sentence in 'why' when the text is no plan.
 */
FTL_API char *ftl_plan_write(const ftl_plan *plan);
FTL_API ftl_plan *ftl_plan_read(const char *json, size_t length, char why[FTL_WHY_BYTES]);
FTL_API void ftl_plan_free(ftl_plan *plan);

/* A C header for programs that launch the kernel without the library: parameter struct, conditions,
 * number of blocks. Its names begin with 'name', an identifier of C. malloc'd; NULL without memory,
 * for another name, and for what ftl_plan_check does not take.
 */
FTL_API char *ftl_plan_header(const ftl_plan *plan, const char *name);

#ifdef __cplusplus
}
#endif

#endif
