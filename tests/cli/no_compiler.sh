# A compiler that cannot be started, or cannot work, is the world's fault (3), whoever asks for it; only what it
# says of the text is the text's (1). Compilers are scripts here.
export FLASHTL_NVRTC=
flashtl sketch gqa --causal > gqa.tl
flashtl reason gqa.tl --gpu t4 --head-dim 64 > code.tl
flashtl translate code.tl > gqa.cu
flashtl translate code.tl --plan > gqa.json
python3 -c 'import npy
npy.write("q.npy", (1, 1, 3, 64), [0.0] * 192, "f2")
npy.write("k.npy", (1, 1, 3, 64), [0.0] * 192, "f2")'
flashtl=$(command -v flashtl)
mkdir tools
for tool in sh rm sed cat; do ln -s "$(command -v $tool)" tools/$tool; done
PATH=$PWD/tools
compiler() { # NAME COMMANDS
    rm -f tools/nvcc tools/clang
    test $# -eq 2 || return 0
    printf '#!/bin/sh\n%s\n' "$2" > tools/$1
    /bin/chmod 755 tools/$1
}
ask() {
    echo "# $1"
    for on in "verify gqa.tl --gpu t4 --head-dim 64 --shapes 1x1" "emulate gqa.cu --plan gqa.json" \
        "run gqa.tl --gpu t4 --head-dim 64 --let scale=1 --in Q=q.npy,K=k.npy,V=k.npy --out O=o.npy" \
        "build gqa.tl --gpu t4 --head-dim 64 --let BN=32 -o k"; do
        $flashtl $on > output 2> said
        status=$?
        sed 's,/tmp[^ ]*/,TMP/,' said
        echo "${on%% *} -> $status"
    done
}
compiler
ask 'none'
compiler nvcc 'echo "nvcc fatal   : Unsupported gpu architecture" >&2; exit 1'
ask 'nvcc that does not know the GPU'
compiler nvcc 'echo "sh: 1: cicc: not found" >&2; exit 127'
ask 'nvcc without its parts'
compiler nvcc 'kill -9 $$'
ask 'nvcc that is killed'
compiler clang 'echo "clang: error: unable to execute command: Killed" >&2; exit 254'
ask 'clang whose part is killed'
compiler clang 'exit 0'
ask 'clang that writes nothing'
printf '#!/no/such/interpreter\n' > tools/clang
ask 'clang that cannot be started'
compiler nvcc 'echo "kernel.cu(1): error: a planted one" >&2; exit 2'
ask 'nvcc that rejects the text'
compiler nvcc 'kill -11 $$'
ask 'nvcc that crashes on the text'
