#!/usr/bin/env python3
"""Derived gradients against central differences of the sketch itself.

    differences.py FLASHTL                       the sketches and examples that ship
    differences.py FLASHTL FILE.tl ...           others
    differences.py FLASHTL --fused               the fused form of those that have one

The program that `flashtl derive` writes runs on the interpreter in f32; the sketch runs there with each Input moved a
little to both sides along a random direction, at three distances, so that there are two differences whose error is of fourth
order. Where they do not agree (a Min or a Max changes sides on the way) other numbers are drawn. A gradient passes where
it agrees along the direction, compared with the gradient's size. Exit status 77 without NumPy.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("differences.py: NumPy is not here")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIZES = {"batch": 2, "q_heads": 4, "kv_heads": 2, "heads": 2, "q_len": 6, "kv_len": 9, "d": 4, "dv": 3, "m_len": 5, "n_len": 6,
         "k_len": 7, "row_len": 4, "column_len": 7, "d_rotary": 2, "distances": 5, "len": 7, "three": 3, "doc_len": 8, "query_len": 5, "half": 2,
         "k": 8, "e": 4, "n": 5, "group": 2, "blocks": 3, "rows": 3, "top": 2, "taps": 4, "chans": 8}
SCALARS = {"scale": 0.7, "eps": 0.1, "alpha": 0.6, "keep": 0.75}
FEW = 5e-3  # of the gradient's root mean square: f32 arrays, differences of fourth order
STEPS = (0.01, 0.02, 0.04)
DRAWS = 8  # until differences tell the slopes


def sketch(*options):
    return lambda flashtl: subprocess.run([flashtl, "sketch", *options], capture_output=True, text=True, check=True).stdout


def example(name, *changes):
    def read(_):
        text = (ROOT / "examples" / f"{name}.tl").read_text()
        for old, small in changes:
            assert old in text, f"{name}.tl does not say '{old}'"
            text = text.replace(old, small)
        return text
    return read


def beside(name):
    return lambda _: (ROOT / "tests" / "derive" / f"{name}.tl").read_text()


def second(read, number):
    """The n-th kernel that gives gradients, as a sketch of its own: what is derived of it are gradients of a gradient."""
    def text(flashtl):
        kernels = re.split(r"^(?=kernel )", call(flashtl, "derive", "-", text=read(flashtl)), flags=re.M)
        made = [kernel for kernel in kernels if re.match(r"kernel \w+_gradient_", kernel)]
        return re.sub(r"^//.*\n", "", made[number - 1], flags=re.M)
    return text


# name -> how to get the text, and what the sizes are where they are tied.
CASES = {
    "mha": (sketch("mha"), {"kv_heads": 4}),
    "mha --causal": (sketch("mha", "--causal"), {"kv_heads": 4}),
    "mha --window 2": (sketch("mha", "--window", "2"), {"kv_heads": 4}),
    "mha --alibi": (sketch("mha", "--alibi"), {"kv_heads": 4}),
    "gqa --causal": (sketch("gqa", "--causal"), {}),
    "gqa --causal --window 3": (sketch("gqa", "--causal", "--window", "3"), {}),
    "gqa --causal, queries without keys": (sketch("gqa", "--causal"), {"q_len": 9, "kv_len": 5}),
    "gqa --softcap 2 --alibi --lse": (sketch("gqa", "--causal", "--softcap", "2", "--alibi", "--lse"), {}),
    "mqa --causal": (sketch("mqa", "--causal"), {"kv_heads": 1}),
    "mla --causal": (sketch("mla", "--causal"), {}),
    "chained_gemms": (sketch("chained_gemms"), {}),
    "gemm_bias_gelu": (sketch("gemm_bias_gelu"), {}),
    "row_softmax": (sketch("row_softmax"), {}),
    **{name: (example(name), {}) for name in ("chosen_blocks", "distance_bias", "gated_linear", "key_gradient", "layernorm", "maxsim",
                                              "pair_bias",
                                              "query_gradient", "received", "residual_gemm", "retention", "rmsnorm_gemm_silu",
                                              "rotary", "softmax_off_by_one", "swiglu", "tree_mask")},
    "block_causal": (example("block_causal", ("let block = 32", "let block = 3")), {}),
    "dual_chunk": (example("dual_chunk", ("let chunk = 64", "let chunk = 3")), {}),
    "window_sinks": (example("window_sinks", ("let window = 100, sinks = 4", "let window = 2, sinks = 1")), {}),
    **{name: (beside(name), {}) for name in (
        "added_beside", "changed_logsumexp", "convolution", "delta_as_input", "element_before_copy", "element_named_alike", "element_of_copied", "element_of_diagonal", "element_of_grid", "element_of_part",
        "element_shared", "elements", "hidden_overflow", "lse_alone", "lse_and_weights", "extremes", "filled", "length_first", "length_of_sum", "lse_changed", "merged", "norm_then_softmax", "packed",
        "rmsnorm", "row_scaled", "saved_name", "scores_given_out", "sinks", "softmax_by_walks", "softmax_then_norm", "start_computed", "statistic_masked", "start_of_ones", "start_value", "two_sources", "view_by_table",
        "read_in_ways", "view_of_copied", "view_of_part", "view_twice", "wide_values")},
    **{f"{name}, of gradient kernel {n}": (second(read, n), {}) for n in (1, 2) for name, read in (
        ("chained_gemms", sketch("chained_gemms")), ("gemm_bias_gelu", sketch("gemm_bias_gelu")), ("swiglu", example("swiglu")),
        ("residual_gemm", example("residual_gemm")), ("retention", example("retention")))},
}


class Failed(Exception):
    pass


class Untold(Exception):
    pass


def call(flashtl, *arguments, text=None):
    done = subprocess.run([flashtl, *map(str, arguments)], input=text, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Failed(f"flashtl {' '.join(map(str, arguments))}\n{done.stdout[-400:]}{done.stderr[-1200:]}")
    return done.stdout


def parameters(text, kind):
    """{name: (type, [(index, extent)])} of a canonical text, each name once."""
    found = {}
    for name, type, axes in re.findall(rf"^{kind}\s+(\w+)(?: (f16|bf16|f32|i32))?(?: \(([^)]*(?:\([^)]*\)[^)]*)*)\))?", text, re.M):
        parts = [part.strip() for part in re.split(r"[;,]", axes)] if axes else []
        pairs = [tuple(part.split(" in ")) if " in " in part else (part, part) for part in parts]
        found.setdefault(name, (type, pairs))
    return found


class Program:
    def __init__(self, flashtl, text, sizes, how):
        self.flashtl, self.text, self.sizes, self.how = flashtl, text, sizes, how

    def run(self, arrays, scalars, wanted):
        inputs = parameters(self.text, "Input")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "program.tl").write_text(self.text)
            arguments = ["run", folder / "program.tl", *self.how]
            for name, array in arrays.items():
                if name in inputs:
                    np.save(folder / f"{name}.npy", array)
                    arguments += ["--in", f"{name}={folder / name}.npy"]
            for name, value in scalars.items():
                if name in inputs:
                    arguments += ["--let", f"{name}={value}"]
            for name in wanted:
                arguments += ["--out", f"{name}={folder / name}_out.npy"]
            call(self.flashtl, *arguments)
            made = {name: np.load(folder / f"{name}_out.npy").astype(np.float64) for name in wanted}
            # A mask's minus infinity does not move: it counts nothing. Infinity and NaN of any other kind stay.
            return {name: np.where(array == -np.inf, 0, array) for name, array in made.items()}


def draw(random, text, sizes):
    arrays, scalars, sizes = {}, {}, dict(sizes)
    for names in re.findall(r"^let ([^(\n]*)$", re.sub(r"\s*//.*", "", text), re.M):
        for name, value in re.findall(r"(\w+) = ([^,]+)", names):
            try:
                sizes[name] = eval(value.replace("/", "//"), {}, sizes)
            except NameError:
                sizes.pop(name, None)  # made of scalars: no length
    for name, (type, axes) in parameters(text, "Input").items():
        shape = [int(eval(extent.replace("/", "//"), {}, sizes)) for _, extent in axes]
        if not axes:
            scalars[name] = SCALARS.get(name, 2 if type == "i32" else 0.5)
        elif type == "i32":
            arrays[name] = random.integers(0, 2, shape).astype(np.int32)
        else:
            arrays[name] = random.standard_normal(shape).astype(np.float32)
    return arrays, scalars


def difference(forward, arrays, scalars, weights, name, direction):
    def loss(step):
        moved = {**arrays, name: (arrays[name] + step * direction).astype(np.float32)}
        made = forward.run(moved, scalars, list(weights))
        return sum(float((weights[n] * made[n]).sum()) for n in weights)
    slopes = [(loss(step) - loss(-step)) / (2 * step) for step in STEPS]
    return [(4 * near - far) / 3 for near, far in zip(slopes, slopes[1:])]


def check(flashtl, text, sizes, how, random, options=()):
    """The largest error by Input, of the gradient's size."""
    text = call(flashtl, "fmt", "-", text=text)
    derived = call(flashtl, "derive", "-", *options, text=text)
    arrays, scalars = draw(random, text, sizes)
    gradients = [name for name in parameters(derived, "Output") if name[:1] == "d" and name[1:] in arrays]
    outputs = [name for name in parameters(text, "Output") if f"d{name}" in parameters(derived, "Input")]
    forward = Program(flashtl, text, sizes, ["--on", "interpreter", "--dtype", "f32"])
    made = forward.run(arrays, scalars, outputs)
    weights = {name: random.standard_normal(made[name].shape).astype(np.float32) for name in outputs}
    given = {**arrays, **{f"d{name}": weights[name] for name in outputs}}
    found = Program(flashtl, derived, sizes, how).run(given, scalars, gradients)
    errors = {}
    for gradient in gradients:
        name = gradient[1:]
        own = found[gradient]
        size = np.linalg.norm(own) / np.sqrt(own.size) + 1e-9
        direction = random.standard_normal(arrays[name].shape)
        direction /= np.linalg.norm(direction)
        near, far = difference(forward, arrays, scalars, weights, name, direction)
        if abs(near - far) > FEW / 2 * size:
            raise Untold(f"differences do not tell the slope of {name}")
        errors[gradient] = abs(far - float((own * direction).sum())) / size
    return errors


