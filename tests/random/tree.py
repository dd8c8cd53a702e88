"""Sketches as trees, and how they are printed as TL. The generator builds them, evaluate.py says what they mean."""
from dataclasses import dataclass, field

FUNCTIONS = ("min", "max", "ceil", "floor", "abs", "exp", "exp2", "log", "log2", "select")
TIGHTNESS = {"or": 1, "and": 2, "not": 3, "<": 4, "<=": 4, ">": 4, ">=": 4, "==": 4, "!=": 4,
             "+": 5, "-": 5, "*": 6, "/": 6, "%": 6, "neg": 7}


class Expr:
    """Operators build trees; comparisons are written with compare()."""

    def __add__(self, other): return Binary("+", self, tree(other))
    def __sub__(self, other): return Binary("-", self, tree(other))
    def __mul__(self, other): return Binary("*", self, tree(other))
    def __truediv__(self, other): return Binary("/", self, tree(other))
    def __mod__(self, other): return Binary("%", self, tree(other))
    def __neg__(self): return Unary("neg", self)


@dataclass
class Number(Expr):
    value: float


@dataclass
class Name(Expr):
    name: str


@dataclass
class Unary(Expr):
    op: str                     # neg, not
    a: Expr


@dataclass
class Binary(Expr):
    op: str
    a: Expr
    b: Expr


@dataclass
class Call(Expr):
    function: str
    arguments: list


@dataclass
class Element(Expr):
    tensor: str
    indices: list


def tree(x):
    if isinstance(x, Expr):
        return x
    return Name(x) if isinstance(x, str) else Number(x)


def compare(op, a, b):
    return Binary(op, tree(a), tree(b))


def call(function, *arguments):
    return Call(function, [tree(a) for a in arguments])


def element(tensor, *indices):
    return Element(tensor, [tree(i) for i in indices])


def number(value):
    if isinstance(value, int):
        return str(value)
    text = repr(float(value))
    return text if any(c in text for c in ".e") else text + ".0"


def show(e, outer=0):
    if isinstance(e, Number):
        text = number(e.value)
        return f"({text})" if e.value < 0 and outer > 5 else text
    if isinstance(e, Name):
        return e.name
    if isinstance(e, Call):
        return f"{e.function}({', '.join(show(a) for a in e.arguments)})"
    if isinstance(e, Element):
        return f"{e.tensor}[{', '.join(show(i) for i in e.indices)}]"
    if isinstance(e, Unary):
        tight = TIGHTNESS[e.op]
        text = ("-" if e.op == "neg" else "not ") + show(e.a, tight)
    else:
        tight = TIGHTNESS[e.op]
        # Left to right; a comparison stands alone between looser operators.
        text = f"{show(e.a, tight + (tight == 4))} {e.op} {show(e.b, tight + 1)}"
    return f"({text})" if tight < outer else text


@dataclass
class Axis:
    index: Expr                 # a name, or where the tensor is looked up: head/group
    length: Expr

    def show(self):
        index, length = show(self.index), show(self.length)
        return index if index == length else f"{index} in {length}"

    @property
    def name(self):
        return self.index.name if isinstance(self.index, Name) else None


def axis(index, length=None):
    return Axis(tree(index), tree(index if length is None else length))


def show_axes(batch, matrix):
    inside = ", ".join(a.show() for a in matrix)
    if batch:
        inside = ", ".join(a.show() for a in batch) + "; " + inside
    return f"({inside})"


@dataclass
class Tensor:
    """An Input or Output with axes, or an Input that is a number."""
    name: str
    type: str | None            # as written; None is left open
    batch: list = field(default_factory=list)
    matrix: list = field(default_factory=list)
    output: bool = False
    where: Expr | None = None
    fill: object = None         # how its elements are drawn: see data.py
    flat: bool = False          # a table: its axes are written without the ;
    kept: bool = False          # an Output whose elements stay as they were where nothing writes them

    def lines(self, indent):
        text = f"{indent}{'Output' if self.output else 'Input '} {self.name}"
        if self.type:
            text += f" {self.type}"
        if self.matrix and self.flat:
            text += f" ({', '.join(a.show() for a in self.batch + self.matrix)})"
        elif self.matrix:
            text += " " + show_axes(self.batch, self.matrix)
        if self.kept:
            text += " kept"
        if self.where is not None:
            text += f" where {show(self.where)}"
        return [text]

    @property
    def axes(self):
        return self.batch + self.matrix


