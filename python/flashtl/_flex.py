"""Attention whose scores and masks are Python functions, as FlexAttention's users write them: traced, and written as a sketch."""
import math

from . import _again
from ._arrays import CPU, array_of, is_torch, one_device
from ._attention import Matrices, check_heads, check_types, positive, program_of
from ._captured import Lifting, REAL, Table
from ._ranges import LENGTHS
from ._symbols import FunctionError, Symbol, WHOLE_MOST, symbol
from ._traced import key_of
from ._written import Text

HEAD = """kernel flex_attention
let group = q_heads/kv_heads                                // query heads that share a key head
Input  Q (b in batch, head in q_heads; q in q_len, d)
Input  K (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0
Input  V (b in batch, head/group in kv_heads; kv in kv_len, dv)
Input  scale f32 where scale > 0
"""


class Sketch(str):
    """The text of a sketch, and the arrays that its functions have captured: {name of an Input: array}."""

    inputs = {}
    axes = {}
    plain = ""  # the text; of functions that were traced before the same object, whose hash is known

    def cut(self, lengths):
        """The arrays, each axis that a place indexes as long as the places go."""
        return {name: cut(name, array, self.axes[name], lengths) for name, array in self.inputs.items()}


def sketch_of(score_mod=None, mask_mod=None, *, return_lse=False):
    """The sketch of attention with a function score_mod(score, b, h, q, kv) that gives each score anew, and a function
    mask_mod(b, h, q, kv) that says where a query sees a key: readable text, for flashtl.compile and all else that takes text.

    The functions run once, with values that stand for all scores: arithmetic, comparisons, &, |, ~, NumPy's functions or PyTorch's,
    elements of the arrays that they capture. Queries and keys are counted from the first ones. '.inputs' of the text are the arrays.
    """
    found = key_of(score_mod, mask_mod)
    key = found and (found[0], bool(return_lse))
    if key and key in traces:
        return traces[key].sketch(found[1])
    made, tables = traced(score_mod, mask_mod, return_lse)
    if key:
        remember(key, Trace(made, tables, found[1]))
    return made


TRACES_MOST = 256
traces = {}  # of functions that capture what can be compared


def remember(key, trace):
    if len(traces) >= TRACES_MOST:
        traces.clear()
    traces[key] = trace


class Trace:
    """A sketch, and which of the arrays that its functions capture each of its Inputs is."""

    def __init__(self, made, tables, arrays):
        places = {id(array): place for place, array in enumerate(arrays)}
        self.text, self.axes = made.plain, made.axes
        self.inputs = {name: (table.name, places[id(table.array)]) for name, table in tables.items()}

    def sketch(self, arrays):
        made = Sketch(self.text)
        made.plain, made.axes = self.text, self.axes
        made.inputs = {name: as_input(name, Table(own, arrays[place])) for name, (own, place) in self.inputs.items()}
        return made


def traced(score_mod, mask_mod, return_lse):
    """The sketch, and {name of an Input: its Table}."""
    lifting = Lifting()
    start = Symbol("score", "real", is_tile=True)
    places = [Symbol("place", "int", value=name) for name in LENGTHS]
    try:
        score = trace(lifting, "score_mod", score_mod, [start, *places]) if score_mod is not None else start
        seen = trace(lifting, "mask_mod", mask_mod, places) if mask_mod is not None else symbol(True)
        if score.kind == "bool":
            raise FunctionError("score_mod gives a score; found a condition", score)
        if seen.kind != "bool":
            raise FunctionError(f"mask_mod gives a condition, which is true where a query sees a key; found a {seen.kind}", seen)
        text = written(score, seen, start, ())
        text = written(score, seen, start, list(text.tables.values()))
    except RecursionError:
        raise FunctionError("an expression is nested too deep") from None
    return assembled(text, return_lse)


def trace(lifting, name, function, args):
    import inspect  # which is half of what importing the package would take
    if not callable(function):
        raise TypeError(f"{name} is a function of ({'score, ' if len(args) == 5 else ''}b, h, q, kv); found {type(function).__name__}")
    try:
        inspect.signature(function).bind(*args)
    except TypeError as why:
        raise TypeError(f"{name} is a function of ({'score, ' if len(args) == 5 else ''}b, h, q, kv): {why}") from None
    except ValueError:
        pass  # a function of C says nothing
    given = lifting.lift(function, name)(*args)
    if given is None:
        raise TypeError(f"{name} returns nothing")
    return symbol(given)


def written(score, seen, start, shared):
    text = Text(shared)
    text.result = text.score(score, start)
    text.mask(seen, text.result)
    return text


def assembled(text, return_lse):
    """The statements around those of the functions."""
    lines, tables, axes = [HEAD], {}, {}
    for table, places, name, conditions in text.tables.values():
        lines.append(declaration(text, table, places, name, conditions))
        tables[name], axes[name] = table, places
    lines.append("Output O (b in batch, head in q_heads; q in q_len, dv)\n")
    if return_lse:
        lines.append("Output lse f32 (b in batch, head in q_heads; q in q_len)\n")
    body = ["Copy K from global to shared", "Compute GEMM Q, K.T and get S", f"Compute Multiply S, {text.scale} and get S", *text.statements,
            f"Compute Softmax {text.result}{' with m and l' if return_lse else ''}", "Copy V from global to shared",
            f"Compute GEMM {text.result}, V and accumulate O"]
    lines += ["\nCopy Q from global to shared\nfor j = 0:kv_len/BN\n", *(f"    {line}\n" for line in body),
              "end\nCopy O from register to global\n"]
    if return_lse:
        lines.append("Compute Log l and get lse\nCompute Add lse, m and get lse\nCopy lse from register to global\n")
    made = Sketch("".join(lines))
    made.plain, made.axes = str(made), axes
    made.inputs = {name: as_input(name, table) for name, table in tables.items()}
    return made, tables


