"""Random sketches from the whole language. program(seed) makes one; the same seed always makes the same."""
import random

import tree as t
from edges import Edges
from eight_bits import EightBits
from expressions import Expressions
from past_ends import PastEnds
from products import Products
from row_programs import RowPrograms
from spaces import Space, Spaces
from state_programs import StatePrograms
from tile_statements import TileStatements
from tree import Copy, Let, Loop, Name, Softmax, Tensor, Tile, axis

NAMES = {
    "row": ("q", "row", "m", "r", "query", "u"), "walk": ("kv", "n", "key", "s", "z", "col"),
    "loop": ("j", "i", "step", "blk", "g0"),
    "left": ("Q", "A", "X", "Left"), "right": ("K", "B", "Y0", "Keys"), "value": ("V", "C", "W", "Vals"),
    "score": ("S", "T", "P0", "score"), "sum": ("O", "Acc", "E0", "F0"), "stat": ("r0", "stat", "sum0", "nrm"),
    "vector": ("w", "gain", "bias", "vec"), "number": ("scale", "alpha", "eps0", "shift0"), "whole": ("win", "off", "cut", "lim"),
    "table": ("lens", "lo", "hi", "ids", "tab"), "place": ("x", "y", "c"), "cut": ("bt", "bc", "chunk"), "out": ("Out", "Res", "Z0", "G"), "feature": ("d", "e", "dv", "f", "h"),
}
FEATURES = (64,) * 16 + (32,) * 12 + (16, 128) * 6 + (40, 24, 80, 48, 96, 8) * 4 + (33, 7, 192, 192, 256, 256, 512, 512)
SHORT, MIDDLE, LONG = (0, 1, 2, 3, 5, 8), (15, 16, 17, 31, 33, 64, 65, 70, 96, 113), (127, 128, 129, 150, 203, 257, 300, 333, 400)


class Builder(Spaces, Expressions, TileStatements, Products, RowPrograms, StatePrograms, EightBits, PastEnds, Edges):
    def __init__(self, seed, past_ends=False, edges=False):
        self.r = random.Random(seed)
        self.others = random.Random(f"{seed}: the same program with other operations")
        self.rights = random.Random(f"{seed}: the same program with right operands that are computed")
        self.tops = random.Random(f"{seed}: the same program that also says where the largest are")
        self.bytes = random.Random(f"{seed}: the same program with operands of 8 bits")
        self.reals = random.Random(f"{seed}: the same program with edges that are real numbers")
        self.keeps = random.Random(f"{seed}: the same program with Outputs that are kept")
        self.states = random.Random(f"{seed}: the same program chunk by chunk")
        self.ends = random.Random(f"{seed}: the same program with numbers past ends") if past_ends else None
        self.edges = random.Random(f"{seed}: the same program with other masks") if edges else None
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


def program(seed, eight_bits=False, past_ends=False, edges=False, states=False):
    b = Builder(seed, past_ends, edges)
    kind = b.weighted({"attend": 55, "contract": 15, "rows_program": 14, "elementwise_program": 6, "whole_program": 6, "steps_program": 4})
    b.share_of_sums = 0.6 if b.chance(0.08) else 0.0
    bits = b.bytes.random()
    if bits < 0.07 or eight_bits:
        kind = "bytes_program"
    elif b.states.random() < 0.04 or states:
        kind = "state_program"
    getattr(b, kind)()
    b.has_block_rows = kind not in ("elementwise_program", "state_program")
    b.pin()
    if b.chance(0.03):
        b.types()
    if 0.07 < bits < 0.12:
        b.of_bytes()
    b.of_four_bits()
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
