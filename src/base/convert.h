/* Element formats in portable C: values to bits and back, rounded to nearest even.
 *
 * Values are doubles, so that every format's values are exact and a conversion rounds once. Formats
 * with infinities overflow to them; the 8-bit ones saturate at their largest value, as the
 * hardware's conversions do, and so do whole numbers. NaN stays NaN, but is 0 as a whole number.
 */
#ifndef FLASHTL_BASE_CONVERT_H
#define FLASHTL_BASE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum convert_format {
#define TYPE(id, spelling, number, bits, kind, doc) CONVERT_##id,
#include "base/types.def"
#undef TYPE
    CONVERT_F64
} convert_format;

size_t convert_bits(convert_format format);               /* of an element */
size_t convert_size(convert_format format, size_t count); /* bytes of so many side by side */
bool convert_is_whole(convert_format format);             /* of whole numbers */
double convert_most(convert_format format);               /* the largest finite value */

double convert_round(convert_format format, double value); /* to the nearest value of the format */
void convert_round_all(convert_format format, double *values, size_t count);

/* How far apart the format's values are at 'value': rounding errs by half of that at most. */
double convert_step(convert_format format, double value);
/* Of many; not of whole numbers, nor of F64. 'steps' may be 'values'. */
void convert_steps(convert_format format, const double *values, size_t count, double *steps);

uint32_t convert_to_bits(convert_format format, double value); /* not of F64 */
double convert_from_bits(convert_format format, uint32_t bits);

/* Elements in memory, from number 'first' of those at 'memory' on; 'stride' in elements. Memory
 * need not be aligned. Of 4 bits an even element is in the lower half of its byte.
 */
void convert_load(convert_format format, const void *memory, int64_t first, ptrdiff_t stride,
                  size_t count, double *to);
void convert_store(convert_format format, const double *from, size_t count, void *memory,
                   int64_t first, ptrdiff_t stride);

#endif
