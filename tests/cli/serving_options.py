#!/usr/bin/env python3
"""What engines ask of varlen and decode beside plain attention, against NumPy: sinks, biases, slopes, padding before the first key,
windows of two sides, chunks; and latent decoding. Keys that no sequence has are NaN, biases are as long as the longest sequence.
serving_options.py FLASHTL [interpreter] [GPU ...]; exit status 77 without NumPy."""
import os
import pathlib
import sys

try:
    import numpy as np
except ImportError:
    print("serving_options.py: NumPy is not here")
    sys.exit(77)

import on_arrays  # noqa: E402

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

flashtl, machines = os.path.abspath(sys.argv[1]), sys.argv[2:]
random = np.random.default_rng(11)
D, DV, SCALE, HEADS, KV_HEADS, PAGE = 64, 64, 0.15, 8, 2, 16
failures = checked = 0


def normal(*shape):
    return random.standard_normal(shape).astype(np.float16)


def attend(q, k, v, o, offset):
    """q (heads, n, d), k and v (kv_heads, keys, d); o: this sequence's options. The rows and their log-sum-exp."""
    group, n, keys = q.shape[0] // k.shape[0], q.shape[1], k.shape[1]
    k, v = (np.repeat(x.astype(np.float64), group, axis=0) for x in (k, v))
    s = np.einsum("hqd,hkd->hqk", q.astype(np.float64), k) * SCALE
    place, key = np.arange(n)[:, None] + offset, np.arange(keys)
    if "alibi" in o:
        s -= o["alibi"][:, None, None] * np.abs(key - place)
    if "bias" in o:
        s += o["bias"][:, :, :keys]
    first = o.get("padding", 0)
    seen = np.broadcast_to(key >= first, (n, keys)).copy()
    if "causal" in o:
        seen &= key <= place
    if "window" in o:
        seen &= key > place - o["window"]
        seen &= key < place + o["window"]
    if "sides" in o:
        seen &= key > place - o["sides"][0]
        seen &= key < place + o["sides"][1]
    if "chunk" in o:
        seen &= (key - first) // o["chunk"] == (place - first) // o["chunk"]
    s = np.where(seen, s, -np.inf)
    if "sinks" in o:
        s = np.concatenate([s, np.broadcast_to(o["sinks"][:, None, None], (*s.shape[:2], 1))], axis=-1)
        v = np.concatenate([v, np.zeros((v.shape[0], 1, v.shape[2]))], axis=1)
    rows, lse = on_arrays.weigh(s, v)
    if "sinks" in o:
        lse = np.maximum(lse, -1e30)  # a sink of minus infinity is none, and finite
    return rows, lse


def judge(what, got, error, wanted, most=1e-3):
    global failures, checked
    checked += 1
    if got is None:
        failures += 1
        return print(f"FAILED {what}: {error}")
    for one, right in zip(got, wanted):
        one, held = one.astype(np.float64), np.isfinite(right)
        if one.shape != right.shape or not np.array_equal(one[~held], right[~held]):
            failures += 1
            return print(f"FAILED {what}: the shapes or the infinities differ")
        off = np.linalg.norm(one[held] - right[held]) / max(np.linalg.norm(right[held]), 1e-30)
        if not off <= most:
            failures += 1
            return print(f"FAILED {what}: relative rms {off:.2e}")


