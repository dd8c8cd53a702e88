/* Instructions that treat every lane alike: one function runs all 32 lanes of a warp.
 *
 * A register is a row of 32 words (4 bytes a lane) or of 32 doublewords (8 bytes a lane); 16-bit
 * and 8-bit values live zero-extended in words. Such a function reads up to four rows and writes
 * one; the result may be one of the inputs. Comparisons write words of 0 or -1. lanes.def is the
 * list; it is compiled for plain processors and for AVX2 (lanes.inc).
 */
#ifndef FLASHTL_EMULATE_LANES_H
#define FLASHTL_EMULATE_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 32, LANES_INPUTS = 4 };

typedef void lanes_function(void *result, const void *const inputs[LANES_INPUTS]);

typedef struct lanes_entry {
    const char *spelling; /* as canonical in ptx_decode_lanes.c: default roundings left out */
    uint8_t result_bytes; /* 4 or 8 a lane */
    uint8_t input_count;
    uint8_t input_bytes[LANES_INPUTS]; /* 4 or 8 */
    uint8_t is_test;                   /* writes 0 or -1, to become a predicate */
    uint8_t input_float;               /* an immediate is a float of the input's width */
} lanes_entry;

extern const lanes_entry lanes_entries[];
extern const int lanes_count;

typedef struct lanes_set {
    lanes_function *const *functions; /* by index into lanes_entries */
    /* 32 words, 8 rows of 4, of two f16 or bf16 each: to rows of 8 floats, 'stride' apart. */
    void (*rows_f16)(float *to, int stride, const uint32_t *from);
    void (*rows_bf16)(float *to, int stride, const uint32_t *from);
    /* 8 by 8; strides in floats */
    void (*transpose)(float *to, int to_stride, const float *from, int from_stride);
    uint32_t (*mask_of)(const int32_t test[LANES]); /* bit l = (test[l] != 0) */
    void (*select)(void *to, const void *a, const void *b, uint32_t mask, int bytes);
} lanes_set;

/* The best set for this processor. */
const lanes_set *lanes_choose(bool plain_only);

#endif
