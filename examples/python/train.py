#!/usr/bin/env python3
"""A small language model, trained with attention that no library has: windows and a soft cap, forward and backward.

    train.py                    on the CPU, by the interpreter, in float32
    train.py --compile          through torch.compile
    train.py --device cuda      on a GPU, in bfloat16

It learns to repeat what it has read a few places before, which only attention can see."""
import argparse

import torch

import flashtl.torch


class Block(torch.nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.d = heads, kv_heads, width // heads
        self.norm, self.qkv = torch.nn.LayerNorm(width), torch.nn.Linear(width, (heads + 2 * kv_heads) * self.d)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x):
        # (batch, length, heads, d), as the projection has it: no transposition, no copy.
        q, k, v = self.qkv(self.norm(x)).unflatten(2, (-1, self.d)).split((self.heads, self.kv_heads, self.kv_heads), 2)
        o = flashtl.torch.attention(q, k, v, causal=True, window=16, softcap=20.0, layout="blhd")
        return x + self.out(o.flatten(2))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--compile", action="store_true")
    a = parser.parse_args()
    torch.manual_seed(0)
    letters, width, length, period = 12, 64, 32, 5
    model = torch.nn.Sequential(torch.nn.Embedding(letters, width), Block(width, 4, 2), Block(width, 4, 2), torch.nn.Linear(width, letters))
    places = torch.nn.Embedding(length, width)
    model, places = model.to(a.device), places.to(a.device)

    def loss_of(text):
        x = model[0](text) + places(torch.arange(length, device=a.device))
        with torch.autocast(a.device, dtype=torch.bfloat16, enabled=a.device == "cuda"):
            guess = model[1:](x)
        return torch.nn.functional.cross_entropy(guess[:, period:-1].flatten(0, 1).float(), text[:, period + 1:].flatten())

    if a.compile:
        loss_of = torch.compile(loss_of, fullgraph=True)
    optimizer = torch.optim.AdamW([*model.parameters(), *places.parameters()], lr=5e-3)
    for step in range(a.steps):
        text = torch.randint(letters, (8, period), device=a.device).repeat(1, length // period + 1)[:, :length]
        loss = loss_of(text)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == a.steps - 1:
            print(f"step {step:4d}  loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
