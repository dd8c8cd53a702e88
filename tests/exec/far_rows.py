#!/usr/bin/env python3
"""Rows of which all scores, or some, lie far out, in the interpreter with a GPU's rounding and on the emulator.

A number like -1e9 that is added for keys that do not count leaves a row without others there. f32 has no differences
of such scores left, so its weights are equal; they must not be NaN or 0. Scores below -1e30 are no scores, so a row of
these is 0, as one of -inf is. Here rows have a level for each group of keys: all far, far in the blocks that come first,
in those that come later, in single keys. The levels come as a tile and as an element of a tensor, or are a number of the text;
or they are all there is, as scores that memory has.

far_rows.py FLASHTL; exit status 77 without NumPy or a CUDA compiler."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("far_rows.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from rows import bfloat, loaded, stored, worst_logarithm, worst_row  # noqa: E402
from sampling import sampled  # noqa: E402

FLASHTL = str(pathlib.Path(sys.argv[1]).resolve())
GROUPS, KEYS, ROWS = 4, 160, 192  # groups of keys, one level each; keys of a group; rows of a head
LIMIT = {"bf16": 0.006, "f16": 0.0015, "e4m3": 0.1}  # relative rms of a row
LOGARITHM = 1e-5  # of a log-sum-exp, relative where that is above 1
MASKED = float(np.float32(-1e30))  # scores below count for nothing
SKETCH = """kernel far_rows
Input  Q {type} (head in heads; q in q_len, d)
Input  K {type} (head in heads; kv in kv_len, d)
Input  V {type} (head in heads; {values})
Input  level {level} (head in heads; q in q_len, kv in kv_len)
Input  scale f32 where scale > 0
Output O {result} (head in heads; q in q_len, dv)
{lse_output}
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, scale and get S
    {add}
    Compute Softmax S with m and l
    Copy V from global to shared
    Compute GEMM S, {right} and accumulate O
end
Copy O from register to global
{lse}
"""
ALONE = """kernel far_scores
Input  X {type} (row in rows, column in columns)
Output Y f32 (row in rows, column in columns)
for j = 0:columns/BN
    Copy X from global to register
    Compute Softmax X
    Copy X from register to global and get Y
end
"""
TILE = "Copy level from global to register\n    Compute Add S, level and get S"
ELEMENT = "Compute Add S, level[head, q, kv] and get S"
FILLED = "Compute Mask S, -1e9 where level[head, q, kv] < -1"  # a number of the text; the level says where
LSE = "Compute Log l and get lse\nCompute Add lse, m and get lse\nCopy lse from register to global"
# GPU, type of the operands, of the levels, d, how these come, and what else: a log-sum-exp is given out, or V lies turned
KERNELS = [("h200", "f16", "f32", 64, TILE, ""), ("h200", "bf16", "f32", 64, TILE, ""),
           ("h200", "bf16", "f32", 128, ELEMENT, ""), ("h200", "f16", "bf16", 128, TILE, "lse"),
           ("h200", "bf16", "f32", 64, TILE, "lse"), ("h200", "f16", "f32", 64, FILLED, ""),
           ("h200", "e4m3", "f32", 64, TILE, ""), ("a100", "bf16", "f32", 64, TILE, ""),
           ("a100", "f16", "bf16", 128, ELEMENT, "lse"), ("a100", "f16", "f32", 64, FILLED, ""),
           ("l40s", "f16", "f32", 64, ELEMENT, ""), ("l40s", "bf16", "bf16", 128, TILE, ""),
           ("h200", "e4m3", "f32", 64, ELEMENT, "turned"), ("l40s", "e4m3", "f32", 64, TILE, ""), ("t4", "f16", "f32", 64, TILE, ""),
           ("t4", "f16", "f32", 128, ELEMENT, "lse")]
SCORES = [("h200", "f32"), ("h200", "bf16"), ("a100", "f32"), ("l40s", "bf16"), ("t4", "f32")]  # of memory, nothing added
random = np.random.default_rng(5)


def level_rows():
    """(heads, rows, keys). In the first head a warp's 16 rows have like levels, in the second each has its own."""
    inf, least = -np.inf, float(np.finfo(np.float32).min)
    ways = [[x] * GROUPS for x in (-1e4, -1e6, -4e6, -1e9, -2.5e8, -6e9, -1e15, -5e29, -1e30, -3e38, least, inf, 1e9, 0)]
    ways += [way for x in (-1e9, -3e9, -1e20, -1e30, -3e38, inf)
             for way in ([x, 0, 0, 0], [x, x, x, 0], [0, x, x, x], [0, 0, 0, x], [x, 0, x, 0], [x, -30, 0, 20])]
    ways += [[-1e9, -3e38, -1e9, inf], [-3e38, inf, -1e9, -1e9], [inf, -1e9, -1e9, 0], [-1e12, -1e10, -1e8, 0],
             [-1e12, -1e12, -1e10, -1e10], [1e9, 0, 0, 1e9], [0, 0, 1e9, 0], [0, -1e9, -1e9, 1e9]]
    rows = np.repeat(np.array(ways), KEYS, axis=1)
    lone = np.repeat(np.array([[-1e9], [-3e38], [inf], [-1e15]]), GROUPS * KEYS, axis=1)
    lone[:, 2 * KEYS + 7] = 0  # one key alone counts
    padded = np.where(np.arange(GROUPS * KEYS) % 3 == 0, -1e9, 0.0)[None]  # far ones everywhere
    rows = np.concatenate([rows, lone, padded])
    alike = rows[np.arange(4 * ROWS) // 16 % len(rows)].reshape(-1, ROWS, GROUPS * KEYS)
    mixed = rows[random.permutation(np.arange(ROWS) % len(rows))][None]
    return np.concatenate([alike, mixed])


def finite(x, dtype):
    """The nearest of the type, the largest where that would be infinite."""
    near = bfloat(np.maximum(x, -3.38e38)) if dtype == "bf16" else np.asarray(x).astype(np.float32)
    return np.where(np.isinf(x), x, near).astype(np.float64)


def e4m3(x):
    size = np.minimum(np.abs(x), 448)
    step = 2.0 ** (np.floor(np.log2(np.maximum(size, 2.0 ** -6))) - 3)
    return np.sign(x) * np.round(size / step) * step


def operand(x, dtype):
    return {"bf16": lambda: bfloat(x).astype(np.float64), "e4m3": lambda: e4m3(x),
            "f16": lambda: x.astype(np.float16).astype(np.float64)}[dtype]()


def problem(dtype, level_type, d, levels, add):
    """Arrays, and the results of f32's scores."""
    heads, keys = len(levels), GROUPS * KEYS
    q, k, v = (operand(random.standard_normal((heads, n, d)), dtype) for n in (ROWS, keys, keys))
    v = operand(v + 1, dtype)  # a weight too much or too few is seen
    level = finite(levels, level_type)
    scale = float(np.float32(d ** -0.5))
    s = q @ np.swapaxes(k, 1, 2) * scale
    s = np.where(level < -1, -1e9, s) if add == FILLED else s + level
    s = s.astype(np.float32).astype(np.float64)
    s = np.where(s < MASKED, -np.inf, s)
    m = np.maximum(s.max(-1, keepdims=True), MASKED)
    p = np.exp(s - m)
    sums = p.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(sums) + m)[..., 0]
    return {"Q": q, "K": k, "V": v, "level": level}, p / np.maximum(sums, 1e-30) @ v, lse


