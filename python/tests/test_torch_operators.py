"""flashtl.torch: gradients against float64 autograd, what PyTorch asks of operators, torch.compile, autocast, and what is refused."""
import itertools
import unittest
import warnings

import torch

import flashtl
import flashtl.torch
from flashtl.torch._derived import gradient_text
from helpers import Case

attention = flashtl.torch.attention
SLOPES = torch.tensor([0.5, 0.25, 0.125, 1])
FEW = 2e-6  # of float32, which the interpreter computes in fp64 and rounds once


def leaves(q_len=9, kv_len=12, heads=4, kv_heads=2, d=16, dv=24, batch=2, dtype=torch.float32, seed=1):
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, heads, q_len, d), (batch, kv_heads, kv_len, d), (batch, kv_heads, kv_len, dv)
    return [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]


def like(tensor, seed=7):
    return torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed)).to(tensor.dtype)


def reference(q, k, v, causal=False, window=None, softcap=None, alibi=None, scale=None, align="last", mask=None):
    """Attention in float64 by PyTorch's own operations; rows that see nothing are 0."""
    k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    score = q @ k.transpose(2, 3) * (scale or q.shape[3] ** -0.5)
    if softcap:
        score = softcap * torch.tanh(score / softcap)
    place = torch.arange(q.shape[2])[:, None] + (k.shape[2] - q.shape[2] if align == "last" else 0)
    distance = place - torch.arange(k.shape[2])
    if alibi is not None:
        score = score - alibi[:, None, None].double() * (distance if causal else distance.abs())
    if mask is not None:
        score = torch.where(mask, score, -torch.inf) if mask.dtype == torch.bool else score + mask
    seen = torch.ones(distance.shape, dtype=torch.bool)
    if causal:
        seen &= distance >= 0
    if window:
        seen &= distance.abs() < window
    most = score.amax(-1, keepdim=True)
    weight = torch.exp(score - most.masked_fill(most == -torch.inf, 0)) * seen
    return weight / weight.sum(-1, keepdim=True).clamp_min(1e-300) @ v


