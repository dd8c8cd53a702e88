#!/usr/bin/env python3
"""Breaks TL Code in one place, and says who notices: `check`, `verify`, or nobody.

    mutants.py --flashtl build/flashtl --count 300                      a sample
    mutants.py --flashtl build/flashtl --count 5000 --jobs 16 --results mutants.jsonl --survivors survivors

The programs are the shipped sketches, the examples, and random ones (generate.py). Each mutant is refused by `check`,
caught by `verify` against its sketch (interpreter, then emulator; by drawn cases where the others let it pass), caught by NumPy (evaluate.py, of random programs), or
equal: the CUDA text is the same, or equal.py proves that the change says the same; a few are explained (explained.py).
What is left has survived, and is listed. Exit status 0: no survivor; 77: NumPy or a CUDA compiler is not here.
"""
import argparse
import collections
import copy
import json
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import threading
import time

try:
    import numpy as np
except ImportError:
    print("mutants.py: NumPy is not here")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import equal
import evaluate
import explained
import generate
import judge
import noise

ROOT = pathlib.Path(__file__).resolve().parents[2]
BESIDE = ("survived", "same results", "NumPy alone", "crash", "timeout", "original")  # verdicts that fail
KEPT = BESIDE + ("translate",)                                            # and those that are worth a look
SHIPPED = (("--op", "mha", "--causal", "--head-dim", "64"), ("--op", "gqa", "--head-dim", "128", "--causal", "--lse"),
           ("--op", "mqa", "--window", "100", "--causal", "--head-dim", "64"), ("--op", "mha", "--softcap", "20", "--head-dim", "64"),
           ("--op", "mha", "--alibi", "--head-dim", "64"), ("--op", "mla", "--causal", "--head-dim", "128"))
WIDTHS = {"d": 64, "dv": 64, "e": 64, "k": 64}


# A mutation takes the lines and a random generator, and gives the lines with one place changed, or None.
def lines_with(lines, pattern):
    return [i for i, line in enumerate(lines) if re.search(pattern, line)]


def drop(pattern):
    def mutate(lines, r):
        found = lines_with(lines, pattern)
        if not found:
            return None
        i = r.choice(found)
        return lines[:i] + lines[i + 1:]
    return mutate


def replace(pattern, *choices):
    """One match of a pattern becomes something else; a choice may be a function of the match."""
    def mutate(lines, r):
        found = [(i, m) for i, line in enumerate(lines) for m in re.finditer(pattern, line)]
        if not found:
            return None
        i, m = r.choice(found)
        new = r.choice(choices)
        new = new(m, r) if callable(new) else m.expand(new)
        return lines[:i] + [lines[i][:m.start()] + new + lines[i][m.end():]] + lines[i + 1:]
    return mutate


def an_if(lines, r):
    """Where a condition and its end stand; None: there is none."""
    found = lines_with(lines, r"^\s*if ")
    if not found:
        return None
    i = r.choice(found)
    depth = 0
    for k in range(i, len(lines)):
        word = lines[k].split()[0] if lines[k].split() else ""
        depth += word in ("if", "for", "role")
        depth -= word == "end"
        if depth == 0:
            return i, k
    return None


def without_if(lines, r):
    """A condition goes, its body stays."""
    place = an_if(lines, r)
    return place and lines[:place[0]] + lines[place[0] + 1:place[1]] + lines[place[1] + 1:]


def without_block(lines, r):
    """A condition goes with its body."""
    place = an_if(lines, r)
    return place and lines[:place[0]] + lines[place[1] + 1:]


def swap(lines, r):
    """Two statements that follow one another change places."""
    found = [i for i in range(len(lines) - 1) if all(re.match(r"\s*(Compute|Copy|Wait|Release|Reshape) ", x) for x in lines[i:i + 2])]
    if not found:
        return None
    i = r.choice(found)
    return lines[:i] + [lines[i + 1], lines[i]] + lines[i + 2:]


