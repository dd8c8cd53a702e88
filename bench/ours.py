"""FlashTL's kernels inside a PyTorch process, through the C API (ctypes, no build step)."""
import ctypes
import json
import os
import pathlib

import torch

AXES_MAX = 8
SHORT_LENGTH = 1024  # up to it, the attention call asks for a kernel of its own
TYPES = {getattr(torch, name): number for name, number in (  # those that this PyTorch has
    ("float16", 1), ("bfloat16", 2), ("float32", 3), ("float8_e4m3fn", 4), ("float8_e5m2", 5), ("int32", 6), ("int8", 7))
    if hasattr(torch, name)}
TYPE_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16"}


class Tensor(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("address", ctypes.c_uint64), ("type", ctypes.c_int),
                ("extents", ctypes.c_int64 * AXES_MAX), ("strides", ctypes.c_int64 * AXES_MAX),
                ("axis_count", ctypes.c_int32)]


class Scalar(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class Arguments(ctypes.Structure):
    _fields_ = [("tensors", ctypes.POINTER(Tensor)), ("tensor_count", ctypes.c_int32),
                ("scalars", ctypes.POINTER(Scalar)), ("scalar_count", ctypes.c_int32)]


class Source(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("text", ctypes.c_char_p), ("length", ctypes.c_size_t)]


class Pin(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_char_p)]


class Options(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t), ("gpu", ctypes.c_char_p), ("dtype", ctypes.c_int), ("pins", ctypes.POINTER(Pin)),
                ("pin_count", ctypes.c_int32), ("stop_after", ctypes.c_char_p),
                ("measured", ctypes.c_char_p), ("entry", ctypes.c_char_p)]


class Gpu(ctypes.Structure):
    _fields_ = [("struct_bytes", ctypes.c_size_t), ("name", ctypes.c_char * 64),
                ("title", ctypes.c_char * 64), ("target", ctypes.c_char * 32),
                ("capability", ctypes.c_int32), ("multiprocessors", ctypes.c_int32),
                ("shared_bytes", ctypes.c_int64), ("l2_bytes", ctypes.c_int64),
                ("memory_gb_per_s", ctypes.c_double), ("tensor_tflops", ctypes.c_double),
                ("mma_tflops", ctypes.c_double)]


class Kernel(ctypes.Structure):
    _fields_ = [("cuda", ctypes.c_char_p), ("plan", ctypes.c_void_p)]


class Product(ctypes.Structure):
    _fields_ = [("sketch", ctypes.c_char_p), ("code", ctypes.c_char_p), ("reasons", ctypes.c_char_p),
                ("predicted_tflops", ctypes.c_double), ("kernels", ctypes.POINTER(Kernel)),
                ("kernel_count", ctypes.c_int32)]


def find_library(given):
    here = pathlib.Path(__file__).resolve().parent.parent
    places = [given, os.environ.get("FLASHTL_LIBRARY"), here / "build" / "libflashtl.so"]
    for place in places:
        if place and pathlib.Path(place).exists():
            return str(place)
    raise SystemExit("libflashtl.so was not found: build it with `make`, or name it with --library")


