/* Tensor maps, and boxes of tensors row by row.
 *
 * A box lies densely in shared memory, dimension 0 fastest; with a swizzle, rows are as far apart
 * as it is wide, and the 16-byte pieces of each 128 bytes change places by the address (PTX ISA,
 * "Tensors", "Swizzling modes"; what it leaves open is as recorded on a GPU).
 */
#ifndef FLASHTL_EMULATE_TENSOR_H
#define FLASHTL_EMULATE_TENSOR_H

#include "emulate/emulate.h"

enum { TENSOR_ROW_MAX = 256 * 8 }; /* bytes of a box along dimension 0 */

/* What a bulk copy copies: a box at its coordinates, or bytes in a row (rank 0). */
typedef struct tensor_copy {
    uint32_t rank, element_bytes, swizzle_bytes;
    bool is_f32;
    uint64_t base; /* address */
    uint64_t extents[EMULATE_RANK_MAX], stride_bytes[EMULATE_RANK_MAX];
    uint32_t box[EMULATE_RANK_MAX]; /* elements that are copied */
    uint32_t steps[EMULATE_RANK_MAX];
    int32_t coordinates[EMULATE_RANK_MAX];
    uint32_t row_bytes, pitch_bytes; /* of shared memory: a row, and from one to the next */
    uint32_t bytes;                  /* that are copied, and counted */
} tensor_copy;

/* A row of the box along dimension 0: bytes [first, past) of it are in the tensor, the first of
 * them at 'address'.
 */
typedef struct tensor_row {
    uint64_t address;
    uint32_t first, past;
} tensor_row;

/* False when these are not the bytes of a tensor map. */
bool tensor_decode(const uint8_t from[EMULATE_TENSOR_MAP_BYTES], tensor_copy *copy);
/* The same of all rows that are in the tensor: 'address' is relative to their beginning. */
tensor_row tensor_inside(const tensor_copy *copy);
tensor_row tensor_row_at(const tensor_copy *copy, uint32_t row);
/* What is wrong with the coordinates, or NULL. */
const char *tensor_wrong_place(const tensor_copy *copy, bool loads);

/* Where the piece at this address lies. */
static inline uint32_t tensor_swizzle(uint32_t address, uint32_t swizzle_bytes) {
    uint32_t mask = swizzle_bytes ? swizzle_bytes - 16u : 0u;
    return address ^ (address >> 3 & mask);
}

/* Where the piece at this byte of the copy is in shared memory. */
static inline uint32_t tensor_piece(const tensor_copy *copy, uint32_t shared, uint32_t byte) {
    uint32_t at = byte / copy->row_bytes * copy->pitch_bytes + byte % copy->row_bytes;
    return tensor_swizzle(shared + at, copy->swizzle_bytes);
}

/* Bytes of shared memory from the first to the last. */
static inline uint32_t tensor_shared_bytes(const tensor_copy *copy) {
    return copy->bytes / copy->row_bytes * copy->pitch_bytes;
}

#endif
