/* One kernel per instruction: 32 lanes read numbers, execute it, and write what came out. The same
 * PTX runs on a GPU (record.c) and on the emulator (test_emulate_conformance.c), and the results are
 * compared bit for bit, or within the stated units in the last place.
 *
 * INPUT(n) and OUTPUT(n) are the n-th word of the lane; every kernel has one row of inputs a warp.
 */
typedef unsigned int u32;
typedef unsigned long long u64;

#define INPUT(n) in[(blockIdx.x * INPUTS + (n)) * 32 + threadIdx.x]
#define OUTPUT(n) out[(blockIdx.x * OUTPUTS + (n)) * 32 + threadIdx.x]
enum { INPUTS = 12, OUTPUTS = 4 };

#define KERNEL(name) extern "C" __global__ void name(const u32 *in, u32 *out)

#define UNARY(name, instruction)                                                                   \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile(instruction " %0, %1;" : "=r"(d) : "r"(INPUT(0)));                            \
        OUTPUT(0) = d;                                                                             \
    }
#define BINARY(name, instruction)                                                                  \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile(instruction " %0, %1, %2;" : "=r"(d) : "r"(INPUT(0)), "r"(INPUT(1)));         \
        OUTPUT(0) = d;                                                                             \
    }
#define TERNARY(name, instruction)                                                                 \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile(instruction " %0, %1, %2, %3;"                                                \
                     : "=r"(d) : "r"(INPUT(0)), "r"(INPUT(1)), "r"(INPUT(2)));                     \
        OUTPUT(0) = d;                                                                             \
    }
#define UNARY_F(name, instruction)                                                                 \
    KERNEL(name) {                                                                                 \
        float d;                                                                                   \
        asm volatile(instruction " %0, %1;" : "=f"(d) : "f"(__uint_as_float(INPUT(0))));           \
        OUTPUT(0) = __float_as_uint(d);                                                            \
    }
#define BINARY_F(name, instruction)                                                                \
    KERNEL(name) {                                                                                 \
        float d;                                                                                   \
        asm volatile(instruction " %0, %1, %2;"                                                    \
                     : "=f"(d) : "f"(__uint_as_float(INPUT(0))), "f"(__uint_as_float(INPUT(1))));  \
        OUTPUT(0) = __float_as_uint(d);                                                            \
    }
#define TERNARY_F(name, instruction)                                                               \
    KERNEL(name) {                                                                                 \
        float d;                                                                                   \
        asm volatile(instruction " %0, %1, %2, %3;"                                                \
                     : "=f"(d)                                                                     \
                     : "f"(__uint_as_float(INPUT(0))), "f"(__uint_as_float(INPUT(1))),             \
                       "f"(__uint_as_float(INPUT(2))));                                            \
        OUTPUT(0) = __float_as_uint(d);                                                            \
    }
#define TO_INT(name, instruction)                                                                  \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile(instruction " %0, %1;" : "=r"(d) : "f"(__uint_as_float(INPUT(0))));           \
        OUTPUT(0) = d;                                                                             \
    }
#define FROM_INT(name, instruction)                                                                \
    KERNEL(name) {                                                                                 \
        float d;                                                                                   \
        asm volatile(instruction " %0, %1;" : "=f"(d) : "r"(INPUT(0)));                            \
        OUTPUT(0) = __float_as_uint(d);                                                            \
    }
#define PACK(name, instruction)                                                                    \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile(instruction " %0, %1, %2;"                                                    \
                     : "=r"(d) : "f"(__uint_as_float(INPUT(0))), "f"(__uint_as_float(INPUT(1))));  \
        OUTPUT(0) = d;                                                                             \
    }
#define COMPARE(name, instruction)                                                                 \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile("{\n.reg .pred p;\n" instruction " p, %1, %2;\nselp.u32 %0, 1, 0, p;\n}"      \
                     : "=r"(d)                                                                     \
                     : "f"(__uint_as_float(INPUT(0))), "f"(__uint_as_float(INPUT(1))));            \
        OUTPUT(0) = d;                                                                             \
    }
