#!/usr/bin/env python3
"""Products of 8-bit floats by warpgroups, from TL Code and from sketches on interpreter and emulator, against fp64.

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
NOISE = {"codes": 0.0315, "attention_sketch": 0.026}  # of a weight, relative: e4m3 alone, and on the line between powers of two
ROUNDING = {"codes": 0.003, "attention_sketch": 0.0}  # of the result: f32, bf16
random = np.random.default_rng(11)


def e4m3(x):
    """The nearest numbers of the type, ties to even."""
    size = np.minimum(np.abs(x), 448)
    step = 2.0 ** (np.floor(np.log2(np.maximum(size, 2.0 ** -6))) - 3)
    return np.sign(x) * np.minimum(np.round(size / step) * step, 448)


def run(name, arrays, out, lets, on="emulator"):
    for key, value in arrays.items():
        np.save(key + ".npy", value.astype(np.float32))
    command = [FLASHTL, "run", str(PROGRAMS / (name + ".tl")), "--on", on, "--gpu", "h200"]
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


def gemm(name, pins):
    for b, m, n, k in ((1, 130, 200, 272), (2, 64, 128, 128), (1, 1, 16, 16)):
        a = random.integers(-4, 5, (b, m, k))
        c = random.integers(-4, 5, (b, n, k))
        got = [run(name, {"A": a, "B": c}, "C", pins, on) for on in ("interpreter", "emulator")]
        if not all(np.array_equal(x, a @ c.transpose(0, 2, 1)) for x in got):
            sys.exit(f"bytes.py: {name} {b} {m} {n} {k}: not the product")


def reference(s, v):
    p = np.exp(s - s.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)
    o = np.einsum("bhqk,bhdk->bhqd", p, v)
    noise = np.sqrt(np.einsum("bhqk,bhdk->bhqd", p * p, v * v) + (p * p).sum(-1, keepdims=True) * o * o)
    return o, noise


def judge(name, what, got, s, v):
    o, noise = reference(s, v)
    error = got - o
    allowed = np.sqrt((NOISE[name] * noise) ** 2 + (ROUNDING[name] * o) ** 2 + 1e-6)
    whole = np.sqrt((error ** 2).sum() / (allowed ** 2).sum())
    rows = np.sqrt((error ** 2).sum(-1) / (allowed ** 2).sum(-1)).max()
    print(f"{name} {what}: {whole:.2f} of what the noise of weights explains, a row {rows:.2f}")
    if not whole <= 1.1 or not rows <= 1.6:
        sys.exit(f"bytes.py: {name} {what}: too far off")


def sketch(what, shape, pins=(), climbs=False):
    """Grouped heads, causal, a factor for each head of keys, which is as good as one in the keys."""
    b, heads, group, rows, keys, d = shape
    q, v = normal(b, heads, rows, d), e4m3(random.standard_normal((b, heads // group, d, keys)) + 0.5)
    k = normal(b, heads // group, keys, d)
    if climbs:
        q, k = np.abs(q), e4m3(np.abs(k) * np.linspace(0.25, 3, keys)[None, None, :, None])
    factor = 2.0 ** random.integers(-1, 2, (b, heads // group))
    scale = 1 / d ** 0.5
    s = np.einsum("bhqd,bhkd->bhqk", q, np.repeat(k * factor[..., None, None], group, 1)) * scale
    s[..., np.arange(keys)[None] > np.arange(rows)[:, None] + keys - rows] = -np.inf
    arrays = {"Q": q, "K": k, "V": v, "k_scale": factor}
    name = "codes" if "linear_weights=1" in pins else "attention_sketch"
    for on in ("interpreter", "emulator"):
        got = run("attention_sketch", arrays, "O", [f"scale={scale!r}", f"d={d}", f"dv={d}", *pins], on)
        judge(name, f"{what}, {on}", got, s, np.repeat(v, group, 1))


def attention(name, what, q, k, v, scale=1 / D ** 0.5):
    got = run(name, {"Q": q, "K": k, "V": v}, "O", [f"scale={scale!r}"])
    judge(name, what, got, np.einsum("bhqd,bhkd->bhqk", q, k) * scale, v)


def normal(*shape):
    return e4m3(random.standard_normal(shape))


def planted(name, what, others, lets):
    # Values of 1: the result is 1.
    q, k = normal(1, 1, 130, D), normal(1, 1, 2064, D)
    arrays = {"Q": q, "K": k, "V": np.ones((1, 1, D, 2064)), **others}
    off = np.abs(run(name, arrays, "O", [f"scale={1 / D ** 0.5!r}", *lets]) - 1).max()
    print(f"{what}: ones are off by {off:.5f}")
    if not off <= 2.0 ** -8:
        sys.exit(f"bytes.py: {what}: ones are off by {off}")
    # Query i has one key, and the values say which: the digits of its number to base 4. Keys that a
    # causal mask hides from it would be missed, so it is one of the first.
    keys, count = 272, 100
    k = np.where(random.random((1, 1, keys, D)) < 0.5, -2.0, 2.0)
    chosen = random.permutation(keys - count)[:count]
    v = np.array([[key // 4 ** (d % 5) % 4 - 1.5 for key in range(keys)] for d in range(D)])[None, None]
    got = run(name, {"Q": k[:, :, chosen], "K": k, "V": v, **others}, "O", ["scale=1", *lets])
    if not np.allclose(got[0, 0], v[0, 0].T[chosen], atol=0.01):
        sys.exit(f"bytes.py: {what}: a query does not find its key")


def refused():
    """Weights and the sums of their rows are raised alike, so nothing but a quotient may take them."""
    text = (PROGRAMS / "attention_sketch.tl").read_text()
    named = text.replace("Softmax S", "Softmax S with m and l").replace(
        "Output O f32 (b in batch, head in q_heads; q in q_len, dv)",
        "Output O f32 (b in batch, head in q_heads; q in q_len, dv)\nOutput x f32 (b in batch, head in q_heads; q in q_len)")
    ends = ["Copy l from register to global and get x", "Copy m from register to global and get x",
            "Compute Log l and get x\nCompute Add x, m and get x\nCopy x from register to global"]
    for end in ends:
        command = [FLASHTL, "reason", "-", "--gpu", "h200", "--head-dim", "128"]
        for pins, wanted in (([], 0), (["--let", "products=8"], 1)):
            done = subprocess.run(command + pins, input=named + end + "\n", capture_output=True, text=True)
            if done.returncode != wanted or (wanted and "products of 8 bits are not for this kernel" not in done.stderr):
                sys.exit(f"bytes.py: {end} {pins}: {done.returncode} {done.stderr}")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    refused()
    gemm("gemm", [])
    gemm("gemm_sketch", [])
    sketch("d 128", (2, 4, 2, 150, 400, 128))
    sketch("d 128 that climbs", (1, 2, 1, 150, 400, 128), climbs=True)
    sketch("d 128, a maximum that moves with every block", (1, 2, 2, 150, 400, 128), ["guard=0"])
    sketch("d 128, one place", (1, 2, 1, 130, 400, 128), ["casts=1", "BN=128", "eager=0"], climbs=True)
    sketch("linear weights", (1, 2, 2, 150, 400, 128), ["linear_weights=1"])
    sketch("d 64", (1, 2, 1, 200, 336, 64))
    sketch("d 80", (1, 2, 1, 70, 336, 80))
    attention("codes", "normal", normal(1, 2, 150, D), normal(1, 2, 400, D), normal(1, 2, D, 400))
    attention("codes", "values with a mean", normal(1, 1, 130, D), normal(1, 1, 1040, D),
              e4m3(random.standard_normal((1, 1, D, 1040)) + random.standard_normal((1, 1, D, 1))))
    rising = np.linspace(0.25, 3, 400)[None, None, :, None]
    attention("codes", "scores that climb", np.abs(normal(2, 1, 70, D)),
              e4m3(np.abs(normal(2, 1, 400, D)) * rising), normal(2, 1, D, 400))
    planted("codes", "codes", {}, [])
    for pins in ([], ["linear_weights=1"]):
        planted("attention_sketch", " ".join(pins) or "exact weights", {"k_scale": np.ones((1, 1))}, [f"d={D}", f"dv={D}"] + pins)
print("right")
