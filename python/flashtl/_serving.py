"""What engines that serve call: sequences of any lengths one after the other, keys in pages (include/flashtl/serving.h)."""
import ctypes as c
import math
import numbers
import sys

from . import _again, _c
from ._arrays import CPU, array_of, check_output, empty, one_device
from ._attention import check_heads, check_types, positive, program_of, renamed
from ._library import call, on_device, runtime, sketch
from ._program import MACHINES
from ._scoring import NAMES, OPTIONS, Scoring


def varlen_attention(q, k, v, q_starts, kv_starts=None, *, table=None, q_lens=None, kv_lens=None, max_q_len=None, causal=False,
                     window=None, softcap=None, scale=None, align="last", sinks=None, alibi=None, bias=None, padding=None, before=None,
                     after=None, chunk=None, return_lse=False, out=None, on=None, gpu=None):
    """Attention over sequences of any lengths: o, or (o, lse), of q (token, heads, d).

    Sequence b has the queries q_starts[b] ... q_starts[b + 1] - 1, and of k and v (token, heads, d) the keys kv_starts[b] ...
    kv_starts[b + 1] - 1. With a table, k and v are pages, (page, slot, heads, d): token i of sequence b is in slot i % slots of page
    table[b, i // slots], and kv_lens says how many it has.

    q_lens, kv_lens  of each sequence only so many queries, or keys
    max_q_len        queries of a sequence from this one on are not computed; all, where nothing is said
    align            "last": a sequence's last query is at the place of its last key; "first": the first at the first key's

    All tables are int32. Rows that no sequence has stay as they are in 'out', and are 0 where none is given. The other arguments are
    those of attention(), and
    """
    tensors, absent = _again.present(q, k, v, q_starts, kv_starts, table, q_lens, kv_lens, sinks, alibi, bias, padding)
    options = "varlen", absent, causal, window, softcap, scale, max_q_len, align, before, after, chunk, return_lse, on
    found = _again.again(options, tensors) if out is None else None
    if found:
        return found if return_lse else found[0]
    scoring = Scoring(dict(sinks=sinks, alibi=alibi, bias=bias, padding=padding, before=before, after=after, chunk=chunk))
    tables = {"q_starts": q_starts, "kv_starts": kv_starts, "table": table, "q_lens": q_lens, "kv_lens": kv_lens}
    call_ = Varlen(q, k, v, tables, scoring, out)
    call_.choose(causal, window, softcap, scale, max_q_len, align)
    with _again.learning(options, tensors) as learned:
        return call_.run(return_lse, on, gpu, learned)


def decode(q, k, v, table, kv_lens, *, causal=True, window=None, softcap=None, scale=None, sinks=None, alibi=None, bias=None,
           padding=None, before=None, after=None, chunk=None, total_keys=None, return_lse=False, out=None, on=None, gpu=None):
    """Attention of the last tokens of sequences to their keys in pages: o, or (o, lse), of q (batch, tokens, heads, d).

    k and v are pages, (page, slot, heads, d): key i of sequence b is in slot i % slots of page table[b, i // slots]; kv_lens[b] is how
    many it has, the new ones included. Both tables are int32.

    total_keys  about how many keys all sequences have together, where they have fewer than the table has room for: a GPU then splits
                them accordingly, which is faster. Any number is right

    The other arguments are those of attention(), and
    """
    tensors, absent = _again.present(q, k, v, table, kv_lens, sinks, alibi, bias, padding)
    options = "decode", absent, causal, window, softcap, scale, before, after, chunk, return_lse, on
    found = _again.again(options, tensors, total_keys) if out is None else None
    if found:
        return found if return_lse else found[0]
    scoring = Scoring(dict(sinks=sinks, alibi=alibi, bias=bias, padding=padding, before=before, after=after, chunk=chunk))
    call_ = Decode(q, k, v, {"table": table, "kv_lens": kv_lens}, scoring, out)
    call_.choose(causal, window, softcap, scale, total_keys)
    with _again.learning(options, tensors) as learned:
        return call_.run(return_lse, on, gpu, learned)


