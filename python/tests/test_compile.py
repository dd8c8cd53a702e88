"""flashtl.compile on arrays: what comes back, the three texts, and what is refused, each with one sentence."""
import html
import os
import pickle
import subprocess
import tempfile

import numpy as np

import flashtl
from flashtl import _command
from helpers import Case, PASSED_SUM, SOURCE, attention, random

ATTENTION = flashtl.sketch("attention", causal=True, lse=True)
FOUR = """kernel four
Input  X f16 (b in batch; r in rows, c in deep)
Input  W i4 (b in batch; n in columns, c in deep)
Output Y f32 (b in batch; r in rows, n in columns)
for j = 0:deep/BK
    Copy X from global to shared
    Copy W from global to shared
    Compute GEMM X, W.T and accumulate S
end
Copy S from register to global and get Y
"""
ADD = """kernel add
Input  X (row in rows, column in columns)
Input  Z (row in rows, column in columns)
Output Y (row in rows, column in columns)
Output T f32 (row in rows)

for j = 0:columns/BN
    Copy X from global to register
    Copy Z from global to register
    Compute Add X, Z and get S
    Copy S from register to global and get Y
    Compute RowSum S and accumulate T
end
Copy T from register to global
"""
GATHER = """kernel gather
Input  X (page in pages; column in columns)
Input  table i32 (row in rows)
Input  times i32
Input  scale f32
Output Y f32 (row in rows, column in columns)
let R (row in rows, column in columns) = X[table[row], column]

for j = 0:columns/BN
    Copy R from global to register
    Compute Multiply R, scale*times and get S
    Copy S from register to global and get Y
end
"""
PLACE = """kernel place
Input  X (row in rows, column in columns)
Input  spot i32 (row in rows)
Output C (s in slots, column in columns) kept
let R (row in rows, column in columns) = C[spot[row], column]

for j = 0:columns/BN
    Copy X from global to register and get S
    Copy S from register to global and get R
end
"""
SUM = """kernel sum
Input  X f32 (row in rows, column in columns)
Output Y f32 (row in rows, column in columns)
Copy X from global to register
Copy X from register to global and accumulate Y
"""


def inputs(q_len=20, kv_len=30):
    return {"Q": random(2, 4, q_len, 64), "K": random(2, 2, kv_len, 64, seed=2), "V": random(2, 2, kv_len, 64, seed=3)}


