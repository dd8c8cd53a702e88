# RowArgMax: where the largest of a row is, over a whole axis, block by block, and after a product.
results() {
    sed -e 's/ *[0-9.e+-]* ms$//' -e 's/; [0-9.]* s$//' | tail -1
}
cat > whole.tl <<'TL'
kernel whole
Input  X (row in rows, n)
Output best i32 (row in rows)
Copy X from global to shared
Compute RowArgMax X and get best
Copy best from register to global
TL
flashtl verify whole.tl --gpu a100 --dtype f16 --let n=136 --on emulator --shapes 113,1 | results
# Half of the elements are equal: the first one counts.
sed -e 's/global to shared/global to register/' -e 's/^Compute RowArgMax/Compute Min X, 0 and get X\n&/' whole.tl > equal.tl
flashtl verify equal.tl --gpu a100 --dtype f16 --let n=136 --on emulator --shapes 113,1 | results
flashtl verify equal.tl --gpu t4 --dtype f16 --let n=64 --on emulator --shapes 113,1 | results
# All of them -inf.
sed 's/^Compute RowArgMax/Compute Mask X where n >= 0\n&/' whole.tl > none.tl
flashtl verify none.tl --gpu a100 --dtype f16 --let n=136 --on emulator --shapes 113 | results
cat > greedy.tl <<'TL'
kernel greedy
Input  X (row in rows, n in vocabulary)
Output best i32 (row in rows)
Compute Fill 0 and get best
Compute Fill -1e30 and get top
for j = 0:vocabulary/BN
    Copy X from global to shared
    Compute RowMax X and get most
    Compute RowArgMax X and get place
    Compute Mask best, place where most > top
    Compute Max top, most and get top
end
Copy best from register to global
TL
flashtl reason greedy.tl --gpu a100 --dtype f16 | grep -o 'Compute RowArgMax.*'
flashtl verify greedy.tl --gpu a100 --dtype f16 --on emulator --shapes 113x1030,1x1 | results
cat > nearest.tl <<'TL'
kernel nearest
Input  A (i in rows, d)
Input  B (n in words, d)
Output best i32 (i in rows)
Copy A from global to shared
Compute Fill 0 and get best
Compute Fill -1e30 and get top
for j = 0:words/BN
    Copy B from global to shared
    Compute GEMM A, B.T and get S
    Compute RowMax S and get most
    Compute RowArgMax S and get place
    Compute Mask best, place where most > top
    Compute Max top, most and get top
end
Copy best from register to global
TL
flashtl verify nearest.tl --gpu h200 --dtype f16 --head-dim 64 --on emulator --shapes 113x203,1x1 | results
flashtl verify nearest.tl --gpu a100 --dtype bf16 --head-dim 64 --on emulator --shapes 113x203 | results
# What it does not do, by hand.
flashtl reason greedy.tl --gpu a100 --dtype f16 --let BM=64 -o code.tl
sed 's/\(Compute RowArgMax X_register\) in coordinate \[[^]]*\]/\1/' code.tl > nowhere.tl
flashtl translate nowhere.tl
sed 's/^\( *Compute RowArgMax.*\) and get place/\1 and accumulate place/; s/^ *for j/    Compute Fill 0 and get place\n&/' code.tl > added.tl
flashtl translate added.tl
sed -e 's/Allocate \(.*\), place in register i32/Allocate \1 in register i32/' -e 's/Allocate top, most/Allocate top, most, place/' code.tl > real.tl
flashtl translate real.tl
