"""What the tests of the package share: references by NumPy in fp64, and arrays in many layouts."""
import os
import pathlib
import unittest

import numpy as np

# The repository, as data: its headers, examples and documents. Nothing is imported from there.
SOURCE = pathlib.Path(os.environ["FLASHTL_SOURCE"])

# The first kernel adds rows to where the second one reads them.
PASSED_SUM = """kernel first
Input  X f32 (m in m_len, x in d)
Input  at i32 (m in m_len)
Output G f32 (row in g_len, x in d)
let Rows (m in m_len, x in d) = G[at[m], x]
Copy X from global to register and get A
Compute Multiply A, 2 and get A
Copy A from register to global and accumulate Rows
kernel after
Input  G f32 (row in g_len, x in d)
Output O f32 (row in g_len, x in d)
Copy G from global to register and get S
Compute Add S, 1 and get S
Copy S from register to global and get O
"""


def random(*shape, seed=1, dtype=np.float16):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def attention(q, k, v, causal=False, window=None, softcap=None, alibi=None, scale=None, align="last"):
    """(o, lse) in fp64 of (batch, heads, length, d)."""
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    score = q @ k.swapaxes(2, 3) * (scale or q.shape[3] ** -0.5)
    if softcap:
        score = softcap * np.tanh(score / softcap)
    place = np.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2] if align == "last" else 0)
    distance = place - np.arange(k.shape[2])
    if alibi is not None:
        score = score - alibi[:, None, None].astype(np.float64) * (distance if causal else abs(distance))
    hidden = np.zeros(distance.shape, bool)
    if causal:
        hidden |= distance < 0
    if window:
        hidden |= (distance >= window) | (distance <= -window)
    score = np.where(hidden, -np.inf, score)
    if not k.shape[2]:
        return np.zeros((*q.shape[:3], v.shape[3])), np.full(q.shape[:3], -np.inf)
    most = score.max(axis=-1, keepdims=True)
    weight = np.exp(score - np.where(np.isfinite(most), most, 0))
    total = weight.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, weight @ v / total, 0), (np.log(total) + most)[..., 0]


class Case(unittest.TestCase):
    def close(self, found, wanted, bound):
        """Every element within 'bound' of the reference, relative to the larger of it and 1."""
        found = np.asarray(found, np.float64)
        self.assertEqual(found.shape, wanted.shape)
        with np.errstate(invalid="ignore"):  # of infinities, which are to be equal
            same = (found == wanted) | (np.abs(found - wanted) <= bound * np.maximum(1, np.abs(wanted)))
        self.assertTrue(same.all(), f"{(~same).sum()} of {same.size} wrong")

    def says(self, kind, text, run, *arguments, **named):
        """One sentence, that holds 'text', and nothing after it."""
        with self.assertRaises(kind) as caught:
            run(*arguments, **named)
        self.assertIn(text, str(caught.exception))
        self.assertNotIn("\n", str(caught.exception))
        return caught.exception
