#!/usr/bin/env python3
"""Decoding over keys in pages, and prompts of any lengths, as engines call it, beside the rate at which this card reads memory and
PyTorch's attention.

Each trace is a batch of sequences (traces.py): all of one length, of lengths drawn evenly or as 1/n, or one long among short ones.
Calls are captured in CUDA graphs and replayed; caches rotate until they are larger than twice the level-2 cache. All contenders take
turns in one process, in another order each round; the figure is the median over the rounds. What is compared is keys and values read
once, in GB/s. Results are compared with fp64 before and after timing. PyTorch's cuDNN and FlashAttention-2 get keys of one piece,
FlexAttention padded ones and a mask of lengths. The library is told how many keys a batch has in all; `--peers untold` times it without,
too. Prompts count by the products that causal attention needs; FlashAttention-2 gets them by its tables of starts.

    bench/serving.py                                       24 cells of decoding
    bench/serving.py --suite ragged,guessed --json serving.jsonl --table serving.md
    bench/serving.py --suite mla --peers none --seconds 30
    bench/serving.py --suite guessed --peers untold        what it is worth to say how many keys there are
    bench/serving.py --suite prefill                       prompts of 64k tokens in all, in pages and one after the other
    bench/serving.py --trace zipf --batch 64 --keys 32768 --page 16 --heads 64:8
    bench/serving.py --suite ragged --plan                 what would be run, and how many bytes: no GPU is needed
    bench/serving.py --read serving.jsonl --table -        the table again, likewise

Needs a GPU and PyTorch, but for --plan and --read.
"""
import argparse
import itertools
import json
import math
import pathlib
import random
import statistics
import sys
import time

import calls
import traces

BOUND = {"f16": 2e-3, "bf16": 1e-2}  # relative rms against fp64
ROUNDS, SAMPLED, ROWS_SAMPLED, L2_TIMES, LAUNCHES_LEAST = 7, 4, 32, 2, 16
NO_PAGE = 2147480000  # after a sequence's last page; a kernel that reads there faults


class Problem:
    """A trace's tensors, several times, so that caches do not stay in the level-2 cache."""

    def __init__(self, torch, trace, l2_bytes):
        self.torch, self.trace = torch, trace
        self.dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[trace.dtype]
        is_small = trace.key_bytes() < 8 * l2_bytes and not trace.is_prompts
        copies = max(1, math.ceil(L2_TIMES * l2_bytes / trace.key_bytes()) + 1) if is_small else 1
        self.scale = 192 ** -0.5 if trace.is_latent else trace.d ** -0.5
        self.lengths = torch.tensor(trace.lengths, dtype=torch.int32, device="cuda")
        self.begins = [0, *itertools.accumulate(trace.lengths)]
        self.starts = torch.tensor(self.begins, dtype=torch.int32, device="cuda")
        rows, count = trace.table()
        self.table = torch.full((trace.batch, max(1, trace.columns)), NO_PAGE, dtype=torch.int32)
        for b, row in enumerate(rows):
            self.table[b, :len(row)] = torch.tensor(row, dtype=torch.int32)
        self.table = self.table.cuda()
        generator = torch.Generator(device="cuda").manual_seed(trace.seed)

        def normal(*shape):
            return torch.randn(shape, device="cuda", dtype=self.dtype, generator=generator)

        tokens = self.begins[-1]
        places = (count, trace.page_len) if trace.page_len else (tokens,)
        self.queries = (tokens, trace.q_heads) if trace.is_prompts else (trace.batch, trace.q_len, trace.q_heads)
        self.copies = []
        for _ in range(copies):
            keys = normal(*places, trace.kv_heads, trace.d)
            values = keys[..., :trace.dv] if trace.is_latent else normal(*places, trace.kv_heads, trace.dv)
            self.copies.append((normal(*self.queries, trace.d), keys, values))

    def sequence(self, copy, b, side):
        """(keys, heads, d) of one sequence."""
        if not self.trace.page_len:
            return self.copies[copy][side][self.begins[b]:self.begins[b + 1]]
        pages = self.table[b, :self.trace.pages[b]].long()
        rows = self.copies[copy][side][pages]
        return rows.reshape(-1, *rows.shape[2:])[:self.trace.lengths[b]]

    def rows(self, of, b):
        """Some queries of a sequence, or what was made of them, and the last key that each sees."""
        n, count = self.trace.lengths[b], self.trace.q_len
        if not self.trace.is_prompts:
            return of[b], [n - count + i for i in range(count)]
        at = sorted({0, n - 1, *random.Random(b).sample(range(n), min(n, ROWS_SAMPLED))})
        return of.reshape(-1, *of.shape[-2:])[self.begins[b]:self.begins[b + 1]][at], at

    def reference(self, copy, b):
        torch, trace = self.torch, self.trace
        q, last = self.rows(self.copies[copy][0], b)
        q, k, v = (x.double() for x in (q, self.sequence(copy, b, 1), self.sequence(copy, b, 2)))
        q = q.reshape(len(last), trace.kv_heads, -1, trace.d)
        score = torch.einsum("qhgd,khd->hgqk", q, k) * self.scale
        keys, last = torch.arange(len(k), device=k.device), torch.tensor(last, device=k.device)
        score.masked_fill_(keys > last[:, None], -math.inf)
        return torch.einsum("hgqk,khd->qhgd", torch.softmax(score, -1), v).reshape(len(last), trace.q_heads, -1)

    def error(self, outputs):
        """The worst relative rms of some sequences, the longest and the shortest among them; NaN where anything is none."""
        lengths, worst = self.trace.lengths, 0.0
        order = sorted(range(len(lengths)), key=lengths.__getitem__)
        chosen = {order[0], order[-1], *random.Random(2).sample(order, min(len(order), SAMPLED - 2))}
        for copy in {0, len(self.copies) - 1}:
            if not bool(self.torch.isfinite(outputs[copy]).all()):
                return math.nan
            for b in chosen:
                wanted = self.reference(copy, b)
                worst = max(worst, float((self.rows(outputs[copy], b)[0].double() - wanted).norm() / wanted.norm()))
        return worst


