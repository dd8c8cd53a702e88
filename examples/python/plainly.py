"""What the scripts beside this file compare their results with: attention written down with NumPy, in 64 bits; and their options."""
import argparse

import numpy as np


def attention(q, k, v, seen=None, return_lse=False):
    """Of (..., heads, length, d), k and v with fewer heads where queries share them; 'seen' is true where a query sees a key."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], axis=-3) for x in (k, v))
    score = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    score = score if seen is None else np.where(seen, score, -np.inf)
    most = score.max(axis=-1, keepdims=True)
    weight = np.exp(score - most)
    total = weight.sum(axis=-1, keepdims=True)
    o = weight @ v / total
    return (o, (most + np.log(total))[..., 0]) if return_lse else o


def causal(queries, keys):
    """The last query at the last key's place."""
    return np.arange(queries)[:, None] + keys - queries >= np.arange(keys)


def near(name, found, wanted, bound=4e-3):
    worst = np.abs(np.asarray(found, np.float64) - wanted).max()
    print(f"{name:28} off by at most {worst:.1e}")
    assert worst < bound, f"{name} is wrong"


def options(document):
    """--on: where arrays of the CPU are computed, as arguments of FlashTL's functions."""
    parser = argparse.ArgumentParser(description=document, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--on", default="interpreter", choices=("interpreter", "emulator", "gpu"),
                        help="what the text means; the kernel of an A100, by an emulator of it; a GPU")
    on = parser.parse_args().on
    return {"on": on, **({"gpu": "a100"} if on == "emulator" else {})}
