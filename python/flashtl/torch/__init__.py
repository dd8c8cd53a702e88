"""Attention as an operator of PyTorch: with gradients, under torch.compile and autocast, on tensors of the CPU and of a GPU.

    import flashtl.torch
    o = flashtl.torch.attention(q, k, v, causal=True)             # (batch, heads, length, d); q.requires_grad_() as ever
    with flashtl.torch.sdpa():                                    # scaled_dot_product_attention by FlashTL's kernels
        model(x)
    flashtl.torch.register_transformers()                         # attn_implementation="ftl"
    flashtl.torch.register_diffusers()                            # model.set_attention_backend("ftl")
"""
from ._attention import attention
from ._diffusers import register_diffusers
from ._sdpa import sdpa, why_not
from ._transformers import register_transformers

__all__ = ["attention", "register_diffusers", "register_transformers", "sdpa", "why_not"]
