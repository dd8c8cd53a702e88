# Numbers of 4 bits: where they are refused, with what; what a launch asks of rows; both ways in which memory can be given.
cat > make.py <<'P'
import npy
npy.write("X.npy", (2, 64), [i % 5 - 2 for i in range(128)])
npy.write("W.npy", (3, 64), [(i * 7) % 16 - 8 for i in range(192)], "i1")
npy.write("odd.npy", (2, 33), [1.0] * 66)
npy.write("odd_w.npy", (3, 33), [1] * 99, "i1")
P
python3 make.py
cat > gemm.tl <<'P'
kernel gemm
Input  X f16 (r in rows, c in deep)
Input  W i4 (n in columns, c in deep)
Output Y f32 (r in rows, n in columns)
for j = 0:deep/BK
    Copy X from global to shared
    Copy W from global to shared
    Compute GEMM X, W.T and accumulate S
end
Copy S from register to global and get Y
P
said() { grep -E "error|flashtl: " | sed 's/.*error: //' | head -n 1; }
for gpu in t4 h200; do
    flashtl run gemm.tl --gpu $gpu --on emulator --in X=X.npy --in W=W.npy --out Y=$gpu.npy
    flashtl run gemm.tl --gpu $gpu --on emulator --in X=odd.npy --in W=odd_w.npy --out Y=odd.npy
done
flashtl run gemm.tl --on interpreter --in X=X.npy --in W=W.npy --out Y=Y.npy && cmp Y.npy t4.npy && cmp Y.npy h200.npy && echo equal
# Results, what computes with them, rows that end within a unit or within a byte, elements that lie across.
sed 's/Output Y f32/Output Y i4/' gemm.tl | flashtl reason - --gpu a100 2>&1 | said
sed 's/    Copy W from global to shared/    Copy W from global to register\n    Compute Abs W and get W/' gemm.tl | flashtl reason - --gpu a100 2>&1 | said
flashtl reason --op gqa --head-dim 80 --type K=i4 --gpu a100 2>&1 | said
sed 's/c in deep)/c in 48)/; s/0:deep/0:48/' gemm.tl | flashtl reason - --gpu a100 2>&1 | said
sed 's/^Output/let V (n in columns, e in half) = W[n, half + e]\nOutput/; s/Input  X f16 (r in rows, c in deep)/Input  X f16 (r in rows, e in half)/; s/^Input  W.*/& where deep >= 2*half/; s/0:deep/0:half/; s/Copy W/Copy V/; s/X, W/X, V/' gemm.tl > view.tl
flashtl reason view.tl --gpu a100 2>&1 | said
sed 's/half + e/e/' view.tl > beginning.tl
flashtl reason beginning.tl --gpu a100 > code.tl 2> why; said < why; [ -s code.tl ] && flashtl translate code.tl 2>&1 > /dev/null | said
sed 's/Input  W i4 (n in columns, c in deep)/Input  W_all i4 (c in deep, n in columns)\nlet W (n in columns, c in deep) = W_all[c, n]/' gemm.tl | flashtl reason - --gpu a100 2>&1 | said
# TL Code: no product takes them, no box brings them, nothing computes with them.
flashtl reason gemm.tl --gpu h200 > code.tl
sed 's/    Copy W_raw from shared to register and get W/    Compute Multiply W_register, 2 and get W_register\n&/' code.tl | flashtl check - 2>&1 | said
sed 's/Allocate X in shared f16/Allocate X in shared i4/; s/Input  X f16/Input  X i4/; s/Allocate W in shared f16/Allocate W in shared i4/' code.tl | flashtl check - 2>&1 | said
sed 's/W_raw by cp_async async/W_raw by tma async/' code.tl > tma.tl; flashtl check tma.tl 2>&1 | said; flashtl translate tma.tl 2>&1 > /dev/null | said
flashtl reason gemm.tl --type W=i5 --gpu a100
flashtl reason --op gqa --dtype i5 --gpu a100
flashtl reason --op gqa --dtype u4 --head-dim 64 --gpu a100 | grep Input