# --- contenders: problem -> (function that launches on copy i, outputs) -------------------------------------------------

class Ours:
    """The library's calls. Its kernels are loaded unverified: here each trace compares what they give."""

    def __init__(self, library, c):
        import ctypes
        self.library, self.c = library, c
        library.c.ftl_runtime_close(library.runtime)
        options = c.ftl_runtime_options(struct_bytes=ctypes.sizeof(c.ftl_runtime_options), is_unverified=True)
        library.must(library.c.ftl_runtime_open(library.context, ctypes.byref(options), ctypes.byref(library.runtime)))

    def make(self, p, is_told=True):
        import ctypes
        torch, trace, outputs, made = p.torch, p.trace, [], []
        for q, k, v in p.copies:
            out = torch.full((*p.queries, trace.dv), math.nan, device="cuda", dtype=p.dtype)
            outputs.append(out)
            if trace.is_prompts:
                name, call = calls.prompts(self.c, trace, p.scale, q, k, v, out, p.starts, p.table, p.lengths)
            else:
                name, call = calls.decode(self.c, trace, p.scale, q, k, v, out, p.table, p.lengths, is_told)
            made.append(call)
        size, lib, workspace = ctypes.c_size_t(), self.library, None
        if not trace.is_prompts:
            lib.must(getattr(lib.c, name + "_workspace")(lib.context, lib.runtime, ctypes.byref(made[0]), ctypes.byref(size)))
            workspace = torch.empty(max(16, size.value), dtype=torch.uint8, device="cuda")
            for call in made:
                call.workspace, call.workspace_bytes = workspace.data_ptr(), size.value
        function = getattr(lib.c, name)

        def launch(i):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            lib.must(function(lib.context, lib.runtime, ctypes.byref(made[i]), stream))
        launch.keeps = workspace
        return launch, outputs

    def make_untold(self, p):
        if p.trace.is_prompts:
            raise RuntimeError("nothing is told of prompts")
        return self.make(p, is_told=False)


def padded(p):
    """(queries, keys, values) of each copy as PyTorch's attention takes them, keys of one piece for each sequence."""
    trace, found = p.trace, []
    for copy, (q, _, _) in enumerate(p.copies):
        sides = []
        for side, d in ((1, trace.d), (2, trace.dv)):
            dense = p.torch.zeros(trace.batch, trace.longest, trace.kv_heads, d, device="cuda", dtype=p.dtype)
            for b in range(trace.batch):
                dense[b, :trace.lengths[b]] = p.sequence(copy, b, side)
            sides.append(dense.transpose(1, 2))
        rows = q.reshape(trace.batch, -1, trace.q_heads, trace.d) if trace.kind == "equal" else q
        found.append((rows.transpose(1, 2), *sides))
    return found


def sdpa(backend_name):
    def make(p):
        import torch.nn.functional as F
        from torch.nn.attention import SDPBackend, sdpa_kernel
        trace = p.trace
        if trace.kind != "equal" or trace.q_len > 1:
            raise RuntimeError("it takes sequences of one length, a query each or whole prompts")
        inputs, outputs = padded(p), [None] * len(p.copies)

        def launch(i):
            q, k, v = inputs[i]
            with sdpa_kernel(getattr(SDPBackend, backend_name)):
                out = F.scaled_dot_product_attention(q, k, v, scale=p.scale, enable_gqa=True, is_causal=trace.is_prompts)
            outputs[i] = out.transpose(1, 2)
        return launch, outputs
    return make


