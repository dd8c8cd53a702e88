// Units of 16 bytes that the end of a tensor cuts: only the first `left` of their elements exist, none
// where left <= 0. Loads give zeros for the others, stores leave them out.

// COUNT elements, 8 of 16 bits or 4 of 32; zeros from `left` on.
template <int COUNT>
__device__ __forceinline__ void ftl_load_global_16_part(unsigned (&unit)[4], const void *source, int left) {
    FTL_UNROLL for (int word = 0; word < 4; word++) {
        const int last = (word + 1) * (COUNT / 4) - 1;
        const char *place = (const char *)source + 4 * word;
        unit[word] = 0;
        if (last < left) unit[word] = ftl_load_global_4(place);
        else if (COUNT == 8 && last == left) unit[word] = ftl_load_global_2(place);
    }
}

// 16 elements of 8 bits; zeros from `left` on.
__device__ __forceinline__ void ftl_load_global_16_part_bytes(unsigned (&unit)[4], const unsigned char *source,
                                                              int left) {
    FTL_UNROLL for (int i = 0; i < 16; i++) {
        const unsigned byte = i < left ? ftl_load_global_1(source + i) : 0;
        unit[i / 4] = i % 4 ? unit[i / 4] | byte << 8 * (i % 4) : byte;
    }
}

// 16 elements of 8 bits that lie `stride` apart; zeros from `left` on. All loads are under way before the first
// one is used.
__device__ __forceinline__ void ftl_gather_global_16_bytes(unsigned (&unit)[4], const unsigned char *source,
                                                           long long stride, int left) {
    unsigned bytes[16];
    FTL_UNROLL for (int i = 0; i < 16; i++) bytes[i] = i < left ? ftl_load_global_1(source + i * stride) : 0;
    FTL_UNROLL for (int i = 0; i < 4; i++)
        unit[i] = bytes[4 * i] | bytes[4 * i + 1] << 8 | bytes[4 * i + 2] << 16 | bytes[4 * i + 3] << 24;
}

// 8 elements of 16 bits that lie `stride` apart; zeros from `left` on.
__device__ __forceinline__ void ftl_gather_global_16_halves(unsigned (&unit)[4], const unsigned short *source,
                                                            long long stride, int left) {
    unsigned halves[8];
    FTL_UNROLL for (int i = 0; i < 8; i++) halves[i] = i < left ? ftl_load_global_2(source + i * stride) : 0;
    FTL_UNROLL for (int i = 0; i < 4; i++) unit[i] = halves[2 * i] | halves[2 * i + 1] << 16;
}

// Four elements that lie `stride` apart; zeros from `left` on.
__device__ __forceinline__ void ftl_gather_global_16_f32(float (&unit)[4], const float *source, long long stride,
                                                         int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) unit[i] = i < left ? ftl_load_global_f32(source + i * stride) : 0;
}

// Four elements that lie `stride` apart; zeros from `left` on.
__device__ __forceinline__ void ftl_gather_global_16_i32(int (&unit)[4], const int *source, long long stride,
                                                         int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) unit[i] = i < left ? ftl_load_global_i32(source + i * stride) : 0;
}

// The first `left` of COUNT elements: 8 of 16 bits, or 4 of 32.
template <int COUNT>
__device__ __forceinline__ void ftl_store_global_16_part(void *target, const unsigned (&unit)[4], int left) {
    FTL_UNROLL for (int word = 0; word < 4; word++) {
        const int last = (word + 1) * (COUNT / 4) - 1;
        char *place = (char *)target + 4 * word;
        if (last < left) ftl_store_global_4(place, unit[word]);
        else if (COUNT == 8 && last == left) ftl_store_global_2(place, unit[word]);
    }
}

// The first `left` of 16 elements of 8 bits.
__device__ __forceinline__ void ftl_store_global_16_part_bytes(unsigned char *target, const unsigned (&unit)[4],
                                                               int left) {
    FTL_UNROLL for (int i = 0; i < 16; i++) {
        if (i < left) ftl_store_global_1(target + i, unit[i / 4] >> 8 * (i % 4));
    }
}

// The first `left` of 16 elements of 8 bits, and zeros for the others: their places are all over the unit.
__device__ __forceinline__ void ftl_store_global_16_permuted_part_bytes(void *target, const unsigned (&unit)[4],
                                                                        int left) {
    unsigned whole[4];
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        const int bits = 8 * (left - 4 * i);
        whole[i] = bits >= 32 ? unit[i] : bits > 0 ? unit[i] & (1u << bits) - 1 : 0;
    }
    ftl_store_global_16_permuted(target, whole);
}

// Four elements; zeros from `left` on.
__device__ __forceinline__ void ftl_load_global_16_f32_part(float (&unit)[4], const float *source, int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) unit[i] = i < left ? ftl_load_global_f32(source + i) : 0;
}

// The first `left` of four elements.
__device__ __forceinline__ void ftl_store_global_16_f32_part(float *target, const float (&unit)[4], int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_f32(target + i, unit[i]);
    }
}

// Four elements; zeros from `left` on.
__device__ __forceinline__ void ftl_load_global_16_i32_part(int (&unit)[4], const int *source, int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) unit[i] = i < left ? ftl_load_global_i32(source + i) : 0;
}

// The first `left` of four elements.
__device__ __forceinline__ void ftl_store_global_16_i32_part(int *target, const int (&unit)[4], int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_i32(target + i, unit[i]);
    }
}

// The first `left` of four elements, f32 in registers and f16 in memory.
__device__ __forceinline__ void ftl_store_global_8_f16_part(unsigned short *target, const float (&unit)[4],
                                                            int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_f16(target + i, unit[i]);
    }
}

// The first `left` of four elements, f32 in registers and bf16 in memory.
__device__ __forceinline__ void ftl_store_global_8_bf16_part(unsigned short *target, const float (&unit)[4],
                                                             int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_bf16(target + i, unit[i]);
    }
}

// The first `left` of four elements, each atomically.
__device__ __forceinline__ void ftl_add_global_16_f32_part(float *target, const float (&unit)[4], int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_add_global_f32(target + i, unit[i]);
    }
}

// The first `left` of four elements, f32 in registers and e4m3 in memory.
__device__ __forceinline__ void ftl_store_global_4_e4m3_part(unsigned char *target, const float (&unit)[4],
                                                             int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_e4m3(target + i, unit[i]);
    }
}

// The first `left` of four elements, f32 in registers and e5m2 in memory.
__device__ __forceinline__ void ftl_store_global_4_e5m2_part(unsigned char *target, const float (&unit)[4],
                                                             int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_e5m2(target + i, unit[i]);
    }
}

// The first `left` of four elements, f32 in registers and i8 in memory.
__device__ __forceinline__ void ftl_store_global_4_i8_part(unsigned char *target, const float (&unit)[4], int left) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        if (i < left) ftl_store_global_i8(target + i, unit[i]);
    }
}
