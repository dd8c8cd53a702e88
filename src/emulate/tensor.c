#include "emulate/tensor.h"

#include "emulate/ptx.h"

#include <string.h>

/* As it is in the 128 bytes; opaque to kernels. */
typedef struct encoding {
    uint64_t magic;
    uint64_t base;
    uint64_t extents[EMULATE_RANK_MAX];
    uint64_t stride_bytes[EMULATE_RANK_MAX - 1];
    uint16_t box[EMULATE_RANK_MAX];
    uint8_t steps[EMULATE_RANK_MAX];
    uint8_t rank, element_bytes, swizzle_bytes, is_f32;
    uint8_t unused[13];
    uint64_t check;
} encoding;

_Static_assert(sizeof(encoding) == EMULATE_TENSOR_MAP_BYTES, "the size of a tensor map");

static const uint64_t magic = 0x70616d726f736e65;

static uint64_t checksum(const encoding *e) {
    uint64_t words[EMULATE_TENSOR_MAP_BYTES / 8], sum = 0;
    memcpy(words, e, sizeof words);
    for (size_t i = 0; i + 1 < sizeof words / sizeof *words; i++)
        sum = (sum ^ words[i]) * 0x9e3779b97f4a7c15u + 1u;
    return sum;
}

/* The limits of cuTensorMapEncodeTiled (CUDA driver API, "Tensor Map Object Management"). */
static const char *broken_limit(const emulate_tensor_map *map) {
    uint32_t bytes = map->element_bytes;
    if (map->rank < 1 || map->rank > EMULATE_RANK_MAX)
        return "a tensor map has one to five dimensions";
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)
        return "an element of a tensor map has 1, 2, 4 or 8 bytes";
    if (map->buffer < 0 || map->buffer >= EMULATE_BUFFERS_MAX)
        return "a tensor map names a buffer that is not there";
    if (map->byte_offset % 16) return "the address of a tensor map is no multiple of 16";
    if (map->byte_offset >= 1ll << 34 || map->byte_offset <= -(1ll << 34))
        return "the address of a tensor map lies far outside of its buffer";
    for (uint32_t d = 0; d < map->rank; d++) {
        if (map->extents[d] < 1 || map->extents[d] > 1ull << 32)
            return "an extent of a tensor map is not in 1 to 2^32";
        if (map->box[d] < 1 || map->box[d] > 256)
            return "an extent of a tensor map's box is not in 1 to 256";
        if (map->element_strides[d] < 1 || map->element_strides[d] > 8)
            return "an element stride of a tensor map is not in 1 to 8";
        if (d && (map->stride_bytes[d - 1] % 16 || map->stride_bytes[d - 1] >= 1ull << 40))
            return "a stride of a tensor map is no multiple of 16 bytes, or not below 2^40";
    }
    uint32_t swizzle = map->swizzle_bytes;
    if (swizzle && swizzle != 32 && swizzle != 64 && swizzle != 128)
        return "the swizzle of a tensor map has 32, 64 or 128 bytes, or none";
    uint32_t inner = map->box[0] * bytes;
    if (inner % 16) return "a row of a tensor map's box is no multiple of 16 bytes";
    if (swizzle && inner > swizzle) return "a row of a tensor map's box is larger than its swizzle";
    return NULL;
}

const char *emulate_tensor_map_encode(const emulate_tensor_map *map,
                                      uint8_t out[EMULATE_TENSOR_MAP_BYTES]) {
    const char *broken = broken_limit(map);
    if (broken) return broken;
    encoding e = {.magic = magic,
                  .base = PTX_BUFFER(map->buffer) + (uint64_t)map->byte_offset,
                  .rank = (uint8_t)map->rank,
                  .element_bytes = (uint8_t)map->element_bytes,
                  .swizzle_bytes = (uint8_t)map->swizzle_bytes,
                  .is_f32 = map->is_f32};
    for (uint32_t d = 0; d < map->rank; d++) {
        e.extents[d] = map->extents[d];
        e.box[d] = (uint16_t)map->box[d];
        e.steps[d] = (uint8_t)(d ? map->element_strides[d] : 1); /* the hardware has none there */
        if (d) e.stride_bytes[d - 1] = map->stride_bytes[d - 1];
    }
    e.check = checksum(&e);
    memcpy(out, &e, sizeof e);
    return NULL;
}

bool tensor_decode(const uint8_t from[EMULATE_TENSOR_MAP_BYTES], tensor_copy *copy) {
    encoding e;
    memcpy(&e, from, sizeof e);
    if (e.magic != magic || e.check != checksum(&e)) return false;
    *copy = (tensor_copy){.rank = e.rank,
                          .element_bytes = e.element_bytes,
                          .swizzle_bytes = e.swizzle_bytes,
                          .is_f32 = e.is_f32 != 0,
                          .base = e.base};
    copy->bytes = e.element_bytes;
    for (uint32_t d = 0; d < e.rank; d++) {
        copy->extents[d] = e.extents[d];
        copy->stride_bytes[d] = d ? e.stride_bytes[d - 1] : e.element_bytes;
        copy->steps[d] = e.steps[d];
        copy->box[d] = (e.box[d] + e.steps[d] - 1u) / e.steps[d];
        copy->bytes *= copy->box[d];
    }
    copy->row_bytes = copy->box[0] * e.element_bytes;
    copy->pitch_bytes = e.swizzle_bytes ? e.swizzle_bytes : copy->row_bytes;
    return true;
}

/* A GPU takes no others: its instructions end with an error. */
const char *tensor_wrong_place(const tensor_copy *copy, bool loads) {
    if (!copy->rank) return NULL;
    if ((int64_t)copy->coordinates[0] * copy->element_bytes % 16)
        return "the box begins at no multiple of 16 bytes along dimension 0";
    for (uint32_t d = 0; !loads && d < copy->rank; d++)
        if (copy->coordinates[d] < 0) return "a box that is stored begins before the tensor";
    return NULL;
}

tensor_row tensor_inside(const tensor_copy *copy) {
    tensor_row result = {.past = copy->row_bytes};
    if (!copy->rank) return result;
    int64_t begin = copy->coordinates[0], extent = (int64_t)copy->extents[0];
    int64_t first = begin < 0 ? -begin : 0, past = extent - begin;
    if (past > copy->box[0]) past = copy->box[0];
    if (first >= past) return (tensor_row){0};
    result.first = (uint32_t)first * copy->element_bytes;
    result.past = (uint32_t)past * copy->element_bytes;
    result.address = (uint64_t)(begin + first) * copy->element_bytes;
    return result;
}

tensor_row tensor_row_at(const tensor_copy *copy, uint32_t row) {
    tensor_row result = {.address = copy->base};
    if (!copy->rank) {
        result.address += (uint64_t)row * copy->row_bytes;
        result.past = copy->row_bytes;
        return result;
    }
    for (uint32_t d = 1; d < copy->rank; d++) {
        int64_t at = copy->coordinates[d] + (int64_t)(row % copy->box[d] * copy->steps[d]);
        row /= copy->box[d];
        if (at < 0 || (uint64_t)at >= copy->extents[d]) return result; /* all of it outside */
        result.address += (uint64_t)at * copy->stride_bytes[d];
    }
    tensor_row inside = tensor_inside(copy);
    inside.address += result.address;
    return inside;
}
