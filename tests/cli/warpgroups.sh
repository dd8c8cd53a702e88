# TL Code of warpgroups written by hand: what no sketch is reasoned into runs on the emulator, too.
results() {
    sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//' | tail -1
}
cat > product.tl <<'TL'
kernel product
Input  A f16 (k in k_len, m in 256)
Input  B f16 (k in k_len, n in 128)
Output C f16 (m in 256, n in 128)
for j = 0:k_len/BK
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A.T, B and accumulate C
end
Copy C from register to global
TL
# Both operands with the contracted axis across, three slots, two products across, panels of 64 and 32 bytes.
cat > across.tl <<'TL'
kernel product for h200
let BM = 128, BN = 64, BK = 64
Input  A f16 (k in k_len, m in 256)
Input  B f16 (k in k_len, n in 128)
Output C f16 (m in 256, n in 128)
grid persistent m_block in 256/BM, n_block in 128/BN
Allocate A in shared f16 (BK, BM) swizzled 64 stages 3
Allocate B in shared f16 (BK, BN) swizzled 64 stages 3
Allocate C in shared f16 (BM, BN) swizzled 32
role load with 1 warp, 40 registers
    for j = 0:k_len/BK
        Copy A (BK, BM) in coordinate [L = j, L = m_block] from global to shared by tma async
        Copy B (BK, BN) in coordinate [L = j, L = n_block] from global to shared by tma async
    end
end
role math with 2 warpgroups, 232 registers
    Allocate C in register f32 (BM, BN) as mma_C
    Compute Fill 0 and get C_register
    for j = 0:k_len/BK
        Wait A_shared
        Wait B_shared
        Compute GEMM A_shared.T, B_shared and accumulate C_register by m64n32k16 async
        Wait C_register
        Release A_shared
        Release B_shared
    end
    Copy C from register to shared by stmatrix
    Wait C_shared
    Copy C (BM, BN) in coordinate [L = m_block, L = n_block] from shared to global by tma async
    Wait C_global
    Release C_shared
end
TL
flashtl verify across.tl --against product.tl --gpu h200 --on emulator --shapes 130,1 | results
# The last panels of B and C are open: 112 columns in two of 64. A box of C must not reach into the next tile.
sed 's/n in 128/n in 112/' product.tl > narrow.tl
sed 's/n in 128/n in 112/; s/BN = 64/BN = 112/; s|128/BN|112/BN|; /^Allocate [BC]/s/swizzled [0-9]*/swizzled 128/
    s/m64n32/m64n112/' across.tl > open.tl