def mla_decode(q, cache, table, kv_lens, *, scale, value_dim=512, causal=True, total_keys=None, return_lse=False, out=None, on=None,
               gpu=None):
    """Latent attention of the last tokens of sequences, absorbed: o, or (o, lse), of q (batch, tokens, heads, d).

    All heads share the keys of 'cache', (page, slot, d) or (page, slot, 1, d), of which the first 'value_dim' columns are the values.
    The scale is that of the heads before they were absorbed: DeepSeek's is 192 ** -0.5, where d is 576. The other arguments are those
    of decode().
    """
    if scale is None:
        raise ValueError("scale is a number above 0: that of the heads before they were absorbed")
    options, tensors = ("mla_decode", causal, scale, value_dim, return_lse, on), (q, cache, table, kv_lens)
    found = _again.again(options, tensors, total_keys) if out is None else None
    if found:
        return found if return_lse else found[0]
    call_ = Latent(q, cache, {"table": table, "kv_lens": kv_lens}, value_dim, out)
    call_.choose(causal, None, None, scale, total_keys)
    with _again.learning(options, tensors) as learned:
        return call_.run(return_lse, on, gpu, learned)


varlen_attention.__doc__ += OPTIONS.format(axes="heads, token")
decode.__doc__ += OPTIONS.format(axes="batch, heads, tokens")


class Rows:
    """An array whose last two axes are heads and d; 'before' names the others."""

    def __init__(self, array, before):
        if len(array.shape) != len(before) + 2:
            raise ValueError(f"'{array.name}' has the axes ({', '.join(before)}, heads, d); found an array of {len(array.shape)}")
        self.array, self.before, self.heads, self.d = array, array.shape[:-2], array.shape[-2], array.shape[-1]

    def struct(self):
        """As the library has it: the first axis of two is 'batch', the one before heads 'length'."""
        *first, length, head, unit = self.array.strides
        if unit != 1 and self.d > 1 and not self.array.is_empty:
            raise ValueError(f"the elements of '{self.array.name}' along d must lie next to one another; .contiguous() makes them")
        return _c.ftl_attention_tensor(self.array.address, first[0] if first else 0, length, head)


