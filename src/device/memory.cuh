// Global and shared memory. Shared addresses are byte offsets in the shared window.

__device__ __forceinline__ void ftl_load_global_16(unsigned (&unit)[4], const void *source) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(unit[0]), "=r"(unit[1]), "=r"(unit[2]), "=r"(unit[3])
                 : "l"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_global_16(void *target, const unsigned (&unit)[4]) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(unit[0]), "r"(unit[1]),
                 "r"(unit[2]), "r"(unit[3])
                 : "memory");
}

// 16 elements of 8 bits in the order in which accumulators hold a row: places 4t ... 4t + 3 have 2t, 2t + 1, 8 + 2t
// and 8 + 2t + 1.
__device__ __forceinline__ void ftl_permute(unsigned (&permuted)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 2; i++) {
        permuted[2 * i] = __byte_perm(unit[i], unit[i + 2], 0x5410);
        permuted[2 * i + 1] = __byte_perm(unit[i], unit[i + 2], 0x7632);
    }
}

__device__ __forceinline__ void ftl_store_global_16_permuted(void *target, const unsigned (&unit)[4]) {
    unsigned permuted[4];
    ftl_permute(permuted, unit);
    ftl_store_global_16(target, permuted);
}

__device__ __forceinline__ unsigned ftl_load_global_4(const void *source) {
    unsigned word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(source) : "memory");
    return word;
}

__device__ __forceinline__ void ftl_store_global_4(void *target, unsigned word) {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(target), "r"(word) : "memory");
}

__device__ __forceinline__ unsigned ftl_load_global_2(const void *source) {
    unsigned short half;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(source) : "memory");
    return half;
}

// The lower half of a word.
__device__ __forceinline__ void ftl_store_global_2(void *target, unsigned word) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(target), "h"((unsigned short)word) : "memory");
}

__device__ __forceinline__ void ftl_load_global_f32x2(float &low, float &high, const float *source) {
    asm volatile("ld.global.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "l"(source) : "memory");
}

__device__ __forceinline__ void ftl_store_global_f32x2(float *target, float low, float high) {
    asm volatile("st.global.v2.f32 [%0], {%1, %2};" ::"l"(target), "f"(low), "f"(high) : "memory");
}

__device__ __forceinline__ void ftl_load_global_i32x2(int &low, int &high, const int *source) {
    asm volatile("ld.global.v2.s32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "l"(source) : "memory");
}

__device__ __forceinline__ void ftl_store_global_i32x2(int *target, int low, int high) {
    asm volatile("st.global.v2.s32 [%0], {%1, %2};" ::"l"(target), "r"(low), "r"(high) : "memory");
}

__device__ __forceinline__ float ftl_load_global_f32(const float *source) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(source) : "memory");
    return value;
}

__device__ __forceinline__ int ftl_load_global_i32(const int *source) {
    int value;
    asm volatile("ld.global.s32 %0, [%1];" : "=r"(value) : "l"(source) : "memory");
    return value;
}

__device__ __forceinline__ float ftl_load_global_f16(const unsigned short *source) {
    float value;
    asm volatile("{\n\t.reg .b16 h;\n\tld.global.b16 h, [%1];\n\tcvt.f32.f16 %0, h;\n\t}"
                 : "=f"(value)
                 : "l"(source)
                 : "memory");
    return value;
}

__device__ __forceinline__ float ftl_load_global_bf16(const unsigned short *source) {
    unsigned short half;
    asm volatile("ld.global.u16 %0, [%1];" : "=h"(half) : "l"(source) : "memory");
    return __int_as_float((int)half << 16);
}

__device__ __forceinline__ void ftl_store_global_f32(float *target, float value) {
    asm volatile("st.global.f32 [%0], %1;" ::"l"(target), "f"(value) : "memory");
}

__device__ __forceinline__ void ftl_store_global_i32(int *target, int value) {
    asm volatile("st.global.s32 [%0], %1;" ::"l"(target), "r"(value) : "memory");
}

