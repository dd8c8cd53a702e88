"""What a sketch means, by NumPy in float64, with a bound of the error that a kernel may make.

Shares nothing with the compiler: a sketch is evaluated for each tuple of its parallel indices, tiles are whole
matrices with named axes, a loop over blocks is one pass over the whole axis, and a loop one by one is a loop.
Every value carries a bound of its absolute error, to first order, for arithmetic in f32 and for operands of products
that are rounded to 16 bits. An element whose bound is infinite (an overflow, a comparison of two numbers that cannot
be told apart) is not compared.
"""
import itertools
import math

import numpy as np

import noise
import tree as t

EPSILON = {"f16": 2.0 ** -11, "bf16": 2.0 ** -8, "f32": 2.0 ** -23, "tf32": 2.0 ** -11, "e4m3": 2.0 ** -4, "e5m2": 2.0 ** -3,
           "i8": 0.0, "i32": 0.0}
SMALLEST = {"f16": 2.0 ** -24, "bf16": 2.0 ** -126, "f32": 2.0 ** -126, "tf32": 2.0 ** -126, "e4m3": 2.0 ** -9,
            "e5m2": 2.0 ** -16, "i8": 0.5, "i32": 0.0}
LARGEST = {"f16": 65504.0, "bf16": 3e38, "f32": 3e38, "tf32": 3e38, "e4m3": 448.0, "e5m2": 57344.0, "i8": 127.0, "i32": 2.0 ** 31}
BYTES = ("e4m3", "e5m2", "i8")
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


