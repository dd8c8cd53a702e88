"""Proofs that a text which was changed in one place says the same: of TL Code (equal_tl.py) and of CUDA text (equal_cuda.py).

Each proof gives its sentence, or None. This file holds their test: changes that say the same, and such that do not.
"""
import sys

from equal_cuda import of_cuda
from equal_text import changes  # noqa: F401, for who explains what is not proved
from equal_tl import REFUSED, of_tl

TL = """let BM = 64, BN = 32
let blocks = max(1, ceil(kv_len/BN))
let full = floor(kv_len/BN)
let steady = min(blocks, full) - 1
Compute Fill 0 and get O
Compute Fill 1 and get start
Compute Fill 3 and get start
Compute Fill -1e30 and get m
for j = 0:steady
    Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
    Compute GEMM Q, K.T and get S
    Compute RowMax S and get unused
    Compute GEMM S, V and accumulate O
end
for j = max(0, steady):blocks
    if j + 1 < blocks
        Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
    end
    Compute GEMM Q, K.T and get S
    if j >= full
        Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
    end
    Compute GEMM S, V and accumulate O
end
Compute Subtract O, m and get O
Compute Subtract O, start and get O
Copy O from register to global""".splitlines()
# A line, what it becomes (None: it goes), and whether that says the same.
EXAMPLES = (
    ("let blocks = max(1, ceil(kv_len/BN))", "let blocks = max(2, ceil(kv_len/BN))", True), ("let blocks = max(1, ceil(kv_len/BN))", "let blocks = max(1, floor(kv_len/BN))", False),
    ("let full = floor(kv_len/BN)", "let full = ceil(kv_len/BN)", False), ("let full = floor(kv_len/BN)", "let full = floor(kv_len/BN) - 1", True),
    ("let steady = min(blocks, full) - 1", "let steady = min(blocks, full) - 2", True), ("let steady = min(blocks, full) - 1", "let steady = min(blocks, full) + 1", False),
    ("    if j >= full", "    if j <= full", True), ("    if j >= full", "    if j > full", False), ("    if j + 1 < blocks", "    if j < blocks", True),
    ("    if j + 1 < blocks", "    if j + 2 < blocks", False), ("    Compute RowMax S and get unused", None, True), ("    Compute GEMM S, V and accumulate O", None, False),
    ("for j = 0:steady", "for j = 1:steady", False), ("for j = max(0, steady):blocks", "for j = max(0, steady):blocks + 1", True),
    ("for j = max(0, steady):blocks", "for j = max(0, steady):blocks - 1", False), ("Compute Fill -1e30 and get m", "Compute Fill -1.01e30 and get m", True),
    ("Compute Fill -1e30 and get m", "Compute Fill -1 and get m", False), ("Compute Fill 1 and get start", "Compute Fill 2 and get start", True),
    ("Compute Fill 3 and get start", "Compute Fill 2 and get start", False))
SWAPS = (("S[m16][n8][2 * half] = ftl_exp2(S[m16][n8][2 * half]);", "S[m16][n8][2 * half + 1] = ftl_exp2(S[m16][n8][2 * half + 1]);", True),
         ("shift[m16][half] = ftl_multiply(m[m16][half], -c);", "l[m16][half] = ftl_multiply(l[m16][half], alpha[m16][half]);", True),
         ("shift[m16][half] = ftl_multiply(m[m16][half], -c);", "m[m16][half] = ftl_max(m[m16][half], room);", False),
         ("S[m16][n8][half] = ftl_exp2(S[m16][n8][half]);", "part[m16] = ftl_add(part[m16], S[m16][n8][0]);", False))


