"""transformers: attn_implementation="ftl"."""
import contextlib

import torch

from .. import _again
from ._attention import attention, is_cast_anywhere
from ._registered import Registered
from ._sdpa import why_not

# What changes the meaning of attention, and is not had here: sinks, packed sequences without a mask, pages.
UNKNOWN = "s_aux", "cu_seq_lens_q", "cache"


class Models(Registered):
    """How many calls were taken, and why others were left to PyTorch."""

    def attend(self, module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, softcap=None, **others):
        """As the library calls it: (batch, heads, length, d) tensors; the result is (batch, length, heads, d)."""
        for name in UNKNOWN:
            if others.get(name) is not None:
                raise ValueError(f"flashtl does not have '{name}', which {type(module).__name__} asks of its attention")
        is_causal = attention_mask is None and (getattr(module, "is_causal", True) if is_causal is None else is_causal)
        mask = joined(attention_mask, others.pop("position_bias", None))
        window = window_of(module, key.shape[2], others) if is_causal else None
        tensors, options = (query, key, value), ("transformers", mask is None, is_causal, window, softcap, scaling, self.on, self.gpu)
        tensors = tensors if mask is None else (*tensors, mask)
        is_repeatable = not dropout and not torch.compiler.is_compiling() and not is_cast_anywhere()
        found = _again.again(options, tensors) if is_repeatable else None
        if found:
            self.taken += 1
            return found[0], None
        reason = why_not(query, key, value, mask, dropout, scale=scaling, enable_gqa=True)
        if reason is not None:
            mask = joined(seen_keys(query, key.shape[2], window), mask) if is_causal else mask  # what mask() left to a kernel
            return self.leave(reason, module, query, key, value, mask, dropout, scaling, softcap, others)
        self.taken += 1
        turned = (tensor.transpose(1, 2) for tensor in (query, key, value))
        with _again.learning(options, tensors) if is_repeatable else contextlib.nullcontext(_again.Learned()) as learned:
            o = attention(*turned, causal=is_causal, window=window, mask=mask, softcap=softcap, scale=scaling, align="last", layout="blhd",
                          on=self.on, gpu=self.gpu)
            learned.give(o)
        return o, None

    def leave(self, reason, module, query, key, value, mask, dropout, scaling, softcap, others):
        """By PyTorch, with all that hides keys in the mask."""
        self.count_left(reason, type(module).__name__)
        if softcap is None:
            from transformers.integrations.sdpa_attention import sdpa_attention_forward
            return sdpa_attention_forward(module, query, key, value, mask, dropout=dropout, scaling=scaling, is_causal=False, **others)
        group = query.shape[1] // key.shape[1]
        key, value = (tensor.repeat_interleave(group, 1) for tensor in (key, value))
        score = softcap * torch.tanh(query @ key.transpose(2, 3) * (scaling or query.shape[3] ** -0.5) / softcap)
        if mask is not None:
            score = score.masked_fill(~mask, torch.finfo(score.dtype).min) if mask.dtype == torch.bool else score + mask
        weight = torch.nn.functional.dropout(torch.softmax(score, -1, dtype=torch.float32).to(query.dtype), dropout, module.training)
        return (weight @ value).transpose(1, 2).contiguous(), None


def joined(mask, bias):
    """A mask and a bias as one mask."""
    if mask is None or bias is None:
        return bias if mask is None else mask
    return torch.where(mask, bias, -torch.inf) if mask.dtype == torch.bool else mask + bias


def window_of(module, kv_len, others):
    """The sliding window of a layer, if it has one: what the model passes, or its configuration says of this layer."""
    if others.get("sliding_window") is not None:
        return others["sliding_window"]
    config = getattr(module, "config", None)
    window, kinds = getattr(config, "sliding_window", None), getattr(config, "layer_types", None)
    layer = getattr(module, "layer_idx", None)
    if window is None or "sliding_window" in others and kinds is None:
        return None
    if kinds is not None and layer is not None:
        return window if kinds[layer] == "sliding_attention" else None
    if kv_len > window:
        raise ValueError(f"flashtl cannot see whether this {type(module).__name__} has the configuration's window of {window} keys")
    return None


def seen_keys(query, kv_len, window):
    place = torch.arange(query.shape[2], device=query.device)[:, None] + kv_len - query.shape[2]
    distance = place - torch.arange(kv_len, device=query.device)
    return ((distance >= 0) & (distance < (window or kv_len + 1)))[None, None]


def mask(batch_size, q_length, kv_length, q_offset=0, kv_offset=0, attention_mask=None, local_size=None, allow_is_causal_skip=True,
         allow_is_bidirectional_skip=False, config=None, **others):
    """The mask of a layer, for the library: None where causal attention, a window, or full attention says it all."""
    from transformers.masking_utils import prepare_padding_mask, sdpa_mask
    padding = prepare_padding_mask(attention_mask, kv_length, kv_offset)
    is_whole = padding is None or not is_traced(padding) and bool(padding[:, kv_offset:kv_offset + kv_length].all())
    is_chunked = getattr(config, "attention_chunk_size", None) is not None or getattr(config, "sliding_window", None) != local_size
    if is_whole and allow_is_causal_skip and not isinstance(q_offset, torch.Tensor):
        is_last = q_offset - kv_offset == kv_length - q_length
        if is_last and (local_size is None or local_size >= kv_length + kv_offset or not is_chunked):
            return None
    if is_whole and allow_is_bidirectional_skip and local_size is None:
        return None
    return sdpa_mask(batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
                     attention_mask=attention_mask, local_size=local_size, allow_is_causal_skip=False, allow_is_bidirectional_skip=False,
                     **others)


def is_traced(tensor):
    return torch.compiler.is_compiling() or torch.jit.is_tracing() or not type(tensor) is torch.Tensor


def register_transformers(name="ftl", *, strict=False, on=None, gpu=None):
    """Makes attn_implementation="ftl" known to transformers; what it gives counts calls: .taken, and .left with reasons.

    strict    a call that is not taken raises ValueError with the reason, instead of going to PyTorch
    on, gpu   where tensors of the CPU are computed, as for attention()
    """
    if "flash" in name:
        raise ValueError(f"'{name}' holds 'flash': transformers takes every such name for FlashAttention's package")
    from transformers import AttentionInterface, AttentionMaskInterface
    made = Models(strict, on, gpu)
    AttentionInterface.register(name, made.attend)
    AttentionMaskInterface.register(name, mask)
    return made
