/* A module as the machine runs it: instructions decoded into fixed records, operands into rows.
 *
 * A register is one row (128 bytes: 32 lanes of 4) or two (32 lanes of 8). A warp owns 'row_count'
 * rows; constants have rows of their own, shared by all warps, named by negative numbers.
 * Predicates are lane masks, numbered apart. A basic block begins wherever control may arrive other
 * than from the instruction before.
 */
#ifndef FLASHTL_EMULATE_PTX_H
#define FLASHTL_EMULATE_PTX_H

#include "emulate/emulate.h"
#include "emulate/lanes.h"

enum {
    PTX_ROW_BYTES = 128,
    PTX_INSTRUCTIONS_MAX = 1 << 20,
    PTX_ROWS_MAX = 1 << 18,
    PTX_PREDICATES_MAX = 1 << 16,
    PTX_NONE = INT32_MIN,
    PTX_FRAMES_MAX = 16
};

/* Addresses. Shared, local, parameter and constant memory count from 0 in their own spaces, and
 * appear in the generic space at these windows; buffer i is at PTX_BUFFER(i), in the middle of its
 * 64 GiB, so that offsets of either sign stay inside.
 */
#define PTX_WINDOW_SHIFT 36
#define PTX_BUFFER(i) ((((uint64_t)(i) + 1u) << PTX_WINDOW_SHIFT) + (1ull << 35))
/* Where a block's shared memory begins in its own space, as on GPUs from 8.0 on, where that is the
 * system's: an address that lacks the begin, or has it twice, is another one.
 */
enum { PTX_SHARED_BEGIN = 1024 };

/* From PTX_SHARED on, each has a window. */
typedef enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
    PTX_CONST,
    PTX_SPACE_COUNT
} ptx_space;

enum { PTX_WINDOW_FIRST = 0x700 };

/* What a space's own addresses and generic ones differ by. */
static inline uint64_t ptx_window(ptx_space space) {
    if (space < PTX_SHARED) return 0;
    return (uint64_t)(PTX_WINDOW_FIRST + (int)space - PTX_SHARED) << PTX_WINDOW_SHIFT;
}

/* Of a generic address. */
static inline ptx_space ptx_space_of(uint64_t address) {
    uint64_t number = (address >> PTX_WINDOW_SHIFT) - PTX_WINDOW_FIRST;
    return number < PTX_SPACE_COUNT - PTX_SHARED ? (ptx_space)(PTX_SHARED + number) : PTX_GLOBAL;
}

typedef enum ptx_kind {
    PTX_LANES,  /* d = function(in...) */
    PTX_TEST,   /* predicates p, q from a test and a boolean operation */
    PTX_SET,    /* the same into a register, as all ones or 1.0 */
    PTX_MOVE,   /* d = a */
    PTX_SELECT, /* d = predicate ? a : b */
    PTX_LOGIC,  /* predicates */
    PTX_PACK,   /* d = {list} */
    PTX_UNPACK, /* {list} = a */
    PTX_CLOCK,
    PTX_ISSPACE,
    PTX_CONVERT_ADDRESS, /* cvta: d = a + immediate */
    PTX_LOAD,
    PTX_STORE,
    PTX_ATOMIC,
    PTX_BRANCH,
    PTX_BRANCH_INDEXED,
    PTX_RETURN,
    PTX_TRAP,
    PTX_NOTHING,
    PTX_GRID_WAIT,
    PTX_BARRIER,
    PTX_BARRIER_ARRIVE,
    PTX_BARRIER_REDUCE,
    PTX_WARP_BARRIER,
    PTX_SHUFFLE,
    PTX_VOTE,
    PTX_ACTIVE_MASK,
    PTX_MATCH,
    PTX_REDUCE,
    PTX_ELECT,
    PTX_LOAD_MATRIX,
    PTX_STORE_MATRIX,
    PTX_MOVE_MATRIX,
    PTX_PRODUCT,
    PTX_COPY_ASYNC,
    PTX_COPY_COMMIT,
    PTX_COPY_WAIT,
    PTX_COPY_ARRIVE,
    PTX_MBARRIER,
    PTX_BULK, /* cp.async.bulk */
    PTX_BULK_COMMIT,
    PTX_BULK_WAIT,
    PTX_PROXY_FENCE,
    PTX_INIT_FENCE, /* of mbarriers */
    PTX_WGMMA,
    PTX_WGMMA_FENCE,
    PTX_WGMMA_COMMIT,
    PTX_WGMMA_WAIT,
    PTX_SET_REGISTERS /* setmaxnreg */
} ptx_kind;

