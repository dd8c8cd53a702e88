typedef unsigned short half16;

__device__ __forceinline__ half16 to_half(float x) {
    half16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}

struct plan_parameters {
    const half16 *A;
    long long A_stride_m;
    const half16 *B;
    long long B_stride_n;
    half16 *C;
    long long C_stride_m;
    int m_len, k_len, n_len;
    unsigned char padding_0[4];
};

__device__ __forceinline__ void mma(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a0), "r"(a1), "r"(b0));
}

extern "C" __global__ void __launch_bounds__(128) linear_silu(const plan_parameters p) {
    constexpr int BM = 128, BN = 96, BK = 32, LD = BK + 8;
    extern __shared__ __align__(128) unsigned char shared[];
    half16 *A = reinterpret_cast<half16 *>(shared), *B = A + BM * LD;
    const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, g = lane / 4, t = lane % 4;
    const int m_tiles = (p.m_len + BM - 1) / BM;
    const int m0 = blockIdx.x % m_tiles * BM, n0 = blockIdx.x / m_tiles * BN;
    float acc[2][12][4];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 12; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) acc[i][j][e] = 0.0f;
    for (int k0 = 0; k0 < p.k_len; k0 += BK) {
        for (int i = tid; i < BM * BK; i += 128) {
            const int r = i / BK, c = i % BK;
            A[r * LD + c] = m0 + r < p.m_len && k0 + c < p.k_len ? p.A[(m0 + r) * p.A_stride_m + k0 + c] : (half16)0;
        }
        for (int i = tid; i < BN * BK; i += 128) {
            const int r = i / BK, c = i % BK;
            B[r * LD + c] = n0 + r < p.n_len && k0 + c < p.k_len ? p.B[(n0 + r) * p.B_stride_n + k0 + c] : (half16)0;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < BK; k += 8) {
            unsigned a[2][2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                a[i][0] = *reinterpret_cast<const unsigned *>(&A[(warp * 32 + i * 16 + g) * LD + k + 2 * t]);
                a[i][1] = *reinterpret_cast<const unsigned *>(&A[(warp * 32 + i * 16 + g + 8) * LD + k + 2 * t]);
            }
#pragma unroll
            for (int j = 0; j < 12; j++) {
                const unsigned b = *reinterpret_cast<const unsigned *>(&B[(j * 8 + g) * LD + k + 2 * t]);
                mma(acc[0][j], a[0][0], a[0][1], b);
                mma(acc[1][j], a[1][0], a[1][1], b);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 12; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int r = m0 + warp * 32 + i * 16 + g + e / 2 * 8, c = n0 + j * 8 + 2 * t + e % 2;
                const float x = acc[i][j][e];
                if (r < p.m_len && c < p.n_len) p.C[r * p.C_stride_m + c] = to_half(x / (1.0f + exp2f(x * -1.44269504f)));
            }
}
