"""Random sketches from the whole language. program(seed) makes one; the same seed always makes the same."""
import math
import random

import tree as t
from eight_bits import EightBits, Space
from past_ends import PastEnds
from tree import Compute, Copy, Element, Let, Loop, Mask, Name, Number, Softmax, Tensor, Tile, View, axis, call, compare, element

NAMES = {
    "row": ("q", "row", "m", "r", "query", "u"), "walk": ("kv", "n", "key", "s", "z", "col"),
    "loop": ("j", "i", "step", "blk", "g0"), "block": ("BN", "BN", "BN", "BK"),
    "left": ("Q", "A", "X", "Left"), "right": ("K", "B", "Y0", "Keys"), "value": ("V", "C", "W", "Vals"),
    "score": ("S", "T", "P0", "score"), "sum": ("O", "Acc", "E0", "F0"), "stat": ("r0", "stat", "sum0", "nrm"),
    "vector": ("w", "gain", "bias", "vec"), "number": ("scale", "alpha", "eps0", "shift0"), "whole": ("win", "off", "cut", "lim"),
    "table": ("lens", "lo", "hi", "ids", "tab"), "place": ("x", "y", "c"), "out": ("Out", "Res", "Z0", "G"), "feature": ("d", "e", "dv", "f", "h"),
}
FEATURES = (64,) * 16 + (32,) * 12 + (16, 128) * 6 + (40, 24, 80, 48, 96, 8) * 4 + (33, 7, 192, 192, 256, 256, 512, 512)
SHORT, MIDDLE, LONG = (0, 1, 2, 3, 5, 8), (15, 16, 17, 31, 33, 64, 65, 70, 96, 113), (127, 128, 129, 150, 203, 257, 300, 333, 400)


