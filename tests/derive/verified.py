#!/usr/bin/env python3
"""Derived programs as kernels, verified against what their sketches mean.

    verified.py FLASHTL                     every sketch and example that ships and those of tests/derive, for each class of GPUs,
                                            on interpreter and emulator
    verified.py FLASHTL --every 12          a sample; all are made into kernels for one class in turn
    verified.py FLASHTL --on gpu            on the GPU that is here, with the kernels of all classes
    verified.py FLASHTL --only layernorm    those with this text in their name
    verified.py FLASHTL --fused             the fused form of those that have one

A program's cases are the two cheapest and the dearest of `verify --shapes small` that --most operations suffice for, none of them
with lengths of 0 to 2, for choice: there gradients are often 0. What is left
out is printed with its reason: that there is no gradient (tests/cli/derive_shipped.out says so, too), or that the sketch itself
cannot be made into a kernel for that GPU, or what LEFT_OUT says. Of all else there are kernels, and they are right.
"""
import argparse
import collections
import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.dont_write_bytecode = True
from sampling import sampled  # noqa: E402

GPUS = ["t4", "a100", "l40s", "h200"]
SKETCHES = ["chained_gemms", "gemm_bias_gelu", "row_softmax", "block_sparse"]  # besides the operators of `flashtl sketch`
# Lengths that have to be known before a launch, by the first word of a program's name; "": of all others.
PINS = {"": ["--head-dim", "64"],
        "mla": ["--head-dim", "64", "--let", "d_rotary=32"],
        "wide_values.tl": ["--head-dim", "64", "--let", "n_len=128"],
        "chained_gemms": ["--let", "k=64", "--let", "e=64"]}

# name -> (words of the message, why there is no kernel where the sketch has one)
LEFT_OUT = {"length_of_sum.tl": ("no matrix in registers has the axis", "kernels of vectors alone have no form yet"),
            "view_of_copied.tl": ("do not lie in lines", "a view that goes backwards is read beside results of its own width alone; parts of gradients are f32")}


def call(*arguments, text=None):
    return subprocess.run([*map(str, arguments)], input=text, capture_output=True, text=True, timeout=3000)


def operators(flashtl):
    """Options of `flashtl sketch`, one list a program: each operator, and with each of its options."""
    family, options, entries = None, [], []
    for line in [*call(flashtl, "sketch").stdout.splitlines(), "end"]:
        option = re.match(r"    --(\S+)(?: ([NX])\b)?", line)
        if option:
            options.append(["--with", option[1] + ("=16" if option[2] else "")])
        elif re.match(r"    ?\S", line):
            entries.append(line.split()[0])
        elif re.match(r"\S", line):
            for entry in entries:
                yield [entry]
                yield from ([entry, *option] for option in options)
            options, entries = [], []
    yield from ([name] for name in SKETCHES)


def shortest(case):
    """Of a case's lengths, which are all but batches and heads."""
    return min(int(n) for name, n in re.findall(r"(\w+) (\d+)(?=,|$)", case) if not re.search("batch|head|group", name))


class Program:
    def __init__(self, name, text, flashtl, how):
        self.name, self.text = name, text
        done = call(flashtl, "derive", "-", *how, text=text)
        self.derived, self.why_not = done.stdout, ""
        if done.returncode:
            self.derived, self.why_not = "", done.stderr.split("error: ")[-1].splitlines()[0]

    def write(self, folder):
        stem = re.sub(r"\W+", "_", self.name)
        self.sketch, self.program = folder / f"{stem}.tl", folder / f"{stem}_derived.tl"
        self.sketch.write_text(self.text)
        self.program.write_text(self.derived)


def programs(flashtl, only, how):
    """Each text once; 'how': options of derive."""
    known = set()
    texts = []
    for options in operators(flashtl):
        done = call(flashtl, "sketch", *options)
        if done.returncode == 0:  # else an option needs another, or is of other kernels
            texts.append((" ".join(options), done.stdout))
    for path in [*sorted((HERE.parent.parent / "examples").glob("*.tl")), *sorted(HERE.glob("*.tl"))]:
        texts.append((path.name, path.read_text()))
    for name, text in texts:
        if only not in name or text in known or call(flashtl, "check", "-", text=text).returncode:
            continue
        known.add(text)
        yield Program(name, text, flashtl, how)


