/* NumPy's .npy files: versions 1 to 3, C and Fortran order, little-endian.
 *
 * Element types: f2, f4, f8, i1, i4, i8, u1, b1, and u2 (the bits of a bf16, which NumPy has no
 * type for).
 */
#ifndef FLASHTL_CLI_NPY_H
#define FLASHTL_CLI_NPY_H

#include "base/os.h"
#include "flashtl/plan.h"

typedef enum npy_type {
    NPY_F2,
    NPY_F4,
    NPY_F8,
    NPY_I1,
    NPY_I4,
    NPY_I8,
    NPY_U1,
    NPY_U2,
    NPY_B1
} npy_type;

typedef struct npy_array {
    npy_type type;
    int32_t axis_count;
    int64_t extents[FTL_AXES_MAX];
    int64_t strides[FTL_AXES_MAX]; /* elements */
    int64_t count;                 /* elements in all */
    const unsigned char *data;     /* in 'file' */
    text_buffer file;
} npy_array;

/* Reads a file; free it with npy_done. False with one sentence; *is_there tells a file that is no
 * such array from one that cannot be read.
 */
bool npy_read(const char *path, npy_array *out, bool *is_there, os_error *why);
void npy_done(npy_array *array);

/* The element at an offset counted in elements. Of a u2 its bits as bf16. */
double npy_element(const npy_array *array, int64_t offset);

/* Writes a C-ordered array; 'data' holds its elements of 'type' one after the other. */
bool npy_write(const char *path, npy_type type, int32_t axis_count, const int64_t *extents,
               const void *data, os_error *why);

size_t npy_type_bytes(npy_type type);

#endif
