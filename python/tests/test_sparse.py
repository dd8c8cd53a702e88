"""flashtl.sparse_attention on NumPy's arrays against fp64: prompts, single tokens, caches that grow, and what it refuses."""
import itertools

import numpy as np

import flashtl
from helpers import Case, random

BLOCK = 64
MOST = 3e-3  # relative: three branches, each rounded to float16 twice


def tensors(q_len, kv_len, heads=4, kv_heads=2, d=16, dv=16, batch=1):
    q, k, v = random(batch, heads, q_len, d), random(batch, kv_heads, kv_len, d, seed=2), random(batch, kv_heads, kv_len, dv, seed=3)
    gates = [np.random.default_rng(seed).random((batch, heads, q_len), np.float32) for seed in (4, 5, 6)]
    return q, k, v, *gates


def softmax(s):
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    return e / np.where(e.sum(-1, keepdims=True) > 0, e.sum(-1, keepdims=True), 1)


def means(x):
    count = -(-x.shape[2] // BLOCK)
    rows = np.minimum(np.arange(count)[:, None] * BLOCK + np.arange(BLOCK), x.shape[2] - 1)
    return x[:, :, rows].astype(np.float64).mean(3)


def reference(q, k, v, *gates, window=512, top=16, scale=None):
    """All steps in fp64; of scores that are nearly equal it may choose another block, so few blocks compete for the places."""
    group, scale = q.shape[1] // k.shape[1], scale or q.shape[3] ** -0.5
    many = lambda x: np.repeat(x.astype(np.float64), group, axis=1)
    q, keys, values = q.astype(np.float64), many(k), many(v)
    place, at, block = np.arange(q.shape[2])[:, None] + k.shape[2] - q.shape[2], np.arange(k.shape[2]), np.arange(-(-k.shape[2] // BLOCK))
    s = q @ keys.swapaxes(2, 3) * scale
    weights = softmax(np.where((block + 1) * BLOCK <= place + 1, q @ many(means(k)).swapaxes(2, 3) * scale, -np.inf))
    score = weights.reshape(q.shape[0], -1, group, *weights.shape[2:]).sum(2)
    score = np.where((block == 0) | ((block + 2) * BLOCK > place), 1e30, score)
    score = np.where(block * BLOCK > place, -np.inf, score)
    chosen = np.argsort(-score, axis=-1, kind="stable")[..., :top]
    seen = np.repeat((chosen[..., None] == block).any(-2), group, axis=1)[..., at // BLOCK] & (at <= place)
    parts = weights @ many(means(v)), softmax(np.where(seen, s, -np.inf)) @ values
    near = softmax(np.where((at <= place) & (at > place - window), s, -np.inf)) @ values
    return sum(gate[..., None] * part for gate, part in zip(gates, (*parts, near)))


class Meaning(Case):
    def agrees(self, arrays, got, **options):
        wanted = reference(*arrays, **options)
        self.assertLess(np.linalg.norm(got - wanted), MOST * np.linalg.norm(wanted))

    def test_lengths(self):
        for (q_len, kv_len), quad in itertools.product(((37, 37), (18, 200), (1, 130), (3, 64), (1, 1)), (None, 1, 3)):
            with self.subTest(q_len=q_len, kv_len=kv_len, quad=quad):
                arrays = tensors(q_len, kv_len)
                o = flashtl.sparse_attention(*arrays, window=20, top=8, quad=quad)
                self.assertEqual((o.dtype, o.shape), (np.float16, arrays[0].shape))
                self.agrees(arrays, o, window=20, top=8)

    def test_blocks_that_compete(self):
        """Of 14 blocks a query reads 8; what differs in its choice is seen by the size of the error alone."""
        arrays = tensors(9, 14 * BLOCK - 5, batch=2)
        q, k = arrays[:2]
        for b, h in np.ndindex(k.shape[:2]):  # blocks that differ clearly
            for n, factor in enumerate(np.random.default_rng(7).permutation(14)):
                k[b, h, n * BLOCK:(n + 1) * BLOCK] += (0.4 * factor * q[b, 2 * h:2 * h + 2].mean((0, 1))).astype(np.float16)
        for quad in (1, 4, 8):
            self.agrees(arrays, flashtl.sparse_attention(*arrays, window=64, top=8, quad=quad, scale=0.5), window=64, top=8, scale=0.5)

    def test_other_sizes(self):
        arrays = tensors(5, 90, heads=6, kv_heads=1, d=8, dv=24)
        out = np.empty((1, 6, 5, 24), np.float16)
        self.assertIs(flashtl.sparse_attention(*arrays, out=out), out)
        self.agrees(arrays, out)

    def test_a_cache_that_grows(self):
        q, k, v, *gates = tensors(1, 200)
        wanted = flashtl.sparse_attention(q, k, v, *gates)
        kept = [np.full((1, 2, 4, 16), np.nan, np.float16) for _ in "kv"]
        for there in (0, 3):
            np.testing.assert_array_equal(flashtl.sparse_attention(q, k, v, *gates, means=kept, mean_blocks=there), wanted)
            for mean, of in zip(kept, (k, v)):
                self.close(mean, means(of), 2e-3)
        kept[0][:, :, :3] = 0  # which are there are not made again
        self.assertGreater(abs(flashtl.sparse_attention(q, k, v, *gates, means=kept, mean_blocks=3) - wanted).max(), 0)

    def test_nothing(self):
        for q_len, batch in ((0, 1), (3, 0)):
            arrays = tensors(q_len, 5, batch=batch)
            self.assertEqual(flashtl.sparse_attention(*arrays).shape, arrays[0].shape)

    def test_emulator(self):
        arrays = tensors(6, 100, heads=8, kv_heads=1)
        self.agrees(arrays, flashtl.sparse_attention(*arrays, window=16, top=8, on="emulator", gpu="a100"), window=16, top=8)


class Refused(Case):
    def test_sentences(self):
        arrays = tensors(5, 100)
        q, k, v, *gates = arrays
        for options, sentence in (
                ({"top": 12}, "top is 8, 16, ... 64: the blocks that a query reads; found 12"),
                ({"window": None}, "window is a whole number above 0"),
                ({"window": -1}, "window is a whole number above 0"),
                ({"quad": 9}, "quad is from 1 to 8"),
                ({"scale": 0}, "scale is a number above 0"),
                ({"mean_blocks": 1}, "0 to 0; found 1"),
                ({"means": [q]}, "means are two arrays"),
                ({"means": [q, q]}, r"'means\[0\]' is f16 of the shape \(1, 2, 2, 16\)"),
                ({"out": np.empty((1, 4, 5, 8), np.float16)}, "'out' is f16 of the shape"),
                ({"out": q}, "'out'"),
                ({"on": "paper"}, "on is one of")):
            with self.subTest(options=options), self.assertRaisesRegex(ValueError, sentence):
                flashtl.sparse_attention(*arrays, **options)
        for given, sentence in (((q, *(random(1, 3, 100, 16) for _ in "kv")), "the heads of q are a multiple"),
                                ((q, k[:, :, :4], v[:, :, :4]), "5 queries and 4 keys"), ((q, k, v[:, :, 1:]), "as many heads and keys"),
                                ((q, k[..., :8], v), "vectors of 16")):
            with self.subTest(sentence=sentence), self.assertRaisesRegex(ValueError, sentence):
                flashtl.sparse_attention(*given, *gates)
        with self.assertRaisesRegex(ValueError, "'gate_near' is float32"):
            flashtl.sparse_attention(q, k, v, *gates[:2], gates[2].astype(np.float16))
