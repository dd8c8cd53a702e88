"""FlashTL from Python: attention, and any kernel that a sketch describes, as functions on arrays.

    import flashtl
    o = flashtl.attention(q, k, v, causal=True)                   # (batch, heads, length, d)
    kernel = flashtl.compile(open("my.tl").read(), gpu="h200", d=128, dv=128)
    o, = kernel(Q=q, K=k, V=v, scale=128 ** -0.5)
    print(kernel.tl, kernel.cuda, kernel.explain())

Arrays of NumPy, tensors of PyTorch, and whatever else has DLPack. Neither CUDA nor PyTorch is needed to import it.
"""
from ._attention import attention
from ._errors import DiagnosticError, Error
from ._library import configure, derive, gpus, sketch, version
from ._program import Outputs, Program, Verification, compile

__all__ = ["DiagnosticError", "Error", "FunctionError", "Outputs", "Program", "Verification", "append", "attention", "block_mask", "compile",
           "configure", "decode", "derive", "flex_attention", "gpus", "mla_decode", "sketch", "sketch_of", "sparse_attention",
           "varlen_attention"]


# Importing these would take as long again as all else.
LATER = {"append": "_append", "block_mask": "_blocks", "decode": "_serving", "flex_attention": "_flex", "FunctionError": "_symbols",
         "mla_decode": "_serving", "sketch_of": "_flex", "sparse_attention": "_sparse", "varlen_attention": "_serving"}


def __getattr__(name):
    if name == "__version__":
        return version()
    if name in LATER:
        from importlib import import_module
        globals()[name] = found = getattr(import_module(f"flashtl.{LATER[name]}"), name)
        return found
    raise AttributeError(f"module 'flashtl' has no attribute {name!r}")


def __dir__():
    return [*globals(), *LATER]