class Builder(EightBits, PastEnds):
    def __init__(self, seed, past_ends=False):
        self.r = random.Random(seed)
        self.others = random.Random(f"{seed}: the same program with other operations")
        self.rights = random.Random(f"{seed}: the same program with right operands that are computed")
        self.tops = random.Random(f"{seed}: the same program that also says where the largest are")
        self.bytes = random.Random(f"{seed}: the same program with operands of 8 bits")
        self.ends = random.Random(f"{seed}: the same program with numbers past ends") if past_ends else None
        self.kernels, self.declarations, self.body, self.pins, self.lengths, self.used = [], [], [], {}, {}, {"L"}
        self.size = self.r.choice(("short", "middle", "middle", "long"))
        self.dtype = self.weighted({"f16": 72, "bf16": 28})
        self.magnitude, self.plain = {}, None
        self.outputs, self.stored, self.lets = 0, [], []

    # Choices.
    def chance(self, p):
        return self.r.random() < p

    def weighted(self, table):
        return self.r.choices(list(table), list(table.values()))[0]

    def fresh(self, kind):
        pool = NAMES[kind]
        first = pool[0] if self.chance(0.5) else self.r.choice(pool)
        name, k = first, 1
        while name in self.used:
            name, k = f"{first}{k}", k + 1
        self.used.add(name)
        return name

    def bounded(self):
        return self.others.choice(("Tanh", "Tanh", "Sin"))

    def extreme(self):
        """A reduction to one element, and what an accumulator of it starts from."""
        return self.others.choice((("RowMax", -1e30), ("RowMax", -1e30), ("RowMin", 1e30)))

    def real(self, positive=False):
        """A number of any size, most of them moderate."""
        x = self.r.choice((0.125, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 0.3, 0.0625, 1.4426950408889634, 3.0))
        if self.chance(0.08):
            x *= 10.0 ** self.r.randint(-9, 5)
        return x if positive or self.chance(0.6) else -x

    # Lengths.
    def length(self, name, cap=None):
        if self.size == "short":
            pool = SHORT + MIDDLE
        elif self.size == "middle":
            pool = SHORT[1:] + MIDDLE + LONG[:4]
        else:
            pool = SHORT[:2] + MIDDLE[-4:] + LONG
        self.lengths[name] = ("pick", [n for n in pool if cap is None or n <= cap])
        self.used.add(name)
        return name

    def feature(self, value=None):
        """An axis that is whole in a tile, of a length that is known: its own index, or with a name for it."""
        name = self.fresh("feature")
        value = value or self.r.choice(FEATURES)
        self.lengths[name] = ("fixed", value)
        self.pins[name] = value
        return axis(name) if self.chance(0.7) else axis(self.fresh("place"), name)

    def width(self, a):
        return self.lengths[a.length.name][1]

    def few(self, name, high=3):
        self.lengths[name] = ("pick", list(range(0 if self.chance(0.04) else 1, high + 1)))
        self.used.add(name)
        return name

    # Declarations.
    def input(self, kind, batch, matrix, fill, type=None, flat=False, where=None):
        name = self.fresh(kind)
        self.declarations.append(Tensor(name, type, list(batch), list(matrix), fill=fill, flat=flat, where=where))
        return name

    def fill(self, scale=1.0):
        kind = self.weighted({"normal": 10, "peaks": 1, "ramp": 1, "mean": 1})
        if kind == "mean":
            return ("normal", scale, scale)
        return ("normal", scale, 0.0) if kind == "normal" else (kind, scale, 3.0)

    def parallel(self):
        """The indices before the matrix of all Outputs."""
        self.used |= {"b", "batch", "head", "heads", "q_heads", "kv_heads", "group", "part", "parts"}
        kind = self.weighted({"none": 25, "b": 35, "b head": 20, "group": 15, "part": 5})
        self.group = False
        if kind == "none":
            self.parallels = []
        elif kind == "b":
            self.parallels = [axis("b", self.few("batch"))]
        elif kind == "part":
            self.parallels = [axis("part", self.few("parts"))]
        elif kind == "b head":
            self.parallels = [axis("b", self.few("batch", 2)), axis("head", self.few("heads", 3))]
        else:
            self.group = True
            self.lengths["kv_heads"] = ("pick", [1, 2])
            self.lengths["q_heads"] = ("times", "kv_heads", self.r.choice((1, 2, 3)))
            self.declarations.append(Let("group", Name("q_heads") / Name("kv_heads")))
            self.parallels = [axis("b", self.few("batch", 2)), axis("head", "q_heads")]
        self.has_b = any(a.name == "b" for a in self.parallels)

    def some_parallels(self, keys=False):
        """What a tensor has of them: all, some, none; keys and values share heads."""
        axes = list(self.parallels)
        if keys and self.group:
            axes[1] = t.Axis(Name("head") / Name("group"), Name("kv_heads"))
        if self.chance(0.75):
            return axes
        return [a for a in axes if self.chance(0.5)]

    # Spaces: rows and walked axes, and tensors along them.
    def space(self, kind, walked):
        index = self.fresh(kind)
        modes = {"plain": 70}
        if self.has_b:
            modes["ragged"] = 6
            if walked:
                modes |= {"used": 8, "paged": 6, "tail": 5}
        if not walked:
            modes["folded"] = 5
        if walked:
            modes |= {"shifted": 4, "gathered": 3, "reversed": 2, "strided": 1, "joined": 2}
        mode = self.weighted(modes)
        length = f"{index}_len"
        self.used.add(length)
        if mode == "plain":
            return Space(index, self.length(length), mode)
        if mode == "used":                          # a part of each sequence, as long as a table says
            room = self.length(f"{index}_room")
            table = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Name(room)), "i32", flat=True)
            used = element(table, "b")
            if self.chance(0.3):                    # the table's number is bounded, or lessened
                used = self.r.choice((call("min", used, Number(self.r.choice((3, 64, 100)))), call("max", Number(0), used - Number(self.r.choice((1, 5, 30)))),
                                      call("min", used, Name(room) / Number(2))))
            self.declarations.append(Let(length, used))
            return Space(index, length, mode, room=room)
        if mode == "tail":                          # the last places of each sequence
            room, start = self.length(f"{index}_room"), f"{index}_start"
            self.used.add(start)
            table = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Name(room)), "i32", flat=True)
            used = element(table, "b")
            self.declarations.append(Let(start, call("max", Number(0), used - Number(self.r.choice((1, 16, 40, 100))))))
            self.declarations.append(Let(length, used - Name(start)))
            return Space(index, length, mode, room=room, start=start)
        if mode == "folded":                        # rows are pairs of a place and a head
            places, heads = self.length(f"{index}_places"), f"{index}_folds"
            self.lengths[heads] = ("pick", [1, 2, 3, 8])
            self.used.add(heads)
            self.declarations.append(Let(length, Name(places) * Name(heads)))
            return Space(index, length, mode, room=places, folds=heads)
        if mode == "ragged":                        # sequences one after the other
            tokens = self.length(f"{index}_tokens")
            if "starts" not in self.used:
                self.used.add("starts")
                self.lengths["starts"] = ("plus", "batch", 1)
                self.lengths["batch"] = ("pick", [n for n in self.lengths["batch"][1] if n])    # all rows are somebody's
                self.declarations.append(Let("batch", Name("starts") - Number(1)))
            table = self.input("table", [], [axis(self.fresh("walk"), "starts")], ("starts", Name(tokens)), "i32", flat=True)
            self.declarations.append(Let(length, element(table, Name("b") + Number(1)) - element(table, "b")))
            return Space(index, length, mode, room=tokens, table=table)
        if mode == "paged":
            page_len = self.r.choice((16, 32, 64, 7))
            self.lengths[f"{index}_page"] = ("fixed", page_len)
            self.used |= {f"{index}_page", f"{index}_pages", f"{index}_most"}
            self.lengths[f"{index}_pages"] = ("pick", [1, 2, 5, 9])
            self.lengths[f"{index}_most"] = ("pick", [1, 2, 4] if page_len > 20 else [2, 5, 9])
            table = self.input("table", [], [axis("b", "batch"), axis(self.fresh("walk"), f"{index}_most")],
                               ("below", Name(f"{index}_pages")), "i32", flat=True)
            used = self.input("table", [], [axis("b", "batch")], ("lengths", 0, Name(f"{index}_most") * page_len), "i32", flat=True)
            self.declarations.append(Let(length, element(used, "b")))
            return Space(index, length, mode, table=table)
        if mode == "gathered":
            room = self.length(f"{index}_room")
            self.lengths[room] = ("pick", [n for n in self.lengths[room][1] if n])
            self.length(length)
            batch = [axis("b", "batch")] if self.has_b and self.chance(0.5) else []
            table = self.input("table", batch, [axis(index, length)], ("below", Name(room)), "i32", flat=True)
            return Space(index, length, mode, room=room, table=table, by_b=bool(batch))
        if mode == "shifted":
            shift = self.r.choice((1, 3, 16, 50))
            room = self.length(f"{index}_room")
            self.lengths[room] = ("pick", [n + shift for n in self.lengths[room][1]])
            self.declarations.append(Let(length, Name(room) - Number(shift)))
            return Space(index, length, mode, room=room, shift=shift)
        if mode == "strided":
            room = self.length(f"{index}_room")
            self.declarations.append(Let(length, call("floor", Name(room) / Number(2))))
            return Space(index, length, mode, room=room)
        return Space(index, self.length(length), mode)

    def along(self, space, kind, matrix, batch, fill, type=None):
        """A tensor whose axis `space.index` is stored as the space says; `matrix` are the axes of the tile."""
        if space.mode == "plain":
            known = [k for k, a in enumerate(matrix) if self.lengths.get(t.show(a.length), "?")[0] == "fixed" and self.width(a) % 8 == 0]
            if known and self.chance(0.05):
                return self.part(kind, batch, matrix, fill, type, self.r.choice(known))
            return self.input(kind, batch, matrix, fill, type)
        base = self.fresh(kind)
        others = [a for a in matrix if a.name != space.index]
        i = Name(space.index)
        place = matrix.index(next(a for a in matrix if a.name == space.index))

        def put(x, rest):
            return rest[:place] + [x] + rest[place:]
        rest = [Name(a.name) for a in others]
        where = None
        if space.mode == "folded":
            stored, fold = axis(self.fresh("walk"), space.room), axis(self.fresh("walk"), space.folds)
            heads, before = list(batch) + [stored], [self.index_of(a) for a in batch] + [i / Name(space.folds)]
            whole, inside = put(fold, others), put(i % Name(space.folds), rest)
        elif space.mode in ("reversed", "joined"):
            stored = axis(self.fresh("walk"), space.length)
            inside = put(Name(space.length) - Number(1) - i if space.mode == "reversed" else i - Number(1), rest)
            where = compare(">=", i, Number(1)) if space.mode == "joined" else None
            heads, before = list(batch), [self.index_of(a) for a in batch]
            whole = put(stored, others)
        elif space.mode == "paged":
            heads = [a for a in batch if a.name != "b"]
            page = self.fresh("walk")
            slot = axis(self.fresh("walk"), f"{space.index}_page")
            whole = put(slot, others)
            page_of = element(space.table, "b", i / Name(f"{space.index}_page"))
            inside = put(i % Name(f"{space.index}_page"), rest)
            before = [self.index_of(a) for a in heads] + [page_of]
            heads = heads + [axis(page, f"{space.index}_pages")]
        else:
            stored = axis(self.fresh("walk"), space.room)
            whole = put(stored, others)
            heads, before = list(batch), [self.index_of(a) for a in batch]
            if space.mode == "ragged":
                heads = [a for a in batch if a.name != "b"]
                before = [self.index_of(a) for a in heads]
                inside = put(element(space.table, "b") + i, rest)
            elif space.mode == "used":
                inside = put(i, rest)
            elif space.mode == "tail":
                inside = put(Name(space.start) + i, rest)
            elif space.mode == "shifted":
                inside = put(i + Number(space.shift), rest)
            elif space.mode == "strided":
                inside = put(i * Number(2), rest)
            else:
                inside = put(element(space.table, *(["b", i] if space.by_b else [i])), rest)
        self.declarations.append(Tensor(base, type, heads, whole, fill=fill))
        name = self.fresh(kind)
        batch_of_view = [a for a in self.parallels_of(batch, space)]
        self.declarations.append(View(name, batch_of_view, list(matrix), base, before + inside, where, 0.0))
        return name

    def part(self, kind, batch, matrix, fill, type, k):
        """A part of a wider tensor: along axis k its elements begin at a number."""
        a, base = matrix[k], self.fresh(kind)
        start = self.r.choice((0, 8, 64, self.width(a)))
        wide = self.fresh("feature")
        self.lengths[wide] = ("fixed", self.width(a) + start + self.r.choice((0, 0, 8)))
        whole = [axis(x.name if i != k else self.fresh("place"), x.length if i != k else wide) for i, x in enumerate(matrix)]
        where = compare(">=", Name(wide), a.length + Number(start))
        for length in (a.length.name, wide):        # both are known from the text
            if not any(d.name == length for d in self.declarations):
                self.declarations.append(Let(length, Number(self.lengths[length][1])))
            self.pins.pop(length, None)
        if self.chance(0.6):
            where = None
        self.declarations.append(Tensor(base, type, list(batch), whole, fill=fill, where=where))
        name = self.fresh(kind)
        inside = [Name(x.name) + Number(start) if i == k and start else Name(x.name) for i, x in enumerate(matrix)]
        self.declarations.append(View(name, list(batch), list(matrix), base, [x.index for x in batch] + inside))
        return name

    def index_of(self, a):
        """What stands in a view for an axis before the matrix: its index, which may be head/group."""
        return a.index

    def parallels_of(self, batch, space):
        names = [t.show(a.index) for a in batch]
        if space.mode in ("ragged", "paged", "used", "tail") and "b" not in names:
            batch = [axis("b", "batch")] + list(batch)
        if space.mode == "gathered" and space.by_b and "b" not in names:
            batch = [axis("b", "batch")] + list(batch)
        return batch

    # Expressions.
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
                return compare(self.r.choice((">", ">=", "<")), kv, q + self.whole_number())
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
            return compare(self.r.choice(("<", ">=", "<=")), i, self.whole_number())
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
        return c

    # Statements on tiles. self.magnitude follows how large elements are, roughly.
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
        if plain:
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

    # Kinds of programs.
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
        block = r.choice(NAMES["block"])
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

    # Programs of several kernels, and types that not all may have.
    def next_kernel(self, name):
        """A kernel that takes what the one before gave out: workspace, if it has the same name."""
        tensor, axes = self.r.choice(self.stored)
        self.kernels.append(t.Kernel(name, self.declarations, self.body))
        self.declarations, self.body, self.stored, self.lets = [Let("group", Name("q_heads") / Name("kv_heads"))] if self.group else [], [], [], []
        x = Tensor(tensor.name, tensor.type, list(tensor.batch), list(tensor.matrix), fill=("normal", 1.0, 0.0))
        self.declarations.append(x)
        rows = axes[0] if isinstance(axes[0], Space) else Space(axes[0].name, axes[0].length.name)
        if len(axes) == 1:
            columns, whole = None, True
        else:
            columns = axes[1] if isinstance(axes[1], Space) else Space(axes[1].name, axes[1].length.name)
            whole = self.lengths[columns.length][0] == "fixed"
        ways = {"elements": 4, "fold": 3 if self.parallels else 0, "right": 2 if columns else 0, "rows": 4 if columns else 0, "left": 3 if columns else 0}
        way = self.weighted(ways)
        s = self.fresh("score")
        spaces = [rows] + [columns] * bool(columns)
        if way == "fold":                           # all parts of a sum, one after the other
            a = self.r.choice(self.parallels)
            self.parallels = [x for x in self.parallels if x is not a]
            self.has_b = any(x.name == "b" for x in self.parallels)
            outer, self.body = self.body, []
            self.add(Copy(x.name, "global", "register", s))
            self.magnitude[s] = 1.0
            self.changes(s, spaces, 0, 2)
            total = self.fresh("sum")
            self.compute("Cast", [Tile(s)], total, 3.0, accumulate=True)
            body, self.body = self.body, outer
            self.add(Loop(a.name, a.length, None, body))
            s = total
        elif way == "right" or way == "left":       # an operand of a product
            other, inner = Space(self.fresh("row"), None), rows if way == "right" else columns
            other.length = self.length(f"{other.index}_len")
            outer, self.body = self.body, []
            turned = way == "left" and self.chance(0.5)
            pair = [other.axis, inner.axis] if turned or way == "right" else [inner.axis, other.axis]
            y = self.input("right", self.some_parallels(), pair, self.fill(0.3))
            self.add(Copy(y, "global", "shared"))
            self.add(Copy(x.name, "global", "shared" if self.chance(0.8) else "register"))
            target = self.fresh("sum")
            self.compute("GEMM", [Tile(y), Tile(x.name)] if way == "right" else [Tile(x.name), Tile(y, turned)], target, 3.0, accumulate=True)
            body, self.body = self.body, outer
            if inner is columns and whole:
                self.body = body
                body[-1].accumulate = False
            else:
                self.add(Loop(self.fresh("loop"), Name(inner.length), self.r.choice(("BK", "BN")), body))
            s, spaces = target, [other, columns] if way == "right" else [rows, other]
        else:
            walked = way == "rows" and not whole
            outer, self.body = self.body, []
            self.add(Copy(x.name, "global", "register", s))
            self.magnitude[s] = 1.0
            self.changes(s, spaces, 0, 3)
            if way == "rows" and self.chance(0.5):
                self.add(Softmax(s))
                self.magnitude[s] = 0.2
            elif way == "rows":
                v = self.fresh("stat")
                self.compute("RowSum", [Tile(s)], v, 10.0, accumulate=walked)
                if walked:
                    body, self.body = self.body, outer
                    self.add(Loop(self.fresh("loop"), Name(columns.length), "BN", body))
                    walked = False
                s, spaces = v, [rows]
            if walked:
                self.store(s, spaces)
                body, self.body = self.body, outer
                self.add(Loop(self.fresh("loop"), Name(columns.length), "BN", body))
                return
            self.body = outer + self.body if self.body is not outer else outer
        self.changes(s, spaces, 0, 2)
        self.store(s, spaces)

    def types(self):
        """An Input of a type of its own: 8 bits, f32, or the other one of 16."""
        tensors = [d for d in self.declarations if isinstance(d, Tensor) and not d.output and d.matrix and d.type is None]
        if tensors:
            self.r.choice(tensors).type = self.weighted({"e4m3": 1, "e5m2": 1, "i8": 1, "f32": 2, "f16": 2, "bf16": 2})

    def pin(self):
        """Decisions that a user may pin."""
        if self.chance(0.25):
            for name, values in (("BM", (16, 32, 64, 128)), ("BN", (16, 32, 64, 128)), ("BK", (16, 32, 64)), ("warps", (1, 2, 4, 8)),
                                 ("overlap", (0, 1)), ("split", (0, 1)), ("peel", (0, 1)), ("ring", (0, 1))):
                if name in ("BN", "BK") and not any(s.block == name for s in self.body if isinstance(s, Loop)):
                    continue
                if name == "BM" and not self.has_block_rows:
                    continue
                if self.chance(0.3 if name[0] == "B" else 0.1):
                    self.pins[name] = self.r.choice(values)