/* The value of d, and whether the source lane was in range. */
#define SHUFFLE(name, mode)                                                                        \
    KERNEL(name) {                                                                                 \
        u32 d, p, b = INPUT(1) & 31, c = INPUT(2) & 0x1f1f;                                        \
        c = __shfl_sync(~0u, c, 0);                                                                \
        asm volatile("{\n.reg .pred p;\nshfl.sync." mode ".b32 %0|p, %2, %3, %4, 0xffffffff;\n"    \
                     "selp.u32 %1, 1, 0, p;\n}"                                                    \
                     : "=r"(d), "=r"(p) : "r"(INPUT(0)), "r"(b), "r"(c));                          \
        OUTPUT(0) = p ? d : 0;                                                                     \
        OUTPUT(1) = p;                                                                             \
    }
#define REDUCE(name, instruction)                                                                  \
    KERNEL(name) {                                                                                 \
        u32 d;                                                                                     \
        asm volatile(instruction " %0, %1, 0xffffffff;" : "=r"(d) : "r"(INPUT(0)));                \
        OUTPUT(0) = d;                                                                             \
    }

#define BINARY_16(name, instruction)                                                               \
    KERNEL(name) {                                                                                 \
        unsigned short d, a = (unsigned short)INPUT(0), b = (unsigned short)INPUT(1);              \
        asm volatile(instruction " %0, %1, %2;" : "=h"(d) : "h"(a), "h"(b));                       \
        OUTPUT(0) = d;                                                                             \
    }
/* The second operand is narrow in half of the lanes. */
#define BINARY_64(name, instruction)                                                               \
    KERNEL(name) {                                                                                 \
        u64 d, a = INPUT(0) | (u64)INPUT(1) << 32, b = INPUT(2);                                   \
        if (threadIdx.x & 1) b |= (u64)INPUT(3) << 32;                                             \
        asm volatile(instruction " %0, %1, %2;" : "=l"(d) : "l"(a), "l"(b));                       \
        OUTPUT(0) = (u32)d;                                                                        \
        OUTPUT(1) = (u32)(d >> 32);                                                                \
    }

#define EXACT(kind, name, instruction) kind(name, instruction)
#define CLOSE(kind, name, instruction, units) kind(name, instruction)
#define NEAR(kind, name, instruction, absolute) kind(name, instruction)
#define MATRIX(name, kernel, form, outputs)
#include "instructions.def"
#include "further.def"

/* ---- matrices ---- */

#define LOAD_MATRIX(name, form, count)                                                             \
    KERNEL(name) {                                                                                 \
        __shared__ __align__(16) u32 tile[128];                                                    \
        u32 base = (u32)__cvta_generic_to_shared(tile);                                            \
        for (int i = 0; i < 4; i++) tile[i * 32 + threadIdx.x] = INPUT(i);                         \
        __syncthreads();                                                                           \
        /* Rows in a scrambled order, so that each lane's address counts. */                       \
        u32 r[4] = {0, 0, 0, 0}, at = base + (threadIdx.x * 11 + 5) % 32 * 16;                     \
        form;                                                                                      \
        for (int i = 0; i < count; i++) OUTPUT(i) = r[i];                                          \
    }
LOAD_MATRIX(ldmatrix_x1, asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];"
                                      : "=r"(r[0]) : "r"(at) : "memory"), 1)
LOAD_MATRIX(ldmatrix_x2, asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
                                      : "=r"(r[0]), "=r"(r[1]) : "r"(at) : "memory"), 2)
LOAD_MATRIX(ldmatrix_x4, asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                                      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                                      : "r"(at) : "memory"), 4)
LOAD_MATRIX(ldmatrix_x4_trans,
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory"), 4)

#define C4 "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
#define SUMS "{%0, %1, %2, %3}"
#define PRODUCT(name, text, ...)                                                                   \
    KERNEL(name) {                                                                                 \
        float c[4];                                                                                \
        for (int i = 0; i < 4; i++) c[i] = __uint_as_float(INPUT(8 + i));                          \
        asm volatile(text : C4 : __VA_ARGS__);                                                     \
        for (int i = 0; i < 4; i++) OUTPUT(i) = __float_as_uint(c[i]);                             \
    }
#define A(n) "r"(INPUT(n))
#define B(n) "r"(INPUT(4 + n))
#define FOUR "{%4, %5, %6, %7}, {%8, %9}"
PRODUCT(mma_k8_f16, "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 " SUMS ", {%4, %5}, {%6}, " SUMS ";",
        A(0), A(1), B(0))
PRODUCT(mma_k16_f16, "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 " SUMS ", " FOUR ", " SUMS ";",
        A(0), A(1), A(2), A(3), B(0), B(1))
PRODUCT(mma_k8_bf16, "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 " SUMS ", {%4, %5}, {%6}, " SUMS ";",
        A(0), A(1), B(0))
PRODUCT(mma_k16_bf16, "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 " SUMS ", " FOUR ", " SUMS ";",
        A(0), A(1), A(2), A(3), B(0), B(1))
PRODUCT(mma_k4_tf32, "mma.sync.aligned.m16n8k4.row.col.f32.tf32.tf32.f32 " SUMS ", {%4, %5}, {%6}, " SUMS ";",
        A(0), A(1), B(0))
PRODUCT(mma_k8_tf32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 " SUMS ", " FOUR ", " SUMS ";",
        A(0), A(1), A(2), A(3), B(0), B(1))

KERNEL(mma_k16_f16_f16) {
    u32 c[2] = {INPUT(8), INPUT(9)};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, "
                 "{%6, %7}, {%0, %1};"
                 : "+r"(c[0]), "+r"(c[1]) : A(0), A(1), A(2), A(3), B(0), B(1));
    OUTPUT(0) = c[0];
    OUTPUT(1) = c[1];
}

