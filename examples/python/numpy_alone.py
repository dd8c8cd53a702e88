#!/usr/bin/env python3
"""Attention on NumPy's arrays, with no other package: grouped heads, windows, and a long row of keys in parts that are put together.

    numpy_alone.py                on the CPU
    numpy_alone.py --on gpu       the same arrays, on a GPU
"""
import numpy as np

import flashtl
import plainly


def in_parts(q, k, v, parts, **where):
    """The keys in parts, each with its own call: results are weighted by what the log-sum-exp says each part is worth."""
    results = [flashtl.attention(q, *part, return_lse=True, **where)
               for part in zip(np.array_split(k, parts, axis=2), np.array_split(v, parts, axis=2))]
    worth = np.stack([lse for _, lse in results])
    weight = np.exp(worth - worth.max(axis=0))
    return (np.stack([o.astype(np.float32) for o, _ in results]) * (weight / weight.sum(axis=0))[..., None]).sum(axis=0)


def main():
    where = plainly.options(__doc__)
    random = np.random.default_rng(0)
    q = random.standard_normal((2, 8, 50, 64)).astype(np.float16)              # (batch, heads, length, d)
    k, v = random.standard_normal((2, 2, 2, 50, 64)).astype(np.float16)        # a key head for four heads
    seen = plainly.causal(50, 50)
    plainly.near("causal", flashtl.attention(q, k, v, causal=True, **where), plainly.attention(q, k, v, seen))
    near = seen & (np.arange(50)[:, None] - np.arange(50) < 16)
    plainly.near("a window of 16", flashtl.attention(q, k, v, causal=True, window=16, **where), plainly.attention(q, k, v, near))
    o, lse = flashtl.attention(q, k, v, return_lse=True, **where)
    wanted = plainly.attention(q, k, v, return_lse=True)
    plainly.near("all keys", o, wanted[0])
    plainly.near("what rows come to", lse, wanted[1])
    plainly.near("keys in three parts", in_parts(q, k, v, 3, **where), wanted[0])
    turned = [x.transpose(0, 2, 1, 3).copy() for x in (q, k, v)]               # (batch, length, heads, d): read as it lies
    o = flashtl.attention(*turned, layout="blhd", causal=True, **where)
    plainly.near("the other order of axes", o.transpose(0, 2, 1, 3), plainly.attention(q, k, v, seen))


if __name__ == "__main__":
    main()