def program(seed, eight_bits=False, past_ends=False):
    b = Builder(seed, past_ends)
    kind = b.weighted({"attend": 55, "contract": 15, "rows_program": 14, "elementwise_program": 6, "whole_program": 6, "steps_program": 4})
    b.share_of_sums = 0.6 if b.chance(0.08) else 0.0
    bits = b.bytes.random()
    if bits < 0.07 or eight_bits:
        kind = "bytes_program"
    getattr(b, kind)()
    b.has_block_rows = kind not in ("elementwise_program",)
    b.pin()
    if b.chance(0.03):
        b.types()
    if 0.07 < bits < 0.12:
        b.of_bytes()
    names = [f"random{seed}", "after", "last"]
    # Where `batch` is calculated, a kernel that has no table cannot know it.
    while len(b.kernels) < 2 and b.stored and not (b.has_b and "starts" in b.used) and b.chance(0.1 if not b.kernels else 0.2):
        b.next_kernel(names[len(b.kernels)])
    made = t.Program(f"random{seed}", b.kernels + [t.Kernel(names[len(b.kernels)], b.declarations, b.body)], b.pins, b.dtype, b.lengths)
    for k in made.kernels:                          # a let that nothing uses
        if not any("group" in line for d in k.declarations if d.name != "group" for line in d.lines("")):
            k.declarations = [d for d in k.declarations if d.name != "group"]
    made.kind = kind
    return made
