"""flashtl.varlen_attention and flashtl.decode on NumPy's arrays: each sequence as attention alone gives it, and what is refused."""
import itertools

import numpy as np

import flashtl
from helpers import Case, attention, random

ROUNDING = 1e-3


def ints(*values):
    return np.array(values, np.int32)


def alone(q, k, v, **options):
    """(o, lse) of one sequence, (token, heads, d) each."""
    o, lse = attention(*(x.transpose(1, 0, 2)[None] for x in (q, k, v)), **options)
    return o[0].transpose(1, 0, 2), lse[0].transpose(1, 0)


def pages_of(table, lengths, pool):
    return [pool[table[b]].reshape(-1, *pool.shape[2:])[:length] for b, length in enumerate(lengths)]


def scored(q, k, v, head_count, place, scale=None, first=0, sinks=None, alibi=None, bias=None, before=None, after=None, chunk=None,
           causal=False):
    """(o, lse) of one sequence, written down row by row; place: of its first query."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    group = q.shape[1] // k.shape[1]
    o, lse = np.zeros((*q.shape[:2], v.shape[2])), np.full(q.shape[:2], -np.inf)
    for i, head in itertools.product(range(q.shape[0]), range(head_count)):
        at, keys = place + i, np.arange(len(k))
        score = k[:, head // group] @ q[i, head] * (scale or q.shape[2] ** -0.5)
        score -= (0 if alibi is None else alibi[head]) * abs(keys - at)
        score += 0 if bias is None else bias[head, i, :len(k)]
        seen = (keys >= first) & (keys > at - (before or 999)) & (keys < at + (after or 999)) & ((keys <= at) | (not causal))
        if chunk:
            seen &= (keys - first) // chunk == (at - first) // chunk
        weights, rows = score[seen], v[:, head // group][seen]
        if sinks is not None:
            weights, rows = np.append(weights, sinks[head]), np.vstack([rows, np.zeros(v.shape[2])])
        if len(weights):
            lse[i, head] = np.log(np.exp(weights - weights.max()).sum()) + weights.max()
            o[i, head] = np.exp(weights - lse[i, head]) @ rows
    return o, lse


def floats(*shape, seed=7):
    return random(*shape, seed=seed, dtype=np.float32)


class Varlen(Case):
    q_starts, kv_starts = ints(0, 5, 5, 12, 13), ints(2, 9, 12, 15, 15)
    q, k, v = random(20, 4, 16), random(18, 2, 16, seed=2), random(18, 2, 24, seed=3)

    def wanted(self, q_lens=None, kv_lens=None, max_q_len=99, **options):
        o, lse = np.zeros((20, 4, 24)), np.zeros((20, 4))
        for b in range(4):
            begin, first = self.q_starts[b], self.kv_starts[b]
            rows = (q_lens if q_lens is not None else np.diff(self.q_starts))[b]
            keys = (kv_lens if kv_lens is not None else np.diff(self.kv_starts))[b]
            one = alone(self.q[begin:begin + rows], self.k[first:first + keys], self.v[first:first + keys], **options)
            done = min(rows, max_q_len)
            o[begin:begin + done], lse[begin:begin + done] = one[0][:done], one[1][:done]
        return o, lse

    def test_options(self):
        for causal, window, softcap, align in itertools.product((False, True), (None, 3), (None, 2.0), ("first", "last")):
            options = {"causal": causal, "window": window, "softcap": softcap, "align": align}
            o, lse = flashtl.varlen_attention(self.q, self.k, self.v, self.q_starts, self.kv_starts, return_lse=True, **options)
            wanted, wanted_lse = self.wanted(**options)
            self.close(o, wanted, ROUNDING)
            self.close(lse, wanted_lse, 1e-6)

    def test_scoring(self):
        padding, bias = ints(1, 0, 2, 0), floats(4, 20, 11)
        for options in ({"sinks": floats(4)}, {"alibi": abs(floats(4))}, {"bias": bias}, {"bias": bias[:1, :1]}, {"padding": padding},
                        {"before": 3, "after": 2}, {"after": 1}, {"chunk": 3}, {"causal": True, "chunk": 2, "before": 2, "after": 9},
                        {"sinks": floats(4), "bias": bias, "padding": padding, "chunk": 2, "alibi": abs(floats(4)), "align": "first"}):
            o, lse = flashtl.varlen_attention(self.q, self.k, self.v, self.q_starts, self.kv_starts, return_lse=True, **options)
            for b in range(4):
                rows, keys = slice(*self.q_starts[b:b + 2]), slice(*self.kv_starts[b:b + 2])
                one = {**options, "first": options["padding"][b] if "padding" in options else 0}
                place = 0 if one.pop("align", None) else (keys.stop - keys.start) - (rows.stop - rows.start)
                one.pop("padding", None)
                if "bias" in one:
                    one["bias"] = np.broadcast_to(one["bias"], bias.shape)[:, rows]
                wanted, wanted_lse = scored(self.q[rows], self.k[keys], self.v[keys], 4, place, **one)
                self.close(o[rows], wanted, ROUNDING)
                self.close(lse[rows], wanted_lse, 1e-5)

    def test_parts_of_sequences(self):
        for tables in ({"q_lens": ints(4, 0, 7, 1)}, {"kv_lens": ints(7, 1, 0, 0)}, {"max_q_len": 3}):
            o, lse = flashtl.varlen_attention(self.q, self.k, self.v, self.q_starts, self.kv_starts, causal=True, return_lse=True, **tables)
            wanted, wanted_lse = self.wanted(causal=True, **tables)
            self.close(o, wanted, ROUNDING)
            self.close(lse, wanted_lse, 1e-6)

    def test_rows_of_no_sequence_stay(self):
        out = random(20, 4, 24, seed=9)
        before = out.copy()
        self.assertIs(flashtl.varlen_attention(self.q, self.k, self.v, self.q_starts, self.kv_starts, out=out), out)
        np.testing.assert_array_equal(out[13:], before[13:])
        self.close(out[:13], self.wanted()[0][:13], ROUNDING)

    def test_pages(self):
        table, lengths = np.array([[3, 1, -1], [0, -1, 99], [2, 4, 5], [-7, 0, 0]], np.int32), ints(7, 4, 12, 0)
        pools = random(6, 4, 2, 16, seed=4), random(6, 4, 2, 24, seed=5)
        o, lse = flashtl.varlen_attention(self.q, *pools, self.q_starts, table=table, kv_lens=lengths, causal=True, return_lse=True)
        for b, (k, v) in enumerate(zip(*(pages_of(np.clip(table, 0, 5), lengths, pool) for pool in pools))):
            rows = slice(self.q_starts[b], self.q_starts[b + 1])
            wanted, wanted_lse = alone(self.q[rows], k, v, causal=True)
            self.close(o[rows], wanted, ROUNDING)
            self.close(lse[rows], wanted_lse, 1e-6)

    def test_emulator(self):
        q, k, v = random(60, 4, 64), random(80, 2, 64, seed=2), random(80, 2, 64, seed=3)
        tables = ints(0, 40, 60), ints(0, 15, 80)
        found = flashtl.varlen_attention(q, k, v, *tables, causal=True, on="emulator", gpu="a100")
        self.close(found, flashtl.varlen_attention(q, k, v, *tables, causal=True).astype(np.float64), 4e-3)

    def test_refused(self):
        def says(kind, text, q=self.q, k=self.k, v=self.v, q_starts=self.q_starts, kv_starts=self.kv_starts, **named):
            self.says(kind, text, flashtl.varlen_attention, q, k, v, q_starts, kv_starts, **named)

        says(ValueError, "'q' has the axes (token, heads, d)", q=self.q[None])
        says(ValueError, "'k' has the axes (page, slot, heads, d)", table=ints(0)[None], kv_starts=None, kv_lens=ints(1))
        says(ValueError, "'k' and 'v' differ in more than d", v=self.v[1:])
        says(TypeError, "'k' is f32", k=self.k.astype(np.float32))
        says(ValueError, "'k' has no heads", k=self.k[:, :0], v=self.v[:, :0])
        says(TypeError, "'kv_starts' is missing", kv_starts=None)
        says(TypeError, "'kv_lens' is missing", k=self.k[None], v=self.v[None], kv_starts=None, table=ints(0, 0, 0, 0)[:, None])
        says(TypeError, "'kv_starts' is not taken with a table", k=self.k[None], v=self.v[None], table=ints(0, 0, 0, 0)[:, None],
             kv_lens=ints(1, 1, 1, 1))
        says(ValueError, "'q_starts' has an entry for each sequence", q_starts=ints())
        says(ValueError, "'q_starts' is int32", q_starts=self.q_starts[None])
        says(ValueError, "'kv_starts' is int32 of the shape (5)", kv_starts=self.kv_starts[1:])
        says(ValueError, "'q_lens' is int32 of the shape (4)", q_lens=ints(1))
        says(TypeError, "'q_lens' has the type int64", q_lens=np.ones(4, np.int64))
        says(ValueError, "'q_starts' is to rise from 0 or later to 20", q_starts=ints(0, 5, 4, 12, 13))
        says(ValueError, "found -1, 5", q_starts=ints(-1, 5, 5, 12, 13))
        says(ValueError, "to 20 at most", q_starts=ints(0, 5, 5, 12, 21))
        says(ValueError, "'kv_starts' is to rise from 0 or later to 18", kv_starts=ints(0, 1, 2, 3, 19))
        says(ValueError, "'q_lens' has lengths from 0 to 5, 0, 7, 1; found 5, 1", q_lens=ints(5, 1, 7, 1))
        says(ValueError, "'kv_lens' has lengths", kv_lens=ints(-1, 0, 0, 0))
        says(ValueError, "max_q_len is a whole number", max_q_len=-1)
        says(ValueError, "align is", align=None)
        says(ValueError, "share memory", out=self.q, v=self.k)
        says(ValueError, "'sinks' is float32 of the shape (4,)", sinks=floats(3))
        says(ValueError, "'alibi' is float32", alibi=floats(4).astype(np.float16))
        says(ValueError, "'padding' is int32 of the shape (4,)", padding=ints(1))
        says(ValueError, "'padding' has more keys than a sequence", padding=ints(8, 0, 0, 0))
        says(ValueError, "'padding' has more keys than a sequence, or fewer than 0", padding=ints(-1, 0, 0, 0))
        says(ValueError, "'bias' is float32 of the shape (1 or 4, 1 or 20, keys)", bias=floats(2, 20, 9))
        says(ValueError, "'bias' has 6 keys; a sequence has 7", bias=floats(4, 20, 6))
        says(ValueError, "before is a whole number above 0", before=0)
        says(ValueError, "chunk is a whole number above 0", chunk=1.5)


class Decode(Case):
    table, lengths = np.array([[3, 1], [0, 99], [2, 5]], np.int32), ints(7, 3, 0)
    q, k, v = random(3, 2, 8, 16), random(6, 4, 2, 16, seed=2), random(6, 4, 2, 24, seed=3)

    def test_every_row_is_written(self):
        """Also those of sequences without keys, or with fewer keys than queries: nothing is cleared before the kernel runs."""
        q, pools = random(4, 2, 4, 16), random(2, 12, 8, 2, 16, seed=3)
        table, lengths = ints(7, 2, 0, 9, -1, -1, 5, -1).reshape(4, 2), ints(13, 9, 0, 1)
        for on, gpu in ((None, None), ("emulator", "a100")):
            out = np.full(q.shape, np.nan, np.float16)
            o, lse = flashtl.decode(q, *pools, table, lengths, out=out, return_lse=True, on=on, gpu=gpu)
            self.assertTrue(np.isfinite(o).all() and not o[2].any() and not o[3, 0].any())
            self.assertTrue(np.isneginf(lse[2]).all() and np.isneginf(lse[3, 0]).all() and np.isfinite(lse[:2]).all())

    def test_total_keys(self):
        """About how many keys there are decides how a GPU splits them, never what comes out."""
        q, pools = random(2, 1, 4, 16), random(2, 12, 8, 2, 16, seed=3)
        given = q, *pools, ints(7, 2, 0, 9).reshape(2, 2), ints(13, 9)
        for total in (0, 22, 10 ** 9, np.int64(3)):
            np.testing.assert_array_equal(flashtl.decode(*given, total_keys=total), flashtl.decode(*given))
        for wrong in (-1, 1.5, True, "all"):
            self.says(ValueError, "total_keys is a whole number from 0 on, or None", flashtl.decode, *given, total_keys=wrong)

    def test_options(self):
        for causal, window, softcap in itertools.product((False, True), (None, 2), (None, 2.0)):
            options = {"causal": causal, "window": window, "softcap": softcap}
            o, lse = flashtl.decode(self.q, self.k, self.v, self.table, self.lengths, return_lse=True, **options)
            for b, (k, v) in enumerate(zip(*(pages_of(np.clip(self.table, 0, 5), self.lengths, pool) for pool in (self.k, self.v)))):
                wanted, wanted_lse = alone(self.q[b], k, v, **options)
                self.close(o[b], wanted, ROUNDING)
                self.close(lse[b], wanted_lse, 1e-6)

    def test_emulator(self):
        q, k, v = random(2, 1, 8, 64), random(6, 16, 2, 64, seed=2), random(6, 16, 2, 64, seed=3)
        table, lengths = np.array([[3, 1, 5], [0, 99, 4]], np.int32), ints(41, 16)
        found = flashtl.decode(q, k, v, table, lengths, on="emulator", gpu="a100")
        self.close(found, flashtl.decode(q, k, v, table, lengths).astype(np.float64), 4e-3)

    def test_refused(self):
        def says(kind, text, q=self.q, k=self.k, v=self.v, table=self.table, kv_lens=self.lengths, **named):
            self.says(kind, text, flashtl.decode, q, k, v, table, kv_lens, **named)

        says(ValueError, "'q' has the axes (batch, tokens, heads, d)", q=self.q[0])
        says(ValueError, "'v' has the axes (page, slot, heads, d)", v=self.v[0])
        says(TypeError, "'table' is missing", table=None)
        says(ValueError, "'table' is int32 of the shape (3, any)", table=self.table[:2])
        says(ValueError, "'kv_lens' is int32 of the shape (3)", kv_lens=ints(1))
        says(ValueError, "'kv_lens' has lengths from 0 to 8", kv_lens=ints(1, 9, 1))
        says(ValueError, "found 99 at (1, 1)", kv_lens=ints(1, 5, 1))
        says(ValueError, "multiple of those of k; found 3 and 2", q=self.q[:, :, :3])
        says(ValueError, "softcap is a number above 0", softcap=-1)
        says(ValueError, "'bias' is float32 of the shape (1 or 3, 1 or 8, 1 or 2, keys)", bias=floats(8, 2, 9))
        says(ValueError, "'bias' has 6 keys; a sequence has 7", bias=floats(1, 1, 1, 6))
        says(ValueError, "'padding' has more keys than a sequence", padding=ints(0, 4, 0))

    def test_scoring(self):
        padding, bias = ints(2, 3, 0), floats(3, 8, 2, 7)
        for options in ({"sinks": floats(8)}, {"alibi": abs(floats(8))}, {"bias": bias}, {"bias": bias[:, :1]}, {"padding": padding},
                        {"before": 3, "causal": False, "after": 2}, {"chunk": 3}, {"before": 2, "window": 5},
                        {"sinks": floats(8), "bias": bias, "padding": padding, "chunk": 4, "alibi": abs(floats(8))}):
            o, lse = flashtl.decode(self.q, self.k, self.v, self.table, self.lengths, return_lse=True, **options)
            for b, (k, v) in enumerate(zip(*(pages_of(np.clip(self.table, 0, 5), self.lengths, pool) for pool in (self.k, self.v)))):
                one = {"causal": True, **options, "first": options["padding"][b] if "padding" in options else 0}
                one.pop("padding", None), one.pop("window", None)
                if "bias" in one:
                    one["bias"] = np.broadcast_to(one["bias"], bias.shape)[b]
                wanted, wanted_lse = scored(self.q[b], k, v, 8, self.lengths[b] - 2, **one)
                self.close(o[b], wanted, ROUNDING)
                self.close(lse[b], wanted_lse, 1e-5)


class Latent(Case):
    table, lengths = np.array([[3, 1], [0, 99], [2, 5]], np.int32), ints(7, 3, 0)
    q, cache = random(3, 2, 5, 48), random(6, 4, 48, seed=2)

    def test_rows_are_keys_and_values(self):
        for cache, tokens in itertools.product((self.cache, self.cache[:, :, None]), (1, 2)):
            q = np.ascontiguousarray(self.q[:, :tokens])
            o, lse = flashtl.mla_decode(q, cache, self.table, self.lengths, scale=0.2, value_dim=32, return_lse=True)
            for b, (rows,) in enumerate(zip(pages_of(np.clip(self.table, 0, 5), self.lengths, self.cache[:, :, None]))):
                wanted, wanted_lse = scored(q[b], rows, rows[:, :, :32], 5, self.lengths[b] - tokens, scale=0.2, causal=True)
                self.close(o[b], wanted, ROUNDING)
                self.close(lse[b], wanted_lse, 1e-5)

    def test_emulator(self):
        q, cache, table = random(2, 1, 16, 576), random(3, 16, 576, seed=2), np.array([[2, 1], [0, 99]], np.int32)
        found = flashtl.mla_decode(q, cache, table, ints(25, 16), scale=192 ** -0.5, on="emulator", gpu="a100")
        self.close(found, flashtl.mla_decode(q, cache, table, ints(25, 16), scale=192 ** -0.5).astype(np.float64), 4e-3)

    def test_refused(self):
        def says(kind, text, q=self.q, cache=self.cache, table=self.table, kv_lens=self.lengths, scale=0.2, value_dim=32, **named):
            self.says(kind, text, flashtl.mla_decode, q, cache, table, kv_lens, scale=scale, value_dim=value_dim, **named)

        says(ValueError, "'cache' has the axes (page, slot, d)", cache=self.cache[0])
        says(ValueError, "'cache' has the axes (page, slot, d)", cache=self.cache.reshape(6, 2, 2, 48))
        says(ValueError, "value_dim is from 1 to 48", value_dim=56)
        says(ValueError, "before they were absorbed", scale=None)
        says(ValueError, "scale is a number above 0", scale=0)
        says(ValueError, "'q' has vectors of 40 elements", q=self.q[..., :40])
        says(ValueError, "'kv_lens' has lengths from 0 to 8", kv_lens=ints(1, 9, 1))
        says(TypeError, "'table' is missing", table=None)
