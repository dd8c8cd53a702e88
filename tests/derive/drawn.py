#!/usr/bin/env python3
"""Derived gradients of random sketches, against differences of float64 by NumPy.

    drawn.py FLASHTL --seed 1 --count 100 [--jobs 2]

Sketches come from tests/random/generate.py, in f32; their meaning from tests/random/evaluate.py, which shares nothing with the
compiler. A sketch is moved a little along a random direction of one Input, to both sides and at two distances; where both
distances tell the same slope, the derived gradient has to tell it, too. Exit status 77 without NumPy, else 1 where any is wrong.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("drawn.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "random"))
sys.dont_write_bytecode = True
import arithmetic  # noqa: E402
import data  # noqa: E402
import evaluate  # noqa: E402
import generate  # noqa: E402
import judge  # noqa: E402
import tree  # noqa: E402

SAME = 1e-3   # of the slopes at two distances: else the sketch is too crooked here to tell
POLES = ("Sqrt", "Rsqrt", "Log", "Log2", "Reciprocal", "Divide")  # of 0 they have no finite slope
LARGEST = 1e37  # what f32 has no room for cannot be told
RIGHT = 5e-3  # of the larger of both sides, and of the gradient's size


def drawn(seed):
    """A sketch of one kernel in f32, and a case of it; None: it is of several."""
    program = generate.program(seed)
    program.dtype = "f32"
    for d in program.tensors():
        if d.type not in ("i32", None):
            d.type = "f32"
    return program


def loss(program, case, arrays, weights):
    made, _ = evaluate.Evaluation(program, arrays, case.scalars, case.lengths).evaluate()
    return sum(float(np.nansum(weights[name] * made[name])) for name in weights)


def slope(program, case, weights, name, direction):
    """By differences of fourth order; None where they do not tell."""
    size = 1 + np.sqrt(np.mean(case.arrays[name] ** 2))
    found = []
    for step in (1e-4 * size, 2e-4 * size):
        moved = [loss(program, case, {**case.arrays, name: case.arrays[name] + k * step * direction}, weights) for k in (-2, -1, 1, 2)]
        found.append((moved[0] - 8 * moved[1] + 8 * moved[2] - moved[3]) / (12 * step))
    if not np.all(np.isfinite(found)) or abs(found[0] - found[1]) > SAME * max(map(abs, found)):
        return None
    return found[0]


def examine(job):
    seed, flashtl = job
    random = np.random.default_rng(seed)
    try:
        program = drawn(seed)
        case = data.Case(program, seed)
        expected, _ = evaluate.Evaluation(program, case.arrays, case.scalars, case.lengths).evaluate()
    except arithmetic.Meaningless as fault:
        return seed, "meaningless", str(fault)
    tester = judge.Judge(flashtl, 300)
    with tempfile.TemporaryDirectory() as work:
        folder = pathlib.Path(work)
        (folder / "sketch.tl").write_text(program.text())
        done = subprocess.run([flashtl, "derive", folder / "sketch.tl", "-o", folder / "derived.tl"], capture_output=True, text=True, timeout=300)
        if done.returncode == 1 and "(its gradients)" not in done.stderr:
            return seed, "refused", done.stderr.splitlines()[0].split("error: ")[-1]
        if done.returncode:
            return seed, "fault", f"status {done.returncode}: {done.stderr[-300:]}"
        text = (folder / "derived.tl").read_text()
        outputs = [name for name in expected if f"Input  d{name} " in text and name.isidentifier()]
        gradients = [name for name in case.arrays if f"Output d{name} " in text]
        weights = {name: random.standard_normal(expected[name].shape) for name in outputs}
        arguments = tester.arguments(program, case, folder)
        own = [k for k, word in enumerate(arguments) if word == "--out"]
        arguments = [word for k, word in enumerate(arguments) if k not in own and k - 1 not in own]
        for name in outputs:
            np.save(folder / f"d{name}.npy", weights[name].astype(np.float32))
            weights[name] = weights[name].astype(np.float32).astype(np.float64)
            arguments += ["--in", f"d{name}={folder}/d{name}.npy"]
        for name in gradients:
            arguments += ["--out", f"d{name}={folder}/gradient_{name}.npy"]
        command = [flashtl, "run", folder / "derived.tl", "--on", "interpreter", "--dtype", "f32", *tester.pins(program), *arguments]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600)
        if done.returncode:
            return seed, "fault", f"run: {done.stdout[-200:]}{done.stderr[-400:]}"
        return seed, *compare(program, case, weights, gradients, folder, random)


def compare(program, case, weights, gradients, folder, random):
    compared = 0
    for name in gradients:
        own = np.load(folder / f"gradient_{name}.npy").astype(np.float64)
        if not np.all(np.isfinite(own)) and any(f"Compute {word} " in program.text() for word in POLES):
            return "singular", ""
        if own.shape != case.arrays[name].shape:
            return "wrong", f"d{name} has the shape {own.shape}, {name} {case.arrays[name].shape}"
        direction = random.standard_normal(own.shape)
        direction /= max(np.linalg.norm(direction), 1e-30)
        try:
            want = slope(program, case, weights, name, direction) if own.size else None
        except arithmetic.Meaningless:
            want = None
        if want is None or abs(want) > LARGEST:
            continue
        found = float((own * direction).sum())
        size = np.linalg.norm(own) / np.sqrt(own.size)
        compared += 1
        if not abs(found - want) <= RIGHT * (max(abs(want), abs(found)) + size) + 1e-7:
            return "wrong", f"d{name}: {found:.6g} along a direction, {want:.6g} by differences; its size {size:.3g}"
    return ("right", "") if compared else ("undecided", "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flashtl")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="print what is refused, too")
    parser.add_argument("--show", type=int, help="print the sketch of this seed, and its gradients")
    a = parser.parse_args()
    if a.show is not None:
        print(drawn(a.show).text())
        return 0
    jobs = [(seed, os.path.abspath(a.flashtl)) for seed in range(a.seed, a.seed + a.count)]
    kinds, refusals = collections.Counter(), collections.Counter()
    with concurrent.futures.ProcessPoolExecutor(a.jobs) as pool:
        for seed, kind, detail in pool.map(examine, jobs):
            kinds[kind] += 1
            if kind == "refused":
                refusals[" ".join(word for word in detail.split() if word.islower())[:90]] += 1
            if kind in ("wrong", "fault") or (a.all and kind == "refused"):
                print(json.dumps({"seed": seed, "kind": kind, "detail": detail}), flush=True)
    print(", ".join(f"{kind} {n}" for kind, n in kinds.most_common()))
    for words, n in refusals.most_common(25):
        print(f"  refused {n}: {words}")
    return 1 if kinds["wrong"] or kinds["fault"] else 0


if __name__ == "__main__":
    sys.exit(main())
