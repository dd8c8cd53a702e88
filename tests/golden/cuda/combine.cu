// combine for a100 (compute_80), written by FlashTL from TL Code.
// Launch with 128 threads a block, 0 bytes of dynamic shared memory, one block for each tile of
// `grid q_block in q_len/BM, head in q_heads, b in batch`.

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "this kernel was made for compute_80 and later GPUs"
#endif

__device__ __forceinline__ float ftl_add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ float ftl_subtract(float a, float b) { return __fadd_rn(a, -b); }
__device__ __forceinline__ float ftl_multiply(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ float ftl_multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ float ftl_max(float a, float b) { return fmaxf(a, b); }

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

// e to the a: relative error grows with |a|, below 6e-6 up to |a| = 87.
__device__ __forceinline__ float ftl_exp(float a) { return ftl_exp2(__fmul_rn(a, 1.44269504f)); }

__device__ __forceinline__ int ftl_divide_up(int a, int b) {
    const int quotient = a / b, rest = a - quotient * b;
    return quotient + (rest != 0 && (rest < 0) == (b < 0));
}

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

__device__ __forceinline__ void ftl_store_global_8_f16(void *target, const float (&unit)[4]) {
    const unsigned low = ftl_pack_f16(unit[0], unit[1]), high = ftl_pack_f16(unit[2], unit[3]);
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(target), "r"(low), "r"(high) : "memory");
}

__device__ __forceinline__ float ftl_load_global_f32(const float *source) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(source) : "memory");
    return value;
}

__device__ __forceinline__ void ftl_load_global_16_f32(float (&unit)[4], const void *source) {
    asm volatile("ld.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(unit[0]), "=f"(unit[1]), "=f"(unit[2]), "=f"(unit[3])
                 : "l"(source)
                 : "memory");
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

// Strides count elements. A pointer without a stride for an axis: that axis is contiguous.
// One followed by its sign has 64 bits, too, and is known to fit 32.
struct combine_parameters {
    const float *O_part; // Input  O_part f32 (split in splits, b in batch, head in q_heads; q in q_len, dv)
    long long O_part_stride_split, O_part_stride_b, O_part_stride_head;
    int O_part_stride_q, O_part_stride_q_sign;
    const float *lse_part; // Input  lse_part f32 (split in splits, b in batch, head in q_heads; q in q_len)
    long long lse_part_stride_split, lse_part_stride_b, lse_part_stride_head, lse_part_stride_q;
    unsigned short *O; // Output O f16 (b in batch, head in q_heads; q in q_len, dv)
    long long O_stride_b, O_stride_head;
    int O_stride_q, O_stride_q_sign;
    int splits, batch, q_heads, q_len;
};

// What the kernel does at several places, inlined at each.
__device__ __forceinline__ void combine_get_l(float (&m)[2], float (&m_old)[2], float (&w)[2], float (&alpha)[2],
    float (&l)[2]) {
    FTL_UNROLL for (int down = 0; down < 2; down++) {
        m_old[down] = m[down];
        m[down] = ftl_max(m[down], w[down]);
        alpha[down] = ftl_subtract(m_old[down], m[down]);
        alpha[down] = ftl_exp(alpha[down]);
        w[down] = ftl_subtract(w[down], m[down]);
        w[down] = ftl_exp(w[down]);
        l[down] = ftl_multiply(l[down], alpha[down]);
        l[down] = ftl_add(l[down], w[down]);
    }
}

__device__ __forceinline__ void combine_accumulate_O(float (&O_register)[2][1][4], const float (&alpha)[2],
    const float (&O_part_register)[2][1][4], const float (&w)[2]) {
    FTL_UNROLL for (int down = 0; down < 2; down++)
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            O_register[down][0][2 * half] = ftl_multiply(O_register[down][0][2 * half], alpha[down]);
            O_register[down][0][2 * half + 1] = ftl_multiply(O_register[down][0][2 * half + 1], alpha[down]);
            O_register[down][0][2 * half]
                = ftl_multiply_add(O_part_register[down][0][2 * half], w[down], O_register[down][0][2 * half]);
            O_register[down][0][2 * half + 1]
                = ftl_multiply_add(O_part_register[down][0][2 * half + 1], w[down], O_register[down][0][2 * half + 1]);
        }
}

