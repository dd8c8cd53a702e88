# Products of 8-bit integers: exact for every length, also where a sum is past what 32 bits hold, by the instructions of each GPU.
cat > make.py <<'E'
import random
import npy
random.seed(7)
def write(name, rows, columns, values):
    npy.write(name + ".npy", (rows, columns), values, "i1")
for case, m, n, k in (("small", 5, 9, 16), ("odd", 67, 35, 203), ("deep", 3, 4, 1000), ("deeper", 2, 3, 140000)):
    least = k >= 1000
    a = [-128 if least else random.randint(-128, 127) for _ in range(m * k)]
    b = [-128 if least else random.randint(-128, 127) for _ in range(n * k)]
    write(case + "_A", m, k, a)
    write(case + "_B", n, k, b)
    want = [float(k * 16384 if least else sum(a[i * k + x] * b[j * k + x] for x in range(k))) for i in range(m) for j in range(n)]
    npy.write(case + "_want.npy", (m, n), want)
E
python3 make.py
cat > compare.py <<'E'
import sys
import npy
for case in ("small", "odd", "deep", "deeper"):
    want, got = npy.read(case + "_want.npy")[1], npy.read(case + "_got.npy")[1]
    # Sums of up to 2^24 are exact; past it f32 adds up blocks that are.
    far = max(abs(x - y) / max(abs(x), 1) for x, y in zip(want, got))
    print(f"    {case}: " + ("exact" if far == 0 else "right" if case == "deeper" and far < 1e-5 else f"off by {far}"))
E
cat > product.tl <<'T'
kernel product
Input  A i8 (m in m_len, k in k_len)
Input  B i8 (n in n_len, k in k_len)
Output C f32 (m in m_len, n in n_len)
for j = 0:k_len/BK
    Copy A from global to shared
    Copy B from global to shared
    Compute GEMM A, B.T and accumulate C
end
Copy C from register to global
T
for case in odd deep deeper; do
    printf -- '--in A=%s_A.npy\n--in B=%s_B.npy\n--out C=%s_got.npy\n' $case $case $case > $case.then
done
for gpu in t4 a100 l40s h200; do
    flashtl reason product.tl --gpu $gpu > $gpu.tl
    echo "$gpu: $(grep -c 'GEMM.*by m16n8k32' $gpu.tl) products of 8 bits"
    for on in interpreter emulator; do
        echo "  $on"
        flashtl run $gpu.tl --on $on --in A=small_A.npy --in B=small_B.npy --out C=small_got.npy --then odd.then --then deep.then --then deeper.then && python3 compare.py
    done
done
# The same TL Code for a GPU whose sketches take 16 bits: its warps have the instruction.
sed 's/ for a100/ for h200/' a100.tl > warps.tl
for on in interpreter emulator; do
    flashtl run warps.tl --on $on --in A=small_A.npy --in B=small_B.npy --out C=small_got.npy --then odd.then --then deep.then --then deeper.then && python3 compare.py
done
# Whole in a tile, several sums, and 16 bits where they are asked for.
sed 's/k in k_len/k/; s/for j.*//; s/^end//; s/accumulate C/get C/' product.tl > one.tl
flashtl explain one.tl --gpu a100 --let k=96 | grep -A 1 '^  sums of whole\|^  products'
flashtl verify one.tl --gpu t4 --let k=96 --on emulator | tail -n 1 | sed 's/;.*//'
flashtl explain product.tl --gpu a100 --let products=16 | grep -A 1 '^  products'
# What i32 does not hold is refused.
sed 's/Compute GEMM A_shared, B_shared.T and get T/Compute GEMM A_shared, B_shared.T and accumulate T/' a100.tl | flashtl check -
sed 's/T in register i32/T in register f32/' a100.tl | flashtl check -
