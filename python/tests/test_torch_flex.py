"""flashtl.flex_attention beside PyTorch's own: one function for both, on tensors."""
import unittest
import warnings

import torch
from torch.nn.attention import flex_attention as flex

import flashtl

BATCH, HEADS, LENGTH, D = 2, 4, 64, 16
torch.manual_seed(0)
SLOPES = torch.rand(HEADS)
DOCUMENT = torch.sort(torch.randint(0, 3, (BATCH, LENGTH)), 1)[0]
SHIFT = torch.tensor(5)
SEEN = torch.rand(LENGTH, LENGTH) < 0.5


def causal(b, h, q, kv):
    return q >= kv


def near(b, h, q, kv):
    return torch.abs(q - kv) <= SHIFT


def documents(b, h, q, kv):
    return DOCUMENT[b, q] == DOCUMENT[b][kv]


def listed(b, h, q, kv):
    return SEEN[q, kv].logical_or(q == kv)


def natten(b, h, q, kv):
    x, y = (q // 8).clamp(1, 6), torch.clamp(q % 8, 1, 6)
    return ((x - kv // 8).abs() <= 1) & ((y - kv % 8).abs() <= 1)


def alibi(score, b, h, q, kv):
    return score + SLOPES[h] * (kv - q)


def soft_cap(score, b, h, q, kv):
    return 20 * torch.tanh(score / 20)


def checkerboard(score, b, h, q, kv):
    return torch.where(torch.abs(kv - q) % 2 == 1, score * 0.5, score)


def causal_score(score, b, h, q, kv):
    return torch.where(q >= kv, score, -float("inf"))


def many(score, b, h, q, kv):
    return torch.sigmoid(score) + torch.minimum(score, score * 2) * torch.exp2(-(h + 1) * 8.0 / 4) + (q - kv).to(torch.float32) * 0.01


MASKS = [causal, near, documents, listed, natten, flex.and_masks(causal, documents), flex.or_masks(causal, near)]
SCORES = [alibi, soft_cap, checkerboard, causal_score, many]


class Beside(unittest.TestCase):
    def same(self, score_mod, mask_mod):
        q, k, v = (torch.randn(BATCH, HEADS, LENGTH, D) for _ in "qkv")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it is not compiled
            mask = None if mask_mod is None else flex.create_block_mask(mask_mod, BATCH, HEADS, LENGTH, LENGTH, device="cpu")
            wanted = flex.flex_attention(q, k, v, score_mod, mask)
        found, lse = flashtl.flex_attention(q, k, v, score_mod, mask and mask.mask_mod, return_lse=True)
        self.assertIsInstance(found, torch.Tensor)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)
        self.assertEqual(lse.shape, (BATCH, HEADS, LENGTH))

    def test_block_masks(self):
        """PyTorch's lists and ours name the same blocks, and give what PyTorch does with its own."""
        q, k, v = (torch.randn(BATCH, heads, LENGTH, D) for heads in (HEADS, 2, 2))
        for mask_mod in MASKS:
            for shape in ((BATCH, HEADS), (BATCH, None)):
                with self.subTest((mask_mod.__name__, shape)), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    theirs = flex.create_block_mask(mask_mod, *shape, LENGTH, LENGTH, device="cpu", BLOCK_SIZE=16)
                    wanted = flex.flex_attention(q, k, v, alibi, theirs, enable_gqa=True)
                    own = flashtl.block_mask(mask_mod, *shape, LENGTH, LENGTH, block=16, device="cpu")
                    for name in ("kv_num_blocks", "full_kv_num_blocks"):
                        self.assertTrue(torch.equal(getattr(own, name), getattr(theirs, name)))
                    for mask in (theirs, own):
                        torch.testing.assert_close(flashtl.flex_attention(q, k, v, alibi, mask), wanted, atol=1e-5, rtol=1e-5)

    def test_lists_that_were_written(self):
        """Lists are put in order again when they have changed."""
        q = torch.randn(BATCH, HEADS, LENGTH, D)
        mask = flashtl.block_mask(causal, None, None, LENGTH, LENGTH, block=16, device="cpu")
        before = flashtl.flex_attention(q, q, q, None, mask)
        mask.full_kv_num_blocks.zero_()
        after = flashtl.flex_attention(q, q, q, None, mask)
        near_ = flashtl.flex_attention(q, q, q, None, lambda b, h, q, kv: (q >= kv) & (q // 16 == kv // 16))
        self.assertFalse(torch.equal(before, after))
        torch.testing.assert_close(after, near_, atol=1e-5, rtol=1e-5)

    def test_masks(self):
        for mask in MASKS:
            with self.subTest(mask.__name__):
                self.same(None, mask)

    def test_scores(self):
        for score in SCORES:
            with self.subTest(score.__name__):
                self.same(score, None)
        self.same(alibi, documents)

    def test_refused(self):
        q = torch.randn(BATCH, HEADS, LENGTH, D)
        with self.assertRaisesRegex(flashtl.FunctionError, r"test_torch_flex.py, line \d+\): there is no 'cosh'"):
            flashtl.sketch_of(lambda score, b, h, q, kv: torch.cosh(score))
        with self.assertRaisesRegex(flashtl.FunctionError, "ask for one answer"):
            flashtl.sketch_of(mask_mod=lambda b, h, q, kv: bool(torch.abs(q) > kv))
        with self.assertRaisesRegex(ValueError, "requires gradients"):
            flashtl.flex_attention(q.requires_grad_(), q, q, alibi)
