"""flashtl.attention: softmax(scale Q K^T + bias, masked) V on arrays of the CPU and on PyTorch's tensors on a GPU."""
import ctypes as c
import functools
import math
import sys

from . import _again, _c
from ._arrays import CPU, array_of, check_output, empty, one_device
from ._library import call, on_device, runtime, sketch
from ._program import MACHINES, Program

LAYOUTS = {"bhld": (0, 1, 2, 3), "blhd": (0, 2, 1, 3)}  # where batch, heads, length and d are
HEAD_UNIT = 8  # kernels take head sizes that are multiples of it


def attention(q, k, v, *, causal=False, window=None, softcap=None, alibi=None, scale=None, align=None, return_lse=False,
              layout="bhld", out=None, on=None, gpu=None):
    """o, or (o, lse), of (batch, heads, length, d) arrays; layout="blhd" takes (batch, length, heads, d). Neither is copied.

    causal      a query sees no later key
    window      a query sees no key 'window' or more places away from its own
    softcap     scores become softcap*tanh(score/softcap)
    alibi       slopes, f32 (q_heads): scores fall by the distance times the slope
    scale       of the scores; 1/sqrt(d) where none is said
    align       where the lengths of queries and keys differ: "last", the last query is at the last key's place; "first", the
                first at the first key's, as scaled_dot_product_attention(is_causal=True) has it
    return_lse  also gives the log-sum-exp of each row, f32 (batch, q_heads, q_len)
    out         an array for o
    on, gpu     on arrays of the CPU: "interpreter", or "emulator" of the GPU that is named, or "gpu"

    k and v may have fewer heads than q. Arrays are of float16 or bfloat16; the interpreter takes float32, too. Tensors that require
    gradients are refused; flashtl.torch.attention has them.
    """
    options = "attention", causal, window, softcap, scale, align, return_lse, layout, on
    tensors = (q, k, v) if alibi is None else (q, k, v, alibi)
    found = _again.again(options, tensors) if out is None else None
    if found:
        return found if return_lse else found[0]
    call_ = Call(q, k, v, layout, alibi, out, on in (None, "interpreter"))
    call_.choose(causal, window, softcap, scale, align)
    if on not in (None, *MACHINES):
        raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")
    if call_.device != CPU and on not in (None, "gpu"):
        raise ValueError(f"on='{on}' takes arrays of the CPU; these are on {call_.device}")
    o, lse = call_.outputs(return_lse)
    if call_.device == CPU:
        call_.on_cpu(on, gpu)
    else:
        with _again.learning(options, tensors) as learned:
            call_.on_gpu()
            learned.give(*(() if out is not None else (o, lse)))
    return (o, lse) if return_lse else o


class Matrices:
    """An array of 4 axes as (batch, heads, length, d)."""

    def __init__(self, array, layout):
        if len(array.shape) != 4:
            names = {"b": "batch", "h": "heads", "l": "length", "d": "d"}
            raise ValueError(f"'{array.name}' has the axes ({', '.join(names[letter] for letter in layout)}); "
                             f"found an array of {len(array.shape)}")
        self.array = array
        self.batch, self.heads, self.length, self.d = (array.shape[i] for i in LAYOUTS[layout])
        self.batch_stride, self.head_stride, self.length_stride, self.unit = (array.strides[i] for i in LAYOUTS[layout])

    def address(self, row):
        return self.array.address + row * self.length_stride * _c.BITS[self.array.type] // 8


