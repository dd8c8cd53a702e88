# A left operand in registers, divided over executors in every way: those side by side hold the same rows, all columns of them.
cat > product.tl <<'TL'
kernel product for GPU
let d = 64, BM = 64, BN = 32
Input Q f16 (q in q_len, d)
Input K f16 (kv in kv_len, d)
Output S f32 (q in q_len, kv in kv_len)
grid i in q_len/BM, j in kv_len/BN
Allocate Q in shared f16 (BM, d) swizzled 128
Allocate K in shared f16 (BN, d) swizzled 128
role math with EXECUTORS
    Allocate S in register f32 (BM, BN) as mma_C DIVIDED
    Allocate Q in register f16 (BM, d) as mma_A DIVIDED
    Copy Q (BM, d) in coordinate [L = i] from global to shared by cp_async async
    Copy K (BN, d) in coordinate [L = j] from global to shared by cp_async async
    Wait Q_shared
    Wait K_shared
    Copy Q from shared to register
    Compute GEMM Q_register, K_shared.T and get S_register by ATOM
    WAIT
    Release Q_shared
    Release K_shared
    Copy S (BM, BN) in coordinate [L = i, L = j] from register to global
end
TL
try() {
    echo "$2 $3"
    sed "s/GPU/$1/; s/EXECUTORS/$2/; s/DIVIDED/$3/; s/ATOM/$4/; s/WAIT/$5/" product.tl > one.tl
    flashtl verify one.tl --on interpreter --shapes 70x40,64x32 | tail -1 | sed 's/; worst.*//'
    flashtl translate one.tl | grep -A 5 'unsigned \(source\|place\) = Q_shared' | sed -n 's/ *const int line = \(.*\), byte.*/\1/p'
}
try a100 '4 warps' '' m16n8k16
try a100 '4 warps' 'over (2, 2)' m16n8k16
try a100 '4 warps' 'over (1, 4)' m16n8k16
try h200 '1 warpgroup' '' 'm64n32k16 async' 'Wait S_register'
try h200 '2 warpgroups' 'over (1, 2)' 'm64n16k16 async' 'Wait S_register'