CUDA = """extern "C" __global__ void k(const k_parameters args) {
    const int BM = 128, BN = 64;
    const int blocks = ftl_max_integer(1, ftl_divide_up(args.kv_len, BN));
    const int full = args.kv_len / BN;
    const int clear = ftl_divide_up((q_block + 1) * BM + offset - 100, BN);
    const int seen = ftl_divide_down(ftl_min_integer(args.kv_len, q_block * BM + offset + 1), BN);
    const int steady = ftl_min_integer(blocks, full);
    const int group = ftl_divide_up(args.q_heads, args.kv_heads);
    const int other = ftl_divide_up(args.q_len, args.kv_heads);
    bool O_holds = false;
    FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -c);
    FTL_UNROLL for (int half = 0; half < 2; half++) unused[half] = 0.0f;
    FTL_UNROLL for (int half = 0; half < 2; half++) alpha[half] = 1.0f;
    int eager_kept = ftl_any((alpha[0] < 3e-05f) | (alpha[1] < 3e-05f));
    const bool early = (eager_kept != 0);
#pragma unroll 1
    for (int j = 0; j < blocks; j++) {
        const int columns_left = args.kv_len - j * BN;
        FTL_UNROLL for (int down = 0; down < 2; down++) {
            if (row + 32 * down < 48) {
                ftl_cp_async_16(target + 2048 * down, source + 32 * down);
            }
        }
        ftl_wgmma_m64n16k16_f16<0, 0>(S, left, right, true);
        O_holds = true;
        if (j < clear || j >= seen) {
            const int limit_1 = args.kv_len - j * BN;
            S[n8][2 * half] = 8 * n8 >= limit_1 ? -ftl_infinity() : S[n8][2 * half];
        }
        if (j == 0) {
            FTL_UNROLL for (int n8 = 0; n8 < 8; n8++)
                FTL_UNROLL for (int half = 0; half < 2; half++)
                    m[half] = ftl_max(m[half], ftl_max(S[n8][2 * half], S[n8][2 * half + 1]));
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                m[half] = ftl_max(m[half], ftl_exchange(m[half], 1));
            }
            FTL_UNROLL for (int half = 0; half < 2; half++) shift[half] = ftl_multiply(m[half], -c);
        }
        if (j == 1) {
            m[half] = ftl_max(m[half], ftl_max(S[0][2 * half], S[0][2 * half + 1]));
            m[half] = ftl_max(m[half], ftl_exchange(m[half], 1));
            other_shift[half] = ftl_multiply(m[half], -c);
        }
        FTL_UNROLL for (int half = 0; half < 2; half++) unused[half] = ftl_add(unused[half], S[0][half]);
        FTL_UNROLL for (int half = 0; half < 2; half++) part[half] = ftl_add(part[half], S[0][half]);
        bool any_1 = false;
        FTL_UNROLL for (int half = 0; half < 2; half++) any_1 |= !(part[half] < 32768.0f);
        if (ftl_any(any_1)) {
            FTL_UNROLL for (int n8 = 0; n8 < 4; n8++)
                m[half] = ftl_max(m[half], ftl_max(S[n8][2 * half], S[n8][2 * half + 1]));
            m[half] = ftl_max(m[half], ftl_exchange(m[half], 2));
            alpha[half] = ftl_subtract(m_old[half], m[half]);
        }
        FTL_UNROLL for (int half = 0; half < 2; half++) P[half] = ftl_pack_f16(S[0][0], ftl_multiply_add(S[0][1], shift[half], other_shift[half]));
        ftl_wgmma_m64n16k16_f16_left<1>(O, P[0], alpha[0], right, true);
        if (columns_left >= 64) {
            FTL_UNROLL for (int half = 0; half < 2; half++) {
                if (Y_row + 8 * half < rows_left) {
                    Y[n8][half] = ftl_load_global_4(matrix);
                } else {
                    Y[n8][half] = 0;
                }
                if (Z_row + 8 * half < rows_left) {
                    Z[n8][half] = ftl_load_global_4(matrix);
                } else {
                    Z[n8][half] = 0;
                }
            }
        }
        Y_wide[n8][2 * half] = ftl_add(ftl_low_f16(Y[n8][half]), m[half]);
        column[n8] = ftl_add(column[n8], ftl_low_f16(Z[n8][half]));
        ftl_store_global_f32(vector, Y_wide[n8][2 * half]);
        ftl_store_global_f32(vector, column[n8]);
        if (lane == 0) ftl_tma_store_wait<0>();
        if (lane == 0) ftl_tma_store(args.O_map);
    }
    if (!O_holds) {
        O[n8][0] = 0.0f;
    }
    if (!E_holds) {
        E[n8][0] = 0.0f;
    }
    if (has_more) {
        P_0[0] = P_1[1];
    } else {
        P_0[0] = P_1[0];
        Q_0[0] = Q_1[0];
    }
    if (left > 0) {
        if (left >= 4)
            ftl_store_global_16_f32(target, S1[0]);
        else
            ftl_store_global_16_f32_part(target, S1[0], left);
    }
    if (left > 0) {
        if (left >= 4)
            ftl_store_global_16_f32(target, S1[0]);
        else
            ftl_store_global_f32(target, S1[0]);
    }
    ftl_store_global_f32(target, ftl_add(Q_0[0], ftl_add(O[0][0], E[0][0])));
    if (early || eager_kept) ftl_store_global_f32(target + other, ftl_add(E[0][0], 0.0f));
}""".splitlines()
# A line (and which of several alike), what it becomes, and whether that says the same.
CUDA_EXAMPLES = (
    ("const int clear = ftl_divide_up((q_block", 0, "up((q", "down((q", True), ("const int clear = ftl_divide_up((q_block", 0, "100", "200", False), ("const int clear = ftl_divide_up((q_block", 0, " + 1)", " - 1)", False),
    ("const int seen", 0, "offset + 1", "offset + 200", False),
    ("const int group", 0, "_up", "_down", True), ("const int other", 0, "_up", "_down", False),
    ("unused[half] = 0.0f", 0, "0.0f", "1.0f", True), ("part[half] = ftl_add", 0, "0][half]", "1][half]", False), ("unused[half] = ftl_add", 0, "0][half]", "1][half]", True),
    ("alpha[half] = 1.0f", 0, "1.0f", "-1.0f", True), ("int eager_kept", 0, "3e-05f)", "1.0f)", True), ("int eager_kept", 0, "ftl_any(", "(", False), ("const bool early", 0, "!=", "<", False),
    ("down < 2", 0, "2;", "3;", True), ("down < 2", 0, "2;", "1;", False), ("row + 32", 0, "48", "64", False),
    ("n8 < 8", 0, "= 0", "= 0 + 1", True), ("n8 < 8", 0, "8;", "8 + 1;", False), ("n8 < 8", 0, "8;", "8 - 1;", True), ("n8 < 4", 0, "4;", "4 - 1;", False),
    ("if (j == 0)", 0, "j == 0", "false", True), ("if (j == 1)", 0, "j == 1", "false", False),
    ("m[half] = ftl_max(m[half], ftl_exchange(m[half], 1))", 0, "m[half] = ftl_max(m[half], ftl_exchange(m[half], 1));", "", False),
    ("any_1 |=", 0, "part[half]", "part[(half) ^ 1]", True), ("any_1 |=", 0, "part[half]", "part[0]", False), ("any_1 |=", 0, "32768.0f", "132768.0f", False), ("any_1 |=", 0, "] < ", "] > ", False), ("any_1 |=", 0, "] < ", "] <= ", True), ("any_1 |=", 0, "] < ", "] != ", False),
    ("Y[n8][half] = 0;", 0, "Y[n8][half] = 0;", "", True), ("Z[n8][half] = 0;", 0, "Z[n8][half] = 0;", "", False),
    ("ftl_tma_store_wait", 0, "lane == 0", "true", True), ("ftl_tma_store(args", 0, "lane == 0", "true", False),
    ("O[n8][0] = 0.0f", 0, "0.0f", "1.0f", True), ("E[n8][0] = 0.0f", 0, "0.0f", "1.0f", False),
    ("if (!O_holds)", 0, "!O_holds", "false", True), ("if (!O_holds)", 0, "!O_holds", "true", False), ("if (!E_holds)", 0, "!E_holds", "false", False),
    ("P_0[0] = P_1[0]", 0, "P_1[0]", "P_1[1]", True), ("Q_0[0] = Q_1[0]", 0, "Q_1[0]", "Q_1[1]", False), ("P_0[0] = P_1[1]", 0, "P_1[1]", "P_1[0]", True),
    ("if (left > 0)", 0, "left > 0", "true", True), ("if (left > 0)", 1, "left > 0", "true", False))
