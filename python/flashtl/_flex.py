"""Attention whose scores and masks are Python functions, as FlexAttention's users write them: traced, and written as a sketch."""
import math

from . import _again, _blocks
from ._arrays import CPU, array_of, empty, is_torch, one_device
from ._attention import Matrices, check_heads, check_types, positive, program_of
from ._captured import Lifting, REAL, Table
from ._ranges import LENGTHS
from ._symbols import FunctionError, Symbol, WHOLE_MOST, symbol
from ._traced import key_of
from ._written import ATOM, SUM, Text

HEAD = """kernel flex_attention
let group = q_heads/kv_heads                                // query heads that share a key head
Input  Q (b in batch, head in q_heads; q in q_len, d)
Input  K (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0
Input  V (b in batch, head/group in kv_heads; kv in kv_len, dv)
Input  scale f32 where scale > 0
"""


LISTED_HEAD = """kernel flex_attention
{lets}let group = q_heads/kv_heads                                // query heads that share a key head
Input  Q (b in batch, head in q_heads; q in q_len, d){q_whole}
Input  K (b in batch, h in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0 and kv_len > 0{kv_whole}
Input  V (b in batch, h in kv_heads; kv in kv_len, dv)
Input  scale f32 where scale > 0
Input  listed i32 ({axes}, i in q_blocks){q_counted} // the blocks of keys that block i sees,
Input  full i32 ({axes}, i in q_blocks) // so many of them as a whole, which come first,
Input  block i32 ({axes}, i in q_blocks, n in kv_blocks){kv_counted} // and which they are
"""
RAGGED_HEAD = "Input  tile_rows i32 ({rows_axes}i in q_blocks)                        // how many queries it has\n"
VIEWS = """let X (b in batch, head in q_heads, i in q_blocks; r in rows, d) = Q[b, head, i*{q_size} + r, d]
let Y (b in batch, head in q_heads, i in q_blocks; r in rows, dv) = O[b, head, i*{q_size} + r, dv]
let K_listed (b in batch, head in q_heads, i in q_blocks; s in keys, d) = {left}K[b, head/group, {kv}, d]{right}
let V_listed (b in batch, head in q_heads, i in q_blocks; s in keys, dv) = {left}V[b, head/group, {kv}, dv]{right}
"""
KEPT = " kept"
LSE_VIEW = "let Z (b in batch, head in q_heads, i in q_blocks; r in rows) = lse[b, head, i*{q_size} + r]\n"


class Walk:
    """How a sketch comes to its keys: all of them in order, or the blocks that lists name. 'is_ragged': the last blocks may be shorter;
    'listing': kernels make the lists, before."""

    def __init__(self, size, is_ragged, listing=None):
        self.is_listed, self.names = size is not None, ("Q", "K", "V", "O", "lse")
        self.places, self.within, self.head, self.views, self.lse_view, self.keys = {}, {}, HEAD, "", "", "kv_len"
        self.partly = self.nothing = self.end = self.kept = ""
        self.listing, self.at, self.axes = listing, "b, head, i", "b in batch, head in q_heads"
        if listing is not None:
            self.at, self.axes = f"{listing.at}, i", listing.axes
        if size is not None:
            self.list_blocks(*size, is_ragged)

    def list_blocks(self, q_size, kv_size, is_ragged):
        self.names, self.keys = ("X", "K_listed", "V_listed", "Y", "Z"), "keys"
        q, kv = f"i*{q_size} + r", f"block[{self.at}, s/{kv_size}]*{kv_size} + s % {kv_size}"
        self.places = {"q": (q, SUM), "kv": (kv, SUM)}
        self.within = {**self.places, "kv": (f"min({kv}, kv_len - 1)", ATOM)} if is_ragged else self.places
        named = {"q_size": q_size, "kv_size": kv_size, "kv": kv, "axes": self.axes, "left": f"select({kv} < kv_len, " if is_ragged else "",
                 "right": ", 0)" if is_ragged else "", "q_whole": "" if is_ragged else f" where q_len % {q_size} == 0",
                 "kv_whole": "" if is_ragged else f" and kv_len % {kv_size} == 0"}
        q_blocks, kv_blocks = f"ceil(q_len/{q_size})", f"ceil(kv_len/{kv_size})"
        if self.listing:  # which sizes are known from those of Q and K; else arrays show them
            named.update(lets=f"let q_blocks = {q_blocks}, kv_blocks = {kv_blocks}\n", q_counted="", kv_counted="")
        else:
            named.update(lets="", q_counted=f" where q_blocks == {q_blocks}", kv_counted=f" where kv_blocks == {kv_blocks}")
        rows_axes, rows_at = (f"{self.axes}, ", self.at) if self.listing else ("", "i")
        self.head = LISTED_HEAD.format(**named) + (RAGGED_HEAD.format(rows_axes=rows_axes) if is_ragged else "")
        rows = f"min(tile_rows[{rows_at}], {q_size})" if is_ragged else q_size
        self.kept = KEPT if is_ragged else ""  # what a table says that was drawn may leave queries out
        # A list of nothing has one block, which is masked: so every tile of keys is a whole block, and a box.
        self.views = f"let rows = {rows}, keys = max(listed[{self.at}], 1)*{kv_size}\n" + VIEWS.format(**named)
        self.lse_view = LSE_VIEW.format(**named)
        self.partly = f"s >= full[{self.at}]*{kv_size} and "
        # Kernels list whatever the mask may see, so that it masks the block of a list of nothing itself; lists that are given may see less.
        self.nothing = "" if self.listing else f"listed[{self.at}] == 0"
        self.end = f"{kv} >= kv_len" if is_ragged else ""


