"""The gradients of attention: the kernels that `derive` makes of its sketch, on PyTorch's tensors."""
import re

import torch

from .._arrays import TYPES
from .._attention import HEAD_UNIT, attention_sketch, program_of
from .._library import derive

UNIT = 16  # bytes: what a kernel asks of addresses and strides
texts = {}


def gradient_text(operator, causal, window, softcap, has_alibi, of, is_single):
    """The kernels after the forward pass, which leaves O and lse to them; is_single: gradients in f32, whatever the Inputs are."""
    key = operator, causal, window, softcap, has_alibi, of, is_single
    if key not in texts:
        whole = derive(attention_sketch(operator, causal, window, softcap, has_alibi, True), of=of, name="<attention>")
        text = whole[[match.start() for match in re.finditer("^kernel ", whole, re.M)][1]:]
        texts[key] = re.sub(r"^Output d([QKV]) \(", r"Output d\1 f32 (", text, flags=re.M) if is_single else text
    return texts[key]


def plain(tensor):
    """The tensor, or a copy of it where a kernel could not read it in place."""
    size, steps = tensor.element_size(), [step for extent, step in zip(tensor.shape, tensor.stride()) if extent > 1]
    is_plain = not tensor.data_ptr() % UNIT and (tensor.shape[-1] <= 1 or tensor.stride(-1) == 1)
    rows = steps[:-1] if tensor.shape[-1] > 1 else steps
    return tensor if is_plain and all(step > 0 and not step * size % UNIT for step in rows) else tensor.contiguous()


def as_heads(tensor, layout):
    """(batch, heads, length, d) of either layout."""
    return tensor if layout == "bhld" else tensor.transpose(1, 2)


def with_lse(do, dlse, v, o, layout):
    """do, v and o with further columns, by which dP - delta becomes dP - delta + dlse, which is all that lse's gradient changes:
    one column of V is 1, where dO is dlse and O is 0."""
    rows = (dlse if layout == "bhld" else dlse.transpose(1, 2))[..., None].to(do.dtype)
    one = torch.zeros((*v.shape[:3], HEAD_UNIT), dtype=v.dtype, device=v.device)
    one[..., 0] = 1
    none = torch.zeros((*o.shape[:3], HEAD_UNIT - 1), dtype=o.dtype, device=o.device)
    return torch.cat([do, rows, none], 3), torch.cat([v, one], 3), torch.cat([o, torch.zeros_like(rows), none], 3)


def gradients(do, q, k, v, o, lse, dlse, alibi, causal, window, softcap, scale, layout, on, gpu, of, is_single=False):
    """Those of dq, dk and dv that 'of' names, in the layout of q, k and v, and in their type or in float32."""
    dv = v.shape[3]
    if dlse is not None:
        do, v, o = with_lse(do, dlse, v, o, layout)
    made = {name: torch.empty(tensor.shape, dtype=torch.float32 if is_single else tensor.dtype, device=tensor.device)
            for name, tensor in (("Q", q), ("K", k), ("V", v)) if name in of}
    if q.numel() and k.numel():
        options = causal, window, softcap, alibi is not None
        run(options, {"Q": q, "K": k, "V": v, "O": o, "dO": do}, lse, alibi, scale, layout, on, gpu, is_single, made)
    else:  # nobody sees a key
        for tensor in made.values():
            tensor.zero_()
    if dlse is not None and "V" in made:
        made["V"] = made["V"][..., :dv].contiguous()
    return list(made.values())


def run(options, given, lse, alibi, scale, layout, on, gpu, is_single, made):
    given = {name: as_heads(plain(tensor), layout) for name, tensor in given.items()}
    heads, kv_heads, d = given["Q"].shape[1], given["K"].shape[1], given["Q"].shape[3]
    text = gradient_text("mha" if heads == kv_heads else "gqa", *options, tuple(made), is_single)
    program = program_of(text, on, gpu, {}, TYPES[str(given["Q"].dtype).rpartition(".")[2]])
    plan = program.plan(program.dtype)
    values = {**given, "lse": lse.contiguous(), "slope": alibi if alibi is None else alibi.contiguous(), "scale": scale or d ** -0.5}
    taken = {name: value for name, value in values.items() if name in plan.tensors or name in plan.scalars}
    program(**taken, **{f"d{name}": as_heads(tensor, layout) for name, tensor in made.items()})
