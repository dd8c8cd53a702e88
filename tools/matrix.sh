#!/bin/sh
# Verifies every shipped sketch for every element type and generation of GPUs:
#     matrix.sh FLASHTL [--sample] [--only attention] [--on interpreter|emulator|gpu] [--shapes small|all|LIST] [--gpu A,B]
# A line per kernel: its summary, or the first failure and the command that shows it. --sample takes every
# thirteenth kernel, on a few shapes: what continuous integration runs.
set -u
flashtl=$1
shift
on=emulator shapes=small gpus=t4,a100,l40s,h200 every=1 only=
while [ $# -gt 0 ]; do
    case $1 in
    --sample) every=13 shapes=1x1,113x203,5x0 ;;
    --on) on=$2; shift ;;
    --shapes) shapes=$2; shift ;;
    --gpu) gpus=$2; shift ;;
    --only) only=$2; shift ;;
    *) echo "matrix.sh: unknown option '$1'" >&2; exit 2 ;;
    esac
    shift
done
number=0 failed=0
verify() { # GPU DTYPE OPTION...
    gpu=$1 dtype=$2
    shift 2
    number=$((number + 1))
    [ $((number % every)) -eq 0 ] || return 0
    [ "$dtype:$gpu" = bf16:t4 ] && return 0 # no bf16 before 8.0
    command="flashtl verify $* --gpu $gpu --dtype $dtype --on $on --shapes $shapes"
    if output=$("$flashtl" verify "$@" --gpu "$gpu" --dtype "$dtype" --on "$on" --shapes "$shapes" 2>&1); then
        printf 'pass  %-70s %s\n' "$* $gpu $dtype" "$(echo "$output" | tail -1)"
    else
        failed=$((failed + 1))
        printf 'FAIL  %s\n' "$command"
        echo "$output" | grep -E '^fail|error|flashtl:' | head -3
    fi
}
for gpu in $(echo "$gpus" | tr , ' '); do
    for dtype in f16 bf16; do
        for dim in 64 128 192:128 16 256; do
            for options in '' --causal '--causal --window 100' '--window 40 --lse' '--softcap 20 --causal' \
                '--alibi --causal --lse'; do
                verify "$gpu" "$dtype" --op gqa $options --head-dim "$dim"
            done
        done
        [ "$only" = attention ] && continue
        # Lengths of the programs' own, as lists of numbers mean them.
        general=$shapes
        [ "$shapes" = small ] || [ "$shapes" = all ] || shapes=small
        verify "$gpu" "$dtype" --op gemm_bias_gelu
        verify "$gpu" "$dtype" --op chained_gemms --let k=64 --let e=64
        verify "$gpu" "$dtype" --op row_softmax
        shapes=$general
    done
done
echo "$number kernels, $failed failed"
[ "$failed" -eq 0 ]
