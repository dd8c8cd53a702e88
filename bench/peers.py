#!/usr/bin/env python3
"""Forward attention side by side: PyTorch's cuDNN, FlashAttention-2 and FlexAttention, and FlashTL.

All run in one process and take turns in short bursts (docs/benchmarks.md), in another order each
round, so that clocks and power treat them alike. Times are device events; the figure is the median
over the rounds, taken anew when they spread by more than a tenth. Every result is compared with fp64
before and after timing. cells.py has the suites and the bars; FlashAttention-3, and what is not run,
counts by its stored ratio to cuDNN.

    bench/peers.py                                    the paper's grid, f16: 72 cells, 3 minutes
    bench/peers.py --suite paper,llm,mla,wide,worst --json peers.jsonl --table peers.md --plot peers.svg
    bench/peers.py --names mha --dims 128 --masks causal --lengths 512,4096 --let BN=128
    bench/peers.py --suite real                       scores as trained models have them
    bench/peers.py --suite softcap                    scores that end at a cap, beside FlexAttention
    bench/peers.py --scores peaked:4,rising,sink --lengths 2048
    bench/peers.py --prototype DIR                    beside a hand-written kernel: DIR/libproto.so
    bench/peers.py --code old=old.tl --measured none  columns of other TL Code; without tuned decisions
    bench/results.py peers.jsonl --plot peers.svg     table and plots again, without a GPU

TFLOPS = 2·b·h·q·kv·(d_qk + d_v) / time, halved when causal. Needs a GPU and PyTorch.
"""
import argparse
import collections
import ctypes
import dataclasses
import json
import math
import pathlib
import random
import re
import statistics
import sys
import time
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import cells
import flex
import ours
import results as reports

BOUND = {"f16": 1e-3, "bf16": 3e-3}  # relative rms against fp64
TYPES = {"f16": torch.float16, "bf16": torch.bfloat16}
SPREAD_LIMIT, REPEATS, SAMPLED_ROWS = 0.1, 2, 256
ROOFLINE_SLACK = 1.02


