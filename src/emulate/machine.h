/* The running machine: one thread block at a time.
 *
 * launch.c sets it up and goes through the grid, machine.c runs warps and keeps lanes together, and
 * the other files execute one family of instructions each. All memory is the caller's arena.
 */
#ifndef FLASHTL_EMULATE_MACHINE_H
#define FLASHTL_EMULATE_MACHINE_H

#include "emulate/ptx.h"

#include <string.h>

enum {
    MACHINE_WARPS_MAX = 32,
    MACHINE_BARRIERS = 16,
    MACHINE_MBARRIERS_MAX = 256,
    MACHINE_FINDINGS_MAX = 100,
    MACHINE_COPIES_MAX = 1 << 16, /* copy instructions in flight, a warp */
    MACHINE_IDLE_ROUNDS = 4
};

/* In f32 a signalling NaN, in f16 and bf16 NaNs in both halves: no arithmetic makes it vanish or
 * leaves it as it is.
 */
#define MACHINE_POISON 0x7fa17fa1u

/* ---- time ----
 * A warp's clock ticks where its lanes order themselves against others. A stamp names an access:
 * clock, warp and lane. A warp has "seen" another one's accesses up to a clock for all lanes, and
 * up to another for some lanes (those that arrived alone).
 */
enum {
    STAMP_CLOCK_MAX = (1 << 21) - 1,
    STAMP_ANY_LANE = 32,   /* several lanes of the warp at once */
    STAMP_ATOMIC_LANE = 33 /* atomic accesses do not race with each other */
};

typedef struct machine_seen {
    uint32_t all[MACHINE_WARPS_MAX];
    uint32_t some[MACHINE_WARPS_MAX];
    uint32_t lanes[MACHINE_WARPS_MAX]; /* who 'some' speaks of */
} machine_seen;

typedef enum machine_wait { WAIT_NONE, WAIT_COLLECTIVE, WAIT_POLL } machine_wait;

/* Lanes that stand at the same instruction. */
typedef struct machine_group {
    int32_t pc;
    uint32_t mask;
    machine_wait wait;
} machine_group;

typedef enum machine_state { WARP_READY, WARP_AT_BARRIER, WARP_POLLING, WARP_DONE } machine_state;

/* One cp.async of a warp: lanes land one by one, each at its own wait. */
typedef struct machine_copy {
    int32_t pc;
    uint32_t pending; /* lanes */
    uint32_t stamp;   /* of lane 0, at issue */
    uint8_t bytes;
    uint8_t source_bytes[LANES];
    uint32_t group[LANES];
    uint32_t to[LANES];
    uint64_t from[LANES];
} machine_copy;

