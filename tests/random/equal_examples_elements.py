"""TL Code for equal.py whose elements are changed: conditions, signs, statements that leave them as they are, rounds, launches; and
votes that scores of bounded size never make hold."""
from equal_examples_tl import VOTES

ELEMENTS = """kernel elements for a100
let d = 64, most = 8, BM = 128, BN = 32
let h = 72
Input  Q f16 (q in q_len, y in h) where h >= d + 8
Input  K f16 (kv in kv_len, x in d)
Input  w f32 (kv in kv_len)
Input  eps f32 where abs(eps) <= 2
Input  win i32
Output G f32 (q in q_len)
Output Best i32 (q in q_len, most_index in most)
let blocks = max(1, ceil(kv_len/BN))
role math with 4 warps
    Allocate K in register f16 (BN, d) as lines
    Allocate S, T, U in register f32 (BM, BN) as mma_C
    Allocate top in register i32 (BM, most) as mma_C
    Allocate r, best in register f32 (BM) as rows of S
    Compute Fill 0 and get r
    for j = 0:blocks
        Copy K (BN, d) in coordinate [L = j] from global to register
        if j >= full
            Compute Mask K_register, 0 in coordinate [L = j] where kv > x + kv_len - x
        end
        Compute Mask K_register, 0 in coordinate [L = j] where x*2 < kv and x < 64
        Compute GEMM Q, K.T and get S by m16n8k16
        Compute Mask S in coordinate [L = q_block, L = j] where (q + kv) % 2 == 1 or kv > q
        Compute Multiply S, 0.05 and get S
        Compute Multiply S, w[kv]*(q - kv) in coordinate [L = q_block, L = j] and get S
        Compute Multiply S, eps and get T
        Compute Multiply T, 4.0 and get T
        Compute Divide T, 3.0 and get T
        Compute Abs T and get T
        Compute Add T, 1 and get T
        Compute Max T, 0.5 and get T
        Compute Multiply S, S and get U
        Compute RowSum U and accumulate r
        Compute RowSum T and accumulate r
    end
    Compute Max r, 0 and get r
    Compute Abs r and get r
    Compute Add r, 0.5 and get r
    for i = 0:most
        Compute RowMax U and get best
        Compute Mask top, 3 in coordinate [L = q_block] where most_index == i and best > log(0)
    end
    Copy r (BM) in coordinate [L = q_block] from register to global and get G
    Copy top (BM, most) in coordinate [L = q_block] from register to global and get Best
end""".splitlines()

SIGNED = [x.replace("Multiply S, S and get U", "Multiply S, T and get U") for x in ELEMENTS]
SEEN = [x.replace("        Compute Abs T", "        Compute Exp T") for x in ELEMENTS]
READ = [x.replace("Copy r (BM)", "Copy best (BM)") for x in ELEMENTS]
CUT = [x.replace("register f16 (BN, d)", "register f16 (BN, BK)") for x in ELEMENTS]
FILLED = [x.replace("Copy K (BN, d) in coordinate [L = j] from global to register", "Compute Fill 1 and get K_register") for x in ELEMENTS]
HEADS = [*ELEMENTS[:4], "Input  W f16 (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0", *ELEMENTS[4:]]
LOWER = [x.replace("Multiply S, 0.05", "Multiply S, -0.05") for x in ELEMENTS]
ZEROS = [x.replace("Mask S in", "Mask S, 0 in") for x in ELEMENTS]
IMPLIED = [x.replace("or kv > q", "or kv > q + win and kv > q + win") for x in ELEMENTS]
BELOW = [x.replace("abs(eps) <= 2", "abs(eps) < 2") for x in ELEMENTS]
EITHER = [x.replace("or kv > q", "or kv > q + win or kv > q + win") for x in ELEMENTS]


def line(text, old, new):
    """One line of a text, with a part of it changed: an entry of IN_ELEMENTS but for what it proves."""
    at = next(i for i, x in enumerate(text) if old in x)
    return text, text[at], 1, [text[at].replace(old, new)]


def swapped(text, first):
    at = next(i for i, x in enumerate(text) if first in x)
    return text, text[at], 2, [text[at + 1], text[at]]


def dropped(text, what):
    at = next(i for i, x in enumerate(text) if what in x)
    return text, text[at], 1, []