EVERY_KEY = Walk(None, True)


class Sketch(str):
    """The text of a sketch, and the arrays that its functions have captured: {name of an Input: array}."""

    inputs = {}
    axes = {}
    plain = ""  # the text; of functions that were traced before the same object, whose hash is known

    def cut(self, lengths):
        """The arrays, each axis that a place indexes as long as the places go."""
        return {name: cut(name, array, self.axes[name], lengths) for name, array in self.inputs.items()}


def sketch_of(score_mod=None, mask_mod=None, *, return_lse=False, block=None, ragged=True, made=False):
    """The sketch of attention with a function score_mod(score, b, h, q, kv) that gives each score anew, and a function
    mask_mod(b, h, q, kv) that says where a query sees a key: readable text, for flashtl.compile and all else that takes text.

    The functions run once, with values that stand for all scores: arithmetic, comparisons, &, |, ~, NumPy's functions or PyTorch's,
    elements of the arrays that they capture. Queries and keys are counted from the first ones. '.inputs' of the text are the arrays.

    block      (queries, keys): the sketch walks the blocks of so many keys that lists name for each block of queries. They are Inputs that
               flex_attention gives it of a block mask, and mask_mod is asked in those that are seen in part.
    ragged     with 'block': False makes the sketch of lengths that are multiples of it
    made       with a 'block' of one size: kernels of the same sketch make the lists, in every call, where tables that the mask captures
               decide which blocks are empty; of other masks the sketch walks all keys
    """
    block, made = sizes_of(block), bool(made)
    if made and (block is None or block[0] != block[1]):
        raise ValueError(f"made=True is for blocks of as many queries as keys; found block={block!r}")
    ragged = bool(ragged or not block)
    found = key_of(score_mod, mask_mod)
    key = found and (found[0], bool(return_lse), block, ragged, made)
    if key and key in traces:
        return traces[key].sketch(found[1])
    sketch, tables = traced(score_mod, mask_mod, return_lse, block, ragged, made)
    if key:
        remember(key, Trace(sketch, tables, found[1]))
    return sketch


def sizes_of(block):
    if block is None:
        return None
    sizes = tuple(block) if isinstance(block, (tuple, list)) else (block, block)
    if len(sizes) != 2 or any(isinstance(size, bool) or not isinstance(size, int) or size < 1 for size in sizes):
        raise ValueError(f"block is a number of queries and one of keys, both whole and above 0; found {block!r}")
    return sizes


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


def traced(score_mod, mask_mod, return_lse, block, ragged, made):
    """The sketch, and {name of an Input: its Table}."""
    lifting = Lifting()
    start = Symbol("score", "real", is_tile=True)
    places = [Symbol("place", "int", value=name) for name in LENGTHS]
    try:
        score = trace(lifting, "score_mod", score_mod, [start, *places]) if score_mod is not None else start
        seen = traced_mask(lifting, mask_mod, places)
        if score.kind == "bool":
            raise FunctionError("score_mod gives a score; found a condition", score)
        if made:
            found = by_made_lists(score, seen, start, return_lse, block, ragged)
            return found or assembled(written_twice(score, seen, start, EVERY_KEY), return_lse, EVERY_KEY)
        walk = Walk(block, ragged)
        return assembled(written_twice(score, seen, start, walk), return_lse, walk)
    except RecursionError:
        raise FunctionError("an expression is nested too deep") from None


