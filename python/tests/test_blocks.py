"""Block masks: flex_attention over the blocks that lists name, and lists made of functions, against NumPy."""
import gc

import numpy as np

import flashtl
from helpers import Case, random
from test_flex import MASKS, SLOPES, alibi, inputs, causal, documents, natten, prefix_lm, reference, relative_table

rng = np.random.default_rng(5)
OF_TOKEN = np.sort(rng.integers(0, 5, (2, 101)), axis=1)


def same_document(b, h, q, kv):
    return (OF_TOKEN[b, q] == OF_TOKEN[b, kv]) & (q >= kv)


def by_head(b, h, q, kv):
    return q - kv >= 4 * h


def arrays(q_len, kv_len, heads=4, batch=2, d=16):
    return random(batch, heads, q_len, d), random(batch, 2, kv_len, d, seed=2), random(batch, 2, kv_len, d, seed=3)


def seen_by(mask_mod, *lengths):
    return np.broadcast_to(mask_mod(*np.ix_(*map(range, lengths))), lengths)


def blocks_of(seen, size):
    """(seen somewhere, seen everywhere) of blocks; the last ones may be shorter."""
    rows, columns = (range(0, length, size) for length in seen.shape[2:])
    parts = [[seen[:, :, r:r + size, c:c + size] for c in columns] for r in rows]
    return tuple(np.stack([np.stack([one(part, (2, 3)) for part in row], -1) for row in parts], -2) for one in (np.any, np.all))


def listed(count, indices):
    """The blocks that lists name, as conditions."""
    found = np.zeros((*indices.shape, ), bool)
    for at in np.ndindex(count.shape):
        found[at][indices[at][:count[at]]] = True
        assert found[at].sum() == count[at]
    return found


class Lists(Case):
    """What block_mask says, of functions that the batch and the heads tell apart, or not."""

    def right(self, mask_mod, b, h, q_len, kv_len, size, **named):
        mask = flashtl.block_mask(mask_mod, b, h, q_len, kv_len, block=size, **named)
        some, every = blocks_of(seen_by(mask_mod, b or 1, h or 1, q_len, kv_len), size)
        self.assertEqual(mask.shape, (b or 1, h or 1, q_len, kv_len))
        self.assertEqual(mask.BLOCK_SIZE, (size, size))
        np.testing.assert_array_equal(listed(mask.full_kv_num_blocks, mask.full_kv_indices), every)
        np.testing.assert_array_equal(listed(mask.kv_num_blocks, mask.kv_indices), some & ~every)

    def test_functions(self):
        for mask in MASKS:
            with self.subTest(mask.__name__):
                self.right(mask, 2, 4, 40, 48, 16)

    def test_lengths(self):
        for q_len, kv_len, size in ((101, 77, 32), (33, 101, 16), (1, 1, 128), (64, 96, 32), (7, 100, 1)):
            with self.subTest((q_len, kv_len, size)):
                self.right(same_document, 2, None, q_len, kv_len, size)
                self.right(by_head, None, 4, q_len, kv_len, size)
                self.right(causal, None, None, q_len, kv_len, size)

    def test_by_a_kernel(self):
        self.right(same_document, 2, None, 101, 77, 32, on="emulator", gpu="a100")
        self.right(by_head, None, 2, 40, 48, 16, on="emulator", gpu="h200")

    def test_all_is_seen(self):
        mask = flashtl.block_mask(lambda b, h, q, kv: True, None, None, 40, 48, block=16)
        self.assertEqual((mask.full_kv_num_blocks.sum(), mask.kv_num_blocks.sum()), (9, 0))


