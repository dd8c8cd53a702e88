# A caller's V in the order of accumulators, against sums in Python: what the sketch means, and its kernels by warps and by warpgroups.
# Where nothing multiplies 8 bits, and at lengths that are no whole 16s, it is refused.
cat > make.py <<'E'
import math, random
import npy
random.seed(5)
def code(x):
    step = 2.0 ** (math.floor(math.log2(max(abs(x), 2.0 ** -6))) - 3)
    return round(x / step) * step
Q, K, V = 5, 96, 32
q, k, v = [[code(random.gauss(m, 1)) for _ in range(n * V)] for n, m in ((Q, 0), (K, 0), (K, 1))]
key = [16 * (p // 16) + 2 * (p % 16 // 4) + p % 2 + 8 * (p % 4 // 2) for p in range(K)]  # at each place
npy.write("Q.npy", (Q, V), q)
npy.write("K.npy", (K, V), k)
npy.write("V.npy", (V, K), [v[key[p] * V + d] for d in range(V) for p in range(K)])
npy.write("short.npy", (V, K - 6), [0.0] * (V * (K - 6)))
npy.write("short_K.npy", (K - 6, V), [0.0] * (V * (K - 6)))
want = []
for i in range(Q):
    s = [sum(q[i * V + d] * k[j * V + d] for d in range(V)) * 0.125 for j in range(K)]
    w = [math.exp(x - max(s)) for x in s]
    want += [sum(w[j] * v[j * V + d] for j in range(K)) / sum(w) for d in range(V)]
npy.write("want.npy", (Q, V), want)
E
python3 make.py
cat > compare.py <<'E'
import sys
import npy
want, got = npy.read("want.npy")[1], npy.read(sys.argv[1])[1]
worst = max(abs(a - b) for a, b in zip(want, got))
print("    right" if worst < float(sys.argv[2]) else f"    off by {worst:.3g}")
E
cat > permuted.tl <<'T'
kernel attention
let d = 32, dv = 32
Input  Q e4m3 (q in q_len, d)
Input  K e4m3 (kv in kv_len, d)
Input  V e4m3 (dv, kv in kv_len) permuted where kv_len % 16 == 0
Input  scale f32 where scale > 0
Output O f32 (q in q_len, dv)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, scale and get S
    Compute Softmax S
    Copy V from global to shared
    Compute GEMM S, V.T and accumulate O
end
Copy O from register to global
T
echo "what it means"
flashtl run permuted.tl --in Q=Q.npy --in K=K.npy --in V=V.npy --let scale=0.125 --out O=got.npy
python3 compare.py got.npy 1e-4
for gpu in l40s h200; do
    echo "$gpu"
    for on in interpreter emulator; do
        flashtl run permuted.tl --gpu $gpu --on $on --in Q=Q.npy --in K=K.npy --in V=V.npy --let scale=0.125 --out O=got.npy
        python3 compare.py got.npy 0.05
    done
done
echo "refused"
flashtl reason permuted.tl --gpu a100
flashtl reason permuted.tl --gpu h200 --let products=16
flashtl run permuted.tl --in Q=Q.npy --in K=short_K.npy --in V=short.npy --let scale=0.125 --out O=got.npy
