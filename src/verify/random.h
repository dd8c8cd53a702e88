/* Random numbers by counter: element 'index' of stream 'stream' under a seed is a pure function,
 * the same on every machine and in any order. Only integer operations and +, -, *, /, sqrt of IEEE
 * 754 are used; the functions of libm differ between systems in the last place.
 */
#ifndef FLASHTL_VERIFY_RANDOM_H
#define FLASHTL_VERIFY_RANDOM_H

#include <stddef.h>
#include <stdint.h>

uint64_t random_bits(uint64_t seed, uint64_t stream, uint64_t index);
/* Uniform in [0, count); count > 0. */
uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t index, uint64_t count);
/* N(0,1), of elements first ... first + count - 1. No value is larger than 6.8. */
void random_normal(uint64_t seed, uint64_t stream, uint64_t first, size_t count, double *out);

#endif
