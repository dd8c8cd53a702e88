# Every sketch, with every option, is a program that reads.
flashtl sketch
for options in '' --causal '--window 128' '--causal --window 128' --alibi '--alibi --causal' \
    --lse '--softcap 30' '--causal --window 64 --alibi --softcap 20.5 --lse'; do
    flashtl sketch gqa $options | flashtl fmt - > formatted || echo "rejected: $options"
    flashtl fmt formatted | cmp - formatted
done
for operator in mha mqa gemm_bias_gelu chained_gemms row_softmax; do
    flashtl sketch $operator | flashtl fmt > /dev/null || echo "rejected: $operator"
done
flashtl sketch --op mha --causal --window 7 --output window.tl && grep -n window window.tl