def swap_indices(m, r):
    spots = m.group(1).split(", ")
    if len(spots) < 2:
        return m.group(0)
    i, k = r.sample(range(len(spots)), 2)
    spots[i], spots[k] = spots[k], spots[i]
    return f"[{', '.join(spots)}]"


def move(m, r):
    """An index moves by one, or becomes another."""
    return r.choice((f"{m.group(1)}{m.group(2)} + 1", f"{m.group(1)}0", f"{m.group(1)}{m.group(2)} - 1"))


def number(m, r):
    return r.choice((str(int(m.group(0)) + 1), str(max(0, int(m.group(0)) - 1)), str(2 * int(m.group(0)))))


MUTATIONS = {
    "drop Wait": drop(r"^\s*Wait "), "drop Release": drop(r"^\s*Release "), "drop Mask": drop(r"^\s*Compute Mask"),
    "drop Fill": drop(r"^\s*Compute Fill"), "drop Compute": drop(r"^\s*Compute "), "drop Copy": drop(r"^\s*Copy "),
    "drop Reshape": drop(r"^\s*Reshape "), "drop GEMM": drop(r"^\s*Compute GEMM"),
    "drop if": without_if, "drop if and body": without_block, "swap statements": swap,
    "first iteration": replace(r"(for \w+ = )(\d+|\w+):", r"\g<1>\g<2> + 1:"),
    "last iteration": replace(r"(for \w+ = .*:.*?)(\s*//|$)", r"\1 - 1\2", r"\1 + 1\2"),
    "bound": replace(r"\b(ceil|floor)\(", lambda m, r: "floor(" if m.group(1) == "ceil" else "ceil("),
    "min, max": replace(r"\b(min|max)\(", lambda m, r: "max(" if m.group(1) == "min" else "min("),
    "comparison": replace(r" (<=|>=|<|>|==|!=) ", lambda m, r: f" {r.choice([x for x in ('<', '<=', '>', '>=') if x != m.group(1)])} "),
    "and, or": replace(r" (and|or) ", lambda m, r: m.group(0) if m.string[m.end():m.end() + 3] in ("get", "acc") else " or " if m.group(1) == "and" else " and "),
    "sign": replace(r" ([+-]) (?!\d+e)", lambda m, r: " - " if m.group(1) == "+" else " + "),
    "number": replace(r"(?<![\w.])\d+(?![\w.])", number),
    "real number": replace(r"-?\d+\.\d+(e-?\d+)?|-?\d+e-?\d+", lambda m, r: repr(-float(m.group(0))), lambda m, r: repr(float(m.group(0)) * 1.01 + 1e-30)),
    "coordinate": replace(r"(L = |\[|, )([a-z]\w*)(?=[],])", move),
    "swap indices": replace(r"\[([^][]*)\]", swap_indices),
    "accumulate": replace(r"and (accumulate|get)", lambda m, r: "and get" if m.group(1) == "accumulate" else "and accumulate"),
    "turned": replace(r"(\w+)\.T", r"\1"),
    "operation": replace(r"Compute (Add|Subtract|Multiply|Divide|Max|Min|RowMax|RowSum)", lambda m, r: "Compute " + {
        "Add": "Subtract", "Subtract": "Add", "Multiply": "Add", "Divide": "Multiply", "Max": "Min", "Min": "Max", "RowMax": "RowSum", "RowSum": "RowMax"}[m.group(1)]),
    "stages": replace(r"stages (\d)", lambda m, r: f"stages {r.choice([x for x in '123' if x != m.group(1)])}"),
    "in place of": replace(r" in place of \w+", ""),
    "async": replace(r" async", ""),
    "operand": replace(r"(Compute \w+ )(\w+), (\w+)(?= and)", r"\1\3, \2"),
}


def plain(text):
    """TL Code without comments."""
    return [re.sub(r"\s*//.*", "", line) for line in text.splitlines() if line.strip() and not line.strip().startswith("//")]


