#!/usr/bin/env python3
"""Every table of the QiMeng-Attention paper again, ours and others' beside its own figures.

Tables 1, 2, 7 and 8 are timed on the GPU that is here, in turns (docs/benchmarks.md): FlashTL's kernels made for this GPU
and, through their PTX, those made for the paper's GPUs; PyTorch's cuDNN, FlashAttention-2 and FlexAttention; attention as
operations of PyTorch; and a kernel as one writes it by hand first (vanilla.cu). What the paper's GPUs would do is the
cost model's prediction, marked p. Tables 3 and 5 are those of `flashtl evaluate`'s database. Without a GPU the paper's
figures and the predictions remain.

    bench/paper.py --json paper.jsonl --page paper.md          all of it
    bench/paper.py --tables 1 --lengths 2048,16384 --peers cudnn,ours --json paper.jsonl --resume
    bench/paper.py --no-gpu --json paper.jsonl --page paper.md --plot paper.svg  the page again, of what was measured
"""
import argparse
import collections
import csv
import json
import pathlib
import re
import subprocess
import sys
import time

import cells

HERE = pathlib.Path(__file__).resolve().parent
LENGTHS = cells.LENGTHS
GPUS = {"1": ["a100", "rtx-8000"], "2": ["a100"], "7": ["t4"], "8": ["a100"]}
WORDS = {"paper": "the paper's", "naive": "PyTorch's operations", "vanilla": "vanilla CUDA", "cudnn": "cuDNN",
         "fa1": "FlashAttention-1", "fa2": "FlashAttention-2", "flex": "FlexAttention", "ours": "FlashTL"}
ABSENT = {"6": "FP8 attention: sketches are reasoned into products of 8 bits for the L40S, whose time no other GPU can show; "
               "the paper's figures stand alone.",
          "9": "Native Sparse Attention: its steps are kernels of their own, timed in docs/sparse.md; the paper's figures (seconds) stand alone."}


def paper_rows():
    """{(table, gpu, name, mask, d): {who: {length: text}}}."""
    out = collections.OrderedDict()
    with open(HERE / "paper.csv") as lines:
        for row in csv.DictReader(line for line in lines if not line.startswith("#")):
            key = (row["table"], row["gpu"], row["name"], row["mask"], int(row["d"]))
            out.setdefault(key, collections.OrderedDict())[row["who"]] = {n: row[str(n)] for n in LENGTHS}
    return out


def cell_of(key, length):
    table, _, name, mask, d = key
    if table == "8":
        heads = {row[0]: (row[1], row[2]) for row in cells.SUITES["llm"]}[name]
    elif name == "mla":
        heads = (16, 16)
    else:
        heads = (cells.HIDDEN // d, {"mha": cells.HIDDEN // d, "gqa": cells.HIDDEN // d // 4, "mqa": 1}[name])
    return cells.Cell("paper", name, *heads, d, 128 if name == "mla" else d, "f16", mask, length)


# --- what is timed ------------------------------------------------------------------------------------

def make_naive():
    import torch

    def naive(p):
        q, k, v = (t.transpose(1, 2) for t in (p.q, p.k, p.v))
        group = p.q_heads // p.kv_heads
        mask = torch.ones(p.length, p.length, dtype=torch.bool, device="cuda").triu(1) if p.causal else None

        def call():
            keys, values = (t.repeat_interleave(group, 1) for t in (k, v)) if group > 1 else (k, v)
            scores = torch.matmul(q, keys.transpose(-2, -1)) * p.scale
            if mask is not None:
                scores = scores.masked_fill(mask, float("-inf"))
            return torch.matmul(torch.softmax(scores, -1), values)
        return call, lambda out: out.transpose(1, 2)
    return naive


def make_vanilla(folder):
    import ctypes
    import torch
    library = pathlib.Path(folder) / "libvanilla.so"
    subprocess.run(["nvcc", "-O3", "-arch=native", "-shared", "-Xcompiler", "-fPIC", "-o", library, HERE / "vanilla.cu"],
                   check=True, capture_output=True, timeout=120)
    run = ctypes.CDLL(str(library.resolve())).vanilla

    def vanilla(p):
        out = torch.full((p.batch, p.length, p.q_heads, p.dv), float("nan"), device="cuda", dtype=p.q.dtype)

        def call():
            pointers = [ctypes.c_void_p(t.data_ptr()) for t in (p.q, p.k, p.v, out)]
            status = run(*pointers, p.batch, p.length, p.q_heads, p.kv_heads, p.d, ctypes.c_float(p.scale), int(p.causal),
                         ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))
            if status:
                raise RuntimeError("no such kernel" if status == 1 else f"error {status}")
            return out
        return call, lambda result: result
    return vanilla


