/* Each rule on its own: a right program with one thing changed gives this error and no other kind.
 * Together the rows have to produce every diagnostic of diag/check.def.
 */
#include "base/os.h"
#include "check/check.h"
#include "tl/tl.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { EDITS_MAX = 6 };

typedef struct edit {
    const char *find, *put; /* everywhere */
} edit;

typedef struct row {
    const char *program; /* of tests/golden, or a text of this file */
    diag_id id;
    const char *words; /* in the first error's message */
    edit edits[EDITS_MAX];
} row;

/* A plain product: what the smallest rows change. */
#define PRODUCT                                                                                    \
    "kernel product for a100\n"                                                                    \
    "let d = 64, BM = 64, BN = 32\n"                                                               \
    "Input Q f16 (q in q_len, d)\n"                                                                \
    "Input K f16 (kv in kv_len, d)\n"                                                              \
    "Output S f32 (q in q_len, kv in kv_len)\n"                                                    \
    "grid i in q_len/BM, j in kv_len/BN\n"                                                         \
    "Allocate Q in shared f16 (BM, d) swizzled 128\n"                                              \
    "Allocate K in shared f16 (BN, d) swizzled 128\n"                                              \
    "role math with 4 warps\n"                                                                     \
    "    Allocate S in register f32 (BM, BN) as mma_C\n"                                           \
    "    Allocate m in register f32 (BM) as rows of S\n"                                           \
    "    Copy Q (BM, d) in coordinate [L = i] from global to shared by cp_async async\n"           \
    "    Copy K (BN, d) in coordinate [L = j] from global to shared by cp_async async\n"           \
    "    Wait Q_shared\n"                                                                          \
    "    Wait K_shared\n"                                                                          \
    "    Compute GEMM Q_shared, K_shared.T and get S_register by m16n8k16\n"                       \
    "    // here\n"                                                                                \
    "    Release Q_shared\n"                                                                       \
    "    Release K_shared\n"                                                                       \
    "    Copy S (BM, BN) in coordinate [L = i, L = j] from register to global\n"                   \
    "end\n"

/* The same of whole numbers. */
#define WHOLE                                                                                      \
    "kernel whole for t4\n"                                                                        \
    "let d = 64, BM = 64, BN = 64\n"                                                               \
    "Input Q i8 (q in q_len, d)\n"                                                                 \
    "Input K i8 (kv in kv_len, d)\n"                                                               \
    "Output S f32 (q in q_len, kv in kv_len)\n"                                                    \
    "grid i in q_len/BM, j in kv_len/BN\n"                                                         \
    "Allocate Q, K in shared i8 (BM, d) swizzled 64\n"                                             \
    "role math with 4 warps\n"                                                                     \
    "    Allocate Q, K in register i8 (BM, d) as lines\n"                                          \
    "    Allocate T in register i32 (BM, BM) as mma_C\n"                                           \
    "    Allocate S in register f32 (BM, BM) as mma_C\n"                                           \
    "    Copy Q (BM, d) in coordinate [L = i] from global to register\n"                           \
    "    Copy K (BM, d) in coordinate [L = j] from global to register\n"                           \
    "    Copy Q from register to shared\n"                                                         \
    "    Copy K from register to shared\n"                                                         \
    "    Wait Q_shared\n"                                                                          \
    "    Wait K_shared\n"                                                                          \
    "    Compute GEMM Q_shared, K_shared.T and get T by m16n8k32\n"                                \
    "    Release Q_shared\n"                                                                       \
    "    Release K_shared\n"                                                                       \
    "    Compute Cast T and get S\n"                                                               \
    "    Copy S (BM, BM) in coordinate [L = i, L = j] from register to global\n"                   \
    "end\n"

/* More turns than roles, by far. */
#define TURNS                                                                                      \
    "kernel turns for h200\n"                                                                      \
    "let n = 128\n"                                                                                \
    "Output A f32 (i in rows, n)\n"                                                                \
    "grid t in rows/n\n"                                                                           \
    "role one with 2 warps, turns a, turns b, turns c, turns d, turns e, turns f, turns g\n"       \
    "end\n"                                                                                        \
    "role two with 2 warps, turns h, turns k, turns l, turns m, turns o, turns p, turns q\n"       \
    "end\n"                                                                                        \
    "role three with 2 warpgroups, turns r, turns s, turns u, turns v, turns w, turns z\n"         \
    "    Allocate A in register f32 (n, n) as mma_C\n"                                             \
    "    Compute Fill 0 and get A_register\n"                                                      \
    "    Wait z\n"                                                                                 \
    "    Copy A (n, n) in coordinate [L = t, :] from register to global\n"                         \
    "end\n"

/* Two roles that hand tiles to one another. */
#define EXCHANGE                                                                                   \
    "kernel exchange for h200\n"                                                                   \
    "let n = 64\n"                                                                                 \
    "Output A f32 (i in rows, n)\n"                                                                \
    "Output B f32 (i in rows, n)\n"                                                                \
    "grid t in rows/n\n"                                                                           \
    "Allocate X in shared f32 (n)\n"                                                               \
    "Allocate Y in shared f32 (n)\n"                                                               \
    "role one with 1 warpgroup\n"                                                                  \
    "    Allocate A in register f32 (n, n) as mma_C\n"                                             \
    "    Allocate X in register f32 (n) as rows of A\n"                                            \
    "    Allocate Y in register f32 (n) as rows of A\n"                                            \
    "    Compute Fill 0 and get A_register\n"                                                      \
    "    Compute Fill 1 and get X_register\n"                                                      \
    "    Compute Multiply A_register, X_register and get A_register\n"                             \
    "    Wait Y_shared\n"                                                                          \
    "    Copy Y from shared to register\n"                                                         \
    "    Release Y_shared\n"                                                                       \
    "    Copy X from register to shared\n"                                                         \
    "    Compute Multiply A_register, Y_register and get A_register\n"                             \
    "    Copy A (n, n) in coordinate [L = t, :] from register to global\n"                         \
    "end\n"                                                                                        \
    "role two with 1 warpgroup\n"                                                                  \
    "    Allocate B in register f32 (n, n) as mma_C\n"                                             \
    "    Allocate X in register f32 (n) as rows of B\n"                                            \
    "    Allocate Y in register f32 (n) as rows of B\n"                                            \
    "    Compute Fill 0 and get B_register\n"                                                      \
    "    Compute Fill 1 and get Y_register\n"                                                      \
    "    Compute Multiply B_register, Y_register and get B_register\n"                             \
    "    Wait X_shared\n"                                                                          \
    "    Copy X from shared to register\n"                                                         \
    "    Release X_shared\n"                                                                       \
    "    Copy Y from register to shared\n"                                                         \
    "    Compute Multiply B_register, X_register and get B_register\n"                             \
    "    Copy B (n, n) in coordinate [L = t, :] from register to global\n"                         \
    "end\n"