class Subject:
    """A sketch, how flashtl is told about it, and its TL Code for a GPU."""

    def __init__(self, flashtl, seed, folder, timeout):
        r = random.Random(seed)
        self.flashtl, self.seed, self.timeout, self.program = flashtl, seed, timeout, None
        self.gpu = r.choice(("t4", "t4", "a100", "a100", "l40s", "h200"))
        self.environment = dict(os.environ, FLASHTL_CACHE="")
        kind = r.choice(("shipped", "example", "random", "random"))
        self.options = []
        if kind == "shipped":
            self.name = " ".join(r.choice(SHIPPED))
            options = self.name.split()
            self.options = options[options.index("--head-dim"):options.index("--head-dim") + 2]
            text = self.call(["sketch", "--op", options[1]] + [x for x in options[2:] if x not in self.options]).stdout
        elif kind == "example":
            path = r.choice(sorted((ROOT / "examples").glob("*.tl")) + sorted((ROOT / "sketches").glob("[cgr]*.tl")))
            self.name, text = path.stem, path.read_text()
            self.options = [x for k, v in WIDTHS.items() if re.search(rf"[(,;] {k}\)", text) for x in ("--let", f"{k}={v}")]
        else:
            self.program = generate.program(seed)
            self.name, text = f"random {seed}", self.program.text()
            self.options = ["--dtype", self.program.dtype] + judge.Judge.pins(self.program)
            if self.program.dtype != "f16" and self.gpu == "t4":
                self.gpu = "a100"
        self.sketch = folder / "sketch.tl"
        self.sketch.write_text(text)
        self.text_of_sketch = text
        done = self.call(["reason", str(self.sketch), "--gpu", self.gpu] + self.options)
        self.code = plain(done.stdout) if done and done.returncode == 0 else None

    def call(self, command):
        try:
            return subprocess.run([self.flashtl] + command, capture_output=True, text=True, errors="replace", timeout=self.timeout, env=self.environment)
        except subprocess.TimeoutExpired:
            return None

    def verify(self, path, on, shapes, more=0):
        """The exit status of `verify` and what it says, up to the first case that fails; None: it took too long."""
        command = [self.flashtl, "verify", str(path), "--against", str(self.sketch), "--gpu", self.gpu, "--on", on, "--shapes", shapes] + self.options
        command += ["--more", str(more), "--seed", str(self.seed)] if more else []
        said, late = [], threading.Event()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=self.environment) as process:
            def end():
                late.set()
                process.kill()
            timer = threading.Timer(self.timeout, end)
            timer.start()
            for line in process.stdout:
                said.append(line)
                if line.startswith("FAIL"):
                    said.append(process.stdout.readline())
                    process.terminate()
                    break
            process.wait()
            timer.cancel()
        failed = any(x.startswith("FAIL") for x in said)
        return None if late.is_set() else (1 if failed else process.returncode, "".join(said))

    def text(self, path):
        done = self.call(["translate", str(path)])
        return None if done is None or done.returncode else re.sub(r"//.*", "", done.stdout)


LENGTHS = (1, 70, 203, 300, 129, 17)


def arrays_of(subject, seed, folder):
    """Arrays for any sketch, by the axes that it declares: --in, --let and --out of `flashtl run`."""
    r = np.random.default_rng(seed)
    known = {"batch": 2, "heads": 3, "kv_heads": 2, "q_heads": 4, "distances": 9} | dict(x.split("=") for x in subject.options if "=" in x)
    if "kv_heads == 1" in subject.text_of_sketch:
        known["kv_heads"] = 1
    if "q_heads == kv_heads" in subject.text_of_sketch:
        known["q_heads"] = 2
    if "--head-dim" in subject.options:
        width = subject.options[subject.options.index("--head-dim") + 1]
        known |= {"d": width, "dv": width, "d_rotary": 64}
    words = []
    for way, name, type, axes in re.findall(r"^(Input|Output) +(\w+) *(\w+)? *(?:\(([^)]*)\))?", subject.text_of_sketch, re.M):
        if way == "Output":
            words += ["--out", f"{name}={folder / f'out_{name}.npy'}"]
            continue
        if not axes:
            words += ["--let", f"{name}=0.125"]
            continue
        shape = []
        for a in re.split("[,;] *", axes):
            length = a.split(" in ")[-1].strip()
            if length not in known:
                known[length] = int(r.choice(LENGTHS))
            shape.append(int(known[length]))
        path = folder / f"{name}.npy"
        v = r.integers(0, 2, shape) if type == "i32" else r.standard_normal(shape)
        np.save(path, v.astype(np.int32 if type == "i32" else np.float32 if type == "f32" else np.float16))
        words += ["--in", f"{name}={path}"]
    return words


