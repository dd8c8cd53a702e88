#!/usr/bin/env python3
"""Decoding with keys in pages: sequences of different lengths make a token at a time, and their pages lie anywhere in one pool.

    paged_decoding.py                on the CPU
    paged_decoding.py --on gpu       the same arrays, on a GPU

An engine's whole loop, with prompts in chunks, is examples/engine.py."""
import numpy as np

import flashtl
import plainly

HEADS, KV_HEADS, D, SLOTS, PAGES = 8, 2, 64, 16, 20
random = np.random.default_rng(0)


class Cache:
    """Keys and values of all sequences: pages of the pool are given out as sequences grow."""

    def __init__(self, sequences):
        self.keys, self.values = np.zeros((2, PAGES, SLOTS, KV_HEADS, D), np.float16)
        self.free = list(random.permutation(PAGES))
        self.table = np.full((sequences, 4), -1, np.int32)     # -1: no page yet
        self.lengths = np.zeros(sequences, np.int32)

    def append(self, keys, values):
        """One more row of each sequence."""
        slots = []
        for i, length in enumerate(self.lengths):
            if length % SLOTS == 0:
                self.table[i, length // SLOTS] = self.free.pop()
            slots.append(self.table[i, length // SLOTS] * SLOTS + length % SLOTS)
        flashtl.append(keys, values, self.keys, self.values, np.array(slots, np.int32))
        self.lengths += 1

    def rows(self, sequence):
        """A sequence's keys and values, gathered: (heads, length, d)."""
        pages = self.table[sequence][self.table[sequence] >= 0]
        length = self.lengths[sequence]
        return [pool[pages].reshape(-1, KV_HEADS, D)[:length].transpose(1, 0, 2) for pool in (self.keys, self.values)]


def main():
    where = plainly.options(__doc__)
    cache = Cache(sequences=3)
    cache.lengths[:] = 0, 9, 30                                # what prompts left there
    for i, length in enumerate(cache.lengths):
        for page in range(-(-int(length) // SLOTS)):
            cache.table[i, page] = cache.free.pop()
            cache.keys[cache.table[i, page]], cache.values[cache.table[i, page]] = random.standard_normal((2, SLOTS, KV_HEADS, D))
    for step in range(4):
        q, k, v = (random.standard_normal((3, heads, D)).astype(np.float16) for heads in (HEADS, KV_HEADS, KV_HEADS))
        cache.append(k, v)
        o = flashtl.decode(q[:, None], cache.keys, cache.values, cache.table, cache.lengths, **where)[:, 0]
        wanted = [plainly.attention(q[i][:, None], *cache.rows(i))[:, 0] for i in range(3)]
        plainly.near(f"token {step}, {cache.lengths} keys", o, np.stack(wanted))


if __name__ == "__main__":
    main()
