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

// The nearest whole number, of two the even one; NaN becomes 0.
__device__ __forceinline__ int ftl_nearest(float value) {
    int whole;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(whole) : "f"(value));
    return whole;
}

// Whole numbers from -128 to 127, the lower column in the low byte; NaN becomes 0.
__device__ __forceinline__ unsigned ftl_byte_i8(float value) {
    int whole;
    asm("cvt.rni.s32.f32 %0, %1;" : "=r"(whole) : "f"(value));
    return (unsigned)min(max(whole, -128), 127) & 0xffu;
}

__device__ __forceinline__ unsigned ftl_pack_i8(float low, float high) {
    return ftl_byte_i8(low) | ftl_byte_i8(high) << 8;
}

__device__ __forceinline__ void ftl_store_global_4_i8(void *target, const float (&unit)[4]) {
    const unsigned low = ftl_pack_i8(unit[0], unit[1]), high = ftl_pack_i8(unit[2], unit[3]);
    asm volatile("st.global.u32 [%0], %1;" ::"l"(target), "r"(low | high << 16) : "memory");
}

// The upper half of a unit first, where it is turned.
__device__ __forceinline__ void ftl_turn(unsigned (&turned)[4], const unsigned (&unit)[4], unsigned turn) {
    FTL_UNROLL for (int i = 0; i < 2; i++) {
        turned[i] = turn ? unit[2 + i] : unit[i], turned[2 + i] = turn ? unit[i] : unit[2 + i];
    }
}

// Four elements of 8 bits as two pairs of f16: exact.
__device__ __forceinline__ void ftl_four_e4m3(unsigned &first, unsigned &second, unsigned codes) {
#if __CUDA_ARCH__ >= 890
    asm("{\n\t.reg .b16 l, h;\n\tmov.b32 {l, h}, %2;\n\tcvt.rn.f16x2.e4m3x2 %0, l;\n\tcvt.rn.f16x2.e4m3x2 %1, h;\n\t}"
        : "=r"(first), "=r"(second) : "r"(codes));
#else
    // Sign, then exponent and fraction one place down: the value over 2^8. The largest code, NaN, becomes 480,
    // which one more bit of its exponent makes NaN again.
    const unsigned nan = ((codes & 0x7f7f7f7fu) + 0x01010101u) >> 2 & 0x20202020u;
    const unsigned low = __byte_perm(codes, 0, 0x1404), high = __byte_perm(codes, 0, 0x3424);
    asm("mul.rn.f16x2 %0, %1, %2;"
        : "=r"(first) : "r"((low & 0x80008000u) | (low >> 1 & 0x3f803f80u)), "r"(0x5c005c00u));
    asm("mul.rn.f16x2 %0, %1, %2;"
        : "=r"(second) : "r"((high & 0x80008000u) | (high >> 1 & 0x3f803f80u)), "r"(0x5c005c00u));
    first |= __byte_perm(nan, 0, 0x1404), second |= __byte_perm(nan, 0, 0x3424);
#endif
}

// The exponent of e5m2 is that of f16.
__device__ __forceinline__ void ftl_four_e5m2(unsigned &first, unsigned &second, unsigned codes) {
    first = __byte_perm(codes, 0, 0x1404), second = __byte_perm(codes, 0, 0x3424);
}

// As the last bits of 1024 each is its own number and 128 more.
__device__ __forceinline__ void ftl_four_i8(unsigned &first, unsigned &second, unsigned codes) {
    const unsigned above = codes ^ 0x80808080u;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(first) : "r"(__byte_perm(above, 0x64646464u, 0x4140)), "r"(0x64806480u));
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(second) : "r"(__byte_perm(above, 0x64646464u, 0x4342)), "r"(0x64806480u));
}

// The same of bf16, whose last bits are those of 128: the sign's weight goes off with it.
__device__ __forceinline__ unsigned ftl_two_i8_bf16(unsigned halves) {
    unsigned result;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;"
        : "=r"(result) : "r"(halves & 0x437f437fu), "r"(0x3f803f80u), "r"((halves & 0x43804380u) | 0x80008000u));
    return result;
}

