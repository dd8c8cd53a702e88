# `--dtype e4m3`, e5m2 or i8 for an operator: operands of products alone have 8 bits, results and all else f16; each GPU's
# kernel is right.
verdict() {
    if "$@" > out 2>&1; then echo "right"; else grep -m 1 -E "error|FAIL|flashtl:" out | sed 's/.*error: //'; fi
}
one() { # operator with options, lengths
    echo "$1: $(flashtl reason --op $1 --dtype e4m3 --gpu h200 $2 2> /dev/null | grep -E '^(Input|Output)' | sed 's/^\(Input\|Output\) *//' | cut -d '(' -f 1 | grep -vE 'f32|i32|_turned' | sort -u | tr '\n' ' ')"
}
one mha "--head-dim 64"
one "mla --causal" "--head-dim 128 --let d_rotary=64"
one chained_gemms "--let k=64,e=64"
one gemm_bias_gelu ""
one block_sparse "--head-dim 64"
one decode "--head-dim 64"
one paged_decode "--head-dim 64 --with page_len=16"
one nsa_selected "--head-dim 64"
for gpu in t4 a100 l40s h200; do
    echo "$gpu: $(verdict flashtl verify --op gqa --causal --dtype e4m3 --gpu $gpu --head-dim 64 --shapes 49x80), $(verdict flashtl verify --op chained_gemms --dtype e4m3 --gpu $gpu --let k=64,e=64 --case 1)"
done
for type in e5m2 i8; do
    for gpu in t4 h200; do echo "$type, $gpu: $(verdict flashtl verify --op gqa --causal --dtype $type --gpu $gpu --head-dim 64 --shapes 49x80)"; done
done
# A tensor's own choice goes first; where there is nothing to choose, or no text, it is said.
flashtl reason --op gqa --dtype e4m3 --type Q=bf16,O=bf16 --gpu l40s --head-dim 64 | grep -E '^(Input|Output)'
flashtl reason --op row_softmax --dtype e4m3 --gpu h200
flashtl reason --op gqa --dtype e4m2 --gpu h200
flashtl evaluate --dtype e4m3 --gpu h200
flashtl bench --dtype e4m3
flashtl build --op gqa --dtype e4m3 --gpu l40s --head-dim 64 --no-compile --no-verify > out 2>&1; ls *.cu
