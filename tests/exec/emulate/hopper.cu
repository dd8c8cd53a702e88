/* A kernel of Hopper's asynchronous instructions, for tests of the emulator: O = (Q K^T) V, rows by
 * rows, with tensor copies, wgmma, warp roles, register budgets and tiles drawn from a counter.
 *
 * One thread loads, two warpgroups of 64 rows each compute: the next Q K^T runs beside this P V.
 * Tensors are f16 (rows, heads, 64). Marks like "@k_full" in the PTX are where tests plant bugs.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

struct tensor_map {
    alignas(64) u64 words[16];
};

#define INLINE __device__ __forceinline__

enum {
    WIDTH = 64,                     /* head dimension */
    PANEL = 64 * WIDTH * 2,         /* bytes of 64 rows */
    Q_AT = 0,                       /* two warpgroups' rows */
    K_AT = 2 * PANEL,               /* two stages */
    V_AT = 4 * PANEL,
    O_AT = 6 * PANEL,
    BARRIERS_AT = 8 * PANEL,
    Q_FULL = BARRIERS_AT, Q_EMPTY = Q_FULL + 8,
    K_FULL = Q_EMPTY + 8, K_EMPTY = K_FULL + 16,
    V_FULL = K_EMPTY + 16, V_EMPTY = V_FULL + 16,
    TILE_AT = V_EMPTY + 16
};

#define NOTE(mark) " // @" mark

INLINE void barrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

#define WAIT(mark, barrier, parity)                                                                \
    asm volatile("{\n.reg .pred p;\nagain%=:\n"                                                    \
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;" NOTE(mark) "\n"           \
                 "@!p bra again%=;" NOTE(mark) "\n}" ::"r"(barrier),                               \
                 "r"(parity)                                                                       \
                 : "memory")
#define EXPECT(mark, barrier, bytes)                                                               \
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" NOTE(mark) ::"r"(        \
                     barrier),                                                                     \
                 "r"(bytes)                                                                        \
                 : "memory")
#define ARRIVE(mark, barrier)                                                                      \
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" NOTE(mark) ::"r"(barrier) : "memory")
#define LOAD(mark, to, map, barrier, row, head)                                                    \
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::"     \
                 "bytes [%0], [%1, {%3, %4, %5}], [%2];" NOTE(mark) ::"r"(to),                     \
                 "l"(map), "r"(barrier), "r"(0), "r"(row), "r"(head)                               \
                 : "memory")
#define PLAIN(mark, text) asm volatile(text NOTE(mark)::: "memory")

#define SUMS(d)                                                                                    \
    "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),            \
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),    \
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),              \
        "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]),              \
        "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define LIST                                                                                       \
    "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,"  \
    "%25,%26,%27,%28,%29,%30,%31}"

/* d (+)= a b, both in shared memory, k-major. */
INLINE void multiply_shared(float (&d)[32], u64 a, u64 b, u32 adds) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " LIST
                 ", %32, %33, p, 1, 1, 0, 0;" NOTE("qk") "\n}"
                 : SUMS(d)
                 : "l"(a), "l"(b), "r"(adds)
                 : "memory");
}

/* d (+)= a b, a in registers, b n-major. */
INLINE void multiply_registers(float (&d)[32], const u32 *a, u64 b, u32 adds) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 " LIST
                 ", {%32,%33,%34,%35}, %36, p, 1, 1, 1;" NOTE("pv") "\n}"
                 : SUMS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(adds)
                 : "memory");
}

/* 128-byte swizzle, 1024 bytes from eight rows to the next. */
INLINE u64 descriptor(u32 at) {
    return (u64)(at >> 4) | (u64)1 << 16 | (u64)64 << 32 | (u64)1 << 62;
}

INLINE u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

INLINE void scores(float (&s)[32], u32 q, u32 k) {
#pragma unroll
    for (int i = 0; i < WIDTH / 16; i++)
        multiply_shared(s, descriptor(q + 32 * i), descriptor(k + 32 * i), i != 0);
}

