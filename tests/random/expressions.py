"""Expressions and conditions of random programs."""
import tree as t
from tree import Let, Name, Number, Tensor, axis, call, compare, element


class Expressions:
    """A part of the Builder."""

    def scalar(self, size=1.0, positive=False):
        """A number that is the same for a whole tile: written out, an Input, or made of both."""
        kind = self.weighted({"literal": 4, "input": 4, "quotient": 1, "let": 1, "again": 1 if self.lets and not positive else 0,
                              "table": 1 if self.parallels else 0})
        if kind == "literal":
            return Number(round(self.real(positive) * size, 6) or size)
        if kind == "table":
            a = self.r.choice(self.parallels)
            low, high = (0.2, 1.0) if positive else (-1.0, 1.0)
            vector = self.input("vector", [], [a], ("uniform", low * size, high * size), "f32", flat=True)
            return element(vector, a.index)
        if kind == "again":
            return Name(self.r.choice(self.lets))
        values = [x * size for x in ((0.1, 0.5, 1.0, 2.0, 0.01) if positive else (0.1, 0.5, 1.0, -1.0, -0.3, 2.0, 0.01, 0.0))]
        if self.chance(0.12):                       # of every magnitude
            values += [x * 10.0 ** self.r.randint(-9, 5) for x in values[:3]]
        name = self.fresh("number")
        where = compare(">", Name(name), Number(0)) if positive else None
        if not positive and self.chance(0.12):      # of one sign alone, or none but one number
            where, keep = self.r.choice(((compare("<", Name(name), Number(0)), lambda x: x < 0), (compare("!=", Name(name), Number(0)), bool),
                                         (compare(">=", Name(name), Number(0)), lambda x: x >= 0), (compare("<=", call("abs", name), Number(2)), lambda x: abs(x) <= 2)))
            values = [x for x in values if keep(x)] or [-0.5 if keep(-0.5) else 0.5]
        self.declarations.append(Tensor(name, "f32", fill=("choice", values), where=where))
        number = Name(name)
        if kind == "quotient":
            number = number / Number(self.r.choice((2.0, 3.0, 8.0)))
        if kind == "let":
            name = self.fresh("number")
            self.declarations.append(Let(name, self.r.choice((number * Number(0.5), number * number if positive else number, call("max", number, Number(0.125) * Number(size))))))
            if not positive:
                self.lets.append(name)
            return Name(name)
        return number

    def whole_number(self, low=-20, high=60):
        if self.chance(0.5):
            return Number(self.r.randint(low, high)) if low >= 0 else Number(self.r.randint(0, high))
        name = self.fresh("whole")
        if low < 0 and self.chance(0.1):            # far beyond all lengths
            high = self.r.choice((1000, 10 ** 6, 10 ** 9))
            low = -high
        self.declarations.append(Tensor(name, "i32", fill=("integers", low, high)))
        return Name(name)

    def edge(self):
        """How far an edge is moved: mostly by a whole number. Real ones are exact in f32, so that it is the same place everywhere."""
        whole = self.whole_number()
        if self.reals.random() < 0.85:
            return whole
        if self.reals.random() < 0.3:
            return Number(self.reals.choice((0.5, 2.75, 15.5, 40.25)))
        name = self.fresh("number")
        self.declarations.append(Tensor(name, "f32", fill=("choice", [0.25, 3.5, -7.25, 16.0, 31.5, -40.75, 100000.5])))
        return Name(name)

    def test(self, axes):
        """A condition on index names of the tile's axes."""
        spaces = [a for a in axes]
        if len(spaces) == 2 and self.chance(0.7):
            rows, columns = spaces
            if self.chance(0.15):
                rows, columns = columns, rows
            q, kv = Name(rows.index), Name(columns.index)
            q_len, kv_len = Name(rows.length), Name(columns.length)
            kind = self.weighted({"causal": 5, "aligned": 3, "shifted": 3, "window": 3, "blocks": 2, "kinds": 2, "remainder": 1,
                                  "near": 1, "steep": 1, "table": 1})
            if kind == "causal":
                return compare(self.r.choice((">", ">", ">=", "<")), kv, q)
            if kind == "aligned":
                return compare(">", kv, q + kv_len - q_len)
            if kind == "shifted":
                return compare(self.r.choice((">", ">=", "<")), kv, q + self.edge())
            if kind == "window":
                return compare("<=", kv, q + kv_len - q_len - self.whole_number(1, 90))
            if kind == "blocks":
                n = self.r.choice((3, 16, 32, 50))
                return compare(self.r.choice((">", "!=", "<")), kv / Number(n), q / Number(n))
            if kind == "kinds" and rows.mode == "plain" and columns.mode == "plain":
                batch = [a for a in self.parallels if a.name == "b"]
                tables = [self.input("table", [], batch + [s.axis], ("integers", 0, 2), "i32", flat=True) for s in (rows, columns)]
                sides = [element(tab, *[a.index for a in batch], i) for tab, i in zip(tables, (q, kv))]
                return compare(self.r.choice(("!=", "!=", "<", "==")), *sides)
            if kind == "table" and rows.mode == "plain" and columns.mode == "plain":
                table = self.input("table", [], [rows.axis, columns.axis], ("integers", 0, 3), "i32", flat=True)
                return compare(self.r.choice(("==", "!=")), element(table, q, kv), Number(0))
            if kind == "near":
                return compare(self.r.choice((">", "<")), call("abs", q - kv), self.whole_number(0, 40))
            if kind == "steep":
                return compare(">", kv, q * Number(2)) if self.chance(0.5) else compare("<", kv * Number(3), q)
            n = self.r.choice((2, 3, 7))
            return compare("==", (kv + q) % Number(n), Number(self.r.randrange(n)))
        s = self.r.choice(spaces)
        i = Name(s.index)
        kind = self.weighted({"literal": 3, "number": 3, "end": 2, "table": 3 if self.has_b else 0, "remainder": 1, "marks": 2})
        if kind == "literal":
            return compare(self.r.choice(("<", ">=", ">")), i, Number(self.r.choice((1, 4, 20, 64, 100))))
        if kind == "number":
            return compare(self.r.choice(("<", ">=", "<=")), i, self.edge())
        if kind == "end":
            return compare(">=", i, Name(s.length) - Number(self.r.choice((1, 3, 40))))
        if kind == "table":
            table = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Number(200)), "i32", flat=True)
            return compare(self.r.choice(("<", ">=")), i, element(table, "b"))
        if kind == "marks" and s.mode == "plain":
            table = self.input("table", [], [s.axis], ("integers", 0, 2), "i32", flat=True)
            return compare("==", element(table, i), Number(0))
        n = self.r.choice((2, 5))
        return compare("==", i % Number(n), Number(self.r.randrange(n)))

    def condition(self, axes):
        tests = [self.test(axes) for _ in range(self.r.choice((1, 1, 1, 2, 2, 3)))]
        c = tests[0]
        for x in tests[1:]:
            if self.chance(0.15):
                x = t.Unary("not", x)
            c = t.Binary(self.r.choice(("and", "or")), c, x)
        return self.with_edges(c, axes)