typedef struct machine_warp {
    int index;
    uint8_t *rows;
    uint32_t *predicates;
    machine_state state;
    uint32_t first_live, live; /* lanes at the start, and not ended yet */
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
    machine_copy *copies;
    int copy_first, copy_count, copy_capacity;
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
    int32_t init_pc;
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

typedef struct machine_buffer {
    str name;
    uint8_t *data;
    size_t bytes;
    bool readable, writable;
    uint8_t *written; /* per element, counted up to 255; NULL when not an output */
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
    machine_byte writes[MACHINE_PAGE_BYTES], reads[MACHINE_PAGE_BYTES];
} machine_page;

/* First factors of matrix products, expanded: most are used by several products in a row. */
enum { MACHINE_FACTORS = 8 };
typedef struct machine_factor {
    uint32_t words[4][LANES];
    int number, k_count;
    lanes_rows rows;
} machine_factor;

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
    machine_arrival *arrivals;
    int arrival_count, arrival_capacity;

    uint8_t *shared;
    uint32_t shared_bytes, cell_count;
    uint8_t *cell_state; /* CELL_... ; low 4 bits: bytes written */
    uint32_t *write_stamp;
    int32_t *write_pc;
    uint32_t *read_stamp; /* [warp][cell] */
    int32_t *read_pc;
    uint32_t *split_of;        /* of a CELL_SPLIT cell: its place in split_bytes */
    machine_byte *split_bytes; /* [split][1 + warp][byte]: the writes, then each warp's reads */
    int split_count, split_capacity;

    uint8_t *local;
    uint8_t *parameters;
    uint32_t parameter_bytes;
    machine_buffer buffers[EMULATE_BUFFERS_MAX + 1]; /* the last: module variables */
    int buffer_count;
    machine_page *pages;
    uint32_t **page_users; /* where the number of each page stands */
    int page_count, page_capacity;

    machine_factor *factors;
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

static inline int machine_first_lane(uint32_t mask) {
    return mask ? __builtin_ctz(mask) : 0;
}

static inline uint32_t machine_stamp(const machine_warp *w, int lane) {
    return w->clock << 11 | (uint32_t)w->index << 6 | (uint32_t)lane;
}

/* ---- finding.c ---- */

/* Counts a finding by (kind, line, other line); returns it when it is new, to be described, or
 * NULL. other_pc -1: none. The block is marked as bad.
 */
emulate_finding *machine_find(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                              int32_t other_pc, int lane);
/* "K stage 1[row 3, byte 16]", by the launch's tiles and the kernel's variables. */
str machine_shared_name(const machine *m, uint32_t offset);
/* "ldmatrix by warp 0 lane 3". */
str machine_who(const machine *m, const machine_warp *w, int32_t pc, int lane);
str machine_stamp_who(const machine *m, uint32_t stamp);
emulate_place machine_place(const machine *m, int32_t pc);

/* ---- shadow.c ---- */

bool shadow_ordered(const machine_warp *w, uint32_t lane, uint32_t stamp);
void shadow_read(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                 int32_t pc);
/* 'data' is what will be written: the same value by the same instruction is no race. */
void shadow_write(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc, const void *data);
void shadow_issue(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc);
void shadow_land(machine *m, uint32_t offset, uint32_t bytes, uint32_t stamp, int32_t pc);
void shadow_join_warp(machine_warp *w, uint32_t lanes);
void shadow_merge(machine_seen *into, const machine_seen *from);
/* What others know of w when 'lanes' of it arrive somewhere; w's clock ticks. */
void shadow_release(machine *m, machine_warp *w, uint32_t lanes, machine_seen *out);
void shadow_acquire(machine_warp *w, uint32_t lanes, const machine_seen *from);
void shadow_tick(machine *m, machine_warp *w);

/* ---- global.c ---- */

typedef enum global_access { GLOBAL_READ, GLOBAL_WRITE, GLOBAL_ATOMIC } global_access;

void global_start_block(machine *m);
/* Checks one lane's access to global memory; NULL after a finding. */
uint8_t *global_bytes(machine *m, machine_warp *w, int lane, uint64_t address, uint32_t bytes,
                      global_access access, int32_t pc);

/* ---- memory.c ---- */

void memory_load(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void memory_store(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void memory_atomic(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void memory_addresses(const machine *m, const machine_warp *w, int32_t row, int row_bytes,
                      int64_t offset, uint64_t addresses[LANES]);
/* Shared offsets of all lanes of 'mask' from a shared or generic address; lanes that are out of
 * bounds or misaligned are reported and left out of the returned mask.
 */
uint32_t memory_shared_offsets(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask,
                               uint32_t bytes, uint32_t offsets[LANES]);

/* ---- traffic.c ---- */

void traffic_shared(machine_count *count, const uint32_t offsets[LANES], uint32_t mask,
                    uint32_t bytes);
void traffic_global(machine_count *count, const uint64_t addresses[LANES], uint32_t mask,
                    uint32_t bytes);

/* ---- copy.c ---- */

void copy_issue(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void copy_commit(machine_warp *w, uint32_t mask);
void copy_wait(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void copy_arrive(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
/* The block has ended: copies that nobody waited for. */
void copy_finish(machine *m);
/* Lets one asynchronous arrival happen; false when there is none. */
bool copy_step(machine *m);

/* ---- barrier.c ---- */

void barrier_arrive(machine *m, machine_warp *w, const ptx_instruction *i);
/* Completes barriers that wait for nobody any more, after threads have ended. */
void barrier_recheck(machine *m);
/* False when the test failed and the lanes must wait. */
bool barrier_mbarrier(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
int barrier_find(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t offset, int lane);
void barrier_count_arrival(machine *m, machine_warp *w, int32_t pc, int mbarrier, int lane,
                           uint32_t count, const machine_seen *seen);

/* ---- collective.c ---- */

/* Membermask of a collective: lanes that must be together. */
uint32_t collective_members(const machine *m, const machine_warp *w, const ptx_instruction *i,
                            uint32_t mask);
void collective_run(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);

/* ---- product.c ---- */

void product_load_matrix(machine *m, machine_warp *w, const ptx_instruction *i);
void product_store_matrix(machine *m, machine_warp *w, const ptx_instruction *i);
void product_move_matrix(machine *m, machine_warp *w, const ptx_instruction *i);
void product_multiply(machine *m, machine_warp *w, const ptx_instruction *i);

/* ---- machine.c ---- */

/* Runs the block to its end, or until 'stopped'. */
void machine_run_block(machine *m);
void machine_wake(machine *m);
void machine_stop(machine *m);

#endif
