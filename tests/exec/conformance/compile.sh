#!/bin/sh
# Makes kernels.ptx from kernels.cu.
set -e
cd "$(dirname "$0")"
nvcc -ptx -arch=compute_80 -std=c++17 -diag-suppress 128,177 kernels.cu -o kernels.ptx.new
sed '/^\/\//d' kernels.ptx.new > kernels.ptx
rm kernels.ptx.new
