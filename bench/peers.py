#!/usr/bin/env python3
"""Forward attention side by side: PyTorch's cuDNN, FlashAttention-2 and FlexAttention, and FlashTL.

All run in one process and take turns in short bursts (DESIGN section 7), in a random order each
round, so that clocks and power treat them alike. Times are device events; the figure is the median
over the rounds. Every result is compared with fp64 before and after timing, inputs are N(0,1).

    bench/peers.py                                   the paper's grid, f16
    bench/peers.py --heads mha --dims 128 --masks causal --lengths 512,4096
    bench/peers.py --dtype bf16 --json peers.jsonl --table peers.md
    bench/peers.py --code build/a100_attention.tl    our column from this TL Code

TFLOPS = 4·b·h·q·kv·d / time, halved when causal. Needs a GPU and PyTorch.
"""
import argparse
import itertools
import json
import math
import random
import statistics
import sys
import warnings

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

import ours

TOKENS, HIDDEN = 16384, 2048
LENGTHS = [512, 1024, 2048, 4096, 8192, 16384]
BOUND = {torch.float16: 1e-3, torch.bfloat16: 3e-3}  # relative rms against fp64


class Problem:
    """One cell of the grid: inputs in (batch, length, heads, d) and the head mapping."""

    def __init__(self, heads, d, causal, length, dtype):
        self.heads, self.d, self.causal, self.length = heads, d, causal, length
        self.q_heads = HIDDEN // d
        self.kv_heads = {"mha": self.q_heads, "gqa": self.q_heads // 4, "mqa": 1}[heads]
        self.batch = max(1, TOKENS // length)
        self.scale = 1 / math.sqrt(d)
        g = torch.Generator(device="cuda").manual_seed(length + d)

        def normal(h):
            return torch.randn(self.batch, length, h, d, device="cuda", generator=g).to(dtype)

        self.q, self.k, self.v = normal(self.q_heads), normal(self.kv_heads), normal(self.kv_heads)

    def flops(self):
        full = 4 * self.batch * self.q_heads * self.length * self.length * self.d
        return full / 2 if self.causal else full

    def reference(self, b, h):
        """Rows of one head in fp64, in slices so that long sequences fit."""
        group = self.q_heads // self.kv_heads
        q, k, v = (t.double() for t in (self.q[b, :, h], self.k[b, :, h // group],
                                        self.v[b, :, h // group]))
        out = torch.empty_like(q)
        for start in range(0, self.length, 2048):
            rows = q[start:start + 2048]
            s = rows @ k.T * self.scale
            if self.causal:
                at = torch.arange(start, start + len(rows), device="cuda")[:, None]
                s.masked_fill_(torch.arange(self.length, device="cuda")[None] > at, -math.inf)
            out[start:start + 2048] = torch.softmax(s, -1) @ v
        return out

    def error(self, out, references):
        """Worst relative rms over the sampled heads; NaN when anything is not finite."""
        if not bool(torch.isfinite(out).all()):
            return math.nan
        return max(float((out[b, :, h].double() - r).norm() / r.norm())
                   for (b, h), r in references.items())


def transposed(p):
    return (t.transpose(1, 2) for t in (p.q, p.k, p.v))


def sdpa(backend):
    def make(p):
        q, k, v = transposed(p)

        def call():
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=p.causal, scale=p.scale,
                                                      enable_gqa=p.kv_heads != p.q_heads)
        return call, lambda out: out.transpose(1, 2)
    return make


def flex(p):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    q, k, v = transposed(p)
    mask = None
    if p.causal:
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, p.length, p.length)
    torch._dynamo.reset()  # each case is a program of its own: no fallback after a few recompilations
    compiled = torch.compile(flex_attention, dynamic=False)

    def call():
        return compiled(q, k, v, block_mask=mask, scale=p.scale,
                        enable_gqa=p.kv_heads != p.q_heads)
    return call, lambda out: out.transpose(1, 2)


def elapsed_ms(call, times):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(times):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / times


def measure(p, peers, rounds, burst_ms):
    """{peer: {tflops, spread, error}}; a peer that cannot run has {'why': ...}."""
    sampled = {(0, 0), (p.batch - 1, p.q_heads - 1), (p.batch // 2, p.q_heads // 3)}
    references = {at: p.reference(*at) for at in sampled}
    results, ready = {}, {}
    for name, make in peers.items():
        try:
            call, view = make(p)
            error = p.error(view(call()), references)
            call()
            repeat = max(3, int(burst_ms / elapsed_ms(call, 2)))
        except Exception as failure:  # a peer that lacks this case must not end the run
            results[name] = {"why": str(failure).splitlines()[0][:160] if str(failure) else repr(failure)}
            continue
        results[name], ready[name] = {"error": error}, (call, view, repeat, [])
    for turn in range(rounds):
        for name in random.Random(turn).sample(list(ready), len(ready)):
            call, _, repeat, times = ready[name]
            times.append(elapsed_ms(call, repeat))
    for name, (call, view, _, times) in ready.items():
        after = p.error(view(call()), references)
        middle = statistics.median(times)
        results[name].update(tflops=p.flops() / middle * 1e-9, error_after=after,
                             spread=(max(times) - min(times)) / middle)
    return results


def cell_text(result):
    if "tflops" not in result:
        return "–"
    return f"{result['tflops']:.0f}"


def table(rows, names):
    lines = ["| heads | d | mask | length | " + " | ".join(names) + " | ours / fa2 | ours / best |",
             "|---" * (len(names) + 6) + "|"]
    for key, results in rows:
        others = [r["tflops"] for n, r in results.items() if n != "ours" and "tflops" in r]
        mine, fa2 = (results.get(n, {}).get("tflops") for n in ("ours", "fa2"))
        ratios = [f"{mine / fa2:.3f}" if mine and fa2 else "–",
                  f"{mine / max(others):.3f}" if mine and others else "–"]
        lines.append("| " + " | ".join(list(map(str, key)) +
                                       [cell_text(results[n]) for n in names] + ratios) + " |")
    return "\n".join(lines)


def geometric_mean(values):
    return math.exp(statistics.fmean(map(math.log, values))) if values else math.nan


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heads", default="mha,gqa,mqa")
    parser.add_argument("--dims", default="64,128")
    parser.add_argument("--masks", default="causal,full")
    parser.add_argument("--lengths", default=",".join(map(str, LENGTHS)))
    parser.add_argument("--dtype", choices=["f16", "bf16"], default="f16")
    parser.add_argument("--peers", default="cudnn,fa2,flex,ours")
    parser.add_argument("--gpu", help="GPU description for ours (default: the card that is there)")
    parser.add_argument("--code", action="append", default=[],
                        help="TL Code for ours instead of the reasoner's; NAME=FILE adds a column")
    parser.add_argument("--image", action="append", default=[], metavar="NAME=FOLDER",
                        help="a column of kernels built before: FOLDER/{mask}_d{d}.json and .cubin")
    parser.add_argument("--library", help="libflashtl.so (default: searched beside the build)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--burst-ms", type=float, default=6)
    parser.add_argument("--json", help="write JSON lines here")
    parser.add_argument("--table", help="write the Markdown table here")
    return parser.parse_args()


def main():
    options = arguments()
    warnings.filterwarnings("ignore")
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}[options.dtype]
    makers = {"cudnn": sdpa(SDPBackend.CUDNN_ATTENTION), "fa2": sdpa(SDPBackend.FLASH_ATTENTION),
              "flex": flex}
    library = ours.Library(options.library)
    makers["ours"] = ours.attention(library, options.gpu)
    for code in options.code:
        name, _, path = code.rpartition("=")
        makers[name or "ours"] = ours.attention(library, options.gpu, path)
    for at in options.image:
        name, _, folder = at.partition("=")
        makers[name] = ours.attention(library, options.gpu, image=lambda p, folder=folder: (
            f"{folder}/{'causal' if p.causal else 'full'}_d{p.d}.json",
            f"{folder}/{'causal' if p.causal else 'full'}_d{p.d}.cubin"))
    names = [n for n in options.peers.split(",")]
    names += [n for n in makers if n not in names and n not in ("cudnn", "fa2", "flex", "ours")]
    grid = list(itertools.product(options.heads.split(","), map(int, options.dims.split(",")),
                                  options.masks.split(","), map(int, options.lengths.split(","))))
    rows, wrong = [], 0
    log = open(options.json, "w") if options.json else None
    for done, (heads, d, mask, length) in enumerate(grid, 1):
        p = Problem(heads, d, mask == "causal", length, dtype)
        results = measure(p, {n: makers[n] for n in names}, options.rounds, options.burst_ms)
        rows.append(((heads, d, mask, length), results))
        for name, r in results.items():
            bad = "error" in r and not (max(r["error"], r["error_after"]) <= BOUND[dtype])
            wrong += bad
            record = dict(heads=heads, d=d, mask=mask, length=length, dtype=options.dtype, peer=name,
                          device=torch.cuda.get_device_name(), **r)
            if log:
                print(json.dumps(record), file=log, flush=True)
            if bad or "why" in r:
                print(f"  {name}: {'WRONG ' + str(r) if bad else r['why']}", file=sys.stderr)
        print(f"[{done}/{len(grid)}] {heads} d{d} {mask} {length}: " +
              "  ".join(f"{n} {cell_text(r)}" for n, r in results.items()), file=sys.stderr, flush=True)
        del p
        torch.cuda.empty_cache()
    text = table(rows, names)
    for mine in [n for n in names if n not in ("cudnn", "fa2", "flex")]:
        for peer in [n for n in names if n in ("cudnn", "fa2", "flex")]:
            ratios = [r[mine]["tflops"] / r[peer]["tflops"] for _, r in rows
                      if "tflops" in r[mine] and "tflops" in r[peer]]
            if ratios:
                text += (f"\n\n{mine} / {peer}: geometric mean {geometric_mean(ratios):.3f}, "
                         f"least {min(ratios):.3f}, over {len(ratios)} cells")
    print(text)
    if options.table:
        with open(options.table, "w") as out:
            out.write(text + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
