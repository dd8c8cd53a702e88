/* What the running machine consists of: one thread block's warps, memory, barriers, and what is
 * under way. All memory is the caller's arena.
 */
#ifndef FLASHTL_EMULATE_MACHINE_STATE_H
#define FLASHTL_EMULATE_MACHINE_STATE_H

#include "emulate/ptx.h"
#include "emulate/sums.h"
#include "emulate/tensor.h"

#include <string.h>

enum {
    MACHINE_WARPS_MAX = 32,
    MACHINE_BARRIERS = 16,
    MACHINE_MBARRIERS_MAX = 256,
    MACHINE_FINDINGS_MAX = 100,
    MACHINE_COPIES_MAX = 1 << 16, /* copy instructions in flight, a warp */
    MACHINE_BULKS_MAX = 1 << 12,  /* bulk copies in flight, a block */
    MACHINE_AGENTS_MAX = 128,
    MACHINE_READERS = 16,      /* agents that read shared memory */
    MACHINE_PRODUCTS = 1 << 9, /* wgmma in flight, a warpgroup */
    MACHINE_GROUP_WARPS = 4,   /* of a warpgroup */
    MACHINE_IDLE_ROUNDS = 4
};

/* In f32 a signalling NaN, in f16 and bf16 NaNs in both halves: no arithmetic makes it vanish or
 * leaves it as it is.
 */
#define MACHINE_POISON 0x7fa17fa1u

/* --- time ------------------------------------------------------------------------------------- */

/* A warp's clock ticks where its lanes order themselves against others. A stamp names an access:
 * clock, warp and lane. A warp has "seen" another one's accesses up to a clock for all lanes, and
 * up to another for some lanes (those that arrived alone).
 */
enum {
    STAMP_CLOCK_MAX = (1 << 21) - 1,
    STAMP_AGENT_CLOCK_MAX = (1 << 19) - 2,
    STAMP_ANY_LANE = 32,    /* several lanes of the warp at once */
    STAMP_ATOMIC_LANE = 33, /* atomic accesses do not race with each other */
    STAMP_AGENT = 34        /* the stamp is an agent's: its clock and number */
};

/* Asynchronous operations are done by agents: one for the transfers that an mbarrier counts, one
 * for the products of a warpgroup, one for the bulk copies out of shared memory of a thread. An
 * agent's clock is the number of the phase or group; whoever waited for it has seen it.
 */
typedef enum machine_agent_kind { AGENT_TRANSFERS, AGENT_PRODUCTS, AGENT_READS } machine_agent_kind;

typedef struct machine_agent {
    machine_agent_kind kind;
    int warp, lane;   /* AGENT_PRODUCTS: the warpgroup's first warp */
    uint32_t address; /* AGENT_TRANSFERS: of the mbarrier */
    uint32_t clock;   /* AGENT_TRANSFERS: completed phases */
    int reader;       /* its row of read_stamp after the warps' rows, or -1 */
} machine_agent;

typedef struct machine_seen {
    uint32_t all[MACHINE_WARPS_MAX];
    uint32_t some[MACHINE_WARPS_MAX];
    uint32_t lanes[MACHINE_WARPS_MAX]; /* who 'some' speaks of */
    /* The same for generic accesses with a proxy fence after them: what the asynchronous proxy may
     * see, the warp's own ones included.
     */
    uint32_t fenced_all[MACHINE_WARPS_MAX];
    uint32_t fenced_some[MACHINE_WARPS_MAX];
    uint32_t fenced_lanes[MACHINE_WARPS_MAX];
    uint32_t agents[MACHINE_AGENTS_MAX];
} machine_seen;

typedef enum machine_wait { WAIT_NONE, WAIT_COLLECTIVE, WAIT_POLL } machine_wait;

/* Lanes that are at the same instruction. */
typedef struct machine_group {
    int32_t pc;
    uint32_t mask;
    machine_wait wait;
} machine_group;

typedef enum machine_state {
    WARP_READY,
    WARP_AT_BARRIER,
    WARP_POLLING,
    WARP_AT_PRODUCTS,  /* the warpgroup's other warps have not committed yet */
    WARP_AT_REGISTERS, /* setmaxnreg.inc: the pool is too small */
    WARP_DONE
} machine_state;

/* One cp.async of a warp: lanes land one by one, each at its own wait. */
typedef struct machine_copy {
    int32_t pc;
    uint32_t pending; /* lanes */
    uint32_t stamp;   /* of lane 0, at issue, or at the first arrival after it */
    bool is_counted;  /* there was such an arrival */
    uint8_t bytes;
    uint8_t source_bytes[LANES];
    uint32_t group[LANES];
    uint32_t to[LANES];
    uint64_t from[LANES];
} machine_copy;

/* A bulk copy. Into shared memory it lands when nobody can run, as far as its mbarrier expects
 * bytes; out of shared memory it reads at the thread's wait for reads, and writes at its wait.
 */
