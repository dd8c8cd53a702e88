#!/usr/bin/env python3
"""examples/torch_tensors.py on a driver without a GPU: what the launches are given.
torch_tensors.py EXAMPLES LIBRARY FAKE_CUDA FAKE_NVRTC; exit status 77 without NumPy."""
import ctypes as c
import os
import pathlib
import sys
import types

try:
    import numpy as np
except ImportError:
    print("torch_tensors.py: NumPy is not here")
    sys.exit(77)

examples, library_path, cuda, nvrtc = sys.argv[1:]
os.environ["FAKE_CUDA"] = "capability=80 device_count=1 driver_version=13000 parameter_bytes=4096"
sys.path.insert(0, examples)
sys.dont_write_bytecode = True
import torch_tensors  # noqa: E402


class Tensor:
    """What torch_tensors asks of PyTorch's tensors, over NumPy's memory."""

    def __init__(self, *shape, dtype="torch.float16", order=None):
        kind = {"torch.float16": np.float16, "torch.float32": np.float32, "torch.float64": np.float64}[dtype]
        order = order or range(len(shape))
        whole = np.zeros([shape[i] for i in order], kind)
        self.array, self.dtype, self.shape = whole.transpose(np.argsort(list(order))), dtype, shape

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


def parameters(record, count):
    """The first 64-bit words of the last launch's parameters."""
    return list((c.c_int64 * count).from_address(record))


library = torch_tensors.Library(library_path, cuda_library=cuda, nvrtc_library=nvrtc)
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
o = library.attention(q, k, v, causal=True, stream=0x77)
assert o.shape == (2, 8, 100, 64) and driver.launches == 1 and driver.stream == 0x77
words = list(driver.parameters[:13])
assert words[0] == q.data_ptr() and words[1:4] == [100 * 8 * 64, 64, 8 * 64], words
for tensor in (k, v, o):
    assert tensor.data_ptr() in words, (tensor.data_ptr(), words)
fails(TypeError, "found torch.float64", library.attention, Tensor(1, 1, 1, 64, dtype="torch.float64"), k, v, stream=0)
fails(ValueError, "shapes that do not fit", library.attention, q, Tensor(2, 2, 200, 32), v, stream=0)
fails(ValueError, "next to one another", library.attention, Tensor(2, 8, 100, 64, order=(0, 1, 3, 2)), k, v, stream=0)
fails(RuntimeError, "q_heads", library.attention, Tensor(2, 7, 100, 64), k, v, stream=0)

sketch = pathlib.Path(examples, "window_sinks.tl").read_text()
kernel = library.kernel(sketch, gpu="a100", name="window_sinks.tl", d=64, dv=64)
assert "kernel window_sinks for a100" in kernel.code
kernel(Q=q, K=k, V=v, O=o, scale=0.125, stream=0x78)
assert driver.launches == 2 and driver.stream == 0x78 and driver.parameters[0] == q.data_ptr()
fails(RuntimeError, "'scale'", kernel, Q=q, K=k, V=v, O=o, stream=0)
fails(RuntimeError, "window_sinks.tl:", library.kernel, sketch.replace("K.T", "K"), gpu="a100", name="window_sinks.tl")
assert driver.launches == 2
print("attention and a kernel of one's own were launched as told")