def run(gpu, on, inputs, outputs, options):
    command = [FLASHTL, "run", "far_rows.tl", "--gpu", gpu, "--on", on, *options]
    command += [word for name in inputs for word in ("--in", f"{name}={name}.npy")]
    command += [word for name in outputs for word in ("--out", f"{name}={name}.npy")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
    if done.returncode == 3:
        print(done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        raise SystemExit(f"far_rows.py: {' '.join(command)}: {done.stdout}{done.stderr}")


def say(is_right, *words):
    print("ok   " if is_right else "WRONG", *words, flush=True)
    return is_right


def judge_attention(levels, gpu, dtype, level_type, d, add, more):
    result = "bf16" if dtype == "e4m3" else dtype
    has_lse, is_turned = more == "lse", more == "turned"
    text = SKETCH.format(type=dtype, level=level_type, result=result, add=add, lse=LSE if has_lse else "",
                         values="dv, kv in kv_len" if is_turned else "kv in kv_len, dv", right="V.T" if is_turned else "V",
                         lse_output="Output lse f32 (head in heads; q in q_len)\n" if has_lse else "")
    pathlib.Path("far_rows.tl").write_text(text if has_lse else text.replace(" with m and l", ""))
    arrays, want, lse = problem(dtype, level_type, d, levels, add)
    if is_turned:
        arrays["V"] = np.swapaxes(arrays["V"], 1, 2)
    for name, array in arrays.items():
        np.save(f"{name}.npy", stored(array, level_type if name == "level" else dtype))
    options = ["--let", f"scale={d ** -0.5!r}"]
    options += [] if dtype == "e4m3" else ["--let", "guard=1"]  # an error where the maximum would move with every block
    fine = True
    for on in ("interpreter", "emulator"):
        run(gpu, on, arrays, ["O", "lse"][:1 + has_lse], options)
        error, head, row = worst_row(loaded("O", result), want)
        off = worst_logarithm(loaded("lse", "f32"), lse) if has_lse else 0
        fine &= say(error <= LIMIT[dtype] and off <= LOGARITHM,
                    f"{gpu} {dtype} d {d}, levels {level_type}, {add.split()[1]}, {more} {on}: worst row {error:.2g}, "
                    f"levels {levels[head, row, ::KEYS]}" + (f"; log-sum-exp {off:.2g}" if has_lse else ""))
    return fine


def judge_scores(levels, gpu, dtype):
    scores = finite(levels, dtype).reshape(-1, levels.shape[-1])
    counts = np.where(scores < MASKED, -np.inf, scores)
    p = np.exp(counts - np.maximum(counts.max(-1, keepdims=True), MASKED))
    want = p / np.maximum(p.sum(-1, keepdims=True), 1e-30)
    pathlib.Path("far_rows.tl").write_text(ALONE.format(type=dtype))
    np.save("X.npy", stored(scores, dtype))
    fine = True
    for on in ("interpreter", "emulator"):
        run(gpu, on, ["X"], ["Y"], [])
        error, row = worst_row(loaded("Y", "f32"), want)
        fine &= say(error <= 1e-5, f"{gpu} {dtype} scores of memory {on}: worst row {error:.2g}, levels {scores[row, ::KEYS]}")
    return fine


def main():
    levels = level_rows()
    fine = [judge_attention(levels, *kernel) for kernel in sampled(KERNELS)]
    fine += [judge_scores(levels, *kernel) for kernel in sampled(SCORES)]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
