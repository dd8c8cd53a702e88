#!/usr/bin/env python3
"""Sequences of any lengths one after the other, without padding: prompts of a batch, and parts of prompts after what is cached.

    varlen.py                on the CPU
    varlen.py --on gpu       the same arrays, on a GPU
"""
import numpy as np

import flashtl
import plainly

HEADS, KV_HEADS, D = 8, 2, 64
random = np.random.default_rng(0)


def rows(count, heads):
    return random.standard_normal((count, heads, D)).astype(np.float16)


def one_by_one(q, k, v, starts, kv_starts):
    """Each sequence by itself, (heads, length, d) as the plain reference has it."""
    parts = []
    for a, b, c, d in zip(starts, starts[1:], kv_starts, kv_starts[1:]):
        turned = [x.transpose(1, 0, 2) for x in (q[a:b], k[c:d], v[c:d])]
        parts.append(plainly.attention(*turned, plainly.causal(b - a, d - c)).transpose(1, 0, 2))
    return np.concatenate(parts)


def main():
    where = plainly.options(__doc__)
    starts = np.array([0, 17, 18, 60], np.int32)               # sequences of 17, 1 and 42 tokens
    q, k, v = rows(60, HEADS), rows(60, KV_HEADS), rows(60, KV_HEADS)
    o = flashtl.varlen_attention(q, k, v, starts, starts, causal=True, **where)
    plainly.near("prompts", o, one_by_one(q, k, v, starts, starts))
    kv_starts = np.array([0, 40, 90, 140], np.int32)           # each with keys from before: 23, 49 and 8
    k, v = rows(140, KV_HEADS), rows(140, KV_HEADS)
    o = flashtl.varlen_attention(q, k, v, starts, kv_starts, causal=True, **where)
    plainly.near("parts of prompts", o, one_by_one(q, k, v, starts, kv_starts))


if __name__ == "__main__":
    main()
