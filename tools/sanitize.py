#!/usr/bin/env python3
"""Runs every sketch x type x GPU under compute-sanitizer's four tools, and prints a short table.

    tools/sanitize.py --jobs 8                   memcheck, racecheck, initcheck and synccheck
    tools/sanitize.py --tools racecheck --only a100
    tools/sanitize.py --sample 12                every twelfth program, for a quick look
    tools/sanitize.py --shapes 4300x300 --most-flops 1e10 --sample 9
                                                 three and more tiles for each block of an H200

The programs are those of tools/matrix.py; of each, --cases cases of --shapes run, the
largest with at most --most-flops operations (a tool takes a thousand times as long as the kernel).
Each finding is printed with the command that repeats it alone. --results FILE keeps a line of JSON for
each run: a run that was stopped goes on where it was when the same command is given again. Needs an NVIDIA GPU and the built
`flashtl`. Exit status 0 when every tool found every program clean, else 1.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

import matrix

TOOLS = ["memcheck", "racecheck", "initcheck", "synccheck"]
FOUND = 9  # compute-sanitizer's exit status where it found something


def choose(cases, count, most_flops):
    """The largest cases that are small enough; the smallest, where none is."""
    by_size = sorted(cases, key=lambda case: case["flops"])
    fitting = [case for case in by_size if case["flops"] <= most_flops] or by_size[:1]
    return [case["case"] for case in fitting[-count:]]


def list_program(options, words):
    command = [options.binary, "verify", *words, "--on", "gpu", "--shapes", options.shapes, "--list", "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return words, None, (done.stderr or done.stdout).strip()
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    return words, choose(cases, options.cases, options.most_flops), ""


def judge(done):
    """clean, found, skipped or broken, and what was said."""
    summary = re.findall(r"=+ (?:ERROR|RACECHECK) SUMMARY: (.*)", done.stdout)
    if done.returncode == FOUND:
        return "found", "; ".join(summary) or "findings without a summary"
    if not summary:
        return "broken", (done.stderr or done.stdout).strip()[-300:]
    if re.search(r"^FAIL ", done.stdout, re.M):
        return "broken", next(line for line in done.stdout.splitlines() if line.startswith("FAIL "))
    is_run = re.search(r"^\d+ cases?: [1-9]\d* passed", done.stdout, re.M)
    return ("clean" if is_run else "skipped"), done.stdout.strip().splitlines()[-1]


def run_tool(options, job):
    number, words, cases, tool = job
    program = [options.binary, "verify", *words, "--on", "gpu", "--shapes", options.shapes, "--case", ",".join(map(str, cases))]
    command = [options.sanitizer, "--tool", tool, "--error-exitcode", str(FOUND), *program]
    environment = matrix.turn(number)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=options.timeout, env=environment)
        verdict, what = judge(done)
    except subprocess.TimeoutExpired:
        verdict, what = "broken", f"did not end within {options.timeout:.0f} s"
    return tool, words, verdict, what, shlex.join(command)


def note(options, result, counts):
    tool, words, verdict, what, command = result
    counts[tool, verdict] += 1
    if options.results:
        with open(options.results, "a") as out:
            out.write(json.dumps(dict(tool=tool, program=matrix.show(words), verdict=verdict, what=what)) + "\n")
    if verdict in ("found", "broken"):
        print(f"{verdict.upper():6} {tool}  {matrix.show(words)}: {what}\n       again: {command}", flush=True)


def earlier(options, counts):
    """What a run that was stopped has settled: {(tool, program)}. What was broken is run again."""
    lines = open(options.results).read().splitlines() if options.results and os.path.exists(options.results) else []
    settled = [line for line in map(json.loads, lines) if line["verdict"] != "broken"]
    counts.update((line["tool"], line["verdict"]) for line in settled)
    return {(line["tool"], line["program"]) for line in settled}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(matrix.ROOT / "build" / "flashtl"))
    parser.add_argument("--sanitizer", default=shutil.which("compute-sanitizer") or "")
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--gpus", default=",".join(matrix.GPUS), help="whose texts")
    parser.add_argument("--only", default="", help="programs with this text in their name")
    parser.add_argument("--sample", type=int, default=1, help="take every Nth program")
    parser.add_argument("--shapes", default="small", help="as of flashtl verify: sizes as 4300x300")
    parser.add_argument("--cases", type=int, default=2, help="of each program")
    parser.add_argument("--most-flops", type=float, default=2e8, help="of a case")
    parser.add_argument("--results", default="", help="keep results here, and go on from them")
    parser.add_argument("--timeout", type=float, default=300, help="seconds a tool may take")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    tools = options.tools.split(",")
    if set(tools) - set(TOOLS):
        parser.error(f"--tools are of {', '.join(TOOLS)}; found '{options.tools}'")
    if not options.sanitizer:
        sys.exit("sanitize: there is no compute-sanitizer; it comes with the CUDA toolkit")
    if not pathlib.Path(options.binary).exists():
        sys.exit(f"sanitize: there is no {options.binary}; build it with make, or name it by --binary")
    gpus, started, counts = options.gpus.split(","), time.time(), collections.Counter()
    listed = [*matrix.programs(gpus), *matrix.code_programs(gpus)]
    chosen = [words for words in listed[::options.sample] if options.only in matrix.show(words)]
    if not chosen:
        parser.error(f"no program has '{options.only}' in its name")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        known = list(pool.map(lambda words: list_program(options, words), chosen))
        for words, cases, why in known:
            if not cases:
                print(f"left out: {matrix.show(words)}: {why.splitlines()[0] if why else 'no case'}")
        settled = earlier(options, counts)
        kept = [(words, cases, tool) for words, cases, _ in known if cases for tool in tools]
        kept = [job for job in kept if (job[2], matrix.show(job[0])) not in settled]
        jobs = [pool.submit(run_tool, options, (number, *job)) for number, job in enumerate(kept)]
        for done, job in enumerate(concurrent.futures.as_completed(jobs)):
            note(options, job.result(), counts)
            if sys.stderr.isatty():
                left = (time.time() - started) / (done + 1) * (len(jobs) - done - 1)
                print(f"\r[{done + 1}/{len(jobs)}, about {left:.0f} s left] ", end="", file=sys.stderr)
    print(f"{'tool':10} {'clean':>6} {'found':>6} {'broken':>7} {'skipped':>8}")
    for tool in tools:
        print(f"{tool:10} {counts[tool, 'clean']:6} {counts[tool, 'found']:6} {counts[tool, 'broken']:7} "
              f"{counts[tool, 'skipped']:8}")
    print(f"{sum(1 for _, cases, _ in known if cases)} programs; {time.time() - started:.0f} s, {options.jobs} jobs")
    return 0 if counts and not any(counts[tool, v] for tool in tools for v in ("found", "broken")) else 1


if __name__ == "__main__":
    sys.exit(main())
