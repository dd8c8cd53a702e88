"""Small random models of transformers, by attn_implementation="ftl" and by the library's own eager attention."""
import copy
import functools
import itertools
import re
import subprocess
import sys

import torch
import transformers

import flashtl.torch
from helpers import SOURCE, Case

NAME = "ftl"
SIZES = {"vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
CAUSAL = {**SIZES, "num_key_value_heads": 2, "head_dim": 8, "pad_token_id": 0, "eos_token_id": None, "bos_token_id": 1}


def pair(config, kind):
    """The same weights, with eager attention and with ours."""
    torch.manual_seed(3)
    model = kind._from_config(config, attn_implementation="eager").eval()
    other = copy.deepcopy(model)
    other.set_attn_implementation(NAME)
    return model, other


def llama():
    return pair(transformers.LlamaConfig(**CAUSAL), transformers.LlamaForCausalLM)


def gemma():
    """With windows of 4 in every other layer, and a soft cap."""
    return pair(transformers.Gemma2Config(**CAUSAL, sliding_window=4, attn_logit_softcapping=5.0, query_pre_attn_scalar=8),
                transformers.Gemma2ForCausalLM)


def gemma3():
    """With a window of 4 in the first layer."""
    return pair(transformers.Gemma3TextConfig(**CAUSAL, sliding_window=4, query_pre_attn_scalar=8,
                                              layer_types=["sliding_attention", "full_attention"]), transformers.Gemma3ForCausalLM)


def mistral():
    """With a window of 4 in every layer."""
    return pair(transformers.MistralConfig(**CAUSAL, sliding_window=4), transformers.MistralForCausalLM)


MODELS = {"llama": llama, "gemma": gemma, "gemma3": gemma3, "mistral": mistral}


def tokens(batch=2, length=11):
    return torch.randint(2, 60, (batch, length), generator=torch.Generator().manual_seed(1))


PADDED = torch.tensor([[1] * 11, [1] * 8 + [0] * 3])  # two sequences, of 11 and 8 tokens


class Transformers(Case):
    def setUp(self):
        self.seen = flashtl.torch.register_transformers(NAME)

    def near(self, found, wanted, bound=1e-4):
        self.assertEqual(found.shape, wanted.shape)
        self.assertTrue(torch.allclose(found, wanted, rtol=bound, atol=bound), (found - wanted).abs().max())

    def test_prefill(self):
        for name, make in MODELS.items():
            model, ours = make()
            before = self.seen.taken
            with torch.no_grad():
                self.near(ours(tokens()).logits, model(tokens()).logits)
            self.assertEqual((name, self.seen.taken - before, self.seen.left), (name, 2, {}))

    def test_generate(self):
        """Token by token with a cache, and in two parts."""
        for name, make in MODELS.items():
            model, ours = make()
            options = {"max_new_tokens": 8, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
            given = tokens(2, 6)
            wanted, found = (one.generate(given, attention_mask=torch.ones_like(given), **options) for one in (model, ours))
            self.assertTrue(torch.equal(found.sequences, wanted.sequences), name)
            for a, b in zip(found.logits, wanted.logits):
                self.near(a, b)
            results = []
            for one in (model, ours):
                with torch.no_grad():
                    first = one(tokens()[:, :7], use_cache=True)
                    results.append(one(tokens()[:, 7:], past_key_values=first.past_key_values, use_cache=True).logits)
            self.near(results[1], results[0])
        self.assertGreater(self.seen.taken, 40)

    def test_padding(self):
        """Batches with padding on either side: prefill, and token by token with a cache that grows or has its room from the start."""
        for name, make in MODELS.items():
            model, ours = make()
            before = self.seen.taken
            for side in (slice(0, 4), slice(7, 11)):
                mask = torch.ones(2, 11, dtype=torch.long)
                mask[1, side] = 0
                with torch.no_grad():
                    wanted, found = (one(tokens(), attention_mask=mask).logits for one in (model, ours))
                self.near(found * mask[..., None], wanted * mask[..., None])
            mask = mask.flip(1)
            options = {"max_new_tokens": 4, "do_sample": False, "output_logits": True, "return_dict_in_generate": True}
            for cache in ("dynamic", "static"):
                options["cache_implementation"] = cache
                wanted, found = (one.generate(tokens(), attention_mask=mask, **options) for one in (model, ours))
                self.assertTrue(torch.equal(found.sequences, wanted.sequences), name)
                for a, b in zip(found.logits, wanted.logits):
                    self.near(a, b)
            self.assertEqual((name, self.seen.taken - before, self.seen.left), (name, 2 * (2 + 2 * 4), {}))

    def test_training(self):
        for name, make in MODELS.items():
            losses = []
            for model in make():
                model.train()
                optimizer, found = torch.optim.AdamW(model.parameters(), lr=5e-3), []
                for _ in range(20):
                    loss = model(tokens(), labels=tokens()).loss
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    found.append(loss.item())
                losses.append(torch.tensor(found))
            self.assertLess(float(losses[0][-1]), 0.8 * float(losses[0][0]), name)
            self.near(losses[1], losses[0], 2e-3)
        self.assertEqual((self.seen.taken, self.seen.left), (2 * 20 * len(MODELS), {}))

    def test_encoder(self):
        model, ours = pair(transformers.BertConfig(**SIZES), transformers.BertModel)
        for mask in (None, PADDED):
            with torch.no_grad():
                wanted, found = (one(tokens(), attention_mask=mask).last_hidden_state for one in (model, ours))
            shown = 1 if mask is None else mask[..., None]
            self.near(found * shown, wanted * shown)
        self.assertEqual((self.seen.taken, self.seen.left), (4, {}))

    def test_encoder_and_decoder(self):
        """Whisper's, with attention over what was encoded: the decoder at once, and token by token with a cache."""
        sizes = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "d_model": 32,
                 "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "max_source_positions": 20, "max_target_positions": 30}
        sizes.update(vocab_size=60, num_mel_bins=8, pad_token_id=0, bos_token_id=1, eos_token_id=2)
        model, ours = pair(transformers.WhisperConfig(decoder_start_token_id=1, **sizes), transformers.WhisperForConditionalGeneration)
        heard = torch.randn((2, 8, 40), generator=torch.Generator().manual_seed(5))
        found = []
        with torch.no_grad():
            for one in (model, ours):
                given = {"input_features": heard, "decoder_input_ids": tokens()}
                logits = [one(**given, decoder_attention_mask=mask).logits for mask in (None, PADDED)]
                encoded, cache = one.model.encoder(heard), None
                for i in range(5):
                    step = one(encoder_outputs=encoded, decoder_input_ids=tokens()[:, i:i + 1], past_key_values=cache, use_cache=True)
                    cache = step.past_key_values
                    logits.append(step.logits)
                found.append(logits)
        self.near(found[1][1] * PADDED[..., None], found[0][1] * PADDED[..., None])
        for i in (0, *range(2, 7)):
            self.near(found[1][i], found[0][i])
        encoders, decoders = 3, 2 + 5
        self.assertEqual((self.seen.taken, self.seen.left), (2 * (encoders + 2 * decoders), {}))

    def test_learned_biases(self):
        """T5's biases of places, with padding, a cache, and their gradients."""
        config = transformers.T5Config(vocab_size=60, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0,
                                       pad_token_id=0, decoder_start_token_id=1)
        model, ours = pair(config, transformers.T5ForConditionalGeneration)
        options = {"max_new_tokens": 4, "do_sample": False, "output_logits": True, "return_dict_in_generate": True, "eos_token_id": None}
        wanted, found = (one.generate(tokens(), attention_mask=PADDED, **options) for one in (model, ours))
        self.assertTrue(torch.equal(found.sequences, wanted.sequences))
        for a, b in zip(found.logits, wanted.logits):
            self.near(a, b)
        self.assertEqual((self.seen.taken, self.seen.left), (2 * (1 + 2 * 4), {}))
        for one in (model, ours):
            one.train()(input_ids=tokens(), attention_mask=PADDED, labels=tokens(2, 7)).loss.backward()
        for (name, a), b in zip(model.named_parameters(), ours.parameters()):
            self.near(b.grad, a.grad)
            self.assertTrue("relative_attention_bias" not in name or a.grad.abs().max() > 1e-4, name)
        self.assertEqual((self.seen.taken, self.seen.left), (2 * (1 + 2 * 4) + 2 * 3, {}))

    def test_dropout(self):
        """A call with dropout is PyTorch's."""
        _, ours = pair(transformers.LlamaConfig(**CAUSAL, attention_dropout=0.5), transformers.LlamaForCausalLM)
        ours.train()(tokens()).logits.sum().backward()
        self.assertEqual((self.seen.taken, set(self.seen.left)), (0, {"there is dropout"}))
        strict = flashtl.torch.register_transformers(NAME, strict=True)
        self.says(ValueError, "does not take this call of LlamaAttention: there is dropout", ours, tokens())
        self.assertEqual(strict.taken, 0)

    def test_what_is_left(self):
        """A call that is left is what the same call is that is taken: causal or with a window, capped, with a mask, with a bias."""
        generator = torch.Generator().manual_seed(6)
        q, k, v = (torch.randn(2, heads, 9, 16, generator=generator) for heads in (4, 2, 2))
        bias, shown = torch.randn(1, 4, 9, 9, generator=generator), torch.rand(2, 1, 9, 9, generator=generator) > 0.3
        module = torch.nn.Identity()
        module.num_key_value_groups = 2
        for mask, position_bias, softcap, window in itertools.product((None, shown), (None, bias), (None, 2.0), (None, 3)):
            options = {"softcap": softcap, "position_bias": position_bias, "sliding_window": window}
            taken, _ = self.seen.attend(module, q, k, v, mask, **options)
            left, _ = self.seen.attend(module, q, k, v, mask, dropout=1e-12, **options)
            self.near(left, taken, 1e-5)
        self.assertEqual((self.seen.taken, self.seen.left), (16, {"there is dropout": 16}))

    def test_refused(self):
        self.says(ValueError, "holds 'flash'", flashtl.torch.register_transformers, "flashtl")
        q = torch.ones(1, 2, 9, 8)
        self.says(ValueError, "does not have 's_aux'", self.seen.attend, torch.nn.Identity(), q, q, q, None, s_aux=torch.ones(2))


class Documents(Case):
    def test_example(self):
        done = subprocess.run([sys.executable, SOURCE / "examples/python/language_model.py"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left to PyTorch: {}", done.stdout)

    def test_first_lines_of_the_readme(self):
        """As they stand, on a smaller tensor of the CPU."""
        block, = re.findall(r"^```python\n(import torch, flashtl.torch\n.*?)^```", (SOURCE / "README.md").read_text(), re.M | re.S)
        shape = '(4, 16, 4096, 128, device="cuda", dtype=torch.bfloat16, '
        self.assertIn(shape, block)
        names = {"model": torch.nn.MultiheadAttention(16, 2, batch_first=True), "x": torch.randn(1, 5, 16)}
        names["model"].forward = functools.partial(names["model"].forward, names["x"], names["x"])
        exec(block.replace(shape, "(1, 2, 9, 16, "), names)
        names["o"].sum().backward()
        self.assertEqual(names["q"].grad.shape, names["q"].shape)
