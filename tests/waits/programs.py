#!/usr/bin/env python3
"""Programs whose bounds depend on several lengths, on tables and on constants, on the emulator, against NumPy.

programs.py FLASHTL FOLDER [NAME...] [--gpus a100,...]; exit status 77 without NumPy or a CUDA compiler.

Their lengths make every loop run several times, whole and ragged. The emulator reports a read of what has not landed."""
import argparse
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("programs.py: NumPy is not here")
    sys.exit(77)

random = np.random.default_rng(11)
TOLERANCE = 2e-3


def normal(*shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype(np.float16)


def table(*values):
    return np.array(values, np.int32)


def exact(a):
    return a.astype(np.float64)


def turned(a):
    return a.swapaxes(-1, -2)


def places(length):
    return np.arange(length)


def softmax(scores, hidden):
    scores = np.where(hidden, -np.inf, scores)
    most = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isfinite(most), most, 0))
    total = weights.sum(-1, keepdims=True)
    return np.where(total > 0, weights / np.where(total > 0, total, 1), 0)


def prefix_then_causal():
    q, n, d = 300, 333, 64
    a = {"Q": normal(1, q, d), "A": normal(1, n, d, scale=.3), "C": normal(1, n, d), "K": normal(1, q, d, scale=.3),
         "V": normal(1, q, d)}
    later = places(q)[None] > places(q)[:, None]
    prefix = softmax(exact(a["Q"]) @ turned(exact(a["A"])), False) @ exact(a["C"])
    return a, [], {"O": prefix + softmax(exact(a["Q"]) @ turned(exact(a["K"])), later) @ exact(a["V"])}


def several_loops(loops, factor):
    a, out = {"Q": normal(400, 64)}, 0
    for i in range(loops):
        a[f"K{i}"], a[f"V{i}"] = normal(400 + 13 * i, 64), normal(400 + 13 * i, 64)
        out = out + exact(a["Q"]) @ turned(exact(a[f"K{i}"])) * factor @ exact(a[f"V{i}"])
    return a, [], {"O": out}


def three_loops():
    return several_loops(3, 0.125)


def bounded(lower, upper, cut, **tables):
    q, kv = 400, 517
    a = {"Q": normal(3, q, 64), "K": normal(3, kv, 64), "V": normal(3, kv, 64), "cut": cut, **tables}
    key, last = places(kv)[None, None], (places(q)[:, None] + kv - q)[None]
    hidden = (key > last) & (key >= cut[:, None, None])
    hidden |= (key < lower[:, None, None]) | (key >= upper[:, None, None])
    scores = exact(a["Q"]) @ turned(exact(a["K"])) * 0.125
    return a, [], {"O": softmax(scores, hidden) @ exact(a["V"])}


def table_bounds():
    lo, hi = table(0, 70, 300), table(517, 450, 320)
    return bounded(lo, hi, table(500, 30, 200), lo=lo, hi=hi)


