"""Small random models of diffusers, by set_attention_backend("ftl") and by the library's own eager attention."""
import copy
import subprocess
import sys

import diffusers
import torch
from diffusers.models.attention_dispatch import attention_backend, dispatch_attention_fn

import flashtl.torch
from helpers import SOURCE, Case

NAME, EAGER = "ftl", "_native_math"
DRAWN = 11


def drawn(*shape, seed=DRAWN):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def flux():
    """Text and picture in one sequence, with rotated places: (model, what it is given)."""
    model = diffusers.FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=2, attention_head_dim=16,
                                             num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32,
                                             axes_dims_rope=(4, 4, 8))
    places = torch.stack(torch.meshgrid(torch.zeros(1), torch.arange(4.0), torch.arange(5.0), indexing="ij"), -1).reshape(20, 3)
    return model, {"hidden_states": drawn(2, 20, 4), "encoder_hidden_states": drawn(2, 7, 32, seed=2),
                   "pooled_projections": drawn(2, 32, seed=3), "timestep": torch.tensor([0.3, 0.7]), "img_ids": places,
                   "txt_ids": torch.zeros(7, 3)}


def wan():
    """Of pictures that follow one another, with attention over a text of another length."""
    model = diffusers.WanTransformer3DModel(patch_size=(1, 2, 2), num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4,
                                            text_dim=16, freq_dim=32, ffn_dim=32, num_layers=2, rope_max_seq_len=32)
    return model, {"hidden_states": drawn(1, 4, 2, 8, 6), "encoder_hidden_states": drawn(1, 9, 16, seed=2), "timestep": torch.tensor([5])}


MODELS = {"flux": (flux, 3), "wan": (wan, 4)}


class Diffusers(Case):
    def setUp(self):
        self.seen = flashtl.torch.register_diffusers(NAME)

    def near(self, found, wanted, bound=1e-4):
        self.assertEqual(found.shape, wanted.shape)
        self.assertTrue(torch.allclose(found, wanted, rtol=bound, atol=bound), (found - wanted).abs().max())

    def pair(self, make):
        torch.manual_seed(4)
        model, given = make()
        other = copy.deepcopy(model)
        model.set_attention_backend(EAGER)
        other.set_attention_backend(NAME)
        return model, other, given

    def test_models(self):
        """Result and gradients of every parameter; each attention of the model was ours."""
        for name, (make, layers) in MODELS.items():
            model, ours, given = self.pair(make)
            before = self.seen.taken
            wanted, found = (one(**given).sample for one in (model, ours))
            self.assertGreater(wanted.abs().max(), 1e-3, name)
            self.near(found, wanted)
            self.assertEqual((name, self.seen.taken - before, self.seen.left), (name, layers, {}))
            for one in (wanted, found):
                one.square().sum().backward()
            moved = 0
            for (parameter, a), b in zip(model.named_parameters(), ours.parameters()):
                self.assertEqual(a.grad is None, b.grad is None, parameter)
                if a.grad is not None:
                    self.near(b.grad, a.grad, 1e-3)
                    moved += bool(a.grad.abs().max() > 1e-6)
            self.assertGreater(moved, 10, name)

    def test_compiled(self):
        """One graph, without a break."""
        for name, (make, _) in MODELS.items():
            _, ours, given = self.pair(make)
            with torch.no_grad():
                self.near(torch.compile(ours, backend="aot_eager", fullgraph=True)(**given).sample, ours(**given).sample, 1e-5)
            self.assertEqual((name, self.seen.left), (name, {}))

    def test_what_the_dispatcher_passes(self):
        """Masks of both kinds and shapes, causal attention of fewer keys, grouped heads, a scale: as the library's own."""
        q, k, v = drawn(2, 9, 4, 16), drawn(2, 7, 4, 16, seed=2), drawn(2, 7, 4, 16, seed=3)
        few = {"key": k[:, :, :2], "value": v[:, :, :2], "enable_gqa": True}
        shown = torch.rand(2, 7, generator=torch.Generator().manual_seed(5)) > 0.3
        shown[:, 0] = True
        added = drawn(2, 4, 9, 7, seed=6)
        cases = [{}, {"is_causal": True}, {"scale": 0.4}, {"attn_mask": shown}, {"attn_mask": shown[:, None, None]}, {"attn_mask": added}, few]
        for options in cases:
            named = {"query": q, "key": k, "value": v, **options}
            self.near(dispatch_attention_fn(**named, backend=NAME), dispatch_attention_fn(**named, backend="native"), 1e-5)
        self.assertEqual((self.seen.taken, self.seen.left), (len(cases), {}))
        with attention_backend(NAME):
            dispatch_attention_fn(q, k, v)
        self.assertEqual(self.seen.taken, len(cases) + 1)

    def test_what_is_left(self):
        q = drawn(1, 5, 2, 16)
        odd = drawn(1, 5, 2, 12)
        self.near(dispatch_attention_fn(odd, odd, odd, backend=NAME), dispatch_attention_fn(odd, odd, odd, backend="native"))
        dispatch_attention_fn(q, q, q, dropout_p=0.5, backend=NAME)
        self.assertEqual(self.seen.taken, 0)
        self.assertEqual(dict(self.seen.left), {"the head size of query is 12, no multiple of 8": 1, "there is dropout": 1})
        strict = flashtl.torch.register_diffusers(NAME, strict=True)
        self.says(ValueError, "does not take this call of a model of diffusers: there is dropout", dispatch_attention_fn, q, q, q,
                  dropout_p=0.5, backend=NAME)
        self.assertEqual(strict.taken, 0)

    def test_refused(self):
        q = drawn(1, 5, 2, 16)
        self.says(ValueError, "does not have return_lse", dispatch_attention_fn, q, q, q, attention_kwargs={"return_lse": True}, backend=NAME)
        self.says(ValueError, "does not have context parallelism", dispatch_attention_fn, q, q, q, backend=NAME, parallel_config=object())
        self.says(ValueError, "a backend that diffusers has itself", flashtl.torch.register_diffusers, "native")
        self.says(ValueError, "has capitals", flashtl.torch.register_diffusers, "Ftl")


class Documents(Case):
    def test_example(self):
        done = subprocess.run([sys.executable, SOURCE / "examples/python/picture_model.py"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left to PyTorch: {}", done.stdout)
