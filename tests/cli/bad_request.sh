# Requests that cannot be met: one sentence or a diagnostic, exit status 1 or 2, nothing printed.
refuse() {
    echo "\$ flashtl reason $*"
    flashtl reason "$@" > output
    echo "-> $?"
    test -s output && echo "something was printed"
}
refuse --op gqa --gpu a100
refuse --op gqa --gpu a100 --head-dim 0
refuse --op gqa --gpu a100 --head-dim -1
refuse --op gqa --gpu a100 --head-dim 1000000000
refuse --op gqa --gpu a100 --head-dim 7
refuse --op gqa --gpu h200 --head-dim 100
refuse --op gqa --gpu h200 --head-dim 128:36
refuse --op gqa --gpu h200 --head-dim 72 --let panel_bytes=48
refuse --op gqa --gpu a100 --head-dim 128:
refuse --op gqa --head-dim 128
refuse --op gqa --gpu a100,t4 --head-dim 128
refuse --op gqa --gpu a1000 --head-dim 128
refuse --op gqa --gpu ./none.gpu --head-dim 128
refuse --op gqa --gpu t4 --dtype bf16 --head-dim 128
refuse --op gqa --gpu t4 --dtype f8 --head-dim 128
refuse --op gqa --gpu t4 --head-dim 128 --let BM=4096
refuse --op gqa --gpu t4 --head-dim 128 --let BM
refuse --op gqa --gpu t4 --head-dim 128 --print-after nothing
refuse --causal --gpu t4
refuse --op gqa sketch.tl --gpu t4
echo 'for' | flashtl translate
echo "-> $?"
flashtl sketch gqa | flashtl translate
echo "-> $?"
