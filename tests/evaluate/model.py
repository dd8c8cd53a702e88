#!/usr/bin/env python3
"""A model that answers as it is told: model.py FLASHTL TASKS.md PLAN.json, the prompt on standard input.

PLAN is {"folder": where conversations are counted, "tasks": {NAME: [[KIND, ...], ...]}}: what each conversation
about a task says, answer by answer (the last one again when they run out). Kinds: right; wrong (another meaning),
unchecked (a name that nothing defines), garbled (no TL), prose (no program), code (TL Code of the reference),
narrow, bf16 (the same for another head dimension, or type), slow (waits), broken (the command fails).
"""
import json
import pathlib
import re
import subprocess
import sys
import time

flashtl, tasks, plan = sys.argv[1], pathlib.Path(sys.argv[2]).read_text(), json.loads(pathlib.Path(sys.argv[3]).read_text())
folder = pathlib.Path(plan["folder"])
prompt = sys.stdin.read()
request = " ".join(re.search(r"# The request\n\n(.*?)\n\n", prompt, re.S).group(1).split())
for heading, words, sketch in re.findall(r"^## (.*?)\n\n(.*?)\n\n```tl\n(.*?)```", tasks, re.S | re.M):
    name = heading.split()[0]
    if " ".join(words.split()) == request:
        break
else:
    sys.exit(f"no task asks this: {request}")
sizes = dict(re.findall(r"(\w+)=(\d+)", heading))

# A new conversation takes the next number; a later answer knows its number by what was said before.
said = re.findall(r"conversation (\d+)", prompt)
number = int(said[0]) if said else 0
while not said:
    try:
        (folder / f"{name}.{number}").mkdir()
        break
    except FileExistsError:
        number += 1
conversations = plan["tasks"].get(name) or plan["tasks"]["*"]
kinds = conversations[number % len(conversations)]
answer = prompt.count("--- your answer was ---")
kind = kinds[min(answer, len(kinds) - 1)]
(folder / f"{name}.{number}" / f"prompt{answer}.txt").write_text(prompt)

if kind == "broken":
    sys.exit("the model is broken")
if kind == "slow":
    time.sleep(3600)
text = {"right": sketch, "slow": sketch, "garbled": "kernel x\nCompute Compute Compute\n"}.get(kind, "")
if kind == "wrong":
    products = re.sub(r"Compute GEMM (\w+), (\w+(?:\.T)?) and get S\n", r"\g<0>    Compute Multiply S, 1.5 and get S\n", sketch)
    text = products if products != sketch else sketch.replace("Compute Softmax S", "Compute Multiply S, 1.5 and get S\n    Compute Softmax S")
if kind == "unchecked":
    text = sketch.replace("Copy ", "Copy undefined_", 1)
if kind in ("code", "narrow", "bf16"):
    lets = [w for name in ("d", "dv") for w in ("--let", f"{name}={32 if kind == 'narrow' else sizes.get(name, 64)}")]
    lets += ["--dtype", "bf16"] if kind == "bf16" else []
    done = subprocess.run([flashtl, "reason", "-", "--gpu", plan.get("gpu", "t4"), *lets], input=sketch, capture_output=True, text=True)
    text = done.stdout
block = f"```tl\n{text}```\n" if text else "I had rather not."
print(f"This is conversation {number}.\n\n{block}")
