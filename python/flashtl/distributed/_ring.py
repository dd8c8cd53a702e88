"""Attention over keys and values that travel around a ring of processes, each of which has its queries at home.

Tensors are (batch, heads, length, d), of any strides. A step is one launch: a sketch of attention whose end joins its result with that
of the steps before, in f32."""
import collections

import torch
import torch.distributed as dist

from .._arrays import TYPES
from .._attention import attention_sketch, program_of
from ..torch import _derived, _operators

Options = collections.namedtuple("Options", "causal softcap scale on gpu")

# Two results over different keys, each with the log-sum-exp of its rows, are one: the weights of the parts are exp(lse - top). The
# bounds make 0 of a row that saw nothing in either, where -inf - -inf would be NaN.
STATE = """Input  O_old f32 (b in batch, head in q_heads; q in q_len, dv)
Input  lse_old f32 (b in batch, head in q_heads; q in q_len)
"""
MERGE = """Compute Log l and get lse
Compute Add lse, m and get lse
Copy lse_old from global to register and get a
Compute Max a, lse and get top
Compute Max top, -1e38 and get top
Compute Subtract a, top and get a
Compute Exp a and get a
Compute Subtract lse, top and get e
Compute Exp e and get e
Compute Add a, e and get sum
Compute Max sum, 1e-38 and get least
Compute Divide a, least and get a
Compute Divide e, least and get e
Compute Multiply O, e and get O
Copy O_old from global to register
Compute Multiply O_old, a and get O_old
Compute Add O, O_old and get O
Copy O from register to global
Compute Log sum and get lse
Compute Add lse, top and get lse
Copy lse from register to global
"""


def step_sketch(causal, softcap, has_state):
    """Attention with O in f32 and lse; after the first step it takes O and lse of the steps before, too."""
    text = attention_sketch("attention", causal, None, softcap, False, True)
    head, output, rest = text.partition("Output O (")
    loop, end, _ = rest.partition("\nend\n")
    if not (output and end):
        raise RuntimeError("the sketch of attention has changed its form")
    return f"{head}{STATE}Output O f32 ({loop}{end}{MERGE}" if has_state else f"{head}Output O f32 ({rest}"


def step(dtype, is_causal, has_state, options):
    text = step_sketch(is_causal, options.softcap, has_state)
    return program_of(text, options.on, options.gpu, {}, TYPES[str(dtype).rpartition(".")[2]])


def attend(q, k, v, is_causal, state, options):
    """(o, lse) of q over these keys and those of 'state', an (o, lse), or None."""
    o, lse = (torch.empty((*q.shape[:3], *d), dtype=torch.float32, device=q.device) for d in (v.shape[3:], ()))
    before = {} if state is None else {"O_old": state[0], "lse_old": state[1].contiguous()}
    step(q.dtype, is_causal, state is not None, options)(Q=q, K=k, V=v, scale=options.scale, O=o, lse=lse, **before)
    return o, lse


def part_of(rank, source, is_causal, half):
    """What a process computes with the keys of 'source': (first query, key past the last, as causal attention).

    Of the chunks (r, 2R-1-r) and (s, 2R-1-s): where s < r all queries see the first chunk whole and none the second; where s > r the
    second chunk of queries sees both whole and the first none; where s = r it is causal attention of the two as they are."""
    if not is_causal:
        return 0, None, False
    if source == rank:
        return 0, None, True
    return (0, half, False) if source < rank else (half, None, False)


def pass_on(tensors, group, tag):
    """Starts to send them to the next process of the ring; what it gives waits for those that the process before has sent."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    after, before = (dist.get_global_rank(group, (rank + step) % size) for step in (1, -1))
    received = [torch.empty_like(tensor) for tensor in tensors]
    ways = ((dist.isend, after, tensors), (dist.irecv, before, received))
    works = dist.batch_isend_irecv([dist.P2POp(way, tensor, peer, group, 2 * tag + i) for way, peer, moved in ways
                                    for i, tensor in enumerate(moved)])

    def arrive(sent=tensors):  # which are kept until they have left
        for work in works:
            work.wait()  # on a GPU its stream waits, and not this thread
        return received
    return arrive


def walk(k, v, group):
    """(source, k, v) of each process of the ring, its own first, then those of the process before, and so on."""
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    here = [_derived.plain(tensor).contiguous() for tensor in (k, v)]
    for step in range(size):
        arrive = pass_on(here, group, 0) if step + 1 < size else None  # while this step computes
        yield (rank - step) % size, *here
        here = arrive and arrive()


def forward(q, k, v, group, options):
    step(q.dtype, options.causal, False, options)  # where there is no such kernel nothing is sent, for which somebody would wait
    q, rank, half = _derived.plain(q), dist.get_rank(group), k.shape[2] // 2
    o = torch.empty((*q.shape[:3], v.shape[3]), dtype=q.dtype, device=q.device)
    lse = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
    state, begin = None, 0  # of the queries from 'begin' on; those before it have met all keys that they see
    for source, keys, values in walk(k, v, group):
        first, last, is_causal = part_of(rank, source, options.causal, half)
        if first > begin:
            o[:, :, :first], lse[:, :, :first] = (part[:, :, :first] for part in state)
            state, begin = [part[:, :, first:] for part in state], first
        state = attend(q[:, :, first:], keys[:, :, :last], values[:, :, :last], is_causal, state, options)
    o[:, :, begin:], lse[:, :, begin:] = state
    return o, lse


def backward(do, dlse, q, k, v, o, lse, group, options, of):
    """The gradients that 'of' names, of "QKV". Sums of those of k and v travel one step after these, and come home with the last."""
    rank, half = dist.get_rank(group), k.shape[2] // 2
    sums = {name: torch.zeros(x.shape, dtype=torch.float32, device=q.device) for name, x in zip("QKV", (q, k, v)) if name in of}
    travels = [name for name in "KV" if name in of]
    arrive = list  # nothing, before the first step
    for source, keys, values in walk(k, v, group):
        first, last, is_causal = part_of(rank, source, options.causal, half)
        q_, do_, o_, lse_, dlse_ = (x if x is None else x[:, :, first:] for x in (q, do, o, lse, dlse))
        made = _derived.gradients(do_, q_, keys[:, :, :last], values[:, :, :last], o_, lse_, dlse_, None, is_causal, None, options.softcap,
                                  options.scale, "bhld", options.on, options.gpu, of, is_single=True)
        sums.update(zip(travels, arrive()))
        for name, one in zip(of, made):
            part = sums[name][:, :, first:] if name == "Q" else sums[name][:, :, :last]
            part += one
        if travels:
            arrive = pass_on([sums[name] for name in travels], group, 1)
    sums.update(zip(travels, arrive()))
    return [sums[name].to(q.dtype) for name in of]


class Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, group, options):
        o, lse = forward(q, k, v, group, options)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.set_materialize_grads(False)
        ctx.rest = group, options
        return o, lse

    @staticmethod
    def backward(ctx, do, dlse):
        *given, o, lse = ctx.saved_tensors
        of = "".join(name for name, is_needed in zip("QKV", ctx.needs_input_grad) if is_needed)
        made = Gradients.apply(torch.zeros_like(o) if do is None else do, dlse, *given, o, lse, *ctx.rest, of)
        return *(dict(zip(of, made)).get(name) for name in "QKV"), None, None


class Gradients(torch.autograd.Function):
    """A function of its own, so that gradients of gradients are refused, and not left out."""

    @staticmethod
    def forward(ctx, *given):
        return tuple(backward(*given))

    backward = staticmethod(_operators.refuse_second)