class Results(Case):
    def test_fused_gradients(self):
        given = {name: random(1, 2, 40, 16, seed=seed) for seed, name in enumerate(("Q", "K", "V"), 1)}
        found = []
        for fused in (False, True):
            text = flashtl.derive(flashtl.sketch("mha", causal=True), fused=fused)
            self.assertEqual("and accumulate dQ_sum" in text, fused)
            second = text.index("\nkernel ", text.index("kernel ") + 1)
            forward, gradients = (flashtl.compile(part, d=16, dv=16) for part in (text[:second], text[second:]))
            made = forward(**given, scale=0.3)
            found.append(gradients(**given, dO=random(1, 2, 40, 16, seed=4), O=made.O, lse=made.lse, scale=0.3))
        for name in ("dQ", "dK", "dV"):
            self.close(found[1][name], found[0][name], 1e-3)

    def test_outputs_by_name_and_place(self):
        given = inputs()
        program = flashtl.compile(ATTENTION)
        found = program(**given, scale=0.125)
        o, lse = found
        self.assertEqual(found.names, ("O", "lse"))
        self.assertIs(found.O, o)
        self.assertIs(found["lse"], lse)
        wanted, wanted_lse = attention(given["Q"], given["K"], given["V"], causal=True)
        self.close(o, wanted, 1e-3)
        self.close(lse, wanted_lse, 1e-6)
        self.assertEqual(pickle.loads(pickle.dumps(found)).names, found.names)
        self.says(AttributeError, "there are O, lse", getattr, found, "P")
        self.assertEqual(repr(program), "<flashtl.Program <sketch>: Q, K, V, scale -> O, lse>")

    def test_numbers(self):
        program, x = flashtl.compile(GATHER), random(5, 24)
        table = np.array([4, 0, 4, 2], np.int32)
        for scale in (2, 2.0, np.float32(2), np.array(2.0), np.int64(2)):
            np.testing.assert_array_equal(program(X=x, table=table, times=3, scale=scale).Y, 6 * x[table].astype(np.float32))
        self.says(ValueError, "'times' is a whole number", program, X=x, table=table, times=2.5, scale=1)
        self.says(TypeError, "'times' is a number", program, X=x, table=table, times="3", scale=1)
        self.says(TypeError, "the Input 'times' is missing", program, X=x, table=table, scale=1)
        self.says(TypeError, "'table' is i32 in the program", program, X=x, table=table.astype(np.float32), times=3, scale=1)
        for wrong in (-1, 5, 2 ** 31 - 1):
            with self.assertRaises(flashtl.DiagnosticError):  # beside its array: nothing is read there
                program(X=x, table=np.array([0, wrong, 0, 0], np.int32), times=3, scale=1)

    def test_types_are_those_of_the_arrays(self):
        import ml_dtypes
        x, z = random(3, 40), random(3, 40, seed=2)
        for kind in (np.float16, ml_dtypes.bfloat16):
            y, t = flashtl.compile(ADD)(X=x.astype(kind), Z=z.astype(kind))
            total = x.astype(kind).astype(np.float64) + z.astype(kind).astype(np.float64)
            self.assertEqual(y.dtype, kind)
            np.testing.assert_array_equal(y, total.astype(kind))
            self.close(t, total.sum(axis=1), 1e-6)
        y, _ = flashtl.compile(ADD, dtype="f32")(X=x.astype(np.float32), Z=z.astype(np.float32))
        self.assertEqual(y.dtype, np.float32)
        self.says(TypeError, "'X' is f32 in the program; its array is f16", flashtl.compile(ADD, dtype="f32"), X=x, Z=z)
        mixed = flashtl.compile(ADD, types={"Z": "e4m3"})
        eight = z.astype(ml_dtypes.float8_e4m3fn)
        np.testing.assert_array_equal(mixed(X=x, Z=eight).Y, (x.astype(np.float64) + eight.astype(np.float64)).astype(np.float16))
        self.says(TypeError, "'Z' is e4m3 in the program", mixed, X=x, Z=z)

    def test_two_elements_a_byte(self):
        random_bytes = np.random.default_rng(5).integers(0, 256, (2, 24, 32), np.uint8)
        x = np.random.default_rng(6).integers(-4, 5, (2, 10, 64)).astype(np.float16)
        codes = np.stack([random_bytes & 15, random_bytes >> 4], -1).reshape(2, 24, 64).astype(np.int64)
        right = x.astype(np.int64) @ (np.where(codes > 7, codes - 16, codes)).transpose(0, 2, 1)
        for on in (None, "emulator"):
            program = flashtl.compile(FOUR, gpu="a100", on=on)
            np.testing.assert_array_equal(program(X=x, W=random_bytes).Y, right)
            apart = np.zeros((2, 24, 48), np.uint8)[:, :, :32]
            apart[...] = random_bytes
            np.testing.assert_array_equal(program(X=x, W=apart).Y, right)
            np.testing.assert_array_equal(program(X=x[:, :, :32], W=random_bytes[:, ::2, :16]).Y, x[:, :, :32].astype(np.int64) @ (
                np.where(codes > 7, codes - 16, codes))[:, ::2, :32].transpose(0, 2, 1))
        self.says(TypeError, "'W' is i4 in the program: an array of uint8 with two elements a byte; found int8", program, X=x, W=random_bytes.view(np.int8))
        self.says(ValueError, "the bytes of its last axis lie side by side", program, X=x[:, :, :32], W=random_bytes[:, :, ::2])
        self.says(TypeError, "'X' is f16 in the program; its array is uint8", program, X=np.zeros((2, 10, 64), np.uint8), W=random_bytes)

    def test_outputs_that_are_given(self):
        x, z, y = random(3, 40), random(3, 40, seed=2), np.zeros((3, 80), np.float16)
        program = flashtl.compile(ADD)
        found = program(X=x, Z=z, Y=y[:, ::2])
        np.testing.assert_array_equal(y[:, ::2], found.Y)
        np.testing.assert_array_equal(y[:, ::2], program(X=x, Z=z).Y)
        self.assertFalse(y[:, 1::2].any())
        self.says(ValueError, "'Y' is written while 'X' is in use", program, X=x, Z=z, Y=x)
        self.says(ValueError, "'Y' is written while 'Z' is in use", program, X=x, Z=y[:, 2:42], Y=y[:, :40])
        program(X=y[:, 1::2], Z=z, Y=y[:, ::2])  # beside one another: nothing is shared
        fixed = np.zeros((3, 40), np.float16)
        fixed.flags.writeable = False
        self.says(ValueError, "'Y' is an Output, and its array may only be read", program, X=x, Z=z, Y=fixed)
        self.says(ValueError, "one place in memory", program, X=x, Z=z, Y=np.lib.stride_tricks.as_strided(fixed.copy(), (3, 40), (0, 2)))
        program(X=fixed, Z=np.broadcast_to(z[:1], (3, 40)))  # Inputs may be both

    def test_outputs_that_begin_with_something(self):
        """What is added to, and what is written in part: it is what is given, else 0."""
        x, spots = random(2, 64), np.array([3, 1], np.int32)
        for machine in ({}, {"on": "emulator", "gpu": "a100", "columns": 64}):
            place, add = flashtl.compile(PLACE, **machine), flashtl.compile(SUM, **machine)
            wanted = np.zeros((5, 64), np.float16)
            wanted[spots] = x
            np.testing.assert_array_equal(place(X=x, spot=spots, slots=5).C, wanted)
            self.says(ValueError, "the length 'slots' of 'C'", place, X=x, spot=spots)
            full = random(5, 64, seed=4)
            wanted = full.copy()
            wanted[spots] = x
            self.assertIs(place(X=x, spot=spots, C=full).C, full)
            np.testing.assert_array_equal(full, wanted)
            one = x.astype(np.float32)
            total = add(X=one).Y
            np.testing.assert_array_equal(total, one)
            add(X=one, Y=total)
            np.testing.assert_array_equal(total, 2 * one)

    def test_dlpack(self):
        class Foreign:
            """An array of which only DLPack's side is known."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **named):
                return self.array.__dlpack__(**named)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            shape = property(lambda self: self.array.shape)

        class Interface:
            def __init__(self, array):
                self.keep, self.__array_interface__ = array, array.__array_interface__

        x, z = random(40, 3).T, random(3, 40, seed=2)[::-1]
        wanted = flashtl.compile(ADD)(X=x, Z=z).Y
        for wrap in (Foreign, Interface):
            np.testing.assert_array_equal(flashtl.compile(ADD)(X=wrap(x), Z=wrap(z)).Y, wanted)
        self.says(TypeError, "'X' has the type", flashtl.compile(ADD), X=Foreign(x.astype(np.float64)), Z=z)
        self.says(TypeError, "'X' is to be an array", flashtl.compile(ADD), X=[[1, 2]], Z=z)

    def test_lengths_that_no_array_shows(self):
        text = (SOURCE / "tests/golden/tl/paged_decode.tl").read_text()
        q, pool = random(2, 8, 1, 128), [random(6, 16, 2, 128, seed=seed) for seed in (2, 3)]
        table = np.array([[5, 1, 3], [0, 2, 4]], np.int32)
        lengths = np.array([41, 7], np.int32)
        given = {"Q_all": q, "K_pool": pool[0], "V_pool": pool[1], "table": table, "kv_lens": lengths, "scale": 128 ** -0.5}
        found = [flashtl.compile(text, on=on)(**given, splits=splits).O for on in ("interpreter", "emulator") for splits in (1, 3)]
        for sequence, length in enumerate(lengths):
            k, v = (part[table[sequence]].reshape(1, -1, 2, 128).transpose(0, 2, 1, 3)[:, :, :length] for part in pool)
            wanted, _ = attention(q[sequence:sequence + 1], k, v)
            for o in found:
                self.close(o[sequence:sequence + 1], wanted, 4e-3)
        self.says(ValueError, "'splits'", flashtl.compile(text, on="emulator"), **given)
        self.says(ValueError, "'splits' is a length; found 1.5", flashtl.compile(text), **given, splits=1.5)
        self.says(ValueError, "'splits' is a length; found -1", flashtl.compile(text), **given, splits=-1)

    def test_emulator(self):
        given = inputs(70, 90)
        given["K"] = given["K"][..., ::-1]  # no kernel takes this: it is laid out anew
        program = flashtl.compile(ATTENTION, gpu="a100", on="emulator", BN=32)
        found = program(**given, scale=0.125)
        wanted, wanted_lse = attention(given["Q"], given["K"], given["V"], causal=True)
        self.close(found.O, wanted, 4e-3)
        self.close(found.lse, wanted_lse, 1e-3)
        again = program(**{name: array[:, :, :50] for name, array in given.items()}, scale=0.125)
        self.assertEqual(again.O.shape, (2, 4, 50, 64))

    def test_sums_that_kernels_pass_on(self):
        x, at = random(9, 64).astype(np.float32), np.array([4, 0, 2, 4, 4, 6, 0, 5, 4], np.int32)
        wanted = np.ones((7, 64), np.float32)
        np.add.at(wanted, at, 2 * x)
        for on in ("interpreter", "emulator"):
            found = flashtl.compile(PASSED_SUM, gpu="a100", on=on)(X=x, at=at, g_len=7)
            np.testing.assert_allclose(found.O, wanted, rtol=1e-5, atol=1e-5)

    def test_findings_of_the_emulator_are_shown(self):
        text = flashtl.compile(GATHER, gpu="a100", columns=64, BN=64)
        program = flashtl.compile(text.tl, on="emulator")
        with self.assertRaises(flashtl.Error) as caught:
            program(X=random(5, 64), table=np.array([0, 10 ** 6, 0, 0], np.int32), times=1, scale=1)
        self.assertEqual(caught.exception.status, "CHECK_FAILED")
        self.assertIn("gather.cu:", str(caught.exception))


class Texts(Case):
    def test_stages(self):
        program = flashtl.compile(ATTENTION, gpu="a100", d=64, dv=64, BN=32)
        self.assertIn("kernel attention for a100", program.tl)
        self.assertIn("BN = 32", program.tl)
        self.assertIn("__global__", program.cuda)
        self.assertIn(".target sm_80", program.ptx)
        self.assertIn("tile sizes (tile)", program.explain())
        again = flashtl.compile(program.tl)
        self.assertEqual((again.tl, again.cuda), (program.tl, program.cuda))

    def test_as_the_command_has_them(self):
        with tempfile.NamedTemporaryFile("w", suffix=".tl") as file:
            file.write(ATTENTION)
            file.flush()
            options = ["--gpu", "l40s", "--head-dim", "64", file.name]
            run = {name: subprocess.run([_command.PATH, name, *options], capture_output=True, text=True).stdout
                   for name in ("reason", "explain")}
        program = flashtl.compile(ATTENTION, gpu="l40s", d=64, dv=64)
        self.assertEqual(program.tl, run["reason"])
        self.assertEqual(program.explain(), run["explain"])

    def test_verify(self):
        program = flashtl.compile(ATTENTION, gpu="a100", d=32, dv=32)
        found = program.verify(shapes="5x7")
        self.assertTrue(found)
        self.assertEqual(found.failed, 0)
        self.assertEqual(found.total, len(found.cases))
        self.assertIn("passed", repr(found))
        wrong = program.tl.replace("scale*1.44269504", "scale*1.5")
        self.assertTrue(wrong != program.tl)
        found = flashtl.compile(wrong).verify(against=ATTENTION, shapes="70x300")
        self.assertFalse(found)
        self.assertGreater(found.failed, 0)
        self.says(flashtl.Error, "shape 'many'", program.verify, shapes="many")

    def test_view(self):
        program = flashtl.compile(ATTENTION, gpu="a100", d=32, dv=32)
        page = program.view(compile=False)
        self.assertIsInstance(page, str)
        self.assertTrue(page.startswith("<!doctype html>") and page.endswith("</html>\n"))
        for text in ("sketch", "code", "cuda"):
            self.assertIn(f"<section class=pane id={text}>", page)
        self.assertNotIn("<section class=pane id=ptx>", page)
        frame = page._repr_html_()
        self.assertTrue(frame.startswith("<iframe srcdoc=") and "<script" not in frame, frame[:100])
        self.assertEqual(html.unescape(frame.split('"')[1]), page)
        self.assertIn("PTX", program.view())
        self.assertNotIn("<section class=pane id=sketch>", flashtl.compile(program.tl).view(compile=False))
        with self.assertRaisesRegex(flashtl.DiagnosticError, "no tile sizes fit"):
            flashtl.compile(ATTENTION, gpu="a100", d=32, dv=32, BN=7).view()
        self.says(ValueError, "needs a GPU", flashtl.compile(ATTENTION).view)

    def test_sketches_and_gpus(self):
        self.assertIn("h200", flashtl.gpus())
        self.assertNotIn("Mask", flashtl.sketch("attention"))
        self.assertIn("let window = 77", flashtl.sketch("gqa", window=77, alibi=False, softcap=None))
        self.says(flashtl.Error, "did you mean", flashtl.sketch, "atention")
        self.says(flashtl.Error, "slidng", flashtl.sketch, "attention", slidng=3)


class Refused(Case):
    def test_diagnostics_are_those_of_the_command(self):
        wrong = ATTENTION.replace("Softmax", "Softmix")
        with self.assertRaises(flashtl.DiagnosticError) as caught:
            flashtl.compile(wrong, name="<stdin>")
        error = caught.exception
        run = subprocess.run([_command.PATH, "check", "-"], input=wrong, capture_output=True, text=True, env={**os.environ, "NO_COLOR": "1"})
        self.assertEqual(str(error), run.stderr.rstrip("\n"))
        line = wrong[:wrong.index("Softmix")].count("\n") + 1
        self.assertEqual((error.id, error.file, error.line, error.column), ("UNKNOWN_OPERATION", "<stdin>", line, 13))
        self.assertEqual((error.message, error.status), ("unknown operation 'Softmix'", "REJECTED"))
        self.assertIn("did you mean 'Softmax'", error.hint)
        self.assertEqual(len(error.diagnostics), 1)
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(copy), copy.line), (str(error), error.line))

    def test_texts_and_options(self):
        says = self.says
        says(TypeError, "a sketch is a text; found bytes", flashtl.compile, ATTENTION.encode())
        says(ValueError, "dtype is", flashtl.compile, ATTENTION, dtype="f64")
        says(ValueError, "on is one of", flashtl.compile, ATTENTION, on="cpu")
        says(ValueError, "did you mean 'BM'", flashtl.compile, ATTENTION, BQ=4)
        says(ValueError, "'BM' is a whole number", flashtl.compile, ATTENTION, BM="x")
        says(flashtl.Error, "did you mean 'a100'", flashtl.compile, ATTENTION, gpu="a10o")
        says(flashtl.Error, "'R'", flashtl.compile, ATTENTION, types={"R": "e4m3"})
        says(ValueError, "e4m4", flashtl.compile, ATTENTION, types={"K": "e4m4"})
        for text in ("", "kernel", "\0", "kernel x\n" * 3, "\N{SNOWMAN}"):
            with self.assertRaises(flashtl.DiagnosticError):
                flashtl.compile(text)
        for stage in ("tl", "cuda", "ptx"):
            says(ValueError, "needs a GPU", getattr, flashtl.compile(ATTENTION), stage)
            with self.assertRaises(flashtl.DiagnosticError) as caught:
                getattr(flashtl.compile(ATTENTION, gpu="t4"), stage)
            self.assertIn("the length of d is open", caught.exception.message)

    def test_arrays(self):
        program, given, says = flashtl.compile(ATTENTION), inputs(), self.says

        def wrong(kind, text, **other):
            says(kind, text, program, **{**given, "scale": 1, **other})

        wrong(TypeError, "'K' is f16 in the program; its array is f32", K=given["K"].astype(np.float32))
        wrong(TypeError, "'K' has the type float64", K=given["K"].astype(np.float64))
        wrong(TypeError, "'K' has the type complex64", K=given["K"].astype(np.complex64))
        wrong(TypeError, "the other byte order", K=given["K"].astype(">f2"))
        wrong(TypeError, "a masked array", K=np.ma.masked_less(given["K"], 0))
        wrong(TypeError, "'K' is to be an array", K=None)
        wrong(TypeError, "'K' is to be an array", K=3)
        wrong(TypeError, "'K' is an array in the program", K=np.float16(3))
        wrong(TypeError, "'scale' is a number in the program", scale=given["K"])
        wrong(TypeError, "'scale' is a number in the program", scale=None)
        wrong(ValueError, "has 4 axes; its array has 3", K=given["K"][0])
        wrong(ValueError, "at most 8", K=given["K"].reshape(2, 2, 30, 64, 1, 1, 1, 1, 1))
        wrong(ValueError, "'batch' is 2 in 'Q' and 1 in 'K'", K=given["K"][:1])
        wrong(ValueError, "'d' is 64 in 'Q' and 32 in 'K'", K=given["K"][..., :32])
        wrong(ValueError, "'kv_len' is 30 in 'K' and 7 in 'V'", V=given["V"][:, :, :7])
        wrong(ValueError, "q_heads % kv_heads == 0", Q=given["Q"][:, :3])
        wrong(ValueError, "scale > 0", scale=-1)
        wrong(ValueError, "'q_len' is 20 in 'Q' and 9 in 'O'", O=np.empty((2, 4, 9, 64), np.float16))
        wrong(TypeError, "the program has no 'W'; it has Q, K, V, O, lse, scale", W=1)
        says(TypeError, "the Input 'Q' is missing", program, K=given["K"], V=given["V"], scale=1)
        says(TypeError, "the Input 'scale' is missing", program, **given)
        with self.assertRaises(flashtl.DiagnosticError) as caught:
            program(**{**given, "K": given["K"][:, :0], "V": given["V"][:, :0]}, scale=1)
        self.assertEqual(caught.exception.message, "'q_heads % kv_heads == 0' has no value here")
        bytes_between = np.zeros((2, 2, 30 * 64 * 3), np.uint8)
        thirds = np.lib.stride_tricks.as_strided(bytes_between.view(np.float16), (2, 2, 30, 64), (11520, 5760, 192, 3))
        wrong(ValueError, "no whole elements", K=thirds)
        says(ValueError, "'d' is 64", flashtl.compile(ATTENTION, d=64), **{name: array[..., :32] for name, array in given.items()}, scale=1)

    def test_empty_arrays(self):
        program = flashtl.compile(ATTENTION)
        for machine in (program, flashtl.compile(ATTENTION, gpu="a100", on="emulator")):
            o, lse = machine(Q=random(2, 4, 3, 64), K=random(2, 2, 0, 64), V=random(2, 2, 0, 64), scale=1)
            self.assertFalse(o.any())
            self.assertTrue((lse == -np.inf).all())
            self.assertEqual(machine(Q=random(0, 4, 3, 64), K=random(0, 2, 5, 64), V=random(0, 2, 5, 64), scale=1).O.shape, (0, 4, 3, 64))

    def test_no_driver(self):
        error = self.says(flashtl.Error, "no CUDA driver", flashtl.compile(ATTENTION, on="gpu"), **inputs(), scale=1)
        self.assertEqual(error.status, "NO_DRIVER")
