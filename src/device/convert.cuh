// Conversions between f32 and 16-bit types. Two elements share a register, the lower column in the low
// half; rounding is to nearest even.

__device__ __forceinline__ unsigned ftl_pack_f16(float low, float high) {
    unsigned result;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(result) : "f"(low), "f"(high));
#else
    asm("{\n\t.reg .b16 l, h;\n\tcvt.rn.f16.f32 l, %1;\n\tcvt.rn.f16.f32 h, %2;\n\t"
        "mov.b32 %0, {l, h};\n\t}" : "=r"(result) : "f"(low), "f"(high));
#endif
    return result;
}

__device__ __forceinline__ float ftl_low_f16(unsigned pair) {
    float result;
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %1;\n\tcvt.f32.f16 %0, l;\n\t}" : "=f"(result) : "r"(pair));
    return result;
}

__device__ __forceinline__ float ftl_high_f16(unsigned pair) {
    float result;
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %1;\n\tcvt.f32.f16 %0, h;\n\t}" : "=f"(result) : "r"(pair));
    return result;
}

__device__ __forceinline__ float ftl_round_f16(float value) { return ftl_low_f16(ftl_pack_f16(value, 0.0f)); }

__device__ __forceinline__ unsigned ftl_pack_bf16(float low, float high) {
    unsigned result;
    asm("cvt.rn.bf16x2.f32 %0, %2, %1;" : "=r"(result) : "f"(low), "f"(high));
    return result;
}

__device__ __forceinline__ float ftl_low_bf16(unsigned pair) { return __int_as_float((int)(pair << 16)); }

__device__ __forceinline__ float ftl_high_bf16(unsigned pair) { return __int_as_float((int)(pair & 0xffff0000u)); }

__device__ __forceinline__ float ftl_round_bf16(float value) { return ftl_low_bf16(ftl_pack_bf16(value, 0.0f)); }

__device__ __forceinline__ void ftl_store_global_8_f16(void *target, const float (&unit)[4]) {
    const unsigned low = ftl_pack_f16(unit[0], unit[1]), high = ftl_pack_f16(unit[2], unit[3]);
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(target), "r"(low), "r"(high) : "memory");
}

__device__ __forceinline__ void ftl_store_global_8_bf16(void *target, const float (&unit)[4]) {
    const unsigned low = ftl_pack_bf16(unit[0], unit[1]), high = ftl_pack_bf16(unit[2], unit[3]);
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(target), "r"(low), "r"(high) : "memory");
}

// 8-bit floats (from sm_89 on), the lower column in the low byte; what is too large becomes the largest.
__device__ __forceinline__ unsigned ftl_pack_e4m3(float low, float high) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %2, %1;" : "=h"(pair) : "f"(low), "f"(high));
    return pair;
}

__device__ __forceinline__ void ftl_store_global_4_e4m3(void *target, const float (&unit)[4]) {
    const unsigned low = ftl_pack_e4m3(unit[0], unit[1]), high = ftl_pack_e4m3(unit[2], unit[3]);
    asm volatile("st.global.u32 [%0], %1;" ::"l"(target), "r"(low | high << 16) : "memory");
}

// 8-bit floats (from sm_89 on), the lower column in the low byte; what is too large becomes the largest.
__device__ __forceinline__ unsigned ftl_pack_e5m2(float low, float high) {
    unsigned short pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %2, %1;" : "=h"(pair) : "f"(low), "f"(high));
    return pair;
}

__device__ __forceinline__ void ftl_store_global_4_e5m2(void *target, const float (&unit)[4]) {
    const unsigned low = ftl_pack_e5m2(unit[0], unit[1]), high = ftl_pack_e5m2(unit[2], unit[3]);
    asm volatile("st.global.u32 [%0], %1;" ::"l"(target), "r"(low | high << 16) : "memory");
}

// Two elements of 8 bits, each the upper byte of a half, as f16: exact.
__device__ __forceinline__ unsigned ftl_two_e4m3(unsigned halves) {
    // Sign, then exponent and fraction one place down: the value over 2^8. The largest code is NaN.
    const unsigned size = (halves & 0x7f007f00u) >> 1, nan = (size + 0x00800080u) & 0x40004000u;
    unsigned result;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"((halves & 0x80008000u) | size), "r"(0x5c005c00u));
    return result | (nan - (nan >> 5)) | nan;
}

// The exponent of e5m2 is that of f16.
__device__ __forceinline__ unsigned ftl_two_e5m2(unsigned halves) { return halves; }

// Sixteen elements of 8 bits as two units of eight.
__device__ __forceinline__ void ftl_widen_e4m3_f16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        low[i] = ftl_two_e4m3(__byte_perm(unit[i / 2], 0, i % 2 ? 0x3424 : 0x1404));
        high[i] = ftl_two_e4m3(__byte_perm(unit[2 + i / 2], 0, i % 2 ? 0x3424 : 0x1404));
    }
}

// Sixteen elements of 8 bits as two units of eight.
__device__ __forceinline__ void ftl_widen_e5m2_f16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        low[i] = ftl_two_e5m2(__byte_perm(unit[i / 2], 0, i % 2 ? 0x3424 : 0x1404));
        high[i] = ftl_two_e5m2(__byte_perm(unit[2 + i / 2], 0, i % 2 ? 0x3424 : 0x1404));
    }
}

__device__ __forceinline__ void ftl_narrow_f16(unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) unit[i] = ftl_pack_bf16(ftl_low_f16(unit[i]), ftl_high_f16(unit[i]));
}

// Sixteen elements of 8 bits as two units of eight: exact in f16, and so in bf16.
__device__ __forceinline__ void ftl_widen_e4m3_bf16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    ftl_widen_e4m3_f16(low, high, unit);
    ftl_narrow_f16(low);
    ftl_narrow_f16(high);
}

// Sixteen elements of 8 bits as two units of eight: exact in f16, and so in bf16.
__device__ __forceinline__ void ftl_widen_e5m2_bf16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    ftl_widen_e5m2_f16(low, high, unit);
    ftl_narrow_f16(low);
    ftl_narrow_f16(high);
}