@dataclass
class Let:
    name: str
    value: Expr

    def lines(self, indent):
        return [f"{indent}let {self.name} = {show(self.value)}"]


@dataclass
class View:
    name: str
    batch: list
    matrix: list
    base: str
    indices: list
    where: Expr | None = None   # where it shows the base; elsewhere `other`
    other: float = 0

    def lines(self, indent):
        shown = show(Element(self.base, self.indices))
        if self.where is not None:
            shown = f"select({show(self.where)}, {shown}, {number(self.other)})"
        return [f"{indent}let {self.name} {show_axes(self.batch, self.matrix)} = {shown}"]

    @property
    def axes(self):
        return self.batch + self.matrix


@dataclass
class Loop:
    index: str
    length: Expr
    block: str | None           # BN; None walks one by one
    body: list

    def lines(self, indent):
        bound = show(self.length, 6)
        head = f"{indent}for {self.index} = 0:{bound}" + (f"/{self.block}" if self.block else "")
        return [head] + [line for s in self.body for line in s.lines(indent + "    ")] + [indent + "end"]


@dataclass
class Copy:
    source: str
    start: str
    end: str
    target: str | None = None
    accumulate: bool = False    # adds to what is in global memory

    def lines(self, indent):
        text = f"{indent}Copy {self.source} from {self.start} to {self.end}"
        return [text + (f" and {'accumulate' if self.accumulate else 'get'} {self.target}" if self.target else "")]


@dataclass
class Tile:
    """An operand of Compute that is a tile."""
    name: str
    turned: bool = False


@dataclass
class Compute:
    op: str
    operands: list              # Tile or Expr
    target: str
    accumulate: bool = False
    axes: tuple = ()            # of Fill: what the tile's axes come to be

    def lines(self, indent):
        shown = [(o.name + (".T" if o.turned else "")) if isinstance(o, Tile) else show(o) for o in self.operands]
        verb = "accumulate" if self.accumulate else "get"
        return [f"{indent}Compute {self.op} {', '.join(shown)} and {verb} {self.target}"]


@dataclass
class Mask:
    tile: str
    value: Expr | None
    where: Expr

    def lines(self, indent):
        value = "" if self.value is None else f", {show(self.value)}"
        return [f"{indent}Compute Mask {self.tile}{value} where {show(self.where)}"]


@dataclass
class Softmax:
    tile: str
    maximum: str | None = None
    total: str | None = None

    def lines(self, indent):
        names = f" with {self.maximum} and {self.total}" if self.maximum else ""
        return [f"{indent}Compute Softmax {self.tile}{names}"]


@dataclass
class Kernel:
    name: str
    declarations: list
    body: list

    def lines(self):
        return [f"kernel {self.name}"] + [line for s in self.declarations + self.body for line in s.lines("")]


@dataclass
class Program:
    """Kernels that run one after the other: what one gives out and a later one takes under the same name is workspace."""
    name: str
    kernels: list
    pins: dict                  # --let NAME=VALUE
    dtype: str                  # of what is left open
    lengths: dict               # name of a length -> how it is drawn (data.py)

    def text(self):
        return "\n".join(line for k in self.kernels for line in k.lines()) + "\n"

    @property
    def declarations(self):
        return [d for k in self.kernels for d in k.declarations]

    @property
    def body(self):
        return [s for k in self.kernels for s in k.body]

    @property
    def workspace(self):
        tensors = [d for d in self.declarations if isinstance(d, Tensor)]
        return {d.name for d in tensors if d.output} & {d.name for d in tensors if not d.output}

    def tensors(self):
        """The parameters."""
        hidden = self.workspace
        return list({d.name: d for d in self.declarations if isinstance(d, Tensor) and d.name not in hidden}.values())


def statements(body):
    """All of them, those of loops after their loop."""
    for s in body:
        yield s
        if isinstance(s, Loop):
            yield from statements(s.body)