ROOM = """bool any_1 = false;
any_1 |= !(part[half] < room[half]);
if (ftl_any(any_1)) return;
room[half] = ftl_add(room[half], ftl_exchange(room[half], 1));
room[half] = ftl_min(room[half], 32768.0f);
P[half] = ftl_pack_bf16(S[0], S[1]);
ftl_store_global_f32(vector, part[half]);""".splitlines()


# An online softmax with a vote: its maximum is kept while powers stay small.
VOTES = """kernel votes for t4
let d = 64, BM = 128, BN = 64
Input  scale f32 where scale != 0
let offset = kv_len - q_len
let blocks = max(1, ceil(kv_len/BN))
let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)
let clear = ceil((q_block*BM + offset + 100)/BN)
Allocate alpha in register f32 (BM) as rows of O
Compute Fill 0 and get O
Compute Fill -1e30 and get m
Compute Fill 1 and get alpha
Compute Multiply m, -1.44269504 and get shift
for j = 0:blocks
    let eager = any(alpha < 3e-5)
    if eager
        Compute Cast m and get m_old
        Compute RowMax S and accumulate m
        Compute Subtract m_old, m and get alpha
        Compute Multiply O, alpha and get O
    end
    Compute GEMM Q, K.T and get S by m16n8k8
    Compute Tanh S and get S
    if j < clear or j >= full
        Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
    end
    if j == 0
        Compute RowMax S and accumulate m
        Compute Multiply m, -1.44269504 and get shift
    end
    Compute MultiplyAdd S, 1.44269504, shift and get S
    Compute Exp2 S and get S
    Compute RowSum S and get part
    if any(not part < 32768)
        Compute GEMM Q, K.T and get S by m16n8k8
        Compute Tanh S and get S
        Compute RowMax S and accumulate m
        Compute Multiply m, -1.44269504 and get shift
        Compute MultiplyAdd S, 1.44269504, shift and get S
        Compute Exp2 S and get S
    end
    Compute GEMM S, V and accumulate O
    Compute Fill 0 and get alpha
end
Copy O (BM, d) in coordinate [L = q_block] from register to global""".splitlines()
LINEAR = [x for x in VOTES if "Tanh" not in x]          # scores without bounds
HIDDEN = [x.replace("kv >= kv_len", "kv <= q") for x in VOTES]
BARE = [x for x in VOTES if "Fill -1e30" not in x]

# A text, the lines of it from one to another, what they become, and whether that says the same.
IN_VOTES = (
    (VOTES, "Input  scale f32 where scale != 0", 1, ["Input  scale f32 where scale > 0"], True), (VOTES, "Input  scale f32 where scale != 0", 1, ["Input  scale f32 where scale == 0"], False),
    (VOTES, "let d = 64, BM = 128, BN = 64", 1, ["let d = 64, BM = 129, BN = 64"], True), (VOTES, "let d = 64, BM = 128, BN = 64", 1, ["let d = 65, BM = 128, BN = 64"], False),
    (VOTES, "Compute Multiply m, -1.44269504 and get shift", 1, ["Compute Multiply m, -1.457 and get shift"], True),
    (VOTES, "    Compute MultiplyAdd S, 1.44269504, shift and get S", 1, ["    Compute MultiplyAdd S, -1.44269504, shift and get S"], False),
    (VOTES, "        Compute Multiply m, -1.44269504 and get shift", 1, [], True), (VOTES, "    if j == 0", 1, ["    if j < 0"], True), (VOTES, "    if j == 0", 1, ["    if j > 0"], False),
    (VOTES, "    if j == 0", 4, [], True), (BARE, "    if j == 0", 4, [], False),
    (VOTES, "    if any(not part < 32768)", 8, [], True), (LINEAR, "    if any(not part < 32768)", 7, [], False), (HIDDEN, "    if any(not part < 32768)", 8, [], False),
    (VOTES, "    if any(not part < 32768)", 1, ["    if any(not part <= 32768)"], True), (VOTES, "    if any(not part < 32768)", 1, ["    if any(not part > 32768)"], False),
    (VOTES, "    Compute Fill 0 and get alpha", 1, [], True), (VOTES, "Compute Fill 0 and get O", 1, [], False),
    (VOTES, "let blocks = max(1, ceil(kv_len/BN))", 1, ["let blocks = max(0, ceil(kv_len/BN))"], True),
    (VOTES, "let blocks = max(1, ceil(kv_len/BN))", 1, ["let blocks = max(0, floor(kv_len/BN))"], False),
    (VOTES, "let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)", 1, ["let full = ceil(min(kv_len, q_block*BM + offset + 1)/BN)"], True),
    (VOTES, "let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)", 1, ["let full = ceil(min(kv_len, q_block*BM + offset + 200)/BN)"], False))


