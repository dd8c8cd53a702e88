"""Attention by Python functions: what FlexAttention's documents show, against NumPy, which runs the same functions on whole arrays; and
all that is refused, with the line of the function."""
import functools
import math

import numpy as np

import flashtl
from helpers import Case, random

HEADS, Q_LEN, KV_LEN, WIDTH = 4, 40, 48, 8  # WIDTH: of the picture that the keys of NATTEN are
rng = np.random.default_rng(7)
SLOPES = 2.0 ** -np.arange(1, HEADS + 1)
DOCUMENT = np.sort(rng.integers(0, 4, (2, 64)), axis=1)
OFFSETS = np.array([0, 5, 17, 30], np.int32)
PREFIX = np.array([9, 21])
BY_DISTANCE = rng.standard_normal((HEADS, 33)).astype(np.float32)
PAIRS = rng.standard_normal((2, HEADS, Q_LEN, KV_LEN)).astype(np.float16)
SEEN = rng.random((Q_LEN, KV_LEN)) < 0.6
SHIFT = np.array(6, np.int32)


# --- the documented examples -------------------------------------------------------------------------------------------

def causal(b, h, q, kv):
    return q >= kv


def sliding_window(b, h, q, kv):
    return (q >= kv) & (q - kv <= 12)


def dilated_window(b, h, q, kv):
    return (abs(q - kv) <= 15) & ((q - kv) % 3 == 0)


def prefix_lm(b, h, q, kv):
    return (kv <= q) | (kv < PREFIX[b])


def documents(b, h, q, kv):
    return causal(b, h, q, kv) & (DOCUMENT[b, q] == DOCUMENT[b, kv])


def within_documents(b, h, q, kv):
    """A window that counts from the beginning of its document."""
    q_own, kv_own = q - OFFSETS[DOCUMENT[0, q]], kv - OFFSETS[DOCUMENT[0, kv]]
    return (DOCUMENT[0, q] == DOCUMENT[0, kv]) & (q_own >= kv_own)


