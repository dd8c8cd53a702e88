# Three roles, written by hand: one loads, one makes weights, one multiplies by them. Weights and factors
# go from role to role through shared memory.
results() {
    sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//' | tail -1
}
on_emulator() {
    file=$1
    against=$2
    shift 2
    flashtl verify "$file" --against "$against" --head-dim 128 --on emulator "$@" | results
}
flashtl sketch --op gqa > gqa.tl
cat > three.tl <<'TL'
kernel attention for h200
let d = 128, dv = 128, BM = 64, BN = 64, group = q_heads/kv_heads, c = scale*1.44269504
Input  Q f16 (b in batch, head in q_heads; q in q_len, d)
Input  K f16 (b in batch, head/group in kv_heads; kv in kv_len, d) where q_heads % kv_heads == 0
Input  V f16 (b in batch, head/group in kv_heads; kv in kv_len, dv)
Input  scale f32 where scale > 0
Output O f16 (b in batch, head in q_heads; q in q_len, dv)
grid persistent head in q_heads, b in batch, q_block in q_len/BM
let blocks = ceil(kv_len/BN)
Allocate Q in shared f16 (BM, d) swizzled 128
Allocate K in shared f16 (BN, d) swizzled 128 stages 2
Allocate V in shared f16 (BN, dv) swizzled 128 stages 2
Allocate P in shared f16 (BM, BN) swizzled 128 stages 2
Allocate alpha in shared f32 (BM) stages 2
Allocate l in shared f32 (BM)
role load with 1 warp, 40 registers
    Copy Q (BM, d) in coordinate [b, head, L = q_block] from global to shared by tma async
    for j = 0:blocks
        Copy K (BN, d) in coordinate [b, head/group, L = j] from global to shared by tma async
        Copy V (BN, dv) in coordinate [b, head/group, L = j] from global to shared by tma async
    end
end
role scores with 1 warpgroup, 160 registers
    Allocate S in register f32 (BM, BN) as mma_C
    Allocate P in register f16 (BM, BN) as mma_C
    Allocate m, m_old, alpha, shift in register f32 (BM) as rows of S
    Allocate l in register f32 (BM) as partial rows of S
    Compute Fill -1e30 and get m
    Compute Fill 0 and get l_register
    Wait Q_shared
    for j = 0:blocks
        Wait K_shared
        Compute GEMM Q_shared, K_shared.T and get S by m64n64k16 async
        Wait S
        Release K_shared
        if (j + 1)*BN > kv_len
            Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
        end
        Compute Cast m and get m_old
        Compute RowMax S and accumulate m
        Compute Subtract m_old, m and get alpha_register
        Compute Multiply alpha_register, c and get alpha_register
        Compute Exp2 alpha_register and get alpha_register
        Copy alpha from register to shared
        Compute Multiply m, -c and get shift
        Compute MultiplyAdd S, c, shift and get S
        Compute Exp2 S and get S
        Compute Multiply l_register, alpha_register and get l_register
        Compute RowSum S and accumulate l_register
        Compute Cast S and get P_register
        Copy P from register to shared by stmatrix
    end
    Release Q_shared
    Reshape l_register from partial rows to rows
    Compute Max l_register, 1e-30 and get l_register
    Copy l from register to shared
end
role products with 1 warpgroup, 160 registers
    Allocate O in register f32 (BM, dv) as mma_C
    Allocate alpha, l in register f32 (BM) as rows of O
    Compute Fill 0 and get O_register
    for j = 0:blocks
        Wait alpha_shared
        Copy alpha from shared to register
        Release alpha_shared
        Compute Multiply O_register, alpha_register and get O_register
        Wait P_shared
        Wait V_shared
        Compute GEMM P_shared, V_shared and accumulate O_register by m64n128k16 async
        Wait O_register
        Release P_shared
        Release V_shared
    end
    Wait l_shared
    Copy l from shared to register
    Release l_shared
    Compute Divide O_register, l_register and get O_register
    Copy O (BM, dv) in coordinate [b, head, L = q_block] from register to global
end
TL
on_emulator three.tl gqa.tl --gpu h200 --shapes 113x203,65x1
# Q in registers: ldmatrix reads the panels that TMA fills.
sed -e '/^    Allocate S in register/i\    Allocate Q in register f16 (BM, d) as mma_A' \
    -e 's/^    Wait Q_shared/&\n    Copy Q from shared to register by ldmatrix/' -e 's/GEMM Q_shared/GEMM Q_register/' three.tl > left.tl
