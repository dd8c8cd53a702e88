#!/usr/bin/env python3
"""Indices outside of a tensor, as the language has it: who reports them, and where they read 0.

outside.py FLASHTL; exit status 77 without NumPy or a CUDA compiler."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("outside.py: NumPy is not here")
    sys.exit(77)

FLASHTL = os.path.abspath(sys.argv[1])
SKETCH = """kernel outside
Input  X f32 (r in rows, n in columns)
Input  t f32 (i in length)
Output Y f32 (r in rows, n in columns)
Copy X from global to register
Compute Add X, t[{}] and get Y
Copy Y from register to global
"""
COLUMNS = np.arange(70)
REPORTED, ZERO = "reported", "zero"
# The index, what it is, and what the sketch, TL Code and a kernel make of it outside.
CASES = (("n - 3", COLUMNS - 3, (REPORTED, REPORTED, ZERO)),
         ("max(n, 1)*2 - 1", np.maximum(COLUMNS, 1) * 2 - 1, (REPORTED, ZERO, ZERO)),
         ("69 - n", 69 - COLUMNS, (ZERO, ZERO, ZERO)),                # outside only past the end of columns
         ("rows + 100000", None, (REPORTED, REPORTED, REPORTED)),
         ("rows - 100000", None, (REPORTED, REPORTED, REPORTED)))
WAYS = (["--on", "interpreter"], ["--gpu", "t4", "--on", "interpreter"], ["--gpu", "t4", "--on", "emulator"])
failures = 0
with tempfile.TemporaryDirectory() as place:
    os.chdir(place)
    table = np.arange(1, 101, dtype=np.float32)
    np.save("X.npy", np.zeros((40, 70), np.float32))
    np.save("t.npy", table)
    for index, at, verdicts in CASES:
        with open("outside.tl", "w", encoding="utf-8") as file:
            file.write(SKETCH.format(index))
        for way, verdict in zip(WAYS, verdicts):
            done = subprocess.run([FLASHTL, "run", "outside.tl", *way, "--in", "X=X.npy", "--in", "t=t.npy", "--out", "Y=Y.npy"],
                                  stderr=subprocess.PIPE, text=True)
            if done.returncode == 3:
                print("outside.py:", done.stderr.strip())
                sys.exit(77)
            if verdict == REPORTED:
                is_right = done.returncode == 1 and "out of bounds" in done.stderr
            else:
                right = np.where((at >= 0) & (at < 100), table[np.clip(at, 0, 99)], 0)
                is_right = done.returncode == 0 and bool((np.load("Y.npy") == right).all())
            failures += not is_right
            print(f"{'ok   ' if is_right else 'WRONG'} t[{index}] {' '.join(way)}: {verdict}; {done.stderr.strip()}")
sys.exit(failures > 0)