class Attention(Case):
    def same(self, mask_mod, b, h, q_len, kv_len, size, score_mod=None, bound=1e-3, **named):
        q, k, v = arrays(q_len, kv_len)
        mask = flashtl.block_mask(mask_mod, b, h, q_len, kv_len, block=size)
        o, lse = flashtl.flex_attention(q, k, v, score_mod, mask, return_lse=True, **named)
        wanted, wanted_lse = reference(q, k, v, score_mod, mask_mod)
        self.close(o, wanted, bound)
        self.close(lse, wanted_lse, bound if named else 1e-5)

    def test_functions(self):
        for mask in MASKS:
            with self.subTest(mask.__name__):
                self.same(mask, 2, 4, 40, 48, 16)
        self.same(natten, None, None, 40, 48, 16, relative_table)

    def test_lengths(self):
        for q_len, kv_len, size in ((101, 77, 32), (33, 101, 16), (1, 1, 128), (64, 96, 32)):
            with self.subTest((q_len, kv_len, size)):
                self.same(same_document, 2, None, q_len, kv_len, size, alibi)
                self.same(by_head, None, 4, q_len, kv_len, size)

    def test_on_the_emulator(self):
        self.same(same_document, 2, None, 101, 77, 32, alibi, on="emulator", gpu="a100", bound=4e-3)
        self.same(documents, 2, None, 32, 48, 16, relative_table, on="emulator", gpu="h200", bound=4e-3)

    def test_nothing_but_what_lists_name(self):
        """Lists may leave out what the function sees, and full blocks show what it does not; in any order, whatever follows them."""
        q, k, v = arrays(48, 64)
        some, every = (rng.random((2, 1, 3, 4)) < 0.7), rng.random((2, 1, 3, 4)) < 0.4
        some, every = some & ~every, every & some
        some[0, 0, 1] = every[0, 0, 1] = False  # a block of queries that sees nothing

        def lists(kinds):
            order = rng.permuted(np.broadcast_to(np.arange(4), kinds.shape), axis=-1)
            order = np.take_along_axis(order, np.argsort(~np.take_along_axis(kinds, order, -1), -1, kind="stable"), -1).astype(np.int32)
            count = kinds.sum(-1).astype(np.int32)
            order[np.arange(4) >= count[..., None]] = -7  # past the end of a list there is anything
            return count, order
        mask = flashtl.block_mask(causal, 2, None, 48, 64, block=16)
        mask.kv_num_blocks, mask.kv_indices = lists(some)
        mask.full_kv_num_blocks, mask.full_kv_indices = lists(every)
        wide = [np.repeat(np.repeat(kinds, 16, 2), 16, 3) for kinds in (some, every)]

        def visible(b, h, q, kv):
            return (wide[0][b, 0, q, kv] & (q >= kv)) | wide[1][b, 0, q, kv]
        o, lse = flashtl.flex_attention(q, k, v, None, mask, return_lse=True)
        wanted, wanted_lse = reference(q, k, v, None, visible)
        self.close(o, wanted, 1e-3)
        self.close(lse, wanted_lse, 1e-5)
        self.assertFalse(o[0, :, 16:32].any())
        mask.full_kv_num_blocks = mask.full_kv_indices = None  # as FlexAttention has it where no block is full
        wide[1][:] = False
        self.close(flashtl.flex_attention(q, k, v, None, mask), reference(q, k, v, None, visible)[0], 1e-3)

    def test_a_mask_is_used_again(self):
        """Its lists are put in order once; another mask in its place has its own."""
        from flashtl import _blocks
        q, k, v = arrays(40, 48)
        for mod in (causal, prefix_lm, causal):
            mask = flashtl.block_mask(mod, 2, None, 40, 48, block=16)
            tables = [_blocks.tables_of(mask, q, 2, 4, 40, 48) for _ in range(2)]
            self.assertIs(tables[0], tables[1])
            self.close(flashtl.flex_attention(q, k, v, block_mask=mask), reference(q, k, v, None, mod)[0], 1e-3)
            del mask, tables
            gc.collect()