def by_made_lists(score, seen, start, return_lse, block, ragged):
    """With kernels that make lists, or None: no table decides, or what they would have to ask is too long."""
    from ._listing import Listing
    listing = Listing(seen, block[0])
    if not listing.is_found:
        return None
    walk = Walk(block, ragged, listing)
    try:
        return assembled(written_twice(score, seen, start, walk), return_lse, walk)
    except FunctionError:
        return None


def traced_mask(lifting, mask_mod, places):
    seen = trace(lifting, "mask_mod", mask_mod, places) if mask_mod is not None else symbol(True)
    if seen.kind != "bool":
        raise FunctionError(f"mask_mod gives a condition, which is true where a query sees a key; found a {seen.kind}", seen)
    return seen


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


def written_twice(score, seen, start, walk):
    """The second time with the names of the first one's tables."""
    return written(score, seen, start, walk, list(written(score, seen, start, walk, ()).tables.values()))


def written(score, seen, start, walk, shared):
    text = Text(shared, walk.places, walk.within)
    text.names |= walk.listing.taken if walk.listing else set()
    text.result = text.score(score, start)
    if walk.nothing:
        text.say(f"Compute Mask {text.result} where {walk.partly}{walk.nothing}")
    text.mask(seen, text.result, walk.partly)
    if walk.end:
        text.say(f"Compute Mask {text.result} where {walk.partly}{walk.end}")
    return text


def inputs_of(text):
    """Declarations of its tables; {name: table}, {name: places}."""
    lines, tables, axes = [], {}, {}
    for table, places, name, conditions in text.tables.values():
        lines.append(declaration(text, table, places, name, conditions))
        tables[name], axes[name] = table, places
    return lines, tables, axes


def assembled(text, return_lse, walk):
    """The statements around those of the functions."""
    lines, tables, axes = inputs_of(text)
    q, k, v, o, lse = walk.names
    names = {key: name for key, (_, _, name, _) in text.tables.items()}
    before = walk.listing.kernels(names, bool(walk.kept)) if walk.listing else ""
    lines = [before, walk.head, *lines, f"Output O (b in batch, head in q_heads; q in q_len, dv){walk.kept}\n"]
    if return_lse:
        lines.append(f"Output lse f32 (b in batch, head in q_heads; q in q_len){walk.kept}\n")
    lines += [walk.views, walk.lse_view if return_lse else ""]
    body = [f"Copy {k} from global to shared", f"Compute GEMM {q}, {k}.T and get S", f"Compute Multiply S, {text.scale} and get S", *text.statements,
            f"Compute Softmax {text.result}{' with m and l' if return_lse else ''}", f"Copy {v} from global to shared",
            f"Compute GEMM {text.result}, {v} and accumulate {o}"]
    lines += ["" if walk.is_listed else "\n", f"Copy {q} from global to shared\nfor j = 0:{walk.keys}/BN\n", *(f"    {line}\n" for line in body),
              f"end\nCopy {o} from register to global\n"]
    if return_lse:
        lines.append(f"Compute Log l and get {lse}\nCompute Add {lse}, m and get {lse}\nCopy {lse} from register to global\n")
    return sketch_with("".join(lines), tables, axes), tables


def sketch_with(text, tables, axes):
    made = Sketch(text)
    made.plain, made.axes = text, axes
    made.inputs = {name: as_input(name, table) for name, table in tables.items()}
    return made


def counted(mask_mod, size):
    """The sketch that counts the keys which each query sees of each block of so many."""
    if mask_mod is None:
        raise TypeError("mask_mod is a function of (b, h, q, kv); found NoneType")
    places = [Symbol("place", "int", value=name) for name in LENGTHS]
    seen = traced_mask(Lifting(), mask_mod, places)
    text = Text()
    for _ in range(2):  # the second time with the names of the first one's tables
        text = Text(list(text.tables.values()), {"kv": (f"n*{size} + s", SUM)}, {"kv": (f"min(n*{size} + s, kv_len - 1)", ATOM)})
        text.mask(seen, "T, 0")
    lines, tables, axes = inputs_of(text)
    if not any("kv" in places for places in axes.values()):  # no table has that length
        lines.insert(0, "Input  kv_len i32 where kv_len > 0\n")
    masks = "".join(f"    {line}\n" for line in text.statements)
    return sketch_with(_blocks.COUNTED.format(tables="".join(lines), size=size, masks=masks), tables, axes)


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