class Serving:
    """What all calls have: arrays, tables, options, and where they run."""

    has_rows_of_nobody = True  # which no kernel writes

    def __init__(self, q, k, v, tables, scoring, out, q_axes, kv_axes):
        self.q, self.scoring = Rows(array_of("q", q), q_axes), scoring
        self.k, self.v = Rows(array_of("k", k), kv_axes), Rows(array_of("v", v), kv_axes)
        self.tables = {name: array_of(name, value) for name, value in tables.items() if value is not None}
        self.out, self.given = out, None if out is None else Rows(array_of("out", out), q_axes)
        self.inputs = [self.q.array, self.k.array, self.v.array, *self.tables.values(), *scoring.arrays.values()]
        self.device = one_device([*self.inputs, *([self.given.array] if self.given else [])])
        check_types(self.q.array, self.k.array, self.v.array)
        if (self.k.before, self.k.heads) != (self.v.before, self.v.heads):
            raise ValueError(f"'k' and 'v' differ in more than d: {self.k.array.shape} and {self.v.array.shape}")
        check_heads(self.q, self.k, self.v)

    def need(self, name, shape):
        """A table, with these lengths; None fits any."""
        table = self.tables.get(name)
        if table is None:
            return None
        fits = len(table.shape) == len(shape) and all(want is None or want == has for want, has in zip(shape, table.shape))
        if table.type != "i32" or not fits:
            wanted = ", ".join("any" if want is None else str(want) for want in shape)
            raise ValueError(f"'{name}' is int32 of the shape ({wanted}); found {table.type} of {table.shape}")
        return table

    def set_options(self, causal, window, softcap, scale):
        self.causal, self.window = bool(causal), positive("window", window, is_whole=True)
        self.softcap = positive("softcap", softcap)
        self.scale = positive("scale", scale) or 1 / math.sqrt(self.q.d)

    def run(self, return_lse, on, gpu, learned):
        if on not in (None, *MACHINES):
            raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")
        if on not in (None, "gpu") and self.device != CPU:
            raise ValueError(f"on='{on}' takes arrays of the CPU; these are on {self.device}")
        shape = (*self.q.before, self.q.heads, self.v.d)
        is_made = self.given is None
        if is_made:
            self.out = empty("out", self.q.array.type, shape, self.inputs, self.has_rows_of_nobody)
            self.given = Rows(array_of("out", self.out), self.q.before)
        else:
            if self.given.array.shape != shape or self.given.array.type != self.q.array.type:
                raise ValueError(f"'out' is {self.q.array.type} of the shape {shape}; found {self.given.array.type} of "
                                 f"{self.given.array.shape}")
            check_output(self.given.array, self.inputs)
        lse = empty("lse", "f32", shape[:-1], self.inputs, self.has_rows_of_nobody) if return_lse else None
        self.lse = array_of("lse", lse) if return_lse else None
        self.on_cpu(on, gpu) if self.device == CPU else self.on_gpu()
        if is_made:
            learned.give(self.out, lse, is_zero=self.has_rows_of_nobody)
        return (self.out, lse) if return_lse else self.out

    def on_cpu(self, on, gpu):
        self.check_tables()
        text, arrays, numbers, pins = self.program()
        named = {name: renamed(array, name, array.shape, array.strides) for name, array in arrays.items()}
        program_of(text, on, gpu, pins, self.q.array.type).run_arrays(named, {"scale": self.scale, **numbers})

    def on_gpu(self):
        torch = sys.modules.get("torch")
        if any(array.library is not torch or torch is None for array in self.inputs):
            raise TypeError("on a GPU attention takes PyTorch's tensors; flashtl.compile takes those of others")
        for table in self.tables.values():
            if table.shape[-1] > 1 and table.strides[-1] != 1:
                raise ValueError(f"the entries of '{table.name}' must lie next to one another; .contiguous() makes them")
        with on_device(torch, self.q.array.ordinal):
            self.launch(torch, c.c_void_p(torch.cuda.current_stream().cuda_stream))

    def fill(self, made):
        """What the structs of both calls have."""
        made.struct_bytes, made.dtype = c.sizeof(made), _c.TYPES[self.q.array.type]
        made.q_heads, made.kv_heads, made.head_dim, made.value_dim = self.q.heads, self.k.heads, self.q.d, self.v.d
        made.q, made.k, made.v, made.o = (rows.struct() for rows in (self.q, self.k, self.v, self.given))
        if self.lse:
            *first, length, head = self.lse.strides
            made.lse = _c.ftl_attention_tensor(self.lse.address, first[0] if first else 0, length, head)
        made.scale, made.causal, made.window, made.softcap = self.scale, self.causal, self.window, self.softcap
        made.scoring = self.scoring.struct()
        return made

    def arrays(self):
        """The arrays whose addresses are in the structs of all calls, by their fields."""
        given = self.scoring.arrays
        return {"q": self.q.array, "k": self.k.array, "v": self.v.array, "o": self.given.array, "lse": self.lse,
                "scoring.sinks": given.get("sinks"), "scoring.alibi_slopes": given.get("alibi"), "scoring.bias": given.get("bias"),
                "scoring.padding": given.get("padding")}

    def pages(self):
        pages, slots = self.k.before
        table = self.tables["table"]
        return _c.ftl_pages(slots, pages, table.address, table.shape[1], table.strides[0])

    def address(self, name):
        return self.tables[name].address if name in self.tables else 0

    def values(self, name):
        return self.tables[name].bits().view("int32")

    def check_starts(self, name, limit):
        starts = self.values(name)
        if starts[0] < 0 or (starts[1:] < starts[:-1]).any() or starts[-1] > limit:
            raise ValueError(f"'{name}' is to rise from 0 or later to {limit} at most; found {short(starts)}")

    def check_lengths(self, name, limit):
        lengths = self.values(name)
        if ((lengths < 0) | (lengths > limit)).any():
            raise ValueError(f"'{name}' has lengths from 0 to {short(limit)}; found {short(lengths)}")

    def check_pages(self):
        """The pages that the keys of each sequence are in; entries after them may hold anything."""
        import numpy
        table, lengths, (pages, slots) = self.values("table"), self.values("kv_lens"), self.k.before
        self.check_lengths("kv_lens", table.shape[1] * slots)
        used = numpy.arange(table.shape[1]) * slots < lengths[:, None]
        wrong = used & ((table < 0) | (table >= pages))
        if wrong.any():
            row, column = numpy.argwhere(wrong)[0]
            raise ValueError(f"'table' names pages from 0 to {pages - 1}; found {table[row, column]} at ({row}, {column})")
        self.scoring.check_tables(lengths)


