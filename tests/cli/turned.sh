# What lies the other way round. A view with its tensor's axes exchanged is copied in lines, element by element, for every
# type and GPU, with ends in the middle of a unit; a tile that `and get` calls otherwise goes to shared memory under its
# name; and a kernel before products of 8 bits by warpgroups turns a right operand that lies across, where that pays.
. "$TESTS/sampling.inc"
verdict() { # of verify's last lines
    if "$@" > out 2>&1; then echo "right"; else grep -m 1 -E "error|FAIL|flashtl:" out; fi
}
turning() {
    printf 'kernel turning\nInput  X %s (b in batch; n in n_len, c)\nOutput Y %s (b in batch; c, n in n_len)\nlet Z (b in batch; c, n in n_len) = X[b, n, c]\nCopy Z from global to register\nCopy Z from register to global and get Y\n' $1 $1
}
for type in f16 bf16 f32 i8 e4m3 e5m2; do
    turning $type > turning.tl
    for gpu in t4 a100 l40s h200; do
        takes "$type, $gpu:" &&
            echo "$type, $gpu: $(verdict flashtl verify turning.tl --gpu $gpu --let c=24), $(verdict flashtl verify turning.tl --gpu $gpu --let c=72,BN=48)"
    done
    flashtl verify turning.tl --let c=24 --on interpreter > out && echo "$type, interpreter: right"
done
# Only what moves may stay in 8 bits, and only to a tensor of its type.
turning e4m3 | sed 's/Output Y e4m3/Output Y f16/' > widened.tl
flashtl reason widened.tl --gpu h200 --let c=24
turning e4m3 | sed 's/^Copy Z from register/Compute Multiply Z, 2 and get Z\n&/' > doubled.tl
flashtl reason doubled.tl --gpu h200 --let c=24
cat > attention.tl <<'P'
kernel attention
let group = q_heads/kv_heads
Input  Q (b in batch, head in q_heads; q in q_len, d)
Input  K (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0
Input  V (b in batch, head/group in kv_heads; kv in kv_len, dv)
Input  scale f32 where scale > 0
Output O f16 (b in batch, head in q_heads; q in q_len, dv)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared and get keys
    Compute GEMM Q, keys.T and get S
    Compute Multiply S, scale and get S
    Compute Softmax S
    Copy V from global to shared and get values
    Compute GEMM S, values and accumulate O
end
Copy O from register to global
P
for gpu in t4 a100 l40s h200; do
    for type in f16 e4m3; do
        takes "named otherwise, $type, $gpu:" && echo "named otherwise, $type, $gpu: $(verdict flashtl verify attention.tl --type Q=$type,K=$type,V=$type --gpu $gpu --head-dim 64 --case 0..5)"
    done
done
# By interpreter and emulator, with every mask; turned alone where there are 8-bit weights to gain.
types="--type Q=e4m3,K=e4m3,V=e4m3 --gpu h200"
for options in "" "--causal" "--window 100" "--softcap 20"; do
    echo "gqa $options: $(verdict flashtl verify --op gqa $options $types --head-dim 64 --shapes 49x231 --on interpreter), $(verdict flashtl verify --op gqa $options $types --head-dim 80 --shapes 1x1,49x231)"
done
how() { flashtl explain "$@" | grep -A 3 -E "turning|^  products" | grep -vE "^--|BM =|^kernel" ; }
how --op gqa $types --head-dim 128
how --op gqa $types --head-dim 128 --let turn=0
how --op gqa $types --head-dim 128 --lse | head -n 4
how --op gqa --type K=e4m3,V=e4m3 --gpu h200 --head-dim 128
how attention.tl $types --head-dim 128 --let q_len=16,q_heads=8,kv_heads=8
flashtl reason --op gqa $types --head-dim 128 | sed -n '1,/^kernel attention/p'
flashtl reason --op gqa $types --head-dim 128 --let V_stages=2,BN=96,turn=1 | grep -E "Allocate V |^let d|let dv"
flashtl reason --op gqa --gpu h200 --head-dim 128 --let turn=1
flashtl reason --op gqa $types --head-dim 128 --lse --let turn=1
flashtl reason --op gqa --type Q=e4m3,K=e4m3,V=e4m3 --gpu l40s --head-dim 128 --let turn=1
# A right operand of a product without weights, two of them, one that is used both ways, and one that two products take.
cat > across.tl <<'P'
kernel across
Input  A e4m3 (m in m_len, k in k_len)
Input  B e4m3 (k in k_len, n in n_len)
Output C f32 (m in m_len, n in n_len)
for j = 0:k_len/BK
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A, B and accumulate C
end
Copy C from register to global
P
sed 's/e4m3/e5m2/' across.tl > five.tl
sed 's/^Output C/Input  D e4m3 (k in k_len, n in n_len)\n&/; s/^    Compute GEMM.*/&\n    Copy D from global to shared\n    Compute GEMM A, D and accumulate C/' across.tl > two.tl
for file in across.tl five.tl two.tl; do
    echo "$file: $(flashtl reason $file --gpu h200 | grep ^kernel | tr '\n' ' ')$(verdict flashtl verify $file --gpu h200), $(verdict flashtl verify $file --gpu h200 --on interpreter)"
done
