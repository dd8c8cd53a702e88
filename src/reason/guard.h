/* The form of a softmax that the pass guard reads, and what it writes instead. */
#ifndef FLASHTL_REASON_GUARD_H
#define FLASHTL_REASON_GUARD_H

#include "reason/pass.h"

enum {
    GUARD_SUMS_MAX = 8,
    GUARD_LIFT = 32,   /* with f32's range: a maximum's weight is 2^-32 when it is set, */
    GUARD_REACH = 63,  /* and a part of a row stays below 2^63 */
    GUARD_LEAST = 126, /* a factor of 2^-126 and less becomes 0: */
    GUARD_LOST = 24,   /* what that loses is 2^-24 of its row at most */
    GUARD_BYTE_RISE =
        3, /* of weights of 8 bits, which end at 448: a maximum's is 2^3 when it is set */
    GUARD_BYTE_MOST = 8, /* and 2^8 where it is set by every block */
    GUARD_FEW = 4,       /* "few" means at most 1/4 of a block's columns */
    GUARD_SHIFT_STEPS = 3,
    GUARD_STATEMENTS_MAX = GUARD_SUMS_MAX + 12
};

/* The standard form in one loop, statement by statement. */
typedef struct guard_form {
    tl_statement *loop;
    tl_statement *product;    /* the first statement that makes S in an iteration */
    tl_statement *save;       /* Cast m and get m_old */
    tl_statement *maximum;    /* RowMax S and accumulate m */
    tl_statement *moved;      /* Subtract m_old, m and get alpha */
    tl_statement *scaled;     /* Multiply alpha, c and get alpha */
    tl_statement *factor;     /* Exp2 alpha and get alpha */
    tl_statement *shift;      /* Multiply m, -c and get shift; NULL: below */
    tl_statement *difference; /* scores may lie far out: Subtract S, m and get S */
    tl_statement *bias;       /* MultiplyAdd S, c, shift and get S; else Multiply S, c */
    tl_statement *fused;      /* beside a difference, under the vote: one operation */
    tl_statement *shifts[GUARD_SHIFT_STEPS]; /* its shift, once a row; NULL: none */
    tl_statement *power;                     /* Exp2 S and get S */
    tl_statement *rescale;                   /* Multiply l, alpha and get l */
    tl_statement *add;                       /* RowSum S and accumulate l */
    tl_statement *sums[GUARD_SUMS_MAX];      /* Multiply A, alpha and get A */
    int sum_count;
    tl_statement *cast; /* Cast S and get P */
    str s, m, l, alpha, m_old, shift_name;
    bool keeps;    /* the scores stay until the vote; powers get a tile of their own */
    bool is_apart; /* a product of the block before still runs: the left operand has two places */
    bool is_read_later; /* the powers, after their cast */
    bool is_eager;      /* a far move is expected to be followed by another */
    bool is_few;        /* few of the first block's columns set its maximum */
    bool is_coarse;     /* the left operand has few digits, and the range of f32 */
    bool is_byte;    /* it has 8 bits: few digits, and a range that weights have to be put into */
    bool is_rounded; /* the denominator adds weights as the product takes them */
    bool is_near;    /* something is done where a block may outweigh all before it: */
    bool is_again;   /* its weights are added up again, rounded, and so are later ones; else the
                        maximum moves */
    bool has_logarithm; /* of the denominator, past the loop */
    bool has_exact;     /* which is of exact weights, added up beside the rounded ones */
    bool foresees;      /* the next block moves the maximum at once where a part reaches far up */
    const char *limit;  /* what a part of a row stays below */
    const char *high;   /* what it stays below for the next block to do nothing, else limit */
    const char *least;  /* the weight of the maximum, when it is set: 2^-lift */
    int lift;
    const char *far; /* a move by this factor is a far one: the next is expected to be, too */
    const char *part, *room, *eager; /* names: a block's part of l, what it may reach, the vote */
    const char *slow, *hard;         /* the votes on the part: something is to do, and now */
    const char *exact, *exact_part;  /* and, with has_exact, of exact weights what l and part are */
    str t;                           /* the tile of the powers: s, unless it is kept */
    const char *why;                 /* it is not that form */
} guard_form;

/* All of them that there are. */
int guard_statements(const guard_form *g, tl_statement *list[GUARD_STATEMENTS_MAX]);

/* Is the first block surely before the loop? */
bool guard_first_is_apart(reason *r, const guard_form *g);

/* How many columns of the first block its maximum is taken over: 0 for all. Any column's score is a
 * number to subtract, as long as the vote fails; the largest of a few is found sooner.
 */
int64_t guard_first_columns(reason *r, const guard_form *g);

/* Weights begin lower, or higher, in their range: `lift`, in log2 units. Where differences are
 * taken exactly, the factor's multiplication becomes a fused one.
 */
void guard_lift_shift(reason *r, guard_form *g);

/* Where scores may lie far out, blocks under the vote take one fused operation all the same. */
void guard_fuse(reason *r, guard_form *g);

/* `Allocate name` like a tile that there is. */
void guard_allocate_like(reason *r, str like, const char *name, const char *comment);

/* The guarded form in place of the statements of the standard one. */
void guard_write(reason *r, guard_form *g);

#endif
