/* Atoms: what `by WORD` means on a GPU. */
#ifndef FLASHTL_TRANSLATE_ATOMS_H
#define FLASHTL_TRANSLATE_ATOMS_H

#include "gpu/gpu.h"
#include "tl/tree.h"

typedef struct atom_product {
    const char *word;
    gpu_feature feature;
    tl_type type; /* of both operands */
    int m, n, k;
    const char *wrapper;
} atom_product;

typedef struct atom_mover {
    const char *word;
    gpu_feature feature;
    const char *use;
} atom_mover;

/* The product of that name and operand type; NULL when there is none. */
const atom_product *atom_find_product(str word, tl_type type);
/* Its sibling that contracts 8 at a time, for the end of an extent that is 8 mod 16. */
const atom_product *atom_narrow_product(const atom_product *atom);
const atom_mover *atom_find_mover(str word);

#endif