KERNEL(mma_k32_s8) {
    u32 c[4] = {INPUT(8), INPUT(9), INPUT(10), INPUT(11)};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
                 "{%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
                 : A(0), A(1), A(2), A(3), B(0), B(1));
    for (int i = 0; i < 4; i++) OUTPUT(i) = c[i];
}

KERNEL(movmatrix) {
    u32 d;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(d) : "r"(INPUT(0)));
    OUTPUT(0) = d;
}

/* Source sizes 0 to 16: what is past them is zero. */
KERNEL(cp_async_zero_fill) {
    __shared__ __align__(16) u32 tile[128];
    u32 at = (u32)__cvta_generic_to_shared(tile) + threadIdx.x * 16, bytes = INPUT(4) % 17;
    const u32 *from = &in[(blockIdx.x * INPUTS + threadIdx.x / 8) * 32 + threadIdx.x % 8 * 4];
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\ncp.async.wait_all;"
                 : : "r"(at), "l"(from), "r"(bytes) : "memory");
    for (int i = 0; i < 4; i++) OUTPUT(i) = tile[threadIdx.x * 4 + i];
}

KERNEL(vote_ballot) {
    OUTPUT(0) = __ballot_sync(~0u, INPUT(0) & 1);
    OUTPUT(1) = __all_sync(~0u, INPUT(1) & 1) | __any_sync(~0u, INPUT(1) & 1) << 1;
    OUTPUT(2) = __match_any_sync(~0u, INPUT(2) & 3);
}

/* Three words with the carry from each to the next. */
#define CARRY(name, first, middle, last)                                                           \
    KERNEL(name) {                                                                                 \
        u32 x, y, z;                                                                               \
        asm volatile(first "\n" middle "\n" last                                                   \
                     : "=&r"(x), "=&r"(y), "=&r"(z)                                                \
                     : "r"(INPUT(0)), "r"(INPUT(1)), "r"(INPUT(2)), "r"(INPUT(3)), "r"(INPUT(4)),  \
                       "r"(INPUT(5)));                                                             \
        OUTPUT(0) = x;                                                                             \
        OUTPUT(1) = y;                                                                             \
        OUTPUT(2) = z;                                                                             \
    }
CARRY(carry_add, "add.cc.u32 %0, %3, %4;", "addc.cc.u32 %1, %5, %6;", "addc.u32 %2, %7, %8;")
CARRY(carry_sub, "sub.cc.u32 %0, %3, %4;", "subc.cc.u32 %1, %5, %6;", "subc.u32 %2, %7, %8;")
CARRY(carry_mad, "mad.lo.cc.u32 %0, %3, %4, %5;", "madc.hi.cc.u32 %1, %3, %4, %6;",
      "addc.u32 %2, %7, 0;")

/* Four lanes write one word, byte by byte; two write the next, half by half. */
KERNEL(shared_bytes) {
    __shared__ __align__(4) unsigned char bytes[32];
    __shared__ __align__(4) unsigned short halves[32];
    bytes[threadIdx.x] = (unsigned char)INPUT(0);
    halves[threadIdx.x] = (unsigned short)INPUT(1);
    __syncthreads();
    OUTPUT(0) = ((const u32 *)bytes)[threadIdx.x / 4];
    OUTPUT(1) = ((const u32 *)halves)[threadIdx.x / 2];
}