INLINE void values(float (&o)[32], const u32 (&p)[16], u32 v, u32 adds) {
#pragma unroll
    for (int i = 0; i < 4; i++)
        multiply_registers(o, p + 4 * i, descriptor(v + 2048 * i), i || adds);
}

INLINE void store_tile(const float (&o)[32], u32 base, const tensor_map *map, int row, int head,
                       u32 group) {
    u32 thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    u32 at = base + O_AT + group * PANEL, line = warp * 16 + lane % 16;
    if (thread == 0) PLAIN("o_read", "cp.async.bulk.wait_group.read 0;");
    asm volatile("bar.sync %0, 128;" NOTE("o_free") ::"r"(group + 2) : "memory");
#pragma unroll
    for (int i = 0; i < 4; i++) {
        u32 to = at + line * 128 + ((2 * i + lane / 16) ^ line % 8) * 16;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(to),
                     "r"(pack(o[8 * i], o[8 * i + 1])), "r"(pack(o[8 * i + 2], o[8 * i + 3])),
                     "r"(pack(o[8 * i + 4], o[8 * i + 5])), "r"(pack(o[8 * i + 6], o[8 * i + 7]))
                     : "memory");
    }
    PLAIN("o_proxy", "fence.proxy.async.shared::cta;");
    asm volatile("bar.sync %0, 128;" NOTE("o_written") ::"r"(group + 2) : "memory");
    if (thread == 0) {
        asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                     "[%0, {%2, %3, %4}], [%1];" NOTE("o_store") ::"l"(map),
                     "r"(at), "r"(0), "r"(row), "r"(head)
                     : "memory");
        PLAIN("o_commit", "cp.async.bulk.commit_group;");
    }
}

INLINE void load(const tensor_map *q_map, const tensor_map *k_map, const tensor_map *v_map,
                 int *counter, u32 base, int q_tiles, int tiles, int blocks) {
    u32 step = 0;
    for (u32 turn = 0;; turn++) {
        int tile = atomicAdd(counter, 1);
        WAIT("q_empty", base + Q_EMPTY, turn % 2 ^ 1);
        asm volatile("st.shared.s32 [%0], %1;" NOTE("tile_store") ::"r"(base + TILE_AT),
                     "r"(tile < tiles ? tile : -1)
                     : "memory");
        if (tile >= tiles) {
            ARRIVE("q_last", base + Q_FULL);
            return;
        }
        int row = tile % q_tiles * 128, head = tile / q_tiles;
        EXPECT("q_expect", base + Q_FULL, 2 * PANEL);
        LOAD("q_load", base + Q_AT, q_map, base + Q_FULL, row, head);
        LOAD("q_load_second", base + Q_AT + PANEL, q_map, base + Q_FULL, row + 64, head);
        for (int j = 0; j < blocks; j++, step++) {
            u32 stage = step % 2, parity = step / 2 % 2;
            u32 k = base + K_AT + stage * PANEL, v = base + V_AT + stage * PANEL;
            WAIT("k_empty", base + K_EMPTY + 8 * stage, parity ^ 1);
            EXPECT("k_expect", base + K_FULL + 8 * stage, PANEL);
            LOAD("k_load", k, k_map, base + K_FULL + 8 * stage, 64 * j, head);
            WAIT("v_empty", base + V_EMPTY + 8 * stage, parity ^ 1);
            EXPECT("v_expect", base + V_FULL + 8 * stage, PANEL);
            LOAD("v_load", v, v_map, base + V_FULL + 8 * stage, 64 * j, head);
        }
    }
}