def natten(b, h, q, kv):
    q_x, q_y, kv_x, kv_y = q // WIDTH, q % WIDTH, kv // WIDTH, kv % WIDTH
    x, y = np.clip(q_x, 1, KV_LEN // WIDTH - 2), np.clip(q_y, 1, WIDTH - 2)
    return (abs(x - kv_x) <= 1) & (abs(y - kv_y) <= 1)


def global_tokens(b, h, q, kv):
    return (q < 3) | (kv < 3) | (abs(q - kv) < 5)


def checked(b, h, q, kv):
    return SEEN[q, kv]


def window_of_heads(b, h, q, kv):
    return abs(q - kv) <= np.where(h == 1, np.where(kv > 9, 5, 7), 11)


def shifted_causal(b, h, q, kv):
    return q + SHIFT >= kv


def alibi(score, b, h, q, kv):
    return score + SLOPES[h] * (kv - q)


def alibi_by_formula(score, b, h, q, kv):
    return score + np.exp2(-((h + 1) * 8.0 / HEADS)) * (kv - q)


def alibi_of_some_heads(score, b, h, q, kv):
    return score + np.where(h < 2, SLOPES[h] * (kv - q), np.where(b == 0, q * 0.01, 0.0))


def soft_cap(score, b, h, q, kv):
    return 20 * np.tanh(score / 20)


def relative(score, b, h, q, kv):
    return score + (q - kv)


def relative_table(score, b, h, q, kv):
    return score + BY_DISTANCE[h, np.clip(q - kv + 16, 0, 32)]


def pair_bias(score, b, h, q, kv):
    return score + PAIRS[b, h, q, kv]


def checkerboard(score, b, h, q, kv):
    return np.where(abs(kv - q) % 2 == 1, score * 0.5, np.where(abs(kv - q) % 3 == 0, score * 2.0, score))


def sloped_after(score, b, h, q, kv):
    return np.where(kv > q, score - 0.01 * kv, score - SLOPES[2])


def scaled_heads(score, b, h, q, kv):
    return np.where(h == 1, score, score * 0.5)


def tanh_of_both(score, b, h, q, kv):
    return np.tanh(score) + np.tanh((q - kv) * 0.1) * score


def causal_score(score, b, h, q, kv):
    return np.where(q >= kv, score, -np.inf)


def added_infinity(score, b, h, q, kv):
    return score + np.where((q >= kv) & (h != 2), 0.0, -np.inf)


def leaky(score, b, h, q, kv):
    return np.where(score > 0, score, 0.1 * score)


def many(score, b, h, q, kv):
    x = 1 / (1 + np.exp(-score))
    y = np.maximum(score, -0.5) ** 2 - np.abs(x - score) / (q + 1)
    return np.minimum(y * x, 3 - x) + ((h % 2 == 0) ^ (kv > q)) * 0.25 - score / 3


MASKS = [causal, sliding_window, dilated_window, prefix_lm, documents, within_documents, natten, global_tokens, checked, shifted_causal, window_of_heads]
SCORES = [alibi, alibi_of_some_heads, alibi_by_formula, soft_cap, relative, relative_table, pair_bias, checkerboard, sloped_after, scaled_heads, tanh_of_both, causal_score, added_infinity,
          leaky, many]


def reference(q, k, v, score_mod=None, mask_mod=None, scale=None):
    """(o, lse) in fp64: the functions on arrays of all places."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k, v))
    score = q @ k.swapaxes(2, 3) * (scale or q.shape[3] ** -0.5)
    places = np.ix_(*map(range, score.shape))
    if score_mod:
        score = score_mod(score, *places)
    if mask_mod:
        score = np.where(mask_mod(*places), score, -np.inf)
    score = np.broadcast_to(score, (*q.shape[:3], k.shape[2]))
    most = score.max(axis=-1, keepdims=True)
    weight = np.exp(score - np.where(np.isfinite(most), most, 0))
    total = weight.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, weight @ v / total, 0), (np.log(total) + most)[..., 0]


def inputs(d=16):
    return random(2, HEADS, Q_LEN, d), random(2, 2, KV_LEN, d, seed=2), random(2, 2, KV_LEN, d, seed=3)


def statements(text):
    """What the functions have become."""
    found = text.split("Compute GEMM Q, K.T and get S\n")[1].split("    Compute Softmax")[0]
    return [line.strip() for line in found.splitlines()]


class Results(Case):
    def same(self, score_mod=None, mask_mod=None, bound=1e-3, **named):
        q, k, v = inputs()
        o, lse = flashtl.flex_attention(q, k, v, score_mod, mask_mod, return_lse=True, **named)
        wanted, wanted_lse = reference(q, k, v, score_mod, mask_mod)
        self.close(o, wanted, bound)
        self.close(lse, wanted_lse, bound if named else 1e-5)

    def test_masks(self):
        for mask in MASKS:
            with self.subTest(mask.__name__):
                self.same(mask_mod=mask)

    def test_scores(self):
        for score in SCORES:
            with self.subTest(score.__name__):
                self.same(score)

    def test_both(self):
        self.same(alibi, documents)
        self.same(soft_cap, natten)
        self.same(None, None)

    def test_scale_and_types(self):
        q, k, v = inputs()
        found = flashtl.flex_attention(q, k, v, soft_cap, causal, scale=0.5)
        self.close(found, reference(q, k, v, soft_cap, causal, 0.5)[0], 1e-3)
        q, k, v = (x.astype(np.float32) for x in (q, k, v))
        self.close(flashtl.flex_attention(q, k, v, soft_cap), reference(q, k, v, soft_cap)[0], 1e-6)

    def test_on_the_emulator(self):
        self.same(alibi, sliding_window, on="emulator", gpu="a100", bound=4e-3)
        self.same(relative_table, documents, on="emulator", gpu="a100", bound=4e-3)


class Kernels(Case):
    """The kernels that come of the texts, on the interpreter, against the texts."""

    def verified(self, **functions):
        text = flashtl.sketch_of(**functions, return_lse=True)
        found = flashtl.compile(text, gpu="a100", d=16, dv=16).verify(shapes="33x41", seconds=20)
        self.assertTrue(found, repr(found))
        self.assertEqual(found.failed, 0)

    def test_every_function(self):
        for i, score in enumerate(SCORES):
            mask = MASKS[i % len(MASKS)]
            with self.subTest((score.__name__, mask.__name__)):
                self.verified(score_mod=score, mask_mod=mask)

    def test_loops_end_where_masks_say(self):
        """By conditions alone: they are those of the shipped sketch."""
        def far(b, h, q, kv):
            return (kv <= q) & (kv > q - 100)
        for gpu in ("a100", "h200"):
            code = flashtl.compile(flashtl.sketch_of(mask_mod=far), gpu=gpu, d=64, dv=64).tl
            self.assertRegex(code, r"let blocks = max\(first \+ 1, ceil\(min\(kv_len, \(q_block \+ 1\)\*BM\)/BN\)\)")
            self.assertRegex(code, r"let first = .*q_block\*BM - 99")


class Texts(Case):
    def test_choices_of_terms(self):
        self.assertEqual(statements(flashtl.sketch_of(checkerboard)),
                         ["Compute Multiply S, scale*select(abs(kv - q) % 2 == 1, 0.5, select(abs(kv - q) % 3 == 0, 2.0, 1.0)) and get S"])
        self.assertEqual(statements(flashtl.sketch_of(lambda s, b, h, q, kv: np.where(q > kv, s, s - kv))),
                         ["Compute Multiply S, scale and get S", "Compute Subtract S, select(q > kv, 0.0, kv) and get S"])
        for kept in (lambda s, b, h, q, kv: np.where(q > kv, kv - s, s), lambda s, b, h, q, kv: np.where(s > 0, s, s * 0.5),
                     lambda s, b, h, q, kv: np.where(q > kv, s + 1, s * 2)):
            self.assertIn("Mask", flashtl.sketch_of(kept))

    def test_text(self):
        text = flashtl.sketch_of(soft_cap, documents, return_lse=True)
        self.assertEqual(statements(text), ["Compute Multiply S, scale/20.0 and get S", "Compute Tanh S and get S",
                                            "Compute Multiply S, 20 and get S", "Compute Mask S where q < kv",
                                            "Compute Mask S where DOCUMENT_q[b, q] != DOCUMENT_kv[b, kv]"])
        self.assertIn("Input  DOCUMENT_q i32 (b in batch, q in q_len)\nInput  DOCUMENT_kv i32 (b in batch, kv in kv_len)\n", text)
        self.assertEqual(set(text.inputs), {"DOCUMENT_q", "DOCUMENT_kv"})
        self.assertEqual({array.dtype.name for array in text.inputs.values()}, {"int32"})
        self.assertEqual(flashtl.sketch_of(soft_cap, documents, return_lse=True), text)

    def test_compiled(self):
        """The text and its arrays, as any other sketch."""
        q, k, v = inputs()
        text = flashtl.sketch_of(alibi)
        found = flashtl.compile(text)(Q=q, K=k, V=v, scale=0.25, **text.inputs).O
        self.close(found, reference(q, k, v, alibi)[0], 1e-3)
        self.assertIn("kernel", flashtl.derive(text))

    def test_operators(self):
        """Each as NumPy has it, on whole numbers and reals, of both signs."""
        cases = [lambda q, kv: (q - kv) // 3 + (q - kv) % 5, lambda q, kv: -q // 4, lambda q, kv: (q - kv) / 7,
                 lambda q, kv: 5 / (q + 1), lambda q, kv: (q + 1) / (kv + 2), lambda q, kv: -(q - kv) * -2 + +kv - -1,
                 lambda q, kv: 3 - (q - (kv - 1)), lambda q, kv: (q - kv) * 1.0 * (q + kv) * 0.01, lambda q, kv: 12 / (3 / (q + 1.0)),
                 lambda q, kv: np.minimum(q, kv) - np.maximum(q, 7), lambda q, kv: np.where(q > kv, q, -kv),
                 lambda q, kv: (~(q > kv) & (kv != 3) | (q == 5)) * 1.5, lambda q, kv: ((q > 3) == (kv > 3)) * 2,
                 lambda q, kv: ((q > 3) != (kv > 3)) + 0, lambda q, kv: np.logical_not(np.logical_or(q > 3, kv <= 9)) * 1.0,
                 lambda q, kv: np.exp(-np.abs(q - kv) * 0.1), lambda q, kv: np.log(q + 1) + np.log2(kv + 1.0),
                 lambda q, kv: np.sqrt(q + 1.0) - np.sin(kv * 0.1), lambda q, kv: ((q - kv) * 0.1) ** 2, lambda q, kv: 2.0 ** (-q * 0.1),
                 lambda q, kv: np.square(np.tanh(q * 0.1)), lambda q, kv: np.where(q > 3, np.where(kv > 5, 1, 2.5), 3),
                 lambda q, kv: 1 - (2 - (3 - q * 0.5)) - (kv - 1) * 0.5, lambda q, kv: np.clip(q - kv, -3, None) / 2,
                 lambda q, kv: np.where(q > 3, q, 0.5) / (kv + 2), lambda q, kv: np.minimum(q, 2.5) / (kv + 2),
                 lambda q, kv: (q + 0.5) / (kv + 2), lambda q, kv: SHIFT / (kv + 2), lambda q, kv: (SHIFT - 11) // 2 / 7 + DOCUMENT[0, q] / 2,
                 lambda q, kv: DOCUMENT[0, q] // 2 + (SHIFT - kv) // 4, lambda q, kv: np.maximum(q, kv) // 5 + np.where(q > kv, q, kv) // 3,
                 lambda q, kv: abs(q - kv) // 2 + (7 - q) % 4, lambda q, kv: (q // 2 * 3 + SHIFT) / 4,
                 lambda q, kv: 0.5 * (q // 2 // 3) + (q // 2) * 3 % 4, lambda q, kv: q - (kv + 2) // 2 * 2]
        q, k, v = inputs()
        for i, case in enumerate(cases):
            def score_mod(score, b, h, q, kv):
                return score + case(q, kv)
            with self.subTest(i):
                found, lse = flashtl.flex_attention(q, k, v, score_mod, return_lse=True)
                wanted, wanted_lse = reference(q, k, v, score_mod)
                self.close(found, wanted, 1e-3)
                self.close(lse, wanted_lse, 1e-6)

    def test_captured(self):
        """Arrays that are found wherever a function can have them, and numbers as they are in each call."""
        class Settings:
            def __init__(self):
                self.table, self.factor = SLOPES, 0.5

            def method(self, score, b, h, q, kv):
                return score + self.table[h] * self.half(q)

            def half(self, q):
                return self.factor * q

            def __call__(self, score, b, h, q, kv):
                return self.method(score, b, h, q, kv)

        def by_default(score, b, h, q, kv, table=SLOPES, *, more=(SLOPES, 2)):
            return score + table[h] * q + more[0][h] * more[1]

        def with_table(table, score, b, h, q, kv):
            return score + table[h] * q
        settings = Settings()
        local, inner = SLOPES, [lambda h: local[h] * 2, {"a": SLOPES}]
        functions = [settings.method, settings, by_default, functools.partial(with_table, SLOPES),
                     lambda score, b, h, q, kv: score + inner[0](h) + inner[1]["a"][h] + BY_DISTANCE[2][3] + settings.table[h] * settings.factor,
                     lambda score, b, h, q, kv: score + sum(local[i] * (h == i) for i in range(len(local))) + local[-1] + local.shape[0]]
        q, k, v = inputs()
        for i, score_mod in enumerate(functions):
            with self.subTest(i):
                self.close(flashtl.flex_attention(q, k, v, score_mod), reference(q, k, v, score_mod)[0], 1e-3)
        for settings.factor in (0.25, -1.0):
            self.close(flashtl.flex_attention(q, k, v, settings), reference(q, k, v, settings)[0], 1e-3)

    def test_names(self):
        """A table is called as its variable, but for what the language has taken."""
        for name in ("kv_len", "Mask", "select", "exp", "S", "x_shared", "größe", "_", "Softmax", "l", "n", "T", "stages", "sQ", "first"):
            scope = {name: SLOPES, "np": np}
            exec(f"def f(score, b, h, q, kv): return score + {name}[h]*np.tanh(score) + score", scope)
            with self.subTest(name):
                q, k, v = inputs()
                self.close(flashtl.flex_attention(q, k, v, scope["f"]), reference(q, k, v, scope["f"])[0], 1e-3)

    def test_bounds_of_indices(self):
        """What an index that is computed asks of the launch."""
        table = rng.standard_normal((2, 71)).astype(np.float32)
        half = lambda score, b, h, q, kv: score + table[h // 2, q - kv + 47] + table[b, (q + kv) // 2]  # noqa: E731
        text = flashtl.sketch_of(half)
        self.assertIn("q_heads <= 2*table_len_0 and kv_len <= 48 and q_len + 47 <= table_len_1", text)
        q, k, v = inputs()
        self.assertRaises(ValueError, flashtl.flex_attention, q, k, v, half)  # 40 + 47 > 71
        table = rng.standard_normal((2, 87)).astype(np.float32)
        self.close(flashtl.flex_attention(q, k, v, half), reference(q, k, v, half)[0], 1e-3)
        wide = np.concatenate([k, k], axis=2), np.concatenate([v, v], axis=2)
        self.assertRaises(ValueError, flashtl.flex_attention, q, *wide, half)


class Refused(Case):
    def refused(self, text, function, kind=ValueError):
        score_mod = lambda score, b, h, q, kv: function(score, b, h, q, kv)  # noqa: E731
        error = self.says(kind, text, flashtl.sketch_of, score_mod)
        line = function.__code__.co_firstlineno
        self.assertIn(f"test_flex.py, line {line})", str(error))
        self.assertEqual(error.line, line)

    def test_control_flow(self):
        for function in (lambda s, b, h, q, kv: s if q > kv else 0, lambda s, b, h, q, kv: s * (0 < q < 5), lambda s, b, h, q, kv: q > 1 and s,
                         lambda s, b, h, q, kv: min(s, 1), lambda s, b, h, q, kv: s * (not q), lambda s, b, h, q, kv: s * (q in [1, 2])):
            self.refused("ask for one answer", function)
        for function in (lambda s, b, h, q, kv: math.exp(s), lambda s, b, h, q, kv: [s][q], lambda s, b, h, q, kv: s + sum(range(h)),
                         lambda s, b, h, q, kv: int(s), lambda s, b, h, q, kv: s + np.arange(3)[q], lambda s, b, h, q, kv: s + np.array(q)):
            self.refused("a number was asked for", function)

    def test_functions(self):
        self.refused("there is no 'cosh' in a sketch", lambda s, b, h, q, kv: np.cosh(s))
        self.refused("there is no '.softmax'", lambda s, b, h, q, kv: s.softmax())
        self.refused("'.dtype' is asked", lambda s, b, h, q, kv: s.dtype)
        self.refused("there is no 'sum' in a sketch", lambda s, b, h, q, kv: np.sum(s))
        self.refused("'floor' of a real number", lambda s, b, h, q, kv: np.floor(s))
        self.refused("a power has", lambda s, b, h, q, kv: s ** 1.7)
        self.refused("a power has", lambda s, b, h, q, kv: s ** q)
        self.refused("does not become 'float16'", lambda s, b, h, q, kv: s.astype(np.float16))
        self.refused("with its values alone", lambda s, b, h, q, kv: np.add.reduce(s))
        self.refused("in a way that a sketch does not have", lambda s, b, h, q, kv: np.where(s))

    def test_values(self):
        self.refused("// is of whole numbers", lambda s, b, h, q, kv: s // 2)
        self.refused("% is of whole numbers", lambda s, b, h, q, kv: s % 2)
        for function in (lambda s, b, h, q, kv: s + q // kv, lambda s, b, h, q, kv: s + q // 0, lambda s, b, h, q, kv: s + q % -2):
            self.refused("a whole number above 0", function)
        self.refused("a division by 0", lambda s, b, h, q, kv: s / 0)
        self.refused("join conditions", lambda s, b, h, q, kv: np.where(q & 1, s, 0))
        self.refused("join conditions", lambda s, b, h, q, kv: ~q + s)
        self.refused("minus infinity", lambda s, b, h, q, kv: s * -np.inf)
        self.refused("minus infinity", lambda s, b, h, q, kv: s - np.where(q > kv, -np.inf, 0))
        self.refused("take for minus infinity", lambda s, b, h, q, kv: np.where(q > kv, s, -3e38))
        self.refused("cannot become nan", lambda s, b, h, q, kv: s + np.nan)
        self.refused("cannot become inf", lambda s, b, h, q, kv: np.where(q > kv, s, np.inf))
        self.refused("beyond the whole numbers", lambda s, b, h, q, kv: s + q * 2 ** 31)
        self.refused("beyond the whole numbers", lambda s, b, h, q, kv: s + q * kv)
        self.refused("beyond the whole numbers", lambda s, b, h, q, kv: s + (q * 4096 + kv) % 7)
        large = np.array([2 ** 16, -5], np.int32)
        self.refused("beyond the whole numbers", lambda s, b, h, q, kv: s + large[b] * large[b])
        self.refused("a str takes part", lambda s, b, h, q, kv: s + "1")
        self.refused("does not depend on its score", lambda s, b, h, q, kv: q - kv + 0.5)
        self.refused("gives a score; found a condition", lambda s, b, h, q, kv: s > 0)

    def test_tables(self):
        table, deep = np.ones(5, np.float32), np.ones((4, 4))
        whole = np.ones(5, np.int32)
        self.refused("is an array of 1 axes", lambda s, b, h, q, kv: s + table)
        self.refused("is an array of 2 axes", lambda s, b, h, q, kv: s + deep[h])
        self.refused("is an array of 1 axes", lambda s, b, h, q, kv: np.exp(table) + s)
        self.refused("'.sum' before it", lambda s, b, h, q, kv: s + table.sum())
        self.refused("2 indices are given", lambda s, b, h, q, kv: s + table[h, q])
        self.refused("index 5 is out of bounds: axis 0 of 'table' has 5", lambda s, b, h, q, kv: s + table[5])
        self.refused("indexed by whole numbers, one for each", lambda s, b, h, q, kv: s + deep[:, q])
        self.refused("indexed by whole numbers; found a real", lambda s, b, h, q, kv: s + table[q / 2])
        self.refused("indexed by whole numbers; found a bool", lambda s, b, h, q, kv: s + table[q > 1])
        self.refused("what only tiles have", lambda s, b, h, q, kv: s + table[np.where(s > 0, 1, 2)])
        self.refused("nothing bounds the index", lambda s, b, h, q, kv: s + table[whole[h] + 1])
        self.refused("may lie before its first", lambda s, b, h, q, kv: s + table[q % 3 - 4])
        strange = np.ones(5, complex)
        self.refused("has the type complex128", lambda s, b, h, q, kv: s + strange[h])
        large = np.array([2 ** 40] * 5)
        self.says(ValueError, "'large' has whole numbers beyond", flashtl.sketch_of, lambda s, b, h, q, kv: s + large[h])

        class Writer:
            pass
        writer = Writer()

        def writes(s, b, h, q, kv):
            writer.x = s
            return s
        self.says(ValueError, "changes 'x' of what it captures", flashtl.sketch_of, writes)

    def test_masks(self):
        says = self.says
        says(ValueError, "gives a condition, which is true where a query sees a key; found a int", flashtl.sketch_of,
             mask_mod=lambda b, h, q, kv: q - kv)
        says(ValueError, "the mask sees nothing", flashtl.sketch_of, mask_mod=lambda b, h, q, kv: False)
        self.assertEqual(flashtl.sketch_of(mask_mod=lambda b, h, q, kv: True), flashtl.sketch_of())

    def test_arguments(self):
        q, k, v = inputs()
        says = self.says
        says(TypeError, "score_mod is a function of (score, b, h, q, kv)", flashtl.sketch_of, causal)
        says(TypeError, "mask_mod is a function of (b, h, q, kv)", flashtl.sketch_of, mask_mod=alibi)
        says(TypeError, "mask_mod is a function of (b, h, q, kv); found str", flashtl.sketch_of, mask_mod="causal")
        says(TypeError, "score_mod returns nothing", flashtl.sketch_of, lambda s, b, h, q, kv: None)
        block_mask = type("BlockMask", (), {"mask_mod": causal})()
        says(TypeError, "a block mask with its lists (kv_indices and the others); this object has no lists", flashtl.flex_attention, q, k, v, None, block_mask)
        short = np.zeros((2, 45), np.int32)
        says(ValueError, "axis 1 of 'short' has 45 elements, and the function takes one for each of 48 (kv_len)", flashtl.flex_attention, q, k, v,
             mask_mod=lambda b, h, q, kv: short[b, kv] == 0)
        says(ValueError, "scale is a number above 0", flashtl.flex_attention, q, k, v, scale=-1)
        says(TypeError, "of float16 or bfloat16", flashtl.flex_attention, q.astype(np.int8), k, v)
        says(ValueError, "a multiple of those of k", flashtl.flex_attention, q[:, :3], k, v)
        wrong = np.array([0, 99], np.int32)
        with self.assertRaises(flashtl.DiagnosticError):  # an element of a table is outside another one
            flashtl.flex_attention(q, k, v, mask_mod=lambda b, h, q, kv: OFFSETS[wrong[b]] <= kv)

    def test_size(self):
        def deep(score, b, h, q, kv):
            for _ in range(3000):
                score = score + q
            return score

        def doubled(score, b, h, q, kv):
            x = q * 0.5
            for _ in range(40):
                x = x + x
            return score + x
        self.says(ValueError, "", flashtl.sketch_of, deep)
        self.says(ValueError, "letters long", flashtl.sketch_of, doubled)