def results_of(subject, path, folder, seeds):
    """What the emulator makes of some arrays, bit for bit, by one command; None where it finds a fault."""
    command = ["run", str(path), "--on", "emulator", "--gpu", subject.gpu]
    command += ["--let", "d_rotary=64"] if "d_rotary" in subject.text_of_sketch else []
    places = [folder / str(seed) for seed in seeds]
    for seed, place in zip(seeds, places):
        place.mkdir(exist_ok=True)
        for old in place.glob("out_*.npy"):
            old.unlink()
        words = arrays_of(subject, seed, place)
        if place == places[0]:
            command += words
            continue
        (place / "then.txt").write_text("".join(f"{option} {value}\n" for option, value in zip(words[::2], words[1::2])))
        command += ["--then", str(place / "then.txt")]
    done = subject.call(command)
    if done is None or done.returncode:
        return None
    return [[np.load(p).tobytes() for p in sorted(place.glob("out_*.npy"))] for place in places]


def outputs(subject, path, folder, seeds):
    """What the emulator gives for arrays, and NumPy's verdict where the program is a random one."""
    if subject.program is None:
        return results_of(subject, path, folder, seeds), None
    tester = judge.Judge(subject.flashtl, subject.timeout)
    program = subject.program
    bare = copy.copy(program)
    bare.pins = {k: v for k, v in program.pins.items() if k in program.lengths}
    narrow = noise.narrow_kernels(subject.path.read_text())
    if subject.cases is None:
        subject.cases = []
        for seed in seeds:
            case = judge.data.Case(program, seed)
            subject.cases.append((seed, case, *evaluate.Evaluation(program, case.arrays, case.scalars, case.lengths, narrow).evaluate()))
    cases, places = subject.cases, [folder / str(seed) for seed in seeds]
    for place in places:
        place.mkdir(exist_ok=True)
    # A length that no array has is pinned, and so the kernel is made for it alone.
    together = not any(tester.told_lengths(bare, case) for _, case, *_ in cases)
    for k in [slice(None)] if together else [slice(i, i + 1) for i in range(len(cases))]:
        outcome = tester.run(path, bare, cases[k], places[k], subject.gpu, "emulator", pins=False, narrow=bool(narrow))
        if outcome.kind != "right":
            return None, outcome
    return [[np.load(p).tobytes() for p in sorted(place.glob("out_*.npy"))] for place in places], None


def drawn(subject, path, more):
    """What the drawn cases of `verify` say of a text that the others let pass: (verdict, detail); None: nothing."""
    for on in ("interpreter", "emulator") if more else ():
        done = subject.verify(path, on, "none", more)
        if done is None:
            return "timeout", f"drawn cases on the {on}"
        status, said = done
        if status not in (0, 1, 3):
            return "crash", f"drawn cases on the {on}: status {status} {said[-300:]}"
        if status == 1 and "FAIL" in said:
            whole = subject.verify(subject.path, on, "none", more)
            if whole and "FAIL" in whole[1]:
                return "original", f"the text itself fails: {[x for x in whole[1].splitlines() if 'FAIL' in x][0][:200]}"
            return f"drawn {on}", [x for x in said.splitlines() if "FAIL" in x][0][:200]
    return None


