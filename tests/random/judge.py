"""Runs one program on one set of arrays by `flashtl run`, and compares with evaluate.py."""
import json
import os
import pathlib
import subprocess
import tempfile

import numpy as np

import arithmetic
import data
import evaluate
import noise
import tree as t
from shrink import names_in

MANY, WHOLE, LARGE = 256, 0.7, 0.9   # elements that are judged together, by which part of their bounds; of the type's largest
SAFETY = 2.0                    # the error bounds are to first order


class Outcome:
    """What became of it: right, refused, or what is wrong; and a sentence."""

    def __init__(self, kind, detail="", elements=0, case=None, machine=None):
        self.kind, self.detail, self.elements, self.case, self.machine = kind, detail, elements, case, machine
        self.narrow = False

    @property
    def bad(self):
        return self.kind not in ("right", "refused", "undecided")


class Judge:
    def __init__(self, flashtl, timeout=300, cache=None):
        self.flashtl, self.timeout = flashtl, timeout
        self.environment = dict(os.environ, FLASHTL_CACHE=cache or "")

    def call(self, command):
        try:
            return subprocess.run([self.flashtl] + command, capture_output=True, text=True, errors="replace",
                                  timeout=self.timeout, env=self.environment)
        except subprocess.TimeoutExpired:
            return None

    @staticmethod
    def pins(program):
        return [x for name, value in program.pins.items() for x in ("--let", f"{name}={value}")]

    def refusal(self, done):
        """The diagnostics of a command that ended with status 1: (id, file, sentence)."""
        found = []
        for line in done.stderr.splitlines():
            try:
                d = json.loads(line)
                found.append((d["id"], d.get("file", ""), f"{d.get('line')}: {d['message']}"))
            except (ValueError, KeyError):
                continue
        return found or [("PLAIN", "", (done.stderr + done.stdout).strip().splitlines()[0][:200] if done.stderr + done.stdout else "silent")]

    def failed(self, done, what):
        """An outcome for a command that did not end with status 0 or 1."""
        if done is None:
            return Outcome("timeout", what)
        if done.returncode < 0 or done.returncode > 3 or "Sanitizer" in done.stderr:
            return Outcome("crash", f"{what}: status {done.returncode} {done.stderr.strip()[:300]}")
        missing = done.returncode == 3 and done.stderr.startswith("flashtl: no ")
        return Outcome("missing" if missing else "environment", f"{what}: status {done.returncode} {(done.stderr + done.stdout).strip()[:600]}")

    def reason(self, path, program, gpu):
        """Whether there are kernels: None, or the outcome that ends it; and those whose products take 8 bits."""
        done = self.call(["reason", str(path), "--gpu", gpu, "--dtype", program.dtype, "--json"] + self.pins(program))
        if done is None or done.returncode not in (0, 1):
            return self.failed(done, "reason"), ()
        if done.returncode == 0:
            return None, noise.narrow_kernels("".join(json.loads(line)["text"] for line in done.stdout.splitlines()))
        found = self.refusal(done)
        inside = [f for f in found if "(TL Code)" in f[1]]
        if inside:
            return Outcome("bad refusal", f"{inside[0][0]} {inside[0][2]}"), ()
        return Outcome("refused", f"{found[0][0]} {found[0][2]}"), ()

    def run(self, path, program, cases, folders, gpu, machine, pins=True, narrow=False):
        """Runs cases by one command, which compiles once, and compares each; the first that is not right ends it."""
        command = ["run", str(path), "--on", machine, "--json"]
        command += ["--dtype", program.dtype] + self.pins(program) if pins else []
        command += ["--gpu", gpu] if gpu else []
        command += self.arguments(program, cases[0][1], folders[0])
        for (_, case, *_), folder in zip(cases[1:], folders[1:]):
            words = self.arguments(program, case, folder)
            then = pathlib.Path(folder, "then.txt")
            then.write_text("".join(f"{option} {value}\n" for option, value in zip(words[::2], words[1::2])))
            command += ["--then", str(then)]
        for folder in folders:
            for out in pathlib.Path(folder).glob("out_*.npy"):
                out.unlink()
        done = self.call(command)
        elements = 0
        for (seed, _, expected, errors), folder in zip(cases, folders):
            outcome = self.compare(program, expected, errors, folder, narrow) or self.ended(done, gpu, machine)
            if outcome.kind != "right":
                outcome.case = seed
                return outcome
            elements += outcome.elements
        if done is None or done.returncode != 0:
            return self.ended(done, gpu, machine)
        return Outcome("right", elements=elements)

    def ended(self, done, gpu, machine):
        """What a command says that left no results."""
        if done is None or done.returncode not in (0, 1):
            return self.failed(done, machine)
        if done.returncode == 0:
            return Outcome("crash", f"{machine}: no results, and status 0")
        found = self.refusal(done)
        kind = "refused" if not gpu else "fault" if found[0][0].startswith(("INTERPRET", "EMULATE", "PLAIN")) else "bad refusal"
        return Outcome(kind, f"{found[0][0]} {found[0][2]}"[:600])

    def compare(self, program, expected, errors, folder, narrow=False):
        """Whether a case's results are right; None: they are not there."""
        compared, paths = 0, {name: pathlib.Path(folder, f"out_{name}.npy") for name in expected}
        if not all(p.exists() for p in paths.values()):
            return None
        for name in expected:
            type = self.types(program)[name]
            got = data.from_file(type, np.load(paths[name]))
            wrong, n = differs(got, expected[name], errors[name], type)
            wrong = wrong or narrow and scattered(got, expected[name], errors[name], type)
            compared += n
            if wrong:
                return Outcome("wrong", f"{name}: {wrong}")
        return Outcome("right", elements=compared)

    @staticmethod
    def types(program):
        return {d.name: d.type or program.dtype for d in program.tensors()}

    @staticmethod
    def told_lengths(program, case):
        """The lengths that no array has, and no let. One that a kernel's let calculates is told where another kernel has
        it of no array of its own; then the lengths that it is calculated from are told, too."""
        arrays, told, calculated = set(), set(), {}
        written = {d.name for k in program.kernels for d in k.declarations if isinstance(d, t.Tensor) and d.output}
        for k in program.kernels:
            lets = {d.name: d.value for d in k.declarations if isinstance(d, t.Let)}
            calculated.update(lets)
            arrays |= {a.length.name for d in k.declarations if isinstance(d, t.Tensor) and d.matrix and d.name not in written
                       for a in d.axes if isinstance(a.length, t.Name) and a.length.name not in lets}
        for k in program.kernels:
            lets = {d.name for d in k.declarations if isinstance(d, t.Let)}
            told |= {a.length.name for d in k.declarations if isinstance(d, t.Tensor) for a in d.axes if isinstance(a.length, t.Name)
                     and a.length.name in calculated and a.length.name not in lets | arrays}
        told |= {n for name in told for n in names_in(calculated[name])}
        given = (arrays | set(calculated)) - told | set(program.pins)
        text = program.text()
        return {name: value for name, value in case.lengths.items() if name not in given and name in text}

    def arguments(self, program, case, folder):
        types, command = self.types(program), []
        for name, value in case.scalars.items():
            command += ["--let", f"{name}={value!r}"]
        for name, values in case.arrays.items():
            path = pathlib.Path(folder, f"{name}.npy")
            if not path.exists():
                np.save(path, data.as_file(types[name], values))
            command += ["--in", f"{name}={path}"]
        for name, value in self.told_lengths(program, case).items():
            command += ["--let", f"{name}={value}"]
        for d in program.tensors():
            if d.output:
                command += ["--out", f"{d.name}={pathlib.Path(folder, f'out_{d.name}.npy')}"]
        return command

    def program(self, program, gpus, machines, seeds, lengths=None):
        """Every GPU's outcome; {gpu: Outcome}. The first that is bad ends its GPU."""
        cases = []
        for seed in seeds:
            case = data.Case(program, seed, lengths)
            e = evaluate.Evaluation(program, case.arrays, case.scalars, case.lengths)
            expected, errors = e.evaluate()
            cases.append((seed, case, expected, errors))
        with tempfile.TemporaryDirectory() as top:
            path = pathlib.Path(top, f"{program.name}.tl")
            path.write_text(program.text())
            folders = []
            for seed, *_ in cases:
                folders.append(pathlib.Path(top, str(seed)))
                folders[-1].mkdir()
            meaning = None
            if "meaning" in machines:
                meaning = self.all_cases(path, program, cases, folders, None, "interpreter")
                if meaning.bad:
                    meaning.machine = "meaning"
                    return {gpu: meaning for gpu in gpus[:1]}
            outcomes = {gpu: self.on_gpu(path, program, cases, folders, gpu, machines) for gpu in gpus}
            return {gpu: self.beside(meaning, outcome) for gpu, outcome in outcomes.items()}

    @staticmethod
    def beside(meaning, outcome):
        """What has a kernel has a meaning."""
        if meaning is None or meaning.kind != "refused" or outcome.kind != "right":
            return outcome
        return Outcome("bad refusal", meaning.detail, machine="meaning")

    def on_gpu(self, path, program, cases, folders, gpu, machines):
        ended, narrow = self.reason(path, program, gpu)
        if ended is not None:
            return ended
        if narrow:
            cases = [(seed, case, *evaluate.Evaluation(program, case.arrays, case.scalars, case.lengths, narrow).evaluate())
                     for seed, case, *_ in cases]
        outcome = Outcome("undecided", "no machine")
        for machine in machines:
            if machine == "meaning":
                continue
            outcome = self.all_cases(path, program, cases, folders, gpu, machine, bool(narrow))
            if outcome.bad:
                return outcome
        outcome.narrow = bool(narrow)
        return outcome

    def all_cases(self, path, program, cases, folders, gpu, machine, narrow=False):
        elements = 0
        # A length that no array has is pinned, and so the kernel is made for it alone.
        together = not any(self.told_lengths(program, case) for _, case, *_ in cases)
        for k in [slice(None)] if together else [slice(i, i + 1) for i in range(len(cases))]:
            outcome = self.run(path, program, cases[k], folders[k], gpu, machine, narrow=narrow)
            if outcome.kind != "right":
                outcome.machine = machine
                return outcome
            elements += outcome.elements
        return Outcome("right" if elements else "undecided", "" if elements else "no element could be compared", elements)