class Texts(Case):
    def test_full_blocks_have_no_mask(self):
        text = flashtl.sketch_of(mask_mod=documents, block=(128, 64))
        masks = [line.strip() for line in text.splitlines() if "Compute Mask" in line]
        self.assertEqual(len(masks), 4)  # two of the function, a list of nothing, and the end of keys
        for line in masks:
            self.assertIn("where s >= full[b, head, i]*64 and ", line)
        for gpu in ("a100", "h200"):
            code = flashtl.compile(text, gpu=gpu, d=64, dv=64).tl
            self.assertRegex(code, r"let full_2 = floor\(min\(keys, (full\[b, head, i\]\*64|64\*full\[b, head, i\])\)/BN\)")
            if gpu == "a100":  # warpgroups keep the test: their loop overlaps blocks of both kinds
                self.assertIn("no tests in these iterations", code)
            lines = code.splitlines()
            for before, line in zip(lines, lines[1:]):
                if "Compute Mask S" in line:
                    self.assertRegex(before, r"^ *if \w+ >= full_2 ")

    def test_whole_lengths(self):
        """Tiles are boxes of K and of V, and nothing asks for ends."""
        text = flashtl.sketch_of(mask_mod=documents, block=128, ragged=False)
        self.assertIn("= K[b, head/group, block[b, head, i, s/128]*128 + s % 128, d]\n", text)
        for part in ("tile_rows", "select", "kv_len - 1", ">= kv_len"):
            self.assertNotIn(part, text)
        code = flashtl.compile(text, gpu="h200", d=64, dv=64, BN=128).tl
        self.assertNotIn("cp_async", code)  # a list of nothing has a block, too: none is cut
        self.assertIn("where j*128 >= full[b, head, i]*128 and ", code)  # asked once for a block
        self.assertIn("where q_len % 128 == 0", text)
        self.assertIn("and kv_len % 128 == 0", text)

    def test_names(self):
        block, full = SLOPES, SLOPES[::-1].copy()

        def bias(score, b, h, q, kv):
            return score + block[h] * full[h]
        text = flashtl.sketch_of(bias, block=16)
        self.assertEqual(set(text.inputs), {"block_2", "full_2"})
        q, k, v = arrays(40, 48)
        mask = flashtl.block_mask(causal, None, None, 40, 48, block=16)
        self.close(flashtl.flex_attention(q, k, v, bias, mask), reference(q, k, v, bias, causal)[0], 1e-3)


class Kernels(Case):
    """What a GPU's first call verifies: kernels against their texts, by lists that are drawn."""

    def verified(self, text, shapes, **pins):
        found = flashtl.compile(text, gpu="a100", **pins).verify(shapes=shapes, seconds=20)
        self.assertTrue(found, repr(found))
        self.assertEqual((found.failed, found.skipped), (0, 0))

    def test_lists(self):
        for ragged in (True, False):
            text = flashtl.sketch_of(alibi, same_document, return_lse=True, block=64, ragged=ragged)
            self.verified(text, "100x77,33x130" if ragged else "128x192,64x64", d=16, dv=16)

    def test_counts(self):
        from flashtl._flex import counted
        for mask in (same_document, by_head, causal):
            self.verified(counted(mask, 16), "decisive")


class Refused(Case):
    def test_arguments(self):
        says, (q, k, v) = self.says, inputs()
        mask = flashtl.block_mask(causal, None, None, 40, 48, block=16)
        says(ValueError, "q and k ask for (2 or 1, 4 or 1, 3, 2) in blocks of 16 by 16", flashtl.flex_attention, q, k[:, :, :20], v[:, :, :20], None, mask)
        wide = flashtl.block_mask(causal, 3, None, 40, 48, block=16)
        says(ValueError, "(3, 1, 3, 3); q and k ask for", flashtl.flex_attention, q, k, v, None, wide)
        says(TypeError, "mask_mod and block_mask are given", flashtl.flex_attention, q, k, v, None, causal, block_mask=mask)
        says(TypeError, "block_mask is what flashtl.block_mask or PyTorch's create_block_mask gives; found function", flashtl.flex_attention, q, k, v,
             block_mask=causal)
        says(ValueError, "'q' has the axes (batch, heads, length, d); found an array of 3", flashtl.flex_attention, q[0], k, v, None, mask)
        for name, value in (("b", 0), ("h", True), ("q_len", 1.5), ("kv_len", None), ("block", -1)):
            named = {"b": None, "h": None, "q_len": 8, "kv_len": 8, name: value}
            says(ValueError, f"{name} is a whole number above 0", flashtl.block_mask, causal, **named)
        says(ValueError, "block is at most 1024; found 2048", flashtl.block_mask, causal, 1, 1, 8, 8, block=2048)
        says(TypeError, "mask_mod is a function of (b, h, q, kv)", flashtl.block_mask, alibi, 1, 1, 8, 8)
        says(TypeError, "mask_mod is a function of (b, h, q, kv); found NoneType", flashtl.block_mask, None, 1, 1, 8, 8)
        says(ValueError, "the mask sees nothing", flashtl.block_mask, lambda b, h, q, kv: False, 1, 1, 8, 8)
        says(ValueError, "block is a number of queries and one of keys", flashtl.sketch_of, None, causal, block=(16, 0))
        says(ValueError, "axis 1 of 'OF_TOKEN_kv' has 101 elements", flashtl.block_mask, same_document, 2, None, 101, 102)
