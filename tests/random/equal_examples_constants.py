"""TL Code of which nothing comes, because a tile that is made of it is one number all over; see equal_constants.py."""
from equal_examples_votes import replaced

CLAMPED = """kernel clamped for t4
let BK = 64, BM = 64, BN = 64
Input  Q f16 (q in q_len, k in k_len)
Input  B f16 (kv in kv_len, k in k_len)
Output Z f32 (q in q_len, kv in kv_len)
let blocks = max(1, ceil(k_len/BK))
grid q_block in q_len/BM, kv_block in kv_len/BN
Allocate Q in shared f16 (BM, BK)
Allocate B_stored in shared f16 (BN, BK)
role math with 4 warps
    Allocate F, G in register f32 (BM, BN) as mma_C
    Allocate B in register f16 (BN, BK) as mma_C
    Allocate B_wide in register f32 (BN, BK) as mma_C
    Compute Fill 0 and get F
    for j = 0:blocks
        Copy Q (BM, BK) in coordinate [L = q_block, L = j] from global to shared
        Copy B (BN, BK) in coordinate [L = kv_block, L = j] from global to register
        Compute Cast B_register and get B_wide
        Compute Tanh B_wide and get B_wide
        Copy B_wide from register to shared and get B_stored
        Wait B_stored
        Compute GEMM Q_shared, B_stored.T and accumulate F by m16n8k8
        Release B_stored
    end
    Compute Exp2 F and get F
    Compute Add F, 1 and get F
    Compute Reciprocal F and get F
    Compute Min F, 0 and get F
    Compute Multiply F, -0.0625 and get F
    Copy F (BM, BN) in coordinate [L = q_block, L = kv_block] from register to global and get Z
end""".splitlines()
ROUNDS, TANH, STORED = [next(x for x in CLAMPED if y in x) for y in ("let blocks", "Tanh", "from register to shared")]

# All keys that exist are made 0, and those past the end are it already.
MASKED = """kernel masked for a100
let d = 64, BM = 64, BN = 64
Input  Q bf16 (q in q_len, x in d)
Input  K bf16 (kv in kv_len, x in d)
Input  scale f32
Input  ids i32 (b in batch)
Output Z f32 (q in q_len)
let c = scale/3.0
let blocks = ceil(kv_len/BN)
grid q_block in q_len/BM, b in batch
let factor = ids[b]
Allocate Q in shared bf16 (BM, d) swizzled 128
Allocate K in shared bf16 (BN, d) swizzled 128 stages 2
Allocate K_stored in shared bf16 (BN, d) swizzled 128
role math with 4 warps
    Allocate Q in register bf16 (BM, d) as mma_A
    Allocate K in register bf16 (BN, d) as mma_C
    Allocate K_wide in register f32 (BN, d) as mma_C
    Allocate S in register f32 (BM, BN) as mma_C
    Allocate r in register f32 (BM) as rows of S
    Copy Q (BM, d) in coordinate [L = q_block] from global to shared by cp_async async
    Compute Fill 0 and get r
    Wait Q_shared
    Copy Q from shared to register by ldmatrix
    if 0 < blocks
        Copy K (BN, d) in coordinate [L = 0] from global to shared by cp_async async
    end
    for j = 0:blocks
        Wait K_shared
        if j + 1 < blocks
            Copy K (BN, d) in coordinate [L = j + 1] from global to shared by cp_async async
        end
        Copy K from shared to register by ldmatrix
        Release K_shared
        Compute Cast K_register and get K_wide
        if j < blocks
            Compute Mask K_wide, 0 in coordinate [L = j] where x > kv + x - kv_len
        end
        Compute Multiply K_wide, c and get K_wide
        Copy K_wide from register to shared and get K_stored
        Wait K_stored
        Compute GEMM Q_register, K_stored.T and get S by m16n8k16
        Release K_stored
        Compute Multiply S, select(kv < factor, c, 0.25) in coordinate [L = q_block, L = j] and get S
        Compute Tanh S and get S
        Compute RowSum S and accumulate r
    end
    Compute Add r, 0.5 and get r
    Copy r (BM) in coordinate [L = q_block] from register to global and get Z
end""".splitlines()
BLOCKS = "let blocks = ceil(kv_len/BN)"


def clamped(line, new, *changes):
    return replaced(CLAMPED, *changes), line, 1, new


def fewer(*changes):
    """A round less of what is zeros."""
    return replaced(MASKED, *changes), BLOCKS, 1, [BLOCKS.replace("ceil", "floor")]


def hidden(line, condition="kv >= q or kv < q", *changes):
    """Scores that a Mask takes all, and what makes them something else."""
    score = f"        Compute Mask S in coordinate [L = q_block, L = j] where {condition}\n        {line}\n        Compute Exp2 S and get S\n        Reshape S from mma_C to mma_A"
    text = replaced(MASKED, ("x > kv + x - kv_len", "x > 3"), ("        Compute Tanh S and get S", score), *changes)
    return text, f"        {line}", 1, []


def ended(condition="q < q_len", *changes):
    """What is made 0 in the end, of all rows that are stored."""
    end = f"    Compute Add r, 0.5 and get r\n    Compute Mask r, 0 in coordinate [L = q_block] where {condition}"
    return replaced(MASKED, ("x > kv + x - kv_len", "x > 3"), ("    Compute Add r, 0.5 and get r", end), *changes), "        Compute Tanh S and get S", 1, []


