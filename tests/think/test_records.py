#!/usr/bin/env python3
"""Recorded runs replay without a model: test_records.py FLASHTL NAME, or --list.

`test_records.py FLASHTL --update` records the runs of `RUNS` again (prompts have changed, and a record holds
them): their answers are files in answers/; those that models wrote who saw the prompt and nothing else are
listed in answers/by_models.json.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

here = pathlib.Path(__file__).resolve().parent
records = here / "records"

# name: (request, step whose answers these are, files in answers/, further options)
RUNS = {
    "fixed": ("causal attention", "sketch", ["missing_transpose.md", "good_sketch.md"], []),
    "given_up": ("causal attention", "sketch", ["missing_transpose.md", "missing_transpose.md"], ["--answers", "2"]),
}
MODEL = "n=$(cat n 2>/dev/null || echo 0)\necho $((n + 1)) > n\ncat > prompt.txt\ncat $n.md\n"
RUNS.update(json.loads((here / "answers/by_models.json").read_text()))


def run(flashtl, name, model, folder):
    """In the folder, so that nothing of what is asked depends on where that is."""
    request, step, _, options = RUNS[name]
    options = [str(here / option) if option.startswith("answers/") else option for option in options]
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
    environment = dict(kept, FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", LC_ALL="C", HOME="/nonexistent")
    words = [str(pathlib.Path(flashtl).resolve()), "think", request, "--gpu", "t4", "--head-dim", "64", "--on",
             "interpreter", f"--{step}-by", model, "--record", "record.jsonl", "-o", "out", *options]
    return subprocess.run(words, capture_output=True, text=True, env=environment, timeout=1800, cwd=folder)


def what_was_said(text):
    """All but what depends on the machine and on how well the compiler compiles by now."""
    events = [json.loads(line) for line in text.splitlines()]
    for event in events:
        for key in ("code", "cuda", "limits", "facts", "cost"):
            event.pop(key, None)
    return [event for event in events if event["event"] != "machine"]


def byte_for_byte(flashtl):
    """A run and its replay, in the same place: no byte differs."""
    with tempfile.TemporaryDirectory() as folder:
        for i, answer in enumerate(RUNS["fixed"][2]):
            pathlib.Path(folder, f"{i}.md").write_text((here / "answers" / answer).read_text())
        pathlib.Path(folder, "model.sh").write_text(MODEL)
        first = run(flashtl, "fixed", "exec:sh model.sh", folder)
        shutil.move(f"{folder}/record.jsonl", f"{folder}/first.jsonl")
        shutil.move(f"{folder}/out", f"{folder}/first")
        second = run(flashtl, "fixed", "replay:first.jsonl", folder)
        for name in ["record.jsonl"] + [f"out/{p.name}" for p in pathlib.Path(folder, "first").iterdir()]:
            other = "first.jsonl" if name == "record.jsonl" else name.replace("out/", "first/")
            if pathlib.Path(folder, name).read_bytes() != pathlib.Path(folder, other).read_bytes():
                sys.exit(f"{name} differs")
        if first.stdout != second.stdout or first.returncode:
            sys.exit(f"another output:\n{first.stdout}\n{second.stdout}\n{first.stderr}")


def update(flashtl):
    records.mkdir(exist_ok=True)
    for name, (_, _, answers, _) in RUNS.items():
        with tempfile.TemporaryDirectory() as folder:
            for i, answer in enumerate(answers):
                pathlib.Path(folder, f"{i}.md").write_text((here / "answers" / answer).read_text())
            pathlib.Path(folder, "model.sh").write_text(MODEL)
            done = run(flashtl, name, "exec:sh model.sh", folder)
            (records / f"{name}.jsonl").write_text(pathlib.Path(folder, "record.jsonl").read_text())
            print(name, done.returncode, done.stderr.strip().splitlines()[-1:])


def replay(flashtl, name):
    recorded = (records / f"{name}.jsonl").read_text()
    expected = json.loads(recorded.splitlines()[-1])
    with tempfile.TemporaryDirectory() as folder:
        done = run(flashtl, name, f"replay:{records}/{name}.jsonl", folder)
        again = pathlib.Path(folder, "record.jsonl")
        text = again.read_text() if again.exists() else ""
        if not text or what_was_said(text) != what_was_said(recorded):
            sys.exit(f"the record differs: {done.stderr}\n(recorded anew by test_records.py FLASHTL --update)")
        kernels = list(pathlib.Path(folder, "out").glob("*.cu"))
        if expected["verified"] != bool(kernels) or done.returncode != (0 if expected["verified"] else 1):
            sys.exit(f"another end: {done.returncode}\n{done.stderr}")
        run_id = json.loads(recorded.splitlines()[0])["id"]
        if kernels and f"record {run_id}" not in kernels[0].read_text().splitlines()[0]:
            sys.exit("a kernel that does not name its record")


if __name__ == "__main__":
    if sys.argv[1] == "--list":
        print("\n".join(["byte_for_byte", *RUNS]))
    elif sys.argv[2] == "byte_for_byte":
        byte_for_byte(sys.argv[1])
    elif sys.argv[2] == "--update":
        update(sys.argv[1])
    else:
        replay(sys.argv[1], sys.argv[2])
