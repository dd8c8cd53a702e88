"""flashtl.torch.attention: what flashtl.attention computes, by operators that PyTorch differentiates and compiles."""
import torch

from .. import _again
from .._attention import HEAD_UNIT, LAYOUTS, parts_of, positive
from .._program import MACHINES
from . import _differentiable, _operators

is_cast_anywhere = getattr(torch._C, "_is_any_autocast_enabled", lambda: True)
FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def attention(q, k, v, *, causal=False, window=None, softcap=None, alibi=None, mask=None, scale=None, align=None, return_lse=False,
              layout="bhld", on=None, gpu=None, group=None, fused=False):
    """o, or (o, lse), of (batch, heads, length, d) tensors; layout="blhd" takes (batch, length, heads, d).

    mask        boolean, true where a key is seen, or numbers that are added to scores that are scaled and capped: of (batch, heads,
                queries, keys) in either layout, each of that length or 1, or without the first ones. It hides beside what causal
                and window hide; rows that see nothing are 0

    fused       gradients by one kernel of five products instead of two of seven, where there is one: it adds up in memory, in no order, so
                that two runs differ in the last bits

    The other arguments are those of flashtl.attention. q, k, v, alibi and a mask of numbers have gradients. Where autocast is enabled, q,
    k, v and a mask of numbers are cast to its type. Tensors of the CPU are computed by the interpreter, of float32, too,
    or by the emulator of a GPU.
    With a group of torch.distributed each process has a part of the sequences: see flashtl.distributed.attention.
    """
    if group is not None:
        if mask is not None:
            raise ValueError("with a group there is no mask: each process would have to have its own part of it")
        from .. import distributed
        return distributed.attention(q, k, v, group=group, causal=causal, window=window, softcap=softcap, alibi=alibi, scale=scale,
                                     return_lse=return_lse, layout=layout, on=on, gpu=gpu)
    if fused:
        refuse_order()
    if torch.compiler.is_compiling() or is_cast_anywhere() and is_cast(q):
        return attend(q, k, v, causal, window, softcap, alibi, mask, scale, align, return_lse, layout, on, gpu, fused)
    tensors, absent = _again.present(q, k, v, alibi, mask)
    options = "torch.attention", absent, causal, window, softcap, scale, align, return_lse, layout, on, gpu
    found = _again.again(options, tensors)
    if found:
        return found if return_lse else found[0]
    if torch.is_grad_enabled() and has_simple_gradients(tensors, q, k, alibi, mask, causal, window, align, layout):
        def whole():
            return attend(q, k, v, causal, window, softcap, alibi, mask, scale, "last", True, layout, on, gpu)
        numbers = positive("window", window, is_whole=True), positive("softcap", softcap), positive("scale", scale)
        plain = bool(causal), *(number or None for number in numbers), layout, on, gpu
        made = _differentiable.Attention.apply(q, k, v, alibi, mask, whole, plain, bool(fused))
        return made if return_lse else made[0]
    with _again.learning(options, tensors) as learned:
        made = attend(q, k, v, causal, window, softcap, alibi, mask, scale, align, return_lse, layout, on, gpu, fused)
        learned.give(*(made if return_lse else (made,)))
    return made


def has_simple_gradients(tensors, q, k, alibi, mask, causal, window, align, layout):
    """Whether some are asked for, of one launch and no mask, and PyTorch does nothing beside."""
    if not _again.is_run(tensors) or not any(tensor.requires_grad for tensor in tensors) or layout not in LAYOUTS:
        return False
    if align not in (None, "first", "last") or q.dim() != 4 or k.dim() != 4 or mask is not None and (mask.requires_grad or mask.dim() != 4):
        return False
    length = LAYOUTS[layout][2]
    return align == "last" or q.shape[length] == k.shape[length] or not (causal or window or alibi is not None)


def attend(q, k, v, causal, window, softcap, alibi, mask, scale, align, return_lse, layout, on, gpu, fused=False):
    """The whole call, by operators that PyTorch differentiates and compiles."""
    check_words(layout, on)
    q, k, v = cast(q, k, v)
    if mask is not None and mask.is_floating_point():
        mask, = cast(mask)
    length = LAYOUTS[layout][2]
    check(q, k, v, alibi, layout)
    mask = None if mask is None else scores_mask(mask, q, k, layout)
    window, softcap, scale = (positive("window", window, is_whole=True), positive("softcap", softcap), positive("scale", scale))
    parts = parts_of(q.shape[length], k.shape[length], bool(causal), window, alibi is not None, align)
    needs = torch.is_grad_enabled() and any(one is not None and one.requires_grad for one in (q, k, v, mask, alibi))
    made = []
    for begin, end, keys, is_causal in parts:
        rows = q if end - begin == q.shape[length] else q.narrow(length, begin, end - begin)
        seen = (k, v) if keys == k.shape[length] else (k.narrow(length, 0, keys), v.narrow(length, 0, keys))
        hidden = None if mask is None else part_of(part_of(mask, 2, begin, end), 3, 0, keys)
        made.append(_operators.forward(rows, *seen, alibi, hidden, is_causal, window or None, softcap or None, scale or None, layout, on,
                                       gpu, return_lse or needs, bool(fused)))
    o = made[0][0] if len(made) == 1 else torch.cat([one[0] for one in made], length)
    if not return_lse:
        return o
    return o, made[0][1] if len(made) == 1 else torch.cat([one[1] for one in made], 2)


