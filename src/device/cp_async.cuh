// cp.async: copies from global to shared memory that bypass registers (from sm_80 on).

__device__ __forceinline__ void ftl_cp_async_16(unsigned target, const void *source) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
}

// Copies 16 bytes, or writes 16 zero bytes and reads nothing.
__device__ __forceinline__ void ftl_cp_async_16_or_zero(unsigned target, const void *source, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source),
                 "r"(inside ? 16 : 0)
                 : "memory");
}

// Copies the first `left` of COUNT elements and writes zeros for the others; none where left <= 0.
template <int COUNT>
__device__ __forceinline__ void ftl_cp_async_16_part(unsigned target, const void *source, int left) {
    const int bytes = (left < 0 ? 0 : left > COUNT ? COUNT : left) * (16 / COUNT);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes)
                 : "memory");
}

// Closes the group of the copies issued since the last one.
__device__ __forceinline__ void ftl_cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most GROUPS of this thread's groups are in flight.
template <int GROUPS> __device__ __forceinline__ void ftl_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(GROUPS) : "memory");
}