# Loops, of which rounds may be done again, or begin elsewhere.
ROUNDS = """kernel rounds for a100
let BM = 128, BN = 64
let len = top*rows
let offset = kv_len - q_len
let whole = floor(kv_len/BN)
let full = floor(len/BN)
let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))
let steady = min(blocks, whole) - 1
let blocks_2 = max(1, ceil(len/BN))
let steady_2 = min(blocks_2, full) - 1
let first = max(0, floor((off + 1)/BN))
let blocks_3 = max(first + 1, ceil(kv_len/BN))
let steady_3 = min(full, blocks_2)
Allocate K in shared f16 (BN, d) swizzled 128 stages 2
Allocate V in shared f16 (BN, d) swizzled 128 stages 1
for j = 0:steady
    Compute GEMM Q, K_shared.T and get S by m16n8k16
    Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
    Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset or kv >= kv_len
    Compute GEMM S, V_shared and accumulate O by m16n8k16
    Copy V (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
    Compute Add S, scale and get S
    Compute Subtract S, 1.5 and get S
    Compute Multiply S, S and get S
    Compute Multiply S, 2.5 and get S
    Compute Add r, S and get r
end
for j = max(0, steady):blocks
    Compute GEMM Q, K_shared.T and get S by m16n8k16
    Compute Min S, 0 and get S
    Compute Max S, 1 and get S
    Compute RowSum S and accumulate r
    Compute GEMM Q, K_shared.T and get T by m16n8k16
    Compute Min T, 2 and get T
    Compute Max T, 1 and get T
    Compute RowSum T and accumulate r
    if j >= whole or j < close
        if j >= whole
            Compute Mask T in coordinate [L = q_block, L = j] where kv >= kv_len
        end
        if j < close
            Compute Add r, 1 and get r
        end
    end
    if j >= whole or j < close
        if j >= whole
            Compute Mask T in coordinate [L = q_block, L = j] where kv > kv_len
        end
        Compute Add r, 1 and get r
    end
    Compute Mask T in coordinate [L = q_block, L = j] where kv >= kv_len or kv < 3
end
for j = 1:steady_2
    Compute GEMM Q, K_shared.T and get S by m16n8k16
end
for j = max(1, steady_2):blocks_2
    Compute GEMM Q, K_shared.T and get S by m16n8k16
    if j >= full
        Compute Mask S in coordinate [L = q_block, L = j] where n >= len
    end
end
for j = first:blocks_3
    Copy K (BN, d) in coordinate [L = j] from global to shared
    Compute Mask P in coordinate [L = q_block, L = j] where kv <= off or kv > q
    Compute RowSum P and accumulate r
end
for j = 0:steady_3
    Copy A (BM, BN) in coordinate [L = j] from global to register and get E
    Compute Add E, 1.5 and get E
    Compute RowMin E and accumulate least
end
for j = max(0, steady_3):blocks_2
    Copy A (BM, BN) in coordinate [L = j] from global to register and get E
    Compute Add E, 1.5 and get E
    if j >= full
        Compute Mask E, -log(0) in coordinate [L = q_block, L = j] where n >= len
    end
    Compute RowMin E and accumulate least
end
Copy O (BM, d) in coordinate [L = q_block] from register to global
Copy r (BM) in coordinate [L = q_block] from register to global
Copy least (BM) in coordinate [L = q_block] from register to global""".splitlines()
TESTED = ROUNDS.index("    if j >= whole or j < close")
SUMS = [x.replace("RowMin", "RowSum") for x in ROUNDS]
OTHER = [x.replace("kv <= off", "kv <= of") for x in ROUNDS]
SEEN = [x.replace("for j = first", "if first == 0").replace(":blocks_3", "") for x in ROUNDS]
# A window, and a vote that masks anew; and where the maximum may be kept at once.
WINDOWS = """let c = 1.44269504
Compute Fill -1e30 and get m
Compute Multiply m, -c and get shift
Compute Mask S in coordinate [L = q_block, L = first] where kv > q or kv <= q - 100
Compute RowMax S and accumulate m
Compute Multiply m, -c and get shift
for j = first + 1:blocks
    let eager = any(alpha < 3e-5)
    if eager
        Compute RowMax S and accumulate m
        Compute Subtract old, m and get alpha
        Compute Multiply m, -1.44269504 and get shift
        Compute Multiply O, alpha and get O
    end
    Compute MultiplyAdd S, 1.44269504, shift and get T
    let slow = any(not part < 1024)
    if slow
        let hard = any(not part < 65000)
        if hard
            Compute RowMax S and accumulate m
            Compute Subtract old, m and get alpha
            Compute Multiply m, -1.44269504 and get shift
            Compute Multiply O, alpha and get O
            Compute MultiplyAdd S, 1.44269504, shift and get T
            Compute Exp2 T and get T
            Compute RowSum T and get part
            Compute Cast T and get P
        end
        if not hard
            Compute Fill 0 and get alpha
        end
    end
end
for j = first + 1:blocks
    Compute GEMM Q, K.T and get S by m16n8k16
    Compute Mask S in coordinate [L = q_block, L = j] where kv > q or kv <= q - 100
    Compute MultiplyAdd S, 1.44269504, shift and get S
    Compute Exp2 S and get S
    Compute RowSum S and get part
    Compute Cast S and get P
    if any(not part < 32768)
        Compute GEMM Q, K.T and get S by m16n8k16
        Compute Mask S in coordinate [L = q_block, L = j] where kv > q or kv <= q - 100
        Compute RowMax S and accumulate m
        Compute Multiply m, -1.44269504 and get shift
        Compute MultiplyAdd S, 1.44269504, shift and get S
        Compute Exp2 S and get S
    end
    Compute GEMM P, V and accumulate O by m16n8k16
end
Copy O (BM, d) in coordinate [L = q_block] from register to global""".replace("-c", "-1.44269504").splitlines()
ALONE = [x.replace("kv > q or kv <= q - 100", "kv > q") if "L = first" in x else x for x in WINDOWS]
SMALL = [x.replace("-1e30", "-10") for x in WINDOWS]
WIDE = [x.replace("65000", "65000000") for x in WINDOWS]
READ = [x.replace("Compute MultiplyAdd S, 1.44269504, shift and get T", "Compute Multiply O, alpha and get O") for x in WINDOWS]
IN_ROUNDS = (
    (ROUNDS, "let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))", 1, ["let blocks = max(1, ceil(max(kv_len, (q_block + 1)*BM + offset)/BN))"], True),
    (ROUNDS, "let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))", 1, ["let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM - offset)/BN))"], False),
    (ROUNDS, "let steady_2 = min(blocks_2, full) - 1", 1, ["let steady_2 = max(blocks_2, full) - 1"], True),
    (ROUNDS, "let steady_2 = min(blocks_2, full) - 1", 1, ["let steady_2 = max(blocks_2, full)"], False), (ROUNDS, "let len = top*rows", 1, ["let len = top + rows"], False),
    (ROUNDS, "let first = max(0, floor((off + 1)/BN))", 1, ["let first = max(0, floor((off - 1)/BN))"], True),
    (ROUNDS, "let first = max(0, floor((off + 1)/BN))", 1, ["let first = max(0, floor((off + 2)/BN))"], False),
    (OTHER, "let first = max(0, floor((off + 1)/BN))", 1, ["let first = max(0, floor((off - 1)/BN))"], False), (SEEN, "let first = max(0, floor((off + 1)/BN))", 1, ["let first = max(0, floor((off - 1)/BN))"], False),
    (ROUNDS, "    Compute GEMM Q, K_shared.T and get S by m16n8k16", 2, ROUNDS[17:15:-1], True), (ROUNDS, "    Compute GEMM S, V_shared and accumulate O by m16n8k16", 2, ROUNDS[20:18:-1], False),
    (ROUNDS, "    Compute Add S, scale and get S", 2, ROUNDS[22:20:-1], True), (ROUNDS, "    Compute Multiply S, S and get S", 2, ROUNDS[24:22:-1], False),
    (ROUNDS, "    Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset or kv >= kv_len", 1, [ROUNDS[18].replace("kv >= kv_len", "kv > kv_len")], True),
    (ROUNDS, "    Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset or kv >= kv_len", 1, [ROUNDS[18].replace("kv > q", "kv >= q")], False),
    (ROUNDS, "    Compute Mask T in coordinate [L = q_block, L = j] where kv >= kv_len or kv < 3", 1, ["    Compute Mask T in coordinate [L = q_block, L = j] where kv > kv_len or kv < 3"], False),
    (ROUNDS[:16] + ROUNDS[27:], "    Compute GEMM Q, K_shared.T and get S by m16n8k16", 1, [], True), (ROUNDS, "    Compute GEMM Q, K_shared.T and get T by m16n8k16", 1, [], False),
    (ROUNDS, "    if j >= whole or j < close", 8, ROUNDS[TESTED + 1:TESTED + 7], True),
    (ROUNDS[:TESTED] + ROUNDS[TESTED + 8:], "    if j >= whole or j < close", 6, ROUNDS[TESTED + 9:TESTED + 13], False),
    (ROUNDS, "for j = max(0, steady_3):blocks_2", 1, ["for j = min(0, steady_3):blocks_2"], True), (ROUNDS, "for j = max(0, steady_3):blocks_2", 1, ["for j = max(1, steady_3):blocks_2"], False),
    (SUMS, "for j = max(0, steady_3):blocks_2", 1, ["for j = min(0, steady_3):blocks_2"], False), (ROUNDS, "for j = max(0, steady):blocks", 1, ["for j = min(0, steady):blocks"], False),
    (WINDOWS, "    if eager", 6, [], True), (WIDE, "    if eager", 6, [], False), (READ, "    if eager", 6, [], False), (WINDOWS, "        if hard", 10, [], False)) + tuple(
    (text, "    Compute Mask S in coordinate [L = q_block, L = j] where kv > q or kv <= q - 100", 1, [f"    Compute Mask S in coordinate [L = q_block, L = j] where {now}"], same)
    for text, now, same in ((WINDOWS, "kv > q or kv < q - 100", True), (WINDOWS, "kv >= q or kv <= q - 100", False), (WINDOWS, "kv > q or kv < q + 100", False),
                            (ALONE, "kv > q or kv < q - 100", False), (SMALL, "kv > q or kv < q - 100", False)))


