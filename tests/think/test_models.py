#!/usr/bin/env python3
"""Are the sketches that models wrote what their requests asked for? Each is run by the interpreter on arrays
and compared with the request written in NumPy, which shares nothing with the compiler. test_models.py FLASHTL
77: NumPy is not here.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("skipped: NumPy is not here")
    sys.exit(77)

flashtl = os.path.realpath(sys.argv[1])
here = pathlib.Path(__file__).resolve().parent
random = np.random.default_rng(7)
B, H, G, N, M, D = 2, 4, 2, 150, 170, 16  # batch, heads, key heads, queries, keys, head dimension
place = np.arange(N)[:, None] + M - N
key = np.arange(M)[None, :]
causal = key <= place


def normal(*shape):
    return random.standard_normal(shape).astype(np.float16)


def f32(*shape):
    return random.standard_normal(shape).astype(np.float32)


def softmax(s, seen):
    s = np.where(seen, s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True)


def scores(q, k):
    return q.astype(float) @ k.astype(float).swapaxes(-1, -2)


def qkv(heads=H):
    return {"Q": normal(B, H, N, D), "K": normal(B, heads, M, D), "V": normal(B, heads, M, D)}


def causal_linear():
    t = {name: abs(x) for name, x in qkv().items()}
    s = np.where(causal, scores(t["Q"], t["K"]), 0)
    return t, {}, {"O": s @ t["V"].astype(float) / (s.sum(-1, keepdims=True) + 1e-6)}


def differential():
    t = {"Q1": normal(B, H, N, D), "K1": normal(B, H, M, D), "Q2": normal(B, H, N, D), "K2": normal(B, H, M, D),
         "V": normal(B, H, M, D), "lambda": f32(H)}
    a = [softmax(0.25 * scores(t["Q" + i], t["K" + i]), causal) for i in "12"]
    return t, {"scale": 0.25}, {"O": (a[0] - t["lambda"][:, None, None] * a[1]) @ t["V"].astype(float)}


def local_global():
    flag = (random.random((B, M)) < 0.1).astype(np.int32)
    t = {"Q": normal(B, H, N, D), "K": normal(B, M, D), "V": normal(B, M, D), "is_global": flag}
    seen = (abs(key - place) <= 64) | (flag[:, None, None, :] != 0)
    p = softmax(0.25 * scores(t["Q"], t["K"][:, None]), seen)
    return t, {"scale": 0.25}, {"O": p @ t["V"][:, None].astype(float)}


def row_kl():
    t = {"X": normal(33, 300), "Y": normal(33, 300)}
    p, q = (softmax(t[n].astype(float), True) for n in "XY")
    return t, {}, {"kl": (p * np.log(p / q)).sum(-1), "entropy": -(p * np.log(p)).sum(-1)}


def sigmoid_relative_bias():
    t = qkv() | {"bias": f32(H, 40)}
    x = 0.25 * scores(t["Q"], t["K"]) + t["bias"][:, np.clip(place - key, 0, 39)]
    return t, {"scale": 0.25}, {"O": np.where(causal, 1 / (1 + np.exp(-x)), 0) @ t["V"].astype(float)}


def sink_softcap_window():
    t = qkv(G) | {"sink": f32(H)}
    k, v = (np.repeat(t[n], H // G, axis=1).astype(float) for n in "KV")
    s = 20 * np.tanh(0.25 * scores(t["Q"], k) / 20)
    s = np.where(causal & (key > place - 128), s, -np.inf)
    all_scores = np.concatenate([s, np.broadcast_to(t["sink"][:, None, None], (B, H, N, 1))], -1)
    lse = np.log(np.exp(all_scores).sum(-1))
    return t, {"scale": 0.25}, {"O": np.exp(s - lse[..., None]) @ v, "lse": lse}


def off_by_one():
    t = qkv(G)
    k, v = (np.repeat(t[n], H // G, axis=1).astype(float) for n in "KV")
    e = np.where(causal, np.exp(0.25 * scores(t["Q"], k)), 0)
    return t, {"scale": 0.25}, {"O": e @ v / (1 + e.sum(-1, keepdims=True))}


def cosine():
    t = qkv()
    lengths = [np.linalg.norm(t[n].astype(float), axis=-1) for n in "QK"]
    t |= {"key_inverse": (1 / lengths[1]).astype(np.float32), "tau": 5 * f32(H)}
    s = scores(t["Q"], t["K"]) / lengths[0][..., None] / lengths[1][:, :, None] * t["tau"][:, None, None]
    return t, {}, {"O": softmax(s, True) @ t["V"].astype(float)}


def prefix_temperature():
    t = qkv() | {"temperature": 1 + abs(f32(H)), "prefix": np.array([0, 120], np.int32)}
    seen = causal | (key < t["prefix"][:, None, None, None])
    p = softmax(scores(t["Q"], t["K"]) / t["temperature"][:, None, None], seen)
    return t, {}, {"O": p @ t["V"].astype(float)}


def dilated():
    t = {"Q": normal(B, H, N, D), "K": normal(B, M, D), "V": normal(B, M, D)}
    seen = causal & ((place - key) % 4 == 0) & (place - key < 128)
    return t, {"scale": 0.25}, {"O": softmax(0.25 * scores(t["Q"], t["K"][:, None]), seen) @ t["V"][:, None].astype(float)}


def double_softcap():
    t = qkv() | {"slope": abs(f32(H))}
    s = 50 * np.tanh(0.25 * scores(t["Q"], t["K"]) / 50) - t["slope"][:, None, None] * (place - key)
    return t, {"scale": 0.25}, {"O": softmax(30 * np.tanh(s / 30), causal) @ t["V"].astype(float)}


def two_epilogues():
    t = {"A": normal(70, 136), "B": normal(90, 136), "bias": f32(90), "gain": f32(70)}
    c = scores(t["A"], t["B"])
    return t, {}, {"R": np.maximum(c + t["bias"], 0), "G": t["gain"][:, None] / (1 + np.exp(-c))}


def gated_padded():
    t = qkv() | {"gate": normal(B, H, N, D), "key_count": np.array([37, 170], np.int32)}
    p = softmax(0.25 * scores(t["Q"], t["K"]), key < t["key_count"][:, None, None, None])
    return t, {"scale": 0.25}, {"O": p @ t["V"].astype(float) / (1 + np.exp(-t["gate"].astype(float)))}


def split_rope():
    t = {"Qn": normal(B, H, N, D), "Qr": normal(B, H, N, 32), "Kn": normal(B, H, M, D), "Kr": normal(B, M, 32), "V": normal(B, H, M, D)}
    p = softmax(0.125 * (scores(t["Qn"], t["Kn"]) + scores(t["Qr"], t["Kr"][:, None])), causal)
    return t, {"scale": 0.125}, {"O": p @ t["V"].astype(float), "place": p @ np.arange(M)}


def squared_relu():
    t = qkv() | {"importance": abs(f32(B, M))}
    w = np.where(causal, np.maximum(0.25 * scores(t["Q"], t["K"]), 0) ** 2 * t["importance"][:, None, None], 0)
    return t, {"scale": 0.25}, {"O": w @ t["V"].astype(float) / (w.sum(-1, keepdims=True) + 1e-6)}


requests = {}
for file in ("by_models", "by_models_unrecorded"):
    requests |= json.loads((here / f"answers/{file}.json").read_text())
for name, (_, _, files, _) in requests.items():
    tensors, scalars, wanted = globals()[name]()
    sketch = re.search(r"```tl\n(.*?)```", (here / "answers" / files[-1]).read_text(), re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        words = [flashtl, "run", "-"]
        for tensor, values in tensors.items():
            np.save(f"{folder}/{tensor}.npy", values)
            words += ["--in", f"{tensor}={folder}/{tensor}.npy"]
        for scalar, value in scalars.items():
            words += ["--let", f"{scalar}={value}"]
        for output in wanted:
            words += ["--out", f"{output}={folder}/{output}.npy"]
        done = subprocess.run(words, input=sketch, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{name}: {done.stderr}")
        for output, values in wanted.items():
            got = np.load(f"{folder}/{output}.npy").astype(float)
            off = np.sqrt(((got - values) ** 2).sum() / (values ** 2).sum())
            print(f"{name}: {output} differs by {off:.2g} (relative rms)")
            if not off < 1e-3:
                sys.exit(1)