#define A100 "attention_a100"
/* A chain of two products of 8 bits. */
#define BYTES "products_of_bytes"
#define T4 "attention_t4"
#define H200 "attention_h200"
#define FLAT "attention_h200_flat"
#define RAGGED "../reason/roles_ragged_h200.out"
#define MLA "mla_decode"
#define HERE "    // here\n"
#define SCALARS(a, b, c, d, e)                                                                     \
    "Input " #a " i32\nInput " #b " i32\nInput " #c " i32\nInput " #d " i32\nInput " #e " i32\n"
#define MANY_SCALARS                                                                               \
    SCALARS(n0, n1, n2, n3, n4)                                                                    \
    SCALARS(n5, n6, n7, n8, n9)                                                                    \
    SCALARS(p0, p1, p2, p3, p4)                                                                    \
    SCALARS(p5, p6, p7, p8, p9) SCALARS(r0, r1, r2, r3, r4)
#define MANY_SUMMED                                                                                \
    "n0 + n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9 + p0 + p1 + p2 + p3 + p4 + p5 + p6 + p7 + "   \
    "p8 + p9 + r0 + r1 + r2 + r3 + r4"
#define ASYNC_PRODUCT                                                                              \
    {"for a100", "for h200"}, {"with 4 warps", "with 1 warpgroup"}, {                              \
        "by m16n8k16", "by m64n32k16 async"                                                        \
    }
#define AGAIN "Compute GEMM Q_shared, K_shared.T and get S_register by m64n32k16 async\n"
#define ENDS "Wait S_register\nRelease S_register\n"