def declaration(text, table, places, name, conditions):
    """An Input of a table; its other axes have lengths of their own."""
    axes, others = [], {}
    for axis, place in enumerate(places):
        if place:
            axes.append(f"{place} in {LENGTHS[place]}")
            continue
        number = "" if places.count(None) == 1 else f"_{axis}"
        length = others[f"{{axis{axis}}}"] = text.new_name(f"{name}_len{number}")
        axes.append(f"{text.new_name('n')} in {length}")
    where = " and ".join(conditions)
    for mark, length in others.items():
        where = where.replace(mark, length)
    return f"Input  {name} {table.type}" + (f" ({', '.join(axes)})" if axes else "") + (f" where {where}" if where else "") + "\n"


# --- tables as Inputs --------------------------------------------------------------------------------------------------

def as_input(name, table):
    """The array in the Input's type: whole numbers in i32, none of them changed; real ones of 64 bits rounded to 32."""
    array, kind = table.array, table.dtype_name
    if kind in REAL and kind != "float64" or kind == "int32":
        return array
    if is_torch(array):
        import torch
        if kind == "float64":
            return array.to(torch.float32)
        if kind in ("int64", "uint32", "uint64") and array.device.type != CPU:
            raise TypeError(f"'{table.name}' is {kind} on a GPU, where nothing looks at its elements; .to(torch.int32) makes a table of it")
        if array.numel() and kind != "bool" and not (-WHOLE_MOST <= int(array.min()) and int(array.max()) <= WHOLE_MOST):
            raise ValueError(f"'{table.name}' has whole numbers beyond those of a kernel, {WHOLE_MOST}")
        return array.to(torch.int32)
    import numpy
    array = numpy.asarray(array)
    if kind == "float64":
        return array.astype(numpy.float32)
    if array.size and kind != "bool" and not (-WHOLE_MOST <= int(array.min()) and int(array.max()) <= WHOLE_MOST):
        raise ValueError(f"'{table.name}' has whole numbers beyond those of a kernel, {WHOLE_MOST}")
    return array.astype(numpy.int32)


def cut(name, array, places, lengths):
    for axis, place in enumerate(places):
        if place and array.shape[axis] < lengths[place]:
            raise ValueError(f"axis {axis} of '{name}' has {array.shape[axis]} elements, and the function takes one for each of "
                             f"{lengths[place]} ({LENGTHS[place]})")
    if all(not place or extent == lengths[place] for place, extent in zip(places, array.shape)):
        return array
    return array[tuple(slice(lengths[place]) if place else slice(None) for place in places)]


# --- a call ------------------------------------------------------------------------------------------------------------

def flex_attention(q, k, v, score_mod=None, mask_mod=None, *, scale=None, return_lse=False, on=None, gpu=None):
    """o, or (o, lse), of (batch, heads, length, d) arrays, with scores and a mask by Python functions.

    score_mod   a function of (score, b, h, q, kv) that gives the score anew; scores come to it scaled
    mask_mod    a function of (b, h, q, kv), true where a query sees a key
    scale       of the scores; 1/sqrt(d) where none is said
    return_lse  also gives the log-sum-exp of each row, f32 (batch, q_heads, q_len)
    on, gpu     on arrays of the CPU: "interpreter", or "emulator" of the GPU that is named, or "gpu"

    Queries and keys are counted from the first ones. k and v may have fewer heads than q. See sketch_of for what functions may do.
    """
    if hasattr(mask_mod, "mask_mod"):
        raise TypeError("mask_mod is a function; of a BlockMask that is .mask_mod: which blocks are empty is found out from it")
    text = sketch_of(score_mod, mask_mod, return_lse=return_lse)
    options, tensors = ("flex", text.plain, scale, return_lse, on, gpu), (q, k, v, *text.inputs.values())
    found = _again.again(options, tensors)
    if found:
        return found if return_lse else found[0]
    matrices = [Matrices(array_of(name, value), "bhld") for name, value in zip("qkv", (q, k, v))]
    arrays = [one.array for one in matrices]
    check_types(*arrays, one_device(arrays) == CPU and on in (None, "interpreter"))
    check_heads(*matrices)
    tables = text.cut({"b": matrices[0].batch, "head": matrices[0].heads, "q": matrices[0].length, "kv": matrices[1].length})
    program = program_of(text.plain, on, gpu, {}, arrays[0].type)
    with _again.learning(options, tensors) as learned:
        found = program(Q=q, K=k, V=v, scale=positive("scale", scale) or 1 / math.sqrt(matrices[0].d), **tables)
        if all(table.shape for table in tables.values()):  # a number that an array holds is the next time another one
            learned.give(*found)
    return tuple(found) if return_lse else found[0]
