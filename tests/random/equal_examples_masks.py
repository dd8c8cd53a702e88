"""TL Code whose Masks are changed, dropped or moved, and statements beside them; see equal_examples_tl.py."""
from equal_examples_votes import MASKED, TOP, replaced

# Two scores for each pair, of which a chunk takes the one and all others the other one.
CHUNKS = """kernel chunks for t4
let chunk = 64, d = 64, BM = 64, BN = 96
Input  Q f16 (q in q_len, d)
Input  K f16 (kv in kv_len, d)
Input  win i32
Input  doc i32 (q in q_len)
Output O f32 (q in q_len)
let offset = kv_len - q_len
grid q_block in q_len/BM reversed
let blocks = max(1, ceil(min(kv_len, (q_block + 1)*BM + offset)/BN))
let full = floor(min(kv_len, q_block*BM + offset + 1)/BN)
role math with 4 warps
    Allocate S, F in register f32 (BM, BN) as mma_C
    Copy Q (BM, d) in coordinate [L = q_block] from global to shared
    for j = 0:blocks
        Copy K (BN, d) in coordinate [L = j] from global to shared
        Wait K_shared
        Compute GEMM Q_register, K_shared.T and get S by m16n8k8
        Copy K (BN, d) in coordinate [L = j] from global to register and get Y
        Release K_shared
        Compute Mask S, 0 in coordinate [L = q_block, L = j] where kv/chunk != (q + kv_len - q_len)/chunk
        Compute Add S, F and get S
        if j >= full
            Compute Mask S in coordinate [L = q_block, L = j] where kv > q + offset
        end
        Compute Tanh F and get F
        Compute Mask F, 0 in coordinate [L = q_block, L = j] where q < 20 or q >= 1 and kv > q or kv >= 20 or doc[q] > 3
        Compute RowSum S and accumulate l
        Compute RowSum F and accumulate l
    end
    Copy l (BM) in coordinate [L = q_block] from register to global and get O
end""".splitlines()
OWN, FAR, TANH = [next(x for x in CHUNKS if y in x) for y in ("kv/chunk !=", "q >= 1", "Tanh F")]
COPIED, HERE, AFTER = "        Copy K (BN, d) in coordinate [L = j] from global to register and get Y", "kv/chunk !=", "where kv > q + offset"


def own(*changes):
    """The text with something else in it, where a chunk's own scores are masked for earlier chunks alone: an entry but for what it proves."""
    text = replaced(CHUNKS, *changes)
    line = next(x for x in text if HERE in x)
    return text, line, 1, [line.replace("!=", "<")]


def far(now, was="q >= 1 and kv > q"):
    text = replaced(CHUNKS, ("q >= 1 and kv > q", was))
    return text, FAR.replace("q >= 1 and kv > q", was), 1, [FAR.replace("q >= 1 and kv > q", now)]


def moved(line, *changes):
    """Two lines that follow one another in another order."""
    text = replaced(CHUNKS, *changes)
    at = next(i for i, x in enumerate(CHUNKS) if line in x)
    return text, text[at], 2, [text[at + 1], text[at]]


# Two of the largest, and where the place of minus infinity is taken, or something else looks at what is left.
TAKEN = "    Compute Mask top, top_at in coordinate [L = row_block] where most_index == top_round and top_best > log(0)"
FIRST = "    Compute Mask left in coordinate [L = row_block] where d_index == top_at\n"
TOPS = tuple(replaced(TOP, x) for x in (
    (" and top_best > log(0)", ""), (" and top_best > log(0)", " or top_best > log(0)"), (FIRST, ""), (FIRST, FIRST.replace("==", ">=")), ("Compute RowMax left", "Compute RowSum left"),
    ("Compute RowArgMax left", "Compute RowArgMax E"), (TAKEN, TAKEN + "\n    Compute RowMin left and get least"), ("\nCopy top ", "\nCopy left (BM, d) in coordinate [L = row_block] from register to global and get Z\nCopy top "),
    (TAKEN, TAKEN + "\n    Compute Add sum, top_at and get sum"), (TAKEN, "    Compute Max top_best, 0 and get top_best\n" + TAKEN), ("Compute Cast E and get left\n", "")))
