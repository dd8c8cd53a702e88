#!/usr/bin/env python3
"""Breaks CUDA text in one place, and says who notices: the compiler, the judge of `flashtl think`, or nobody.

    cuda_mutants.py --flashtl build/flashtl --count 100                      a sample
    cuda_mutants.py --flashtl build/flashtl --count 5000 --jobs 16 --results cuda.jsonl --survivors survivors

The texts are what translate makes of the shipped sketches, the examples, and random programs (generate.py). Each mutant is
an answer of a model that was asked for CUDA. Most are refused, or caught by the emulator; one whose PTX is that of the
original is equal, and so is one of which equal.py proves it; a few are explained (explained.py), and one is faint that changes
a number by 1 % where a quarter is noticed. What is left has survived, and is listed. Exit status 0: no survivor; 77: NumPy, NVRTC or a CUDA
compiler is not here.
"""
import ctypes
import glob
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

import equal
import equal_waits
import explained
import mutants

BESIDE = ("survived", "crash", "timeout", "original")
LAST = 6                        # times as many drawn cases, for what nothing is known of after all


def never(lines, r):
    """A condition that never holds."""
    found = [i for i, line in enumerate(lines) if re.match(r"\s*if \(.*\) \{$", line)]
    if not found:
        return None
    i = r.choice(found)
    return lines[:i] + [re.sub(r"if \(.*\) \{$", "if (false) {", lines[i])] + lines[i + 1:]


def always(lines, r):
    found = [i for i, line in enumerate(lines) if re.match(r"\s*if \(.*\) (\{|[^{}]*;)$", line)]
    if not found:
        return None
    i = r.choice(found)
    at = lines[i].index("if (") + 3
    depth, end = 0, at
    for end in range(at, len(lines[i])):
        depth += {"(": 1, ")": -1}.get(lines[i][end], 0)
        if not depth:
            break
    return lines[:i] + [lines[i][:at] + "(true)" + lines[i][end + 1:]] + lines[i + 1:]


def swap(lines, r):
    plain = r"\s*(ftl_\w+\(|\w+(\[[^=]*\])* ([-+*^|&]?)= ).*;$"
    found = [i for i in range(len(lines) - 1) if all(re.match(plain, x) for x in lines[i:i + 2])]
    if not found:
        return None
    i = r.choice(found)
    return lines[:i] + [lines[i + 1], lines[i]] + lines[i + 2:]


def call(words):
    """A statement that calls a wrapper of the device, perhaps under a condition."""
    return mutants.drop(rf"^\s*(if \([^{{}}]*\) )?ftl_\w*({words})\w*(<[^;]*>)?\(.*;$")


MUTATIONS = {
    "drop barrier": call("barrier|meet|syncwarp|sync"),
    "drop wait": call("wait"),
    "drop fence": call("fence"),
    "drop signal": call("signal|arrive|commit|expect"),
    "drop product": mutants.drop(r"^\s*ftl_\w*mma\w*(<[^;]*>)?\(.*;$"),
    "drop copy": call("copy|load|store|write|read"),
    "drop statement": mutants.drop(r"^\s*\w+(\[[^=]*\])* ([-+*^|&]?)= .*;$"),
    "if never": never, "if always": always, "swap statements": swap,
    "first iteration": mutants.replace(r"(for \(int \w+ = |^\s*int \w+ = )(\d+);", r"\g<1>\g<2> + 1;"),
    "last iteration": mutants.replace(r"(for \([^;]*; \w+ < )([^;]+);", r"\g<1>\g<2> - 1;", r"\g<1>\g<2> + 1;"),
    "comparison": mutants.replace(r" (<=|>=|<|>|==|!=) ", lambda m, r: f" {r.choice([x for x in ('<', '<=', '>', '>=', '==', '!=') if x != m.group(1)])} "),
    "and, or": mutants.replace(r" (&&|\|\|) ", lambda m, r: " || " if m.group(1) == "&&" else " && "),
    "sign": mutants.replace(r" ([+-]) ", lambda m, r: " - " if m.group(1) == "+" else " + "),
    "number": mutants.replace(r"(?<![\w.])\d+(?![\w.])", mutants.number),
    "real number": mutants.replace(r"-?\d+\.\d+(e-?\d+)?f|-?\d+e-?\d+f", lambda m, r: repr(-float(m.group(0)[:-1]) or 1.0) + "f", lambda m, r: repr(float(m.group(0)[:-1]) * 1.01 or 0.01) + "f"),
    "index": mutants.replace(r"\[(\w+)\]", r"[(\1) ^ 1]", r"[0]"),
    "min, max": mutants.replace(r"\b(ftl_\w*)(min|max)(_\w+|imum\w*)?\(", lambda m, r: m.group(1) + ("max" if m.group(2) == "min" else "min") + (m.group(3) or "") + "("),
    "round": mutants.replace(r"\bftl_divide_(up|down)\(", lambda m, r: "ftl_divide_down(" if m.group(1) == "up" else "ftl_divide_up("),
    "operands": mutants.replace(r"\((\w+(?:\[\w+\])*), (\w+(?:\[\w+\])*)\)", r"(\2, \1)"),
}

