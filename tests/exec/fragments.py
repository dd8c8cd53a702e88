#!/usr/bin/env python3
"""Products of 8-bit floats by warps, from TL Code on the emulator: every way an operand comes to its fragments.

Left operands from shared memory, from registers, out of an accumulator; right ones whose contracted axis is the
contiguous one, and such that lie across; sums in either order of columns, stored from registers and through shared
memory. Whole numbers show every element exactly.

fragments.py FLASHTL; exit status 77 without NumPy or a CUDA compiler."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("fragments.py: NumPy is not here")
    sys.exit(77)

FLASHTL = str(pathlib.Path(sys.argv[1]).resolve())
ROWS, KEYS = 100, 160  # rows end inside a tile; keys of `chain` too
random = np.random.default_rng(3)


def shared(name, type, rows, columns, bytes=1):
    line = columns * bytes
    swizzle = min(128, line & -line)
    return f"Allocate {name} in shared {type} ({rows}, {columns})" + (f" swizzled {swizzle}" if swizzle > 16 else "")


def product(kind, type, gpu, out, warps, d, dv, bm, bn):
    """chain: (Q K.T) V with V across. across: Q K with K across and Q in registers. both: (Q K) V.T."""
    sizes = f"d = {d}, BM = {bm}, BN = {bn}" + (f", dv = {dv}" if dv else "")
    head = f"kernel {kind} for {gpu}\nlet {sizes}\nInput Q {type} (q in q_len, d)\n"
    if kind == "across":
        return head + f"""Input K {type} (d, n in n_len)
Output O {out} (q in q_len, n in n_len)
grid i in q_len/BM, j in n_len/BN
{shared("Q", type, bm, d)}
{shared("K", type, d, bn)}
role math with {warps} warps
    Allocate Q in register {type} (BM, d) as mma_A
    Allocate S in register f32 (BM, BN) as mma_C permuted
    Copy Q (BM, d) in coordinate [L = i] from global to shared by cp_async async
    Copy K (d, BN) in coordinate [:, L = j] from global to shared by cp_async async
    Wait Q_shared
    Copy Q from shared to register by ldmatrix
    Wait K_shared
    Compute GEMM Q_register, K_shared and get S by m16n8k32
    Compute Mask S, 3 in coordinate [L = i, L = j] where n > q + 5
    Release Q_shared
    Release K_shared
    Copy S (BM, BN) in coordinate [L = i, L = j] from register to global and get O
end
"""
    chain = kind == "chain"
    keys, values = ("(n in n_len, d)", "(n in n_len, dv)") if chain else ("(d, n in n_len)", "(dv, n in n_len)")
    key_tile, value_tile = (("(BN, d)", "(BN, dv)") if chain else ("(d, BN)", "(dv, BN)"))
    at = "[L = j]" if chain else "[:, L = j]"
    first, second = ("mma_C", "mma_C permuted") if chain else ("mma_C permuted", "mma_C")
    left, turn = ("mma_A permuted", ".T") if chain else ("mma_A", "")
    other = "" if chain else ".T"
    result = shared("R", out, bm, dv, 4 if out == "f32" else 2) if chain else ""
    store = ("    Copy O from register to shared and get R\n    Wait R_shared\n"
             "    Copy R (BM, dv) in coordinate [L = i] from shared to global and get O\n    Release R_shared\n"
             if chain else "    Copy O (BM, dv) in coordinate [L = i] from register to global\n")
    return head + f"""Input K {type} {keys}
Input V {type} {values}
Output O {out} (q in q_len, dv)
grid i in q_len/BM
{shared("Q", type, bm, d)}
{shared("K", type, bn if chain else d, d if chain else bn)}
{shared("V", type, bn if chain else dv, dv if chain else bn)}
{result}
role math with {warps} warps
    Allocate S in register f32 (BM, BN) as {first}
    Allocate P in register {type} (BM, BN) as {first}
    Allocate T, O in register f32 (BM, dv) as {second}
    Copy Q (BM, d) in coordinate [L = i] from global to shared by cp_async async
    Compute Fill 0 and get O
    Wait Q_shared
    for j = 0:n_len/BN
        Copy K {key_tile} in coordinate {at} from global to shared by cp_async async
        Copy V {value_tile} in coordinate {at} from global to shared by cp_async async
        Wait K_shared
        Wait V_shared
        Compute GEMM Q_shared, K_shared{turn} and get S by m16n8k32
        Compute Cast S and get P
        Reshape P from {first} to {left}
        Compute GEMM P, V_shared{other} and get T by m16n8k32
        Compute Add O, T and get O
        Release K_shared
        Release V_shared
    end
    Release Q_shared
{store}end
"""


def draw(*shape):
    """Few terms of a sum are not 0: scores are whole numbers that two bits of fraction hold."""
    return random.integers(-1, 2, shape) * (random.random(shape) < 0.1)


def check(kind, type, gpu, out, warps, d, dv, bm, bn):
    pathlib.Path("k.tl").write_text(product(kind, type, gpu, out, warps, d, dv, bm, bn))
    keys = KEYS - 13 if kind == "chain" else KEYS
    q, k, v = draw(ROWS, d), draw(d, keys), draw(keys, dv)
    s = q @ k
    assert np.abs(s).max() <= 8
    arrays = {"Q": q, "K": k.T if kind == "chain" else k}
    want = np.where(np.arange(keys)[None] > np.arange(ROWS)[:, None] + 5, 3, s)
    if kind != "across":
        arrays["V"] = v if kind == "chain" else v.T
        want = s @ v
    for name, value in arrays.items():
        np.save(name + ".npy", np.ascontiguousarray(value, dtype=np.float32))
    command = [FLASHTL, "run", "k.tl", "--on", "emulator", "--out", "O=O.npy"]
    done = subprocess.run(command + [word for name in arrays for word in ("--in", f"{name}={name}.npy")],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode == 3:
        print("fragments.py:", done.stderr.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"fragments.py: {kind} {type}: {done.stderr}")
    got = np.load("O.npy")
    got = (got.astype(np.uint32) << 16).view(np.float32) if got.dtype == np.uint16 else got
    if not np.array_equal(got, want):
        sys.exit(f"fragments.py: {kind} {type} {gpu} {out}, {warps} warps, {d} {dv} {bm} {bn}: "
                 f"{(got != want).mean():.3f} of the elements are wrong")


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    for case in (("chain", "e4m3", "l40s", "f32", 4, 64, 96, 64, 64), ("chain", "e5m2", "l40s", "f16", 2, 128, 48, 64, 96),
                 ("chain", "e4m3", "l40s", "bf16", 4, 32, 128, 64, 32), ("chain", "e4m3", "l40s", "f16", 1, 96, 80, 32, 64),
                 ("chain", "e5m2", "l40s", "f32", 2, 64, 16, 32, 32), ("chain", "e4m3", "rtx-5090", "f32", 4, 64, 96, 64, 64),
                 ("across", "e4m3", "l40s", "f32", 4, 64, 0, 64, 96), ("across", "e5m2", "l40s", "f16", 2, 96, 0, 64, 32),
                 ("across", "e4m3", "l40s", "bf16", 1, 32, 0, 16, 128), ("both", "e4m3", "l40s", "f32", 4, 64, 48, 64, 64),
                 ("both", "e5m2", "l40s", "f32", 2, 128, 64, 64, 96)):
        check(*case)
print("right")