def scattered(got, v, e, type):
    """What is wrong with an Output of noise as a whole: a bound is 3.5 times what noise has, which no whole comes near."""
    known = np.isfinite(e) & np.isfinite(v) & np.isfinite(got) & (np.abs(v) < LARGE * arithmetic.LARGEST[type])
    if known.sum() < MANY:
        return None
    room = (e + np.abs(v) * arithmetic.EPSILON[type] + arithmetic.SMALLEST[type])[known]
    rows = max(1, np.prod(v.shape[:-1]))  # whose elements have the same weights: so many numbers were drawn
    off, most = np.sqrt(np.mean((got - v)[known] ** 2)), WHOLE * (1 + 3 / np.sqrt(rows)) * np.sqrt(np.mean(room ** 2))
    return None if off <= most else f"all elements together are off by {off:.3g}, and {most:.3g} would be much"


def differs(got, v, e, type):
    """What is wrong with an Output (None: nothing), and how many elements were compared."""
    if got.shape != v.shape:
        return f"its shape is {got.shape}, not {v.shape}", 0
    known = np.isfinite(e) & ~np.isnan(v)
    with np.errstate(all="ignore"):
        size = np.where(np.isfinite(v), np.abs(v), 0)
        room = SAFETY * (e + size * arithmetic.EPSILON[type] + arithmetic.SMALLEST[type])
        near = np.abs(got - v) <= room
        near |= (got == v)
        large = arithmetic.LARGEST[type] * 0.999
        reach = np.where(got > 0, v + room, room - v)       # of the sign that it has
        near |= (reach >= large) & (np.abs(got) >= large * 0.99)
    bad = known & ~near
    n = int(known.sum())
    if not bad.any():
        return None, n
    with np.errstate(all="ignore"):
        times = np.nan_to_num(np.abs(got - v) / np.maximum(room, 1e-300), nan=1e30, posinf=1e30)
    place = np.unravel_index(np.argmax(np.where(bad, times, -1)), v.shape)
    return (f"{int(bad.sum())} of {n} elements differ; at {[int(i) for i in place]} it is {got[place]:.7g}, and should be "
            f"{v[place]:.7g} within {room[place]:.2g}"), n
