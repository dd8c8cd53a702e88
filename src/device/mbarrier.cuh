// Barrier objects in shared memory, 8 bytes each (from sm_80 on).

__device__ __forceinline__ void ftl_mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void ftl_mbarrier_arrive(unsigned barrier) {
    asm volatile("{\n\t.reg .b64 state;\n\tmbarrier.arrive.shared.b64 state, [%0];\n\t}" ::"r"(barrier) : "memory");
}

// This thread arrives when its earlier cp.async copies have landed.
__device__ __forceinline__ void ftl_mbarrier_arrive_after_copies(unsigned barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity has ended.
__device__ __forceinline__ void ftl_mbarrier_wait(unsigned barrier, unsigned parity) {
    asm volatile("{\n\t.reg .pred done;\n"
                 "wait_%=:\n\tmbarrier.test_wait.parity.shared.b64 done, [%0], %1;\n\t"
                 "@!done bra wait_%=;\n\t}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

// The barriers are seen by other threads and by asynchronous units.
__device__ __forceinline__ void ftl_mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and announces bytes that asynchronous copies will bring.
__device__ __forceinline__ void ftl_mbarrier_expect(unsigned barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void ftl_mbarrier_signal(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity has ended; the hardware may put the thread to sleep meanwhile.
__device__ __forceinline__ void ftl_mbarrier_try_wait(unsigned barrier, unsigned parity) {
    asm volatile("{\n\t.reg .pred done;\n"
                 "wait_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra wait_%=;\n\t}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}
