#!/usr/bin/env python3
"""Sketches of this folder against NumPy in float64: their TL Code on the interpreter, and with --emulator their kernels.
values.py FLASHTL [--emulator]; exit status 77 without NumPy."""
import math
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("values.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

flashtl, emulates = os.path.abspath(sys.argv[1]), "--emulator" in sys.argv
folder = pathlib.Path(__file__).resolve().parent
random = np.random.default_rng(3)
F32 = np.float32
GPUS = ["t4", "a100", "h200"]
LENGTHS = ("d", "dv", "e", "n_len")


def normal(*shape, scale=1.0, dtype=np.float16):
    return (random.standard_normal(shape) * scale).astype(dtype)


def table(*entries):
    return np.array(entries, np.int32)


def wide(x):
    return x.astype(np.float64)


def weights(scores, visible=True):
    """exp(scores - m), m and their sum."""
    scores = np.where(visible, scores, -np.inf)
    m = scores.max(-1, keepdims=True)
    m = np.where(np.isfinite(m), m, 0)
    p = np.exp(scores - m)
    return p, m, p.sum(-1, keepdims=True)


def attention(scores, values, visible=True):
    p, _, l = weights(scores, visible)
    return np.divide(p, l, where=l > 0, out=np.zeros_like(p)) @ values


def causal(q, kv):
    return np.arange(kv)[None] <= np.arange(q)[:, None] + kv - q


def gemm_transposed_left(a):
    return {"C": wide(a["A"]).T @ wide(a["B"])}


def q_norm(a):
    q = wide(a["Q"])
    q = q / np.sqrt((q * q).sum(-1, keepdims=True) + 1e-6)
    return {"O": attention(q @ wide(a["K"]).swapaxes(-1, -2) * 3, wide(a["V"]), causal(77, 131))}


def q_norm_in_place(a):
    return q_norm(a)


def changed_operand(a):
    return {"O": attention(3 * wide(a["Q"]) @ wide(a["K"]).swapaxes(-1, -2), wide(a["V"]))}


def centred_rows(a):
    return {"Y": (wide(a["X"]) - wide(a["centre"])[:, None]) * -0.3}


def row_min(a):
    scores = wide(a["size"]) - 2 * wide(a["Q"]) @ wide(a["K"]).T
    seen = np.arange(131)[None] <= np.arange(77)[:, None] + 40
    return {"near": np.where(seen, scores, np.inf).min(-1), "whole": wide(a["X"]).min(-1)}


def sines(a):
    return {"O": np.sin(wide(a["Q"]) @ wide(a["K"]).T * 30) @ wide(a["V"])}


def linear_weights(a):
    return {"O": attention(wide(a["Q"]) @ wide(a["K"]).T, wide(a["V"])) * (2 - 1 / 0.75)}


def bare_axis_then(a):
    return {"r": (2 * wide(a["Q"]) @ wide(a["W"]) * np.exp2(-0.125 * np.arange(24))).sum(-1)}


def whole_rows_then(a):
    t = wide(a["Q"]) @ wide(a["W"])
    return {"r": (2 * t / np.sqrt((t * t).sum(-1, keepdims=True) + 1)).sum(-1)}


def maximum_of_none(a):
    s = np.where(np.arange(131)[None] < np.arange(77)[:, None], wide(a["Q"]) @ wide(a["K"]).T * 1.5, -np.inf)
    return {"M": np.maximum(s.max(-1), -1e30)}


def two_statistics(a):
    return {"A": np.exp(wide(a["X"])).sum(-1), "Z": wide(a["X"]).sum(-1)}


def nested_loops(a):
    return {"O": np.einsum("qd,pkd,pke->qe", *(wide(a[n]) for n in "QKV"), optimize=True)}


def softmax_over_pages(a):
    s = np.einsum("qd,pkd->qpk", wide(a["Q"]), wide(a["K"]))
    p = np.exp(s - s.max(1, keepdims=True))
    return {"O": np.einsum("qpk,pke->qe", p / p.sum(1, keepdims=True), wide(a["V"]))}


def gemm_rmsnorm_two_passes(a):
    c = wide(a["A"]) @ wide(a["B"]) + wide(a["residual"])
    return {"Y": c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)}


def view_of_pinned(a):
    return {"O": 2 * wide(a["C"])}


def value_view(a):
    c = wide(a["C"])[:, None]
    return {"O": attention(wide(a["Q"]) @ c.swapaxes(-1, -2) * 0.25, c[..., :32], causal(77, 131))}


