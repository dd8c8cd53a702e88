#!/usr/bin/env python3
"""Traces, bytes and tables of bench/serving.py, which need no GPU and no PyTorch."""
import ctypes
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(sys.argv.pop(1))
LIBRARIES = [sys.argv.pop(1) for _ in sys.argv[1:4]]  # FlashTL's, and a driver and a compiler that run nothing; or none
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))
import calls  # noqa: E402
import traces  # noqa: E402

# A Python in which PyTorch cannot be imported, whether it is there or not.
ALONE = ("import sys, runpy; sys.modules['torch'] = None; sys.argv = sys.argv[1:]; "
         "sys.path.insert(0, sys.argv[0].rpartition('/')[0]); runpy.run_path(sys.argv[0], run_name='__main__')")


def serving(*arguments):
    return subprocess.run([sys.executable, "-c", ALONE, str(BENCH / "serving.py"), *arguments], capture_output=True, text=True)


def result(trace, **times):
    return {"plan": trace.plan(), "row": trace.row, "gpu": "X", "read_rate": 4000.0,
            "times": {name: {"us": us, "spread": 0.01, "error": 1e-4} if us else {"why": "it is not here"} for name, us in times.items()}}


class Lengths(unittest.TestCase):
    def test_every_trace(self):
        for kind in traces.LENGTHS:
            for batch, longest in ((1, 1), (1, 9), (2, 8192), (64, 32768), (256, 1024), (256, 3)):
                found = traces.lengths_of(kind, batch, longest)
                self.assertEqual((len(found), max(found)), (batch, longest), kind)
                self.assertGreaterEqual(min(found), 1)
                self.assertEqual(found, traces.lengths_of(kind, batch, longest), "drawn again, they are the same")

    def test_shapes(self):
        self.assertEqual(sorted(traces.lengths_of("zipf", 4, 1200)), [300, 400, 600, 1200])
        self.assertEqual(sorted(traces.lengths_of("one-long", 3, 6400)), [100, 100, 6400])
        evenly = traces.lengths_of("uniform", 256, 10000)
        self.assertTrue(4000 < sum(evenly) / 256 < 6000)
        self.assertNotEqual(evenly, traces.lengths_of("uniform", 256, 10000, seed=2))

    def test_refused(self):
        for arguments in (("gauss", 1, 1), ("equal", 0, 1), ("equal", 1, 0)):
            self.assertRaises(ValueError, traces.lengths_of, *arguments)


class Traces(unittest.TestCase):
    def test_tables(self):
        for trace in [t for name in traces.SUITES for t in traces.suite(name) if t.batch <= 64]:
            rows, count = trace.table()
            self.assertEqual(sorted(page for row in rows for page in row), list(range(count)), "each page has one owner")
            for length, row in zip(trace.lengths, rows if trace.page_len else []):
                self.assertTrue((len(row) - 1) * trace.page_len < length <= len(row) * trace.page_len)
            self.assertEqual(trace.columns, max(map(len, rows)))

    def test_bytes(self):
        trace = traces.Trace("own", "zipf", 3, 100, 16, 32, 8, 128, 64)
        self.assertEqual(trace.key_bytes(), (100 + 50 + 33) * 8 * (128 + 64) * 2)
        self.assertEqual(trace.flops(), 2 * 32 * (100 + 50 + 33) * (128 + 64))
        latent = traces.Trace("own", "equal", 2, 10, 64, 128, 1, 576, 512)
        self.assertEqual(latent.key_bytes(), 2 * 10 * 576 * 2, "values are a part of the keys, and read with them")

    def test_prompts(self):
        trace = traces.Trace("own", "zipf", 2, 4, 0, 32, 8, 128, 128, 0)
        self.assertEqual((trace.flops(), trace.columns), (2 * 32 * (10 + 3) * 256, 0), "a query sees the keys up to its own")
        self.assertEqual(trace.row, "32/8 heads, d 128, prompts")
        for trace in traces.suite("prefill"):
            self.assertTrue(65536 - 32 <= sum(trace.lengths) <= 65536, trace)
        self.assertEqual({(t.kind, t.page_len) for t in traces.suite("prefill")},
                         {("zipf", 0), ("zipf", 64), ("zipf", 128), ("equal", 0), ("equal", 64)})
        self.assertEqual(traces.longest_of("zipf", 4, sum(traces.lengths_of("zipf", 4, 1200))), 1200)

    def test_suites(self):
        decode = list(traces.suite("decode"))
        self.assertEqual(len(decode), 24)
        self.assertEqual({t.page_len for t in decode}, {16, 64})
        self.assertEqual({t.kind for t in traces.suite("ragged")}, {"uniform", "zipf", "one-long"})
        self.assertEqual([t.batch for t in traces.suite("batch")], [1, 2, 4, 8, 16, 32, 64, 128, 256])
        self.assertTrue(all(t.is_latent for t in traces.suite("mla")))
        self.assertEqual(next(traces.suite("mla", "bf16")).dtype, "bf16")
        self.assertRaises(ValueError, lambda: list(traces.suite("none")))