def in_votes():
    """What the proofs say wrongly of the texts with votes, and with rounds."""
    wrong = []
    for text, first, count, new, same in IN_VOTES + IN_ROUNDS:
        at = text.index(first)
        mutant = text[:at] + new + text[at + count:]
        if bool(of_tl(mutant, text)) != same:
            wrong.append(f"{first.strip()} ({count}) -> {new}: {of_tl(mutant, text)}")
    if not of_tl([x for k, x in enumerate(VOTES) if k not in (VOTES.index("    if eager"), VOTES.index("    if eager") + 5)], VOTES):
        wrong.append("`if eager` without its condition")
    return wrong

FIRST_STEP = """    const int blocks = ftl_max_integer(1, n);
    FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
        FTL_UNROLL for (int half = 0; half < 2; half++) shift[m16][half] = ftl_multiply(m[m16][half], -c);
    for (int j = 0; j < blocks; j++) {
        if (j == 0) {
            FTL_UNROLL for (int m16 = 0; m16 < 2; m16++)
                FTL_UNROLL for (int half = 0; half < 2; half++) shift[m16][half] = ftl_multiply(m[m16][half], -c);
        }
        ftl_store_global_f32(x, shift[0][0]);
    }""".splitlines()
# What else is changed of it, and whether its first loop may then end one step early.
FIRST_STEPS = (("", "", True), ("j == 0", "j == 1", False), ("(1, n)", "(0, n)", False), ("for (int j = 0", "for (int j = 1", False),
               ("        if (j == 0) {", "        ftl_store_global_f32(y, shift[1][0]);\n        if (j == 0) {", False), ("            FTL_UNROLL for (int m16 = 0", "            FTL_UNROLL for (int m16 = 1", False))


