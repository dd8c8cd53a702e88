#!/usr/bin/env python3
"""examples/torch_tensors.py on a driver without a GPU: what the launches are given.
torch_tensors.py EXAMPLES LIBRARY FAKE_CUDA FAKE_NVRTC FLASHTL; exit status 77 without NumPy."""
import ctypes as c
import os
import pathlib
import subprocess
import sys
import tempfile
import types

try:
    import numpy as np
except ImportError:
    print("torch_tensors.py: NumPy is not here")
    sys.exit(77)

examples, library_path, cuda, nvrtc, flashtl = sys.argv[1:]
os.environ["FAKE_CUDA"] = "capability=80 device_count=1 driver_version=13000 parameter_bytes=4096"
sys.path.insert(0, examples)
sys.dont_write_bytecode = True
import torch_tensors  # noqa: E402


class Device:
    def __init__(self, index):
        self.index = index

    def __eq__(self, other):
        return self.index == other.index

    def __str__(self):
        return f"cuda:{self.index}"


class Tensor:
    """What torch_tensors asks of PyTorch's tensors, over NumPy's memory."""

    is_cuda, requires_grad = True, False

    def __init__(self, *shape, dtype="torch.float16", order=None, device=0):
        kind = {"torch.float16": np.float16, "torch.float32": np.float32, "torch.float64": np.float64}[dtype]
        order = order or range(len(shape))
        whole = np.zeros([shape[i] for i in order], kind)
        self.array, self.dtype, self.shape = whole.transpose(np.argsort(list(order))), dtype, shape
        self.device = Device(device)

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def new_empty(self, shape):
        return Tensor(*shape, dtype=self.dtype)


def fails(kind, text, run, *arguments, **options):
    try:
        run(*arguments, **options)
    except kind as why:
        assert text in str(why), why
        return
    raise AssertionError(f"it should have said: {text}")


# The compiler makes no PTX that could be verified.
library = torch_tensors.Library(library_path, cuda_library=cuda, nvrtc_library=nvrtc, verify=False)
record = c.CDLL(cuda)
place = c.addressof(c.c_char.in_dll(record, "fake_cuda"))
names = ["init_result", "load_result", "launch_result", "query_result", "allocate_result", "encode_result", "capability",
         "device_count", "driver_version", "loads", "unloads", "launches", "retains", "releases", "allocations", "encodings",
         "grid", "threads", "shared_bytes", "shared_attribute", "module"]


class Record(c.Structure):
    _fields_ = [*((name, c.c_int) for name in names), ("stream", c.c_void_p), ("parameter_bytes", c.c_size_t),
                ("parameters", c.c_int64 * 512)]


driver = Record.from_address(place)
driver.capability, driver.device_count, driver.driver_version, driver.parameter_bytes = 80, 1, 13000, 256
q = Tensor(2, 8, 100, 64, order=(0, 2, 1, 3))  # a transposed view: (batch, length, heads, d) in memory
k, v = Tensor(2, 2, 200, 64), Tensor(2, 2, 200, 64)
o = library.attention(q, k, v, causal=True, align="last", stream=0x77)
assert o.shape == (2, 8, 100, 64) and driver.launches == 1 and driver.stream == 0x77
words = list(driver.parameters[:13])
assert words[0] == q.data_ptr() and words[1:4] == [100 * 8 * 64, 64, 8 * 64], words
for tensor in (k, v, o):
    assert tensor.data_ptr() in words, (tensor.data_ptr(), words)
fails(TypeError, "found torch.float64", library.attention, Tensor(1, 1, 1, 64, dtype="torch.float64"), k, v, stream=0)
fails(ValueError, "shapes that do not fit", library.attention, q, Tensor(2, 2, 200, 32), v, stream=0)
fails(ValueError, "next to one another", library.attention, Tensor(2, 8, 100, 64, order=(0, 1, 3, 2)), k, v, stream=0)
fails(RuntimeError, "q_heads", library.attention, Tensor(2, 7, 100, 64), k, v, stream=0)


# What PyTorch would let through or drop silently is refused.
fails(ValueError, "shapes that do not fit", library.attention, Tensor(1, 8, 100, 64), k, v, stream=0)
fails(ValueError, "shapes that do not fit", library.attention, Tensor(8, 100, 64), k, v, stream=0)
fails(ValueError, "shapes that do not fit", library.attention, q, k, v, out=Tensor(1, 8, 100, 64), stream=0)
for scale in (float("nan"), float("inf"), -1, 0):
    fails(ValueError, "scale is a positive number", library.attention, q, k, v, scale=scale, stream=0)
fails(ValueError, "softcap is a positive number", library.attention, q, k, v, softcap=float("nan"), stream=0)
fails(ValueError, "window is a number", library.attention, q, k, v, window=-3, stream=0)
fails(ValueError, "one GPU", library.attention, q, k, Tensor(2, 2, 200, 64, device=1), stream=0)
on_host = Tensor(2, 2, 200, 64)
on_host.is_cuda = False
fails(ValueError, "one GPU", library.attention, q, on_host, v, stream=0)
for which in range(3):
    given = [Tensor(*tensor.shape) for tensor in (q, k, v)]
    given[which].requires_grad = True
    fails(ValueError, "forward only", library.attention, *given, stream=0)
