"""FlashTL's kernels on PyTorch's tensors, through the C library: nothing is copied, and nothing built.

    import torch, torch_tensors
    library = torch_tensors.Library("libflashtl.so")
    o = library.attention(q, k, v, causal=True)              # (batch, heads, length, d), as PyTorch's own attention
    kernel = library.kernel(open("examples/window_sinks.tl").read(), gpu="h200", d=128, dv=128)
    kernel(Q=q, K=k, V=v, O=o, scale=0.125)

Work goes to PyTorch's current stream. docs/pytorch.md says more.
"""
import ctypes as c
import math
import os
import sys
import threading

TYPES = {"torch.float16": 1, "torch.bfloat16": 2, "torch.float32": 3, "torch.int32": 6}
AXES_MAX = 8


class Matrix(c.Structure):  # ftl_attention_tensor
    _fields_ = [("address", c.c_uint64), ("batch", c.c_int64), ("length", c.c_int64), ("head", c.c_int64)]


class Attention(c.Structure):  # ftl_attention
    _fields_ = [("struct_bytes", c.c_size_t), ("dtype", c.c_int), ("batch", c.c_int64), ("q_len", c.c_int64),
                ("kv_len", c.c_int64), ("q_heads", c.c_int64), ("kv_heads", c.c_int64), ("head_dim", c.c_int64),
                ("value_dim", c.c_int64), ("q", Matrix), ("k", Matrix), ("v", Matrix), ("o", Matrix), ("lse", Matrix),
                ("alibi_slopes", c.c_uint64), ("scale", c.c_double), ("causal", c.c_bool), ("window", c.c_int32),
                ("softcap", c.c_double)]


class RuntimeOptions(c.Structure):  # ftl_runtime_options
    _fields_ = [("struct_bytes", c.c_size_t), ("cuda_library", c.c_char_p), ("nvrtc_library", c.c_char_p),
                ("cache_folder", c.c_char_p), ("is_unverified", c.c_bool)]


class Source(c.Structure):  # ftl_source
    _fields_ = [("name", c.c_char_p), ("text", c.c_char_p), ("length", c.c_size_t)]


class Pin(c.Structure):  # ftl_pin
    _fields_ = [("name", c.c_char_p), ("value", c.c_char_p)]


class Options(c.Structure):  # ftl_options
    _fields_ = [("struct_bytes", c.c_size_t), ("gpu", c.c_char_p), ("dtype", c.c_int), ("pins", c.POINTER(Pin)), ("pin_count", c.c_int32),
                ("stop_after", c.c_char_p), ("measured", c.c_char_p)]


class KernelText(c.Structure):  # ftl_kernel
    _fields_ = [("cuda", c.c_char_p), ("plan", c.c_void_p)]


class Product(c.Structure):  # ftl_product
    _fields_ = [("sketch", c.c_char_p), ("code", c.c_char_p), ("reasons", c.c_char_p), ("tflops", c.c_double),
                ("kernels", c.POINTER(KernelText)), ("kernel_count", c.c_int32)]


class Tensor(c.Structure):  # ftl_tensor
    _fields_ = [("name", c.c_char_p), ("address", c.c_uint64), ("type", c.c_int), ("extents", c.c_int64 * 8),
                ("strides", c.c_int64 * 8), ("axis_count", c.c_int32)]


class Scalar(c.Structure):  # ftl_scalar
    _fields_ = [("name", c.c_char_p), ("value", c.c_double)]


class Arguments(c.Structure):  # ftl_arguments
    _fields_ = [("tensors", c.POINTER(Tensor)), ("tensor_count", c.c_int32), ("scalars", c.POINTER(Scalar)),
                ("scalar_count", c.c_int32)]