def judge_mutant(subject, kind, mutant, folder, more):
    """Who notices: (verdict, detail)."""
    verdict, detail = judge_by_list(subject, kind, mutant, folder)
    if verdict not in ("survived", "same results", "NumPy alone"):
        return verdict, detail
    return drawn(subject, folder / "mutant.tl", more) or (verdict, detail)


def judge_by_list(subject, kind, mutant, folder):
    """Who notices, the drawn cases apart: (verdict, detail)."""
    path = folder / "mutant.tl"
    path.write_text("\n".join(mutant) + "\n")
    done = subject.call(["check", str(path)])
    if done is None:
        return "timeout", "check"
    if done.returncode not in (0, 1):
        return "crash", f"check: status {done.returncode} {done.stderr[-300:]}"
    if done.returncode == 1:
        return "check", done.stderr.split("\n")[0]
    text = subject.text(path)
    if text is None:
        return "translate", "accepted by check, refused by translate"
    # Launch conditions stand in the plan, not in the text.
    conditions = [[x for x in lines if re.match(r"(Input|Output) .* where ", x)] for lines in (mutant, subject.code)]
    if text == subject.original_text and conditions[0] == conditions[1]:
        return "equal", "the same CUDA text"
    # What decides first, where nothing has to be compiled: most mutants fail there.
    for on, shapes in (("interpreter", "decisive"), ("emulator", "small")):
        done = subject.verify(path, on, shapes)
        if done is None:
            return "timeout", f"verify on the {on}"
        status, said = done
        if status not in (0, 1, 2, 3):
            return "crash", f"verify on the {on}: status {status} {said[-300:]}"
        if status == 3 and said.startswith("flashtl: no "):
            return "missing", said
        if status == 2 and shapes == "decisive":
            continue                                # it has no such cases
        if status:
            found = [x for x in said.splitlines() if "FAIL" in x or "error" in x]
            return f"verify {on}", (found or [said[:200]])[0][:200]
    seeds = [subject.seed * 100 + k for k in range(6 if subject.program else 3)]
    if subject.results is None:
        subject.results, wrong = outputs(subject, subject.path, folder, seeds)
        if wrong or subject.results is None:
            subject.results = False
    results, wrong = outputs(subject, path, folder, seeds)
    why = equal.of_tl(mutant, subject.code)
    if subject.results and wrong:
        is_refused = why == equal.REFUSED and wrong.kind == "fault" and " demands " in wrong.detail
        return ("equal", why) if is_refused else ("NumPy alone", f"{wrong.kind} {wrong.detail}"[:300])
    if not why:
        said = explained.of(subject.name, subject.code, equal.changes(mutant, subject.code))
        if said:
            return "explained", said
    if subject.results and results == subject.results:
        return ("equal", why) if why else ("same results", kind)
    return ("equal", why) if why else ("survived", kind)


def work(job):
    seed, a = job
    lines = []
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        subject = Subject(os.path.abspath(a.flashtl), seed, folder, a.timeout)
        if subject.code is None:
            return []
        subject.path, subject.results, subject.cases = folder / "original.tl", None, None
        subject.path.write_text("\n".join(subject.code) + "\n")
        checked = subject.call(["check", str(subject.path)])
        subject.original_text = subject.text(subject.path)
        if checked is None or checked.returncode or subject.original_text is None:
            return []
        whole = subject.verify(subject.path, "interpreter", "decisive")
        if whole is None or whole[0] not in (0, 2):
            return []                               # the program itself is wrong: run.py's business
        r = random.Random(seed)
        for kind in r.sample(list(MUTATIONS), min(a.each, len(MUTATIONS))):
            mutant = MUTATIONS[kind](subject.code, r)
            if mutant is None or mutant == subject.code:
                continue
            started = time.time()
            verdict, detail = judge_mutant(subject, kind, mutant, folder, a.more)
            changed = [x.strip() for x in mutant if x not in subject.code][:1] + [x.strip() for x in subject.code if x not in mutant][:1]
            lines.append({"seed": seed, "subject": subject.name, "gpu": subject.gpu, "mutation": kind, "verdict": verdict, "detail": detail,
                          "change": changed, "seconds": round(time.time() - started, 2)})
            if verdict in KEPT and a.survivors:
                place = pathlib.Path(a.survivors, f"{verdict.replace(' ', '-')}-{seed}-{kind.replace(' ', '-').replace(',', '')}")
                place.mkdir(parents=True, exist_ok=True)
                (place / "sketch.tl").write_text(subject.sketch.read_text())
                (place / "original.tl").write_text("\n".join(subject.code) + "\n")
                (place / "mutant.tl").write_text("\n".join(mutant) + "\n")
                (place / "how").write_text(f"{subject.name} {subject.gpu} {' '.join(subject.options)}\n{kind}\n{detail}\n")
    return lines


