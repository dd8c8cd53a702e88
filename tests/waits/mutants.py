#!/usr/bin/env python3
"""Each Wait and Release is taken out of TL Code in turn, turns included: `flashtl check` must refuse what is left.

mutants.py FLASHTL                      a sample: every program for one GPU, some of its statements
mutants.py FLASHTL --all                programs here, those of sketches/ and examples/, for all GPUs: minutes
mutants.py FLASHTL [--all] FILE.tl...   these TL Codes

A statement may be left out without a word where the next one waits for a product that was begun later: products of an
executor end in order. In a FILE it may also never run: then it may as well stand there twice. Both are counted.
"""
import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from sampling import sampled  # noqa: E402

ROOT = HERE.parents[1]
GPUS = ["t4", "a100", "l40s", "h200"]
OPTIONS = [["--causal"], ["--causal", "--window", "512"], ["--lse"], ["--softcap", "30"], ["--alibi", "--causal"]]
STATEMENT = re.compile(r"\s*(Wait|Release)\s+(\w+)")
SAMPLE = 90  # statements of the sample, about: a few seconds


def programs(everything):
    """Names and arguments of `flashtl reason`."""
    for number, path in enumerate(sorted(HERE.glob("*.tl"))):
        pins = [word for name in ("d", "dv", "e", "f") if re.search(rf"\b{name}\)", path.read_text())
                for word in ("--let", f"{name}=64")]
        for gpu in GPUS if everything else [GPUS[number % 4], "a100"]:
            yield path.stem, [str(path), "--dtype", "f16", *pins, "--gpu", gpu]
    for gpu in GPUS if everything else ["h200"]:
        for options in [[], *OPTIONS] if everything else [["--causal"]]:
            for d in ("64", "128", "256") if everything else ["64"]:
                yield "attention", ["--op", "gqa", *options, "--head-dim", d, "--gpu", gpu]
        for name in ("chained_gemms", "gemm_bias_gelu", "row_softmax") if everything else []:
            yield name, ["--op", name, *(["--let", "k=64", "--let", "e=64"] if name == "chained_gemms" else []),
                         "--gpu", gpu]
        for path in sorted((ROOT / "examples").glob("*.tl")) if everything else []:
            yield path.stem, [str(path), "--head-dim", "64", "--gpu", gpu]


def codes(options):
    if options.files:
        return [(str(path), path.read_text()) for path in options.files]
    found = []
    for name, words in programs(options.all):
        done = subprocess.run([options.flashtl, "reason", *words], capture_output=True, text=True, timeout=1800)
        if done.returncode:
            raise SystemExit(f"{name} for {words[-1]}: {done.stderr.splitlines()[0]}")
        found.append((f"{name} for {words[-1]}", done.stdout))
    return found


def accepts(flashtl, lines):
    done = subprocess.run([flashtl, "check", "-"], input="\n".join(lines), capture_output=True, text=True, timeout=1800)
    if done.returncode not in (0, 1):
        raise SystemExit(f"check: status {done.returncode}: {done.stderr}")
    return done.returncode == 0


def judge(flashtl, lines, at, may_be_dead):
    """'refused', a reason why it need not be, or None."""
    if not accepts(flashtl, lines[:at] + lines[at + 1:]):
        return "refused"
    if may_be_dead and accepts(flashtl, lines[:at + 1] + lines[at:]):
        return "never runs"
    here, after = STATEMENT.match(lines[at]), STATEMENT.match(lines[at + 1])
    waits = after and here[1] == after[1] == "Wait"
    return "ends before the next" if waits and not (here[2] + after[2]).count("_shared") else None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("flashtl")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs = []
    for name, text in codes(options):
        lines = text.split("\n")
        if not accepts(options.flashtl, lines):
            raise SystemExit(f"{name} is refused as it is")
        jobs += [(name, lines, at) for at, line in enumerate(lines) if STATEMENT.match(line)]
    if not options.all and not options.files:
        jobs = sampled(jobs[::max(1, len(jobs) // SAMPLE)], "FLASHTL_SAMPLE")
    counts, survivors = {}, 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for (name, lines, at), what in zip(jobs, pool.map(lambda job: judge(options.flashtl, *job[1:], bool(options.files)), jobs)):
            counts[what] = counts.get(what, 0) + 1
            if what is None:
                survivors += 1
                print(f"{name}: passes without line {at + 1}: {lines[at].split('//')[0].strip()}")
    print(", ".join(f"{count} {what or 'survive'}" for what, count in counts.items()))
    sys.exit(survivors > 0 or not jobs)


main()
