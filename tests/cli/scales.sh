# Scales that are 0, negative, infinite or no number: a number with a condition is refused at the launch; in a table they mean
# what arithmetic says, with keys and values that widen and with products of 8 bits, by warps and by warpgroups.
cat > make.py <<'E'
import math, random
import npy
random.seed(3)
def code(x):
    step = 2.0 ** (math.floor(math.log2(max(abs(x), 2.0 ** -6))) - 3)
    return round(x / step) * step
Q, K, V = 5, 70, 32
q, k, v = [[code(random.gauss(m, 1)) for _ in range(n * V)] for n, m in ((Q, 0), (K, 0), (K, 1))]
npy.write("Q.npy", (Q, V), q)
npy.write("K.npy", (K, V), k)
npy.write("V.npy", (K, V), v)
npy.write("T.npy", (V, K), [v[i % K * V + i // K] for i in range(K * V)])
nan, inf = math.nan, math.inf
tables = {"zero": [0.0] * K, "negative": [-1.0] * K, "nan": [nan] * K, "infinite": [inf] * K, "one_zero": [1.0] * 33 + [0.0] + [1.0] * 36,
          "one_negative": [1.0] * 33 + [-2.0] + [1.0] * 36, "one_nan": [1.0] * 33 + [nan] + [1.0] * 36,
          "one_infinite": [1.0] * 33 + [inf] + [1.0] * 36, "one_minus_infinite": [1.0] * 33 + [-inf] + [1.0] * 36}
def attention(scales):
    rows = []
    for i in range(Q):
        s = [sum(q[i * V + d] * k[j * V + d] for d in range(V)) * 0.125 * scales[j] for j in range(K)]
        m = nan if any(x != x for x in s) else max(s)
        w = [nan if m != m or x == inf else math.exp(x - m) for x in s]
        rows += [sum(w[j] * v[j * V + d] for j in range(K)) / sum(w) for d in range(V)]
    return rows
with open("tables", "w") as names:
    for name, scales in tables.items():
        npy.write(name + ".npy", (K,), scales)
        npy.write(name + "_want.npy", (Q, V), attention(scales))
        names.write(name + "\n")
E
python3 make.py
cat > compare.py <<'E'
import sys
import npy
for name in open("tables").read().split():
    want, got = npy.read(name + "_want.npy")[1], npy.read(f"{name}_got.npy")[1]
    far = [abs(a - b) for a, b in zip(want, got) if a == a and b == b]
    if [x != x for x in want] != [x != x for x in got] or max(far, default=0) > float(sys.argv[1]):
        print(f"    {name}: {sum(x != x for x in want)} elements are no numbers, here {sum(x != x for x in got)}; others are off by {max(far, default=0):.3g}")
E
cat > rows.tl <<'T'
kernel scaled
let d = 32, dv = 32
Input  Q e4m3 (q in q_len, d)
Input  K e4m3 (kv in kv_len, d)
Input  V e4m3 (kv in kv_len, dv)
Input  k_scale f32 (kv in kv_len)
Input  scale f32 where scale > 0
Output O f32 (q in q_len, dv)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Multiply S, scale*k_scale[kv] and get S
    Compute Softmax S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
T
sed 's/V e4m3 (kv in kv_len, dv)/V e4m3 (dv, kv in kv_len)/; s/GEMM S, V/GEMM S, V.T/' rows.tl > turned.tl
for name in $(cat tables); do
    values=V; printf -- '--in Q=Q.npy\n--in K=K.npy\n--in V=V.npy\n--in k_scale=%s.npy\n--let scale=0.125\n--out O=%s_got.npy\n' $name $name > $name.rows
    sed 's/V=V/V=T/' $name.rows > $name.turned
done
try() { # text, error, options
    text=$1 most=$2; shift 2
    then=; for name in $(sed 1d tables); do then="$then --then $name.$text"; done
    for on in interpreter emulator; do
        echo "$text.tl $* on the $on"
        flashtl run $text.tl --on $on $(cat zero.$text) $then "$@" && python3 compare.py $most
    done
}
try rows 0.003 --gpu t4
try rows 0.003 --gpu a100
try rows 0.3 --gpu l40s
try turned 0.3 --gpu h200 --let products=8
# The number has a condition: each of these is told at the launch.
for scale in 0 -0.125 nan inf -inf; do
    flashtl run rows.tl --on interpreter --gpu t4 --in Q=Q.npy --in K=K.npy --in V=V.npy --in k_scale=one_zero.npy --let scale=$scale --out O=O.npy
done
