// wgmma: asynchronous products of a warpgroup, 64 rows, f32 sums. They read registers and shared memory and
// write d some time before the ftl_wgmma_wait that ends them. Operands in shared memory are named by
// descriptors. In a paragraph whose name has @N, one is made for each width that a kernel's text names: @N is
// the width, @EIGHTHS its eighth, @SUMS and @OUTPUTS the N/2 registers of d as names and as operands, and
// @0, @1 ... number the operands after them.

// What was written to registers before it is seen by the products after it.
__device__ __forceinline__ void ftl_wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group: the products since the last one.
__device__ __forceinline__ void ftl_wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until at most PENDING groups are in flight.
template <int PENDING> __device__ __forceinline__ void ftl_wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

// Has no instruction: the compiler may not use what a product holds before this place, nor move it.
template <int COUNT, int ELEMENTS> __device__ __forceinline__ void ftl_keep(float (&tile)[COUNT][ELEMENTS]) {
    FTL_UNROLL for (int i = 0; i < COUNT * ELEMENTS; i++)
        asm volatile("" : "+f"(tile[i / ELEMENTS][i % ELEMENTS])::"memory");
}

// The same for packed pairs.
template <int COUNT, int ELEMENTS> __device__ __forceinline__ void ftl_keep_pairs(unsigned (&tile)[COUNT][ELEMENTS]) {
    FTL_UNROLL for (int i = 0; i < COUNT * ELEMENTS; i++)
        asm volatile("" : "+r"(tile[i / ELEMENTS][i % ELEMENTS])::"memory");
}

// Has no instruction: what the tile held is nothing from here on. A product that begins its sums has them as
// operands all the same, and what is known of them, a constant say, would be written after the fence.
template <int COUNT, int ELEMENTS> __device__ __forceinline__ void ftl_forget(float (&tile)[COUNT][ELEMENTS]) {
    FTL_UNROLL for (int i = 0; i < COUNT * ELEMENTS; i++)
        asm volatile("" : "=f"(tile[i / ELEMENTS][i % ELEMENTS])::"memory");
}

// A branch that is not taken for any sum: what leads to the values stays before it, where a wait that nothing
// depends on would be drawn forward.
__device__ __forceinline__ void ftl_pin(float a, float b) {
    const float most = __int_as_float(0xff7fffff);
    if ((a == most) | (b == most)) asm volatile("nanosleep.u32 0;" ::: "memory");
}

// Zero, which the compiler does not know: the grid has one dimension.
__device__ __forceinline__ unsigned ftl_zero() {
    unsigned zero;
    asm("mov.u32 %0, %%ctaid.z;" : "=r"(zero));
    return zero;
}

// How a product finds a tile: the low word moves with place and step, the high one is a constant.
__device__ __forceinline__ unsigned long long ftl_descriptor(unsigned low, unsigned high) {
    unsigned long long words;
    asm("mov.b64 %0, {%1, %2};" : "=l"(words) : "r"(low), "r"(high));
    return words;
}

#define FTL_SUMS(i) "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3])

template <int TRANSPOSED_A, int TRANSPOSED_B>
__device__ __forceinline__ void ftl_wgmma_m64n@Nk16_f16(float (&d)[@EIGHTHS][4], unsigned long long a,
                                                        unsigned long long b, bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@2, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk16.f32.f16.f16 "
                 "{@SUMS}, "
                 "%@0, %@1, adds, 1, 1, %@3, %@4;\n\t}"
                 : @OUTPUTS
                 : "l"(a), "l"(b), "r"((int)adds), "n"(TRANSPOSED_A), "n"(TRANSPOSED_B));
}

template <int TRANSPOSED_A, int TRANSPOSED_B>
__device__ __forceinline__ void ftl_wgmma_m64n@Nk16_bf16(float (&d)[@EIGHTHS][4], unsigned long long a,
                                                         unsigned long long b, bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@2, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk16.f32.bf16.bf16 "
                 "{@SUMS}, "
                 "%@0, %@1, adds, 1, 1, %@3, %@4;\n\t}"
                 : @OUTPUTS
                 : "l"(a), "l"(b), "r"((int)adds), "n"(TRANSPOSED_A), "n"(TRANSPOSED_B));
}

// The left operand in registers: one k16 step of mma_A.
template <int TRANSPOSED_B>
__device__ __forceinline__ void ftl_wgmma_m64n@Nk16_f16_left(float (&d)[@EIGHTHS][4], unsigned a0, unsigned a1,
                                                             unsigned a2, unsigned a3, unsigned long long b,
                                                             bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@5, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk16.f32.f16.f16 "
                 "{@SUMS}, "
                 "{%@0, %@1, %@2, %@3}, %@4, adds, 1, 1, %@6;\n\t}"
                 : @OUTPUTS
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"((int)adds), "n"(TRANSPOSED_B));
}

template <int TRANSPOSED_B>
__device__ __forceinline__ void ftl_wgmma_m64n@Nk16_bf16_left(float (&d)[@EIGHTHS][4], unsigned a0, unsigned a1,
                                                              unsigned a2, unsigned a3, unsigned long long b,
                                                              bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@5, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk16.f32.bf16.bf16 "
                 "{@SUMS}, "
                 "{%@0, %@1, %@2, %@3}, %@4, adds, 1, 1, %@6;\n\t}"
                 : @OUTPUTS
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"((int)adds), "n"(TRANSPOSED_B));
}

// Of 8 bits: the contracted axis of both operands is the contiguous one.
__device__ __forceinline__ void ftl_wgmma_m64n@Nk32_e4m3(float (&d)[@EIGHTHS][4], unsigned long long a,
                                                         unsigned long long b, bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@2, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk32.f32.e4m3.e4m3 "
                 "{@SUMS}, "
                 "%@0, %@1, adds, 1, 1;\n\t}"
                 : @OUTPUTS
                 : "l"(a), "l"(b), "r"((int)adds));
}

__device__ __forceinline__ void ftl_wgmma_m64n@Nk32_e5m2(float (&d)[@EIGHTHS][4], unsigned long long a,
                                                         unsigned long long b, bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@2, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk32.f32.e5m2.e5m2 "
                 "{@SUMS}, "
                 "%@0, %@1, adds, 1, 1;\n\t}"
                 : @OUTPUTS
                 : "l"(a), "l"(b), "r"((int)adds));
}

// The left operand in registers: one k32 step of mma_A permuted.
__device__ __forceinline__ void ftl_wgmma_m64n@Nk32_e4m3_left(float (&d)[@EIGHTHS][4], unsigned a0, unsigned a1,
                                                              unsigned a2, unsigned a3, unsigned long long b,
                                                              bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@5, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk32.f32.e4m3.e4m3 "
                 "{@SUMS}, "
                 "{%@0, %@1, %@2, %@3}, %@4, adds, 1, 1;\n\t}"
                 : @OUTPUTS
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"((int)adds));
}

__device__ __forceinline__ void ftl_wgmma_m64n@Nk32_e5m2_left(float (&d)[@EIGHTHS][4], unsigned a0, unsigned a1,
                                                              unsigned a2, unsigned a3, unsigned long long b,
                                                              bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %@5, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n@Nk32.f32.e5m2.e5m2 "
                 "{@SUMS}, "
                 "{%@0, %@1, %@2, %@3}, %@4, adds, 1, 1;\n\t}"
                 : @OUTPUTS
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"((int)adds));
}
