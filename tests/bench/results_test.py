#!/usr/bin/env python3
"""Tables, bars and plots of bench/peers.py, from made-up results."""
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as xml

BENCH = pathlib.Path(sys.argv.pop(1))
sys.dont_write_bytecode = True
sys.path.insert(0, str(BENCH))
import cells  # noqa: E402
import flex  # noqa: E402
import results  # noqa: E402


def record(cell, peer, tflops, **more):
    return {**vars(cell), "peer": peer, "verdict": "fine", "tflops": tflops, "spread": 0.01, **more}


class Suites(unittest.TestCase):
    def test_paper_grid(self):
        grid = list(cells.cells("paper"))
        self.assertEqual(len(grid), 72)
        for cell in grid:
            self.assertEqual(cell.batch * cell.length, cells.TOKENS)
            self.assertEqual(cell.q_heads * cell.d, cells.HIDDEN)
            self.assertEqual(cell.q_heads % cell.kv_heads, 0)

    def test_filters(self):
        grid = list(cells.cells("paper", lengths=[512], masks=["causal"], dims=[64], names=["gqa"]))
        self.assertEqual([(c.q_heads, c.kv_heads) for c in grid], [(32, 8)])
        self.assertEqual(next(cells.cells("llm", dtype="bf16")).dtype, "bf16")

    def test_flops_halve_when_causal(self):
        causal, full = (next(cells.cells("mla", masks=[m])) for m in ("causal", "full"))
        self.assertEqual(2 * causal.flops(), full.flops())
        self.assertEqual(full.flops(), 2 * full.batch * 16 * 512 * 512 * (192 + 128))

    def test_every_suite_has_a_bar(self):
        self.assertEqual(set(cells.SUITES), set(cells.BARS))

    def test_scores(self):
        for text, wanted in (("normal", ("normal", None)), ("peaked", ("peaked", 4)),
                             ("rising:0.5", ("rising", 0.5)), ("sink:20", ("sink", 20))):
            self.assertEqual(cells.read_scores(text), wanted)
        for text in ("", "flat", "normal:2", "peaked:", "peaked:x", "peaked:0", "peaked:nan", "sink:1e9"):
            self.assertRaises(ValueError, cells.read_scores, text)
        for suite in cells.SUITES:
            for cell in cells.cells(suite):
                cells.read_scores(cell.scores)

    def test_scores_are_those_of_the_command(self):
        text = (BENCH.parent / "src" / "bench" / "scores.def").read_text()
        rows = re.findall(r'^SCORES\(\w+, "(\w+)", ([0-9.]+)\)', text, re.M)
        self.assertEqual({name: float(usual) or None for name, usual in rows}, cells.SCORES)

    def test_real_scores(self):
        grid = list(cells.cells("real"))
        self.assertGreaterEqual(len(grid), 60)
        self.assertEqual(len(set(grid)), len(grid))
        self.assertEqual({(c.dtype, c.d) for c in grid},
                         {("f16", 64), ("f16", 128), ("bf16", 64), ("bf16", 128), ("bf16", 192)})
        self.assertIn("peaked:8", next(c.row for c in grid if c.scores == "peaked:8"))

    def test_stored_ratios(self):
        stored = cells.Stored()
        llm = next(cells.cells("llm", lengths=[8192], names=["qwen2.5-72b"]))
        self.assertAlmostEqual(stored.ratio("fa3", llm), 628 / 494)
        for suite in ("paper", "paper-bf16", "llm", "mla", "real"):
            for cell in cells.cells(suite):
                self.assertGreater(stored.ratio("fa3", cell), 0.5, cell)
        self.assertIsNone(stored.ratio("fa3", next(cells.cells("wide"))))
        shape = {"names": ["mha"], "dims": [128], "masks": ["causal"]}
        for scores, length, fa3, cudnn in (("peaked", 2048, 495, 389), ("peaked:4", 2048, 495, 389),
                                           ("peaked:4", 4096, None, None)):
            cell = next(cells.cells("real", lengths=[length], dtype="bf16", scores=[scores], **shape))
            plain = stored.ratio("fa3", dataclasses.replace(cell, scores="normal"))
            self.assertAlmostEqual(stored.ratio("fa3", cell), fa3 / cudnn if fa3 else plain)


    def test_softcap(self):
        grid = list(cells.cells("softcap"))
        self.assertEqual({(c.d, c.mask, c.length) for c in grid},
                         {(d, m, n) for d in (64, 128, 256) for m in ("causal", "full")
                          for n in (1024, 2048, 4096, 8192, 16384)})
        self.assertTrue(all(c.softcap == 30 and ", softcap 30" in c.row for c in grid))
        stored = cells.Stored()
        known = {(c.d, c.mask, c.length): stored.ratio("fa3", c) for c in grid if stored.ratio("fa3", c)}
        self.assertEqual(known, {(128, "causal", 4096): 544 / 167, (128, "full", 8192): 595 / 199})
        plain = dataclasses.replace(grid[0], d=128, dv=128, q_heads=16, kv_heads=16, softcap=0)
        self.assertEqual(stored.base(plain), "cudnn")
        self.assertAlmostEqual(stored.ratio("fa3", plain), 439 / 368)