static const row rows[] = {
    /* what is open */
    {PRODUCT,
     DIAG_OPEN_ROLE,
     "kernel product is a sketch",
     {{"role math with 4 warps", "if 0 < 1"}}},
    {A100, DIAG_OPEN_GPU, "for which GPU", {{"kernel attention for a100", "kernel attention"}}},
    {PRODUCT,
     DIAG_OPEN_GRID,
     "has no grid",
     {{"grid i in q_len/BM, j in kv_len/BN", "let i = 0, j = 0"}}},
    {PRODUCT, DIAG_OPEN_OUTSIDE, "is in no role", {{"role math", "Wait Q_shared\nrole math"}}},
    {PRODUCT, DIAG_OPEN_HOLE, "leaves something open", {{HERE, "...\n"}}},
    {A100, DIAG_OPEN_TYPE, "element type of V", {{"Input  V f16", "Input  V"}}},
    {PRODUCT, DIAG_OPEN_EXTENT, "q_len", {{"f32 (BM, BN)", "f32 (q_len, BN)"}}},
    {PRODUCT, DIAG_OPEN_LAYOUT, "layout of S", {{" as mma_C", ""}}},
    {EXCHANGE,
     DIAG_OPEN_OWNER,
     "threads hold A",
     {{"    Allocate A in register f32 (n, n) as mma_C\n", ""},
      {"role one", "Allocate A in register f32 (n, n) as mma_C\nrole one"}}},
    {PRODUCT, DIAG_OPEN_ROWS, "whose rows", {{"as rows of S", "as rows"}}},
    {PRODUCT, DIAG_OPEN_COPY_SHAPE, "how large", {{"Copy Q (BM, d)", "Copy Q"}}},
    {A100,
     DIAG_OPEN_PLACE,
     "which part of Q",
     {{"Copy Q (BM, d) in coordinate [b, head, L = q_block]", "Copy Q (BM, d)"}}},
    {A100,
     DIAG_OPEN_COMPUTE_PLACE,
     "Mask uses index names",
     {{"Mask S in coordinate [L = q_block, L = j]", "Mask S"}}},
    {PRODUCT, DIAG_OPEN_ATOM, "a product has to say", {{" by m16n8k16", ""}}},
    {PRODUCT, DIAG_OPEN_ATOM, "an async Copy has to say", {{" by cp_async", ""}}},
    {A100, DIAG_OPEN_SOFTMAX, "belongs to sketches", {{"Exp2 S and get S", "Softmax S"}}},
    {A100,
     DIAG_OPEN_TOP,
     "belongs to sketches",
     {{"Compute Exp2 S and get S", "Compute RowTopK S, d and get T"},
      {"    Allocate S in register",
       "    Allocate T in register f32 (BM, d) as mma_C\n    Allocate S in register"}}},
    {A100, DIAG_STAGES, "1 to 64", {{"stages 2", "stages 65"}}},
    /* shapes */
    {A100, DIAG_SHAPE_RANGE, "d (1000000000) long", {{"let d = 128,", "let d = 1000000000,"}}},
    {A100, DIAG_SHAPE_RANGE, "d (0) long", {{"let d = 128,", "let d = 0,"}}},
    {A100, DIAG_SHAPE_RANGE, "d (-1) long", {{"let d = 128,", "let d = -1,"}}},
    {A100, DIAG_SHAPE_LINE, "d (7) long", {{"let d = 128,", "let d = 7,"}}},
    {A100, DIAG_SHAPE_CONTRACTED, "contracts kv of length 12", {{"BN = 64", "BN = 12"}}},
    {PRODUCT,
     DIAG_SHAPE_AXES,
     "has 3 axes",
     {{"Allocate m in register f32 (BM) as rows of S",
       "Allocate m in register f32 (BM, BN, 2) as lines"}}},
    /* places in tensors */
    {PRODUCT,
     DIAG_INDEX_NOT_WHOLE,
     "the index of 'w' has to be an integer: 't' is i8, and an index is i32",
     {{"Output S", "Input t i8 (x in q_len)\nInput w f32 (y in w_len)\nOutput S"},
      {"// here", "Compute Multiply S, w[t[q]] in coordinate [L = i, L = j] and get S"}}},
    {PRODUCT,
     DIAG_INDEX_NOT_WHOLE,
     "the index of 'Q' has to be an integer: 0.5 is none",
     {{"[L = i] from global", "[L = i*0.5] from global"}}},
    {PRODUCT,
     DIAG_LENGTH_NOT_WHOLE,
     "the length that 'n' runs over has to be an integer: 0.5 is none",
     {{"// here", "for n = 0:kv_len*0.5\n    Compute Exp2 S and get S\n    end"}}},
    {PRODUCT,
     DIAG_LENGTH_NOT_WHOLE,
     "the length that 'i' runs over has to be an integer: 0.5 is none",
     {{"grid i in q_len", "grid i in 0.5*q_len"}}},
    {PRODUCT,
     DIAG_VIEW_OUTSIDE,
     "leaves K: this is -1",
     {{"grid", "let W (kv in kv_len, d) = K[kv - 1, d]\ngrid"}}},
    {PRODUCT,
     DIAG_PLACE_BEFORE,
     "i - 1 can be -1",
     {{"[L = i] from global", "[L = i - 1] from global"}}},
    /* types and instructions */
    {T4, DIAG_GPU_LACKS, "bf16 does not work on NVIDIA T4", {{"f16", "bf16"}}},
    {PRODUCT,
     DIAG_GPU_LACKS,
     "m16n8k16 does not work",
     {{"for a100", "for t4"}, {" by cp_async async", ""}}},
    {A100, DIAG_TYPE_COPY, "bf16 to f16", {{"Input  V f16", "Input  V bf16"}}},
    {PRODUCT,
     DIAG_TYPE_ATOMIC,
     "not into f16",
     {{"Output S f32", "Output S f16"},
      {"from register to global", "from register to global and accumulate S"}}},
    {PRODUCT, DIAG_TYPE_BYTE, "m is e4m3", {{"m in register f32", "m in register e4m3"}}},
    {PRODUCT, DIAG_TYPE_BYTE, "m is u4", {{"m in register f32", "m in register u4"}}},
    {PRODUCT, DIAG_TYPE_PACKED_OUTPUT, "S is i4", {{"Output S f32", "Output S i4"}}},
    {PRODUCT,
     DIAG_TYPE_BYTE_TILE,
     "m is e4m3",
     {{"for a100", "for l40s"}, {"m in register f32", "m in register e4m3"}}},
    {BYTES,
     DIAG_TYPE_BYTE_INTO,
     "rounds f32 on its way to a shared tile of e4m3",
     {{"role math", "Allocate W in shared e4m3 (BM, BN)\nrole math"},
      {"        Compute Cast S", "        Copy S from register to shared and get W\n        Wait "
                                 "W_shared\n        Release W_shared\n        Compute Cast S"}}},
    {BYTES,
     DIAG_TYPE_BYTE_WAY,
     "P is e4m3",
     {{"        Compute Cast S and get P", "        Compute Cast S and get P\n        Compute "
                                           "Multiply P, 2 and get P"}}},
    {BYTES,
     DIAG_TYPE_BYTE_WAY,
     "P is e4m3",
     {{"        Compute Cast S and get P", "        Compute Cast S and get P\n        Compute Add "
                                           "P, 2 and accumulate P"}}},
    {BYTES, DIAG_SHAPE_CONTRACTED, "no multiple of 32", {{"BN = 64", "BN = 48"}}},
    {BYTES,
     DIAG_LONG_SUM,
     "T sums as many terms as a loop has rounds for",
     {{"    Compute Fill 0 and get O",
       "    Compute Fill 0 and get O\n    Compute Fill 0 and get T"},
      {"V_shared and get T", "V_shared and accumulate T"},
      {"        Compute Add O, T and get O", ""},
      {"    Release Q_shared", "    Compute Add O, T and get O\n    Release Q_shared"}}},
    {BYTES,
     DIAG_LONG_SUM,
     "T sums 640 terms",
     {{"V_shared and get T", "V_shared and accumulate T"},
      {"        Wait K_shared",
       "        if j % 10 == 0\n            Compute Fill 0 and get T\n        "
       "end\n        Wait K_shared"}}},
    {PRODUCT,
     DIAG_TYPE_COPY,
     "does not convert e5m2 to f16",
     {{"for a100", "for l40s"}, {"Input K f16", "Input K e5m2"}}},
    {PRODUCT,
     DIAG_TYPE_BYTE_WAY,
     "K_register is e4m3",
     {{"Input K f16", "Input K e4m3"},
      {"    Allocate m", "    Allocate K in register e4m3 (BN, d) as lines\n    Allocate m"},
      {"from global to shared by cp_async async\n    Wait Q_shared",
       "from global to register\n    Compute Multiply K_register, 2 and get K_register\n    Copy K "
       "from register to shared\n    Wait Q_shared"}}},
    {PRODUCT,
     DIAG_COPY_ADDS,
     "in global memory only",
     {{"role math", "Allocate T in shared f32 (BM, BN)\nrole math"},
      {"// here", "Copy S from register to shared and accumulate T\n    Wait T_shared\n    Release "
                  "T_shared"}}},
    {PRODUCT,
     DIAG_TYPE_PRODUCT,
     "f16 and bf16",
     {{"Input K f16", "Input K bf16"}, {"Allocate K in shared f16", "Allocate K in shared bf16"}}},
    {PRODUCT, DIAG_TYPE_OPERANDS, "Q_shared is f32", {{"f16", "f32"}}},
    {WHOLE,
     DIAG_TYPE_ACCUMULATOR,
     "adds in i32",
     {{"Allocate T in register i32", "Allocate T in register f32"}}},
    {WHOLE,
     DIAG_TYPE_WHOLE_SUM,
     "131,071 terms",
     {{"Compute GEMM", "Compute Fill 0 and get T\n    Compute GEMM"},
      {"and get T by", "and accumulate T by"}}},
    {WHOLE,
     DIAG_ATOM_TYPE,
     "m64n64k32 does not take operands of i8",
     {{"for t4", "for h200"}, {"m16n8k32", "m64n64k32"}}},
    {WHOLE, DIAG_ATOM_OPERANDS, "these have 8", {{"m16n8k32", "m16n8k16"}}},
    {WHOLE,
     DIAG_TYPE_PRODUCT,
     "i8 and f16",
     {{"Allocate Q, K in shared i8 (BM, d) swizzled 64",
       "Allocate Q in shared i8 (BM, d) swizzled 64\nAllocate K in shared f16 (BM, d) swizzled "
       "128"}}},
    {PRODUCT,
     DIAG_TYPE_ACCUMULATOR,
     "adds in f32",
     {{"Allocate S in register f32", "Allocate S in register f16"}}},
    {MLA,
     DIAG_SPACE_OPERAND,
     "alpha_shared is in shared memory",
     {{"Multiply O2_register, alpha_register", "Multiply O2_register, alpha_shared"}}},
    {PRODUCT, DIAG_PRODUCT_OPERANDS, "are tiles", {{"K_shared.T", "2"}}},
    {A100,
     DIAG_ASYNC_ONLY_PRODUCTS,
     "Exp2 cannot be async",
     {{"Exp2 S and get S", "Exp2 S and get S async"}}},
    {PRODUCT, DIAG_ATOM_UNKNOWN, "m16n8k17", {{"m16n8k16", "m16n8k17"}}},
    {PRODUCT, DIAG_ATOM_UNKNOWN, "cp_asink", {{"by cp_async", "by cp_asink"}}},
    {A100,
     DIAG_ATOM_UNKNOWN,
     "thirds",
     {{"where kv > q + offset", "where kv > q + offset by thirds"}}},
    {A100, DIAG_ATOM_UNKNOWN, "halves", {{"Exp2 S and get S", "Exp2 S and get S by halves"}}},
    {PRODUCT, DIAG_ATOM_IS_ASYNC, "cp_async is asynchronous", {{"cp_async async", "cp_async"}}},
    {PRODUCT,
     DIAG_ATOM_IS_NOT_ASYNC,
     "m16n8k16 is not",
     {{"m16n8k16", "m16n8k16 async\n    Wait S_register"}}},
    {A100,
     DIAG_ATOM_PLACES,
     "from register to shared",
     {{"Copy O from register to shared", "Copy O from register to shared by ldmatrix"}}},
    {PRODUCT, DIAG_ATOM_OPERANDS, "8 bits", {{"for a100", "for l40s"}, {"m16n8k16", "m16n8k32"}}},
    {H200, DIAG_ATOM_WIDTH, "128 columns", {{"m64n128k16", "m64n96k16"}}},
    {A100,
     DIAG_VOTE_WAITS,
     "may disagree",
     {{"    Wait V_shared",
       "    if any(m > 0)\n    Wait V_shared\n    Release V_shared\n    end\n    Wait V_shared"}}},
    {FLAT,
     DIAG_VOTE_TOO_LATE,
     "part may be 65535.9961 without a vote",
     {{"not part < 32768", "not part < 65536"}}},
    {FLAT, DIAG_VOTE_TOO_LATE, "P cannot hold as f16", {{"not part < 32768", "part > 65520"}}},
    {FLAT,
     DIAG_VOTE_TOO_LATE,
     "the limit has to be smaller",
     {{"not part < 32768", "not part <= 70000.5"},
      {"Compute RowSum T and get part\n            Compute Cast T and get P\n            let",
       "Compute Cast T and get P\n            Compute RowSum T and get part\n            let"},
      {"Compute RowSum T and get part\n                Compute Cast T and get P\n",
       "Compute Cast T and get P\n                Compute RowSum T and get part\n"}}},
    {FLAT,
     DIAG_VOTE_TOO_LATE,
     "as bf16",
     {{"f16", "bf16"}, {"not part < 32768", "not part < 3.4e38"}}},
    {A100,
     DIAG_END_HOLDS,
     "+inf",
     {{"Compute RowMax S and accumulate m", "Compute RowMin S and accumulate m"}}},
    /* tables say other lengths in the block's next tile */
    {RAGGED,
     DIAG_END_HOLDS,
     "elements of S past the end of kv",
     {{"kv > q + next(offset) or kv >= next(kv_len)", "kv >= kv_len"}}},
    {RAGGED, DIAG_HAZARD_NOTHING_COMES, "K_shared", {{"if 0 < next(whole_kv)", "if 0 < whole_kv"}}},
    /* layouts */
    {A100,
     DIAG_LAYOUT_OPERAND,
     "left operand must be in mma_A; P is in mma_C since line 51",
     {{"Reshape P from mma_C to mma_A ", ""}}},
    {BYTES,
     DIAG_LAYOUT_RESULT,
     "in mma_C permuted; T is in mma_C",
     {{"mma_C permuted\n    Copy Q", "mma_C\n    Copy Q"}}},
    {BYTES,
     DIAG_LAYOUT_RESULT,
     "in mma_C; S is in mma_C permuted",
     {{"(BM, BN) as mma_C\n    Allocate P", "(BM, BN) as mma_C permuted\n    Allocate P"},
      {"P from mma_C to mma_A permuted", "P from mma_C permuted to mma_A"}}},
    {BYTES,
     DIAG_LAYOUT_ACROSS,
     "the left operand Q_shared lies across",
     {{"Allocate Q in shared e4m3 (BM, d)", "Allocate Q in shared e4m3 (BM, d) by columns"},
      {"by cp_async async\n    Compute", "by cp_async async\n    Compute"}}},
    {BYTES,
     DIAG_LAYOUT_ACROSS,
     "the right operand V_shared lies across",
     {{"V in shared e4m3 (BN, dv) swizzled 64", "V in shared e4m3 (BN, dv) permuted swizzled 64"},
      {"V e4m3 (kv in kv_len, dv)", "V e4m3 (kv in kv_len, dv) permuted"}}},
    {BYTES,
     DIAG_LAYOUT_ORDER,
     "Q_shared holds it as it is, K_shared holds it permuted",
     {{"K in shared e4m3 (BN, d) swizzled 64", "K in shared e4m3 (BN, d) permuted swizzled 64"},
      {"K e4m3 (kv in kv_len, d)", "K e4m3 (kv in kv_len, d) permuted"}}},
    {BYTES,
     DIAG_ORDER_COPY,
     "K is permuted: its elements go to a tile in shared memory that is `permuted`, too",
     {{"K e4m3 (kv in kv_len, d)", "K e4m3 (kv in kv_len, d) permuted"}}},
    {BYTES,
     DIAG_ORDER_TILE,
     "K is permuted: a Copy from a tensor that is `permuted`, too",
     {{"K in shared e4m3 (BN, d) swizzled 64", "K in shared e4m3 (BN, d) permuted swizzled 64"},
      {"Q in shared e4m3 (BM, d) swizzled 64", "Q in shared e4m3 (BM, d) permuted swizzled 64"},
      {"Q e4m3 (q in q_len, d)", "Q e4m3 (q in q_len, d) permuted"}}},
    {BYTES,
     DIAG_LAYOUT_BYTES_MOVE,
     "between mma_C and mma_A; mma_A permuted is packing alone",
     {{"to mma_A permuted", "to mma_A"}}},
    {PRODUCT,
     DIAG_LAYOUT_RESULT,
     "S_register is in lines",
     {{"as mma_C", "as lines"}, {"Allocate m in register f32 (BM) as rows of S", ""}}},
    {PRODUCT,
     DIAG_LAYOUT_DIFFERS,
     "different threads",
     {{"role math with 4 warps\n",
       "role math with 4 warps\n    Allocate T in register f32 (BM, BN) as lines\n"},
      {HERE, "Compute Fill 0 and get T\nCompute Add S_register, T and get S_register\n"}}},
    {PRODUCT,
     DIAG_LAYOUT_VECTOR,
     "has to lie as rows of S",
     {{"as rows of S", "as lines"},
      {HERE, "Compute Fill 0 and get m\nCompute Add S_register, m and get S_register\n"}}},
    {A100,
     DIAG_LAYOUT_PARTIAL,
     "l holds partial sums",
     {{"Reshape l from partial rows to rows", ""}}},
    {A100,
     DIAG_LAYOUT_PARTIAL,
     "l holds partial sums",
     {{"Compute Multiply l, alpha and get l", "Compute Multiply l, l and get l"}}},
    {A100,
     DIAG_LAYOUT_PARTIAL,
     "l holds partial sums",
     {{"Compute Multiply l, alpha and get l", "Compute Divide alpha, l and get l"}}},
    {A100,
     DIAG_LAYOUT_PARTIAL,
     "l holds partial sums",
     {{"Compute Multiply l, alpha and get l", "Compute Add l, alpha and get l"}}},
    {PRODUCT,
     DIAG_LAYOUT_PARTIAL_MAX,
     "RowMax has no parts",
     {{"as rows of S", "as partial rows of S"},
      {HERE, "Compute Mask S_register in coordinate [L = i, L = j] where kv >= kv_len\nCompute "
             "RowMax S_register and get m\n"}}},
    {PRODUCT,
     DIAG_LAYOUT_ROW_SPLIT,
     "divided over several warps",
     {{"as mma_C", "as mma_C over (2, 2)"},
      {HERE, "Compute Mask S_register in coordinate [L = i, L = j] where kv >= kv_len\nCompute "
             "RowMax S_register and get m\n"}}},
    {A100,
     DIAG_LAYOUT_NOT_IN,
     "P is not in mma_A",
     {{"Reshape P from mma_C to mma_A", "Reshape P from mma_A to mma_C"}}},
    {PRODUCT,
     DIAG_LAYOUT_NO_MAP,
     "nothing brings m",
     {{HERE, "Compute Fill 0 and get m\nReshape m from rows to partial rows\nCompute Multiply m, 2 "
             "and get m\n"}}},
    {A100,
     DIAG_LAYOUT_MIXED,
     "depends on the way",
     {{"Reshape P from mma_C to mma_A", "if j >= full\nReshape P from mma_C to mma_A\nend"}}},
    {A100, DIAG_LAYOUT_FIT, "cannot be divided", {{"with 4 warps", "with 16 warps"}}},
    {PRODUCT, DIAG_LAYOUT_OVER, "puts 2 executors", {{"as mma_C", "as mma_C over (2, 1)"}}},
    {PRODUCT,
     DIAG_LAYOUT_GROUPS,
     "not over (2, 2)",
     {{"for a100", "for h200"},
      {"with 4 warps", "with 4 warpgroups"},
      {"BM = 64, BN = 32", "BM = 128, BN = 64"},
      {"as mma_C", "as mma_C over (2, 2)"},
      {"by m16n8k16", "by m64n32k16 async"},
      {HERE, "Wait S\n"}}},
    {PRODUCT, DIAG_LAYOUT_EXTENT, "has 64 elements", {{"as rows of S", "as columns of S"}}},
    /* hazards */
    {A100,
     DIAG_HAZARD_NOT_WAITED,
     "K_shared is read before its Wait",
     {{"    Compute GEMM Q_shared", "    Release K_shared\n    Compute GEMM Q_shared"}}},
    {PRODUCT,
     DIAG_HAZARD_NOT_WAITED,
     "S_register is",
     {ASYNC_PRODUCT,
      {"as mma_C", "as mma_C stages 2"},
      {HERE, "Wait S_register\nRelease S_register\nCompute Fill 0 and get S_register\n"}}},
    {A100, DIAG_HAZARD_NO_WAIT, "never waits", {{"    Wait Q_shared", ""}}},
    {A100, DIAG_HAZARD_UNDEFINED, "m_old is read before", {{"Compute Cast m and get m_old", ""}}},
    {A100,
     DIAG_HAZARD_NO_START,
     "O_register is accumulated",
     {{"Compute Fill 0 and get O_register", ""},
      {"Compute Multiply O_register, alpha and get O_register", ""}}},
    {A100, DIAG_HAZARD_HELD_AT_END, "K_shared is still held", {{"Release K_shared", ""}}},
    {A100,
     DIAG_HAZARD_SLOT_HELD,
     "slot of V_shared",
     {{"(BN, dv) swizzled 128 stages 2", "(BN, dv) swizzled 128"}}},
    {A100, DIAG_HAZARD_BYTES_HELD, "the bytes of Q_shared", {{"Release Q_shared", ""}}},
    {A100, DIAG_HAZARD_SLOT_HELD, "slot of K_shared", {{"stages 2", "stages 1"}}},
    {PRODUCT,
     DIAG_HAZARD_RING_FULL,
     "generation of S",
     {ASYNC_PRODUCT, {"as mma_C", "as mma_C stages 2"}, {HERE, AGAIN AGAIN ENDS ENDS ENDS}}},
    {EXCHANGE, DIAG_HAZARD_DEADLOCK, "forever", {{NULL, NULL}}},
    {A100,
     DIAG_HAZARD_NOTHING_COMES,
     "generation of Q_shared",
     {{"Wait Q_shared", "Wait Q_shared\nRelease Q_shared\nWait Q_shared"}}},
    {A100,
     DIAG_HAZARD_NOT_HELD,
     "released, but not held",
     {{"Release Q_shared", "Release Q_shared\nRelease Q_shared"}}},
    {H200, DIAG_HAZARD_RELEASE_READ, "released while", {{"Wait S    ", "//"}}},
    {PRODUCT,
     DIAG_HAZARD_READ_IN_FLIGHT,
     "S_register is read while",
     {ASYNC_PRODUCT, {HERE, "Compute Exp2 S_register and get S_register\nWait S_register\n"}}},
    {PRODUCT,
     DIAG_HAZARD_WRITE_IN_FLIGHT,
     "S_register is written while",
     {ASYNC_PRODUCT, {HERE, "Compute Fill 0 and get S_register\nWait S_register\n"}}},
    {H200,
     DIAG_HAZARD_OPERAND_WRITTEN,
     "P is overwritten",
     {{"Wait O_register                                     // O and P",
       "Compute Cast S and get P\nWait O_register // O and P"}}},
    {H200,
     DIAG_HAZARD_NOTHING_IN_FLIGHT,
     "nothing to wait for",
     {{"Wait S    ", "Wait S\nWait S //"}}},
    {A100,
     DIAG_HAZARD_NEVER_WAITED,
     "never waited for",
     {{"for j = 0:blocks", "for j = 0:blocks - 1"}}},
    {PRODUCT,
     DIAG_HAZARD_DEAD_COPY,
     "nothing waits for E",
     {{"role math", "Allocate E in shared f16 (BM, d)\nrole math"},
      {HERE, "Copy Q (BM, d) in coordinate [L = i] from global to shared and get E by cp_async "
             "async\n"}}},
    {A100, DIAG_HAZARD_HELD_AT_END, "O_shared is still held", {{"Release O_shared", ""}}},
    {H200,
     DIAG_HAZARD_UNFINISHED,
     "nothing waits for O",
     {{"Wait O_global", "//"}, {"Release O_shared", "//"}}},
    {H200,
     DIAG_HAZARD_TURN_AT_END,
     "tensor is still held",
     {{"Wait O_global", "Wait O_global\nWait tensor //"}}},
    {H200, DIAG_HAZARD_TURN_NOT_HELD, "released, but not held", {{"Wait tensor", "//"}}},
    {TURNS, DIAG_HAZARD_TURN_AT_END, "z is still held", {{NULL, NULL}}},
    {H200, DIAG_HAZARD_TURN_HELD, "its Release is missing", {{"Release tensor", "//"}}},
    {H200,
     DIAG_HAZARD_TWO_FILLERS,
     "load and math",
     {{"Wait Q_shared", "Copy K (BN, d) in coordinate [b, head/group, L = 0] from global to shared "
                        "by tma async\nWait Q_shared"}}},
    {A100,
     DIAG_HAZARD_BRANCH,
     "both ways",
     {{"Release V_shared", "if any(m > 0)\nRelease V_shared\nend"}}},
    {H200,
     DIAG_HAZARD_CONTRACTED,
     "stale or early",
     {{"Copy V (BN, dv) in coordinate [b, head/group, L = last - j]",
       "Copy V (BN, dv) in coordinate [b, head/group, L = j]"}}},
    {A100,
     DIAG_HAZARD_PLACE,
     "places S at kv",
     {{"L = q_block, L = j]", "L = q_block, L = j + 1]"}}},
    {PRODUCT,
     DIAG_HAZARD_TOO_LONG,
     "20000",
     {{HERE, "for t = 0:100000\nCompute Multiply S_register, 2 and get S_register\nend\n"}}},
    {PRODUCT,
     DIAG_HAZARD_UNREACHED,
     "no lengths were found",
     {{HERE, "if q_len*q_len == 3\nCompute Multiply S_register, 2 and get S_register\nend\n"}}},
    {PRODUCT,
     DIAG_HAZARD_TOO_MANY,
     "(24)",
     {{"Output", MANY_SCALARS "Output"},
      {HERE, "if " MANY_SUMMED " > 3\nCompute Multiply S_register, 2 and get S_register\nend\n"}}},
    {PRODUCT,
     DIAG_HAZARD_MEETING,
     "takes q from 0 of S_register together with q from 64 of w_register",
     {{"Output S", "Input w f32 (q in q_len)\nOutput S"},
      {HERE, "Allocate w in register f32 (BM) as rows of S\n"
             "Copy w (BM) in coordinate [L = i + 1] from global to register\n"
             "Compute Multiply S_register, w_register and get S_register\n"}}},
    /* ends and control */
    {A100,
     DIAG_END_HOLDS,
     "elements of S past the end of kv (kv_len)",
     {{"Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset", ""}}},
    {A100,
     DIAG_END_HOLDS,
     "this operation needs -inf",
     {{"Input  scale f32", "Input some i32\nInput  scale f32"},
      {"grid ", "let limit = some\ngrid "},
      {"where kv > q + offset", "where kv >= limit"}}},
    {A100,
     DIAG_END_HOLDS,
     "this operation needs -inf",
     {{"let full = floor(", "let full = ceil("}}},
    {PRODUCT,
     DIAG_END_HOLDS,
     "needs 0",
     {{HERE, "Compute Exp2 S_register and get S_register\nCompute RowSum S_register and get m\n"}}},
    {A100,
     DIAG_CONTROL_NOT_COVERED,
     "leaves out kv",
     {{"max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))",
       "max(1, floor(min(kv_len, (q_block + 1)*BM + offset)/BN))"}}},
    /* budgets and outputs */
    {A100, DIAG_BUDGET_SHARED, "bytes of shared memory; NVIDIA A100", {{"stages 2", "stages 8"}}},
    {H200, DIAG_BUDGET_THREADS, "2304 threads", {{"with 1 warp, 24 registers", "with 64 warps"}}},
    {H200, DIAG_BUDGET_ROLE_REGISTERS, "begins with 64512", {{"240 registers", "512 registers"}}},
    /* As many as the multiprocessor has, and more than 384 threads begin with. */
    {H200, DIAG_BUDGET_ROLE_REGISTERS, "ask for 65536", {{"24 registers", "32 registers"}}},
    {A100, DIAG_BUDGET_REGISTERS, "registers a thread", {{"BM = 128", "BM = 256"}}},
    {PRODUCT, DIAG_OUTPUT_NEVER, "Output T", {{"grid", "Output T f32 (q in q_len)\ngrid"}}},
    {PRODUCT,
     DIAG_OUTPUT_BY_ALL,
     "every t writes",
     {{"grid i in q_len/BM", "grid t in q_len, i in q_len/BM"}}},
    {PRODUCT,
     DIAG_OUTPUT_ADDED,
     "every t adds",
     {{"grid i in q_len/BM", "grid t in q_len, i in q_len/BM"},
      {"register to global", "register to global and accumulate S"}}},
    {PRODUCT,
     DIAG_OUTPUT_AGAIN,
     "every iteration of t",
     {{"    Copy S (BM", "    for t = 0:2\n    Copy S (BM"},
      {"register to global", "register to global\n    end"}}},
    {PRODUCT,
     DIAG_OUTPUT_TWICE,
     "may write elements of S that another Copy writes",
     {{"from register to global\n",
       "from register to global\n"
       "    Compute Add S_register, 1 and get S_register\n"
       "    Copy S (BM, BN) in coordinate [L = i, L = j] from register to global\n"}}},
    {PRODUCT,
     DIAG_COPY_DEAD,
     "nothing reads Q_register",
     {{"role math with 4 warps\n",
       "role math with 4 warps\n    Allocate Q in register f16 (BM, d) as lines\n"},
      {HERE, "Copy Q (BM, d) in coordinate [L = i] from global to register\n"}}},
};