INLINE void compute(const tensor_map *o_map, u32 base, int q_tiles, int blocks, u32 group) {
    float s[32], o[32];
    u32 p[16], step = 0, lane = threadIdx.x % 32, q = base + Q_AT + group * PANEL;
    for (u32 turn = 0;; turn++) {
        int tile;
        WAIT("q_full", base + Q_FULL, turn % 2);
        asm volatile("ld.shared.s32 %0, [%1];" : "=r"(tile) : "r"(base + TILE_AT) : "memory");
        if (tile < 0) return;
        for (int j = 0; j <= blocks; j++) {
            u32 stage = (step + j) % 2, parity = (step + j) / 2 % 2;
            u32 before = (step + j + 1) % 2, before_parity = (step + j - 1) / 2 % 2;
            PLAIN("fence", "wgmma.fence.sync.aligned;");
            if (j < blocks) {
                WAIT("k_full", base + K_FULL + 8 * stage, parity);
                scores(s, q, base + K_AT + stage * PANEL);
            }
            PLAIN("commit_s", "wgmma.commit_group.sync.aligned;");
            if (j > 0) {
                WAIT("v_full", base + V_FULL + 8 * before, before_parity);
                values(o, p, base + V_AT + before * PANEL, j > 1);
            }
            PLAIN("commit_o", "wgmma.commit_group.sync.aligned;");
            PLAIN("wait_s", "wgmma.wait_group.sync.aligned 1;");
            if (j < blocks && lane == 0) ARRIVE("k_release", base + K_EMPTY + 8 * stage);
            if (j == blocks - 1) {
                asm volatile("bar.warp.sync 0xffffffff;" NOTE("q_sync")::: "memory");
                if (lane == 0) ARRIVE("q_release", base + Q_EMPTY);
            }
            u32 next[16];
#pragma unroll
            for (int i = 0; i < 16; i++) next[i] = pack(s[2 * i], s[2 * i + 1]);
            PLAIN("wait_o", "wgmma.wait_group.sync.aligned 0;");
            if (j > 0 && lane == 0) ARRIVE("v_release", base + V_EMPTY + 8 * before);
#pragma unroll
            for (int i = 0; i < 16; i++) {
                asm volatile("" : "+r"(p[i])); /* it was read until here */
                p[i] = next[i];
            }
        }
        step += blocks;
        store_tile(o, base, o_map, tile % q_tiles * 128 + 64 * group, tile / q_tiles, group);
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
    hopper(const __grid_constant__ tensor_map q_map, const __grid_constant__ tensor_map k_map,
           const __grid_constant__ tensor_map v_map, const __grid_constant__ tensor_map o_map,
           int *counter, int q_tiles, int tiles, int blocks) {
    extern __shared__ __align__(1024) unsigned char raw[];
    u32 base = (u32)__cvta_generic_to_shared(raw);
    if (threadIdx.x == 0) {
        barrier_init(base + Q_FULL, 1);
        barrier_init(base + Q_EMPTY, 8);
        for (int stage = 0; stage < 2; stage++) {
            barrier_init(base + K_FULL + 8 * stage, 1);
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 8;" NOTE("k_count") ::"r"(
                             base + K_EMPTY + 8 * stage)
                         : "memory");
            barrier_init(base + V_FULL + 8 * stage, 1);
            barrier_init(base + V_EMPTY + 8 * stage, 8);
        }
        PLAIN("init_fence", "fence.mbarrier_init.release.cluster;");
    }
    asm volatile("barrier.sync 0;" NOTE("init_sync") ::: "memory");
    u32 group = __shfl_sync(~0u, threadIdx.x / 128, 0);
    if (group == 0) {
        PLAIN("dec", "setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0)
            load(&q_map, &k_map, &v_map, counter, base, q_tiles, tiles, blocks);
    } else {
        PLAIN("inc", "setmaxnreg.inc.sync.aligned.u32 232;");
        compute(&o_map, base, q_tiles, blocks, group - 1);
        PLAIN("o_read", "cp.async.bulk.wait_group.read 0;");
    }
}
