/* Two warpgroups that share 64 rows.
 *
 * Sums of more columns than a thread has registers for are several tiles, each a product's of the
 * same weights. Each warpgroup has half of them, makes the weights of every other block of the
 * loop, and hands them to the other through shared memory: so each block is copied once and each of
 * its scores computed once, and one multiplies while the other computes on elements. `let pair = 1`
 * says it until pass pair has written the two roles.
 */
#ifndef FLASHTL_REASON_PAIR_H
#define FLASHTL_REASON_PAIR_H

#include "reason/pass.h"

enum {
    PAIR = 2,
    PAIR_HEADS_MAX = 8, /* products that scores are the sum of */
    PAIR_TAILS_MAX = 8, /* sums of weights times values */
};

/* A loop over blocks whose products are the scores', in parts, and then one of the weights for each
 * of the sums. The first half of these is the first warpgroup's.
 */
typedef struct pair_form {
    tl_statement *loop;
    tl_statement *heads[PAIR_HEADS_MAX]; /* products that make scores */
    int head_count;
    tl_statement *tails[PAIR_TAILS_MAX]; /* products of weights, into a sum each */
    int tail_count;
} pair_form;

/* Why the kernel is not of that form, as pass fold leaves it or pass place; NULL: it is. */
const char *pair_read(const tl_kernel *kernel, pair_form *form);

/* The warpgroup that has the sum. */
int pair_side(const pair_form *form, int tail);
/* The one whose product takes the head's right operand, too, as values; -1: none does. */
int pair_side_of(const pair_form *form, int head);
/* Is the head's left operand in registers of both warpgroups? What they read of shared memory most
 * often is right operands; one that is no value gives bytes for the weights.
 */
bool pair_holds_left(const pair_form *form, int head);

/* What the two hand each other through shared memory, in bytes, for so many rows and keys. */
int64_t pair_exchange_bytes(int64_t rows, int64_t columns);

/* The text of the two, as pass place left it for one. False: reported. pair_write.c */
bool pair_write(reason *r, tl_statement *math, const pair_form *form);

#endif