VALUES = replaced(TOP, (TAKEN, TAKEN + "\n    Compute Mask values, top_best in coordinate [L = row_block] where most_index == top_round"))

# A vote by how much the row has, and a first block whose maximum is taken without one.
ROOM = """kernel near for a100
let c = scale*1.44269504, BN = 64
Allocate P in register bf16 (BM, BN) as mma_C
Allocate room in register f32 (BM) as partial rows of O
Compute Fill -1e30 and get m
Compute Multiply m, -1.44269504 and get shift
for j = 0:blocks
    Compute GEMM Q_register, K_shared.T and get S by m16n8k16
    if j == 0
        Compute RowMax S and accumulate m
        Compute Multiply m, -1.44269504 and get shift
    end
    Compute MultiplyAdd S, 1.44269504, shift and get S
    Compute Exp2 S and get S
    Compute RowSum S and get part
    Compute Cast S and get P
    if any(not part < 32768)
        Compute GEMM Q_register, K_shared.T and get S by m16n8k16
        Compute Cast m and get m_old
        Compute RowMax S and accumulate m
        Compute Subtract m_old, m and get alpha
        Compute Multiply m, -1.44269504 and get shift
        Compute Exp2 S and get S
        Compute Add l, part and get room
        Reshape room from partial rows to rows
        Compute Max room, 1 and get room
        Compute Multiply room, 1.5 and get room
        Compute Min room, 32768 and get room
    end
    Compute GEMM P, V_shared and accumulate O_register by m16n8k16
end
Copy O (BM, d) in coordinate [L = q_block] from register to global""".splitlines()
ROOMS = replaced(ROOM, ("any(not part < 32768)", "any(not part < room)"))
LIMIT, MOST, SHIFT = [next(x for x in ROOM if y in x) for y in ("Min room", "        Compute RowMax", "        Compute Multiply m")]
SCALED = replaced(ROOM, ("-1.44269504", "-c"))
SCALED_SHIFT = SHIFT.replace("-1.44269504", "-c")


def limit(most, *changes):
    return replaced(ROOMS, *changes) if changes else ROOMS, LIMIT, 1, [LIMIT.replace("32768", most)]


def room(now, *changes):
    """What makes the room before its limit, done otherwise."""
    text = replaced(ROOMS, *changes)
    line = next(x for x in text if "Multiply room" in x)
    return text, line, 1, [f"        {x}" for x in now]


def shifted(start):
    """The first block's shift added to the start's, where a launch has a factor of one sign."""
    return replaced(SCALED, ("let c = scale*1.44269504, BN = 64", f"Input  scale f32 where scale {start}\nlet BN = 64\nlet c = scale*1.44269504")), SCALED_SHIFT, 1, [SCALED_SHIFT.replace(" get ", " accumulate ")]


def rounds(count, now, *changes):
    """The largest of so many elements, chosen in more rounds or fewer."""
    return replaced(TOP, ("d = 32", f"d = {count}"), *changes), "for top_round = 0:most", 1, [f"for top_round = 0:most{now}"]


# A Mask that no row which exists fulfils.
LATE = replaced(CHUNKS, (HERE, "doc[q] != 3 and kv <="), ("(q + kv_len - q_len)/chunk", "q + kv - q_len - 4"))
LATE_MASK = next(x for x in LATE if "doc[q] != 3" in x)


def late(now, *changes):
    text = replaced(LATE, *changes)
    return text, next(x for x in text if "doc[q] != 3" in x), 1, [LATE_MASK.replace("q_len - 4", now)] if now else []


