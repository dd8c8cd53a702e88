# A cache of 8 or 4 bits beside queries of 16, with a scale for each token: every class of GPU gives what the interpreter does,
# whatever the scales are (0, negative, infinite, NaN) and however long each sequence is; pages; what few rows are given.
. "$TESTS/sampling.inc"
cat > make.py <<'P'
import math, random
import npy
random.seed(3)
B, N, QH, KH, D = 6, 70, 4, 2, 64
def draw(n, s=1):
    return [random.gauss(0, 1) * s for _ in range(n)]
npy.write("Q.npy", (B, QH, D), draw(B * QH * D), "f2")
for x in "KV":
    npy.write(x + ".npy", (B, N, KH, D), [max(-127, min(127, round(v))) for v in draw(B * N * KH * D, 30)], "i1")
ks, vs = [random.uniform(.01, .05) for _ in range(B * N * KH)], [random.uniform(.01, .05) for _ in range(B * N * KH)]
for b, bad in enumerate((0.0, -0.03, math.inf, -math.inf, math.nan)):
    for key in (5, 40):
        ks[(b * N + key) * KH] = bad
    vs[(b * N + 7) * KH + 1] = bad
npy.write("ks.npy", (B, N, KH), ks)
npy.write("vs.npy", (B, N, KH), vs)
npy.write("lens.npy", (B,), [70, 33, 64, 70, 45, 0], "i4")
P
cat > compare.py <<'P'
import npy
a, b = npy.read("want.npy")[1], npy.read("got.npy")[1]
wrong = [i for i, (x, y) in enumerate(zip(a, b)) if (x != x) != (y != y) or (x == x and abs(x - y) > 2e-3 * (1 + abs(x)))]
nan = sorted({(i // 256, i // 64 % 4) for i, x in enumerate(a) if x != x})
print(len(wrong), "of", len(a), "differ; NaN in (sequence, head)", *nan)
P
python3 make.py
cat > decode.tl <<'P'
kernel decode
let group = q_heads/kv_heads, d = 64, dv = 64
Input  Q_all f16 (b in batch, head in q_heads, d)
Input  K_all (b in batch, n in kv_len, h in kv_heads, d) where q_heads % kv_heads == 0
Input  V_all (b in batch, n in kv_len, h in kv_heads, dv)
Input  k_scale f32 (b in batch, n in kv_len, h in kv_heads)
Input  v_scale f32 (b in batch, n in kv_len, h in kv_heads)
Input  lens i32 (b in batch)
Input  scale f32 where scale > 0
Output O_all f16 (b in batch, head in q_heads, dv)
let len = lens[b]
let Q (b in batch, h in kv_heads; r in group, d) = Q_all[b, h*group + r, d]
let K (b in batch, h in kv_heads; kv in len, d) = K_all[b, kv, h, d]
let V (b in batch, h in kv_heads; kv in len, dv) = V_all[b, kv, h, dv]
let ks (b in batch, h in kv_heads; kv in len) = k_scale[b, kv, h]
let vs (b in batch, h in kv_heads; kv in len) = v_scale[b, kv, h]
let O (b in batch, h in kv_heads; r in group, dv) = O_all[b, h*group + r, dv]
Copy Q from global to shared
for j = 0:len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Copy ks from global to register
    Compute Multiply S, ks and get S
    Compute Multiply S, scale and get S
    Compute Softmax S
    Copy vs from global to register
    Compute Multiply S, vs and get S
    Copy V from global to shared
    Compute GEMM S, V and accumulate O
end
Copy O from register to global
P
inputs="--in Q_all=Q.npy --in K_all=K.npy --in V_all=V.npy --in k_scale=ks.npy --in v_scale=vs.npy --in lens=lens.npy --let scale=0.125"
for type in i8 e4m3 i4; do
    flashtl run decode.tl --type K_all=$type,V_all=$type --on interpreter $inputs --out O_all=want.npy
    for gpu in t4 a100 l40s h200; do
        takes "$type, $gpu:" || continue
        flashtl run decode.tl --type K_all=$type,V_all=$type --gpu $gpu --on emulator $inputs --out O_all=got.npy
        echo "$type, $gpu: $(python3 compare.py)"
    done
done
flashtl run decode.tl --type K_all=i8,V_all=i8 --gpu a100 --on emulator ${inputs%0.125}nan --out O_all=got.npy
sed 's/n in kv_len, h in kv_heads/page in pages, slot in page_len, h in kv_heads/; s/^Input  lens/Input  table i32 (b in batch, p in most)\nInput  lens/
    s/_all\[b, kv, h, /_all[table[b, kv\/page_len], kv % page_len, h, /; s/_scale\[b, kv, h\]/_scale[table[b, kv\/page_len], kv % page_len, h]/
    s/(b in batch, page/(page/; s/d = 64, dv = 64/d = 128, dv = 128/' decode.tl > paged.tl
for gpu in t4 a100 l40s h200; do
    for type in e4m3 i8 i4; do
        takes "pages of $type, $gpu:" || continue
        flashtl verify paged.tl --type K_all=$type,V_all=$type --gpu $gpu --let q_heads=8,kv_heads=2,page_len=16 --case 0..3 > out 2>&1 &&
            echo "pages of $type, $gpu: right" || tail -n 3 out
    done
done
# Few rows have a lone warp; where copies run on their own, what is in flight is as memory has it.
flashtl reason decode.tl --type K_all=e4m3,V_all=i8 --let q_heads=8,kv_heads=2 --gpu a100 | grep -E "_raw|^role|in place"
