"""A trace's calls as include/flashtl/serving.h has them, of addresses and strides: no GPU, no PyTorch is needed here. 'c' is
python/flashtl/_c.py, whose structs these are.
"""
import ctypes
import importlib.util
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


def structs():
    """Those of the headers, as python/flashtl/_c.py has them."""
    spec = importlib.util.spec_from_file_location("_c", HERE.parent / "python/flashtl/_c.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tensor(c, x):
    """Of (token, head, d), (batch, token, head, d), or pages of the latter form."""
    strides = x.stride()[:-1]
    return c.ftl_attention_tensor(x.data_ptr(), *((0,) * (3 - len(strides))), *strides)


def pages(c, trace, keys, table):
    return c.ftl_pages(trace.page_len, keys.shape[0], table.data_ptr(), trace.columns, table.stride()[0])


def decode(c, trace, scale, q, k, v, o, table, lengths, is_told=True):
    """The name of a call's function, and the call; 'is_told': how many keys there are in all. The workspace is the caller's."""
    kind = c.ftl_mla if trace.is_latent else c.ftl_decode
    call = kind(struct_bytes=ctypes.sizeof(kind), dtype=c.TYPES[trace.dtype], batch=trace.batch, q_len=trace.q_len, head_dim=trace.d,
                value_dim=trace.dv, scale=scale, causal=True, kv_lens=lengths.data_ptr())
    call.q, call.o, call.pages = tensor(c, q), tensor(c, o), pages(c, trace, k, table)
    call.total_keys = sum(trace.lengths) if is_told else 0
    if trace.is_latent:
        call.heads, call.cache = trace.q_heads, tensor(c, k)
        return "ftl_mla_decode", call
    call.q_heads, call.kv_heads, call.k, call.v = trace.q_heads, trace.kv_heads, tensor(c, k), tensor(c, v)
    return "ftl_attention_decode", call


def prompts(c, trace, scale, q, k, v, o, starts, table=None, lengths=None):
    """The same for whole prompts. Keys lie one after the other, or in pages of the table."""
    kind, tokens = c.ftl_varlen, sum(trace.lengths)
    call = kind(struct_bytes=ctypes.sizeof(kind), dtype=c.TYPES[trace.dtype], batch=trace.batch, q_tokens=tokens, max_q_len=trace.longest,
                q_heads=trace.q_heads, kv_heads=trace.kv_heads, head_dim=trace.d, value_dim=trace.dv, scale=scale, causal=True,
                q_start=starts.data_ptr())
    call.q, call.k, call.v, call.o = (tensor(c, x) for x in (q, k, v, o))
    if trace.page_len:
        call.pages, call.kv_used = pages(c, trace, k, table), lengths.data_ptr()
    else:
        call.kv_tokens, call.kv_start = tokens, starts.data_ptr()
    return "ftl_attention_varlen", call
