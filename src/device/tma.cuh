// TMA: boxes of tensors, described by maps made at launch, to shared memory and back. One thread issues;
// coordinates count elements, the contiguous one first. What lies outside the tensor reads 0 and is not
// written.

// The map is fetched before its first use.
__device__ __forceinline__ void ftl_tma_prefetch_map(const void *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

__device__ __forceinline__ void ftl_tma_load_2(unsigned target, const void *map, unsigned barrier, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4}], [%2];"
                 ::"r"(target), "l"(map), "r"(barrier), "r"(c0), "r"(c1) : "memory");
}

__device__ __forceinline__ void ftl_tma_load_3(unsigned target, const void *map, unsigned barrier,
                                                  int c0, int c1, int c2) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];"
                 ::"r"(target), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

__device__ __forceinline__ void ftl_tma_load_4(unsigned target, const void *map, unsigned barrier,
                                                  int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];"
                 ::"r"(target), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

__device__ __forceinline__ void ftl_tma_load_5(unsigned target, const void *map, unsigned barrier,
                                                  int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];"
                 ::"r"(target), "l"(map), "r"(barrier), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

__device__ __forceinline__ void ftl_tma_store_2(const void *map, unsigned source, int c0, int c1) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1) : "memory");
}

__device__ __forceinline__ void ftl_tma_store_3(const void *map, unsigned source, int c0, int c1, int c2) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

__device__ __forceinline__ void ftl_tma_store_4(const void *map, unsigned source, int c0, int c1, int c2, int c3) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

__device__ __forceinline__ void ftl_tma_store_5(const void *map, unsigned source,
                                                  int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

// Adds a box of f32 to what is there, each element atomically.
__device__ __forceinline__ void ftl_tma_add_2(const void *map, unsigned source, int c0, int c1) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1) : "memory");
}

__device__ __forceinline__ void ftl_tma_add_3(const void *map, unsigned source, int c0, int c1, int c2) {
    asm volatile("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

__device__ __forceinline__ void ftl_tma_add_4(const void *map, unsigned source, int c0, int c1, int c2, int c3) {
    asm volatile("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.tile.bulk_group [%0, {%2, %3, %4, %5}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3) : "memory");
}

__device__ __forceinline__ void ftl_tma_add_5(const void *map, unsigned source,
                                                int c0, int c1, int c2, int c3, int c4) {
    asm volatile("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.tile.bulk_group "
                 "[%0, {%2, %3, %4, %5, %6}], [%1];"
                 ::"l"(map), "r"(source), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4) : "memory");
}

// Ends a group of stores of this thread.
__device__ __forceinline__ void ftl_tma_store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but PENDING groups of this thread have read their source.
template <int PENDING> __device__ __forceinline__ void ftl_tma_store_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

// What this thread wrote to shared memory is seen by asynchronous units.
__device__ __forceinline__ void ftl_fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
