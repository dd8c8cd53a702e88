#!/usr/bin/env python3
"""CuTe by a model: `translate --by MODEL --to cute` judges it as it judges CUDA. test_by_model.py PROGRAM

Models are `exec:` commands that give answers in turn; the right one is the built-in text. Needs nvcc and
CUTLASS's headers, else it exits with 77 (skipped) and says which.
"""
import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

program = os.path.realpath(sys.argv[1])


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


package = importlib.util.find_spec("cutlass_library")
root = os.environ.get("CUTLASS_PATH") or (package and str(pathlib.Path(package.origin).parent / "source"))
if not root or not (pathlib.Path(root) / "include/cute/layout.hpp").exists():
    skip("CUTLASS's headers are not here; set CUTLASS_PATH or pip install nvidia-cutlass")
if not shutil.which("nvcc"):
    skip("nvcc is not here")
environment = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "ASAN_OPTIONS") if name in os.environ}
environment.update(FLASHTL_CACHE="", FLASHTL_CUDA="/no/such/library", FLASHTL_NVRTC="", LC_ALL="C", HOME="/nonexistent")


def run(*words, input="", **more):
    return subprocess.run([program, *words], input=input, capture_output=True, text=True, env=environment | more)


def expect(condition, what, seen):
    if not condition:
        sys.exit(f"expected {what}; seen: {seen}")


def by_model(folder, code, *answers):
    for i, text in enumerate(answers):
        (folder / f"{i}.md").write_text(f"Here it is.\n```cuda\n{text}```\n")
    (folder / "n").write_text("0")
    (folder / "model.sh").write_text(f"cat > {folder}/prompt.txt\nn=$(cat {folder}/n)\necho $((n + 1)) > {folder}/n\ncat {folder}/$n.md\n")
    record = folder / "record.jsonl"
    record.unlink(missing_ok=True)
    done = run("translate", "-", "--to", "cute", "--by", f"exec:sh {folder}/model.sh", "--answers", str(len(answers)),
               "--record", str(record), input=code, CUTLASS_PATH=root)
    events = [json.loads(line) for line in record.read_text().splitlines()]
    return done, [e for e in events if e["event"] == "verdict"], (folder / "prompt.txt").read_text()


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    sketch = run("sketch", "gemm_bias_gelu").stdout
    code = run("reason", "-", "--gpu", "a100", input=sketch).stdout
    right = run("translate", "-", "--to", "cute", input=code).stdout
    head = right.index("#include")
    atom = "cute::SM80_16x8x16_F32F16F16F32_TN"
    expect(atom in right, "CuTe's product", right[:3000])
    # an atom that there is not, then operands in a wrong order, then right
    done, verdicts, prompt = by_model(folder, code, right.replace(atom, "cute::SM80_16x8x16_TN"),
                                      right.replace("fma(d[0], d[1], d[2], d[3], a0, a1", "fma(d[0], d[1], d[2], d[3], a1, a0"), right)
    said = [(v["rung"], v["passed"]) for v in verdicts]
    expect(said == [("compile", False), ("emulate", False), ("emulate", True)], "fixed step by step", (said, done.stderr))
    expect(done.returncode == 0 and done.stdout.strip().endswith(right.strip()), "the text that passed", done.stderr)
    expect("SM80_16x8x16_TN" in json.dumps(verdicts[0]["findings"]), "the compiler's words", verdicts[0]["findings"])
    expect("/tmp/" not in json.dumps(verdicts[0]["findings"]), "no path of this machine", verdicts[0]["findings"])
    expect("CuTe" in prompt and "Swizzle<" in prompt and "{{" not in prompt, "a prompt about CuTe", prompt[:500])
    # files beside CuTe's: refused before any compiler sees them
    for header in ("<cute/../../../etc/passwd.hpp>", "<cutlass/util/host_tensor.h>", "\"cute/layout.hpp\"", "<thrust/device_vector.h>",
                   "<cute//etc/../passwd>"):
        done, verdicts, _ = by_model(folder, code, right[:head] + f"#include {header}\n" + right[head:])
        found = json.dumps(verdicts[0]["findings"])
        expect(done.returncode == 1 and verdicts[0]["rung"] == "check" and "DEVICE_INCLUDE" in found, f"no {header}", found)
    # plain CUDA may not include them
    (folder / "0.md").write_text(f"```cuda\n{right}```\n")
    done = run("translate", "-", "--by", f"exec:cat {folder}/0.md", "--answers", "1", input=code)
    expect(done.returncode == 1 and "cute/" in done.stderr, "no CuTe unless it was asked for", done.stderr)
    # where the headers are not
    done = run("translate", "-", "--to", "cute", "--by", "exec:cat", input=code, CUTLASS_PATH=name)
    expect(done.returncode == 3 and "no CuTe is there" in done.stderr, "where the headers should be", done.stderr)
    print("passed")