# Ways of copies, of functions and of votes: a text, what is changed in which of several alike places, and whether that says the same.
COPIES = """const int blocks = ftl_max_integer(1, ftl_divide_up(args.k_len, BK));
const int BK = 64;
const int whole = args.k_len / BK;
const int steady = ftl_min_integer(blocks, whole) - 1;
for (int i = 0; i < steady; i++) {
    {
        const int row = warp * 4 + (lane >> 3), column = (lane & 7) * 8;
        const int columns_left = args.k_len - (i + 1) * BK;
        if (rows_left >= 128 && columns_left >= 64) {
            ftl_cp_async_16(target, source);
        } else {
            const int left = row < rows_left ? columns_left - column : 0;
            ftl_cp_async_16_part<8>(target, left > 0 ? source : args.X, left);
        }
    }
}
{
    const int row = warp * 32 + lane, column = 0;
    const unsigned short *source = args.V + (row) * args.V_stride_n + column;
    if (row < 32) {
        ftl_cp_async_16(target, source);
    }
}
if (rows_left >= 48) {
    ftl_load_global_16(units[0], source);
} else {
    if (row < 48) {
        if (row < rows_left)
            ftl_load_global_16(units[0], source);
        else
            units[0][0] = units[0][1] = 0;
    }
    if (row < 40) {
        if (row < rows_left)
            ftl_load_global_16(units[0], source);
        else
            units[0][0] = units[0][1] = 0;
    }
}
if (left > 0) {
    unsigned unit[4];
    ftl_load_shared_16(unit, source + 8 * down);
    if (left >= 8)
        ftl_store_global_16(target, unit);
    else
        ftl_store_global_16_part<8>(target, unit, left);
}
if (left > 0) {
    unsigned unit[4];
    ftl_load_shared_16(unit, source + 8 * down);
    if (left >= 4)
        ftl_store_global_16(target, unit);
    else
        ftl_store_global_16_part<8>(target, unit, left);
    ftl_store_global_16(other, unit);
}
if (__builtin_expect(!ftl_any(!(S_most < 0.5f)), 1)) {
    const float term_0 = ftl_multiply(0.99f, power);
    S[n8][0] = ftl_odd_3(S[n8][0], term_0, term_1, term_2);
} else {
    if (__builtin_expect(!ftl_any(!(S_most < 1.0f)), 0)) {
        S[n8][0] = ftl_odd_5(S[n8][0], term_0, term_1, term_2, term_3, term_4);
    } else {
        S[n8][0] = ftl_multiply(S[n8][0], factor);
        S[n8][0] = ftl_tanh(S[n8][0]);
    }
}
if (__builtin_expect(!ftl_any(!(T_most < 1.0f)), 0)) {
    T[n8][0] = ftl_odd_5(T[n8][0], term_0, term_1, term_2, term_3, term_4);
} else {
    if (__builtin_expect(!ftl_any(!(T_most < 0.5f)), 1)) {
        T[n8][0] = ftl_odd_3(T[n8][0], term_0, term_1, term_2);
    } else {
        T[n8][0] = ftl_tanh(T[n8][0]);
    }
}
if (has_more) {
    if (lane == 0) ftl_mbarrier_signal(K_held.of(shared + at::K_empty));
} else {
    if (lane == 0) ftl_mbarrier_signal(V_held.of(shared + at::V_empty));
}
for (int j = 0; j < blocks; j++) {
    if (j + 1 < blocks) {
        const int columns_left = args.k_len - (j + 1) * BK;
        if (columns_left >= 64) {
            ftl_load_global_16(K_register[0], source);
        } else {
            ftl_load_global_16_part<8>(K_register[0], source, columns_left);
        }
    }
    if (j + 1 < blocks) {
        ftl_store_shared_16(target, K_register[0]);
    }
}
if (R_row + 8 * half < rows_left) {
    R[n8][2 * half] = ftl_load_global_f32(matrix);
} else {
    R[n8][2 * half] = R[n8][2 * half + 1] = 0.0f;
}
w[half] = w_row + 8 * half < rows_left ? ftl_load_global_f32(w_vector) : 0.0f;
u[half] = u_row + 8 * half < rows_left ? ftl_load_global_f32(u_vector) : 0.0f;
b[element] = b_column + element < rows_left ? ftl_load_global_f32(b_vector) : 0.0f;
X[n8][2 * half] = ftl_add(ftl_max(X[n8][2 * half], w[half]), R[n8][2 * half]);
part[half] = ftl_add(part[half], X[n8][2 * half]);
any_1 |= !(part[half] < 32768.0f);
if (ftl_any(any_1)) {
    x = 1;
}
ftl_mma_m16n8k16_f16(Y[n8], w[0], w[1], w[0], w[1], fragment_b[0], fragment_b[1]);
ftl_mma_m16n8k16_f16(Y[n8], fragment_a[0], fragment_a[1], fragment_a[2], fragment_a[3], u[0], u[1]);
Z[half] = ftl_add(b[0], ftl_exchange(b[0], 1));
ftl_store_global_f32(vector, ftl_add(X[n8][2 * half], Z[half]));
ftl_store_global_f32(vector, ftl_add(S[n8][0], T[n8][0]));""".splitlines()
IN_COPIES = (
    ("- (i + 1) * BK", 0, "- (i", "+ (i", True), ("- (i + 1) * BK", 0, "+ 1", "+ 2", False), ("- (i + 1) * BK", 0, "- (i + 1) * BK", "- i * BK", True), ("for (int i", 0, "steady", "blocks", False),
    ("warp * 32 + lane", 0, "32", "64", True), ("warp * 32 + lane", 0, "32", "16", False), ("warp * 4 + (lane >> 3)", 0, "4", "8", False),
    ("if (row < 48)", 0, "row < 48", "true", True), ("if (row < 40)", 0, "row < 40", "true", False), ("if (row < 32)", 0, "row < 32", "true", False),
    ("if (left > 0)", 0, "left > 0", "true", True), ("if (left > 0)", 1, "left > 0", "true", False),
    ("if (left >= 8)", 0, ">=", ">", True), ("if (left >= 8)", 0, "8", "7", False), ("if (left >= 4)", 0, ">=", ">", False),
    ("S_most < 0.5f", 0, "!ftl_any(!(S_most < 0.5f))", "true", False), ("S_most < 1.0f", 0, "1.0f", "0.9f", True), ("S_most < 1.0f", 0, "1.0f", "1.5f", False), ("T_most < 1.0f", 0, "1.0f", "0.9f", False),
    ("V_held.of", 0, "lane == 0", "true", True), ("K_held.of", 0, "lane == 0", "true", False),
    ("if (j + 1 < blocks)", 0, "j + 1 < blocks", "true", True), ("if (j + 1 < blocks)", 1, "j + 1 < blocks", "true", False),
    ("= R[n8][2 * half + 1] = 0.0f", 0, "2 * half + 1] = 0", "1 * half + 1] = 0", True), ("= R[n8][2 * half + 1] = 0.0f", 0, "2 * half + 1] = 0", "2 * half - 1] = 0", False),
    ("w[half] = w_row", 0, ": 0.0f", ": 1.0f", True), ("u[half] = u_row", 0, ": 0.0f", ": 1.0f", False), ("b[element] = b_column", 0, ": 0.0f", ": 1.0f", False))
