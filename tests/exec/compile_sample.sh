#!/bin/sh
# A sample of emitted kernels through nvcc, each for its own GPU: no warning, no spilled byte.
# compile_sample.sh FLASHTL; exit status 77 without nvcc. All kernels for all targets: compile_all.py.
set -eu
flashtl=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
if ! command -v nvcc > /dev/null 2>&1; then
    echo "compile_sample: skipped, nvcc is not here"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
compile() { # TARGET GPU OPTION...
    target=$1
    gpu=$2
    shift 2
    "$flashtl" reason --gpu "$gpu" "$@" | "$flashtl" translate > "$gpu.cu"
    python3 "$here/compile_all.py" --targets "$target" "$gpu.cu"
}
export FLASHTL_CACHE=
compile 75 t4 --op gqa --causal --head-dim 64
compile 80 a100 --op attention --causal --head-dim 128
compile 89 l40s --op mha --head-dim 64 --dtype bf16
compile 90 h200 --op gemm_bias_gelu