__device__ __forceinline__ void ftl_store_global_f16(unsigned short *target, float value) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(target), "h"((unsigned short)ftl_pack_f16(value, 0.0f))
                 : "memory");
}

__device__ __forceinline__ void ftl_store_global_bf16(unsigned short *target, float value) {
    asm volatile("st.global.u16 [%0], %1;" ::"l"(target), "h"((unsigned short)ftl_pack_bf16(value, 0.0f))
                 : "memory");
}

__device__ __forceinline__ void ftl_add_global_f32(float *target, float value) {
    asm volatile("red.global.add.f32 [%0], %1;" ::"l"(target), "f"(value) : "memory");
}

__device__ __forceinline__ void ftl_load_shared_16(unsigned (&unit)[4], unsigned source) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(unit[0]), "=r"(unit[1]), "=r"(unit[2]), "=r"(unit[3])
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_shared_16(unsigned target, const unsigned (&unit)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(unit[0]), "r"(unit[1]),
                 "r"(unit[2]), "r"(unit[3])
                 : "memory");
}

__device__ __forceinline__ unsigned ftl_load_shared_4(unsigned source) {
    unsigned word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(source) : "memory");
    return word;
}

__device__ __forceinline__ void ftl_store_shared_4(unsigned target, unsigned word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(target), "r"(word) : "memory");
}

__device__ __forceinline__ void ftl_load_shared_f32x2(float &low, float &high, unsigned source) {
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "r"(source) : "memory");
}

__device__ __forceinline__ void ftl_store_shared_f32x2(unsigned target, float low, float high) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(target), "f"(low), "f"(high) : "memory");
}

__device__ __forceinline__ void ftl_load_shared_i32x2(int &low, int &high, unsigned source) {
    asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(low), "=r"(high) : "r"(source) : "memory");
}

__device__ __forceinline__ void ftl_store_shared_i32x2(unsigned target, int low, int high) {
    asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(target), "r"(low), "r"(high) : "memory");
}

__device__ __forceinline__ void ftl_store_shared_8(unsigned target, unsigned first, unsigned second) {
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(target), "r"(first), "r"(second) : "memory");
}

__device__ __forceinline__ void ftl_store_shared_f32x4(unsigned target, float a, float b, float c, float d) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(target), "f"(a), "f"(b), "f"(c), "f"(d) : "memory");
}

__device__ __forceinline__ float ftl_load_shared_f32(unsigned source) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(source) : "memory");
    return value;
}

__device__ __forceinline__ void ftl_store_shared_f32(unsigned target, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(target), "f"(value) : "memory");
}

__device__ __forceinline__ int ftl_load_shared_i32(unsigned source) {
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(source) : "memory");
    return value;
}

__device__ __forceinline__ void ftl_store_shared_i32(unsigned target, int value) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(target), "r"(value) : "memory");
}

__device__ __forceinline__ void ftl_load_global_16_f32(float (&unit)[4], const void *source) {
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(unit[0]), "=f"(unit[1]), "=f"(unit[2]), "=f"(unit[3])
                 : "l"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_global_16_f32(void *target, const float (&unit)[4]) {
    asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(target), "f"(unit[0]), "f"(unit[1]),
                 "f"(unit[2]), "f"(unit[3])
                 : "memory");
}

