#!/usr/bin/env python3
"""A model of diffusers by FlashTL's attention: a small Flux with random weights takes a step as it does with eager attention.

    picture_model.py                    on the CPU
    picture_model.py --device cuda      on a GPU, in bfloat16

With weights of your own: pipeline.transformer.set_attention_backend("ftl")."""
import argparse

import diffusers
import torch

import flashtl.torch


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    device = parser.parse_args().device
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(0)
    model = diffusers.FluxTransformer2DModel(patch_size=1, in_channels=4, num_layers=1, num_single_layers=2, attention_head_dim=16,
                                             num_attention_heads=2, joint_attention_dim=32, pooled_projection_dim=32, axes_dims_rope=(4, 4, 8))
    model = model.to(device, dtype).eval()
    places = torch.stack(torch.meshgrid(torch.zeros(1), torch.arange(4.0), torch.arange(5.0), indexing="ij"), -1).reshape(20, 3)
    given = {"hidden_states": torch.randn(1, 20, 4), "encoder_hidden_states": torch.randn(1, 7, 32), "pooled_projections": torch.randn(1, 32),
             "timestep": torch.tensor([0.5]), "img_ids": places, "txt_ids": torch.zeros(7, 3)}
    given = {name: tensor.to(device, dtype) for name, tensor in given.items()}
    seen = flashtl.torch.register_diffusers()
    results = []
    for backend in ("_native_math", "ftl"):
        model.set_attention_backend(backend)
        with torch.no_grad():
            results.append(model(**given).sample)
    worst = (results[0] - results[1]).abs().max().item()
    print(f"off by at most {worst:.1e}; {seen.taken} calls taken, left to PyTorch: {dict(seen.left)}")
    assert worst < (0.05 if device == "cuda" else 1e-4) and seen.taken == 3 and not seen.left


if __name__ == "__main__":
    main()