class Varlen(Serving):
    def __init__(self, q, k, v, tables, scoring, out):
        is_paged = tables["table"] is not None
        super().__init__(q, k, v, tables, scoring, out, ["token"], ["page", "slot"] if is_paged else ["token"])
        needed, other = ("kv_lens", "kv_starts") if is_paged else ("kv_starts", None)
        if needed not in self.tables:
            raise TypeError(f"'{needed}' is missing: " + ("with a table it says how many keys there are" if is_paged
                                                          else "it says which keys belong to which sequence"))
        if other in self.tables:
            raise TypeError("'kv_starts' is not taken with a table: 'kv_lens' says how many keys there are")
        starts = self.need("q_starts", [None])
        if starts is None or not starts.shape[0]:
            raise ValueError("'q_starts' has an entry for each sequence and one more; found none")
        self.batch = starts.shape[0] - 1
        self.need("kv_starts", [self.batch + 1])
        self.need("q_lens", [self.batch])
        self.need("kv_lens", [self.batch])
        self.need("table", [self.batch, None])
        scoring.check(self.q.heads, self.batch, (self.q.heads, self.q.before[0]))

    def choose(self, causal, window, softcap, scale, max_q_len, align):
        self.set_options(causal, window, softcap, scale)
        if align not in ("first", "last"):
            raise ValueError(f"align is 'first' or 'last'; found {align!r}")
        self.is_first = align == "first"
        self.max_q_len = self.q.before[0] if max_q_len is None else positive("max_q_len", max_q_len, is_whole=True)

    def check_tables(self):
        self.check_starts("q_starts", self.q.before[0])
        starts = self.values("q_starts")
        if "q_lens" in self.tables:
            self.check_lengths("q_lens", starts[1:] - starts[:-1])
        if "table" in self.tables:
            return self.check_pages()
        self.check_starts("kv_starts", self.k.before[0])
        starts = self.values("kv_starts")
        if "kv_lens" in self.tables:
            self.check_lengths("kv_lens", starts[1:] - starts[:-1])
        self.scoring.check_tables(self.values("kv_lens") if "kv_lens" in self.tables else starts[1:] - starts[:-1])

    def program(self):
        is_paged, names = "table" in self.tables, ("K_pool", "V_pool") if "table" in self.tables else ("K_all", "V_all")
        scoring, numbers = self.scoring.inputs(self.causal)
        settings = self.scoring.settings(self.causal)
        has_places = self.causal or self.window or any(settings[name] for name in ("sides", "chunk", "alibi"))
        text = sketch("varlen", causal=self.causal, first=self.is_first and bool(has_places), **settings, window=self.window or None, softcap=self.softcap or None,
                      paged=is_paged, q_used="q_lens" in self.tables, kv_used="kv_lens" in self.tables and not is_paged,
                      lse=bool(self.lse))
        in_sketch = {"q_starts": "q_start", "kv_starts": "kv_start", "q_lens": "q_used", "kv_lens": "kv_lens" if is_paged else "kv_used"}
        tables = {in_sketch.get(name, name): array for name, array in self.tables.items()}
        pins = {"page_len": self.k.before[1]} if is_paged else {}
        arrays = {"Q_all": self.q.array, "O_all": self.given.array, **dict(zip(names, (self.k.array, self.v.array))), **tables, **scoring}
        if self.lse:
            arrays["lse_all"] = self.lse
        return text, arrays, {"max_q_len": self.max_q_len, **numbers}, pins

    def launch(self, torch, stream):
        made = self.fill(_c.ftl_varlen())
        made.batch, made.q_tokens, made.max_q_len, made.is_first = self.batch, self.q.before[0], self.max_q_len, self.is_first
        made.q_start, made.q_used, made.kv_used = (self.address(name) for name in ("q_starts", "q_lens", "kv_lens"))
        if "table" in self.tables:
            made.pages = self.pages()
        else:
            made.kv_tokens, made.kv_start = self.k.before[0], self.address("kv_starts")
        call("ftl_attention_varlen", runtime(), c.byref(made), stream)
        tables = self.tables
        _again.note_struct(made, {**self.arrays(), "q_start": tables["q_starts"], "kv_start": tables.get("kv_starts"),
                                  "q_used": tables.get("q_lens"), "kv_used": tables.get("kv_lens"), "pages.table": tables.get("table")})