static const struct {
    diag_id id;
    const char *name;
} ids[] = {
#define DIAG(id, severity, format) {DIAG_##id, #id},
#include "diag/check.def"
#undef DIAG
};

enum { ID_COUNT = sizeof ids / sizeof *ids, ROW_COUNT = sizeof rows / sizeof *rows };

static str program_text(arena *memory, const char *program) {
    if (strchr(program, '\n')) return str_from(program);
    char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/tl/%s%s", FLASHTL_SOURCE_FOLDER, program,
             strchr(program, '/') ? "" : ".tl");
    text_buffer text;
    os_error why;
    text_init(&text, 1 << 20);
    assert_true(os_read_file(path, 1 << 20, &text, &why));
    str copy = str_copy(memory, text_str(&text));
    text_done(&text);
    return copy;
}

/* All places of 'find' replaced; there must be one. */
static str replaced(arena *memory, str text, const edit *e) {
    text_buffer out;
    text_init(&out, 1 << 20);
    size_t length = strlen(e->find), at = 0, found = 0;
    while (at < text.length) {
        bool here = text.length - at >= length && !memcmp(text.data + at, e->find, length);
        if (here) text_add_z(&out, e->put);
        else text_add(&out, (str){text.data + at, 1});
        found += here;
        at += here ? length : 1;
    }
    if (!found) fail_msg("the program has no '%s'", e->find);
    str result = str_copy(memory, text_str(&out));
    text_done(&out);
    return result;
}

