# A sketch, TL Code and a kernel on NumPy arrays (f2; f4 in Fortran order; f8) agree with plain Python.
python3 "$TESTS/arrays.py" make
attention() { flashtl run --op gqa --causal --in Q=q.npy --in K=k.npy,V=v.npy --let scale=0.25 "$@"; }
attention --out O=sketch.npy
attention --gpu t4 --on interpreter --out O=code.npy
attention --gpu a100 --on interpreter --out O=code_a100.npy
python3 "$TESTS/arrays.py" judge sketch.npy code.npy code_a100.npy
# What cannot be run: one sentence each.
attention --gpu t4 --on gpu; echo "-> $?"
attention --on paper; echo "-> $?"
flashtl run --op gqa --in Q=q.npy --let scale=1; echo "-> $?"
attention --in V=q.npy; echo "-> $?"
attention --out X=x.npy; echo "-> $?"
attention --out O=/no/such/folder/o.npy; echo "-> $?"
head -c 100 q.npy > cut.npy
flashtl run --op gqa --in Q=cut.npy; echo "-> $?"
flashtl run --op gqa --in Q=none.npy; echo "-> $?"
flashtl run --op gqa --in Q="$TESTS/arrays.py" 2>&1 | sed "s|'.*/|'|"
flashtl run --op gqa --in Q=q.npy --in K=k.npy --in V=q.npy --out O=o.npy --let scale=1; echo "-> $?"
flashtl run --op gqa --in Q=q.npy --in K=k.npy --in V=v.npy --out O=o.npy; echo "-> $?"
# Heads that do not divide, and no rows at all.
python3 - <<'P'
import npy
for name, heads, rows in (("q3", 3, 4), ("k2", 2, 4), ("q0", 2, 0), ("k0", 2, 0)):
    npy.write(name + ".npy", (1, heads, rows, 16), [0.5] * (heads * rows * 16), "f2")
P
for on in '--on interpreter' '--gpu t4 --on interpreter' '--gpu t4 --on emulator'; do
    flashtl run --op gqa $on --in Q=q3.npy --in K=k2.npy --in V=k2.npy --let scale=1 --out O=o.npy; echo "-> $?"
    flashtl run --op gqa $on --in Q=q0.npy --in K=k2.npy --in V=k2.npy --let scale=1 --out O=o.npy; echo "-> $?"
    flashtl run --op gqa $on --in Q=k2.npy --in K=k0.npy --in V=k0.npy --let scale=1 --out O=o.npy; echo "-> $?"
done
# A mask is a table, whatever holds it: whole numbers of 4 bytes, bytes, booleans.
cat > masked.tl <<'TL'
kernel masked
Input  X f32 (row in rows, column in columns)
Input  keep i32 (row in rows, column in columns)
Output Y f32 (row in rows, column in columns)
Copy X from global to register
Compute Mask X, 0 where keep[row, column] == 0
Copy X from register to global and get Y
TL
python3 - <<'P'
import npy
npy.write("x.npy", (2, 5), range(1, 11))
kept = [1, 0, 0, 1, 1, 0, 1, 0, 0, 1]
for kind in ("i4", "u1", "b1"):
    npy.write(f"keep_{kind}.npy", (2, 5), [k * (255 if kind == "u1" else 1) for k in kept], kind)
P
for kind in i4 u1 b1; do
    flashtl run masked.tl --in X=x.npy --in keep=keep_$kind.npy --out Y=$kind.npy && python3 -c "import npy; print(*npy.read('$kind.npy')[1])"
done
# A length of the first kernel that only an array of the second has; one that no array has.
cat > spread.tl <<'TL'
kernel spread
Input  X f32 (row in rows, column in columns)
Output Y f32 (head in heads; row in rows, column in columns)
Copy X from global to register and get T
Compute Multiply T, 2 and get T
Copy T from register to global and get Y
kernel weigh
Input  Y f32 (head in heads; row in rows, column in columns)
Input  w f32 (head in heads)
Output Z f32 (head in heads; row in rows, column in columns)
Copy Y from global to register and get T
Compute Multiply T, w[head] and get T
Copy T from register to global and get Z
TL
grep -v 'Input  w' spread.tl | sed 's/, w\[head\]/, 3/' > untold.tl
python3 - <<'P'
import npy
npy.write("x.npy", (5, 8), [k / 4 for k in range(40)], "f4")
npy.write("w.npy", (3,), [1, -2, 4], "f4")
P
for on in '--on interpreter' '--gpu t4 --on interpreter' '--gpu t4 --on emulator'; do
    flashtl run spread.tl $on --in X=x.npy --in w=w.npy --out Z=z.npy; echo "-> $?"
    python3 -c '
import npy
shape, values = npy.read("z.npy")
print(shape, list(values) == [2 * k / 4 * w for w in (1, -2, 4) for k in range(40)])'
    flashtl run untold.tl $on --in X=x.npy --out Z=z.npy; echo "-> $?"
    flashtl run untold.tl $on --in X=x.npy --out Z=z.npy --let heads=2; echo "-> $?"
done