def table(lines):
    """Mutations by verdicts."""
    counts = collections.defaultdict(collections.Counter)
    for x in lines:
        counts[x["mutation"]][x["verdict"]] += 1
    verdicts = sorted({x["verdict"] for x in lines})
    print(f"{'':18}" + "".join(f"{v:>20}" for v in verdicts))
    for kind in sorted(counts):
        print(f"{kind:18}" + "".join(f"{counts[kind][v]:20}" for v in verdicts))
    print(f"{'all':18}" + "".join(f"{sum(counts[k][v] for k in counts):20}" for v in verdicts))


def options(description, count):
    p = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--flashtl", default="build/flashtl")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=count, help="how many mutants, about")
    p.add_argument("--only", default="", help="mutants of the programs of these seeds alone: 3,17")
    p.add_argument("--each", type=int, default=12, help="mutants of each program")
    p.add_argument("--more", type=int, default=256, help="drawn cases for those that the others let pass")
    p.add_argument("--jobs", type=int, default=1)
    p.add_argument("--timeout", type=float, default=600)
    p.add_argument("--seconds", type=float, default=1e9, help="ends after so long with what there is")
    p.add_argument("--results", help="a line of JSON for each mutant; programs that stand there are not run again")
    p.add_argument("--survivors", help="a folder for those that nobody noticed")
    return p.parse_args()


def run(a, work, shown):
    """The mutants of all programs, work((seed, options)) for each; those with a verdict of 'shown' are printed."""
    lines = [json.loads(x) for x in open(a.results)] if a.results and os.path.exists(a.results) else []
    known = {x["seed"] for x in lines}
    wanted = [int(s) for s in a.only.split(",") if s] or range(a.seed, a.seed + 10 * a.count)
    started = time.time()
    with multiprocessing.Pool(a.jobs) as pool:
        done = pool.imap_unordered(work, ((s, a) for s in wanted if s not in known))
        while True:
            try:
                rows = done.next(timeout=max(0.1, started + a.seconds - time.time()))
            except StopIteration:
                break
            except multiprocessing.TimeoutError:
                print(f"ended after {a.seconds:.0f} seconds")
                break
            lines += rows
            for x in rows:
                if a.results:
                    with open(a.results, "a") as out:
                        out.write(json.dumps(x) + "\n")
                if x["verdict"] in shown:
                    print(f"{x['verdict']}: seed {x['seed']} ({x['subject']}, {x['gpu']}), {x['mutation']}: {x['change']} {x['detail']}", flush=True)
            if rows and len(lines) % 10 < len(rows):
                print(f"{len(lines)} mutants, {(time.time() - started) / 60:.1f} minutes", flush=True)
            if len(lines) >= a.count and not a.only:
                break
        pool.terminate()
    table(lines)
    return lines


def main():
    lines = run(options(__doc__, 300), work, KEPT)
    if any(x["verdict"] == "missing" for x in lines):
        return 77
    return any(x["verdict"] in BESIDE for x in lines)


if __name__ == "__main__":
    sys.exit(main())
