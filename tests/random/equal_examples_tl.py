"""TL Code, and changes of it: a line or place, what it becomes (None: it goes), and whether that says the same."""

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

# Two statements that follow one another, and whether they may in the other order.
COPY = "Copy V (BT, dv) in coordinate [b, L = 0] from global to shared{} by cp_async async"
AFTER_COPIES = ["Compute GEMM S, V and accumulate O", "Compute GEMM S, W and accumulate O", "Copy O (BM, dv) in coordinate [b] from register to global"]
EXCHANGED_COPIES = ((COPY.format(""), COPY.format(" and get W"), True), (COPY.format(" and get W"), COPY.format(" and get W").replace("L = 0", "L = 1"), False),
                    (COPY.format(""), "Compute GEMM Q, V and get S", False), (COPY.format(""), "Copy V from shared to register by ldmatrix", False))

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
    (VOTES, "Input  scale f32 where scale != 0", 1, ["Input  scale f32 where scale >= 0"], True), (VOTES, "Input  scale f32 where scale != 0", 1, ["Input  scale f32 where scale > 1"], False),
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
BELOW = [x.replace("floor(len/BN)", "floor((len - off)/BN)") for x in ROUNDS]     # `full` may be below 0
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
LOOPS = [i for i, x in enumerate(WINDOWS) if x.startswith("for ")]
ROWS = [x.replace("kv > q or", "q >= 20 or kv > q or") for x in WINDOWS[:LOOPS[0]] + WINDOWS[LOOPS[1]:]]
BY_LET, BY_TINY, BY_SCALE = [[*head, *(x.replace("1.44269504", "c") for x in WINDOWS[1:])] for head in (
    ["kernel windows for a100", "let c = 1.44269504"], ["kernel windows for a100", "let c = 1.44269504e-30"], ["Input  scale f32 where scale > 0", "let c = scale*1.44269504"])]
NAMED = ["Input  scale f32 where scale > 0", "let c = scale*1.44269504", *(x.replace("1.44269504", "c") for x in ROWS[1:])]
IN_ROUNDS = (
    (BELOW, "let steady_2 = min(blocks_2, full) - 1", 1, ["let steady_2 = min(blocks_2, 1) - 1"], True), (BELOW, "let steady_2 = min(blocks_2, full) - 1", 1, ["let steady_2 = min(blocks_2, 3) - 1"], False),
    (ROUNDS, "    if j >= whole or j < close", 1, ["    if j <= whole or j < close"], True), (ROUNDS, "    if j >= whole or j < close", 1, ["    if j < whole or j < close"], False),
    (ROUNDS, "    if j >= whole or j < close", 1, ["    if j > whole or j < close"], False), (ROUNDS, "    if j >= whole or j < close", 1, ["    if j <= whole or j < closed"], False),
    (ROUNDS[:TESTED] + ROUNDS[TESTED + 8:], "    if j >= whole or j < close", 1, ["    if j <= whole or j < close"], False),
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
                            (ALONE, "kv > q or kv < q - 100", False), (SMALL, "kv > q or kv < q - 100", False), (BY_SCALE, "kv > q or kv < q - 100", False), (BY_LET, "kv > q or kv < q - 100", True),
                            (BY_TINY, "kv > q or kv < q - 100", False)))
IN_ROUNDS += tuple((text, text[text.index(begin) + 2], 1, [text[text.index(begin) + 2].replace("q >= 20", now)], same) for text, begin, now, same in (
    (ROWS, "for j = first + 1:blocks", "q >= 40", True), (ROWS, "for j = first + 1:blocks", "q > 20", True), (ROWS, "for j = first + 1:blocks", "q >= 10", False),
    (ROWS, "for j = first + 1:blocks", "kv >= 40", False), (ROWS, "for j = first + 1:blocks", "q >= n", False), (ROWS, "    if any(not part < 32768)", "q >= 40", False),
    ([x.replace("q >= 20 or ", "") if "L = first" in x else x for x in ROWS], "for j = first + 1:blocks", "q >= 40", False),
    ([x.replace("q >= 20 or ", "") if x.startswith("        ") else x for x in ROWS], "for j = first + 1:blocks", "q >= 40", False),
    ([x.replace("q >= 20 or ", "q >= 20 and ") for x in ROWS], "for j = first + 1:blocks", "q >= 40", False), (NAMED, "for j = first + 1:blocks", "q >= 40", False)))
