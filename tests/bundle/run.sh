#!/bin/sh
# Bundles of kernels for five GPUs, as programs use them: run.sh FLASHTL LIBRARY FAKE_CUDA SOURCE CC
# Two variants of one operator and a program of two kernels lie in one folder and in one program, which compares their launches with
# the library's. The compiler of kernels is a script: what is launched is a driver without a GPU.
set -eu
flashtl=$(realpath "$1") library=$(realpath "$2") fake=$(realpath "$3") source=$(realpath "$4") cc=$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export FLASHTL_NVRTC= FLASHTL_CACHE= HOME="$work" LC_ALL=C
mkdir "$work/tools" "$work/driver"
cat > "$work/tools/nvcc" << 'END'
#!/bin/sh
for word; do case $word in *sm_*) target=${word##*sm_} ;; esac; done
while [ $# -gt 1 ]; do if [ "$1" = -o ]; then echo "cubin of sm_$target" > "$2"; fi; shift; done
echo 'ptxas info    : Used 42 registers, used 1 barriers' >&2
END
chmod 755 "$work/tools/nvcc"
ln -s "$fake" "$work/driver/libcuda.so.1"
build() { PATH=$work/tools:$PATH "$flashtl" build --no-verify --bundle -o "$work/k" "$@" > "$work/said" || { cat "$work/said"; exit 1; }; }
build --op gqa --causal --head-dim 64 --gpu t4,a100,l40s,h100,h200 --name small
build --op gqa --causal --head-dim 128 --gpu t4,h200 --name big
build --op decode --head-dim 64 --gpu t4,h200 --name few
build --op gqa --causal --head-dim 128 --gpu t4,h200 --name gqa
# The document's program, as its reader would put it together.
sed -n '/^```c$/,/^```$/{/^```/!p}' "$source/docs/packages.md" | $cc -std=c11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I "$work/k" -x c -

# As strict as a program may be compiled, in any of these, and the headers in C++.
cd "$work/k"
for compiler in $cc gcc clang; do
    command -v $compiler > /dev/null || continue
    for name in small big few; do
        $compiler -std=c11 -Wall -Wextra -Wpedantic -Werror -c $name.c -o "$work/$name.o"
    done
done
for name in small few; do
    echo "#include \"$name.h\"" | c++ -std=c++11 -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I . -x c++ -
done
# A program sees the functions of the header, which begin with the bundle's name, and nothing else.
shown=$(nm --defined-only -g "$work"/*.o | awk 'NF == 3 { print $3 }' | grep -v -E '^(small|big|few)_(open|close|gpu|launch)$' || true)
test -z "$shown" || { echo "a bundle shows $shown"; exit 1; }

$cc -std=gnu11 -Wall -Wextra -Werror "$source/tests/bundle/client.c" "$work"/*.o -I . -I "$source/include" -I "$source/tests/fake_cuda" \
    -o "$work/client" "$library" -lm -ldl
LD_LIBRARY_PATH=$work/driver:$(dirname "$library") "$work/client" "$work/k"
# Without a driver.
cat > "$work/none.c" << 'END'
#include "small.h"
#include <stdio.h>
int main(void) {
    small_kernels *kernels;
    char why[small_WHY_BYTES];
    small_status status = small_open(&kernels, why);
    printf("%s\n", why);
    return status != small_NO_DRIVER || kernels;
}
END
$cc "$work/none.c" "$work/small.o" -I . -o "$work/none" -lm -ldl
mkdir "$work/empty"
: > "$work/empty/libcuda.so.1"
LD_LIBRARY_PATH=$work/empty "$work/none" || { test -e /dev/nvidia0 || { echo 'a bundle without a driver'; exit 1; }; }