def check_ties(flashtl):
    """Of rows of few different numbers the first largest and smallest have the gradients, to the bit."""
    random = np.random.default_rng(3)
    derived = call(flashtl, "derive", ROOT / "tests" / "derive" / "ties.tl")
    arrays = {"X": random.integers(-1, 2, (7, 9)).astype(np.float32), "W": random.integers(-1, 2, (7, 4)).astype(np.float32)}
    given = {f"d{name}": random.standard_normal(7).astype(np.float32) for name in ("most", "least", "low")}
    found = Program(flashtl, derived, SIZES, ["--on", "interpreter", "--dtype", "f32"]).run({**arrays, **given}, {}, ["dX", "dW"])
    want = {name: np.zeros(array.shape) for name, array in arrays.items()}
    rows = np.arange(7)
    want["X"][rows, arrays["X"].argmax(1)] += given["dmost"]
    want["X"][rows, arrays["X"].argmin(1)] += given["dleast"]
    want["W"][rows, arrays["W"].argmin(1)] += given["dlow"]
    return all(np.array_equal(found[f"d{name}"], want[name]) for name in want)


def check_told(flashtl, text, sizes, random, options):
    for _ in range(DRAWS - 1):
        try:
            return check(flashtl, text, sizes, ["--on", "interpreter", "--dtype", "f32"], random, options)
        except Untold:
            pass
    return check(flashtl, text, sizes, ["--on", "interpreter", "--dtype", "f32"], random, options)


