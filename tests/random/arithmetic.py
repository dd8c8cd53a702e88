"""Numbers with a bound of the error that a kernel may make, and what operations make of them."""
import math

import numpy as np

EPSILON = {"f16": 2.0 ** -11, "bf16": 2.0 ** -8, "f32": 2.0 ** -23, "tf32": 2.0 ** -11, "e4m3": 2.0 ** -4, "e5m2": 2.0 ** -3,
           "i8": 0.0, "i4": 0.0, "u4": 0.0, "i32": 0.0}
SMALLEST = {"f16": 2.0 ** -24, "bf16": 2.0 ** -126, "f32": 2.0 ** -126, "tf32": 2.0 ** -126, "e4m3": 2.0 ** -9,
            "e5m2": 2.0 ** -16, "i8": 0.5, "i4": 0.5, "u4": 0.5, "i32": 0.0}
LARGEST = {"f16": 65504.0, "bf16": 3e38, "f32": 3e38, "tf32": 3e38, "e4m3": 448.0, "e5m2": 57344.0, "i8": 127.0, "i4": 7.0, "u4": 15.0, "i32": 2.0 ** 31}
BYTES = ("e4m3", "e5m2", "i8", "i4", "u4")
ONE = 2.0 ** -22                # of an operation in f32: its rounding, and that of an approximation
TINY = 1e-37


class Meaningless(Exception):
    """The generator made something that has no meaning: its own fault."""


class Value:
    """Numbers, a bound of their errors, and what division makes of them: extent, index or real."""

    def __init__(self, v, e=0.0, kind="real"):
        self.v, self.e, self.kind = v, e, kind


class Held:
    """A tile: its axes by name, its values, the bounds of their errors, and the type it is stored in, if any.

    What is made of a softmax's weights is divided by the sum of a row late: until then it is larger, by 'rise' at most.
    """

    rise = 1.0

    def __init__(self, axes, v, e, type=None, is_weight=False):
        self.axes, self.v, self.e, self.type, self.is_weight = tuple(axes), v, e, type, is_weight
        self.memory = type                          # of what it is but for factors, which products may take later


def finite(v):
    return np.where(np.isfinite(v), np.abs(v), 0.0)


def settle(v, e):
    """Bounds become infinite where a number is none, or it or what it may be lies beyond what f32 holds."""
    e = np.where(np.isnan(v) | np.isnan(e) | ((np.abs(v) > 1e38) & np.isfinite(v)) | (e > 1e38), np.inf, e)
    return v, e


def rounded(v, e, rounding=ONE):
    return settle(v, e + finite(v) * rounding + TINY)


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x)


def erfc(x):
    return np.vectorize(math.erfc, otypes=[float])(x)


def from_code(v):
    """The e4m3 number of these bits, in proportion between two of them."""
    v = np.clip(np.nan_to_num(v, nan=0.0), 0, 126)
    step = np.maximum(np.floor(v / 8), 1)
    return np.exp2(step - 10) * (v - 8 * (step - 1))


def exponential(v, e, base=np.e):
    r = np.power(base, np.minimum(v, 2000))
    e = e + finite(v) * 2 * ONE
    small = r * np.expm1(np.minimum(e * math.log(base), 1))
    return rounded(r, np.where(e < 1, small, np.power(base, np.minimum(v + e, 2000)) - r), 4 * ONE)


def unary(op, v, e):
    """An operand that may be anything may be NaN, too: then so may the result, of bounded functions as well."""
    r, bound = of_operand(op, v, e)
    return r, np.where(np.isinf(e), np.inf, bound)


def of_operand(op, v, e):
    if op == "Cast":
        return v, e
    if op == "FromCode":
        r = from_code(v)
        return r, np.maximum(from_code(v + e) - r, r - from_code(v - e)) + r * ONE
    if op in ("Abs", "abs"):
        return np.abs(v), e
    if op in ("Exp", "exp"):
        return exponential(v, e)
    if op in ("Exp2", "exp2"):
        return exponential(v, e, 2.0)
    if op in ("Log", "log", "Log2", "log2"):
        f = np.log if op in ("Log", "log") else np.log2
        r = f(v)
        low = np.where(e < v, np.abs(r - f(np.maximum(v - e, 1e-300))), np.where(e == 0, 0, np.inf))
        return settle(r, low + finite(r) * 2 * ONE + 2 * ONE)
    if op == "Tanh":
        # A kernel's own error is relative where it sums a series, up to 0.05, and absolute from there on, where it takes
        # 1 - 2/(e^2v + 1): tests/exec/functions.py holds these bounds.
        own = np.where(np.abs(v) + e < 0.05, np.abs(v) * 1e-6, 4e-7)
        return settle(np.tanh(v), e * (1 - np.tanh(np.maximum(np.abs(v) - e, 0)) ** 2) + own)
    if op == "Sin":
        r = np.sin(v)
        return settle(r, np.minimum(e, 2) + np.abs(r) * 2 * ONE)
    if op == "Erf":                                     # a polynomial up to 1, 1 - erfc from there on
        return settle(erf(v), e * 1.13 + np.minimum(5e-7, np.abs(v) * 1e-6))
    if op == "Erfc":
        r = erfc(v)
        far = np.maximum(np.abs(erfc(v - e) - r), np.abs(erfc(v + e) - r))
        return settle(r, far + 1e-5 * r * (1 + v * v * 0.1) + TINY)
    if op == "Sqrt":
        r = np.sqrt(v)
        far = np.maximum(np.abs(r - np.sqrt(np.maximum(v - e, 0))), np.sqrt(np.maximum(v + e, 0)) - r)
        return settle(r, np.where(e == 0, 0.0, far) + finite(r) * 2 * ONE)
    if op in ("Rsqrt", "Reciprocal"):
        f = (lambda x: 1 / np.sqrt(x)) if op == "Rsqrt" else (lambda x: 1 / x)
        r = f(v)
        sign = np.sign(v)
        near = np.where(np.abs(v) > e, np.abs(f(v - sign * np.minimum(e, np.abs(v) * 0.999999)) - r), np.where(e == 0, 0, np.inf))
        return settle(r, near + finite(r) * 4 * ONE)
    raise Meaningless(op)


def binary(op, a, ea, b, eb):
    if op in ("Add", "+"):
        return rounded(a + b, ea + eb)
    if op in ("Subtract", "-"):
        return rounded(a - b, ea + eb)
    if op in ("Multiply", "*"):
        r = a * b
        e = finite(a) * eb + finite(b) * ea + ea * eb
        # The other factor's sign is that of an infinite product: one that may be 0, or of either sign, leaves it open.
        unknown = (np.isinf(b) & (np.abs(a) <= ea) & (ea > 0)) | (np.isinf(a) & (np.abs(b) <= eb) & (eb > 0))
        return rounded(r, np.where(unknown, np.inf, e))
    if op in ("Divide", "/"):
        r = a / b
        room = np.abs(b) - eb
        e = np.where(eb == 0, ea / np.abs(b), np.where(room > 0, (ea + finite(r) * eb) / np.where(room > 0, room, 1), np.inf))
        return rounded(r, e, 4 * ONE)
    if op in ("Max", "max"):
        # The error of one that lies below the other for certain is not seen (of −inf within inf nothing is certain).
        return settle(np.fmax(a, b), np.maximum(np.where(a + ea < b - eb, 0, ea), np.where(b + eb < a - ea, 0, eb)))
    if op in ("Min", "min"):
        return settle(np.fmin(a, b), np.maximum(np.where(a - ea > b + eb, 0, ea), np.where(b - eb > a + ea, 0, eb)))
    raise Meaningless(op)
