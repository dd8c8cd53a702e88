#!/usr/bin/env python3
"""Takes every statement of synchronisation out of CUDA text, one at a time, and says who notices.

    cuda_waits.py --flashtl build/flashtl                                a sample
    cuda_waits.py --flashtl build/flashtl --all --jobs 16 --results waits.jsonl --survivors survivors

The texts are what translate makes of a fixed list of sketches, and of random programs, for GPUs with and without
asynchronous units of their own. A barrier, fence, wait, signal, commit or setmaxnreg goes, a wait leaves one more group in
flight, a ring's step goes on without its wait or its announcement, a signal goes before the wait that it stands after, an mbarrier expects
one arrival less. Each
mutant is judged as cuda_mutants.py judges. Exit status 0: no survivor; 77: NumPy, NVRTC or a CUDA compiler is not here.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
import time

import cuda_mutants
import equal
import equal_waits
import generate
import judge
import mutants

SKETCHES = (("--op", "mha", "--causal", "--head-dim", "64"), ("--op", "gqa", "--head-dim", "128", "--causal", "--lse"),
            ("--op", "mla", "--causal", "--head-dim", "64", "--let", "d_rotary=32"), ("--op", "mqa", "--window", "100", "--causal", "--head-dim", "64"),
            ("chained_gemms", "--let", "k=64", "--let", "e=64"), ("gemm_bias_gelu",), ("row_softmax",), ("residual_gemm",), ("rmsnorm_gemm_silu",),
            ("swiglu",), ("retention", "--let", "d=64", "--let", "dv=64"), ("chosen_blocks", "--let", "d=64", "--let", "dv=64"),
            ("query_gradient", "--let", "d=64", "--let", "dv=64"), ("block_causal", "--let", "d=64", "--let", "dv=64"), ("window_sinks", "--let", "d=64", "--let", "dv=64"))
SEEDS = tuple(range(70001, 70013))
GPUS = ("h200", "a100")
WORDS = r"barrier|meet|sync|wait|signal|arrive|commit|expect|fence|registers|mbarriers_init"
CALL = rf"(if \([^{{}}]*\) )?ftl_\w*({WORDS})\w*(<[^;]*>)?\("
RING = r"(if \([^{}]*\) )?(\w+)\.(acquire|wait|next)\((.*)\);$"
PASS = "    unsigned slot, parity;"
SKIP = """    unsigned slot, parity;
    __device__ __forceinline__ void pass() { slot = slot == SLOTS - 1 ? 0 : slot + 1; parity ^= slot == SLOTS - 1; }"""


class Subject:
    """A sketch for a GPU, and its TL Code; what cuda_mutants.verdicts asks of one."""

    def __init__(self, flashtl, name, gpu, folder, timeout):
        self.flashtl, self.gpu, self.timeout, self.options = flashtl, gpu, timeout, []
        self.environment = dict(os.environ, FLASHTL_CACHE="")
        words = name.split()
        self.name = name
        if words[0] == "random":
            program = generate.program(int(words[1]))
            text = program.text()
            self.options = ["--dtype", program.dtype] + judge.Judge.pins(program)
        elif words[0] == "--op":
            at = words.index("--head-dim")
            lets = words.index("--let") if "--let" in words else len(words)
            self.options = words[at:at + 2] + words[lets:]
            text = self.call(["sketch", "--op", words[1]] + [x for x in words[2:] if x not in self.options]).stdout
        else:
            path = next(p for p in (mutants.ROOT / "examples", mutants.ROOT / "sketches") if (p / f"{words[0]}.tl").exists()) / f"{words[0]}.tl"
            text, self.options = path.read_text(), words[1:]
        self.sketch = folder / "sketch.tl"
        self.sketch.write_text(text)
        self.text_of_sketch = text
        done = self.call(["reason", str(self.sketch), "--gpu", gpu] + self.options)
        self.code = mutants.plain(done.stdout) if done and done.returncode == 0 else None

    call = mutants.Subject.call


def statements(lines):
    """Where statements begin and end, those of one line and those that go on."""
    at = 0
    while at < len(lines):
        end = at
        if re.match(r"\s*(ftl_|\w+\.|if \([^{}]*\) (ftl_|\w+\.))", lines[at]):
            while not lines[end].rstrip().endswith((";", "{", "}")) and end + 1 < len(lines):
                end += 1
        yield at, end + 1
        at = end + 1


def without(lines, at, end, *new):
    return lines[:at] + [*new] + lines[end:]


def all_mutants(lines):
    """(kind, line, text) for every statement of synchronisation."""
    places = list(statements(lines))
    for n, (at, end) in enumerate(places):
        text = " ".join(x.strip() for x in lines[at:end])
        ring = re.match(RING, text)
        if ring and "(" in text:
            guard, name, step, words = ring.group(1) or "", ring.group(2), ring.group(3), ring.group(4).split(", ")
            yield "drop step", at, without(lines, at, end)
            if step == "wait":
                yield "drop wait", at, without(lines, at, end, f"{guard}{name}.pass();")
            if step == "acquire" and len(words) == 3:
                yield "drop wait", at, without(lines, at, end, f"{guard}ftl_mbarrier_expect({name}.of({words[1]}), {words[2]});")
                yield "drop expect", at, without(lines, at, end, f"{guard}{name}.acquire({words[0]});")
        elif re.match(CALL, text):
            yield "drop statement", at, without(lines, at, end)
            wait = re.search(r"wait<(\d+)>", text)
            if wait:
                yield "a wait for less", at, without(lines, at, end, text.replace(wait.group(0), f"wait<{int(wait.group(1)) + 1}>"))
            if "mbarriers_init" in text:
                yield "fewer arrivals", at, without(lines, at, end, re.sub(r", (\d+)\)", lambda m: f", {int(m.group(1)) - 1 or 2})", text))
        else:
            continue
        if "mbarrier_signal" in text:
            before = next((k for k in range(n - 1, -1, -1) if re.search(r"wait|acquire|meet\(", lines[places[k][0]]) or lines[places[k][0]].rstrip().endswith(("{", "}"))), 0)
            if not lines[places[before][0]].rstrip().endswith(("{", "}")):
                first = places[before][0]
                yield "earlier", at, lines[:first] + lines[at:end] + lines[first:at] + lines[end:]


def work(job):
    name, gpu, a = job
    rows = []
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        subject = Subject(os.path.abspath(a.flashtl), name, gpu, folder, a.timeout)
        if subject.code is None or "\n".join(subject.code).count("\nkernel "):
            return name, gpu, rows
        path = folder / "original.tl"
        path.write_text("\n".join(subject.code) + "\n")
        done = subject.call(["translate", str(path)])
        nvrtc = cuda_mutants.Nvrtc()
        if done is None or done.returncode:
            return name, gpu, rows
        head, lines = cuda_mutants.parts(done.stdout)
        head = head.replace(PASS, SKIP)
        target = cuda_mutants.target_of(gpu)
        whole = nvrtc.ptx(head + "\n".join(lines) + "\n", target)
        asked, texts = [], []
        wanted = list(all_mutants(lines))
        if not a.all:
            wanted = wanted[a.phase % a.every::a.every]
        for kind, at, mutant in wanted:
            row = {"subject": name, "gpu": gpu, "mutation": kind, "line": at, "change": lines[at].strip()}
            rows.append(row)
            text = head + "\n".join(mutant) + "\n"
            ptx = nvrtc.ptx(text, target)
            if ptx is None:
                row |= {"verdict": "compile", "detail": ""}
            elif ptx == whole:
                row |= {"verdict": "equal", "detail": "the same PTX"}
            else:
                asked.append((row, mutant))
                texts.append(text)
        if texts and cuda_mutants.verdicts(subject, [head + "\n".join(lines) + "\n"], folder)[0][0] != "survived":
            return name, gpu, [{"subject": name, "gpu": gpu, "mutation": "none", "line": 0, "change": "", "verdict": "crash", "detail": "the program itself is not judged as right"}]
        for first in range(0, len(texts), 16):
            started = time.time()
            part = asked[first:first + 16]
            for (row, mutant), (verdict, detail) in zip(part, cuda_mutants.verdicts(subject, texts[first:first + 16], folder)):
                why = (equal.of_cuda(mutant, lines, subject.code) or equal_waits.of_cuda(mutant, lines)) if verdict == "survived" else None
                row |= {"verdict": "equal" if why else verdict, "detail": why or detail, "seconds": round((time.time() - started) / len(part), 2)}
                if row["verdict"] in cuda_mutants.BESIDE and a.survivors:
                    place = pathlib.Path(a.survivors, f"{re.sub(r'[^a-z0-9]+', '-', name)}-{gpu}-{row['line']}-{row['mutation'].replace(' ', '-')}")
                    place.mkdir(parents=True, exist_ok=True)
                    (place / "sketch.tl").write_text(subject.text_of_sketch)
                    (place / "original.cu").write_text(head + "\n".join(lines) + "\n")
                    (place / "mutant.cu").write_text(head + "\n".join(mutant) + "\n")
                    (place / "how").write_text(f"{name} {gpu} {' '.join(subject.options)}\n{row['mutation']}\n{row['change']}\n{row['detail']}\n")
    return name, gpu, rows


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--flashtl", default="build/flashtl")
    p.add_argument("--all", action="store_true", help="every mutant of every program")
    p.add_argument("--every", type=int, default=12, help="without --all: one of so many")
    p.add_argument("--phase", type=int, default=0)
    p.add_argument("--only", default="", help="programs whose name has this in it")
    p.add_argument("--gpu", default=",".join(GPUS))
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("--results", help="a line of JSON for each mutant")
    p.add_argument("--survivors", help="a folder for those that nobody noticed")
    a = p.parse_args()
    if cuda_mutants.Nvrtc().library is None:
        print("cuda_waits.py: NVRTC is not here")
        return 77
    names = [" ".join(x) for x in SKETCHES] + [f"random {seed}" for seed in SEEDS]
    jobs = [(name, gpu, a) for name in names for gpu in a.gpu.split(",") if a.only in name]
    lines = []
    with multiprocessing.Pool(a.jobs) as pool:
        for name, gpu, rows in pool.imap_unordered(work, jobs):
            lines += rows
            if a.results:
                with open(a.results, "a") as out:
                    out.writelines(json.dumps(x) + "\n" for x in rows)
            print(f"{name}, {gpu}: {len(rows)} mutants", flush=True)
            for x in rows:
                if x["verdict"] in cuda_mutants.BESIDE:
                    print(f"{x['verdict']}: {x['subject']}, {x['gpu']}, {x['mutation']}: {x['change']} {x['detail']}", flush=True)
    mutants.table(lines)
    return any(x["verdict"] in cuda_mutants.BESIDE for x in lines)


if __name__ == "__main__":
    sys.exit(main())
