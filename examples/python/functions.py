#!/usr/bin/env python3
"""Attention by functions of score and places, as FlexAttention's documents show it: each compared with NumPy, which runs the same
function on whole arrays.

    functions.py                         on the CPU: what the sketches mean
    functions.py --on emulator           the kernels of an A100, by an emulator of it (minutes)
    functions.py --on gpu                on a GPU
    functions.py --show natten           the sketch that a function becomes
"""
import argparse

import numpy as np

import flashtl

BATCH, HEADS, KV_HEADS, LENGTH, D = 2, 4, 2, 64, 64
WIDTH = 8  # of a picture whose points are the keys
rng = np.random.default_rng(0)
slopes = (2.0 ** (-8 * np.arange(1, HEADS + 1) / HEADS)).astype(np.float32)
document = np.sort(rng.integers(0, 4, (BATCH, LENGTH)), axis=1).astype(np.int32)
prefix = np.array([20, 7], np.int32)
by_distance = rng.standard_normal((HEADS, 2 * LENGTH - 1)).astype(np.float32)


def causal(b, h, q, kv):
    return q >= kv


def sliding_window(b, h, q, kv):
    return (q >= kv) & (q - kv < 16)


def dilated_window(b, h, q, kv):
    return (abs(q - kv) <= 24) & ((q - kv) % 4 == 0)


def prefix_lm(b, h, q, kv):
    return (kv < prefix[b]) | (q >= kv)


def documents(b, h, q, kv):
    return causal(b, h, q, kv) & (document[b, q] == document[b, kv])


def natten(b, h, q, kv):
    """Keys around the query's own point, in a square that stays inside the picture."""
    x, y = (np.clip(place, 2, WIDTH - 3) for place in (q // WIDTH, q % WIDTH))
    return (abs(x - kv // WIDTH) <= 2) & (abs(y - kv % WIDTH) <= 2)


def alibi(score, b, h, q, kv):
    return score + slopes[h] * (kv - q)


def soft_cap(score, b, h, q, kv):
    return 30 * np.tanh(score / 30)


def relative(score, b, h, q, kv):
    return score + (q - kv)


def relative_bias(score, b, h, q, kv):
    return score + by_distance[h, np.clip(q - kv + LENGTH - 1, 0, 2 * LENGTH - 2)]


def checkerboard(score, b, h, q, kv):
    return np.where(abs(kv - q) % 2 == 1, score * 0.5, score)


GALLERY = {"causal": (None, causal), "sliding_window": (None, sliding_window), "dilated_window": (None, dilated_window),
           "prefix_lm": (None, prefix_lm), "documents": (None, documents), "natten": (None, natten), "alibi": (alibi, causal),
           "soft_cap": (soft_cap, None), "relative": (relative, causal), "relative_bias": (relative_bias, None),
           "checkerboard": (checkerboard, None), "soft_cap_window": (soft_cap, sliding_window)}


def by_numpy(q, k, v, score_mod, mask_mod):
    k, v = (np.repeat(x.astype(np.float64), HEADS // KV_HEADS, axis=1) for x in (k, v))
    score = q.astype(np.float64) @ k.swapaxes(2, 3) * D ** -0.5
    places = np.ix_(*map(range, score.shape))
    score = score_mod(score, *places) if score_mod else score
    score = np.where(mask_mod(*places), score, -np.inf) if mask_mod else score
    weight = np.exp(score - score.max(axis=-1, keepdims=True))
    return weight @ v / weight.sum(axis=-1, keepdims=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="interpreter", choices=("interpreter", "emulator", "gpu"))
    parser.add_argument("--show", choices=GALLERY)
    a = parser.parse_args()
    if a.show:
        return print(flashtl.sketch_of(*GALLERY[a.show]), end="")
    q = rng.standard_normal((BATCH, HEADS, LENGTH, D)).astype(np.float16)
    k, v = rng.standard_normal((2, BATCH, KV_HEADS, LENGTH, D)).astype(np.float16)
    gpu = "a100" if a.on == "emulator" else None
    for name, functions in GALLERY.items():
        found = flashtl.flex_attention(q, k, v, *functions, on=a.on, gpu=gpu)
        worst = abs(found - by_numpy(q, k, v, *functions)).max()
        print(f"{name:16} off by at most {worst:.1e}")
        assert worst < 4e-3


if __name__ == "__main__":
    main()
