#!/usr/bin/env python3
"""Do the barriers and waits of kernels hold at lengths that the checks did not choose? (lengths.c)

lengths.py FLASHTL WAITS_LENGTHS [--seed N] [--count N] [--runs N]: the texts of this folder that wait and release, and
the TL Code of random programs, each for one GPU."""
import argparse
import concurrent.futures
import pathlib
import random
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(FOLDER.parent), str(FOLDER.parent / "random")]
import generate  # noqa: E402
from sampling import sampled  # noqa: E402

GPUS = ("t4", "a100", "l40s", "h200")


def code_of(flashtl, seed, folder):
    """A file with the TL Code of a random program; None where it is refused."""
    program = generate.program(seed)
    sketch, code = folder / f"{seed}.sketch.tl", folder / f"{seed}.tl"
    gpu = random.Random(seed).choice(GPUS if program.dtype == "f16" else GPUS[1:])
    pins = [word for name, value in program.pins.items() for word in ("--let", f"{name}={value}")]
    sketch.write_text(program.text())
    done = subprocess.run([flashtl, "reason", sketch, "--gpu", gpu, "--dtype", program.dtype, *pins], capture_output=True)
    if done.returncode not in (0, 1):
        raise SystemExit(f"seed {seed}: reason ended with {done.returncode}: {done.stderr.decode()}")
    if done.returncode:
        return None
    code.write_bytes(done.stdout)
    return code


def main():
    p = argparse.ArgumentParser()
    p.add_argument("flashtl")
    p.add_argument("lengths")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=160)
    p.add_argument("--runs", type=int, default=60)
    a = p.parse_args()
    texts = [path for path in sorted(FOLDER.rglob("*.tl")) if "\nrole " in path.read_text()]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor() as pool:
        seeds = sampled(range(a.seed, a.seed + a.count), "FLASHTL_SAMPLE")
        made = pool.map(lambda seed: code_of(a.flashtl, seed, pathlib.Path(folder)), seeds)
        texts += [path for path in made if path]
        done = subprocess.run([a.lengths, "--runs", str(a.runs), *texts], text=True, capture_output=True)
        for path in (line.split(":")[0] for line in done.stderr.splitlines()):
            print(pathlib.Path(path).read_text() if path.startswith(folder) else "", end="")
        print(done.stderr + done.stdout, end="")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
