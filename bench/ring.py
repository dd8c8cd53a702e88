#!/usr/bin/env python3
"""Attention of one long sequence, forward and backward, on one GPU and as a ring of all: how much of so many times one GPU's speed is left?

    torchrun --nproc-per-node 2 ring.py                        16 heads of 128, 65,536 tokens, causal, bfloat16
    torchrun --nproc-per-node 2 ring.py --length 16384 --full

Each process has a GPU, and NCCL between them. Times are medians of bursts, of the slowest process; what the ring gives is compared with what
one GPU gives. One GPU's times are measured while the others wait. --json FILE adds each row to a file."""
import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist

import flashtl
import flashtl.distributed as fd
import flashtl.torch


def spent_ms(call, seconds, ranks=None):
    """Of a call, in all processes at once, or in the first one alone."""
    found, begin = [], time.perf_counter()
    while True:
        dist.barrier() if ranks is None else None
        torch.cuda.synchronize()
        started = time.perf_counter()
        call()
        torch.cuda.synchronize()
        found.append((time.perf_counter() - started) * 1e3)
        stop = torch.tensor([float(len(found) >= 3 and time.perf_counter() - begin > seconds)], device="cuda")
        if ranks is None:
            dist.all_reduce(stop)
        if stop.item():
            break
    median = torch.tensor([statistics.median(found)], device="cuda")
    if ranks is None:
        dist.all_reduce(median, dist.ReduceOp.MAX)
    return median.item()


def passes(attend, q, k, v, do):
    """The forward pass; it and the backward pass."""
    def both():
        for tensor in (q, k, v):
            tensor.grad = None
        attend(q, k, v).backward(do)

    def forward():
        with torch.no_grad():
            attend(q, k, v)
    return forward, both


def off(found, wanted):
    return float((found.double() - wanted.double()).norm() / wanted.double().norm())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=65536)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--full", action="store_true", help="no causal mask")
    parser.add_argument("--seconds", type=float, default=3, help="for each time")
    parser.add_argument("--json")
    a = parser.parse_args()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    rank, size, causal = dist.get_rank(), dist.get_world_size(), not a.full
    generator = torch.Generator("cuda").manual_seed(0)  # the same tensors in all processes
    whole = [torch.randn(1, a.heads, a.length, a.dim, generator=generator, device="cuda", dtype=torch.bfloat16) for _ in "qkvd"]

    one = [x.clone().requires_grad_() for x in whole[:3]]
    alone = passes(lambda q, k, v: flashtl.torch.attention(q, k, v, causal=causal), *one, whole[3])
    parts = [fd.shard(x, 2).clone() for x in whole]
    mine = [x.requires_grad_() for x in parts[:3]]
    ring = passes(lambda q, k, v: fd.attention(q, k, v, causal=causal), *mine, parts[3])

    alone[1](), ring[1]()
    errors = [off(own.grad, fd.shard(x.grad, 2)) for own, x in zip(mine, one)]
    with torch.no_grad():
        errors.insert(0, off(fd.attention(*mine, causal=causal), fd.shard(flashtl.torch.attention(*one, causal=causal), 2)))
    worst = torch.tensor(errors, device="cuda")
    dist.all_reduce(worst, dist.ReduceOp.MAX)
    if rank == 0:
        print(f"{size} x {torch.cuda.get_device_name()}, {a.heads} heads of {a.dim}, {a.length} tokens, {'causal' if causal else 'full'}")
        print("off from one GPU: " + "  ".join(f"{name} {x:.1e}" for name, x in zip(("O", "dQ", "dK", "dV"), worst.tolist())), flush=True)
    for name, on_one, on_all in zip(("forward", "forward and backward"), alone, ring):
        first = spent_ms(on_one, a.seconds, [0]) if rank == 0 else 0.0
        dist.barrier()
        every = spent_ms(on_all, a.seconds)
        if rank == 0:
            row = {"what": name, "one_ms": first, "all_ms": every, "of_ideal": first / every / size}
            print(f"{name:22} one GPU {first:9.3f} ms   {size} GPUs {every:9.3f} ms   {row['of_ideal']:.3f} of {size} times one", flush=True)
            if a.json:
                with open(a.json, "a") as file:
                    file.write(json.dumps({**row, "gpus": size, "length": a.length, "heads": a.heads, "dim": a.dim, "causal": causal}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