class Table(unittest.TestCase):
    def test_rates_and_ratios(self):
        trace = traces.Trace("decode", "equal", 1, 8192, 16, 32, 8, 128, 128)  # 33.5 MB
        text = traces.table([result(trace, ours=10.0, cudnn=16.0, fa2=20.0), result(trace, ours=20.0, untold=25.0, cudnn=None, fa2=None),
                             result(trace, ours=None, cudnn=16.0)], 4000.0)
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| equal")]
        self.assertEqual(rows[0], ["equal", "1", "8192…8192", "16", "33.6", "10.0", "3355", "0.84", "13.4", "–", "16.0", "20.0", "–", "1.60"])
        self.assertEqual(rows[1][5:], ["20.0", "1678", "0.42", "6.7", "25.0", "–", "–", "–", "–"])
        self.assertEqual(rows[2][5:8], ["it is not here", "–", "–"])
        self.assertIn("**decode: 32/8 heads, d 128**", text)
        self.assertIn("geometric mean 1.60, least 1.60, of 1 traces", text)
        widths = {line.count("|") for line in text.splitlines() if line.startswith("|")}
        self.assertEqual(widths, {len(traces.COLUMNS) + 1})


class Array:
    """As much of a tensor as a call needs: dense, with no memory but that of tables."""

    def __init__(self, *shape, values=None):
        self.shape = shape
        self.memory = (ctypes.c_int32 * len(values))(*values) if values is not None else None

    def data_ptr(self):
        return ctypes.addressof(self.memory) if self.memory else 1 << 20

    def stride(self):
        steps = [1]
        for length in self.shape[:0:-1]:
            steps.append(steps[-1] * length)
        return tuple(reversed(steps))


def arrays_of(trace):
    """Queries, keys, values, results and tables, as bench/serving.py makes them."""
    rows, count = trace.table()
    tokens = sum(trace.lengths)
    places = (count, trace.page_len) if trace.page_len else (tokens,)
    queries = (tokens,) if trace.is_prompts else (trace.batch, trace.q_len)
    starts = [sum(trace.lengths[:b]) for b in range(trace.batch + 1)]
    table = [page for row in rows for page in row + [2147480000] * (trace.columns - len(row))]
    return (Array(*queries, trace.q_heads, trace.d), Array(*places, trace.kv_heads, trace.d), Array(*places, trace.kv_heads, trace.dv),
            Array(*queries, trace.q_heads, trace.dv), Array(trace.batch + 1, values=starts),
            Array(trace.batch, trace.columns, values=table or [0]), Array(trace.batch, values=trace.lengths))


