"""Lists of blocks that kernels make in each call for masks that ask captured tables: what is seen of a block has to be listed, and what
is listed as whole has to be seen; against NumPy, which runs the same functions on whole arrays."""
import numpy as np

import flashtl
from flashtl import _flex
from helpers import Case, random
from test_blocks import blocks_of, seen_by
from test_flex import reference, window_of_heads

BATCH, HEADS, Q_LEN, KV_LEN = 2, 2, 90, 101
rng = np.random.default_rng(11)
OF_TOKEN = np.sort(rng.integers(0, 5, (BATCH, 128)), axis=1)
SHUFFLED = rng.permuted(OF_TOKEN, axis=1)
BEGINS = np.array([0, 20, 40, 55, 70], np.int32)
ENDS = np.sort(rng.integers(0, 128, (BATCH, 128)), axis=1)
VALID = np.arange(128) % 64 < 40
LARGE = 2 ** 24 + np.arange(128) // 3  # f32 has every second one of them
PREFIX = np.array([9, 60])
BY_HEAD = np.array([[0] * 30 + [1] * 98, [2] * 70 + [3] * 58])
REAL = np.where(np.arange(128) < 50, 0.5, 1.5)
PAIRS = rng.random((128, 128)) < 0.5


def documents(b, h, q, kv):
    return (q >= kv) & (OF_TOKEN[b, q] == OF_TOKEN[b, kv])


def other_documents(b, h, q, kv):
    return OF_TOKEN[b, q] != OF_TOKEN[b, kv]


def shuffled(b, h, q, kv):
    return SHUFFLED[b, q] == SHUFFLED[b, kv]


def padded(b, h, q, kv):
    return VALID[kv] & (kv < 80)


def up_to(b, h, q, kv):
    return (kv <= ENDS[b, q]) | ((kv < 16) & (q - kv < 50))


def within_documents(b, h, q, kv):
    q_own, kv_own = q - BEGINS[OF_TOKEN[b, q]], kv - BEGINS[OF_TOKEN[b, kv]]
    return (OF_TOKEN[b, q] == OF_TOKEN[b, kv]) & (abs(q_own - kv_own) * 2 <= 14)


def large(b, h, q, kv):
    return (LARGE[q] <= LARGE[kv]) & ~(LARGE[q] - 1 < LARGE[kv] - 9)


