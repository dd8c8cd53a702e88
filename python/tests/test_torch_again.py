"""Calls that an operator in C makes again: PyTorch itself, its tensors of the CPU, and a driver that records its launches."""
import contextlib
import ctypes as c
import gc
import os
import threading
import types
import unittest
import unittest.mock

import numpy as np
import numpy as np
import torch

import flashtl
import flashtl.torch
from flashtl import _again, _arrays, _attention, _library, _program, _serving
from helpers import Case, PASSED_SUM

DRIVER, NVRTC = os.environ.get("FAKE_CUDA_LIBRARY"), os.environ.get("FAKE_NVRTC_LIBRARY")
if not DRIVER:
    raise unittest.SkipTest("FAKE_CUDA_LIBRARY names no driver")
flashtl.configure(cuda_library=DRIVER, nvrtc_library=NVRTC, cache_folder="", verify=False)
LISTS = flashtl.block_mask(lambda b, h, q, kv: q >= kv, None, None, 100, 100, block=32)


class Record(c.Structure):  # the beginning of fake_record
    _fields_ = [*((name, c.c_int) for name in (
        "init_result", "load_result", "launch_result", "query_result", "allocate_result", "encode_result", "capability", "device_count",
        "driver_version", "loads", "unloads", "launches", "retains", "releases", "allocations", "encodings", "grid", "threads",
        "shared_bytes", "shared_attribute", "module", "needs_context")), ("stream", c.c_void_p), ("parameter_bytes", c.c_size_t),
        ("parameters", c.c_int64 * 512)]


driver = Record.from_address(c.addressof(c.c_char.in_dll(c.CDLL(DRIVER), "fake_cuda")))
driver.capability, driver.device_count, driver.driver_version, driver.parameter_bytes = 80, 1, 13000, 400

# Tensors of the CPU take the ways of a GPU's: what a kernel would read is never read.
_again.state["device"] = "cpu"
_attention.CPU = _serving.CPU = _program.CPU = "nothing is on it"
_arrays.Array.ordinal = 0
_program.device_gpu = lambda ordinal: "a100"
torch.cuda.current_device = lambda: 0
torch.cuda.device = lambda ordinal: contextlib.nullcontext()
torch.cuda.current_stream = lambda: types.SimpleNamespace(cuda_stream=None)


def random(*shape, dtype=torch.float16):
    return torch.randn(*shape).to(dtype)


def ints(*values):
    return torch.tensor(values, dtype=torch.int32)


def tables():
    return ints(7, 2, 3, 0, 9, 1).view(2, 3), ints(41, 17)


def qkv():
    return random(2, 8, 100, 64), random(2, 2, 100, 64), random(2, 2, 100, 64)


def pages():
    return random(12, 16, 2, 64), random(12, 16, 2, 64)


SLOPES = torch.rand(8)
PROGRAM = flashtl.compile(flashtl.sketch("attention", causal=True, lse=True), gpu="a100")


def alibi(score, b, h, q, kv):
    return score + SLOPES[h] * (kv - q)


