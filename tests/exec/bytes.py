#!/usr/bin/env python3
"""Products of 8-bit floats by warpgroups, from TL Code on the emulator, against fp64.

Whole numbers show every element of a product exactly. Attention's weights have four bits, so results are judged by
the noise that such weights make; what noise hides is planted: values that are all 1, keys that one query each
dominates with values that tell which key it was, scores that climb from block to block.

bytes.py FLASHTL; exit status 77 without NumPy or a CUDA compiler."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("bytes.py: NumPy is not here")
    sys.exit(77)

FLASHTL = str(pathlib.Path(sys.argv[1]).resolve())
PROGRAMS = pathlib.Path(__file__).resolve().parent / "bytes"
D = 128
NOISE = {"exact": 0.026, "codes": 0.0315}  # of a weight, relative: e4m3 alone, and on the line between powers of two
ROUNDING = {"exact": 0.0, "codes": 0.003}  # of the result: f32, bf16
random = np.random.default_rng(11)


def e4m3(x):
    """The nearest numbers of the type, ties to even."""
    size = np.minimum(np.abs(x), 448)
    step = 2.0 ** (np.floor(np.log2(np.maximum(size, 2.0 ** -6))) - 3)
    return np.sign(x) * np.minimum(np.round(size / step) * step, 448)


def run(name, arrays, out, lets):
    for key, value in arrays.items():
        np.save(key + ".npy", value.astype(np.float32))
    command = [FLASHTL, "run", str(PROGRAMS / (name + ".tl")), "--on", "emulator", "--gpu", "h200"]
    command += [word for key in arrays for word in ("--in", f"{key}={key}.npy")]
    command += [word for let in lets for word in ("--let", let)]
    done = subprocess.run(command + ["--out", f"{out}={out}.npy"], stderr=subprocess.PIPE, text=True)
    if done.returncode == 3:
        print("bytes.py:", done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"bytes.py: {name}: {done.stderr}")
    got = np.load(out + ".npy")
    return (got.astype(np.uint32) << 16).view(np.float32) if got.dtype == np.uint16 else got


def gemm():
    for b, m, n, k in ((1, 130, 200, 272), (2, 64, 128, 128), (1, 1, 16, 16)):
        a = random.integers(-4, 5, (b, m, k))
        c = random.integers(-4, 5, (b, n, k))
        if not np.array_equal(run("gemm", {"A": a, "B": c}, "C", []), a @ c.transpose(0, 2, 1)):
            sys.exit(f"bytes.py: gemm {b} {m} {n} {k}: not the product")


def reference(q, k, v, scale):
    s = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    o = np.einsum("bhqk,bhdk->bhqd", p, v)
    noise = np.sqrt(np.einsum("bhqk,bhdk->bhqd", p * p, v * v) + (p * p).sum(-1, keepdims=True) * o * o)
    return o, noise


def attention(name, what, q, k, v, scale=1 / D ** 0.5):
    o, noise = reference(q, k, v, scale)
    error = run(name, {"Q": q, "K": k, "V": v}, "O", [f"scale={scale!r}"]) - o
    allowed = np.sqrt((NOISE[name] * noise) ** 2 + (ROUNDING[name] * o) ** 2 + 1e-6)
    whole = np.sqrt((error ** 2).sum() / (allowed ** 2).sum())
    rows = np.sqrt((error ** 2).sum(-1) / (allowed ** 2).sum(-1)).max()
    print(f"{name} {what}: {whole:.2f} of what the noise of weights explains, a row {rows:.2f}")
    if not whole <= 1.1 or not rows <= 1.6:
        sys.exit(f"bytes.py: {name} {what}: too far off")


def normal(*shape):
    return e4m3(random.standard_normal(shape))


def planted(name):
    # Values of 1: the result is 1.
    q, k = normal(1, 1, 130, D), normal(1, 1, 2064, D)
    got = run(name, {"Q": q, "K": k, "V": np.ones((1, 1, D, 2064))}, "O", [f"scale={1 / D ** 0.5!r}"])
    off = np.abs(got - 1).max()
    print(f"{name} ones: off by {off:.5f}")
    if not off <= (2.0 ** -8 if name == "codes" else 0.02):
        sys.exit(f"bytes.py: {name} ones: off by {off}")
    # Query i has one key, and the values say which: the digits of its number to base 4.
    keys, count = 272, 160
    k = np.where(random.random((1, 1, keys, D)) < 0.5, -2.0, 2.0)
    chosen = random.permutation(keys)[:count]
    v = np.array([[key // 4 ** (d % 5) % 4 - 1.5 for key in range(keys)] for d in range(D)])[None, None]
    got = run(name, {"Q": k[:, :, chosen], "K": k, "V": v}, "O", ["scale=1"])
    if not np.allclose(got[0, 0], v[0, 0].T[chosen], atol=0.01):
        sys.exit(f"bytes.py: {name}: a query does not find its key")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    gemm()
    for name in ("exact", "codes"):
        attention(name, "normal", normal(1, 2, 150, D), normal(1, 2, 400, D), normal(1, 2, D, 400))
        attention(name, "values with a mean", normal(1, 1, 130, D), normal(1, 1, 1040, D),
                  e4m3(random.standard_normal((1, 1, D, 1040)) + random.standard_normal((1, 1, D, 1))))
        rising = np.linspace(0.25, 3, 400)[None, None, :, None]
        attention(name, "scores that climb", np.abs(normal(2, 1, 70, D)), e4m3(np.abs(normal(2, 1, 400, D)) * rising),
                  normal(2, 1, D, 400))
        planted(name)
print("right")