ABSOLUTE = """FTL_UNROLL for (int half = 0; half < 2; half++) r[half] = ftl_abs(r[half]);
FTL_UNROLL for (int half = 0; half < 2; half++) {
    r[half] = ftl_abs(r[half]);
    r[half] = ftl_add(r[half], 1.0f);
}""".splitlines()
GUARDED = """if (ftl_any(any_1)) {
    m[half] = ftl_max(m[half], S[0][half]);
}
O[0] = ftl_add(O[0], S[0][0]);""".splitlines()

FIRST_BARRIER = """    const int blocks = ftl_max_integer(1, ftl_divide_up(args.kv_len, BN));
    {
        unsigned target = Q_shared;
        ftl_store_shared_16(target, units[0]);
    }
    ftl_cp_async_wait<0>();
    ftl_block_barrier();
    for (int j = 0; j < blocks; j++) {
        {
            unsigned target = K_shared;
            ftl_store_shared_16(target, units[0]);
        }
        ftl_block_barrier();
        ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], Q_shared);
    }
    ftl_ldmatrix_x4(a[0], a[1], a[2], a[3], K_shared);
    ftl_store_global_f32(vector, a[0]);""".splitlines()
# What else is changed of it, and whether its first barrier may then go.
FIRST_BARRIERS = (("", "", True), ("max_integer(1,", "max_integer(0,", False), ("target = K_shared", "target = Q_shared", False), ("target = K_shared", "target = shared", False), ("16(target", "16(shared", False),
                  ("        ftl_block_barrier();\n", "", False), ("        ftl_block_barrier();", "        if (j == 1) {\n            ftl_block_barrier();\n        }", False), ("    ftl_cp_async_wait", "    ftl_load_shared_16(units, Q_shared);\n    ftl_cp_async_wait", False),
                  ("    ftl_cp_async_wait", "    ftl_store_global_f32(vector, 1.0f);\n    ftl_cp_async_wait", False), ("        {\n", "        ftl_load_shared_16(units, Q_shared);\n        {\n", False), ("j = 0; j < blocks", "j = 1; j < blocks", False))