static void note_seen(bool *seen, const diag *d) {
    for (; d; d = d->next) {
        seen[d->id] = true;
        note_seen(seen, d->attached);
    }
}

static bool contains(str text, const char *words) {
    size_t length = strlen(words);
    for (size_t i = 0; i + length <= text.length; i++) {
        if (!memcmp(text.data + i, words, length)) return true;
    }
    return false;
}

static void check(arena *memory, str source, diag_list *diags) {
    diag_init(diags, memory, STR("row"), source);
    tl_program *program = tl_parse(memory, STR("row"), source, diags);
    if (diags->error_count || !tl_bind(program, diags)) return;
    for (tl_kernel *k = program->first; k; k = k->next) {
        gpu target;
        diag_list problems;
        bool known = k->gpu.length && gpu_find(memory, k->gpu, &target, &problems);
        check_code(k, known ? &target : NULL, memory, diags, NULL);
    }
}

static bool row_is_right(const row *r, bool *seen) {
    arena memory;
    diag_list diags;
    arena_init(&memory, 1 << 27);
    str source = program_text(&memory, r->program);
    for (int i = 0; i < EDITS_MAX && r->edits[i].find; i++) {
        source = replaced(&memory, source, &r->edits[i]);
    }
    check(&memory, source, &diags);
    bool right =
        diags.first && diags.first->id == r->id && contains(diags.first->message, r->words);
    for (const diag *d = diags.first; d; d = d->next) right &= d->id == r->id;
    note_seen(seen, diags.first);
    text_buffer out, json;
    text_init(&out, 1 << 20);
    text_init(&json, 1 << 20);
    diag_render_text(&diags, false, &out);
    diag_render_json(&diags, &json);
    if (!right) {
        fprintf(stderr, "expected %s '%s', found:\n%s\n", diag_id_name(r->id), r->words,
                out.data ? out.data : "nothing");
    }
    text_done(&out);
    text_done(&json);
    arena_done(&memory);
    return right;
}