def make_contenders(options, folder):
    """{who: make}, those that can be had; a line for each that cannot."""
    import ours
    import peers
    library = ours.Library(options.library)
    makers = {"ours": lambda: ours.attention(library, None), "naive": make_naive,
              "cudnn": lambda: peers.sdpa(peers.SDPBackend.CUDNN_ATTENTION),
              "fa2": lambda: peers.sdpa(peers.SDPBackend.FLASH_ATTENTION),
              "flex": lambda: peers.flex.attention, "vanilla": lambda: make_vanilla(folder)}
    out = collections.OrderedDict()
    for who in options.peers:
        try:
            out[who] = makers[who]() if who in makers else ours.attention(library, who.removeprefix("ours:"))
        except (OSError, subprocess.SubprocessError) as why:
            print(f"paper.py: {who} is left out: {str(why)[:200]}", file=sys.stderr)
    return out


def measure(keys, options, log, done):
    import peers
    import torch
    import tempfile
    started, device = time.monotonic(), torch.cuda.get_device_name()
    with tempfile.TemporaryDirectory() as folder:
        contenders = make_contenders(options, folder)
        for name, mask, d in dict.fromkeys(key[2:] for key in keys):
            gpus = [key[1] for key in keys if key[2:] == (name, mask, d)]
            table = next(key[0] for key in keys if key[2:] == (name, mask, d))
            for length in options.lengths:
                wanted = {w: (m, "normal") for w, m in contenders.items() if (name, mask, d, length, w) not in done and
                          (not w.startswith("ours:") or w[5:] in gpus)}
                if not wanted or time.monotonic() - started > options.seconds:
                    continue
                cell = cell_of((table, None, name, mask, d), length)
                for who, record in peers.measure(cell, wanted, options).items():
                    record.update(name=name, mask=mask, d=d, length=length, who=who, device=device)
                    done[name, mask, d, length, who] = record
                    if log:
                        print(json.dumps(record), file=log, flush=True)
                torch.cuda.empty_cache()
    return device


# --- what is predicted ----------------------------------------------------------------------------------

def predict(options, key, gpu, length):
    """TFLOPS by the cost model, through `flashtl explain`; None: it says none."""
    cell = cell_of(key, length)
    command = [options.flashtl, "explain", "--op", "gqa", "--gpu", gpu, "--head-dim",
               f"{cell.d}:{cell.dv}", "--let", f"nominal_length={length}"] + ["--causal"] * (cell.mask == "causal")
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r"predicted\s+([\d.]+)\s+TFLOPS", said)
    return float(found[1]) if found else None


# --- the page -------------------------------------------------------------------------------------------

def figure(record):
    if record and record.get("verdict") == "fine":
        return f"{record['tflops']:.0f}" if record["tflops"] >= 10 else f"{record['tflops']:.1f}"
    why = (record or {}).get("why", "")
    return "OOM" if "out of memory" in why.lower() else (record or {}).get("verdict", "").replace("absent", "–")


def line(title, values):
    return f"| {title} | " + " | ".join(values) + " |"


def table_text(key, rows, done, options, device, shown):
    """What is timed here stands once: where the same case comes again for another GPU, that GPU's kernel alone."""
    table, gpu, name, mask, d = key
    out = [f"\n**Table {table}: {name}, {mask}, d {'192/128' if name == 'mla' else d}; the paper on {gpu.upper()}**\n",
           line("TFLOPS", [str(n) for n in LENGTHS]), "|---" * (len(LENGTHS) + 1) + "|"]
    for who, values in rows.items():
        out.append(line(f"{WORDS[who]} ({gpu})", [values[n] for n in LENGTHS]))
    if table in GPUS and options.flashtl:
        guesses = [predict(options, key, gpu, n) for n in LENGTHS]
        out.append(line(f"FlashTL, predicted ({gpu})", [f"{g:.0f} p" if g else "–" for g in guesses]))
    seen = [w for w in options.peers if any((name, mask, d, n, w) in done for n in LENGTHS)]
    for who in seen:
        if (who[5:] != gpu if who.startswith("ours:") else key[2:] in shown):
            continue
        said = f"**FlashTL, as for {who[5:]}**" if who.startswith("ours:") else \
            f"**{WORDS[who]}**" if who == "ours" else WORDS[who]
        values = [figure(done.get((name, mask, d, n, who))) for n in LENGTHS]
        out.append(line(f"{said} ({device})", values))
    shown.add(key[2:])
    return out