def stream_of(tensors, stream):
    """The current stream of the device that all tensors are on, unless another one is given."""
    first = tensors[0]
    for tensor in tensors:
        if not tensor.is_cuda or tensor.device != first.device:
            raise ValueError(f"the tensors are to be on one GPU; found {[str(t.device) for t in tensors]}")
    torch = sys.modules.get("torch")
    if torch and torch.cuda.current_device() != first.device.index:
        raise ValueError(f"the tensors are on {first.device}, which is not the current device; "
                         f"'with torch.cuda.device({str(first.device)!r}):' makes it so")
    return torch.cuda.current_stream().cuda_stream if stream is None else stream


def forward_only(tensors):
    """What autograd would have to go back through is refused, not dropped."""
    torch = sys.modules.get("torch")
    if any(tensor.requires_grad for tensor in tensors) and (not torch or torch.is_grad_enabled()):
        raise ValueError("kernels are forward only, and a tensor requires gradients; call this under torch.no_grad(), "
                         "or in the forward of a torch.autograd.Function")


def type_of(tensor):
    if str(tensor.dtype) not in TYPES:
        raise TypeError(f"a kernel takes {', '.join(TYPES)}; found {tensor.dtype}")
    return TYPES[str(tensor.dtype)]


def matrix(tensor):
    """(batch, heads, length, d) in any order of strides, those along d next to one another."""
    batch, head, length, unit = tensor.stride()
    if unit != 1:
        raise ValueError("the elements along d must lie next to one another; .contiguous() makes them")
    return Matrix(tensor.data_ptr(), batch, length, head)


class Library:
    """One runtime: kernels that were made once are kept, and may be used from several threads. A kernel is verified
    on the CPU before it is first used, unless 'verify' is False."""

    def __init__(self, path="libflashtl.so", cache_folder=None, cuda_library=None, nvrtc_library=None, verify=True):
        self.c = c.CDLL(path)
        self.c.ftl_context_error.restype = c.c_char_p
        self.c.ftl_context_diagnostics.restype = c.c_void_p
        self.thread = threading.local()
        names = (name and os.fsencode(name) for name in (cuda_library, nvrtc_library, cache_folder))
        self.runtime = c.c_void_p()
        self.call("ftl_runtime_open", c.byref(RuntimeOptions(c.sizeof(RuntimeOptions), *names, not verify)),
                  c.byref(self.runtime))

    def context(self):
        """A context holds what went wrong, for one thread."""
        if not hasattr(self.thread, "context"):
            self.thread.context = c.c_void_p()
            self.c.ftl_context_new(c.byref(self.thread.context))
        return self.thread.context

    def call(self, function, *arguments):
        context = self.context()
        if getattr(self.c, function)(context, *arguments) == 0:
            return
        text = c.c_void_p(self.c.ftl_context_diagnostics(context, 1))
        diagnostics = c.string_at(text).decode() if text else ""
        self.c.ftl_free(text)
        raise RuntimeError(diagnostics or self.c.ftl_context_error(context).decode())

    def attention(self, q, k, v, out=None, causal=False, align=None, window=0, softcap=0, scale=None, stream=None):
        """(batch, heads, length, d). What a query sees when causal, with q_len queries and kv_len keys:
        align="last": keys up to i + kv_len - q_len, so that the last query sees all (a cache of keys is there);
        align="first": keys up to i, as scaled_dot_product_attention(is_causal=True) has it.
        For equal lengths both are the same; otherwise it must be said."""
        if out is None:
            out = q.new_empty((*q.shape[:3], v.shape[3]))
        forward_only((q, k, v, out))
        if not type_of(q) == type_of(k) == type_of(v) == type_of(out):
            raise TypeError("q, k, v and out are of one type")
        shapes = [tuple(t.shape) for t in (q, k, v, out)]
        if (any(len(shape) != 4 for shape in shapes) or k.shape[:3] != v.shape[:3] or k.shape[3] != q.shape[3]
                or q.shape[0] != k.shape[0] or shapes[3] != (*q.shape[:3], v.shape[3])):
            raise ValueError(f"shapes that do not fit: {shapes}")
        for name, value in (("scale", scale), ("softcap", softcap)):
            if value is not None and not (0 <= value < math.inf) or name == "scale" and value == 0:
                raise ValueError(f"{name} is a positive number; found {value}")
        if align not in (None, "first", "last"):
            raise ValueError(f"align is 'first' or 'last'; found {align!r}")
        if window < 0 or window != int(window):
            raise ValueError(f"window is a number of keys; found {window}")
        q_len, kv_len = q.shape[2], k.shape[2]
        if causal and q_len != kv_len and align is None:
            raise ValueError(f"{q_len} queries and {kv_len} keys: align='last' lets the last query see all keys, "
                             "align='first' lets query i see keys up to i, as PyTorch does")
        stream = stream_of((q, k, v, out), stream)
        a = Attention(struct_bytes=c.sizeof(Attention), dtype=type_of(q), batch=q.shape[0], q_heads=q.shape[1],
                      q_len=q_len, kv_heads=k.shape[1], kv_len=kv_len, head_dim=q.shape[3], value_dim=v.shape[3],
                      q=matrix(q), k=matrix(k), v=matrix(v), o=matrix(out), causal=causal, window=int(window),
                      softcap=softcap, scale=scale or 0)
        if causal and align == "first" and q_len > kv_len:
            if window:
                raise ValueError("align='first' takes no window where there are more queries than keys")
            # Queries past the last key see all keys.
            rest = Attention.from_buffer_copy(a)
            rest.causal, rest.q_len = False, q_len - kv_len
            rest.q.address += 2 * kv_len * rest.q.length
            rest.o.address += 2 * kv_len * rest.o.length
            self.call("ftl_attention_forward", self.runtime, c.byref(rest), c.c_void_p(stream))
            a.q_len = kv_len
        elif causal and align == "first":
            a.kv_len = q_len  # nobody sees the others
        self.call("ftl_attention_forward", self.runtime, c.byref(a), c.c_void_p(stream))
        return out

    def kernel(self, text, gpu, dtype="torch.float16", name="sketch", **pins):
        """A sketch or TL Code of one kernel, for a GPU of `flashtl gpus`."""
        return Kernel(self, text.encode(), gpu.encode(), TYPES[dtype], name.encode(), pins)