class Nvrtc:
    """PTX of CUDA text, so that texts which compile to the same are told from others."""

    def __init__(self):
        places = [os.environ.get("FLASHTL_NVRTC") or "", "libnvrtc.so", *sorted(glob.glob("/usr/local/cuda*/lib*/libnvrtc.so*"), reverse=True),
                  *(p for x in sys.path for p in glob.glob(f"{x}/nvidia/*/lib/libnvrtc.so*"))]
        self.library = None
        for place in filter(None, places):
            try:
                self.library = ctypes.CDLL(place)
                break
            except OSError:
                continue

    def ptx(self, text, target):
        """The instructions; None: it does not compile."""
        n, program, size = self.library, ctypes.c_void_p(), ctypes.c_size_t()
        if n.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None):
            return None
        options = [f"--gpu-architecture={target}".encode(), b"--std=c++17", b"-default-device"]
        failed = n.nvrtcCompileProgram(program, len(options), (ctypes.c_char_p * len(options))(*options))
        found = None
        if not failed and not n.nvrtcGetPTXSize(program, ctypes.byref(size)):
            buffer = ctypes.create_string_buffer(size.value)
            n.nvrtcGetPTX(program, buffer)
            found = re.sub(r"//.*", "", buffer.value.decode())
        n.nvrtcDestroyProgram(ctypes.byref(program))
        return found


def target_of(gpu):
    return {"t4": "compute_75", "a100": "compute_80", "l40s": "compute_89", "h200": "compute_90a"}[gpu]


def parts(text):
    """What stands before the kernel, and the kernel's lines without comments."""
    at = text.index('extern "C" __global__')
    lines = [re.sub(r"\s*//.*", "", line) for line in text[at:].splitlines()]
    return text[:at], [line for line in lines if line.strip()]


AGENT = """cat > /dev/null
n=$(cat n 2>/dev/null || echo 0)
echo $((n + 1)) > n
cat $n.md
"""


def verdicts(subject, texts, folder, more=()):
    """What `think` says of each text, one answer after the other: (verdict, detail). 'more' are further options."""
    found = []
    while len(found) < len(texts):
        left = texts[len(found):]
        place = pathlib.Path(tempfile.mkdtemp(dir=folder))
        for i, text in enumerate(left):
            (place / f"{i}.md").write_text(f"```cuda\n{text}\n```\n")
        (place / "agent.sh").write_text(AGENT)
        command = [subject.flashtl, "think", "--sketch", str(subject.sketch), "--gpu", subject.gpu, "--on", "emulator", "--answers", str(len(left)),
                   "--translate-by", f"exec:cd {place}; sh agent.sh", "--record", str(place / "record.jsonl"), "-o", str(place / "out"), *more] + subject.options
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=subject.timeout, env=subject.environment)
        except subprocess.TimeoutExpired:
            done = None
        record = place / "record.jsonl"
        events = [json.loads(x) for x in record.read_text().splitlines()] if record.exists() else []
        judged = [e for e in events if e["event"] == "verdict" and e["round"] > 0]
        for e in judged[:len(left)]:
            finding = e["findings"][0] if e["findings"] else {}
            if e["passed"]:
                found.append(("survived", ""))
            else:
                found.append((e["rung"], f"{finding.get('id', '')} {finding.get('message', '')}"[:300]))
        if len(judged) < len(left) and not (judged and judged[-1]["passed"]):
            found.append(("timeout", "") if done is None else ("crash", f"status {done.returncode} {done.stderr[-300:]}"))
        shutil.rmtree(place, ignore_errors=True)
    return found


REAL = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?f|-?\d+e[+-]?\d+f")


def louder(mutant, lines):
    """The same place changed by a quarter (of 0: by 0.5) where a number was changed by 1 %; None: it was no such change."""
    new, old, at = equal.changes(mutant, lines)
    if len(new) != 1 or len(old) != 1:
        return None
    pairs = [(m, n) for m, n in zip(REAL.finditer(old[0]), REAL.finditer(new[0])) if m.group(0) != n.group(0)]
    if len(pairs) != 1:
        return None
    place, before, after = pairs[0][0], float(pairs[0][0].group(0)[:-1]), float(pairs[0][1].group(0)[:-1])
    if abs(after - before) > 0.0101 * abs(before) and (before, after) != (0.0, 0.01):
        return None
    much = repr(before * 1.25 if before else 0.5) + "f"
    return lines[:at] + [old[0][:place.start()] + much + old[0][place.end():]] + lines[at + 1:]


