"""Values that differ from score to score, as a Python function computes with them: what it does to them is written down.

A Symbol is an int (the places b, h, q, kv, and what is made of them), a real (the score) or a bool (a condition). NumPy's and PyTorch's
functions come here by their own protocols, so that neither is imported."""
import math
import numbers
import os
import sys
import weakref

WHOLE_MOST = 2 ** 31 - 1
EDGE = {"<": ">=", "<=": ">", ">": "<=", ">=": "<", "==": "!=", "!=": "=="}  # the opposite of each comparison
codes = weakref.WeakSet()  # of the functions that are being traced, so that an error finds their line


class FunctionError(ValueError):
    """What a function does cannot be said in a sketch; 'file' and 'line' are the function's."""

    def __init__(self, text, at=None):
        name, self.file, self.line = at.made_at if at is not None else place_in_function()
        super().__init__((f"'{name}' ({os.path.basename(self.file)}, line {self.line}): " if self.line else "") + text)


def place_in_function():
    """(name, file, line) of the traced function that runs now."""
    frame = sys._getframe(1)
    while frame and frame.f_code not in codes:
        frame = frame.f_back
    return (frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno) if frame else (None, None, None)


def one_by_one(self, *_):
    raise FunctionError("'if', 'and', 'or', 'not', 'min', 'max' and a < b < c ask for one answer, and each score has its own; "
                  "write &, |, ~, np.minimum, np.maximum, np.where(condition, a, b), or torch's functions of these names")


def is_number(*_, **named):
    raise FunctionError("a number was asked for, and each score has its own; np.exp, np.tanh, np.where and their like (or torch's) take such "
                  "values, and arrays are indexed by them where the function captures the array itself")


class Symbol:
    """op of arguments, which are Symbols too; 'kind' is int, real or bool; 'is_tile': made by statements, not inside an expression."""

    __slots__ = ("op", "args", "kind", "is_tile", "value", "made_at")
    __hash__ = object.__hash__
    __bool__ = one_by_one
    __int__ = __float__ = __index__ = __iter__ = __len__ = __array__ = is_number

    def __init__(self, op, kind, args=(), value=None, is_tile=False):
        self.op, self.kind, self.args, self.value = op, kind, tuple(args), value
        self.made_at = place_in_function()
        self.is_tile = is_tile or any(arg.is_tile for arg in self.args)

    def __repr__(self):
        return f"<a {self.kind} of each score>"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ("dtype", "device", "shape", "ndim", "item"):
            raise FunctionError(f"'.{name}' is asked of a value that each score has its own of")
        if name not in METHODS:
            raise FunctionError(f"there is no '.{name}' in a sketch; there are {', '.join(sorted(METHODS))}")
        return lambda *args, **named: METHODS[name](self, *args, **named)

    def __array_ufunc__(self, ufunc, method, *args, **named):
        if method != "__call__" or named:
            raise FunctionError(f"'{ufunc.__name__}' is taken with its values alone")
        return apply(ufunc.__name__, args, {})

    def __array_function__(self, function, types, args, named):
        return apply(function.__name__, args, named)

    @classmethod
    def __torch_function__(cls, function, types, args=(), named=None):
        return apply(function.__name__, args, named or {})


def symbol(value):
    """A Symbol of what a function computes with."""
    if isinstance(value, Symbol):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return Symbol("number", "bool", value=value)
    if isinstance(value, numbers.Integral):
        if abs(value) > WHOLE_MOST:
            raise FunctionError(f"{value} is beyond the whole numbers of a kernel; {float(value)!r} is a real one")
        return Symbol("number", "int", value=int(value))
    if isinstance(value, numbers.Real):
        if math.isnan(value) or value == math.inf:
            raise FunctionError(f"a score cannot become {value}")
        if -math.inf < value <= -1e30:
            raise FunctionError(f"{value} is among what kernels take for minus infinity (language.md, Softmax); -np.inf says so")
        return Symbol("number", "real", value=float(value))
    if hasattr(type(value), "__refuse__"):
        value.__refuse__()
    raise FunctionError(f"a {type(value).__name__} takes part; values, numbers, and elements of the arrays that the function captures do")


