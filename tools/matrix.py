#!/usr/bin/env python3
"""Verifies every sketch x type x GPU x shape with `flashtl verify`, and prints a short table.

    tools/matrix.py                                     on the emulator, sampled shapes
    tools/matrix.py --on interpreter --shapes all       nothing left out: hours of CPU time
    tools/matrix.py --on gpu --shapes all --jobs 8      older targets run through the driver's JIT
    tools/matrix.py --sample 12                         every twelfth program, for a quick look

Cases of all programs are dealt out to --jobs processes in parcels of about --parcel seconds, the
longest first. --results FILE keeps a line of JSON for each case: a run that was stopped goes on
where it was when the same command is given again. --summary FILE gets one JSON object in the end.
Each failure is printed with the command that repeats it alone. Needs Python alone, and the built
`flashtl`. Exit status 0 when every case passed (or was skipped, with its reason), else 1.
"""
import argparse
import collections
import concurrent.futures
import functools
import hashlib
import itertools
import json
import os
import pathlib
import queue
import re
import resource
import shlex
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
GPUS = ["t4", "a100", "l40s", "h200"]
FLOPS_PER_S = {"interpreter": 7e9, "emulator": 1.2e9, "gpu": 2e10}  # with the reference
START_S = {"interpreter": 0.05, "emulator": 1.0, "gpu": 2.0}  # of a process: reasoning, NVRTC
CASE_S = 0.01


def dtypes(gpu):
    return ["f16"] if gpu == "t4" else ["f16", "bf16"]


def read_rows(kind):
    """The rows PROGRAM(...) or CODE(...) of src/verify/cases.def: three texts and a word each."""
    text = (ROOT / "src/verify/cases.def").read_text()
    row = re.compile(rf'^{kind}\("([^"]*)", "([^"]*)", "([^"]*)", (PAIRED|OTHER)\)$', re.M)
    return row.findall(text)


ROWS, CODE_ROWS = read_rows("PROGRAM"), read_rows("CODE")
OPTIONS = [list(options) for options in
           dict.fromkeys(tuple(row[1].split()) for row in ROWS if row[0] == "attention")]
HEAD_DIMS = list(dict.fromkeys(d for row in ROWS if row[0] == "attention" for d in row[2].split()))


def missing_programs():
    """Sketches and odd programs that no row names."""
    apart = re.findall(r'^APART\("([^"]*)"\)$', (ROOT / "src/verify/cases.def").read_text(), re.M)
    named = {what for what, *_ in ROWS + CODE_ROWS} | set(apart)
    shipped = {path.stem for path in (ROOT / "sketches").glob("*.tl")}
    odd = {str(path.relative_to(ROOT)) for path in (ROOT / "tests/exec/odd").glob("*.tl")}
    return sorted((shipped | odd) - named)


def source_of(what):
    return [str(ROOT / what)] if what.endswith(".tl") else ["--op", what]


def programs(gpus):
    """Arguments of `flashtl verify`, one list a program."""
    for gpu in gpus:
        for dtype in dtypes(gpu):
            for what, options, head_dims, _ in ROWS:
                for d in head_dims.split() or [None]:
                    head_dim = ["--head-dim", d] if d else []
                    yield [*source_of(what), *options.split(), *head_dim, "--gpu", gpu, "--dtype", dtype]


def code_programs(gpus):
    """TL Code: two kernels in turn with pages and ragged lengths, for GPUs that copy asynchronously."""
    for what, dtype, fitting, _ in CODE_ROWS:
        for gpu in gpus:
            if gpu in fitting.split():
                yield [*source_of(what), "--gpu", gpu, "--dtype", dtype]


def shapes_for(words, shapes):
    """Lists of lengths mean queries x keys: programs without these take the sample."""
    paired = any(lengths == "PAIRED" and words[:len(source_of(what))] == source_of(what)
                 for what, *_, lengths in ROWS + CODE_ROWS)
    return shapes if paired or shapes in ("small", "all") else "small"


def show(words):
    """A program's name in tables and keys: the same on every machine."""
    return shlex.join(word.replace(str(ROOT) + "/", "") for word in words)


@functools.lru_cache
def gpu_count():
    """GPUs that processes take turns on; 0: there is none, or the caller has chosen."""
    if "CUDA_VISIBLE_DEVICES" in os.environ or not shutil.which("nvidia-smi"):
        return 0
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    return len(re.findall(r"^GPU \d", listed, re.M))


def turn(number):
    """The environment of a process that takes its turn of the machine's GPUs."""
    if gpu_count() < 2:
        return None
    return {**os.environ, "CUDA_VISIBLE_DEVICES": str(number % gpu_count())}


class Parcel:
    """Some cases of one program, for one process."""

    def __init__(self, words, cases, seconds):
        self.words, self.cases, self.seconds = words, cases, seconds


