# Gradients of sketches: what is written, what it says of Inputs without one, and what is refused.
flashtl sketch gqa --causal | flashtl derive
echo "== some"
flashtl derive --op mha --of V | grep '^kernel\|^Output'
flashtl derive --op mha --of scale
flashtl derive --op mha --of Q,Z
echo "== slopes of heads, with the log-sum-exp's own gradient"
flashtl derive --op mha --alibi --lse | sed -n '/_gradient_Q/,/^kernel attention_gradient_K/p'
echo "== parts of one Input by views, from two kernels; entries that a table names"
cp "$TESTS"/../../examples/*.tl "$TESTS"/../derive/packed.tl .
flashtl derive packed.tl | grep '^kernel\|^Output'
flashtl derive chosen_blocks.tl | grep '^// d'
echo "== a factor multiplies sums, once, but not what entries of a table take"
flashtl derive rotary.tl | grep '^kernel\|scale and get'
flashtl derive chosen_blocks.tl | grep '^kernel\|scale and get'
echo "== the first of the largest"
flashtl derive maxsim.tl
echo "== the fused form, and what has none"
flashtl derive --op mha --causal --fused | sed -n '/^kernel attention_delta/,$p'
flashtl derive distance_bias.tl --fused | grep '^kernel' # a table's kernels stay what they are
flashtl derive layernorm.tl --fused; echo "status $?"
echo "== refused"
for name in gated_memory mamba2; do flashtl derive $name.tl; echo "status $?"; done
flashtl reason --op mha --gpu t4 --head-dim 64 | flashtl derive
flashtl sketch mha | sed '$a kernel second' | flashtl derive
cat > if.tl << 'TL'
kernel branches
Input  X (n in n_len, d)
Output Y (n in n_len, d)
Copy X from global to register
if n_len > 4
    Compute Exp X and get X
end
Copy X from register to global and get Y
TL
flashtl derive if.tl
cat > weights.tl << 'TL'
kernel elements
Input  X (n in n_len, d)
Input  w f32 (n in n_len)
Output Y (n in n_len, d)
Copy X from global to register
Compute Multiply X, w[n] and get X
Compute RowArgMax X and get place
Copy X from register to global and get Y
TL
flashtl derive weights.tl
flashtl derive nothing.tl
flashtl derive
echo "== whole programs pass the reasoner, for each class of GPU"
flashtl derive --op gqa --causal -o program.tl
for gpu in t4 a100 l40s h200; do flashtl reason program.tl --gpu $gpu --head-dim 64 | grep -c '^kernel'; done
