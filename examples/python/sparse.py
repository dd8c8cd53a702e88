#!/usr/bin/env python3
"""Block-sparse attention: a list says which blocks of 64 keys each block of 64 queries sees, and nothing else is read.

    sparse.py                    on the CPU
    sparse.py --on emulator      the kernel of an A100, by an emulator of it

The lists here are a window and the first block; any will do, made by a router or by another kernel."""
import numpy as np

import flashtl
import plainly

HEADS, KV_HEADS, LENGTH, D, BLOCK = 4, 2, 320, 64, 64


def listed(blocks):
    """The first block, and the last two up to one's own: as rows of a sparse matrix, (where each row starts, its columns)."""
    rows = [sorted({0, max(0, i - 1), i}) for i in range(blocks)]
    return np.cumsum([0, *map(len, rows)], dtype=np.int32), np.concatenate(rows).astype(np.int32)


def main():
    where = plainly.options(__doc__)
    random = np.random.default_rng(0)
    q = random.standard_normal((1, HEADS, LENGTH, D)).astype(np.float16)
    k, v = random.standard_normal((2, 1, KV_HEADS, LENGTH, D)).astype(np.float16)
    start, column = listed(LENGTH // BLOCK)
    program = flashtl.compile(flashtl.sketch("block_sparse", causal=True), d=D, dv=D, **where)
    o = program(Q=q, K=k, V=v, start=start, column=column, scale=D ** -0.5).O
    seen = np.zeros((LENGTH // BLOCK, LENGTH // BLOCK), bool)
    for i, (first, last) in enumerate(zip(start, start[1:])):
        seen[i, column[first:last]] = True
    seen = np.kron(seen, np.ones((BLOCK, BLOCK), bool)) & plainly.causal(LENGTH, LENGTH)
    plainly.near(f"{len(column)} blocks of {(LENGTH // BLOCK) ** 2}", o, plainly.attention(q, k, v, seen))


if __name__ == "__main__":
    main()
