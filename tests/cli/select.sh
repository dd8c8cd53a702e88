# Views that leave rows out: `select(CONDITION, T[...], 0)`.
results() {
    sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//' | tail -1
}
# Pages of an odd number are not there.
cat > pages.tl <<'TL'
kernel sparse
Input  Q (b in batch; q in q_len, d)
Input  pool (page in pages, slot in page_len, d)
Input  values (page in pages, slot in page_len, dv)
Input  table i32 (b in batch, n in max_pages)
Input  scale f32 where scale > 0
Output O (b in batch; q in q_len, dv)
let K (b in batch; kv in max_pages*page_len, d) = select(table[b, kv/page_len] % 2 == 0, pool[table[b, kv/page_len], kv % page_len, d], 0)
let V (b in batch; kv in max_pages*page_len, dv) = select(table[b, kv/page_len] % 2 == 0, values[table[b, kv/page_len], kv % page_len, dv], 0)
Copy Q from global to shared
for j = 0:max_pages*page_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, scale and get S
    Compute Mask S where table[b, kv/page_len] % 2 == 1
    Compute Softmax S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
TL
flashtl verify pages.tl --gpu a100 --dtype f16 --head-dim 64 --on emulator --case 5,7,9 | results
flashtl verify pages.tl --gpu t4 --dtype f16 --head-dim 64 --on emulator --case 5,9 | results
# Rows by a condition on their index; zeros count in the sum.
cat > thirds.tl <<'TL'
kernel thirds
Input  A (i in rows, k in k_len)
Input  B (k in k_len, n)
let Bs (k in k_len, n) = select(k % 3 < 2, B[k, n], 0)
Output C f32 (i in rows, n)
for j = 0:k_len/BK
    Copy A from global to shared
    Copy Bs from global to shared
    Compute GEMM A, Bs and accumulate C
end
Copy C from register to global
TL
flashtl verify thirds.tl --gpu a100 --dtype f16 --let n=64 --on emulator --shapes 113x203,1x1 | results
flashtl verify thirds.tl --gpu t4 --dtype f16 --let n=72 --on emulator --shapes 113x203 | results
flashtl verify thirds.tl --gpu h200 --dtype bf16 --let n=64 --on emulator --shapes 113x203 | results
# Other forms are refused, each where it stands.
reject() {
    flashtl reason "$1" --gpu a100 --dtype f16 --let n=64 2>&1 | head -4
}
sed 's/B\[k, n\], 0)/B[k, n], 1)/' thirds.tl > ones.tl
reject ones.tl
sed 's/k % 3 < 2/n % 3 < 2/' thirds.tl > columns.tl
reject columns.tl
