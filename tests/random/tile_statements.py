"""What random programs do with tiles: statements that change them, and Outputs that take them."""
import math

from spaces import Space
from tree import Compute, Copy, Mask, Name, Number, Tensor, Tile, View, axis, call, element


class TileStatements:
    """A part of the Builder. self.magnitude follows how large elements are, roughly."""

    def add(self, statement):
        self.body.append(statement)

    def compute(self, op, operands, target, magnitude, accumulate=False, axes=()):
        self.add(Compute(op, operands, target, accumulate, axes))
        self.magnitude[target] = magnitude

    def elements(self, axes):
        """An expression over index names: values by place."""
        s = self.r.choice(axes)
        kinds = {"select": 2, "vector": 4, "distance": 2 if len(axes) == 2 else 0, "lookup": 1 if len(axes) == 2 else 0, "function": 1, "place": 1}
        kind = self.weighted(kinds)
        i = Name(s.index)
        if kind == "select":
            return call("select", self.test(axes), Number(self.real()), Number(self.real())), 1.0
        if kind == "vector" and s.mode == "plain":
            batch = [a for a in self.parallels if self.chance(0.5)]
            vector = self.input("vector", batch, [s.axis], ("normal", 1.0, 0.0), "f32", flat=self.chance(0.5))
            return element(vector, *[a.index for a in batch], i), 1.0
        if kind == "distance":
            difference = Name(axes[0].index) - Name(axes[1].index)
            slope = self.scalar(0.02)
            if self.chance(0.5):
                return slope * call("abs", difference), 2.0
            if self.chance(0.3):
                return call("exp", Number(-0.05) * call("abs", difference)), 1.0
            return slope * difference, 2.0
        if kind == "lookup":                        # a bias by distance, as far as there is one
            n, difference = self.r.choice((4, 16, 33)), Name(axes[0].index) - Name(axes[1].index)
            length = self.fresh("walk") + "_far"
            self.used.add(length)
            self.lengths[length] = ("fixed", n)
            batch = [a for a in self.parallels if self.chance(0.5)]
            vector = self.input("vector", batch, [axis(self.fresh("place"), length)], ("normal", 1.0, 0.0), "f32", flat=True)
            far = call("min", call("abs", difference), Number(n - 1)) if self.chance(0.6) else call("max", Number(0), call("min", difference + Number(n // 2), Number(n - 1)))
            return element(vector, *[a.index for a in batch], far), 1.0
        if kind == "function":
            near = Number(0.03125) * i
            return self.r.choice((call("exp2", -near), call("log", near + Number(1.5)), call("log2", near + Number(1.5)), call("min", near, Number(1.5)),
                                  call("exp", Number(0.5) - near), call("max", Number(0.25), near))), 1.0
        return Number(0.01) * i, 1.0

    def tile_along(self, axes):
        """A tile of one or both axes, copied into registers."""
        plain = [s for s in axes if s.mode == "plain"]
        if not plain:
            return None
        chosen = plain if len(plain) == 2 and self.chance(0.5) else [self.r.choice(plain)]
        type = self.r.choice((None, "f32", "f32"))
        name = self.input("vector", self.some_parallels(), [s.axis for s in chosen], ("normal", 1.0, 0.0), type)
        self.add(Copy(name, "global", "register"))
        return name

    def change(self, x, axes, allowed=None):
        """One or a few elementwise statements on tile x."""
        m = self.magnitude[x]
        kinds = {"scale": 6, "shift": 3, "elements": 3, "tile": 3, "tanh": 2, "abs": 1, "relu": 2, "square": 2, "bound": 1, "fma": 2,
                 "sigmoid": 1, "exp": 2, "rational": 1, "root": 1, "log": 1, "erf": 1, "two": 2, "divide": 1, "mask": 3}
        kind = self.weighted({k: v for k, v in kinds.items() if allowed is None or k in allowed})
        if kind == "scale":
            f = self.scalar()
            self.compute("Multiply", [Tile(x), f], x, m)
        elif kind == "divide":
            self.compute("Divide", [Tile(x), self.scalar(2.0, positive=True)], x, m)
        elif kind == "shift":
            self.compute(self.r.choice(("Add", "Subtract")), [Tile(x), self.scalar()], x, m + 1)
        elif kind == "elements":
            e, size = self.elements(axes)
            op = self.r.choice(("Add", "Subtract", "Multiply", "Multiply"))
            self.compute(op, [Tile(x), e], x, m * size if op == "Multiply" else m + size)
        elif kind == "tile":
            name = self.tile_along(axes)
            if name:
                op = self.r.choice(("Add", "Subtract", "Multiply", "Max", "Min"))
                self.compute(op, [Tile(x), Tile(name)], x, m + 1)
        elif kind == "tanh":
            self.compute(self.bounded(), [Tile(x)], x, min(m, 1))
        elif kind == "abs":
            self.compute("Abs", [Tile(x)], x, m)
        elif kind == "relu":
            self.compute(self.r.choice(("Max", "Min")), [Tile(x), Number(0)], x, m)
        elif kind == "bound":
            self.compute(self.r.choice(("Max", "Min")), [Tile(x), self.scalar()], x, m)
        elif kind == "square" and m < 20:
            self.compute("Multiply", [Tile(x), Tile(x)], x, m * m)
        elif kind == "fma":
            self.compute("MultiplyAdd", [Tile(x), self.scalar(), self.scalar()], x, m + 1)
        elif kind == "sigmoid":
            self.compute("Multiply", [Tile(x), Number(-1)], x, m)
            self.compute("Exp", [Tile(x)], x, m)
            self.compute("Add", [Tile(x), Number(1)], x, m)
            self.compute("Reciprocal", [Tile(x)], x, 1.0)
        elif kind == "exp":
            if m > 2:
                self.compute("Multiply", [Tile(x), Number(round(1 / m, 5))], x, 1.0)
            self.compute(self.r.choice(("Exp", "Exp2")), [Tile(x)], x, 3.0)
        elif kind == "rational":
            self.compute("Abs", [Tile(x)], x, m)
            self.compute("Add", [Tile(x), Number(1)], x, m + 1)
            self.compute(self.r.choice(("Reciprocal", "Rsqrt")), [Tile(x)], x, 1.0)
        elif kind == "root":
            self.compute("Abs", [Tile(x)], x, m)
            self.compute("Sqrt", [Tile(x)], x, math.sqrt(m))
        elif kind == "log":
            self.compute("Abs", [Tile(x)], x, m)
            self.compute("Add", [Tile(x), Number(0.5)], x, m)
            self.compute(self.r.choice(("Log", "Log2")), [Tile(x)], x, 1.0)
        elif kind == "erf":
            self.compute(self.r.choice(("Erf", "Erfc")), [Tile(x)], x, 1.0)
        elif kind == "two":
            y = self.fresh("score")
            self.compute(self.r.choice(("Cast", self.bounded(), "Abs")), [Tile(x)], y, m)
            self.compute("Multiply", [Tile(y), self.scalar()], y, m)
            self.compute(self.r.choice(("Add", "Subtract", "Multiply")), [Tile(x), Tile(y)], x, 2 * m)
        elif kind == "mask":
            self.add(Mask(x, self.r.choice((Number(0), Number(0), self.scalar())), self.condition(axes)))

    def changes(self, x, axes, low=0, high=3, allowed=None):
        for _ in range(self.r.randint(low, high)):
            self.meets_ends(x, axes)
            self.change(x, axes, allowed)
        self.meets_ends(x, axes)

    def store(self, x, axes, type=None):
        """Copies a tile of registers out: `axes` are Spaces or axes of known length."""
        plain = all(not isinstance(a, Space) or a.mode == "plain" for a in axes)
        matrix = [a.axis if isinstance(a, Space) else a for a in axes]
        if self.accumulates(x, axes, matrix, plain, type):
            return
        type = type or self.weighted({None: 60, "f32": 30, "f16": 10, "bf16": 10, "e4m3": 3, "e5m2": 3, "i8": 3})
        name = self.fresh("out")
        if plain and isinstance(axes[0], Space) and len(axes) > 1 and self.keeps.random() < 0.08:
            self.declare_kept(name, axes[0], matrix, type)
        elif plain:
            self.declarations.append(Tensor(name, type, self.parallels, matrix, output=True))
            self.stored.append((self.declarations[-1], axes))
        else:
            space = next(a for a in axes if isinstance(a, Space) and a.mode != "plain")
            stored, i = axis(self.fresh("walk"), space.room), Name(space.index)
            place = axes.index(space)
            heads = [a for a in self.parallels if a.name != "b"] if space.mode == "ragged" else list(self.parallels)
            before, inside = [Name(a.name) for a in heads], [Name(a.name) for a in matrix]
            whole = matrix[:place] + [stored] + matrix[place + 1:]
            if space.mode == "folded":
                heads, before = heads + [stored], before + [i / Name(space.folds)]
                whole[place] = axis(self.fresh("walk"), space.folds)
                inside[place] = i % Name(space.folds)
            elif space.mode == "ragged":
                inside[place] = element(space.table, "b") + i
            base = self.fresh("out")
            self.declarations.append(Tensor(base, type, heads, whole, output=True))
            self.declarations.append(View(name, self.parallels, matrix, base, before + inside))
        self.add(Copy(x, "register", "global", name))
        self.outputs += 1

    def declare_kept(self, name, rows, matrix, type):
        """An Output whose rows lie where a table says, apart from each other, in pages or not: new ones beside old ones."""
        base, table, more = f"{name}_all", f"{name}_slots", self.keeps.choice((0, 1, 2, 5))
        heads = [a for a in self.parallels if self.keeps.random() < 0.5]
        slot, inner = element(table, *[a.index for a in heads], Name(rows.index)), matrix[1:]
        place = [Name(a.name) for a in self.parallels]
        if self.keeps.random() < 0.6:
            page, pages = self.keeps.choice((1, 4, 16, 16, 64, 24)), f"{name}_pages"
            self.lengths[pages] = ("parts", rows.length, page, more)
            stored, room = [axis(f"{name}_page", pages), axis(f"{name}_slot", Number(page))], Name(pages) * Number(page)
            place += [slot / Number(page), slot % Number(page)]
        else:
            self.lengths[f"{name}_room"] = ("plus", rows.length, more)
            stored, room = [axis(f"{name}_slot", f"{name}_room")], Name(f"{name}_room")
            place += [slot]
        self.declarations += [
            Tensor(table, "i32", heads, [rows.axis], fill=("distinct", room), flat=True),
            Tensor(base, type, list(self.parallels), stored + inner, output=True, kept=True),
            View(name, self.parallels, matrix, base, place + [Name(a.name) for a in inner])]

    def accumulates(self, x, axes, matrix, plain, type):
        """Whether x is added to what is in memory instead: over an axis before the matrix, or to rows that a table names."""
        if not plain or type not in (None, "f32") or not self.chance(self.share_of_sums):
            return False
        base, name = self.fresh("out"), self.fresh("out")
        batch, stored, place = list(self.parallels), list(matrix), [Name(a.name) for a in self.parallels + matrix]
        kind = self.weighted({"less": 5 if batch else 0, "rows": 2 if isinstance(axes[0], Space) and axes[0].mode == "plain" else 0, "same": 1})
        if kind == "less":
            gone = self.r.randrange(len(batch))
            del batch[gone], place[gone]
        elif kind == "rows":
            room, rows = self.length(f"{base}_rows"), axes[0]
            self.lengths[room] = ("pick", [n for n in self.lengths[room][1] if n])
            heads = [a for a in self.parallels if self.chance(0.5)]
            table = self.input("table", heads, [rows.axis], ("below", Name(room)), "i32", flat=True)
            stored[0], place[len(batch)] = axis(self.fresh("walk"), room), element(table, *[a.index for a in heads], Name(rows.index))
        else:
            self.declarations.append(Tensor(name, "f32", batch, matrix, output=True))
            self.stored.append((self.declarations[-1], axes))
        if kind != "same":
            self.declarations += [Tensor(base, "f32", batch, stored, output=True), View(name, self.parallels, matrix, base, place)]
        self.add(Copy(x, "register", "global", name, accumulate=True))
        self.outputs += 1
        return True