def is_constant(x, value=None):
    return x.op == "number" and (value is None or x.value == value)


def as_number(x):
    if x.kind != "bool":
        return x
    return symbol(int(x.value)) if is_constant(x) else where(x, 1, 0)


def as_bool(x):
    if x.kind != "bool":
        raise FunctionError("&, |, ^ and ~ join conditions here; a number becomes one by a comparison, x != 0")
    return x


def as_real(x):
    x = as_number(x)
    if x.kind == "real":
        return x
    return symbol(float(x.value)) if is_constant(x) else Symbol("real", "real", (x,))


def finite(*args):
    for x in args:
        if is_constant(x, -math.inf):
            raise FunctionError("minus infinity is what a score becomes by np.where(condition, score, -np.inf); nothing is computed with it")


# --- operators ---------------------------------------------------------------------------------------------------------

def arithmetic(op):
    def make(a, b):
        a, b = as_number(symbol(a)), as_number(symbol(b))
        for x, other in ((a, b), (b, a)):  # a sum with minus infinity by a condition is a choice
            if op == "+" and x.op == "select" and is_constant(x.args[2], -math.inf):
                return where(x.args[0], other + x.args[1], x.args[2])
            if op == "+" and x.op == "select" and is_constant(x.args[1], -math.inf):
                return where(x.args[0], x.args[1], other + x.args[2])
        finite(a, b)
        return folded(op, "real" if "real" in (a.kind, b.kind) else "int", a, b)
    return make


def folded(op, kind, a, b):
    """a op b; two numbers make one."""
    if is_constant(a) and is_constant(b):
        return symbol({"+": a.value + b.value, "-": a.value - b.value, "*": a.value * b.value}[op])
    if op in "+-" and is_constant(b, 0) and a.kind == kind:
        return a
    if op == "*" and is_constant(b, 1) and a.kind == kind:
        return a
    return Symbol(op, kind, (a, b))


def divided(a, b):
    a, b = as_number(symbol(a)), as_number(symbol(b))
    finite(a, b)
    if is_constant(b, 0):
        raise FunctionError("a division by 0")
    if "real" in (a.kind, b.kind) or is_constant(b) or is_constant(a):
        a, b = (as_real(x) if is_constant(x) else x for x in (a, b))
        return Symbol("/", "real", (a, b))
    return Symbol("/", "real", (as_real(a), b))


def whole_division(op):
    def make(a, b):
        a, b = as_number(symbol(a)), as_number(symbol(b))
        if "real" in (a.kind, b.kind):
            raise FunctionError(f"{op} is of whole numbers here; for others there are / and np.floor")
        if not is_constant(b) or b.value <= 0:
            raise FunctionError(f"the right side of {op} is a whole number above 0 that is known when the sketch is made")
        return Symbol(op, "int", (a, b))
    return make


def comparison(op):
    def make(a, b):
        a, b = symbol(a), symbol(b)
        if a.kind == b.kind == "bool" and op in ("==", "!="):
            return exclusive(a, b) if op == "!=" else inverse(exclusive(a, b))
        a, b = as_number(a), as_number(b)
        finite(a, b)
        return Symbol(op, "bool", (a, b))
    return make


def inverse(x):
    """Not x. Of reals a comparison and its opposite are both false where one is NaN."""
    x = as_bool(symbol(x))
    if is_constant(x):
        return symbol(not x.value)
    if x.op == "not":
        return x.args[0]
    if x.op in EDGE and all(arg.kind == "int" for arg in x.args):
        return Symbol(EDGE[x.op], "bool", x.args)
    if x.op in ("and", "or"):
        return junction("or" if x.op == "and" else "and")(*map(inverse, x.args))
    return Symbol("not", "bool", (x,))


def junction(op):
    def make(a, b):
        a, b = as_bool(symbol(a)), as_bool(symbol(b))
        for x, other in ((a, b), (b, a)):
            if is_constant(x):
                return other if x.value == (op == "and") else x
        return Symbol(op, "bool", (a, b))
    return make


def exclusive(a, b):
    a, b = as_bool(symbol(a)), as_bool(symbol(b))
    return (a & inverse(b)) | (inverse(a) & b)