@unittest.skipUnless(any(LIBRARIES), "there is no library to call")
class Calls(unittest.TestCase):
    """What the calls are given fits their kernels; their tables are looked at, too."""

    @classmethod
    def setUpClass(cls):
        os.environ["FLASHTL_CHECK"] = "1"
        cls.c, cls.library, cls.driver = calls.structs(), ctypes.CDLL(LIBRARIES[0]), ctypes.CDLL(LIBRARIES[1])
        record = (ctypes.c_int * 21).in_dll(cls.driver, "fake_cuda")  # the beginning of fake_record
        record[6], record[7], record[8] = 80, 1, 13000  # capability, devices, version
        cls.record = record
        ctypes.c_size_t.from_address(ctypes.addressof(record) + 96).value = 256  # parameter_bytes
        cls.library.ftl_context_error.restype = ctypes.c_char_p
        cls.context, cls.runtime = ctypes.c_void_p(), ctypes.c_void_p()
        cls.must(cls.library.ftl_context_new(ctypes.byref(cls.context)))
        kind = cls.c.ftl_runtime_options
        options = kind(ctypes.sizeof(kind), LIBRARIES[1].encode(), LIBRARIES[2].encode(), b"", True)
        cls.must(cls.library.ftl_runtime_open(cls.context, ctypes.byref(options), ctypes.byref(cls.runtime)))

    @classmethod
    def tearDownClass(cls):
        cls.library.ftl_runtime_close(cls.runtime)
        cls.library.ftl_context_free(cls.context)

    @classmethod
    def must(cls, status):
        if status:
            raise AssertionError((cls.library.ftl_context_error(cls.context) or b"").decode())

    def launch(self, name, call, launches):
        before = self.record[11]
        self.must(getattr(self.library, name)(self.context, self.runtime, ctypes.byref(call), None))
        self.assertEqual(self.record[11] - before, launches)

    def test_prompts(self):
        for trace in traces.suite("prefill"):
            q, k, v, o, starts, table, lengths = arrays_of(trace)
            name, call = calls.prompts(self.c, trace, 0.1, q, k, v, o, starts, table, lengths)
            self.launch(name, call, 1)
        table.memory[0] = 1 << 30
        self.assertRaisesRegex(AssertionError, "there are 1024 pages", self.launch, name, call, 1)

    def test_decoding(self):
        # Sequences whose rooms are taken for full are one split here, which is one kernel; stretches are two more, for tables.
        for suite, launches in (("guessed", (4, 1)), ("mla", (2, 2))):
            trace = next(traces.suite(suite))
            q, k, v, o, starts, table, lengths = arrays_of(trace)
            sizes = []
            for is_told in (True, False):
                name, call = calls.decode(self.c, trace, 0.1, q, k, v, o, table, lengths, is_told)
                size = ctypes.c_size_t()
                self.must(getattr(self.library, name + "_workspace")(self.context, self.runtime, ctypes.byref(call), ctypes.byref(size)))
                call.workspace, call.workspace_bytes = 1 << 20, size.value
                self.launch(name, call, launches[not is_told])
                sizes.append((size.value, self.record[16]))
            self.assertEqual(sizes[0] != sizes[1], trace.kind == "zipf", "where lengths differ, keys are divided by them")


class Command(unittest.TestCase):
    def test_plan(self):
        done = serving("--suite", "decode,mla", "--plan")
        plans = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual((done.returncode, len(plans), done.stderr), (0, 24 + 6, ""))
        self.assertEqual(plans[0]["key_bytes"], 1024 * 8 * 256 * 2)

    def test_own_trace(self):
        done = serving("--trace", "one-long", "--batch", "8", "--keys", "640", "--heads", "64:8", "--dims", "576:512", "--plan")
        plan = json.loads(done.stdout)
        self.assertEqual((plan["keys"], plan["q_heads"], plan["kv_heads"], plan["d"], plan["dv"]), (640 + 7 * 10, 64, 8, 576, 512))

    def test_examples_of_the_help(self):
        text = serving("--help").stdout
        examples = re.findall(r"^    bench/serving\.py(.*?)(?:  +[^-\s].*)?$", text, re.M)
        self.assertGreaterEqual(len(examples), 5)
        for example in examples:
            if "--read" not in example:
                done = serving(*example.split(), *([] if "--plan" in example else ["--plan"]))
                self.assertEqual((done.returncode, done.stderr), (0, ""), example)
                self.assertTrue(done.stdout)

    def test_read(self):
        trace = traces.Trace("decode", "equal", 1, 8192, 16, 32, 8, 128, 128)
        with tempfile.TemporaryDirectory() as folder:
            file, made = pathlib.Path(folder, "r.jsonl"), pathlib.Path(folder, "r.md")
            file.write_text(json.dumps(result(trace, ours=10.0, cudnn=16.0)) + "\n")
            self.assertEqual(serving("--read", str(file), "--table", str(made)).returncode, 0)
            self.assertEqual(made.read_text(), traces.table([result(trace, ours=10.0, cudnn=16.0)], 4000.0))

    def test_wrong(self):
        for arguments, words in ((["--suite", "x"], "'x' is no suite"), (["--trace", "x"], "'x' is no trace"),
                                 (["--trace", "equal", "--batch", "0"], "at least one"),
                                 (["--trace", "equal", "--page", "0"], "keys lie in pages, but those of prompts"), (["--peers", "x"], "'x' is no peer")):
            done = serving(*arguments, "--plan")
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
