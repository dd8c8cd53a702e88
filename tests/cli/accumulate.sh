# Every way of a Copy out of a kernel adds where it says `and accumulate`: to what is there, of blocks of
# every place of the grid, and at cut edges. The ways are lines, fragments, vectors and shared memory.
cat > add.tl <<'P'
kernel add for a100
let BM = 32, BN = 64
Input  W f32 (row in row_len, column in column_len)
Input  v f32 (part in parts; column in column_len)
Output A f32 (row in row_len, column in column_len)
Output B f32 (row in row_len, column in column_len)
Output C f32 (row in row_len, column in column_len)
Output D f32 (row in row_len, column in column_len)
Output m f32 (row in row_len)
Output n f32 (column in column_len)
grid row_block in row_len/BM, column_block in column_len/BN
Allocate W in shared f32 (BM, BN) swizzled 128
role move with 2 warps
    Allocate A in register f32 (BM, BN) as mma_C
    Allocate B in register f32 (BM, BN) as lines
    Allocate D in register f16 (BM, BN) as mma_C
    Allocate m in register f32 (BM) as rows of A
    Allocate v in register f32 (BN) as columns of A
    Copy W (BM, BN) in coordinate [L = row_block, L = column_block] from global to shared by cp_async async
    Wait W_shared
    Copy W from shared to register and get A
    Copy W from shared to register and get B
    Compute Cast A_register and get D_register
    Compute RowSum A_register and get m_register
    Copy v (BN) in coordinate [row_block, L = column_block] from global to register
    Copy A (BM, BN) in coordinate [L = row_block, L = column_block] from register to global and accumulate A
    Copy B (BM, BN) in coordinate [L = row_block, L = column_block] from register to global and accumulate B
    Copy W (BM, BN) in coordinate [L = row_block, L = column_block] from shared to global and accumulate C
    Copy D (BM, BN) in coordinate [L = row_block, L = column_block] from register to global and accumulate D
    Copy m (BM) in coordinate [L = row_block] from register to global and accumulate m
    Copy v (BN) in coordinate [L = column_block] from register to global and accumulate n
    Release W_shared
end
P
cat > judge.py <<'P'
import sys
import npy
rows, columns = map(int, sys.argv[2:])
w = [(7 * i % 64 - 20) / 8 for i in range(rows * columns)]
at = lambda r, c: w[r * columns + c]
whole = [3 + x for x in w]
sums = {"m": [3 + sum(at(r, c) for c in range(columns)) for r in range(rows)],
        "n": [3 + -(-rows // 32) * (c - 9) for c in range(columns)]}
shapes = {"m": (rows,), "n": (columns,)}
if sys.argv[1] == "make":
    npy.write("W.npy", (rows, columns), w)
    npy.write("v.npy", (-(-rows // 32), columns), -(-rows // 32) * [c - 9 for c in range(columns)])
for name in "ABCDmn":
    shape, want = shapes.get(name, (rows, columns)), sums.get(name, whole)
    if sys.argv[1] == "make":
        npy.write(name + ".npy", shape, [3.0] * len(want))
    else:
        print(end=f" {name} {'adds' if npy.read('to_' + name + '.npy') == (shape, tuple(want)) else 'DIFFERS'}")
P
export PYTHONPATH="$TESTS"
for shape in '64 128' '70 130' '33 67'; do
    python3 judge.py make $shape
    for on in interpreter emulator; do
        flashtl run add.tl --on $on --in W=W.npy,v=v.npy $(for o in A B C D m n; do echo --in $o=$o.npy --out $o=to_$o.npy; done)
        echo "$shape $on:$(python3 judge.py judge $shape)"
    done
done
# The tensor memory accelerator adds boxes, of which the tensor's ends cut some.
sed 's/for a100/for h200/; s/BN = 64/BN = 64, column_len = 128/
     s/\( *\)\(Copy W .* from shared to global and accumulate C\)/\1\2 by tma async\n\1Wait C_global/' add.tl > boxes.tl
python3 judge.py make 70 128
for on in interpreter emulator; do
    flashtl run boxes.tl --on $on --in W=W.npy,v=v.npy $(for o in A B C D m n; do echo --in $o=$o.npy --out $o=to_$o.npy; done)
    echo "boxes $on:$(python3 judge.py judge 70 128)"
done
# A place that is not global memory is refused, and so is what several tiles would add alike.
sed 's/from shared to register and get B/from shared to register and accumulate B/' add.tl | flashtl check - 2>&1
sed 's/\[row_block, L = column_block\] from global to register/[0, L = column_block] from global to register/' add.tl | flashtl check - 2>&1
# An Output that is only added to begins at 0, so that there is something to judge.
cat > experts.tl <<'P'
kernel experts
Input  X (e in experts; m in m_len, k in k_len)
Input  W (e in experts; n in n_len, k in k_len)
Output Y f32 (m in m_len, n in n_len)
let Ye (e in experts; m in m_len, n in n_len) = Y[m, n]
for j = 0:k_len/BK
    Copy X from global to shared
    Copy W from global to shared
    Compute GEMM X, W.T and accumulate C
end
Copy C from register to global and accumulate Ye
P
flashtl verify experts.tl --gpu a100 --dtype f16 --on emulator --shapes 3x40x33x70 | tail -1 | sed "s,; [0-9.]* s$,,"
flashtl reason experts.tl --gpu a100 | sed 's/Copy C .* accumulate Ye/&\n    &/' > twice.tl
flashtl verify twice.tl --against experts.tl --dtype f16 --on emulator --shapes 3x40x33x70 2>&1 | tail -1 | sed "s,; [0-9.]* s$,,"
