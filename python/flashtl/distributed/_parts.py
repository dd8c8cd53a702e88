"""Which part of a sequence a process has, and how parts change hands.

A ring of R processes has the sequence in 2R chunks, and process r of it those of the places r and 2R-1-r, so that causal attention is
equal work for all. What a process of the ring has is split once more, plainly, over the processes that share heads."""
import math

import torch
import torch.distributed as dist


class Groups:
    """The ring and the processes that share heads; either may be this process alone (None)."""

    def __init__(self, ring, heads):
        if not dist.is_available() or not dist.is_initialized():
            raise ValueError("attention over several processes needs torch.distributed.init_process_group() before")
        self.ring, self.heads = dist.group.WORLD if ring is None and heads is None else ring, heads
        self.ring_size, self.ring_rank = place_in("group", self.ring)
        self.heads_size, self.heads_rank = place_in("heads_group", self.heads)
        if self.ring is not None and self.heads is not None:
            shared = set(dist.get_process_group_ranks(self.ring)) & set(dist.get_process_group_ranks(self.heads))
            if len(shared) != 1:
                raise ValueError(f"group and heads_group are row and column of a grid, which share one process; these share {len(shared)}")


def place_in(name, group):
    """(processes, this one's place) of a group."""
    if group is None:
        return 1, 0
    if not isinstance(group, dist.ProcessGroup):
        raise ValueError(f"this process is not in '{name}', or that is no group of torch.distributed; found {type(group).__name__}")
    return dist.get_world_size(group), dist.get_rank(group)


def shard(x, dim, *, group=None, heads_group=None):
    """This process's part of x along the axis 'dim', the length; the groups are those of attention(). All processes have the same x,
    as torch.arange(length), of which the parts are the places of their tokens."""
    groups = Groups(group, heads_group)
    ring, heads, length = groups.ring_size, groups.heads_size, x.shape[dim]
    unit = heads if ring == 1 else math.lcm(2 * ring, ring * heads)
    if length % unit:
        raise ValueError(f"a length of {length} does not divide over a ring of {ring} and {heads} that share heads: it is to be a multiple "
                         f"of {unit}")
    if ring > 1:
        chunks = x.tensor_split(2 * ring, dim)
        x = torch.cat([chunks[groups.ring_rank], chunks[2 * ring - 1 - groups.ring_rank]], dim)
    return x.narrow(dim, groups.heads_rank * (length // ring // heads), length // ring // heads).contiguous()


def gather(x, dim, *, group=None, heads_group=None):
    """The whole of what shard() gave each process a part of, for looking at it: without gradients."""
    groups = Groups(group, heads_group)
    if x.requires_grad and torch.is_grad_enabled():
        raise ValueError("gather has no gradients: a loss is summed over parts, and x.detach() is gathered")
    for group_, size in ((groups.heads, groups.heads_size), (groups.ring, groups.ring_size)):
        if group_ is None or size == 1:
            continue
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(size)]
        dist.all_gather(parts, x.contiguous(), group=group_)
        if group_ is groups.ring:
            halves = [part.tensor_split(2, dim) for part in parts]
            parts = [half[0] for half in halves] + [half[1] for half in reversed(halves)]
        x = torch.cat(parts, dim)
    return x


class AllToAll(torch.autograd.Function):
    """Row i goes to process i, and comes to be row i of what it has: so its gradient is the same exchange."""

    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        x = x.contiguous()
        received = torch.empty_like(x)
        dist.all_to_all_single(received, x, group=group)
        return received

    @staticmethod
    def backward(ctx, gradient):
        return AllToAll.apply(gradient, ctx.group), None


def to_heads(groups, *tensors):
    """Of (batch, heads, length, d) tensors of one length all rows of some heads, where there were some rows of all; one exchange."""
    size = groups.heads_size
    rows = [x.unflatten(1, (size, x.shape[1] // size)).permute(1, 0, 3, 2, 4).flatten(3) for x in tensors]
    rows = AllToAll.apply(torch.cat(rows, 3), groups.heads).transpose(0, 1).flatten(1, 2)
    shapes = [(x.shape[1] // size, x.shape[3]) for x in tensors]
    return [part.unflatten(2, shape).transpose(1, 2) for shape, part in zip(shapes, rows.split([heads * d for heads, d in shapes], 2))]


def to_rows(groups, x):
    """The way back."""
    size = groups.heads_size
    parts = AllToAll.apply(x.unflatten(2, (size, x.shape[2] // size)).permute(2, 0, 3, 1, 4), groups.heads)
    return parts.permute(1, 2, 0, 3, 4).flatten(2, 3).transpose(1, 2)
