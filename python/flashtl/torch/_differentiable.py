"""Attention with gradients where PyTorch does nothing but run it: a function of autograd around calls that are made again (_again.py).

An operator of PyTorch that Python registers costs tens of microseconds, forward and backward; so the operators of _operators.py are left to
what traces, compiles or transforms."""
import torch

from .. import _again
from . import _derived, _operators

PLACES = {"Q": 0, "K": 1, "V": 2, "A": 3}  # of what has a gradient, among the inputs


class Attention(torch.autograd.Function):
    """(o, lse) of q, k, v, alibi, mask; 'whole' makes the call, 'options' are its."""

    @staticmethod
    def forward(ctx, q, k, v, alibi, mask, whole, options, fused):
        tensors, absent = _again.present(q, k, v, alibi, mask)
        named = ("torch.attention with gradients", absent, *options)
        made = _again.again(named, tensors)
        if not made:
            with _again.learning(named, tensors) as learned:
                made = whole()
                learned.give(*made)
        ctx.save_for_backward(q, k, v, *made, alibi, mask)
        ctx.set_materialize_grads(False)
        ctx.options, ctx.fused = options, fused
        return made

    @staticmethod
    def backward(ctx, do, dlse):
        q, k, v, o, lse, alibi, mask = ctx.saved_tensors
        needs = ctx.needs_input_grad
        of = "".join(name for name, place in PLACES.items() if needs[place])
        gradients = [None] * len(needs)
        if (do is not None or dlse is not None) and of:
            do = torch.zeros_like(o) if do is None else do
            for name, gradient in zip(of, made_of(do, q, k, v, o, lse, dlse, alibi, mask, ctx.options, of, ctx.fused)):
                gradients[PLACES[name]] = gradient
        return tuple(gradients)


def made_of(do, q, k, v, o, lse, dlse, alibi, mask, options, of, fused):
    if torch.is_grad_enabled():  # for gradients of gradients, which the operator refuses where they are asked for
        return _operators.backward(do, q, k, v, o, lse, dlse, alibi, mask, *options, of, fused)
    tensors, absent = _again.present(do, q, k, v, o, lse, dlse, alibi, mask)
    named = "gradients of attention", absent, options, of, fused
    made = _again.again(named, tensors)
    if not made:
        with _again.learning(named, tensors) as learned:
            made = _derived.gradients(do, q, k, v, o, lse, dlse, alibi, *options, of, mask=mask, fused=fused)
            learned.give(*made)
    return made