def negative(x):
    x = as_number(symbol(x))
    return symbol(-x.value) if is_constant(x) else Symbol("-x", x.kind, (x,))


def power(a, b):
    a, b = as_number(symbol(a)), as_number(symbol(b))
    if is_constant(b) and b.value == 0.5:
        return tile_function("Sqrt")(a)
    if is_constant(b) and b.value == int(b.value) and 1 <= b.value <= 8:
        product = a
        for _ in range(int(b.value) - 1):
            product = product * a
        return product
    if is_constant(a) and a.value > 0:
        return function("exp2")(b if a.value == 2 else b * math.log2(a.value))
    raise FunctionError("a power has a whole exponent from 1 to 8, or 0.5, or a base that is a number above 0")


NEUTRAL = {"*": 1.0, "+": 0.0, "-": 0.0}


def in_parts(x):
    """(a score, the operation, what is no score), of x that is one of these; or None."""
    for at in (0, 1) if x.op in NEUTRAL else ():
        score, term = x.args[at], x.args[1 - at]
        if score.is_tile and not term.is_tile and not (at and x.op == "-") and not is_constant(term, math.inf):
            return score, x.op, term
    return None


def joined(condition, a, b):
    """A choice between two forms of one score, or of one and the score itself, whose factors or terms differ: the score by a factor, or with
    a term, that the condition chooses. One tile then, in place of two. None: they are other things."""
    parts = None if condition.is_tile else in_parts(a) or in_parts(b)
    if parts is None:
        return None
    score, op, _ = parts
    terms = [(score, op, symbol(NEUTRAL[op])) if x is score else in_parts(x) for x in (a, b)]
    if any(one is None or one[0] is not score or one[1] != op for one in terms):
        return None
    chosen = where(condition, terms[0][2], terms[1][2])
    return None if chosen.is_tile else arithmetic(op)(score, chosen)


def where(condition, a, b):
    condition, a, b = as_bool(symbol(condition)), symbol(a), symbol(b)
    if is_constant(condition):
        return a if condition.value else b
    if a.kind == b.kind == "bool":
        return (condition & a) | (inverse(condition) & b)
    a, b = as_number(a), as_number(b)
    found = joined(condition, a, b)
    if found is not None:
        return found
    kind = "real" if "real" in (a.kind, b.kind) else "int"
    # Kernels have no expression that chooses by or from places of the grid and of the tile together; a Mask of a tile does.
    return Symbol("select", kind, (condition, a, b), is_tile={True, False} <= sides((condition, a, b)))


def sides(symbols):
    """Of the places in them: True where one is of the grid, False where one is of the tile."""
    found, seen, left = set(), set(), list(symbols)
    while left:
        x = left.pop()
        if id(x) not in seen:
            seen.add(id(x))
            left.extend(x.args)
            if x.op == "place":
                found.add(x.value in ("b", "head"))
    return found


def function(op, keeps_kind=False):
    """A function that expressions and statements have."""
    def make(*args):
        args = [as_number(symbol(x)) for x in args]
        finite(*args)
        kind = "real" if not keeps_kind or any(x.kind == "real" for x in args) else "int"
        return Symbol(op, kind, args)
    return make


def tile_function(op):
    """A function that only statements have."""
    def make(x):
        x = as_number(symbol(x))
        finite(x)
        return Symbol(op, "real", (x,), is_tile=True)
    return make


def rounding(op):
    def make(x):
        x = as_number(symbol(x))
        if x.kind == "int":
            return x
        raise FunctionError(f"'{op}' of a real number is not in a sketch; // divides whole numbers and rounds down")
    return make


def clamp(x, min=None, max=None, a_min=None, a_max=None):
    low, high = (a if a is not None else b for a, b in ((min, a_min), (max, a_max)))
    x = symbol(x)
    x = x if low is None else function("max", True)(x, low)
    return x if high is None else function("min", True)(x, high)


def converted(x, kind, *_, **named):
    name = str(kind).rpartition(".")[2].strip("'<>")
    x = symbol(x)
    if name == "bool":
        return x if x.kind == "bool" else x != 0
    if name in ("int", "int32", "int64", "long") and x.kind != "real":
        return as_number(x)
    if name in ("float", "float32", "float64", "double"):
        return as_real(x)
    raise FunctionError(f"a value of each score does not become '{name}': scores are float32, places whole numbers")


