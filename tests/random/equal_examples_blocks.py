"""TL Code whose blocks go to two loops, rounds of nothing, and factors that are read on several ways; see equal_examples_votes.py."""
from equal_examples_votes import CAPPED, MOVED, READ, replaced, with_moves

# The first loop masks all of its blocks, the second one asks.
GRADIENT = """kernel gradient for l40s
let d = 64, Bkv = 64, BM = 64
Input  Q f16 (q in q_len, d)
Input  K f16 (kv in kv_len, d)
Output dK f16 (kv in kv_len, d)
let offset = q_len - kv_len
let whole = floor(q_len/BM)
grid kv_block in kv_len/Bkv
let first = max(0, floor((kv_block*Bkv + offset)/BM))
let blocks = max(first + 1, ceil(q_len/BM))
let clear = ceil(((kv_block + 1)*Bkv + offset - 1)/BM)
let steady = min(clear, blocks - 1, whole - 1)
role math with 4 warps
    Allocate S in register f32 (BM, Bkv) as mma_C
    Copy K (Bkv, d) in coordinate [L = kv_block] from global to shared by cp_async async
    Copy Q (BM, d) in coordinate [L = first] from global to shared by cp_async async
    for i = first:steady
        Wait Q_shared
        Compute GEMM Q_shared, K_shared.T and get S by m16n8k16
        Release Q_shared
        Copy Q (BM, d) in coordinate [L = i + 1] from global to shared by cp_async async
        Compute Mask S in coordinate [L = i, L = kv_block] where q <= kv + offset - 1
        Compute Exp2 S and get S
        Compute RowSum S and accumulate R
    end
    for i = max(first, steady):blocks
        Wait Q_shared
        if i + 1 < blocks
            Copy Q (BM, d) in coordinate [L = i + 1] from global to shared by cp_async async
        end
        Compute GEMM Q_shared, K_shared.T and get S by m16n8k16
        Release Q_shared
        if i < clear
            Compute Mask S in coordinate [L = i, L = kv_block] where q <= kv + offset - 1
        end
        Compute Exp2 S and get S
        if i >= whole
            Compute Mask S, 0 in coordinate [L = i, L = kv_block] where q >= q_len
        end
        Compute RowSum S and accumulate R
    end
    Copy dK (Bkv, d) in coordinate [L = kv_block] from register to global
end""".splitlines()
CLEAR, STEADY = [next(x for x in GRADIENT if x.startswith(f"let {n} =")) for n in ("clear", "steady")]
NO_LAST = "let steady = min(clear, whole - 1)"

# A tile's last row may see nothing.
CAUSAL = """kernel causal for t4
let d = 64, dv = 64, BM = 128, BN = 64
Input  Q f16 (q in q_len, d)
Input  K f16 (kv in kv_len, d)
Input  V f16 (kv in kv_len, dv)
Output O f16 (q in q_len, dv)
let offset = kv_len - q_len
grid q_block in q_len/BM
let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))
let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)
role math with 4 warps
    Allocate S in register f32 (BM, BN) as mma_C
    Copy Q (BM, d) in coordinate [L = q_block] from global to shared
    Compute Fill 0 and get O_register
    Compute Fill -1e30 and get m
    Compute Fill 0 and get l
    Compute Multiply m, -c and get shift
    for j = 0:blocks
        Copy K (BN, d) in coordinate [L = j] from global to shared
        Compute GEMM Q_register, K_shared.T and get S by m16n8k8
        if j >= full
            Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset
        end
        if j == 0
            Compute RowMax S and accumulate m
            Compute Multiply m, -c and get shift
        end
        Compute MultiplyAdd S, c, shift and get S
        Compute Exp2 S and get S
        Compute RowSum S and get part
        Compute Cast S and get P
        Copy V (BN, dv) in coordinate [L = j] from global to shared
        Compute GEMM P, V_shared and accumulate O_register by m16n8k8
        Compute Add l, part and get l
    end
    Compute Max l, 1e-30 and get l
    Copy O (BM, dv) in coordinate [L = q_block] from register to global
end""".splitlines()
ROUNDS = next(x for x in CAUSAL if x.startswith("let blocks"))
NONE = [ROUNDS.replace("max(1,", "max(0,")]
SHIFT = "    Compute Multiply m, -c and get shift"
RISE = "    Compute MultiplyAdd rise, 2.4e-7, shift and get shift"
RISEN = replaced(CAUSAL, (f"{SHIFT}\n    for", f"{SHIFT}\n    Compute Abs shift and get rise\n{RISE}\n    for"))

# A factor that is 0 where the next block is to move the maximum at once, and is read on two ways after it was made on each.
FORESEEN = with_moves("""kernel foreseen for h200
let BM = 128, BN = 128
for j = 1:blocks
    Compute GEMM Q_shared, K_shared.T and get S by m64n128k16 async
    let eager = any(alpha < 3e-5)
    if eager
        MOVES
    end
    Compute MultiplyAdd S, 1.5, shift and get T
    Compute RowSum T and get part
    let slow = any(not part < 1024)
    if slow
        if not eager
            Compute Fill 1 and get alpha
        end
        let hard = any(not part < 65000)
        if hard
            MOVES
        end
    end
    if eager or slow
        Compute Multiply O_register, alpha and get O_register
        if slow
            if any(part >= 1024)
                Compute Fill 0 and get alpha
            end
        end
    end
end
Copy O (BM, dv) in coordinate [L = q_block] from register to global""", "1.5")
LATER, AGAIN, ONE = "                Compute Fill 0 and get alpha", "            if any(part >= 1024)", "            Compute Fill 1 and get alpha"
EAGER_LAST = """                Compute Multiply m, -28.8539008 and get shift
                Compute Multiply l, alpha and get l
                Compute Multiply O_register, alpha and get O_register
            end
        end
        Compute MultiplyAdd"""
