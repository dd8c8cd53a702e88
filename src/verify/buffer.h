/* A tensor of a case in memory: somewhere between guard bands, in any order of its axes, with gaps.
 *
 * Everything that is no element holds a pattern that reads as NaN in every floating type, so a read
 * beside the elements spoils results and a write beside them shows. Outputs hold it, too, until
 * they are written.
 */
#ifndef FLASHTL_VERIFY_BUFFER_H
#define FLASHTL_VERIFY_BUFFER_H

#include "base/convert.h"
#include "base/hash.h"
#include "flashtl/plan.h"
#include "verify/verify.h"

/* As 16-bit words: NaN in f16, bf16 and, doubled, in f32; none that arithmetic produces. */
enum { BUFFER_POISON = 0x7fda, BUFFER_POISON_AGAIN = 0x7fd5 };

typedef struct buffer {
    const ftl_plan_tensor *of;
    ftl_tensor argument; /* host address, extents, strides */
    convert_format format;
    int64_t rows, columns; /* columns: along the last axis; rows: all other axes, outermost first */
    unsigned char *memory, *elements; /* all of it, with the bands; the first element */
    size_t bytes;
} buffer;

/* Lays a tensor out; all of it is poisoned, but for elements that are only added to, which are 0.
 */
void buffer_new(arena *memory, const ftl_plan_tensor *of, const int64_t *extents,
                verify_layout layout, buffer *out);
void buffer_poison(buffer *b, int poison);

/* The index along each axis but the last of a row. */
void buffer_row_index(const buffer *b, int64_t row, int64_t index[FTL_AXES_MAX]);
void buffer_load_row(const buffer *b, int64_t row, double *values);
void buffer_store_row(buffer *b, int64_t row, const double *values);
/* All elements, dense, as doubles. */
double *buffer_load(const buffer *b, arena *memory);
/* All elements' bits, dense; marks those that still are poison. */
unsigned char *buffer_copy(const buffer *b, int poison, arena *memory, uint8_t *unwritten);

/* A sentence when a byte that is no element is not 'poison' any more. Destroys the elements. */
bool buffer_is_intact(buffer *b, int poison, char why[FTL_WHY_BYTES]);
hash128 buffer_hash(const buffer *b);

convert_format buffer_format(ftl_type type);
/* What N(0,1) is multiplied by, so that a type of whole numbers alone has values of every size. */
double buffer_spread(ftl_type type);

#endif
