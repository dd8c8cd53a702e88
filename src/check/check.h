/* The rules of TL: what makes a program right, and what makes TL Code complete.
 *
 * check_sketch judges a sketch: names, axes, spaces, types as far as they are said.
 * check_code judges TL Code against a GPU: everything is decided (else: what is open), layouts fit,
 * memory and registers suffice, hazards are excluded. It also returns the facts that the translator
 * prints from; they are valid as long as the tree is not changed.
 */
#ifndef FLASHTL_CHECK_CHECK_H
#define FLASHTL_CHECK_CHECK_H

#include "gpu/gpu.h"
#include "tl/names.h"

/* What the emitted code must do at a Copy, Wait or Release (decision 003). */
typedef struct check_sync {
    const tl_statement *statement;
    bool barrier_before;     /* Copy: all readers must have passed before it; Wait: needs one at all */
    bool is_warp_scope;      /* that barrier may be the warp's */
    int groups_pending;      /* Wait: cp.async groups that may stay in flight; -1: no group wait */
    bool commits;            /* Copy: commit a cp.async group right behind it */
    bool joins_next_wait;    /* Wait: part of a run; the last one of the run carries the barrier */
} check_sync;

/* The layout of a register tile as one statement sees it, before it runs. */
typedef struct check_layout_at {
    const tl_statement *statement;
    const tl_symbol *tile;
    tl_layout layout;
} check_layout_at;

typedef struct check_facts {
    const check_sync *syncs;
    int sync_count;
    const check_layout_at *layouts;
    int layout_count;
    int64_t shared_bytes;        /* of all slots, overlaps counted once */
    int registers_estimate;      /* a thread, of the role that needs most */
} check_facts;

bool check_sketch(tl_program *program, diag_list *diags);

/* Checks one kernel of a bound program as TL Code for a GPU. 'facts' may be NULL. False when an error
 * was reported.
 */
bool check_code(tl_kernel *kernel, const gpu *target, arena *memory, diag_list *diags,
                check_facts *facts);

const check_sync *check_sync_of(const check_facts *facts, const tl_statement *statement);

#endif
