#!/usr/bin/env python3
"""Each operator with each of its family's options, alone and by twos: a sketch that `check` takes, or one sentence of refusal.

operator_options.py FLASHTL

Thousands of starts of the command, which sanitizers make ten times dearer: they are shown each operator without options, and of those with
options each FLASHTL_SAMPLE-th (tests/sampling.py)."""
import itertools
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from sampling import sampled  # noqa: E402

FLASHTL = sys.argv[1]
REFUSED = ("changes nothing in", "needs", "only one")


def run(*words, text=None):
    return subprocess.run([FLASHTL, *words], input=text, capture_output=True, text=True)


def families():
    """(operators, options) of each family; 'group=8' where an option takes a value."""
    found = []
    for line in run("sketch").stdout.splitlines():
        name, value = (line.split() + [""])[:2]
        if not line.startswith(" "):
            found.append(([name], []))
        elif name.startswith("--"):
            is_valued = line.strip().startswith(f"{name} {value} ") and value in ("N", "X")
            found[-1][1].append(name[2:] + ("=16" if is_valued else ""))
        else:
            found[-1][0].append(name)
    return found


def choices():
    """Each operator that has one sketch or more, with none, one and two of its options."""
    for operators, options in families():
        for operator in operators:
            text = run("sketch", operator).stdout
            if text.startswith("kernel ") or "\nkernel " in text:
                for count in range(3):
                    yield from ((operator, chosen) for chosen in itertools.combinations(options, count))


asked = list(choices())
wrong = refused = right = 0
for operator, chosen in [(x, ()) for x, chosen in asked if not chosen] + sampled([x for x in asked if x[1]], "FLASHTL_SAMPLE"):
    made = run("sketch", operator, *(word for option in chosen for word in ("--with", option)))
    if made.returncode:
        is_plain = any(words in made.stderr for words in REFUSED) and made.stderr.count("\n") == 1
        refused += is_plain
        wrong += not is_plain
        if not is_plain:
            print(f"WRONG {operator} {chosen}: {made.stderr}")
        continue
    checked = run("check", "-", text=made.stdout)
    right += checked.returncode == 0
    wrong += checked.returncode != 0
    if checked.returncode:
        print(f"WRONG {operator} {chosen}: {checked.stderr}")
print(f"{right} sketches, {refused} refused, {wrong} wrong")
sys.exit(wrong > 0 or not right or not refused)