class Library:
    """The library, one context, and a runtime in PyTorch's CUDA context."""

    def __init__(self, path=None):
        self.c = ctypes.CDLL(find_library(path))
        self.c.ftl_context_error.restype = ctypes.c_char_p
        self.c.ftl_context_diagnostics.restype = ctypes.c_char_p
        self.c.ftl_module_plan.restype = self.c.ftl_plan_read.restype = ctypes.c_void_p
        self.context, self.runtime = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.c.ftl_context_new(ctypes.byref(self.context)))
        torch.zeros(1, device="cuda")
        self.must(self.c.ftl_runtime_open(self.context, None, ctypes.byref(self.runtime)))

    def must(self, status):
        if status:
            diagnostics = self.c.ftl_context_diagnostics(self.context, 1) or b""
            error = self.c.ftl_context_error(self.context) or b""
            raise RuntimeError((error + b"\n" + diagnostics).decode(errors="replace"))

    def sketch(self, operator, settings):
        words = [s.encode() for s in settings]
        out = ctypes.c_char_p()
        self.must(self.c.ftl_sketch(self.context, operator.encode(),
                                    (ctypes.c_char_p * len(words))(*words), len(words),
                                    ctypes.byref(out)))
        return out.value.decode()

    def gpu_here(self):
        """The shipped description that fits the current card."""
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        described = Gpu(ctypes.sizeof(Gpu))
        self.must(self.c.ftl_gpu_for_device(
            self.context, properties.name.encode(), 10 * properties.major + properties.minor,
            properties.multi_processor_count, ctypes.byref(described)))
        return described.name.decode()

    def build(self, text, gpu, dtype, pins=(), measured=None):
        """Sketch or TL Code to a loaded module. 'measured': a tuner's text; None: what is shipped."""
        data = text.encode()
        rows = (Pin * len(pins))(*[Pin(n.encode(), str(v).encode()) for n, v in pins])
        options = Options(ctypes.sizeof(Options), (gpu or self.gpu_here()).encode(), TYPES[dtype],
                          rows, len(pins), None, None if measured is None else measured.encode())
        product = ctypes.POINTER(Product)()
        self.must(self.c.ftl_build(self.context, ctypes.byref(Source(b"<bench>", data, len(data))),
                                   ctypes.byref(options), ctypes.byref(product)))
        kernel, module = product.contents.kernels[0], ctypes.c_void_p()
        self.must(self.c.ftl_module_load(self.context, self.runtime, ctypes.c_void_p(kernel.plan),
                                         ctypes.c_char_p(kernel.cuda), ctypes.byref(module)))
        self.c.ftl_product_free(product)
        return module

    def load_image(self, plan_path, image_path):
        """A kernel that was built before: its plan, or the facts that `flashtl build` wrote (both
        JSON), and its cubin or PTX.
        """
        facts, image = json.loads(pathlib.Path(plan_path).read_text()), pathlib.Path(image_path).read_bytes()
        plan_text = json.dumps(facts.get("plan", facts)).encode()
        why = ctypes.create_string_buffer(512)
        plan = self.c.ftl_plan_read(plan_text, ctypes.c_size_t(len(plan_text)), why)
        if not plan:
            raise RuntimeError(why.value.decode())
        module = ctypes.c_void_p()
        self.must(self.c.ftl_module_load_image(self.context, self.runtime, ctypes.c_void_p(plan),
                                               image, ctypes.c_size_t(len(image)),
                                               ctypes.byref(module)))
        return module

    def launcher(self, module, tensors, scalars):
        """A function that launches on PyTorch's current stream. tensors: {name: (tensor, order)},
        where 'order' lists the tensor's dimensions in the order of the plan's axes.
        """
        rows = (Tensor * len(tensors))()
        for row, (name, (t, order)) in zip(rows, tensors.items()):
            row.name, row.address, row.type = name.encode(), t.data_ptr(), TYPES[t.dtype]
            row.axis_count = len(order)
            for at, dimension in enumerate(order):
                row.extents[at], row.strides[at] = t.shape[dimension], t.stride(dimension)
        values = (Scalar * len(scalars))(*[Scalar(n.encode(), v) for n, v in scalars.items()])
        arguments = Arguments(rows, len(rows), values, len(values))
        reference = ctypes.byref(arguments)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

        def launch():
            self.must(self.c.ftl_module_launch(self.context, module, reference, stream))
        launch.keeps = (rows, values, arguments, tensors)
        return launch


def attention(library, gpu, code=None, image=None, pins=(), measured=None):
    """A peer for peers.py: attention of (batch, length, heads, d) tensors. 'code' is TL Code to use
    instead of the reasoner's, 'image' a (plan, cubin) pair of files.
    """
    modules = {}

    def make(p):
        is_short = p.length <= SHORT_LENGTH and not image and not code
        key = (p.d, p.dv, p.causal, p.q.dtype, is_short, p.cell.softcap)
        if key not in modules:
            if image:
                modules[key] = library.load_image(*image(p))
            elif code:
                modules[key] = library.build(pathlib.Path(code).read_text(), gpu, p.q.dtype)
            else:
                settings = ["causal"] if p.causal else []
                settings += [f"softcap={p.cell.softcap:g}"] if p.cell.softcap else []
                text = library.sketch("attention", settings)
                hint = [("nominal_length", SHORT_LENGTH)] if is_short else []
                modules[key] = library.build(text, gpu, p.q.dtype,
                                             [("d", p.d), ("dv", p.dv), *hint, *pins], measured)
        out = torch.full((p.batch, p.length, p.q_heads, p.dv), float("nan"), device="cuda",
                         dtype=p.q.dtype)
        order = (0, 2, 1, 3)
        launch = library.launcher(modules[key], {"Q": (p.q, order), "K": (p.k, order),
                                                 "V": (p.v, order), "O": (out, order)},
                                  {"scale": p.scale})

        def call():
            launch()
            return out
        return call, lambda result: result
    return make
