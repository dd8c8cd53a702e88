// attention for h200 (compute_90a), written by FlashTL from TL Code.
// Launch with 384 threads a block, 229512 bytes of dynamic shared memory, as many blocks as fit at once;
// together they walk the tiles of
// `grid dynamic head in q_heads, b in batch sections near, q_block in q_len/BM reversed`.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
#error "this kernel was made for compute_90a and later GPUs"
#endif

__device__ __forceinline__ float ftl_add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float ftl_subtract(float a, float b) { return __fadd_rn(a, -b); }
__device__ __forceinline__ float ftl_multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float ftl_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float ftl_max(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ float ftl_infinity() { return __int_as_float(0x7f800000); }

// 1/a within 1 ulp; denormal results become 0.
__device__ __forceinline__ float ftl_reciprocal(float a) {
    float result;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

// 2 to the a, within 2 ulp; of minus infinity 0; denormals are 0.
__device__ __forceinline__ float ftl_exp2(float a) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(a));
    return result;
}

// Integer quotients rounded down and up, for any signs.
__device__ __forceinline__ int ftl_divide_down(int a, int b) {
    const int quotient = a / b, rest = a - quotient * b;
    return quotient - (rest != 0 && (rest < 0) != (b < 0));
}

__device__ __forceinline__ int ftl_divide_up(int a, int b) {
    const int quotient = a / b, rest = a - quotient * b;
    return quotient + (rest != 0 && (rest < 0) == (b < 0));
}

__device__ __forceinline__ int ftl_min_integer(int a, int b) { return a < b ? a : b; }
__device__ __forceinline__ int ftl_max_integer(int a, int b) { return a > b ? a : b; }

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

// stmatrix: the way back, with the same lanes and rows.
__device__ __forceinline__ void ftl_stmatrix_x4(unsigned target, unsigned m0, unsigned m1, unsigned m2, unsigned m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3) : "memory");
}

