"""Small random models of transformers, by attn_implementation="ftl" and by the library's own eager attention."""
import copy

import torch
import transformers

import flashtl.torch
from helpers import Case

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


def mistral():
    """With a window of 4 in every layer."""
    return pair(transformers.MistralConfig(**CAUSAL, sliding_window=4), transformers.MistralForCausalLM)


MODELS = {"llama": llama, "gemma": gemma, "mistral": mistral}


def tokens(batch=2, length=11):
    return torch.randint(2, 60, (batch, length), generator=torch.Generator().manual_seed(1))


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
        """Masks that no option says are PyTorch's; the reason is counted."""
        for make in MODELS.values():
            model, ours = make()
            mask = torch.ones(2, 11, dtype=torch.long)
            mask[1, :4] = 0
            with torch.no_grad():
                wanted, found = (one(tokens(), attention_mask=mask).logits for one in (model, ours))
            self.near(found * mask[..., None], wanted * mask[..., None])
        self.assertEqual((self.seen.taken, set(self.seen.left)), (0, {"there is an attn_mask"}))
        strict = flashtl.torch.register_transformers(NAME, strict=True)
        self.says(ValueError, "there is an attn_mask", ours, tokens(), attention_mask=mask)
        self.assertEqual(strict.taken, 0)

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
        self.assertEqual((self.seen.taken, self.seen.left), (3 * 2 * 20, {}))

    def test_encoder(self):
        model, ours = pair(transformers.BertConfig(**SIZES), transformers.BertModel)
        with torch.no_grad():
            self.near(ours(tokens()).last_hidden_state, model(tokens()).last_hidden_state)
        self.assertEqual((self.seen.taken, self.seen.left), (2, {}))

    def test_dropout(self):
        """A call with dropout is PyTorch's."""
        _, ours = pair(transformers.LlamaConfig(**CAUSAL, attention_dropout=0.5), transformers.LlamaForCausalLM)
        ours.train()(tokens()).logits.sum().backward()
        self.assertEqual((self.seen.taken, set(self.seen.left)), (0, {"there is dropout"}))

    def test_refused(self):
        self.says(ValueError, "holds 'flash'", flashtl.torch.register_transformers, "flashtl")
        q = torch.ones(1, 2, 9, 8)
        self.says(ValueError, "does not have 's_aux'", self.seen.attend, torch.nn.Identity(), q, q, q, None, s_aux=torch.ones(2))