def refuse_order():
    if torch.are_deterministic_algorithms_enabled() and not torch.is_deterministic_algorithms_warn_only_enabled():
        raise ValueError("fused=True adds gradients up in no order, and torch.use_deterministic_algorithms asks for the same bits in each run")


def is_cast(tensor):
    device = tensor.device.type
    return device in ("cpu", "cuda") and torch.is_autocast_enabled(device)


def cast(*tensors):
    """The tensors, of autocast's type where that is enabled."""
    if is_cast(tensors[0]):
        return [tensor.to(torch.get_autocast_dtype(tensors[0].device.type)) for tensor in tensors]
    return tensors


def scores_mask(mask, q, k, layout):
    """The mask with four axes."""
    (batch, heads, length), keys = (q.shape[i] for i in LAYOUTS[layout][:3]), k.shape[LAYOUTS[layout][2]]
    if mask.dtype not in (torch.bool, torch.float32, q.dtype):
        raise TypeError(f"'mask' is of bool, float32 or q's type, {q.dtype}; found {mask.dtype}")
    if mask.device != q.device:
        raise ValueError(f"'q' is on {q.device} and 'mask' on {mask.device}; a kernel takes one device's")
    wanted = batch, heads, length, keys
    if not 1 <= mask.dim() <= 4 or any(has not in (1, want) for has, want in zip(mask.shape[::-1], wanted[::-1])):
        raise ValueError(f"'mask' is of the scores' shape {tuple(wanted)}, with 1 where all have the same; found {tuple(mask.shape)}")
    return mask[(None,) * (4 - mask.dim())]


def part_of(mask, axis, begin, end):
    """Rows or keys of a mask, which may have one for all."""
    return mask if mask.shape[axis] == 1 or end - begin == mask.shape[axis] else mask.narrow(axis, begin, end - begin)


def check_words(layout, on):
    if layout not in LAYOUTS:
        raise ValueError(f"layout is {' or '.join(map(repr, LAYOUTS))}; found {layout!r}")
    if on not in (None, *MACHINES):
        raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")


def check(q, k, v, alibi, layout):
    """What shapes and types show, before an operator is called: tensors that are only traced have these, too."""
    for name, tensor in zip("qkv", (q, k, v)):
        if tensor.dim() != 4:
            raise ValueError(f"'{name}' has four axes (layout {layout!r}); found {tensor.dim()}")
        if tensor.dtype not in FLOATS or tensor.dtype != q.dtype:
            raise TypeError(f"q, k and v are of one type, float16 or bfloat16 (on the CPU float32, too); '{name}' is {tensor.dtype}")
        if tensor.device != q.device:
            raise ValueError(f"'q' is on {q.device} and '{name}' on {tensor.device}; a kernel takes one device's")
        if tensor.shape[3] == 0 or tensor.shape[3] % HEAD_UNIT:
            raise ValueError(f"head sizes are multiples of {HEAD_UNIT}; that of '{name}' is {tensor.shape[3]}")
    if q.shape[3] != k.shape[3]:
        raise ValueError(f"'q' has vectors of {q.shape[3]} elements, and 'k' of {k.shape[3]}")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0]:
        raise ValueError(f"k and v differ in d alone, and q, k and v have one batch; found {tuple(q.shape)}, {tuple(k.shape)} and "
                         f"{tuple(v.shape)}")
    heads, kv_heads = (tensor.shape[LAYOUTS[layout][1]] for tensor in (q, k))
    if heads == 0 or kv_heads == 0 or heads % kv_heads:
        raise ValueError(f"the heads of q are a multiple of those of k; found {heads} and {kv_heads}")
    if alibi is not None and (alibi.dtype != torch.float32 or tuple(alibi.shape) != (heads,)):
        raise ValueError(f"'alibi' is float32 of {heads} slopes, one for each head of q; found {alibi.dtype} of {tuple(alibi.shape)}")
