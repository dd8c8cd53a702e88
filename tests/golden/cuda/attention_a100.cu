// attention for a100 (compute_80), written by FlashTL from TL Code.
// Launch with 128 threads a block, 98304 bytes of dynamic shared memory, one block for each tile of
// `grid head in q_heads, b in batch, q_block in q_len/BM reversed`.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "this kernel was made for compute_80 and later GPUs"
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

// a/b as a * (1/b): within 2 ulp where 1/b is normal.
__device__ __forceinline__ float ftl_divide(float a, float b) { return __fmul_rn(a, ftl_reciprocal(b)); }

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

__device__ __forceinline__ void ftl_cp_async_16(unsigned target, const void *source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}

// Copies 16 bytes, or writes 16 zero bytes and reads nothing.
__device__ __forceinline__ void ftl_cp_async_16_or_zero(unsigned target, const void *source, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

// Closes the group of the copies issued since the last one.
__device__ __forceinline__ void ftl_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most GROUPS of this thread's groups are in flight.
template <int GROUPS> __device__ __forceinline__ void ftl_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}

__device__ __forceinline__ void ftl_ldmatrix_x4(unsigned &m0, unsigned &m1, unsigned &m2, unsigned &m3,
                                                unsigned source) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_ldmatrix_x4_trans(unsigned &m0, unsigned &m1, unsigned &m2, unsigned &m3,
                                                      unsigned source) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_global_16(void *target, const unsigned (&unit)[4]) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(unit[0]), "r"(unit[1]),
                 "r"(unit[2]), "r"(unit[3])
                 : "memory");
}

__device__ __forceinline__ void ftl_load_shared_16(unsigned (&unit)[4], unsigned source) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(unit[0]), "=r"(unit[1]), "=r"(unit[2]), "=r"(unit[3])
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_store_shared_4(unsigned target, unsigned word) {
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(target), "r"(word) : "memory");
}

__device__ __forceinline__ void ftl_mma_m16n8k16_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2,
                                                     unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1),
          "f"(d[0]), "f"(d[1]), "f"(d[2]), "f"(d[3]));
}

__device__ __forceinline__ void ftl_mma_m16n8k16_f16_start(float (&d)[4], unsigned a0, unsigned a1, unsigned a2,
                                                           unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1),
          "f"(0.0f), "f"(0.0f), "f"(0.0f), "f"(0.0f));
}

#define FTL_UNROLL _Pragma("unroll")

// The number of this thread in its block, read anew each time.
__device__ __forceinline__ int ftl_thread() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread;
}

