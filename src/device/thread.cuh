// Who am I, and meeting points. A paragraph (text between blank lines) is one wrapper; the translator
// puts those into a file that the kernel's text names, and those that they name.

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

// The number of this block in its grid, likewise.
__device__ __forceinline__ unsigned ftl_block() {
    unsigned block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block;
}

// All of what earlier kernels wrote is there, and they read no more: they have ended.
__device__ __forceinline__ void ftl_wait_for_grids() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Blocks of the kernel after this one may be placed, once all blocks have said so; they wait for this one's end.
__device__ __forceinline__ void ftl_let_next_begin() { asm volatile("griddepcontrol.launch_dependents;"); }

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

// What the four lanes that share a row of a fragment come to together.
template <float COMBINE(float, float)> __device__ __forceinline__ float ftl_of_row(float value) {
    value = COMBINE(value, ftl_exchange(value, 1));
    return COMBINE(value, ftl_exchange(value, 2));
}

// The larger of two values and its place; of equal ones, the first place.
__device__ __forceinline__ void ftl_take_larger(float &most, int &place, float value, int at) {
    const bool takes = value > most || (value == most && at < place);
    most = takes ? value : most;
    place = takes ? at : place;
}

// The same where each place comes after all before it: of equal values the first one stays.
__device__ __forceinline__ void ftl_take_further(float &most, int &place, float value, int at) {
    const bool takes = value > most;
    most = takes ? value : most;
    place = takes ? at : place;
}

// As ftl_take_larger, with the lane whose number differs by 'mask'.
__device__ __forceinline__ void ftl_exchange_larger(float &most, int &place, int mask) {
    const float value = __shfl_xor_sync(0xffffffffu, most, mask);
    ftl_take_larger(most, place, value, __shfl_xor_sync(0xffffffffu, place, mask));
}

// Does the condition hold in all lanes of the warp?
__device__ __forceinline__ bool ftl_all(bool condition) { return __all_sync(0xffffffffu, condition) != 0; }

// Does the condition hold in any lane of the warp?
__device__ __forceinline__ bool ftl_any(bool condition) { return __any_sync(0xffffffffu, condition) != 0; }
