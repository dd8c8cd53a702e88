# The polynomial that stands for tanh near 0 is good enough for what is rounded to 16 bits, as a softmax's weights are: where
# results go out in f32, by themselves or by another tile, tanh is worked out.
capped() { # NAME, the Output, what follows the Tanh
    cat > $1.tl <<TL
kernel capped
Input  Q (b in batch; row in rows, e)
Input  K (b in batch; kv in kv_len, e)
$2
for j = 0:e/BK
    Copy Q from global to shared
    Copy K from global to shared
    Compute GEMM Q, K.T and accumulate S
end
Compute Tanh S and get S
$3
TL
    flashtl reason $1.tl --gpu h200 --let e=64 > $1_code.tl
    echo "$1: polynomials: $(flashtl translate $1_code.tl | grep -c 'ftl_odd_3(S')"
}
capped stored 'Output Out f32 (b in batch; row in rows, kv in kv_len)' 'Copy S from register to global and get Out'
capped scaled 'Output Out f32 (b in batch; row in rows, kv in kv_len)' 'Compute Multiply S, 3 and get T
Copy T from register to global and get Out'
flashtl sketch attention --softcap 20 | flashtl reason --gpu h200 --head-dim 64 > weights.tl
[ "$(flashtl translate weights.tl | grep -c 'ftl_odd_3(S')" -gt 0 ] && echo "weights: some"