flashtl translate left.tl | grep -c 'ftl_ldmatrix_x4('
on_emulator left.tl gqa.tl --gpu h200 --shapes 113x203
# K and V by the threads of the role that loads, into panels: asynchronously, and not.
sed '/Copy [KV] (BN/s/by tma async/by cp_async async/' three.tl > threads.tl
on_emulator threads.tl gqa.tl --gpu h200 --shapes 113x203
sed '/Copy [KV] (BN/s/by tma async//' three.tl > plain.tl
on_emulator plain.tl gqa.tl --gpu h200 --shapes 113x203
# O's columns over two warpgroups of one role.
sed -e 's/role products with 1 warpgroup, 160/role products with 2 warpgroups, 144/' -e 's/m64n128k16/m64n64k16/' \
    -e 's/Allocate O .* as mma_C/& over (1, 2)/' three.tl > across.tl
on_emulator across.tl gqa.tl --gpu h200 --shapes 113x203
sed 's/over (1, 2)/over (1, 3)/' across.tl > three_across.tl
flashtl check three_across.tl --gpu h200
sed -e 's/over (1, 2)/over (2, 2)/' -e 's/products with 2 warpgroups, 144/products with 4 warpgroups, 64/' across.tl > square.tl
flashtl check square.tl --gpu h200
# A Release that is missing is named before anything runs.
sed '/Release P_shared/d' three.tl > held.tl
flashtl translate held.tl 2>&1 | grep -m 1 error:
# The emulator misses nothing where the scores' role waits for a slot of P, and that Wait where it is taken out.
flashtl translate three.tl > three.cu
flashtl translate --plan three.tl > three.json
run() {
    flashtl emulate "$1" --plan three.json --let q_len=64 --let kv_len=300 --let scale=0.25 > report
    echo "-> $?"
}
run three.cu
sed '/P_fill.acquire(/d' three.cu > racy.cu
run racy.cu
grep -o 'race: [a-z ]*' report | sort -u | head -1
# V is the last columns of C: a part of its tile, with a cursor of its own, or read after the Wait for C.
cat > latent.tl <<'TL'
kernel latent
Input  Q (b in batch; q in q_len, d)
Input  C (b in batch; kv in kv_len, d)
Input  scale f32 where scale > 0
let V (b in batch; kv in kv_len, e in 64) = C[b, kv, 64 + e]
Output O (b in batch; q in q_len, e in 64)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy C from global to shared
    Compute GEMM Q, C.T and get S
    Compute Multiply S, scale and get S
    Compute Softmax S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
TL
cat > cursors.tl <<'TL'
kernel latent for h200
let d = 128, BM = 64, BN = 64, half = 64, c = scale*1.44269504
Input  Q f16 (b in batch; q in q_len, d)
Input  C f16 (b in batch; kv in kv_len, d)
Input  scale f32 where scale > 0
let V (b in batch; kv in kv_len, e in half) = C[b, kv, half + e]
Output O f16 (b in batch; q in q_len, e in half)
grid persistent b in batch, q_block in q_len/BM
let blocks = ceil(kv_len/BN)
Allocate Q in shared f16 (BM, d) swizzled 128
Allocate C in shared f16 (BN, d) swizzled 128 stages 3
role load with 1 warp, 40 registers
    Copy Q (BM, d) in coordinate [b, L = q_block] from global to shared by tma async
    for j = 0:blocks
        Copy C (BN, d) in coordinate [b, L = j] from global to shared by tma async
    end
end
role math with 1 warpgroup, 232 registers
    Allocate S in register f32 (BM, BN) as mma_C
    Allocate P in register f16 (BM, BN) as mma_C
    Allocate O in register f32 (BM, half) as mma_C
    Allocate m, m_old, alpha, shift in register f32 (BM) as rows of S
    Allocate l in register f32 (BM) as partial rows of S
    Compute Fill 0 and get O_register
    Compute Fill -1e30 and get m
    Compute Fill 0 and get l
    Wait Q_shared
    for j = 0:blocks
        Wait C_shared
        Compute GEMM Q_shared, C_shared.T and get S by m64n64k16 async
        Wait S
        Release C_shared
        if (j + 1)*BN > kv_len
            Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
        end
        Compute Cast m and get m_old
        Compute RowMax S and accumulate m
        Compute Subtract m_old, m and get alpha
        Compute Multiply alpha, c and get alpha
        Compute Exp2 alpha and get alpha
        Compute Multiply m, -c and get shift
        Compute MultiplyAdd S, c, shift and get S
        Compute Exp2 S and get S
        Compute Multiply l, alpha and get l
        Compute RowSum S and accumulate l
        Compute Multiply O_register, alpha and get O_register
        Compute Cast S and get P
        Reshape P from mma_C to mma_A
        Wait V_shared
        Compute GEMM P, V_shared and accumulate O_register by m64n64k16 async
        Wait O_register
        Release V_shared
    end
    Release Q_shared
    Reshape l from partial rows to rows
    Compute Max l, 1e-30 and get l
    Compute Divide O_register, l and get O_register
    Copy O (BM, half) in coordinate [b, L = q_block] from register to global
