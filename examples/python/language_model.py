#!/usr/bin/env python3
"""A model of transformers by FlashTL's attention: a small Llama with random weights makes the tokens that it makes with eager attention.

    language_model.py                    on the CPU
    language_model.py --device cuda      on a GPU, in bfloat16

With weights of your own: transformers.AutoModelForCausalLM.from_pretrained(folder, attn_implementation="ftl")."""
import argparse

import torch
import transformers

import flashtl.torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    device = parser.parse_args().device
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    config = transformers.LlamaConfig(vocab_size=90, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, eos_token_id=None, pad_token_id=0)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager").to(device, dtype).eval()
    text = torch.randint(1, 90, (2, 12), device=device)
    options = {"attention_mask": torch.ones_like(text), "max_new_tokens": 6, "do_sample": False}
    wanted, scores = model.generate(text, **options), model(text).logits
    seen = flashtl.torch.register_transformers()
    model.set_attn_implementation("ftl")
    worst = (model(text).logits - scores).abs().max().item()
    print(f"scores of tokens off by at most {worst:.1e}; {seen.taken} calls taken, left to PyTorch: {dict(seen.left)}")
    assert worst < (0.05 if device == "cuda" else 1e-4) and seen.taken == config.num_hidden_layers and not seen.left
    if device == "cpu": # in 16 bits two scores may be as good as equal
        assert torch.equal(model.generate(text, **options), wanted)
    print("tokens", wanted[0, -6:].tolist())


if __name__ == "__main__":
    main()
