// Products through CuTe's atoms: an accumulator's four numbers, and 0 where a sum begins.

__device__ __forceinline__ void ftl_mma_m16n8k16_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    cute::SM80_16x8x16_F32F16F16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, a2, a3, b0, b1, d[0], d[1], d[2], d[3]);
}

__device__ __forceinline__ void ftl_mma_m16n8k16_f16_start(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    cute::SM80_16x8x16_F32F16F16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, a2, a3, b0, b1, 0.0f, 0.0f, 0.0f, 0.0f);
}

__device__ __forceinline__ void ftl_mma_m16n8k16_bf16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    cute::SM80_16x8x16_F32BF16BF16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, a2, a3, b0, b1, d[0], d[1], d[2], d[3]);
}

__device__ __forceinline__ void ftl_mma_m16n8k16_bf16_start(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    cute::SM80_16x8x16_F32BF16BF16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, a2, a3, b0, b1, 0.0f, 0.0f, 0.0f, 0.0f);
}

__device__ __forceinline__ void ftl_mma_m16n8k8_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    cute::SM75_16x8x8_F32F16F16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, b0, d[0], d[1], d[2], d[3]);
}

__device__ __forceinline__ void ftl_mma_m16n8k8_f16_start(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    cute::SM75_16x8x8_F32F16F16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, b0, 0.0f, 0.0f, 0.0f, 0.0f);
}

__device__ __forceinline__ void ftl_mma_m16n8k8_bf16(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    cute::SM80_16x8x8_F32BF16BF16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, b0, d[0], d[1], d[2], d[3]);
}

__device__ __forceinline__ void ftl_mma_m16n8k8_bf16_start(float (&d)[4], unsigned a0, unsigned a1, unsigned b0) {
    cute::SM80_16x8x8_F32BF16BF16F32_TN::fma(d[0], d[1], d[2], d[3], a0, a1, b0, 0.0f, 0.0f, 0.0f, 0.0f);
}
