// ldmatrix: 8x8 matrices of 16-bit elements; lane 8m + r names row r of matrix m. The .trans forms hand
// out the transposed matrices.

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

__device__ __forceinline__ void ftl_ldmatrix_x2(unsigned &m0, unsigned &m1, unsigned source) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                 : "=r"(m0), "=r"(m1)
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_ldmatrix_x2_trans(unsigned &m0, unsigned &m1, unsigned source) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(m0), "=r"(m1)
                 : "r"(source)
                 : "memory");
}

__device__ __forceinline__ void ftl_ldmatrix_x1(unsigned &m0, unsigned source) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(m0) : "r"(source) : "memory");
}

__device__ __forceinline__ void ftl_ldmatrix_x1_trans(unsigned &m0, unsigned source) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16 {%0}, [%1];" : "=r"(m0) : "r"(source) : "memory");
}

// stmatrix: the way back, with the same lanes and rows.
__device__ __forceinline__ void ftl_stmatrix_x4(unsigned target, unsigned m0, unsigned m1, unsigned m2, unsigned m3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(target), "r"(m0), "r"(m1),
                 "r"(m2), "r"(m3) : "memory");
}

__device__ __forceinline__ void ftl_stmatrix_x2(unsigned target, unsigned m0, unsigned m1) {
    asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(target), "r"(m0), "r"(m1) : "memory");
}