class Call:
    """One call: what is checked of its arguments, and the launches that it comes to."""

    def __init__(self, q, k, v, layout, alibi, out, is_meaning):
        if layout not in LAYOUTS:
            raise ValueError(f"layout is {' or '.join(map(repr, LAYOUTS))}; found {layout!r}")
        self.layout = layout
        self.q, self.k, self.v = (Matrices(array_of(name, value), layout) for name, value in zip("qkv", (q, k, v)))
        self.alibi = None if alibi is None else array_of("alibi", alibi)
        self.given = None if out is None else Matrices(array_of("out", out), layout)
        self.out = out
        self.inputs = [self.q.array, self.k.array, self.v.array, *([self.alibi] if self.alibi else [])]
        self.device = one_device([*self.inputs, *([self.given.array] if self.given else [])])
        check_types(self.q.array, self.k.array, self.v.array, is_meaning and self.device == CPU)
        self.check_shapes()

    def check_shapes(self):
        q, k, v = self.q, self.k, self.v
        for one in (k, v):
            if one.batch != q.batch:
                raise ValueError(f"'q' has a batch of {q.batch}, and '{one.array.name}' one of {one.batch}")
        if k.heads != v.heads or k.length != v.length:
            raise ValueError(f"'k' has {k.heads} heads of {k.length} keys, and 'v' {v.heads} heads of {v.length} values")
        check_heads(q, k, v)
        if self.alibi and (self.alibi.type != "f32" or self.alibi.shape != (q.heads,)):
            raise ValueError(f"'alibi' is float32 of {q.heads} slopes, one for each head of q; found {self.alibi.type} of the "
                             f"shape {self.alibi.shape}")

    def choose(self, causal, window, softcap, scale, align):
        """Options, and the parts of the queries that are launches of their own."""
        self.causal = bool(causal)
        self.window = positive("window", window, is_whole=True)
        self.softcap = positive("softcap", softcap)
        self.scale = positive("scale", scale) or 1 / math.sqrt(self.q.d)
        self.parts = parts_of(self.q.length, self.k.length, self.causal, self.window, bool(self.alibi), align)

    def outputs(self, return_lse):
        q, kind = self.q, self.q.array.type
        extents = (q.batch, q.heads, q.length, self.v.d)
        shape = tuple(extents[i] for i in LAYOUTS[self.layout])
        if self.out is None:
            self.out = empty("out", kind, shape, self.inputs)
            self.given = Matrices(array_of("out", self.out), self.layout)
        else:
            if self.given.array.shape != shape or self.given.array.type != kind:
                raise ValueError(f"'out' is {kind} of the shape {shape}; found {self.given.array.type} of {self.given.array.shape}")
            check_output(self.given.array, self.inputs)
        lse = empty("lse", "f32", extents[:3], self.inputs) if return_lse else None
        self.lse = array_of("lse", lse) if return_lse else None
        return self.out, lse

    # --- arrays of the CPU ---

    def on_cpu(self, on, gpu):
        for begin, end, keys, causal in self.parts:
            text = attention_sketch("attention", causal, self.window, self.softcap, bool(self.alibi), bool(self.lse))
            program = program_of(text, on, gpu, {}, self.q.array.type)
            arrays = {"Q": rows(self.q, "Q", begin, end), "K": rows(self.k, "K", 0, keys), "V": rows(self.v, "V", 0, keys),
                      "O": rows(self.given, "O", begin, end)}
            if self.alibi:
                arrays["slope"] = renamed(self.alibi, "slope", self.alibi.shape, self.alibi.strides)
            if self.lse:
                arrays["lse"] = lse_rows(self.lse, begin, end)
            program.run_arrays(arrays, {"scale": self.scale})

    # --- tensors on a GPU ---

    def on_gpu(self):
        torch = sys.modules.get("torch")
        if any(array.library is not torch or torch is None for array in self.inputs):
            raise TypeError("on a GPU attention takes PyTorch's tensors; flashtl.compile takes those of others")
        with on_device(torch, self.q.array.ordinal):
            self.launch(torch)

    def launch(self, torch):
        stream = torch.cuda.current_stream().cuda_stream
        for one in (self.q, self.k, self.v, self.given):
            if one.unit != 1 and one.d > 1 and not one.array.is_empty:
                raise ValueError(f"the elements of '{one.array.name}' along d must lie next to one another; .contiguous() makes them")
        if self.alibi and self.alibi.strides != (1,) and self.alibi.shape[0] > 1:
            raise ValueError("the slopes of 'alibi' must lie next to one another; .contiguous() makes them")
        arrays = {"q": self.q.array, "k": self.k.array, "v": self.v.array, "o": self.given.array, "lse": self.lse, "alibi_slopes": self.alibi}
        for begin, end, keys, causal in self.parts:
            made = self.struct(begin, end, keys, causal)
            call("ftl_attention_forward", runtime(), c.byref(made), c.c_void_p(stream))
            _again.note_struct(made, arrays)

    def struct(self, begin, end, keys, causal):
        made = _c.ftl_attention(struct_bytes=c.sizeof(_c.ftl_attention), dtype=_c.TYPES[self.q.array.type], batch=self.q.batch,
                                q_len=end - begin, kv_len=keys, q_heads=self.q.heads, kv_heads=self.k.heads, head_dim=self.q.d,
                                value_dim=self.v.d, q=matrix(self.q, begin), k=matrix(self.k), v=matrix(self.v),
                                o=matrix(self.given, begin), scale=self.scale, causal=causal, window=self.window,
                                softcap=self.softcap)
        if self.alibi:
            made.alibi_slopes = self.alibi.address
        if self.lse:
            batch, head, length = self.lse.strides
            made.lse = _c.ftl_attention_tensor(self.lse.address + begin * length * 4, batch, length, head)
        return made


