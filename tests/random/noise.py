"""How far a right kernel may be off whose products take operands of 8 bits as they are.

Weights of a softmax are rounded to 8 bits, each by up to 6 %: a bound of the sum of those would judge nothing. Rounded
alike is what lies in one step of the type; other weights err each for itself. So the error of an element of the product
is a sum of independent ones, and its bound a multiple of their root mean square, by which a lost tile of keys, a row of
another key or a scale that is missing is found. Numerator and denominator have the same rounded weights: what they
share, as many equal weights do, is not an error.
"""
import re

import numpy as np

ROUNDING = {"e4m3": 0.026, "e5m2": 0.052, "i8": 0.0, "i4": 0.0, "u4": 0.0}   # of a number between two of the type: the relative root mean square
LEAST = 2.0 ** -13              # below it, relative to its row's largest, a weight may be a step of the type or 0
LINEAR = 1.5                    # weights that are linear between powers are off by up to 3 % besides
FAR = 3.5                       # the judge doubles it
STEPS = 32                      # parts of an octave: weights of one part are rounded alike
CUT = 2.0 ** -13                # of the largest term: what is below it is lost where the GPU adds
DEPTH, GROUP, PROMOTED = 32, 16, 256   # terms of an instruction, that are cut together, and after which f32 takes over


def narrow_kernels(code):
    """The kernels of TL Code that multiply operands of 8 bits."""
    found, name = set(), None
    for line in code.splitlines():
        line = line.split("//")[0]
        if m := re.match(r"kernel (\w+)", line):
            name = m.group(1)
        elif re.search(r"Compute GEMM .* by m\d+n\d+k32\b", line):
            found.add(name)
    return found


def cut(a, b):
    """What sums of few bits lose: each step cuts, towards zero, what is below its largest term or the sum so far."""
    n = a.shape[-1]
    a, b = (np.where(np.isfinite(x), x, 0) for x in (a, b))
    largest = np.abs(a).max(1, initial=0)[:, None] * np.abs(b).max(0, initial=0)[None, :]
    so_far = np.zeros_like(largest)
    for k in range(0, n, DEPTH):
        so_far = so_far * (k % PROMOTED > 0) + a[:, k:k + DEPTH] @ b[k:k + DEPTH]
        largest = np.maximum(largest, np.abs(so_far))
    one_sided = np.abs(np.sign(a) @ np.sign(b)) / 2
    return largest * CUT * (one_sided + FAR * np.sqrt(n / 12) + n / GROUP / 2 + 1)


def of_weights(p, v, type, is_linear=False):
    """p are weights of rows, v the rows of values."""
    result = np.zeros((p.shape[0], v.shape[1]))
    v = np.where(np.isfinite(v), v, 0)
    for i, w in enumerate(p):
        top = w.max(initial=0)
        if not top > 0:
            continue
        seen = w > 0
        w, rows = w[seen], v[seen]
        far = (LINEAR if is_linear else 1) * ROUNDING[type] * w + np.minimum(w, 0.58 * LEAST * top)
        groups = np.where(w < LEAST * top, 10 ** 6, np.floor(np.log2(w / top) * STEPS)).astype(int)
        _, group = np.unique(groups, return_inverse=True)
        sums = np.zeros((group.max() + 1, v.shape[1]))
        own = far[:, None] * (rows - w @ rows / w.sum())
        np.add.at(sums, group, own)
        beside = (np.bincount(group) > 1)[group]
        apart = (own[beside] ** 2).sum(0)  # a step of the type may lie between two that are nearly alike
        result[i] = FAR * np.sqrt((sums ** 2).sum(0) + apart)
    return result
