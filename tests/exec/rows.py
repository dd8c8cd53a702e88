"""Rows of a result against what they should be, for tests that move or mask whole rows; types as NumPy keeps them."""
import numpy as np


def bfloat(x):
    """Rounded to bf16, in f32."""
    with np.errstate(over="ignore"):
        bits = np.asarray(x).astype(np.float32).view(np.uint32)
    return np.where(np.isinf(x), bits & 0xffff0000, (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)


def stored(x, dtype):
    if dtype == "bf16":
        return (x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return x.astype(np.float16 if dtype == "f16" else np.float32)


def loaded(name, dtype):
    x = np.load(f"{name}.npy")
    return (x.astype(np.uint32) << 16).view(np.float32).astype(np.float64) if dtype == "bf16" and x.dtype == np.uint16 else x.astype(np.float64)


def worst_row(got, want):
    """(relative rms, head, row); not a number counts as infinite, and what is not 0 where 0 is right."""
    size = np.linalg.norm(want, axis=-1)
    off = np.linalg.norm(got - want, axis=-1)
    errors = np.where(size > 0, off / np.where(size > 0, size, 1), np.where(off > 0, np.inf, 0))
    errors = np.where(np.isfinite(got).all(-1), errors, np.inf)
    return errors.max(), *np.unravel_index(errors.argmax(), errors.shape)


def worst_logarithm(got, want):
    with np.errstate(invalid="ignore"):
        errors = np.abs(got - want) / np.maximum(np.abs(want), 1)
    return np.where(got == want, 0, np.where(np.isfinite(errors), errors, np.inf)).max()
