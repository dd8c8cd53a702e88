"""Attention over sequences that several processes share, by torch.distributed: each has a part of every sequence and a GPU of its own.

    import flashtl.distributed as fd
    x = fd.shard(x, 1)                                            # of (batch, length, ...): this process's part of the length
    o = fd.attention(q, k, v, causal=True)                        # a ring: keys and values travel
    o = fd.attention(q, k, v, causal=True, heads_group=group)     # all-to-all: each process computes some of the heads
    whole = fd.gather(o, 2)
"""
from ._attention import Attention, attention
from ._parts import gather, shard

__all__ = ["Attention", "attention", "gather", "shard"]