def parts_of(q_len, kv_len, causal, window, has_alibi, align):
    """Launches of their own, whose last query is at the place of their last key: (first row, row past the last, keys, causal)."""
    if align not in (None, "first", "last"):
        raise ValueError(f"align is 'first' or 'last'; found {align!r}")
    whole = [(0, q_len, kv_len, causal)]
    if q_len == kv_len or not (causal or window or has_alibi):
        return whole
    if align is None:
        raise ValueError(f"{q_len} queries and {kv_len} keys: align='last' has the last query at the last key's place, "
                         "align='first' the first at the first key's, as PyTorch does")
    if align == "last":
        return whole
    if not causal:
        raise ValueError("align='first' is for causal attention alone where the lengths of queries and keys differ")
    if q_len < kv_len:
        return [(0, q_len, q_len, True)]  # nobody sees the other keys
    if window or has_alibi:
        raise ValueError("align='first' takes no window and no alibi where there are more queries than keys")
    return [(0, kv_len, kv_len, True), (kv_len, q_len, kv_len, False)]


def check_types(q, k, v, has_single=False):
    """Kernels are of 16 bits; the interpreter takes float32, too."""
    if q.type not in ("f16", "bf16") and not (has_single and q.type == "f32"):
        raise TypeError(f"attention is of float16 or bfloat16; 'q' is {q.type}"
                        + (", which the interpreter alone takes" if q.type == "f32" else ""))
    for one in (k, v):
        if one.type != q.type:
            raise TypeError(f"q, k and v are of one type; 'q' is {q.type} and '{one.name}' is {one.type}")


def check_heads(q, k, v):
    """Of anything with heads and d."""
    for name, heads in (("q", q.heads), ("k", k.heads)):
        if heads == 0:
            raise ValueError(f"'{name}' has no heads")
    if q.heads % k.heads:
        raise ValueError(f"the heads of q are a multiple of those of k; found {q.heads} and {k.heads}")
    if q.d != k.d:
        raise ValueError(f"'q' has vectors of {q.d} elements, and 'k' of {k.d}")
    for name, d in (("q", q.d), ("v", v.d)):
        if d == 0 or d % HEAD_UNIT:
            raise ValueError(f"head sizes are multiples of {HEAD_UNIT}; that of '{name}' is {d}")


def positive(name, value, is_whole=False):
    """A number above 0, or 0 for none."""
    if value is None:
        return 0
    is_right = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf
    if not is_right or is_whole and (value != int(value) or value >= 2 ** 31):
        raise ValueError(f"{name} is a {'whole ' if is_whole else ''}number above 0, or None; found {value!r}")
    return int(value) if is_whole else float(value)


def matrix(one, row=0):
    return _c.ftl_attention_tensor(one.address(row), one.batch_stride, one.length_stride, one.head_stride)


def renamed(array, name, shape, strides, address=None):
    return type(array)(name, array.address if address is None else address, array.type, shape, strides, array.device,
                       array.library, array.owner, array.is_writable)


def rows(one, name, begin, end):
    """Rows of matrices as an argument of the sketch."""
    return renamed(one.array, name, (one.batch, one.heads, end - begin, one.d),
                   (one.batch_stride, one.head_stride, one.length_stride, one.unit), one.address(begin))


def lse_rows(lse, begin, end):
    batch, heads, _ = lse.shape
    return renamed(lse, "lse", (batch, heads, end - begin), lse.strides, lse.address + begin * lse.strides[2] * 4)


@functools.lru_cache(256)  # a process has few choices of options
def attention_sketch(operator, causal, window, softcap, has_alibi, has_lse):
    return sketch(operator, causal=causal, window=window or None, softcap=softcap or None, alibi=has_alibi, lse=has_lse)


programs = {}
PROGRAMS_MOST = 256


def program_of(text, on, gpu, pins, dtype=None):
    """A program is made once for each choice of options, of which a process has few."""
    key = (text, on, gpu, tuple(pins.items()), dtype)
    if key not in programs:
        if len(programs) >= PROGRAMS_MOST:
            programs.clear()
        programs[key] = Program(text, gpu, dtype, None, on, "<attention>", pins)
    return programs[key]
