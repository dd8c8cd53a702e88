/* For plain clang without CUDA: what the kernels here use beside the runtime's own prelude. */
#include "../../../src/runtime/clang_prelude.cuh"

struct __align__(16) uint4 {
    unsigned x, y, z, w;
};

struct test_block_indices {
    struct {
        __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_ctaid_x(); }
    } x;
    struct {
        __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_ctaid_y(); }
    } y;
};
extern const __device__ test_block_indices test_block;
#define blockIdx test_block