// Four elements of 8 bits that share a register, the first in the lowest byte.
__device__ __forceinline__ unsigned ftl_quad_of_e4m3(float a, float b, float c, float d) {
    unsigned quad;
    asm("{\n\t.reg .b16 l, h;\n\tcvt.rn.satfinite.e4m3x2.f32 l, %2, %1;\n\t"
        "cvt.rn.satfinite.e4m3x2.f32 h, %4, %3;\n\tmov.b32 %0, {l, h};\n\t}"
        : "=r"(quad) : "f"(a), "f"(b), "f"(c), "f"(d));
    return quad;
}

// Four elements of 8 bits that share a register, the first in the lowest byte.
__device__ __forceinline__ unsigned ftl_quad_of_e5m2(float a, float b, float c, float d) {
    unsigned quad;
    asm("{\n\t.reg .b16 l, h;\n\tcvt.rn.satfinite.e5m2x2.f32 l, %2, %1;\n\t"
        "cvt.rn.satfinite.e5m2x2.f32 h, %4, %3;\n\tmov.b32 %0, {l, h};\n\t}"
        : "=r"(quad) : "f"(a), "f"(b), "f"(c), "f"(d));
    return quad;
}

// One of four elements of 8 bits that share a register.
__device__ __forceinline__ float ftl_quad_e4m3(unsigned quad, int element) {
    return ftl_low_f16(ftl_two_e4m3(quad >> 8 * element << 8 & 0xff00u));
}

// One of four elements of 8 bits that share a register.
__device__ __forceinline__ float ftl_quad_e5m2(unsigned quad, int element) {
    return ftl_low_f16(ftl_two_e5m2(quad >> 8 * element << 8 & 0xff00u));
}

// Of 16 columns a lane of an accumulator has 2t, 2t + 1, 8 + 2t and 8 + 2t + 1; afterwards it has 4t to 4t + 3. A
// row's first pair and its second go to other lanes; with those of the row 8 below, each exchange moves four bytes.
template <int COUNT> __device__ __forceinline__ void ftl_quads_to_neighbours(unsigned (&tile)[COUNT][2]) {
    const int lane = (int)threadIdx.x & 3, row = (int)threadIdx.x & 28;
    const int even = row | (lane >> 1) | (lane << 1 & 2), odd = even ^ 1;
    const unsigned firsts = lane & 1 ? 0x7632u : 0x5410u, seconds = lane & 1 ? 0x5410u : 0x7632u;
    const unsigned upper = lane & 2 ? 0x1054u : 0x5410u, lower = lane & 2 ? 0x3276u : 0x7632u;
    FTL_UNROLL for (int i = 0; i < COUNT; i++) {
        const unsigned a = __shfl_sync(0xffffffffu, __byte_perm(tile[i][0], tile[i][1], firsts), even);
        const unsigned b = __shfl_sync(0xffffffffu, __byte_perm(tile[i][0], tile[i][1], seconds), odd);
        tile[i][0] = __byte_perm(a, b, upper);
        tile[i][1] = __byte_perm(a, b, lower);
    }
}

// The four numbers of e4m3 whose codes these are, rounded to whole ones of 0 to 255: those past 126 are no codes
// of what they stand for.
__device__ __forceinline__ unsigned ftl_quad_of_codes(float a, float b, float c, float d) {
    unsigned quad;
    asm("{\n\t.reg .b32 upper;\n\tcvt.pack.sat.u8.s32.b32 upper, %4, %3, 0;\n\t"
        "cvt.pack.sat.u8.s32.b32 %0, %2, %1, upper;\n\t}"
        : "=r"(quad) : "r"(__float2int_rn(a)), "r"(__float2int_rn(b)), "r"(__float2int_rn(c)), "r"(__float2int_rn(d)));
    return quad;
}

// Notes whether there is a code of 120 or more among four.
__device__ __forceinline__ void ftl_note_codes(unsigned &noted, unsigned quad) { noted |= quad | (quad + 0x08080808u); }

// Has the warp noted one: a number from 256 on?
__device__ __forceinline__ bool ftl_any_high(unsigned noted) {
    return __any_sync(0xffffffffu, (noted & 0x80808080u) != 0) != 0;
}

// What is past the largest number becomes it.
template <int COUNT> __device__ __forceinline__ void ftl_quads_most(unsigned (&tile)[COUNT][2]) {
    FTL_UNROLL for (int i = 0; i < COUNT * 2; i++) {
        const unsigned quad = tile[i / 2][i % 2];
        const unsigned past = ((quad | ((quad & 0x7f7f7f7fu) + 0x01010101u)) & 0x80808080u) >> 7;
        tile[i / 2][i % 2] = (quad & ~(past * 255)) | past * 0x7e;
    }
}