enum {
    PTX_BLOCK_START = 1,
    PTX_GUARD_NEGATED = 2,
    PTX_SIGNED = 4,
    PTX_TRANSPOSED = 8,
    PTX_TOUCHES = 16,       /* uses registers of wgmma */
    PTX_RELAXED = 32,       /* of an mbarrier: orders no other accesses */
    PTX_EXPECTS = 64,       /* of an arrival: and says how many bytes will come */
    PTX_HALF = 64,          /* a product of 8 rows that contracts 16 bytes */
    PTX_FIRST_NEGATED = 128 /* of PTX_LOGIC */
};

/* PTX_LOGIC and the combination in PTX_TEST. */
typedef enum ptx_boolean { PTX_AND, PTX_OR, PTX_XOR, PTX_NOT, PTX_COPY } ptx_boolean;
typedef enum ptx_shuffle { PTX_UP, PTX_DOWN, PTX_BUTTERFLY, PTX_INDEX } ptx_shuffle;
typedef enum ptx_vote { PTX_ALL, PTX_ANY, PTX_UNIFORM, PTX_BALLOT } ptx_vote;
typedef enum ptx_operation {
    PTX_OP_ADD,
    PTX_OP_MIN,
    PTX_OP_MAX,
    PTX_OP_AND,
    PTX_OP_OR,
    PTX_OP_XOR,
    PTX_OP_INC,
    PTX_OP_DEC,
    PTX_OP_EXCHANGE,
    PTX_OP_CAS
} ptx_operation;
typedef enum ptx_number {
    PTX_U32,
    PTX_S32,
    PTX_U64,
    PTX_S64,
    PTX_F32,
    PTX_F64,
    PTX_F16,
    PTX_BF16,
    PTX_F16X2,
    PTX_BF16X2,
    PTX_TF32,
    PTX_E4M3,
    PTX_E5M2,
    PTX_S8,
    PTX_U8
} ptx_number;
typedef enum ptx_mbarrier {
    PTX_MBARRIER_INIT,
    PTX_MBARRIER_INVALIDATE,
    PTX_MBARRIER_ARRIVE,
    PTX_MBARRIER_ARRIVE_DROP,
    PTX_MBARRIER_EXPECT,
    PTX_MBARRIER_COMPLETE,
    PTX_MBARRIER_TEST,
    PTX_MBARRIER_TEST_PARITY,
    PTX_MBARRIER_PENDING
} ptx_mbarrier;

/* Which fields an instruction uses depends on its kind; ptx_decode*.c sets them. */
typedef struct ptx_instruction {
    uint8_t kind, flags;
    uint8_t space;
    uint8_t bytes;           /* of one element */
    uint8_t count;           /* elements a lane: v2, v4; matrices: x1, x2, x4 */
    uint8_t operation;       /* ptx_boolean, ptx_operation, ptx_shuffle, ptx_vote, ptx_mbarrier */
    uint8_t number, number2; /* ptx_number: of A and B, of C and D */
    uint8_t input_count;
    uint8_t register_bytes; /* of the loaded register's lane */
    bool second_negated;
    int32_t guard;            /* predicate, or -1 */
    int32_t d;                /* row, or PTX_NONE */
    int32_t in[LANES_INPUTS]; /* rows, or PTX_NONE */
    int32_t p, q, r;          /* predicates, or -1: results p, q; inputs r, and q of PTX_LOGIC */
    int32_t list;             /* first of the rows in ptx_function.lists */
    int64_t immediate;        /* address offset, group count, ... */
    int32_t function;         /* of lanes_set.functions */
    int32_t target;           /* of branches */
    int32_t place;            /* in ptx_function.places */
    int32_t opcode;           /* in emulate_module.opcodes */
    uint32_t ptx_line;
} ptx_instruction;

/* An address in brackets: 'row' holds words or doublewords. */
typedef struct ptx_address {
    int32_t row;
    uint8_t row_bytes, space;
    int64_t offset;
} ptx_address;

