/* Attention forward in the manner of the emitted text: raw dynamic shared memory, 32-bit addresses,
 * one instruction a wrapper. One warp computes 16 rows; a block has four. Head dimension 64, key
 * tiles of 64 rows, swizzled rows of 128 bytes. f16 in and out, f32 inside, causal or full.
 *
 * PLANT_<name> plants one bug; @marks name lines for the tests. K8 is the class of sm_75: mma of
 * k 8 and copies through registers.
 */
typedef unsigned int u32;
typedef unsigned long long u64;
#define DEVICE __device__ __forceinline__
#define INFINITY_BITS 0x7f800000

DEVICE void ldmatrix_x4(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void ldmatrix_x4_trans(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
DEVICE void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#ifdef K8
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(b0));
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[2]), "r"(a[3]), "r"(b1));
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
DEVICE float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
DEVICE u32 pack(float low, float high) {
    u32 r;
#ifdef K8
    asm("{\n.reg .b16 low, high;\ncvt.rn.f16.f32 low, %1;\ncvt.rn.f16.f32 high, %2;\n"
        "mov.b32 %0, {low, high};\n}" : "=r"(r) : "f"(low), "f"(high));
#else
    asm("cvt.rn.f16x2.f32 %0, %2, %1;" : "=r"(r) : "f"(low), "f"(high));
#endif
    return r;
}
DEVICE float shuffle_xor(float x, int lanes) {
    float y;
    asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" : "=f"(y) : "f"(x), "r"(lanes));
    return y;
}
DEVICE float max2(float a, float b) { return a > b ? a : b; }
DEVICE void store_shared_4(u32 at, u32 value) {
    asm volatile("st.shared.b32 [%0], %1;" : : "r"(at), "r"(value) : "memory");
}
DEVICE uint4 load_shared_16(u32 at) {
    uint4 v;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
    return v;
}
DEVICE void store_global_16(const void *at, uint4 v) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 : : "l"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
#ifdef K8
DEVICE void copy_16(u32 to, const void *from, u32 bytes) {
    uint4 v = {0, 0, 0, 0};
    if (bytes)
        asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(from) : "memory");
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 : : "r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
DEVICE void copies_commit() {}
template <int N> DEVICE void copies_wait() {}
#else
DEVICE void copy_16(u32 to, const void *from, u32 bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(to), "l"(from), "r"(bytes) : "memory");
}
DEVICE void copies_commit() { asm volatile("cp.async.commit_group;" : : : "memory"); }
template <int N> DEVICE void copies_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(N) : "memory");
}
#endif

/* Byte offset of 16-byte chunk 'chunk' in row 'row'; the swizzle keeps ldmatrix free of conflicts. */
DEVICE u32 place(u32 row, u32 chunk) {
#ifdef PLANT_no_swizzle
    return row * 128 + chunk * 16;
#else
    return row * 128 + ((chunk ^ (row & 7)) << 4);
#endif
}

/* 64 rows of 128 bytes by 128 threads: 4 chunks each. */
DEVICE void copy_tile(u32 to, const unsigned char *from, int first, int rows, u32 thread) {
    for (u32 i = 0; i < 4; i++) {
        u32 chunk = thread % 8, row = thread / 8 + 16 * i;
#ifdef PLANT_rows_unchecked
        bool inside = true;
#else
        bool inside = first + (int)row < rows;
#endif
        const unsigned char *at = from + (long long)(inside ? first + (int)row : 0) * 128;
        copy_16(to + place(row, chunk), at + chunk * 16, inside ? 16 : 0); /* @copy */
    }
}

