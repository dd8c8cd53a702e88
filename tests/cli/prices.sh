# What the cost model takes for tanh, in the table of clocks: with the sizes of a kernel without it,
# by warps two special functions an element beside exp2's one, and nine operations more; by warpgroups, near 0, a
# polynomial of five operations instead, with a factor before it; past another operation the function itself.
price() {
    flashtl explain "$@" --json | python3 -c "
import json, sys
clocks = next(t for t in json.load(sys.stdin)['comparisons'] if t['title'].startswith('clocks'))
print(', '.join(f'{c[\"name\"]} {v}' for c, v in list(zip(clocks['columns'], clocks['rows'][0]))[1:-1]))"
}
for gpu in t4 a100; do
    sizes="--gpu $gpu --head-dim 64 --let BM=128,BN=64,warps=4"
    echo $gpu; price --op mha $sizes; price --op mha --softcap 30 $sizes
done
sizes="--gpu h200 --head-dim 64 --let BM=192,BN=64,warpgroups=3"
echo h200; price --op mha $sizes; price --op mha --softcap 30 $sizes
for statements in 'Compute Add S, 1 and get S\n' 'Compute Add S, 1 and get S\nCompute Tanh S and get S\n' \
    'Compute Multiply S, 3 and get S\nCompute Tanh S and get S\n' 'Compute Tanh S and get S\n'; do
    printf 'kernel a\nInput Q (q in q_len, d)\nInput K (kv in kv_len, d)\nInput V (kv in kv_len, dv)\nOutput O (q in q_len, dv)\nCopy Q from global to shared\nfor j = 0:kv_len/BN\nCopy K from global to shared\nCompute GEMM Q, K.T and get S\n'"$statements"'Compute Softmax S\nCopy V from global to shared\nCompute GEMM S, V and accumulate O\nend\nCopy O from register to global\n' > a.tl
    echo "$statements"; price a.tl $sizes
done