__device__ __forceinline__ void ftl_mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The barriers are seen by other threads and by asynchronous units.
__device__ __forceinline__ void ftl_mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and announces bytes that asynchronous copies will bring.
__device__ __forceinline__ void ftl_mbarrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void ftl_mbarrier_signal(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void ftl_mbarrier_signal_each(unsigned barrier, int lane) {
    asm volatile("" : "+r"(lane)); // a test the compiler cannot decide: what was read stays in lanes' own registers
    if (lane < 32) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity has ended; the hardware may put the thread to sleep meanwhile.
__device__ __forceinline__ void ftl_mbarrier_try_wait(unsigned barrier, unsigned parity) {
    asm volatile("{\n\t.reg .pred done;\n"
                 "wait_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra wait_%=;\n\t}" ::"r"(barrier), "r"(parity) : "memory");
}

// A role's place among the slots of a tile, one after the other: a slot, and the parity of its barrier's next
// phase. Slots are counted, not toggled: what is toggled the compiler keeps as a truth value of each thread.
template <int SLOTS>
struct ftl_ring {
    unsigned slot, parity;
    __device__ __forceinline__ unsigned of(unsigned barriers) const { return barriers + 8 * slot; }
    // On to the next slot, once it is full.
    __device__ __forceinline__ void wait(unsigned full) {
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
        ftl_mbarrier_try_wait(of(full), parity);
        parity ^= slot == SLOTS - 1;
    }
    // Until this slot is free; next() once it is filled. With bytes to come by asynchronous copies: announced.
    __device__ __forceinline__ void acquire(unsigned empty) const { ftl_mbarrier_try_wait(of(empty), parity); }
    __device__ __forceinline__ void acquire(unsigned empty, unsigned full, unsigned bytes) const {
        acquire(empty);
        ftl_mbarrier_expect(of(full), bytes);
    }
    __device__ __forceinline__ void next() {
        parity ^= slot == SLOTS - 1;
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
    }
};

__device__ __forceinline__ int ftl_load_shared_i32(unsigned source) {
    int value;
    asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(source) : "memory");
    return value;
}

__device__ __forceinline__ void ftl_store_shared_i32(unsigned target, int value) {
    asm volatile("st.shared.s32 [%0], %1;" ::"r"(target), "r"(value) : "memory");
}

#define FTL_UNROLL _Pragma("unroll")
#define FTL_INLINE __attribute__((always_inline))

// The number of this thread's warp in its block, the same register in all lanes.
__device__ __forceinline__ int ftl_warp_index() { return __shfl_sync(0xffffffffu, (int)threadIdx.x >> 5, 0); }

// The number of this thread in its block, read anew each time.
__device__ __forceinline__ int ftl_thread() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// Byte offset of the block's dynamic shared memory in the shared window.
extern __shared__ __align__(1024) unsigned char ftl_dynamic_shared[];
__device__ __forceinline__ unsigned ftl_shared_base() { return (unsigned)__cvta_generic_to_shared(ftl_dynamic_shared); }

// All threads of the block: what they wrote before it is visible after it.
__device__ __forceinline__ void ftl_block_barrier() { __syncthreads(); }

// The value of the lane whose number differs by 'mask'.
__device__ __forceinline__ float ftl_exchange(float value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

// What the four lanes that share a row of a fragment come to together.
template <float COMBINE(float, float)> __device__ __forceinline__ float ftl_of_row(float value) {
    value = COMBINE(value, ftl_exchange(value, 1));
    return COMBINE(value, ftl_exchange(value, 2));
}

// Does the condition hold in any lane of the warp?
__device__ __forceinline__ bool ftl_any(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }

// The map is fetched before its first use.
__device__ __forceinline__ void ftl_tma_prefetch_map(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void ftl_tma_load_5(unsigned target, const void *map, unsigned barrier,
                                                  int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 ::"r"(target), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

__device__ __forceinline__ void ftl_tma_store_4(const void *map, unsigned source, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

// Ends a group of stores of this thread.
__device__ __forceinline__ void ftl_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but PENDING groups of this thread have read their source.
template <int PENDING> __device__ __forceinline__ void ftl_tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// What this thread wrote to shared memory is seen by asynchronous units.
__device__ __forceinline__ void ftl_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Each thread of this warpgroup goes on with fewer registers.
template <int REGISTERS> __device__ __forceinline__ void ftl_registers_shrink() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Each thread of this warpgroup goes on with more registers, once others have given them up.
template <int REGISTERS> __device__ __forceinline__ void ftl_registers_grow() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Counts as having come, and goes on.
__device__ __forceinline__ void ftl_meet_later(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// n / d for 0 <= n < 2^31, by the constants that the launch has made of d.
__device__ __forceinline__ int ftl_quotient(int n, unsigned multiplier, unsigned shift) {
    return (int)(__umulhi((unsigned)n << 1, multiplier) >> shift);
}

// A value that is the same in all lanes of the warp, known to be.
__device__ __forceinline__ int ftl_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// The number of a tile that no block has taken. The first gridDim.x are taken by who starts.
__device__ __forceinline__ int ftl_fetch_tile(unsigned *counters) { return (int)(atomicAdd(counters, 1u) + gridDim.x); }

// This block takes no more; the last one sets the counters back for the next launch.
__device__ __forceinline__ void ftl_end_tiles(unsigned *counters) {
    __threadfence();
    if (atomicAdd(counters + 1, 1u) == gridDim.x - 1) {
        counters[0] = 0;
        counters[1] = 0;
        __threadfence();
    }
}

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
__device__ __forceinline__ void ftl_wgmma_m64n128k16_f16(float (&d)[16][4], unsigned long long a,
                                                        unsigned long long b, bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %66, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
                 "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "%64, %65, adds, 1, 1, %67, %68;\n\t}"
                 : FTL_SUMS(0), FTL_SUMS(1), FTL_SUMS(2), FTL_SUMS(3), FTL_SUMS(4), FTL_SUMS(5),
                   FTL_SUMS(6), FTL_SUMS(7), FTL_SUMS(8), FTL_SUMS(9), FTL_SUMS(10), FTL_SUMS(11),
                   FTL_SUMS(12), FTL_SUMS(13), FTL_SUMS(14), FTL_SUMS(15)
                 : "l"(a), "l"(b), "r"((int)adds), "n"(TRANSPOSED_A), "n"(TRANSPOSED_B));
}

// The left operand in registers: one k16 step of mma_A.
template <int TRANSPOSED_B>
__device__ __forceinline__ void ftl_wgmma_m64n128k16_f16_left(float (&d)[16][4], unsigned a0, unsigned a1,
                                                             unsigned a2, unsigned a3, unsigned long long b,
                                                             bool adds) {
    asm volatile("{\n\t.reg .pred adds;\n\tsetp.ne.b32 adds, %69, 0;\n\t"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
                 "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, "
                 "%54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
                 "{%64, %65, %66, %67}, %68, adds, 1, 1, %70;\n\t}"
                 : FTL_SUMS(0), FTL_SUMS(1), FTL_SUMS(2), FTL_SUMS(3), FTL_SUMS(4), FTL_SUMS(5),
                   FTL_SUMS(6), FTL_SUMS(7), FTL_SUMS(8), FTL_SUMS(9), FTL_SUMS(10), FTL_SUMS(11),
                   FTL_SUMS(12), FTL_SUMS(13), FTL_SUMS(14), FTL_SUMS(15)
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b), "r"((int)adds), "n"(TRANSPOSED_B));
}

// The barriers of a tile's slots.
template <int SLOTS> __device__ __forceinline__ void ftl_mbarriers_init(unsigned barriers, unsigned arrivals) {
    FTL_UNROLL for (int slot = 0; slot < SLOTS; slot++) ftl_mbarrier_init(barriers + 8 * slot, arrivals);
}

// Waits until so many threads have come to this barrier, by waiting or by ftl_meet_later.
__device__ __forceinline__ void ftl_meet(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Shared memory, in bytes from its beginning: tiles, their slots, and the barriers of slots, 8 bytes each.
namespace attention_shared { enum : unsigned {
    Q_tile = 0, Q_slot = 32768, Q_bytes = 32768, Q_full = 229376, Q_empty = 229392, // 2 slots
    K_tile = 65536, K_slot = 32768, K_bytes = 32768, K_full = 229408, K_empty = 229424, // 2 slots
    V_tile = 131072, V_slot = 32768, V_bytes = 32768, V_full = 229440, V_empty = 229456, // 2 slots
    O_tile = 196608,
    numbers_there = 229472, numbers_read = 229488, numbers = 229504, // of the next tiles, 2 slots of 4
}; } // namespace attention_shared

// Strides count elements. A pointer without a stride for an axis: that axis is contiguous.
// One followed by its sign has 64 bits, too, and is known to fit 32.
struct attention_parameters {
    const unsigned short *Q; // Input  Q f16 (b in batch, head in q_heads; q in q_len, d)
    long long Q_stride_b, Q_stride_head;
    int Q_stride_q, Q_stride_q_sign;
    // Input  K f16 (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads == kv_heads
    const unsigned short *K;
    long long K_stride_b, K_stride_kv_heads;
    int K_stride_kv, K_stride_kv_sign;
    const unsigned short *V; // Input  V f16 (b in batch, head/group in kv_heads; kv in kv_len, dv)
    long long V_stride_b, V_stride_kv_heads;
    int V_stride_kv, V_stride_kv_sign;
    unsigned short *O; // Output O f16 (b in batch, head in q_heads; q in q_len, dv)
    long long O_stride_b, O_stride_head;
    int O_stride_q, O_stride_q_sign;
    int batch, q_heads, q_len, kv_heads, kv_len;
    float scale; // Input  scale f32 where scale > 0
    int tiles; // of the grid
    int wide_tiles; // tiles of all wide sections
    int width; // tuples of a section
    int wide_width; // tuples of a wide section
    int section; // tiles of a section
    int wide_section; // tiles of a wide section
    unsigned by_wide_section_multiplier, by_wide_section_shift; // n / (tiles of a wide section)
    unsigned by_section_multiplier, by_section_shift; // n / (tiles of a section)
    unsigned by_wide_width_multiplier, by_wide_width_shift; // n / (tuples of a wide section)
    unsigned by_width_multiplier, by_width_shift; // n / (tuples of a section)
    int wide_tuples; // tuples of all wide sections
    unsigned by_q_heads_multiplier, by_q_heads_shift; // n / (q_heads)
    unsigned by_group_multiplier, by_group_shift; // n / (group)
    unsigned *tile_counters; // two, zero before and after each launch
    alignas(64) unsigned long long Q_map[16], K_map[16], V_map[16], O_map[16]; // boxes of tensors
};

// What the kernel does at several places, inlined at each.
__device__ __forceinline__ void attention_get_S(float (&S)[16][4], unsigned left, unsigned left_slot, unsigned right,
    unsigned right_slot, unsigned lines_128_by_1024) {
    ftl_wgmma_fence();
    FTL_UNROLL for (int k16 = 0; k16 < 8; k16++)
        ftl_wgmma_m64n128k16_f16<0, 0>(S,
            ftl_descriptor(left + left_slot + k16 % 4 * 2 + k16 / 4 * 1024, lines_128_by_1024),
            ftl_descriptor(right + right_slot + k16 % 4 * 2 + k16 / 4 * 1024, lines_128_by_1024), k16 != 0);
    ftl_wgmma_commit();
}

__device__ __forceinline__ void attention_accumulate_m(const float (&S)[16][4], float (&m)[2]) {
    FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
        FTL_UNROLL for (int half = 0; half < 2; half++)
            m[half] = ftl_max(m[half], ftl_max(S[n8][2 * half], S[n8][2 * half + 1]));
    FTL_UNROLL for (int half = 0; half < 2; half++) m[half] = ftl_of_row<ftl_max>(m[half]);
}

__device__ __forceinline__ void attention_get_P(const float (&S)[16][4], float c, const float (&shift)[2],
    float (&T)[16][4], float (&part)[2], unsigned (&P)[16][2]) {
    FTL_UNROLL for (int half = 0; half < 2; half++) part[half] = 0.0f;
    FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            T[n8][2 * half] = ftl_multiply_add(S[n8][2 * half], c, shift[half]);
            T[n8][2 * half + 1] = ftl_multiply_add(S[n8][2 * half + 1], c, shift[half]);
            T[n8][2 * half] = ftl_exp2(T[n8][2 * half]);
            T[n8][2 * half + 1] = ftl_exp2(T[n8][2 * half + 1]);
            part[half] = ftl_add(ftl_add(part[half], T[n8][2 * half]), T[n8][2 * half + 1]);
            P[n8][half] = ftl_pack_f16(T[n8][2 * half], T[n8][2 * half + 1]);
        }
}

__device__ __forceinline__ void attention_accumulate_O(float (&O_register)[16][4], const unsigned (&P)[16][2],
    unsigned right, unsigned right_slot, unsigned lines_128_by_1024, bool holds) {
    ftl_wgmma_fence();
    FTL_UNROLL for (int k16 = 0; k16 < 8; k16++)
        ftl_wgmma_m64n128k16_f16_left<1>(O_register, P[2 * k16][0], P[2 * k16][1], P[2 * k16 + 1][0], P[2 * k16 + 1][1],
            ftl_descriptor(right + right_slot + k16 * 128, lines_128_by_1024), k16 != 0 || holds);
    ftl_wgmma_commit();
}

__device__ __forceinline__ void attention_get_l(const float (&m_old)[2], const float (&m)[2], float (&alpha)[2],
    float c, float (&shift)[2], float (&l)[2]) {
    FTL_UNROLL for (int half = 0; half < 2; half++) {
        alpha[half] = ftl_subtract(m_old[half], m[half]);
        alpha[half] = ftl_multiply(alpha[half], c);
        alpha[half] = ftl_exp2(alpha[half]);
        shift[half] = ftl_multiply(m[half], -c);
        l[half] = ftl_multiply(l[half], alpha[half]);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
attention(const __grid_constant__ attention_parameters args) {
    const int lane = (int)threadIdx.x & 31, block_warp = ftl_warp_index();
    // let d = 128, dv = 128, BM = 128, BN = 128
    const int BM = 128, BN = 128;
    // let group = q_heads/kv_heads
    // let c = scale*1.44269504
    const float c = ftl_multiply(args.scale, 1.44269504f);
    // let offset = kv_len - q_len
    const int offset = args.kv_len - args.q_len;
    // let near = min(44, 24000000/max(1, kv_len*d*2 + kv_len*dv*2))*group
    namespace at = attention_shared;
    const unsigned shared = ftl_shared_base();
    const unsigned O_shared = shared + at::O_tile;
    struct tile_place { int head; int b; int q_block; int blocks; int full; };
    const auto tile_of = [&](int head, int b, int q_block) FTL_INLINE {
        const int blocks
            = ftl_max_integer(1, ftl_divide_up(ftl_min_integer(args.kv_len, (q_block + 1) * BM + offset), BN));
        const int full = ftl_divide_down(ftl_min_integer(args.kv_len, q_block * BM + offset + 1), BN);
        return tile_place{head, b, q_block, blocks, full};
    };
    // grid dynamic head in q_heads, b in batch sections near, q_block in q_len/BM reversed
    const auto tile_at = [&](int number) FTL_INLINE {
        const bool is_wide = number < args.wide_tiles;
        const int width = is_wide ? args.wide_width : args.width;
        const int tiles = is_wide ? args.wide_section : args.section;
        const int from = number - (is_wide ? 0 : args.wide_tiles);
        const int section
            = ftl_quotient(from, is_wide ? args.by_wide_section_multiplier : args.by_section_multiplier,
            is_wide ? args.by_wide_section_shift : args.by_section_shift);
        const int inside = from - section * tiles;
        const int later
            = ftl_quotient(inside, is_wide ? args.by_wide_width_multiplier : args.by_width_multiplier,
            is_wide ? args.by_wide_width_shift : args.by_width_shift);
        const int skipped = is_wide ? 0 : args.wide_tuples;
        const int tuple = skipped + (section - later) * width + inside;
        const int head_rest = ftl_quotient(tuple, args.by_q_heads_multiplier, args.by_q_heads_shift);
        const int head = tuple - head_rest * args.q_heads, b = head_rest;
        const int q_block = ftl_divide_up(args.q_len, BM) - 1 - (later);
        return tile_of(head, b, q_block);
    };
    if (threadIdx.x == 0) {
        ftl_mbarriers_init<2>(shared + at::numbers_there, 1); // the next tile's number
        ftl_mbarriers_init<2>(shared + at::numbers_read, 256); // and was read
        ftl_mbarriers_init<2>(shared + at::Q_full, 1); // Q has landed
        ftl_mbarriers_init<2>(shared + at::Q_empty, 8); // Q is free again
        ftl_mbarriers_init<2>(shared + at::K_full, 1); // K has landed
        ftl_mbarriers_init<2>(shared + at::K_empty, 8); // K is free again
        ftl_mbarriers_init<2>(shared + at::V_full, 1); // V has landed
        ftl_mbarriers_init<2>(shared + at::V_empty, 8); // V is free again
        ftl_mbarrier_init_fence();
    }
    ftl_block_barrier();
    if (block_warp < 4) {
        // role load with 1 warp, 40 registers
        ftl_registers_shrink<40>();
        if (threadIdx.x == 0) {
            ftl_ring<2> Q_fill = {0, 1}; // the next copy
            ftl_ring<2> K_fill = {0, 1}; // the next copy
            ftl_ring<2> V_fill = {0, 1}; // the next copy
            ftl_ring<2> number_fill = {0, 1};
            ftl_tma_prefetch_map(args.Q_map);
            ftl_tma_prefetch_map(args.K_map);
            ftl_tma_prefetch_map(args.V_map);
            ftl_tma_prefetch_map(args.O_map);
            int tile_number = (int)blockIdx.x;
            bool is_first = true;
            tile_place tile = tile_at(tile_number);
#pragma unroll 1
            while (tile_number < args.tiles) {
                // if first(tile)
                if (is_first) {
                    // Copy Q (BM, d) in coordinate [b, head, L = q_block] from global to shared by tma async
                    Q_fill.acquire(shared + at::Q_empty, shared + at::Q_full, at::Q_bytes);
                    ftl_tma_load_5(shared + at::Q_tile + Q_fill.slot * at::Q_slot, args.Q_map,
                        Q_fill.of(shared + at::Q_full), 0, tile.q_block * BM, 0, tile.head, tile.b);
                    Q_fill.next();
                    // Copy K (BN, d) in coordinate [b, head/group, L = 0] from global to shared by tma async
                    K_fill.acquire(shared + at::K_empty, shared + at::K_full, at::K_bytes);
                    ftl_tma_load_5(shared + at::K_tile + K_fill.slot * at::K_slot, args.K_map,
                        K_fill.of(shared + at::K_full), 0, 0, 0,
                        ftl_quotient(tile.head, args.by_group_multiplier, args.by_group_shift), tile.b);
                    K_fill.next();
                }
                // for j = 1:blocks
#pragma unroll 1
                for (int j = 1; j < tile.blocks; j++) {
                    // Copy K (BN, d) in coordinate [b, head/group, L = j] from global to shared by tma async
                    K_fill.acquire(shared + at::K_empty, shared + at::K_full, at::K_bytes);
                    ftl_tma_load_5(shared + at::K_tile + K_fill.slot * at::K_slot, args.K_map,
                        K_fill.of(shared + at::K_full), 0, j * BN, 0,
                        ftl_quotient(tile.head, args.by_group_multiplier, args.by_group_shift), tile.b);
                    K_fill.next();
                    // Copy V (BN, dv) in coordinate [b, head/group, L = j - 1] from global to shared by tma async
                    V_fill.acquire(shared + at::V_empty, shared + at::V_full, at::V_bytes);
                    ftl_tma_load_5(shared + at::V_tile + V_fill.slot * at::V_slot, args.V_map,
                        V_fill.of(shared + at::V_full), 0, (j - 1) * BN, 0,
                        ftl_quotient(tile.head, args.by_group_multiplier, args.by_group_shift), tile.b);
                    V_fill.next();
                }
                // the block's next tile
                const int tile_next = ftl_fetch_tile(args.tile_counters);
                number_fill.acquire(shared + at::numbers_read);
                ftl_store_shared_i32(shared + at::numbers + 4 * number_fill.slot, tile_next);
                ftl_mbarrier_signal(number_fill.of(shared + at::numbers_there));
                number_fill.next();
                const bool has_more = tile_next < args.tiles;
                tile_place next = tile;
                // if more(tile)
                if (has_more) {
                    next = tile_at(tile_next);
                    // Copy Q (BM, d) in coordinate [next(b), next(head), L = next(q_block)] from global to shared by
                    //     tma async
                    Q_fill.acquire(shared + at::Q_empty, shared + at::Q_full, at::Q_bytes);
                    ftl_tma_load_5(shared + at::Q_tile + Q_fill.slot * at::Q_slot, args.Q_map,
                        Q_fill.of(shared + at::Q_full), 0, next.q_block * BM, 0, next.head, next.b);
                    Q_fill.next();
                    // Copy K (BN, d) in coordinate [next(b), next(head)/group, L = 0] from global to shared by tma
                    //     async
                    K_fill.acquire(shared + at::K_empty, shared + at::K_full, at::K_bytes);
                    ftl_tma_load_5(shared + at::K_tile + K_fill.slot * at::K_slot, args.K_map,
                        K_fill.of(shared + at::K_full), 0, 0, 0,
                        ftl_quotient(next.head, args.by_group_multiplier, args.by_group_shift), next.b);
                    K_fill.next();
                }
                // Copy V (BN, dv) in coordinate [b, head/group, L = blocks - 1] from global to shared by tma async
                V_fill.acquire(shared + at::V_empty, shared + at::V_full, at::V_bytes);
                ftl_tma_load_5(shared + at::V_tile + V_fill.slot * at::V_slot, args.V_map,
                    V_fill.of(shared + at::V_full), 0, (tile.blocks - 1) * BN, 0,
                    ftl_quotient(tile.head, args.by_group_multiplier, args.by_group_shift), tile.b);
                V_fill.next();
                tile_number = tile_next;
                tile = next;
                is_first = false;
            }
            ftl_end_tiles(args.tile_counters);
        }
    } else {
        // role math with 2 warpgroups, 232 registers, turns tensor
        ftl_registers_grow<232>();
        const int warp = block_warp - 4, executor = warp / 4;
        ftl_ring<2> Q_held = {1, 0}; // the generation held
        unsigned Q_oldest = 0; // slot of the oldest one held
        ftl_ring<2> K_held = {1, 0}; // the generation held
        ftl_ring<2> V_held = {1, 0}; // the generation held
        ftl_ring<2> number_held = {1, 0};
        const unsigned Q_left = (shared >> 4) + (at::Q_tile / 16 + (1u << 16)) + executor * 512;
        constexpr unsigned lines_128_by_1024 = 0x40000040u; // descriptors: the high word
        const unsigned K_right = (shared >> 4) + (at::K_tile / 16 + (1u << 16));
        const unsigned V_right_transposed = (shared >> 4) + (at::V_tile / 16 + (1024u << 16));
        if (executor == 1) ftl_meet_later(1, 256); // the first turn is executor 0's
        // Allocate O in register f32 (BM, dv) as mma_C
        float O_register[16][4];
        [[maybe_unused]] bool O_register_holds = true; // a sum that products add to
        // Allocate S in register f32 (BM, BN) as mma_C
        float S[16][4];
        // Allocate T in register f32 (BM, BN) as mma_C
        float T[16][4];
        // Allocate P in register f16 (BM, BN) as mma_C stages 2
        unsigned P_0[16][2], P_1[16][2];
        // Allocate m, m_old, alpha, shift in register f32 (BM) as rows of O
        float m[2], m_old[2], alpha[2], shift[2];
        // Allocate l in register f32 (BM) as partial rows of O
        float l[2];
        // Allocate l_end in register f32 (BM) as partial rows of O
        float l_end[2];
        // Allocate part in register f32 (BM) as partial rows of O
        float part[2];
        int tile_number = (int)blockIdx.x;
        int tile_known = tile_number; // the next one, towards the end of this one
        bool is_first = true;
        tile_place tile = tile_at(tile_number);
#pragma unroll 1
        while (tile_number < args.tiles) {
            // if first(tile)
            if (is_first) {
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    // Compute Fill -1e30 and get m
                    m[half] = -1e+30f;
                    // Compute Fill 0 and get l
                    l[half] = 0.0f;
                    // Compute Fill 1 and get alpha
                    alpha[half] = 1.0f;
                }
                // Wait Q_shared
                Q_held.wait(shared + at::Q_full);
                // Wait K_shared
                K_held.wait(shared + at::K_full);
                // Wait tensor
                ftl_meet(1 + executor, 256);
                // Compute GEMM Q_shared, K_shared.T and get S by m64n128k16 async
                attention_get_S(S, Q_left, Q_held.slot * (at::Q_slot / 16), K_right, K_held.slot * (at::K_slot / 16),
                    lines_128_by_1024);
                // Release tensor
                ftl_meet_later(2 - executor, 256);
                // the block's next tile, after the last products of this one
                if (1 >= tile.blocks) {
                    number_held.wait(shared + at::numbers_there);
                    tile_known = ftl_load_shared_i32(shared + at::numbers + 4 * number_held.slot);
                    ftl_mbarrier_signal_each(number_held.of(shared + at::numbers_read), lane);
                }
                // Wait S
                ftl_wgmma_wait<0>();
                ftl_keep(S);
                // Release K_shared
                if (lane == 0) ftl_mbarrier_signal(K_held.of(shared + at::K_empty));
                // if 0 >= full
                if (0 >= tile.full) {
                    // Compute Mask S in coordinate [L = q_block, L = 0] where kv > q + offset
                    const int thread = ftl_thread(), lane = thread & 31, warp = (thread >> 5) - 4;
                    const int S_row = warp * 16 + (lane >> 2), S_column = (lane & 3) * 2;
                    const int q_first = tile.q_block * BM + S_row;
                    const int kv_first = S_column;
                    const int limit_1 = q_first + offset - kv_first;
                    FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                        FTL_UNROLL for (int half = 0; half < 2; half++) {
                            S[n8][2 * half] = 8 * n8 - 8 * half > limit_1 ? -ftl_infinity() : S[n8][2 * half];
                            S[n8][2 * half + 1] = 8 * n8 + 1 - 8 * half > limit_1 ? -ftl_infinity()
                                : S[n8][2 * half + 1];
                        }
                }
                // Compute RowMax S and accumulate m
                attention_accumulate_m(S, m);
                // Compute Multiply m, -c and get shift
                FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -c);
                // Compute MultiplyAdd S, c, shift and get T
                // Compute Exp2 T and get T
                // Compute RowSum T and get part
                // Compute Cast T and get P
                attention_get_P(S, c, shift, T, part, P_0);
                // Compute Add l, part and get l
                FTL_UNROLL for (int half = 0; half < 2; half++) l[half] = ftl_add(l[half], part[half]);
                // Reshape P from mma_C to mma_A
                ftl_keep_pairs(P_0); // (the same registers)
            }
            // Compute Fill 0 and get O_register
            O_register_holds = false; // no zeros: its first product does not add
            // for j = 1:blocks
            {
                // let eager = any(alpha < 0.0625)
                // taken again where the tile changes
                int eager_kept = ftl_any((alpha[0] < 0.0625f) | (alpha[1] < 0.0625f));
                const int j_end = tile.blocks;
                int j = 1;
                // an iteration; its arrays change places from one to the next
                const auto iteration_of_j = [&](unsigned (&P_held)[16][2], unsigned (&P_next)[16][2]) FTL_INLINE {
                    // Wait K_shared
                    K_held.wait(shared + at::K_full);
                    // Wait tensor
                    ftl_meet(1 + executor, 256);
                    // Compute GEMM Q_shared, K_shared.T and get S by m64n128k16 async
                    attention_get_S(S, Q_left, Q_held.slot * (at::Q_slot / 16), K_right,
                        K_held.slot * (at::K_slot / 16), lines_128_by_1024);
                    // Wait V_shared
                    V_held.wait(shared + at::V_full);
                    // Compute GEMM P, V_shared and accumulate O_register by m64n128k16 async
                    ftl_keep(O_register);
                    attention_accumulate_O(O_register, P_held, V_right_transposed, V_held.slot * (at::V_slot / 16),
                        lines_128_by_1024, O_register_holds);
                    O_register_holds = true;
                    // Release tensor
                    ftl_meet_later(2 - executor, 256);
                    // let eager = any(alpha < 0.0625)
                    const bool eager = (eager_kept != 0);
                    // the block's next tile, after the last products of this one
                    if (j + 1 == j_end) {
                        number_held.wait(shared + at::numbers_there);
                        tile_known = ftl_load_shared_i32(shared + at::numbers + 4 * number_held.slot);
                        ftl_mbarrier_signal_each(number_held.of(shared + at::numbers_read), lane);
                    }
                    // Wait S
                    ftl_wgmma_wait<1>();
                    ftl_keep(S);
                    // Release K_shared
                    if (lane == 0) ftl_mbarrier_signal(K_held.of(shared + at::K_empty));
                    // if j >= full or eager
                    if (__builtin_expect(j >= tile.full || eager, 0)) {
                        // if j >= full
                        if (j >= tile.full) {
                            // Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset
                            const int thread = ftl_thread(), lane = thread & 31;
                            const int warp = (thread >> 5) - 4, S_row = warp * 16 + (lane >> 2);
                            const int S_column = (lane & 3) * 2;
                            const int q_first = tile.q_block * BM + S_row;
                            const int kv_first = j * BN + S_column;
                            const int limit_3 = q_first + offset - kv_first;
                            FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                                FTL_UNROLL for (int half = 0; half < 2; half++) {
                                    S[n8][2 * half] = 8 * n8 - 8 * half > limit_3 ? -ftl_infinity() : S[n8][2 * half];
                                    S[n8][2 * half + 1] = 8 * n8 + 1 - 8 * half > limit_3 ? -ftl_infinity()
                                        : S[n8][2 * half + 1];
                                }
                        }
                        // if eager
                        if (__builtin_expect(eager, 0)) {
                            // Compute Cast m and get m_old
                            FTL_UNROLL for (int half = 0; half < 2; half++) m_old[half] = m[half];
                            // Compute RowMax S and accumulate m
                            attention_accumulate_m(S, m);
                            // Compute Subtract m_old, m and get alpha
                            // Compute Multiply alpha, c and get alpha
                            // Compute Exp2 alpha and get alpha
                            // Compute Multiply m, -c and get shift
                            // Compute Multiply l, alpha and get l
                            attention_get_l(m_old, m, alpha, c, shift, l);
                            eager_kept = ftl_any((alpha[0] < 0.0625f) | (alpha[1] < 0.0625f));
                        }
                    }
                    // Compute MultiplyAdd S, c, shift and get T
                    // Compute Exp2 T and get T
                    // Compute RowSum T and get part
                    // Compute Cast T and get P
                    attention_get_P(S, c, shift, T, part, P_next);
                    // let slow = any(not part < 32768)
                    const bool slow = ftl_any((!(part[0] < 32768.0f)) | (!(part[1] < 32768.0f)));
                    // if slow
                    if (__builtin_expect(slow, 0)) {
                        // Compute Cast m and get m_old
                        FTL_UNROLL for (int half = 0; half < 2; half++) m_old[half] = m[half];
                        // Compute RowMax S and accumulate m
                        attention_accumulate_m(S, m);
                        // Compute Subtract m_old, m and get alpha
                        // Compute Multiply alpha, c and get alpha
                        // Compute Exp2 alpha and get alpha
                        // Compute Multiply m, -c and get shift
                        // Compute Multiply l, alpha and get l
                        attention_get_l(m_old, m, alpha, c, shift, l);
                        // Compute MultiplyAdd S, c, shift and get T
                        // Compute Exp2 T and get T
                        // Compute RowSum T and get part
                        // Compute Cast T and get P
                        attention_get_P(S, c, shift, T, part, P_next);
                        eager_kept = ftl_any((alpha[0] < 0.0625f) | (alpha[1] < 0.0625f));
                    }
                    // Compute Add l, part and get l
                    FTL_UNROLL for (int half = 0; half < 2; half++) l[half] = ftl_add(l[half], part[half]);
                    // Reshape P from mma_C to mma_A
                    ftl_keep_pairs(P_next); // (the same registers)
                    // Wait O_register
                    ftl_wgmma_wait<0>();
                    ftl_keep(O_register);
                    ftl_keep_pairs(P_held);
                    // Release V_shared
                    if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
                    // if eager or slow
                    if (__builtin_expect(eager || slow, 0)) {
                        // Compute Multiply O_register, alpha and get O_register
                        FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                            FTL_UNROLL for (int half = 0; half < 2; half++) {
                                O_register[n8][2 * half] = ftl_multiply(O_register[n8][2 * half], alpha[half]);
                                O_register[n8][2 * half + 1] = ftl_multiply(O_register[n8][2 * half + 1], alpha[half]);
                            }
                    }
                };
#pragma unroll 1
                for (;;) {
                    if (j >= j_end) {
                        FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                            FTL_UNROLL for (int half = 0; half < 2; half++) P_1[n8][half] = P_0[n8][half] ^ ftl_zero();
                        break;
                    }
                    iteration_of_j(P_0, P_1);
                    j++;
                    if (j >= j_end) {
                        break;
                    }
                    iteration_of_j(P_1, P_0);
                    j++;
                }
            }
            // Release Q_shared
            if (lane == 0) ftl_mbarrier_signal(shared + at::Q_empty + 8 * Q_oldest);
            Q_oldest = Q_oldest == 1 ? 0 : Q_oldest + 1;
            // the block's next tile
            const int tile_next = ftl_uniform(tile_known);
            const bool has_more = tile_next < args.tiles;
            tile_place next = tile;
            // if more(tile)
            if (has_more) {
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    // Compute Cast l and get l_end
                    l_end[half] = l[half];
                    // Compute Fill -1e30 and get m
                    m[half] = -1e+30f;
                    // Compute Fill 0 and get l
                    l[half] = 0.0f;
                    // Compute Fill 1 and get alpha
                    alpha[half] = 1.0f;
                }
                // Wait Q_shared
                Q_held.wait(shared + at::Q_full);
                // Wait K_shared
                K_held.wait(shared + at::K_full);
                // Wait tensor
                ftl_meet(1 + executor, 256);
                // Compute GEMM Q_shared, K_shared.T and get S by m64n128k16 async
                attention_get_S(S, Q_left, Q_held.slot * (at::Q_slot / 16), K_right, K_held.slot * (at::K_slot / 16),
                    lines_128_by_1024);
                // Wait V_shared
                V_held.wait(shared + at::V_full);
                // Compute GEMM P, V_shared and accumulate O_register by m64n128k16 async
                ftl_keep(O_register);
                ftl_keep_pairs(P_1);
                attention_accumulate_O(O_register, P_1, V_right_transposed, V_held.slot * (at::V_slot / 16),
                    lines_128_by_1024, O_register_holds);
                O_register_holds = true;
                // Release tensor
                ftl_meet_later(2 - executor, 256);
                // Reshape l_end from partial rows to rows
                FTL_UNROLL for (int half = 0; half < 2; half++) l_end[half] = ftl_of_row<ftl_add>(l_end[half]);
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    // Compute Max l_end, 1e-30 and get l_end
                    l_end[half] = ftl_max(l_end[half], 1e-30f);
                    // Compute Reciprocal l_end and get l_end
                    l_end[half] = ftl_reciprocal(l_end[half]);
                }
                next = tile_at(tile_next);
                // the block's next tile, after the last products of this one
                if (1 >= next.blocks) {
                    number_held.wait(shared + at::numbers_there);
                    tile_known = ftl_load_shared_i32(shared + at::numbers + 4 * number_held.slot);
                    ftl_mbarrier_signal_each(number_held.of(shared + at::numbers_read), lane);
                }
                // Wait S
                ftl_wgmma_wait<1>();
                ftl_keep(S);
                // Release K_shared
                if (lane == 0) ftl_mbarrier_signal(K_held.of(shared + at::K_empty));
                // if 0 >= next(full)
                if (0 >= next.full) {
                    // Compute Mask S in coordinate [L = next(q_block), L = 0] where kv > q + offset
                    const int thread = ftl_thread(), lane = thread & 31, warp = (thread >> 5) - 4;
                    const int S_row = warp * 16 + (lane >> 2), S_column = (lane & 3) * 2;
                    const int q_first = next.q_block * BM + S_row;
                    const int kv_first = S_column;
                    const int limit_7 = q_first + offset - kv_first;
                    FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                        FTL_UNROLL for (int half = 0; half < 2; half++) {
                            S[n8][2 * half] = 8 * n8 - 8 * half > limit_7 ? -ftl_infinity() : S[n8][2 * half];
                            S[n8][2 * half + 1] = 8 * n8 + 1 - 8 * half > limit_7 ? -ftl_infinity()
                                : S[n8][2 * half + 1];
                        }
                }
                // Compute RowMax S and accumulate m
                attention_accumulate_m(S, m);
                // Compute Multiply m, -c and get shift
                FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -c);
                // Compute MultiplyAdd S, c, shift and get T
                // Compute Exp2 T and get T
                // Compute RowSum T and get part
                // Compute Cast T and get P
                attention_get_P(S, c, shift, T, part, P_0);
                // Compute Add l, part and get l
                FTL_UNROLL for (int half = 0; half < 2; half++) l[half] = ftl_add(l[half], part[half]);
                // Reshape P from mma_C to mma_A
                ftl_keep_pairs(P_0); // (the same registers)
                // Wait O_register
                ftl_pin(part[0], part[1]); // before the wait, not after it
                ftl_wgmma_wait<0>();
                ftl_keep(O_register);
                ftl_keep_pairs(P_1);
                // Release V_shared
                if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
            } else {
                // if not more(tile)
                // Compute Cast l and get l_end
                FTL_UNROLL for (int half = 0; half < 2; half++) l_end[half] = l[half];
                // Wait V_shared
                V_held.wait(shared + at::V_full);
                // Wait tensor
                ftl_meet(1 + executor, 256);
                // Compute GEMM P, V_shared and accumulate O_register by m64n128k16 async
                ftl_keep(O_register);
                ftl_keep_pairs(P_1);
                attention_accumulate_O(O_register, P_1, V_right_transposed, V_held.slot * (at::V_slot / 16),
                    lines_128_by_1024, O_register_holds);
                O_register_holds = true;
                // Release tensor
                ftl_meet_later(2 - executor, 256);
                // Reshape l_end from partial rows to rows
                FTL_UNROLL for (int half = 0; half < 2; half++) l_end[half] = ftl_of_row<ftl_add>(l_end[half]);
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    // Compute Max l_end, 1e-30 and get l_end
                    l_end[half] = ftl_max(l_end[half], 1e-30f);
                    // Compute Reciprocal l_end and get l_end
                    l_end[half] = ftl_reciprocal(l_end[half]);
                }
                // Wait O_register
                ftl_wgmma_wait<0>();
                ftl_keep(O_register);
                ftl_keep_pairs(P_1);
                // Release V_shared
                if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
                FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                    FTL_UNROLL for (int half = 0; half < 2; half++) P_0[n8][half] = P_1[n8][half];
            }
            // Compute Multiply O_register, l_end and get O_register
            FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    O_register[n8][2 * half] = ftl_multiply(O_register[n8][2 * half], l_end[half]);
                    O_register[n8][2 * half + 1] = ftl_multiply(O_register[n8][2 * half + 1], l_end[half]);
                }
            // if not first(tile)
                // Wait O_global
                // (before these bytes are written again)
                // Release O_shared
            // Copy O from register to shared by stmatrix
            if (lane == 0 && warp % 4 == 0) ftl_tma_store_wait<0>();
            ftl_meet(3 + executor, 128);
            {
                const int thread = ftl_thread(), lane = thread & 31, warp = (thread >> 5) - 4;
                const int line = warp * 16 + (lane & 15);
                const unsigned target = O_shared + (unsigned)(line * 128 + ((lane >> 4 << 4) ^ (line & 7) << 4));
                FTL_UNROLL for (int n16 = 0; n16 < 8; n16++)
                    ftl_stmatrix_x4((target ^ (32 * n16 & 127)) + 32 * n16 / 128 * 16384,
                        ftl_pack_f16(O_register[2 * n16][0], O_register[2 * n16][1]),
                        ftl_pack_f16(O_register[2 * n16][2], O_register[2 * n16][3]),
                        ftl_pack_f16(O_register[2 * n16 + 1][0], O_register[2 * n16 + 1][1]),
                        ftl_pack_f16(O_register[2 * n16 + 1][2], O_register[2 * n16 + 1][3]));
            }
            ftl_fence_async();
            // Wait O_shared
            ftl_meet(3 + executor, 128);
            // Copy O (BM, dv) in coordinate [b, head, L = q_block] from shared to global by tma async
            {
                const int O_at_0 = ftl_uniform(tile.b);
                const int O_at_1 = ftl_uniform(tile.head);
                const int O_at_2 = ftl_uniform(tile.q_block * BM);
                if (lane == 0 && warp % 4 == 0) {
                    ftl_tma_store_4(args.O_map, shared + at::O_tile + executor * 8192, 0, O_at_2 + executor * 64,
                        O_at_1, O_at_0);
                    ftl_tma_store_4(args.O_map, shared + (at::O_tile + 16384) + executor * 8192, 64,
                        O_at_2 + executor * 64, O_at_1, O_at_0);
                    ftl_tma_store_commit();
                }
            }
            tile_number = tile_next;
            tile = next;
            is_first = false;
        }
        // Wait O_global
        // (before these bytes are written again)
        // Release O_shared
        if (lane == 0 && warp % 4 == 0) ftl_tma_store_wait<0>();
        if (executor == 0) ftl_meet(1, 256); // takes the last turn back
    }
}
