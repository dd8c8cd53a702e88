"""FlashTL from Python: attention, and any kernel that a sketch describes, as functions on arrays.

    import flashtl
    o = flashtl.attention(q, k, v, causal=True)                   # (batch, heads, length, d)
    kernel = flashtl.compile(open("my.tl").read(), gpu="h200", d=128, dv=128)
    o, = kernel(Q=q, K=k, V=v, scale=128 ** -0.5)
    print(kernel.tl, kernel.cuda, kernel.explain())

Arrays of NumPy, tensors of PyTorch, and whatever else has DLPack. Neither CUDA nor PyTorch is needed to import it.
"""
from ._append import append
from ._attention import attention
from ._errors import DiagnosticError, Error
from ._flex import flex_attention, sketch_of
from ._library import configure, derive, gpus, sketch, version
from ._program import Outputs, Program, Verification, compile
from ._serving import decode, mla_decode, varlen_attention
from ._symbols import FunctionError

__all__ = ["DiagnosticError", "Error", "FunctionError", "Outputs", "Program", "Verification", "append", "attention", "compile", "configure",
           "decode", "derive", "flex_attention", "gpus", "mla_decode", "sketch", "sketch_of", "varlen_attention"]


def __getattr__(name):
    if name == "__version__":
        return version()
    raise AttributeError(f"module 'flashtl' has no attribute {name!r}")
