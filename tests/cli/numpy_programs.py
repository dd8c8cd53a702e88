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


def paged_decode(a):
    """Two kernels: splits of the keys, found through a table of pages, and their combination."""
    out = np.zeros(a["Q_all"].shape)
    group, page_len = out.shape[1] // KV_HEADS, a["K_pool"].shape[1]
    for b, length in enumerate(a["kv_lens"]):
        place = a["table"][b, np.arange(length) // page_len], np.arange(length) % page_len
        for head, query in np.ndindex(out.shape[1], out.shape[2]):
            seen = max(0, query + length - out.shape[2] + 1)
            k = a["K_pool"][place][:seen, head // group].astype(np.float64)
            s = np.exp(k @ a["Q_all"][b, head, query].astype(np.float64) * SCALE)
            if seen:
                out[b, head, query] = s @ a["V_pool"][place][:seen, head // group] / s.sum()
    return out


def normal(*shape, dtype=np.float16):
    return random.standard_normal(shape).astype(dtype)


attention = {"Q": normal(B, H, Q, D), "K": normal(B, KV_HEADS, KV, D), "V": normal(B, KV_HEADS, KV, D)}
product = {"A": normal(67, 48), "B": normal(40, 48), "s": normal(67, dtype=np.float32)}
PAGES, PAGE = 12, 24
paged = {"Q_all": normal(B, H, 2, 128) / 4, "K_pool": normal(PAGES, PAGE, KV_HEADS, 128),
         "V_pool": normal(PAGES, PAGE, KV_HEADS, 128), "kv_lens": np.array([100, 1], np.int32),
         "table": random.permutation(PAGES)[:B * 5].reshape(B, 5).astype(np.int32)}
scale, lengths = ["--let", f"scale={SCALE}"], ["--head-dim", str(D)]
CASES = [
    ("attention", ["--op", "gqa", "--causal"], scale, lengths, attention, "O", softmax_attention),
    ("sigmoid_attention", [programs / "sigmoid_attention.tl"], [*scale, "--let", f"shift={SHIFT}"], lengths, attention,
     "O", sigmoid_attention),
    ("relu_squared_window", [programs / "relu_squared_window.tl"], scale, lengths, attention, "O", relu_squared_window),
    ("gemm_row_scale", [programs / "gemm_row_scale.tl"], [], ["--let", "k_len=48"], product, "C", gemm_row_scale),
]
CODE = [("paged_decode", [programs.parent.parent / "golden/tl/paged_decode.tl"], [*scale, "--let", "splits=3"], [],
         paged, "O", paged_decode)]
CODE_WAYS = [["--on", "interpreter"], ["--gpu", "a100", "--on", "interpreter"], ["--on", "emulator"]]
WAYS = [["--on", "interpreter"], ["--gpu", "a100", "--on", "interpreter"], ["--gpu", "t4", "--on", "emulator"]]


def run(program, values, shapes, arrays, output, way, order):
    for name, array in arrays.items():
        np.save(f"{name}.npy", np.asarray(array, order=order))
    pins = shapes if "--gpu" in way else []
    command = [flashtl, "run", *map(str, program), *way, *pins, *values, "--out", f"{output}=out.npy"]
    for name in arrays:
        command += ["--in", f"{name}={name}.npy"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode == 3 and "emulator" in way:
        return None
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}exit status {done.returncode}")
    return np.load("out.npy").astype(np.float64)


def main():
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for name, program, values, shapes, arrays, output, reference in CASES + CODE:
            want = reference(arrays)
            for way in CODE_WAYS if name == "paged_decode" else WAYS:
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
