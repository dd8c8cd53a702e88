#!/usr/bin/env python3
"""Every number of 8 bits, read as an element of a tensor: interpreter and emulator give it exactly, on GPUs with and without such types.

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
ROWS = 40


def numbers(exponent, fraction, bias, largest):
    """All finite ones of a format, of both signs."""
    codes = np.arange(128)
    field, rest = codes >> fraction, codes & ((1 << fraction) - 1)
    size = np.where(field == 0, rest * 2.0 ** (1 - bias - fraction), (1 + rest / 2.0 ** fraction) * 2.0 ** (field - bias))
    size = size[(field < 1 << exponent) & (size <= largest)]
    return np.concatenate((size, -size))


TYPES = {"i8": np.arange(-128, 128), "e4m3": numbers(4, 3, 7, 448), "e5m2": numbers(5, 2, 15, 57344)}
failures = 0
with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    for name, all_of_it in TYPES.items():
        columns = len(all_of_it)
        u = np.stack([np.roll(all_of_it, row) for row in range(ROWS)])
        arrays = {"X": np.zeros((ROWS, columns)), "t": all_of_it, "u": u}
        below = u[np.minimum(np.arange(ROWS) + 1, ROWS - 1)]
        right = np.where(all_of_it > 100, -1, (all_of_it + 1024 * below).astype(np.float32))
        for key, value in arrays.items():
            np.save(key + ".npy", value.astype(np.float32))
        with open("elements.tl", "w", encoding="utf-8") as file:
            file.write(SKETCH.format(name))
        for way in ([], ["--gpu", "t4", "--on", "emulator"], ["--gpu", "h200", "--on", "emulator"]):
            done = subprocess.run([FLASHTL, "run", "elements.tl", *way, "--out", "Y=Y.npy", *(word for key in arrays for word in ("--in", f"{key}={key}.npy"))],
                                  stderr=subprocess.PIPE, text=True)
            if done.returncode == 3:
                print("byte_elements.py:", done.stderr.strip())
                sys.exit(77)
            is_right = done.returncode == 0 and np.array_equal(np.load("Y.npy"), right)
            failures += not is_right
            print(f"{'ok   ' if is_right else 'WRONG'} {name} {' '.join(way)} {done.stderr}")
sys.exit(failures > 0)
