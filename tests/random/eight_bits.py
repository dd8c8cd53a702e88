"""Operands of 8 bits in random programs: their types and scales, products of them, and a type for what is there already."""
import math

import tree as t
from spaces import Space, space_of
from tree import Compute, Copy, Loop, Mask, Name, Number, Softmax, Tensor, Tile, axis, compare, element

TYPES = {"e4m3": 6, "e5m2": 3, "i8": 3}
SIZE = {"e4m3": 1.0, "e5m2": 1.0, "i8": 24.0, None: 1.0}      # of normal numbers that a type holds well
WIDTHS = (64,) * 6 + (128,) * 4 + (32, 96, 256, 16, 48, 80, 160, 512)

PLAIN_WIDTHS = (64, 64, 64, 128, 128, 32, 96, 256)


class EightBits:
    """A part of the Builder. `bytes` is a stream of its own: programs without 8 bits are the same with and without it."""

    def byte_types(self, count):
        """Mostly one type for all; products of 8 bits ask for that."""
        r = self.bytes
        first = r.choices(list(TYPES), list(TYPES.values()))[0]
        kind = r.random() if not self.plain else 0
        if self.plain:
            first = r.choice(("e4m3", "e4m3", "e5m2", "i8")) if self.plain == "warps" else "e4m3"
        if kind < 0.65:
            return [first] * count
        if kind < 0.8:                              # a cache: the first operand has 16 bits
            return [None] + [first] * (count - 1)
        return [r.choices(list(TYPES) + [None], [3, 2, 2, 2])[0] for _ in range(count)]

    def byte_fill(self, type, scale=1.0):
        size = SIZE[type] * scale
        kind = self.bytes.choices(("normal", "mean", "peaks", "ramp", "equal"), (12, 4, 1, 1, 1))[0]
        if kind == "normal":
            return ("normal", size, 0.0)
        if kind == "mean":
            return ("normal", size, 1.5 * size)
        return ("normal", 0.0, size) if kind == "equal" else (kind, size, 3.0)

    def byte_width(self):
        return self.feature(self.bytes.choice(PLAIN_WIDTHS if self.plain else WIDTHS))

    def byte_space(self, kind, walked):
        return self.plain_space(kind) if self.plain and self.bytes.random() < 0.8 else self.space(kind, walked)

    # Scales.
    def byte_scale(self, size, spaces):
        """A factor of about this size: one for the tensor, or per head, token, block of tokens, or channel."""
        r = self.bytes
        kinds = ["tensor", "head"] + ["token", "token", "block"] * bool(spaces)
        kind = r.choice(kinds)
        space = r.choice(spaces) if spaces else None
        if kind == "block" and space.mode != "plain" or kind == "token" and space.mode not in ("plain", "used"):
            kind = "head"
        if kind == "head" and not self.parallels:
            kind = "tensor"
        name = self.fresh("number")
        if kind == "tensor":
            values = [round(size * x, 9) for x in (0.5, 1.0, 1.3)]
            where = compare(">", Name(name), Number(0)) if r.random() < 0.6 else None
            if where is None:                       # nothing says which sign it has
                values += [-values[0], 0.0]
            self.declarations.append(Tensor(name, "f32", fill=("choice", values), where=where))
            return Name(name)
        heads = [a for a in self.parallels if kind == "head" or r.random() < 0.6]
        low = 0.4 if r.random() < 0.85 else -0.5
        fill = ("uniform", low * size, 1.2 * size)
        if kind == "head":
            self.declarations.append(Tensor(name, "f32", [], heads, fill=fill, flat=True))
            return element(name, *[a.index for a in heads])
        if kind == "token":
            last = axis(space.index, space.length if space.mode == "plain" else space.room)
            place = Name(space.index)
        else:
            many = r.choice((16, 32, 128))
            blocks = self.fresh("walk") + "_blocks"
            self.used.add(blocks)
            if self.lengths.get(space.length, ("fixed",))[0] != "pick":
                return self.byte_scale(size, [])
            self.lengths[blocks] = ("fixed", -(-max(self.lengths[space.length][1]) // many) or 1)
            last, place = axis(self.fresh("place"), blocks), Name(space.index) / Number(many)
        self.declarations.append(Tensor(name, "f32", [], heads + [last], fill=fill, flat=True))
        return element(name, *[a.index for a in heads], place)

    def scaled(self, tile, size, spaces):
        """One or two factors, in one statement or two."""
        r = self.bytes
        if r.random() < 0.55:
            self.compute("Multiply", [Tile(tile), self.byte_scale(size, spaces)], tile, 1.0)
            return
        one, two = self.byte_scale(size, spaces), self.byte_scale(1.0, spaces)
        if r.random() < 0.5:
            self.compute("Multiply", [Tile(tile), one * two], tile, 1.0)
        else:
            self.compute("Multiply", [Tile(tile), one], tile, 1.0)
            self.compute("Multiply", [Tile(tile), two], tile, 1.0)

    def bring_bytes(self, x, type, axes, kept, size=1.0):
        """A right operand, or one with its scales before the product: those may go past it."""
        if type not in SIZE or type is None or self.bytes.random() < 0.8:
            self.bring_right(x, axes)
            return
        self.add(Copy(x, "global", "register"))
        for _ in range(self.bytes.choice((1, 1, 2))):
            op = self.bytes.choice(("Multiply", "Multiply", "Multiply", "Divide"))
            # What is divided by has no 0; a factor along the axis that is kept.
            factor = self.byte_scale(size, [kept]) if op == "Multiply" else Number(self.bytes.choice((0.5, 3.0)))
            self.compute(op, [Tile(x), factor], x, size)

    # Programs.
    def bytes_program(self):
        """`plain`: what products of 8 bits take as it is, by warps or by warpgroups; else anything."""
        r = self.bytes
        self.plain = r.choice(("warps", "warpgroups", None))
        getattr(self, r.choice(("bytes_attend", "bytes_attend", "bytes_attend", "bytes_contract", "bytes_contract", "bytes_steps")))()
        if self.plain == "warpgroups" or r.random() < 0.2:
            self.pins["products"] = 8 if r.random() < 0.9 else 16
            if r.random() < 0.15:
                self.pins["linear_weights"] = 1
        if r.random() < 0.15:
            self.pins["promote"] = r.choice((0, 1, 1))

    def bytes_attend(self):
        """Scores, weights, and a product with values, which lie as rows or turned."""
        r = self.bytes
        self.parallel()
        rows, keys = self.byte_space("row", walked=False), self.byte_space("walk", walked=True)
        d, e = self.byte_width(), self.byte_width()
        q_type, k_type, v_type = self.byte_types(3)
        q = self.along(rows, "left", [rows.axis, d], self.some_parallels(), self.byte_fill(q_type), q_type)
        self.add(Copy(q, "global", "shared"))
        outer, self.body = self.body, []
        batch = self.some_parallels(keys=True)
        k = self.along(keys, "right", [keys.axis, d], batch, self.byte_fill(k_type), k_type)
        self.bring_bytes(k, k_type, (keys, d), keys if keys.mode in ("plain", "used") else space_of(d))
        s = self.fresh("score")
        size = math.sqrt(self.width(d)) * SIZE[q_type] * SIZE[k_type] * 1.5
        self.compute("GEMM", [Tile(q), Tile(k, True)], s, size)
        self.scaled(s, r.choice((1.0, 2.0, 2.0, 5.0)) / size, [x for x in (rows, keys) if x.mode in ("plain", "used")])
        self.magnitude[s] = 2.0
        if r.random() < 0.15:
            self.changes(s, [rows, keys], 1, 1)
        kind = r.choices(("softmax", "statistics", "exp", "code", "weights"), (60, 8, 8, 12, 8) if not self.plain else (90, 4, 0, 0, 0))[0]
        for _ in range(r.choice((0, 0, 1, 1, 2)) if kind in ("softmax", "statistics", "exp") else 0):
            self.add(Mask(s, None, self.condition([rows, keys])))
        results, total = [], None
        if kind == "softmax":
            self.add(Softmax(s))
        elif kind == "statistics":
            m, l = self.fresh("stat"), self.fresh("stat")
            self.add(Softmax(s, m, l))
        elif kind == "exp":
            self.compute("Exp", [Tile(s)], s, 2.0)
        elif kind == "code":                        # weights whose bits are linear in their logarithm
            self.compute("MultiplyAdd", [Tile(s), Number(r.choice((4.0, 8.0, 11.5))), Number(r.choice((40.0, 56.0)))], s, 50.0)
            self.compute("FromCode", [Tile(s)], s, 2.0)
        if kind in ("exp", "code"):
            total = self.fresh("stat")
            self.compute("RowSum", [Tile(s)], total, 20.0, accumulate=True)
        if not self.plain and r.random() < 0.12:    # a factor for each row of values
            self.compute("Multiply", [Tile(s), self.byte_scale(1.0, [keys] if keys.mode == "plain" else [])], s, 1.0)
        turned = self.plain == "warpgroups" if self.plain else r.random() < 0.45
        v_axes = [e, keys.axis] if turned else [keys.axis, e]
        v = self.along(keys, "value", v_axes, self.some_parallels(keys=True), self.byte_fill(v_type), v_type)
        self.bring_bytes(v, v_type, (e, keys) if turned else (keys, e), space_of(e))
        o = self.fresh("sum")
        self.compute("GEMM", [Tile(s), Tile(v, turned)], o, SIZE[v_type], accumulate=True)
        body, self.body = self.body, outer
        self.add(Loop(self.fresh("loop"), Name(keys.length), "BN", body))
        if total:
            self.compute("Add", [Tile(total), Number(0.5)], total, 20.0)
            self.compute("Divide", [Tile(o), Tile(total)], o, 2.0)
        if kind == "statistics":
            self.compute("Log", [Tile(l)], l, 3.0)
            self.compute("Add", [Tile(l), Tile(m)], l, 3.0)
            self.store(l, [rows], "f32")
        if v_type == "i8" or r.random() < 0.6:
            self.scaled(o, 1 / SIZE[v_type], [space_of(e)])
        self.store(o, (rows, e))

    def bytes_contract(self):
        """Products over a long axis or a whole one, with scales of rows and columns."""
        r = self.bytes
        self.parallel()
        m, n = (self.plain_space(x) for x in ("row", "walk"))
        whole = r.random() < 0.35
        if whole:
            k = self.byte_width()
            inner = k
        else:
            inner = self.plain_space("walk")
            self.lengths[inner.length] = ("pick", [x for x in (16, 32, 64, 80, 96, 128, 160, 256, 320, 512, 17, 40)])
            k = inner.axis
        if r.random() < 0.4:
            f = self.byte_width()
            n = space_of(f)
        a_type, b_type = self.byte_types(2)
        a = self.input("left", self.some_parallels(), [m.axis, k], self.byte_fill(a_type), a_type)
        turned = self.plain == "warpgroups" or r.random() < 0.75
        b = self.input("right", self.some_parallels(keys=True), [n.axis, k] if turned else [k, n.axis], self.byte_fill(b_type), b_type)
        outer, self.body = self.body, []
        self.add(Copy(a, "global", "shared"))
        self.bring_bytes(b, b_type, (n, inner) if turned else (inner, n), n)
        c = self.fresh("sum")
        self.compute("GEMM", [Tile(a), Tile(b, turned)], c, 1.0, accumulate=not whole)
        body, self.body = self.body, outer
        if whole:
            self.body += body
        else:
            self.add(Loop(self.fresh("loop"), Name(inner.length), "BK", body))
        self.scaled(c, 1 / (10 * SIZE[a_type] * SIZE[b_type]), [m, n])
        self.magnitude[c] = 1.0
        self.changes(c, [m, n], 0, 1)
        if whole and self.lengths[n.length][0] == "fixed" and r.random() < 0.25:
            self.largest(c, m, n.axis)
        self.store(c, (m, n))

    def bytes_steps(self):
        """Blocks of the contracted axis with scales of their own, added up in f32."""
        r = self.bytes
        self.parallel()
        m, n = (self.plain_space(x) for x in ("row", "walk"))
        d = self.byte_width()
        step, count = self.fresh("walk"), f"{m.index}_steps"
        self.used.add(count)
        self.lengths[count] = ("pick", [1, 2, 3, 5])
        a_type, b_type = self.byte_types(2)
        batch = self.some_parallels() + [axis(step, count)]
        a = self.input("left", batch, [m.axis, d], self.byte_fill(a_type), a_type)
        b = self.input("right", batch, [n.axis, d], self.byte_fill(b_type), b_type)
        size = 1 / (10 * SIZE[a_type] * SIZE[b_type])
        factors = []
        for s in (m, n):
            name = self.fresh("number")
            self.declarations.append(Tensor(name, "f32", [], [axis(step, count), s.axis], fill=("uniform", 0.3 * size, 1.2 * size), flat=True))
            factors.append(element(name, step, s.index))
            size = 1.0
        outer, self.body = self.body, []
        self.add(Copy(a, "global", "shared"))
        self.add(Copy(b, "global", "shared"))
        part, c = self.fresh("score"), self.fresh("sum")
        self.compute("GEMM", [Tile(a), Tile(b, True)], part, 1.0)
        if r.random() < 0.5:
            self.compute("Multiply", [Tile(part), factors[0] * factors[1]], part, 1.0)
        else:
            for f in factors:
                self.compute("Multiply", [Tile(part), f], part, 1.0)
        self.compute("Cast", [Tile(part)], c, 1.0, accumulate=True)
        body, self.body = self.body, outer
        self.add(Loop(step, Name(count), None, body))
        self.store(c, (m, n))

    def plain_space(self, kind):
        s = Space(self.fresh(kind), None)
        s.length = self.length(f"{s.index}_len")
        return s

    # What is there already.
    def of_bytes(self):
        """Operands of products get types of 8 bits, and those of i8 fewer whole numbers where nothing scales them."""
        r = self.bytes
        bases = {d.name: d.base for d in self.declarations if isinstance(d, t.View)}
        loaded = {s.target or s.source: s.source for s in walk(self.body) if isinstance(s, Copy) and s.start == "global"}
        names = []
        for s in walk(self.body):
            if isinstance(s, Compute) and s.op == "GEMM":
                for o in s.operands:
                    name = loaded.get(o.name)
                    while name in bases:
                        name = bases[name]
                    if name and name not in names:
                        names.append(name)
        tensors = [d for d in self.declarations if isinstance(d, Tensor) and d.name in names and d.type is None]
        for d, type in zip(tensors, self.byte_types(len(tensors)) if tensors else ()):
            d.type = type
            if type == "i8" and d.fill[0] == "normal":
                d.fill = ("normal", d.fill[1] * 4, d.fill[2] * 4)

    def of_four_bits(self):
        """Some Inputs of i8 have 4 bits instead, where rows are whole units and no view lies between."""
        r = self.bytes
        bases = {d.base for d in self.declarations if isinstance(d, t.View)}
        for d in self.declarations:
            if not isinstance(d, Tensor) or d.output or d.type != "i8" or d.name in bases or not d.matrix or d.flat:
                continue
            known = self.lengths.get(getattr(d.matrix[-1].length, "name", None), ("open",))
            if known[0] != "fixed" or known[1] % 32 or r.random() < 0.5:
                continue
            d.type = r.choice(("i4", "i4", "u4"))
            if d.fill[0] == "normal":
                d.fill = ("normal", d.fill[1] / 8, d.fill[2] / 8 + 4.0 * (d.type == "u4"))


def walk(body):
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from walk(s.body)
