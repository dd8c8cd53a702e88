/* What pass stage and its ring share: the tiles that a loop copies. */
#ifndef FLASHTL_REASON_STAGE_H
#define FLASHTL_REASON_STAGE_H

#include "reason/pass.h"

enum { STAGE_CHANNELS_MAX = 16, STAGES_MAX = 8 };

/* A shared tile that one loop fills, once an iteration. */
typedef struct stage_channel {
    const char *name;                   /* K */
    const char *shared;                 /* K_shared */
    tl_statement *copy;                 /* the sketch's, in the loop */
    tl_statement *first_use, *last_use; /* in the loop's own block */
    int64_t stages;
    bool is_head; /* waited for at the head of the iteration */
} stage_channel;

typedef struct stage_loop {
    tl_statement *loop;
    stage_channel channels[STAGE_CHANNELS_MAX]; /* by first use */
    int count;
    const char *from, *to, *variable;
    bool is_never_empty;
    bool is_lone; /* of one warp: what it released nobody else reads */
} stage_loop;

/* The channel's copy for another block: `ahead` blocks after 'base'. */
tl_statement *stage_copy_ahead(reason *r, const stage_loop *l, const stage_channel *c,
                               const char *base, int64_t ahead);
/* The condition that there is such a block. */
const char *stage_block_exists(reason *r, const stage_loop *l, const char *base, int64_t ahead);
/* Wraps a block in `if`, unless the condition is empty. */
tl_block stage_under(reason *r, const char *condition, tl_block inner);
/* Where copies before the loop go: in front of the computations that stand right before it. */
tl_statement *stage_prologue_point(const stage_loop *l);

/* A copy from global to shared memory. */
bool stage_is_fill(const tl_statement *s);
str stage_shared_name(reason *r, str name); /* K_shared */
/* A tile of the copy's own type in registers, as lines: what passes through. */
void stage_allocate_lines(reason *r, const tl_statement *copy);

/* Gives tiles of 8 bits that the loop copies a tile of their own type on the way. stage_widen.c */
void stage_widen_loop(reason *r, tl_statement *loop);
/* Moves the loop's copies of vectors to registers to its head. stage_vectors.c */
void stage_vectors_first(reason *r, tl_statement *loop);

/* Two tiles that take turns in the slots of one ring: ring.c. Writes the loop and says true where
 * the loop has that form, and it is wanted.
 */
bool stage_ring(reason *r, stage_loop *l);

#endif
