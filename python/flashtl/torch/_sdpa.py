"""scaled_dot_product_attention by FlashTL's kernels, for what they take; the rest goes where it went."""
import collections
import contextlib
import threading

import torch
from torch.overrides import TorchFunctionMode

from .._attention import HEAD_UNIT
from .._program import MACHINES
from ._attention import attention

F = torch.nn.functional
PEER, LAYER = F.scaled_dot_product_attention, F.multi_head_attention_forward


def why_not(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Why sdpa() leaves a call of scaled_dot_product_attention to PyTorch: one sentence, or None where it takes it."""
    tensors = {"query": query, "key": key, "value": value}
    for name, tensor in tensors.items():
        if not is_plain(tensor):
            return f"{name} is no plain tensor"
        if tensor.device.type not in ("cpu", "cuda"):
            return f"{name} is on the device '{tensor.device}'"
    if dropout_p:
        return "there is dropout"
    if query.dim() != 4 or key.dim() != 4 or value.dim() != 4:
        return "the tensors have other axes than (batch, heads, length, d)"
    if not query.dtype == key.dtype == value.dtype:
        return "the tensors differ in type"
    if query.dtype not in (torch.float16, torch.bfloat16) and not (query.dtype == torch.float32 and query.device.type == "cpu"):
        return f"there are no kernels of {query.dtype}"
    if query.shape[0] != key.shape[0] or key.shape[:3] != value.shape[:3]:
        return "batch, heads or lengths are broadcast"
    if query.shape[1] != key.shape[1] and not (enable_gqa and key.shape[1] and query.shape[1] % key.shape[1] == 0):
        return "the numbers of heads do not fit without enable_gqa=True"
    for name, tensor in tensors.items():
        if tensor.shape[3] == 0 or tensor.shape[3] % HEAD_UNIT:
            return f"the head size of {name} is {tensor.shape[3]}, no multiple of {HEAD_UNIT}"
    if query.shape[3] != key.shape[3]:
        return "the head sizes of query and key differ"
    if not key.shape[2]:
        return "there are no keys"
    if scale is not None and not (isinstance(scale, (int, float)) and scale > 0):
        return f"the scale is {scale}"
    return None if attn_mask is None else why_not_mask(attn_mask, query, key, is_causal)


def why_not_mask(mask, query, key, is_causal):
    if is_causal:
        return "there are an attn_mask and is_causal"
    if not is_plain(mask):
        return "attn_mask is no plain tensor"
    if mask.device != query.device:
        return f"attn_mask is on the device '{mask.device}'"
    if mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return f"attn_mask is of {mask.dtype}"
    scores = (*query.shape[:3], key.shape[2])
    if not 2 <= mask.dim() <= 4 or any(has not in (1, want) for has, want in zip(mask.shape[::-1], scores[::-1])):
        return f"attn_mask is of {tuple(mask.shape)}, and the scores of {tuple(scores)}"
    return None


def is_plain(tensor):
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and not tensor.is_nested and tensor.layout == torch.strided


class sdpa(TorchFunctionMode):
    """A context in which scaled_dot_product_attention is FlashTL's attention where that takes the call:

        with flashtl.torch.sdpa() as seen:
            model(x)
        print(seen.taken, seen.left)              # 12 {'there is dropout': 2}

    strict    a call that is not taken raises ValueError with the reason, instead of going to PyTorch
    on, gpu   where tensors of the CPU are computed, as for attention()
    """

    def __init__(self, *, strict=False, on=None, gpu=None):
        super().__init__()
        if on not in (None, *MACHINES):
            raise ValueError(f"on is one of {', '.join(map(repr, MACHINES))}; found {on!r}")
        self.strict, self.on, self.gpu = strict, on, gpu
        self.taken, self.left = 0, collections.Counter()

    def __torch_function__(self, function, types, arguments=(), named=None):
        named = named or {}
        if function is LAYER and not torch.compiler.is_compiling():
            with by_name(self):
                return function(*arguments, **named)
        if function is not PEER:
            return function(*arguments, **named)
        reason = why_not(*arguments, **named)
        if reason is None:
            self.taken += 1
            return self.attend(*arguments, **named)
        if self.strict:
            raise ValueError(f"flashtl.torch.sdpa does not take this call: {reason}")
        self.left[reason] += 1
        return function(*arguments, **named)

    def attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        return attention(query, key, value, causal=is_causal, mask=attn_mask, align="first", scale=scale, on=self.on, gpu=self.gpu)


# --- PyTorch's layer -----------------------------------------------------------------------------------------------------

# What a mode passes on runs without the mode, and of PyTorch's functions one calls scaled_dot_product_attention: it finds it by its
# name in a module, which means another function as long as that runs.
lock, running, layers = threading.Lock(), threading.local(), set()


@contextlib.contextmanager
def by_name(mode):
    own, before = object(), getattr(running, "mode", None)
    with lock:
        layers.add(own)
        F.scaled_dot_product_attention = named_attention
    running.mode = mode
    try:
        yield
    finally:
        running.mode = before
        with lock:
            layers.remove(own)
            if not layers:
                F.scaled_dot_product_attention = PEER


def named_attention(*arguments, **named):
    mode = getattr(running, "mode", None)  # of this thread
    return PEER(*arguments, **named) if mode is None else mode.__torch_function__(PEER, (), arguments, named)