def drawn(survivor, subject, head, lines, folder, more):
    """What drawn cases say of a mutant that the others let pass: (verdict, why); None: nothing."""
    words = ["--shapes", "none", "--more", str(more), "--seed", str(subject.seed)]
    texts = [head + "\n".join(x) + "\n" for x in (survivor, lines)]
    if not more:
        return None
    verdict, detail = verdicts(subject, texts[:1], folder, words)[0]
    if verdict == "survived":
        return None
    whole = verdicts(subject, texts[1:], folder, words)[0]
    if whole[0] != "survived":
        return "original", f"the text itself fails: {whole[1]}"[:300]
    return (verdict if verdict in BESIDE else f"drawn {verdict}"), detail


def verdict_on(survivor, subject, head, lines, folder, count):
    """What is to be said of a mutant that the judge passed: (verdict, why)."""
    why = equal.of_cuda(survivor, lines, subject.code) or equal_waits.of_cuda(survivor, lines)
    if why:
        return "equal", why
    found = drawn(survivor, subject, head, lines, folder, count)
    if found:
        return found
    why = explained.of(subject.name, lines, equal.changes(survivor, lines))
    if why:
        return "explained", why
    more = louder(survivor, lines)
    if more:
        verdict, detail = verdicts(subject, [head + "\n".join(more) + "\n"], folder)[0]
        if verdict not in BESIDE:
            return "faint", f"1 % is below what 16 bits tell; a quarter in its place is noticed: {verdict} {detail}"[:300]
    return drawn(survivor, subject, head, lines, folder, LAST * count) or ("survived", "")


def work(job):
    seed, a = job
    with tempfile.TemporaryDirectory() as top:
        folder = pathlib.Path(top)
        subject = mutants.Subject(os.path.abspath(a.flashtl), seed, folder, a.timeout)
        if subject.code is None or "kernel " not in subject.text_of_sketch or "\n".join(subject.code).count("\nkernel "):
            return []                               # judged by its own formulas, kernel by kernel: one a text
        path = folder / "original.tl"
        path.write_text("\n".join(subject.code) + "\n")
        done = subject.call(["translate", str(path)])
        nvrtc = Nvrtc()
        if done is None or done.returncode or nvrtc.library is None:
            return []
        head, lines = parts(done.stdout)
        whole = nvrtc.ptx(head + "\n".join(lines) + "\n", target_of(subject.gpu))
        if whole is None:
            return []
        r = random.Random(seed)
        rows, texts, asked = [], [], []
        for _ in range(a.each):
            kind = r.choice(list(MUTATIONS))
            mutant = MUTATIONS[kind](lines, r)
            if mutant is None or mutant == lines:
                continue
            text = head + "\n".join(mutant) + "\n"
            i = next((i for i, (x, y) in enumerate(zip(mutant, lines)) if x != y), len(mutant) - 1)
            changed = [mutant[i].strip(), lines[i].strip()]
            row = {"seed": seed, "subject": subject.name, "gpu": subject.gpu, "mutation": kind, "change": changed}
            ptx = nvrtc.ptx(text, target_of(subject.gpu))
            if ptx is None:
                row |= {"verdict": "compile", "detail": ""}
            elif ptx == whole:
                row |= {"verdict": "equal", "detail": "the same PTX"}
            else:
                texts.append(text)
                asked.append(row)
            rows.append(row)
        started = time.time()
        if texts and verdicts(subject, [head + "\n".join(lines) + "\n"], folder)[0][0] != "survived":
            return []                               # the program itself is not judged as right: run.py's business
        for row, text, (verdict, detail) in zip(asked, texts, verdicts(subject, texts, folder)):
            if verdict == "survived":
                verdict, detail = verdict_on(parts(text)[1], subject, head, lines, folder, a.more)
            row |= {"verdict": verdict, "detail": detail, "seconds": round((time.time() - started) / len(texts), 2)}
            if row["verdict"] in BESIDE and a.survivors:
                place = pathlib.Path(a.survivors, f"{row['verdict']}-{seed}-{row['mutation'].replace(' ', '-').replace(',', '')}-{len(os.listdir(a.survivors)) if os.path.isdir(a.survivors) else 0}")
                place.mkdir(parents=True, exist_ok=True)
                (place / "sketch.tl").write_text(subject.text_of_sketch)
                (place / "original.cu").write_text(head + "\n".join(lines) + "\n")
                (place / "mutant.cu").write_text(text)
                (place / "how").write_text(f"{subject.name} {subject.gpu} {' '.join(subject.options)}\n{row['mutation']}\n{row['change']}\n{detail}\n")
    return rows


def main():
    a = mutants.options(__doc__, 100)
    if Nvrtc().library is None:
        print("cuda_mutants.py: NVRTC is not here")
        return 77
    return any(x["verdict"] in BESIDE for x in mutants.run(a, work, BESIDE))


if __name__ == "__main__":
    sys.exit(main())
