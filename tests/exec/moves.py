#!/usr/bin/env python3
"""Rows whose maximum moves by every power of two, on the emulator, against fp64.

A guarded softmax rescales what it has by 2^-h when its maximum moves by h. Where h passes 126 a GPU makes 0 of
that, while the interpreter keeps denormal numbers: no such move may lose what still counts in its row. A log-sum-exp is that of
weights as they are, whatever the denominator adds up. Here each row has levels of its own, one for each group of
keys, so that rows move by 1 to 300 powers of two, at once and in steps, just below and just above what a part of a
row may reach, alone in their warp and beside others.

moves.py FLASHTL; exit status 77 without NumPy or a CUDA compiler."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("moves.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from rows import bfloat, loaded, stored, worst_logarithm, worst_row  # noqa: E402
from sampling import sampled  # noqa: E402

FLASHTL = str(pathlib.Path(sys.argv[1]).resolve())
GROUPS, KEYS, ROWS = 5, 128, 192  # groups of keys, one level each; keys of a group; rows of a head
LONELY = 2  # the group of which one key alone has the level, the others 0
LIMIT = {"bf16": 0.005, "f16": 0.001}  # relative rms of a row: its own weights and results are rounded
LOGARITHM = 5e-6  # of a log-sum-exp, relative where that is above 1
KERNELS = [("h200", "bf16", 64), ("h200", "bf16", 128), ("h200", "f16", 64), ("h200", "f16", 128),
           ("a100", "bf16", 64), ("t4", "f16", 64)]
WITH_LOGARITHM = [("h200", "bf16", 64), ("h200", "bf16", 128), ("h200", "f16", 128), ("a100", "bf16", 64)]
random = np.random.default_rng(7)


def level_rows():
    """Levels in log2 units: (heads, rows, groups). In the first head a warp's 16 rows move alike, in the second each
    moves in its own way."""
    ways = [[0, h, h, h, h] for h in (10, 14, 15, 16, 30, 59, 60, 61, 62, 63, 93, 94, 95, 96, 97, 100, 120, 125, 126,
                                      127, 128, 149, 150, 151, 200, 255)]
    ways += [[0, x, x + more, 0, x // 2] for x in (86, 88, 90, 92, 94, 96, 117, 118, 119) for more in (1, 5, 8, 10)]
    ways += [[0, a, 2 * a, 3 * a, 4 * a] for a in (1, 4, 9, 13, 16, 31, 33, 47, 62, 64)]
    ways += [[h, 0, h, 1, h - 1] for h in (20, 63, 96, 127, 150)]
    ways += [[0, -h, 1, -h, 2] for h in (30, 96, 127, 200)]
    while len(ways) % ROWS:
        ways.append(list(random.integers(-60, 200, GROUPS)))
    alike = [np.repeat(ways[at:at + ROWS // 16], 16, axis=0) for at in range(0, len(ways), ROWS // 16)]
    mixed = random.permutation(ways).reshape(-1, ROWS, GROUPS)
    return np.concatenate([np.stack(alike), mixed]).astype(np.float64)


def rounded(x, dtype):
    return (x.astype(np.float16) if dtype == "f16" else bfloat(x)).astype(np.float64)


def problem(dtype, d):
    """Q, K, V as their type has them; scores are levels and a little noise, in log2 units by the scale ln 2."""
    levels = level_rows()
    heads = len(levels)
    q, k = np.zeros((1, heads, ROWS, d)), np.zeros((1, heads, GROUPS * KEYS, d))
    q[0, :, :, :GROUPS] = levels
    q[..., GROUPS:GROUPS + 8] = random.standard_normal((1, heads, ROWS, 8)) / 2
    k[0, :, :, :GROUPS] = np.repeat(np.eye(GROUPS), KEYS, axis=0)
    k[0, :, LONELY * KEYS + 1:(LONELY + 1) * KEYS, LONELY] = 0  # a single key moves the row, and many before it count
    k[..., GROUPS:GROUPS + 8] = random.standard_normal((1, heads, GROUPS * KEYS, 8)) / 2
    v = random.standard_normal((1, heads, GROUPS * KEYS, d)) + 1
    q, k, v = (rounded(x, dtype) for x in (q, k, v))
    s = q[0] @ np.swapaxes(k[0], 1, 2)
    p = np.exp2(s - s.max(-1, keepdims=True))
    lse = (np.log2(p.sum(-1)) + s.max(-1)) * np.log(2)
    return q, k, v, levels, p / p.sum(-1, keepdims=True) @ v[0], lse


def run(program, arrays, dtype, on, has_lse):
    for name, array in zip("QKV", arrays):
        np.save(f"{name}.npy", stored(array, dtype))
    inputs = [word for name in "QKV" for word in ("--in", f"{name}={name}.npy")]
    outputs = [word for name in ("O", "lse")[:1 + has_lse] for word in ("--out", f"{name}={name}.npy")]
    done = subprocess.run([FLASHTL, "run", program, "--on", on, "--let", "scale=0.69314718", *inputs,
                           *outputs], capture_output=True, text=True, timeout=1800)
    if done.returncode == 3:
        print(done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        raise SystemExit(f"{program}: {done.stdout}{done.stderr}")
    return loaded("O", dtype)[0], loaded("lse", "f32")[0] if has_lse else None


def reasoned(gpu, dtype, d, has_lse):
    done = subprocess.run([FLASHTL, "reason", "--op", "mha", "--gpu", gpu, "--dtype", dtype, "--head-dim", str(d),
                           *["--lse"][:has_lse]],
                          capture_output=True, text=True, check=True)
    return done.stdout


# Faults to plant: what they are called, which text they change, how, and in which kernels.
# Weights that begin at 2^-60: a row may then move by more than 126 while what it had still counts.
LOW = ("begins low", r"MultiplyAdd m, -c, -32 and", "MultiplyAdd m, -c, -60 and")
# A logarithm of rounded weights: off by what a dominant one's rounding is.
ROUNDED = ("rounded logarithm", r"Log l_exact_end and", "Log l_end and")
FAULTS = {("h200", "bf16", 64, False): LOW, ("h200", "bf16", 128, False): LOW, ("h200", "bf16", 128, True): ROUNDED}


def planted(text, fault):
    name, pattern, by = fault
    changed, count = re.subn(pattern, by, text)
    assert count, "the reasoner's text has no place for the fault to plant"
    return name, changed


def main():
    failed = False
    for (gpu, dtype, d), has_lse in sampled([*[(k, False) for k in KERNELS], *[(k, True) for k in WITH_LOGARITHM]]):
        text, (q, k, v, levels, want, lse) = reasoned(gpu, dtype, d, has_lse), problem(dtype, d)
        fault = FAULTS.get((gpu, dtype, d, has_lse))
        for name, text in [(None, text), *([planted(text, fault)] if fault else [])]:
            pathlib.Path("kernel.tl").write_text(text)
            out, logarithm = run("kernel.tl", (q, k, v), dtype, "emulator", has_lse)
            error, head, row = worst_row(out, want)
            off = worst_logarithm(logarithm, lse) if has_lse else 0
            is_right = error <= LIMIT[dtype] and off <= LOGARITHM
            failed |= is_right == bool(name)
            print(f"{gpu} {dtype} d {d}{', ' + name if name else ''}: worst row {error:.2g}, allowed {LIMIT[dtype]}, "
                  f"levels {levels[head, row].astype(int)}" + (f"; log-sum-exp {off:.2g}" if has_lse else ""))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
