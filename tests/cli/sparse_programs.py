#!/usr/bin/env python3
"""Native sparse attention and attention to listed blocks against NumPy: prompts and single tokens, lengths that no block divides,
lists with repeated, missing, unsorted and out-of-range blocks. sparse_programs.py FLASHTL [GPU ...]; exit status 77 without NumPy."""
import os
import sys

try:
    import numpy as np
except ImportError:
    print("sparse_programs.py: NumPy is not here")
    sys.exit(77)

import on_arrays  # noqa: E402

flashtl, gpus = os.path.abspath(sys.argv[1]), sys.argv[2:]
random = np.random.default_rng(5)
BLOCK, GROUP, D, SCALE = 64, 16, 32, 0.2
failures = checked = 0


def normal(*shape):
    return random.standard_normal(shape).astype(np.float16)


def wide(x):
    return x.astype(np.float64)


def run(program, where, given, names):
    return on_arrays.run(flashtl, [*program, *where, "--head-dim", str(D)], given, names)


def judge(what, got, error, wanted, most=2e-3):
    global failures, checked
    checked += 1
    if got is None:
        failures += 1
        print(f"FAILED {what}: {error}")
        return
    for one, right in zip(got, wanted):
        one, right = wide(one), wide(right)
        if one.shape != right.shape or not np.array_equal(np.isfinite(one), np.isfinite(right)):
            failures += 1
            print(f"FAILED {what}: the shapes or the infinities differ")
            return
        held = np.isfinite(right)
        off = np.linalg.norm(one[held] - right[held]) / max(np.linalg.norm(right[held]), 1e-30)
        if not off <= most and np.abs(one[held] - right[held]).max(initial=0) > 1e-6:
            failures += 1
            print(f"FAILED {what}: relative rms {off:.2e}")
            return


def softmax(s):
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return e / np.where(total > 0, total, 1), (np.log(total) + np.where(np.isfinite(top), top, 0))[..., 0]


