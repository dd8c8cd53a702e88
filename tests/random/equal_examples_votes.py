"""TL Code with votes, maxima and choices, and changes of it: a text, the first line that is changed and how many are, what they
become, and whether that says the same."""
import re
import textwrap

# A window: rows of a tile begin in different blocks.
WINDOW = """kernel window for t4
let d = 64, dv = 64, BM = 128, BN = 64
let window = 100
Input  Q f16 (q in q_len, d)
let offset = kv_len - q_len
let first = max(0, floor((q_block*BM + offset - window + 1)/BN))
let blocks = max(first + 1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))
let clear = ceil(((q_block + 1)*BM + offset - window)/BN)
let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)
Compute Fill 0 and get O_register
Compute Fill -1e30 and get m
Compute Multiply m, -c and get shift
for j = first:blocks
    Copy K (BN, d) in coordinate [L = j] from global to shared
    Compute GEMM Q_register, K_shared.T and get S by m16n8k8
    if j < clear or j >= full
        Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset or kv <= q + offset - window
    end
    if j == first
        Compute RowMax S and accumulate m
        Compute Multiply m, -c and get shift
    end
    Compute MultiplyAdd S, c, shift and get S
    Compute Exp2 S and get S
    Compute RowSum S and get part
    Compute Cast S and get P
    if any(not part < 32768)
        Compute GEMM Q_register, K_shared.T and get S by m16n8k8
        if j < clear or j >= full
            Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset or kv <= q + offset - window
        end
        Compute Cast m and get m_old
        Compute RowMax S and accumulate m
        Compute Subtract m_old, m and get alpha
        Compute Multiply m, -c and get shift
        Compute Multiply O_register, alpha and get O_register
        Compute MultiplyAdd S, c, shift and get S
        Compute Exp2 S and get S
        Compute RowSum S and get part
        Compute Cast S and get P
    end
    Copy V (BN, dv) in coordinate [L = j] from global to shared
    Compute GEMM P, V_shared and accumulate O_register by m16n8k8
    Compute Add l, part and get l
end
Copy O (BM, dv) in coordinate [L = q_block] from register to global""".splitlines()

FIRST = WINDOW[5]


def replaced(text, *pairs):
    joined = "\n".join(text)
    for old, new in pairs:
        assert old in joined, old
        joined = joined.replace(old, new)
    return joined.splitlines()


MOVES = """Compute Cast m and get m_old
Compute RowMax S and accumulate m
Compute Subtract m_old, m and get alpha
Compute Multiply alpha, {0} and get alpha
Compute Exp2 alpha and get alpha
Compute Multiply m, -{0} and get shift
Compute Multiply l, alpha and get l"""


def with_moves(text, factor):
    """The lines of a text in which MOVES stands for how a maximum moves, and what belongs to it."""
    return re.sub("^( *)MOVES$", lambda m: textwrap.indent(MOVES.format(factor), m.group(1)), text, flags=re.M).splitlines()


# A maximum of bounded scores, moved at once or by a vote.
CAPPED = with_moves("""kernel capped for h200
let blocks = max(1, ceil(kv_len/BN))
let BM = 192, BN = 128
let full = floor(kv_len/BN)
Input  Q f16 (q in q_len, d)
for tile in grid
    Compute Fill -1e30 and get m
    Compute Fill 1 and get alpha
    if more(tile)
        Compute GEMM Q_shared, K_shared.T and get S by m64n128k16 async
        if 0 >= next(full)
            Compute Mask S in coordinate [L = next(q_block), L = 0] where kv > q + offset
        end
    end
    Compute Fill 0 and get O_register
    for j = 1:blocks
        Compute GEMM Q_shared, K_shared.T and get S by m64n128k16 async
        let eager = any(alpha < 3e-5)
        Compute Multiply S, factor and get S
        Compute Tanh S and get S
        if j >= full or j == 3 or eager
            if j >= full or j == 3
                Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
            end
            if eager
                MOVES
                Compute Multiply O_register, alpha and get O_register
            end
        end
        Compute MultiplyAdd S, 28.8539008, shift and get T
        Compute Exp2 T and get T
        Compute RowSum T and get part
        Compute Cast T and get P
        let slow = any(not part < 1024)
        if slow
            let hard = any(not part < 65000)
            if hard
                MOVES
                Compute Multiply O_register, alpha and get O_register
                Compute MultiplyAdd S, 28.8539008, shift and get T
            end
            if not hard
                Compute Fill 0 and get alpha
            end
        end
        Compute Add l, part and get l
        Compute GEMM P, V_shared and accumulate O_register by m64n64k16 async
    end
    Compute Multiply O_register, l and get O_register
    Copy O (BM, dv) in coordinate [L = q_block] from register to global
end""", "28.8539008")