class Kernel:
    def __init__(self, library, text, gpu, dtype, name, pins):
        self.library, self.module = library, c.c_void_p()
        list_of_pins = (Pin * len(pins))(*(Pin(key.encode(), str(value).encode()) for key, value in pins.items()))
        options = Options(c.sizeof(Options), gpu, dtype, list_of_pins, len(pins), None, None)
        product = c.POINTER(Product)()
        library.call("ftl_build", c.byref(Source(name, text, len(text))), c.byref(options), c.byref(product))
        try:
            made = product.contents
            if made.kernel_count != 1:
                raise ValueError(f"the program has {made.kernel_count} kernels; this class launches one")
            self.code = made.code.decode()
            library.call("ftl_product_load", library.runtime, product, c.byref(self.module))
        finally:
            library.c.ftl_product_free(product)

    def __call__(self, stream=None, **arguments):
        """Tensors and numbers by the names of the program's Inputs and Outputs, axes in their order."""
        tensors, scalars = [], []
        given_tensors = [value for value in arguments.values() if hasattr(value, "data_ptr")]
        forward_only(given_tensors)
        for name, value in arguments.items():
            if hasattr(value, "data_ptr"):
                axes = len(value.shape)
                if axes > AXES_MAX:
                    raise ValueError(f"a tensor has at most {AXES_MAX} axes; {name} has {axes}")
                tensors.append(Tensor(name.encode(), value.data_ptr(), type_of(value), tuple(value.shape),
                                      tuple(value.stride()), axes))
            else:
                scalars.append(Scalar(name.encode(), value))
        given = Arguments((Tensor * len(tensors))(*tensors), len(tensors), (Scalar * len(scalars))(*scalars),
                          len(scalars))
        stream = stream_of(given_tensors, stream) if given_tensors else stream or 0
        self.library.call("ftl_module_launch", self.module, c.byref(given), c.c_void_p(stream))
