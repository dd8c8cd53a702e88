"""Programs of attention on PyTorch's tensors: with a mask, and its gradients, by the kernels that `derive` makes of its sketch."""
import functools
import re

import torch

from .._arrays import TYPES
from .._attention import attention_sketch, program_of
from .._errors import DiagnosticError
from .._library import derive
from ._masks import as_bias, as_rows, bias_type, rows_empty, with_bias

UNIT = 16  # bytes: what a kernel asks of addresses and strides
INPUTS = {"Q": "Q", "K": "K", "V": "V", "B": "bias", "A": "slope"}  # the letters of 'of', by which operators name what has a gradient
TEXTS_MOST = 256  # a process has few choices of options


@functools.lru_cache(TEXTS_MOST)
def forward_text(operator, causal, window, softcap, has_alibi, bias, is_tile, with_lse=True):
    """The sketch; 'bias' is the type of its bias, or None."""
    text = attention_sketch(operator, causal, window, softcap, has_alibi, with_lse)
    return with_bias(text, bias, is_tile) if bias else text


@functools.lru_cache(TEXTS_MOST)
def gradient_text(operator, causal, window, softcap, has_alibi, bias, of, is_single, with_lse, fused):
    """The kernels after the forward pass, which leaves O and lse to them; is_single: gradients in f32, whatever the Inputs are; with_lse:
    lse is an Output, too, with a gradient of its own; fused: in the fused form, where there is one."""
    sketch = forward_text(operator, causal, window, softcap, has_alibi, bias, "B" in of, with_lse)
    named = {"of": [INPUTS[letter] for letter in of], "name": "<attention>"}
    try:
        whole = derive(sketch, fused=fused, **named)
    except DiagnosticError:
        if not fused:
            raise
        whole = derive(sketch, **named)
    text = whole[[match.start() for match in re.finditer("^kernel ", whole, re.M)][1]:]
    return re.sub(r"^Output d([QKV]) \(", r"Output d\1 f32 (", text, flags=re.M) if is_single else text


def plain(tensor):
    """The tensor, or a copy of it where a kernel could not read it in place."""
    size, steps = tensor.element_size(), [step for extent, step in zip(tensor.shape, tensor.stride()) if extent > 1]
    is_plain = not tensor.data_ptr() % UNIT and (tensor.shape[-1] <= 1 or tensor.stride(-1) == 1)
    rows = steps[:-1] if tensor.shape[-1] > 1 else steps
    return tensor if is_plain and all(step > 0 and not step * size % UNIT for step in rows) else tensor.contiguous()


def as_heads(tensor, layout):
    """(batch, heads, length, d) of either layout."""
    return tensor if layout == "bhld" else tensor.transpose(1, 2)


def operator_of(q, k):
    return "mha" if q.shape[1] == k.shape[1] else "gqa"


def run(text, given, on, gpu, made):
    """The program on what it takes of 'given', into 'made'."""
    program = program_of(text, on, gpu, {}, TYPES[str(given["Q"].dtype).rpartition(".")[2]])
    plan = program.plan(program.dtype)
    program(**{name: value for name, value in given.items() if name in plan.tensors or name in plan.scalars}, **made)


# --- attention with a mask ---------------------------------------------------------------------------------------------

def masked(q, k, v, alibi, mask, causal, window, softcap, scale, layout, on, gpu, with_lse):
    """(o, lse), or (o, None)."""
    o = torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype, device=q.device)
    q, k, v, o_heads = (as_heads(tensor, layout) for tensor in (q, k, v, o))
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device) if with_lse else None
    if q.numel() and k.numel():
        text = forward_text(operator_of(q, k), causal, window, softcap, alibi is not None, bias_type(mask), False, with_lse)
        bias = as_bias(mask, (*q.shape[:3], k.shape[2]))
        given = {"Q": q, "K": k, "V": v, "bias": bias, "slope": alibi, "scale": scale or q.shape[3] ** -0.5}
        run(text, given, on, gpu, {"O": o_heads, **({"lse": lse} if with_lse else {})})
    else:  # nobody sees a key
        o.zero_()
        lse = lse if lse is None else lse.fill_(-torch.inf)
    return o, lse


# --- gradients -----------------------------------------------------------------------------------------------------------

def gradients(do, q, k, v, o, lse, dlse, alibi, causal, window, softcap, scale, layout, on, gpu, of, is_single=False, mask=None,
              fused=False):
    """Those of dq, dk, dv, the bias's and the slopes' that 'of' names: dq, dk and dv in the layout of q, k and v, and in their type or in
    float32; the bias's for every score."""
    made = {name: torch.empty(tensor.shape, dtype=torch.float32 if is_single else tensor.dtype, device=tensor.device)
            for name, tensor in (("Q", q), ("K", k), ("V", v)) if name in of}
    heads = {name: as_heads(plain(tensor), layout) for name, tensor in (("Q", q), ("K", k), ("V", v), ("O", o), ("dO", do))}
    scores = (*heads["Q"].shape[:3], heads["K"].shape[2])
    if "B" in of:
        made["B"] = rows_empty(scores, mask.dtype, mask.device)
    if "A" in of:
        made["A"] = torch.empty(alibi.shape, dtype=alibi.dtype, device=alibi.device)
    if q.numel() and k.numel():
        bias = None if mask is None else as_bias(mask, scores)
        given = {**heads, "lse": lse.contiguous(), "dlse": dlse if dlse is None else dlse.contiguous(),
                 "slope": alibi if alibi is None else alibi.contiguous(),
                 "bias": as_rows(bias) if "B" in of else bias, "scale": scale or q.shape[3] ** -0.5}
        text = gradient_text(operator_of(heads["Q"], heads["K"]), causal, window, softcap, alibi is not None,
                             None if mask is None else bias_type(mask), of, is_single, dlse is not None, fused)
        run(text, given, on, gpu, {f"d{INPUTS[letter]}": tensor if letter in "BA" else as_heads(tensor, layout)
                                   for letter, tensor in made.items()})
    else:  # nobody sees a key
        for tensor in made.values():
            tensor.zero_()
    if "B" in of:
        made["B"] = made["B"].contiguous()
    return list(made.values())
