#!/usr/bin/env python3
"""The package of Python on a GPU, measured: docs/python.md has the figures. Needs PyTorch; the package is that of PYTHONPATH.

    package.py calls                 host time of a call, of each kind, beside PyTorch's own
    package.py first                 the first kernel of a process, from an empty cache and from a warm one
    package.py flex [--only NAMES]   FlexAttention's documented examples, compiled, in turns with flashtl.flex_attention by functions
                                     alone and by the lists of its block mask (NAMES: natten,documents)
    package.py models                small models of transformers by "ftl" and by "sdpa": logits and times

Times are medians; --json FILE adds each row to a file."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch

import flashtl
import flashtl.torch

CALLS, ROUNDS = 200, 21
BATCH, HEADS, LENGTH, D, WIDTH = 4, 16, 4096, 128, 64  # of the examples; WIDTH: of a picture whose points are the keys
HALF = torch.bfloat16


def report(options, **row):
    print("  ".join(f"{value:.3f}" if isinstance(value, float) else str(value) for value in row.values()), flush=True)
    if options.json:
        with open(options.json, "a") as file:
            file.write(json.dumps(row) + "\n")


def random(*shape, dtype=HALF):
    return torch.randn(*shape, dtype=dtype, device="cuda")


def ints(*values):
    return torch.tensor(values, dtype=torch.int32, device="cuda")


# --- the host time of a call -------------------------------------------------------------------------------------------

def host_us(call):
    """Of one call, for which the GPU is not waited: the median over bursts."""
    for _ in range(20):
        call()
    found = []
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            call()
        found.append((time.perf_counter() - begin) / CALLS * 1e6)
    torch.cuda.synchronize()
    return statistics.median(found)


def kinds():
    q, k, v = (random(1, 2, 64, 64) for _ in "qkv")
    mask, seen = random(1, 2, 64, 64), torch.rand(1, 1, 64, 64, device="cuda") < 0.7
    tokens = [random(64, 2, 64) for _ in "qkv"]
    starts, table, lengths = ints(0, 30, 64), ints(1, 2, 0, 3).view(2, 2), ints(20, 30)
    pools, one = [random(4, 16, 2, 64) for _ in "kv"], random(2, 1, 8, 64)
    slopes = torch.rand(2, device="cuda")
    program = flashtl.compile(flashtl.sketch("attention", causal=True))

    def alibi(score, b, h, q, kv):
        return score + slopes[h] * (kv - q)
    own = flashtl.torch.attention
    return {
        "attention": lambda: flashtl.attention(q, k, v, causal=True),
        "attention with lse": lambda: flashtl.attention(q, k, v, causal=True, return_lse=True),
        "torch.attention": lambda: own(q, k, v, causal=True),
        "torch.attention, mask of numbers": lambda: own(q, k, v, mask=mask),
        "torch.attention, boolean mask": lambda: own(q, k, v, mask=seen),
        "varlen_attention": lambda: flashtl.varlen_attention(*tokens, starts, starts, causal=True),
        "varlen_attention in pages": lambda: flashtl.varlen_attention(tokens[0], *pools, starts, table=table, kv_lens=lengths, causal=True),
        "decode": lambda: flashtl.decode(one, *pools, table, lengths, total_keys=50),
        "flex_attention": lambda: flashtl.flex_attention(q, k, v, alibi),
        "a program": lambda: program(Q=q, K=k, V=v, scale=0.125),
        "PyTorch's scaled_dot_product_attention": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        "PyTorch's empty": lambda: torch.empty(q.shape, dtype=q.dtype, device="cuda"),
    }


def kinds_with_gradients():
    q, k, v = (random(1, 2, 64, 64).requires_grad_() for _ in "qkv")
    way, found = random(1, 2, 64, 64), {}
    for name, call in {"torch.attention": flashtl.torch.attention, "PyTorch's": None}.items():
        def forward(call=call):
            return call(q, k, v, causal=True) if call else torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        found[f"{name}, with gradients: forward"] = forward
        found[f"{name}, with gradients: both"] = lambda forward=forward: torch.autograd.grad(forward(), (q, k, v), way)
    return found


def calls(options):
    with torch.no_grad():
        for name, call in kinds().items():
            report(options, what="host us of a call", name=name, us=host_us(call))
    for name, call in kinds_with_gradients().items():
        report(options, what="host us of a call", name=name, us=host_us(call))


# --- the first kernel ----------------------------------------------------------------------------------------------------

FIRST = """
import time, torch, flashtl
q = torch.randn(1, 8, 512, {d}, dtype=torch.bfloat16, device="cuda")
torch.cuda.synchronize()
begin = time.perf_counter()
flashtl.attention(q, q, q, causal=True)
print(time.perf_counter() - begin)
"""


def first(options):
    for d in (64, 128):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("from an empty cache", "from a warm cache", "from a warm cache, again"):
                done = subprocess.run([sys.executable, "-c", FIRST.format(d=d)], env={**os.environ, "FLASHTL_CACHE": folder},
                                      capture_output=True, text=True, check=True)
                report(options, what="s of the first call", name=f"d {d}, {name}", s=float(done.stdout))
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    empty = time.perf_counter() - began
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import flashtl"], check=True)
    report(options, what="s", name="import flashtl, without PyTorch", s=time.perf_counter() - began - empty)


# --- FlexAttention's examples --------------------------------------------------------------------------------------------

def gallery():
    g = torch.Generator().manual_seed(0)
    slopes = (2.0 ** (-8 * torch.arange(1, HEADS + 1) / HEADS)).cuda()
    document = torch.sort(torch.randint(0, 8, (BATCH, LENGTH), generator=g), dim=1).values.int().cuda()
    prefix = torch.tensor([1024, 500, 2000, 64], dtype=torch.int32).cuda()
    by_distance = torch.randn(HEADS, 2 * LENGTH - 1, generator=g).cuda()

    def causal(b, h, q, kv):
        return q >= kv

    def sliding_window(b, h, q, kv):
        return (q >= kv) & (q - kv < 1024)

    def dilated_window(b, h, q, kv):
        return ((q - kv).abs() <= 1024) & ((q - kv) % 4 == 0)

    def prefix_lm(b, h, q, kv):
        return (kv < prefix[b]) | (q >= kv)

    def documents(b, h, q, kv):
        return (q >= kv) & (document[b, q] == document[b, kv])

    def natten(b, h, q, kv):
        x, y = torch.clamp(q // WIDTH, 6, WIDTH - 7), torch.clamp(q % WIDTH, 6, WIDTH - 7)
        return ((x - kv // WIDTH).abs() <= 6) & ((y - kv % WIDTH).abs() <= 6)

    def alibi(score, b, h, q, kv):
        return score + slopes[h] * (kv - q)

    def soft_cap(score, b, h, q, kv):
        return 30 * torch.tanh(score / 30)

    def relative(score, b, h, q, kv):
        return score + (q - kv)

    def relative_bias(score, b, h, q, kv):
        return score + by_distance[h, torch.clamp(q - kv + LENGTH - 1, 0, 2 * LENGTH - 2)]

    def checkerboard(score, b, h, q, kv):
        return torch.where((kv - q).abs() % 2 == 1, score * 0.5, score)
    return {"full": (None, None), "causal": (None, causal), "sliding_window": (None, sliding_window),
            "dilated_window": (None, dilated_window), "prefix_lm": (None, prefix_lm), "documents": (None, documents),
            "natten": (None, natten), "alibi": (alibi, causal), "soft_cap": (soft_cap, causal), "relative": (relative, causal),
            "relative_bias": (relative_bias, causal), "checkerboard": (checkerboard, None), "soft_cap_window": (soft_cap, sliding_window)}


def burst_ms(call, count):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(count):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / count


def in_turns(calls):
    """Median ms of each, in bursts of some 10 ms that take turns."""
    counts = [max(3, int(10 / max(burst_ms(call, 3), 0.01))) for call in calls]
    rounds = [[burst_ms(call, count) for call, count in zip(calls, counts)] for _ in range(7)]
    return [statistics.median(one) for one in zip(*rounds)]


def worst_of(found, q, k, v, score_mod, mask_mod):
    """The relative rms of some rows of a head against float64."""
    b, h, rows = 1, 3, torch.arange(5, LENGTH, 37, device="cuda")
    score = q[b, h, rows].double() @ k[b, h].double().T * D ** -0.5
    places = torch.tensor(b).cuda(), torch.tensor(h).cuda(), rows[:, None], torch.arange(LENGTH, device="cuda")[None]
    score = score_mod(score, *places) if score_mod else score
    score = torch.where(mask_mod(*places), score, -torch.inf) if mask_mod else score
    wanted = torch.softmax(score, 1) @ v[b, h].double()
    return float((found[b, h, rows].double() - wanted).norm() / wanted.norm())


def flex(options):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    torch._dynamo.config.suppress_errors = False
    q, k, v = (random(BATCH, HEADS, LENGTH, D) for _ in "qkv")
    for name, (score_mod, mask_mod) in gallery().items():
        if options.only is not None and name not in options.only.split(","):
            continue
        torch._dynamo.reset()
        compiled = torch.compile(flex_attention, dynamic=False)
        mask = None if mask_mod is None else create_block_mask(mask_mod, BATCH, None, LENGTH, LENGTH, device="cuda")
        peer = lambda: compiled(q, k, v, score_mod=score_mod, block_mask=mask)
        calls = [peer, lambda: flashtl.flex_attention(q, k, v, score_mod, mask_mod)]
        if mask is not None:
            calls.append(lambda: flashtl.flex_attention(q, k, v, score_mod, mask))
        with torch.no_grad():
            try:
                errors = [worst_of(call(), q, k, v, score_mod, mask_mod) for call in calls]
                times = in_turns(calls)
            except Exception as why:
                report(options, what="flex", name=name, why=repr(why)[:300])
                continue
        row = {"flex_ms": times[0], "own_ms": times[1], "ratio": times[0] / times[1]}
        if mask is not None:
            row.update(listed_ms=times[2], listed_ratio=times[0] / times[2])
        names = ("flex_error", "own_error", "listed_error")
        report(options, what="flex", name=f"{name:16}", **row, **{key: f"{error:.1e}" for key, error in zip(names, errors)})


# --- models of transformers ----------------------------------------------------------------------------------------------

def models():
    import transformers as t
    sizes = dict(hidden_size=2048, intermediate_size=4096, num_hidden_layers=4, num_attention_heads=16, vocab_size=1000)
    heads = dict(num_key_value_heads=4, head_dim=128, max_position_embeddings=8192)
    yield "llama", t.LlamaForCausalLM, t.LlamaConfig(**sizes, **heads), 4096, True
    yield "gemma2", t.Gemma2ForCausalLM, t.Gemma2Config(**sizes, **heads, sliding_window=1024), 4096, True
    yield "bert", t.BertForMaskedLM, t.BertConfig(**{**sizes, "hidden_size": 1024, "num_attention_heads": 16}), 512, False
    yield "whisper", t.WhisperForConditionalGeneration, t.WhisperConfig(
        vocab_size=1000, d_model=1024, encoder_layers=4, decoder_layers=4, encoder_attention_heads=16, decoder_attention_heads=16,
        encoder_ffn_dim=2048, decoder_ffn_dim=2048, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1), 64, False


def transformers(options):
    seen = flashtl.torch.register_transformers()
    for name, kind, config, length, is_causal in models():
        if options.only not in (None, name):
            continue
        torch.manual_seed(0)
        model = kind(config).to("cuda", HALF).eval()
        given = {"input_ids": torch.randint(3, 1000, (2, length), device="cuda")}
        if name == "whisper":
            given = {"input_features": random(2, config.num_mel_bins, 3000), "decoder_input_ids": given["input_ids"]}

        def run(implementation):
            model.set_attn_implementation(implementation)
            return model(**given).logits

        def generate(implementation, count=32):
            model.set_attn_implementation(implementation)
            torch.cuda.synchronize()
            begin = time.perf_counter()
            model.generate(given["input_ids"], max_new_tokens=count, min_new_tokens=count, do_sample=False)
            torch.cuda.synchronize()
            return (time.perf_counter() - begin) / count * 1e3
        with torch.no_grad():
            wanted = run("eager").float()
            errors = {which: float((run(which).float() - wanted).norm() / wanted.norm()) for which in ("sdpa", "ftl")}
            sdpa, own = in_turns([lambda: run("sdpa"), lambda: run("ftl")])
            report(options, what="model", name=f"{name} forward", sdpa_ms=sdpa, own_ms=own, sdpa_error=f"{errors['sdpa']:.1e}",
                   own_error=f"{errors['ftl']:.1e}", taken=seen.taken, left=dict(seen.left))
            if is_causal:
                generate("ftl"), generate("sdpa")
                times = [[generate(which) for which in ("sdpa", "ftl")] for _ in range(3)]
                report(options, what="model", name=f"{name} ms a token", sdpa_ms=statistics.median(x[0] for x in times),
                       own_ms=statistics.median(x[1] for x in times), taken=seen.taken, left=dict(seen.left))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = {"calls": calls, "first": first, "flex": flex, "models": transformers}
    parser.add_argument("what", choices=what)
    parser.add_argument("--only")
    parser.add_argument("--json")
    options = parser.parse_args()
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    what[options.what](options)


if __name__ == "__main__":
    main()