def stored_past_end(a):
    s = wide(a["Q"]) @ wide(a["K"]).T + wide(a["bias"]) - wide(a["lse"])[:, None]
    return {"R": np.exp(s).T @ wide(a["D"])}


def large_past_end(a):
    return {"O": attention(wide(a["Q"]) @ wide(a["K"]).T * 0.25, (wide(a["V"]) + 1) ** 2, causal(77, 131))}


def changed_left(a):
    return {"O": (wide(a["X"]) - 1) * 3.1 @ wide(a["W"]).T}


def given_maximum(a):
    p, m, l = weights(wide(a["Q"]) @ wide(a["K"]).swapaxes(-1, -2) * 0.25)
    before = wide(a["m_before"])[..., None]
    top = np.maximum(m, before)
    l = l * np.exp(m - top) + wide(a["l_before"])[..., None] * np.exp(before - top)
    return {"O": p * np.exp(m - top) / l @ wide(a["V"]), "m_after": top[..., 0], "l_after": l[..., 0]}


def used_queries(a):
    out = np.full((a["Q_all"].shape[0], 4, 64), np.nan)
    for b, used in enumerate(a["q_used"]):
        start, kv = a["q_start"][b], slice(a["kv_start"][b], a["kv_start"][b] + a["kv_used"][b])
        q_len, kv_len = min(used, a["q_start"][b + 1] - start), a["kv_used"][b]
        for head in range(4):
            k, v = wide(a["K_all"])[kv, head // 2], wide(a["V_all"])[kv, head // 2]
            visible = np.arange(kv_len)[None] <= np.arange(q_len)[:, None] + kv_len - q_len + 5
            q = wide(a["Q_all"])[start:start + q_len, head]
            out[start:start + q_len, head] = attention(q @ k.T * 0.25, v, visible)
    return {"O_all": out}


def moe_scatter(a):
    out = np.zeros((50, 67))
    rows = np.einsum("emk,enk->emn", wide(a["X"]), wide(a["W"])) * a["w"][..., None]
    np.add.at(out, a["tok"], rows)
    return {"Y": out}


def added_parts(a):
    return {"dX": wide(a["G"]) @ wide(a["W"]), "dW": wide(a["G"]).T @ wide(a["X"])}


def state_copied_first(a):
    q, k, v = (wide(a[n]) for n in "QKV")
    state, parts = np.zeros((k.shape[0], k.shape[2], v.shape[2])), []
    for begin in range(0, q.shape[1], 64):
        q_of, k_of, v_of = (x[:, begin:begin + 64] for x in (q, k, v))
        inside = np.tril(q_of @ k_of.swapaxes(1, 2))
        parts.append(q_of @ state + inside @ v_of)
        rest = np.exp(-0.125 * (63 - np.arange(k_of.shape[1])))[:, None]
        state = 0.5 * state + k_of.swapaxes(1, 2) @ (v_of * rest)
    return {"O": np.concatenate(parts, 1)}


def encoder_bias(a):
    return {"O": attention(wide(a["Q"]) @ wide(a["K"]).T + wide(a["bias"]), wide(a["V"]))}


def encoder_row_scale(a):
    return {"O": wide(a["Q"]) @ wide(a["K"]).T * wide(a["w"])[:, None] @ wide(a["V"])}


def loop_index_mask(a):
    return {"P": np.cumsum(wide(a["H"]), 0) - wide(a["H"])}


def talking_heads(a):
    scores = np.einsum("gqd,gkd->gqk", wide(a["Q"]), wide(a["K"]))
    return {"A": np.einsum("hg,gqk->hqk", wide(a["W"]), scores)}


def bare_axis_element(a):
    return {"Y": wide(a["Q"]) @ wide(a["W"]) - wide(a["w"])}


def bare_axis_select(a):
    return {"Y": wide(a["Q"]) @ wide(a["W"]) * np.where(np.arange(24) < 7, 1, 0.5)}


def gemm_rmsnorm_whole(a):
    c = wide(a["A"]) @ wide(a["B"]).T
    return {"C": c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5) * wide(a["gamma"])}


def index_y(a):
    return {"C": wide(a["A"]) @ wide(a["B"]).T}