extern "C" __global__ void __launch_bounds__(128, 6)
combine(const __grid_constant__ combine_parameters args) {
    // let dv = 128, BM = 8
    const int BM = 8;
    // grid q_block in q_len/BM, head in q_heads, b in batch
    unsigned tile = blockIdx.x;
    const int q_block = (int)(tile % (unsigned)ftl_divide_up(args.q_len, BM));
    tile /= (unsigned)ftl_divide_up(args.q_len, BM);
    const int head = (int)(tile % (unsigned)args.q_heads);
    tile /= (unsigned)args.q_heads;
    const int b = (int)tile;
    // role math with 4 warps
    // Allocate O_part, O in register f32 (BM, dv) as lines
    float O_part_register[2][1][4], O_register[2][1][4];
    // Allocate w, m, m_old, alpha, l in register f32 (BM) as rows of O
    float w[2], m[2], m_old[2], alpha[2], l[2];
    // Compute Fill 0 and get O_register
    FTL_UNROLL for (int down = 0; down < 2; down++)
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            O_register[down][0][2 * half] = 0.0f;
            O_register[down][0][2 * half + 1] = 0.0f;
        }
    FTL_UNROLL for (int down = 0; down < 2; down++) {
        // Compute Fill -1e30 and get m
        m[down] = -1e+30f;
        // Compute Fill 0 and get l
        l[down] = 0.0f;
    }
    // for s = 0:splits
    const int s_whole = args.splits / 8 * 8;
#pragma unroll 8
    for (int s = 0; s < s_whole; s++) {
        // Copy lse_part (BM) in coordinate [s, b, head, L = q_block] from global to register and get w
        {
            const int thread = ftl_thread(), warp = thread >> 5, w_row = warp * 1;
            const int rows_left = args.q_len - q_block * BM;
            const float *vector = args.lse_part + (unsigned)s * args.lse_part_stride_split
                + (unsigned)b * args.lse_part_stride_b + (unsigned)head * args.lse_part_stride_head
                + (unsigned)(q_block * BM) * args.lse_part_stride_q;
            FTL_UNROLL for (int down = 0; down < 2; down++)
                w[down] = w_row + 4 * down < rows_left
                    ? ftl_load_global_f32(vector + (w_row + 4 * down) * args.lse_part_stride_q) : 0.0f;
        }
        // Copy O_part (BM, dv) in coordinate [s, b, head, L = q_block] from global to register
        {
            const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5, row = warp * 1;
            const int column = lane * 4;
            const int rows_left = args.q_len - q_block * BM;
            const float *source = args.O_part + (unsigned)s * args.O_part_stride_split
                + (unsigned)b * args.O_part_stride_b + (unsigned)head * args.O_part_stride_head
                + (q_block * BM + row) * (long long)args.O_part_stride_q + column;
            if (rows_left >= 8) {
                FTL_UNROLL for (int down = 0; down < 2; down++)
                    ftl_load_global_16_f32(O_part_register[down][0],
                        source + 4 * down * (long long)args.O_part_stride_q);
            } else {
                FTL_UNROLL for (int down = 0; down < 2; down++) {
                    if (row + 4 * down < rows_left)
                        ftl_load_global_16_f32(O_part_register[down][0],
                            source + 4 * down * (long long)args.O_part_stride_q);
                    else
                        O_part_register[down][0][0] = O_part_register[down][0][1] = O_part_register[down][0][2]
                            = O_part_register[down][0][3] = 0;
                }
            }
        }
        // Compute Cast m and get m_old
        // Compute Max m, w and get m
        // Compute Subtract m_old, m and get alpha
        // Compute Exp alpha and get alpha
        // Compute Subtract w, m and get w
        // Compute Exp w and get w
        // Compute Multiply l, alpha and get l
        // Compute Add l, w and get l
        combine_get_l(m, m_old, w, alpha, l);
        // Compute Multiply O_register, alpha and get O_register
        // Compute Multiply O_part_register, w and accumulate O_register
        combine_accumulate_O(O_register, alpha, O_part_register, w);
    }
