#!/usr/bin/env python3
"""The bounds of evaluate.py where a function is discontinuous: what may lie on either side is not compared, and all else is."""
import pathlib
import sys
import types

try:
    import numpy as np
except ImportError:
    print("bounds.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge
import noise
import tree as t
from arithmetic import Held, binary, unary
from evaluate import Evaluation
from tile_values import TileValues

INF, NAN = np.inf, np.nan
# Operation, value and bound of both factors, whether the result is compared.
ROWS = (
    ("Multiply", 0.001, 0.01, INF, 0, False), ("Multiply", -0.001, 0.01, INF, 0, False), ("Multiply", INF, 0, -0.001, 0.001, False),
    ("Multiply", 0.02, 0.01, INF, 0, True), ("Multiply", INF, 0, -0.02, 0.01, True), ("Multiply", 0, 0, INF, 0, False),
    ("Multiply", 0.001, 0.01, 3, 0, True), ("Multiply", 1, 0, INF, INF, False),
    ("Max", -INF, INF, 0, 0, False), ("Max", 0, 0, -INF, INF, False), ("Max", -INF, 0, 0, 0, True), ("Max", INF, INF, 0, 0, False),
    ("Min", INF, INF, 0, 0, False), ("Min", 0, 0, INF, INF, False), ("Min", INF, 0, 0, 0, True), ("Max", -5, INF, 0, 0, False),
    ("Divide", 1, 0, 0.001, 0.01, False), ("Divide", 1, 0, 0.02, 0.01, True), ("Divide", INF, 0, 0.001, 0.01, False),
    ("Add", INF, 0, -INF, 0, False), ("Add", INF, 0, 1, 0, True), ("Subtract", INF, 0, INF, 0, False),
)
failures = 0
with np.errstate(all="ignore"):
    for op, a, ea, b, eb, compared in ROWS:
        v, e = binary(op, *(np.array([float(x)]) for x in (a, ea, b, eb)))
        if bool(np.isfinite(e[0]) and not np.isnan(v[0])) != compared:
            failures += 1
            print(f"{op} of {a} within {ea} and {b} within {eb} is {v[0]} within {e[0]}: {'not ' if compared else ''}compared")
    for op, v, e, most in (("Tanh", 0.01, 0, 2e-8), ("Tanh", 0.1, 0, 5e-7), ("Tanh", 0.049, 0.002, 2.5e-3), ("Erf", 0.1, 0, 2e-7), ("Erf", 2, 0, 6e-7),
                           ("Sqrt", 0, 1e-4, 0.0101), ("Log", 0.01, 0.02, INF), ("Reciprocal", 0.01, 0.02, INF),
                           ("Erfc", -9, INF, INF), ("Erfc", -1, 4, 2), ("Tanh", 1, INF, INF),
                           ("Sin", 1, 0, 5e-7), ("Sin", 1, 0.01, 0.0101), ("Sin", 1, 100, 2.01), ("Sin", 1, INF, INF)):
        bound = unary(op, np.array([float(v)]), np.array([float(e)]))[1][0]
        if not most / 3 <= bound <= most:
            failures += 1
            print(f"{op} of {v} within {e}: the bound is {bound}, not about {most}")

# Weights below a given maximum lie where f16 has few digits, or none: exp(-20 - 3) is 0 there, exp(-2 - 3) is not.
q, kv, d = t.axis("q", "q_len"), t.axis("kv", "kv_len"), t.axis("d")
for score, given, most in ((-20.0, 3, INF), (-2.0, 3, 1e-2), (-20.0, None, 1e-2)):
    fills = [t.Compute("Fill", [t.Number(x)], name, axes=("q",)) for x, name in ((given, "m"), (0, "l"))] if given is not None else []
    body = fills + [t.Copy("Q", "global", "shared"), t.Loop("j", t.Name("kv_len"), "BN", [
        t.Copy("K", "global", "shared"), t.Compute("GEMM", [t.Tile("Q"), t.Tile("K", True)], "S"), t.Softmax("S", "m", "l"),
        t.Compute("GEMM", [t.Tile("S"), t.Tile("K")], "O", True)]), t.Copy("O", "register", "global", "R")]
    tensors = [t.Tensor("Q", "f16", [], [q, d]), t.Tensor("K", "f16", [], [kv, d]), t.Tensor("R", "f32", [], [q, d], output=True)]
    arrays = {"Q": np.full((1, 16), score / 16), "K": np.ones((4, 16))}
    program = t.Program("given", [t.Kernel("given", tensors, body)], {"d": 16}, "f16", {})
    v, e = Evaluation(program, arrays, {}, {"q_len": 1, "kv_len": 4, "d": 16}).evaluate()
    bound = e["R"].max()
    if abs(v["R"][0, 0] - 1) > 1e-9 or not (bound <= most if np.isfinite(most) else bound >= 1):
        failures += 1
        print(f"scores of {score} below a maximum of {given}: {v['R'][0, 0]} within {bound}")

# The places of the largest are not compared as far as one of them may move: past all that are equal and exact.
for values, errors, unknown in (((0, 0, 0, -1), (0, 0, 0, 0), 0), ((0, 0, 0, -1), (0.1, 0, 0, 0), 3), ((0, 0, -0.05, -1), (0, 0, 0.1, 0), 3),
                                ((3, 2, 1, 0), (0.1, 0.1, 0.1, 0.1), 0), ((3, 2, 1.9, 0), (0, 0.1, 0.1, 0), 2), ((-1, 0, 0, 0), (2, 0, 0, 0), 4)):
    held = types.SimpleNamespace(tiles={"S": Held(("q", "kv"), np.array([values], float), np.array([errors], float))}, near=None,
                                 expression=lambda many, near: types.SimpleNamespace(v=4))
    found = np.isinf(TileValues.largest(held, t.Tile("S"), t.Name("many")).e).sum()
    if found != unknown:
        failures += 1
        print(f"the largest of {values}, off by {errors}: {found} places are unknown, not {unknown}")

# Weights that are rounded to e4m3 are within their noise, element by element and all together; a lost tile, a row of
# another key, a scale that is missing for some keys and weights of half the digits are not.
def rounded(w, bits=3):
    step = np.exp2(np.maximum(np.frexp(w)[1] - 1, -6) - bits)
    return np.round(w / step) * step


FAULTS = {                      # and in how many of the draws below each has to be found
    "nothing": (0, lambda w, v: (rounded(w), v)),
    "a tile is lost": (5, lambda w, v: (rounded(w) * (np.arange(w.shape[1]) // 16 != 5), v)),
    "two rows are exchanged": (4, lambda w, v: (rounded(w), v[np.r_[1, 0, 3, 2, 5, 4, 7, 6, 8:len(v)]])),   # of equal weights: the same
    "a block has no scale": (5, lambda w, v: (rounded(w), v * np.where(np.arange(len(v)) < 32, 1.4, 1)[:, None])),
    "two bits are lost": (2, lambda w, v: (rounded(w, 1), v)),
}
random = np.random.default_rng(1)
for name, (count, fault) in FAULTS.items():
    found = 0
    for spread, mean, kinds in ((1.0, 0.0, 0), (3.0, 1.0, 0), (1.0, 1.0, 0), (0.0, 1.0, 0), (2.0, 2.0, 3)):
        s, v = random.standard_normal((64, 256)) * spread, random.standard_normal((256, 32)) + mean
        s = np.round(s * kinds) / kinds if kinds else s         # few kinds of scores: many weights are equal
        w = np.exp(s - s.max(-1, keepdims=True))
        p = w / w.sum(-1, keepdims=True)
        exact, e = p @ v, noise.of_weights(p, v, "e4m3") + noise.cut(p, v)
        w = w * np.exp2(random.uniform(7, 8, (64, 1)))          # where the maximum stands in its octave
        weights, values = fault(w, v)
        got = weights @ values / rounded(w, 1 if name == "two bits are lost" else 3).sum(-1, keepdims=True)
        found += bool(judge.differs(got, exact, e, "f32")[0] or judge.scattered(got, exact, e, "f32"))
    if not count <= found <= (5 if count else 0):
        failures += 1
        print(f"{name}: found {found} times in the noise of 8 bits, not {count}")
sys.exit(failures > 0)