# A text, the first line that is changed, how many, what they become, and whether that says the same.
IN_ELEMENTS = (
    (*line(ELEMENTS, "(q + kv) % 2", "(q - kv) % 2"), True), (*line(ELEMENTS, "(q + kv) % 2", "(q + kv + 4) % 2"), True), (*line(ELEMENTS, "(q + kv) % 2", "(q + kv + 1) % 2"), False),
    (*line([x.replace("% 2", "% 3") for x in ELEMENTS], "(q + kv) % 3", "(q - kv) % 3"), False), (*line(ELEMENTS, "(q + kv) % 2", "(q + 3*kv) % 2"), True),
    (*line(ELEMENTS, "(q + kv) % 2", "(q + eps) % 2"), False), (*line(ELEMENTS, "x < 64", "x < 128"), True), (*line(ELEMENTS, "x < 64", "x < 63"), False),
    (*line(ELEMENTS, "x < 64", "x <= 63"), True), (*line(CUT, "x < 64", "x < 128"), False), (*line(ELEMENTS, "x*2 < kv", "x*2 <= kv"), False),
    (*line(IMPLIED, "kv > q + win and kv > q + win", "kv > q + win and kv > q + win - kv_len"), True), (*line(IMPLIED, "kv > q + win and kv > q + win", "kv > q + win and kv > q - win"), False),
    (*line(IMPLIED, "kv > q + win and kv > q + win", "kv > q + win and kv > q + win + 1"), False), (*line(EITHER, "kv > q + win or kv > q + win", "kv > q + win or kv >= q + win + 4"), True),
    (*line(EITHER, "kv > q + win or kv > q + win", "kv > q + win or kv >= q + win"), False), (*line(EITHER, "kv > q + win or kv > q + win", "kv - win > q + kv_len or kv > q + win"), True),
    (*line(EITHER, "kv > q + win or kv > q + win", "kv > q + win or kv > q + win - x"), False), (*line(EITHER, "kv > q + win or kv > q + win", "not kv > q + win or kv > q + win"), False),
    (*line(ELEMENTS, "% 2 == 1", "% 2 >= 1"), True), (*line(ELEMENTS, "% 2 == 1", "% 2 > 1"), False), (*line(ELEMENTS, "% 2 == 1", "% 2 != 0"), True), (*line(HEADS, "% kv_heads == 0", "% kv_heads <= 0"), True),
    (*line(HEADS, "% kv_heads == 0", "% kv_heads >= 0"), False), (*swapped(ELEMENTS, "where (q + kv)"), True), (*swapped(LOWER, "where (q + kv)"), False), (*swapped(ZEROS, "where (q + kv)"), True),
    (*swapped([x.replace("S, 0.05", "S, -0.05") for x in ZEROS], "where (q + kv)"), False),
    (*swapped([x.replace("Multiply S, 0.05", "Add S, 0.05") for x in ZEROS], "where (q + kv)"), False), (*swapped([x.replace("Multiply S, 0.05", "Add S, 0.05") for x in ELEMENTS], "where (q + kv)"), True),
    (*swapped([x.replace("or kv > q", "or S > 3") for x in ELEMENTS], "where (q + kv)"), False), (*swapped([x.replace("Multiply S, 0.05", "Max S, 0.05") for x in ELEMENTS], "where (q + kv)"), False),
    (*dropped(ELEMENTS, "kv > x + kv_len"), True), (*line(ELEMENTS, "kv > x + kv_len - x", "kv >= x + kv_len - x"), True), (*line(ELEMENTS, "kv > x + kv_len - x", "kv > x + kv_len - x - 2"), False),
    (*dropped(FILLED, "kv > x + kv_len"), False), (*dropped([x.replace("kv > x + kv_len - x", "kv > x + kv_len - x - 2") for x in ELEMENTS], "kv > x + kv_len"), False),
    (*dropped([x.replace("kv > x + kv_len - x", "kv > kv_len or x > 3") for x in ELEMENTS], "kv > kv_len"), False), (*dropped([x.replace("K_register, 0", "K_register, 1") for x in ELEMENTS], "kv > x"), False),
    (*line(ELEMENTS, "Multiply T, 4.0", "Multiply T, -4.0"), True), (*line(ELEMENTS, "Divide T, 3.0", "Divide T, -3.0"), True), (*line(SEEN, "Divide T, 3.0", "Divide T, -3.0"), False),
    (*line(ELEMENTS, "Divide T, 3.0", "Divide T, -3.01"), False), (*line(ELEMENTS, "Multiply S, 0.05", "Multiply S, -0.05"), False),
    (*swapped(ELEMENTS, "Max r, 0"), True), (*dropped(ELEMENTS, "Max r, 0"), True), (*dropped(ELEMENTS, "Abs r"), True), (*swapped(SIGNED, "Max r, 0"), False), (*dropped(SIGNED, "Abs r"), True),
    (*dropped([x for x in SIGNED if "Max r, 0" not in x], "Abs r"), False), (*line(ELEMENTS, "Max r, 0", "Max r, -3"), True), (*line(ELEMENTS, "Max r, 0", "Max r, 3"), False),
    (*dropped(ELEMENTS, "Max T, 0.5"), True), (*dropped([x.replace("Max T, 0.5", "Max T, 1.5") for x in ELEMENTS], "Max T, 1.5"), False), (*dropped(ELEMENTS, "Abs T"), False),
    (*dropped([x.replace("Max T, 0.5", "Max T, 0.995") for x in ELEMENTS], "Max T, 0.995"), False), (*dropped([x.replace("Multiply S, S and get U", "Cast T and get U") for x in ELEMENTS], "Abs r"), True),
    (*dropped([x for y in ELEMENTS for x in ((y, "        Compute Cast T and get T") if "Add T, 1" in y else (y,))], "Max T, 0.5"), False),
    (*swapped(ELEMENTS, "Multiply S, 0.05"), True), (*swapped([x.replace("w[kv]*(q - kv)", "S") for x in ELEMENTS], "Multiply S, 0.05"), False),
    (*line(ELEMENTS, "for i = 0:most", "for i = 0:most + 1"), True), (*line(READ, "for i = 0:most", "for i = 0:most + 1"), False),
    (*line([x.replace("most_index == i and", "most_index == i or") for x in ELEMENTS], "for i = 0:most", "for i = 0:most + 1"), False),
    (*line([x.replace("most_index in most", "most_index in more") for x in ELEMENTS], "for i = 0:most", "for i = 0:most + 1"), False),
    (*line(ELEMENTS, "for i = 0:most", "for i = 0:most - 1"), False), (*line(ELEMENTS, "abs(eps) <= 2", "abs(eps) <= 3"), True), (*line(ELEMENTS, "abs(eps) <= 2", "abs(win) <= 2"), False),
    (*line(ELEMENTS, "abs(eps) <= 2", "abs(eps) < 2"), True), (*line(BELOW, "abs(eps) < 2", "abs(eps) <= 2"), True), (*line(BELOW, "abs(eps) < 2", "abs(eps) > 2"), False),
    (*line(ELEMENTS, "h >= d + 8", "h >= d - 8"), True), (*line(ELEMENTS, "h >= d + 8", "h > d + 8"), False), (*line([x for x in ELEMENTS if "let h" not in x], "h >= d + 8", "h >= d - 8"), False))

