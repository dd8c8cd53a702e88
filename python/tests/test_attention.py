"""flashtl.attention on NumPy's arrays against fp64: options, alignments, layouts, empty arrays, and what it refuses."""
import itertools

import numpy as np

import flashtl
from helpers import Case, attention, random

ROUNDING = 1e-3  # of results of about 1 in float16; they are computed in fp64


def tensors(q_len=23, kv_len=23, heads=4, kv_heads=2, d=16, dv=16, batch=2):
    return (random(batch, heads, q_len, d), random(batch, kv_heads, kv_len, d, seed=2), random(batch, kv_heads, kv_len, dv, seed=3))


class Meaning(Case):
    def test_options(self):
        q, k, v = tensors()
        slopes = np.array([0.5, 0.25, 0.125, 2], np.float32)
        for causal, window, softcap, alibi, scale in itertools.product((False, True), (None, 5), (None, 2.5), (None, slopes), (None, 0.3)):
            with self.subTest(causal=causal, window=window, softcap=softcap, alibi=alibi is not None, scale=scale):
                options = {"causal": causal, "window": window, "softcap": softcap, "alibi": alibi, "scale": scale}
                o, lse = flashtl.attention(q, k, v, return_lse=True, **options)
                wanted, wanted_lse = attention(q, k, v, **options)
                self.assertEqual((o.dtype, lse.dtype), (np.float16, np.float32))
                self.close(o, wanted, ROUNDING)
                self.close(lse, wanted_lse, 1e-6)
                np.testing.assert_array_equal(flashtl.attention(q, k, v, **options), o)

    def test_lengths_and_alignments(self):
        for (q_len, kv_len), align in itertools.product(((7, 7), (3, 9), (9, 3), (1, 8), (8, 1)), ("first", "last")):
            with self.subTest(q_len=q_len, kv_len=kv_len, align=align):
                q, k, v = tensors(q_len, kv_len)
                o, lse = flashtl.attention(q, k, v, causal=True, align=align, return_lse=True)
                wanted, wanted_lse = attention(q, k, v, causal=True, align=align)
                self.close(o, wanted, ROUNDING)
                self.close(lse, wanted_lse, 1e-6)
        slopes = np.ones(4, np.float32)
        for options in ({"window": 2}, {"alibi": slopes}):
            q, k, v = tensors(3, 9)
            o = flashtl.attention(q, k, v, causal=True, align="first", **options)
            self.close(o, attention(q, k, v, causal=True, align="first", **options)[0], ROUNDING)

    def test_heads_and_head_sizes(self):
        for heads, kv_heads, d, dv in ((4, 4, 8, 24), (4, 1, 24, 8), (1, 1, 64, 128)):
            q, k, v = tensors(heads=heads, kv_heads=kv_heads, d=d, dv=dv)
            self.close(flashtl.attention(q, k, v), attention(q, k, v)[0], ROUNDING)

    def test_layouts_and_strides_without_copies(self):
        q, k, v = tensors()
        wanted = flashtl.attention(q, k, v, causal=True)
        turned = [x.transpose(0, 2, 1, 3) for x in (q, k, v)]
        np.testing.assert_array_equal(flashtl.attention(*turned, causal=True, layout="blhd"), wanted.transpose(0, 2, 1, 3))
        odd = [np.repeat(x, 2, axis=3)[..., ::2] for x in (q, k, v)]
        back = [x[:, :, ::-1].copy()[:, :, ::-1] for x in (q, k, v)]
        far = [np.asfortranarray(x) for x in (q, k, v)]
        for views in (odd, back, far):
            np.testing.assert_array_equal(flashtl.attention(*views, causal=True), wanted)
        packed = random(2, 23, 3, 4, 16)
        three = [packed[:, :, i] for i in range(3)]
        np.testing.assert_array_equal(flashtl.attention(*three, layout="blhd"),
                                      flashtl.attention(*(x.copy() for x in three), layout="blhd"))

    def test_out_is_written_in_place(self):
        q, k, v = tensors()
        room = np.zeros((2, 4, 23, 40), np.float16)
        out = room[..., 3:19]
        self.assertIs(flashtl.attention(q, k, v, out=out), out)
        np.testing.assert_array_equal(out, flashtl.attention(q, k, v))
        self.assertFalse(room[..., :3].any() or room[..., 19:].any())

    def test_empty(self):
        for batch, q_len, kv_len in ((0, 4, 4), (2, 0, 4), (2, 4, 0), (0, 0, 0)):
            with self.subTest(batch=batch, q_len=q_len, kv_len=kv_len):
                q, k, v = tensors(q_len, kv_len, batch=batch)
                o, lse = flashtl.attention(q, k, v, return_lse=True)
                self.assertEqual((o.shape, lse.shape), ((batch, 4, q_len, 16), (batch, 4, q_len)))
                self.assertFalse(o.any())
                self.assertTrue((lse == -np.inf).all())

    def test_emulator(self):
        q, k, v = tensors(70, 70, d=32, dv=32)
        views = q, k[:, :, ::-1], v.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)
        for gpu in ("t4", "h200"):
            o, lse = flashtl.attention(*views, causal=True, return_lse=True, on="emulator", gpu=gpu)
            wanted, wanted_lse = attention(*views, causal=True)
            self.close(o, wanted, 4e-3)
            self.close(lse, wanted_lse, 1e-3)


