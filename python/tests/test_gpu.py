"""Arrays on a GPU, without one: a driver that records its launches, and of PyTorch as much as the package asks of it."""
import contextlib
import ctypes as c
import itertools
import os
import subprocess
import sys
import threading
import types
import unittest

import numpy as np

import flashtl
import flashtl._again
from flashtl import _c, _library
from helpers import Case, PASSED_SUM, random

DRIVER, NVRTC = os.environ.get("FAKE_CUDA_LIBRARY"), os.environ.get("FAKE_NVRTC_LIBRARY")
if not DRIVER:
    raise unittest.SkipTest("FAKE_CUDA_LIBRARY names no driver")
flashtl.configure(cuda_library=DRIVER, nvrtc_library=NVRTC, cache_folder="", verify=False)


class Record(c.Structure):  # the beginning of fake_record
    _fields_ = [*((name, c.c_int) for name in (
        "init_result", "load_result", "launch_result", "query_result", "allocate_result", "encode_result", "capability", "device_count",
        "driver_version", "loads", "unloads", "launches", "retains", "releases", "allocations", "encodings", "grid", "threads",
        "shared_bytes", "shared_attribute", "module", "needs_context")), ("stream", c.c_void_p), ("parameter_bytes", c.c_size_t),
        ("parameters", c.c_int64 * 512)]


driver = Record.from_address(c.addressof(c.c_char.in_dll(c.CDLL(DRIVER), "fake_cuda")))
driver.capability, driver.device_count, driver.driver_version, driver.parameter_bytes = 80, 2, 13000, 256

# --- PyTorch as far as it is asked ---------------------------------------------------------------------------------------

torch = types.ModuleType("torch")
state = {"device": 0, "streams": {0: 0x99, 1: 0x77}, "grad": True}


class Device(str):
    type = property(lambda self: self.partition(":")[0])
    index = property(lambda self: int(self.partition(":")[2] or 0))