def means(x):
    count = -(-x.shape[2] // BLOCK)
    rows = np.minimum(np.arange(count)[:, None] * BLOCK + np.arange(BLOCK), x.shape[2] - 1)
    return wide(x)[:, :, rows].mean(3)


def attend(q, k, v, seen):
    """q (heads, n, d); k, v (heads, keys, d); seen (n, keys), or (heads, n, keys)."""
    p, lse = softmax(np.where(seen, np.einsum("hqd,hkd->hqk", wide(q), wide(k)) * SCALE, -np.inf))
    return p @ wide(v), lse


def selected(a, first):
    """Each entry of a list counts, a repeated one twice; one that names no block not at all."""
    q, k, v, chosen = a["Q"], a["K"], a["V"], a["chosen"]
    kv_len, out = k.shape[2], np.zeros(q.shape)
    for b, head, i in np.ndindex(*q.shape[:3]):
        h = head // GROUP
        keys = [n * BLOCK + s for n in chosen[b, h, i].tolist() if n >= 0 for s in range(BLOCK)
                if n * BLOCK + s < kv_len and n * BLOCK + s <= i + first]
        if keys:
            p, _ = softmax(wide(k[b, h, keys]) @ wide(q[b, head, i]) * SCALE)
            out[b, head, i] = p @ wide(v[b, h, keys])
    return out


def united(chosen, first, kv_len, quad):
    """What each `quad` neighbouring queries read: (block, how many times before) in order, and how much each sees of it."""
    batch, kv_heads, q_len, top = chosen.shape
    tiles, most = -(-q_len // quad), top * quad
    listed, seen = np.full((batch, kv_heads, tiles, most), -1, np.int32), np.zeros((batch, kv_heads, quad, tiles, most), np.int32)
    count = np.zeros((batch, kv_heads, tiles), np.int32)
    for b, h, tile in np.ndindex(batch, kv_heads, tiles):
        own = []
        for place in range(tile * quad, min((tile + 1) * quad, q_len)):
            found = [n for n in chosen[b, h, place].tolist() if 0 <= n < -(-kv_len // BLOCK) and n * BLOCK <= place + first]
            own.append({(n, found[:at].count(n)) for at, n in enumerate(found)})
        together = sorted(set().union(*own))
        count[b, h, tile] = len(together)
        for m, entry in enumerate(together):
            listed[b, h, tile, m] = entry[0]
            for i, entries in enumerate(own):
                if entry in entries:
                    seen[b, h, i, tile, m] = min(BLOCK, tile * quad + i + first + 1 - entry[0] * BLOCK, kv_len - entry[0] * BLOCK)
    return {"list": listed, "seen": seen, "count": count}


def shared(what, where, a, first, top, quad):
    """Both steps of blocks that neighbours share; rows past the last query are 0."""
    q_len, kv_len, settings = a["Q"].shape[2], a["K"].shape[2], ["--with", f"top={top},quad={quad}"]
    tables = united(a["chosen"], first, kv_len, quad)
    got, error = run(program("nsa_union", *settings), where, {"chosen": a["chosen"], "first": first, "kv_len": kv_len}, [*tables])
    judge(f"union {what}", got, error, [*tables.values()], 0)
    given = {name: a[name] for name in "QKV"} | tables | {"scale": SCALE}
    got, error = run(program("nsa_selected", "--with", f"shared,top={top},quad={quad}"), where, given, ["O_chosen"])
    room = -q_len % quad
    judge(f"shared {what}", got, error, [np.pad(selected(a, first), ((0, 0), (0, 0), (0, room), (0, 0)))])


def program(name, *options):
    return ["--op", name, *options]


def a_prompt(where, q_len, kv_len, kv_heads, top, span, quad):
    """All kernels, each of which is given what the ones before it have made."""
    what = f"{q_len} queries of {kv_len} on {where[1]}"
    first, heads, count = kv_len - q_len, kv_heads * GROUP, -(-kv_len // BLOCK)
    q, k, v = normal(1, heads, q_len, D), normal(1, kv_heads, kv_len, D), normal(1, kv_heads, kv_len, D)
    place, block = np.arange(q_len)[:, None] + first, np.arange(count)[None, :]
    many = lambda x: np.repeat(x, GROUP, axis=1)

    got, error = run(program("nsa_compress"), where, {"K": k}, ["K_mean"])
    judge(f"compress {what}", got, error, [means(k)])
    k_mean, v_mean = means(k).astype(np.float16), means(v).astype(np.float16)

    got, error = run(program("nsa_compressed"), where,
                     {"Q": q, "K_mean": k_mean, "V_mean": v_mean, "first": first, "scale": SCALE}, ["O_mean", "lse"])
    o_mean, lse = attend(q[0], many(k_mean)[0], many(v_mean)[0], (block + 1) * BLOCK <= place + 1)
    judge(f"compressed {what}", got, error, [o_mean[None], lse[None]])

    given = {"Q": q, "K_mean": k_mean, "lse": lse[None].astype(np.float32), "first": first, "scale": SCALE}
    got, error = run(program("nsa_scores", "--with", f"span={span}"), where, given, ["score"])
    s = np.einsum("hqd,hkd->hqk", wide(q[0]), wide(many(k_mean)[0])) * SCALE
    with np.errstate(invalid="ignore"):
        p = np.where((block + 1) * BLOCK <= place + 1, np.exp(s - lse[..., None]), 0)
    score = p.reshape(kv_heads, GROUP, q_len, count).sum(1)[None]
    judge(f"scores {what}", None if got is None else [got[0][:, :, :q_len]], error, [score])

    score = score.astype(np.float32)
    got, error = run(program("nsa_choose", "--with", f"top={top}"), where, {"score": score, "first": first}, ["chosen"])
    held = np.where((block == 0) | ((block + 2) * BLOCK > place), np.float32(1e30), score)
    held = np.where(block * BLOCK > place, -np.inf, held)
    order = np.argsort(-held, axis=-1, kind="stable")[..., :top]
    chosen = np.full((1, kv_heads, q_len, top), -1, np.int32)
    best = np.take_along_axis(held, order, -1)
    chosen[..., :order.shape[-1]] = np.where(best > -np.inf, order, -1)
    judge(f"choose {what}", got, error, [chosen], 0)

    a = {"Q": q, "K": k, "V": v, "chosen": chosen}
    got, error = run(program("nsa_selected", "--with", f"top={top}"), where, {**a, "first": first, "scale": SCALE}, ["O_chosen"])
    judge(f"selected {what}", got, error, [selected(a, first)])
    shared(what, where, a, first, top, quad)


def bad_lists(where, first):
    """What is no block, or a later one, is left out, what is listed twice counts twice, nothing at all gives 0."""
    q_len, kv_len = 6, 130
    q, k, v = normal(1, GROUP, q_len, D), normal(1, 1, kv_len, D), normal(1, 1, kv_len, D)
    chosen = np.array([[2, 0, 1, -1], [1, 1, 0, -1], [-1, -1, -1, -1], [3, 2147480000, -2147480000, 0],
                       [33554432, 33554433, 2, 2], [0, 2, 1, -7]], np.int32)[None, None]
    chosen = np.concatenate([chosen, np.full_like(chosen, -1)], -1)
    a = {"Q": q, "K": k, "V": v, "chosen": chosen}
    got, error = run(program("nsa_selected", "--with", "top=8"), where, {**a, "first": first, "scale": SCALE}, ["O_chosen"])
    judge(f"bad lists after {first} keys on {where[1]}", got, error, [selected(a, first)])
    if got is not None and np.any(got[0][0, :, 2] != 0):
        print(f"FAILED empty list on {where[1]}: not 0")
    shared(f"of bad lists after {first} keys on {where[1]}", where, a, first, 8, 4)


def block_sparse(where, causal):
    heads, kv_heads, q_len, kv_len = 4, 2, 128, 150
    q, k, v = normal(1, heads, q_len, D), normal(1, kv_heads, kv_len, D), normal(1, kv_heads, kv_len, D)
    start = np.array([0, 4, 4], np.int32)
    if causal:
        start = np.array([0, 1, 6], np.int32)
    column = np.array([2, 0, 0, -1, 1, 33554432, 2147480000, 5], np.int32)
    out = np.zeros(q.shape)
    for head, i in np.ndindex(heads, q_len):
        listed = column[start[i // BLOCK]:start[i // BLOCK + 1]].tolist()
        keys = [n * BLOCK + s for n in listed if n >= 0 for s in range(BLOCK)
                if n * BLOCK + s < kv_len and (not causal or n * BLOCK + s <= i + kv_len - q_len)]
        if keys:
            p, _ = softmax(wide(k[0, head // 2, keys]) @ wide(q[0, head, i]) * SCALE)
            out[0, head, i] = p @ wide(v[0, head // 2, keys])
    given = {"Q": q, "K": k, "V": v, "start": start, "column": column, "scale": SCALE}
    got, error = run(["--op", "block_sparse", *["--causal"] * causal], where, given, ["O"])
    judge(f"block_sparse {causal} on {where[1]}", got, error, [out])


def others(where):
    """The learned compression and the gates."""
    k, w, bias = normal(1, 2, 130, D), (normal(BLOCK, D, D) * 0.05).astype(np.float16), random.standard_normal(D).astype(np.float32)
    rows = np.minimum(np.arange(3)[:, None] * BLOCK + np.arange(BLOCK), 129)
    wanted = np.einsum("bhnse,sec->bhnc", wide(k)[:, :, rows], wide(w)) + bias
    got, error = run(program("nsa_compress", "--with", "learned"), where, {"K": k, "W": w, "bias": bias}, ["K_mean"])
    judge(f"learned on {where[1]}", got, error, [wanted])
    parts = {name: normal(1, 3, 37, D) for name in ("O_mean", "O_chosen", "O_near")}
    gates = {name: random.random((1, 3, 37)).astype(np.float32) for name in ("gate_mean", "gate_chosen", "gate_near")}
    wanted = sum(wide(x) * g[..., None] for x, g in zip(parts.values(), gates.values()))
    got, error = run(program("nsa_gate"), where, {**parts, **gates}, ["O"])
    judge(f"gate on {where[1]}", got, error, [wanted])


for where in [["--on", "interpreter"]] + [["--gpu", gpu, "--on", "emulator"] for gpu in gpus]:
    a_prompt(where, *((162, 162) if where[1] == "interpreter" else (35, 150)), 1, 16, 16, 4)
    a_prompt(where, 1, 777 if where[1] == "interpreter" else 333, 2, 8, 1, 8)
    for first in (124, 121):
        bad_lists(where, first)
    block_sparse(where, False)
    block_sparse(where, True)
    others(where)

# Lengths that a kernel does not take: a sentence.
for name, output, given, sentence in (
        ("nsa_union", "count", {"chosen": np.zeros((1, 1, 1, 16), np.int32), "first": 0, "kv_len": 8388609}, "kv_len <= 8388608"),
        ("block_sparse", "O", {"Q": normal(1, 1, 65, D), "K": normal(1, 1, 65, D), "V": normal(1, 1, 65, D),
                          "start": np.array([0, 1], np.int32), "column": np.zeros(1, np.int32), "scale": SCALE}, "q_len == 64*starts - 64"),
        ("nsa_selected", "O_chosen", {"Q": normal(1, 8, 1, D), "K": normal(1, 1, 64, D), "V": normal(1, 1, 64, D), "chosen": np.zeros((1, 1, 1, 16), np.int32),
                          "first": 63, "scale": SCALE}, "q_heads == group*kv_heads")):
    checked += 1
    got, error = run(program(name), ["--on", "interpreter"], given, [output])
    if got is not None or sentence not in error:
        failures += 1
        print(f"FAILED {name}: '{sentence}' is not what is said: {error}")
print(f"{checked} runs, {failures} failed")
sys.exit(failures > 0)
