#!/usr/bin/env python3
"""Few queries over many keys against NumPy: groups of 1 to 16 heads, any number of splits, sequences of 0 and 1 keys and longer ones,
pages that a table names beside pages of NaN that nobody does; and a sequence's bits are the same in any batch.
decode_programs.py FLASHTL [GPU ...]; exit status 77 without NumPy."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("decode_programs.py: NumPy is not here")
    sys.exit(77)

import on_arrays  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

flashtl, gpus = os.path.abspath(sys.argv[1]), sys.argv[2:]
random = np.random.default_rng(7)
D, SCALE = 64, 0.15
failures = checked = 0


def normal(*shape):
    return random.standard_normal(shape).astype(np.float16)


def run(where, options, splits, given, names):
    """'splits': how many of each sequence, or (spare, least) of stretches, for which there is memory for two too many."""
    arguments = ["--op", "decode", *options, "--head-dim", str(D)]
    if not isinstance(splits, tuple):
        return on_arrays.run(flashtl, [*arguments, *where], {"splits": splits, "scale": SCALE, **given}, names)
    batch, (spare, least) = len(given["kv_lens"]), splits
    numbers = {"spare": spare, "least": least, "items": spare + batch + 2, "ends": batch + 1, "scale": SCALE}
    arguments += ["--with", "stretches"]
    if "--gpu" not in where:
        return on_arrays.run(flashtl, [*arguments, *where], {**numbers, **given}, names)
    with tempfile.TemporaryDirectory() as folder:  # of known numbers of splits another kernel would be made
        code = os.path.join(folder, "code.tl")
        subprocess.run([flashtl, "reason", *arguments, *where[:2], "-o", code], check=True)
        return on_arrays.run(flashtl, [code, *where[2:]], {**numbers, **given}, names)


def attend(q, k, v, causal):
    """q (heads, n, d), k and v (kv_heads, keys, d): the rows and their log-sum-exp."""
    group, n, keys = q.shape[0] // k.shape[0], q.shape[1], k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=0) for x in (k, v))
    s = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k) * SCALE
    if causal:
        s = np.where(np.arange(keys) > np.arange(n)[:, None] + keys - n, -np.inf, s)
    return on_arrays.weigh(s, v)


def judge(what, got, error, wanted, most=1e-3):
    global failures, checked
    checked += 1
    if got is None:
        failures += 1
        print(f"FAILED {what}: {error}")
        return
    for one, right in zip(got, wanted):
        one = one.astype(np.float64)
        held = np.isfinite(right)
        if one.shape != right.shape or not np.array_equal(np.isfinite(one), held):
            failures += 1
            print(f"FAILED {what}: the shapes or the infinities differ")
            return
        off = np.linalg.norm(one[held] - right[held]) / max(np.linalg.norm(right[held]), 1e-30)
        if not off <= most and np.abs(one[held] - right[held]).max(initial=0) > 1e-6:
            failures += 1
            print(f"FAILED {what}: relative rms {off:.2e}")
            return


def stretched(where, group, q_len, kv_len, splits, causal):
    """All sequences as long as one another."""
    q, k, v = normal(2, 2 * group, q_len, D), normal(2, 2, kv_len, D), normal(2, 2, kv_len, D)
    wanted = [attend(q[b], k[b], v[b], causal) for b in range(2)]
    got, error = run(where, ["--lse", *["--causal"] * causal, "--with", f"group={group}"], splits, {"Q": q, "K": k, "V": v}, ["O", "lse"])
    judge(f"{q_len} of {kv_len} keys, {group} heads, {splits} splits on {where}", got, error,
          [np.stack([w[i] for w in wanted]) for i in range(2)])


def ragged(where, group, q_len, lengths, splits, page):
    """Each sequence of its own length, in room for 400 keys or in pages; what is no key is NaN."""
    batch, kv_heads, room = len(lengths), 2, 400
    q = normal(batch, kv_heads * group, q_len, D)
    keys = [(normal(kv_heads, n, D), normal(kv_heads, n, D)) for n in lengths]
    given = {"Q": q, "kv_lens": np.array(lengths, np.int32)}
    options = ["--lse", "--causal", "--with", f"group={group}", "--with", f"page_len={page}" if page else "lengths"]
    if page:
        most = -(-room // page)
        table = random.permutation(batch * most + 3)[:batch * most].reshape(batch, most).astype(np.int32)
        pools = [np.full((batch * most + 3, page, kv_heads, D), np.nan, np.float16) for _ in range(2)]
        for b, n in enumerate(lengths):
            for i in range(n):
                for pool, x in zip(pools, keys[b]):
                    pool[table[b, i // page], i % page] = x[:, i]
            table[b, -(-n // page):] = 0  # as engines leave it
        given |= {"K": pools[0], "V": pools[1], "table": table}
    else:
        wide = [np.full((batch, kv_heads, room, D), np.nan, np.float16) for _ in range(2)]
        for b, n in enumerate(lengths):
            for x, one in zip(wide, keys[b]):
                x[b, :, :n] = one
        given |= {"K": wide[0], "V": wide[1]}
    wanted = [attend(q[b], *keys[b], True) for b in range(batch)]
    got, error = run(where, options, splits, given, ["O", "lse"])
    what = f"lengths {lengths}, {group} heads, {splits} splits, pages {page} on {where}"
    judge(what, got, error, [np.stack([w[i] for w in wanted]) for i in range(2)])
    return given, options, got, what


def alone(where, given, options, got, splits, what):
    """The last sequence by itself has the bits that it has in the batch, and so it has a second time."""
    global failures, checked
    checked += 1
    shared = ("K", "V") if "table" in given else ()
    one = {name: x if name in shared else x[-1:] for name, x in given.items()}
    for _ in range(2):
        again, error = run(where, options, splits, one, ["O", "lse"])
        if again is None or any(a.tobytes() != g[-1:].tobytes() for a, g in zip(again, got)):
            failures += 1
            print(f"FAILED alone: {what}: {error or 'other bits'}")
            return


def no_split():
    """Without a split nothing would be attended to: the launch refuses it, as TL Code leaves it open."""
    global failures, checked
    checked += 1
    with tempfile.TemporaryDirectory() as folder:
        code = os.path.join(folder, "code.tl")
        subprocess.run([flashtl, "reason", "--op", "decode", "--head-dim", str(D), "--gpu", "a100", "-o", code], check=True)
        command = [flashtl, "run", code, "--on", "interpreter", "--let", f"scale={SCALE},splits=0", "--out", f"O={folder}/O.npy"]
        for name, x in {"Q": normal(1, 4, 1, D), "K": normal(1, 1, 9, D), "V": normal(1, 1, 9, D)}.items():
            np.save(f"{folder}/{name}.npy", x)
            command += ["--in", f"{name}={folder}/{name}.npy"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 1 or "splits > 0" not in done.stderr:
            failures += 1
            print(f"FAILED no split: {done.returncode} {done.stderr.strip()}")


def in_any_batch(where, group, q_len, splits, page):
    given, options, got, what = ragged(where, group, q_len, [130, 0, 1, 400, 33, 64], splits, page)
    if got is not None:
        alone(where, given, options, got, splits, what)


CASES = [
    *[(stretched, group, 1, kv_len, splits, False)
      for group, kv_len, splits in ((1, 333, 3), (4, 150, 1), (8, 65, 5), (16, 1, 2), (16, 130, 4), (4, 0, 3))],
    (stretched, 4, 5, 200, 2, True),
    (stretched, 8, 3, 2, 2, True),
    *[(in_any_batch, group, q_len, splits, page) for page in (0, 16) for group, q_len, splits in ((4, 1, 3), (8, 2, 7))],
    *[(ragged, 4, 1, [5, 70, 290], 2, page) for page in (1, 2, 3, 4, 8, 24, 48, 64, 256)],
    *[(ragged, group, q_len, lengths, (spare, least), page)
      for group, q_len, lengths, spare, least, page in (
          (4, 1, [5, 70, 290], 9, 1, 16), (4, 1, [130, 0, 1, 400, 33, 64], 1, 1, 16), (8, 3, [130, 0, 1, 400, 33, 64], 30, 1, 0),
          (4, 1, [130, 0, 1, 400, 33, 64], 30, 2, 48), (2, 1, [0, 0, 0], 4, 1, 16), (16, 1, [400], 7, 1, 64),
          (1, 2, [64 * (i % 5 == 0) + i % 3 for i in range(130)], 12, 1, 16), (4, 1, [64, 128, 192, 256], 10, 1, 16))],
]
no_split()
taken = sampled((where, case) for where in [["--on", "interpreter"]] + [["--gpu", gpu, "--on", "emulator"] for gpu in gpus] for case in CASES)
for where, (test, *values) in taken:
    test(where, *values)
print(f"{checked} checked, {failures} failed")
sys.exit(failures > 0 or checked <= len(taken))