def under(text, first, count):
    """What stands between a condition and its end, which are dropped."""
    at = text.index(first)
    return text[at + 1:at + count - 1]


MOVED = "                Compute RowMax S and accumulate m"
FALLEN = [MOVED.replace("accumulate", "get")]
HARD, NOT, BOTH, NEXT = "            if hard", "            if not hard", "        if j >= full or j == 3 or eager", "        if 0 >= next(full)"
TWICE = replaced(CAPPED, (NOT, "            if hard\n                Compute Add l, part and get l\n            end\n" + NOT))
OTHERS = replaced(CAPPED, ("                Compute Fill 0 and get alpha", "                Compute Fill 0 and get alpha\n                Compute Fill 0 and get l"))
READ = replaced(CAPPED, ("        Compute Add l, part and get l", "        Compute Multiply l, alpha and get l"))
BARE = replaced(CAPPED, ("            if eager", "            Compute Add S, 1 and get S\n            if eager"))

# First products, and conditions on a length without an underline.
CHUNKS = """kernel chunks for l40s
let BT = 64, d = 64, BN = 48
let blocks = ceil(len/BT)
Allocate K in shared f16 (BT, d) swizzled 64 stages 2
Compute Fill 0 and get O_register
Wait V_shared
Compute GEMM P, V_shared and accumulate O_register by m16n8k16
Compute GEMM P, W_shared and accumulate O_register by m16n8k16
Compute Fill 0 and get A
for j = 0:blocks
    Compute GEMM P, V_shared and accumulate A by m16n8k16
    Compute Add S, 48 and get S
    if j < ceil(((j + 1)*BT - 1)/BT)
        Compute Mask S, 0 in coordinate [L = j, L = j] where u > t
        Compute Add S, BN and get S
    end
    Copy S (BT, BT) in coordinate [L = j, L = j] from register to global
end
Copy A (BM, dv) in coordinate [L = q_block] from register to global
Copy O (BM, dv) in coordinate [L = q_block] from register to global""".splitlines()
DIAGONAL = "    if j < ceil(((j + 1)*BT - 1)/BT)"
PRODUCTS = [x for x in CHUNKS if "GEMM" in x]

# Two kernels, whose names mean different things.
KERNELS = """kernel one for a100
let BM = 256, BN = 128
let c = -2.0
let blocks = max(1, ceil(kv_len/BN))
let whole = floor(kv_len/BN)
let full = floor(min(kv_len, q_block*BM + 1)/BN)
let steady = min(full, whole, blocks)
for j = 0:steady
    Copy S (BM, BN) in coordinate [L = q_block, L = j] from register to global and get G
end
Compute Multiply stat, c and get stat
kernel other for a100
let BM = 256, BN = 96
let whole = ceil(n_len/BN)
let full = floor(n_len/BN)
for j = 0:full
    Copy S (BM, BN) in coordinate [L = q_block, L = j] from register to global and get R
end
Copy r (BM) in coordinate [L = q_block] from register to global""".splitlines()
KEPT = [x.replace("get stat", "get r") for x in KERNELS[:11]] + KERNELS[-1:]

# The largest elements of a row: NaN is passed over, and places may be left.
TOP = """kernel top for a100
let f = 8, d = 32, most = 16, BM = 192
Input  Q f16 (row in row_len, f)
Input  Y f16 (f, d_index in d)
Output Best i32 (row in row_len, most_index in most)
Allocate left in register f32 (BM, d) as mma_C
Allocate top in register i32 (BM, most) as mma_C
Copy Q (BM, f) in coordinate [L = row_block] from global to shared by cp_async async
Copy Y (f, d) in coordinate [:] from global to shared by cp_async async
Wait Q_shared
Compute GEMM Q_shared, Y_shared and get E by m16n8k16
Release Q_shared
Compute Cast E and get left
Compute Mask left where not left > log(0)
Compute Fill -1 and get top
for top_round = 0:most
    Compute RowMax left and get top_best
    Compute RowArgMax left and get top_at
    Compute Mask left in coordinate [L = row_block] where d_index == top_at
    Compute Mask top, top_at in coordinate [L = row_block] where most_index == top_round and top_best > log(0)
end
Copy top (BM, most) in coordinate [L = row_block] from register to global and get Best""".splitlines()
MASKED, FILLED = "Compute Mask left where not left > log(0)", "Compute Fill -1 and get top"

