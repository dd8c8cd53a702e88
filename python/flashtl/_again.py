"""flashtl.attention on PyTorch's tensors on a GPU, once more: a call like one before differs in addresses alone.

What was checked of the first call (shapes, strides, types, devices, options) is the key of what it came to. What the key does not hold is
looked at anew: gradients, and that the tensors are plain and on the current device."""
import ctypes as c
import struct
import sys

from . import _c, _library
from ._arrays import has_tangents, refuse_gradients

CALLS_MOST = 1024
calls = {}
Bytes = c.c_char * c.sizeof(_c.ftl_attention)
WORD = struct.Struct("=Q")


def key_of(q, k, v, options):
    """What decides all but the addresses of a call; None where the tensors are not all PyTorch's, plain and on the current GPU."""
    torch = sys.modules.get("torch")
    if torch is None or not (type(q) is type(k) is type(v) is torch.Tensor) or has_tangents(torch):
        return None
    device, strided = q.device, torch.strided
    if device.type != "cuda" or k.device != device or v.device != device or torch.cuda.current_device() != device.index:
        return None
    if not (q.layout is k.layout is v.layout is strided) or q.is_neg() or k.is_neg() or v.is_neg():
        return None
    key = (device.index, q.dtype, k.dtype, v.dtype, q.shape, q.stride(), k.shape, k.stride(), v.shape, v.stride(), options)
    try:
        hash(key)
    except TypeError:
        return None
    return key


class Again:
    """The launches of a call, to be made again on other tensors of the same kind."""

    def __init__(self, call):
        address = {"q": call.q.array.address, "o": call.given.array.address, "lse": call.lse.address if call.lse else 0}
        self.shape, self.lse_shape = call.given.array.shape, call.lse.shape if call.lse else None
        self.parts = []
        for part in call.parts:
            made = call.struct(*part)
            offsets = (made.q.address - address["q"], made.o.address - address["o"], made.lse.address - address["lse"])
            self.parts.append((bytes(made), *offsets))

    def __call__(self, q, k, v):
        torch = sys.modules["torch"]
        if q.requires_grad or k.requires_grad or v.requires_grad:
            for name, tensor in zip("qkv", (q, k, v)):
                refuse_gradients(name, tensor)
        o = torch.empty(self.shape, dtype=q.dtype, device=q.device)
        lse = torch.empty(self.lse_shape, dtype=torch.float32, device=q.device) if self.lse_shape else None
        stream, forward = torch.cuda.current_stream().cuda_stream, _library.lib.ftl_attention_forward
        own, runtime = _library.context(), _library.runtime()
        q_at, k_at, v_at, o_at, lse_at = q.data_ptr(), k.data_ptr(), v.data_ptr(), o.data_ptr(), lse.data_ptr() if self.lse_shape else 0
        for made, q_offset, o_offset, lse_offset in self.parts:
            argument = Bytes.from_buffer_copy(made)
            WORD.pack_into(argument, Q_PLACE, q_at + q_offset)
            WORD.pack_into(argument, K_PLACE, k_at)
            WORD.pack_into(argument, V_PLACE, v_at)
            WORD.pack_into(argument, O_PLACE, o_at + o_offset)
            WORD.pack_into(argument, LSE_PLACE, lse_at + lse_offset)
            status = forward(own, runtime, argument, c.c_void_p(stream))
            if status:
                _library.fail(own, status)
        return (o, lse) if self.lse_shape else o


Q_PLACE, K_PLACE, V_PLACE, O_PLACE, LSE_PLACE = (getattr(_c.ftl_attention, name).offset for name in ("q", "k", "v", "o", "lse"))


def remember(key, call):
    if len(calls) >= CALLS_MOST:
        calls.clear()
    calls[key] = Again(call)