class Tensor:
    """A tensor over NumPy's memory that says it is on a GPU."""

    layout = object()
    __torch_dispatch__ = None
    requires_grad = False

    def __init__(self, array, device="cuda:0"):
        self.array, self.device, self.shape, self.dtype = array, Device(device), array.shape, f"torch.{array.dtype.name}"

    def data_ptr(self):
        return self.array.ctypes.data

    def stride(self):
        return tuple(step // self.array.itemsize for step in self.array.strides)

    def is_neg(self):
        return False

    def __dlpack__(self):
        raise AssertionError("a tensor of PyTorch is looked at, not exported")


@contextlib.contextmanager
def use(device):
    before, state["device"] = state["device"], device
    yield
    state["device"] = before


torch.Tensor, torch.strided, torch.float16, torch.float32, torch.uint8 = (
    Tensor, Tensor.layout, "torch.float16", "torch.float32", "torch.uint8")
torch.autograd = types.SimpleNamespace(forward_ad=types.SimpleNamespace(_current_level=-1))
torch.is_grad_enabled = lambda: state["grad"]
torch.empty = torch.zeros = lambda shape, dtype, device: Tensor(np.zeros(shape, dtype.rpartition(".")[2]), device)
torch.cuda = types.SimpleNamespace(current_device=lambda: state["device"], device=use, current_stream=lambda: types.SimpleNamespace(
    cuda_stream=state["streams"][state["device"]]))
sys.modules["torch"] = torch
flashtl._again.state["is_refused"] = True  # there are no operators; test_torch_again has them, with PyTorch itself


def tensor(*shape, dtype=np.float16, device="cuda:0", order=None):
    order = order or range(len(shape))
    whole = np.zeros([shape[i] for i in order], dtype)
    return Tensor(whole.transpose(np.argsort(list(order))), device)


# --- the tests -----------------------------------------------------------------------------------------------------------

class Attention(Case):
    def test_addresses_and_strides(self):
        q = tensor(2, 8, 100, 64, order=(0, 2, 1, 3))  # (batch, length, heads, d) in memory
        k, v = tensor(2, 2, 200, 64), tensor(2, 2, 200, 64)
        before = driver.launches
        o = flashtl.attention(q, k, v, causal=True, align="last")
        self.assertEqual((o.shape, o.device, driver.launches, driver.stream), ((2, 8, 100, 64), "cuda:0", before + 1, 0x99))
        words = list(driver.parameters[:16])
        self.assertEqual(words[:4], [q.data_ptr(), 100 * 8 * 64, 64, 8 * 64])
        for one in (k, v, o):
            self.assertIn(one.data_ptr(), words)
        o, lse = flashtl.attention(q, k, v, align="last", return_lse=True, alibi=tensor(8, dtype=np.float32))
        self.assertEqual((lse.shape, lse.dtype), ((2, 8, 100), "torch.float32"))

    def test_layouts_launch_alike(self):
        array = np.zeros((2, 100, 8, 64), np.float16)
        one, other = Tensor(array), Tensor(array.transpose(0, 2, 1, 3))
        out = np.zeros_like(array)
        flashtl.attention(one, one, one, out=Tensor(out), layout="blhd")
        words = list(driver.parameters[:20])
        flashtl.attention(other, other, other, out=Tensor(out.transpose(0, 2, 1, 3)))
        self.assertEqual(words, list(driver.parameters[:20]))

    def test_who_sees_what(self):
        """The launches of each alignment, taken together, mask as they should."""
        for (q_len, kv_len), align in itertools.product(((7, 7), (3, 9), (9, 3), (1, 8), (8, 1)), ("first", "last")):
            q, k, out, lse = tensor(1, 2, q_len, 64), tensor(1, 2, kv_len, 64), tensor(1, 2, q_len, 64), None
            seen, forward = np.zeros((q_len, kv_len), bool), _library.lib.ftl_attention_forward

            def spy(context, runtime, attention, stream):
                a = attention._obj
                begin = (a.q.address - q.data_ptr()) // 128
                self.assertEqual(begin, (a.o.address - out.data_ptr()) // 128)
                self.assertEqual(begin, (a.lse.address - min(addresses)) // 4 if addresses.append(a.lse.address) is None else 0)
                for i in range(a.q_len):
                    seen[begin + i, :max(0, min(a.kv_len, i + a.kv_len - a.q_len + 1)) if a.causal else a.kv_len] = True
                return forward(context, runtime, attention, stream)

            addresses = []
            _library.lib.ftl_attention_forward = spy
            try:
                flashtl.attention(q, k, k, out=out, causal=True, align=align, return_lse=True)
            finally:
                _library.lib.ftl_attention_forward = forward
            i, j = np.ogrid[:q_len, :kv_len]
            np.testing.assert_array_equal(seen, j <= i + (kv_len - q_len if align == "last" else 0))

    def test_every_option_reaches_the_library(self):
        given, forward = [], _library.lib.ftl_attention_forward

        def spy(context, runtime, attention, stream):
            given.append(_c.ftl_attention.from_buffer_copy(attention._obj))
            return forward(context, runtime, attention, stream)

        _library.lib.ftl_attention_forward = spy
        try:
            q, k, v, slopes = tensor(1, 4, 9, 64), tensor(1, 2, 9, 64), tensor(1, 2, 9, 32), tensor(4, dtype=np.float32)
            flashtl.attention(q, k, v, causal=True, window=7, softcap=2.5, alibi=slopes, scale=0.3)
            flashtl.attention(q, k, v)
        finally:
            _library.lib.ftl_attention_forward = forward
        a, plain = given
        self.assertEqual((a.batch, a.q_len, a.kv_len, a.q_heads, a.kv_heads, a.head_dim, a.value_dim), (1, 9, 9, 4, 2, 64, 32))
        self.assertEqual((a.causal, a.window, a.softcap, a.alibi_slopes, a.scale, a.dtype), (True, 7, 2.5, slopes.data_ptr(), 0.3, 1))
        self.assertEqual((plain.causal, plain.window, plain.softcap, plain.alibi_slopes, plain.scale, plain.lse.address),
                         (False, 0, 0, 0, 0.125, 0))

    def test_another_device_is_used_for_the_call(self):
        q = tensor(1, 2, 9, 64, device="cuda:1")
        flashtl.attention(q, q, q)
        self.assertEqual((driver.stream, state["device"]), (0x77, 0))

    def test_refused(self):
        q, says, run = tensor(1, 2, 9, 64), self.says, flashtl.attention
        before = driver.launches
        says(ValueError, "'q' is on cuda:0 and 'v' on cuda:1", run, q, q, tensor(1, 2, 9, 64, device="cuda:1"))
        says(ValueError, "'q' is on cuda:0 and 'k' on cpu", run, q, random(1, 2, 9, 64), q)
        says(ValueError, "'q' is on cuda:0 and 'out' on cpu", run, q, q, q, out=np.zeros((1, 2, 9, 64), np.float16))
        says(ValueError, "'q' is on the device 'meta'", run, tensor(1, 2, 9, 64, device="meta"), q, q)
        says(ValueError, "these are on cuda:0", run, q, q, q, on="emulator", gpu="a100")
        says(ValueError, "'k' along d must lie next to one another", run, q, tensor(1, 2, 9, 64, order=(0, 1, 3, 2)), q)
        says(ValueError, "the slopes of 'alibi'", run, q, q, q, alibi=Tensor(np.zeros(4, np.float32)[::2]))
        says(ValueError, "stride", run, q, q, Tensor(np.zeros((1, 2, 9, 65), np.float16)[..., :64]))
        says(ValueError, "share memory", run, q, q, q, out=q)
        sparse = tensor(1, 2, 9, 64)
        sparse.layout = "torch.sparse_coo"
        says(TypeError, "'v' is a sparse tensor", run, q, q, sparse)
        self.assertEqual(driver.launches, before)

    def test_gradients(self):
        for which in range(3):
            given = [tensor(1, 2, 9, 64) for _ in "qkv"]
            given[which].requires_grad = True
            self.says(ValueError, f"'{'qkv'[which]}' requires gradients", flashtl.attention, *given)
            state["grad"] = False
            flashtl.attention(*given)
            state["grad"] = True

    def test_empty(self):
        for batch, q_len, kv_len in ((0, 9, 9), (1, 0, 9), (1, 9, 0)):
            q, k = tensor(batch, 2, q_len, 64), tensor(batch, 2, kv_len, 64)
            self.assertEqual(flashtl.attention(q, k, k).shape, (batch, 2, q_len, 64))


class Programs(Case):
    TEXT = flashtl.sketch("attention", causal=True)

    def test_launch(self):
        program = flashtl.compile(self.TEXT)
        q, k = tensor(1, 4, 20, 64), tensor(1, 2, 30, 64)
        before = driver.launches
        found = program(Q=q, K=k, V=k, scale=1)
        self.assertEqual((found.O.shape, found.O.device, driver.launches, driver.stream), ((1, 4, 20, 64), "cuda:0", before + 1, 0x99))
        self.assertIn(found.O.data_ptr(), list(driver.parameters[:20]))
        loads = driver.loads
        program(Q=q, K=k, V=k, scale=1)
        self.assertEqual(driver.loads, loads)  # made once
        program(Q=tensor(1, 4, 20, 32), K=tensor(1, 2, 30, 32), V=k, scale=1)
        self.assertEqual(driver.loads, loads + 1)  # for each head size

    def test_refused(self):
        program, q = flashtl.compile(self.TEXT), tensor(1, 2, 9, 64)
        says = self.says
        says(ValueError, "'Q' is on cuda:0 and 'K' on cuda:1", program, Q=q, K=tensor(1, 2, 9, 64, device="cuda:1"), V=q, scale=1)
        says(ValueError, "these are on cuda:0", flashtl.compile(self.TEXT, on="interpreter"), Q=q, K=q, V=q, scale=1)
        says(ValueError, "stride", program, Q=q, K=tensor(1, 2, 9, 64, order=(0, 1, 3, 2)), V=q, scale=1)
        says(ValueError, "'O' is written while 'Q' is in use", program, Q=q, K=q, V=q, O=q, scale=1)
        q.requires_grad = True
        says(ValueError, "'Q' requires gradients", program, Q=q, K=q, V=q, scale=1)

    def test_arrays_of_others(self):
        class Foreign:
            """An array on a GPU of which only DLPack's side is known."""

            def __init__(self, array):
                self.array, self.shape = array, array.shape
                self.asked = None

            def __dlpack_device__(self):
                return 2, 1

            def __dlpack__(self, stream=None):
                self.asked = stream
                capsule = self.array.__dlpack__()
                get = c.pythonapi.PyCapsule_GetPointer
                get.restype, get.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
                place = get(capsule, b"dltensor")
                c.c_int32.from_address(place + 8).value, c.c_int32.from_address(place + 12).value = 2, 1
                self.keep = capsule
                return capsule

        program, q, o = flashtl.compile(self.TEXT), Foreign(np.zeros((1, 2, 9, 64), np.float16)), Foreign(np.zeros((1, 2, 9, 64), np.float16))
        self.says(TypeError, "'O' is to be given, too", program, Q=q, K=q, V=q, scale=1)
        before = driver.launches
        program(Q=q, K=q, V=q, O=o, scale=1)
        self.assertEqual((driver.launches, driver.stream, q.asked), (before + 1, None, 1))
        self.assertEqual(driver.parameters[0], q.array.ctypes.data)
        self.says(TypeError, "all arrays are PyTorch's, or none is", program, Q=tensor(1, 2, 9, 64, device="cuda:1"), K=q, V=q, O=o, scale=1)

    def test_sums_that_kernels_pass_on_begin_at_zero(self):
        made_zero, zeros = [], torch.zeros
        torch.zeros = lambda *shape, **named: made_zero.append(zeros(*shape, **named)) or made_zero[-1]
        try:
            flashtl.compile(PASSED_SUM)(X=tensor(9, 64, dtype=np.float32), at=tensor(9, dtype=np.int32), g_len=7)
        finally:
            torch.zeros = zeros
        self.assertEqual(len(made_zero), 1)
        self.assertIn(made_zero[0].data_ptr(), list(driver.parameters[:20]))  # of the second kernel, which reads it

    def test_copies_of_the_cpus_arrays(self):
        """What the fake kernel leaves of them comes back; nothing of the GPU's memory stays."""
        x = random(3, 40)
        program = flashtl.compile(flashtl.sketch("row_softmax"), on="gpu")
        before = driver.allocations
        found = program(X=x[:, ::-1])
        self.assertEqual(found.Y.shape, (3, 40))
        self.assertEqual(driver.allocations, before)
        for result in ("launch_result", "query_result"):  # where it fails, neither
            setattr(driver, result, 700)
            try:
                self.says(flashtl.Error, "illegal memory access", program, X=x)
            finally:
                setattr(driver, result, 0)
            self.assertEqual(driver.allocations, before)

    def test_threads_that_have_just_begun(self):
        """No context of CUDA is current in them: PyTorch's is made so, for whatever is launched first."""
        q, table, lengths = tensor(1, 2, 9, 64), tensor(3, 5, dtype=np.int32), tensor(3, dtype=np.int32)
        one, pages, places = tensor(3, 1, 8, 64), tensor(9, 16, 2, 64), tensor(3, dtype=np.int32)
        keys, program, wrong = tensor(3, 2, 64), flashtl.compile(self.TEXT), []

        def work(call):
            try:
                call()
            except Exception as why:
                wrong.append(why)
        driver.needs_context = 1
        try:
            for call in (lambda: flashtl.attention(q, q, q), lambda: program(Q=q, K=q, V=q, scale=1),
                         lambda: flashtl.decode(one, pages, pages, table, lengths),
                         lambda: flashtl.append(keys, keys, pages, tensor(9, 16, 2, 64), places)):
                thread = threading.Thread(target=work, args=(call,))
                thread.start()
                thread.join()
        finally:
            driver.needs_context = 0
        self.assertEqual(wrong, [])

    def test_a_launch_that_fails(self):
        q = tensor(1, 2, 9, 64)
        driver.launch_result = 700
        try:
            error = self.says(flashtl.Error, "illegal memory access", flashtl.attention, q, q, q)
        finally:
            driver.launch_result = 0
        self.assertEqual(error.status, "KERNEL_FAULT")


    def test_a_driver_that_is_too_old(self):
        """It does not know the kernel's instructions, or has no tensor maps: one sentence, and nothing is kept of the try."""
        q = tensor(1, 2, 9, 40)
        driver.load_result = 222  # CUDA_ERROR_UNSUPPORTED_PTX_VERSION
        try:
            self.says(flashtl.Error, "load kernel 'attention'", flashtl.attention, q, q, q)
        finally:
            driver.load_result = 0
        before = driver.launches
        flashtl.attention(q, q, q)
        self.assertEqual(driver.launches, before + 1)


class Processes(Case):
    def test_no_compiler(self):
        """A GPU, and nothing that makes its kernels: one sentence that says what is missing."""
        text = ("import sys; sys.path.insert(0, '.'); import test_gpu as t\n"
                "q = t.tensor(1, 2, 9, 64)\n"
                "try: t.flashtl.attention(q, q, q)\n"
                "except t.flashtl.Error as why: print(why.status, '|', why)")
        environment = {**os.environ, "PATH": "/nowhere", "FAKE_NVRTC_LIBRARY": "/nowhere/libnvrtc.so"}
        run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=environment)
        self.assertTrue(run.stdout.startswith("NO_COMPILER | "), run.stdout + run.stderr)
        self.assertEqual(len(run.stdout.splitlines()), 1)

    def test_fork_after_use(self):
        text = ("import os, sys; sys.path.insert(0, '.'); import test_gpu as t\n"
                "q = t.tensor(1, 2, 9, 64); t.flashtl.attention(q, q, q)\n"
                "child = os.fork()\n"
                "if child: sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
                "try: t.flashtl.attention(q, q, q)\n"
                "except t.flashtl.Error as why: print(why, flush=True); os._exit(5)\n"
                "os._exit(0)")
        run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual(run.returncode, 5, run.stderr)
        self.assertIn("'spawn'", run.stdout)


class Serving(Case):
    def spied(self, function, run):
        """The structs that a library's function was given."""
        given, real = [], getattr(_library.lib, function)

        def spy(context, runtime, struct, *rest):
            given.append(type(struct._obj).from_buffer_copy(struct._obj))
            return real(context, runtime, struct, *rest)

        setattr(_library.lib, function, spy)
        try:
            return run(), given[-1]
        finally:
            setattr(_library.lib, function, real)

    def test_varlen(self):
        q, k, v = tensor(30, 4, 64), tensor(50, 2, 64), tensor(50, 2, 32)
        starts, others, used = (tensor(n, dtype=np.int32) for n in (4, 4, 3))
        before = driver.launches
        (o, lse), a = self.spied("ftl_attention_varlen", lambda: flashtl.varlen_attention(
            q, k, v, starts, others, q_lens=used, causal=True, window=5, align="first", softcap=2.0, scale=0.5, return_lse=True))
        self.assertEqual((o.shape, lse.shape, driver.launches, driver.stream), ((30, 4, 32), (30, 4), before + 1, 0x99))
        self.assertEqual((a.batch, a.q_tokens, a.kv_tokens, a.max_q_len, a.q_heads, a.kv_heads, a.head_dim, a.value_dim),
                         (3, 30, 50, 30, 4, 2, 64, 32))
        self.assertEqual((a.q_start, a.kv_start, a.q_used, a.kv_used), (starts.data_ptr(), others.data_ptr(), used.data_ptr(), 0))
        self.assertEqual((a.causal, a.is_first, a.window, a.softcap, a.scale), (True, True, 5, 2.0, 0.5))
        for struct, one in ((a.q, q), (a.k, k), (a.v, v), (a.o, o)):
            self.assertEqual((struct.address, struct.length_stride, struct.head_stride), (one.data_ptr(), *one.stride()[:2]))
        self.assertEqual((a.lse.address, a.lse.length_stride, a.lse.head_stride), (lse.data_ptr(), 4, 1))

    def test_pages(self):
        q, k, v, table, lengths = (tensor(3, 2, 8, 64), tensor(9, 16, 2, 64), tensor(9, 16, 2, 64),
                                   Tensor(np.zeros((3, 7), np.int32)[:, :5]), tensor(3, dtype=np.int32))
        o, a = self.spied("ftl_attention_decode", lambda: flashtl.decode(q, k, v, table, lengths))
        self.assertEqual((a.batch, a.q_len, a.q_heads, a.kv_heads, a.kv_lens, a.causal), (3, 2, 8, 2, lengths.data_ptr(), True))
        pages = a.pages
        self.assertEqual((pages.page_len, pages.count, pages.table, pages.columns, pages.stride), (16, 9, table.data_ptr(), 5, 7))
        for struct, one in ((a.q, q), (a.k, k), (a.v, v), (a.o, o)):
            self.assertEqual((struct.address, struct.batch_stride, struct.length_stride, struct.head_stride),
                             (one.data_ptr(), *one.stride()[:3]))
        starts = tensor(4, dtype=np.int32)
        o, a = self.spied("ftl_attention_varlen", lambda: flashtl.varlen_attention(tensor(6, 8, 64), k, v, starts, table=table,
                                                                                    kv_lens=lengths, max_q_len=2))
        self.assertEqual((a.kv_used, a.kv_start, a.max_q_len, a.pages.count, a.k.batch_stride), (lengths.data_ptr(), 0, 2, 9, 2048))

    def test_scoring(self):
        q, k, table, lengths = tensor(3, 2, 8, 64), tensor(9, 16, 2, 64), tensor(3, 5, dtype=np.int32), tensor(3, dtype=np.int32)
        sinks, slopes, bias, padding = (tensor(8, dtype=np.float32), tensor(8, dtype=np.float32),
                                        tensor(3, 1, 2, 80, dtype=np.float32), tensor(3, dtype=np.int32))
        o, a = self.spied("ftl_attention_decode", lambda: flashtl.decode(
            q, k, k, table, lengths, causal=False, sinks=sinks, alibi=slopes, bias=bias, padding=padding, before=7, after=3, chunk=64))
        s = a.scoring
        self.assertEqual((s.sinks, s.alibi_slopes, s.bias, s.padding), tuple(x.data_ptr() for x in (sinks, slopes, bias, padding)))
        self.assertEqual((s.bias_batch_stride, s.bias_head_stride, s.bias_query_stride, s.bias_columns), (160, 0, 80, 80))
        self.assertEqual((s.window_before, s.window_after, s.chunk), (7, 3, 64))
        starts, bias = tensor(4, dtype=np.int32), tensor(8, 6, 80, dtype=np.float32)
        o, a = self.spied("ftl_attention_varlen", lambda: flashtl.varlen_attention(tensor(6, 8, 64), k, k, starts, table=table,
                                                                                    kv_lens=lengths, bias=bias))
        s = a.scoring
        self.assertEqual((s.bias_batch_stride, s.bias_head_stride, s.bias_query_stride, s.bias_columns, s.sinks), (0, 480, 80, 80, 0))
        self.says(ValueError, "of 'sinks' must be contiguous", flashtl.decode, q, k, k, table, lengths,
                  sinks=Tensor(np.zeros(16, np.float32)[::2]))

    def test_append(self):
        q, k, v, pools = tensor(5, 8, 64), tensor(5, 2, 64), tensor(5, 2, 32), (tensor(9, 16, 2, 64), tensor(9, 16, 2, 32))
        slots, places, cosine, sine = (tensor(5, dtype=np.int32), tensor(5, dtype=np.int32), tensor(80, 24, dtype=np.float32),
                                       tensor(80, 24, dtype=np.float32))
        before = driver.launches
        out, a = self.spied("ftl_attention_append", lambda: flashtl.append(k, v, *pools, slots, q=q, cosine=cosine, sine=sine,
                                                                           places=places, interleaved=True))
        self.assertEqual((out.shape, driver.launches, driver.stream), ((5, 8, 64), before + 2, 0x99))
        self.assertEqual((a.tokens, a.q_heads, a.kv_heads, a.head_dim, a.value_dim, a.page_len, a.pages), (5, 8, 2, 64, 32, 16, 9))
        self.assertEqual((a.rotary_dim, a.is_interleaved, a.angle_stride, a.places_count), (48, True, 24, 80))
        self.assertEqual((a.slots, a.places, a.cosine, a.sine), tuple(x.data_ptr() for x in (slots, places, cosine, sine)))
        for struct, one in ((a.q, q), (a.q_rotated, out), (a.k, k), (a.v, v)):
            self.assertEqual((struct.address, struct.length_stride, struct.head_stride), (one.data_ptr(), *one.stride()[:2]))
        for struct, one in zip((a.k_pool, a.v_pool), pools):
            self.assertEqual((struct.address, struct.batch_stride, struct.length_stride, struct.head_stride),
                             (one.data_ptr(), *one.stride()[:3]))
        self.assertIsNone(flashtl.append(k, v, *pools, slots))
        self.says(ValueError, "'slots' must lie next to one another", flashtl.append, k, v, *pools,
                  Tensor(np.zeros(10, np.int32)[::2]))

    def test_latent(self):
        q, cache, table, lengths = tensor(3, 2, 16, 96), tensor(9, 16, 96), tensor(3, 5, dtype=np.int32), tensor(3, dtype=np.int32)
        (o, lse), a = self.spied("ftl_mla_decode", lambda: flashtl.mla_decode(q, cache, table, lengths, scale=0.5, value_dim=64,
                                                                              return_lse=True))
        self.assertEqual((o.shape, lse.shape), ((3, 2, 16, 64), (3, 2, 16)))
        self.assertEqual((a.batch, a.q_len, a.heads, a.head_dim, a.value_dim, a.scale, a.causal), (3, 2, 16, 96, 64, 0.5, True))
        self.assertEqual((a.cache.address, a.cache.batch_stride, a.cache.length_stride), (cache.data_ptr(), 16 * 96, 96))
        self.assertEqual((a.pages.page_len, a.pages.count, a.pages.table, a.kv_lens), (16, 9, table.data_ptr(), lengths.data_ptr()))
        self.assertEqual((a.lse.address, a.lse.batch_stride, a.lse.length_stride, a.lse.head_stride), (lse.data_ptr(), 32, 16, 1))

    def test_refused(self):
        q, k, table, lengths = tensor(3, 1, 8, 64), tensor(9, 16, 2, 64), tensor(3, 5, dtype=np.int32), tensor(3, dtype=np.int32)
        says, run, before = self.says, flashtl.decode, driver.launches
        says(ValueError, "'q' is on cuda:0 and 'table' on cpu", run, q, k, k, table.array, lengths)
        says(ValueError, "'kv_lens' must lie next to one another", run, q, k, k, table, Tensor(np.zeros(6, np.int32)[::2]))
        says(ValueError, "'v' along d must lie next to one another", run, q, k, tensor(9, 16, 2, 64, order=(0, 1, 3, 2)), table, lengths)
        says(ValueError, "these are on cuda:0", run, q, k, k, table, lengths, on="emulator", gpu="a100")
        q.requires_grad = True
        says(ValueError, "'q' requires gradients", run, q, k, k, table, lengths)
        self.assertEqual(driver.launches, before)
