/* The running machine, file by file: launch.c sets it up and goes through the grid, block.c has the
 * warps take turns, machine.c runs a warp and keeps its lanes together, and the other files execute
 * one family of instructions each.
 */
#ifndef FLASHTL_EMULATE_MACHINE_H
#define FLASHTL_EMULATE_MACHINE_H

#include "emulate/machine_state.h"

/* --- finding.c -------------------------------------------------------------------------------- */

/* Counts a finding by (kind, line, other line); returns it when it is new, to be described, or
 * NULL. other_pc -1: none. The block is marked as bad.
 */
emulate_finding *machine_find(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                              int32_t other_pc, int lane);
/* The same, described: who does it, then what. */
emulate_finding *machine_found(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                               int32_t other_pc, int lane, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
/* Who, what it does (" reads"), and the name of a place in shared memory. */
emulate_finding *machine_found_at(machine *m, const machine_warp *w, emulate_kind kind, int32_t pc,
                                  int32_t other_pc, int lane, const char *does, uint32_t offset);
/* The machine can do no more of what the sentence says: the block cannot go on. */
void machine_limit(machine *m, const machine_warp *w, int32_t pc, const char *sentence);
/* "K stage 1[row 3, byte 16]", by the launch's tiles and the kernel's variables. */
str machine_shared_name(const machine *m, uint32_t offset);
/* "ldmatrix by warp 0 lane 3". */
str machine_who(const machine *m, const machine_warp *w, int32_t pc, int lane);
str machine_stamp_who(const machine *m, uint32_t stamp);
emulate_place machine_place(const machine *m, int32_t pc);

/* --- shadow.c --------------------------------------------------------------------------------- */

bool shadow_ordered(const machine_warp *w, uint32_t lane, uint32_t stamp);
void shadow_read(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                 int32_t pc);
/* 'data' is what will be written: the same value by the same instruction is no race. */
void shadow_write(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc, const void *data);
void shadow_issue(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                  int32_t pc);
void shadow_land(machine *m, uint32_t offset, uint32_t bytes, uint32_t stamp, int32_t pc);
/* An asynchronous operation that 'lane' issues will read these pieces of 16 bytes: checks them, and
 * marks them as read. 'stamp' is what its agent will have completed.
 */
void shadow_read_pieces(machine *m, machine_warp *w, int lane, const uint32_t *offsets, int count,
                        int32_t pc, uint32_t stamp);
void shadow_mark_pieces(machine *m, const uint32_t *offsets, int count, int32_t pc, uint32_t stamp);
/* An asynchronous copy begins to write these bytes. */
void shadow_issue_async(machine *m, machine_warp *w, int lane, uint32_t offset, uint32_t bytes,
                        int32_t pc);
bool shadow_fenced(const machine_warp *w, uint32_t lane, uint32_t stamp);

static inline uint32_t shadow_agent_stamp(int agent, uint32_t clock) {
    return clock << 13 | (uint32_t)agent << 6 | (uint32_t)STAMP_AGENT;
}

/* --- shadow_views.c --------------------------------------------------------------------------- */

void shadow_join_warp(machine_warp *w, uint32_t lanes);
void shadow_merge(machine_seen *into, const machine_seen *from);
/* What others know of w when 'lanes' of it arrive somewhere; w's clock ticks. */
void shadow_release(machine *m, machine_warp *w, uint32_t lanes, machine_seen *out);
void shadow_acquire(machine_warp *w, uint32_t lanes, const machine_seen *from);
void shadow_tick(machine *m, machine_warp *w);
void shadow_check_clock(machine *m, uint32_t clock); /* of an agent */
/* A new agent, or -1 when there are too many: then a finding was made. */
int shadow_new_agent(machine *m, machine_warp *w, machine_agent agent, bool reads);
/* fence.proxy.async by these lanes. */
void shadow_fence(machine *m, machine_warp *w, uint32_t lanes);

/* --- global.c --------------------------------------------------------------------------------- */

typedef enum global_access { GLOBAL_READ, GLOBAL_WRITE, GLOBAL_ATOMIC } global_access;

void global_start_block(machine *m);
/* Lanes touch global memory, or end: a finding where they have not waited for earlier grids. */
void global_touch(machine *m, machine_warp *w, uint32_t lanes, int32_t pc);
/* Checks one lane's access to global memory; NULL after a finding. */
uint8_t *global_bytes(machine *m, machine_warp *w, int lane, uint64_t address, uint32_t bytes,
                      global_access access, int32_t pc);

/* --- memory.c --------------------------------------------------------------------------------- */

void memory_load(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void memory_store(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void memory_atomic(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
/* Bytes that a lane reads at a generic address, not shared memory; NULL after a finding. */
const uint8_t *memory_generic(machine *m, machine_warp *w, int lane, uint64_t address,
                              uint32_t bytes, int32_t pc);
void memory_addresses(const machine *m, const machine_warp *w, int32_t row, int row_bytes,
                      int64_t offset, uint64_t addresses[LANES]);
/* Whether these bytes are in the block's shared memory; a finding where they are not. */
bool memory_is_shared(machine *m, machine_warp *w, int lane, uint64_t address, uint32_t bytes,
                      int32_t pc);
/* Shared offsets of all lanes of 'mask' from a shared or generic address; lanes that are out of
 * bounds or misaligned are reported and left out of the returned mask.
 */
uint32_t memory_shared_offsets(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask,
                               uint32_t bytes, uint32_t offsets[LANES]);

/* --- traffic.c -------------------------------------------------------------------------------- */

void traffic_shared(machine_count *count, const uint32_t offsets[LANES], uint32_t mask,
                    uint32_t bytes);
void traffic_global(machine_count *count, const uint64_t addresses[LANES], uint32_t mask,
                    uint32_t bytes);

/* --- copy.c ----------------------------------------------------------------------------------- */

uint64_t machine_draw(machine *m); /* a random number; the seed is not 0 */
void copy_issue(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void copy_commit(machine_warp *w, uint32_t mask);
void copy_wait(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void copy_arrive(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
/* The block has ended: copies that nobody waited for. */
void copy_finish(machine *m);
/* Lets one asynchronous arrival happen; false when there is none. */
bool copy_step(machine *m);

/* --- barrier.c -------------------------------------------------------------------------------- */

void barrier_arrive(machine *m, machine_warp *w, const ptx_instruction *i);
/* Completes barriers that wait for nobody any more, after threads have ended. */
void barrier_recheck(machine *m);
/* False when the test failed and the lanes must wait. */
bool barrier_mbarrier(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void barrier_count_arrival(machine *m, machine_warp *w, int32_t pc, int mbarrier, int lane,
                           uint32_t count, const machine_seen *seen);

/* " (the mbarrier at ..., parity 1)" for lanes that test one; else empty. */
str barrier_awaited(const machine *m, const machine_warp *w, const machine_group *group);
void barrier_fence_inits(machine *m, const machine_warp *w, uint32_t lanes);
void barrier_finish(machine *m);
/* The mbarrier at an offset, which must be there and its initialisation ordered before; or -1. */
int barrier_at(machine *m, machine_warp *w, int32_t pc, uint32_t offset, int lane);
/* Bytes that an mbarrier waits for, more or fewer; the phase may complete. */
void barrier_transfer(machine *m, int mbarrier, int64_t bytes);

/* --- bulk.c ----------------------------------------------------------------------------------- */

void bulk_issue(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void bulk_commit(machine *m, machine_warp *w, uint32_t mask);
void bulk_wait(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
/* Lets one copy into shared memory land, or a part; false when there is none. */
bool bulk_step(machine *m);
void bulk_finish(machine *m);
/* Whether copies in flight count their bytes at this mbarrier. */
bool bulk_counts_at(const machine *m, int mbarrier);

/* --- wgmma.c ---------------------------------------------------------------------------------- */

void wgmma_start_block(machine *m);
/* An instruction other than wgmma is about to use registers of wgmma. */
void wgmma_touch(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);
void wgmma_fence(machine *m, machine_warp *w);
void wgmma_issue(machine *m, machine_warp *w, const ptx_instruction *i);
void wgmma_commit(machine *m, machine_warp *w);
/* False when other warps have to commit first. */
bool wgmma_wait(machine *m, machine_warp *w, const ptx_instruction *i);
void wgmma_finish(machine *m);

/* --- wgmma_product.c -------------------------------------------------------------------------- */

enum { WGMMA_PIECES_MAX = 1024, WGMMA_COLUMNS_MAX = 256 / 8 };
/* Offsets of the 16-byte pieces of an operand in shared memory that this warp's part of the product
 * reads: of A its 16 rows, of B all. Returns their number.
 */
int wgmma_pieces(const ptx_wgmma *form, uint64_t descriptor, bool is_a, int warp_in_group,
                 uint32_t offsets[WGMMA_PIECES_MAX]);
void wgmma_multiply(machine *m, int warpgroup, const machine_product *p);

/* --- registers.c ------------------------------------------------------------------------------ */

void registers_start_block(machine *m);
/* False when the warp must wait for registers of others. */
bool registers_set(machine *m, machine_warp *w, const ptx_instruction *i);
void registers_finish(machine *m);

/* --- deadlock.c ------------------------------------------------------------------------------- */

void deadlock_report(machine *m);

/* --- collective.c ----------------------------------------------------------------------------- */

/* Membermask of a collective: lanes that must be together. */
uint32_t collective_members(const machine *m, const machine_warp *w, const ptx_instruction *i,
                            uint32_t mask);
void collective_run(machine *m, machine_warp *w, const ptx_instruction *i, uint32_t mask);

/* --- product.c -------------------------------------------------------------------------------- */

void product_load_matrix(machine *m, machine_warp *w, const ptx_instruction *i);
void product_store_matrix(machine *m, machine_warp *w, const ptx_instruction *i);
void product_move_matrix(machine *m, machine_warp *w, const ptx_instruction *i);
void product_multiply(machine *m, machine_warp *w, const ptx_instruction *i);

/* 8 rows of 16 bytes as floats, 'stride' floats from row to row. */
void product_expand(const machine *m, ptx_number number, const uint32_t *row, float *to,
                    int stride);
/* Rows by k: to[k * stride + row], 8 or 4 or 16 values of k. */
void product_expand_by_k(const machine *m, ptx_number number, const uint32_t *row, float *to,
                         int stride);
/* The same of a second factor: its columns, in the order of sums_columns. */
void product_expand_columns(const machine *m, ptx_number number, const uint32_t *row,
                            float (*to)[8]);
/* Sums, from and to registers. */
void product_gather(sums_product *p, uint32_t *const c[4]);
void product_scatter(const sums_product *p, uint32_t *const d[4]);

/* --- block.c ---------------------------------------------------------------------------------- */

/* Runs the block to its end, or until 'stopped'. */
void block_run(machine *m);

/* --- machine.c -------------------------------------------------------------------------------- */

/* Runs a warp until it waits, ends, or the block is stopped. */
void machine_run_warp(machine *m, machine_warp *w);
void machine_wake(machine *m);
void machine_stop(machine *m);

#endif
