// Roles of a block: registers move between warpgroups, and numbered barriers bring some of the threads together.

// Each thread of this warpgroup goes on with fewer registers.
template <int REGISTERS> __device__ __forceinline__ void ftl_registers_shrink() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Each thread of this warpgroup goes on with more registers, once others have given them up.
template <int REGISTERS> __device__ __forceinline__ void ftl_registers_grow() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}

// Waits until so many threads have come to this barrier, by waiting or by ftl_meet_later.
__device__ __forceinline__ void ftl_meet(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Counts as having come, and goes on.
__device__ __forceinline__ void ftl_meet_later(int barrier, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// n / d for 0 <= n < 2^31, by the constants that the launch has made of d.
__device__ __forceinline__ int ftl_quotient(int n, unsigned multiplier, unsigned shift) {
    return (int)(__umulhi((unsigned)n << 1, multiplier) >> shift);
}

// A value that is the same in all lanes of the warp, known to be.
__device__ __forceinline__ int ftl_uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

// The number of a tile that no block has taken. The first gridDim.x are taken by who starts.
__device__ __forceinline__ int ftl_fetch_tile(unsigned *counters) { return (int)(atomicAdd(counters, 1u) + gridDim.x); }

// This block takes no more; the last one sets the counters back for the next launch.
__device__ __forceinline__ void ftl_end_tiles(unsigned *counters) {
    __threadfence();
    if (atomicAdd(counters + 1, 1u) == gridDim.x - 1) {
        counters[0] = 0;
        counters[1] = 0;
        __threadfence();
    }
}
