/* What the files that decide on the gradients' kernels share. */
#ifndef FLASHTL_DERIVE_DERIVATION_H
#define FLASHTL_DERIVE_DERIVATION_H

#include "derive/write.h"

/* Gradients that walk the same axis, in one kernel; delta alone, where it takes a walk of its own.
 */
typedef struct group {
    str walk;
    LIST(int) loads;
    bool takes_rows;
    bool gives_delta; /* for those after it, too */
    bool is_delta_alone;
    bool is_by_entries; /* of a table: it has tiles for each entry */
    LIST(int) gives;    /* items: sums that others take */
    LIST(int) adds;     /* items: sums that others take, of which each tile adds its part */
    LIST(int) starts;   /* items: such sums, which it sets to 0 */
    LIST(str) fused;    /* the Inputs of the gradients whose sums it adds to */
    bool *takes;        /* by item */
    bool uses_delta;
    int level; /* of one that gives sums: it takes those of lower levels */
    bool is_written;
} group;

typedef struct derivation {
    tape tape;
    LIST(str) tiled; /* axes that blocks divide: of the Outputs' matrices, and the walked ones */
    LIST(group) groups;
    bool *reads_sum;
    bool is_fused;
    text_buffer *out;
} derivation;

/* Are both values made of the same blocks? */
bool derivation_has_same_blocks(const derivation *d, int a, int b);
/* A value that the group makes, whose blocks are its tiles. */
int derivation_value(const derivation *d, const group *g);
/* What kernels are named after: "K", or "K_1" of one of several ways in which K is read. */
str derivation_input(const derivation *d, const tape_item *load);
write_kernel derivation_kernel(const derivation *d, const group *g);
/* The sum will be left in memory. False: reported. */
bool derivation_cut(derivation *d, int item);

/* Factors that sums of products take multiply the sums (factor.c). */
void derivation_put_factors_last(derivation *d);

/* Makes one kernel of two that compute the same products (fuse.c). False: reported, there are none.
 */
bool fuse_groups(derivation *d);

#endif