IN_MASKS = (
    (*own(), True), (*own((AFTER, "where kv >= q + offset")), False), (*own((AFTER, "where kv > q + offset + 1")), False), (*own((AFTER, "where kv > q + win")), False),
    (*own((AFTER, "where kv > q + offset and kv > 3")), False), (*own(("Mask S in coordinate [L = q_block, L = j] where kv > q", "Mask F in coordinate [L = q_block, L = j] where kv > q")), False),
    (*own(("if j >= full", "if j > full")), False), (*own(("if j >= full", "if j >= blocks")), False), (*own(("Add S, F and get S", "RowSum S and accumulate l")), False), (*own(("Add S, F and get S", "Add S, F and get F")), False),
    (*own(("Add S, F and get S", "Multiply S, F and get S")), True), (*own(("[L = q_block, L = j] where kv > q", "[L = q_block, L = j + 1] where kv > q")), False),
    (*own(("kv/chunk != (q + kv_len - q_len)/chunk", "kv/chunk != (q + win)/chunk"), (AFTER, "where kv > q + win")), False),    # how far the window goes is not known, so neither is what blocks without a Mask have
    (*own(("chunk = 64, ", ""), ("Input  win", "Input  chunk i32\nInput  win")), False), (CHUNKS, OWN, 1, [OWN.replace("!=", ">")], False),
    (*far("q <= 1 and kv > q"), True), (*far("q >= 1 and kv >= q"), True), (*far("q >= 30 and kv > q"), True), (*far("q >= 1 and kv > q - 1"), True), (*far("q >= 1 and kv > q - 2"), False),
    (*far("q >= 1 and kv < q"), False), (*far("q <= 1 or kv > q"), True), (*far("q <= 1 or kv >= q - 1"), False), (*far("q >= 1 and kv > q - win"), False), (*far("q >= 1 and kv > q + win", "q >= 1 and kv > q - win"), False),
    (*far("q - win > 3 and kv - q > 16 - win", "q <= 1 and kv > q"), True), (*far("q - win > 3 and kv - q > 14 - win", "q <= 1 and kv > q"), False), (*far("doc[q] > 3 and kv > 3"), True), (*far("doc[q] <= 3 and kv > 3"), False),
    (*far("doc[q] > 4 and kv > 3"), False), (*far("not kv <= 19"), True), (*far("not kv <= 18"), False), (*far("kv*2 >= 39"), True), (*far("kv*2 >= 38"), False),
    (*far("kv/chunk >= 1"), True), (*far("kv/4 >= 5"), True), (*far("kv/4 >= 4"), False), (*far("(kv - q)/4 >= 0"), True), (*far("(kv - q)/4 >= -1"), False), (*far("kv_len/4 >= 5"), False),
    (*moved("Tanh F"), True), *((*moved("Tanh F", ("Tanh F", f"{x} F")), same) for x, same in (("Sin", True), ("Erf", True), ("Erfc", False), ("Exp2", False), ("Rsqrt", False), ("Abs", True))),
    (*moved("Tanh F", ("Mask F, 0", "Mask F")), False), (*moved("Tanh F", ("Mask F, 0", "Mask F, 1")), False), (*moved("Tanh F", ("doc[q] > 3", "F > 3")), False), (*moved("Tanh F", ("Tanh F and get F", "Tanh S and get F")), False),
    (*moved("get Y"), True), (*moved("by m16n8k8"), True), (*moved("get Y", ("global to register and get Y", "global to shared")), False), (*moved("get Y", ("Release K_shared", "Release Y")), False),
    (*moved("get Y", ("Input  K f16", "Output K f16")), False), (*moved("get Y", ("from global to register and get Y", "from shared to register and get Y")), False),
    (TOP, MASKED, 1, [], True), (VALUES, MASKED, 1, [], True), *((text, MASKED, 1, [], False) for text in TOPS),
    (*limit("65536"), True), (*limit("0"), True), (*limit("1e9"), False), (*limit("65536", ("in register bf16", "in register f16")), False), (*limit("65000", ("in register bf16", "in register f16")), True),
    (*limit("32769", ("in register bf16", "in register e4m3")), False), (*limit("400", ("in register bf16", "in register e4m3")), True), (*limit("65536", ("Compute Add l, part and get room", "Compute Add l, part and get room\n        Compute Add l, room and get l")), False),
    (ROOM, LIMIT, 1, [LIMIT.replace("32768", "1e9")], True),    # no vote looks at it
    (*room(["Compute Multiply room, 1.5 and accumulate room"]), True), (*room([]), True), (*room(["Compute Add room, part and get room"]), True), (*room(["Compute Multiply room, 1.5 and get m"]), False),
    (*room([], ("        Compute Min room, 32768 and get room\n", "")), False), (*room([], ("Min room, 32768", "Min room, 1e9")), False), (*room([], ("register bf16", "register e4m3")), False),
    (*room([], ("        Compute Min room", "        Compute Add l, room and get l\n        Compute Min room")), False), (*room([], ("if any(not part < room)", "if any(room < part)")), False),
    (*rounds(8, " - 1"), True), (*rounds(15, " - 1"), True), (*rounds(16, " - 1"), False), (*rounds(32, " - 1"), False), (*rounds(8, " - 9"), False), (*rounds(8, " - 1", (" and top_best > log(0)", "")), False),
    (*rounds(8, " - 1", (" and top_best > log(0)", " or top_best > log(0)")), False), (*rounds(8, " - 1", ("d_index == top_at", "most_index == top_at")), False), (*rounds(8, " - 1", ("d_index == top_at", "d_index == top_best")), False),
    (*rounds(8, " - 1", ("\nCopy top ", "\nCopy left (BM, d) in coordinate [L = row_block] from register to global and get Z\nCopy top ")), False), (*rounds(8, " - 1", ("Compute RowArgMax left", "Compute RowArgMax E")), False),
    (*rounds(8, " - 1", ("Mask left in coordinate [L = row_block] where", "Mask left, 3 in coordinate [L = row_block] where")), False), (*rounds(8, " - 1", ("left in register f32 (BM, d)", "left in register f32 (BM, f)")), False),
    (*late(""), True), (*late("q_len - 5"), True), (*late("q_len + 1"), False), (*late("", ("q_len - 4", "q_len + 1")), False), (*late("", ("- q_len - 4", "- q_len")), True), (*late("", ("kv <= q + kv - q_len - 4", "q <= q + kv - kv_len")), False),
    (*late("", ("Compute Tanh F", "if any(not l < 3)\n        end\n        Compute Tanh F")), False), (*late("", ("Compute Tanh F and get F", "Copy F from register to shared and get F_stored")), False),
    (*late("", ("Copy l (BM) in coordinate [L = q_block]", "Copy l (BM) in coordinate [L = 0]")), False), (*late("", ("grid q_block in q_len/BM reversed", "grid q_block in kv_len/BM")), False),
    (*late("", ("q + kv - q_len - 4", "0 and kv < 0")), True), (*late("", ("q + kv - q_len - 4", "0 and kv < 1")), False),
    (*shifted("> 0"), True), (*shifted("< 0"), False), (*shifted(">= 0"), False),
    (ROOM, MOST, 2, [SHIFT, MOST], True), (ROOM, SHIFT, 1, [], True), (SCALED, MOST, 2, [SCALED_SHIFT, MOST], False), (SCALED, SCALED_SHIFT, 1, [], False), (SCALED, MOST, 1, [], True),
    (SCALED, SCALED_SHIFT, 1, [SCALED_SHIFT.replace(" get ", " accumulate ")], False), (replaced(ROOM, ("Fill -1e30", "Fill 0")), MOST, 2, [SHIFT, MOST], False))
