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
