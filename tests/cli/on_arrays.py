"""Programs on NumPy's arrays, by `flashtl run`."""
import os
import subprocess
import tempfile

import numpy as np


def run(flashtl, arguments, given, names):
    """The Outputs as arrays; None and what was said when it is refused. What is given that is no array is a number."""
    with tempfile.TemporaryDirectory() as folder:
        at = lambda name: os.path.join(folder, name + ".npy")
        command = [flashtl, "run", *arguments]
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                np.save(at(name), value)
                command += ["--in", f"{name}={at(name)}"]
            else:
                command += ["--let", f"{name}={value}"]
        for name in names:
            command += ["--out", f"{name}={at(name)}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr.strip()
        return [np.load(at(name)) for name in names], ""


def weigh(s, v):
    """Rows of values by the softmax of their scores, and the log-sum-exp: of a row that sees nothing 0 and minus infinity."""
    top = s.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isfinite(top), top, 0))
    total = e.sum(-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(total) + np.where(np.isfinite(top), top, 0))[..., 0]
    return e / np.where(total > 0, total, 1) @ v, lse