def ones(_, shape, **named):
    """As PyTorch's and_masks begins with it."""
    if tuple(shape):
        raise FunctionError("an array is made inside the function; make it outside")
    return symbol(True)


def zeros(_, shape, **named):
    return inverse(ones(_, shape))


def sigmoid(x):
    return 1.0 / (1.0 + function("exp")(-symbol(x)))


add, subtract, multiply = (arithmetic(op) for op in "+-*")
floor_divide, remainder = whole_division("//"), whole_division("%")
absolute, smaller, larger = function("abs", True), function("min", True), function("max", True)
both, either = junction("and"), junction("or")
OPERATORS = {"add": add, "sub": subtract, "mul": multiply, "truediv": divided, "floordiv": floor_divide, "mod": remainder,
             "pow": power, "and": both, "or": either, "xor": exclusive}
for name, make in OPERATORS.items():
    setattr(Symbol, f"__{name}__", lambda a, b, make=make: make(a, b))
    setattr(Symbol, f"__r{name}__", lambda a, b, make=make: make(b, a))
for name, op in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
    setattr(Symbol, f"__{name}__", lambda a, b, make=comparison(op): make(a, b))
Symbol.__neg__, Symbol.__pos__, Symbol.__abs__, Symbol.__invert__ = negative, as_number, absolute, inverse
COMPARED = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!=", "lt": "<",
            "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
# By the names that NumPy and PyTorch give them.
METHODS = {"abs": absolute, "clamp": clamp, "clip": clamp, "exp": function("exp"), "exp2": function("exp2"), "log": function("log"),
           "log2": function("log2"), "tanh": tile_function("Tanh"), "sqrt": tile_function("Sqrt"), "rsqrt": tile_function("Rsqrt"),
           "sin": tile_function("Sin"), "erf": tile_function("Erf"), "erfc": tile_function("Erfc"), "sigmoid": sigmoid,
           "relu": lambda x: larger(x, 0), "square": lambda x: power(x, 2), "reciprocal": lambda x: divided(1.0, x),
           "minimum": smaller, "maximum": larger, "floor": rounding("floor"), "ceil": rounding("ceil"),
           "masked_fill": lambda x, mask, value: where(mask, value, x), "where": lambda x, condition, other: where(condition, x, other),
           "float": lambda x: converted(x, "float"), "int": lambda x: converted(x, "int"), "long": lambda x: converted(x, "int"),
           "bool": lambda x: converted(x, "bool"), "to": converted, "astype": converted, "logical_and": both, "logical_or": either,
           "logical_not": inverse, "logical_xor": exclusive, "new_ones": ones, "new_zeros": zeros}
FUNCTIONS = {**METHODS, **OPERATORS, **{name: comparison(op) for name, op in COMPARED.items()}, "where": where, "absolute": absolute,
             "fabs": absolute, "subtract": subtract, "multiply": multiply, "divide": divided, "true_divide": divided, "div": divided,
             "floor_divide": floor_divide, "remainder": remainder, "power": power, "float_power": power, "negative": negative,
             "neg": negative, "bitwise_and": both, "bitwise_or": either, "bitwise_xor": exclusive, "bitwise_not": inverse,
             "invert": inverse, "min": smaller, "max": larger, "rsub": lambda a, b: subtract(b, a)}


def apply(name, args, named):
    """NumPy's or PyTorch's function of this name."""
    plain = name.strip("_")
    plain = plain if plain in FUNCTIONS else plain.removeprefix("r") if name.startswith("__r") else plain
    if plain not in FUNCTIONS:
        raise FunctionError(f"there is no '{plain}' in a sketch; there are {', '.join(sorted(METHODS))}")
    if name.startswith("__r") and plain != name.strip("_"):
        args = args[::-1]
    try:
        return FUNCTIONS[plain](*args, **named)
    except TypeError as why:
        raise FunctionError(f"'{plain}' is called in a way that a sketch does not have: {why}") from None
