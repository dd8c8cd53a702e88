#!/usr/bin/env python3
"""The counts of bench/sparse.py, and that its launches fit their kernels: over a driver that runs nothing, with tensors that have no memory."""
import ctypes
import json
import pathlib
import subprocess
import sys
import types
import unittest

BENCH = pathlib.Path(sys.argv.pop(1))
LIBRARIES = [sys.argv.pop(1) for _ in sys.argv[1:4]]  # FlashTL's, and a driver and a compiler that run nothing; or none
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "uint8": 1}
torch = sys.modules["torch"] = types.ModuleType("torch")
for dtype in BYTES:
    setattr(torch, dtype, dtype)


class Tensor:
    """As much of a tensor as a launch needs."""
    last = 1 << 20

    def __init__(self, shape, dtype, strides=None, address=None):
        self.shape, self.dtype = tuple(shape), dtype
        if strides is None:
            strides = [1]
            for extent in self.shape[:0:-1]:
                strides.insert(0, strides[0] * extent)
        self.strides, self.address = strides, address
        if address is None:
            self.address, Tensor.last = Tensor.last, Tensor.last + (self.numel() * BYTES[dtype] + 255) // 256 * 256

    def numel(self):
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    def dim(self):
        return len(self.shape)

    def data_ptr(self):
        return self.address

    def stride(self, axis=None):
        return self.strides if axis is None else self.strides[axis]

    def __getitem__(self, cuts):
        shape = (extent if cut.stop is None else cut.stop for extent, cut in zip(self.shape, cuts))
        return Tensor(shape, self.dtype, self.strides, self.address)


torch.zeros = torch.empty = lambda shape, device, dtype: Tensor(shape if isinstance(shape, tuple) else (shape,), dtype)
torch.cuda = types.SimpleNamespace(current_stream=lambda: types.SimpleNamespace(cuda_stream=0))
import calls  # noqa: E402
import ours  # noqa: E402
import sparse  # noqa: E402


class Library(ours.Library):
    """Over the driver that runs nothing, on what it says is an A100."""

    def __init__(self):
        self.c, self.driver = ctypes.CDLL(LIBRARIES[0]), ctypes.CDLL(LIBRARIES[1])
        record = (ctypes.c_int * 21).in_dll(self.driver, "fake_cuda")  # the beginning of fake_record
        record[6], record[7], record[8] = 80, 1, 13000  # capability, devices, version
        ctypes.c_size_t.from_address(ctypes.addressof(record) + 96).value = 256  # parameter_bytes
        self.record = record
        self.c.ftl_context_error.restype = self.c.ftl_context_diagnostics.restype = ctypes.c_char_p
        self.context, self.runtime = ctypes.c_void_p(), ctypes.c_void_p()
        self.must(self.c.ftl_context_new(ctypes.byref(self.context)))
        kind = calls.structs().ftl_runtime_options
        options = kind(ctypes.sizeof(kind), LIBRARIES[1].encode(), LIBRARIES[2].encode(), b"", True)
        self.must(self.c.ftl_runtime_open(self.context, ctypes.byref(options), ctypes.byref(self.runtime)))

    def gpu_here(self):
        return "a100"


@unittest.skipUnless(any(LIBRARIES), "there is no library to call")
class Launches(unittest.TestCase):
    def test_every_step(self):
        library = Library()
        for length in (333, 64):
            a = types.SimpleNamespace(batch=2, heads="32:2", dim=64, top=8, window=64)
            given = {name: Tensor((2, heads, length, 64), "float16") for name, heads in (("Q", 32), ("K", 2), ("V", 2))}
            given.update({name: Tensor((2, 32, length), "float32") for name in sparse.GATES})
            p = sparse.Problem(torch, library, calls.structs(), a, length, given)
            before = library.record[11]
            p.make()
            self.assertEqual(len(p.steps), 8 + 2 * len(sparse.QUADS) + 1 + len(sparse.QUADS))
            self.assertEqual(library.record[11] - before, 8 + 2 * len(sparse.QUADS) + 8 + 9 * len(sparse.QUADS))


class Counts(unittest.TestCase):
    def test_plan(self):
        done = subprocess.run([sys.executable, str(BENCH / "sparse.py"), "--plan"], capture_output=True, text=True)
        plans = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([(one["length"], one["quad"]) for one in plans], [(n, quad) for n in (4096, 16384) for quad in (1, 4, 8)])
        self.assertEqual(plans[0]["gb"], 4 * 4 * 4096 * 16 * 64 * 2 * 128 * 2 / 1e9)  # 512 KiB a query and key head
        self.assertEqual(plans[1]["tflop"], 4 * 4 * 1024 * 64 * 22 * 64 * 2 * 2 * 128 / 1e12)
        self.assertGreater(plans[0]["predicted_ms"], 2 * plans[1]["predicted_ms"])

    def test_few_rows(self):
        """A warp multiplies 16 rows, whether there are as many or not."""
        one, two = (sparse.counts(1, heads, 1, 64, 64, 8, 1, 8)["tflop"] for heads in (4, 16))
        self.assertEqual(one, two)


if __name__ == "__main__":
    unittest.main()
