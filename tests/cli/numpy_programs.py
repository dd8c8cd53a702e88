#!/usr/bin/env python3
"""Attention and the odd programs on NumPy's own files, in C and in Fortran order, against NumPy's result.
numpy_programs.py FLASHTL FOLDER_OF_PROGRAMS; exit status 77 without NumPy."""
import math
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("numpy_programs.py: NumPy is not here")
    sys.exit(77)

flashtl, programs = sys.argv[1], pathlib.Path(sys.argv[2])
random = np.random.default_rng(1)
B, H, KV_HEADS, Q, KV, D = 2, 4, 2, 19, 130, 32
SCALE, SHIFT, WINDOW = 0.25, -0.5, 100


def heads(x):
    return np.repeat(x.astype(np.float64), H // KV_HEADS, axis=1)


def scores(a):
    return np.einsum("bhqd,bhkd->bhqk", a["Q"].astype(np.float64), heads(a["K"])) * SCALE


def visible():
    return np.arange(KV)[None, :] <= np.arange(Q)[:, None] + KV - Q


def softmax_attention(a):
    s = np.where(visible(), scores(a), -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ heads(a["V"])


def sigmoid_attention(a):
    return np.where(visible(), 1 / (1 + np.exp(-scores(a) - SHIFT)), 0) @ heads(a["V"])


def relu_squared_window(a):
    near = np.arange(KV)[None, :] > np.arange(Q)[:, None] + KV - Q - WINDOW
    return np.where(visible() & near, np.maximum(scores(a), 0) ** 2, 0) @ heads(a["V"])


def gemm_row_scale(a):
    return a["s"].astype(np.float64)[:, None] * (a["A"].astype(np.float64) @ a["B"].astype(np.float64).T)


def normal(*shape, dtype=np.float16):
    return random.standard_normal(shape).astype(dtype)


attention = {"Q": normal(B, H, Q, D), "K": normal(B, KV_HEADS, KV, D), "V": normal(B, KV_HEADS, KV, D)}
product = {"A": normal(67, 48), "B": normal(40, 48), "s": normal(67, dtype=np.float32)}
scale, lengths = ["--let", f"scale={SCALE}"], ["--head-dim", str(D)]
CASES = [
    ("attention", ["--op", "gqa", "--causal"], scale, lengths, attention, "O", softmax_attention),
    ("sigmoid_attention", [programs / "sigmoid_attention.tl"], [*scale, "--let", f"shift={SHIFT}"], lengths, attention,
     "O", sigmoid_attention),
    ("relu_squared_window", [programs / "relu_squared_window.tl"], scale, lengths, attention, "O", relu_squared_window),
    ("gemm_row_scale", [programs / "gemm_row_scale.tl"], [], ["--let", "k_len=48"], product, "C", gemm_row_scale),
]
WAYS = [["--on", "interpreter"], ["--gpu", "a100", "--on", "interpreter"], ["--gpu", "t4", "--on", "emulator"]]


def run(program, values, shapes, arrays, output, way, order):
    for name, array in arrays.items():
        np.save(f"{name}.npy", np.asarray(array, order=order))
    pins = shapes if "--gpu" in way else []
    command = [flashtl, "run", *map(str, program), *way, *pins, *values, "--out", f"{output}=out.npy"]
    for name in arrays:
        command += ["--in", f"{name}={name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode == 3 and "emulator" in way:
        return None
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}exit status {done.returncode}")
    return np.load("out.npy").astype(np.float64)


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, program, values, shapes, arrays, output, reference in CASES:
            want = reference(arrays)
            for way in WAYS:
                for order in "CF":
                    got = run(program, values, shapes, arrays, output, way, order)
                    if got is None:
                        print(f"skipped {name} {' '.join(way)}: no CUDA compiler")
                        continue
                    error = np.linalg.norm(got - want) / np.linalg.norm(want)
                    good = got.shape == want.shape and math.isfinite(error) and error <= 1e-3
                    wrong += not good
                    print(f"{'good' if good else 'WRONG'} {name} {' '.join(way)} order {order}: error {error:.1e}")
    sys.exit(1 if wrong else 0)


main()