// The number of this block in its grid, likewise.
__device__ __forceinline__ unsigned ftl_block() {
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

// Byte offset of the block's dynamic shared memory in the shared window.
extern __shared__ __align__(1024) unsigned char ftl_dynamic_shared[];
__device__ __forceinline__ unsigned ftl_shared_base() { return (unsigned)__cvta_generic_to_shared(ftl_dynamic_shared); }

// All threads of the block: what they wrote before it is visible after it.
__device__ __forceinline__ void ftl_block_barrier() { __syncthreads(); }

// All threads of the warp, likewise.
__device__ __forceinline__ void ftl_warp_barrier() { __syncwarp(); }

// The value of the lane whose number differs by 'mask'.
__device__ __forceinline__ float ftl_exchange(float value, int mask) {
    return __shfl_xor_sync(0xffffffffu, value, mask);
}

// Shared memory, in bytes from its beginning: tiles, their slots, and the barriers of slots, 8 bytes each.
namespace attention_shared { enum : unsigned {
    Q_tile = 0,
    K_tile = 32768, K_slot = 16384, // 2 slots
    V_tile = 65536, V_slot = 16384, // 2 slots
    O_tile = 0,
}; } // namespace attention_shared

// Strides count elements. A pointer without a stride for an axis: that axis is contiguous.
// One followed by its sign has 64 bits, too, and is known to fit 32.
struct attention_parameters {
    const unsigned short *Q; // Input  Q f16 (b in batch, head in q_heads; q in q_len, d)
    long long Q_stride_b, Q_stride_head;
    int Q_stride_q, Q_stride_q_sign;
    // Input  K f16 (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0
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
};

extern "C" __global__ void __launch_bounds__(128, 1)
attention(const __grid_constant__ attention_parameters args) {
    const int lane = (int)threadIdx.x & 31, warp = (int)threadIdx.x >> 5;
    // let d = 128, dv = 128, BM = 128, BN = 64
    const int BM = 128, BN = 64;
    // let group = q_heads/kv_heads, offset = kv_len - q_len, c = scale*1.44269504
    const int group = ftl_divide_up(args.q_heads, args.kv_heads), offset = args.kv_len - args.q_len;
    const float c = ftl_multiply(args.scale, 1.44269504f);
    // grid head in q_heads, b in batch, q_block in q_len/BM reversed
    unsigned tile = blockIdx.x;
    const int head = (int)(tile % (unsigned)args.q_heads);
    tile /= (unsigned)args.q_heads;
    const int b = (int)(tile % (unsigned)args.batch);
    tile /= (unsigned)args.batch;
    const int q_block = ftl_divide_up(args.q_len, BM) - 1 - (int)tile;
    // let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))
    const int blocks = ftl_max_integer(1, ftl_divide_up(ftl_min_integer(args.kv_len, (q_block + 1) * BM + offset), BN));
    // let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)
    const int full = ftl_divide_down(ftl_min_integer(args.kv_len, q_block * BM + offset + 1), BN);
    namespace at = attention_shared;
    const unsigned shared = ftl_shared_base();
    const unsigned Q_shared = shared + at::Q_tile;
    unsigned K_shared = shared + (at::K_tile + at::K_slot); // slot of the generation held
    unsigned V_shared = shared + (at::V_tile + at::V_slot); // slot of the generation held
    const unsigned O_shared = shared + at::O_tile;
    // role math with 4 warps
    // Allocate S in register f32 (BM, BN) as mma_C
    float S[2][8][4];
    // Allocate P in register f16 (BM, BN) as mma_C
    unsigned P[2][8][2];
    // Allocate O in register f32 (BM, dv) as mma_C
    float O_register[2][16][4];
    // Allocate m, m_old, alpha, shift in register f32 (BM) as rows of S
    float m[2][2], m_old[2][2], alpha[2][2], shift[2][2];
    // Allocate l in register f32 (BM) as partial rows of S
    float l[2][2];
    // Copy Q (BM, d) in coordinate [b, head, L = q_block] from global to shared by cp_async async
    {
        const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
        const int row = warp * 2 + (lane >> 4), column = (lane & 15) * 8;
        const int rows_left = args.q_len - q_block * BM;
        unsigned target = Q_shared;
        {
            const int line = warp * 2 + (lane >> 4), byte = (lane & 15) * 16;
            target += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
        }
        const unsigned short *source = args.Q + (unsigned)b * args.Q_stride_b + (unsigned)head * args.Q_stride_head
            + (q_block * BM + row) * (long long)args.Q_stride_q + column;
        if (rows_left >= 128) {
            FTL_UNROLL for (int down = 0; down < 16; down++)
                ftl_cp_async_16(target + 2048 * down, source + 8 * down * (long long)args.Q_stride_q);
        } else {
            FTL_UNROLL for (int down = 0; down < 16; down++) {
                const bool inside = row + 8 * down < rows_left;
                ftl_cp_async_16_or_zero(target + 2048 * down,
                    inside ? source + 8 * down * (long long)args.Q_stride_q : args.Q, inside);
            }
        }
    }
    ftl_cp_async_commit();
    // Copy K (BN, d) in coordinate [b, head/group, L = 0] from global to shared by cp_async async
    {
        const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
        const int row = warp * 2 + (lane >> 4), column = (lane & 15) * 8;
        const int rows_left = args.kv_len;
        unsigned target = 2 * shared + (2 * at::K_tile + at::K_slot) - K_shared;
        {
            const int line = warp * 2 + (lane >> 4), byte = (lane & 15) * 16;
            target += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
        }
        const unsigned short *source = args.K + (unsigned)b * args.K_stride_b
            + (unsigned)(head / group) * args.K_stride_kv_heads + (row) * (long long)args.K_stride_kv + column;
        if (rows_left >= 64) {
            FTL_UNROLL for (int down = 0; down < 8; down++)
                ftl_cp_async_16(target + 2048 * down, source + 8 * down * (long long)args.K_stride_kv);
        } else {
            FTL_UNROLL for (int down = 0; down < 8; down++) {
                const bool inside = row + 8 * down < rows_left;
                ftl_cp_async_16_or_zero(target + 2048 * down,
                    inside ? source + 8 * down * (long long)args.K_stride_kv : args.K, inside);
            }
        }
    }
    ftl_cp_async_commit();
    // Copy V (BN, dv) in coordinate [b, head/group, L = 0] from global to shared by cp_async async
    {
        const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
        const int row = warp * 2 + (lane >> 4), column = (lane & 15) * 8;
        const int rows_left = args.kv_len;
        unsigned target = 2 * shared + (2 * at::V_tile + at::V_slot) - V_shared;
        {
            const int line = warp * 2 + (lane >> 4), byte = (lane & 15) * 16;
            target += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
        }
        const unsigned short *source = args.V + (unsigned)b * args.V_stride_b
            + (unsigned)(head / group) * args.V_stride_kv_heads + (row) * (long long)args.V_stride_kv + column;
        if (rows_left >= 64) {
            FTL_UNROLL for (int down = 0; down < 8; down++)
                ftl_cp_async_16(target + 2048 * down, source + 8 * down * (long long)args.V_stride_kv);
        } else {
            FTL_UNROLL for (int down = 0; down < 8; down++) {
                const bool inside = row + 8 * down < rows_left;
                ftl_cp_async_16_or_zero(target + 2048 * down,
                    inside ? source + 8 * down * (long long)args.V_stride_kv : args.V, inside);
            }
        }
    }
    ftl_cp_async_commit();
    // Compute Fill 0 and get O_register
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                O_register[m16][n8][2 * half] = 0.0f;
                O_register[m16][n8][2 * half + 1] = 0.0f;
            }
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            // Compute Fill -1e30 and get m
            m[m16][half] = -1e+30f;
            // Compute Fill 0 and get l
            l[m16][half] = 0.0f;
        }
    // Wait Q_shared
    ftl_cp_async_wait<2>();
    ftl_block_barrier();
    // for j = 0:blocks
