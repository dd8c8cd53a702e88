/* Atoms: what `by WORD` means on a GPU. One table (atom.def) for all who choose, judge or print. */
#ifndef FLASHTL_ATOM_ATOM_H
#define FLASHTL_ATOM_ATOM_H

#include "gpu/gpu.h"
#include "tl/tree.h"

enum { ATOM_WIDTH_UNIT = 8, ATOM_WIDTH_MAX = 256 }; /* of products whose word ends in the width */

typedef struct atom_product {
    const char *word; /* "m64n" stands for m64n8k16, m64n16k16, ... */
    gpu_feature feature;
    tl_type type; /* of both operands */
    int m, n, k;  /* n = 0: the word's own */
    bool is_async;
    const char *wrapper; /* NULL: there is no text for it yet */
} atom_product;

typedef struct atom_mover {
    const char *word;
    gpu_feature feature;
    tl_space from, to;
    bool is_async;
    const char *use;
} atom_mover;

/* The product of that word and operand type; NULL when there is none. TL_OPEN: of any type. 'width'
 * gets the columns that a word like m64n128k16 asks for, else the atom's; it may be NULL, and need
 * not be a width that the hardware has (atom_has_width).
 */
const atom_product *atom_find_product(str word, tl_type type, int *width);
/* What sums of such operands are: i32 of whole numbers, which they are exact in, else f32. */
tl_type atom_sum_type(tl_type operands);
bool atom_has_width(const atom_product *atom, int width);
/* Its sibling that contracts 8 at a time, for the end of an extent that is 8 mod 16. */
const atom_product *atom_narrow_product(const atom_product *atom);
/* The one that contracts most of those that this GPU has; NULL: none. */
const atom_product *atom_best_product(const gpu *target, tl_type type, bool is_async);
/* Its word with this width: "m16n8k16", "m64n128k16". */
str atom_product_word(arena *memory, const atom_product *atom, int width);

/* Between these spaces; NULL when there is none. */
const atom_mover *atom_find_mover(str word, tl_space from, tl_space to);
/* Between any; NULL for a word that is no Copy's. */
const atom_mover *atom_named_mover(str word);

/* Parts that a Mask's word tells apart, and the word that does; 0 and "" where there is none. */
int atom_mask_parts(str word);
str atom_mask_word(int64_t parts);

/* The word of products or Copies that differs least from a wrong one; "" where none is near. */
str atom_nearest(str word, bool of_copy);

#endif
