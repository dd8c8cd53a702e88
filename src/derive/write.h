/* From a tape to the sketches of its gradients. */
#ifndef FLASHTL_DERIVE_WRITE_H
#define FLASHTL_DERIVE_WRITE_H

#include "derive/tape.h"

/* One kernel: gradients of some Inputs, made by walking one axis. */
typedef struct write_kernel {
    str name;
    const int *loads; /* items of the tape: the Inputs that it makes gradients of */
    int load_count;
    const bool *is_part; /* by load: other kernels write the rest of that gradient */
    str grid, walk;   /* axes: that tiles of the gradients are blocks of, and that is walked; may be
                         empty */
    const str *tiled; /* all axes that blocks divide */
    int tiled_count;
    bool gives_delta, takes_delta;
    const int *gives; /* items of the tape: sums that kernels after it take */
    int give_count;
    const int *adds; /* sums over the grid's axis, to which each tile adds its part in memory */
    int add_count;
    const int *starts; /* sums that it sets to 0 for the kernel that adds to them */
    int start_count;
    const bool *takes; /* by item: those that it takes; NULL: none */
} write_kernel;

/* What a kernel needs besides. */
typedef struct write_needs {
    int cut; /* item: a sum that has to be taken from a kernel before it; TAPE_NONE */
    bool uses_delta;
    bool sums_turned; /* what is copied the other way round, of which there is one type to a kernel
                       */
} write_needs;

/* Can the kernel be written? False: reported, or 'needs->cut' has to be taken. */
bool write_is_possible(tape *t, const write_kernel *k, write_needs *needs);

/* The sums of products over its walk that a kernel makes, of several that are added up the whole:
 * items, in 'items', which has room for all of the tape's. -1: it makes other sums over it, too.
 */
int write_sums(tape *t, const write_kernel *k, int *items);
/* How many products both compute. */
int write_shared_products(tape *t, const write_kernel *a, const write_kernel *b);

/* Appends the kernel's text. '*reads_sum' (by sum) is set where it needs one that the forward pass
 * has to leave. False: reported.
 */
bool write_gradients(tape *t, const write_kernel *k, bool *reads_sum, text_buffer *out);

/* Does the gradient of the Input that this item loads depend on anything along the axis? */
bool write_meets(tape *t, int load, str axis);
/* Of these axes, the one that is summed last on the way to that gradient. */
str write_last_summed(tape *t, int load, const str *axes, int count);
/* The tensor of a sum that a kernel of its own makes. */
str write_cut_tensor(const tape *t, int item);

/* "b in batch, head in q_heads; " of the first Output: what is before the matrix in all that is
 * given out by its rows. Empty where there is nothing.
 */
str write_prefix(const tape *t);
str write_axis(const tape *t, str index); /* "q in q_len", or a bare "d" */
str write_axes(const tape *t, int value); /* of a value: "q in q_len, d" */
/* The Output of the sketch that has a sum as it is; NULL: none has. */
const tape_store *write_sum_store(const tape *t, int sum);
/* Of gradients of what has this type: numbers of 8 bits are too coarse for them. */
tl_type write_gradient_type(tl_type type);
/* That Output's name, else what it will be called in one of its own. */
str write_sum_tensor(const tape *t, int sum);

/* Inputs and definitions of the sketch that a text names, and those that these name. */
void write_declared(const tape *t, str text, text_buffer *out);

/* Of the Input that an item loads: is there one tile of the Outputs for each of its elements? Else
 * tiles share it.
 */
bool share_is_whole(const tape *t, const tape_item *load);
/* Is the Input's axis gone through from end to end by one index, which chooses on it alone? */
bool share_chooses_alone(const tape *t, const tape_item *load, int axis);
/* Are its elements told by the tile's indices in a way that share.c knows? */
bool share_is_known(const tape *t, const tape_item *load);
/* Do the views by which an Input is copied, this LOAD among them, show each of its elements once?
 */
bool share_covers(const tape *t, const tape_item *load);
/* The axes of what a tile gives out, as text. */
str share_axes(const tape *t, const tape_item *load);
/* "dK", or "dK_1" of one of several ways in which K is read. */
str share_whole(const tape *t, const tape_item *load);
/* What a tile gives out: that, or "dK_parts" of what is shared. */
str share_gradient(const tape *t, const tape_item *load);
/* The definition by which a tile is stored there, under that name; empty: it is stored as it is. */
str share_view(const tape *t, const tape_item *load, str name);
/* Appends the kernels that sum up the parts. */
void share_write(const tape *t, const tape_item *load, text_buffer *out);
/* Appends those that sum up what the ways give in which an Input is read. */
void share_write_readings(const tape *t, text_buffer *out);

/* The sketch, with Outputs for what the kernels that were written read of it. */
tl_program *forward_kernel(tape *t, const bool *reads_sum);
/* Appends kernels of their own for what several tiles of the sketch would have to leave. */
void forward_apart(tape *t, const bool *reads_sum, text_buffer *out);

/* May each Input that was asked for have a gradient, and some Input at all? False: reported. */
bool wanted_can_be(tape *t);
/* Was a gradient made of each that was asked for? False: reported. */
bool wanted_are(tape *t);
/* What is left out, as comments. */
void wanted_notes(const tape *t, text_buffer *out);

#endif