class Refused(Case):
    def test_shapes(self):
        q, k, v = tensors()
        says, run = self.says, flashtl.attention
        says(ValueError, "found an array of 3", run, q[0], k, v)
        says(ValueError, "found an array of 5", run, q, k[None], v)
        says(ValueError, "'k' one of 1", run, q, k[:1], v[:1])
        says(ValueError, "'v' one of 1", run, q, k, v[:1])
        says(ValueError, "'v' 1 heads of 23 values", run, q, k, v[:, :1])
        says(ValueError, "'v' 2 heads of 22 values", run, q, k, v[:, :, :22])
        says(ValueError, "found 3 and 2", run, q[:, :3], k, v)
        says(ValueError, "'q' has no heads", run, q[:, :0], k, v)
        says(ValueError, "'k' has no heads", run, q, k[:, :0], v[:, :0])
        says(ValueError, "'k' of 8", run, q, k[..., :8], v)
        says(ValueError, "that of 'q' is 12", run, q[..., :12], k[..., :12], v)
        says(ValueError, "that of 'v' is 0", run, q, k, v[..., :0])
        says(ValueError, "layout is 'bhld' or 'blhd'", run, q, k, v, layout="hbld")

    def test_types(self):
        q, k, v = tensors()
        says, run = self.says, flashtl.attention
        says(TypeError, "'q' has the type float64", run, q.astype(np.float64), k, v)
        says(TypeError, "float16 or bfloat16; 'q' is i8", run, q.astype(np.int8), k, v)
        says(TypeError, "'q' is f32 and 'k' is f16", run, q.astype(np.float32), k, v)
        single = [x.astype(np.float32) for x in (q, k, v)]
        says(TypeError, "'q' is f32, which the interpreter alone takes", run, *single, on="emulator", gpu="a100")
        found, wanted = run(*single, causal=True), attention(*single, causal=True)[0]
        self.assertEqual(found.dtype, np.float32)
        self.close(found, wanted, 1e-6)
        says(TypeError, "'v' is f32", run, q, k, v.astype(np.float32))
        says(TypeError, "the other byte order", run, q, k.astype(">f2"), v)
        says(TypeError, "a masked array", run, q, np.ma.masked_less(k, 0), v)
        says(TypeError, "found list", run, q.tolist(), k, v)
        says(TypeError, "found NoneType", run, q, None, v)

    def test_options(self):
        q, k, v = tensors()
        says, run = self.says, flashtl.attention
        for name, values in {"scale": (0, -1, float("nan"), float("inf"), "1", True), "softcap": (0, -2.0, float("nan")),
                             "window": (0, -3, 2.5, 2 ** 31, "4")}.items():
            for value in values:
                says(ValueError, f"{name} is a ", run, q, k, v, **{name: value})
        slopes = np.ones(4, np.float32)
        for alibi in (slopes[:3], slopes.astype(np.float16), slopes[:, None]):
            says(ValueError, "4 slopes", run, q, k, v, alibi=alibi)
        says(ValueError, "align is 'first' or 'last'", run, q, k, v, align="top")
        says(ValueError, "on is one of", run, q, k, v, on="cpu")
        says(ValueError, "needs a GPU", run, q, k, v, on="emulator")
        says(flashtl.Error, "'a100'", run, q, k, v, on="emulator", gpu="a10o")
        says(flashtl.Error, "no CUDA driver", run, q, k, v, on="gpu", gpu="a100")

    def test_alignment_has_to_be_said(self):
        says, run, slopes = self.says, flashtl.attention, np.ones(4, np.float32)
        for options in ({"causal": True}, {"window": 3}, {"alibi": slopes}):
            says(ValueError, "align='last'", run, *tensors(3, 9), **options)
        for options in ({"window": 3}, {"alibi": slopes}):
            says(ValueError, "causal attention alone", run, *tensors(3, 9), align="first", **options)
            says(ValueError, "no window and no alibi", run, *tensors(9, 3), causal=True, align="first", **options)
        run(*tensors(3, 9))  # all see all: nothing to say

    def test_out(self):
        q, k, v = tensors()
        says, run = self.says, flashtl.attention
        says(ValueError, "'out' is f16 of the shape", run, q, k, v, out=np.empty((2, 4, 23, 8), np.float16))
        says(ValueError, "'out' is f16 of the shape", run, q, k, v, out=np.empty((2, 4, 23, 16), np.float32))
        fixed = np.empty((2, 4, 23, 16), np.float16)
        fixed.flags.writeable = False
        says(ValueError, "may only be read", run, q, k, v, out=fixed)
        says(ValueError, "share memory", run, q, k, v, out=q)
        stacked = np.lib.stride_tricks.as_strided(np.empty(16, np.float16), q.shape, (0, 0, 0, 2))
        says(ValueError, "one place in memory", run, q, k, v, out=stacked)
