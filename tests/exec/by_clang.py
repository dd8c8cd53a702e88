#!/usr/bin/env python3
"""Kernels of every class of GPU where clang is the only compiler: no NVRTC, no nvcc, no file of CUDA's. The emulator runs them.

    by_clang.py FLASHTL [--every N]    each N-th program of the matrix (10), and all of examples/

Exit status 1 when one is not right, 77 when there is no clang that compiles for GPUs.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests"), str(ROOT / "tests" / "exec")]
import compile_all  # noqa: E402: the list of programs
from sampling import sampled  # noqa: E402

GPUS = ["t4", "a100", "l40s", "h200"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("flashtl")
    parser.add_argument("--every", type=int, default=10)
    options = parser.parse_args()
    clang = shutil.which("clang")
    probe = ["-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-gpu-arch=sm_86", "-S", "-o", os.devnull, "-"]
    if not clang or subprocess.run([clang, *probe], input="", text=True, capture_output=True).returncode:
        print("skipped: there is no clang for GPUs")
        return 77
    words = [w for w in compile_all.programs(GPUS, ["64", "128"]) if not ("t4" in w and any("copy_kinds" in x for x in w))]
    chosen = words[::options.every]
    chosen += [[str(path), "--head-dim", "64", "--gpu", "h200"] for path in sorted((ROOT / "examples").glob("*.tl"))]
    chosen, failed = sampled(chosen), 0
    with tempfile.TemporaryDirectory() as folder:
        for name in ("sh", "clang"):
            os.symlink(os.path.realpath(shutil.which(name)), f"{folder}/{name}")
        kept = {k: os.environ[k] for k in ("LD_LIBRARY_PATH", "ASAN_OPTIONS") if k in os.environ}
        environment = kept | {"PATH": folder, "HOME": folder, "FLASHTL_NVRTC": "", "FLASHTL_CACHE": "", "FLASHTL_CUDA": "/no/such/library"}
        for program in chosen:
            done = subprocess.run([options.flashtl, "verify", *program, "--on", "emulator", "--case", "1"], capture_output=True,
                                  text=True, env=environment, timeout=1800)
            if done.returncode:
                failed += 1
                print(f"flashtl verify {' '.join(program)}: status {done.returncode}\n{done.stdout[-800:]}{done.stderr[-800:]}")
    print(f"{len(chosen)} programs by clang, {failed} failed")
    return failed > 0


sys.exit(main())
