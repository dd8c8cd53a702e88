#!/usr/bin/env python3
"""Attention's gradients, derived from the sketch, beside PyTorch's on the GPU at hand.

    pip install . && bench/gradients.py                 the grid of docs/gradients.md
    bench/gradients.py --sketch 'mha --causal --softcap 30' --lengths 2048
    bench/gradients.py --replay                         what the GPU takes: CUDA graphs of the same calls

Times the kernels of `flashtl derive` for dQ, dK and dV, and those of `derive --fused`, in turns with FlashAttention-2's and cuDNN's
backward passes in PyTorch's scaled_dot_product_attention, where these can say the sketch, and compares results. Queries and keys
are N(0, 1).
"""
import argparse
import shlex
import statistics
import subprocess

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import flashtl

TOKENS, WIDTH, ROUNDS, CALLS = 16384, 2048, 7, 10
PEERS = {"FA2": SDPBackend.FLASH_ATTENTION, "cuDNN": SDPBackend.CUDNN_ATTENTION}


def burst(function):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(CALLS):
        function()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / CALLS


def in_turns(functions):
    """Median milliseconds of each, all of them once a round."""
    for function in functions.values():
        function()
    times = {name: [] for name in functions}
    for _ in range(ROUNDS):
        for name, function in functions.items():
            times[name].append(burst(function))
    return {name: statistics.median(found) for name, found in times.items()}


def replay_of(function):
    """A CUDA graph of the call, launched: nothing of what the call takes of the CPU is in its time."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def replays_of(functions):
    """Of those that can be captured; the others are named and left out."""
    made = {}
    for name, function in functions.items():
        try:
            made[name] = replay_of(function)
        except RuntimeError as error:
            print(f"{name} is not replayed: {error}".splitlines()[0])
    return made


def text_of(sketch, *options):
    """The forward kernel, and those of the gradients."""
    made = subprocess.run(["flashtl", "sketch", *shlex.split(sketch)], capture_output=True, text=True, check=True).stdout
    text = subprocess.run(["flashtl", "derive", *options], input=made, capture_output=True, text=True, check=True).stdout
    second = text.index("\nkernel ", text.index("kernel ") + 1)
    return text[:second], text[second:]


def functions_of(forward, derived, d, shape, causal, with_peers):
    numbers = torch.Generator("cuda").manual_seed(0)  # of its own: a capture that fails leaves PyTorch's unusable
    q, k, v, do = (torch.randn(*shape, device="cuda", dtype=torch.float16, generator=numbers) for _ in range(4))
    scale = d ** -0.5
    made = forward(Q=q, K=k, V=v, scale=scale)
    functions = {name: lambda gradients=gradients: gradients(Q=q, K=k, V=v, dO=do, O=made.O, lse=made.lse, scale=scale)
                 for name, gradients in derived.items()}
    for name, backend in PEERS.items() if with_peers else ():
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel(backend):
            o = torch.nn.functional.scaled_dot_product_attention(*leaves, is_causal=causal)
        functions[name] = lambda o=o, leaves=leaves: torch.autograd.grad(o, leaves, do, retain_graph=True)
    return functions


def difference(functions, name):
    """The largest relative difference of a gradient from the first peer's."""
    ours, theirs = functions[name](), functions["FA2"]()
    pairs = zip((ours.dQ, ours.dK, ours.dV), theirs)
    return max(float((a.float() - b.float()).norm() / b.float().norm()) for a, b in pairs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sketch", action="append", help="'mha --causal': as of `flashtl sketch`; else mha, causal and full")
    parser.add_argument("--lengths", default="512,2048,8192")
    parser.add_argument("--head-dims", default="64,128")
    parser.add_argument("--replay", action="store_true", help="time CUDA graphs of the calls instead of the calls")
    a = parser.parse_args()
    print(torch.cuda.get_device_name(), torch.__version__)
    for sketch in a.sketch or ["mha --causal", "mha"]:
        forward_text, gradients_text = text_of(sketch)
        texts = {"derived": gradients_text, "fused": text_of(sketch, "--fused")[1]}
        for d in map(int, a.head_dims.split(",")):
            forward = flashtl.compile(forward_text, d=d, dv=d)
            derived = {name: flashtl.compile(text, d=d, dv=d) for name, text in texts.items()}
            for length in map(int, a.lengths.split(",")):
                causal, heads, batch = "--causal" in sketch, WIDTH // d, max(1, TOKENS // length)
                plain = sketch in ("mha", "mha --causal")
                functions = functions_of(forward, derived, d, (batch, heads, length, d), causal, plain)
                off = ", " + " and ".join(f"{difference(functions, name):.1e}" for name in derived) + " from FA2's" if plain else ""
                if a.replay:
                    functions = replays_of(functions)
                flops = 10 * batch * heads * length * length * d / (2 if causal else 1)
                rates = ", ".join(f"{name} {flops / ms / 1e9:.0f}" for name, ms in in_turns(functions).items())
                print(f"{sketch}, d {d}, {length}: {rates} TFLOPS{off}", flush=True)


if __name__ == "__main__":
    main()