/* cp.async.bulk and cp.reduce.async.bulk; instructions name it by 'list'. */
typedef struct ptx_bulk {
    bool tensor, loads;
    bool adds;                            /* f32 to what is in global memory */
    ptx_address shared, global, mbarrier; /* 'global' is the map's when 'tensor' */
    int32_t size;                         /* row; of bytes */
    int32_t multicast;                    /* row, or PTX_NONE */
    int32_t coordinates, rank;            /* in ptx_function.lists */
} ptx_bulk;

/* wgmma.mma_async; instructions name it by 'list'. */
typedef struct ptx_wgmma {
    ptx_number a_number, b_number, d_number;
    int n_count, k_count;
    int32_t d_list, d_count; /* in ptx_function.lists */
    int32_t a_list;          /* four registers of A, or -1 */
    int32_t a_row, b_row;    /* descriptors */
    bool negates_a, negates_b, transposes_a, transposes_b;
} ptx_wgmma;

/* A source line, reached through 'parent' (where its function was inlined), or -1. */
typedef struct ptx_place {
    int32_t file, line, column;
    int32_t parent;
    str function;
} ptx_place;

typedef struct ptx_variable {
    str name;
    uint32_t offset, bytes;
} ptx_variable;

/* Registers that hold numbers of the thread and the launch: filled when a block starts. */
typedef enum ptx_special {
#define SPECIAL(id, name, value) PTX_SPECIAL_##id,
#include "emulate/specials.def"
#undef SPECIAL
    PTX_SPECIAL_COUNT
} ptx_special;

typedef struct ptx_function {
    str name;
    LIST(ptx_instruction) code;
    LIST(int32_t) lists;
    LIST(uint32_t) constants; /* rows of 32 words */
    LIST(ptx_bulk) bulks;
    LIST(ptx_wgmma) wgmmas;
    LIST(int32_t) tracked; /* rows that wgmma uses: sums and first factors */
    int32_t *row_numbers;  /* of each row its number in 'tracked', or -1; NULL without wgmma */
    /* What PTX_TOUCHES means: number in 'tracked' times two, plus one for a write; each
     * instruction's begin at touch_of[pc] and end with -1.
     */
    LIST(int32_t) touches;
    int32_t *touch_of;
    LIST(ptx_variable) parameters;
    LIST(ptx_variable) shared;
    int32_t row_count, predicate_count;
    int32_t specials[PTX_SPECIAL_COUNT]; /* row, or PTX_NONE when unused */
    int32_t sink;                        /* rows that take what nobody reads */
    int32_t carry, next_carry;           /* rows of the carry flag, or PTX_NONE when unused */
    int32_t never; /* a predicate that nothing sets, or PTX_NONE when unused */
    uint32_t parameter_bytes, local_bytes;
    uint32_t dynamic_shared; /* where the dynamic block begins, after static variables */
    uint32_t threads_required, threads_most; /* .reqntid's and .maxntid's products; 0 when unsaid */
    uint32_t registers_most;                 /* .maxnreg; 0 when unsaid */
    uint32_t blocks_least;                   /* .minnctapersm; 0 when unsaid */
} ptx_function;

typedef struct ptx_file {
    int32_t number;
    str name;
} ptx_file;

struct emulate_module {
    arena *memory;
    str ptx;
    int target; /* 80 for sm_80 */
    LIST(ptx_function) entries;
    LIST(ptx_file) files;
    LIST(ptx_place) places; /* of all entries */
    LIST(str) opcodes;
    LIST(ptx_variable) globals; /* .global variables, in one image */
    uint8_t *global_image, *constant_image;
    uint32_t global_bytes, constant_bytes;
};

/* Of a file by its number in .loc; empty when no .file names it. */
static inline str ptx_file_name(const emulate_module *module, int32_t number) {
    for (int i = 0; i < module->files.count; i++)
        if (module->files.items[i].number == number) return module->files.items[i].name;
    return STR("");
}

/* Registers a thread of PTX_PRODUCT: D, which C has as many of, A and B, one after the other. */
typedef struct ptx_product_rows {
    int sums, left, right;
} ptx_product_rows;

static inline ptx_product_rows ptx_product_rows_of(const ptx_instruction *i) {
    int pieces = i->count * i->bytes / 16;
    bool is_half = (i->flags & PTX_HALF) != 0;
    return (ptx_product_rows){i->number2 == PTX_F16 || is_half ? 2 : 4,
                              is_half ? pieces : 2 * pieces, pieces};
}

#endif
