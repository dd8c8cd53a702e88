#!/usr/bin/env python3
"""Changes sketches in one to three places, and asks whether what becomes of them is still told truly.

    sketch_mutants.py --flashtl build/flashtl --count 60                          a sample
    sketch_mutants.py --flashtl build/flashtl --count 20000 --jobs 16 --results all.jsonl --failures wrong

A statement of a random program (generate.py) is dropped, doubled, moved, or gets another operand, operation, target or
mask; bounds of loops and conditions move. What `check` refuses is changed no further. The others have a meaning, which is
another one: each is refused in terms of the sketch, or its kernel gives that meaning, whatever sizes of blocks the
reasoner chose: `verify` compares it with the sketch run on whole axes, over cases with several blocks.
Exit status 0: nothing wrong; 1: findings.
"""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

try:
    import numpy  # what generate.py and judge.py need
except ImportError:
    print("sketch_mutants.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import generate
import judge

GPUS = ("t4", "a100", "l40s", "h200")
ONE = "Exp Exp2 Log Tanh Erf Abs Sqrt Reciprocal Cast RowMax RowSum".split()
TWO = "Add Subtract Multiply Divide Max Min".split()
WORST = 0.05                    # a relative error that no order of sums and no rounding makes
GOOD = ("right", "refused", "undecided", "unchanged")


class Text:
    """The lines of a sketch, and what stands in them."""

    def __init__(self, lines, r):
        self.lines, self.r = lines, r
        self.acts = [i for i, x in enumerate(lines) if re.match(r"\s*(Copy|Compute) ", x)]
        self.body = [i for i, x in enumerate(lines) if re.match(r"\s*(Copy|Compute|for|end)\b", x)]
        text = "\n".join(lines)
        copied = {re.match(r"\s*Copy (\w+)", lines[i]).group(1) for i in self.acts if "Copy" in lines[i]}
        self.tiles = sorted(set(re.findall(r"and (?:get|accumulate) (\w+)", text)) | copied)

    def with_line(self, at, *new):
        return self.lines[:at] + list(new) + self.lines[at + 1:]

    def before(self, at, new):
        return self.lines[:at] + [re.match(r"\s*", self.lines[at]).group(0) + new] + self.lines[at:]

    def any_with(self, pattern):
        found = [i for i in self.acts if re.search(pattern, self.lines[i])]
        return self.r.choice(found) if found else None


def swap(t):
    at = t.r.choice(t.acts)
    place = t.body.index(at)
    if place + 1 == len(t.body):
        return None
    other = t.body[place + 1]
    lines = list(t.lines)
    lines[at], lines[other] = lines[other], lines[at]
    return lines


def drop(t):
    return t.with_line(t.r.choice(t.acts))


def double(t):
    at = t.r.choice(t.acts)
    return t.with_line(at, t.lines[at], t.lines[at])


def move(t):
    at, to = t.r.choice(t.acts), t.r.choice(t.body)
    lines = t.lines[:at] + t.lines[at + 1:]
    return lines[:to] + [t.lines[at]] + lines[to:]


def operand(t):
    at = t.r.choice(t.acts)
    names = [m for m in re.finditer(r"\b\w+\b", t.lines[at]) if m.group() in t.tiles]
    if not names:
        return None
    m = t.r.choice(names)
    return t.with_line(at, t.lines[at][:m.start()] + t.r.choice(t.tiles) + t.lines[at][m.end():])


def operation(t):
    at = t.any_with(r"Compute (" + "|".join(ONE + TWO) + r")\b")
    if at is None:
        return None
    name = re.search(r"Compute (\w+)", t.lines[at]).group(1)
    return t.with_line(at, t.lines[at].replace(name, t.r.choice(TWO if name in TWO else ONE), 1))


def target(t):
    at = t.any_with(r"and (get|accumulate)")
    if at is None:
        return None
    return t.with_line(at, re.sub(r"and (get|accumulate)", lambda m: "and accumulate" if m.group(1) == "get" else "and get", t.lines[at], count=1))


def mask(t):
    at = t.any_with(r"Compute Mask ")
    if at is None:
        return None
    value = t.r.choice(("", ", 0", ", 1.5", ", -1"))
    new = re.sub(r"Mask \w+(, [^ ]+)?", lambda m: f"Mask {t.r.choice(t.tiles)}{value}", t.lines[at].strip())
    return t.before(t.r.choice(t.acts), new)


def fill(t):
    return t.before(t.r.choice(t.acts), f"Compute Fill {t.r.choice(('0', '1', '-1e30', '-2'))} and get {t.r.choice(t.tiles)}")


def change(t):
    """A statement more: the tile itself, with another one, by a function, or by what is made of its rows."""
    a, b, one = t.r.choice(t.tiles), t.r.choice(t.tiles), t.r.choice(ONE)
    return t.before(t.r.choice(t.body), t.r.choice((
        f"Compute Multiply {a}, {t.r.choice(('2', '-0.5', b))} and get {a}", f"Compute {t.r.choice(TWO)} {a}, {b} and get {a}", f"Compute {one} {a} and get {a}",
        f"Compute {one} {a} and get z_{a}", f"Compute RowSum {a} and {t.r.choice(('get', 'accumulate'))} rs_{a}", f"Compute RowMax {a} and get rm_{a}",
        f"Compute MultiplyAdd {a}, {b}, {a} and get {a}")))


def softmax(t):
    return t.before(t.r.choice(t.acts), f"Compute Softmax {t.r.choice(t.tiles)}")


def collect(t):
    a = t.r.choice(t.tiles)
    return t.before(t.r.choice(t.acts), f"Compute Cast {a} and accumulate ac_{a}")


def store(t):
    found = re.findall(r"Copy (\w+) from register to global(?: and get (\w+))?", "\n".join(t.lines))
    if not found:
        return None
    name, given = t.r.choice(found)
    return t.before(t.r.choice(t.acts), f"Copy {t.r.choice(t.tiles)} from register to global and get {given or name}")


def index(t):
    """A condition's index or number moves."""
    at = t.any_with(r" where ")
    if at is None:
        return None
    head, condition = t.lines[at].split(" where ", 1)
    inside = [m.span() for m in re.finditer(r"\[[^]]*\]", condition)]     # places in tables stay where they are
    found = list(re.finditer(r"\b[a-z]\w*\b(?!\[|\()|\b\d+\b", condition))
    found = [m for m in found if m.group() not in ("and", "or", "not", "abs", "min", "max") and not any(a < m.start() < b for a, b in inside)]
    if not found:
        return None
    m = t.r.choice(found)
    return t.with_line(at, f"{head} where {condition[:m.start()]}({m.group()} {t.r.choice(('+ 1', '- 1', '+ 16'))}){condition[m.end():]}")


def walk(t):
    """A loop goes over blocks of another name, or in single steps."""
    loops = [i for i in t.body if re.match(r"\s*for ", t.lines[i])]
    if not loops:
        return None
    at = t.r.choice(loops)
    m = re.match(r"(\s*for \w+ = 0:\w+?)(/\w+)?$", t.lines[at])
    return m and t.with_line(at, m.group(1) + t.r.choice(("/BN", "/BK", "/BJ", "")))


MUTATIONS = (swap, drop, double, move, operand, operation, target, mask, fill, change, change, softmax, collect, store, index, walk)


class Mutant:
    def __init__(self, flashtl, seed, folder, timeout):
        self.flashtl, self.timeout, self.r = flashtl, timeout, random.Random(seed)
        self.program = generate.program(seed + 10_000_000)
        self.pins = judge.Judge.pins(self.program)
        self.path = folder / "sketch.tl"
        self.environment = dict(os.environ, FLASHTL_CACHE="")
        self.lines = self.program.text().splitlines()

    def call(self, *command):
        try:
            return subprocess.run([self.flashtl, *command], capture_output=True, text=True, errors="replace", timeout=self.timeout, env=self.environment)
        except subprocess.TimeoutExpired:
            return None

    def mutate(self):
        """Changes the text until so many changes have passed `check`; an Outcome where that itself fails."""
        wanted, changes = self.r.choice((1, 2, 2, 3)), 0
        for _ in range(14):
            lines = self.r.choice(MUTATIONS)(Text(self.lines, self.r))
            if lines is None or lines == self.lines:
                continue
            self.path.write_text("\n".join(lines) + "\n")
            done = self.call("check", str(self.path))
            if done is None or done.returncode not in (0, 1):
                self.lines = lines
                return f"crash: check: {'too long' if done is None else done.returncode}"
            if done.returncode == 0:
                self.lines, changes = lines, changes + 1
                if changes == wanted:
                    break
        text = "\n".join(self.lines) + "\n"
        self.path.write_text(text)
        # A decision that a change took away is pinned no more.
        self.pins = [x for name, value in self.program.pins.items() if re.search(rf"\b{name}\b", text) for x in ("--let", f"{name}={value}")]
        return None if changes else "unchanged"

    def judge(self, gpu, on):
        """What becomes of it: (kind, detail)."""
        options = ["--gpu", gpu, "--dtype", self.program.dtype, *self.pins]
        done = self.call("reason", str(self.path), "--json", *options)
        if done is None or done.returncode not in (0, 1):
            return "crash", f"reason: {'too long' if done is None else f'{done.returncode} {done.stderr[-300:]}'}"
        if done.returncode:
            return ("bad refusal", done.stderr[:300]) if "(TL Code)" in done.stderr else ("refused", "")
        done = self.call("verify", str(self.path), *options, "--on", on, "--shapes", "decisive", "--seconds", "2")
        if done is None or done.returncode not in (0, 1, 2, 3):
            return "crash", f"verify: {'too long' if done is None else f'{done.returncode} {done.stderr[-300:]}'}"
        return self.verdict(done)

    def verdict(self, done):
        """A large relative error over an Output is another meaning; what is faint, or is made of values between kernels, may
        be how the program spreads its roundings: run.py follows those."""
        if done.returncode != 1:
            return ("right", "") if done.returncode == 0 else ("undecided", f"verify: status {done.returncode}")
        lines = done.stdout.splitlines()
        said = [b.strip() for a, b in zip(lines, lines[1:]) if a.startswith("FAIL")]
        faults = [x for x in said if not re.match(r"\w+: (relative rms|largest error|\d+ NaN or infinity)", x)]
        if " is out of bounds: " in done.stdout + done.stderr:
            return "undecided", "a table of fixed length"
        if faults or not said and "was not verified" not in done.stderr + done.stdout:
            return "fault", (faults or [(done.stderr + done.stdout).strip()])[0][:300]
        large = [x for x in said if float((re.search(r": relative rms ([\d.e+-]+), at most", x) or [0, 0])[1]) >= WORST]
        is_plain = "\n".join(self.lines).count("\nkernel ") == 0
        return ("wrong", large[0][:300]) if large and is_plain else ("undecided", (said or ["no case could be compared"])[0][:200])


def work(job):
    seed, a = job
    started = time.time()
    with tempfile.TemporaryDirectory() as top:
        mutant = Mutant(os.path.abspath(a.flashtl), seed, pathlib.Path(top), a.timeout)
        ended = mutant.mutate()
        gpu = mutant.r.choice([g for g in GPUS if g != "t4" or mutant.program.dtype == "f16"])
        kind, detail = (ended.split(":")[0], ended) if ended else mutant.judge(gpu, a.on)
        if kind not in GOOD and a.failures:
            pathlib.Path(a.failures).mkdir(parents=True, exist_ok=True)
            head = f"// {kind} on {gpu}: {detail}\n// --gpu {gpu} --dtype {mutant.program.dtype} {' '.join(mutant.pins)}\n"
            pathlib.Path(a.failures, f"{seed}-{gpu}.tl").write_text(head + "\n".join(mutant.lines) + "\n")
    return {"seed": seed, "gpu": gpu, "kind": kind, "detail": detail, "seconds": round(time.time() - started, 2)}


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--flashtl", default="build/flashtl")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=60, help="how many programs")
    p.add_argument("--only", default="", help="these seeds alone: 3,17")
    p.add_argument("--on", default="interpreter", help="interpreter or emulator")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("--results", help="a line of JSON for each; what stands there is not run again")
    p.add_argument("--failures", help="a folder for those that are wrong")
    return p.parse_args()


def main():
    a = options()
    lines = [json.loads(x) for x in open(a.results)] if a.results and os.path.exists(a.results) else []
    known = {x["seed"] for x in lines}
    seeds = [int(s) for s in a.only.split(",") if s] or range(a.seed, a.seed + a.count)
    with multiprocessing.Pool(a.jobs) as pool:
        for x in pool.imap_unordered(work, ((s, a) for s in seeds if s not in known)):
            lines.append(x)
            if a.results:
                with open(a.results, "a") as out:
                    out.write(json.dumps(x) + "\n")
            if x["kind"] not in GOOD:
                print(f"{x['kind']}: seed {x['seed']} on {x['gpu']}: {x['detail']}", flush=True)
    counts = collections.Counter(x["kind"] for x in lines)
    print(", ".join(f"{n} {kind}" for kind, n in counts.most_common()))
    if not counts["right"]:
        print("no kernel was compared")
        return 1
    return any(k not in GOOD for k in counts)


if __name__ == "__main__":
    sys.exit(main())
