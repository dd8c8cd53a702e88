# Operands of products that are computed: right ones and transposed left ones go to shared memory, once for
# all that take them; a state goes on from round to round; warpgroups bring them there together.
. "$TESTS/sampling.inc"
qkv='Input  Q (b in batch; q in q_len, d)\nInput  K (b in batch; kv in kv_len, d)\nInput  V (b in batch; kv in kv_len, dv)\nOutput O (b in batch; q in q_len, dv)\n'
{ printf "kernel normed_keys\n$qkv"
  cat <<'P'
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to register
    Compute Multiply K, K and get N
    Compute RowSum N and get n
    Compute Add n, 0.0001 and get n
    Compute Rsqrt n and get n
    Compute Multiply K, n and get K
    Compute GEMM Q, K.T and get S
    Compute Mask S where kv > q + kv_len - q_len
    Compute Softmax S
    Copy V from global to register
    Compute Max V, 0 and get V
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
P
} > normed_keys.tl
cat > product_of_products.tl <<'P'
kernel product_of_products
Input  A (m in m_len, d)
Input  B (n in n_len, d)
Input  C (p in p_len, d)
Output Y (m in m_len, p in p_len)
Output Z (m in m_len, p in p_len)
Copy A from global to shared
for j = 0:n_len/BN
    Copy B from global to shared
    Copy C from global to shared
    Compute GEMM B, C.T and get T
    Compute Max T, 0 and get T
    Compute GEMM A, B.T and get S
    Compute GEMM S, T and accumulate Y
    Compute Abs S and get S
    Compute GEMM S, T and accumulate Z
end
Copy Y from register to global
Copy Z from register to global
P
cat > state.tl <<'P'
kernel state
let BT = 64
Input  Q (b in batch; t in len, d)
Input  K (b in batch; u in len, d)
Input  V (b in batch; u in len, dv)
Output O (b in batch; t in len, dv)
Compute Fill 0 and get A
for j = 0:len/BT
    Copy Q from global to shared
    Copy K from global to shared
    Copy V from global to shared
    Compute GEMM Q, A and get O
    Copy O from register to global
    Compute Multiply A, 0.5 and get A
    Compute GEMM K.T, V and accumulate A
end
P
cat > turned.tl <<'P'
kernel turned
Input  Q (b in batch; q in q_len, d)
Input  K (b in batch; kv in kv_len, d)
Output Y (b in batch; kv in kv_len, d)
Copy K from global to shared
for i = 0:q_len/BM
    Copy Q from global to shared
    Compute GEMM Q, K.T and get S
    Compute Tanh S and get S
    Compute GEMM S.T, Q and accumulate Y
end
Copy Y from register to global
P
for name in normed_keys product_of_products state turned; do
    for gpu in t4 a100 h200; do
        takes "$name $gpu:" || continue
        pins='--head-dim 64'
        [ $name = product_of_products ] && pins='--let d=64'
        [ $name = turned ] && pins='--let d=64'
        result=$(flashtl verify $name.tl --gpu $gpu $pins --case 0..6 2>&1 | sed -n '$s/;.*//p')
        echo "$name $gpu: $result"
    done
done
# One copy for both products, right after the tile is complete; here in each of two loops.
flashtl reason product_of_products.tl --gpu a100 --let d=64 | grep -A2 'Compute Max T'
# By which class, and what a sketch may not write itself.
flashtl explain normed_keys.tl --gpu h200 --head-dim 64 | grep -A1 -E 'class|roles|operands'
# What a round copies twice comes once, by warps and by warpgroups; a loop that walks a result's rows leaves its columns to the grid.
sed 's/^    Compute Multiply A, 0.5/    Compute GEMM Q, K.T and get S\n    Compute GEMM S, V and accumulate O\n    Copy V from global to register and get W\n    Compute Multiply W, 0.25 and get W\n&/
     s/GEMM K.T, V/GEMM K.T, W/; /Copy O/d; $i\    Copy O from register to global' state.tl > weighted_state.tl
for gpu in a100 h200; do
    flashtl verify weighted_state.tl --gpu $gpu --head-dim 64:128 --case 0..6 2>&1 | sed -n '$s/;.*//p'
    flashtl reason weighted_state.tl --gpu $gpu --head-dim 64:128 | grep -E '^grid|^role|Copy [VW] .*W|stmatrix|tma async'
done
printf 'kernel by_hand\nInput X (m in m_len, d)\nOutput Y (m in m_len, d)\nCopy X from global to register\nCopy X from register to shared and get Z\nCopy X from register to global and get Y\n' > by_hand.tl
flashtl reason by_hand.tl --gpu a100 --let d=64
echo "-> $?"
# A state that nothing starts is read before it is written.
grep -v Fill state.tl > unstarted.tl
flashtl reason unstarted.tl --gpu a100 --head-dim 64
echo "-> $?"