// Eight elements of 4 bits: each byte's two codes come to both halves of a word, become the last bits of 1024, and 16
// times as many of it, and lose that again. EXCESS is added to the codes: 8 to those of a sign, with its bit turned.
template <int EXCESS> __device__ __forceinline__ void ftl_eight_codes_f16(unsigned (&wide)[4], unsigned codes) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        const unsigned both = __byte_perm(codes, 0, 0x4040 + 0x101 * i) & 0x00f0000fu;
        asm("fma.rn.f16x2 %0, %1, %2, %3;"
            : "=r"(wide[i])
            : "r"(both ^ (0x64006400u + EXCESS * 0x00100001u)), "r"(0x2c003c00u),
              "r"(EXCESS ? 0xd480e408u : 0xd400e400u));
    }
}

// Thirty-two elements of 4 bits as four units of eight.
__device__ __forceinline__ void ftl_widen_i4_f16(unsigned (&wide)[4][4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) ftl_eight_codes_f16<8>(wide[i], unit[i]);
}

// Thirty-two elements of 4 bits as four units of eight.
__device__ __forceinline__ void ftl_widen_u4_f16(unsigned (&wide)[4][4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) ftl_eight_codes_f16<0>(wide[i], unit[i]);
}

// The same, of 128, which leaves room for one code.
template <int EXCESS> __device__ __forceinline__ void ftl_eight_codes_bf16(unsigned (&wide)[4], unsigned codes) {
    const unsigned odd = codes >> 4;
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        const unsigned both = __byte_perm(codes, odd, 0x4400 + 0x1111 * i) & 0x000f000fu;
        asm("fma.rn.bf16x2 %0, %1, %2, %3;"
            : "=r"(wide[i])
            : "r"(both ^ (0x43004300u + EXCESS * 0x00010001u)), "r"(0x3f803f80u), "r"(EXCESS ? 0xc308c308u : 0xc300c300u));
    }
}

// Thirty-two elements of 4 bits as four units of eight.
__device__ __forceinline__ void ftl_widen_i4_bf16(unsigned (&wide)[4][4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) ftl_eight_codes_bf16<8>(wide[i], unit[i]);
}

// Thirty-two elements of 4 bits as four units of eight.
__device__ __forceinline__ void ftl_widen_u4_bf16(unsigned (&wide)[4][4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) ftl_eight_codes_bf16<0>(wide[i], unit[i]);
}

// Sixteen elements of 8 bits as two units of eight.
__device__ __forceinline__ void ftl_widen_e4m3_f16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 2; i++) {
        ftl_four_e4m3(low[2 * i], low[2 * i + 1], unit[i]);
        ftl_four_e4m3(high[2 * i], high[2 * i + 1], unit[2 + i]);
    }
}

// Sixteen elements of 8 bits as two units of eight.
__device__ __forceinline__ void ftl_widen_e5m2_f16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 2; i++) {
        ftl_four_e5m2(low[2 * i], low[2 * i + 1], unit[i]);
        ftl_four_e5m2(high[2 * i], high[2 * i + 1], unit[2 + i]);
    }
}

// Sixteen elements of 8 bits as two units of eight.
__device__ __forceinline__ void ftl_widen_i8_f16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 2; i++) {
        ftl_four_i8(low[2 * i], low[2 * i + 1], unit[i]);
        ftl_four_i8(high[2 * i], high[2 * i + 1], unit[2 + i]);
    }
}

// Sixteen elements of 8 bits as two units of eight: exact in bf16, too.
__device__ __forceinline__ void ftl_widen_i8_bf16(unsigned (&low)[4], unsigned (&high)[4], const unsigned (&unit)[4]) {
    FTL_UNROLL for (int i = 0; i < 4; i++) {
        const unsigned turns = i % 2 ? 0x4342 : 0x4140;
        low[i] = ftl_two_i8_bf16(__byte_perm(unit[i / 2], 0x43434343u, turns));
        high[i] = ftl_two_i8_bf16(__byte_perm(unit[2 + i / 2], 0x43434343u, turns));
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