AGAIN = "        Compute GEMM Q_register, K_stored.T and get S by m16n8k16"
FEWER = [ROUNDS.replace("max", "min")]
IN_CONSTANTS = (
    (*clamped(ROUNDS, FEWER), True), (*clamped(TANH, []), True), (CLAMPED, TANH, 2, [STORED, TANH], True), (*clamped(TANH, [TANH.replace("Tanh", "Exp")]), True),
    (*clamped(TANH, [], ("Min F, 0", "Min F, 0.5")), False), (*clamped(TANH, [], ("Min F, 0", "Max F, 0")), False), (*clamped(TANH, [], ("Add F, 1", "Add F, -1")), False), (*clamped(TANH, [], ("Min F, 0", "Min F, 0.5"), ("Exp2 F", "Abs F")), False),
    (*clamped(TANH, [], ("    Compute Exp2 F and get F\n", "")), False), (*clamped(TANH, [], ("    Compute Exp2 F", "    Compute Cast F and get G\n    Compute Exp2 F"), ("Copy F (BM, BN)", "Copy G (BM, BN)")), False),
    (*clamped(TANH, [], ("Multiply F, -0.0625", "MultiplyAdd F, 2, B_wide")), False), (*clamped(ROUNDS, FEWER, ("Multiply F, -0.0625", "Multiply F, blocks")), False),
    (*clamped("    Compute Min F, 0 and get F", ["    Compute Min F, -1 and get F"]), False), (*clamped("let BK = 64, BM = 64, BN = 64", ["let BK = 64, BM = 64, BN = 32"], ("BN)", "64)")), False),
    (*fewer(), True), (*fewer(("x > kv + x - kv_len", "kv < kv_len and x >= 0")), True), (*fewer(("x > kv + x - kv_len", "x > kv + x - kv_len + 1")), False), (*fewer(("K_wide, 0 in", "K_wide, 1 in")), False), (*fewer(("K_wide, 0 in", "K_wide in")), False),
    (*fewer(("if j < blocks", "if j > 0")), False), (*fewer(("if j < blocks", "if j < blocks - 1")), False), (*fewer(("Wait Q_shared\n    Copy Q from shared to register by ldmatrix", "Copy Q from shared to register by ldmatrix\n    Compute Reciprocal Q_register and get Q_register")), False),
    (*fewer(("Multiply K_wide, c", "Divide K_wide, c")), False), (*fewer(("let c = scale/3.0", "let c = 3.0/scale")), False), (*fewer(("select(kv < factor, c, 0.25)", "select(kv < factor, log(0), 0.25)")), False),
    (*fewer(("Compute Tanh S", "Compute Exp2 S")), False), (*fewer(("Compute Cast K_register", "Compute Add K_register, 1")), False), (*fewer(("(BN, d) swizzled 128\nrole", "(BN, d) swizzled 128 in place of Q\nrole")), False),
    (*fewer(("K_wide, c and", "K_wide, r and")), True), (*fewer(("Fill 0 and get r", "Fill 0 and get r\n    Compute Exp2 r and get S"), ("K_wide, c and", "K_wide, S and")), False), (*fewer(("Output Z f32 (q in q_len)", "Output Z f32 (q in q_len)\nOutput K bf16 (kv in kv_len, x in d)"), ("Input  K bf16 (kv in kv_len, x in d)\n", "")), False),
    *((replaced(MASKED, ("x > kv + x - kv_len", x)), f"            Compute Mask K_wide, 0 in coordinate [L = j] where {x}", 1, [], same) for x, same in (("x >= kv + 64", True), ("x >= kv + 63", False))),
    (*ended(), True), (*ended("q < q_len - 1"), False), (*ended("q < q_len and kv < 3"), False), (*ended("q < q_len", ("[L = q_block] from register to global", "[L = 0] from register to global")), False),
    (*ended("q < q_len", ("    Copy r (BM)", "    if any(r < 1)\n        Compute Add r, 1 and get r\n    end\n    Copy r (BM)")), False), (*ended("q < q_len", ("    Wait Q_shared", "    if any(r < 1)\n        Compute Add r, 1 and get r\n    end\n    Wait Q_shared")), True),
    (*hidden("Compute Multiply S, 3.5 and get S"), True), (*hidden("Compute Add S, 3.5 and get S"), True), (*hidden("Compute Multiply S, -3.5 and get S"), False), (*hidden("Compute Multiply S, c and get S"), False),
    (*hidden("Compute Multiply S, 3.5 and get S", "kv > q or kv < q"), False), (*hidden("Compute Multiply S, 3.5 and get S", "kv > q or kv < q + 1"), True), (*hidden("Compute Multiply S, 3.5 and get S", "kv >= kv_len or kv < q"), False),
    # Columns that a tile has all of: those past the end of an axis in blocks are none of them.
    *((replaced(MASKED, ("x > kv + x - kv_len", "x > 3"), ("        Compute RowSum S", f"        Compute Mask K_wide, 0 in coordinate [L = j] where {condition}\n        Copy K_wide from register to shared and get K_stored\n{again}\n        Compute RowSum S")),
       "        Compute Tanh S and get S", 1, [], same) for condition, again, same in (
           ("x < 64", AGAIN, True), ("x < 63", AGAIN, False), ("kv < kv_len", AGAIN, False), ("x < 32 or x > 31", AGAIN, True), ("x < 64", AGAIN.replace("get S", "accumulate S"), False), ("x < 64 and kv > 2", AGAIN, False))),
    (*hidden("Compute Multiply S, 3.5 and get S", "kv >= q or kv < q", ("Exp2 S", "Tanh S")), False))