__device__ __forceinline__ void ftl_load_global_16_i32(int (&unit)[4], const void *source) {
    asm volatile("ld.global.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(unit[0]), "=r"(unit[1]), "=r"(unit[2]), "=r"(unit[3])
                 : "l"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_load_shared_16_i32(int (&unit)[4], unsigned source) {
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(unit[0]), "=r"(unit[1]), "=r"(unit[2]), "=r"(unit[3])
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_load_shared_16_f32(float (&unit)[4], unsigned source) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(unit[0]), "=f"(unit[1]), "=f"(unit[2]), "=f"(unit[3])
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_shared_16_permuted(unsigned target, const unsigned (&unit)[4]) {
    unsigned permuted[4];
    ftl_permute(permuted, unit);
    ftl_store_shared_16(target, permuted);
}

__device__ __forceinline__ void ftl_store_shared_16_f32(unsigned target, const float (&unit)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(target), "f"(unit[0]), "f"(unit[1]),
                 "f"(unit[2]), "f"(unit[3])
                 : "memory");
}

__device__ __forceinline__ void ftl_store_global_16_i32(void *target, const int (&unit)[4]) {
    asm volatile("st.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(unit[0]), "r"(unit[1]),
                 "r"(unit[2]), "r"(unit[3])
                 : "memory");
}

__device__ __forceinline__ void ftl_load_shared_16_i32(int (&unit)[4], unsigned source) {
    asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(unit[0]), "=r"(unit[1]), "=r"(unit[2]), "=r"(unit[3])
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_shared_16_i32(unsigned target, const int (&unit)[4]) {
    asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(unit[0]), "r"(unit[1]),
                 "r"(unit[2]), "r"(unit[3])
                 : "memory");
}

// Each of the four elements atomically.
__device__ __forceinline__ void ftl_add_global_16_f32(float *target, const float (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) ftl_add_global_f32(target + i, unit[i]);
}

__device__ __forceinline__ unsigned ftl_load_global_1(const void *source) {
    unsigned byte;
    asm volatile("ld.global.u8 %0, [%1];" : "=r"(byte) : "l"(source) : "memory");
    return byte;
}

__device__ __forceinline__ float ftl_load_global_e4m3(const unsigned char *source) {
    unsigned first, second;
    ftl_four_e4m3(first, second, ftl_load_global_1(source));
    return ftl_low_f16(first);
}

__device__ __forceinline__ float ftl_load_global_e5m2(const unsigned char *source) {
    unsigned first, second;
    ftl_four_e5m2(first, second, ftl_load_global_1(source));
    return ftl_low_f16(first);
}

__device__ __forceinline__ float ftl_load_global_i8(const unsigned char *source) {
    return (float)(signed char)ftl_load_global_1(source);
}

// An element of 4 bits, of which two share a byte; counted from the tensor's first one.
__device__ __forceinline__ unsigned ftl_load_global_code(const unsigned char *tensor, long long element) {
    return ftl_load_global_1(tensor + (element >> 1)) >> (element & 1) * 4 & 15;
}

__device__ __forceinline__ float ftl_load_global_u4(const unsigned char *tensor, long long element) {
    return (float)ftl_load_global_code(tensor, element);
}

__device__ __forceinline__ float ftl_load_global_i4(const unsigned char *tensor, long long element) {
    return (float)((int)(ftl_load_global_code(tensor, element) ^ 8) - 8);
}

// The lowest byte of a word.
__device__ __forceinline__ void ftl_store_global_1(void *target, unsigned word) {
    asm volatile("st.global.u8 [%0], %1;" ::"l"(target), "r"(word) : "memory");
}

__device__ __forceinline__ void ftl_store_global_e4m3(unsigned char *target, float value) {
    ftl_store_global_1(target, ftl_pack_e4m3(value, 0.0f));
}

__device__ __forceinline__ void ftl_store_global_e5m2(unsigned char *target, float value) {
    ftl_store_global_1(target, ftl_pack_e5m2(value, 0.0f));
}

__device__ __forceinline__ void ftl_store_global_i8(unsigned char *target, float value) {
    ftl_store_global_1(target, ftl_byte_i8(value));
}

// 0 where it is not inside, and nothing is read.
__device__ __forceinline__ int ftl_load_global_i32_if(bool inside, const int *source) {
    int value = 0;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.global.s32 %0, [%1];\n\t}"
                 : "+r"(value)
                 : "l"(source), "r"((unsigned)inside)
                 : "memory");
    return value;
}

// 0 where it is not inside, and nothing is read.
__device__ __forceinline__ float ftl_load_global_f32_if(bool inside, const float *source) {
    float value = 0;
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.u32 p, %2, 0;\n\t@p ld.global.f32 %0, [%1];\n\t}"
                 : "+f"(value)
                 : "l"(source), "r"((unsigned)inside)
                 : "memory");
    return value;
}
