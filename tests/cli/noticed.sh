# Kernels that check accepts and that are wrong in one place, where verify's bounds or its choice of cases might have hidden it:
# a maximum that starts at -1e30, which errs by 3e22 there, and a mask by a table of two axes of one length, whose cases are cheap.
cat > largest.tl <<'T'
kernel largest
Input  X f32 (b in batch; q in q_len, kv in kv_len)
Output Z f32 (b in batch; q in q_len)
Compute Fill -1e30 and get m
for j = 0:kv_len/BN
    Copy X from global to register and get S
    Compute Mask S, 0 where kv > q + kv_len - q_len
    Compute RowMax S and accumulate m
end
Compute Multiply m, 0.5 and get m
Copy m from register to global and get Z
T
judge() {
    if flashtl verify "$1" --against "$2" --on interpreter ${3:+--let d=64 --let dv=64} > said 2>&1; then echo "$1: right$(grep -o '[0-9]* longer cases were left out' said)"
    elif grep -q '^FAIL' said; then echo "$1: noticed"
    else cat said; fi
}
flashtl reason largest.tl --gpu a100 > largest_right.tl
sed 's/where kv > q + offset/where kv < q + offset/' largest_right.tl > largest_wrong.tl
cmp -s largest_right.tl largest_wrong.tl && echo 'nothing was changed'
judge largest_right.tl largest.tl
judge largest_wrong.tl largest.tl
tree=$TESTS/../../examples/tree_mask.tl
flashtl reason "$tree" --gpu a100 --let d=64 --let dv=64 > tree_right.tl
sed '0,/max(0, kv - (kv_len/s//min(0, kv - (kv_len/' tree_right.tl > tree_wrong.tl
cmp -s tree_right.tl tree_wrong.tl && echo 'nothing was changed'
judge tree_right.tl "$tree" sizes
judge tree_wrong.tl "$tree" sizes
# Keys and values are stored along axes of two names and one length, which no product pairs: long cases are cheap. In
# those alone the maximum moves in the steady iterations, and the sum so far is not rescaled.
cat > stored.tl <<'T'
kernel stored
let z_len = room - 16
Input  Q (b in batch; q in q_len, d)
Input  K_all (kv in room, d) where room >= 16
let K (z in z_len, d) = K_all[z + 16, d]
Input  V_all (b in batch; n in room, dv)
let V (b in batch; z in z_len, dv) = V_all[b, z + 16, dv]
Output O (b in batch; q in q_len, dv)
Copy Q from global to shared
for j = 0:z_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Softmax S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
T
flashtl reason stored.tl --gpu a100 --let d=64 --let dv=64 > stored_right.tl
sed '0,/Multiply O_register, alpha/{/Multiply O_register, alpha/d}' stored_right.tl > stored_wrong.tl
cmp -s stored_right.tl stored_wrong.tl && echo 'nothing was changed'
judge stored_right.tl stored.tl sizes
judge stored_wrong.tl stored.tl sizes
# What is masked before a power is 0 exactly, not unknown: masks that begin five keys late are noticed.
gradient=$TESTS/../../examples/query_gradient.tl
flashtl reason "$gradient" --gpu a100 --let d=64 --let dv=64 > gradient_right.tl
sed 's/let offset = kv_len - q_len /&+ 5 /; s/where kv > q + offset/& or kv >= kv_len/' gradient_right.tl > gradient_wrong.tl
cmp -s gradient_right.tl gradient_wrong.tl && echo 'nothing was changed'
judge gradient_right.tl "$gradient" sizes
judge gradient_wrong.tl "$gradient" sizes
# Resident blocks walk tiles: what goes wrong in a block's first tile alone has to be seen at other indices than 0.
flashtl sketch --op mha > first.tl
flashtl reason first.tl --gpu h200 --let d=64 --let dv=64 > first_right.tl
awk '/if first\(tile\)/ { inside = 1 } inside && /Copy Q/ { sub(/\[b,/, "[0,"); inside = 0 } { print }' first_right.tl > first_wrong.tl
cmp -s first_right.tl first_wrong.tl && echo 'nothing was changed'
judge first_right.tl first.tl sizes
judge first_wrong.tl first.tl sizes
