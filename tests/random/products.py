"""Random programs whose loops have products: attention, and sums over an axis."""
import math

from spaces import Space
from tree import Compute, Copy, Loop, Mask, Name, Number, Softmax, Tile, axis

BLOCKS = ("BN", "BN", "BN", "BK")


class Products:
    """A part of the Builder."""

    def attend(self):
        """Loops over keys: scores, what is made of them, products with values, sums of rows."""
        self.parallel()
        rows = self.space("row", walked=False)
        d = self.feature()
        left = self.along(rows, "left", [rows.axis, d], self.some_parallels(), self.fill())
        self.magnitude[left] = 1.0
        if self.chance(0.25):
            self.add(Copy(left, "global", "register"))
            self.prepare(left, rows, d)
        else:
            self.add(Copy(left, "global", "shared"))
        sums = []
        loops = self.weighted({1: 60, 2: 28, 3: 12})
        spaces = []
        for _ in range(loops):
            if spaces and self.chance(0.3):
                space = self.r.choice(spaces)
            else:
                space = self.space("walk", walked=True)
            spaces.append(space)
            sums += self.nested_loop(left, rows, d, space) if self.chance(0.07) else self.attend_loop(left, rows, d, space)
        self.finish(sums, rows)

    def nested_loop(self, left, rows, d, space):
        """A loop over keys inside one over an axis before the matrix: pages, lists, groups of keys."""
        step, count = self.fresh("walk"), f"{rows.index}_rounds{len(self.lengths)}"
        self.lengths[count] = ("pick", [1, 2, 3] if self.chance(0.7) else [0, 1, 4])
        self.used.add(count)
        outer, self.body = self.body, []
        results = self.attend_loop(left, rows, d, space, [axis(step, count)], outer)
        inner = [r for r in results if len(r[1]) == 2]
        if inner and self.chance(0.3):              # what a round sums up is changed before it is added
            x, axes = self.r.choice(inner)
            self.changes(x, [rows, Space(axes[1].name, axes[1].length.name)], 1, 2)
            total = self.fresh("sum")
            self.compute("Cast", [Tile(x)], total, 3.0, accumulate=True)
            results = [(total, axes) if r[0] == x else r for r in results]
        body, self.body = self.body, outer
        self.add(Loop(step if self.chance(0.7) else self.fresh("loop"), Name(count), None, body))
        return results

    def prepare(self, x, rows, d):
        """The left operand is calculated: scaled, or normalised by its rows."""
        if self.chance(0.5):
            u, s = self.fresh("score"), self.fresh("stat")
            self.compute("Multiply", [Tile(x), Tile(x)], u, 1.0)
            self.compute("RowSum", [Tile(u)], s, 50.0)
            self.compute("Add", [Tile(s), Number(0.1)], s, 50.0)
            self.compute("Rsqrt", [Tile(s)], s, 0.2)
            self.compute("Multiply", [Tile(x), Tile(s)], x, 0.2)
        else:
            self.compute("Multiply", [Tile(x), self.scalar()], x, 1.0)
        self.calculated = True

    def bring_right(self, x, axes):
        """A right operand, as it is in memory, or computed of that."""
        is_computed = (self.rights.random() < 0.12 or self.ends is not None) and not self.plain
        self.add(Copy(x, "global", "register" if is_computed else "shared"))
        if is_computed:
            self.magnitude[x] = 1.0
            spaces = [a if isinstance(a, Space) else Space(a.name, a.length.name) for a in axes]
            kinds = ("scale", "relu", "tanh", "elements", "abs", "tile", "mask", "square", "bound", "fma")
            self.changes(x, spaces, 1, 2, kinds)

    def attend_loop(self, left, rows, d, space, rounds=(), before=None):
        """`rounds` are axes that a loop outside walks; `before` is the body outside of all loops."""
        r = self.r
        outer, self.body = self.body, []
        before = outer if before is None else before
        batch = self.some_parallels(keys=True) + list(rounds)
        width = self.width(d)
        scale = r.choice((1.0, 0.5, 0.2))
        keys = self.along(space, "right", [space.axis, d], batch, self.fill(scale))
        self.bring_right(keys, (space, d))
        s = self.fresh("score")
        size = math.sqrt(width) * scale * self.magnitude[left]
        turned = self.chance(0.04) and not getattr(self, "calculated", False)
        if turned:
            self.compute("GEMM", [Tile(keys), Tile(left, True)], s, size)
            axes = [space, rows]
        else:
            self.compute("GEMM", [Tile(left), Tile(keys, True)], s, size)
            axes = [rows, space]
        if self.chance(0.08):
            again = self.along(space, "right", [space.axis, d], batch, self.fill(scale))
            self.add(Copy(again, "global", "shared"))
            pair = [Tile(again), Tile(left, True)] if turned else [Tile(left), Tile(again, True)]
            self.compute("GEMM", pair, s, size * 1.4, accumulate=True)
        shared_values = None
        if not turned and not rounds and self.chance(0.05):     # values take part in the scores, too
            e = self.width_of_values(d)
            more = self.along(rows, "left", [rows.axis, e], self.some_parallels(), self.fill())
            before.append(Copy(more, "global", "shared"))
            values = self.along(space, "value", [space.axis, e], batch, self.fill(scale))
            self.add(Copy(values, "global", "shared"))
            self.compute("GEMM", [Tile(more), Tile(values, True)], s, size * 1.4, accumulate=True)
            shared_values = (values, e)
        if size > 3 and self.chance(0.7):
            self.compute("Multiply", [Tile(s), self.scalar(r.choice((1, 2)) / size)], s, 2.0)
        self.changes(s, axes, 0, 2)
        inside, results = self.body, []
        kind = self.weighted({"softmax": 50, "weights": 25, "rows": 15, "scores": 5, "exp": 12})
        if turned and kind == "scores" or (turned or rounds) and kind == "softmax" and self.chance(0.8):
            kind = "weights"
        statistics, kept = None, None
        if kind == "softmax" and self.chance(0.07):             # scores are used beside their weights
            kept = self.fresh("score")
            self.compute("Cast", [Tile(s)], kept, self.magnitude[s])
        if kind in ("softmax", "exp"):
            for _ in range(r.choice((0, 1, 1, 2))):
                self.add(Mask(s, None, self.condition(axes)))
            if kind == "softmax":
                if self.chance(0.25) and not rounds:
                    statistics = (self.fresh("stat"), self.fresh("stat"))
                    if self.chance(0.15):
                        before.append(Compute("Fill", [Number(r.choice((0, -2, 3)))], statistics[0], False, (rows.index,)))
                        before.append(Compute("Fill", [Number(r.choice((0, 1, 2)))], statistics[1], False, (rows.index,)))
                    self.add(Softmax(s, *statistics))
                else:
                    self.add(Softmax(s))
                self.magnitude[s] = 0.1
                if self.chance(0.2):
                    self.change(s, axes, ("scale", "elements", "tile", "mask", "square"))
            else:
                if self.magnitude[s] > 2:
                    self.compute("Multiply", [Tile(s), Number(0.1)], s, 1.0)
                self.compute("Exp", [Tile(s)], s, 2.0)
        if kind == "scores" and (space.mode != "plain" or rounds):
            kind = "rows"
        if kind == "scores":
            self.store(s, axes)
        elif kind == "rows" or (kind == "exp" and self.chance(0.3)) or turned:
            target = self.fresh("stat")
            if self.chance(0.7) or turned:
                self.compute("RowSum", [Tile(s, turned)], target, 5.0, accumulate=True)
            else:
                op, start = self.extreme()
                before.append(Compute("Fill", [Number(start)], target, False, (rows.index,)))
                self.compute(op, [Tile(s)], target, 5.0, accumulate=True)
            results.append((target, (rows,)))
        if kept:
            target = self.fresh("stat")
            self.compute("Multiply", [Tile(kept), Tile(s)], kept, 0.1)
            self.compute("RowSum", [Tile(kept, turned)], target, 2.0, accumulate=True)
            results.append((target, (rows,)))
        if kind in ("softmax", "weights", "exp") and not turned:
            for _ in range(2 if self.chance(0.08) else 1):
                reuse = self.chance(0.12)
                if shared_values and self.chance(0.8):
                    values, e = shared_values
                elif reuse:
                    values, e = keys, d
                else:
                    e = self.width_of_values(d)
                    values = self.along(space, "value", [space.axis, e], self.some_parallels(keys=True) + list(rounds), self.fill(r.choice((1.0, 1.0, 0.3))))
                    self.bring_right(values, (space, e))
                target = self.fresh("sum")
                self.compute("GEMM", [Tile(s), Tile(values)], target, 3.0, accumulate=True)
                results.append((target, (rows, e)))
        body, self.body = self.body, outer
        block = r.choice(BLOCKS)
        self.add(Loop(self.fresh("loop"), Name(space.length), block, body))
        if statistics:
            m, l = statistics
            for x in statistics:
                self.magnitude[x] = 3.0
            if self.chance(0.6):
                self.compute("Log", [Tile(l)], l, 3.0)
                self.compute("Add", [Tile(l), Tile(m)], l, 3.0)
                results.append((l, (rows,)))
            else:
                results += [(m, (rows,))] * self.chance(0.6) + [(l, (rows,))] * self.chance(0.6)
        return results

    def width_of_values(self, d):
        """Axes of values: of their own, one that is there already, the same length as d."""
        if not hasattr(self, "widths"):
            self.widths = []
        if self.widths and self.chance(0.5):
            return self.r.choice(self.widths)
        e = self.feature(self.width(d) if self.chance(0.5) else None)
        self.widths.append(e)
        return e

    def finish(self, sums, rows):
        """What is made of the sums after the loops, and where it goes."""
        left = list(sums)
        self.r.shuffle(left)
        while left:
            x, axes = left.pop()
            partner = next((y for y in left if [str(a) for a in y[1]] == [str(a) for a in axes]), None)
            if partner and self.chance(0.6):
                left.remove(partner)
                self.compute(self.r.choice(("Add", "Subtract", "Multiply")), [Tile(x), Tile(partner[0])], x, 5.0)
            vector = next((y for y in left if len(y[1]) == 1 and len(axes) == 2), None)
            if vector and self.chance(0.3):
                if self.chance(0.8):
                    left.remove(vector)
                self.compute("Abs", [Tile(vector[0])], vector[0], 3.0)
                self.compute("Add", [Tile(vector[0]), Number(0.5)], vector[0], 3.0)
                self.compute(self.r.choice(("Divide", "Multiply")), [Tile(x), Tile(vector[0])], x, 5.0)
            spaces = [a if isinstance(a, Space) else Space(a.name, a.length.name, "plain") for a in axes]
            self.magnitude[x] = 3.0
            if self.chance(0.5):
                self.changes(x, spaces, 1, 3)
            whole = len(axes) == 2 and not isinstance(axes[1], Space)
            if whole and self.chance(0.1) or len(axes) == 2 and self.chance(0.01):
                v = self.fresh("stat")
                self.compute(self.r.choice(("RowSum", self.extreme()[0])), [Tile(x)], v, 5.0)
                left.append((v, axes[:1]))
                if self.chance(0.4):
                    continue
            self.store(x, axes)
            if self.chance(0.05):                   # stored, and used again
                self.changes(x, spaces, 1, 2)
                self.store(x, axes)

    def contract(self):
        """Matrix products over a long axis, with what may stand beside and after them."""
        r = self.r
        self.parallel()
        m, n = (Space(self.fresh(k), None) for k in ("row", "walk"))
        for s in (m, n):
            s.length = self.length(f"{s.index}_len")
        k = Space(self.fresh("walk"), None)
        k.length = self.length(f"{k.index}_len")
        if self.chance(0.2):
            e = self.feature()
            n = Space(e.name, e.length.name)
        sums, extra = [], []
        outer, self.body = self.body, []
        turned_left = self.chance(0.2)
        a_axes = [k.axis, m.axis] if turned_left else [m.axis, k.axis]
        a = self.input("left", self.some_parallels(), a_axes, self.fill())
        self.magnitude[a] = 1.0
        calculated = not turned_left and self.chance(0.1)
        self.add(Copy(a, "global", "register" if calculated else "shared"))
        if calculated:
            self.changes(a, [m, k], 1, 2, ("scale", "relu", "tanh", "elements", "abs", "tile", "mask"))
        for _ in range(self.weighted({1: 75, 2: 25})):
            turned = self.chance(0.7)
            axes = [n.axis, k.axis] if turned else [k.axis, n.axis]
            b = self.input("right", self.some_parallels(keys=True), axes, self.fill(0.1))
            self.bring_right(b, (n, k) if turned else (k, n))
            target = self.fresh("sum")
            self.compute("GEMM", [Tile(a, turned_left), Tile(b, turned)], target, 1.0, accumulate=True)
            sums.append((target, (m, n)))
        if self.chance(0.2) and not turned_left:
            y, s = self.fresh("score"), self.fresh("stat")
            self.add(Copy(a, "global", "register", y))
            self.magnitude[y] = 1.0
            self.changes(y, [m, k], 0, 2, ("square", "abs", "scale", "relu"))
            self.compute("RowSum", [Tile(y)], s, 10.0, accumulate=True)
            extra.append((s, (m,)))
        body, self.body = self.body, outer
        self.add(Loop(self.fresh("loop"), Name(k.length), r.choice(("BK", "BK", "BN")), body))
        self.finish(sums + extra, m)
