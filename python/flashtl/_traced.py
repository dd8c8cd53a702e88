"""Which traces may be used again: what a Python function and all that it captures are, as a value to compare.

A trace is a function's code and what that finds: numbers, functions, arrays. Where each of these can be told from what it was, calls with
equal ones have equal sketches. Everything else (objects, modules of the user's, functions of C) might have changed unseen, and has no such
value: its function is traced in every call."""
import builtins
import functools
import types

from ._arrays import is_array
from ._captured import REAL, WHOLE, bounds_of, global_names
from ._symbols import FUNCTIONS

NUMBERS = {int, bool, float, str, type(None)}
# What a function may ask of modules and of values: all of it gives the same for the same.
ATTRIBUTES = {*FUNCTIONS, "float32", "functional", "inf", "int32", "int64", "math", "nn", "numpy", "pi", "shape", "special", "torch"}
MODULES = {"math", "numpy", "torch", "torch.nn.functional"}
BUILTINS = {getattr(builtins, name) for name in "abs bool enumerate float int len list max min pow range reversed round sum tuple zip".split()}


class Unknown(Exception):
    """Something has no value to compare."""


class Seen:
    """What functions capture; 'arrays' are their arrays in the order in which they are met, each once."""

    def __init__(self):
        self.arrays, self.places, self.within = [], {}, set()

    def value(self, one):
        kind = type(one)
        if kind in NUMBERS:
            return kind, one.hex() if kind is float else one  # 0.0 and -0.0 are equal
        if kind is types.FunctionType:
            return self.function(one)
        if kind in (tuple, list):
            return kind, tuple(map(self.value, one))
        if kind is dict:
            return kind, tuple((self.value(key), self.value(value)) for key, value in one.items())
        if kind is functools.partial:
            return kind, self.value(one.func), tuple(map(self.value, one.args)), self.value(one.keywords)
        if kind is types.ModuleType and one.__name__ in MODULES:
            return kind, one.__name__
        if kind in (type, types.BuiltinFunctionType) and one in BUILTINS:
            return one
        if is_array(one) and hasattr(one, "shape"):
            return (kind, one.tobytes()) if is_number_of_numpy(one) else self.array(one)
        raise Unknown

    def function(self, one):
        if id(one) in self.within:  # that calls itself
            raise Unknown
        self.within.add(id(one))
        found, code = [], one.__code__
        for name in global_names(code):
            if name in one.__globals__:
                found.append((name, self.value(one.__globals__[name])))
            elif name not in ATTRIBUTES and getattr(builtins, name, None) not in BUILTINS:
                raise Unknown
        for cell in one.__closure__ or ():
            try:
                found.append(self.value(cell.cell_contents))
            except ValueError:
                found.append(None)  # a variable that has no value yet
        defaults = self.value(one.__defaults__ or ()), self.value(one.__kwdefaults__ or {})
        self.within.remove(id(one))
        return code, tuple(found), defaults

    def array(self, one):
        """Of its contents a sketch has the bounds of whole numbers alone; those of arrays on a GPU are not looked at."""
        place = self.places.setdefault(id(one), len(self.arrays))
        if place == len(self.arrays):
            self.arrays.append(one)
        dtype = str(one.dtype).rpartition(".")[2]
        if dtype not in REAL and dtype not in WHOLE:
            raise Unknown
        return place, type(one), dtype, str(getattr(one, "device", "cpu")), tuple(one.shape), bounds_of(one) if dtype in WHOLE else None


def is_number_of_numpy(one):
    import numpy
    return isinstance(one, numpy.generic)


def key_of(*functions):
    """(a value to compare, the arrays), or None."""
    seen = Seen()
    try:
        key = tuple(map(seen.value, functions))
        hash(key)
    except (Unknown, RecursionError, TypeError):
        return None
    return key, seen.arrays
