#!/usr/bin/env python3
"""CuTe text compiles against CUTLASS and gives the same bits as the plain text: test_cute.py PROGRAM [all].

Needs nvcc, NumPy and CUTLASS's headers: $CUTLASS_PATH (its include folder's parent), or the PyPI package
nvidia-cutlass. Without one of them it exits with 77 (skipped) and says which.
"""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

program = sys.argv[1]


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def headers():
    given = os.environ.get("CUTLASS_PATH")
    package = importlib.util.find_spec("cutlass_library")
    places = [pathlib.Path(given) / "include"] if given else []
    if package:
        places.append(pathlib.Path(package.origin).parent / "source" / "include")
    for place in places:
        if (place / "cute" / "tensor.hpp").exists():
            return place
    return skip("CUTLASS's headers are not here; set CUTLASS_PATH or pip install nvidia-cutlass")


try:
    import numpy
except ImportError:
    skip("NumPy is not here")
if not shutil.which("nvcc"):
    skip("nvcc is not here")
include = headers()
ATTENTION = {"Q": (1, 2, 100, None), "K": (1, 1, 130, None), "V": (1, 1, 130, None)}
GEMM = {"A": (70, 136), "B": (90, 136), "bias": (90,)}
cases = [("t4", 75, "f16", 64, "attention", ["causal"], ATTENTION, "O"),
         ("a100", 80, "f16", 64, "attention", ["causal"], ATTENTION, "O")]
if "all" in sys.argv:
    cases += [("l40s", 89, "bf16", 128, "attention", ["window=70"], ATTENTION, "O"),
              ("a100", 80, "bf16", 96, "attention", [], ATTENTION, "O"),
              ("t4", 75, "f16", 0, "gemm_bias_gelu", [], GEMM, "C"),
              ("l40s", 89, "bf16", 0, "gemm_bias_gelu", [], GEMM, "C")]


def run(*words, **more):
    return subprocess.run([str(w) for w in words], check=True, capture_output=True, text=True, **more).stdout


def emulate(folder, text, plan, sm, arrays, outputs, lets):
    ptx = text.with_suffix(".ptx")
    run("nvcc", "-std=c++17", f"-arch=compute_{sm}", "-I", include, "-ptx", "-o", ptx, text)
    words = [program, "emulate", ptx, "--plan", plan]
    for name, path in arrays.items():
        words += ["--in", f"{name}={path}"]
    for name in outputs:
        words += ["--out", f"{name}={folder}/{text.stem}_{name}.npy"]
    for let in lets:
        words += ["--let", let]
    said = run(*words)
    assert "0 findings" in said, said
    return [numpy.load(f"{folder}/{text.stem}_{name}.npy") for name in outputs]


with tempfile.TemporaryDirectory() as folder:
    folder = pathlib.Path(folder)
    for gpu, sm, dtype, d, operator, options, shapes, output in cases:
        code = folder / "kernel.tl"
        choice = [word for option in options for word in ("--with", option)]
        size = ["--head-dim", d] if d else []
        run(program, "reason", "--op", operator, *choice, *size, "--gpu", gpu, "--dtype", dtype, "-o", code)
        plain, cute, plan = folder / "plain.cu", folder / "cute.cu", folder / "plan.json"
        run(program, "translate", code, "-o", plain)
        run(program, "translate", "--to", "cute", code, "-o", cute)
        run(program, "translate", "--plan", code, "-o", plan)
        text = cute.read_text()
        has_layouts = "_layout{}(" in text or "no CuTe layout" in text
        assert "cute::" in text and has_layouts and "mma.sync" not in text, text[:2000]
        rng, arrays = numpy.random.default_rng(7), {}
        for name, shape in shapes.items():
            values = rng.standard_normal([n or d for n in shape]).astype(numpy.float32)
            words = values.view(numpy.uint32) >> 16
            arrays[name] = folder / f"{name}.npy"
            numpy.save(arrays[name], values.astype(numpy.float16) if dtype == "f16" else words.astype(numpy.uint16))
        lets = ["scale=0.125"] if operator == "attention" else []
        ours = emulate(folder, plain, plan, sm, arrays, [output], lets)[0]
        theirs = emulate(folder, cute, plan, sm, arrays, [output], lets)[0]
        assert ours.tobytes() == theirs.tobytes(), f"{gpu} {dtype} {operator}: CuTe's text gives other numbers"
        assert ours.view(numpy.uint16).any()
        print(f"{gpu}, {dtype}, {operator}, d {d}: the same {ours.size} numbers, bit for bit")
