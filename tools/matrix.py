#!/usr/bin/env python3
"""Verifies every sketch x type x GPU x shape with `flashtl verify`, and prints one line a program.

    tools/matrix.py                                   on the emulator, sampled shapes
    tools/matrix.py --on interpreter --shapes all
    tools/matrix.py --on gpu --shapes all --jobs 8    older targets run through the driver's JIT
    tools/matrix.py --sample 12                       every twelfth program, for a quick look

Exit status 0 when every case of every program passed. Details of failures are printed with the
command that repeats them alone; --log keeps all output.
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPUS = ["t4", "a100", "l40s", "h200"]
OPTIONS = [[], ["--causal"], ["--causal", "--window", "100"], ["--causal", "--softcap", "20"],
           ["--causal", "--alibi"], ["--causal", "--lse"], ["--window", "40", "--lse"],
           ["--causal", "--window", "77", "--softcap", "30", "--alibi", "--lse"]]
HEAD_DIMS = ["16", "24", "40", "64", "72", "80", "96", "128", "192", "192:128", "64:128", "256"]
ODD = ["sigmoid_attention", "relu_squared_window", "gemm_row_scale"]  # of tests/exec/odd
SUMMARY = re.compile(r"(\d+) cases: (\d+) passed, (\d+) failed, (\d+) skipped.*?rms ([0-9.e+-]+)")


def dtypes(gpu):
    return ["f16"] if gpu == "t4" else ["f16", "bf16"]


def programs(gpus):
    """Arguments of `flashtl verify`, one list a program."""
    for gpu in gpus:
        for dtype in dtypes(gpu):
            common = ["--gpu", gpu, "--dtype", dtype]
            for options, d in itertools.product(OPTIONS, ["64", "128"]):
                yield ["--op", "attention", *options, "--head-dim", d, *common]
            for d in HEAD_DIMS:
                if d not in ("64", "128"):
                    yield ["--op", "attention", "--causal", "--head-dim", d, *common]
            yield ["--op", "chained_gemms", *common, "--let", "k=64", "--let", "e=64"]
            for name in ["gemm_bias_gelu", "row_softmax"]:
                yield ["--op", name, *common]
            for name in ODD:
                words = [] if name.startswith("gemm") else ["--head-dim", "64"]
                yield [str(ROOT / "tests/exec/odd" / f"{name}.tl"), *words, *common]


def shapes_for(words, shapes):
    """Lists of lengths mean queries x keys: programs without these take the sample."""
    is_attention = "attention" in words or "attention" in words[0] or "window" in words[0]
    return shapes if is_attention or shapes in ("small", "all") else "small"


def run(binary, words, on, shapes, timeout_s):
    command = [binary, "verify", *words, "--on", on, "--shapes", shapes_for(words, shapes)]
    started = time.time()
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        output, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        output, status = f"did not end within {late.timeout:.0f} s", 1
    return command, output, status, time.time() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build" / "flashtl"))
    parser.add_argument("--on", choices=["interpreter", "emulator", "gpu"], default="emulator")
    parser.add_argument("--shapes", default="small")
    parser.add_argument("--gpus", default=",".join(GPUS))
    parser.add_argument("--sample", type=int, default=1, help="take every Nth program")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--timeout", type=float, default=900, help="seconds a program may take")
    parser.add_argument("--log", help="write all output here")
    options = parser.parse_args()
    chosen = list(programs(options.gpus.split(",")))[::options.sample]
    log = open(options.log, "w") if options.log else None
    cases = failed = bad = 0
    worst, started = {}, time.time()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        jobs = [pool.submit(run, options.binary, words, options.on, options.shapes, options.timeout)
                for words in chosen]
        for done, job in enumerate(concurrent.futures.as_completed(jobs), 1):
            command, output, status, seconds = job.result()
            summary = SUMMARY.search(output)
            text = summary.group(0) if summary else output.strip()[-400:]
            if summary:
                cases, failed = cases + int(summary[1]), failed + int(summary[3])
                dtype = command[command.index("--dtype") + 1]
                worst[dtype] = max(worst.get(dtype, 0.0), float(summary[5]))
            bad += status != 0
            left = (time.time() - started) / done * (len(jobs) - done)
            print(f"[{done}/{len(jobs)}, {left:.0f} s left] {'FAIL' if status else 'pass'} "
                  f"{seconds:5.1f} s  {' '.join(command[2:])}  {text}", flush=True)
            if status and summary:
                print("\n".join(line for line in output.splitlines()
                                if not line.startswith("pass"))[:4000], flush=True)
            if log:
                print(" ".join(command), output, sep="\n", file=log, flush=True)
    print(f"{len(jobs)} programs on the {options.on}, {bad} with failures; {cases} cases, {failed} "
          f"failed; worst relative rms {worst}; {time.time() - started:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
