/* The arrays of `flashtl run`: NumPy files for inputs, memory for all tensors of a program, files
 * for outputs. Tensors are laid out row by row, each row on a multiple of 16 bytes.
 */
#ifndef FLASHTL_CLI_ARRAYS_H
#define FLASHTL_CLI_ARRAYS_H

#include "cli/npy.h"
#include "flashtl/runtime.h"

enum { ARRAYS_MAX = 64 };

typedef struct array {
    char name[64];
    npy_array file;        /* of an input; without data: none was given */
    const char *out_path;  /* of an output; NULL: not asked for */
    ftl_tensor tensor;     /* address: of 'memory' */
    unsigned char *memory; /* NULL until arrays_place */
    size_t bytes;
    uint64_t device; /* its copy on the GPU; 0: none */
} array;

typedef struct arrays {
    array items[ARRAYS_MAX];
    int count;
    ftl_scalar scalars[ARRAYS_MAX]; /* scalars and lengths given by --let */
    int scalar_count;
} arrays;

/* What follows returns EXIT_DONE, or the exit status that belongs to the sentence in 'why'. */

/* Reads the files of "NAME=FILE" words, and notes where outputs go. */
int arrays_read(arrays *all, const char *const *in, int in_count, const char *const *out,
                int out_count, os_error *why);
array *arrays_find(arrays *all, const char *name);

/* Makes room for every tensor of a plan that has none yet: inputs take their file's extents and
 * values, the others get extents from the sizes that are known by then, and poison. 'program' is
 * the plan of all kernels: an array of any of them tells a length by its name. Fails when extents
 * disagree or are not known, or an input is missing.
 */
int arrays_place(arrays *all, const ftl_plan *plan, const ftl_plan *program, os_error *why);

/* A scalar or length by its name; false: nobody gave it. */
bool arrays_has_scalar(const arrays *all, const char *name);
void arrays_give(arrays *all, const char *name, double value);
/* Lengths that nobody gave: 100 for rows of a matrix, else 2. Scalars: 1. */
void arrays_invent_sizes(arrays *all, const ftl_plan *plan);

/* As arrays_place, but inputs without a file are drawn from N(0,1), lengths for them from the
 * scalars. */
int arrays_invent(arrays *all, const ftl_plan *plan, os_error *why);

/* The arguments of a kernel; 'tensors' has room for ARRAYS_MAX. On the GPU with device addresses.
 */
ftl_arguments arrays_arguments(const arrays *all, const ftl_plan *plan, ftl_tensor *tensors,
                               ftl_scalar *scalars, bool on_device);

/* Writes the outputs that were asked for. */
int arrays_write(const arrays *all, os_error *why);
void arrays_done(arrays *all);

#endif
