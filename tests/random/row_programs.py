"""Random programs of rows and elements, of products without a loop, and of loops one by one."""
from spaces import Space
from tree import Compute, Copy, Loop, Mask, Name, Number, Softmax, Tensor, Tile, axis, element


class RowPrograms:
    """A part of the Builder."""

    def rows_program(self):
        """Rows of a matrix, walked once or more."""
        self.parallel()
        self.dtype = self.weighted({"f16": 60, "bf16": 25, "f32": 15})
        rows, columns = (Space(self.fresh(k), None) for k in ("row", "walk"))
        rows.length, columns.length = self.length(f"{rows.index}_len"), self.length(f"{columns.index}_len")
        x = self.input("left", self.some_parallels(), [rows.axis, columns.axis], self.fill(), self.r.choice((None, None, "f32")))
        known = []
        for _ in range(self.r.choice((1, 1, 2, 2, 3))):
            outer, self.body = self.body, []
            s = self.fresh("score")
            self.add(Copy(x, "global", "register", s))
            self.magnitude[s] = 1.0
            for v in known:
                if self.chance(0.5):
                    self.compute(self.r.choice(("Subtract", "Multiply")), [Tile(s), Tile(v)], s, 2.0)
            self.changes(s, [rows, columns], 0, 3)
            kind = self.weighted({"sum": 5, "max": 3, "store": 3, "softmax": 3, "place": 1})
            after = []
            if kind == "sum":
                v = self.fresh("stat")
                self.compute("RowSum", [Tile(s)], v, 10.0, accumulate=True)
                after = [Compute("Divide", [Tile(v), Name(columns.length)], v)] if self.chance(0.5) and 0 not in self.lengths[columns.length][1] else []
                known.append(v)
            elif kind == "max":
                v = self.fresh("stat")
                op, start = self.extreme()
                outer.append(Compute("Fill", [Number(start)], v, False, (rows.index,)))
                self.compute(op, [Tile(s)], v, 3.0, accumulate=True)
                known.append(v)
            else:
                if kind == "softmax":
                    if self.chance(0.4):
                        self.add(Mask(s, None, self.condition([rows, columns])))
                    self.add(Softmax(s))
                    self.magnitude[s] = 0.2
                    self.changes(s, [rows, columns], 0, 1, ("scale", "elements", "square"))
                self.store(s, [rows, columns])
            body, self.body = self.body, outer
            self.add(Loop(self.fresh("loop"), Name(columns.length), "BN", body))
            for a in after:
                self.add(a)
                self.magnitude[a.target] = 1.0
        for v in known:
            if self.outputs == 0 or self.chance(0.5):
                self.magnitude[v] = 3.0
                self.changes(v, [rows], 0, 2)
                self.store(v, [rows], self.r.choice(("f32", None)))

    def elementwise_program(self):
        """Tiles of one or two tensors, without a loop."""
        self.parallel()
        rows, columns = self.space("row", walked=False), Space(self.fresh("walk"), None)
        whole = self.chance(0.35)
        if whole:
            e = self.feature()
            columns = Space(e.name, e.length.name)
        else:
            columns.length = self.length(f"{columns.index}_len")
        x = self.along(rows, "left", [rows.axis, columns.axis], self.some_parallels(), self.fill(), self.r.choice((None, None, None, "f32")))
        s = self.fresh("score")
        self.add(Copy(x, "global", "register", s))
        self.magnitude[s] = 1.0
        self.changes(s, [rows, columns], 0 if whole else 1, 3 if whole else 5)
        if whole:
            self.whole_rows(s, rows, columns)
        self.store(s, [rows, columns])

    def whole_rows(self, s, rows, columns):
        """Statistics of rows that a tile has whole, and what is made with them."""
        if self.chance(0.3):
            self.add(Mask(s, None, self.condition([rows, columns])))
            self.add(Softmax(s))
            self.magnitude[s] = 0.2
            self.changes(s, [rows, columns], 0, 1, ("scale", "elements", "square"))
            return
        for _ in range(self.r.choice((1, 1, 2))):
            y, v = self.fresh("score"), self.fresh("stat")
            self.compute("Cast", [Tile(s)], y, self.magnitude[s])
            self.changes(y, [rows, columns], 0, 1, ("square", "abs", "scale", "elements"))
            self.compute(self.r.choice(("RowSum", "RowSum", self.extreme()[0])), [Tile(y)], v, 5.0)
            self.changes(v, [rows], 0, 1, ("scale", "shift", "abs"))
            if self.chance(0.3):
                self.store(v, [rows])
            self.compute("Abs", [Tile(v)], v, 5.0)
            self.compute("Add", [Tile(v), Number(1)], v, 5.0)
            self.compute(self.r.choice(("Divide", "Multiply")), [Tile(s), Tile(v)], s, 2.0)

    def largest(self, s, rows, columns):
        """Where the largest of each row are: what one tile has whole, or the reasoner would refuse."""
        width = self.width(columns)
        if self.tops.random() < 0.65 or width % 8 or width > 256 or rows.mode != "plain":
            return
        names = []
        for kind in ("most", "top", "Best"):
            names.append(next(n for n in [kind] + [f"{kind}{i}" for i in range(99)] if n not in self.used))
            self.used.add(names[-1])
        most, top, best = names
        self.lengths[most] = ("fixed", self.tops.choice((8, 8, 16, 24)))
        self.pins[most] = self.lengths[most][1]
        self.compute("RowTopK", [Tile(s), Name(most)], top, 5.0)
        self.declarations.append(Tensor(best, "i32", self.parallels, [rows.axis, axis(most)], output=True))
        self.add(Copy(top, "register", "global", best))
        self.outputs += 1

    def whole_program(self):
        """A product without a loop, and rows of its result."""
        self.parallel()
        rows = self.space("row", walked=False)
        d, e = self.feature(), self.feature()
        x = self.along(rows, "left", [rows.axis, d], self.some_parallels(), self.fill())
        turned = self.chance(0.5)
        w = self.input("right", self.some_parallels(keys=True), [e, d] if turned else [d, e], self.fill(0.2))
        self.add(Copy(x, "global", "shared"))
        self.bring_right(w, (e, d) if turned else (d, e))
        target = self.fresh("sum")
        self.compute("GEMM", [Tile(x), Tile(w, turned)], target, 2.0)
        spaces = [rows, Space(e.name, e.length.name)]
        self.changes(target, spaces, 0, 3)
        self.largest(target, rows, e)
        if self.chance(0.1):
            self.whole_rows(target, rows, spaces[1])
        elif self.chance(0.15):                     # a second product takes all of the first, which may be given out, too
            f = self.feature()
            if self.chance(0.5):
                self.store(target, (rows, e))
            more = self.input("value", self.some_parallels(keys=True), [e, f], self.fill(0.2))
            self.add(Copy(more, "global", "shared"))
            x, target, e = target, self.fresh("sum"), f
            self.compute("GEMM", [Tile(x), Tile(more)], target, 2.0)
        elif self.chance(0.3):
            v = self.fresh("stat")
            self.compute(self.r.choice(("RowSum", self.extreme()[0])), [Tile(target)], v, 5.0)
            self.changes(v, [rows], 0, 1)
            if self.chance(0.15):
                best = self.fresh("stat")
                self.compute("RowArgMax", [Tile(target)], best, 5.0)
                self.store(best, [rows], "i32")
            if self.chance(0.5):
                self.compute("Abs", [Tile(v)], v, 5.0)
                self.compute("Add", [Tile(v), Number(1)], v, 5.0)
                self.compute("Divide", [Tile(target), Tile(v)], target, 1.0)
            else:
                self.store(v, [rows])
        self.store(target, (rows, e))

    def steps_program(self):
        """A loop one by one over an axis before the matrix."""
        self.parallel()
        rows, columns = (Space(self.fresh(k), None) for k in ("row", "walk"))
        rows.length = self.length(f"{rows.index}_len")
        step, count = self.fresh("walk"), f"{rows.index}_steps"
        self.lengths[count] = ("pick", [1, 2, 3, 5] if self.chance(0.7) else [0, 1, 4])
        outer, self.body = self.body, []
        batch = self.some_parallels() + [axis(step, count)]
        target = self.fresh("sum")
        if self.chance(0.5):
            d, e = self.feature(), self.feature()
            columns = Space(e.name, e.length.name)
            a = self.input("left", batch, [rows.axis, d], self.fill())
            b = self.input("right", batch, [d, e], self.fill(0.2))
            self.add(Copy(a, "global", "shared"))
            self.add(Copy(b, "global", "shared"))
            if self.chance(0.5):
                s = self.fresh("score")
                self.compute("GEMM", [Tile(a), Tile(b)], s, 2.0)
                self.changes(s, [rows, columns], 1, 2)
                if self.chance(0.3):
                    self.add(Softmax(s))
                    self.magnitude[s] = 0.3
                    self.changes(s, [rows, columns], 0, 1)
                self.compute("Cast", [Tile(s)], target, 3.0, accumulate=True)
            else:
                self.compute("GEMM", [Tile(a), Tile(b)], target, 2.0, accumulate=True)
        else:
            columns.length = self.length(f"{columns.index}_len")
            x = self.input("left", batch, [rows.axis, columns.axis], self.fill())
            self.add(Copy(x, "global", "register"))
            self.magnitude[x] = 1.0
            self.changes(x, [rows, columns], 0, 2)
            if self.chance(0.5):
                weight = self.input("vector", [], [axis(step, count)], ("normal", 1.0, 0.0), "f32", flat=True)
                self.compute("Multiply", [Tile(x), element(weight, step)], x, 1.0)
            self.compute("Cast", [Tile(x)], target, 3.0, accumulate=True)
        body, self.body = self.body, outer
        self.add(Loop(step if self.chance(0.7) else self.fresh("loop"), Name(count), None, body))
        self.finish([(target, (rows, columns))], rows)
