// What CUDA's compilers know by themselves and plain clang does not: enough for the files that the
// translator writes. For machines without CUDA, where kernels are run by the emulator.
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __grid_constant__

struct ftl_thread_indices {
    struct {
        __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_tid_x(); }
    } x;
};
struct ftl_block_indices {
    struct {
        __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
    } x;
};
struct ftl_grid_sizes {
    struct {
        __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_nctaid_x(); }
    } x;
};
extern const __device__ ftl_thread_indices threadIdx;
extern const __device__ ftl_block_indices blockIdx;
extern const __device__ ftl_grid_sizes gridDim;

__device__ __forceinline__ float __fadd_rn(float a, float b) { return __nvvm_add_rn_f(a, b); }
__device__ __forceinline__ float __fmul_rn(float a, float b) { return __nvvm_mul_rn_f(a, b); }
__device__ __forceinline__ float __fmaf_rn(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
__device__ __forceinline__ float fmaxf(float a, float b) { return __nvvm_fmax_f(a, b); }
__device__ __forceinline__ float fminf(float a, float b) { return __nvvm_fmin_f(a, b); }
__device__ __forceinline__ float fabsf(float a) { return __builtin_fabsf(a); }
__device__ __forceinline__ float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
__device__ __forceinline__ float __int_as_float(int a) { return __builtin_bit_cast(float, a); }
__device__ __forceinline__ int __float_as_int(float a) { return __builtin_bit_cast(int, a); }
__device__ __forceinline__ float __uint_as_float(unsigned a) { return __builtin_bit_cast(float, a); }
__device__ __forceinline__ unsigned __float_as_uint(float a) { return __builtin_bit_cast(unsigned, a); }
__device__ __forceinline__ unsigned __umulhi(unsigned a, unsigned b) {
    return (unsigned)((unsigned long)a * b >> 32);
}
__device__ __forceinline__ unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
    return __nvvm_prmt(a, b, selector);
}
__device__ __forceinline__ void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
__device__ __forceinline__ unsigned atomicAdd(unsigned *at, unsigned a) { return __nvvm_atom_add_gen_i((int *)at, (int)a); }
__device__ __forceinline__ int atomicAdd(int *at, int a) { return __nvvm_atom_add_gen_i(at, a); }
__device__ __forceinline__ float atomicAdd(float *at, float a) { return __nvvm_atom_add_gen_f(at, a); }
__device__ __forceinline__ void __threadfence() { __nvvm_membar_gl(); }
__device__ __forceinline__ int __all_sync(unsigned mask, int a) { return __nvvm_vote_all_sync(mask, a); }
__device__ __forceinline__ int __any_sync(unsigned mask, int a) { return __nvvm_vote_any_sync(mask, a); }
__device__ __forceinline__ int __shfl_sync(unsigned mask, int a, int lane) {
    return __nvvm_shfl_sync_idx_i32(mask, a, lane, 31);
}
__device__ __forceinline__ float __shfl_xor_sync(unsigned mask, float a, int lanes) {
    return __nvvm_shfl_sync_bfly_f32(mask, a, lanes, 31);
}
__device__ __forceinline__ unsigned long __cvta_generic_to_shared(const void *address) {
    return (unsigned long)(const __attribute__((address_space(3))) void *)address;
}
#line 1
