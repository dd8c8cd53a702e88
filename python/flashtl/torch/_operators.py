"""The operators flashtl::attention and flashtl::attention_backward, as autograd, torch.compile and fake tensors see them.

Both align the last query with the last key. Where a kernel could not read a tensor in place, the operator copies it."""
from typing import List, Optional, Tuple

import torch
from torch import Tensor

from .. import _attention
from .._arrays import has_tangents
from . import _derived


def refuse_tangents():
    """PyTorch drops the tangents of what an operator of this kind is given, and nothing here shows which tensors had one."""
    if has_tangents(torch):
        raise ValueError("flashtl.torch.attention has no forward-mode gradients: it is not to be called inside of them")


@torch.library.custom_op("flashtl::attention", mutates_args=())
def forward(q: Tensor, k: Tensor, v: Tensor, alibi: Optional[Tensor], mask: Optional[Tensor], causal: bool, window: Optional[int],
            softcap: Optional[float], scale: Optional[float], layout: str, on: Optional[str], gpu: Optional[str],
            with_lse: bool, fused: bool = False) -> Tuple[Tensor, Tensor]:
    """(o, lse); lse is empty where it is not asked for. The mask has four axes, each of the scores' length or of 1. fused: the gradients'
    form."""
    refuse_tangents()
    with torch.no_grad():
        q, k, v = (_derived.plain(tensor) for tensor in (q, k, v))
        alibi = None if alibi is None else alibi.contiguous()
        if mask is not None:
            o, lse = _derived.masked(q, k, v, alibi, mask, causal, window, softcap, scale, layout, on, gpu, with_lse)
            return o, lse if with_lse else no_lse(q)
        made = _attention.attention(q, k, v, causal=causal, window=window, softcap=softcap, scale=scale, layout=layout, on=on, gpu=gpu,
                                    alibi=alibi, align="last", return_lse=with_lse)
        return made if with_lse else (made, no_lse(q))


def no_lse(q):
    return q.new_empty((0,), dtype=torch.float32)


@forward.register_fake
def _(q, k, v, alibi, mask, causal, window, softcap, scale, layout, on, gpu, with_lse, fused=False):
    batch, heads, length = (q.shape[_attention.LAYOUTS[layout][i]] for i in range(3))
    lse = q.new_empty((batch, heads, length), dtype=torch.float32) if with_lse else no_lse(q)
    return q.new_empty((*q.shape[:3], v.shape[3])), lse


@torch.library.custom_op("flashtl::attention_backward", mutates_args=())
def backward(do: Tensor, q: Tensor, k: Tensor, v: Tensor, o: Tensor, lse: Tensor, dlse: Optional[Tensor], alibi: Optional[Tensor],
             mask: Optional[Tensor], causal: bool, window: Optional[int], softcap: Optional[float], scale: Optional[float], layout: str,
             on: Optional[str], gpu: Optional[str], of: str, fused: bool = False) -> List[Tensor]:
    """The gradients of those of q, k, v, the mask and the slopes that 'of' names ("QKVBA"), in this order; the mask's for every score."""
    with torch.no_grad():
        return _derived.gradients(do, q, k, v, o, lse, dlse, alibi, causal, window, softcap, scale, layout, on, gpu, of, mask=mask,
                                  fused=fused)


@backward.register_fake
def _(do, q, k, v, o, lse, dlse, alibi, mask, causal, window, softcap, scale, layout, on, gpu, of, fused=False):
    made = [tensor.new_empty(tensor.shape) for name, tensor in zip("QKV", (q, k, v)) if name in of]
    batch, heads, length = (q.shape[_attention.LAYOUTS[layout][i]] for i in range(3))
    if "B" in of:
        made.append(mask.new_empty((batch, heads, length, k.shape[_attention.LAYOUTS[layout][2]])))
    return [*made, alibi.new_empty(alibi.shape)] if "A" in of else made


def save(ctx, inputs, output):
    q, k, v, alibi, mask, *options, with_lse, fused = inputs
    ctx.save_for_backward(q, k, v, *output, alibi, mask)
    ctx.set_materialize_grads(False)
    ctx.options, ctx.with_lse, ctx.fused = options, with_lse, fused


def differentiate(ctx, do, dlse):
    q, k, v, o, lse, alibi, mask = ctx.saved_tensors
    needs = ctx.needs_input_grad
    if not ctx.with_lse:
        raise RuntimeError("flashtl::attention was called with with_lse=False, and gradients need lse")
    places = {"Q": 0, "K": 1, "V": 2, "B": 4, "A": 3}  # among the inputs
    of = "".join(name for name, place in places.items() if needs[place])
    if do is None and dlse is None or not of:
        return (None,) * len(needs)
    do = torch.zeros_like(o) if do is None else do
    made = [None] * len(needs)
    for name, gradient in zip(of, backward(do, q, k, v, o, lse, dlse, alibi, mask, *ctx.options, of, ctx.fused)):
        made[places[name]] = gradient.sum_to_size(mask.shape) if name == "B" else gradient
    return tuple(made)


def refuse_second(ctx, *gradients):
    raise RuntimeError("flashtl: the gradients of attention have no gradients themselves; call backward without create_graph=True")


forward.register_autograd(differentiate, setup_context=save)
backward.register_autograd(refuse_second)