class Flex(unittest.TestCase):
    """What bench/flex.py does where PyTorch cannot compile: no PyTorch is needed to see it."""

    def test_score_function(self):
        capped = flex.softcap_of(30.0, math.tanh)
        for score in (-90.0, -1.0, 0.0, 0.25, 25.0):
            self.assertEqual(capped(score, 0, 1, 2, 3), 30 * math.tanh(score / 30))
        self.assertIsNone(flex.softcap_of(0, math.tanh))

    def attempt(self, *outcomes):
        """What each attempt does: an exception of its making, of its call, or a result."""
        made = []

        def maker(outcome):
            def make():
                made.append(outcome)
                if isinstance(outcome, SyntaxError):
                    raise outcome

                def call():
                    if isinstance(outcome, Exception):
                        raise outcome
                    return outcome
                return call
            return make
        return made, lambda: flex.first_that_runs([maker(o) for o in outcomes])

    def test_first_that_runs_counts(self):
        made, run = self.attempt("own choice", "small blocks")
        self.assertEqual(run()(), "own choice")
        self.assertEqual(made, ["own choice"])
        _, run = self.attempt(SyntaxError("while it was made"), RuntimeError("while it ran"), "small blocks")
        self.assertEqual(run()(), "small blocks")

    def test_failures_are_said(self):
        boilerplate = "backend='inductor' raised:\nNoValidChoicesError: out of shared memory\n\nSet TORCHDYNAMO"
        _, run = self.attempt(RuntimeError(boilerplate), RuntimeError(boilerplate), SyntaxError("bad"))
        with self.assertRaises(RuntimeError) as caught:
            run()
        self.assertEqual(str(caught.exception), "torch.compile makes no kernel of it: "
                         "NoValidChoicesError: out of shared memory; bad")
        self.assertEqual(flex.reason_of(RuntimeError("")), "RuntimeError('')")


class Structures(unittest.TestCase):
    """What ours.py passes to the library has the fields of the headers, in their order."""

    def test_fields_are_those_of_the_headers(self):
        torch = types.ModuleType("torch")
        torch.float16, torch.bfloat16, torch.float32, torch.int32 = range(4)
        sys.modules.setdefault("torch", torch)
        import ours
        include = BENCH.parent / "include" / "flashtl"
        text = re.sub(r"/\*.*?\*/", "", "".join(h.read_text() for h in sorted(include.glob("*.h"))),
                      flags=re.S)
        for name, mirror in (("options", ours.Options), ("gpu", ours.Gpu), ("pin", ours.Pin),
                             ("source", ours.Source), ("product", ours.Product),
                             ("tensor", ours.Tensor), ("scalar", ours.Scalar),
                             ("arguments", ours.Arguments)):
            body = re.search(rf"typedef struct ftl_{name} \{{(.*?)\}} ftl_{name};", text, re.S)
            fields = [re.search(r"(\w+)(\[\w+\])?$", part.strip()).group(1)
                      for line in body.group(1).split(";") if line.strip()
                      for part in line.split(",")]
            self.assertEqual([f[0] for f in mirror._fields_], fields, name)