end
TL
on_emulator cursors.tl latent.tl --gpu h200 --shapes 113x203,65x1
sed -e '/Wait V_shared/d' -e '/Release C_shared/d' -e 's/Release V_shared/Release C_shared/' cursors.tl > one.tl
on_emulator one.tl latent.tl --gpu h200 --shapes 113x203
sed -e 's/half + e/8 + e/' cursors.tl > crooked.tl
flashtl translate crooked.tl
sed -e 's/C\[b, kv, half/C[b, kv_len - 1 - kv, half/' cursors.tl > turned.tl
flashtl translate turned.tl
# And on a GPU whose warps multiply by themselves.
cat > warps.tl <<'TL'
kernel latent for a100
let d = 128, BM = 64, BN = 64, half = 64, c = scale*1.44269504
Input  Q f16 (b in batch; q in q_len, d)
Input  C f16 (b in batch; kv in kv_len, d)
Input  scale f32 where scale > 0
let V (b in batch; kv in kv_len, e in half) = C[b, kv, half + e]
Output O f16 (b in batch; q in q_len, e in half)
grid b in batch, q_block in q_len/BM
let blocks = ceil(kv_len/BN)
Allocate Q in shared f16 (BM, d) swizzled 128
Allocate C in shared f16 (BN, d) swizzled 128 stages 2
role math with 4 warps
    Allocate S in register f32 (BM, BN) as mma_C
    Allocate P in register f16 (BM, BN) as mma_C
    Allocate O in register f32 (BM, half) as mma_C
    Allocate m, m_old, alpha, shift in register f32 (BM) as rows of S
    Allocate l in register f32 (BM) as partial rows of S
    Copy Q (BM, d) in coordinate [b, L = q_block] from global to shared by cp_async async
    if 0 < blocks
        Copy C (BN, d) in coordinate [b, L = 0] from global to shared by cp_async async
    end
    Compute Fill 0 and get O_register
    Compute Fill -1e30 and get m
    Compute Fill 0 and get l
    Wait Q_shared
    for j = 0:blocks
        Wait C_shared
        if j + 1 < blocks
            Copy C (BN, d) in coordinate [b, L = j + 1] from global to shared by cp_async async
        end
        Compute GEMM Q_shared, C_shared.T and get S by m16n8k16
        if (j + 1)*BN > kv_len
            Compute Mask S in coordinate [L = q_block, L = j] where kv >= kv_len
        end
        Compute Cast m and get m_old
        Compute RowMax S and accumulate m
        Compute Subtract m_old, m and get alpha
        Compute Multiply alpha, c and get alpha
        Compute Exp2 alpha and get alpha
        Compute Multiply m, -c and get shift
        Compute MultiplyAdd S, c, shift and get S
        Compute Exp2 S and get S
        Compute Multiply l, alpha and get l
        Compute RowSum S and accumulate l
        Compute Multiply O_register, alpha and get O_register
        Compute Cast S and get P
        Reshape P from mma_C to mma_A
        Compute GEMM P, V_shared and accumulate O_register by m16n8k16
        Release C_shared
    end
    Release Q_shared
    Reshape l from partial rows to rows
    Compute Max l, 1e-30 and get l
    Compute Divide O_register, l and get O_register
    Copy O (BM, half) in coordinate [b, L = q_block] from register to global
end
TL
on_emulator warps.tl latent.tl --gpu a100 --shapes 113x203,65x1
sed -e 's/^\( *\)Compute GEMM P, V_shared/\1Wait V_shared\n&/' -e 's/Release C_shared/&\n        Release V_shared/' warps.tl > waits.tl
flashtl translate waits.tl
# Latent attention while tokens are made: pages, folded heads, a last block by threads; O's columns over two roles.
flashtl verify "$TESTS/../golden/tl/mla_decode.tl" --gpu h200 --on emulator --case 2..6,8,10 | results
# Without the launch condition pages may end inside a tile, and heads too.
sed 's/ where page_len % BN == 0//' "$TESTS/../golden/tl/mla_decode.tl" > pages.tl
flashtl translate pages.tl
sed 's/ where heads % BM == 0//' "$TESTS/../golden/tl/mla_decode.tl" > heads.tl
flashtl translate heads.tl
# A condition says of a block that it is whole, as the end of a loop does; `j <= whole` would say it of one too many.
sed -e 's/for j = 0:whole.*/for j = 0:blocks\n        if j <= whole - 1/' -e 's/by tma async  \/\/ block j/by tma async\n        end/' \
    -e '/^    if whole < blocks/,/^    end/{s/if whole < blocks.*/    if j >= whole/;s/L = whole/L = j/;s/^    end/        end\n    end/}' \
    "$TESTS/../golden/tl/mla_decode.tl" | awk '/^    end/ && !cut { cut = 1; next } { print }' > asked.tl
flashtl verify asked.tl --gpu h200 --on emulator --case 2..6,8,10 | results
sed 's/if j <= whole - 1/if j <= whole and (j + 1)*BN <= kv_len/' asked.tl > beyond.tl
flashtl translate beyond.tl 2>&1 | grep -c 'is no box of pool'
