# A length that is made of others is not below 0: the launch says so, and no case is drawn that breaks it.
cat > offset.tl <<'TL'
kernel offset
let d = 16, e = 16
Input  Q (q in rows, d)
Input  K (place in room, d)
Input  V (place in room, e)
let len = room - 3
let K1 (t in len, d) = K[t + 3, d]
let V1 (t in len, e) = V[t + 3, e]
Output O (q in rows, e)
Copy Q from global to shared
for i = 0:len/BN
    Copy K1 from global to shared
    Compute GEMM Q, K1.T and get S
    Compute Softmax S
    Copy V1 from global to shared
    Compute GEMM S, V1 and accumulate O
end
Copy O from register to global
TL
echo "drawn below 0:" $(flashtl verify offset.tl --shapes decisive --more 200 --list | grep -c -E 'room [0-2],')
echo "drawn at 0:" $(flashtl verify offset.tl --shapes decisive --more 200 --list | grep -c -E 'room 3,' | sed 's/^[1-9][0-9]*$/some/')
flashtl verify offset.tl --gpu a100 --on interpreter --shapes 5x2; echo "-> $?"
flashtl verify offset.tl --gpu a100 --on emulator --shapes 5x3 | grep -c pass
# The same of arrays, wherever they run.
python3 - <<'P'
import npy
for name, rows in (("q", 4), ("k", 2), ("k3", 3)):
    npy.write(name + ".npy", (rows, 16), [0.5] * (rows * 16), "f2")
P
for on in '--on interpreter' '--gpu a100 --on interpreter' '--gpu a100 --on emulator'; do
    flashtl run offset.tl $on --in Q=q.npy --in K=k.npy --in V=k.npy --out O=o.npy; echo "-> $?"
    flashtl run offset.tl $on --in Q=q.npy --in K=k3.npy --in V=k3.npy --out O=o.npy; echo "-> $?"
done