#pragma unroll 4
    for (int s = s_whole; s < args.splits; s++) {
        // Copy lse_part (BM) in coordinate [s, b, head, L = q_block] from global to register and get w
        {
            const int thread = ftl_thread(), warp = thread >> 5, w_row = warp * 1;
            const int rows_left = args.q_len - q_block * BM;
            const float *vector = args.lse_part + (unsigned)s * args.lse_part_stride_split
                + (unsigned)b * args.lse_part_stride_b + (unsigned)head * args.lse_part_stride_head
                + (unsigned)(q_block * BM) * args.lse_part_stride_q;
            FTL_UNROLL for (int down = 0; down < 2; down++)
                w[down] = w_row + 4 * down < rows_left
                    ? ftl_load_global_f32(vector + (w_row + 4 * down) * args.lse_part_stride_q) : 0.0f;
        }
        // Copy O_part (BM, dv) in coordinate [s, b, head, L = q_block] from global to register
        {
            const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5, row = warp * 1;
            const int column = lane * 4;
            const int rows_left = args.q_len - q_block * BM;
            const float *source = args.O_part + (unsigned)s * args.O_part_stride_split
                + (unsigned)b * args.O_part_stride_b + (unsigned)head * args.O_part_stride_head
                + (q_block * BM + row) * (long long)args.O_part_stride_q + column;
            if (rows_left >= 8) {
                FTL_UNROLL for (int down = 0; down < 2; down++)
                    ftl_load_global_16_f32(O_part_register[down][0],
                        source + 4 * down * (long long)args.O_part_stride_q);
            } else {
                FTL_UNROLL for (int down = 0; down < 2; down++) {
                    if (row + 4 * down < rows_left)
                        ftl_load_global_16_f32(O_part_register[down][0],
                            source + 4 * down * (long long)args.O_part_stride_q);
                    else
                        O_part_register[down][0][0] = O_part_register[down][0][1] = O_part_register[down][0][2]
                            = O_part_register[down][0][3] = 0;
                }
            }
        }
        // Compute Cast m and get m_old
        // Compute Max m, w and get m
        // Compute Subtract m_old, m and get alpha
        // Compute Exp alpha and get alpha
        // Compute Subtract w, m and get w
        // Compute Exp w and get w
        // Compute Multiply l, alpha and get l
        // Compute Add l, w and get l
        combine_get_l(m, m_old, w, alpha, l);
        // Compute Multiply O_register, alpha and get O_register
        // Compute Multiply O_part_register, w and accumulate O_register
        combine_accumulate_O(O_register, alpha, O_part_register, w);
    }
    // Compute Max l, 1e-30 and get l
    FTL_UNROLL for (int down = 0; down < 2; down++) l[down] = ftl_max(l[down], 1e-30f);
    // Compute Divide O_register, l and get O_register
    FTL_UNROLL for (int down = 0; down < 2; down++)
        FTL_UNROLL for (int half = 0; half < 2; half++) {
            O_register[down][0][2 * half] = ftl_divide(O_register[down][0][2 * half], l[down]);
            O_register[down][0][2 * half + 1] = ftl_divide(O_register[down][0][2 * half + 1], l[down]);
        }
    // Copy O (BM, dv) in coordinate [b, head, L = q_block] from register to global
    {
        const int thread = ftl_thread(), lane = thread & 31, warp = thread >> 5;
        unsigned tile = ftl_block();
        const int q_block = (int)(tile % (unsigned)ftl_divide_up(args.q_len, BM));
        tile /= (unsigned)ftl_divide_up(args.q_len, BM);
        const int head = (int)(tile % (unsigned)args.q_heads);
        tile /= (unsigned)args.q_heads;
        const int b = (int)tile, row = warp * 1, column = lane * 4;
        const int rows_left = args.q_len - q_block * BM;
        unsigned short *target = args.O + (unsigned)b * args.O_stride_b + (unsigned)head * args.O_stride_head
            + (q_block * BM + row) * (long long)args.O_stride_q + column;
        if (rows_left >= 8) {
            FTL_UNROLL for (int down = 0; down < 2; down++)
                ftl_store_global_8_f16(target + 4 * down * (long long)args.O_stride_q, O_register[down][0]);
        } else {
            FTL_UNROLL for (int down = 0; down < 2; down++) {
                if (row + 4 * down < rows_left) {
                    ftl_store_global_8_f16(target + 4 * down * (long long)args.O_stride_q, O_register[down][0]);
                }
            }
        }
    }
}
