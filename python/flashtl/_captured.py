"""What a Python function captures, so that it can be traced: arrays become Tables, which Symbols index; numbers stay numbers."""
import builtins
import functools
import types

from ._arrays import is_array
from ._symbols import FunctionError, Symbol, codes, symbol

REAL = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f32"}
WHOLE = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}


def bounds_of(array):
    """The smallest and the largest element, where they can be seen without waiting for a GPU."""
    is_seen = 0 not in array.shape and str(getattr(array, "device", "cpu")).lower().startswith("cpu")
    return (int(array.min()), int(array.max())) if is_seen else (None, None)


class Table:
    """A captured array: table[b, kv] or table[b][kv] is an element of it; 'name' is the variable's."""

    def __init__(self, name, array, indices=(), whole=None):
        self.name, self.array, self.indices, self.whole = name, array, indices, self if whole is None else whole
        self.full_shape, self.known = tuple(array.shape), None
        self.dtype_name = str(array.dtype).rpartition(".")[2]

    @property
    def type(self):
        return REAL.get(self.dtype_name, "i32")

    def bounds(self):
        """The smallest and the largest element of whole numbers, where they can be seen without waiting for a GPU."""
        if self.known is None:
            self.known = bounds_of(self.array) if self.type == "i32" else (None, None)
        return self.known

    @property
    def shape(self):
        return self.full_shape[len(self.indices):]

    def __len__(self):
        return self.shape[0]

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise FunctionError(f"'{self.name}' is an array; in the function its elements are taken by indices, '.{name}' before it")

    def __getitem__(self, index):
        given = index if isinstance(index, tuple) else (index,)
        if len(given) > len(self.shape):
            raise FunctionError(f"'{self.name}' has {len(self.full_shape)} axes, and {len(self.indices) + len(given)} indices are given")
        made = Table(self.name, self.array, (*self.indices, *map(self.index, given, range(len(given)))), self.whole)
        return made if made.shape else made.element()

    def index(self, value, place):
        if isinstance(value, (slice, type(None), type(...), list)) or is_array(value) and getattr(value, "shape", ()) != ():
            raise FunctionError(f"'{self.name}' is indexed by whole numbers, one for each of its axes")
        made = symbol(value)
        if made.kind != "int":
            raise FunctionError(f"'{self.name}' is indexed by whole numbers; found a {made.kind}")
        if made.is_tile:
            raise FunctionError(f"'{self.name}' is indexed by what only tiles have: the score, tanh, a choice by heads and keys at once; a sketch has no such index")
        if made.op == "number":
            extent = self.shape[place]
            if not -extent <= made.value < extent:
                raise FunctionError(f"the index {made.value} is out of bounds: axis {len(self.indices) + place} of '{self.name}' has {extent} elements")
            made = symbol(made.value % extent)
        return made

    def element(self):
        if self.dtype_name not in REAL and self.dtype_name not in WHOLE:
            raise FunctionError(f"the array '{self.name}' has the type {self.dtype_name}; a sketch has tables of real and of whole numbers")
        kind = "real" if self.type != "i32" else "int"
        made = Symbol("element", kind, self.indices, value=self.whole)
        return Symbol("!=", "bool", (made, symbol(0))) if self.dtype_name == "bool" else made


def refuse_table(self, *_, **named):
    raise FunctionError(f"'{self.name}' is an array of {len(self.full_shape)} axes; the function computes with its elements, one index for each axis")


for name in (*"add sub mul truediv floordiv mod pow and or xor lt le gt ge eq ne".split(),):
    setattr(Table, f"__{name}__", refuse_table)
    setattr(Table, f"__r{name}__", refuse_table)
for name in "neg abs invert bool float int index iter array array_ufunc array_function refuse".split():
    setattr(Table, f"__{name}__", refuse_table)
Table.__hash__ = object.__hash__


class Attributes:
    """An object whose attributes are lifted when they are asked for."""

    def __init__(self, value, lift):
        object.__setattr__(self, "_of", (value, lift))

    def __getattr__(self, name):
        value, lift = object.__getattribute__(self, "_of")
        found = getattr(value, name)
        if isinstance(found, types.MethodType) and found.__self__ is value:
            return types.MethodType(lift(found.__func__, name), self)
        return lift(found, name)

    def __setattr__(self, name, value):
        raise FunctionError(f"the function changes '{name}' of what it captures")

    def __call__(self, *args, **named):
        value, lift = object.__getattribute__(self, "_of")
        return lift(type(value).__call__, "__call__")(self, *args, **named)


class Lifting:
    """Makes of a function one with the same code that finds Tables where it captures arrays. Each array is one Table."""

    def __init__(self):
        self.made, self.keep = {}, []

    def lift(self, value, name):
        if isinstance(value, (Symbol, Table, Attributes)):
            return value
        key = id(value)
        if key not in self.made:
            self.keep.append(value)  # else another object could get its id
            found = self.lifted(value, name)
            self.made[key] = found
        return self.made[key]

    def lifted(self, value, name):
        if isinstance(value, types.FunctionType):
            return self.function(value)
        if isinstance(value, types.MethodType):
            return types.MethodType(self.lift(value.__func__, name), self.lift(value.__self__, name))
        if isinstance(value, functools.partial):
            named = {key: self.lift(one, key) for key, one in value.keywords.items()}
            return functools.partial(self.lift(value.func, name), *(self.lift(one, name) for one in value.args), **named)
        if type(value) in (list, tuple):
            return type(value)(self.lift(one, f"{name}{i}") for i, one in enumerate(value))
        if type(value) is dict:
            return {key: self.lift(one, str(key)) for key, one in value.items()}
        if isinstance(value, (type, types.ModuleType)):
            return value
        if is_array(value) and hasattr(value, "shape"):
            import numpy
            table = Table(name, value)
            return value if isinstance(value, numpy.generic) else table if table.shape else table.element()
        return Attributes(value, self.lift) if hasattr(value, "__dict__") and not is_foreign(value) else value

    def function(self, own):
        """With the same code; what it captures is lifted."""
        codes.add(own.__code__)
        scope = {"__builtins__": builtins, "__name__": own.__module__}
        cells = tuple(types.CellType() for _ in own.__closure__ or ())
        made = types.FunctionType(own.__code__, scope, own.__name__, None, cells)
        self.made[id(own)] = made
        self.keep.append(own)
        if own.__defaults__:
            names = own.__code__.co_varnames[:own.__code__.co_argcount][-len(own.__defaults__):]
            made.__defaults__ = tuple(map(self.lift, own.__defaults__, names))
        if own.__kwdefaults__:
            made.__kwdefaults__ = {name: self.lift(one, name) for name, one in own.__kwdefaults__.items()}
        for name in global_names(own.__code__):
            if name in own.__globals__:
                scope[name] = self.lift(own.__globals__[name], name)
        for cell, given, name in zip(cells, own.__closure__ or (), own.__code__.co_freevars):
            try:
                cell.cell_contents = self.lift(given.cell_contents, name)
            except ValueError as why:
                if isinstance(why, FunctionError):
                    raise
                continue  # a variable that has no value yet
        return made


def is_foreign(value):
    """Functions and objects of C, which are left as they are."""
    return isinstance(value, types.BuiltinFunctionType) or type(value).__module__.partition(".")[0] in ("builtins", "functools", "numpy", "torch")


def global_names(code):
    names = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            codes.add(inner)
            names |= global_names(inner)
    return names