def by_head(b, h, q, kv):
    return (BY_HEAD[h, q] == BY_HEAD[h, kv]) & ((kv < PREFIX[b]) | (q // 8 >= kv // 8))


def parts(b, h, q, kv):
    return ~((OF_TOKEN[b, q] % 3 == 1) ^ (OF_TOKEN[b, kv] % 3 == 1)) & (np.minimum(q, ENDS[b, kv]) + 3 >= -kv)


MADE = documents, other_documents, shuffled, padded, up_to, within_documents, large, by_head, parts


LONG = np.sort(rng.integers(0, 4, (BATCH, 256)), axis=1)


def two_blocks(b, h, q, kv):
    return (q >= kv) & (LONG[b, q] == LONG[b, kv])


def real(b, h, q, kv):
    return REAL[q] == REAL[kv]


def pairs(b, h, q, kv):
    return PAIRS[q, kv]


def places_alone(b, h, q, kv):
    return (q >= kv) & (kv % 5 != 3)


def prefix_lm(b, h, q, kv):
    return (kv < PREFIX[b]) | (q >= kv)


def lists_of(mask, size):
    """(listed, full, block) by the kernels of the sketch that make them, for all heads."""
    text = flashtl.sketch_of(None, mask, block=size, made=True)
    kernels = text.split("kernel flex_attention\n")[0]
    arrays = text.cut({"b": BATCH, "head": HEADS, "q": Q_LEN, "kv": KV_LEN})
    found = {}
    for part in (kernels.split("kernel listed_blocks")[0], kernels):  # what a later kernel reads is no Output
        own = {name: array for name, array in arrays.items() if f"Input  {name} " in part}
        made = flashtl.compile(part)(Q=random(BATCH, HEADS, Q_LEN, 8), K=random(BATCH, 1, KV_LEN, 8), **own)
        found.update(zip(made.names, made))
    by_head = "Output listed i32 (b in batch, head in q_heads;" in kernels
    found = [found[name] if by_head else found[name][:, None] for name in ("listed", "full", "block")]
    return [np.broadcast_to(one, (BATCH, HEADS, *one.shape[2:])) for one in found]


class Lists(Case):
    def test_nothing_seen_is_left_out(self):
        for mask in MADE:
            for size in (16, 32):
                with self.subTest((mask.__name__, size)):
                    listed, full, block = lists_of(mask, size)
                    some, every = blocks_of(seen_by(mask, BATCH, HEADS, Q_LEN, KV_LEN), size)
                    for at in np.ndindex(listed.shape):
                        names = block[at][:listed[at]]
                        self.assertEqual(len(set(names)), len(names))
                        self.assertTrue(set(np.flatnonzero(some[at])) <= set(names), (at, names))
                        self.assertTrue(set(block[at][:full[at]]) <= set(np.flatnonzero(every[at])), (at, names))
                        self.assertTrue(((0 <= block[at]) & (block[at] < some.shape[3])).all())

    def test_lists_are_short(self):
        """Of documents in order exactly the blocks that are seen are listed, and of these the whole ones are whole."""
        for mask in (documents, other_documents, padded):
            with self.subTest(mask.__name__):
                listed, full, _ = lists_of(mask, 16)
                some, every = blocks_of(seen_by(mask, BATCH, HEADS, Q_LEN, KV_LEN), 16)
                every[..., -1] = False  # cut by the end, and masked there
                np.testing.assert_array_equal(listed, some.sum(3))
                np.testing.assert_array_equal(full, every.sum(3))


class Attention(Case):
    def setUp(self):
        self.from_before, _flex.MADE_FROM = _flex.MADE_FROM, 0

    def tearDown(self):
        _flex.MADE_FROM = self.from_before

    def same(self, mask, q_len, kv_len, gpu, score_mod=None):
        q, k, v = random(BATCH, 2, q_len, 16), random(BATCH, 1, kv_len, 16, seed=2), random(BATCH, 1, kv_len, 16, seed=3)
        o, lse = flashtl.flex_attention(q, k, v, score_mod, mask, return_lse=True, on="emulator", gpu=gpu)
        wanted, wanted_lse = reference(q, k, v, score_mod, mask)
        self.close(o, wanted, 4e-3)
        self.close(lse, wanted_lse, 4e-3)

    def test_meaning(self):
        """The sketch with its kernels means what the function does, in any lengths."""
        for mask in MADE:
            for q_len, kv_len in ((Q_LEN, KV_LEN), (96, 64)):
                with self.subTest((mask.__name__, q_len)):
                    ragged = bool((q_len | kv_len) % 16)
                    text = flashtl.sketch_of(None, mask, return_lse=True, block=16, ragged=ragged, made=True)
                    self.assertEqual("tile_rows" in text, ragged)
                    q, k, v = random(BATCH, 2, q_len, 16), random(BATCH, 1, kv_len, 16, seed=2), random(BATCH, 1, kv_len, 16, seed=3)
                    tables = text.cut({"b": BATCH, "head": HEADS, "q": q_len, "kv": kv_len})
                    o, lse = flashtl.compile(text)(Q=q, K=k, V=v, scale=0.25, **tables)
                    wanted, wanted_lse = reference(q, k, v, None, mask)
                    self.close(o, wanted, 1e-3)
                    self.close(lse, wanted_lse, 1e-5)

    def test_kernels(self):
        self.same(two_blocks, 256, 256, "h200", lambda score, b, h, q, kv: score + 0.1 * h)
        self.same(up_to, 128, 101, "h200")
        self.same(by_head, 128, 128, "a100")

    def test_tables_that_change(self):
        """A sketch is used again; what its tables hold counts in each call."""
        own = np.zeros((BATCH, 128), np.int32)

        def mask(b, h, q, kv):
            return own[b, q] == own[b, kv]
        own[:, -1] = 4  # bounds that a trace knows stay as they are
        self.same(mask, 128, 128, "a100")
        own[:, :64] = 4
        self.same(mask, 128, 128, "a100")


class Texts(Case):
    def test_where_nothing_is_known(self):
        """Tables of real numbers, of pairs, or that no block asks: all keys are walked, as without."""
        for mask in (real, pairs, places_alone, prefix_lm, window_of_heads):
            with self.subTest(mask.__name__):
                self.assertEqual(flashtl.sketch_of(None, mask, block=128, made=True), flashtl.sketch_of(None, mask))

    def test_what_is_too_long(self):
        """A condition whose answers would be too long for an expression is asked of every score, as without."""
        def mask(b, h, q, kv):
            found = OF_TOKEN[b, q] == OF_TOKEN[b, kv]
            for i in range(45):
                found = found | (abs(OF_TOKEN[b, q] - OF_TOKEN[b, kv]) == i + 9)
            return found
        self.assertIn("kernel listed_blocks", flashtl.sketch_of(None, documents, block=128, made=True))
        self.assertEqual(flashtl.sketch_of(None, mask, block=128, made=True), flashtl.sketch_of(None, mask))

    def test_kernels_are_few(self):
        self.assertEqual(flashtl.sketch_of(None, documents, block=128, made=True).count("kernel "), 4)
        self.assertEqual(flashtl.sketch_of(None, padded, block=128, made=True).count("kernel "), 4)

        def begun(b, h, q, kv):
            return kv >= ENDS[b, q]
        self.assertEqual(flashtl.sketch_of(None, begun, block=128, made=True).count("kernel "), 3)  # of keys nothing is looked at

    def test_names(self):
        """Tables may be called as what the kernels make."""
        kind, some, kv_bounds_0 = OF_TOKEN, ENDS, SHUFFLED

        def mask(b, h, q, kv):
            return (kind[b, q] == kv_bounds_0[b, kv]) & (some[b, q] >= kind[b, kv])
        text = flashtl.sketch_of(None, mask, return_lse=True, block=16, made=True)
        q, k, v = random(BATCH, 2, Q_LEN, 16), random(BATCH, 1, KV_LEN, 16, seed=2), random(BATCH, 1, KV_LEN, 16, seed=3)
        o, _ = flashtl.compile(text)(Q=q, K=k, V=v, scale=0.25, **text.cut({"b": BATCH, "head": 2, "q": Q_LEN, "kv": KV_LEN}))
        self.close(o, reference(q, k, v, None, mask)[0], 1e-3)

    def test_refused(self):
        self.says(ValueError, "made=True is for blocks of as many queries as keys; found block=(128, 64)", flashtl.sketch_of, None, documents,
                  block=(128, 64), made=True)
        self.says(ValueError, "found block=None", flashtl.sketch_of, None, documents, made=True)