def ring_step(a):
    visible = np.arange(131)[None] <= np.arange(77)[:, None] + a["start"][:, None, None]
    k, v = (np.repeat(wide(a[n]), 2, 1) for n in "KV")
    scores = np.einsum("bchqd,bhkd->bchqk", wide(a["Q"]), k) * 0.25
    p, m, l = weights(scores, visible[None, :, None])
    lse, old = (np.log(l) + m)[..., 0], wide(a["lse_old"])
    together = np.logaddexp(lse, old)
    out = np.einsum("bchqk,bhkd->bchqd", p / l, v) * np.exp(lse - together)[..., None]
    return {"O": out + wide(a["O_old"]) * np.exp(old - together)[..., None], "lse": together}


def block_sparse_where_equal(a):
    allowed = np.kron(a["allow"], np.ones((128, 128))) != 0
    scores = wide(a["Q"]) @ wide(a["K"]).swapaxes(-1, -2) * 0.25
    return {"O": attention(scores, wide(a["V"]), causal(256, 384) & allowed)}


heads = {"Q": normal(1, 2, 77, 64), "K": normal(1, 2, 131, 64), "V": normal(1, 2, 131, 64)}
def pages_past_the_end(a):
    """Attention to the keys that a table's pages hold, of each sequence's own length."""
    page_len, group = a["K_pool"].shape[2], a["Q"].shape[1] // a["K_pool"].shape[1]
    out = np.zeros(a["Q"].shape)
    for b, length in enumerate(a["kv_lens"]):
        k, v = (np.concatenate([a[x][page] for page in a["table"][b]], 1)[:, :length].repeat(group, 0).astype(np.float64) for x in ("K_pool", "V_pool"))
        s = a["Q"][b].astype(np.float64) @ k.transpose(0, 2, 1)
        w = np.exp(s - s.max(-1, keepdims=True))
        out[b] = w / w.sum(-1, keepdims=True) @ v
    return {"O": out}


def pages_clamped(a):
    return pages_past_the_end(a)


def whole_numbers(a):
    total = wide(a["X"]).sum(0)
    return {"Y": 2 * total - 1, "Z": np.rint(2.5 * total)}


def listed_blocks(a):
    """Blocks that are listed as full are seen as a whole, of the others the keys of the same document."""
    q, k, v = wide(a["Q"]), np.repeat(wide(a["K"]), 2, 1), np.repeat(wide(a["V"]), 2, 1)
    visible = np.zeros((*q.shape[:3], k.shape[2]), bool)
    same = a["document"][:, None] == a["document_kv"]
    for b, head, i in np.ndindex(a["listed"].shape):
        for n in range(a["listed"][b, head, i]):
            at, rows = a["block"][b, head, i, n], slice(64 * i, 64 * i + 64)
            keys = slice(32 * at, 32 * at + 32)
            visible[b, head, rows, keys] = n < a["full"][b, head, i] or same[rows, keys]
    return {"O": attention(0.25 * q @ k.swapaxes(2, 3), v, visible)}


def lists():
    """Of 2 batches, 4 heads and 3 blocks of queries: from none of 5 blocks of keys to all, the last of them, which is short, never full."""
    order = np.array([random.permutation(5) for _ in range(24)]).reshape(2, 4, 3, 5)
    listed = random.integers(0, 6, (2, 4, 3))
    listed[0, 0] = 5, 0, 1
    kinds = np.take_along_axis((random.random((2, 4, 3, 5)) < 0.5) & (np.arange(5) < 4), order, 3) & (np.arange(5) < listed[..., None])
    unseen = np.arange(5) >= listed[..., None]
    block = np.take_along_axis(order, np.argsort(np.where(kinds, 0, np.where(unseen, 2, 1)), 3, kind="stable"), 3)
    return {name: x.astype(np.int32) for name, x in (("listed", listed), ("full", kinds.sum(3)), ("block", block))}


