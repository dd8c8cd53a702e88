"""flashtl.torch.sdpa: models that call scaled_dot_product_attention, against themselves without it."""
import contextlib
import itertools
import re
import subprocess
import sys

import torch

import flashtl.torch
from helpers import Case, SOURCE

F = torch.nn.functional


def tensors(q_len=9, kv_len=9, heads=4, kv_heads=4, d=16, dv=16, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    shapes = (2, heads, q_len, d), (2, kv_heads, kv_len, d), (2, kv_heads, kv_len, dv)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in shapes]


class Subclass(torch.Tensor):
    """A tensor whose meaning only its class knows."""


class Sdpa(Case):
    def same(self, given, **options):
        """Results and gradients are PyTorch's, and the call was taken; a fourth tensor is the mask."""
        leaves = [[x.clone().requires_grad_(x.is_floating_point()) for x in given] for _ in range(2)]
        wanted = F.scaled_dot_product_attention(*leaves[0], **options)
        with flashtl.torch.sdpa(strict=True) as seen:
            found = F.scaled_dot_product_attention(*leaves[1], **options)
        self.assertEqual((seen.taken, found.shape, found.dtype), (1, wanted.shape, wanted.dtype))
        bound = {torch.float32: 1e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}[found.dtype]
        do = torch.randn(found.shape, generator=torch.Generator().manual_seed(2)).to(found.dtype)
        first, second = ([x for x in one if x.requires_grad] for one in leaves)
        pairs = zip((wanted, *torch.autograd.grad(wanted, first, do)), (found, *torch.autograd.grad(found, second, do)))
        for a, b in pairs:
            self.assertTrue(torch.allclose(a, b, rtol=bound, atol=bound), (a - b).abs().max())

    def test_same(self):
        for is_causal, (q_len, kv_len) in itertools.product((False, True), ((9, 9), (5, 12), (12, 5), (1, 7))):
            self.same(tensors(q_len, kv_len), is_causal=is_causal)
            self.same(tensors(q_len, kv_len, dv=24), is_causal=is_causal, scale=0.3)
        self.same(tensors(kv_heads=2), is_causal=True, enable_gqa=True)
        self.same(tensors(dtype=torch.float16), is_causal=True)
        self.same(tensors(dtype=torch.bfloat16))

    def test_masks(self):
        """Boolean masks and learned biases of every shape that PyTorch broadcasts, with rows that see nothing."""
        generator = torch.Generator().manual_seed(4)
        for (q_len, kv_len), kv_heads in (((9, 9), 4), ((5, 12), 2)):
            for shape in ((q_len, kv_len), (2, 1, q_len, kv_len), (2, 4, q_len, kv_len), (2, 1, 1, kv_len), (4, q_len, 1), (1, 1)):
                given, bias = tensors(q_len, kv_len, kv_heads=kv_heads), torch.randn(shape, generator=generator)
                hidden = bias > 0.3
                hidden[..., 0 if shape[-2] == 1 else 3, :] |= shape[-1] > 1
                self.same([*given, ~hidden], enable_gqa=True)
                self.same([*given, bias.masked_fill(hidden, -torch.inf)], enable_gqa=True)
        bias = torch.randn((2, 1, 9, 9), generator=generator)
        for dtype in (torch.float16, torch.bfloat16):
            self.same([*tensors(dtype=dtype), bias.to(dtype)], scale=0.3)
        turned = bias.transpose(2, 3)
        self.assertFalse(turned.is_contiguous())
        for mask in (turned, turned > 0):
            self.same([*tensors(), mask.detach()])

    def test_masks_on_the_emulator(self):
        """Rows that see nothing are 0, and rows whose scores all are the least number stay numbers, as the kernels have it."""
        q, k, v = tensors(33, 41, 2, 2, 64, 64, torch.float16)
        generator, least = torch.Generator().manual_seed(4), torch.finfo(torch.float16).min
        shown = torch.rand((2, 1, 33, 41), generator=generator) > 0.4
        shown[:, :, 5] = shown[1, :, 7:] = False
        bias = torch.randn((1, 2, 33, 41), generator=generator).half()
        for gpu, mask in itertools.product(("a100", "h200"), (shown, bias, torch.where(shown, bias, -torch.inf))):
            with flashtl.torch.sdpa(on="emulator", gpu=gpu, strict=True):
                found = F.scaled_dot_product_attention(q, k, v, mask)
            wanted = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), mask if mask.dtype == torch.bool else mask.double())
            self.assertTrue(torch.allclose(found.double(), wanted, rtol=4e-3, atol=4e-3), (gpu, (found - wanted).abs().max()))
            self.assertTrue(mask is bias or not found[:, :, 5].any())
        with flashtl.torch.sdpa(on="emulator", gpu="h200", strict=True):
            found = F.scaled_dot_product_attention(q, k, v, torch.where(shown, 0, least).half())
        self.assertTrue(found.isfinite().all())

    def test_masks_take_no_more_memory(self):
        """What is broadcast is not written out: one row of a mask for all queries and heads stays one row."""
        shown = torch.ones(2, 1, 1, 12, dtype=torch.bool).expand(2, 4, 9, 12)
        for mask, elements in ((shown, 24), (shown.float(), 2 * 4 * 9 * 12)):
            bias = flashtl.torch._masks.as_bias(mask, mask.shape)
            self.assertEqual((bias.shape, bias.untyped_storage().size() // bias.element_size()), (mask.shape, elements))
        self.assertEqual(flashtl.torch._masks.as_bias(mask, mask.shape).data_ptr(), mask.data_ptr())

    def test_left(self):
        """Each call that is not taken has its reason and PyTorch's own result; strict raises the reason."""
        q, k, v = tensors()
        mask = torch.ones(9, 9, dtype=torch.bool).tril()
        cases = {"attn_mask is no plain tensor": ((q, k, v, mask.as_subclass(Subclass)), {}),
                 "there is dropout": ((q, k, v), {"dropout_p": 1e-9}),
                 "there are no kernels of torch.float64": ((q.double(), k.double(), v.double()), {}),
                 "the tensors have other axes": ((q[0], k[0], v[0]), {}),
                 "the head size of query is 12": ((q[..., :12], k[..., :12], v), {}),
                 "batch, heads or lengths are broadcast": ((q, k[:1], v[:1]), {}),
                 "do not fit without enable_gqa=True": ((q, k[:, :1], v[:, :1]), {}),
                 "the scale is -1.0": ((q, k, v), {"scale": -1.0})}
        for reason, (given, options) in cases.items():
            self.assertIn(reason, flashtl.torch.why_not(*given, **options))
            with flashtl.torch.sdpa() as seen:
                found = F.scaled_dot_product_attention(*given, **options)
            self.assertEqual((seen.taken, sum(seen.left.values())), (0, 1))
            self.assertIn(reason, next(iter(seen.left)))
            self.assertTrue(torch.equal(found, F.scaled_dot_product_attention(*given, **options)))
            with flashtl.torch.sdpa(strict=True):
                self.says(ValueError, reason, F.scaled_dot_product_attention, *given, **options)
        self.assertIsNone(flashtl.torch.why_not(q, k, v, is_causal=True))
        for reason, options in {"an attn_mask and is_causal": {"attn_mask": mask, "is_causal": True},
                                "attn_mask is of torch.float64": {"attn_mask": mask.double()},
                                "attn_mask is of (3, 1, 9, 9)": {"attn_mask": mask.expand(3, 1, 9, 9)},
                                "attn_mask is on the device 'meta'": {"attn_mask": mask.to("meta")}}.items():
            self.assertIn(reason, flashtl.torch.why_not(q, k, v, **options))  # PyTorch refuses them, or some of them
        self.assertIsNone(flashtl.torch.why_not(q, k, v, mask))

    def test_scope(self):
        q, k, v = tensors(dtype=torch.float16)
        own = F.scaled_dot_product_attention
        with flashtl.torch.sdpa() as outer:
            with flashtl.torch.sdpa() as inner:
                own(query=q, key=k, value=v, is_causal=True)
            own(q, k, v)
        own(q, k, v)
        self.assertEqual((inner.taken, outer.taken), (1, 1))
        try:
            with flashtl.torch.sdpa() as seen:
                raise KeyError
        except KeyError:
            own(q, k, v)
        self.assertEqual(seen.taken, 0)
        self.says(ValueError, "on is one of", flashtl.torch.sdpa, on="cloud")

    def test_emulator(self):
        q, k, v = tensors(33, 33, 2, 2, 64, 64, torch.float16)
        with flashtl.torch.sdpa(on="emulator", gpu="a100", strict=True):
            found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        self.assertTrue(torch.allclose(found.double(), F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True),
                                       rtol=4e-3, atol=4e-3))

    def test_a_module(self):
        """PyTorch's own attention layer: the same results, and gradients of its weights, in training."""
        torch.manual_seed(3)
        layer = torch.nn.MultiheadAttention(32, 2, batch_first=True)
        x, found = torch.randn(3, 9, 32), []
        for context in (None, flashtl.torch.sdpa(strict=True)):
            layer.zero_grad()
            if context:
                with context:
                    y = layer(x, x, x, need_weights=False)[0]
                    (y ** 2).sum().backward()
                self.assertEqual(context.taken, 1)
            else:
                y = layer(x, x, x, need_weights=False)[0]
                (y ** 2).sum().backward()
            found.append([y, *(p.grad.clone() for p in layer.parameters())])
        for a, b in zip(*found):
            self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-5))
        self.assertIs(F.scaled_dot_product_attention, torch._C._nn.scaled_dot_product_attention)

    def test_a_layer_with_padding(self):
        """PyTorch's encoder layer, in training, with padding and a mask."""
        torch.manual_seed(3)
        layer = torch.nn.TransformerEncoderLayer(32, 2, 48, dropout=0.0, batch_first=True)
        x, padding, found = torch.randn(3, 9, 32), torch.arange(9) >= torch.tensor([[9], [5], [7]]), []
        for context in (None, flashtl.torch.sdpa(strict=True)):
            with context or contextlib.nullcontext():
                layer.zero_grad()
                y = layer(x, src_mask=torch.ones(9, 9, dtype=torch.bool).triu(1), src_key_padding_mask=padding)
                (y ** 2)[~padding].sum().backward()
            found.append([y[~padding], *(p.grad.clone() for p in layer.parameters())])
        self.assertEqual((context.taken, context.left), (1, {}))
        for a, b in zip(*found):
            self.assertTrue(torch.allclose(a, b, rtol=1e-4, atol=1e-5))

    def test_compile(self):
        """Around a compiled function and within one; without breaks."""
        mask = torch.ones(9, 9, dtype=torch.bool).tril(1)

        def run(q, k, v):
            o = F.scaled_dot_product_attention(q * 2, k, v, is_causal=True)
            return o + F.scaled_dot_product_attention(q, k, v, mask)

        def within(q, k, v):
            with flashtl.torch.sdpa():
                return run(q, k, v)

        given = tensors()
        with flashtl.torch.sdpa():
            wanted = run(*given)
        for outside, function in ((True, run), (False, within)):
            torch._dynamo.reset()
            graphs = []

            def keep(module, inputs):
                graphs.append(module)
                return module

            compiled = torch.compile(function, fullgraph=True, backend=keep)
            if outside:
                with flashtl.torch.sdpa():
                    found = compiled(*given)
            else:
                found = compiled(*given)
            self.assertTrue(torch.equal(found, wanted))
            self.assertTrue(any("flashtl" in str(node.target) for graph in graphs for node in graph.graph.nodes))


class Documents(Case):
    def test_example(self):
        done = subprocess.run([sys.executable, SOURCE / "examples/python/train.py", "--steps", "45"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        losses = [float(line.rpartition(" ")[2]) for line in done.stdout.splitlines()]
        self.assertGreater(losses[0], 2)
        self.assertLess(losses[-1], 0.3)

    def test_page(self):
        """The first examples of docs/python.md's part on training."""
        block, = re.findall(r"^```python\n(# with PyTorch\nimport torch\nimport flashtl.torch\n.*?)^```", (SOURCE / "docs/python.md").read_text(),
                            re.M | re.S)
        names = {}
        exec(block, names)
        self.assertEqual(names["q"].grad.shape, names["q"].shape)
        self.assertTrue(torch.equal(names["run"](*(names[x].detach() for x in "qkv"), causal=True).isfinite().all(), torch.tensor(True)))
