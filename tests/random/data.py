"""The lengths, numbers and arrays of a case. Everything follows from the program and a seed."""
import numpy as np

import evaluate
import tree as t
from arithmetic import Meaningless


WHOLE = {"i8": (-128, 127), "i4": (-8, 7), "u4": (0, 15)}


def round_to(type, v):
    """The nearest numbers that a type holds."""
    v = np.asarray(v, np.float64)
    if type == "f16":
        return np.clip(v, -65504, 65504).astype(np.float16).astype(np.float64)
    if type == "bf16":
        return bf16_bits(v).astype(np.uint32).__lshift__(16).view(np.float32).astype(np.float64)
    if type in WHOLE:
        return np.clip(np.rint(v), *WHOLE[type])
    if type == "i32":
        return v.astype(np.int32).astype(np.float64)
    if type in ("e4m3", "e5m2"):
        bits, low, high = (3, -6, 448.0) if type == "e4m3" else (2, -14, 57344.0)
        _, exponent = np.frexp(v)
        step = np.exp2(np.maximum(exponent - 1, low) - bits)
        return np.clip(np.round(v / step) * step, -high, high)
    return v.astype(np.float32).astype(np.float64)


def bf16_bits(v):
    bits = np.atleast_1d(np.asarray(v, np.float32)).view(np.uint32)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return rounded.reshape(np.shape(v))


def as_file(type, v):
    """The array that `flashtl run` reads: NumPy has no bf16, so its bits."""
    if type == "bf16":
        return bf16_bits(v)
    return np.asarray(v).astype({"f16": np.float16, "i32": np.int32}.get(type, np.float32))


def from_file(type, a):
    if type == "bf16" and a.dtype == np.uint16:
        return (a.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return a.astype(np.float64)


class Case:
    """Lengths by name, numbers by name, arrays by name (float64, or int64 for tables)."""

    def __init__(self, program, seed, lengths=None):
        self.random = np.random.default_rng(seed)
        self.program, self.lengths, self.scalars, self.arrays = program, {}, {}, {}
        for name, spec in program.lengths.items():
            self.lengths[name] = self.length(spec)
            if lengths and name in lengths:
                self.lengths[name] = lengths[name]
        for d in program.tensors():
            if not d.output:
                self.draw(d)

    def length(self, spec):
        kind = spec[0]
        if kind == "fixed":
            return spec[1]
        if kind == "pick":
            return int(self.random.choice(spec[1]))
        if kind == "times":
            return self.lengths[spec[1]] * spec[2]
        if kind == "plus":
            return self.lengths[spec[1]] + spec[2]
        if kind == "parts":
            return -(-self.lengths[spec[1]] // spec[2]) + spec[3]
        raise ValueError(kind)

    def value(self, e):
        """A length or a bound, known before any array is."""
        return int(evaluate.Evaluation.expression(self.bare(), t.tree(e), {}).v)

    def bare(self):
        e = evaluate.Evaluation.__new__(evaluate.Evaluation)
        e.lets = {d.name: d.value for d in self.program.declarations if isinstance(d, t.Let)}
        e.lengths, e.scalars, e.tensors = self.lengths, self.scalars, {}
        return e

    def draw(self, d):
        r, kind = self.random, d.fill[0]
        if not d.matrix:
            value = self.number(d)
            self.scalars[d.name] = int(value) if d.type == "i32" else float(np.float32(value))
            return
        shape = tuple(self.value(a.length) for a in d.axes)
        if kind == "normal":
            v = r.standard_normal(shape) * d.fill[1] + d.fill[2]
        elif kind == "integers":
            v = r.integers(d.fill[1], d.fill[2] + 1, shape)
        elif kind == "uniform":
            v = r.uniform(d.fill[1], d.fill[2], shape)
        elif kind == "peaks":                       # a few rows weigh much more
            v = r.standard_normal(shape) * d.fill[1]
            rows = r.random(shape[:-1] + (1,)) < 0.03
            v = np.where(rows, v * d.fill[2], v)
        elif kind == "ramp":                        # rows grow along their axis
            v = r.standard_normal(shape) * d.fill[1]
            n = max(1, shape[-2] if len(shape) > 1 else 1)
            v = v * (1 + d.fill[2] * np.arange(n) / n)[:, None] if len(shape) > 1 else v
        elif kind == "lengths":                     # 0 ... a bound, both ends often
            high = self.value(d.fill[2])
            low = min(d.fill[1], high)
            v = r.integers(low, high + 1, shape)
            pick = r.random(shape)
            v = np.where(pick < 0.15, low, np.where(pick > 0.75, high, v))
        elif kind == "below":                       # indices of an axis
            high = self.value(d.fill[1])
            if high < 1 and int(np.prod(shape)):
                raise Meaningless("an index of an axis without elements")
            v = r.integers(0, max(1, high), shape)
        elif kind == "distinct":                    # of an axis, each at most once
            n = shape[-1] if shape else 0
            places = max(n, self.value(d.fill[1]))
            v = np.argsort(r.random(shape[:-1] + (places,)), axis=-1)[..., :n]
        elif kind == "starts":                      # never fall, and end within the axis
            high = self.value(d.fill[1])
            v = np.sort(r.integers(0, high + 1, shape), axis=-1)
            if v.size:                              # all is somebody's: every element of an Output is written
                v[..., 0] = 0
                v[..., -1] = high
        else:
            raise ValueError(kind)
        type = d.type or self.program.dtype
        if type == "i32":
            self.arrays[d.name] = np.asarray(v).astype(np.int64).reshape(shape)
        else:
            self.arrays[d.name] = round_to(type, v).reshape(shape)

    def number(self, d):
        r, kind = self.random, d.fill[0]
        if kind == "normal":
            return r.standard_normal() * d.fill[1] + d.fill[2]
        if kind == "choice":
            return d.fill[1][int(r.integers(len(d.fill[1])))]
        if kind == "integers":
            return r.integers(d.fill[1], d.fill[2] + 1)
        raise ValueError(kind)