MADE_SIZE, MADE_FROM = 128, 1024  # of the blocks whose lists kernels make; the fewest keys for which they do


def are_lists_made(q, k, on):
    """Where a kernel runs, over so many keys that empty blocks count."""
    is_on_gpu = is_torch(q) and q.device.type != CPU
    are_matrices = all(len(getattr(x, "shape", ())) == 4 for x in (q, k))
    return (is_on_gpu or on in ("emulator", "gpu")) and are_matrices and q.shape[2] >= MADE_SIZE and k.shape[2] >= MADE_FROM


# --- a call ------------------------------------------------------------------------------------------------------------

def flex_attention(q, k, v, score_mod=None, mask_mod=None, *, block_mask=None, scale=None, return_lse=False, on=None, gpu=None):
    """o, or (o, lse), of (batch, heads, length, d) arrays, with scores and a mask by Python functions.

    score_mod   a function of (score, b, h, q, kv) that gives the score anew; scores come to it scaled
    mask_mod    a function of (b, h, q, kv), true where a query sees a key; or a block mask
    block_mask  lists of the blocks that are seen, of flashtl.block_mask or PyTorch's create_block_mask: no other is looked at
    scale       of the scores; 1/sqrt(d) where none is said
    return_lse  also gives the log-sum-exp of each row, f32 (batch, q_heads, q_len)
    on, gpu     on arrays of the CPU: "interpreter", or "emulator" of the GPU that is named, or "gpu"

    Queries and keys are counted from the first ones. k and v may have fewer heads than q. See sketch_of for what functions may do.
    """
    mask_mod, block_mask = chosen(mask_mod, block_mask)
    lists = lists_of(block_mask, q, k)
    if block_mask is None and mask_mod is not None and are_lists_made(q, k, on):
        walk = {"block": MADE_SIZE, "ragged": any(x.shape[2] % MADE_SIZE for x in (q, k)), "made": True}
    else:
        walk = {"block": block_mask and _blocks.sizes(block_mask), "ragged": "tile_rows" in lists}
    text = sketch_of(score_mod, mask_mod, return_lse=return_lse, **walk)
    options, tensors = ("flex", text.plain, scale, return_lse, on, gpu), (q, k, v, *text.inputs.values(), *lists.values())
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
        outputs = made_outputs(*matrices, return_lse) if KEPT in text.plain else {}
        found = program(Q=q, K=k, V=v, scale=positive("scale", scale) or 1 / math.sqrt(matrices[0].d), **tables, **lists, **outputs)
        if all(table.shape for table in tables.values()):  # a number that an array holds is the next time another one
            learned.give(*found)
    return tuple(found) if return_lse else found[0]


def made_outputs(q, k, v, return_lse):
    """Outputs that are kept where nothing is written: here everything is, so that they need not begin at zero."""
    shape, arrays = (q.batch, q.heads, q.length), [one.array for one in (q, k, v)]
    found = {"O": empty("O", q.array.type, (*shape, v.d), arrays)}
    return {**found, "lse": empty("lse", "f32", shape, arrays)} if return_lse else found


def chosen(mask_mod, block_mask):
    """The function, and the block mask that it is of or None."""
    if block_mask is None:
        if hasattr(mask_mod, "mask_mod") and not _blocks.is_block_mask(mask_mod):
            raise TypeError("mask_mod is a function, or a block mask with its lists (kv_indices and the others); this object has no lists")
        return (mask_mod.mask_mod, mask_mod) if _blocks.is_block_mask(mask_mod) else (mask_mod, None)
    if mask_mod is not None:
        raise TypeError("mask_mod and block_mask are given; a block mask has its function")
    if not _blocks.is_block_mask(block_mask):
        raise TypeError(f"block_mask is what flashtl.block_mask or PyTorch's create_block_mask gives; found {type(block_mask).__name__}")
    return block_mask.mask_mod, block_mask


def lists_of(block_mask, q, k):
    """The Inputs by which a sketch walks blocks."""
    if block_mask is None:
        return {}
    for name, value in (("q", q), ("k", k)):
        if len(getattr(value, "shape", ())) != 4:
            raise ValueError(f"'{name}' has the axes (batch, heads, length, d); found an array of {len(getattr(value, 'shape', ()))}")
    return _blocks.tables_of(block_mask, q, q.shape[0], q.shape[1], q.shape[2], k.shape[2])
