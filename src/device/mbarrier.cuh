// Barrier objects in shared memory, 8 bytes each (from sm_80 on).

__device__ __forceinline__ void ftl_mbarrier_init(unsigned barrier, unsigned arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// The barriers of a tile's slots.
template <int SLOTS> __device__ __forceinline__ void ftl_mbarriers_init(unsigned barriers, unsigned arrivals) {
    FTL_UNROLL for (int slot = 0; slot < SLOTS; slot++) ftl_mbarrier_init(barriers + 8 * slot, arrivals);
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
                 "@!done bra wait_%=;\n\t}" ::"r"(barrier), "r"(parity) : "memory");
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

__device__ __forceinline__ void ftl_mbarrier_signal_each(unsigned barrier, int lane) {
    asm volatile("" : "+r"(lane)); // a test the compiler cannot decide: what was read stays in lanes' own registers
    if (lane < 32) asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Waits until the phase of this parity has ended; the hardware may put the thread to sleep meanwhile.
__device__ __forceinline__ void ftl_mbarrier_try_wait(unsigned barrier, unsigned parity) {
    asm volatile("{\n\t.reg .pred done;\n"
                 "wait_%=:\n\tmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n\t"
                 "@!done bra wait_%=;\n\t}" ::"r"(barrier), "r"(parity) : "memory");
}

// A role's place among the slots of a tile, one after the other: a slot, and the parity of its barrier's next
// phase. Slots are counted, not toggled: what is toggled the compiler keeps as a truth value of each thread.
template <int SLOTS>
struct ftl_ring {
    unsigned slot, parity;
    __device__ __forceinline__ unsigned of(unsigned barriers) const { return barriers + 8 * slot; }
    // On to the next slot, once it is full.
    __device__ __forceinline__ void wait(unsigned full) {
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
        ftl_mbarrier_try_wait(of(full), parity);
        parity ^= slot == SLOTS - 1;
    }
    // Until this slot is free; next() once it is filled. With bytes to come by asynchronous copies: announced.
    __device__ __forceinline__ void acquire(unsigned empty) const { ftl_mbarrier_try_wait(of(empty), parity); }
    __device__ __forceinline__ void acquire(unsigned empty, unsigned full, unsigned bytes) const {
        acquire(empty);
        ftl_mbarrier_expect(of(full), bytes);
    }
    __device__ __forceinline__ void next() {
        parity ^= slot == SLOTS - 1;
        slot = slot == SLOTS - 1 ? 0 : slot + 1;
    }
};