def table_arithmetic():
    lo, hi, part, cut = table(0, 70, 300), table(517, 450, 320), table(3, 1, 2), table(500, 30, 200)
    lower, upper = np.maximum(lo, hi // part - 20), np.minimum(hi + 128, np.maximum(cut, lo) - 7)
    a, options, outputs = bounded(lower, upper, cut, lo=lo, hi=hi, part=part)
    return a, ["window=20", *options], outputs


def padded_cache_chunks():
    used, pad, q, chunk, d = table(290, 300), table(0, 37), 64, 80, 128
    a = {"Q": normal(2, 2, q, d), "K_all": normal(2, 310, 1, d, scale=.3), "V_all": normal(2, 310, 1, d),
         "kv_used": used, "pad": pad}
    out = np.zeros((2, 2, q, d))
    for b in range(2):
        kv = int(used[b] - pad[b])
        k, v = (exact(a[name][b, pad[b]:used[b], 0]) for name in ("K_all", "V_all"))
        key, last = places(kv)[None], places(q)[:, None] + kv - q
        hidden = (key > last) | (key // chunk != last // chunk)
        out[b] = softmax(exact(a["Q"][b]) @ k.T * 0.25, hidden) @ v
    return a, ["scale=0.25", "right=0", f"chunk={chunk}"], {"O": out}


def decode_split():
    lens, q, heads, kv_heads, page, d = table(300, 1), 3, 4, 2, 24, 128
    count = 26
    a = {"Q_all": normal(2, q, heads, d, scale=.3), "K_pool": normal(count, page, kv_heads, d),
         "V_pool": normal(count, page, kv_heads, d), "kv_lens": lens,
         "table": random.permutation(count).reshape(2, count // 2).astype(np.int32)}
    out = np.zeros((2, q, heads, d))
    for b, head in np.ndindex(2, heads):
        at = places(lens[b])
        k, v = (exact(a[name][a["table"][b, at // page], at % page, head // (heads // kv_heads)])
                for name in ("K_pool", "V_pool"))
        hidden = at[None] > places(q)[:, None] + lens[b] - q
        out[b, :, head] = softmax(exact(a["Q_all"][b, :, head]) @ k.T * 0.25, hidden) @ v
    return a, ["scale=0.25", "splits=2"], {"O": out}


def late_window():
    rows, win, win1, lens = 333, 3, -5, table(150, 130, 97)
    a = {"Q": normal(3, rows, 128, scale=.2), "K": normal(3, 300, 128, scale=.2), "V": normal(3, 300, 128, scale=.2),
         "B": normal(3, 96, 128, scale=.2), "Keys": normal(3, 150, 128, scale=.2), "lens": lens}
    sums = np.zeros((3, rows))
    for b in range(3):
        row, col = places(rows)[:, None], places(lens[b])[None]
        hidden = (col <= row + lens[b] - rows - 58) & ~(col >= row + win) | (col >= row + win1)
        scores = exact(a["Q"][b]) @ exact(a["Keys"][b, :lens[b]]).T
        sums[b] = np.where(hidden, 0, scores).sum(-1)
    return a, [f"win={win}", f"win1={win1}"], {"R": sums, "Z0": exact(a["Q"]) @ turned(exact(a["B"]))}


CASES = {
    prefix_then_causal: ["d=64", "dv=64"],
    three_loops: ["d=64", "e=64"],
    table_bounds: ["d=64", "e=64"],
    table_arithmetic: ["d=64", "e=64"],
    padded_cache_chunks: ["d=128", "dv=128"],
    decode_split: ["d=128", "dv=128"],
    late_window: ["e=128", "f=128"],
}
GPUS = {late_window: "t4"}  # else those of --gpus


def run(flashtl, path, gpu, case):
    arrays, options, expected = case()
    with tempfile.TemporaryDirectory() as work:
        command = [flashtl, "run", str(path), "--gpu", gpu, "--on", "emulator", "--dtype", "f16"]
        for name, array in arrays.items():
            np.save(f"{work}/{name}.npy", array)
            command += ["--in", f"{name}={work}/{name}.npy"]
        for option in CASES[case] + options:
            command += ["--let", option]
        for name in expected:
            command += ["--out", f"{name}={work}/out_{name}.npy"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if done.returncode == 3:
            print("programs.py:", done.stderr.strip().splitlines()[-1])
            sys.exit(77)
        if done.returncode:
            return False, "status %d: %s" % (done.returncode, (done.stderr.strip() or "?").splitlines()[0])
        worst = max(np.linalg.norm(exact(np.load(f"{work}/out_{name}.npy")) - value) / np.linalg.norm(value)
                    for name, value in expected.items())
        return worst <= TOLERANCE, f"relative rms {worst:.1e}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("flashtl")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--gpus", default="a100")
    options = parser.parse_args()
    failures = 0
    for case in CASES:
        if options.names and case.__name__ not in options.names:
            continue
        for gpu in GPUS.get(case, options.gpus).split(","):
            good, what = run(options.flashtl, options.folder / f"{case.__name__}.tl", gpu, case)
            failures += not good
            print("right" if good else "WRONG", case.__name__, gpu, what, flush=True)
    sys.exit(failures > 0)


main()
