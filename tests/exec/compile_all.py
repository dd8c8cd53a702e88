#!/usr/bin/env python3
"""Compiles kernels with nvcc, each for its own GPU: no warning, no spilled byte.

    compile_all.py                         a sample of the matrix (tools/matrix.py), a few minutes
    compile_all.py --all                   sketch x option x head dimension x type x GPU
    compile_all.py --head-dims 64,128 --table registers.md
    compile_all.py [--targets 80,90] FILE.cu...     emitted files, for every target from theirs on

Exit status 1 when a kernel falls short, 3 when nvcc is not here.
"""
import argparse
import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests")]
import matrix  # noqa: E402: the one list of programs
from sampling import sampled  # noqa: E402

TARGETS = "75,80,86,89,90,100,120"
# Bytes that kernels are known to spill, at most: here the estimate of registers (docs/registers.md) is a few too low.
KNOWN = {"--op chained_gemms --let k=64 --let e=64 --gpu l40s --dtype bf16": 28}
SAMPLE = 29  # of the matrix: about two dozen kernels


def programs(gpus, head_dims):
    """Arguments of `flashtl reason`, one list a program."""
    for gpu in gpus:
        for dtype in matrix.dtypes(gpu):
            common = ["--gpu", gpu, "--dtype", dtype]
            for d, options in itertools.product(head_dims, matrix.OPTIONS):
                yield ["--op", "attention", *options, "--head-dim", d, *common]
    for words in matrix.programs(gpus):
        if "attention" not in words:
            yield words


class Kernel:
    """What the compiler said of one program."""

    def __init__(self, words):
        self.words, self.report, self.failed = words, "", True
        self.spilled = self.registers = self.shared = 0
        self.tile = ""
        self.known = 0

    def run(self, command):
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        self.report += done.stdout + done.stderr
        return done.returncode == 0

    def compile(self, nvcc, path, target, folder):
        cubin = str(pathlib.Path(folder) / "kernel.cubin")
        good = self.run([nvcc, "-cubin", f"-arch=sm_{target}", "-Xptxas", "-v", "-o", cubin, str(path)])
        self.spilled = sum(map(int, re.findall(r"(\d+) bytes spill", self.report)))
        self.registers = max(map(int, re.findall(r"Used (\d+) registers", self.report)), default=0)
        self.known = KNOWN.get(" ".join(self.words), 0)
        self.failed = not good or "warning" in self.report or self.spilled > self.known
        return self

    def make(self, binary, nvcc):
        with tempfile.TemporaryDirectory() as folder:
            code, cuda = pathlib.Path(folder) / "kernel.tl", pathlib.Path(folder) / "kernel.cu"
            if not self.run([binary, "reason", *self.words, "-o", str(code)]):
                return self
            if not self.run([binary, "translate", str(code), "-o", str(cuda)]):
                return self
            self.describe(code.read_text())
            text = cuda.read_text()
            self.shared = int(re.search(r"(\d+) bytes of dynamic shared memory", text)[1])
            target = re.search(r"\(compute_(\w+)\), written", text)[1]
            self.report = ""
            return self.compile(nvcc, cuda, target, folder)

    def describe(self, code):
        sizes = re.findall(r"\b(B[A-Z]) = (\d+)", code)
        parts = [f"{name} {value}" for name, value in sorted(set(sizes))]
        parts += re.findall(r"with (\d+ warps?)", code)[:1]
        stages = re.findall(r"Allocate (\w+) in shared .*stages (\d+)", code)
        parts += [f"{name} in {count} slots" for name, count in stages]
        parts += [f"{name} held" for name in re.findall(r"Allocate (\w+) in register .* as mma_A", code)]
        self.tile = ", ".join(parts)

    def line(self):
        verdict = "WRONG" if self.failed else "known" if self.known else "good "
        return (f"{verdict} {self.spilled:4} bytes spilled, {self.registers:3} registers, "
                f"{self.shared:6} bytes shared  {' '.join(self.words)}  [{self.tile}]")

    def row(self):
        words = list(self.words)
        gpu, dtype = words[words.index("--gpu") + 1], words[words.index("--dtype") + 1]
        at = words.index("--gpu")
        name = " ".join(words[:at]).replace("--op ", "").replace("--head-dim ", "d ").replace("--", "")
        name = name.replace(str(ROOT) + "/tests/exec/odd/", "")
        return f"| {name} | {dtype} | {gpu} | {self.spilled} | {self.registers} | {self.shared} | {self.tile} |"


def compile_files(options, nvcc):
    failures = 0
    for path in options.files:
        least = int(re.search(r"__CUDA_ARCH__ < (\d+)", path.read_text())[1]) // 10
        for target in map(int, options.targets.split(",")):
            if target < least:
                continue
            with tempfile.TemporaryDirectory() as folder:
                kernel = Kernel([path.name, f"sm_{target}"]).compile(nvcc, path, target, folder)
            print(kernel.line())
            failures += kernel.failed
            if kernel.failed:
                print(kernel.report, file=sys.stderr)
    return failures


def compile_matrix(options, nvcc):
    chosen = sampled(list(programs(options.gpus.split(","), options.head_dims.split(",")))[::options.sample])
    failures, rows = 0, []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for kernel in pool.map(lambda words: Kernel(words).make(options.binary, nvcc), chosen):
            print(kernel.line(), flush=True)
            rows.append(kernel.row())
            failures += kernel.failed
            if kernel.failed:
                print(kernel.report, file=sys.stderr, flush=True)
    if options.table:
        head = "| program | type | GPU | spilled bytes | registers | shared bytes | tile |"
        text = "\n".join([head, "|---|---|---|---:|---:|---:|---|", *rows])
        pathlib.Path(options.table).write_text(text + "\n")
    print(f"{len(chosen)} kernels, {failures} fall short")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build" / "flashtl"))
    parser.add_argument("--all", action="store_true", help="every kernel of the matrix")
    parser.add_argument("--sample", type=int, help=f"every Nth kernel; {SAMPLE} unless told")
    parser.add_argument("--gpus", default=",".join(matrix.GPUS))
    parser.add_argument("--head-dims", help="of attention; all kernels of these")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--table", help="write a Markdown table here")
    parser.add_argument("--targets", default=TARGETS, help="of files")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    nvcc = shutil.which("nvcc")
    if not nvcc:
        print("compile_all.py: nvcc is not here", file=sys.stderr)
        sys.exit(3)
    if not options.sample:
        options.sample = 1 if options.all or options.head_dims else SAMPLE
    options.head_dims = options.head_dims or ",".join(matrix.HEAD_DIMS)
    failures = compile_files(options, nvcc) if options.files else compile_matrix(options, nvcc)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
