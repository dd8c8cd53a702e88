"""A mask of attention, boolean or additive, as an Input of its sketch: numbers that are added to the scores."""
import re

import torch

from .._arrays import TYPES

# By its elements a kernel reads a bias of any strides, 0 among them; as a tile the bias has a gradient, and rows of 16 bytes.
INPUT = {False: "Input  bias {type} (b in batch, head in q_heads, q in q_len, x in kv_len)\n",
         True: "Input  bias {type} (b in batch, head in q_heads; q in q_len, kv in kv_len)\n"}
STEP = {False: "    Compute Add S, bias[b, head, q, kv] and get S\n",
        True: "    Copy bias from global to register\n    Compute Add S, bias and get S\n"}
ROW_BYTES = 16


def with_bias(text, bias_type, is_tile):
    """The sketch of attention with a bias, added to scores that are scaled and capped."""
    text, inputs = re.subn("^(?=Output O )", INPUT[is_tile].format(type=bias_type), text, count=1, flags=re.M)
    text, steps = re.subn("^(?=    Compute (?:Mask|Softmax) S)", STEP[is_tile], text, count=1, flags=re.M)
    assert inputs == steps == 1, "the sketch of attention has no place for a bias"
    return text


def bias_type(mask, q):
    """Of what the kernel reads: a boolean mask becomes numbers of q's type, as PyTorch's kernels have it."""
    return TYPES[str(q.dtype if mask.dtype == torch.bool else mask.dtype).rpartition(".")[2]]


def as_bias(mask, dtype, shape):
    """The bias, without copies of what is broadcast; a boolean mask hides where it is false."""
    if mask.dtype == torch.bool:
        kept = mask[tuple(slice(0, 1) if step == 0 else slice(None) for step in mask.stride())]
        seen, hidden = torch.tensor((0, -torch.inf), dtype=dtype, device=kept.device)
        mask = torch.where(kept, seen, hidden)
    return mask.expand(shape)


def rows_empty(shape, dtype, device):
    """Memory whose rows begin at multiples of 16 bytes."""
    unit = ROW_BYTES // dtype.itemsize
    return torch.empty((*shape[:-1], -(-shape[-1] // unit) * unit), dtype=dtype, device=device)[..., :shape[-1]]


def as_rows(bias):
    """A bias as a tile is read."""
    return rows_empty(bias.shape, bias.dtype, bias.device).copy_(bias)