flashtl verify open.tl --against narrow.tl --gpu h200 --on emulator --shapes 130,1 | results
sed 's/n in 112/n in 224/g; s|112/BN|224/BN|' open.tl > inside.tl
flashtl translate inside.tl; echo "-> $?"
# Threads copy B beside the products: the emulator misses no proxy fence between landing and product.
sed 's/\(Copy B .*\) by tma/\1 by cp_async/; /^Allocate B/s/swizzled 64/swizzled 128/; s/m64n32/m64n64/' across.tl > fence.tl
flashtl verify fence.tl --against product.tl --gpu h200 --on emulator --shapes 130,1 | results
flashtl translate fence.tl | grep -c '^ *ftl_fence_async();'
# By turns with TMA too: all threads of the role arrive for a slot, whoever fills it.
sed '/Copy B/{s/.*/if j % 2 == 0\n&\nend\nif not j % 2 == 0\n&\nend/;s/by tma/by cp_async/}' across.tl > both.tl
flashtl verify both.tl --against product.tl --gpu h200 --on emulator --shapes 130,330 | results
flashtl translate both.tl | grep -c 'ftl_mbarrier_arrive_after_copies('
# Sections of at most five heads, which do not divide the heads there are.
sed 's/^let near = .*/let near = 5/' "$TESTS/../golden/tl/attention_h200_flat.tl" > sections.tl
flashtl verify sections.tl --gpu h200 --on emulator --shapes 150x129 | results
# Two loops in a tile: blocks that need no mask, and the others.
cat > split.awk <<'AWK'
/^role math/ { math = 1 }
math && !done && /^ +for j = 1:blocks/ { at = index($0, "for"); holds = 1; next }
holds && $1 == "end" && index($0, "end") == at {
    print "for j = 1:min(full, blocks)"; printf "%s", body; print "end"
    print "for j = max(1, min(full, blocks)):blocks"; printf "%s", body; print "end"
    holds = 0; done = 1; next
}
holds { body = body $0 "\n"; next }
{ print }
AWK
flashtl reason --op mha --causal --gpu h200 --head-dim 16 --let BM=128 --let BN=64 -o one.tl
awk -f split.awk one.tl > two.tl
flashtl check two.tl && grep -c 'for j = ' two.tl
flashtl verify two.tl --gpu h200 --on emulator --shapes 260x260 --case 0 | results
# A ring of values in two loops, one inside the other, each of which moves it on: with and without a generation of
# the outer one's own, and in loops of an even number of iterations.
cat > chain.tl <<'TL'
kernel nested
let kv_len = 448
Input Q (b in batch; q in q_len, d)
Input K (b in batch; kv in kv_len, d)
Input V (b in batch; kv in kv_len, d)
Output O f32 (b in batch; q in q_len, d)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
TL
cat > nested.tl <<'TL'
kernel nested for h200
let d = 64, BM = 64, BN = 64, kv_len = 448
Input Q f16 (b in batch; q in q_len, d)
Input K f16 (b in batch; kv in kv_len, d)
Input V f16 (b in batch; kv in kv_len, d)
Output O f32 (b in batch; q in q_len, d)
grid b in batch, q_block in q_len/BM
Allocate Q in shared f16 (BM, d) swizzled 128
Allocate K in shared f16 (BN, d) swizzled 128 stages 2
Allocate V in shared f16 (BN, d) swizzled 128 stages 2
role load with 1 warp
    Copy Q (BM, d) in coordinate [b, L = q_block] from global to shared by tma async
    Copy K (BN, d) in coordinate [b, L = 0] from global to shared by tma async
    for i = 0:2
        Copy K (BN, d) in coordinate [b, L = i*3 + 1] from global to shared by tma async
        Copy V (BN, d) in coordinate [b, L = i*3] from global to shared by tma async
        for j = 0:2
            Copy K (BN, d) in coordinate [b, L = i*3 + j + 2] from global to shared by tma async
            Copy V (BN, d) in coordinate [b, L = i*3 + j + 1] from global to shared by tma async
        end
    end
    Copy V (BN, d) in coordinate [b, L = 6] from global to shared by tma async
end
role math with 1 warpgroup
    Allocate S in register f32 (BM, BN) as mma_C
    Allocate P in register f16 (BM, BN) as mma_C stages 2
    Allocate O in register f32 (BM, d) as mma_C
    Compute Fill 0 and get O
    Wait Q_shared
    Wait K_shared
    Compute GEMM Q_shared, K_shared.T and get S by m64n64k16 async
    Wait S
    Release K_shared
    Compute Cast S and get P
    Reshape P from mma_C to mma_A
    for i = 0:2
        Wait K_shared
        Compute GEMM Q_shared, K_shared.T and get S by m64n64k16 async
        Wait V_shared
        Compute GEMM P, V_shared and accumulate O by m64n64k16 async
        Wait S
        Release K_shared
        Compute Cast S and get P
        Reshape P from mma_C to mma_A
        Wait O
        Release V_shared
        for j = 0:2
            Wait K_shared
            Compute GEMM Q_shared, K_shared.T and get S by m64n64k16 async
            Wait V_shared
            Compute GEMM P, V_shared and accumulate O by m64n64k16 async
            Wait S
            Release K_shared
            Compute Cast S and get P
            Reshape P from mma_C to mma_A
            Wait O
            Release V_shared
        end
    end
    Release Q_shared
    Wait V_shared
    Compute GEMM P, V_shared and accumulate O by m64n64k16 async
    Wait O
    Release V_shared
    Copy O (BM, d) in coordinate [b, L = q_block] from register to global
end
TL
flashtl verify nested.tl --against chain.tl --gpu h200 --on emulator | results
sed -e 's/j = 0:2/j = 0:3/; s/i\*3/i*4/g; s/L = 6/L = 8/; s/448/576/' nested.tl > odd.tl
sed 's/448/576/' chain.tl > longer.tl
flashtl verify odd.tl --against longer.tl --gpu h200 --on emulator | results
# What no instruction does is one message.
sed 's/m64n32k16/m64n20k16/' across.tl > width.tl
flashtl translate width.tl; echo "-> $?"
sed 's/swizzled 64 stages 3/swizzled 16 stages 3/' across.tl > plain.tl
flashtl translate plain.tl; echo "-> $?"
