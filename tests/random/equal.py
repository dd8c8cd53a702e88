"""Proofs that a text which was changed in one place says the same: of TL Code (equal_tl.py) and of CUDA text (equal_cuda.py).

Each proof gives its sentence, or None. This file holds their test: changes that say the same, and such that do not.
"""
import sys

from equal_cuda import of_cuda
from equal_tl import of_tl

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


def main():
    wrong = []
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
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