def has_no_fused_form(flashtl, text):
    done = subprocess.run([flashtl, "derive", "-", "--fused"], input=text, capture_output=True, text=True)
    return done.returncode == 1 and "nothing can be fused here" in done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("flashtl")
    parser.add_argument("files", nargs="*")
    parser.add_argument("--only", default="", help="cases with this text in their name")
    parser.add_argument("--fused", action="store_true", help="the fused form; sketches that have none are left out")
    a = parser.parse_args()
    options = ["--fused"] if a.fused else []
    cases = {f: (lambda _, f=f: pathlib.Path(f).read_text(), {}) for f in a.files} or CASES
    bad = 0
    for number, (name, (read, own)) in enumerate(cases.items()):
        if a.only not in name:
            continue
        try:
            text = read(a.flashtl)
            if a.fused and has_no_fused_form(a.flashtl, text):
                continue
            errors = check_told(a.flashtl, text, {**SIZES, **own}, np.random.default_rng(number), options)
        except (Failed, Untold) as failed:
            bad += 1
            print(f"FAILED {name}: {failed}")
            continue
        good = errors and all(error <= FEW for error in errors.values())  # (of NaN nothing is true)
        bad += not good
        print(f"{'right' if good else 'WRONG'} {name}: " + ", ".join(f"{n} {e:.0e}" for n, e in errors.items()), flush=True)
    if not a.files and not a.fused and a.only in "ties":
        good = check_ties(a.flashtl)
        bad += not good
        print(f"{'right' if good else 'WRONG'} ties")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