VOTE = "    if any(not part < 32768)"


def scored(condition, *made):
    """The text with a vote, its scores made by these statements and masked by a condition."""
    text = [*VOTES[:1], "Input  Q f16 (q in q_len, d)", "Input  K f16 (kv in kv_len, d)", "Input  eps f32", "Input  win i32", *VOTES[1:]]
    mine = [x for line in text for x in ([line[:len(line) - len(line.lstrip())] + y for y in made] if line.strip() == "Compute Tanh S and get S" else [line])]
    return [x.replace("kv >= kv_len", condition) for x in mine]


def never(same, condition, *made):
    text = scored(condition, *[f"Compute {x} and get S" for x in made])
    return text, VOTE, text.index("    Compute GEMM S, V and accumulate O") - text.index(VOTE), [], same


IN_ELEMENTS += (
    never(True, "kv >= kv_len", "Multiply S, eps", "Tanh S"), never(False, "kv >= kv_len", "Tanh S", "Multiply S, eps"), never(True, "kv >= kv_len", "Multiply S, eps*(q - kv) in coordinate [L = q_block, L = j]", "Tanh S"),
    never(True, "kv >= kv_len", "Abs S", "Add S, 1", "Rsqrt S"), never(True, "kv > 64 and q > kv + win", "Tanh S", "Multiply S, S"), never(False, "kv >= kv_len", "Multiply S, S"), never(False, "kv >= kv_len", "Abs S", "Rsqrt S"), never(False, "kv >= kv_len", "Subtract S, 1", "Rsqrt S"),
    never(True, "kv >= q + 11 and kv <= q + 30", "Tanh S"), never(True, "kv > q and kv <= q + 30", "Tanh S"), never(False, "kv >= q and kv <= q + 30", "Tanh S"), never(False, "kv >= q - 11 and kv <= q + 30", "Tanh S"),
    never(False, "kv > q + win and kv <= q + 30", "Tanh S"), never(True, "kv > q + win", "Tanh S"), never(False, "kv <= q", "Tanh S"), never(True, "q > 3 and kv > q + win or kv >= kv_len", "Tanh S"),
    never(False, "not (q > 3 or kv > 5)", "Tanh S"), never(False, "kv % 2 == 1", "Tanh S"))