class Reports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "results.jsonl"

    def tearDown(self):
        self.folder.cleanup()

    def report(self, records):
        self.path.write_text("".join(json.dumps(r) + "\n" for r in records))
        plot = self.path.with_suffix(".svg")
        done = subprocess.run([sys.executable, "-B", BENCH / "results.py", self.path, "--plot", plot],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout, xml.parse(plot).getroot()

    def test_best_of_rivals_counts(self):
        grid = list(cells.cells("paper"))
        out, _ = self.report([r for c in grid for r in (record(c, "cudnn", 400), record(c, "ours", 700))])
        stored = cells.Stored()
        least = min(700 / (400 * max(1, stored.ratio("fa3", c))) for c in grid)
        self.assertIn(f"least {least:.3f}", out)
        self.assertIn("0 of 72 cells below; 0 of ours without a figure", out)
        self.assertIn("met", out)

    def test_missed_bar(self):
        grid = list(cells.cells("mla"))
        out, _ = self.report([r for c in grid for r in (record(c, "cudnn", 400), record(c, "ours", 390))])
        self.assertIn("MISSED", out)
        self.assertIn("12 of 12 cells below", out)

    def test_wrong_kernel_misses(self):
        grid = list(cells.cells("wide"))
        records = [r for c in grid for r in (record(c, "cudnn", 400), record(c, "ours", 700))]
        records[1].update(verdict="wrong")
        out, _ = self.report(records)
        self.assertIn("1 of ours without a figure", out)
        self.assertIn("MISSED", out)
        self.assertIn("| wrong |", out)

    def test_own_divisors(self):
        worst = next(cells.cells("worst"))
        ampere = next(cells.cells("ampere"))
        out, _ = self.report([record(worst, "ours", 300), record(worst, "ours-normal", 400),
                              record(ampere, "fa2", 250), record(ampere, "ours", 325)])
        self.assertIn("worst: ours / ours on N(0,1): geometric mean 0.750", out)
        self.assertIn("ampere: ours / fa2: geometric mean 1.300", out)

    def test_plot_has_a_panel_per_row(self):
        grid = list(cells.cells("paper", names=["mha"], dims=[128]))
        out, root = self.report([r for c in grid for r in
                                 (record(c, "cudnn", 400, noisy=True), record(c, "ours", 500))])
        titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}text") if "heads" in t.text]
        self.assertEqual(len(titles), 2)
        self.assertIn("400~", out)
        self.assertIn("*: by its ratio", out)

    def test_stored_figures_of_a_softcap(self):
        grid = [c for c in cells.cells("softcap", lengths=[4096, 8192]) if c.d == 128]
        out, _ = self.report([r for c in grid for r in (record(c, "flex", 167), record(c, "ours", 500))])
        self.assertIn("| 544* | 167 | 500 | **0.919** fa3 |", out)
        self.assertIn("| – | 167 | 500 | **2.994** flex |", out.replace("|  |", "| – |"))
        self.assertIn("softcap: ours / best: geometric mean", out)

    def test_scores_are_read_back(self):
        cell = next(cells.cells("real", scores=["sink"]))
        old = vars(next(cells.cells("paper"))).copy()
        del old["scores"]  # as files had it that knew N(0,1) alone
        out, _ = self.report([record(cell, "cudnn", 400), record(cell, "ours", 500),
                              {**old, "peer": "ours", "verdict": "fine", "tflops": 600}])
        self.assertIn(", sink |", out)
        self.assertEqual([c.scores for c in results.read(self.path)], ["sink", "normal"])

    def test_absent_peer(self):
        cell = next(cells.cells("wide"))
        out, _ = self.report([{**vars(cell), "peer": "cudnn", "verdict": "absent", "why": "no"},
                              record(cell, "ours", 500)])
        self.assertIn("| – |", out)
        self.assertIn("no cell has both", out)


unittest.main()
