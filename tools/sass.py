#!/usr/bin/env python3
"""Do two builds of flashtl make the same machine code? For changes of the emitted text alone.

    tools/sass.py BEFORE AFTER [--gpu t4,h200] [--only mla] [--keep FOLDER]

BEFORE and AFTER are two flashtl commands. Each builds the kernels below for each GPU (NVRTC or nvcc
compile them; no GPU is needed), and what the GPU would execute is compared: the instructions, the
constant banks, and what a launch reserves. Names, line numbers and debug information do not count.

Prints a line per kernel: instructions, registers, bytes spilled, lines and longest line of the text,
before and after where they differ. The exit status is 1 where a kernel differs.
"""
import argparse
import collections
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

GPUS = ["t4", "a100", "l40s", "h200"]
KERNELS = {
    "d64": "--op attention --head-dim 64",
    "d64 causal": "--op attention --causal --head-dim 64",
    "d128": "--op attention --head-dim 128",
    "d128 causal": "--op attention --causal --head-dim 128",
    "d128 causal lse short": "--op attention --causal --lse --head-dim 128 --let nominal_length=512",
    "d96 window softcap alibi lse": "--op attention --causal --window 77 --softcap 30 --alibi --lse --head-dim 96",
    "gqa d64 causal bf16": "--op gqa --causal --head-dim 64 --dtype bf16",
    "mla causal": "--op mla --causal --head-dim 128 --let d_rotary=64",
    "gemm": "--op gemm_bias_gelu",
}
INSTRUCTION_BYTES = 16


def sections(cubin):
    """Name and bytes of each section of an ELF file of 64 bits."""
    data = cubin.read_bytes()
    start, = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    strings = headers[names][4]
    for h in headers:
        end = data.index(b"\0", strings + h[0])
        name = data[strings + h[0]:end].decode()
        yield name, h[1], data[h[4]:h[4] + h[5]] if h[1] != 8 else h[5].to_bytes(8, "little")


def executed(cubin):
    """What the GPU would execute and reserve, by section."""
    found = {}
    for name, _, content in sections(cubin):
        if name.startswith((".text.", ".nv.constant", ".nv.global", ".nv.shared", ".nv.local")):
            found[name] = content
    return found


def build(flashtl, options, gpu, folder):
    command = [flashtl, "build", *options.split(), "--gpu", gpu, "--name", "k", "--no-verify", "-o", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return done.stderr.strip().splitlines()[:1] or ["it failed"]
    facts = json.loads(next(folder.glob("*.json")).read_text())
    code = executed(next(folder.glob("*.cubin")))
    lines = next(folder.glob("*.cu")).read_text().splitlines()
    text = {"lines": len(lines), "longest line": max(map(len, lines)),
            "instructions": sum(len(c) for n, c in code.items() if n.startswith(".text.")) // INSTRUCTION_BYTES}
    return code, {**text, **{k: facts[k] for k in ("registers", "spill_bytes") if k in facts}}


def opcodes(code):
    """How often each opcode stands in the text: the low 12 bits of an instruction."""
    counts = collections.Counter()
    for name, content in code.items():
        if name.startswith(".text."):
            counts.update(content[i] | (content[i + 1] & 0xF) << 8 for i in range(0, len(content), INSTRUCTION_BYTES))
    return counts


def compare(task):
    name, options, gpu, binaries, keep = task
    with tempfile.TemporaryDirectory() as temporary:
        root = pathlib.Path(keep or temporary)
        made = []
        for side, flashtl in zip(("before", "after"), binaries):
            folder = root / f"{name}-{gpu}".replace(" ", "_") / side
            folder.mkdir(parents=True, exist_ok=True)
            made.append(build(flashtl, options, gpu, folder))
    if any(isinstance(m, list) for m in made):
        same = made[0] == made[1]
        return same, "both fail" if same else "FAILS", [m for m in made if isinstance(m, list)][0][0]
    (before, a), (after, b) = made
    same = before == after
    facts = ", ".join(f"{a[k]} {k}" if a[k] == b[k] else f"{a[k]} -> {b[k]} {k}" for k in a)
    if not same:
        one, two = opcodes(before), opcodes(after)
        moved = sum(((one - two) + (two - one)).values())
        facts += f"; {moved} instructions of another kind" if moved else "; the same instructions in another order"
    return same, "equal" if same else "DIFFERENT", facts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--gpu", default=",".join(GPUS), help="comma between names (%(default)s)")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--keep", help="folder for the kernels")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    tasks = [(name, options, gpu, (given.before, given.after), given.keep)
             for name, options in KERNELS.items() if given.only in name for gpu in given.gpu.split(",")]
    different = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        for task, (same, word, facts) in zip(tasks, pool.map(compare, tasks)):
            different += not same
            print(f"{word:9}  {task[2]:5} {task[0]:30} {facts}", flush=True)
    print(f"{len(tasks)} kernels, {different} different")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