GEMM = "Compute GEMM Q_register, K_shared.T and get S by m16n8k8\n"
COPIED = "    Copy pad (BN) in coordinate [L = j] from global to register\n"
ADDED = "    Compute Add S, pad_register and get S\n"
# Something is copied for the scores, and once more where the vote makes them anew.
PADDED = replaced(WINDOW, (f"    {GEMM}    if", f"{COPIED}    {GEMM}{ADDED}    if"), (f"        {GEMM}", f"        {GEMM}    {COPIED}    {ADDED}"))
AGAIN = f"    {COPIED}".rstrip()
ASKED = replaced(WINDOW, ("    if j < clear or j >= full\n        Compute Mask", "    let eager = any(alpha < 3e-5)\n    if j < clear or j >= full or eager\n        Compute Mask"))
CLEAR = next(x for x in WINDOW if x.startswith("let clear"))
IN_MORE = (
    (WINDOW, "    if j == first", 1, ["    if j < first"], True), (WINDOW, "    if j == first", 1, ["    if j > first"], False),
    (replaced(WINDOW, ("for j = first", "for j = 0")), "    if j == first", 1, ["    if j < first"], False), (replaced(WINDOW, ("Fill -1e30", "Fill -1")), "    if j == first", 1, ["    if j < first"], False),
    (ASKED, CLEAR, 1, [CLEAR.replace("ceil", "floor")], True), (replaced(ASKED, ("window = 100", "window = 128")), CLEAR, 1, [CLEAR.replace("ceil", "floor")], False),
    (replaced(ASKED, ("any(alpha < 3e-5)", "any(clear < 3)")), CLEAR, 1, [CLEAR.replace("ceil", "floor")], False),
    (replaced(ASKED, ("for j = first", "if next(first) < next(clear) or next(first) >= next(full)\nend\nfor j = first")), CLEAR, 1, [CLEAR.replace("ceil", "floor")], True),
    (replaced(ASKED, ("for j = first", "if next(first) < next(clear)\nend\nfor j = first")), CLEAR, 1, [CLEAR.replace("ceil", "floor")], False),
    (PADDED, AGAIN, 1, [], True), (PADDED, COPIED.rstrip(), 1, [], False), (replaced(PADDED, (f"\n{COPIED}", f"\n{COPIED.replace('= j', '= first')}")), AGAIN, 1, [], False),
    (replaced(PADDED, (f"\n{ADDED}", f"\n{ADDED}    Compute Fill 0 and get pad_register\n")), AGAIN, 1, [], False),
    (replaced(PADDED, (f"\n{ADDED}", f"\n{ADDED}    Compute Add S, pad_register and get pad_register\n")), AGAIN, 1, [], False),
    (replaced(PADDED, (f"\n{COPIED}", f"\n    if j < full\n        if j < clear\n        {COPIED}        end\n    end\n")), AGAIN, 1, [], False),
    (WINDOW, FIRST, 1, [FIRST.replace("window + 1", "window - 1")], True), (WINDOW, FIRST, 1, [FIRST.replace("window + 1", "window - 99")], False),
    (WINDOW, FIRST, 1, [FIRST.replace("window + 1", "window + 3")], False), (WINDOW, FIRST, 1, [FIRST.replace("- window", "+ window")], False),
    (replaced(WINDOW, ("if j < clear or j >= full", "if j >= full")), FIRST, 1, [FIRST.replace("window + 1", "window - 1")], False),
    (replaced(WINDOW, ("BM = 128", "BM = 1")), FIRST, 1, [FIRST.replace("window + 1", "window - 1")], False),
    (replaced(WINDOW, ("-1e30", "0")), FIRST, 1, [FIRST.replace("window + 1", "window - 1")], False),
    (replaced(WINDOW, ("    Compute Add l, part and get l", "    Compute Add l, part and get l\n    Compute GEMM Q_register, K_shared.T and accumulate Z by m16n8k8")),
     FIRST, 1, [FIRST.replace("window + 1", "window - 1")], False),
    (replaced(WINDOW, ("    Compute Add l, part and get l", "    Copy w (BN) in coordinate [L = j] from global to register\n    Compute Add l, w_register and get l")),
     FIRST, 1, [FIRST.replace("window + 1", "window - 1")], False),
    (CAPPED, MOVED, 1, FALLEN, True), (replaced(CAPPED, ("        Compute Tanh S and get S\n", "")), MOVED, 1, FALLEN, False),
    (replaced(CAPPED, ("28.8539008", "288.539008")), MOVED, 1, FALLEN, False), (replaced(CAPPED, ("kv >= kv_len", "kv > q + offset")), MOVED, 1, FALLEN, False),
    (replaced(CAPPED, ("    Compute Multiply O_register, l ", "    Compute Add l, m and get l\n    Compute Multiply O_register, l ")), MOVED, 1, FALLEN, False),
    (replaced(CAPPED, ("ceil(kv_len/BN)", "ceil(kv_len/BN) + 1")), MOVED, 1, FALLEN, False), (replaced(CAPPED, ("Q f16", "Q bf16")), MOVED, 1, FALLEN, False),
    (CAPPED, HARD, 11, under(CAPPED, HARD, 11), True), (TWICE, HARD, 11, under(CAPPED, HARD, 11), False), (OTHERS, HARD, 11, under(CAPPED, HARD, 11), False),
    (CAPPED, NOT, 3, under(CAPPED, NOT, 3), True), (CAPPED, NOT, 3, [], True), (OTHERS, NOT, 4, under(OTHERS, NOT, 4), False), (OTHERS, NOT, 4, [], False),
    (READ, NOT, 3, under(CAPPED, NOT, 3), False), (READ, NOT, 3, [], False),
    (CAPPED, "        let eager = any(alpha < 3e-5)", 1, ["        let eager = any(alpha < 3.03e-05)"], True), (CAPPED, "        let eager = any(alpha < 3e-5)", 1, ["        let eager = any(alpha < -3e-05)"], False),
    (CAPPED, BOTH, 15, under(CAPPED, BOTH, 15), True), (BARE, BOTH, 16, under(BARE, BOTH, 16), False),
    (CAPPED, NEXT, 3, under(CAPPED, NEXT, 3), True), (CAPPED, NEXT, 1, ["        if 0 >= full"], False), (CAPPED, NEXT, 1, ["        if 0 > next(full)"], False),
    (CHUNKS, PRODUCTS[0], 1, [PRODUCTS[0].replace("accumulate", "get")], True), (CHUNKS, PRODUCTS[1], 1, [PRODUCTS[1].replace("accumulate", "get")], False),
    (CHUNKS, PRODUCTS[2], 1, [PRODUCTS[2].replace("accumulate", "get")], False),
    (CHUNKS, DIAGONAL, 1, [DIAGONAL.replace("- 1)/", "+ 1)/")], True), (CHUNKS, DIAGONAL, 1, [DIAGONAL.replace("- 1)/", "- 64)/")], False),
    (CHUNKS, CHUNKS[3], 1, [CHUNKS[3].replace("64 stages", "128 stages")], True), (CHUNKS, CHUNKS[3], 1, [CHUNKS[3].replace("64 stages", "100 stages")], False),
    (CHUNKS, CHUNKS[1], 1, [CHUNKS[1].replace("BN = 48", "BN = 49")], False),
    (KERNELS, KERNELS[4], 1, ["let whole = ceil(kv_len/BN)"], True), (KERNELS, KERNELS[4], 1, ["let whole = floor(kv_len/BN) - 1"], False),
    (KERNELS, KERNELS[14], 1, ["let full = ceil(n_len/BN)"], False), (KERNELS, KERNELS[2], 1, ["let c = 2.0"], True), (KEPT, KERNELS[2], 1, ["let c = 2.0"], False),
    (TOP, MASKED, 1, [], True), (TOP, FILLED, 1, ["Compute Fill -2 and get top"], False),
)