# {name: (what makes fresh tensors, the call)}
CALLS = {
    "attention": (qkv, lambda *x: flashtl.attention(*x, causal=True)),
    "attention with lse": (qkv, lambda *x: flashtl.attention(*x, softcap=3.0, return_lse=True)),
    "attention with slopes": (lambda: (*qkv(), torch.rand(8)), lambda q, k, v, s: flashtl.attention(q, k, v, causal=True, alibi=s)),
    "two launches": (lambda: (random(1, 2, 24, 64), random(1, 2, 8, 64), random(1, 2, 8, 64)),
                     lambda *x: flashtl.attention(*x, causal=True, align="first", return_lse=True)),
    "the operator": (qkv, lambda *x: flashtl.torch.attention(*x, causal=True)),
    "a mask": (lambda: (random(2, 8, 96, 64), random(2, 2, 96, 64), random(2, 2, 96, 64), random(2, 1, 96, 96)),
               lambda q, k, v, mask: flashtl.torch.attention(q, k, v, mask=mask, return_lse=True, gpu="a100")),
    "varlen": (lambda: (random(100, 8, 64), random(100, 2, 64), random(100, 2, 64), ints(0, 30, 100), ints(0, 30, 100)),
               lambda *x: flashtl.varlen_attention(*x, causal=True, return_lse=True)),
    "varlen in pages": (lambda: (random(100, 8, 64), *pages(), ints(0, 30, 100), *tables()),
                        lambda q, k, v, s, t, n: flashtl.varlen_attention(q, k, v, s, table=t, kv_lens=n, causal=True)),
    "decode": (lambda: (random(2, 1, 8, 64), *pages(), *tables()), lambda *x: flashtl.decode(*x, total_keys=58)),
    "decode with sinks and a bias": (
        lambda: (random(2, 1, 8, 64), *pages(), *tables(), torch.rand(8), torch.rand(1, 8, 1, 48)),
        lambda q, k, v, t, n, sinks, bias: flashtl.decode(q, k, v, t, n, sinks=sinks, bias=bias, return_lse=True)),
    "latent": (lambda: (random(2, 1, 16, 576), random(12, 16, 576), *tables()), lambda *x: flashtl.mla_decode(*x, scale=0.07)),
    "a program": (lambda: (random(2, 8, 96, 64), random(2, 8, 96, 64), random(2, 8, 96, 64)),
                  lambda q, k, v: tuple(PROGRAM(Q=q, K=k, V=v, scale=0.125))),
    "a program of two kernels": (lambda: (random(24, 8, dtype=torch.float32), ints(*range(24))),
                                 lambda x, at: tuple(TWO(X=x, at=at, g_len=24))),
    "a program of whole numbers": (lambda: (torch.zeros(24, 64, dtype=torch.int32), ints(*range(24))),
                                   lambda x, at: tuple(MOVED(X=x, at=at))),
    "functions": (lambda: (random(2, 8, 96, 64), random(2, 2, 96, 64), random(2, 2, 96, 64)),
                  lambda *x: flashtl.flex_attention(*x, alibi, lambda b, h, q, kv: q >= kv, gpu="a100")),
    "listed blocks": (qkv, lambda *x: flashtl.flex_attention(*x, alibi, LISTS, gpu="a100")),
}
SCRATCH = {"decode": 2, "decode with sinks and a bias": 2, "latent": 2, "a program of two kernels": 1}  # addresses of the last kernel
WORDS = {"a program of two kernels": 6, "a program of whole numbers": 6}  # of the parameters that are compared; what comes after a kernel's own is nothing
TWO = flashtl.compile(PASSED_SUM, gpu="a100")
MOVED = flashtl.compile("kernel moved\nInput X i32 (m in m_len, x in d)\nInput at i32 (m in m_len)\nOutput Y i32 (m in m_len, x in d)\n"
                        "Copy X from global to register and get A\nCopy A from register to global and get Y\n", gpu="a100")


@contextlib.contextmanager
def by_python():
    """As if PyTorch had nothing that C needs."""
    with unittest.mock.patch.dict(_again.state, is_refused=True), unittest.mock.patch.object(_again, "again", _again.unknown):
        yield


class Launches:
    """What is launched: the parameters of each launch, without what lies at the call's own tensors, which have their names there."""

    def __init__(self, call, tensors, words=15):
        before = driver.launches
        self.results = call(*tensors)
        self.count = driver.launches - before
        self.results = self.results if isinstance(self.results, tuple) else (self.results,)
        self.words = [self.named(word, (*tensors, *self.results)) for word in driver.parameters[:words]]
        self.shapes = [(tensor.shape, tensor.stride(), tensor.dtype) for tensor in self.results]


    @staticmethod
    def named(word, tensors):
        """Addresses as places in the call's tensors."""
        for i, tensor in enumerate(tensors):
            if 0 <= word - tensor.data_ptr() < tensor.untyped_storage().nbytes():
                return f"tensor {i}, byte {word - tensor.data_ptr()}"
        return word


