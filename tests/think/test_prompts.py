#!/usr/bin/env python3
"""Prompts: their size, that the same request gives the same bytes, and that each program in them is right.
test_prompts.py FLASHTL
"""
import os
import re
import pathlib
import subprocess
import sys

import gbnf

flashtl = os.path.realpath(sys.argv[1])


def run(*words, input=""):
    return subprocess.run([flashtl, *words], input=input, capture_output=True, text=True)


def prompt(*words):
    done = run(*words, "--show-prompts")
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout, int(re.search(r"about (\d+) tokens", done.stderr).group(1))


def expect(condition, what):
    if not condition:
        sys.exit(f"expected {what}")


sketch, tokens = prompt("sketch", "sliding-window attention with a sink token and softcap 50")
expect(tokens <= 6000, f"a sketch prompt of at most 6000 tokens; it has {tokens}")
expect("{{" not in sketch, "every table filled in")
for word in ("Softmax", "Mask", "MultiplyAdd", "RowSum", "select", "e4m3", "where kv > q + kv_len - q_len", "K.T", "`end`"):
    expect(word in sketch, f"'{word}' in the sketch prompt")
expect(prompt("sketch", "sliding-window attention with a sink token and softcap 50")[0] == sketch, "the same bytes again")
other, _ = prompt("sketch", "something else")
begin = sketch.index("# The request")
expect(other[:begin] == sketch[:begin], "a prefix that does not change with the request")

programs = re.findall(r"```tl\n(kernel.*?|//.*?)```", sketch, re.S)
expect(len(programs) >= 5, "worked examples")
for program in programs:
    checked = run("check", input=program)
    expect(checked.returncode == 0, f"an example that is right: {checked.stderr}")
    judged = run("verify", "-", "--shapes", "33x17", input=program) if "q_len" in program else None
    expect(judged is None or judged.returncode == 0, f"an example that computes: {judged and judged.stdout}")

for gpu in ("t4", "a100", "l40s", "h200"):
    reason, tokens = prompt("reason", "--op", "gqa", "--causal", "--head-dim", "128", "--gpu", gpu)
    expect(tokens <= 8000, f"a reason prompt of at most 8000 tokens for {gpu}; it has {tokens}")
    expect(f"for {gpu}" in reason and "Reshape P from mma_C to mma_A" in reason, f"TL Code for {gpu}")
    expect("is a view" in reason and "Mask S, 0 in coordinate" in reason, "views and masks with a value")
    for program in re.findall(r"```tl\n((?://[^\n]*\n)?kernel \w+ for .*?)```", reason, re.S):
        checked = run("check", input=program)
        expect(checked.returncode == 0, f"TL Code that is right: {checked.stderr}")

# The compiler of CUDA has no folder of headers: the prompt promises none, and its examples need none.
for gpu in ("t4", "h200"):
    sketch = run("sketch", "mha").stdout
    code = run("reason", "-", "--gpu", gpu, "--head-dim", "64", input=sketch).stdout
    done = run("translate", "-", "--show-prompts", input=code)
    rules = done.stdout.split("# The TL Code to translate")[0]
    expect(done.returncode == 0 and "No `#include`: the compiler has no folder of headers" in rules, "the rule about includes")
    expect("```cuda\n" in rules, "an example of CUDA")
    for word in ("#include <", '#include "', "fp16.h", "bf16.h", "fp8.h", "mma.h"):
        expect(word not in rules, f"no {word} in the CUDA prompt for {gpu}")

# Grammars: those of sketches take the examples, and what a sketch does not have is not in them.
for kind in ("gbnf", "lark"):
    text, _ = prompt("sketch", "x", "--send-grammar", kind)
    grammar = text[text.index("--- the grammar"):]
    for word in ("Reshape", "Allocate", "mma_C", "cp_async", "role"):
        expect(f'"{word}"' not in grammar, f"no {word} in a sketch's grammar ({kind})")
    for word in ("Softmax", "GEMM", "Mask", "accumulate"):
        expect(f'"{word}"' in grammar, f"{word} in a sketch's grammar ({kind})")
    text, _ = prompt("reason", "--op", "mha", "--gpu", "t4", "--head-dim", "64", "--send-grammar", kind)
    grammar = text[text.index("--- the grammar"):]
    expect("kv_heads" in grammar and '"Softmax"' not in grammar and "m16n8k8" in grammar, f"the task's names ({kind})")


# And they are grammars: of what is right, and of nothing that names what is not there.
def grammar_of(*words):
    text, _ = prompt(*words, "--send-grammar", "gbnf")
    return gbnf.Grammar(text[text.index("root ::="):])


def answer(program):
    return "First I think: S is (q, kv).\n```tl\n" + program + "```\n"


here = pathlib.Path(__file__).resolve().parent
good = run("fmt", "-", input=(here / "answers/reference.tl").read_text()).stdout
sketches = grammar_of("sketch", "x")
expect(sketches.accepts(answer(good)), f"a grammar that takes a sketch; it stops at {answer(good)[sketches.furthest:][:60]!r}")
for example in programs:
    canonical = "".join(re.sub(r"//.*", "", line).rstrip() + "\n" for line in example.splitlines() if not line.startswith("//"))
    expect(sketches.accepts(answer(canonical)), f"the example {canonical[:40]!r}: {canonical[sketches.furthest - 44:][:60]!r}")
for old, new in (("Compute Softmax S", "Synchronize S"), ("Compute Softmax S", "Reshape S from mma_C to mma_A"),
                 ("Compute Softmax S", "Wait S"), ("global to shared", "shared to global"), ("    Compute Softmax S\n", "    ...\n"),
                 ("GEMM Q, K.T", "GEMM Q, K.T by m16n8k8")):
    expect(not sketches.accepts(answer(good.replace(old, new, 1))), f"a grammar that refuses '{new}'")
expect(not sketches.accepts(good), "a grammar that asks for the fence")

code = run("reason", "-", "--gpu", "t4", "--head-dim", "64", "--let", "guard=0", "--let", "peel=0", input=good).stdout
code = "".join(re.sub(r"//.*", "", line).rstrip() + "\n" for line in code.splitlines())
codes = grammar_of("reason", str(here / "answers/reference.tl"), "--gpu", "t4", "--head-dim", "64")
expect(codes.accepts(answer(code)), f"a grammar that takes TL Code; it stops at {answer(code)[codes.furthest:][:60]!r}")
for old, new in (("for t4", "for t5"), ("and get S by m16n8k8", "and get S"), ("GEMM Q_register", "GEMM W_register"),
                 ("Reshape P from", "Softmax P from"), ("BM = 128", "BM = 100")):
    changed = code.replace(old, new, 1)
    expect(changed != code and not codes.accepts(answer(changed)), f"a grammar that refuses '{new}'")