WINDOWED = [x.replace("for j = 0:blocks", "for j = first:blocks").replace("if j == 0", "if j == first") for x in scored("kv >= q + 11 and kv <= q + 30", "Compute Tanh S and get S")]
IN_ELEMENTS += ((WINDOWED, VOTE, 8, [], False),)
# The largest of each tile of a grid, one after the other; what is left may come from the tile before.
BEST = """kernel best for h200
let most = 8, d = 64, BM = 128
Output Best i32 (q in q_len, most_index in most)
role math with 2 warpgroups
    Allocate left in register f32 (BM, d) as mma_C
    Allocate top in register i32 (BM, most) as mma_C
    Allocate best, place in register f32 (BM) as rows of left
    for tile in grid
        Compute Cast E and get left
        Compute Fill -1 and get top
        for i = 0:most
            Compute RowMax left and get best
            Compute RowArgMax left and get place
            Compute Mask left in coordinate [L = q_block] where x == place
            Compute Mask top, place in coordinate [L = q_block] where most_index == i and best > log(0)
        end
        Copy top (BM, most) in coordinate [L = q_block] from register to global and get Best
    end
end""".splitlines()
IN_ELEMENTS += tuple((*line("\n".join(BEST).replace(old, new).splitlines(), "for i = 0:most", "for i = 0:most + 1"), same) for old, new, same in (
    ("Cast E", "Cast E", True), ("Cast E and", "Add E, left and", False), ("        Compute Cast E and get left\n", "", False), ("Compute Cast E and get left", "Compute Cast E and accumulate left", False),
    ("Compute Fill -1 and get top", "Compute Cast best and get top", False), ("        Compute Cast E and get left", "        if first(tile)\n            Compute Cast E and get left\n        end", False),
    ("        Copy top", "        Copy left (BM, d) in coordinate [L = q_block] from register to global and get Z\n        Copy top", False)))
LARGEST = """kernel largest for a100
Input  alpha f32
let e = 64, BM = 32
let scale = max(alpha, 0.125*1.0)
role math with 4 warps
    Allocate S, T in register f32 (BM, e) as lines
    Allocate r in register f32 (BM) as rows of S
    Copy X (BM, e) in coordinate [L = m_block] from global to register and get S
    Compute Abs S and get S
    Compute Multiply S, scale and get T
    Compute RowMax T and get r
    Compute Multiply r, 14.5 and get r
    Compute Abs r and get r
    Compute Add r, 1 and get r
    Compute Multiply S, r and get S
    Copy S (BM, e) in coordinate [L = m_block] from register to global and get G
end""".splitlines()
IN_ELEMENTS += tuple((*swapped("\n".join(LARGEST).replace(old, new).splitlines(), "Abs r"), same) for old, new, same in (
    ("Abs", "Abs", True), ("Multiply r, 14.5", "Multiply r, scale", True), ("Multiply r, 14.5", "Multiply r, -14.5", False), ("Multiply r, 14.5", "Multiply r, alpha", False), ("RowMax", "RowMin", True), ("    Compute Abs S and get S\n", "", False),
    ("max(alpha, 0.125", "max(alpha, -0.125", False), ("max(alpha", "min(alpha", False), ("Add r, 1", "Add r, -1", False), ("Add r, 1", "Subtract r, 1", False), ("RowMax T", "RowMax S", True)))
TURNED = [x.replace("Multiply T, 4.0", "Subtract T, r") for x in ELEMENTS]


def after_a_copy(way):
    return [y for x in ELEMENTS for y in ([f"    Copy r (BM) in coordinate [L = q_block] from {way}", x] if "Compute Abs r" in x else [x])]


def squared(what):
    return [x.replace("Compute Abs T", f"Compute {what}") for x in TURNED]


IN_ELEMENTS += (
    (*line(TURNED, "T, r", "r, T"), True), (*line([x.replace("Abs T", "Exp T") for x in TURNED], "T, r", "r, T"), False), (*line(TURNED, "T, r", "S, T"), False),
    (*line(squared("MultiplyAdd T, T, eps"), "T, r", "r, T"), True), (*line(squared("MultiplyAdd T, eps, T"), "T, r", "r, T"), False), (*line(squared("MultiplyAdd T, T, T"), "T, r", "r, T"), False),
    (*dropped(after_a_copy("register to global and get G"), "Abs r"), True), (*dropped(after_a_copy("global to register"), "Abs r"), False))
