#!/usr/bin/env python3
"""The attention of an engine that serves, in a loop: requests come, their prompts are read in chunks, then each step makes a token of
every sequence that is there. Keys and values lie in pages, which a sequence gets as it grows and gives back at its end.

    python3 examples/engine.py                  on NumPy's arrays: FlashTL's interpreter, no GPU
    python3 examples/engine.py --device cuda    on PyTorch's tensors

Each result is compared with attention written down plainly. What a model would compute is drawn at random here.
"""
import argparse
import math

import numpy as np

import flashtl

HEADS, KV_HEADS, D, PAGE, PAGES, LONGEST, CHUNK, MOST = 4, 2, 32, 8, 24, 64, 12, 3


class Engine:
    def __init__(self, on_device):
        self.on_device = on_device  # NumPy's array to where kernels run
        turns = np.arange(LONGEST)[:, None] * 10000.0 ** (-2 * np.arange(D // 2) / D)
        self.cosine, self.sine = on_device(np.cos(turns).astype(np.float32)), on_device(np.sin(turns).astype(np.float32))
        self.pools = [on_device(np.zeros((PAGES, PAGE, KV_HEADS, D), np.float16)) for _ in "kv"]
        self.free, self.running = list(range(PAGES)), {}  # name: [pages, length]

    def ints(self, values):
        return self.on_device(np.array(values, np.int32))

    def grow(self, name, count):
        """Room for more tokens of a sequence: where they go, and which places they have."""
        pages, length = self.running.setdefault(name, [[], 0])
        while len(pages) * PAGE < length + count:
            pages.append(self.free.pop())
        self.running[name][1] = length + count
        places = range(length, length + count)
        return [pages[i // PAGE] * PAGE + i % PAGE for i in places], places

    def table(self, names):
        """Entries past a sequence's last page may hold anything."""
        columns = max(len(self.running[name][0]) for name in names)
        return self.ints([self.running[name][0] + [-1] * (columns - len(self.running[name][0])) for name in names])

    def step(self, rows):
        """rows: {sequence: (q, k, v) of its new tokens}. The attention of all of them, one sequence after the other."""
        names, slots, places = list(rows), [], []
        for name in names:
            new_slots, new_places = self.grow(name, len(rows[name][0]))
            slots += new_slots
            places += new_places
        q, k, v = (self.on_device(np.concatenate([rows[name][i] for name in names])) for i in range(3))
        q = flashtl.append(k, v, *self.pools, self.ints(slots), q=q, cosine=self.cosine, sine=self.sine, places=self.ints(places))
        lengths, counts = self.ints([self.running[name][1] for name in names]), [len(rows[name][0]) for name in names]
        if max(counts) == 1:  # a token of each
            return flashtl.decode(q[:, None], *self.pools, self.table(names), lengths)[:, 0]
        starts = self.ints([0, *np.cumsum(counts)])
        return flashtl.varlen_attention(q, *self.pools, starts, table=self.table(names), kv_lens=lengths, max_q_len=max(counts), causal=True)

    def end(self, name):
        self.free += self.running.pop(name)[0]


# --- what is to come of it ----------------------------------------------------------------------------------------------

def rotated(rows):
    turns = np.arange(len(rows))[:, None] * 10000.0 ** (-2 * np.arange(D // 2) / D)
    c, s, a, b = np.cos(turns)[:, None], np.sin(turns)[:, None], rows[..., :D // 2], rows[..., D // 2:]
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def plainly(q, k, v):
    """The last row of a sequence, by all of its queries, keys and values so far."""
    q, k, v = rotated(q.astype(np.float64)), rotated(k.astype(np.float64)), v.astype(np.float64)
    k, v = (np.repeat(x, HEADS // KV_HEADS, axis=1) for x in (k, v))
    score = np.einsum("hd,khd->hk", q[-1], k) / math.sqrt(D)
    weight = np.exp(score - score.max(-1, keepdims=True))
    return np.einsum("hk,khd->hd", weight / weight.sum(-1, keepdims=True), v)


def serve(on_device, to_numpy, requests):
    """requests: [(tokens of the prompt, tokens to make)]. The largest error of any row, and how many steps it took."""
    engine, random = Engine(on_device), np.random.default_rng(1)
    waiting, seen, worst, steps = list(enumerate(requests)), {}, 0.0, 0
    left = dict(waiting)
    while waiting or engine.running:
        reading = {name: left[name][0] for name in engine.running if left[name][0]}
        while waiting and len(engine.running) + len(reading) < MOST and not reading:
            name, request = waiting.pop(0)
            reading[name] = request[0]
        # Chunks of prompts in one step, a token of each sequence whose prompt is read in another.
        counts = {name: min(CHUNK, tokens) for name, tokens in reading.items()} or {name: 1 for name in engine.running}
        rows = {name: [random.standard_normal((count, heads, D)).astype(np.float16) for heads in (HEADS, KV_HEADS, KV_HEADS)]
                for name, count in counts.items()}
        found, at = to_numpy(engine.step(rows)).astype(np.float64), 0
        steps += 1
        for name, count in counts.items():
            old = seen.get(name, [np.zeros((0, heads, D), np.float16) for heads in (HEADS, KV_HEADS, KV_HEADS)])
            seen[name] = [np.concatenate(both) for both in zip(old, rows[name])]
            for i in range(count):
                until = len(seen[name][0]) - count + i + 1
                worst = max(worst, np.abs(found[at + i] - plainly(*(x[:until] for x in seen[name]))).max())
            at += count
            prompt, made = left[name]
            left[name] = (prompt - count, made) if prompt else (0, made - 1)
            if left[name] == (0, 0):
                engine.end(name)
    assert sorted(engine.free) == list(range(PAGES)), "pages were lost"
    return worst, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    if parser.parse_args().device == "cuda":
        import torch
        on_device, to_numpy = (lambda x: torch.from_numpy(x).cuda()), (lambda x: x.cpu().numpy())
    else:
        on_device = to_numpy = lambda x: x
    worst, steps = serve(on_device, to_numpy, [(5, 3), (20, 4), (1, 6), (30, 2), (12, 1)])
    print(f"{steps} steps, largest error {worst:.1e}")
    return int(worst > 5e-3)


if __name__ == "__main__":
    raise SystemExit(main())
