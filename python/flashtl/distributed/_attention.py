"""flashtl.distributed.attention: what is checked, and which processes do what."""
import os

import torch
import torch.distributed as dist

from .._attention import LAYOUTS, positive
from ..torch import _attention as local
from . import _parts, _ring


@torch.compiler.disable
def attention(q, k, v, *, group=None, heads_group=None, causal=False, window=None, softcap=None, alibi=None, scale=None,
              return_lse=False, layout="bhld", on=None, gpu=None):
    """o, or (o, lse), of this process's queries over the keys of all processes; q, k and v are its parts, as shard() makes them.

    group         the ring: queries stay, keys and values travel. Where no group is said, all processes are the ring
    heads_group   processes that share heads: each gets all rows of some heads and gives them back (all-to-all). With 'group' the two
                  are rows and columns of a grid of processes; without, each process has a plain part of the sequence
    window, alibi   for heads_group alone; alibi has the slopes of all heads

    The other arguments are those of flashtl.torch.attention; causal attention is of as many queries as keys. q, k and v have
    gradients. All processes of the groups make the same calls in the same order, backward passes too.
    """
    groups, (q, k, v) = _parts.Groups(group, heads_group), local.cast(q, k, v)
    options = {"causal": bool(causal), "window": window, "softcap": softcap, "scale": scale, "return_lse": return_lse, "layout": layout}
    refused = None
    try:
        check(q, k, v, alibi, groups, options, on, gpu)
    except (TypeError, ValueError) as why:
        refused = why
    if q.device.type == "cpu" or os.environ.get("FLASHTL_CHECK") == "1":
        agree(groups, refused, signature(q, k, v, alibi, groups, options))
    if refused is not None:
        raise refused
    if layout == "blhd":
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    if groups.heads_size > 1:
        together = [(q, k, v)] if q.shape[2] == k.shape[2] else [(q,), (k, v)]
        q, k, v = (part for tensors in together for part in _parts.to_heads(groups, *tensors))
        alibi = None if alibi is None else alibi.chunk(groups.heads_size)[groups.heads_rank]
    if groups.ring_size == 1 or not q.numel() or not k.numel():
        o, lse = local.attention(q, k, v, causal=causal, window=window, softcap=softcap, alibi=alibi, scale=scale, return_lse=True,
                                 on=on, gpu=gpu)
    else:
        numbers = positive("softcap", softcap), positive("scale", scale) or q.shape[3] ** -0.5
        o, lse = _ring.Ring.apply(q, k, v, groups.ring, _ring.Options(bool(causal), *numbers, on, gpu))
    if groups.heads_size > 1:
        o = _parts.to_rows(groups, o)
        lse = _parts.to_rows(groups, lse[..., None])[..., 0] if return_lse else None
    o = o.transpose(1, 2) if layout == "blhd" else o
    return (o, lse) if return_lse else o


class Attention(torch.nn.Module):
    """attention() as a module: groups and options are given once, q, k and v (and alibi) in each call."""

    def __init__(self, **options):
        super().__init__()
        self.options = options

    def forward(self, q, k, v, **more):
        return attention(q, k, v, **self.options, **more)


def check(q, k, v, alibi, groups, options, on, gpu):
    """What this process can see of its own arguments."""
    layout = options["layout"]
    local.check_words(layout, on)
    local.check(q, k, v, alibi, layout)
    if q.dtype == torch.float32 and (q.device.type != "cpu" or on in ("emulator", "gpu")):
        raise TypeError("attention is of float16 or bfloat16; 'q' is float32, which the interpreter alone takes")
    heads, length = LAYOUTS[layout][1:3]
    for name, tensor in (("q", q), ("k", k)):
        if tensor.shape[heads] % groups.heads_size:
            raise ValueError(f"the {tensor.shape[heads]} heads of '{name}' do not divide over the {groups.heads_size} processes of "
                             "heads_group; a ring (group) takes any number")
    if groups.ring_size > 1 and (options["window"] or alibi is not None):
        raise ValueError(f"a ring takes no {'window' if options['window'] else 'alibi'}; heads_group without group does")
    if (options["causal"] or options["window"] or alibi is not None) and q.shape[length] != k.shape[length]:
        raise ValueError(f"over several processes causal attention is of as many queries as keys; found {q.shape[length]} and "
                         f"{k.shape[length]} of each process")
    if groups.ring_size > 1 and options["causal"] and q.shape[length] * groups.heads_size % 2:
        raise ValueError(f"in a ring of causal attention each process has two chunks of one length; {q.shape[length]} rows are odd")
    if alibi is not None and alibi.requires_grad and torch.is_grad_enabled():
        raise ValueError("there is no gradient of 'alibi' over several processes, each of which has some of the heads; alibi.detach() says so")


def signature(q, k, v, alibi, groups, options):
    """What has to be the same in all processes, or they would wait for each other for ever, or take one thing for another."""
    tensors = {f"'{name}'": (tuple(x.shape), str(x.dtype).rpartition(".")[2],
                             "with gradients" if torch.is_grad_enabled() and x.requires_grad else "without gradients")
               for name, x in zip("qkv", (q, k, v))}
    return {**tensors, **options, "alibi": None if alibi is None else alibi.tolist(), "the size of group": groups.ring_size,
            "the size of heads_group": groups.heads_size}


def agree(groups, refused, mine):
    """Where one process refuses the call, or calls with something else, all of them say so, and none waits for the others."""
    wrong = None if refused is None else str(refused)
    for group in filter(None, (groups.heads, groups.ring)):
        found = [None] * dist.get_world_size(group)
        dist.all_gather_object(found, (wrong, mine), group=group)
        if wrong is None:
            wrong = difference(found, dist.get_process_group_ranks(group))
    if refused is None and wrong is not None:
        raise ValueError(wrong)


def difference(found, ranks):
    """One sentence on the first process that refuses, or whose call differs from the first one's."""
    for rank, (wrong, other) in zip(ranks, found):
        if wrong is not None:
            return wrong if wrong.startswith("process") else f"process {rank} refuses this call: {wrong}"
        for name, value in found[0][1].items():
            if other[name] != value:
                here, there = (" ".join(map(str, one)) if isinstance(one, tuple) else one for one in (value, other[name]))
                return f"processes of a group call alike; {name} is {here} in process {ranks[0]} and {there} in process {rank}"
    return None
