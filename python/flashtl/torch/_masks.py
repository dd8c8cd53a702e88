"""A mask of attention as an Input of its sketch: numbers that are added to the scores, or bytes that are not 0 where a key is seen."""
import re

import torch

from .._arrays import TYPES

# By its elements a kernel reads a bias of any strides, 0 among them; as a tile the bias has a gradient, and rows of 16 bytes.
INPUT = {False: "Input  bias {type} (b in batch, head in q_heads, q in q_len, x in kv_len)\n",
         True: "Input  bias {type} (b in batch, head in q_heads; q in q_len, kv in kv_len)\n"}
STEP = {False: "    Compute Add S, bias[b, head, q, kv] and get S\n",
        True: "    Copy bias from global to register\n    Compute Add S, bias and get S\n"}
SEEN = "i8"  # PyTorch's boolean tensors, as they lie in memory
SEEN_STEP = "    Compute Mask S where bias[b, head, q, kv] == 0\n"
ROW_BYTES = 16


def with_bias(text, bias_type, is_tile):
    """The sketch of attention with a mask: numbers are added to scores that are scaled and capped."""
    text, inputs = re.subn("^(?=Output O )", INPUT[is_tile].format(type=bias_type), text, count=1, flags=re.M)
    text, steps = re.subn("^(?=    Compute (?:Mask|Softmax) S)", SEEN_STEP if bias_type == SEEN else STEP[is_tile], text, count=1,
                          flags=re.M)
    assert inputs == steps == 1, "the sketch of attention has no place for a bias"
    return text


def bias_type(mask):
    """Of what the kernel reads."""
    return SEEN if mask.dtype == torch.bool else TYPES[str(mask.dtype).rpartition(".")[2]]


def as_bias(mask, shape):
    """The mask for every score, without copies: neither what is broadcast nor what is boolean is written out."""
    return (mask.view(torch.int8) if mask.dtype == torch.bool else mask).expand(shape)


def rows_empty(shape, dtype, device):
    """Memory whose rows begin at multiples of 16 bytes."""
    unit = ROW_BYTES // dtype.itemsize
    return torch.empty((*shape[:-1], -(-shape[-1] // unit) * unit), dtype=dtype, device=device)[..., :shape[-1]]


def as_rows(bias):
    """A bias as a tile is read."""
    return rows_empty(bias.shape, bias.dtype, bias.device).copy_(bias)
