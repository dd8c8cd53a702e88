#!/usr/bin/env python3
"""The sketches of examples/: their meaning against NumPy, and that each becomes CUDA for every generation.
example_programs.py FLASHTL EXAMPLES; exit status 77 without NumPy."""
import math
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("example_programs.py: NumPy is not here")
    sys.exit(77)

flashtl, examples = os.path.abspath(sys.argv[1]), pathlib.Path(sys.argv[2]).resolve()
random = np.random.default_rng(1)
B, H, KV_HEADS, Q, KV, D = 2, 4, 2, 19, 130, 32
SCALE = 0.25
GPUS = ("t4", "a100", "l40s", "h200")
place, key = np.arange(Q)[:, None] + KV - Q, np.arange(KV)[None, :]


def normal(*shape, dtype=np.float16):
    return random.standard_normal(shape).astype(dtype)


def wide(x):
    return x.astype(np.float64)


def scores(q, k):
    return np.einsum("bhqd,bhkd->bhqk", wide(q), np.repeat(wide(k), q.shape[1] // k.shape[1], axis=1))


def weighted(p, v):
    return p @ np.repeat(wide(v), p.shape[1] // v.shape[1], axis=1)


def softmax(s, one_more=0):
    e = np.exp(s - s.max(-1, keepdims=True).clip(0))
    return e / (e.sum(-1, keepdims=True) + one_more * np.exp(-s.max(-1, keepdims=True).clip(0)))


def attention(a, seen=None, bias=0, one_more=0):
    s = scores(a["Q"], a["K"]) * SCALE + bias
    s = np.where(key <= place if seen is None else seen, s, -np.inf)
    return weighted(softmax(s, one_more), a["V"])


def silu(x):
    return x / (1 + np.exp(-x))


def window_sinks(a):
    return attention(a, (key <= place) & ((key > place - 100) | (key < 4)))


def distance_bias(a):
    far = a["bias"].shape[1] - 1
    return attention(a, bias=wide(a["bias"])[:, np.minimum(far, abs(place - key))])


def block_causal(a):
    return attention(a, key // 32 <= place // 32)


def tree_mask(a):
    marks = np.concatenate([np.ones((B, Q, KV - Q)), a["tree"]], axis=2)
    return attention(a, marks[:, None] != 0)


def softmax_off_by_one(a):
    return attention(a, one_more=1)


def retention(a):
    decay = np.exp(-abs(wide(a["rate"]))[:, None, None] * (place - key))
    return weighted(np.where(key <= place, scores(a["Q"], a["K"]) * decay, 0), a["V"])


def gated_linear(a):
    decay = np.exp(np.minimum(0, wide(a["gate_q"])[..., None] - wide(a["gate_k"])[:, :, None]))
    return weighted(np.where(key <= place, scores(a["Q"], a["K"]) * decay, 0), a["V"])


def dual_chunk(a):
    same = key // 64 == place // 64
    s = np.where(same, scores(a["Q"], a["K"]), scores(a["Q_far"], a["K"])) * SCALE
    return weighted(softmax(np.where(key <= place, s, -np.inf)), a["V"])


def received(a):
    s = scores(a["Q"], a["K"]) * SCALE - wide(a["lse"])[..., None]
    return np.where(key <= place, np.exp(s), 0).sum(2)


def pair_bias(a):
    s = scores(a["Q"], a["K"]) * SCALE + wide(a["pair"]) + wide(a["padding"])[:, None, None]
    return weighted(softmax(s), a["V"]) / (1 + np.exp(-wide(a["gate"])))


def query_gradient(a):
    p = np.where(key <= place, np.exp(scores(a["Q"], a["K"]) * SCALE - wide(a["lse"])[..., None]), 0)
    return SCALE * (p * (scores(a["dO"], a["V"]) - wide(a["delta"])[..., None])) @ wide(a["K"])


def key_gradient(a):
    p = np.where(key <= place, np.exp(scores(a["Q"], a["K"]) * SCALE - wide(a["lse"])[..., None]), 0)
    s = SCALE * p * (scores(a["dO"], a["V"]) - wide(a["delta"])[..., None])
    return s.swapaxes(2, 3) @ wide(a["Q"]), p.swapaxes(2, 3) @ wide(a["dO"])


def chunked_retention(a):
    past = np.arange(KV)[:, None] - np.arange(KV)
    decay = np.exp(-abs(wide(a["rate"]))[:, None, None] * past)
    return weighted(np.where(past >= 0, scores(a["Q"], a["K"]) * decay, 0), a["V"])


def falling(sums):
    """What is left at each place of what came at another one before it."""
    past = np.arange(sums.shape[-1])[:, None] >= np.arange(sums.shape[-1])
    return np.where(past, np.exp(np.minimum(0, wide(sums)[..., None] - wide(sums)[:, :, None])), 0)


def mamba2(a):
    return np.repeat(scores(a["C"], a["B"]), H // KV_HEADS, axis=1) * falling(a["a"]) @ wide(a["X"])


def state_space(a):
    left, before = np.exp(wide(a["a"]))[..., None], wide(a["before"])
    rest = np.exp(wide(a["a"])[..., -1:] - wide(a["a"]))[..., None]
    out = weighted(scores(a["Q"], a["K"]) * falling(a["a"]), a["V"]) + wide(a["Q"]) @ before * left
    return out, before * left[:, :, -1:] + wide(a["K"]).swapaxes(2, 3) @ (wide(a["V"]) * rest)


def segments(a):
    return weighted(scores(a["Q_all"], a["K_all"]) * falling(a["a"]), a["V_all"])


def rotary(a):
    half, keys, c, s = a["K"].shape[-1] // 2, wide(a["K"]), wide(a["cosine"]), wide(a["sine"])
    first, second = keys[..., :half], keys[..., half:]
    rotated = np.concatenate([first * c - second * s, second * c + first * s], -1)
    return attention({**a, "K": rotated})


def rmsnorm_gemm_silu(a):
    x = wide(a["X"])
    return silu(x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) @ wide(a["W"]).T)


def layernorm(a):
    x = wide(a["X"])
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + EPS)
    return x * wide(a["gamma"]) + wide(a["beta"])


def residual_gemm(a):
    return a["R"] + ALPHA * (wide(a["A"]) @ wide(a["B"]).T)


def swiglu(a):
    return silu(wide(a["X"]) @ wide(a["G"]).T) * (wide(a["X"]) @ wide(a["U"]).T)


def maxsim(a):
    return np.einsum("bqd,btd->bqt", wide(a["Q"]), wide(a["D"])).max(-1)


def four_bit_weights(a):
    groups = np.arange(a["W"].shape[1]) // 128
    weights = a["scale_of"][:, groups].astype(np.float64) * (wide(a["W"]) - wide(a["zero_of"])[:, groups])
    return wide(a["A"]) @ weights.T


def gated_memory(a):
    gate, memory = wide(a["gate"])[:, None, None], {"Q": a["Q"], "K": a["K_memory"], "V": a["V_memory"]}
    return (1 - gate) * attention(a) + gate * attention(memory, True)


def chosen_blocks(a):
    blocks = a["chosen"][..., None, None]
    k, v = (np.take_along_axis(a[name], blocks, 2).reshape(B, KV_HEADS, -1, D) for name in ("K_all", "V_all"))
    return attention({"Q": a["Q"], "K": k, "V": v}, True)


EPS, ALPHA, F32 = 1e-5, 0.5, np.float32
qkv = {"Q": normal(B, H, Q, D), "K": normal(B, KV_HEADS, KV, D), "V": normal(B, KV_HEADS, KV, D)}
equal = {"Q": normal(B, H, Q, D), "K": normal(B, H, KV, D), "V": normal(B, H, KV, D)}
gates = -abs(normal(B, H, KV, dtype=F32)).cumsum(-1)
far = {f"{name}_all": normal(1, 2, 1100, 16) for name in "QKV"}  # more than a segment
matrix = {"X": normal(67, 48), "W": normal(40, 48), "G": normal(40, 48), "U": normal(40, 48)}
angles = random.random((KV, 32)).astype(F32) * 7
pairs = {"Q": normal(B, H, Q, 64), "K": normal(B, H, KV, 64), "V": normal(B, H, KV, D), "cosine": np.cos(angles), "sine": np.sin(angles)}
scale, eps, d = {"scale": SCALE}, {"eps": EPS}, ["--head-dim", str(D)]
CASES = [
    (window_sinks, "O", qkv, scale, d),
    (distance_bias, "O", {**qkv, "bias": normal(H, 24, dtype=F32)}, scale, d),
    (block_causal, "O", qkv, scale, d),
    (tree_mask, "O", {**qkv, "tree": random.integers(0, 2, (B, Q, Q)).astype(np.int32)}, scale, d),
    (softmax_off_by_one, "O", qkv, scale, d),
    (retention, "O", {**qkv, "rate": normal(H, dtype=F32) / 8}, {}, d),
    (gated_linear, "O", {**equal, "gate_q": gates[..., KV - Q:], "gate_k": gates}, {}, d),
    (dual_chunk, "O", {**equal, "Q_far": normal(B, H, Q, D)}, scale, d),
    (received, "R", {"Q": equal["Q"], "K": equal["K"], "lse": 5 + abs(normal(B, H, Q, dtype=F32))}, scale, d),
    (pair_bias, "O", {**equal, "pair": normal(H, Q, KV, dtype=F32), "padding": -9 * abs(normal(B, KV, dtype=F32)),
                      "gate": normal(B, H, Q, D)}, scale, d),
    (query_gradient, "dQ", {**equal, "dO": normal(B, H, Q, D), "lse": 5 + abs(normal(B, H, Q, dtype=F32)),
                            "delta": normal(B, H, Q, dtype=F32)}, scale, d),
    (key_gradient, "dK,dV", {**equal, "dO": normal(B, H, Q, D), "lse": 5 + abs(normal(B, H, Q, dtype=F32)),
                             "delta": normal(B, H, Q, dtype=F32)}, scale, d),
    (chunked_retention, "O", {**equal, "Q": normal(B, H, KV, D), "rate": normal(H, dtype=F32) / 8}, {}, ["--head-dim", "64"]),
    (mamba2, "Y", {"C": normal(B, KV_HEADS, KV, D), "B": normal(B, KV_HEADS, KV, D), "X": normal(B, H, KV, D), "a": gates}, {},
     ["--head-dim", "64"]),
    (state_space, "O,after", {**equal, "Q": normal(B, H, KV, D), "a": gates / 8, "before": normal(B, H, D, D, dtype=F32)}, {},
     ["--head-dim", "128"]),
    (segments, "O_all", {**far, "a": -abs(normal(1, 2, 1100, dtype=F32) / 64).cumsum(-1)}, {}, ["--head-dim", "128"]),
    (rotary, "O", pairs, scale, ["--let", "dv=64"]),
    (gated_memory, "O", {**equal, "K_memory": normal(B, H, 77, D), "V_memory": normal(B, H, 77, D),
                         "gate": random.random(H).astype(F32)}, scale, d),
    (chosen_blocks, "O", {"Q": normal(B, KV_HEADS, 7, D), "K_all": normal(B, KV_HEADS, 4, 64, D),
                          "V_all": normal(B, KV_HEADS, 4, 64, D),
                          "chosen": np.array([[[3, 0], [1, 2]], [[2, 2], [0, 3]]], np.int32)}, scale, d),
    (rmsnorm_gemm_silu, "C", {n: matrix[n] for n in "XW"}, eps, []),
    (layernorm, "Y", {"X": matrix["X"], "gamma": normal(48), "beta": normal(48)}, eps, []),
    (residual_gemm, "C", {"A": normal(67, 48), "B": normal(40, 48), "R": normal(67, 40, dtype=F32)}, {"alpha": ALPHA}, []),
    (swiglu, "C", {n: matrix[n] for n in "XGU"}, {}, []),
    (maxsim, "M", {"Q": normal(B, Q, D), "D": normal(B, 77, D)}, {}, d),
    (four_bit_weights, "C", {"A": normal(67, 320), "W": random.integers(0, 16, (40, 320)).astype(np.uint8),
                             "scale_of": random.random((40, 3)).astype(F32), "zero_of": random.integers(0, 16, (40, 3)).astype(np.uint8)}, {}, []),
]


def call(*arguments, text=None):
    done = subprocess.run([flashtl, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise SystemExit(f"flashtl {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}-> {done.returncode}")
    return done.stdout


def error_of(reference, outputs, arrays, values):
    inputs = [f"{name}={name}.npy" for name in arrays]
    for name, array in arrays.items():
        np.save(f"{name}.npy", array)
    lets = [part for name, value in values.items() for part in ("--let", f"{name}={value}")]
    names = outputs.split(",")
    call("run", examples / f"{reference.__name__}.tl", "--on", "interpreter", "--in", ",".join(inputs), *lets, "--out",
         ",".join(f"{name}={name}.npy" for name in names))
    wanted, worst = reference(arrays), 0
    for name, want in zip(names, wanted if len(names) > 1 else [wanted]):
        got = np.load(f"{name}.npy").astype(np.float64)
        worst = max(worst, np.linalg.norm(got - want) / np.linalg.norm(want) if got.shape == want.shape else math.inf)
    return worst


def main():
    tested, there = {case[0].__name__ for case in CASES}, {path.stem for path in examples.glob("*.tl")}
    if tested != there:
        sys.exit(f"examples without a case, or cases without an example: {sorted(tested ^ there)}")
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for reference, outputs, arrays, values, lengths in CASES:
            name = reference.__name__
            error = error_of(reference, outputs, arrays, values)
            good = error <= 1e-3
            wrong += not good
            print(f"{'good' if good else 'WRONG'} {name}: error {error:.1e}")
            path = examples / f"{name}.tl"
            if call("fmt", path) != path.read_text():
                sys.exit(f"{path} is not as 'flashtl fmt' prints it")
            for gpu in GPUS:
                for pins in [lengths, *((["--head-dim", "80"], ["--head-dim", "96"]) if lengths is d else ())]:
                    call("translate", text=call("reason", path, "--gpu", gpu, *pins))
    sys.exit(1 if wrong else 0)


main()
