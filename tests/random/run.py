#!/usr/bin/env python3
"""Random programs: each is refused by a diagnostic about its own text, or right on the interpreter, the emulator, the GPU.

    run.py --flashtl build/flashtl --seed 1 --count 200                       a sample
    run.py --flashtl build/flashtl --count 20000 --jobs 16 --results all.jsonl   goes on where it was stopped
    run.py --flashtl build/flashtl --show 17                                  prints a program
    run.py --flashtl build/flashtl --again failures/17-a100                   runs a failure again

Failures are made smaller and written to --failures, each as a folder: the program, its arrays, the command.
Exit status 0: nothing wrong; 1: findings; 77: NumPy is not here.
"""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import pickle
import random
import shutil
import sys
import tempfile
import time

for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")                 # --jobs says how many cores there are

try:
    import numpy as np
except ImportError:
    print("run.py: NumPy is not here")
    sys.exit(77)

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1])]
import arithmetic
import data
import evaluate
import generate
import judge
import shrink
from sampling import sampled

GPUS = ("t4", "a100", "l40s", "h200")


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--flashtl", default="build/flashtl")
    p.add_argument("--seed", type=int, default=1, help="the first program")
    p.add_argument("--count", type=int, default=100, help="how many programs")
    p.add_argument("--only", default="", help="these seeds alone: 3,17")
    p.add_argument("--gpus", default=",".join(GPUS), help="GPUs to choose from")
    p.add_argument("--each", type=int, default=1, help="GPUs for each program")
    p.add_argument("--on", default="meaning,interpreter,emulator", help="meaning (of the sketch), interpreter (of TL Code), emulator, gpu")
    p.add_argument("--cases", type=int, default=3, help="sets of lengths and arrays for each program")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=600, help="seconds after which a command counts as hanging")
    p.add_argument("--results", help="a line of JSON for each program and GPU; what stands there is not run again")
    p.add_argument("--failures", default="random-failures", help="where failures go")
    p.add_argument("--eight-bits", action="store_true", help="operands of 8 bits in every program, not in one of ten")
    p.add_argument("--edges", action="store_true", help="masks that bound loops: tests that hold together, distances, quotients")
    p.add_argument("--past-ends", action="store_true", help="numbers that overflow, where only elements past the ends of axes meet them")
    p.add_argument("--states", action="store_true", help="a state that goes from chunk to chunk in every program, not in one of twenty-five")
    p.add_argument("--keep-size", action="store_true", help="do not make failures smaller")
    p.add_argument("--known", default="", help="kinds of findings that do not count: 'bad refusal'")
    p.add_argument("--show", type=int, help="print the program of this seed")
    p.add_argument("--again", help="run the failure in this folder again")
    return p.parse_args()


def cases_of(seed, count):
    return [seed * 100 + k for k in range(count)]


def work(job):
    seed, a = job
    program = generate.program(seed, a.eight_bits, a.past_ends, a.edges, a.states)
    r = random.Random(seed * 7919 + 1)
    gpus = [g for g in a.gpus.split(",") if g != "t4" or program.dtype == "f16" or r.random() < 0.05] or a.gpus.split(",")
    if program.pins.get("products") == 8:               # where there are such
        gpus = [g for g in gpus if g in ("l40s", "h200")] or gpus
    gpus = r.sample(gpus, min(a.each, len(gpus)))
    tester = judge.Judge(os.path.abspath(a.flashtl), a.timeout, cache=a.cache)
    lines = []
    started = time.time()
    try:
        outcomes = tester.program(program, gpus, a.on.split(","), cases_of(seed, a.cases))
    except arithmetic.Meaningless as fault:
        outcomes = {gpu: judge.Outcome("meaningless", str(fault)) for gpu in gpus[:1]}
    for gpu, o in outcomes.items():
        if o.bad and o.kind not in ("meaningless", "environment", "missing") and not a.keep_size:
            small, o = shrink.shrink(tester, program, gpu, a.on.split(","), o)
        else:
            small = program
        if o.bad and o.kind not in ("meaningless", "missing"):
            save(a, tester, seed, small, gpu, o)
        lines.append({"seed": seed, "gpu": gpu, "kind": o.kind, "detail": o.detail, "elements": o.elements, "machine": o.machine, "narrow": o.narrow,
                      "program": program.kind, "seconds": round(time.time() - started, 2)})
    return lines


