"""PyTorch's own tensors on the CPU, against its own attention."""
import itertools
import subprocess
import sys

import torch

import flashtl
from helpers import Case

F = torch.nn.functional


def tensors(*shapes, dtype=torch.float16, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


def reference(q, k, v, **options):
    return F.scaled_dot_product_attention(q.double(), k.double(), v.double(), enable_gqa=True, **options)


class Torch(Case):
    def near(self, found, wanted, bound):
        self.assertEqual(found.shape, wanted.shape)
        self.assertTrue(torch.allclose(found.double(), wanted, rtol=bound, atol=bound), (found.double() - wanted).abs().max())

    def test_attention(self):
        for dtype, causal, (q_len, kv_len) in itertools.product((torch.float16, torch.bfloat16), (False, True), ((9, 9), (5, 12), (12, 5))):
            q, k, v = tensors((2, 4, q_len, 16), (2, 2, kv_len, 16), (2, 2, kv_len, 24), dtype=dtype)
            o, lse = flashtl.attention(q, k, v, causal=causal, align="first", return_lse=True)
            self.assertEqual((o.dtype, o.device.type, lse.dtype), (dtype, "cpu", torch.float32))
            self.near(o, reference(q, k, v, is_causal=causal), torch.finfo(dtype).eps)
            turned = [x.transpose(1, 2).contiguous() for x in (q, k, v)]
            self.assertTrue(torch.equal(flashtl.attention(*turned, causal=causal, align="first", layout="blhd"), o.transpose(1, 2)))

    def test_emulator(self):
        q, k, v = tensors((1, 4, 70, 64), (1, 2, 70, 64), (1, 2, 70, 64), dtype=torch.bfloat16)
        o = flashtl.attention(q, k, v, causal=True, on="emulator", gpu="a100")
        self.near(o, reference(q, k, v, is_causal=True), 0.02)

    def test_programs(self):
        q, k, v = tensors((1, 4, 20, 64), (1, 2, 30, 64), (1, 2, 30, 64), dtype=torch.bfloat16)
        program = flashtl.compile(flashtl.sketch("attention", lse=True))
        o, lse = program(Q=q, K=k, V=v, scale=torch.tensor(0.125))
        self.near(o, reference(q, k, v), 0.01)
        out = torch.zeros(1, 4, 20, 64, dtype=torch.bfloat16)
        self.assertIs(program(Q=q, K=k, V=v, O=out, scale=0.125).O, out)
        self.assertTrue(torch.equal(out, o))
        mixed = program(Q=q, K=k, V=v, O=out, lse=lse.numpy(), scale=0.125)
        self.assertTrue(torch.equal(torch.from_numpy(mixed.lse), lse))
        eight = flashtl.compile(flashtl.sketch("attention"), types={"K": "e4m3", "V": "e5m2"}, dtype="f16")
        q, k, v = q.half(), k.to(torch.float8_e4m3fn), v.to(torch.float8_e5m2)
        self.near(eight(Q=q, K=k, V=v, scale=0.125).O, reference(q.float(), k.float(), v.float()), 0.002)

    def test_gradients(self):
        for which in range(3):
            given = tensors(*[(1, 2, 9, 16)] * 3)
            given[which].requires_grad_()
            self.says(ValueError, f"'{'qkv'[which]}' requires gradients", flashtl.attention, *given)
            with torch.no_grad():
                flashtl.attention(*given)
            with torch.inference_mode():
                flashtl.attention(*given)
            program = flashtl.compile(flashtl.sketch("attention"))
            self.says(ValueError, "requires gradients", program, **dict(zip("QKV", given)), scale=1)
        q, = tensors((1, 2, 9, 16))
        scale = torch.ones((), requires_grad=True)
        self.says(ValueError, "'scale' requires gradients", program, Q=q, K=q, V=q, scale=scale)

        class Doubled(torch.autograd.Function):
            @staticmethod
            def forward(context, x):
                return flashtl.attention(x, x, x)

            @staticmethod
            def backward(context, gradient):
                return 2 * gradient
        x = q.clone().requires_grad_()
        Doubled.apply(x).sum().backward()
        self.assertTrue((x.grad == 2).all())

    def test_tangents(self):
        q, = tensors((1, 2, 9, 16))
        forward_ad = torch.autograd.forward_ad
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(q, torch.ones_like(q))
            for run in (flashtl.attention, lambda q, k, v: flashtl.compile(flashtl.sketch("attention"))(Q=q, K=k, V=v, scale=1)):
                self.says(ValueError, "carries a tangent", run, q, dual, q)
                with torch.no_grad():
                    self.says(ValueError, "carries a tangent", run, q, q, dual)
            flashtl.attention(q, q, q)

    def test_transforms(self):
        """Tensors without memory are refused by one sentence, whatever made them; nothing is dropped without a word."""
        q, = tensors((1, 2, 9, 16))

        def run(x):
            return flashtl.attention(x, x, x)

        def fake(run, x):
            with torch._subclasses.FakeTensorMode() as mode:
                return run(mode.from_tensor(x))

        func = torch.func
        for transformed in (lambda: torch.vmap(run)(q[None]), lambda: func.grad(lambda x: run(x).float().sum())(q),
                            lambda: func.jvp(run, (q,), (q,)), lambda: func.functionalize(run)(q), lambda: fake(run, q)):
            self.says(TypeError, "'q' has no memory of its own", transformed)
        self.assertTrue(torch.equal(run(torch.nn.Parameter(q, requires_grad=False)), run(q)))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.assertEqual(run(q).dtype, torch.float16)

    def test_the_end_of_a_process(self):
        text = "import torch, flashtl; q = torch.ones(1, 1, 9, 16, dtype=torch.float16)\nkept = flashtl.attention(q, q, q)\nkeep = flashtl"
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_refused(self):
        q, says, run = tensors((1, 2, 9, 16))[0], self.says, flashtl.attention
        says(ValueError, "'q' is on the device 'meta'", run, q.to("meta"), q, q)
        says(TypeError, "'k' has the type float64", run, q, q.double(), q)
        says(TypeError, "'k' has the type int64", run, q, q.long(), q)
        says(TypeError, "'k' is bf16", run, q, q.bfloat16(), q)
        says(TypeError, "'v' is a sparse tensor", run, q, q, q.to_sparse())
        says(ValueError, "share memory", run, q, q, q, out=q)
        says(ValueError, "one place in memory", run, q, q, q, out=torch.zeros(1, dtype=q.dtype).expand(q.shape))
        turned = torch.zeros(1, 2, 9, 16, dtype=torch.complex64).conj().imag
        says(TypeError, "a view whose sign", flashtl.compile(flashtl.sketch("row_softmax"), dtype="f32"), X=turned[0, 0])
        with torch.device("meta"):
            says(ValueError, "'meta'", run, torch.empty(1, 2, 9, 16, dtype=torch.float16), q, q)