class Gradients(Case):
    def near(self, found, wanted, bound, what=""):
        self.assertEqual(found.shape, wanted.shape, what)
        found, wanted = found.detach().double(), wanted.detach().double()
        if wanted.numel():
            self.assertLessEqual(float((found - wanted).abs().max()), bound * max(1, float(wanted.abs().max())), what)

    def agrees(self, given, bound=FEW, run=attention, on=None, gpu=None, **options):
        """Results and all gradients are those of float64, with another dO than a sum's."""
        doubled = [x.detach().double().requires_grad_() for x in given]
        wanted = reference(*doubled, **options)
        found = run(*given, on=on, gpu=gpu, **options)
        self.near(found, wanted, bound, "o")
        do = like(found)
        wanted.backward(do.double())
        for name, x, one, double in zip("qkv", given, torch.autograd.grad(found, given, do), doubled):
            self.assertEqual(one.dtype, x.dtype)
            self.near(one, double.grad, bound, f"d{name} of {options}")

    def test_options(self):
        for causal, window, softcap, alibi in itertools.product((False, True), (None, 4), (None, 2.5), (None, SLOPES)):
            self.agrees(leaves(), causal=causal, window=window, softcap=softcap, alibi=alibi, align="last")
        self.agrees(leaves(), scale=0.3)

    def test_slopes(self):
        """Of learned slopes, too: beside the others and alone, in each layout, with a mask, and where queries are fewer than keys."""
        for causal, softcap, layout, has_mask in itertools.product((False, True), (None, 2.5), ("bhld", "blhd"), (False, True)):
            given, slopes, doubled_slopes = leaves(), SLOPES.clone().requires_grad_(), SLOPES.double().requires_grad_()
            doubled = [x.detach().double().requires_grad_() for x in given]
            mask = torch.randn(12, generator=torch.Generator().manual_seed(3)) if has_mask else None
            options = {"causal": causal, "softcap": softcap, "mask": mask}
            wanted = reference(*doubled, alibi=doubled_slopes, **options)
            as_laid = given if layout == "bhld" else [x.transpose(1, 2) for x in given]
            found = attention(*as_laid, alibi=slopes, layout=layout, align="last", **options)
            found = found if layout == "bhld" else found.transpose(1, 2)
            do = like(wanted).float()
            wanted.backward(do.double())
            alone, = torch.autograd.grad(found, [slopes], do, retain_graph=True)
            for one, double in zip(torch.autograd.grad(found, [*given, slopes], do), (*doubled, doubled_slopes)):
                self.near(one, double.grad, FEW, f"{options}, {layout}")
            self.near(alone, doubled_slopes.grad, FEW)

    def test_lengths_and_heads(self):
        for (q_len, kv_len), align in itertools.product(((7, 7), (3, 9), (9, 3), (1, 8), (8, 1)), ("first", "last")):
            self.agrees(leaves(q_len, kv_len), causal=True, align=align)
        for heads, kv_heads, d, dv in ((4, 4, 8, 24), (4, 1, 24, 8), (1, 1, 64, 128)):
            self.agrees(leaves(heads=heads, kv_heads=kv_heads, d=d, dv=dv, kv_len=9), causal=True)
        self.agrees(leaves(3, 9), causal=True, window=2, align="first")
        for empty in ({"batch": 0}, {"q_len": 0}, {"kv_len": 0}):
            q, k, v = leaves(**empty)
            o = attention(q, k, v)
            o.sum().backward()
            self.assertEqual(o.abs().sum(), 0)
            for x in (q, k, v):
                self.assertTrue(torch.equal(x.grad, torch.zeros_like(x)))

    def test_types_and_emulator(self):
        for dtype in (torch.float16, torch.bfloat16):
            bound = 4 * torch.finfo(dtype).eps
            self.agrees(leaves(dtype=dtype), bound, causal=True, align="last")
        for gpu, dtype, options in (("t4", torch.float16, {"softcap": 3.0}), ("a100", torch.float16, {"causal": True, "align": "last"}),
                                    ("h200", torch.bfloat16, {"window": 9, "alibi": SLOPES[:2], "align": "last"})):
            given = leaves(20, 33, d=64, dv=64, batch=1, heads=2, kv_heads=1 + (gpu == "t4"), dtype=dtype)
            self.agrees(given, 16 * torch.finfo(dtype).eps, on="emulator", gpu=gpu, **options)

    def test_masks(self):
        """Beside every other option, in either layout, through lse, and of the types and the kernels of GPUs."""
        bias = torch.randn((1, 4, 9, 12), generator=torch.Generator().manual_seed(4))
        shown = bias[:, :1] > -0.5
        shown[:, :, 4] = False
        for options in ({}, {"causal": True}, {"window": 4}, {"causal": True, "window": 4, "softcap": 2.5, "alibi": SLOPES}):
            for mask in (shown, bias, torch.where(shown, bias, -torch.inf)):
                self.agrees(leaves(), align="last", mask=mask, **options)
        for (q_len, kv_len), mask in itertools.product(((3, 9), (9, 3)), (shown, bias[..., :1])):
            keys = mask if mask.shape[3] == 1 else mask[..., :kv_len]
            self.agrees(leaves(q_len, kv_len), causal=True, align="first", mask=keys[:, :, :q_len])
        for gpu, dtype in (("t4", torch.float16), ("a100", torch.bfloat16), ("h200", torch.float16)):
            given = leaves(9, 12, d=64, dv=64, batch=1, dtype=dtype)
            self.agrees(given, 16 * torch.finfo(dtype).eps, on="emulator", gpu=gpu, causal=True, align="last", mask=bias.to(dtype))

    def test_gradients_of_masks(self):
        """Of a bias that is one for all of a batch, heads or rows, with q, k and v or alone, through o and lse."""
        shapes = (2, 4, 9, 12), (1, 4, 9, 12), (2, 1, 1, 12), (9, 1), (12,)
        for shape, layout, others in itertools.product(shapes, ("bhld", "blhd"), (True, False)):
            given = [x.detach().requires_grad_(others) for x in leaves()]
            bias = torch.randn(shape, generator=torch.Generator().manual_seed(4)).requires_grad_()
            doubled = [x.detach().double().requires_grad_() for x in (*given, bias)]
            wanted = reference(*doubled[:3], softcap=2.5, mask=doubled[3])
            turned = given if layout == "bhld" else [x.transpose(1, 2) for x in given]
            o, lse = attention(*turned, softcap=2.5, mask=bias, layout=layout, return_lse=True)
            o = o if layout == "bhld" else o.transpose(1, 2)
            self.near(o, wanted, FEW)
            score = doubled[0] @ doubled[1].repeat_interleave(2, 1).transpose(2, 3) / 4
            wanted_lse = torch.logsumexp(2.5 * torch.tanh(score / 2.5) + doubled[3], -1)
            self.near(lse, wanted_lse, FEW)
            ((wanted * like(wanted)).sum() + (wanted_lse * like(wanted_lse, 5)).sum()).backward()
            ((o * like(wanted)).sum() + (lse * like(wanted_lse, 5)).sum()).backward()
            for x, double in zip((*given, bias) if others else (bias,), doubled if others else doubled[3:]):
                self.near(x.grad, double.grad, 20 * FEW, f"{shape} {layout}")
        q, k, v = leaves(kv_len=0)
        bias = torch.randn(9, 1).requires_grad_()
        attention(q, k, v, mask=bias).sum().backward()
        self.assertFalse(bias.grad.any())

    def test_gradients_of_masks_by_kernels(self):
        """Whose keys are no multiple of what rows of a tile have."""
        for gpu, dtype, keys in (("a100", torch.float16, 37), ("h200", torch.bfloat16, 33)):
            q, k, v = leaves(20, keys, d=64, dv=64, batch=1, dtype=dtype)
            bias = torch.randn((1, 1, 20, keys), generator=torch.Generator().manual_seed(4)).to(dtype).requires_grad_()
            double = bias.detach().double().requires_grad_()
            o = attention(q, k, v, mask=bias, on="emulator", gpu=gpu)
            do = like(o)
            (reference(*(x.detach().double() for x in (q, k, v)), mask=double) * do.double()).sum().backward()
            self.near(torch.autograd.grad(o, bias, do)[0], double.grad, 32 * torch.finfo(dtype).eps, gpu)

    def test_layouts_and_strides(self):
        given = leaves(kv_len=9)
        wanted = torch.autograd.grad(attention(*given, causal=True).sum(), given)
        turned = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in given]
        o = attention(*turned, causal=True, layout="blhd")
        self.assertTrue(o.is_contiguous())
        for found, want in zip(torch.autograd.grad(o.sum(), turned), wanted):  # dO is one element, expanded
            self.assertTrue(torch.equal(found.transpose(1, 2), want))
        odd = [x.detach().repeat_interleave(2, 3)[..., ::2].requires_grad_() for x in given]
        for found, want in zip(torch.autograd.grad(attention(*odd, causal=True).sum(), odd), wanted):
            self.assertTrue(torch.equal(found, want))

    def test_some_of_them(self):
        given = leaves(kv_len=9)
        o = attention(*given, causal=True)
        do = like(o)
        wanted = torch.autograd.grad(o, given, do)
        for chosen in itertools.product((False, True), repeat=3):
            if not any(chosen):
                continue
            some = [x.detach().requires_grad_(is_chosen) for x, is_chosen in zip(given, chosen)]
            attention(*some, causal=True).backward(do)
            for x, is_chosen, want in zip(some, chosen, wanted):
                self.assertEqual(x.grad is not None, is_chosen)
                if is_chosen:
                    self.near(x.grad, want, 1e-6)

    def test_rows_that_see_nothing(self):
        self.agrees(leaves(9, 4, kv_heads=4), causal=True, align="last")

    def test_lse(self):
        """lse has a gradient as o has; one of them alone may have one."""
        for layout, causal, (o_part, lse_part) in itertools.product(("bhld", "blhd"), (False, True), ((1, 1), (0, 1), (1, 0))):
            given = leaves(9, 9)
            doubled = [x.detach().double().requires_grad_() for x in given]
            k = doubled[1].repeat_interleave(2, 1)
            score = doubled[0] @ k.transpose(2, 3) / 4
            score = score.masked_fill(torch.ones(9, 9).triu(1).bool(), -torch.inf) if causal else score
            wanted, wanted_lse = reference(*doubled, causal=causal), torch.logsumexp(score, -1)
            turned = given if layout == "bhld" else [x.transpose(1, 2) for x in given]
            o, lse = attention(*turned, causal=causal, layout=layout, return_lse=True)
            o = o if layout == "bhld" else o.transpose(1, 2)
            self.near(lse, wanted_lse, FEW)
            (o_part * wanted * like(wanted) + lse_part * (wanted_lse * like(wanted_lse, 5))[..., None]).sum().backward()
            (o_part * o * like(wanted) + lse_part * (lse * like(wanted_lse, 5))[..., None]).sum().backward()
            for x, double in zip(given, doubled):
                self.near(x.grad, double.grad, 10 * FEW)

    def test_deterministic(self):
        given = leaves(kv_len=9)
        first, second = (torch.autograd.grad(attention(*given).sum(), given) for _ in range(2))
        for a, b in zip(first, second):
            self.assertTrue(torch.equal(a, b))

    def test_fused(self):
        """The other form of the gradients: right, of some of them too, and where there is no such form as ever."""
        given, way = leaves(kv_len=9), like(attention(*leaves(kv_len=9)).detach())
        for needed in ((0, 1, 2), (2,), (0, 1)):
            wanted, found = (torch.autograd.grad(attention(*given, causal=True, align="last", fused=fused), [given[i] for i in needed], way)
                             for fused in (False, True))
            for a, b in zip(found, wanted):
                self.near(a, b, 10 * FEW)
        run = torch.compile(lambda *x: attention(*x, causal=True, align="last", fused=True), backend="aot_eager", fullgraph=True)
        for a, b in zip(torch.autograd.grad(run(*given), given, way),
                        torch.autograd.grad(attention(*given, causal=True, align="last"), given, way)):
            self.near(a, b, 10 * FEW)
        self.assertIn("and accumulate dQ_sum", gradient_text("mha", True, None, None, False, None, "QKV", False, False, True))
        torch.use_deterministic_algorithms(True)
        try:
            self.says(ValueError, "asks for the same bits", attention, *given, fused=True)
        finally:
            torch.use_deterministic_algorithms(False)

    def test_numbers_of_other_types(self):
        given, way = leaves(kv_len=9), like(attention(*leaves(kv_len=9)).detach())
        wanted, found = (torch.autograd.grad(attention(*given, causal=causal, window=window, align="last"), given, way)
                         for causal, window in ((True, 5), (1, 5.0)))
        for a, b in zip(found, wanted):
            self.assertTrue(torch.equal(a, b))
        self.says(ValueError, "window is a whole number", attention, *given, causal=True, window=2.5)

    def test_checkpoint(self):
        given = leaves(kv_len=9)
        wanted = torch.autograd.grad(attention(*given).sum(), given)
        o = torch.utils.checkpoint.checkpoint(attention, *given, use_reentrant=False)
        for a, b in zip(torch.autograd.grad(o.sum(), given), wanted):
            self.assertTrue(torch.equal(a, b))