def save(a, tester, seed, program, gpu, outcome):
    """A failure as a folder: program.tl, which says how to run it, its arrays, and the tree."""
    folder = pathlib.Path(a.failures, f"{seed}-{gpu}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    case = data.Case(program, outcome.case if outcome.case is not None else cases_of(seed, 1)[0])
    arguments = tester.arguments(program, case, folder)
    expected, _ = evaluate.Evaluation(program, case.arrays, case.scalars, case.lengths).evaluate()
    for name, values in expected.items():
        np.save(folder / f"expected_{name}.npy", values)
    machine = {None: "interpreter", "meaning": "interpreter"}.get(outcome.machine, outcome.machine)
    place = [] if outcome.machine == "meaning" else ["--gpu", gpu]
    command = ["flashtl", "run", str(folder / "program.tl"), "--on", machine, "--dtype", program.dtype] + place + tester.pins(program) + arguments
    text = f"// {outcome.kind} on {gpu}, {outcome.machine}: {' '.join(outcome.detail.split())}\n// {' '.join(command)}\n// lengths {case.lengths}\n"
    (folder / "program.tl").write_text(text + program.text())
    (folder / "tree.pickle").write_bytes(pickle.dumps((program, gpu, outcome.case, outcome.machine, seed)))


def again(a):
    program, gpu, case, machine, seed = pickle.loads(pathlib.Path(a.again, "tree.pickle").read_bytes())
    tester = judge.Judge(os.path.abspath(a.flashtl), a.timeout)
    outcomes = tester.program(program, [gpu], a.on.split(","), [case] if case is not None else cases_of(seed, a.cases))
    for gpu, o in outcomes.items():
        print(f"{gpu}: {o.kind} {o.detail}")
    return any(o.bad for o in outcomes.values())


def summary(lines):
    kinds = collections.Counter(x["kind"] for x in lines)
    print("outcome: " + ", ".join(f"{k} {n}" for k, n in kinds.most_common()))
    print(f"products of 8 bits as they are: {sum(x.get('narrow', False) for x in lines)}")
    by_gpu = collections.defaultdict(collections.Counter)
    for x in lines:
        by_gpu[x["gpu"]][x["kind"]] += 1
    for gpu in sorted(by_gpu):
        print(f"  {gpu}: " + ", ".join(f"{k} {n}" for k, n in by_gpu[gpu].most_common()))
    refusals = collections.Counter((x["kind"], x["detail"].split(" ")[0]) for x in lines if "refus" in x["kind"] or x["kind"] == "fault")
    for (kind, name), n in refusals.most_common():
        example = next(x for x in lines if x["kind"] == kind and x["detail"].split(" ")[0] == name)
        print(f"  {n:6} {kind}: {name}  (seed {example['seed']}: {example['detail'][len(name):].strip()[:110]})")


def main():
    a = options()
    if a.show is not None:
        p = generate.program(a.show, a.eight_bits, a.past_ends, a.edges, a.states)
        print(f"// --dtype {p.dtype} " + " ".join(f"--let {k}={v}" for k, v in p.pins.items()))
        print(p.text(), end="")
        return 0
    if a.again:
        return again(a)
    done = []
    if a.results and os.path.exists(a.results):
        done = [json.loads(line) for line in open(a.results)]
    known = {x["seed"] for x in done}
    wanted = sampled(int(s) for s in a.only.split(",")) if a.only else range(a.seed, a.seed + a.count)
    seeds = [s for s in wanted if s not in known]
    started, lines = time.time(), [x for x in done if x["seed"] in set(wanted)]
    accepted = set(filter(None, a.known.split(",")))
    with tempfile.TemporaryDirectory() as cache:
        a.cache = cache
        with multiprocessing.Pool(a.jobs) as pool:
            for k, rows in enumerate(pool.imap_unordered(work, [(s, a) for s in seeds]), 1):
                lines += rows
                for x in rows:
                    if a.results:
                        with open(a.results, "a") as out:
                            out.write(json.dumps(x) + "\n")
                    if x["kind"] not in ("right", "refused", "undecided"):
                        print(f"{x['kind']}: seed {x['seed']} on {x['gpu']}, {x['machine']}: {x['detail'][:300]}", flush=True)
                if k % 100 == 0:
                    rate = k / (time.time() - started)
                    print(f"{k} of {len(seeds)} programs, {rate:.2f} a second, {(len(seeds) - k) / rate / 60:.0f} minutes left", flush=True)
                    for entry in os.scandir(cache):
                        if entry.is_file() and entry.stat().st_mtime < time.time() - a.timeout:
                            os.unlink(entry.path)
    summary(lines)
    if any(x["kind"] == "missing" for x in lines):
        print("run.py: a machine is not here: see `missing` above")
        return 77
    return any(x["kind"] not in accepted | {"right", "refused", "undecided"} for x in lines)


if __name__ == "__main__":
    sys.exit(main())