class Decode(Serving):
    CALL, STRUCT = "ftl_attention_decode", _c.ftl_decode
    has_rows_of_nobody = False

    def __init__(self, q, k, v, tables, scoring, out):
        for name in ("table", "kv_lens"):
            if tables[name] is None:
                raise TypeError(f"'{name}' is missing")
        super().__init__(q, k, v, tables, scoring, out, ["batch", "tokens"], ["page", "slot"])
        batch, tokens = self.q.before
        self.need("table", [batch, None])
        self.need("kv_lens", [batch])
        scoring.check(self.q.heads, batch, (batch, self.q.heads, tokens))

    def choose(self, causal, window, softcap, scale, total_keys):
        self.set_options(causal, window, softcap, scale)
        self.total_keys = whole("total_keys", total_keys)

    check_tables = Serving.check_pages
    is_latent = False

    def program(self):
        scoring, numbers = self.scoring.inputs(self.causal)
        columns = columns_of(self.v.d) if self.is_latent else None
        text = sketch("decode", group=self.q.heads // self.k.heads, page_len=self.k.before[1], causal=self.causal,
                      latent=self.is_latent, columns=columns, **self.scoring.settings(self.causal), window=self.window or None,
                      softcap=self.softcap or None, lse=bool(self.lse))
        arrays = {"Q": heads_first(self.q.array), "K": self.k.array, "O": heads_first(self.given.array), **self.tables, **scoring}
        if not self.is_latent:
            arrays["V"] = self.v.array
        if self.lse:
            arrays["lse"] = heads_first(self.lse)
        return text, arrays, {"splits": SPLITS, **numbers}, {}

    def launch(self, torch, stream):
        made = self.fill(self.STRUCT())
        made.batch, made.q_len = self.q.before
        made.pages, made.kv_lens, made.total_keys = self.pages(), self.address("kv_lens"), self.total_keys
        size = c.c_size_t()
        call(f"{self.CALL}_workspace", runtime(), c.byref(made), c.byref(size))
        # Freed in the stream's order, as all of PyTorch's memory.
        workspace = torch.empty((size.value,), dtype=torch.uint8, device=self.device) if size.value else None
        made.workspace, made.workspace_bytes = workspace.data_ptr() if size.value else 0, size.value
        call(self.CALL, runtime(), c.byref(made), stream)
        _again.note_struct(made, {**self.arrays(), "kv_lens": self.tables["kv_lens"], "pages.table": self.tables["table"]})


class Latent(Decode):
    """One key head, whose rows have the values in front."""
    CALL, STRUCT = "ftl_mla_decode", _c.ftl_mla
    is_latent = True

    def __init__(self, q, cache, tables, value_dim, out):
        rows = array_of("cache", cache)
        if len(rows.shape) == 4 and rows.shape[2] == 1:
            rows = renamed(rows, "cache", (*rows.shape[:2], rows.shape[3]), (*rows.strides[:2], rows.strides[3]))
        if len(rows.shape) != 3:
            raise ValueError(f"'cache' has the axes (page, slot, d), or (page, slot, 1, d); found an array of {len(rows.shape)}")
        pages, slots, d = rows.shape
        width = positive("value_dim", value_dim, is_whole=True)
        if not 0 < width <= d:
            raise ValueError(f"value_dim is from 1 to {d}, the elements of a key; found {value_dim!r}")
        strides = (*rows.strides[:2], rows.strides[1], rows.strides[2])
        keys, values = (renamed(rows, "cache", (pages, slots, 1, n), strides) for n in (d, width))
        super().__init__(q, keys, values, tables, Scoring(dict.fromkeys((*NAMES, "before", "after", "chunk"))), out)

    def fill(self, made):
        made.struct_bytes, made.dtype = c.sizeof(made), _c.TYPES[self.q.array.type]
        made.heads, made.head_dim, made.value_dim = self.q.heads, self.q.d, self.v.d
        made.q, made.cache, made.o = (rows.struct() for rows in (self.q, self.k, self.given))
        if self.lse:
            made.lse = _c.ftl_attention_tensor(self.lse.address, *self.lse.strides)
        made.scale, made.causal = self.scale, self.causal
        return made

    def arrays(self):
        return {"q": self.q.array, "cache": self.k.array, "o": self.given.array, "lse": self.lse}


SPLITS = 2  # of the keys, on the CPU


def whole(name, value):
    """A whole number from 0 on; 0 where none is said."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or not 0 <= value < 2 ** 63:
        raise ValueError(f"{name} is a whole number from 0 on, or None; found {value!r}")
    return int(value)


def columns_of(value_dim):
    """As the library has it: of latent values a block makes 256 columns at most."""
    return value_dim if value_dim <= 256 else next(n for n in range(256, 0, -8) if value_dim % n == 0)


def heads_first(array):
    """(batch, tokens, heads, ...) as (batch, heads, tokens, ...)."""
    swap = lambda axes: (axes[0], axes[2], axes[1], *axes[3:])
    return renamed(array, array.name, swap(array.shape), swap(array.strides))


def short(values):
    """A few numbers, for a sentence."""
    listed = [int(value) for value in values] if getattr(values, "shape", ()) else [values]
    return ", ".join(map(str, listed[:8])) + (", ..." if len(listed) > 8 else "")
