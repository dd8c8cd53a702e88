"""What a sketch means, by NumPy in float64, with a bound of the error that a kernel may make.

Shares nothing with the compiler: a sketch is evaluated for each tuple of its parallel indices, tiles are whole
matrices with named axes, a loop over blocks is one pass over the whole axis, and a loop one by one is a loop.
Every value carries a bound of its absolute error, to first order, for arithmetic in f32 and for operands of products
that are rounded to 16 bits. An element whose bound is infinite (an overflow, a comparison of two numbers that cannot
be told apart) is not compared.
"""
import itertools

import numpy as np

import tree as t
from arithmetic import BYTES, EPSILON, LARGEST, ONE, SMALLEST, Held, Meaningless, Value, binary, finite, unary
from tile_values import TileValues


class Evaluation(TileValues):
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
        added = {self.base(s.target).name for s in t.statements(kernel.body) if isinstance(s, t.Copy) and s.accumulate}
        for d in kernel.declarations:
            if isinstance(d, t.Tensor) and d.output:
                shape = tuple(int(self.expression(a.length, {}).v) for a in d.axes)
                begins = d.name in added or d.kept      # with zeros, which `run` has put there
                self.outputs[d.name] = np.full(shape, 0.0 if begins else np.nan)
                self.errors[d.name] = np.full(shape, 0.0 if begins else np.inf)
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
            near[a] = Value(self.places(a, self.size(a)).reshape([-1 if k == i else 1 for k in range(len(axes))]), 0.0, "index")
        return np.broadcast_to(self.expression(where, near).v, [self.size(a) for a in axes])

    def loop(self, s):
        for name in self.starts.get(id(s), ()):
            self.tiles.pop(name, None)
        self.depth += 1
        if s.block in self.lets:
            self.chunks(s)
        elif s.block:
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

    def chunks(self, s):
        """Blocks of a length that the sketch says, one after the other."""
        length, size = (int(self.expression(e, self.near).v) for e in (s.length, self.lets[s.block]))
        walked = walked_axes(self, s)
        if length == 0:
            self.blank(s.body)
        for begin in range(0, length, size):
            self.chunk = {a: np.arange(begin, min(begin + size, length)) for a in walked}
            self.near[s.index] = Value(np.int64(begin // size), 0.0, "index")
            self.run(s.body)
        self.near.pop(s.index, None)
        for a in self.chunk:
            self.sizes.pop(a, None)
        self.chunk = {}

    def steps(self, s):
        """One by one. A Softmax whose scores depend on the index goes over all rounds: these run twice, and first for that."""
        count = int(self.expression(s.length, self.near).v)
        over = [x for x in t.statements(s.body) if isinstance(x, t.Softmax) and id(x) not in self.gathered | self.wholes and self.depends(s, x)]
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
        for s in t.statements(loop.body):
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
        copied = [self.tensors[c.source if c.end != "global" else c.target or c.source] for c in t.statements(s.body) if isinstance(c, t.Copy)]
        before = [a for d in copied for a in d.batch if a.name]
        if any(a.name == s.index for a in before):
            return {s.index}
        return {s.index} | {a.name for a in before if t.show(a.length) == t.show(s.length)}

    def blank(self, body):
        """A loop that never runs leaves its accumulators at zero, and a softmax that saw nothing its m and l."""
        axes = {name: x.axes for name, x in self.tiles.items()}
        for s in t.statements(body):
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
        at += [Value(g, 0.0, "index") for g in np.ix_(*[self.places(a.name, n) for a, n in zip(d.matrix, v.shape)])]
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
        stored = {s.target or s.source for s in t.statements(self.body) if isinstance(s, t.Copy) and s.end == "global"}
        walks = set().union(*[self.stepped(s) for s in t.statements(self.body) if isinstance(s, t.Loop) and not s.block])
        parallel = {a.name: a.length for name in stored for a in self.tensors[name].batch if a.name and a.name not in walks}
        names = list(parallel)
        counts = [int(self.expression(parallel[n], {}).v) for n in names]
        for place in itertools.product(*[range(n) for n in counts]):
            self.near = {n: Value(np.int64(i), 0.0, "index") for n, i in zip(names, place)}
            self.tiles, self.sizes, self.walked, self.later = {}, {}, [], {}
            self.depth, self.gathered, self.wholes, self.chunk = 0, {}, {}, {}
            self.run(self.body)


def walked_axes(evaluation, loop):
    """Index names of the matrices that a loop over blocks walks: those whose axis has the loop's length."""
    wanted = t.show(loop.length)
    names = []
    for s in t.statements(loop.body):
        if isinstance(s, t.Copy):
            d = evaluation.tensors.get((s.target or s.source) if s.end == "global" else s.source)
            if d:
                names += [a.name for a in d.matrix if t.show(a.length) == wanted]
    return names


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
