"""What statements make of tiles: elementwise operations, products, reductions and softmax, with bounds of their errors."""
import math

import numpy as np

import noise
import tree as t
from arithmetic import BYTES, EPSILON, LARGEST, ONE, SMALLEST, TINY, Held, Meaningless, Value, binary, finite, settle, unary


class TileValues:
    """A part of the Evaluation."""

    def extent(self, name, length):
        return int(self.expression(length, self.near).v)

    def whole(self, name):
        """A tensor's matrix at the indices that stand: what a Copy moves."""
        d = self.tensors[name]
        lengths = [self.extent(a.name, a.length) for a in d.matrix]
        if any(n < 0 for n in lengths):
            raise Meaningless("a negative length")
        for i, a in enumerate(d.matrix):
            lengths[i] = len(self.places(a.name, lengths[i]))
        grids = np.ix_(*[self.places(a.name, n) for a, n in zip(d.matrix, lengths)])
        at = [Value(self.expression(a.index, self.near).v, 0.0, "index") for a in d.batch] + [Value(g, 0.0, "index") for g in grids]
        found = self.element(name, at, self.near)
        v, e = (np.array(np.broadcast_to(np.asarray(x, float), lengths)) for x in (found.v, found.e))
        for a, n in zip(d.matrix, lengths):
            self.sizes[a.name] = n
        return Held([a.name for a in d.matrix], v, e, self.types[self.base(name).name])

    def places(self, name, length):
        """Where the elements of a tile lie on an axis: in a chunk, if a loop goes through these one after the other."""
        return self.chunk.get(name, np.arange(length))

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
            near[a] = Value(self.places(a, self.size(a)).reshape([-1 if k == i else 1 for k in range(len(axes))]), 0.0, "index")
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
        if any(type in types for type in BYTES):
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
        off = np.take_along_axis(e, best[..., None], -1)
        rivals = (v + e >= top - off) & ((v != top) | (e > 0) | (off > 0))
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
            down, off = v[order], e[order]
            for a in range(min(most, len(order))):
                room = off[a] + off[a + 1:]        # by all that may pass it, not the next one alone: those may be equal and exact
                passed = np.flatnonzero((room > 0) & ~(down[a] - down[a + 1:] > room))
                if passed.size:
                    far[i, a:a + passed[-1] + 2] = np.inf
        return Held((x.axes[0], many.name), places, far)

    def is_multiplied(self, tile):
        return any(isinstance(s, t.Compute) and s.op == "GEMM" and any(o.name == tile for o in s.operands)
                   for s in t.statements(self.body))

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