assert driver.launches == 1

# PyTorch as far as it is asked: a current device with a stream, and whether gradients are wanted.
torch = types.SimpleNamespace(is_grad_enabled=lambda: False, cuda=types.SimpleNamespace(
    current_device=lambda: 0, current_stream=lambda: types.SimpleNamespace(cuda_stream=0x99)))
sys.modules["torch"] = torch
given[0].requires_grad = True
library.attention(*given)
assert driver.launches == 2 and driver.stream == 0x99
torch.cuda.current_device = lambda: 1
fails(ValueError, "not the current device", library.attention, q, k, v)
del sys.modules["torch"]


# Who sees what: sizes of the launches for each alignment, in the order of their start.
def launches(q_len, kv_len, **options):
    """[(offset of Q in rows, q_len, kv_len, whether a causal kernel)] of one call."""
    seen = []
    q, k = Tensor(1, 2, q_len, 64), Tensor(1, 2, kv_len, 64)
    call = library.call

    def spy(function, runtime, attention, stream):
        a = attention._obj
        seen.append(((a.q.address - q.data_ptr()) // 128, (a.o.address - out.data_ptr()) // 128, a.q_len, a.kv_len, a.causal))
        call(function, runtime, attention, stream)
    library.call = spy
    try:
        out = Tensor(1, 2, q_len, 64)
        library.attention(q, k, k, out=out, stream=0, **options)
    finally:
        library.call = call
    return seen


def visible(launched, q_len, kv_len):
    """The mask that these launches apply, as the C library's header says: causal is up to i + kv_len - q_len."""
    mask = np.zeros((q_len, kv_len), bool)
    for start, out_start, rows, keys, causal in launched:
        assert start == out_start
        for i in range(rows):
            mask[start + i, :max(0, min(keys, i + keys - rows + 1)) if causal else keys] = True
    return mask


for q_len, kv_len in ((7, 7), (3, 9), (9, 3), (1, 8), (8, 1)):
    i, j = np.ogrid[:q_len, :kv_len]
    first = visible(launches(q_len, kv_len, causal=True, align="first"), q_len, kv_len)
    last = visible(launches(q_len, kv_len, causal=True, align="last"), q_len, kv_len)
    full = visible(launches(q_len, kv_len), q_len, kv_len)
    assert (first == (j <= i)).all(), (q_len, kv_len, first)
    assert (last == (j <= i + kv_len - q_len)).all(), (q_len, kv_len, last)
    assert full.all()
fails(ValueError, "align='first' lets query i", library.attention, q, k, v, causal=True, stream=0)
fails(ValueError, "align is 'first' or 'last'", library.attention, q, k, v, causal=True, align="top", stream=0)
fails(ValueError, "takes no window", launches, 9, 3, causal=True, align="first", window=2)
launches(7, 7, causal=True)  # where both are the same, nothing need be said
before = driver.launches

sketch = pathlib.Path(examples, "window_sinks.tl").read_text()
kernel = library.kernel(sketch, gpu="a100", name="window_sinks.tl", d=64, dv=64)
assert "kernel window_sinks for a100" in kernel.code
kernel(Q=q, K=k, V=v, O=o, scale=0.125, stream=0x78)
assert driver.launches == before + 1 and driver.stream == 0x78 and driver.parameters[0] == q.data_ptr()
fails(RuntimeError, "'scale'", kernel, Q=q, K=k, V=v, O=o, stream=0)
fails(RuntimeError, "window_sinks.tl:", library.kernel, sketch.replace("K.T", "K"), gpu="a100", name="window_sinks.tl")
q.requires_grad = True
fails(ValueError, "forward only", kernel, Q=q, K=k, V=v, O=o, scale=0.125, stream=0)
q.requires_grad = False
fails(ValueError, "one GPU", kernel, Q=q, K=k, V=Tensor(2, 2, 200, 64, device=1), O=o, scale=0.125, stream=0)
fails(RuntimeError, "not finite", kernel, Q=q, K=k, V=v, O=o, scale=float("nan"), stream=0)
fails(ValueError, "at most 8 axes", kernel, Q=Tensor(*[1] * 9), K=k, V=v, O=o, scale=0.125, stream=0)
assert driver.launches == before + 1

# What the cache keeps of a kernel: whether it was verified. A form that ships was, before it shipped.
with tempfile.TemporaryDirectory() as folder:
    for verify in (True, False):
        caching = torch_tensors.Library(library_path, cache_folder=folder, cuda_library=cuda, nvrtc_library=nvrtc, verify=verify)
        if verify:
            caching.attention(q, k, v, causal=True, align="last", stream=0)
        else:
            caching.kernel(sketch, gpu="a100", name="window_sinks.tl", d=64, dv=64)(Q=q, K=k, V=v, O=o, scale=0.125, stream=0)
    listed = subprocess.run([flashtl, "cache", "--cache", folder], capture_output=True, text=True, check=True).stdout
    words = {(line.split()[1], line.split("old  ")[1]) for line in listed.splitlines() if " old " in line}
    assert words == {("attention", "verified"), ("window_sinks", "not verified")}, listed
print("attention and a kernel of one's own were launched as told")
