/* Tensor maps, and boxes of tensors row by row.
 *
 * A box lies densely in shared memory, dimension 0 fastest; with a swizzle, the 16-byte pieces of
 * each 128 bytes change places by the address (PTX ISA, "Tensors", "Swizzling modes").
 */
#ifndef FLASHTL_EMULATE_TENSOR_H
#define FLASHTL_EMULATE_TENSOR_H

#include "emulate/emulate.h"

enum { TENSOR_ROW_MAX = 256 * 8 }; /* bytes of a box along dimension 0 */

/* What a bulk copy copies: a box at its coordinates, or bytes in a row (rank 0). */
typedef struct tensor_copy {
    uint32_t rank, element_bytes, swizzle_bytes;
    uint64_t base; /* address */
    uint64_t extents[EMULATE_RANK_MAX], stride_bytes[EMULATE_RANK_MAX];
    uint32_t box[EMULATE_RANK_MAX]; /* elements that are copied */
    uint32_t steps[EMULATE_RANK_MAX];
    int32_t coordinates[EMULATE_RANK_MAX];
    uint32_t row_bytes, bytes;
} tensor_copy;

/* A row of the box along dimension 0: bytes [first, past) of it are in the tensor, the first of
 * them at 'address'. With steps of dimension 0 above 1, elements are 'step_bytes' apart.
 */
typedef struct tensor_row {
    uint64_t address;
    uint32_t first, past, step_bytes;
} tensor_row;

/* False when these are not the bytes of a tensor map. */
bool tensor_decode(const uint8_t from[EMULATE_TENSOR_MAP_BYTES], tensor_copy *copy);
tensor_row tensor_row_at(const tensor_copy *copy, uint32_t row);

/* Where the piece at this address lies. */
static inline uint32_t tensor_swizzle(uint32_t address, uint32_t swizzle_bytes) {
    uint32_t mask = swizzle_bytes ? swizzle_bytes - 16u : 0u;
    return address ^ (address >> 3 & mask);
}

#endif
