/* The rules of TL: what makes a program right, and what makes TL Code complete.
 *
 * check_sketch judges a sketch: names, axes, spaces, types as far as they are said.
 * check_code judges TL Code against a GPU: everything is decided (else: what is open), layouts fit,
 * memory and registers suffice, hazards are excluded. It also returns the facts that the translator
 * prints from; they live in the arena and are valid as long as the tree is not changed.
 */
#ifndef FLASHTL_CHECK_CHECK_H
#define FLASHTL_CHECK_CHECK_H

#include "gpu/gpu.h"
#include "model/model.h"

/* What the emitted code must do at a statement (decision 007).
 *
 * Copy: first, with barrier_before, a barrier; after an async one, with 'commits', a
 * cp.async.commit_group right after it. With uses_mbarrier it waits for the slot's "empty" phase,
 * and its data arrive at the slot's "full" barrier; neither barrier nor commit.
 *
 * Wait: with joins_next_wait nothing, for the last Wait of the run does it for all of them. Else
 * first, when groups_pending >= 0, cp.async.wait_group of that number; then, with barrier_before, a
 * barrier. With uses_mbarrier it waits for the "full" phase.
 *
 * Release: with uses_mbarrier an arrival at the slot's "empty" barrier; else nothing.
 *
 * if: when commits_otherwise > 0 and the condition is false, that many empty commit_groups.
 */
typedef struct check_sync {
    const tl_statement *statement;
    bool barrier_before;
    bool is_warp_scope;    /* that barrier is the warp's: every thread reads what its warp wrote */
    int groups_pending;    /* Wait: cp.async groups that may stay in flight; -1: no group wait */
    bool commits;          /* Copy: one cp.async group */
    int commits_otherwise; /* if */
    bool joins_next_wait;
    bool uses_mbarrier;
    int slots_ahead; /* Copy into a ring that its own role reads: how many slots its own is
                        ahead of the one to be waited for next, modulo stages; -1: it varies */
} check_sync;

/* The layout of a register tile as one statement sees it, before it runs. A statement that writes
 * the tile afresh has the layout it leaves.
 */
typedef struct check_layout_at {
    const tl_statement *statement;
    const tl_symbol *tile;
    tl_layout layout;
} check_layout_at;

/* Bytes of one shared tile: all its slots. Tiles in place of one another have the same offset.
 * Where model_tile.frees, its mbarriers, one for each slot.
 */
typedef struct check_shared {
    const tl_symbol *tile;
    const tl_statement *allocation;
    int64_t offset_bytes, slot_bytes, bytes;
    int64_t full_offset, empty_offset;
} check_shared;

typedef struct check_facts {
    const model *model;
    const check_sync *syncs;
    int sync_count;
    const check_layout_at *layouts;
    int layout_count;
    const check_shared *shared;
    int shared_count;
    int64_t shared_bytes;       /* of all slots, overlaps counted once */
    int registers_estimate;     /* a thread, of the role that needs most */
    int run_count, event_count; /* of the hazard rules: how much was tried */
} check_facts;

enum {
    CHECK_SHARED_ALIGNMENT_BYTES = 128,
    CHECK_MBARRIER_BYTES = 8,
    /* Dynamic grids: the next tiles' numbers and indices, in slots of 16 bytes, or of 4. */
    CHECK_NUMBER_SLOTS = 2,
    CHECK_NUMBER_BYTES = 4,
    CHECK_NUMBER_UNIT_BYTES = 16,
};

/* What is computed on the elements of a matrix in registers, other than sums and maxima of it. */
typedef struct check_elements {
    bool uses_indices; /* operands name places: slope*(kv - q) */
    bool is_curved;    /* an operation is a chain (tl_facts), many of which run side by side */
    int64_t columns;   /* of the widest such matrix */
} check_elements;

/* Registers of a thread that this takes beside tiles: fitted to compiled kernels,
 * docs/registers.md. */
int check_element_registers(const check_elements *elements);

/* Lengths that a request gives. */
typedef struct check_length {
    str name;
    int64_t value;
} check_length;

typedef struct check_lengths {
    const check_length *items;
    int count;
} check_lengths;

/* All expect a program that tl_bind has bound without an error. 'given' may be NULL. */
bool check_sketch(tl_program *program, const check_lengths *given, diag_list *diags);
/* Sizes of blocks that a sketch gives, but that its meaning does not depend on, become open: then
 * whole axes may be gone through at once. After tl_infer_axes.
 */
void check_open_sizes(tl_kernel *kernel, arena *memory);
/* Can kernels for that GPU have Inputs and Outputs of these types? */
bool check_parameters(const tl_kernel *kernel, const gpu *target, diag_list *diags);

/* Checks one kernel of a bound program as TL Code for a GPU. 'target' may be NULL: then what only a
 * GPU decides (types, memory, registers, instructions) is not judged. 'facts' may be NULL. False
 * when an error was reported.
 */
bool check_code(tl_kernel *kernel, const gpu *target, arena *memory, diag_list *diags,
                check_facts *facts);

/* NULL for a tile that is not in shared memory. */
const check_shared *check_shared_of(const check_facts *facts, const tl_symbol *tile);
/* NULL when the statement needs nothing. */
const check_sync *check_sync_of(const check_facts *facts, const tl_statement *statement);

#endif