extern "C" __global__ void __launch_bounds__(128)
attention(const unsigned char *q, const unsigned char *k, const unsigned char *v, unsigned char *o,
          int q_rows, int kv_rows, float scale, int causal) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 base = (u32)__cvta_generic_to_shared(shared);
    const u32 thread = threadIdx.x, lane = thread & 31, warp = __shfl_sync(~0u, thread >> 5, 0);
    const int head = blockIdx.y, first_row = blockIdx.x * 64;
    q += (long long)head * q_rows * 128, o += (long long)head * q_rows * 128;
    k += (long long)head * kv_rows * 128, v += (long long)head * kv_rows * 128;
    const u32 q_tile = base, k_tiles = base + 8192, v_tiles = base + 3 * 8192;
    int tiles = (kv_rows + 63) / 64;
    if (causal) {
        int last = (first_row + 64 + kv_rows - q_rows + 63) / 64;
        tiles = last < tiles ? last : tiles;
    }
    copy_tile(q_tile, q, first_row, q_rows, thread); /* @copy_q */
    if (tiles > 0) {
        copy_tile(k_tiles, k, 0, kv_rows, thread); /* @first_k */
        copies_commit();
        copy_tile(v_tiles, v, 0, kv_rows, thread); /* @first_v */
    }
    copies_commit();
    copies_wait<0>();
    __syncthreads();
    u32 a[4][4];
    for (int s = 0; s < 4; s++)
        ldmatrix_x4(a[s], q_tile + place(warp * 16 + (lane & 15), 2 * s + (lane >> 4))); /* @load_q */
    float sums[8][4] = {}, most[2], total[2] = {0, 0};
    most[0] = most[1] = -1e30f;
    for (int tile = 0; tile < tiles; tile++) {
        const u32 k_tile = k_tiles + (tile & 1) * 8192, v_tile = v_tiles + (tile & 1) * 8192;
#ifndef K8
        if (tile + 1 < tiles) {
            u32 other = ((tile + 1) & 1) * 8192;
#ifdef PLANT_same_stage
            other = (tile & 1) * 8192;
#endif
            copy_tile(k_tiles + other, k, tile * 64 + 64, kv_rows, thread); /* @next_k */
            copy_tile(v_tiles + other, v, tile * 64 + 64, kv_rows, thread); /* @next_v */
        }
#ifndef PLANT_no_commit
        copies_commit();
#endif
#ifndef PLANT_no_wait
        copies_wait<1>();
#endif
#ifndef PLANT_no_barrier_before
        __syncthreads();
#endif
#endif
        float s[8][4] = {};
        for (int step = 0; step < 4; step++)
            for (int n = 0; n < 4; n++) {
                u32 b[4], row = n * 16 + (lane & 7) + (lane >> 4) * 8;
                ldmatrix_x4(b, k_tile + place(row, 2 * step + (lane >> 3 & 1))); /* @load_k */
#ifdef PLANT_divergent_mma
                if (lane != 5 || step)
#endif
                {
                    mma(s[2 * n], a[step], b[0], b[1]); /* @mma_s */
                    mma(s[2 * n + 1], a[step], b[2], b[3]);
                }
            }
        int row0 = first_row + warp * 16 + lane / 4;
        float top[2] = {most[0], most[1]}, factor[2];
        for (int n = 0; n < 8; n++)
            for (int e = 0; e < 4; e++) {
                int column = tile * 64 + n * 8 + lane % 4 * 2 + (e & 1), row = row0 + (e >> 1) * 8;
                bool hidden = column >= kv_rows || (causal && column > row + kv_rows - q_rows);
                s[n][e] = hidden ? -1e30f : s[n][e] * scale;
                top[e >> 1] = max2(top[e >> 1], s[n][e]);
            }
        for (int h = 0; h < 2; h++) {
            top[h] = max2(top[h], shuffle_xor(top[h], 1));
            top[h] = max2(top[h], shuffle_xor(top[h], 2));
            factor[h] = exp2_approx(most[h] - top[h]);
            most[h] = top[h];
            total[h] *= factor[h];
        }
        u32 p[4][4];
        for (int n = 0; n < 8; n++) {
            float x[4];
            for (int e = 0; e < 4; e++) {
                x[e] = s[n][e] <= -1e30f ? 0.0f : exp2_approx(s[n][e] - most[e >> 1]);
                total[e >> 1] += x[e];
                sums[n][e] *= factor[e >> 1];
            }
            p[n / 2][n % 2 * 2] = pack(x[0], x[1]);
            p[n / 2][n % 2 * 2 + 1] = pack(x[2], x[3]);
        }
        for (int step = 0; step < 4; step++)
            for (int n = 0; n < 4; n++) {
                u32 b[4], row = step * 16 + (lane & 15);
                ldmatrix_x4_trans(b, v_tile + place(row, 2 * n + (lane >> 4))); /* @load_v */
                mma(sums[2 * n], p[step], b[0], b[1]);
                mma(sums[2 * n + 1], p[step], b[2], b[3]);
            }
#ifndef PLANT_no_barrier_after
        __syncthreads(); /* @barrier_after */
#endif
#ifdef K8
        if (tile + 1 < tiles) {
            u32 other = ((tile + 1) & 1) * 8192;
            copy_tile(k_tiles + other, k, tile * 64 + 64, kv_rows, thread); /* @staged_k */
            copy_tile(v_tiles + other, v, tile * 64 + 64, kv_rows, thread);
        }
#ifndef PLANT_no_barrier_before
        __syncthreads();
#endif
#endif
    }
#ifdef PLANT_barrier_in_one_warp
    if (warp == 1) __syncthreads(); /* @odd_barrier */
#endif
#ifdef PLANT_barrier_in_some_lanes
    if (lane < 7) __syncthreads(); /* @lane_barrier */
#endif
    __syncthreads(); /* @last_barrier */
    for (int h = 0; h < 2; h++) {
        total[h] += shuffle_xor(total[h], 1);
        total[h] += shuffle_xor(total[h], 2);
        total[h] = total[h] > 0.0f ? 1.0f / total[h] : 0.0f;
    }
    for (int n = 0; n < 8; n++)
        for (int h = 0; h < 2; h++) {
            u32 at = q_tile + place(warp * 16 + lane / 4 + 8 * h, n) + lane % 4 * 4;
            store_shared_4(at, pack(sums[n][2 * h] * total[h], sums[n][2 * h + 1] * total[h])); /* @store_o */
        }
#ifndef PLANT_no_syncwarp
    __syncwarp();
#endif
    for (int i = 0; i < 4; i++) {
        u32 row = warp * 16 + i * 4 + lane / 8;
#ifdef PLANT_uninitialised
        uint4 x = load_shared_16(v_tiles + 2 * 8192 + place(row, lane % 8)); /* @load_nothing */
#else
        uint4 x = load_shared_16(q_tile + place(row, lane % 8)); /* @load_o */
#endif
#ifdef PLANT_rows_stored
        if (first_row + (int)row <= q_rows)
#else
        if (first_row + (int)row < q_rows)
#endif
            store_global_16(o + (long long)(first_row + row) * 128 + lane % 8 * 16, x); /* @write_o */
    }
}