CASES = [
    (gemm_transposed_left, {"A": normal(203, 101), "B": normal(203, 67, scale=0.07)}, {}),
    (q_norm, heads, {"scale": 3, "d": 64, "dv": 64}),
    (changed_operand, {"Q": normal(2, 70, 64, scale=0.2), "K": normal(2, 130, 64), "V": normal(2, 130, 64)}, {"d": 64, "dv": 64}),
    (q_norm_in_place, heads, {"scale": 3, "d": 64, "dv": 64}),
    (centred_rows, {"X": 4096 + normal(77, 301, scale=0.001, dtype=F32), "centre": np.full(77, 4096, F32)}, {"scale": -0.3}),
    (maximum_of_none, {"Q": normal(77, 64), "K": normal(131, 64)}, {"d": 64}),
    (two_statistics, {"X": normal(77, 300)}, {}),
    (nested_loops, {"Q": normal(33, 64), "K": normal(3, 150, 64, scale=0.1), "V": normal(3, 150, 64)}, {"d": 64, "dv": 64}),
    (softmax_over_pages, {"Q": normal(33, 64), "K": normal(3, 64, 64, scale=0.2), "V": normal(3, 64, 64)},
     {"d": 64, "dv": 64}),
    (gemm_rmsnorm_two_passes, {"A": normal(45, 101), "B": normal(101, 300, scale=0.1), "residual": normal(45, 300)},
     {"eps": 1e-5}),
    (whole_numbers, {"X": random.integers(-3, 4, (37, 5, 128)).astype(F32)}, {"d": 128}),
    (view_of_pinned, {"C": normal(2, 77, 8)}, {"d": 8}),
    (value_view, {"Q": normal(2, 2, 77, 64), "C": normal(2, 131, 64)}, {"scale": 0.25, "d": 64, "dv": 32}),
    (used_queries, {"Q_all": normal(200, 4, 64), "K_all": normal(400, 2, 64), "V_all": normal(400, 2, 64),
                    "q_start": table(0, 70, 70, 200), "q_used": table(70, 9, 211), "kv_start": table(0, 200, 250, 400),
                    "kv_used": table(131, 20, 150)}, {"scale": 0.25, "right": 5, "d": 64, "dv": 64}),
    (row_min, {"Q": normal(77, 64), "K": normal(131, 64), "X": normal(77, 64, dtype=F32), "size": normal(131, scale=9, dtype=F32)}, {"d": 64}),
    (sines, {"Q": normal(77, 64), "K": normal(131, 64, scale=0.2), "V": normal(131, 64)}, {"speed": 30, "d": 64, "dv": 64}),
    (linear_weights, {"Q": normal(77, 64), "K": normal(131, 64, scale=0.2), "V": normal(131, 64)}, {"keep": 0.75, "d": 64, "dv": 64}),
    (stored_past_end, {"Q": normal(77, 64), "K": normal(131, 64, scale=0.1), "bias": normal(131, dtype=F32),
                       "lse": normal(77, dtype=F32), "D": normal(77, 64)}, {"d": 64, "dv": 64}),
    (large_past_end, {"Q": normal(77, 64), "K": normal(131, 64), "V": normal(131, 64)}, {"scale": 0.25, "d": 64, "dv": 64}),
    (changed_left, {"X": 1 + normal(77, 64, scale=0.02), "W": normal(131, 64)}, {"d": 64}),
    (bare_axis_then, {"Q": normal(77, 40), "W": 0.2 + normal(40, 24, scale=0.1)}, {"d": 40, "e": 24}),
    (whole_rows_then, {"Q": normal(77, 40), "W": 0.2 + normal(40, 200, scale=0.1)}, {"d": 40, "e": 200}),
    (encoder_bias, {"Q": normal(150, 64), "K": normal(150, 64, scale=0.2), "V": normal(150, 64),
                    "bias": normal(150, 150, dtype=F32)}, {"d": 64, "dv": 64}),
    (encoder_row_scale, {"Q": normal(150, 64), "K": normal(150, 64), "V": normal(150, 64), "w": normal(150, dtype=F32)},
     {"d": 64, "dv": 64}),
    (loop_index_mask, {"H": normal(4, 33, 70, dtype=F32)}, {}),
    (talking_heads, {"Q": normal(3, 33, 64), "K": normal(3, 67, 64), "W": normal(3, 3, dtype=F32)}, {"d": 64}),
    (bare_axis_element, {"Q": normal(70, 40), "W": normal(40, 24), "w": normal(24, dtype=F32)}, {"d": 40, "e": 24}),
    (bare_axis_select, {"Q": normal(70, 40), "W": normal(40, 24)}, {"d": 40, "e": 24}),
    (gemm_rmsnorm_whole, {"A": normal(101, 203), "B": normal(128, 203, scale=0.07), "gamma": normal(128)},
     {"eps": 1e-5, "n_len": 128}),
    (index_y, {"A": normal(70, 130), "B": normal(67, 130, scale=0.1)}, {}),
    (ring_step, {"Q": normal(2, 2, 4, 77, 64), "K": normal(2, 2, 131, 64), "V": normal(2, 2, 131, 64), "start": table(131, 40),
                 "O_old": normal(2, 2, 4, 77, 64, dtype=F32), "lse_old": normal(2, 2, 4, 77, dtype=F32)},
     {"scale": 0.25, "d": 64, "dv": 64}),
    (block_sparse_where_equal, {"Q": normal(2, 2, 256, 64), "K": normal(2, 2, 384, 64), "V": normal(2, 2, 384, 64),
                                "allow": table((1, 0, 1), (0, 1, 1))}, {"scale": 0.25, "d": 64}),
    *((paged, {"Q": normal(2, 4, 90, 64), "K_pool": normal(12, 2, 16, 64), "V_pool": normal(12, 2, 16, 64),
               "table": np.arange(12, dtype=np.int32)[::-1].reshape(2, 6).copy(), "kv_lens": np.array([85, 33], np.int32)}, {"d": 64, "dv": 64})
      for paged in (pages_past_the_end, pages_clamped)),
    (listed_blocks, {"Q": normal(2, 4, 150, 64), "K": normal(2, 2, 141, 64), "V": normal(2, 2, 141, 64), **lists(),
                     "tile_rows": table(64, 64, 22), "document": random.integers(0, 2, 150).astype(np.int32),
                     "document_kv": random.integers(0, 2, 141).astype(np.int32)}, {"scale": 0.25, "d": 64, "dv": 64}),
    (moe_scatter, {"X": normal(3, 33, 200), "W": normal(3, 67, 200, scale=0.07), "w": normal(3, 33, dtype=F32),
                   "tok": random.integers(0, 50, (3, 33)).astype(np.int32)}, {"tokens": 50}),
    (added_parts, {"G": normal(150, 64), "X": normal(150, 64), "W": normal(64, 64)}, {}),
    (state_copied_first, {n: normal(2, 150, 64, scale=0.3) for n in "QKV"}, {"d": 64, "dv": 64}),
    (given_maximum, {**heads, "m_before": normal(1, 2, 77, dtype=F32),
                     "l_before": 1 + abs(normal(1, 2, 77, dtype=F32))}, {"scale": 0.25, "d": 64, "dv": 64}),
]