def flash(p):
    """Prompts by tables of starts; else as PyTorch's attention calls it."""
    if not p.trace.is_prompts:
        return sdpa("FLASH_ATTENTION")(p)
    if p.trace.page_len:
        raise RuntimeError("its keys lie in no pages here")
    outputs, longest = [None] * len(p.copies), p.trace.longest

    def launch(i):
        q, k, v = p.copies[i]
        outputs[i] = p.torch.ops.aten._flash_attention_forward(q, k, v, p.starts, p.starts, longest, longest, 0.0, True, False,
                                                               scale=p.scale)[0]
    return launch, outputs


def flex(p):
    torch = p.torch
    if p.trace.is_prompts:
        raise RuntimeError("prompts are not timed with it")
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    inputs, outputs, trace, lengths = padded(p), [None] * len(p.copies), p.trace, p.lengths
    mask = create_block_mask(lambda b, h, i, j: j <= i + lengths[b] - trace.q_len, trace.batch, None, trace.q_len, trace.longest)
    torch._dynamo.reset()
    compiled = torch.compile(flex_attention, dynamic=False)

    def launch(i):
        q, k, v = inputs[i]
        outputs[i] = compiled(q, k, v, block_mask=mask, scale=p.scale, enable_gqa=True).transpose(1, 2)
    return launch, outputs


# --- timing -----------------------------------------------------------------------------------------------------------

class Contender:
    """Launches captured in a graph, over all copies in turn."""

    def __init__(self, p, make):
        self.p, torch = p, p.torch
        self.launch, self.outputs = make(p)
        self.launches = math.ceil(LAUNCHES_LEAST / len(p.copies)) * len(p.copies)
        self.graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):  # kernels are made before the capture
            for i in range(len(p.copies)):
                self.launch(i)
        torch.cuda.current_stream().wait_stream(stream)
        torch.cuda.synchronize()
        with torch.cuda.graph(self.graph):
            for i in range(self.launches):
                self.launch(i % len(p.copies))
        self.check("before")

    def check(self, when):
        for out in self.outputs:
            out.fill_(math.nan)
        self.graph.replay()
        self.p.torch.cuda.synchronize()
        self.error = self.p.error(self.outputs)
        if not self.error <= BOUND[self.p.trace.dtype]:
            raise RuntimeError(f"wrong {when} timing: relative rms {self.error:.1e}")

    def time_us(self):
        torch = self.p.torch
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.graph.replay()
        begin.record()
        self.graph.replay()
        end.record()
        torch.cuda.synchronize()
        return 1e3 * begin.elapsed_time(end) / self.launches


def time_trace(torch, trace, makers, l2_bytes):
    """{name: {"us", "spread", "error"} or {"why"}}."""
    p, contenders, found = Problem(torch, trace, l2_bytes), {}, {}
    for name, make in makers.items():
        try:
            contenders[name] = Contender(p, make)
        except Exception as why:  # a peer that cannot do it has a dash, and the log says why
            found[name] = {"why": (str(why).strip().splitlines() or [repr(why)])[0][:160]}
    samples = {name: [] for name in contenders}
    for turn in range(ROUNDS):
        order = list(contenders)
        for name in order[turn % max(1, len(order)):] + order[:turn % max(1, len(order))]:
            samples[name].append(contenders[name].time_us())
    for name, one in contenders.items():
        try:
            one.check("after")
            middle = statistics.median(samples[name])
            found[name] = {"us": middle, "spread": (max(samples[name]) - min(samples[name])) / middle, "error": one.error}
        except RuntimeError as why:
            found[name] = {"why": str(why)}
    return found


def read_rate(torch):
    """GB/s at which this card reads: the best of sums over 4 GB in several shapes and types."""
    best = 0.0
    data = torch.ones(1 << 30, device="cuda", dtype=torch.float32)
    for view in (data, data.view(torch.float64), data.view(1 << 12, -1), data.view(1 << 16, -1), data.view(torch.float16).view(1 << 15, -1)):
        reduce = (lambda: view.amax(-1)) if view.dim() > 1 else (lambda: view.sum())
        for _ in range(3):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            reduce()
            begin.record()
            for _ in range(3):
                reduce()
            end.record()
            torch.cuda.synchronize()
            best = max(best, 3 * 4 * data.numel() / begin.elapsed_time(end) / 1e6)
    return best