typedef struct machine_bulk {
    int32_t pc;
    int warp, lane;
    uint32_t stamp; /* of the issuing lane */
    bool loads, adds;
    uint32_t shared, bytes;
    uint32_t landed; /* bytes */
    int mbarrier;
    uint32_t group; /* of the thread's bulk groups */
    uint8_t *held;  /* read and not yet written; NULL: not read yet */
    uint32_t held_bytes;
    tensor_copy what;
} machine_bulk;

/* What a register of wgmma has gone through, in a warp. Groups count from 1. */
typedef struct machine_register {
    uint32_t group;        /* of the last wgmma in flight that sums into it; 0: none */
    uint32_t factor_group; /* of the last one that reads it */
    int32_t group_pc, factor_pc;
    int32_t read_pc, write_pc; /* by other instructions, and when */
    uint64_t read_time, write_time;
} machine_register;

/* One wgmma of a warpgroup. */
typedef struct machine_product {
    int32_t pc;
    uint32_t issued; /* warps, as bits */
    uint32_t group;
    uint64_t a, b; /* descriptors */
    bool adds;     /* scale-d */
} machine_product;

typedef struct machine_warpgroup {
    machine_product *products; /* a ring: number n is at n % MACHINE_PRODUCTS */
    uint32_t first, end;       /* those not executed yet */
    uint32_t issued[MACHINE_GROUP_WARPS];
    int agent; /* or -1 */
} machine_warpgroup;

typedef struct machine_warp {
    int index;
    uint8_t *rows;
    uint32_t *predicates;
    machine_state state;
    uint32_t first_live, live; /* lanes at the start, and not ended yet */
    uint32_t early;            /* those that have not waited for earlier grids */
    uint32_t mask;             /* of the running group */
    int32_t pc;
    machine_group groups[LANES]; /* the others */
    int group_count;
    bool poll_fails;        /* the next failing test returns false */
    int32_t barrier;        /* waited for */
    uint32_t clock, synced; /* all lanes ordered up to 'synced' */
    uint32_t part_synced, part_lanes;
    machine_seen seen;
    machine_seen acquired; /* seen by 'acquired_lanes' only, until the warp joins */
    uint32_t acquired_lanes;
    uint32_t commits[LANES];
    LIST(machine_copy) copies;
    int copy_first; /* those before have landed */
    uint32_t bulk_commits[LANES];
    /* wgmma */
    uint32_t product_commits, product_waited;
    uint64_t fence_time;
    machine_register *registers; /* by number in ptx_function.tracked */
    uint32_t (*sums)[LANES];     /* what is in the accumulators in flight */
    int register_count;          /* setmaxnreg: of a thread; 0 before */
    int32_t register_pc;
} machine_warp;

typedef struct machine_barrier {
    uint32_t arrived, waiting; /* warps */
    uint32_t expected_threads; /* 0: all of the block */
    int32_t last_pc;
    uint32_t votes; /* of bar.red: lanes true */
    bool all, any;
    machine_seen seen;
} machine_barrier;

typedef struct machine_mbarrier {
    uint32_t address;
    bool valid;
    uint32_t expected, pending;
    int64_t transfer_bytes;
    uint64_t phase;
    int32_t init_pc, arrive_pc; /* who arrived last */
    bool fenced;                /* its initialisation, for the asynchronous proxy */
    int agent;                  /* or -1: no transfers yet */
    machine_seen arriving, done;
} machine_mbarrier;

/* cp.async.mbarrier.arrive: happens once the lanes' copies so far have landed. */
typedef struct machine_arrival {
    int warp;
    uint32_t lanes;
    int32_t pc;
    int mbarrier;
    int copy_end; /* copies before this one, counted from the start of the block */
    machine_seen seen;
} machine_arrival;

/* What became of an element of an output: 0 while nothing has. */
enum { MACHINE_STORED = 1, MACHINE_ADDED /* atomically, any number of times */, MACHINE_TWICE };

typedef struct machine_buffer {
    str name;
    uint8_t *data;
    size_t bytes;
    bool readable, writable;
    uint8_t *written; /* per element, MACHINE_STORED ...; NULL when not an output */
    bool once;
    uint32_t element_bytes;
    uint32_t *pages; /* 1 + the place in machine.pages, for the running block; NULL: read only */
} machine_buffer;

/* Who wrote or read one byte. */
typedef struct machine_byte {
    uint32_t stamp;
    int32_t pc;
} machine_byte;

/* The bytes of a writable buffer that a block has touched, 64 at a time. */
enum { MACHINE_PAGE_BYTES = 64 };
typedef struct machine_page {
    uint32_t *user; /* where the page's number stands */
    machine_byte writes[MACHINE_PAGE_BYTES], reads[MACHINE_PAGE_BYTES];
} machine_page;