class Operators(Case):
    def test_opcheck(self):
        """Schema, fake tensors, registration of gradients, and what AOTAutograd makes of it with fixed and with open lengths."""
        for layout, alibi, with_lse in (("bhld", None, True), ("blhd", SLOPES, True)):
            given = leaves(9, 9)
            if layout == "blhd":
                given = [x.detach().transpose(1, 2).contiguous().requires_grad_() for x in given]
            mask = None if alibi is None else torch.randn(2, 1, 1, 9).requires_grad_()
            options = alibi, mask, True, 5, 2.0, None, layout, None, None
            torch.library.opcheck(torch.ops.flashtl.attention, (*given, *options, with_lse))
            o, lse = (x.detach() for x in torch.ops.flashtl.attention(*given, *options, with_lse))
            for of in ("QKV", "V", *(["QKVB", "B", "QKVBA", "A"] if mask is not None else [])):
                plain = [x.detach() for x in given]
                dlse, bias = None if of == "V" else like(lse), None if mask is None else mask.detach()
                torch.library.opcheck(torch.ops.flashtl.attention_backward,
                                      (like(o), *plain, o, lse, dlse, alibi, bias, *options[2:], of))
        plain = [x.detach() for x in leaves()]
        for mask in (None, torch.rand(1, 1, 9, 12) > 0.3):
            torch.library.opcheck(torch.ops.flashtl.attention, (*plain, None, mask, False, None, None, 0.5, "bhld", None, None, False))

    def test_fake_tensors(self):
        with torch._subclasses.FakeTensorMode() as mode:
            q, k, v = (mode.from_tensor(x.detach().half()).requires_grad_() for x in leaves(9, 9))
            o, lse = attention(q, k, v, causal=True, return_lse=True)
            self.assertEqual((o.shape, o.dtype, lse.shape), ((2, 4, 9, 24), torch.float16, (2, 4, 9)))
            o.sum().backward()
            self.assertEqual((q.grad.shape, v.grad.shape), (q.shape, v.shape))
        meta = torch.empty(1, 2, 9, 16, dtype=torch.float16, device="meta")
        self.assertEqual(attention(meta, meta, meta).shape, meta.shape)

    def test_compile(self):
        """No graph break, gradients too; one graph for open lengths."""
        def run(q, k, v):
            bias = torch.sin(q[:, :, :, :1])
            return attention(torch.tanh(q), k, v, causal=True, window=5, align="last", mask=bias) * attention(q, k, v, mask=bias > -0.3)

        for backend, dynamic in (("aot_eager", False), ("aot_eager", True), ("eager", False)):
            torch._dynamo.reset()
            compiled = torch.compile(run, fullgraph=True, backend=backend, dynamic=dynamic)
            for q_len, kv_len in ((9, 9), (7, 12), (5, 30)):
                given = leaves(q_len, kv_len)
                wanted = run(*given)
                do = like(wanted)
                found = compiled(*given)
                self.assertTrue(torch.equal(found, wanted))
                for a, b in zip(torch.autograd.grad(found, given, do), torch.autograd.grad(wanted, given, do)):
                    self.assertTrue(torch.allclose(a, b, rtol=1e-6, atol=1e-6))
            with torch.no_grad():
                self.assertTrue(torch.equal(compiled(*given), wanted))
            o, lse = torch.compile(lambda *x: attention(*x, return_lse=True), fullgraph=True, backend=backend)(*[x.detach() for x in given])
            self.assertEqual(lse.shape, (2, 4, 5))

    def test_inductor(self):
        try:
            torch._dynamo.reset()
            torch.compile(lambda x: torch.tanh(x) + 1, fullgraph=True)(torch.ones(9))
        except Exception as why:
            raise unittest.SkipTest(f"PyTorch's compiler does not work here: {type(why).__name__}") from None
        run = lambda q, k, v: attention(q * 2, k.exp(), v, causal=True, align="last").sin()
        given = leaves(kv_len=9)
        wanted = run(*given)
        found = torch.compile(run, fullgraph=True)(*given)
        self.assertTrue(torch.allclose(found, wanted, rtol=1e-5, atol=1e-6))
        do = like(wanted)
        for a, b in zip(torch.autograd.grad(found, given, do), torch.autograd.grad(wanted, given, do)):
            self.assertTrue(torch.allclose(a, b, rtol=1e-5, atol=1e-5))

    def test_autocast(self):
        given = leaves(kv_len=9)
        mask = torch.randn(9, 9)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            o = attention(*given, mask=mask)
        self.assertTrue(torch.equal(o, attention(*(x.bfloat16() for x in given), mask=mask.bfloat16())))
        for dtype, run in itertools.product((torch.bfloat16, torch.float16), (attention, torch.compile(attention, fullgraph=True, backend="aot_eager"))):
            with torch.autocast("cpu", dtype=dtype):
                o = run(*given)
            self.assertEqual(o.dtype, dtype)
            self.assertTrue(torch.equal(o, attention(*(x.to(dtype) for x in given))))
            for x, one in zip(given, torch.autograd.grad(o.sum(), given)):
                self.assertEqual((one.dtype, one.shape), (torch.float32, x.shape))

    def test_a_module_trains(self):
        """Twenty steps of a small module with attention in it are those with PyTorch's own."""
        losses = []
        for ours in (False, True):
            torch.manual_seed(3)
            qkv, out = torch.nn.Linear(32, 96), torch.nn.Linear(32, 32)
            x, target = torch.randn(4, 10, 32), torch.randn(4, 10, 32)
            optimizer = torch.optim.AdamW([*qkv.parameters(), *out.parameters()], lr=1e-2)
            found = []
            for _ in range(20):
                q, k, v = (part.unflatten(2, (2, 16)).transpose(1, 2) for part in qkv(x).chunk(3, 2))
                run = attention if ours else reference
                y = out(run(q, k, v, causal=True).transpose(1, 2).flatten(2))
                loss = ((y - target) ** 2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            losses.append(torch.tensor(found))
        self.assertLess(float(losses[1][-1]), 0.9 * float(losses[1][0]))
        self.assertTrue(torch.allclose(losses[0], losses[1], rtol=1e-4), losses)


class Refused(Case):
    def test_what_has_no_gradient(self):
        given = leaves(kv_len=9)
        first, = torch.autograd.grad(attention(*given).sum(), given[:1], create_graph=True)
        self.says(RuntimeError, "have no gradients themselves", first.sum().backward)
        o, _ = torch.ops.flashtl.attention(*given, None, None, False, None, None, None, "bhld", None, None, False)
        self.says(RuntimeError, "with_lse=False", o.sum().backward)
        plain, forward_ad = [x.detach() for x in given], torch.autograd.forward_ad
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(plain[0], torch.ones_like(plain[0]))
            self.says(ValueError, "no forward-mode gradients", attention, dual, *plain[1:])
            self.says(ValueError, "no forward-mode gradients", attention, dual, *given[1:])
        self.says(ValueError, "no forward-mode gradients", torch.func.jvp, attention, tuple(plain), tuple(plain))
        with self.assertRaises(RuntimeError):
            torch.func.grad(lambda q: attention(q, *plain[1:]).sum())(plain[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's, that this calls the operator once for each
            found = torch.vmap(attention, in_dims=(0, None, None))(torch.stack([plain[0], 2 * plain[0]]), *plain[1:])
        for x, one in zip((plain[0], 2 * plain[0]), found):
            self.assertTrue(torch.equal(one, attention(x, *plain[1:])))

    def test_arguments(self):
        q, k, v = (x.detach() for x in leaves(kv_len=9))
        says = self.says
        says(TypeError, "'q' is torch.float64", attention, q.double(), k, v)
        says(TypeError, "'v' is torch.float16", attention, q, k, v.half())
        says(ValueError, "'q' has four axes", attention, q[0], k, v)
        says(ValueError, "head sizes are multiples of 8; that of 'q' is 12", attention, q[..., :12], k, v)
        says(ValueError, "'q' has vectors of 16 elements, and 'k' of 24", attention, q, v, v)
        says(ValueError, "the heads of q are a multiple", attention, q[:, :3], k, v)
        says(ValueError, "k and v differ in d alone", attention, q, k[:, :, :5], v)
        says(ValueError, "'alibi' is float32 of 4 slopes", attention, q, k, v, alibi=SLOPES[:3])
        says(ValueError, "window is a whole number", attention, q, k, v, window=2.5)
        says(ValueError, "layout is 'bhld' or 'blhd'", attention, q, k, v, layout="hbld")
        says(ValueError, "align='last' has the last query", attention, q[:, :, :5], k, v, causal=True)
        says(ValueError, "on is one of", attention, q, k, v, on="cloud")
        says(TypeError, "which the interpreter alone takes", attention, q, k, v, on="emulator", gpu="a100")
        says(ValueError, "'k' on meta", attention, q, k.to("meta"), v)
        mask = torch.ones(9, 9, dtype=torch.bool)
        says(ValueError, "'mask' is of the scores' shape (2, 4, 9, 9)", attention, q, k, v, mask=mask[:5])
        says(ValueError, "'mask' is of the scores' shape (2, 4, 9, 9)", attention, q, k, v, mask=mask.expand(1, 1, 1, 9, 9))
        says(TypeError, "'mask' is of bool, float32 or q's type", attention, q, k, v, mask=mask.long())
        says(ValueError, "'mask' on meta", attention, q, k, v, mask=mask.to("meta"))
