// Copies through CuTe's atoms. They name shared memory by reference, the kernel by offset in its window.

__device__ __forceinline__ cute::uint128_t &ftl_shared_unit(unsigned address) {
    return *reinterpret_cast<cute::uint128_t *>(__cvta_shared_to_generic(address));
}

__device__ __forceinline__ void ftl_ldmatrix_x4(unsigned &m0, unsigned &m1, unsigned &m2, unsigned &m3,
                                                unsigned source) {
    cute::SM75_U32x4_LDSM_N::copy(ftl_shared_unit(source), m0, m1, m2, m3);
}

__device__ __forceinline__ void ftl_ldmatrix_x4_trans(unsigned &m0, unsigned &m1, unsigned &m2, unsigned &m3,
                                                      unsigned source) {
    cute::SM75_U16x8_LDSM_T::copy(ftl_shared_unit(source), m0, m1, m2, m3);
}

__device__ __forceinline__ void ftl_ldmatrix_x2(unsigned &m0, unsigned &m1, unsigned source) {
    cute::SM75_U32x2_LDSM_N::copy(ftl_shared_unit(source), m0, m1);
}

__device__ __forceinline__ void ftl_ldmatrix_x2_trans(unsigned &m0, unsigned &m1, unsigned source) {
    cute::SM75_U16x4_LDSM_T::copy(ftl_shared_unit(source), m0, m1);
}

__device__ __forceinline__ void ftl_ldmatrix_x1(unsigned &m0, unsigned source) {
    cute::SM75_U32x1_LDSM_N::copy(ftl_shared_unit(source), m0);
}

__device__ __forceinline__ void ftl_ldmatrix_x1_trans(unsigned &m0, unsigned source) {
    cute::SM75_U16x2_LDSM_T::copy(ftl_shared_unit(source), m0);
}

__device__ __forceinline__ void ftl_cp_async_16(unsigned target, const void *source) {
    cute::SM80_CP_ASYNC_CACHEGLOBAL<cute::uint128_t>::copy(*static_cast<const cute::uint128_t *>(source),
                                                           ftl_shared_unit(target));
}

// Copies 16 bytes, or writes 16 zero bytes and reads nothing.
__device__ __forceinline__ void ftl_cp_async_16_or_zero(unsigned target, const void *source, bool inside) {
    cute::SM80_CP_ASYNC_CACHEGLOBAL_ZFILL<cute::uint128_t>::copy(*static_cast<const cute::uint128_t *>(source),
                                                                 ftl_shared_unit(target), inside);
}

// Closes the group of the copies issued since the last one.
__device__ __forceinline__ void ftl_cp_async_commit() {
    cute::cp_async_fence();
}

// Waits until at most GROUPS of this thread's groups are in flight.
template <int GROUPS>
__device__ __forceinline__ void ftl_cp_async_wait() {
    cute::cp_async_wait<GROUPS>();
}
