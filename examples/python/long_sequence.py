#!/usr/bin/env python3
"""A small language model whose sequences are longer than one process holds: each has a part of every sequence, and a ring of attention.

    torchrun --nproc-per-node 2 long_sequence.py                     on the CPU, by gloo and the interpreter
    torchrun --nproc-per-node 2 long_sequence.py --device cuda       a GPU for each process, by NCCL, in bfloat16

It learns to repeat what it has read some places before, in a part of the sequence that may be another process's."""
import argparse
import os
import time

import torch
import torch.distributed as dist

import flashtl.distributed as fd


class Block(torch.nn.Module):
    def __init__(self, width, heads, kv_heads, group):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, width // heads
        self.norm, self.qkv = torch.nn.LayerNorm(width), torch.nn.Linear(width, (heads + 2 * kv_heads) * self.d)
        self.out, self.attention = torch.nn.Linear(width, width), fd.Attention(group=group, causal=True, layout="blhd")

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).unflatten(2, (-1, self.d)).split((self.heads, self.kv_heads, self.kv_heads), 2)
        return x + self.out(self.attention(q, k, v).flatten(2))


def train(steps, device, group=None, show=lambda step, loss: None):
    """The losses of the whole sequences, for any number of processes the same within rounding; None: of all processes. Each step is shown
    when it is done."""
    torch.manual_seed(0)  # the same weights and texts in all processes
    letters, width, batch, length, period = 12, 64, 4, 64, 24
    embed, places = torch.nn.Embedding(letters, width), torch.nn.Embedding(length, width)
    model = torch.nn.ModuleList([embed, places, *(Block(width, 4, 2, group) for _ in "12"), torch.nn.Linear(width, letters)]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    place = fd.shard(torch.arange(length, device=device), 0, group=group)
    losses = []
    for step in range(steps):
        text = torch.randint(letters, (batch, period)).repeat(1, length // period + 2)[:, :length + 1].to(device)
        given, wanted = (fd.shard(part, 1, group=group) for part in (text[:, :-1], text[:, 1:]))
        x = model[0](given) + model[1](place)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=device == "cuda"):
            for layer in model[2:]:
                x = layer(x)
        guess = x[:, place >= period].flatten(0, 1).float()
        loss = torch.nn.functional.cross_entropy(guess, wanted[:, place >= period].flatten(), reduction="sum") / (batch * (length - period))
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():  # each process has the gradient of its part of the loss
            dist.all_reduce(parameter.grad, group=group)
        optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss, group=group)
        losses.append(loss.item())
        show(step, losses[-1])
    return losses


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    a = parser.parse_args()
    if a.device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if a.device == "cuda" else "gloo")
    began = time.monotonic()

    def show(step, loss):
        if step < 2 or step % 20 == 0 or step == a.steps - 1:
            print(f"step {step:4d}  loss {loss:.3f}  after {time.monotonic() - began:.1f} s", flush=True)
    is_first = dist.get_rank() == 0
    if is_first and a.device == "cuda":
        print("the first step makes its kernels, forward and backward, and verifies them; later runs take them from disk", flush=True)
    train(a.steps, a.device, show=show if is_first else lambda step, loss: None)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
