#!/usr/bin/env python3
"""Extremes pass over NaN: the sketch's meaning, its kernel in the interpreter and on the emulator agree with the language.

not_a_number.py FLASHTL; exit status 77 without NumPy or a CUDA compiler. Sanitizers are shown each FLASHTL_SAMPLE-th pair of a text and a
way to run it, in turn of each way: what compiles these takes no part in what they look for."""
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("not_a_number.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

FLASHTL = os.path.abspath(sys.argv[1])
WAYS = ([], ["--gpu", "t4", "--on", "interpreter"], ["--gpu", "t4", "--on", "emulator"], ["--gpu", "h200", "--on", "emulator"])
EACH = """kernel each
Input  X f32 (r in rows, n in columns)
Input  Z f32 (r in rows, n in columns)
Input  w f32 (n in columns)
Output Y f32 (r in rows, n in columns)
Copy X from global to register
{}Compute {} and get Y
Copy Y from register to global
"""
ROWS = """kernel rows
let columns = 128
Input  X f32 (r in rows, n in columns)
Output Y f32 (r in rows)
Copy X from global to register
Compute {} X and get Y
Copy Y from register to global
"""
BLOCKS = """kernel blocks
let BN = 64
Input  X f32 (r in rows, n in columns)
Output Y f32 (r in rows)
for j = 0:columns/BN
    Copy X from global to register
    Compute {} X and accumulate Y
end
Copy Y from register to global
"""
WEIGHTS = """kernel weights
let d = 64
Input  Q f16 (q in rows, d)
Input  K f16 (kv in columns, d)
Input  V f16 (kv in columns, d)
Output l f32 (q in rows)
Output O f16 (q in rows, d)
Copy Q from global to shared
for j = 0:columns/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Softmax S with m and l
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
Copy l from register to global
"""
random = np.random.default_rng(3)
failures = 0


def numbers(*shape):
    """A third of them NaN; of rows the first, all, and all but one."""
    x = random.normal(size=shape).astype(np.float32)
    x[random.random(shape) < 1 / 3] = np.nan
    if len(shape) == 2:
        x[0, 0] = x[1, :] = x[2, 1:] = x[3, :-1] = np.nan
    return x


def run(name, text, arrays, outputs, way):
    with open(name + ".tl", "w", encoding="utf-8") as file:
        file.write(text)
    command = [FLASHTL, "run", name + ".tl", *way]
    for key, value in arrays.items():
        np.save(key + ".npy", value)
        command += ["--in", f"{key}={key}.npy"]
    for key in outputs:
        command += ["--out", f"{key}={key}.npy"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode == 3:
        print("not_a_number.py:", done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"not_a_number.py: {name} {way}: {done.stderr}")
    return [np.load(key + ".npy").astype(float) for key in outputs]


def judge(case, way):
    """'want': by Output the right values and how far off these may be; where those are NaN, NaN is right."""
    global failures
    name, text, arrays, want = case
    for key, got in zip(want, run(name, text, arrays, list(want), way)):
        right, off = want[key]
        near = np.isclose(got, right, rtol=off, atol=off, equal_nan=True)
        failures += not near.all()
        at = "" if near.all() else f" at {np.argwhere(~near)[0]}: {got[~near][0]}, not {right[~near][0]}"
        print(f"{'ok   ' if near.all() else 'WRONG'} {name} {key} {' '.join(way)}{at}")


def cases():
    """(name, text, arrays, right values)."""
    x, z, w = numbers(64, 128), numbers(64, 128), numbers(128)
    both, whole = "Copy Z from global to register\n", 0 * np.nan_to_num(x)
    for name, copies, formula, right in (
            ("max", both, "Max X, Z", np.fmax(x, z)), ("min", both, "Min X, Z", np.fmin(x, z)),
            ("max_constant", "", "Max X, 0.25", np.fmax(x, np.float32(0.25))), ("min_constant", "", "Min 0.25, X", np.fmin(x, np.float32(0.25))),
            ("constant_max", "", "Max 0.25, X", np.fmax(np.float32(0.25), x))):
        yield name, EACH.format(copies, formula), {"X": x, "Z": z, "w": w}, {"Y": (right, 0)}
    for name, formula, right in (("max_call", "max(w[n], 0.5)", np.fmax(w, np.float32(0.5))),
                                 ("min_call", "min(0.5, w[n], 0.25)", np.fmin(w, np.float32(0.25)))):
        yield name, EACH.format("Compute Fill 0 and get X\n", f"Add X, {formula}"), {"X": x, "Z": z, "w": w}, {"Y": (right + whole, 0)}
    for name, extreme, start in (("RowMax", np.fmax, -np.inf), ("RowMin", np.fmin, np.inf)):
        right = extreme.reduce(x, -1, initial=start)
        yield name + "_whole", ROWS.format(name), {"X": x}, {"Y": (right, 0)}
        yield name + "_blocks", BLOCKS.format(name), {"X": x}, {"Y": (right, 0)}

    # In all that a Softmax makes of its row, but for the maximum, which is open; the other rows do not see it.
    q, k, v = (random.normal(size=(rows, 64)).astype(np.float16) for rows in (64, 192, 192))
    q[5, 0] = q[40, 63] = np.nan
    scores = q.astype(float) @ k.astype(float).T
    most = scores.max(-1, keepdims=True)
    sums = np.exp(scores - most).sum(-1, keepdims=True)
    weights = np.exp(scores - most) / sums
    yield "softmax", WEIGHTS, {"Q": q, "K": k, "V": v}, {"l": (sums[:, 0], 1e-2), "O": (weights @ v.astype(float), 1e-2)}


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    for pair in sampled(itertools.product(cases(), WAYS), "FLASHTL_SAMPLE"):
        judge(*pair)
sys.exit(failures > 0)
