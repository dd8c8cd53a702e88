/* What the files of Copy share: one file per way.
 *
 * Matrices move in lines (16 bytes a lane along the last axis) or, from and to fragments, in pairs
 * of elements; vectors move by element, and so do loads of lines whose elements lie apart in the
 * tensor, since a view turns it. On the global side a tile may be cut by the end of the
 * tensor, in the middle of 16 bytes or of a pair too: nothing outside is named, loads give zeros
 * there, stores leave it alone.
 */
#ifndef FLASHTL_TRANSLATE_COPY_H
#define FLASHTL_TRANSLATE_COPY_H

#include "translate/emit.h"

/* Says why this Copy has no translation; false. */
bool copy_refuse(emit *t, const tl_statement *s, const char *why);
/* "a && b", where either may be empty. */
str copy_both(emit *t, str a, str b);
/* A stride as a factor. */
str copy_factor(emit *t, str stride);
/* Can so many elements of a row be moved at once? Refuses the Copy where its view or coordinate
 * begins between such units.
 */
bool copy_is_aligned(emit *t, const tl_statement *s, const emit_address *a, int elements);
/* Declares how far the end of the tensor is from the tile's origin, where that must be known. */
void copy_declare_rest(emit *t, const emit_address *a);

/* --- copy_lines.c: matrices in 16-byte units -------------------------------------------------- */

/* Which units a thread moves, and where they are on each side. */
typedef struct lines {
    emit *t;
    const tl_statement *s;
    layout layout;
    emit_shape shape;
    bool is_full;               /* every place is inside the tile */
    int rows, columns, bits;    /* of the tile, of an element */
    const emit_tile *widens_to; /* 8-bit lines that become a shared tile of 16 bits; or NULL */
    access_copy access;         /* the shared side */
    emit_address address;       /* the global side */
    bool converts;              /* f32 lines in registers, to a 16-bit tensor */
    bool is_partial;            /* the end of the tensor may be inside a unit */
    bool is_gathered;           /* a unit's elements lie apart in the tensor */
    bool is_permuted;           /* from registers: the other side has them in accumulators' order */
    bool is_rolled;             /* a warp that does nothing else: text and registers count more */
    const char *pointer;        /* rolled, by sections: what a section's pointer is called */
    const emit_tile *registers; /* or NULL: units pass through */
} lines;

/* 'shared' or 'registers' may be NULL. False when it was refused. */
bool lines_make(lines *x, emit *t, const tl_statement *s, const emit_tile *shared,
                const emit_tile *registers);
/* This thread's row and column; its pointer into the tensor. */
void lines_declare_own(lines *x);
void lines_declare_pointer(lines *x, const char *name);

/* Text of one unit, inside the loops. 'name' is what was declared above. */
str lines_unit(lines *x);
str lines_pointer(lines *x, const char *name);
str lines_shared(lines *x, const char *name);
/* Of wrappers that move a unit: "", "_f32", "_i32"; of those that move a part of one: "<8>", "". */
const char *lines_suffix(const lines *x);
const char *lines_elements(const lines *x);

/* How a unit may be cut by the end of the tensor. */
typedef enum lines_cut {
    LINES_WHOLE,   /* it is not */
    LINES_OR_NONE, /* whole or not at all: if (lines_guard) */
    LINES_PART,    /* lines_declare_left: a number of elements, which may be negative */
} lines_cut;

typedef void lines_action(lines *x, lines_cut cut);
void lines_loop(lines *x, lines_cut cut, lines_action *action);
/* Twice where the tile may be cut: whole tiles skip the comparisons. */
void lines_loop_to_ends(lines *x, lines_action *action);
str lines_guard(lines *x);
/* What a part is counted in, and how many a unit has: elements, or bytes of packed ones. */
int lines_counted(const lines *x);
void lines_declare_left(lines *x);

/* --- copy_pairs.c: fragments in pairs of elements --------------------------------------------- */

/* The wrapper, without what it moves; what a pair is where it is in memory, and its address. */
typedef struct pairs_way {
    const char *wrapper; /* "load_shared", "store_global" */
    tl_type type;
    str address;
} pairs_way;
/* Moves the pair in hand, or its first element alone: loads give 0 for the second then. */
void pairs_move_one(emit *t, const emit_tile *tile, const pairs_way *way, bool both);

/* --- the ways: NULL stands for global memory -------------------------------------------------- */

void copy_in_lines(emit *t, const tl_statement *s, const emit_tile *from, const emit_tile *to);
void copy_fragments_global(emit *t, const tl_statement *s, const emit_tile *tile);
/* copy_shared.c */
void copy_fragments_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                              const emit_tile *to);
void copy_matrices_to_shared(emit *t, const tl_statement *s, const emit_tile *from,
                             const emit_tile *to);
void copy_shared_to_fragments(emit *t, const tl_statement *s, const emit_tile *from,
                              const emit_tile *to);
/* copy_vector.c */
void copy_vector_global(emit *t, const tl_statement *s, const emit_tile *v, bool loads);
void copy_vector_shared(emit *t, const tl_statement *s, const emit_tile *v, const emit_tile *shared,
                        bool loads);

#endif
