"""diffusers: model.set_attention_backend("ftl")."""
from ._attention import attention
from ._registered import Registered
from ._sdpa import why_not

NATIVE = "native"


class Dispatched(Registered):
    """How many calls were taken, and why others were left to PyTorch."""

    def __init__(self, strict, on, gpu, native):
        super().__init__(strict, on, gpu)
        self.native = native

    # The dispatcher drops what is no argument here, so that all which changes a result has to be one.
    def attend(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, return_lse=False,
               _parallel_config=None):
        """As the library calls it: tensors and result are (batch, length, heads, d); causal attention as PyTorch aligns it."""
        if return_lse or _parallel_config is not None:
            what = "return_lse" if return_lse else "context parallelism"
            raise ValueError(f"flashtl does not have {what} as a backend of diffusers; call flashtl.torch.attention or flashtl.distributed")
        if attn_mask is not None and attn_mask.dim() == 2 and attn_mask.shape == (query.shape[0], key.shape[1]):
            attn_mask = attn_mask[:, None, None, :]  # of keys: the library's own reading of it
        turned = (tensor.transpose(1, 2) for tensor in (query, key, value))
        reason = why_not(*turned, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        if reason is not None:
            self.count_left(reason, "a model of diffusers")
            return self.native(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa)
        self.taken += 1
        return attention(query, key, value, causal=is_causal, mask=attn_mask, scale=scale, align="first", layout="blhd", on=self.on,
                         gpu=self.gpu)


def member(names, name):
    """The library's enumeration of backends, which is closed, with one more name; the one it has where it has it."""
    if name in names._value2member_map_:
        return names(name)
    made = str.__new__(names, name)
    made._name_, made._value_ = name.upper(), name
    made.__objclass__, made._sort_order_ = names, len(names._member_names_)
    names._member_names_.append(made._name_)
    names._member_map_[made._name_] = names._value2member_map_[name] = made
    return made


def register_diffusers(name="ftl", *, strict=False, on=None, gpu=None):
    """Makes model.set_attention_backend("ftl") known to diffusers; what it gives counts calls: .taken, and .left with reasons.

    strict    a call that is not taken raises ValueError with the reason, instead of going to PyTorch
    on, gpu   where tensors of the CPU are computed, as for attention()
    """
    from diffusers.models import attention_dispatch
    names, registry = attention_dispatch.AttentionBackendName, attention_dispatch._AttentionBackendRegistry
    known = names._value2member_map_.get(name)
    if known is not None and not isinstance(getattr(registry._backends.get(known), "__self__", None), Dispatched):
        raise ValueError(f"'{name}' is a backend that diffusers has itself; choose another name")
    if name != name.lower():
        raise ValueError(f"'{name}' has capitals, and diffusers looks for backends by names without")
    made = Dispatched(strict, on, gpu, registry._backends[names(NATIVE)])
    registry.register(member(names, name))(made.attend)
    return made
