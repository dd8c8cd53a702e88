#!/usr/bin/env python3
"""Compiles emitted kernels with nvcc for every target they were made for, and for later ones: no warning, no
spilled byte. compile_all.py [--targets 75,80,86,89,90] FILE.cu...; exit status 1 when one falls short."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TARGETS = "75,80,86,89,90,100,120"


def least_target(text):
    return int(re.search(r"__CUDA_ARCH__ < (\d+)", text).group(1)) // 10


def compile_kernel(nvcc, path, target, folder):
    command = [nvcc, "-cubin", f"-arch=sm_{target}", "-Xptxas", "-v", "-o", str(folder / "kernel.cubin"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    report = done.stdout + done.stderr
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill", report)))
    registers = re.search(r"Used (\d+) registers", report)
    wrong = done.returncode != 0 or "warning" in report or spilled > 0
    return wrong, int(registers.group(1)) if registers else 0, spilled, report


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--targets", default=TARGETS)
    options.add_argument("files", nargs="+", type=pathlib.Path)
    arguments = options.parse_args()
    nvcc = shutil.which("nvcc")
    if not nvcc:
        sys.exit("compile_all.py: nvcc is not here")
    failures = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.files:
            least = least_target(path.read_text())
            for target in map(int, arguments.targets.split(",")):
                if target < least:
                    continue
                wrong, registers, spilled, report = compile_kernel(nvcc, path, target, pathlib.Path(folder))
                print(f"{'WRONG' if wrong else 'good'} {path.name} sm_{target} {registers} registers {spilled} bytes spilled")
                if wrong:
                    failures += 1
                    print(report, file=sys.stderr)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
