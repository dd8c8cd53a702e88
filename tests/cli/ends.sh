# Chains of operations on tiles that reach past the end of an axis, and what they end in: the passes ask
# for no more masks and no fewer than the checks, and results are right. The factor of masked scores may
# be negative; exponentials may overflow past the end; what is taken away may be added again.
cat > make.py <<'P'
import random
import npy
random.seed(5)
for name, shape in (("Q", (33, 64)), ("K", (65, 64)), ("V", (65, 64)), ("u", (33,)), ("w", (65,))):
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    npy.write(name + ".npy", shape, [random.choice((-1, 1)) * random.randint(1, 8) / 16 for i in range(count)])
STEPS = ["Multiply S, scale", "Multiply S, -0.5", "Add S, 1", "Subtract S, 1", "Add S, -1", "Exp S", "Abs S",
         "Multiply S, u", "Add S, u", "Subtract S, u", "Tanh S", "Max S, 0", "Min S, 0", "Multiply S, 0.25", "Max S, -1",
         "Erfc S", "Multiply S, w[kv]", "Add S, w[kv]", "MultiplyAdd S, scale, 1", "Divide S, 2"]
for n in range(12):
    lines = ["kernel chain", "Input Q (q in q_len, d)", "Input K (kv in kv_len, d)", "Input V (kv in kv_len, d)",
             "Input u f32 (q in q_len)", "Input w f32 (kv in kv_len)",
             "Input scale f32" + random.choice(["", " where scale > 0", " where scale < 0", " where scale >= 0"]), None,
             "Copy Q from global to shared", None, "for j = 0:kv_len/BN",
             "Copy K from global to shared", "Compute GEMM Q, K.T and get S"]
    steps = random.choices(STEPS, k=random.randint(0, 4))
    if random.random() < 0.4:
        steps.insert(random.randint(0, len(steps)), random.choice(["Mask S where kv > q", "Mask S, 0 where kv > q"]))
    for step in steps:
        if step == "Exp S":
            lines.append("Compute Multiply S, 0.125 and get S")
        lines.append("Compute " + step + ("" if "where" in step else " and get S"))
    end = random.choice(["RowSum", "RowMax", "GEMM", "Softmax"])
    if end in ("RowSum", "RowMax"):
        lines[7] = "Output R f32 (q in q_len)"
        lines += [f"Compute {end} S and accumulate R", "end", "Copy R from register to global"]
    else:
        lines[7] = "Output R (q in q_len, d)"
        lines += ["Compute Softmax S"] * (end == "Softmax") + [
            "Copy V from global to shared", "Compute GEMM S, V and accumulate R", "end", "Copy R from register to global"]
    lines[9] = "Copy u from global to register" * any(", u" in step for step in steps)
    open(f"{n}.tl", "w").write("\n".join(lines) + "\n")
P
cat > judge.py <<'P'
import math, sys
import npy
want, got = npy.read("want.npy")[1], npy.read("got.npy")[1]
kind = lambda x: "nan" if x != x else x if math.isinf(x) else 0
size = math.sqrt(sum(x * x for x in want if not kind(x)) / len(want)) + 1e-3
bad = [i for i in range(len(want)) if kind(want[i]) != kind(got[i]) or (not kind(want[i]) and abs(want[i] - got[i]) > 0.02 * size + 0.02 * abs(want[i]))]
print(f"element {bad[0]} of {len(want)} is {got[bad[0]]}, and should be {want[bad[0]]}" if bad else "right")
P
python3 make.py
for n in $(seq 0 11); do
    inputs="--in Q=Q.npy,K=K.npy,V=V.npy,u=u.npy,w=w.npy --dtype f16"
    for scale in 0.3 -0.3; do
        case $scale in
        -*) grep -q 'scale >' $n.tl && continue;;
        *) grep -q 'scale <' $n.tl && continue;;
        esac
        flashtl run $n.tl --on interpreter $inputs --let scale=$scale --out R=want.npy > why 2>&1 || { echo "$n: $(head -1 why)"; continue; }
        if flashtl run $n.tl --on interpreter --gpu a100 $inputs --let scale=$scale --let d=64 --out R=got.npy > why 2>&1; then
            python3 judge.py
        else
            head -1 why
        fi > verdict
        [ "$(cat verdict)" = right ] && echo right >> good || { echo "$n, scale $scale: $(cat verdict)"; cat $n.tl; }
    done
done
echo "$(wc -l < good) right"

# What is taken away and added again is 0 past the end: no mask, and none is asked for.
cat > cancel.tl <<'P'
kernel cancel
Input  Q (q in q_len, d)
Input  K (kv in kv_len, d)
Output R f32 (q in q_len)
Copy Q from global to shared
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Subtract S, 1 and get S
    Compute Add S, 1 and get S
    Compute RowSum S and accumulate R
end
Copy R from register to global
P
# The power of a score less a log-sum-exp far below 0 overflows past the end, where the score is 0.
cat > gradient.tl <<'P'
kernel gradient
Input  Q (q in q_len, d)
Input  K (kv in kv_len, d)
Input  V (kv in kv_len, d)
Input  dO (q in q_len, d)
Input  lse f32 (q in q_len)
Input  delta f32 (q in q_len)
Output R (q in q_len, d)
Copy Q from global to shared
Copy dO from global to shared
Copy lse from global to register
Copy delta from global to register
for j = 0:kv_len/BN
    Copy K from global to shared
    Compute GEMM Q, K.T and get S
    Compute Subtract S, lse and get S
    Compute Exp S and get P
    Copy V from global to shared
    Compute GEMM dO, V.T and get dP
    Compute Subtract dP, delta and get dP
    Compute Multiply P, dP and get dS
    Compute GEMM dS, K and accumulate R
end
Copy R from register to global
P
python3 - <<'P'
import npy
q = [20 if i % 64 == 0 else 0.25 * (i % 5 - 2) for i in range(33 * 64)]
k = [-10 if i % 64 == 0 else 0.25 * (i % 7 - 3) for i in range(65 * 64)]
npy.write("Q.npy", (33, 64), q), npy.write("K.npy", (65, 64), k)
npy.write("lse.npy", (33,), [-190.0] * 33), npy.write("delta.npy", (33,), [0.5] * 33)
P
for gpu in a100 h200; do
    for name in cancel gradient; do
        inputs='--in Q=Q.npy,K=K.npy --dtype f16'
        [ $name = gradient ] && inputs="$inputs --in V=V.npy,dO=Q.npy,lse=lse.npy,delta=delta.npy"
        flashtl run $name.tl --on interpreter $inputs --out R=want.npy
        flashtl run $name.tl --on emulator --gpu $gpu $inputs --let d=64 --out R=got.npy && echo "$name $gpu: $(python3 judge.py)"
    done
done
# Without a sign a factor keeps no end at minus infinity: TL Code that relies on it is refused.
flashtl sketch gqa > known.tl
flashtl reason known.tl --gpu t4 --head-dim 64 -o code.tl
flashtl check code.tl && echo 'with the sign: right'
sed 's/ where scale > 0//' code.tl | flashtl check - 2>&1 | grep error
sed 's/ where scale > 0//' known.tl > unknown.tl
for gpu in t4 h200; do
    flashtl reason unknown.tl --gpu $gpu --head-dim 64 -o code.tl && flashtl check code.tl && echo "without it, $gpu: right"
done