/* Factors of matrix products are expanded once for all products with the same contents. */
typedef struct machine_contents {
    uint32_t words[4][LANES];
    int number, k_count; /* number 0: none yet */
} machine_contents;

/* First factors: most are used by several products in a row. */
enum { MACHINE_FACTORS = 64, MACHINE_COLUMNS = 256 }; /* powers of two */
typedef struct machine_factor {
    machine_contents of;
    sums_rows rows;
} machine_factor;

/* Second factors: the warps of a block work on the same ones, one warp after the other. */
typedef struct machine_columns {
    machine_contents of;
    sums_columns columns;
} machine_columns;

typedef struct machine_count {
    uint64_t executed;
    uint64_t wavefronts, least_wavefronts, sectors, least_sectors;
    uint8_t space; /* last used */
} machine_count;

typedef struct machine {
    const emulate_module *module;
    const ptx_function *function;
    const emulate_launch *launch;
    const lanes_set *set;
    const sums_set *sums;
    int processor; /* whose matrix units add: a compute capability, 90 */
    arena *memory;
    const ptx_instruction *code;
    const uint8_t *constants;
    uint32_t block[3];
    int warp_count, thread_count;
    machine_warp warps[MACHINE_WARPS_MAX];
    machine_barrier barriers[MACHINE_BARRIERS];
    machine_mbarrier *mbarriers;
    int mbarrier_count;
    LIST(machine_arrival) arrivals;
    machine_agent agents[MACHINE_AGENTS_MAX];
    int agent_count, reader_count;
    int read_rows; /* of read_stamp: the warps', and the readers' in use */
    bool row_used[MACHINE_WARPS_MAX + MACHINE_READERS]; /* of them: not all zeros */
    LIST(machine_bulk) bulks;
    struct {
        uint8_t *bytes;
        uint32_t size;
    } spares[8];                   /* free memory for bytes that are held */
    machine_warpgroup *warpgroups; /* NULL without wgmma */
    sums_columns *wgmma_columns; /* a second factor, expanded, eight columns after eight columns */
    int64_t free_registers;      /* setmaxnreg */

    uint8_t *shared;
    uint32_t shared_end, cell_count; /* from PTX_SHARED_BEGIN on; cells from 0 on */
    uint8_t *cell_state;             /* CELL_... ; low 4 bits: bytes written */
    uint32_t *write_stamp;
    int32_t *write_pc;
    uint32_t *read_stamp; /* [warp, then reader][cell] */
    int32_t *read_pc;
    uint32_t *split_of;        /* of a CELL_SPLIT cell: its place in split_bytes */
    machine_byte *split_bytes; /* [split][1 + warp][byte]: the writes, then each warp's reads */
    int split_count, split_capacity;

    uint8_t *local;
    uint8_t *parameters;
    uint32_t parameter_bytes;
    machine_buffer buffers[EMULATE_BUFFERS_MAX + 1]; /* the last: module variables */
    int buffer_count;
    LIST(machine_page) pages;

    machine_factor *factors;
    machine_columns *columns;
    machine_count *counts; /* by instruction */
    uint64_t instructions, budget;
    uint64_t random;
    uint64_t progress; /* counts what may let somebody run */
    emulate_finding *findings;
    int32_t (*finding_keys)[3]; /* two a finding: exact instructions, and lines */
    int finding_count;
    uint64_t findings_left_out;
    bool block_found, stopped; /* something was found; the block cannot go on */
} machine;

enum { CELL_WRITTEN = 15, CELL_SPLIT = 0x20, CELL_BARRIER = 0x40, CELL_FLIGHT = 0x80 };

static inline void *machine_row(const machine *m, const machine_warp *w, int32_t row) {
    const uint8_t *base = row >= 0 ? w->rows : m->constants;
    size_t index = (size_t)(row >= 0 ? row : ~row);
    return (void *)(base + index * PTX_ROW_BYTES);
}

static inline uint32_t *machine_words(const machine *m, const machine_warp *w, int32_t row) {
    return machine_row(m, w, row);
}

/* The lanes where the predicate that an instruction reads holds. */
static inline uint32_t machine_truth(const machine_warp *w, const ptx_instruction *i) {
    return w->predicates[i->r] ^ (i->second_negated ? ~0u : 0u);
}

/* In the lanes of 'mask'; p -1: nowhere. */
static inline void machine_set_predicate(machine_warp *w, int32_t p, uint32_t value,
                                         uint32_t mask) {
    if (p >= 0) w->predicates[p] = (w->predicates[p] & ~mask) | (value & mask);
}

static inline int machine_first_lane(uint32_t mask) {
    return mask ? __builtin_ctz(mask) : 0;
}

static inline uint32_t machine_stamp(const machine_warp *w, int lane) {
    return w->clock << 11 | (uint32_t)w->index << 6 | (uint32_t)lane;
}

#endif
