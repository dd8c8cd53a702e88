#!/usr/bin/env python3
"""Every number of 8 bits and of 4, read as an element of a tensor, and every i8 as a length, by `floor`, which is 0 where it is below: interpreter and
emulator give it exactly, on GPUs with and without such types.

byte_elements.py FLASHTL; exit status 77 without NumPy or a CUDA compiler."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("byte_elements.py: NumPy is not here")
    sys.exit(77)

FLASHTL = os.path.abspath(sys.argv[1])
SKETCH = """kernel elements
Input  X f32 (r in rows, n in columns)
Input  t {0} (n in columns)
Input  u {0} (i in rows, n in columns)
Output Y f32 (r in rows, n in columns)
Copy X from global to register
Compute Add X, t[n] and get Y
Compute Add Y, 1024*u[min(r + 1, rows - 1), n] and get Y
Compute Mask Y, -1 where t[n] > 100
Copy Y from register to global
"""
SUMS = """kernel sums
Input  X f32 (b in batch; r in rows, n in columns)
Input  count i8 (b in batch)
let length = min(columns, floor(count[b]))
let First (b in batch; r in rows, c in length) = X[b, r, c]
Output Y f32 (b in batch; r in rows)
for j = 0:length/BN
    Copy First from global to register and get T
    Compute RowSum T and accumulate s
end
Copy s from register to global and get Y
"""
ROWS = 40


def numbers(exponent, fraction, bias, largest):
    """All finite ones of a format, of both signs."""
    codes = np.arange(128)
    field, rest = codes >> fraction, codes & ((1 << fraction) - 1)
    size = np.where(field == 0, rest * 2.0 ** (1 - bias - fraction), (1 + rest / 2.0 ** fraction) * 2.0 ** (field - bias))
    size = size[(field < 1 << exponent) & (size <= largest)]
    return np.concatenate((size, -size))


TYPES = {"i4": np.arange(-8, 8), "u4": np.arange(16), "i8": np.arange(-128, 128), "e4m3": numbers(4, 3, 7, 448), "e5m2": numbers(5, 2, 15, 57344)}


def judge(name, program, arrays, right, *options):
    """How many ways are wrong."""
    failures = 0
    for key, value in arrays.items():
        np.save(key + ".npy", value.astype(np.float32))
    with open("program.tl", "w", encoding="utf-8") as file:
        file.write(program)
    for way in ([], ["--gpu", "t4", "--on", "emulator"], ["--gpu", "h200", "--on", "emulator"]):
        inputs = [word for key in arrays for word in ("--in", f"{key}={key}.npy")]
        done = subprocess.run([FLASHTL, "run", "program.tl", *way, *options, "--out", "Y=Y.npy", *inputs], stderr=subprocess.PIPE, text=True)
        if done.returncode == 3:
            print("byte_elements.py:", done.stderr.strip())
            sys.exit(77)
        is_right = done.returncode == 0 and np.array_equal(np.load("Y.npy"), right)
        failures += not is_right
        print(f"{'ok   ' if is_right else 'WRONG'} {name} {' '.join(way)} {done.stderr}")
    return failures


def elements(name, numbers):
    u = np.stack([np.roll(numbers, row) for row in range(ROWS)])
    below = u[np.minimum(np.arange(ROWS) + 1, ROWS - 1)]
    right = np.where(numbers > 100, -1, (numbers + 1024 * below).astype(np.float32))
    return judge(name, SKETCH.format(name), {"X": np.zeros((ROWS, len(numbers))), "t": numbers, "u": u}, right)


def sums(columns):
    x = np.arange(256 * 3 * columns).reshape(256, 3, columns) % 1000
    right = np.stack([x[i, :, :max(0, count)].sum(1) for i, count in enumerate(TYPES["i8"])])
    return judge(f"sums of {columns}", SUMS, {"X": x, "count": TYPES["i8"]}, right, "--let", "BN=32")


with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    wrong = sum(elements(name, all_of_it) for name, all_of_it in TYPES.items()) + sum(sums(columns) for columns in (100, 140))
    wrong += sum(elements(name, TYPES[name][:15]) for name in ("i4", "u4"))  # rows that begin within a byte
sys.exit(wrong > 0)