# --- the command ------------------------------------------------------------------------------------------------------

def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", default="decode", help=f"suites with commas between: {', '.join(traces.SUITES)}")
    parser.add_argument("--trace", help=f"a trace of one's own instead: {', '.join(traces.LENGTHS)}")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--keys", type=int, default=8192, help="of the longest sequence")
    parser.add_argument("--page", type=int, default=16, help="keys of a page; 0: prompts without pages")
    parser.add_argument("--heads", default="32:8", help="of queries and keys")
    parser.add_argument("--dims", default="128", help="elements of a head; 576:512: latent")
    parser.add_argument("--queries", type=int, default=1, help="of a sequence; 0: whole prompts")
    parser.add_argument("--dtype", default="f16", choices=tuple(BOUND))
    parser.add_argument("--peers", default="cudnn,fa2", help="cudnn, fa2, flex (which compiles for a while), untold, or none")
    parser.add_argument("--seconds", type=float, default=math.inf, help="no further trace begins after so long")
    parser.add_argument("--json", help="a line for each trace is added to this file")
    parser.add_argument("--table", default="-", help="Markdown, into this file")
    parser.add_argument("--library", help="libflashtl.so")
    parser.add_argument("--plan", action="store_true", help="prints what would be run, as JSON lines")
    parser.add_argument("--read", help="makes the table of a file that --json wrote")
    return parser.parse_args()


def chosen_traces(arguments):
    if not arguments.trace:
        return [trace for name in arguments.suite.split(",") for trace in traces.suite(name, arguments.dtype)]
    q_heads, kv_heads = (int(word) for word in arguments.heads.split(":"))
    d, dv = (int(word) for word in (arguments.dims.split(":") * 2)[:2])
    traces.lengths_of(arguments.trace, arguments.batch, arguments.keys)
    if arguments.queries < 0 or arguments.page < 0 or (arguments.queries and not arguments.page):
        raise ValueError("keys lie in pages, but those of prompts (--queries 0) need not")
    return [traces.Trace("own", arguments.trace, arguments.batch, arguments.keys, arguments.page, q_heads, kv_heads, d, dv,
                         arguments.queries, arguments.dtype)]


def write(path, text):
    if path == "-":
        sys.stdout.write(text)
    else:
        pathlib.Path(path).write_text(text)


def run(arguments, chosen):
    import torch

    import ours
    library = Ours(ours.Library(arguments.library), calls.structs())
    makers = {"ours": library.make}
    known = {"untold": library.make_untold, "cudnn": sdpa("CUDNN_ATTENTION"), "fa2": flash, "flex": flex}
    for name in arguments.peers.split(","):
        if name != "none":
            makers[name] = known[name]
    properties, start, results = torch.cuda.get_device_properties(0), time.monotonic(), []
    rate = read_rate(torch)
    print(f"{properties.name}: reads {rate:.0f} GB/s", file=sys.stderr)
    for trace in chosen:
        if time.monotonic() - start > arguments.seconds:
            print(f"{len(results)} of {len(chosen)} traces were run: no more begin after {arguments.seconds:g} seconds", file=sys.stderr)
            break
        times = time_trace(torch, trace, makers, properties.L2_cache_size)
        torch.cuda.empty_cache()
        results.append({"plan": trace.plan(), "row": trace.row, "gpu": properties.name, "read_rate": rate, "times": times})
        for name, one in times.items():
            if "why" in one:
                print(f"{trace.row}, {trace.kind}, batch {trace.batch}: {name}: {one['why']}", file=sys.stderr)
        if arguments.json:
            with open(arguments.json, "a") as file:
                file.write(json.dumps(results[-1]) + "\n")
    return results, rate


def main():
    arguments = read_arguments()
    try:
        chosen = chosen_traces(arguments)
        unknown = set(arguments.peers.split(",")) - {"cudnn", "fa2", "flex", "untold", "none"}
        if unknown:
            raise ValueError(f"'{unknown.pop()}' is no peer: cudnn, fa2, flex, untold or none")
    except ValueError as why:
        print(f"serving.py: {why}", file=sys.stderr)
        return 2
    if arguments.plan:
        for trace in chosen:
            print(json.dumps(trace.plan()))
        return 0
    if arguments.read:
        results = [json.loads(line) for line in pathlib.Path(arguments.read).read_text().splitlines()]
        write(arguments.table, traces.table(results, results[0]["read_rate"]) if results else "")
        return 0
    results, rate = run(arguments, chosen)
    write(arguments.table, traces.table(results, rate) if results else "")
    return any("why" in result["times"]["ours"] for result in results)


if __name__ == "__main__":
    sys.exit(main())
