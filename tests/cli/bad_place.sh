# Elements outside of tensors: what lengths decide is told before anything runs, the rest when it does.
program() {
    cat <<P
kernel shifted for a100
let BM = 32, BN = 64
Input  X f16 (row in row_len, column in column_len)
Input  order i32 (row in row_len)
Output Y f16 (row in row_len, column in column_len)
let Z (row in row_len, column in column_len) = $1
grid row_block in row_len/BM, column_block in column_len/BN
role move with 4 warps
    Allocate Y in register f16 (BM, BN) as lines
    Copy Z (BM, BN) in coordinate [L = $2, L = column_block] from global to register and get Y
    Copy Y (BM, BN) in coordinate [L = row_block, L = column_block] from register to global
end
P
}
program 'X[row + 5, column]' row_block | flashtl check; echo "-> $?"
program 'X[row, column]' 'row_block - 1' | flashtl check; echo "-> $?"
program 'X[order[row], column]' row_block > table.tl
flashtl check table.tl; echo "-> $?"
python3 - <<'P'
import npy
npy.write("x.npy", (4, 8), [float(i) for i in range(32)], "f2")
for name, rows in (("right", [3, 1, 2, 0]), ("before", [3, -1, 2, 0]), ("past", [3, 1, 4, 0])):
    npy.write(name + ".npy", (4,), rows, "i4")
P
for order in right before past; do
    flashtl run table.tl --on interpreter --in X=x.npy,order=$order.npy --out Y=y.npy 2>&1 | sed 's/^ .*//'
done