def page(keys, paper, done, options, device):
    out, shown = [], set()
    for key in keys:
        out += table_text(key, paper[key], done, options, device, shown)
    for table, why in ABSENT.items():
        if table in options.tables:
            out += [f"\n**Table {table}.** {why}"]
            for key, rows in paper.items():
                if key[0] == table:
                    out += ["", line(f"{key[2]}, {key[1]}", [str(n) for n in LENGTHS]), "|---" * (len(LENGTHS) + 1) + "|"]
                    out += [line(WORDS[who], [values[n] for n in LENGTHS]) for who, values in rows.items()]
    if options.database:
        said = subprocess.run([options.flashtl or "flashtl", "evaluate", "--stored", "--database", options.database],
                              capture_output=True, text=True)
        out += ["\n**Tables 3 and 5: what models write**\n", said.stdout or said.stderr]
    return "\n".join(out) + "\n"


def plot(keys, done, path):
    """TFLOPS by length of what was measured, by results.py's plots."""
    import results
    table = collections.OrderedDict()
    for key in keys:
        for length in LENGTHS:
            cell = cell_of(key, length)
            found = {w: r for (name, mask, d, n, w), r in done.items()
                     if (name, mask, d, n) == (cell.name, cell.mask, cell.d, length)}
            if found:
                table[cell] = found
    pathlib.Path(path).write_text(results.svg(table))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    parser.add_argument("--tables", type=words, default=["1", "2", "6", "7", "8", "9"])
    parser.add_argument("--lengths", type=lambda text: [int(n) for n in text.split(",")], default=LENGTHS)
    parser.add_argument("--peers", type=words, default=["cudnn", "fa2", "flex", "naive", "vanilla", "ours:a100", "ours:t4", "ours"],
                        help="what is timed; ours:GPU is the kernel made for that GPU")
    parser.add_argument("--names", type=words, help="of the tables' rows, as mha,gqa")
    parser.add_argument("--library", help="libflashtl.so (default: searched beside the build)")
    parser.add_argument("--flashtl", default="flashtl", help="the command, for predictions; empty: none")
    parser.add_argument("--database", help="of `flashtl evaluate`, for tables 3 and 5")
    parser.add_argument("--seconds", type=float, default=3600, help="begin nothing after that")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst-ms", type=float, default=6)
    parser.add_argument("--roofline", type=float, default=989.5)
    parser.add_argument("--no-gpu", action="store_true", help="time nothing")
    parser.add_argument("--json", help="write JSON lines here, as they come")
    parser.add_argument("--resume", action="store_true", help="keep what --json has, run the rest")
    parser.add_argument("--page", help="write the tables here, as Markdown")
    parser.add_argument("--plot", help="write plots here, as SVG")
    return parser.parse_args()


def main():
    options, paper = arguments(), paper_rows()
    keys = [k for k in paper if k[0] in options.tables and k[0] in GPUS and (not options.names or k[2] in options.names)]
    done, device = {}, "no GPU"
    if options.json and (options.resume or options.no_gpu) and pathlib.Path(options.json).exists():
        for text in pathlib.Path(options.json).read_text().splitlines():
            record = json.loads(text)
            done[record["name"], record["mask"], record["d"], record["length"], record["who"]] = record
            device = record["device"]
    if not options.no_gpu:
        log = open(options.json, "a" if options.resume else "w") if options.json else None
        device = measure(keys, options, log, done)
    text = page(keys, paper, done, options, device)
    print(text)
    if options.page:
        pathlib.Path(options.page).write_text(text)
    if options.plot:
        plot(keys, done, options.plot)
    return int(any(r["verdict"] in ("wrong", "impossible") and who.startswith("ours") for (*_, who), r in done.items()))


if __name__ == "__main__":
    sys.exit(main())