def call(*arguments):
    done = subprocess.run([flashtl, *map(str, arguments)], capture_output=True, text=True, timeout=1800)
    if done.returncode:
        raise SystemExit(f"flashtl {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}-> {done.returncode}")


def errors(name, gpu, arrays, values, wanted):
    files = [part for n in arrays for part in ("--in", f"{n}={n}.npy")]
    files += [part for n in wanted for part in ("--out", f"{n}=to_{n}.npy")]
    lets = [part for n, value in values.items() for part in ("--let", f"{n}={value}")]
    lengths = [part for n, value in values.items() if n in LENGTHS for part in ("--let", f"{n}={value}")]
    path = folder / f"{name}.tl"
    if emulates:
        call("run", path, "--gpu", gpu, "--on", "emulator", *lets, *files)
    else:
        call("reason", path, "--gpu", gpu, *lengths, "-o", "code.tl")
        scalars = [part for n, value in values.items() if n not in LENGTHS for part in ("--let", f"{n}={value}")]
        call("run", "code.tl", "--gpu", gpu, "--on", "interpreter", *scalars, *files)
    for n, want in wanted.items():
        got = np.load(f"to_{n}.npy").astype(np.float64)
        there = ~np.isnan(want)
        is_alike = got.shape == want.shape and np.array_equal(there, ~np.isnan(got))
        yield np.linalg.norm((got - want)[there]) / np.linalg.norm(want[there]) if is_alike else math.inf


def main():
    wrong = 0
    for path in sorted(folder.glob("*.tl")):
        if path.read_text().startswith("// builds") and path.stem not in {case[0].__name__ for case in CASES}:
            wrong += 1
            print(f"WRONG {path.stem}: it builds, and nothing here says what it should give")
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        for (reference, arrays, values), gpu in sampled((case, gpu) for case in CASES for gpu in GPUS):
            for n, array in arrays.items():
                np.save(f"{n}.npy", array)
            error = max(errors(reference.__name__, gpu, arrays, values, reference(arrays)))
            good = error <= 2e-3
            wrong += not good
            print(f"{'good' if good else 'WRONG'} {reference.__name__} {gpu}: error {error:.1e}")
    sys.exit(1 if wrong else 0)


main()