def in_ways():
    """What the proofs say wrongly of ways, of launches and of absolute values."""
    wrong = []

    def tell(what, mutant, text, tl, same):
        if mutant == text or bool(of_cuda(mutant, text, tl)) != same:
            wrong.append(f"{what}: {of_cuda(mutant, text, tl)}")
    for mark, which, old, new, same in IN_COPIES:
        at = [i for i, x in enumerate(COPIES) if mark in x][which]
        text = COPIES
        if "for (int i" in mark:                        # the loop over all blocks: the change is that of the columns then
            text = COPIES[:at] + [COPIES[at].replace(old, new)] + COPIES[at + 1:]
            at, old, new = next(i for i, x in enumerate(text) if "- (i + 1) * BK" in x), "- (i", "+ (i"
        tell(f"{text[at].strip()}: {old} -> {new}", text[:at] + [text[at].replace(old, new, 1)] + text[at + 1:], text, TL, same)
    for at, limit in ((i, x) for i, x in enumerate(COPIES) if "_most <" in x):
        tell(f"{limit.strip()} -> false", COPIES[:at] + [limit[:len(limit) - len(limit.lstrip())] + "if (false) {"] + COPIES[at + 1:], COPIES, TL, "T_most < 1.0f" not in limit)
    for first, added, same in (("ftl_abs(r", "1.0f", True), ("ftl_exp2(r", "1.0f", False), ("ftl_abs(r", "-1.0f", False), ("half < 2; half++) r[half] = ftl_abs(r", "1.0f", True), ("half < 1; half++) r[half] = ftl_abs(r", "1.0f", False)):
        head = ABSOLUTE[0].replace("half < 2; half++) r[half] = ftl_abs(r" if "half++" in first else "ftl_abs(r", first)
        text = [head, *ABSOLUTE[1:3], ABSOLUTE[3].replace("1.0f", added), ABSOLUTE[4]]
        tell(f"an absolute value after {head}", [*text[:2], text[3], text[2], text[4]], text, TL, same)
    for tl, at, same in ((VOTES, 1, True), (VOTES, 3, False), (LINEAR, 1, False), (HIDDEN, 1, False)):
        tell(f"under a vote: {GUARDED[at]}", GUARDED[:at] + [GUARDED[at].replace("S[0]", "S[1]")] + GUARDED[at + 1:], GUARDED, tl, same)
    for old, new, same in FIRST_BARRIERS:
        text = "\n".join(FIRST_BARRIER).replace(old, new).splitlines()
        at = text.index("    ftl_block_barrier();")
        tell(f"a first barrier: {old} -> {new}", text[:at] + text[at + 1:], text, TL, same)
    tell("a first barrier of tiles in one place", FIRST_BARRIER[:6] + FIRST_BARRIER[7:], FIRST_BARRIER, TL + ["Allocate K in shared f16 (BN, d) in place of Q_shared"], False)
    up, down = [[f"const int group = ftl_divide_{x}(args.q_heads, args.kv_heads);"] for x in ("up", "down")]
    for held, same in (("q_heads % kv_heads == 0", True), ("q_heads == kv_heads", True), ("kv_heads == 1", True), ("q_heads == 1", False), ("kv_heads == 1 or q_heads > 3", False), ("kv_heads == 1 and q_heads > 3", True),
                       ("kv_heads == 12", False), ("kv_heads % q_heads == 0", False), ("all_kv_heads == 1", False)):
        tell(held, up, down, [f"Input  K f16 (kv in kv_len) where {held}"], same)
    return wrong


def main():
    wrong = in_votes() + in_ways()
    for old, new, same in EXAMPLES:
        at = TL.index(old)
        mutant = TL[:at] + ([] if new is None else [new]) + TL[at + 1:]
        if bool(of_tl(mutant, TL)) != same:
            wrong.append(f"{old.strip()} -> {new}: {of_tl(mutant, TL)}")
    for a, b, same in SWAPS:
        if bool(of_cuda([b, a], [a, b], TL)) != same:
            wrong.append(f"{a} <-> {b}: {of_cuda([b, a], [a, b], TL)}")
    for old, new, same in (("if (rows_left >= 64) {", "if (rows_left > 64) {", True), ("if (rows_left >= 64) {", "if (rows_left >= 63) {", False), ("if (rows_left >= 64) {", "if (true) {", False)):
        if bool(of_cuda([new], [old], TL)) != same:
            wrong.append(f"{old} -> {new}")
    for mark, which, old, new, same in CUDA_EXAMPLES:
        at = [i for i, x in enumerate(CUDA) if mark in x][which]
        line = CUDA[at].replace(old, new, 1)
        mutant = CUDA[:at] + ([line] if line.strip() else []) + CUDA[at + 1:]
        why = of_cuda(mutant, CUDA, ["Input  K (kv in kv_len) where q_heads % kv_heads == 0"])
        if mutant == CUDA or bool(why) != same:
            wrong.append(f"{CUDA[at].strip()} -> {line.strip()}: {why}")
    for old, new, same in FIRST_STEPS:
        text = "\n".join(FIRST_STEP).replace(old, new).splitlines()
        why = of_cuda([text[0], text[1].replace("2;", "2 - 1;")] + text[2:], text, TL)
        if bool(why) != same:
            wrong.append(f"a first step: {old} -> {new}: {why}")
    for old, new, text, same in (("min", "max", ROOM, True), ("32768.0f", "-1.0f", ROOM, True), ("32768.0f", "1e30f", ROOM, False), ("exchange", "add", ROOM, True),
                                 ("min", "max", [x.replace("bf16", "f16") for x in ROOM], False), ("min", "max", ROOM + ["ftl_store_global_f32(vector, room[half]);"], False)):
        at = 4 if old in text[4] else 3
        if bool(of_cuda(text[:at] + [text[at].replace(old, new)] + text[at + 1:], text, TL)) != same:
            wrong.append(f"{text[at]}: {old} -> {new}")
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
