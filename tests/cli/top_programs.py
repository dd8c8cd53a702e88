#!/usr/bin/env python3
"""RowTopK against NumPy: ties, NaN, infinities, rows with fewer elements than places, rows that no tile divides.
top_programs.py FLASHTL [GPU ...]; exit status 77 without NumPy. With GPUs: on the emulator of each."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("top_programs.py: NumPy is not here")
    sys.exit(77)

flashtl, gpus = os.path.abspath(sys.argv[1]), sys.argv[2:]
random = np.random.default_rng(3)

WHOLE = """kernel top
let n_len = {n}, most = {k}
Input  X {type} (row in row_len, n in n_len)
Output I i32 (row in row_len, most)
Output V f32 (row in row_len, most)
Copy X from global to register
Compute RowTopK X, most with V and get I
Copy I from register to global
Copy V from register to global
"""

BLOCKS = """kernel top
let most = {k}
Input  X {type} (row in row_len, n in n_len)
Output I i32 (row in row_len, most)
Output V f32 (row in row_len, most)
for j = 0:n_len/BN
    Copy X from global to register
    Compute RowTopK X, most with V and accumulate I
end
Copy I from register to global
Copy V from register to global
"""

# The tile is used again, and what is looked through is computed.
AGAIN = """kernel top
let n_len = {n}, most = {k}
Input  X {type} (row in row_len, n in n_len)
Output I i32 (row in row_len, most)
Output V f32 (row in row_len, most)
Output R f32 (row in row_len)
Copy X from global to register
Compute Multiply X, -2 and get Y
Compute RowTopK Y, most with V and get I
Compute RowSum Y and get R
Copy I from register to global
Copy V from register to global
Copy R from register to global
"""


def rows(kind, count, n, dtype):
    if kind == "normal":
        return random.standard_normal((count, n)).astype(dtype)
    if kind == "few values":  # ties everywhere
        return random.integers(-2, 3, (count, n)).astype(dtype)
    if kind == "rising":  # every block's elements are larger than all before
        return np.tile(np.arange(n, dtype=np.float32) / 8 - 3, (count, 1)).astype(dtype)
    x = random.standard_normal((count, n)).astype(dtype)  # "holes"
    x[random.random((count, n)) < 0.5] = -np.inf
    x[random.random((count, n)) < 0.1] = np.nan
    x[random.random((count, n)) < 0.02] = np.inf
    x[0] = -np.inf
    if count > 1:
        x[1] = np.nan
    return x


def expected(x, k):
    places = np.full((len(x), k), -1, np.int32)
    values = np.full((len(x), k), -np.inf, np.float32)
    for i, row in enumerate(x.astype(np.float32)):
        order = sorted((n for n in range(len(row)) if row[n] > -np.inf), key=lambda n: (-row[n], n))[:k]
        places[i, :len(order)] = order
        values[i, :len(order)] = row[order]
    return places, values


def run(text, x, k, where, lets, names):
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name)
        with open(at("top.tl"), "w") as f:
            f.write(text)
        np.save(at("X.npy"), x)
        command = [flashtl, "run", at("top.tl"), "--in", f"X={at('X.npy')}", *where]
        for name in names:
            command += ["--out", f"{name}={at(name)}.npy"]
        for one in lets:
            command += ["--let", one]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr.strip()
        return [np.load(at(name + ".npy")) for name in names], ""


failures = checked = 0


def judge(what, text, x, k, where, lets, factor=1):
    global failures, checked
    names = ["I", "V", "R"] if "Output R" in text else ["I", "V"]
    got, error = run(text, x, k, where, lets, names)
    checked += 1
    wanted = expected((x.astype(np.float32) * factor).astype(np.float32), k)
    fits = got is not None and all(np.array_equal(a, b) for a, b in zip(got, wanted))
    if fits and "R" in names:
        with np.errstate(invalid="ignore"):
            fits = np.allclose(got[2], (x.astype(np.float64) * factor).sum(1), rtol=1e-4, atol=1e-3, equal_nan=True)
    if not fits:
        failures += 1
        wrong = error if got is None else "\n".join(
            f"row {i}: {got[0][i]} {got[1][i]} instead of {wanted[0][i]} {wanted[1][i]}" for i in range(len(x))
            if not (np.array_equal(got[0][i], wanted[0][i]) and np.array_equal(got[1][i], wanted[1][i])))[:800]
        print(f"FAILED {what}: {wrong}")


def gpus_have(place, n, k):
    """Kernels take columns by eights; the interpreter all that check lets through."""
    return place == "interpreter" or (n % 8 == 0 and k % 8 == 0)


KINDS = ("normal", "few values", "rising", "holes")
PLACES = [["--on", "interpreter"]] + [["--gpu", gpu, "--on", "emulator"] for gpu in gpus]
for where in PLACES:
    place = where[1]
    for n, k, count, type_ in ((64, 8, 70, "f32"), (104, 16, 37, "f32"), (40, 8, 17, "f16"), (8, 16, 9, "f32"),
                               (256, 64, 16, "f32"), (36, 4, 17, "f32"), (4, 4, 3, "f32")):
        if not gpus_have(place, n, k):
            continue
        for kind in KINDS if place == "interpreter" or (n, k) == (104, 16) else ("holes",):
            x = rows(kind, count, n, np.float16 if type_ == "f16" else np.float32)
            judge(f"whole {n} {k} {kind} {place}", WHOLE.format(n=n, k=k, type=type_), x, k, where, [])
    x = rows("few values", 19, 48, np.float32)
    judge(f"again {place}", AGAIN.format(n=48, k=8, type="f32"), x, 8, where, [], factor=-2)
    for n, k, count, pins in ((1000, 16, 35, []), (300, 16, 20, ["BN=64"]), (0, 8, 5, []), (3, 8, 5, []), (129, 40, 33, []),
                              (200, 64, 17, ["BN=32"]), (129, 4, 33, []), (130, 12, 40, ["BN=16"])):
        if not gpus_have(place, 0, k):
            continue
        for kind in KINDS if place == "interpreter" or (n, k) == (300, 16) else ("holes", "few values"):
            x = rows(kind, count, n, np.float32)
            judge(f"blocks {n} {k} {kind} {place} {pins}", BLOCKS.format(k=k, type="f32"), x, k, where, pins)

# Scores that a product makes have errors: places are judged where these cannot change the order. What is wrong is noticed.
ROUTER = """kernel router
let most = 8, n_len = 64, k_len = 32
Input  A (row in row_len, k in k_len)
Input  B (n in n_len, k in k_len)
Output I i32 (row in row_len, most)
Copy A from global to shared
Copy B from global to shared
Compute GEMM A, B.T and get S
Compute RowTopK S, most and get I
Copy I from register to global
"""


def verified(gpu, change):
    with tempfile.TemporaryDirectory() as folder:
        sketch, code = os.path.join(folder, "router.tl"), os.path.join(folder, "code.tl")
        with open(sketch, "w") as f:
            f.write(ROUTER)
        made = subprocess.run([flashtl, "reason", sketch, "--gpu", gpu], capture_output=True, text=True).stdout
        if change and change[0] not in made:
            return f"'{change[0]}' is not in the TL Code"
        with open(code, "w") as f:
            f.write(made.replace(*change) if change else made)
        done = subprocess.run([flashtl, "verify", code, "--against", sketch, "--gpu", gpu], capture_output=True, text=True)
        return "passed" if done.returncode == 0 else "failed" if "failed" in done.stdout else done.stderr


for gpu in gpus[:1]:
    for change, wanted in ((None, "passed"), (("where n == I_at", "where n == I_at + 1"), "failed"),
                           ((", I_at in coordinate", ", I_at + 1 in coordinate"), "failed"),
                           (("I_round = 0:most", "I_round = 0:most - 1"), "failed")):
        checked += 1
        found = verified(gpu, change)
        if found != wanted:
            failures += 1
            print(f"FAILED router {change}: {found}, not {wanted}")

REFUSED = (
    (WHOLE.format(n=64, k=12, type="f32"), "kernels have RowTopK of 8, 16, ... 64 places, not of 12"),
    (WHOLE.format(n=64, k=65, type="f32"), "known before the kernel is made and from 1 to 64"),
    (WHOLE.format(n=64, k=0, type="f32"), "known before the kernel is made and from 1 to 64"),
    (WHOLE.format(n=100, k=8, type="f32"), "bring them block by block"),
    (WHOLE.format(n=1024, k=8, type="f32"), "bring them block by block"),
    (BLOCKS.format(k=8, type="f32").replace(", most with V", ", 8 with V"), "as the name of a size"),
    (BLOCKS.format(k=8, type="f32").replace("end\n", "    Compute Add V, 1 and get V\nend\n"), "known after the loop"),
    (BLOCKS.format(k=8, type="f32").replace("for j", "Compute Fill 0 and get I\nfor j"), "nothing else is done with it"),
    (WHOLE.format(n=64, k=8, type="f32").replace("and get I", "and accumulate I"), "it is `and get I`"),
    (WHOLE.format(n=64, k=8, type="f32").replace("RowTopK X,", "RowTopK X.T,"), "without `.T`"),
)
for text, sentence in REFUSED:
    with tempfile.NamedTemporaryFile("w", suffix=".tl") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([flashtl, "reason", f.name, "--gpu", "a100"], capture_output=True, text=True)
    checked += 1
    if done.returncode != 1 or sentence not in done.stderr:
        failures += 1
        print(f"FAILED: '{sentence}' is not what is said of\n{text}{done.stderr}")
print(f"{checked} runs, {failures} failed")
sys.exit(failures > 0)