static void rules(void **state) {
    (void)state;
    /* Of sketches: test_check_sketch.c, tests/diag/check. */
    static bool seen[DIAG_ID_COUNT] = {
        [DIAG_SKETCH_EARLY] = true,       [DIAG_SKETCH_WALK] = true,
        [DIAG_SKETCH_LOOP_NAME] = true,   [DIAG_SKETCH_BLOCK_AFTER] = true,
        [DIAG_SKETCH_BLOCK_MADE] = true,  [DIAG_SKETCH_TOO_LONG] = true, /* test_large_texts.c */
        [DIAG_SKETCH_ROUNDS] = true,      [DIAG_SKETCH_LAST_BLOCK] = true,
        [DIAG_SKETCH_BLOCK_SUM] = true,   [DIAG_SKETCH_BLOCK_STORED] = true,
        [DIAG_SKETCH_FIRST_ROUND] = true, [DIAG_SKETCH_BLOCK_KEPT] = true,
        [DIAG_SKETCH_NO_AXES] = true,     [DIAG_OUTPUT_READ] = true,
        [DIAG_SKETCH_NOT_THERE] = true,   [DIAG_TAKEN_IN_PART] = true,   /* test_check_whole.c */
        [DIAG_HAZARD_LEFT_OUT] = true,                                   /* guards.tl */
        [DIAG_TOO_MANY] = true,                                          /* test_check.c */
        [DIAG_SKETCH_TOP_PLACES] = true,  [DIAG_SKETCH_TOP_LOOP] = true, /* row_top.tl */
        [DIAG_SKETCH_TOP_STATE] = true,   [DIAG_SKETCH_LOST_INFINITY] = true,
        [DIAG_SKETCH_MASKED] = true,                                  /* infinity.tl */
        [DIAG_SKETCH_FAR_SCORES] = true,                              /* far_scores.tl */
        [DIAG_ORDER_TENSOR] = true,       [DIAG_ORDER_LENGTH] = true, /* orders.tl */
        [DIAG_ORDER_ELEMENT] = true,      [DIAG_ORDER_PLACE] = true,
    };
    int wrong = 0;
    for (int i = 0; i < ROW_COUNT; i++) wrong += !row_is_right(&rows[i], seen);
    for (int i = 0; i < ID_COUNT; i++) {
        if (!seen[ids[i].id]) fprintf(stderr, "no row gives %s\n", ids[i].name), wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* What the rows change is right before it is changed. */
static void unchanged_programs_are_right(void **state) {
    (void)state;
    arena memory;
    diag_list diags;
    arena_init(&memory, 1 << 27);
    check(&memory, STR(PRODUCT), &diags);
    assert_int_equal(diags.error_count, 0);
    check(&memory, STR(WHOLE), &diags);
    assert_int_equal(diags.error_count, 0);
    arena_done(&memory);
}

/* Up to what rounds to the largest number of the type; of a sum that nothing rounds, anything. */
static void votes_in_time_are_right(void **state) {
    (void)state;
    static const edit votes[][2] = {
        {{"not part < 32768", "not part < 65520"}},
        {{"not part < 32768", "part >= 65520"}},
        {{"not part < 32768", "part < 1e9"}},
        {{"not part < 32768", "not l < 1e9"}},
        {{"f16", "bf16"}, {"not part < 32768", "not part < 9e18"}},
    };
    for (size_t i = 0; i < sizeof votes / sizeof *votes; i++) {
        arena memory;
        diag_list diags;
        arena_init(&memory, 1 << 27);
        str source = program_text(&memory, FLAT);
        for (int k = 0; k < 2 && votes[i][k].find; k++)
            source = replaced(&memory, source, &votes[i][k]);
        check(&memory, source, &diags);
        if (diags.error_count) fprintf(stderr, "%s\n", votes[i][0].put);
        assert_int_equal(diags.error_count, 0);
        arena_done(&memory);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_programs_are_right),
        cmocka_unit_test(votes_in_time_are_right),
        cmocka_unit_test(rules),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
