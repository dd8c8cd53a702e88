/* Element formats in portable C: values to bits and back, rounded to nearest even.
 *
 * Values are doubles, so that every format's values are exact and a conversion rounds once. Formats
 * with infinities overflow to them; the 8-bit ones saturate at their largest value, as the
 * hardware's conversions do. NaN stays NaN.
 */
#ifndef FLASHTL_BASE_CONVERT_H
#define FLASHTL_BASE_CONVERT_H

#include <stddef.h>
#include <stdint.h>

typedef enum convert_format {
    CONVERT_F16,
    CONVERT_BF16,
    CONVERT_F32,
    CONVERT_E4M3, /* largest 448, no infinities */
    CONVERT_E5M2, /* largest 57344 */
    CONVERT_I8,   /* -128 to 127; saturates; NaN becomes 0 */
    CONVERT_I32,  /* saturates; NaN becomes 0 */
    CONVERT_F64
} convert_format;

size_t convert_bytes(convert_format format); /* of an element */

double convert_round(convert_format format, double value); /* to the nearest value of the format */
void convert_round_all(convert_format format, double *values, size_t count);

/* How far apart the format's values are at 'value': rounding errs by half of that at most. */
double convert_step(convert_format format, double value);
/* Of many; not of whole numbers, nor of F64. 'steps' may be 'values'. */
void convert_steps(convert_format format, const double *values, size_t count, double *steps);

uint32_t convert_to_bits(convert_format format, double value); /* not of F64 */
double convert_from_bits(convert_format format, uint32_t bits);

/* Elements in memory; 'stride' in elements. Memory need not be aligned. */
void convert_load(convert_format format, const void *from, ptrdiff_t stride, size_t count,
                  double *to);
void convert_store(convert_format format, const double *from, size_t count, void *to,
                   ptrdiff_t stride);

#endif