class Evaluation:
    """One program on one set of arrays."""

    def __init__(self, program, arrays, scalars, lengths, narrow=()):
        """`narrow` are the kernels whose products take operands of 8 bits as they are: noise.py says how far they are off."""
        self.narrow = narrow
        self.program, self.arrays, self.scalars, self.lengths = program, dict(arrays), scalars, lengths
        self.doubts = {}                            # error bounds of arrays that an earlier kernel gave out
        self.outputs, self.errors = {}, {}

    def enter(self, kernel):
        """What the names of one kernel mean."""
        self.is_narrow = kernel.name in self.narrow
        self.body = kernel.body
        self.tensors = {d.name: d for d in kernel.declarations if isinstance(d, (t.Tensor, t.View))}
        self.lets = {d.name: d.value for d in kernel.declarations if isinstance(d, t.Let)}
        self.types = {d.name: d.type or self.program.dtype for d in kernel.declarations if isinstance(d, t.Tensor)}
        self.starts = zero_starts(kernel.body)
        self.mass, self.additions = {}, {}          # of Outputs that are accumulated: sums of sizes, how many terms
        added = {self.base(s.target).name for s in statements(kernel.body) if isinstance(s, t.Copy) and s.accumulate}
        for d in kernel.declarations:
            if isinstance(d, t.Tensor) and d.output:
                shape = tuple(int(self.expression(a.length, {}).v) for a in d.axes)
                self.outputs[d.name] = np.full(shape, 0.0 if d.name in added else np.nan)
                self.errors[d.name] = np.full(shape, 0.0 if d.name in added else np.inf)
                if d.name in added:
                    self.mass[d.name], self.additions[d.name] = np.zeros(shape), np.zeros(shape)

    def leave(self):
        """Outputs become what they are in memory; those that a later kernel takes, arrays."""
        for name, mass in self.mass.items():
            self.errors[name] = self.errors[name] + mass * ONE * (2 + np.sqrt(self.additions[name]))
        for name in set(self.types) & set(self.outputs) & self.program.workspace:
            type, v, e = self.types[name], self.outputs[name], self.errors[name]
            e = e + finite(v) * EPSILON[type] + np.where((v != 0) | (e > 0), SMALLEST[type], 0)
            e = np.where(finite(v) + e > LARGEST[type] * 0.98, np.inf, e)
            if type in BYTES:                       # what is infinite saturates
                v = np.where(np.isinf(v), np.where(v < 0, -LARGEST[type] - (type == "i8"), LARGEST[type]), v)
            self.arrays[name], self.doubts[name] = v, e

    def base(self, name):
        d = self.tensors[name]
        while isinstance(d, t.View):
            d = self.tensors[d.base]
        return d

    # Expressions. `near` gives what index names mean: whole numbers, or arrays that broadcast.
    def expression(self, e, near):
        if isinstance(e, t.Number):
            return Value(np.int64(e.value), 0.0, "extent") if isinstance(e.value, int) else Value(np.float64(e.value), abs(e.value) * 2.0 ** -24)
        if isinstance(e, t.Name):
            return self.named(e.name, near)
        if isinstance(e, t.Element):
            return self.element(e.tensor, [self.expression(i, near) for i in e.indices], near)
        if isinstance(e, t.Unary):
            a = self.expression(e.a, near)
            return Value(~a.v, 0.0, "truth") if e.op == "not" else Value(-a.v, a.e, a.kind)
        if isinstance(e, t.Call):
            return self.called(e, near)
        a, b = self.expression(e.a, near), self.expression(e.b, near)
        return self.operated(e.op, a, b)

    def operated(self, op, a, b):
        if op in ("and", "or"):
            return Value(a.v & b.v if op == "and" else a.v | b.v, 0.0, "truth")
        if op in ("<", "<=", ">", ">=", "==", "!="):
            f = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}[op]
            if np.any((np.abs(a.v - b.v) <= a.e + b.e) & (a.e + b.e > 0)):
                raise Meaningless("two numbers that cannot be told apart are compared")
            return Value(f(a.v, b.v), 0.0, "truth")
        if "real" in (a.kind, b.kind):
            v, e = binary(op, np.asarray(a.v, float), a.e, np.asarray(b.v, float), b.e)
            return Value(v, e)
        kind = "index" if "index" in (a.kind, b.kind) else "extent"
        if op in ("/", "%") and np.any(b.v == 0):
            raise Meaningless("division by 0")
        if op == "/":
            return Value(a.v // b.v if kind == "index" else -(-a.v // b.v), 0.0, kind)
        v = {"+": np.add, "-": np.subtract, "*": np.multiply, "%": np.mod}[op](a.v, b.v)
        if np.any(np.abs(v) > 2 ** 31 - 1):
            raise Meaningless("an integer that 32 bits do not hold")
        return Value(v, 0.0, kind)

    def called(self, e, near):
        if e.function in ("ceil", "floor"):
            inside = e.arguments[0]
            a, b = self.expression(inside.a, near), self.expression(inside.b, near)
            if np.any(b.v == 0):
                raise Meaningless("division by 0")
            return Value(a.v // b.v if e.function == "floor" else -(-a.v // b.v), 0.0, "index" if "index" in (a.kind, b.kind) else "extent")
        a = [self.expression(x, near) for x in e.arguments]
        if e.function == "select":
            return Value(np.where(a[0].v, a[1].v, a[2].v), np.where(a[0].v, a[1].e, a[2].e), "real" if "real" in (a[1].kind, a[2].kind) else "index")
        if e.function in ("min", "max"):
            r = a[0]
            for x in a[1:]:
                if "real" in (r.kind, x.kind):
                    r = Value(*binary(e.function, np.asarray(r.v, float), r.e, np.asarray(x.v, float), x.e))
                else:
                    r = Value((np.fmin if e.function == "min" else np.fmax)(r.v, x.v), 0.0, "index" if "index" in (r.kind, x.kind) else "extent")
            return r
        if e.function == "abs":
            return Value(np.abs(a[0].v), a[0].e, a[0].kind)
        return Value(*unary(e.function, np.asarray(a[0].v, float), a[0].e))

    def named(self, name, near):
        if name in near:
            return near[name] if isinstance(near[name], Value) else Value(near[name], 0.0, "index")
        if name in self.lets:
            return self.expression(self.lets[name], near)
        if name in self.lengths:
            return Value(np.int64(self.lengths[name]), 0.0, "extent")
        if name in self.scalars:
            whole = isinstance(self.scalars[name], int)
            return Value(np.int64(self.scalars[name]) if whole else np.float64(self.scalars[name]), 0.0, "index" if whole else "real")
        raise Meaningless(f"nothing is called {name}")

    def element(self, name, indices, near):
        """An element of a tensor or a view, at indices that may be arrays."""
        d = self.tensors[name]
        if isinstance(d, t.View):
            inner = {k: v for k, v in near.items()}
            for a, i in zip(d.axes, indices):
                if a.name:
                    inner[a.name] = i.v
            hidden = None
            if d.where is not None:
                hidden = ~np.asarray(self.expression(d.where, inner).v)
            at = [self.expression(i, inner) for i in d.indices]
            if hidden is not None:
                at = [Value(np.where(hidden, 0, i.v), 0.0, "index") for i in at]
            found = self.element(d.base, at, inner)
            if hidden is not None:
                return Value(np.where(hidden, d.other, found.v), np.where(hidden, 0.0, found.e), found.kind)
            return found
        array = self.arrays[name] if not d.output else None
        at = [np.asarray(i.v) for i in indices]
        shape = np.broadcast_shapes(*[a.shape for a in at]) if at else ()
        for a, n in zip(at, array.shape):
            if a.size and int(np.prod(shape)) and (a.min() < 0 or a.max() >= n):
                raise Meaningless(f"an index of {name} lies outside")
        if int(np.prod(shape)) == 0:
            return Value(np.zeros(shape), 0.0, "index" if self.types[name] == "i32" else "real")
        doubts = self.doubts[name][tuple(at)] if name in self.doubts else 0.0
        return Value(array[tuple(at)], doubts, "index" if self.types[name] == "i32" else "real")

    # Tiles.
    def extent(self, name, length):
        return int(self.expression(length, self.near).v)

    def whole(self, name):
        """A tensor's matrix at the indices that stand: what a Copy moves."""
        d = self.tensors[name]
        lengths = [self.extent(a.name, a.length) for a in d.matrix]
        if any(n < 0 for n in lengths):
            raise Meaningless("a negative length")
        grids = np.ix_(*[np.arange(n) for n in lengths])
        at = [Value(self.expression(a.index, self.near).v, 0.0, "index") for a in d.batch] + [Value(g, 0.0, "index") for g in grids]
        found = self.element(name, at, self.near)
        v, e = (np.array(np.broadcast_to(np.asarray(x, float), lengths)) for x in (found.v, found.e))
        for a, n in zip(d.matrix, lengths):
            self.sizes[a.name] = n
        return Held([a.name for a in d.matrix], v, e, self.types[self.base(name).name])

    def size(self, name):
        """The length of an axis; of a tile that nothing was copied into yet, as the tensors have it."""
        if name not in self.sizes:
            found = next(a for d in self.tensors.values() for a in d.matrix if a.name == name)
            self.sizes[name] = self.extent(name, found.length)
        return self.sizes[name]

    def operand(self, o, axes):
        """An operand of an elementwise statement, broadcast to the axes of its result."""
        shape = [self.size(a) for a in axes]
        if isinstance(o, t.Tile):
            x = self.tiles[o.name]
            return Value(*(np.broadcast_to(self.spread(p, x.axes, axes), shape) for p in (x.v, x.e)))
        near = dict(self.near)
        for i, a in enumerate(axes):
            near[a] = Value(np.arange(self.size(a)).reshape([-1 if k == i else 1 for k in range(len(axes))]), 0.0, "index")
        r = self.expression(o, near)
        return Value(np.broadcast_to(np.asarray(r.v, float), shape), np.broadcast_to(r.e, shape))

    @staticmethod
    def spread(values, axes, wanted):
        order = [axes.index(a) for a in wanted if a in axes]
        values = values.transpose(order)
        index, k = [], 0
        for a in wanted:
            if a in axes:
                index.append(slice(None))
                k += 1
            else:
                index.append(None)
        return values[tuple(index)]

    def compute(self, s):
        if s.op == "GEMM":
            result = self.product(s.operands)
        elif s.op in ("RowMax", "RowMin", "RowSum", "RowArgMax"):
            result = self.reduction(s.op, s.operands[0])
        elif s.op == "RowTopK":
            result = self.largest(*s.operands)
        else:
            result = self.elementwise(s)
        if s.accumulate:
            old = self.tiles.get(s.target)
            if old is None:
                if s.op in ("RowMax", "RowMin"):
                    raise Meaningless("a maximum without a start")
                old = Held(result.axes, np.zeros_like(result.v), np.zeros_like(result.e))
            v, e = (self.spread(p, old.axes, result.axes) for p in (old.v, old.e))
            v, e = binary({"RowMax": "Max", "RowMin": "Min"}.get(s.op, "Add"), v, e, result.v, result.e)
            result = Held(result.axes, v, e)
        self.tiles[s.target] = result

    def elementwise(self, s):
        tiles = [self.tiles[o.name] for o in s.operands if isinstance(o, t.Tile)]
        axes = max((x.axes for x in tiles), key=len) if tiles else s.axes
        a = [self.operand(o, axes) for o in s.operands]
        if s.op == "Fill":
            v, e = a[0].v, a[0].e
        elif s.op == "MultiplyAdd":
            v, e = binary("Add", *binary("Multiply", a[0].v, a[0].e, a[1].v, a[1].e), a[2].v, a[2].e)
        elif len(a) == 2:
            v, e = binary(s.op, a[0].v, a[0].e, a[1].v, a[1].e)
        else:
            v, e = unary(s.op, a[0].v, a[0].e)
        made = Held(axes, np.array(v), np.array(e))
        made.rise = max((tile.rise for tile in tiles), default=1.0)
        made.memory = tiles[0].memory if s.op in ("Multiply", "Divide") and len(tiles) == 1 else None
        return made

    def factor(self, o, others):
        """An operand of a product: one that was calculated is rounded to 16 bits."""
        x = self.tiles[o.name]
        v, e = x.v, x.e
        if self.is_narrow and x.is_weight:
            pass                                    # its noise is that of the sum: see product()
        elif x.type is None or x.type == "f32":
            kind = others if others in ("f16", "bf16") else "tf32" if others == "f32" else self.wide_type()
            if kind == "f32":
                kind = "tf32"
            e = e + finite(v) * EPSILON[kind] + np.where(v != 0, SMALLEST[kind], 0)
            e = np.where(x.rise * (np.abs(v) + e) > LARGEST[kind] * 0.98, np.inf, e)
        return (v.T, e.T, x.axes[::-1]) if o.turned else (v, e, x.axes)

    def wide_type(self):
        """What operands of 8 bits widen to, and what meets them is rounded to."""
        types = [self.types[d.name] for d in self.tensors.values() if isinstance(d, t.Tensor) and not d.output]
        if "e4m3" in types or "e5m2" in types or "i8" in types:
            return "bf16" if "bf16" in types and "f16" not in types else "f16"
        return self.program.dtype

    def product(self, operands):
        kinds = [self.tiles[o.name].type for o in operands]
        a, ea, left = self.factor(operands[0], kinds[1])
        b, eb, right = self.factor(operands[1], kinds[0])
        if left[-1] != right[0]:
            raise Meaningless(f"a product of {left} and {right}")
        n = a.shape[-1]
        with np.errstate(all="ignore"):
            v = a @ b
            size, rest = finite(a) @ finite(b), finite(a) @ np.where(np.isfinite(eb), eb, 0) + np.where(np.isfinite(ea), ea, 0) @ (finite(b) + np.where(np.isfinite(eb), eb, 0))
        e = rest + size * ONE * (2 + math.sqrt(n)) + TINY
        memory = self.tiles[operands[1].name].memory
        if self.is_narrow and memory in ("e4m3", "e5m2"):
            e = e + noise.cut(a, b)
            if self.tiles[operands[0].name].is_weight:
                e = e + noise.of_weights(a, b, memory, bool(self.program.pins.get("linear_weights")))
        unknown = (~np.isfinite(ea)).any(-1)[:, None] | (~np.isfinite(eb)).any(0)[None, :] | ~(size < 1e37)
        return Held((left[0], right[1]), *settle(v, np.where(unknown, np.inf, e)))

    def reduction(self, op, o):
        x = self.tiles[o.name]
        v, e, axes = (x.v.T, x.e.T, x.axes[::-1]) if o.turned else (x.v, x.e, x.axes)
        if op == "RowSum":
            e = np.where(finite(v).sum(-1) < 1e37, e.sum(-1), np.inf)[..., None]
            return Held(axes[:-1], *settle(v.sum(-1), e.sum(-1) + finite(v).sum(-1) * ONE * (2 + math.sqrt(v.shape[-1])) + TINY))
        if v.shape[-1] == 0:
            if op == "RowArgMax":
                return Held(axes[:-1], np.zeros(v.shape[:-1]), np.full(v.shape[:-1], np.inf))
            return Held(axes[:-1], np.full(v.shape[:-1], np.inf if op == "RowMin" else -np.inf), np.zeros(v.shape[:-1]))
        if op == "RowMin":
            r = np.fmin.reduce(v, -1, initial=np.inf)
            with np.errstate(all="ignore"):
                far = np.where(np.isinf(r), np.where(np.isinf(e).any(-1), np.inf, 0), np.maximum((v + e).min(-1) - r, r - (v - e).min(-1)))
            return Held(axes[:-1], *settle(r, far))
        if op == "RowMax":
            r = np.fmax.reduce(v, -1, initial=-np.inf)
            with np.errstate(all="ignore"):
                far = np.where(np.isinf(r), np.where(np.isinf(e).any(-1), np.inf, 0), np.maximum((v + e).max(-1) - r, r - (v - e).max(-1)))
            return Held(axes[:-1], *settle(r, far))
        best = v.argmax(-1)
        top = np.take_along_axis(v, best[..., None], -1)
        rivals = (v + e >= top - np.take_along_axis(e, best[..., None], -1)) & ((v != top) | (e > 0))
        np.put_along_axis(rivals, best[..., None], False, -1)
        return Held(axes[:-1], best.astype(float), np.where(rivals.any(-1), np.inf, 0.0))

    def largest(self, o, many):
        """Places of the largest of each row; of unknown ones, where an error may change the order, infinitely wrong."""
        x = self.tiles[o.name]
        most, n = int(self.expression(many, self.near).v), x.v.shape[-1]
        places, far = np.full((x.v.shape[0], most), -1.0), np.zeros((x.v.shape[0], most))
        for i, (v, e) in enumerate(zip(x.v, x.e)):
            if not np.isfinite(e).all():
                far[i] = np.inf
                continue
            order = sorted((p for p in range(n) if v[p] > -np.inf), key=lambda p: (-v[p], p))
            places[i, :min(most, len(order))] = order[:most]
            for a, b in zip(range(most), range(1, len(order))):
                p, q = order[a], order[b]
                if e[p] + e[q] > 0 and not v[p] - v[q] > e[p] + e[q]:
                    far[i, a:b + 1] = np.inf
        return Held((x.axes[0], many.name), places, far)

    def is_multiplied(self, tile):
        return any(isinstance(s, t.Compute) and s.op == "GEMM" and any(o.name == tile for o in s.operands)
                   for s in statements(self.body))

    def softmax(self, s):
        x = self.tiles[s.tile]
        if id(s) in self.gathered:                  # the first pass of a loop one by one: the scores of all its rounds
            self.gathered[id(s)].append((x.v, x.e))
            return
        whole = self.wholes.get(id(s))
        along = None if whole else next((a for a in self.walked if a in x.axes), x.axes[-1])
        k = x.axes.index(along) if along else -1
        v, e = (p[..., None] if along is None else np.moveaxis(p, k, -1) for p in (x.v, x.e))
        whole = whole or self.whole_rows(s, v, e)
        top, total, loose, es, unknown = whole
        safe = np.where(np.isfinite(top), top, 0)
        weight = np.where(v == -np.inf, 0, np.exp(v - safe[..., None]))
        grow = self.growth(v, e, safe, weight)
        good = total > 0
        p = np.where(good[..., None], weight / np.where(good, total, 1)[..., None], 0)
        relative = np.where(good, loose / np.where(good, total, 1), 0)
        ep = p * (grow + relative[..., None] + 8 * ONE) * (1 + np.minimum(relative[..., None], 1)) + np.where(p > 0, 1e-37, 0)
        if s.maximum in self.tiles and self.is_multiplied(s.tile):
            # A product takes exp(v - M) in 16 bits, which is divided by L afterwards. Without a given maximum the largest
            # weight is 1; below a given one all may lie where the type has few digits or none, half a step of its own.
            ep = ep + np.where(p > 0, SMALLEST[self.program.dtype] / np.where(good, total, 1)[..., None], 0)
        ep = np.where(np.isnan(v) | np.isnan(ep) | unknown[..., None], np.inf, ep)
        self.tiles[s.tile] = Held(x.axes, *(q[..., 0] if along is None else np.moveaxis(q, -1, k) for q in (p, ep)), is_weight=True)
        self.tiles[s.tile].rise = max(1.0, float(np.max(total, initial=1.0, where=np.isfinite(total))))
        if s.maximum:
            axes = tuple(a for a in x.axes if a != along)
            # m and l belong together: whoever uses one of them alone sees the error of both.
            self.later[s.maximum] = Held(axes, top, es)
            self.later[s.total] = Held(axes, total, np.where(unknown, np.inf, loose + total * np.expm1(np.minimum(es, 700))))

    @staticmethod
    def growth(v, e, safe, weight):
        """By which part of itself a weight may be off."""
        scale = (finite(v) + np.abs(safe)[..., None]) * 2 * ONE
        return np.where(weight > 0, np.expm1(np.minimum(e + scale, 700)), 0)

    def whole_rows(self, s, v, e):
        """The maximum and the sum of all weights of each row, and how far off they may be."""
        rows = v.shape[:-1]
        m0, l0 = np.full(rows, -np.inf), np.zeros(rows)
        if s.maximum in self.tiles:
            m0 = self.tiles[s.maximum].v + np.zeros(rows)
        if s.total in self.tiles:
            l0 = self.tiles[s.total].v + np.zeros(rows)
        top = np.fmax(m0, np.fmax.reduce(v, -1, initial=-np.inf))
        safe = np.where(np.isfinite(top), top, 0)
        weight = np.where(v == -np.inf, 0, np.exp(v - safe[..., None]))
        first = np.where(l0 == 0, 0, l0 * np.exp(np.where(np.isfinite(m0), m0 - safe, -np.inf)))
        total = first + weight.sum(-1)
        loose = (weight * self.growth(v, e, safe, weight)).sum(-1) + first * (np.abs(safe) + finite(m0)) * 2 * ONE + total * ONE * (8 + math.sqrt(v.shape[-1]))
        # Beside an infinite element the weights are inf - inf or 0 / NaN: nothing is promised of such a row.
        # So it is where an exponent may be off by so much that its weight overflows.
        unknown = (~np.isfinite(e)).any(-1) | np.isposinf(v).any(-1) | np.isposinf(m0) | (loose > 1e38)
        es = np.where(np.isfinite(top), (np.where(v + e >= top[..., None] - e, e, 0)).max(-1, initial=0) + np.abs(safe) * 4 * ONE, 0)
        return top, total, loose, np.where(unknown, np.inf, es), unknown

    # Statements.
    def run(self, body):
        for s in body:
            if isinstance(s, t.Loop):
                self.loop(s)
                continue
            if isinstance(s, t.Copy):
                self.copy(s)
            elif isinstance(s, t.Compute):
                self.compute(s)
            elif isinstance(s, t.Softmax):
                self.softmax(s)
            elif isinstance(s, t.Mask):
                x = self.tiles[s.tile]
                where = self.operand_condition(s.where, x.axes)
                if s.value is None:
                    v, e = -np.inf, 0.0
                else:
                    value = self.operand(s.value, x.axes)
                    v, e = value.v, value.e
                self.tiles[s.tile] = Held(x.axes, np.where(where, v, x.v), np.where(where, e, x.e))
                self.tiles[s.tile].rise = x.rise

    def operand_condition(self, where, axes):
        near = dict(self.near)
        for i, a in enumerate(axes):
            near[a] = Value(np.arange(self.size(a)).reshape([-1 if k == i else 1 for k in range(len(axes))]), 0.0, "index")
        return np.broadcast_to(self.expression(where, near).v, [self.size(a) for a in axes])

    def loop(self, s):
        for name in self.starts.get(id(s), ()):
            self.tiles.pop(name, None)
        self.depth += 1
        if s.block:
            # A pass over the whole axis: all axes of this length are walked together.
            before, self.walked = self.walked, self.walked + [a for a in walked_axes(self, s)]
            self.run(s.body)
            self.walked = before
        else:
            self.steps(s)
        self.depth -= 1
        if not self.depth:
            self.tiles.update(self.later)
            self.later = {}

    def steps(self, s):
        """One by one. A Softmax whose scores depend on the index goes over all rounds: these run twice, and first for that."""
        count = int(self.expression(s.length, self.near).v)
        over = [x for x in statements(s.body) if isinstance(x, t.Softmax) and id(x) not in self.gathered | self.wholes and self.depends(s, x)]
        if over:
            tiles, self.gathered = dict(self.tiles), self.gathered | {id(x): [] for x in over}
            self.rounds(s, count)
            self.tiles = tiles
            for x in over:
                scores = self.gathered.pop(id(x))
                if scores:
                    self.wholes[id(x)] = self.whole_rows(x, *(np.stack(p, -1) for p in zip(*scores)))
        self.rounds(s, count)
        for x in over:
            self.wholes.pop(id(x), None)

    def depends(self, loop, softmax):
        """Whether the scores are made, in the loop, from what its index chooses."""
        names, made = self.stepped(loop), set()
        for s in statements(loop.body):
            if s is softmax:
                return s.tile in made
            if isinstance(s, t.Copy) and s.end != "global":
                if any(a.name in names for a in self.tensors[s.source].batch):
                    made.add(s.target or s.source)
            elif isinstance(s, t.Compute) and any(o.name in made for o in s.operands if isinstance(o, t.Tile)):
                made.add(s.target)
        return False

    def rounds(self, s, count):
        names = self.stepped(s)
        if count == 0:
            self.blank(s.body)
        for n in range(count):
            self.near |= {name: Value(np.int64(n), 0.0, "index") for name in names}
            self.run(s.body)
        for name in names:
            self.near.pop(name, None)

    def stepped(self, s):
        """The indices that a loop one by one gives: of its name, else of the axes before a matrix that have its length."""
        copied = [self.tensors[c.source if c.end != "global" else c.target or c.source] for c in statements(s.body) if isinstance(c, t.Copy)]
        before = [a for d in copied for a in d.batch if a.name]
        if any(a.name == s.index for a in before):
            return {s.index}
        return {s.index} | {a.name for a in before if t.show(a.length) == t.show(s.length)}

    def blank(self, body):
        """A loop that never runs leaves its accumulators at zero, and a softmax that saw nothing its m and l."""
        axes = {name: x.axes for name, x in self.tiles.items()}
        for s in statements(body):
            if isinstance(s, t.Copy) and s.end != "global":
                axes[s.target or s.source] = tuple(a.name for a in self.tensors[s.source].matrix)
            elif isinstance(s, t.Softmax) and s.maximum and id(s) not in self.gathered:
                left = axes[s.tile]                 # its index chooses the scores: it would have gone over its rounds
                rows = np.zeros([self.size(a) for a in left])
                for name, empty in ((s.maximum, -np.inf), (s.total, 0.0)):
                    self.later[name] = self.tiles.get(name) or Held(left, rows + empty, rows)
            elif isinstance(s, t.Compute):
                operands = [axes[o.name][::-1] if o.turned else axes[o.name] for o in s.operands if isinstance(o, t.Tile)]
                if s.op == "GEMM":
                    axes[s.target] = (operands[0][0], operands[1][1])
                elif s.op.startswith("Row"):
                    axes[s.target] = operands[0][:-1]
                else:
                    axes[s.target] = max(operands, key=len) if operands else s.axes
                if s.accumulate and s.target not in self.tiles:
                    v = np.zeros([self.size(a) for a in axes[s.target]])
                    self.tiles[s.target] = Held(axes[s.target], v, v)

    def copy(self, s):
        if s.end != "global":
            self.tiles[s.target or s.source] = self.whole(s.source)
            return
        name = s.target or s.source
        d, x = self.tensors[name], self.tiles[s.source]
        order = [x.axes.index(a.name) for a in d.matrix]
        v, e = x.v.transpose(order), x.e.transpose(order)
        at = [Value(self.expression(a.index, self.near).v, 0.0, "index") for a in d.batch]
        at += [Value(g, 0.0, "index") for g in np.ix_(*[np.arange(n) for n in v.shape])]
        near = dict(self.near)
        while isinstance(d, t.View):
            for a, i in zip(d.axes, at):
                if a.name:
                    near[a.name] = Value(i.v, 0.0, "index")
            at = [self.expression(i, near) for i in d.indices]
            d = self.tensors[d.base]
        place = tuple(np.broadcast_arrays(*[np.asarray(i.v) for i in at]))
        if not v.size or self.gathered:
            return
        place = tuple(np.broadcast_to(p, v.shape) for p in place)
        if s.accumulate:
            for array, more in ((self.outputs, v), (self.errors, e), (self.mass, finite(v)), (self.additions, np.ones_like(v))):
                np.add.at(array[d.name], place, more)
        else:
            self.outputs[d.name][place] = v
            self.errors[d.name][place] = e

    def evaluate(self):
        """Values and error bounds of all Outputs."""
        with np.errstate(all="ignore"):
            for kernel in self.program.kernels:
                self.enter(kernel)
                self.kernel()
                self.leave()
        wanted = {d.name for d in self.program.tensors() if d.output}
        return tuple({k: v for k, v in x.items() if k in wanted} for x in (self.outputs, self.errors))

    def kernel(self):
        stored = {s.target or s.source for s in statements(self.body) if isinstance(s, t.Copy) and s.end == "global"}
        walks = set().union(*[self.stepped(s) for s in statements(self.body) if isinstance(s, t.Loop) and not s.block])
        parallel = {a.name: a.length for name in stored for a in self.tensors[name].batch if a.name and a.name not in walks}
        names = list(parallel)
        counts = [int(self.expression(parallel[n], {}).v) for n in names]
        for place in itertools.product(*[range(n) for n in counts]):
            self.near = {n: Value(np.int64(i), 0.0, "index") for n, i in zip(names, place)}
            self.tiles, self.sizes, self.walked, self.later = {}, {}, [], {}
            self.depth, self.gathered, self.wholes = 0, {}, {}
            self.run(self.body)


def walked_axes(evaluation, loop):
    """Index names of the matrices that a loop over blocks walks: those whose axis has the loop's length."""
    wanted = t.show(loop.length)
    names = []
    for s in statements(loop.body):
        if isinstance(s, t.Copy):
            d = evaluation.tensors.get((s.target or s.source) if s.end == "global" else s.source)
            if d:
                names += [a.name for a in d.matrix if t.show(a.length) == wanted]
    return names


def statements(body):
    for s in body:
        yield s
        if isinstance(s, t.Loop):
            yield from statements(s.body)


def zero_starts(body):
    """Where accumulators start at zero: before the outermost loop that holds all their accumulations and no other use."""
    uses = {}

    def visit(body, path):
        for s in body:
            if isinstance(s, t.Loop):
                visit(s.body, path + (s,))
                continue
            if isinstance(s, t.Compute):
                for o in s.operands:
                    if isinstance(o, t.Tile):
                        uses.setdefault(o.name, []).append((path, False))
                uses.setdefault(s.target, []).append((path, s.accumulate))
            elif isinstance(s, t.Copy):
                uses.setdefault(s.source if s.end == "global" else s.target or s.source, []).append((path, False))
            elif isinstance(s, (t.Mask, t.Softmax)):
                uses.setdefault(s.tile, []).append((path, False))
    visit(body, ())
    starts = {}
    for name, all_uses in uses.items():
        paths = [p for p, added in all_uses if added]
        if not paths or not all_uses[0][1]:
            continue                                # never added to, or its first statement gives it a value
        common = paths[0]
        for p in paths[1:]:
            common = tuple(a for a, b in zip(common, p) if a is b)
        for depth in range(len(common)):
            if all(added or common[depth] not in p for p, added in all_uses):
                starts.setdefault(id(common[depth]), []).append(name)
                break
    return starts
