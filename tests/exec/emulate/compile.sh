#!/bin/sh
# Makes the .ptx files from the .cu files beside this script with nvcc (or, where there is none,
# plain clang): one per line "source architecture output [options]" of variants.txt. With arguments:
# only those outputs. Run it after a change of a kernel; tests read the .ptx files.
set -e
cd "$(dirname "$0")"
while read -r source arch output options; do
    case "$source" in ''|'#'*) continue ;; esac
    if [ $# -gt 0 ]; then
        case " $* " in *" $output "*) ;; *) continue ;; esac
    fi
    if command -v nvcc >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        nvcc -ptx -lineinfo -std=c++17 -diag-suppress 128,177 -arch="compute_$arch" $options \
            "$source.cu" -o "$output.ptx.new"
    else
        # shellcheck disable=SC2086
        clang -x cuda --cuda-device-only -nocudainc -nocudalib -S -O2 -gline-tables-only \
            -Xclang -target-feature -Xclang +ptx71 --cuda-gpu-arch="sm_$arch" \
            -include clang_prelude.cuh $options "$source.cu" -o "$output.ptx.new"
    fi
    # No paths of the machine, no names of builds.
    sed -e 's|\.file\(.*\)"[^"]*/|.file\1"|' -e '/^\/\//d' "$output.ptx.new" > "$output.ptx"
    rm "$output.ptx.new"
done < variants.txt
