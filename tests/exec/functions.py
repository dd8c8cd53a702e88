#!/usr/bin/env python3
"""The functions of Compute, as kernels have them, on many numbers: functions.py FLASHTL; exit status 77 without NumPy.
The bounds are those that src/device/arithmetic.cuh gives, those that decide what verify and the random programs allow."""
import math
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("functions.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

flashtl = os.path.abspath(sys.argv[1])
SKETCH = """kernel functions
Input  X f32 (row in row_len, column in column_len)
Output Y f32 (row in row_len, column in column_len)
Copy X from global to register and get Y
Compute {} Y and get Y
Copy Y from register to global
"""
ULP = 2.0 ** -23


def both(f):
    return np.vectorize(f, otypes=[float])


# Name, function, the numbers' range, whether they have both signs, the bound of the error at (x, y).
FUNCTIONS = (
    ("Exp2", np.exp2, 1e-4, 120, True, lambda x, y: 2 * ULP * y),
    ("Exp", np.exp, 1e-4, 87, True, lambda x, y: (2 * ULP + np.abs(x) * 1.5 * 2.0 ** -24) * y),
    ("Log2", np.log2, 1e-30, 1e30, False, lambda x, y: 2.0 ** -22 + ULP * np.abs(y)),
    ("Log", np.log, 1e-30, 1e30, False, lambda x, y: 2.0 ** -22 + 2 * ULP * np.abs(y)),
    ("Sin", both(math.sin), 1e-38, 3.4e38, True, lambda x, y: 2.5e-7 * np.abs(y)),
    ("Sqrt", np.sqrt, 1e-30, 1e30, False, lambda x, y: ULP * y),
    ("Rsqrt", lambda x: 1 / np.sqrt(x), 1e-30, 1e30, False, lambda x, y: 2 * ULP * y),
    ("Reciprocal", lambda x: 1 / x, 1e-30, 1e30, True, lambda x, y: ULP * np.abs(y)),
    ("Tanh", np.tanh, 1e-6, 20, True, lambda x, y: np.where(np.abs(x) < 0.05, 1e-6 * np.abs(y), 3e-7)),
    ("Erf", both(math.erf), 1e-6, 6, True, lambda x, y: np.where(np.abs(x) < 1, 3e-7 * np.abs(y), 4e-7)),
    ("Erfc", both(math.erfc), 1e-6, 9, True, lambda x, y: np.where(np.abs(x) < 4, 1.5e-6, 8e-6) * y),
)
failures = 0
random = np.random.default_rng(5)
with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    for name, function, low, high, signs, bound in sampled(FUNCTIONS, "FLASHTL_SAMPLE"):
        x = np.concatenate((np.geomspace(low, high, 32768), random.uniform(low, high, 32768))).astype(np.float32)
        x[:4097] = np.append(np.arange(1, 4097) * (math.pi / 2), 16367173 * 2.0 ** 72)    # hard for what turns
        x = np.clip(x, low, high)
        x *= random.choice((-1, 1), x.shape) if signs else 1
        x = x.astype(np.float32).reshape(512, 128)
        np.save(folder / "x.npy", x)
        (folder / "functions.tl").write_text(SKETCH.format(name))
        subprocess.run([flashtl, "run", folder / "functions.tl", "--gpu", "a100", "--on", "emulator",
                        "--in", f"X={folder}/x.npy", "--out", f"Y={folder}/y.npy"], check=True)
        x, y = x.astype(float), np.load(folder / "y.npy").astype(float)
        true = function(x)
        over = np.abs(y - true) / bound(x, true)
        worst = np.unravel_index(np.argmax(over), over.shape)
        right = bool(over[worst] <= 1)
        failures += not right
        print(f"{'ok   ' if right else 'WRONG'} {name}: at {x[worst]:.9g} it is {y[worst]:.9g}, not {true[worst]:.9g}: {over[worst]:.2f} of the bound")
sys.exit(failures > 0)