class Matrix:
    def __init__(self, options):
        self.options, self.results, self.lock = options, {}, threading.Lock()
        self.planned = {}  # (program, case) -> name
        self.broken = []  # programs that could not even be listed
        self.left_out = []  # TL Code that names what a GPU has not
        self.file = None
        self.done_s = 0.0
        self.turns = itertools.count()

    def command(self, words, *more):
        shapes = shapes_for(words, self.options.shapes)
        return [self.options.binary, "verify", *words, "--on", self.options.on, "--shapes", shapes,
                "--seed", str(self.options.seed), *more]

    # --- what there is to do ---

    def list_program(self, words):
        done = subprocess.run(self.command(words, "--list", "--json"), capture_output=True, text=True)
        if done.returncode:
            return words, None, (done.stderr or done.stdout).strip()
        return words, [json.loads(line) for line in done.stdout.splitlines()], ""

    def estimate(self, case):
        return CASE_S + case["flops"] / FLOPS_PER_S[self.options.on]

    def plan(self, chosen):
        """Parcels, the longest first; cases that are known already are left alone."""
        parcels = []
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            listed = list(pool.map(self.list_program, chosen))
        for words, cases, why in listed:
            if cases is None:
                is_lacking = '"id":"GPU_LACKS"' in why
                (self.left_out if is_lacking else self.broken).append({"program": show(words), "what": why})
                continue
            todo = []
            for case in cases:
                key = (show(words), case["case"])
                self.planned[key] = case["name"]
                if key in self.results:
                    continue
                seconds = self.estimate(case)
                if self.options.most_seconds and seconds > self.options.most_seconds:
                    self.record(words, {**case, "verdict": "skipped", "what": f"left out: longer than "
                                        f"{self.options.most_seconds:.0f} s (--most-seconds)"})
                else:
                    todo.append((seconds, case["case"]))
            todo.sort(reverse=True)
            while todo:
                cases_of, total = [], START_S[self.options.on]
                while todo and (not cases_of or total < self.options.parcel):
                    seconds, number = todo.pop(0)
                    cases_of.append(number)
                    total += seconds
                parcels.append(Parcel(words, cases_of, total))
        parcels.sort(key=lambda parcel: -parcel.seconds)
        return parcels

    # --- doing it ---

    def record(self, words, result):
        key = (show(words), result["case"])
        with self.lock:
            self.results[key] = result
            if self.file:
                line = {"program": key[0], **result}
                self.file.write(json.dumps(line) + "\n")
                self.file.flush()
        if result["verdict"] == "failed":
            again = result.get("again") or shlex.join(self.command(words, "--case", str(result["case"])))
            print(f"FAIL  {key[0]}  case {key[1]}: {self.planned.get(key, '')}\n      "
                  f"{result.get('what', '')}\n      again: {again}", flush=True)

    def run(self, parcel):
        """Runs a parcel. Where the process ends before its time, the case that it was at has failed
        and the others go into another process."""
        left = list(parcel.cases)
        while left:
            command = self.command(parcel.words, "--json", "--case", ",".join(map(str, sorted(left))))
            limit = self.options.timeout or 300 + 30 * parcel.seconds
            environment = turn(next(self.turns)) if self.options.on == "gpu" else None
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       env=environment)
            timer = threading.Timer(limit, process.kill)
            timer.start()
            begun = time.time()
            for line in process.stdout:
                result = json.loads(line) if line.startswith("{") else {}
                if "case" in result:
                    self.record(parcel.words, result)
                    left.remove(result["case"])
            said = process.stderr.read().strip()[-400:]
            process.wait()
            timer.cancel()
            if left:
                at = min(left)
                late = time.time() - begun >= limit
                what = f"did not end within {limit:.0f} s" if late else f"exit status {process.returncode}: {said}"
                self.record(parcel.words, {"case": at, "verdict": "failed", "what": what})
                left.remove(at)

    def work(self, waiting, total_s, started):
        while True:
            try:
                parcel = waiting.get_nowait()
            except queue.Empty:
                return
            self.run(parcel)
            with self.lock:
                self.done_s += parcel.seconds
                passed = time.time() - started
                left = passed * (total_s - self.done_s) / self.done_s
                if not self.options.quiet:
                    print(f"[{100 * self.done_s / total_s:3.0f} %, about {left:.0f} s left] "
                          f"{len(parcel.cases)} cases of {show(parcel.words)}", flush=True)

    def run_all(self, parcels):
        waiting = queue.Queue()
        for parcel in parcels:
            waiting.put(parcel)
        total_s, started = sum(p.seconds for p in parcels), time.time()
        threads = [threading.Thread(target=self.work, args=(waiting, total_s, started))
                   for _ in range(min(self.options.jobs, len(parcels)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    # --- results that were kept ---

    def key(self):
        """What results depend on: a file of other results is not gone on with."""
        digest = hashlib.sha256(pathlib.Path(self.options.binary).read_bytes()).hexdigest()[:16]
        return {"on": self.options.on, "seed": self.options.seed, "shapes": self.options.shapes, "binary": digest}

    def open_results(self, path):
        path, kept = pathlib.Path(path), []
        if path.exists():
            lines = path.read_text().splitlines()
            if lines and json.loads(lines[0]) != self.key():
                sys.exit(f"{path} holds results of another binary, place, seed or shapes: "
                         f"move it away, or name another file")
            for line in lines[1:]:
                try:
                    kept.append(json.loads(line))
                except ValueError:
                    pass  # a line that was cut off
        self.file = open(path, "w")
        self.file.write(json.dumps(self.key()) + "\n")
        for line in kept:
            self.results[(line.pop("program"), line["case"])] = line
        for (program, _), line in self.results.items():
            self.file.write(json.dumps({"program": program, **line}) + "\n")

    # --- what came of it ---

    def summary(self, seconds):
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
        groups = collections.defaultdict(lambda: collections.Counter())
        worst, reasons, failures = collections.defaultdict(float), collections.Counter(), []
        counts = collections.Counter()
        for key in self.planned:
            program, result = key[0], self.results.get(key)
            if result is None:
                continue
            words = shlex.split(program)
            gpu, dtype = words[words.index("--gpu") + 1], words[words.index("--dtype") + 1]
            verdict = result["verdict"]
            counts[verdict] += 1
            groups[(gpu, dtype)][verdict] += 1
            if verdict == "passed":
                worst[(gpu, dtype)] = max(worst[(gpu, dtype)], result.get("relative_rms") or 0.0)
            if verdict == "skipped":
                reasons[result.get("what", "")] += 1
            if verdict == "failed":
                failures.append({"program": program, "name": self.planned[key], **result})
        return {"on": self.options.on, "shapes": self.options.shapes, "seed": self.options.seed,
                "programs": len({program for program, _ in self.planned}), "cases": len(self.planned),
                "passed": counts["passed"], "failed": counts["failed"], "skipped": counts["skipped"],
                "not_run": len(self.planned) - sum(counts.values()), "broken_programs": self.broken,
                "left_out_programs": self.left_out,
                "seconds": round(seconds, 1), "jobs": self.options.jobs,
                "cpu_seconds": round(of_children.ru_utime + of_children.ru_stime, 1),
                "skipped_because": dict(reasons), "failures": failures,
                "by_gpu": [{"gpu": gpu, "dtype": dtype, **{v: c[v] for v in ("passed", "failed", "skipped")},
                            "worst_relative_rms": worst[(gpu, dtype)]}
                           for (gpu, dtype), c in sorted(groups.items())]}


def print_table(s):
    print(f"\n{'GPU':6} {'type':5} {'passed':>7} {'failed':>7} {'skipped':>8}  worst relative rms")
    for row in s["by_gpu"]:
        print(f"{row['gpu']:6} {row['dtype']:5} {row['passed']:7} {row['failed']:7} {row['skipped']:8}  "
              f"{row['worst_relative_rms']:.2g}")
    for reason, count in sorted(s["skipped_because"].items(), key=lambda item: -item[1])[:20]:
        print(f"skipped {count}: {reason}")
    for program in s["left_out_programs"]:
        print(f"left out: {program['program']}: {json.loads(program['what'].splitlines()[0])['message']}")
    for program in s["broken_programs"]:
        print(f"FAIL  {program['program']}: {program['what']}")
    print(f"{s['programs']} programs on the {s['on']}, {s['cases']} cases of '{s['shapes']}': {s['passed']} "
          f"passed, {s['failed']} failed, {s['skipped']} skipped, {s['not_run']} not run; "
          f"{s['seconds']:.0f} s, {s['cpu_seconds']:.0f} s of CPU, {s['jobs']} jobs")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build" / "flashtl"))
    parser.add_argument("--on", choices=["interpreter", "emulator", "gpu"], default="emulator")
    parser.add_argument("--shapes", default="small")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--gpus", default=",".join(GPUS))
    parser.add_argument("--sample", type=int, default=1, help="take every Nth program")
    parser.add_argument("--only", default="", help="programs with this text in their name")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--parcel", type=float, default=30, help="seconds of work for one process, about")
    parser.add_argument("--timeout", type=float, help="seconds a process may take")
    parser.add_argument("--most-seconds", type=float, default=0,
                        help="skip cases that take longer, about (0: none)")
    parser.add_argument("--results", help="keep results here, and go on from them")
    parser.add_argument("--summary", help="write the summary here, as JSON")
    parser.add_argument("--quiet", action="store_true", help="print failures and the table only")
    options = parser.parse_args()
    if missing_programs():
        parser.error(f"src/verify/cases.def has no row for {', '.join(missing_programs())}")
    gpus = options.gpus.split(",")
    listed = [*programs(gpus), *code_programs(gpus)]
    chosen = [words for words in listed[::options.sample] if options.only in show(words)]
    matrix, started = Matrix(options), time.time()
    if options.results:
        matrix.open_results(options.results)
    parcels = matrix.plan(chosen)
    if not options.quiet:
        print(f"{len(chosen)} programs, {len(matrix.planned)} cases, {len(matrix.results)} known; {len(parcels)} "
              f"parcels, about {sum(p.seconds for p in parcels):.0f} s of CPU", flush=True)
    matrix.run_all(parcels)
    summary = matrix.summary(time.time() - started)
    if options.summary:
        pathlib.Path(options.summary).write_text(json.dumps(summary, indent=1) + "\n")
    print_table(summary)
    bad = summary["failed"] or summary["broken_programs"] or summary["not_run"]
    return 1 if bad or not summary["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