def count_misses():
    """How often Python makes a call whole, from now on."""
    made = []
    original = _again.learning

    def learning(options, tensors):
        made.append(options)
        return original(options, tensors)
    return made, unittest.mock.patch.object(_again, "learning", learning)


def numbers_of(words):
    """Of 32 bits."""
    return [half for word in words[:32] for half in (word & 0xffffffff, word >> 32 & 0xffffffff)]


class Calls(Case):
    def test_again(self):
        """The second call is the operator's, on fresh tensors, and launches what Python would have launched."""
        for name, (make, call) in CALLS.items():
            with self.subTest(call=name):
                first = make()
                call(*first)
                gc.collect()  # what the call was described with is gone
                given = make()
                misses, counted = count_misses()
                with counted:
                    again = Launches(call, given, WORDS.get(name, 15))
                self.assertEqual(misses, [])
                with by_python():
                    wanted = Launches(call, given, WORDS.get(name, 15))
                self.assertEqual((again.count, again.shapes), (wanted.count, wanted.shapes))
                differs = [(a, w) for a, w in zip(again.words, wanted.words) if a != w]
                is_scratch = all(type(word) is int and word > 1 << 40 for pair in differs for word in pair)  # wherever PyTorch has room
                self.assertTrue(is_scratch and len(differs) <= SCRATCH.get(name, 0), differs)

    def test_others_are_made_whole(self):
        """Another shape, stride, type or option is another call."""
        q, k, v = qkv()
        flashtl.attention(q, k, v, causal=True)
        for tensors, options in (((q[:1], k[:1], v[:1]), {}), ((q.transpose(1, 2).contiguous().transpose(1, 2), k, v), {}),
                                 ((q.bfloat16(), k.bfloat16(), v.bfloat16()), {}), ((q, k, v), {"window": 5}), ((q, k, v), {"scale": 0.5})):
            misses, counted = count_misses()
            with counted:
                flashtl.attention(*tensors, causal=True, **options)
            self.assertEqual(len(misses), 1)

    def test_total_keys(self):
        """A number of each call: the kernel splits accordingly, and the workspace is as large as that needs."""
        make, _ = CALLS["decode"]
        tensors = make()
        flashtl.decode(*tensors, total_keys=58)
        found = {}
        for total in (None, 58, 10 ** 6):
            misses, counted = count_misses()
            with counted:
                again = Launches(lambda *x: flashtl.decode(*x, total_keys=total), tensors)
            self.assertEqual(misses, [])
            with by_python():
                wanted = Launches(lambda *x: flashtl.decode(*x, total_keys=total), tensors)
            self.assertEqual(again.count, wanted.count)
            found[total] = again.count
        for wrong in (-1, True, 1.5, 1 << 70):
            self.says(ValueError, "total_keys is a whole number from 0 on", flashtl.decode, *tensors, total_keys=wrong)

    def test_aliases_are_not_mixed_up(self):
        """Where two arguments were one tensor, an address may be of either: the next ones have to be one tensor, too."""
        q, k, v = qkv()
        for first, second in (((q, k, k), (q, k, v)), ((q, k, v), (q, k, k))):
            for tensors in (first, first, second, second, first):
                flashtl.attention(*tensors, softcap=7.0)
                words = list(driver.parameters[:15])
                self.assertEqual([words.count(one.data_ptr()) for one in tensors],
                                 [sum(one is other for other in tensors) for one in tensors])
        misses, counted = count_misses()
        with counted:
            flashtl.attention(*first, softcap=7.0)
        self.assertEqual(misses, [])

    def test_numbers_in_tensors(self):
        """The next time it holds another number."""
        q, k, v = (random(2, 8, 96, 64) for _ in "qkv")
        scale = torch.tensor(0.5)
        PROGRAM(Q=q, K=k, V=v, scale=scale)
        half, quarter = (int.from_bytes(np.float32(value).tobytes(), "little") for value in (0.5, 0.25))
        self.assertIn(half, numbers_of(driver.parameters))
        scale.fill_(0.25)
        PROGRAM(Q=q, K=k, V=v, scale=scale)
        self.assertIn(quarter, numbers_of(driver.parameters))

    def test_what_is_wrong_is_said(self):
        q, k, v = qkv()
        flashtl.attention(q, k, v, causal=True)
        q.requires_grad = True
        self.says(ValueError, "'q' requires gradients", flashtl.attention, q, k, v, causal=True)
        with torch.no_grad():
            flashtl.attention(q, k, v, causal=True)
        q = q.detach()
        self.says(ValueError, "window is a whole number", flashtl.attention, q, k, v, causal=True, window=[3])
        driver.launch_result = 700
        try:
            self.says(flashtl.Error, "illegal memory access", flashtl.attention, q, k, v, causal=True)
        finally:
            driver.launch_result = 0
        flat = torch.empty(q.numel() + 1, dtype=q.dtype)[1:].view(q.shape)
        self.says(ValueError, "16", flashtl.attention, flat, k, v, causal=True)
        with self.assertRaises((TypeError, RuntimeError)):
            torch.vmap(lambda q: flashtl.attention(q, k, v, causal=True))(q[None])

    def test_gradients(self):
        """What requires them has them, also where a call like it was learned."""
        q, k, v = qkv()
        flashtl.torch.attention(q, k, v)
        q.requires_grad = True
        self.assertTrue(flashtl.torch.attention(q, k, v).requires_grad)
        with torch.no_grad():
            self.assertFalse(flashtl.torch.attention(q, k, v).requires_grad)

    def test_gradients_again(self):
        """Forward and backward pass are made again, each as Python would have made it; the thread of gradients has no context at first."""
        slopes = torch.rand(8)

        def step(tensors, needed, **options):
            leaves = [tensor.detach().requires_grad_(i in needed) for i, tensor in enumerate(tensors)]
            o, lse = flashtl.torch.attention(*leaves, return_lse=True, gpu="a100", **options)
            parts = [o, lse] if options.get("alibi") is None else [o]
            found = torch.autograd.grad(parts, [leaves[i] for i in needed], [torch.ones_like(part) for part in parts])
            return o.detach(), lse.detach(), *found
        driver.needs_context = 1
        try:
            for needed, options in (((0, 1, 2), {"causal": True}), ((1,), {"window": 9, "align": "last"}), ((0, 2), {"alibi": slopes})):
                with self.subTest(needed=needed, options=options):
                    tensors = qkv()
                    step(tensors, needed, **options)
                    misses, counted = count_misses()
                    with counted:
                        again = Launches(lambda *x: step(x, needed, **options), qkv())
                    self.assertEqual(misses, [])
                    with by_python():
                        wanted = Launches(lambda *x: step(x, needed, **options), qkv())
                    self.assertEqual((again.count, again.shapes), (wanted.count, wanted.shapes))
        finally:
            driver.needs_context = 0

    def test_gradients_of_gradients(self):
        """They are refused, as ever: a product with them, too."""
        q, k, v = (tensor.requires_grad_() for tensor in qkv())
        for _ in range(3):
            o = flashtl.torch.attention(q, k, v, gpu="a100")
            found, = torch.autograd.grad(o, q, torch.ones_like(o).requires_grad_(), create_graph=True)
            self.says(RuntimeError, "no gradients themselves", found.sum().backward)
            torch.autograd.grad(flashtl.torch.attention(q, k, v, gpu="a100"), q, torch.ones_like(o))

    def test_what_memory_does_not_show(self):
        """Of what PyTorch keeps beside the memory, and of tensors that are not plain ones, C knows nothing: Python refuses or asks PyTorch."""
        q, k, v = (random(1, 2, 32, 64, dtype=torch.float32).half() for _ in "qkv")
        flashtl.attention(q, k, v)
        hidden = torch.view_as_complex(random(1, 2, 32, 64, 2).contiguous()).conj().imag
        self.assertTrue(hidden.is_neg())
        program = flashtl.compile("kernel double\nInput X f32 (m in m_len, x in d)\nOutput Y f32 (m in m_len, x in d)\n"
                                  "Copy X from global to register and get A\nCompute Multiply A, 2 and get A\n"
                                  "Copy A from register to global and get Y\n", gpu="a100")

        class Own(torch.Tensor):
            pass
        negative = torch.view_as_complex(random(64, 128, 2, dtype=torch.float32)).conj().imag
        plain = torch.empty_strided(negative.shape, negative.stride())
        for _ in range(2):
            program(X=random(64, 128, dtype=torch.float32), Y=random(64, 128, dtype=torch.float32))
        self.says(TypeError, "sign a kernel would not see", program, X=negative, Y=plain)
        misses, counted = count_misses()
        with counted:
            flashtl.attention(q.as_subclass(Own), k, v)
        self.assertEqual(len(misses), 1)
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(q, torch.ones_like(q))
            self.says(ValueError, "carries a tangent", flashtl.attention, dual, k, v)
        sparse = q.to_sparse()
        self.says(TypeError, "sparse", flashtl.attention, sparse, k, v)
        with torch._subclasses.FakeTensorMode() as mode:
            self.says(TypeError, "no memory of its own", flashtl.attention, *(mode.from_tensor(x) for x in (q, k, v)))

    def test_an_operator_where_there_is_no_function(self):
        """With PyTorch before 2.10, say."""
        q, k, v = qkv()
        with unittest.mock.patch.object(_again, "function_of", lambda torch: None), \
                unittest.mock.patch.object(_again, "again", _again.unknown):
            for options in ({"causal": True}, {"softcap": 3.5, "return_lse": True}):
                flashtl.attention(q, k, v, **options)
                self.assertIs(_again.again, _again.again_by_operator)
                misses, counted = count_misses()
                with counted:
                    again = Launches(lambda *x: flashtl.attention(*x, **options), qkv())
                self.assertEqual(misses, [])
                with by_python():
                    wanted = Launches(lambda *x: flashtl.attention(*x, **options), qkv())
                self.assertEqual((again.count, again.shapes), (wanted.count, wanted.shapes))

    def test_more_calls_than_are_kept(self):
        k, v = random(1, 1, 8, 16), random(1, 1, 8, 16)
        for length in range(1, 1100):
            q = random(1, 1, length, 16)
            flashtl.attention(q, k, v, softcap=2.0)
        flashtl.attention(q, k, v, softcap=2.0)
        self.assertIn(q.data_ptr(), list(driver.parameters[:40]))

    def test_threads(self):
        """Calls of several threads, while others are learned and forgotten."""
        make, call = CALLS["attention"]
        wrong = []

        def work(seed):
            tensors = [make() for _ in range(4)]
            try:
                for i in range(60):
                    q, k, v = tensors[i % 4]
                    if (i + seed) % 7 == 0:
                        _library.lib.flashtl_again_forget()
                    if call(q[:, :, :50 + i % 3], k[:, :, :50 + i % 3], v[:, :, :50 + i % 3]).shape != (2, 8, 50 + i % 3, 64):
                        wrong.append(i)
            except Exception as why:
                wrong.append(why)
        running = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for one in running:
            one.start()
        for one in running:
            one.join()
        self.assertEqual(wrong, [])

    def test_fork(self):
        """A child has none of it: it is told what a process that was forked is told."""
        q, k, v = qkv()
        flashtl.attention(q, k, v, causal=True)
        child = os.fork()
        if not child:
            try:
                flashtl.attention(q, k, v, causal=True)
            except flashtl.Error as why:
                os._exit(0 if "forked" in str(why) else 1)
            except BaseException:
                os._exit(2)
            os._exit(3)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

    def test_old_versions(self):
        """PyTorch without one of the functions: Python makes all calls."""
        with by_python():
            o = flashtl.attention(*qkv(), causal=True)
        self.assertEqual(o.shape, (2, 8, 100, 64))
        none = (c.c_void_p * 1)(c.CDLL(None)._handle)
        lacking = flashtl._library.lib.flashtl_again_register
        self.assertFalse(lacking((c.c_void_p * 0)(), 0, b"CPU"), none)


if __name__ == "__main__":
    unittest.main()