def pools_of(keys, heads, widths):
    """Rows of sequences in pages of two pools, a table of them, NaN elsewhere; entries past a sequence's last page are no page."""
    most = max(1, -(-max(len(k[0]) for k in keys) // PAGE))
    count = len(keys) * most + 2
    table = random.permutation(count)[:len(keys) * most].reshape(len(keys), most).astype(np.int32)
    pools = [np.full((count, PAGE, heads, width), np.nan, np.float16) for width in widths]
    for b, rows in enumerate(keys):
        for pool, x in zip(pools, rows):
            for i in range(len(x)):
                pool[table[b, i // PAGE], i % PAGE] = x[i]
        table[b, -(-len(rows[0]) // PAGE):] = 2147480000
    return pools, table


def given_of(o, count, shape, longest):
    """The Inputs that the options bring, and the options of each sequence."""
    given, of = {}, [dict(o) for _ in range(count)]
    if "sinks" in o:
        given["sink"] = random.uniform(-3, 3, HEADS).astype(np.float32)
        given["sink"][0] = -np.inf
    if "alibi" in o:
        given["slope"] = random.uniform(0, 0.1, HEADS).astype(np.float32)
    if "bias" in o:
        given["bias"] = random.standard_normal((*shape, longest)).astype(np.float32)
    if "padding" in o:
        given["padding"] = np.array(o["padding"], np.int32)
    if "sides" in o:
        given["before"] = o["sides"][0]
        if "causal" not in o:
            given["after"] = o["sides"][1]
    for b in range(count):
        for name, key in ("sinks", "sink"), ("alibi", "slope"):
            if name in o:
                of[b][name] = given[key].astype(np.float64)
        if "padding" in o:
            of[b]["padding"] = o["padding"][b]
    return given, of


WITH = {"causal": "causal", "sinks": "sinks", "alibi": "alibi", "bias": "bias", "padding": "padded", "sides": "sides", "first": "first"}


def arguments(where, operator, o, more):
    chosen = [x for name, text in WITH.items() if name in o for x in ("--with", text)]
    chosen += [x for name in ("chunk", "window") if name in o for x in ("--with", f"{name}={o[name]}")]
    return ["--op", operator, *chosen, *more, *where, "--lse"]


def decode(where, o, lengths, q_len, splits):
    """Without splits: by one kernel."""
    keys = [(normal(n, KV_HEADS, D), normal(n, KV_HEADS, DV)) for n in lengths]
    q, (pools, table) = normal(len(lengths), HEADS, q_len, D), pools_of(keys, KV_HEADS, (D, DV))
    given, of = given_of(o, len(lengths), (len(lengths), HEADS, q_len), max(lengths))
    wanted = []
    for b, (k, v) in enumerate(keys):
        if "bias" in o:
            of[b]["bias"] = given["bias"][b].astype(np.float64)
        wanted.append(attend(q[b], k.transpose(1, 0, 2), v.transpose(1, 0, 2), of[b], lengths[b] - q_len))
    given |= {"Q": q, "K": pools[0], "V": pools[1], "table": table, "kv_lens": np.array(lengths, np.int32), "scale": SCALE} | ({"splits": splits} if splits else {})
    more = ["--with", f"page_len={PAGE}", "--with", f"group={HEADS // KV_HEADS}", "--head-dim", str(D)]
    got, error = on_arrays.run(flashtl, arguments(where, "decode" if splits else "paged_decode", o, more), given, ["O", "lse"])
    judge(f"decode {o}, {q_len} of {lengths} keys, {splits} splits on {where}", got, error, [np.stack([w[i] for w in wanted]) for i in range(2)])


def latent(where, o, heads, lengths, q_len, splits, d, dv, columns):
    """Values are the first columns of the keys, which all heads share."""
    keys = [(normal(n, 1, d),) for n in lengths]
    q, (pools, table) = normal(len(lengths), heads, q_len, d), pools_of(keys, 1, (d,))
    wanted = [attend(q[b], k.transpose(1, 0, 2), k[:, :, :dv].transpose(1, 0, 2), o, lengths[b] - q_len) for b, (k,) in enumerate(keys)]
    given = {"Q": q, "K": pools[0], "table": table, "kv_lens": np.array(lengths, np.int32), "splits": splits, "scale": SCALE}
    more = ["--with", "latent", "--with", f"page_len={PAGE}", "--with", f"group={heads}", "--head-dim", f"{d}:{dv}", "--with", f"columns={columns}"]
    got, error = on_arrays.run(flashtl, arguments(where, "decode", o, more), given, ["O", "lse"])
    judge(f"latent {o}, {heads} heads, {q_len} of {lengths} keys, {splits} splits on {where}", got, error,
          [np.stack([w[i] for w in wanted]) for i in range(2)])


def varlen(where, o, queries, lengths, is_paged):
    keys = [(normal(n, KV_HEADS, D), normal(n, KV_HEADS, DV)) for n in lengths]
    starts = np.concatenate([[0], np.cumsum(queries)]).astype(np.int32)
    q = normal(starts[-1], HEADS, D)
    given, of = given_of(o, len(lengths), (HEADS, starts[-1]), max(lengths))
    wanted = [np.zeros((starts[-1], HEADS, DV)), np.zeros((starts[-1], HEADS))]
    for b, (k, v) in enumerate(keys):
        rows = slice(starts[b], starts[b + 1])
        if "bias" in o:
            of[b]["bias"] = given["bias"][:, rows].astype(np.float64)
        offset = 0 if "first" in o else lengths[b] - queries[b]
        one, lse = attend(q[rows].transpose(1, 0, 2), k.transpose(1, 0, 2), v.transpose(1, 0, 2), of[b], offset)
        wanted[0][rows], wanted[1][rows] = one.transpose(1, 0, 2), lse.transpose(1, 0)
    given |= {"Q_all": q, "q_start": starts, "max_q_len": max(queries), "scale": SCALE}
    if is_paged:
        pools, table = pools_of(keys, KV_HEADS, (D, DV))
        given |= {"K_pool": pools[0], "V_pool": pools[1], "table": table, "kv_lens": np.array(lengths, np.int32)}
    else:
        k_all, v_all = (np.concatenate([rows[i] for rows in keys]) for i in range(2))
        given |= {"K_all": k_all, "V_all": v_all, "kv_start": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)}
    more = ["--with", "paged", "--let", f"page_len={PAGE}"] if is_paged else []
    got, error = on_arrays.run(flashtl, arguments(where, "varlen", o, [*more, "--head-dim", str(D)]), given, ["O_all", "lse_all"])
    judge(f"varlen {o}, {queries} of {lengths} keys, {'pages' if is_paged else 'rows'} on {where}", got, error, wanted)


LENGTHS = [130, 0, 1, 300, 33, 64]
PADDING = [7, 0, 0, 150, 33, 64]  # the last two are nothing else
ALL = [{"sinks"}, {"bias"}, {"alibi"}, {"padding": PADDING}, {"sides": (20, 3)}, {"sides": (1 << 30, 5)}, {"chunk": 48},
       {"causal", "chunk"}, {"causal", "sides"}, {"causal", "alibi", "window"},
       {"sinks", "bias", "padding", "sides", "chunk"}, {"causal", "sinks", "padding", "chunk", "alibi"}]
VALUES = {"padding": PADDING, "sides": (100, 30), "chunk": 50, "window": 40}


def options(of):
    return of if isinstance(of, dict) else {name: VALUES.get(name, True) for name in sorted(of)}


CASES = []
for i, o in enumerate(map(options, ALL)):
    CASES += [(decode, o, LENGTHS, 1 + 2 * (i % 2), (1, 3, 8)[i % 3]), (decode, o, LENGTHS, 3 - 2 * (i % 2), 0), (varlen, o, [5, 3, 1, 140, 0, 9], LENGTHS, i % 2 == 0)]
    if i % 3 == 0:
        CASES.append((varlen, {"first": True, **o}, [5, 3, 1, 140, 0, 9], LENGTHS, i % 2 == 1))
CASES += [(latent, {}, 16, [130, 0, 1, 75], 1, 3, 576, 512, 256), (latent, {"causal": True}, 40, [70, 3], 2, 2, 96, 64, 32)]
# All of a latent row's values: two warpgroups share them, where the GPU has such.
SHARED = [(latent, {}, 16, [130, 0, 1, 75], 1, 3, 576, 512, 512), (latent, {"causal": True}, 40, [70, 3, 150], 2, 2, 384, 320, 320),
          (latent, {}, 128, [129, 64], 1, 1, 576, 512, 512)]
taken = sampled((machine, case) for machine in machines for case in CASES + (SHARED if machine == "h200" else []))
for machine, (test, *values) in taken:
    test(["--on", "interpreter"] if machine == "interpreter" else ["--gpu", machine, "--on", "emulator"], *values)
print(f"{checked} checked, {failures} failed")
sys.exit(failures > 0 or checked < len(taken))
