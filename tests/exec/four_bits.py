#!/usr/bin/env python3
"""Products of numbers of 4 bits: every code at every place of a unit, with operands along and across, f16 and bf16 beside them, whole tiles and cut
ones; weights with scales and zero points for groups of the contracted axis. Whole numbers, so that every element is exact.

four_bits.py FLASHTL [GPU ...]; exit status 77 without NumPy or a CUDA compiler."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("four_bits.py: NumPy is not here")
    sys.exit(77)

FLASHTL = os.path.abspath(sys.argv[1])
GPUS = sys.argv[2:] or ["t4", "a100", "l40s", "h200"]
random = np.random.default_rng(4)
TYPES = {"i4": (-8, 8), "u4": (0, 16)}
ACROSS = """kernel across
Input  X {wide} (r in rows, c)
Input  Z {narrow} (c, n in columns)
Output Y f32 (r in rows, n in columns)
Copy X from global to shared
Copy Z from global to shared
Compute GEMM X, Z and get S
Copy S from register to global and get Y
"""
ALONG = """kernel along
Input  X {wide} (r in rows, c in deep)
Input  Z {narrow} (n in columns, c in deep)
Output Y f32 (r in rows, n in columns)
for j = 0:deep/BK
    Copy X from global to shared
    Copy Z from global to shared
    Compute GEMM X, Z.T and accumulate S
end
Copy S from register to global and get Y
"""
GROUPS = """kernel groups
let BK = 64
Input  X {wide} (r in rows, c in deep)
Input  Z {narrow} (n in columns, c in deep)
Input  zero {narrow} (n in columns, g in deep/BK)
Input  factor f32 (n in columns, g in deep/BK)
Output Y f32 (r in rows, n in columns)
for j = 0:deep/BK
    Copy X from global to shared
    Copy Z from global to shared
    Compute GEMM X, Z.T and get T
    Copy X from global to register and get W
    Compute RowSum W and get w
    Compute Subtract T, w*zero[n, j] and get T
    Compute Multiply T, factor[n, j] and accumulate Y
end
Copy Y from register to global
"""
BOTH = ALONG.replace("kernel along", "kernel both").replace("X {wide}", "X {narrow}")


def run(program, arrays, ways):
    with open("program.tl", "w", encoding="utf-8") as file:
        file.write(program)
    for name, array in arrays.items():
        np.save(name + ".npy", array.astype(np.float32))
    for way in ways:
        command = [FLASHTL, "run", "program.tl", *way, "--out", "Y=Y.npy", *(word for name in arrays for word in ("--in", f"{name}={name}.npy"))]
        done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        if done.returncode == 3:
            print("four_bits.py:", done.stderr.strip())
            sys.exit(77)
        yield " ".join(way), np.load("Y.npy") if done.returncode == 0 else done.stderr


def judge(text, arrays, right, wide, narrow):
    gpus = [gpu for gpu in GPUS if wide != "bf16" or gpu != "t4"]
    ways = [[], *(["--gpu", gpu, "--on", "emulator"] for gpu in gpus)]
    wrong = 0
    for way, got in run(text.format(wide=wide, narrow=narrow), arrays, ways):
        is_right = isinstance(got, np.ndarray) and np.array_equal(got, right)
        wrong += not is_right
        print(f"{'ok   ' if is_right else 'WRONG'} {text.split()[1]} {wide} {narrow} {right.shape} {way} {got if isinstance(got, str) else ''}")
    return wrong


def every_code(low, columns):
    """16 rows: all codes in each column."""
    return (np.arange(16)[:, None] + np.arange(columns)) % 16 + low


def main():
    wrong = 0
    for narrow, (low, high) in TYPES.items():
        for wide in ("f16", "bf16"):
            codes, small = every_code(low, 96), lambda *shape: random.integers(-4, 5, shape)
            wrong += judge(ACROSS, {"X": np.eye(16), "Z": codes}, codes, wide, narrow)
            wrong += judge(ALONG, {"X": np.eye(96), "Z": codes}, codes.T, wide, narrow)
            for rows, columns, deep in ((70, 45, 354), (1, 200, 34)):
                x, z = small(rows, deep), random.integers(low, high, (columns, deep))
                wrong += judge(ALONG, {"X": x, "Z": z}, x @ z.T, wide, narrow)
            x, z = small(37, 202), random.integers(low, high, (70, 202))
            zero, factor, groups = random.integers(low, high, (70, 4)), 2.0 ** random.integers(-2, 3, (70, 4)), np.arange(202) // 64
            right = x @ (factor[:, groups] * (z - zero[:, groups])).T
            wrong += judge(GROUPS, {"X": x, "Z": z, "zero": zero, "factor": factor}, right, wide, narrow)
        x, z = random.integers(low, high, (50, 130)), random.integers(low, high, (33, 130))
        wrong += judge(BOTH, {"X": x, "Z": z}, x @ z.T, "", narrow)
    return wrong


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    sys.exit(main() > 0)
