#!/bin/sh
# Derived programs as kernels: verified against what their sketches mean, one class of GPUs each.
#   verified.sh FLASHTL
set -eu
flashtl=$1
here=$(cd "$(dirname "$0")" && pwd)
examples=$here/../../examples
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

verify() { # WHERE GPU SHAPES OPTION...: what is derived
    where=$1 gpu=$2 shapes=$3
    shift 3
    echo "== $* for $gpu, $where"
    "$flashtl" derive "$@" > "$folder/program.tl"
    "$flashtl" verify "$folder/program.tl" --gpu "$gpu" --head-dim 64 --on "$where" --shapes "$shapes"
}

verify interpreter a100 70x45,3x130 --op gqa --causal
verify emulator t4 70x45,3x130 --op gqa --causal
verify emulator h200 70x45,3x130 --op mha --window 20 --causal
for gpu in t4 a100 h200; do
    verify emulator "$gpu" 70x45,3x130 --op mha --causal --fused
    verify emulator "$gpu" 70x45,140x200 --op gqa --softcap 20 --fused
done
# Parts of dK and dV, of which each warpgroup stores its rows: no barrier of its own keeps the others from the operands' bytes.
verify emulator h200 70x45 --op mha --alibi --fused
verify interpreter l40s 70x45,3x130 "$examples/gated_linear.tl"
verify interpreter a100 70x45,3x130 "$examples/retention.tl"
verify interpreter a100 70x45x130 "$examples/swiglu.tl"
for gpu in t4 a100 l40s h200; do
    verify emulator "$gpu" 70x45 "$examples/layernorm.tl"
    verify emulator "$gpu" 2x70x45 "$here/rmsnorm.tl"
    verify emulator "$gpu" 40x70 "$here/softmax_by_walks.tl"
done