class Problem:
    """One cell: inputs in (batch, length, heads, d), and what a few rows of the output must be."""

    def __init__(self, cell):
        self.cell, self.d, self.dv, self.length = cell, cell.d, cell.dv, cell.length
        self.causal, self.batch = cell.mask == "causal", cell.batch
        self.q_heads, self.kv_heads = cell.q_heads, cell.kv_heads
        self.scale = 1 / math.sqrt(cell.d)
        dtype = TYPES[cell.dtype]
        g = torch.Generator(device="cuda").manual_seed(cell.length + cell.d)

        def normal(h, d):
            return torch.randn(self.batch, self.length, h, d, device="cuda", generator=g,
                               dtype=torch.float32).to(dtype)

        self.q, self.k, self.v = (normal(h, d) for h, d in ((self.q_heads, self.d),
                                                            (self.kv_heads, self.d),
                                                            (self.kv_heads, self.dv)))
        self.shape_scores(*cells.read_scores(cell.scores))
        self.references = self.make_references()

    def shape_scores(self, kind, number):
        """Queries and keys of N(0,1), whose scores are N(0,1), become those of cells.SCORES. What is
        added to a row's scores comes from one column, in which all queries are the same.
        """
        if kind == "peaked":
            self.q *= number
        elif kind in ("rising", "sink"):
            at = torch.arange(self.length, device="cuda")
            self.q[..., 0] = math.sqrt(self.d)
            self.k[..., 0] = (number * (at if kind == "rising" else at == 0))[None, :, None]

    def make_references(self):
        """{(batch, head, first row): rows} in fp64: starts, middles and ends of three heads."""
        heads = {(0, 0), (self.batch - 1, self.q_heads - 1), (self.batch // 2, self.q_heads // 3)}
        count = min(SAMPLED_ROWS, self.length)
        starts = {0, (self.length - count) // 2, self.length - count}
        return {(b, h, start): self.reference(b, h, start, count) for b, h in heads for start in starts}

    def reference(self, b, h, start, count):
        group = self.q_heads // self.kv_heads
        q, k, v = (t.double() for t in (self.q[b, start:start + count, h],
                                        self.k[b, :, h // group], self.v[b, :, h // group]))
        s = q @ k.T * self.scale
        if self.cell.softcap:
            s = self.cell.softcap * torch.tanh(s / self.cell.softcap)
        if self.causal:
            at = torch.arange(start, start + count, device="cuda")[:, None]
            s.masked_fill_(torch.arange(self.length, device="cuda")[None] > at, -math.inf)
        return torch.softmax(s, -1) @ v

    def error(self, out):
        """Worst relative rms over the sampled rows; NaN when anything is not finite."""
        if not bool(torch.isfinite(out).all()):
            return math.nan
        return max(float((out[b, start:start + len(r), h].double() - r).norm() / r.norm())
                   for (b, h, start), r in self.references.items())


# --- peers: problem -> (call, view of its result as (batch, length, heads, d)) -----------------------

def transposed(p):
    return (t.transpose(1, 2) for t in (p.q, p.k, p.v))


def sdpa(backend):
    def make(p):
        q, k, v = transposed(p)
        grouped = p.kv_heads != p.q_heads

        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=p.causal, scale=p.scale,
                                                      enable_gqa=grouped)
        return call, lambda out: out.transpose(1, 2)
    return make


class Prototype:
    """A hand-written kernel's library: proto_count, proto_name, proto_ok, proto_make, proto_run. Of
    the variants that fit a cell, the fastest right one runs.
    """

    def __init__(self, folder, pattern="."):
        self.c = ctypes.CDLL(str(pathlib.Path(folder).resolve() / "libproto.so"))
        self.c.proto_name.restype = ctypes.c_char_p
        self.c.proto_make.restype = ctypes.c_void_p
        self.c.proto_make.argtypes = [ctypes.c_int] + [ctypes.c_void_p] * 4 + [ctypes.c_int] * 5
        self.c.proto_run.argtypes = [ctypes.c_void_p] * 2
        self.pattern, self.chosen = re.compile(pattern), {}

    def variant(self, p, i):
        out = torch.full_like(p.q, float("nan"))
        job = self.c.proto_make(i, p.q.data_ptr(), p.k.data_ptr(), p.v.data_ptr(), out.data_ptr(),
                                p.batch, p.q_heads, p.kv_heads, p.length, p.d)
        if not job:
            raise RuntimeError(f"variant {i} cannot be made")

        def call():
            code = self.c.proto_run(job, torch.cuda.current_stream().cuda_stream)
            if code:
                raise RuntimeError(f"variant {i} gives error {code}")
            return out
        call.keeps = out
        return call

    def __call__(self, p):
        if p.cell.dtype != "f16" or p.d != p.dv or p.cell.softcap:
            raise RuntimeError("the prototype has no such kernel")
        key = (p.d, p.causal, p.length, p.q_heads, p.kv_heads)
        if key not in self.chosen:
            fitting = [i for i in range(self.c.proto_count())
                       if self.c.proto_ok(i, p.d, int(p.causal)) and
                       self.pattern.search(self.c.proto_name(i).decode())]
            timed = []
            for i in fitting:
                call = self.variant(p, i)
                if p.error(call()) <= BOUND[p.cell.dtype]:
                    timed.append((min(elapsed_ms(call, 3) for _ in range(2)), i))
            if not timed:
                raise RuntimeError("the prototype has no such kernel")
            self.chosen[key] = min(timed)[1]
        return self.variant(p, self.chosen[key]), lambda out: out


# --- measuring --------------------------------------------------------------------------------------

def elapsed_ms(call, times):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times


class Contender:
    def __init__(self, problem, make, burst_ms):
        self.problem, self.times = problem, []
        self.record = {"verdict": "fine"}
        try:
            self.call, self.view = make(problem)
            self.record["error"] = self.judge()
            self.call()
            self.repeat = max(1, math.ceil(burst_ms / max(elapsed_ms(self.call, 2), 1e-4)))
        except Exception as failure:  # a peer that lacks this case must not end the run
            words = str(failure).strip().splitlines()
            self.record = {"verdict": "absent", "why": words[0][:200] if words else repr(failure)}

    def judge(self):
        error = self.problem.error(self.view(self.call()))
        if not error <= BOUND[self.problem.cell.dtype]:
            self.record["verdict"] = "wrong"
        return error

    @property
    def is_running(self):
        return self.record["verdict"] == "fine"

    def spread(self):
        return (max(self.times) - min(self.times)) / statistics.median(self.times)


def run_rounds(running, rounds):
    for contender in running:
        contender.times = []
    for turn in range(rounds):
        for contender in random.Random(turn).sample(running, len(running)):
            contender.times.append(elapsed_ms(contender.call, contender.repeat))
    return max((c.spread() for c in running), default=0)


def take_turns(running, options):
    """Rounds until they are calm, the calmest of a few; how often they were taken anew."""
    calmest, kept = math.inf, None
    for repeats in range(REPEATS + 1):
        spread = run_rounds(running, options.rounds)
        if spread < calmest:
            calmest, kept = spread, [list(c.times) for c in running]
        if calmest <= SPREAD_LIMIT:
            break
    for contender, times in zip(running, kept or []):
        contender.times = times
    return repeats, calmest > SPREAD_LIMIT


def measure(cell, peers, options):
    """{peer: record}. A peer is (make, how its scores are drawn)."""
    problems = {drawn: Problem(dataclasses.replace(cell, scores=drawn))
                for drawn in sorted({drawn for _, drawn in peers.values()})}
    contenders = {name: Contender(problems[drawn], make, options.burst_ms)
                  for name, (make, drawn) in peers.items()}
    running = [c for c in contenders.values() if c.is_running]
    repeats, noisy = take_turns(running, options) if running else (0, False)
    for contender in running:
        record, middle = contender.record, statistics.median(contender.times)
        record.update(ms=middle, tflops=cell.flops() / middle * 1e-9, spread=contender.spread(),
                      repeats=repeats, noisy=noisy, error_after=contender.judge())
        if options.roofline and record["tflops"] > options.roofline * ROOFLINE_SLACK:
            del record["tflops"]
            record.update(verdict="impossible", why=f"above {options.roofline:.0f} TFLOPS")
    return {name: c.record for name, c in contenders.items()}


# --- the run ----------------------------------------------------------------------------------------

def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)

    def words(text):
        return text.split(",")

    def numbers(text):
        return [int(n) for n in text.split(",")]

    parser.add_argument("--suite", type=words, default=["paper"],
                        help="of " + ", ".join(cells.SUITES) + "; all")
    parser.add_argument("--names", "--heads", type=words, help="of the suite's rows, as mha,gqa")
    parser.add_argument("--dims", type=numbers)
    parser.add_argument("--masks", type=words)
    parser.add_argument("--lengths", type=numbers)
    parser.add_argument("--dtype", choices=list(TYPES), help="instead of the suite's")
    parser.add_argument("--scores", type=words, metavar="KIND,...",
                        help="how scores are drawn, instead of the suite's way: normal, peaked:SD, "
                        "rising:STEP, sink:ABOVE")
    parser.add_argument("--peers", type=words, default=["cudnn", "ours"],
                        help="of cudnn, fa2, flex, ours; those left out count by their stored ratio")
    parser.add_argument("--gpu", help="GPU description for ours (default: the card that is there)")
    parser.add_argument("--let", action="append", default=[], metavar="NAME=VALUE",
                        help="a decision of ours")
    parser.add_argument("--measured", help="decisions of a tuner for ours; none: the model's alone")
    parser.add_argument("--code", action="append", default=[],
                        help="TL Code for ours instead of the reasoner's; NAME=FILE adds a column")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=FOLDER",
                        help="a column of kernels built before: FOLDER/{mask}_d{d}.json and .cubin")
    parser.add_argument("--prototype", metavar="DIR", help="a column: DIR/libproto.so")
    parser.add_argument("--variants", default=".", help="of the prototype: a regular expression")
    parser.add_argument("--library", help="libflashtl.so (default: searched beside the build)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst-ms", type=float, default=6)
    parser.add_argument("--roofline", type=float, default=989.5,
                        help="TFLOPS that no figure can pass; 0: none (default: a dense H100's)")
    parser.add_argument("--json", help="write JSON lines here, as they come")
    parser.add_argument("--resume", action="store_true", help="keep what --json has, run the rest")
    parser.add_argument("--table", help="write the Markdown table here")
    parser.add_argument("--plot", help="write the plots here, as SVG")
    options = parser.parse_args()
    if options.suite == ["all"]:
        options.suite = list(cells.SUITES)
    for name in options.suite:
        if name not in cells.SUITES:
            parser.error(f"there is no suite '{name}': {', '.join(cells.SUITES)}")
    for text in options.scores or []:
        try:
            cells.read_scores(text)
        except ValueError as why:
            parser.error(str(why))
    for name in options.peers:
        if name not in ("ours", "cudnn", "fa2", "flex"):
            parser.error(f"there is no peer '{name}': cudnn, fa2, flex, ours")
    return options


def make_peers(options, library):
    """{column: make}, in the order of the columns."""
    pins = [tuple(let.split("=", 1)) for let in options.let]
    measured = options.measured
    if measured and measured != "none":
        measured = pathlib.Path(measured).read_text()
    elif measured == "none":
        measured = ""
    makers = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "fa2": sdpa(SDPBackend.FLASH_ATTENTION),
              "flex": flex.attention,
              "ours": ours.attention(library, options.gpu, pins=pins, measured=measured)}
    peers = {name: makers[name] for name in options.peers}
    for code in options.code:
        name, _, path = code.rpartition("=")
        peers[name or "ours"] = ours.attention(library, options.gpu, path)
    for at in options.image:
        name, _, folder = at.partition("=")
        peers[name] = ours.attention(library, options.gpu, image=lambda p, folder=folder: (
            f"{folder}/{p.cell.mask}_d{p.d}.json", f"{folder}/{p.cell.mask}_d{p.d}.cubin"))
    if options.prototype:
        peers["prototype"] = Prototype(options.prototype, options.variants)
    return peers


def peers_of(cell, peers, a100):
    """What runs on a cell: {column: (make, how its scores are drawn)}."""
    if cell.suite == "worst":
        ours_only = {n: m for n, m in peers.items() if n.startswith("ours")}
        return {**{n: (m, cell.scores) for n, m in ours_only.items()},
                **{f"{n}-normal": (m, "normal") for n, m in ours_only.items()}}
    if cell.suite == "ampere":
        peers = {"fa2": sdpa(SDPBackend.FLASH_ATTENTION), "ours": a100}
    if cell.softcap:  # of PyTorch's, FlexAttention alone has it
        ours_only = {n: m for n, m in peers.items() if n not in reports.OTHERS}
        peers = {"flex": flex.attention, **ours_only}
    return {name: (make, cell.scores) for name, make in peers.items()}


def say(cell, records, done, total, started):
    left = (time.monotonic() - started) / done * (total - done)
    shown = "  ".join(f"{n} {reports.text_of(r)}" for n, r in records.items())
    print(f"[{done}/{total}, {left:.0f} s left] {cell.suite} {cell.name} {cell.row} {cell.length}: {shown}",
          file=sys.stderr, flush=True)
    for name, record in records.items():
        if record["verdict"] != "fine":
            print(f"  {name}: {record['verdict']}: {record.get('why') or record.get('error')}",
                  file=sys.stderr, flush=True)


def main():
    options = arguments()
    warnings.filterwarnings("ignore")
    library = ours.Library(options.library)
    peers, a100 = make_peers(options, library), ours.attention(library, "a100")
    grid = [cell for suite in options.suite
            for cell in cells.cells(suite, options.lengths, options.masks, options.dims,
                                    options.names, options.dtype, options.scores)]
    table = collections.OrderedDict()
    if options.resume and options.json and pathlib.Path(options.json).exists():
        table.update(reports.read(options.json))
        grid = [cell for cell in grid if cell not in table]
    log = open(options.json, "a" if options.resume else "w") if options.json else None
    about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__,
             "cudnn": torch.backends.cudnn.version()}
    started = time.monotonic()
    try:
        for done, cell in enumerate(grid, 1):
            records = measure(cell, peers_of(cell, peers, a100), options)
            table[cell] = records
            say(cell, records, done, len(grid), started)
            for name, record in records.items():
                if log:
                    print(json.dumps({**vars(cell), "batch": cell.batch, "peer": name, **record,
                                      "about": about}), file=log, flush=True)
            torch.cuda.empty_cache()
    except KeyboardInterrupt:
        print("interrupted: what follows is what was measured", file=sys.stderr)
    is_wrong = any(r["verdict"] in ("wrong", "impossible")
                   for records in table.values() for n, r in records.items() if n not in reports.OTHERS)
    reports.add_stored(table, cells.Stored())
    reports.write(table, options.table, options.plot)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