class Verification:
    def __init__(self, options):
        self.options = options

    def command(self, file, program, gpu, where):
        pins = PINS.get(program.name.split()[0], PINS[""])
        return [self.options.flashtl, "verify", file, "--gpu", gpu, *pins, "--on", where, "--shapes", "small"]

    def cases(self, command):
        """Numbers of cases; None and the reason where no kernel can be made."""
        done = call(*command, "--list", "--json")
        if done.returncode:
            message = re.search(r'"message":"([^"]*)"', done.stdout + done.stderr)
            return None, message[1] if message else (done.stdout + done.stderr).strip()[-300:]
        listed = [case for case in map(json.loads, done.stdout.splitlines()) if case["flops"] > 0]
        listed = sorted([case for case in listed if shortest(case["name"]) > 2] or listed, key=lambda case: case["flops"])
        fitting = [case["case"] for case in listed if case["flops"] <= self.options.most] or [listed[0]["case"]]
        return sorted({*fitting[:2], fitting[-1]}), ""

    def run(self, job):
        """One line for each that is left out or failed."""
        program, gpu, where, runs = job
        what = f"{program.name} for {gpu}, {where}"
        command = self.command(program.program, program, gpu, where)
        cases, why = self.cases(command)
        if cases is None:
            _, own = self.cases(self.command(program.sketch, program, gpu, where))
            words, reason = LEFT_OUT.get(program.name, ("", ""))
            if own or (words and words in why):
                return "left out", f"{what}: " + (f"the sketch itself: {own}" if own else f"{reason}: {why}")
            return "failed", f"{what}: {why}"
        if not runs:
            return "made", what
        done = call(*command, "--case", ",".join(map(str, cases)))
        if done.returncode:
            return "failed", f"{what}\n{done.stdout[-1500:]}{done.stderr[-600:]}"
        said = done.stdout.splitlines()[-1]
        return "left out" if ": 0 passed" in said else "right", f"{what}: {said}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flashtl")
    parser.add_argument("--on", default="interpreter,emulator")
    parser.add_argument("--gpus", default=",".join(GPUS))
    parser.add_argument("--most", type=float, default=2e8, help="operations of a case, about")
    parser.add_argument("--every", type=int, default=1, help="take one of so many kernels")
    parser.add_argument("--only", default="")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verbose", action="store_true", help="print what is right, too")
    options = parser.parse_args()
    gpus = options.gpus.split(",")
    with tempfile.TemporaryDirectory() as folder:
        verification, todo = Verification(options), []
        for program in programs(options.flashtl, options.only, ["--fused"] if options.fused else []):
            if program.why_not:
                print(f"left out: {program.name}: {program.why_not}")
                continue
            program.write(pathlib.Path(folder))
            todo += [(program, gpu, where, True) for gpu in gpus for where in options.on.split(",")]
        every = options.every
        chosen = sampled(job for at, job in enumerate(todo) if (at + at // every) % every == 0)
        if every > 1:
            found = dict.fromkeys(job[0] for job in todo)
            chosen += [(program, gpus[n % len(gpus)], options.on.split(",")[0], False) for n, program in enumerate(found)]
        counts, is_stopped = collections.Counter(), False
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            try:
                for kind, text in pool.map(verification.run, chosen):
                    counts[kind] += 1
                    if kind not in ("right", "made") or options.verbose:
                        print(f"{kind}: {text}", flush=True)
            except KeyboardInterrupt:
                is_stopped = True
                pool.shutdown(cancel_futures=True)
        print(f"{len(chosen)} of {len(todo)}: " + ", ".join(f"{n} {kind}" for kind, n in counts.items()) + ", stopped" * is_stopped)
        return 130 if is_stopped else 1 if counts["failed"] or not counts["right"] else 0


if __name__ == "__main__":
    sys.exit(main())