#pragma unroll 1
    for (int j = 0; j < blocks; j++) {
        // Wait K_shared
        ftl_cp_async_wait<1>();
        ftl_block_barrier();
        K_shared = shared + at::K_tile + (unsigned)(j & 1) * at::K_slot;
        // if j + 1 < blocks
        if (j + 1 < blocks) {
            // Copy K (BN, d) in coordinate [b, head/group, L = j + 1] from global to shared by cp_async async
            {
                const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
                const int row = warp * 2 + (lane >> 4), column = (lane & 15) * 8;
                const int rows_left = args.kv_len - (j + 1) * BN;
                unsigned target = 2 * shared + (2 * at::K_tile + at::K_slot) - K_shared;
                {
                    const int line = warp * 2 + (lane >> 4), byte = (lane & 15) * 16;
                    target += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
                }
                const unsigned short *source = args.K + (unsigned)b * args.K_stride_b
                    + (unsigned)(head / group) * args.K_stride_kv_heads
                    + ((j + 1) * BN + row) * (long long)args.K_stride_kv + column;
                if (rows_left >= 64) {
                    FTL_UNROLL for (int down = 0; down < 8; down++)
                        ftl_cp_async_16(target + 2048 * down, source + 8 * down * (long long)args.K_stride_kv);
                } else {
                    FTL_UNROLL for (int down = 0; down < 8; down++) {
                        const bool inside = row + 8 * down < rows_left;
                        ftl_cp_async_16_or_zero(target + 2048 * down,
                            inside ? source + 8 * down * (long long)args.K_stride_kv : args.K, inside);
                    }
                }
            }
            ftl_cp_async_commit();
            // Copy V (BN, dv) in coordinate [b, head/group, L = j + 1] from global to shared by cp_async async
            {
                const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
                const int row = warp * 2 + (lane >> 4), column = (lane & 15) * 8;
                const int rows_left = args.kv_len - (j + 1) * BN;
                unsigned target = V_shared;
                {
                    const int line = warp * 2 + (lane >> 4), byte = (lane & 15) * 16;
                    target += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
                }
                const unsigned short *source = args.V + (unsigned)b * args.V_stride_b
                    + (unsigned)(head / group) * args.V_stride_kv_heads
                    + ((j + 1) * BN + row) * (long long)args.V_stride_kv + column;
                if (rows_left >= 64) {
                    FTL_UNROLL for (int down = 0; down < 8; down++)
                        ftl_cp_async_16(target + 2048 * down, source + 8 * down * (long long)args.V_stride_kv);
                } else {
                    FTL_UNROLL for (int down = 0; down < 8; down++) {
                        const bool inside = row + 8 * down < rows_left;
                        ftl_cp_async_16_or_zero(target + 2048 * down,
                            inside ? source + 8 * down * (long long)args.V_stride_kv : args.V, inside);
                    }
                }
            }
            ftl_cp_async_commit();
        } else {
            ftl_cp_async_commit();
            ftl_cp_async_commit();
        }
        // Compute GEMM Q_shared, K_shared.T and get S by m16n8k16
        {
            unsigned left = Q_shared;
            {
                const int line = warp * 32 + (lane & 15), byte = (lane >> 4) * 16;
                left += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
            }
            unsigned right = K_shared;
            {
                const int line = (lane & 7) + (lane >> 4) * 8, byte = ((lane >> 3) & 1) * 16;
                right += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
            }
            FTL_UNROLL for (int k16 = 0; k16 < 8; k16++) {
                unsigned fragment_a[2][4];
                FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                    ftl_ldmatrix_x4(fragment_a[m16][0], fragment_a[m16][1], fragment_a[m16][2], fragment_a[m16][3],
                        (left ^ (2 * k16 * 16 & 127)) + (2 * k16 * 16 & ~127) + 2 * m16 * 2048);
                FTL_UNROLL for (int n8 = 0; n8 < 8; n8 += 2) {
                    unsigned fragment_b[4];
                    ftl_ldmatrix_x4(fragment_b[0], fragment_b[1], fragment_b[2], fragment_b[3],
                        (right ^ (2 * k16 * 16 & 127)) + (2 * k16 * 16 & ~127) + n8 * 2048);
                    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++) {
                        if (k16 == 0)
                            ftl_mma_m16n8k16_f16_start(S[m16][n8], fragment_a[m16][0], fragment_a[m16][1],
                                fragment_a[m16][2], fragment_a[m16][3], fragment_b[0], fragment_b[1]);
                        else
                            ftl_mma_m16n8k16_f16(S[m16][n8], fragment_a[m16][0], fragment_a[m16][1], fragment_a[m16][2],
                                fragment_a[m16][3], fragment_b[0], fragment_b[1]);
                    }
                    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++) {
                        if (k16 == 0)
                            ftl_mma_m16n8k16_f16_start(S[m16][n8 + 1], fragment_a[m16][0], fragment_a[m16][1],
                                fragment_a[m16][2], fragment_a[m16][3], fragment_b[2], fragment_b[3]);
                        else
                            ftl_mma_m16n8k16_f16(S[m16][n8 + 1], fragment_a[m16][0], fragment_a[m16][1],
                                fragment_a[m16][2], fragment_a[m16][3], fragment_b[2], fragment_b[3]);
                    }
                }
            }
        }
        // Release K_shared
        // if j >= full
        if (j >= full) {
            // Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset
            {
                const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
                const int S_row = warp * 32 + (lane >> 2), S_column = (lane & 3) * 2;
                const int q_first = q_block * BM + S_row;
                const int kv_first = j * BN + S_column;
                int limit_1[2][2];
                FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                    FTL_UNROLL for (int half = 0; half < 2; half++)
                        limit_1[m16][half] = (q_first + 16 * m16 + 8 * half) + offset - kv_first;
                FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                    FTL_UNROLL for (int n8 = 0; n8 < 8; n8++)
                        FTL_UNROLL for (int half = 0; half < 2; half++) {
                            S[m16][n8][2 * half] = 8 * n8 > limit_1[m16][half] ? -ftl_infinity() : S[m16][n8][2 * half];
                            S[m16][n8][2 * half + 1] = 8 * n8 + 1 > limit_1[m16][half] ? -ftl_infinity()
                                : S[m16][n8][2 * half + 1];
                        }
            }
        }
        // Compute Cast m and get m_old
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int half = 0; half < 2; half++) m_old[m16][half] = m[m16][half];
        // Compute RowMax S and accumulate m
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int n8 = 0; n8 < 8; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++)
                    m[m16][half] = ftl_max(m[m16][half], ftl_max(S[m16][n8][2 * half], S[m16][n8][2 * half + 1]));
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                m[m16][half] = ftl_max(m[m16][half], ftl_exchange(m[m16][half], 1));
                m[m16][half] = ftl_max(m[m16][half], ftl_exchange(m[m16][half], 2));
            }
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                // Compute Subtract m_old, m and get alpha
                alpha[m16][half] = ftl_subtract(m_old[m16][half], m[m16][half]);
                // Compute Multiply alpha, c and get alpha
                alpha[m16][half] = ftl_multiply(alpha[m16][half], c);
                // Compute Exp2 alpha and get alpha
                alpha[m16][half] = ftl_exp2(alpha[m16][half]);
                // Compute Multiply m, -c and get shift
                shift[m16][half] = ftl_multiply(m[m16][half], -c);
                // Compute Multiply l, alpha and get l
                l[m16][half] = ftl_multiply(l[m16][half], alpha[m16][half]);
            }
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int n8 = 0; n8 < 8; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    // Compute MultiplyAdd S, c, shift and get S
                    S[m16][n8][2 * half] = ftl_multiply_add(S[m16][n8][2 * half], c, shift[m16][half]);
                    S[m16][n8][2 * half + 1] = ftl_multiply_add(S[m16][n8][2 * half + 1], c, shift[m16][half]);
                    // Compute Exp2 S and get S
                    S[m16][n8][2 * half] = ftl_exp2(S[m16][n8][2 * half]);
                    S[m16][n8][2 * half + 1] = ftl_exp2(S[m16][n8][2 * half + 1]);
                    // Compute RowSum S and accumulate l
                    l[m16][half] = ftl_add(ftl_add(l[m16][half], S[m16][n8][2 * half]), S[m16][n8][2 * half + 1]);
                    // Compute Cast S and get P
                    P[m16][n8][half] = ftl_pack_f16(S[m16][n8][2 * half], S[m16][n8][2 * half + 1]);
                }
        // Compute Multiply O_register, alpha and get O_register
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++) {
                    O_register[m16][n8][2 * half] = ftl_multiply(O_register[m16][n8][2 * half], alpha[m16][half]);
                    O_register[m16][n8][2 * half + 1]
                        = ftl_multiply(O_register[m16][n8][2 * half + 1], alpha[m16][half]);
                }
        // Reshape P from mma_C to mma_A
        // (the same registers)
        // Wait V_shared
        ftl_cp_async_wait<2>();
        ftl_block_barrier();
        V_shared = shared + at::V_tile + (unsigned)(j & 1) * at::V_slot;
        // Compute GEMM P, V_shared and accumulate O_register by m16n8k16
        {
            unsigned right = V_shared;
            {
                const int line = (lane & 15), byte = (lane >> 4) * 16;
                right += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
            }
            FTL_UNROLL for (int k16 = 0; k16 < 4; k16++)
                FTL_UNROLL for (int n8 = 0; n8 < 16; n8 += 2) {
                    unsigned fragment_b[4];
                    ftl_ldmatrix_x4_trans(fragment_b[0], fragment_b[1], fragment_b[2], fragment_b[3],
                        (right ^ (n8 * 16 & 127)) + (n8 * 16 & ~127) + 2 * k16 * 2048);
                    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                        ftl_mma_m16n8k16_f16(O_register[m16][n8], P[m16][2 * k16][0], P[m16][2 * k16][1],
                            P[m16][2 * k16 + 1][0], P[m16][2 * k16 + 1][1], fragment_b[0], fragment_b[1]);
                    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                        ftl_mma_m16n8k16_f16(O_register[m16][n8 + 1], P[m16][2 * k16][0], P[m16][2 * k16][1],
                            P[m16][2 * k16 + 1][0], P[m16][2 * k16 + 1][1], fragment_b[2], fragment_b[3]);
                }
        }
        // Release V_shared
    }
    // Release Q_shared
    // Reshape l from partial rows to rows
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            l[m16][half] = ftl_add(l[m16][half], ftl_exchange(l[m16][half], 1));
            l[m16][half] = ftl_add(l[m16][half], ftl_exchange(l[m16][half], 2));
        }
    // Compute Max l, 1e-30 and get l
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int half = 0; half < 2; half++) l[m16][half] = ftl_max(l[m16][half], 1e-30f);
    // Compute Divide O_register, l and get O_register
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                O_register[m16][n8][2 * half] = ftl_divide(O_register[m16][n8][2 * half], l[m16][half]);
                O_register[m16][n8][2 * half + 1] = ftl_divide(O_register[m16][n8][2 * half + 1], l[m16][half]);
            }
    // Copy O from register to shared
    ftl_block_barrier();
    {
        const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
        unsigned place = O_shared;
        {
            const int line = warp * 32 + (lane >> 2), byte = (lane & 3) * 4;
            place += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
        }
        FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
            FTL_UNROLL for (int n8 = 0; n8 < 16; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++)
                    ftl_store_shared_4((place ^ (16 * n8 & 127)) + (16 * n8 & ~127) + 4096 * m16 + 2048 * half,
                        ftl_pack_f16(O_register[m16][n8][2 * half], O_register[m16][n8][2 * half + 1]));
    }
    // Wait O_shared
    ftl_warp_barrier();
    // Copy O (BM, dv) in coordinate [b, head, L = q_block] from shared to global
    {
        const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
        unsigned tile = ftl_block();
        const int head = (int)(tile % (unsigned)args.q_heads);
        tile /= (unsigned)args.q_heads;
        const int b = (int)(tile % (unsigned)args.batch);
        tile /= (unsigned)args.batch;
        const int q_block = ftl_divide_up(args.q_len, BM) - 1 - (int)tile;
        const int row = warp * 32 + (lane >> 4), column = (lane & 15) * 8;
        const int rows_left = args.q_len - q_block * BM;
        unsigned source = O_shared;
        {
            const int line = warp * 32 + (lane >> 4), byte = (lane & 15) * 16;
            source += (unsigned)(line * 256 + (byte ^ (line & 7) << 4));
        }
        unsigned short *target = args.O + (unsigned)b * args.O_stride_b + (unsigned)head * args.O_stride_head
            + (q_block * BM + row) * (long long)args.O_stride_q + column;
        if (rows_left >= 128) {
            FTL_UNROLL for (int down = 0; down < 16; down++) {
                unsigned unit[4];
                ftl_load_shared_16(unit, (source ^ (2 * down & 7) << 4) + 512 * down);
                ftl_store_global_16(target + 2 * down * (long long)args.O_stride_q, unit);
            }
        } else {
            FTL_UNROLL for (int down = 0; down < 16; down++) {
                if (row + 2 * down < rows_left) {
                    unsigned unit[4];
                    ftl_load_shared_16(unit, (source ^ (2 * down & 7) << 4) + 512 * down);
                    ftl_store_global_16(target + 2 * down * (long long)args.O_stride_q, unit);
                }
            }
        }
    }
    // Release O_shared
}
