/* What the files that write the text of two warpgroups share. */
#ifndef FLASHTL_REASON_PAIR_TEXT_H
#define FLASHTL_REASON_PAIR_TEXT_H

#include "reason/names.h"
#include "reason/pair.h"

enum { PAIR_TILES_MAX = PAIR_HEADS_MAX + PAIR_TAILS_MAX };

/* A tile that the loop copies: a slot for even blocks and one for odd ones, each of its own name.
 */
typedef struct pair_tile {
    tl_statement *fill;
    const char *slots[PAIR];
    int side;     /* the warpgroup whose sum takes it; -1: scores alone do */
    bool is_head; /* scores do */
} pair_tile;

/* A statement of the loop between its products. */
typedef enum pair_kind {
    PAIR_OWN,    /* about elements of a block: of the one that makes its weights */
    PAIR_SENT,   /* finds a value of each row in them, which goes to the other */
    PAIR_VALUES, /* of such values alone */
    PAIR_SUM,    /* changes a sum by them */
} pair_kind;

typedef struct pair_element {
    tl_statement *s;
    pair_kind kind;
    int side;                /* PAIR_SUM: whose */
    bool is_theirs;          /* done for blocks of the other, too */
    const char *slots[PAIR]; /* PAIR_SENT: where even blocks put it, and odd ones */
} pair_element;

/* A sum over elements that each adds up of its own blocks, and the other's part of it. */
typedef struct pair_part {
    str name;
    const char *slots[PAIR], *other;
} pair_part;

typedef struct pairing {
    reason *r;
    tl_statement *math;
    const pair_form *form;
    pair_tile tiles[PAIR_TILES_MAX];
    int tile_count;
    LIST(pair_element) elements;
    names matrices, partial;   /* of the role's tiles in registers: of elements; sums by lane */
    LIST(pair_part) parts;     /* by that of 'partial' */
    const char *weights[PAIR]; /* where even blocks put them, and odd ones */
    const char *count, *evens, *odds; /* blocks: all, those of each parity */
} pairing;

/* Reads statements and tiles. False: reported. */
bool pair_analyse(pairing *p);
const pair_tile *pair_find_tile(const pairing *p, str operand); /* K_shared; NULL: no such tile */
/* Does the Copy, before the loop, bring a left operand that registers hold? */
bool pair_is_held(const pairing *p, const tl_statement *fill);
/* Number of an even or odd block, by the number of its pair. */
const char *pair_block(const pairing *p, int parity, const char *pair_number);

/* The role that loads. False: reported. pair_load.c */
bool pair_load(pairing *p, tl_block *role);

#endif