# Read after a way on which it may not have been made; read once more after it was filled; always made, but for one way.
WIDER = replaced(FORESEEN, ("if eager or slow", "if eager or slow or late"))
AFTER = replaced(FORESEEN, ("        if slow\n            if any", "        if slow\n            Compute Multiply l, alpha and get l\n            if any"))
BEFORE = replaced(FORESEEN, ("    end\nend\n", "    end\n    Compute Multiply l, alpha and get l\nend\n"))
HALF = replaced(FORESEEN, ("        if not eager\n            Compute Fill 1 and get alpha\n        end\n", ""))
# A shift that is not made anew with the maximum, a maximum that something else takes, a factor that moves something else.
LOST, TAKEN, OTHER = [replaced(CAPPED, (EAGER_LAST, x)) for x in (
    EAGER_LAST.replace("                Compute Multiply m, -28.8539008 and get shift\n", ""),
    *(EAGER_LAST.replace("            end", f"                Compute Add l, {other} and get l\n            end", 1) for other in ("m", "alpha")))]

IN_BLOCKS = (
    (GRADIENT, CLEAR, 1, [CLEAR.replace("offset - 1", "offset + 1")], True), (GRADIENT, CLEAR, 1, [CLEAR.replace("offset - 1", "offset - 65")], False),
    (GRADIENT, STEADY, 1, [STEADY.replace("whole - 1", "whole + 1")], True), (GRADIENT, STEADY, 1, [STEADY.replace("blocks - 1", "blocks")], True),
    (replaced(GRADIENT, (STEADY, NO_LAST)), NO_LAST, 1, [NO_LAST.replace("whole - 1", "whole + 1")], False),
    (replaced(GRADIENT, ("q <= kv + offset - 1\n        Compute Exp2 S and get S\n        Compute RowSum", "q <= kv + offset\n        Compute Exp2 S and get S\n        Compute RowSum")),
     CLEAR, 1, [CLEAR.replace("offset - 1", "offset + 65")], False),
    (replaced(GRADIENT, ("q <= kv + offset - 1\n        Compute Exp2 S and get S\n        Compute RowSum", "q <= kv + offset + 1\n        Compute Exp2 S and get S\n        Compute RowSum")),
     CLEAR, 1, [CLEAR.replace("offset - 1", "offset + 1")], False),
    (replaced(GRADIENT, ("        Compute Exp2 S and get S\n        if", "        Compute Exp S and get S\n        if")), STEADY, 1, [STEADY.replace("whole - 1", "whole + 1")], False),
    (CAUSAL, ROUNDS, 1, NONE, True), (replaced(CAUSAL, ("where kv > q + offset", "where kv > q + offset + 1")), ROUNDS, 1, NONE, False),
    (replaced(CAUSAL, ("        if j >= full\n", "        if j > full\n")), ROUNDS, 1, NONE, False),
    (replaced(CAUSAL, ("    Compute Max l,", "    Copy K (BN, d) in coordinate [L = blocks - 1] from global to shared\n    Compute Max l,")), ROUNDS, 1, NONE, False),
    (replaced(CAUSAL, ("    Compute Fill -1e30 and get m", "    Compute Fill 0 and get m")), ROUNDS, 1, NONE, False),
    (RISEN, RISE, 1, [RISE.replace("2.4", "2.5")], True), (RISEN, RISE, 1, [], True), (replaced(RISEN, ("        if j == 0\n", "        if j == 1\n")), RISE, 1, [], False),
    (replaced(RISEN, ("        if j == 0\n", "        Compute Add S, shift and get S\n        if j == 0\n")), RISE, 1, [RISE.replace("2.4", "2.5")], False),
    (replaced(RISEN, ("max(1,", "max(0,")), RISE, 1, [RISE.replace("2.4", "2.5")], False),
    (CAUSAL, SHIFT, 1, [], True), (replaced(CAUSAL, ("        if j == 0\n", "        if j == 1\n")), SHIFT, 1, [], False),
    (replaced(CAUSAL, ("        if j == 0\n", "        Compute Add S, shift and get S\n        if j == 0\n")), SHIFT, 1, [], False),
    (FORESEEN, AGAIN, 3, [], True), (FORESEEN, LATER, 1, [], True), (FORESEEN, LATER, 1, [LATER.replace("get", "accumulate")], True),
    (FORESEEN, AGAIN, 1, [AGAIN.replace(">=", ">")], True), (FORESEEN, ONE, 1, [ONE.replace("1", "0")], False), (FORESEEN, ONE, 1, [], False),
    *((text, LATER, 1, [], False) for text in (WIDER, BEFORE, HALF)), (AFTER, LATER, 1, [], True),
    (CAPPED, MOVED, 1, [], True), *((text, MOVED, 1, [], False) for text in (LOST, TAKEN, OTHER, READ)),
)
